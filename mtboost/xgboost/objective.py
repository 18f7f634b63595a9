"""Gradients of several tasks for trees that XGBoost grows itself."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost import _core
from mtboost.errors import DataError, UnsupportedError
from mtboost.losses import check_labels, is_multiclass, make_loss
from mtboost.task_weights import TaskWeight, weights_with_tasks
from mtboost.tasks import TaskName, TaskSet
from mtboost.threads import default_n_threads
from mtboost.xgboost.library import arithmetic, check_version

FloatArray = npt.NDArray[np.float32]
Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class TaskObjective:
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
    task : array-like of shape (n_rows,)
        Task of each row of the training matrix: integers, strings or categories.
    task_weight : mapping of task name to float, or "balanced", optional
        The rows' weights are multiplied by their task's; "balanced" gives all tasks the same total.
    n_threads : int, optional
        By default all cores that the process may use.
    **options : float
        Parameters of the loss: ``scale_pos_weight``, ``huber_slope``, ``max_delta_step``,
        ``tweedie_variance_power``.

    Raises
    ------
    UnsupportedError
        The loss has no gradient in the core, or sets its leaves by another rule
        (``"reg:absoluteerror"`` of XGBoost 3.0 to 3.3).

    Notes
    -----
    XGBoost estimates no start score for an objective that it is given: with it set
    ``params["base_score"]``, for example to the mean of the labels. Keep ``params["objective"]`` as
    well, so that predictions and metrics have its link function.

    Examples
    --------
    >>> objective = TaskObjective("binary:logistic", task, task_weight="balanced")
    >>> xgboost.train(params, dtrain, 200, obj=objective)  # doctest: +SKIP
    """

    def __init__(
        self,
        objective: str | Callable[..., Pair],
        task: Any,
        *,
        task_weight: TaskWeight = None,
        n_threads: int | None = None,
        **options: float,
    ) -> None:
        check_version()
        self.tasks = task if isinstance(task, TaskSet) else TaskSet.from_labels(task, len(task))
        self.objective = objective
        self._options = options
        self._n_threads = default_n_threads(n_threads, self.tasks.n_rows)
        self._task_weight = task_weight
        self._is_active = np.ones(self.tasks.n_tasks, bool)
        self._loss: _core.Loss | None = None
        self._rows = _Rows(None, np.empty((0, 1), np.float32), None)
        if isinstance(objective, str):
            n_outputs = 2 if is_multiclass(objective) else 1  # any will do
            loss = make_loss(objective, n_outputs, arithmetic=arithmetic(), **options)
            if loss.refits_leaves:
                raise UnsupportedError(
                    f"objective={objective!r} sets its leaves by another rule than the gradients, "
                    "which XGBoost does for its own objective only: use 'reg:pseudohubererror', or "
                    "TaskSplit."
                )

    def start(self) -> None:
        """Let all tasks take part again, as at the start of a training."""
        self._is_active[:] = True

    def quit(self, task: TaskName) -> None:
        """Leave the rows of a task out of all later trees."""
        self._is_active[self.tasks.code(task)] = False

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Pair:
        """Gradient and hessian, each of the shape of the margins.

        Takes ``(margins, matrix)`` from ``xgboost.train``, and ``(labels, margins)`` and the rows'
        weights from scikit-learn's wrappers.
        """
        matrix = second if isinstance(second, xgboost.DMatrix) else None
        margins = np.asarray(second if matrix is None else first, np.float32)
        if len(margins) != self.tasks.n_rows:
            raise DataError(
                f"TaskObjective was given {self.tasks.n_rows} task labels, but there are "
                f"{len(margins)} training rows: pass one label per row, in the order of the rows."
            )
        if matrix is None:
            self._rows = self._read(None, first, sample_weight)
        elif self._rows.matrix is None or self._rows.matrix() is not matrix:
            self._rows = self._read(matrix, matrix.get_label(), matrix.get_weight())
        if callable(self.objective):
            options = {} if sample_weight is None else {"sample_weight": sample_weight}
            gradients = self._weighted(self.objective(first, second, **options), margins)
        else:
            gradients = self._of_loss(self.objective, margins)
        if not self._is_active.all():
            gradients[~self._is_active[self.tasks.codes]] = 0.0
        gradient, hessian = np.moveaxis(gradients.reshape(*margins.shape, 2), -1, 0)
        return gradient, hessian

    def __deepcopy__(self, memo: Any) -> TaskObjective:
        return self  # libraries copy parameters; a copy would not learn which tasks have quit

    def _read(self, matrix: xgboost.DMatrix | None, labels: Any, weights: Any) -> _Rows:
        labels = np.ascontiguousarray(labels, np.float32).reshape(self.tasks.n_rows, -1)
        weights = None if weights is None or not np.size(weights) else np.asarray(weights)
        if callable(self.objective):
            weights = None  # the function's own affair
        weights = weights_with_tasks(self.tasks, weights, self._task_weight)
        return _Rows(
            None if matrix is None else weakref.ref(matrix),
            labels,
            None if weights is None else weights.astype(np.float32),
        )

    def _of_loss(self, objective: str, margins: FloatArray) -> FloatArray:
        margins = margins.reshape(len(margins), -1)
        rows = self._rows
        if self._loss is None or self._loss.n_outputs != margins.shape[1]:
            self._loss = make_loss(
                objective, margins.shape[1], arithmetic=arithmetic(), **self._options
            )
            check_labels(self._loss, rows.labels)
        return self._loss.gradients(margins, rows.labels, rows.weights, n_threads=self._n_threads)

    def _weighted(self, pair: Pair, margins: FloatArray) -> FloatArray:
        parts = [np.asarray(part, np.float32).reshape(len(margins), -1) for part in pair]
        gradients = np.stack(parts, axis=-1)
        if self._rows.weights is not None:
            gradients *= self._rows.weights[:, None, None]
        return gradients


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the training rows bring along: read once for each matrix."""

    matrix: weakref.ref[xgboost.DMatrix] | None
    labels: FloatArray
    weights: FloatArray | None  # the rows' own times their tasks'
