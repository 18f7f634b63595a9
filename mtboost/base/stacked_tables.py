# SPDX-License-Identifier: Apache-2.0
"""Rows of several tables as one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse

from mtboost.base.column_types import is_usable
from mtboost.base.tables import Table
from mtboost.errors import DataError


def concat(tables: Sequence[Table]) -> Table:
    """Stack the rows of tables of one library with the same columns in the same order.

    Parameters
    ----------
    tables : sequence of Table
        At least one. Number types may differ; the result has a type that holds them.

    Returns
    -------
    Table
        Categories of a column are the union over the tables.

    Raises
    ------
    DataError
        Libraries, columns or types do not agree.
    """
    first = tables[0]
    for number, table in enumerate(tables):
        if table.library != first.library:
            raise DataError(
                f"Tables of {first.library} and {table.library} cannot be stacked: convert one of "
                f"them."
            )
        if (table.feature_names, table.n_features) != (first.feature_names, first.n_features):
            raise DataError(
                f"Tables 0 and {number} have different columns: select the same ones in the same "
                f"order."
            )
    if len(tables) == 1:
        return first
    tables = unify_categories(tables, first.feature_names or ())
    stacked = Table(_stack_natives(tables), first.library, first.feature_names)
    for name, dtype in stacked.column_types.items():
        if not is_usable(dtype):
            dtypes = dict.fromkeys(str(table.column_types[name]) for table in tables)
            raise DataError(
                f"Column {name!r} is {' and '.join(dtypes)} in tables to be stacked: give it one "
                f"type."
            )
    return stacked


def unify_categories(tables: Sequence[Table], columns: Iterable[str]) -> list[Table]:
    """Give the category columns among some columns the categories of all tables together.

    A table may lack columns, or have no values in them.
    """
    categorical = [set(table.categorical_features) for table in tables]
    of_any = set().union(*categorical)
    chosen = [name for name in columns if name in of_any]
    tables = [
        _with_blank_categories(table, [name for name in chosen if name not in names])
        for table, names in zip(tables, categorical, strict=True)
    ]
    categorical = [set(table.categorical_features) for table in tables]
    having = Counter(chain.from_iterable(table.feature_names or () for table in tables))
    union: dict[str, list[Any]] = {}
    for name in chosen:
        if sum(name in names for names in categorical) < having[name]:
            raise DataError(
                f"Column {name!r} holds categories in some tables only: convert it in the others."
            )
        labels = dict.fromkeys(
            chain.from_iterable(
                table.categories(name)
                for table, names in zip(tables, categorical, strict=True)
                if name in names
            )
        )
        if len(set(map(type, labels))) > 1:
            raise DataError(
                f"Column {name!r} has str categories in some tables, int in others: convert them "
                f"to str."
            )
        union[name] = list(labels)
    if not union:
        return list(tables)
    return [
        table.with_categories({name: union[name] for name in union if name in names})
        for table, names in zip(tables, categorical, strict=True)
    ]


def _with_blank_categories(table: Table, columns: Sequence[str]) -> Table:
    """Make those of some columns that it has, but without a value, columns of no categories."""
    names = set(table.feature_names or ())
    blank = [
        name for name in columns if name in names and np.isnan(table.number_column(name)).all()
    ]
    return table.with_text({name: [] for name in blank}) if blank else table


def _stack_natives(tables: Sequence[Table]) -> Any:
    natives = [table.native for table in tables]
    match tables[0].library:
        case "numpy":
            return np.concatenate(natives)
        case "scipy":
            return scipy.sparse.vstack(natives, format=natives[0].format)
        case "pandas":
            import pandas

            return pandas.concat(natives, ignore_index=True)
        case "polars":
            import polars

            try:
                return polars.concat(natives, how="vertical_relaxed")
            except polars.exceptions.PolarsError as error:
                raise DataError(f"polars cannot stack the tables: {error}") from error
        case "pyarrow":
            import pyarrow

            try:
                return pyarrow.concat_tables(natives, promote_options="permissive")
            except pyarrow.ArrowException as error:
                raise DataError(f"pyarrow cannot stack the tables: {error}") from error
