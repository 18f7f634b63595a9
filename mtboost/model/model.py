# SPDX-License-Identifier: Apache-2.0
"""A fitted model of all tasks, and the ordinary boosters it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.base.archive import require, write_model
from mtboost.base.atomic_file import PathName
from mtboost.base.checks import check_choice, check_count, check_type, did_you_mean, listed
from mtboost.base.dataset import Dataset, is_column, split_task_column
from mtboost.base.labels import as_base_margin
from mtboost.base.renamed import renamed
from mtboost.base.tables import Columns, Table, as_table
from mtboost.base.task_tables import check_task_keys, is_mapping
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import default_n_threads
from mtboost.base.validation import hold_out
from mtboost.errors import DataError, MissingDependencyError, ParameterError, UnsupportedError
from mtboost.model.arguments import (
    check_rows,
    common_parameters,
    feature_prior_of,
    labels_are_classes,
    make_objectives,
)
from mtboost.model.boosters import Boosters
from mtboost.model.common_stage import CommonStage
from mtboost.model.common_trees import CommonTrees
from mtboost.model.new_task import (
    NewTask,
    check_new_name,
    learn_task,
    objective_of_new_task,
    rows_of_new_task,
    validation_rows_of_new_task,
    without_task_column,
)
from mtboost.model.parts import to_parts
from mtboost.model.reports import TaskReport, report_rows
from mtboost.model.stages.settings import Settings
from mtboost.model.task_trees import TaskTrees
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.feature_weights import PriorOption
from mtboost.trees.losses import TaskLoss, is_classification, is_multiclass
from mtboost.trees.task_quitting import check_early_stopping_rounds, check_min_delta
from mtboost.trees.tree_options import TreeOptions

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas as pd

UnknownTask = Literal["error", "common"]


@dataclass(slots=True, eq=False, repr=False)
class MultiTaskModel:
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
    task_column : str, int or None
        Column of the tables that contains the task, if one was named.
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
        of the search; else empty.
    """

    common_trees: CommonTrees
    specific: Boosters
    quit_round: dict[TaskName, int]
    common_columns: Columns
    task_columns: dict[TaskName, Columns]
    objective: str | dict[TaskName, str]
    metric: str | dict[TaskName, str]
    task_column: str | int | None
    reports: dict[TaskName, TaskReport]
    losses: dict[TaskName, TaskLoss] = field(default_factory=dict)
    common_losses: dict[str, float] = field(default_factory=dict)
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        n_specific = sum(report.specific_rounds > 0 for report in self.reports.values())
        kinds = dict.fromkeys(self.losses[task].objective for task in self.losses)
        return (
            f"<MultiTaskModel {', '.join(kinds) or self.objective}: {len(self.tasks)} tasks, "
            f"{self._library.n_rounds(self.common)} common rounds, {n_specific} specific models>"
        )

    @property
    def common(self) -> Any:
        """Booster of the common model."""
        return self.common_trees.booster

    @property
    def backend(self) -> str:
        """Name of the library of all boosters."""
        return self._library.name

    @property
    def _library(self) -> Backend:
        return self.common_trees.backend

    @property
    def _stage(self) -> CommonStage:
        """The common model as each task follows it, and what predictions keep of it."""
        found = self._cache.get("stage")
        if found is None:
            stage = CommonStage(
                self.common_trees,
                self.quit_round,
                self.common_columns,
                self.task_columns,
                self.losses,
            )
            found = self._cache.setdefault("stage", stage)
        own: CommonStage = found
        return own

    @property
    def _task_trees(self) -> TaskTrees:
        """The trees that the core predicts with."""
        found = self._cache.get("trees")
        if found is None:  # threads may arrive here together: one of them adds what all use
            found = self._cache.setdefault("trees", TaskTrees(self._stage, self.specific))
        trees: TaskTrees = found
        return trees

    @property
    def _task_set(self) -> TaskSet:
        """The tasks by code."""
        found = self._cache.get("task set")
        if found is None:
            found = self._cache.setdefault("task set", TaskSet(self.tasks, np.empty(0, np.int32)))
        task_set: TaskSet = found
        return task_set

    @property
    def tasks(self) -> tuple[TaskName, ...]:
        """Names of the tasks, in the order of training."""
        return tuple(self.quit_round)

    @property
    def history(self) -> dict[TaskName, dict[str, npt.NDArray[np.float64]]]:
        """Validation metric of each task after 0, 1, ... rounds, by stage.

        Curves of models of the training rows alone, by which rounds were found; empty where there
        were no validation rows. With ``strategy="auto"`` of the common model that was chosen, and
        of the task's specific or independent model, unless its rounds were found at another
        learning rate.
        """
        return {
            task: {"common": report.common_history, "specific": report.specific_history}
            for task, report in self.reports.items()
        }

    # ---- predictions ------------------------------------------------------------------------

    def predict_margin(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask = "error",
    ) -> Any:
        """Sum of the leaf values each row reaches, before the inverse link.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in training, by name if they have names; further columns are ignored.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), or mapping, optional
            Margin that each row starts from.
        unknown_task : {"error", "common"}
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the longest part of the common model that any task uses. Where each task has an
            objective, nothing says what the common model means for others: they are refused.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_classes); for a mapping, a dict of them
            Margin scale: log-odds for a logistic objective, units of the label for squared error,
            each task's own where objectives differ.

        Raises
        ------
        DataError
            Columns are missing, or a task is unknown (the known ones are listed).
        """
        return self._margins(X, task, base_margin, unknown_task)[0]

    def _margins(
        self, X: Any, task: Any, base_margin: Any, unknown_task: UnknownTask
    ) -> tuple[Any, npt.NDArray[np.int32]]:
        """Margins, and if `X` is one table the code of each row's task, -1 if it is unknown."""
        check_choice("unknown_task", unknown_task, ("error", "common"))
        if self.losses and unknown_task == "common":
            raise ParameterError(
                "unknown_task='common' needs one objective of all tasks; here each has its own, "
                "and a start and a unit that an unknown task lacks: call add_task(), or predict "
                "the rows as those of a known task."
            )
        if is_mapping(X):
            unknown = [name for name in X if name not in self.quit_round]
            if unknown and unknown_task == "error":
                raise DataError(
                    f"X has unknown {listed(unknown, 'task')}. Known: "
                    f"{listed(self.tasks, 'task')}.{did_you_mean(unknown[0], self.tasks)}"
                )
            if base_margin is not None:
                check_task_keys("base_margin", base_margin, X)
            by_task = {
                name: self._task_margins(
                    as_table(table, argument=f"X[{name!r}]"),
                    name,
                    None if base_margin is None else base_margin[name],
                )
                for name, table in X.items()
            }
            return by_task, np.empty(0, np.int32)
        table, labels = self._split(X, task)
        may_keep = unknown_task == "common" or bool(self.losses)
        codes = self._task_set.encode(labels, table.n_rows, unknown="keep" if may_keep else "error")
        if self.losses and codes.min(initial=0) < 0:
            raise DataError(
                f"The task label at row {int(codes.argmin())} is unknown. Known: "
                f"{listed(self.tasks, 'task')}. Give the new task to add_task() first."
            )
        start = self._start(base_margin, table.n_rows)
        found = self._task_trees.margins(table, codes, start)
        if found is not None:
            return found, codes
        margins = self._stage.margins(table, codes, start)
        for code in np.unique(codes[codes >= 0]):
            name = self.tasks[code]
            booster = self.specific[name]
            if booster is not None:
                rows = np.flatnonzero(codes == code)
                own = self.task_columns[name].align(table.take(rows))
                margins[rows] = self._library.predict_margin(booster, own, margins[rows])
        return margins, codes

    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask = "error",
    ) -> Any:
        """Predict on the scale of the labels, as ``Booster.predict`` of the library does.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in training, by name if they have names; further columns are ignored.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), or mapping, optional
            Margin that each row starts from.
        unknown_task : {"error", "common"}
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the longest part of the common model that any task uses. Where each task has an
            objective, nothing says what the common model means for others: they are refused.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_classes); for a mapping, a dict of them
            Probabilities for a classifier, else in the unit of the labels.

        Raises
        ------
        DataError
            Columns are missing, or a task is unknown (the known ones are listed).
        """
        margins, codes = self._margins(X, task, base_margin, unknown_task)
        return self._by_objective(self._response, margins, codes)

    def predict_proba(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask = "error",
    ) -> Any:
        """Compute the probability of each class.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in training, by name if they have names; further columns are ignored.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), or mapping, optional
            Margin that each row starts from.
        unknown_task : {"error", "common"}
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the longest part of the common model that any task uses. Where each task has an
            objective, nothing says what the common model means for others: they are refused.

        Returns
        -------
        ndarray, shape (n_rows, n_classes); for a mapping, a dict of them
            Also with two classes one column for each.

        Raises
        ------
        DataError
            The objective is not that of a classifier, or not that of every task that has rows; or
            as :meth:`predict_margin`.
        """
        if isinstance(self.objective, str) and not is_classification(self.objective):
            raise DataError(
                f"predict_proba needs a classifier; the objective is {self.objective!r}."
            )
        margins, codes = self._margins(X, task, base_margin, unknown_task)
        if self.losses:
            self._check_are_classes(
                margins if isinstance(margins, dict) else [self.tasks[c] for c in np.unique(codes)]
            )
        return self._by_objective(self._probabilities, margins, codes)

    def _check_are_classes(self, tasks: Iterable[TaskName]) -> None:
        others = [name for name in tasks if not is_classification(self.losses[name].objective)]
        if others:
            classes = [n for n, loss in self.losses.items() if is_classification(loss.objective)]
            raise DataError(
                f"predict_proba needs tasks of classes, but X has rows of {listed(others, 'task')}"
                + (f": pass those of {listed(classes, 'task')} alone." if classes else ".")
            )

    def _split(self, X: Any, task: Any) -> tuple[Table, Any]:
        """Features and task labels of one table of all tasks."""
        try:
            return split_task_column(X, self.task_column if task is None else task)
        except DataError as error:
            if not is_column(task) or task not in self.quit_round:
                raise
            raise DataError(
                f"{error} task names a column of X, or holds one label a row. For rows of one "
                f"task pass X={{{task!r}: table}}."
            ) from None

    def _by_objective(
        self,
        response: Callable[[Margins, TaskName | None], Margins],
        margins: Any,
        codes: npt.NDArray[np.int32],
    ) -> Any:
        """Apply `response` to the margins of rows with one objective, and a task that has it.

        Margins and codes as from :meth:`_margins`.
        """
        if isinstance(margins, dict):
            return {name: response(part, name) for name, part in margins.items()}
        if not self.losses:
            return response(margins, None)
        kinds = [repr((loss.objective, loss.options)) for loss in self.losses.values()]
        kind_of_row = np.array([kinds.index(kind) for kind in kinds])[codes]
        parts = []
        for first in np.unique(kind_of_row):
            rows = np.flatnonzero(kind_of_row == first)
            parts.append((rows, response(margins[rows], self.tasks[first])))
        found = np.empty((len(margins), *parts[0][1].shape[1:]), margins.dtype)
        for rows, part in parts:
            found[rows] = part
        return found

    def _task_margins(self, table: Table, task: TaskName, base_margin: Any) -> Margins:
        if table.feature_names is None and task in self.task_columns:
            table = self.task_columns[task].align(table)  # now with the names it had in training
        code = self.tasks.index(task) if task in self.quit_round else -1
        codes = np.full(table.n_rows, code, np.int32)
        start = self._start(base_margin, table.n_rows)
        found = self._task_trees.margins(table, codes, start)
        if found is not None:
            return found
        margins = self._stage.margins(table, codes, start)
        booster = self.specific.get(task)
        if booster is None:
            return margins
        own = self.task_columns[task].align(table)
        return self._library.predict_margin(booster, own, margins)

    def _start(self, base_margin: Any, n_rows: int) -> npt.NDArray[np.floating] | None:
        if base_margin is None:
            return None
        return as_base_margin(base_margin, n_rows, self._stage.n_outputs)

    def _response(self, margins: Margins, task: TaskName | None) -> Margins:
        return self._stage.response(task)(margins)

    def _probabilities(self, margins: Margins, task: TaskName | None) -> Margins:
        own = self.losses.get(task) if task is not None else None
        objective = str(self.objective) if own is None else own.objective
        found = self._stage.probabilities(task, objective)(margins)
        return np.column_stack([1 - found, found]) if found.ndim == 1 else found

    # ---- single tasks -----------------------------------------------------------------------

    def booster(self, task: TaskName | None = None) -> Any:
        """One ordinary booster for a task: its common rounds, then its specific rounds.

        It predicts from the task's columns and has no others, gives the model's margins (of XGBoost
        bit for bit; of LightGBM up to the order of two sums in double precision), and needs no
        mtboost.

        Parameters
        ----------
        task : task name, optional
            By default all: a booster with an output for each task, in the order of :attr:`tasks`,
            which predicts every row as if it were of every task. Tasks that cut rows alike share
            trees whose leaves hold a number for each of them. XGBoost has such trees, LightGBM has
            not.

        Returns
        -------
        xgboost.Booster or lightgbm.Booster
            With the categories and names of the training columns.

        Raises
        ------
        DataError
            The task is unknown, or there are so many different trees of tasks that one booster of
            all would be enormous.
        UnsupportedError
            A booster of all tasks that the library has not: of LightGBM, of several classes, or of
            tasks with different objectives.
        """
        if task is None:
            return self._booster_of_all()
        self._check_task(task)
        return self._stage.continued_by(task, self.specific[task]).load()

    def _booster_of_all(self) -> Any:
        if self.losses or self._stage.n_outputs > 1:
            why = "its tasks have several classes"
            if self.losses:
                why = "its tasks have different objectives"
            raise UnsupportedError(
                f"There is no booster of all tasks of this model, since {why}: name one, such as "
                f"booster({self.tasks[0]!r})."
            )
        return self._library.stacked(
            self._stage.continued_by(task, self.specific[task]) for task in self.tasks
        )

    @renamed(patience="early_stopping_rounds")
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
        validation_fraction: float = 0.2,
        params: Mapping[str, Any] | None = None,
        specific_rounds: int = 500,
        early_stopping_rounds: int | None = 20,
        min_delta: float = 0.0,
        feature_prior: PriorOption = None,
        objective: str | Callable[..., Any] | None = None,
        n_threads: int | None = None,
        seed: int = 0,
    ) -> None:
        """Fit a new task: the common rounds that it uses, and a specific model.

        The common model and the other tasks stay unchanged.

        Parameters
        ----------
        task : int, str or bool
            Its name, different from those in :attr:`tasks` and of the same type; or, as in
            :func:`mtboost.fit`, the column of `X` that contains it.
        X : table of shape (n_rows, n_features)
            Rows of the task, with the common columns and any others. If some task of the model
            lacks a common column (``common_features="all"``), the new one may lack some, too.
        y : array-like of shape (n_rows,)
            Labels.
        weight : array-like of shape (n_rows,), optional
            Row weights >= 0.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margin that each row starts from.
        feature_names : sequence of str, optional
            Names for the columns of an array.
        eval_set : (X, y[, weight[, base_margin]]), optional
            Validation rows, instead of a fraction of `X`.
        validation_fraction : float in [0, 1), default=0.2
            Fraction of the rows that is held out without `eval_set`. With 0 the task uses the
            common rounds that any task uses, and gets no specific model.
        params : mapping, optional
            The library's parameters for the specific model.
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
            The function that :func:`mtboost.fit` was given, if its objective was one. If tasks have
            different objectives, the required objective of the new task; its metric validates it.
        n_threads : int, optional
            By default the cores this process may use, or one for a small table.
        seed : int, default=0
            Seed of the validation split and of all sampling.

        Raises
        ------
        DataError, ParameterError, TypeError
            Before any training; the model is then unchanged.
        """
        stage, library, column = self._stage, self._library, self.task_column
        if column is not None and type(task) is type(column) and task == column:
            found = without_task_column(stage, column, X, feature_names)[2]
            task = task if found is None else found
        check_new_name(task, self.tasks)
        data = rows_of_new_task(stage, task, (X, y, weight, base_margin), feature_names, column)
        given = library.parameters({} if params is None else params)
        if is_multiclass(self.objective):  # the new task may lack a class
            given["num_class"] = stage.n_outputs
        own = objective_of_new_task(self.objective, objective, task, data, library)
        params = common_parameters(library, given, own, data, n_threads, seed, is_ours=False)
        check_rows(library, data, own, params)
        settings = Settings(
            backend=library,
            params=params,
            objectives=make_objectives(
                library, own, None if self.losses else self.metric, data.tasks, params
            ),
            options=TreeOptions(),
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
        self._add(task, learn_task(stage, settings, train, valid, own))

    def _add(self, task: TaskName, new: NewTask) -> None:
        self.common_trees = new.trees
        if isinstance(self.objective, dict) and isinstance(self.metric, dict) and new.loss:
            self.losses[task] = new.loss
            self.objective[task] = new.loss.objective
            self.metric[task] = new.metric
        self.reports[task] = new.report
        self.task_columns[task] = new.columns
        self.specific[task] = new.specific
        self.quit_round[task] = new.quit_round
        self._cache.clear()

    def importance(
        self,
        task: TaskName,
        importance_type: Literal[
            "gain", "total_gain", "weight", "cover", "total_cover", "contribution"
        ]
        | None = None,
        *,
        X: Any = None,
    ) -> dict[str, float]:
        """Compute the importance of each feature that the task's trees use, over both stages.

        Gains, splits and covers are those of the task's :meth:`booster`, as in
        ``xgboost.Booster.get_score``. Gains and covers of common trees are of the rows of all
        tasks: where all tasks have the same trees, they say what matters to all of them. Where a
        task has its leaf values, by pooling or by nodes that divide the tasks, gains are
        computed from these: by how much its values differ on the two sides of a split. What the
        common rounds gain for all tasks can outweigh what specific rounds gain for one.

        Contributions (SHAP values) of rows of the task show what its predictions depend on in any
        model, both stages together and in the unit of its margins.

        Parameters
        ----------
        task : task name
            One of :attr:`tasks`.
        importance_type : str, optional
            ``"contribution"`` is the mean absolute contribution in the rows of `X`, of the others
            LightGBM has ``"gain"``, ``"total_gain"`` and ``"weight"``. By default
            ``"contribution"`` if `X` is given, else ``"gain"``, the mean over splits.
        X : table of shape (n_rows, n_features), optional
            Rows of the task, with its columns.

        Returns
        -------
        dict of str to float
            Importance by name of the feature; features that no tree uses are missing.

        Raises
        ------
        DataError, ParameterError
            The task is unknown, `X` lacks columns or rows, or does not go with `importance_type`.
        """
        if importance_type is None:
            importance_type = "gain" if X is None else "contribution"
        check_type("importance_type", importance_type, str, "None or a str")
        if (importance_type == "contribution") != (X is not None):
            raise ParameterError(
                f"importance_type is {importance_type!r} and X is "
                f"{'missing' if X is None else 'given'}: contributions, and nothing else, are "
                "computed from rows of the task."
            )
        self._check_task(task)
        columns = self.task_columns[task]
        names = self._library.feature_names(columns)
        if X is None:
            found = self._library.importance(self.booster(task), importance_type)
        else:
            parts = np.abs(self._task_contributions(as_table(X), task)[..., :-1])
            means = parts.reshape(-1, columns.n).mean(axis=0).tolist()
            found = {name: value for name, value in zip(names, means, strict=True) if value > 0}
        own = dict(zip(names, columns.names or (), strict=False))
        return {own.get(name, name): value for name, value in found.items()}

    def contributions(self, X: Any, *, task: Any = None) -> Any:
        """Contribution of each feature to each margin: exact SHAP values, and the bias last.

        Parameters
        ----------
        X, task
            As in :meth:`predict_margin`.

        Returns
        -------
        ndarray, shape (n_rows, n_features + 1), or a dict of them for a mapping
            Columns in the order of the task's features; a row adds up to its margin.
        """
        if is_mapping(X):
            return {
                name: self._task_contributions(as_table(table, argument=f"X[{name!r}]"), name)
                for name, table in X.items()
            }
        table, labels = self._split(X, task)
        codes = self._task_set.encode(labels, table.n_rows)
        widths = {self.task_columns[self.tasks[code]] for code in np.unique(codes)}
        if len(widths) > 1:
            raise DataError("The tasks have different columns: pass X as a mapping {task: table}.")
        result: Margins | None = None
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            part = self._task_contributions(table.take(rows), self.tasks[code])
            if result is None:
                result = np.empty((table.n_rows, *part.shape[1:]), part.dtype)
            result[rows] = part
        return result

    def _task_contributions(self, table: Table, task: TaskName) -> Margins:
        self._check_task(task)
        own = self.task_columns[task].align(table)
        return self._library.contributions(self.booster(task), own)

    def _check_task(self, task: TaskName) -> None:
        if task not in self.quit_round:
            raise DataError(
                f"task {task!r} is unknown. Known: {listed(self.tasks, 'task')}."
                f"{did_you_mean(task, self.tasks)}"
            )

    # ---- report -----------------------------------------------------------------------------

    def report(self) -> pd.DataFrame:
        """One row per task: rows, positives, rounds of both stages and validation scores.

        Returns
        -------
        pandas.DataFrame
            Columns ``objective``, ``rows``, ``valid_rows``, ``positives`` (classifiers),
            ``quit_round``, ``specific_rounds``, ``why_no_specific``, and the validation metric of
            ``common`` and ``final``, and of each baseline where ``fit(baselines=True)`` trained
            them. Where each task has its objective, ``metric`` names the metric.
            ``strategy="auto"`` adds ``sharing``, and the metric of each way. ``rows`` are those
            beside the validation rows; where each row is held out once, both are all rows.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingDependencyError(
                "report() gives a pandas DataFrame: pip install 'mtboost[report]'."
            ) from None
        return pd.DataFrame.from_dict(
            report_rows(self.reports, self.objective, self.metric), orient="index"
        ).rename_axis("task")

    def plot_history(self, *, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draw the :attr:`history` of each task, rounds of both stages, with a dot where it quit.

        Needs matplotlib. With more than ten tasks only the ten largest are drawn. An independent
        model of ``strategy="auto"``, averaged or not, starts at round 0 like the common one.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default new ones.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the curves.

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        DataError
            No task has a validation curve.
        """
        try:
            from mtboost.model.plotting import plot_history
        except ImportError:
            raise MissingDependencyError(
                "plot_history() needs matplotlib: pip install 'mtboost[plot]'."
            ) from None
        return plot_history(self.reports, self.metric, ax=ax)

    # ---- files ------------------------------------------------------------------------------

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

    def _check(self) -> None:
        """Raise ModelFormatError unless what a file holds fits together."""
        self._stage.check()
        for task, booster in self.specific.items():
            own = self.task_columns[task]
            has_columns = booster is None or self._library.has_columns(booster, own)
            require(has_columns, f"the specific model of task {task!r} has other columns")

    def __getstate__(self) -> dict[str, Any]:
        names = [name for name in self.__dataclass_fields__ if name != "_cache"]
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "_cache": {}}.items():
            setattr(self, name, value)
