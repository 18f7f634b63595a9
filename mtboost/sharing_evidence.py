"""What validation rows say of how much each task should share.

A task takes a way with less sharing only where that pays by more than one standard error. What its
own validation rows say is shrunk towards the mean gain of all tasks, by how much of the difference
between tasks is chance: few rows decide nothing alone. Rounds are found for many tasks
together as well: by a task's own validation curve only as far as it has many rows, and by the mean
curve of the other tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.dataset import Dataset
from mtboost.metrics import Metric, evaluate_by_task
from mtboost.stages import CommonModel, SpecificModel, TwoStages, as_losses, from_loss
from mtboost.tasks import TaskName

DoubleArray = npt.NDArray[np.float64]

#: A task's validation curve counts as many rows as it has, the mean of the others as many as this.
_PRIOR_ROWS = 1000.0


def row_weights(valid: Dataset) -> DoubleArray:
    """Weight of each row, 1 on average."""
    if valid.weight is None or not valid.weight.any():
        return np.ones(valid.n_rows)
    return np.asarray(valid.weight / valid.weight.mean(), np.float64)


def row_losses(stages: TwoStages, valid: Dataset, margins: npt.NDArray[Any]) -> DoubleArray:
    """Loss of each row: the metric of the row alone."""
    n_rows = len(margins)
    predictions = stages.inverse_link(margins[:, 0] if margins.shape[1] == 1 else margins)
    alone = np.arange(n_rows)
    return as_losses(
        stages.metric, evaluate_by_task(stages.metric, valid.labels(), predictions, alone, n_rows)
    )


class Evidence:
    """Validation losses of the tasks under each way to share."""

    def __init__(
        self, stages: TwoStages, train: Dataset, valid: Dataset, common: CommonModel
    ) -> None:
        self._stages = stages
        self._tasks = train.tasks.names
        self._valid = valid
        self._common = row_losses(stages, valid, stages.followed_margins(common, valid))
        self._codes = np.array([train.tasks.code(name) for name in valid.tasks.names])[
            valid.tasks.codes
        ]
        n_tasks = len(self._tasks)
        self._weights = row_weights(valid)
        #: Validation rows of each task; of weighted rows so many as they count for.
        self._n_rows = np.asarray(np.bincount(self._codes, self._weights, n_tasks), np.float64)
        self._means = {"common": self._task_means(self._common)}
        self._rounds: dict[str, npt.NDArray[np.int64]] = {"common": np.zeros(n_tasks, np.int64)}
        #: Of each way its gain on "common", shrunk, less one standard error.
        self._certain: dict[str, DoubleArray] = {"common": np.zeros(n_tasks)}

    def _task_means(self, losses: DoubleArray) -> DoubleArray:
        sums = np.bincount(self._codes, self._weights * losses, len(self._tasks))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / self._n_rows)  # NaN without rows

    def mean_loss(self, models: Mapping[TaskName, SpecificModel]) -> float:
        """Mean loss of all validation rows at the shared rounds of the models; none: infinite."""
        curves, rounds, known = self._read(models)
        if not known.any():
            return np.inf
        losses = curves[np.arange(len(rounds)), rounds]
        return float(np.average(losses[known], weights=self._n_rows[known]))

    def _read(
        self, models: Mapping[TaskName, SpecificModel]
    ) -> tuple[DoubleArray, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        histories = [models[task].history for task in self._tasks]
        curves = _curves(self._stages.metric, histories)
        known = (self._n_rows > 0) & np.isfinite(curves[:, 0])
        ends = np.array([max(0, len(history) - 1) for history in histories])
        rounds = _shared_rounds(curves, self._n_rows, known)
        # Of a task that ended early the curve says nothing of later rounds.
        return curves, np.where(known, np.minimum(rounds, ends), rounds), known

    def add(self, way: str, models: Mapping[TaskName, SpecificModel], start: CommonModel) -> None:
        """Take down what the models of all tasks reach, trained from the margins of `start`."""
        curves, rounds, known = self._read(models)
        loss = curves[np.arange(len(rounds)), rounds]
        difference = self._common - self._losses_of(models, start)
        gain = self._means["common"] - loss
        variance = _variance_of_means(difference, self._weights, self._codes, self._n_rows)
        known &= np.isfinite(gain) & np.isfinite(variance)
        self._means[way], self._rounds[way] = loss, rounds
        shrunk, errors = shrunk_means(gain, variance, known)
        self._certain[way] = np.where(rounds > 0, shrunk - errors, -np.inf)

    def _losses_of(
        self, models: Mapping[TaskName, SpecificModel], start: CommonModel
    ) -> DoubleArray:
        """Loss of each validation row under the models."""
        margins = self._stages.followed_margins(start, self._valid)
        library = self._stages.backend
        for task in self._valid.tasks:
            booster = models[task].booster
            if booster is None or not models[task].n_rounds:
                continue
            rows = self._valid.tasks.rows(task)
            table = self._valid.task_table(task)
            own = library.predict_margin(booster, table, margins[rows])
            margins[rows] = own.reshape(len(rows), -1)
        return row_losses(self._stages, self._valid, margins)

    def _best_ways(self) -> npt.NDArray[np.int64]:
        return np.asarray(np.argmax(np.array(list(self._certain.values())), axis=0))

    def ways(self) -> dict[TaskName, Any]:
        """The way that each task takes."""
        names = list(self._certain)
        return {
            task: names[best] for task, best in zip(self._tasks, self._best_ways(), strict=True)
        }

    def rounds(self, way: str | None = None) -> dict[TaskName, int]:
        """Rounds of each task's own model under one way, or under the one it takes."""
        if way is not None:
            return dict(zip(self._tasks, self._rounds[way].tolist(), strict=True))
        found = np.array(list(self._rounds.values()))
        own = found[self._best_ways(), np.arange(len(self._tasks))]
        return dict(zip(self._tasks, own.tolist(), strict=True))

    def better_alone(self) -> list[TaskName]:
        """Tasks for which an independent model is better than the common one."""
        certain = self._certain["independent"].tolist()
        return [task for task, gain in zip(self._tasks, certain, strict=True) if gain > 0]

    def scores(self) -> dict[TaskName, dict[str, float]]:
        """Validation metric of each task under each way."""
        return {
            task: {
                way: from_loss(self._stages.metric, means[code])
                for way, means in self._means.items()
            }
            for code, task in enumerate(self._tasks)
        }


def shrunk_means(
    values: DoubleArray, variances: DoubleArray, known: npt.NDArray[np.bool_]
) -> tuple[DoubleArray, DoubleArray]:
    """Values that vary about a common mean, shrunk towards it by how much of that is chance.

    Each known value has a sampling variance; the variance τ² of the true values is estimated by
    moments (DerSimonian and Laird, 1986). A value that is not known is the common mean.

    Parameters
    ----------
    values, variances : ndarray of float64, shape (n,)
    known : ndarray of bool, shape (n,)

    Returns
    -------
    shrunk, errors : ndarrays of float64, shape (n,)
        Errors are the standard deviations of `shrunk` by sampling; infinite if nothing is known.
    """
    if not known.any():
        return np.zeros(len(values)), np.full(len(values), np.inf)
    found, sampling = values[known], np.maximum(variances[known], 1e-100)
    weights = 1.0 / sampling
    centre = np.average(found, weights=weights)
    excess = (weights * (found - centre) ** 2).sum() - (len(found) - 1)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    spread = max(0.0, excess / scale) if scale > 0.0 else 0.0
    weights = 1.0 / (sampling + spread)
    centre = np.average(found, weights=weights)
    of_centre = (weights**2 * sampling).sum() / weights.sum() ** 2
    own = spread * weights
    shrunk, errors = np.full(len(values), centre), np.full(len(values), np.sqrt(of_centre))
    shrunk[known] += own * (found - centre)
    errors[known] = np.sqrt(own**2 * sampling + (1.0 - own) ** 2 * of_centre)
    return shrunk, errors


def _variance_of_means(
    values: DoubleArray,
    weights: DoubleArray,
    codes: npt.NDArray[np.integer[Any]],
    n_rows: DoubleArray,
) -> DoubleArray:
    """Variance of each task's mean, from the variance of rows within all tasks.

    Not from a task's own rows: where two models hardly differ the gain is small, its variance too,
    and such tasks would outweigh the others.
    """
    counts = np.where(n_rows > 0.0, n_rows, np.inf)
    means = np.bincount(codes, weights * values, len(n_rows)) / counts
    squares = (weights * (values - means[codes]) ** 2).sum()
    n_free = max(1.0, n_rows.sum() - np.count_nonzero(n_rows))
    return np.asarray(squares / n_free / np.maximum(n_rows, 1e-9))


def _curves(metric: Metric, histories: list[DoubleArray]) -> DoubleArray:
    """Losses by task and round; a curve that ended early goes on as it ended."""
    length = max(1, *(len(history) for history in histories))
    curves = np.full((len(histories), length), np.nan)
    for curve, history in zip(curves, histories, strict=True):
        if len(history):
            curve[: len(history)] = as_losses(metric, history)
            curve[len(history) :] = curve[len(history) - 1]
    return curves


def _shared_rounds(
    curves: DoubleArray, n_rows: DoubleArray, known: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Rounds of each task by its own curve and, as far as that has few rows, by those of others.

    What a task gains at the rounds that its own curve prefers would flatter it.
    """
    if not known.any():
        return np.zeros(len(curves), np.int64)
    steps = np.nan_to_num(curves - curves[:, :1])
    weights = np.where(known, n_rows, 0.0)[:, None]
    own = weights * steps
    others = own.sum(axis=0) - own
    n_others = weights.sum() - weights
    mean = np.divide(others, n_others, out=np.zeros_like(own), where=n_others > 0.0)
    return np.asarray(np.argmin(own + _PRIOR_ROWS * mean, axis=1))
