# SPDX-License-Identifier: Apache-2.0
"""Stage two of zhang2019: a specific model of each task (section 3.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array
from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName
from mtboost.base.threads import map_in_threads, openmp_threads
from mtboost.model.stages.common import CommonModel, followed_margins
from mtboost.model.stages.settings import Settings
from mtboost.trees.backend import Backend, Margins, Rows, UntrainableError
from mtboost.trees.feature_weights import FeaturePrior


@dataclass(frozen=True, slots=True)
class SpecificModel:
    """Stage two of one task; no booster, with the reason, where nothing was gained."""

    booster: Any
    n_rounds: int
    history: npt.NDArray[np.float64]
    reason: str


def fit_specific(
    settings: Settings,
    data: Dataset,
    valid: Dataset | None,
    common: CommonModel,
    n_rounds: Mapping[TaskName, int] | None = None,
    alone: Collection[TaskName] = (),
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
    """
    can_stop = settings.early_stopping_rounds is not None
    if n_rounds is None and not can_stop and valid is None:
        n_rounds = dict.fromkeys(data.tasks, settings.specific_rounds)
    if settings.specific_rounds == 0 or (n_rounds is None and valid is None):
        reason = "no validation rows" if settings.specific_rounds else "specific_rounds is 0"
        return {task: _no_model(settings.of_task(task), data, task, reason) for task in data.tasks}
    # The largest task first: it would otherwise be waited for at the end.
    tasks = sorted(data.tasks, key=lambda task: -len(data.tasks.rows(task)))
    models = {}
    if n_rounds is None and can_stop:
        assert valid is not None
        for task in (task for task in tasks if task not in valid.tasks):
            models[task] = _no_model(settings.of_task(task), data, task, "no validation rows")
        tasks = [task for task in tasks if task in valid.tasks]
    n_parallel = max(1, min(settings.n_threads, len(tasks)))
    stop = _Stop(settings.backend)
    start = settings.backend.start_score(common.trees.booster) if alone else None
    one_class = set(alone) & settings.tasks_of_one_class(data) if alone else set()
    continued = _Continued(
        data,
        valid,
        followed_margins(settings, common, data),
        followed_margins(settings, common, valid) if valid else None,
        _prior(settings, common, data),
        settings.n_threads // n_parallel,
        stop.callback,
    )

    def fit_one(task: TaskName) -> SpecificModel:
        own = settings.of_task(task)
        if task in one_class:
            return _no_model(own, data, task, "its rows have one class")
        fixed = None if n_rounds is None else n_rounds[task]
        try:
            with openmp_threads(continued.n_threads):
                return _fit_task(own, continued, task, fixed, start if task in alone else None)
        except UntrainableError as error:
            return _no_model(own, data, task, error.reason)

    found = map_in_threads(fit_one, tasks, n_parallel, stop.set)
    models |= zip(tasks, found, strict=True)
    return {task: models[task] for task in data.tasks}


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
    if n_rounds == 0:
        return _no_model(settings, data, task, "no gain on the validation rows")
    if data.weight is not None and not data.weight[data.tasks.rows(task)].any():
        return _no_model(settings, data, task, "no row has weight")
    params = backend.with_threads({**settings.params, **settings.specific_params}, n_threads)
    params = backend.own_parameters(params, data.common, table)
    weights = None
    if continued.prior is not None:
        params, weights = backend.feature_sampling(params, table, continued.prior)
    margins, valid_margins = continued.margins, continued.valid_margins
    if left_start is not None and data.base_margin is None:
        margins = valid_margins = None
    rows = _rows_of_task(table, data, task, margins, feature_weights=weights)
    matrix = backend.matrix(rows, params, n_threads)
    has_valid = continued.valid is not None and task in continued.valid.tasks
    if n_rounds is None and settings.early_stopping_rounds is None and not has_valid:
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
            booster = backend.document(booster).stand_alone(n_rounds, left_start)
        return SpecificModel(booster, n_rounds, np.empty(0), "")
    return _best_rounds(settings, data, task, booster, quitting, left_start)


def _best_rounds(
    settings: Settings,
    data: Dataset,
    task: TaskName,
    booster: Any,
    quitting: Any,
    left_start: Float32Array | None,
) -> SpecificModel:
    """Return the rounds up to the best on the validation rows."""
    ((_, history),) = quitting.history.items()
    all_rounds = settings.specific_rounds if settings.early_stopping_rounds is None else None
    best = next(iter(quitting.quit_round.values()), all_rounds)
    if not best:
        reason = "no improvement on its validation rows"
        if best is None:
            reason = f"{settings.metric.name} is undefined on its validation rows"
        return _no_model(settings, data, task, reason, history)
    document = settings.backend.document(booster)
    if left_start is None:
        first = document.first_rounds(best)
    else:
        first = document.stand_alone(best, left_start)
    return SpecificModel(first, best, history, "")


def _no_model(
    settings: Settings,
    data: Dataset,
    task: TaskName,
    reason: str,
    history: npt.NDArray[np.float64] | None = None,
) -> SpecificModel:
    """Return no rounds; with a booster only where the task's columns must be remembered."""
    history = np.empty(0) if history is None else history
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
