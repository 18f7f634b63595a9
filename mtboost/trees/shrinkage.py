# SPDX-License-Identifier: Apache-2.0
"""Estimates of many tasks, shrunk towards their mean by how much of their spread is chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import chdtri

from mtboost.base.arrays import Float64Array

Known = npt.NDArray[np.bool_]

_LEAST_VARIANCE = 1e-100  # of values that are certain


@dataclass(frozen=True, slots=True)
class Population:
    """True values that vary about a mean.

    Attributes
    ----------
    mean : float
    spread : float
        Variance τ² of the true values.
    variance : float
        Sampling variance of `mean`.
    """

    mean: float
    spread: float
    variance: float

    def shrunk(self, values: Float64Array, variances: Float64Array) -> Float64Array:
        """Values with sampling variances, as far from the mean as they are not chance."""
        return self.mean + self._own(variances) * (values - self.mean)

    def errors(self, variances: Float64Array) -> Float64Array:
        """Standard deviations of shrunk values by sampling."""
        own = self._own(variances)
        return np.asarray(np.sqrt(own**2 * variances + (1.0 - own) ** 2 * self.variance))

    def _own(self, variances: Float64Array) -> Float64Array:
        return np.asarray(self.spread / (variances + self.spread))


def estimate_population(values: Float64Array, variances: Float64Array) -> Population:
    """Mean and spread of values with sampling variances, by moments (DerSimonian and Laird, 1986).

    Parameters
    ----------
    values, variances : ndarray of float64, shape (n,), n > 0
    """
    variances = np.maximum(variances, _LEAST_VARIANCE)
    weights = 1.0 / variances
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    excess = _q(values, weights) - (len(values) - 1)
    spread = max(0.0, float(excess / scale)) if scale > 0.0 else 0.0
    return _population(values, variances, spread)


def bound_population(
    values: Float64Array, variances: Float64Array, confidence: float
) -> Population:
    """Mean, and an upper confidence bound of the spread, for values that are normal.

    The bound is the τ² for which Cochran's Q with weights 1/(variance + τ²) is the quantile at
    1 - `confidence` of its distribution, χ² with n - 1 degrees of freedom; 0 if Q is smaller
    at τ² = 0. The estimate by moments is often far too small for a few values. It also has the
    weights of τ² = 0, with which a value of large variance hardly counts.

    Parameters
    ----------
    values, variances : ndarray of float64, shape (n,), n > 0
    confidence : float in (0, 1)

    References
    ----------
    viechtbauer2007, Q-profile intervals (key in docs/papers.md).
    """
    variances = np.maximum(variances, _LEAST_VARIANCE)
    if len(values) == 1:
        return _population(values, variances, 0.0)
    target = float(chdtri(len(values) - 1, confidence))
    # With all weights at most 1/τ², Q is at most the plain sum of squares over τ².
    largest = float(((values - values.mean()) ** 2).sum()) / target

    def excess(share: float) -> float:
        return _q(values, 1.0 / (variances + share * largest)) - target

    if excess(0.0) <= 0.0:
        return _population(values, variances, 0.0)
    share = brentq(excess, 0.0, 1.0, xtol=1e-15) if excess(1.0) < 0.0 else 1.0
    return _population(values, variances, share * largest)


def _population(values: Float64Array, variances: Float64Array, spread: float) -> Population:
    """Population of known spread."""
    weights = 1.0 / (variances + spread)
    mean = float(np.average(values, weights=weights))
    return Population(mean, spread, float((weights**2 * variances).sum() / weights.sum() ** 2))


def shrunk_means(
    values: Float64Array, variances: Float64Array, known: Known
) -> tuple[Float64Array, Float64Array]:
    """Values that vary about a common mean, shrunk towards it by how much of that is chance.

    A value that is not known is the common mean.

    Parameters
    ----------
    values, variances : ndarray of float64, shape (n,)
        Each known value has a sampling variance.
    known : ndarray of bool, shape (n,)

    Returns
    -------
    shrunk, errors : ndarrays of float64, shape (n,)
        Errors are the standard deviations of `shrunk` by sampling; infinite if nothing is known.
    """
    if not known.any():
        return np.zeros(len(values)), np.full(len(values), np.inf)
    population = estimate_population(values[known], variances[known])
    shrunk = np.full(len(values), population.mean)
    errors = np.full(len(values), np.sqrt(population.variance))
    own = np.maximum(variances[known], _LEAST_VARIANCE)
    shrunk[known] = population.shrunk(values[known], own)
    errors[known] = population.errors(own)
    return shrunk, errors


def excess_spread(values: Float64Array, variances: Float64Array) -> float:
    """Return the excess of Cochran's Q over its mean by chance, in its standard deviations.

    With equal true values Q is about χ² with n - 1 degrees of freedom.
    """
    n_free = len(values) - 1
    if n_free <= 0:
        return 0.0
    q = _q(values, 1.0 / np.maximum(variances, _LEAST_VARIANCE))
    return float((q - n_free) / np.sqrt(2.0 * n_free))


def _q(values: Float64Array, weights: Float64Array) -> float:
    """Cochran's Q: weighted squares about the weighted mean."""
    return float((weights * (values - np.average(values, weights=weights)) ** 2).sum())
