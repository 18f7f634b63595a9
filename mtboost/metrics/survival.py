# SPDX-License-Identifier: Apache-2.0
"""Metrics of survival: of hazards, of times, and of their order."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr

from mtboost.base.arrays import Float64Array
from mtboost.metrics.task_rows import TaskRows

_TINY_LIKELIHOOD = 1e-12  # XGBoost's bound of that of a time


def _at_risk(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    """Sum of the hazards of the rows of a row's task that are at risk at its time."""
    order = np.lexsort((np.abs(y), rows.codes))
    codes, time = rows.codes[order], np.abs(y)[order]
    hazards = rows.weigh(prediction)[order]
    sums = np.empty(len(y))
    firsts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    for first, last in zip(firsts, [*firsts[1:], len(y)], strict=True):
        sums[first:last] = np.cumsum(hazards[first:last][::-1])[::-1]
    is_new = np.ones(len(y), bool)
    is_new[1:] = (codes[1:] != codes[:-1]) | (time[1:] != time[:-1])
    found = np.empty(len(y))
    found[order] = sums[np.maximum.accumulate(np.where(is_new, np.arange(len(y)), 0))]
    return found


def cox_nloglik(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    """Negative partial log-likelihood of the hazards by events (Breslow's for equal times).

    A weight counts as many rows; XGBoost's metric, the same without weights, leaves them out.
    """
    events = rows.weigh((y > 0.0).astype(np.float64))
    losses = np.log(_at_risk(y, prediction, rows)) - np.log(prediction)
    return rows.sum(np.where(events > 0.0, events * losses, 0.0)) / rows.sum(events)


def cox_losses(
    y: npt.ArrayLike, prediction: npt.ArrayLike, strata: npt.NDArray[np.integer[Any]]
) -> Float64Array:
    """Return losses of rows whose mean over the rows of a stratum is its ``cox-nloglik``.

    Those of censored rows, and of a stratum without events, are 0.
    """
    labels, hazards = np.asarray(y, np.float64), np.asarray(prediction, np.float64)
    rows = TaskRows(strata, int(strata.max(initial=-1)) + 1, None)
    is_event = labels > 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(_at_risk(labels, hazards, rows)) - np.log(hazards)
        scale = rows.sum(np.ones(len(labels))) / rows.sum(is_event.astype(np.float64))
        return np.where(is_event, losses * scale[strata], 0.0)


def n_comparable_events(y: Float64Array, rows: TaskRows) -> int:
    """Return the number of events at whose times another row of the task is at risk, too."""
    weight = rows.weigh(np.ones(len(y)))
    is_event = (y > 0.0) & (weight > 0.0)
    return int(np.count_nonzero(is_event & (_at_risk(y, np.ones(len(y)), rows) > weight)))


def _bounds(y: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Bounds of the time of each row; given as they are, or minus the time of a censored row."""
    if y.ndim == 2:
        return y[:, 0], y[:, 1]
    return np.abs(y), np.where(y > 0.0, y, np.inf)


def aft_nloglik(
    y: Float64Array, prediction: Float64Array, rows: TaskRows, distribution: str, scale: float
) -> Float64Array:
    """XGBoost's loss of predicted times, with its bound of a likelihood."""
    lower, upper = y.T
    z_lower, z_upper = (np.log(each) - np.log(prediction) for each in (lower, upper))
    density, share = DISTRIBUTIONS[distribution]
    of_event = density(z_lower / scale) / (scale * lower)
    of_interval = share(z_upper / scale) - share(z_lower / scale)
    likelihood = np.where(lower == upper, of_event, of_interval)
    return rows.mean(-np.log(np.maximum(likelihood, _TINY_LIKELIHOOD)))


def concordance(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    """Share of pairs in which the row that is surely earlier has the larger hazard (Harrell).

    Or, of labels that are bounds, the shorter predicted time. A row is surely earlier than one
    whose lower bound is above its upper one, or equal to it and not the time of an event. A tie of
    two predictions counts one half, a pair as much as the product of its weights.
    """
    lower, upper = _bounds(y)
    hazards = -prediction if y.ndim == 2 else prediction
    weight = rows.weigh(np.ones(len(y)))
    # Each row stands twice in the order of time: where it surely ends, and where it may begin.
    time = np.concatenate([upper, lower])
    is_end = np.arange(len(time)) < len(y)
    place = np.concatenate([np.ones(len(y), int), np.where(lower == upper, 0, 2)])
    codes = np.tile(rows.codes, 2)
    order = np.lexsort((place, time, codes))
    begins = np.where(is_end, 0.0, np.tile(weight, 2))
    below, later = _later_rows(np.tile(hazards, 2)[order], begins[order], codes[order])
    ends = np.where(is_end & np.isfinite(time), np.tile(weight, 2), 0.0)[order]
    found = TaskRows(codes[order], rows.n_tasks, None)
    value = found.sum(ends * below) / found.sum(ends * later)
    is_undefined = rows.sum(np.where(np.isnan(prediction), 1.0, 0.0)) > 0.0
    return np.where(is_undefined, np.nan, value)


def _later_rows(
    values: Float64Array, weight: Float64Array, groups: npt.NDArray[np.integer[Any]]
) -> tuple[Float64Array, Float64Array]:
    """Weight of the later rows of a row's group: of smaller values (half that of equal), and all.

    As merge sort does it: at each level, rows of the first half of a block meet those of its second
    half, sorted by value.
    """
    n_rows = len(values)
    places = np.arange(n_rows)
    ranks = np.unique(values, return_inverse=True)[1].reshape(-1)
    by_value = np.lexsort((ranks, groups))
    below, later = np.zeros(n_rows), np.zeros(n_rows)
    size = 1
    while size < n_rows:
        blocks = places // (2 * size)
        order = by_value[np.argsort(blocks[by_value], kind="stable")]
        is_second = (places[order] // size) % 2 == 1
        is_new = np.ones((2, n_rows), bool)  # of blocks and groups, and of values in them
        same = (blocks[order][1:] == blocks[order][:-1]) & (groups[order][1:] == groups[order][:-1])
        is_new[0, 1:] = ~same
        is_new[1, 1:] = ~same | (ranks[order][1:] != ranks[order][:-1])
        numbers = np.cumsum(is_new, axis=1) - 1
        second = np.where(is_second, weight[order], 0.0)
        total = np.bincount(numbers[0], second)
        at = np.bincount(numbers[1], second)
        firsts = np.flatnonzero(is_new[1])
        first_of = numbers[1][np.flatnonzero(is_new[0])]  # first value of each block and group
        sums = np.append(0.0, np.cumsum(at))
        start = sums[first_of][numbers[0][firsts]]
        under = sums[:-1] - start + 0.5 * at
        first = order[~is_second]
        below[first] += under[numbers[1][~is_second]]
        later[first] += total[numbers[0][~is_second]]
        size *= 2
    return below, later


#: Densities of the logarithms of times, and their integrals.
DISTRIBUTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "normal": (lambda z: np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi), ndtr),
    "logistic": (lambda z: expit(z) * expit(-z), expit),
    "extreme": (lambda z: np.exp(z - np.exp(z)), lambda z: -np.expm1(-np.exp(z))),
}
