# SPDX-License-Identifier: Apache-2.0
"""A mixed model with random intercepts and slopes: linear effects that differ between tasks.

A row of task t with standardised columns z has the margin

    a + a_t + Σ_j (b_j + b_tj) z_j + noise of variance σ²/h,

where h is its hessian, a_t ~ N(0, τ_0²), b_tj ~ N(0, τ_j²) and b_j ~ N(0, ω²). The tasks' effects
are posterior means: a task with few rows, or an effect that differs little between tasks, is shrunk
to the effect of all. Variances are estimated by EM (Laird and Ware, Random-effects models for
longitudinal data, 1982); what the tasks share is estimated with their effects integrated out.

In matrices, for one task: U = √H Z, where Z has a column of ones first, and u = √H y. With
D = diag(τ²), V = U D U' + σ² I is the covariance of u given the shared effects b, and
C = (U'U / σ² + D⁻¹)⁻¹ that of the task's effects given u. Estimation needs

    U'V⁻¹U     = D⁻¹ - D⁻¹ C D⁻¹             what the task says about b
    U'V⁻¹u     = D⁻¹ C U'u / σ²              and the right-hand side of that
    D U'V⁻¹(u - U b) = C U'(u - U b) / σ²    the task's effects
    diag C     = τ² - τ⁴ diag(U'V⁻¹U)        their posterior variances
    σ² (p - tr(D⁻¹ C)) = σ² (n - σ² tr V⁻¹)  what they add to the squared errors, tr(U'U C)

by the identity of Woodbury (Golub and Van Loan, Matrix computations, section 2.1.4), for n rows and
p effects. V has n rows, C has p: each task has the smaller of the two inverted.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from mtboost.base.arrays import Float64Array, Int32Array

_ITERATIONS = 30
#: Change of the variances, relative to the largest, below which they have converged.
_TOLERANCE = 1e-3
#: Least variance of an effect in units of that of the response.
_LEAST = 1e-8
#: Numbers of a batch of tasks: matrices of them that exist only within a step of EM stay small.
_MOST_NUMBERS = 1 << 18
#: Rows of matrices from which on Cholesky factors are faster than NumPy's inverses of a batch.
_LARGE = 48


@dataclass(frozen=True, slots=True)
class Variances:
    """Variances of a mixed model.

    Attributes
    ----------
    of_tasks : ndarray of float64, shape (n_effects,)
        τ_0², τ_1², ...: of the intercept, then of each column.
    of_slopes : float
        ω².
    of_noise : float
        σ².
    """

    of_tasks: Float64Array
    of_slopes: float
    of_noise: float


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Effects of the intercept, then of each column.

    Attributes
    ----------
    shared : ndarray of float64, shape (n_effects,)
        Those of an unknown task.
    by_task : ndarray of float64, shape (n_tasks, n_effects)
        What a task adds to them.
    variances : Variances
    """

    shared: Float64Array
    by_task: Float64Array
    variances: Variances


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """Posterior variances.

    Attributes
    ----------
    of_shared : ndarray of float64, shape (n_effects,)
    of_tasks : ndarray of float64, shape (n_effects,)
        Of the effects of a task, given the shared ones: mean over tasks.
    of_errors : float
        What those of the tasks' effects add to the sum of squared errors of all rows.
    """

    of_shared: Float64Array
    of_tasks: Float64Array
    of_errors: float


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """Sums over tasks, their effects integrated out.

    Attributes
    ----------
    squares : ndarray of float64, shape (n_effects, n_effects)
        Σ U'V⁻¹U.
    products : ndarray of float64, shape (n_effects,)
        Σ U'V⁻¹u.
    spread : ndarray of float64, shape (n_effects,)
        Σ diag C.
    trace : float
        Σ tr(U'U C).
    """

    squares: Float64Array
    products: Float64Array
    spread: Float64Array
    trace: float

    def plus(self, other: Reduced) -> Reduced:
        """Return the sums over the tasks of both."""
        return Reduced(
            self.squares + other.squares,
            self.products + other.products,
            self.spread + other.spread,
            self.trace + other.trace,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FewRows:
    """Tasks with equally many rows, fewer than effects.

    Attributes
    ----------
    tasks : ndarray of int64, shape (n_own,)
        Their codes.
    rows : ndarray of float64, shape (n_own, n_rows, n_effects)
        U of each task.
    responses : ndarray of float64, shape (n_own, n_rows)
        u.
    """

    tasks: npt.NDArray[np.int64]
    rows: Float64Array
    responses: Float64Array

    def inverses(self, variances: Variances) -> Float64Array:
        """Return V⁻¹ of each task."""
        covariances = (self.rows * variances.of_tasks) @ self.rows.transpose(0, 2, 1)
        covariances += variances.of_noise * np.eye(self.rows.shape[1])
        return inverses_of(covariances)

    def reduced(self, inverses: Float64Array, variances: Variances) -> Reduced:
        """Return the sums over the tasks."""
        n_own, n_rows, n_effects = self.rows.shape
        rows, weighted = self.rows.reshape(-1, n_effects), inverses @ self.rows
        weighted = weighted.reshape(-1, n_effects)
        of_tasks, noise = variances.of_tasks, variances.of_noise
        squares = rows.T @ weighted
        return Reduced(
            squares,
            self.responses.reshape(-1) @ weighted,
            n_own * of_tasks - of_tasks**2 * np.diag(squares),
            noise * (n_own * n_rows - noise * float(np.einsum("tii->", inverses))),
        )

    def effects(
        self, inverses: Float64Array, shared: Float64Array, variances: Variances
    ) -> Float64Array:
        """Return the effects of each task: shape (n_own, n_effects)."""
        left = inverses @ (self.responses - self.rows @ shared)[:, :, None]
        found: Float64Array = variances.of_tasks * (left.transpose(0, 2, 1) @ self.rows)[:, 0]
        return found

    def squared_errors(self, total: Float64Array) -> float:
        """Return Σ |u - U e|² for effects e of each task, the shared ones included."""
        fitted = (self.rows @ total[:, :, None])[:, :, 0]
        return float(((self.responses - fitted) ** 2).sum())


@dataclass(frozen=True, slots=True, eq=False)
class ManyRows:
    """Tasks with at least as many rows as effects; the methods are those of `FewRows`.

    Attributes
    ----------
    tasks : ndarray of int64, shape (n_own,)
        Their codes.
    squares : ndarray of float64, shape (n_own, n_effects, n_effects)
        U'U of each task.
    products : ndarray of float64, shape (n_own, n_effects)
        U'u.
    response_squares : float
        Σ u'u.
    """

    tasks: npt.NDArray[np.int64]
    squares: Float64Array
    products: Float64Array
    response_squares: float

    @classmethod
    def of_rows(
        cls,
        tasks: npt.NDArray[np.int64],
        rows: Iterable[Float64Array],
        responses: Sequence[Float64Array],
    ) -> ManyRows:
        """Return what is kept of the rows, U and u of each task."""
        moments = [
            (own.T @ own, response @ own) for own, response in zip(rows, responses, strict=True)
        ]
        squares, products = map(np.stack, zip(*moments, strict=True))
        return cls(tasks, squares, products, float(sum(own @ own for own in responses)))

    def inverses(self, variances: Variances) -> Float64Array:
        """Return C of each task."""
        precisions = self.squares / variances.of_noise + np.diag(1.0 / variances.of_tasks)
        return inverses_of(precisions)

    def reduced(self, inverses: Float64Array, variances: Variances) -> Reduced:
        """Return the sums over the tasks."""
        precisions, noise = 1.0 / variances.of_tasks, variances.of_noise
        total = inverses.sum(axis=0)
        spread, n_own = np.diag(total), len(inverses)
        return Reduced(
            np.diag(n_own * precisions) - precisions[:, None] * total * precisions,
            precisions * np.einsum("tij,tj->i", inverses, self.products) / noise,
            spread,
            noise * (n_own * len(total) - float(precisions @ spread)),
        )

    def effects(
        self, inverses: Float64Array, shared: Float64Array, variances: Variances
    ) -> Float64Array:
        """Return the effects of each task: shape (n_own, n_effects)."""
        left = (self.products - self.squares @ shared) / variances.of_noise
        found: Float64Array = np.einsum("tij,tj->ti", inverses, left)
        return found

    def squared_errors(self, total: Float64Array) -> float:
        """Return Σ |u - U e|² for effects e of each task, the shared ones included."""
        fitted = np.einsum("tij,tj->ti", self.squares, total)
        return self.response_squares + float((total * (fitted - 2.0 * self.products)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class RowsByTask:
    """Rows, in batches of tasks.

    Attributes
    ----------
    batches : list of FewRows or ManyRows
    n_tasks : int
    n_rows : int
        Rows with weight: others are left out.
    """

    batches: list[FewRows | ManyRows]
    n_tasks: int
    n_rows: int

    @classmethod
    def of_rows(
        cls,
        z: Float64Array,
        response: Float64Array,
        hessian: Float64Array,
        codes: Int32Array | npt.NDArray[np.int64],
        n_tasks: int,
    ) -> RowsByTask:
        """Return the batches of rows; `z` of shape (n_rows, n_columns) without the ones."""
        used = np.flatnonzero(hessian)
        order = used[np.argsort(codes[used], kind="stable")]
        ends = np.cumsum(np.bincount(codes[used], minlength=n_tasks))
        counts = np.diff(ends, prepend=0)
        n_effects = z.shape[1] + 1
        roots = np.sqrt(hessian)

        def scaled(rows: npt.NDArray[np.int64]) -> Float64Array:
            root = roots[rows, None]
            own: Float64Array = np.concatenate([root, z[rows] * root], axis=-1)
            return own

        batches: list[FewRows | ManyRows] = []
        sizes = np.minimum(counts, n_effects)
        for size in np.unique(sizes):
            tasks = np.flatnonzero(sizes == size)
            at_once = max(1, _MOST_NUMBERS // (n_effects * max(1, int(size))))
            for own in np.split(tasks, range(at_once, len(tasks), at_once)):
                if size < n_effects:
                    rows = order[(ends[own] - size)[:, None] + np.arange(size)]
                    batches.append(FewRows(own, scaled(rows), roots[rows] * response[rows]))
                else:
                    parts = [order[ends[task] - counts[task] : ends[task]] for task in own]
                    responses = [roots[rows] * response[rows] for rows in parts]
                    batches.append(ManyRows.of_rows(own, map(scaled, parts), responses))
        return cls(batches, n_tasks, len(used))


def inverses_of(matrices: Float64Array) -> Float64Array:
    """Return the inverses of positive definite matrices: shape (n_matrices, n, n)."""
    if matrices.shape[-1] < _LARGE:
        return np.linalg.inv(matrices).astype(np.float64, copy=False)
    found = np.empty_like(matrices)
    for own, inverse in zip(matrices, found, strict=True):
        factor, failed = lapack.dpotrf(own, lower=True, clean=True)
        if failed:  # by rounding
            inverse[:] = np.linalg.inv(own)
            continue
        lower, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
        inverse[:] = lower + np.tril(lower, -1).T
    return found


def first_variances(n_effects: int, of_response: float) -> Variances:
    """Return what the estimation begins with."""
    return Variances(
        np.full(n_effects, 0.1 * of_response), 0.1 * of_response / n_effects, 0.5 * of_response
    )


def fit_effects(rows: RowsByTask, variances: Variances, *, fixed_noise: bool = False) -> Effects:
    """Return the effects, and the variances by EM from those given.

    Parameters
    ----------
    rows : RowsByTask
    variances : Variances
        To begin with.
    fixed_noise : bool
        Whether σ² is known, as for the working response of a logistic model.
    """
    least = _LEAST * max(variances.of_noise, variances.of_tasks.max())
    for _ in range(_ITERATIONS):
        effects, uncertainty = effects_given(rows, variances)
        before, variances = (
            variances,
            _updated(rows, effects, uncertainty, least, fixed_noise),
        )
        change = np.abs(variances.of_tasks - before.of_tasks).max()
        if change <= _TOLERANCE * variances.of_tasks.max():
            break
    effects, _ = effects_given(rows, variances)
    return effects


def effects_given(rows: RowsByTask, variances: Variances) -> tuple[Effects, Uncertainty]:
    """Return posterior means given the variances, and their uncertainty."""
    inverses = [batch.inverses(variances) for batch in rows.batches]
    parts = [
        batch.reduced(own, variances) for batch, own in zip(rows.batches, inverses, strict=True)
    ]
    reduced = functools.reduce(Reduced.plus, parts)
    prior = np.full(len(reduced.products), 1.0 / variances.of_slopes)
    prior[0] = 0.0
    covariance = inverses_of((reduced.squares + np.diag(prior))[None])[0]
    shared = covariance @ reduced.products
    by_task = np.empty((rows.n_tasks, len(shared)))
    for batch, own in zip(rows.batches, inverses, strict=True):
        by_task[batch.tasks] = batch.effects(own, shared, variances)
    uncertainty = Uncertainty(np.diag(covariance), reduced.spread / rows.n_tasks, reduced.trace)
    return Effects(shared, by_task, variances), uncertainty


def _updated(
    rows: RowsByTask, effects: Effects, uncertainty: Uncertainty, least: float, fixed_noise: bool
) -> Variances:
    """Return the variances of one step of EM."""
    variances = effects.variances
    of_tasks = np.maximum((effects.by_task**2).mean(axis=0) + uncertainty.of_tasks, least)
    of_slopes = variances.of_slopes
    if len(effects.shared) > 1:
        squares = effects.shared[1:] ** 2 + uncertainty.of_shared[1:]
        of_slopes = max(float(squares.mean()), least)
    noise = variances.of_noise
    if not fixed_noise:
        total = effects.shared + effects.by_task
        errors = sum(batch.squared_errors(total[batch.tasks]) for batch in rows.batches)
        noise = max((errors + uncertainty.of_errors) / rows.n_rows, least)
    return Variances(of_tasks, of_slopes, noise)
