# SPDX-License-Identifier: Apache-2.0
"""Estimators of the core's own trees: tables and tasks as the core reads them."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils import check_array

from mtboost import _core
from mtboost.base.archive import require
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import LARGEST_COUNT, listed
from mtboost.base.dataset import is_column, place_of_task_column, split_task_column
from mtboost.base.row_order import warn_of_other_order
from mtboost.base.sklearn_input import checked_table, reading_numbers
from mtboost.base.tables import Table, has_names
from mtboost.base.tasks import ONLY_TASK, TaskName, TaskSet
from mtboost.base.threads import default_n_threads, threads_of_jobs
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.estimators.files import SavedEstimator

TableRows: TypeAlias = npt.NDArray[np.float32] | scipy.sparse.csr_array
CoreTable: TypeAlias = npt.NDArray[np.float32] | _core.SparseRows


class TableEstimator(SavedEstimator):
    """Reads tables and tasks as the core does."""

    # Column of X that holds the task.
    task: str | int | None = None
    n_jobs: int | None
    # Sorted names; missing where nothing is known of tasks.
    tasks_: tuple[TaskName, ...]
    n_features_in_: int
    _task_place: int

    _saved: ClassVar[dict[str, Any]] = {
        "n_features_in_": int,
        "feature_names_in_": np.ndarray | None,
        "tasks_": tuple | None,
        "_task_place": int | None,
    }

    def _read(self, X: Any, task: Any, *, reset: bool, **columns: Any) -> tuple[TableRows, TaskSet]:
        table, labels = self._split(X, task, reset=reset, **columns)
        tasks = TaskSet.from_labels(labels, table.shape[0])
        if tasks.n_levels > 1:
            raise _no_nesting(f"task has the label {tasks.names[0]!r}")
        return table, tasks

    def _split(self, X: Any, task: Any, *, reset: bool, **columns: Any) -> tuple[TableRows, Any]:
        """Features as floats, and the labels of the tasks; other `columns` have the order of X."""
        if task is not None and self.task is not None:
            raise ParameterError(
                f"The task is given twice, as an argument and as column {self.task!r} of X: leave "
                f"one of them out."
            )
        if self.task is not None and not is_column(self.task):
            raise _no_nesting(f"task is {self.task!r}")
        warn_of_other_order(X, task=task, **columns)
        native = checked_table(self, X, task_column=self.task, reset=reset)
        if self.task is None:
            return _as_floats(as_table(native)), task
        if reset:
            place = place_of_task_column(native, self.task)[1]
            assert isinstance(place, int)
            self._task_place = place
        # A table without names has its columns where that of training had them.
        column = self.task if reset or has_names(native) else self._task_place
        table, labels = split_task_column(native, column)
        return _as_floats(table), labels

    def _read_known(
        self, X: Any, task: Any
    ) -> tuple[CoreTable, npt.NDArray[np.uint32] | None, int]:
        """A table, the codes of its tasks (2**32 - 1: was not seen), and threads for it."""
        table, labels = self._split(X, task, reset=False)
        knows_tasks = self._knows_tasks()
        codes = None
        if knows_tasks or labels is not None:  # labels that make no difference are checked, too
            found = self._tasks.encode(
                labels,
                table.shape[0],
                unknown="error" if self.tasks_ == (ONLY_TASK,) else "keep",
                remedy="fit had no task: leave task out, or fit with a task for each row.",
            )
            codes = core_codes(found)
        return core_table(table), codes if knows_tasks else None, self._n_threads(table.size)

    def _knows_tasks(self) -> bool:
        """Whether predictions depend on the task."""
        return False

    @property
    def _tasks(self) -> TaskSet:
        """The tasks without the training rows."""
        return TaskSet(self.tasks_, np.empty(0, np.int32))

    @property
    def _n_features(self) -> int:
        """Columns of X without that of the task."""
        return self.n_features_in_ - (self.task is not None)

    def _set_from_file(self, content: dict[str, Any]) -> None:
        super()._set_from_file(content)
        has_columns = 0 < self.n_features_in_ <= LARGEST_COUNT
        require(has_columns, f"there are {self.n_features_in_} columns")
        names = getattr(self, "feature_names_in_", None)
        are_names = names is None or (
            names.shape == (self.n_features_in_,) and set(map(type, names.tolist())) <= {str}
        )
        require(are_names, "columns lack names")
        n_jobs = self.n_jobs
        is_count = isinstance(n_jobs, int) and n_jobs != 0
        require(n_jobs is None or is_count, f"n_jobs is {n_jobs!r}")
        tasks = getattr(self, "tasks_", ())
        kinds = {type(name) for name in tasks}
        require(len(kinds) <= 1 and kinds <= {int, str, bool}, "tasks have names of other types")
        require(tasks == tuple(sorted(set(tasks))), "the names of the tasks do not ascend")
        place = getattr(self, "_task_place", -1)
        require(
            self.task is None or 0 <= place < self.n_features_in_, "the column of tasks is unknown"
        )

    def _n_threads(self, n_cells: int) -> int:
        return default_n_threads(threads_of_jobs(self.n_jobs), n_cells)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _as_floats(table: Table) -> TableRows:
    if table.categorical_features:
        raise DataError(
            f"X holds categories in {listed(table.categorical_features, 'column')}, which trees of "
            f"mtboost's own do not read: encode them as numbers, for example with "
            f"sklearn.preprocessing.OneHotEncoder."
        )
    with reading_numbers("X"):
        checked = check_array(
            _without_sparse_columns(table),
            accept_sparse="csr",
            dtype=np.float32,
            ensure_all_finite="allow-nan",
            input_name="X",
        )
    return as_rows(checked)


def _without_sparse_columns(table: Table) -> Any:
    """The user's object; scikit-learn reads sparse columns only if all are, filled by 0."""
    types = table.column_types if table.library == "pandas" else {}
    fills = [dtype.fill_value for dtype in types.values() if hasattr(dtype, "fill_value")]
    if not fills or (len(fills) == table.n_features and not any(fills)):
        return table.native
    dense = {label: getattr(own, "subtype", own) for label, own in table.native.dtypes.items()}
    return table.native.astype(dense)


def as_rows(table: Any) -> TableRows:
    """A dense table as it is; of a sparse one each value once, in the order of its row."""
    if not scipy.sparse.issparse(table):
        dense: npt.NDArray[np.float32] = table
        return dense
    rows = scipy.sparse.csr_array(table)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def core_table(rows: TableRows, *, absent: float = 0.0) -> CoreTable:
    """Rows as the core reads them; `absent` is what a sparse matrix does not store, 0 or NaN."""
    if isinstance(rows, np.ndarray):
        return rows
    return _core.SparseRows(
        indptr=rows.indptr.astype(np.int64),
        indices=_as_uint32(rows.indices),
        values=rows.data,
        n_features=rows.shape[1],
        absent=absent,
    )


def _as_uint32(indices: npt.NDArray[np.signedinteger[Any]]) -> npt.NDArray[np.uint32]:
    """Indices that are not negative; 32 bits wide they are not copied."""
    if indices.dtype == np.int32:
        return indices.view(np.uint32)
    return indices.astype(np.uint32)


def _no_nesting(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}: this estimator has no nested tasks. Pass one label a row, or use "
        "MultiTaskClassifier or MultiTaskRegressor."
    )


def core_codes(codes: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
    """-1, a task that is unknown, becomes the core's 2**32 - 1."""
    return np.ascontiguousarray(codes).view(np.uint32)
