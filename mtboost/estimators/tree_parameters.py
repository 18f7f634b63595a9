# SPDX-License-Identifier: Apache-2.0
"""Parameters of trees as scikit-learn's estimators have them, checked, as the core counts."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from mtboost.base.checks import (
    check_choice,
    check_count,
    check_number,
    check_seed,
    is_integer,
    is_number,
)
from mtboost.errors import ParameterError

MaxFeatures: TypeAlias = Literal["sqrt", "log2"] | float | int | None


def checked_depth(max_depth: int | None) -> int:
    if max_depth is None:
        return _NO_LIMIT
    return check_count("max_depth", max_depth, low=1, besides="None")


def rows_at_least(value: int | float, n_rows: int, name: str, least: int) -> int:
    """A number of rows, or a part of them."""
    if is_integer(value):
        return check_count(name, value, low=least)
    besides = f"an integer >= {least}"
    part = check_number(name, value, above=0.0, high=1.0, besides=besides)
    return max(least, math.ceil(part * n_rows))


def features_per_node(max_features: MaxFeatures, n_features: int) -> int:
    """Number of features that a node considers, as scikit-learn's forests count them."""
    if max_features is None:
        return n_features
    if isinstance(max_features, str):
        roots = {"sqrt": np.sqrt, "log2": np.log2}
        besides = "None, an integer >= 1, a number in (0, 1]"
        root = roots[check_choice("max_features", max_features, roots, besides=besides)]
        return max(1, int(root(n_features)))
    if is_integer(max_features):
        return min(check_count("max_features", max_features, low=1), n_features)
    besides = "'sqrt', 'log2', None, an integer >= 1"
    part = check_number("max_features", max_features, above=0.0, high=1.0, besides=besides)
    return max(1, int(part * n_features))


def check_adds_trees(n_estimators: int, n_trees: int) -> None:
    """Raise ParameterError where `warm_start` would have to take trees away."""
    if n_estimators < n_trees:
        raise ParameterError(
            f"n_estimators={n_estimators} is less than the {n_trees} trees there are: warm_start "
            "adds trees, and takes none away."
        )


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    if is_number(random_state):
        return check_seed(random_state, name="random_state", bits=64)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


_NO_LIMIT = 2**32 - 1
