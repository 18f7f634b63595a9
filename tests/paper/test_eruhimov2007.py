# SPDX-License-Identifier: Apache-2.0
"""Prior feature sampling does what eruhimov2007 found (sections 3 and 4.2), on generated problems.

Errors are means over ten data sets, of which the seeds are given. The paper shows curves, not
numbers; what is demanded is their order, with a margin.
"""

import numpy as np
import pytest

from mtboost import PriorSamplingRegressor

N_SETS = 10
GROUP = np.repeat(np.arange(10), 3)  # Signum: 10 groups of 3 features
IMPORTANCE = 0.5**GROUP


def signum(rng, n_rows):
    X = rng.uniform(-1, 1, (n_rows, 30))
    sides = np.sign(np.where(X > 0, 1, -1).reshape(n_rows, 10, 3).sum(axis=2))
    return X, sides @ 0.5 ** np.arange(10)


def mean_errors(models, make, n_train):
    """Mean squared test errors of models, over data sets."""
    errors = {name: [] for name in models}
    for number in range(N_SETS):
        X, y = make(np.random.default_rng([n_train, number]), n_train + 2000)
        for name, model in models.items():
            predicted = model.fit(X[:n_train], y[:n_train]).predict(X[n_train:])
            errors[name].append(np.mean((predicted - y[n_train:]) ** 2))
    return {name: np.mean(values) for name, values in errors.items()}


@pytest.mark.parametrize("n_train", [30, 100])
def test_on_signum_a_prior_beats_all_features_and_dynamic_sampling(n_train):
    prior = IMPORTANCE**2
    error = mean_errors(
        {
            "GBT": PriorSamplingRegressor(max_features=None, random_state=0),
            "DFS": PriorSamplingRegressor(dynamic=True, random_state=0),
            "PFS": PriorSamplingRegressor(prior=prior, random_state=0),
        },
        signum,
        n_train,
    )
    assert error["PFS"] < 0.9 * min(error["GBT"], error["DFS"])


def test_on_signum_the_prior_alone_is_best_for_few_rows_only():
    prior = IMPORTANCE**2
    models = {
        "PFS1": PriorSamplingRegressor(prior=prior, max_features=1, random_state=0),
        "PFS": PriorSamplingRegressor(prior=prior, random_state=0),
    }
    few, many = (mean_errors(models, signum, n_train) for n_train in (20, 400))
    assert few["PFS1"] < few["PFS"]
    assert many["PFS1"] > many["PFS"]


def test_few_of_many_columns_are_found_through_other_problems():
    """Section 4.2: the first 4 of 104 columns count, differently in each problem."""

    def linear(rng, n_rows):
        X = rng.uniform(size=(n_rows, 104))
        return X, X[:, :4] @ rng.uniform(size=4)

    rng = np.random.default_rng(0)
    others = [PriorSamplingRegressor(max_features=None).fit(*linear(rng, 100)) for _ in range(9)]
    prior = np.mean([model.feature_importances_ for model in others], axis=0)
    error = mean_errors(
        {
            "GBT": PriorSamplingRegressor(max_features=None, random_state=0),
            "DFS": PriorSamplingRegressor(dynamic=True, random_state=0),
            "PFS": PriorSamplingRegressor(prior=prior, random_state=0),
        },
        linear,
        100,
    )
    assert error["PFS"] < 0.8 * min(error["GBT"], error["DFS"])
