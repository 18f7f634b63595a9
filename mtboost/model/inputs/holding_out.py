# SPDX-License-Identifier: Apache-2.0
"""Rows that :func:`mtboost.fit` holds out to validate on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_choice
from mtboost.base.dataset import Dataset
from mtboost.base.shared_rows import may_be_panel, shared_rows
from mtboost.base.task_weights import TaskWeight, weights_with_tasks
from mtboost.base.user_warnings import warn_user
from mtboost.base.validation import (
    Folds,
    cross_validation,
    fraction_of,
    hold_out,
    hold_out_last,
    hold_out_tasks,
    split_by,
)
from mtboost.errors import DataError, ParameterError
from mtboost.metrics.survival import n_comparable_events
from mtboost.metrics.task_rows import TaskRows
from mtboost.model.inputs.arguments import DRAWN, Arguments
from mtboost.model.inputs.checked_rows import check_rows
from mtboost.model.inputs.making_settings import weight_of_positives
from mtboost.model.inputs.named_objectives import labels_are_classes
from mtboost.model.inputs.problem import Problem
from mtboost.model.sharing.effort import Effort
from mtboost.model.stages.settings import Settings
from mtboost.trees.losses import has_hazards

# Distinct rows that are held out, a fifth of all at a time, unless there are many rows in all.
_ENOUGH_ROWS = 2000
_MANY_ROWS = 10_000
# The same for tasks that are held out as new ones.
_ENOUGH_TASKS = 100
N_FOLDS = 5
_IS_PANEL = (
    "Most rows of X occur in several tasks, but not in all. Each is held out in all its tasks at "
    "once, so that the model is chosen by rows that no other task has. If the rows to predict are "
    "known from other tasks, as in a panel of subjects at several times, pass "
    "validation=KFold(5, shuffle=True) of scikit-learn; otherwise ignore this warning."
)


def split_rows(
    settings: Settings,
    problem: Problem,
    arguments: Arguments,
    task_weight_of_all: TaskWeight = None,
) -> tuple[Dataset, Folds | None]:
    """Return all rows, and pairs of rows to train on and to validate on, None for no hold-out.

    Validation rows of the user are held out in place of some of the others. The weights of tasks
    become part of those of the rows. `task_weight_of_all` is that of all rows, where it differs
    from that of the training rows: other machines have rows, too.
    """
    data, valid = problem.data, problem.valid
    all_rows = data
    if valid is not None:
        check_rows(settings.backend, valid, problem.objective, settings.params, "eval_set: ")
        if arguments.refit:
            all_rows = data.with_rows(valid)
            all_rows.weight = weights_with_tasks(
                all_rows.tasks, all_rows.weight, task_weight_of_all or problem.task_weight
            )
    data.weight = weights_with_tasks(data.tasks, data.weight, problem.task_weight)
    needs_events = arguments.is_auto and has_hazards(problem.objective)
    if valid is None:
        draw = _hold_out_with_events if needs_events else _hold_out
        return data, draw(problem, arguments)
    if arguments.is_auto and valid.queries is None:
        valid.groups = shared_rows(valid)
    folds = Folds(((data, valid),))
    return all_rows, _with_events(folds) if needs_events else folds


def _hold_out_with_events(problem: Problem, arguments: Arguments) -> Folds:
    """Return folds that hazards can be judged by; drawn so that each has events, if need be."""
    folds, validation = _hold_out(problem, arguments), arguments.validation
    assert folds is not None
    may_draw = isinstance(validation, str) and validation in DRAWN
    if may_draw and not all(map(_can_judge, folds.pairs)):
        events = (problem.data.numbers() > 0.0).astype(np.int64)
        folds = _hold_out(problem, arguments, events)
        assert folds is not None
    return _with_events(folds)


def _can_judge(pair: tuple[Dataset, Dataset]) -> bool:
    """Whether an event of the validation rows can be compared with another row of its task."""
    valid = pair[1]
    weight = None if valid.weight is None else valid.weight.astype(np.float64)
    rows = TaskRows(valid.tasks.codes, valid.tasks.n_tasks, weight)
    return n_comparable_events(valid.numbers().astype(np.float64), rows) > 0


def _with_events(folds: Folds) -> Folds:
    """Return the folds by which hazards can be judged; DataError if there is none."""
    pairs = tuple(filter(_can_judge, folds.pairs))
    if not pairs:
        raise DataError(
            "The validation rows have no event that can be compared: at the time of one, another "
            "row of its task must be at risk, and one event must stay to train on. Give more "
            "rows with events, other rows by eval_set or validation, or strategy='two-stage' "
            "with its num_boost_round rounds for all tasks."
        )
    return replace(folds, pairs=pairs)


def _hold_out(
    problem: Problem, arguments: Arguments, events: npt.NDArray[np.int64] | None = None
) -> Folds | None:
    """Return rows to train on and to validate on, in turn where auto has few rows.

    A row that several tasks have is held out in all of them, and counts once. Each part has as many
    rows of each number in `events`, if these are given.
    """
    data, validation, seed = problem.data, arguments.validation, arguments.seed
    fraction = arguments.validation_fraction
    classes = labels_are_classes(problem.objective, data.tasks)
    shared = shared_rows(data) if data.queries is None else data.queries
    if data.queries is None and arguments.is_auto:
        data.groups = shared
    if not isinstance(validation, str):
        return _by_splitter(problem, arguments, classes, shared)
    choices = (*DRAWN, "last", "tasks")
    check_choice("validation", validation, choices, besides="a splitter of scikit-learn")
    if validation == "tasks":
        return _whole_tasks(problem, arguments)
    are_outputs = data.queries is not None or data.label_names is not None
    may_be_warned = not are_outputs and validation in DRAWN
    if may_be_warned and shared is not None and may_be_panel(shared, data.tasks.n_tasks):
        warn_user(_IS_PANEL)
    by_class = validation == "stratified" or not arguments.is_auto or events is not None
    strata = classes if events is None else events
    if arguments.is_auto and isinstance(fraction, str) and fraction == "auto":
        n_distinct = data.n_rows if shared is None else len(np.unique(shared))
        assert isinstance(arguments.effort, Effort)
        n_folds = 1
        if n_distinct < arguments.effort.rows_held_out_once and data.n_rows < _MANY_ROWS:
            n_folds = min(N_FOLDS, -(-_ENOUGH_ROWS * N_FOLDS // max(1, n_distinct)))
        fraction = 1.0 / N_FOLDS  # for a single task too
        if validation != "last" and n_folds > 1 and arguments.refit is not False:
            folds = cross_validation(data, N_FOLDS, strata, seed, shared, by_class=by_class)
            if folds is None:
                raise _no_validation_rows(fraction, data)
            return Folds(folds.pairs[:n_folds])
    if validation == "last":
        assert problem.times is not None
        train, valid = hold_out_last(data, fraction, problem.times)
    else:
        train, valid = hold_out(data, fraction, strata, seed, shared, by_class=by_class)
    if valid is None and arguments.is_auto:
        raise _no_validation_rows(fraction, data, by_time=validation == "last")
    return None if valid is None else Folds(((train, valid),))


def _by_splitter(
    problem: Problem,
    arguments: Arguments,
    classes: bool | npt.NDArray[np.bool_],
    shared: npt.NDArray[np.integer[Any]] | None,
) -> Folds:
    """Return the rows that the user's splitter holds out."""
    data = problem.data
    if data.queries is None and shared is None:
        data.groups = np.arange(data.n_rows)  # the splitter may hold out a row several times
    split = split_by(data, arguments.validation, classes)
    if split.are_new_tasks:
        _check_can_be_new(problem, arguments)
    if len(split.pairs) > 1 and not arguments.is_auto:
        raise ParameterError(
            f"validation gives {len(split.pairs)} splits, but strategy='two-stage' holds out "
            "once: pass a splitter with n_splits=1, or strategy='auto'."
        )
    return split


def _whole_tasks(problem: Problem, arguments: Arguments) -> Folds:
    """Return folds of whole tasks, as many as there are enough tasks in."""
    _check_can_be_new(problem, arguments)
    data, fraction = problem.data, arguments.validation_fraction
    has_labels_alone = data.label_names is not None and data.tasks.n_levels == 1
    if has_labels_alone or data.tasks.n_tasks == 1:
        raise ParameterError(
            "validation='tasks' holds out whole tasks, and the rows have one task only: pass "
            "task=, or leave out validation."
        )
    if fraction != "auto":
        fraction = fraction_of(fraction, data.tasks.n_tasks)
        if not fraction:
            raise _no_validation_rows(fraction, data)
        return hold_out_tasks(data, 1, 1, fraction, arguments.seed)
    n_held_out = min(N_FOLDS, -(-_ENOUGH_TASKS * N_FOLDS // data.tasks.n_tasks))
    if arguments.refit is False:
        n_held_out = 1
    return hold_out_tasks(data, N_FOLDS, n_held_out, None, arguments.seed)


def _check_can_be_new(problem: Problem, arguments: Arguments) -> None:
    """Raise ParameterError where an argument is of no use for tasks that are held out as new."""
    if not arguments.is_auto:
        raise ParameterError(
            "validation holds out whole tasks, but strategy='two-stage' needs validation rows of "
            "each task to find the round in which it quits. Use strategy='auto'."
        )
    if isinstance(problem.objective, Mapping):
        raise ParameterError(
            "validation holds out whole tasks, and each task has an objective: a new task has "
            "none, and no start score. Give one objective, or leave validation out."
        )
    given = {
        "task_splits": arguments.task_splits is not None and arguments.task_splits is not False,
        "specific_params": bool(arguments.specific_params),
        "feature_prior": arguments.feature_prior is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise ParameterError(
                f"validation holds out whole tasks, and {name} is given, which is learned from the "
                "rows of a task and says nothing of new ones: leave one of them out."
            )


def check_later_rows(problem: Problem, arguments: Arguments, folds: Folds | None) -> None:
    """Raise DataError where the rows that come last are to be held out, and none does."""
    data, fraction = problem.data, arguments.validation_fraction
    by_time = isinstance(arguments.validation, str) and arguments.validation == "last"
    if by_time and folds is None and fraction_of(fraction, data.tasks.n_tasks):
        raise _no_later_rows(data)


def _no_later_rows(data: Dataset) -> DataError:
    of_query = "" if data.queries is None else ", and a query has the time of its last row"
    return DataError(
        "validation='last' holds out the rows of each task that are later than its others, and no "
        f"row is: in each task the time of all rows is the same{of_query}. Give times that differ "
        "within tasks, or validation='random'."
    )


def _no_validation_rows(
    fraction: float | Literal["auto"], data: Dataset, *, by_time: bool = False
) -> DataError | ParameterError:
    """Return the error for a hold-out without rows, with its remedy."""
    if not fraction:
        return ParameterError(
            "strategy='auto' chooses on validation rows: give eval_set, or a validation_fraction "
            "above 0."
        )
    if data.queries is not None and len(np.unique(data.queries)) == data.tasks.n_tasks:
        return ParameterError(
            "strategy='auto' chooses on validation rows. Whole queries are held out, one of each "
            "task must stay to train on, and each task has one query only. Give more queries, "
            "eval_set, or strategy='two-stage' with its num_boost_round rounds for all tasks."
        )
    if by_time:
        return _no_later_rows(data)
    return ParameterError(
        "strategy='auto' chooses on validation rows, and one row of each task (for a classifier "
        "also of each class) must stay to train on: no row is left to hold out. Give more "
        "rows, eval_set, or strategy='two-stage' with its num_boost_round rounds for all tasks."
    )


def with_positives(settings: Settings, folds: Folds, data: Dataset) -> Folds:
    """Return validation rows that count as the loss of `params` counts them."""
    names = settings.objectives.names
    if isinstance(names, str):
        objective = settings.objectives.function or names
        weight = weight_of_positives(settings.backend, objective, settings.params, data)
        return folds.with_positives(weight)
    for task in data.tasks:
        own = data.take(data.tasks.rows(task))
        weight = weight_of_positives(settings.backend, names[task], settings.params, own)
        folds = folds.with_positives(weight, {task})
    return folds


def check_training_rows(settings: Settings, train: Dataset) -> None:
    """Raise DataError unless some training row counts, and the start score is finite."""
    if train.weight is not None and not train.weight.any():
        raise DataError(
            "weight, times task_weight, is zero in every training row: at least one must count. "
            "Rows held out for validation (validation_fraction) are no training rows."
        )
    objectives = settings.objectives
    if objectives.function is None and isinstance(objectives.names, str):
        settings.backend.check_start(settings.params, train)
