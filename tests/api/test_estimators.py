# SPDX-License-Identifier: Apache-2.0
"""The estimators keep scikit-learn's rules, and are mtboost.fit underneath."""

import copy
import io
import pickle
from functools import partial

import joblib
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
import xgboost
from libraries import LIBRARIES
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.inspection import permutation_importance
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mtboost
from mtboost import MultiTaskClassifier, MultiTaskRanker, MultiTaskRegressor
from mtboost.errors import DataError, ParameterError

_ROUNDED = (
    "XGBoost's gradients are float32: weight 3 times one of them is rounded, three of them are not"
)
EXPECTED_FAILURES = {
    ("MultiTaskClassifier", "xgboost"): {
        "check_sample_weight_equivalence_on_dense_data": _ROUNDED,
        "check_sample_weight_equivalence_on_sparse_data": _ROUNDED,
    }
}

N_ROWS = 240
_rng = np.random.default_rng(0)
NUMBERS = _rng.normal(size=(N_ROWS, 3))
SHOP = np.array(["x", "y", "z"])[np.arange(N_ROWS) % 3]
COLOR = _rng.choice(["red", "green", "blue"], N_ROWS)
VALUES = NUMBERS[:, 0] + (SHOP == "x") * NUMBERS[:, 1] + (COLOR == "red") + _rng.normal(size=N_ROWS)
CLASSES = np.where(VALUES > 0.3, "fraud", "ok")
THREE_CLASSES = np.digitize(VALUES, [-0.5, 0.8])
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b", "c"]).assign(
    shop=SHOP, color=pd.Categorical(COLOR)
)
FAST = {"strategy": "two-stage", "n_estimators": 10, "specific_rounds": 5, "random_state": 0}
FAST_FIT = {"strategy": "two-stage", "num_boost_round": 10, "specific_rounds": 5, "seed": 0}

every_estimator = pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (MultiTaskClassifier(**FAST), CLASSES),
        (MultiTaskClassifier(**FAST), THREE_CLASSES),
        (MultiTaskRegressor(**FAST), VALUES),
        (MultiTaskClassifier(backend="lightgbm", **FAST), THREE_CLASSES),
    ],
    ids=["two classes", "three classes", "regressor", "lightgbm"],
)


def boosters(model):
    model = getattr(model, "model_", model)
    raw = LIBRARIES[model.backend].raw
    return {task: raw(model.booster(task)) for task in model.tasks}


# scikit-learn's rules


@parametrize_with_checks(
    [
        MultiTaskClassifier(strategy="two-stage"),
        MultiTaskRegressor(strategy="two-stage"),
        MultiTaskClassifier(backend="lightgbm", strategy="two-stage"),
        MultiTaskRegressor(backend="lightgbm", strategy="two-stage"),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(
        (type(estimator).__name__, estimator.backend), {}
    ),
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("y", [CLASSES, THREE_CLASSES], ids=["two", "three"])
def test_rows_weighted_by_powers_of_two_are_rows_repeated_bit_for_bit(y):
    # What scikit-learn demands of all weights (EXPECTED_FAILURES): nothing is rounded here.
    times = np.array([0, 1, 2, 4])[np.arange(N_ROWS) // 3 % 4]
    weighted = MultiTaskClassifier(n_estimators=20, strategy="two-stage").fit(
        NUMBERS, y, sample_weight=times
    )
    repeated = MultiTaskClassifier(n_estimators=20, strategy="two-stage").fit(
        NUMBERS.repeat(times, axis=0), y.repeat(times)
    )
    np.testing.assert_array_equal(
        weighted.decision_function(NUMBERS), repeated.decision_function(NUMBERS)
    )


# Plain boosting without a task

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


# mtboost.fit underneath


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ({}, {}),
        ({"n_estimators": 1}, {"num_boost_round": 1}),
        ({"max_depth": 2}, {"params": {"max_depth": 2}}),
        ({"subsample": 0.5}, {"params": {"subsample": 0.5}}),
        ({"colsample_bytree": 0.4}, {"params": {"colsample_bytree": 0.4}}),
        ({"colsample_bylevel": 0.4}, {"params": {"colsample_bylevel": 0.4}}),
        ({"colsample_bynode": 0.4}, {"params": {"colsample_bynode": 0.4}}),
        ({"params": {"base_score": 0.9}}, {"params": {"base_score": 0.9}}),
        ({"objective": "reg:pseudohubererror"}, {"objective": "reg:pseudohubererror"}),
        ({"split_score": "plain"}, {"split_score": "plain"}),
        ({"split_score": "variance", "beta": 0.5}, {"split_score": "variance", "beta": 0.5}),
        ({"pooling": 5.0}, {"pooling": 5.0}),
        ({"strategy": "auto"}, {"strategy": "auto"}),
        (
            {"split_score": "plain", "symmetric_trees": True},
            {"split_score": "plain", "symmetric_trees": True},
        ),
        (  # steps in which tasks quit
            {"early_stopping_rounds": 1, "learning_rate": 1.0},
            {"early_stopping_rounds": 1, "params": {"learning_rate": 1.0}},
        ),
        ({"min_delta": 0.2}, {"min_delta": 0.2}),
        ({"eval_metric": "mae"}, {"eval_metric": "mae"}),
        ({"validation_fraction": 0.4}, {"validation_fraction": 0.4}),
        ({"specific_params": {"eta": 0.02}}, {"specific_params": {"eta": 0.02}}),
        ({"specific_rounds": 0}, {"specific_rounds": 0}),
        ({"feature_prior": "auto"}, {"feature_prior": "auto"}),
        ({"task_weight": {"x": 9, "y": 1, "z": 1}}, {"task_weight": {"x": 9, "y": 1, "z": 1}}),
        ({"refit": True}, {"refit": True}),
        ({"common_features": ["a"]}, {"common_features": ["a"]}),
        ({"random_state": 3}, {"seed": 3}),
        ({"backend": "lightgbm"}, {"backend": "lightgbm"}),
    ],
    ids=lambda names: ",".join(names) or "defaults",
)
def test_each_parameter_reaches_fit(parameters, arguments):
    # Of training rows alone: models of all rows need not depend on which were held out.
    fixed = {"task": "shop", "refit": False}
    model = mtboost.fit(FRAME, VALUES, **{**fixed, **FAST_FIT, **arguments})
    estimator = MultiTaskRegressor().set_params(**{**fixed, **FAST, **parameters})
    estimator.fit(FRAME, VALUES)
    assert boosters(estimator) == boosters(model)
    assert estimator.quit_round_ == model.quit_round
    if parameters:
        default = MultiTaskRegressor(**fixed, **FAST).fit(FRAME, VALUES)
        assert boosters(estimator) != boosters(default)


def test_task_splits_reach_fit():
    options = {"split_score": "plain", "task_splits": 0.5}
    model = mtboost.fit(NUMBERS, VALUES, task=SHOP, **FAST_FIT, **options)
    estimator = MultiTaskRegressor(**FAST, **options).fit(NUMBERS, VALUES, task=SHOP)
    assert boosters(estimator) == boosters(model)


def test_the_number_of_rounds_depends_on_the_strategy(monkeypatch):
    estimator = MultiTaskRegressor(
        max_depth=1, specific_rounds=0, early_stopping_rounds=None, strategy="two-stage"
    )
    estimator.fit(NUMBERS, VALUES, task=SHOP)
    assert set(estimator.quit_round_.values()) == {100}
    monkeypatch.setattr("mtboost.model.making_settings._AUTO_ROUNDS", 3)
    estimator.set_params(strategy="auto", early_stopping_rounds=5, linear_effects=False)
    estimator.fit(NUMBERS, VALUES, task=SHOP)
    assert set(estimator.quit_round_.values()) <= {0, 1, 2, 3}


def test_data_beside_x_reach_fit():
    margin, weight = VALUES / 2, np.arange(N_ROWS) % 5
    valid = (NUMBERS[::2], VALUES[::2], SHOP[::2], weight[::2] + 1, margin[::2])
    model = mtboost.fit(
        NUMBERS, VALUES, task=SHOP, weight=weight, base_margin=margin, eval_set=valid, **FAST_FIT
    )
    estimator = MultiTaskRegressor(**FAST).fit(
        NUMBERS, VALUES, task=SHOP, sample_weight=weight, base_margin=margin, eval_set=valid
    )
    assert boosters(estimator) == boosters(model)
    np.testing.assert_array_equal(
        estimator.predict(NUMBERS, task=SHOP, base_margin=margin),
        model.predict(NUMBERS, task=SHOP, base_margin=margin),
    )


def test_a_row_may_start_from_a_margin_of_each_class():
    margins = np.random.default_rng(1).normal(size=(N_ROWS, 3))
    estimator = MultiTaskClassifier(**FAST)
    estimator.fit(NUMBERS, THREE_CLASSES, task=SHOP, base_margin=margins)
    model = mtboost.fit(
        NUMBERS,
        THREE_CLASSES,
        task=SHOP,
        objective="multi:softprob",
        base_margin=margins,
        **FAST_FIT,
    )
    np.testing.assert_array_equal(
        estimator.decision_function(NUMBERS, task=SHOP, base_margin=margins),
        model.predict_margin(NUMBERS, task=SHOP, base_margin=margins),
    )


def test_a_classifier_encodes_the_labels_of_validation_rows_as_well():
    valid = (NUMBERS[::2], CLASSES[::2], SHOP[::2])
    estimator = MultiTaskClassifier(**FAST).fit(NUMBERS, CLASSES, task=SHOP, eval_set=valid)
    codes = (CLASSES == "ok").astype(int)
    model = mtboost.fit(
        NUMBERS,
        codes,
        task=SHOP,
        objective="binary:logistic",
        eval_set=(NUMBERS[::2], codes[::2], SHOP[::2]),
        **FAST_FIT,
    )
    assert boosters(estimator) == boosters(model)


def test_threads_do_not_change_the_model():
    models = [MultiTaskRegressor(task="shop", n_jobs=n, **FAST) for n in (1, 2, -1, None)]
    first, *others = [boosters(model.fit(FRAME, VALUES)) for model in models]
    assert all(other == first for other in others)


def test_report_history_and_boosters_are_the_models(library):
    pytest.importorskip("matplotlib").use("agg")
    estimator = MultiTaskClassifier(task="shop", backend=library.name, **FAST).fit(FRAME, CLASSES)
    pd.testing.assert_frame_equal(estimator.report(), estimator.model_.report())
    assert estimator.report()["quit_round"].to_dict() == estimator.quit_round_
    assert estimator.plot_history().lines
    margins = library.margins(estimator.booster("x"), FRAME.drop(columns="shop"))
    np.testing.assert_allclose(
        margins[SHOP == "x"],
        estimator.decision_function(FRAME)[SHOP == "x"],
        rtol=0,
        atol=library.atol,
    )


def test_a_model_without_validation_rows_has_no_history_to_draw(library):
    pytest.importorskip("matplotlib").use("agg")
    options = {"validation_fraction": 0, "backend": library.name}
    estimator = MultiTaskRegressor(task="shop", **options, **FAST).fit(FRAME, VALUES)
    with pytest.raises(DataError, match="no validation curves to draw: fit it with validation"):
        estimator.plot_history()


def test_what_an_estimator_fixes_auto_keeps(library):
    fixed = {"pooling": 2.0, "task_splits": False, "random_strength": 0.5, "max_depth": 2}
    options = {"backend": library.name, **fixed, **FAST, "strategy": "auto"}
    estimator = MultiTaskRegressor(task="shop", **options).fit(FRAME, VALUES)
    tried = [*estimator.model_.common_losses]
    assert all("given size, given pooling" in name for name in tried)
    assert {name.partition("strength ")[2] for name in tried} <= {"", "0.5"}


def test_before_fit_everything_is_refused_as_unfitted():
    for name in ("report", "plot_history"):
        with pytest.raises(NotFittedError):
            getattr(MultiTaskRegressor(strategy="two-stage"), name)()
    with pytest.raises(NotFittedError):
        MultiTaskRegressor(strategy="two-stage").booster("all")
    with pytest.raises(NotFittedError):
        _ = MultiTaskRegressor(strategy="two-stage").feature_importances_
    assert not hasattr(MultiTaskRegressor(strategy="two-stage"), "feature_importances_")


# The task as a column of X

COLUMN = np.arange(N_ROWS) % 3
FRAMES_WITH_TASK = {
    "pandas": FRAME,
    "pandas category": FRAME.assign(shop=FRAME["shop"].astype("category")),
    "polars": pl.from_pandas(FRAME).with_columns(pl.col("color").cast(pl.Categorical)),
    "pyarrow": pa.Table.from_pandas(FRAME),
}
OBJECTS = np.insert(NUMBERS.astype(object), 1, SHOP, axis=1)
ARRAYS_WITH_TASK = {
    "numpy": np.insert(NUMBERS, 1, COLUMN, axis=1),
    "objects": OBJECTS,
    "list": np.insert(NUMBERS, 1, COLUMN, axis=1).tolist(),
    "csr": sp.csr_array(np.insert(NUMBERS, 1, COLUMN, axis=1)),
    "csc": sp.csc_matrix(np.insert(NUMBERS, 1, COLUMN, axis=1)),
}


@every_estimator
@pytest.mark.parametrize("X", FRAMES_WITH_TASK.values(), ids=FRAMES_WITH_TASK)
def test_a_task_column_of_a_frame_gives_the_model_of_its_labels(estimator, y, X):
    by_column = clone(estimator).set_params(task="shop").fit(X, y)
    features = FRAME.drop(columns="shop")
    by_labels = clone(estimator).fit(features, y, task=SHOP)
    assert boosters(by_column) == boosters(by_labels)
    np.testing.assert_array_equal(by_column.predict(X), by_labels.predict(features, task=SHOP))
    assert by_column.n_features_in_ == 5
    assert by_column.feature_names_in_.tolist() == ["a", "b", "c", "shop", "color"]
    library = LIBRARIES[estimator.backend]
    assert library.feature_names(by_column.booster("x")) == ["a", "b", "c", "color"]


@every_estimator
@pytest.mark.parametrize("X", ARRAYS_WITH_TASK.values(), ids=ARRAYS_WITH_TASK)
def test_a_task_column_of_an_array_gives_the_model_of_its_labels(estimator, y, X):
    by_column = clone(estimator).set_params(task=1).fit(X, y)
    by_labels = clone(estimator).fit(NUMBERS, y, task=SHOP)
    assert list(boosters(by_column).values()) == list(boosters(by_labels).values())
    np.testing.assert_array_equal(by_column.predict(X), by_labels.predict(NUMBERS, task=SHOP))
    assert by_column.n_features_in_ == 4
    assert not hasattr(by_column, "feature_names_in_")


def test_the_model_of_an_estimator_knows_the_task_column(tmp_path):
    estimator = MultiTaskRegressor(task="shop", **FAST).fit(FRAME, VALUES)
    estimator.model_.save(tmp_path / "model")
    model = mtboost.load_model(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(FRAME), estimator.predict(FRAME))


def test_validation_rows_hold_the_task_column_too():
    estimator = MultiTaskRegressor(task="shop", **FAST)
    by_column = estimator.fit(FRAME, VALUES, eval_set=(FRAME[::2], VALUES[::2]))
    features = FRAME.drop(columns="shop")
    by_labels = MultiTaskRegressor(**FAST).fit(
        features, VALUES, task=SHOP, eval_set=(features[::2], VALUES[::2], SHOP[::2])
    )
    assert boosters(by_column) == boosters(by_labels)


@pytest.mark.parametrize(
    "X", [FRAME, NUMBERS, sp.csr_array(NUMBERS)], ids=["pandas", "numpy", "csr"]
)
def test_x_is_handed_on_as_it_is(X, monkeypatch):
    seen = []

    def spy(X, *args, **kwargs):
        seen.append(X)
        return mtboost.fit(X, *args, **kwargs)

    monkeypatch.setattr("mtboost.estimators.multi_task.base.fit", spy)
    task = "shop" if X is FRAME else None
    MultiTaskRegressor(task=task, **FAST).fit(X, VALUES)
    assert seen[0] is X


def test_an_unknown_task_is_refused_or_predicted_by_the_common_model():
    estimator = MultiTaskRegressor(
        task="shop", n_estimators=10, specific_rounds=0, strategy="two-stage"
    )
    estimator.fit(FRAME, VALUES)
    new = FRAME.assign(shop="w")
    with pytest.raises(DataError, match=r"'w' at row 0 is unknown\. Known: tasks 'x', 'y'"):
        estimator.predict(new)
    longest = max(estimator.quit_round_, key=estimator.quit_round_.get)
    np.testing.assert_array_equal(
        estimator.predict(new, unknown_task="common"), estimator.predict(FRAME.assign(shop=longest))
    )


# scikit-learn's tools with a task column

CLASSIFIER = MultiTaskClassifier(task="shop", **FAST)
SPLITS = list(KFold(3).split(FRAME))


def by_hand(train, y=CLASSES):
    """The model of mtboost.fit on some rows; 1 is "ok"."""
    return mtboost.fit(
        FRAME.iloc[train], y[train] == "ok", task="shop", objective="binary:logistic", **FAST_FIT
    )


def test_cross_val_score_scores_the_model_of_each_fold():
    scores = cross_val_score(
        CLASSIFIER, FRAME, CLASSES, cv=SPLITS, scoring="roc_auc", error_score="raise"
    )
    expected = [
        roc_auc_score(CLASSES[test] == "ok", by_hand(train).predict(FRAME.iloc[test]))
        for train, test in SPLITS
    ]
    np.testing.assert_array_equal(scores, expected)


def test_cross_val_predict_predicts_each_row_by_the_model_that_did_not_see_it():
    probabilities = cross_val_predict(CLASSIFIER, FRAME, CLASSES, cv=SPLITS, method="predict_proba")
    for train, test in SPLITS:
        np.testing.assert_array_equal(
            probabilities[test], by_hand(train).predict_proba(FRAME.iloc[test])
        )


def test_cross_validate_returns_fitted_estimators_of_all_tasks():
    found = cross_validate(
        CLASSIFIER, FRAME, CLASSES, cv=SPLITS, return_estimator=True, error_score="raise"
    )
    for estimator, score, (train, test) in zip(
        found["estimator"], found["test_score"], SPLITS, strict=True
    ):
        assert boosters(estimator) == boosters(by_hand(train))
        assert score == accuracy_score(CLASSES[test], estimator.predict(FRAME.iloc[test]))


def test_grid_search_finds_the_parameter_that_scores_best():
    search = GridSearchCV(
        CLASSIFIER, {"max_depth": [1, 3], "split_score": ["entropy", "plain"]}, error_score="raise"
    ).fit(FRAME, CLASSES)
    best = clone(CLASSIFIER).set_params(**search.best_params_).fit(FRAME, CLASSES)
    assert search.best_score_ == cross_val_score(best, FRAME, CLASSES).mean()
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert boosters(search.best_estimator_) == boosters(best)


def test_grid_search_in_processes_finds_the_same():
    grid = {"max_depth": [1, 3]}
    searches = [
        GridSearchCV(CLASSIFIER, grid, n_jobs=n, cv=SPLITS, error_score="raise").fit(FRAME, CLASSES)
        for n in (1, 2)
    ]
    one, two = (search.cv_results_["mean_test_score"] for search in searches)
    np.testing.assert_array_equal(one, two)


def test_permutation_importance_sees_the_task_column():
    y = NUMBERS[:, 0] * np.where(SHOP == "x", 1.0, -1.0)  # means nothing without the task
    estimator = MultiTaskRegressor(
        task="shop", n_estimators=20, random_state=0, strategy="two-stage"
    ).fit(FRAME, y)
    found = permutation_importance(estimator, FRAME, y, n_repeats=3, random_state=0)
    importance = dict(zip(FRAME.columns, found.importances_mean, strict=True))
    assert importance["a"] > 0.5
    assert importance["shop"] > 0.5
    assert max(abs(importance[name]) for name in ("b", "c", "color")) < 0.1


def test_a_pipeline_with_a_column_transformer_passes_the_task_column_on():
    columns = ColumnTransformer(
        [
            ("scaled", StandardScaler(), ["a", "b", "c"]),
            ("one hot", OneHotEncoder(sparse_output=False), ["color"]),
        ],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(columns, CLASSIFIER)
    pipeline.fit(FRAME, CLASSES)
    prepared = columns.fit_transform(FRAME)
    assert boosters(pipeline[-1]) == boosters(clone(CLASSIFIER).fit(prepared, CLASSES))
    scores = cross_val_score(pipeline, FRAME, CLASSES, cv=SPLITS, error_score="raise")
    for score, (train, test) in zip(scores, SPLITS, strict=True):
        pipeline.fit(FRAME.iloc[train], CLASSES[train])
        assert score == pipeline.score(FRAME.iloc[test], CLASSES[test])


def test_a_column_transformer_may_give_an_array_of_objects():
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), ["a", "b", "c"])], remainder="passthrough"
    )
    assert columns.fit_transform(FRAME.drop(columns="color")).dtype == object
    pipeline = make_pipeline(columns, MultiTaskClassifier(task=3, **FAST))
    scores = cross_val_score(
        pipeline, FRAME.drop(columns="color"), CLASSES, cv=SPLITS, error_score="raise"
    )
    columns.set_output(transform="pandas").set_params(verbose_feature_names_out=False)
    of_frames = make_pipeline(columns, CLASSIFIER)
    expected = cross_val_score(
        of_frames, FRAME.drop(columns="color"), CLASSES, cv=SPLITS, error_score="raise"
    )
    np.testing.assert_array_equal(scores, expected)


# The task as routed metadata


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def routed(estimator):
    return (
        estimator.set_fit_request(task=True)
        .set_predict_request(task=True)
        .set_score_request(task=True)
    )


@pytest.mark.usefixtures("routing")
@every_estimator
def test_a_pipeline_routes_the_task_to_fit_predict_and_score(estimator, y):
    pipeline = make_pipeline(StandardScaler(), routed(clone(estimator)))
    pipeline.fit(NUMBERS, y, task=SHOP)
    scaled = StandardScaler().fit_transform(NUMBERS)
    alone = clone(estimator).fit(scaled, y, task=SHOP)
    assert boosters(pipeline[-1]) == boosters(alone)
    predictions = pipeline.predict(NUMBERS, task=SHOP)
    np.testing.assert_array_equal(predictions, alone.predict(scaled, task=SHOP))
    score = accuracy_score if y is not VALUES else r2_score
    assert pipeline.score(NUMBERS, y, task=SHOP) == score(y, predictions)


@pytest.mark.usefixtures("routing")
def test_predict_proba_and_decision_function_may_request_the_task():
    estimator = (
        MultiTaskClassifier(**FAST)
        .set_fit_request(task=True)
        .set_predict_proba_request(task=True)
        .set_decision_function_request(task=True)
    )
    pipeline = make_pipeline(StandardScaler(), estimator).fit(NUMBERS, CLASSES, task=SHOP)
    margins = pipeline.decision_function(NUMBERS, task=SHOP)
    probabilities = pipeline.predict_proba(NUMBERS, task=SHOP)
    np.testing.assert_array_equal(margins > 0, probabilities[:, 1] > 0.5)


@pytest.mark.usefixtures("routing")
def test_cross_validate_routes_the_rows_of_each_fold():
    estimator = routed(MultiTaskClassifier(**FAST))
    found = cross_validate(
        estimator, NUMBERS, CLASSES, cv=SPLITS, params={"task": SHOP}, error_score="raise"
    )
    for score, (train, test) in zip(found["test_score"], SPLITS, strict=True):
        estimator.fit(NUMBERS[train], CLASSES[train], task=SHOP[train])
        assert score == estimator.score(NUMBERS[test], CLASSES[test], task=SHOP[test])


@pytest.mark.usefixtures("routing")
def test_grid_search_routes_the_task_through_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), routed(MultiTaskRegressor(**FAST)))
    grid = {"multitaskregressor__max_depth": [1, 4]}
    search = GridSearchCV(pipeline, grid, error_score="raise").fit(NUMBERS, VALUES, task=SHOP)
    best = clone(pipeline).set_params(**search.best_params_).fit(NUMBERS, VALUES, task=SHOP)
    assert boosters(search.best_estimator_[-1]) == boosters(best[-1])
    assert search.score(NUMBERS, VALUES, task=SHOP) == best.score(NUMBERS, VALUES, task=SHOP)


@pytest.mark.usefixtures("routing")
def test_a_task_that_was_not_requested_is_not_dropped_in_silence():
    with pytest.raises(UnsetMetadataPassedError, match="task"):
        cross_validate(
            MultiTaskRegressor(strategy="two-stage"), NUMBERS, VALUES, params={"task": SHOP}
        )


@pytest.mark.parametrize(
    "estimator",
    [
        MultiTaskClassifier(strategy="two-stage"),
        MultiTaskRegressor(strategy="two-stage"),
        MultiTaskRanker(strategy="two-stage"),
    ],
)
def test_only_what_belongs_to_rows_can_be_requested(estimator):
    requests = estimator.get_metadata_routing()
    of_fit = {"task", "sample_weight", "base_margin", "eval_set"}
    assert set(requests.fit.requests) - {"qid"} == of_fit
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(estimator, method):
            assert set(getattr(requests, method).requests) == {"task", "base_margin"}


# Copies, repeated fits, and what fit leaves alone


@every_estimator
def test_clone_has_the_parameters_and_nothing_else(estimator, y):
    original = clone(estimator).set_params(specific_params={"eta": 0.1}, task="shop")
    original.fit(FRAME, y)
    copied = clone(original)
    assert copied.get_params() == original.get_params()
    assert not hasattr(copied, "model_")
    assert boosters(copied.fit(FRAME, y)) == boosters(original)


def dumped(estimator):
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return joblib.load(file)


@every_estimator
@pytest.mark.parametrize(
    "copied",
    [lambda e: pickle.loads(pickle.dumps(e)), dumped, copy.deepcopy],
    ids=["pickle", "joblib", "deepcopy"],
)
def test_a_copy_predicts_the_same(estimator, y, copied):
    original = clone(estimator).set_params(task="shop").fit(FRAME, y)
    other = copied(original)
    assert other is not original
    np.testing.assert_array_equal(other.predict(FRAME), original.predict(FRAME))
    assert boosters(other) == boosters(original)
    np.testing.assert_array_equal(other.feature_importances_, original.feature_importances_)
    with pytest.raises(ValueError, match="feature names should match"):
        other.predict(FRAME.rename(columns={"a": "A"}))


class Counter:
    """Ends training after ten rounds in all its life."""

    n_rounds = 0

    def __call__(self, *_):
        self.n_rounds += 1
        return self.n_rounds >= 10


@every_estimator
def test_a_second_fit_equals_a_fresh_one_bit_for_bit(estimator, y):
    library = LIBRARIES[estimator.backend]
    callbacks = [library.callback(Counter())]
    estimator = clone(estimator).set_params(n_estimators=12, callbacks=callbacks, task="shop")
    used = clone(estimator).fit(FRAME, y)
    other = FRAME.iloc[30:].drop(columns="b")
    # Fewer rows, columns and tasks, and other labels.
    other, y_other = other[other["shop"] != "z"], y[30:][SHOP[30:] != "z"]
    y_other = np.char.upper(y_other) if y_other.dtype.kind == "U" else y_other + 1
    used.fit(other, y_other)
    fresh = clone(estimator).fit(other, y_other)
    assert boosters(used) == boosters(fresh)
    assert used.tasks_ == fresh.tasks_ == ("x", "y")
    assert library.n_rounds(used.model_.common) == 10
    assert vars(used).keys() == vars(fresh).keys()
    np.testing.assert_array_equal(used.predict(other), fresh.predict(other))
    np.testing.assert_array_equal(used.feature_importances_, fresh.feature_importances_)
    if hasattr(fresh, "classes_"):
        np.testing.assert_array_equal(used.classes_, fresh.classes_)


def test_column_names_of_an_earlier_fit_are_forgotten():
    estimator = MultiTaskRegressor(**FAST).fit(FRAME[["a", "b"]], VALUES)
    estimator.fit(NUMBERS, VALUES)
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.n_features_in_ == 3


def test_fit_changes_no_parameter():
    parameters = {
        "callbacks": [LIBRARIES["xgboost"].callback(Counter())],
        "params": {"base_score": 0.5},
        "specific_params": {"eta": 0.1},
        "monotone_constraints": {"a": 1},
        "task_weight": {"x": 1.0, "y": 2.0, "z": 3.0},
        "common_features": ["a", "color"],
    }
    given = copy.deepcopy({name: parameters[name] for name in parameters if name != "callbacks"})
    estimator = MultiTaskRegressor(task="shop", **FAST, **parameters).fit(FRAME, VALUES)
    for name, value in parameters.items():
        assert getattr(estimator, name) is value
    assert {name: parameters[name] for name in given} == given
    assert parameters["callbacks"][0].after_round.n_rounds == 0
    assert estimator.callbacks_[0].after_round.n_rounds == 10


def test_nothing_is_printed_unless_asked_for(capfd):
    MultiTaskRegressor(task="shop", **FAST).fit(FRAME, VALUES).predict(FRAME)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    MultiTaskRegressor(task="shop", verbose=True, **FAST).fit(FRAME, VALUES)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "common model" in captured.err
    MultiTaskRegressor(task="shop", verbose=1, **FAST).fit(FRAME, VALUES)
    assert "x-rmse:" in capfd.readouterr().out


def test_random_state_is_an_int_a_generator_or_numpys_own():
    def fitted(random_state):
        estimator = MultiTaskRegressor(task="shop", **FAST | {"random_state": random_state})
        return boosters(estimator.fit(FRAME, VALUES))

    assert fitted(1) == fitted(np.int64(1)) == fitted(1)
    assert fitted(1) != fitted(2)
    generator = np.random.RandomState(5)
    first, second = fitted(generator), fitted(generator)
    assert first != second
    assert fitted(np.random.RandomState(5)) == first
    numpys_own = np.random.mtrand._rand
    state = numpys_own.get_state()
    try:
        numpys_own.seed(5)
        assert fitted(None) == first
        assert fitted(None) == second
    finally:
        numpys_own.set_state(state)


# One table a task

ROWS = {task: np.flatnonzero(task == SHOP) for task in "xyz"}
TABLES = {"x": FRAME.loc[SHOP == "x", ["a", "b", "c"]], "y": FRAME.loc[SHOP == "y", ["c", "a"]]}


@every_estimator
def test_a_mapping_of_tables_gives_a_mapping_of_predictions(estimator, y):
    library = LIBRARIES[estimator.backend]
    labels = {task: y[table.index] for task, table in TABLES.items()}
    weight = {task: np.arange(len(table)) + 1.0 for task, table in TABLES.items()}
    estimator = clone(estimator).fit(TABLES, labels, sample_weight=weight)
    assert estimator.tasks_ == ("x", "y")
    assert estimator.n_features_in_ == 3
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
    predictions = estimator.predict(TABLES)
    for task, table in TABLES.items():
        alone = estimator.predict({task: table})[task]
        np.testing.assert_array_equal(predictions[task], alone)
        of_rows = estimator.predict(table, task=[task] * len(table))
        np.testing.assert_array_equal(predictions[task], of_rows)
        booster = estimator.booster(task)
        margins = library.margins(booster, table[library.feature_names(booster)])
        assert_equal = partial(np.testing.assert_allclose, margins, rtol=0, atol=library.atol)
        if y is VALUES:
            assert_equal(predictions[task])
        else:
            assert_equal(estimator.decision_function(TABLES)[task])
            assert estimator.predict_proba(TABLES)[task].shape == (len(table), len(np.unique(y)))
    assert estimator.feature_importances_.shape == (3,)
    assert boosters(clone(estimator).fit(TABLES, labels)) != boosters(estimator)


def test_arrays_of_a_mapping_have_columns_without_names():
    arrays = {task: NUMBERS[rows] for task, rows in ROWS.items()}
    labels = {task: VALUES[rows] for task, rows in ROWS.items()}
    estimator = MultiTaskRegressor(**FAST).fit(arrays, labels)
    assert estimator.n_features_in_ == 3
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.feature_importances_.argmax() == 0


# Labels


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1]),
        np.array([10, 2**40]),
        np.array([1.0, 2.0]),
    ],
    ids=str,
)
def test_labels_of_any_type_come_back(labels):
    y = labels[(VALUES > 0).astype(int)]
    estimator = MultiTaskClassifier(**FAST).fit(NUMBERS, y, task=SHOP)
    reference = MultiTaskClassifier(**FAST).fit(NUMBERS, VALUES > 0, task=SHOP)
    assert estimator.classes_.tolist() == labels.tolist()
    assert estimator.classes_.dtype == labels.dtype
    predictions = estimator.predict(NUMBERS, task=SHOP)
    assert predictions.dtype == labels.dtype
    np.testing.assert_array_equal(predictions == labels[1], reference.predict(NUMBERS, task=SHOP))


@pytest.mark.parametrize(
    "make",
    [
        list,
        pd.Series,
        lambda y: pd.Series(pd.Categorical(y)),
        pl.Series,
        lambda y: pl.Series(y, dtype=pl.Categorical),
        pa.array,
        lambda y: pa.chunked_array([y[:100], y[100:]]),
    ],
    ids=["list", "pandas", "category", "polars", "polars category", "arrow", "arrow chunks"],
)
def test_labels_may_come_in_any_container(make):
    estimator = MultiTaskClassifier(**FAST).fit(NUMBERS, make(CLASSES), task=SHOP)
    assert estimator.classes_.tolist() == ["fraud", "ok"]
    assert boosters(estimator) == boosters(
        MultiTaskClassifier(**FAST).fit(NUMBERS, CLASSES, task=SHOP)
    )


def test_a_task_may_have_one_class_and_another_may_lack_one():
    # x is always "a", y never "c", z has all.
    of_task = {"x": ["a", "a", "a"], "y": ["a", "b", "b"], "z": ["a", "b", "c"]}
    y = np.array([of_task[shop][code] for shop, code in zip(SHOP, THREE_CLASSES, strict=True)])
    estimator = MultiTaskClassifier(n_estimators=30, random_state=0, strategy="two-stage").fit(
        NUMBERS, y, task=SHOP
    )
    assert estimator.classes_.tolist() == ["a", "b", "c"]
    predictions = estimator.predict(NUMBERS, task=SHOP)
    assert set(predictions[SHOP == "x"]) == {"a"}
    assert set(predictions[SHOP == "y"]) == {"a", "b"}
    assert set(predictions[SHOP == "z"]) == {"a", "b", "c"}
    assert estimator.predict_proba(NUMBERS, task=SHOP).shape == (N_ROWS, 3)

    tables = {task: NUMBERS[rows] for task, rows in ROWS.items()}
    labels = {task: y[rows] for task, rows in ROWS.items()}
    by_table = clone(estimator).fit(tables, labels)
    assert by_table.classes_.tolist() == ["a", "b", "c"]
    assert set(by_table.predict(tables)["x"]) == {"a"}


@pytest.mark.parametrize(
    ("objective", "y"),
    [
        ("binary:logistic", THREE_CLASSES > 0),
        ("binary:logitraw", THREE_CLASSES > 0),
        ("binary:hinge", THREE_CLASSES > 0),
        ("multi:softprob", THREE_CLASSES > 0),
        ("multi:softprob", THREE_CLASSES),
        ("multi:softmax", THREE_CLASSES),
    ],
)
def test_margins_probabilities_and_classes_agree_for_every_objective(objective, y):
    estimator = MultiTaskClassifier(objective=objective, **FAST).fit(NUMBERS, y, task=SHOP)
    margins = estimator.decision_function(NUMBERS, task=SHOP)
    probabilities = estimator.predict_proba(NUMBERS, task=SHOP)
    predictions = estimator.predict(NUMBERS, task=SHOP)
    assert probabilities.shape == (N_ROWS, len(estimator.classes_))
    # float32 probabilities of at most three classes, each rounded once in the sum
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=4 * np.finfo(np.float32).eps)
    np.testing.assert_array_equal(predictions, estimator.classes_[probabilities.argmax(axis=1)])
    best = margins.argmax(axis=1) if margins.ndim == 2 else (margins > 0).astype(int)
    np.testing.assert_array_equal(predictions, estimator.classes_[best])
    assert accuracy_score(y, predictions) > 0.6


def test_a_regressor_takes_an_objective_of_the_users():
    def squared_error(margins, matrix):
        return margins - matrix.get_label(), np.ones_like(margins)

    custom = MultiTaskRegressor(objective=squared_error, params={"base_score": 0.0}, **FAST)
    named = MultiTaskRegressor(params={"base_score": 0.0}, **FAST)
    np.testing.assert_array_equal(
        custom.fit(NUMBERS, VALUES, task=SHOP).predict(NUMBERS, task=SHOP),
        named.fit(NUMBERS, VALUES, task=SHOP).predict(NUMBERS, task=SHOP),
    )


# Importance


def test_importances_are_the_average_over_tasks_and_the_task_column_has_none():
    y = np.where(SHOP == "x", NUMBERS[:, 0], NUMBERS[:, 1])
    estimator = MultiTaskRegressor(
        task="shop", n_estimators=20, random_state=0, strategy="two-stage"
    ).fit(FRAME, y)
    expected = np.zeros(5)
    for task in "xyz":
        gains = estimator.booster(task).get_score(importance_type="gain")
        share = np.array([gains.get(name, 0.0) for name in FRAME.columns])
        expected += share / share.sum() / 3
    # XGBoost adds up gains in float32.
    np.testing.assert_allclose(estimator.feature_importances_, expected, rtol=1e-5)
    assert estimator.feature_importances_[3] == 0


@pytest.mark.parametrize("position", [0, 1, 3])
def test_importances_of_an_array_skip_the_task_column(position):
    X = np.insert(NUMBERS, position, COLUMN, axis=1)
    by_column = MultiTaskRegressor(task=position, **FAST).fit(X, VALUES)
    by_labels = MultiTaskRegressor(**FAST).fit(NUMBERS, VALUES, task=SHOP)
    np.testing.assert_array_equal(
        by_column.feature_importances_, np.insert(by_labels.feature_importances_, position, 0.0)
    )


def test_importances_follow_the_integer_labels_of_pandas_columns():
    labels = [30, 10, 20, 40]
    X = pd.DataFrame(np.insert(NUMBERS, 1, COLUMN, axis=1), columns=labels)
    estimator = MultiTaskRegressor(task=10, **FAST).fit(X, VALUES)
    by_labels = MultiTaskRegressor(**FAST).fit(NUMBERS, VALUES, task=SHOP)
    np.testing.assert_array_equal(
        estimator.feature_importances_, np.insert(by_labels.feature_importances_, 1, 0.0)
    )


def test_importances_are_zero_where_nothing_is_split():
    estimator = MultiTaskRegressor(gamma=1e9, **FAST).fit(NUMBERS, VALUES)
    np.testing.assert_array_equal(estimator.feature_importances_, np.zeros(3))


# Mistakes


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, np.ones(N_ROWS, int), r"y has one class only, 1: a classifier needs two"),
        ({"objective": "reg:squarederror"}, CLASSES, "'reg:squarederror' gives no probabilities"),
        ({"objective": lambda m, d: (m, m)}, CLASSES, "gives no probabilities"),
        ({"objective": "binary:logistic"}, THREE_CLASSES, "is for two classes, but y has 3"),
        ({"params": {"max_depth": 3}}, CLASSES, "which MultiTaskClassifier has itself"),
        (
            {"learning_rate": 0.2, "params": {"eta": 0.1}},
            CLASSES,
            "'learning_rate' under two names",
        ),
        ({"params": {"seed": 1}}, CLASSES, "Pass seed="),
        ({}, VALUES, "Unknown label type: continuous"),
        ({"task": "shop"}, CLASSES, "no column 'shop', for its columns have no names"),
        ({"task": 3}, CLASSES, "no column 3: it has 3"),
        ({"max_depth": -1}, CLASSES, "max_depth"),
        (
            {"early_stopping_rounds": 0},
            CLASSES,
            "early_stopping_rounds must be None or an integer >= 1",
        ),
        ({"backend": "catboost"}, CLASSES, "backend must be 'xgboost' or 'lightgbm', found 'cat"),
        ({"backend": "lightgbm", "objective": "l2"}, CLASSES, "choose 'binary' or 'multiclass'"),
        ({"backend": "lightgbm", "objective": "binary"}, THREE_CLASSES, "choose 'multiclass'"),
        (
            {"backend": "lightgbm", "gamma": 1, "params": {"min_split_gain": 1}},
            CLASSES,
            "two names",
        ),
    ],
)
def test_what_a_classifier_cannot_be_fitted_with_is_refused(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        MultiTaskClassifier(**{"strategy": "two-stage", **parameters}).fit(NUMBERS, y)


def test_an_unknown_parameter_is_a_type_error():
    with pytest.raises(TypeError, match="n_estimator"):
        MultiTaskClassifier(n_estimator=3, strategy="two-stage")
    with pytest.raises(TypeError, match=r"unknown name 'max_dept'\. Did you mean 'max_depth'"):
        MultiTaskClassifier(params={"max_dept": 3}, strategy="two-stage").fit(NUMBERS, CLASSES)


def test_the_task_is_given_once():
    with pytest.raises(ParameterError, match=r"given twice, .* column 'shop'"):
        MultiTaskRegressor(task="shop", strategy="two-stage").fit(FRAME, VALUES, task=SHOP)


def test_a_model_of_several_tasks_needs_the_task_to_predict():
    estimator = MultiTaskRegressor(**FAST).fit(NUMBERS, VALUES, task=SHOP)
    with pytest.raises(DataError, match=r"task is missing: .* Known: tasks 'x', 'y', 'z'"):
        estimator.predict(NUMBERS)


def test_a_label_that_training_did_not_see_is_refused_in_validation_rows():
    with pytest.raises(ValueError, match="previously unseen labels"):
        MultiTaskClassifier(strategy="two-stage").fit(
            NUMBERS, CLASSES, eval_set=(NUMBERS, THREE_CLASSES)
        )


def test_labels_of_a_mapping_are_a_mapping():
    with pytest.raises(DataError, match=r"y is a ndarray; it must be a mapping"):
        MultiTaskRegressor(strategy="two-stage").fit(TABLES, VALUES)
    with pytest.raises(DataError, match="y lacks task 'y'"):
        MultiTaskRegressor(strategy="two-stage").fit(TABLES, {"x": VALUES[:80]})


@pytest.mark.parametrize("was_fitted", [False, True])
def test_a_failed_fit_leaves_nothing_to_predict_from(was_fitted):
    estimator = MultiTaskClassifier(**FAST)
    if was_fitted:  # the old model with the new classes would be a silent wrong answer
        estimator.fit(NUMBERS, THREE_CLASSES > 0)
    with pytest.raises(ValueError, match="max_depth"):
        estimator.set_params(max_depth=-1).fit(NUMBERS, CLASSES)
    with pytest.raises(NotFittedError):
        estimator.predict(NUMBERS)
