"""Weights of whole tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from mtboost.errors import ParameterError
from mtboost.labels import FloatArray
from mtboost.task_tables import check_task_keys
from mtboost.tasks import TaskName, TaskSet

TaskWeight = Mapping[TaskName, float] | Literal["balanced"] | None


def weights_with_tasks(
    tasks: TaskSet, weight: FloatArray | None, task_weight: TaskWeight
) -> FloatArray | None:
    """Row weights, shape (n_rows,), times the weight of the row's task."""
    if task_weight is None:
        return weight
    own = np.ones(tasks.n_rows) if weight is None else np.asarray(weight, np.float64)
    if task_weight == "balanced":
        totals = np.bincount(tasks.codes, own, minlength=tasks.n_tasks)
        factors = own.sum() / (tasks.n_tasks * np.where(totals > 0, totals, 1.0))
    elif isinstance(task_weight, Mapping):
        check_task_keys("task_weight", task_weight, tasks.names)
        try:
            factors = np.array([float(task_weight[name]) for name in tasks])
        except (TypeError, ValueError):
            factors = np.array([np.nan])
        if not (np.isfinite(factors).all() and (factors >= 0).all()):
            raise ParameterError(
                f"task_weight must hold finite numbers >= 0, found {dict(task_weight)}."
            )
    else:
        raise ParameterError(f"task_weight must be a mapping or 'balanced', found {task_weight!r}.")
    weights: FloatArray = own * factors[tasks.codes]
    return weights
