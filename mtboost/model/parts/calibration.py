# SPDX-License-Identifier: Apache-2.0
"""Calibrated probabilities per task: Platt scaling, shrunk towards that of all tasks.

The log-odds of a row of task t become a_t m + b_t, where m is its margin. Slope and intercept are
fitted to held-out rows (platt1999). Those of a task are shrunk towards the pooled ones, each by a
normal prior whose variance is that of the true values between tasks, estimated by moments from
one Newton step per task (DerSimonian and Laird, 1986). tests/oracle/test_calibration.py minimises
the same penalised losses by SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Codes, Float64Array
from mtboost.base.tasks import TaskName
from mtboost.errors import ParameterError
from mtboost.trees.losses import is_of_two_classes
from mtboost.trees.shrinkage import estimate_population

#: Prior of the pooled slope and intercept: normal about 1 and 0, with these standard deviations.
POOLED_DEVIATIONS = (1.0, 5.0)
_MOST_STEPS = 100
_TOLERANCE = 1e-10  # of the last step
_LEAST_INFORMATION = 1e-12


@dataclass(frozen=True, slots=True)
class Calibration:
    """Slope and intercept of the log-odds in the margin.

    Attributes
    ----------
    pooled : tuple of float
        Those of all tasks, which tasks without held-out rows have.
    by_task : mapping of task name to tuple of float
    """

    pooled: tuple[float, float]
    by_task: Mapping[TaskName, tuple[float, float]]

    def of(self, task: TaskName | None) -> tuple[float, float]:
        """Return slope and intercept of a task; None is an unknown one."""
        return self.pooled if task is None else self.by_task.get(task, self.pooled)

    def apply(self, margins: Any, codes: Codes, tasks: Sequence[TaskName | None]) -> Any:
        """Return the log-odds of rows of tasks with these codes; others are unknown tasks."""
        table = np.array([*map(self.of, tasks), self.pooled])
        slopes, intercepts = table[np.where(codes < len(tasks), codes, -1)].T
        return (slopes.T * margins + intercepts.T).astype(margins.dtype)

    def without(self, task: TaskName) -> Calibration:
        """Return that of the other tasks."""
        others = {name: own for name, own in self.by_task.items() if name != task}
        return Calibration(self.pooled, others)


def check_can_calibrate(
    objective: str | Mapping[TaskName, str] | Callable[..., Any], base_margin: object
) -> None:
    """Raise ParameterError unless the objective has one margin, the log-odds of two classes."""
    if not is_of_two_classes(objective) or objective == "binary:hinge":
        raise ParameterError(
            f"calibrate=True is for one objective of two classes, such as 'binary:logistic', and "
            f"objective is {objective!r}: leave it out."
        )
    if base_margin is not None:
        raise ParameterError(
            "calibrate=True multiplies the margins of the trees, which are then not on the scale "
            "of base_margin: leave one of them out."
        )


def fit_calibration(
    margins: Float64Array,
    labels: Float64Array,
    weights: Float64Array,
    codes: Codes,
    n_tasks: int,
) -> tuple[Float64Array, Float64Array]:
    """Fit slope and intercept of all tasks together, and of each.

    Parameters
    ----------
    margins : ndarray of float64, shape (n_rows,)
        Of rows that the predicting model was not trained on.
    labels : ndarray of float64, shape (n_rows,)
        0 or 1.
    weights : ndarray of float64, shape (n_rows,)
    codes : ndarray of int, shape (n_rows,)
        Task of each row.
    n_tasks : int

    Returns
    -------
    pooled : ndarray of shape (2,)
    by_task : ndarray of shape (n_tasks, 2)
        Slopes are not negative.
    """
    precisions = 1.0 / np.square(POOLED_DEVIATIONS)
    every = np.zeros(len(codes), np.int64)
    (deviation,) = shrunk_deviations(margins, margins, labels, weights, every, 1, precisions, -1.0)
    slope, intercept = np.array([1.0, 0.0]) + deviation
    base = slope * margins + intercept
    p = _expit(base)
    information = weights * p * (1.0 - p)
    # About this centre slope and intercept are nearly independent.
    centre = float(np.average(margins, weights=np.maximum(information, _LEAST_INFORMATION)))
    own = margins - centre
    spreads = _spreads(own, labels - p, weights, information, codes, n_tasks)
    with np.errstate(divide="ignore"):
        precisions = 1.0 / spreads
    found = shrunk_deviations(base, own, labels, weights, codes, n_tasks, precisions, -slope)
    slopes = slope + found[:, 0]
    intercepts = intercept + found[:, 1] - centre * found[:, 0]
    return np.array([slope, intercept]), np.column_stack([slopes, intercepts])


def _spreads(
    own: Float64Array,
    errors: Float64Array,
    weights: Float64Array,
    information: Float64Array,
    codes: Codes,
    n_tasks: int,
) -> Float64Array:
    """Return the variances of slopes and intercepts between tasks, by moments."""
    found = []
    for factor in (own, np.ones(len(own))):
        scores = np.bincount(codes, weights * errors * factor, n_tasks)
        amounts = np.bincount(codes, information * factor**2, n_tasks)
        # A sum of squares by weights other than 1 varies more than its information says.
        squares = np.bincount(codes, weights * information * factor**2, n_tasks)
        counts = amounts > _LEAST_INFORMATION
        if counts.sum() < 2:
            found.append(0.0)
            continue
        steps = scores[counts] / amounts[counts]
        found.append(estimate_population(steps, squares[counts] / amounts[counts] ** 2).spread)
    return np.array(found)


def shrunk_deviations(
    base: Float64Array,
    own: Float64Array,
    labels: Float64Array,
    weights: Float64Array,
    codes: Codes,
    n_tasks: int,
    precisions: Float64Array,
    least: float,
) -> Float64Array:
    """Minimise the penalised log loss of each task by Newton's method; shape (n_tasks, 2).

    The loss of task t is Σ w ℓ(y, base + α_t own + β_t) + (π_α α_t² + π_β β_t²)/2 with the
    `precisions` π, and α_t is at least `least` <= 0. With an infinite precision a deviation is 0.
    """
    is_free = np.tile(np.isfinite(precisions), (n_tasks, 1))
    found = np.zeros((n_tasks, 2))
    rows = (base, own, labels, weights, codes)
    found = _minimum(found, is_free, rows, precisions)
    is_below = found[:, 0] < least
    if is_below.any():  # the loss is convex: the minimum is on the bound
        found[is_below] = [least, 0.0]
        is_free[is_below, 0] = False
        found = _minimum(found, is_free, rows, precisions)
    return found


def _minimum(
    found: Float64Array,
    is_free: npt.NDArray[np.bool_],
    rows: tuple[Float64Array, Float64Array, Float64Array, Float64Array, Codes],
    precisions: Float64Array,
) -> Float64Array:
    base, own, labels, weights, codes = rows
    n_tasks, priors = len(found), np.where(np.isfinite(precisions), precisions, 0.0)

    def sums(values: Float64Array) -> Float64Array:
        return np.asarray(np.bincount(codes, values, n_tasks), np.float64)

    def log_odds(deviations: Float64Array) -> Float64Array:
        return np.asarray(base + deviations[codes, 0] * own + deviations[codes, 1])

    def losses(deviations: Float64Array) -> Float64Array:
        z = log_odds(deviations)
        penalties = 0.5 * (deviations**2 @ priors)
        return sums(weights * (np.logaddexp(0.0, z) - labels * z)) + penalties

    before = losses(found)
    for _ in range(_MOST_STEPS):
        p = _expit(log_odds(found))
        errors, information = weights * (p - labels), weights * p * (1.0 - p)
        gradient = np.column_stack([sums(errors * own), sums(errors)]) + priors * found
        gradient[~is_free] = 0.0
        across = sums(information * own) * is_free.all(axis=1)
        diagonal = np.column_stack([sums(information * own**2), sums(information)]) + priors
        diagonal = np.where(is_free, np.maximum(diagonal, _LEAST_INFORMATION), 1.0)
        determinant = np.maximum(diagonal.prod(axis=1) - across**2, _LEAST_INFORMATION**2)
        step = (diagonal[:, ::-1] * gradient - across[:, None] * gradient[:, ::-1]) / determinant[
            :, None
        ]
        size = np.ones(n_tasks)
        for _ in range(40):
            after = losses(found - size[:, None] * step)
            is_worse = after > before
            if not is_worse.any():
                break
            size[is_worse] *= 0.5
        size[after > before] = 0.0
        found = found - size[:, None] * step
        before = np.minimum(after, before)
        if np.abs(size[:, None] * step).max(initial=0.0) < _TOLERANCE:
            break
    return found


def _expit(values: Float64Array) -> Float64Array:
    return np.asarray(np.exp(-np.logaddexp(0.0, -values)))
