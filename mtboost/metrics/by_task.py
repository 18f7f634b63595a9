# SPDX-License-Identifier: Apache-2.0
"""A metric on the rows of each task, for all tasks in one pass."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Total
from mtboost.base.tasks import TaskSet
from mtboost.metrics.built_in import get_metric
from mtboost.metrics.metric import Metric
from mtboost.metrics.task_rows import TaskRows


def evaluate_by_task(
    metric: str | Metric,
    y: npt.ArrayLike,
    prediction: npt.ArrayLike,
    codes: npt.NDArray[np.integer[Any]],
    n_tasks: int,
    weight: npt.ArrayLike | None = None,
    queries: npt.NDArray[np.integer[Any]] | None = None,
    total: Total | None = None,
) -> Float64Array:
    """Value of a metric on the rows of each task.

    Parameters
    ----------
    metric : str or Metric
        Name of a built-in metric (see :func:`get_metric`) or a user's.
    y : array-like of shape (n_rows,), or (n_rows, 2)
        Labels; class numbers for ``merror`` and ``mlogloss``. Metrics of two classes read -1 as 0.
        Two columns are bounds of times.
    prediction : array-like of shape (n_rows,) or (n_rows, n_classes)
        On the response scale: probabilities for ``logloss`` and ``error``. The two-dimensional
        shape is for ``merror`` and ``mlogloss``; ``auc`` and ``aucpr`` take any increasing scale.
    codes : ndarray of int, shape (n_rows,)
        Task of each row, 0 to ``n_tasks`` - 1.
    n_tasks : int
        Number of tasks.
    weight : array-like of shape (n_rows,), optional
        Row weights.
    queries : ndarray of int, shape (n_rows,), optional
        Query of each row, for ``ndcg``.
    total : callable, optional
        Adds up arrays over several machines, each of which calls it as often as the others; for
        metrics that are means over rows (:func:`is_mean_of_rows`).

    Returns
    -------
    ndarray of float64, shape (n_tasks,)
        NaN where the metric is undefined: no row, no weight, a NaN prediction, or, for ``auc`` and
        ``aucpr``, one class only.

    Raises
    ------
    DataError
        The predictions have the wrong number of axes for a built-in metric.
    """
    weights = None if weight is None else np.asarray(weight, np.float64)
    rows = TaskRows(codes, n_tasks, weights, queries, total)
    return get_metric(metric)._by_task(
        np.asarray(y, np.float64), np.asarray(prediction, np.float64), rows
    )


def scores_by_task(
    metric: Metric,
    tasks: TaskSet,
    y: npt.ArrayLike,
    prediction: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    queries: npt.NDArray[np.integer[Any]] | None = None,
) -> list[tuple[str, float]]:
    """Names ``f"{metric}-{task}"`` and values of :func:`evaluate_by_task`, tasks in their order."""
    values = evaluate_by_task(metric, y, prediction, tasks.codes, tasks.n_tasks, weight, queries)
    return named_scores(metric, tasks, values)


def named_scores(metric: Metric, tasks: TaskSet, values: Float64Array) -> list[tuple[str, float]]:
    """Names ``f"{metric}-{task}"`` and the values of the tasks, in their order."""
    names = (f"{metric.name}-{task}" for task in tasks.names)
    return list(zip(names, values.tolist(), strict=True))


def evaluate_strata(
    metric: Metric,
    y: Float64Array,
    prediction: Float64Array,
    strata: npt.NDArray[np.integer[Any]],
    weight: Float64Array | None,
) -> float:
    """Return a metric of survival of rows whose hazards are comparable within strata only.

    The mean of the strata, by the weight of their events.
    """
    names, codes = np.unique(strata, return_inverse=True)
    codes = codes.reshape(-1)
    values = evaluate_by_task(metric, y, prediction, codes, len(names), weight)
    is_event = (y > 0.0) if weight is None else weight * (y > 0.0)
    events = np.where(np.isnan(values), 0.0, np.bincount(codes, is_event, len(names)))
    return float(np.average(np.nan_to_num(values), weights=events)) if events.any() else math.nan
