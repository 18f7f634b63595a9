# SPDX-License-Identifier: Apache-2.0
"""Gradients of several tasks for trees that LightGBM grows itself."""

from __future__ import annotations

from inspect import signature
from typing import Any

import lightgbm
import numpy as np

from mtboost import _core
from mtboost.base.tasks import TaskSet
from mtboost.lightgbm.library import (
    LOSS_OPTIONS,
    arithmetic,
    check_one_machine,
    check_version,
    query_begins,
    rows_of_subset,
)
from mtboost.trees.losses import make_lightgbm_loss
from mtboost.trees.task_objective import BaseTaskObjective, Pair


class TaskObjective(BaseTaskObjective):
    """A loss whose rows belong to tasks: tasks have weights, and may leave.

    For ``lightgbm.train({"objective": ...}, ...)`` and ``LGBMClassifier(objective=...)``. LightGBM
    grows the trees; the gradients are computed in C++ without the interpreter's lock. The rows of a
    task that has quit get gradient and hessian 0, so that they add nothing to any sum (see Notes).

    Parameters
    ----------
    objective : str or callable
        LightGBM's name of a loss, or a function as LightGBM takes it: ``(margins, dataset) ->
        (gradient, hessian)``, or with labels, margins and perhaps weights for its scikit-learn
        estimators.
    task : array-like of shape (n_rows,)
        Task of each row of the training data (of ``lightgbm.cv``: of all its folds): integers,
        strings or categories.
    task_weight : mapping of task name to float, or "balanced", optional
        The rows' weights are multiplied by their task's; "balanced" gives all tasks the same total.
    n_threads : int, optional
        By default all cores that the process may use.
    **options : float
        Parameters of the loss, by their main names: ``alpha``, ``fair_c``,
        ``poisson_max_delta_step``, ``tweedie_variance_power``, ``sigmoid``, ``is_unbalance``,
        ``scale_pos_weight``. Those among LightGBM's own parameters do not reach it.

    Raises
    ------
    UnsupportedError
        The loss has no gradient in the core, or sets its leaves by another rule
        (``"regression_l1"``, ``"quantile"``, ``"mape"``). In training: there are several machines.

    Notes
    -----
    *Start.* LightGBM estimates no start score for an objective that it is given: margins begin at
    0, or at the ``init_score`` of the data. It keeps neither objective nor ``init_score`` in the
    model, so that predictions are margins without the start: add it, then apply the inverse link.

    *Rows of tasks that have quit* are still rows to ``min_data_in_leaf``, to bagging and to the
    counts in the model. Where tasks may quit, set ``min_data_in_leaf=1`` and bound leaves by
    ``min_sum_hessian_in_leaf``. Even then trees need not be quite those of the other rows alone:
    LightGBM estimates the rows on each side of a split from hessians, bin by bin, and may take the
    last values of a column for too few. The fewer bins (``max_bin``), the rarer that is.

    *A class without rows*, or with all of them, is left out by LightGBM's own objectives. With this
    one it gets trees like any other.

    Examples
    --------
    >>> import numpy as np
    >>> import lightgbm
    >>> from mtboost.lightgbm import TaskObjective
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> objective = TaskObjective("regression", task, task_weight="balanced")
    >>> params = {"objective": objective, "num_leaves": 7, "verbosity": -1}
    >>> booster = lightgbm.train(params, lightgbm.Dataset(X, y), 10)
    >>> booster.num_trees()
    10
    """

    _margin_type = np.float64
    _known_options = tuple(LOSS_OPTIONS)
    _numbers = tuple(name for name, read in LOSS_OPTIONS.items() if read is float)
    _flat_order = "F"
    _how_to_train = "give it to LightGBM as params['objective'], too"
    _refusal = "LightGBM does for its own objective only: use 'huber', or a function of your own"
    _check_library = staticmethod(check_version)
    _query_begins = staticmethod(query_begins)

    def __call__(self, first: Any, second: Any, weight: Any = None) -> Pair:
        """Gradient and hessian, each of the shape of the margins, in memory that may be used again.

        Takes ``(margins, dataset)`` from ``lightgbm.train``, and ``(labels, margins)`` and the
        rows' weights from scikit-learn's estimators.
        """
        is_data = isinstance(second, lightgbm.Dataset)
        check_one_machine("TaskObjective", second.params if is_data else None)
        if is_data:
            pair = self._pair(first, second, first, second)
        else:
            arguments = (first, second, weight)
            if callable(self.objective):  # LightGBM's rule
                arguments = arguments[: len(signature(self.objective).parameters)]
            pair = self._pair(second, (first, weight), *arguments)
        gradient, hessian = map(np.asfortranarray, pair)  # class after class, as LightGBM needs it
        return gradient, hessian

    def _tasks_of(self, data: Any, n_rows: int) -> TaskSet:
        rows = None if data is None else rows_of_subset(data, self.tasks.n_rows)
        if rows is None:
            return super()._tasks_of(data, n_rows)
        return TaskSet(self.tasks.names, self.tasks.codes[rows])

    def _make_loss(self, objective: str, n_outputs: int) -> _core.LightgbmLoss:
        return make_lightgbm_loss(objective, n_outputs, arithmetic=arithmetic(), **self._options)
