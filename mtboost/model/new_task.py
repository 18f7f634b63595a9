# SPDX-License-Identifier: Apache-2.0
"""A task that comes after training: its rows, its objective, and what is learnt of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from mtboost.base.checked_tables import as_table
from mtboost.base.checks import listed, refuse, shown
from mtboost.base.dataset import Dataset, take_task_column
from mtboost.base.tables import Columns, TaskColumn
from mtboost.base.tasks import TaskName, TaskSet, check_digits
from mtboost.base.threads import openmp_threads
from mtboost.base.validation import Folds
from mtboost.errors import DataError, ParameterError, ParameterTypeError
from mtboost.model.common_stage import CommonStage
from mtboost.model.gains import gains_by_task
from mtboost.model.new_effects import effects_of_new_task
from mtboost.model.reports import TaskReport, task_reports, validation_scores
from mtboost.model.stages.common import CommonModel, follow_common, followed_margins
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.model.stages.mixed_objective import objectives_by_task
from mtboost.model.stages.settings import Settings
from mtboost.model.stages.specific import SpecificModel, fit_specific
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.losses import TaskLoss

#: Standard errors by which a task that joins a searched model must gain to share less. The best of
#: many rounds on a few rows is often better by one: of generated families with 8 to 12 validation
#: rows the RMSE of tasks that are replaced is 1.06 times what it was with 1, and .99 times with 2.
_N_ERRORS = 2.0

Objective = str | dict[TaskName, str] | Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class NewTask:
    """Parts of a model for a new task.

    Attributes
    ----------
    trees : CommonTrees
        Those of the model, which know the task.
    quit_round : int
        Rounds of them that it uses.
    specific : xgboost.Booster or lightgbm.Booster, optional
        Its specific model.
    columns : Columns
    report : TaskReport
    loss : TaskLoss, optional
        Its start and unit, if the tasks have different objectives.
    metric : str
    params : dict of str to object
        The library's parameters of the specific model.
    """

    trees: CommonTrees
    quit_round: int
    specific: Any
    columns: Columns
    report: TaskReport
    loss: TaskLoss | None
    metric: str
    params: dict[str, Any]


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


def objective_of_new_task(
    known: str | Mapping[TaskName, str],
    given: str | Callable[..., Any] | None,
    task: TaskName,
    data: Dataset,
    library: Backend,
) -> Objective:
    """Return the objective of the new task."""
    if isinstance(known, str):
        if isinstance(given, str):
            raise ParameterError(
                f"objective is {given!r}, but the tasks of this model have one, {known!r}: leave "
                f"it out."
            )
        if given is not None and not callable(given):
            refuse("objective", given, "None or a function", kind=ParameterTypeError)
        return known if given is None else given
    if given is None and len(set(known.values())) == 1:
        given = next(iter(known.values()))
    if not isinstance(given, str):
        raise ParameterError(
            f"objective is {given!r}, but each task of this model has its own: name that of the "
            f"new task, such as {next(iter(known.values()))!r}."
        )
    return objectives_by_task({task: given}, data.tasks, library)


def learn_task(
    stage: CommonStage,
    settings: Settings,
    train: Dataset,
    valid: Dataset | None,
    every: Dataset,
    signs: Sequence[int],
    *,
    is_auto: bool,
    factor: float,
) -> NewTask:
    """Find how far the task follows the common model, and train its specific model.

    Where there are more rows than those to train on, both are then learned again from all.

    Parameters
    ----------
    stage : CommonStage
        The common model, which stays as it is.
    settings : Settings
        Settings of the specific model.
    train, valid, every : Dataset
        Rows of the new task alone: to train on, to validate on and those of the final model.
    signs : sequence of int
        Monotone constraints of the common model.
    is_auto : bool
        Whether the task has the common rounds of the others, and no specific model, unless others
        gain more than two standard errors on its validation rows.
    factor : float
        What the values of the common model have been multiplied by.
    """
    task = train.tasks.names[0]
    settings = settings.on_rows(train)
    with openmp_threads(settings.n_threads):
        trees = _trees_with(stage, settings, train, signs, factor)
        common = follow_common(settings, trees, train, valid, stage.most_rounds)
        judges = valid if is_auto and settings.early_stopping_rounds is not None else None
        if judges is not None:
            common = _with_more_rounds(settings, common, judges, stage.most_rounds)
        validated = fit_specific(settings, train, valid, common)
        if judges is not None:
            validated = _without_chance(settings, common, validated, train, judges)
        specific = validated
        if every is not train:
            trees = _trees_with(stage, settings, every, signs, factor)
            rounds = {task: validated[task].n_rounds}
            again, settings = replace(common, trees=trees), settings.on_rows(every)
            specific = fit_specific(settings, every, None, again, rounds)
    folds = None if valid is None else Folds(((train, valid),))
    scores = validation_scores(train, valid, common, validated)
    objectives = settings.objectives
    names = objectives.metric_names
    return NewTask(
        trees=trees,
        quit_round=common.quit_round[task],
        specific=specific[task].booster,
        columns=Columns.of(every.task_columns(task)),
        report=task_reports(every, folds, common, validated, scores, objectives.names)[task],
        loss=objectives.losses.get(task),
        metric=names if isinstance(names, str) else names[task],
        params=stage.backend.without_threads(settings.params),
    )


def _with_more_rounds(
    settings: Settings, common: CommonModel, valid: Dataset, most: int
) -> CommonModel:
    """Return the common model followed up to its best round, or to the last unless that is worse.

    That is, by more than two standard errors.
    """
    every = replace(common, quit_round=dict.fromkeys(common.quit_round, most))
    margins = (followed_margins(settings, own, valid) for own in (every, common))
    return common if _is_better(settings, valid, *margins) else every


def _without_chance(
    settings: Settings,
    common: CommonModel,
    specific: dict[TaskName, SpecificModel],
    train: Dataset,
    valid: Dataset,
) -> dict[TaskName, SpecificModel]:
    """Return a specific model, or none unless it gains more than two standard errors."""
    ((task, model),) = specific.items()
    if not model.n_rounds:
        return specific
    before = followed_margins(settings, common, valid)
    table = Columns.of(train.task_table(task)).align(valid.task_table(task))
    after = settings.backend.predict_margin(model.booster, table, before)
    if _is_better(settings, valid, before, after.reshape(before.shape)):
        return specific
    none = replace(model, trees=None, n_rounds=0, reason="no gain of two standard errors")
    return {task: none}


def _is_better(settings: Settings, valid: Dataset, before: Margins, after: Margins) -> bool:
    """Return whether a task gains by more than chance may give it."""
    return any(
        gain > _N_ERRORS * error for _, gain, error in gains_by_task(settings, valid, before, after)
    )


def _trees_with(
    stage: CommonStage,
    settings: Settings,
    data: Dataset,
    signs: Sequence[int],
    factor: float,
) -> CommonTrees:
    """Return the common trees that know the task of these rows."""
    trees, library, objectives = stage.trees, stage.backend, settings.on_rows(data).objectives
    knows_tasks = trees.pooled.has_values or trees.descriptors is not None
    if not knows_tasks or objectives.common_name is None:
        return trees
    options = library.loss_options(settings.params)
    loss = library.loss(objectives.common_name, options, stage.n_outputs)
    task, data = data.tasks.names[0], objectives.in_one_unit(data)
    linear = effects_of_new_task(trees, task, data, loss, stage.most_rounds, factor)
    return trees.learn_task(data, loss, signs, linear)
