"""Tasks leave the common model when it stops helping them (zhang2019, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.errors import ParameterError, UnsupportedError
from mtboost.losses import inverse_link
from mtboost.metrics import Metric, default_metric, evaluate_by_task, get_metric
from mtboost.tasks import TaskName, TaskSet
from mtboost.xgboost import assemble
from mtboost.xgboost.balanced_split import BalancedSplit, returned_columns, returned_model
from mtboost.xgboost.booster import GrowingBooster
from mtboost.xgboost.library import objective_name
from mtboost.xgboost.objective import TaskObjective

_N_SHOWN = 8


class TaskQuitting(xgboost.callback.TrainingCallback):
    """Watch every task's own validation metric and let tasks quit.

    After each round the metric is evaluated on each task's validation rows. A task without
    improvement by more than `min_delta` for `patience` rounds in a row quits: its training rows
    take no part in later trees. Training ends when every task has quit. A task without validation
    rows on which the metric is defined never quits.

    Several tasks need :class:`TaskSplit` beside it, or a :class:`TaskObjective` or
    :class:`BalancedSplit`, which know the tasks of the training rows and leave out those that have
    quit; a single task may be trained by stock XGBoost alone.

    Parameters
    ----------
    valid : DMatrix
        Validation rows with labels, and weights if any.
    task : array-like of shape (n_valid_rows,), optional
        Their tasks; None is a single task.
    metric : str or Metric, optional
        See :func:`mtboost.metrics.get_metric`; by default the objective's.
    patience : int or None, default=20
        Rounds without improvement after which a task quits. None only watches: no task quits, and
        all rounds are used.
    min_delta : float, default=0.0
        Smaller improvements do not count.
    verbose : bool or int, default=False
        Print the metric of each task, and how many are active, every so many rounds.
    objective : TaskObjective or BalancedSplit, optional
        The one that XGBoost trains with, if its trees are XGBoost's own.

    Attributes
    ----------
    quit_round : dict of task name to int
        Rounds after which the task's metric was best, or all without patience: trees of the common
        model it should use. Tasks without usable validation rows are missing.
    history : dict of task name to ndarray of float64, shape (n_rounds + 1,)
        The metric after 0, 1, ... rounds.

    References
    ----------
    zhang2019, section 3.3 (key in docs/papers.md).
    """

    def __init__(
        self,
        valid: xgboost.DMatrix,
        task: Any = None,
        *,
        metric: str | Metric | None = None,
        patience: int | None = 20,
        min_delta: float = 0.0,
        verbose: bool | int = False,
        objective: TaskObjective | BalancedSplit | None = None,
        logger: Callable[[str], None] = xgboost.collective.communicator_print,
    ) -> None:
        super().__init__()
        if patience is not None:
            _check_at_least(1, patience, "patience")
        _check_at_least(0, min_delta, "min_delta")
        self._valid = valid
        self._valid_tasks = (
            task if isinstance(task, TaskSet) else TaskSet.from_labels(task, valid.num_row())
        )
        self.metric = None if metric is None else get_metric(metric)
        self._patience = patience
        self._min_delta = min_delta
        self._period = int(verbose)
        self._task_objective = objective
        self._logger = logger
        self._tasks: TaskSet | None = None
        self._values: list[npt.NDArray[np.float64]] = []

    def before_training(self, model: Any) -> Any:
        self._values = []
        self._tasks = None
        if self._task_objective is not None:
            self._task_objective.start()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if self._tasks is None:
            self._start(model)
        assert self._tasks is not None
        self._evaluate(_margins(model, self._valid))
        patience = np.inf if self._patience is None else self._patience
        for task in np.flatnonzero(self._is_active & (self._n_stale >= patience)):
            self._is_active[task] = False
            self._left_after[task] = len(self._values) - 1
            if isinstance(model, GrowingBooster):
                model.growth.quit(int(task))
            elif self._task_objective is not None:
                self._task_objective.quit(self._tasks.names[task])
        if self._period and epoch % self._period == 0:
            self._logger(self._progress(epoch))
        return not self._is_active.any()

    @property
    def quit_round(self) -> dict[TaskName, int]:
        assert self._tasks is not None
        rounds = self._best_round
        if self._patience is None:
            rounds = np.full_like(rounds, len(self._values) - 1)
        return {
            name: int(rounds[code])
            for code, name in enumerate(self._tasks.names)
            if not np.isnan(self._best[code])
        }

    @property
    def history(self) -> dict[TaskName, npt.NDArray[np.float64]]:
        assert self._tasks is not None
        values = np.array(self._values)
        return {name: values[:, code] for code, name in enumerate(self._tasks.names)}

    @property
    def left_after(self) -> dict[TaskName, int]:
        """Rounds after which a task took no more part; tasks that stayed to the end are missing."""
        assert self._tasks is not None
        return {
            name: int(self._left_after[code])
            for code, name in enumerate(self._tasks.names)
            if self._left_after[code] >= 0
        }

    def _start(self, model: xgboost.Booster) -> None:
        self._tasks = self._valid_tasks
        self._objective: object = objective_name(model)
        if isinstance(model, GrowingBooster):
            self._tasks = model.growth.tasks or self._valid_tasks
            self._objective = model.growth.objective
        elif self._task_objective is not None:
            self._tasks = self._task_objective.tasks
            self._objective = self._task_objective.objective
        elif self._valid_tasks.n_tasks > 1:
            raise UnsupportedError(
                "TaskQuitting with several tasks needs TaskSplit before it in callbacks, or "
                "objective=TaskObjective(...): stock XGBoost cannot leave out the rows of a task."
            )
        tasks = self._tasks
        if self.metric is None:
            self.metric = default_metric(str(self._objective))
        codes = [tasks.code(name) for name in self._valid_tasks.names]
        self._codes = np.array(codes, np.int32)[self._valid_tasks.codes]
        self._is_active = np.ones(tasks.n_tasks, bool)
        self._best = np.full(tasks.n_tasks, np.nan)
        self._best_round = np.zeros(tasks.n_tasks, np.int64)
        self._n_stale = np.zeros(tasks.n_tasks, np.int64)
        self._left_after = np.full(tasks.n_tasks, -1)
        if isinstance(self._task_objective, BalancedSplit):
            model = returned_model(model)
        self._evaluate(_start_margins(model, self._valid))

    def _evaluate(self, margins: npt.NDArray[np.float32]) -> None:
        assert self.metric is not None
        assert self._tasks is not None
        weight = self._valid.get_weight()
        labels = self._valid.get_label()
        if isinstance(self._task_objective, BalancedSplit):
            margins, labels = returned_columns(margins), returned_columns(labels).squeeze(axis=1)
        value = evaluate_by_task(
            self.metric,
            labels,
            inverse_link(self._objective, margins[:, 0] if margins.shape[1] == 1 else margins),
            self._codes,
            self._tasks.n_tasks,
            weight if weight.size else None,
        )
        n_rounds = len(self._values)
        gain = value - self._best if self.metric.greater_is_better else self._best - value
        improved = self._is_active & ~np.isnan(value)
        improved &= np.isnan(self._best) | (gain > self._min_delta)
        self._best[improved] = value[improved]
        self._best_round[improved] = n_rounds
        self._n_stale = np.where(improved | np.isnan(self._best), 0, self._n_stale + 1)
        self._values.append(value)

    def _progress(self, epoch: int) -> str:
        assert self.metric is not None
        assert self._tasks is not None
        value = self._values[-1]
        if self._tasks.n_tasks <= _N_SHOWN:
            parts = [
                f"\t{name}-{self.metric.name}:{value[code]:.5f}"
                for code, name in enumerate(self._tasks.names)
            ]
        else:
            parts = [f"\tmean-{self.metric.name}:{np.nanmean(value):.5f}"]
        active = [str(self._tasks.names[code]) for code in np.flatnonzero(self._is_active)]
        shown = ", ".join(active[:_N_SHOWN]) + (", ..." if len(active) > _N_SHOWN else "")
        return f"[{epoch}]{''.join(parts)}\tactive {len(active)}/{self._tasks.n_tasks}: {shown}\n"


def _check_at_least(least: int, value: Any, name: str) -> None:
    if not (isinstance(value, int | float | np.number) and value >= least):
        raise ParameterError(f"{name} must be a number >= {least}, found {value!r}.")


def _margins(model: xgboost.Booster, matrix: xgboost.DMatrix) -> npt.NDArray[np.float32]:
    if isinstance(model, GrowingBooster):
        return model.growth.margins(matrix)
    margins: npt.NDArray[np.float32] = model.predict(matrix, output_margin=True)
    return margins.reshape(matrix.num_row(), -1)


def _start_margins(model: xgboost.Booster, matrix: xgboost.DMatrix) -> npt.NDArray[np.float32]:
    """Margins before the first tree."""
    if isinstance(model, GrowingBooster):
        return model.growth.start_margins(matrix)
    own: npt.NDArray[np.float32] = matrix.get_base_margin()
    if own.size:
        return own.reshape(matrix.num_row(), -1)
    start = assemble.first_rounds(assemble.read_document(model), 0)
    return _margins(start, matrix)


class QuitAt(xgboost.callback.TrainingCallback):
    """Let tasks quit after given rounds, as found in an earlier training."""

    def __init__(self, left_after: Mapping[TaskName, int]) -> None:
        super().__init__()
        self._left_after = left_after

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        assert isinstance(model, GrowingBooster)
        assert model.growth.tasks is not None
        for task, n_rounds in self._left_after.items():
            if n_rounds == model.num_boosted_rounds():
                model.growth.quit(model.growth.tasks.code(task))
        return False
