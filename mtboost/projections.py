"""Projections of many outputs to few components, as a user names or gives them (joly2016)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from mtboost import _core
from mtboost.errors import ParameterError

Projection: TypeAlias = (
    Literal["subsample", "gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "pca"]
    | npt.NDArray[np.floating[Any]]
    | None
)
NComponents: TypeAlias = int | float | Literal["log"]
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
    """What cuts are found on; None are the outputs themselves.

    Parameters
    ----------
    projection : str, array-like of shape (n_components, n_outputs) or None
        A kind of random matrix, ``"pca"``, or a matrix.
    n_components : "log", int or float
        The natural logarithm of the number of outputs, a number, or a part of the outputs.
    n_outputs : int
    is_shared : bool
        Whether all trees have the same random matrix.
    principal_components : callable, optional
        For ``"pca"``: takes their number, at most that of the outputs, to a matrix of shape
        (n_components, n_outputs).

    Raises
    ------
    ParameterError
        There is no such projection, or it is of another number of outputs.
    """
    check_projection(projection, n_components)
    if projection is None or n_outputs == 1:
        return None
    if not isinstance(projection, str):
        return _core.ForestProjection(_given_matrix(projection, n_outputs))
    count = count_components(n_components, n_outputs)
    if projection in _AT_MOST_ALL:
        count = min(count, n_outputs)
    if projection == "pca":
        assert principal_components is not None
        return _core.ForestProjection(principal_components(count))
    return _core.ForestProjection(projection, n_components=count, is_shared=bool(is_shared))


def check_projection(projection: Projection, n_components: NComponents) -> None:
    """Raise ParameterError for what is wrong whatever the number of outputs."""
    count_components(n_components, 1)
    if isinstance(projection, str) and projection not in _KINDS:
        raise ParameterError(
            f"projection is {projection!r}: it must be one of "
            f"{', '.join(map(repr, _KINDS))}, a matrix of shape (n_components, "
            f"n_outputs), or None."
        )


def check_seed(seed: int) -> None:
    """Raise unless the core can draw by it."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be an int, not {seed!r} of type {type(seed).__name__}.")
    if not 0 <= seed < 2**64:
        raise ParameterError(f"seed={seed} is out of range: pass a whole number from 0 to 2**64.")


def count_components(n_components: NComponents, n_outputs: int) -> int:
    """Components of so many outputs; some projections cannot have more than outputs."""
    if n_components == "log":
        return max(1, round(math.log(n_outputs)))
    if isinstance(n_components, int | np.integer) and not isinstance(n_components, bool):
        if n_components >= 1:
            return int(n_components)
        raise ParameterError(f"n_components is {n_components!r}: it must be an integer >= 1.")
    if isinstance(n_components, float) and n_components > 0.0:
        return max(1, round(n_components * n_outputs))
    raise ParameterError(
        f"n_components is {n_components!r}: it must be 'log', an integer >= 1, or a "
        f"positive part of the outputs."
    )


def _given_matrix(projection: Any, n_outputs: int) -> npt.NDArray[np.float32]:
    matrix: npt.NDArray[np.float32] = check_array(
        projection, dtype=np.float32, order="C", input_name="projection"
    )
    if matrix.shape[1] != n_outputs:
        raise ParameterError(
            f"projection has shape {matrix.shape}, but must have (n_components, {n_outputs}), "
            f"because y has {n_outputs} outputs."
        )
    return matrix
