# SPDX-License-Identifier: Apache-2.0
"""XGBoost's boosters taken apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.arrays import Int32Array
from mtboost.base.tables import Columns
from mtboost.trees.document import Document
from mtboost.trees.losses import TaskLoss
from mtboost.trees.nodes import Nodes
from mtboost.trees.steps import StepTree
from mtboost.xgboost import assemble, nodes, resolve
from mtboost.xgboost.objective_settings import objective_document
from mtboost.xgboost.prune import without_columns
from mtboost.xgboost.vector_leaves import stacked as stacked_documents


@dataclass(frozen=True, slots=True, eq=False)
class XgboostDocument(Document):
    """See :class:`~mtboost.trees.document.Document`; `content` is XGBoost's UBJSON, decoded."""

    content: assemble.Document
    _assemble: ClassVar[Any] = assemble
    _nodes: ClassVar[Any] = nodes
    _resolve: ClassVar[Any] = resolve

    def start_margins(self) -> npt.NDArray[np.float32]:
        return assemble.start_margins(self.content)

    def leaf_values(self) -> list[npt.NDArray[np.float64]]:
        trees = assemble.trees_of(self.content)
        return [tree["split_conditions"].astype(np.float64) for tree in trees]

    def leaf_hessians(self) -> list[npt.NDArray[np.float64]]:
        trees = assemble.trees_of(self.content)
        return [tree["sum_hessian"].astype(np.float64) for tree in trees]

    def own_rounds(self, n_rounds: int, loss: TaskLoss) -> xgboost.Booster:
        objective = objective_document(loss.objective, tuple(loss.options.items()))
        own = assemble.as_own(self.content, n_rounds, objective, loss)
        return assemble.first_rounds(own, n_rounds)

    def in_unit(self, nodes: Nodes, loss: TaskLoss, n_first: int) -> Nodes:
        return nodes.with_values(nodes.value * np.float64(loss.unit))

    def own_start(self, loss: TaskLoss) -> npt.NDArray[np.float32]:
        objective = objective_document(loss.objective, tuple(loss.options.items()))
        return assemble.start_margins(assemble.as_own(self.content, 0, objective, loss))

    def without_columns(self, columns: Columns, names: Collection[str]) -> Self:
        return replace(self, content=without_columns(self.content, names))

    def combined(
        self, specific: xgboost.Booster | None, n_common_rounds: int, columns: Columns
    ) -> Self:
        second = assemble.read_document(specific) if specific else None
        content = assemble.combined(self.content, second, n_common_rounds)
        return replace(self, content=assemble.in_order(content, columns.names or ()))

    @staticmethod
    def numbers_of_leaves(steps: StepTree) -> Int32Array:
        return steps.nodes.leaf_nodes()

    def followed_by(self, other: Self, columns: Columns) -> Self:
        n_rounds = self._n_rounds()
        content = assemble.combined(self.content, other.content, n_rounds)
        return replace(self, content=assemble.in_order(content, columns.names or ()))

    def _n_rounds(self) -> int:
        return len(assemble.trees_of(self.content)) // self.n_outputs

    def starting_at(self, start: npt.NDArray[np.float32], n_rounds: int | None = None) -> Self:
        difference = self.start_margins() - start
        n_rounds = self._n_rounds() if n_rounds is None else n_rounds
        return replace(self, content=assemble.with_first_round(self.content, difference, n_rounds))


def stacked(documents: Iterable[Document]) -> xgboost.Booster:
    """Return one booster with an output for each of several."""
    return stacked_documents([cast(XgboostDocument, each).content for each in documents])
