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

from mtboost.base.arrays import FloatArray
from mtboost.base.interrupts import restored, uninterrupted
from mtboost.base.tables import Table
from mtboost.errors import DataError
from mtboost.trees.task_column import AddedColumns, names_of_added
from mtboost.xgboost.library import check_one_machine, check_readable


def quantile_matrix(
    table: Table,
    *,
    label: FloatArray | None = None,
    weight: FloatArray | None = None,
    base_margin: FloatArray | None = None,
    max_bin: int | None = None,
    n_threads: int | None = None,
    feature_weights: npt.NDArray[np.float32] | None = None,
) -> xgboost.QuantileDMatrix:
    """Binned matrix for training."""
    with _infinity_named(table):
        return _quantile_matrix(
            data=table.native,
            label=label,
            weight=weight,
            base_margin=base_margin,
            max_bin=max_bin,
            nthread=n_threads,
            feature_weights=feature_weights,
            **_columns(table),
        )


def quantile_matrix_with(
    table: Table,
    added: AddedColumns,
    *,
    label: FloatArray | None = None,
    weight: FloatArray | None = None,
    base_margin: FloatArray | None = None,
    max_bin: int | None = None,
    n_threads: int | None = None,
) -> xgboost.QuantileDMatrix:
    """As :func:`quantile_matrix`, with more columns."""
    return _quantile_matrix(
        **_with(table, added, n_threads),
        label=label,
        weight=weight,
        base_margin=base_margin,
        max_bin=max_bin,
        nthread=n_threads,
    )


def _quantile_matrix(**arguments: Any) -> xgboost.QuantileDMatrix:
    """The only place that makes one: XGBoost asks for the rows through functions that it calls
    back from C++, where KeyboardInterrupt is lost, and with it the rows."""
    check_one_machine("mtboost")
    with uninterrupted():
        return xgboost.QuantileDMatrix(**arguments)


class ValidationMatrix(xgboost.DMatrix):
    """Rows to validate on, as they are: made by :func:`validation_matrix`.

    XGBoost would rather have them in the bins of the training rows (``QuantileDMatrix(ref=...)``).
    A value outside these, such as one above all training values, is then evaluated as if it were
    in the nearest bin, and predicted as what it is.
    """


def validation_matrix(
    table: Table,
    added: AddedColumns | None = None,
    *,
    label: FloatArray,
    weight: FloatArray | None = None,
    base_margin: FloatArray | None = None,
    n_threads: int | None = None,
) -> ValidationMatrix:
    """Matrix to validate on; columns and the codes of categories must be those of training.

    `added` are more columns, as in :func:`quantile_matrix_with`.
    """
    with _infinity_named(table):
        columns = (
            {"data": table.native, **_columns(table)}
            if added is None
            else _with(table, added, n_threads)
        )
        return ValidationMatrix(
            **columns, label=label, weight=weight, base_margin=base_margin, nthread=n_threads
        )


def matrix_with(
    table: Table,
    added: AddedColumns,
    *,
    base_margin: FloatArray | None = None,
) -> xgboost.DMatrix:
    """As :func:`plain_matrix`, with more columns."""
    return xgboost.DMatrix(**_with(table, added, None), base_margin=base_margin)


def _with(table: Table, added: AddedColumns, n_threads: int | None) -> dict[str, Any]:
    plain = plain_matrix(table, n_threads=n_threads)
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


def plain_matrix(
    table: Table, *, base_margin: FloatArray | None = None, n_threads: int | None = None
) -> xgboost.DMatrix:
    """Matrix to predict from."""
    with _infinity_named(table):
        return xgboost.DMatrix(
            table.native, base_margin=base_margin, nthread=n_threads, **_columns(table)
        )


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


def _columns(table: Table) -> dict[str, Any]:
    check_readable(table)
    # A name given beside a data frame's own would be checked against it by XGBoost; only arrays
    # lack names.
    named = {} if table.column_types else {"feature_names": table.feature_names}
    return {"enable_categorical": True, **{k: list(v) for k, v in named.items() if v is not None}}
