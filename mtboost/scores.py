"""Split scores that a user names or writes (zhang2019, section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.errors import ParameterError

ScoreFunction = Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32]], npt.ArrayLike]
Name = Literal["plain", "entropy", "variance"]
Score = Name | ScoreFunction | _core.SplitScore
Beta = float | Literal["auto"]

_NAMES = ("plain", "entropy", "variance")


def make_split_score(score: Score, beta: Beta = "auto") -> _core.SplitScore | None:
    """Turn a name or function into a split score of the core; None ranks cuts by the pooled gain.

    Parameters
    ----------
    score : {"plain", "entropy", "variance"} or callable or SplitScore
        With s the gain of the pooled rows and s^t that of task t's rows:

        * ``"plain"``: S = s.
        * ``"entropy"``: S = s · (−Σ P_t ln P_t) with P_t = max(s^t, 0) / Σ max(s^t, 0) (eq. 5).
        * ``"variance"``: S = s − β v with v the variance of the s^t (eq. 6).
        * a callable ``score(s, task_gains) -> S`` with arrays of shape (n_cuts,),
          (n_cuts, n_tasks_present) and (n_cuts,), called for the cuts of one feature in one node.
    beta : float or "auto", default="auto"
        β of the variance score, in units of 1 / loss. ``"auto"`` takes S = s − sqrt(T v), which has
        no unit: 0 when one of T tasks has all the gain, s when all gain the same.

    Raises
    ------
    ParameterError
        Unknown name, or a β that is not a finite number >= 0.
    """
    if beta != "auto" and not (
        isinstance(beta, (int, float)) and math.isfinite(beta) and beta >= 0
    ):
        raise ParameterError(f"beta must be 'auto' or a finite number >= 0, found {beta!r}.")
    match score:
        case "plain":
            return None
        case "entropy":
            return _core.entropy_score()
        case "variance":
            return _core.deviation_score() if beta == "auto" else _core.variance_score(float(beta))
    if isinstance(score, _core.SplitScore):
        return score
    if callable(score):
        return _core.callable_score(score)
    raise ParameterError(
        f"split_score must be one of {', '.join(map(repr, _NAMES))} or a callable, found {score!r}."
    )
