# SPDX-License-Identifier: Apache-2.0
"""LightGBM's random streams, so that sampled trees see the same rows and columns as its own.

docs/lightgbm_arithmetic.md, section 7, lists the rules.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array

_FACTOR, _SUMMAND = 214013, 2531011
_ROWS_PER_STREAM = 1024


def _jumps(n: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Factors and summands that lead from a state to the 1st, ..., nth one after it."""
    factors, summands = np.empty(n, np.uint32), np.empty(n, np.uint32)
    factor, summand = 1, 0
    for i in range(n):
        factor = factor * _FACTOR % 2**32
        summand = (summand * _FACTOR + _SUMMAND) % 2**32
        factors[i], summands[i] = factor, summand
    return factors, summands


class Bagging:
    """Rows of each tree: one stream for every 1024 rows, drawn anew every `freq` rounds.

    As in LightGBM, a bag that happens to hold all rows is the last one. `fraction` is a number, or
    one for each row.
    """

    def __init__(
        self, n_rows: int, fraction: float | npt.NDArray[np.float64], freq: int, seed: int
    ) -> None:
        self._fraction, self._freq = fraction, freq
        self._n_rows = n_rows
        n_streams = math.ceil(n_rows / _ROWS_PER_STREAM)
        self._states = np.uint32(seed) + np.arange(n_streams, dtype=np.uint32)
        self._jumps = _jumps(_ROWS_PER_STREAM)
        self._is_kept: npt.NDArray[np.uint8] | None = None

    def rows(self, iteration: int) -> npt.NDArray[np.uint8] | None:
        """One flag per row, or None for all."""
        if self._freq <= 0 or np.min(self._fraction) >= 1.0:
            return None
        if self._is_kept is None or (iteration % self._freq == 0 and not self._is_kept.all()):
            factors, summands = self._jumps
            states = self._states[:, None] * factors + summands
            self._states = states[:, -1].copy()
            n_last = self._n_rows - _ROWS_PER_STREAM * (len(states) - 1)
            self._states[-1] = states[-1, n_last - 1]
            draws = (states >> 16 & 0x7FFF).astype(np.float32) / np.float32(32768)
            is_kept = draws.ravel()[: self._n_rows] < np.asarray(self._fraction, np.float64)
            self._is_kept = is_kept.astype(np.uint8)
        return self._is_kept


def sample_by_gradient(
    gradients: Float32Array, *, top_rate: float, other_rate: float, seed: tuple[int, int]
) -> npt.NDArray[np.uint8]:
    """Draw rows as goss does: those with large gradients, and some of the others, which count more.

    LightGBM draws in each thread from a part of the rows, so that its draws depend on the number of
    threads; these are from all rows. Their distribution is that of LightGBM with one thread.

    Parameters
    ----------
    gradients : ndarray of float32, shape (n_rows, n_outputs, 2)
        Gradient pairs, OUT: those of the others that are drawn are multiplied.
    top_rate, other_rate : float
        Fractions of the rows.
    seed : pair of int
        Seed, and number of the round.

    Returns
    -------
    ndarray of uint8, shape (n_rows,)
        Whether each row is drawn.
    """
    size = np.abs(gradients[:, :, 0] * gradients[:, :, 1]).sum(axis=1)
    n_rows = len(size)
    n_top, n_other = max(1, int(n_rows * top_rate)), int(n_rows * other_rate)
    is_drawn: npt.NDArray[np.bool_] = size >= np.partition(size, n_rows - n_top)[n_rows - n_top]
    others = np.flatnonzero(~is_drawn)
    drawn = np.random.default_rng(seed).permutation(others)[:n_other]
    if len(drawn):
        gradients[drawn] *= np.float32((n_rows - n_top) / n_other)
        is_drawn[drawn] = True
    return is_drawn.astype(np.uint8)


class FeatureFraction:
    """Columns of each tree, from one stream that runs on from tree to tree."""

    def __init__(self, columns: npt.NDArray[np.uint32], fraction: float, seed: int) -> None:
        self._columns = columns
        self._drawn: npt.NDArray[np.uint32] | None = None
        self._seed: int | None = None
        self.reset(fraction, seed)  # what making a booster does

    def reset(self, fraction: float, seed: int) -> None:
        """Reset as LightGBM's parameters are: one draw more, from a new stream if there is one."""
        if seed != self._seed:
            self._seed, self._state = seed, seed % 2**32
        self._fraction = fraction
        self.draw()

    def draw(self) -> npt.NDArray[np.uint32] | None:
        """Columns of the next tree, ascending, or None for all.

        A fraction that becomes 1 leaves those drawn before in use.
        """
        n = len(self._columns)
        if self._fraction < 1.0 and n > 0:
            n_drawn = max(int(n * self._fraction + 0.5), min(1, n))
            self._drawn = self._columns[self._sample(n, n_drawn)]
        return self._drawn

    def _next(self) -> int:
        self._state = (_FACTOR * self._state + _SUMMAND) % 2**32
        return self._state

    def _sample(self, n: int, k: int) -> list[int]:
        """k of the numbers below n, ascending."""
        if k == n:
            return list(range(n))
        if k > 1 and k > n / math.log2(k):
            chosen: list[int] = []
            for i in range(n):
                draw = float(np.float32(self._next() >> 16 & 0x7FFF) / np.float32(32768))
                if draw < (k - len(chosen)) / (n - i):
                    chosen.append(i)
            return chosen
        drawn: set[int] = set()  # Floyd's sampling
        for largest in range(n - k, n):
            i = (self._next() & 0x7FFFFFFF) % (largest + 1)
            drawn.add(largest if i in drawn else i)
        return sorted(drawn)
