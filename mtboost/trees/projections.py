# SPDX-License-Identifier: Apache-2.0
"""Projections of many outputs to few components, as a user names or gives them (joly2016)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from mtboost import _core
from mtboost.base.checks import check_choice, check_count, check_number, is_integer
from mtboost.base.sklearn_input import reading_numbers
from mtboost.errors import ParameterError

Projection: TypeAlias = (
    Literal["subsample", "gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "pca"]
    | npt.NDArray[np.floating[Any]]
    | None
)
NComponents: TypeAlias = int | float | Literal["log"]
# Components that a row of gradients or labels may be projected to.
_MOST = 2**16
_AT_MOST_ALL = ("subsample", "hadamard", "pca")
_KINDS = ("gaussian", "rademacher", "achlioptas", "sparse", *_AT_MOST_ALL)


def make_projection(
    projection: Projection,
    n_components: NComponents,
    n_outputs: int,
    *,
    is_shared: bool,
    principal_components: Callable[[int], npt.NDArray[np.float32]] | None = None,
) -> _core.ForestProjection | None:
    """Return the projection that splits are found on; None stands for the outputs themselves.

    Parameters
    ----------
    projection : str, array-like of shape (n_components, n_outputs) or None
        A kind of random matrix, ``"pca"``, or a matrix.
    n_components : "log", int or float
        The natural logarithm of the number of outputs, a number, or a fraction of the outputs.
    n_outputs : int
    is_shared : bool
        Whether all trees have the same random matrix.
    principal_components : callable, optional
        For ``"pca"``: takes their number, at most that of the outputs, to a matrix of shape
        (n_components, n_outputs).

    Raises
    ------
    ParameterError
        The projection has an unknown name, is a matrix of zeros or of another number of outputs, or
        contradicts `n_components`.
    """
    check_projection(projection, n_components)
    if projection is None or n_outputs == 1:
        return None
    if not isinstance(projection, str):
        return _core.ForestProjection(_given_matrix(projection, n_components, n_outputs))
    count = count_components(n_components, n_outputs)
    if projection in _AT_MOST_ALL:
        count = min(count, n_outputs)
    if projection == "pca":
        assert principal_components is not None
        return _core.ForestProjection(principal_components(count))
    return _core.ForestProjection(projection, n_components=count, is_shared=bool(is_shared))


def check_projection(
    projection: Projection | str, n_components: NComponents, *, besides: tuple[str, ...] = ()
) -> None:
    """Raise ParameterError for what is wrong whatever the number of outputs.

    `besides` are names that the caller knows beside those of this module.
    """
    count_components(n_components, 1)
    if isinstance(projection, str):
        known = dict.fromkeys((*_KINDS, *besides))
        others = "None, a matrix of shape (n_components, n_outputs)"
        check_choice("projection", projection, known, besides=others)


def count_components(n_components: NComponents, n_outputs: int) -> int:
    """Return the number of components; some projections cannot have more than outputs."""
    if isinstance(n_components, str) and n_components == "log":
        return max(1, round(math.log(n_outputs)))
    if is_integer(n_components):
        return check_count("n_components", n_components, low=1, high=_MOST, besides="'log'")
    besides = f"'log', an integer from 1 to {_MOST}"
    part = check_number("n_components", n_components, above=0.0, high=_MOST, besides=besides)
    return max(1, round(part * n_outputs))


def _given_matrix(
    projection: Any, n_components: NComponents, n_outputs: int
) -> npt.NDArray[np.float32]:
    with reading_numbers("projection"):
        matrix: npt.NDArray[np.float32] = check_array(
            projection, dtype=np.float32, order="C", input_name="projection"
        )
    if matrix.shape[1] != n_outputs:
        raise ParameterError(
            f"projection has shape {matrix.shape}, but must have (n_components, {n_outputs}), "
            f"because y has {n_outputs} outputs."
        )
    n_given = len(matrix)
    if n_components != "log" and count_components(n_components, n_outputs) != n_given:
        raise ParameterError(
            f"n_components is {n_components!r}, but projection is a matrix of {n_given} "
            "components, its rows: leave n_components out."
        )
    if not matrix.any():
        raise ParameterError(
            "projection is a matrix of zeros, on which no split can be found: give each component "
            "an output that is not 0."
        )
    return matrix
