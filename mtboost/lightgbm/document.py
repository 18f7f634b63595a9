# SPDX-License-Identifier: Apache-2.0
"""LightGBM's boosters taken apart."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Int32Array
from mtboost.base.tables import Columns
from mtboost.lightgbm import assemble, nodes, resolve
from mtboost.lightgbm.library import objective_lines
from mtboost.lightgbm.matrices import own_name
from mtboost.lightgbm.prune import without_columns
from mtboost.lightgbm.tree import leaf_hessians, leaf_values, numbers_of_nodes
from mtboost.trees.document import Document
from mtboost.trees.losses import TaskLoss
from mtboost.trees.nodes import Nodes
from mtboost.trees.steps import StepTree


@dataclass(frozen=True, slots=True, eq=False)
class LightgbmDocument(Document):
    """See :class:`~mtboost.trees.document.Document`; `content` is LightGBM's text, parsed."""

    content: assemble.Document
    _assemble: ClassVar[Any] = assemble
    _nodes: ClassVar[Any] = nodes
    _resolve: ClassVar[Any] = resolve

    def start_margins(self) -> npt.NDArray[np.float32]:
        return np.zeros(self.n_outputs, np.float32)

    def leaf_values(self) -> list[npt.NDArray[np.float64]]:
        return [leaf_values(tree) for tree in self.content.trees]

    def leaf_hessians(self) -> list[npt.NDArray[np.float64]]:
        return [leaf_hessians(tree) for tree in self.content.trees]

    def own_rounds(self, n_rounds: int, loss: TaskLoss) -> lightgbm.Booster:
        objective = objective_lines(loss.objective, tuple(loss.options.items()))
        return assemble.load_document(assemble.as_own(self.content, n_rounds, *objective, loss))

    def in_unit(self, nodes: Nodes, loss: TaskLoss, n_first: int) -> Nodes:
        values = nodes.value * np.float64(loss.unit)
        values[:n_first] += loss.start_margin
        return nodes.with_values(values)

    def own_start(self, loss: TaskLoss) -> npt.NDArray[np.float32]:
        return self.start_margins()

    def without_columns(self, columns: Columns, names: Collection[str]) -> Self:
        content = without_columns(
            self.content, set(map(own_name, names)), set(map(own_name, columns.categories))
        )
        return replace(self, content=content)

    def combined(
        self, specific: lightgbm.Booster | None, n_common_rounds: int, columns: Columns
    ) -> Self:
        categories = _categories_of(columns)
        content = assemble.combined(self.content, specific, n_common_rounds, categories=categories)
        return replace(self, content=_in_order(content, columns))

    def followed_by(self, other: Self, columns: Columns) -> Self:
        n_rounds = len(self.content.trees) // self.n_outputs
        content = assemble.joined(self.content, other.content, n_rounds, _categories_of(columns))
        return replace(self, content=_in_order(content, columns))

    def starting_at(self, start: npt.NDArray[np.float32], n_rounds: int | None = None) -> Self:
        # Their first trees hold the start score.
        if n_rounds is None:
            return self
        return replace(self, content=assemble.rounds(self.content, 0, n_rounds))

    @staticmethod
    def numbers_of_leaves(steps: StepTree) -> Int32Array:
        nodes = steps.nodes
        return numbers_of_nodes(nodes)[nodes.leaf_nodes()]


def _in_order(document: assemble.Document, columns: Columns) -> assemble.Document:
    names = [own_name(name) for name in columns.names or ()]
    return assemble.in_order(document, names, _categories_of(columns))


def _categories_of(columns: Columns) -> dict[str, list[Any]]:
    """Categories by the library's names of columns."""
    return {own_name(name): labels for name, labels in columns.categories.items()}
