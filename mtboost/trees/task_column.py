# SPDX-License-Identifier: Apache-2.0
"""Columns of the training matrix by which nodes may divide tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_number, did_you_mean
from mtboost.errors import DataError, ParameterError

#: Columns beside those of a table that tell the rows' tasks apart: codes of a category, shape
#: (n_rows,), -1 if missing; or numbers, shape (n_rows, n_columns).
AddedColumns: TypeAlias = "npt.NDArray[np.integer[Any]] | npt.NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class TaskColumn:
    """Which column it is, and what its cuts cost.

    Attributes
    ----------
    column : int or str
        Position or name of the column. -1 is the last one.
    penalty : float
        c of S = s − c σ² (1 + (T − 2) 2/π); 0 leaves the column a category like others.
    """

    column: int | str
    penalty: float

    def position(self, names: Sequence[str], is_categorical: Sequence[bool]) -> int:
        """Where the column stands in a matrix.

        Raises
        ------
        DataError
            The matrix has no such column, or the column is no category.
        """
        try:
            if isinstance(self.column, str):
                place = list(names).index(self.column)
            else:
                place = range(len(is_categorical))[self.column]
        except (ValueError, IndexError):
            hint = did_you_mean(self.column, names) if names else ""
            raise DataError(
                f"The training matrix has no column {self.column!r}, which task_column names; it "
                f"has {len(is_categorical)} columns.{hint}"
            ) from None
        if not is_categorical[place]:
            raise DataError(
                f"task_column={self.column!r} is a column of numbers: the tasks must be a category "
                "for the library, too."
            )
        return place


def make_task_column(column: int | str | None, penalty: float, score: object) -> TaskColumn | None:
    """Check what a user says of task splits; None without a column.

    Raises
    ------
    ParameterError
        `score` is not ``"plain"``, or the penalty is not a finite number >= 0.
    TypeError
        `column` is no position and no name.
    """
    if column is None:
        return None
    if isinstance(column, bool) or not isinstance(column, (int, str)):
        raise TypeError(f"task_column must be the position or name of a column, found {column!r}.")
    penalty = check_number("task_splits", penalty, low=0.0)
    if score != "plain":
        raise ParameterError(
            f"Task splits need split_score='plain', found {score!r}: a cut between tasks has all "
            "rows of a task on one side, so that gains of single tasks are 0 and say nothing of "
            "it. Pass 'plain', or leave out task_column."
        )
    return TaskColumn(column, penalty)


def names_of_added(names: Sequence[str], added: AddedColumns) -> list[str]:
    """Names for the added columns, unlike the others."""
    prefix = "task"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    if added.ndim == 1:
        return [prefix]
    return [f"{prefix}{number}" for number in range(added.shape[1])]


def grower_arguments(
    task_column: TaskColumn | None, names: Sequence[str], is_categorical: Sequence[bool]
) -> dict[str, Any]:
    """Arguments of TreeGrower for the task column of a matrix, if there is one."""
    if task_column is None:
        return {}
    place = task_column.position(names, is_categorical)
    return {"task_column": place, "task_penalty": task_column.penalty}
