# SPDX-License-Identifier: Apache-2.0
"""Split scores that a user names or writes (zhang2019, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.checks import check_choice, check_number

ScoreFunction = Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32]], npt.ArrayLike]
Name = Literal["plain", "entropy", "variance"]
Score = Name | ScoreFunction | _core.SplitScore
Beta = float | Literal["auto"]

_NAMES = ("plain", "entropy", "variance")


def make_split_score(score: Score, beta: Beta = "auto") -> _core.SplitScore | Literal["plain"]:
    """Return the split score of a name or a function.

    Parameters
    ----------
    score : {"plain", "entropy", "variance"} or callable or SplitScore
        With s the gain of the pooled rows, s^t that of the rows of task t and T the number of tasks
        in the node:

        * ``"plain"``: S = s.
        * ``"entropy"``: S = s · (−Σ P_t ln P_t) with P_t = max(s^t, 0) / Σ max(s^t, 0) (eq. 5).
        * ``"variance"``: S = s − β v with v the variance of the s^t (eq. 6).
        * a callable ``score(s, task_gains) -> S`` with arrays of shape (n_splits,),
          (n_splits, T) and (n_splits,), called for the candidate splits of one feature in one node.
        * a SplitScore, which is returned unchanged.
    beta : float or "auto", default="auto"
        β of the variance score, in units of 1 / loss. ``"auto"`` takes S = s − sqrt(T v), which has
        no unit: it is 0 if one of T tasks has all the gain, and s if all tasks gain the same.

    Returns
    -------
    SplitScore or "plain"
        For ``split_score=`` of :func:`mtboost.fit` and the plug-ins. ``"plain"``, which ranks
        splits by the pooled gain, is its own score.

    Raises
    ------
    ParameterError
        Unknown name, or a β that is not a finite number >= 0.

    Examples
    --------
    >>> import mtboost
    >>> mtboost.make_split_score("plain")
    'plain'
    >>> score = mtboost.make_split_score("variance", beta=0.5)
    >>> least_task = mtboost.make_split_score(lambda s, task_gains: task_gains.min(axis=1))

    References
    ----------
    zhang2019, section 3.2, eq. 5 and 6 (key in docs/papers.md).
    """
    is_auto = isinstance(beta, str) and beta == "auto"
    number = 0.0 if is_auto else check_number("beta", beta, low=0.0, besides="'auto'")
    if isinstance(score, _core.SplitScore):
        return score
    if callable(score):
        return _core.callable_score(score)
    match check_choice("split_score", score, _NAMES, besides="a callable"):
        case "entropy":
            return _core.entropy_score()
        case "variance":
            return _core.deviation_score() if is_auto else _core.variance_score(number)
    return "plain"
