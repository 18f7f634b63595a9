# SPDX-License-Identifier: Apache-2.0
"""What is read back from a user's matrices: labels, weights, queries and values."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost
from xgboost.core import _LIB, _check_call

from mtboost.base.checks import check_pairs
from mtboost.base.queries import queries_from
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError
from mtboost.trees.losses import has_bounds


def tasks_of_matrices(name: str, pairs: Any) -> list[tuple[xgboost.DMatrix, TaskSet]]:
    """Matrices and the tasks of their rows, from an argument `name` with labels of the rows."""
    checked = check_pairs(name, pairs, xgboost.DMatrix, "(DMatrix, task of each row)")
    return [(matrix, TaskSet.from_labels(task, matrix.num_row())) for matrix, task in checked]


def labels_and_weights(
    matrix: xgboost.DMatrix, objective: object = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
    """Labels of a matrix, as :func:`labels_of` has them, and weights of its rows, if any."""
    weights = matrix.get_weight()
    begins = query_begins(matrix)
    if begins is not None and weights.size:  # XGBoost's weights are those of the queries
        weights = np.repeat(weights, np.diff(begins))
    return labels_of(matrix, objective), weights if weights.size else None


def labels_of(matrix: xgboost.DMatrix, objective: object = None) -> npt.NDArray[np.float32]:
    """Labels of a matrix: bounds, shape (n_rows, 2), if they are what an objective is trained on.

    Without an objective, if the matrix has bounds and no labels. A lower bound alone is none:
    several machines have tasks there.
    """
    labels = matrix.get_label()
    upper = matrix.get_float_info("label_upper_bound")
    if not (has_bounds(objective) if objective is not None else upper.size and not labels.size):
        return labels
    lower = matrix.get_float_info("label_lower_bound")
    if lower.size != upper.size or upper.size != matrix.num_row():
        raise DataError(
            f"objective={objective!r} needs two bounds for each row of a matrix, which has "
            f"{matrix.num_row()} rows, {lower.size} lower and {upper.size} upper bounds: give it "
            "label_lower_bound= and label_upper_bound=."
        )
    return np.stack([lower, upper], axis=1)


def query_begins(matrix: xgboost.DMatrix) -> npt.NDArray[np.uint32] | None:
    """Return the first row of each query of a matrix, and last the number of rows."""
    begins = matrix.get_uint_info("group_ptr")
    return begins.astype(np.uint32) if begins.size else None


def queries_of(matrix: xgboost.DMatrix) -> npt.NDArray[np.int64] | None:
    """Return the query of each row of a matrix; None if there are no queries."""
    begins = query_begins(matrix)
    return None if begins is None else queries_from(begins)


def read_values(matrix: xgboost.DMatrix) -> tuple[npt.NDArray[Any], ...]:
    """Values of a matrix as the three arrays of a CSR matrix.

    ``get_data`` copies them a second time, into the types that SciPy prefers.
    """
    arrays = (
        np.empty(matrix.num_row() + 1, np.int64),
        np.empty(matrix.num_nonmissing(), np.int32),
        np.empty(matrix.num_nonmissing(), np.float32),
    )
    _check_call(
        _LIB.XGDMatrixGetDataAsCSR(
            matrix.handle, b"{}", *(ctypes.c_void_p(array.ctypes.data) for array in arrays)
        )
    )
    return arrays
