# SPDX-License-Identifier: Apache-2.0
"""The mixed model: effects are those of the covariance of all rows, and variances are found."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from linear_tasks import N_COLUMNS, N_TASKS, linear_rows
from numpy.testing import assert_allclose

from mtboost.model.stages import random_slopes, slope_rows
from mtboost.model.stages.random_slopes import (
    Variances,
    effects_given,
    first_variances,
    fit_effects,
)
from mtboost.model.stages.slope_rows import FewRows, Information, ManyRows, Prior, RowsByTask

# Rows of each task, of which a fifth have no weight; there are 4 effects.
N_ROWS = [0, 1, 1, 2, 3, 3, 4, 5, 6, 6, 40, 0]
# Tasks, tasks in regions, and those in countries: the group of each name, outermost first.
FLAT = [np.zeros(N_TASKS, int)]
REGIONS = [np.zeros(4, int), np.array([3, 0, 2, 1, 1, 0, 2, 2, 0, 1, 1, 3])]
COUNTRIES = [np.zeros(2, int), np.array([1, 0, 1, 0]), REGIONS[1]]


def rows_of_all_sizes(seed):
    """Rows of tasks of N_ROWS: columns, responses, hessians and codes of tasks."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(N_TASKS), N_ROWS))
    z = rng.normal(size=(len(codes), N_COLUMNS))
    response = rng.normal(size=len(codes)) + z.sum(axis=1) * rng.normal(size=N_TASKS)[codes]
    return z, response, rng.choice([0.0, 0.5, 2.0], len(codes), p=[0.2, 0.4, 0.4]), codes


def conditioned(design, prior, noise, response, *, is_first_free):
    """Condition effects with these prior variances on all rows: means and covariances.

    The first effect may have a flat prior: it is that of generalised least squares.
    """
    covariance = (design * prior) @ design.T + np.diag(noise)
    solved = np.linalg.solve(covariance, np.column_stack([response, design]))
    gain, left = prior[:, None] * design.T, solved
    ones = np.zeros(len(prior))
    if is_first_free:
        ones[0] = 1.0
        of_first = np.linalg.solve(covariance, design[:, 0])
        information = design[:, 0] @ of_first
        left = solved - np.outer(of_first, design[:, 0] @ solved) / information
    means = gain @ left[:, 0]
    covariances = np.diag(prior) - gain @ left[:, 1:] * prior
    if is_first_free:
        means[0], covariances[0, 0] = design[:, 0] @ solved[:, 0] / information, 1.0 / information
    return means, covariances


def blocks_of(codes, parents):
    """Number of the shared effects, then of each group and the task of rows; their number."""
    lineage = [codes]
    for groups in parents[:0:-1]:
        lineage.insert(0, groups[lineage[0]])
    begins = np.cumsum([1, *map(len, parents)])
    own = [begin + level for begin, level in zip(begins, lineage, strict=False)]
    return np.column_stack([np.zeros_like(codes), *own]), begins[-1]


def of_mixed_model(z, response, hessian, codes, parents, variances):
    """Effects and uncertainty from the covariance of all rows: a slow twin of effects_given."""
    used = hessian > 0.0
    ones = np.column_stack([np.ones(used.sum()), z[used]])
    blocks, n_blocks = blocks_of(codes[used], parents)
    design = np.zeros((len(ones), n_blocks, ones.shape[1]))
    for block in blocks.T:
        design[np.arange(len(ones)), block] = ones
    shape, design = design.shape[1:], design.reshape(len(ones), -1)
    counts = [len(own) for own in parents]
    prior = np.vstack(
        [np.append(0.0, variances.of_slopes), *np.repeat(variances.by_level, counts, axis=0)]
    )
    noise = variances.of_noise / hessian[used]
    prior[0, 0] = 0.0
    means, of_all = conditioned(design, prior.ravel(), noise, response[used], is_first_free=True)
    prior[0] = 0.0
    _, given = conditioned(design, prior.ravel(), noise, response[used], is_first_free=False)
    levels = np.split(np.arange(1, n_blocks), np.cumsum(counts)[:-1])
    of_effects = np.diag(given).reshape(shape)
    spread = [of_effects[own].mean(axis=0) for own in levels]
    errors = np.trace((design.T * hessian[used]) @ design @ given)
    effects = means.reshape(shape)
    of_levels = np.concatenate([effects[own] for own in levels])
    return effects[0], of_levels, np.diag(of_all)[: shape[1]], np.stack(spread), errors


def numbers(effects, uncertainty):
    own = (uncertainty.of_shared, uncertainty.by_level, uncertainty.of_errors)
    return (effects.shared, np.concatenate(effects.by_level), *own)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("large", [1, 100])  # from here on matrices are inverted by Cholesky
@pytest.mark.parametrize("parents", [FLAT, REGIONS, COUNTRIES], ids=["flat", "two", "three"])
def test_effects_are_those_of_the_covariance_of_all_rows(seed, large, parents, monkeypatch):
    monkeypatch.setattr(slope_rows, "_LARGE", large)
    z, response, hessian, codes = rows_of_all_sizes(seed)
    shape = (len(parents), N_COLUMNS + 1)
    by_level = np.random.default_rng(seed).uniform(0.1, 2.0, shape)
    variances = Variances(by_level, np.array([0.7, 0.2, 1.1]), 0.4)
    rows = RowsByTask.of_rows(z, response, hessian, codes, parents)
    assert {type(batch) for batch in rows.batches} == {FewRows, ManyRows}
    expected = of_mixed_model(z, response, hessian, codes, parents, variances)
    for found, own in zip(numbers(*effects_given(rows, variances)), expected, strict=True):
        assert_allclose(found, own, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("parents", [FLAT, COUNTRIES], ids=["flat", "three"])
def test_both_forms_of_a_task_find_the_same(seed, parents, monkeypatch):
    z, response, hessian, codes = rows_of_all_sizes(seed)
    used = [np.flatnonzero((codes == task) & (hessian > 0.0)) for task in range(N_TASKS)]
    root = np.sqrt(hessian)
    scaled = np.column_stack([root, z * root[:, None]])
    few, many = [], []
    for task, own in enumerate(used):
        of_task, weighted = np.array([task]), root[own] * response[own]
        group = parents[-1][of_task]
        few.append(FewRows(of_task, group, scaled[own][None], weighted[None]))
        many.append(ManyRows.of_rows(of_task, group, [scaled[own]], [weighted]))
    shape = (parents, N_COLUMNS + 1, np.count_nonzero(hessian))
    monkeypatch.setattr(slope_rows, "_MOST_NUMBERS", 10)  # batches of one or two tasks
    mixed = RowsByTask.of_rows(z, response, hessian, codes, parents)
    first = first_variances(len(parents), N_COLUMNS + 1, response.var())
    one, *others = (
        fit_effects(rows, first)
        for rows in (mixed, RowsByTask(few, *shape), RowsByTask(many, *shape))
    )
    for other in others:
        assert_allclose(other.variances.by_level, one.variances.by_level, rtol=1e-9)
        assert_allclose(other.variances.of_slopes, one.variances.of_slopes, rtol=1e-9)
        assert other.variances.of_noise == pytest.approx(one.variances.of_noise, rel=1e-9)
        assert_allclose(other.shared, one.shared, rtol=1e-9)
        for own, same in zip(other.by_level, one.by_level, strict=True):
            assert_allclose(own, same, rtol=1e-8, atol=1e-11)


def test_a_level_that_does_not_differ_changes_nothing():
    """Regions whose effects have no variance leave those of the stores alone, flat as they are."""
    z, response, hessian, codes = rows_of_all_sizes(0)
    of_tasks = np.array([0.8, 0.3, 0.5, 0.2])
    least = np.full(N_COLUMNS + 1, 1e-8)
    flat, nested, ungrouped = (
        effects_given(
            RowsByTask.of_rows(z, response, hessian, codes, parents),
            Variances(np.array(by_level), np.full(N_COLUMNS, 0.7), 0.4),
        )[0]
        for parents, by_level in (
            (FLAT, [of_tasks]),
            (REGIONS, [least, of_tasks]),
            ([np.zeros(N_TASKS, int), np.arange(N_TASKS)], [of_tasks / 4, 0.75 * of_tasks]),
        )
    )
    # Variances of 1e-8 move effects by that, times the precision of some forty rows; and their
    # inverses of 1e8 leave half of the digits.
    assert_allclose(nested.shared, flat.shared, rtol=1e-5)
    assert_allclose(nested.by_level[1], flat.by_level[0], rtol=1e-5, atol=1e-6)
    # A store for each region: both variances add up.
    assert_allclose(ungrouped.shared, flat.shared, rtol=1e-9)
    assert_allclose(sum(ungrouped.by_level), flat.by_level[0], rtol=1e-9, atol=1e-12)


def test_variances_of_regions_and_stores_are_found():
    """Intercepts of stores must not be taken for slopes of their region."""
    rng = np.random.default_rng(5)
    regions, stores = np.arange(400), np.repeat(np.arange(400), 5)
    codes = np.repeat(np.arange(2000), 6)
    z = rng.normal(size=(2000, 1))[codes] + 0.3 * rng.normal(size=(len(codes), 1))
    of_regions = rng.normal(0.0, [0.5, 0.8], (400, 2))
    of_stores = rng.normal(0.0, [1.5, 0.4], (2000, 2))
    effects = of_regions[stores[codes]] + of_stores[codes]
    response = effects[:, 0] + (1.0 + effects[:, 1]) * z[:, 0] + rng.normal(0.0, 0.5, len(codes))
    parents = [np.zeros_like(regions), stores]
    rows = RowsByTask.of_rows(z, response, np.ones(len(z)), codes, parents)
    found = fit_effects(rows, first_variances(2, 2, response.var()))
    # Standard errors: about 7 % of the 400 regions' variances, 4 % of those of the 2000 stores.
    assert_allclose(found.variances.by_level, [[0.25, 0.64], [2.25, 0.16]], rtol=0.3)
    assert found.variances.of_noise == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_columns", [3, 60])  # by NumPy's inverses, and by Cholesky
def test_variances_at_their_floor_cost_few_digits(seed, n_columns):
    """U'V⁻¹U as D⁻¹ - D⁻¹ C D⁻¹, a small difference of large numbers, against V inverted."""
    rng, n_effects = np.random.default_rng(seed), n_columns + 1
    of_tasks = rng.uniform(0.1, 1.0, n_effects)
    of_tasks[rng.permutation(n_effects)[: n_effects // 2]] = random_slopes._LEAST
    prior = Prior(of_tasks, 0.4)
    rows = [rng.normal(size=(n, n_effects)) for n in (n_effects, 2 * n_effects, 500)]
    responses = [rng.normal(size=len(own)) for own in rows]
    many = ManyRows.of_rows(np.arange(3), np.zeros(3, int), rows, responses)
    found = Information.zeros(1, n_effects)
    many.inform(many.inverses(prior), prior, found)
    of_all = many.spread(many.inverses(prior), prior, None)
    squares, products, spread, trace = 0.0, 0.0, 0.0, 0.0
    for own, response in zip(rows, responses, strict=True):
        inverse = np.linalg.inv((own * of_tasks) @ own.T + prior.of_noise * np.eye(len(own)))
        weighted = own.T @ inverse
        squares, products = squares + weighted @ own, products + weighted @ response
        covariance = np.diag(of_tasks) - (of_tasks[:, None] * (weighted @ own)) * of_tasks
        spread, trace = spread + np.diag(covariance), trace + np.trace(own.T @ own @ covariance)
    # Three tasks with D⁻¹ = 1e8, and a C that is known to a few roundings.
    rounding = 4 * len(rows) * np.finfo(float).eps / random_slopes._LEAST
    assert_allclose(found.squares[0], squares, rtol=0, atol=rounding)
    assert_allclose(found.products[0], products, rtol=1e-9, atol=1e-9 * np.abs(products).max())
    assert_allclose(of_all.of_effects, spread, rtol=1e-9)
    assert of_all.of_errors == pytest.approx(trace, rel=1e-9)


def test_variances_of_many_tasks_are_found():
    z, response, codes, _ = linear_rows(0, n_tasks=2000, n_rows=10, noise=0.5, spread=0.8)
    rows = RowsByTask.of_rows(z, response, np.ones(len(z)), codes, [np.zeros(2000, int)])
    found = fit_effects(rows, first_variances(1, N_COLUMNS + 1, response.var())).variances
    # Standard errors: 3 % for variances of 2000 tasks, 1 % for that of 20,000 rows.
    assert_allclose(found.by_level[0], [1.0, 0.64, 0.64, 0.64], rtol=0.15)
    assert found.of_noise == pytest.approx(0.25, rel=0.06)


def test_an_integer_hessian_is_that_of_repeated_rows():
    z, response, _, codes = rows_of_all_sizes(1)
    counts = np.random.default_rng(1).integers(0, 4, len(z))
    again = [np.repeat(part, counts, axis=0) for part in (z, response, codes)]
    variances = first_variances(1, N_COLUMNS + 1, response.var())
    once, repeated = (
        numbers(*effects_given(RowsByTask.of_rows(*rows, FLAT), variances))
        for rows in (
            (z, response, counts.astype(float), codes),
            (again[0], again[1], np.ones(counts.sum()), again[2]),
        )
    )
    for own, other in zip(once, repeated, strict=True):
        assert_allclose(own, other, rtol=1e-9, atol=1e-12)


def test_tasks_that_do_not_differ_have_no_effects_of_their_own():
    z, _, codes, _ = linear_rows(2, n_tasks=200)
    response = 1.0 + z[:, 0] + np.random.default_rng(2).normal(size=len(z))
    rows = RowsByTask.of_rows(z, response, np.ones(len(z)), codes, [np.zeros(200, int)])
    effects = fit_effects(rows, first_variances(1, N_COLUMNS + 1, response.var()))
    assert_allclose(effects.shared, [1.0, 1.0, 0.0, 0.0], atol=0.1)  # standard errors .016
    assert np.abs(effects.by_level[0]).max() < 0.2


@pytest.mark.parametrize("n_tasks", [2, 3, 8])
@pytest.mark.parametrize("n_columns", [4, 15])
def test_what_few_tasks_share_is_not_taken_for_their_own(n_tasks, n_columns):
    rng = np.random.default_rng(n_tasks)
    codes = np.arange(150 * n_tasks) % n_tasks
    z = rng.normal(size=(len(codes), n_columns))
    response = z[:, 0] + 0.5 * rng.normal(size=len(codes))
    rows = RowsByTask.of_rows(z, response, np.ones(len(z)), codes, [np.zeros(n_tasks, int)])
    effects = fit_effects(rows, first_variances(1, n_columns + 1, response.var()))
    expected = np.zeros(n_columns + 1)
    expected[1] = 1.0
    # The slope of one task has a standard error of .04: some tasks are shrunk by as much.
    assert_allclose(effects.shared, expected, atol=0.15)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [None, 1.0])
def test_variances_of_shared_slopes_are_those_of_greatest_evidence(seed, noise):
    """The restricted likelihood of all rows, by its definition; a step of EM by column from there.

    Columns whose ω_j² would be less than that of all columns keep that one.
    """
    z, response, hessian, codes = rows_of_all_sizes(seed)
    response = response + z @ [2.0, 0.0, 0.5]
    used = hessian > 0.0
    design, y, of_rows = z[used], response[used], 1.0 / hessian[used]
    ones = np.ones((len(y), 1))

    def minus_log_evidence(logs):
        of_slopes, of_noise = np.exp(logs[0]), noise or np.exp(logs[1])
        inverse = np.linalg.inv(of_slopes * design @ design.T + of_noise * np.diag(of_rows))
        of_mean = (ones.T @ inverse @ ones).item()
        left = y - (ones.T @ inverse @ y).item() / of_mean
        return 0.5 * (left @ inverse @ left - np.linalg.slogdet(inverse)[1] + np.log(of_mean))

    best = scipy.optimize.minimize(minus_log_evidence, [0.0, 0.0], method="Nelder-Mead").x
    of_slopes, of_noise = np.exp(best[0]), noise or np.exp(best[1])
    shape = (len(y), N_COLUMNS + 1)
    all_columns = np.hstack([np.ones((shape[0], 1)), design])
    prior = np.append(0.0, np.full(N_COLUMNS, of_slopes))
    means, covariances = conditioned(all_columns, prior, of_noise * of_rows, y, is_first_free=True)
    rows = RowsByTask.of_rows(z, response, hessian, codes, FLAT)
    found = random_slopes.variances_of_slopes(rows, noise, 1e-8)
    expected = means[1:] ** 2 + np.diag(covariances)[1:]
    expected = np.maximum(expected, of_slopes)
    assert_allclose(found, expected, rtol=0.02)  # the evidence is flat, and EM ends near its top
