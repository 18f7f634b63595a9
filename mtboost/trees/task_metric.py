# SPDX-License-Identifier: Apache-2.0
"""Metrics of single tasks in the training loop of either library."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError
from mtboost.metrics import Metric, scores_by_task
from mtboost.trees.losses import inverse_link
from mtboost.trees.task_objective import BaseTaskObjective

Queries = npt.NDArray[np.int64]
LabelsAndWeights = tuple[npt.NDArray[Any], npt.NDArray[Any] | None]


def metric_of_tasks(
    metric: Metric,
    tasks: Iterable[tuple[Any, TaskSet]],
    objective: BaseTaskObjective | None,
    labels_and_weights: Callable[[Any], LabelsAndWeights],
    queries_of: Callable[[Any], Queries | None],
) -> Callable[[npt.NDArray[np.floating], Any], list[tuple[str, float]]]:
    """Return a function of predictions and a matrix that gives the metric of each task by name.

    A matrix whose tasks are not known has none. With an objective the predictions are margins.
    """
    sets: weakref.WeakKeyDictionary[Any, TaskSet] = weakref.WeakKeyDictionary(dict(tasks))

    def by_task(predictions: npt.NDArray[np.floating], matrix: Any) -> list[tuple[str, float]]:
        if matrix not in sets:
            return []
        own = sets[matrix]
        labels, weights = labels_and_weights(matrix)
        if own.n_rows != len(labels):
            raise DataError(
                f"task_metric was given {own.n_rows} tasks for a data set of {len(labels)} rows: "
                "give one per row."
            )
        if objective is not None:
            sigmoid = objective.options.get("sigmoid", 1.0)
            found = inverse_link(objective.objective, predictions, sigmoid=sigmoid)
            predictions = np.asarray(found, predictions.dtype)
        return scores_by_task(metric, own, labels, predictions, weights, queries_of(matrix))

    return by_task
