"""How much each task shares, found on validation rows: ``fit(strategy="auto")``.

The order of the search:

1. The common model, one choice after the other: how deep its trees are, unless the user says;
   then its leaves, pooled or partially pooled with much or little shrinkage. What has the least
   mean loss over all validation rows is kept.
2. For each task three ways to use it: the common model alone, a specific model that continues it,
   or an independent model beside it (sharing_evidence.py has the rule).
3. Independent tasks leave the pool, whose rounds are found anew without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from mtboost.dataset import Dataset
from mtboost.pooled_leaves import RelativePooling
from mtboost.sharing_evidence import Evidence, row_losses
from mtboost.stages import CommonModel, SpecificModel, TwoStages
from mtboost.tasks import TaskName

Sharing = Literal["common", "common + specific", "independent"]

#: Depths of the common model's trees.
_DEPTHS = (2, 4, 6)
#: κ as multiples of what a task has on average.
_POOLINGS = (2.0, 0.5, 0.1)
#: λ of specific stumps in the same unit: little more than shrunken offsets at first.
_STUMP_PENALTY = 0.25
_STUMP_LEARNING_RATE = 0.15


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """What was chosen, and what it was chosen by.

    Attributes
    ----------
    stages : TwoStages
        Settings of the common model and of independent ones.
    specific_params : mapping
        Parameters of the specific models that differ.
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
    common_rounds: int
    sharing: dict[TaskName, Sharing]
    own_rounds: dict[TaskName, int]
    scores: dict[TaskName, dict[str, float]]
    common_losses: dict[str, float]

    @property
    def pool(self) -> list[TaskName]:
        """Tasks whose rows the common model is trained on."""
        members = [task for task, way in self.sharing.items() if way != "independent"]
        return members if len(members) > 1 else list(self.sharing)


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
        independent = fixed.fit_specific(data, None, common, own, alone)
        models |= {task: independent[task] for task in alone}
    return common, models


def plan_sharing(stages: TwoStages, train: Dataset, valid: Dataset) -> SharingPlan:
    """Choose on validation rows; see the module."""
    found = _best_common(stages, train, valid)
    evidence = Evidence(found.stages, train, valid, found.common)
    specific_params = _add_best_specific(evidence, found, train, valid, stages.specific_params)
    nobody = CommonModel(found.common.trees, dict.fromkeys(train.tasks, 0), {}, {})
    independent = found.stages.fit_specific(train, valid, nobody, alone=tuple(train.tasks))
    evidence.add("independent", independent, nobody)
    plan = SharingPlan(
        found.stages,
        specific_params,
        max(found.common.quit_round.values()),
        evidence.ways(),
        evidence.rounds(),
        evidence.scores(),
        found.losses,
    )
    members = [name for name in plan.pool if name in valid.tasks]
    if len(plan.pool) == len(train.tasks) or not members:
        return plan
    # Those who stay go on without those who left.
    rest = found.stages.fit_common(_rows_of(train, plan.pool), _rows_of(valid, members))
    return replace(plan, common_rounds=max(rest.quit_round.values()))


class _Search:
    """The common model with the least mean loss over all validation rows, so far."""

    def __init__(self, train: Dataset, valid: Dataset) -> None:
        self._train = train
        self._valid = valid
        self.losses: dict[str, float] = {}
        self.stages: TwoStages
        self.common: CommonModel

    def look_at(self, choices: Mapping[str, TwoStages]) -> None:
        """Train each choice that has not been tried, and keep it if it is better."""
        for name, stages in choices.items():
            if name in self.losses:
                continue
            common = stages.fit_common(self._train, self._valid)
            margins = stages.followed_margins(common, self._valid)
            loss = float(row_losses(stages, self._valid, margins).mean())
            if loss < min(self.losses.values(), default=np.inf):
                self.common = common
                self.stages = replace(stages, pooling=common.trees.pooled.pooling)
            self.losses[name] = loss


def _best_common(stages: TwoStages, train: Dataset, valid: Dataset) -> _Search:
    """Search one setting after the other; the size of trees again when leaves are pooled less."""
    search = _Search(train, valid)
    sizes = _sizes(stages)
    search.look_at({f"{size}, pooled": each for size, each in sizes.items()})
    if train.tasks.n_tasks == 1:
        return search
    best = min(search.losses, key=search.losses.__getitem__).removesuffix(", pooled")
    for size in (best, *(size for size in sizes if size != best)):
        poolings = _POOLINGS if size == best else [_factor(search)]
        search.look_at(
            {
                f"{size}, pooling {factor:g}": replace(sizes[size], pooling=RelativePooling(factor))
                for factor in poolings
                if factor is not None
            }
        )
    return search


def _factor(search: _Search) -> float | None:
    """The multiple that is best so far; None for pooled leaves."""
    best = min(search.losses, key=search.losses.__getitem__)
    return None if best.endswith("pooled") else float(best.rpartition(" ")[2])


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
    found: _Search,
    train: Dataset,
    valid: Dataset,
    specific_params: Mapping[str, Any],
) -> Mapping[str, Any]:
    """The parameters of specific models that the user wants, or the better of two kinds."""
    choices = [specific_params]
    if not specific_params:
        penalty = _STUMP_PENALTY * found.common.trees.pooled.mean_hessian
        choices.append(found.stages.backend.stumps({}, penalty, _STUMP_LEARNING_RATE))
    best: Mapping[str, Any] = {}
    least = np.inf
    for params in choices:
        stages = replace(found.stages, specific_params=params)
        models = stages.fit_specific(train, valid, found.common)
        loss = evidence.mean_loss(models)
        if loss < least:
            evidence.add("common + specific", models, found.common)
            best, least = params, loss
    return best


def _rows_of(data: Dataset, tasks: list[TaskName]) -> Dataset:
    if len(tasks) == data.tasks.n_tasks:
        return data
    codes = [data.tasks.code(task) for task in tasks]
    return data.take(np.flatnonzero(np.isin(data.tasks.codes, codes)))
