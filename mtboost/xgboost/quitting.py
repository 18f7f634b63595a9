# SPDX-License-Identifier: Apache-2.0
"""Tasks leave the common model when it stops helping them (zhang2019, section 3.3)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.checks import check_type, listed
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.tasks import TaskName, as_tasks
from mtboost.errors import DataError, UnsupportedError
from mtboost.metrics.built_in import default_metric
from mtboost.trees.growth import growth_of
from mtboost.trees.losses import inverse_link
from mtboost.trees.task_quitting import BaseQuitAt, TaskWatch
from mtboost.xgboost import assemble
from mtboost.xgboost.booster import GrowingBooster
from mtboost.xgboost.collective import Workers
from mtboost.xgboost.growth import XgboostGrowth
from mtboost.xgboost.library import check_one_machine
from mtboost.xgboost.matrix_fields import labels_and_weights, queries_of
from mtboost.xgboost.objective import TaskObjective
from mtboost.xgboost.objective_settings import OF_TIMES, read_objective
from mtboost.xgboost.task_field import (
    INSTEAD,
    TASK_FIELD,
    check_no_bounds,
    is_task_field,
    tasks_in_field,
)
from mtboost.xgboost.worker_metrics import WorkerMetric

# Attribute of a booster with the rounds of each task.
_ATTRIBUTE = "mtboost_quit_round"
# Parameters of objectives that their default metrics have, too.
_OF_METRICS = ("tweedie_variance_power", "huber_slope", *OF_TIMES)


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
    valid : DMatrix or str
        Validation rows with labels, and weights if any; or the name of a matrix of ``evals``, as
        ``xgboost.dask`` needs it.
    task : array-like of shape (n_valid_rows,), or "label_lower_bound", optional
        Their tasks; None is a single task. Where rows lie on several workers, as in
        ``xgboost.dask``, the matrix must have the tasks: ``"label_lower_bound"`` reads them from
        this field. Metrics are then those of the rows of all workers, and a task quits on all of
        them (docs/several_machines.md).

    Raises
    ------
    TypeError
        `valid` is neither a DMatrix nor a name, or `objective` not a TaskObjective.
    DataError
        There is not one task per validation row, or ``evals`` has no matrix of that name. During
        training: the validation rows have no labels.
    ParameterError
        During training: it has another objective than `objective`.
    UnsupportedError
        When training begins: several tasks without :class:`TaskSplit` or `objective`, training on
        several machines with labels of rows as tasks, or ``xgboost.cv``.

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

    _workers: Workers | None = None
    _of_workers: WorkerMetric | None = None
    _matrix: xgboost.DMatrix | None = None  # the validation rows of this training

    def _check_valid(self) -> None:
        check_type("valid", self._valid, (xgboost.DMatrix, str), "an xgboost.DMatrix or a name")
        self._is_in_field = is_task_field("task", self._valid_task)
        if not isinstance(self._valid, str) and not self._is_in_field:
            as_tasks(self._valid_task, self._valid.num_row())  # raises

    def _print(self, line: str) -> None:
        if self._workers is None or self._workers.rank == 0:
            xgboost.collective.communicator_print(line + "\n")

    def before_training(self, model: Any) -> Any:
        if not isinstance(model, xgboost.Booster):
            raise UnsupportedError(
                "TaskQuitting cannot be used in xgboost.cv, where a task would quit each fold in "
                "another round: train each fold with xgboost.train."
            )
        if not self._is_in_field:
            check_one_machine("TaskQuitting", INSTEAD)
        self._workers = Workers.of_this_thread()
        self._matrix = self._of_workers = self._tasks = None
        self._release()
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if self._matrix is None:
            if isinstance(self._valid, str):
                self._find_in_evals(model, self._valid)
            else:
                self._take(model, self._valid)
        return False

    def _find_in_evals(self, model: Any, name: str) -> None:
        """Take the matrix of evals when they are evaluated first: no callback is given them."""
        evaluate = model.eval_set

        def eval_set(evals: Any, *arguments: Any, **keywords: Any) -> Any:
            model.__dict__.pop("eval_set", None)
            found = {own: matrix for matrix, own in evals}
            if name not in found:
                raise DataError(
                    f"TaskQuitting watches {name!r}, but evals has {listed(found, 'matrix')}."
                    if found
                    else f"TaskQuitting watches {name!r}, but there are no evals."
                )
            self._take(model, found[name])
            return evaluate(evals, *arguments, **keywords)

        model.eval_set = eval_set

    def _take(self, model: Any, matrix: xgboost.DMatrix) -> None:
        """Begin to watch the rows of a matrix, which all workers do together."""
        self._matrix = matrix
        growth = growth_of(model)
        if self._is_in_field:
            check_no_bounds("TaskQuitting", read_objective(model).name)
            self._valid_tasks = tasks_in_field("TaskQuitting", matrix, self._workers)
        else:
            self._valid_tasks = self._tasks_of_valid(growth, matrix.num_row())
        if isinstance(growth, XgboostGrowth) and not growth.reads_tasks:
            growth.know_tasks(matrix, self._valid_tasks)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        growth, matrix = growth_of(model), self._matrix
        assert matrix is not None
        if self._tasks is None:
            found = read_objective(model)
            self._objective = self._begin(growth, self._valid_tasks, found.name)
            if self.metric is None:
                own = self._trained_with(growth)
                options = found.options if own is None else dict(own.options)
                self.metric = default_metric(
                    str(self._objective),
                    quantile_alpha=options.get("quantile_alpha", ()),
                    n_ranked=options.get("lambdarank_num_pair_per_sample", 32),
                    exp_gain=options.get("ndcg_exp_gain", True),
                    **{name: value for name, value in options.items() if name in _OF_METRICS},
                )
            self._read_rows()
            self._evaluate(0, _start_margins(model, matrix))
        self._evaluate(model.num_boosted_rounds(), _margins(model, matrix))
        return self._end_round(growth, epoch)

    def after_training(self, model: Any) -> Any:
        """Let the booster return what this callback knows, which may live on another machine."""
        self._release()  # a next training with the objective may lack this callback
        if self._is_in_field and self._tasks is not None:
            rounds = [[name, n_rounds] for name, n_rounds in self.quit_round.items()]
            model.set_attr(**{_ATTRIBUTE: json.dumps(rounds)})
        return model

    @staticmethod
    def quit_round_of(booster: xgboost.Booster) -> dict[TaskName, int]:
        """Rounds of each task, from a booster that was trained with tasks in a field.

        Parameters
        ----------
        booster : Booster
            What ``xgboost.dask.train`` has returned, or a file of it.

        Returns
        -------
        dict of task name to int
            The `quit_round` of the callback, which stays on the worker.

        Raises
        ------
        DataError
            The booster was not trained with ``TaskQuitting(..., "label_lower_bound")``.
        """
        found = booster.attr(_ATTRIBUTE)
        if found is None:
            raise DataError(
                "The booster has no rounds of single tasks: train it with TaskQuitting(valid, "
                f"{TASK_FIELD!r})."
            )
        return dict(json.loads(found))

    def _read_rows(self) -> None:
        assert self.metric is not None
        assert self._tasks is not None
        assert self._matrix is not None
        self._labels, self._weights = labels_and_weights(self._matrix, self._objective)
        if self._matrix.num_row() and not self._labels.size:
            raise DataError("The validation matrix of TaskQuitting has no labels: give it label=.")
        self._queries = queries_of(self._matrix)
        if self._workers is not None:
            rows = self._labels, self._weights, self._codes, self._tasks.n_tasks
            self._of_workers = WorkerMetric(self.metric, *rows, self._workers)

    def _by_task(
        self,
        label: npt.NDArray[Any],
        prediction: npt.NDArray[np.floating],
        weight: npt.NDArray[Any] | None,
    ) -> npt.NDArray[np.float64]:
        if self._of_workers is not None:
            return self._of_workers(prediction)
        return super()._by_task(label, prediction, weight)

    def _evaluate(self, n_rounds: int, margins: npt.NDArray[np.float32]) -> None:
        margins = margins[:, 0] if margins.shape[1] == 1 else margins
        prediction = inverse_link(self._objective, margins)
        self._record(n_rounds, self._labels, prediction, self._weights)


def _margins(model: xgboost.Booster, matrix: xgboost.DMatrix) -> npt.NDArray[np.float32]:
    if isinstance(model, GrowingBooster):
        return model.growth.margins(matrix)
    margins: npt.NDArray[np.float32] = model.predict(matrix, output_margin=True)
    return margins if margins.ndim == 2 else margins[:, np.newaxis]


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
