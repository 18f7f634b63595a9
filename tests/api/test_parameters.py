# SPDX-License-Identifier: Apache-2.0
"""A library's parameters mean in mtboost what they mean there, by whatever name."""

import numpy as np
import pytest
from libraries import LIBRARIES

import mtboost
from mtboost.errors import ParameterError

NUMBERS = np.random.default_rng(0).normal(size=(120, 3))
LABELS = NUMBERS @ [1.0, -2.0, 0.5]
TASKS = np.arange(120) % 2


def fitted(library=LIBRARIES["xgboost"], **kwargs):
    options = {"backend": library.name, "num_boost_round": 5, "specific_rounds": 5, **kwargs}
    return mtboost.fit(NUMBERS, LABELS, task=TASKS, **{"strategy": "two-stage", **options})


@pytest.mark.parametrize(
    ("alias", "name", "value", "other"),
    [
        ("eta", "learning_rate", 0.05, 0.5),
        ("gamma", "min_split_loss", 8.0, 1.0),
        ("lambda", "reg_lambda", 40.0, 4.0),
        ("alpha", "reg_alpha", 3.0, 1.0),
    ],
)
def test_specific_params_win_over_params_whatever_the_alias(alias, name, value, other):
    # XGBoost itself prefers `name` over `alias` when both are set, in whatever order.
    assert_wins(LIBRARIES["xgboost"], alias, name, value, other)


@pytest.mark.parametrize(
    ("alias", "name", "value", "other"),
    [
        ("eta", "learning_rate", 0.05, 0.5),
        ("reg_lambda", "lambda_l2", 40.0, 4.0),
        ("reg_alpha", "lambda_l1", 3.0, 1.0),
        ("min_child_samples", "min_data_in_leaf", 30, 5),
    ],
)
def test_specific_params_of_lightgbm_win_over_params_whatever_the_alias(alias, name, value, other):
    assert_wins(LIBRARIES["lightgbm"], alias, name, value, other)


def assert_wins(library, alias, name, value, other):
    expected = fitted(library, params={name: other}, specific_params={name: value})
    plain = fitted(library, params={name: other})
    assert library.raw(expected.booster(0)) != library.raw(plain.booster(0))
    for first, second in ((name, alias), (alias, name), (alias, alias)):
        model = fitted(library, params={first: other}, specific_params={second: value})
        for task in (0, 1):
            assert library.raw(model.booster(task)) == library.raw(expected.booster(task))


def test_a_parameter_under_two_names_is_refused():
    with pytest.raises(ParameterError, match="'learning_rate' under two names"):
        fitted(params={"eta": 0.1, "learning_rate": 0.2})


@pytest.mark.parametrize("name", ["n_jobs", "nthread", "seed", "random_state", "objective"])
def test_parameters_that_fit_has_itself_are_refused_in_params(name):
    with pytest.raises(ParameterError, match=r"Pass (n_threads|seed|objective)= to fit\(\)"):
        fitted(params={name: 1})
