# SPDX-License-Identifier: Apache-2.0
"""The result of training both stages, and the model made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.dataset import Dataset
from mtboost.base.labels import weights_or_ones
from mtboost.base.shared_rows import shared_rows
from mtboost.base.tables import Columns
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import openmp_threads
from mtboost.base.validation import Folds, cross_validation
from mtboost.errors import DataError
from mtboost.model.inputs.arguments import DRAWN, Arguments
from mtboost.model.inputs.holding_out import N_FOLDS
from mtboost.model.model import MultiTaskModel
from mtboost.model.parts.boosters import Boosters
from mtboost.model.parts.calibration import Calibration, fit_calibration
from mtboost.model.parts.task_report import task_reports
from mtboost.model.prediction.evaluation import margins_of_rows
from mtboost.model.prediction.intervals import score_dataset
from mtboost.model.sharing.curves import mean_histories
from mtboost.model.sharing.evidence import WITH_INDEPENDENT
from mtboost.model.sharing.plan import SharingPlan, fit_plan
from mtboost.model.sharing.towards_constant import factor_of_new_values
from mtboost.model.stages.baselines import baseline_scores
from mtboost.model.stages.common import CommonModel, refit_common
from mtboost.model.stages.settings import Settings
from mtboost.model.stages.specific import SpecificModel, fit_specific
from mtboost.trees.losses import is_classification


@dataclass(frozen=True, slots=True)
class Fitted:
    """Result of training both stages.

    Attributes
    ----------
    settings : Settings
        Those of the models that are kept.
    common : CommonModel
    specific : dict of task name to SpecificModel
        The models that are kept.
    validated : dict of task name to SpecificModel
        Those that validation rows have judged, which saw the training rows alone.
    scores : dict of task name to dict of str to float
        Validation metric of each task, by what predicts it.
    rows : Dataset
        Those that the models that are kept were trained on.
    plan : SharingPlan, optional
        What ``strategy="auto"`` has chosen.
    common_losses : dict of str to float
    common_choice : str or None
    shrinkage_factor : float or None
    has_task_levels : bool or None
    params : mapping
    specific_params : mapping of task name to mapping
        See :class:`MultiTaskModel`.
    callbacks : tuple of callbacks
        The user's, of the common model; those that train the same on other rows cannot end it.
    """

    settings: Settings
    common: CommonModel
    specific: dict[TaskName, SpecificModel]
    validated: dict[TaskName, SpecificModel]
    scores: dict[TaskName, dict[str, float]]
    rows: Dataset
    plan: SharingPlan | None = None
    common_losses: dict[str, float] = field(default_factory=dict)
    common_choice: str | None = None
    shrinkage_factor: float | None = None
    has_task_levels: bool | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    specific_params: Mapping[TaskName, Mapping[str, Any]] = field(default_factory=dict)
    callbacks: tuple[Any, ...] = ()

    def on_rows(self, rows: Dataset) -> Fitted:
        """Train the same on other rows of the tasks; nothing is chosen anew."""
        settings = self.settings.on_rows(rows)
        callbacks = tuple(map(settings.backend.unable_to_end, self.callbacks))
        if self.plan is not None:
            common, specific = fit_plan(self.plan.for_rows(rows.n_rows), rows, callbacks)
        else:
            common = refit_common(settings, rows, self.common, callbacks)
            rounds = {task: model.n_rounds for task, model in self.validated.items()}
            specific = fit_specific(settings, rows, None, common, rounds)
        return replace(self, settings=settings, common=common, specific=specific, rows=rows)

    def add_baselines(self, folds: Folds) -> None:
        """Add the scores of what users would try without mtboost."""
        found = []
        for train, valid in folds.pairs:
            settings = self.settings.on_rows(train)
            with openmp_threads(settings.n_threads):
                found.append(baseline_scores(settings, train, valid))
        n_rows = folds.valid_rows_by_task(folds.tasks)
        for name in found[0]:
            scores = [{task: np.array([own[name][task]]) for task in own[name]} for own in found]
            losses = self.settings.objectives.losses_of(folds.tasks.names)
            mean = mean_histories(losses, scores, folds.tasks.names, n_rows)
            for task, (value,) in mean.items():
                self.scores[task][name] = float(value)

    def to_parts(self, data: Dataset, folds: Folds | None) -> dict[str, Any]:
        """Return the attributes of the model by name, but for the place of the task column."""
        common, objectives = self.common, self.settings.objectives
        backend = self.settings.backend
        return {
            "common_trees": common.trees,
            "specific": {task: own.trees for task, own in self.specific.items()},
            "quit_round": common.quit_round,
            "common_columns": Columns.of(data.common),
            "task_columns": _shared(
                Columns.of, {task: data.task_columns(task) for task in data.tasks}
            ),
            "objective": objectives.names,
            "metric": objectives.metric_names,
            "reports": task_reports(
                data,
                folds,
                common,
                self.validated,
                self.scores,
                objectives.names,
                None if self.plan is None else self.plan.sharing,
            ),
            "losses": dict(objectives.losses),
            "common_losses": self.common_losses,
            "common_choice": self.common_choice,
            "shrinkage_factor": self.shrinkage_factor,
            "has_task_levels": self.has_task_levels,
            "unseen_at_random": self.settings.options.unseen_at_random,
            "params": backend.without_threads(self.params),
            "specific_params": _shared(backend.without_threads, self.specific_params),
        }


def _shared(make: Callable[[Any], Any], by_task: Mapping[TaskName, Any]) -> dict[TaskName, Any]:
    """Return what is made for each task: the same for tasks that have the same object."""
    found = {id(own): make(own) for own in {id(own): own for own in by_task.values()}.values()}
    return {task: found[id(own)] for task, own in by_task.items()}


def fitted_by_plan(
    settings: Settings,
    plan: SharingPlan,
    common: CommonModel,
    specific: dict[TaskName, SpecificModel],
    rows: Dataset,
    callbacks: tuple[Any, ...] = (),
) -> Fitted:
    """Return what has been trained on these rows as the plan says."""
    common_params, own_params = (
        _slower(each, plan.factor) for each in (plan.settings.params, plan.independent.params)
    )
    continued = _slower({**plan.settings.params, **plan.specific_params}, plan.factor)
    return Fitted(
        settings.on_rows(rows),
        common,
        specific,
        specific,
        plan.scores,
        rows,
        plan,
        plan.common_losses,
        plan.common_choice,
        plan.factor,
        plan.has_levels,
        common_params,
        {
            task: own_params if way in WITH_INDEPENDENT else continued
            for task, way in plan.sharing.items()
        },
        callbacks,
    )


def _slower(params: Mapping[str, Any], factor: float) -> Mapping[str, Any]:
    """Return parameters whose trees have leaf values that are multiplied: for new leaf values."""
    factor = factor_of_new_values(factor)
    if factor == 1.0 or "learning_rate" not in params:
        return params
    return {**params, "learning_rate": factor * params["learning_rate"]}


def model_of(parts: Mapping[str, Any], *, is_auto: bool) -> MultiTaskModel:
    """Assemble the model from its attributes by name; the specific models are a mapping of trees.

    See :meth:`Fitted.to_parts`. Common rounds that quitting has left to no task are dropped:
    unknown tasks do not need them either.
    """
    own = {**parts, "specific": Boosters(parts["specific"])}
    if not is_auto and not any(parts["quit_round"].values()):
        own["common_trees"] = parts["common_trees"].without_rounds()
    return MultiTaskModel(**own)


def add_held_out(
    model: MultiTaskModel,
    fitted: Fitted,
    folds: Folds | None,
    data: Dataset,
    arguments: Arguments,
) -> None:
    """Add what held-out rows show: their errors for intervals, and the calibration of classes.

    `folds` and `data` are what :func:`split_rows` returned.
    """
    validation = arguments.validation
    may_draw = arguments.eval_set is None and isinstance(validation, str) and validation in DRAWN
    if folds and folds.are_new_tasks:  # they say nothing of tasks that are known
        folds, may_draw = None, True
    rows_for = partial(_held_out, fitted, model, folds, data, arguments.seed if may_draw else None)
    if arguments.intervals:
        model.conformity_scores = _held_out_scores(rows_for("intervals"))
    if arguments.calibrate:
        model.calibration = _calibration_of(rows_for("calibrate"), model._task_set)


def _held_out(
    fitted: Fitted,
    model: MultiTaskModel,
    folds: Folds | None,
    data: Dataset,
    seed: int | None,
    argument: str,
) -> Iterator[tuple[MultiTaskModel, Dataset]]:
    """Yield models, each with rows that it was not trained on.

    Parameters
    ----------
    fitted : Fitted
    model : MultiTaskModel
        The same as a model.
    folds : Folds or None
        Validation rows.
    data : Dataset
        All rows.
    seed : int or None
        Of drawing rows to hold out in turn; None where the user has said which to hold out.
    argument : str
        What needs the rows, for a message.
    """
    if folds and fitted.rows is folds.pairs[0][0]:
        yield model, folds.pairs[0][1]
        return
    if seed is not None and (folds is None or len(folds.pairs) < N_FOLDS):
        objective = fitted.settings.objectives.names
        classes = isinstance(objective, str) and is_classification(objective)
        folds = cross_validation(data, N_FOLDS, classes, seed, shared_rows(data))
    if folds is None:
        raise DataError(
            f"{argument}=True needs rows to hold out, and one row of each task must stay to train "
            "on: give more rows."
        )
    for train, valid in folds.pairs:
        with openmp_threads(fitted.settings.n_threads):
            parts = fitted.on_rows(train).to_parts(train, None)
        nowhere = {"task_column": None, "task_position": None}
        yield model_of({**parts, **nowhere}, is_auto=fitted.plan is not None), valid


def _calibration_of(
    held_out: Iterable[tuple[MultiTaskModel, Dataset]], tasks: TaskSet
) -> Calibration:
    """Return the calibration of tasks by models and rows that they were not trained on."""
    parts = []
    for model, valid in held_out:
        codes = model._task_set.codes_of_rows(valid.tasks)
        weights = weights_or_ones(valid.weight, valid.n_rows)
        of_tasks = tasks.codes_of_rows(valid.tasks).astype(np.int64)
        parts.append((margins_of_rows(model, valid, codes), valid.labels(), weights, of_tasks))
    margins, labels, weights = (
        np.concatenate([part[number] for part in parts]).astype(np.float64) for number in range(3)
    )
    of_rows = np.concatenate([part[3] for part in parts])
    if weights.any():
        weights = weights / weights[weights > 0].mean()
    pooled, by_task = fit_calibration(margins, labels, weights, of_rows, len(tasks))
    has_rows = np.bincount(of_rows, weights, len(tasks)) > 0
    found = {task: (own[0], own[1]) for task, own in zip(tasks, by_task.tolist(), strict=True)}
    return Calibration(
        (float(pooled[0]), float(pooled[1])),
        {task: found[task] for task, has in zip(tasks, has_rows, strict=True) if has},
    )


def _held_out_scores(
    held_out: Iterable[tuple[MultiTaskModel, Dataset]],
) -> dict[TaskName, Float64Array]:
    """Return conformity scores of rows that the models predicting them were not trained on."""
    by_task: dict[TaskName, list[Float64Array]] = {}
    for model, valid in held_out:
        for task, scores in score_dataset(model, valid).items():
            by_task.setdefault(task, []).append(scores)
    return {task: np.concatenate(scores) for task, scores in by_task.items()}
