# SPDX-License-Identifier: Apache-2.0
"""Models of many outputs, each with its multiples of the same LightGBM trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np

from mtboost.base.arrays import Float32Array, Float64Array
from mtboost.base.sparse_tables import checked_sparse
from mtboost.errors import ParameterError
from mtboost.lightgbm import assemble
from mtboost.lightgbm.tree import Tree, read_tree, tree_text
from mtboost.trees.losses import inverse_link

#: LightGBM's objectives, the losses of the core, and how a model of one output names its link.
LOSSES = {
    "regression": ("squared", "regression"),
    "regression_l1": ("absolute", "regression_l1"),
    "huber": ("huber", "huber"),
    "binary": ("logistic", "binary sigmoid:1"),
    "cross_entropy": ("logistic", "cross_entropy"),
}
_N_ROWS_AT_A_TIME = 4096


class ProjectedModel:
    """Trees of LightGBM, of which each output takes its multiples.

    Made by :meth:`ProjectedObjective.model`; it can be pickled.

    Attributes
    ----------
    trees : lightgbm.Booster
        The trees; its own predictions have no meaning.
    start : ndarray of float32, shape (n_outputs,)
        Margin of each output before the first tree.
    rho : ndarray of float64, shape (n_trees, n_outputs)
        Weight of each tree in the margin of each output.
    objective : str
        LightGBM's name of the objective.
    """

    def __init__(
        self, trees: lightgbm.Booster, start: Float32Array, rho: Float64Array, objective: str
    ) -> None:
        self.trees = trees
        self.start = start
        self.rho = rho
        self.objective = objective

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.start)

    def predict_margin(self, X: Any) -> Float64Array:
        """Compute the margins of all outputs.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Any table that LightGBM predicts from; columns as in training.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_outputs)
            Sums of the start and the weighted leaf values.
        """
        n_trees = len(self.rho)
        X = checked_sparse(X, "X")
        leaves = np.asarray(self.trees.predict(X, pred_leaf=True, num_iteration=n_trees))
        leaves = leaves.reshape(-1, n_trees)
        values = [tree.leaf_value for tree in self._read_trees()]
        margins = np.tile(self.start.astype(np.float64), (len(leaves), 1))
        for begin in range(0, len(leaves), _N_ROWS_AT_A_TIME):
            rows = slice(begin, begin + _N_ROWS_AT_A_TIME)
            found = [of_tree[leaf] for of_tree, leaf in zip(values, leaves[rows].T, strict=True)]
            margins[rows] += np.stack(found, axis=1) @ self.rho
        return margins

    def predict(self, X: Any) -> Float64Array:
        """Predict all outputs.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Any table that LightGBM predicts from; columns as in training.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_outputs)
            Probabilities if the objective is logistic, else in the units of the labels.
        """
        return np.asarray(inverse_link(self.objective, self.predict_margin(X)))

    def booster(self, output: int) -> lightgbm.Booster:
        """Return an ordinary booster of one output: the same splits, leaf values times its weights.

        Parameters
        ----------
        output : int
            Number of the output, from 0.

        Returns
        -------
        lightgbm.Booster
            Its margins are those of the output.

        Raises
        ------
        ParameterError
            `output` is not between 0 and `n_outputs` - 1.
        """
        if not 0 <= output < self.n_outputs:
            raise ParameterError(
                f"output={output} does not exist: outputs are 0 to {self.n_outputs - 1}."
            )
        starts = np.zeros(len(self.rho))
        starts[0] = self.start[output]  # the start of a model is in its first tree
        texts = [
            tree_text(
                replace(
                    tree,
                    leaf_value=start + factor * tree.leaf_value,
                    internal_value=start + factor * tree.internal_value,
                )
            )
            for tree, factor, start in zip(
                self._read_trees(), self.rho[:, output], starts, strict=True
            )
        ]
        frame = assemble.read_document(self.trees)
        header = {}
        for name, value in frame.header.items():
            if name != "objective":
                header[name] = value
            if name == "max_feature_idx":
                header["objective"] = LOSSES[self.objective][1]
        return assemble.load_document(replace(frame, header=header, trees=texts))

    def _read_trees(self) -> list[Tree]:
        texts = assemble.read_document(self.trees).trees[: len(self.rho)]
        return [read_tree(text) for text in texts]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.rho)} trees, {self.n_outputs} outputs)"
