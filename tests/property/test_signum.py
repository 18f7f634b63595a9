# SPDX-License-Identifier: Apache-2.0
"""Signum: distribution of X, the formula of y, and what the importances mean."""

import numpy as np
import pytest
from property.draws import FEW, assert_independent_and_uniform

from mtboost.datasets import make_signum

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
    X = make_signum(N_ROWS, seed=2).X
    assert X.shape == (N_ROWS, 30)
    assert_independent_and_uniform(X, low=-1)


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
