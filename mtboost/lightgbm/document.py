# SPDX-License-Identifier: Apache-2.0
"""LightGBM's boosters taken apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import lightgbm
import numpy as np
import numpy.typing as npt

from mtboost.base.tables import Columns
from mtboost.lightgbm import assemble
from mtboost.lightgbm.library import objective_lines
from mtboost.lightgbm.matrices import own_name
from mtboost.lightgbm.nodes import nodes_of
from mtboost.lightgbm.prune import without_columns
from mtboost.lightgbm.resolve import resolve_descriptors, resolve_task
from mtboost.trees.document import Document
from mtboost.trees.losses import TaskLoss
from mtboost.trees.nodes import Nodes


@dataclass(frozen=True, slots=True, eq=False)
class LightgbmDocument(Document):
    """See :class:`~mtboost.trees.document.Document`; `content` is LightGBM's text, parsed."""

    content: assemble.Document

    @classmethod
    def of(cls, booster: lightgbm.Booster) -> LightgbmDocument:
        return cls(assemble.read_document(booster))

    @property
    def n_outputs(self) -> int:
        return assemble.outputs_of(self.content)

    def start_margins(self) -> npt.NDArray[np.float32]:
        return np.zeros(self.n_outputs, np.float32)

    def load(self) -> lightgbm.Booster:
        return assemble.load_document(self.content)

    def first_rounds(self, n_rounds: int) -> lightgbm.Booster:
        return assemble.first_rounds(self.content, n_rounds)

    def leaf_values(self) -> list[npt.NDArray[np.float64]]:
        return [assemble.leaf_values(tree) for tree in self.content.trees]

    def nodes(self, n_added: int = 0) -> Nodes | None:
        return nodes_of(self.content, n_added)

    def with_leaf_values(self, values: Sequence[npt.NDArray[np.float64]]) -> Self:
        return replace(self, content=assemble.with_leaf_values(self.content, values))

    def for_task(self, code: int | None) -> Self:
        return replace(self, content=resolve_task(self.content, code))

    def for_descriptors(self, values: npt.NDArray[np.float32]) -> Self:
        return replace(self, content=resolve_descriptors(self.content, values))

    def own_rounds(self, n_rounds: int, loss: TaskLoss) -> lightgbm.Booster:
        objective = objective_lines(loss.objective, tuple(loss.options.items()))
        return assemble.load_document(assemble.as_own(self.content, n_rounds, *objective, loss))

    def without_columns(self, columns: Columns, names: Collection[str]) -> Self:
        content = without_columns(
            self.content, set(map(own_name, names)), set(map(own_name, columns.categories))
        )
        return replace(self, content=content)

    def combined(
        self, specific: lightgbm.Booster | None, n_common_rounds: int, columns: Columns
    ) -> Self:
        categories = {own_name(name): labels for name, labels in columns.categories.items()}
        content = assemble.combined(self.content, specific, n_common_rounds, categories=categories)
        return replace(self, content=content)

    def stand_alone(self, n_rounds: int, start: npt.NDArray[np.float32]) -> lightgbm.Booster:
        return self.first_rounds(n_rounds)  # whose first trees hold the start score
