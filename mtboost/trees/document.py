# SPDX-License-Identifier: Apache-2.0
"""A booster taken apart: what is done to finished trees, whichever library made them."""

from __future__ import annotations

import abc
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Int32Array
from mtboost.base.tables import Columns
from mtboost.trees.losses import TaskLoss
from mtboost.trees.nodes import Nodes
from mtboost.trees.steps import StepTree


class Unloaded(abc.ABC):
    """Trees from which a booster can be made: to make it takes longer than to train it."""

    @property
    @abc.abstractmethod
    def group(self) -> Hashable:
        """Equal for models whose boosters have the same columns."""

    @abc.abstractmethod
    def document(self) -> Document:
        """Return the booster taken apart."""

    @abc.abstractmethod
    def with_first_round(self, values: npt.NDArray[np.float32]) -> Unloaded:
        """Return the same trees after a round that is a constant for each output."""

    @abc.abstractmethod
    def scaled(self, factor: float) -> Unloaded:
        """Return the trees with all leaf values multiplied, as those of a document."""

    @abc.abstractmethod
    def dump(self) -> bytes:
        """Return the bytes from which the library loads the booster."""

    @abc.abstractmethod
    def nodes(self) -> Nodes | None:
        """Return the nodes of all trees; None if the core cannot predict with them."""


@dataclass(frozen=True, slots=True, eq=False)
class Document(abc.ABC):
    """Trees and parameters of a booster as a value: methods return new ones.

    To take a booster apart, and to load it, takes longer than what is done in between. `content` is
    the booster as the library's module assemble.py reads it.
    """

    content: Any
    # Modules of the library, with the same functions of its content.
    _assemble: ClassVar[Any]
    _nodes: ClassVar[Any]
    _resolve: ClassVar[Any]

    @classmethod
    def of(cls, booster: Any) -> Self:
        return cls(cls._assemble.read_document(booster))

    @property
    def n_outputs(self) -> int:
        n_outputs: int = self._assemble.outputs_of(self.content)
        return n_outputs

    @abc.abstractmethod
    def start_margins(self) -> npt.NDArray[np.float32]:
        """Return margins before the first tree, shape (n_outputs,); 0 where the trees hold them."""

    def load(self) -> Any:
        """Return the booster."""
        return self._assemble.load_document(self.content)

    def first_rounds(self, n_rounds: int) -> Any:
        """Return the booster of the first rounds, or of none."""
        # XGBoost 3.2 loses the names of categories when it slices.
        return self._assemble.first_rounds(self.content, n_rounds)

    @abc.abstractmethod
    def leaf_values(self) -> list[npt.NDArray[np.float64]]:
        """Return for each tree the values by number of the leaf; of inner nodes, anything."""

    @abc.abstractmethod
    def leaf_hessians(self) -> list[npt.NDArray[np.float64]]:
        """Return for each tree the sums of hessians of training, by number of the leaf."""

    def some_rounds(self, begin: int, end: int) -> Any:
        """Return the booster of the rounds `begin` to `end` - 1."""
        return self._assemble.load_document(self._assemble.rounds(self.content, begin, end))

    def nodes(self, n_added: int = 0) -> Nodes | None:
        """Return the nodes of all trees; None if the core cannot predict with them.

        `n_added` is the number of columns after those of the tables.
        """
        nodes: Nodes | None = self._nodes.nodes_of(self.content, n_added)
        return nodes

    @abc.abstractmethod
    def in_unit(self, nodes: Nodes, loss: TaskLoss, n_first: int) -> Nodes:
        """Return nodes of these trees as those of :meth:`own_rounds`, of one round or more.

        `n_first` is the number of nodes of the first tree.
        """

    @abc.abstractmethod
    def own_start(self, loss: TaskLoss) -> npt.NDArray[np.float32]:
        """Return :meth:`start_margins` of the booster that :meth:`own_rounds` returns."""

    def with_leaf_values(self, values: Sequence[npt.NDArray[np.float64]]) -> Self:
        """Return the same trees with other leaf values."""
        return replace(self, content=self._assemble.with_leaf_values(self.content, values))

    def with_first_trees(self, steps: Sequence[StepTree]) -> Self:
        """Return the trees after others of one column each, for one output."""
        return replace(self, content=self._assemble.with_first_trees(self.content, steps))

    @staticmethod
    @abc.abstractmethod
    def numbers_of_leaves(steps: StepTree) -> Int32Array:
        """Return the library's number of each leaf."""

    def for_task(self, code: int | None) -> Self:
        """Return the trees of one task, without the last column, which holds the tasks.

        None stands for an unknown task.
        """
        return replace(self, content=self._resolve.resolve_task(self.content, code))

    def for_descriptors(self, values: npt.NDArray[np.float32]) -> Self:
        """Return the trees of a task with these values in the last columns, without them."""
        return replace(self, content=self._resolve.resolve_descriptors(self.content, values))

    @abc.abstractmethod
    def own_rounds(self, n_rounds: int, loss: TaskLoss) -> Any:
        """Return the booster of the first rounds with a task's own objective.

        The document is that of a common model of tasks with different losses. Start, leaves, gains
        and hessians are those of the task's own loss.
        """

    @abc.abstractmethod
    def without_columns(self, columns: Columns, names: Collection[str]) -> Self:
        """Return trees for rows in which some columns are missing, without these columns.

        Leaves and margins of such rows are the same.
        """

    @abc.abstractmethod
    def combined(self, specific: Any, n_common_rounds: int, columns: Columns) -> Self:
        """Return the first rounds and all rounds of a booster, which may be None.

        `columns` are the task's, whose order the features have.
        """

    def followed_by_rounds(self, n_rounds: int, other: Self) -> Self:
        """Return the first rounds, then all of a document whose features are the first of these."""
        content = self._assemble.followed_by_rounds(self.content, n_rounds, other.content)
        return replace(self, content=content)

    @abc.abstractmethod
    def followed_by(self, other: Self, columns: Columns) -> Self:
        """Return all rounds of both; margins start as those of the first.

        `columns` are those of both together, whose order the features have.
        """

    @abc.abstractmethod
    def starting_at(self, start: npt.NDArray[np.float32], n_rounds: int | None = None) -> Self:
        """Return the first rounds, or all, with the same margins from another start score.

        Where the library starts all trees of a booster at one score, a round before them makes up
        for the difference.
        """

    def affine(self, slope: float, intercept: float) -> Self:
        """Return trees of one output whose margins are ``slope * margin + intercept``."""
        start = self.start_margins()
        shift = intercept + (slope - 1.0) * float(start[0])
        values = [slope * own for own in self.leaf_values()]
        if not values:
            return self.starting_at((start - shift).astype(np.float32))
        values[0] = values[0] + shift
        return self.with_leaf_values(values)

    def scaled(self, factor: float) -> Self:
        """Return the trees with all leaf values multiplied."""
        return self.with_leaf_values([factor * own for own in self.leaf_values()])
