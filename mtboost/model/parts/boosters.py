# SPDX-License-Identifier: Apache-2.0
"""The specific models of a model's tasks, as boosters that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, MutableMapping
from typing import Any

from mtboost.base.archive import require
from mtboost.base.tables import Columns
from mtboost.base.tasks import TaskName
from mtboost.trees.backend import Backend
from mtboost.trees.document import Unloaded
from mtboost.trees.nodes import Nodes


class Boosters(MutableMapping[TaskName, Any]):
    """Booster of each task, or None.

    To make the boosters of thousands of tasks takes longer than to train them.

    Parameters
    ----------
    trees : mapping of task name to Booster, Unloaded or None
    """

    def __init__(self, trees: Mapping[TaskName, Any]) -> None:
        self._trees = dict(trees)
        self._made: dict[TaskName, Any] = {}

    def __getitem__(self, task: TaskName) -> Any:
        own = self._trees[task]
        if not isinstance(own, Unloaded):
            return own
        if task not in self._made:  # threads may arrive here together: all use what one adds
            self._made.setdefault(task, own.document().load())
        return self._made[task]

    def __getstate__(self) -> dict[str, Any]:
        """Return boosters alone: pickles outlive the way in which these are kept here."""
        return {"_trees": dict(self), "_made": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __setitem__(self, task: TaskName, booster: Any) -> None:
        self._trees[task] = booster
        self._made.pop(task, None)

    def __delitem__(self, task: TaskName) -> None:
        del self._trees[task]
        self._made.pop(task, None)

    def __iter__(self) -> Iterator[TaskName]:
        return iter(self._trees)

    def __len__(self) -> int:
        return len(self._trees)

    def copy(self) -> Boosters:
        """Return another mapping with the same boosters, made or not."""
        copy = Boosters(self._trees)
        copy._made = dict(self._made)
        return copy

    def has_rounds(self, task: TaskName) -> bool:
        """Return whether a task has a booster."""
        return self._trees[task] is not None

    def is_unloaded(self, task: TaskName) -> bool:
        """Return whether a task's booster is made when it is asked for."""
        return isinstance(self._trees[task], Unloaded)

    def unloaded(self) -> dict[int, Unloaded]:
        """Trees from which boosters are made, by the position of the task."""
        trees = enumerate(self._trees.values())
        return {number: own for number, own in trees if isinstance(own, Unloaded)}

    def check_columns(self, backend: Backend, columns: Mapping[TaskName, Columns]) -> None:
        """Raise ModelFormatError unless each booster has the columns of its task."""
        known: set[Hashable] = set()
        for task, trees in self._trees.items():
            own = columns[task]
            if trees is None:
                continue
            if isinstance(trees, Unloaded):
                if (trees.group, own) in known:
                    continue
                known.add((trees.group, own))
            has_columns = backend.has_columns(self[task], own)
            require(has_columns, f"the specific model of task {task!r} has other columns")

    def nodes(self, task: TaskName, backend: Backend) -> Nodes | None:
        """Return the nodes of a task's trees; None if the core cannot predict with them."""
        own = self._trees[task]
        return own.nodes() if isinstance(own, Unloaded) else backend.document(own).nodes()

    def dump(self, task: TaskName, backend: Backend) -> bytes | None:
        """Return the bytes from which the library loads a task's booster; None without one."""
        own = self._trees[task]
        if own is None:
            return None
        return own.dump() if isinstance(own, Unloaded) else backend.dump(own)
