# SPDX-License-Identifier: Apache-2.0
"""Trees all nodes of whose levels have the same cut: what a user says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mtboost.base.checks import check_number, check_switch
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
    is_symmetric = check_switch("symmetric_trees", symmetric_trees)
    strength = check_number("random_strength", random_strength, low=0.0)
    if is_symmetric and score != "plain":
        raise ParameterError(
            f"symmetric_trees=True needs split_score='plain', found {score!r}: all nodes of a "
            "level have one cut, and scores over tasks compare the cuts of one node."
        )
    if strength and not is_symmetric:
        raise ParameterError(
            f"random_strength={random_strength!r} is noise in the cuts of symmetric trees: set "
            "symmetric_trees=True, or leave it out."
        )
    return Symmetric(strength) if is_symmetric else None
