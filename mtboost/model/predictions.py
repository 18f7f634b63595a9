# SPDX-License-Identifier: Apache-2.0
"""Predictions of a fitted model, and the ordinary boosters it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_choice, check_switch, check_type, did_you_mean, listed
from mtboost.base.classes import class_numbers
from mtboost.base.dataset import (
    as_task_column,
    is_column,
    split_task_column,
    take_task_column,
)
from mtboost.base.frames import FrameLibrary, Output, as_frame, predictions_as, unlike
from mtboost.base.labels import as_base_margin
from mtboost.base.several_labels import LabelNames, label_codes, labels_of
from mtboost.base.tables import Columns, Table, TaskColumn, TaskPosition, as_table, has_names
from mtboost.base.task_tables import check_task_keys, is_mapping
from mtboost.base.tasks import TaskName, TaskSet, nearest
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.model.boosters import Boosters
from mtboost.model.calibration import Calibration
from mtboost.model.common_stage import CommonStage
from mtboost.model.common_trees import CommonTrees
from mtboost.model.reports import TaskReport
from mtboost.model.task_trees import TaskTrees
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.document import Document
from mtboost.trees.losses import TaskLoss, is_classification, is_quantile

UnknownTask = Literal["error", "common"]
OUTPUTS = get_args(Output)


@dataclass(slots=True, eq=False, repr=False)
class FittedTasks:
    """The parts of a :class:`mtboost.MultiTaskModel`, which has the same attributes."""

    common_trees: CommonTrees
    specific: Boosters
    quit_round: dict[TaskName, int]
    common_columns: Columns
    task_columns: dict[TaskName, Columns]
    objective: str | dict[TaskName, str]
    metric: str | dict[TaskName, str]
    task_column: TaskColumn | None
    reports: dict[TaskName, TaskReport]
    losses: dict[TaskName, TaskLoss] = field(default_factory=dict)
    common_losses: dict[str, float] = field(default_factory=dict)
    common_choice: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    specific_params: dict[TaskName, dict[str, Any]] = field(default_factory=dict)
    task_position: TaskPosition | None = None
    conformity_scores: dict[TaskName, npt.NDArray[np.float64]] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    label_names: LabelNames | None = None
    calibration: Calibration | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        n_specific = sum(report.specific_rounds > 0 for report in self.reports.values())
        kinds = dict.fromkeys(self.losses[task].objective for task in self.losses)
        return (
            f"<MultiTaskModel {', '.join(kinds) or self.objective}: {len(self.tasks)} tasks, "
            f"{self._library.n_rounds(self.common)} common rounds, {n_specific} specific models>"
        )

    def _copy(self, **changes: Any) -> Self:
        """The same with other parts; what a copy adds to its parts does not reach this one."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__} | changes
        own = {name: dict(part) for name, part in parts.items() if type(part) is dict}
        own["specific"] = parts["specific"].copy()
        return type(self)(**(parts | own | {"_cache": {}}))

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
    def _names(self) -> TaskSet:
        """The tasks by code, and after them the groups that have leaf values."""
        found = self._cache.get("names")
        if found is None:
            names = TaskSet(self._stage.names, np.empty(0, np.int32))
            found = self._cache.setdefault("names", names)
        names_and_groups: TaskSet = found
        return names_and_groups

    @property
    def _used_columns(self) -> frozenset[str] | None:
        """Names of the columns of any task; None if columns have no names."""
        found = self._cache.get("used columns", False)
        if found is False:
            columns = [self.common_columns, *self.task_columns.values()]
            names = [own.names for own in dict.fromkeys(columns) if own.names is not None]
            used = frozenset[str]().union(*names) if len(names) else None
            found = self._cache.setdefault("used columns", used)
        own_names: frozenset[str] | None = found
        return own_names

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

    def curves(self, *, output: FrameLibrary = "pandas") -> Any:
        """Return :attr:`history` as one table, a row for each task, stage and round.

        Parameters
        ----------
        output : {"pandas", "polars"}, default="pandas"
            Library of the table.

        Returns
        -------
        DataFrame
            Columns ``task``, ``stage`` (``"common"`` or ``"specific"``), ``round``, ``metric`` (its
            name) and ``value``.

        Raises
        ------
        MissingDependencyError
            The library of `output` is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> shop = np.repeat(["a", "b", "c"], 100)
        >>> model = mtboost.fit(X, X[:, 0], task=shop, strategy="two-stage", num_boost_round=5)
        >>> model.curves().groupby(["task", "stage"])["value"].min().shape
        (6,)
        """
        check_choice("output", output, ("pandas", "polars"))
        columns: dict[str, list[Any]] = {
            name: [] for name in ("task", "stage", "round", "metric", "value")
        }
        for task, stages in self.history.items():
            metric = self.metric if isinstance(self.metric, str) else self.metric[task]
            for stage, curve in stages.items():
                n = len(curve)
                rows = ([task] * n, [stage] * n, range(n), [metric] * n, curve.tolist())
                for own, values in zip(columns.values(), rows, strict=True):
                    own.extend(values)
        return as_frame(columns, output)

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
            the longest part of the common model that any task uses; with nested leaf values those
            of a known group have its values. Where each task has an objective, nothing says what
            the common model means for others: they are refused.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_classes); for a mapping, a dict of them
            Margin scale: log-odds for a logistic objective, units of the label for squared error,
            each task's own where objectives differ. Of several labels a row as for :meth:`predict`.

        Raises
        ------
        DataError
            Columns are missing, or a task is unknown (the known ones are listed).
        """
        return self._margins(X, task, base_margin, unknown_task)[0]

    def _margins(
        self, X: Any, task: Any, base_margin: Any, unknown_task: UnknownTask
    ) -> tuple[Any, npt.NDArray[np.int32]]:
        """Margins and codes of :meth:`_raw_margins`, the margins calibrated."""
        margins, codes = self._raw_margins(X, task, base_margin, unknown_task)
        if isinstance(margins, dict):
            return {name: self._calibrated(own, name) for name, own in margins.items()}, codes
        if self.calibration is not None:
            margins = self.calibration.apply(margins, codes, self.tasks)
        return margins, codes

    def _calibrated(self, margins: Margins, task: TaskName | None) -> Margins:
        """Margins of a task as it calibrates them."""
        if self.calibration is None:
            return margins
        slope, intercept = self.calibration.of(task)
        return np.asarray(slope * margins + intercept, margins.dtype)

    def _raw_margins(
        self, X: Any, task: Any, base_margin: Any, unknown_task: UnknownTask
    ) -> tuple[Any, npt.NDArray[np.int32]]:
        """Margins, and if `X` is one table the code of each row's task, or group if it is unknown.

        Without a group the code is -1. If `task` does not name labels of a model that has several a
        row, there is a margin and a code for each: the second axis of both.
        """
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
                    as_table(table, argument=f"X[{name!r}]", used=self._used_columns),
                    name,
                    None if base_margin is None else base_margin[name],
                )
                for name, table in X.items()
            }
            return by_task, np.empty(0, np.int32)
        table, labels = self._split(X, task)
        may_keep = unknown_task == "common" or bool(self.losses)
        if self.label_names is not None:
            found = self._margins_of_labels(table, labels, base_margin, unknown_task)
            if found is not None:
                return found
        tasks = self._task_set if unknown_task == "error" else self._names
        codes = tasks.encode(labels, table.n_rows, unknown="group" if may_keep else "error")
        if self.losses and codes.min(initial=0) < 0:
            raise DataError(
                f"The task label at row {int(codes.argmin())} is unknown. Known: "
                f"{listed(self.tasks, 'task')}. Give the new task to add_task() first."
            )
        return self._row_margins(table, codes, base_margin), codes

    def _margins_of_labels(
        self, table: Table, labels: Any, base_margin: Any, unknown_task: UnknownTask
    ) -> tuple[Margins, npt.NDArray[np.int32]] | None:
        """Return margins and codes of all labels of each row; None if `labels` name one a row."""
        own = None if labels is None else TaskSet.from_labels(labels, table.n_rows)
        n_levels = 0 if own is None else own.n_levels
        if n_levels != self._task_set.n_levels - 1:
            return None
        may_lack = unknown_task == "common"
        known = self._names if may_lack else self._task_set
        codes = label_codes(self._labels, known, own, table.n_rows, may_lack=may_lack)
        start: Any = [None] * codes.shape[1]
        if base_margin is not None:
            start = as_base_margin(base_margin, *codes.shape).reshape(codes.shape).T
        parts = [
            self._row_margins(table, each, begin)
            for each, begin in zip(codes.T, start, strict=True)
        ]
        return np.stack(parts, axis=1), codes

    @property
    def _labels(self) -> LabelNames:
        """Labels of a row, of a model that has several."""
        return labels_of(self.label_names or (), self.tasks)

    def _row_margins(self, table: Table, codes: npt.NDArray[np.int32], base_margin: Any) -> Margins:
        """Return the margins of rows of several tasks, given the codes of their tasks."""
        start = self._start(base_margin, table.n_rows)
        found = self._task_trees.margins(table, codes, start)
        if found is not None:
            return found
        margins = self._stage.margins(table, codes, start)
        for code in np.unique(codes[(codes >= 0) & (codes < len(self.tasks))]):
            name = self.tasks[code]
            booster = self.specific[name]
            if booster is not None:
                rows = np.flatnonzero(codes == code)
                own = self.task_columns[name].align(table.take(rows))
                margins[rows] = self._library.predict_margin(booster, own, margins[rows])
        return margins

    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask = "error",
        output: Output = "numpy",
        sort_levels: bool = False,
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
            the longest part of the common model that any task uses; with nested leaf values those
            of a known group have its values. Where each task has an objective, nothing says what
            the common model means for others: they are refused.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` and ``"polars"`` give a Series named ``"prediction"``, of several outputs a
            DataFrame; ``"pandas"`` keeps the index of `X`, if it has one.
        sort_levels : bool, default=False
            Whether quantiles of several levels are sorted in each row, so that none is below that
            of a lower level (docs/quantiles.md). Exported boosters predict them as they are.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_outputs), Series or DataFrame; or a dict of them
            Probabilities for a classifier, else in the unit of the labels. Several classes have a
            column each, and so have several levels of quantiles, in the order of the parameter.
            A model of several labels a row has a column for each label, named by it in a DataFrame
            (the shape is (n_rows, n_labels, n_outputs) with several outputs), unless `task`
            contains the label of each row.

        Raises
        ------
        DataError
            Columns are missing, or a task is unknown (the known ones are listed).
        MissingDependencyError
            The library of `output` is not installed.
        ParameterError
            Levels of a model without several are to be sorted.
        """
        check_choice("output", output, OUTPUTS)
        response = self._response
        if check_switch("sort_levels", sort_levels):
            if not (is_quantile(self.objective) and self._stage.n_outputs > 1):
                raise ParameterError(
                    "sort_levels=True needs a model of quantiles of several levels: leave it out."
                )
            response = self._sorted_levels
        margins, codes = self._margins(X, task, base_margin, unknown_task)
        found = self._by_objective(response, margins, codes)
        return predictions_as(output, found, X, self._names_of_columns(output, codes, found))

    def predict_proba(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask = "error",
        output: Output = "numpy",
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
            the longest part of the common model that any task uses; with nested leaf values those
            of a known group have its values. Where each task has an objective, nothing says what
            the common model means for others: they are refused.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` and ``"polars"`` give a DataFrame with a column for each class, named by
            it if classes have names; ``"pandas"`` keeps the index of `X`, if it has one.

        Returns
        -------
        ndarray, shape (n_rows, n_classes), or DataFrame; for a mapping, a dict of them
            Also with two classes one column for each, in the order of ``classes``. Of several
            labels a row the shape is (n_rows, n_labels, n_classes).

        Raises
        ------
        DataError
            The objective is not that of a classifier, or not that of every task that has rows; or
            as :meth:`predict_margin`.
        MissingDependencyError
            The library of `output` is not installed.
        """
        check_choice("output", output, OUTPUTS)
        if isinstance(self.objective, str) and not is_classification(self.objective):
            raise DataError(
                f"predict_proba needs a classifier; the objective is {self.objective!r}."
            )
        margins, codes = self._margins(X, task, base_margin, unknown_task)
        if self.losses:
            self._check_are_classes(
                margins if isinstance(margins, dict) else [self.tasks[c] for c in np.unique(codes)]
            )
        found = self._by_objective(self._probabilities, margins, codes)
        return predictions_as(output, found, X, self._names_of_columns(output, codes, found))

    def _names_of_columns(
        self, output: Output, codes: Any, found: Any
    ) -> Sequence[str | int] | None:
        """Names of the columns of predictions: of classes, or of several labels."""
        if output == "numpy" or codes.ndim == 1:
            return self.classes
        if found.ndim > 2:
            raise ParameterError(
                f"output={output!r} is for one number a label, and the model has "
                f"{found.shape[2]}: pass output='numpy'."
            )
        return self._labels

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
            own = self.task_column
            if own is not None and (task is None or as_task_column(task) == own):
                # A table without names has its columns where that of training had them.
                own = own if has_names(X) else self._task_position
                return take_task_column(X, own, used=self._used_columns)
            return split_task_column(X, task, used=self._used_columns)
        except DataError as error:
            if not is_column(task) or task not in self.quit_round:
                raise
            raise DataError(
                f"{error} task names a column of X, or holds one label a row. For rows of one "
                f"task pass X={{{task!r}: table}}."
            ) from None

    @property
    def _task_position(self) -> TaskColumn:
        """Position of the task column in training; its name in models of early files."""
        found = self.task_column if self.task_position is None else self.task_position
        assert found is not None
        return found

    def _split_new(self, X: Any, task: Any) -> tuple[Table, Any]:
        """Features and task labels of one table whose tasks may be unknown."""
        table, labels = self._split(X, task)
        if labels is None and len(self.tasks) == 1:
            labels = [self.tasks[0]] * table.n_rows
        if labels is None:
            raise DataError(
                f"task is missing: pass one label a row. Known: {listed(self.tasks, 'task')}."
            )
        return table, labels

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
        if codes.ndim == 2:
            flat = margins.reshape(-1, *margins.shape[2:])
            found = self._by_objective(response, flat, codes.ravel())
            return found.reshape(*codes.shape, *found.shape[1:])
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
        known = nearest(task, self._names)
        code = -1 if known is None else self._names.code(known)
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

    def _encode(self, y: Any) -> Any:
        """Labels with the numbers of classes that have names."""
        return class_numbers(y, self.classes)

    def _start(self, base_margin: Any, n_rows: int) -> npt.NDArray[np.floating] | None:
        if base_margin is None:
            return None
        return as_base_margin(base_margin, n_rows, self._stage.n_outputs)

    @property
    def _output_name(self) -> str:
        """What the margins of a row belong to."""
        return "levels" if is_quantile(self.objective) else "classes"

    def _response(self, margins: Margins, task: TaskName | None) -> Margins:
        return self._stage.response(task)(margins)

    @property
    def _levels(self) -> tuple[float, ...]:
        """Levels of the quantiles that the model predicts; empty of other models."""
        return self._library.levels({**self.params, "objective": self.objective})

    def _sorted_levels(self, margins: Margins, task: TaskName | None) -> Margins:
        """Quantiles of rows, ascending with their levels."""
        found = np.empty_like(margins)
        found[:, np.argsort(self._levels, kind="stable")] = np.sort(
            self._response(margins, task), axis=1
        )
        return found

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
        mtboost. Calibrated margins are in its leaf values, up to rounding.

        Parameters
        ----------
        task : task name, optional
            By default all: a booster with an output for each task, in the order of :attr:`tasks`,
            and a last one for unknown tasks, which predicts as ``unknown_task="common"`` does.
            Every row is predicted as if it were of every task. Tasks with the same splits share
            trees whose leaves hold a number for each of them. XGBoost has such trees, LightGBM has
            not. A model of one task has its output alone.

        Returns
        -------
        xgboost.Booster or lightgbm.Booster
            With the categories and names of the training columns.

        Raises
        ------
        DataError
            The task is unknown, or one booster with the different trees of all tasks would be too
            large.
        UnsupportedError
            A booster of all tasks that the library has not: of LightGBM, of several classes or
            levels, or of tasks with different objectives.
        """
        if task is None:
            return self._booster_of_all()
        self._check_task(task)
        return self._document_of(task).load()

    def _document_of(self, task: TaskName | None) -> Document:
        """Trees of a task, or of an unknown one."""
        document = self._stage.continued_by(task, None if task is None else self.specific[task])
        return document if self.calibration is None else document.affine(*self.calibration.of(task))

    def _booster_of_all(self) -> Any:
        if self.losses or self._stage.n_outputs > 1:
            what = "different objectives" if self.losses else f"several {self._output_name}"
            raise UnsupportedError(
                f"One booster cannot hold all tasks of a model with {what}. Ask for that of one "
                f"task, such as booster({self.tasks[0]!r})."
            )
        tasks = self.tasks if len(self.tasks) == 1 else (*self.tasks, None)
        return self._library.stacked(map(self._document_of, tasks))

    def importance(
        self,
        task: TaskName | None = None,
        importance_type: Literal[
            "gain", "total_gain", "weight", "cover", "total_cover", "contribution"
        ]
        | None = None,
        *,
        X: Any = None,
        output: Literal["dict", "pandas", "polars"] = "dict",
    ) -> Any:
        """Compute the importance of each feature that the task's trees use, over both stages.

        Gains, splits and covers are those of the task's :meth:`booster`, as in
        ``xgboost.Booster.get_score``. Gains and covers of common trees are of the rows of all
        tasks: where all tasks have the same trees, they say what matters to all of them. Where a
        task has its leaf values, by pooling or by nodes that split the tasks, gains are
        computed from these: by how much its values differ on the two sides of a split. What the
        common rounds gain for all tasks can outweigh what specific rounds gain for one.

        Contributions (SHAP values) of rows of the task show what its predictions depend on in any
        model, both stages together and in the unit of its margins.

        Parameters
        ----------
        task : task name, optional
            One of :attr:`tasks`; by default all of them.
        importance_type : str, optional
            ``"contribution"`` is the mean absolute contribution in the rows of `X`, of the others
            LightGBM has ``"gain"``, ``"total_gain"`` and ``"weight"``. By default
            ``"contribution"`` if `X` is given, else ``"gain"``, the mean over splits.
        X : table of shape (n_rows, n_features), or mapping of task name to table, optional
            Rows of the task, with its columns; without `task` a mapping with rows of each.
        output : {"dict", "pandas", "polars"}, default="dict"
            ``"pandas"`` and ``"polars"`` give a DataFrame with a row for each feature, most
            important first, and a column for each task (in polars a first column ``feature``).
            Features that no tree uses have 0, those that a task lacks NaN.

        Returns
        -------
        dict of str to float, or of task name to such a dict; or DataFrame
            Importance by name of the feature; a dict lacks features that no tree uses.

        Raises
        ------
        DataError, ParameterError
            The task is unknown, `X` lacks columns or rows, or does not go with `importance_type`.
        MissingDependencyError
            The library of `output` is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "income", "rent"])
        >>> shop = np.repeat(["a", "b", "c"], 100)
        >>> y = X["income"] + (shop == "b") * X["rent"]
        >>> model = mtboost.fit(X, y, task=shop, strategy="two-stage", num_boost_round=20)
        >>> model.importance(output="pandas").columns.tolist()
        ['a', 'b', 'c']
        """
        check_choice("output", output, ("dict", "pandas", "polars"))
        tables: Any = X
        if task is not None:
            tables = None if X is None else {task: X}
        elif X is not None and not is_mapping(X):
            raise DataError(
                "X is one table: pass the task of its rows, or a mapping {task: table}."
            )
        found = {
            name: self._importance(name, importance_type, None if tables is None else tables[name])
            for name in (tables or (self.tasks if task is None else (task,)))
        }
        if output != "dict":
            return self._importance_frame(found, output)
        return found if task is None else found[task]

    def _importance(self, task: TaskName, importance_type: Any, X: Any) -> dict[str, float]:
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

    def _names_of_features(self, task: TaskName) -> list[str]:
        """Names of a task's columns, those of the library where the user gave none."""
        columns = self.task_columns[task]
        return list(columns.names or self._library.feature_names(columns))

    def _importance_frame(
        self, importances: Mapping[TaskName, Mapping[str, float]], library: FrameLibrary
    ) -> Any:
        by_task = {
            task: {name: own.get(name, 0.0) for name in self._names_of_features(task)}
            for task, own in importances.items()
        }
        names = list(dict.fromkeys(chain(*by_task.values())))
        values = np.array(
            [[own.get(name, np.nan) for name in names] for own in by_task.values()], np.float64
        )
        order = np.argsort(-np.nanmean(values, axis=0), kind="stable")
        columns = {task: values[row, order] for row, task in enumerate(by_task)}
        if library == "polars":
            columns = {str(task): own for task, own in columns.items()}
        index = [names[place] for place in order]
        return as_frame(columns, library, index=index, index_name="feature")

    def contributions(
        self,
        X: Any,
        *,
        task: Any = None,
        output: Output = "numpy",
    ) -> Any:
        """Contribution of each feature to each margin: exact SHAP values, and the bias last.

        Parameters
        ----------
        X, task
            As in :meth:`predict_margin`.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` and ``"polars"`` give DataFrames whose columns have the names of the
            features, and ``bias``; ``"pandas"`` keeps the index of `X`, if it has one. Not with
            several classes.

        Returns
        -------
        ndarray, shape (n_rows, n_features + 1), DataFrame, or a dict of them for a mapping
            Columns in the order of the task's features; a row adds up to its margin. With several
            classes the shape is (n_rows, n_classes, n_features + 1).

        Raises
        ------
        DataError, ParameterError
            As :meth:`predict_margin`; or a DataFrame of several classes.
        MissingDependencyError
            The library of `output` is not installed.
        """
        check_choice("output", output, OUTPUTS)
        if output != "numpy" and self._stage.n_outputs > 1:
            raise ParameterError(
                f"output={output!r} is for one margin a row, and the model has "
                f"{self._stage.n_outputs} {self._output_name}: pass output='numpy'."
            )
        if is_mapping(X):
            found = {}
            for name, native in X.items():
                table = as_table(native, argument=f"X[{name!r}]")
                part = self._task_contributions(table, name)
                found[name] = self._contributions_as(output, part, table, name)
            return found
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
        assert result is not None  # as_table refuses tables without rows
        return self._contributions_as(output, result, table, self.tasks[codes[0]])

    def _contributions_as(
        self,
        output: Output,
        values: Margins,
        table: Table,
        task: TaskName,
    ) -> Any:
        if output == "numpy":
            return values
        names = self._names_of_features(task)
        columns = dict(zip([*names, unlike("bias", names)], values.T, strict=True))
        is_indexed = output == table.library == "pandas"
        return as_frame(columns, output, index=table.native.index if is_indexed else None)

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
