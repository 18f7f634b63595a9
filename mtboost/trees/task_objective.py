# SPDX-License-Identifier: Apache-2.0
"""Gradients of several tasks, for trees that a library grows itself."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array, Total
from mtboost.base.checks import check_number, check_type, did_you_mean
from mtboost.base.task_weights import TaskWeight, weights_with_tasks
from mtboost.base.tasks import TaskName, TaskSet, as_tasks
from mtboost.base.threads import default_n_threads
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.trees.losses import (
    Loss,
    RowGroups,
    as_pair,
    as_zero_one,
    check_labels,
    check_shape_of_gradients,
    is_multiclass,
    row_groups,
)

Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Matrix(Protocol):
    """Interface of a library's training matrix."""

    def get_label(self) -> Any:
        """Labels of the rows."""

    def get_weight(self) -> Any:
        """Weights of the rows; None or empty if there are none."""


class BaseTaskObjective(ABC):
    """Common part of the objectives for XGBoost and LightGBM, whose docstrings have the rest."""

    _margin_type: ClassVar[type[np.floating[Any]]]
    _flat_order: ClassVar[Literal["C", "F"]]  # of margins of several outputs in one dimension
    _was_called = False
    _is_in_field = False  # whether the matrices have the tasks, perhaps those of several workers
    _known_options: ClassVar[Collection[str]]  # parameters of losses
    _numbers: ClassVar[Collection[str]]  # those of them that are numbers
    _how_to_train: ClassVar[str]  # part of a message: how the library is given an objective
    _refusal: ClassVar[str]  # end of a message: what to use for a loss that refits leaves

    def __init__(
        self,
        objective: str | Callable[..., Pair],
        task: Any,
        *,
        task_weight: TaskWeight = None,
        n_threads: int | None = None,
        **options: Any,
    ) -> None:
        self._check_library()
        for name in options.keys() - set(self._known_options):
            raise TypeError(
                f"TaskObjective got an unexpected argument {name!r}."
                f"{did_you_mean(name, self._known_options)}"
            )
        for name in options.keys() & set(self._numbers):
            options[name] = check_number(name, options[name])
        if not callable(objective):
            check_type("objective", objective, str, "a name or a function")
        self.tasks = self._tasks_of_labels(task, objective)
        self.objective = objective
        self._options: dict[str, Any] = options
        self._n_threads = default_n_threads(n_threads, self.tasks.n_rows)
        self._task_weight = task_weight
        self._is_active = np.ones(self.tasks.n_tasks, bool)
        # Sums over all workers; None is a single machine.
        self._total: Total | None = None
        self._loss: Loss | None = None
        self._rows: weakref.WeakKeyDictionary[Matrix, _MatrixRows] = weakref.WeakKeyDictionary()
        if isinstance(objective, str):
            loss = self._make_loss(objective, 2 if is_multiclass(objective) else 1)  # any will do
            if loss.refits_leaves:
                raise UnsupportedError(
                    f"objective={objective!r} sets its leaves by another rule than the gradients, "
                    f"which {self._refusal}."
                )

    @property
    def options(self) -> Mapping[str, Any]:
        """Parameters of the loss that were given."""
        return self._options

    def start(self) -> None:
        """Let all tasks take part again, as at the start of a training."""
        self._is_active[:] = True

    def quit(self, task: TaskName) -> None:
        """Leave the rows of a task out of all later trees.

        Parameters
        ----------
        task : int, str or bool
            One of the tasks of the training rows.
        """
        self._is_active[self.tasks.code(task)] = False

    def check_trained_with(self) -> None:
        """Raise if no training has asked for gradients: no task could quit it."""
        if not self._was_called:
            raise ParameterError(
                "objective of TaskQuitting is not what the booster is trained with, so that no "
                f"task could quit: {self._how_to_train}, or leave objective out."
            )

    def __deepcopy__(self, memo: Any) -> BaseTaskObjective:
        return self  # libraries copy parameters; a copy would not learn which tasks have quit

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loss": None, "_rows": None, "_total": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _rows=weakref.WeakKeyDictionary())

    def _tasks_of_labels(self, task: Any, objective: object) -> TaskSet:
        return as_tasks(task)

    @staticmethod
    @abstractmethod
    def _check_library() -> None:
        """Raise unless the installed library is supported."""

    @abstractmethod
    def _make_loss(self, objective: str, n_outputs: int) -> Loss: ...

    def _pair(
        self, margins: Any, data: Matrix | tuple[Any, Any], *arguments: Any, **keywords: Any
    ) -> Pair:
        """Gradient and hessian, each of the shape of the margins.

        ``data`` is the training matrix, or labels and weights; the rest is what a function of the
        user's is called with.
        """
        self._was_called = True
        margins = np.asarray(margins, self._margin_type)
        if not len(margins) and not self._is_in_field:
            raise DataError("The training matrix has no rows: pass one with at least one row.")
        if not len(margins):  # a worker without rows takes part in the calls of all workers
            self._rows_of(data, 0)
            if callable(self.objective):
                self.objective(*arguments, **keywords)
            return np.zeros_like(margins), np.zeros_like(margins)
        if isinstance(self.objective, str):
            table = np.ascontiguousarray(margins.reshape(len(margins), -1))
            loss = self._loss_of(self.objective, table.shape[1])
            rows = self._rows_of(data, len(margins))
            gradients = loss.gradients(
                table,
                rows.labels,
                rows.weights,
                groups=rows.groups.begins,
                order=rows.groups.order,
                n_threads=self._n_threads,
                out=rows.pairs,
            )
        else:
            rows = self._rows_of(data, len(margins))
            gradients = self._weighted(
                as_pair(self.objective(*arguments, **keywords)), rows, margins.shape
            )
        if not self._is_active.all():
            gradients[~self._is_active[rows.tasks.codes]] = 0.0
        gradient, hessian = np.moveaxis(gradients.reshape(*margins.shape, 2), -1, 0)
        return gradient, hessian

    def _loss_of(self, objective: str, n_outputs: int) -> Loss:
        if is_multiclass(objective) and n_outputs == 1:
            raise ParameterError(
                f"objective={objective!r} has a margin for each class, but the booster has one: "
                "set params['num_class']."
            )
        if self._loss is None or self._loss.n_outputs != n_outputs:
            self._loss = self._make_loss(objective, n_outputs)
            self._rows.clear()  # labels are checked against the loss when they are read
        return self._loss

    def _rows_of(self, data: Matrix | tuple[Any, Any], n_rows: int) -> _MatrixRows:
        if isinstance(data, tuple):
            return self._read(self._tasks_of(None, n_rows), *data)
        rows = self._rows.get(data)
        fields = self._labels_of(data), data.get_weight(), self._query_begins(data)
        # Workers, whose sums are totals, would have to read them again together.
        if rows is None or (self._total is None and not all(map(_is_equal, rows.fields, fields))):
            rows = self._rows[data] = self._read(self._tasks_of(data, n_rows), *fields)
        return rows

    def _tasks_of(self, data: Matrix | None, n_rows: int) -> TaskSet:
        """Tasks of the rows of a matrix."""
        if n_rows != self.tasks.n_rows:
            raise DataError(
                f"TaskObjective was given {self.tasks.n_rows} task labels, but there are {n_rows} "
                "training rows: pass one label per row, in the order of the rows."
            )
        return self.tasks

    def _labels_of(self, data: Any) -> Any:
        """Return the labels of a matrix."""
        return data.get_label()

    @staticmethod
    @abstractmethod
    def _query_begins(data: Any, /) -> npt.NDArray[np.uint32] | None:
        """Return the first row of each query of a matrix, and the number of rows."""

    def _read(
        self,
        tasks: TaskSet,
        labels: Any,
        weights: Any,
        query_begins: npt.NDArray[np.uint32] | None = None,
    ) -> _MatrixRows:
        fields = labels, weights, query_begins
        shape = (tasks.n_rows, -1 if tasks.n_rows else 1)
        labels = np.ascontiguousarray(labels, np.float32).reshape(shape)
        labels = as_zero_one(self.objective, labels)
        if self._loss is not None:
            check_labels(self._loss, labels)
        weights = None if weights is None or not np.size(weights) else np.asarray(weights)
        groups = RowGroups()
        if self._loss is not None:
            groups = row_groups(self._loss, labels, tasks, query_begins)
        if weights is not None and len(weights) != tasks.n_rows and groups.begins is not None:
            weights = np.repeat(weights, np.diff(groups.begins))  # those of queries
        if callable(self.objective):
            weights = None  # the function's own affair
        weights = weights_with_tasks(tasks, weights, self._task_weight, total=self._total)
        weights = None if weights is None else weights.astype(np.float32)
        n_outputs = 1 if self._loss is None else self._loss.n_outputs
        return _MatrixRows(
            tasks,
            labels,
            weights,
            np.empty((tasks.n_rows, n_outputs, 2), np.float32),
            groups,
            fields,
        )

    def _weighted(self, pair: Pair, rows: _MatrixRows, shape: tuple[int, ...]) -> Float32Array:
        parts = []
        for each in pair:
            part = np.asarray(each, np.float32)
            check_shape_of_gradients(part.shape, shape)
            part = part if part.ndim > 1 else part.reshape(shape, order=self._flat_order)
            parts.append(part.reshape(rows.tasks.n_rows, -1))
        gradients = np.stack(parts, axis=-1)
        return gradients if rows.weights is None else gradients * rows.weights[:, None, None]


@dataclass(frozen=True, slots=True)
class _MatrixRows:
    """Labels, weights and tasks of training rows, read again when the matrix has others."""

    tasks: TaskSet
    labels: Float32Array
    weights: Float32Array | None  # the rows' own times their tasks'
    pairs: Float32Array  # gradients of the last round: new memory each round would take longer
    groups: RowGroups
    fields: tuple[Any, Any, Any]  # labels, weights and queries as the matrix had them


def _is_equal(before: Any, now: Any) -> bool:
    return before is now or np.array_equal(before, now)
