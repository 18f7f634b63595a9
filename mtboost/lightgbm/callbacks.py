# SPDX-License-Identifier: Apache-2.0
"""Callbacks that make ``lightgbm.train`` multi-task."""

from __future__ import annotations

import lightgbm

from mtboost.base.checks import check_type
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.renamed import without_parameters
from mtboost.base.tasks import TaskName
from mtboost.errors import UnsupportedError
from mtboost.lightgbm.booster import GrowingBooster, take_over
from mtboost.lightgbm.document import LightgbmDocument
from mtboost.lightgbm.library import Callback, rows_of_subset, tasks_of_matrices
from mtboost.trees.task_split import BaseTaskSplit


@shares_docstring_of(BaseTaskSplit, sections=["References"])
class TaskSplit(BaseTaskSplit, Callback):
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
    valid_tasks : sequence of (Dataset, array-like), optional
        Data sets of `valid_sets` with the task of each of their rows, which partially pooled leaves
        are evaluated by; of other data sets the pooled values are. Those of :class:`TaskQuitting`
        are known without it from the second round on: LightGBM evaluates the first one before it
        calls :class:`TaskQuitting`.
    task_column : int or str, optional
        Position or name of a category column of the training data that holds the task of each row.
        A node may then split the tasks into two groups. Needs ``split_score="plain"``.
    task_splits : float, default=1.0
        c in S = s − c σ² (1 + (T − 2) 2/π), the score of a split between T tasks: what the best of
        their partitions gains by chance is subtracted c times. ``cat_smooth``, ``cat_l2`` and
        ``min_data_per_group`` hold besides. 0 leaves the column a category like others, as in
        stock training.

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
    """

    _order = -1_000_000
    before_iteration = True
    _takes_quantized_gradients = False
    _tasks_of_matrices = staticmethod(tasks_of_matrices)
    __init__ = without_parameters("table")(BaseTaskSplit.__init__)

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
            What ``lightgbm.train`` has returned; it may have been sliced after some round. Trees
            of a model that it has continued (``init_model``) keep the pooled values.
        task : int, str or bool
            One of the tasks of the training rows.

        Returns
        -------
        lightgbm.Booster
            The same trees with the task's own leaf values.
        """
        allowed = "a lightgbm.Booster (that of an estimator is booster_)"
        check_type("trained", trained, lightgbm.Booster, allowed)
        booster: lightgbm.Booster = self._of_task(LightgbmDocument.of(trained), task).load()
        return booster
