# SPDX-License-Identifier: Apache-2.0
"""Tables as they come from files and databases: text, missing text, nullable numbers."""

import numpy as np
import pandas as pd
import polars
import pytest

import mtboost

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
    with pytest.warns(UserWarning, match="'lima' in the category column 'city'"):
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
    expected = mtboost.fit(numbers, y, **searched).predict(numbers)
    np.testing.assert_array_equal(mtboost.fit(nullable, y, **searched).predict(nullable), expected)


def test_a_star_import_does_not_rebind_the_libraries():
    names = {}
    exec("import xgboost, lightgbm\nfrom mtboost import *", names)
    assert names["xgboost"].__name__ == "xgboost"
    assert names["lightgbm"].__name__ == "lightgbm"
    assert names["fit"] is mtboost.fit
