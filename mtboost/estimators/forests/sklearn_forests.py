# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's forests as the core's: the same trees, and the same predictions."""

from __future__ import annotations

import sys
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from mtboost import _core

#: Names in sklearn.ensemble, whose import takes 9 MB: who has such a forest has imported it.
FORESTS = (
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
)


def is_sklearn_forest(forest: Any) -> TypeGuard[Any]:
    """Whether :func:`as_core_forest` reads it."""
    ensemble = sys.modules.get("sklearn.ensemble")
    return isinstance(forest, tuple(getattr(ensemble, name) for name in FORESTS if ensemble))


def as_core_forest(forest: Any) -> _core.Forest:
    """Convert a fitted forest, thresholds, missing values, leaves and all.

    Parameters
    ----------
    forest : RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, \
ExtraTreesRegressor
        Fitted.

    Returns
    -------
    _core.Forest
        Its outputs are the labels' means in each leaf. Of each label column of a classifier they
        are the shares of the classes; of two classes that of the second.
    """
    core = _core.Forest(_core.ForestParams(), n_features=forest.n_features_in_)
    n_classes = np.atleast_1d(getattr(forest, "n_classes_", np.ones(forest.n_outputs_, np.int64)))
    for estimator in forest.estimators_:
        tree = estimator.tree_
        outputs = np.hstack([_outputs(tree.value[:, i], n) for i, n in enumerate(n_classes)])
        core.add_tree(_tree_arrays(tree, outputs), n_outputs=outputs.shape[1])
    return core


def _outputs(values: npt.NDArray[np.float64], n_classes: int) -> npt.NDArray[np.float64]:
    """Of each node: a mean, one share of two, or all shares."""
    return values[:, 1:2] if n_classes == 2 else values[:, :n_classes]


def _tree_arrays(tree: Any, outputs: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[Any]]:
    """A tree in the order of cpp/core/tree/decision_tree.hpp: siblings are neighbours."""
    is_divided = tree.children_left >= 0
    # Both number a child after its parent. So, if node number k of those that are divided has the
    # children 2k + 1 and 2k + 2, children come after their parents here as well.
    lefts = 2 * np.arange(np.count_nonzero(is_divided), dtype=np.int32) + 1
    old = np.zeros(tree.node_count, np.int64)
    old[lefts] = tree.children_left[is_divided]
    old[lefts + 1] = tree.children_right[is_divided]
    left = np.full(tree.node_count, -1, np.int32)
    left[np.argsort(old)[is_divided]] = lefts
    is_leaf = left < 0
    return {
        "left": left,
        "feature": np.where(is_leaf, np.cumsum(is_leaf) - 1, tree.feature[old]).astype(np.uint32),
        "threshold": np.where(is_leaf, np.float32(0.0), _less_than(tree.threshold)[old]),
        "default_left": np.where(is_leaf, 0, tree.missing_go_to_left[old]).astype(np.uint8),
        "impurity": tree.impurity[old],
        "weight": tree.weighted_n_node_samples[old].astype(np.float32),
        "task_list_starts": np.zeros(1, np.uint32),
        "listed_tasks": np.empty(0, np.uint32),
        "leaf_values": outputs[old[is_leaf]].ravel(),
        "leaf_starts": np.empty(0, np.uint64),
        "leaf_outputs": np.empty(0, np.uint32),
    }


def _less_than(thresholds: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Of each threshold t the float32 s such that x < s is x <= t for every float32 x."""
    nearest = thresholds.astype(np.float32)
    above = np.nextafter(nearest, np.float32(np.inf))
    return np.where(nearest > thresholds, nearest, above)
