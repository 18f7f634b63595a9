# SPDX-License-Identifier: Apache-2.0
"""A prior on features as the weights by which they are sampled (eruhimov2007, section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_number, did_you_mean, listed
from mtboost.errors import DataError

#: Importances by name, or one a feature in the order of the columns; a pandas Series is either.
FeaturePrior: TypeAlias = Mapping[str, float] | npt.ArrayLike
#: The same, or the common model's importances, or none.
PriorOption: TypeAlias = FeaturePrior | Literal["auto"] | None

#: The part of the draws that is left to chance, so that every feature stays within reach.
FLOOR = 0.05


def read_importances(
    values: Any, argument: str = "prior"
) -> tuple[tuple[str, ...] | None, Float64Array]:
    """Names, if any, and numbers of a mapping, a pandas Series or a vector.

    Raises
    ------
    DataError
        A number is negative, not finite or not a number; a name is not a string, or given twice; or
        the values have another shape than (n_features,).
    """
    names: tuple[str, ...] | None = None
    if isinstance(values, Mapping):
        names, values = tuple(values), list(values.values())
        if not all(isinstance(name, str) for name in names):
            raise DataError(f"{argument} must be named by str, found {listed(names, 'key')}.")
    elif hasattr(values, "index") and hasattr(values, "items"):  # a Series
        index = values.index.tolist()
        if all(isinstance(name, str) for name in index):
            names = tuple(index)
    if names is not None and len(set(names)) < len(names):
        raise DataError(f"{argument} has a name twice: names must differ.")
    try:
        numbers = np.asarray(values, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError(f"{argument} must hold numbers: {error}") from None
    if numbers.ndim != 1 or numbers.size == 0:
        raise DataError(f"{argument} has shape {numbers.shape}: it must hold one number a feature.")
    is_bad = ~(np.isfinite(numbers) & (numbers >= 0))
    if is_bad.any():
        position = int(is_bad.argmax())
        place = f"[{(position if names is None else names[position])!r}]"
        raise DataError(
            f"{argument}{place} is {numbers[position]:g}: importances must be finite and not "
            "negative. Clip those of permutations at 0."
        )
    return names, numbers


def feature_shares(
    prior: FeaturePrior | None, feature_names: Sequence[str] | None, n_features: int
) -> Float64Array:
    """The part of the draws that each column of a table deserves.

    A prior with names says nothing about a column that it does not name, whose share is then
    1 / n_features; the others divide the rest in proportion to their importance. What the prior
    names beyond the table's columns is left out. None says nothing about any column.

    Returns
    -------
    ndarray of float64, shape (n_features,)
        Sum 1.

    Raises
    ------
    DataError
        The prior has names and the table none, or none in common; it has another length; or it is
        0 for all columns.
    """
    if prior is None:
        return np.full(n_features, 1 / n_features)
    names, values = read_importances(prior)
    if names is None:
        if len(values) != n_features:
            raise DataError(
                f"prior has {len(values)} values, but there are {n_features} features: give one "
                "each, or a mapping by name."
            )
        is_known = np.ones(n_features, bool)
    else:
        if feature_names is None:
            raise DataError(
                "prior has names, but the columns have none: give them names, for example in a "
                "DataFrame, or a prior by position."
            )
        by_name = dict(zip(names, values, strict=True))
        is_known = np.array([name in by_name for name in feature_names])
        if not is_known.any():
            raise DataError(
                f"prior names {listed(names, 'feature')}, none of which is a column."
                f"{did_you_mean(names[0], feature_names)}"
            )
        values = np.array([by_name.get(name, 0.0) for name in feature_names])
    if not values.any():
        raise DataError("prior is 0 for every column: at least one must be important.")
    values = values / values.max()  # whose sum is finite
    return np.where(is_known, values / values.sum() * is_known.mean(), 1 / n_features)


def with_floor(shares: Float64Array, floor: float) -> Float64Array:
    """A part `floor` of the draws is spread evenly."""
    return (1 - floor) * shares + floor / len(shares)


def sampling_weights(shares: Float64Array, floor: float = FLOOR) -> npt.NDArray[np.float32]:
    """Weights of the draws, the part `floor` of which is uniform; the largest is 1.

    XGBoost lifts weights to 1e-6 and so would draw evenly among smaller ones: hence the scale.
    """
    weights = with_floor(shares, floor)
    return np.asarray(weights / weights.max(), np.float32)


def check_floor(floor: object) -> float:
    """Return the part of the draws that is spread evenly: 0 is none, 1 leaves the prior out."""
    return check_number("floor", floor, low=0.0, high=1.0)


def n_sampled(n_features: int) -> int:
    """⌊√M⌋, as in the source."""
    return math.isqrt(n_features)


def sampled_fraction(n_features: int) -> float:
    """Return XGBoost's ``colsample_bynode`` for ⌊√M⌋ features per node: it rounds down."""
    return min(1.0, (n_sampled(n_features) + 0.5) / n_features)
