# SPDX-License-Identifier: Apache-2.0
"""Random functions of uniform columns whose variances and covariances are known exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.errors import DataError

# Columns of a product, each with its number of half waves on [0, 1]: 1 falls, 2 is a U.
Term: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class CosineSum:
    """A weighted sum of products of waves √2 cos(π k x), at most one product of each kind.

    Products of different waves are orthonormal under independent columns that are uniform on
    [0, 1]. Their weights thus give means (0), variances and covariances without drawing a row.

    Attributes
    ----------
    weights : mapping of Term to float
        Factor of each product; a Term names its columns and their half waves k = 1, 2, ....
    """

    weights: Mapping[Term, float]

    def __call__(self, X: npt.ArrayLike, feature_names: Sequence[str]) -> Float64Array:
        """Values of rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, values in [0, 1].
        feature_names : sequence of str
            Name of each column of X, among them those of this function.

        Returns
        -------
        ndarray of float64, shape (n_rows,)

        Raises
        ------
        DataError
            X does not have a column for each name, or one that the function needs is missing.
        """
        rows: npt.NDArray[Any] = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(feature_names):
            raise DataError(
                f"X has shape {rows.shape}, but feature_names has {len(feature_names)} names: pass "
                "a table with a column for each name."
            )
        columns = dict(zip(feature_names, rows.T, strict=True))
        missing = {name for term in self.weights for name, _ in term} - set(columns)
        if missing:
            raise DataError(
                f"feature_names lacks {', '.join(sorted(missing))}, which this function needs."
            )
        values = np.zeros(len(rows))
        for term, weight in self.weights.items():
            waves = [np.sqrt(2) * np.cos(np.pi * k * columns[name]) for name, k in term]
            values += weight * np.prod(waves, axis=0)
        return values

    def covariance(self, other: CosineSum) -> float:
        """Compute the covariance of two functions of the same row; with itself, the variance.

        Parameters
        ----------
        other : CosineSum
            The other function.

        Returns
        -------
        float
            Exact under independent uniform columns.
        """
        return sum(weight * other.weights.get(term, 0.0) for term, weight in self.weights.items())


def mix(*parts: tuple[float, CosineSum]) -> CosineSum:
    """The functions, each times its factor, added."""
    weights: dict[Term, float] = {}
    for factor, function in parts:
        for term, weight in function.weights.items():
            weights[term] = weights.get(term, 0.0) + factor * weight
    return CosineSum(weights)


def draw_cosine_sum(
    columns: Sequence[str], rng: np.random.Generator, *, apart_from: CosineSum | None = None
) -> CosineSum:
    """A function of five random columns, of variance 1, with no term of another function.

    The shape is that of the friedman1 problem: a product of two columns, a U and monotone effects.
    Here every term has the same part of the variance, and a random sign. The two columns of the
    product also have main effects: trees split on one column at a time and would find the
    product alone by chance only.
    """
    taken = set() if apart_from is None else set(apart_from.weights)
    while True:
        a, b, c, d, e = map(str, rng.choice(columns, 5, replace=False))
        product = ((min(a, b), 1), (max(a, b), 1))
        terms: list[Term] = [((a, 1),), ((b, 1),), product, ((c, 2),), ((d, 1),), ((e, 1),)]
        signs = rng.choice([-1.0, 1.0], len(terms))
        if taken.isdisjoint(terms):
            return CosineSum(dict(zip(terms, signs / np.sqrt(len(terms)), strict=True)))
