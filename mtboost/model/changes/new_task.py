# SPDX-License-Identifier: Apache-2.0
"""A task that comes after training: its objective, and what is learnt of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mtboost.base.checks import refuse
from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns
from mtboost.base.tasks import TaskName
from mtboost.base.threads import openmp_threads
from mtboost.base.validation import Folds
from mtboost.errors import ParameterError, ParameterTypeError
from mtboost.model.changes.gains import gains_by_task
from mtboost.model.changes.new_effects import effects_of_new_task
from mtboost.model.parts.common_stage import CommonStage
from mtboost.model.parts.task_report import TaskReport, task_reports, validation_scores
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
