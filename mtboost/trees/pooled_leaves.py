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

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.archive import array_to_bytes, read_vector, require
from mtboost.base.arrays import Float64Array, Int32Array, Total
from mtboost.base.checks import as_float, check_number, is_number
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import ParameterError
from mtboost.trees.nesting import Nesting

#: κ of tasks, or of each level of nested ones, outermost first.
Kappa: TypeAlias = "float | tuple[float, ...]"
Pooling: TypeAlias = "Kappa | EstimatedPooling | RelativePooling | None"
PoolingOption: TypeAlias = "float | Sequence[float] | Literal['auto'] | None"

# A table of all leaves and tasks is made if it has at most this number of cells per row; for fewer
# rows it takes longer to fill than to search their values.
_CELLS_PER_ROW = 64


@dataclass(frozen=True, slots=True, eq=False)
class TaskValues:
    """Leaf values of one tree that are a task's own, or those of a group of nested tasks.

    Other tasks have the value of their innermost group that has one, or the leaf's pooled value.

    Attributes
    ----------
    leaf, task : ndarray of int32, shape (n_values,)
        Node number of the leaf, and code of the task or group; ascending by leaf, then task.
    value : ndarray of float64, shape (n_values,)
        Learning rate included.
    learning_rate : float
        That of the tree; 0 where all tasks have the pooled values.
    start : float
        Part of all values, pooled ones too, that is a start score: LightGBM's first trees have it.
    """

    leaf: Int32Array
    task: Int32Array
    value: Float64Array
    learning_rate: float
    start: float = 0.0

    @classmethod
    def none(cls) -> TaskValues:
        """Of a tree that is the same for all tasks."""
        return cls(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0), 0.0)

    def check(self, n_nodes: int, n_tasks: int) -> None:
        """Raise ModelFormatError unless they are those of a tree with `n_nodes` nodes."""
        for name, places, n in (("leaf", self.leaf, n_nodes), ("task", self.task, n_tasks)):
            is_one = places.size == 0 or (places.min() >= 0 and places.max() < n)
            require(bool(is_one), f"task_values have a {name} that does not exist")
        pairs = self.leaf.astype(np.int64) * n_tasks + self.task
        require(bool((np.diff(pairs) > 0).all()), "task_values are not in the order of the leaves")
        numbers = np.array([self.learning_rate, self.start, *self.value])
        require(bool(np.isfinite(numbers).all()), "task_values are not finite")

    def table(
        self, pooled: Float64Array, n_tasks: int, nesting: Nesting | None = None
    ) -> Float64Array:
        """Value of each leaf for each task; the last column is for tasks that are not known.

        Parameters
        ----------
        pooled : ndarray, shape (n_nodes,)
            Pooled value of every node.
        n_tasks : int
        nesting : Nesting, optional
            Groups of nested tasks, which have columns after those of the tasks.

        Returns
        -------
        ndarray, shape (n_nodes, n_tasks + 1), or (n_nodes, nesting.n_names + 1)
        """
        n_names = n_tasks if nesting is None else nesting.n_names
        table = np.empty((len(pooled), n_names + 1), pooled.dtype)
        table[:] = pooled[:, None]
        if nesting is None:
            table[self.leaf, self.task] = self.value
            return table
        depths = nesting.depths()
        for depth in range(depths.max(initial=0) + 1):
            members = np.flatnonzero(depths == depth)
            if depth:
                table[:, members] = table[:, nesting.parents[members]]
            are_theirs = depths[self.task] == depth
            table[self.leaf[are_theirs], self.task[are_theirs]] = self.value[are_theirs]
        return table

    def of_rows(
        self,
        pooled: Float64Array,
        leaves: Int32Array,
        codes: Int32Array,
        n_tasks: int,
        nesting: Nesting | None = None,
    ) -> Float64Array:
        """Value of each row's leaf for its task, shape (n_rows,).

        Parameters
        ----------
        pooled : ndarray, shape (n_nodes,)
            Pooled value of every node.
        leaves : ndarray of int, shape (n_rows,)
            Node number of each row's leaf.
        codes : ndarray of int, shape (n_rows,)
            Task of each row; -1 is a task that is not known.
        n_tasks : int
            Number of tasks; with `nesting` of tasks and groups.
        nesting : Nesting, optional
            Groups of the tasks, where they have values.
        """
        if len(pooled) * (n_tasks + 1) <= _CELLS_PER_ROW * len(leaves):
            return np.asarray(self.table(pooled, n_tasks, nesting)[leaves, codes])
        values = pooled[leaves]
        if len(self.leaf):
            pairs = self.leaf.astype(np.int64) * n_tasks + self.task
            for own in [codes] if nesting is None else nesting.lineage(codes):
                wanted = leaves.astype(np.int64) * n_tasks + own
                places = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
                is_own = (pairs[places] == wanted) & (own >= 0)
                values[is_own] = self.value[places[is_own]]
        return values

    def of_task(self, pooled: npt.NDArray[Any], *path: int) -> npt.NDArray[Any]:
        """Value of each node for one task, shape (n_nodes,), in the type of `pooled`.

        `path` are the codes of its groups, outermost first, and its own.
        """
        values = pooled.copy()
        for code in path:
            is_own = self.task == code
            values[self.leaf[is_own]] = self.value[is_own]
        return values

    def with_others(self, other: TaskValues) -> TaskValues:
        """These and the values of other tasks."""
        leaves = np.concatenate([self.leaf, other.leaf])
        tasks = np.concatenate([self.task, other.task])
        values = np.concatenate([self.value, other.value])
        order = np.lexsort((tasks, leaves))
        return replace(self, leaf=leaves[order], task=tasks[order], value=values[order])

    def without_task(self, code: int, *, keep_code: bool) -> TaskValues:
        """These but for the values of one task; others move up to its code unless it is kept."""
        others = self.task != code
        task = self.task[others]
        if not keep_code:
            task = task - (task > code).astype(np.int32)
        return replace(self, leaf=self.leaf[others], task=task, value=self.value[others])


def pair_numbers(leaves: Int32Array, codes: Int32Array, n_tasks: int) -> npt.NDArray[np.int32]:
    """Place of each row's leaf and task in a table of shape (n_nodes, n_tasks + 1).

    Negative leaves (rows that took no part in growing) count as their complement.
    """
    return np.maximum(leaves, ~leaves) * np.int32(n_tasks + 1) + codes


def pool_leaves(
    pooled: Float64Array,
    leaves: Int32Array,
    codes: Int32Array,
    pairs: npt.NDArray[np.float32],
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
        Gradient and hessian of each row.
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
    leaf, task, gradient, hessian = _core.sum_by_leaf_and_task(
        np.ascontiguousarray(leaves),
        codes,
        np.ascontiguousarray(pairs),
        n_nodes=len(pooled),
        n_tasks=n_tasks,
    )
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
        of_leaf = pooled[leaf]
        value = of_leaf + share * (own - of_leaf)
    if bounds is not None:
        low, high = bounds
        value = np.clip(value, low[leaf], high[leaf])
    return TaskValues(leaf, task, value, learning_rate)


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
        levels.append((leaf, task, _ratio(weighted, total), total))
        places.append(place)
    found: list[tuple[Int32Array, Int32Array, Float64Array]] = []
    for kappa in pooling:
        leaf, task, mean, precision = levels.pop()
        towards = found[-1][2][places.pop()] if found else pooled[leaf]
        share = _ratio(precision, precision + kappa)
        found.append((leaf, task, towards + share * (mean - towards)))
    leaf, task, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((task, leaf))
    return leaf[order], task[order], value[order]


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
    """κ = σ²/τ² by the method of moments; arguments as of :func:`pool_leaves`.

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
        + [np.array([_ratio(g**2, h).sum(), np.count_nonzero(h)])]
    )
    if total is not None:
        sums = total(sums)
    G, H = sums[:-2].reshape(2, *shape)
    squared_steps, n_rows = sums[-2:].tolist()
    n_free = n_rows - np.count_nonzero(H)
    within = squared_steps - _ratio(G**2, H).sum()
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
        between = _ratio(G**2, H).sum() - _ratio(G_above**2, H_above).sum()
        effect = between - noise * (np.count_nonzero(H) - np.count_nonzero(H_above))
        for kappa, own, sums in zip(kappas, squares, above, strict=False):
            effect -= noise / kappa * (_ratio(own, H).sum() - _ratio(sums, H_above).sum())
        spread = (H_above - _ratio(above[-1], H_above)).sum()
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


def _ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> Float64Array:
    """Quotients, 0 where the denominator is."""
    quotients = np.zeros(numerator.shape)
    np.divide(numerator, denominator, out=quotients, where=denominator > 0.0)
    return quotients


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
        leaves: Int32Array,
        codes: Int32Array,
        pairs: npt.NDArray[np.float32],
        *,
        n_tasks: int,
        total: Total | None = None,
        nesting: Nesting | None = None,
    ) -> Kappa | None:
        """κ as numbers; arguments as of :func:`pool_leaves`, for the first tree."""
        if not self.values:
            hessian = pairs[leaves >= 0, 1].sum(dtype=np.float64, keepdims=True)
            self.mean_hessian = float((hessian if total is None else total(hessian))[0]) / n_tasks
        if isinstance(self.pooling, RelativePooling):
            n_levels = 1 if nesting is None else nesting.n_levels
            self.pooling = self.pooling.of_levels(self.mean_hessian, n_levels)
        elif isinstance(self.pooling, EstimatedPooling):
            found = between_task_pooling(
                pooled, leaves, codes, pairs, n_tasks=n_tasks, total=total, nesting=nesting
            )
            kappas = found if isinstance(found, tuple) else (found,)
            self.pooling = _simplified(tuple(self.pooling.factor * kappa for kappa in kappas))
        return self.pooling


def _simplified(kappas: tuple[float, ...]) -> Kappa | None:
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
        return _simplified(tuple(_check_kappa(f"pooling[{n}]", k) for n, k in enumerate(pooling)))
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


# ---- files (docs/model_file.md) ------------------------------------------------------------------

_MEMBERS = {
    "starts": np.int64,
    "learning_rate": np.float64,
    "start": np.float64,
    "leaf": np.int32,
    "task": np.int32,
    "value": np.float64,
}


def write_task_values(values: Sequence[TaskValues]) -> dict[str, bytes]:
    """Members of a model file: the arrays of all trees one after another, and where each begins."""
    if not values:
        return {}
    lengths = [len(own.leaf) for own in values]
    arrays = {
        "starts": np.cumsum([0, *lengths]),
        "learning_rate": np.array([own.learning_rate for own in values]),
        "start": np.array([own.start for own in values]),
        "leaf": np.concatenate([own.leaf for own in values]),
        "task": np.concatenate([own.task for own in values]),
        "value": np.concatenate([own.value for own in values]),
    }
    return {
        f"task_values/{name}.npy": array_to_bytes(arrays[name].astype(dtype))
        for name, dtype in _MEMBERS.items()
    }


def read_task_values(members: Mapping[str, bytes]) -> list[TaskValues]:
    """Read the members of :func:`write_task_values`; empty for files without them."""
    if not any(f"task_values/{name}.npy" in members for name in _MEMBERS):
        return []
    starts, rates, scores, leaf, task, value = (
        read_vector(members, f"task_values/{name}.npy", dtype) for name, dtype in _MEMBERS.items()
    )
    ends = [len(leaf), len(task), len(value)]
    require(
        len(starts) > 0
        and starts[0] == 0
        and ends == [starts[-1]] * 3
        and bool((np.diff(starts) >= 0).all()),
        "the parts of task_values do not fit together",
    )
    return [
        TaskValues(leaf[begin:end], task[begin:end], value[begin:end], rate, start)
        for (begin, end), rate, start in zip(
            pairwise(starts.tolist()), rates.tolist(), scores.tolist(), strict=True
        )
    ]


# ---- attributes of boosters ----------------------------------------------------------------------

_NAMES, _VALUES = "mtboost_tasks", "mtboost_task_values"


def task_attributes(names: Sequence[TaskName], values: Sequence[TaskValues]) -> dict[str, str]:
    """Attributes by which a booster keeps the leaf values of its tasks."""
    members = {
        name: base64.b64encode(member).decode()
        for name, member in write_task_values(values).items()
    }
    return {_NAMES: json.dumps(list(names)), _VALUES: json.dumps(members)}


def read_task_attributes(
    attributes: Mapping[str, str | None],
) -> tuple[list[TaskName], list[TaskValues]] | None:
    """Names of the tasks and their leaf values; None of a booster without these attributes."""
    names, members = attributes.get(_NAMES), attributes.get(_VALUES)
    if names is None or members is None:
        return None
    decoded = {name: base64.b64decode(member) for name, member in json.loads(members).items()}
    return json.loads(names), read_task_values(decoded)
