# SPDX-License-Identifier: Apache-2.0
"""The best round of each of several validation curves, and which of them have come to rest."""

from __future__ import annotations

import numpy as np

from mtboost.base.arrays import Float64Array, Int64Array
from mtboost.metrics.metric import Metric


class BestRounds:
    """Best rounds so far; curves are known by their code, 0 to `n_curves` - 1.

    Parameters
    ----------
    n_curves : int
    early_stopping_rounds : int or None
        Rounds without improvement after which a curve ends; None: none does.
    min_delta : float
        Smaller improvements do not count.

    Attributes
    ----------
    best : ndarray of float64, shape (n_curves,)
        NaN where no value was defined.
    best_round : ndarray of int64, shape (n_curves,)
    is_active : ndarray of bool, shape (n_curves,)
    """

    def __init__(self, n_curves: int, early_stopping_rounds: int | None, min_delta: float) -> None:
        self._early_stopping_rounds = early_stopping_rounds
        self._min_delta = min_delta
        self.best = np.full(n_curves, np.nan)
        self.best_round = np.zeros(n_curves, np.int64)
        self.is_active = np.ones(n_curves, bool)
        self._n_stale = np.zeros(n_curves, np.int64)

    def record(
        self, n_rounds: int, values: Float64Array, metric: Metric, fewest_rounds: int = 0
    ) -> None:
        """Take down the values after a round, shape (n_curves,); the first rounds may not count."""
        gain = metric.gains(values, self.best)
        improved = self.is_active & ~np.isnan(values) & (n_rounds >= fewest_rounds)
        improved &= np.isnan(self.best) | (gain > self._min_delta)
        self.best[improved] = values[improved]
        self.best_round[improved] = n_rounds
        self._n_stale = np.where(improved | np.isnan(self.best), 0, self._n_stale + 1)

    def end(self) -> Int64Array:
        """Return the curves that end now: no longer active from here on."""
        if self._early_stopping_rounds is None:
            return np.empty(0, np.int64)
        ended = np.flatnonzero(self.is_active & (self._n_stale >= self._early_stopping_rounds))
        self.is_active[ended] = False
        return ended
