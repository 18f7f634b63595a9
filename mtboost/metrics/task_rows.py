# SPDX-License-Identifier: Apache-2.0
"""Rows of all tasks, and sums over those of each."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Total


class TaskRows(NamedTuple):
    """The rows of all tasks, and sums over those of each task."""

    codes: npt.NDArray[np.integer[Any]]
    n_tasks: int
    weight: Float64Array | None
    queries: npt.NDArray[np.integer[Any]] | None = None
    total: Total | None = None  # None: all rows are here

    def weigh(self, values: Float64Array) -> Float64Array:
        return values if self.weight is None else values * self.weight

    def sum(self, values: Float64Array) -> Float64Array:
        sums = np.bincount(self.codes, values, minlength=self.n_tasks)
        return sums.astype(np.float64, copy=False)  # integer if there are no rows at all

    def mean(self, values: Float64Array) -> Float64Array:
        """Weighted mean of each task; NaN for a task whose weights sum to zero."""
        if self.weight is None:
            counts = np.bincount(self.codes, minlength=self.n_tasks)
            return self._quotient(self.sum(values), counts)
        return self._quotient(self.sum(values * self.weight), self.sum(self.weight))

    def _quotient(self, sums: Float64Array, weights: npt.NDArray[Any]) -> Float64Array:
        if self.total is not None:
            sums, weights = self.total(np.stack([sums, weights]))
        quotient: Float64Array = sums / weights
        return quotient
