# SPDX-License-Identifier: Apache-2.0
"""Rows whose loss has a quadratic approximation, and so a mixed model (random_slopes.py).

Losses other than the squared error have a working response, and approximations and mixed models
take turns, as in penalised quasi-likelihood (Breslow and Clayton, Approximate inference in
generalized linear mixed models, 1993).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.trees.losses import (
    Loss,
    RowGroups,
    has_hazards,
    has_identity_link,
    is_classification,
    is_survival,
)
from mtboost.trees.nesting import Nesting
from mtboost.trees.random_slopes import ITERATIONS, Variances, first_variances, fit_effects
from mtboost.trees.slope_rows import RowsByTask

#: Rounds of the working response, for losses that are not quadratic.
_WORKING_ROUNDS = 8
#: Steps of EM in all of them but the first. More do not help: with 8 in place of 30 the squared
#: errors of the log-odds of ten generated panels change by -2 % to +.1 %, in half of the time.
_LATER_STEPS = 8
#: Log-odds of one class, which LightGBM takes for probabilities of 1e-15 and 1 - 1e-15.
_FARTHEST = 34.5
#: Longest step of a row in such a round: where the loss is flat, a Newton step has no bound. Rows
#: with longer ones count more, so that the solution stays where the gradients add up to zero.
_LONGEST_STEP = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class WorkingModel:
    """Rows whose loss has a quadratic approximation, and so a mixed model.

    Attributes
    ----------
    loss : Loss
    margin_type : type
        Of the margins that the loss takes.
    labels : ndarray of float32, shape (n_rows, n_labels)
    weight : ndarray of float32, shape (n_rows,), optional
    groups : RowGroups
        Of a loss whose rows depend on each other.
    start : ndarray of float64, shape (n_rows,)
        Margins to which effects are added.
    first : ndarray of float64, shape (n_rows,)
        Margins of the first approximation.
    """

    loss: Loss
    margin_type: type[np.floating[Any]]
    labels: npt.NDArray[np.float32]
    weight: npt.NDArray[np.float32] | None
    groups: RowGroups
    start: Float64Array
    first: Float64Array

    def effects(
        self, z: Float64Array, codes: Int32Array, nesting: Nesting
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return effects, and the hessians of rows by which they were estimated.

        Returns
        -------
        shared : ndarray of float64, shape (n_effects,)
        by_name : ndarray of float64, shape (n_names, n_effects)
        hessian : ndarray of float64, shape (n_rows,)
        """
        is_quadratic = has_identity_link(self.loss.name)
        margins = self.first
        levels = [np.unique(own, return_inverse=True) for own in nesting.lineage(codes)]
        members = [own for own, _ in levels]
        outermost = np.zeros(len(members[0]), np.int64)
        inner = [np.searchsorted(around, nesting.parents[own]) for around, own in pairwise(members)]
        variances: Variances | None = None
        by_name = np.zeros((nesting.n_names, z.shape[1] + 1))
        shared = np.zeros(by_name.shape[1])
        most_steps = ITERATIONS
        for _ in range(1 if is_quadratic else _WORKING_ROUNDS):
            response, hessian, unit = self._response(margins)
            if not hessian.any():  # the loss is flat, as LightGBM's where labels are one class
                constant = float(np.mean(self.first - self.start))
                by_name[:, 0] = shared[0] = np.clip(constant, -_FARTHEST, _FARTHEST)
                break
            if variances is None:
                variances = self._first_variances(response, hessian, z, len(levels))
            rows = RowsByTask.of_rows(
                z, response, hessian / unit, levels[-1][1], [outermost, *inner]
            )
            effects = fit_effects(
                rows, variances, fixed_noise=self._is_noise_known, most_steps=most_steps
            )
            shared, variances, most_steps = effects.shared, effects.variances, _LATER_STEPS
            for own, total in zip(members, effects.totals(rows), strict=True):
                by_name[own] = total
            if not self._has_levels:
                by_name[:, 0] = shared[0] = 0.0
            margins = _fitted(self.start, by_name, codes, z)
        return shared, by_name, hessian

    @property
    def _has_levels(self) -> bool:
        """Whether the loss depends on the levels of tasks.

        A Cox model's with a risk set for each does not; estimated levels would drift from one
        approximation to the next.
        """
        begins = self.groups.begins
        return not has_hazards(self.loss.name) or begins is None or len(begins) <= 2

    @property
    def _is_noise_known(self) -> bool:
        """Whether the loss is a likelihood without a dispersion, so that σ² is 1."""
        return is_classification(self.loss.name) or is_survival(self.loss.name)

    def _response(self, margins: Float64Array) -> tuple[Float64Array, Float64Array, float]:
        """Return the working response, hessians and their unit, that of the noise."""
        loss: Any = self.loss  # margins of the libraries differ in type
        pairs: npt.NDArray[np.float32] = loss.gradients(
            margins.astype(self.margin_type)[:, None],
            self.labels,
            self.weight,
            groups=self.groups.begins,
            order=self.groups.order,
        )
        gradient, hessian = pairs[:, 0].astype(np.float64).T
        if not has_identity_link(loss.name):
            hessian = np.maximum(hessian, np.abs(gradient) / _LONGEST_STEP)
        step = np.divide(gradient, hessian, out=np.zeros(len(margins)), where=hessian > 0.0)
        unit = 1.0 if self._is_noise_known else float(hessian[hessian > 0.0].mean())
        return margins - self.start - step, hessian, unit

    def _first_variances(
        self, response: Float64Array, hessian: Float64Array, z: Float64Array, n_levels: int
    ) -> Variances:
        mean = np.average(response, weights=hessian)
        spread = float(np.average((response - mean) ** 2, weights=hessian))
        begin = first_variances(n_levels, z.shape[1] + 1, max(spread, 1e-12))
        return replace(begin, of_noise=1.0) if self._is_noise_known else begin


def _fitted(
    start: Float64Array, effects: Float64Array, codes: Int32Array, z: Float64Array
) -> Float64Array:
    """Return margins of rows whose tasks, or groups, have these effects."""
    margins: Float64Array = start + effects[codes, 0]
    for column, slopes in zip(z.T, effects.T[1:], strict=True):
        margins += slopes[codes] * column
    return margins
