# SPDX-License-Identifier: Apache-2.0
"""Several labels a row: each label, in each task if rows have tasks, is a task.

A row of X becomes a row for each label that is known. Tasks are named by the labels, or where rows
have tasks by tuples whose first element is the label: the label is the outermost level of nested
tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from mtboost.base.arrays import FloatArray, as_array
from mtboost.base.checks import listed
from mtboost.base.labels import as_base_margin, as_label_table, as_label_weights, as_weights
from mtboost.base.tasks import Label, TaskName, TaskSet
from mtboost.errors import DataError

LabelNames = tuple[Label, ...]


def names_of_labels(y: Any, of_array: LabelNames | None = None) -> LabelNames | None:
    """Return the names of the labels of a row; None for one label.

    Columns of an array have the names `of_array`, if these are as many, or else their positions.

    Raises
    ------
    DataError
        Two labels have one name, or names are neither all int nor all str.
    """
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, Sequence) and len(y) and isinstance(y[0], Sequence):
        shape = () if isinstance(y[0], str) else as_array(y).shape
    if shape is None or len(shape) != 2 or shape[1] < 2:
        return None
    if issparse(y):
        raise DataError(f"y is a {type(y).__name__}: labels must be dense. Pass y.toarray().")
    names = getattr(y, "column_names", getattr(y, "columns", None))
    if names is None:
        has_names = of_array is not None and len(of_array) == shape[1]
        return of_array if has_names else tuple(range(shape[1]))
    found = [name.item() if isinstance(name, np.generic) else name for name in names]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise DataError(f"y has two columns {twice!r}: labels are tasks, and need different names.")
    if len(set(map(type, found))) > 1 or not isinstance(found[0], int | str):
        raise DataError(
            f"The columns of y, {listed(found, 'label')}, must be named by str, or all by int: "
            "tasks are named by them."
        )
    return tuple(found)


def in_order_of_labels(argument: str, values: Any, names: LabelNames) -> Any:
    """Return values of all labels of rows with their columns in the order of the labels.

    Arrays, and columns of labels that have no names, are in that order already.

    Raises
    ------
    DataError
        Columns have other names than the labels.
    """
    shape: tuple[int, ...] = getattr(values, "shape", ())
    found = getattr(values, "column_names", getattr(values, "columns", None))
    if found is None or len(shape) != 2 or shape[1] != len(names) or len(names) == 1:
        return values
    own = names_of_labels(values)
    assert own is not None
    if set(own) == set(names):
        return as_array(values)[:, [own.index(name) for name in names]]
    if tuple(range(len(names))) in (names, own):  # positions, and no names
        return values
    raise DataError(
        f"{argument} has {listed(own, 'column')}, but there are {listed(names, 'label')}: "
        "name them alike, or pass an array with the columns in their order."
    )


def in_order_of_predictions(y: Any, predicted: npt.NDArray[Any], labels: LabelNames) -> Any:
    """Return true labels with their columns in the order of the predicted ones, `labels`.

    Raises
    ------
    DataError
        There are more or fewer than predicted, or they have other names.
    """
    names = names_of_labels(y)
    n_found = 1 if names is None else len(names)
    n_predicted = 1 if predicted.ndim == 1 else predicted.shape[1]
    if n_found != n_predicted:
        found, expected = ("one label" if n == 1 else f"{n} labels" for n in (n_found, n_predicted))
        raise DataError(f"y has {found} a row, but the model predicts {expected}: pass as many.")
    return y if names is None else in_order_of_labels("y", y, labels)


def values_and_known(y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return labels of any type as an array, and which of them are known."""
    values = as_array(y)
    if values.dtype.kind == "O":
        are_missing = (v is None or type(v).__name__ == "NAType" or v != v for v in values.flat)
        return values, ~np.fromiter(are_missing, bool, values.size).reshape(values.shape)
    return values, np.asarray(values == values)


def known_labels(y: Any) -> npt.NDArray[Any]:
    """Return the known labels, as an array of numbers or booleans if all of them are such."""
    values, is_known = values_and_known(y)
    known = values[is_known]
    if known.dtype.kind == "O" and all(isinstance(own, Number | np.bool_) for own in known):
        return np.array(known.tolist())
    return known


@dataclass(frozen=True, slots=True, eq=False)
class LabelRows:
    """The known labels, one after another.

    Attributes
    ----------
    tasks : TaskSet
    is_known : ndarray of bool, shape (n_rows, n_labels)
    rows : ndarray of int64, shape (n_known,)
        Row of X of each known label.
    y : ndarray of float32 or float64, shape (n_known,)
    weight, base_margin : ndarray of shape (n_known,), or None
    """

    tasks: TaskSet
    is_known: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.int64]
    y: FloatArray
    weight: FloatArray | None
    base_margin: FloatArray | None


def label_rows(
    names: LabelNames,
    y: Any,
    tasks: TaskSet | None,
    n_rows: int,
    weight: Any = None,
    base_margin: Any = None,
) -> LabelRows:
    """Return a row for each known label.

    Parameters
    ----------
    names : tuple of str or int
        See :func:`names_of_labels`.
    y : array-like of shape (n_rows, n_labels)
        NaN where a label is unknown.
    tasks : TaskSet, optional
        Tasks of the rows, if they have any.
    n_rows : int
    weight : array-like of shape (n_rows,) or (n_rows, n_labels), optional
    base_margin : array-like of shape (n_rows, n_labels), optional

    Raises
    ------
    DataError
        A shape is wrong, a label is infinite or no number, or one is unknown in all rows.
    """
    labels = as_label_table(y)
    if len(labels) != n_rows:
        raise DataError(
            f"y has shape {labels.shape}, but must have ({n_rows}, n_labels), because X has "
            f"{n_rows} rows."
        )
    is_known = ~np.isnan(labels)
    unknown = [name for name, own in zip(names, is_known.T, strict=True) if not own.any()]
    if unknown:
        raise DataError(
            f"y has the {listed(unknown, 'label')} that no row knows (all NaN): leave the column "
            "out."
        )
    column, rows = np.nonzero(is_known.T)
    weight = in_order_of_labels("weight", weight, names)
    base_margin = in_order_of_labels("base_margin", base_margin, names)
    if weight is not None:
        is_of_labels = as_array(weight).shape == labels.shape and labels.shape[1] > 1
        weight = (
            as_label_weights(weight, labels.shape) if is_of_labels else as_weights(weight, n_rows)
        )
        weight = weight[rows, column] if is_of_labels else weight[rows]
    if base_margin is not None:
        base_margin = as_base_margin(base_margin, n_rows, len(names))[rows, column]
    own = _tasks_of(names, column, tasks, rows)
    return LabelRows(own, is_known, rows, labels[rows, column], weight, base_margin)


def _tasks_of(
    names: LabelNames,
    column: npt.NDArray[np.int64],
    tasks: TaskSet | None,
    rows: npt.NDArray[np.int64],
) -> TaskSet:
    """Return the tasks of known labels, given their columns, rows, and the tasks of the rows."""
    if tasks is None:
        every: list[TaskName] = list(names)
        codes = column
    else:
        found, codes = np.unique(column * tasks.n_tasks + tasks.codes[rows], return_inverse=True)
        places = zip(*np.divmod(found, tasks.n_tasks), strict=True)
        every = [label_in_task(names[label], tasks.names[task]) for label, task in places]
    order = sorted(range(len(every)), key=every.__getitem__)
    return TaskSet(
        tuple(every[place] for place in order), np.argsort(order).astype(np.int32)[codes]
    )


def label_in_task(label: Label, task: TaskName) -> TaskName:
    """Return the name of the task of a label of rows that have a task."""
    return (label, *task) if isinstance(task, tuple) else (label, task)


def label_codes(
    names: LabelNames, known: TaskSet, tasks: TaskSet | None, n_rows: int, *, may_lack: bool
) -> npt.NDArray[np.int32]:
    """Return the code of the task of each label of each row, shape (n_rows, n_labels).

    Parameters
    ----------
    names : tuple of str or int
        Labels to predict.
    known : TaskSet
        Tasks that have codes, and groups of them.
    tasks : TaskSet, optional
        Tasks of the rows, if they have any.
    n_rows : int
    may_lack : bool
        Whether a task may be unknown: its code is that of its group, or -1.
    """
    if tasks is None:
        return np.tile(np.array([known.code(name) for name in names], np.int32), (n_rows, 1))
    codes = np.empty((n_rows, len(names)), np.int32)
    for column, label in enumerate(names):
        every = [label_in_task(label, task) for task in tasks]
        of_tasks = known.encode(every, len(every), unknown="group")
        unknown = [name for name in every if name not in known]
        if unknown and not may_lack:
            raise DataError(
                f"X has rows of unknown {listed(unknown, 'task')}: each row is predicted for each "
                f"label. Known: {listed(known.names, 'task')}. Pass unknown_task='common' to "
                "predict them with the common model."
            )
        codes[:, column] = of_tasks[tasks.codes]
    return codes


def by_task(values: Any, names: LabelNames | None, tasks: TaskSet) -> Any:
    """Return a mapping by label as one by task; anything else, and names of tasks, stay."""
    if names is None or not isinstance(values, Mapping) or tasks.n_levels == 1:
        return values
    of_labels = {
        task: values[task[0]] for task in tasks if isinstance(task, tuple) and task[0] in values
    }
    return of_labels | {name: value for name, value in values.items() if name not in names}


def labels_of(names: LabelNames, tasks: Sequence[TaskName]) -> LabelNames:
    """Return the labels that have tasks: first those of training, then those that came later."""
    found = dict.fromkeys(task[0] if isinstance(task, tuple) else task for task in tasks)
    known = [name for name in names if name in found]
    return (*known, *(name for name in found if name not in names))
