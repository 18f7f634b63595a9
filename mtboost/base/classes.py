# SPDX-License-Identifier: Apache-2.0
"""Classes with names: labels that are texts, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import as_array
from mtboost.base.checks import listed, shown
from mtboost.errors import DataError

#: Classes that may be numbered, though they hardly repeat.
_MOST_NUMBERED = 20


def class_names(y: Any) -> tuple[str, ...] | None:
    """Return the different labels, ascending, if they are texts; None for other labels.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, 1), or mapping of task name to array-like
        Labels of any library; a column of texts may be categorical.

    Raises
    ------
    DataError
        Some labels are texts and others are not, all are equal, or they are numbers as text.
    """
    parts = (
        {f"y[{shown(name)}]": part for name, part in y.items()} if isinstance(y, Mapping) else {}
    )
    read = [_texts(part, argument) for argument, part in (parts or {"y": y}).items()]
    found = [part for part in read if part is not None]
    if not found:
        return None
    if len(found) < len(read):
        raise DataError("y has texts for some tasks and numbers for others: use one kind.")
    texts = np.concatenate(found)
    names = tuple(np.unique(texts).tolist())
    _check_are_names(names, len(texts))
    if len(names) == 1:
        raise DataError(f"y has one class only, {names[0]!r}: two are needed.")
    return names


def class_numbers(y: Any, names: Sequence[str] | None, argument: str = "y") -> Any:
    """Return the places of labels in `names`; without names the labels as they are.

    Raises
    ------
    DataError
        A label is not among `names`, or labels are numbers. Which number a user has given to a
        class is unknown: the order of `names` would often be the wrong one.
    """
    if names is None or y is None:
        return y
    if isinstance(y, Mapping):
        return {
            task: class_numbers(own, names, f"{argument}[{shown(task)}]") for task, own in y.items()
        }
    texts = _texts(y, argument)
    if texts is None:
        _check_are_no_numbers(y, names, argument)
        return y
    known = np.asarray(names)
    places = np.searchsorted(known, texts).clip(max=len(known) - 1)
    is_unknown = known[places] != texts
    if is_unknown.any():
        row = int(is_unknown.argmax())
        raise DataError(
            f"{argument} is {shown(str(texts[row]))} at row {row}, which is not a class of the "
            f"training rows. Known: {listed(list(names), 'class')}."
        )
    return places.astype(np.float64)


def _check_are_no_numbers(y: Any, names: Sequence[str], argument: str) -> None:
    """Raise DataError if labels are numbers; other mistakes are found where labels are read."""
    try:
        labels = as_array(y)
    except ValueError:
        return
    if labels.ndim == 0 or not labels.size:
        return
    found = shown(labels.reshape(-1)[0])
    raise DataError(
        f"{argument} is {found} at row 0, but the model's classes are "
        f"{', '.join(map(repr, names))}: give texts, the name of the class of each row."
    )


def _check_are_names(names: Sequence[str], n_rows: int) -> None:
    """Raise DataError if the labels are quantities that are stored as text.

    Whole numbers that repeat may be names of classes.
    """
    try:
        numbers = np.array(names).astype(np.float64)
    except ValueError:
        return
    hardly_repeat = len(names) > _MOST_NUMBERED and 2 * len(names) > n_rows
    if hardly_repeat or (numbers != np.floor(numbers)).any():
        shown_names = listed(list(names), "class")
        raise DataError(
            f"y has numbers as text, which would be the {shown_names}: convert them by "
            "y.astype(float), or give classes other names."
        )


def with_class_numbers(
    eval_set: Sequence[Any] | None, names: Sequence[str] | None
) -> Sequence[Any] | None:
    """Return validation rows, ``(X, y, ...)``, with the numbers of named classes as labels."""
    if eval_set is None or names is None or len(eval_set) < 2:
        return eval_set
    return (eval_set[0], class_numbers(eval_set[1], names, "eval_set: y"), *eval_set[2:])


def _texts(y: Any, argument: str) -> npt.NDArray[Any] | None:
    """Return labels as an array of texts, one a row; None where they are no texts."""
    if y is None:
        return None
    try:
        array = as_array(y)
    except ValueError:  # the message comes from where labels are read
        return None
    if array.ndim == 0 or array.size != len(array) or array.dtype.kind not in "OUT":
        return None
    array = array.reshape(len(array))
    if array.dtype.kind == "O":
        are_texts = np.fromiter((isinstance(each, str) for each in array), bool, len(array))
        if not are_texts.any():
            return None
        if not are_texts.all():
            row, other = int(are_texts.argmax()), int(are_texts.argmin())
            raise DataError(
                f"{argument} is {shown(array[row])} at row {row} and {shown(array[other])} at row "
                f"{other}: give every row a number, or every row the name of its class."
            )
    return array.astype(np.str_)
