# SPDX-License-Identifier: Apache-2.0
"""Types of arrays, and columns of any library as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.errors import DataError

Float32Array: TypeAlias = npt.NDArray[np.float32]
Float64Array: TypeAlias = npt.NDArray[np.float64]
FloatArray: TypeAlias = npt.NDArray[np.floating]
Int32Array: TypeAlias = npt.NDArray[np.int32]
Int64Array: TypeAlias = npt.NDArray[np.int64]
#: Numbers of tasks among their names.
Codes: TypeAlias = npt.NDArray[np.integer[Any]]
#: Sums of each worker's numbers over all workers that train a model.
Total: TypeAlias = Callable[[Float64Array], Float64Array]


def as_array(values: Any) -> npt.NDArray[Any]:
    """Return a list or a column of any library as an array; a masked array stays masked."""
    if type(values).__module__.partition(".")[0] == "pyarrow":
        if hasattr(values, "num_columns") and values.num_columns == 1:
            values = values.column(0)
        if str(getattr(values, "type", "")).startswith("dictionary"):
            # pyarrow 26 itself fills the nulls of a dictionary with one of its entries.
            values = values.cast(values.type.value_type)
    try:
        return np.asanyarray(values)
    except ValueError as error:
        raise DataError(f"not a rectangular array of values: {error}") from None


def on_host(values: Any) -> npt.NDArray[Any]:
    """Return values as an array; arrays of CuPy and PyTorch on a GPU are copied from there."""
    if hasattr(values, "__cuda_array_interface__"):
        values = values.get() if hasattr(values, "get") else values.detach().cpu()
    return np.asarray(values)


def ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> Float64Array:
    """Quotients, 0 where the denominator is not positive."""
    quotients = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
    np.divide(numerator, denominator, out=quotients, where=denominator > 0.0)
    return quotients
