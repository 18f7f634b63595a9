"""Parameters of trees as scikit-learn's estimators have them, checked, as the core counts."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeGuard

import numpy as np
from sklearn.utils import check_random_state

from mtboost.errors import ParameterError

MaxFeatures: TypeAlias = Literal["sqrt", "log2"] | float | int | None


def is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_part(value: object) -> TypeGuard[float]:
    return isinstance(value, float | np.floating) and bool(0.0 < value <= 1.0)


def checked_count(value: object, name: str, least: int = 1) -> int:
    if not is_integer(value) or value < least:
        raise ParameterError(f"{name} is {value!r}: it must be an integer >= {least}.")
    return int(value)


def checked_depth(max_depth: int | None) -> int:
    return _NO_LIMIT if max_depth is None else checked_count(max_depth, "max_depth")


def rows_at_least(value: int | float, n_rows: int, name: str, least: int) -> int:
    """A number of rows, or a part of them."""
    if is_part(value):
        return max(least, int(np.ceil(value * n_rows)))
    if is_integer(value):
        return checked_count(value, name, least)
    raise ParameterError(
        f"{name} is {value!r}: it must be an integer >= {least} or a part of the rows in (0, 1]."
    )


def features_per_node(
    max_features: MaxFeatures, n_features: int, name: str = "max_features"
) -> int:
    """Features that a node looks at, as scikit-learn's forests count them."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, int(np.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(np.log2(n_features)))
    if is_part(max_features):
        return max(1, int(max_features * n_features))
    if is_integer(max_features) and max_features >= 1:
        return min(int(max_features), n_features)
    raise ParameterError(
        f"{name} is {max_features!r}: it must be 'sqrt', 'log2', None, an integer >= 1, or a "
        f"part of the features in (0, 1]."
    )


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, int | np.integer):
        if random_state < 0:
            raise ParameterError(f"random_state is {random_state}: it must not be negative.")
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


_NO_LIMIT = 2**32 - 1
