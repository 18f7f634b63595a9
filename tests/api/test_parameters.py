# SPDX-License-Identifier: Apache-2.0
"""A library's parameters mean in mtboost what they mean there, by whatever name."""

import numpy as np
import pytest
from libraries import LIBRARIES

import mtboost

NUMBERS = np.random.default_rng(0).normal(size=(120, 3))
LABELS = NUMBERS @ [1.0, -2.0, 0.5]
TASKS = np.arange(120) % 2


def fitted(library=LIBRARIES["xgboost"], **kwargs):
    options = {"backend": library.name, "num_boost_round": 5, "specific_rounds": 5, **kwargs}
    return mtboost.fit(NUMBERS, LABELS, task=TASKS, **{"strategy": "two-stage", **options})


@pytest.mark.parametrize(
    ("library", "alias", "name", "value", "other"),
    [
        # XGBoost itself prefers `name` over `alias` when both are set, in whatever order.
        ("xgboost", "eta", "learning_rate", 0.05, 0.5),
        ("xgboost", "gamma", "min_split_loss", 8.0, 1.0),
        ("xgboost", "lambda", "reg_lambda", 40.0, 4.0),
        ("xgboost", "alpha", "reg_alpha", 3.0, 1.0),
        ("lightgbm", "eta", "learning_rate", 0.05, 0.5),
        ("lightgbm", "reg_lambda", "lambda_l2", 40.0, 4.0),
        ("lightgbm", "reg_alpha", "lambda_l1", 3.0, 1.0),
        ("lightgbm", "min_child_samples", "min_data_in_leaf", 30, 5),
    ],
)
def test_specific_params_win_over_params_whatever_the_alias(library, alias, name, value, other):
    library = LIBRARIES[library]
    expected = fitted(library, params={name: other}, specific_params={name: value})
    plain = fitted(library, params={name: other})
    assert library.raw(expected.booster(0)) != library.raw(plain.booster(0))
    for first, second in ((name, alias), (alias, name), (alias, alias)):
        model = fitted(library, params={first: other}, specific_params={second: value})
        for task in (0, 1):
            assert library.raw(model.booster(task)) == library.raw(expected.booster(task))


@pytest.mark.parametrize("score", ["plain", "variance"])
def test_a_split_score_that_was_made_is_that_of_its_name(score):
    made = mtboost.make_split_score(score)
    found, expected = fitted(split_score=made), fitted(split_score=score)
    assert found.common.save_raw() == expected.common.save_raw()
    assert found.common.save_raw() != fitted().common.save_raw()  # of entropy, the default

    def trained(split_score):
        data = mtboost.Dataset(NUMBERS, LABELS, task=TASKS)
        return mtboost.train({"split_score": split_score}, data, 3).save_raw()

    assert trained(made) == trained(score)
