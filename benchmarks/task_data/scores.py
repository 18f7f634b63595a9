# SPDX-License-Identifier: Apache-2.0
"""Scores of predictions of several tasks; methods are ranked by the first two of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score
from task_methods.rows import Floats, Rows, losses

Scores = dict[str, float]
Judge = Callable[[Callable[[Rows], Floats]], Scores]

IS_HIGHER_BETTER = {
    "auc": True,
    "explained": True,
    "logloss": False,
    "rmse": False,
    "calibration": False,
}
N_BINS = 10  # of the calibration error


def binary_scores(rows: Rows, prediction: Floats) -> Scores:
    """AUC (tasks with both classes), log loss and calibration error, means over tasks."""
    has_both = [task for task in np.unique(rows.task) if len(set(rows.y[rows.task == task])) == 2]
    is_of_both = np.isin(rows.task, has_both)
    return {
        "auc": by_task(
            rows.take(is_of_both), rows.y[is_of_both], prediction[is_of_both], roc_auc_score
        ),
        "logloss": by_task(rows, losses(rows, prediction), prediction, lambda loss, _: loss.mean()),
        "calibration": by_task(rows, rows.y, prediction, calibration_error),
    }


def numeric_scores(rows: Rows, prediction: Floats) -> Scores:
    """Explained variance of all rows, and RMSE, mean over tasks."""
    return {
        "explained": float(r2_score(rows.y, prediction)),
        "rmse": by_task(rows, rows.y, prediction, rmse),
    }


def scores(rows: Rows, prediction: Floats) -> Scores:
    return (binary_scores if rows.is_binary else numeric_scores)(rows, prediction)


def by_task(rows: Rows, y: Floats, prediction: Floats, score: Callable[[Any, Any], float]) -> float:
    """Mean over tasks of the score of their rows."""
    parts = [rows.task == task for task in np.unique(rows.task)]
    return float(np.mean([score(y[part], prediction[part]) for part in parts]))


def rmse(y: Floats, prediction: Floats) -> float:
    return float(np.mean((y - prediction) ** 2) ** 0.5)


def calibration_error(y: Floats, prediction: Floats) -> float:
    """Expected calibration error: mean |observed rate - mean prediction| of the bins, by rows."""
    bins = np.minimum((prediction * N_BINS).astype(np.int64), N_BINS - 1)
    return float(np.abs(np.bincount(bins, y - prediction, N_BINS)).sum() / len(y))
