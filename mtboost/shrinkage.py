"""Estimates of many tasks, shrunk towards their mean by how much of their spread is chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

DoubleArray = npt.NDArray[np.float64]
Known = npt.NDArray[np.bool_]


def shrunk_means(
    values: DoubleArray, variances: DoubleArray, known: Known
) -> tuple[DoubleArray, DoubleArray]:
    """Values that vary about a common mean, shrunk towards it by how much of that is chance.

    Each known value has a sampling variance; the variance τ² of the true values is estimated by
    moments (DerSimonian and Laird, 1986). A value that is not known is the common mean.

    Parameters
    ----------
    values, variances : ndarray of float64, shape (n,)
    known : ndarray of bool, shape (n,)

    Returns
    -------
    shrunk, errors : ndarrays of float64, shape (n,)
        Errors are the standard deviations of `shrunk` by sampling; infinite if nothing is known.
    """
    if not known.any():
        return np.zeros(len(values)), np.full(len(values), np.inf)
    found, sampling = values[known], np.maximum(variances[known], 1e-100)
    weights = 1.0 / sampling
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    excess = _q(found, weights) - (len(found) - 1)
    spread = max(0.0, excess / scale) if scale > 0.0 else 0.0
    weights = 1.0 / (sampling + spread)
    centre = np.average(found, weights=weights)
    of_centre = (weights**2 * sampling).sum() / weights.sum() ** 2
    own = spread * weights
    shrunk, errors = np.full(len(values), centre), np.full(len(values), np.sqrt(of_centre))
    shrunk[known] += own * (found - centre)
    errors[known] = np.sqrt(own**2 * sampling + (1.0 - own) ** 2 * of_centre)
    return shrunk, errors


def excess_spread(values: DoubleArray, variances: DoubleArray) -> float:
    """How much more the values differ than by chance, in standard deviations of Cochran's Q.

    With equal true values Q is about χ² with n - 1 degrees of freedom.
    """
    n_free = len(values) - 1
    if n_free <= 0:
        return 0.0
    q = _q(values, 1.0 / np.maximum(variances, 1e-100))
    return float((q - n_free) / np.sqrt(2.0 * n_free))


def _q(values: DoubleArray, weights: DoubleArray) -> float:
    """Cochran's Q: weighted squares about the weighted mean."""
    return float((weights * (values - np.average(values, weights=weights)) ** 2).sum())
