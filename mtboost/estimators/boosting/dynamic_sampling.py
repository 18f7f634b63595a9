# SPDX-License-Identifier: Apache-2.0
"""Features drawn by a prior, and by the importances of the trees so far (eruhimov2007)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mtboost import _core
from mtboost.base.arrays import Float64Array
from mtboost.estimators.boosting.rounds import JointEngine
from mtboost.estimators.boosting.tree_importances import ImportanceType, as_shares, tree_importances
from mtboost.trees.feature_weights import read_importances, with_floor

#: Trees that the prior counts as, beside those that have grown.
PRIOR_TREES = 10


def as_plain(prior: Any) -> dict[str, float] | list[float] | None:
    """A prior by name as a dict, another one as a list, as a file holds them."""
    if prior is None:
        return None
    names, numbers = read_importances(prior)
    return numbers.tolist() if names is None else dict(zip(names, numbers.tolist(), strict=True))


class DynamicSampling(JointEngine):
    """Draws features by the prior and by the importances of the trees so far.

    The prior counts as `PRIOR_TREES` trees: after c of them the weights are
    (`PRIOR_TREES` prior + c VI) / (`PRIOR_TREES` + c), VI their importances with sum 1, and a
    floor under that. They depend on the trees alone, so that a model that goes on draws the same.
    """

    def __init__(
        self,
        engine: _core.ProjectedBoosting,
        prior: Float64Array,
        floor: float,
        kind: ImportanceType,
    ) -> None:
        super().__init__(engine)
        self._prior, self._floor, self._kind = prior, floor, kind
        self._importances = np.zeros_like(prior)  # summed over the trees so far
        self._n_trees = 0

    def update(self, *, n_threads: int) -> None:
        model = self._engine.model
        for tree in range(self._n_trees, model.n_trees):
            arrays = model.tree_arrays(tree)
            self._importances += tree_importances(arrays, len(self._prior), self._kind)
        self._n_trees = model.n_trees
        self._engine.feature_weights = with_floor(self._shares(), self._floor)
        super().update(n_threads=n_threads)

    def _shares(self) -> Float64Array:
        if not self._importances.any():  # no tree has a split
            return self._prior
        own = self._n_trees / (PRIOR_TREES + self._n_trees)
        return (1.0 - own) * self._prior + own * as_shares(self._importances)
