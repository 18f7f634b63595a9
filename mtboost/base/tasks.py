# SPDX-License-Identifier: Apache-2.0
"""Tasks of rows.

A task is known by its name, the label its rows carry. Names keep the type the user gave them (int,
str or bool) and are sorted; inside mtboost a task is its position in that order, its *code*. The
name of a nested task is a tuple, (region, store), and its groups are the shorter tuples, (region,).
"""

import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import as_array
from mtboost.base.checks import did_you_mean, listed
from mtboost.errors import DataError, ParameterError

Label: TypeAlias = int | str | bool
#: The labels of all levels for a nested task, outermost first.
TaskName: TypeAlias = Label | tuple[Label, ...]

#: Name of the only task when the user gives none.
ONLY_TASK = "all"

_MOST_DIGITS = sys.int_info.default_max_str_digits
_TOO_LARGE = 10**_MOST_DIGITS


@dataclass(frozen=True, eq=False)
class TaskSet:
    """The tasks of a data set and the task of each of its rows.

    Made by :meth:`from_labels`; iterates over the names.

    Attributes
    ----------
    names : tuple of int, str or bool, or of tuples of them
        Sorted, all of one type, or of one type at each level.
    codes : ndarray of int32, shape (n_rows,)
        Position of each row's task in ``names``. Read-only.
    """

    names: tuple[TaskName, ...]
    codes: npt.NDArray[np.int32]

    @classmethod
    def from_labels(cls, labels: Any, n_rows: int) -> "TaskSet":
        """Read one label a row.

        Parameters
        ----------
        labels : array-like of shape (n_rows,) or (n_rows, 1), or None
            int, str or bool; a list, NumPy array, or a column of pandas, polars or pyarrow. Whole
            floats count as int, because that is what an integer column of a float matrix looks
            like. Nested tasks have a tuple a row, such as (region, store). None puts all rows into
            one task, named ``"all"``.
        n_rows : int
            Number of rows of X.

        Returns
        -------
        TaskSet
            Only tasks that have a row; an unused category of a categorical column is not a task.

        Raises
        ------
        DataError
            A label is missing, labels of several types are mixed, or their number is not
            ``n_rows``.
        """
        if labels is None:
            return cls((ONLY_TASK,), _read_only(np.zeros(n_rows, dtype=np.int32)))
        is_plain = type(labels) is np.ndarray and labels.dtype.kind in "iu"
        if is_plain and labels.shape == (n_rows,) and n_rows > 0:
            return cls._from_integers(labels)
        values = _checked_labels(labels, n_rows)
        # Hashing keeps the names' Python types and is faster than np.unique, which sorts a million
        # strings.
        names = tuple(sorted(set(values)))
        check_digits([names[0], names[-1]] if names else [])
        code_of = {name: code for code, name in enumerate(names)}
        codes = np.fromiter(map(code_of.__getitem__, values), dtype=np.int32, count=n_rows)
        return cls(names, _read_only(codes))

    @classmethod
    def _from_integers(cls, labels: npt.NDArray[np.integer[Any]]) -> "TaskSet":
        least, most = int(labels.min()), int(labels.max())
        if most - least > 4 * len(labels):
            found, codes = np.unique(labels, return_inverse=True)
            names = tuple(found.tolist())
        else:  # counting is faster than sorting
            signed = labels.astype(np.int64) if least < 0 else labels
            offsets = (signed - least).astype(np.int64)
            is_present = np.bincount(offsets) > 0
            names = tuple(least + offset for offset in np.flatnonzero(is_present).tolist())
            codes = (np.cumsum(is_present) - 1)[offsets]
        return cls(names, _read_only(codes.astype(np.int32)))

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.names)

    @property
    def n_levels(self) -> int:
        """Number of labels in a name: 1 unless tasks are nested."""
        name = self.names[0] if self.names else ONLY_TASK
        return len(name) if isinstance(name, tuple) else 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each task, in the order of ``names``; shape (n_tasks,), read-only."""
        return _read_only(np.bincount(self.codes, minlength=self.n_tasks).astype(np.int64))

    def __len__(self) -> int:
        return self.n_tasks

    def __iter__(self) -> Iterator[TaskName]:
        return iter(self.names)

    def __contains__(self, task: object) -> bool:
        return task in self._code_of

    def code(self, task: TaskName) -> int:
        """Position of a task in ``names``; DataError with the known names if it is unknown."""
        try:
            return self._code_of[task]
        except (KeyError, TypeError):
            raise DataError(f"task {task!r} is unknown. {self._known(task)}") from None

    def codes_of_rows(self, other: "TaskSet") -> npt.NDArray[np.int32]:
        """Codes, in this set, of the rows of another; DataError for a task that is not in it."""
        return np.array([self.code(name) for name in other.names], np.int32)[other.codes]

    def rows(self, task: TaskName) -> npt.NDArray[np.int64]:
        """Ascending indices of the rows of one task; read-only."""
        code = self.code(task)
        end = self._ends[code]
        return self._rows_by_task[end - self.counts[code] : end]

    def rows_by_code(
        self, codes: npt.NDArray[np.integer[Any]]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows of some tasks, one task after the other, and where each begins and the last ends."""
        counts = self.counts[codes]
        first_rows = np.concatenate([[0], np.cumsum(counts)])
        shift = (self._ends[codes] - counts) - first_rows[:-1]
        return self._rows_by_task[np.arange(first_rows[-1]) + np.repeat(shift, counts)], first_rows

    def rows_of(self, tasks: Iterable[TaskName]) -> npt.NDArray[np.int64]:
        """Ascending indices of the rows of some tasks, of those that have any."""
        codes = [self.code(task) for task in tasks if task in self]
        return np.flatnonzero(np.isin(self.codes, codes))

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> "TaskSet":
        """The tasks of some rows, those without any left out."""
        present, codes = np.unique(self.codes[rows], return_inverse=True)
        names = tuple(self.names[code] for code in present)
        return TaskSet(names, _read_only(codes.astype(np.int32)))

    def encode(
        self,
        labels: Any,
        n_rows: int,
        *,
        unknown: Literal["error", "keep", "group"] = "error",
        remedy: str = "Pass unknown_task='common' to predict such rows with the common model.",
    ) -> npt.NDArray[np.int32]:
        """Codes of the labels of other rows, as needed to predict.

        Parameters
        ----------
        labels : array-like of shape (n_rows,) or (n_rows, 1), or None
            As in :meth:`from_labels`. None is allowed when there is one task only.
        n_rows : int
            Number of rows of X.
        unknown : {"error", "keep", "group"}
            What to do with a label that is not a name of this set: refuse it, or give it the code
            -1, or that of its innermost group whose name is in this set.
        remedy : str
            End of the message of an unknown label.

        Returns
        -------
        ndarray of int32, shape (n_rows,)

        Raises
        ------
        DataError
            As :meth:`from_labels`; or a label is unknown (some known names are listed), and is to
            be refused, or would be a name were it of another type.
        """
        if unknown not in ("error", "keep", "group"):
            raise ParameterError(f"unknown is {unknown!r}; it must be 'error', 'keep' or 'group'.")
        if labels is None:
            if self.n_tasks > 1:
                raise DataError(f"task is missing: pass one label a row. {self._known(None)}")
            return np.zeros(n_rows, dtype=np.int32)
        codes = self._codes_of_integers(labels, n_rows)
        if codes is None:
            values = _checked_labels(labels, n_rows)
            self.check_types(values)
            code_of = self._code_of_group if unknown == "group" else self._code_of.get
            codes = np.fromiter((code_of(v, -1) for v in values), np.int32, count=n_rows)
        if unknown == "error" and n_rows and codes.min() < 0:
            row = int(codes.argmin())
            label = _checked_labels(labels, n_rows)[row]
            check_digits([label])
            raise DataError(
                f"task label {label!r} at row {row} is unknown. {self._known(label)} {remedy}"
            )
        return codes

    def check_types(self, labels: Sequence[TaskName]) -> None:
        """Raise DataError at a label that would be a name, were it of another type: "3" for 3.

        It is a mistake also where unknown tasks are allowed. All labels must be of one type.
        """
        if not labels or _types_of(labels[0]) == _types_of(self.names[0]):
            return
        names = {_text_of(name): name for name in self.names}
        for label in set(labels).difference(self._code_of):
            name = names.get(_text_of(label))
            if isinstance(name, tuple) and not isinstance(label, tuple):
                raise DataError(
                    f"task label {label!r} is not nested, but the tasks are: pass tuples, such as "
                    f"{self.names[0]!r}."
                )
            if name is not None:
                raise DataError(
                    f"task label {label!r} is unknown, but there is a task {name!r}: convert the "
                    f"labels, which are of type {', '.join(_types_of(label))}, to "
                    f"{', '.join(_types_of(name))}."
                )

    def _code_of_group(self, label: TaskName, default: int) -> int:
        """Code of a task or of its innermost group, if one of them is in this set."""
        name = nearest(label, self._code_of)
        return default if name is None else self._code_of[name]

    def _codes_of_integers(self, labels: Any, n_rows: int) -> npt.NDArray[np.int32] | None:
        """Codes of an array of integers by position in a table, if the names are close together."""
        is_plain = type(labels) is np.ndarray and labels.dtype.kind in "iu"
        if not is_plain or labels.shape != (n_rows,) or self._code_by_offset is None:
            return None
        if n_rows == 1:
            return np.array([self._code_of.get(int(labels[0]), -1)], np.int32)
        first, code_by_offset = self._code_by_offset
        is_inside = (labels >= first) & (labels < first + len(code_by_offset))
        if is_inside.all():
            found: npt.NDArray[np.int32] = code_by_offset[labels.astype(np.int64) - first]
            return found
        codes = np.full(n_rows, -1, np.int32)
        codes[is_inside] = code_by_offset[labels[is_inside].astype(np.int64) - first]
        return codes

    @cached_property
    def _code_by_offset(self) -> tuple[int, npt.NDArray[np.int32]] | None:
        """The least name and the codes by distance from it, -1 without a task; None if too long."""
        if not self.names or type(self.names[0]) is not int:
            return None
        integers = [name for name in self.names if isinstance(name, int)]
        least, most = min(integers), max(integers)
        if most - least > 4 * len(self.names) + 1000 or max(-least, most) >= 2**62:
            return None
        codes = np.full(most - least + 1, -1, np.int32)
        for code, name in enumerate(integers):
            codes[name - least] = code
        return least, codes

    @cached_property
    def _code_of(self) -> dict[TaskName, int]:
        return {name: code for code, name in enumerate(self.names)}

    @cached_property
    def _rows_by_task(self) -> npt.NDArray[np.int64]:
        """All rows, task after task; the stable sort keeps those of one task ascending."""
        return _read_only(np.argsort(self.codes, kind="stable").astype(np.int64, copy=False))

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        return np.cumsum(self.counts)

    def _known(self, task: object) -> str:
        return f"Known: {listed(self.names, 'task')}.{did_you_mean(task, self.names)}"


def as_name(task: object) -> Any:
    """Return a name in which scalars of NumPy, also in a tuple, have become Python's."""
    if isinstance(task, tuple):
        return tuple(map(as_name, task))
    return task.item() if isinstance(task, np.generic) else task


def _types_of(task: TaskName) -> tuple[str, ...]:
    """Type of a name, of a nested task that of its label at each level."""
    return tuple(type(label).__name__ for label in _levels_of(task))


def _text_of(task: TaskName) -> tuple[str, ...]:
    return tuple(map(str, _levels_of(task)))


def _levels_of(task: TaskName) -> tuple[Label, ...]:
    name = as_name(task)
    return name if isinstance(name, tuple) else (name,)


def groups_of(name: TaskName) -> list[TaskName]:
    """Groups that a task or group belongs to, outermost first."""
    return [name[:n] for n in range(1, len(name))] if isinstance(name, tuple) else []


def nearest(name: TaskName, known: Container[TaskName]) -> TaskName | None:
    """Return a task if it is known, or else the innermost group of it that is."""
    return next((each for each in (name, *reversed(groups_of(name))) if each in known), None)


def as_tasks(task: Any, n_rows: int | None = None) -> TaskSet:
    """Return the tasks of rows that are given as such, or as one label a row."""
    if isinstance(task, TaskSet):
        return task
    return TaskSet.from_labels(task, _n_labels(task) if n_rows is None else n_rows)


def check_digits(names: Iterable[object]) -> None:
    """Raise DataError for an integer so long that Python writes it in no message and no file."""
    labels = (label for name in names for label in (name if isinstance(name, tuple) else (name,)))
    if any(isinstance(label, int) and abs(label) >= _TOO_LARGE for label in labels):
        raise DataError(
            f"A task is named by an integer of more than {_MOST_DIGITS} digits, which Python does "
            f"not write as text: use shorter integers, or str labels."
        )


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


def _checked_labels(labels: Any, n_rows: int) -> list[Any]:
    """One Python int, str or bool a row, all of one type, or a tuple of them."""
    values = _as_list(labels)
    if len(values) != n_rows:
        raise DataError(f"task has {len(values)} labels, but X has {n_rows} rows: pass one a row.")
    types = set(map(type, values))
    if any(issubclass(kind, np.generic) for kind in types):
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        types = set(map(type, values))
    if types <= {int} or types <= {str} or types <= {bool}:
        return values
    if types == {tuple}:
        return _checked_tuples(values)

    first_row: dict[type, int] = {}
    for row, value in enumerate(values):
        if _is_missing(value):
            raise DataError(
                f"task has no label at row {row} (found {value!r}): drop the row or give it a task."
            )
        first_row.setdefault(type(value), row)
    if types <= {int, float}:
        for row, value in enumerate(values):
            if isinstance(value, float) and not value.is_integer():
                raise DataError(
                    f"task label {value!r} at row {row} is not a whole number: use int or str "
                    "labels."
                )
        return [int(value) for value in values]
    found = " and ".join(
        f"{kind.__name__} (row {row}: {values[row]!r})" for kind, row in first_row.items()
    )
    raise DataError(
        f"task labels must be all int, all str or all bool, found {found}: "
        f"convert them, for example with [str(label) for label in task]."
    )


def _checked_tuples(values: list[tuple[Any, ...]]) -> list[Any]:
    """Names of nested tasks: tuples of one length, with labels of one type at each level."""
    n_levels = len(values[0])
    for row, value in enumerate(values):
        if len(value) != n_levels or n_levels < 2 or any(isinstance(own, tuple) for own in value):
            raise DataError(
                f"task label {value!r} at row {row} has {len(value)} levels: labels of nested "
                f"tasks must be tuples of one length, of at least 2, such as (region, store)."
            )
    levels = (_checked_labels(list(level), len(values)) for level in zip(*values, strict=True))
    return list(zip(*levels, strict=True))


def _n_labels(labels: Any) -> int:
    try:
        return len(labels)
    except TypeError:  # None, a number, a generator
        return len(_as_list(labels))  # raises


def ranks_in_tasks(codes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Number of each row, or query, among those of its task, from the codes of their tasks."""
    counts = np.bincount(codes)
    ranks = np.empty(len(codes), np.int64)
    ranks[np.argsort(codes, kind="stable")] = np.arange(len(codes)) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    return ranks


def _as_list(labels: Any) -> list[Any]:
    # A list is taken as it is: NumPy would turn [1, "a"] into two strings.
    if isinstance(labels, list | tuple):
        return list(labels)
    array = as_array(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"task must be one label a row, found {type(labels).__name__} of shape {array.shape}. "
            "Nested tasks are tuples, [(region, store), ...], or columns of X by their names."
        )
    check_type_of_labels("task", array)
    return list(array.tolist())


def check_type_of_labels(what: str, values: npt.NDArray[Any]) -> None:
    """Raise DataError for an array of dates, bytes or others that name no task."""
    if values.dtype.kind not in "biufUTO":
        raise DataError(f"{what} has dtype {values.dtype}: labels must be int, str or bool.")


def _is_missing(value: object) -> bool:
    """None, NaN, and the missing values of pandas, which must not be compared with themselves."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value
