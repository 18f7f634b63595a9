# SPDX-License-Identifier: Apache-2.0
""":func:`fit`: both stages of zhang2019 on the workers of Dask.

The rows are distributed by task once, so that each task has all its rows on one worker, but for
large tasks, of which every worker has a part (placing.py). Each worker then does what
:func:`mtboost.fit` does on one machine, with its own tasks; the common model, and the specific
models of large tasks, are trained by all of them together, in XGBoost's collective. The parts of
the model are collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import distributed
import numpy as np

from mtboost.base.checks import check_choice, check_count, listed
from mtboost.base.dataset import Dataset, is_column, place_of_task_column
from mtboost.base.labels import not_all_zero
from mtboost.base.progress import Progress
from mtboost.base.task_weights import TaskWeight, balanced_factors, weights_with_tasks
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.times import check_times, split_time
from mtboost.base.user_warnings import warn_user
from mtboost.base.validation import parts_of_eval_set, saying_of_eval_set
from mtboost.dask.chunks import (
    Chunk,
    Summary,
    check_has_columns,
    check_no_text,
    delayed_chunks,
    joined,
    summarise,
    together,
)
from mtboost.dask.on_workers import Job, facts_of, item, prepare, search, split, train
from mtboost.dask.placing import place_tasks, rows_before
from mtboost.dask.searching import (
    Found,
    Sample,
    for_all_tasks,
    sample_of,
    sampled,
)
from mtboost.dask.workers import Workers, client_of
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.model.fitted import model_of
from mtboost.model.fitting import FIT_ARGUMENTS
from mtboost.model.inputs.arguments import DRAWN, Arguments
from mtboost.model.inputs.checked_rows import check_scales
from mtboost.model.inputs.keywords import where_it_belongs
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.inputs.making_settings import make_settings
from mtboost.model.inputs.named_objectives import complete_objective
from mtboost.model.inputs.own_units import HARDLY_COUNT
from mtboost.model.inputs.problem import Problem
from mtboost.model.model import MultiTaskModel
from mtboost.model.parts.task_report import TaskReport, joined_reports
from mtboost.model.sharing.plan import SharingPlan
from mtboost.trees.losses import is_quantile, is_ranking, is_survival

_OF_ROWS = ("X", "y", "task", "eval_set", "weight", "base_margin")


def fit(
    client: distributed.Client | None,
    X: Any,
    y: Any,
    *,
    task: Any,
    eval_set: Sequence[Any] | None = None,
    weight: Any = None,
    base_margin: Any = None,
    search_rows: int = 1_000_000,
    large_task_rows: int = 100_000,
    **options: Any,
) -> MultiTaskModel:
    """Fit a common model of all tasks on the workers of Dask, and a specific model of each.

    The arguments are those of :func:`mtboost.fit`, with collections of Dask for rows, and so is the
    result. docs/several_machines.md lists what differs.

    Parameters
    ----------
    client : distributed.Client or None
        None is the one in use. All its workers take part; without large tasks, as many as there
        are tasks.
    X : dask DataFrame or Array of shape (n_rows, n_features)
        Categories must be known to Dask (``X.categorize()``).
    y : dask Series or Array of shape (n_rows,)
        Labels, with the partitions of `X`, as all that belongs to rows.
    task : str or int, or dask Series or Array of shape (n_rows,)
        Column of `X` that contains the task of each row, or the tasks.
    eval_set : (X, y[, task[, weight[, base_margin]]]), optional
        Validation rows, as collections.
    weight : dask Series or Array of shape (n_rows,), optional
        Row weights >= 0.
    base_margin : dask Series or Array of shape (n_rows,) or (n_rows, n_classes), optional
        Margin that each row starts from.
    search_rows : int, default=1,000,000
        With more rows ``strategy="auto"`` searches on a sample of about this size, on one worker,
        and trains what it finds on all rows, on all workers.
    large_task_rows : int, default=100,000
        A task with more rows, and more than an equal part of all rows would give a worker, has
        them on all workers, which train its specific model together. Other tasks have all their
        rows on one worker.
    **options
        Further arguments of :func:`mtboost.fit`. The default of `n_threads` are the threads of each
        worker, and `time` is a column of `X`.

    Returns
    -------
    MultiTaskModel
        The fitted model.

    Raises
    ------
    DataError, ParameterError, TypeError, UnsupportedError
        Before any training, if something does not fit together.
    TrainingError
        A worker has ended.

    Examples
    --------
    >>> import dask.array, numpy as np
    >>> from distributed import Client
    >>> import mtboost.dask
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> shop = np.repeat([0, 1, 2], 100)
    >>> y = X[:, 0] + (shop == 1)
    >>> rows = [dask.array.from_array(values, chunks=100) for values in (X, y, shop)]
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     model = mtboost.dask.fit(
    ...         client, rows[0], rows[1], task=rows[2], num_boost_round=20
    ...     )
    >>> model.tasks
    (0, 1, 2)
    """
    client = client_of(client)
    own = {"task": task, "eval_set": eval_set, "weight": weight, "base_margin": base_margin}
    arguments = _checked_arguments(options, {"X": X, "y": y, **own})
    search_rows = check_count("search_rows", search_rows, low=1)
    large_task_rows = check_count("large_task_rows", large_task_rows, low=1)
    column = task if is_column(task) else None
    delayed, delayed_valid = _delayed_rows(arguments, column)
    addresses = sorted(client.nthreads())
    all_workers = Workers(client, addresses)

    chunks = client.compute(delayed)
    found, n_before = _summary(client, all_workers, chunks, column)
    problem = _problem(found, column, arguments)
    template = problem.data
    settings = make_settings(problem, arguments, n_rows=found.n_rows)
    weights_with_tasks(template.tasks, None, arguments.task_weight)  # raises
    check_scales(settings, found.units)
    valid_chunks, found_valid, n_before_valid = None, None, None
    if delayed_valid is not None:
        valid_chunks = client.compute(delayed_valid)
        with saying_of_eval_set():
            found_valid, n_before_valid = _known_tasks(
                client, all_workers, valid_chunks, column, found
            )

    placement = place_tasks(found.tasks, len(addresses), large_task_rows)
    workers = Workers(client, addresses[: placement.n_workers])
    job = Job(
        placement,
        settings,
        template,
        column,
        _task_weights(found, found_valid, arguments.task_weight),
        eval_set is not None,
        arguments.without_rows(),
    )
    shared = client.scatter(job, hash=False)
    searched, plan = None, None
    with Progress(2 + arguments.is_auto, is_shown=bool(settings.verbose), unit="step") as progress:
        progress.begin("rows to their workers")
        rows = [_distributed(client, workers, chunks, n_before, shared)]
        with saying_of_eval_set():
            rows.append(_distributed(client, workers, valid_chunks, n_before_valid, shared))
        del chunks, valid_chunks
        if arguments.is_auto:
            progress.begin("search on a sample")
            sample = sample_of(found.tasks, search_rows)
            searched = _found_on(workers, rows, sample, column, shared, arguments)
            if searched.hardly_counts_some:
                warn_user(f"{HARDLY_COUNT}, or call mtboost.fit on a sample (docs/mixed_tasks.md).")
            plan = for_all_tasks(searched.plan, template.tasks.names).for_rows(found.n_rows)
        progress.begin("training on all workers")
        prepared = workers.call(prepare, *rows, job=shared)
        workers.wait(prepared)
        del rows, shared
        parts = _merged(_trained(workers, prepared, job, plan, arguments), template.tasks.names)
    if searched is not None:
        parts["reports"] |= _with_valid_rows(parts["reports"], searched.n_valid)
    parts |= problem.to_parts() | {"has_base_margin": arguments.base_margin is not None}
    return model_of(parts, is_auto=searched is not None)


def _checked_arguments(options: Mapping[str, Any], rows: Mapping[str, Any]) -> Arguments:
    """Return the arguments of fit(); raise for those that workers cannot have."""
    for name in options:
        if name not in FIT_ARGUMENTS or name in _OF_ROWS:
            raise TypeError(
                f"mtboost.dask.fit() got an unexpected argument {name!r}."
                f"{where_it_belongs(name, options, FIT_ARGUMENTS)}"
            )
    arguments = Arguments(**{**FIT_ARGUMENTS, **options, **rows}).checked()
    for name, is_refused in _refused(arguments).items():
        if is_refused:
            raise UnsupportedError(
                f"{name}={_shown(getattr(arguments, name))} does not work on several machines: "
                "leave it out, or call mtboost.fit on one machine. docs/several_machines.md gives "
                "the reason."
            )
    if arguments.task is None:
        raise ParameterError(
            "task is None: name the column of X that contains the task, or pass the tasks. For a "
            "single model of all rows use xgboost.dask.train."
        )
    check_choice("validation", arguments.validation, (*DRAWN, "last"))
    times = None if arguments.time is None else np.empty(0, np.int64)
    check_times(times, arguments.validation, 0)
    return arguments


def _refused(arguments: Arguments) -> dict[str, bool]:
    """Return whether arguments have values that workers cannot have, by name."""
    objective = arguments.objective
    return {
        "backend": arguments.backend != "xgboost",
        "objective": isinstance(objective, Mapping)
        or objective == "reg:absoluteerror"  # workers cannot add up its medians
        or is_quantile(objective)
        or is_ranking(objective)
        or is_survival(objective),
        "qid": arguments.qid is not None,
        "linear_effects": bool(arguments.linear_effects),
        "task_splits": isinstance(arguments.task_splits, str),
        "baselines": arguments.baselines,
        "on_round": arguments.on_round is not None,
        "init_model": arguments.init_model is not None,
        "intervals": arguments.intervals,
        "calibrate": arguments.calibrate,
        "n_ensemble": arguments.n_ensemble != 1,
        "validation": not isinstance(arguments.validation, str) or arguments.validation == "tasks",
        "task": isinstance(arguments.task, list | tuple),
        "time": not isinstance(arguments.time, str | None),
        "refit": arguments.is_auto and arguments.refit is False,
    }


def _shown(value: object) -> str:
    if callable(value):
        return "a function"
    return repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"


def _delayed_rows(
    arguments: Arguments, column: str | int | None
) -> tuple[list[Any], list[Any] | None]:
    """Return the training rows and the user's validation rows, one delayed chunk a partition."""
    check_has_columns(arguments.X, {"task": column, "time": arguments.time})
    check_no_text(arguments.X, {column, arguments.time})
    rows = {
        "y": arguments.y,
        "weight": arguments.weight,
        "base_margin": arguments.base_margin,
        "task": None if column is not None else arguments.task,
    }
    delayed = delayed_chunks(arguments.X, rows)
    if arguments.eval_set is None:
        return delayed, None
    return delayed, _delayed_eval_set(arguments.eval_set, column, arguments.time)


def _delayed_eval_set(eval_set: Sequence[Any], column: str | int | None, time: Any) -> list[Any]:
    X, y, task, weight, base_margin, qid = parts_of_eval_set(eval_set)
    if qid is not None:
        raise UnsupportedError("eval_set: queries (qid) are not supported on Dask.")
    if task is None and column is None:
        raise DataError("eval_set lacks the tasks of its rows: pass (X, y, task).")
    if is_column(task):
        raise DataError(
            "eval_set names a column for the task: name it in task=, for all rows, or pass the "
            "tasks themselves."
        )
    check_no_text(X, {column, time}, "eval_set: ")
    rows = {"y": y, "task": task, "weight": weight, "base_margin": base_margin}
    return delayed_chunks(X, rows, "eval_set: ")


def _template(found: Summary, column: str | int | None, arguments: Arguments) -> Dataset:
    """Return few rows with all columns, tasks and labels, of which settings can be made."""
    weights = np.array([*found.weights.values()])
    not_all_zero(weights, "weight")
    n_rows = len(found.labels)
    X = Chunk(found.row, {}).take(np.zeros(n_rows, np.int64)).X
    if arguments.time is not None:
        X, _ = split_time(X, arguments.time)
    names = tuple(found.tasks)
    template = Dataset(
        X,
        found.labels,
        task=column if column is not None else [names[0]] * n_rows,
        feature_names=arguments.feature_names,
        common_features=arguments.common_features,
    )
    template.tasks = TaskSet(names, np.zeros(n_rows, np.int32))
    return template


def _problem(found: Summary, column: str | int | None, arguments: Arguments) -> Problem:
    """Return the problem of the rows of all workers, of which there are few here."""
    template = _template(found, column, arguments)
    eval_metric = arguments.eval_metric
    if isinstance(eval_metric, Mapping | list | tuple):
        raise ParameterError("eval_metric holds several: give one metric for all tasks.")
    library = get_backend("xgboost")
    objective = complete_objective(library, arguments.objective, template, n_rows=found.n_rows)
    place = place_of_task_column(found.row, column, arguments.feature_names)
    return Problem(template, library, objective, eval_metric, place=place)


def _task_weights(
    found: Summary, found_valid: Summary | None, task_weight: TaskWeight
) -> tuple[TaskWeight, TaskWeight]:
    """Return the weights of tasks, of training rows and with the validation rows."""
    if task_weight != "balanced":
        return task_weight, task_weight
    totals = np.array([*found.weights.values()])
    totals_of_all = totals.copy()
    if found_valid is not None:
        totals_of_all += [found_valid.weights.get(name, 0.0) for name in found.tasks]
    of_training, of_all = (
        dict(zip(found.tasks, balanced_factors(own).tolist(), strict=True))
        for own in (totals, totals_of_all)
    )
    return of_training, of_all


def _distributed(
    client: distributed.Client,
    workers: Workers,
    chunks: Sequence[Any] | None,
    n_before: Sequence[Mapping[TaskName, int]] | None,
    job: Any,
) -> Sequence[Any]:
    """Send rows to the workers of their tasks; those of a worker stay in their order.

    `n_before` has for each chunk the rows of its tasks in those before it. `job` is the future of
    one. Without rows each worker has None.
    """
    ranks = range(len(workers.addresses))
    if chunks is None:
        return [None] * len(ranks)
    pieces = client.map(split, chunks, range(len(chunks)), n_before, job=job, pure=False)
    by_worker = [[client.submit(item, own, rank, pure=False) for own in pieces] for rank in ranks]
    futures: Sequence[Any] = workers.call(joined, by_worker)
    workers.wait(futures)
    return futures


def _summary(
    client: distributed.Client, workers: Workers, chunks: Sequence[Any], column: str | int | None
) -> tuple[Summary, list[dict[TaskName, int]]]:
    """Return what is known of the rows, and for each chunk those of its tasks before it."""
    parts = workers.gather(
        client.map(summarise, chunks, range(len(chunks)), task=column, pure=False)
    )
    return together(parts), rows_before([part.tasks if part else {} for part in parts])


def _known_tasks(
    client: distributed.Client,
    workers: Workers,
    chunks: Sequence[Any],
    column: str | int | None,
    found: Summary,
) -> tuple[Summary, list[dict[TaskName, int]]]:
    """Return what :func:`_summary` does of validation rows; warn of tasks without training rows."""
    valid, n_before = _summary(client, workers, chunks, column)
    unknown = [name for name in valid.tasks if name not in found.tasks]
    if len(unknown) == len(valid.tasks):
        TaskSet(tuple(found.tasks), np.empty(0, np.int32)).code(unknown[0])  # raises
    if unknown:
        warn_user(
            f"eval_set has rows of {listed(unknown, 'task')}, without training rows: they decide "
            "nothing.",
        )
    return valid, n_before


def _found_on(
    workers: Workers,
    rows: Sequence[Sequence[Any]],
    sample: Sample,
    column: str | int | None,
    job: Any,
    arguments: Arguments,
) -> Found:
    """Search on a sample of the training and the validation rows, on the first worker."""
    first = workers.first()
    samples = [
        first.call(joined, [workers.call(sampled, part, sample=sample, column=column)])
        for part in rows
    ]
    options = {"n_threads": arguments.n_threads, "job": job, "effort": arguments.effort}
    futures = first.call(search, *samples, **options)
    (found,) = first.gather(futures)
    assert isinstance(found, Found)
    return found


def _trained(
    workers: Workers,
    prepared: Sequence[Any],
    job: Job,
    plan: SharingPlan | None,
    arguments: Arguments,
) -> list[dict[str, Any]]:
    """Train on all workers together, and return the parts of each."""
    facts = workers.gather(workers.call(facts_of, prepared, settings=job.settings))
    problems = [each.problem for each in facts]
    if all(problems):
        raise DataError(str(problems[0]))
    with workers.locked():
        futures = workers.call(
            train,
            prepared,
            workers.introduced(),
            n_threads=arguments.n_threads,
            settings=job.settings,
            tasks=job.template.tasks.names,
            divided=job.placement.divided,
            has_validation=any(each.has_validation for each in facts),
            refit=arguments.refit,
            callbacks=tuple(arguments.callbacks),
            plan=plan,
        )
        return workers.gather(futures)


def _merged(fitted: Sequence[dict[str, Any]], names: Sequence[TaskName]) -> dict[str, Any]:
    """Return the attributes of one model, from those of the tasks of each worker."""
    merged = dict(fitted[0])
    shares = {task: own for parts in fitted for task, own in parts.pop("shares").items()}
    merged.pop("shares", None)
    merged["common_trees"] = replace(merged["common_trees"], shares=shares)
    for key in ("quit_round", "specific", "task_columns", "specific_params"):
        of_all = {task: own for parts in fitted for task, own in parts[key].items()}
        merged[key] = {task: of_all[task] for task in names}
    reports: dict[TaskName, list[TaskReport]] = {}
    for parts in fitted:
        for task, report in parts["reports"].items():
            reports.setdefault(task, []).append(report)
    merged["reports"] = {
        task: own[0] if len(own) == 1 else joined_reports(own)
        for task, own in ((task, reports[task]) for task in names)
    }
    return merged


def _with_valid_rows(
    reports: Mapping[TaskName, TaskReport], n_valid: Mapping[TaskName, tuple[int, int]]
) -> dict[TaskName, TaskReport]:
    """Return reports with the validation rows of the search."""
    return {
        task: replace(
            reports[task],
            n_valid_rows=n_rows,
            n_valid_positives=None if reports[task].n_positives is None else n_positives,
        )
        for task, (n_rows, n_positives) in n_valid.items()
    }
