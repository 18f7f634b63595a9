# SPDX-License-Identifier: Apache-2.0
"""Common part of all forests: growing, predicting, files."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse
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
    is_number,
    listed,
)
from mtboost.base.labels import as_float64_weights, check_sum_of_weights
from mtboost.base.progress import Progress
from mtboost.base.sklearn_input import label_array
from mtboost.base.tasks import TaskSet
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError, ParameterError
from mtboost.estimators.forests.forest_file import forest_from_file, forest_to_file
from mtboost.estimators.table_estimator import (
    CoreTable,
    TableEstimator,
    TableRows,
    core_codes,
    core_table,
)
from mtboost.estimators.tree_parameters import (
    MaxFeatures,
    check_adds_trees,
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


@dataclass(frozen=True, eq=False)
class ForestLabels:
    """Labels as the core reads them, and what a forest remembers of them.

    Attributes
    ----------
    arguments : dict
        Of ``_core.Forest.grow``.
    n_outputs : int
        Numbers that a leaf has.
    fitted : dict
        Attributes of the fitted estimator.
    table : ndarray or sparse matrix of shape (n_rows, n_outputs), optional
        Labels with a column for each output, for projections that are computed from them.
    """

    arguments: dict[str, Any]
    n_outputs: int
    fitted: dict[str, Any]
    table: Any = None


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
    oob_score_: float
    # Whether the rows that trees drew no longer follow from the parameters of the last of them.
    _draws_differ: bool = False

    # ---- fit --------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Self:
        for name in ("bootstrap", "oob_score", "warm_start"):
            check_switch(name, getattr(self, name))
        goes_on = self.warm_start and hasattr(self, "forest_")
        if not goes_on:
            self._forget()
        labels = self._read_labels(y)
        table, tasks = self._read(X, task, reset=not goes_on, y=y, sample_weight=sample_weight)
        check_consistent_length(table, y)
        weights = None
        if sample_weight is not None:
            n_rows = table.shape[0]
            weights = as_float64_weights(sample_weight, n_rows, argument="sample_weight")
            check_sum_of_weights(weights)
        every = check_verbose(self.verbose)
        if goes_on:
            self._check_goes_on(labels, tasks)
        else:
            self.tasks_ = tasks.names
            for name, value in labels.fitted.items():
                setattr(self, name, value)
        forest, n_missing = self._begin(table, tasks, goes_on)
        self._check_can_be_saved()
        codes = core_codes(tasks.codes) if self._knows_tasks() else None
        n_threads = self._n_threads(table.size)
        rows: dict[str, Any] = {"tasks": codes, "weights": weights, "n_threads": n_threads}
        if n_missing > 0:
            options = labels.arguments | self._split_targets(labels, weights) | rows
            self._grow(forest, core_table(table), n_missing, options, every)
        if self.oob_score:
            self._set_out_of_bag(forest.predict_out_of_bag(core_table(table), **rows), y)
        return self

    def _grow(
        self,
        forest: _core.Forest,
        table: CoreTable,
        n_missing: int,
        options: dict[str, Any],
        every: int,
    ) -> None:
        """Add trees; `options` are arguments of ``_core.Forest.grow``."""
        n_threads = options["n_threads"]
        columns = _core.FeatureColumns(table, n_threads=n_threads)
        n_trees = forest.n_trees + n_missing
        # Trees of one call grow side by side.
        at_once = max(every, n_threads, -(-n_missing // _MOST_REPORTS)) if every else n_missing
        with Progress(n_trees, is_shown=every > 0, unit="tree") as progress:
            while forest.n_trees < n_trees:
                forest.grow(columns, n_trees=min(at_once, n_trees - forest.n_trees), **options)
                self._keep(forest)  # if interrupted, with the trees that have grown
                progress.report(forest.n_trees)

    def _keep(self, forest: _core.Forest) -> None:
        known = getattr(self, "forest_", forest)
        self._draws_differ |= _draws(known.params) != _draws(forest.params)
        self.forest_ = forest
        self._forget_out_of_bag()

    def _set_out_of_bag(self, outputs: Float64Array, y: Any) -> None:
        predicted, is_known = self._predict_out_of_bag(outputs), ~np.isnan(outputs[:, 0])
        if not is_known.any():
            self.oob_score_ = np.nan
            warn_user(
                "oob_score_ is nan: each row was drawn for every tree, so that none is out of bag. "
                "Grow more trees, or draw fewer rows (max_samples)."
            )
            return
        y = y.tocsr() if scipy.sparse.issparse(y) else label_array(y)
        self.oob_score_ = self._score_out_of_bag(predicted[is_known], y[is_known])

    def _forget(self) -> None:
        """Remove the results of an earlier fit: one that is refused leaves no half of them."""
        self.__dict__.pop("forest_", None)
        self._draws_differ = False
        self._forget_out_of_bag()

    def _forget_out_of_bag(self) -> None:
        for name in ("oob_score_", "oob_decision_function_", "oob_prediction_"):
            self.__dict__.pop(name, None)

    def _check_goes_on(self, labels: ForestLabels, tasks: TaskSet) -> None:
        """Refuse tasks and labels that the trees do not know."""
        begin_again = "leave warm_start out to begin again."
        if tasks.names != self.tasks_:
            raise DataError(
                f"warm_start goes on with {listed(self.tasks_, 'task')}, but the rows have "
                f"{listed(tasks.names, 'task')}: {begin_again}"
            )
        are_labels = labels.fitted.get("_has_indicators", False)
        if are_labels != getattr(self, "_has_indicators", False):
            forms = ["a column of classes", "an indicator matrix of labels"]
            raise DataError(
                f"y is {forms[are_labels]}, but warm_start goes on with trees of "
                f"{forms[not are_labels]}: {begin_again}"
            )
        classes = labels.fitted.get("classes_")
        if classes is not None and not are_labels and not np.array_equal(classes, self.classes_):
            raise DataError(
                f"y has {listed(classes.tolist(), 'class')}, but warm_start goes on with "
                f"trees of {listed(self.classes_.tolist(), 'class')}: {begin_again}"
            )
        if labels.n_outputs != self.forest_.n_outputs:
            raise DataError(
                f"y has {labels.n_outputs} outputs, but warm_start goes on with trees of "
                f"{self.forest_.n_outputs}: {begin_again}"
            )

    def _begin(self, table: TableRows, tasks: TaskSet, goes_on: bool) -> tuple[_core.Forest, int]:
        """Return a forest, empty or the one to go on with, and the number of trees to grow."""
        n_missing = check_count("n_estimators", self.n_estimators, low=1)
        if self.oob_score and not self.bootstrap:
            raise ParameterError("oob_score=True needs bootstrap=True: else no row is out of bag.")
        if self.max_samples is not None and not self.bootstrap:
            raise ParameterError(
                "max_samples needs bootstrap=True: without, each tree has all rows. Leave it out."
            )
        n_rows, n_features = table.shape
        params = {
            "max_features": features_per_node(self.max_features, n_features),
            "max_depth": checked_depth(self.max_depth),
            "min_samples_split": rows_at_least(
                self.min_samples_split, n_rows, "min_samples_split", 2
            ),
            "min_samples_leaf": rows_at_least(self.min_samples_leaf, n_rows, "min_samples_leaf", 1),
            "n_bootstrap": self._n_drawn(n_rows) if self.bootstrap else 0,
            # Without a seed by number, further trees go on with the seed of the first.
            "seed": self.forest_.params["seed"]
            if goes_on and not is_number(self.random_state)
            else seed_of(self.random_state),
            **self._core_parameters(),
        }
        forest = _core.Forest(
            _core.ForestParams(**params),
            n_features=n_features,
            n_tasks=tasks.n_tasks if self._knows_tasks() else 0,
        )
        if not goes_on:
            return forest, n_missing
        check_adds_trees(self.n_estimators, self.forest_.n_trees)
        n_missing -= self.forest_.n_trees
        is_drawn_alike = _draws(forest.params) == _draws(self.forest_.params)
        if self.oob_score and not (is_drawn_alike and not self._draws_differ):
            raise ParameterError(
                "oob_score=True needs trees that draw their rows alike, but warm_start goes on "
                "with trees of another bootstrap, max_samples, random_state or number of rows: "
                "leave oob_score out, or warm_start to begin again."
            )
        if n_missing == 0 or forest.params == self.forest_.params:
            return self.forest_, n_missing
        forest.add_trees(self.forest_.arrays(), n_outputs=self.forest_.n_outputs)
        return forest, n_missing

    @abc.abstractmethod
    def _core_parameters(self) -> dict[str, Any]:
        """Parameters of the core that this kind of forest adds."""

    @abc.abstractmethod
    def _read_labels(self, y: Any) -> ForestLabels:
        """Check `y`, and convert it; the estimator stays as it is."""

    def _split_targets(self, labels: ForestLabels, weights: Float64Array | None) -> dict[str, Any]:
        """Arguments of ``_core.Forest.grow`` that say what splits are found on."""
        return {}

    @abc.abstractmethod
    def _predict_out_of_bag(self, outputs: Float64Array) -> Float64Array:
        """Set the attribute of predictions from the outputs of leaves, and return it."""

    @abc.abstractmethod
    def _score_out_of_bag(self, predicted: Float64Array, y: Any) -> float:
        """Score some rows of :meth:`_predict_out_of_bag`."""

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
        content = super()._to_file() | forest_to_file(self.forest_)
        return content | ({"draws_differ": True} if self._draws_differ else {})

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
        self._draws_differ = "draws_differ" in content

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


def _draws(params: Mapping[str, Any]) -> tuple[int, int]:
    """What the rows that a tree is grown on depend on, beside its number and the table."""
    return params["n_bootstrap"], params["seed"]
