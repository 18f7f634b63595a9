# SPDX-License-Identifier: Apache-2.0
"""Contributions, importances and histories as tables of pandas and polars."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from processes import run_script

import mtboost
from mtboost import MultiTaskClassifier, MultiTaskRanker, MultiTaskRegressor
from mtboost.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(120, 3)), columns=["age", "bias", "rent"])
FRAME.index = pd.Index(RNG.permutation(120) + 1000, name="order")
SHOP = np.array(["a", "b"])[np.arange(120) % 2]
Y = FRAME["age"] + (SHOP == "b") * FRAME["bias"]
FAST = {"strategy": "two-stage", "num_boost_round": 8, "specific_rounds": 4}


def fitted(library, X=FRAME, y=Y, **options):
    return mtboost.fit(X, y, task=SHOP, backend=library.name, **{**FAST, **options})


def test_contributions_are_a_frame_with_the_names_and_the_index_of_the_rows(library):
    model = fitted(library)
    expected = model.contributions(FRAME, task=SHOP)
    found = model.contributions(FRAME, task=SHOP, output="pandas")
    assert found.columns.tolist() == ["age", "bias", "rent", "bias_"]
    pd.testing.assert_index_equal(found.index, FRAME.index)
    np.testing.assert_array_equal(found.to_numpy(), expected)
    by_task = model.contributions({"b": FRAME[SHOP == "b"]}, output="pandas")["b"]
    pd.testing.assert_frame_equal(by_task, found[SHOP == "b"], rtol=1e-6)
    polars = model.contributions(pl.from_pandas(FRAME), task=SHOP, output="polars")
    assert isinstance(polars, pl.DataFrame)
    assert polars.columns == found.columns.tolist()
    np.testing.assert_array_equal(polars.to_numpy(), expected)


def test_contributions_of_arrays_are_named_by_the_library(library):
    model = fitted(library, FRAME.to_numpy())
    found = model.contributions(FRAME.to_numpy(), task=SHOP, output="pandas")
    names = {"xgboost": ["f0", "f1", "f2"], "lightgbm": ["Column_0", "Column_1", "Column_2"]}
    assert found.columns.tolist() == [*names[library.name], "bias"]
    assert found.index.tolist() == list(range(120))


def test_contributions_of_several_classes_are_an_array(library):
    objective = {"xgboost": "multi:softprob", "lightgbm": "multiclass"}[library.name]
    model = fitted(library, y=np.digitize(Y, [-0.5, 0.5]), objective=objective)
    assert model.contributions(FRAME, task=SHOP).shape == (120, 3, 4)
    with pytest.raises(ParameterError, match="the model has 3 classes: pass output='numpy'"):
        model.contributions(FRAME, task=SHOP, output="pandas")


def test_importance_of_all_tasks_has_a_column_for_each(library):
    tables = {"a": FRAME[["age", "rent"]][SHOP == "a"], "b": FRAME[SHOP == "b"]}
    labels = {task: Y[task == SHOP] for task in "ab"}
    model = mtboost.fit(tables, labels, backend=library.name, **FAST)
    by_task = model.importance()
    assert by_task == {task: model.importance(task) for task in "ab"}
    found = model.importance(output="pandas")
    assert found.index.name == "feature"
    assert set(found.index) == {"age", "bias", "rent"}
    assert np.isnan(found.loc["bias", "a"])
    for task, importances in by_task.items():
        for name, value in importances.items():
            assert found.loc[name, task] == value
        unused = found.index.difference(list(importances)).intersection(tables[task].columns)
        assert (found.loc[unused, task] == 0.0).all()
    means = found.mean(axis=1)
    assert means.is_monotonic_decreasing
    one = model.importance("b", "weight", output="polars")
    assert one.columns == ["feature", "b"]
    weights = model.importance("b", "weight")
    assert {name: value for name, value in one.iter_rows() if value} == weights
    shap = model.importance(X=tables, output="pandas")
    assert shap["b"].drop_duplicates().notna().all()
    assert shap.loc["age", "b"] == model.importance("b", X=tables["b"])["age"]


def test_importance_by_rows_needs_their_task(library):
    model = fitted(library)
    with pytest.raises(DataError, match="X is one table: pass the task of its rows"):
        model.importance(X=FRAME)
    with pytest.raises(ParameterError, match="output must be 'dict', 'pandas' or 'polars'"):
        model.importance("a", output="numpy")


def test_importance_by_rows_reads_their_tasks_from_the_column(library):
    table = FRAME.assign(shop=SHOP)
    model = mtboost.fit(table, Y, task="shop", backend=library.name, **FAST)
    by_task = {task: FRAME[task == SHOP] for task in model.tasks}
    assert model.importance(X=table) == model.importance(X=by_task)
    assert list(model.importance(X=table[SHOP == "b"])) == ["b"]


def test_importance_by_rows_with_several_labels_is_that_of_each_label(library):
    labels = pd.DataFrame({"sales": Y, "returns": Y - FRAME["age"]})
    model = mtboost.fit(FRAME, labels, backend=library.name, **FAST)
    assert model.importance(X=FRAME) == model.importance(X=dict.fromkeys(model.tasks, FRAME))


def test_curves_are_the_history_round_by_round(library):
    model = fitted(library)
    found = model.curves()
    assert found.columns.tolist() == ["task", "stage", "round", "metric", "value"]
    assert set(found["metric"]) == {"rmse"}
    for task, stages in model.history.items():
        for stage, curve in stages.items():
            own = found[(found["task"] == task) & (found["stage"] == stage)]
            assert own["round"].tolist() == list(range(len(curve)))
            np.testing.assert_array_equal(own["value"], curve)
    assert model.curves(output="polars").rows() == list(found.itertuples(index=False, name=None))


def test_without_the_library_the_message_names_it():
    found = run_script(
        "import sys, numpy as np, mtboost; X = np.arange(8.0)[:, None]; "
        "model = mtboost.fit(X, X[:, 0], strategy='two-stage', num_boost_round=2); "
        "sys.modules['polars'] = None; model.importance(output='polars')",
        check=False,
    )
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == (
        "mtboost.errors.MissingDependencyError: output='polars' needs polars: pip install polars."
    )


def test_predictions_are_a_series_in_the_library_that_is_asked_for(library):
    model = fitted(library)
    expected = model.predict(FRAME, task=SHOP)
    assert type(expected) is np.ndarray
    assert type(model.predict(pl.from_pandas(FRAME), task=SHOP)) is np.ndarray
    found = model.predict(FRAME, task=SHOP, output="pandas")
    pd.testing.assert_series_equal(found, pd.Series(expected, FRAME.index, name="prediction"))
    table = pl.from_pandas(FRAME)
    with_prediction = table.with_columns(model.predict(table, task=SHOP, output="polars"))
    assert with_prediction.columns == [*table.columns, "prediction"]
    np.testing.assert_array_equal(with_prediction["prediction"].to_numpy(), expected)
    by_task = model.predict({"b": FRAME[SHOP == "b"]}, output="pandas")["b"]
    pd.testing.assert_series_equal(by_task, found[SHOP == "b"], rtol=1e-6)
    of_arrays = model.predict(FRAME.to_numpy()[:, :3], task=SHOP, output="polars")
    np.testing.assert_array_equal(of_arrays.to_numpy(), expected)
    with pytest.raises(ParameterError, match="output must be 'numpy', 'pandas' or 'polars'"):
        model.predict(FRAME, task=SHOP, output="arrow")


def test_probabilities_are_a_frame_with_a_column_for_each_class(library):
    objective = {"xgboost": "multi:softprob", "lightgbm": "multiclass"}[library.name]
    model = fitted(library, y=np.digitize(Y, [-0.5, 0.5]), objective=objective)
    for predict in (model.predict, model.predict_proba):
        expected = predict(FRAME, task=SHOP)
        found = predict(FRAME, task=SHOP, output="pandas")
        assert found.columns.tolist() == [0, 1, 2]
        pd.testing.assert_index_equal(found.index, FRAME.index)
        np.testing.assert_array_equal(found.to_numpy(), expected)
        found = predict(FRAME, task=SHOP, output="polars")
        assert found.columns == ["class_0", "class_1", "class_2"]
        np.testing.assert_array_equal(found.to_numpy(), expected)


def test_estimators_predict_a_series_in_the_library_that_is_asked_for(library):
    options = {"strategy": "two-stage", "n_estimators": 5, "backend": library.name, "n_jobs": 1}
    model = MultiTaskRegressor(**options).fit(FRAME, Y, task=SHOP)
    expected = model.predict(FRAME, task=SHOP)
    assert type(expected) is np.ndarray
    found = model.predict(FRAME, task=SHOP, output="pandas")
    pd.testing.assert_series_equal(found, pd.Series(expected, FRAME.index, name="prediction"))
    found = model.predict(FRAME, task=SHOP, output="polars")
    np.testing.assert_array_equal(found.to_numpy(), expected)
    with pytest.raises(ParameterError, match="output must be 'numpy', 'pandas' or 'polars'"):
        model.predict(FRAME, task=SHOP, output="arrow")


def test_a_classifier_predicts_classes_and_a_column_of_probabilities_for_each(library):
    options = {"strategy": "two-stage", "n_estimators": 5, "backend": library.name, "n_jobs": 1}
    y = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.5, 0.5])]
    model = MultiTaskClassifier(**options).fit(FRAME, y, task=SHOP)
    classes, probabilities = (
        predict(FRAME, task=SHOP) for predict in (model.predict, model.predict_proba)
    )
    found = model.predict(FRAME, task=SHOP, output="pandas")
    pd.testing.assert_index_equal(found.index, FRAME.index)
    assert found.name == "prediction"
    assert found.tolist() == classes.tolist()
    found = model.predict(FRAME, task=SHOP, output="polars")
    assert found.dtype == pl.String
    assert found.to_list() == classes.tolist()
    found = model.predict_proba(FRAME, task=SHOP, output="pandas")
    assert found.columns.tolist() == ["low", "mid", "top"]
    pd.testing.assert_index_equal(found.index, FRAME.index)
    np.testing.assert_array_equal(found.to_numpy(), probabilities)
    found = model.predict_proba(FRAME, task=SHOP, output="polars")
    assert found.columns == ["low", "mid", "top"]
    np.testing.assert_array_equal(found.to_numpy(), probabilities)
    by_task = model.predict({"b": FRAME[SHOP == "b"]}, output="pandas")["b"]
    assert by_task.tolist() == classes[SHOP == "b"].tolist()
    for predict in (model.predict, model.predict_proba):
        with pytest.raises(ParameterError, match="output must be 'numpy', 'pandas' or 'polars'"):
            predict(FRAME, task=SHOP, output="arrow")


def test_classes_that_are_numbers_name_the_columns():
    options = {"strategy": "two-stage", "n_estimators": 5, "n_jobs": 1}
    model = MultiTaskClassifier(**options).fit(FRAME, np.where(Y > 0, 7, 3), task=SHOP)
    assert model.predict_proba(FRAME, task=SHOP, output="pandas").columns.tolist() == [3, 7]
    assert model.predict_proba(FRAME, task=SHOP, output="polars").columns == ["3", "7"]
    assert model.predict(FRAME, task=SHOP, output="pandas").dtype == np.int64


@pytest.mark.parametrize("estimator", [MultiTaskClassifier, MultiTaskRegressor])
def test_estimators_of_several_labels_name_the_columns(estimator):
    labels = pd.DataFrame({"up": Y > 0, "far": abs(Y) > 0.5}).astype(int)
    model = estimator(strategy="two-stage", n_estimators=5, n_jobs=1).fit(FRAME, labels)
    found = model.predict(FRAME, output="pandas")
    assert found.columns.tolist() == ["up", "far"]
    np.testing.assert_array_equal(found.to_numpy(), model.predict(FRAME))
    if estimator is MultiTaskClassifier:
        with pytest.raises(ParameterError, match="one number a label.* 2: pass output='numpy'"):
            model.predict_proba(FRAME, output="pandas")


def test_a_ranker_predicts_a_series():
    options = {"strategy": "two-stage", "n_estimators": 5, "n_jobs": 1}
    qid = np.unique(SHOP, return_inverse=True)[1] * 1000 + np.arange(len(SHOP)) // 8
    model = MultiTaskRanker(**options).fit(FRAME, np.digitize(Y, [0.0]), task=SHOP, qid=qid)
    found = model.predict(FRAME, task=SHOP, output="pandas")
    np.testing.assert_array_equal(found.to_numpy(), model.predict(FRAME, task=SHOP))
    pd.testing.assert_index_equal(found.index, FRAME.index)
