# SPDX-License-Identifier: Apache-2.0
"""Gains of splits by the leaf values below them, for trees whose leaves have got other values.

A leaf of weight H (the hessians of its rows) has the value w, and a node the mean of the leaves
below it. A split of a node then gains what it lowers a quadratic loss by,

    H_L H_R / (H_L + H_R) · (w_L - w_R)²,

which is the library's gain for pooled leaf values without learning rate and penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Splits:
    """A tree as arrays with one entry a node, root first.

    Attributes
    ----------
    left, right : ndarray of int
        Children; -1 for leaves.
    cover, value : ndarray of float
        Of leaves; those of other nodes are not read.
    gain : ndarray of float
        Of nodes that are split; those of leaves are not read.
    """

    left: Array
    right: Array
    cover: Array
    value: Array
    gain: Array


def gains_of_values(before: Sequence[Splits], after: Sequence[Splits]) -> list[Array]:
    """Gain of each node of trees whose leaves, or some of whose nodes, have changed.

    A tree keeps its unit: by the same formula, its nodes `before` gain together what they have
    gained in training. So learning rates and penalties need not be known. A tree that is the same
    keeps its gains.

    Parameters
    ----------
    before, after : sequences of Splits
        The same trees before and after the change.

    Returns
    -------
    list of ndarray of float64
        0 for leaves.
    """
    found = [np.where(tree.left < 0, 0.0, tree.gain) for tree in before]
    changed = [
        number
        for number, (old, new) in enumerate(zip(before, after, strict=True))
        if not (np.array_equal(old.left, new.left) and np.array_equal(old.value, new.value))
    ]
    if not changed:
        return found
    trained = quadratic_gains([before[number] for number in changed])
    computed = quadratic_gains([after[number] for number in changed])
    for number, old, new in zip(changed, trained, computed, strict=True):
        total = old.sum()
        found[number] = new * (found[number].sum() / total if total > 0.0 else 0.0)
    return found


def quadratic_gains(trees: Sequence[Splits]) -> list[Array]:
    """Return the gain of each node by the formula, for all trees at once, level by level."""
    lengths = [len(tree.left) for tree in trees]
    roots = np.cumsum([0, *lengths[:-1]])
    shift = np.repeat(roots, lengths)
    left = np.concatenate([tree.left for tree in trees]).astype(np.int64)
    is_leaf = left < 0
    left = left + shift
    right = np.concatenate([tree.right for tree in trees]) + shift
    cover = np.where(is_leaf, np.concatenate([tree.cover for tree in trees]), 0.0)
    weighted = cover * np.where(is_leaf, np.concatenate([tree.value for tree in trees]), 0.0)
    gains = np.zeros(len(left))
    levels, level = [], roots
    while level.size:
        inner = level[~is_leaf[level]]
        levels.append(inner)
        level = np.concatenate([left[inner], right[inner]])
    for inner in reversed(levels):
        of_left, of_right = left[inner], right[inner]
        both = cover[of_left] * cover[of_right]
        cover[inner] = cover[of_left] + cover[of_right]
        weighted[inner] = weighted[of_left] + weighted[of_right]
        has_rows = both > 0.0
        of_left, of_right = of_left[has_rows], of_right[has_rows]
        step = weighted[of_left] / cover[of_left] - weighted[of_right] / cover[of_right]
        gains[inner[has_rows]] = both[has_rows] / cover[inner[has_rows]] * step**2
    return np.split(gains, roots[1:])
