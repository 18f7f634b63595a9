# SPDX-License-Identifier: Apache-2.0
"""Rows that users give to plots, by task, and what a model predicts for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.checked_tables import as_table
from mtboost.base.labels import as_labels, as_nonnegative
from mtboost.base.tables import Table, has_names
from mtboost.base.task_tables import is_mapping
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError, UnsupportedError
from mtboost.model.prediction.contributions import ExplainedTasks
from mtboost.model.prediction.evaluation import on_label_scale
from mtboost.model.prediction.new_rows import check_known, rows_by_task
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.trees.losses import as_zero_one, is_ranking, is_survival


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """Rows of one task with their labels; predictions are on the scale of the labels."""

    table: Table
    y: Float64Array
    weight: Float64Array
    base_margin: Any


def fitted(model: Any) -> ExplainedTasks:
    """Return the model itself, or that of an estimator.

    Raises
    ------
    TypeError
        It is neither.
    """
    if isinstance(model, ExplainedTasks):
        return model
    own = getattr(model, "model_", None)
    if isinstance(own, ExplainedTasks):
        return own
    if own is None and hasattr(model, "_learn_labels"):  # an estimator that will have one
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model, "model_")
    raise TypeError(
        f"model is a {type(model).__name__}: pass a MultiTaskModel, or a fitted "
        "MultiTaskClassifier or MultiTaskRegressor."
    )


def check_one_output(model: FittedTasks, what: str) -> None:
    """Raise UnsupportedError for models of several classes or levels."""
    if model._stage.n_outputs > 1:
        raise UnsupportedError(
            f"{what} draws one prediction a row, and the model has {model._stage.n_outputs} "
            f"{model._output_name}."
        )


def check_scale_of_labels(model: FittedTasks, what: str) -> None:
    """Raise UnsupportedError for models whose predictions are no estimates of the labels.

    Several outputs are not one prediction. Rankings order the rows of a query alone; predictions of
    survival are hazards or times, and labels have censored times.
    """
    check_one_output(model, what)
    if is_ranking(model.objective):
        raise UnsupportedError(
            f"{what} compares predictions with labels, and those of {model.objective!r} have no "
            "scale: use evaluate(..., qid=...)."
        )
    if is_survival(model.objective):
        raise UnsupportedError(
            f"{what} compares predictions with labels, and those of {model.objective!r} are "
            "censored times: use evaluate(..., metrics='concordance')."
        )


def labelled_rows(
    model: Any, X: Any, y: Any, task: Any, weight: Any, base_margin: Any
) -> dict[TaskName, LabelledRows]:
    """Split rows with labels by their tasks, which the model knows; without rows of weight 0.

    An estimator's classes are numbers in its model.
    """
    own_model = fitted(model)
    y = y if own_model is model else model._encode(y)
    by_task = rows_by_task(own_model, X, y, task, weight, base_margin)
    check_known(own_model, by_task, "Leave them out.")
    found = {}
    for name, (table, labels, weights, margin) in by_task.items():
        n_rows = table.n_rows
        y_of_task = np.asarray(as_labels(labels, n_rows), np.float64)
        y_of_task = as_zero_one(own_model.objective, y_of_task)
        own = np.ones(n_rows)
        if weights is not None:
            own = np.asarray(as_nonnegative(weights, n_rows, argument="weight"), np.float64)
        counts = np.flatnonzero(own > 0)
        if len(counts) < n_rows:
            table, y_of_task, own = table.take(counts), y_of_task[counts], own[counts]
            margin = None if margin is None else np.asarray(margin)[counts]
        if len(counts):
            found[name] = LabelledRows(table, y_of_task, own, margin)
    if not found:
        raise DataError("weight is zero in every row: at least one must count.")
    return found


def one_table(model: FittedTasks, X: Any) -> Table:
    """Return one table whose rows are predicted for every task, without the task column."""
    if is_mapping(X):
        raise UnsupportedError(
            "X is a mapping, but each of its rows is predicted for every task: pass one table that "
            "has the columns of all tasks."
        )
    column = model.task_column
    if column is not None and not has_names(X):
        n_levels = len(column) if isinstance(column, tuple) else 1
        if np.shape(X)[1:] == (model.common_columns.n + n_levels,):
            return model._split(X, None)[0]
    table = as_table(X, used=model._used_columns)
    names, used = table.feature_names, model._used_columns
    if names is None or used is None:
        return table
    return table.select([name for name in names if name in used])


def predictions(
    model: FittedTasks, task: TaskName | None, table: Table, base_margin: Any = None
) -> Float64Array:
    """Predict rows as those of a task; None is a task that the model does not know."""
    name: Any = object() if task is None else task
    margins = {task: model._calibrated(model._task_margins(table, name, base_margin), task)}
    found = on_label_scale(model, margins, np.empty(0, np.int32))
    return np.asarray(found[task], np.float64)


def some_rows(table: Table, most: int) -> Table:
    """Return the table, or `most` of its rows at equal distances."""
    if table.n_rows <= most:
        return table
    return table.take(np.linspace(0, table.n_rows - 1, most).round().astype(np.int64))
