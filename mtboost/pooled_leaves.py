"""Partially pooled leaves: one value for all tasks, and for each task its own, shrunk towards it.

A leaf's pooled value is w = -G/(H + λ). A task with the sums G_t and H_t in the leaf would have the
value w_t = -G_t/H_t on its own; it gets w + δ_t with

    δ_t = -(G_t + H_t w)/(H_t + κ) = H_t/(H_t + κ) · (w_t - w),

the posterior mean of a task effect with variance σ²/κ, where σ²/H_t is that of w_t. κ → ∞ is the
pooled tree, κ = 0 a tree with separate leaves for every task.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.errors import ParameterError

DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class TaskValues:
    """Leaf values of one tree that are a task's own; other tasks have the leaf's pooled value.

    Attributes
    ----------
    leaf, task : ndarray of int32, shape (n_values,)
        Node number of the leaf, and code of the task; ascending by leaf, then task.
    value : ndarray of float64, shape (n_values,)
        Learning rate included.
    """

    leaf: IntArray
    task: IntArray
    value: DoubleArray

    @classmethod
    def none(cls) -> TaskValues:
        """Of a tree that is the same for all tasks."""
        return cls(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))

    def table(self, pooled: DoubleArray, n_tasks: int) -> DoubleArray:
        """Value of each leaf for each task; the last column is for tasks that are not known.

        Parameters
        ----------
        pooled : ndarray, shape (n_nodes,)
            Pooled value of every node.

        Returns
        -------
        ndarray, shape (n_nodes, n_tasks + 1)
        """
        table = np.repeat(pooled[:, None], n_tasks + 1, axis=1)
        table[self.leaf, self.task] = self.value
        return table

    def of_task(self, pooled: npt.NDArray[Any], code: int) -> npt.NDArray[Any]:
        """Value of each node for one task, shape (n_nodes,), in the type of `pooled`."""
        values = pooled.copy()
        is_own = self.task == code
        values[self.leaf[is_own]] = self.value[is_own]
        return values

    def with_task(self, code: int, leaf: IntArray, value: DoubleArray) -> TaskValues:
        """These and the values of one more task."""
        leaves = np.concatenate([self.leaf, leaf])
        tasks = np.concatenate([self.task, np.full(len(leaf), code, np.int32)])
        order = np.lexsort((tasks, leaves))
        return TaskValues(leaves[order], tasks[order], np.concatenate([self.value, value])[order])


def pair_numbers(leaves: IntArray, codes: IntArray, n_tasks: int) -> npt.NDArray[np.int32]:
    """Place of each row's leaf and task in a table of shape (n_nodes, n_tasks + 1).

    Negative leaves (rows that took no part in growing) count as their complement; a code of -1 is a
    task that is not known.
    """
    column = np.where(codes < 0, np.int32(n_tasks), codes)
    return np.maximum(leaves, ~leaves) * np.int32(n_tasks + 1) + column


def pool_leaves(
    pooled: DoubleArray,
    leaves: IntArray,
    codes: IntArray,
    pairs: npt.NDArray[np.float32],
    *,
    n_tasks: int,
    pooling: float,
    learning_rate: float,
    refit: Callable[[DoubleArray, IntArray], DoubleArray] | None = None,
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

    Returns
    -------
    TaskValues

    References
    ----------
    SPEC of partially pooled leaves in docs/pooling.md.
    """
    took_part = leaves >= 0
    numbers = pair_numbers(leaves, codes, n_tasks)
    size = len(pooled) * (n_tasks + 1)
    own_rows = numbers[took_part]
    gradient, hessian = (np.bincount(own_rows, pairs[took_part, part], size) for part in (0, 1))
    present = np.flatnonzero(hessian > 0.0).astype(np.int32)
    leaf, task = np.divmod(present, np.int32(n_tasks + 1))
    if refit is None:
        own = -learning_rate * gradient[present] / hessian[present]
    else:
        own = refit(np.zeros(size), np.where(took_part, numbers, ~numbers))[present]
    share = hessian[present] / (hessian[present] + pooling)
    return TaskValues(leaf, task, pooled[leaf] + share * (own - pooled[leaf]))


def between_task_pooling(
    pooled: DoubleArray,
    leaves: IntArray,
    codes: IntArray,
    pairs: npt.NDArray[np.float32],
    *,
    n_tasks: int,
) -> float:
    """κ = σ²/τ² from the variance of the tasks' own values about the pooled ones.

    The method of moments for a random effect: with the weights H_t, the expectation of
    Q = Σ H_t (w_t - w)², over all leaves and the tasks in them, is σ² (pairs - leaves) plus
    τ² Σ (H_t - H_t²/H).
    σ² is estimated from the rows of a task in a leaf about its own value.

    Returns
    -------
    float
        Infinite where tasks do not differ by more than chance.

    References
    ----------
    DerSimonian and Laird, 1986, of Newton steps instead of treatment effects.
    """
    took_part = leaves >= 0
    numbers = pair_numbers(leaves, codes, n_tasks)[took_part]
    g, h = pairs[took_part].astype(np.float64).T
    shape = (len(pooled), n_tasks + 1)
    size = shape[0] * shape[1]
    gradient, hessian = (np.bincount(numbers, part, size).reshape(shape) for part in (g, h))
    in_use = hessian > 0.0
    own_square = np.divide(gradient**2, hessian, out=np.zeros(shape), where=in_use).sum(axis=1)
    total_g, total_h = gradient.sum(axis=1), hessian.sum(axis=1)
    has_rows = total_h > 0.0
    between = (own_square[has_rows] - total_g[has_rows] ** 2 / total_h[has_rows]).sum()
    n_pairs, n_leaves = int(in_use.sum()), int(has_rows.sum())
    positive = h > 0.0
    within = (g[positive] ** 2 / h[positive]).sum() - own_square.sum()
    n_free = int(positive.sum()) - n_pairs
    if n_free <= 0 or within <= 0.0:
        return np.inf
    noise = within / n_free
    spread = (
        total_h
        - np.divide((hessian**2).sum(axis=1), total_h, out=np.zeros(shape[0]), where=has_rows)
    ).sum()
    effect = between - noise * (n_pairs - n_leaves)
    return float(noise * spread / effect) if effect > 0.0 else np.inf


def check_pooling(pooling: object) -> float | None:
    """κ as a number, or None for pooled leaves."""
    if pooling is None:
        return None
    if isinstance(pooling, bool) or not isinstance(pooling, (int, float, np.number)):
        raise ParameterError(f"pooling must be a number from 0, or None, found {pooling!r}.")
    value = float(pooling)
    if not value >= 0.0:
        raise ParameterError(f"pooling must be at least 0, found {pooling!r}.")
    return None if np.isinf(value) else value


# ---- files (docs/model_file.md) ------------------------------------------------------------------

_MEMBERS = {"starts": np.int64, "leaf": np.int32, "task": np.int32, "value": np.float64}


def write_task_values(values: Sequence[TaskValues]) -> dict[str, bytes]:
    """Members of a model file: the arrays of all trees one after another, and where each begins."""
    if not values:
        return {}
    lengths = [len(own.leaf) for own in values]
    arrays = {
        "starts": np.cumsum([0, *lengths]),
        "leaf": np.concatenate([own.leaf for own in values]),
        "task": np.concatenate([own.task for own in values]),
        "value": np.concatenate([own.value for own in values]),
    }
    return {
        f"task_values/{name}.npy": _to_bytes(arrays[name].astype(dtype))
        for name, dtype in _MEMBERS.items()
    }


def read_task_values(members: Mapping[str, bytes]) -> tuple[TaskValues, ...]:
    """What :func:`write_task_values` wrote; nothing in files without it."""
    if "task_values/starts.npy" not in members:
        return ()
    starts, leaf, task, value = (
        np.load(io.BytesIO(members[f"task_values/{name}.npy"]), allow_pickle=False)
        for name in _MEMBERS
    )
    return tuple(
        TaskValues(leaf[begin:end], task[begin:end], value[begin:end])
        for begin, end in pairwise(starts.tolist())
    )


def _to_bytes(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
