# SPDX-License-Identifier: Apache-2.0
"""Forests as arrays, and what is needed to grow more of their trees (docs/model_file.md)."""

from __future__ import annotations

from typing import Any

from mtboost import _core
from mtboost.base.archive import require


def forest_to_file(forest: _core.Forest) -> dict[str, Any]:
    """Trees, and what is needed to grow more of them."""
    return {
        "forest": {
            "n_features": forest.n_features,
            "n_tasks": forest.n_tasks,
            "n_outputs": forest.n_outputs,
            **forest.params,
        },
        "trees": forest.arrays(),
    }


def forest_from_file(content: dict[str, Any]) -> _core.Forest:
    """The way back; raises unless every index in the trees is in range."""
    params = dict(content["forest"])
    n_features, n_tasks, n_outputs = (
        params.pop(name) for name in ("n_features", "n_tasks", "n_outputs")
    )
    forest = _core.Forest(_core.ForestParams(**params), n_features=n_features, n_tasks=n_tasks)
    forest.add_trees(content["trees"], n_outputs=n_outputs)
    require(forest.n_trees > 0, "there are no trees")
    return forest
