# SPDX-License-Identifier: Apache-2.0
"""Scores by task in the searches of scikit-learn."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    get_scorer,
    log_loss,
    ndcg_score,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline

from mtboost import MultiTaskClassifier, MultiTaskRanker, MultiTaskRegressor
from mtboost.errors import DataError, ParameterError
from mtboost.metrics import Metric, get_metric, task_scorer

RNG = np.random.default_rng(0)
SHOP = np.array(["a", "b", "c"])[np.arange(180) % 3]
X = pd.DataFrame(RNG.normal(size=(180, 2)), columns=["x", "z"]).assign(shop=SHOP)
Y = X["x"].to_numpy() + RNG.normal(size=180) * (SHOP == "b")
FAST = {"task": "shop", "strategy": "two-stage", "n_estimators": 8, "random_state": 0}


def rmse(rows, predicted):
    return math.sqrt(np.mean((Y[rows] - predicted[rows]) ** 2))


def test_the_score_is_that_of_the_worst_task_the_mean_or_one_task():
    model = MultiTaskRegressor(**FAST).fit(X, Y)
    predicted = model.predict(X)
    errors = {task: rmse(task == SHOP, predicted) for task in "abc"}
    found = {
        "worst": task_scorer("rmse", task="shop"),
        "mean": task_scorer("rmse", task="shop", aggregate="mean"),
        "b": task_scorer("rmse", task="shop", only="b"),
    }
    expected = {"worst": max(errors.values()), "mean": np.mean([*errors.values()])}
    for name, scorer in found.items():
        value = -{**expected, "b": errors["b"]}[name]
        assert scorer(model, X, Y) == pytest.approx(value, rel=1e-12)
        assert pickle.loads(pickle.dumps(scorer))(model, X, Y) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("classes", [["no", "yes"], ["high", "low", "none"]])
def test_classes_of_any_type_are_scored_by_their_probabilities(classes):
    y = np.array(classes)[np.digitize(Y, [0.0, 0.8][: len(classes) - 1])]
    model = MultiTaskClassifier(**FAST).fit(X, y)
    proba = model.predict_proba(X)
    rows = SHOP == "a"
    metric = "logloss" if len(classes) == 2 else "mlogloss"
    found = task_scorer(metric, task="shop", only="a")(model, X, y)
    expected = log_loss(y[rows], proba[rows], labels=model.classes_)
    assert found == pytest.approx(-expected, rel=1e-6)
    if len(classes) == 2:
        worst = min(roc_auc_score(y[t == SHOP], proba[t == SHOP, 1]) for t in "abc")
        assert task_scorer("auc", task="shop")(model, X, y) == pytest.approx(worst, rel=1e-12)


def test_weights_and_other_estimators_and_arrays():
    codes = np.column_stack([X[["x", "z"]], np.arange(180) % 3])
    model = make_pipeline(DummyRegressor()).fit(codes, Y)
    weight = np.where(SHOP == "b", 2.0, 1.0) * RNG.uniform(0.5, 1.5, 180)
    rows = SHOP == "b"
    expected = np.average((Y[rows] - Y.mean()) ** 2, weights=weight[rows])
    found = task_scorer("rmse", task=2, only=1)(model, codes, Y, sample_weight=weight)
    assert found == pytest.approx(-math.sqrt(expected), rel=1e-12)


def test_undefined_scores_are_left_out_or_nan():
    y = np.where(SHOP == "a", 0, (Y > 0).astype(int))  # task a has one class
    model = DummyClassifier(strategy="prior").fit(X, y)
    assert task_scorer("auc", task="shop")(model, X, y) == 0.5
    assert math.isnan(task_scorer("auc", task="shop", only="a")(model, X, y))
    rows = SHOP == "a"
    assert math.isnan(task_scorer("auc", task="shop")(model, X[rows], y[rows]))
    assert math.isnan(task_scorer("auc", task="shop", only="b")(model, X[rows], y[rows]))


def test_scorers_of_scikit_learn_are_scored_by_task():
    y = (Y > 0).astype(int)
    model = MultiTaskClassifier(**FAST).fit(X, y)
    predicted, proba = model.predict(X), model.predict_proba(X)[:, 1]
    twins = {
        "f1": lambda rows: f1_score(y[rows], predicted[rows]),
        "average_precision": lambda rows: average_precision_score(y[rows], proba[rows]),
    }
    for name, twin in twins.items():
        expected = min(twin(task == SHOP) for task in "abc")
        for metric in (name, get_scorer(name)):
            assert task_scorer(metric, task="shop")(model, X, y) == pytest.approx(expected)
    regressor = MultiTaskRegressor(**FAST).fit(X, Y)
    found = task_scorer("r2", task="shop", only="b")(regressor, X, Y)
    assert found == pytest.approx(r2_score(Y[SHOP == "b"], regressor.predict(X)[SHOP == "b"]))


def test_a_search_chooses_by_the_worst_task():
    scoring = {
        "worst": task_scorer("rmse", task="shop"),
        "mean": task_scorer("rmse", task="shop", aggregate="mean"),
    }
    search = GridSearchCV(
        MultiTaskRegressor(**FAST), {"max_depth": [1, 3]}, scoring=scoring, refit="worst", cv=2
    ).fit(X, Y)
    scores = search.cv_results_["mean_test_worst"]
    assert search.best_index_ == scores.argmax()
    assert (scores < search.cv_results_["mean_test_mean"]).all()


def test_what_is_no_way_to_score_is_refused():
    with pytest.raises(ParameterError, match="aggregate must be 'worst' or 'mean'"):
        task_scorer("rmse", task="shop", aggregate="median")
    with pytest.raises(ParameterError, match="metric 'rsme' is unknown. Did you mean 'rmse'"):
        task_scorer("rsme", task="shop")
    with pytest.raises(ParameterError, match="It is 'logloss' here.* have names, too.$"):
        task_scorer("log_loss", task="shop")


@pytest.mark.parametrize("metric", ["auc", "error", "logloss"])
def test_classes_that_were_not_trained_are_an_error(metric):
    model = MultiTaskClassifier(**FAST).fit(X, np.where(Y > 0, "c", "a"))
    with pytest.raises(DataError, match="y contains 'b', which is not a class"):
        task_scorer(metric, task="shop")(model, X, np.where(Y > 0, "c", "b"))


@pytest.mark.parametrize("metric", ["auc", "error", "logloss", "aucpr"])
@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_labels_that_are_not_of_two_classes_are_an_error(metric, kind):
    model, y = DummyRegressor(), Y
    if kind == "three classes":
        model, y = DummyClassifier(), np.digitize(Y, [0.0, 0.8])
    with pytest.raises(DataError, match=f"^{metric} needs labels of two classes, from 0 to"):
        task_scorer(metric, task="shop")(model.fit(X, y), X, y)


# ---- weights and queries in searches ----


class FirstColumn(RegressorMixin, BaseEstimator):
    """Predicts the first column."""

    def fit(self, X, y, sample_weight=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return X.iloc[:, 0].to_numpy()


WEIGHT = np.where(SHOP == "b", 2.0, 1.0) * RNG.uniform(0.5, 1.5, 180)
HALVES = [(np.arange(90), np.arange(90, 180)), (np.arange(90, 180), np.arange(90))]


def weighted_errors():
    """The score of each test half, of the worst task by its weighted error."""
    squares = WEIGHT * (Y - X["x"].to_numpy()) ** 2
    for _, test in HALVES:
        own = [test[SHOP[test] == task] for task in "abc"]
        yield -max(math.sqrt(squares[rows].sum() / WEIGHT[rows].sum()) for rows in own)


@pytest.mark.parametrize("several", [False, True])
def test_a_search_without_routing_passes_weights_on(several):
    scorer = task_scorer("rmse", task="shop")
    options = {"scoring": {"worst": scorer}, "refit": "worst"} if several else {"scoring": scorer}
    search = GridSearchCV(FirstColumn(), {}, cv=HALVES, **options).fit(X, Y, sample_weight=WEIGHT)
    assert search.best_score_ == pytest.approx(np.mean([*weighted_errors()]), rel=1e-12)


def test_a_search_does_not_pass_weights_to_a_metric_without():
    def largest(y, prediction):
        return np.abs(y - prediction).max()

    scorer = task_scorer(Metric("largest", largest, greater_is_better=False), task="shop")
    search = GridSearchCV(FirstColumn(), {}, cv=HALVES, scoring={"a": scorer}, refit="a")
    with pytest.warns(UserWarning, match="does not support sample_weight"):
        search.fit(X, Y, sample_weight=WEIGHT)
    errors = np.abs(Y - X["x"])
    expected = -np.mean([errors[test].max() for _, test in HALVES])
    assert search.best_score_ == pytest.approx(expected, rel=1e-12)


def test_weights_are_routed_on_request():
    def scores(scorer):
        estimator = FirstColumn().set_fit_request(sample_weight=True)
        options = {"cv": HALVES, "params": {"sample_weight": WEIGHT}, "scoring": scorer}
        return cross_validate(estimator, X, Y, error_score="raise", **options)["test_score"]

    scorer = task_scorer("rmse", task="shop")
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="TaskScorer.*set_score_request"):
            scores(scorer)
        found = scores(pickle.loads(pickle.dumps(scorer.set_score_request(sample_weight=True))))
        np.testing.assert_allclose(found, [*weighted_errors()], rtol=1e-12)
        plain = scores(scorer.set_score_request(sample_weight=False))
        assert (plain != found).all()
    with pytest.raises(TypeError, match="no argument 'weight': it has sample_weight and qid"):
        scorer.set_score_request(weight=True)


def test_rankings_are_scored_by_task_where_queries_are_routed():
    query = np.arange(180) // 15 * 3 + np.arange(180) % 3  # of 5 rows of one shop
    grade = np.clip(np.round(Y + 1), 0, 3)
    folds = [*GroupKFold(2).split(X, groups=query)]

    def score_of(predicted, test):
        gains = 2.0**grade - 1
        by_task = []
        for task in "abc":
            queries = [query[test] == own for own in np.unique(query[test[SHOP[test] == task]])]
            scores = [
                ndcg_score([gains[test[rows]]], [predicted[rows]], k=3)
                if gains[test[rows]].any()
                else 1
                for rows in queries
            ]
            by_task.append(np.mean(scores))
        return min(by_task)

    expected = [
        score_of(
            MultiTaskRanker(**FAST)
            .fit(X.iloc[train], grade[train], qid=query[train])
            .predict(X.iloc[test]),
            test,
        )
        for train, test in folds
    ]
    with config_context(enable_metadata_routing=True):
        found = cross_validate(
            MultiTaskRanker(**FAST).set_fit_request(qid=True),
            X,
            grade,
            cv=folds,
            params={"qid": query},
            scoring=task_scorer("ndcg@3", task="shop"),
            error_score="raise",
        )["test_score"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_rankings_without_queries_are_an_error():
    model = FirstColumn().fit(X, Y)
    scorer = task_scorer("ndcg", task="shop")
    with pytest.raises(DataError, match=r"ndcg ranks .* pass qid.*enable_metadata_routing=True"):
        scorer(model, X, np.clip(np.round(Y), 0, 3))
    with pytest.raises(DataError, match="belong to one query, but have different tasks"):
        scorer(model, X, np.clip(np.round(Y), 0, 3), qid=np.arange(180) // 10)


def test_a_scorer_by_task_is_no_metric():
    with pytest.raises(TypeError, match="metric"):
        get_metric(task_scorer("rmse", task="shop"))
    with pytest.raises(TypeError, match="metric"):
        task_scorer(task_scorer("rmse", task="shop"), task="shop")


def test_an_only_task_that_nobody_knows_is_refused():
    model = MultiTaskRegressor(**FAST).fit(X, Y)
    without_c = X["shop"] != "c"
    for estimator in (model, make_pipeline(model)):
        with pytest.raises(DataError, match="only='d' is not a task of the estimator, .* 'a', 'b'"):
            task_scorer("rmse", task="shop", only="d")(estimator, X, Y)
        found = task_scorer("rmse", task="shop", only="c")(estimator, X[without_c], Y[without_c])
        assert math.isnan(found)
    known = MultiTaskRegressor(**FAST, unknown_task="common").fit(X[without_c], Y[without_c])
    assert task_scorer("rmse", task="shop", only="c")(known, X, Y) < 0
