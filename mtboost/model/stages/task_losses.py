# SPDX-License-Identifier: Apache-2.0
"""Losses of tasks that can be compared and added up.

A metric of groups of rows becomes a loss whose mean over groups is that of the rows together. Tasks
with one objective have losses in one unit. Where each has its own, the losses of each are divided
by a scale, so that a constant loses about 1 a row in every task:

* a metric that is 0 for perfect predictions, by what it is for the task's mean label;
* a likelihood, which has no such zero, by half the dispersion φ of the labels around their mean,
  the mean of (y - μ)² / V(μ) with the variance function V of the objective: twice a likelihood over
  φ is a quasi-deviance (wedderburn1974), of which φ is the expectation at the true mean;
* a metric of two classes, by ½: 2 log 2 for equal classes, and less where one is rare, since rows
  of a rare class say little, and a constant's loss near 0 would make that count much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Codes, Float64Array
from mtboost.base.queries import Queries
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import Metric
from mtboost.trees.losses import TaskLoss, is_classification, standard_deviations

#: Metrics that are not 0 for perfect predictions.
_LIKELIHOODS = ("poisson-nloglik", "tweedie-nloglik", "logloss")


@dataclass(frozen=True, slots=True, eq=False)
class TaskLosses:
    """Metrics of tasks as losses.

    Attributes
    ----------
    kinds : tuple of Metric
        The metrics that tasks have.
    codes : ndarray of int64, shape (n_tasks,)
        The place of a task's metric in `kinds`.
    scales : ndarray of float64, shape (n_tasks,)
        What the losses of each task are divided by.
    """

    kinds: tuple[Metric, ...]
    codes: npt.NDArray[np.int64]
    scales: Float64Array

    @classmethod
    def of_one_metric(cls, metric: Metric, n_tasks: int) -> TaskLosses:
        """Return the losses of tasks with one metric, as they are."""
        return cls((metric,), np.zeros(n_tasks, np.int64), np.ones(n_tasks))

    @classmethod
    def of_metrics(cls, metrics: Sequence[Metric], scales: Float64Array) -> TaskLosses:
        """Return the losses of tasks with a metric each."""
        kinds = {id(metric): metric for metric in metrics}
        places = {number: place for place, number in enumerate(kinds)}
        codes = np.array([places[id(metric)] for metric in metrics], np.int64)
        return cls(tuple(kinds.values()), codes, scales)

    @property
    def metrics(self) -> list[Metric]:
        """The metric of each task."""
        return [self.kinds[code] for code in self.codes.tolist()]

    def of_tasks(self, values: Float64Array) -> Float64Array:
        """Return losses of all tasks, from the values of their metrics, shape (n_tasks,)."""
        losses = np.empty(len(values))
        for metric, codes in self._groups():
            losses[codes] = as_losses(metric, values[codes])
        return np.asarray(losses / self.scales)

    def of_task(self, code: int, values: Float64Array) -> Float64Array:
        """Return losses of one task, from values of its metric."""
        return np.asarray(as_losses(self.kinds[self.codes[code]], values) / self.scales[code])

    def value(self, code: int, loss: float) -> float:
        """Return the metric of a task with this mean loss."""
        return from_loss(self.kinds[self.codes[code]], loss * float(self.scales[code]))

    def of_rows(self, labels: Float64Array, predictions: Any, codes: Codes) -> Float64Array:
        """Return the loss of each row alone; predictions on the scale of the labels."""
        losses = np.empty(len(labels))
        for metric, rows, _ in self.by_metric(codes):
            own = labels[rows]
            alone = np.arange(len(own))
            values = evaluate_by_task(metric, own, predictions[rows], alone, len(own))
            losses[rows] = as_losses(metric, values)
        return np.asarray(losses / self.scales[codes])

    def evaluate(
        self,
        labels: Float64Array,
        predictions: Any,
        codes: Codes,
        weight: Float64Array | None,
        queries: Queries | None,
    ) -> Float64Array:
        """Return the metric of each task; predictions on the scale of the labels."""
        values = np.full(len(self.codes), np.nan)
        for metric, rows, own in self.by_metric(codes):
            values[own] = evaluate_by_task(
                metric,
                labels[rows],
                predictions[rows],
                codes[rows],
                len(values),
                None if weight is None else weight[rows],
                None if queries is None else queries[rows],
            )[own]
        return values

    def _groups(self) -> Iterator[tuple[Metric, Any]]:
        """Yield each metric with the codes of its tasks."""
        for place, metric in enumerate(self.kinds):
            yield metric, np.flatnonzero(self.codes == place)

    def by_metric(self, codes: Codes) -> Iterator[tuple[Metric, Any, Any]]:
        """Yield each metric with the rows and the codes of its tasks; of one metric all rows."""
        for metric, own in self._groups():
            if len(own) == len(self.codes):
                yield metric, slice(None), own
            else:
                yield metric, np.flatnonzero(np.isin(codes, own)), own


def as_losses(metric: Metric, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Values of a metric of groups of rows as losses whose means are those of the rows together."""
    if metric.name in ("rmse", "rmsle"):
        return values**2
    return -values if metric.greater_is_better else values


def from_loss(metric: Metric, loss: float) -> float:
    """The metric of rows whose mean loss it is, the way back of :func:`as_losses`.

    An estimated mean of squares may be below 0; its root is 0.
    """
    if metric.name in ("rmse", "rmsle"):
        return float(np.sqrt(np.maximum(loss, 0.0)))
    return float(-loss if metric.greater_is_better else loss)


def scale_of(loss: TaskLoss, metric: Metric, labels: Float64Array, weights: Float64Array) -> float:
    """Return what the losses of a task are divided by, to be compared with those of others.

    Parameters
    ----------
    loss : TaskLoss
    metric : Metric
        Its validation metric, a mean over rows or the root of one.
    labels, weights : ndarray of float64, shape (n_rows,)
        Training rows of the task; some weight is above 0.

    Returns
    -------
    float
        0 where labels are all alike up to rounding: a constant loses nothing there.
    """
    if is_classification(loss.objective):
        return 0.5
    known = labels[weights > 0]
    if np.ptp(known) <= 4.0 * np.finfo(np.float32).eps * np.abs(known).max():
        return 0.0
    mean = np.full(len(labels), np.average(labels, weights=weights))
    if metric.name.partition("@")[0] not in _LIKELIHOODS:
        value = evaluate_by_task(metric, labels, mean, np.zeros(len(labels), int), 1, weights)
        scale = float(as_losses(metric, value)[0])
    else:
        deviations = standard_deviations(loss.objective, mean, loss.options)
        if metric.name == "logloss":
            deviations = np.sqrt(mean * (1.0 - mean))
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = ((labels - mean) / deviations) ** 2
        scale = 0.5 * float(np.average(squares, weights=weights))
    return scale if 0.0 < scale < np.inf else 1.0
