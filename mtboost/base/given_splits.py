# SPDX-License-Identifier: Apache-2.0
"""Validation that the user gives: its type, and splits as checked row numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import as_array
from mtboost.base.checks import is_integer, is_number, listed, shown
from mtboost.errors import DataError, ParameterError, ParameterTypeError

RowNumbers: TypeAlias = npt.NDArray[np.int64]

#: Of the rows that are held out of changes of a model.
DEFAULT_FRACTION = 0.2

_PAIR = "a pair (train, valid) of row numbers or of boolean masks"


def check_validation(validation: Any) -> None:
    """Raise ParameterTypeError unless a value is a name, a splitter or a list of splits."""
    is_splitter = hasattr(validation, "split") and not isinstance(validation, type)
    is_one_table = hasattr(validation, "shape") or isinstance(validation, Mapping | Set)
    is_list = isinstance(validation, Iterable) and not is_one_table
    if is_splitter or is_list:
        return
    raise ParameterTypeError(
        "validation must be 'random', 'stratified', 'last', 'tasks', a splitter of scikit-learn, "
        "or a list of pairs (train, valid) of row numbers or boolean masks, found "
        f"{shown(validation)}.{_remedy(validation)}"
    )


def _remedy(validation: Any) -> str:
    """Return the end of a message: what was probably meant."""
    if isinstance(validation, type):
        return f" Pass an instance: {validation.__name__}()."
    if is_integer(validation) and validation > 1:
        return f" For {validation} folds pass KFold({validation}, shuffle=True)."
    if is_number(validation) and 0.0 < validation < 1.0:
        return f" For a fraction of the rows pass validation_fraction={validation}."
    if hasattr(validation, "shape"):
        return " Pass [(train, valid)] also if there is only one split."
    return ""


def as_splits(splits: Iterable[Any], n_rows: int) -> list[tuple[RowNumbers, RowNumbers]]:
    """Return the rows to train on and those to validate on of each split, ascending.

    Parameters
    ----------
    splits : iterable of (train, valid)
        Row numbers, of which those to train on may repeat, or boolean masks of `n_rows` values.
    n_rows : int

    Raises
    ------
    DataError
        `splits` is empty, a part of a split is empty or has other values, or validation rows repeat
        or are among those to train on.
    """
    found = [_as_pair(split, n_rows, number) for number, split in enumerate(splits)]
    if not found:
        raise DataError("validation gives no split: it must hold out rows at least once.")
    return found


def _as_pair(split: Any, n_rows: int, number: int) -> tuple[RowNumbers, RowNumbers]:
    if not _is_pair(split):
        raise DataError(
            f"validation: split {number} is not a pair of row numbers. Pass a list of splits, each "
            f"{_PAIR}: a single one as validation=[(train, valid)]."
        )
    train, valid = (
        _row_numbers(part, n_rows, f"the {name} part of split {number}")
        for name, part in zip(("training", "validation"), split, strict=True)
    )
    _check_apart(train, valid, number)
    return train, valid


def _is_pair(split: Any) -> bool:
    if isinstance(split, np.ndarray):
        return split.ndim == 2 and len(split) == 2
    return isinstance(split, list | tuple) and len(split) == 2 and as_array(split[0]).ndim > 0


def _row_numbers(part: Any, n_rows: int, where: str) -> RowNumbers:
    values = as_array(part)
    if values.ndim != 1:
        raise DataError(f"validation: {where} has shape {values.shape}: pass {_PAIR}.")
    if values.dtype == bool:
        if len(values) != n_rows:
            raise DataError(
                f"validation: {where} is a mask of {len(values)} values, but there are {n_rows} "
                "rows: pass one value a row, or row numbers."
            )
        values = np.flatnonzero(values)
    if not len(values):
        raise DataError(
            f"validation: {where} has no rows: each split needs rows to train on and others to "
            "validate on."
        )
    if values.dtype.kind not in "iu":
        raise DataError(
            f"validation: {where} has values of type {values.dtype}: pass {_PAIR}. Row numbers "
            "are integers from 0 on, in the order of X."
        )
    is_outside = (values < 0) | (values >= n_rows)
    if is_outside.any():
        raise DataError(
            f"validation: {where} has row {values[is_outside.argmax()]}, but rows are numbered "
            f"from 0 to {n_rows - 1}, in the order of X."
        )
    return np.sort(values).astype(np.int64)


def _check_apart(train: RowNumbers, valid: RowNumbers, number: int) -> None:
    """Raise DataError for validation rows that are trained on, or that count twice."""
    both = np.intersect1d(train, valid)
    if len(both):
        raise DataError(
            f"validation: split {number} has {listed(both.tolist(), 'row')} in both parts, and a "
            "model cannot be judged by rows that it is trained on: leave them out of one part."
        )
    repeated = np.unique(valid[1:][valid[1:] == valid[:-1]])
    if len(repeated):
        raise DataError(
            f"validation: the validation part of split {number} has "
            f"{listed(repeated.tolist(), 'row')} more than once: name each row once."
        )


def check_eval_set(eval_set: Any, form: str = "(X, y, task)") -> None:
    """Raise ParameterTypeError unless a value is None, or a tuple or list of tables like `form`."""
    if eval_set is None:
        return
    if not isinstance(eval_set, list | tuple):
        raise ParameterTypeError(
            f"eval_set is a {type(eval_set).__name__}: pass eval_set={form}, the parts of the "
            "validation rows."
        )
    if isinstance(eval_set, list) and eval_set and all(map(_is_eval_set, eval_set)):
        raise ParameterTypeError(
            f"eval_set is a list of {len(eval_set)} tuples: there is one set of validation rows, "
            f"without a list around it. Pass eval_set={form}."
        )


def check_no_fraction(eval_set: Any, fraction: Any) -> None:
    """Raise ParameterError if another part of the rows than usual is to be held out beside others.

    Options of several calls may give the usual part.
    """
    if eval_set is None or fraction in ("auto", DEFAULT_FRACTION, 0):
        return
    raise ParameterError(
        f"validation_fraction is {shown(fraction)}, but eval_set has the validation rows: leave "
        "one of them out."
    )


def _is_eval_set(value: Any) -> bool:
    """Whether a value is a tuple of tables; a tuple of numbers or texts may be labels."""
    return (
        isinstance(value, tuple)
        and len(value) > 1
        and hasattr(value[0], "__len__")
        and not isinstance(value[0], str)
    )
