# SPDX-License-Identifier: Apache-2.0
"""Choice of how much each task shares, on validation rows: ``fit(strategy="auto")``.

The order of the search:

1. The common model, one choice after the other, as many as the effort allows (effort.py): how deep
   its trees are, unless the user says; then its leaves, pooled or partially pooled with much or
   little shrinkage; whether nodes may split tasks, and by what; whether trees are symmetric, and
   with how much noise; how many rows they see, and their leaves have. To share less than a pooled
   model must be better by more than one standard error of the difference, over all validation
   rows. Settings are compared in large steps (learning rates), which rank them as small ones do;
   what has won is trained in the small steps of the final model.
   Then the levels of the tasks are estimated again (stages/levels.py).
2. For each task four ways to use it: the common model alone, a specific model that continues it,
   the average with an independent model, or the independent model alone (evidence.py has the
   rule).
3. Tasks that are better alone leave the pool if the others are better off without them; its rounds
   are then found anew.
4. All predictions are shrunk towards a constant, by how far the held-out rows prove that they are
   better (towards_constant.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.progress import Progress
from mtboost.base.tasks import TaskName
from mtboost.base.validation import Folds
from mtboost.metrics.metric import Metric
from mtboost.model.sharing.common_by_fold import CommonByFold, fit_common_by_fold, row_losses
from mtboost.model.sharing.effort import Effort, TimeLimit
from mtboost.model.sharing.evidence import WITH_INDEPENDENT, Evidence, Sharing
from mtboost.model.sharing.plan import SharingPlan
from mtboost.model.sharing.search import (
    Search,
    depths_of,
    is_better,
    part_of,
    search,
    with_linear_effects,
)
from mtboost.model.stages.levels import may_have_levels
from mtboost.model.stages.objectives import Objectives
from mtboost.model.stages.settings import Settings
from mtboost.model.stages.specific import SpecificModel
from mtboost.trees.task_quitting import OnRound

#: Least learning rate of independent models.
_OWN_LEARNING_RATE = 0.05
#: The learning rate at which ``early_stopping_rounds`` counts rounds.
_COUNTED_LEARNING_RATE = 0.1
#: Validation rows by which ways to share are compared, if there are as many.
_ROWS_OF_WAYS = 1000
#: Least learning rate at which trees after linear effects are compared with others.
_LINEAR_LEARNING_RATE = 0.05
#: Standard errors by which independent models may be worse in large steps, to be trained in small.
_MUCH_WORSE = 2.0
#: Time that specific and independent models are predicted to take, in that of a common model.
_N_OWN_MODELS = 2.0
#: λ of specific stumps in units of κ: little more than shrunken offsets at first.
_STUMP_PENALTY = 0.25
_STUMP_LEARNING_RATE = 0.15


def plan_sharing(
    settings: Settings, folds: Folds, effort: Effort, reported: Objectives, progress: Progress
) -> SharingPlan:
    """Choose on validation rows; see the module.

    `early_stopping_rounds` counts rounds at a learning rate of .1; in smaller steps training goes
    on as much longer.

    Parameters
    ----------
    settings : Settings
        Their metrics are means over rows, by which everything is chosen. ``on_round`` is called for
        the chosen common model.
    reported : Objectives
        With the metrics of scores and histories.
    progress : Progress
    """
    on_round, settings = settings.on_round, replace(settings, on_round=None)
    small = _in_steps(settings, 0.0)
    part = part_of(folds, effort.most_rows)
    found, common, scale = _best_common(settings, folds, part, effort, progress)
    best = found.chosen(small)
    history = common.history(reported)
    if on_round is not None:
        _tell(on_round, history)
    common = _with_levels(common)
    watched = common
    if not folds.are_new_tasks:
        watched = common.judged_by(_some_tasks(part, effort.n_tasks))
    evidence = Evidence(best, folds.tasks, watched)
    if folds.are_new_tasks:
        ways = _all_common(folds.tasks.names, found.best.sized(small))
    else:
        one_class = settings.tasks_of_one_class(folds.pairs[0][0])
        ways = _compare_ways(evidence, settings, found, watched, one_class, effort, progress)
    plan = SharingPlan(
        settings=best,
        specific_params=ways.specific_params,
        independent=ways.independent,
        common_share=ways.common_share,
        pool=list(folds.tasks),
        common_rounds=_rounds_in(small, scale, common.n_rounds),
        sharing=ways.sharing,
        own_rounds=ways.own_rounds,
        n_rows=_n_rows(folds) / len(folds.pairs),
        scores=evidence.scores(reported) | _common_scores(common, watched, reported, history),
        common_history=_stretched(history, scale, small.rounds),
        own_history={},
        common_losses={str(setting): loss for setting, loss in found.losses.items()},
        common_choice=str(found.best),
        has_levels=common.has_levels,
    )
    progress.begin("final model")
    plan = _without(ways.leavers, plan, common, scale, reported)
    if part is not folds:
        common = fit_common_by_fold(plan.settings, folds.of_tasks(plan.pool))
        on_most = None if folds.are_new_tasks else common.models[0]
        plan = replace(_with_common(plan, common, 1.0, reported), common=on_most)
    if "shrink_to_constant" not in settings.given:
        plan = replace(plan, factor=evidence.shrink(plan.sharing))
    _add_final_scores(plan, evidence, reported, settings.other_metrics)
    if reported is not settings.objectives or folds.are_new_tasks:
        return plan  # curves of the tasks' own models are not known
    return replace(plan, own_history=_own_history(evidence, plan.sharing, ways.own_scale))


@dataclass(frozen=True, slots=True)
class _Ways:
    """How each task uses the common model; attributes are those of :class:`SharingPlan`.

    Attributes
    ----------
    leavers : dict of task name to int
        Rounds of independent models of tasks that may leave the pool.
    own_scale : float
        Small steps in one of those in which independent models were compared.
    """

    specific_params: Mapping[str, Any]
    independent: Settings
    common_share: float
    sharing: dict[TaskName, Sharing]
    own_rounds: dict[TaskName, int]
    leavers: dict[TaskName, int]
    own_scale: float


def _all_common(tasks: Sequence[TaskName], independent: Settings) -> _Ways:
    """Return the only way that new tasks can be judged by."""
    return _Ways(
        {}, independent, 1.0, dict.fromkeys(tasks, "common"), dict.fromkeys(tasks, 0), {}, 1.0
    )


def _compare_ways(
    evidence: Evidence,
    settings: Settings,
    found: Search,
    watched: CommonByFold,
    one_class: Collection[TaskName],
    effort: Effort,
    progress: Progress,
) -> _Ways:
    """Compare models that each task may have besides the common one, or in its place.

    `settings` are those before the search, `one_class` the tasks whose labels are of one class.
    """
    progress.begin("specific models")
    best = found.chosen(_in_steps(settings, 0.0))
    specific_params = _add_best_specific(
        evidence,
        replace(best, early_stopping_rounds=settings.early_stopping_rounds),
        watched,
        _specific_choices(settings, best, watched, effort),
    )
    progress.begin("independent models")
    least_rate = 0.0 if "learning_rate" in settings.given else _OWN_LEARNING_RATE
    own = _in_steps(settings, least_rate)
    independent, own_scale = _add_best_independent(evidence, found, own, watched, effort)
    common_share = evidence.add_average()
    sharing = _ways(evidence, one_class)
    found_alone = evidence.rounds("independent")
    alone = {task: _rounds_in(independent, own_scale, n) for task, n in found_alone.items()}
    continued = evidence.rounds("common + specific")
    own_rounds = {
        task: {"common": 0, "common + specific": continued[task]}.get(way, alone[task])
        for task, way in sharing.items()
    }
    leavers = {
        task: alone[task] for task in evidence.better_alone(sharing) if task not in one_class
    }
    return _Ways(
        specific_params, independent, common_share, sharing, own_rounds, leavers, own_scale
    )


def _best_common(
    settings: Settings, folds: Folds, part: Folds, effort: Effort, progress: Progress
) -> tuple[Search, CommonByFold, float]:
    """Search the common model on a part of the rows.

    Returns
    -------
    found : Search
    common : CommonByFold
        The chosen model.
    scale : float
        Small steps in one of its steps.
    """
    large, small = _in_steps(settings, effort.learning_rate), _in_steps(settings, 0.0)
    n_after = _N_OWN_MODELS + _steps_in(large, small) * _n_rows(folds) / _n_rows(part)
    found = search(large, part, effort, progress, TimeLimit(effort.seconds, n_after))
    common, scale = found.common, _steps_in(large, small)
    rival = with_linear_effects(found, effort)
    if effort.small_steps or rival is not None:
        steps = small if effort.small_steps else _in_steps(settings, _LINEAR_LEARNING_RATE)
        common, scale = found.fit_chosen(steps), _steps_in(steps, small)
    if rival is not None:
        of_rows = common.losses_of_rows()
        linear = rival.fit_chosen(steps, to_beat=of_rows)
        rival.losses = found.losses | rival.losses
        are_trained = len(linear.models) == len(part.pairs)
        if are_trained and is_better(linear.losses_of_rows(), of_rows, part):
            found, common = rival, linear
        found.losses = rival.losses
    return found, common, scale


def _with_levels(common: CommonByFold) -> CommonByFold:
    """Estimate the levels of the tasks again, unless the validation rows speak against it.

    Trees with leaf values of single tasks share more so: that is rejected only where the validation
    rows are worse off by more than one standard error. Other trees would share less, and must gain
    more than one.
    """
    if not all(may_have_levels(common.settings, train) for train, _ in common.folds.pairs):
        return common
    pooled = common.models[0].trees.pooled
    if common.folds.tasks.n_levels > 1 and not pooled.are_nested:  # no place for values of groups
        return common
    leveled = common.with_levels()
    losses, before = (
        row_losses(each.settings, each.folds, each.followed_margins()) for each in (leveled, common)
    )
    if pooled.pooling is None:
        is_taken = is_better(losses, before, common.folds)
    else:
        is_taken = not is_better(before, losses, common.folds)
    return leveled if is_taken else common


def _ways(evidence: Evidence, one_class: Collection[TaskName]) -> dict[TaskName, Sharing]:
    """Return the way that each task takes, given the tasks with one class.

    Such a task learns nothing alone, and all its validation rows may agree with that.
    """
    return {
        task: "common" if task in one_class and way in WITH_INDEPENDENT else way
        for task, way in evidence.ways().items()
    }


def _add_final_scores(
    plan: SharingPlan, evidence: Evidence, reported: Objectives, others: Sequence[Metric]
) -> None:
    """Add the scores of the way that each task takes, with their errors and other metrics."""
    errors = evidence.errors(reported, plan.sharing)
    other_scores = evidence.other_scores(others, plan.sharing)
    shrunk = evidence.final_scores(reported, plan.sharing) if plan.factor < 1.0 else {}
    for task, way in plan.sharing.items():
        if way in plan.scores[task]:
            plan.scores[task]["final"] = shrunk.get(task, plan.scores[task][way])
            if task in errors:
                plan.scores[task]["final se"] = errors[task]
            plan.scores[task] |= other_scores[task]


def _own_history(
    evidence: Evidence, sharing: Mapping[TaskName, Sharing], scale: float
) -> dict[TaskName, npt.NDArray[np.float64]]:
    """Return curves of the tasks' own models, unless their rounds were found in other steps."""
    histories = {"common + specific": evidence.histories("common + specific")}
    if scale == 1.0:
        of_alone = evidence.histories("independent")
        histories |= {"averaged": of_alone, "independent": of_alone}
    return {task: histories[way][task] for task, way in sharing.items() if way in histories}


def _with_common(
    plan: SharingPlan, common: CommonByFold, scale: float, reported: Objectives
) -> SharingPlan:
    """The plan with the rounds and validation curves of a common model."""
    return replace(
        plan,
        common_rounds=_rounds_in(plan.settings, scale, common.n_rounds),
        common_history=_stretched(common.history(reported), scale, plan.settings.rounds),
    )


def _tell(on_round: OnRound, history: Mapping[TaskName, npt.NDArray[np.float64]]) -> None:
    """Call `on_round` for each round of a model that has been trained."""
    for n_rounds in range(1, max(map(len, history.values()))):
        on_round(n_rounds, {task: float(curve[n_rounds]) for task, curve in history.items()})


def _stretched(
    history: Mapping[TaskName, npt.NDArray[np.float64]], scale: float, most_rounds: int
) -> dict[TaskName, npt.NDArray[np.float64]]:
    """Return validation curves by rounds in small steps, of which `scale` are a large one.

    They end after `most_rounds`.
    """
    curves = {}
    for task, curve in history.items():
        ends = np.ceil(scale * np.arange(len(curve)))  # of the large rounds
        curves[task] = curve[np.searchsorted(ends, np.arange(min(ends[-1], most_rounds) + 1))]
    return curves


def _rounds_in(small: Settings, scale: float, n_rounds: int) -> int:
    """Rounds in small steps, for rounds in large ones; at most what the user wants."""
    return min(small.rounds, math.ceil(scale * n_rounds))


def _steps_in(large: Settings, small: Settings) -> float:
    """Small steps in a large one."""
    return float(large.params["learning_rate"] / small.params["learning_rate"])


def _n_rows(folds: Folds) -> int:
    """Rows to train on, of all folds."""
    return sum(train.n_rows for train, _ in folds.pairs)


def _in_steps(settings: Settings, least: float) -> Settings:
    """The same with at least this learning rate, and with as many fewer rounds."""
    rate = settings.params["learning_rate"]
    own = max(rate, least)
    early_stopping_rounds = math.ceil(
        settings.early_stopping_rounds * max(rate, _COUNTED_LEARNING_RATE) / own
    )
    return replace(
        settings,
        params={**settings.params, "learning_rate": own},
        rounds=math.ceil(settings.rounds * rate / own),
        early_stopping_rounds=early_stopping_rounds,
        common_early_stopping_rounds=early_stopping_rounds,
    )


def _some_tasks(folds: Folds, n_tasks: int) -> list[TaskName]:
    """All tasks, or some of all sizes, by which ways to share are compared for all.

    They are more than `n_tasks` where those would have few validation rows.
    """
    tasks = folds.tasks
    counts = np.bincount(folds.valid_codes(tasks), minlength=tasks.n_tasks)
    by_size = np.argsort(counts, kind="stable")[np.count_nonzero(counts == 0) :]
    n_tasks = max(n_tasks, math.ceil(_ROWS_OF_WAYS * len(by_size) / counts.sum()))
    if len(by_size) > n_tasks:
        by_size = by_size[np.linspace(0, len(by_size) - 1, n_tasks).astype(np.int64)]
    return [tasks.names[code] for code in by_size.tolist()]


def _common_scores(
    common: CommonByFold,
    watched: CommonByFold,
    reported: Objectives,
    history: Mapping[TaskName, npt.NDArray[np.float64]],
) -> dict[TaskName, dict[str, float]]:
    """Validation metric of the tasks by which nothing else was compared.

    The `history` is that of the model, with the levels that its trees have learned.
    """
    if watched.folds.n_valid_rows == common.folds.n_valid_rows:
        return {}
    compared = {task for _, valid in watched.folds.pairs for task in valid.tasks}
    if common.has_levels:
        scores = Evidence(common.settings, common.folds.tasks, common).scores(reported)
        return {task: own for task, own in scores.items() if task not in compared}
    return {
        task: {"common": float(values[min(common.n_rounds, len(values) - 1)])}
        for task, values in history.items()
        if task not in compared
    }


def _without(
    leavers: Mapping[TaskName, int],
    plan: SharingPlan,
    common: CommonByFold,
    scale: float,
    reported: Objectives,
) -> SharingPlan:
    """A few tasks leave the pool, to models with the given rounds, if the others are better off."""
    stay = [task for task in plan.pool if task not in leavers]
    if not leavers or 2 * len(stay) <= len(plan.pool):
        return plan
    others = common.judged_by(stay)
    if not others.models:
        return plan
    rest = fit_common_by_fold(common.settings, common.folds.of_tasks(stay))
    rest = rest.with_levels() if plan.has_levels else rest
    before, after = (
        row_losses(common.settings, each.folds, each.followed_margins()) for each in (others, rest)
    )
    if not is_better(after, before, others.folds):
        return plan
    ways: dict[TaskName, Sharing] = dict.fromkeys(leavers, "independent")
    return replace(
        _with_common(plan, rest, scale, reported),
        pool=stay,
        sharing=plan.sharing | ways,
        own_rounds=plan.own_rounds | dict(leavers),
    )


def _specific_choices(
    settings: Settings, best: Settings, common: CommonByFold, effort: Effort
) -> list[Mapping[str, Any]]:
    """Parameters of specific models: those that the user has fixed, or of two kinds."""
    if settings.specific_params:
        return [settings.specific_params]
    rate = max(best.params["learning_rate"], effort.own_learning_rate)
    choices = [{"learning_rate": rate}]
    if depths_of(settings, effort) != [None]:
        penalty = _STUMP_PENALTY * common.models[0].trees.pooled.mean_hessian
        choices.append(settings.backend.stumps({}, penalty, _STUMP_LEARNING_RATE))
    return [
        {name: value for name, value in choice.items() if name not in settings.given}
        for choice in choices
    ]


def _add_best_specific(
    evidence: Evidence,
    settings: Settings,
    common: CommonByFold,
    choices: list[Mapping[str, Any]],
) -> Mapping[str, Any]:
    """The parameters that specific models are best with."""
    models = [common.fit_specific(replace(settings, specific_params=params)) for params in choices]
    best = int(np.argmin([evidence.mean_loss(each, "common + specific") for each in models]))
    evidence.add("common + specific", models[best], common)
    return choices[best]


def _add_best_independent(
    evidence: Evidence, found: Search, small: Settings, common: CommonByFold, effort: Effort
) -> tuple[Settings, float]:
    """Settings of independent models, and their rounds as a multiple of those that were found.

    The size of their trees is small, as few rows want, or what the user wants. A second size, and
    small steps, are tried only if they come near the common model in large ones.
    """
    nobody = common.unused()
    tasks = common.folds.tasks
    is_watched = np.zeros(tasks.n_tasks, bool)
    is_watched[common.folds.valid_codes(tasks)] = True
    of_common = found.of_rows[is_watched[found.folds.valid_codes(tasks)]]

    def trained(steps: Settings, depth: int | None) -> list[dict[TaskName, SpecificModel]]:
        settings = replace(found.best, depth=depth).sized(steps)
        n_rounds = settings.rounds if settings.specific_rounds else 0
        settings = replace(settings, specific_rounds=n_rounds)
        return nobody.fit_specific(settings, alone=tasks.names)

    def are_near() -> bool:
        losses = evidence.losses_of_rows("independent")
        return not is_better(of_common, losses, common.folds, _MUCH_WORSE)

    scale = _steps_in(found.settings, small)
    best, *others = list(depths_of(found.settings, effort))[:2]
    models = trained(found.settings, best)
    evidence.add("independent", models, nobody)
    for depth in others if are_near() else ():
        other = trained(found.settings, depth)
        if evidence.mean_loss(other, "independent") < evidence.mean_loss(models, "independent"):
            best, models = depth, other
            evidence.add("independent", models, nobody)
    if effort.small_steps and scale > 1.0 and are_near():
        scale = 1.0
        evidence.add("independent", trained(small, best), nobody)
    return replace(found.best, depth=best).sized(small), scale
