# SPDX-License-Identifier: Apache-2.0
"""More rounds on new rows, which start from the margins of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtboost.base.checks import check_count
from mtboost.base.dataset import Dataset
from mtboost.base.labels import weights_or_ones
from mtboost.base.missing_columns import lacking
from mtboost.base.tasks import TaskName
from mtboost.base.threads import default_n_threads, openmp_threads
from mtboost.base.user_warnings import warn_user
from mtboost.base.validation import Folds, hold_out
from mtboost.errors import UnsupportedError
from mtboost.metrics.metric import Metric
from mtboost.model.changes.gains import gains_by_task
from mtboost.model.estimates import score_name
from mtboost.model.inputs.checked_rows import check_rows
from mtboost.model.inputs.holding_out import with_positives
from mtboost.model.inputs.making_settings import common_parameters
from mtboost.model.inputs.named_objectives import labels_are_classes
from mtboost.model.parts.task_report import TaskReport
from mtboost.model.prediction.new_rows import (
    RowsOfTask,
    as_dataset,
    draws_unseen,
    with_kept_parameters,
)
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.stages.common import fit_common, follow_common
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.model.stages.objectives import ObjectiveByTask, Objectives, OneObjective
from mtboost.model.stages.settings import Settings
from mtboost.trees.library_parameters import Params
from mtboost.trees.nesting import Nesting
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.pooling import Pooling, PoolingOption, check_levels, check_pooling
from mtboost.trees.task_values import TaskValues
from mtboost.trees.tree_options import TreeOptions


@dataclass(frozen=True, slots=True, eq=False)
class _NewRounds:
    """Trees to be added to a model.

    Attributes
    ----------
    trees : CommonTrees
    n_rounds : int
    history : dict of task name to ndarray
        Validation metric after 0, 1, ... new rounds of the training rows alone.
    """

    trees: CommonTrees | None
    n_rounds: int
    history: Mapping[TaskName, Any]


def updated_parts(
    model: FittedTasks,
    rows: Mapping[TaskName, RowsOfTask],
    *,
    rounds: int,
    params: Params | None,
    pooling: PoolingOption,
    validation_fraction: float,
    eval_rows: Mapping[TaskName, RowsOfTask] | None,
    n_threads: int | None,
    seed: int,
) -> dict[str, Any]:
    """Return the changed fields; :meth:`mtboost.MultiTaskModel.update` has the arguments.

    `rows` and `eval_rows` are those of known tasks. Without new rounds ``reports`` alone change.
    """
    rounds = check_count("rounds", rounds, low=1)
    own_pooling = check_pooling(pooling)
    if not model.params and not params:
        raise UnsupportedError(
            "The model comes from a file of an early version of mtboost, which does not hold the "
            "parameters of training: pass them as params."
        )
    data = _from_margins(model, rows)
    check_levels(own_pooling, data.tasks)
    n_threads = default_n_threads(n_threads, data.n_rows * data.common.n_features)
    settings = _settings(model, data, rounds, params, own_pooling, n_threads, seed)
    classes = labels_are_classes(_objective(model, data), data.tasks)
    train: Dataset
    valid: Dataset | None
    if eval_rows is None:
        train, valid = hold_out(data, validation_fraction, classes, seed)
    else:
        train, valid = data, _from_margins(model, eval_rows)
        valid.align(train)
        check_rows(model._library, valid, _objective(model, valid), settings.params, "eval_set: ")
    if valid is not None:
        valid = with_positives(settings, Folds(((train, valid),)), data).pairs[0][1]
    with openmp_threads(n_threads):
        new = _train(settings, data, train, valid)
    parts = _added(model, new)
    metrics = {task: settings.of_task(task).metric for task in train.tasks}
    parts["reports"] = _reports(model, parts, train, valid, new, metrics)
    return parts


def _from_margins(model: FittedTasks, rows: Mapping[TaskName, RowsOfTask]) -> Dataset:
    """Return rows that start from the margins of a model."""
    return as_dataset(
        model,
        {
            name: (table, y, weight, model._task_margins(table, name, base_margin))
            for name, (table, y, weight, base_margin) in rows.items()
        },
    )


def _objective(model: FittedTasks, data: Dataset) -> Any:
    if isinstance(model.objective, str):
        return model.objective
    return {task: model.objective[task] for task in data.tasks}


def _settings(
    model: FittedTasks,
    data: Dataset,
    rounds: int,
    params: Params | None,
    pooling: Pooling,
    n_threads: int,
    seed: int,
) -> Settings:
    library, objective = model._library, _objective(model, data)
    given = library.parameters(params or {}, elsewhere=library.arguments)
    own = with_kept_parameters(model, given)
    settings = common_parameters(library, own, objective, data, n_threads, seed)
    check_rows(library, data, objective, settings)
    objectives: Objectives = OneObjective(
        library, library.default_metric(settings), settings["objective"]
    )
    if model.losses:
        metrics: dict[TaskName, Metric] = {
            task: library.default_metric({**settings, "objective": objective[task]})
            for task in data.tasks
        }
        losses = {task: model.losses[task] for task in data.tasks}
        objectives = ObjectiveByTask(library, objective, metrics, losses)
    return Settings(
        backend=library,
        params=settings,
        objectives=objectives,
        options=TreeOptions(
            pooling=pooling if len(data.tasks) > 1 else None,
            one_stratum=model._is_one_stratum,
            unseen_at_random=draws_unseen(model, settings),
        ),
        rounds=rounds,
        early_stopping_rounds=None,
        min_delta=0.0,
        specific_params={},
        specific_rounds=0,
        n_threads=n_threads,
    )


def _train(settings: Settings, data: Dataset, train: Dataset, valid: Dataset | None) -> _NewRounds:
    """Train rounds, as many as are best on validation rows, if they are better than none."""
    if valid is None:
        trees = fit_common(settings, data, None).trees
        return _NewRounds(trees, trees.n_rounds, {})
    trees = fit_common(settings, train, None).trees
    history = follow_common(settings, trees, train, valid, trees.n_rounds).history
    values = np.array([history[task] for task in valid.tasks]).T
    weights = weights_or_ones(valid.weight, valid.n_rows)
    shares = np.bincount(valid.tasks.codes, weights, valid.tasks.n_tasks) * 1.0
    if settings.objectives.losses:  # of different units
        shares = shares / np.where(values[0] == 0.0, 1.0, np.abs(values[0]))
    gains = settings.metric.gains(values, values[0])
    best = int(np.argmax(np.nansum(gains * shares, axis=1)))
    if best == 0 or not _is_better(settings, trees, valid, best, shares):
        return _NewRounds(None, 0, history)
    trees = fit_common(replace(settings, rounds=best), data, None).trees
    return _NewRounds(trees, trees.n_rounds, history)


def _is_better(
    settings: Settings, trees: CommonTrees, valid: Dataset, n_rounds: int, shares: Any
) -> bool:
    """Whether rounds gain more than one standard error of the gain."""
    codes = trees.codes_of(valid.tasks.names)[valid.tasks.codes]
    start = settings.objectives.start_margins(valid)
    after = trees.margins(valid.common, codes, np.full(valid.n_rows, n_rounds), start)
    assert start is not None
    before, after = (
        settings.objectives.own_margins(own, valid) for own in (start.reshape(after.shape), after)
    )
    share_of = dict(zip(valid.tasks, shares.tolist(), strict=True))
    gain = variance = 0.0
    for task, own_gain, error in gains_by_task(settings, valid, before, after):
        gain += share_of[task] * own_gain
        variance += (share_of[task] * error) ** 2
    return bool(gain > np.sqrt(variance))


# ---- one model of old and new trees --------------------------------------------------------------


def _added(model: FittedTasks, new: _NewRounds) -> dict[str, Any]:
    """Return trees, models and rounds with the new trees.

    They follow the common trees. A task that uses but a part of these, or an average, has the new
    trees in its own model.
    """
    if new.trees is None:
        return {}
    trees, library = model.common_trees, model._library
    specific, quit_round = model.specific.copy(), dict(model.quit_round)
    parts = {"common_trees": trees, "specific": specific, "quit_round": quit_round}
    n_rounds = model._stage.most_rounds
    followers = [
        task
        for task in model.tasks
        if model.quit_round[task] == n_rounds and task not in trees.shares
    ]
    # Where no known task uses common rounds, unknown ones use all of them.
    if followers or not any(quit_round.values()):
        parts["common_trees"] = _joined(model, trees, new.trees, n_rounds)
        quit_round |= dict.fromkeys(followers, n_rounds + new.n_rounds)
    elif not model.losses:  # where unknown tasks are refused
        warn_user(
            "The new rounds are in the models of the known tasks alone, since all of these follow "
            "a part of the common model, or average it: unknown tasks, and tasks that are new in "
            "X, have the common model of before. Where these matter, fit again on all rows."
        )
    document = library.document(new.trees.booster)
    for task in model.tasks:
        if task in followers:
            continue
        own = new.trees.document_of(task, document)
        if model.losses:
            own = own.scaled(model.losses[task].unit)
        names = lacking(model.common_columns, model.task_columns[task])
        if names:
            own = own.without_columns(model.common_columns, names)
        before, columns = model.specific[task], model.task_columns[task]
        if before is None:
            specific[task] = own.combined(None, new.n_rounds, columns).load()
        else:
            n_before = library.n_rounds(before)
            specific[task] = library.document(before).combined(own.load(), n_before, columns).load()
    return parts


def _joined(model: FittedTasks, trees: CommonTrees, new: CommonTrees, n_rounds: int) -> CommonTrees:
    """Common trees, the first rounds of them and then the new ones."""
    library = trees.backend
    document = library.document(trees.booster)
    if trees.n_added:  # the new trees lack the columns by which nodes separate tasks
        together = document.followed_by_rounds(n_rounds, library.document(new.booster))
    else:
        together = document.combined(new.booster, n_rounds, model.common_columns)
    names = (*model.tasks, *new.tasks)  # the latter with groups of nested tasks
    tasks = tuple(dict.fromkeys((*trees.tasks, *names)))
    if not (trees.pooled.has_values or new.pooled.has_values):
        return replace(trees, booster=together.load(), tasks=tasks)
    n_outputs = document.n_outputs
    codes = np.array([tasks.index(task) for task in new.tasks], np.int32)
    first = _values(trees, n_rounds * n_outputs)
    second = [_recoded(own, codes) for own in _values(new, new.n_rounds * n_outputs)]
    both = (trees.pooled, new.pooled)
    pooling = max(both, key=lambda own: (own.are_nested, own.pooling is not None)).pooling
    pooled = PooledTrees(pooling, [*first, *second], trees.pooled.mean_hessian)
    descriptors = trees.descriptors
    if descriptors is not None and pooled.are_nested and not trees.pooled.are_nested:
        counts = [max(1, model.reports[task].n_rows) for task in trees.tasks]
        descriptors = descriptors.with_groups(Nesting.of(tasks), np.array(counts))
    booster = together.load()
    return replace(trees, booster=booster, tasks=tasks, pooled=pooled, descriptors=descriptors)


def _values(trees: CommonTrees, n_trees: int) -> list[TaskValues]:
    if not trees.pooled.has_values:
        return [TaskValues.none()] * n_trees
    return list(trees.pooled.values[:n_trees])


def _recoded(values: TaskValues, codes: Any) -> TaskValues:
    """Values with other codes of the tasks."""
    task = codes[values.task]
    order = np.lexsort((task, values.leaf))
    return replace(values, leaf=values.leaf[order], task=task[order], value=values.value[order])


def _reports(
    model: FittedTasks,
    parts: Mapping[str, Any],
    train: Dataset,
    valid: Dataset | None,
    new: _NewRounds,
    metrics: Mapping[TaskName, Metric],
) -> dict[TaskName, TaskReport]:
    """Return reports with the new rows and rounds, and the scores of the new validation rows.

    `metrics` decided how many rounds there are, and may be other ones than those of the model.
    """
    reports = {}
    for task, old in model.reports.items():
        quit_round = parts.get("quit_round", model.quit_round)[task]
        is_follower = quit_round != model.quit_round[task]
        n_specific = old.specific_rounds + (0 if is_follower else new.n_rounds)
        n_rows, n_positives = _counts(train, task)
        n_valid_rows, n_valid_positives = _counts(valid, task)
        history = new.history.get(task)
        scores = {}
        if history is not None:
            scores = {"before": float(history[0]), "final": float(history[new.n_rounds])}
            metric = metrics[task]
            if metric.name != model._metric_of(task):
                scores = {score_name(metric, name): score for name, score in scores.items()}
        reports[task] = replace(
            old,
            n_rows=old.n_rows + n_rows,
            n_valid_rows=n_valid_rows,
            n_positives=None if old.n_positives is None else old.n_positives + n_positives,
            n_valid_positives=None if old.n_positives is None else n_valid_positives,
            quit_round=quit_round,
            specific_rounds=n_specific,
            why_no_specific="" if n_specific else old.why_no_specific,
            scores=scores,
            common_history=np.empty(0),
            specific_history=np.empty(0),
        )
    return reports


def _counts(data: Dataset | None, task: TaskName) -> tuple[int, int]:
    """Rows of a task, and those with a positive label."""
    if data is None or task not in data.tasks:
        return 0, 0
    labels = data.numbers()[data.tasks.rows(task)]
    return len(labels), int((labels > 0).sum())
