# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's tools with estimators of several tasks: the task as a column, and routed."""

import numpy as np
import pytest
import sklearn
from estimator_rows import (
    CLASSES,
    FAST,
    FAST_FIT,
    FRAME,
    NUMBERS,
    SHOP,
    VALUES,
    boosters,
    every_estimator,
)
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import UnsetMetadataPassedError
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

import mtboost
from mtboost import MultiTaskClassifier, MultiTaskRanker, MultiTaskRegressor
from mtboost.errors import DataError

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


def test_a_task_column_in_an_array_without_names_is_refused_with_a_remedy():
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), ["a", "b", "c"])], remainder="passthrough"
    )
    with pytest.raises(DataError, match=r"no names: .* after .set_output\(transform='pandas'\)"):
        make_pipeline(columns, CLASSIFIER).fit(FRAME.drop(columns="color"), CLASSES)


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
