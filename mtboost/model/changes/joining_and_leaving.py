# SPDX-License-Identifier: Apache-2.0
"""Changes of the tasks of a fitted model: a task that joins, or leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from mtboost.base.checked_tables import without_dates
from mtboost.base.checks import check_count, check_switch
from mtboost.base.classes import with_class_numbers
from mtboost.base.dataset import Dataset, as_task_column
from mtboost.base.given_splits import DEFAULT_FRACTION, check_eval_set, check_no_fraction
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.tables import columns_of
from mtboost.base.tasks import TaskName, TaskSet, as_name
from mtboost.base.threads import default_n_threads
from mtboost.base.validation import Folds, hold_out
from mtboost.errors import DataError, ParameterError
from mtboost.metrics.metric import Metric
from mtboost.metrics.scorers import is_known
from mtboost.model.changes.new_task import NewTask, Objective, learn_task, objective_of_new_task
from mtboost.model.inputs.checked_rows import check_rows, check_takes_new_rows
from mtboost.model.inputs.holding_out import with_positives
from mtboost.model.inputs.keywords import where_in_a_change, where_in_a_method
from mtboost.model.inputs.making_settings import (
    common_parameters,
    feature_prior_of,
    make_objectives,
)
from mtboost.model.inputs.named_objectives import labels_are_classes
from mtboost.model.prediction.new_rows import draws_unseen, with_kept_parameters
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.prediction.rows_of_task import (
    check_new_name,
    rows_of_new_task,
    validation_rows_of_new_task,
    without_task_column,
)
from mtboost.model.sharing.towards_constant import factor_of_new_values
from mtboost.model.stages.mixed_objective import unit_of_classes
from mtboost.model.stages.objectives import ObjectiveByTask, Objectives
from mtboost.model.stages.settings import Settings
from mtboost.trees.feature_weights import PriorOption
from mtboost.trees.task_quitting import check_early_stopping_rounds, check_min_delta
from mtboost.trees.tree_options import TreeOptions


class JoiningTasks(FittedTasks):
    """A :class:`mtboost.MultiTaskModel` whose tasks join and leave."""

    __slots__ = ()

    @renamed(where_in_a_change, patience="early_stopping_rounds")
    @reading_rows
    def add_task(
        self,
        task: TaskName,
        X: Any,
        y: Any,
        *,
        weight: Any = None,
        base_margin: Any = None,
        feature_names: Sequence[str] | None = None,
        eval_set: Sequence[Any] | None = None,
        validation_fraction: float = DEFAULT_FRACTION,
        params: Mapping[str, Any] | None = None,
        specific_rounds: int = 500,
        early_stopping_rounds: int | None = 20,
        min_delta: float = 0.0,
        feature_prior: PriorOption = None,
        objective: str | Callable[..., Any] | None = None,
        eval_metric: str | Metric | Callable[..., float] | None = None,
        refit: bool | None = None,
        n_threads: int | None = None,
        seed: int = 0,
    ) -> None:
        """Fit a new task: the common rounds that it uses, and a specific model.

        The common model and the other tasks stay unchanged. In a model of ``strategy="auto"`` the
        task has the common rounds of the others, and no specific model, unless its validation rows
        gain more than two standard errors by other ones.

        Parameters
        ----------
        task : int, str, bool or tuple of them
            Its name, different from those in :attr:`tasks` and of the same type; or, as in
            :func:`mtboost.fit`, the column of `X` that contains it, of nested tasks the columns.
        X : table of shape (n_rows, n_features)
            Rows of the task, with the common columns and any others. If some task of the model
            lacks a common column (``common_features="all"``), the new one may lack some, too.
            Columns of dates that no task of the model uses are left out.
        y : array-like of shape (n_rows,)
            Labels.
        weight : array-like of shape (n_rows,), optional
            Row weights >= 0.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margin that each row starts from.
        feature_names : sequence of str, optional
            Names for the columns of an array.
        eval_set : (X, y[, weight[, base_margin]]), optional
            Validation rows, instead of a fraction of `X`. With ``scale_pos_weight`` positive ones
            are weighted by it.
        validation_fraction : float in [0, 1), default=0.2
            Fraction of the rows that is held out without `eval_set`. With 0 the task uses the
            common rounds that any task uses, and gets no specific model.
        params : mapping, optional
            The library's parameters for the specific model that differ from those of the common
            model (``model.params``).
        specific_rounds : int, default=500
            Maximum number of rounds of the specific model; 0 for none.
        early_stopping_rounds : int or None, default=20
            Rounds without improvement after which the search of rounds ends, as in
            :func:`mtboost.fit`.
        min_delta : float, default=0.0
            Smaller improvements of the specific model do not count.
        feature_prior : "auto", mapping of feature name to float, or array-like, optional
            Importances by which the specific model draws its features, as in :func:`mtboost.fit`.
            Useful with few rows, which do not show the important features, if the common model
            does.
        objective : callable or str, optional
            The function that :func:`mtboost.fit` was given, if its objective was one. If each task
            has an objective, that of the new task; by default theirs, if all have the same.
        eval_metric : str, Metric or scorer, optional
            The metric that :func:`mtboost.fit` was given, if it has no name that is known: a model
            keeps names alone. If tasks have different objectives, the metric of the new task, by
            default that of its objective.
        refit : bool, optional
            Learn from training and validation rows together in the end, with the rounds found, as
            in :func:`mtboost.fit`. By default True if rows of `X` are held out, and False with
            `eval_set`.
        n_threads : int, optional
            By default the cores this process may use, or one for a small table.
        seed : int, default=0
            Seed of the validation split and of all sampling.

        Raises
        ------
        DataError, ParameterError, TypeError
            Before any training; the model is then unchanged.
        UnsupportedError
            The model ranks the rows of queries.
        """
        self._warn_without_start(base_margin)
        refit = None if refit is None else check_switch("refit", refit)
        stage, library, column = self._stage, self._library, self.task_column
        check_eval_set(eval_set, "(X, y)")
        check_no_fraction(eval_set, validation_fraction)
        X, eval_set = _without_dates(self, X, eval_set)
        # A list has the columns of tasks, or the labels of a nested one.
        task = as_name(as_task_column(task) or tuple(task) if isinstance(task, list) else task)
        if column is not None and type(task) is type(column) and task == column:
            found = without_task_column(stage, column, X, feature_names)[2]
            task = task if found is None else found
        check_new_name(task, self.tasks)
        check_takes_new_rows(self.objective, "add_task()")
        eval_set = with_class_numbers(eval_set, self.classes)
        rows = (X, y, weight, base_margin)
        data, own, params = checked_rows(
            self, task, rows, feature_names, params, objective, n_threads, seed
        )
        settings = Settings(
            backend=library,
            params=params,
            objectives=_objectives_beside(self, own, data.tasks, params, eval_metric),
            options=TreeOptions(unseen_at_random=draws_unseen(self, params)),
            rounds=0,
            early_stopping_rounds=check_early_stopping_rounds(early_stopping_rounds),
            min_delta=check_min_delta(min_delta),
            specific_params={},
            specific_rounds=check_count("specific_rounds", specific_rounds),
            n_threads=default_n_threads(n_threads, data.n_rows * data.common.n_features),
            feature_prior=feature_prior_of(library, feature_prior, params, data),
        )
        train: Dataset
        valid: Dataset | None
        if eval_set is None:
            classes = labels_are_classes(own, data.tasks)
            train, valid = hold_out(data, validation_fraction, classes, seed)
        else:
            train = data
            valid = validation_rows_of_new_task(stage, data, eval_set, feature_names, column)
            check_rows(library, valid, own, params, "eval_set: ")
        every = train if refit is False else data
        if valid is not None:
            if eval_set is not None and refit:
                valid.align(data)
                every = data.with_rows(valid)
            valid = with_positives(settings, Folds(((train, valid),)), data).pairs[0][1]
        signs = library.monotone_signs(self.params, self.common_columns)
        new = learn_task(
            stage,
            settings,
            train,
            valid,
            every,
            signs,
            is_auto=self.common_choice is not None,
            factor=factor_of_new_values(self.shrinkage_factor),
        )
        _add(self, task, new)

    @renamed(where_in_a_method)
    def remove_task(self, task: TaskName) -> Self:
        """Make a model without a task.

        The task's own model, its leaf values and its report are gone; the splits and the values
        that all tasks share stay as its rows have helped to make them. Of nested tasks the values
        of a group stay too, even when none of its tasks is left.

        Parameters
        ----------
        task : task name
            One of :attr:`tasks`, but not the only one.

        Returns
        -------
        MultiTaskModel
            A new model; this one stays as it is.

        Raises
        ------
        DataError
            The task is unknown, or the only one.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> shop = np.repeat(["a", "b", "c"], 100)
        >>> y = X[:, 0] + (shop == "b")
        >>> model = mtboost.fit(X, y, task=shop, strategy="two-stage", num_boost_round=20)
        >>> model.remove_task("b").tasks
        ('a', 'c')
        >>> model.tasks
        ('a', 'b', 'c')
        """
        self._check_task(task)
        if len(self.tasks) == 1:
            raise DataError(
                f"Task {task!r} is the only one of the model, which needs one: fit a new model."
            )
        names = (
            *("quit_round", "task_columns", "reports", "losses", "specific_params"),
            "conformity_scores",
        )
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        if isinstance(self.objective, dict):
            parts |= {"objective": self.objective, "metric": self.metric}
        found: dict[str, Any] = {
            name: {other: value for other, value in part.items() if other != task}
            for name, part in parts.items()
        }
        specific = self.specific.copy()
        del specific[task]
        trees = self.common_trees.without_task(task)
        if self.calibration is not None:
            found["calibration"] = self.calibration.without(task)
        return self._copy(**found, specific=specific, common_trees=trees)

    def replace_task(self, task: TaskName, X: Any, y: Any, **options: Any) -> Self:
        """Learn a task anew, as if it had not been there: :meth:`remove_task`, :meth:`add_task`.

        Parameters
        ----------
        task : task name
            One of :attr:`tasks`. It is the last of the new model.
        X : table of shape (n_rows, n_features)
            Rows of the task.
        y : array-like of shape (n_rows,)
            Labels.
        **options
            Further arguments of :meth:`add_task`. Where each task has an objective, the task keeps
            its own, and its metric if that has a known name, unless `objective` is given.

        Returns
        -------
        MultiTaskModel
            A new model; this one stays as it is.

        Raises
        ------
        DataError, ParameterError, TypeError
            The task is unknown or the only one, or as :meth:`add_task`.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> shop = np.repeat(["a", "b", "c"], 100)
        >>> y = X[:, 0] + (shop == "b")
        >>> model = mtboost.fit(X, y, task=shop, strategy="two-stage", num_boost_round=20)
        >>> model.replace_task("b", X[100:200], y[100:200]).tasks
        ('a', 'c', 'b')
        """
        model = self.remove_task(task)
        own = {}
        if self.losses and "objective" not in options:
            metric = self._metric_of(task)
            own = {"objective": self.losses[task].objective}
            own |= {"eval_metric": metric} if is_known(metric) else {}
        model.add_task(task, X, y, **(own | options))
        return model


def checked_rows(
    model: FittedTasks,
    task: TaskName,
    rows: tuple[Any, Any, Any, Any],
    feature_names: Sequence[str] | None,
    params: Mapping[str, Any] | None,
    objective: str | Callable[..., Any] | None,
    n_threads: int | None,
    seed: int,
) -> tuple[Dataset, Objective, dict[str, Any]]:
    """Return the rows, (X, y, weight, base_margin), of a task that joins a model.

    With them their objective and the parameters of the specific model.
    """
    library = model._library
    X, y, weight, base_margin = rows
    own = (X, model._encode(y), weight, base_margin)
    data = rows_of_new_task(model._stage, task, own, feature_names, model.task_column)
    given = with_kept_parameters(model, library.parameters({} if params is None else params))
    of_task = objective_of_new_task(model.objective, objective, task, data, library)
    found = common_parameters(library, given, of_task, data, n_threads, seed, is_ours=False)
    check_rows(library, data, of_task, found)
    return data, of_task, found


def _without_dates(
    model: FittedTasks, X: Any, eval_set: Sequence[Any] | None
) -> tuple[Any, Sequence[Any] | None]:
    """Return rows and validation rows without dates that no task uses, such as the time of `fit`.

    Other columns that no task uses may be features of the new one; dates may not.
    """
    used = model._used_columns
    if used is None:
        return X, eval_set
    if model.task_column is not None:
        used = used.union(map(str, columns_of(model.task_column)))
    if eval_set is not None and len(eval_set):
        eval_set = (without_dates(eval_set[0], used), *eval_set[1:])
    return without_dates(X, used), eval_set


def _objectives_beside(
    model: FittedTasks, own: Objective, tasks: TaskSet, params: Mapping[str, Any], eval_metric: Any
) -> Objectives:
    """Return the objective and the metric of a new task beside those of a model."""
    metric = eval_metric
    if metric is None and isinstance(model.metric, str):
        metric = model.metric
        if not is_known(metric):
            raise ParameterError(
                f"The tasks of this model are validated by {metric!r}, a metric of the user's, "
                "which the model does not keep: pass it as eval_metric to add_task()."
            )
    found = make_objectives(model._library, own, metric, tasks, params)
    if isinstance(model.metric, str) and found.metric.name != model.metric:
        raise ParameterError(
            f"eval_metric is {found.metric.name!r}, but the tasks of this model are validated by "
            f"{model.metric!r}: leave it out, or pass the metric that fit() was given."
        )
    if isinstance(found, ObjectiveByTask) and isinstance(model.objective, dict):
        unit = unit_of_classes({**model.objective, **found.by_task}, model.losses)
        found = replace(found, class_unit=unit)
    return found


def _add(model: FittedTasks, task: TaskName, new: NewTask) -> None:
    """Add what was learned of a new task to the parts of a model."""
    model.common_trees = new.trees
    if isinstance(model.objective, dict) and isinstance(model.metric, dict) and new.loss:
        model.losses[task] = new.loss
        model.objective[task] = new.loss.objective
        model.metric[task] = new.metric
    model.reports[task] = new.report
    model.task_columns[task] = new.columns
    model.specific[task] = new.specific
    model.specific_params[task] = new.params
    model.quit_round[task] = new.quit_round
    model.conformity_scores.pop(task, None)  # those of an unknown task
    model._cache.clear()
