# SPDX-License-Identifier: Apache-2.0
"""Rows of Dask collections, partition by partition, and what is known of all of them together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask
import dask.array
import dask.dataframe
import numpy as np
import numpy.typing as npt
import scipy.sparse

from mtboost.base.arrays import as_array
from mtboost.base.checks import did_you_mean, listed
from mtboost.base.dataset import split_task_column
from mtboost.base.labels import as_labels, as_nonnegative
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError
from mtboost.model.inputs.checked_rows import Units

#: Different labels of which all are collected: more are no classes.
_MOST_LABELS = 10_000

_Collection = Any  # dask.dataframe.DataFrame or Series, dask.array.Array


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of the rows: those of a partition, or those of a worker.

    Attributes
    ----------
    X : pandas DataFrame or ndarray
    rows : dict of str to ndarray
        What else belongs to the rows, by the name of the argument: "y", "task", "weight",
        "base_margin".
    """

    X: Any
    rows: Mapping[str, npt.NDArray[Any]]

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    def take(self, places: npt.NDArray[np.int64]) -> Chunk:
        """Return some of the rows."""
        X = self.X.iloc[places] if hasattr(self.X, "iloc") else self.X[places]
        return Chunk(X, {name: values[places] for name, values in self.rows.items()})

    def tasks(self, task: Any) -> TaskSet:
        """Return the tasks of the rows; `task` names their column of X, unless they are apart."""
        labels = self.rows.get("task")
        if labels is None:
            labels = split_task_column(self.X, task, used=())[1]
        return TaskSet.from_labels(labels, self.n_rows)


def joined(chunks: Sequence[Chunk | None]) -> Chunk | None:
    """Return the rows of several chunks, in their order; None if there are none."""
    found = [chunk for chunk in chunks if chunk is not None]
    if not found:
        return None
    first = found[0]
    if hasattr(first.X, "iloc"):
        import pandas

        X = pandas.concat([chunk.X for chunk in found], ignore_index=True)
    else:
        X = np.concatenate([chunk.X for chunk in found])
    rows = {name: np.concatenate([chunk.rows[name] for chunk in found]) for name in first.rows}
    return Chunk(X, rows)


# ---- collections ---------------------------------------------------------------------------------


def delayed_chunks(
    X: _Collection, rows: Mapping[str, _Collection | None], where: str = ""
) -> list[Any]:
    """Return the partitions as delayed :class:`Chunk`.

    Parameters
    ----------
    X : dask DataFrame or Array
    rows : mapping of str to dask Series or Array, or None
        By the name of the argument; None is not given.
    where : str
        What messages begin with.

    Raises
    ------
    TypeError
        A value is not a Dask collection.
    DataError
        There are different numbers of partitions, or X has a column of text.
    """
    columns = list(X.columns) if isinstance(X, dask.dataframe.DataFrame) else None
    make = dask.delayed(make_chunk, pure=False)
    return [
        make(table, columns, number, **own)
        for number, (table, own) in enumerate(delayed_partitions(X, rows, where))
    ]


def delayed_partitions(
    X: _Collection, rows: Mapping[str, _Collection | None], where: str = ""
) -> list[tuple[Any, dict[str, Any]]]:
    """Return the partitions of X, each with those of what else belongs to the rows, delayed.

    Takes the parameters, and raises the errors, of :func:`delayed_chunks`.
    """
    if not isinstance(X, dask.dataframe.DataFrame | dask.array.Array):
        raise TypeError(
            f"{where}X is a {_type_name(X)}: give a Dask DataFrame or Array, such as "
            "dask.dataframe.from_pandas(X, npartitions=8), or use mtboost on one machine."
        )
    if X.ndim != 2:
        raise DataError(f"{where}X has {X.ndim} axes: a table has rows and columns.")
    if isinstance(X, dask.array.Array):
        X = X.rechunk({1: -1})
    tables = _partitions(X)
    by_name = {}
    for name, values in rows.items():
        if values is None:
            continue
        check_collection(where + name, values)
        by_name[name] = _partitions(_with_chunks_of(X, values))
        if len(by_name[name]) != len(tables):
            raise DataError(
                f"{where}{name} has {len(by_name[name])} partitions, and X has {len(tables)}: give "
                "both the same, for example by making them columns of one DataFrame."
            )
    return [
        (table, {name: own[number] for name, own in by_name.items()})
        for number, table in enumerate(tables)
    ]


def check_collection(argument: str, values: object) -> None:
    """Raise TypeError unless the values are a Dask Series or Array."""
    if not isinstance(values, dask.dataframe.Series | dask.array.Array):
        raise TypeError(
            f"{argument} is a {_type_name(values)}: give a Dask Series or Array, with the "
            "partitions of X."
        )


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _with_chunks_of(X: _Collection, values: _Collection) -> _Collection:
    """Return an array with the rows of X in each chunk, where their numbers are known."""
    if not isinstance(values, dask.array.Array):
        return values
    if values.ndim == 2:
        values = values.rechunk({1: -1})
    are_known = (
        isinstance(X, dask.array.Array) and not np.isnan([*X.chunks[0], *values.shape]).any()
    )
    if are_known and X.shape[0] == values.shape[0]:
        values = values.rechunk({0: X.chunks[0]})
    return values


def _partitions(values: _Collection) -> list[Any]:
    if isinstance(values, dask.array.Array):
        return list(np.ravel(values.to_delayed()))
    # Whole optimisation would read small files together, fewer of those of many columns: columns of
    # one table would then differ in partitions. This much of it still reads these columns alone.
    return list(values.simplify().to_delayed(optimize_graph=False))


def check_has_columns(X: _Collection, columns: Mapping[str, object]) -> None:
    """Raise DataError unless X has the columns that arguments name."""
    if not isinstance(X, dask.dataframe.DataFrame):
        return
    names = list(map(str, X.columns))
    for argument, name in columns.items():
        if isinstance(name, str) and name not in names:
            raise DataError(
                f"{argument} is {name!r}, but X has no such column.{did_you_mean(name, names)} It "
                f"has {listed(names, 'column')}."
            )


def check_no_text(X: _Collection, exempt: Collection[object], where: str = "") -> None:
    """Raise DataError for columns whose categories the workers would not agree on."""
    if not isinstance(X, dask.dataframe.DataFrame):
        return
    types = {name: kind for name, kind in X.dtypes.items() if name not in exempt}
    text = [str(name) for name, kind in types.items() if str(kind).startswith(("object", "str"))]
    unknown = [
        str(name)
        for name, kind in types.items()
        if str(kind) == "category" and not X[name].cat.known
    ]
    if text or unknown:
        raise DataError(
            f"{where}X has {listed(text or unknown, 'column')} of "
            f"{'text' if text else 'categories that Dask does not know yet'}, which each worker "
            f"would number in its own way: X = X.categorize(columns={(text or unknown)[:3]!r})."
        )


def make_chunk(X: Any, columns: list[Any] | None, number: int, **rows: Any) -> Chunk:
    """Return the checked rows of a partition."""
    try:
        if columns is not None and list(X.columns) != columns:
            missing = [name for name in columns if name not in X.columns]
            added = [name for name in X.columns if name not in columns]
            raise DataError(
                f"X has other columns than Dask knows of, without {missing} and with {added}. Give "
                "all partitions the same columns in the same order."
            )
        if scipy.sparse.issparse(X):
            raise DataError(
                "X is a SciPy matrix, which Dask cannot join: make the partitions dense, such as "
                "by X.map_blocks(lambda block: block.toarray()), or pass a matrix to mtboost.fit."
            )
        n_rows = int(X.shape[0])
        arrays = {name: as_array(values) for name, values in rows.items()}
        for name, values in arrays.items():
            if len(values) != n_rows:
                raise DataError(f"{name} has {len(values)} rows, X has {n_rows}.")
        arrays["y"] = as_labels(arrays["y"], n_rows)
        if "weight" in arrays:
            arrays["weight"] = as_nonnegative(arrays["weight"], n_rows, argument="weight")
    except DataError as error:
        raise in_partition(number, error) from None
    return Chunk(X, arrays)


def in_partition(number: int, error: DataError) -> DataError:
    """Return an error that also says in which partition it was found."""
    return DataError(f"Partition {number} of X, rows counted there: {error}")


# ---- all rows together ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of rows without having them.

    Attributes
    ----------
    n_rows : int
    tasks : dict of task name to int
        Rows of each task.
    weights : dict of task name to float
        Their total weight.
    labels : ndarray
        The different labels, ascending; of very many the least and the largest.
    units : Units
        Sums by which the units of weights and labels are judged.
    row : Any
        One row of X.
    """

    n_rows: int
    tasks: dict[TaskName, int]
    weights: dict[TaskName, float]
    labels: npt.NDArray[np.floating[Any]]
    units: Units
    row: Any


def summarise(chunk: Chunk, number: int, task: Any) -> Summary | None:
    """Return what is to be known of a partition; None if it is empty."""
    if not chunk.n_rows:
        return None
    try:
        tasks = chunk.tasks(task)
    except DataError as error:
        raise in_partition(number, error) from None
    weights = np.bincount(tasks.codes, chunk.rows.get("weight"), tasks.n_tasks)
    return Summary(
        chunk.n_rows,
        dict(zip(tasks.names, tasks.counts.tolist(), strict=True)),
        dict(zip(tasks.names, weights.tolist(), strict=True)),
        _different(chunk.rows["y"]),
        Units.of(chunk.rows["y"], chunk.rows.get("weight")),
        chunk.take(np.zeros(1, np.int64)).X,
    )


def together(parts: Sequence[Summary | None]) -> Summary:
    """Return the summary of all partitions; the tasks are sorted."""
    found = [part for part in parts if part is not None]
    if not found:
        raise DataError("X has no rows in any partition.")
    tasks: dict[TaskName, int] = {}
    weights: dict[TaskName, float] = {}
    for part in found:
        for name, n_rows in part.tasks.items():
            tasks[name] = tasks.get(name, 0) + n_rows
            weights[name] = weights.get(name, 0.0) + part.weights[name]
    kinds = {type(name).__name__ for name in tasks}
    if len(kinds) > 1:
        raise DataError(
            f"task has labels of several types, {', '.join(sorted(kinds))}, in different "
            "partitions: convert them to one, such as str."
        )
    names = sorted(tasks)
    return Summary(
        sum(part.n_rows for part in found),
        {name: tasks[name] for name in names},
        {name: weights[name] for name in names},
        _different(np.concatenate([part.labels for part in found])),
        sum((part.units for part in found), Units()),
        found[0].row,
    )


def _different(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    found = np.unique(labels)
    half = _MOST_LABELS // 2
    return found if len(found) <= _MOST_LABELS else np.concatenate([found[:half], found[-half:]])
