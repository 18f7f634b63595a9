# SPDX-License-Identifier: Apache-2.0
"""Descriptors of tasks: numbers by which nodes of the common model may split tasks.

A category of the task lets a node choose among all divisions of its tasks, 2^(T-1) of them, by the
few rows it has. A number that describes the task has T - 1 divisions, and all rows speak for its
order: tasks that are alike stay together. It is constant within a task, so that the booster of a
task needs it no more than a column of tasks.

A task is described by its number of rows, by the means of its labels and its columns (Mundlak,
1978), and by the covariances of its labels and its columns, which distinguish tasks that use a
column in different ways. Each mean or covariance is the mean of one value a row; it is shrunk
towards the mean of all tasks by its sampling variance, and left out where tasks do not differ by
more than chance.

References
----------
Mundlak, On the pooling of time series and cross section data, 1978: means of groups as columns.
Bonilla, Agakov, Williams, Kernel multi-task learning using task-specific features, 2007.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.archive import require
from mtboost.base.arrays import Float64Array, FloatArray
from mtboost.base.dataset import Dataset
from mtboost.base.labels import weights_or_ones
from mtboost.base.tables import Table
from mtboost.trees.nesting import Nesting
from mtboost.trees.shrinkage import Population, estimate_population, excess_spread

#: Standard deviations of Cochran's Q by which tasks must differ in a descriptor.
_LEAST_EXCESS = 2.0
#: Descriptors of each kind, if the user does not say how many: means of columns, covariances.
MOST_DESCRIPTORS = 8
#: Of tables with more columns only rows and labels describe the tasks.
_MOST_COLUMNS = 1000


@dataclass(frozen=True, slots=True)
class Column:
    """Return a common column, standardised: mean 0, standard deviation 1, missing values 0."""

    position: int
    mean: float
    scale: float

    def of(self, table: Table) -> Float64Array:
        return (_numbers(table, self.position, self.mean) - self.mean) / self.scale


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One number of each task.

    Of a label its mean, of a column its mean, of both their covariance, of neither the number of
    rows.

    Attributes
    ----------
    has_label : bool
    label : float, optional
        The class that is meant, of classes.
    column : Column, optional
    population : Population, optional
        What the means and covariances of tasks are shrunk by.
    noise : float
        Variance of a row's value about the mean of its task.
    """

    has_label: bool = False
    label: float | None = None
    column: Column | None = None
    population: Population | None = None
    noise: float = 0.0

    def of_rows(self, rows: _RowsOfTask) -> Float64Array:
        """Values of rows, whose mean is the descriptor of their task."""
        if not self.has_label:
            assert self.column is not None
            return rows.column(self.column)
        labels = rows.labels if self.label is None else (rows.labels == self.label).astype(float)
        if self.column is None:
            return labels
        return rows.centred(rows.column(self.column)) * rows.centred(labels)

    def of_tasks(self, rows: _RowsOfTask) -> Float64Array:
        """Shrunk values of tasks."""
        if self.population is None:
            return rows.n_rows
        variances = np.divide(
            self.noise, rows.n_rows, out=np.full(rows.n_tasks, np.inf), where=rows.n_rows > 0.0
        )
        return self.population.shrunk(rows.means(self.of_rows(rows)), variances)


@dataclass(frozen=True, slots=True, eq=False)
class TaskDescriptors:
    """Columns that are constant within each task.

    Trees depend on order only: the columns hold ranks, those of equal tasks equal, of tasks that
    took no part in training the place between two ranks.

    Attributes
    ----------
    descriptors : tuple of Descriptor
    values : ndarray of float64, shape (n_tasks + 1, n_descriptors)
        The last row is for tasks that are not known: the mean of the tasks' rows.
    n_trained : int
        Number of tasks, the first ones, that took part in training.
    """

    descriptors: tuple[Descriptor, ...]
    values: Float64Array
    n_trained: int

    @property
    def n(self) -> int:
        """Number of descriptors."""
        return len(self.descriptors)

    def check(self, n_tasks: int) -> None:
        """Raise ModelFormatError unless they describe `n_tasks` tasks."""
        values = self.values
        require(
            self.n > 0
            and values.shape == (n_tasks + 1, self.n)
            and values.dtype == np.float64
            and bool(np.isfinite(values).all()),
            "the descriptors of tasks are not one number a task",
        )
        require(0 < self.n_trained <= n_tasks, "descriptors are of no task that was trained")
        for each in self.descriptors:
            require(
                each.column is None or (each.column.position >= 0 and each.column.scale > 0.0),
                "a descriptor is of an unknown column",
            )
            require(
                each.column is not None or each.has_label or each.population is None,
                "a descriptor describes nothing",
            )
            shrinks = each.population is None or each.noise + each.population.spread > 0.0
            require(each.noise >= 0.0 and shrinks, "a descriptor has no variance")

    def of_rows(self, codes: npt.NDArray[np.integer[Any]] | int) -> npt.NDArray[np.float32]:
        """Ranks for rows of tasks, or of one; -1 is a task that is not known."""
        return np.asarray(self.ranks()[codes])

    def ranks(self) -> npt.NDArray[np.float32]:
        """Ranks 1, 2, ... of the tasks, shape (n_tasks + 1, n_descriptors)."""
        columns = [_places(column[: self.n_trained], column) for column in self.values.T]
        return np.column_stack(columns).astype(np.float32)

    def with_groups(self, nesting: Nesting, counts: npt.NDArray[np.int64]) -> TaskDescriptors:
        """These, and groups of tasks: each is like the mean of its tasks' rows.

        `counts` are the rows of each task.
        """
        n_names = nesting.n_names
        sums = np.zeros((n_names, self.n))
        n_rows = np.zeros(n_names)
        for code, n_own in enumerate(counts.tolist()):
            path = nesting.path(code)
            n_rows[path] += n_own
            sums[path] += n_own * self.values[code]
        groups = sums[len(counts) :] / n_rows[len(counts) :, None]
        return replace(self, values=np.concatenate([self.values[:-1], groups, self.values[-1:]]))

    def with_task(
        self, table: Table, labels: FloatArray, weight: FloatArray | None
    ) -> TaskDescriptors:
        """These, and one more task by its rows."""
        rows = _RowsOfTask(table, labels, np.zeros(table.n_rows, np.int64), 1, weight)
        own = np.concatenate([each.of_tasks(rows) for each in self.descriptors])
        values = np.concatenate([self.values[:-1], own[None], self.values[-1:]])
        return replace(self, values=values)


def describe_tasks(
    data: Dataset, most: int = MOST_DESCRIPTORS, has_classes: bool = False
) -> TaskDescriptors:
    """Describe the tasks by their rows.

    Parameters
    ----------
    data : Dataset
        With labels, and common columns of numbers.
    most : int
        Descriptors of each kind, those in which tasks differ most surely: means of columns, and
        covariances. 0 leaves the number of rows and the means of labels.
    has_classes : bool
        Labels are numbers of classes: each class is a separate label.
    """
    rows = _RowsOfTask(
        data.common, data.numbers(), data.tasks.codes, data.tasks.n_tasks, data.weight
    )
    classes = np.unique(data.numbers()).tolist() if has_classes else [None]
    labels = [Descriptor(has_label=True, label=each) for each in classes]
    found = [Descriptor(), *(each for _, each in rows.different(labels))]
    if most and data.common.n_features <= _MOST_COLUMNS:
        covariances, means = [], []
        for column in _columns(data.common):
            covariances += rows.different([replace(each, column=column) for each in labels])
            means += rows.different([Descriptor(column=column)])
        for kind in (covariances, means):
            kind.sort(key=lambda pair: -pair[0])
            found += [each for _, each in kind[:most]]
    values = np.column_stack([each.of_tasks(rows) for each in found])
    weights = rows.n_rows if rows.n_rows.any() else None
    mean = np.average(values, axis=0, weights=weights)
    return TaskDescriptors(tuple(found), np.vstack([values, mean]), len(values))


class _RowsOfTask:
    """Rows of tasks, and means over the rows of each."""

    def __init__(
        self,
        table: Table,
        labels: FloatArray,
        codes: npt.NDArray[Any],
        n_tasks: int,
        weight: FloatArray | None,
    ) -> None:
        self._table = _by_columns(table)
        self.labels = labels.astype(np.float64)
        self._codes, self.n_tasks = codes, n_tasks
        self._weight = weights_or_ones(weight, len(codes))
        self.n_rows = self._sums(np.ones(len(codes)))
        self._known = self.n_rows > 0.0
        self._last: tuple[Column, Float64Array] | None = None

    def column(self, column: Column) -> Float64Array:
        """Its values; several descriptors of one column come one after another."""
        if self._last is None or self._last[0] != column:
            self._last = column, column.of(self._table)
        return self._last[1]

    def _sums(self, values: Float64Array) -> Float64Array:
        return np.asarray(np.bincount(self._codes, self._weight * values, self.n_tasks))

    def means(self, values: Float64Array) -> Float64Array:
        """By task; 0 without rows."""
        return self._sums(values) / np.where(self._known, self.n_rows, 1.0)

    def centred(self, values: Float64Array) -> Float64Array:
        """Less the mean of the row's task."""
        return np.asarray(values - self.means(values)[self._codes])

    def different(self, candidates: list[Descriptor]) -> list[tuple[float, Descriptor]]:
        """Those in which tasks differ, and how much more than by chance."""
        found = []
        n_free = max(1.0, self.n_rows.sum() - np.count_nonzero(self._known))
        for candidate in candidates:
            values = candidate.of_rows(self)
            noise = float((self._weight * self.centred(values) ** 2).sum() / n_free)
            means = self.means(values)[self._known]
            variances = noise / self.n_rows[self._known]
            excess = excess_spread(means, variances)
            if excess > _LEAST_EXCESS:
                population = estimate_population(means, variances)
                found.append((excess, replace(candidate, population=population, noise=noise)))
        return found


def _columns(table: Table) -> list[Column]:
    """Columns that vary, but not as much as doubles can tell."""
    table = _by_columns(table)
    found = []
    for position in range(table.n_features):
        values = _numbers(table, position)
        present = np.isfinite(values)
        if not present.any():
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values[present].mean())
            scale = float(np.where(present, values, mean).std())
        if 0.0 < scale < np.inf:
            found.append(Column(position, mean, scale))
    return found


def _numbers(table: Table, position: int, missing: float = np.nan) -> Float64Array:
    name = table.feature_names[position] if table.feature_names else position
    values = table.number_column(name)
    return np.where(np.isfinite(values), values, missing)


def _by_columns(table: Table) -> Table:
    """The table, sparse ones as columns."""
    return replace(table, native=table.native.tocsc()) if table.library == "scipy" else table


def _places(trained: Float64Array, values: Float64Array) -> Float64Array:
    """Ranks among different values of trained tasks; between two of them for other values."""
    different = np.unique(trained)
    place = np.searchsorted(different, values)
    is_one = different[np.minimum(place, len(different) - 1)] == values
    return np.where(is_one, place + 1.0, place + 0.5)
