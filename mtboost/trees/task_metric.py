# SPDX-License-Identifier: Apache-2.0
"""Metrics of single tasks in the training loop of either library."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, UnsupportedError
from mtboost.metrics.by_task import named_scores, scores_by_task
from mtboost.metrics.metric import Metric, check_classes
from mtboost.trees.losses import inverse_link
from mtboost.trees.task_objective import BaseTaskObjective

Queries = npt.NDArray[np.int64]
LabelsAndWeights = tuple[npt.NDArray[Any], npt.NDArray[Any] | None]
TasksOf = Callable[[Any], TaskSet | None]
Evaluate = Callable[[Any, npt.NDArray[np.floating]], npt.NDArray[np.float64]]


def check_matrix(matrix: object, kind: type, where: str, name: str) -> None:
    """Raise unless a metric is called with a matrix, as the library's training does.

    `where` is that training, `name` what an estimator calls its first validation set.
    """
    if not isinstance(matrix, kind):
        raise UnsupportedError(
            f"task_metric is for {where}. An estimator calls its eval_metric with labels and "
            "predictions alone, whose tasks are not known: give it the callback "
            f"TaskQuitting({name!r}, task, early_stopping_rounds=None) instead, whose history has "
            "the metric of each task."
        )


def metric_of_tasks(
    metric: Metric,
    tasks: Iterable[tuple[Any, TaskSet]] | TasksOf,
    objective: BaseTaskObjective | None,
    labels_and_weights: Callable[[Any], LabelsAndWeights],
    queries_of: Callable[[Any], Queries | None],
    evaluate: Evaluate | None = None,
) -> Callable[[npt.NDArray[np.floating], Any], list[tuple[str, float]]]:
    """Return a function of predictions and a matrix that gives the metric of each task by name.

    A matrix whose tasks are not known has none. With an objective the predictions are margins.
    `evaluate` computes the metric of each task in its own way.
    """
    tasks_of = tasks if callable(tasks) else weakref.WeakKeyDictionary(dict(tasks)).get

    def by_task(predictions: npt.NDArray[np.floating], matrix: Any) -> list[tuple[str, float]]:
        own = tasks_of(matrix)
        if own is None:
            return []
        labels, weights = labels_and_weights(matrix)
        if own.n_rows and not len(labels):
            raise DataError("task_metric evaluates a data set without labels: give it label=.")
        if own.n_rows != len(labels):
            raise DataError(
                f"task_metric was given {own.n_rows} tasks for a data set of {len(labels)} rows: "
                "give one per row."
            )
        check_classes(metric, labels)
        if objective is not None:
            sigmoid = objective.options.get("sigmoid", 1.0)
            found = inverse_link(objective.objective, predictions, sigmoid=sigmoid)
            predictions = np.asarray(found, predictions.dtype)
        if evaluate is not None:
            return named_scores(metric, own, evaluate(matrix, predictions))
        return scores_by_task(metric, own, labels, predictions, weights, queries_of(matrix))

    return by_task
