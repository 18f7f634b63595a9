# SPDX-License-Identifier: Apache-2.0
"""Labels, weights and base margins: one value a row, or several, checked."""

import decimal
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from mtboost.base.arrays import Float64Array, FloatArray, as_array
from mtboost.base.checks import as_float, shown
from mtboost.errors import DataError

# What to do with labels that are texts.
_ENCODE = "Encode classes as 0, 1, ..., or use an estimator, which does."


def as_labels(
    y: Any,
    n_rows: int,
    *,
    may_be_bounds: bool = False,
    argument: str = "y",
) -> FloatArray:
    """Labels as finite numbers.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, 1)
        Numbers or booleans: list, NumPy array, or a column of pandas, polars or pyarrow.
    n_rows : int
        Number of rows of X.
    may_be_bounds : bool
        Allow shape (n_rows, 2), two bounds a row, and keep it; bounds may be infinite.
    argument : str
        What messages call the labels.

    Returns
    -------
    ndarray of float32 or float64
        C-contiguous, of shape (n_rows,), or two bounds a row. float32 is kept, anything
        else is float64. XGBoost stores labels as float32: it rounds integers above 2**24.

    Raises
    ------
    DataError
        A label is NaN, infinite, beyond float32 or no number (its row is named), or the shape is
        wrong.
    """
    labels = _as_floats(y, argument, may_be_infinite=may_be_bounds)
    if may_be_bounds:
        if labels.shape == (n_rows, 2):
            return labels
        if labels.ndim == 2 and labels.shape[1] > 1:
            raise _shape_error(labels, f"({n_rows},) or ({n_rows}, 2)", n_rows, argument)
        labels = _as_floats(labels, argument)
    return _as_vector(labels, n_rows, argument)


def as_weights(weight: Any, n_rows: int) -> FloatArray:
    """Row weights of shape (n_rows,), finite, none negative, not all zero; DataError otherwise."""
    return not_all_zero(as_nonnegative(weight, n_rows, argument="weight"), "weight")


def as_float64_weights(weight: Any, n_rows: int, *, argument: str) -> npt.NDArray[np.float64]:
    """As :func:`as_weights`, for the core's forests, which know smaller weights than float32."""
    weights = _nonnegative(weight, n_rows, argument)
    return np.asarray(not_all_zero(weights, argument), dtype=np.float64)


def as_nonnegative(weight: Any, n_rows: int, *, argument: str) -> FloatArray:
    """Return weights as :func:`as_weights` does, also where every weight is 0."""
    return as_stored(_nonnegative(weight, n_rows, argument))


def weights_or_ones(weight: FloatArray | None, n_rows: int) -> Float64Array:
    """Return the weight of each row, 1 where none is given."""
    return np.ones(n_rows) if weight is None else np.asarray(weight, np.float64)


def _nonnegative(weight: Any, n_rows: int, argument: str) -> FloatArray:
    weights = _as_vector(_as_floats(weight, argument, are_labels=False), n_rows, argument)
    if weights.min(initial=0.0) < 0.0:
        row = int(weights.argmin())
        raise DataError(
            f"{argument} is {weights[row]:g} at row {row}: weights must not be negative; 0 leaves "
            f"a row out."
        )
    return weights


def not_all_zero(weights: FloatArray, argument: str) -> FloatArray:
    """The weights, if one is positive; DataError otherwise."""
    if not weights.any():
        raise DataError(
            f"{argument} is zero in every row, or so small that it is in float32: at least one row "
            f"must count."
        )
    return weights


def check_sum_of_weights(weights: FloatArray) -> None:
    """Raise DataError where the weights of all rows add up to more than float32 can store."""
    total = weights.sum(dtype=np.float64)
    if total > np.finfo(np.float32).max:
        raise DataError(
            f"sample_weight adds up to {total:g}, more than the float32 in which trees store the "
            f"weight of their nodes: divide it by a constant, which changes no tree."
        )


def check_magnitude(labels: npt.NDArray[Any], most: float, *, may_be_missing: bool = False) -> None:
    """Raise DataError for a label beyond `most`, with which sums and differences would overflow."""
    with np.errstate(over="ignore"):
        labels = labels.astype(np.float64, copy=False)
    is_beyond = ~(np.abs(labels) <= most)
    if may_be_missing:
        is_beyond &= ~np.isnan(labels)
    if is_beyond.any():
        index = np.unravel_index(int(is_beyond.argmax()), labels.shape)
        raise DataError(
            f"y is {labels[index]:g} at {_place(index)}: labels beyond {most:g} overflow in sums "
            f"and differences. Rescale them."
        )


def as_stored(weights: FloatArray) -> FloatArray:
    """Weights of which those are 0 that are 0 in float32, in which the libraries store them."""
    return np.where(weights.astype(np.float32) == 0.0, 0.0, weights).astype(weights.dtype)


def as_known_labels(labels: Any, *, argument: str = "labels") -> npt.NDArray[np.float32]:
    """Labels as :func:`as_label_table` returns them, in float32."""
    return as_label_table(labels, argument=argument).astype(np.float32)


def as_label_table(labels: Any, *, argument: str = "y") -> FloatArray:
    """Labels of shape (n_rows, n_labels), NaN where unknown; DataError where infinite or no number.

    A vector is one label a row. float32 is kept, anything else is float64.
    """
    known = _as_floats(labels, argument, may_be_missing=True)
    if known.ndim > 2 or known.size == 0:
        raise DataError(
            f"{argument} has shape {known.shape}, but must have (n_rows,) or (n_rows, n_labels), "
            f"none of them 0."
        )
    return known.reshape(len(known), -1)


def as_label_weights(
    weight: Any, shape: tuple[int, int], *, argument: str = "weight"
) -> npt.NDArray[np.float32]:
    """Weights of rows, (n_rows,), or of labels, `shape`: finite, none negative, not all zero."""
    weights = _as_floats(weight, argument, are_labels=False).astype(np.float32)
    if weights.shape not in (shape, shape[:1], (shape[0], 1)):
        raise DataError(
            f"{argument} has shape {weights.shape}, but must have ({shape[0]},) or {shape}: one "
            "number a row, or one a label."
        )
    if weights.min(initial=0.0) < 0.0:
        index = np.unravel_index(int(weights.argmin()), weights.shape)
        raise DataError(
            f"{argument} is {weights[index]:g} at {_place(index)}: weights must not be negative; 0 "
            "leaves a label out."
        )
    not_all_zero(weights, argument)
    return weights.reshape(shape[0]) if weights.size == shape[0] else weights


def as_base_margin(
    base_margin: Any, n_rows: int, n_outputs: int = 1, *, argument: str = "base_margin"
) -> FloatArray:
    """Finite margins to start from, shape (n_rows,), or (n_rows, n_outputs) if more than one."""
    margins = _as_floats(base_margin, argument, are_labels=False)
    if n_outputs == 1:
        return _as_vector(margins, n_rows, argument)
    if margins.shape != (n_rows, n_outputs):
        raise _shape_error(margins, f"({n_rows}, {n_outputs})", n_rows, argument)
    return margins


def _as_floats(
    values: Any,
    argument: str,
    *,
    may_be_missing: bool = False,
    may_be_infinite: bool = False,
    are_labels: bool = True,
) -> FloatArray:
    """Finite C-contiguous numbers of any shape; float32 stays, anything else becomes float64."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = as_array(values)
    except ValueError as error:
        raise DataError(f"{argument} is not a rectangular array of numbers: {error}") from error
    if array.ndim == 0:
        remedy = f" Pass {argument}.toarray()." if issparse(values) else ""
        kind = type(values).__name__
        raise DataError(f"{argument} is a {kind}: it must hold one number a row.{remedy}")
    if array.dtype.kind == "O":
        objects, array = array, np.empty(array.shape)
        for index, value in np.ndenumerate(objects):
            if may_be_missing and (value is None or type(value).__name__ == "NAType"):
                array[index] = np.nan
                continue
            if not isinstance(value, numbers.Real | decimal.Decimal):
                remedy = f" {_ENCODE}" if are_labels and isinstance(value, str) else ""
                raise DataError(
                    f"{argument} is {shown(value)} at {_place(index)}: it must be a number.{remedy}"
                )
            array[index] = as_float(value)
    elif array.dtype.kind not in "biuf":
        remedy = _ENCODE if are_labels else "Convert it, for example with astype(float)."
        if are_labels and array.dtype.names:
            remedy = (
                "Of survival it is np.where(event, time, -time) for 'survival:cox', and two "
                "bounds of the time for 'survival:aft' (docs/survival.md)."
            )
        raise DataError(f"{argument} has dtype {array.dtype}: it must hold numbers. {remedy}")
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    with np.errstate(over="ignore"):  # of a longer type: it is infinite then, and refused
        floats: FloatArray = np.ascontiguousarray(array, dtype=dtype)
    # XGBoost stores float32, where more is infinite. NaN fails the comparison too.
    is_good = np.abs(floats) <= np.finfo(np.float32).max
    if may_be_missing:
        is_good |= np.isnan(floats)
    if may_be_infinite:
        is_good |= np.isinf(floats)
    if not is_good.all():
        index = np.unravel_index(int(is_good.argmin()), floats.shape)
        raise DataError(
            f"{argument} is {floats[index]:g} at {_place(index)}: it must be finite and fit in "
            f"float32. Drop the row, or give it a value."
        )
    return floats


def _as_vector(values: FloatArray, n_rows: int, argument: str) -> FloatArray:
    if values.shape not in ((n_rows,), (n_rows, 1)):
        raise _shape_error(values, f"({n_rows},)", n_rows, argument)
    return values.reshape(n_rows)


def _shape_error(values: FloatArray, expected: str, n_rows: int, argument: str) -> DataError:
    return DataError(
        f"{argument} has shape {values.shape}, but must have {expected}, because X has {n_rows} "
        f"rows."
    )


def _place(index: Sequence[Any]) -> str:
    row, *rest = map(int, index)
    return f"row {row}" + "".join(f", column {column}" for column in rest)
