# SPDX-License-Identifier: Apache-2.0
"""Importance of each feature, from the splits of the trees (eruhimov2007, eq. 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost import _core

ImportanceType: TypeAlias = Literal["impurity", "gain"]
Importances: TypeAlias = npt.NDArray[np.float64]


def tree_importances(
    arrays: Mapping[str, npt.NDArray[Any]], n_features: int, kind: ImportanceType
) -> Importances:
    """Importance of each feature in one tree.

    Parameters
    ----------
    arrays : mapping
        The tree, as ``_core.BoostedModel.tree_arrays`` gives it.
    n_features : int
    kind : {"impurity", "gain"}
        ``"impurity"``: of each node that a feature splits, I(t) - p_L I(t_L) - p_R I(t_R), where I
        is the variance of what the tree was fitted to, summed over outputs, and p_L, p_R are the
        shares of the node's weight (eq. 1). ``"gain"``: the same times the weight of the node.

    Returns
    -------
    ndarray of float64, shape (n_features,)
    """
    node = np.flatnonzero(arrays["left"] >= 0)
    left = arrays["left"][node]
    weight, impurity = arrays["weight"].astype(np.float64), arrays["impurity"]
    spread = weight * impurity
    # Where nothing but rounding is left it may seem to rise.
    gains = np.maximum(spread[node] - spread[left] - spread[left + 1], 0.0)
    falls = gains if kind == "gain" else gains / weight[node]
    found = np.zeros(n_features)
    np.add.at(found, arrays["feature"][node], falls)
    return found


def model_importances(model: _core.BoostedModel, kind: ImportanceType) -> Importances:
    """Mean over the trees (eq. 2), of shape (n_features,)."""
    found = np.zeros(model.n_features)
    for tree in range(model.n_trees):
        found += tree_importances(model.tree_arrays(tree), model.n_features, kind)
    return found / max(model.n_trees, 1)


def as_shares(importances: Importances) -> Importances:
    """Scaled to a sum of 1, unless all are 0."""
    total: float = importances.sum()
    return importances / (total or 1.0)
