# SPDX-License-Identifier: Apache-2.0
"""A mixed model with random intercepts and slopes: linear effects that differ between tasks.

A row of task t with standardised columns z has the margin

    a + a_t + Σ_j (b_j + b_tj) z_j + noise of variance σ²/h,

where h is its hessian, a_t ~ N(0, τ_0²), b_tj ~ N(0, τ_j²) and b_j ~ N(0, ω²). The tasks' effects
are posterior means: a task with few rows, or an effect that differs little between tasks, is shrunk
to the effect of all. Variances are estimated by EM (Laird and Ware, Random-effects models for
longitudinal data, 1982); what the tasks share is estimated with their effects integrated out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array

_ITERATIONS = 30
#: Change of the variances, relative to the largest, below which they have converged.
_TOLERANCE = 1e-3
#: Least variance of an effect in units of that of the response.
_LEAST = 1e-8


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
class Moments:
    """What the rows of the tasks say about linear effects.

    Attributes
    ----------
    squares : ndarray of float64, shape (n_tasks, n_effects, n_effects)
        Z'HZ of each task, where Z has a column of ones first.
    products : ndarray of float64, shape (n_tasks, n_effects)
        Z'Hy.
    response_squares : ndarray of float64, shape (n_tasks,)
        y'Hy.
    n_rows : int
        Rows with weight.
    """

    squares: Float64Array
    products: Float64Array
    response_squares: Float64Array
    n_rows: int

    @classmethod
    def of_rows(
        cls,
        z: Float64Array,
        response: Float64Array,
        hessian: Float64Array,
        codes: Int32Array | npt.NDArray[np.int64],
        n_tasks: int,
    ) -> Moments:
        """Return the moments of rows; `z` of shape (n_rows, n_columns) without the ones."""
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=n_tasks))
        n_effects = z.shape[1] + 1
        squares = np.zeros((n_tasks, n_effects, n_effects))
        products, response_squares = np.zeros((n_tasks, n_effects)), np.zeros(n_tasks)
        for task, rows in enumerate(np.split(order, ends[:-1])):
            own = np.column_stack([np.ones(len(rows)), z[rows]])
            weighted = own * hessian[rows, None]
            squares[task] = own.T @ weighted
            products[task] = response[rows] @ weighted
            response_squares[task] = hessian[rows] @ response[rows] ** 2
        return cls(squares, products, response_squares, int(np.count_nonzero(hessian)))


def first_variances(n_effects: int, of_response: float) -> Variances:
    """Return what the estimation begins with."""
    return Variances(
        np.full(n_effects, 0.1 * of_response), 0.1 * of_response / n_effects, 0.5 * of_response
    )


def fit_effects(moments: Moments, variances: Variances, *, fixed_noise: bool = False) -> Effects:
    """Return the effects, and the variances by EM from those given.

    Parameters
    ----------
    moments : Moments
    variances : Variances
        To begin with.
    fixed_noise : bool
        Whether σ² is known, as for the working response of a logistic model.
    """
    least = _LEAST * max(variances.of_noise, variances.of_tasks.max())
    for _ in range(_ITERATIONS):
        effects, covariances, uncertainty = effects_given(moments, variances)
        before, variances = (
            variances,
            _updated(moments, effects, covariances, uncertainty, variances, least, fixed_noise),
        )
        change = np.abs(variances.of_tasks - before.of_tasks).max()
        if change <= _TOLERANCE * variances.of_tasks.max():
            break
    effects, _, _ = effects_given(moments, variances)
    return effects


def effects_given(
    moments: Moments, variances: Variances
) -> tuple[Effects, Float64Array, Float64Array]:
    """Return posterior means given the variances, and their uncertainty.

    Returns
    -------
    effects : Effects
    covariances : ndarray, shape (n_tasks, n_effects, n_effects)
        Posterior covariance of each task's effects, given the shared ones.
    uncertainty : ndarray, shape (n_effects, n_effects)
        Posterior covariance of the shared effects.
    """
    noise = variances.of_noise
    squares, products = moments.squares / noise, moments.products / noise
    covariances = np.linalg.inv(squares + np.diag(1.0 / variances.of_tasks)).astype(np.float64)
    reduced = squares @ covariances  # what the tasks' own effects explain
    of_shared = (squares - reduced @ squares).sum(axis=0)
    right = (products - np.einsum("tij,tj->ti", reduced, products)).sum(axis=0)
    prior = np.full(len(of_shared), 1.0 / variances.of_slopes)
    prior[0] = 0.0
    uncertainty = np.linalg.inv(of_shared + np.diag(prior)).astype(np.float64)
    shared = uncertainty @ right
    left = products - squares @ shared
    by_task = np.einsum("tij,tj->ti", covariances, left)
    return Effects(shared, by_task, variances), covariances, uncertainty


def _updated(
    moments: Moments,
    effects: Effects,
    covariances: Float64Array,
    uncertainty: Float64Array,
    variances: Variances,
    least: float,
    fixed_noise: bool,
) -> Variances:
    """Return the variances of one step of EM."""
    spread = np.einsum("tii->ti", covariances)
    of_tasks = np.maximum((effects.by_task**2 + spread).mean(axis=0), least)
    of_slopes = variances.of_slopes
    if len(effects.shared) > 1:
        squares = effects.shared[1:] ** 2 + np.diag(uncertainty)[1:]
        of_slopes = max(float(squares.mean()), least)
    noise = variances.of_noise
    if not fixed_noise:
        total = effects.shared + effects.by_task
        fitted = np.einsum("tij,tj->ti", moments.squares, total)
        left = moments.response_squares + (total * (fitted - 2.0 * moments.products)).sum(axis=1)
        left = left + np.einsum("tij,tji->t", moments.squares, covariances)
        noise = max(float(left.sum()) / moments.n_rows, least)
    return Variances(of_tasks, of_slopes, noise)
