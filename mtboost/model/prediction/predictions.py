# SPDX-License-Identifier: Apache-2.0
"""Predictions of a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_choice, check_switch, did_you_mean, listed
from mtboost.base.dataset import (
    as_task_column,
    is_column,
    split_task_column,
    take_task_column,
)
from mtboost.base.frames import Output, predictions_as
from mtboost.base.labels import as_base_margin
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.several_labels import in_order_of_labels, label_codes
from mtboost.base.tables import Table, has_names
from mtboost.base.task_tables import check_task_keys, hint_of_one_row, is_mapping
from mtboost.base.tasks import TaskName, TaskSet, nearest
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError, ParameterError
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.parts.fitted_parts import FittedParts
from mtboost.trees.backend import Margins
from mtboost.trees.losses import is_classification, is_quantile

UnknownTask = Literal["error", "common"]
OUTPUTS = get_args(Output)


class FittedTasks(FittedParts):
    """A :class:`mtboost.MultiTaskModel` that predicts."""

    __slots__ = ()

    @renamed(where_in_a_method)
    @reading_rows
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
            Without rows there are no predictions, in an array of the usual shape.
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
        found: Margins = self.calibration.apply(margins, np.zeros(1, np.int32), [task])
        return found

    def _raw_margins(
        self, X: Any, task: Any, base_margin: Any, unknown_task: UnknownTask
    ) -> tuple[Any, npt.NDArray[np.int32]]:
        """Margins, and if `X` is one table the code of each row's task, or group if it is unknown.

        Without a group the code is -1. If `task` does not name labels of a model that has several a
        row, there is a margin and a code for each: the second axis of both.
        """
        self._check_unknown_task(unknown_task)
        self._warn_without_start(base_margin)
        if is_mapping(X):
            unknown = [name for name in X if name not in self.quit_round]
            if unknown and unknown_task == "error":
                raise DataError(
                    f"X has unknown {listed(unknown, 'task')}. Known: "
                    f"{listed(self.tasks, 'task')}."
                    f"{hint_of_one_row(X) or did_you_mean(unknown[0], self.tasks)}"
                )
            for name in unknown:
                self._task_set.check_types([name])
            if base_margin is not None:
                check_task_keys("base_margin", base_margin, X)
            by_task = {
                name: self._task_margins(
                    self._table_of_task(table, name),
                    name,
                    None if base_margin is None else base_margin[name],
                )
                for name, table in X.items()
            }
            return by_task, np.empty(0, np.int32)
        table, labels = self._split(X, task, may_lack_rows=True)
        may_keep = unknown_task == "common" or bool(self.losses)
        of_labels = self._codes_of_labels(table, labels, may_lack=unknown_task == "common")
        if of_labels is not None:
            return self._margins_of_labels(table, of_labels, base_margin), of_labels
        tasks = self._task_set if unknown_task == "error" else self._names
        codes = tasks.encode(labels, table.n_rows, unknown="group" if may_keep else "error")
        if self.losses and codes.min(initial=0) < 0:
            raise DataError(
                f"The task label at row {int(codes.argmin())} is unknown. Known: "
                f"{listed(self.tasks, 'task')}. Give the new task to add_task() first."
            )
        return self._row_margins(table, codes, base_margin), codes

    def _warn_without_start(self, base_margin: Any) -> None:
        """Warn of rows without the base margin that those of training had."""
        if self.has_base_margin and base_margin is None:
            warn_user(
                "The model was trained with base_margin, to which its trees add, and these rows "
                "have none: predictions lack it. Pass base_margin=, zeros where it is 0."
            )

    def _check_unknown_task(self, unknown_task: UnknownTask) -> None:
        check_choice("unknown_task", unknown_task, ("error", "common"))
        if self.losses and unknown_task == "common":
            raise ParameterError(
                "unknown_task='common' needs one objective of all tasks; here each has its own, "
                "and a start and a unit that an unknown task lacks: call add_task(), predict the "
                "rows as those of a known task, or fit with one objective= of all."
            )

    def _codes_of_labels(
        self, table: Table, labels: Any, *, may_lack: bool = False
    ) -> npt.NDArray[np.int32] | None:
        """Codes of the tasks of all labels of each row, shape (n_rows, n_labels).

        None where the model has one label a row, or `labels` name one of each row.
        """
        if self.label_names is None:
            return None
        own = None if labels is None else TaskSet.from_labels(labels, table.n_rows)
        n_levels = 0 if own is None else own.n_levels
        if n_levels != self._task_set.n_levels - 1:
            return None
        known = self._names if may_lack else self._task_set
        return label_codes(self._labels, known, own, table.n_rows, may_lack=may_lack)

    def _margins_of_labels(
        self, table: Table, codes: npt.NDArray[np.int32], base_margin: Any
    ) -> Margins:
        """Return the margins of all labels of each row, given the codes of their tasks."""
        start: Any = [None] * codes.shape[1]
        if base_margin is not None:
            base_margin = in_order_of_labels("base_margin", base_margin, self._labels)
            start = as_base_margin(base_margin, *codes.shape).reshape(codes.shape).T
        parts = [
            self._row_margins(table, each, begin)
            for each, begin in zip(codes.T, start, strict=True)
        ]
        return np.stack(parts, axis=1)

    def _row_margins(self, table: Table, codes: npt.NDArray[np.int32], base_margin: Any) -> Margins:
        """Return the margins of rows of several tasks, given the codes of their tasks."""
        if not table.n_rows:
            self._stage.columns.align(table)  # the columns must be there
            return np.empty(self._shape_of_margins(0), self._library.margin_type)
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
                own = self.task_columns[name].align(
                    table if len(rows) == table.n_rows else table.take(rows)
                )
                margins[rows] = self._library.predict_margin(booster, own, margins[rows])
        return margins

    @renamed(where_in_a_method)
    @reading_rows
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
            Without rows there are no predictions, in an array of the usual shape.
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
            DataFrame, whose columns are named by the classes, or the levels of quantiles;
            ``"pandas"`` keeps the index of `X`, if it has one.
        sort_levels : bool, default=False
            Whether quantiles of several levels are sorted in each row, so that none is below that
            of a lower level (docs/quantiles.md). Without it they are as exported boosters predict
            them: sorted since XGBoost 3.4.

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

    @renamed(where_in_a_method)
    @reading_rows
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
            Without rows there are no predictions, in an array of the usual shape.
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
        if self.losses and codes.ndim == 1 and not isinstance(margins, dict) and not len(margins):
            found = np.empty((0, 2), margins.dtype)  # no row says which task is meant
        else:
            found = self._by_objective(self._probabilities, margins, codes)
        return predictions_as(output, found, X, self._names_of_columns(output, codes, found))

    def _names_of_columns(
        self, output: Output, codes: Any, found: Any
    ) -> Sequence[str | int | float] | None:
        """Names of the columns of predictions: of classes, levels, or several labels."""
        if output == "numpy" or codes.ndim == 1:
            return self.classes or self._levels or None
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

    def _table_of_task(self, X: Any, task: TaskName) -> Table:
        """Features of rows to predict, which a mapping has for a task; there may be none."""
        return as_table(X, argument=f"X[{task!r}]", used=self._used_columns, may_lack_rows=True)

    def _split(self, X: Any, task: Any, *, may_lack_rows: bool = False) -> tuple[Table, Any]:
        """Features and task labels of one table of all tasks."""
        options: Any = {"used": self._used_columns, "may_lack_rows": may_lack_rows}
        try:
            own = self.task_column
            if own is not None and (task is None or as_task_column(task) == own):
                # A table without names has its columns where that of training had them.
                own = own if has_names(X) else self._task_position
                return take_task_column(X, own, **options)
            return split_task_column(X, task, **options)
        except DataError as error:
            if not is_column(task) or task not in self.quit_round:
                raise
            task = task.item() if isinstance(task, np.generic) else task
            raise DataError(
                f"{error} task names a column of X, or holds one label a row. For rows of one "
                f"task pass X={{{task!r}: table}}."
            ) from None

    def _tasks_of_rows(self, table: Table, labels: Any) -> TaskSet:
        """Tasks of the rows of a table, which may be unknown, given their labels."""
        if labels is None and len(self.tasks) == 1:
            labels = [self.tasks[0]] * table.n_rows
        if labels is None:
            raise DataError(
                f"task is missing: pass one label a row. Known: {listed(self.tasks, 'task')}."
            )
        return TaskSet.from_labels(labels, table.n_rows)

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
        if not len(margins):
            return response(margins, self.tasks[0])
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
        """Return the margins of rows of one task, known or not."""
        if table.feature_names is None and task in self.task_columns:
            table = self.task_columns[task].align(table)  # now with the names it had in training
        known = nearest(task, self._names)
        code = -1 if known is None else self._names.code(known)
        return self._row_margins(table, np.full(table.n_rows, code, np.int32), base_margin)

    def _shape_of_margins(self, n_rows: int) -> tuple[int, ...]:
        n_outputs = self._stage.n_outputs
        return (n_rows,) if n_outputs == 1 else (n_rows, n_outputs)

    def _start(self, base_margin: Any, n_rows: int) -> npt.NDArray[np.floating] | None:
        if base_margin is None:
            return None
        return as_base_margin(base_margin, n_rows, self._stage.n_outputs)

    def _response(self, margins: Margins, task: TaskName | None) -> Margins:
        return self._stage.response(task)(margins)

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
