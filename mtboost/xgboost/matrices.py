# SPDX-License-Identifier: Apache-2.0
"""Tables as XGBoost's matrices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import xgboost

from mtboost.base.interrupts import restored, uninterrupted
from mtboost.base.tables import Table
from mtboost.errors import DataError
from mtboost.trees.task_column import AddedColumns, names_of_added
from mtboost.xgboost.library import check_one_machine, check_readable


def quantile_matrix(
    table: Table, added: AddedColumns | None = None, *, n_threads: int | None = None, **options: Any
) -> xgboost.QuantileDMatrix:
    """Binned matrix for training; `added` are more columns, `options` those of the constructor.

    The only place that makes one: XGBoost asks for the rows through functions that it calls back
    from C++, where KeyboardInterrupt is lost, and with it the rows.
    """
    check_one_machine("mtboost")
    with _infinity_named(table):
        columns = _columns(table, added, n_threads)
        with uninterrupted():
            return xgboost.QuantileDMatrix(**columns, nthread=n_threads, **options)


class ValidationMatrix(xgboost.DMatrix):
    """Rows to validate on, as they are: made by :func:`validation_matrix`.

    XGBoost would rather have them in the bins of the training rows (``QuantileDMatrix(ref=...)``).
    A value outside these, such as one above all training values, is then evaluated as if it were
    in the nearest bin, and predicted as what it is.
    """


def validation_matrix(
    table: Table, added: AddedColumns | None = None, *, n_threads: int | None = None, **options: Any
) -> ValidationMatrix:
    """Matrix to validate on; columns and the codes of categories must be those of training."""
    table, types = _by_codes(table)
    with _infinity_named(table):
        columns = _columns(table, added, n_threads, types)
        return ValidationMatrix(**columns, nthread=n_threads, **options)


def plain_matrix(
    table: Table,
    added: AddedColumns | None = None,
    types: list[str] | None = None,
    *,
    n_threads: int | None = None,
    **options: Any,
) -> xgboost.DMatrix:
    """Matrix of the values as they are; `types` of columns, where categories are codes."""
    with _infinity_named(table):
        columns = _columns(table, added, n_threads, types)
        return xgboost.DMatrix(**columns, nthread=n_threads, **options)


def new_matrix(table: Table, added: AddedColumns | None = None, **options: Any) -> xgboost.DMatrix:
    """Matrix to predict from; columns and the codes of categories must be those of training."""
    table, types = _by_codes(table)
    return plain_matrix(table, added, types, **options)


@contextmanager
def starting_from(matrix: xgboost.DMatrix, margins: npt.NDArray[np.float32]) -> Iterator[None]:
    """Let `matrix` start from these margins for a moment.

    A booster without trees then predicts them, and XGBoost's metrics and link functions serve us; a
    booster of later trees adds them one after another, as it would to earlier trees.
    """

    def start() -> npt.NDArray[np.float32]:
        own: npt.NDArray[np.float32] = matrix.get_base_margin()
        matrix.set_base_margin(margins)
        return own

    with restored(start, matrix.set_base_margin):
        yield


@contextmanager
def _infinity_named(table: Table) -> Iterator[None]:
    """Say where the infinite value is that XGBoost refuses."""
    try:
        yield
    except xgboost.core.XGBoostError as error:
        if "`inf`" not in str(error):
            raise
        for position in range(table.n_features):
            name = table.feature_names[position] if table.feature_names else position
            values = table.column(name)
            if values.dtype.kind == "f":
                is_infinite = np.abs(values) > np.finfo(np.float32).max
                if is_infinite.any():
                    raise DataError(
                        f"X is {values[is_infinite][0]:g} in column {name!r}: values must be "
                        "finite and fit in float32. NaN is a missing value."
                    ) from None
        raise


def _by_codes(table: Table) -> tuple[Table, list[str] | None]:
    """Return a table of new rows whose categories match a booster's by code, and its types.

    They match by name, and the types are None, where the table cannot be copied as an array and
    names are of ASCII: XGBoost 3.2 reads as many bytes of a name from pandas as it has letters, so
    that a booster may know other names.
    """
    names = table.categorical_features
    types = ["c" if name in names else "float" for name in table.column_types]
    if table.library == "pandas":
        # XGBoost reads a data frame column by column: longer than few trees take to predict.
        check_readable(table)
        cells = table.coded_numbers(np.float32)
        if cells is not None:
            return Table(cells, "numpy", table.feature_names), types
    if all(str(label).isascii() for name in names for label in table.categories(name)):
        return table, None
    return table.with_codes(), types


def _columns(
    table: Table, added: AddedColumns | None, n_threads: int | None, types: list[str] | None = None
) -> dict[str, Any]:
    """Values of a matrix, their names and types."""
    check_readable(table)
    if added is not None:
        return _with(plain_matrix(table, types=types, n_threads=n_threads), added)
    # A name given beside a data frame's own would be checked against it by XGBoost; only arrays
    # lack names.
    names = None if table.column_types else table.feature_names
    named = {} if names is None else {"feature_names": list(names)}
    return {"data": table.native, "enable_categorical": True, "feature_types": types, **named}


def _with(plain: xgboost.DMatrix, added: AddedColumns) -> dict[str, Any]:
    """Values of a matrix and of more columns."""
    is_category = added.ndim == 1
    values = np.where(added < 0, np.nan, added)[:, None] if is_category else added
    n_rows, n_added = values.shape
    columns = scipy.sparse.csr_array(  # zeros are stored: what is not stored is missing
        (
            values.astype(np.float32).ravel(),
            np.tile(np.arange(n_added, dtype=np.int32), n_rows),
            np.arange(0, n_rows * n_added + 1, n_added),
        ),
        shape=(n_rows, n_added),
    )
    types = list(plain.feature_types or ["float"] * plain.num_col())
    names = plain.feature_names
    return {
        "data": scipy.sparse.hstack([plain.get_data(), columns], format="csr"),
        "feature_names": names and [*names, *names_of_added(names, added)],
        "feature_types": [*types, *(["c"] if is_category else ["float"] * n_added)],
        "enable_categorical": True,
    }
