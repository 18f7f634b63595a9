# SPDX-License-Identifier: Apache-2.0
"""Linear problems with shared columns: distribution of X and coefficients, and the labels."""

import numpy as np
from property.draws import assert_independent_and_uniform

from mtboost.datasets import make_shared_linear


def test_shapes_are_those_of_the_source_by_default():
    data = make_shared_linear()
    assert data.X.shape == (10, 100, 104)
    assert data.y.shape == (10, 100)
    assert data.coefficients.shape == (10, 104)
    assert repr(data) == "SharedLinear(10 problems x 100 rows x 104 features)"


def test_labels_are_sums_of_the_informative_columns():
    data = make_shared_linear(3, 20, n_informative=2, n_noise=5, seed=1)
    assert (data.coefficients[:, 2:] == 0).all()
    assert (data.coefficients[:, :2] > 0).all()
    for (X, y), coefficients in zip(data.problems, data.coefficients, strict=True):
        expected = [sum(c * float(x) for c, x in zip(coefficients, row, strict=True)) for row in X]
        np.testing.assert_allclose(y, expected, rtol=1e-13)


def test_columns_and_coefficients_are_independent_and_uniform():
    data = make_shared_linear(2000, 5, n_informative=3, n_noise=2, seed=2)
    assert_independent_and_uniform(data.X.reshape(-1, 5))
    assert_independent_and_uniform(data.coefficients[:, :3])


def test_seed_decides():
    first, again, other = (make_shared_linear(2, 9, seed=seed) for seed in (3, 3, 4))
    for name in ("X", "y", "coefficients"):
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
        assert getattr(first, name).tobytes() != getattr(other, name).tobytes()
