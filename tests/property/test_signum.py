# SPDX-License-Identifier: Apache-2.0
"""Signum: distribution of X, the formula of y, and what the importances mean.

Seeds are fixed, so each test passes or fails for good. ``FEW`` standard errors of a sum of
independent draws are exceeded by a right generator with probability 6e-7 in one comparison (normal
approximation, two-sided).
"""

import numpy as np
import pytest

from mtboost.datasets import make_signum

FEW = 5.0
N_ROWS = 20_000


def sign(x):
    return 1 if x > 0 else -1


def test_labels_are_the_formula_row_by_row():
    data = make_signum(40, n_groups=3, group_size=4, beta=0.7, gamma=2.5, seed=1)
    for row, label in zip(data.X, data.y, strict=True):
        votes = [sum(sign(x) for x in row[4 * i : 4 * i + 4]) for i in range(3)]
        expected = 2.5 * sum(0.7 ** (i + 1) * sign(vote) for i, vote in enumerate(votes))
        assert label == pytest.approx(expected, rel=1e-14)


def test_columns_are_independent_and_uniform():
    X = make_signum(N_ROWS, seed=2).X.astype(float)
    assert X.shape == (N_ROWS, 30)
    assert X.min() >= -1
    assert X.max() < 1
    assert (np.abs(X.mean(axis=0)) < FEW * np.sqrt(1 / 3 / N_ROWS)).all()
    # x² has mean 1/3 and variance 1/5 - 1/9; the product of two columns mean 0 and variance 1/9.
    error = np.full((30, 30), np.sqrt(1 / 9 / N_ROWS))
    np.fill_diagonal(error, np.sqrt((1 / 5 - 1 / 9) / N_ROWS))
    assert (np.abs(X.T @ X / N_ROWS - np.eye(30) / 3) < FEW * error).all()


def test_importances_are_the_groups_parts_of_the_variance():
    data = make_signum(N_ROWS, n_groups=4, beta=0.6, gamma=3.0, seed=3)
    c = 0.6 ** np.arange(1, 5)
    np.testing.assert_allclose(data.importance, np.repeat(c**2, 3), rtol=1e-14)
    # The groups add independent numbers ±γc: fourth cumulant of each -2 (γc)⁴.
    variance = 9 * (c**2).sum()
    fourth = 3 * variance**2 - 2 * 81 * (c**4).sum()
    error = np.sqrt((fourth - variance**2) / N_ROWS)
    assert abs((data.y**2).mean() - variance) < FEW * error


def test_gamma_scales_labels_and_nothing_else():
    one, two = make_signum(50, gamma=1.0, seed=4), make_signum(50, gamma=2.0, seed=4)
    assert one.X.tobytes() == two.X.tobytes()
    assert (2 * one.y == two.y).all()
    assert (one.importance == two.importance).all()


def test_seed_decides():
    first, again, other = (make_signum(20, seed=seed) for seed in (5, 5, 6))
    assert first.X.tobytes() == again.X.tobytes()
    assert first.X.tobytes() != other.X.tobytes()
    assert repr(first) == "Signum(20 rows x 30 features)"
