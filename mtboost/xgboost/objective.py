# SPDX-License-Identifier: Apache-2.0
"""Gradients of several tasks for trees that XGBoost grows itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost

from mtboost import _core
from mtboost.base.tasks import TaskSet, as_tasks
from mtboost.errors import DataError, UnsupportedError
from mtboost.trees.losses import is_ranking, is_survival, make_loss
from mtboost.trees.task_objective import BaseTaskObjective, Pair
from mtboost.xgboost.collective import Workers
from mtboost.xgboost.library import arithmetic, check_one_machine, check_version
from mtboost.xgboost.matrix_fields import labels_of, query_begins
from mtboost.xgboost.objective_settings import LOSS_OPTIONS
from mtboost.xgboost.task_field import (
    INSTEAD,
    TASK_FIELD,
    check_no_bounds,
    is_task_field,
    tasks_in_field,
)


class TaskObjective(BaseTaskObjective):
    """A loss whose rows belong to tasks: tasks have weights, and may leave.

    For ``xgboost.train(..., obj=...)`` and ``XGBClassifier(objective=...)``. XGBoost grows the
    trees; the gradients are computed in C++ without the interpreter's lock. The rows of a task that
    has quit (:class:`TaskQuitting`) get gradient and hessian 0, which to XGBoost is the same as if
    they were not there.

    Parameters
    ----------
    objective : str or callable
        XGBoost's name of a loss, or a function ``(margins, matrix) -> (gradient, hessian)`` as
        ``xgboost.train`` takes it.
    task : array-like of shape (n_rows,), or "label_lower_bound"
        Task of each row of the training matrix: integers, strings or categories. Where rows lie on
        several workers, as in ``xgboost.dask``, the matrix must have the tasks:
        ``"label_lower_bound"`` reads them from this field, whole numbers up to 2^24
        (docs/several_machines.md).
    task_weight : mapping of task name to float, or "balanced", optional
        The rows' weights are multiplied by their task's; "balanced" gives all tasks the same total.
    n_threads : int, optional
        By default all cores that the process may use.
    **options : float
        Parameters of the loss, such as ``scale_pos_weight``, ``huber_slope``, ``max_delta_step``,
        ``tweedie_variance_power`` or ``aft_loss_distribution``; ``quantile_alpha`` is a list.

    Raises
    ------
    UnsupportedError
        The loss has no gradient in the core, or sets its leaves by another rule
        (``"reg:absoluteerror"`` and ``"reg:quantileerror"`` of XGBoost 3.0 to 3.3). In training on
        several machines: `task` are labels of rows, or the loss ranks. With ``"survival:aft"``:
        `task` is a field, which has its bounds.

    Notes
    -----
    XGBoost estimates no start score for an objective that it is given: with it set
    ``params["base_score"]``, for example to the mean of the labels. Keep ``params["objective"]`` as
    well, so that predictions and metrics have its link function.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import TaskObjective
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> objective = TaskObjective("reg:squarederror", task, task_weight="balanced")
    >>> params = {"max_depth": 3, "base_score": y.mean()}
    >>> booster = xgboost.train(params, xgboost.DMatrix(X, y), 10, obj=objective)
    >>> booster.num_boosted_rounds()
    10
    """

    _margin_type = np.float32
    _known_options = (*LOSS_OPTIONS, "quantile_alpha")
    _numbers = tuple(name for name, read in LOSS_OPTIONS.items() if read is float)
    _flat_order = "C"
    _how_to_train = "give it to xgboost.train as obj=, too"
    _refusal = "XGBoost does for its own objective only: use 'reg:pseudohubererror', or TaskSplit"
    _check_library = staticmethod(check_version)
    _query_begins = staticmethod(query_begins)

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Pair:
        """Gradient and hessian, each of the shape of the margins, in memory that is used again.

        Takes ``(margins, matrix)`` from ``xgboost.train``, and ``(labels, margins)`` and the rows'
        weights from scikit-learn's wrappers.
        """
        if not self._is_in_field:
            check_one_machine("TaskObjective", INSTEAD)
        if isinstance(second, xgboost.DMatrix):
            margins = self._in_columns(first, second) if self._is_in_field else first
            return self._pair(margins, second, margins, second)
        if self._is_in_field:
            raise UnsupportedError(
                f"TaskObjective with task={TASK_FIELD!r} works in xgboost.train and "
                "xgboost.dask.train: scikit-learn's wrappers of XGBoost have no such field."
            )
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self._pair(second, (first, sample_weight), first, second, **given)

    def _labels_of(self, data: xgboost.DMatrix) -> Any:
        return labels_of(data, self.objective)

    def _tasks_of_labels(self, task: Any, objective: object) -> TaskSet:
        self._is_in_field = is_task_field("task", task)
        if not self._is_in_field:
            return as_tasks(task)
        check_no_bounds("TaskObjective", objective)
        return TaskSet((), np.empty(0, np.int32))

    def _tasks_of(self, data: Any, n_rows: int) -> TaskSet:
        """Tasks of the rows of a matrix, which all workers read together if it has them."""
        if not self._is_in_field or data is None:
            return super()._tasks_of(data, n_rows)
        workers = Workers.of_this_thread()
        if workers is not None:
            if is_ranking(self.objective) or is_survival(self.objective):
                raise UnsupportedError(
                    f"objective={self.objective!r} is not supported on several machines: train on "
                    "one machine."
                )
            workers.check_equal({"the options of TaskObjective": self._comparable()})
            self._total = lambda sums: workers.sum(sums, "weights of the tasks")
            self._n_threads = max(1, xgboost.get_config().get("nthread", 1))
        elif n_rows == 0:
            raise DataError("The training matrix has no rows: pass one with at least one row.")
        tasks = tasks_in_field("TaskObjective", data, workers)
        if tasks.names != self.tasks.names:
            self._is_active = np.ones(tasks.n_tasks, bool)
        self.tasks = tasks
        return tasks

    def _in_columns(self, margins: Any, matrix: xgboost.DMatrix) -> Any:
        """Return margins in the shape that all workers have."""
        if matrix not in self._rows:  # the first round, on all workers
            n_columns = margins.shape[1] if margins.ndim == 2 else 0
            workers = Workers.of_this_thread()
            if workers is not None:
                n_columns = int(workers.gather([n_columns], "columns of the margins").max())
            self._n_columns = n_columns
        if len(margins) == 0:
            return np.empty((0, max(1, self._n_columns)), np.float32)
        return margins

    def _comparable(self) -> str:
        """Options that all workers must share, as text; of a function its name."""
        name = getattr(self.objective, "__name__", str(self.objective))
        return repr((xgboost.__version__, name, dict(self._options), self._task_weight))

    def _make_loss(self, objective: str, n_outputs: int) -> _core.Loss:
        return make_loss(objective, n_outputs, arithmetic=arithmetic(), **self._options)
