# SPDX-License-Identifier: Apache-2.0
"""Projected gradients for trees that a library grows itself (joly2016)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mtboost import _core
from mtboost.base.arrays import Float32Array
from mtboost.base.checks import check_seed, check_switch
from mtboost.trees.projections import (
    NComponents,
    Projection,
    check_projection,
    make_projection,
)


class BaseProjectedObjective:
    """Parameters of ``ProjectedObjective`` of either library, and the projection of each round."""

    def __init__(
        self,
        projection: Projection,
        n_components: NComponents,
        shared: bool,
        seed: int,
        n_threads: int | None,
    ) -> None:
        super().__init__()
        check_projection(projection, n_components)
        self.projection = projection
        self.n_components = n_components
        self.shared = check_switch("shared", shared)
        self.seed = check_seed(seed, bits=64)
        self.n_threads = n_threads

    def draw(
        self, n_outputs: int, residuals: Callable[[], Float32Array], *, tree: int, n_threads: int
    ) -> _core.ForestProjection | None:
        """Return the projection of a round; None if the outputs themselves are meant.

        Parameters
        ----------
        n_outputs : int
            Number of outputs.
        residuals : callable
            Returns the residuals or gradients of the round, shape (n_rows, n_outputs), which
            ``"pca"`` goes by.
        tree : int
            Number of the round.
        n_threads : int
            For ``"pca"``; the projection does not depend on it.

        Returns
        -------
        mtboost._core.ForestProjection or None
            Its matrix has the shape (n_components, n_outputs).
        """

        def principal_components(n_components: int) -> Float32Array:
            found = _core.ResidualProjection("singular", n_components=n_components)
            return found.matrix(
                np.ascontiguousarray(residuals()), seed=self.seed, tree=tree, n_threads=n_threads
            )

        return make_projection(
            self.projection,
            self.n_components,
            n_outputs,
            is_shared=self.shared,
            principal_components=principal_components,
        )
