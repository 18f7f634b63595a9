# SPDX-License-Identifier: Apache-2.0
"""Linear problems that depend on the same few of many columns (eruhimov2007, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count, check_seed


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SharedLinear:
    """Problems with the same informative columns, each with different coefficients.

    Rows are independent, so that any part of those of a problem is as good a sample as any other.

    Attributes
    ----------
    X : ndarray of float32, shape (n_problems, n_rows, n_features)
        Columns are independent and uniform on [0, 1); the informative ones come first.
    y : ndarray of float64, shape (n_problems, n_rows)
        ``X @ coefficients`` of each problem: there is no noise.
    coefficients : ndarray of float64, shape (n_problems, n_features)
        Uniform on [0, 1) for informative columns, 0 for the others.
    """

    X: npt.NDArray[np.float32]
    y: Float64Array
    coefficients: Float64Array

    @property
    def problems(self) -> list[tuple[npt.NDArray[np.float32], Float64Array]]:
        """X and y of each problem, as :func:`mtboost.feature_prior` takes them."""
        return list(zip(self.X, self.y, strict=True))

    def __repr__(self) -> str:
        n_problems, n_rows, n_features = self.X.shape
        return (
            f"{type(self).__name__}({n_problems} problems x {n_rows} rows x {n_features} features)"
        )


def make_shared_linear(
    n_problems: int = 10,
    n_rows: int = 100,
    *,
    n_informative: int = 4,
    n_noise: int = 100,
    seed: int = 0,
) -> SharedLinear:
    """Regression problems whose labels are sums of the same few columns, in other proportions.

    One problem has too few rows to distinguish its informative columns from noise; all together
    have enough.

    Parameters
    ----------
    n_problems : int
        Problems.
    n_rows : int
        Rows of each; take twice as many as you train on, and test on the rest.
    n_informative, n_noise : int
        Columns that labels depend on, and that they do not.
    seed : int
        Decides everything drawn. Same seed, same bytes (with the same NumPy on the same kind of
        machine).

    Returns
    -------
    SharedLinear
        ``n_informative + n_noise`` features.

    Raises
    ------
    ParameterError
        A value is out of range.
    TypeError
        A value has the wrong type.

    Examples
    --------
    >>> from mtboost.datasets import make_shared_linear
    >>> data = make_shared_linear(n_problems=3, n_rows=50, n_informative=4, n_noise=6)
    >>> [X.shape for X, y in data.problems]
    [(50, 10), (50, 10), (50, 10)]

    References
    ----------
    eruhimov2007, section 4.2 (key in docs/papers.md).
    """
    n_problems = check_count("n_problems", n_problems, low=1)
    n_rows = check_count("n_rows", n_rows, low=1)
    n_informative = check_count("n_informative", n_informative, low=1)
    n_features = n_informative + check_count("n_noise", n_noise, low=0)
    streams = np.random.SeedSequence(check_seed(seed)).spawn(2)
    for_X, for_coefficients = map(np.random.default_rng, streams)
    X = for_X.random((n_problems, n_rows, n_features), dtype=np.float32)
    coefficients = np.zeros((n_problems, n_features))
    coefficients[:, :n_informative] = for_coefficients.random((n_problems, n_informative))
    y = np.einsum("prf,pf->pr", X, coefficients)
    return SharedLinear(X=X, y=y, coefficients=coefficients)
