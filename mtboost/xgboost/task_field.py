# SPDX-License-Identifier: Apache-2.0
"""Tasks that are in the matrices: Dask, Spark and Ray distribute them with the rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.checks import check_choice
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, UnsupportedError
from mtboost.trees.losses import has_bounds
from mtboost.xgboost.collective import Workers

#: Field of a matrix that may have the tasks. Only survival objectives of XGBoost read it.
TASK_FIELD = "label_lower_bound"
#: What to do instead of giving labels of rows, as the end of a message of check_one_machine().
INSTEAD = f", or give it {TASK_FIELD!r} as task, and each worker's matrix its tasks in that field"
# Tasks in a field of a matrix are float32, which holds whole numbers up to here.
_LARGEST_TASK = 2**24


def is_task_field(argument: str, task: object) -> bool:
    """Whether an argument names the field; ParameterError for another text."""
    if isinstance(task, str):
        check_choice(argument, task, (TASK_FIELD,), besides="labels of the rows")
        return True
    return False


def check_no_bounds(user: str, objective: object) -> None:
    """Raise UnsupportedError for an objective whose bounds of times lie in the field of the tasks.

    `user` is the class that would read the tasks there.
    """
    if has_bounds(objective):
        raise UnsupportedError(
            f"objective={objective!r} reads bounds of times from the field {TASK_FIELD!r}: give "
            f"{user} the task of each row."
        )


def task_numbers(matrix: xgboost.DMatrix) -> npt.NDArray[np.int64] | None:
    """Return the tasks in a matrix; None if it has rows but no tasks."""
    found = matrix.get_float_info(TASK_FIELD)
    if found.size == 0 and matrix.num_row() > 0:
        return None
    is_number = (np.abs(found) <= _LARGEST_TASK) & (found == np.round(found))
    if not is_number.all():
        row = int(np.argmin(is_number))
        raise DataError(
            f"The field {TASK_FIELD!r} is {found[row]!s} in row {row} of a matrix: tasks must be "
            f"whole numbers between -{_LARGEST_TASK} and {_LARGEST_TASK}."
        )
    return found.astype(np.int64)


def tasks_in_field(user: str, matrix: xgboost.DMatrix, workers: Workers | None) -> TaskSet:
    """Return the tasks in a matrix, whose names are those of all workers; a call of all of them.

    Raises
    ------
    DataError
        The matrix has rows but no tasks.
    UnsupportedError
        It has bounds of times there.
    """
    if matrix.get_float_info("label_upper_bound").size:
        raise UnsupportedError(
            f"{user} reads the tasks from the field {TASK_FIELD!r} of a matrix that has bounds of "
            f"times, lower ones there: give {user} the task of each row."
        )
    numbers = task_numbers(matrix)
    if numbers is None:
        raise DataError(
            f"{user} reads the tasks from the field {TASK_FIELD!r} of a matrix that has none: make "
            f"the matrix with {TASK_FIELD}=, the number of each row's task."
        )
    names = np.unique(numbers)
    if workers is not None:
        names = workers.union(names, "tasks")
    codes = np.searchsorted(names, numbers).astype(np.int32)
    return TaskSet(tuple(names.tolist()), codes)
