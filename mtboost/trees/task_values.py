# SPDX-License-Identifier: Apache-2.0
"""Leaf values that differ between tasks: those of one tree, their files and attributes."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.archive import array_to_bytes, read_vector, require
from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.base.tasks import TaskName
from mtboost.trees.nesting import Nesting

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
