# SPDX-License-Identifier: Apache-2.0
"""Families of tasks: how their signals are related, how many rows they have, and their noise.

Relations between tasks are checked exactly, through the covariances of their signals, and these
against drawn rows.
"""

import math
import pickle

import numpy as np
import pytest
from property.draws import FEW, assert_independent_and_uniform

import mtboost
from mtboost.datasets import CosineSum, make_task_family
from mtboost.datasets.cosine_sums import draw_cosine_sum, mix
from mtboost.errors import DataError, ParameterError

KINDS = ("same", "related", "clustered", "unrelated", "opposite", "outlier", "columns")
NAMES = ("p", "q", "r", "s", "t", "u")
NAMES_OF_TEN = tuple("abcdefghij")


def covariances(family):
    """Of the signals of any two tasks."""
    functions = list(family.function.values())
    return np.array([[f.covariance(g) for g in functions] for f in functions])


def all_bytes(family, task):
    return [of_task[task].tobytes() for of_task in (family.X, family.y, family.expected_y)]


def assert_mean_is(values, expected):
    """The mean of independent draws, by their own standard error."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - expected) < FEW * error).all()


# ---- functions of known variance ----


def test_values_are_the_weighted_products_of_waves():
    function = CosineSum({(("a", 1), ("b", 3)): 0.7, (("b", 2),): -2.0})
    X = np.array([[0.1, 0.9], [0.25, 0.5]])
    expected = [
        0.7 * 2 * np.cos(np.pi * a) * np.cos(3 * np.pi * b)
        - 2.0 * np.sqrt(2) * np.cos(2 * np.pi * b)
        for a, b in X
    ]
    np.testing.assert_allclose(function(X, ("a", "b")), expected, rtol=1e-13)
    np.testing.assert_allclose(function(X[:, ::-1], ("b", "a")), expected, rtol=1e-13)


def test_means_variances_and_covariances_are_those_of_drawn_rows():
    rng = np.random.default_rng(0)
    shared = draw_cosine_sum(NAMES, rng)
    functions = [mix((0.6, shared), (0.8, draw_cosine_sum(NAMES, rng))) for _ in range(4)]
    X = rng.random((100_000, len(NAMES)))
    values = np.column_stack([function(X, NAMES) for function in functions])
    assert_mean_is(values, 0.0)
    for first, of_first in zip(functions, values.T, strict=True):
        for second, of_second in zip(functions, values.T, strict=True):
            assert_mean_is(of_first * of_second, first.covariance(second))


def test_drawn_functions_have_variance_one_and_keep_apart():
    rng = np.random.default_rng(1)
    for _ in range(50):
        first = draw_cosine_sum(NAMES_OF_TEN, rng)
        second = draw_cosine_sum(NAMES_OF_TEN, rng, apart_from=first)
        assert first.covariance(first) == pytest.approx(1.0, rel=1e-12)  # six squares of 1 / √6
        assert first.covariance(second) == 0.0
        assert {name for term in first.weights for name, _ in term} <= set(NAMES_OF_TEN)


def test_functions_drawn_independently_have_no_covariance_on_average():
    rng = np.random.default_rng(2)
    pairs = [[draw_cosine_sum(NAMES, rng) for _ in range(2)] for _ in range(2000)]
    found = np.array([first.covariance(second) for first, second in pairs])
    assert found.std() > 0.1
    assert_mean_is(found, 0.0)


def test_a_function_refuses_rows_that_are_not_its_own():
    function = CosineSum({(("a", 1), ("b", 1)): 1.0})
    with pytest.raises(DataError, match=r"shape \(4, 3\), but feature_names has 2 names"):
        function(np.zeros((4, 3)), ("a", "b"))
    with pytest.raises(DataError, match="lacks b"):
        function(np.zeros((4, 2)), ("a", "c"))


# ---- how tasks are related ----


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_every_signal_has_variance_one_and_uses_columns_of_its_task(kind, seed):
    family = make_task_family(kind, seed=seed)
    np.testing.assert_allclose(np.diag(covariances(family)), 1.0, rtol=1e-12)
    for task, function in family.function.items():
        used = {name for term in function.weights for name, _ in term}
        assert used <= set(family.feature_names[task])
        assert family.X[task].shape[1] == len(family.feature_names[task])


def test_same_tasks_have_one_signal():
    np.testing.assert_allclose(covariances(make_task_family("same")), 1.0, rtol=1e-12)


def test_opposite_tasks_have_minus_the_signal_of_the_others():
    family = make_task_family("opposite", n_tasks=9, seed=1)
    sign = np.array([1, -1])[list(family.group.values())]
    assert sorted(sign) == [-1] * 4 + [1] * 5
    np.testing.assert_allclose(covariances(family), np.outer(sign, sign), rtol=1e-12)


def test_related_tasks_share_the_stated_part_of_their_variance():
    # Covariance is 1 - s, and s times that of two functions h, whose mean is 0. The mean over pairs
    # of tasks of one family is one draw: the pairs share their tasks.
    found = []
    for seed in range(200):
        family = make_task_family("related", n_tasks=6, n_rows=6, own_share=0.3, seed=seed)
        found.append(covariances(family)[np.triu_indices(6, 1)].mean())
    assert_mean_is(np.array(found), 0.7)


@pytest.mark.parametrize("own_share", [0.0, 1.0])
def test_without_a_share_tasks_are_the_same_and_with_all_of_it_unrelated(own_share):
    found = []
    for seed in range(200):
        family = make_task_family("related", n_tasks=4, n_rows=4, own_share=own_share, seed=seed)
        found.append(covariances(family)[np.triu_indices(4, 1)].mean())
    if own_share == 0:
        np.testing.assert_allclose(found, 1.0, rtol=1e-12)
    else:
        assert_mean_is(np.array(found), 0.0)


def test_unrelated_tasks_have_no_covariance_on_average():
    found = []
    for seed in range(200):
        family = make_task_family("unrelated", n_tasks=4, n_rows=4, seed=seed)
        found.append(covariances(family)[np.triu_indices(4, 1)].mean())
        assert list(family.group.values()) == [0, 1, 2, 3]
    assert_mean_is(np.array(found), 0.0)


@pytest.mark.parametrize("n_tasks", [8, 21])
def test_clustered_tasks_have_one_signal_in_a_group_and_share_a_part_with_others(n_tasks):
    found = []
    for seed in range(100):
        family = make_task_family(
            "clustered", n_tasks=n_tasks, n_rows=n_tasks, own_share=0.4, seed=seed
        )
        group = np.array(list(family.group.values()))
        assert np.ptp(np.bincount(group, minlength=4)) <= 1
        together = group[:, np.newaxis] == group
        covariance = covariances(family)
        np.testing.assert_allclose(covariance[together], 1.0, rtol=1e-12)
        found.append(covariance[~together].mean())
    assert_mean_is(np.array(found), 0.6)


def test_outliers_are_one_opposite_task_and_one_unrelated_to_the_shared_signal():
    opposite, unrelated = [], []
    for seed in range(200):
        family = make_task_family("outlier", n_tasks=8, n_rows=8, own_share=0.2, seed=seed)
        group = np.array(list(family.group.values()))
        assert sorted(group) == [0] * 6 + [1, 2]
        covariance = covariances(family)
        opposite.append(covariance[group == 1][:, group == 0].mean())
        unrelated.append(covariance[group == 2][:, group == 0].mean())
        # One is opposite in what the related tasks share, however their own parts fall.
        assert covariance[group == 1][:, group == 0].max() < 0
    assert_mean_is(np.array(opposite), -0.8)
    assert_mean_is(np.array(unrelated), 0.0)


def test_outliers_may_be_tasks_of_any_size():
    outliers = {
        task
        for seed in range(60)
        for task, group in make_task_family("outlier", n_tasks=4, n_rows=9, seed=seed).group.items()
        if group
    }
    # A task is spared 60 times with probability 2 ** -60.
    assert len(outliers) == 4


def test_columns_of_a_group_are_its_own_and_carry_the_stated_part():
    family = make_task_family("columns", own_share=0.3, seed=3)
    common = tuple(f"x{number}" for number in range(1, 11))
    group = np.array(list(family.group.values()))
    together = group[:, np.newaxis] == group
    np.testing.assert_allclose(covariances(family), np.where(together, 1.0, 0.7), rtol=1e-12)
    for task, names in family.feature_names.items():
        assert names[:10] == common
        assert len(names) == 15
        for other, own in family.feature_names.items():
            is_same_group = family.group[task] == family.group[other]
            assert len(set(names) & set(own)) == (15 if is_same_group else 10)
        weights = family.function[task].weights
        of_own = sum(w**2 for term, w in weights.items() if not {n for n, _ in term} & set(common))
        assert of_own == pytest.approx(0.3, rel=1e-12)


# ---- sizes ----


def test_balanced_tasks_have_as_many_rows_up_to_one():
    counts = [len(y) for y in make_task_family("same", n_tasks=7, n_rows=100).y.values()]
    assert counts == [15, 15, 14, 14, 14, 14, 14]


@pytest.mark.parametrize(("n_tasks", "n_rows"), [(4, 9), (20, 4000), (50, 4001), (13, 997)])
def test_zipf_sizes_fall_as_one_over_the_number_of_the_task(n_tasks, n_rows):
    family = make_task_family("same", n_tasks=n_tasks, n_rows=n_rows, sizes="zipf")
    counts = np.array([len(y) for y in family.y.values()])
    number = np.arange(1, n_tasks + 1)
    exact = n_rows / number / (1 / number).sum()
    assert counts.sum() == n_rows
    assert (np.abs(counts - exact) < 1).all()
    assert (np.diff(counts) <= 0).all()


def test_sizes_of_the_docstring():
    counts = [len(y) for y in make_task_family("same", sizes="zipf").y.values()]
    assert (max(counts), min(counts)) == (1112, 56)


# ---- rows, labels and noise ----


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_labels_are_the_signal_and_noise(noise):
    family = make_task_family("related", n_rows=40_000, noise=noise, seed=4)
    for task, X in family.X.items():
        signal = family.function[task](X, family.feature_names[task])
        np.testing.assert_array_equal(signal, family.expected_y[task])
        residual = family.y[task] - signal
        for values in (np.ones(len(X)), X[:, 0], signal):
            assert_mean_is(residual * values, 0.0)
        assert_mean_is(residual**2, noise**2)


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_classes_have_the_stated_probability(noise):
    family = make_task_family("related", n_rows=40_000, noise=noise, classification=True, seed=5)
    latent = make_task_family("related", n_rows=40_000, noise=noise, seed=5)
    for task, X in family.X.items():
        y, expected = family.y[task], family.expected_y[task]
        assert y.dtype == np.int64
        np.testing.assert_array_equal(y, latent.y[task] > 0)
        for values in (np.ones(len(X)), X[:, 0], expected > 0.5):
            assert_mean_is((y - expected) * values, 0.0)


@pytest.mark.parametrize("classification", [False, True])
def test_without_noise_the_mean_is_the_label(classification):
    family = make_task_family("opposite", noise=0, classification=classification, seed=6)
    for task, y in family.y.items():
        np.testing.assert_array_equal(y, family.expected_y[task])


def test_columns_are_independent_and_uniform():
    family = make_task_family("columns", n_rows=80_000, seed=7)
    for X in family.X.values():
        assert X.dtype == np.float32
        assert_independent_and_uniform(X)


# ---- seeds and new rows ----


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_gives_same_bytes_and_another_seed_others(kind):
    first, again, other = (make_task_family(kind, n_rows=200, seed=seed) for seed in (3, 3, 4))
    for task in first.X:
        assert all_bytes(first, task) == all_bytes(again, task)
        assert all(
            a != b for a, b in zip(all_bytes(first, task), all_bytes(other, task), strict=True)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_noise_leave_functions_and_groups_alone(kind):
    first = make_task_family(kind, seed=8)
    other = make_task_family(kind, n_rows=3000, sizes="zipf", noise=0, classification=True, seed=8)
    assert first.group == other.group
    for task, function in first.function.items():
        assert function.weights == other.function[task].weights


def test_new_rows_are_of_the_same_tasks_and_no_training_rows():
    family = make_task_family("columns", n_rows=400, classification=True, seed=9)
    fresh = family.draw(50, seed=9)
    assert repr(fresh) == "TaskFamily(20 tasks of 50 to 50 rows, 30 features)"
    assert fresh.is_classification
    assert fresh.group == family.group
    for task, X in fresh.X.items():
        assert fresh.function[task] is family.function[task]
        assert not set(map(bytes, X)) & set(map(bytes, family.X[task]))
        np.testing.assert_allclose(
            fresh.expected_y[task],
            normal_distribution(family.function[task](X, family.feature_names[task])),
            rtol=1e-12,
        )
        assert all_bytes(family.draw(50, seed=9), task) == all_bytes(fresh, task)
        assert all_bytes(family.draw(50, seed=10), task) != all_bytes(fresh, task)


def normal_distribution(values):
    """Φ, by the error function of the standard library."""
    return [(1 + math.erf(value / 2**0.5)) / 2 for value in values]


def test_one_table_has_all_columns_and_nan_where_a_task_has_none():
    family = make_task_family("columns", n_rows=40, seed=10)
    table, y, task = family.in_one_table()
    assert table.shape == (40, 30)
    names = list(dict.fromkeys(sum(family.feature_names.values(), ())))
    start = 0
    for own, X in family.X.items():
        rows = slice(start, start := start + len(X))
        assert (task[rows] == own).all()
        np.testing.assert_array_equal(y[rows], family.y[own])
        for column, name in enumerate(names):
            if name in family.feature_names[own]:
                expected = X[:, family.feature_names[own].index(name)]
                np.testing.assert_array_equal(table[rows, column], expected)
            else:
                assert np.isnan(table[rows, column]).all()


def test_a_family_is_what_fit_takes():
    family = make_task_family("columns", n_rows=400, seed=11)
    model = mtboost.fit(
        family.X,
        family.y,
        feature_names=family.feature_names,
        num_boost_round=2,
        n_threads=1,
        strategy="two-stage",
    )
    assert set(model.tasks) == set(family.X)


def test_families_survive_pickling():
    family = make_task_family("clustered", n_rows=100)
    again = pickle.loads(pickle.dumps(family))
    for task in family.X:
        assert all_bytes(again, task) == all_bytes(family, task)
        assert all_bytes(again.draw(5), task) == all_bytes(family.draw(5), task)


# ---- wrong arguments ----


def test_new_rows_refuse_what_makes_no_sense():
    family = make_task_family("same", n_rows=20)
    with pytest.raises(ParameterError, match="n_rows must be an integer >= .*found 0"):
        family.draw(0)
    with pytest.raises(TypeError, match="seed must be an integer"):
        family.draw(1, seed=1.5)
