# SPDX-License-Identifier: Apache-2.0
"""Models of many tasks with few rows each, trained side by side: round after round, all at once.

A library takes milliseconds for every model, whatever its size. Here a round of all of them is one
call of the core and one evaluation of the metric.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array, Float64Array, Int64Array
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import Metric
from mtboost.trees.best_rounds import BestRounds
from mtboost.trees.document import Unloaded


@dataclass(frozen=True, slots=True, eq=False)
class RowsByModel:
    """Rows of several models, model after model.

    Attributes
    ----------
    cells : ndarray of float32, shape (n_rows, n_features)
        NaN is missing.
    first_rows : ndarray of uint32, shape (n_models + 1,)
        Row with which each model begins; the last entry is the number of rows.
    labels : ndarray of float32, shape (n_rows,)
    margins : ndarray of float32, shape (n_rows, n_outputs)
    weights : ndarray of float32, shape (n_rows,), optional
    """

    cells: Float32Array
    first_rows: npt.NDArray[np.uint32]
    labels: Float32Array
    margins: Float32Array
    weights: Float32Array | None

    @property
    def n_models(self) -> int:
        return len(self.first_rows) - 1

    @property
    def n_rows(self) -> npt.NDArray[np.int64]:
        """Rows of each model."""
        first_rows = self.first_rows.astype(np.int64)
        return first_rows[1:] - first_rows[:-1]

    @property
    def codes(self) -> Int64Array:
        """Model of each row."""
        return np.repeat(np.arange(self.n_models), self.n_rows)

    def of_models(self, are_kept: npt.NDArray[np.bool_]) -> RowsByModel:
        """The rows of some of the models."""
        if are_kept.all():
            return self
        rows = np.repeat(are_kept, self.n_rows)
        ends = np.cumsum(self.n_rows[are_kept])
        return RowsByModel(
            self.cells[rows],
            np.append(0, ends).astype(np.uint32),
            self.labels[rows],
            self.margins[rows],
            None if self.weights is None else self.weights[rows],
        )


@dataclass(frozen=True, slots=True, eq=False)
class SmallModels:
    """Trained models.

    Attributes
    ----------
    n_rounds : ndarray of int64, shape (n_models,)
    is_defined : ndarray of bool, shape (n_models,)
        Whether the metric was, after any round; True for fixed numbers of rounds.
    histories : list of ndarray of float64
        Metric of each model after 0, 1, ... rounds; empty for fixed numbers of rounds.
    trees : list of Unloaded
    """

    n_rounds: Int64Array
    is_defined: npt.NDArray[np.bool_]
    histories: list[Float64Array]
    trees: list[Unloaded]


@dataclass(frozen=True, slots=True)
class Stopping:
    """When models end: the metric on their own validation rows decides."""

    metric: Metric
    early_stopping_rounds: int | None
    min_delta: float
    inverse_link: Callable[[Any], Any]


class SmallTrainer(abc.ABC):
    """Trains models whose trees are bitwise those of the library's ``train_plain``."""

    @abc.abstractmethod
    def bin_rows(self, rows: RowsByModel) -> npt.NDArray[np.bool_]:
        """Replace values by those that are the least of the library's bins, where these hold more.

        Returns whether each model can be trained, shape (n_models,).
        """

    @abc.abstractmethod
    def begin(self, rows: RowsByModel, valid: RowsByModel) -> None:
        """Take the rows of the models; those to validate on may be none."""

    @abc.abstractmethod
    def grow(self, models: Int64Array) -> None:
        """Add a round to some models."""

    @property
    @abc.abstractmethod
    def valid_margins(self) -> Float32Array:
        """Margins of the validation rows, shape (n_rows, n_outputs)."""

    @abc.abstractmethod
    def keep(self, model: int, n_rounds: int) -> None:
        """Forget the later rounds of a model."""

    @abc.abstractmethod
    def trees(self) -> list[Unloaded]:
        """Return the trees of each model."""

    def train(
        self, rows: RowsByModel, valid: RowsByModel | None, n_rounds: Int64Array, stopping: Stopping
    ) -> SmallModels:
        """Train models, each with its number of rounds, or with `valid` with its best.

        Parameters
        ----------
        n_rounds : ndarray of int64, shape (n_models,)
            With `valid` the most rounds.
        """
        n_models = rows.n_models
        if valid is None:
            self.begin(rows, _no_rows(rows))
            for number in range(int(n_rounds.max(initial=0))):
                self.grow(np.flatnonzero(n_rounds > number))
            return SmallModels(
                n_rounds, np.ones(n_models, bool), [np.empty(0)] * n_models, self.trees()
            )
        self.begin(rows, valid)
        watch = _Watch(valid, stopping)
        watch.record(0, self.valid_margins)
        for number in range(1, int(n_rounds.max(initial=0)) + 1):
            self.grow(np.flatnonzero(watch.best.is_active))
            watch.record(number, self.valid_margins)
            for model in watch.best.end().tolist():
                self.keep(model, int(watch.best.best_round[model]))
            if not watch.best.is_active.any():
                break
        is_defined = ~np.isnan(watch.best.best)
        found = np.where(is_defined, watch.best.best_round, 0)
        if stopping.early_stopping_rounds is None:
            found, is_defined = n_rounds, np.ones(n_models, bool)
        for model in np.flatnonzero(watch.best.is_active).tolist():
            self.keep(model, int(found[model]))
        return SmallModels(found, is_defined, watch.histories(), self.trees())


def _no_rows(rows: RowsByModel) -> RowsByModel:
    none = np.empty(0, np.float32)
    first_rows = np.zeros_like(rows.first_rows)
    return RowsByModel(rows.cells[:0], first_rows, none, rows.margins[:0], None)


class _Watch:
    """Validation curves of the models."""

    def __init__(self, valid: RowsByModel, stopping: Stopping) -> None:
        self._valid, self._stopping = valid, stopping
        self.best = BestRounds(valid.n_models, stopping.early_stopping_rounds, stopping.min_delta)
        self._codes: list[npt.NDArray[np.int32]] = []
        self._values: list[Float64Array] = []
        self._look_at(np.arange(valid.n_models), valid.codes)

    def _look_at(self, models: Int64Array, codes: Int64Array) -> None:
        """Evaluate some models only from now on; `codes` are those of all rows."""
        place = np.full(self._valid.n_models, -1)
        place[models] = np.arange(len(models))
        self._models, self._rows = models, np.flatnonzero(place[codes] >= 0)
        self._places = place[codes][self._rows]
        weights = self._valid.weights
        self._labels = self._valid.labels[self._rows]
        self._weights = None if weights is None else weights[self._rows]

    def record(self, n_rounds: int, margins: Float32Array) -> None:
        """Take down the metric of the models that are active."""
        active = np.flatnonzero(self.best.is_active)
        if 2 * len(active) < len(self._models):
            self._look_at(active, self._valid.codes)
        values = np.full(self._valid.n_models, np.nan)
        values[self._models] = evaluate_by_task(
            self._stopping.metric,
            self._labels,
            self._stopping.inverse_link(margins[self._rows]),
            self._places,
            len(self._models),
            self._weights,
        )
        self.best.record(n_rounds, values, self._stopping.metric)
        self._codes.append(active.astype(np.int32))
        self._values.append(values[active])

    def histories(self) -> list[Float64Array]:
        """Values of each model from round 0 to its last."""
        n_values = np.zeros(self._valid.n_models, np.int64)
        for codes in self._codes:
            n_values[codes] += 1
        ends = np.cumsum(n_values)
        found = np.empty(ends[-1])
        for n_rounds, (codes, values) in enumerate(zip(self._codes, self._values, strict=True)):
            found[(ends - n_values)[codes] + n_rounds] = values
        return np.split(found, ends[:-1])
