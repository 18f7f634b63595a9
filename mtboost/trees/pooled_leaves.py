# SPDX-License-Identifier: Apache-2.0
"""Partially pooled leaves: one value for all tasks, and for each task its own, shrunk towards it.

A leaf's pooled value is w = -G/(H + λ). A task with the sums G_t and H_t in the leaf would have the
value w_t = -G_t/H_t on its own; it gets w + δ_t with

    δ_t = -(G_t + H_t w)/(H_t + κ) = H_t/(H_t + κ) · (w_t - w),

the posterior mean of a task effect with variance σ²/κ, where σ²/H_t is that of w_t. κ → ∞ is the
pooled tree, κ = 0 a tree with separate leaves for every task.
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
from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.base.checks import as_float, check_number, is_number
from mtboost.base.tasks import TaskName

#: Sums of each worker's numbers over all workers that train a model.
Total: TypeAlias = Callable[[Float64Array], Float64Array]
Pooling: TypeAlias = "float | EstimatedPooling | RelativePooling | None"
PoolingOption: TypeAlias = "float | Literal['auto'] | None"

# A table of all leaves and tasks is made if it has at most this number of cells per row; for fewer
# rows it takes longer to fill than to search their values.
_CELLS_PER_ROW = 64


@dataclass(frozen=True, slots=True, eq=False)
class TaskValues:
    """Leaf values of one tree that are a task's own; other tasks have the leaf's pooled value.

    Attributes
    ----------
    leaf, task : ndarray of int32, shape (n_values,)
        Node number of the leaf, and code of the task; ascending by leaf, then task.
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

    def table(self, pooled: Float64Array, n_tasks: int) -> Float64Array:
        """Value of each leaf for each task; the last column is for tasks that are not known.

        Parameters
        ----------
        pooled : ndarray, shape (n_nodes,)
            Pooled value of every node.

        Returns
        -------
        ndarray, shape (n_nodes, n_tasks + 1)
        """
        table = np.empty((len(pooled), n_tasks + 1), pooled.dtype)
        table[:] = pooled[:, None]
        table[self.leaf, self.task] = self.value
        return table

    def of_rows(
        self, pooled: Float64Array, leaves: Int32Array, codes: Int32Array, n_tasks: int
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
        """
        if len(pooled) * (n_tasks + 1) <= _CELLS_PER_ROW * len(leaves):
            return np.asarray(self.table(pooled, n_tasks)[leaves, codes])
        values = pooled[leaves]
        if len(self.leaf):
            pairs = self.leaf.astype(np.int64) * n_tasks + self.task
            wanted = leaves.astype(np.int64) * n_tasks + codes
            places = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
            is_own = (pairs[places] == wanted) & (codes >= 0)
            values[is_own] = self.value[places[is_own]]
        return values

    def of_task(self, pooled: npt.NDArray[Any], code: int) -> npt.NDArray[Any]:
        """Value of each node for one task, shape (n_nodes,), in the type of `pooled`."""
        values = pooled.copy()
        is_own = self.task == code
        values[self.leaf[is_own]] = self.value[is_own]
        return values

    def with_task(self, code: int, leaf: Int32Array, value: Float64Array) -> TaskValues:
        """These and the values of one more task."""
        leaves = np.concatenate([self.leaf, leaf])
        tasks = np.concatenate([self.task, np.full(len(leaf), code, np.int32)])
        values = np.concatenate([self.value, value])
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
    pooling: float,
    learning_rate: float,
    refit: Callable[[Float64Array, Int32Array], Float64Array] | None = None,
    total: Total | None = None,
) -> TaskValues:
    """Values of the tasks in the leaves of a tree just grown.

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
    pooling : float
        κ, in units of the hessian (for squared error: rows).
    learning_rate : float
        What Newton steps are multiplied by.
    refit : callable (values, leaves) -> values, optional
        For a loss whose leaf values are no Newton steps: its own optimum in each leaf.
    total : callable, optional
        Where the rows are those of one of several workers, which `refit` does not support.

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
        table = np.zeros((2, len(pooled), n_tasks))
        table[:, leaf, task] = gradient, hessian
        table = total(table)
        leaf, task = (found.astype(np.int32) for found in np.nonzero(table[1] > 0.0))
        gradient, hessian = table[:, leaf, task]
    if refit is None:
        own = -learning_rate * gradient / hessian
    else:
        numbers = pair_numbers(leaves, codes, n_tasks)
        numbers = np.where(leaves >= 0, numbers, ~numbers)
        own = refit(np.zeros(len(pooled) * (n_tasks + 1)), numbers)[leaf * (n_tasks + 1) + task]
    share = hessian / (hessian + pooling)
    of_leaf = pooled[leaf]
    return TaskValues(leaf, task, of_leaf + share * (own - of_leaf), learning_rate)


def between_task_pooling(
    pooled: Float64Array,
    leaves: Int32Array,
    codes: Int32Array,
    pairs: npt.NDArray[np.float32],
    *,
    n_tasks: int,
    total: Total | None = None,
) -> float:
    """κ = σ²/τ² by the method of moments; arguments as of :func:`pool_leaves`.

    τ² is the variance of the tasks' effects δ_t within the leaves of one tree, σ² that of a row of
    hessian 1. With W the weighted squares of the tasks' own values about those of their leaves,
    Σ H_t (w_t - w)², summed over leaves and the tasks in them,

        E W = σ² (pairs - leaves) + τ² Σ (H - Σ H_t²/H).

    Returns
    -------
    float
        Infinite where tasks do not differ by more than chance.

    References
    ----------
    DerSimonian and Laird, Meta-analysis in clinical trials, 1986, for the moments.
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
    squares, n_rows = sums[-2:].tolist()
    H_leaf = H.sum(axis=1)
    explained = _ratio(G**2, H).sum()
    between = explained - _ratio(G.sum(axis=1) ** 2, H_leaf).sum()
    within = squares - explained
    n_pairs, n_leaves = np.count_nonzero(H), np.count_nonzero(H_leaf)
    n_free = n_rows - n_pairs
    if n_free <= 0 or within <= 0.0:
        return np.inf
    noise = within / n_free
    effect = between - noise * (n_pairs - n_leaves)
    spread = (H_leaf - _ratio((H**2).sum(axis=1), H_leaf)).sum()
    return float(noise * spread / effect) if effect > 0.0 else np.inf


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
    """κ as a multiple of what a task has on average: its rows' hessians in the first tree."""

    factor: float


@dataclass(eq=False)
class PooledTrees:
    """Leaf values of single tasks, for all trees of a model.

    Attributes
    ----------
    pooling : float, EstimatedPooling, RelativePooling or None
        κ; it becomes a number with the first tree. None where leaves are pooled.
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

    def settled_pooling(
        self,
        pooled: Float64Array,
        leaves: Int32Array,
        codes: Int32Array,
        pairs: npt.NDArray[np.float32],
        *,
        n_tasks: int,
        total: Total | None = None,
    ) -> float | None:
        """κ as a number; arguments as of :func:`pool_leaves`, for the first tree."""
        if not self.values:
            hessian = pairs[leaves >= 0, 1].sum(dtype=np.float64, keepdims=True)
            self.mean_hessian = float((hessian if total is None else total(hessian))[0]) / n_tasks
        if isinstance(self.pooling, RelativePooling):
            self.pooling = self.pooling.factor * self.mean_hessian
        elif isinstance(self.pooling, EstimatedPooling):
            found = between_task_pooling(pooled, leaves, codes, pairs, n_tasks=n_tasks, total=total)
            self.pooling = self.pooling.factor * found if np.isfinite(found) else None
        return self.pooling


def check_pooling(pooling: object) -> Pooling:
    """Return κ, its estimate, or None for pooled leaves."""
    if pooling is None or isinstance(pooling, EstimatedPooling | RelativePooling):
        return pooling
    if isinstance(pooling, str) and pooling == "auto":
        return EstimatedPooling()
    if is_number(pooling) and as_float(pooling) == np.inf:
        return None
    return check_number("pooling", pooling, low=0.0, besides="None, 'auto', infinity")


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
