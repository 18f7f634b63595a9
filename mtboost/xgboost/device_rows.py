# SPDX-License-Identifier: Apache-2.0
"""Training rows on a GPU, where XGBoost grows the trees on it (docs/library_grown.md).

Margins, gradients and leaves of the rows stay there as arrays of CuPy; what comes back are sums of
leaves and tasks.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.arrays import Float32Array, Int32Array
from mtboost.base.user_warnings import warn_user
from mtboost.trees import on_device
from mtboost.xgboost import assemble
from mtboost.xgboost.device_losses import gradient_and_hessian, has_formula
from mtboost.xgboost.library import GrowthSettings

_WITHOUT_CUPY = (
    "device={!r}, but CuPy {}: gradients and leaves of all rows are copied between the GPU and the "
    "host in each round, which takes several times as long as the rest of it. Install CuPy for "
    "your version of CUDA (pip install 'cupy-cuda12x[ctk]', or 'cupy-cuda13x[ctk]')."
)


class DeviceRows:
    """Arrays of the training rows on a GPU.

    Parameters
    ----------
    cupy : module
    device : str
        XGBoost's name of the GPU, such as "cuda:0".
    """

    def __init__(self, cupy: ModuleType, device: str) -> None:
        self._cupy = cupy
        self._number = int(device.partition(":")[2] or 0)
        self._loss: Any = None  # settings, labels, weights and tasks of the rows
        self._values: Any = None

    @classmethod
    def of(cls, device: str) -> DeviceRows | None:
        """Rows on this device; None if it is no GPU, or CuPy is missing or does not work there."""
        if not device.startswith("cuda"):
            return None
        try:
            import cupy

            found = cls(cupy, device)
            # CuPy compiles when it first computes, which needs parts of CUDA that XGBoost does not.
            int(found.put(np.arange(3)).sum())
        except Exception as error:  # its errors have no common class
            reason = "is not installed" if isinstance(error, ImportError) else f"fails ({error})"
            warn_user(_WITHOUT_CUPY.format(device, reason))
            return None
        return found

    def current(self) -> AbstractContextManager[Any]:
        """Let CuPy work on this GPU."""
        found: AbstractContextManager[Any] = self._cupy.cuda.Device(self._number)
        return found

    def put(self, rows: Any) -> Any:
        """Rows on this GPU; those that are there already as they are."""
        xp = self._cupy
        with self.current():
            found = xp.asarray(rows)
            return found if found.device.id == self._number else xp.array(found)  # from another

    def keep_labels(
        self,
        settings: GrowthSettings,
        labels: Float32Array,
        weights: Float32Array | None,
        codes: Int32Array | None,
    ) -> None:
        """Keep what the objective's formula needs, if there is one."""
        if has_formula(settings.objective):
            parts = (labels, weights, codes)
            self._loss = settings, *(None if part is None else self.put(part) for part in parts)

    def gradients(self, margins: Any, is_active: npt.NDArray[np.uint8]) -> Any:
        """Gradient pairs of shape (n_rows, n_outputs, 2), with weight 0 in tasks that have quit.

        None if the objective has no formula here, or a number is not finite: the core then names
        the row.
        """
        if self._loss is None:
            return None
        xp = self._cupy
        settings, labels, weights, codes = self._loss
        if codes is not None and not is_active.all():
            own = xp.asarray(is_active.astype(np.float32))[codes]
            weights = own if weights is None else own * weights
        found = gradient_and_hessian(
            xp, settings.objective, settings.objective_options, margins, labels, weights
        )
        pairs = xp.stack(found).transpose(1, 2, 0)  # XGBoost takes each part as one array
        return pairs if bool(xp.isfinite(pairs).all()) else None

    # ---- leaves of rows ---------------------------------------------------------------------

    def keep_values(self, table: Any, matrix: xgboost.DMatrix) -> None:
        """Keep the values that the training matrix was made from, to find the leaves by.

        Other kinds of tables, and those in which the matrix took another number than NaN for
        missing, are not kept: XGBoost then finds the leaves.
        """
        shape = matrix.num_row(), matrix.num_col()
        is_array = isinstance(table, np.ndarray) or hasattr(table, "__cuda_array_interface__")
        if not is_array or tuple(table.shape) != shape:
            return
        if isinstance(table, np.ndarray):
            if table.dtype.kind not in "fiub":
                return
            table = np.ascontiguousarray(table, np.float32)
        xp = self._cupy
        with self.current():
            values = xp.ascontiguousarray(self.put(table), dtype=np.float32)
            n_values = int(xp.count_nonzero(~xp.isnan(values)))
            if n_values == matrix.num_nonmissing():
                self._values = values

    def finds_leaves(self, tree: assemble.Document) -> bool:
        """Whether the leaves of a tree can be found from the values kept."""
        return self._values is not None and len(tree["categories_nodes"]) == 0

    def leaves(self, tree: assemble.Document) -> Any:
        """Leaf of each row in a tree, array of int32 of shape (n_rows,)."""
        return on_device.find_leaves(self._values, tree)
