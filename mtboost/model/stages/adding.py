# SPDX-License-Identifier: Apache-2.0
"""Trees of many tasks, added to the margins of their rows in few calls of the core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.threads import default_n_threads
from mtboost.trees.backend import Margins
from mtboost.trees.nodes import MarginTrees

# Memory for the trees of one call of the core.
_BYTES_OF_A_CALL = 64 * 2**20
# Pairs of a row and a tree that one thread visits in about a millisecond.
_SERIAL_VISITS = 100_000

Order = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one task: places `begin` to `end` - 1 in the order by task."""

    code: int
    begin: int
    end: int


def threads_for(n_visits: int) -> int:
    return 1 if n_visits < _SERIAL_VISITS else default_n_threads(None)


def by_task(codes: npt.NDArray[np.int32]) -> tuple[Order, list[Group]]:
    """Order of the rows by task, and the rows of each task in it."""
    # NumPy sorts short integers in linear time.
    is_short = codes.max() <= np.iinfo(np.int16).max
    order = np.argsort(codes.astype(np.int16) if is_short else codes, kind="stable")
    counts = np.bincount(codes + 1)
    present, ends = np.flatnonzero(counts), np.cumsum(counts)
    return order, [
        Group(code - 1, end - n, end)
        for code, end, n in zip(
            present.tolist(), ends[present].tolist(), counts[present].tolist(), strict=True
        )
    ]


class Adding:
    """Trees that are added to the margins of rows, as many at a time as memory allows."""

    def __init__(
        self, margins: Margins, cells: npt.NDArray[np.floating], order: Order, sum_first: bool
    ) -> None:
        self._margins, self._cells, self._order = margins, cells, order
        self._sum_first = sum_first
        self._is_finite = True
        self._begin_call()

    def _begin_call(self) -> None:
        self._groups: list[Group] = []
        self._trees: list[Any] = []  # all of one type
        self._n_trees: list[int] = []
        self._n_bytes = self._n_visits = 0

    def add(self, group: Group, trees: MarginTrees, n_trees: int) -> None:
        """Add the first trees to the rows of a group, now or later."""
        if trees not in self._trees[-1:]:
            self._n_bytes += trees.n_bytes
        self._groups.append(group)
        self._trees.append(trees)
        self._n_trees.append(n_trees)
        self._n_visits += (group.end - group.begin) * n_trees
        if self._n_bytes > _BYTES_OF_A_CALL:
            self.end()

    def end(self) -> bool:
        """Add what is left; False if a value was infinite, which XGBoost refuses."""
        if self._groups:
            self._is_finite &= type(self._trees[0]).add_to(
                self._margins,
                self._cells,
                rows=self._order,
                trees=self._trees,
                n_trees=self._n_trees,
                begins=[group.begin for group in self._groups],
                ends=[group.end for group in self._groups],
                sum_first=self._sum_first,
                n_threads=threads_for(self._n_visits),
            )
            self._begin_call()
        return self._is_finite
