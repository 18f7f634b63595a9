# SPDX-License-Identifier: Apache-2.0
"""Metrics of single tasks among those that LightGBM prints and records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost.lightgbm.library import (
    check_one_machine,
    labels_and_weights,
    queries_of,
    tasks_of_matrices,
)
from mtboost.lightgbm.objective import TaskObjective
from mtboost.metrics.built_in import get_metric
from mtboost.metrics.metric import Metric
from mtboost.trees.task_metric import check_matrix, metric_of_tasks

Scores = list[tuple[str, float, bool]]


def task_metric(
    metric: str | Metric,
    tasks: Iterable[tuple[lightgbm.Dataset, Any]],
    *,
    objective: TaskObjective | None = None,
) -> Callable[[npt.NDArray[np.float64], lightgbm.Dataset], Scores]:
    """Make a metric of each task for ``lightgbm.train(..., feval=...)``.

    Parameters
    ----------
    metric : str or Metric
        See :func:`mtboost.metrics.get_metric`.
    tasks : pairs of Dataset and array-like of shape (n_rows,)
        The data sets of ``valid_sets`` and the task of each of their rows. A data set of
        ``valid_sets`` that is not among them gets no metric by task, such as the folds of
        ``lightgbm.cv``.
    objective : TaskObjective, optional
        The one that is trained with: LightGBM then hands over margins, not predictions.

    Returns
    -------
    callable
        Gives ``[(f"{metric}-{task}", value, greater_is_better), ...]``, tasks in their order. A
        task on which the metric is undefined is left out: ``lightgbm.early_stopping`` would take a
        NaN for a metric that never improves.

    Raises
    ------
    DataError
        There is not one task per row; if the data set is not yet constructed, in the first round.
    UnsupportedError
        When an estimator calls it as its ``eval_metric``.

    Examples
    --------
    >>> import numpy as np
    >>> import lightgbm
    >>> from mtboost.lightgbm import task_metric
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> data = lightgbm.Dataset(X, y)
    >>> found = {}
    >>> booster = lightgbm.train(
    ...     {"num_leaves": 7, "verbosity": -1},
    ...     data,
    ...     10,
    ...     valid_sets=[data],
    ...     feval=task_metric("mae", [(data, task)]),
    ...     callbacks=[lightgbm.record_evaluation(found)],
    ... )
    >>> sorted(found["training"])
    ['l2', 'mae-a', 'mae-b']
    """
    metric = get_metric(metric)
    is_greater_better = metric.greater_is_better
    by_task = metric_of_tasks(
        metric, tasks_of_matrices("tasks", tasks), objective, labels_and_weights, queries_of
    )

    def defined(predictions: npt.NDArray[np.float64], data: lightgbm.Dataset) -> Scores:
        check_matrix(data, lightgbm.Dataset, "feval of lightgbm.train", "valid_0")
        check_one_machine("task_metric", data.params)
        scores = by_task(predictions, data)
        return [(name, value, is_greater_better) for name, value in scores if not np.isnan(value)]

    return defined
