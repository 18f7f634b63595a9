# SPDX-License-Identifier: Apache-2.0
"""XGBoost's bins of a training matrix, as the table of bin numbers that the grower reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost import _core
from mtboost.errors import UnsupportedError
from mtboost.xgboost.bin_codes import bin_codes
from mtboost.xgboost.matrix_fields import read_values

#: Where the bin edges of each feature begin, and the edges: XGBoost's ``get_quantile_cut()``.
Cuts: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]

#: Most bins of a feature that leave room for the outer bins and that of missing values.
MOST_INNER_BINS = 65_533
_ROWS_PER_BLOCK = 1 << 16
# Values of a QuantileDMatrix that are copied, at 16 bytes each; of more the bins are predicted.
_MOST_COPIED = 4_000_000
# Bytes that the sparse layout takes for a value, and the dense layout for a cell.
_SPARSE_BYTES, _DENSE_BYTES = 10, 1


def bin_matrix(
    matrix: xgboost.DMatrix,
    *,
    storage_order: npt.NDArray[np.uint32],
    n_threads: int,
    table: Any = None,
    trained: Cuts | None = None,
    totals: tuple[int, int] | None = None,
) -> _core.BinnedMatrix:
    """Bin a matrix with known bin edges: a DMatrix after one round of training.

    Parameters
    ----------
    storage_order : ndarray of uint32, shape (n_rows,) or (0,)
        Row to be stored in each place; empty keeps the order.
    table : array-like, optional
        What `matrix` was made from. A float NumPy array is binned where it lies; without it, or for
        other kinds, the values are read back from `matrix`.
    trained : pair of ndarray, optional
        ``get_quantile_cut()`` of the training matrix, for rows to predict. Values outside its bins
        have bins that lead to the same leaves as the values do.
    totals : pair of int, optional
        Values and cells on all workers, where the rows are those of one of several.
    """
    n_features, n_values = matrix.num_col(), matrix.num_nonmissing()
    n_cells = matrix.num_row() * n_features
    n_all_values, n_all_cells = totals or (n_values, n_cells)
    if not (
        isinstance(table, np.ndarray)
        and table.dtype in (np.dtype(np.float32), np.dtype(np.float64))
        and table.shape == (matrix.num_row(), n_features)
        and table.dtype.isnative
        and _count_nan(table) == n_cells - n_values
    ):
        table = None
    if n_all_values == n_all_cells:
        may_be_missing = np.zeros(n_features, np.uint8)
    elif table is not None and totals is None:  # other workers may have missing values elsewhere
        may_be_missing = _core.columns_with_missing(table, n_threads=n_threads)
    else:
        may_be_missing = np.ones(n_features, np.uint8)
    cuts = _cuts(matrix.get_quantile_cut() if trained is None else trained, matrix.feature_types)
    is_sparse = _SPARSE_BYTES * n_all_values < _DENSE_BYTES * n_all_cells
    try:
        builder = _core.BinnedMatrixBuilder(
            **cuts,
            n_rows=matrix.num_row(),
            may_be_missing=may_be_missing,
            storage_order=storage_order,
            is_sparse=is_sparse,
            outer_bins=trained is not None,
        )
    except ValueError as error:  # too many bins
        raise UnsupportedError(f"{error}.") from None
    if table is not None:
        builder.add(table, n_threads=n_threads)
    elif (
        isinstance(matrix, xgboost.QuantileDMatrix)
        and not is_sparse
        and totals is None  # workers synchronise when one makes a matrix, as prediction does
        and n_values > _MOST_COPIED
    ):
        for codes, n_features_of_column in bin_codes(
            matrix, _edges(cuts), np.diff(cuts["offsets"]) + may_be_missing, n_threads
        ):
            builder.add_codes(codes, n_features_of_column, n_threads=n_threads)
    else:
        for block in _stored_values(matrix):
            builder.add_csr(*block, n_threads=n_threads)
    return builder.build()


def _count_nan(table: npt.NDArray[np.floating[Any]]) -> int:
    """Missing values, unless the matrix was made with another ``missing`` than NaN."""
    return sum(
        int(np.count_nonzero(np.isnan(table[start : start + _ROWS_PER_BLOCK])))
        for start in range(0, len(table), _ROWS_PER_BLOCK)
    )


def _cuts(quantile_cut: Cuts, feature_types: Sequence[str] | None) -> dict[str, npt.NDArray[Any]]:
    """Split XGBoost's list (smallest value, then edges; of a category only codes) into arrays."""
    pointers, values = quantile_cut
    starts = np.asarray(pointers).astype(np.int64)
    types = feature_types or ["float"] * (len(starts) - 1)
    is_categorical = np.array([kind == "c" for kind in types], np.uint8)
    min_values = np.zeros(len(types), np.float32)
    is_cut = np.ones(len(values), bool)
    for feature, start in enumerate(starts[:-1]):
        if not is_categorical[feature] and start < starts[feature + 1]:
            min_values[feature] = values[start]
            is_cut[start] = False
    n_before = np.concatenate([[0], np.cumsum(is_cut)])
    return {
        "offsets": n_before[starts].astype(np.uint32),
        "values": np.asarray(values, np.float32)[is_cut],
        "min_values": min_values,
        "is_categorical": is_categorical,
    }


def _edges(cuts: dict[str, npt.NDArray[Any]]) -> list[npt.NDArray[np.float32]]:
    """For each feature the smallest values of its bins but the first."""
    ends, starts = cuts["offsets"][1:], cuts["offsets"][:-1]
    first = cuts["is_categorical"]  # the edge of a numeric bin is its end, of a category its value
    return [
        cuts["values"][start + skip : max(end - 1 + skip, start)]
        for start, end, skip in zip(starts.tolist(), ends.tolist(), first.tolist(), strict=True)
    ]


def _stored_values(matrix: xgboost.DMatrix) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yield the values as CSR blocks; a DMatrix is sliced, so that the copy is small."""
    if isinstance(matrix, xgboost.QuantileDMatrix):
        yield read_values(matrix)
        return
    for start in range(0, matrix.num_row(), _ROWS_PER_BLOCK):
        rows = np.arange(start, min(start + _ROWS_PER_BLOCK, matrix.num_row()), dtype=np.int32)
        try:
            part = matrix.slice(rows, allow_groups=True)
        except xgboost.core.XGBoostError as error:
            if "external memory" not in str(error):
                raise
            raise UnsupportedError(
                "TaskSplit cannot read a matrix in external memory: give xgboost.train a "
                "QuantileDMatrix."
            ) from None
        yield read_values(part)
