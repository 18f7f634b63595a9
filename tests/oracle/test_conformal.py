# SPDX-License-Identifier: Apache-2.0
"""Quantiles of conformity scores per task against a twin in loops, and by their definition."""

import math

import numpy as np
import pytest
from oracle.naive_conformal import naive_quantiles

from mtboost.model.prediction.conformal import task_quantiles
from mtboost.trees.shrinkage import bound_population

SIZES = [0, 1, 2, 3, 7, 20, 60, 300]


def drawn(seed):
    """Scores of tasks of different sizes, whose scales differ not at all, little or much."""
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.0, 0.5, 2.0])
    return [
        np.abs(rng.normal(size=rng.choice(SIZES))) * np.exp(spread * rng.normal())
        for _ in range(rng.integers(1, 9))
    ]


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_quantiles_are_those_of_the_twin(alpha):
    for seed in range(10):
        scores = drawn(seed)
        if not sum(map(len, scores)):
            continue
        found = task_quantiles(scores, alpha)
        by_task, unknown = naive_quantiles(scores, alpha)
        np.testing.assert_allclose(found.by_task, by_task, rtol=1e-9)
        np.testing.assert_allclose(found.unknown, unknown, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 5, 8, 9, 10, 19, 99, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
def test_a_single_task_has_the_rank_of_split_conformal(n, alpha):
    own = np.random.default_rng(n).random(n)
    rank = math.ceil((n + 1) * (1 - alpha) - 1e-9)
    expected = np.sort(own)[rank - 1] if rank <= n else np.inf
    np.testing.assert_allclose(task_quantiles([own], alpha).by_task[0], expected, rtol=1e-14)


def test_equal_tasks_have_one_quantile_of_all_rows():
    # Means and shares below a quantile that are equal: the tasks do not differ.
    own = np.arange(1.0, 21.0)
    found = task_quantiles([own, own[::-1], own], 0.1)
    rank = math.ceil(61 * 0.9)
    expected = np.sort(np.tile(own, 3))[rank - 1]
    np.testing.assert_array_equal(found.by_task, expected)
    assert found.unknown == expected


def test_a_large_task_has_about_the_quantile_of_its_own_rows():
    rng = np.random.default_rng(0)
    scores = [scale * np.abs(rng.normal(size=20_000)) for scale in (1.0, 3.0, 10.0, 0.2)]
    found = task_quantiles(scores, 0.1).by_task
    np.testing.assert_allclose(found, [np.quantile(own, 0.9) for own in scores], rtol=0.02)


def test_the_quantile_of_a_small_task_moves_with_its_scores_but_not_as_far():
    rng = np.random.default_rng(1)
    others = [np.exp(0.3 * rng.normal()) * np.abs(rng.normal(size=200)) for _ in range(30)]
    own = np.abs(rng.normal(size=8))
    near, far = (task_quantiles([*others, scale * own], 0.1).by_task[-1] for scale in (1.0, 3.0))
    assert 1.1 * near < far < 2.9 * near


def test_no_scores_bound_nothing():
    found = task_quantiles([np.empty(0), np.empty(0)], 0.1)
    np.testing.assert_array_equal(found.by_task, np.inf)
    assert found.unknown == np.inf


@pytest.mark.parametrize("scores", [[np.zeros(30), np.zeros(5)], [np.zeros(30), np.ones(30)]])
def test_errors_of_zero_are_scores(scores):
    found = task_quantiles(scores, 0.1).by_task
    # A thousandth of a score is the least that tasks share.
    np.testing.assert_allclose(found[:2], [own[0] for own in scores], atol=1e-3)


def test_the_unit_of_scores_scales_quantiles():
    scores = drawn(3)
    small, large = task_quantiles(scores, 0.1), task_quantiles([1e6 * s for s in scores], 0.1)
    np.testing.assert_allclose(large.by_task, 1e6 * small.by_task)


def test_the_bound_of_a_spread_is_above_it_as_often_as_its_confidence_says():
    # Exact for normal values of known variances. The bound, five standard errors of a share of
    # 2000 draws, fails by chance with probability 6e-7.
    rng = np.random.default_rng(0)
    variances, spread = np.array([0.1, 0.2, 0.5, 2.0]), 0.5
    draws = np.sqrt(variances + spread) * rng.normal(size=(2000, 4))
    is_above = [bound_population(own, variances, 0.75).spread >= spread for own in draws]
    assert abs(np.mean(is_above) - 0.75) < 5.0 * math.sqrt(0.75 * 0.25 / 2000)


# ---- coverage -----------------------------------------------------------------------------------

N_DRAWS, N_TASKS = 60, 28
COVERED_SIZES = (0, 1, 3, 10, 50, 200, 1000)


def half_normal(spread, rng):
    scales = np.exp(spread * rng.normal(size=N_TASKS))
    return [lambda n, own=own: own * np.abs(rng.normal(size=n)) for own in scales]


def of_other_shapes(rng):
    """Uniform, normal, or with heavy tails, in different scales."""
    kinds = [
        lambda n: rng.random(n),
        lambda n: np.abs(rng.normal(size=n)),
        lambda n: np.abs(rng.standard_t(3, size=n)),
    ]
    tasks = zip(np.exp(0.3 * rng.normal(size=N_TASKS)), rng.integers(0, 3, N_TASKS), strict=True)
    return [lambda n, own=own, kind=kinds[number]: own * kind(n) for own, number in tasks]


FAMILIES = {
    "equal": lambda rng: half_normal(0.0, rng),
    "scales differ": lambda rng: half_normal(0.3, rng),
    "scales differ much": lambda rng: half_normal(1.0, rng),
    "shapes differ": of_other_shapes,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_coverage_is_right_for_tasks_of_each_size(family):
    # Four tasks of each size in each draw, whose coverage is known to a standard error of
    # sqrt(.09/1000) < .01 by new rows. The bound, five standard errors of the mean of draws and a
    # point for what is estimated, fails by chance with probability 7 * 6e-7.
    covered = {size: [] for size in COVERED_SIZES}
    for seed in range(N_DRAWS):
        rng = np.random.default_rng(seed)
        draw = FAMILIES[family](rng)
        sizes = np.resize(COVERED_SIZES, N_TASKS)
        quantiles = task_quantiles([own(n) for own, n in zip(draw, sizes, strict=True)], 0.1)
        inside = np.array(
            [
                np.mean(own(1000) <= bound)
                for own, bound in zip(draw, quantiles.by_task, strict=True)
            ]
        )
        for size in COVERED_SIZES:
            covered[size].append(inside[sizes == size].mean())
    for size, values in covered.items():
        error = np.std(values, ddof=1) / np.sqrt(N_DRAWS)
        assert abs(np.mean(values) - 0.9) < 5.0 * error + 0.01, size
        if size >= 50:
            assert abs(np.mean(values) - 0.9) < 0.02, size


def test_coverage_is_right_where_small_tasks_have_larger_errors():
    # Shrunk towards larger tasks alone, tasks with ten scores were covered by .849 ± .004. Half a
    # point is allowed for what is estimated, and five standard errors: three sizes fail by chance
    # with probability 2e-6.
    covered = {10: [], 40: [], 200: []}
    for seed in range(N_DRAWS):
        rng = np.random.default_rng(seed)
        sizes = np.resize([*covered], 24)
        scales = np.exp(0.2 * rng.normal(size=24)) * (sizes / 40.0) ** -0.15
        scores = [own * np.abs(rng.normal(size=n)) for own, n in zip(scales, sizes, strict=True)]
        bounds = task_quantiles(scores, 0.1).by_task
        inside = [
            np.mean(own * np.abs(rng.normal(size=1000)) <= bound)
            for own, bound in zip(scales, bounds, strict=True)
        ]
        for size, values in covered.items():
            values.append(np.mean(np.array(inside)[sizes == size]))
    for size, values in covered.items():
        error = np.std(values, ddof=1) / np.sqrt(N_DRAWS)
        assert abs(np.mean(values) - 0.9) < 5.0 * error + 0.005, size


@pytest.mark.parametrize(
    ("n_tasks", "n", "n_draws", "least"),
    [(3, 20, 500, 0.88), (3, 50, 500, 0.89), (10, 50, 200, 0.87), (50, 50, 60, 0.87)],
)
def test_a_noisy_task_with_few_rows_is_covered(n_tasks, n, n_draws, least):
    # Errors of the others are half as large. With the variance between tasks estimated by moments,
    # and one c for all tasks, these draws were covered by .800, .867, .805 and .671. One to three
    # points are allowed for shrinkage, and five standard errors: the four fail by chance with
    # probability 4 * 3e-7.
    values = []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        sizes = np.append(rng.choice([200, 1000], n_tasks - 1), n)
        scores = [np.abs(rng.normal(size=size)) for size in sizes]
        bound = task_quantiles([*scores[:-1], 2.0 * scores[-1]], 0.1).by_task[-1]
        values.append(math.erf(bound / 2.0 / math.sqrt(2.0)))
    error = np.std(values, ddof=1) / np.sqrt(n_draws)
    assert np.mean(values) > least - 5.0 * error


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
def test_coverage_is_right_for_an_unknown_task_beside_few_others(spread):
    # As above. With few tasks how much they differ is known badly, and intervals may be too wide.
    values = []
    for seed in range(300):
        *known, new = half_normal(spread, np.random.default_rng(seed))[:7]
        bound = task_quantiles([own(100) for own in known], 0.1).unknown
        values.append(np.mean(new(1000) <= bound))
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert 0.89 - 5.0 * error < np.mean(values) < 0.95


def test_intervals_of_small_tasks_are_less_uneven_than_by_their_own_rows_alone():
    # Spread of the coverage of tasks with ten scores about 90 %, beside that of all tasks pooled,
    # and of each by itself (ten scores: the largest).
    found, alone, pooled = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        draw = half_normal(0.3, rng)
        scores = [own(10) for own in draw]
        of_all = np.sort(np.concatenate(scores))[math.ceil(281 * 0.9) - 1]
        bounds = task_quantiles(scores, 0.1).by_task
        for own, mine, bound in zip(draw, scores, bounds, strict=True):
            new = own(1000)
            found.append(np.mean(new <= bound))
            alone.append(np.mean(new <= mine.max()))
            pooled.append(np.mean(new <= of_all))
    assert np.std(found) < 0.9 * min(np.std(alone), np.std(pooled))
