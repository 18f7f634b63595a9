# SPDX-License-Identifier: Apache-2.0
"""SciPy matrices, checked before any library follows their indices.

XGBoost, LightGBM, SciPy's conversions and the core read and write where the arrays of a sparse
matrix say. SciPy checks them when a matrix is made, but not when its arrays are set or changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from mtboost.errors import DataError

# XGBoost, LightGBM and the core number columns in 32 bits, most of them with a sign.
_MOST_COLUMNS = 2**31 - 1


def checked_sparse(values: Any, argument: str) -> Any:
    """Return a SciPy matrix as CSR or CSC after checking all of its indices.

    Parameters
    ----------
    values : object
        A SciPy matrix; what is none is returned as it is.
    argument : str
        What messages call the matrix.

    Returns
    -------
    CSR or CSC matrix, or `values`
        A CSR or CSC matrix is returned as it is, unless the order of its indices has changed since
        SciPy checked it, its arrays have room for more, or they are views with steps; what can be
        shared of its arrays then is. Other formats become CSR.

    Raises
    ------
    DataError
        It has one dimension, its arrays have wrong lengths or types, or an index is out of range.
    """
    if not scipy.sparse.issparse(values):
        return values
    if values.ndim != 2:
        raise DataError(f"{argument} has shape {values.shape}: a matrix has rows and columns.")
    if values.shape[1] > _MOST_COLUMNS:
        raise DataError(
            f"{argument} has {values.shape[1]} columns; at most {_MOST_COLUMNS} are supported: "
            f"drop those that are 0 everywhere."
        )
    try:
        if values.format in ("csr", "csc"):
            _check_compressed(values)
            return _as_libraries_read(values)
        if values.format == "bsr":
            _check_compressed(values, *values.blocksize)
            return values.tocsr()
        if values.format == "lil":
            _check_lists(values)
            rows = values.tocsr()
            _check_compressed(rows)
            return rows
        cells = values.tocoo(copy=False)
        _check_cells(cells)
        return cells.tocsr()
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise DataError(
            f"{argument} is a damaged {values.format.upper()} matrix: {error}. Make it anew from "
            f"its values, rows and columns, for example by scipy.sparse.coo_array."
        ) from None


def _check_compressed(matrix: Any, n_block_rows: int = 1, n_block_columns: int = 1) -> None:
    """Raise ValueError unless the arrays of a CSR, CSC or BSR matrix fit together."""
    n_rows, n_columns = matrix.shape
    shape = (n_rows // n_block_rows, n_columns // n_block_columns)
    n_outer, n_inner = shape if matrix.format != "csc" else shape[::-1]
    starts, indices = matrix.indptr, matrix.indices
    for name, array in (("indptr", starts), ("indices", indices)):
        _check_indices(name, array)
    if len(starts) != n_outer + 1:
        raise ValueError(f"indptr has {len(starts)} entries instead of {n_outer + 1}")
    if len(indices) != len(matrix.data):
        raise ValueError(f"there are {len(indices)} indices for {len(matrix.data)} values")
    cell = (n_block_rows, n_block_columns) if matrix.format == "bsr" else ()
    if matrix.data.shape[1:] != cell:
        raise ValueError(f"data has shape {matrix.data.shape}")
    if starts[0] != 0 or starts[-1] > len(indices):
        raise ValueError(f"indptr goes from {starts[0]} to {starts[-1]} of {len(indices)} entries")
    if (starts[1:] < starts[:-1]).any():  # not np.diff(), which overflows
        raise ValueError("indptr descends")
    _check_range("indices", indices[: starts[-1]], n_inner)


def _check_lists(matrix: Any) -> None:
    """Raise ValueError unless each row of a LIL matrix has as many columns as values."""
    rows, values = matrix.rows, matrix.data
    if not (rows.shape == values.shape == matrix.shape[:1]):
        raise ValueError(f"there are {rows.shape} rows and {values.shape} lists of values")
    if list(map(len, rows)) != list(map(len, values)):
        raise ValueError("a row has another number of columns than of values")


def _check_cells(matrix: Any) -> None:
    """Raise ValueError unless the cells of a COO matrix lie within it."""
    for name, array, length in zip(("row", "col"), matrix.coords, matrix.shape, strict=True):
        _check_indices(name, array)
        if array.shape != matrix.data.shape:
            raise ValueError(f"{name} has {len(array)} entries for {matrix.data.shape} values")
        _check_range(name, array, length)


def _check_indices(name: str, array: npt.NDArray[Any]) -> None:
    if array.ndim != 1 or array.dtype not in (np.int32, np.int64):
        raise ValueError(f"{name} is of type {array.dtype} and shape {array.shape}")


def _check_range(name: str, array: npt.NDArray[Any], length: int) -> None:
    least, most = array.min(initial=0), array.max(initial=0)
    if array.size and (least < 0 or most >= length):
        raise ValueError(f"{name} has {least if least < 0 else most}, outside of 0 to {length - 1}")


def _as_libraries_read(matrix: Any) -> Any:
    """The matrix, or another of the same values that neither SciPy nor XGBoost misreads.

    SciPy selects columns of all entries in the arrays, also of those behind the last row, and
    writes them beyond its result. XGBoost takes the entries of a view with steps for neighbours.
    """
    n_entries = matrix.indptr[-1]
    entries = (matrix.data[:n_entries], matrix.indices[:n_entries], matrix.indptr)
    fresh = type(matrix)(matrix.shape, dtype=matrix.dtype)
    fresh.data, fresh.indices, fresh.indptr = map(np.ascontiguousarray, entries)
    is_tight = len(matrix.data) == n_entries and all(a.flags.c_contiguous for a in entries)
    flags = ((m.has_sorted_indices, m.has_canonical_format) for m in (matrix, fresh))
    return matrix if is_tight and len(set(flags)) == 1 else fresh
