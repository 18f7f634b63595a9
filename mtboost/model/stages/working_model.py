# SPDX-License-Identifier: Apache-2.0
"""Rows whose loss has a quadratic approximation, and so a mixed model (random_slopes.py).

Losses other than the squared error have a working response, and approximations and mixed models
take turns, as in penalised quasi-likelihood (Breslow and Clayton, Approximate inference in
generalized linear mixed models, 1993). Of labels with two classes it underestimates the variances:
there, rows that are left out decide whether they should be larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array, Int64Array
from mtboost.model.stages.random_slopes import (
    ITERATIONS,
    Effects,
    Variances,
    effects_given,
    first_variances,
    fit_effects,
)
from mtboost.model.stages.slope_rows import RowsByTask
from mtboost.model.stages.wide_slopes import (
    WideRows,
    are_wide,
    fit_wide_effects,
    wide_effects_given,
)
from mtboost.trees.losses import (
    Loss,
    RowGroups,
    has_hazards,
    has_identity_link,
    is_classification,
    is_survival,
)
from mtboost.trees.nesting import Nesting

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
#: Factors by which the variances of tasks are tried to be larger, and the parts of the rows that
#: judge them: all in turn where they are few, or as many as have enough rows together. More than 4
#: gained nothing on generated panels, and leaves a task with one class a probability of the other
#: that is too small.
_FACTORS = (2.0, 4.0)
_FOLDS, _ENOUGH_ROWS = 5, 2000
#: Standard errors by which a larger factor must gain. Of generated panels with two classes, 50
#: tasks of 4 rows are predicted worse with 0, and those that differ much with 1.
_N_ERRORS = 0.5
#: Approximations with given variances, from the margins of other variances.
_ROUNDS_GIVEN = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Design:
    """The columns of rows, their tasks and the groups of these.

    Attributes
    ----------
    z : ndarray of float64, shape (n_rows, n_columns)
    codes : ndarray of int32, shape (n_rows,)
        Task of each row.
    places : ndarray of int64, shape (n_rows,)
        Its place among the tasks that have rows.
    members : list of ndarray of int32
        Codes of each level that have rows, outermost first.
    parents : list of ndarray of int64
        Place of the group of each in the level before.
    n_names : int
        Of all tasks and groups.
    """

    z: Float64Array
    codes: Int32Array
    places: Int64Array
    members: list[Int32Array]
    parents: list[Int64Array]
    n_names: int

    @classmethod
    def of(cls, z: Float64Array, codes: Int32Array, nesting: Nesting) -> _Design:
        levels = [np.unique(own, return_inverse=True) for own in nesting.lineage(codes)]
        members = [own for own, _ in levels]
        outermost = np.zeros(len(members[0]), np.int64)
        inner = [np.searchsorted(around, nesting.parents[own]) for around, own in pairwise(members)]
        return cls(z, codes, levels[-1][1], members, [outermost, *inner], nesting.n_names)

    def rows(self, response: Float64Array, hessian: Float64Array) -> RowsByTask | WideRows:
        """Return the rows in batches of tasks, or all together if columns are many."""
        kind = WideRows if are_wide(*self.z.shape) else RowsByTask
        return kind.of_rows(self.z, response, hessian, self.places, self.parents)

    def totals(self, effects: Effects) -> Float64Array:
        """Return effects by code, shape (n_names, n_effects); 0 of a name without rows."""
        found = np.zeros((self.n_names, len(effects.shared)))
        for own, total in zip(self.members, effects.totals(self.parents), strict=True):
            found[own] = total
        return found

    def margins(self, by_name: Float64Array) -> Float64Array:
        """Return what effects by code say of the rows."""
        found: Float64Array = by_name[self.codes, 0]
        for column, slopes in zip(self.z.T, by_name.T[1:], strict=True):
            found += slopes[self.codes] * column
        return found


@dataclass(frozen=True, slots=True, eq=False)
class FoundEffects:
    """Effects, and what they were estimated by.

    Attributes
    ----------
    shared : ndarray of float64, shape (n_effects,)
    by_name : ndarray of float64, shape (n_names, n_effects)
    hessian : ndarray of float64, shape (n_rows,)
    margins : ndarray of float64, shape (n_rows,)
        Those of the rows, with the effects.
    kappas : ndarray of float64, shape (n_levels, n_effects)
        κ = σ²/τ² by the variance σ² of a row of hessian 1: effects are shrunk as if κ were added to
        the hessian of their rows. Of nested tasks those of the outermost groups first.
    """

    shared: Float64Array
    by_name: Float64Array
    hessian: Float64Array
    margins: Float64Array
    kappas: Float64Array


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

    def effects(self, z: Float64Array, codes: Int32Array, nesting: Nesting) -> FoundEffects:
        """Return effects, with what they were estimated by."""
        is_quadratic = has_identity_link(self.loss.name)
        design = _Design.of(z, codes, nesting)
        margins, variances, most_steps = self.first, None, ITERATIONS
        for _ in range(1 if is_quadratic else _WORKING_ROUNDS):
            response, hessian, unit = self._response(margins)
            if not hessian.any():  # the loss is flat, as LightGBM's where labels are one class
                constant = float(np.mean(self.first - self.start))
                by_name = np.zeros((nesting.n_names, z.shape[1] + 1))
                by_name[:, 0] = np.clip(constant, -_FARTHEST, _FARTHEST)
                kappas = np.full((len(design.members), by_name.shape[1]), np.inf)
                return FoundEffects(by_name[0].copy(), by_name, hessian, margins, kappas)
            if variances is None:
                variances = self._first_variances(response, hessian, design)
            rows = design.rows(response, hessian / unit)
            effects = _fit(rows, variances, self._is_noise_known, most_steps)
            variances, most_steps = effects.variances, _LATER_STEPS
            found = self._found(effects, design, hessian, unit)
            margins = found.margins
        assert variances is not None
        if is_classification(self.loss.name):
            found = self._with_larger_variances(found, variances, design)
        return found

    def effects_given(self, z: Float64Array, kappas: Float64Array) -> Float64Array:
        """Return the effects of one task that is as similar to the others as these are.

        Parameters
        ----------
        z : ndarray of float64, shape (n_rows, n_effects)
            With the ones of the intercept.
        kappas : ndarray of float64, shape (n_effects,)
        """
        roots = 1.0 / np.sqrt(kappas)
        scaled, margins = z * roots, self.first
        for _ in range(1 if has_identity_link(self.loss.name) else _WORKING_ROUNDS):
            response, hessian, _ = self._response(margins)
            weighted = scaled.T * hessian
            precision = weighted @ scaled + np.eye(len(roots))
            effects: Float64Array = roots * np.linalg.solve(precision, weighted @ response)
            margins = self.start + z @ effects
        return effects

    def _found(
        self,
        effects: Effects,
        design: _Design,
        hessian: Float64Array,
        unit: float,
    ) -> FoundEffects:
        shared, by_name = effects.shared, design.totals(effects)
        if not self._has_levels:
            by_name[:, 0] = shared[0] = 0.0
        margins = self.start + design.margins(by_name)
        variances = effects.variances
        kappas = unit * variances.of_noise / variances.by_level
        return FoundEffects(shared, by_name, hessian, margins, kappas)

    # ---- variances that are too small -------------------------------------------------------

    def _with_larger_variances(
        self, found: FoundEffects, variances: Variances, design: _Design
    ) -> FoundEffects:
        """Return the effects with the variances by which rows that are left out lose least.

        The quadratic approximation underestimates variances of few rows with two classes (Breslow
        and Lin, Bias correction in generalised linear mixed models with a single component of
        dispersion, 1995). A larger factor is taken while it gains by more than half a standard
        error.
        """
        used = np.flatnonzero(found.hessian)
        if len(used) < 2 * _FOLDS:
            return found
        folds = _folds(design.places[used])
        n_judges = min(_FOLDS, -(-_ENOUGH_ROWS * _FOLDS // len(used)))
        judges = [used[folds == fold] for fold in range(n_judges)]

        def left_out(factor: float) -> Float64Array:
            """Margins of the rows of each fold by effects of the others."""
            margins = found.margins.copy()
            for rows in judges:
                own = self._given(_times(variances, factor), found.margins, design, rows)
                margins[rows] = own.margins[rows]
            return margins

        best, margins = 1.0, left_out(1.0)
        for factor in _FACTORS:
            others = left_out(factor)
            gains = self._gains(margins, others)[np.concatenate(judges)]
            if gains.sum() <= _N_ERRORS * np.sqrt(len(gains)) * gains.std():
                break
            best, margins = factor, others
        if best == 1.0:
            return found
        return self._given(_times(variances, best), found.margins, design)

    def _given(
        self,
        variances: Variances,
        margins: Float64Array,
        design: _Design,
        left_out: Int64Array | None = None,
    ) -> FoundEffects:
        """Return the effects given the variances, after a few approximations from these margins."""
        for _ in range(_ROUNDS_GIVEN):
            response, hessian, unit = self._response(margins)
            if left_out is not None:
                hessian[left_out] = 0.0
            rows = design.rows(response, hessian / unit)
            found = self._found(_given(rows, variances), design, hessian, unit)
            margins = found.margins
        return found

    def _gains(self, margins: Float64Array, others: Float64Array) -> Float64Array:
        """Return by how much the loss of each row is less with other margins.

        That is the integral of its gradient between them, by the rule of Simpson.
        """
        first, middle, last = (
            self._gradients(each)[0] for each in (margins, 0.5 * (margins + others), others)
        )
        return (first + 4.0 * middle + last) / 6.0 * (margins - others)

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
        gradient, hessian = self._gradients(margins)
        if not has_identity_link(self.loss.name):
            hessian = np.maximum(hessian, np.abs(gradient) / _LONGEST_STEP)
        step = np.divide(gradient, hessian, out=np.zeros(len(margins)), where=hessian > 0.0)
        unit = 1.0 if self._is_noise_known else float(hessian[hessian > 0.0].mean())
        return margins - self.start - step, hessian, unit

    def _gradients(self, margins: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the gradients and hessians of rows."""
        loss: Any = self.loss  # margins of the libraries differ in type
        pairs: npt.NDArray[np.float32] = loss.gradients(
            margins.astype(self.margin_type)[:, None],
            self.labels,
            self.weight,
            groups=self.groups.begins,
            order=self.groups.order,
        )
        gradient, hessian = pairs[:, 0].astype(np.float64).T
        return gradient, hessian

    def _first_variances(
        self, response: Float64Array, hessian: Float64Array, design: _Design
    ) -> Variances:
        mean = np.average(response, weights=hessian)
        spread = float(np.average((response - mean) ** 2, weights=hessian))
        n_effects = design.z.shape[1] + 1
        begin = first_variances(len(design.members), n_effects, max(spread, 1e-12))
        return replace(begin, of_noise=1.0) if self._is_noise_known else begin


def _fit(
    rows: RowsByTask | WideRows, variances: Variances, fixed_noise: bool, most_steps: int
) -> Effects:
    """Return the effects, and the variances from those given."""
    if isinstance(rows, WideRows):
        return fit_wide_effects(rows, variances, fixed_noise=fixed_noise, most_steps=most_steps)
    return fit_effects(rows, variances, fixed_noise=fixed_noise, most_steps=most_steps)


def _given(rows: RowsByTask | WideRows, variances: Variances) -> Effects:
    """Return the effects given the variances."""
    if isinstance(rows, WideRows):
        return wide_effects_given(rows, variances)
    return effects_given(rows, variances)[0]


def _folds(places: Int64Array) -> Int64Array:
    """Return the fold of each row: as many rows of each task in all of them, but for one."""
    drawn = np.random.default_rng(0).permutation(len(places))
    order = drawn[np.argsort(places[drawn], kind="stable")]
    folds = np.empty(len(places), np.int64)
    folds[order] = np.arange(len(places)) % _FOLDS
    return folds


def _times(variances: Variances, factor: float) -> Variances:
    """Return variances of tasks that are larger by a factor."""
    return replace(variances, by_level=factor * variances.by_level)
