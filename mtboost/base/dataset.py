# SPDX-License-Identifier: Apache-2.0
"""Training or validation rows of all tasks, ready for either stage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import FloatArray, as_array
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import did_you_mean, shown
from mtboost.base.labels import as_base_margin, as_labels, as_weights
from mtboost.base.missing_columns import align_some, columns_with_nan, lacking
from mtboost.base.queries import (
    Queries,
    as_queries,
    ascending,
    check_queries,
    contiguous_order,
    loss_weights,
    queries_of_tables,
)
from mtboost.base.several_labels import LabelNames, label_rows, names_of_labels
from mtboost.base.stacked_tables import concat
from mtboost.base.tables import Columns, Table, TaskColumn, TaskPosition, column_names, columns_of
from mtboost.base.task_tables import (
    CommonFeatures,
    are_all,
    chosen_columns,
    from_mapping,
    is_mapping,
)
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError


def _columns_by_name(table: Table, names: Sequence[str]) -> Table:
    if table.feature_names is None and names:
        raise DataError(
            f"common_features: X has no column {names[0]!r}, for its columns have no names: give "
            f"feature_names, or a DataFrame."
        )
    return table.select(names)


def is_column(task: Any) -> TypeGuard[str | int]:
    """Whether `task` names a column of X rather than giving one label a row."""
    return isinstance(task, (str, int)) and not isinstance(task, bool)


def _are_names(task: Any) -> TypeGuard[list[str] | tuple[str, ...]]:
    return isinstance(task, list | tuple) and all(isinstance(name, str) for name in task)


def as_task_column(task: Any) -> TaskColumn | None:
    """Return `task` if it may name a column, or columns of nested tasks; None for other labels.

    One name in a list is that column.
    """
    if is_column(task):
        return task
    if not _are_names(task) or not task or len(set(task)) < len(task):
        return None
    return tuple(task) if len(task) > 1 else task[0]


def task_column_of(
    X: Any, task: Any, feature_names: Sequence[str] | None = None
) -> TaskColumn | None:
    """Return the column of X that `task` names, or those of nested tasks; None for labels."""
    column = as_task_column(task)
    if is_column(task) or not _are_names(task):
        return column
    names = column_names(X) if feature_names is None else feature_names
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if len(task) == n_rows == 1:
        return None  # the label of the row
    if column is None:
        if len(task) != n_rows and task and set(task) <= set(names):
            raise DataError(f"task is {shown(task)}, which names a column twice: name each once.")
        return None
    unknown = [name for name in task if name not in names]
    if not unknown:
        return column
    if names and len(task) != n_rows:
        raise DataError(
            f"task has {len(task)} labels, but X has {n_rows} rows: pass one a row, or columns of "
            f"X, which has no column {unknown[0]!r}.{did_you_mean(unknown[0], names)}"
        )
    return None


def split_task_column(
    X: Any,
    task: Any,
    *,
    feature_names: Sequence[str] | None = None,
    used: Collection[str] | None = None,
    may_lack_rows: bool = False,
) -> tuple[Table, Any]:
    """Features and task labels of `X`; columns that `task` may name are taken out.

    :func:`as_table` explains `used` and `may_lack_rows`.
    """
    column = task_column_of(X, task, feature_names)
    options: Any = {"feature_names": feature_names, "used": used, "may_lack_rows": may_lack_rows}
    if column is None:
        return as_table(X, **options), task
    return take_task_column(X, column, **options)


def take_task_column(
    X: Any,
    column: TaskColumn,
    *,
    feature_names: Sequence[str] | None = None,
    used: Collection[str] | None = None,
    may_lack_rows: bool = False,
) -> tuple[Table, Any]:
    """Features and task labels of `X`, which holds the tasks in a column, or in several."""
    table = as_table(
        X,
        feature_names=feature_names,
        task_column=column,
        used=used,
        may_lack_rows=may_lack_rows,
    )
    return table.drop(*columns_of(column)), table.task_labels(column)


def place_of_task_column(
    X: Any, column: TaskColumn | None, feature_names: Sequence[str] | None = None
) -> tuple[TaskColumn | None, TaskPosition | None]:
    """Return name and position of a task column, or of several, if there is one.

    Where columns have no names the position stands for the name.
    """
    if column is None:
        return None, None
    table = as_table(X, feature_names=feature_names, task_column=column, used=())
    if isinstance(column, tuple):
        return tuple(map(table.name_of, column)), tuple(map(table.position_of, column))
    return table.name_of(column), table.position_of(column)


class Dataset:
    """Rows, labels and tasks.

    Parameters
    ----------
    X : table of shape (n_rows, n_features), or mapping of task name to table
        NumPy array, SciPy CSR or CSC, pandas or polars DataFrame, pyarrow Table. Tables of a
        mapping may have different columns; the common model uses those that every task has, unless
        `common_features` says otherwise.
    y : array-like of shape (n_rows,) or (n_rows, n_labels), or mapping of task name to array-like
        Labels; class numbers 0, 1, ... for classification. Each of several labels a row is a task,
        named by its column, NaN where it is unknown; see :func:`mtboost.fit`. With `are_bounds` of
        shape (n_rows, 2).
    task : array-like of shape (n_rows,), or str or int, or list of str, optional
        Task of each row, or the name (or position) of the column of `X` that holds it; that column
        is not a feature. Nested tasks have a column for each level, outermost first, as in
        ``["region", "store"]``, or a tuple a row; their names are tuples. None is a single task.
        Must be None for a mapping.
    weight : like `y`, optional
        Row weights >= 0.
    base_margin : like `y`, optional
        Margin that each row starts from; one column per class for several classes.
    qid : like `y`, optional
        Query of each row, of objectives that rank (docs/ranking.md): the rows of a query belong to
        one task and have one weight. Rows of the data set are reordered if those of a query do not
        follow each other.
    feature_names : sequence of str, or mapping of task name to sequence, optional
        Names for the columns of arrays.
    common_features : sequence of str or "all", optional
        Columns of the common model; by default those that every task has. ``"all"`` are the columns
        of any task, in the order in which they appear; they are missing in the rows of a task that
        lacks them (in a SciPy table not stored, which LightGBM takes for 0). Needs names of columns
        if `X` is a mapping.
    label_names : tuple of str or int, optional
        Names for the columns of an array `y`; by default their positions.
    are_bounds : bool, default=False
        The two columns of `y` are lower and upper bounds of times, of ``survival:aft``
        (docs/survival.md), and not two labels.

    Raises
    ------
    DataError
        Anything that does not fit together; the message says what and where.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import Dataset
    >>> X = np.arange(12.0).reshape(4, 3)
    >>> one_table = Dataset(X, [0.0, 1.0, 0.0, 1.0], task=["a", "a", "b", "b"])
    >>> one_table.n_rows
    4
    >>> by_task = Dataset(
    ...     {"a": X[:2, :2], "b": X[2:]},
    ...     {"a": [0.0, 1.0], "b": [0.0, 1.0]},
    ...     feature_names={"a": ["age", "income"], "b": ["age", "income", "rent"]},
    ... )
    """

    #: Names of the labels of a row, if there are several; each is a task, or a level of tasks.
    label_names: LabelNames | None = None
    #: Equal numbers for rows that are not independent of each other; None if all are.
    groups: npt.NDArray[np.int64] | None = None

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        task: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        qid: Any = None,
        feature_names: Any = None,
        common_features: CommonFeatures = None,
        label_names: Any = None,
        are_bounds: bool = False,
    ) -> None:
        #: The column of X that holds the tasks, or those of nested tasks, if the user names it.
        self.task_column: TaskColumn | None = None
        #: Query of each row, ascending; None if rows are not ranked.
        self.queries: Queries | None = None
        #: The user's number of each row, where rows have been reordered or have several labels.
        self.row_numbers: npt.NDArray[np.int64] | None = None
        if is_mapping(X):
            if task is not None:
                raise DataError("X is a mapping whose keys are the tasks: leave out task.")
            given = from_mapping(
                X,
                y,
                weight=weight,
                base_margin=base_margin,
                feature_names=feature_names,
                common_features=common_features,
                n_outputs=_n_columns(base_margin),
            )
            self.y, self.weight, self.base_margin = given.y, given.weight, given.base_margin
            self.tasks = TaskSet.from_labels(given.task_labels, len(given.task_labels))
            self.common = given.common_table()
            self._tables: dict[TaskName, Table] | None = given.tables
            self._table: Table | None = None
            self.n_given_rows = self.n_rows
            if qid is not None:
                counts = {name: each.n_rows for name, each in given.tables.items()}
                self._set_queries(queries_of_tables(qid, counts))
            return
        table, labels = split_task_column(X, task, feature_names=feature_names)
        n_rows = self.n_given_rows = table.n_rows
        self.task_column = task_column_of(X, task, feature_names)
        self.tasks = TaskSet.from_labels(labels, n_rows)
        self.label_names = None if are_bounds else names_of_labels(y, label_names)
        if self.label_names is not None:
            if qid is not None:
                raise DataError("y has several labels a row, but rows of queries have one.")
            tasks = None if labels is None else self.tasks
            known = label_rows(self.label_names, y, tasks, n_rows, weight, base_margin)
            self.tasks, self.row_numbers, y = known.tasks, known.rows, known.y
            weight, base_margin = known.weight, known.base_margin
            table, n_rows = table.take(known.rows), len(known.rows)
        self.y = None if y is None else as_labels(y, n_rows, may_be_bounds=are_bounds)
        self.weight = None if weight is None else as_weights(weight, n_rows)
        self.base_margin = (
            None
            if base_margin is None
            else as_base_margin(base_margin, n_rows, _n_columns(base_margin))
        )
        chosen = None if are_all(common_features) else common_features
        self.common = table if chosen is None else _columns_by_name(table, chosen_columns(chosen))
        self._tables = None
        self._table = table
        self._set_queries(qid if qid is None else as_queries(qid, n_rows))

    def _set_queries(self, queries: Queries | None) -> None:
        """Set the queries of the rows, and let those of a query follow each other."""
        if queries is None:
            return
        check_queries(queries, self.tasks, self.weight)
        order = contiguous_order(queries)
        if order is not None:
            self._reorder(order)
            self.row_numbers, queries = order, queries[order]
        self.queries = ascending(queries)

    def _reorder(self, order: npt.NDArray[np.int64]) -> None:
        if self._tables is not None:
            for task in self.tasks:
                rows = self.tasks.rows(task)
                own = order[self.tasks.codes[order] == self.tasks.code(task)]
                self._tables[task] = self._tables[task].take(np.searchsorted(rows, own))
        self.tasks = TaskSet(self.tasks.names, self.tasks.codes[order])
        self.y, self.weight, self.base_margin = (
            None if values is None else values[order]
            for values in (self.y, self.weight, self.base_margin)
        )
        table, common = self._table, self.common
        self.common = common.take(order)
        if table is not None:
            self._table = self.common if table is common else table.take(order)

    def rows_of_given(self, rows: Any) -> npt.NDArray[np.int64]:
        """Return the rows here that are some of the user's."""
        if self.row_numbers is None:
            return np.asarray(rows)
        return np.flatnonzero(np.isin(self.row_numbers, rows))

    def loss_weights(self) -> npt.NDArray[np.float64]:
        """Return the weight of each row in a mean of losses: the loss of a query counts once."""
        return loss_weights(self.queries, self.weight, self.n_rows)

    @classmethod
    def stacked(cls, parts: Sequence[Dataset]) -> Dataset:
        """Return the rows of data sets of one task each, with the same common columns."""
        both = object.__new__(cls)
        both.queries = both.row_numbers = None
        names = [part.tasks.names[0] for part in parts for _ in range(part.n_rows)]
        both.tasks = TaskSet.from_labels(names, len(names))
        both.y, both.weight, both.base_margin = (
            None
            if parts[0].__dict__[name] is None
            else np.concatenate([part.__dict__[name] for part in parts])
            for name in ("y", "weight", "base_margin")
        )
        both.common = concat([part.common for part in parts])
        both._table = None
        both._tables = {part.tasks.names[0]: part.task_table(part.tasks.names[0]) for part in parts}
        return both

    @property
    def n_rows(self) -> int:
        """Number of rows of all tasks."""
        return self.tasks.n_rows

    @property
    def tables(self) -> list[Table]:
        """The user's data: one table, or one per task."""
        return [self._table] if self._table is not None else list((self._tables or {}).values())

    def task_table(self, task: TaskName) -> Table:
        """All columns of a task's rows, in the order of ``tasks.rows(task)``."""
        if self._tables is not None:
            return self._tables[task]
        assert self._table is not None
        return self._table.take(self.tasks.rows(task))

    def task_columns(self, task: TaskName) -> Table:
        """A table with the columns of :meth:`task_table`, whatever its rows."""
        if self._tables is not None:
            return self._tables[task]
        assert self._table is not None
        return self._table

    @property
    def is_union(self) -> bool:
        """Whether some task lacks a common column."""
        if self._tables is None:
            return False
        columns = Columns.of(self.common)
        return any(lacking(columns, self.task_columns(task)) for task in self.tasks)

    def labels(self) -> FloatArray:
        """Labels of all rows.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            As they were given, rows of all tasks in one array; of bounds of times (n_rows, 2).

        Raises
        ------
        DataError
            There are none.
        """
        if self.y is None:
            raise DataError("y is missing: training and evaluation need labels.")
        return self.y

    def numbers(self) -> FloatArray:
        """Labels of all rows, shape (n_rows,): of bounds the lower ones."""
        labels = self.labels()
        return labels if labels.ndim == 1 else labels[:, 0]

    @property
    def only_table(self) -> Table | None:
        """The columns of all tasks; None if each task has a separate table."""
        return self._table

    def align_common(self, columns: Columns) -> None:
        """Take the common columns of a model, and their codes of categories in all tables."""
        self.common = columns.align(self.common)
        self._recode(columns)

    def align_some_common(self, columns: Columns, stored: Collection[str] | None) -> None:
        """The same if common columns are not there: they are missing in all rows.

        At least one is needed. `stored` as in :func:`align_some`.
        """
        if 0 < len(lacking(columns, self.common)) < columns.n:
            self.common = align_some(columns, self.common, stored=stored)
            self._recode(columns)
        else:
            self.align_common(columns)

    def _recode(self, columns: Columns) -> None:
        if self._tables is not None:
            self._tables = {task: columns.recode(table) for task, table in self._tables.items()}
        if self._table is not None:
            self._table = columns.recode(self._table)

    def align(self, train: Dataset) -> None:
        """Take the columns of training rows, and their codes of categories."""
        if train.is_union:
            self._align_union(train)
            return
        self.common = Columns.of(train.common).align(self.common)
        if self._tables is not None:
            self._tables = {
                task: Columns.of(train.task_columns(task)).align(table)
                for task, table in self._tables.items()
            }
        elif self._table is not None and train._table is not None:
            all_common = train._table is train.common
            self._table = self.common if all_common else Columns.of(train._table).align(self._table)

    def _align_union(self, train: Dataset) -> None:
        """Take each task's columns; the other common columns are missing in its rows."""
        columns = Columns.of(train.common)
        self._tables = {
            task: Columns.of(train.task_columns(task)).align(self.task_table(task))
            for task in self.tasks
        }
        self._table = None
        types, stored = train.common.column_types, columns_with_nan(train.common)
        stacked = concat(
            [
                align_some(columns, table, types=types, stored=stored)
                for table in self._tables.values()
            ]
        )
        order = np.concatenate([self.tasks.rows(task) for task in self._tables])
        self.common = stacked.take(np.argsort(order))

    def of_tasks(self, tasks: Collection[TaskName]) -> Dataset:
        """The rows of some tasks, of those that have any here.

        Parameters
        ----------
        tasks : collection of task names
            Names that are unknown are left out.

        Returns
        -------
        Dataset
            Rows in the order they have here.
        """
        if set(self.tasks) <= set(tasks):
            return self
        return self.take(self.tasks.rows_of(tasks))

    def with_rows(self, other: Dataset) -> Dataset:
        """These rows, and after them others of the same tasks and columns."""
        both = object.__new__(Dataset)
        codes = np.concatenate([self.tasks.codes, self.tasks.codes_of_rows(other.tasks)])
        both.tasks = TaskSet(self.tasks.names, codes)
        both.y = np.concatenate([self.labels(), other.labels()])
        both.queries = both.row_numbers = None
        if self.queries is not None and other.queries is not None:
            first = self.queries.max(initial=-1) + 1
            both.queries = np.concatenate([self.queries, first + other.queries])
        both.weight = None
        if self.weight is not None or other.weight is not None:
            parts = (
                np.ones(own.n_rows) if own.weight is None else own.weight for own in (self, other)
            )
            both.weight = np.concatenate(list(parts))
        both.base_margin = None
        if self.base_margin is not None and other.base_margin is not None:
            both.base_margin = np.concatenate([self.base_margin, other.base_margin])
        both.common = concat([self.common, other.common])
        both._table = both._tables = None
        if self._table is not None and other._table is not None:
            is_common = self._table is self.common
            both._table = both.common if is_common else concat([self._table, other._table])
        else:
            both._tables = {
                task: concat([own.task_table(task) for own in (self, other) if task in own.tasks])
                for task in self.tasks
            }
        return both

    def with_base_margin(self, base_margin: npt.NDArray[np.floating[Any]] | None) -> Dataset:
        """Return the same rows with other base margins."""
        other = copy(self)
        other.base_margin = base_margin
        return other

    def with_task_names(self, names: Sequence[TaskName]) -> Dataset:
        """Return the same rows with the codes of more tasks, of which some have no rows here."""
        other = copy(self)
        place_of = {name: place for place, name in enumerate(names)}
        codes = np.array([place_of[name] for name in self.tasks], np.int32)
        other.tasks = TaskSet(tuple(names), codes[self.tasks.codes])
        return other

    def take(self, rows: npt.NDArray[np.int64]) -> Dataset:
        """Some of the rows; tasks without any are left out.

        Parameters
        ----------
        rows : ndarray of int, shape (n_taken,)
            Numbers of the rows, ascending.

        Returns
        -------
        Dataset
            With the same columns.
        """
        part = object.__new__(Dataset)
        part.tasks = self.tasks.take(rows)
        part.y = None if self.y is None else self.y[rows]
        part.weight = None if self.weight is None else self.weight[rows]
        part.queries = None if self.queries is None else self.queries[rows]
        part.groups = None if self.groups is None else self.groups[rows]
        part.row_numbers = None
        part.base_margin = None if self.base_margin is None else self.base_margin[rows]
        part.common = self.common.take(rows)
        part._table = None if self._table is None else self._table.take(rows)
        part._tables = None
        if self._tables is not None:
            part._tables = {}
            for task in part.tasks:
                kept = rows[self.tasks.codes[rows] == self.tasks.code(task)]
                places = np.searchsorted(self.tasks.rows(task), kept)
                part._tables[task] = self._tables[task].take(places)
        return part


def _n_columns(base_margin: Any) -> int:
    """Outputs that a base margin, or the first of a mapping, is meant for."""
    if is_mapping(base_margin):
        base_margin = next(iter(base_margin.values()), None)
    shape = as_array(base_margin).shape
    return int(shape[1]) if len(shape) == 2 else 1
