"""What all forests share: tables and tasks as the core reads them, growing, and predicting."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeGuard

import joblib
import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mtboost import _core
from mtboost.dataset import split_task_column
from mtboost.errors import DataError, ParameterError
from mtboost.forests.forest_file import SavedForest, forest_from_file, forest_to_file, require
from mtboost.labels import as_weights
from mtboost.tables import Table, as_table
from mtboost.tasks import TaskName, TaskSet, listed
from mtboost.threads import default_n_threads

MaxFeatures: TypeAlias = Literal["sqrt", "log2"] | float | int | None
Floats: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.float32] | scipy.sparse.csr_array
CoreTable: TypeAlias = npt.NDArray[np.float32] | _core.SparseRows


#: Fitted attributes of forests, and their types.
CLASSIFIER_ATTRIBUTES: dict[str, Any] = {
    "classes_": np.ndarray,
    "oob_score_": float | None,
    "oob_decision_function_": np.ndarray | None,
}
REGRESSOR_ATTRIBUTES: dict[str, Any] = {
    "oob_score_": float | None,
    "oob_prediction_": np.ndarray | None,
}


class TableEstimator(SavedForest):
    """Reads tables and tasks as the core does."""

    #: Column of X that holds the task.
    task: str | int | None = None
    n_jobs: int | None
    #: Sorted names; missing where nothing is known of tasks.
    tasks_: tuple[TaskName, ...]
    n_features_in_: int
    _task_place: int

    _saved: ClassVar[dict[str, Any]] = {
        "n_features_in_": int,
        "feature_names_in_": np.ndarray | None,
        "tasks_": tuple | None,
        "_task_place": int | None,
    }

    def _read(self, X: Any, task: Any, *, reset: bool) -> tuple[Rows, TaskSet]:
        table, labels = self._split(X, task, reset=reset)
        return table, TaskSet.from_labels(labels, table.shape[0])

    def _split(self, X: Any, task: Any, *, reset: bool) -> tuple[Rows, Any]:
        """Features as floats, and the labels of the tasks."""
        if task is not None and self.task is not None:
            raise ParameterError(
                f"The task is given twice, as an argument and as column {self.task!r} of X: leave "
                f"one of them out."
            )
        native = validate_data(
            self,
            X,
            reset=reset,
            skip_check_array=hasattr(type(X), "columns"),
            # One column of an array of objects may hold the names of the tasks.
            dtype="numeric" if self.task is None else None,
            ensure_all_finite="allow-nan",
            accept_sparse=("csr", "csc"),
        )
        if self.task is None:
            return _as_floats(as_table(native)), task
        table, labels = split_task_column(native, self.task)
        self._task_place = _place_of(self.task, native)
        return _as_floats(table), labels

    def _read_known(
        self, X: Any, task: Any
    ) -> tuple[CoreTable, npt.NDArray[np.uint32] | None, int]:
        """A table, the codes of its tasks (2**32 - 1: was not seen), and threads for it."""
        table, labels = self._split(X, task, reset=False)
        codes = None
        if self._knows_tasks():
            codes = core_codes(self._tasks.encode(labels, table.shape[0], unknown="keep"))
        return core_table(table), codes, self._n_threads(table.size)

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
        names = getattr(self, "feature_names_in_", None)
        require(names is None or names.shape == (self.n_features_in_,), "columns lack names")
        tasks = getattr(self, "tasks_", ())
        kinds = {type(name) for name in tasks}
        require(len(kinds) <= 1 and kinds <= {int, str, bool}, "tasks have names of other types")
        require(tasks == tuple(sorted(set(tasks))), "the names of the tasks do not ascend")
        place = getattr(self, "_task_place", -1)
        require(
            self.task is None or 0 <= place < self.n_features_in_, "the column of tasks is unknown"
        )

    def _n_threads(self, n_cells: int) -> int:
        n_jobs = None if self.n_jobs is None else joblib.effective_n_jobs(self.n_jobs)
        return default_n_threads(n_jobs, n_cells)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


class BaseForest(TableEstimator):
    """Trees whose leaves are averaged; parameters are described at each forest.

    A subclass says how labels become numbers, and what the trees know beside them.
    """

    #: Parameters of every forest.
    n_estimators: int
    max_features: MaxFeatures
    max_depth: int | None
    min_samples_split: int | float
    min_samples_leaf: int | float
    bootstrap: bool
    max_samples: int | float | None
    oob_score: bool
    warm_start: bool
    random_state: int | np.random.RandomState | None

    forest_: _core.Forest

    # ---- fit --------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Self:
        labels = self._read_labels(y)
        table, tasks = self._read(X, task, reset=True)
        check_consistent_length(table, y)
        weights = None
        if sample_weight is not None:
            weights = np.asarray(
                as_weights(sample_weight, table.shape[0], argument="sample_weight"),
                dtype=np.float64,
            )
        n_missing = self._begin(table, tasks)
        if n_missing == 0:
            return self
        codes = core_codes(tasks.codes) if self._knows_tasks() else None
        n_threads = self._n_threads(table.size)
        self.forest_.grow(
            _core.FeatureColumns(core_table(table), n_threads=n_threads),
            n_trees=n_missing,
            tasks=codes,
            weights=weights,
            n_threads=n_threads,
            **labels,
        )
        if self.oob_score:
            found = self.forest_.predict_out_of_bag(
                core_table(table), tasks=codes, n_threads=n_threads
            )
            self._score_out_of_bag(found, y)
        return self

    def _begin(self, table: Rows, tasks: TaskSet) -> int:
        """Make an empty forest, or go on with the one there is; the number of trees to grow."""
        n_trees = checked_count(self.n_estimators, "n_estimators")
        if self.oob_score and not self.bootstrap:
            raise ParameterError("oob_score=True needs bootstrap=True: else no row is out of bag.")
        if self.warm_start and hasattr(self, "forest_"):
            if tasks.names != self.tasks_:
                raise DataError(
                    f"warm_start goes on with {listed(self.tasks_, 'task')}, but the rows have "
                    f"{listed(tasks.names, 'task')}: leave warm_start out to begin again."
                )
            n_missing = n_trees - self.forest_.n_trees
            if n_missing < 0:
                raise ParameterError(
                    f"n_estimators={n_trees} is less than the {self.forest_.n_trees} trees there "
                    f"are: warm_start adds trees, and takes none away."
                )
            return n_missing
        self.tasks_ = tasks.names
        n_rows, n_features = table.shape
        params = {
            "max_features": features_per_node(self.max_features, n_features),
            "max_depth": checked_depth(self.max_depth),
            "min_samples_split": rows_at_least(
                self.min_samples_split, n_rows, "min_samples_split", 2
            ),
            "min_samples_leaf": rows_at_least(self.min_samples_leaf, n_rows, "min_samples_leaf", 1),
            "n_bootstrap": self._n_drawn(n_rows) if self.bootstrap else 0,
            "seed": seed_of(self.random_state),
            **self._core_parameters(),
        }
        self.forest_ = _core.Forest(
            _core.ForestParams(**params),
            n_features=n_features,
            n_tasks=tasks.n_tasks if self._knows_tasks() else 0,
        )
        return n_trees

    @abc.abstractmethod
    def _core_parameters(self) -> dict[str, Any]:
        """Parameters of the core that this kind of forest adds."""

    @abc.abstractmethod
    def _read_labels(self, y: Any) -> dict[str, Any]:
        """Labels, and what else depends on them, as arguments of ``_core.Forest.grow``."""

    @abc.abstractmethod
    def _score_out_of_bag(self, outputs: Floats, y: Any) -> None:
        """Set ``oob_score_`` and what it was computed from."""

    def _n_drawn(self, n_rows: int) -> int:
        if self.max_samples is None:
            return n_rows
        if is_integer(self.max_samples):
            if not 1 <= self.max_samples <= n_rows:
                raise ParameterError(
                    f"max_samples={self.max_samples} must lie between 1 and the {n_rows} rows."
                )
            return int(self.max_samples)
        if not is_part(self.max_samples):
            raise ParameterError(f"max_samples={self.max_samples!r} must lie in (0, 1].")
        return max(1, round(n_rows * self.max_samples))

    # ---- predictions ------------------------------------------------------------------------

    def _outputs(self, X: Any, task: Any) -> Floats:
        """Mean of the leaves' outputs, of shape (n_rows, n_outputs)."""
        check_is_fitted(self, "forest_")
        table, codes, n_threads = self._read_known(X, task)
        return self.forest_.predict(table, tasks=codes, n_threads=n_threads)

    def _leaves(self, X: Any, task: Any) -> npt.NDArray[np.int32]:
        check_is_fitted(self, "forest_")
        table, codes, n_threads = self._read_known(X, task)
        return self.forest_.leaves(table, tasks=codes, n_threads=n_threads)

    # ---- files ------------------------------------------------------------------------------

    def _to_file(self) -> dict[str, Any]:
        check_is_fitted(self, "forest_")
        if self.forest_.n_trees == 0:
            raise NotFittedError("There are no trees, because fit was interrupted: fit again.")
        return super()._to_file() | forest_to_file(self.forest_)

    def _set_from_file(self, content: dict[str, Any]) -> None:
        super()._set_from_file(content)
        forest = forest_from_file(content)
        n_tasks = len(self.tasks_) if self._knows_tasks() else 0
        require(
            (forest.n_features, forest.n_tasks) == (self._n_features, n_tasks)
            and self._n_outputs() in (None, forest.n_outputs),
            "the trees are of another forest",
        )
        self.forest_ = forest

    @abc.abstractmethod
    def _n_outputs(self) -> int | None:
        """Outputs of a leaf; None: any number."""

    # ---- the trees --------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> Floats:
        """How much of the fall of impurity is due to each column of `X`.

        Shape (n_features_in_,). Averaged over the trees; a task column has the part of the task
        splits, otherwise that is :attr:`task_importance_`, and both together sum to 1.
        """
        *features, tasks = self._importances()
        if self.task is None:
            return np.array(features)
        return np.insert(np.array(features), self._task_place, tasks)

    @property
    def task_importance_(self) -> float:
        """The part of the fall of impurity that is due to task splits."""
        return float(self._importances()[-1])

    def _importances(self) -> Floats:
        check_is_fitted(self, "forest_")
        return self.forest_.importances()


# ---- checks -------------------------------------------------------------------------------------


def _as_floats(table: Table) -> Rows:
    if table.categorical_features:
        raise DataError(
            f"X holds categories in {listed(table.categorical_features, 'column')}, which a forest "
            f"cannot read: encode them as numbers, for example with "
            f"sklearn.preprocessing.OneHotEncoder."
        )
    if table.native.shape[1] > _MOST_FEATURES:
        raise DataError(
            f"X has {table.native.shape[1]} columns, and a forest counts {_MOST_FEATURES} of them: "
            f"drop those that are 0 everywhere."
        )
    checked = check_array(
        table.native,
        accept_sparse="csr",
        dtype=np.float32,
        ensure_all_finite="allow-nan",
        input_name="X",
    )
    if not scipy.sparse.issparse(checked):
        floats: npt.NDArray[np.float32] = checked
        return floats
    return scipy.sparse.csr_array(checked)


def core_table(rows: Rows) -> CoreTable:
    """Rows as the core reads them."""
    if isinstance(rows, np.ndarray):
        return rows
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return _core.SparseRows(
        indptr=rows.indptr.astype(np.int64),
        indices=_as_uint32(rows.indices),
        values=rows.data,
        n_features=rows.shape[1],
    )


def _as_uint32(indices: npt.NDArray[np.signedinteger[Any]]) -> npt.NDArray[np.uint32]:
    """Indices that are not negative; 32 bits wide they are not copied."""
    if indices.dtype == np.int32:
        return indices.view(np.uint32)
    return indices.astype(np.uint32)


def _place_of(column: str | int, native: Any) -> int:
    if isinstance(column, str) or hasattr(type(native), "columns"):
        names = getattr(native, "column_names", None) or list(native.columns)
        return [str(name) for name in names].index(str(column))
    return int(column)


def core_codes(codes: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
    """-1, a task that is unknown, becomes the core's 2**32 - 1."""
    return np.ascontiguousarray(codes).view(np.uint32)


def is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_part(value: object) -> TypeGuard[float]:
    return isinstance(value, float | np.floating) and bool(0.0 < value <= 1.0)


def checked_count(value: object, name: str, least: int = 1) -> int:
    if not is_integer(value) or value < least:
        raise ParameterError(f"{name} is {value!r}: it must be an integer >= {least}.")
    return int(value)


def checked_depth(max_depth: int | None) -> int:
    return _NO_LIMIT if max_depth is None else checked_count(max_depth, "max_depth")


def rows_at_least(value: int | float, n_rows: int, name: str, least: int) -> int:
    """A number of rows, or a part of them."""
    if is_part(value):
        return max(least, int(np.ceil(value * n_rows)))
    if is_integer(value):
        return checked_count(value, name, least)
    raise ParameterError(
        f"{name} is {value!r}: it must be an integer >= {least} or a part of the rows in (0, 1]."
    )


def features_per_node(max_features: MaxFeatures, n_features: int) -> int:
    """Features that a node looks at, as scikit-learn's forests count them."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, int(np.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(np.log2(n_features)))
    if is_part(max_features):
        return max(1, int(max_features * n_features))
    if is_integer(max_features) and max_features >= 1:
        return min(int(max_features), n_features)
    raise ParameterError(
        f"max_features is {max_features!r}: it must be 'sqrt', 'log2', None, an integer >= 1, or a "
        f"part of the features in (0, 1]."
    )


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


_NO_LIMIT = 2**32 - 1
# cpp/core/tree/decision_tree.hpp: kTaskFeature is none.
_MOST_FEATURES = 2**31 - 1
