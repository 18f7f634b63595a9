# SPDX-License-Identifier: Apache-2.0
"""What predictions of a fitted model depend on: importance and contributions of features."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_choice, check_type, listed
from mtboost.base.frames import FrameLibrary, Output, as_frame, unlike
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.base.tables import Columns, Table, column_names, columns_of
from mtboost.base.task_tables import is_mapping
from mtboost.base.tasks import TaskName, nearest
from mtboost.errors import DataError, ParameterError
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.prediction.intervals import TasksWithIntervals
from mtboost.model.prediction.new_rows import tables_by_task
from mtboost.model.prediction.predictions import OUTPUTS, UnknownTask
from mtboost.trees.backend import Margins


class ExplainedTasks(TasksWithIntervals):
    """A :class:`mtboost.MultiTaskModel` that explains its predictions."""

    __slots__ = ()

    @renamed(where_in_a_method)
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
            Rows of the task, with its columns; of a table with the column of the tasks those of
            other tasks are left out. Without `task` a mapping with rows of each, or one
            table, if it has the column of the tasks or a row has several labels, as in
            :meth:`predict`.
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
            tables = None if X is None else {task: self._rows_of_task(X, task)}
        elif X is not None:
            has_tasks = is_mapping(X) or self.task_column is not None
            if not has_tasks and self.label_names is None and len(self.tasks) > 1:
                raise DataError(
                    "X is one table: pass the task of its rows, or a mapping {task: table}."
                )
            tables = tables_by_task(self, X, None)
        found = {
            name: self._importance(name, importance_type, None if tables is None else tables[name])
            for name in (tables or (self.tasks if task is None else (task,)))
        }
        if output != "dict":
            return self._importance_frame(found, output)
        return found if task is None else found[task]

    def _rows_of_task(self, X: Any, task: TaskName) -> Any:
        """Return the rows of the task if X has the column of the tasks, else all rows."""
        self._check_task(task)
        if self.task_column is None or is_mapping(X):
            return X
        own, names = columns_of(self.task_column), column_names(X)
        has_column = set(map(str, own)) <= set(names)
        if not names:
            has_column = np.shape(X)[1:] == (self.task_columns[task].n + len(own),)
        if not has_column:
            return X
        tables = tables_by_task(self, X, None)
        if task not in tables:
            raise DataError(
                f"X has no row of task {task!r}, by column {self.task_column!r}: it has "
                f"{listed(list(tables), 'task')}."
            )
        return tables[task]

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
            table = X if isinstance(X, Table) else as_table(X)
            parts = np.abs(self._task_contributions(table, task)[..., :-1])
            means = parts.reshape(-1, columns.n).mean(axis=0).tolist()
            found = {name: value for name, value in zip(names, means, strict=True) if value != 0}
        own = dict(zip(names, columns.names or (), strict=False))
        return {own.get(name, name): value for name, value in found.items()}

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

    @renamed(where_in_a_method)
    @reading_rows
    def contributions(
        self,
        X: Any,
        *,
        task: Any = None,
        unknown_task: UnknownTask = "error",
        output: Output = "numpy",
    ) -> Any:
        """Contribution of each feature to each margin: exact SHAP values, and the bias last.

        Parameters
        ----------
        X, task, unknown_task
            As in :meth:`predict_margin`.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` and ``"polars"`` give DataFrames whose columns have the names of the
            features, and ``bias``; ``"pandas"`` keeps the index of `X`, if it has one. Not with
            several classes, nor for several labels a row.

        Returns
        -------
        ndarray, shape (n_rows, n_features + 1), DataFrame, or a dict of them for a mapping
            Columns in the order of the task's features; a row adds up to its margin, that of
            :meth:`predict_margin` without `base_margin`. With several classes the shape is
            (n_rows, n_classes, n_features + 1). A model of several labels a row has (n_rows,
            n_labels, n_features + 1), unless `task` contains the label of each row.

        Raises
        ------
        DataError, ParameterError
            As :meth:`predict_margin`; or a DataFrame of several classes.
        MissingDependencyError
            The library of `output` is not installed.
        """
        check_choice("output", output, OUTPUTS)
        self._check_unknown_task(unknown_task)
        if output != "numpy" and self._stage.n_outputs > 1:
            raise ParameterError(
                f"output={output!r} is for one margin a row, and the model has "
                f"{self._stage.n_outputs} {self._output_name}: pass output='numpy'."
            )
        if is_mapping(X):
            found = {}
            for name, native in X.items():
                table = self._table_of_task(native, name)
                if unknown_task == "error":
                    self._check_task(name)
                part = self._task_contributions(table, nearest(name, self._names))
                found[name] = self._contributions_as(output, part, table, name)
            return found
        table, labels = self._split(X, task, may_lack_rows=True)
        may_lack = unknown_task == "common"
        of_labels = self._codes_of_labels(table, labels, may_lack=may_lack)
        codes = of_labels
        if codes is None:
            known = self._names if may_lack else self._task_set
            codes = known.encode(labels, table.n_rows, unknown="group" if may_lack else "error")
        tasks = [self._name_of(code) for code in np.unique(codes)]
        if len({self._columns_of(name) for name in tasks}) > 1:
            raise DataError("The tasks have different columns: pass X as a mapping {task: table}.")
        if of_labels is not None:
            if output != "numpy":
                raise ParameterError(
                    f"output={output!r} is for one label a row: pass output='numpy', or the label "
                    "of each row in task."
                )
            parts = [self._row_contributions(table, codes) for codes in of_labels.T]
            return np.stack(parts, axis=1)
        own = self._row_contributions(table, codes)
        return self._contributions_as(output, own, table, self._task_of_columns(codes))

    def _task_of_columns(self, codes: npt.NDArray[np.int32]) -> TaskName | None:
        """Task whose columns rows of these codes have; without rows any, if all have the same."""
        if len(codes):
            return self._name_of(codes[0])
        return self.tasks[0] if len(set(self.task_columns.values())) == 1 else None

    def _row_contributions(self, table: Table, codes: npt.NDArray[np.int32]) -> Margins:
        """Contributions in rows of several tasks, given the codes of their tasks."""
        if not table.n_rows:
            return self._task_contributions(table, self._task_of_columns(codes))
        parts, places = [], []
        for code in np.unique(codes):
            places.append(np.flatnonzero(codes == code))
            parts.append(self._task_contributions(table.take(places[-1]), self._name_of(code)))
        return np.concatenate(parts)[np.argsort(np.concatenate(places))]

    def _contributions_as(
        self,
        output: Output,
        values: Margins,
        table: Table,
        task: TaskName | None,
    ) -> Any:
        if output == "numpy":
            return values
        columns = self._columns_of(task)
        names = list(columns.names or self._library.feature_names(columns))
        parts = dict(zip([*names, unlike("bias", names)], values.T, strict=True))
        is_indexed = output == table.library == "pandas"
        return as_frame(parts, output, index=table.native.index if is_indexed else None)

    def _task_contributions(self, table: Table, task: TaskName | None) -> Margins:
        """Contributions in rows of a task, or of an unknown one: None, or the name of its group."""
        own = self._columns_of(task).align(table)
        if not table.n_rows:
            shape = (*self._shape_of_margins(0), own.n_features + 1)
            return np.empty(shape, self._library.margin_type)
        return self._library.contributions(self._document_of(task).load(), own)

    def _name_of(self, code: int) -> TaskName | None:
        """Task or group with a code; None: an unknown task without a group."""
        return None if code < 0 else self._names.names[code]

    def _columns_of(self, task: TaskName | None) -> Columns:
        """Columns of a task; of an unknown one those of the common model."""
        common = self._stage.columns
        return common if task is None else self.task_columns.get(task, common)
