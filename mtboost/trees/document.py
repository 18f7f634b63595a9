# SPDX-License-Identifier: Apache-2.0
"""A booster taken apart: what is done to finished trees, whichever library made them."""

from __future__ import annotations

import abc
from collections.abc import Collection, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mtboost.base.tables import Columns
from mtboost.trees.losses import TaskLoss
from mtboost.trees.nodes import Nodes


class Document(abc.ABC):
    """Trees and parameters of a booster as a value: methods return new ones.

    To take a booster apart, and to load it, takes longer than what is done in between.
    """

    @property
    @abc.abstractmethod
    def n_outputs(self) -> int: ...

    @abc.abstractmethod
    def start_margins(self) -> npt.NDArray[np.float32]:
        """Return margins before the first tree, shape (n_outputs,); 0 where the trees hold them."""

    @abc.abstractmethod
    def load(self) -> Any:
        """Return the booster."""

    @abc.abstractmethod
    def first_rounds(self, n_rounds: int) -> Any:
        """Return the booster of the first rounds, or of none."""

    @abc.abstractmethod
    def leaf_values(self) -> list[npt.NDArray[np.float64]]:
        """Return for each tree the values by number of the leaf; of inner nodes, anything."""

    @abc.abstractmethod
    def nodes(self, n_added: int = 0) -> Nodes | None:
        """Return the nodes of all trees; None if the core cannot predict with them.

        `n_added` is the number of columns after those of the tables.
        """

    @abc.abstractmethod
    def with_leaf_values(self, values: Sequence[npt.NDArray[np.float64]]) -> Self:
        """Return the same trees with other leaf values."""

    @abc.abstractmethod
    def for_task(self, code: int | None) -> Self:
        """Return the trees of one task, without the last column, which holds the tasks.

        None stands for an unknown task.
        """

    @abc.abstractmethod
    def for_descriptors(self, values: npt.NDArray[np.float32]) -> Self:
        """Return the trees of a task with these values in the last columns, without them."""

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

        `columns` are the task's.
        """

    @abc.abstractmethod
    def stand_alone(self, n_rounds: int, start: npt.NDArray[np.float32]) -> Any:
        """Return the booster of the first rounds with another start score.

        Where the library starts all trees of a booster at one score, a round before them makes up
        for the difference.
        """

    def scaled(self, factor: float) -> Self:
        """Return the trees with all leaf values multiplied."""
        return self.with_leaf_values([factor * own for own in self.leaf_values()])
