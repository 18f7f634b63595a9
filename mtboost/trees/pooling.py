# SPDX-License-Identifier: Apache-2.0
"""How much the leaf values of tasks are shrunk: κ given, estimated, or relative to their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array, Total, ratio
from mtboost.base.checks import as_float, check_number, is_number
from mtboost.base.tasks import TaskSet
from mtboost.errors import ParameterError
from mtboost.trees.nesting import Nesting
from mtboost.trees.task_values import pair_numbers

#: κ of tasks, or of each level of nested ones, outermost first.
Kappa: TypeAlias = "float | tuple[float, ...]"
Pooling: TypeAlias = "Kappa | EstimatedPooling | RelativePooling | None"
PoolingOption: TypeAlias = "float | Sequence[float] | Literal['auto'] | None"


@dataclass(frozen=True, slots=True)
class EstimatedPooling:
    """κ by how much the tasks differ in the first tree.

    Attributes
    ----------
    factor : float
        Multiplies the estimate, which is right for one tree. Boosting comes back to what a task has
        been denied, tree after tree, so that a larger κ is better.
    """

    factor: float = 5.0


@dataclass(frozen=True, slots=True)
class RelativePooling:
    """κ as a multiple of what a task has on average: its rows' hessians in the first tree.

    Attributes
    ----------
    factor : float
    group_share : float
        Share of the groups of nested tasks in the variance σ²/κ of the tasks' values; with 0 groups
        have no values. All outer levels have the same part of it.
    """

    factor: float
    group_share: float = 0.0

    def of_levels(self, mean_hessian: float, n_levels: int) -> Kappa:
        """κ, of each level if groups have values."""
        kappa, n_outer = self.factor * mean_hessian, n_levels - 1
        if not (n_outer and self.group_share):
            return kappa
        shares = [*(n_outer * [self.group_share / n_outer]), 1.0 - self.group_share]
        return tuple(kappa / share for share in shares)


def between_task_pooling(
    pooled: Float64Array,
    leaves: Int32Array,
    codes: Int32Array,
    pairs: npt.NDArray[np.float32],
    *,
    n_tasks: int,
    total: Total | None = None,
    nesting: Nesting | None = None,
) -> Kappa:
    """Estimate κ = σ²/τ² by the method of moments.

    Arguments are those of :func:`~mtboost.trees.pooled_leaves.pool_leaves`.

    τ² is the variance of the tasks' effects δ_t within the leaves of one tree, σ² that of a row of
    hessian 1. With W the weighted squares of the tasks' own values about those of their leaves,
    Σ H_t (w_t - w)², summed over leaves and the tasks in them,

        E W = σ² (pairs - leaves) + τ² Σ (H - Σ H_t²/H).

    Nested tasks have such an equation for each level, with the weighted squares of the means of a
    level about those of the level above (nested analysis of variance). That of an outer level has a
    term for each level within it.

    Returns
    -------
    float, or tuple of float for nested tasks
        Infinite where tasks do not differ by more than chance.

    References
    ----------
    DerSimonian and Laird, Meta-analysis in clinical trials, 1986, for the moments.
    Searle, Casella and McCulloch, Variance components, 1992, for those of nested effects.
    """
    took_part = leaves >= 0
    numbers = pair_numbers(leaves, codes, n_tasks)[took_part]
    g, h = pairs[took_part].astype(np.float64).T
    shape = (len(pooled), n_tasks + 1)
    sums: Float64Array = np.concatenate(
        [np.bincount(numbers, part, shape[0] * shape[1]) for part in (g, h)]
        + [np.array([ratio(g**2, h).sum(), np.count_nonzero(h)])]
    )
    if total is not None:
        sums = total(sums)
    G, H = sums[:-2].reshape(2, *shape)
    squared_steps, n_rows = sums[-2:].tolist()
    n_free = n_rows - np.count_nonzero(H)
    within = squared_steps - ratio(G**2, H).sum()
    noise = within / n_free if n_free > 0 else 0.0
    n_levels = 1 if nesting is None else nesting.n_levels
    kappas: list[float] = []
    squares: list[Float64Array] = []  # of the hessians of each level so far, by member of this one
    for level in range(n_levels):
        parents = None
        if nesting is not None and level < n_levels - 1:
            parents = nesting.parents[: H.shape[1]]
        squares.append(np.square(H))
        G_above, H_above, *above = (_sums(part, parents) for part in (G, H, *squares))
        between = ratio(G**2, H).sum() - ratio(G_above**2, H_above).sum()
        effect = between - noise * (np.count_nonzero(H) - np.count_nonzero(H_above))
        for kappa, own, sums in zip(kappas, squares, above, strict=False):
            effect -= noise / kappa * (ratio(own, H).sum() - ratio(sums, H_above).sum())
        spread = (H_above - ratio(above[-1], H_above)).sum()
        is_found = noise > 0.0 and effect > 0.0 and spread > 0.0
        kappas.append(float(noise * spread / effect) if is_found else np.inf)
        G, H, squares = G_above, H_above, above
    return kappas[0] if nesting is None else tuple(kappas[::-1])


def _sums(table: Float64Array, parents: Int32Array | None) -> Float64Array:
    """Sums over the members of each group; without parents over all columns."""
    if parents is None:
        return np.asarray(table.sum(axis=1, keepdims=True))
    found = np.zeros((table.shape[0], parents.max() + 1))
    has_parent = parents >= 0
    np.add.at(found.T, parents[has_parent], table.T[: len(parents)][has_parent])
    return found


def simplified(kappas: tuple[float, ...]) -> Kappa | None:
    """κ without the outer levels that are not shrunk towards; None where all are infinite."""
    if np.isinf(kappas).all():
        return None
    return kappas[-1] if np.isinf(kappas[:-1]).all() else kappas


def check_pooling(pooling: object) -> Pooling:
    """Return κ, its estimate, or None for pooled leaves."""
    if pooling is None or isinstance(pooling, EstimatedPooling | RelativePooling):
        return pooling
    if isinstance(pooling, str) and pooling == "auto":
        return EstimatedPooling()
    if isinstance(pooling, list | tuple) and len(pooling) > 1:
        return simplified(tuple(_check_kappa(f"pooling[{n}]", k) for n, k in enumerate(pooling)))
    besides = "None, 'auto', infinity, a sequence with a number for each level of nested tasks"
    kappa = _check_kappa("pooling", pooling, besides)
    return None if kappa == np.inf else kappa


def _check_kappa(name: str, value: object, besides: str = "infinity") -> float:
    if is_number(value) and as_float(value) == np.inf:
        return np.inf
    return check_number(name, value, low=0.0, besides=besides)


def check_levels(pooling: Pooling | PoolingOption, tasks: TaskSet) -> None:
    """Raise ParameterError unless each κ belongs to a level of the tasks."""
    if isinstance(pooling, tuple) and len(pooling) != tasks.n_levels:
        raise ParameterError(
            f"pooling has {len(pooling)} numbers, but the tasks have {tasks.n_levels} "
            f"level{'s' if tasks.n_levels > 1 else ''}: pass one for each column of "
            "task=['region', 'store'], outermost first, or a single number."
        )
