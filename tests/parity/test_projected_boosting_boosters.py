# SPDX-License-Identifier: Apache-2.0
"""The boosters of ProjectedBoostingRegressor and -Classifier are XGBoost's and predict the same.

Margins are bitwise identical: both add the same float32 numbers in the same order. Probabilities
are not, as XGBoost and SciPy have different exponential functions; 2.4e-7 is four roundings of
numbers up to 1. Not compared: SHAP values of vector leaves before XGBoost 3.3, which has none, or
wrong ones.
"""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
import scipy.sparse
import xgboost
from model_documents import document, trees
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from mtboost import ProjectedBoostingClassifier, ProjectedBoostingRegressor
from mtboost.errors import ParameterError
from mtboost.xgboost.library import version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

f32 = np.float32
N = 300
ROUNDS = 6
RNG = np.random.default_rng(0)
# Few values a column, so that cuts are values that rows have.
X = RNG.normal(size=(N, 5)).round(1).astype(f32)
X[RNG.random(X.shape) < 0.15] = np.nan
SIGNAL = np.sin(2 * np.nan_to_num(X) @ RNG.normal(size=(5, 4))) + RNG.normal(0, 0.1, (N, 4)) + 3
IS_UNKNOWN = RNG.random(SIGNAL.shape) < 0.2
STRATEGIES = ("gbrt-relabel-rpo", "gbrt-rpo", "gbmort", "single-target")
LABELS = {
    "squared_error": np.where(IS_UNKNOWN, np.nan, SIGNAL),
    "absolute_error": SIGNAL,
    "huber": SIGNAL,
    "one number": SIGNAL[:, 0],
    "labels": np.where(IS_UNKNOWN, np.nan, SIGNAL > 3),
    "two classes": SIGNAL[:, 0] > 3,
    "three classes": np.digitize(SIGNAL[:, 0], [2.5, 3.2]),
}
CLASSES = ("two classes", "three classes")
OBJECTIVES = {
    "squared_error": "reg:squarederror",
    "absolute_error": "reg:absoluteerror",
    "huber": "reg:squarederror",
    "one number": "reg:squarederror",
    "labels": "binary:logistic",
    "two classes": "binary:logistic",
    "three classes": "multi:softprob",
}
# Several classes have no model for each.
CASES = [
    (strategy, kind)
    for strategy in STRATEGIES
    for kind in LABELS
    if (strategy, kind) != ("single-target", "three classes")
]
SHARED = STRATEGIES[:3]
each_case = pytest.mark.parametrize(("strategy", "kind"), CASES)
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def make(strategy, kind="squared_error", **options):
    options = {"n_estimators": ROUNDS, "max_depth": 4, "random_state": 0, "n_jobs": 1} | options
    if kind in (*CLASSES, "labels"):
        return ProjectedBoostingClassifier(strategy=strategy, **options)
    loss = kind if kind in ("absolute_error", "huber") else "squared_error"
    return ProjectedBoostingRegressor(strategy=strategy, loss=loss, huber_delta=0.2, **options)


@cache
def fitted(strategy, kind="squared_error"):
    return make(strategy, kind).fit(X, LABELS[kind])


def margins(model, table=X):
    """Of shape (n_rows, n_outputs)."""
    is_regressor = isinstance(model, ProjectedBoostingRegressor)
    found = model.predict(table) if is_regressor else model.decision_function(table)
    return found.reshape(table.shape[0], -1)


def margins_of(booster, table=X, **options):
    matrix = xgboost.DMatrix(table, feature_names=booster.feature_names, nthread=1)
    found = booster.predict(matrix, output_margin=True, **options)
    return found.reshape(table.shape[0], -1)


def around_cuts(booster):
    """Rows that lie on cuts and next to them, beyond all values, or have values missing."""
    values = [np.array([np.nan, -1e30, 1e30, 0.0], f32)] * X.shape[1]
    for tree in trees(booster):
        is_inner = np.array(tree["left_children"]) >= 0
        features, cuts = np.array(tree["split_indices"]), np.array(tree["split_conditions"], f32)
        for feature in range(X.shape[1]):
            own = cuts[is_inner & (features == feature)]
            own = np.concatenate([own, np.nextafter(own, f32(-np.inf))])
            values[feature] = np.concatenate([values[feature], own])
    rng = np.random.default_rng(1)
    return np.column_stack([rng.choice(own, 2000) for own in values])


# ---- predictions ---------------------------------------------------------------------------------


@each_case
def test_margins_are_bitwise_those_of_the_model(strategy, kind):
    model = fitted(strategy, kind)
    booster = model.booster()
    assert type(booster) is xgboost.Booster
    assert booster.num_boosted_rounds() == ROUNDS
    table = around_cuts(booster)
    expected = margins(model, table)
    assert_array_equal(margins_of(booster, table), expected)
    assert len(np.unique(expected[:, 0])) > 30  # the trees say much


@each_case
def test_predictions_are_those_of_the_model(strategy, kind):
    model = fitted(strategy, kind)
    booster = model.booster()
    found = booster.predict(xgboost.DMatrix(X))
    assert document(booster)["learner"]["objective"]["name"] == OBJECTIVES[kind]
    if isinstance(model, ProjectedBoostingRegressor):
        assert_array_equal(found, model.predict(X))
    else:
        expected = model.predict_proba(X)
        expected = expected[:, 1] if kind == "two classes" else expected
        assert_allclose(found, expected, rtol=0, atol=2.4e-7)


@each_case
def test_an_output_is_an_ordinary_booster_by_itself(strategy, kind):
    model = fitted(strategy, kind)
    for output, expected in enumerate(margins(model).T):
        booster = model.booster(output)
        assert_array_equal(margins_of(booster)[:, 0], expected)
        assert {tree["tree_param"]["size_leaf_vector"] for tree in trees(booster)} == {"1"}
        name = "reg:squarederror" if kind == "three classes" else OBJECTIVES[kind]
        assert document(booster)["learner"]["objective"]["name"] == name


@each_case
def test_a_range_of_rounds_predicts_what_the_model_did_then(strategy, kind):
    model = fitted(strategy, kind)
    booster = model.booster()
    matrix = xgboost.DMatrix(X)
    for n_rounds, expected in enumerate(model.staged_predict(X), start=1):
        found = booster.predict(matrix, output_margin=True, iteration_range=(0, n_rounds))
        if kind == "three classes":
            found = model.classes_[found.argmax(axis=1)]
        elif isinstance(model, ProjectedBoostingClassifier):
            found = found > 0
        assert_array_equal(found, expected)


@each_strategy
def test_what_a_sparse_table_does_not_store_is_missing(strategy):
    rng = np.random.default_rng(2)
    table = scipy.sparse.random_array((N, 8), density=0.3, rng=rng, dtype=f32, format="csr")
    table.data[:40] = 0.0  # stored, so a value
    y = table.sum(axis=1)[:, np.newaxis] * [1, -2, 3] + rng.normal(size=(N, 3))
    model = make(strategy).fit(table, y)
    expected = margins(model, table)
    assert_array_equal(margins_of(model.booster(), table), expected)
    dense = np.full(table.shape, np.nan, f32)
    coordinates = table.tocoo()
    dense[coordinates.row, coordinates.col] = coordinates.data
    assert_array_equal(margins_of(model.booster(), dense), expected)
    assert len(np.unique(expected[:, 0])) > 10


@pytest.mark.parametrize("strategy", SHARED)
def test_trees_that_are_not_divided_hold_the_constants(strategy):
    for kind, y in LABELS.items():
        model = make(strategy, kind, n_estimators=1).fit(np.zeros_like(X), y)
        booster = model.booster()
        assert [len(tree["left_children"]) for tree in trees(booster)] == [1]
        assert_array_equal(margins_of(booster), margins(model))
        assert (margins(model)[:, 0] != 0).all()


@each_strategy
def test_a_model_that_stopped_early_has_the_rounds_up_to_the_best(strategy):
    model = make(strategy, n_estimators=200, learning_rate=0.9, early_stopping_rounds=2)
    model.fit(X, SIGNAL)
    booster = model.booster()
    assert booster.num_boosted_rounds() == model.n_estimators_ < 200
    assert_array_equal(margins_of(booster), margins(model))


# ---- the document --------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", SHARED)
def test_all_outputs_share_a_tree_in_the_form_of_the_installed_xgboost(strategy):
    booster = fitted(strategy).booster()
    params = {"multi_strategy": "multi_output_tree", "base_score": 0, "max_depth": 4}
    stock = xgboost.train(params, xgboost.DMatrix(X, SIGNAL), ROUNDS)
    of_ours, of_stock = document(booster), document(stock)
    for found, expected in zip(trees(booster), trees(stock), strict=True):
        assert {key: type(value) for key, value in found.items()} == {
            key: type(value) for key, value in expected.items()
        }
        assert found["tree_param"].keys() == expected["tree_param"].keys()
        assert found["tree_param"]["size_leaf_vector"] == "4"
        n_nodes = int(found["tree_param"]["num_nodes"])
        assert len(found["parents"]) == n_nodes
        assert len(found["base_weights"]) == 4 * n_nodes
        assert found["parents"][0] == expected["parents"][0]
    for part in of_ours, of_stock:
        del part["learner"]["gradient_booster"]["model"]["trees"]
    assert of_ours == of_stock


def test_outputs_by_themselves_have_a_tree_each_in_a_round():
    booster = fitted("single-target").booster()
    model = document(booster)["learner"]["gradient_booster"]["model"]
    assert model["tree_info"] == [0, 1, 2, 3] * ROUNDS
    assert model["iteration_indptr"] == list(range(0, 4 * ROUNDS + 1, 4))
    assert document(booster)["learner"]["learner_model_param"]["num_target"] == "4"


@each_strategy
def test_gains_and_covers_are_those_of_the_model(strategy):
    model = fitted(strategy)
    importances = np.zeros(X.shape[1])
    for output in range(4 if strategy == "single-target" else 1):
        for tree in trees(model.booster(output)):
            gains = np.bincount(tree["split_indices"], tree["loss_changes"], X.shape[1])
            importances += gains / gains.sum()
            left, right, cover = (
                np.array(tree[key]) for key in ("left_children", "right_children", "sum_hessian")
            )
            inner = left >= 0
            # Sums of up to N weights of quarters, which float32 holds.
            assert_array_equal(cover[inner], cover[left[inner]] + cover[right[inner]])
            expected = (~IS_UNKNOWN).mean(axis=1).sum()
            if strategy == "single-target":
                expected = (~IS_UNKNOWN[:, output]).sum()
            assert cover[0] == expected
    # Gains are rounded to float32.
    assert_allclose(importances / importances.sum(), model.feature_importances_, rtol=1e-5)


def test_features_have_the_names_of_the_table():
    pandas = pytest.importorskip("pandas")
    names = ["age", "größe", "b c", "d", "e"]
    model = make("gbrt-rpo").fit(pandas.DataFrame(X, columns=names), SIGNAL)
    for booster in model.booster(), model.booster(1):
        assert booster.feature_names == names
        assert set(booster.get_score(importance_type="weight")) <= set(names)
    assert_array_equal(
        margins_of(model.booster()), model.predict(pandas.DataFrame(X, columns=names))
    )
    with pytest.raises(ValueError, match="feature names"):
        model.booster().predict(xgboost.DMatrix(X))
    assert fitted("gbrt-rpo").booster().feature_names is None


# ---- what XGBoost does with it -------------------------------------------------------------------


@each_case
def test_files_and_pickles_keep_every_bit(strategy, kind, tmp_path):
    model = fitted(strategy, kind)
    for booster in model.booster(), model.booster(0):
        again = [pickle.loads(pickle.dumps(booster)), booster.copy()]
        for suffix in "json", "ubj":
            booster.save_model(tmp_path / f"model.{suffix}")
            again.append(xgboost.Booster(model_file=tmp_path / f"model.{suffix}"))
        for found in again:
            assert document(found) == document(booster)
            assert_array_equal(margins_of(found), margins_of(booster))
    assert_array_equal(margins_of(model.booster()), margins(model))


@each_strategy
def test_scikit_learns_wrapper_reads_the_file(strategy, tmp_path):
    fitted(strategy).booster().save_model(tmp_path / "model.ubj")
    wrapper = xgboost.XGBRegressor()
    wrapper.load_model(tmp_path / "model.ubj")
    assert_array_equal(wrapper.predict(X), fitted(strategy).predict(X))


@pytest.mark.parametrize(
    ("strategy", "kind", "output"),
    [
        ("gbrt-relabel-rpo", "squared_error", None),
        ("gbrt-rpo", "labels", None),
        ("gbmort", "three classes", None),
        ("single-target", "squared_error", None),
        ("gbrt-rpo", "squared_error", 2),
    ],
)
def test_training_goes_on_in_xgboost(strategy, kind, output):
    model = fitted(strategy, kind)
    begun = model.booster(output)
    y = {"squared_error": SIGNAL, "labels": SIGNAL > 3}.get(kind, LABELS[kind])
    matrix = xgboost.DMatrix(X, y if output is None else y[:, output])
    params = {"objective": OBJECTIVES[kind], "max_depth": 3}
    if kind == "three classes":
        params["num_class"] = 3
    if strategy != "single-target" and output is None:
        params["multi_strategy"] = "multi_output_tree"
    longer = xgboost.train(params, matrix, 4, xgb_model=begun)
    assert longer.num_boosted_rounds() == ROUNDS + 4
    matrix.set_base_margin(begun.predict(matrix, output_margin=True))
    further = trees(xgboost.train(params, matrix, 4))
    found = [{**tree, "id": 0} for tree in trees(longer)]
    assert found == [{**tree, "id": 0} for tree in trees(begun) + further]
    assert max(len(tree["left_children"]) for tree in further) > 7


@each_strategy
def test_contributions_add_up_to_the_margins(strategy):
    model = fitted(strategy)
    matrix = xgboost.DMatrix(X)
    expected = margins(model)
    whole = None
    if strategy == "single-target" or version() >= (3, 3):
        whole = model.booster().predict(matrix, pred_contribs=True)
    for output in range(4):
        found = model.booster(output).predict(matrix, pred_contribs=True)
        # Float32 sums of some ten numbers of order 1.
        assert_allclose(found.sum(axis=1), expected[:, output], rtol=0, atol=5e-6)
        if whole is not None:
            assert_allclose(whole[:, output], found, rtol=0, atol=1e-6)


# ---- wrong use -----------------------------------------------------------------------------------


@pytest.mark.parametrize("output", [4, -1, 1.5, "a"])
@each_strategy
def test_an_output_that_is_not_there_is_refused(strategy, output):
    with pytest.raises(ParameterError, match="output must be None or an integer from 0 to 3"):
        fitted(strategy).booster(output)


def test_there_is_no_booster_before_fit():
    with pytest.raises(NotFittedError):
        make("gbrt-rpo").booster()
