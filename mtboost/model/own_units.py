# SPDX-License-Identifier: Apache-2.0
"""Numbers of tasks in different units, such as sales of shops of all sizes.

The squared errors of a task whose labels vary little hardly count beside those of the others, and a
leaf value that fits one task fits no other. Where units differ much, each task therefore is learned
in its own: the objective, though the same for all, is given per task (stages/mixed_objective.py).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.dataset import Dataset
from mtboost.base.user_warnings import warn_user
from mtboost.model.arguments import Arguments
from mtboost.model.problem import Problem
from mtboost.model.stages.settings import Settings

#: Standard deviation between tasks of log(mean absolute deviation) from which on each is learned in
#: its unit, or the user is warned: units typically differ by a factor of 2 or 4 from their mean.
OWN_SPREAD, _WARNED_SPREAD = math.log(2.0), math.log(4.0)
#: Tasks with fewer rows do not say what their unit is.
_LEAST_ROWS = 10
#: Mean squared deviation, in squares of the mean deviation, above which it is that of a few rows:
#: 1.6 of normal labels, 3 of lognormal ones with σ = 1, 5 with σ = 1.35.
_HEAVY_TAILS = 5.0
#: How rows are held out so that each task keeps some.
_KEEPING_TASKS = ("random", "stratified", "last")


def with_own_units(problem: Problem, arguments: Arguments) -> Problem:
    """Return the problem, with an objective of each task if none is given and units differ much.

    Not where arguments compare tasks or are about new ones, and not of nested tasks, whose groups
    have values too.
    """
    data, squared_error = problem.data, problem.library.squared_error
    may_have = (
        arguments.is_auto
        and arguments.objective is None
        and arguments.base_margin is None
        and arguments.task_splits != "descriptors"
        and not arguments.baselines
        and not isinstance(arguments.eval_metric, list | tuple)
        and isinstance(arguments.validation, str)
        and arguments.validation in _KEEPING_TASKS
        and data.tasks.n_levels == 1
    )
    if not may_have or problem.objective != squared_error or spread_of_units(data) < OWN_SPREAD:
        return problem
    return replace(problem, objective=dict.fromkeys(data.tasks, squared_error))


def warn_of_units(settings: Settings, data: Dataset) -> None:
    """Warn where the units of tasks differ much, and all have one squared error."""
    name = settings.backend.squared_error
    if settings.objectives.names == name and spread_of_units(data) >= _WARNED_SPREAD:
        warn_user(
            "The labels of some tasks vary much less than those of others, and hardly count in one "
            f"squared error of all. Give each task its own, objective={{task: {name!r}, ...}}, or "
            "divide the labels of each by their standard deviation."
        )


def spread_of_units(data: Dataset) -> float:
    """Return the standard deviation between tasks of the logarithm of a label's mean deviation.

    The variance of its estimates by sampling of rows is taken off. 0 unless two tasks have ten rows
    with weight and different labels, and where a few rows have most of the variance.
    """
    rows = slice(None) if data.weight is None else np.flatnonzero(data.weight > 0)
    codes, labels = data.tasks.codes[rows], data.numbers()[rows].astype(np.float64)
    counts = np.bincount(codes, minlength=data.tasks.n_tasks)

    def means(values: Float64Array) -> Float64Array:
        return np.bincount(codes, values, len(counts)) / np.maximum(counts, 1)

    deviations = np.abs(labels - means(labels)[codes])
    first, second = means(deviations), means(deviations**2)
    known = (counts >= _LEAST_ROWS) & (first > 0.0)
    if np.count_nonzero(known) < 2:
        return 0.0
    squares = second[known] / first[known] ** 2
    if squares.mean() > _HEAVY_TAILS:
        return 0.0
    by_sampling = ((squares - 1.0) / counts[known]).mean()
    variance = np.log(first[known]).var(ddof=1) - by_sampling
    return math.sqrt(max(0.0, float(variance)))
