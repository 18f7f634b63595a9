# SPDX-License-Identifier: Apache-2.0
"""Early stopping by the mean loss of all validation rows together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.model.stages.task_losses import TaskLosses

#: What a model may still gain, in units of what it has gained in the second half of its rounds. In
#: 14 searches this stopped 66 of some 290 models; one of them would have been the best in the end.
_MOST_GAIN = 3.0
#: Predictions a round, if there are no more, that are kept of every round.
_FEW_PREDICTIONS = 2_000


class MeanWatch:
    """The mean loss over all validation rows, round by round; for metrics that are means.

    Attributes
    ----------
    best : float
        The least mean loss.
    best_round : int
        Rounds after which it was reached.
    best_predictions : ndarray
        Of the validation rows after these rounds, on the scale of the labels.
    predictions : list of ndarray
        After `first_round` and each further round, of few validation rows; else empty.
    first_round : int
        1, or 0 if it knows the loss before the first round.
    curve : list of float
        The mean loss after `first_round` and each further round.
    """

    def __init__(
        self,
        quitting: Any,
        data: Dataset,
        valid: Dataset,
        losses: TaskLosses,
        early_stopping_rounds: int,
        to_beat: float = np.inf,
    ) -> None:
        self._quitting = quitting
        weights = np.bincount(valid.tasks.codes, valid.loss_weights(), valid.tasks.n_tasks)
        self._codes = [data.tasks.code(name) for name in valid.tasks.names]
        self._weights = np.zeros(data.tasks.n_tasks)
        self._weights[self._codes] = weights
        self._losses = losses
        self._early_stopping_rounds = early_stopping_rounds
        self._to_beat = to_beat
        self._bests: list[float] = []
        self.first_round = 1
        self.curve: list[float] = []
        self.best = np.inf
        self.best_round = 0
        self.best_predictions: npt.NDArray[np.floating] = np.empty(0)
        self.predictions: list[npt.NDArray[np.floating]] = []

    def begin(self, values: npt.NDArray[np.float64], predictions: npt.NDArray[np.floating]) -> None:
        """Take into account what rows are predicted before the first round.

        Parameters
        ----------
        values : ndarray of shape (n_tasks,)
            The metric of each task that has validation rows.
        predictions : ndarray
            Of the validation rows, on the scale of the labels.
        """
        self.first_round = 0
        of_all = np.full(len(self._weights), np.nan)
        of_all[self._codes] = values
        self._add(of_all, predictions)

    def is_over(self) -> bool:
        """Whether nothing is to be hoped for; called after each round.

        That is so if the last rounds have not improved the best mean, or if it is several times
        farther from the one to beat than it has come in the second half of the rounds so far.
        """
        self._add(self._quitting.last_values, self._quitting.last_predictions)
        n_rounds = self.first_round + len(self.curve) - 1
        if n_rounds >= 2 * self._early_stopping_rounds:
            lately = self._bests[n_rounds // 2 - self.first_round] - self.best
            if self.best - _MOST_GAIN * lately > self._to_beat:
                return True
        return n_rounds - self.best_round >= self._early_stopping_rounds

    def predictions_after(self, n_rounds: int) -> npt.NDArray[np.floating] | None:
        """Return what the validation rows were predicted; None if that is not known any more."""
        if n_rounds == self.best_round:
            return self.best_predictions
        return self.predictions[n_rounds - self.first_round] if self.predictions else None

    def _add(self, values: npt.NDArray[np.float64], predictions: npt.NDArray[np.floating]) -> None:
        if predictions.size <= _FEW_PREDICTIONS:
            self.predictions.append(predictions.copy())
        values = self._losses.of_tasks(values)
        known = ~np.isnan(values) & (self._weights > 0)
        # Without events in any task no value is known: such rows have the loss 0 elsewhere, too.
        mean = 0.0
        if known.any():
            mean = float(np.average(values[known], weights=self._weights[known]))
        if mean < self.best:
            self.best, self.best_round = mean, self.first_round + len(self.curve)
            self.best_predictions = predictions.copy()
        self._bests.append(self.best)
        self.curve.append(mean)
