# SPDX-License-Identifier: Apache-2.0
"""``common_features="all"``: a common model on the columns of any task."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xgboost
from libraries import LIBRARIES

import mtboost
from mtboost.errors import DataError

_rng = np.random.default_rng(0)
N_ROWS = 300
#: Columns of each task; k holds categories.
COLUMNS = {"a": ["p", "q", "k"], "b": ["r", "p"], "c": ["k", "q", "r", "s"]}
UNION = ("p", "q", "k", "r", "s")
KINDS = ["z", "x", "y"]
OPTIONS = {"strategy": "two-stage", "num_boost_round": 20, "specific_rounds": 10}
OPTIONS |= {"early_stopping_rounds": 5, "n_threads": 1}
NUMBERS = {task: [n for n in names if n != "k"] for task, names in COLUMNS.items()}


def frame(n_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("pqrs"))
    X = X.where(rng.random(X.shape) > 0.1)
    kinds = np.array(["x", "y", "z"])[rng.integers(0, 3, n_rows)]
    return X.assign(k=pd.Categorical(kinds, categories=KINDS))


def labels(X: pd.DataFrame) -> np.ndarray:
    parts = [
        np.sin((2 + place) * X[name].fillna(0.3).to_numpy())
        for place, name in enumerate("pqrs")
        if name in X
    ]
    kind = 2.0 * (X["k"] == "x").to_numpy() if "k" in X else 0.0
    return np.sum(parts, axis=0) + kind


def tables(seed: int, columns=COLUMNS, n_rows=N_ROWS) -> dict[str, pd.DataFrame]:
    return {
        task: frame(n_rows, seed + place)[names]
        for place, (task, names) in enumerate(columns.items())
    }


X, NEW = tables(0), tables(10, n_rows=120)
Y = {task: labels(table) for task, table in X.items()}


def fitted(library, X=X, **options):
    options = {"backend": library.name, "common_features": "all", **OPTIONS, **options}
    return mtboost.fit(X, options.pop("y", Y), **options)


def assert_boosters_are_the_model(library, model, new=NEW, tasks=None):
    """From the task's own columns each booster gives the model's margins."""
    margins = model.predict_margin(new)
    for task in tasks or new:
        booster = model.booster(task)
        columns = model.task_columns[task].names
        assert library.feature_names(booster) == list(columns)
        found = library.margins(booster, new[task][list(columns)])
        np.testing.assert_allclose(found, margins[task], rtol=0, atol=10 * library.atol)


# The common table -----------------------------------------------------------------------------


def as_pandas(table):
    return table


def as_polars(table):
    kinds = {"k": pl.Enum(KINDS)} if "k" in table else {}
    columns = {n: table[n].astype(object if n == "k" else float).tolist() for n in table}
    return pl.DataFrame(columns, strict=False).cast(kinds)


def as_arrow(table):
    def column(values):
        if values.dtype == "category":
            codes = pa.array(values.cat.codes.to_numpy(), pa.int32(), mask=values.isna().to_numpy())
            return pa.DictionaryArray.from_arrays(codes, pa.array(KINDS, pa.string()))
        return pa.array(values, from_pandas=True)

    return pa.table({name: column(values) for name, values in table.items()})


every_library = pytest.mark.parametrize("convert", [as_pandas, as_polars, as_arrow])


@every_library
def test_the_common_table_has_every_column_in_the_order_of_first_appearance(convert):
    data = mtboost.Dataset({t: convert(x) for t, x in X.items()}, common_features="all")
    assert data.common.feature_names == UNION
    assert data.common.categorical_features == ("k",)
    expected = pd.concat(X.values(), ignore_index=True)
    for name in UNION:
        found = pd.Series(data.common.column(name).tolist()).astype(expected[name].dtype)
        pd.testing.assert_series_equal(found, expected[name], check_names=False)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_sparse_table_stores_nothing_of_a_column_that_a_task_lacks(form):
    def sparse(table):
        return scipy.sparse.csr_array(table.fillna(0).to_numpy()).asformat(form)

    X = {t: sparse(x) for t, x in tables(0, NUMBERS).items()}
    data = mtboost.Dataset(X, feature_names=NUMBERS, common_features="all")
    assert data.common.feature_names == ("p", "q", "r", "s")
    assert data.common.native.nnz == sum(x.nnz for x in X.values())
    dense = [
        x.fillna(0).reindex(columns=list("pqrs"), fill_value=0) for x in tables(0, NUMBERS).values()
    ]
    np.testing.assert_array_equal(data.common.native.toarray(), np.concatenate(dense))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pd.Series([True, False]), pd.Series([True])),
        (pd.Series([1, 2]), pd.Series([3])),
        (pd.Series([1, None], dtype="Int64"), pd.Series([3], dtype="Int64")),
        (pd.Series([True, None], dtype="boolean"), pd.Series([True], dtype="bool")),
        (
            pd.Series([1.0, 2.0], dtype="float64[pyarrow]"),
            pd.Series([1.0], dtype="float64[pyarrow]"),
        ),
        (pd.Series([0, 2], dtype="Sparse[int]"), pd.Series([1], dtype="Sparse[int]")),
    ],
    ids=lambda values: str(values.dtype),
)
def test_columns_of_any_type_may_be_lacking(library, first, second):
    X = {
        "a": pd.DataFrame({"u": first}),
        "b": pd.DataFrame({"v": [0.5, 1.0]}),
        "c": pd.DataFrame({"u": second, "v": [2]}),
    }
    data = mtboost.Dataset(X, common_features="all")
    found = data.common.column("u").tolist()
    expected = [*first, None, None, *second]
    for value, own in zip(found, expected, strict=True):
        assert pd.isna(value) if pd.isna(own) else float(value) == float(own)
    y = {task: np.arange(len(x)) for task, x in X.items()}
    options = {"common_features": "all", "validation_fraction": 0, "strategy": "two-stage"}
    mtboost.fit(X, y, backend=library.name, **options)


def test_labels_of_a_frame_that_are_numbers_are_names():
    X = {"a": pd.DataFrame({0: [1.0], 1: [2.0]}), "b": pd.DataFrame({1: [3.0]}, index=[7])}
    common = mtboost.Dataset(X, common_features="all").common
    assert common.feature_names == ("0", "1")
    np.testing.assert_array_equal(common.native, [[1, 2], [np.nan, 3]])


def test_with_one_table_all_are_all_of_its_columns(library):
    table, task = frame(3 * N_ROWS, 4), np.repeat(list(X), N_ROWS)
    y = np.concatenate(list(Y.values()))
    models = [
        mtboost.fit(table, y, task=task, backend=library.name, common_features=common, **OPTIONS)
        for common in (None, "all")
    ]
    assert library.raw(models[0].common) == library.raw(models[1].common)


@pytest.mark.parametrize(
    ("X", "common_features", "message"),
    [
        ({"a": np.ones((3, 2)), "b": np.ones((3, 3))}, "all", "needs column names"),
        ({"a": np.ones((3, 2)), "b": np.ones((3, 2))}, "all", "needs column names"),
        (X, "every", "must be 'all' or a list of columns, found 'every'"),
        (X["a"], "p", "must be 'all' or a list of columns, found 'p'"),
        (
            {"a": X["a"], "b": X["b"].assign(q=X["a"]["k"])},
            "all",
            "'q' holds categories in some tables only",
        ),
    ],
)
def test_what_cannot_be_united_is_refused(X, common_features, message):
    with pytest.raises(DataError, match=message):
        mtboost.Dataset(X, common_features=common_features)


# The model ------------------------------------------------------------------------------------


def test_the_common_model_is_that_of_the_padded_table(library):
    padded = {task: x.reindex(columns=UNION) for task, x in X.items()}
    kinds = X["a"]["k"].dtype
    padded = {task: x.astype({"k": kinds}) for task, x in padded.items()}
    model, other = fitted(library), fitted(library, padded, common_features=None)
    assert library.raw(model.common) == library.raw(other.common)
    assert model.quit_round == other.quit_round
    assert model.common_columns == other.common_columns


CONSTRAINTS = {
    "monotone_constraints": (1, 0, 0, -1, 0),
    "interaction_constraints": "[[0,1,2],[3,4]]",
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"specific_rounds": 0},
        {"validation_fraction": 0},
        {"pooling": 5.0},
        {"split_score": "plain", "params": {"max_depth": 3}},
        {"strategy": "auto", "num_boost_round": 10, "validation_fraction": 0.25},
        {"refit": True, "baselines": True},
        {"min_delta": 1e3},
        {"params": CONSTRAINTS},
    ],
    ids=str,
)
def test_boosters_need_the_columns_of_their_task_alone(library, options):
    model = fitted(library, **options)
    assert set(library.feature_names(model.common)) == set(UNION)
    assert_boosters_are_the_model(library, model)


@every_library
def test_tables_of_any_library_are_aligned(library, convert):
    def convert_all(X):
        return {task: convert(x) for task, x in X.items()}

    model = fitted(library, convert_all(X))
    found, expected = model.predict_margin(convert_all(NEW)), fitted(library).predict_margin(NEW)
    for task in NEW:
        np.testing.assert_array_equal(found[task], expected[task])


def test_arrays_with_names_and_sparse_ones(library):
    X, new = tables(0, NUMBERS), tables(10, NUMBERS)
    y = {task: labels(x) for task, x in X.items()}
    for convert in (np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_array):
        arrays = {task: convert(x.to_numpy()) for task, x in X.items()}
        model = fitted(library, arrays, y=y, feature_names=NUMBERS)
        rows = {task: convert(x.to_numpy()) for task, x in new.items()}
        margins = model.predict_margin(rows)
        for task in X:
            booster = model.booster(task)
            assert library.feature_names(booster) == NUMBERS[task]
            if library.name == "xgboost":
                matrix = xgboost.DMatrix(rows[task], feature_names=NUMBERS[task])
                found = booster.predict(matrix, output_margin=True)
            else:
                found = library.margins(booster, rows[task])
            np.testing.assert_allclose(found, margins[task], rtol=0, atol=10 * library.atol)


@pytest.mark.parametrize("zeros", [False, True], ids=["NaN is missing", "zero is missing"])
@pytest.mark.parametrize("share", [0.0, 0.3], ids=["no NaN", "NaN"])
def test_lightgbm_takes_what_is_not_stored_as_it_did_in_training(zeros, share):
    rng = np.random.default_rng(3)
    names = {"a": ["p", "q"], "b": ["q", "r"], "c": ["p", "r"]}

    def sparse(seed):
        rng = np.random.default_rng(seed)
        dense = np.where(rng.random((400, 2)) < 0.4, 0, rng.normal(1, 2, size=(400, 2)))
        return np.where(rng.random((400, 2)) < share, np.nan, dense)

    X = {task: sparse(place) for place, task in enumerate(names)}
    y = {task: np.nansum(x, axis=1) + rng.normal(size=400) for task, x in X.items()}
    model = mtboost.fit(
        {task: scipy.sparse.csr_array(x) for task, x in X.items()},
        y,
        feature_names=names,
        common_features="all",
        backend="lightgbm",
        params={"zero_as_missing": zeros},
        **OPTIONS,
    )
    for task, x in X.items():
        booster = model.booster(task)
        for rows in (x, scipy.sparse.csr_array(x)):
            found = LIBRARIES["lightgbm"].margins(booster, rows)
            expected = model.predict_margin({task: rows})[task]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_what_a_task_lacks_is_missing_whatever_a_table_has_there(library):
    model = fitted(library)
    everything = {task: frame(120, 50 + place) for place, task in enumerate(X)}
    own = {task: table[COLUMNS[task]] for task, table in everything.items()}
    margins, expected = model.predict_margin(everything), model.predict_margin(own)
    together = pd.concat(everything.values(), ignore_index=True)
    of_one = model.predict_margin(together, task=np.repeat(list(X), 120))
    for place, task in enumerate(X):
        np.testing.assert_array_equal(margins[task], expected[task])
        np.testing.assert_array_equal(of_one[120 * place : 120 * place + 120], expected[task])


def test_validation_rows_in_one_table_are_those_of_a_mapping(library):
    task = np.repeat(list(X), 120)
    order = np.random.default_rng(1).permutation(360)
    together = pd.concat(NEW.values(), ignore_index=True)
    y = {name: labels(table) for name, table in NEW.items()}
    one = together.assign(k=pd.Categorical(together["k"], categories=["x", "y", "z"]))
    one = (one.iloc[order], np.concatenate(list(y.values()))[order], task[order])
    models = [fitted(library, eval_set=valid) for valid in ((NEW, y), one)]
    for name in X:
        assert library.raw(models[0].booster(name)) == library.raw(models[1].booster(name))


def test_a_column_that_a_task_had_is_still_needed(library):
    model = fitted(library)
    with pytest.raises(DataError, match="lacks column 'q' of the model"):
        model.predict({"a": NEW["a"].drop(columns="q")})


def test_an_unknown_task_may_lack_what_some_task_lacks(library):
    wide = {task: x.assign(shared=1.0 * np.arange(N_ROWS)) for task, x in X.items()}
    model = fitted(library, wide)
    rows = frame(20, 5).assign(shared=2.0)
    found = model.predict({"new": rows[["q", "shared"]]}, unknown_task="common")["new"]
    padded = rows.assign(p=np.nan, r=np.nan, s=np.nan, k=rows["k"].where(rows["shared"] > 2))
    expected = model.predict({"new": padded}, unknown_task="common")["new"]
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(DataError, match="lacks column 'shared'"):
        model.predict({"new": rows[["p", "q"]]}, unknown_task="common")


def test_importances_and_contributions_are_those_of_the_booster(library):
    model = fitted(library)
    for task, names in COLUMNS.items():
        found = model.importance(task, "weight")
        assert found == library.importance(model.booster(task), "weight")
        assert set(found) <= set(names)
        values = model.contributions({task: NEW[task]})[task]
        assert values.shape == (120, len(names) + 1)
        margins = model.predict_margin({task: NEW[task]})[task]
        np.testing.assert_allclose(values.sum(axis=1), margins, rtol=1e-4, atol=1e-4)


def test_several_classes(library):
    y = {task: np.digitize(values, [0.0, 1.5]) for task, values in Y.items()}
    model = fitted(library, y=y, objective=library.multiclass)
    assert_boosters_are_the_model(library, model)


@pytest.mark.parametrize("pooling", [None, 5.0])
def test_tasks_with_objectives_of_their_own(library, pooling):
    own = {"a": "reg:squarederror", "b": "binary:logistic", "c": "count:poisson"}
    own = {task: library.own(objective) for task, objective in own.items()}
    y = {"a": Y["a"], "b": 1.0 * (Y["b"] > 0), "c": np.round(np.exp(Y["c"] / 3))}
    model = fitted(library, y=y, objective=own, pooling=pooling)
    assert_boosters_are_the_model(library, model)


@pytest.mark.parametrize("pooling", [None, 5.0])
def test_a_new_task_may_lack_columns(library, pooling):
    model = fitted(library, pooling=pooling)
    before = model.predict_margin(NEW)
    own = frame(200, 70)[["k", "s"]].assign(extra=_rng.normal(size=200))
    model.add_task("new", own, labels(own) + own["extra"].to_numpy())
    assert model.task_columns["new"].names == ("k", "s", "extra")
    after = model.predict_margin(NEW)
    for task in NEW:
        np.testing.assert_array_equal(after[task], before[task])
    assert_boosters_are_the_model(library, model, {"new": own})
    with pytest.raises(DataError, match="lacks columns"):
        model.add_task("none", own[["extra"]], labels(own))


def test_files_and_boosters_without_mtboost(library, tmp_path):
    model = fitted(library)
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    expected = model.predict_margin(NEW)
    for task, found in loaded.predict_margin(NEW).items():
        np.testing.assert_array_equal(found, expected[task])
        path = tmp_path / f"{task}.{'ubj' if library.name == 'xgboost' else 'txt'}"
        loaded.booster(task).save_model(path)
        margins = library.margins(library.booster(model_file=path), NEW[task])
        np.testing.assert_allclose(margins, found, rtol=0, atol=10 * library.atol)


def test_the_estimators_know_it(library):
    model = mtboost.MultiTaskRegressor(
        n_estimators=10, backend=library.name, common_features="all", n_jobs=1, strategy="two-stage"
    ).fit(X, Y)
    assert model.model_.common_columns.names == UNION
    assert {task: len(values) for task, values in model.predict(NEW).items()} == dict.fromkeys(
        X, 120
    )
