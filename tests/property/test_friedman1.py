# SPDX-License-Identifier: Apache-2.0
"""Friedman1 families: distribution of X, outputs and noise, and dependence of the outputs."""

import pickle

import numpy as np
import pytest
from property.draws import FEW, assert_independent_and_uniform
from scipy import integrate
from sklearn.datasets import make_friedman1

from mtboost.datasets import make_friedman1_chain, make_friedman1_group, make_friedman1_ind

N_ROWS = 20_000
MAKERS = (make_friedman1_chain, make_friedman1_group, make_friedman1_ind)
every_family = pytest.mark.parametrize("make", MAKERS)


def all_bytes(data):
    return [data.X.tobytes(), data.y.tobytes(), data.expected_y.tobytes()]


def assert_covariance(noise, wanted):
    """The covariance of normal noise of mean 0; the variance of xy is v(x)v(y) + cov(x, y)²."""
    found = noise.T @ noise / len(noise)
    variance = np.diag(wanted)
    error = np.sqrt((np.outer(variance, variance) + wanted**2) / len(noise))
    assert (np.abs(found - wanted) < FEW * error).all()


# ---- the function ----


def test_mean_of_the_outputs_is_that_of_scikit_learns_friedman1():
    # The same columns in double precision; ours are float32 numbers, so that none is rounded.
    data = make_friedman1_group(500, n_outputs=1, noise=0, seed=1)
    random = type("Columns", (np.random.RandomState,), {"uniform": lambda *_, **__: data.X})()
    _, expected = make_friedman1(500, 5, noise=0.0, random_state=random)
    np.testing.assert_allclose(data.expected_y[:, 0], expected, rtol=1e-6)  # it stays in float32


def test_each_output_of_ind_reads_its_own_five_columns():
    data = make_friedman1_ind(50, n_outputs=3, seed=2)
    a, b, c, d, e = data.X[:, 5:10].astype(float).T
    expected = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    np.testing.assert_allclose(data.expected_y[:, 1], expected, rtol=1e-14)
    assert data.X.shape == (50, 15)


def test_expected_noise_output_is_the_mean_of_the_function():
    data = make_friedman1_group(1, n_outputs=1, n_noise_outputs=1)
    waves, _ = integrate.dblquad(lambda b, a: np.sin(np.pi * a * b), 0, 1, 0, 1)
    assert data.expected_y[0, 1] == pytest.approx(10 * waves + 20 / 12 + 10 / 2 + 5 / 2, rel=1e-9)


# ---- distribution ----


@every_family
def test_columns_are_independent_and_uniform(make):
    assert_independent_and_uniform(make(N_ROWS, n_outputs=2, seed=3).X)


@pytest.mark.parametrize("noise", [1.0, 0.3])
def test_noise_of_a_chain_adds_up(noise):
    data = make_friedman1_chain(N_ROWS, noise=noise, seed=4)
    steps = np.arange(1, 17)
    # Outputs j and k share the noise of the first min(j, k) draws.
    assert_covariance(data.y - data.expected_y, noise**2 * np.minimum.outer(steps, steps))
    assert (data.expected_y == data.expected_y[:, :1]).all()


@pytest.mark.parametrize("noise", [1.0, 0.3])
@pytest.mark.parametrize("make", [make_friedman1_group, make_friedman1_ind])
def test_noise_of_a_group_and_of_independent_outputs_is_independent(make, noise):
    data = make(N_ROWS, noise=noise, seed=5)
    assert_covariance(data.y - data.expected_y, noise**2 * np.eye(16))


def test_outputs_of_a_group_share_the_function_and_independent_ones_nothing():
    group = make_friedman1_group(N_ROWS, n_outputs=4, seed=6)
    assert (group.expected_y == group.expected_y[:, :1]).all()
    independent = make_friedman1_ind(N_ROWS, n_outputs=4, seed=6)
    # The correlation of independent variables has standard error 1/√n.
    correlation = np.corrcoef(independent.y.T) - np.eye(4)
    assert (np.abs(correlation) < FEW / np.sqrt(N_ROWS)).all()
    # Share of the function in the variance; its estimate has standard error (1 - ρ²)/√n.
    signal = group.expected_y[:, 0].var()
    share = signal / (signal + 1)
    shared = np.corrcoef(group.y.T)[np.triu_indices(4, 1)]
    assert (np.abs(shared - share) < FEW * (1 - share**2) / np.sqrt(N_ROWS)).all()


@every_family
def test_noise_outputs_are_permuted_outputs_that_know_nothing_of_the_row(make):
    data = make(N_ROWS, n_outputs=3, n_noise_outputs=2, seed=7)
    assert data.y.shape == data.expected_y.shape == (N_ROWS, 5)
    np.testing.assert_array_equal(np.sort(data.y[:, 3:], axis=0), np.sort(data.y[:, :2], axis=0))
    correlation = np.corrcoef(data.y.T)
    assert (np.abs(correlation[:3, 3:]) < FEW / np.sqrt(N_ROWS)).all()
    assert abs(correlation[3, 4]) < FEW / np.sqrt(N_ROWS)  # each has another permutation


# ---- sizes and seeds ----


@every_family
def test_sizes_are_those_of_the_source(make):
    data = make(n_noise_outputs=16)
    assert data.X.shape == (300, 80 if make is make_friedman1_ind else 5)
    assert data.y.shape == (300, 32)
    assert (data.X.dtype, data.y.dtype, data.expected_y.dtype) == (np.float32, float, float)
    assert all(part.flags.c_contiguous for part in (data.X, data.y, data.expected_y))
    assert repr(data) == f"ManyOutputs(300 rows x {data.X.shape[1]} features, 32 outputs)"


@every_family
def test_same_seed_gives_same_bytes_and_another_seed_others(make):
    first, again, other = (make(20, n_noise_outputs=4, seed=seed) for seed in (8, 8, 9))
    assert all_bytes(first) == all_bytes(again)
    assert all(a != b for a, b in zip(all_bytes(first), all_bytes(other), strict=True))


@every_family
def test_noise_outputs_leave_the_others_alone(make):
    without, some = (make(20, n_noise_outputs=n, seed=10) for n in (0, 5))
    np.testing.assert_array_equal(without.X, some.X)
    np.testing.assert_array_equal(without.y, some.y[:, :16])


@every_family
def test_one_row_and_one_output_will_do(make):
    data = make(1, n_outputs=1, n_noise_outputs=1, seed=11)
    assert data.y.shape == (1, 2)
    assert data.y[0, 0] == data.y[0, 1]


def test_outputs_survive_pickling():
    data = make_friedman1_ind(10, n_outputs=2, seed=12)
    assert all_bytes(pickle.loads(pickle.dumps(data))) == all_bytes(data)
