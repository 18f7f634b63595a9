# SPDX-License-Identifier: Apache-2.0
"""Nested tasks: groups of tasks, which have leaf values as tasks have, and no rows.

A task is named by its labels at all levels, (region, store), and its groups by the first of them,
(region,). Codes count the tasks first, then the groups, outermost first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mtboost.base.arrays import Int32Array
from mtboost.base.tasks import TaskName, groups_of, nearest


def with_groups(tasks: Iterable[TaskName]) -> tuple[TaskName, ...]:
    """Names of tasks, and after them of their groups, outermost first."""
    tasks = tuple(tasks)
    groups = dict.fromkeys(group for task in tasks for group in groups_of(task))
    return (*tasks, *sorted(groups, key=lambda name: len(name) if isinstance(name, tuple) else 0))


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """Groups of tasks, by code.

    Attributes
    ----------
    parents : ndarray of int32, shape (n_names,)
        Code of the group that each task or group belongs to; -1 where there is none.
    """

    parents: Int32Array

    @classmethod
    def of(cls, names: Sequence[TaskName]) -> Nesting:
        """Return the nesting of tasks and groups."""
        codes = {name: code for code, name in enumerate(names)}
        groups = [nearest(own[-1], codes) if (own := groups_of(name)) else None for name in names]
        parents = [-1 if group is None else codes[group] for group in groups]
        return cls(np.array(parents, np.int32))

    @property
    def n_names(self) -> int:
        """Number of tasks and groups."""
        return len(self.parents)

    @property
    def n_levels(self) -> int:
        """Number of levels of the tasks."""
        return int(self.depths().max(initial=0)) + 1

    def path(self, code: int) -> list[int]:
        """Codes of the groups of a task, outermost first, and its own."""
        path = [code]
        while (parent := int(self.parents[path[0]])) >= 0:
            path.insert(0, parent)
        return path

    def lineage(self, codes: Int32Array) -> list[Int32Array]:
        """Codes of the groups of some tasks, outermost first, and their own; -1 for none."""
        found = [codes]
        while True:
            groups = np.where(found[0] >= 0, self.parents[found[0]], np.int32(-1))
            if (groups < 0).all():
                return found
            found.insert(0, groups)

    def depths(self) -> Int32Array:
        """Number of groups of each task or group."""
        depths = np.zeros(self.n_names, np.int32)
        parents = self.parents
        while (parents >= 0).any():
            depths += parents >= 0
            parents = np.where(parents >= 0, self.parents[parents], -1)
        return depths
