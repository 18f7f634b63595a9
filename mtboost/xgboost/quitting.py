# SPDX-License-Identifier: Apache-2.0
"""Tasks leave the common model when it stops helping them (zhang2019, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.checks import check_type
from mtboost.base.renamed import renamed
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import UnsupportedError
from mtboost.metrics import Metric, default_metric
from mtboost.trees.losses import inverse_link
from mtboost.trees.task_quitting import TaskWatch
from mtboost.xgboost import assemble
from mtboost.xgboost.booster import GrowingBooster
from mtboost.xgboost.library import check_one_machine, objective_name
from mtboost.xgboost.objective import TaskObjective


class TaskQuitting(TaskWatch, xgboost.callback.TrainingCallback):
    """Watch every task's own validation metric and let tasks quit.

    After each round the metric is evaluated on each task's validation rows. A task without
    improvement by more than `min_delta` for `early_stopping_rounds` rounds in a row quits: its
    training rows take no part in later trees. Training ends when every task has quit. A task
    without validation rows on which the metric is defined never quits.

    Several tasks need :class:`TaskSplit` beside it, or a :class:`TaskObjective`: both know the
    tasks of the training rows and leave out those that have quit. A single task may be trained by
    stock XGBoost alone.

    Parameters
    ----------
    valid : DMatrix
        Validation rows with labels, and weights if any.
    task : array-like of shape (n_valid_rows,), optional
        Their tasks; None is a single task.
    metric : str or Metric, optional
        See :func:`mtboost.metrics.get_metric`; by default the objective's.
    early_stopping_rounds : int or None, default=20
        Rounds without improvement after which a task quits. None only watches: no task quits, and
        all rounds are used.
    min_delta : float, default=0.0
        Smaller improvements do not count.
    verbose : bool or int, default=False
        Print the metric of each task, and how many are active, every `verbose`
        rounds; True is every round.
    objective : TaskObjective, optional
        The one that XGBoost trains with, if its trees are XGBoost's own.
    logger : callable, optional
        Function that prints a line of text, by default XGBoost's.

    Attributes
    ----------
    quit_round : dict of task name to int
        Rounds after which the task's metric was best, or all without early_stopping_rounds: trees
        of the common model it should use. Tasks without usable validation rows are missing.
    history : dict of task name to ndarray of float64, shape (n_rounds + 1,)
        The metric after 0, 1, ... rounds.

    Raises
    ------
    TypeError
        `valid` is not a DMatrix, or `objective` not a TaskObjective.
    DataError
        There is not one task per validation row.
    UnsupportedError
        When training begins: several tasks without :class:`TaskSplit` or `objective`, or training
        on several machines.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import TaskQuitting, TaskSplit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> train, valid = np.arange(200) % 4 > 0, np.arange(200) % 4 == 0
    >>> dtrain = xgboost.DMatrix(X[train], y[train])
    >>> dvalid = xgboost.DMatrix(X[valid], y[valid])
    >>> quitting = TaskQuitting(dvalid, task[valid], early_stopping_rounds=5)
    >>> booster = xgboost.train(
    ...     {"max_depth": 3}, dtrain, 30, callbacks=[TaskSplit(task[train]), quitting]
    ... )
    >>> sorted(quitting.quit_round)
    ['a', 'b']

    References
    ----------
    zhang2019, section 3.3 (key in docs/papers.md).
    """

    @renamed(patience="early_stopping_rounds")
    def __init__(
        self,
        valid: xgboost.DMatrix,
        task: Any = None,
        *,
        metric: str | Metric | None = None,
        early_stopping_rounds: int | None = 20,
        min_delta: float = 0.0,
        verbose: bool | int = False,
        objective: TaskObjective | None = None,
        logger: Callable[[str], None] = xgboost.collective.communicator_print,
    ) -> None:
        super().__init__(
            metric=metric,
            early_stopping_rounds=early_stopping_rounds,
            min_delta=min_delta,
            verbose=verbose,
            logger=logger,
        )
        check_type("valid", valid, xgboost.DMatrix, "an xgboost.DMatrix")
        if objective is not None:
            check_type("objective", objective, TaskObjective, "None or a TaskObjective")
        self._valid = valid
        self._valid_tasks = (
            task if isinstance(task, TaskSet) else TaskSet.from_labels(task, valid.num_row())
        )
        self._task_objective = objective

    def before_training(self, model: Any) -> Any:
        check_one_machine("TaskQuitting")
        self._tasks = None
        if self._task_objective is not None:
            self._task_objective.start()
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if self._tasks is None and isinstance(model, GrowingBooster):
            model.growth.know_tasks(self._valid, self._valid_tasks)
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if self._tasks is None:
            self._start(model)
        assert self._tasks is not None
        self._evaluate(model.num_boosted_rounds(), _margins(model, self._valid))
        for task in self._leave():
            if isinstance(model, GrowingBooster):
                model.growth.quit(task)
            elif self._task_objective is not None:
                self._task_objective.quit(self._tasks.names[task])
        if self._period and epoch % self._period == 0:
            self._logger(self._progress(epoch) + "\n")
        return not self._is_active.any()

    def _start(self, model: xgboost.Booster) -> None:
        tasks = self._valid_tasks
        self._objective: object = objective_name(model)
        if isinstance(model, GrowingBooster):
            tasks = model.growth.tasks or self._valid_tasks
            self._objective = model.growth.objective
        elif self._task_objective is not None:
            tasks = self._task_objective.tasks
            self._objective = self._task_objective.objective
        elif self._valid_tasks.n_tasks > 1:
            raise UnsupportedError(
                "TaskQuitting with several tasks needs TaskSplit before it in callbacks, or "
                "objective=TaskObjective(...): stock XGBoost cannot leave out the rows of a task."
            )
        if self.metric is None:
            self.metric = default_metric(str(self._objective))
        self._watch(tasks, self._valid_tasks)
        weight = self._valid.get_weight()
        self._weight = weight if weight.size else None
        self._labels = self._valid.get_label()
        self._evaluate(0, _start_margins(model, self._valid))

    def _evaluate(self, n_rounds: int, margins: npt.NDArray[np.float32]) -> None:
        self._record(
            n_rounds,
            self._labels,
            inverse_link(self._objective, margins[:, 0] if margins.shape[1] == 1 else margins),
            self._weight,
        )


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
