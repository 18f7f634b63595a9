# SPDX-License-Identifier: Apache-2.0
"""Metrics of single tasks among those that XGBoost prints and records."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.tasks import TaskSet
from mtboost.errors import UnsupportedError
from mtboost.metrics.built_in import get_metric
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import Metric, is_of_bounds
from mtboost.trees.task_metric import check_matrix, metric_of_tasks
from mtboost.xgboost.collective import Workers
from mtboost.xgboost.library import check_one_machine
from mtboost.xgboost.matrix_fields import labels_and_weights, queries_of, tasks_of_matrices
from mtboost.xgboost.objective import TaskObjective
from mtboost.xgboost.task_field import INSTEAD, TASK_FIELD, is_task_field, tasks_in_field
from mtboost.xgboost.worker_metrics import WorkerMetric

Scores = list[tuple[str, float]]


def task_metric(
    metric: str | Metric,
    tasks: Iterable[tuple[xgboost.DMatrix, Any]] | str,
    *,
    objective: TaskObjective | None = None,
) -> Callable[[npt.NDArray[np.float32], xgboost.DMatrix], Scores]:
    """Make a metric of each task for ``xgboost.train(..., custom_metric=...)``.

    Parameters
    ----------
    metric : str or Metric
        See :func:`mtboost.metrics.get_metric`.
    tasks : pairs of DMatrix and array-like of shape (n_rows,), or "label_lower_bound"
        The matrices of ``evals`` and the task of each of their rows. A matrix of ``evals`` that is
        not among them gets no metric by task, such as those of ``xgboost.cv``. Where rows lie on
        several workers, as in ``xgboost.dask``, the matrices must have the tasks:
        ``"label_lower_bound"`` reads them from this field of all matrices, and the metrics are
        those of the rows of all workers (docs/several_machines.md).
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
    UnsupportedError
        The metric, or when it is called a matrix, has bounds of times in the field of the tasks.
        When it is called on several machines: `tasks` has labels of rows, or the metric ranks.
        When an estimator calls it as its ``eval_metric``.

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
    metric = get_metric(metric)
    in_field = None
    if is_task_field("tasks", tasks):
        if is_of_bounds(metric):
            raise UnsupportedError(
                f"metric {metric.name!r} reads bounds of times from the field {TASK_FIELD!r}: give "
                "task_metric the task of each row, as pairs of a DMatrix and its tasks."
            )
        in_field = _FieldTasks(metric)
    by_task = metric_of_tasks(
        metric,
        tasks_of_matrices("tasks", tasks) if in_field is None else in_field.tasks_of,
        objective,
        labels_and_weights,
        queries_of,
        None if in_field is None else in_field.evaluate,
    )

    def named(predictions: npt.NDArray[np.float32], matrix: xgboost.DMatrix) -> Scores:
        check_matrix(matrix, xgboost.DMatrix, "custom_metric of xgboost.train", "validation_0")
        if in_field is None:
            check_one_machine("task_metric", INSTEAD)
        scores = by_task(predictions, matrix)
        return [(re.sub(r"[\s:]+", "_", name), value) for name, value in scores]

    return named


class _FieldTasks:
    """Tasks that the matrices have, and the metric of their rows on all workers."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._tasks: weakref.WeakKeyDictionary[xgboost.DMatrix, TaskSet] = (
            weakref.WeakKeyDictionary()
        )
        self._of_workers: weakref.WeakKeyDictionary[xgboost.DMatrix, WorkerMetric] = (
            weakref.WeakKeyDictionary()
        )

    def __reduce__(self) -> Any:  # workers begin anew
        return _FieldTasks, (self._metric,)

    def tasks_of(self, matrix: xgboost.DMatrix) -> TaskSet:
        if matrix not in self._tasks:
            workers = Workers.of_this_thread()
            self._tasks[matrix] = tasks = tasks_in_field("task_metric", matrix, workers)
            if workers is not None:
                labels, weights = labels_and_weights(matrix)
                rows = labels, weights, tasks.codes, tasks.n_tasks
                self._of_workers[matrix] = WorkerMetric(self._metric, *rows, workers)
        return self._tasks[matrix]

    def evaluate(
        self, matrix: xgboost.DMatrix, prediction: npt.NDArray[np.floating]
    ) -> npt.NDArray[np.float64]:
        if matrix in self._of_workers:
            return self._of_workers[matrix](prediction)
        tasks = self._tasks[matrix]
        labels, weights = labels_and_weights(matrix)
        rows = labels, prediction, tasks.codes, tasks.n_tasks, weights, queries_of(matrix)
        return evaluate_by_task(self._metric, *rows)
