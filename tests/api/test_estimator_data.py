# SPDX-License-Identifier: Apache-2.0
"""What estimators take: the task as a column, one table for each task, labels of any kind."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from estimator_rows import (
    CLASSES,
    COLUMN,
    FAST,
    FRAME,
    N_ROWS,
    NUMBERS,
    ROWS,
    SHOP,
    TABLES,
    THREE_CLASSES,
    VALUES,
    boosters,
    every_estimator,
)
from libraries import LIBRARIES
from sklearn.base import clone
from sklearn.metrics import accuracy_score

import mtboost
from mtboost import MultiTaskClassifier, MultiTaskRegressor
from mtboost.errors import DataError

# The task as a column of X

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


# One table a task


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
    rows = np.concatenate([table.index for table in TABLES.values()])
    in_one, task = FRAME.loc[rows, ["a", "b", "c"]], FRAME.loc[rows, "shop"]
    expected = estimator.score(in_one, y[rows], np.concatenate([*weight.values()]), task=task)
    assert estimator.score(TABLES, labels, weight) == expected
    with pytest.raises(DataError, match="y lacks task 'y'"):
        estimator.score(TABLES, {"x": labels["x"]})
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


@pytest.mark.parametrize("kind", [bool, int, float])
@pytest.mark.parametrize("make", [np.asarray, pd.Series])
@pytest.mark.parametrize(
    "estimator",
    [
        MultiTaskClassifier(n_estimators=2, strategy="two-stage"),
        mtboost.MTExtraTreesClassifier(5, min_samples_leaf=1, oob_score=True, bootstrap=True),
        mtboost.MTDecisionTreeClassifier(),
        mtboost.MTAdaBoostClassifier(n_estimators=2),
        mtboost.ProjectedForestClassifier(n_estimators=2),
        mtboost.ProjectedBoostingClassifier(n_estimators=2),
        mtboost.PriorSamplingClassifier(n_estimators=2),
    ],
    ids=lambda own: type(own).__name__,
)
def test_classes_of_one_type_may_come_in_an_array_of_objects(estimator, make, kind):
    X, y = np.arange(40.0)[:, None], (np.arange(40) > 19).astype(kind)
    fitted = clone(estimator).set_params(n_jobs=1, random_state=0)
    as_objects = make(y.astype(object))
    assert fitted.fit(X, as_objects).classes_.dtype == fitted.predict(X).dtype == y.dtype
    assert fitted.score(X, as_objects) == fitted.score(X, y) > 0.9


def test_compress_takes_classes_in_an_array_of_objects():
    X, y = np.arange(40.0)[:, None], np.arange(40) > 19
    forest = mtboost.ProjectedForestClassifier(2, n_jobs=1, random_state=0).fit(X, y)
    found = mtboost.compress(forest, X, y.astype(object), n_steps=2)
    np.testing.assert_array_equal(
        found.predict(X), mtboost.compress(forest, X, y, n_steps=2).predict(X)
    )


def test_labels_of_text_may_not_be_na():
    y = pd.Series(np.where(NUMBERS[:, 0] > 0, "yes", "no")).astype("string")
    y[3] = pd.NA
    with pytest.raises(DataError, match="leave out rows without a label"):
        MultiTaskClassifier().fit(NUMBERS, y, task=SHOP)


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
