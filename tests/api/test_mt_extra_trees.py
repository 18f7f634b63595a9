# SPDX-License-Identifier: Apache-2.0
"""MT-ExtraTrees as scikit-learn's estimators: tables, tasks, options, errors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score

from mtboost import MTExtraTreesClassifier, MTExtraTreesRegressor
from mtboost.errors import DataError, ParameterError

N_ROWS = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 4))
SHOP = np.array(["x", "y", "z"])[np.arange(N_ROWS) % 3]
VALUES = X[:, 0] + np.where(SHOP == "x", 3.0, 0.0) * X[:, 1] + 0.3 * RNG.normal(size=N_ROWS)
CLASSES = np.where(VALUES > 0.5, "high", "low")
THREE_CLASSES = np.digitize(VALUES, [-0.7, 0.7])
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(shop=SHOP)
FAST = {"n_estimators": 20, "random_state": 0, "min_samples_leaf": 2}
BOTH = [(MTExtraTreesClassifier(**FAST), CLASSES), (MTExtraTreesRegressor(**FAST), VALUES)]


def outputs(model, X, **options):
    return (
        model.predict_proba(X, **options)
        if isinstance(model, MTExtraTreesClassifier)
        else model.predict(X, **options)
    )


# scikit-learn's rules


def test_the_task_column_serves_scikit_learns_tools():
    model = MTExtraTreesClassifier(task="shop", **FAST)
    scores = cross_val_score(model, FRAME, CLASSES, scoring="roc_auc", error_score="raise")
    assert scores.mean() > 0.9
    search = GridSearchCV(model, {"task_split_prob": [0.0, 0.5]}, error_score="raise")
    assert set(search.fit(FRAME, CLASSES).cv_results_) >= {"param_task_split_prob"}
    fitted = clone(model).fit(FRAME, CLASSES)
    assert (
        permutation_importance(fitted, FRAME, CLASSES, n_repeats=2, random_state=0)[
            "importances_mean"
        ][0]
        > 0.1
    )
    assert partial_dependence(fitted, FRAME, ["a"])["average"].shape[0] == 1


# Tables


def test_float64_tables_are_rounded_to_float32_once():
    rounded = X.astype(np.float32).astype(float)
    np.testing.assert_array_equal(
        MTExtraTreesRegressor(**FAST).fit(X, VALUES).predict(X),
        MTExtraTreesRegressor(**FAST).fit(rounded, VALUES).predict(rounded),
    )


# Tasks


def test_task_splits_find_the_task_that_differs():
    train = {"X": X[:200], "y": VALUES[:200], "task": SHOP[:200]}
    pooled = MTExtraTreesRegressor(task_split_prob=0.0, **FAST).fit(**train)
    shared = MTExtraTreesRegressor(task_split_prob=0.5, **FAST).fit(**train)
    test = {"X": X[200:], "y": VALUES[200:], "task": SHOP[200:]}
    assert shared.score(**test) > pooled.score(**test) + 0.05
    assert shared.task_importance_ > 0.0 == pooled.task_importance_


@pytest.mark.parametrize(("model", "y"), BOTH, ids=["classes", "numbers"])
def test_one_task_is_no_task(model, y):
    without = clone(model).fit(X, y)
    single = clone(model).fit(X, y, task=np.full(N_ROWS, 7))
    np.testing.assert_array_equal(outputs(without, X), outputs(single, X))
    assert without.tasks_ == ("all",)
    assert single.tasks_ == (7,)


@pytest.mark.parametrize(("model", "y"), BOTH, ids=["classes", "numbers"])
@pytest.mark.parametrize(
    ("task", "message"),
    [
        (["x"], "task has 1 labels, but X has 300 rows"),
        ([object()] * N_ROWS, "task labels must be all int"),
        (np.where(SHOP == "x", None, SHOP), "task has no label at row 0"),
        (SHOP, "task label 'x' at row 0 is unknown. Known: task 'all'. fit had no task: leave"),
    ],
    ids=["too few", "objects", "missing", "tasks"],
)
def test_labels_of_tasks_are_refused_where_fit_had_none(model, y, task, message):
    fitted = clone(model).fit(X, y)
    for method in (fitted.predict, fitted.apply):
        with pytest.raises(DataError, match=message):
            method(X, task=task)


@pytest.mark.parametrize(("model", "y"), BOTH, ids=["classes", "numbers"])
def test_a_task_not_seen_follows_the_mean_of_all(model, y):
    fitted = clone(model).fit(X, y, task=SHOP)
    found = outputs(fitted, X, task=np.full(N_ROWS, "new"))
    assert np.isfinite(found).all()
    # Without task splits every task, seen or not, goes the same way.
    pooled = clone(model).set_params(task_split_prob=0.0).fit(X, y, task=SHOP)
    np.testing.assert_array_equal(
        outputs(pooled, X, task=np.full(N_ROWS, "new")), outputs(pooled, X, task=SHOP)
    )


# Options


def test_three_classes_have_probabilities_that_sum_to_one():
    model = MTExtraTreesClassifier(**FAST).fit(X, THREE_CLASSES, task=SHOP)
    found = model.predict_proba(X, task=SHOP)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert model.score(X, THREE_CLASSES, task=SHOP) > 0.8


@pytest.mark.parametrize(("model", "y"), BOTH, ids=["classes", "numbers"])
def test_warm_start_adds_the_trees_that_a_larger_forest_has(model, y):
    at_once = clone(model).fit(X, y, task=SHOP)
    grown = clone(model).set_params(warm_start=True, n_estimators=5).fit(X, y, task=SHOP)
    grown.set_params(n_estimators=20).fit(X, y, task=SHOP)
    np.testing.assert_array_equal(outputs(grown, X, task=SHOP), outputs(at_once, X, task=SHOP))
    with pytest.raises(ParameterError, match="n_estimators=3 is less than the 20 trees"):
        grown.set_params(n_estimators=3).fit(X, y, task=SHOP)


def test_out_of_bag_scores_are_honest():
    noise = RNG.normal(size=N_ROWS)
    options = {"bootstrap": True, "oob_score": True, "n_estimators": 60, "random_state": 0}
    model = MTExtraTreesRegressor(min_samples_leaf=1, **options).fit(X, noise, task=SHOP)
    assert model.score(X, noise, task=SHOP) > 0.5
    assert model.oob_score_ < 0.1
    classifier = MTExtraTreesClassifier(**options).fit(X, CLASSES, task=SHOP)
    assert classifier.oob_decision_function_.shape == (N_ROWS, 2)
    assert 0.7 < classifier.oob_score_ < 1.0


def test_a_row_drawn_for_every_tree_has_no_out_of_bag_prediction():
    model = MTExtraTreesRegressor(
        n_estimators=1, bootstrap=True, oob_score=True, random_state=0
    ).fit(X, VALUES)
    share = np.isnan(model.oob_prediction_).mean()
    assert abs(share - (1 - np.exp(-1))) < 0.14  # five standard deviations of 300 rows


def test_an_int_seed_makes_the_fit_the_same_and_none_another():
    fits = [MTExtraTreesRegressor(n_estimators=5, random_state=s).fit(X, VALUES) for s in (1, 1, 2)]
    first, same, other = (fit.predict(X) for fit in fits)
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("scale", [1e25, 1e-25, 1e120])
def test_trees_do_not_depend_on_the_unit_of_the_labels(scale):
    model = MTExtraTreesRegressor(task_split_prob=0.5, **FAST)
    small = clone(model).fit(X, VALUES, task=SHOP)
    other = clone(model).fit(X, VALUES * scale, task=SHOP)
    np.testing.assert_array_equal(small.apply(X, task=SHOP), other.apply(X, task=SHOP))
    np.testing.assert_allclose(
        other.predict(X, task=SHOP), scale * small.predict(X, task=SHOP), rtol=1e-12
    )
    np.testing.assert_allclose(
        other.feature_importances_, small.feature_importances_, rtol=1e-6, atol=1e-9
    )


# Errors


def test_wrong_tables_and_tasks_are_named():
    model = MTExtraTreesRegressor(**FAST)
    with pytest.raises(DataError, match="categories in column 'shop'.*encode"):
        model.fit(FRAME.astype({"shop": "category"}), VALUES)
    with pytest.raises(DataError, match="task has 2 labels"):
        model.fit(X, VALUES, task=[1, 2])
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(X > 2, np.inf, X), VALUES)
    with pytest.raises(DataError, match=r"y is 1e\+200 at row 3: labels beyond 1e\+140 overflow"):
        model.fit(X, np.where(np.arange(N_ROWS) == 3, 1e200, VALUES))
    with pytest.raises(DataError, match="sample_weight is zero in every row"):
        model.fit(X, VALUES, sample_weight=np.zeros(N_ROWS))
    with pytest.raises(ParameterError, match="given twice"):
        MTExtraTreesRegressor(task="shop").fit(FRAME, VALUES, task=SHOP)
    fitted = model.fit(X, VALUES, task=SHOP)
    with pytest.raises(DataError, match="task is missing"):
        fitted.predict(X)
    with pytest.raises(ValueError, match="3 features"):
        fitted.predict(X[:, :3], task=SHOP)
