# SPDX-License-Identifier: Apache-2.0
"""Labels of tasks that have each their own: which classes a task has, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import LabelEncoder

from mtboost.base.arrays import as_array
from mtboost.base.sklearn_input import check_classes
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError


@dataclass(frozen=True, eq=False)
class TaskClasses:
    """The classes of each task.

    Made by :meth:`of`. Inside mtboost a class of a task is a number, counted through the tasks.

    Attributes
    ----------
    union : ndarray of shape (n_classes,)
        Labels of all tasks, sorted; those of different types one type after the other.
    columns : ndarray of intp, shape (n_task_classes,)
        Position in ``union`` of each class of each task; ascending within a task.
    starts : ndarray of uint32, shape (n_tasks + 1,)
        Number of the first class of each task, and the end of the last.
    """

    union: npt.NDArray[Any]
    columns: npt.NDArray[np.intp]
    starts: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, y: npt.NDArray[Any], tasks: TaskSet) -> tuple[TaskClasses, npt.NDArray[np.uint32]]:
        """The classes of the tasks, and the number of each row's.

        Parameters
        ----------
        y : ndarray of shape (n_rows,)
            Labels of any type; in an array of objects they may be of several.
        tasks : TaskSet
            Tasks of the same rows.

        Raises
        ------
        ValueError
            Labels are no classes, but fractions for example.
        """
        union, codes = _encode(y)
        pairs = tasks.codes.astype(np.int64) * len(union) + codes
        found, numbers = np.unique(pairs, return_inverse=True)
        ends = np.searchsorted(found, np.arange(tasks.n_tasks + 1) * len(union))
        classes = cls(union, (found % len(union)).astype(np.intp), ends.astype(np.uint32))
        return classes, numbers.astype(np.uint32)

    def fits(self, n_tasks: int) -> bool:
        """Whether each of `n_tasks` tasks has classes, and every class a label."""
        starts, columns = self.starts, self.columns
        return (
            self.union.ndim == columns.ndim == 1
            and starts.shape == (n_tasks + 1,)
            and starts.dtype.kind in "iu"
            and columns.dtype.kind in "iu"
            and bool(starts[0] == 0 and starts[-1] == len(columns))
            and bool((starts[1:] > starts[:-1]).all())
            and bool((columns >= 0).all() and (columns < len(self.union)).all())
        )

    def by_task(self, names: tuple[TaskName, ...]) -> Mapping[TaskName, npt.NDArray[Any]]:
        """Sorted labels of each task."""
        parts = np.split(self.union[self.columns], self.starts[1:-1])
        return dict(zip(names, parts, strict=True))


def _kind(label: Any) -> str:
    """Kind of a label's type; of all numbers the same, so that 1 and 1.0 are one class."""
    kind = np.asarray(label).dtype.kind
    return "f" if kind in "iu" else kind


def _encode(y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """All labels, and the position of each row's among them."""
    if y.dtype != object:
        check_classes(y)
        encoder = LabelEncoder().fit(y)
        return encoder.classes_, encoder.transform(y)
    kinds = np.array([_kind(label) for label in y])
    codes = np.empty(len(y), np.int64)
    classes: list[Any] = []
    for kind in sorted(set(kinds.tolist()), key=str.lower):  # numbers before text
        own = kinds == kind
        labels = as_array(y[own].tolist())
        check_classes(labels)
        encoder = LabelEncoder().fit(labels)
        codes[own] = len(classes) + encoder.transform(labels)
        classes += encoder.classes_.tolist()
    for label in classes:
        if not isinstance(label, bool | int | float | str | np.longdouble):
            raise DataError(
                f"y holds the label {label!r}: in an array of objects labels must be numbers or "
                f"strings. Give dates as an array of datetime64, or as strings."
            )
    union = np.empty(len(classes), dtype=object)
    union[:] = classes
    return union, codes
