# SPDX-License-Identifier: Apache-2.0
"""Tables as they come from files and databases: text, missing text, nullable numbers."""

import numpy as np
import pandas as pd
import polars
import pytest

import mtboost
from mtboost.base.checked_tables import as_table
from mtboost.errors import DataError
from mtboost.model.parts.task_trees import TaskTrees

TWO_STAGE = {"task": "shop", "strategy": "two-stage", "num_boost_round": 20}


def orders():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=240), "city": rng.choice(["rome", "oslo"], 240)})
    frame["shop"] = np.where(np.arange(240) < 120, "a", "b")
    return frame, (frame["x"] + 3.0 * (frame["city"] == "rome")).to_numpy()


def test_columns_of_text_are_categories(library, tmp_path):
    frame, y = orders()
    as_categories = frame.assign(city=frame["city"].astype(pd.CategoricalDtype(["oslo", "rome"])))
    options = {**TWO_STAGE, "backend": library.name}
    model = mtboost.fit(frame, y, **options)
    expected = mtboost.fit(as_categories, y, **options).predict(as_categories)
    assert np.mean((expected - y) ** 2) < 0.2 * np.var(y)
    np.testing.assert_array_equal(model.predict(frame), expected)
    np.testing.assert_array_equal(model.predict(polars.from_pandas(frame)), expected)
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(frame.iloc[:1]), expected[:1])
    estimator = mtboost.MultiTaskRegressor(
        task="shop", strategy="two-stage", n_estimators=20, backend=library.name, random_state=0
    )
    np.testing.assert_array_equal(estimator.fit(frame, y).predict(frame), expected)


def test_text_that_training_lacks_and_text_that_is_missing_are_the_same():
    frame, y = orders()
    model = mtboost.fit(frame, y, **TWO_STAGE)
    with pytest.warns(UserWarning, match="the category 'lima' in column 'city'"):
        found = model.predict(frame.iloc[:1].assign(city="lima"))
    np.testing.assert_array_equal(found, model.predict(frame.iloc[:1].assign(city=None)))


def test_nullable_columns_are_numbers_with_missing_values():
    frame, y = orders()
    numbers = frame.drop(columns="city").assign(n=np.arange(240) % 7)
    numbers.loc[::5, "x"] = np.nan
    nullable = numbers.astype({"x": "Float64", "n": "Int64"})
    assert nullable["x"].isna().sum() == 48
    expected = mtboost.fit(numbers, y, **TWO_STAGE).predict(numbers)
    np.testing.assert_array_equal(mtboost.fit(nullable, y, **TWO_STAGE).predict(nullable), expected)
    searched = {"task": "shop", "effort": "fast", "num_boost_round": 20}  # linear effects, too
    searched["validation_fraction"] = 0.25
    expected = mtboost.fit(numbers, y, **searched).predict(numbers)
    np.testing.assert_array_equal(mtboost.fit(nullable, y, **searched).predict(nullable), expected)


def test_a_star_import_does_not_rebind_the_libraries():
    names = {}
    exec("import xgboost, lightgbm\nfrom mtboost import *", names)
    assert names["xgboost"].__name__ == "xgboost"
    assert names["lightgbm"].__name__ == "lightgbm"
    assert names["fit"] is mtboost.fit


def table_with_categories(rng, n_rows):
    return pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "color": pd.Categorical(rng.choice(["red", "green", "blue", None], n_rows)),
            "b": rng.normal(size=n_rows).astype(np.float32),
            "level": pd.Categorical(rng.integers(10, 15, n_rows)),
            "n": rng.integers(-5, 2**53, n_rows),
            "is_new": rng.random(n_rows) < 0.5,
        }
    )


@pytest.mark.parametrize("specific", ["same columns", "further categories", "no rounds"])
def test_rows_with_categories_are_predicted_alike_by_the_core_and_the_library(
    library, monkeypatch, specific
):
    rng = np.random.default_rng(3)
    frame, task = table_with_categories(rng, 600), np.repeat(["x", "y"], 300)
    y = frame["a"] * (task == "x") + (frame["color"] == "red") - 0.5 * (frame["level"] == 12)
    tables = {name: frame[task == name] for name in ("x", "y")}
    labels = {name: y[task == name] for name in ("x", "y")}
    if specific == "further categories":
        own = pd.Categorical(rng.choice(["u", "v"], 300))
        tables["y"] = tables["y"].assign(shape=own)
    rounds = 0 if specific == "no rounds" else 20
    options = {"strategy": "two-stage", "num_boost_round": 20, "specific_rounds": rounds}
    model = mtboost.fit(tables, labels, backend=library.name, n_threads=1, **options)
    asked = {name: table.iloc[[7, 3, 200, 11]] for name, table in tables.items()}
    asked["x"] = asked["x"][asked["x"].columns[::-1]]  # found by name
    asked["x"] = asked["x"].assign(color=asked["x"]["color"].cat.set_categories(["blue", "red"]))

    def predictions():
        by_task = model.predict_margin(asked)
        single = [model.predict_margin({"x": asked["x"].iloc[[k]]})["x"] for k in range(4)]
        both = pd.concat([asked["x"], asked["x"]])
        if specific != "further categories":
            single.append(model.predict_margin(both, task=["x"] * 4 + ["y"] * 4))
        return np.concatenate([*by_task.values(), *single])

    of_core = TaskTrees.margins
    n_of_core = []

    def counted(*arguments):
        found = of_core(*arguments)
        n_of_core.append(found is not None)
        return found

    monkeypatch.setattr(TaskTrees, "margins", counted)
    found = predictions()
    assert n_of_core
    assert all(n_of_core)
    monkeypatch.setattr(TaskTrees, "margins", lambda *arguments: None)
    np.testing.assert_array_equal(found, predictions())


def test_categories_are_codes_beside_numbers():
    frame = table_with_categories(np.random.default_rng(3), 6)
    cells = as_table(frame).coded_numbers(np.float32)
    assert (cells.dtype, cells.shape) == (np.float32, frame.shape)
    for other in (frame.assign(b=frame["b"].astype("Float32")), polars.from_pandas(frame)):
        assert as_table(other).coded_numbers(np.float32) is None
    numbers = as_table(frame.assign(level=frame["level"].cat.codes.astype(float)))
    np.testing.assert_array_equal(numbers.coded_numbers(np.float32), cells)
    # Rounded once: to float64 first, it would lie amid two numbers of float32, and be the lower.
    large = as_table(frame.assign(n=2**54 + 2**30 + 1)).coded_numbers(np.float32)
    assert (large[:, list(frame).index("n")] == 2.0**54 + 2.0**31).all()


def test_infinite_values_beside_categories_are_refused_by_name():
    frame, task = table_with_categories(np.random.default_rng(3), 200), np.repeat(["x", "y"], 100)
    options = {"strategy": "two-stage", "num_boost_round": 5}
    model = mtboost.fit(frame, frame["a"].to_numpy(), task=task, **options)
    with pytest.raises(DataError, match="X is inf in column 'a'"):
        model.predict(frame.assign(a=np.inf), task=task)
