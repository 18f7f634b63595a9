# SPDX-License-Identifier: Apache-2.0
"""Tables of users, checked and wrapped: :func:`as_table`."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import scipy.sparse

from mtboost.base.checks import refuse
from mtboost.base.column_types import (
    is_date,
    is_long_float,
    is_own_type_of_pandas,
    is_sparse,
    is_usable,
    kind_to_convert,
    may_be_text,
    unusable_column,
)
from mtboost.base.sparse_tables import checked_sparse
from mtboost.base.tables import Library, Table, TaskColumn, columns_of, has_names
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError, ParameterTypeError

_TABLE_CLASSES: dict[tuple[str, str], Library] = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("pyarrow", "Table"): "pyarrow",
}
#: Texts in a column that may be categories.
_MOST_LABELS = 1000
#: Kinds of objects, as pandas infers them, that are read as numbers.
_KINDS_OF_NUMBERS = ("decimal", "boolean", "integer", "floating", "mixed-integer-float")
#: Least number of rows for a warning of columns of text that differ in most rows.
_FEW_ROWS = 100


def as_table(
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    task_column: TaskColumn | list[str] | None = None,
    argument: str = "X",
    used: Collection[str] | None = None,
    may_lack_rows: bool = False,
    has_time: bool = True,
) -> Table:
    """Check a table and wrap it, without copying or converting it.

    Parameters
    ----------
    X : table of shape (n_rows, n_features)
        NumPy array or nested list of numbers; SciPy sparse (CSR or CSC as they are, other formats
        become CSR); pandas or polars DataFrame or pyarrow Table of numbers, booleans,
        categories and text, which becomes categories in sorted order. NaN, None and null are
        missing; XGBoost refuses infinity.
    feature_names : sequence of str, optional
        Names for the columns of an array.
    task_column : str, int or sequence of str, optional
        Columns that will be dropped and so may hold anything; an array that holds one may be one of
        objects.
    argument : str
        What messages call the table.
    used : collection of str, optional
        Names of the columns that will be selected: others may hold anything. By default all.
    may_lack_rows : bool
        Whether a table without rows is accepted, as it is to predict.
    has_time : bool
        Whether the caller has an argument ``time``, for the message that refuses dates; with `used`
        it does not matter.

    Returns
    -------
    Table
        Columns of polars type Categorical have become Enum, whose codes do not depend on the rows.

    Raises
    ------
    DataError
        The table is empty or not two-dimensional, a column holds what trees cannot split (it is
        named), or column names are repeated or not allowed by XGBoost.
    TypeError
        X is not a table of a known kind.
    """
    native, library = _recognise(X, argument, may_hold_objects=task_column is not None)
    for length, what in zip(native.shape, ("rows", "columns"), strict=True):
        if length == 0 and not (may_lack_rows and what == "rows"):
            raise DataError(f"{argument} has no {what}: its shape is {tuple(native.shape)}.")
    names = _checked_names(feature_names, _own_names(native, library), native.shape[1], argument)
    table = Table(native, library, names)
    columns = () if task_column is None else columns_of(task_column)
    # Misspelt, one would stand among the columns of features.
    exempt = {str(table.name_of(column)) for column in columns}
    if used is not None:
        exempt |= {name for name in names or () if name not in used}
    # A row to predict may lack all text: the categories are those of the model.
    may_be_empty = used is not None
    table = _with_known_types(_with_dense_columns(table, exempt), exempt)
    table = _with_text_as_categories(table, exempt, argument, may_be_empty)
    for name, dtype in table.column_types.items():
        if name not in exempt and not is_usable(dtype):
            kind = _kind_of_objects(table, name, dtype)
            has_time &= used is None
            raise DataError(unusable_column(argument, name, dtype, kind, has_time=has_time))
    table = _with_fixed_codes(table)
    for name in table.categorical_features:
        if name not in exempt and not may_be_empty and not table.categories(name):
            table = table.with_column(name, np.full(table.n_rows, np.nan))
    return replace(table, argument=argument)


def warn_of_different_texts(X: Any, table: Table, n_rows: int) -> None:
    """Warn of columns of text that differ in most rows, by which new rows cannot be predicted.

    Parameters
    ----------
    X : table, or mapping of task name to table
        Rows to train on, as the user has them.
    table : Table
        The same rows, with categories.
    n_rows : int
        Their number; a row with several labels may occur several times in `table`.
    """
    first = next(iter(X.values())) if isinstance(X, Mapping) else X
    if n_rows < _FEW_ROWS or not has_names(first):
        return
    types = as_table(first, used=()).column_types
    for name in table.categorical_features:
        n_texts = len(table.categories(name))
        if n_texts > n_rows / 2 and may_be_text(types.get(name)):
            warn_user(
                f"X has {n_texts} different texts in the {n_rows} rows of column {name!r}. Each is "
                "a category, which new rows hardly have. Drop the column if it numbers the rows; "
                "if it holds numbers, convert them, in pandas by to_numeric(column, "
                "errors='coerce')."
            )


def without_dates(X: Any, used: Collection[str]) -> Any:
    """Return a data frame without its columns of dates, but for those of these names."""
    if not has_names(X):
        return X
    table = as_table(X, used=())
    dates = [
        name
        for name, dtype in table.column_types.items()
        if name not in used and is_date(dtype, _kind_of_objects(table, name, dtype))
    ]
    return table.drop(*dates).native if dates else X


def _recognise(X: Any, argument: str, *, may_hold_objects: bool = False) -> tuple[Any, Library]:
    """The table as XGBoost can read it, and where it comes from."""
    for cls in type(X).__mro__:
        library = _TABLE_CLASSES.get((cls.__module__.partition(".")[0], cls.__name__))
        if library is not None:
            return X, library
    if isinstance(X, np.ma.MaskedArray):
        raise DataError(
            f"{argument} is a masked array: mark missing values by NaN, X.filled(np.nan)."
        )
    if scipy.sparse.issparse(X):
        _check_array(X, argument)
        return _as_compressed(_without_long_floats(checked_sparse(X, argument))), "scipy"
    # Data frames of other libraries turn into arrays too, but would lose names and categories.
    if isinstance(X, list | tuple) or (hasattr(X, "__array__") and not hasattr(type(X), "columns")):
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise DataError(f"{argument} is not a rectangular table of numbers: {error}") from error
        _check_array(array, argument, may_hold_objects)
        return _without_long_floats(array), "numpy"
    raise TypeError(
        f"{argument} is a {type(X).__module__}.{type(X).__name__}; give a NumPy array, a SciPy "
        f"sparse matrix, a pandas or polars DataFrame (collect a LazyFrame) or a pyarrow Table. "
        f"mtboost.dask takes a DataFrame of Dask."
    )


def _check_array(array: Any, argument: str, may_hold_objects: bool = False) -> None:
    if array.ndim != 2:
        raise DataError(
            f"{argument} has shape {array.shape}, but a table has rows and columns. Reshape one "
            f"column by reshape(-1, 1), one row by reshape(1, -1)."
        )
    if array.dtype.kind not in ("biufO" if may_hold_objects else "biuf"):
        raise DataError(
            f"{argument} has dtype {array.dtype}: an array must hold numbers. Convert it by "
            f"X.astype(float), or use a DataFrame with category columns for strings."
        )
    if not array.dtype.isnative:  # XGBoost reads the bytes in the wrong order without a word
        raise DataError(
            f"{argument} has foreign byte order ({array.dtype.str}): convert it by "
            f"X.astype(X.dtype.newbyteorder('='))."
        )


def _without_long_floats(X: Any) -> Any:
    """The array or matrix with float64 in place of longdouble.

    XGBoost 3.2 reads other numbers from such arrays in Fortran order, and ends the process.
    """
    if not is_long_float(X.dtype):
        return X
    with np.errstate(over="ignore"):  # infinite, which the libraries refuse
        return X.astype(np.float64)


def _as_compressed(X: Any) -> Any:
    """A CSR or CSC matrix that XGBoost reads as SciPy means it."""
    if X.format == "csc" and X.dtype == bool:
        X = X.astype(np.float32)  # XGBoost reads a boolean CSR matrix, but not CSC
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()  # entries of one cell add up in SciPy; XGBoost takes them for two values
    return X


def _own_names(X: Any, library: Library) -> tuple[str, ...] | None:
    if library in ("numpy", "scipy"):
        return None
    if library == "pyarrow":
        return tuple(X.column_names)
    if library == "pandas" and X.columns.nlevels > 1:
        return tuple(" ".join(map(str, levels)) for levels in X.columns)  # as XGBoost joins them
    return tuple(map(str, X.columns))


def _checked_names(
    given: Sequence[str] | None, own: tuple[str, ...] | None, n_features: int, argument: str
) -> tuple[str, ...] | None:
    if given is None and own is None:
        return None
    if isinstance(given, str | set | frozenset) or not isinstance(given, Iterable | None):
        refuse("feature_names", given, "None or a sequence of str", kind=ParameterTypeError)
    given = None if given is None else tuple(given)
    if given is not None and own is not None and tuple(given) != own:
        raise DataError(
            f"feature_names differ from the column names of {argument}: leave them out, or rename "
            f"the columns."
        )
    names = own if own is not None else tuple(given if given is not None else ())
    if len(names) != n_features:
        raise DataError(
            f"feature_names has {len(names)} names, {argument} has {n_features} columns."
        )
    for name, n_times in Counter(names).items():
        if n_times > 1:
            raise DataError(f"{argument} has {n_times} columns named {name!r}: names must differ.")
        if not isinstance(name, str) or set("[]<\0") & set(name):
            raise DataError(
                f"{argument} has a column named {name!r}: names must be strings without '[', ']', "
                f"'<' and NUL, for XGBoost refuses them, or cuts them off at a NUL. Rename it."
            )
    return names


def _with_known_types(table: Table, exempt: Collection[str]) -> Table:
    """The table with types that the libraries read in place of some that they do not.

    These are columns of missing values alone, to which polars and pyarrow give the type null,
    decimals, numbers that are objects, floats of half precision and of more than double, and
    arrow's categories in pandas.
    """
    found = {
        name: kind
        for name, dtype in table.column_types.items()
        if name not in exempt and (kind := _kind_to_convert(table, name, dtype)) is not None
    }
    for name, kind in found.items():
        try:
            values: Any = table.number_column(name) if kind == "numbers" else table.column(name)
        except OverflowError:  # an integer beyond all floats stays an object, which is refused
            continue
        if kind == "categories":
            import pandas

            values = pandas.Categorical(values)
        table = table.with_column(name, values)
    return table


def _kind_to_convert(
    table: Table, name: str, dtype: Any
) -> Literal["numbers", "categories"] | None:
    if _kind_of_objects(table, name, dtype) in _KINDS_OF_NUMBERS:
        return "numbers"
    return kind_to_convert(dtype)


def _with_dense_columns(table: Table, exempt: Collection[str]) -> Table:
    """The table with ordinary columns in place of pandas' sparse ones.

    XGBoost and LightGBM make them dense at each reading, XGBoost with a warning every time.
    """
    if table.library != "pandas":
        return table
    types = zip(table.native.columns, table.column_types.items(), strict=True)
    found = {
        label: dtype.subtype
        for label, (name, dtype) in types
        if name not in exempt and is_sparse(dtype)
    }
    if not found:
        return table
    return Table(table.native.astype(found), "pandas", table.feature_names)


def _with_text_as_categories(
    table: Table, exempt: Collection[str], argument: str, may_be_empty: bool
) -> Table:
    """The table with sorted categories in the columns of text, but for the exempt ones.

    Columns without any text hold missing numbers, unless a column may be empty.
    """
    chosen = [
        name
        for name, dtype in table.column_types.items()
        if name not in exempt and may_be_text(dtype) and _is_text(table, name)
    ]
    if not chosen:
        return table
    found = {}
    for name in chosen:
        labels = _labels_of_text(table, name)
        if len(labels) > _MOST_LABELS:
            raise DataError(
                f"{argument} has {len(labels)} different texts in column {name!r}, too many for "
                "categories: drop it, or make it a category column if they are meant to be some."
            )
        if labels or may_be_empty:
            found[name] = labels
        else:
            table = table.with_column(name, np.full(table.n_rows, np.nan))
    return table.with_text(found)


def _is_text(table: Table, column: str) -> bool:
    """Whether a column holds text, or nothing at all."""
    return table.library != "pandas" or _inferred(table, column) in ("string", "empty")


def _kind_of_objects(table: Table, column: str, dtype: Any) -> str:
    """Return what pandas infers of a column of its objects; empty for other columns."""
    is_of_objects = table.library == "pandas" and isinstance(dtype, np.dtype) and dtype.kind == "O"
    return _inferred(table, column) if is_of_objects else ""


def _inferred(table: Table, column: str) -> str:
    import pandas

    (position,) = table.positions([column])
    kind: str = pandas.api.types.infer_dtype(table.native.iloc[:, position])
    return kind


def _labels_of_text(table: Table, column: str) -> list[str]:
    (position,) = table.positions([column])
    match table.library:
        case "pandas":
            values = table.native.iloc[:, position].dropna().unique().tolist()
        case "polars":
            values = table.native.to_series(position).drop_nulls().unique().to_list()
        case _:
            values = table.native.column(position).unique().drop_null().to_pylist()
    return sorted(map(str, values))


def _with_fixed_codes(table: Table) -> Table:
    """A table whose subsets all give a category the same code, as those of pandas do by themselves.

    polars numbers the categories of each subset anew, except those of an Enum, which is why XGBoost
    3.4 reads no others; arrow may have another dictionary in each chunk. XGBoost 3.2 reads neither
    integer categories of pandas' own types nor a dictionary that could hold nulls, such as those
    pyarrow makes of pandas' categories; 3.1 no categories of pandas' own type of strings.
    """
    if table.library == "pandas":
        own = {
            name: table.categories(name)
            for name in table.categorical_features
            if is_own_type_of_pandas(table.column_types[name].categories)
        }
        return table.with_categories(own) if own else table
    if table.library == "polars":
        found = {
            name: table.native[name].unique().drop_nulls().cast(str).sort().to_list()
            for name, dtype in table.column_types.items()
            if str(dtype).startswith("Categorical")
        }
        return table.with_categories(found) if found else table
    if table.library == "pyarrow":
        table = Table(table.native.unify_dictionaries(), "pyarrow", table.feature_names)
        nullable = {
            name: [label for label in table.categories(name) if label is not None]
            for name in table.categorical_features
            if table.native.column(name).chunk(0).dictionary.buffers()[0] is not None
        }
        return table.with_categories(nullable) if nullable else table
    return table
