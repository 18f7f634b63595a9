# SPDX-License-Identifier: Apache-2.0
"""Estimators for forests, and for boosting of many outputs: what all of them promise."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mtboost import (
    MTAdaBoostClassifier,
    MTDecisionTreeClassifier,
    MTExtraTreesClassifier,
    MTExtraTreesRegressor,
    PriorSamplingClassifier,
    PriorSamplingRegressor,
    ProjectedBoostingClassifier,
    ProjectedBoostingRegressor,
    ProjectedForestClassifier,
    ProjectedForestRegressor,
    load_model,
)
from mtboost.errors import DataError, ParameterError

N_ROWS = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 4))
TASK = np.array(["x", "y", "z"])[np.arange(N_ROWS) % 3]
VALUES = X[:, 0] + np.where(TASK == "x", 3.0, 0.0) * X[:, 1] + 0.3 * RNG.normal(size=N_ROWS)
CLASSES = np.where(VALUES > 0.5, "high", "low")
THREE = np.digitize(VALUES, [-0.7, 0.7])
OUTPUTS = np.column_stack([VALUES, -VALUES, X[:, 2], X[:, 3]] * 2)
LABELS = (OUTPUTS > 0.2).astype(int)
FRAME = pd.DataFrame(X, columns=list("abcd"))
FOREST = {"n_estimators": 20, "random_state": 0}
WITH_TASKS = {
    "tree": (MTDecisionTreeClassifier(max_depth=6), CLASSES),
    "boosted trees": (MTAdaBoostClassifier(5, max_depth=4), CLASSES),
    "extra trees of classes": (MTExtraTreesClassifier(min_samples_leaf=2, **FOREST), CLASSES),
    "extra trees of numbers": (MTExtraTreesRegressor(min_samples_leaf=2, **FOREST), VALUES),
}
WITHOUT_TASKS = {
    "forest of labels": (ProjectedForestClassifier(**FOREST), LABELS),
    "forest of numbers": (ProjectedForestRegressor(**FOREST), OUTPUTS),
    "boosting of labels": (ProjectedBoostingClassifier(max_depth=3, **FOREST), LABELS),
}
with_tasks = pytest.mark.parametrize(("model", "y"), WITH_TASKS.values(), ids=WITH_TASKS)
without_tasks = pytest.mark.parametrize(("model", "y"), WITHOUT_TASKS.values(), ids=WITHOUT_TASKS)


def outputs(model, X, **options):
    """Probabilities if there are any."""
    return getattr(model, "predict_proba", model.predict)(X, **options)


@pytest.mark.parametrize(("model", "y"), [*WITH_TASKS.values(), *WITHOUT_TASKS.values()])
def test_mappings_of_tables_are_refused(model, y):
    fitted = clone(model).fit(X, y)
    message = "is a dict: pass one table X and the labels of its rows"
    for call in (
        lambda: clone(model).fit({"x": X}, {"x": y}),
        lambda: fitted.predict({"x": X}),
        lambda: fitted.score({"x": X}, {"x": y}),
    ):
        with pytest.raises(TypeError, match=message):
            call()


# scikit-learn's rules

ROUNDED = "float32 residuals: weight 3 times one of them is rounded, three of them are not"
ROWS_COUNT = "min_samples_leaf counts rows, whatever their weights, as in scikit-learn"
ROWS_DRAWN = "a bootstrap draws rows, not weights"
FORMAT = "a forest is certain where all its leaves are: probabilities may be 0 and 1"


def why_weights_are_not_rows(estimator):
    """Why weights of 2 are not as good as rows twice; None where they are."""
    match estimator:
        case MTExtraTreesClassifier() | ProjectedBoostingClassifier():
            return ROWS_COUNT if estimator.min_samples_leaf > 1 else None
        case ProjectedForestClassifier() | ProjectedForestRegressor():
            return ROWS_DRAWN if estimator.bootstrap else None
        case ProjectedBoostingRegressor():
            return ROUNDED
        case PriorSamplingRegressor():
            return ROUNDED if estimator.dynamic else None


def expected_failures(estimator):
    reason, found = why_weights_are_not_rows(estimator), {}
    if reason is not None:
        kinds = ("dense", "sparse")
        found |= {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}
    if isinstance(estimator, ProjectedForestClassifier):
        found["check_classifiers_multilabel_output_format_predict_proba"] = FORMAT
    return found


@parametrize_with_checks(
    [
        MTDecisionTreeClassifier(),
        MTDecisionTreeClassifier(criterion="concat", purity=0.8, max_features="sqrt"),
        MTAdaBoostClassifier(10),
        MTAdaBoostClassifier(10, criterion="joint", max_depth=3),
        MTExtraTreesClassifier(n_estimators=10),
        MTExtraTreesClassifier(n_estimators=10, min_samples_leaf=1),
        MTExtraTreesRegressor(n_estimators=10),
        MTExtraTreesRegressor(n_estimators=10, min_samples_leaf=1),
        ProjectedForestClassifier(n_estimators=10),
        ProjectedForestClassifier(n_estimators=10, splitter="random", bootstrap=False),
        ProjectedForestRegressor(n_estimators=10),
        ProjectedBoostingRegressor(n_estimators=10),
        ProjectedBoostingRegressor(n_estimators=10, strategy="gbrt-rpo"),
        ProjectedBoostingRegressor(n_estimators=10, strategy="single-target"),
        ProjectedBoostingClassifier(n_estimators=10),
        ProjectedBoostingClassifier(n_estimators=10, min_samples_leaf=1),
        PriorSamplingRegressor(n_estimators=60),
        PriorSamplingRegressor(n_estimators=60, dynamic=True, importance_type="gain"),
        PriorSamplingClassifier(n_estimators=10),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@with_tasks
def test_tasks_are_routed_through_a_pipeline(model, y):
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(model).set_fit_request(task=True)
        model.set_predict_request(task=True).set_score_request(task=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y, task=TASK)
        assert pipeline.score(X, y, task=TASK) > 0.9


@with_tasks
def test_copies_predict_the_same_and_threads_do_not_matter(model, y):
    fitted = clone(model).set_params(n_jobs=1).fit(X, y, task=TASK)
    expected = outputs(fitted, X, task=TASK)
    again = pickle.loads(pickle.dumps(fitted))
    threaded = clone(model).set_params(n_jobs=3).fit(X, y, task=TASK)
    for other in (again, copy.deepcopy(fitted), threaded):
        np.testing.assert_array_equal(outputs(other, X, task=TASK), expected)
        np.testing.assert_array_equal(other.feature_importances_, fitted.feature_importances_)
    if hasattr(model, "apply"):
        np.testing.assert_array_equal(fitted.apply(X, task=TASK), again.apply(X, task=TASK))


@without_tasks
def test_copies_without_tasks_predict_the_same_and_threads_do_not_matter(model, y):
    fitted = clone(model).set_params(n_jobs=1).fit(X, y)
    threaded = clone(model).set_params(n_jobs=3).fit(X, y)
    for other in (pickle.loads(pickle.dumps(fitted)), threaded):
        np.testing.assert_array_equal(outputs(other, X), outputs(fitted, X))


# Labels and weights


@pytest.mark.parametrize("model", [ProjectedForestRegressor(2), MTExtraTreesRegressor(2)])
def test_regressors_refuse_texts_as_labels_or_weights(model):
    y = VALUES.astype(str)
    expected = clone(model).set_params(random_state=0).fit(X, y.astype(float)).predict(X)
    found = clone(model).set_params(random_state=0).fit(X, y).predict(X)
    np.testing.assert_array_equal(found, expected)
    y[7] = "many"
    with pytest.raises(DataError, match="^y is 'many' at row 7: a regressor needs numbers"):
        model.fit(X, y)
    for make in (model, ProjectedBoostingRegressor(2)):
        with pytest.raises(
            DataError, match=r"^sample_weight has dtype .*hold numbers\. Convert it"
        ):
            make.fit(X, VALUES, sample_weight=["a"] * N_ROWS)


@pytest.mark.parametrize("kind", ["datetime64[us]", "timedelta64[ns]"])
@pytest.mark.parametrize(
    "make", [ProjectedForestRegressor, MTExtraTreesRegressor, ProjectedBoostingRegressor]
)
def test_regressors_refuse_dates_and_durations_as_labels(make, kind):
    y = np.arange(N_ROWS).astype(kind)
    with pytest.raises(DataError, match="^y has dtype .*64.*: a regressor needs numbers, such as"):
        make(2).fit(X, y)


@pytest.mark.parametrize("make", [ProjectedForestClassifier, MTExtraTreesClassifier])
def test_forests_refuse_classes_beside_missing_values(make):
    with pytest.raises(DataError, match="^y holds labels of types 'NoneType', 'str': classes must"):
        make(2).fit(X, np.where(TASK == "x", None, CLASSES))


@pytest.mark.parametrize(
    "make",
    [
        MTExtraTreesClassifier,
        MTExtraTreesRegressor,
        ProjectedForestClassifier,
        ProjectedForestRegressor,
    ],
)
def test_an_out_of_bag_score_of_no_rows_is_nan(make, tmp_path):
    with pytest.warns(UserWarning, match="oob_score_ is nan: each row was drawn for every tree"):
        model = make(1, bootstrap=True, oob_score=True).fit(X[:1], [1])
    model.save(tmp_path / "model")
    for found in (model, load_model(tmp_path / "model")):
        assert np.isnan(found.oob_score_)
        assert found.predict(X).tolist() == [1] * N_ROWS


@pytest.mark.parametrize(
    "model",
    [
        MTExtraTreesRegressor(2),
        ProjectedForestRegressor(2),
        ProjectedBoostingRegressor(2),
        PriorSamplingRegressor(2),
        MTDecisionTreeClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_masks_are_not_passed_over(model):
    y = (VALUES > 0).astype(float)
    with pytest.raises(DataError, match="^X is a masked array: mark missing values by NaN"):
        model.fit(np.ma.masked_less(X, 0), y)
    with pytest.raises(DataError, match="^X is a masked array"):
        model.fit(X, y).predict(np.ma.masked_less(X, 0))
    with pytest.raises(DataError, match="^y is a masked array: leave out the rows"):
        model.fit(X, np.ma.masked_less(y, 0.5))


@pytest.mark.parametrize(
    "model",
    [*(model for model, _ in WITH_TASKS.values()), *(model for model, _ in WITHOUT_TASKS.values())],
    ids=[*WITH_TASKS, *WITHOUT_TASKS],
)
def test_weights_whose_sum_is_too_large_are_refused(model):
    y = LABELS if isinstance(model, ProjectedBoostingClassifier) else VALUES > 0
    with pytest.raises(DataError, match=r"^sample_weight adds up to 6e\+40, more than the float32"):
        model.fit(X, y, sample_weight=np.full(N_ROWS, 2e38))


# Scores


@pytest.mark.parametrize(
    "model",
    [
        ProjectedForestRegressor(5, random_state=0),
        ProjectedBoostingRegressor(5, random_state=0),
        PriorSamplingRegressor(5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_regressors_score_the_sparse_labels_that_fit_takes(model):
    model.fit(X, scipy.sparse.csr_array(OUTPUTS))
    expected = model.score(X, OUTPUTS)
    for convert in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array):
        assert model.score(X, convert(OUTPUTS)) == expected


@pytest.mark.parametrize("make", [MTExtraTreesClassifier, ProjectedForestClassifier])
def test_forests_do_not_score_unknown_labels(make):
    model = make(2).fit(X, CLASSES)
    with pytest.raises(DataError, match="^y holds labels of types 'NoneType', 'str': classes must"):
        model.score(X, np.where(TASK == "x", None, CLASSES))


# Warm starts


@pytest.mark.parametrize(
    ("model", "y", "others"),
    [
        (MTExtraTreesClassifier(), CLASSES, [THREE, np.where(CLASSES == "low", "a", "b")]),
        (MTExtraTreesClassifier(), THREE, [CLASSES, THREE + 1]),
        (ProjectedForestClassifier(), THREE, [LABELS[:, :3], THREE.astype(str)]),
        (ProjectedForestClassifier(), LABELS, [THREE, LABELS[:, :3]]),
        (ProjectedForestRegressor(), OUTPUTS, [VALUES, OUTPUTS[:, :3]]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else None,
)
def test_forests_do_not_go_on_with_other_labels(model, y, others):
    model = clone(model).set_params(warm_start=True, **FOREST).fit(FRAME, y)
    expected = model.predict(FRAME)
    model.set_params(n_estimators=25)
    for other in others:
        with pytest.raises(DataError, match="^y .*warm_start goes on with trees of"):
            model.fit(FRAME, other)
        with pytest.raises(ValueError, match="inconsistent numbers"):
            model.fit(FRAME[:9], other)
    with pytest.raises(ValueError, match="feature names"):
        model.fit(FRAME[["a", "b"]], y)
    np.testing.assert_array_equal(model.predict(FRAME), expected)
    assert model.fit(FRAME, y).forest_.n_trees == 25


@pytest.mark.parametrize("options", [{"max_depth": 1}, {"min_samples_leaf": 0.4}, {"alpha": 9.0}])
def test_new_trees_of_a_warm_start_have_the_new_parameters(options, tmp_path):
    old = MTExtraTreesRegressor(warm_start=True, **FOREST)
    model = clone(old).fit(X, VALUES, task=TASK)
    model.set_params(n_estimators=25, **options).fit(X, VALUES, task=TASK)
    model.save(tmp_path / "model")
    expected = clone(old).set_params(n_estimators=25)
    expected = [
        clone(expected).set_params(**own).fit(X, VALUES, task=TASK) for own in ({}, options)
    ]
    for found in (model, load_model(tmp_path / "model")):
        for tree in range(25):
            arrays = expected[tree >= 20].forest_.tree_arrays(tree)
            for name, array in found.forest_.tree_arrays(tree).items():
                np.testing.assert_array_equal(array, arrays[name])


def test_out_of_bag_scores_do_not_need_new_trees():
    for make, y in ((MTExtraTreesRegressor, VALUES), (ProjectedForestClassifier, CLASSES)):
        model = make(warm_start=True, bootstrap=True, **FOREST).fit(X, y)
        at_once = make(bootstrap=True, oob_score=True, **FOREST).fit(X, y)
        assert model.set_params(oob_score=True).fit(X, y).oob_score_ == at_once.oob_score_
        model.set_params(oob_score=False, n_estimators=21).fit(X, y)
        assert not hasattr(model, "oob_score_")  # of the trees before


@pytest.mark.parametrize("changes", [{"max_samples": 0.5}, {"random_state": 1}])
def test_out_of_bag_scores_need_trees_that_draw_their_rows_alike(changes, tmp_path):
    model = ProjectedForestRegressor(warm_start=True, **FOREST).fit(X, OUTPUTS)
    model.set_params(n_estimators=25, oob_score=True, **changes)
    message = "oob_score=True needs trees that draw their rows alike"
    with pytest.raises(ParameterError, match=message):
        model.fit(X, OUTPUTS)
    model.set_params(oob_score=False)
    model.fit(X, OUTPUTS).save(tmp_path / "model")
    for grown in (model, load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        with pytest.raises(ParameterError, match=message):
            grown.set_params(oob_score=True).fit(X, OUTPUTS)
        assert grown.forest_.n_trees == 25


# Tables

NULLABLE = {"a": "Float64"}
TABLES = {
    "pandas": lambda frame: frame,
    "polars": polars.from_pandas,
    "arrow": pyarrow.Table.from_pandas,
    "nullable": lambda frame: frame.astype(
        NULLABLE | ({"shop": "category"} if "shop" in frame else {})
    ),
}
every_table = pytest.mark.parametrize("convert", TABLES.values(), ids=TABLES)


@pytest.mark.parametrize(
    "model",
    [
        MTDecisionTreeClassifier(),
        MTAdaBoostClassifier(3),
        MTExtraTreesClassifier(3, bootstrap=True, oob_score=True),
        ProjectedForestClassifier(3),
        ProjectedBoostingClassifier(3),
        PriorSamplingClassifier(3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_refused_fit_does_not_leave_old_trees_with_new_classes(model):
    model = clone(model).fit(X, CLASSES)
    for wrong in ({"sample_weight": [1, 2]}, {"X": X[:9]}):
        with pytest.raises(ValueError, match="sample_weight has shape|inconsistent numbers"):
            clone(model).fit(X, CLASSES).fit(**{"X": X, "y": CLASSES == "low", **wrong})
    with pytest.raises(DataError):
        model.fit(X, CLASSES == "low", sample_weight=[1, 2])
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert not hasattr(model, "oob_score_")
    assert model.fit(X, CLASSES == "low").predict(X).dtype == bool


@with_tasks
@every_table
def test_every_table_gives_the_model_of_the_array(model, y, convert):
    expected = clone(model).fit(X, y, task=TASK)
    table = convert(FRAME.assign(shop=TASK))
    found = clone(model).set_params(task="shop").fit(table, y)
    np.testing.assert_array_equal(outputs(found, table), outputs(expected, X, task=TASK))
    assert list(found.feature_names_in_) == [*"abcd", "shop"]
    if hasattr(found, "task_importance_"):  # the task may be split on
        assert found.feature_importances_[4] == found.task_importance_ > 0
        assert found.feature_importances_.sum() == pytest.approx(1.0)
    else:
        assert found.feature_importances_.tolist() == [*expected.feature_importances_, 0.0]


@without_tasks
@every_table
def test_every_table_without_tasks_gives_the_model_of_the_array(model, y, convert):
    table = convert(FRAME)
    found = outputs(clone(model).fit(table, y), table)
    np.testing.assert_array_equal(found, outputs(clone(model).fit(X, y), X))


@with_tasks
def test_the_task_may_stand_in_any_column_of_an_array(model, y):
    code = np.searchsorted(["x", "y", "z"], TASK)
    with_code = np.column_stack([X[:, :2], code, X[:, 2:]])
    expected = clone(model).fit(X, y, task=code)
    found = clone(model).set_params(task=2).fit(with_code, y)
    np.testing.assert_array_equal(outputs(found, with_code), outputs(expected, X, task=code))
    np.testing.assert_array_equal(
        np.delete(found.feature_importances_, 2), expected.feature_importances_
    )
    if isinstance(found, MTDecisionTreeClassifier):  # names count the column of tasks
        assert "x1 <" in found.to_text()
        assert "x2 <" not in found.to_text()


# Parameters

_OF_TREES = [
    ({"criterion": "maxx"}, "criterion must be .*found 'maxx'.*Did you mean 'max'"),
    ({"purity": 0.0}, "purity must be .*found 0.0"),
    ({"purity": 1.5}, "purity must be .*found 1.5"),
    ({"max_depth": 0}, "max_depth must be .*found 0"),
    ({"min_samples_leaf": 0}, "min_samples_leaf must be .*found 0"),
    ({"min_samples_split": 1}, "min_samples_split must be .*found 1"),
    ({"max_features": 0}, "max_features must be .*found 0"),
]
CONTRADICTIONS = [
    ({"projection": np.eye(8)[:2], "n_components": 3}, "n_components is 3, but.* of 2 components"),
    ({"projection": np.eye(8)[:2], "n_components": 0.5}, "n_components is 0.5, but.* of 2 comp"),
    ({"projection": np.zeros((2, 8))}, "projection is a matrix of zeros"),
]
WRONG = {
    MTDecisionTreeClassifier: _OF_TREES,
    MTAdaBoostClassifier: [*_OF_TREES, ({"n_estimators": 0}, "n_estimators must be .*found 0")],
    MTExtraTreesRegressor: [
        ({"task_split_prob": 1.5}, "task_split_prob must be .*found 1.5"),
        ({"alpha": -1.0}, "alpha must be .*found -1.0"),
        ({"splitter": "worst"}, "splitter must be .*found 'worst'"),
        ({"n_estimators": 0}, "n_estimators must be .*found 0"),
        ({"max_features": 0}, "max_features must be .*found 0"),
        ({"max_features": "all"}, "max_features must be .*found 'all'"),
        ({"max_features": 1.5}, "max_features must be .*found 1.5"),
        ({"max_depth": 0}, "max_depth must be .*found 0"),
        ({"min_samples_split": 1}, "min_samples_split must be .*found 1"),
        ({"min_samples_leaf": 0.0}, "min_samples_leaf must be .*found 0.0"),
        ({"bootstrap": True, "max_samples": N_ROWS + 1}, "max_samples must be .*found 301"),
        ({"bootstrap": True, "max_samples": 0.0}, "max_samples must be .*found 0.0"),
        ({"oob_score": True}, "oob_score=True needs bootstrap=True"),
        ({"max_samples": 0.5}, "max_samples needs bootstrap=True"),
        ({"oob_score": max, "bootstrap": True}, "oob_score must be True or False, found"),
    ],
    ProjectedForestRegressor: [
        ({"projection": "random"}, "projection must be .*found 'random'"),
        ({"projection": np.eye(7)}, r"must have \(n_components, 8\)"),
        *CONTRADICTIONS,
        ({"n_components": 0}, "n_components must be .*found 0"),
        ({"n_components": "all"}, "n_components must be .*found 'all'"),
        ({"n_components": -0.5}, "n_components must be .*found -0.5"),
        ({"splitter": "worst"}, "splitter must be .*found 'worst'"),
    ],
    ProjectedBoostingRegressor: [
        ({"strategy": "rpo"}, "strategy must be .*found 'rpo'"),
        ({"n_estimators": 0}, "n_estimators must be .*found 0"),
        ({"loss": "squared"}, "loss must be .*found 'squared'"),
        ({"huber_delta": 0.0}, "huber_delta must be .*found 0.0"),
        ({"projection": "gauss"}, "projection must be .*found 'gauss'"),
        ({"projection": "varianc"}, "found 'varianc'. Did you mean 'variance'"),
        (
            {"strategy": "gbrt-rpo", "projection": None},
            "projection is None, all 8 outputs, but strategy='gbrt-rpo' has one component",
        ),
        ({"projection": np.ones((2, 5))}, r"projection has shape \(2, 5\)"),
        *CONTRADICTIONS,
        (
            {"strategy": "gbrt-rpo", "projection": np.eye(8)[:2]},
            "projection is a matrix of 2 components, but strategy='gbrt-rpo' has one",
        ),
        ({"n_components": 0}, "n_components must be .*found 0"),
        ({"projection": "pca", "n_components": -1}, "n_components must be .*found -1"),
        ({"strategy": "gbrt-rpo", "n_components": 3}, "n_components is 3.*has one"),
        ({"learning_rate": 0}, "learning_rate must be .*found 0"),
        ({"learning_rate": np.nan}, "learning_rate must be .*found nan"),
        ({"learning_rate": "a"}, "learning_rate must be .*found 'a'"),
        ({"max_depth": 0}, "max_depth must be .*found 0"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes must be .*found 1"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be .*found 0"),
        ({"max_features": "half"}, "max_features must be .*found 'half'"),
        ({"subsample": 0.0}, "subsample must be .*found 0.0"),
        ({"colsample_bytree": 1.5}, "colsample_bytree must be .*found 1.5"),
        ({"max_bin": 1}, "max_bin must be .*found 1"),
        ({"early_stopping_rounds": 0}, "early_stopping_rounds must be .*found 0"),
        (
            {"early_stopping_rounds": 5, "validation_fraction": 1.0},
            "validation_fraction must be .*found 1.0",
        ),
        ({"early_stopping_rounds": 5, "scoring": "nothing"}, "scoring.*'nothing'"),
        (
            {"early_stopping_rounds": 5, "scoring": "label_ranking_average_precision"},
            "needs y to be a matrix of labels",
        ),
        ({"random_state": -1}, "random_state must be .*found -1"),
        ({"max_bin": 70_000}, "max_bin must be an integer from 2 to 65535, found 70000"),
        ({"n_estimators": 10**400}, "n_estimators must be .*found 1000"),
        ({"subsample": True}, "subsample must be .*found True"),
        ({"verbose": "yes"}, "verbose must be .*found 'yes'"),
        ({"warm_start": "yes"}, "warm_start must be .*found 'yes'"),
        ({"n_jobs": 10**6}, "n_jobs must be .*found 1000000"),
        ({"n_jobs": 0}, "n_jobs must be .*other than 0, found 0"),
    ],
    PriorSamplingRegressor: [
        ({"floor": -0.1}, "floor must be .*found -0.1"),
        ({"floor": 1.1}, "floor must be .*found 1.1"),
        ({"floor": np.nan}, "floor must be .*found nan"),
        ({"floor": True}, "floor must be .*found True"),
        ({"floor": "low"}, "floor must be .*found 'low'"),
        ({"max_features": 0}, "max_features must be .*found 0"),
        ({"max_features": "some"}, "max_features must be .*found 'some'"),
        ({"importance_type": "cover"}, "importance_type must be .*found 'cover'"),
        ({"learning_rate": 0}, "learning_rate must be .*found 0"),
        ({"loss": "squared"}, "loss must be .*found 'squared'"),
    ],
}


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [(make, *case) for make, cases in WRONG.items() for case in cases],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_parameter_is_named_before_trees_grow(make, options, message):
    y = OUTPUTS if "Projected" in make.__name__ else CLASSES
    y = VALUES if make in (MTExtraTreesRegressor, PriorSamplingRegressor) else y
    with pytest.raises(ParameterError, match=message):
        make(**options).fit(X, y)


@pytest.mark.parametrize("make", [ProjectedForestRegressor, ProjectedBoostingRegressor])
@pytest.mark.parametrize("n_components", [2, 0.25])
def test_a_matrix_may_have_its_number_of_components_beside_it(make, n_components):
    model = make(3, projection=np.eye(8)[:2], random_state=0)
    found = clone(model).set_params(n_components=n_components).fit(X, OUTPUTS)
    np.testing.assert_array_equal(found.predict(X), model.fit(X, OUTPUTS).predict(X))
