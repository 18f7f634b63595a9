# SPDX-License-Identifier: Apache-2.0
"""Without a task the estimators give the models of the libraries' own, bit for bit."""

import lightgbm
import numpy as np
import pytest
import xgboost
from estimator_rows import CLASSES, FAST, NUMBERS, SHOP, THREE_CLASSES, VALUES
from libraries import LIBRARIES

from mtboost import MultiTaskClassifier, MultiTaskRegressor
from mtboost.errors import ParameterError

DEFAULTS = {"max_depth": 4, "learning_rate": 0.1}


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"learning_rate": 0.05},
        {"max_depth": 2},
        {"grow_policy": "lossguide", "max_leaves": 5, "max_depth": 0},
        {"min_child_weight": 20.0},
        {"gamma": 5.0},
        {"reg_lambda": 9.0},
        {"reg_alpha": 3.0},
        {"max_delta_step": 0.1},
        {"max_bin": 8},
        {"monotone_constraints": (-1, 0, 1)},
        {"interaction_constraints": "[[0, 1], [2]]"},
        {"objective": "reg:absoluteerror"},
    ],
    ids=lambda parameters: ",".join(parameters) or "defaults",
)
def test_without_a_task_it_is_xgboosts_regressor_bit_for_bit(parameters):
    ours = MultiTaskRegressor(n_estimators=20, **{"strategy": "two-stage", **parameters}).fit(
        NUMBERS, VALUES
    )
    theirs = xgboost.XGBRegressor(n_estimators=20, **{**DEFAULTS, **parameters})
    theirs.fit(NUMBERS, VALUES)
    np.testing.assert_array_equal(ours.predict(NUMBERS), theirs.predict(NUMBERS))
    # Both divide by a sum, one in float32 and one in float64.
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, rtol=1e-6)
    assert ours.tasks_ == ("all",)
    assert ours.quit_round_ == {"all": 20}


@pytest.mark.parametrize("y", [THREE_CLASSES > 0, THREE_CLASSES], ids=["two", "three"])
def test_without_a_task_it_is_xgboosts_classifier_bit_for_bit(y):
    ours = MultiTaskClassifier(n_estimators=20, strategy="two-stage").fit(NUMBERS, y)
    theirs = xgboost.XGBClassifier(n_estimators=20, **DEFAULTS).fit(NUMBERS, y)
    np.testing.assert_array_equal(
        ours.decision_function(NUMBERS), theirs.predict(NUMBERS, output_margin=True)
    )
    np.testing.assert_array_equal(ours.predict(NUMBERS), theirs.predict(NUMBERS))
    # expf of NumPy and of XGBoost may differ in the last bit.
    np.testing.assert_allclose(
        ours.predict_proba(NUMBERS), theirs.predict_proba(NUMBERS), rtol=1e-6
    )


# LightGBM's counterparts of the parameters, and its names of them.
OF_LIGHTGBM = [
    ({}, {}),
    ({"learning_rate": 0.3}, {"learning_rate": 0.3}),  # XGBoost's default
    ({"max_depth": 2}, {"max_depth": 2}),
    ({"max_leaves": 4}, {"num_leaves": 4}),
    ({"min_child_weight": 70.0}, {"min_sum_hessian_in_leaf": 70.0}),
    ({"gamma": 20.0}, {"min_gain_to_split": 20.0}),
    ({"reg_lambda": 9.0}, {"lambda_l2": 9.0}),
    ({"reg_alpha": 3.0}, {"lambda_l1": 3.0}),
    ({"max_delta_step": 0.1}, {"max_delta_step": 0.1}),
    ({"max_bin": 8}, {"max_bin": 8}),
    ({"subsample": 0.5}, {"bagging_fraction": 0.5, "bagging_freq": 1}),
    (
        {"subsample": 0.5, "params": {"subsample_freq": 3}},
        {"bagging_fraction": 0.5, "bagging_freq": 3},
    ),
    ({"colsample_bytree": 0.4}, {"feature_fraction": 0.4}),
    ({"monotone_constraints": (-1, 0, 1)}, {"monotone_constraints": [-1, 0, 1]}),
    ({"interaction_constraints": "[[0, 1], [2]]"}, {"interaction_constraints": [[0, 1], [2]]}),
    ({"params": {"min_data_in_leaf": 2}}, {"min_data_in_leaf": 2}),
]


@pytest.mark.parametrize(
    ("parameters", "params"), OF_LIGHTGBM, ids=lambda names: ",".join(names) or "defaults"
)
def test_without_a_task_it_is_lightgbms_booster_bit_for_bit(parameters, params):
    estimator = MultiTaskRegressor(
        n_estimators=20,
        backend="lightgbm",
        n_jobs=1,
        random_state=0,
        **{"strategy": "two-stage", **parameters},
    ).fit(NUMBERS, VALUES)
    quiet = {"objective": "regression", "verbosity": -1, "num_threads": 1, "seed": 0}
    size = {} if "max_depth" in params else {"num_leaves": 16}
    theirs = lightgbm.train({**quiet, **size, **params}, lightgbm.Dataset(NUMBERS, VALUES), 20)
    np.testing.assert_array_equal(estimator.predict(NUMBERS), theirs.predict(NUMBERS))
    gains = LIBRARIES["lightgbm"].importance(theirs, "gain")
    expected = [gains.get(f"Column_{place}", 0.0) for place in range(3)]
    np.testing.assert_allclose(
        estimator.feature_importances_, expected / np.sum(expected), rtol=1e-12
    )


@pytest.mark.parametrize("y", [THREE_CLASSES > 0, THREE_CLASSES], ids=["two", "three"])
def test_without_a_task_it_is_lightgbms_classifier_bit_for_bit(y):
    ours = MultiTaskClassifier(n_estimators=20, backend="lightgbm", strategy="two-stage").fit(
        NUMBERS, y
    )
    theirs = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=16, n_jobs=1, verbosity=-1)
    theirs.fit(NUMBERS, y)
    np.testing.assert_array_equal(
        ours.decision_function(NUMBERS), theirs.predict(NUMBERS, raw_score=True)
    )
    np.testing.assert_array_equal(ours.predict(NUMBERS), theirs.predict(NUMBERS))
    # exp of NumPy and of LightGBM may differ in the last bit.
    np.testing.assert_allclose(
        ours.predict_proba(NUMBERS), theirs.predict_proba(NUMBERS), rtol=1e-14
    )


@pytest.mark.parametrize("sigmoid", [1.0, 3.0])
def test_probabilities_follow_lightgbms_sigmoid(sigmoid):
    estimator = MultiTaskClassifier(backend="lightgbm", params={"sigmoid": sigmoid}, **FAST)
    estimator.fit(NUMBERS, CLASSES, task=SHOP)
    margins = estimator.decision_function(NUMBERS, task=SHOP)
    found = estimator.predict_proba(NUMBERS, task=SHOP)[:, 1]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-sigmoid * margins)), rtol=1e-14)


@pytest.mark.parametrize("name", ["grow_policy", "colsample_bylevel"])
def test_what_lightgbm_does_not_have_is_refused(name):
    value = "lossguide" if name == "grow_policy" else 0.5
    with pytest.raises(ParameterError, match=f"LightGBM has no {name}: leave it out"):
        MultiTaskRegressor(backend="lightgbm", **{name: value}, strategy="two-stage").fit(
            NUMBERS, VALUES
        )
