# SPDX-License-Identifier: Apache-2.0
"""What each worker does in :func:`mtboost.dask.fit`: with its rows, what one machine does with all.

The client (fitting.py) calls these functions in order: :func:`split` the partitions by worker,
:func:`prepare` the rows, :func:`search` on a sample, and :func:`train`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtboost.base.dataset import Dataset
from mtboost.base.task_weights import TaskWeight
from mtboost.base.tasks import TaskName
from mtboost.base.times import check_times, split_time
from mtboost.base.validation import Folds, fraction_of, validation_data
from mtboost.dask.chunks import (
    Chunk,
    in_partition,
)
from mtboost.dask.placing import Placement
from mtboost.dask.searching import (
    Found,
    of_tasks,
    search_sample,
)
from mtboost.dask.workers import WorkerTeam, threads_of, threads_of_worker
from mtboost.errors import DataError
from mtboost.model.fitted import fitted_by_plan
from mtboost.model.fitting import fit_two_stages
from mtboost.model.inputs.arguments import Arguments, Strategy
from mtboost.model.inputs.checked_rows import check_rows
from mtboost.model.inputs.holding_out import check_training_rows, split_rows
from mtboost.model.inputs.problem import Problem
from mtboost.model.sharing.effort import Effort
from mtboost.model.sharing.plan import SharingPlan, fit_plan
from mtboost.model.stages.settings import Settings


@dataclass(frozen=True, slots=True)
class Job:
    """What the workers are to do with their rows."""

    placement: Placement
    settings: Settings
    template: Dataset
    column: str | int | None
    #: Of training rows, and of all rows.
    task_weights: tuple[TaskWeight, TaskWeight]
    has_eval_set: bool
    #: Without rows.
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows of a worker.

    Attributes
    ----------
    all_rows : Dataset
        To be trained on in the end.
    folds : Folds or None
        Rows to train on and to validate on; None if this worker holds none out.
    """

    all_rows: Dataset
    folds: Folds | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a worker reports of its rows."""

    has_validation: bool
    problem: str | None


def item(pieces: Sequence[Chunk | None], rank: int) -> Chunk | None:
    return pieces[rank]


def split(
    chunk: Chunk, number: int, n_before: Mapping[TaskName, int], *, job: Job
) -> list[Chunk | None]:
    """Return the rows of a partition for each worker, None for one that gets none."""
    n_workers = job.placement.n_workers
    if not chunk.n_rows:
        return [None] * n_workers
    tasks = chunk.tasks(job.column)
    settings = job.settings
    if settings.objectives.function is None and isinstance(settings.objectives.names, str):
        try:
            settings.backend.check_labels(
                settings.objectives.names, settings.params, chunk.rows["y"]
            )
        except DataError as error:
            raise in_partition(number, error) from None
    worker = job.placement.workers_of(tasks, n_before)
    places = [np.flatnonzero(worker == rank) for rank in range(n_workers)]
    return [chunk.take(own) if len(own) else None for own in places]


def search(
    chunk: Chunk, valid_chunk: Chunk | None, *, n_threads: int | None, job: Job, effort: Effort
) -> Found:
    """Search on the rows of a sample."""
    prepared = prepare(chunk, valid_chunk, job=job, fraction=job.arguments.validation_fraction)
    assert prepared.folds is not None
    n_threads = threads_of(n_threads)
    settings = _with_threads(job.settings, n_threads)
    with threads_of_worker(n_threads):
        return search_sample(settings, prepared.folds, effort)


def _with_threads(settings: Settings, n_threads: int) -> Settings:
    params = settings.backend.with_threads(settings.params, n_threads)
    return replace(settings, params=params, n_threads=n_threads)


def prepare(chunk: Chunk, valid_chunk: Chunk | None, *, job: Job, fraction: Any = None) -> Prepared:
    """Check the rows of a worker, and hold some of them out, by default as two stages need it."""
    settings, template, arguments = job.settings, job.template, job.arguments
    data, times = _dataset(chunk, job)
    objective = settings.objectives.function or settings.objectives.names
    check_rows(settings.backend, data, objective, settings.params)
    check_times(times, arguments.validation, data.n_rows)
    valid = None
    if job.has_eval_set:
        valid = data.take(np.empty(0, np.int64))
        if valid_chunk is not None:
            rows = valid_chunk.rows
            X = valid_chunk.X
            if arguments.time is not None and arguments.time in getattr(X, "columns", ()):
                X = X.drop(columns=arguments.time)
            eval_set = (X, rows["y"], rows.get("task"), None, rows.get("base_margin"))
            valid = validation_data(data, eval_set, arguments.feature_names)
            valid.weight = rows.get("weight")  # of this worker all may be 0
        valid.align(template)
    strategy: Strategy = "auto"
    if fraction is None:  # what "auto" has found is trained on all rows
        strategy, fraction = "two-stage", 0.0
        if not arguments.is_auto:
            fraction = fraction_of(arguments.validation_fraction, template.tasks.n_tasks)
    task_weight, task_weight_of_all = (
        {name: weights[name] for name in data.tasks} if isinstance(weights, Mapping) else weights
        for weights in job.task_weights
    )
    problem = Problem(
        data, settings.backend, objective, task_weight=task_weight, valid=valid, times=times
    )
    own = replace(arguments, strategy=strategy, validation_fraction=fraction)
    return Prepared(*split_rows(settings, problem, own, task_weight_of_all))


def _dataset(chunk: Chunk, job: Job) -> tuple[Dataset, Any]:
    arguments = job.arguments
    X, times = chunk.X, None
    if arguments.time is not None:
        X, times = split_time(X, arguments.time)
    rows = chunk.rows
    data = Dataset(
        X,
        rows["y"],
        task=rows["task"] if job.column is None else job.column,
        base_margin=rows.get("base_margin"),
        feature_names=arguments.feature_names,
        common_features=arguments.common_features,
    )
    data.weight = rows.get("weight")  # of this worker all may be 0
    data.align(job.template)
    return data, times


def facts_of(prepared: Prepared, *, settings: Settings) -> Facts:
    folds = prepared.folds
    try:
        check_training_rows(settings, prepared.all_rows if folds is None else folds.pairs[0][0])
    except DataError as error:
        return Facts(folds is not None, str(error))
    return Facts(folds is not None, None)


def train(
    prepared: Prepared,
    collective: Mapping[str, Any] | None,
    *,
    n_threads: int | None,
    settings: Settings,
    tasks: tuple[TaskName, ...],
    divided: tuple[TaskName, ...],
    has_validation: bool,
    refit: bool | None,
    callbacks: tuple[Any, ...],
    plan: SharingPlan | None,
) -> dict[str, Any]:
    """Train both stages, and return the attributes of the model of this worker's tasks."""
    n_threads = threads_of(n_threads)
    settings, folds = _with_threads(settings, n_threads), prepared.folds
    data = prepared.all_rows
    with ExitStack() as stack:
        stack.enter_context(threads_of_worker(n_threads))
        team = None
        if collective is not None:
            members = tasks if plan is None else tuple(plan.pool)
            team = stack.enter_context(WorkerTeam(collective, members, divided, n_threads))
        if plan is not None:
            own = of_tasks(plan, data.tasks.names)
            own = replace(
                own,
                settings=replace(_with_threads(own.settings, n_threads), team=team),
                independent=replace(_with_threads(own.independent, n_threads), team=team),
            )
            folds, fitted = (
                None,
                fitted_by_plan(settings, own, *fit_plan(own, data, callbacks), data),
            )
        else:
            if folds is None and has_validation:  # that of other workers
                folds = Folds(((copy.copy(data), data.take(np.empty(0, np.int64))),))
            settings = replace(settings, team=team)
            fitted = fit_two_stages(settings, folds, data, refit, callbacks)
    parts = fitted.to_parts(data, folds)
    parts["shares"] = dict(parts["common_trees"].shares)
    if collective is not None and int(collective["dmlc_task_id"]):  # the first worker has the same
        parts["common_trees"] = None
        parts["specific"] = {t: own for t, own in parts["specific"].items() if t not in divided}
    return parts
