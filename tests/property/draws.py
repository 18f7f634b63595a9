# SPDX-License-Identifier: Apache-2.0
"""What generators of data sets draw, against its distribution.

Seeds are fixed, so each test passes or fails for good. ``FEW`` standard errors of a sum of
independent draws are exceeded by a right generator with probability 6e-7 in one comparison (normal
approximation, two-sided).
"""

import numpy as np

FEW = 5.0


def assert_independent_and_uniform(X, low=0.0, high=1.0):
    """Ranges, means, variances and covariances of columns."""
    n_rows, n_columns = X.shape
    assert X.min() >= low
    assert X.max() < high
    centered = (X.astype(float) - (low + high) / 2) / (high - low)
    assert (np.abs(centered.mean(axis=0)) < FEW * np.sqrt(1 / 12 / n_rows)).all()
    # A square has mean 1/12 and variance 1/80 - 1/144, a product of two mean 0, variance 1/144.
    error = np.full((n_columns, n_columns), np.sqrt(1 / 144 / n_rows))
    np.fill_diagonal(error, np.sqrt((1 / 80 - 1 / 144) / n_rows))
    found = centered.T @ centered / n_rows
    assert (np.abs(found - np.eye(n_columns) / 12) < FEW * error).all()
