"""How much each task shares, found on validation rows: ``fit(strategy="auto")``.

The order of the search:

1. the common model: pooled leaves, or partially pooled ones with few or many values of their own;
2. for each task three ways to use it: the common model alone, a specific model that continues it,
   or an independent model beside it;
3. a task takes a way with less sharing only where that pays by more than one standard error. What a
   task's own validation rows say is shrunk towards what those of all tasks say, by how much the
   gains of tasks differ beyond chance: few rows decide nothing alone.
4. Independent tasks leave the pool, whose rounds are found anew without them.

Rounds are found for many tasks together as well: by a task's own validation curve only as far as it
has many rows, and by the mean curve of the other tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.dataset import Dataset
from mtboost.metrics import Metric, evaluate_by_task
from mtboost.pooled_leaves import EstimatedPooling, Pooling
from mtboost.stages import CommonModel, SpecificModel, TwoStages, as_losses
from mtboost.tasks import TaskName

DoubleArray = npt.NDArray[np.float64]
Sharing = Literal["common", "common + specific", "independent"]

#: Multiples of the κ that is estimated from the first tree.
_POOLING_FACTORS = (25.0, 5.0, 1.0)
#: A task's validation curve counts as many rows as it has, the mean of the others as many as this.
_PRIOR_ROWS = 1000.0


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """What was chosen, and the validation losses that it was chosen by.

    Attributes
    ----------
    pooling : float or None
        κ of the common model's leaves.
    common_rounds : int
    sharing : dict of task name to str
    specific_rounds : dict of task name to int
        Rounds of the task's own; 0 where it has none.
    losses : dict of task name to dict of str to float
        Mean validation loss of the task under each way to share; NaN without validation rows.
    common_losses : dict of str to float
        Mean validation loss of each common model that was tried.
    """

    pooling: float | None
    common_rounds: int
    sharing: dict[TaskName, Sharing]
    specific_rounds: dict[TaskName, int]
    losses: dict[TaskName, dict[str, float]]
    common_losses: dict[str, float] = field(default_factory=dict)

    @property
    def pool(self) -> list[TaskName]:
        """Tasks whose rows the common model is trained on."""
        members = [task for task, way in self.sharing.items() if way != "independent"]
        return members if len(members) > 1 else list(self.sharing)


def fit_plan(
    stages: TwoStages, plan: SharingPlan, data: Dataset
) -> tuple[CommonModel, dict[TaskName, SpecificModel]]:
    """Train what the plan says on all rows of `data`."""
    fixed = replace(
        stages, pooling=plan.pooling, rounds=plan.common_rounds, common_patience=None, patience=None
    )
    pool = fixed.fit_common(_rows_of(data, plan.pool), None)
    n_rounds = pool.trees.n_rounds
    quit_round = {
        task: 0 if way == "independent" else n_rounds for task, way in plan.sharing.items()
    }
    common = CommonModel(pool.trees, quit_round, {}, {})
    alone = [task for task, way in plan.sharing.items() if way == "independent"]
    return common, fixed.fit_specific(data, None, common, plan.specific_rounds, alone)


def plan_sharing(stages: TwoStages, train: Dataset, valid: Dataset) -> SharingPlan:
    """Choose on validation rows; see the module."""
    common, common_losses = _best_common(stages, train, valid)
    rounds = max(common.quit_round.values())
    table = _Evidence(stages, train, valid, common)
    specific = stages.fit_specific(train, valid, common)
    table.add("common + specific", specific, common)
    nobody = CommonModel(common.trees, dict.fromkeys(train.tasks, 0), {}, {})
    independent = stages.fit_specific(train, valid, nobody, alone=tuple(train.tasks))
    table.add("independent", independent, nobody)
    plan = SharingPlan(
        _number(common.trees.pooled.pooling),
        rounds,
        table.ways(),
        table.rounds(),
        table.losses(),
        common_losses,
    )
    if len(plan.pool) == len(train.tasks):
        return plan
    # Those who stay go on without those who left.
    members = [name for name in plan.pool if name in valid.tasks]
    if not members:
        return plan
    alone = replace(stages, pooling=plan.pooling)
    found = alone.fit_common(_rows_of(train, plan.pool), _rows_of(valid, members))
    return replace(plan, common_rounds=max(found.quit_round.values()))


def _best_common(
    stages: TwoStages, train: Dataset, valid: Dataset
) -> tuple[CommonModel, dict[str, float]]:
    """The common model with the least mean loss over all validation rows."""
    choices: list[Pooling] = [None, *map(EstimatedPooling, _POOLING_FACTORS)]
    if train.tasks.n_tasks == 1:
        choices = [None]
    best: CommonModel | None = None
    least = np.inf
    losses: dict[str, float] = {}
    for pooling in choices:
        found = replace(stages, pooling=pooling).fit_common(train, valid)
        settled = _number(found.trees.pooled.pooling)
        if pooling is not None and settled is None:
            break  # the tasks do not differ
        loss = float(row_losses(stages, valid, stages.followed_margins(found, valid)).mean())
        losses["pooled" if settled is None else f"pooling {settled:.3g}"] = loss
        if loss < least:
            best, least = found, loss
    assert best is not None
    return best, losses


def row_losses(stages: TwoStages, valid: Dataset, margins: npt.NDArray[Any]) -> DoubleArray:
    """Loss of each row: the metric of the row alone."""
    n_rows = len(margins)
    predictions = stages.inverse_link(margins[:, 0] if margins.shape[1] == 1 else margins)
    alone = np.arange(n_rows)
    return as_losses(
        stages.metric, evaluate_by_task(stages.metric, valid.labels(), predictions, alone, n_rows)
    )


class _Evidence:
    """Validation losses of the tasks under each way to share."""

    def __init__(
        self, stages: TwoStages, train: Dataset, valid: Dataset, common: CommonModel
    ) -> None:
        self._stages = stages
        self._tasks = train.tasks.names
        self._valid = valid
        self._common = row_losses(stages, valid, stages.followed_margins(common, valid))
        self._codes = np.array([train.tasks.code(name) for name in valid.tasks.names])[
            valid.tasks.codes
        ]
        n_tasks = len(self._tasks)
        self._n_rows = np.bincount(self._codes, minlength=n_tasks).astype(float)
        self._means = {"common": self._task_means(self._common)}
        self._rounds: dict[str, npt.NDArray[np.int64]] = {"common": np.zeros(n_tasks, np.int64)}
        #: Of each way its gain on "common": what is left of it after shrinking and one standard
        #: error.
        self._certain: dict[str, DoubleArray] = {"common": np.zeros(n_tasks)}

    def _task_means(self, losses: DoubleArray) -> DoubleArray:
        sums = np.bincount(self._codes, losses, len(self._tasks))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / self._n_rows)  # NaN without rows

    def add(self, way: str, models: Mapping[TaskName, SpecificModel], start: CommonModel) -> None:
        """Take down what the models of all tasks reach, trained from the margins of `start`."""
        curves = _curves(self._stages.metric, [models[task].history for task in self._tasks])
        known = (self._n_rows > 0) & np.isfinite(curves[:, 0])
        rounds = _shared_rounds(curves, self._n_rows, known)
        loss = curves[np.arange(len(rounds)), rounds]
        difference = self._common - self._losses_of(models, start)
        gain = self._means["common"] - loss
        variance = _variance_of_means(difference, self._codes, self._n_rows)
        known &= np.isfinite(gain) & np.isfinite(variance)
        self._means[way], self._rounds[way] = loss, rounds
        mean, spread = shrunk_means(gain, variance, known)
        self._certain[way] = np.where(rounds > 0, mean - np.sqrt(spread), -np.inf)

    def _losses_of(
        self, models: Mapping[TaskName, SpecificModel], start: CommonModel
    ) -> DoubleArray:
        """Loss of each validation row under the models."""
        margins = self._stages.followed_margins(start, self._valid)
        library = self._stages.backend
        for task in self._valid.tasks:
            booster = models[task].booster
            if booster is None or not models[task].n_rounds:
                continue
            rows = self._valid.tasks.rows(task)
            table = self._valid.task_table(task)
            own = library.predict_margin(booster, table, margins[rows])
            margins[rows] = own.reshape(len(rows), -1)
        return row_losses(self._stages, self._valid, margins)

    def _best_ways(self) -> npt.NDArray[np.int64]:
        return np.asarray(np.argmax(np.array(list(self._certain.values())), axis=0))

    def ways(self) -> dict[TaskName, Sharing]:
        names: list[Any] = list(self._certain)
        return {
            task: names[best] for task, best in zip(self._tasks, self._best_ways(), strict=True)
        }

    def rounds(self) -> dict[TaskName, int]:
        found = list(self._rounds.values())
        return {
            task: int(found[best][code])
            for code, (task, best) in enumerate(zip(self._tasks, self._best_ways(), strict=True))
        }

    def losses(self) -> dict[TaskName, dict[str, float]]:
        return {
            task: {way: float(means[code]) for way, means in self._means.items()}
            for code, task in enumerate(self._tasks)
        }


def shrunk_means(
    values: DoubleArray, variances: DoubleArray, known: npt.NDArray[np.bool_]
) -> tuple[DoubleArray, DoubleArray]:
    """Posterior mean and variance of each value, which vary about a common mean.

    Each known value has a sampling variance; the variance τ² of the true values is estimated by
    moments (DerSimonian and Laird, 1986). A value that is not known has the common mean.

    Parameters
    ----------
    values, variances : ndarray of float64, shape (n,)
    known : ndarray of bool, shape (n,)

    Returns
    -------
    means, variances : ndarrays of float64, shape (n,)
        An infinite variance for all where nothing is known.
    """
    if not known.any():
        return np.zeros(len(values)), np.full(len(values), np.inf)
    found, sampling = values[known], np.maximum(variances[known], 1e-300)
    weights = 1.0 / sampling
    centre = np.average(found, weights=weights)
    excess = (weights * (found - centre) ** 2).sum() - (len(found) - 1)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    spread = max(0.0, excess / scale) if scale > 0.0 else 0.0
    weights = 1.0 / (sampling + spread)
    centre, of_centre = np.average(found, weights=weights), 1.0 / weights.sum()
    share = spread / (sampling + spread)  # of the value's own
    means = np.full(len(values), centre)
    means[known] = share * found + (1.0 - share) * centre
    spreads = np.full(len(values), spread + of_centre)
    spreads[known] = share * sampling + (1.0 - share) ** 2 * of_centre
    return means, spreads


def _variance_of_means(
    values: DoubleArray, codes: npt.NDArray[np.integer[Any]], n_rows: DoubleArray
) -> DoubleArray:
    """Variance of each task's mean; the variance of rows is blended with that of all tasks."""
    n_tasks = len(n_rows)
    counts = np.maximum(n_rows, 1.0)
    means = np.bincount(codes, values, n_tasks) / counts
    squares = np.bincount(codes, (values - means[codes]) ** 2, n_tasks)
    n_free = max(1.0, n_rows.sum() - np.count_nonzero(n_rows))
    prior = 10.0
    of_row = (squares + prior * squares.sum() / n_free) / (counts - 1.0 + prior)
    return np.asarray(of_row / counts)


def _curves(metric: Metric, histories: list[DoubleArray]) -> DoubleArray:
    """Losses by task and round; a curve that ended early goes on as it ended."""
    length = max(1, *(len(history) for history in histories))
    curves = np.full((len(histories), length), np.nan)
    for curve, history in zip(curves, histories, strict=True):
        if len(history):
            curve[: len(history)] = as_losses(metric, history)
            curve[len(history) :] = curve[len(history) - 1]
    return curves


def _shared_rounds(
    curves: DoubleArray, n_rows: DoubleArray, known: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Rounds of each task by its own curve and, as far as that has few rows, by those of others.

    What a task gains at the rounds that its own curve prefers would flatter it.
    """
    if not known.any():
        return np.zeros(len(curves), np.int64)
    steps = np.nan_to_num(curves - curves[:, :1])
    weights = np.where(known, n_rows, 0.0)[:, None]
    own = weights * steps
    others = own.sum(axis=0) - own
    n_others = weights.sum() - weights
    mean = np.divide(others, n_others, out=np.zeros_like(own), where=n_others > 0.0)
    return np.asarray(np.argmin(own + _PRIOR_ROWS * mean, axis=1))


def _rows_of(data: Dataset, tasks: list[TaskName]) -> Dataset:
    if len(tasks) == data.tasks.n_tasks:
        return data
    codes = [data.tasks.code(task) for task in tasks]
    return data.take(np.flatnonzero(np.isin(data.tasks.codes, codes)))


def _number(pooling: Pooling) -> float | None:
    """κ of a finished training."""
    assert not isinstance(pooling, EstimatedPooling)
    return pooling
