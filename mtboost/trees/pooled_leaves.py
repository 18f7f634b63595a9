# SPDX-License-Identifier: Apache-2.0
"""Partially pooled leaves: one value for all tasks, and for each task its own, shrunk towards it.

A leaf's pooled value is w = -G/(H + λ). A task with the sums G_t and H_t in the leaf would have the
value w_t = -G_t/H_t on its own; it gets w + δ_t with

    δ_t = -(G_t + H_t w)/(H_t + κ) = H_t/(H_t + κ) · (w_t - w),

the posterior mean of a task effect with variance σ²/κ, where σ²/H_t is that of w_t. κ → ∞ is the
pooled tree, κ = 0 a tree with separate leaves for every task.

Nested tasks have a κ for each level. A group of tasks has the value

    v_r = w + P_r/(P_r + κ_r) · (m_r - w),    P_r = Σ P_t,    m_r = Σ P_t w_t / P_r

with P_t = H_t κ_t/(H_t + κ_t), the precision of w_t as an estimate of the group's value, and its
tasks are shrunk towards v_r in place of w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.arrays import Float64Array, Int32Array, Total, on_host, ratio
from mtboost.trees import on_device
from mtboost.trees.nesting import Nesting
from mtboost.trees.pooling import (
    EstimatedPooling,
    Kappa,
    Pooling,
    RelativePooling,
    between_task_pooling,
    simplified,
)
from mtboost.trees.task_values import TaskValues, pair_numbers


@dataclass(eq=False)
class PooledTrees:
    """Leaf values of single tasks, for all trees of a model.

    Attributes
    ----------
    pooling : float, tuple of float, EstimatedPooling, RelativePooling or None
        κ; it becomes a number with the first tree, or one for each level of nested tasks. None
        where leaves are pooled.
    values : list of TaskValues
        One for each tree; where leaves are pooled and no tree has values of single tasks, none.
    """

    pooling: Pooling = None
    values: list[TaskValues] = field(default_factory=list)
    #: Sum of the first tree's hessians over the number of tasks.
    mean_hessian: float = 0.0

    @property
    def has_values(self) -> bool:
        """Whether leaves may hold values of single tasks."""
        return self.pooling is not None or bool(self.values)

    @property
    def are_nested(self) -> bool:
        """Whether groups of tasks have values."""
        return isinstance(self.pooling, tuple)

    def scaled(self, factor: float) -> PooledTrees:
        """Return the same with all values multiplied."""
        values = [
            replace(
                own,
                value=factor * own.value,
                learning_rate=factor * own.learning_rate,
                start=factor * own.start,
            )
            for own in self.values
        ]
        return replace(self, values=values)

    def of_levels(self, n_levels: int) -> PooledTrees:
        """Return the same with a κ for each level: groups may have values, if in other trees."""
        if self.are_nested:
            return self
        assert self.pooling is None or isinstance(self.pooling, float)
        kappa = np.inf if self.pooling is None else self.pooling
        return PooledTrees((*(n_levels - 1) * [np.inf], kappa), self.values, self.mean_hessian)

    def settled_pooling(
        self,
        pooled: Float64Array,
        leaves: Any,
        codes: Any,
        pairs: Any,
        *,
        n_tasks: int,
        total: Total | None = None,
        nesting: Nesting | None = None,
    ) -> Kappa | None:
        """Return κ as a number, or one per level; the first tree decides where it is estimated.

        Arguments are those of :func:`pool_leaves`.
        """
        if not self.values:
            took_part = leaves >= 0
            hessian = pairs[:, 1] if took_part.all() else pairs[took_part, 1]
            hessian = on_host(hessian.sum(dtype=np.float64, keepdims=True))
            self.mean_hessian = float((hessian if total is None else total(hessian))[0]) / n_tasks
        if isinstance(self.pooling, RelativePooling):
            n_levels = 1 if nesting is None else nesting.n_levels
            self.pooling = self.pooling.of_levels(self.mean_hessian, n_levels)
        elif isinstance(self.pooling, EstimatedPooling):
            rows = (on_host(part) for part in (leaves, codes, pairs))
            found = between_task_pooling(
                pooled, *rows, n_tasks=n_tasks, total=total, nesting=nesting
            )
            kappas = found if isinstance(found, tuple) else (found,)
            self.pooling = simplified(tuple(self.pooling.factor * kappa for kappa in kappas))
        return self.pooling


def pool_leaves(
    pooled: Float64Array,
    leaves: Any,
    codes: Any,
    pairs: Any,
    *,
    n_tasks: int,
    pooling: Kappa,
    learning_rate: float,
    refit: Callable[[Float64Array, Int32Array], Float64Array] | None = None,
    total: Total | None = None,
    nesting: Nesting | None = None,
    bounds: tuple[Float64Array, Float64Array] | None = None,
) -> TaskValues:
    """Values of the tasks in the leaves of a tree just grown, and of groups of nested tasks.

    Parameters
    ----------
    pooled : ndarray of float64, shape (n_nodes,)
        Value of every leaf for all tasks together, learning rate included.
    leaves : ndarray of int32, shape (n_rows,)
        Node that each row fell into; negative if the row took no part in growing.
    codes : ndarray of int32, shape (n_rows,)
        Task of each row.
    pairs : ndarray of float32, shape (n_rows, 2)
        Gradient and hessian of each row. These three may be arrays of CuPy.
    pooling : float, or tuple of float
        κ, in units of the hessian (for squared error: rows); of nested tasks one for each level.
    learning_rate : float
        What Newton steps are multiplied by.
    refit : callable (values, leaves) -> values, optional
        For a loss whose leaf values are no Newton steps: its own optimum in each leaf.
    total : callable, optional
        Where the rows are those of one of several workers, which `refit` does not support.
    nesting : Nesting, optional
        Groups of the tasks, where there is a κ for each level.
    bounds : pair of ndarray of float64, shape (n_nodes,), optional
        Least and greatest value of each leaf, by monotone constraints.

    Returns
    -------
    TaskValues

    """
    if isinstance(leaves, np.ndarray):
        kernels: Any = _core
        leaves, pairs = np.ascontiguousarray(leaves), np.ascontiguousarray(pairs)
    else:
        kernels = on_device
    leaf, task, gradient, hessian = kernels.sum_by_leaf_and_task(
        leaves, codes, pairs, n_nodes=len(pooled), n_tasks=n_tasks
    )
    xp: Any = np if isinstance(leaf, np.ndarray) else on_device.namespace(leaf)
    if total is not None or refit is not None or isinstance(pooling, tuple):
        xp = np
        leaf, task, gradient, hessian = map(on_host, (leaf, task, gradient, hessian))
    if total is not None:
        has_rows = np.zeros(len(pooled))
        has_rows[leaf] = 1.0
        leaves_of_all = np.flatnonzero(total(has_rows)).astype(np.int32)  # half of the nodes
        table = np.zeros((2, len(leaves_of_all), n_tasks))
        table[:, np.searchsorted(leaves_of_all, leaf), task] = gradient, hessian
        table = total(table)
        place, task = (found.astype(np.int32) for found in np.nonzero(table[1] > 0.0))
        gradient, hessian = table[:, place, task]
        leaf = leaves_of_all[place]
    if refit is None:
        own = -learning_rate * gradient / hessian
    else:
        numbers = pair_numbers(leaves, codes, n_tasks)
        numbers = np.where(leaves >= 0, numbers, ~numbers)
        own = refit(np.zeros(len(pooled) * (n_tasks + 1)), numbers)[leaf * (n_tasks + 1) + task]
    if isinstance(pooling, tuple):
        assert nesting is not None
        leaf, task, value = _nested_values(pooled, leaf, task, own, hessian, pooling, nesting)
    else:
        share = hessian / (hessian + pooling)
        of_leaf = xp.asarray(pooled)[leaf]
        value = of_leaf + share * (own - of_leaf)
    if bounds is not None:
        low, high = map(xp.asarray, bounds)
        value = xp.clip(value, low[leaf], high[leaf])
    return TaskValues(on_host(leaf), on_host(task), on_host(value), learning_rate)


def _nested_values(
    pooled: Float64Array,
    leaf: Int32Array,
    task: Int32Array,
    own: Float64Array,
    hessian: Float64Array,
    pooling: tuple[float, ...],
    nesting: Nesting,
) -> tuple[Int32Array, Int32Array, Float64Array]:
    """Leaf, code and value of nested tasks and their groups.

    From the tasks outwards, estimates of each level are averaged by their precision about the value
    of their group; from the outermost groups inwards, they are shrunk towards that value.
    """
    levels = [(leaf, task, own, hessian)]
    places: list[npt.NDArray[np.int64]] = []
    for kappa in pooling[:0:-1]:
        leaf, task, mean, precision = levels[-1]
        if np.isfinite(kappa):
            precision = precision * (kappa / (precision + kappa))
        keys = leaf.astype(np.int64) * nesting.n_names + nesting.parents[task]
        groups, place = np.unique(keys, return_inverse=True)
        total = np.bincount(place, precision, len(groups)).astype(np.float64)
        weighted = np.bincount(place, precision * mean, len(groups)).astype(np.float64)
        leaf, task = (part.astype(np.int32) for part in np.divmod(groups, nesting.n_names))
        levels.append((leaf, task, ratio(weighted, total), total))
        places.append(place)
    found: list[tuple[Int32Array, Int32Array, Float64Array]] = []
    for kappa in pooling:
        leaf, task, mean, precision = levels.pop()
        towards = found[-1][2][places.pop()] if found else pooled[leaf]
        share = ratio(precision, precision + kappa)
        found.append((leaf, task, towards + share * (mean - towards)))
    leaf, task, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((task, leaf))
    return leaf[order], task[order], value[order]
