"""The two stages of zhang2019: a common model of all tasks, then a specific one of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.dataset import Dataset
from mtboost.losses import inverse_link
from mtboost.metrics import Metric, evaluate_by_task
from mtboost.scores import Beta, Score
from mtboost.tables import Columns, Table
from mtboost.tasks import TaskName
from mtboost.threads import openmp_threads
from mtboost.xgboost import assemble
from mtboost.xgboost.callbacks import InOrder, TaskSplit
from mtboost.xgboost.library import with_start
from mtboost.xgboost.matrices import plain_matrix, quantile_matrix
from mtboost.xgboost.plain import train_plain
from mtboost.xgboost.quitting import QuitAt, TaskQuitting
from mtboost.xgboost.residual import residual_margin

Margins = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CommonModel:
    """Stage one: the booster, and how far each task should follow it."""

    booster: xgboost.Booster
    quit_round: dict[TaskName, int]
    left_after: dict[TaskName, int]
    history: dict[TaskName, npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class SpecificModel:
    """Stage two of one task; no booster, with the reason, where nothing was gained."""

    booster: xgboost.Booster | None
    n_rounds: int
    history: npt.NDArray[np.float64]
    reason: str


@dataclass(frozen=True, slots=True)
class TwoStages:
    """Settings of both stages; see :func:`mtboost.fit` for their meaning."""

    params: Mapping[str, Any]
    objective: Callable[..., Any] | None
    metric: Metric
    score: Score
    beta: Beta
    rounds: int
    patience: int | None
    min_delta: float
    specific_params: Mapping[str, Any]
    specific_rounds: int
    n_threads: int
    verbose: bool | int = False

    # ---- stage one (section 3.2 and 3.3) ----------------------------------------------------

    def fit_common(
        self,
        data: Dataset,
        valid: Dataset | None,
        callbacks: tuple[xgboost.callback.TrainingCallback, ...] = (),
    ) -> CommonModel:
        """Grow the common model; with validation rows, tasks quit when it stops helping them."""
        matrix = self._common_matrix(data)
        quitting = None
        if valid is not None:
            quitting = TaskQuitting(
                self._common_matrix(valid, ref=matrix),
                valid.tasks,
                metric=self.metric,
                patience=self.patience,
                min_delta=self.min_delta,
                verbose=self.verbose,
            )
        booster = self._train_common(
            data, matrix, self.rounds, (*callbacks, *([quitting] if quitting else []))
        )
        n_rounds = booster.num_boosted_rounds()
        found = quitting.quit_round if quitting else {}
        return CommonModel(
            booster,
            {task: found.get(task, n_rounds) for task in data.tasks},
            quitting.left_after if quitting else {},
            quitting.history if quitting else {},
        )

    def refit_common(self, data: Dataset, common: CommonModel) -> CommonModel:
        """Grow it again on more rows, each task leaving after the round found before."""
        n_rounds = common.booster.num_boosted_rounds()
        booster = self._train_common(
            data, self._common_matrix(data), n_rounds, (QuitAt(common.left_after),)
        )
        return CommonModel(booster, common.quit_round, common.left_after, common.history)

    def follow_common(
        self, booster: xgboost.Booster, data: Dataset, valid: Dataset | None, n_rounds: int
    ) -> CommonModel:
        """How far each of some new tasks should follow a finished common model.

        Up to the round with the best metric on its validation rows; without any, or without
        patience, `n_rounds`.
        """
        history: dict[TaskName, npt.NDArray[np.float64]] = {}
        quit_round = dict.fromkeys(data.tasks, n_rounds)
        if valid is not None:
            values = np.array([self._evaluate(valid, m) for m in margins_by_round(booster, valid)])
            history = dict(zip(valid.tasks.names, values.T, strict=True))
            sign = 1.0 if self.metric.greater_is_better else -1.0
            for task, found in history.items():
                if self.patience is not None and not np.isnan(found).all():
                    quit_round[task] = int(np.nanargmax(sign * found))
        return CommonModel(booster, quit_round, {}, history)

    def _evaluate(self, valid: Dataset, margins: Margins) -> npt.NDArray[np.float64]:
        return evaluate_by_task(
            self.metric,
            valid.labels(),
            inverse_link(
                self.objective or self.params["objective"],
                margins[:, 0] if margins.shape[1] == 1 else margins,
            ),
            valid.tasks.codes,
            valid.tasks.n_tasks,
            valid.weight,
        )

    def _train_common(
        self,
        data: Dataset,
        matrix: xgboost.DMatrix,
        n_rounds: int,
        callbacks: tuple[xgboost.callback.TrainingCallback, ...],
    ) -> xgboost.Booster:
        split = TaskSplit(data.tasks, score=self.score, beta=self.beta, table=data.common.native)
        return xgboost.train(
            with_start(self.params, matrix),
            matrix,
            n_rounds,
            obj=self.objective,
            verbose_eval=False,
            callbacks=[InOrder([split, *callbacks])],
        )

    def _common_matrix(self, data: Dataset, ref: xgboost.DMatrix | None = None) -> xgboost.DMatrix:
        return quantile_matrix(
            data.common,
            label=data.labels(),
            weight=data.weight,
            base_margin=data.base_margin,
            max_bin=self.params.get("max_bin"),
            n_threads=self.n_threads,
            ref=ref,
        )

    # ---- stage two (section 3.4) ------------------------------------------------------------

    def fit_specific(
        self,
        data: Dataset,
        valid: Dataset | None,
        common: CommonModel,
        n_rounds: Mapping[TaskName, int] | None = None,
    ) -> dict[TaskName, SpecificModel]:
        """Continue the common model for each task on its own rows and all its columns.

        `n_rounds` fixes the rounds of each task; otherwise validation rows decide, or without
        patience all tasks have all rounds.
        """
        if n_rounds is None and self.patience is None and valid is None:
            n_rounds = dict.fromkeys(data.tasks, self.specific_rounds)
        if self.specific_rounds == 0 or (n_rounds is None and valid is None):
            reason = "no validation rows" if self.specific_rounds else "specific_rounds is 0"
            return {task: self._no_model(reason, data, task) for task in data.tasks}
        margins = common_margins(common.booster, data, common.quit_round)
        valid_margins = common_margins(common.booster, valid, common.quit_round) if valid else None
        # The largest task first: it would otherwise be waited for at the end.
        tasks = sorted(data.tasks, key=lambda task: -len(data.tasks.rows(task)))
        n_parallel = min(self.n_threads, len(tasks))
        n_threads = self.n_threads // n_parallel
        stop = _Stop()

        def fit_one(task: TaskName) -> SpecificModel:
            fixed = None if n_rounds is None else n_rounds[task]
            with openmp_threads(n_threads):
                return self._fit_task(
                    task, data, margins, valid, valid_margins, fixed, n_threads, stop
                )

        with ThreadPoolExecutor(n_parallel) as executor:
            try:
                found = dict(zip(tasks, executor.map(fit_one, tasks), strict=True))
            except BaseException:  # Ctrl-C; the executor waits for tasks that are being trained
                stop.is_set = True
                raise
        return {task: found[task] for task in data.tasks}

    def _fit_task(
        self,
        task: TaskName,
        data: Dataset,
        margins: Margins,
        valid: Dataset | None,
        valid_margins: Margins | None,
        n_rounds: int | None,
        n_threads: int,
        stop: _Stop,
    ) -> SpecificModel:
        table = data.task_table(task)
        params = own_parameters(
            {**self.params, **self.specific_params, "nthread": n_threads}, data.common, table
        )
        if n_rounds == 0:
            return self._no_model("as found before refitting", data, task)
        if data.weight is not None and not data.weight[data.tasks.rows(task)].any():
            return self._no_model("no row has weight", data, task)
        max_bin = params.get("max_bin")
        matrix = self._task_matrix(table, data, task, margins, n_threads, max_bin)
        own_valid = valid is not None and valid_margins is not None and task in valid.tasks
        if n_rounds is None and self.patience is None and not own_valid:
            n_rounds = self.specific_rounds
        if n_rounds is not None:
            booster = train_plain(
                params,
                matrix,
                n_rounds,
                objective=self.objective,
                callbacks=[stop],
                table=table.native,
            )
            return SpecificModel(booster, n_rounds, np.empty(0), "")
        if valid is None or valid_margins is None or task not in valid.tasks:
            return self._no_model("no validation rows", data, task)
        valid_table = Columns.of(table).align(valid.task_table(task))
        quitting = TaskQuitting(
            self._task_matrix(
                valid_table, valid, task, valid_margins, n_threads, max_bin, ref=matrix
            ),
            None,
            metric=self.metric,
            patience=self.patience,
            min_delta=self.min_delta,
        )
        booster = train_plain(
            params,
            matrix,
            self.specific_rounds,
            objective=self.objective,
            callbacks=[quitting, stop],
            table=table.native,
        )
        ((_, history),) = quitting.history.items()
        best = next(
            iter(quitting.quit_round.values()),
            self.specific_rounds if self.patience is None else None,
        )
        if best is None:
            reason = f"{self.metric.name} is undefined on its validation rows"
            return self._no_model(reason, data, task, history)
        if best == 0:
            return self._no_model("no improvement on its validation rows", data, task, history)
        # XGBoost 3.2 loses the names of categories when it slices.
        first = assemble.first_rounds(assemble.read_document(booster), best)
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
        row = quantile_matrix(own.take(np.zeros(1, np.int64)), label=np.ones(1, np.float32))
        names = ("objective", "num_class", "nthread")
        params = {name: self.params[name] for name in names if name in self.params}
        grown = xgboost.train({**params, "base_score": 0.5}, row, 1)
        empty = assemble.first_rounds(assemble.read_document(grown), 0)
        return SpecificModel(empty, 0, history, reason)

    def _task_matrix(
        self,
        table: Table,
        data: Dataset,
        task: TaskName,
        margins: Margins,
        n_threads: int,
        max_bin: int | None,
        ref: xgboost.DMatrix | None = None,
    ) -> xgboost.DMatrix:
        rows = data.tasks.rows(task)
        return quantile_matrix(
            table,
            label=data.labels()[rows],
            weight=None if data.weight is None else data.weight[rows],
            base_margin=margins[rows],
            max_bin=max_bin,
            n_threads=n_threads,
            ref=ref,
        )


class _Stop(xgboost.callback.TrainingCallback):
    """Ends the trainings it is given to, in whatever thread, after the round they are in."""

    is_set = False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return self.is_set


def common_margins(
    booster: xgboost.Booster, data: Dataset, quit_round: Mapping[TaskName, int]
) -> Margins:
    """Margins of all rows, each task following the common model up to its own round.

    Shape (n_rows, n_outputs): float32 sums in tree order, as the combined booster adds them.
    """
    matrix = plain_matrix(data.common, base_margin=data.base_margin)
    margins = residual_margin(booster, matrix, quit_round, data.tasks)
    return margins.reshape(data.n_rows, -1)


def margins_by_round(booster: xgboost.Booster, data: Dataset) -> Iterator[Margins]:
    """Margins of all rows, shape (n_rows, n_outputs), after 0, 1, ... rounds; in one array."""
    document = assemble.read_document(booster)
    n_outputs = assemble.outputs_of(document)
    matrix = plain_matrix(data.common, base_margin=data.base_margin)
    start = assemble.first_rounds(document, 0).predict(matrix, output_margin=True)
    margins = np.array(start, np.float32).reshape(data.n_rows, n_outputs)
    yield margins
    leaves = booster.predict(matrix, pred_leaf=True).reshape(data.n_rows, -1).astype(np.int32)
    for number, tree in enumerate(assemble.trees_of(document)):
        margins[:, number % n_outputs] += tree["split_conditions"][leaves[:, number]]
        if number % n_outputs == n_outputs - 1:
            yield margins


def own_parameters(params: dict[str, Any], common: Table, own: Table) -> dict[str, Any]:
    """Constraints given by position among the common columns, for a task's own columns."""
    if own.feature_names == common.feature_names and own.n_features == common.n_features:
        return params
    assert common.feature_names is not None
    assert own.feature_names is not None
    interactions = params.get("interaction_constraints")
    if isinstance(interactions, str):
        groups = json.loads(interactions)
        names = [[common.feature_names[feature] for feature in group] for group in groups]
        params = {**params, "interaction_constraints": names}
    monotone = params.get("monotone_constraints")
    if monotone is not None and not isinstance(monotone, Mapping):
        signs = monotone.strip("()").split(",") if isinstance(monotone, str) else monotone
        by_name = dict(zip(common.feature_names, signs, strict=False))
        params = {
            **params,
            "monotone_constraints": tuple(int(by_name.get(n, 0)) for n in own.feature_names),
        }
    return params
