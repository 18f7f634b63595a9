# SPDX-License-Identifier: Apache-2.0
"""Queries: groups of rows that are ranked against each other, each inside one task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import as_array
from mtboost.base.labels import weights_or_ones
from mtboost.base.task_tables import check_task_keys
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError

Queries = npt.NDArray[np.int64]


def as_queries(qid: Any, n_rows: int, *, argument: str = "qid") -> Queries:
    """Return the query of each row as a number from 0 on, shape (n_rows,).

    Parameters
    ----------
    qid : array-like of shape (n_rows,)
        Equal values for the rows of a query.
    n_rows : int
    argument : str
        What messages call `qid`.
    """
    if isinstance(qid, str | Mapping):
        raise DataError(
            f"{argument} is a {type(qid).__name__}: pass the query of each row, such as X['query'] "
            "(a mapping of tasks where X is one)."
        )
    labels = as_array(qid)
    if labels.shape != (n_rows,):
        raise DataError(
            f"{argument} has shape {labels.shape}, but there are {n_rows} rows: pass the query of "
            "each row. Sizes of contiguous queries become that by np.repeat(np.arange(len(sizes)), "
            "sizes)."
        )
    is_missing = np.ma.getmaskarray(labels) | np.array(labels != labels, bool)
    if is_missing.any():
        raise DataError(
            f"{argument} is missing in row {int(is_missing.argmax())}: each row needs a query."
        )
    try:
        return np.unique(labels, return_inverse=True)[1].astype(np.int64).reshape(-1)
    except TypeError:
        raise DataError(
            f"{argument} has values of different types, which cannot be sorted: pass numbers or "
            "strings."
        ) from None


def queries_of_tables(qid: Any, n_rows: Mapping[TaskName, int]) -> Queries:
    """Return the queries of tables of the tasks one after another, those of each with own numbers.

    `qid` is a mapping of task name to array-like, `n_rows` the number of rows of each table.
    """
    check_task_keys("qid", qid, n_rows)
    found: list[Queries] = []
    n_queries = 0
    for task, count in n_rows.items():
        own = as_queries(qid[task], count, argument=f"qid[{task!r}]")
        found.append(n_queries + own)
        n_queries += int(own.max(initial=-1)) + 1
    return np.concatenate(found)


def check_queries(queries: Queries, tasks: TaskSet, weight: npt.NDArray[Any] | None) -> None:
    """Raise DataError unless each query has rows of one task, and rows of one weight."""
    order = np.argsort(queries, kind="stable")
    is_same = np.diff(queries[order]) == 0
    for values, what, remedy in (
        (tasks.codes, "tasks", "number the queries of each task separately"),
        (weight, "weights", "give all rows of a query its weight"),
    ):
        if values is None:
            continue
        is_mixed = is_same & (np.diff(values[order]) != 0)
        if is_mixed.any():
            first, second = order[is_mixed.argmax() :][:2].tolist()
            raise DataError(
                f"qid: rows {first} and {second} belong to one query, but have different {what}: "
                f"{remedy}."
            )


def contiguous_order(queries: Queries) -> npt.NDArray[np.int64] | None:
    """Return an order in which rows of a query follow each other; None if they do already.

    Queries come in the order of their first rows.
    """
    n_runs = np.count_nonzero(np.diff(queries)) + min(1, len(queries))
    names, firsts, own = np.unique(queries, return_index=True, return_inverse=True)
    if n_runs == len(names):
        return None
    return np.argsort(firsts[own.reshape(-1)], kind="stable").astype(np.int64)


def ascending(queries: Queries) -> Queries:
    """Return numbers from 0 on of contiguous queries in their order."""
    return np.cumsum(np.diff(queries, prepend=queries[:1]) != 0).astype(np.int64)


def begins_of(queries: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Return the first row of each contiguous query, and last the number of rows."""
    changes = np.flatnonzero(np.diff(queries)) + 1
    firsts = [0] if len(queries) else []
    return np.concatenate([firsts, changes, [len(queries)]]).astype(np.uint32)


def queries_from(begins: npt.NDArray[Any]) -> Queries:
    """Return the number of each row's query, from the first rows of the queries."""
    sizes = np.diff(begins)
    return np.repeat(np.arange(len(sizes)), sizes)


def loss_weights(
    queries: Queries | None, weight: npt.NDArray[Any] | None, n_rows: int
) -> npt.NDArray[np.float64]:
    """Return the weight of each row in a mean of losses.

    The loss of a query counts once, at its first row; the weight of its other rows is 0.
    """
    weights = weights_or_ones(weight, n_rows)
    if queries is None:
        return weights
    found = np.zeros(n_rows)
    firsts = begins_of(queries)[:-1]
    found[firsts] = weights[firsts]
    return found
