# SPDX-License-Identifier: Apache-2.0
"""Callbacks that make ``lightgbm.train`` multi-task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightgbm

from mtboost.base.checks import check_pairs
from mtboost.base.renamed import renamed
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import UnsupportedError
from mtboost.lightgbm.booster import GrowingBooster, take_over
from mtboost.lightgbm.document import LightgbmDocument
from mtboost.lightgbm.library import check_version, rows_of_subset
from mtboost.trees.pooled_leaves import PoolingOption
from mtboost.trees.split_scores import Beta, Score
from mtboost.trees.task_split import BaseTaskSplit
from mtboost.trees.tree_options import TreeOptions


class TaskSplit(BaseTaskSplit):
    """Grow the trees of ``lightgbm.train`` with a split score over tasks.

    The loop, bins, metrics, early stopping and printing stay LightGBM's, and the result is an
    ordinary ``lightgbm.Booster``. With ``split_score="plain"`` it equals that of stock training
    with one thread bit for bit, bags and sampled columns of trees included (of nodes the
    distribution of the draws is LightGBM's, the draws are not).

    Parameters
    ----------
    task : array-like of shape (n_rows,)
        Task of each row of the training data (of ``lightgbm.cv``: of all its folds): integers,
        strings or categories.
    split_score : {"entropy", "variance", "plain"} or callable, default="entropy"
        See :func:`mtboost.make_split_score`.
    beta : float or "auto", default="auto"
        Weight of the variance in ``split_score="variance"``.
    pooling : float or "auto", optional
        κ of partially pooled leaves (docs/pooling.md), in units of the hessian: each task has a
        task-specific value in every leaf, shrunk towards the pooled one; 0 shrinks nothing, "auto"
        goes by how much the tasks differ in the first tree, and without it all tasks have the
        pooled values. The booster of the training then holds the
        pooled values, and :meth:`booster` gives that of a task.
    valid_tasks : sequence of (Dataset, array-like), optional
        Data sets of `valid_sets` with the task of each of their rows, which partially pooled leaves
        are evaluated by; of other data sets the pooled values are. Those of :class:`TaskQuitting`
        are known without it.
    task_column : int or str, optional
        Position or name of a category column of the training data that holds the task of each row.
        A node may then divide the tasks into two groups. Needs ``split_score="plain"``.
    task_splits : float, default=1.0
        c in S = s − c σ² (1 + (T − 2) 2/π), the score of a cut between T tasks: what the best of
        their divisions gains by chance is subtracted c times. ``cat_smooth``, ``cat_l2`` and
        ``min_data_per_group`` hold besides. 0 leaves the column a category like others, as in
        stock training.
    symmetric_trees : bool, default=False
        Whether all nodes of a level have the same cut, the one with the largest sum of gains; a
        node that would gain nothing by it stays whole. With ``max_depth=d`` a tree asks at most d
        questions (docs/symmetric_trees.md). Needs ``split_score="plain"``.
    random_strength : float, default=0.0
        ν, noise in the choice of the cuts of symmetric trees: the level takes the cut with the
        largest √(T + s) + ν σ z, with s its gain, T the gains of the levels above, σ² the mean of
        squared gradients over that of hessians, and z about normal, for each cut. Often better at 1
        or 2 (docs/symmetric_trees.md). 0 takes the largest gain.
    options : TreeOptions, optional
        Options that :func:`mtboost.fit` has checked, in place of those above.

    Raises
    ------
    ParameterError
        Of `split_score`, `beta` or `task_splits`, or `task_column` or `symmetric_trees` with
        another score than "plain".
    UnsupportedError
        Parameters ask for trees that only LightGBM grows, such as ``boosting="dart"`` or
        ``linear_tree=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import lightgbm
    >>> from mtboost.lightgbm import TaskSplit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> params = {"num_leaves": 7, "verbosity": -1}
    >>> split = TaskSplit(task, split_score="entropy")
    >>> booster = lightgbm.train(params, lightgbm.Dataset(X, y), 10, callbacks=[split])
    >>> booster.num_trees()
    10

    References
    ----------
    zhang2019, section 3.2; task splits: simm2014 (keys in docs/papers.md).
    """

    before_iteration = True

    @renamed(score="split_score", task_penalty="task_splits")
    def __init__(
        self,
        task: Any,
        *,
        split_score: Score = "entropy",
        beta: Beta = "auto",
        pooling: PoolingOption = None,
        valid_tasks: Sequence[tuple[lightgbm.Dataset, Any]] = (),
        task_column: int | str | None = None,
        task_splits: float = 1.0,
        symmetric_trees: bool = False,
        random_strength: float = 0.0,
        options: TreeOptions | None = None,
    ) -> None:
        check_version()
        price = None if task_column is None else task_splits
        if options is None:
            options = TreeOptions(
                split_score,
                beta,
                pooling,
                price,
                symmetric_trees=symmetric_trees,
                random_strength=random_strength,
            )
        pairs = check_pairs(
            "valid_tasks", valid_tasks, lightgbm.Dataset, "(Dataset, task of each row)"
        )
        known = [(data, TaskSet.from_labels(labels, len(labels))) for data, labels in pairs]
        super().__init__(task, options, task_column, known)
        # Before any other callback reads the booster. lightgbm.train sets what it does not find
        # in the instance.
        self.order = -1_000_000

    def __call__(self, env: lightgbm.callback.CallbackEnv) -> None:
        if env.iteration > env.begin_iteration:
            return
        is_cv = isinstance(env.model, lightgbm.CVBooster)
        boosters = env.model.boosters if isinstance(env.model, lightgbm.CVBooster) else [env.model]
        for booster in boosters:
            if isinstance(booster, GrowingBooster):
                raise UnsupportedError("Give lightgbm.train one TaskSplit, not two.")
            rows = rows_of_subset(booster.train_set, self.tasks.n_rows) if is_cv else None
            tasks = self.tasks if rows is None else self.tasks.take(rows)
            growth = take_over(
                booster, tasks=tasks, options=self.options, task_column=self._task_column
            )
            self._start(growth)

    def booster(self, trained: lightgbm.Booster, task: TaskName) -> lightgbm.Booster:
        """The booster of one task after a training with partially pooled leaves.

        Parameters
        ----------
        trained : Booster
            What ``lightgbm.train`` has returned; it may have been cut after some round.
        task : int, str or bool

        Returns
        -------
        lightgbm.Booster
            The same trees with the task's own leaf values.
        """
        booster: lightgbm.Booster = self._of_task(LightgbmDocument.of(trained), task).load()
        return booster
