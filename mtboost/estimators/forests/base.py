# SPDX-License-Identifier: Apache-2.0
"""Common part of all forests: growing, predicting, files."""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mtboost import _core
from mtboost.base.archive import require
from mtboost.base.arrays import Float64Array
from mtboost.base.checks import (
    check_count,
    check_number,
    check_switch,
    check_verbose,
    is_integer,
    listed,
)
from mtboost.base.labels import as_float64_weights
from mtboost.base.progress import Progress
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, ParameterError
from mtboost.estimators.forests.forest_file import forest_from_file, forest_to_file
from mtboost.estimators.table_estimator import TableEstimator, TableRows, core_codes, core_table
from mtboost.estimators.tree_parameters import (
    MaxFeatures,
    checked_depth,
    features_per_node,
    rows_at_least,
    seed_of,
)

#: Sums of squares of as many labels as memory holds fit in float64.
LARGEST_LABEL = 1e140
#: Times that progress is shown.
_MOST_REPORTS = 50


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


class BaseForest(TableEstimator):
    """Trees whose leaves are averaged; parameters are described at each forest.

    A subclass says how labels become numbers, and what the trees know beside them.
    """

    # Parameters of every forest.
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
    verbose: bool | int

    forest_: _core.Forest

    # ---- fit --------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Self:
        if not (self.warm_start and hasattr(self, "forest_")):
            self._forget()
        labels = self._read_labels(y)
        table, tasks = self._read(X, task, reset=True)
        check_consistent_length(table, y)
        weights = None
        if sample_weight is not None:
            n_rows = table.shape[0]
            weights = as_float64_weights(sample_weight, n_rows, argument="sample_weight")
        every = check_verbose(self.verbose)
        forest, n_missing = self._begin(table, tasks)
        self._check_can_be_saved()
        if n_missing == 0:
            return self
        codes = core_codes(tasks.codes) if self._knows_tasks() else None
        n_threads = self._n_threads(table.size)
        columns = _core.FeatureColumns(core_table(table), n_threads=n_threads)
        n_known = forest.n_trees
        # Trees of one call grow side by side.
        at_once = max(every, n_threads, -(-n_missing // _MOST_REPORTS)) if every else n_missing
        with Progress(n_known + n_missing, is_shown=every > 0, unit="tree") as progress:
            while forest.n_trees < n_known + n_missing:
                forest.grow(
                    columns,
                    n_trees=min(at_once, n_known + n_missing - forest.n_trees),
                    tasks=codes,
                    weights=weights,
                    n_threads=n_threads,
                    **labels,
                )
                self.forest_ = forest  # if interrupted, with the trees that have grown
                progress.report(forest.n_trees)
        if self.oob_score:
            found = forest.predict_out_of_bag(
                core_table(table), tasks=codes, weights=weights, n_threads=n_threads
            )
            self._score_out_of_bag(found, y)
        return self

    def _forget(self) -> None:
        """Remove the results of an earlier fit: one that is refused leaves no half of them."""
        for name in ("forest_", "oob_score_", "oob_decision_function_", "oob_prediction_"):
            self.__dict__.pop(name, None)

    def _begin(self, table: TableRows, tasks: TaskSet) -> tuple[_core.Forest, int]:
        """Return a forest, empty or the one to go on with, and the number of trees to grow."""
        n_trees = check_count("n_estimators", self.n_estimators, low=1)
        for name in ("bootstrap", "oob_score", "warm_start"):
            check_switch(name, getattr(self, name))
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
            return self.forest_, n_missing
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
        forest = _core.Forest(
            _core.ForestParams(**params),
            n_features=n_features,
            n_tasks=tasks.n_tasks if self._knows_tasks() else 0,
        )
        return forest, n_trees

    @abc.abstractmethod
    def _core_parameters(self) -> dict[str, Any]:
        """Parameters of the core that this kind of forest adds."""

    @abc.abstractmethod
    def _read_labels(self, y: Any) -> dict[str, Any]:
        """Labels, and what else depends on them, as arguments of ``_core.Forest.grow``."""

    @abc.abstractmethod
    def _score_out_of_bag(self, outputs: Float64Array, y: Any) -> None:
        """Set ``oob_score_`` and what it was computed from."""

    def _n_drawn(self, n_rows: int) -> int:
        if self.max_samples is None:
            return n_rows
        if is_integer(self.max_samples):
            return check_count("max_samples", self.max_samples, low=1, high=n_rows)
        besides = f"None, an integer from 1 to {n_rows}"
        part = check_number("max_samples", self.max_samples, above=0.0, high=1.0, besides=besides)
        return max(1, round(n_rows * part))

    # ---- predictions ------------------------------------------------------------------------

    def _outputs(self, X: Any, task: Any) -> Float64Array:
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
    def feature_importances_(self) -> Float64Array:
        """Share of the decrease of impurity due to each column of `X`.

        Shape (n_features,). Averaged over the trees; a task column has the part of the task
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

    def _importances(self) -> Float64Array:
        check_is_fitted(self, "forest_")
        return self.forest_.importances()
