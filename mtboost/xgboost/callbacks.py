# SPDX-License-Identifier: Apache-2.0
"""Callbacks that make ``xgboost.train`` multi-task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import xgboost

from mtboost.base.checks import check_pairs
from mtboost.base.renamed import renamed
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import UnsupportedError
from mtboost.trees.pooled_leaves import PoolingOption
from mtboost.trees.split_scores import Beta, Score
from mtboost.trees.task_split import BaseTaskSplit
from mtboost.trees.tree_options import TreeOptions
from mtboost.xgboost.booster import GrowingBooster, XgboostGrowth
from mtboost.xgboost.document import XgboostDocument, stacked
from mtboost.xgboost.library import check_version


class TaskSplit(BaseTaskSplit, xgboost.callback.TrainingCallback):
    """Grow the trees of ``xgboost.train`` with a split score over tasks.

    The loop, bins, gradients, metrics, early stopping and printing stay XGBoost's, and the result
    is an ordinary ``xgboost.Booster``. With ``split_score="plain"`` it equals that of stock
    training bit for bit, unless rows or columns are sampled (the distribution of the draws is
    XGBoost's, the draws are not).

    Parameters
    ----------
    task : array-like of shape (n_rows,)
        Task of each row of the training matrix: integers, strings or categories.
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
    valid_tasks : sequence of (DMatrix, array-like), optional
        Matrices of `evals` with the task of each of their rows, which partially pooled leaves are
        evaluated by; of other matrices the pooled values are. Those of :class:`TaskQuitting` are
        known without it.
    table : ndarray, optional
        The array that the training matrix was made from. With it a ``QuantileDMatrix`` is read
        without a temporary copy of its values (8 bytes each). It is not used where `missing` of the
        matrix was another number than NaN.
    task_column : int or str, optional
        Position or name of a category column of the training matrix that holds the task of each
        row. A node may then divide the tasks into two groups. Needs ``split_score="plain"``.
    task_splits : float, default=1.0
        c in S = s − c σ² (1 + (T − 2) 2/π), the score of a cut between T tasks: what the best of
        their divisions gains by chance is subtracted c times. 0 leaves the column a category like
        others, as in stock training.
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
        Parameters ask for trees that only XGBoost grows, such as ``tree_method="exact"`` or
        ``booster="dart"``.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import TaskSplit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> split = TaskSplit(task, split_score="entropy")
    >>> booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, y), 10, callbacks=[split])
    >>> booster.num_boosted_rounds()
    10

    References
    ----------
    zhang2019, section 3.2; task splits: simm2014 (keys in docs/papers.md).
    """

    @renamed(score="split_score", task_penalty="task_splits")
    def __init__(
        self,
        task: Any,
        *,
        split_score: Score = "entropy",
        beta: Beta = "auto",
        pooling: PoolingOption = None,
        valid_tasks: Sequence[tuple[xgboost.DMatrix, Any]] = (),
        table: object = None,
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
            "valid_tasks", valid_tasks, xgboost.DMatrix, "(DMatrix, task of each row)"
        )
        known = [(data, TaskSet.from_labels(labels, data.num_row())) for data, labels in pairs]
        super().__init__(task, options, task_column, known)
        self._table = table

    def before_training(self, model: Any) -> Any:
        if not isinstance(model, xgboost.Booster):
            raise UnsupportedError(
                "TaskSplit cannot be used in xgboost.cv, which does not tell a callback the rows "
                "of its folds: train each fold with xgboost.train."
            )
        if isinstance(model, GrowingBooster):
            raise UnsupportedError("Give xgboost.train one TaskSplit, not two.")
        growth = XgboostGrowth(
            model,
            tasks=self.tasks,
            options=self.options,
            task_column=self._task_column,
            table=self._table,
        )
        self._start(growth)
        return GrowingBooster(growth)

    def after_training(self, model: Any) -> Any:
        # A callback before this one, such as EarlyStopping(save_best=True), may have cut out a
        # genuine booster already.
        return model.trained() if isinstance(model, GrowingBooster) else model

    def booster(self, trained: xgboost.Booster, task: TaskName | None = None) -> xgboost.Booster:
        """The booster of one task, or of all, after a training with partially pooled leaves.

        Parameters
        ----------
        trained : Booster
            What ``xgboost.train`` has returned; it may have been cut after some round.
        task : int, str or bool, optional
            By default all: a booster with an output for each, in the order of ``tasks.names``.

        Returns
        -------
        xgboost.Booster
            The same trees with the task's own leaf values, or with those of all tasks.

        Raises
        ------
        UnsupportedError
            Of all tasks, where each has several classes.
        """
        document = XgboostDocument.of(trained)
        if task is not None:
            booster: xgboost.Booster = self._of_task(document, task).load()
            return booster
        if document.n_outputs > 1:
            raise UnsupportedError(
                "There is no booster of all tasks where each has several classes: name one, such "
                f"as booster(trained, {self.tasks.names[0]!r})."
            )
        return stacked([self._of_task(document, name) for name in self.tasks])


class InOrder(xgboost.callback.TrainingCallback):
    """Several callbacks as one, called in their order.

    XGBoost 3.0 keeps callbacks in a set. Which of them sees a round first, or misses the last round
    because another one ended training, would differ from run to run.
    """

    def __init__(self, callbacks: Iterable[xgboost.callback.TrainingCallback]) -> None:
        super().__init__()
        self._callbacks = list(dict.fromkeys(callbacks))  # each once, as in XGBoost
        for callback in self._callbacks:
            if not isinstance(callback, xgboost.callback.TrainingCallback):
                raise TypeError(
                    f"callbacks holds {callback!r}: it must be an instance of "
                    "xgboost.callback.TrainingCallback."
                )

    def before_training(self, model: Any) -> Any:
        for callback in self._callbacks:
            model = callback.before_training(model)
        return model

    def after_training(self, model: Any) -> Any:
        for callback in self._callbacks:
            model = callback.after_training(model)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return any(each.before_iteration(model, epoch, evals_log) for each in self._callbacks)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return any(each.after_iteration(model, epoch, evals_log) for each in self._callbacks)
