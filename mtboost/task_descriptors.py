"""What sets a task apart, as numbers by which nodes of the common model may divide tasks.

A category of the task lets a node choose among all divisions of its tasks, 2^(T-1) of them, by the
few rows it has. A number that describes the task has T - 1 divisions, and all rows speak for its
order: tasks that are alike stay together. It is constant within a task, so that the booster of a
task needs it no more than a column of tasks.

A task is described by its number of rows, by the means of its labels and its columns (Mundlak,
1978), and by the covariances of its labels and its columns, which tell tasks apart that use a
column in different ways. Each mean or covariance is the mean of one value a row; it is shrunk
towards the mean of all tasks by its sampling variance, and left out where tasks do not differ by
more than chance.

References
----------
Mundlak, On the pooling of time series and cross section data, 1978: means of groups as columns.
Bonilla, Agakov, Williams, Kernel multi-task learning using task-specific features, 2007.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.dataset import Dataset
from mtboost.shrinkage import DoubleArray, excess_spread, shrunk_means

#: Standard deviations of Cochran's Q by which tasks must differ in a descriptor.
_LEAST_EXCESS = 2.0
#: Descriptors of each kind, if the user does not say how many: means of columns, covariances.
MOST_DESCRIPTORS = 8
#: Of tables with more columns only rows and labels describe the tasks.
_MOST_COLUMNS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class TaskDescriptors:
    """Columns that are constant within each task.

    Attributes
    ----------
    ranks : ndarray of float32, shape (n_tasks + 1, n_descriptors)
        Ranks 1, 2, ... of the tasks by each descriptor, as trees look at order alone. The last row
        is for tasks that are not known: the place of the mean, between two ranks.
    """

    ranks: npt.NDArray[np.float32]

    def of_rows(self, codes: npt.NDArray[np.integer[Any]] | int) -> npt.NDArray[np.float32]:
        """Values for rows of tasks, or of one; -1 is a task that is not known."""
        return np.asarray(self.ranks[codes])

    def with_task(self) -> TaskDescriptors:
        """These, and one more task, of which nothing is known."""
        return replace(self, ranks=np.concatenate([self.ranks, self.ranks[-1:]]))


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
        Labels are numbers of classes: each class is a label of its own.
    """
    weight = np.ones(data.n_rows) if data.weight is None else data.weight.astype(np.float64)
    means = _TaskMeans(data.tasks.codes, weight, data.tasks.n_tasks)
    labels = [values.astype(np.float64) for values in _labels(data, has_classes)]
    found = [means.n_rows]
    found += [each for _, each in means.different(labels)]
    if most and data.common.n_features <= _MOST_COLUMNS:
        residuals = [means.centred(values) for values in labels]
        of_columns, covariances = [], []
        for column in _columns(data):
            of_columns += means.different([column])
            centred = means.centred(column)
            covariances += means.different([centred * values for values in residuals])
        for each in (covariances, of_columns):
            each.sort(key=lambda pair: -pair[0])
            found += [values for _, values in each[:most]]
    return TaskDescriptors(np.column_stack([_ranks(values, means.n_rows) for values in found]))


class _TaskMeans:
    """Means of tasks over their rows."""

    def __init__(self, codes: npt.NDArray[Any], weight: DoubleArray, n_tasks: int) -> None:
        self._codes, self._weight, self._n_tasks = codes, weight, n_tasks
        self.n_rows = self._sums(np.ones(len(codes)))
        self._known = self.n_rows > 0.0

    def _sums(self, values: DoubleArray) -> DoubleArray:
        return np.asarray(np.bincount(self._codes, self._weight * values, self._n_tasks))

    def _means(self, values: DoubleArray) -> DoubleArray:
        return self._sums(values) / np.where(self._known, self.n_rows, 1.0)

    def centred(self, values: DoubleArray) -> DoubleArray:
        """Less the mean of the row's task."""
        return np.asarray(values - self._means(values)[self._codes])

    def different(self, columns: list[DoubleArray]) -> list[tuple[float, DoubleArray]]:
        """Shrunk means of the columns in which tasks differ, and how much more than by chance."""
        found = []
        for values in columns:
            means, rest = self._means(values), self.centred(values)
            squares = (self._weight * rest**2).sum()
            n_free = max(1.0, self.n_rows.sum() - np.count_nonzero(self._known))
            variances = squares / n_free / np.where(self._known, self.n_rows, 1.0)
            excess = excess_spread(means[self._known], variances[self._known])
            if excess > _LEAST_EXCESS:
                found.append((excess, shrunk_means(means, variances, self._known)[0]))
        return found


def _labels(data: Dataset, has_classes: bool) -> list[npt.NDArray[Any]]:
    """Labels, one column after the other."""
    labels = data.labels()
    if not has_classes:
        return [labels]
    return [labels == number for number in np.unique(labels)]


def _columns(data: Dataset) -> Iterator[DoubleArray]:
    """Common columns that vary, with standard deviation 1; a missing value is the mean."""
    table = data.common
    if table.library == "scipy":
        table = replace(table, native=table.native.tocsc())
    for name in table.feature_names or range(table.n_features):
        values = table.column(name).astype(np.float64)
        present = np.isfinite(values)
        if not present.any():
            continue
        values = np.where(present, values - values[present].mean(), 0.0)
        scale = float(values.std())
        if scale > 0.0:
            yield values / scale


def _ranks(values: DoubleArray, n_rows: DoubleArray) -> npt.NDArray[np.float32]:
    """Ranks of the tasks, equal ones of equal values, and the place of their mean."""
    different, ranks = np.unique(values, return_inverse=True)
    mean = np.average(values, weights=n_rows) if n_rows.any() else values.mean()
    place = np.searchsorted(different, mean) + 0.5
    return np.append(ranks + 1.0, place).astype(np.float32)
