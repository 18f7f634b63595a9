# SPDX-License-Identifier: Apache-2.0
"""Which worker has which rows: a task has all its rows on one, or equal parts of them on all."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtboost.base.tasks import TaskName, TaskSet


@dataclass(frozen=True, slots=True)
class Placement:
    """The workers of the rows.

    Attributes
    ----------
    n_workers : int
        Workers that have rows.
    owner : mapping of task name to int
        Worker of each task that has all its rows on one.
    divided : tuple of task names
        Tasks whose rows are divided among all workers, row by row in turn.
    """

    n_workers: int
    owner: Mapping[TaskName, int]
    divided: tuple[TaskName, ...]

    def workers_of(self, tasks: TaskSet, n_before: Mapping[TaskName, int]) -> npt.NDArray[np.int64]:
        """Return the worker of each row of a partition, shape (n_rows,); -1 of unknown tasks.

        `n_before` has the rows of each task in earlier partitions.
        """
        owners = np.array([self.owner.get(name, -1) for name in tasks.names], np.int64)
        workers: npt.NDArray[np.int64] = owners[tasks.codes]
        for name in self.divided:
            if name in tasks:
                rows = tasks.rows(name)
                workers[rows] = (n_before.get(name, 0) + np.arange(len(rows))) % self.n_workers
        return workers


def place_tasks(n_rows: Mapping[TaskName, int], n_workers: int, large_task_rows: int) -> Placement:
    """Give each task a worker: the largest first, each to the one with the fewest rows.

    Tasks with more than `large_task_rows` rows, and with more than an equal part of all rows would
    give a worker, are divided.
    """
    total = sum(n_rows.values())
    divided = tuple(
        name
        for name, n in n_rows.items()
        if n > large_task_rows and n * n_workers > total and 1 < n_workers <= n
    )
    if not divided:
        n_workers = min(n_workers, len(n_rows))
    loads = [(0, rank) for rank in range(n_workers)]
    owner: dict[TaskName, int] = {}
    for name in sorted(n_rows, key=lambda name: -n_rows[name]):
        if name not in divided:
            load, rank = heapq.heappop(loads)
            owner[name] = rank
            heapq.heappush(loads, (load + n_rows[name], rank))
    return Placement(n_workers, owner, divided)


def rows_before(counts: Sequence[Mapping[TaskName, int]]) -> list[dict[TaskName, int]]:
    """Return for each partition the rows of its tasks in the partitions before it."""
    total: dict[TaskName, int] = {}
    found = []
    for own in counts:
        found.append({name: total.get(name, 0) for name in own})
        for name, n in own.items():
            total[name] = total.get(name, 0) + n
    return found
