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
from dataclasses import dataclass

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
#: Multiples between which a parabola is fitted to a log loss again, how near its least must be to
#: that of the parabola before, and how often it is sought.
_WIDTH, _FAR, _TOLERANCE, _PASSES = 0.1, 1.5, 0.01, 20


@dataclass(frozen=True, slots=True, eq=False)
class _Parabolas:
    """One through three losses of each row: slopes at the middle multiple, and curvatures."""

    middle: float
    slopes: Float64Array
    curvatures: Float64Array

    @classmethod
    def around(
        cls, losses_at: Callable[[float], Float64Array], middle: float, width: float
    ) -> _Parabolas:
        low, own, high = (losses_at(middle + step) for step in (-width, 0.0, width))
        curvatures = (low - 2.0 * own + high) / width**2
        return cls(middle, (high - low) / (2.0 * width), curvatures)

    def least(self, weights: npt.NDArray[np.floating]) -> float | None:
        """Return where their weighted sum has its least; None where it has none."""
        curvature = float(weights @ self.curvatures)
        if not np.isfinite(self.curvatures).all() or curvature <= 0.0:
            return None
        return self.middle - float(weights @ self.slopes) / curvature

    def scores(self, multiple: float) -> Float64Array:
        """Return the slopes of the rows at a multiple."""
        return self.slopes + (multiple - self.middle) * self.curvatures


def garrote_factor(
    losses_at: Callable[[float], Float64Array],
    weights: Float64Array,
    groups: npt.NDArray[np.int64] | None = None,
    is_likelihood: bool = False,
) -> float:
    """Return what margins are to be multiplied by: b (1 - (3 s / b)⁴), from 0.1 to 1.

    The coefficient b minimises the mean loss, and s is its standard error by sampling of rows. The
    loss of each row is taken for a parabola, as that of squared error is. A log loss flattens where
    classes are nearly certain, and such a parabola has its least too early: of likelihoods it is
    fitted again around the least of the one before. 0 where b is certainly negative.

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
    parabolas = _Parabolas.around(losses_at, 0.5, 0.5)
    coefficient = parabolas.least(weights)
    for _ in range(_PASSES if is_likelihood else 0):
        if coefficient is None or coefficient <= 0.0:
            break
        middle, before = float(np.clip(coefficient, _WIDTH, _FAR)), coefficient
        parabolas = _Parabolas.around(losses_at, middle, _WIDTH)
        coefficient = parabolas.least(weights)
        if coefficient is not None and abs(coefficient - before) <= _TOLERANCE:
            break
    if coefficient is None:
        return 1.0
    scores = weights * parabolas.scores(coefficient)
    if groups is not None:
        scores = np.asarray(np.bincount(groups, scores), np.float64)
    variance = float((scores**2).sum())
    if is_likelihood and groups is None:
        variance = min(variance, max(0.0, float(weights**2 @ parabolas.curvatures)))
    uncertain = _CERTAIN * np.sqrt(variance) / float(weights @ parabolas.curvatures)
    if abs(coefficient) <= uncertain:
        return LEAST
    if coefficient < 0.0:
        return 0.0
    factor = max(LEAST, float(coefficient * (1.0 - (uncertain / coefficient) ** _POWER)))
    return 1.0 if factor >= _ALMOST_ONE else factor


def factor_of_new_values(factor: float | None) -> float:
    """Return what values that are estimated from new rows are multiplied by.

    As those of the model are, but a model that is nearly a constant is continued as if it were one.
    """
    return 1.0 if factor is None or factor <= LEAST else factor
