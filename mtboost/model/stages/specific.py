# SPDX-License-Identifier: Apache-2.0
"""Stage two of zhang2019: a specific model of each task (section 3.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array, Total
from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName
from mtboost.base.threads import map_in_threads, openmp_threads
from mtboost.model.stages.common import CommonModel, followed_margins
from mtboost.model.stages.settings import Settings
from mtboost.model.stages.small_models import fit_small_models, own_start
from mtboost.model.stages.team import Team, of_one_machine
from mtboost.trees.backend import Backend, Margins, Rows, UntrainableError
from mtboost.trees.document import Unloaded
from mtboost.trees.feature_weights import FeaturePrior

_NO_CURVE = np.empty(0)  # of all tasks without a model, which may be many


@dataclass(frozen=True, slots=True)
class SpecificModel:
    """Stage two of one task; no booster, with the reason, where nothing was gained.

    `trees` is a booster, or what it is made from when it is asked for, or None.
    """

    trees: Any
    n_rounds: int
    history: npt.NDArray[np.float64]
    reason: str

    @property
    def booster(self) -> Any:
        """The booster, or None."""
        return self.trees.document().load() if isinstance(self.trees, Unloaded) else self.trees

    def scaled(self, backend: Backend, factor: float) -> SpecificModel:
        """Return the model with all leaf values multiplied."""
        if isinstance(self.trees, Unloaded):
            return replace(self, trees=self.trees.scaled(factor))
        if self.trees is None or self.n_rounds == 0:
            return self
        return replace(self, trees=backend.document(self.trees).scaled(factor).load())

    def margins(self, backend: Backend, table: Table, margins: Margins) -> Margins:
        """Margins of rows of the task, from those that the model continues."""
        if self.trees is None or self.n_rounds == 0:
            return margins
        if isinstance(self.trees, Unloaded):
            return backend.continued_margins(self.trees, table, margins)
        return backend.predict_margin(self.trees, table, margins)


def fit_specific(
    settings: Settings,
    data: Dataset,
    valid: Dataset | None,
    common: CommonModel,
    n_rounds: Mapping[TaskName, int] | None = None,
    alone: Collection[TaskName] = (),
    followed: tuple[Margins, Margins] | None = None,
) -> dict[TaskName, SpecificModel]:
    """Continue the common model for each task on its own rows and all its columns.

    Parameters
    ----------
    n_rounds : mapping of task name to int, optional
        Rounds of each task; otherwise validation rows decide, or without
        ``early_stopping_rounds`` all tasks have all rounds.
    alone : collection of task names
        Tasks that use no common rounds, and begin at their own start score; without a model if
        all their rows are of one class, whose score would be infinite.
    followed : tuple of ndarray, optional
        Margins of the training and validation rows by the common model, where they are known.
    """
    can_stop = settings.early_stopping_rounds is not None
    if n_rounds is None and not can_stop and valid is None:
        n_rounds = dict.fromkeys(data.tasks, settings.specific_rounds)
    if settings.specific_rounds == 0 or (n_rounds is None and valid is None):
        reason = "no validation rows" if settings.specific_rounds else "specific_rounds is 0"
        return {task: _no_model(settings.of_task(task), data, task, reason) for task in data.tasks}
    if settings.team is not None and settings.team.divided:
        return _fit_on_machines(settings, settings.team, data, valid, common, n_rounds, alone)
    models, rounds = _without_models(settings, data, valid if can_stop else None, n_rounds, alone)
    # The largest task first: it would otherwise be waited for at the end.
    order = np.argsort(-data.tasks.counts, kind="stable").tolist()
    tasks = [task for task in map(data.tasks.names.__getitem__, order) if task not in models]
    n_parallel = max(1, min(settings.n_threads, len(tasks)))
    stop = _Stop(settings.backend)
    start = _left_start(settings, data, common) if alone else None
    margins, valid_margins = followed or (
        followed_margins(settings, common, data),
        followed_margins(settings, common, valid) if valid else None,
    )
    continued = _Continued(
        data,
        valid,
        margins,
        valid_margins,
        _prior(settings, common, data),
        settings.n_threads // n_parallel,
        stop.callback,
    )
    if n_rounds is None and can_stop:
        models |= _without_splits(settings, continued, [*set(tasks).difference(alone)])
        tasks = [task for task in tasks if task not in models]
    models |= _fit_small(settings, continued, tasks, rounds, dict.fromkeys(alone, start))
    tasks = [task for task in tasks if task not in models]

    def fit_one(task: TaskName) -> SpecificModel:
        own = settings.of_task(task)
        try:
            with openmp_threads(continued.n_threads):
                return _fit_task(
                    own, continued, task, rounds.get(task), start if task in alone else None
                )
        except UntrainableError as error:
            return _no_model(own, data, task, error.reason)

    found = map_in_threads(fit_one, tasks, n_parallel, stop.set)
    models |= zip(tasks, found, strict=True)
    return {task: models[task] for task in data.tasks}


def _without_models(
    settings: Settings,
    data: Dataset,
    valid: Dataset | None,
    n_rounds: Mapping[TaskName, int] | None,
    alone: Collection[TaskName],
    total: Total = of_one_machine,
) -> tuple[dict[TaskName, SpecificModel], dict[TaskName, int]]:
    """Tasks of which there is nothing to train, and the rounds that are fixed."""
    names = data.tasks.names
    rounds = {} if n_rounds is None else dict(n_rounds)
    reasons: dict[TaskName, str] = {}
    if data.weight is not None:
        codes = data.tasks.codes[data.weight > 0]
        n_counted = total(np.bincount(codes, minlength=len(names)).astype(np.float64))
        reasons |= dict.fromkeys(compress(names, n_counted == 0), "no row has weight")
    if n_rounds is None and valid is not None:
        own = dict(zip(valid.tasks, valid.tasks.counts.tolist(), strict=True))
        n_valid = total(np.array([own.get(task, 0) for task in names], np.float64))
        reasons |= dict.fromkeys(compress(names, n_valid == 0), "no validation rows")
    without = [task for task, n in rounds.items() if n == 0]
    reasons |= dict.fromkeys(without, "no gain on the validation rows")
    if alone:
        of_one_class = settings.tasks_of_one_class(data, total).intersection(alone)
        reasons |= dict.fromkeys(of_one_class, "its rows have one class")
    return {
        task: _no_model(settings.of_task(task), data, task, reason)
        for task, reason in reasons.items()
        if task in data.tasks
    }, rounds


def _without_splits(
    settings: Settings, continued: _Continued, tasks: Sequence[TaskName]
) -> dict[TaskName, SpecificModel]:
    """Models of tasks with so few rows that no tree has a split, which are known without training.

    Their metric stays what it is after the common rounds until they end.
    """
    data, valid, backend = continued.data, continued.valid, settings.backend
    objectives = settings.objectives
    if objectives.losses or objectives.function is not None or settings.options.symmetric_trees:
        return {}
    codes = np.array([data.tasks.code(task) for task in tasks], np.int64)
    params = {**settings.params, **settings.specific_params}
    has_none = backend.have_no_splits(params, data.tasks.counts[codes])
    if not has_none.any():
        return {}
    assert valid is not None
    assert continued.valid_margins is not None
    assert settings.early_stopping_rounds is not None
    values = settings.evaluate(valid, continued.valid_margins)
    models = {}
    for place in np.flatnonzero(has_none).tolist():
        task, most = tasks[place], settings.specific_rounds
        value = values[valid.tasks.code(task)]
        is_defined = not np.isnan(value)
        n_rounds = min(most, settings.early_stopping_rounds) if is_defined else most
        history = np.full(n_rounds + 1, value)
        best = 0 if is_defined else None
        models[task] = _best_rounds(settings, data, task, None, best, history)
    return models


def _fit_small(
    settings: Settings,
    continued: _Continued,
    tasks: Sequence[TaskName],
    n_rounds: Mapping[TaskName, int],
    left_starts: Mapping[TaskName, Float32Array | None],
) -> dict[TaskName, SpecificModel]:
    """Train the models of tasks with few rows together; those of the others are missing.

    `left_starts` has the start score of the common model for tasks that do not use it.
    """
    data, valid = continued.data, continued.valid
    if continued.prior is not None or continued.margins is None:
        return {}
    groups: dict[tuple[bool, bool], list[TaskName]] = {}
    for task in tasks:
        kind = (task in left_starts, _is_fixed(task, n_rounds, valid))
        groups.setdefault(kind, []).append(task)
    models = {}
    for (are_alone, is_fixed), own in groups.items():
        if are_alone and data.base_margin is not None:
            continue
        most = np.array([n_rounds.get(task, settings.specific_rounds) for task in own])
        has_start = bool(settings.objectives.losses)  # among the margins
        found = fit_small_models(
            settings,
            data,
            continued.margins,
            own,
            most,
            None if is_fixed else valid,
            None if is_fixed else continued.valid_margins,
            are_alone=are_alone and not has_start,
        )
        for task, model in found.items():
            trees, left_start = model.trees, left_starts.get(task)
            if left_start is not None:
                trees = trees.with_first_round(model.start - left_start)
            if is_fixed:
                models[task] = SpecificModel(trees, model.n_rounds, model.history, "")
            else:
                best = model.n_rounds if model.is_defined else None
                models[task] = _best_rounds(settings, data, task, trees, best, model.history)
    return models


def _fit_on_machines(
    settings: Settings,
    team: Team,
    data: Dataset,
    valid: Dataset | None,
    common: CommonModel,
    n_rounds: Mapping[TaskName, int] | None,
    alone: Collection[TaskName],
) -> dict[TaskName, SpecificModel]:
    """Train the models of divided tasks on all machines together, the others on this one.

    Machines whose other tasks have nothing to train do not come here: divided tasks without rounds
    must not need them.
    """
    settings = replace(settings, team=None)
    models = {}
    divided = [task for task in team.divided if n_rounds is None or n_rounds[task] > 0]
    whole = [task for task in data.tasks if task not in divided]
    if whole:
        own_valid = valid.of_tasks(whole) if valid else None
        own = data.of_tasks(whole)
        models = fit_specific(settings, own, own_valid, common, n_rounds, alone)
    if not divided:
        return models
    part = data.of_tasks(divided)
    valid_part = valid.of_tasks(divided) if valid else None
    continued = _Continued(
        part.with_task_names(divided),
        valid_part.with_task_names(divided) if valid_part else None,
        followed_margins(settings, common, part),
        followed_margins(settings, common, valid_part) if valid_part else None,
        _prior(settings, common, data),
        settings.n_threads,
        _Stop(settings.backend).callback,
    )
    alone = [task for task in divided if task in alone]
    fit = partial(_fit_divided, settings, team, continued, common, n_rounds, alone)
    models |= team.call(fit)
    return {task: models[task] for task in data.tasks}


def _left_start(settings: Settings, data: Dataset, common: CommonModel) -> Float32Array | None:
    """Return the start score of the common model that tasks alone do not use.

    None where their models continue margins: base margins, or the constants of different losses.
    """
    if data.base_margin is not None or settings.objectives.losses:
        return None
    return settings.backend.start_score(common.trees.booster)


def start_alone(settings: Settings, data: Dataset, task: TaskName, left: Margins) -> Margins:
    """Return what a model of a task alone starts from; `left` if it continues other margins.

    Of those libraries whose models may have no round.
    """
    objectives = settings.objectives
    if data.base_margin is not None or objectives.losses or objectives.function is not None:
        return left
    rows = data.tasks.rows(task)
    weights = None if data.weight is None else data.weight[rows]
    params = {**settings.params, **settings.specific_params}
    return own_start(settings.backend, params, data.labels()[rows], weights)


def _fit_divided(
    settings: Settings,
    team: Team,
    continued: _Continued,
    common: CommonModel,
    n_rounds: Mapping[TaskName, int] | None,
    alone: Collection[TaskName],
) -> dict[TaskName, SpecificModel]:
    """Train one model after the other, each on the rows of all machines."""
    data, valid = continued.data, continued.valid
    if settings.early_stopping_rounds is None:
        valid = None
    models, rounds = _without_models(settings, data, valid, n_rounds, alone, team.total)
    start = _left_start(settings, data, common) if alone else None
    for task in data.tasks:
        if task not in models:
            own, left_start = settings.of_task(task), start if task in alone else None
            models[task] = _fit_task(own, continued, task, rounds.get(task), left_start)
    return models


def _is_fixed(task: TaskName, n_rounds: Mapping[TaskName, int], valid: Dataset | None) -> bool:
    """Whether a task's rounds need no validation rows: given, or without any all."""
    return task in n_rounds or valid is None or task not in valid.tasks


@dataclass(frozen=True, slots=True)
class _Continued:
    """Rows of all tasks, with the margins that their models continue."""

    data: Dataset
    valid: Dataset | None
    margins: Margins | None
    valid_margins: Margins | None
    prior: FeaturePrior | None
    n_threads: int  # of each model
    stop: Any


def _fit_task(
    settings: Settings,
    continued: _Continued,
    task: TaskName,
    n_rounds: int | None,
    left_start: Float32Array | None,
) -> SpecificModel:
    """Train one model; `left_start` is the start score of a common model that it does not use."""
    backend, data, n_threads = settings.backend, continued.data, continued.n_threads
    table = data.task_table(task)
    params = backend.with_threads({**settings.params, **settings.specific_params}, n_threads)
    params = backend.own_parameters(params, data.common, table)
    weights = None
    if continued.prior is not None:
        params, weights = backend.feature_sampling(params, table, continued.prior)
    margins, valid_margins = continued.margins, continued.valid_margins
    if left_start is not None:
        margins = valid_margins = None
    rows = _rows_of_task(table, data, task, margins, feature_weights=weights)
    matrix = backend.matrix(rows, params, n_threads)
    if n_rounds is None and (continued.valid is None or task not in continued.valid.tasks):
        n_rounds = settings.specific_rounds
    valid_matrix, callbacks = None, [continued.stop]
    if n_rounds is None:
        assert continued.valid is not None
        valid_table = Columns.of(table).align(continued.valid.task_table(task))
        valid_rows = _rows_of_task(valid_table, continued.valid, task, valid_margins)
        valid_matrix = backend.matrix(valid_rows, params, n_threads, matrix)
        quitting = backend.quitting(
            valid_matrix,
            None,
            metric=settings.metric,
            early_stopping_rounds=settings.early_stopping_rounds,
            min_delta=settings.min_delta,
        )
        callbacks = [quitting, continued.stop]
    booster = backend.train_plain(
        params,
        matrix,
        settings.specific_rounds if n_rounds is None else n_rounds,
        objective=settings.objectives.function,
        options=settings.options,
        valid=valid_matrix,
        callbacks=callbacks,
        table=table,
    )
    if n_rounds is not None:
        if left_start is not None:
            booster = backend.document(booster).starting_at(left_start, n_rounds).load()
        return SpecificModel(booster, n_rounds, np.empty(0), "")
    ((_, history),) = quitting.history.items()
    all_rounds = settings.specific_rounds if settings.early_stopping_rounds is None else None
    best = next(iter(quitting.quit_round.values()), all_rounds)
    if best:
        document = backend.document(booster)
        if left_start is None:
            booster = document.first_rounds(best)
        else:
            booster = document.starting_at(left_start, best).load()
    return _best_rounds(settings, data, task, booster, best, history)


def _best_rounds(
    settings: Settings,
    data: Dataset,
    task: TaskName,
    trees: Any,
    best: int | None,
    history: npt.NDArray[np.float64],
) -> SpecificModel:
    """Return the rounds up to the best on the validation rows, which are `trees`."""
    if best:
        return SpecificModel(trees, best, history, "")
    reason = "no improvement on its validation rows"
    params = {**settings.params, **settings.specific_params}
    if settings.backend.have_no_splits(params, data.tasks.counts[[data.tasks.code(task)]]).all():
        reason = "too few rows for a split: a smaller min_data_in_leaf in params allows one"
    if best is None:
        reason = f"{settings.metric.name} is undefined on its validation rows"
    return _no_model(settings, data, task, reason, history)


def _no_model(
    settings: Settings,
    data: Dataset,
    task: TaskName,
    reason: str,
    history: npt.NDArray[np.float64] | None = None,
) -> SpecificModel:
    """Return no rounds; with a booster only where the task's columns must be remembered."""
    history = _NO_CURVE if history is None else history
    own, common = data.task_columns(task), data.common
    if (own.feature_names, own.n_features) == (common.feature_names, common.n_features):
        return SpecificModel(None, 0, history, reason)
    return SpecificModel(settings.backend.empty_booster(own, settings.params), 0, history, reason)


def _rows_of_task(
    table: Table, data: Dataset, task: TaskName, margins: Margins | None, **options: Any
) -> Rows:
    rows = data.tasks.rows(task)
    return Rows(
        table,
        data.labels()[rows],
        None if data.weight is None else data.weight[rows],
        None if margins is None else margins[rows],
        queries=None if data.queries is None else data.queries[rows],
        **options,
    )


def _prior(settings: Settings, common: CommonModel, data: Dataset) -> FeaturePrior | None:
    """Return what the specific models draw features by; a common model may have no splits."""
    if not isinstance(settings.feature_prior, str):
        return settings.feature_prior
    gains = settings.backend.importance(common.trees.booster, "total_gain")
    names = settings.backend.feature_names(Columns.of(data.common))
    values = [gains.get(name, 0.0) for name in names]
    if not any(values):
        return None
    return values if data.common.feature_names is None else dict(zip(names, values, strict=True))


class _Stop:
    """Ends the trainings whose callback it is, in whatever thread, after the round they are in."""

    def __init__(self, backend: Backend) -> None:
        self.is_set = False
        self.callback = backend.stop_if(lambda: self.is_set)

    def set(self) -> None:
        self.is_set = True
