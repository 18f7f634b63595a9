# SPDX-License-Identifier: Apache-2.0
"""Metrics of single tasks among those that XGBoost prints and records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.metrics import Metric, get_metric
from mtboost.trees.task_metric import metric_of_tasks
from mtboost.xgboost.library import (
    check_one_machine,
    labels_and_weights,
    queries_of,
    tasks_of_matrices,
)
from mtboost.xgboost.objective import TaskObjective

Scores = list[tuple[str, float]]


def task_metric(
    metric: str | Metric,
    tasks: Iterable[tuple[xgboost.DMatrix, Any]],
    *,
    objective: TaskObjective | None = None,
) -> Callable[[npt.NDArray[np.float32], xgboost.DMatrix], Scores]:
    """Make a metric of each task for ``xgboost.train(..., custom_metric=...)``.

    Parameters
    ----------
    metric : str or Metric
        See :func:`mtboost.metrics.get_metric`.
    tasks : pairs of DMatrix and array-like of shape (n_rows,)
        The matrices of ``evals`` and the task of each of their rows. A matrix of ``evals`` that is
        not among them gets no metric by task.
    objective : TaskObjective, optional
        The one that is trained with: XGBoost then hands over margins, not predictions.

    Returns
    -------
    callable
        Gives ``[(f"{metric}-{task}", value), ...]``, tasks in their order; white space and colons
        in a name, at which XGBoost would split it, become underscores.

    Raises
    ------
    DataError
        There is not one task per row.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import task_metric
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> dtrain = xgboost.DMatrix(X, y)
    >>> found = {}
    >>> booster = xgboost.train(
    ...     {"max_depth": 3},
    ...     dtrain,
    ...     10,
    ...     evals=[(dtrain, "train")],
    ...     custom_metric=task_metric("mae", [(dtrain, task)]),
    ...     evals_result=found,
    ...     verbose_eval=False,
    ... )
    >>> sorted(found["train"])
    ['mae-a', 'mae-b', 'rmse']
    """
    by_task = metric_of_tasks(
        get_metric(metric),
        tasks_of_matrices("tasks", tasks),
        objective,
        labels_and_weights,
        queries_of,
    )

    def named(predictions: npt.NDArray[np.float32], matrix: xgboost.DMatrix) -> Scores:
        check_one_machine("task_metric")
        scores = by_task(predictions, matrix)
        return [(re.sub(r"[\s:]+", "_", name), value) for name, value in scores]

    return named
