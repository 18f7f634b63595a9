# SPDX-License-Identifier: Apache-2.0
"""Signum: groups of columns, each half as important as the one before it (eruhimov2007)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import LARGEST_SCALE, check_count, check_number, check_seed


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Signum:
    """Rows whose label is a sum of votes, and how important each column is.

    Rows are independent, so that any part of them is as good a sample as any other.

    Attributes
    ----------
    X : ndarray of float32, shape (n_samples, n_features)
        Columns are independent and uniform on [-1, 1), those of a group side by side.
    y : ndarray of float64, shape (n_samples,)
        There is no noise: X decides it.
    importance : ndarray of float64, shape (n_features,)
        c² of the column's group, which is γ⁻² times the group's part of the variance of y (for an
        odd `group_size`): the prior of the source.
    """

    X: npt.NDArray[np.float32]
    y: Float64Array
    importance: Float64Array

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        return f"{type(self).__name__}({n_rows} rows x {n_features} features)"


def make_signum(
    n_samples: int = 100,
    *,
    n_groups: int = 10,
    group_size: int = 3,
    beta: float = 0.5,
    gamma: float = 1.0,
    seed: int = 0,
) -> Signum:
    """Labels to which each group of columns adds the sign of its majority.

    y = γ Σ c_i sign(Σ sign(x_j)), the outer sum over the groups, the inner one over the columns of
    group i, and c_i = β^i, i = 1, 2, .... Trees find the first groups and mistake noise for the
    others when rows are few; who knows the importances does not.

    Parameters
    ----------
    n_samples : int
        Rows; the source trains on up to several hundred and tests on 10,000.
    n_groups, group_size : int
        Groups, and columns in each of them.
    beta : float
        c of each group divided by that of the group before it, from 0 to 1.
    gamma : float
        Factor on all labels, at least 0: problems that differ in it alone are related as closely as
        can be.
    seed : int
        Decides X. Same seed, same bytes (with the same NumPy on the same kind of machine).

    Returns
    -------
    Signum
        ``n_groups * group_size`` features.

    Raises
    ------
    ParameterError
        A value is out of range.
    TypeError
        A value has the wrong type.

    Notes
    -----
    sign(0) is -1 (eq. 4). In a group of even size votes can be equal, so that its mean is not 0.

    Examples
    --------
    >>> from mtboost.datasets import make_signum
    >>> data = make_signum(50, n_groups=2, group_size=3)
    >>> data.importance.tolist()
    [0.25, 0.25, 0.25, 0.0625, 0.0625, 0.0625]

    References
    ----------
    eruhimov2007, eq. 3 and 4 (key in docs/papers.md).
    """
    n_rows = check_count("n_samples", n_samples, low=1)
    n_groups = check_count("n_groups", n_groups, low=1)
    group_size = check_count("group_size", group_size, low=1)
    beta = check_number("beta", beta, low=0.0, high=1.0)
    gamma = check_number("gamma", gamma, low=0.0, high=LARGEST_SCALE)
    rng = np.random.default_rng(check_seed(seed))
    X = 2 * rng.random((n_rows, n_groups * group_size), dtype=np.float32) - 1
    c = float(beta) ** np.arange(1, n_groups + 1)
    votes = _sign(X).reshape(n_rows, n_groups, group_size).sum(axis=2)
    return Signum(X=X, y=gamma * (_sign(votes) @ c), importance=np.repeat(c**2, group_size))


def _sign(values: npt.NDArray[np.floating]) -> Float64Array:
    return np.where(values > 0, 1.0, -1.0)
