# SPDX-License-Identifier: Apache-2.0
"""Prior feature sampling in stock XGBoost does what the source reports (eruhimov2007).

200 trees of learning rate 0.1, as there. Errors are mean squares. Seeds are fixed; the bounds leave
room to the numbers found, which the source gives as figures only, but for the mean ratio of 4.1.
"""

from pathlib import Path

import numpy as np
import pytest
import xgboost

import mtboost
from mtboost.datasets import make_shared_linear, make_signum
from mtboost.trees.feature_weights import sampled_fraction
from mtboost.xgboost import PriorFeatureSampling

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

PARAMS = {"max_depth": 3, "eta": 0.1, "nthread": 1}
DATA = Path(__file__).parents[3] / "shared" / "data"


def train(X, y, prior=None, *, fraction=None, n_rounds=200, **params):
    """A booster; with a prior, or a fraction, nodes draw features."""
    callbacks = [] if prior is None else [PriorFeatureSampling(prior)]
    if prior is not None or fraction is not None:
        params["colsample_bynode"] = fraction or sampled_fraction(X.shape[1])
    matrix = xgboost.DMatrix(X, y, nthread=1)
    return xgboost.train({**PARAMS, **params}, matrix, n_rounds, callbacks=callbacks)


def error(booster, X, y):
    return float(np.mean((booster.predict(xgboost.DMatrix(X, nthread=1)) - y) ** 2))


def test_signum_known_importances_help_where_rows_are_few():
    """Figures 1 and 2: PFS beats GBT; PFS₁ beats PFS at first, and falls behind."""
    test = make_signum(2000, seed=99)
    errors = {}
    for n_rows in (20, 50, 200):
        found = []
        for seed in range(4):
            data = make_signum(n_rows, seed=seed)
            boosters = (
                train(data.X, data.y),
                train(data.X, data.y, data.importance),
                train(data.X, data.y, data.importance, fraction=1.5 / 30),
            )
            found.append([error(booster, test.X, test.y) for booster in boosters])
        errors[n_rows] = np.mean(found, axis=0)
    for n_rows in (20, 50):
        plain, sampled, one = errors[n_rows]
        assert one < sampled < 0.9 * plain
    plain, sampled, one = errors[200]
    assert sampled < plain
    assert one > sampled


def test_signum_importances_of_other_problems_help():
    """Section 4.1: the errors of PFS are 0.87 of those of GBT, over ten problems of 100 rows."""
    gammas = np.random.default_rng(0).random(10)
    problems = [make_signum(100, gamma=gamma, seed=k) for k, gamma in enumerate(gammas)]
    models = [train(data.X, data.y) for data in problems]
    ratios = []
    for k, (data, plain) in enumerate(zip(problems, models, strict=True)):
        prior = mtboost.feature_prior(models, leave_out=k)
        test = make_signum(2000, gamma=gammas[k], seed=1000 + k)
        sampled = train(data.X, data.y, prior)
        ratios.append(error(sampled, test.X, test.y) / error(plain, test.X, test.y))
    assert 0.8 < np.mean(ratios) < 0.95
    assert sum(ratio < 1 for ratio in ratios) >= 8


def test_shared_linear_problems_filter_out_the_noise():
    """Section 4.2: all of ten problems gain, although their coefficients differ."""
    data = make_shared_linear(10, 200, seed=0)
    rows = [(X[:100], y[:100]) for X, y in data.problems]
    models = [train(X, y) for X, y in rows]
    for k, (X, y) in enumerate(data.problems):
        prior = mtboost.feature_prior(models, leave_out=k)
        few = slice(0, 40)
        plain, sampled = train(X[few], y[few]), train(X[few], y[few], prior)
        assert error(sampled, X[100:], y[100:]) < error(plain, X[100:], y[100:])


@pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not beside the repository")
def test_time_series_of_other_lengths_lend_their_importances():
    """Section 4.4 on raw points of four of its sets; the source has many more features of them."""
    problems, tests = {}, {}
    for name in ("coffee", "gunpoint", "cbf", "trace"):
        with np.load(DATA / f"{name}.npz") as file:
            X, y, is_test = file["X"], file["y"], file["split"] == 1
        problems[name], tests[name] = (X[~is_test], y[~is_test]), (X[is_test], y[is_test])
    for name, (X, y) in problems.items():
        prior = mtboost.feature_prior(
            problems, leave_out=name, labels="classes", series_length=X.shape[1]
        )
        assert prior.shape == (X.shape[1],)
        X_test, y_test = tests[name]
        matrix = xgboost.DMatrix(X_test, nthread=1)
        params = {"objective": "multi:softmax", "num_class": len(np.unique(y)), "n_rounds": 100}
        plain, *sampled = (
            np.mean(train(X, y, own, seed=seed, **params).predict(matrix) != y_test)
            for seed, own in ((0, None), (0, prior), (1, prior), (2, prior))
        )
        assert np.mean(sampled) < plain
