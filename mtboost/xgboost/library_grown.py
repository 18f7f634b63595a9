# SPDX-License-Identifier: Apache-2.0
"""Trees that XGBoost grows itself, from gradients at the margins of the tasks.

The core grows the trees of ``hist`` on one machine's CPU, from a matrix whose values can be read. A
GPU, external memory, ``approx``, ``exact`` and vector leaves are XGBoost's alone: there a stock
booster grows each tree, and predicts the leaf of each row. The rest of a round (gradients, leaf
values of tasks, margins) is that of :class:`~mtboost.xgboost.growth.XgboostGrowth`.

On a GPU the arrays of the rows stay there too, where CuPy is installed (device_rows.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost import _core
from mtboost.trees import on_device
from mtboost.xgboost import assemble
from mtboost.xgboost.device_rows import DeviceRows
from mtboost.xgboost.library import GrowthSettings
from mtboost.xgboost.vector_leaves import scalar_trees

# Objectives that set leaves themselves before XGBoost 3.4, which crashes where these meet gradients
# of others.
_REFITTED = ("reg:absoluteerror", "reg:quantileerror")


def why_library_grows(settings: GrowthSettings, matrix: xgboost.DMatrix) -> str | None:
    """Return what only trees of XGBoost's own growth can serve; None where the core grows them."""
    if settings.library_only is None and _is_in_external_memory(matrix):
        return "a matrix in external memory"
    return settings.library_only


def _is_in_external_memory(matrix: xgboost.DMatrix) -> bool:
    """Whether a matrix has its values in pages, which XGBoost does not slice."""
    if isinstance(matrix, xgboost.QuantileDMatrix) or matrix.num_row() == 0:
        return False
    if isinstance(matrix, xgboost.ExtMemQuantileDMatrix):
        return True
    try:
        matrix.slice([0], allow_groups=True)
    except xgboost.core.XGBoostError as error:
        if "external memory" not in str(error):
            raise
        return True
    return False


class LibraryTree:
    """A tree that XGBoost has grown, in place of the core's ``Tree``."""

    def __init__(self, document: assemble.Document) -> None:
        self._document = document

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "left": self._document["left_children"],
            "feature": self._document["split_indices"],
            "value": self._document["split_conditions"].astype(np.float64),
        }

    def with_values(self, values: npt.NDArray[np.float64]) -> assemble.Document:
        """Document of the tree with these leaf values, one for each node."""
        conditions = self._document["split_conditions"]
        is_leaf = self._document["left_children"] < 0
        found = np.where(is_leaf, values.astype(np.float32), conditions)
        return {**self._document, "split_conditions": found}


class LibraryGrower:
    """Lets a stock booster grow trees, in place of the core's ``TreeGrower``.

    Parameters
    ----------
    stock : Booster
        Without trees; its parameters are those of the training.
    settings : GrowthSettings
    worker : int
        Number of this worker, from 0, where several grow the trees.
    device : DeviceRows, optional
        Where the rows lie on a GPU.
    """

    def __init__(
        self,
        stock: xgboost.Booster,
        settings: GrowthSettings,
        worker: int,
        device: DeviceRows | None,
    ) -> None:
        self._empty = stock.copy()
        if settings.objective in _REFITTED:
            self._empty.set_param({"objective": "reg:squarederror"})
        self._booster = self._empty.copy()
        self._worker = worker
        self._device = device
        self.set_param({}, settings)

    def set_param(self, params: Mapping[str, Any], settings: GrowthSettings) -> None:
        """Take over parameters that have changed."""
        self._settings = settings
        # Rows are drawn here: XGBoost does not return which ones it has drawn. Those by gradients,
        # on a GPU only, it draws for the splits, and leaf values are of all rows.
        own = {} if settings.samples_by_gradient else {"subsample": 1.0}
        strategy = "multi_output_tree" if settings.has_vector_leaves else "one_output_per_tree"
        for booster in (self._empty, self._booster):
            booster.set_param({**params, **own, "multi_strategy": strategy})

    def grow(
        self, matrix: xgboost.DMatrix, gradients: Any, tree_number: int
    ) -> list[tuple[LibraryTree, Any]]:
        """Grow one tree per output.

        Parameters
        ----------
        gradients : array of float32, shape (n_rows, n_outputs, 2)
            Of CuPy, where the rows lie on a GPU; leaves are then too.
        tree_number : int
            Key of the random draws of the first.

        Returns
        -------
        list of tuple
            Each tree, and the leaf of every row; its complement where the row was not drawn.
        """
        n_rows, n_outputs, _ = gradients.shape
        xp: Any = on_device.namespace(gradients)
        is_left_out: Any = self._rows_left_out(n_rows, n_outputs, tree_number)
        if is_left_out is not None:
            is_left_out = xp.asarray(is_left_out)
            gradients = xp.where(is_left_out[:, :, None], xp.float32(0.0), gradients)
        shape = (n_rows,) if n_outputs == 1 else (n_rows, n_outputs)
        booster = self._next_booster(matrix)
        booster.boost(
            matrix,
            tree_number // n_outputs,
            grad=xp.ascontiguousarray(gradients[:, :, 0]).reshape(shape),
            hess=xp.ascontiguousarray(gradients[:, :, 1]).reshape(shape),
        )
        documents = assemble.newest_round(booster)
        trees: list[assemble.Document] = []
        leaves_of_output: list[Any] = []
        found = self._leaves(documents, matrix)
        for document, leaves in zip(documents, found, strict=True):
            tree, numbers = assemble.without_deleted_nodes(document)
            trees += scalar_trees(tree)
            if len(numbers) > len(tree["left_children"]):
                leaves = xp.asarray(numbers)[leaves]
            leaves_of_output += [leaves] * (len(trees) - len(leaves_of_output))
        grown = []
        for output in range(n_outputs):
            own = leaves_of_output[output]
            if is_left_out is not None:
                own = xp.where(is_left_out[:, output], ~own, own)
            grown.append((LibraryTree(trees[output]), own))
        return grown

    def _next_booster(self, matrix: xgboost.DMatrix) -> xgboost.Booster:
        """The booster that is to grow a round.

        One of few rounds, of which the newest is read faster. Not where XGBoost draws columns or
        rows: another booster would draw the same again.
        """
        samples = self._settings.samples_by_gradient or self._settings.samples_columns
        if self._booster.num_boosted_rounds() >= assemble.FEW_ROUNDS and not samples:
            self._booster = self._empty.copy()
        is_new = self._booster.num_boosted_rounds() == 0
        if is_new and self._settings.device != "cpu" and matrix.get_base_margin().size:
            # XGBoost 3.4 fails to grow on a GPU unless it has put the base margin there before.
            self._booster.predict(matrix, output_margin=True, training=True)
        return self._booster

    def _leaves(self, trees: Sequence[assemble.Document], matrix: xgboost.DMatrix) -> list[Any]:
        """Leaf of each row in each of the newest trees."""
        device = self._device
        if device is not None and all(map(device.finds_leaves, trees)):
            return [*map(device.leaves, trees)]
        n_rounds = self._booster.num_boosted_rounds()
        newest = self._booster[n_rounds - 1 : n_rounds]  # XGBoost finds leaves in all trees only
        found = newest.predict(matrix, pred_leaf=True).reshape(matrix.num_row(), len(trees))
        leaves = [np.ascontiguousarray(own, np.int32) for own in found.T]
        return leaves if device is None else [*map(device.put, leaves)]

    def _rows_left_out(
        self, n_rows: int, n_outputs: int, tree_number: int
    ) -> npt.NDArray[np.bool_] | None:
        """Rows that `subsample` leaves out of each tree, drawn as the core draws them."""
        params = self._settings.grow
        if params.subsample == 1.0 or self._settings.samples_by_gradient:
            return None
        left_out = [
            _core.draw_rows(
                n_rows,
                subsample=params.subsample,
                seed=params.seed,
                tree_number=tree_number + (0 if self._settings.has_vector_leaves else output),
                worker=self._worker,
            )
            == 0
            for output in range(n_outputs)
        ]
        return np.stack(left_out, axis=1)
