# SPDX-License-Identifier: Apache-2.0
"""The two stages of zhang2019: a common model of all tasks, then a specific one of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import map_in_threads, openmp_threads
from mtboost.metrics import Metric, evaluate_by_task
from mtboost.model.common_trees import CommonTrees
from mtboost.trees.backend import Backend, Margins, UntrainableError
from mtboost.trees.feature_weights import FeaturePrior, PriorOption
from mtboost.trees.losses import TaskLoss, is_multiclass
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.task_column import AddedColumns
from mtboost.trees.task_descriptors import TaskDescriptors, describe_tasks
from mtboost.trees.task_quitting import OnRound
from mtboost.trees.tree_options import TreeOptions


@dataclass(frozen=True, slots=True)
class CommonModel:
    """Stage one: the trees, and how far each task should follow them."""

    trees: CommonTrees
    quit_round: dict[TaskName, int]
    left_after: dict[TaskName, int]
    history: dict[TaskName, npt.NDArray[np.float64]]
    #: What all validation rows together have said, where they have ended the training.
    together: MeanWatch | None = None


@dataclass(frozen=True, slots=True)
class SpecificModel:
    """Stage two of one task; no booster, with the reason, where nothing was gained."""

    booster: Any
    n_rounds: int
    history: npt.NDArray[np.float64]
    reason: str


@dataclass(frozen=True, slots=True)
class TwoStages:
    """Settings of both stages; see :func:`mtboost.fit` for their meaning."""

    backend: Backend
    params: Mapping[str, Any]
    objective: Callable[..., Any] | None
    metric: Metric
    options: TreeOptions
    rounds: int
    early_stopping_rounds: int | None
    min_delta: float
    specific_params: Mapping[str, Any]
    specific_rounds: int
    n_threads: int
    verbose: bool | int = False
    feature_prior: PriorOption = None
    #: Without `early_stopping_rounds`: rounds after which the common model ends if the mean metric
    #: over all validation rows has not improved; all tasks then use the best round.
    common_early_stopping_rounds: int | None = None
    on_round: OnRound | None = None
    #: Arguments of fit() and parameters of the library that the user has fixed: ``strategy="auto"``
    #: searches the others.
    given: Collection[str] = ()

    # ---- stage one (section 3.2 and 3.3) ----------------------------------------------------

    def fit_common(
        self,
        data: Dataset,
        valid: Dataset | None,
        callbacks: tuple[Any, ...] = (),
        to_beat: float = np.inf,
    ) -> CommonModel:
        """Grow the common model; with validation rows, tasks quit when it stops helping them.

        With `common_early_stopping_rounds` training also ends when it is plain that the mean loss
        will not come down to `to_beat`.
        """
        added = self._added_columns(data)
        matrix = self._common_matrix(data, added)
        quitting = valid_matrix = None
        if valid is not None:
            valid_matrix = self._common_matrix(valid, added, matrix)
            quitting = self.backend.quitting(
                valid_matrix,
                valid.tasks,
                metric=self.metric,
                early_stopping_rounds=self.early_stopping_rounds
                if self.common_early_stopping_rounds is None
                else None,
                min_delta=self.min_delta,
                verbose=self.verbose,
            )
            quitting.on_round = self.on_round
        callbacks = (*callbacks, *([quitting] if quitting else []))
        together = None
        if valid is not None and self.common_early_stopping_rounds is not None:
            together = MeanWatch(
                quitting, data, valid, self.metric, self.common_early_stopping_rounds, to_beat
            )
            callbacks = (*callbacks, self.backend.stop_if(together.is_over))
        trees = self._train_common(data, matrix, added, self.rounds, callbacks, valid_matrix)
        n_rounds = max(1, together.best_round) if together else trees.n_rounds
        found = quitting.quit_round if quitting and not together else {}
        return CommonModel(
            trees,
            {task: found.get(task, n_rounds) for task in data.tasks},
            quitting.left_after if quitting else {},
            quitting.history if quitting else {},
            together,
        )

    def refit_common(self, data: Dataset, common: CommonModel) -> CommonModel:
        """Grow it again on more rows, each task leaving after the round found before."""
        n_rounds = common.trees.n_rounds
        quit_at = self.backend.quit_at(common.left_after)
        added = self._added_columns(data)
        matrix = self._common_matrix(data, added)
        trees = self._train_common(data, matrix, added, n_rounds, (quit_at,))
        return CommonModel(trees, common.quit_round, common.left_after, common.history)

    def follow_common(
        self, trees: CommonTrees, data: Dataset, valid: Dataset | None, n_rounds: int
    ) -> CommonModel:
        """How far each of some new tasks should follow a finished common model.

        Up to the round with the best metric on its validation rows; without any, or without
        early_stopping_rounds, `n_rounds`.
        """
        history: dict[TaskName, npt.NDArray[np.float64]] = {}
        quit_round = dict.fromkeys(data.tasks, n_rounds)
        if valid is not None:
            start = self.start_of(valid)
            by_round = (
                self.backend.margins_by_round(trees.booster, valid.common, start)
                if trees.are_same_for_all
                else trees.margins_by_round(valid.common, _row_codes(trees, valid), start)
            )
            values = np.array([self.evaluate(valid, margins) for margins in by_round])
            history = dict(zip(valid.tasks.names, values.T, strict=True))
            gains = self.metric.gains(values, 0.0).T
            fewest = self.backend.fewest_rounds if start is None else 0
            for task, gain in zip(valid.tasks, gains, strict=True):
                if self.early_stopping_rounds is not None and not np.isnan(gain[fewest:]).all():
                    quit_round[task] = fewest + int(np.nanargmax(gain[fewest:]))
        return CommonModel(trees, quit_round, {}, history)

    def evaluate(self, valid: Dataset, margins: Margins) -> npt.NDArray[np.float64]:
        """Metric of each task; margins of shape (n_rows, n_outputs)."""
        return evaluate_by_task(
            self.metric,
            valid.labels(),
            self.inverse_link(margins[:, 0] if margins.shape[1] == 1 else margins),
            valid.tasks.codes,
            valid.tasks.n_tasks,
            valid.weight,
        )

    def inverse_link(self, margins: Margins) -> npt.NDArray[np.floating]:
        """Margins on the scale of the labels; those of a user's own objective as they are."""
        return margins if self.objective else self.backend.inverse_link(self.params, margins)

    def _train_common(
        self,
        data: Dataset,
        matrix: Any,
        added: AddedToCommon | None,
        n_rounds: int,
        callbacks: tuple[Any, ...],
        valid: Any = None,
    ) -> CommonTrees:
        booster, pooled = self.backend.train_common(
            self.params,
            matrix,
            n_rounds,
            tasks=data.tasks,
            options=self.options,
            table=None if added else data.common,
            objective=self.objective_for(data),
            valid=valid,
            callbacks=callbacks,
        )
        if pooled.pooling is None:  # nothing of single tasks
            pooled = PooledTrees(mean_hessian=pooled.mean_hessian)
        return CommonTrees(
            self.backend,
            booster,
            data.tasks.names,
            pooled,
            has_task_column=self.options.task_splits is not None,
            descriptors=added.descriptors if added else None,
        )

    def _added_columns(self, data: Dataset) -> AddedToCommon | None:
        """What tells the tasks of training rows apart, if nodes may divide them."""
        n_descriptors = self.options.n_descriptors
        if n_descriptors is not None:
            has_classes = is_multiclass(self.params.get("objective"))
            return AddedToCommon(data.tasks, describe_tasks(data, n_descriptors, has_classes))
        return None if self.options.task_splits is None else AddedToCommon(data.tasks, None)

    def _common_matrix(self, data: Dataset, added: AddedToCommon | None, ref: Any = None) -> Any:
        return self.backend.matrix(
            data.common,
            label=data.labels(),
            weight=data.weight,
            margin=self.start_of(data),
            params=self.params,
            n_threads=self.n_threads,
            ref=ref,
            added=added.of(data.tasks) if added else None,
        )

    # ---- what differs where each task has a loss of its own (mixed_stages.py) ----------------

    @property
    def losses(self) -> Mapping[TaskName, TaskLoss]:
        """How losses of single tasks stand beside each other; empty if all have one."""
        return {}

    @property
    def metric_names(self) -> str | dict[TaskName, str]:
        """Name of the metric, or of each task's."""
        return self.metric.name

    def on_rows(self, data: Dataset) -> TwoStages:
        """Settings for these training rows."""
        return self

    def of_task(self, task: TaskName) -> TwoStages:
        """Settings of the models that are a task's alone."""
        return self

    def start_of(self, data: Dataset) -> Margins | None:
        """Common margins that the rows start from; None leaves it to the library."""
        return data.base_margin

    def objective_for(self, data: Dataset) -> Callable[..., Any] | None:
        """The function that gives the common model's gradients, if the library does not."""
        return self.objective

    # ---- stage two (section 3.4) ------------------------------------------------------------

    def fit_specific(
        self,
        data: Dataset,
        valid: Dataset | None,
        common: CommonModel,
        n_rounds: Mapping[TaskName, int] | None = None,
        alone: Collection[TaskName] = (),
    ) -> dict[TaskName, SpecificModel]:
        """Continue the common model for each task on its own rows and all its columns.

        `n_rounds` fixes the rounds of each task; otherwise validation rows decide, or without
        early_stopping_rounds all tasks have all rounds. Tasks that are `alone`, and use no common
        rounds, begin at a start score of their own.
        """
        if n_rounds is None and self.early_stopping_rounds is None and valid is None:
            n_rounds = dict.fromkeys(data.tasks, self.specific_rounds)
        if self.specific_rounds == 0 or (n_rounds is None and valid is None):
            reason = "no validation rows" if self.specific_rounds else "specific_rounds is 0"
            return {task: self.of_task(task)._no_model(reason, data, task) for task in data.tasks}
        margins = self.followed_margins(common, data)
        valid_margins = self.followed_margins(common, valid) if valid else None
        prior = self._prior(common, data)
        start = self.backend.start_score(common.trees.booster) if alone else None
        # The largest task first: it would otherwise be waited for at the end.
        tasks = sorted(data.tasks, key=lambda task: -len(data.tasks.rows(task)))
        models = {}
        if n_rounds is None and self.early_stopping_rounds is not None:
            assert valid is not None
            for task in (task for task in tasks if task not in valid.tasks):
                models[task] = self.of_task(task)._no_model("no validation rows", data, task)
            tasks = [task for task in tasks if task in valid.tasks]
        n_parallel = max(1, min(self.n_threads, len(tasks)))
        n_threads = self.n_threads // n_parallel
        stop = _Stop(self.backend)

        def fit_one(task: TaskName) -> SpecificModel:
            fixed = None if n_rounds is None else n_rounds[task]
            own = self.of_task(task)
            try:
                with openmp_threads(n_threads):
                    return own._fit_task(
                        task,
                        common,
                        data,
                        margins,
                        valid,
                        valid_margins,
                        fixed,
                        n_threads,
                        stop.callback,
                        prior,
                        start if task in alone else None,
                    )
            except UntrainableError as error:
                return own._no_model(error.reason, data, task)

        found = map_in_threads(fit_one, tasks, n_parallel, stop.set)
        models |= zip(tasks, found, strict=True)
        return {task: models[task] for task in data.tasks}

    def _fit_task(
        self,
        task: TaskName,
        common: CommonModel,
        data: Dataset,
        margins: Margins | None,
        valid: Dataset | None,
        valid_margins: Margins | None,
        n_rounds: int | None,
        n_threads: int,
        stop: Any,
        prior: FeaturePrior | None,
        left_start: npt.NDArray[np.float32] | None = None,
    ) -> SpecificModel:
        """`left_start` is the start score of the common model that a task alone does not follow."""
        table = data.task_table(task)
        params = self.backend.with_threads({**self.params, **self.specific_params}, n_threads)
        params = self.backend.own_parameters(params, data.common, table)
        if n_rounds == 0:
            return self._no_model("no gain on the validation rows", data, task)
        if data.weight is not None and not data.weight[data.tasks.rows(task)].any():
            return self._no_model("no row has weight", data, task)
        weights = None
        if prior is not None:
            params, weights = self.backend.feature_sampling(params, table, prior)
        if left_start is not None and data.base_margin is None:
            margins = valid_margins = None
        matrix = self._task_matrix(
            table, data, task, margins, n_threads, params, feature_weights=weights
        )
        own_valid = valid is not None and task in valid.tasks
        if n_rounds is None and self.early_stopping_rounds is None and not own_valid:
            n_rounds = self.specific_rounds
        if n_rounds is not None:
            booster = self.backend.train_plain(
                params,
                matrix,
                n_rounds,
                objective=self.objective,
                options=self.options,
                callbacks=[stop],
                table=table,
            )
            if left_start is not None:
                document = self.backend.document(booster)
                booster = self.backend.stand_alone(document, n_rounds, left_start)
            return SpecificModel(booster, n_rounds, np.empty(0), "")
        assert valid is not None
        valid_table = Columns.of(table).align(valid.task_table(task))
        valid_matrix = self._task_matrix(
            valid_table, valid, task, valid_margins, n_threads, params, ref=matrix
        )
        quitting = self.backend.quitting(
            valid_matrix,
            None,
            metric=self.metric,
            early_stopping_rounds=self.early_stopping_rounds,
            min_delta=self.min_delta,
        )
        booster = self.backend.train_plain(
            params,
            matrix,
            self.specific_rounds,
            objective=self.objective,
            options=self.options,
            valid=valid_matrix,
            callbacks=[quitting, stop],
            table=table,
        )
        ((_, history),) = quitting.history.items()
        best = next(
            iter(quitting.quit_round.values()),
            self.specific_rounds if self.early_stopping_rounds is None else None,
        )
        if best is None:
            reason = f"{self.metric.name} is undefined on its validation rows"
            return self._no_model(reason, data, task, history)
        if best == 0:
            return self._no_model("no improvement on its validation rows", data, task, history)
        document = self.backend.document(booster)
        if left_start is None:
            first = self.backend.first_rounds(document, best)
        else:
            first = self.backend.stand_alone(document, best, left_start)
        return SpecificModel(first, best, history, "")

    def _no_model(
        self,
        reason: str,
        data: Dataset,
        task: TaskName,
        history: npt.NDArray[np.float64] | None = None,
    ) -> SpecificModel:
        """No rounds: a booster then only where the task's columns must be remembered."""
        history = np.empty(0) if history is None else history
        own = data.task_columns(task)
        if (own.feature_names, own.n_features) == (
            data.common.feature_names,
            data.common.n_features,
        ):
            return SpecificModel(None, 0, history, reason)
        return SpecificModel(self.backend.nothing(own, self.params), 0, history, reason)

    def _task_matrix(
        self,
        table: Table,
        data: Dataset,
        task: TaskName,
        margins: Margins | None,
        n_threads: int,
        params: Mapping[str, Any],
        ref: Any = None,
        feature_weights: npt.NDArray[np.float32] | None = None,
    ) -> Any:
        rows = data.tasks.rows(task)
        return self.backend.matrix(
            table,
            label=data.labels()[rows],
            weight=None if data.weight is None else data.weight[rows],
            margin=None if margins is None else margins[rows],
            params=params,
            n_threads=n_threads,
            ref=ref,
            feature_weights=feature_weights,
        )

    def _prior(self, common: CommonModel, data: Dataset) -> FeaturePrior | None:
        """What the specific models draw their features by; a common model may have no splits."""
        if not isinstance(self.feature_prior, str):
            return self.feature_prior
        gains = self.backend.importance(common.trees.booster, "total_gain")
        names = self.backend.feature_names(Columns.of(data.common))
        values = [gains.get(name, 0.0) for name in names]
        if not any(values):
            return None
        return (
            values if data.common.feature_names is None else dict(zip(names, values, strict=True))
        )

    def followed_margins(self, common: CommonModel, data: Dataset) -> Margins:
        trees = common.trees
        if trees.are_same_for_all:
            return self.backend.followed_margins(
                trees.booster, data.common, data.base_margin, common.quit_round, data.tasks
            )
        rounds = np.array([common.quit_round[name] for name in data.tasks])[data.tasks.codes]
        return trees.margins(data.common, _row_codes(trees, data), rounds, data.base_margin)


@dataclass(frozen=True, slots=True)
class AddedToCommon:
    """Columns of the common matrix that hold the tasks, or what describes them."""

    tasks: TaskSet
    descriptors: TaskDescriptors | None

    def of(self, tasks: TaskSet) -> AddedColumns:
        """Columns for rows of some of the tasks."""
        codes = np.array([self.tasks.code(name) for name in tasks])[tasks.codes]
        return codes if self.descriptors is None else self.descriptors.of_rows(codes)


def _row_codes(trees: CommonTrees, data: Dataset) -> npt.NDArray[np.int32]:
    return trees.codes_of(data.tasks.names)[data.tasks.codes]


#: What a model may still gain, in units of what it has gained in the second half of its rounds. In
#: 14 searches this stopped 66 of some 290 models; one of them would have been the best in the end.
_HOPE = 3.0


class MeanWatch:
    """The mean loss over all validation rows, round by round; for metrics that are means.

    Attributes
    ----------
    best : float
        The least mean loss.
    best_round : int
        Rounds after which it was reached.
    best_predictions : ndarray
        Of the validation rows after these rounds, on the scale of the labels.
    """

    def __init__(
        self,
        quitting: Any,
        data: Dataset,
        valid: Dataset,
        metric: Metric,
        early_stopping_rounds: int,
        to_beat: float = np.inf,
    ) -> None:
        self._quitting = quitting
        weights = np.bincount(valid.tasks.codes, valid.weight, valid.tasks.n_tasks)
        self._weights = np.zeros(data.tasks.n_tasks)
        self._weights[[data.tasks.code(name) for name in valid.tasks.names]] = weights
        self._metric = metric
        self._early_stopping_rounds = early_stopping_rounds
        self._to_beat = to_beat
        self._bests: list[float] = []
        self.best = np.inf
        self.best_round = 0
        self.best_predictions: npt.NDArray[np.floating] = np.empty(0)

    def is_over(self) -> bool:
        """Whether nothing is to be hoped for; called after each round.

        That is so if the last rounds have not improved the best mean, or if it is several times
        farther from the one to beat than it has come in the second half of the rounds so far.
        """
        values = as_losses(self._metric, self._quitting.last_values)
        known = ~np.isnan(values) & (self._weights > 0)
        mean = float(np.average(values[known], weights=self._weights[known]))
        n_rounds = len(self._bests) + 1
        if mean < self.best:
            self.best, self.best_round = mean, n_rounds
            self.best_predictions = self._quitting.last_predictions.copy()
        self._bests.append(self.best)
        if n_rounds >= 2 * self._early_stopping_rounds:
            lately = self._bests[n_rounds // 2 - 1] - self.best
            if self.best - _HOPE * lately > self._to_beat:
                return True
        return n_rounds - self.best_round >= self._early_stopping_rounds


def as_losses(metric: Metric, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Values of a metric of groups of rows as losses whose means are those of the rows together."""
    if metric.name in ("rmse", "rmsle"):
        return values**2
    return -values if metric.greater_is_better else values


def from_loss(metric: Metric, loss: float) -> float:
    """The metric of rows whose mean loss it is, the way back of :func:`as_losses`.

    An estimated mean of squares may be below 0; its root is 0.
    """
    if metric.name in ("rmse", "rmsle"):
        return float(np.sqrt(np.maximum(loss, 0.0)))
    return float(-loss if metric.greater_is_better else loss)


class _Stop:
    """Ends the trainings whose callback it is, in whatever thread, after the round they are in."""

    def __init__(self, backend: Backend) -> None:
        self.is_set = False
        self.callback = backend.stop_if(lambda: self.is_set)

    def set(self) -> None:
        self.is_set = True
