# SPDX-License-Identifier: Apache-2.0
"""Importances of one model are what its library says, or what its trees say node by node."""

import json

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import NotFittedError

import mtboost
from mtboost.base.checked_tables import as_table
from mtboost.errors import UnsupportedError
from mtboost.estimators.importances import importances_of
from mtboost.xgboost.library import check_readable, version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

_rng = np.random.default_rng(0)
X = _rng.normal(size=(300, 4)).astype(np.float32)
Y = X[:, 0] + 2 * (X[:, 1] > 0) + 0.3 * _rng.normal(size=300)
NAMES = ["age", "size of town", "c", "d"]
TABLE = pd.DataFrame(X, columns=NAMES)


def variance_drops(splits):
    """Importance of each feature, from the rows of each split: (feature, left, right).

    The parent has the rows of both sides.
    """
    found = np.zeros(X.shape[1])
    for feature, left, right in splits:
        both = left | right
        within = (left.sum() * Y[left].var() + right.sum() * Y[right].var()) / both.sum()
        found[feature] += Y[both].var() - within
    return found


def xgboost_splits(booster):
    """The splits of the first tree, followed row by row through its text."""
    pending = [(json.loads(booster.get_dump(dump_format="json")[0]), np.ones(len(Y), bool))]
    while pending:
        node, rows = pending.pop()
        if "children" in node:
            children = {child["nodeid"]: child for child in node["children"]}
            feature = int(node["split"].removeprefix("f"))
            on_left = X[:, feature] < np.float32(node["split_condition"])
            sides = rows & on_left, rows & ~on_left
            yield feature, *sides
            pending += zip((children[node["yes"]], children[node["no"]]), sides, strict=True)


def lightgbm_splits(booster):
    pending = [(booster.dump_model()["tree_info"][0]["tree_structure"], np.ones(len(Y), bool))]
    while pending:
        node, rows = pending.pop()
        if "split_feature" in node:
            on_left = X[:, node["split_feature"]] <= node["threshold"]
            sides = rows & on_left, rows & ~on_left
            yield node["split_feature"], *sides
            pending += zip((node["left_child"], node["right_child"]), sides, strict=True)


def sklearn_splits(tree):
    paths = tree.decision_path(X).toarray().astype(bool)
    nodes = tree.tree_
    for node in np.flatnonzero(nodes.children_left >= 0):
        sides = paths[:, nodes.children_left[node]], paths[:, nodes.children_right[node]]
        yield nodes.feature[node], *sides


# ---- XGBoost ----


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_gain_of_xgboost_is_its_total_gain(objective):
    y = Y if objective.startswith("reg") else np.digitize(Y, [0, 2])
    params = {"objective": objective, "max_depth": 3}
    params |= {"num_class": 3} if "multi" in objective else {}
    booster = xgboost.train(params, xgboost.QuantileDMatrix(X, y, feature_names=NAMES), 8)
    names, found = importances_of(booster, "gain", "it")
    assert names == tuple(NAMES)
    expected = booster.get_score(importance_type="total_gain")
    # XGBoost adds in float32: some 8 * 7 numbers.
    np.testing.assert_allclose(found, [expected.get(name, 0) for name in NAMES], rtol=1e-5)


def test_impurity_of_xgboost_is_the_drop_of_variance():
    params = {"max_depth": 3, "lambda": 0, "min_child_weight": 20}
    booster = xgboost.train(params, xgboost.DMatrix(X, Y), 1)
    names, found = importances_of(booster, "impurity", "it")
    assert names is None
    assert np.count_nonzero(found) >= 2
    expected = variance_drops(xgboost_splits(booster))
    # XGBoost's gain is a difference in float32, of sums of squares up to 100 times larger.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_estimators_of_xgboost_are_their_boosters():
    check_readable(as_table(TABLE))
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=2).fit(TABLE, Y)
    names, found = importances_of(model, "gain", "it")
    expected = importances_of(model.get_booster(), "gain", "it")
    assert names == expected[0] == tuple(NAMES)
    np.testing.assert_array_equal(found, expected[1])


@pytest.mark.parametrize("importance_type", ["gain", "impurity"])
def test_vector_trees_have_gains_from_xgboost_3_2_on(importance_type):
    matrix = xgboost.DMatrix(X, np.column_stack([Y, -Y]))
    booster = xgboost.train({"multi_strategy": "multi_output_tree", "max_depth": 2}, matrix, 2)
    if version() < (3, 2):
        with pytest.raises(UnsupportedError, match="vector trees"):
            importances_of(booster, importance_type, "it")
    else:
        _, found = importances_of(booster, importance_type, "it")
        assert set(np.argsort(found)[-2:]) == {0, 1}


def test_gains_of_dart_are_those_of_xgboost():
    """Which leaves the factors of dropped trees out, too."""
    params = {"booster": "dart", "rate_drop": 0.5, "one_drop": 1, "nthread": 1}
    matrix = xgboost.DMatrix(X, Y)
    booster = xgboost.train(params, matrix, 5)
    found = mtboost.feature_prior([booster])
    gains = booster.get_score(importance_type="total_gain")
    expected = np.array([gains.get(f"f{feature}", 0.0) for feature in range(X.shape[1])])
    np.testing.assert_allclose(
        np.asarray(found) / np.sum(found), expected / expected.sum(), rtol=1e-5
    )


def test_linear_boosters_are_refused():
    booster = xgboost.train({"booster": "gblinear", "verbosity": 0}, xgboost.DMatrix(X, Y), 2)
    with pytest.raises(UnsupportedError, match="is linear"):
        importances_of(booster, "gain", "it")


# ---- LightGBM ----


def trained_lightgbm(table=X, n_rounds=4, **params):
    params = {"verbosity": -1, "num_leaves": 6, "num_threads": 1, **params}
    return lightgbm.train(params, lightgbm.Dataset(table, Y), n_rounds)


def test_gain_of_lightgbm_is_its_own():
    booster = trained_lightgbm(TABLE)
    names, found = importances_of(booster, "gain", "it")
    assert names == ("age", "size_of_town", "c", "d")  # LightGBM has no spaces
    np.testing.assert_array_equal(found, booster.feature_importance("gain"))
    assert importances_of(trained_lightgbm(), "gain", "it")[0] is None


def test_impurity_of_lightgbm_is_the_drop_of_variance():
    booster = trained_lightgbm(n_rounds=1)
    _, found = importances_of(booster, "impurity", "it")
    assert np.count_nonzero(found) >= 2
    # The text of a model has six digits of a gain.
    np.testing.assert_allclose(found, variance_drops(lightgbm_splits(booster)), rtol=1e-5)


def test_trees_of_lightgbm_without_a_split_say_nothing():
    booster = trained_lightgbm(min_data_in_leaf=200)
    assert not importances_of(booster, "impurity", "it")[1].any()


def test_estimators_of_lightgbm_are_their_boosters():
    model = lightgbm.LGBMRegressor(n_estimators=3, verbosity=-1, n_jobs=1).fit(X, Y)
    np.testing.assert_array_equal(
        importances_of(model, "gain", "it")[1], importances_of(model.booster_, "gain", "it")[1]
    )


# ---- scikit-learn ----


def test_impurity_of_a_tree_is_its_drop_of_variance():
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, Y)
    found = importances_of(model, "impurity", "it")[1]
    # float32 values are compared with double thresholds in both.
    np.testing.assert_allclose(found, variance_drops(sklearn_splits(model)), rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(n_estimators=4, max_depth=3, random_state=0),
        GradientBoostingRegressor(n_estimators=4, random_state=0),
        AdaBoostRegressor(n_estimators=4, random_state=0),
        ExtraTreesClassifier(n_estimators=4, max_depth=3, random_state=0),
        GradientBoostingClassifier(n_estimators=4, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_of_scikit_learn_are_the_sums_of_their_trees(model):
    is_classifier = type(model).__name__.endswith("Classifier")
    model.fit(TABLE, np.digitize(Y, [0, 2]) if is_classifier else Y)
    names, gain = importances_of(model, "gain", "it")
    assert names == tuple(NAMES)
    np.testing.assert_array_equal(gain, model.feature_importances_)
    found = importances_of(model, "impurity", "it")[1]
    members = [importances_of(tree, "impurity", "it")[1] for tree in np.ravel(model.estimators_)]
    assert found[:2].all()
    np.testing.assert_allclose(found, np.sum(members, axis=0), rtol=1e-12)


def test_what_has_no_impurities_is_refused():
    model = mtboost.MTExtraTreesRegressor(n_estimators=3, random_state=0)
    model.fit(X, Y, task=np.arange(300) % 2)
    np.testing.assert_array_equal(
        importances_of(model, "gain", "it")[1], model.feature_importances_
    )
    with pytest.raises(UnsupportedError, match="use importance_type='gain'"):
        importances_of(model, "impurity", "it")


@pytest.mark.parametrize(
    "model",
    [
        LinearRegression().fit(X, Y),
        HistGradientBoostingRegressor(max_iter=2).fit(X, Y),
        RandomForestRegressor(),  # not fitted
        "gain",
        (X, Y, None),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_has_no_importances_is_refused(model):
    with pytest.raises((TypeError, NotFittedError), match=r"give a pair|not fitted"):
        importances_of(model, "gain", "it")
