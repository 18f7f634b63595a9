# SPDX-License-Identifier: Apache-2.0
"""Tasks leave the common model when it stops helping them (zhang2019, section 3.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.checks import check_type
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.tasks import as_tasks
from mtboost.metrics import default_metric
from mtboost.trees.growth import growth_of
from mtboost.trees.losses import inverse_link
from mtboost.trees.task_quitting import BaseQuitAt, TaskWatch
from mtboost.xgboost import assemble
from mtboost.xgboost.booster import GrowingBooster
from mtboost.xgboost.collective import Workers
from mtboost.xgboost.library import (
    check_one_machine,
    labels_and_weights,
    queries_of,
    read_objective,
)
from mtboost.xgboost.objective import TaskObjective


@shares_docstring_of(TaskWatch, sections=["References"])
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
    """

    _library = "XGBoost"
    _objective_type = TaskObjective

    def _check_valid(self) -> None:
        check_type("valid", self._valid, xgboost.DMatrix, "an xgboost.DMatrix")
        self._valid_tasks = as_tasks(self._valid_task, self._valid.num_row())

    _workers: Workers | None = None

    def _print(self, line: str) -> None:
        if self._workers is None or self._workers.rank == 0:
            xgboost.collective.communicator_print(line)

    def _progress(self, round_label: int) -> str:
        return super()._progress(round_label) + "\n"

    def before_training(self, model: Any) -> Any:
        check_one_machine("TaskQuitting")
        self._workers = Workers.of_this_thread()
        self._tasks = None
        self._release()
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        growth = growth_of(model)
        if self._tasks is None and growth is not None:
            growth.know_tasks(self._valid, self._valid_tasks)
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        growth = growth_of(model)
        if self._tasks is None:
            found = read_objective(model)
            self._objective = self._begin(growth, self._valid_tasks, found.name)
            if self.metric is None:
                self.metric = default_metric(
                    str(self._objective),
                    quantile_alpha=found.options.get("quantile_alpha", ()),
                    n_ranked=found.options.get("lambdarank_num_pair_per_sample", 32),
                    exp_gain=found.options.get("ndcg_exp_gain", True),
                )
            self._labels, self._weights = labels_and_weights(self._valid)
            self._queries = queries_of(self._valid)
            self._evaluate(0, _start_margins(model, self._valid))
        self._evaluate(model.num_boosted_rounds(), _margins(model, self._valid))
        return self._end_round(growth, epoch)

    def _of_all_workers(self, value: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self._workers is None:
            return value
        is_known = ~np.isnan(value)
        values = np.stack([np.where(is_known, value, 0.0), is_known])
        total, n_workers = self._workers.sum(values, "metrics of the tasks")
        return np.where(n_workers > 0, total, np.nan)

    def _evaluate(self, n_rounds: int, margins: npt.NDArray[np.float32]) -> None:
        margins = margins[:, 0] if margins.shape[1] == 1 else margins
        prediction = inverse_link(self._objective, margins)
        self._record(n_rounds, self._labels, prediction, self._weights)


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


class QuitAt(BaseQuitAt, xgboost.callback.TrainingCallback):
    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._end_round(model, model.num_boosted_rounds())
        return False
