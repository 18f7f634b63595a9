# SPDX-License-Identifier: Apache-2.0
"""The column of the tasks: by its name, by its position, and in arrays without names."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mtboost
from mtboost.errors import DataError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(150, 3)), columns=["a", "b", "c"])
FRAME.insert(1, "shop", np.arange(150) % 3)
TARGET = FRAME["a"] + (FRAME["shop"] == 1) * FRAME["b"]
FAST = {"strategy": "two-stage", "specific_rounds": 3}


def fitted(task, X=FRAME, y=TARGET, **options):
    return mtboost.fit(X, y, task=task, num_boost_round=8, **FAST, **options)


def test_an_array_of_the_training_width_has_the_named_task_column_where_it_was(library, tmp_path):
    model = fitted("shop", backend=library.name)
    expected = model.predict(FRAME)
    model.save(tmp_path / "model")
    for own in (model, mtboost.load_model(tmp_path / "model")):
        np.testing.assert_array_equal(own.predict(FRAME.to_numpy()), expected)
        np.testing.assert_array_equal(own.predict(sp.csr_array(FRAME.to_numpy())), expected)
        np.testing.assert_array_equal(own.predict(FRAME[["c", "shop", "b", "a"]]), expected)
    with pytest.raises(DataError, match="2 columns, but the model was trained on 3"):
        model.predict(FRAME.to_numpy()[:, :3])


def test_a_position_may_name_a_column_that_has_a_name(library):
    by_position = fitted(1, backend=library.name)
    assert by_position.task_column == "shop"
    expected = fitted("shop", backend=library.name).predict(FRAME)
    np.testing.assert_array_equal(by_position.predict(FRAME), expected)
    # The name is what counts later.
    np.testing.assert_array_equal(by_position.predict(FRAME[["shop", "c", "b", "a"]]), expected)
    eval_set = (FRAME, TARGET)
    assert fitted(1, eval_set=eval_set, backend=library.name).report()["valid_rows"].sum() == 150


def test_a_label_that_is_an_integer_comes_before_a_position():
    frame = FRAME.set_axis([1, 7, 0, 3], axis=1)
    assert fitted(7, frame).task_column == "7"
    frame = FRAME.set_axis([1, 0, 2, 3], axis=1)
    assert fitted(0, frame).tasks == (0, 1, 2)
    with pytest.raises(DataError, match="X has no column '4'"):
        fitted(4)


@pytest.mark.parametrize(
    ("make", "y"),
    [
        (lambda: mtboost.MultiTaskRegressor(n_estimators=8, random_state=0, **FAST), TARGET),
        (lambda: mtboost.MultiTaskClassifier(n_estimators=8, random_state=0, **FAST), TARGET > 0),
        (lambda: mtboost.MTExtraTreesRegressor(n_estimators=5, random_state=0), TARGET),
        (lambda: mtboost.MTDecisionTreeClassifier(), TARGET > 0),
    ],
    ids=["regressor", "classifier", "extra trees", "decision tree"],
)
@pytest.mark.parametrize("task", ["shop", 1])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_estimators_predict_arrays_after_frames(make, y, task):
    estimator = make().set_params(task=task).fit(FRAME, y)
    expected = make().set_params(task="shop").fit(FRAME, y).predict(FRAME)
    np.testing.assert_array_equal(estimator.predict(FRAME), expected)
    np.testing.assert_array_equal(estimator.predict(FRAME.to_numpy()), expected)


def test_dates_are_no_labels_of_nested_tasks():
    table = pd.DataFrame({"a": np.arange(6.0), "day": pd.date_range("2026-01-01", periods=6)})
    table["shop"] = np.arange(6) % 2
    for task in ("day", ["day", "shop"]):
        with pytest.raises(DataError, match="dtype datetime64.*int, str or bool"):
            mtboost.fit(table, np.arange(6.0), task=task)


def test_one_name_in_a_list_is_that_column():
    expected = fitted("shop")
    for task in (["shop"], ("shop",)):
        model = fitted(task)
        assert model.task_column == "shop"
        assert model.tasks == (0, 1, 2)
        np.testing.assert_array_equal(model.predict(FRAME, task=task), expected.predict(FRAME))
        assert model.predict(FRAME[:1], task=task) == expected.predict(FRAME[:1])
    rows = FRAME.assign(shop=7)
    model.add_task(["shop"], rows, TARGET, validation_fraction=0)
    assert model.tasks[-1] == 7
    estimator = mtboost.MultiTaskRegressor(n_estimators=8, random_state=0, task=["shop"], **FAST)
    assert estimator.fit(FRAME, TARGET).model_.task_column == "shop"


def test_one_label_of_one_row_is_a_label_even_if_a_column_has_the_name():
    names = np.array(["a", "b", "c"])[FRAME["shop"]]
    model = fitted(names, FRAME.drop(columns="shop"))
    row = FRAME.drop(columns="shop")[:1]
    np.testing.assert_array_equal(
        model.predict(row, task=["b"]), model.predict(row, task=np.array(["b"]))
    )


def test_a_list_that_names_no_column_or_one_twice_says_so():
    with pytest.raises(DataError, match="no column 'shops'. Did you mean 'shop'?"):
        fitted(["shops"])
    with pytest.raises(DataError, match=r"task is \['shop', 'shop'\], which names a column twice"):
        fitted(["shop", "shop"])
    assert fitted(["a", "a", "b"] * 50).tasks == ("a", "b")  # labels that are also columns
