# SPDX-License-Identifier: Apache-2.0
"""The name and the rows of one task, as the common model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from mtboost.base.checked_tables import as_table
from mtboost.base.checks import listed, shown
from mtboost.base.dataset import Dataset, take_task_column
from mtboost.base.tables import TaskColumn
from mtboost.base.tasks import TaskName, TaskSet, check_digits
from mtboost.errors import DataError
from mtboost.model.parts.common_stage import CommonStage


def check_new_name(task: object, known: Sequence[TaskName]) -> None:
    """Demand a name that no task has, of the type of the others."""
    check_digits([task])
    if _kind_of(task) != _kind_of(known[0]):
        raise DataError(
            f"task is the {_kind_of(task)} {shown(task)}, but the model's tasks are named by "
            f"{_kind_of(known[0])}: use one type."
        )
    if task in known:
        raise DataError(f"task {task!r} is known already: give the new task another name.")


def _kind_of(task: object) -> str:
    """Type of a name, of a nested task that of its label at each level."""
    if isinstance(task, tuple):
        return f"tuple ({', '.join(type(label).__name__ for label in task)})"
    return type(task).__name__


def without_task_column(
    stage: CommonStage, column: TaskColumn | None, X: Any, feature_names: Sequence[str] | None
) -> tuple[Any, Sequence[str] | None, TaskName | None]:
    """A table without the column that held the task in training, its names, and the task in it.

    Parameters
    ----------
    column : str, int or None
        What :func:`mtboost.fit` was given as the task; a table need not have it.

    Raises
    ------
    DataError
        The column holds several tasks.
    """
    if column is None:
        return X, feature_names, None
    try:
        table, labels = take_task_column(X, column, feature_names=feature_names)
    except DataError:  # another table, whose faults are found where it is read
        return X, feature_names, None
    if table.feature_names is None and table.n_features != stage.columns.n:
        return X, feature_names, None
    found = TaskSet.from_labels(labels, table.n_rows).names
    if len(found) > 1:
        raise DataError(
            f"X has rows of {listed(found, 'task')} in column {column!r}: add one task at a time."
        )
    names = None if table.column_types else table.feature_names
    return table.native, names, found[0]


def _without_label(task: TaskName) -> TaskName | None:
    """Return the task that a table holds if rows have several labels: the first level is theirs."""
    if not isinstance(task, tuple):
        return None
    return task[1] if len(task) == 2 else task[1:]


def rows_of_new_task(
    stage: CommonStage,
    task: TaskName,
    rows: Sequence[Any],
    feature_names: Sequence[str] | None,
    task_column: TaskColumn | None,
) -> Dataset:
    """The task's rows, (X, y[, weight[, base_margin]]), with the columns of the common model.

    It may lack some of them if another task does, and have the column of the tasks.
    """
    X, *own = rows
    X, feature_names, found = without_task_column(stage, task_column, X, feature_names)
    if found is not None and found not in (task, _without_label(task)):
        raise DataError(
            f"task is {task!r}, but column {task_column!r} of X holds {found!r}: correct one."
        )
    if feature_names is None:
        feature_names = _names_by_position(stage, X)
    may_lack = bool(stage.optional_columns)
    parts: dict[str, Any] = {
        name: {task: value}
        for name, value in zip(("y", "weight", "base_margin"), own, strict=False)
        if value is not None
    }
    data = Dataset(
        {task: X},
        feature_names=None if feature_names is None else {task: feature_names},
        common_features=None if may_lack else stage.columns.names,
        **parts,
    )
    if may_lack:
        data.align_some_common(stage.columns, stage.stored)
    else:
        data.align_common(stage.columns)
    return data


def _names_by_position(stage: CommonStage, X: Any) -> Sequence[str] | None:
    """Return the names of an array's columns, which `predict` takes by position, too."""
    columns = stage.columns
    if columns.names is None or not (isinstance(X, np.ndarray | list) or scipy.sparse.issparse(X)):
        return None
    n_features = as_table(X).n_features
    if n_features != columns.n:
        raise DataError(
            f"X has {n_features} columns without names, and the model was trained on {columns.n} "
            f"named ones: pass a DataFrame, or feature_names=[...] with the name of each."
        )
    return columns.names


def validation_rows_of_new_task(
    stage: CommonStage,
    data: Dataset,
    eval_set: Sequence[Any],
    feature_names: Sequence[str] | None,
    task_column: TaskColumn | None,
) -> Dataset:
    """Validation rows of the new task, beside its rows `data`."""
    if not 2 <= len(eval_set) <= 4:
        raise DataError(
            f"eval_set has {len(eval_set)} parts: it must be (X, y), optionally followed "
            "by weight and base_margin."
        )
    task = data.tasks.names[0]
    valid = rows_of_new_task(stage, task, eval_set, feature_names, task_column)
    if (valid.base_margin is None) != (data.base_margin is None):
        raise DataError(
            "base_margin must be given for training and validation rows, or for neither: "
            "eval_set=(X, y, weight, base_margin)."
        )
    return valid
