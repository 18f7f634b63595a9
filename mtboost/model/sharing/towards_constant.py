# SPDX-License-Identifier: Apache-2.0
"""How far the chosen models are to be trusted: shrinkage of all predictions towards a constant.

The best of many models and numbers of rounds looks better on the rows that chose it than it is.
With few rows that gain can be chance alone, and the model is worse than a constant. A multiple of
the model's margins is therefore fitted to the held-out predictions, as in stacked regressions with
a constant as the other model (breiman1996), and shrunk as a coefficient of the nonnegative garrote
(breiman1995), by how many standard errors it is away from 0; with the fourth power in place of the
square, for a model far ahead would have been chosen from other rows too, and is hardly too good.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array

#: Standard errors of the coefficient below which as little as possible of the model is kept. The
#: best of m models without any signal is some sqrt(2 log m) ahead: 2.5 of 22 models, and more with
#: their rounds.
_CERTAIN = 3.0
#: So little of a model without any signal costs a hundredth of what the model costs. A constant
#: would lose the order of the rows.
LEAST = 0.1
_POWER = 4
#: A factor above it gains nothing that can be measured.
_ALMOST_ONE = 0.95
#: Standard errors that the held-out rows must lose by the factor, to do without.
_TOO_SMALL = 2.0


def garrote_factor(
    losses_at: Callable[[float], Float64Array],
    weights: Float64Array,
    groups: npt.NDArray[np.int64] | None = None,
    is_likelihood: bool = False,
) -> float:
    """Return what margins are to be multiplied by: b (1 - (3 s / b)⁴), from 0.1 to 1.

    The coefficient b minimises the mean loss, and s is its standard error by sampling of rows. The
    loss of each row is taken for a parabola, as that of squared error is. 0 where b is certainly
    negative. 1 where the held-out rows are certainly worse with the factor than without: a log loss
    flattens where classes are nearly certain, and the parabola has its least too early.

    Parameters
    ----------
    losses_at : function of a float, returns ndarray of float64, shape (n_rows,)
        Loss of each held-out row where its margin is this multiple of the way from the constant, 0,
        to the model's, 1.
    weights : ndarray of float64, shape (n_rows,)
    groups : ndarray of int64, shape (n_rows,), optional
        Rows with equal numbers count as one observation.
    is_likelihood : bool
        Whether losses are negative log-likelihoods of independent rows. The variance of their
        slopes is then the curvature, too: that of the rows themselves says little of a rare class,
        of which some few rows have most of it. The smaller of both counts.

    Returns
    -------
    float
        1 where the losses do not tell.
    """
    constant, half, model = map(losses_at, (0.0, 0.5, 1.0))
    slopes = 4.0 * half - model - 3.0 * constant
    curvatures = 4.0 * (constant - 2.0 * half + model)
    curvature = float(weights @ curvatures)
    if not np.isfinite(curvatures).all() or curvature <= 0.0:
        return 1.0
    coefficient = -float(weights @ slopes) / curvature
    scores = weights * (slopes + coefficient * curvatures)
    if groups is not None:
        scores = np.asarray(np.bincount(groups, scores), np.float64)
    variance = float((scores**2).sum())
    if is_likelihood and groups is None:
        variance = min(variance, max(0.0, float(weights**2 @ curvatures)))
    uncertain = _CERTAIN * np.sqrt(variance) / curvature
    if abs(coefficient) <= uncertain:
        return LEAST
    if coefficient < 0.0:
        return 0.0
    factor = max(LEAST, float(coefficient * (1.0 - (uncertain / coefficient) ** _POWER)))
    if factor >= _ALMOST_ONE or _is_certain(losses_at(factor) - model, weights, groups):
        return 1.0
    return factor


def _is_certain(
    gains: Float64Array, weights: npt.NDArray[np.floating], groups: npt.NDArray[np.int64] | None
) -> bool:
    """Whether the mean of the gains of rows is above 0 by enough standard errors."""
    mean = np.average(gains, weights=weights)
    deviations = weights * (gains - mean)
    if groups is not None:
        deviations = np.asarray(np.bincount(groups, deviations), np.float64)
    error = np.sqrt((deviations**2).sum()) / weights.sum()
    return bool(mean > _TOO_SMALL * error)


def factor_of_new_values(factor: float | None) -> float:
    """Return what values that are estimated from new rows are multiplied by.

    As those of the model are, but a model that is nearly a constant is continued as if it were one.
    """
    return 1.0 if factor is None or factor <= LEAST else factor
