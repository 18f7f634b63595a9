# SPDX-License-Identifier: Apache-2.0
"""Metrics of single tasks among those that LightGBM prints and records."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_pairs
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError
from mtboost.lightgbm.library import check_one_machine, labels_and_weights
from mtboost.lightgbm.objective import TaskObjective
from mtboost.metrics import Metric, get_metric, scores_by_task
from mtboost.trees.losses import inverse_link

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
        ``valid_sets`` that is not among them gets no metric by task.
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
    sets: weakref.WeakKeyDictionary[lightgbm.Dataset, TaskSet] = weakref.WeakKeyDictionary()
    pairs = check_pairs("tasks", tasks, lightgbm.Dataset, "(Dataset, task of each row)")
    for data, labels in pairs:
        sets[data] = TaskSet.from_labels(labels, len(labels))

    def by_task(predictions: npt.NDArray[np.float64], data: lightgbm.Dataset) -> Scores:
        check_one_machine("task_metric", data.params)
        if data not in sets:
            return []
        own = sets[data]
        if own.n_rows != data.num_data():
            raise DataError(
                f"task_metric was given {own.n_rows} tasks for a data set of {data.num_data()} "
                "rows: give one per row."
            )
        if objective is not None:
            sigmoid = objective.options.get("sigmoid", 1.0)
            predictions = np.asarray(
                inverse_link(objective.objective, predictions, sigmoid=sigmoid)
            )
        labels, weights = labels_and_weights(data)
        scores = scores_by_task(metric, own, labels, predictions, weights)
        is_greater_better = metric.greater_is_better
        return [(name, value, is_greater_better) for name, value in scores if not np.isnan(value)]

    return by_task
