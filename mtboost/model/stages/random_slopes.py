# SPDX-License-Identifier: Apache-2.0
"""A mixed model with random intercepts and slopes: linear effects that differ between tasks.

A row of task t with standardised columns z has the margin

    a + a_t + Σ_j (b_j + b_tj) z_j + noise of variance σ²/h,

where h is its hessian, a_t ~ N(0, τ_0²), b_tj ~ N(0, τ_j²) and b_j ~ N(0, ω_j²). The tasks'
effects are posterior means: a task with few rows, or an effect that differs little between tasks,
is shrunk to the effect of all. Variances are estimated by EM (Laird and Ware, Random-effects models
for longitudinal data, 1982), those of the shared slopes by the evidence of all rows (MacKay,
Bayesian interpolation, 1992); what the tasks share is estimated with their effects integrated out.

In matrices, for one task: U = √H Z, where Z has a column of ones first, and u = √H y. With
D = diag(τ²), V = U D U' + σ² I is the covariance of u given the shared effects b, and
C = (U'U / σ² + D⁻¹)⁻¹ that of the task's effects given u. Estimation needs

    A = U'V⁻¹U = D⁻¹ - D⁻¹ C D⁻¹             what the task says about b
    g = U'V⁻¹u = D⁻¹ C U'u / σ²              and the right-hand side of that
    D U'V⁻¹(u - U b) = C U'(u - U b) / σ²    the task's effects
    diag C     = τ² - τ⁴ diag(U'V⁻¹U)        their posterior variances
    σ² (p - tr(D⁻¹ C)) = σ² (n - σ² tr V⁻¹)  what they add to the squared errors, tr(U'U C)

by the identity of Woodbury (Golub and Van Loan, Matrix computations, section 2.1.4), for n rows and
p effects. V has n rows, C has p: each task has the smaller of the two inverted.

Nested tasks, stores of regions, have effects that add to those of their region, which has effects
as a task has, with variances for regions. About these its stores say Σ A and Σ g, as a task does
that has U'U / σ² = Σ A and U'u / σ² = Σ g: information is passed from the stores over the regions
to the shared effects, and effects are passed back. With P the covariance of all effects around a
task, and K = D A = I - C D⁻¹ by which it follows them,

    C + K P K'               is the covariance of the task's effects,
    C + (I - K) P (I - K)'   that of their sum with those around it, where U (I - K) = σ² V⁻¹U.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtboost.base.arrays import Float64Array, Int64Array
from mtboost.model.stages.slope_rows import (
    FewRows,
    Information,
    ManyRows,
    Prior,
    RowsByTask,
    Spread,
    inverses_of,
)

#: Steps of EM from variances that are guessed.
ITERATIONS = 30
#: Change of the variances, relative to the largest, below which they have converged.
_TOLERANCE = 1e-3
#: Least variance of an effect in units of that of the response.
_LEAST = 1e-8
#: In place of 0, to divide by.
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Variances:
    """Variances of a mixed model.

    Attributes
    ----------
    by_level : ndarray of float64, shape (n_levels, n_effects)
        τ_0², τ_1², ...: of the intercept, then of each column; of nested tasks those of the
        outermost groups first.
    of_slopes : ndarray of float64, shape (n_columns,)
        ω_1², ω_2², ...
    of_noise : float
        σ².
    """

    by_level: Float64Array
    of_slopes: Float64Array
    of_noise: float

    def priors(self) -> list[Prior]:
        """Return those of each level; about groups their tasks say Σ A and Σ g, without noise."""
        *groups, tasks = self.by_level
        return [*(Prior(own, 1.0) for own in groups), Prior(tasks, self.of_noise)]


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Effects of the intercept, then of each column.

    Attributes
    ----------
    shared : ndarray of float64, shape (n_effects,)
        Those of an unknown task.
    by_level : list of ndarray of float64, shape (n_names, n_effects)
        What each outermost group of nested tasks adds to them, each group in it to those around it,
        and so on to the tasks.
    variances : Variances
    """

    shared: Float64Array
    by_level: list[Float64Array]
    variances: Variances

    def totals(self, parents_by_level: Sequence[Int64Array]) -> list[Float64Array]:
        """Return the effects of each group and task, with those around it."""
        around, found = self.shared[None], []
        for own, parents in zip(self.by_level, parents_by_level, strict=True):
            around = around[parents] + own
            found.append(around)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """Posterior variances.

    Attributes
    ----------
    of_shared : ndarray of float64, shape (n_effects,)
    by_level : ndarray of float64, shape (n_levels, n_effects)
        Of what a group or task adds, given the shared effects: mean over those of a level.
    of_errors : float
        What those of all groups and tasks add to the sum of squared errors of all rows.
    """

    of_shared: Float64Array
    by_level: Float64Array
    of_errors: float


def first_variances(n_levels: int, n_effects: int, of_response: float) -> Variances:
    """Return what the estimation begins with."""
    return Variances(
        np.full((n_levels, n_effects), 0.1 * of_response),
        np.full(n_effects - 1, 0.1 * of_response / n_effects),
        0.5 * of_response,
    )


def fit_effects(
    rows: RowsByTask,
    variances: Variances,
    *,
    fixed_noise: bool = False,
    most_steps: int = ITERATIONS,
) -> Effects:
    """Return the effects, and the variances by EM from those given.

    Parameters
    ----------
    rows : RowsByTask
    variances : Variances
        To begin with; those of the shared slopes are not used.
    fixed_noise : bool
        Whether σ² is known, as for the working response of a logistic model.
    most_steps : int
        Of EM.
    """
    least = _LEAST * max(variances.of_noise, variances.by_level.max())
    of_slopes = variances_of_slopes(rows, variances.of_noise if fixed_noise else None, least)
    variances = replace(variances, of_slopes=of_slopes)
    for _ in range(most_steps):
        effects, uncertainty = effects_given(rows, variances)
        before, variances = (
            variances,
            _updated(rows, effects, uncertainty, least, fixed_noise),
        )
        change = np.abs(variances.by_level - before.by_level).max()
        if change <= _TOLERANCE * variances.by_level.max():
            break
    effects, _ = effects_given(rows, variances)
    return effects


def effects_given(rows: RowsByTask, variances: Variances) -> tuple[Effects, Uncertainty]:
    """Return posterior means given the variances, and their uncertainty."""
    levels, told = _levels(rows, variances.priors())
    precision = np.append(0.0, 1.0 / variances.of_slopes)
    covariance = inverses_of(told.squares + np.diag(precision))[0]
    shared = covariance @ told.products[0]
    around, of_groups = shared[None], None
    by_level, spreads = [], []
    for level in levels:
        by_level.append(level.effects(around))
        spreads.append(level.spread(of_groups))
        if level is not levels[-1]:
            around = around[level.groups] + by_level[-1]
            of_groups = level.covariances(of_groups)
    of_effects = [
        own.of_effects / level.n_names for own, level in zip(spreads, levels, strict=True)
    ]
    uncertainty = Uncertainty(np.diag(covariance), np.stack(of_effects), spreads[-1].of_errors)
    return Effects(shared, by_level, variances), uncertainty


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Tasks or groups of them, and the matrices inverted for each batch."""

    batches: Sequence[FewRows | ManyRows]
    groups: Int64Array
    prior: Prior
    inverses: list[Float64Array]

    @classmethod
    def of(cls, batches: Sequence[FewRows | ManyRows], groups: Int64Array, prior: Prior) -> _Level:
        """Return the level of tasks in these groups."""
        return cls(batches, groups, prior, [batch.inverses(prior) for batch in batches])

    @property
    def n_names(self) -> int:
        """Number of tasks, or of groups."""
        return len(self.groups)

    def information(self) -> Information:
        """Return what is said about the effects of the groups."""
        told = Information.zeros(int(self.groups.max()) + 1, len(self.prior.of_effects))
        for batch, own in zip(self.batches, self.inverses, strict=True):
            batch.inform(own, self.prior, told)
        return told

    def effects(self, around: Float64Array) -> Float64Array:
        """Return what is added to the effects of the groups."""
        found = np.empty((self.n_names, around.shape[1]))
        for batch, own in zip(self.batches, self.inverses, strict=True):
            found[batch.tasks] = batch.effects(own, around[batch.groups], self.prior)
        return found

    def spread(self, of_groups: Float64Array | None) -> Spread:
        """Return the posterior variances, given the covariances of the effects of groups."""
        parts = [
            batch.spread(own, self.prior, of_groups)
            for batch, own in zip(self.batches, self.inverses, strict=True)
        ]
        effects: Float64Array = np.sum([own.of_effects for own in parts], axis=0)
        return Spread(effects, sum(own.of_errors for own in parts))

    def covariances(self, of_groups: Float64Array | None) -> Float64Array:
        """Return those of the effects of groups and what is added to them."""
        (batch,) = self.batches
        assert isinstance(batch, ManyRows)  # groups
        found = np.empty_like(self.inverses[0])
        found[batch.tasks] = batch.covariances(self.inverses[0], self.prior, of_groups)
        return found


def _levels(rows: RowsByTask, priors: Sequence[Prior]) -> tuple[list[_Level], Information]:
    """Return the levels, outermost first, and what all tasks say about the shared effects."""
    levels = [_Level.of(rows.batches, rows.parents[-1], priors[-1])]
    told = levels[0].information()
    for groups, prior in zip(rows.parents[-2::-1], priors[-2::-1], strict=True):
        levels.insert(0, _Level.of([ManyRows.of_groups(told, groups)], groups, prior))
        told = levels[0].information()
    return levels, told


def _updated(
    rows: RowsByTask, effects: Effects, uncertainty: Uncertainty, least: float, fixed_noise: bool
) -> Variances:
    """Return the variances of one step of EM."""
    variances = effects.variances
    squares = [(own**2).mean(axis=0) for own in effects.by_level]
    by_level = np.maximum(np.stack(squares) + uncertainty.by_level, least)
    noise = variances.of_noise
    if not fixed_noise:
        total = effects.totals(rows.parents)[-1]
        errors = sum(batch.squared_errors(total[batch.tasks]) for batch in rows.batches)
        noise = max((errors + uncertainty.of_errors) / rows.n_rows, least)
    return Variances(by_level, variances.of_slopes, noise)


def variances_of_slopes(rows: RowsByTask, noise: float | None, least: float) -> Float64Array:
    """Return ω_j² by the evidence of all rows, as if tasks did not differ.

    One ω² of all columns is estimated first (MacKay, 1992). A step of EM from there gives a column
    with a large slope its own ω_j², that of the others is ω². Estimated together with the variances
    of tasks it would fall to nothing where columns are as many as tasks: most of them have no slope
    to share, and to take the slope of one for the tasks' own would cost less than a large ω².

    Parameters
    ----------
    rows : RowsByTask
    noise : float, optional
        σ², if it is known.
    least : float
        Least variance.

    Returns
    -------
    ndarray of float64, shape (n_columns,)
    """
    if rows.n_effects == 1:
        return np.empty(0)
    moments = [batch.moments() for batch in rows.batches]
    squares = np.sum([own for own, _, _ in moments], axis=0)
    products = np.sum([own for _, own, _ in moments], axis=0)
    # The intercept has a flat prior: what it explains is left out.
    ratio = squares[1:, 0] / squares[0, 0]
    values, vectors = np.linalg.eigh(squares[1:, 1:] - np.outer(ratio, squares[0, 1:]))
    values = np.maximum(values, 0.0)
    along = (products[1:] - ratio * products[0]) @ vectors
    total = sum(own for _, _, own in moments) - float(products[0] ** 2 / squares[0, 0])
    of_noise = max(total / rows.n_rows, least) if noise is None else noise
    of_slopes = of_noise / max(float(values.mean()), _TINY)
    for _ in range(ITERATIONS):
        precisions = values + of_noise / of_slopes
        effects = along / precisions
        n_known = float((values / precisions).sum())
        before, of_slopes = of_slopes, max(float(effects @ effects) / max(n_known, _TINY), least)
        if noise is None:
            errors = total - float(effects @ (2.0 * along - values * effects))
            of_noise = max(errors / max(rows.n_rows - 1.0 - n_known, 1.0), least)
        if abs(of_slopes - before) <= _TOLERANCE * before:
            break
    precisions = values + of_noise / of_slopes
    found: Float64Array = (vectors @ (along / precisions)) ** 2
    found += of_noise * (vectors**2 / precisions).sum(axis=1)
    return np.maximum(found, of_slopes)
