# SPDX-License-Identifier: Apache-2.0
"""What each task shares: the plan that a search has made, and models trained by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName
from mtboost.model.sharing.evidence import WITH_INDEPENDENT, Sharing
from mtboost.model.stages.common import CommonModel, fit_common
from mtboost.model.stages.levels import with_levels
from mtboost.model.stages.settings import Settings
from mtboost.model.stages.specific import SpecificModel, fit_specific

#: Most that rounds are multiplied by for rows that were held out: a fifth is usual, and still more
#: rounds gained nothing certain (benchmarks/final_rounds.py).
_MOST_RATIO = 1.25


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """Chosen settings, and the scores they were chosen by.

    Attributes
    ----------
    settings : Settings
        Settings of the common model.
    specific_params : mapping
        Parameters of the specific models that differ.
    independent : Settings
        Settings of independent models.
    common_share : float
        Share of the common model where it is averaged with independent ones.
    pool : list of task names
        Tasks whose rows the common model is trained on.
    common_rounds : int
    sharing : dict of task name to str
    own_rounds : dict of task name to int
        Rounds of the task's specific or independent model; 0 where it has none.
    n_rows : float
        Rows, mean over the folds, on which models of these rounds were trained.
    scores : dict of task name to dict of str to float
        Validation metric of the task under each way to share; NaN without validation rows.
        ``"final"`` is that of the way it takes.
    common_history, own_history : dict of task name to ndarray of float64
        Validation metric after 0, 1, ... rounds of the common model, and of the task's specific or
        independent model, both of the training rows alone. A task whose rounds were found in other
        steps has none of the latter.
    common_losses : dict of str to float
        Mean validation loss of each common model that was tried, estimated where it was not trained
        in all folds; NaN: there was no time for it.
    common_choice : str
        The chosen one of these.
    has_levels : bool
        Whether the levels of the tasks are estimated again after the trees of the common model.
    factor : float
        What the leaf values of all trees are multiplied by: predictions are shrunk towards the
        start score.
    common : CommonModel or None
        The common model, where finding its rounds has trained it on all training rows.
    """

    settings: Settings
    specific_params: Mapping[str, Any]
    independent: Settings
    common_share: float
    pool: list[TaskName]
    common_rounds: int
    sharing: dict[TaskName, Sharing]
    own_rounds: dict[TaskName, int]
    n_rows: float
    scores: dict[TaskName, dict[str, float]]
    common_history: dict[TaskName, npt.NDArray[np.float64]]
    own_history: dict[TaskName, npt.NDArray[np.float64]]
    common_losses: dict[str, float]
    common_choice: str
    has_levels: bool = False
    factor: float = 1.0
    common: CommonModel | None = None

    def for_rows(self, n_rows: int) -> SharingPlan:
        """Return the plan for this number of rows: with more of them, trees learn longer.

        The rows that were held out to find the rounds are then trained on, too, and noise is
        learned later. Rounds grow in proportion to the rows, by a quarter at most.
        """
        ratio = min(n_rows / self.n_rows, _MOST_RATIO)
        if ratio <= 1.0:
            return self

        def more(n_rounds: int, most: int) -> int:
            return max(n_rounds, min(most, math.ceil(ratio * n_rounds)))

        most_alone, most_continued = self.independent.rounds, self.settings.specific_rounds
        own_rounds = {
            task: more(n, most_alone if self.sharing[task] in WITH_INDEPENDENT else most_continued)
            for task, n in self.own_rounds.items()
        }
        common_rounds = more(self.common_rounds, self.settings.rounds)
        return replace(self, common_rounds=common_rounds, own_rounds=own_rounds, n_rows=n_rows)


def fit_plan(
    plan: SharingPlan,
    data: Dataset,
    callbacks: tuple[Any, ...] = (),
    pool: CommonModel | None = None,
) -> tuple[CommonModel, dict[TaskName, SpecificModel]]:
    """Train what the plan says on all rows of `data`; histories are those of the plan.

    `pool` is the common model, if it need not be trained.
    """
    fixed = replace(
        plan.settings,
        rounds=max(1, plan.common_rounds),  # none leaves linear effects alone
        common_early_stopping_rounds=None,
        early_stopping_rounds=None,
    ).on_rows(data)
    if pool is None:
        pool = fit_common(fixed, data.of_tasks(plan.pool), None, callbacks)
    n_rounds = min(pool.trees.n_linear + plan.common_rounds, pool.trees.n_rounds)
    if plan.has_levels:
        pool = replace(pool, quit_round=dict.fromkeys(plan.pool, n_rounds))
        pool = with_levels(fixed, data.of_tasks(plan.pool), pool)
        n_rounds = max(pool.quit_round.values())
    averaged = [task for task, way in plan.sharing.items() if way == "averaged"]
    alone = averaged + [task for task, way in plan.sharing.items() if way == "independent"]
    quit_round = {task: 0 if task in alone else n_rounds for task in data.tasks}
    common = CommonModel(pool.trees, quit_round, {}, plan.common_history)
    followers = {task: 0 if task in alone else n for task, n in plan.own_rounds.items()}
    specific = replace(fixed, specific_params=plan.specific_params)
    models = fit_specific(specific, data, None, common, followers)
    if alone:
        own = {task: plan.own_rounds[task] if task in alone else 0 for task in data.tasks}
        without = replace(
            plan.independent, common_early_stopping_rounds=None, early_stopping_rounds=None
        ).on_rows(data)
        independent = fit_specific(without, data, None, common, own, alone)
        models |= {task: independent[task] for task in alone}
    models = {
        task: replace(model, history=plan.own_history.get(task, model.history))
        for task, model in models.items()
    }
    found = _averaged(common, models, dict.fromkeys(averaged, n_rounds), plan.common_share)
    return found if plan.factor == 1.0 else _shrunk(*found, plan.factor)


def _shrunk(
    common: CommonModel, models: Mapping[TaskName, SpecificModel], factor: float
) -> tuple[CommonModel, dict[TaskName, SpecificModel]]:
    """Multiply all leaf values."""
    backend = common.trees.backend
    booster = backend.document(common.trees.booster).scaled(factor).load()
    trees = replace(common.trees, booster=booster, pooled=common.trees.pooled.scaled(factor))
    scaled = {task: model.scaled(backend, factor) for task, model in models.items()}
    return replace(common, trees=trees), scaled


def _averaged(
    common: CommonModel,
    models: dict[TaskName, SpecificModel],
    rounds: Mapping[TaskName, int],
    share: float,
) -> tuple[CommonModel, dict[TaskName, SpecificModel]]:
    """Weigh the common trees and the independent models of some tasks: a sum is then an average.

    `rounds` are those of the common model that these tasks use.
    """
    # A task whose rows have no weight has no model to be averaged with.
    tasks = [task for task in rounds if models[task].n_rounds]
    trees = replace(common.trees, shares=dict.fromkeys(tasks, share))
    models = models | {task: models[task].scaled(trees.backend, 1.0 - share) for task in tasks}
    return CommonModel(trees, {**common.quit_round, **rounds}, {}, common.history), models
