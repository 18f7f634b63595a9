"""Callbacks that make ``lightgbm.train`` multi-task."""

from __future__ import annotations

from typing import Any

import lightgbm

from mtboost.errors import UnsupportedError
from mtboost.lightgbm.booster import GrowingBooster, take_over
from mtboost.lightgbm.library import check_version
from mtboost.scores import Beta, Score, make_split_score
from mtboost.tasks import TaskSet


class TaskSplit:
    """Grow the trees of ``lightgbm.train`` with a split score over tasks.

    The loop, bins, metrics, early stopping and printing stay LightGBM's, and the result is an
    ordinary ``lightgbm.Booster``. With ``score="plain"`` it equals that of stock training with one
    thread bit for bit, bags and sampled columns of trees included (of nodes the law of the draws is
    LightGBM's, the draws are not).

    Parameters
    ----------
    task : array-like of shape (n_rows,)
        Task of each row of the training data: integers, strings or categories.
    score : {"entropy", "variance", "plain"} or callable, default="entropy"
        See :func:`mtboost.make_split_score`.
    beta : float or "auto", default="auto"
        Weight of the variance in ``score="variance"``.

    Raises
    ------
    UnsupportedError
        Parameters ask for trees that only LightGBM grows, such as ``boosting="dart"`` or
        ``linear_tree=True``.

    Examples
    --------
    >>> lightgbm.train(params, train, 200, valid_sets=[valid],
    ...                callbacks=[TaskSplit(task, score="entropy")])  # doctest: +SKIP

    References
    ----------
    zhang2019, section 3.2 (key in docs/papers.md).
    """

    before_iteration = True

    def __init__(self, task: Any, *, score: Score = "entropy", beta: Beta = "auto") -> None:
        check_version()
        self.tasks = task if isinstance(task, TaskSet) else TaskSet.from_labels(task, len(task))
        make_split_score(score, beta)  # refuses here what training would
        # Kept as given: scores of the core cannot be copied, as scikit-learn copies callbacks.
        self._score, self._beta = score, beta
        # Before any other callback looks at the booster. lightgbm.train sets what it does not find
        # in the instance.
        self.order = -1_000_000

    def __call__(self, env: lightgbm.callback.CallbackEnv) -> None:
        if env.iteration > env.begin_iteration:
            return
        if not isinstance(env.model, lightgbm.Booster):
            raise UnsupportedError(
                "TaskSplit cannot be used in lightgbm.cv, which does not tell a callback the rows "
                "of its folds: train each fold with lightgbm.train."
            )
        if isinstance(env.model, GrowingBooster):
            raise UnsupportedError("Give lightgbm.train one TaskSplit, not two.")
        score = make_split_score(self._score, self._beta)
        take_over(env.model, tasks=self.tasks, score=score)
