# SPDX-License-Identifier: Apache-2.0
"""Trees of one column: steps by which a function of the column becomes part of a booster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.trees.leaf_gains import Splits, quadratic_gains

# Cover of a leaf whose rows have no hessian, as a share of the mean.
_LEAST_COVER = 1e-6
# Guards against outliers: the largest distance of a point from the median, as a multiple of the
# distance of the 1 % or 99 % quantile.
_REACH = 6.0
# Values that are enough to place points by.
_MANY_VALUES = 20_000
# How often gaps between values are cut to the mean distance of points.
_N_CAPPED = 10


@dataclass(frozen=True, eq=False)
class StepTree:
    """A balanced tree of one column: each leaf has the values nearest to one point.

    Attributes
    ----------
    feature : int
        Position of the column.
    points : ndarray of float64, shape (n_leaves,)
        Ascending; one for a constant.
    missing_leaf : int
        Leaf of missing values.
    values, hessians : ndarray of float64, shape (n_leaves,)
    counts : ndarray of int64, shape (n_leaves,)
        Training rows in each leaf.
    """

    feature: int
    points: Float64Array
    missing_leaf: int
    values: Float64Array
    hessians: Float64Array
    counts: npt.NDArray[np.int64]

    @classmethod
    def empty(cls, feature: int, points: Float64Array, missing_leaf: int = 0) -> StepTree:
        """Return steps without values, of no training rows."""
        n_leaves = len(points)
        zeros = np.zeros(n_leaves)
        return cls(feature, points, missing_leaf, zeros, zeros, np.zeros(n_leaves, np.int64))

    @property
    def n_leaves(self) -> int:
        return len(self.points)

    @property
    def thresholds(self) -> Float64Array:
        """Between the points, shape (n_leaves - 1,)."""
        return self.points[:-1] + np.diff(self.points) / 2.0

    def filled(
        self, values: Float64Array, hessians: Float64Array, counts: npt.NDArray[np.int64]
    ) -> StepTree:
        """Return the same steps with values and the training rows behind them."""
        return replace(self, values=values, hessians=hessians, counts=counts)

    @cached_property
    def nodes(self) -> StepNodes:
        """The nodes, root first, parents before children."""
        begins, ends, parents = [0], [self.n_leaves], [-1]
        left: list[int] = []
        for node, (begin, end) in enumerate(zip(begins, ends, strict=False)):
            if end - begin == 1:
                left.append(-1)
                continue
            left.append(len(begins))
            middle = (begin + end) // 2
            begins += [begin, middle]
            ends += [middle, end]
            parents += [node, node]
        first, last = np.array(begins), np.array(ends)
        children = np.array(left, np.int32)
        is_leaf = children < 0
        middle_of = (first + last) // 2
        # Contributions divide by the cover of a node, and of those above it.
        least = _LEAST_COVER * (self.hessians.mean() or 1.0)
        covers = np.maximum(self.hessians, least)
        sums = [np.append(0.0, np.cumsum(part)) for part in (covers, self.counts)]
        hessian, count = (part[last] - part[first] for part in sums)
        right = np.where(is_leaf, np.int32(-1), children + np.int32(1))
        value = np.where(is_leaf, self.values[first], 0.0)
        splits = Splits(left=children, right=right, cover=hessian, value=value, gain=0.0 * value)
        thresholds = np.append(self.thresholds, 0.0)
        return StepNodes(
            left=children,
            right=right,
            parent=np.array(parents, np.int32),
            threshold=np.where(is_leaf, 0.0, thresholds[np.where(is_leaf, -1, middle_of - 1)]),
            default_left=~is_leaf & (self.missing_leaf < middle_of),
            leaf=np.where(is_leaf, first, -1).astype(np.int32),
            value=value,
            hessian=hessian,
            count=count.astype(np.int64),
            gain=quadratic_gains([splits])[0],
        )


@dataclass(frozen=True, slots=True, eq=False)
class StepNodes:
    """Nodes of a :class:`StepTree` as arrays with one entry a node.

    Attributes
    ----------
    left, right, parent : ndarray of int32
        Children, -1 for leaves; -1 for the parent of the root.
    threshold : ndarray of float64
        Smaller values go left; 0 for leaves.
    default_left : ndarray of bool
        Where missing values go.
    leaf : ndarray of int32
        Place of a leaf in the order of the thresholds; -1 for other nodes.
    value, hessian, gain : ndarray of float64
        Values of leaves; sums of hessians; gains of splits.
    count : ndarray of int64
    """

    left: Int32Array
    right: Int32Array
    parent: Int32Array
    threshold: Float64Array
    default_left: npt.NDArray[np.bool_]
    leaf: Int32Array
    value: Float64Array
    hessian: Float64Array
    count: npt.NDArray[np.int64]
    gain: Float64Array

    def leaf_nodes(self) -> Int32Array:
        """Return the node of each leaf."""
        nodes = np.flatnonzero(self.leaf >= 0)
        return nodes[np.argsort(self.leaf[nodes])].astype(np.int32)


def steps_of(column: npt.NDArray[Any], feature: int, most: int) -> StepTree | None:
    """Return at most `most` steps that are near to the values; None for fewer than two.

    Missing values go where the median is. `column` has the values as the library compares them, so
    that no two steps are one to it.
    """
    known = np.sort(column[np.isfinite(column)])
    first = np.flatnonzero(np.append(True, known[1:] != known[:-1])[: len(known)])
    if len(first) < 2:
        return None
    points, half = known[first].astype(np.float64), len(known) // 2
    median = 0.5 * float(known[half]) + 0.5 * float(known[~half])
    if len(points) > most:
        tail = len(known) // 100
        near = _is_near(points, median, known[[tail, ~tail]].astype(np.float64))
        counts = np.diff(np.append(first, len(known)))
        points = _dense_points(points[near], counts[near], most)
    return StepTree.empty(feature, points, int(np.abs(points - median).argmin()))


def _is_near(values: Float64Array, median: float, quantiles: Float64Array) -> npt.NDArray[np.bool_]:
    """Return which values are not outliers, given the quantiles of 1 % and 99 %."""
    with np.errstate(over="ignore"):
        lowest, highest = median + _REACH * (quantiles - median)
    is_spread_left, is_spread_right = quantiles != median
    is_near = np.ones(len(values), bool)
    is_near[values < lowest] = not is_spread_left
    is_near[values > highest] = not is_spread_right
    return is_near


def _dense_points(values: Float64Array, counts: npt.NDArray[np.int64], most: int) -> Float64Array:
    """Return at most `most` of the values, such that squared distances to them are small.

    Points are dense in proportion to the cube root of the density of rows (Panter and Dite, 1951).
    """
    if len(values) <= most:
        return values
    starts = np.arange(0, len(values), len(values) // _MANY_VALUES + 1)
    values, counts = values[starts], np.add.reduceat(counts, starts)
    rows, gaps = 0.5 * (counts[1:] + counts[:-1]), np.diff(0.5 * values)
    between = np.cbrt(rows * (gaps / gaps.max()) ** 2)
    for _ in range(_N_CAPPED):  # a long gap needs points at its ends only
        distance = between.sum() / most
        if between.max() <= distance:
            break
        between = np.minimum(between, distance)
    along = np.append(0.0, np.cumsum(between))
    wanted = (np.arange(most) + 0.5) / most * along[-1]
    right = np.searchsorted(along, wanted)
    is_left = wanted - along[right - 1] < along[right] - wanted
    return np.unique(values[right - is_left])
