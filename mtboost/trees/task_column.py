# SPDX-License-Identifier: Apache-2.0
"""Columns of the training matrix by which nodes may split tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import did_you_mean
from mtboost.errors import DataError

#: Columns beside those of a table that identify the rows' tasks: codes of a category, shape
#: (n_rows,), -1 if missing; or numbers, shape (n_rows, n_columns).
AddedColumns: TypeAlias = "npt.NDArray[np.integer[Any]] | npt.NDArray[np.float32]"


def check_task_column(column: object) -> None:
    """Raise TypeError unless it is the position or the name of a column, or None."""
    if column is not None and (isinstance(column, bool) or not isinstance(column, (int, str))):
        raise TypeError(f"task_column must be the position or name of a column, found {column!r}.")


def place_of_task_column(
    column: int | str | None, names: Sequence[str], is_categorical: Sequence[bool]
) -> int | None:
    """Return the position of the column of the tasks in a matrix; -1 is the last one.

    Raises
    ------
    DataError
        The matrix has no such column, or the column is not a category.
    """
    if column is None:
        return None
    try:
        if isinstance(column, str):
            place = list(names).index(column)
        else:
            place = range(len(is_categorical))[column]
    except (ValueError, IndexError):
        hint = did_you_mean(column, names) if names else ""
        raise DataError(
            f"The training matrix has no column {column!r}, which task_column names; it has "
            f"{len(is_categorical)} columns.{hint}"
        ) from None
    if not is_categorical[place]:
        raise DataError(
            f"task_column={column!r} is a column of numbers: the tasks must be a category for the "
            "library, too."
        )
    return place


def names_of_added(names: Sequence[str], added: AddedColumns) -> list[str]:
    """Names for the added columns, unlike the others."""
    prefix = "task"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    if added.ndim == 1:
        return [prefix]
    return [f"{prefix}{number}" for number in range(added.shape[1])]
