# SPDX-License-Identifier: Apache-2.0
"""Gains of trees whose leaves have got other values."""

import numpy as np
import pytest

from mtboost.model.inputs.libraries import get_backend
from mtboost.trees.leaf_gains import Splits, gains_of_values

_rng = np.random.default_rng(0)
X = _rng.normal(size=(400, 3))
Y = X[:, 0] + np.sign(X[:, 1]) + _rng.normal(size=400)
NO_PENALTY = {"xgboost": {"reg_lambda": 0.0}, "lightgbm": {"lambda_l2": 0.0}}


@pytest.fixture
def document(library):
    params = {"max_depth": 4, "learning_rate": 0.3, **NO_PENALTY[library.name]}
    return get_backend(library.name).document(library.train(params, X, Y, 5))


def total_gains(backend, document):
    booster = document.first_rounds(5)
    return backend.importance(booster, "total_gain")


def test_values_twice_as_large_gain_four_times_as_much(library, document):
    # Without a penalty a node's value is the mean of its leaves, and the formula is the library's.
    backend = get_backend(library.name)
    values = document.leaf_values()
    twice = total_gains(backend, document.with_leaf_values([2 * own for own in values]))
    expected = {name: 4 * gain for name, gain in total_gains(backend, document).items()}
    assert twice == pytest.approx(expected, rel=1e-4)


def test_leaves_of_one_value_gain_nothing(library, document):
    backend = get_backend(library.name)
    ones = [np.ones_like(own) for own in document.leaf_values()]
    found = total_gains(backend, document.with_leaf_values(ones))
    assert sum(found.values()) == pytest.approx(0.0, abs=1e-9)


def test_the_same_values_keep_the_gains(library, document):
    backend = get_backend(library.name)
    same = document.with_leaf_values(document.leaf_values())
    assert total_gains(backend, same) == total_gains(backend, document)


def tree(values, gains=(0.0, 0.0), covers=(2.0, 1.0, 3.0)):
    """A root, whose left child is a leaf, and whose right one is split."""
    return Splits(
        left=np.array([1, -1, 3, -1, -1]),
        right=np.array([2, -1, 4, -1, -1]),
        cover=np.array([0.0, covers[0], 0.0, covers[1], covers[2]]),
        value=np.array([9.0, values[0], 9.0, values[1], values[2]]),
        gain=np.array([gains[0], 9.0, gains[1], 9.0, 9.0]),
    )


def test_gains_are_weighted_squares_of_differences():
    # The right child has the mean (1 · 1 + 3 · 5) / 4 = 4.
    by_hand = np.array([2 * 4 / 6 * (0 - 4) ** 2, 1 * 3 / 4 * (1 - 5) ** 2])
    before = tree((0.0, 0.0, 4.0), gains=(2 * 4 / 6 * 3**2, 1 * 3 / 4 * 4**2))
    (found,) = gains_of_values([before], [tree((0.0, 1.0, 5.0))])
    np.testing.assert_allclose(found[[0, 2]], by_hand)
    np.testing.assert_array_equal(found[[1, 3, 4]], 0.0)


def test_leaves_without_rows_gain_nothing():
    before = tree((0.0, 1.0, 2.0), gains=(1.0, 1.0), covers=(0.0, 0.0, 3.0))
    (found,) = gains_of_values([before], [tree((5.0, 6.0, 7.0), covers=(0.0, 0.0, 3.0))])
    np.testing.assert_array_equal(found, 0.0)
    assert gains_of_values([], []) == []
