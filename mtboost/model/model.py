# SPDX-License-Identifier: Apache-2.0
"""A fitted model of all tasks: its changes, and its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from mtboost.base.archive import require, write_model
from mtboost.base.atomic_file import PathName
from mtboost.base.checks import listed
from mtboost.base.given_splits import DEFAULT_FRACTION, check_no_fraction
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.tables import Table
from mtboost.base.task_tables import is_mapping
from mtboost.base.tasks import TaskName
from mtboost.base.validation import parts_of_eval_set, saying_of_eval_set
from mtboost.errors import DataError
from mtboost.metrics.scorers import is_known
from mtboost.model.changes.joining_and_leaving import JoiningTasks, checked_rows
from mtboost.model.changes.refreshing import RefreshedTasks
from mtboost.model.changes.updating import updated_parts
from mtboost.model.inputs.checked_rows import check_takes_new_rows
from mtboost.model.inputs.keywords import where_in_a_change, where_in_a_method
from mtboost.model.parts.model_file import from_parts, to_parts
from mtboost.model.prediction.new_rows import RowsOfTask, check_known, rows_by_task
from mtboost.model.prediction.rows_of_task import check_new_name
from mtboost.model.reports.reporting import ReportedTasks
from mtboost.trees.pooling import PoolingOption


@dataclass(slots=True, eq=False, repr=False)
class MultiTaskModel(ReportedTasks, JoiningTasks, RefreshedTasks):
    """Common model of all tasks and a specific continuation for each.

    Made by :func:`mtboost.fit`; :meth:`add_task` adds to it. The margin of task t is the sum of the
    first ``quit_round[t]`` rounds of ``common`` and of all of ``specific[t]`` (zhang2019, eq. 7).

    Attributes
    ----------
    common_trees : CommonTrees
        The common model as it was grown, from which ``common`` and the models of tasks are made.
    common : xgboost.Booster or lightgbm.Booster
        Trained on the common columns of all tasks. With partially pooled leaves its leaf values are
        those of all tasks together; those of a task are in its :meth:`booster`.
    backend : {"xgboost", "lightgbm"}
        The library of all boosters.
    specific : mapping of task name to Booster or None
        Trained on all columns of the task, starting from its margins under ``common``. None where
        nothing was gained; a task with additional columns then has a model that adds nothing.
    quit_round : dict of task name to int
        Rounds of ``common`` that the task uses.
    tasks : tuple of task names
        In the order of training; tasks of :meth:`add_task` come last.
    task_column : str, int, tuple of str, or None
        Column of the tables that contains the task, if one was named; of nested tasks a tuple.
    task_position : int, tuple of int, or None
        Its position in the table of training, and so in arrays to predict; of nested tasks those of
        all columns. None in early files.
    common_columns : Columns
        Columns of the common model.
    task_columns : dict of task name to Columns
        Columns of each task.
    objective : str, or dict of task name to str
        Objective, of each task if they were given by task.
    metric : str, or dict of task name to str
        Validation metric, of each task if they were given by task.
    history : dict of task name to dict of str to ndarray of float64
        Validation metric after each round, by stage.
    reports : dict of task name to TaskReport
        The rows of :meth:`report`.
    losses : dict of task name to TaskLoss
        Start, unit and dispersion of each task, if tasks have different objectives: ``common`` adds
        to a task's margin in its unit (docs/mixed_tasks.md). Empty if all have one objective.
    common_losses : dict of str to float
        Mean validation loss of each common model that ``strategy="auto"`` evaluated, in the order
        of the search; else empty. NaN is one that a limit of time (`effort`) left out. Of a model
        that was behind in the first folds, and not trained in the others, it is estimated: as far
        from the loss of the best model then as in those folds.
    common_choice : str or None
        The chosen one of them. None for other models, and in early files.
    shrinkage_factor : float or None
        Factor by which ``strategy="auto"`` multiplied all margins above the start score, from 0 (a
        constant) to 1 (not shrunk; docs/strategies.md). None for other models, and in early files.
    has_task_levels : bool or None
        Whether ``strategy="auto"`` estimated the levels of the tasks again after the trees of the
        common model (docs/linear_effects.md). None for other models, and in early files.
    unseen_at_random : bool
        Whether its trees were grown with ``unseen_at_random``, as those that :meth:`update` and
        :meth:`add_task` add are.
    has_base_margin : bool
        Whether the training rows had a ``base_margin``: other rows need theirs, and a warning says
        so where they have none. False in early files.
    params : dict of str to object
        The library's parameters that the common model was trained with. Empty in files of the first
        versions of mtboost.
    specific_params : dict of task name to dict of str to object
        Those of each task's model.
    label_names : tuple of str or int, or None
        Names of the labels of a row that the model was fitted with, in the order of their columns,
        if there were several; each is a task, or the first level of tasks. Predictions have the
        columns of those that :meth:`remove_task` has left.
    calibration : Calibration or None
        Slope and intercept of each task's log-odds in its margin (docs/calibration.md); None
        without ``fit(calibrate=True)``, after :meth:`refresh`, and after :meth:`update` with new
        rounds.
    conformity_scores : dict of task name to ndarray of float64
        Scores of held-out rows, by which :meth:`predict_interval` works. Empty without
        ``fit(intervals=True)`` or :meth:`conformalize`.
    classes : tuple of str, or None
        Names of the classes, ascending, if labels were texts; methods that need labels take texts
        then. None for numbers.
    """

    # ---- changes ----------------------------------------------------------------------------

    @renamed(where_in_a_change)
    @reading_rows
    def update(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        rounds: int = 100,
        params: Mapping[str, Any] | None = None,
        pooling: PoolingOption = "auto",
        eval_set: Sequence[Any] | None = None,
        validation_fraction: float = DEFAULT_FRACTION,
        n_threads: int | None = None,
        seed: int = 0,
    ) -> MultiTaskModel:
        """Train more rounds on new rows, starting from the predictions of this model.

        The rows of all known tasks together grow the new trees, whose leaves are partially pooled,
        so that a task may move on its own as far as its rows show it. Validation rows find the
        number of new rounds; there are none unless they gain more than one standard error.
        Predictions, intervals and calibration then stay as they are. Rows of new tasks follow the
        updated common model, and get their own model, as by :meth:`add_task`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            New rows, as in :meth:`predict`; not those of training, whose predictions are too good.
        y : array-like of shape (n_rows,), or mapping of task name to array-like
            Labels.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        weight : like `y`, optional
            Row weights >= 0. The `task_weight` of :func:`mtboost.fit` is not kept, as rows of other
            counts would need others: multiply it in.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), or mapping, optional
            Margin that each row starts from, if training had one.
        rounds : int, default=100
            Maximum number of new rounds.
        params : mapping, optional
            Parameters of the library that differ from `params`.
        pooling : float or "auto", default="auto"
            κ of the new leaves, as in :func:`mtboost.fit`; infinity for the same values for all.
        eval_set : (X, y[, task[, weight[, base_margin]]]), optional
            Rows of known tasks by which the number of rounds is found, instead of new rows that are
            held out. With ``scale_pos_weight`` positive ones are weighted by it.
        validation_fraction : float in [0, 1), default=0.2
            Fraction of the new rows of each task that is held out to find the number of rounds;
            with these the new trees are then trained on all new rows. With 0 all
            `rounds` are trained.
        n_threads : int, optional
            By default the cores this process may use, or one for a small table.
        seed : int, default=0
            Seed of the validation split and of all sampling.

        Returns
        -------
        MultiTaskModel
            A new model; this one stays as it is. In its report ``before`` is the validation metric
            without the new rounds. It is that of the objective, which finds their number, and has
            its name in the report where it is not ``model.metric``.

        Raises
        ------
        DataError, ParameterError, TypeError
            The rows do not fit the model.
        UnsupportedError
            The model ranks the rows of queries, or comes from a file without the parameters of
            training, and `params` has none.

        Notes
        -----
        A model whose objective was a function is updated by the loss that `objective` names.
        Specific models of new tasks do not draw features by the `feature_prior` of
        :func:`mtboost.fit`, which is not kept: give it to :meth:`add_task`.
        The new trees follow the common ones. Tasks that use a part of these, or an average with an
        independent model, have the new trees in `specific`. Unknown tasks, and new tasks in `X`,
        have the new trees unless all known tasks are of this kind; a warning then says that they
        have the common model of before.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> shop = np.repeat(["a", "b", "c"], 100)
        >>> y = X[:, 0] + (shop == "b")
        >>> model = mtboost.fit(X, y, task=shop, strategy="two-stage", num_boost_round=20)
        >>> X2 = rng.normal(size=(300, 2))
        >>> y2 = X2[:, 0] + X2[:, 1]
        >>> updated = model.update(X2, y2, task=shop, rounds=30)
        >>> def error(model):
        ...     return float(np.mean((model.predict(X2, task=shop) - y2) ** 2))
        >>> error(updated) < error(model)
        True
        """
        check_takes_new_rows(self.objective, "update()")
        rows = rows_by_task(self, X, y, task, weight, base_margin)
        new = {
            name: (table, self._decode(labels), *own)
            for name, (table, labels, *own) in rows.items()
            if name not in self.quit_round
        }
        known = {name: own for name, own in rows.items() if name in self.quit_round}
        if eval_set is not None and not known:
            raise DataError(
                "eval_set has rows of known tasks, which find the number of new rounds, and X has "
                "rows of new tasks alone: call add_task(..., eval_set=...) for each."
            )
        if not new:  # of whose rows a part is held out
            check_no_fraction(eval_set, validation_fraction)
        if not is_mapping(X):  # it may have columns that no task uses
            new = {name: (self.common_columns.align(own[0]), *own[1:]) for name, own in new.items()}
        self._check_new_tasks(new, params, n_threads, seed)
        parts: dict[str, Any] = {}
        if known:
            parts = updated_parts(
                self,
                known,
                rounds=rounds,
                params=params,
                pooling=pooling,
                validation_fraction=validation_fraction,
                eval_rows=None if eval_set is None else self._eval_rows(eval_set, known),
                n_threads=n_threads,
                seed=seed,
            )
            if parts.keys() > {"reports"}:  # there are new rounds
                parts |= self._without_what_predictions_showed()
        model = self._copy(**parts)
        for name, (table, labels, own_weight, margin) in new.items():
            model.add_task(
                name,
                table.native,
                labels,
                weight=own_weight,
                base_margin=margin,
                feature_names=_names_of(table),
                params=params,
                validation_fraction=validation_fraction,
                n_threads=n_threads,
                seed=seed,
            )
        return model

    def _check_new_tasks(
        self,
        new: Mapping[TaskName, RowsOfTask],
        params: Mapping[str, Any] | None,
        n_threads: int | None,
        seed: int,
    ) -> None:
        """Raise an error where rows of new tasks, or their absent arguments, do not fit."""
        if new and isinstance(self.objective, dict) and len(set(self.objective.values())) > 1:
            raise DataError(
                f"X has rows of the new {listed(list(new), 'task')}, and tasks have different "
                "objectives: call add_task(..., objective=...) for each."
            )
        if new and isinstance(self.metric, str) and not is_known(self.metric):
            raise DataError(
                f"X has rows of the new {listed(list(new), 'task')}, and the model does not keep "
                f"{self.metric!r}, a metric of the user's: call add_task(..., eval_metric=...) for "
                "each."
            )
        for name in new:
            check_new_name(name, self.tasks)
        for name, (table, *own) in new.items():
            rows, names = (table.native, *own), _names_of(table)
            try:
                checked_rows(self, name, rows, names, params, None, n_threads, seed)
            except DataError as error:
                raise DataError(f"Rows of the new task {name!r}: {error}") from None

    def _eval_rows(
        self, eval_set: Sequence[Any], known: Mapping[TaskName, Any]
    ) -> dict[TaskName, RowsOfTask]:
        """Return the validation rows of tasks that have new rows."""
        X, y, task, weight, base_margin, _ = parts_of_eval_set(eval_set)
        with saying_of_eval_set():
            rows = rows_by_task(self, X, y, task, weight, base_margin)
            check_known(self, rows, "Leave them out of eval_set.")
        own = {name: part for name, part in rows.items() if name in known}
        if not own:
            raise DataError(
                f"eval_set has no row of the tasks that X has rows of: {listed(known, 'task')}."
            )
        return own

    # ---- files ------------------------------------------------------------------------------

    @renamed(where_in_a_method)
    def save(self, path: PathName) -> None:
        """Write the model to one file (docs/model_file.md), replacing an existing one in one step.

        Parameters
        ----------
        path : str, bytes or path-like
            With any suffix. An existing file keeps its mode, and a symbolic link is followed.

        Raises
        ------
        OSError
            The file cannot be written, or `path` is not that of a regular file. A file that was
            there is then as it was.
        """
        write_model(path, lambda: to_parts(self.__getstate__()))

    @classmethod
    def _from_file(cls, metadata: Mapping[str, Any], members: Mapping[str, bytes]) -> Self:
        """Make a model of what a file holds; raises if anything does not fit."""
        model = cls(**from_parts(metadata, members))
        model._check()
        return model

    def _check(self) -> None:
        """Raise ModelFormatError unless what a file holds fits together."""
        self._stage.check()
        self.specific.check_columns(self._library, self.task_columns)
        if self.classes is not None:
            n_outputs = self._stage.n_outputs
            n_classes = 2 if n_outputs == 1 else n_outputs
            are_names = len(set(self.classes)) == len(self.classes) == n_classes
            require(are_names, "classes are not those of the outputs")


def _names_of(table: Table) -> Sequence[str] | None:
    """Return the names of a table's columns, unless the table itself has them."""
    return None if table.column_types else table.feature_names
