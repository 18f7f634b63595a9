# SPDX-License-Identifier: Apache-2.0
"""New rows of tasks that a model knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import as_array
from mtboost.base.checked_tables import as_table, without_dates
from mtboost.base.checks import did_you_mean, listed
from mtboost.base.dataset import Dataset
from mtboost.base.labels import (
    as_base_margin,
    as_labels,
    as_nonnegative,
    as_weights,
    not_all_zero,
)
from mtboost.base.several_labels import LabelNames, label_rows, names_of_labels
from mtboost.base.tables import Table
from mtboost.base.task_tables import check_task_keys, is_mapping
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError, ParameterError
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.prediction.rows_of_task import rows_of_new_task
from mtboost.trees.losses import has_bounds, is_multiclass

#: Rows of one task: table, labels, weights and base margins.
RowsOfTask = tuple[Table, Any, Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class NewRows:
    """New rows as the user gave them, or a row for each known label of rows with several.

    Attributes
    ----------
    X, y, task, weight, base_margin : object
        As in :func:`mtboost.fit`.
    is_known : ndarray of bool, shape (n_rows, n_labels), optional
        Where the labels were, if rows had several: now they are one column after another.
    label_names : tuple of str or int, optional
        Names of these columns.
    """

    X: Any
    y: Any
    task: Any
    weight: Any
    base_margin: Any
    is_known: npt.NDArray[np.bool_] | None = None
    label_names: LabelNames | None = None


def rows_by_task(
    model: FittedTasks, X: Any, y: Any, task: Any, weight: Any, base_margin: Any
) -> dict[TaskName, RowsOfTask]:
    """Split new rows by their tasks, known or not; :func:`mtboost.fit` has the arguments."""
    model._warn_without_start(base_margin)
    own = one_label_a_row(model, X, model._encode(y), task, weight, base_margin)
    X, y, weight, base_margin = own.X, own.y, own.weight, own.base_margin
    if is_mapping(X):
        found: dict[TaskName, Any] = {}
        for name, native in X.items():
            # A new task may have columns that no other has.
            used = model._used_columns
            if name not in model.quit_round:
                native, used = without_dates(native, used or ()), None
            table = as_table(native, argument=f"X[{name!r}]", used=used)
            parts = (None if part is None else part[name] for part in (y, weight, base_margin))
            found[name] = (table, *parts)
        return found
    table, labels = model._split(X, own.task)
    n_rows = table.n_rows
    tasks = model._tasks_of_rows(table, labels)
    y = as_labels(y, n_rows, may_be_bounds=True)
    weight = None if weight is None else as_weights(weight, n_rows)
    if base_margin is not None:
        base_margin = as_base_margin(base_margin, n_rows, model._stage.n_outputs)
    by_task: dict[TaskName, Any] = {}
    for task_name in tasks:
        rows = tasks.rows(task_name)
        parts = (None if part is None else part[rows] for part in (y, weight, base_margin))
        by_task[task_name] = (table.take(rows), *parts)
    return by_task


def tables_by_task(model: FittedTasks, X: Any, task: Any) -> dict[TaskName, Table]:
    """Split rows without labels by their tasks, which the model knows."""
    if is_mapping(X):
        tables = {
            name: as_table(native, argument=f"X[{name!r}]", used=model._used_columns)
            for name, native in X.items()
        }
    else:
        table, labels = model._split(X, task)
        codes = model._codes_of_labels(table, labels)
        if codes is not None:
            return {
                model.tasks[code]: table.take(np.flatnonzero((codes == code).any(axis=1)))
                for code in np.unique(codes)
            }
        tasks = model._tasks_of_rows(table, labels)
        tables = {name: table.take(tasks.rows(name)) for name in tasks}
    check_known(model, tables, "Leave them out.")
    return tables


def one_label_a_row(
    model: FittedTasks, X: Any, y: Any, task: Any, weight: Any, base_margin: Any
) -> NewRows:
    """Return the arguments, of a row for each label that is known if a row has several."""
    if is_mapping(X):
        if task is not None:
            raise DataError("X is a mapping whose keys are the tasks: leave out task.")
        given = {"y": y, "weight": weight, "base_margin": base_margin}
        for argument, values in given.items():
            if argument == "y" or values is not None:
                check_task_keys(argument, values, X)
    has_one = is_mapping(X) or has_bounds(model.objective)
    names = None if has_one else names_of_labels(y, model.label_names)
    has_one_left = model.label_names is not None and len(model._labels) == 1
    if names is None and not has_one and task is None and has_one_left:
        names, y = model._labels, as_array(y).reshape(-1, 1)  # the others have been removed
    if names is None:
        return NewRows(X, y, task, weight, base_margin)
    if model.label_names is None:
        raise DataError(
            f"y has {len(names)} labels a row, but the model was fitted with one: pass one, and "
            "the task of each row."
        )
    table, labels = model._split(X, task)
    tasks = None if labels is None else TaskSet.from_labels(labels, table.n_rows)
    own = label_rows(names, y, tasks, table.n_rows, weight, base_margin)
    of_codes = (own.tasks.names[code] for code in own.tasks.codes.tolist())
    task = np.fromiter(of_codes, object, len(own.rows))
    X = table.take(own.rows).native
    return NewRows(X, own.y, task, own.weight, own.base_margin, own.is_known, names)


def check_known(model: FittedTasks, rows: Mapping[TaskName, object], remedy: str) -> None:
    """Raise DataError if there are rows of a task that the model does not know."""
    unknown = [name for name in rows if name not in model.quit_round]
    if unknown:
        raise DataError(
            f"X has rows of unknown {listed(unknown, 'task')}. Known: "
            f"{listed(model.tasks, 'task')}.{did_you_mean(unknown[0], model.tasks)} {remedy}"
        )


def as_dataset(model: FittedTasks, rows: dict[TaskName, RowsOfTask]) -> Dataset:
    """Return rows of known tasks with the columns of training."""
    parts = []
    for name, (table, *own) in rows.items():
        columns = model.task_columns[name]
        table = columns.align(table)
        names = None if table.column_types else table.feature_names
        y, weight, base_margin = own
        of_task = rows_of_new_task(
            model._stage, name, (table.native, y, None, base_margin), names, None
        )
        if weight is not None:  # in some tasks it may be 0 in every row
            of_task.weight = as_nonnegative(weight, table.n_rows, argument="weight")
        parts.append(of_task)
    data = Dataset.stacked(parts)
    if data.weight is not None:
        not_all_zero(data.weight, "weight")
    return data


def with_kept_parameters(model: FittedTasks, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of new trees: those of the model, unless `params` differ.

    `params` have the library's main names. Arguments of `fit`, such as the seed, are not among
    them.
    """
    library = model._library
    given = with_levels(model, params)
    known = library.names_of_parameters()[0]
    kept = {
        name: value
        for name, value in model.params.items()
        if name in known and name not in library.arguments
    }
    own = {**kept, **given}
    if is_multiclass(model.objective):  # new rows may lack a class
        own["num_class"] = model._stage.n_outputs
    return own


def draws_unseen(model: FittedTasks, params: Mapping[str, Any]) -> bool:
    """Return whether further trees have ``unseen_at_random``, as those of the model do."""
    return model.unseen_at_random and model._library.library_only(params) is None


def with_outputs(model: FittedTasks) -> dict[str, Any]:
    """Return the parameters of the common model, with the number of its classes."""
    n_outputs = {"num_class": model._stage.n_outputs} if is_multiclass(model.objective) else {}
    return {**model.params, **n_outputs}


def with_levels(model: FittedTasks, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of new trees, with the levels of the model's quantiles, if it has any.

    Raises
    ------
    ParameterError
        They have other levels.
    """
    library, levels = model._library, model._levels
    name = library.quantile_level[0]
    if not levels:
        return dict(params)
    asked = library.levels({**model.params, **params, "objective": model.objective})
    if asked != levels:
        raise ParameterError(
            f"params has {name}={params[name]!r}, but the model predicts the levels "
            f"{list(levels)}: leave it out, or fit another model."
        )
    kept = {name: model.params[name]} if name in model.params else {}
    return {**kept, **params}
