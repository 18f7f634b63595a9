# SPDX-License-Identifier: Apache-2.0
"""Metrics that are a mean over rows, or a function of one."""

import numpy as np
from scipy import special

from mtboost.base.arrays import Float64Array
from mtboost.metrics.task_rows import TaskRows

_TINY = 1e-16  # XGBoost's bound of a probability before its logarithm is taken
_LEAST_PREDICTION = -1.0 + 1e-6  # as in the loss of reg:squaredlogerror
_GAMMA_SHIFT = 1e-6  # XGBoost adds it to label and prediction before it divides


def rmse(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    return np.sqrt(rows.mean(np.square(prediction - y)))


def rmsle(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    gap = np.log1p(np.maximum(prediction, _LEAST_PREDICTION)) - np.log1p(y)
    return np.sqrt(rows.mean(gap**2))


def mae(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    return rows.mean(np.abs(prediction - y))


def mphe(
    y: Float64Array, prediction: Float64Array, rows: TaskRows, slope: float = 1.0
) -> Float64Array:
    return rows.mean(slope**2 * (np.hypot(1.0, (prediction - y) / slope) - 1.0))


def pinball(
    y: Float64Array, prediction: Float64Array, rows: TaskRows, levels: Float64Array
) -> Float64Array:
    """Mean over rows and levels of α (y - q) above the quantile q, (1 - α) (q - y) below it."""
    above = y[:, None] - prediction.reshape(len(y), len(levels))
    return rows.mean(np.maximum(levels * above, (levels - 1.0) * above).mean(axis=1))


def error(
    y: Float64Array, prediction: Float64Array, rows: TaskRows, threshold: float = 0.5
) -> Float64Array:
    return rows.mean(np.where(prediction > threshold, 1.0 - y, y))


def huber(y: Float64Array, prediction: Float64Array, rows: TaskRows, slope: float) -> Float64Array:
    return rows.mean(special.huber(slope, prediction - y))


def fair(y: Float64Array, prediction: Float64Array, rows: TaskRows, scale: float) -> Float64Array:
    z = np.abs(prediction - y) / scale
    return rows.mean(scale**2 * (z - np.log1p(z)))


def mape(y: Float64Array, prediction: Float64Array, rows: TaskRows, least: float) -> Float64Array:
    return rows.mean(np.abs(prediction - y) / np.maximum(np.abs(y), least))


def logloss(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    # Not np.clip(p, tiny, 1 - tiny): 1 - 1e-16 is the float64 below 1, off by a tenth of 1e-16.
    is_one = y == 1.0
    if (is_one | (y == 0.0)).all():  # one logarithm a row instead of two
        of_label = np.where(is_one, prediction, 1.0 - prediction)
        return rows.mean(-np.log(np.maximum(of_label, _TINY)))
    log_p = np.log(np.maximum(prediction, _TINY))
    log_q = np.log(np.maximum(1.0 - prediction, _TINY))
    return rows.mean(-(y * log_p + (1.0 - y) * log_q))


def merror(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    return rows.mean((prediction.argmax(axis=1) != y).astype(np.float64))


def mlogloss(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    of_label = np.take_along_axis(prediction, y.astype(np.intp)[:, None], axis=1)[:, 0]
    return rows.mean(-np.log(np.maximum(of_label, _TINY)))


def poisson_nloglik(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    mean = np.maximum(prediction, _TINY)
    return rows.mean(special.gammaln(y + 1.0) + mean - y * np.log(mean))


def tweedie_nloglik(
    y: Float64Array, prediction: Float64Array, rows: TaskRows, power: float
) -> Float64Array:
    score = prediction ** (2.0 - power) / (2.0 - power)
    return rows.mean(score - y * prediction ** (1.0 - power) / (1.0 - power))


def gamma_deviance(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    ratio = (y + _GAMMA_SHIFT) / (prediction + _GAMMA_SHIFT)
    return rows.mean(2.0 * (ratio - 1.0 - np.log(ratio)))


def wape(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    """Sum of absolute errors over the sum of absolute labels."""
    sizes = rows.sum(rows.weigh(np.abs(y)))
    return np.where(sizes > 0.0, rows.sum(rows.weigh(np.abs(prediction - y))) / sizes, np.nan)


def relative_error(y: Float64Array, prediction: Float64Array, rows: TaskRows) -> Float64Array:
    """Mean absolute error relative to the label; undefined for a task with a label of 0."""
    return rows.mean(np.abs(prediction - y) / np.where(y == 0.0, np.nan, np.abs(y)))
