# SPDX-License-Identifier: Apache-2.0
"""Validation curves of many models on one scale: losses by task and round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.tasks import TaskName
from mtboost.model.stages.task_losses import TaskLosses


def mean_curves(
    losses: TaskLosses, histories: Sequence[Sequence[Float64Array]], n_rows: Float64Array
) -> Float64Array:
    """Losses of each task after each round, mean over the folds.

    A curve that ended early goes on rising as it has risen since its best round. In a mean of
    curves a level line would hide that the model has begun to overfit: which curves end early is
    decided by the same rows.

    Parameters
    ----------
    losses : TaskLosses
        Of the tasks, one for each of the curves.
    histories : sequence of sequence of ndarray
        For each fold and task the metric after 0, 1, ... rounds; empty where there is none.
    n_rows : ndarray of float64, shape (n_folds, n_tasks)
        Validation rows of the tasks in each fold.

    Returns
    -------
    ndarray of float64, shape (n_tasks, n_rounds)
        NaN for a task without a curve.
    """
    length = max(1, *(len(history) for own in histories for history in own))
    curves = np.array(
        [
            extended_curves([losses.of_task(*each) for each in enumerate(own)], length)
            for own in histories
        ]
    )
    counts = np.where(np.isfinite(curves[:, :, :1]), n_rows[:, :, None], 0.0)
    with np.errstate(invalid="ignore"):
        shares = counts / counts.sum(axis=0)
    return np.asarray(np.where(shares > 0.0, shares * curves, 0.0 * shares).sum(axis=0))


def extended_curves(losses: Sequence[Float64Array], length: int) -> Float64Array:
    """Curves of losses, each extended to this number of values; NaN where one is empty."""
    curves = np.full((len(losses), length), np.nan)
    for curve, known in zip(curves, losses, strict=True):
        if len(known) == 0:
            continue
        end = len(known) - 1
        curve[: end + 1] = known
        slope = _slope(curve[int(np.argmin(curve[: end + 1])) : end + 1])
        curve[end + 1 :] = curve[end] + slope * np.arange(1, length - end)
    return curves


def mean_histories(
    losses: TaskLosses,
    histories: Sequence[Mapping[TaskName, Float64Array]],
    tasks: Sequence[TaskName],
    n_rows: Float64Array,
) -> dict[TaskName, Float64Array]:
    """Return the metric of each task after each round, of the rows of all folds together.

    `losses` are those of the tasks. With several folds their metrics must be means of rows, or
    roots of such.
    """
    if len(histories) == 1:
        return dict(histories[0])
    by_fold = [[own.get(task, np.empty(0)) for task in tasks] for own in histories]
    curves = mean_curves(losses, by_fold, n_rows)
    found = {}
    for code, task in enumerate(tasks):
        length = max(len(own[code]) for own in by_fold)
        if length:
            found[task] = np.array([losses.value(code, loss) for loss in curves[code, :length]])
    return found


def _slope(curve: Float64Array) -> float:
    """Rise by round, at least 0. Of two halves: the first value alone is low by chance."""
    half = len(curve) // 2
    if half == 0:
        return 0.0
    return max(0.0, float(curve[half:].mean() - curve[:half].mean()) / (len(curve) / 2))
