# SPDX-License-Identifier: Apache-2.0
"""Expected gain of the best task split by chance, which task splits are penalised by.

Tasks that are all alike are simulated: G_t is normal with variance σ² H_t, σ = 1. Bounds of a ratio
lie at least four standard errors of the simulation from what was found, and seeds are fixed; with
others each test would fail in less than one of ten thousand runs.
"""

import numpy as np
import pytest
from oracle.naive_task_splits import best_gain, gain_by_chance


def mean_gain(hessians, n_nodes, seed=0):
    """Mean of s over nodes, and its standard error; hessians of shape (n_tasks,)."""
    rng = np.random.default_rng(seed)
    H = np.broadcast_to(hessians, (n_nodes, len(hessians)))
    gains = best_gain(rng.normal(size=H.shape) * np.sqrt(H), H)
    return gains.mean(), gains.std() / np.sqrt(n_nodes)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 10), (1, 1000)])
def test_the_law_is_exact_for_two_tasks(sizes):
    mean, error = mean_gain(np.array(sizes, float), 100_000)
    assert abs(mean - gain_by_chance(2)) < 4 * error


# Few tasks: the best of the divisions, not the one in the middle, counts.
@pytest.mark.parametrize(
    ("n_tasks", "least", "most"),
    [(3, 1.08, 1.16), (5, 1.09, 1.17), (10, 1.05, 1.13), (30, 1.0, 1.06), (300, 0.98, 1.02)],
)
def test_the_law_is_right_to_a_sixth_for_tasks_of_one_size(n_tasks, least, most):
    mean, _ = mean_gain(np.ones(n_tasks), 20_000 if n_tasks <= 30 else 2_000)
    assert least < mean / gain_by_chance(n_tasks) < most


# A division that suits tasks of one size does not suit those of another.
@pytest.mark.parametrize(
    ("n_decades", "n_tasks", "least"), [(1, 10, 0.9), (1, 100, 0.85), (2, 10, 0.8), (2, 100, 0.65)]
)
def test_the_law_asks_too_much_of_many_tasks_of_unequal_size(n_decades, n_tasks, least):
    sizes = 10 ** np.linspace(0, n_decades, n_tasks)
    mean, _ = mean_gain(sizes, 2_000)
    assert least < mean / gain_by_chance(n_tasks) < 1.1


def test_no_division_gains_more_than_those_by_order():
    rng = np.random.default_rng(0)
    G, H = rng.normal(size=(200, 6)), rng.exponential(size=(200, 6))
    every = []
    for subset in range(1, 2**6 - 1):
        is_left = np.array([subset >> task & 1 for task in range(6)], bool)
        left, right = (G[:, side].sum(1) ** 2 / H[:, side].sum(1) for side in (is_left, ~is_left))
        every.append(left + right - G.sum(1) ** 2 / H.sum(1))
    np.testing.assert_allclose(best_gain(G, H), np.max(every, axis=0), rtol=1e-10)
