# SPDX-License-Identifier: Apache-2.0
"""Category columns of training in new rows: numbers, nothing, or tables of another library."""

import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest

import mtboost
import mtboost.plotting
from mtboost.errors import DataError

BACKENDS = pytest.mark.parametrize("backend", ["xgboost", "lightgbm"])
N = 300


def rows(labels):
    rng = np.random.default_rng(0)
    cells, task = rng.choice(labels, N), rng.choice(["u", "v"], N)
    X = pd.DataFrame({"a": rng.normal(size=N), "c": pd.Categorical(cells)})
    return X, X["a"] + 2.0 * (cells == labels[1]), task


def fit(X, y, task, backend, **options):
    options = {"num_boost_round": 10, "specific_rounds": 3, "n_threads": 1, **options}
    return mtboost.fit(X, y, task=task, backend=backend, strategy="two-stage", **options)


@BACKENDS
@pytest.mark.parametrize("dtype", ["int64", "float32", "Int64"])
def test_numbers_are_labels_of_categories_of_numbers(backend, dtype):
    X, y, task = rows([10, 5, 7, 2])
    model = fit(X, y, task, backend)
    numbers = X.assign(c=X["c"].astype(dtype))
    expected = model.predict(X, task=task)
    np.testing.assert_array_equal(model.predict(numbers, task=task), expected)
    by_numbers = fit(X, y, task, backend, eval_set=(numbers, y, task))
    by_categories = fit(X, y, task, backend, eval_set=(X, y, task))
    assert (
        by_numbers.history["u"]["common"].tolist() == by_categories.history["u"]["common"].tolist()
    )


@BACKENDS
def test_a_number_that_is_no_category_counts_as_missing(backend):
    X, y, task = rows([10, 5, 7, 2])
    model = fit(X, y, task, backend)
    with pytest.warns(UserWarning, match="X has the category 999 in column 'c', which training"):
        found = model.predict(X.assign(c=999), task=task)
    missing = X.assign(c=pd.Categorical([None] * N, [2, 5, 7, 10]))
    np.testing.assert_array_equal(found, model.predict(missing, task=task))


@BACKENDS
def test_numbers_are_no_categories_of_text(backend):
    X, y, task = rows(["x", "y", "z"])
    model = fit(X, y, task, backend)
    for table in (X.assign(c=1), polars.DataFrame({"a": X["a"].to_numpy(), "c": np.ones(N)})):
        with pytest.raises(DataError, match="X holds numbers in column 'c', which held categories"):
            model.predict(table, task=task)
    with pytest.raises(DataError, match="X holds numbers in column 'c', which held categories"):
        fit(X, y, task, backend, eval_set=(X.assign(c=1), y, task))


@BACKENDS
def test_missing_values_may_be_of_any_type(backend):
    X, y, task = rows(["x", "y", "z"])
    model = fit(X, y, task, backend)
    expected = model.predict(X.assign(c=pd.Categorical([None] * N, ["x", "y", "z"])), task=task)
    for table in (
        X.assign(c=np.nan),
        X.assign(c=None),
        polars.DataFrame({"a": X["a"].to_numpy(), "c": np.full(N, None, float)}).with_columns(
            polars.col("c").cast(polars.Float64)
        ),
    ):
        np.testing.assert_array_equal(model.predict(table, task=task), expected)
        by_rows = fit(X, y, task, backend, eval_set=(table, y, task))
        assert by_rows.history["u"]["common"].size
        model.add_task("new", table, y)
        np.testing.assert_array_equal(
            model.predict({"new": table})["new"], model.predict({"new": X.assign(c=None)})["new"]
        )
        model = model.remove_task("new")
    numbers = fit(X[["a"]], y, task, backend)
    of_none, of_nan = (pd.DataFrame({"a": [cell]}) for cell in (None, np.nan))
    assert numbers.predict(of_none, task=["u"]) == numbers.predict(of_nan, task=["u"])


@BACKENDS
@pytest.mark.parametrize("labels", [["Bär", "Zürich", "abc", "æ"], ["b", "a", "d", "c"]])
def test_tables_of_all_libraries_have_the_same_categories(backend, labels):
    """XGBoost reads names with letters outside ASCII wrongly from pandas alone."""
    X, y, task = rows(labels)
    X["c"] = X["c"].where(X["a"] < 1.0)  # some are missing
    X = X.assign(is_new=X["a"] > 0.5, count=np.arange(N))
    shuffled = X.assign(c=X["c"].cat.set_categories(labels[::-1]))
    in_arrow = pyarrow.Table.from_pandas(shuffled)
    tables = [X, shuffled, polars.from_pandas(X), in_arrow]
    for of_training in (X, tables[2]):
        model = fit(of_training, y, task, backend)
        expected = model.predict(of_training, task=task)
        contributions = model.contributions(of_training, task=task)
        updated = model.update(of_training, y, task=task, rounds=2).predict(of_training, task=task)
        margins = fit(of_training, y, task, backend, eval_set=(of_training, y, task)).history
        for new in tables:
            np.testing.assert_array_equal(model.predict(new, task=task), expected)
            np.testing.assert_array_equal(model.contributions(new, task=task), contributions)
            other = model.update(new, y, task=task, rounds=2).predict(of_training, task=task)
            np.testing.assert_array_equal(other, updated)
            found = fit(of_training, y, task, backend, eval_set=(new, y, task)).history
            np.testing.assert_array_equal(found["u"]["common"], margins["u"]["common"])
            np.testing.assert_array_equal(found["u"]["specific"], margins["u"]["specific"])


@BACKENDS
@pytest.mark.parametrize("dtype", ["object", "string", "category", "polars", "enum", "pyarrow"])
def test_columns_without_values_are_columns_of_missing_numbers(backend, dtype):
    X, y, task = rows(["x", "y", "z"])
    expected = fit(X[["a"]].assign(c=np.nan), y, task, backend).predict(
        X.assign(c=np.nan), task=task
    )
    if dtype in ("polars", "enum"):
        empty = polars.Series(
            "c", [None] * N, polars.String if dtype == "polars" else polars.Enum([])
        )
        table = polars.DataFrame({"a": X["a"].to_numpy(), "c": empty})
    elif dtype == "pyarrow":
        empty = pyarrow.array([None] * N, "str").dictionary_encode()
        table = pyarrow.table({"a": X["a"].to_numpy(), "c": empty})
    else:
        table = X[["a"]].assign(c=pd.Series([None] * N, dtype=dtype))
    np.testing.assert_array_equal(
        fit(table, y, task, backend).predict(X.assign(c=np.nan), task=task), expected
    )


@BACKENDS
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_task_may_have_no_value_of_a_category(backend, library):
    X, y, task = rows(["x", "y", "z"])
    parts = {name: X[task == name] for name in ("u", "v")}
    labels = {name: y[task == name] for name in parts}
    convert = {
        "pandas": pd.DataFrame,
        "polars": polars.from_pandas,
        "pyarrow": lambda frame: pyarrow.Table.from_pandas(frame, preserve_index=False),
    }[library]

    def predicted(convert, cells):
        tables = {"u": convert(parts["u"].assign(c=cells)), "v": convert(parts["v"])}
        model = mtboost.fit(
            tables, labels, backend=backend, num_boost_round=10, strategy="two-stage", n_threads=1
        )
        return model.predict(tables)

    none = np.full(len(parts["u"]), None)
    expected = predicted(pd.DataFrame, pd.Categorical(none, ["x", "y", "z"]))
    for cells in (none, np.full(len(none), np.nan)):
        found = predicted(convert, cells)
        for name in parts:
            np.testing.assert_array_equal(found[name], expected[name])


def new_rows(model, X, y, task):
    """Calls that read rows several times: by the common model, for each task, or for each plot."""
    tables = {name: X[task == name] for name in model.tasks}
    labels = {name: y[task == name] for name in model.tasks}
    return {
        "predict": lambda: model.predict(X, task=task),
        "tables": lambda: model.predict(tables),
        "evaluate": lambda: model.evaluate(X, y, task=task, against={"itself": model}),
        "contributions": lambda: model.contributions(X, task=task),
        "update": lambda: model.update(tables, labels, rounds=2),
        "refresh": lambda: model.refresh(X, y, task=task),
        "add_task": lambda: model.add_task("new", X, y, eval_set=(X, y)),
        "conformalize": lambda: model.conformalize(X, y, task=task),
        "plot": lambda: mtboost.plotting.plot_dependence(model, X, "a"),
    }


@BACKENDS
def test_a_call_warns_of_unknown_categories_once(backend, tmp_path):
    X, y, task = rows(["x", "y", "z"])
    model = fit(X, y, task, backend)
    X = X.assign(c=X["c"].cat.rename_categories({"x": "new"}))
    calls = new_rows(model, X, y, np.asarray(task))
    calls["report_html"] = lambda: model.report_html(tmp_path / "page.html", X, y, task=task)
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            call()
            call() if name == "predict" else None
        texts = [str(each.message) for each in given if "training did not have" in str(each)]
        assert len(texts) == (2 if name == "predict" else 1), name


@BACKENDS
def test_the_search_distinguishes_categories_of_few_rows(backend):
    """15 rows each, fewer than LightGBM's defaults ask of a split: their RMSE was 1.4."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, 1200)
    X = pd.DataFrame({"a": rng.normal(size=1200), "c": pd.Categorical(codes)})
    y = 2.0 * rng.normal(size=40)[codes] + X["a"] + 0.2 * rng.normal(size=1200)
    task = rng.choice(["u", "v"], 1200)
    model = mtboost.fit(X[:600], y[:600], task=task[:600], backend=backend, effort="fast")
    errors = model.predict(X[600:], task=task[600:]) - y[600:]
    assert np.sqrt(np.mean(errors**2)) < 0.5
