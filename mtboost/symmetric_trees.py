"""Trees all nodes of whose levels have the same cut: what a user says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mtboost.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Symmetric:
    """How they are grown (docs/symmetric_trees.md).

    Attributes
    ----------
    random_strength : float
        ν, noise in the choice of cuts.
    """

    random_strength: float = 0.0

    @staticmethod
    def arguments(symmetric: Symmetric | None) -> dict[str, Any]:
        """Those of ``TaskSplit`` that mean it; None is ordinary trees."""
        if symmetric is None:
            return {}
        return {"symmetric_trees": True, "random_strength": symmetric.random_strength}


def check_symmetric(
    symmetric_trees: object, random_strength: object, score: object
) -> Symmetric | None:
    """What a user says of symmetric trees; None is ordinary ones.

    Raises
    ------
    ParameterError
        `score` is not ``"plain"``, or `random_strength` is below 0, or stands alone.
    TypeError
        One is not of its type.
    """
    if not isinstance(symmetric_trees, bool | np.bool_):
        raise TypeError(f"symmetric_trees must be True or False, found {symmetric_trees!r}.")
    if symmetric_trees and score != "plain":
        raise ParameterError(
            f"symmetric_trees=True needs split_score='plain', found {score!r}: all nodes of a "
            "level have one cut, and scores over tasks compare the cuts of one node."
        )
    if isinstance(random_strength, bool) or not isinstance(
        random_strength, int | float | np.integer | np.floating
    ):
        raise TypeError(f"random_strength must be a number, found {random_strength!r}.")
    if not 0.0 <= random_strength < np.inf:
        raise ParameterError(f"random_strength must be at least 0, found {random_strength!r}.")
    if random_strength and not symmetric_trees:
        raise ParameterError(
            f"random_strength={random_strength!r} is noise in the cuts of symmetric trees: set "
            "symmetric_trees=True, or leave it out."
        )
    return Symmetric(float(random_strength)) if symmetric_trees else None
