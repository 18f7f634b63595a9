# SPDX-License-Identifier: Apache-2.0
"""XGBoost's boosters taken apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.tables import Columns
from mtboost.trees.document import Document
from mtboost.trees.losses import TaskLoss
from mtboost.trees.nodes import Nodes
from mtboost.xgboost import assemble
from mtboost.xgboost.library import objective_document
from mtboost.xgboost.nodes import nodes_of
from mtboost.xgboost.prune import without_columns
from mtboost.xgboost.resolve import resolve_descriptors, resolve_task
from mtboost.xgboost.vector_leaves import stacked as stacked_documents


@dataclass(frozen=True, slots=True, eq=False)
class XgboostDocument(Document):
    """See :class:`~mtboost.trees.document.Document`; `content` is XGBoost's UBJSON, decoded."""

    content: assemble.Document

    @classmethod
    def of(cls, booster: xgboost.Booster) -> XgboostDocument:
        return cls(assemble.read_document(booster))

    @property
    def n_outputs(self) -> int:
        return assemble.outputs_of(self.content)

    def start_margins(self) -> npt.NDArray[np.float32]:
        return assemble.start_margins(self.content)

    def load(self) -> xgboost.Booster:
        return assemble.load_document(self.content)

    def first_rounds(self, n_rounds: int) -> xgboost.Booster:
        # XGBoost 3.2 loses the names of categories when it slices.
        return assemble.first_rounds(self.content, n_rounds)

    def leaf_values(self) -> list[npt.NDArray[np.float64]]:
        trees = assemble.trees_of(self.content)
        return [tree["split_conditions"].astype(np.float64) for tree in trees]

    def nodes(self, n_added: int = 0) -> Nodes | None:
        return nodes_of(self.content, n_added)

    def with_leaf_values(self, values: Sequence[npt.NDArray[np.float64]]) -> Self:
        return replace(self, content=assemble.with_leaf_values(self.content, values))

    def for_task(self, code: int | None) -> Self:
        return replace(self, content=resolve_task(self.content, code))

    def for_descriptors(self, values: npt.NDArray[np.float32]) -> Self:
        return replace(self, content=resolve_descriptors(self.content, values))

    def own_rounds(self, n_rounds: int, loss: TaskLoss) -> xgboost.Booster:
        objective = objective_document(loss.objective, tuple(loss.options.items()))
        own = assemble.as_own(self.content, n_rounds, objective, loss)
        return assemble.first_rounds(own, n_rounds)

    def without_columns(self, columns: Columns, names: Collection[str]) -> Self:
        return replace(self, content=without_columns(self.content, names))

    def combined(
        self, specific: xgboost.Booster | None, n_common_rounds: int, columns: Columns
    ) -> Self:
        second = assemble.read_document(specific) if specific else None
        return replace(self, content=assemble.combined(self.content, second, n_common_rounds))

    def stand_alone(self, n_rounds: int, start: npt.NDArray[np.float32]) -> xgboost.Booster:
        difference = self.start_margins() - start
        return assemble.with_first_round(self.content, difference, n_rounds)


def stacked(documents: Iterable[Document]) -> xgboost.Booster:
    """Return one booster with an output for each of several."""
    return stacked_documents([cast(XgboostDocument, each).content for each in documents])
