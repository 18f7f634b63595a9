# SPDX-License-Identifier: Apache-2.0
"""Changes of the tasks of a fitted model: a task that joins, or leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mtboost.base.checked_tables import without_dates
from mtboost.base.checks import check_count, check_switch
from mtboost.base.classes import with_class_numbers
from mtboost.base.dataset import Dataset, as_task_column
from mtboost.base.given_splits import check_eval_set, check_no_fraction
from mtboost.base.tables import columns_of
from mtboost.base.tasks import TaskName, TaskSet, as_name
from mtboost.base.threads import default_n_threads
from mtboost.base.validation import Folds, hold_out
from mtboost.errors import DataError, ParameterError
from mtboost.metrics.metric import Metric
from mtboost.metrics.scorers import is_known
from mtboost.model.changes.new_task import NewTask, Objective, learn_task, objective_of_new_task
from mtboost.model.inputs.checked_rows import check_rows, check_takes_new_rows
from mtboost.model.inputs.holding_out import with_positives
from mtboost.model.inputs.making_settings import (
    common_parameters,
    feature_prior_of,
    make_objectives,
)
from mtboost.model.inputs.named_objectives import labels_are_classes
from mtboost.model.prediction.new_rows import draws_unseen, with_kept_parameters
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.prediction.rows_of_task import (
    check_new_name,
    rows_of_new_task,
    validation_rows_of_new_task,
    without_task_column,
)
from mtboost.model.sharing.towards_constant import factor_of_new_values
from mtboost.model.stages.mixed_objective import unit_of_classes
from mtboost.model.stages.objectives import ObjectiveByTask, Objectives
from mtboost.model.stages.settings import Settings
from mtboost.trees.feature_weights import PriorOption
from mtboost.trees.task_quitting import check_early_stopping_rounds, check_min_delta
from mtboost.trees.tree_options import TreeOptions


def add_task(
    model: FittedTasks,
    task: TaskName,
    X: Any,
    y: Any,
    *,
    weight: Any,
    base_margin: Any,
    feature_names: Sequence[str] | None,
    eval_set: Sequence[Any] | None,
    validation_fraction: float,
    params: Mapping[str, Any] | None,
    specific_rounds: int,
    early_stopping_rounds: int | None,
    min_delta: float,
    feature_prior: PriorOption,
    objective: str | Callable[..., Any] | None,
    eval_metric: str | Metric | Callable[..., float] | None,
    refit: bool | None,
    n_threads: int | None,
    seed: int,
) -> None:
    """Add a new task to a model; :meth:`mtboost.MultiTaskModel.add_task` has the arguments."""
    refit = None if refit is None else check_switch("refit", refit)
    stage, library, column = model._stage, model._library, model.task_column
    check_eval_set(eval_set, "(X, y)")
    check_no_fraction(eval_set, validation_fraction)
    X, eval_set = _without_dates(model, X, eval_set)
    # A list has the columns of tasks, or the labels of a nested one.
    task = as_name(as_task_column(task) or tuple(task) if isinstance(task, list) else task)
    if column is not None and type(task) is type(column) and task == column:
        found = without_task_column(stage, column, X, feature_names)[2]
        task = task if found is None else found
    check_new_name(task, model.tasks)
    check_takes_new_rows(model.objective, "add_task()")
    eval_set = with_class_numbers(eval_set, model.classes)
    rows = (X, y, weight, base_margin)
    data, own, params = checked_rows(
        model, task, rows, feature_names, params, objective, n_threads, seed
    )
    settings = Settings(
        backend=library,
        params=params,
        objectives=_objectives_beside(model, own, data.tasks, params, eval_metric),
        options=TreeOptions(unseen_at_random=draws_unseen(model, params)),
        rounds=0,
        early_stopping_rounds=check_early_stopping_rounds(early_stopping_rounds),
        min_delta=check_min_delta(min_delta),
        specific_params={},
        specific_rounds=check_count("specific_rounds", specific_rounds),
        n_threads=default_n_threads(n_threads, data.n_rows * data.common.n_features),
        feature_prior=feature_prior_of(library, feature_prior, params, data),
    )
    train: Dataset
    valid: Dataset | None
    if eval_set is None:
        classes = labels_are_classes(own, data.tasks)
        train, valid = hold_out(data, validation_fraction, classes, seed)
    else:
        train = data
        valid = validation_rows_of_new_task(stage, data, eval_set, feature_names, column)
        check_rows(library, valid, own, params, "eval_set: ")
    every = train if refit is False else data
    if valid is not None:
        if eval_set is not None and refit:
            valid.align(data)
            every = data.with_rows(valid)
        valid = with_positives(settings, Folds(((train, valid),)), data).pairs[0][1]
    signs = library.monotone_signs(model.params, model.common_columns)
    new = learn_task(
        stage,
        settings,
        train,
        valid,
        every,
        signs,
        is_auto=model.common_choice is not None,
        factor=factor_of_new_values(model.shrinkage_factor),
    )
    _add(model, task, new)


def checked_rows(
    model: FittedTasks,
    task: TaskName,
    rows: tuple[Any, Any, Any, Any],
    feature_names: Sequence[str] | None,
    params: Mapping[str, Any] | None,
    objective: str | Callable[..., Any] | None,
    n_threads: int | None,
    seed: int,
) -> tuple[Dataset, Objective, dict[str, Any]]:
    """Return the rows, (X, y, weight, base_margin), of a task that joins a model.

    With them their objective and the parameters of the specific model.
    """
    library = model._library
    X, y, weight, base_margin = rows
    own = (X, model._encode(y), weight, base_margin)
    data = rows_of_new_task(model._stage, task, own, feature_names, model.task_column)
    given = with_kept_parameters(model, library.parameters({} if params is None else params))
    of_task = objective_of_new_task(model.objective, objective, task, data, library)
    found = common_parameters(library, given, of_task, data, n_threads, seed, is_ours=False)
    check_rows(library, data, of_task, found)
    return data, of_task, found


def _without_dates(
    model: FittedTasks, X: Any, eval_set: Sequence[Any] | None
) -> tuple[Any, Sequence[Any] | None]:
    """Return rows and validation rows without dates that no task uses, such as the time of `fit`.

    Other columns that no task uses may be features of the new one; dates may not.
    """
    used = model._used_columns
    if used is None:
        return X, eval_set
    if model.task_column is not None:
        used = used.union(map(str, columns_of(model.task_column)))
    if eval_set is not None and len(eval_set):
        eval_set = (without_dates(eval_set[0], used), *eval_set[1:])
    return without_dates(X, used), eval_set


def _objectives_beside(
    model: FittedTasks, own: Objective, tasks: TaskSet, params: Mapping[str, Any], eval_metric: Any
) -> Objectives:
    """Return the objective and the metric of a new task beside those of a model."""
    metric = eval_metric
    if metric is None and isinstance(model.metric, str):
        metric = model.metric
        if not is_known(metric):
            raise ParameterError(
                f"The tasks of this model are validated by {metric!r}, a metric of the user's, "
                "which the model does not keep: pass it as eval_metric to add_task()."
            )
    found = make_objectives(model._library, own, metric, tasks, params)
    if isinstance(model.metric, str) and found.metric.name != model.metric:
        raise ParameterError(
            f"eval_metric is {found.metric.name!r}, but the tasks of this model are validated by "
            f"{model.metric!r}: leave it out, or pass the metric that fit() was given."
        )
    if isinstance(found, ObjectiveByTask) and isinstance(model.objective, dict):
        unit = unit_of_classes({**model.objective, **found.by_task}, model.losses)
        found = replace(found, class_unit=unit)
    return found


def _add(model: FittedTasks, task: TaskName, new: NewTask) -> None:
    """Add what was learned of a new task to the parts of a model."""
    model.common_trees = new.trees
    if isinstance(model.objective, dict) and isinstance(model.metric, dict) and new.loss:
        model.losses[task] = new.loss
        model.objective[task] = new.loss.objective
        model.metric[task] = new.metric
    model.reports[task] = new.report
    model.task_columns[task] = new.columns
    model.specific[task] = new.specific
    model.specific_params[task] = new.params
    model.quit_round[task] = new.quit_round
    model.conformity_scores.pop(task, None)  # those of an unknown task
    model._cache.clear()


def parts_without_task(model: FittedTasks, task: TaskName) -> dict[str, Any]:
    """Return the changed fields; :meth:`mtboost.MultiTaskModel.remove_task` has the arguments."""
    model._check_task(task)
    if len(model.tasks) == 1:
        raise DataError(
            f"Task {task!r} is the only one of the model, which needs one: fit a new model."
        )
    names = (
        *("quit_round", "task_columns", "reports", "losses", "specific_params"),
        "conformity_scores",
    )
    parts: dict[str, Any] = {name: getattr(model, name) for name in names}
    if isinstance(model.objective, dict):
        parts |= {"objective": model.objective, "metric": model.metric}
    found: dict[str, Any] = {
        name: {other: value for other, value in part.items() if other != task}
        for name, part in parts.items()
    }
    specific = model.specific.copy()
    del specific[task]
    trees = model.common_trees.without_task(task)
    if model.calibration is not None:
        found["calibration"] = model.calibration.without(task)
    return {**found, "specific": specific, "common_trees": trees}
