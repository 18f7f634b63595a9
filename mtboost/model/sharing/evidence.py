# SPDX-License-Identifier: Apache-2.0
"""Evidence of validation rows for how much each task should share.

One way is chosen for all tasks: that with less sharing only where it pays by more than one standard
error over all rows. A task takes another way where that pays by more than two. What its own
validation rows say is shrunk towards the mean of all tasks, by how much of the difference between
tasks is chance: few rows decide nothing alone. Rounds are found for many tasks together as well: by
a task's own validation curve only as far as it has many rows, and by the mean curve of the other
tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.metrics.metric import Metric
from mtboost.model.estimates import Rows, errors_by_task, other_scores
from mtboost.model.sharing.common_by_fold import (
    CommonByFold,
    are_judged,
    on_label_scale,
    row_losses,
)
from mtboost.model.sharing.curves import mean_curves, mean_histories
from mtboost.model.sharing.towards_constant import garrote_factor
from mtboost.model.stages.objectives import Objectives
from mtboost.model.stages.settings import Settings
from mtboost.model.stages.specific import SpecificModel, start_alone
from mtboost.trees.shrinkage import Known, shrunk_means

Sharing = Literal["common", "common + specific", "averaged", "independent"]
#: Those with a model of the task alone.
WITH_INDEPENDENT: tuple[Sharing, ...] = ("averaged", "independent")

#: Models of the tasks trained in each fold.
ModelsByFold: TypeAlias = Sequence[Mapping[TaskName, SpecificModel]]

#: From more sharing to less.
_WAYS: tuple[Sharing, ...] = ("common", "common + specific", "averaged", "independent")
#: Shares of the common model in an average.
_SHARES = (0.75, 0.5, 0.25)

#: Rows that the mean curve of the other tasks counts beside a task's own.
_PRIOR_ROWS = 1000.0
#: Standard errors that a task must gain to take another way than the others.
_OWN_WAY = 2.0


class Evidence:
    """Validation losses of the tasks under each way to share.

    Attributes
    ----------
    factor : float
        What predictions of the chosen ways are shrunk by towards a constant.
    """

    def __init__(self, settings: Settings, tasks: TaskSet, common: CommonByFold) -> None:
        self._settings = settings
        self._tasks = tasks.names
        self._folds = folds = common.folds
        self._valid_tasks = TaskSet(tasks.names, folds.valid_codes(tasks).astype(np.int32))
        self._codes = self._valid_tasks.codes
        self._losses = settings.objectives.losses_of(self._tasks)
        n_tasks = len(self._tasks)
        self._weights, self._groups = folds.valid_weights(), folds.valid_groups()
        #: Validation rows of each task; weighted rows count by their weight.
        self._n_rows = np.asarray(np.bincount(self._codes, self._weights, n_tasks), np.float64)
        #: Those by which its metric is known.
        judged = self._weights * are_judged(settings, folds)
        self._n_judged = np.asarray(np.bincount(self._codes, judged, n_tasks), np.float64)
        #: The same as `_n_rows` in each fold.
        self._n_fold_rows = folds.valid_rows_by_task(tasks)
        # Of each way: margins of rows, losses of rows, their means by task, and rounds.
        margins = common.followed_margins()
        self.factor, self._constant = 1.0, common.unused().followed_margins()
        of_rows = row_losses(settings, folds, margins)
        self._margins: dict[Sharing, npt.NDArray[Any]] = {"common": margins}
        self._of_rows: dict[Sharing, Float64Array] = {"common": of_rows}
        self._means: dict[Sharing, Float64Array] = {"common": self._task_means(of_rows)}
        self._rounds: dict[Sharing, npt.NDArray[np.int64]] = {"common": np.zeros(n_tasks, np.int64)}
        self._histories: dict[Sharing, dict[TaskName, Float64Array]] = {}
        #: Tasks with a model in each fold that holds out rows of them.
        self._are_compared: dict[Sharing, Known] = {"common": self._n_rows > 0}

    def _task_means(self, losses: Float64Array) -> Float64Array:
        sums = np.bincount(self._codes, self._weights * losses, len(self._tasks))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / self._n_rows)  # NaN without rows

    def mean_loss(self, models: ModelsByFold, way: Sharing) -> float:
        """Mean loss of all validation rows at the shared rounds of the models; none: infinite."""
        losses, _, known = self._read(models, way)
        if not known.any():
            return np.inf
        return float(np.average(losses[known], weights=self._n_rows[known]))

    def _read(
        self, models: ModelsByFold, way: Sharing
    ) -> tuple[Float64Array, npt.NDArray[np.int64], Known]:
        """Loss of each task at the rounds it gets, these rounds, and whether they are known.

        They are if the task has a model in each fold that holds out rows of it. Where all its rows
        of one class are held out it has none, and by the other folds alone the other class would
        be certain.
        """
        judged = np.flatnonzero(self._n_rows > 0)  # often few of many tasks
        names = [self._tasks[code] for code in judged.tolist()]
        none = np.empty(0)  # the last curve is that of all other tasks
        histories = [
            [*(own[task].history if task in own else none for task in names), none]
            for own in models
        ]
        n_rows = np.append(self._n_rows[judged], 0.0)
        n_fold_rows = np.pad(self._n_fold_rows[:, judged], ((0, 0), (0, 1)))
        losses_of = self._settings.objectives.losses_of([*names, names[0]])
        curves = mean_curves(losses_of, histories, n_fold_rows)
        has_model = np.array([[len(history) > 0 for history in own] for own in histories])
        is_known = (has_model | (n_fold_rows == 0)).all(axis=0) & np.isfinite(curves[:, 0])
        is_known &= n_rows > 0
        found = _shared_rounds(curves, n_rows, is_known)
        if way != "independent":  # a task that ended early has no more to add to the common model
            ends = np.array([[len(history) - 1 for history in own] for own in histories])
            ends = np.maximum(ends.max(axis=0), 0)
            found = np.where(is_known, np.minimum(found, ends), found)
        losses = np.full(len(self._tasks), np.nan)
        rounds = np.full(len(self._tasks), found[-1])
        known = np.zeros(len(self._tasks), bool)
        losses[judged] = curves[np.arange(len(judged)), found[:-1]]
        rounds[judged], known[judged] = found[:-1], is_known[:-1]
        return losses, rounds, known

    def add(self, way: Sharing, models: ModelsByFold, start: CommonByFold) -> None:
        """Take down what the models of all tasks reach, trained from the margins of `start`."""
        losses, self._rounds[way], are_compared = self._read(models, way)
        self._margins[way] = self._margins_of(models, start, are_alone=way == "independent")
        self._of_rows[way] = row_losses(self._settings, self._folds, self._margins[way])
        in_some_folds = np.isfinite(losses) & ~are_compared
        self._means[way] = np.where(in_some_folds, self._task_means(self._of_rows[way]), losses)
        self._are_compared[way] = are_compared
        histories = [{task: model.history for task, model in own.items()} for own in models]
        self._histories[way] = mean_histories(
            self._losses, histories, self._tasks, self._n_fold_rows
        )

    def add_average(self) -> float:
        """Take down the best average of common and independent margins; the common ones' share.

        Boosters of independent models end at their own best rounds, which overfits the validation
        rows; what the shared rounds lose more is counted as far as they have a share.
        """
        common, alone = self._margins["common"], self._margins["independent"]
        optimism = self._means["independent"] - self._task_means(self._of_rows["independent"])
        known = self._are_compared["averaged"] = self._are_compared["independent"]
        optimism = np.maximum(optimism, 0.0)
        of_rows = {
            share: row_losses(self._settings, self._folds, share * common + (1.0 - share) * alone)
            for share in _SHARES
        }
        means = {
            share: self._task_means(losses) + (1.0 - share) * optimism
            for share, losses in of_rows.items()
        }
        best = min(_SHARES, key=lambda share: (self._n_rows * means[share])[known].sum())
        self._margins["averaged"] = best * common + (1.0 - best) * alone
        self._of_rows["averaged"], self._means["averaged"] = of_rows[best], means[best]
        self._rounds["averaged"] = self._rounds["independent"]
        return best

    def losses_of_rows(self, way: Sharing) -> Float64Array:
        """Loss of each validation row."""
        return self._of_rows[way]

    def _gains(self, way: Sharing, other: Sharing) -> tuple[Float64Array, Float64Array, Known]:
        """Gain of each task by `way` on another, its sampling variance, and whether it is known."""
        gains = self._means[other] - self._means[way]
        differences = self._of_rows[other] - self._of_rows[way]
        variances = _variance_of_means(
            differences, self._weights, self._codes, self._n_rows, self._groups
        )
        known = self._are_compared[way] & self._are_compared[other] & np.isfinite(variances)
        return gains, variances, known

    def _way_of_all(self) -> Sharing:
        """From more sharing to less, what pays."""
        best: Sharing = "common"
        for way in self._found():
            n_errors = 0.0 if way == "averaged" else 1.0
            if pays_for_all(*self._gains(way, best), self._n_rows, n_errors):
                best = way
        return best

    def _found(self) -> list[Sharing]:
        """The ways, from more sharing to less."""
        return [way for way in _WAYS if way in self._means]

    def _certain_gains(self, way: Sharing, other: Sharing, n_errors: float) -> Float64Array:
        """Return the gains of the tasks, shrunk, minus a number of standard errors.

        Of a task without validation rows nothing is certain: it follows the others.
        """
        shrunk, errors = shrunk_means(*self._gains(way, other))
        is_certain = self._is_possible(way) & (self._n_rows > 0.0)
        return np.where(is_certain, shrunk - n_errors * errors, -np.inf)

    def _is_possible(self, way: Sharing) -> npt.NDArray[np.bool_]:
        """Whether a task's own model has rounds, if the way has one."""
        return (self._rounds[way] > 0) | (way == "common")

    def _margins_of(
        self, models: ModelsByFold, start: CommonByFold, are_alone: bool
    ) -> npt.NDArray[Any]:
        """Margins of the validation rows under the models."""
        margins = start.followed_margins()
        library = self._settings.backend
        first = 0
        for (train, valid), settings, own in zip(
            self._folds.pairs, start.by_fold, models, strict=True
        ):
            for task in valid.tasks:
                model, rows = own[task], first + valid.tasks.rows(task)
                if model.n_rounds > 0:
                    found = model.margins(library, valid.task_table(task), margins[rows])
                    margins[rows] = found.reshape(len(rows), -1)
                elif are_alone and len(model.history) > 0:  # which begins at its own start score
                    margins[rows] = start_alone(settings, train, task, margins[rows])
            first += valid.n_rows
        return margins

    def ways(self) -> dict[TaskName, Sharing]:
        """The way that each task takes."""
        way_of_all = self._way_of_all()
        best = np.where(self._is_possible(way_of_all), way_of_all, "common").astype(object)
        most = np.zeros(len(self._tasks))
        for way in self._found():
            if way == way_of_all:
                continue
            gains = self._certain_gains(way, way_of_all, _OWN_WAY)
            best[gains > most] = way
            most = np.maximum(gains, most)
        return dict(zip(self._tasks, best.tolist(), strict=True))

    def shrink(self, ways: Mapping[TaskName, Sharing]) -> float:
        """Shrink the predictions of the tasks' ways towards a constant; return the factor.

        Rankings do not change by a factor, and LightGBM's trees hold the start score: 1 for them.
        """
        if self._folds.valid_queries() is None and not self._settings.backend.fewest_rounds:
            margins, constant = self._margins_by(ways), self._constant
            scale = self._losses.scales.max()  # makes a log loss one of the labels' likelihood

            def losses_at(multiple: float) -> Float64Array:
                shrunk = constant + multiple * (margins - constant)
                return np.asarray(scale * row_losses(self._settings, self._folds, shrunk))

            is_likelihood = all(own.name in ("logloss", "mlogloss") for own in self._losses.kinds)
            is_likelihood &= bool(self._losses.scales.min() == scale)
            self.factor = garrote_factor(losses_at, self._weights, self._groups, is_likelihood)
        return self.factor

    def histories(self, way: Sharing) -> dict[TaskName, Float64Array]:
        """Validation curves of the tasks' own models; empty where there is none."""
        return {task: self._histories[way].get(task, np.empty(0)) for task in self._tasks}

    def rounds(self, way: Sharing) -> dict[TaskName, int]:
        """Rounds of each task's own model under a way."""
        return dict(zip(self._tasks, self._rounds[way].tolist(), strict=True))

    def better_alone(self, ways: Mapping[TaskName, Sharing]) -> list[TaskName]:
        """Return the tasks with a better independent model than the common one, and no better way.

        Parameters
        ----------
        ways : mapping of task name to str
            The way that each task takes.
        """
        are_better = self._certain_gains("independent", "common", 1.0) > 0.0
        of_tasks = np.array([ways[task] for task in self._tasks])
        for way in self._found():
            gains = self._certain_gains(way, "independent", 1.0)
            are_better &= (of_tasks != way) | (gains <= 0.0)
        return [self._tasks[code] for code in np.flatnonzero(are_better).tolist()]

    def scores(self, reported: Objectives) -> dict[TaskName, dict[str, float]]:
        """The validation metric of each task under each way, by these objectives."""
        found = {way: self._scores_of(way, reported) for way in self._found()}
        return {
            task: {way: float(scores[code]) for way, scores in found.items()}
            for code, task in enumerate(self._tasks)
        }

    def errors(
        self, reported: Objectives, ways: Mapping[TaskName, Sharing]
    ) -> dict[TaskName, float]:
        """Return the standard error of the validation metric of each task under its way."""
        rows, errors = self._rows(ways), dict[TaskName, float]()
        for metric, own, _ in reported.losses_of(self._tasks).by_metric(self._codes):
            errors |= errors_by_task(metric, rows.take(own), self._codes[own], self._tasks)
        return errors

    def other_scores(
        self, metrics: Sequence[Metric], ways: Mapping[TaskName, Sharing]
    ) -> dict[TaskName, dict[str, float]]:
        """Return scores of each task under its way by other metrics, by names of a report."""
        return other_scores(metrics, self._rows(ways), self._codes, self._tasks)

    def _rows(self, ways: Mapping[TaskName, Sharing]) -> Rows:
        """Return the validation rows with the predictions of each task under its way."""
        predictions = on_label_scale(self._settings, self._valid_tasks, self._shrunk_margins(ways))
        weights, queries = self._weights, self._folds.valid_queries()
        if queries is not None:  # the first row of each has the weight of the query
            weights = weights[np.unique(queries, return_index=True)[1]][queries]
        return Rows(
            np.concatenate([valid.labels() for _, valid in self._folds.pairs]).astype(np.float64),
            np.asarray(predictions, np.float64),
            weights,
            queries=queries,
        )

    def _shrunk_margins(self, ways: Mapping[TaskName, Sharing]) -> npt.NDArray[Any]:
        """Return the margins of the validation rows, shrunk towards the constant."""
        margins = self._margins_by(ways)
        if self.factor < 1.0:
            margins = self._constant + self.factor * (margins - self._constant)
        return margins

    def _margins_by(self, ways: Mapping[TaskName, Sharing]) -> npt.NDArray[Any]:
        """Return the margins of the validation rows, of each task under its way."""
        own_way = np.array([ways.get(task, "common") for task in self._tasks])[self._codes]
        margins = self._margins["common"].copy()
        for way in self._found():
            margins[own_way == way] = self._margins[way][own_way == way]
        return margins

    def final_scores(
        self, reported: Objectives, ways: Mapping[TaskName, Sharing]
    ) -> dict[TaskName, float]:
        """Return the validation metric of each task under its way, shrunk."""
        if reported is self._settings.objectives:
            # Hazards are compared within a fold, as in the scores of single ways.
            losses = row_losses(self._settings, self._folds, self._shrunk_margins(ways))
            scores = self._values(self._task_means(losses))
        else:
            scores = self._metric_by_task(reported, self._rows(ways).prediction)
        judged = np.flatnonzero(self._n_rows > 0).tolist()
        return {self._tasks[code]: float(scores[code]) for code in judged}

    def _scores_of(self, way: Sharing, reported: Objectives) -> Float64Array:
        if reported is self._settings.objectives:
            return self._values(self._means[way])
        margins = self._margins[way]
        predictions = on_label_scale(self._settings, self._valid_tasks, margins)
        return self._metric_by_task(reported, predictions)

    def _values(self, means: Float64Array) -> Float64Array:
        """Return the metric of each task by its mean loss."""
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN if no row is judged
            of_judged = means * (self._n_rows / self._n_judged)
        return np.array([self._losses.value(*each) for each in enumerate(of_judged)])

    def _metric_by_task(
        self, reported: Objectives, predictions: npt.NDArray[np.floating]
    ) -> Float64Array:
        labels = np.concatenate([valid.labels() for _, valid in self._folds.pairs])
        weights = None
        if any(valid.weight is not None for _, valid in self._folds.pairs):
            weights = self._folds.row_weights()
        queries = self._folds.valid_queries()
        losses = reported.losses_of(self._tasks)
        return losses.evaluate(labels, predictions, self._codes, weights, queries)


def pays_for_all(
    gains: Float64Array,
    variances: Float64Array,
    known: Known,
    n_rows: Float64Array,
    n_errors: float = 1.0,
) -> bool:
    """Return whether all rows together gain this many standard errors, whichever task is left out.

    A task that is far from the others speaks for itself alone.

    Parameters
    ----------
    gains, variances : ndarray of float64, shape (n_tasks,)
        Mean gain of the rows of each task, and its sampling variance.
    known : ndarray of bool, shape (n_tasks,)
    n_rows : ndarray of float64, shape (n_tasks,)
    n_errors : float
    """
    gained = n_rows[known] * gains[known]
    noise = n_rows[known] ** 2 * variances[known]
    others, of_others = gained.sum() - gained, noise.sum() - noise
    return len(gained) > 1 and bool((others > n_errors * np.sqrt(of_others)).all())


def _variance_of_means(
    values: Float64Array,
    weights: Float64Array,
    codes: npt.NDArray[np.integer[Any]],
    n_rows: Float64Array,
    groups: npt.NDArray[np.int64] | None = None,
) -> Float64Array:
    """Variance of each task's mean, from the variance of rows within all tasks.

    Not from a task's own rows: where two models hardly differ the gain is small, its variance too,
    and such tasks would outweigh the others. Where rows of one group are correlated it is
    multiplied by the design effect of the groups (kish1965), so that sums over tasks have the
    right variance too.
    """
    counts = np.where(n_rows > 0.0, n_rows, np.inf)
    means = np.bincount(codes, weights * values, len(n_rows)) / counts
    deviations = values - means[codes]
    squares = (weights * deviations**2).sum()
    n_free = max(1.0, n_rows.sum() - np.count_nonzero(n_rows))
    effect = 1.0 if groups is None else _design_effect(weights * deviations, squares, codes, groups)
    return np.asarray(effect * squares / n_free / np.maximum(n_rows, 1e-9))


def _design_effect(
    deviations: Float64Array,
    squares: float,
    codes: npt.NDArray[np.integer[Any]],
    groups: npt.NDArray[np.int64],
) -> float:
    """Return the variance of the sum of weighted deviations, by that of independent rows.

    Within tasks it is estimated. Between tasks it is at least 1: a negative correlation is hardly
    more than chance.
    """
    if squares == 0.0:
        return 1.0
    places = np.unique(groups * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
    within = (np.bincount(places, deviations) ** 2).sum()
    return float(max(within, (np.bincount(groups, deviations) ** 2).sum()) / squares)


def _shared_rounds(
    curves: Float64Array, n_rows: Float64Array, known: Known
) -> npt.NDArray[np.int64]:
    """Rounds of each task by its own curve and, as far as that has few rows, by those of others.

    What a task gains at the rounds that its own curve prefers is too optimistic, and where the mean
    curve is flat a little is enough to prefer others: an own curve of n rows counts n²/(n + prior).
    """
    if not known.any():
        return np.zeros(len(curves), np.int64)
    steps = np.nan_to_num(curves - curves[:, :1])
    weights = np.where(known, n_rows, 0.0)[:, None]
    own = weights * steps
    others = own.sum(axis=0) - own
    own *= weights / (weights + _PRIOR_ROWS)
    n_others = weights.sum() - weights
    mean = np.divide(others, n_others, out=np.zeros_like(own), where=n_others > 0.0)
    return np.asarray(np.argmin(own + _PRIOR_ROWS * mean, axis=1))
