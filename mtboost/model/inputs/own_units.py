# SPDX-License-Identifier: Apache-2.0
"""Numbers of tasks in different units, such as sales of shops of all sizes.

The squared errors of a task whose labels vary little hardly count beside those of the others, and a
leaf value that fits one task fits no other. Where units differ much, each task therefore is learned
in its own: the objective, though the same for all, is given per task (stages/mixed_objective.py).

Labels also vary more where their noise or their columns do. Then one function predicts all tasks as
it is, where of different units it predicts each but for a factor: the slope of the labels on the
predictions of a small model. Where one function predicts the means of tasks too, as it does where
a column tells their size, slopes say nothing: tasks then differ in the range of that function.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.dataset import Dataset
from mtboost.base.user_warnings import warn_user
from mtboost.model.inputs.arguments import Arguments
from mtboost.model.inputs.problem import Problem
from mtboost.model.stages.settings import Settings
from mtboost.trees.backend import Backend, Rows
from mtboost.trees.shrinkage import estimate_population

#: Standard deviation between tasks of the logarithms of deviations, and of slopes, from which on
#: each is learned in its unit, or the user is warned: units typically differ by a factor of 1.5 or
#: 4 from their mean.
OWN_SPREAD, _WARNED_SPREAD = math.log(1.5), math.log(4.0)
#: Tasks with fewer rows do not say what their unit is.
_LEAST_ROWS = 10
#: Mean squared deviation, in squares of the mean deviation, above which it is that of a few rows:
#: 1.6 of normal labels, 3 of lognormal ones with σ = 1, 5 with σ = 1.35.
_HEAVY_TAILS = 5.0
#: The small model: rounds, depth, learning rate and minimum rows per leaf.
_N_ROUNDS, _DEPTH, _RATE, _MIN_ROWS_PER_LEAF = 60, 3, 0.1, 5
#: The cells of the rows it is trained on, and how many rows are not reduced.
_MOST_CELLS, _FEW_ROWS = 2_000_000, 2_000
#: Standard errors by which a slope must be above 0 to have a logarithm.
_N_ERRORS = 2.0
#: Of log(slope), so that no task has all the weight.
_LEAST_VARIANCE = 1e-4
#: What users are warned of, and what they can always do.
HARDLY_COUNT = (
    "The labels of some tasks vary much less than those of others, and hardly count in one squared "
    "error of all. Divide the labels of each by their standard deviation"
)
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
        and _keeps_tasks(arguments.validation)
        and data.tasks.n_levels == 1
    )
    if (
        not may_have
        or problem.objective != squared_error
        or not units_differ(data, problem.library)
    ):
        return problem
    return replace(problem, objective=dict.fromkeys(data.tasks, squared_error))


def _keeps_tasks(validation: Any) -> bool:
    """Return whether each task keeps rows to train on, which is known of some splitters only."""
    if isinstance(validation, str):
        return validation in _KEEPING_TASKS
    if not hasattr(validation, "get_metadata_routing"):
        return False  # rows that the user holds out
    uses_groups = "groups" in validation.get_metadata_routing().split.requests
    return not uses_groups and getattr(validation, "shuffle", True)


def warn_of_units(settings: Settings, data: Dataset) -> None:
    """Warn where the units of tasks differ much, and all have one squared error."""
    if hardly_counts_some(settings, data):
        warn_user(
            f"{HARDLY_COUNT}, or leave out what keeps one for all (docs/mixed_tasks.md lists it, "
            "such as objective, n_ensemble and validation='tasks'). fit() then has "
            f"objective={{task: {settings.backend.squared_error!r}, ...}}."
        )


def hardly_counts_some(settings: Settings, data: Dataset) -> bool:
    """Return whether one squared error of all tasks is that of those with the largest unit."""
    is_one = settings.objectives.names == settings.backend.squared_error
    return is_one and units_differ(data, settings.backend, _WARNED_SPREAD)


def units_differ(data: Dataset, library: Backend, least: float = OWN_SPREAD) -> bool:
    """Return whether tasks differ so much in their labels and in the slopes that predict them.

    Not where one function of the columns predicts the labels of all tasks, with their means.
    """
    if spread_of_units(data) < least:
        return False
    model = ModelOfHalves(data, library)
    return model.spread_of_slopes() >= least and not model.is_one_function()


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
    known = (counts >= _LEAST_ROWS) & (first**2 > 0.0)
    if np.count_nonzero(known) < 2:
        return 0.0
    squares = second[known] / first[known] ** 2
    if squares.mean() > _HEAVY_TAILS:
        return 0.0
    by_sampling = ((squares - 1.0) / counts[known]).mean()
    variance = np.log(first[known]).var(ddof=1) - by_sampling
    return math.sqrt(max(0.0, float(variance)))


class ModelOfHalves:
    """A small model of all tasks, trained on each half of the rows to predict the other.

    Parameters
    ----------
    data : Dataset
        Many rows are a random part of them.
    library : Backend
    """

    def __init__(self, data: Dataset, library: Backend) -> None:
        used = np.arange(data.n_rows) if data.weight is None else np.flatnonzero(data.weight > 0)
        rng = np.random.default_rng(0)
        most = max(_FEW_ROWS, _MOST_CELLS // max(1, data.common.n_features))
        if len(used) > most:
            used = np.sort(rng.choice(used, most, replace=False))
        self._data, self._library, order = data.take(used), library, rng.permutation(len(used))
        self._halves = np.sort(order[::2]), np.sort(order[1::2])
        self._labels = self._data.numbers().astype(np.float64)
        codes, counts = self._data.tasks.codes, self._data.tasks.counts
        self._around = self._labels - (np.bincount(codes, self._labels) / counts)[codes]
        deviations = np.sqrt(np.bincount(codes, self._around**2) / counts)
        deviations[deviations == 0.0] = 1.0
        self._deviations = deviations[codes]  # of the task of each row

    def spread_of_slopes(self) -> float:
        """Return the standard deviation between tasks of the logarithm of a slope.

        It is that of the labels, without their means, on what is predicted of them: of labels as
        they are, or divided by their standard deviation in each task, whichever spread is less. The
        first model knows little of tasks other than those that vary most, the second little of one
        function for all.

        0 unless two tasks of ten rows have slopes above 0 by two standard errors, and with the
        second model half of these tasks.
        """
        codes, counts = self._data.tasks.codes, self._data.tasks.counts
        least = 0.5 * np.count_nonzero(counts >= _LEAST_ROWS)
        as_they_are = self._predictions(self._around / self._around.std())
        spreads = []
        for predictions, least_known in ((as_they_are, 0.0), (self._of_divided, least)):
            slopes, variances = _log_slopes(self._around, predictions, codes, counts)
            is_known = len(slopes) >= max(2.0, least_known)
            variance = estimate_population(slopes, variances).spread if is_known else 0.0
            spreads.append(math.sqrt(variance))
        return min(spreads)

    def is_one_function(self) -> bool:
        """Return whether labels with the means of tasks are predicted with less squared error.

        In squares of the standard deviation of a task, mean over the rows of tasks of ten rows.
        """
        mean, deviation = self._labels.mean(), self._labels.std()
        predictions = mean + deviation * self._predictions((self._labels - mean) / deviation)
        errors = (self._labels - predictions) / self._deviations
        errors_of_divided = self._divided - self._of_divided
        judges = (self._data.tasks.counts >= _LEAST_ROWS)[self._data.tasks.codes]
        return bool((errors[judges] ** 2).sum() < (errors_of_divided[judges] ** 2).sum())

    @cached_property
    def _divided(self) -> Float64Array:
        """Labels without the means of tasks, in units of their standard deviations."""
        return self._around / self._deviations

    @cached_property
    def _of_divided(self) -> Float64Array:
        return self._predictions(self._divided)

    def _predictions(self, labels: Float64Array) -> Float64Array:
        """Return what a small model of the other half of the rows predicts of each."""
        library, table = self._library, self._data.common
        params = {**library.settings(library.squared_error, 1, 0), **library.search_parameters}
        params = {**(library.with_size(params, _DEPTH) or params), "learning_rate": _RATE}
        params = library.with_min_leaf(params, _MIN_ROWS_PER_LEAF, _MIN_ROWS_PER_LEAF) or params
        predictions = np.empty(len(labels))
        for train, others in (self._halves, self._halves[::-1]):
            rows = Rows(table.take(train), labels[train])
            matrix = library.matrix(rows, params, 1)
            booster = library.train_plain(params, matrix, _N_ROUNDS, table=rows.table)
            found = library.predict_margin(booster, table.take(others), None)
            predictions[others] = found.reshape(-1)
        return predictions


def _log_slopes(
    labels: Float64Array,
    predictions: Float64Array,
    codes: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int64],
) -> tuple[Float64Array, Float64Array]:
    """Return the logarithms of the slopes of tasks where they are known, and their variances.

    Labels are those without the means of tasks.
    """

    def of_task(values: Float64Array) -> Float64Array:
        return np.bincount(codes, values).astype(np.float64, copy=False)

    predictions = predictions - (of_task(predictions) / counts)[codes]
    squares = of_task(predictions**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = of_task(predictions * labels) / squares
        errors = of_task((labels - slopes[codes] * predictions) ** 2) / (counts - 2.0)
        variances = errors / squares / slopes**2  # of log(slope)
    is_known = (counts >= _LEAST_ROWS) & (slopes > 0.0) & (variances < _N_ERRORS**-2)
    return np.log(slopes[is_known]), np.maximum(variances[is_known], _LEAST_VARIANCE)
