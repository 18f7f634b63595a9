# SPDX-License-Identifier: Apache-2.0
"""Bounds within which the leaf values of a tree keep its monotone constraints, for every task.

The libraries bound the children of a monotone split by the middle of their weights. Here the middle
is that of the nearest leaves on both sides, so that it also holds for the values of single tasks:
if all leaves on one side have values of at most m, and all on the other of at least m, then no
change of the split's feature across its threshold lowers the prediction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array


def leaf_bounds(
    left: npt.NDArray[np.integer],
    right: npt.NDArray[np.integer],
    feature: npt.NDArray[np.integer],
    value: npt.NDArray[np.floating],
    signs: Sequence[int],
) -> tuple[Float64Array, Float64Array]:
    """Return the least and greatest value of each leaf.

    Leaf values that keep the constraints are within; others are as far as they keep them.

    Parameters
    ----------
    left, right : ndarray of int, shape (n_nodes,)
        Children, which come after their parent; negative for a leaf.
    feature : ndarray of int, shape (n_nodes,)
    value : ndarray of float, shape (n_nodes,)
        Values of the leaves.
    signs : sequence of int
        1 where predictions may not fall as the feature grows, -1 where they may not rise, 0, or
        missing at the end, for no constraint.

    Returns
    -------
    low, high : ndarrays of float64, shape (n_nodes,)
    """
    children = list(zip(left.tolist(), right.tolist(), strict=True))
    sign_of = [*signs, 0]
    splits = [
        sign_of[min(column, len(signs))] if children[node][0] >= 0 else 0
        for node, column in enumerate(feature.tolist())
    ]
    least, greatest = value.astype(np.float64).tolist(), value.astype(np.float64).tolist()
    for node in reversed(range(len(children))):
        one, other = children[node]
        if one >= 0:
            least[node] = min(least[one], least[other])
            greatest[node] = max(greatest[one], greatest[other])
    low, high = [-np.inf] * len(children), [np.inf] * len(children)
    for node, (one, other) in enumerate(children):
        if one < 0:
            continue
        for child in (one, other):
            low[child], high[child] = low[node], high[node]
        if splits[node]:
            lower, upper = (one, other) if splits[node] > 0 else (other, one)
            middle = 0.5 * (greatest[lower] + least[upper])
            high[lower] = low[upper] = min(max(middle, low[node]), high[node])
    return np.array(low), np.array(high)
