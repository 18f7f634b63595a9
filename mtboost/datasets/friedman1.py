# SPDX-License-Identifier: Apache-2.0
"""Friedman1 families: outputs that share all, some or nothing (joly2016, section 23.2.1).

All outputs are values of one function of five columns, the first regression problem of J. H.
Friedman (*Multivariate adaptive regression splines*, Annals of Statistics 19, 1991), and noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import LARGEST_SCALE, check_count, check_number, check_seed
from mtboost.base.docstrings import shares_docstring_of
from mtboost.errors import ParameterError

_N_COLUMNS = 5  # of one value of the function
# Its mean: 10 times the integral of sin(πst) over the unit square, 20/12, 10/2 and 5/2.
_MEAN = (
    10 / np.pi * (np.euler_gamma + np.log(np.pi) - special.sici(np.pi)[1])
    + 20 / 12
    + 10 / 2
    + 5 / 2
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ManyOutputs:
    """Rows with many outputs, and the prediction no model can beat.

    Rows are independent, so that any part of them, such as the first 300, is as good a sample as
    any other. (Of noise outputs that holds but for the permutation.)

    Attributes
    ----------
    X : ndarray of float32, shape (n_samples, n_features)
        Columns are independent and uniform on [0, 1).
    y : ndarray of float64, shape (n_samples, n_outputs + n_noise_outputs)
        Outputs, those that are nothing but noise last.
    expected_y : ndarray of float64, same shape
        Mean of each output given the row's X: the best prediction in squared error.
    """

    X: npt.NDArray[np.float32]
    y: Float64Array
    expected_y: Float64Array

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        return (
            f"{type(self).__name__}({n_rows} rows x {n_features} features, "
            f"{self.y.shape[1]} outputs)"
        )


def make_friedman1_chain(
    n_samples: int = 300,
    *,
    n_outputs: int = 16,
    n_noise_outputs: int = 0,
    noise: float = 1.0,
    seed: int = 0,
) -> ManyOutputs:
    """Outputs of which each is the one before it and further noise.

    The first output is f(X) with noise; output j has the noise of j draws. Given X all outputs have
    the same mean, of which the first one contains as much information as all of them together: best
    is one model of the first output, used for all.

    Parameters
    ----------
    n_samples : int
        Rows; the source trains on 300 and tests on 4000.
    n_outputs : int
        Outputs that depend on X.
    n_noise_outputs : int
        Further outputs, at most as many: each is the values of one output in a random order, so
        that it has their distribution and is independent of X.
    noise : float
        Standard deviation of each draw of noise, at least 0.
    seed : int
        Decides everything drawn. Same seed, same bytes (with the same NumPy on the same kind of
        machine); noise outputs leave the others as they are.

    Returns
    -------
    ManyOutputs
        5 features.

    Raises
    ------
    ParameterError
        A value is out of range.
    TypeError
        A value has the wrong type.

    Notes
    -----
    Section 23.2.1 seems to draw X from a normal distribution. Its scores fit uniform columns only,
    which is the distribution of the original problem and the one used here.

    Examples
    --------
    >>> from mtboost.datasets import make_friedman1_chain
    >>> data = make_friedman1_chain(100, n_outputs=4)
    >>> data.X.shape, data.y.shape
    ((100, 5), (100, 4))

    References
    ----------
    joly2016, eq. 6.35 to 6.37 (key in docs/papers.md).
    """
    X, deviations, order = _draw(n_samples, 1, n_outputs, n_noise_outputs, noise, seed)
    expected_y = np.repeat(_friedman1(X), n_outputs, axis=1)
    return _with_noise_outputs(X, expected_y, deviations.cumsum(axis=1), order)


@shares_docstring_of(make_friedman1_chain, sections=["Returns", "Raises"])
def make_friedman1_group(
    n_samples: int = 300,
    *,
    n_outputs: int = 16,
    n_noise_outputs: int = 0,
    noise: float = 1.0,
    seed: int = 0,
) -> ManyOutputs:
    """Outputs that are one function of X, each with independent noise.

    Best is one model of their mean, whose noise is √n_outputs times smaller, used for all.

    Examples
    --------
    >>> from mtboost.datasets import make_friedman1_group
    >>> data = make_friedman1_group(100, n_outputs=4)
    >>> data.X.shape, data.y.shape
    ((100, 5), (100, 4))

    References
    ----------
    joly2016, eq. 6.38 (key in docs/papers.md).
    """
    X, deviations, order = _draw(n_samples, 1, n_outputs, n_noise_outputs, noise, seed)
    expected_y = np.repeat(_friedman1(X), n_outputs, axis=1)
    return _with_noise_outputs(X, expected_y, deviations, order)


@shares_docstring_of(make_friedman1_chain, sections=["Raises"])
def make_friedman1_ind(
    n_samples: int = 300,
    *,
    n_outputs: int = 16,
    n_noise_outputs: int = 0,
    noise: float = 1.0,
    seed: int = 0,
) -> ManyOutputs:
    """Independent outputs: each depends on five columns that no other uses.

    Best is one model for each output.

    Returns
    -------
    ManyOutputs
        ``5 * n_outputs`` features; those of output j are columns 5j to 5j + 4.

    Examples
    --------
    >>> from mtboost.datasets import make_friedman1_ind
    >>> data = make_friedman1_ind(100, n_outputs=4)
    >>> data.X.shape, data.y.shape
    ((100, 20), (100, 4))

    References
    ----------
    joly2016, eq. 6.39 (key in docs/papers.md).
    """
    n_blocks = check_count("n_outputs", n_outputs, low=1)
    X, deviations, order = _draw(n_samples, n_blocks, n_outputs, n_noise_outputs, noise, seed)
    return _with_noise_outputs(X, _friedman1(X), deviations, order)


def _draw(
    n_samples: int, n_blocks: int, n_outputs: int, n_noise_outputs: int, noise: float, seed: int
) -> tuple[npt.NDArray[np.float32], Float64Array, npt.NDArray[np.intp]]:
    """X, noise of shape (n_samples, n_outputs), and the rows that each noise output is taken from.

    One stream for each of them, so that they do not change each other.
    """
    n_rows = check_count("n_samples", n_samples, low=1)
    n_outputs = check_count("n_outputs", n_outputs, low=1)
    n_noise_outputs = check_count("n_noise_outputs", n_noise_outputs)
    if n_noise_outputs > n_outputs:
        raise ParameterError(
            f"n_noise_outputs={n_noise_outputs} is more than n_outputs={n_outputs}, of which each "
            "is permuted once: lower one or raise the other."
        )
    noise = check_number("noise", noise, low=0.0, high=LARGEST_SCALE)
    streams = np.random.SeedSequence(check_seed(seed)).spawn(3)
    for_X, for_noise, for_order = map(np.random.default_rng, streams)
    order = np.tile(np.arange(n_rows)[:, np.newaxis], n_noise_outputs)
    return (
        for_X.random((n_rows, _N_COLUMNS * n_blocks), dtype=np.float32),
        for_noise.normal(0.0, noise, (n_rows, n_outputs)),
        for_order.permuted(order, axis=0),
    )


def _friedman1(X: npt.NDArray[np.float32]) -> Float64Array:
    """f of each five columns, shape (n_rows, n_columns / 5)."""
    blocks = X.astype(np.float64).reshape(len(X), -1, _N_COLUMNS)
    a, b, c, d, e = np.moveaxis(blocks, -1, 0)
    values: Float64Array = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return values


def _with_noise_outputs(
    X: npt.NDArray[np.float32],
    expected_y: Float64Array,
    deviations: Float64Array,
    order: npt.NDArray[np.intp],
) -> ManyOutputs:
    y = expected_y + deviations
    permuted = np.take_along_axis(y[:, : order.shape[1]], order, axis=0)
    return ManyOutputs(
        X=X,
        y=np.hstack([y, permuted]),
        expected_y=np.hstack([expected_y, np.full(permuted.shape, _MEAN)]),
    )
