"""How much each task shares, found on validation rows: ``fit(strategy="auto")``.

The order of the search:

1. The common model, one choice after the other: how deep its trees are, unless the user says;
   then its leaves, pooled or partially pooled with much or little shrinkage; then whether nodes
   may divide tasks. Less sharing must be better by more than one standard error of the difference,
   over all validation rows. Settings are compared in large steps (learning rates), which rank them
   as small ones do; what has won is trained in the small steps of the final model.
2. For each task three ways to use it: the common model alone, a specific model that continues it,
   or an independent model beside it (sharing_evidence.py has the rule).
3. Tasks that are better alone leave the pool if the others are better off without them; its rounds
   are then found anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.arguments import may_split_tasks
from mtboost.dataset import Dataset
from mtboost.pooled_leaves import Pooling, RelativePooling
from mtboost.sharing_evidence import Evidence, Sharing, row_losses, row_weights
from mtboost.stages import CommonModel, SpecificModel, TwoStages
from mtboost.tasks import TaskName

_Losses = npt.NDArray[np.float64]

#: Rows on which settings of the common model are compared.
_MOST_ROWS = 100_000
#: Depths of the common model's trees.
_DEPTHS = (2, 4, 6)
#: κ as multiples of what a task has on average.
_POOLINGS = (2.0, 0.5, 0.1)
#: c of cuts between tasks: as a library's categorical column.
_TASK_PENALTY = 0.0
#: Parts of the rows that each tree sees.
_SUBSAMPLES = (0.7, 0.5)
#: Least learning rates: of models that settings are compared by, and of specific models.
_SEARCH_LEARNING_RATE = 0.1
_SPECIFIC_LEARNING_RATE = 0.05
#: Standard errors by which independent models may be worse in large steps, to be trained in small.
_MUCH_WORSE = 2.0
#: λ of specific stumps in units of κ: little more than shrunken offsets at first.
_STUMP_PENALTY = 0.25
_STUMP_LEARNING_RATE = 0.15


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """What was chosen, and what it was chosen by.

    Attributes
    ----------
    stages : TwoStages
        Settings of the common model.
    specific_params : mapping
        Parameters of the specific models that differ.
    independent : TwoStages
        Settings of independent models.
    pool : list of task names
        Tasks whose rows the common model is trained on.
    common_rounds : int
    sharing : dict of task name to str
    own_rounds : dict of task name to int
        Rounds of the task's specific or independent model; 0 where it has none.
    scores : dict of task name to dict of str to float
        Validation metric of the task under each way to share; NaN without validation rows.
    common_losses : dict of str to float
        Mean validation loss of each common model that was tried.
    """

    stages: TwoStages
    specific_params: Mapping[str, Any]
    independent: TwoStages
    pool: list[TaskName]
    common_rounds: int
    sharing: dict[TaskName, Sharing]
    own_rounds: dict[TaskName, int]
    scores: dict[TaskName, dict[str, float]]
    common_losses: dict[str, float]


def fit_plan(
    plan: SharingPlan, data: Dataset, callbacks: tuple[Any, ...] = ()
) -> tuple[CommonModel, dict[TaskName, SpecificModel]]:
    """Train what the plan says on all rows of `data`."""
    fixed = replace(plan.stages, rounds=plan.common_rounds, common_patience=None, patience=None)
    pool = fixed.fit_common(_rows_of(data, plan.pool), None, callbacks)
    n_rounds = pool.trees.n_rounds
    alone = [task for task, way in plan.sharing.items() if way == "independent"]
    quit_round = {task: 0 if task in alone else n_rounds for task in data.tasks}
    common = CommonModel(pool.trees, quit_round, {}, {})
    followers = {task: 0 if task in alone else n for task, n in plan.own_rounds.items()}
    specific = replace(fixed, specific_params=plan.specific_params)
    models = specific.fit_specific(data, None, common, followers)
    if alone:
        own = {task: plan.own_rounds[task] if task in alone else 0 for task in data.tasks}
        without = replace(plan.independent, common_patience=None, patience=None)
        independent = without.fit_specific(data, None, common, own, alone)
        models |= {task: independent[task] for task in alone}
    return common, models


def plan_sharing(stages: TwoStages, train: Dataset, valid: Dataset) -> SharingPlan:
    """Choose on validation rows; see the module.

    `patience` counts rounds in large steps; in small ones training goes on as much longer.
    """
    rate = stages.params["learning_rate"]
    scale = max(1.0, _SEARCH_LEARNING_RATE / rate)
    large = replace(
        stages,
        params={**stages.params, "learning_rate": rate * scale},
        rounds=math.ceil(stages.rounds / scale),
    )
    patience = math.ceil(stages.patience * scale)
    small = replace(stages, patience=patience, common_patience=patience)

    search = _search(large, train, valid)
    best = search.chosen(small)
    common = best.fit_common(train, valid)
    evidence = Evidence(best, train, valid, common)
    specific_params = _add_best_specific(evidence, best, common, train, valid, stages.patience)
    independent, rounds_of = _add_best_independent(evidence, search, small, common, train, valid)
    sharing = evidence.ways()
    alone = {task: rounds_of(n) for task, n in evidence.rounds("independent").items()}
    continued = evidence.rounds("common + specific")
    plan = SharingPlan(
        stages=best,
        specific_params=specific_params,
        independent=independent,
        pool=list(train.tasks),
        common_rounds=max(common.quit_round.values()),
        sharing=sharing,
        own_rounds={
            task: {"common": 0, "common + specific": continued[task], "independent": alone[task]}[
                way
            ]
            for task, way in sharing.items()
        },
        scores=evidence.scores(),
        common_losses={str(setting): loss for setting, loss in search.losses.items()},
    )
    leavers = {task: alone[task] for task in evidence.better_alone()}
    return _without(leavers, plan, common, train, valid)


def _without(
    leavers: Mapping[TaskName, int],
    plan: SharingPlan,
    common: CommonModel,
    train: Dataset,
    valid: Dataset,
) -> SharingPlan:
    """A few tasks leave the pool, to models with so many rounds, if the others are better off."""
    stay = [task for task in plan.pool if task not in leavers]
    if (
        not leavers
        or 2 * len(stay) <= len(plan.pool)
        or not any(task in valid.tasks for task in stay)
    ):
        return plan
    own, own_valid = _rows_of(train, stay), _rows_of(valid, stay)
    rest = plan.stages.fit_common(own, own_valid)
    before, after = (
        row_losses(plan.stages, own_valid, plan.stages.followed_margins(each, own_valid))
        for each in (common, rest)
    )
    if not _is_better(after, before, row_weights(own_valid)):
        return plan
    ways: dict[TaskName, Sharing] = dict.fromkeys(leavers, "independent")
    return replace(
        plan,
        pool=stay,
        common_rounds=max(rest.quit_round.values()),
        sharing=plan.sharing | ways,
        own_rounds=plan.own_rounds | dict(leavers),
    )


@dataclass(frozen=True, slots=True)
class _Setting:
    """How the common model is trained."""

    size: str
    pooling: float | None = None  # a multiple of what a task has on average
    has_task_splits: bool = False
    subsample: float = _SUBSAMPLES[0]
    is_symmetric: bool = True

    def __str__(self) -> str:
        leaves = "pooled" if self.pooling is None else f"pooling {self.pooling:g}"
        cuts = ["task splits"] * self.has_task_splits
        rows = [f"{self.subsample:g} of the rows"] * (self.subsample != _SUBSAMPLES[0])
        trees = ["symmetric"] * self.is_symmetric
        return ", ".join([self.size, leaves, *cuts, *rows, *trees])

    def sized(self, stages: TwoStages, size: str | None = None) -> TwoStages:
        """Stages with trees of this size, or another one, on this part of the rows."""
        sized = _sizes(stages)[size or self.size]
        params = stages.backend.with_sampling(sized.params, self.subsample)
        return replace(sized, params=params, symmetric_trees=self.is_symmetric)

    def applied(self, stages: TwoStages, pooling: Pooling) -> TwoStages:
        return replace(
            self.sized(stages),
            pooling=pooling,
            task_penalty=_TASK_PENALTY if self.has_task_splits else None,
        )


class _Search:
    """The common model with the least mean loss over all validation rows, so far."""

    def __init__(self, stages: TwoStages, train: Dataset, valid: Dataset) -> None:
        self.stages = stages
        self._train = train
        self._valid = valid
        self.losses: dict[_Setting, float] = {}
        self.best: _Setting
        self.of_rows: _Losses
        self._pooling: Pooling

    def look_at(self, *settings: _Setting, n_errors: float) -> None:
        """Train by each setting that has not been tried.

        A model is kept if it is better than the best so far by more than so many standard errors of
        the difference.
        """
        for setting in settings:
            if setting in self.losses:
                continue
            factor = setting.pooling
            stages = setting.applied(
                self.stages, None if factor is None else RelativePooling(factor)
            )
            common = stages.fit_common(self._train, self._valid)
            margins = stages.followed_margins(common, self._valid)
            of_rows = row_losses(stages, self._valid, margins)
            weights = row_weights(self._valid)
            if not self.losses or _is_better(of_rows, self.of_rows, weights, n_errors):
                self.best, self.of_rows = setting, of_rows
                self._pooling = common.trees.pooled.pooling
            self.losses[setting] = float(np.average(of_rows, weights=weights))

    def chosen(self, stages: TwoStages) -> TwoStages:
        """These stages with the best setting; κ as it was found."""
        return self.best.applied(stages, self._pooling)


def _is_better(losses: _Losses, others: _Losses, weights: _Losses, n_errors: float = 1.0) -> bool:
    """Whether losses of the same rows are smaller by more than so many standard errors."""
    gains = others - losses
    mean = np.average(gains, weights=weights)
    error = np.sqrt((weights**2 * (gains - mean) ** 2).sum()) / weights.sum()
    return bool(mean > n_errors * error)


def _search(stages: TwoStages, train: Dataset, valid: Dataset) -> _Search:
    """Search one setting after the other; the size of trees again when the others are found."""
    search = _Search(stages, _part_of(train, _MOST_ROWS), valid)
    sizes = _sizes(stages)
    is_free = len(sizes) > 1
    first = [_Setting(size, is_symmetric=is_free or stages.symmetric_trees) for size in sizes]
    search.look_at(*first, n_errors=0.0)
    if train.tasks.n_tasks > 1:
        search.look_at(*(replace(search.best, pooling=each) for each in _POOLINGS), n_errors=1.0)
        pooling = search.best.pooling
        if may_split_tasks(train):
            splits = [replace(each, has_task_splits=True) for each in first]
            search.look_at(*splits, n_errors=1.0)
            both = replace(search.best, pooling=pooling, has_task_splits=True)
            search.look_at(both, n_errors=1.0)
        search.look_at(*(replace(search.best, size=size) for size in sizes), n_errors=0.0)
    if is_free and not stages.symmetric_trees:
        others = (replace(search.best, size=size, is_symmetric=False) for size in sizes)
        search.look_at(*others, n_errors=0.0)
    if stages.backend.with_sampling(stages.params, _SUBSAMPLES[0]) != stages.params:
        parts = (replace(search.best, subsample=part) for part in _SUBSAMPLES)
        search.look_at(*parts, n_errors=0.0)
    return search


def _sizes(stages: TwoStages) -> dict[str, TwoStages]:
    """Trees of several sizes, or of the size that the user wants."""
    sizes = {depth: stages.backend.with_size(stages.params, depth) for depth in _DEPTHS}
    return {
        f"depth {depth}": replace(stages, params=params)
        for depth, params in sizes.items()
        if params is not None
    } or {"given size": stages}


def _add_best_specific(
    evidence: Evidence,
    stages: TwoStages,
    common: CommonModel,
    train: Dataset,
    valid: Dataset,
    patience: int | None,
) -> Mapping[str, Any]:
    """The parameters of specific models that the user wants, or the better of two kinds."""
    choices = [stages.specific_params]
    if not stages.specific_params:
        penalty = _STUMP_PENALTY * common.trees.pooled.mean_hessian
        rate = max(stages.params["learning_rate"], _SPECIFIC_LEARNING_RATE)
        stumps = stages.backend.stumps({}, penalty, _STUMP_LEARNING_RATE)
        choices = [{"learning_rate": rate}, stumps]
    models = [
        replace(stages, specific_params=params, patience=patience).fit_specific(
            train, valid, common
        )
        for params in choices
    ]
    best = int(np.argmin([evidence.mean_loss(each, "common + specific") for each in models]))
    evidence.add("common + specific", models[best], common)
    return choices[best]


def _add_best_independent(
    evidence: Evidence,
    search: _Search,
    small: TwoStages,
    common: CommonModel,
    train: Dataset,
    valid: Dataset,
) -> tuple[TwoStages, Callable[[int], int]]:
    """Settings of independent models, and their rounds from those that were found.

    The size of their trees is small, as few rows want, or what the user wants. In small steps they
    are trained only if they come near the common model in large ones.
    """
    nobody = CommonModel(common.trees, dict.fromkeys(train.tasks, 0), {}, {})

    def best_of(steps: TwoStages) -> str:
        """Add the models of the best size."""
        models = {}
        for size in list(_sizes(steps))[:2]:
            stages = search.best.sized(steps, size)
            n_rounds = stages.rounds if stages.specific_rounds else 0
            stages = replace(stages, specific_rounds=n_rounds)
            models[size] = stages.fit_specific(train, valid, nobody, alone=tuple(train.tasks))
        best = min(models, key=lambda size: evidence.mean_loss(models[size], "independent"))
        evidence.add("independent", models[best], nobody)
        return best

    scale = search.stages.params["learning_rate"] / small.params["learning_rate"]
    size = best_of(search.stages)
    losses = evidence.losses_of_rows("independent")
    if scale > 1.0 and not _is_better(search.of_rows, losses, row_weights(valid), _MUCH_WORSE):
        size, scale = best_of(small), 1.0
    return search.best.sized(small, size), lambda n_rounds: math.ceil(scale * n_rounds)


def _part_of(data: Dataset, n_rows: int) -> Dataset:
    """About so many rows, the same part of each task; all if there are no more."""
    if data.n_rows <= n_rows:
        return data
    order = np.argsort(data.tasks.codes, kind="stable")
    rank = np.empty(data.n_rows, np.int64)
    rank[order] = np.arange(data.n_rows) - np.repeat(
        np.cumsum(data.tasks.counts) - data.tasks.counts, data.tasks.counts
    )
    every = -(-data.n_rows // n_rows)
    return data.take(np.flatnonzero(rank % every == 0))


def _rows_of(data: Dataset, tasks: list[TaskName]) -> Dataset:
    if len(tasks) == data.tasks.n_tasks:
        return data
    codes = [data.tasks.code(task) for task in tasks if task in data.tasks]
    return data.take(np.flatnonzero(np.isin(data.tasks.codes, codes)))
