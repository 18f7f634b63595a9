# SPDX-License-Identifier: Apache-2.0
"""The metric of each task over the rows of all workers of a collective."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.errors import UnsupportedError
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import Metric, is_mean_of_rows, is_of_queries, is_of_survival
from mtboost.xgboost.collective import Workers


class WorkerMetric:
    """The value that one machine would compute of all rows, the same on all workers.

    The metric of a task whose rows are on one worker is computed there. Of other tasks a mean over
    rows is added up; for metrics that rank rows, and functions of the user's, the rows are sent:
    labels, tasks and weights once, the predictions in each round.

    Parameters
    ----------
    metric : Metric
    labels : ndarray, shape (n_rows,)
        Of the rows of this worker, as the following.
    weights : ndarray, shape (n_rows,), optional
        All workers have weights, or none; those without rows may have either.
    codes : ndarray of int, shape (n_rows,)
        Task of each row; all workers have the same tasks.
    n_tasks : int
    workers : Workers

    Raises
    ------
    UnsupportedError
        The metric ranks the rows of queries.
    """

    def __init__(
        self,
        metric: Metric,
        labels: npt.NDArray[Any],
        weights: npt.NDArray[Any] | None,
        codes: npt.NDArray[np.integer[Any]],
        n_tasks: int,
        workers: Workers,
    ) -> None:
        if is_of_queries(metric):
            raise UnsupportedError(
                f"{metric.name} ranks the rows of queries, which is not supported on several "
                "machines: train on one machine."
            )
        self._metric, self._n_tasks, self._workers = metric, n_tasks, workers
        present = (np.bincount(codes, minlength=n_tasks) > 0).astype(np.float64)
        is_spread = workers.sum(present, "workers of the tasks of validation rows") > 1
        has_weights = workers.gather([weights is not None and len(labels) > 0], "weights").any()
        if has_weights and weights is None:
            weights = np.ones(len(labels))
        is_sum = is_mean_of_rows(metric) and not is_of_survival(metric)  # of risk sets
        self._is_summed = bool(is_spread.any()) and is_sum
        if self._is_summed:
            is_spread[:] = False
        self._sent = np.flatnonzero(is_spread[codes])
        self._is_spread = is_spread
        columns = np.column_stack([labels, np.ones(len(labels)) if weights is None else weights])
        table = np.column_stack([columns, codes])[self._sent]
        self._of_sent = workers.rows_of_all(table, "validation rows") if is_spread.any() else table
        self._own = labels, weights, codes
        self._has_weights = has_weights
        self._n_columns: int | None = None

    def __call__(self, prediction: npt.NDArray[np.floating[Any]]) -> Float64Array:
        """Return the metric of each task, NaN where it is undefined."""
        labels, weights, codes = self._own
        prediction = self._in_columns(prediction)
        if self._is_summed:
            return evaluate_by_task(
                self._metric,
                labels,
                prediction,
                codes,
                self._n_tasks,
                weights,
                total=lambda sums: self._workers.sum(sums, "metrics of the tasks"),
            )
        local = np.flatnonzero(~self._is_spread[codes])
        value = np.full(self._n_tasks, np.nan)
        if len(local):
            own_weights = None if weights is None else weights[local]
            rows = labels[local], prediction[local], codes[local], self._n_tasks, own_weights
            value = evaluate_by_task(self._metric, *rows)
        is_known = ~np.isnan(value)
        values = np.stack([np.where(is_known, value, 0.0), is_known])
        total, n_workers = self._workers.sum(values, "metrics of the tasks")
        value = np.where(n_workers > 0, total, np.nan)
        if self._is_spread.any():
            value[self._is_spread] = self._of_spread_tasks(prediction)[self._is_spread]
        return value

    def _of_spread_tasks(self, prediction: npt.NDArray[np.floating[Any]]) -> Float64Array:
        sent = prediction[self._sent].reshape(len(self._sent), self._n_columns or 1)
        sent = self._workers.rows_of_all(sent.astype(np.float64), "predictions")
        labels, weights, codes = self._of_sent.T
        return evaluate_by_task(
            self._metric,
            labels,
            sent if self._n_columns else sent[:, 0],
            codes.astype(np.int64),
            self._n_tasks,
            weights if self._has_weights else None,
        )

    def _in_columns(
        self, prediction: npt.NDArray[np.floating[Any]]
    ) -> npt.NDArray[np.floating[Any]]:
        """Return predictions in the shape that all workers have; 0 means one dimension."""
        if self._n_columns is None:
            n_columns = prediction.shape[1] if prediction.ndim == 2 else 0
            n_of_workers = self._workers.gather([n_columns if len(prediction) else 0], "columns")
            self._n_columns = int(n_of_workers.max())
        if len(prediction) == 0:
            return np.empty((0, self._n_columns) if self._n_columns else 0)
        return prediction
