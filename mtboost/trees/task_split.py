# SPDX-License-Identifier: Apache-2.0
"""Common part of the ``TaskSplit`` of both libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtboost.base.checks import check_type
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.trees.document import Document
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.task_column import check_task_column
from mtboost.trees.tree_options import TreeOptions


class BaseTaskSplit:
    """Tasks and options of a training, and the leaf values of single tasks after it."""

    def __init__(
        self,
        task: Any,
        options: TreeOptions,
        task_column: int | str | None,
        valid_tasks: Sequence[tuple[Any, TaskSet]],
    ) -> None:
        super().__init__()
        self.tasks = task if isinstance(task, TaskSet) else TaskSet.from_labels(task, len(task))
        check_type("options", options, TreeOptions, "None or TreeOptions")
        self.options = options
        check_task_column(task_column)
        self._task_column = task_column
        self._valid_tasks = valid_tasks
        #: Leaf values of single tasks in the trees of the last training.
        self.pooled = PooledTrees()

    def _start(self, growth: Any) -> None:
        """Register what grows the trees of a training."""
        for data, tasks in self._valid_tasks:
            growth.know_tasks(data, tasks)
        self.pooled = growth.pooled

    def _of_task(self, document: Document, task: TaskName) -> Document:
        """Return the trees with a task's own leaf values."""
        code = self.tasks.code(task)
        values = [
            own.of_task(pooled, code)
            for pooled, own in zip(document.leaf_values(), self.pooled.values, strict=False)
        ]
        return document.with_leaf_values(values)
