# SPDX-License-Identifier: Apache-2.0
"""Leaf values of single tasks in all trees, collected task after task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.trees.task_values import TaskValues


@dataclass(frozen=True, slots=True, eq=False)
class ValuesByTask:
    """Leaf values of some tasks and groups, one after the other.

    Attributes
    ----------
    places : ndarray of int32, shape (n_names,)
        Place of each task or group of the trees among them; -1 of others.
    ends : ndarray of int, shape (n_places + 1,)
        Where the values of each begin, and the end of the last.
    leaf : ndarray of int64
        Number of the leaf among all nodes.
    value : ndarray of float64
    """

    places: Int32Array
    ends: npt.NDArray[np.int64]
    leaf: npt.NDArray[np.int64]
    value: Float64Array

    @classmethod
    def of(
        cls,
        values: Sequence[TaskValues],
        roots: npt.NDArray[np.integer[Any]],
        codes: Int32Array,
        n_names: int,
    ) -> ValuesByTask:
        """Return those of some of the tasks and groups, `n_names` in all.

        Parameters
        ----------
        values : sequence of TaskValues
            Of each tree.
        roots : ndarray of int, shape (n_trees,)
            Number of each tree's first leaf among all nodes.
        codes : ndarray of int32
            Of the tasks and groups, ascending.
        n_names : int
        """
        places = np.full(n_names, -1, np.int32)
        places[codes] = np.arange(len(codes))
        empty = TaskValues.none()
        parts = [(empty.task, np.empty(0, np.int64), empty.value)]
        for root, own in zip(roots.tolist(), values, strict=False):
            place = places[own.task]
            is_own = np.flatnonzero(place >= 0)
            parts.append((place[is_own], own.leaf[is_own] + root, own.value[is_own]))
        place, leaf, value = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(codes) + 1))
        return cls(places, ends, leaf[order], value[order])

    def __contains__(self, code: int) -> bool:
        return bool(self.places[code] >= 0)

    def of_code(self, code: int) -> tuple[npt.NDArray[np.int64], Float64Array]:
        """Leaves in which a task or group has values, and these."""
        place = self.places[code]
        own = slice(*self.ends[place : place + 2].tolist())
        return self.leaf[own], self.value[own]
