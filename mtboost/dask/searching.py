# SPDX-License-Identifier: Apache-2.0
"""``strategy="auto"`` on several machines: the search on a sample that one worker holds.

The sample has all rows if they are few enough. Otherwise, as when one machine compares settings,
it has whole tasks of all sizes where tasks are small, for how much they should share depends on
their sizes, or else the same part of each task. What has been found is then trained on all rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mtboost.base.tasks import TaskName, ranks_in_tasks
from mtboost.base.validation import Folds
from mtboost.dask.chunks import Chunk
from mtboost.model.fitting import choose_plan
from mtboost.model.inputs.holding_out import with_positives
from mtboost.model.inputs.own_units import hardly_counts_some
from mtboost.model.sharing.effort import Effort
from mtboost.model.sharing.evidence import Sharing
from mtboost.model.sharing.plan import SharingPlan
from mtboost.model.sharing.search import are_small_tasks
from mtboost.model.stages.settings import Settings


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows that the search sees.

    Attributes
    ----------
    tasks : set of task names
    every : int
        Every such row of each of the tasks.
    """

    tasks: Collection[TaskName]
    every: int


def sample_of(n_rows: Mapping[TaskName, int], most_rows: int) -> Sample:
    """Return which rows to search on, at most about `most_rows`."""
    every = -(-sum(n_rows.values()) // most_rows)
    if every > 1 and are_small_tasks(sum(n_rows.values()), len(n_rows)):
        by_size = sorted(n_rows, key=lambda name: n_rows[name])
        return Sample(set(by_size[::every]), 1)
    return Sample(set(n_rows), every)


def sampled(chunk: Chunk | None, sample: Sample, column: str | int | None) -> Chunk | None:
    """Return the rows of a worker that are in the sample; None if there are none."""
    if chunk is None:
        return None
    tasks = chunk.tasks(column)
    is_kept = np.array([name in sample.tasks for name in tasks])[tasks.codes]
    if sample.every > 1:
        is_kept &= ranks_in_tasks(tasks.codes) % sample.every == 0
    return chunk.take(np.flatnonzero(is_kept)) if is_kept.any() else None


@dataclass(frozen=True, slots=True)
class Found:
    """Result of the search.

    Attributes
    ----------
    plan : SharingPlan
        Of the tasks in the sample.
    n_valid : dict of task name to (int, int)
        Validation rows of each of them, and positive ones.
    hardly_counts_some : bool
        Whether the labels of some tasks vary too little for one squared error of all.
    """

    plan: SharingPlan
    n_valid: dict[TaskName, tuple[int, int]]
    hardly_counts_some: bool = False


def search_sample(settings: Settings, folds: Folds, effort: Effort) -> Found:
    """Choose how much to share on the rows of a sample."""
    train = folds.pairs[0][0]
    folds = with_positives(settings, folds, train)
    # Descriptors are means over all rows of a task, and linear effects shrunk towards all tasks.
    splits = tuple(each for each in effort.task_splits if "descriptors" not in each)
    effort = replace(effort, task_splits=splits)
    settings = replace(settings, given={*settings.given, "linear_effects"})
    plan = choose_plan(settings, folds, effort)
    codes = folds.valid_codes(folds.tasks)
    positive = np.concatenate([valid.labels() > 0 for _, valid in folds.pairs])
    counts = (
        np.bincount(own, minlength=folds.tasks.n_tasks).tolist() for own in (codes, codes[positive])
    )
    pairs = zip(*counts, strict=True)
    n_valid = dict(zip(folds.tasks, pairs, strict=True))
    return Found(replace(plan, common=None), n_valid, hardly_counts_some(settings, train))


def for_all_tasks(plan: SharingPlan, tasks: Collection[TaskName]) -> SharingPlan:
    """Return the plan with the tasks that are not in the sample, too.

    They take the way that most tasks take, and its median rounds.
    """
    ways = list(plan.sharing.values())
    usual: Sharing = max(dict.fromkeys(ways), key=ways.count)
    rounds = [plan.own_rounds[task] for task, way in plan.sharing.items() if way == usual]
    n_rounds = int(np.median(rounds))
    others = [task for task in tasks if task not in plan.sharing]
    return replace(
        plan,
        pool=[task for task in tasks if task in plan.pool or task in set(others)],
        sharing={task: plan.sharing.get(task, usual) for task in tasks},
        own_rounds={task: plan.own_rounds.get(task, n_rounds) for task in tasks},
        scores={task: plan.scores.get(task, {}) for task in tasks},
    )


def of_tasks(plan: SharingPlan, tasks: Collection[TaskName]) -> SharingPlan:
    """Return the plan of the tasks of a worker; the pool is that of all."""
    return replace(
        plan,
        sharing={task: plan.sharing[task] for task in tasks},
        own_rounds={task: plan.own_rounds[task] for task in tasks},
        scores={task: plan.scores[task] for task in tasks},
    )
