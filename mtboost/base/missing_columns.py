# SPDX-License-Identifier: Apache-2.0
"""Columns that a task lacks, as columns that are missing in all of its rows.

With ``common_features="all"`` the common model has every column of any task. Its table is the
tables of the tasks below each other, each with all columns. What a task lacks is NaN or null. In a
sparse table it is not stored, unless the column stores NaN elsewhere: XGBoost takes either for
missing, LightGBM the one for 0 and the other for NaN, which it distinguishes only in a column that
has NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from mtboost.base.stacked_tables import concat
from mtboost.base.tables import Columns, Table


def lacking(columns: Columns, own: Columns | Table) -> tuple[str, ...]:
    """Names among these columns that a task lacks; none where either side has no names."""
    names = own.names if isinstance(own, Columns) else own.feature_names
    if columns.names is None or names is None:
        return ()
    found = set(names)
    return tuple(name for name in columns.names if name not in found)


def stack_union(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Tables of one library below each other, each with all of these columns.

    Parameters
    ----------
    tables : sequence of Table
        With names. A category column has the same categories in all tables that have it.
    names : sequence of str
        Columns of the result; each is in one of the tables at least.
    """
    types: dict[str, Any] = {}
    categories: dict[str, list[Any]] = {}
    for table in tables:
        types = {**table.column_types, **types}
        for name in table.categorical_features:
            categories.setdefault(name, table.categories(name))
    columns = Columns(tuple(names), len(names), categories)
    stored = set[str]().union(*map(columns_with_nan, tables))
    return concat([align_some(columns, table, types=types, stored=stored) for table in tables])


def align_some(
    columns: Columns,
    table: Table,
    own: Collection[str] | None = None,
    *,
    types: Mapping[str, Any] | None = None,
    stored: Collection[str] | None = None,
) -> Table:
    """These columns of a table that has some of them; the others are missing in all rows.

    Parameters
    ----------
    columns : Columns
        With names.
    table : Table
        With names.
    own : collection of str, optional
        Columns that the table must have, and that are taken from it; by default all that it has.
    types : mapping of column name to type, optional
        The library's types of columns that may be missing; other numbers are floats.
    stored : collection of str, optional
        Columns that hold NaN if they are missing in a sparse table; by default all.

    Raises
    ------
    DataError
        As :meth:`Columns.align`.
    """
    assert columns.names is not None
    present = set(table.feature_names or ()) if own is None else set(own)
    names = tuple(name for name in columns.names if name in present)
    found = Columns(names, len(names), columns.categories).align(table)
    missing = [name for name in columns.names if name not in present]
    if table.library == "pandas":  # a label that is a number is another one than its name
        native = found.native.set_axis(list(names), axis=1)
        found = Table(native, "pandas", names)
    if not missing:
        return found
    filled = _with_missing(found, missing, columns.categories, types or {}, stored)
    return Table(filled, table.library, (*names, *missing)).select(columns.names)


def columns_with_nan(table: Table) -> set[str]:
    """Columns of a sparse table that store NaN; of another table none, for there all are stored."""
    if table.library != "scipy" or table.feature_names is None:
        return set()
    cells = table.native.tocoo()
    return {table.feature_names[place] for place in np.unique(cells.col[np.isnan(cells.data)])}


def _with_missing(
    table: Table,
    names: Sequence[str],
    categories: Mapping[str, list[Any]],
    types: Mapping[str, Any],
    stored: Collection[str] | None,
) -> Any:
    """The library's object with these further columns."""
    n_rows, native = table.n_rows, table.native
    match table.library:
        case "numpy":
            dtype = np.result_type(native.dtype, np.float32)
            missing = np.full((n_rows, len(names)), np.nan, dtype)
            return np.concatenate([native.astype(dtype, copy=False), missing], axis=1)
        case "scipy":
            dtype = np.result_type(native.dtype, np.float32)
            has_nan = np.array([stored is None or name in stored for name in names])
            block = _sparse_nan(n_rows, has_nan, dtype)
            both = [native.astype(dtype, copy=False), block]
            return scipy.sparse.hstack(both, format=native.format)
        case "pandas":
            import pandas

            columns = {
                name: pandas.Categorical.from_codes(
                    np.full(n_rows, -1), categories=categories[name]
                )
                if name in categories
                else _missing_in_pandas(types.get(name, np.dtype(np.float32)), n_rows)
                for name in names
            }
            return pandas.concat([native, pandas.DataFrame(columns, index=native.index)], axis=1)
        case "polars":
            import polars

            return native.with_columns(
                polars.lit(
                    None,
                    polars.Enum(categories[name])
                    if name in categories
                    else types.get(name, polars.Float32),
                ).alias(name)
                for name in names
            )
        case "pyarrow":
            import pyarrow

            for name in names:
                if name in categories:
                    codes = pyarrow.nulls(n_rows, pyarrow.int32())
                    labels = pyarrow.array(categories[name], pyarrow.string())
                    column = pyarrow.DictionaryArray.from_arrays(codes, labels)
                else:
                    column = pyarrow.nulls(n_rows, types.get(name, pyarrow.float32()))
                native = native.append_column(name, column)
            return native


def _sparse_nan(n_rows: int, has_nan: npt.NDArray[np.bool_], dtype: Any) -> Any:
    """Columns of NaN, and columns of which nothing is stored."""
    places = np.flatnonzero(has_nan)
    cells = np.full(n_rows * len(places), np.nan, dtype)
    rows = np.repeat(np.arange(n_rows), len(places))
    shape = (n_rows, len(has_nan))
    return scipy.sparse.coo_array((cells, (rows, np.tile(places, n_rows))), shape=shape)


def _missing_in_pandas(dtype: Any, n_rows: int) -> Any:
    """A missing column, which pandas can stack with one of a given type."""
    import pandas

    if not isinstance(dtype, np.dtype):
        return pandas.array([None] * n_rows, dtype=dtype)
    if dtype.kind == "b":
        return pandas.array([None] * n_rows, dtype="boolean")
    return np.full(n_rows, np.nan, np.float32)
