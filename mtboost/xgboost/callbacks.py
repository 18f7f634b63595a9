# SPDX-License-Identifier: Apache-2.0
"""Callbacks that make ``xgboost.train`` multi-task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xgboost

from mtboost.base.checks import check_type
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.tasks import TaskName, TaskSet, as_tasks
from mtboost.errors import DataError, ParameterError, ParameterTypeError, UnsupportedError
from mtboost.trees.task_split import BaseTaskSplit
from mtboost.trees.task_values import read_task_attributes
from mtboost.xgboost.booster import GrowingBooster
from mtboost.xgboost.document import XgboostDocument, stacked
from mtboost.xgboost.growth import XgboostGrowth
from mtboost.xgboost.library import check_version
from mtboost.xgboost.matrix_fields import tasks_of_matrices
from mtboost.xgboost.task_field import TASK_FIELD, is_task_field


@shares_docstring_of(BaseTaskSplit, sections=["References"])
class TaskSplit(BaseTaskSplit, xgboost.callback.TrainingCallback):
    """Grow the trees of ``xgboost.train`` with a split score over tasks.

    The loop, bins, gradients, metrics, early stopping and printing stay XGBoost's, and the result
    is an ordinary ``xgboost.Booster``. With ``split_score="plain"`` it equals that of stock
    training bit for bit, unless rows or columns are sampled (the distribution of the draws is
    XGBoost's, the draws are not).

    Parameters
    ----------
    task : array-like of shape (n_rows,), or "label_lower_bound"
        Task of each row of the training matrix: integers, strings or categories. Where rows lie on
        several workers, as in ``xgboost.dask``, the matrices must have the tasks:
        ``"label_lower_bound"`` reads them from this field, whole numbers up to 2^24, which only
        survival objectives of XGBoost use (docs/several_machines.md).
    valid_tasks : sequence of (DMatrix, array-like), optional
        Matrices of `evals` with the task of each of their rows, which partially pooled leaves are
        evaluated by; of other matrices the pooled values are. Those of :class:`TaskQuitting` are
        known without it.
    table : ndarray, optional
        The array that the training matrix was made from. It is read in a third of the time that the
        matrix takes. With ``device="cuda"`` it may lie on the GPU; a copy in float32 stays there,
        by which the leaves of rows are found (docs/library_grown.md). It is not used where
        `missing` of the matrix was another number than NaN.
    task_column : int or str, optional
        Position or name of a category column of the training matrix that holds the task of each
        row. A node may then split the tasks into two groups. Needs ``split_score="plain"``.

    Raises
    ------
    ParameterError
        Of `split_score`, `beta` or `task_splits`, or `task_column` or `symmetric_trees` with
        another score than "plain".
    UnsupportedError
        Parameters ask for trees whose leaf values would change later, such as ``booster="dart"``,
        or for trees that only XGBoost grows, such as ``tree_method="exact"``, with a split score
        over tasks, `task_column`, `symmetric_trees` or `quantized_gradients`
        (docs/library_grown.md).

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import TaskSplit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> split = TaskSplit(task, split_score="entropy")
    >>> booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, y), 10, callbacks=[split])
    >>> booster.num_boosted_rounds()
    10
    """

    _tasks_of_matrices = staticmethod(tasks_of_matrices)

    def _tasks_of_rows(self, task: Any, valid_tasks: Sequence[tuple[Any, Any]]) -> TaskSet:
        check_version()
        self._is_in_field = is_task_field("task", task)
        if not self._is_in_field:
            return as_tasks(task)
        if len(valid_tasks):
            raise ParameterError(
                f"valid_tasks are read from the matrices' field {TASK_FIELD!r}, as the tasks "
                "of the training rows are: leave valid_tasks out."
            )
        return TaskSet((), np.empty(0, np.int32))  # known when training begins

    def before_training(self, model: Any) -> Any:
        if not isinstance(model, xgboost.Booster):
            raise UnsupportedError(
                "TaskSplit cannot be used in xgboost.cv, which does not give a callback the rows "
                "of its folds: train each fold with xgboost.train."
            )
        if isinstance(model, GrowingBooster):
            raise UnsupportedError("Give xgboost.train one TaskSplit, not two.")
        growth = XgboostGrowth(
            model,
            tasks=self.tasks,
            options=self.options,
            task_column=self._task_column,
            table=self._table,
            reads_tasks=self._is_in_field,
        )
        self._start(growth)
        return GrowingBooster(growth)

    def after_training(self, model: Any) -> Any:
        # A callback before this one, such as EarlyStopping(save_best=True), may have sliced a
        # genuine booster already.
        return model.trained() if isinstance(model, GrowingBooster) else model

    def booster(self, trained: xgboost.Booster, task: TaskName | None = None) -> xgboost.Booster:
        """The booster of one task, or of all, after a training with partially pooled leaves.

        Parameters
        ----------
        trained : Booster
            What ``xgboost.train`` has returned; it may have been sliced after some round. Trees
            of a model that it has continued (``xgb_model``) keep the pooled values.
        task : int, str or bool, optional
            By default all: a booster with an output for each, in the order of ``tasks.names``.

        Returns
        -------
        xgboost.Booster
            The same trees with the task's own leaf values, or with those of all tasks.

        Raises
        ------
        UnsupportedError
            Of all tasks, where each has several classes.
        """
        allowed = "an xgboost.Booster (that of an estimator is get_booster())"
        check_type("trained", trained, xgboost.Booster, allowed)
        if self._is_in_field:
            self._take_over(trained)
        document = XgboostDocument.of(trained)
        if task is not None:
            booster: xgboost.Booster = self._of_task(document, task).load()
            return booster
        if document.n_outputs > 1:
            raise UnsupportedError(
                "One booster cannot hold all tasks where each has several classes. Ask for that of "
                f"one task, such as booster(trained, {self.tasks.names[0]!r})."
            )
        return stacked([self._of_task(document, name) for name in self.tasks])

    def _take_over(self, trained: xgboost.Booster) -> None:
        """Read tasks and leaf values from a booster that other processes have trained."""
        found = read_task_attributes(trained.attributes())
        if found is None:
            raise DataError(
                "The booster has no leaf values of single tasks: train it with pooling=, or use it "
                "for all tasks as it is."
            )
        names, self.pooled.values = found
        self._pooled_values = [None] * len(self.pooled.values)  # the booster has its own values
        self.tasks = TaskSet(tuple(names), np.empty(0, np.int32))


def check_callbacks(callbacks: Iterable[object]) -> None:
    """Raise unless all are callbacks."""
    for callback in callbacks:
        if not isinstance(callback, xgboost.callback.TrainingCallback):
            raise ParameterTypeError(
                f"callbacks holds {callback!r}: it must be an instance of "
                "xgboost.callback.TrainingCallback."
            )


class InOrder(xgboost.callback.TrainingCallback):
    """Several callbacks as one, called in their order.

    XGBoost 3.0 keeps callbacks in a set. Which of them sees a round first, or misses the last round
    because another one ended training, would differ from run to run.
    """

    def __init__(self, callbacks: Iterable[xgboost.callback.TrainingCallback]) -> None:
        super().__init__()
        self._callbacks = list(dict.fromkeys(callbacks))  # each once, as in XGBoost

    def before_training(self, model: Any) -> Any:
        for callback in self._callbacks:
            model = callback.before_training(model)
        return model

    def after_training(self, model: Any) -> Any:
        for callback in self._callbacks:
            model = callback.after_training(model)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return any(each.before_iteration(model, epoch, evals_log) for each in self._callbacks)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return any(each.after_iteration(model, epoch, evals_log) for each in self._callbacks)


class UnableToEnd(InOrder):
    """A callback in a training whose number of rounds is known: it cannot end it."""

    def __init__(self, callback: xgboost.callback.TrainingCallback) -> None:
        super().__init__([callback])

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        super().before_iteration(model, epoch, evals_log)
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        super().after_iteration(model, epoch, evals_log)
        return False
