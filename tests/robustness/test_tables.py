# SPDX-License-Identifier: Apache-2.0
"""Tables, labels and weights of any kind are read alike, or refused with one clear error."""

import datetime
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_script

import mtboost
from mtboost.base.checked_tables import as_table
from mtboost.base.labels import as_base_margin, as_labels, as_weights
from mtboost.base.stacked_tables import concat
from mtboost.base.tables import Columns
from mtboost.base.task_tables import check_task_keys, from_mapping, is_mapping
from mtboost.errors import DataError, UnsupportedError
from mtboost.xgboost import library as xgboost_library
from mtboost.xgboost.library import check_readable, reads_categories, version
from mtboost.xgboost.matrices import plain_matrix

NUMBERS = np.array([[1.0, 0.0, 3.0], [0.0, 5.0, 6.0], [7.0, 8.0, 0.0], [0.0, 2.0, 4.0]])
COLORS = ["red", "blue", None, "red"]


def pandas_table():
    frame = pd.DataFrame(NUMBERS, columns=["a", "b", "c"])
    return frame.assign(color=pd.Categorical(COLORS))


def polars_table():
    frame = pl.DataFrame(NUMBERS, schema=["a", "b", "c"])
    return frame.with_columns(color=pl.Series(COLORS, dtype=pl.Categorical))


def pyarrow_table():
    columns = {name: NUMBERS[:, i] for i, name in enumerate("abc")}
    return pa.table(columns | {"color": pa.array(COLORS).dictionary_encode()})


ARRAYS = {
    "numpy": NUMBERS,
    "fortran": np.asfortranarray(NUMBERS),
    "strided": np.repeat(np.repeat(NUMBERS, 2, axis=0), 2, axis=1)[::2, ::2],
    "int": NUMBERS.astype(int),
    "csr": sp.csr_array(NUMBERS),
    "csc": sp.csc_array(NUMBERS),
    "csr_matrix": sp.csr_matrix(NUMBERS),
}
FRAMES = {"pandas": pandas_table(), "polars": polars_table(), "pyarrow": pyarrow_table()}
FRAMES["arrow from pandas"] = pa.Table.from_pandas(FRAMES["pandas"])  # masked categories
FRAMES["chunked"] = pa.concat_tables([FRAMES["pyarrow"][:1], FRAMES["pyarrow"][1:]])
# Its dictionaries are marked as able to hold nulls, which XGBoost 3.2 does not read.
FRAMES["pyarrow of pandas"] = pa.Table.from_pandas(pandas_table(), preserve_index=False)
every_array = pytest.mark.parametrize("X", ARRAYS.values(), ids=ARRAYS.keys())
every_frame = pytest.mark.parametrize("X", FRAMES.values(), ids=FRAMES.keys())


def codes_in_xgboost(table):
    """Values XGBoost reads, categories as codes; NaN where missing."""
    check_readable(table)
    names = None if table.feature_names is None else list(table.feature_names)
    data = xgboost.DMatrix(
        table.native, feature_names=names, enable_categorical=True, nthread=1
    ).get_data()
    dense = np.full(data.shape, np.nan)
    rows = np.repeat(np.arange(data.shape[0]), np.diff(data.indptr))
    dense[rows, data.indices] = data.data
    return dense


def test_polars_is_not_imported_for_users_without_it():
    # XGBoost itself looks for pandas.
    script = "import sys, mtboost; assert not {'polars', 'lightgbm'} & set(sys.modules)"
    run_script(script)


@every_array
def test_an_array_is_the_users_and_its_columns_are_numbered(X):
    table = as_table(X)
    assert table.native is X
    assert (table.n_rows, table.n_features, table.feature_names) == (4, 3, None)
    assert table.categorical_features == ()
    for position in range(3):
        assert table.column(position).tolist() == NUMBERS[:, position].tolist()


@every_frame
def test_a_frame_has_names_and_category_columns(X):
    table = as_table(X)
    assert (table.n_rows, table.n_features) == (4, 4)
    assert table.feature_names == ("a", "b", "c", "color")
    assert table.categorical_features == ("color",)
    assert table.column("b").tolist() == NUMBERS[:, 1].tolist()
    found = table.column("color").tolist()
    assert found[:2] + found[3:] == ["red", "blue", "red"]
    assert pd.isna(found[2])


def test_wrapping_a_frame_copies_no_numbers():
    frame = FRAMES["pandas"]
    assert as_table(frame).native is frame
    for frame in (FRAMES["polars"], FRAMES["pyarrow"]):
        wrapped = as_table(frame).native
        for name in "abc":
            assert np.shares_memory(np.asarray(wrapped[name]), np.asarray(frame[name]))


@every_array
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_take_and_select_give_the_rows_and_columns_of_an_array(X, dtype):
    rows = np.array([3, 0, 0, 2], dtype=dtype)
    table = as_table(X).take(rows).select([2, 0])
    assert type(table.native) is type(X)
    dense = table.native.toarray() if sp.issparse(X) else table.native
    np.testing.assert_array_equal(dense, NUMBERS[rows][:, [2, 0]])


@every_frame
@pytest.mark.parametrize("columns", [["a", "c"], ["c", "a"]])
def test_take_and_select_give_the_rows_and_columns_of_a_frame(X, columns):
    rows = np.array([3, 0, 0, 2])
    table = as_table(X).take(rows).select(columns)
    assert type(table.native) is type(X)
    assert table.feature_names == tuple(columns)
    positions = ["abc".index(name) for name in columns]
    np.testing.assert_array_equal(codes_in_xgboost(table), NUMBERS[rows][:, positions])


@every_frame
def test_drop_leaves_the_other_columns(X):
    assert as_table(X).drop("b").feature_names == ("a", "c", "color")


@every_frame
def test_a_category_has_the_same_code_in_every_subset(X):
    table = as_table(X)
    whole = codes_in_xgboost(table)
    assert np.unique(whole[[0, 1, 3], 3]).tolist() == [0, 1]
    for rows in ([1, 2], [3, 1], [2]):
        np.testing.assert_array_equal(codes_in_xgboost(table.take(np.array(rows))), whole[rows])


@every_frame
def test_codes_in_xgboost_are_positions_in_categories(X):
    table = as_table(X)
    categories = table.categories("color")
    codes = codes_in_xgboost(table)[:, 3]
    assert [categories[int(code)] for code in codes[[0, 1, 3]]] == ["red", "blue", "red"]
    assert np.isnan(codes[2])


def test_a_null_among_the_categories_of_arrow_is_a_missing_value():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["red", None, "blue"]))
    table = as_table(pa.table({"a": NUMBERS[:, 0], "color": column}))
    assert table.categories("color") == ["red", "blue"]
    np.testing.assert_array_equal(codes_in_xgboost(table)[:, 1], [0, np.nan, 1, 0])


@pytest.mark.parametrize("position", [0, 2])
def test_dropping_the_first_or_last_column_of_an_array_copies_nothing(position):
    assert np.shares_memory(as_table(NUMBERS).drop(position).native, NUMBERS)


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas copies on write from 3 on, before at once")
def test_dropping_a_pandas_column_copies_nothing():
    frame = pd.DataFrame(np.arange(8.0).reshape(2, 4), columns=["a", "b", "c", "d"])
    dropped = as_table(frame).drop("c").native  # positions 0, 1, 3 are no slice
    for name in ("a", "b", "d"):
        assert np.shares_memory(dropped[name].to_numpy(), frame[name].to_numpy())


def test_selecting_all_columns_in_order_gives_the_same_table():
    table = as_table(FRAMES["pandas"])
    assert table.select(["a", "b", "c", "color"]) is table


def test_an_array_may_be_given_names():
    table = as_table(NUMBERS, feature_names=["x", "y", "z"])
    assert table.select(["z", "x"]).feature_names == ("z", "x")
    assert table.column("y").tolist() == NUMBERS[:, 1].tolist()


def test_nested_lists_are_an_array():
    np.testing.assert_array_equal(as_table(NUMBERS.tolist()).native, NUMBERS)


def test_integer_labels_and_levels_of_pandas_columns_are_named_as_in_xgboost():
    for columns in ([3, "x"], pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])):
        frame = pd.DataFrame(NUMBERS[:, :2], columns=columns)
        table = as_table(frame)
        check_readable(table)
        assert list(table.feature_names) == xgboost.DMatrix(frame).feature_names
        assert table.column(table.feature_names[1]).tolist() == NUMBERS[:, 1].tolist()
        assert table.drop(table.feature_names[0]).feature_names == table.feature_names[1:]


@pytest.mark.parametrize("make", [sp.coo_array, sp.lil_array, sp.dok_array, sp.bsr_array])
def test_other_sparse_formats_become_csr(make):
    table = as_table(make(NUMBERS))
    assert table.native.format == "csr"
    np.testing.assert_array_equal(table.native.toarray(), NUMBERS)


def test_repeated_entries_of_a_sparse_cell_add_up_before_xgboost_sees_them():
    X = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    assert xgboost.DMatrix(X).num_nonmissing() == 2
    assert codes_in_xgboost(as_table(X))[0, 1] == 3.0
    assert X.nnz == 2  # the user's matrix is left alone


def test_a_boolean_csc_matrix_is_made_readable():
    X = sp.csc_array(NUMBERS > 0)
    np.testing.assert_array_equal(codes_in_xgboost(as_table(X)) == 1, NUMBERS > 0)


def accepted(read, X):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse arrays from pandas are converted into dense")
        try:
            read(X)
        except (DataError, ValueError, TypeError, KeyError, pa.ArrowException):
            return False
        except xgboost.core.XGBoostError:
            return False
        return True


PANDAS_DTYPES = ["bool", "int8", "int64", "uint64", "float16", "float32", "float64", "complex64"]
PANDAS_DTYPES += ["boolean", "Int8", "UInt64", "Float32", "Float64", "Sparse[float64]"]
PANDAS_DTYPES += ["bool[pyarrow]", "int16[pyarrow]", "uint8[pyarrow]", "float[pyarrow]"]
PANDAS_DTYPES += ["double[pyarrow]", "halffloat[pyarrow]", "string[pyarrow]", "category"]
PANDAS_DTYPES += ["object", "string", "datetime64[ns]", "timedelta64[ns]"]
PANDAS_DTYPES += [pd.ArrowDtype(pa.dictionary("i4", "str"))]
CATEGORY_DTYPES = ["int8", "float64", "bool", "Int64", "str", "string", "datetime64[ns]", "object"]
PANDAS_COLUMNS = [pd.Series([0, 1, 1]).astype(dtype) for dtype in PANDAS_DTYPES[:-1]]
PANDAS_COLUMNS += [pd.Series(["a", "b"], dtype=PANDAS_DTYPES[-1])]
PANDAS_COLUMNS += [pd.Series([0, 1]).astype(dtype).astype("category") for dtype in CATEGORY_DTYPES]
PANDAS_COLUMNS += [pd.Series(["a", 1, None], dtype="category")]
PANDAS_COLUMNS += [pd.Series([None, None], dtype=pd.ArrowDtype(pa.null()))]
POLARS_DTYPES = [pl.Boolean, pl.Int8, pl.UInt64, pl.Float32, pl.Float64, pl.Int128, pl.Date]
POLARS_DTYPES += [pl.Decimal(9, 2), pl.String]
POLARS_COLUMNS = [pl.Series([0, 1]).cast(dtype) for dtype in POLARS_DTYPES]
POLARS_COLUMNS += [pl.Series(["a", "b"], dtype=pl.Categorical), pl.Series([None]), pl.Series([[1]])]
POLARS_COLUMNS += [pl.Series(["a", "b"], dtype=pl.Enum(["b", "a", "c"]))]
ARROW_TYPES = [pa.int8(), pa.uint64(), pa.float64(), pa.float32(), pa.float16(), pa.date32()]
ARROW_COLUMNS = [pa.array([0, 1], dtype) for dtype in ARROW_TYPES]
ARROW_COLUMNS += [pa.array([True, None]), pa.array(["a", "b"]), pa.nulls(2)]
ARROW_COLUMNS += [pa.array(["a", "b"]).dictionary_encode(), pa.array([5, 6]).dictionary_encode()]
ARROW_COLUMNS += [pa.array(["a", "b"], pa.large_string()).dictionary_encode()]


@pytest.mark.parametrize(
    ("column", "make_table"),
    [(column, pd.DataFrame) for column in PANDAS_COLUMNS]
    + [(column, pl.DataFrame) for column in POLARS_COLUMNS]
    + [(column, pa.table) for column in ARROW_COLUMNS],
    ids=lambda x: x.__name__ if callable(x) else str(getattr(x, "dtype", getattr(x, "type", x))),
)
def test_a_column_is_accepted_if_and_only_if_xgboost_reads_it(column, make_table):
    X = make_table({"x": column})
    check_readable(as_table(make_table({"x": [1.0]})))
    dtype = str(getattr(column, "dtype", getattr(column, "type", None)))
    if version() < (3, 1) and dtype.startswith(("category", "Categorical", "Enum", "dictionary")):
        pytest.skip("XGBoost 3.0 reads any categories of pandas, and none of polars and pyarrow")
    by_xgboost = accepted(lambda X: xgboost.DMatrix(X, enable_categorical=True), X)
    assert accepted(as_table, X) == (by_xgboost or is_converted(column))


def is_converted(column):
    """Whether a column is made one of those that every version of XGBoost reads."""
    if isinstance(column, pl.Series):
        return column.dtype in (pl.Categorical, pl.String, pl.Null, pl.Decimal)
    if isinstance(column, pa.Array):
        return column.type in (pa.string(), pa.null(), pa.float16())
    if str(column.dtype).startswith(("str", "null", "halffloat", "dictionary", "object")):
        return True
    if isinstance(column, pd.Series) and column.dtype == "category":
        return str(column.cat.categories.dtype) in ("Int64", "string")
    return False


def test_columns_without_values_and_in_forms_of_arrow_are_those_of_usual_types():
    halves = np.array([0.5, 1.0, -2.0], np.float16)
    arrow = pa.table({"none": pa.nulls(3), "half": halves, "text": ["x", None, "y"]})
    arrow = arrow.set_column(2, "text", arrow["text"].dictionary_encode())
    usual = pd.DataFrame(
        {
            "none": np.full(3, np.nan),
            "half": halves.astype(np.float32),
            "text": pd.Categorical(["x", None, "y"]),
        }
    )
    in_pandas = arrow.to_pandas(types_mapper=pd.ArrowDtype)
    for table in (in_pandas, pl.from_arrow(arrow), arrow):
        found = as_table(table)
        assert found.categories("text") == ["x", "y"]
        np.testing.assert_array_equal(codes_in_xgboost(found), codes_in_xgboost(as_table(usual)))


@pytest.mark.parametrize("backend", ["xgboost", "lightgbm"])
def test_objects_of_booleans_are_booleans(backend):
    """As pandas reads a column of True, False and empty cells from a file."""
    values = [True, None, False] * 20
    y = [1.0, 0.5, 0.0] * 20
    quick = {"strategy": "two-stage", "num_boost_round": 5, "backend": backend}
    frame, nullable, numbers = (
        pd.DataFrame({"flag": pd.Series(values, dtype=dtype), "x": range(60)})
        for dtype in (object, "boolean", float)
    )
    model = mtboost.fit(frame, y, **quick)
    assert not model.common_columns.categories
    expected = model.predict(numbers)
    assert len(np.unique(expected)) >= 3
    for table in (frame, nullable, frame[:1].assign(flag=True)):
        np.testing.assert_array_equal(model.predict(table), expected[: len(table)])


@pytest.mark.parametrize("values", [[1, None, 3], [0.5, None, pd.NA], [1, 2.5, np.nan]])
@pytest.mark.parametrize("backend", ["xgboost", "lightgbm"])
def test_objects_of_numbers_are_numbers(backend, values):
    """As ``frame.where(frame.notna(), None)`` leaves them."""
    numbers = pd.DataFrame({"n": pd.Series(values * 20, dtype="Float64"), "x": range(60)})
    objects = numbers.assign(n=pd.Series(values * 20, dtype=object))
    quick = {"strategy": "two-stage", "num_boost_round": 5, "backend": backend}
    model = mtboost.fit(objects, [1.0, 0.5, 0.0] * 20, **quick)
    expected = mtboost.fit(numbers, [1.0, 0.5, 0.0] * 20, **quick).predict(numbers)
    for table in (objects, numbers, objects[:1]):
        np.testing.assert_array_equal(model.predict(table), expected[: len(table)])


@pytest.mark.parametrize("library", ["pandas", "arrow in pandas", "polars", "pyarrow"])
def test_decimals_are_numbers(library):
    values = [decimal.Decimal("1.50"), None, decimal.Decimal(-2)]
    arrow = pa.table({"x": values, "n": [1.0, 2.0, 3.0]})
    table = {
        "pandas": lambda: arrow.to_pandas(),
        "arrow in pandas": lambda: arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": lambda: pl.from_arrow(arrow),
        "pyarrow": lambda: arrow,
    }[library]()
    found = xgboost.DMatrix(as_table(table).native).get_data().toarray()
    np.testing.assert_array_equal(found[:, 0], [1.5, 0.0, -2.0])  # 0: not stored, missing
    np.testing.assert_array_equal(as_table(table).number_column("x"), [1.5, np.nan, -2.0])


@pytest.mark.parametrize("make", [np.asfortranarray, np.array, sp.csr_array, sp.csc_array])
def test_floats_above_8_bytes_become_float64(make):
    X = NUMBERS.astype(np.longdouble)
    found = as_table(make(X)).native
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, NUMBERS)
    column = as_table(pd.DataFrame({"x": X[:, 0]})).column("x")
    assert column.dtype == np.float64
    np.testing.assert_array_equal(column, NUMBERS[:, 0])


@pytest.mark.parametrize("dtype", ["float32", "int", "bool", pd.SparseDtype(float, 0)], ids=str)
def test_sparse_columns_of_pandas_are_made_dense(dtype):
    column = pd.Series([0, 2, 0]).astype(pd.SparseDtype(dtype))
    native = pd.DataFrame({"s": column, "x": [1.0, 2.0, 3.0], "unused": column})
    table = as_table(native, task_column="unused")
    assert table.column_types["s"] == column.dtype.subtype
    np.testing.assert_array_equal(table.column("s"), column.to_numpy())
    assert table.column_types["unused"] == column.dtype
    assert native["s"].dtype == column.dtype


def test_categories_of_pandas_own_strings_become_usual_ones():
    categories = pd.Index(["x", "y"], dtype="string")
    table = as_table(pd.DataFrame({"x": pd.Categorical(["y", "x", None], categories=categories)}))
    assert table.categories("x") == ["x", "y"]
    assert str(table.column_types["x"].categories.dtype) in ("str", "object")
    np.testing.assert_array_equal(codes_in_xgboost(table)[:, 0], [1, 0, np.nan])


@pytest.mark.parametrize("dtype", ["Int64", object])
def test_integer_categories_of_any_type_become_plain_integers(dtype):
    categories = pd.Index([5, 7], dtype=dtype)
    table = as_table(pd.DataFrame({"x": pd.Categorical([7, 5, 7], categories=categories)}))
    assert table.categories("x") == [5, 7]
    np.testing.assert_array_equal(codes_in_xgboost(table)[:, 0], [1, 0, 1])


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.longdouble, np.int8, np.uint64, np.bool_, np.complex64]
)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_a_number_type_is_accepted_if_and_only_if_xgboost_reads_it(make, dtype):
    X = make(NUMBERS.astype(dtype))
    assert accepted(as_table, X) == accepted(xgboost.DMatrix, X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (NUMBERS[:, 0], r"shape \(4,\).*reshape\(-1, 1\)"),
        (pd.Series([1.0, 2.0]), r"shape \(2,\)"),
        (pl.Series([1.0, 2.0]), r"shape \(2,\)"),
        (sp.coo_array(NUMBERS[0]), r"shape \(3,\)"),
        (NUMBERS[None], r"shape \(1, 4, 3\)"),
        (np.empty((0, 3)), r"X has no rows: its shape is \(0, 3\)"),
        (np.empty((3, 0)), "X has no columns"),
        (sp.csr_array((0, 3)), "X has no rows"),
        (FRAMES["pandas"].iloc[:0], "X has no rows"),
        (pd.DataFrame(index=[0, 1]), "X has no columns"),
        (FRAMES["polars"][:0], "X has no rows"),
        (FRAMES["pyarrow"][:0], "X has no rows"),
        ([], r"shape \(0,\)"),
        ([[1, 2], [3]], "X is not a rectangular table"),
        (NUMBERS.astype(object), "X has dtype object"),
        (NUMBERS.astype(str), "X has dtype <U32"),
        (np.zeros((2, 2), dtype=[("a", float)]), "X has dtype"),
        (np.zeros((2, 2), dtype="M8[s]"), "X has dtype datetime64"),
        (NUMBERS.astype(">f8"), "foreign byte order"),
        (np.ma.array(NUMBERS, mask=NUMBERS > 5), "X is a masked array"),
        (pd.DataFrame({"city": [str(n) for n in range(1001)]}), "1001 different texts in .*'city'"),
        (pd.DataFrame({"o": ["x", 1]}, dtype=object), "a column 'o' of dtype object"),
        (pd.DataFrame({"day": pd.to_datetime(["2024-01-01"])}), "'day' of dates .*time='day'"),
        (pd.DataFrame({"o": [10**400, None]}, dtype=object), "a column 'o' of dtype object"),
        (pd.DataFrame({"o": [1j, None]}, dtype=object), "a column 'o' of dtype object"),
        (pd.DataFrame({"x": pd.Categorical([True])}), "'x' of boolean categories.*convert them"),
        (pd.DataFrame(NUMBERS, columns=["a", "b", "a"]), "2 columns named 'a'"),
        (pd.DataFrame(NUMBERS, columns=["a", 1, "1"]), "2 columns named '1'"),
        (pa.table([[1], [2]], names=["a", "a"]), "2 columns named 'a'"),
        (pd.DataFrame(NUMBERS, columns=["a", "b", "n[0]"]), r"named 'n\[0\]'"),
    ],
)
def test_what_trees_cannot_be_grown_on_is_refused(X, message):
    with pytest.raises(DataError, match=message):
        as_table(X)


DAYS = [datetime.timedelta(1), datetime.timedelta(2)]
DATES = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]


@pytest.mark.parametrize(
    ("X", "convert", "message"),
    [
        (
            pd.DataFrame({"x": pd.to_timedelta(DAYS)}),
            lambda X: X.assign(x=X["x"].dt.total_seconds()),
            r"durations \(dtype timedelta64.*by \.dt\.total_seconds\(\), or drop it",
        ),
        (
            pd.DataFrame({"x": pd.Series(DAYS, dtype=pd.ArrowDtype(pa.duration("s")))}),
            lambda X: X.assign(x=X["x"].dt.total_seconds()),
            r"durations .*by \.dt\.total_seconds\(\), or drop it",
        ),
        (
            pd.DataFrame({"x": pd.Series([*DAYS, None], dtype=object)}),
            lambda X: X.assign(x=pd.to_timedelta(X["x"]).dt.total_seconds()),
            r"durations \(dtype object\).*by pandas.to_timedelta\(column\)\.dt\.total_seconds",
        ),
        (
            pl.DataFrame({"x": DAYS}),
            lambda X: X.with_columns(pl.col("x").dt.total_seconds()),
            r"durations .*by \.dt\.total_seconds\(\), or drop it",
        ),
        (
            pa.table({"x": pa.array(DAYS)}),
            lambda X: pa.table({"x": X["x"].cast("int64")}),
            r"durations \(dtype duration.*by \.cast\('int64'\), in the unit of its type",
        ),
    ],
)
def test_a_column_of_durations_is_refused_with_a_remedy_that_works(X, convert, message):
    with pytest.raises(DataError, match=message):
        as_table(X)
    as_table(convert(X))


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"x": DATES}),
        pd.DataFrame({"x": [DATES[0], None]}),
        pd.DataFrame({"x": pd.Series([datetime.datetime(2024, 1, 1)], dtype=object)}),
        pl.DataFrame({"x": DATES}),
        pl.DataFrame({"x": [datetime.datetime(2024, 1, 1)]}),
        pa.table({"x": DATES}),
        pa.table({"x": [datetime.datetime(2024, 1, 1)]}),
    ],
)
def test_columns_of_dates_are_refused_alike(X):
    with pytest.raises(DataError, match="'x' of dates .*the day of the week.*pass time='x'"):
        as_table(X)


@pytest.mark.parametrize(
    ("estimator", "of_fit"),
    [
        (mtboost.MultiTaskRegressor(strategy="two-stage", n_jobs=1), r"pass time='x' to hold.*"),
        (mtboost.MTExtraTreesRegressor(n_jobs=1), r"or drop it\."),
        (mtboost.ProjectedBoostingRegressor(n_jobs=1), r"or drop it\."),
    ],
)
def test_time_is_advised_for_dates_only_where_an_argument_takes_it(estimator, of_fit):
    numbers = pd.DataFrame({"x": np.arange(40.0)})
    dates = pd.DataFrame({"x": pd.date_range("2024-01-01", periods=40)})
    with pytest.raises(DataError, match=f"'x' of dates .*{of_fit}$"):
        estimator.fit(dates, numbers["x"])
    estimator.set_params(n_estimators=2).fit(numbers, numbers["x"])
    with pytest.raises(DataError, match=r"'x' of dates .*or drop it\.$"):
        estimator.predict(dates)


@pytest.mark.parametrize("X", [None, "table", 3.0, pl.LazyFrame({"a": [1]}), {1, 2}, iter([])])
def test_what_is_no_table_is_a_type_error(X):
    with pytest.raises(TypeError, match=r"X is a .*; give a NumPy array"):
        as_table(X)


@pytest.mark.parametrize(
    ("X", "names", "message"),
    [
        (NUMBERS, ["a", "b"], "feature_names has 2 names, X has 3 columns"),
        (NUMBERS, ["a", "b", "b"], "2 columns named 'b'"),
        (NUMBERS, ["a", "b", 3], "a column named 3"),
        (FRAMES["pandas"], ["a", "b", "c", "d"], "feature_names differ from the column names of X"),
    ],
)
def test_wrong_feature_names_are_refused(X, names, message):
    with pytest.raises(DataError, match=message):
        as_table(X, feature_names=names)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": [1, 2], "shop": ["x", "y"]}),
        pl.DataFrame({"a": [1, 2], "shop": ["x", "y"]}),
        pa.table({"a": [1, 2], "shop": ["x", "y"]}),
    ],
)
def test_the_task_column_may_hold_anything(X):
    table = as_table(X, task_column="shop")
    assert table.column("shop").tolist() == ["x", "y"]
    assert table.drop("shop").feature_names == ("a",)
    with pytest.raises(DataError, match=r"column 'shap'\. Did you mean 'shop'"):
        table.column("shap")


def test_the_task_column_of_an_array_of_objects_may_hold_strings():
    X = np.array([[1, "x", 2.5], [None, "y", True]], dtype=object)
    table = as_table(X, task_column=1)
    assert table.column(1).tolist() == ["x", "y"]
    features = table.drop(1).native
    assert features.dtype == np.float64
    np.testing.assert_array_equal(features, [[1.0, 2.5], [np.nan, 1.0]])
    with pytest.raises(DataError, match=r"no numbers .*'x'"):
        table.drop(0)


def test_a_column_of_an_array_is_known_by_its_position_only():
    table = as_table(NUMBERS)
    with pytest.raises(DataError, match="no column 'a', for its columns have no names"):
        table.column("a")
    with pytest.raises(DataError, match="no column 3: it has 3"):
        table.column(3)


def test_a_table_needs_a_column_besides_the_task():
    with pytest.raises(DataError, match="at least one feature"):
        as_table(NUMBERS[:, :1]).drop(0)


# Tables that the installed XGBoost does not read


@pytest.mark.skipif(version() < (3, 2), reason="XGBoost 3.2 is the first to read all of them")
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_categories_of_every_library_are_read(library):
    assert reads_categories(library)


UNREADABLE = {
    "pandas": (FRAMES["pandas"], "does not recognise DataFrames of pandas .*'xgboost>=3.2'"),
    "pandas, numbers": (
        pd.DataFrame(NUMBERS, columns=["a", "b", "c"]),
        "does not recognise DataFrames of pandas .*'xgboost>=3.2'",
    ),
    "polars": (
        FRAMES["polars"],
        r"categories in column 'color', which .* from polars: .*to_pandas\(\).*'xgboost>=3.1'",
    ),
    "pyarrow": (FRAMES["pyarrow"], "categories in column 'color', which .* from pyarrow: "),
    "a column of one task": (
        {"s": FRAMES["polars"].drop("color"), "b": FRAMES["polars"]},
        "categories in column 'color', which .* from polars: ",
    ),
}


@pytest.mark.parametrize(("X", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_tables_that_xgboost_does_not_read_are_refused_before_training(monkeypatch, X, message):
    monkeypatch.setattr(xgboost_library, "reads_categories", lambda name: False)
    monkeypatch.setattr(xgboost, "train", None)
    y = {task: [1, 2, 3, 4] for task in X} if isinstance(X, dict) else [1, 2, 3, 4]
    with pytest.raises(UnsupportedError, match=message):
        mtboost.fit(X, y, strategy="two-stage")
    if not isinstance(X, dict):
        with pytest.raises(UnsupportedError, match=message):
            mtboost.train({}, mtboost.Dataset(X, y))
        with pytest.raises(UnsupportedError, match=message):
            plain_matrix(as_table(X))  # as predictions do


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_numbers_in_polars_and_pyarrow_are_read_by_every_version(monkeypatch, make):
    monkeypatch.setattr(xgboost_library, "reads_categories", lambda name: False)
    numbers = {name: NUMBERS[:, i] for i, name in enumerate("abc")}
    np.testing.assert_array_equal(codes_in_xgboost(as_table(make(numbers))), NUMBERS)


# Columns at predict


@every_frame
def test_named_columns_are_brought_into_the_models_order(X):
    table = Columns(("c", "a"), 2).align(as_table(X))
    assert table.feature_names == ("c", "a")
    np.testing.assert_array_equal(codes_in_xgboost(table), NUMBERS[:, [2, 0]])


def test_missing_and_renamed_columns_are_listed_with_the_nearest_name():
    table = as_table(pd.DataFrame({"income": [1.0], "age": [2.0]}))
    with pytest.raises(DataError, match=r"X lacks columns 'incme', 'zip' .*Did you mean 'income'"):
        Columns(("incme", "age", "zip"), 3).align(table)


@every_frame
@pytest.mark.parametrize("trained", [["red", "blue"], ["red", "green", "blue"]])
def test_categories_get_the_codes_they_had_in_training(X, trained):
    table = as_table(X)
    own = table.categories("color")
    found = Columns(table.feature_names, 4, {"color": trained}).align(table)
    assert found.categories("color") == trained
    labels = found.column("color").tolist()
    assert labels[:2] + labels[3:] == ["red", "blue", "red"]
    assert pd.isna(labels[2])
    assert table.categories("color") == own  # the user's table is not written to


@every_frame
def test_a_category_that_was_not_trained_on_is_missing_with_a_warning(X):
    columns = Columns(("a", "b", "c", "color"), 4, {"color": ["blue", "green"]})
    message = "X has the category 'red' in column 'color', .* such values count as missing"
    with pytest.warns(UserWarning, match=message):
        found = columns.align(as_table(X))
    assert [label if label == "blue" else None for label in found.column("color").tolist()] == [
        None,
        "blue",
        None,
        None,
    ]
    only_blue = as_table(X).take(np.array([1, 2]))  # the type of the column has red all the same
    assert columns.align(only_blue).categories("color") == ["blue", "green"]
    with pytest.raises(DataError, match="are of type str, .* of type int"):
        Columns(("a", "b", "c", "color"), 4, {"color": [1, 2]}).align(as_table(X))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_text_become_sorted_categories(make):
    table = as_table(make({"x": [1.0, 2.0, 3.0], "city": ["rome", "oslo", None]}))
    assert table.categories("city") == ["oslo", "rome"]
    labels = table.column("city").tolist()
    assert labels[:2] == ["rome", "oslo"]
    assert pd.isna(labels[2])
    unused = make({"x": [1.0, 2.0, 3.0], "id": ["rome", "oslo", None]})
    assert as_table(unused, used=["x"]).categorical_features == ()


def test_without_names_on_either_side_the_number_of_columns_must_agree():
    unnamed, named = as_table(NUMBERS), as_table(NUMBERS, feature_names=["x", "y", "z"])
    assert Columns(("a", "b", "c"), 3).align(unnamed).feature_names == ("a", "b", "c")
    assert Columns(None, 3).align(named).native is NUMBERS
    for table, names in ((unnamed, ("a", "b")), (named, None), (unnamed, None)):
        with pytest.raises(DataError, match="X has 3 columns, but the model was trained on 2"):
            Columns(names, 2).align(table)


# Stacking


@every_array
def test_stacked_arrays_are_one_below_the_other(X):
    stacked = concat([as_table(X), as_table(X[:2])]).native
    assert type(stacked) is type(X)
    dense = stacked.toarray() if sp.issparse(X) else stacked
    np.testing.assert_array_equal(dense, np.concatenate([NUMBERS, NUMBERS[:2]]))


def with_colors(X, colors):
    if isinstance(X, pd.DataFrame):
        return X.assign(color=pd.Categorical(colors, ordered=True))
    if isinstance(X, pl.DataFrame):
        return X.with_columns(color=pl.Series(colors, dtype=pl.Enum(sorted(set(colors)))))
    return X.drop_columns("color").append_column("color", pa.array(colors).dictionary_encode())


@every_frame
def test_stacked_frames_have_the_categories_of_both(X):
    other = with_colors(X, ["green", "red", "green", "red"])
    stacked = concat([as_table(X), as_table(other)])
    assert sorted(stacked.categories("color")) == ["blue", "green", "red"]
    found = stacked.column("color").tolist()
    assert found[:2] + found[3:] == ["red", "blue", "red", "green", "red", "green", "red"]
    assert pd.isna(found[2])
    values = codes_in_xgboost(stacked)
    np.testing.assert_array_equal(values[:, :3], np.concatenate([NUMBERS, NUMBERS]))
    code_of = {name: code for code, name in enumerate(stacked.categories("color"))}
    assert values[4:, 3].tolist() == [code_of[c] for c in ("green", "red", "green", "red")]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (NUMBERS, FRAMES["pandas"], "Tables of numpy and pandas"),
        (NUMBERS, NUMBERS[:, :2], "Tables 0 and 1 have different columns"),
        (FRAMES["polars"], FRAMES["polars"].rename({"a": "z"}), "have different columns"),
        (
            pd.DataFrame({"x": pd.Categorical(["a"])}),
            pd.DataFrame({"x": [1]}),
            "'x' holds categories in some tables only",
        ),
        (
            pd.DataFrame({"x": pd.Categorical(["a"])}),
            pd.DataFrame({"x": pd.Categorical([1])}),
            "'x' has str categories in some tables, int in others",
        ),
        (
            pd.DataFrame({"x": [True]}),
            pd.DataFrame({"x": [0.5]}),
            "'x' is bool and float64 in tables to be stacked",
        ),
        (pl.DataFrame({"x": [True]}), pl.DataFrame({"x": [0.5]}), None),
        (pa.table({"x": [True]}), pa.table({"x": [0.5]}), "pyarrow cannot stack"),
        (pa.table({"x": [1]}), pa.table({"x": [0.5]}), None),
        (pd.DataFrame({"x": [1]}), pd.DataFrame({"x": pd.array([1], dtype="Int64")}), None),
    ],
)
def test_tables_that_do_not_fit_are_not_stacked(first, second, message):
    tables = [as_table(first), as_table(second)]
    if message is None:
        assert concat(tables).n_rows == 2
    else:
        with pytest.raises(DataError, match=message):
            concat(tables)


# One table a task


def test_tables_may_order_the_same_categories_differently():
    frames = {
        task: pd.DataFrame({"kind": pd.Categorical(["x", "y", None], categories=order)})
        for task, order in {"s": ["x", "y"], "b": ["y", "x"]}.items()
    }
    data = from_mapping(frames)
    for table in data.tables.values():
        assert table.categories("kind") == ["x", "y"]
        assert table.column("kind").tolist()[:2] == ["x", "y"]
    assert frames["b"]["kind"].cat.categories.tolist() == ["y", "x"]


def shops(library):
    """Shop s has columns age, visits, kind; shop b has kind, age."""
    s = pd.DataFrame({"age": [1.0, 2.0], "visits": [3.0, 4.0], "kind": ["x", "y"]})
    b = pd.DataFrame({"kind": ["z", "y", "z"], "age": [5.0, 6.0, 7.0]})
    frames = {"s": s, "b": b}
    if library == "pandas":
        return {task: frame.astype({"kind": "category"}) for task, frame in frames.items()}
    if library == "polars":
        categorical = pl.col("kind").cast(pl.Categorical)
        return {task: pl.DataFrame(dict(f)).with_columns(categorical) for task, f in frames.items()}
    return {
        task: pa.table(
            {n: pa.array(f[n]).dictionary_encode() if n == "kind" else pa.array(f[n]) for n in f}
        )
        for task, f in frames.items()
    }


every_library = pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])


@every_library
def test_columns_of_all_tasks_are_common_in_the_order_of_the_first_table(library):
    data = from_mapping(shops(library), {"b": [5, 6, 7], "s": [1, 2]})
    assert data.common_features == ("age", "kind")
    assert data.tables["s"].feature_names == ("age", "visits", "kind")
    assert data.task_labels.tolist() == ["s", "s", "b", "b", "b"]
    assert data.y.tolist() == [1, 2, 5, 6, 7]
    assert (data.weight, data.base_margin) == (None, None)
    common = data.common_table()
    assert common.feature_names == ("age", "kind")
    assert common.column("age").tolist() == [1, 2, 5, 6, 7]
    assert common.column("kind").tolist() == ["x", "y", "z", "y", "z"]


@every_library
def test_a_common_category_has_one_code_in_all_tables(library):
    data = from_mapping(shops(library))
    common = codes_in_xgboost(data.common_table())
    for task, rows in (("s", [0, 1]), ("b", [2, 3, 4])):
        own = data.tables[task].select(["age", "kind"])
        np.testing.assert_array_equal(codes_in_xgboost(own), common[rows])


def test_common_features_may_be_chosen():
    data = from_mapping(shops("pandas"), common_features=["kind"])
    assert data.common_features == ("kind",)
    assert data.common_table().n_features == 1


def test_weights_and_base_margins_follow_the_rows():
    data = from_mapping(
        shops("polars"),
        weight={"b": [3, 4, 5], "s": [1, 0]},
        base_margin={"s": np.ones((2, 2)), "b": np.zeros((3, 2))},
        n_outputs=2,
    )
    assert data.weight.tolist() == [1, 0, 3, 4, 5]
    assert data.base_margin.tolist() == [[1, 1], [1, 1], [0, 0], [0, 0], [0, 0]]


def test_a_task_may_weigh_nothing_but_not_all():
    weight = {"s": [0, 0], "b": [1, 1, 1]}
    assert from_mapping(shops("pandas"), weight=weight).weight.tolist() == [0, 0, 1, 1, 1]
    with pytest.raises(DataError, match="weight is zero in every row"):
        from_mapping(shops("pandas"), weight={"s": [0, 0], "b": [0, 0, 0]})


def test_arrays_of_one_width_have_all_columns_in_common():
    data = from_mapping({1: NUMBERS, 2: NUMBERS[:1]})
    assert data.common_features is None
    assert data.task_labels.tolist() == [1, 1, 1, 1, 2]
    np.testing.assert_array_equal(
        data.common_table().native, np.concatenate([NUMBERS, NUMBERS[:1]])
    )


def test_arrays_with_names_may_differ_in_width():
    data = from_mapping(
        {"s": NUMBERS, "b": NUMBERS[:1, :2]}, feature_names={"s": ["x", "y", "z"], "b": ["z", "x"]}
    )
    assert data.common_features == ("x", "z")
    assert data.common_table().column("z").tolist() == [3, 6, 0, 4, 1]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"y": {"s": [1, 2]}}, "y lacks task 'b': its keys must be the tasks"),
        ({"y": {"s": [1, 2], "B": [1, 2, 3]}}, "y lacks task 'b' and has unknown task 'B'"),
        ({"y": [1, 2, 3, 4, 5]}, r"y is a list; it must be a mapping \{task: ...\}"),
        ({"weight": {"s": [1, 1]}}, "weight lacks task 'b'"),
        ({"base_margin": {"s": [1, 1], "b": [0, 0]}}, r"base_margin\['b'\] has shape \(2,\)"),
        ({"y": {"s": [1, np.nan], "b": [1, 2, 3]}}, r"y\['s'\] is nan at row 1"),
        ({"weight": {"s": [1, 1], "b": [1, 2, -3]}}, r"weight\['b'\] is -3 at row 2"),
        ({"common_features": ["visits"]}, r"'visits', which X\['b'\] lacks"),
        ({"common_features": ["agee"]}, "Did you mean 'age'"),
        ({"common_features": []}, "at least one column"),
        ({"common_features": ["age", "age"]}, "each once"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(kwargs, message):
    with pytest.raises(DataError, match=message):
        from_mapping(shops("pandas"), **kwargs)


@pytest.mark.parametrize(
    ("X", "kwargs", "message"),
    [
        ({}, {}, "X is an empty mapping"),
        ({"s": NUMBERS, "b": NUMBERS[:, :2]}, {}, r"X\['s'\] has 3 columns, X\['b'\] has 2.*names"),
        ({"s": NUMBERS}, {"common_features": ["x"]}, "common_features needs column names"),
        ({"s": NUMBERS, "b": sp.csr_array(NUMBERS)}, {}, "comes from numpy, .* from scipy"),
        ({"s": NUMBERS, "b": NUMBERS[:0]}, {}, r"X\['b'\] has no rows"),
        ({"s": FRAMES["pandas"], "b": pd.DataFrame({"z": [1]})}, {}, "no column in common"),
        (
            {"s": FRAMES["pandas"], "b": FRAMES["pandas"].assign(color=1)},
            {},
            "'color' holds categories in some tables only",
        ),
        (
            {"s": NUMBERS, "b": NUMBERS},
            {"feature_names": {"s": ["x", "y", "z"]}},
            "feature_names lacks task 'b'",
        ),
    ],
)
def test_tables_that_do_not_go_together_are_refused(X, kwargs, message):
    with pytest.raises(DataError, match=message):
        from_mapping(X, **kwargs)


def test_a_dok_matrix_is_one_table_though_it_is_a_dict():
    assert is_mapping({"a": NUMBERS})
    assert not is_mapping(sp.dok_matrix(NUMBERS))
    assert not is_mapping(sp.dok_array(NUMBERS))


def test_keys_neither_lack_tasks_nor_invent_them():
    message = r"valid lacks task 'b' and has unknown task 'bb': .*Did you mean 'b'"
    with pytest.raises(DataError, match=message):
        check_task_keys("valid", {"a": 1, "bb": 1}, ("a", "b"))


# Labels, weights, base margins


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    values=st.lists(st.integers(0, 100), min_size=1, max_size=20),
    dtype=st.sampled_from(["?", "u1", "i4", ">i8", "f2", "f4", ">f4", "f8", ">f8", "O"]),
    step=st.sampled_from([1, 2, -1]),
    as_column=st.booleans(),
)
def test_labels_are_the_same_numbers_whatever_the_array(values, dtype, step, as_column):
    y = np.repeat(np.array(values, dtype=dtype), abs(step))[::step]
    y = y[:, None] if as_column else y
    y.setflags(write=False)
    labels = as_labels(y, len(values))
    assert labels.dtype == (np.float32 if y.dtype == np.float32 else np.float64)
    assert labels.flags.c_contiguous
    assert labels.tolist() == y.ravel().astype(float).tolist()


@pytest.mark.parametrize(
    "y",
    [
        [1, 0, 2],
        (1.0, 0.0, 2.0),
        pd.Series([1, 0, 2], index=[7, 7, 7]),
        pd.Series([1, 0, 2], dtype="Int64"),
        pd.Series([1, 0, 2], dtype="int32[pyarrow]"),
        pd.DataFrame({"y": [1, 0, 2]}),
        pl.Series([1, 0, 2]),
        pl.DataFrame({"y": [1, 0, 2]}),
        pl.Series([1, 0, 2]).cast(pl.Decimal(9, 2)),
        pa.array([1, 0, 2]),
        pa.chunked_array([[1], [0, 2]]),
        pa.table({"y": [1, 0, 2]}),
    ],
)
def test_labels_may_come_in_any_container(y):
    assert as_labels(y, 3).tolist() == [1, 0, 2]


def test_float64_labels_are_not_copied():
    y = np.arange(3.0)
    assert np.shares_memory(as_labels(y, 3), y)


def test_huge_integer_labels_are_numbers():
    assert as_labels([2**53, 2**70], 2).tolist() == [2.0**53, 2.0**70]


def test_labels_of_several_columns_are_refused():
    with pytest.raises(DataError, match=r"y has shape \(4, 3\), but must have \(4,\)"):
        as_labels(NUMBERS, 4)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, np.nan], "y is nan at row 2"),
        ([0, -np.inf, np.nan], "y is -inf at row 1"),
        ([0, 1, 1e39], r"y is 1e\+39 at row 2: it must be finite and fit in float32"),
        ([0, None, 1], "y is None at row 1: it must be a number"),
        (pd.Series([0, None, 1], dtype="Int64"), "y is nan at row 1"),
        (pd.Series([True, None, True], dtype="boolean"), "y is <NA> at row 1"),
        (np.ma.array([0, 1, 2], mask=[0, 1, 0]), "y is nan at row 1"),
        (np.array(["1", 2, 3], dtype=object), "y is '1' at row 0"),
        (["no", "yes", "no"], "y has dtype <U3.*Encode classes"),
        (np.array([1j, 0, 0]), "y has dtype complex128"),
        ([0, 1], r"y has shape \(2,\), but must have \(3,\), because X has 3 rows"),
        ([[0, 1], [1], [0]], "y is not a rectangular array"),
        (1.0, "y is a float: it must hold one number a row"),
        (sp.csr_array(NUMBERS), r"y is a csr_array: .*Pass y.toarray\(\)"),
    ],
)
def test_labels_that_are_no_finite_numbers_are_refused(y, message):
    with pytest.raises(DataError, match=message):
        as_labels(y, 3)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(n_rows=st.integers(1, 50), data=st.data(), bad=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_the_row_of_a_planted_bad_label_is_named(n_rows, data, bad):
    row = data.draw(st.integers(0, n_rows - 1))
    y = np.zeros(n_rows)
    y[row] = bad
    with pytest.raises(DataError, match=rf"at row {row}:"):
        as_labels(y, n_rows)


def test_weights_may_be_zero():
    assert as_weights([0, 2, 0.5], 3).tolist() == [0, 2, 0.5]


def test_base_margins_have_one_column_an_output():
    assert as_base_margin([[1], [2]], 2).tolist() == [1, 2]
    assert as_base_margin([[1, 2], [3, 4]], 2, 2).tolist() == [[1, 2], [3, 4]]
    for margin, n_outputs in (([1, 2, 3, 4], 2), ([1], 1), ([[1, 2]], 2)):
        with pytest.raises(DataError, match=r"base_margin has shape .*, but must have \(2,"):
            as_base_margin(margin, 2, n_outputs)
    with pytest.raises(DataError, match="base_margin is inf at row 1, column 0"):
        as_base_margin([[1, 2], [np.inf, 4]], 2, 2)


WITH_TEXT = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("make", WITH_TEXT.values(), ids=WITH_TEXT)
def test_text_that_differs_in_most_rows_is_warned_of_once(make):
    rng = np.random.default_rng(0)
    x, texts = rng.normal(size=200), [f"customer {row}" for row in range(200)]
    X = make({"x": x, "name": texts, "size": ["S", "L"] * 100})
    options = {"task": np.arange(200) % 2, "strategy": "two-stage", "num_boost_round": 5}
    with pytest.warns(UserWarning, match="X has 200 different texts in .*'name'") as given:
        model = mtboost.fit(X, x, **options)
    assert len(given) == 1
    model.predict(X, task=options["task"])


def test_estimators_warn_of_text_that_differs_in_most_rows_too():
    x = np.random.default_rng(0).normal(size=200)
    X = pd.DataFrame({"x": x, "name": [f"{row}" for row in range(200)], "task": [0, 1] * 100})
    estimator = mtboost.MultiTaskRegressor(task="task", strategy="two-stage", n_estimators=5)
    with pytest.warns(UserWarning, match="X has 200 different texts in .*'name'") as given:
        estimator.fit(X, x)
    assert len(given) == 1
    estimator.predict(X)
