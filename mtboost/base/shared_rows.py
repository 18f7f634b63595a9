# SPDX-License-Identifier: Apache-2.0
"""Rows that several tasks have, as where the outputs of one table are the tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.tables import Table

Keys = npt.NDArray[np.uint64]

#: Odd, with about as many bits set as not: multiplication spreads each bit over all higher ones.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HIGH_BITS = np.uint64(29)
_BLOCK = 4096  # rows whose keys stay in cache
#: Part of the rows that must occur in other tasks, and may occur twice in their own.
_MANY, _FEW = 0.05, 0.05
#: Part of the pairs of a row and a task that occur where the rows are complete, and how many may
#: then occur twice in their own task: by chance each row is in each task only where most are.
_COMPLETE, _FEW_OF_COMPLETE = 0.99, 0.5
#: Part of the rows that a panel has in several tasks, and of all its rows that it lacks in some.
_PANEL, _LACKING = 0.5, 0.1
#: Combinations of the values of features, for each that occurs, where those are objects.
_TOO_MANY = 2


def shared_rows(data: Dataset) -> npt.NDArray[np.int64] | None:
    """Number the distinct rows of features, if tasks share them.

    Equal rows of different tasks are then most likely measurements of the same object: a model that
    has seen the row in one task would look better than it is in another. Where rows repeat within a
    task, the features have few different values, and rows are equal by chance. Neither are rows
    objects that are combinations of a few values, such as a state and a sex, if most combinations
    occur and some tasks lack some of them: those are then to be predicted.

    Returns
    -------
    ndarray of int64, shape (n_rows,)
        The same number for equal rows; where rows have several labels, their number. None unless at
        least one row in 20 occurs in another task, and at most one in 20 twice in its own: one in
        two where each row occurs in each task, as objects do that have equal features. None also
        where tables differ in their number of columns, and for an incomplete panel of combinations.
    """
    if data.tasks.n_tasks == 1:
        return None
    if data.label_names is not None:
        return data.row_numbers
    tables = data.tables
    if len(tables) == 1:
        keys = _keys_of(tables[0])
    else:
        if len({table.n_features for table in tables}) > 1:
            return None
        keys = np.empty(data.n_rows, np.uint64)
        for task in data.tasks:
            keys[data.tasks.rows(task)] = _keys_of(data.task_table(task))
    groups = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    n_groups = int(groups.max()) + 1
    n_distinct = len(np.unique(groups * data.tasks.n_tasks + data.tasks.codes))
    are_shared = n_distinct - n_groups >= _MANY * data.n_rows
    most_in_own = _FEW
    if n_distinct >= _COMPLETE * n_groups * data.tasks.n_tasks:
        most_in_own = _FEW_OF_COMPLETE
    if not are_shared or n_distinct < (1.0 - most_in_own) * data.n_rows:
        return None
    if may_be_panel(groups, data.tasks.n_tasks) and _are_combinations(data, n_groups):
        return None
    return groups


def _are_combinations(data: Dataset, n_distinct: int) -> bool:
    """Whether distinct rows are more than half of all combinations of values of features.

    Of two features or more that have several values, for those of one are all combinations.
    """
    table = data.tables[0]
    if len(data.tables) > 1 or table.library == "scipy":
        return False
    n_varying, n_combinations = 0, 1
    for column in table.feature_names or range(table.n_features):
        n_values = len(np.unique(_bits(table.column(column))))
        n_varying, n_combinations = n_varying + (n_values > 1), n_combinations * n_values
        if n_combinations >= _TOO_MANY * n_distinct:
            return False
    return n_varying > 1


def may_be_panel(shared: npt.NDArray[np.int64], n_tasks: int) -> bool:
    """Return whether most rows are shared, but some are missing: outputs of a table are complete.

    Then the rows to predict may be the missing ones.
    """
    counts = np.unique(shared, return_counts=True)[1]
    is_incomplete = len(shared) < (1.0 - _LACKING) * len(counts) * n_tasks
    return bool(is_incomplete and counts[counts > 1].sum() >= _PANEL * len(shared))


def _keys_of(table: Table) -> Keys:
    """Return a number for each row, equal for equal rows."""
    if table.library == "scipy":
        rows = table.native.tocsr()
        keys = _mixed(_bits(rows.data) ^ (rows.indices.astype(np.uint64) * _SPREAD))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(keys, dtype=np.uint64)])
        return np.asarray(sums[rows.indptr[1:]] - sums[rows.indptr[:-1]])
    keys = np.zeros(table.n_rows, np.uint64)
    cells = table.numbers(np.float64)
    if cells is None:
        for column in table.feature_names or range(table.n_features):
            keys = _mixed(keys ^ _bits(table.column(column)))
        return keys
    for first in range(0, len(cells), _BLOCK):
        own = keys[first : first + _BLOCK]
        for column in np.ascontiguousarray(cells[first : first + _BLOCK].T):
            own[:] = _mixed(own ^ _bits(column))
    return keys


def _bits(values: npt.NDArray[Any]) -> Keys:
    """Return values as integers: 0 and -0 are one, and so are all NaN."""
    if values.dtype.kind not in "biuf":
        return np.fromiter(map(hash, map(str, values.tolist())), np.int64, len(values)).view(
            np.uint64
        )
    numbers = values.astype(np.float64) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint64)


def _mixed(keys: Keys) -> Keys:
    keys = keys * _SPREAD
    return keys ^ (keys >> _HIGH_BITS)
