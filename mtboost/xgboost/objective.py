# SPDX-License-Identifier: Apache-2.0
"""Gradients of several tasks for trees that XGBoost grows itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost import _core
from mtboost.trees.losses import make_loss
from mtboost.trees.task_objective import BaseTaskObjective, Pair
from mtboost.xgboost.library import arithmetic, check_one_machine, check_version, query_begins


class TaskObjective(BaseTaskObjective):
    """A loss whose rows belong to tasks: tasks have weights, and may leave.

    For ``xgboost.train(..., obj=...)`` and ``XGBClassifier(objective=...)``. XGBoost grows the
    trees; the gradients are computed in C++ without the interpreter's lock. The rows of a task that
    has quit (:class:`TaskQuitting`) get gradient and hessian 0, which to XGBoost is the same as if
    they were not there.

    Parameters
    ----------
    objective : str or callable
        XGBoost's name of a loss, or a function ``(margins, matrix) -> (gradient, hessian)`` as
        ``xgboost.train`` takes it.
    task : array-like of shape (n_rows,)
        Task of each row of the training matrix: integers, strings or categories.
    task_weight : mapping of task name to float, or "balanced", optional
        The rows' weights are multiplied by their task's; "balanced" gives all tasks the same total.
    n_threads : int, optional
        By default all cores that the process may use.
    **options : float
        Parameters of the loss: ``scale_pos_weight``, ``huber_slope``, ``max_delta_step``,
        ``tweedie_variance_power``.

    Raises
    ------
    UnsupportedError
        The loss has no gradient in the core, or sets its leaves by another rule
        (``"reg:absoluteerror"`` of XGBoost 3.0 to 3.3). In training: there are several machines.

    Notes
    -----
    XGBoost estimates no start score for an objective that it is given: with it set
    ``params["base_score"]``, for example to the mean of the labels. Keep ``params["objective"]`` as
    well, so that predictions and metrics have its link function.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import TaskObjective
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> objective = TaskObjective("reg:squarederror", task, task_weight="balanced")
    >>> params = {"max_depth": 3, "base_score": y.mean()}
    >>> booster = xgboost.train(params, xgboost.DMatrix(X, y), 10, obj=objective)
    >>> booster.num_boosted_rounds()
    10
    """

    _margin_type = np.float32
    _refusal = "XGBoost does for its own objective only: use 'reg:pseudohubererror', or TaskSplit"
    _check_library = staticmethod(check_version)

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Pair:
        """Gradient and hessian, each of the shape of the margins, in memory that is used again.

        Takes ``(margins, matrix)`` from ``xgboost.train``, and ``(labels, margins)`` and the rows'
        weights from scikit-learn's wrappers.
        """
        check_one_machine("TaskObjective")
        if isinstance(second, xgboost.DMatrix):
            return self._pair(first, second, first, second)
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self._pair(second, (first, sample_weight), first, second, **given)

    @staticmethod
    def _query_begins(data: xgboost.DMatrix) -> npt.NDArray[np.uint32] | None:
        return query_begins(data)

    def _make_loss(self, objective: str, n_outputs: int) -> _core.Loss:
        return make_loss(objective, n_outputs, arithmetic=arithmetic(), **self._options)
