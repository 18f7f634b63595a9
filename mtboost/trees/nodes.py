# SPDX-License-Identifier: Apache-2.0
"""Finished trees as arrays of nodes, from which the core makes what it predicts with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.trees.monotone import leaf_bounds

MarginTrees = _core.XgboostTrees | _core.LightgbmTrees
#: Codes of categories are below, in the core and in XGBoost (cpp/core/tree/margin_trees.hpp).
MOST_CODES = 1 << 24
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TaskNodes:
    """Nodes that compare the code of the task with a list; there may be none.

    Attributes
    ----------
    nodes : ndarray of int, shape (n_nodes,)
    places, codes : ndarray of int, shape (n_listed,)
        Listed codes, and the position in `nodes` of the node that lists each.
    listed_go_left : bool
        Side of the listed tasks; the other tasks go to the other side.
    unknown_go_left : ndarray of bool, shape (n_nodes,)
        Side of a task without a code.
    """

    nodes: npt.NDArray[np.integer[Any]]
    places: npt.NDArray[np.integer[Any]]
    codes: npt.NDArray[np.integer[Any]]
    listed_go_left: bool
    unknown_go_left: _Bools

    def go_left(self, code: int) -> _Bools:
        """Whether each node sends a task to the left; -1 is a task without a code."""
        if code < 0:
            return self.unknown_go_left
        is_listed = np.zeros(len(self.nodes), bool)
        is_listed[self.places[self.codes == code]] = True
        return is_listed if self.listed_go_left else ~is_listed


NO_TASK_NODES = TaskNodes(
    nodes=np.empty(0, np.int64),
    places=np.empty(0, np.int64),
    codes=np.empty(0, np.int64),
    listed_go_left=False,
    unknown_go_left=np.empty(0, bool),
)


@dataclass(frozen=True, slots=True, eq=False)
class CategoryNodes:
    """Nodes that compare the code of a category of the table with a list; there may be none.

    Listed codes go right in XGBoost, left in LightGBM, as `_core.XgboostTrees` and
    `_core.LightgbmTrees` document.

    Attributes
    ----------
    nodes : ndarray of int64, shape (n_nodes,)
        Ascending.
    starts : ndarray of int64, shape (n_nodes + 1,)
    codes : ndarray of int32
        Those of node ``nodes[i]`` are ``codes[starts[i]:starts[i + 1]]``.
    """

    nodes: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    codes: Int32Array

    def of(self, node: int) -> list[int] | None:
        """Codes that a node lists; None if it compares with a threshold."""
        at = int(np.searchsorted(self.nodes, node))
        if at == len(self.nodes) or self.nodes[at] != node:
            return None
        listed: list[int] = self.codes[self.starts[at] : self.starts[at + 1]].tolist()
        return listed


def divide(
    nodes: npt.NDArray[np.integer[Any]],
    places: npt.NDArray[np.integer[Any]],
    codes: npt.NDArray[np.integer[Any]],
    are_tasks: _Bools,
    *,
    listed_go_left: bool,
    unknown_go_left: _Bools,
) -> tuple[TaskNodes, CategoryNodes]:
    """Return the nodes that compare with lists by what they list: tasks, or categories of a table.

    Parameters
    ----------
    nodes : ndarray of int, shape (n_nodes,)
        Ascending.
    places, codes : ndarray of int, shape (n_listed,)
        Listed codes, and the position in `nodes` of the node that lists each, ascending.
    are_tasks : ndarray of bool, shape (n_nodes,)
    listed_go_left, unknown_go_left
        As in :class:`TaskNodes`, of all nodes.
    """
    number = np.where(are_tasks, np.cumsum(are_tasks), np.cumsum(~are_tasks)) - 1
    list_tasks, number = are_tasks[places], number[places]
    of_tasks = TaskNodes(
        nodes[are_tasks],
        number[list_tasks],
        codes[list_tasks],
        listed_go_left,
        unknown_go_left[are_tasks],
    )
    others = nodes[~are_tasks]
    starts = np.searchsorted(number[~list_tasks], np.arange(len(others) + 1))
    of_categories = CategoryNodes(
        others.astype(np.int64), starts.astype(np.int64), codes[~list_tasks].astype(np.int32)
    )
    return of_tasks, of_categories


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes of all trees of a booster, numbered together.

    Attributes
    ----------
    roots : ndarray of int32, shape (n_trees,)
        Tree i of a round belongs to output i.
    first_leaves : ndarray of int64, shape (n_trees,)
        Node that would be leaf 0 of each tree, as the library numbers leaves.
    left, right : ndarray of int32, shape (n_nodes,)
        Children; -1 of a leaf.
    feature : ndarray of uint32, shape (n_nodes,)
    threshold, value : ndarray of float32 (XGBoost) or float64 (LightGBM), shape (n_nodes,)
        Leaves have values, other nodes thresholds: what `_core.XgboostTrees` and
        `_core.LightgbmTrees` document.
    default_left : ndarray of uint8, shape (n_nodes,)
    task_nodes : TaskNodes
    category_nodes : CategoryNodes
    n_features, n_outputs : int
    """

    roots: Int32Array
    first_leaves: npt.NDArray[np.int64]
    left: Int32Array
    right: Int32Array
    feature: npt.NDArray[np.uint32]
    threshold: npt.NDArray[np.floating[Any]]
    value: npt.NDArray[np.floating[Any]]
    default_left: npt.NDArray[np.uint8]
    task_nodes: TaskNodes
    category_nodes: CategoryNodes
    n_features: int
    n_outputs: int

    @property
    def n_bytes(self) -> int:
        own = self.category_nodes
        arrays = [getattr(self, name) for name in self.__dataclass_fields__]
        arrays += [own.nodes, own.starts, own.codes]
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))

    @property
    def n_first(self) -> int:
        """Number of nodes of the first tree."""
        return int(self.roots[1]) if len(self.roots) > 1 else len(self.left)

    def of_first_trees(self, n_trees: int) -> Nodes:
        """The nodes with the roots of some trees alone."""
        return replace(self, roots=self.roots[:n_trees], first_leaves=self.first_leaves[:n_trees])

    def with_values(self, values: Float64Array) -> Nodes:
        """The same nodes with other values, one a node."""
        return replace(self, value=values.astype(self.value.dtype))

    def bounds(
        self, tree: int, pooled: npt.NDArray[Any], signs: Sequence[int]
    ) -> tuple[Float64Array, Float64Array]:
        """Return the bounds of the leaves of a tree, as the library numbers them.

        `pooled` are the values of its leaves, `signs` the monotone constraints.
        """
        begin = int(self.roots[tree])
        end = int(self.roots[tree + 1]) if tree + 1 < len(self.roots) else len(self.left)
        first_leaf, own = int(self.first_leaves[tree]) - begin, slice(begin, end)
        value = np.zeros(end - begin)
        value[first_leaf : first_leaf + len(pooled)] = pooled
        low, high = leaf_bounds(
            self.left[own] - begin, self.right[own] - begin, self.feature[own], value, signs
        )
        leaves = slice(first_leaf, first_leaf + len(pooled))
        return low[leaves], high[leaves]

    def for_task(self, code: int) -> Nodes:
        """The nodes of one task, without the last column, which holds the code of the task."""
        nodes, go_left = self.task_nodes.nodes, self.task_nodes.go_left(code)
        return self._resolved(nodes, go_left, self.n_features - 1)

    def for_descriptors(self, values: npt.NDArray[np.float32]) -> Nodes:
        """The nodes of a task that has these values in the last columns, without these columns."""
        kept = self.n_features - len(values)
        nodes = np.flatnonzero((self.left >= 0) & (self.feature >= kept))
        own, threshold = values[self.feature[nodes] - kept], self.threshold[nodes]
        is_xgboost = self.threshold.dtype == np.float32
        return self._resolved(nodes, own < threshold if is_xgboost else own <= threshold, kept)

    def _resolved(
        self, nodes: npt.NDArray[np.integer[Any]], go_left: _Bools, n_features: int
    ) -> Nodes:
        """Lead what leads to some nodes to the child that their rows reach."""
        goes_to = np.arange(len(self.left), dtype=np.int32)
        goes_to[nodes] = np.where(go_left, self.left[nodes], self.right[nodes])
        while len(nodes):  # a child may be such a node, too: each pass doubles the steps
            further = goes_to[goes_to[nodes]]
            if np.array_equal(further, goes_to[nodes]):
                break
            goes_to[nodes] = further
        is_leaf = self.left < 0
        return replace(
            self,
            roots=goes_to[self.roots],
            left=np.where(is_leaf, np.int32(-1), goes_to[self.left]),
            right=np.where(is_leaf, np.int32(-1), goes_to[self.right]),
            n_features=n_features,
        )

    def trees(self) -> MarginTrees:
        """The trees as the core predicts with them."""
        make: Callable[..., MarginTrees] = (
            _core.XgboostTrees if self.value.dtype == np.float32 else _core.LightgbmTrees
        )
        return make(
            roots=self.roots,
            left=self.left,
            right=self.right,
            feature=self.feature,
            threshold=self.threshold,
            default_left=self.default_left,
            value=self.value,
            n_features=self.n_features,
            n_outputs=self.n_outputs,
            category_nodes=self.category_nodes.nodes,
            category_starts=self.category_nodes.starts,
            categories=self.category_nodes.codes,
        )
