# SPDX-License-Identifier: Apache-2.0
"""Parameters of trees as scikit-learn's estimators have them, checked, as the core counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from mtboost import _core
from mtboost.base.arrays import Float32Array
from mtboost.base.checks import (
    check_choice,
    check_count,
    check_number,
    check_seed,
    is_integer,
    is_number,
)
from mtboost.errors import ParameterError
from mtboost.trees.projections import (
    NComponents,
    Projection,
    count_components,
    make_projection,
)

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


def features_per_node(
    max_features: MaxFeatures, n_features: int, name: str = "max_features"
) -> int:
    """Number of features that a node considers, as scikit-learn's forests count them."""
    if max_features is None:
        return n_features
    if isinstance(max_features, str):
        roots = {"sqrt": np.sqrt, "log2": np.log2}
        besides = "None, an integer >= 1, a number in (0, 1]"
        root = roots[check_choice(name, max_features, roots, besides=besides)]
        return max(1, int(root(n_features)))
    if is_integer(max_features):
        return min(check_count(name, max_features, low=1), n_features)
    besides = "'sqrt', 'log2', None, an integer >= 1"
    part = check_number(name, max_features, above=0.0, high=1.0, besides=besides)
    return max(1, int(part * n_features))


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    if is_number(random_state):
        return check_seed(random_state, name="random_state", bits=64)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def projection_of(
    projection: Projection,
    n_components: NComponents,
    n_outputs: int,
    *,
    is_shared: bool,
    principal_components: Callable[[int], Float32Array] | None = None,
) -> _core.ForestProjection | None:
    """Return what :func:`make_projection` does; refuse a matrix that parameters contradict."""
    made = make_projection(
        projection,
        n_components,
        n_outputs,
        is_shared=is_shared,
        principal_components=principal_components,
    )
    if made is None or isinstance(projection, str):
        return made
    matrix = np.asarray(projection, dtype=np.float32)
    n_given = len(matrix)
    if n_components != "log" and count_components(n_components, n_outputs) != n_given:
        raise ParameterError(
            f"n_components is {n_components!r}, but projection is a matrix of {n_given} "
            f"components, its rows: leave n_components out."
        )
    if not matrix.any():
        raise ParameterError(
            "projection is a matrix of zeros, on which no split can be found: give each component "
            "an output that is not 0."
        )
    return made


_NO_LIMIT = 2**32 - 1
