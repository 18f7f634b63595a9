# SPDX-License-Identifier: Apache-2.0
"""Common part of the ``TaskSplit`` of both libraries."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array
from mtboost.base.checks import check_type, is_number
from mtboost.base.renamed import renamed
from mtboost.base.tasks import TaskName, TaskSet, as_tasks
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.trees.document import Document
from mtboost.trees.nesting import Nesting, with_groups
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.pooling import PoolingOption, check_levels
from mtboost.trees.split_scores import Beta, Score
from mtboost.trees.task_column import check_task_column
from mtboost.trees.task_values import TaskValues
from mtboost.trees.tree_options import TreeOptions


class BaseTaskSplit(abc.ABC):
    """Tasks and options of a training, and the leaf values of single tasks after it.

    Parameters
    ----------
    split_score : {"entropy", "variance", "plain"} or callable, default="entropy"
        See :func:`mtboost.make_split_score`.
    beta : float or "auto", default="auto"
        Weight of the variance in ``split_score="variance"``.
    pooling : float, sequence of float or "auto", optional
        κ of partially pooled leaves (docs/pooling.md), in units of the hessian, or of each level of
        nested tasks, outermost first: in every leaf each task has its value, shrunk towards the
        pooled one. 0 shrinks nothing, "auto" estimates κ from the first tree. The booster of the
        training then holds the pooled values, and :meth:`booster` returns that of a task. By
        default all tasks have the pooled values.
    task_splits : float, default=1.0
        c in S = s − c σ² (1 + (T − 2) 2/π), the score of a split between T tasks: what the best of
        their partitions gains by chance is subtracted c times. 0 leaves the column a category like
        others, as in stock training.
    symmetric_trees : bool, default=False
        Whether all nodes of a level have the same split, the one with the largest sum of gains; a
        node that would gain nothing by it stays whole. With ``max_depth=d`` a tree has at most d
        different splits (docs/symmetric_trees.md). Needs ``split_score="plain"``.
    random_strength : float, default=0.0
        ν, noise in the choice of the splits of symmetric trees: the level takes the split with the
        largest √(T + s) + ν σ z, with s its gain, T the gains of the levels above, σ² the mean of
        squared gradients over that of hessians, and z about normal, for each split. Often better at
        1 or 2 (docs/symmetric_trees.md). 0 takes the largest gain.
    quantized_gradients : bool, default=False
        Whether splits are found by gradients and hessians that are rounded to 16 bits, at random
        by the seed of the training and right on average: faster, and not bitwise identical to
        XGBoost's trees (docs/quantized_gradients.md). Leaf values are those of the gradients
        before rounding. Of ``mtboost.xgboost`` only.
    options : TreeOptions, optional
        Options that :func:`mtboost.fit` has checked, in place of those above.

    References
    ----------
    zhang2019, section 3.2; task splits: simm2014 (keys in docs/papers.md).
    """

    _takes_quantized_gradients: ClassVar[bool] = True

    @staticmethod
    @abc.abstractmethod
    def _tasks_of_matrices(name: str, pairs: Any) -> list[tuple[Any, TaskSet]]:
        """Matrices and the tasks of their rows, from an argument `name` with labels of the rows."""

    @renamed(score="split_score", task_penalty="task_splits")
    def __init__(
        self,
        task: Any,
        *,
        split_score: Score = "entropy",
        beta: Beta = "auto",
        pooling: PoolingOption = None,
        valid_tasks: Sequence[tuple[Any, Any]] = (),
        table: object = None,
        task_column: int | str | None = None,
        task_splits: float = 1.0,
        symmetric_trees: bool = False,
        random_strength: float = 0.0,
        quantized_gradients: bool = False,
        options: TreeOptions | None = None,
    ) -> None:
        super().__init__()
        is_default = is_number(task_splits) and task_splits == 1.0
        if task_column is None and not is_default:
            raise ParameterError(
                f"task_splits={task_splits!r} is about nodes that split the tasks by a column: "
                "name it, task_column=, or leave task_splits out."
            )
        self.tasks = self._tasks_of_rows(task, valid_tasks)
        if options is None:
            options = TreeOptions(
                split_score,
                beta,
                pooling,
                None if task_column is None else task_splits,
                symmetric_trees=symmetric_trees,
                random_strength=random_strength,
                quantized_gradients=quantized_gradients,
            )
        check_type("options", options, TreeOptions, "None or TreeOptions")
        if options.quantized_gradients and not self._takes_quantized_gradients:
            raise UnsupportedError(
                "quantized_gradients=True is for trees of XGBoost: leave it out, or use "
                "mtboost.xgboost.TaskSplit."
            )
        check_levels(options.pooling, self.tasks)
        self.options = options
        check_task_column(task_column)
        self._task_column, self._table = task_column, table
        self._valid_tasks = self._tasks_of_matrices("valid_tasks", valid_tasks)
        #: Leaf values of single tasks in the trees of the last training.
        self.pooled = PooledTrees()
        self._pooled_values: Sequence[Float32Array | None] = []  # of these trees; None: not known

    def _tasks_of_rows(self, task: Any, valid_tasks: Sequence[tuple[Any, Any]]) -> TaskSet:
        return as_tasks(task)

    def _start(self, growth: Any) -> None:
        """Register what grows the trees of a training."""
        for data, tasks in self._valid_tasks:
            growth.know_tasks(data, tasks)
        self.pooled, self._pooled_values = growth.pooled, growth.pooled_values

    def _of_task(self, document: Document, task: TaskName) -> Document:
        """Return the trees with a task's own leaf values."""
        path = [self.tasks.code(task)]
        leaf_values = document.leaf_values()
        of_tasks = self.pooled.values
        has_more = len(leaf_values) > len(of_tasks)
        if has_more or not all(map(_is_of_tree, of_tasks, leaf_values, self._pooled_values)):
            raise DataError(
                "The booster is not that of the last training with this TaskSplit, whose leaf "
                "values it keeps: pass what that training returned, or its first rounds, and make "
                "a new TaskSplit for each training whose leaf values you need."
            )
        if self.pooled.are_nested:
            path = Nesting.of(with_groups(self.tasks)).path(*path)
        values = [
            own.of_task(pooled, *path) for pooled, own in zip(leaf_values, of_tasks, strict=False)
        ]
        return document.with_leaf_values(values)


def _is_of_tree(values: TaskValues, found: npt.NDArray[Any], pooled: Float32Array | None) -> bool:
    """Whether values of tasks are those of a tree whose pooled values were found."""
    leaves = values.leaf
    if leaves.size == 0:
        return True
    has_leaves = int(leaves.max()) < len(found)
    return has_leaves and (
        pooled is None or np.array_equal(found[leaves].astype(np.float32), pooled[leaves])
    )
