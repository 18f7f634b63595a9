# SPDX-License-Identifier: Apache-2.0
"""Weights of whole tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from mtboost.base.arrays import Float64Array, FloatArray, Total
from mtboost.base.checks import check_number, refuse
from mtboost.base.labels import as_stored, weights_or_ones
from mtboost.base.task_tables import check_task_keys
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError

TaskWeight = Mapping[TaskName, float] | Literal["balanced"] | None


def weights_with_tasks(
    tasks: TaskSet,
    weight: FloatArray | None,
    task_weight: TaskWeight,
    total: Total | None = None,
) -> FloatArray | None:
    """Row weights, shape (n_rows,), times the weight of the row's task.

    `total` adds up the weights of the tasks over several machines.
    """
    if task_weight is None:
        return weight
    own = weights_or_ones(weight, tasks.n_rows)
    if isinstance(task_weight, str) and task_weight == "balanced":
        totals = np.bincount(tasks.codes, own, minlength=tasks.n_tasks).astype(np.float64)
        if total is not None:
            totals = total(totals)
        factors = balanced_factors(totals)
    elif isinstance(task_weight, Mapping):
        check_task_keys("task_weight", task_weight, tasks.names)
        factors = np.array(
            [check_number(f"task_weight[{name!r}]", task_weight[name], low=0.0) for name in tasks]
        )
    else:
        refuse("task_weight", task_weight, "None, 'balanced' or a mapping {task: weight}")
    weights = own * factors[tasks.codes]
    if weights.max(initial=0.0) > np.finfo(np.float32).max:
        raise DataError(
            f"weight, times task_weight, is {weights.max():g} at row {weights.argmax()}: it must "
            f"fit in float32."
        )
    return as_stored(weights)


def balanced_factors(totals: Float64Array) -> Float64Array:
    """Return the factors by which tasks with these total weights all have the mean of them."""
    mean: float = totals.sum() / len(totals)
    return mean / np.where(totals > 0, totals, 1.0)
