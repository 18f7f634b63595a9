# SPDX-License-Identifier: Apache-2.0
"""The mixed model of many columns: effects given variances, and equal variances that are found."""

import numpy as np
import pytest
import scipy.special
from linear_tasks import N_COLUMNS, N_TASKS
from numpy.testing import assert_allclose

import mtboost
from mtboost.model.stages.random_slopes import (
    Variances,
    effects_given,
    first_variances,
    fit_effects,
)
from mtboost.model.stages.slope_rows import RowsByTask
from mtboost.model.stages.wide_slopes import (
    WideRows,
    are_wide,
    fit_wide_effects,
    wide_effects_given,
)

# Tasks, and tasks in regions: the group of each name, outermost first.
FLAT = [np.zeros(N_TASKS, int)]
REGIONS = [np.zeros(4, int), np.array([3, 0, 2, 1, 1, 0, 2, 2, 0, 1, 1, 3])]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("parents", [FLAT, REGIONS], ids=["flat", "regions"])
def test_effects_given_variances_are_those_of_the_model_by_tasks(seed, parents):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, N_TASKS, 60)
    z = rng.normal(size=(60, N_COLUMNS))
    rows = (z, rng.normal(size=60), rng.choice([0.0, 0.5, 2.0], 60), codes, parents)
    by_level = np.array([[0.3, *[0.2] * N_COLUMNS], [0.5, *[0.4] * N_COLUMNS]])[-len(parents) :]
    variances = Variances(by_level, np.full(N_COLUMNS, 0.7), 0.4)
    expected, _ = effects_given(RowsByTask.of_rows(*rows), variances)
    found = wide_effects_given(WideRows.of_rows(*rows), variances)
    assert_allclose(found.shared, expected.shared, rtol=1e-9)
    for own, same in zip(found.by_level, expected.by_level, strict=True):
        assert_allclose(own, same, rtol=1e-8, atol=1e-12)


def planted(rng, n_rows, n_columns, n_tasks=10):
    """Columns, responses without noise, and codes; slopes of variance 4 / p, and 1 / p by task."""
    codes = np.arange(n_rows) % n_tasks
    z = rng.normal(size=(n_rows, n_columns))
    shared = rng.normal(0.0, 2.0, n_columns) / np.sqrt(n_columns)
    of_tasks = rng.normal(size=(n_tasks, n_columns)) / np.sqrt(n_columns)
    return z, (z * (shared + of_tasks[codes])).sum(axis=1) + 3.0, codes


def test_variances_are_found():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(10):
        z, signal, codes = planted(rng, 600, 300)
        response = signal + rng.normal(size=10)[codes] + rng.normal(size=600)
        rows = WideRows.of_rows(z, response, np.ones(600), codes, [np.zeros(10, int)])
        own = fit_wide_effects(rows, first_variances(1, 301, response.var())).variances
        slopes = [300 * own.of_slopes[0], 300 * own.by_level[0, 1]]
        found.append([*slopes, own.by_level[0, 0], own.of_noise])
    # Means of ten: the standard errors of a single estimate are .2 to .6 of 4, 1, 1 and 1.
    assert_allclose(np.mean(found, axis=0), [4.0, 1.0, 1.0, 1.0], rtol=0.3)


def test_new_rows_are_predicted_better_than_by_variances_of_single_columns():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        z, signal, codes = planted(rng, 2200, 300)
        response = signal[:200] + rng.normal(size=200)
        assert are_wide(200, 300)
        rows = (z[:200], response, np.ones(200), codes[:200], [np.zeros(10, int)])
        first, errors = first_variances(1, 301, response.var()), []
        for kind, fit in ((RowsByTask, fit_effects), (WideRows, fit_wide_effects)):
            effects = fit(kind.of_rows(*rows), first).totals(rows[-1])[-1]
            own = effects[codes[200:]]
            predicted = own[:, 0] + (own[:, 1:] * z[200:]).sum(axis=1)
            errors.append(np.mean((predicted - signal[200:]) ** 2))
        assert errors[1] < errors[0]
        assert errors[1] < signal.var()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((400, 100), True), ((401, 100), False), ((3001, 2000), False), ((50, 0), False)],
)
def test_few_rows_for_each_column_are_wide(shape, expected):
    assert are_wide(*shape) == expected


def effects_alone(z, y, codes, n_rows, backend="xgboost"):
    """Predictions of the rows after the first `n_rows`, by effects that these are trained with."""
    model = mtboost.fit(
        z[:n_rows],
        y[:n_rows],
        task=codes[:n_rows],
        backend=backend,
        strategy="two-stage",
        linear_effects=True,
        num_boost_round=1,
        specific_rounds=0,
        params={"learning_rate": 1e-6},
    )
    return model.predict(z[n_rows:], task=codes[n_rows:])


@pytest.mark.parametrize("backend", ["xgboost", "lightgbm"])
def test_effects_of_wide_tables_predict_new_rows(backend):
    rng = np.random.default_rng(0)
    z, signal, codes = planted(rng, 2200, 300)
    y, new = signal + rng.normal(size=2200), signal[200:]
    errors = effects_alone(z, y, codes, 200, backend) - new
    # Ridge regression with the best penalty, and no effects of single tasks.
    squares = z[:200] @ z[:200].T
    ridge = [
        z[200:] @ z[:200].T @ np.linalg.solve(squares + own * np.eye(200), y[:200] - 3.0) + 3.0
        for own in np.logspace(0, 4, 30)
    ]
    best = min(np.mean((own - new) ** 2) for own in ridge)
    assert np.mean(errors**2) < 1.05 * best < signal.var()


def test_effects_of_wide_tables_are_not_left_to_trees():
    """Sixty trees between two estimates would learn the labels, and leave nothing."""
    rng = np.random.default_rng(0)
    z, signal, codes = planted(rng, 2160, 258)
    y = (rng.random(2160) < scipy.special.expit(2.0 * (signal - 3.0))).astype(int)
    found = effects_alone(z, y, codes, 160)
    loss = -np.mean(np.log(np.where(y[160:], found, 1.0 - found)))
    assert loss < 0.97 * np.log(2.0)  # of constants; with the trees it is higher than that
