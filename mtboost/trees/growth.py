# SPDX-License-Identifier: Apache-2.0
"""Growing trees with tasks: the common part of both libraries."""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.arrays import Float32Array, Total, on_host
from mtboost.base.checks import shown
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, ParameterError, TrainingError
from mtboost.trees import on_device
from mtboost.trees.losses import Loss, RowGroups, check_shape_of_gradients, leaf_refit
from mtboost.trees.monotone import leaf_bounds
from mtboost.trees.nesting import Nesting, with_groups
from mtboost.trees.pooled_leaves import PooledTrees, pool_leaves
from mtboost.trees.pooling import Pooling
from mtboost.trees.task_column import place_of_task_column
from mtboost.trees.task_values import TaskValues
from mtboost.trees.tree_options import TreeOptions

Objective = Callable[..., tuple[npt.ArrayLike, npt.ArrayLike]]


@contextmanager
def naming_the_round(number: int) -> Iterator[None]:
    """Tell in which round the core met a number that is not finite."""
    try:
        yield
    except RuntimeError as error:
        raise TrainingError(f"Round {number}: {error}") from None


def check_groups(groups: Sequence[Sequence[int]], n_features: int) -> None:
    """Raise unless interaction constraints name columns that there are."""
    for group in groups:
        for column in group:
            if not 0 <= column < n_features:
                raise ParameterError(
                    f"interaction_constraints name column {shown(column)}, but there are "
                    f"{n_features}, counted from 0."
                )


class TaskGrowth(abc.ABC):
    """Trees grown so far, and the margins they give to every matrix in use.

    Parameters
    ----------
    tasks : TaskSet
        Task of each training row.
    options : TreeOptions
        With the plain split score the grower knows no tasks. An estimated κ of partially pooled
        leaves becomes a number with the first tree.
    task_column : int or str, optional
        Position or name of the column of the training matrix that holds the tasks.
    """

    #: Training parameters of the library's own booster, by the library's names.
    settings: Any

    def __init__(self, tasks: TaskSet, options: TreeOptions, task_column: int | str | None) -> None:
        self._options = options
        self._task_column = task_column
        self.pooled = PooledTrees(cast(Pooling, options.pooling))
        #: Pooled values of each tree, shape (n_nodes,), by which it is known again.
        self.pooled_values: list[Float32Array] = []
        self._knows_tasks = options.make_score() is not None
        self._codes: weakref.WeakKeyDictionary[Any, npt.NDArray[np.int32]] = (
            weakref.WeakKeyDictionary()
        )
        self._set_tasks(tasks)
        self._n_outputs = 1
        self._labels: Float32Array = np.empty((0, 1), np.float32)
        self._weights: Float32Array | None = None
        self._groups = RowGroups()
        self._loss: Loss | None = None
        self._objective: Objective | None = None
        # Number of trees, and the margins after them.
        self._margins: weakref.WeakKeyDictionary[Any, tuple[int, npt.NDArray[Any]]] = (
            weakref.WeakKeyDictionary()
        )
        # Gradients of the last round: new memory each round would take longer than to fill it.
        self._pairs: Float32Array | None = None
        # Sums over all workers; None is a single machine.
        self._total: Total | None = None

    def _set_tasks(self, tasks: TaskSet) -> None:
        self.tasks = tasks
        # Task of each training row; an array of CuPy where the rows lie on a GPU.
        self._row_codes: Any = tasks.codes
        self._is_active = np.ones(max(1, tasks.n_tasks), np.uint8)
        # Groups of nested tasks, which have leaf values if each level has a κ.
        self._nesting = Nesting.of(with_groups(tasks)) if tasks.n_levels > 1 else None

    @property
    def objective(self) -> object:
        """Name of the objective, or the user's function."""
        return self._objective or self.settings.objective

    @abc.abstractmethod
    def margins(self, data: Any) -> npt.NDArray[Any]:
        """Margins of all rows, shape (n_rows, n_outputs): sums in tree order."""

    @abc.abstractmethod
    def start_margins(self, data: Any) -> npt.NDArray[Any]:
        """Margins before the first tree of this training, shape (n_rows, n_outputs)."""

    def quit(self, task: int) -> None:
        """Leave the rows of a task out of all later trees."""
        self._is_active[task] = 0

    def _grower_arguments(
        self, names: Sequence[str], is_categorical: Sequence[bool]
    ) -> dict[str, Any]:
        """Return the options as arguments of the core's ``TreeGrower`` for a training matrix."""
        place = place_of_task_column(self._task_column, names, is_categorical)
        return self._options.grower_arguments(place)

    def _gradients_of_loss(self, margins: npt.NDArray[Any], iteration: int) -> Float32Array:
        """Return gradient pairs of the library's own objective, shape (n_rows, n_outputs, 2)."""
        loss: Any = self._loss  # margins of the libraries differ in type
        # Of queries, none has rows of several tasks, but all weights are normalised.
        weights = self._weights if loss.needs_groups else self._weights_of_active_tasks()
        with naming_the_round(iteration):
            self._pairs = loss.gradients(
                margins,
                self._labels,
                weights,
                groups=self._groups.begins,
                order=self._groups.order,
                n_threads=self.settings.n_threads,
                out=self._pairs,
            )
        assert self._pairs is not None
        return self._pairs

    def _by_output(self, pairs: Any) -> Any:
        """Return the same gradient pairs, of which those of one output lie together in memory.

        A tree reads them several times.
        """
        if pairs.shape[1] == 1 or not isinstance(pairs, np.ndarray):
            return pairs
        whole = pairs.view(np.complex64)[:, :, 0]  # NumPy moves pairs faster than their numbers
        together = np.ascontiguousarray(whole.T)[:, :, None].view(np.float32)
        return together.swapaxes(0, 1)

    # ---- partially pooled leaves (docs/pooling.md) ------------------------------------------

    def know_tasks(self, data: Any, tasks: TaskSet) -> None:
        """Tell the tasks of a matrix to be evaluated; those of others count as not known."""
        self._codes[data] = self.tasks.codes_of_rows(tasks)

    def _keep_values(self, pooled: npt.NDArray[Any], values: TaskValues) -> None:
        """Keep the leaf values of single tasks in the next tree, whose pooled values are given."""
        self.pooled.values.append(values)
        self.pooled_values.append(np.array(pooled, np.float32))

    def _leaf_values(
        self,
        tree: Mapping[str, npt.NDArray[Any]],
        leaves: npt.NDArray[np.int32],
        gradients: Float32Array,
        margins: npt.NDArray[Any],
        weights: Float32Array | None,
        output: int,
    ) -> tuple[npt.NDArray[np.float64], TaskValues]:
        """Return the values of a tree just grown: of all tasks together, and of single ones.

        `tree` has the arrays of the core's tree, `margins` are those before it, `weights` those of
        the rows that took part.
        """
        newton: npt.NDArray[np.float64] = tree["value"]
        learning_rate = self.settings.grow.learning_rate
        refit = leaf_refit(
            self._loss if self._objective is None else None,
            margins,
            self._labels,
            weights,
            output=output,
            learning_rate=learning_rate,
            n_threads=self.settings.n_threads,
        )
        pooled = newton if refit is None else refit(newton, leaves)
        rows = pooled, leaves, self._row_codes, gradients[:, output]
        n_tasks, nesting = self.tasks.n_tasks, self._nesting
        pooling = self.pooled.settled_pooling(
            *rows, n_tasks=n_tasks, total=self._total, nesting=nesting
        )
        if pooling is None:
            return pooled, TaskValues.none()
        bounds, signs = None, self.settings.grow.monotone_constraints
        if any(signs):
            left = tree["left"]
            bounds = leaf_bounds(left, left + 1, tree["feature"], pooled, signs)
            # Leaf values that are no Newton steps may break them.
            pooled = np.where(left < 0, np.clip(pooled, *bounds), pooled)
            rows = (pooled, *rows[1:])
        return pooled, pool_leaves(
            *rows,
            n_tasks=n_tasks,
            pooling=pooling,
            learning_rate=learning_rate,
            refit=refit,
            total=self._total,
            nesting=nesting,
            bounds=bounds,
        )

    def _add_tree(
        self,
        pooled: npt.NDArray[np.float64],
        task_values: TaskValues,
        leaves: npt.NDArray[np.int32],
        data: Any,
        margins: npt.NDArray[Any],
        *,
        output: int,
        n_threads: int | None = None,
    ) -> None:
        """Add the value that each row's leaf has for its task."""
        codes, values = None, pooled
        is_on_host = isinstance(margins, np.ndarray)
        if len(task_values.leaf):
            codes = self._codes.get(data)
            if codes is not None and (is_on_host or self._nesting is not None):
                values = task_values.table(pooled, self.tasks.n_tasks, self._nesting)
            elif codes is not None:
                values = on_device.table_of_values(pooled, task_values, self.tasks.n_tasks, leaves)
        n_threads = n_threads or self.settings.n_threads
        kernels: Any = _core if is_on_host else on_device
        kernels.add_leaf_values(
            values, leaves, margins, codes=codes, output=output, n_threads=n_threads
        )

    # ---- tasks that take part ---------------------------------------------------------------

    def _active_tasks(self) -> npt.NDArray[np.uint8] | None:
        return None if not self._knows_tasks or self._is_active.all() else self._is_active

    def _weights_of_active_tasks(self) -> Float32Array | None:
        """Weights of the rows, 0 if their task has quit: a loss may sum over all rows."""
        if self._is_active.all():
            return self._weights
        weights = self._is_active.astype(np.float32)[self.tasks.codes]
        return weights if self._weights is None else weights * self._weights

    def _check_levels(self, max_depth: int, instead: str) -> None:
        """Refuse symmetric trees without a limit of levels."""
        if self._options.symmetric_trees and max_depth <= 0:
            raise ParameterError(
                f"symmetric_trees=True needs a number of levels: set max_depth{instead}."
            )

    def _rows_without_gradient(self) -> Any:
        """Rows of tasks that have quit, where the grower knows no tasks."""
        xp: Any = on_device.namespace(self._row_codes)
        if self._knows_tasks or self._is_active.all():
            return xp.empty(0, np.int64)
        return xp.flatnonzero(xp.asarray(self._is_active)[self._row_codes] == 0)

    def _order_by_task(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32] | None]:
        """Storage order of rows, first stored row of each task (cpp/core/split/task_rows.hpp)."""
        if not self._knows_tasks:
            # The library's own order: sums of doubles depend on it in the last bit.
            return np.empty(0, np.uint32), None
        first_rows = np.concatenate([[0], np.cumsum(self.tasks.counts)]).astype(np.uint32)
        if bool((np.diff(self.tasks.codes) >= 0).all()):
            return np.empty(0, np.uint32), first_rows
        codes = self.tasks.codes
        if self.tasks.n_tasks <= np.iinfo(np.uint16).max:
            codes = codes.astype(np.uint16)  # sorted by digits, several times as fast
        return np.argsort(codes, kind="stable").astype(np.uint32), first_rows

    def _check_rows(self, n_rows: int) -> None:
        if len(self.tasks.codes) != n_rows:
            raise DataError(
                f"TaskSplit was given {len(self.tasks.codes)} task labels, but the training data "
                f"has {n_rows} rows: pass one label per row, in the order of the rows."
            )

    @staticmethod
    def _pairs_of(
        gradient_and_hessian: tuple[npt.ArrayLike, npt.ArrayLike],
        margins: npt.NDArray[Any],
        iteration: int,
    ) -> Float32Array:
        """Return the result of a user's objective as pairs of shape (n_rows, n_outputs, 2)."""
        is_host = isinstance(margins, np.ndarray)
        xp: Any = np if is_host else on_device.namespace(margins)
        gradients: Float32Array = xp.empty((*margins.shape, 2), xp.float32)
        shape = margins.shape[:1] if margins.shape[1] == 1 else margins.shape
        for part, given in enumerate(gradient_and_hessian):
            values = on_host(given) if is_host else xp.asarray(given)
            check_shape_of_gradients(values.shape, shape)
            gradients[:, :, part] = values.reshape(margins.shape)
        if not xp.isfinite(gradients).all():
            row = int(xp.argwhere(~xp.isfinite(gradients))[0, 0])
            raise TrainingError(
                f"The objective returned a gradient or hessian that is not finite in round "
                f"{iteration}, first at row {row}."
            )
        return gradients


def growth_of(model: object) -> TaskGrowth | None:
    """Return the growth of our trees in a booster; None if the library grows its own."""
    growth: TaskGrowth | None = getattr(model, "growth", None)
    return growth
