# SPDX-License-Identifier: Apache-2.0
"""How much a search may cost: ``effort`` of :func:`mtboost.fit`.

A number of seconds is the balanced search with a limit. Before each common model but one it
predicts what this model and all that follows will take, from the slowest model so far; where that
would exceed the limit, the search goes on with what it has found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from mtboost.base.checks import check_choice, check_number, is_number

#: What time limits are measured by, in seconds.
clock: Callable[[], float] = time.monotonic

EffortName: TypeAlias = Literal["fast", "balanced", "thorough"]
EffortOption: TypeAlias = EffortName | float


@dataclass(frozen=True, slots=True)
class Effort:
    """Which settings a search compares, by how many rows and in how large steps.

    Attributes
    ----------
    learning_rate : float
        Least learning rate at which common models are compared.
    own_learning_rate : float
        Least learning rate of specific models.
    most_rows : int
        Rows to train on, and to validate on, when settings and ways to share are compared.
    most_rounds, most_rounds_of_many_rows : int
        Most rounds of a model that is compared; the second where there are more rows to train on
        than `most_rows`, for then the rounds of the final model are found with all of them.
    depths : tuple of int
        Depths of the common model's trees.
    depths_of_many_rows : tuple of int
        The same where there are more rows to train on than `most_rows`.
    poolings : tuple of float
        κ as multiples of what a task has on average.
    task_splits : tuple of str
        How nodes may separate tasks; see :mod:`mtboost.model.sharing.search`.
    random_strengths : tuple of float
        Noise in the choice of the splits of symmetric trees.
    subsamples : tuple of float
        Parts of the rows that each tree sees.
    min_rows_per_leaf : tuple of int
        Minimum numbers of rows per leaf to try, unless there are more rows to train on than
        `most_rows`: of many rows few are in small leaves.
    repeats : bool
        Whether depths and poolings are searched again with what has been found after them.
    n_tasks : int
        Tasks by which ways to share are compared.
    all_folds : bool
        Whether each model is trained in all folds; otherwise not if it is behind in the first ones.
    small_steps : bool
        Whether the chosen models are trained in the steps of the final model before their rounds
        are fixed; otherwise the rounds found in large steps are multiplied.
    seconds : float
        Time that the fit may take, from the beginning of the search.
    least_depth : int
        Depth of the common model that is trained in any case.
    rows_held_out_once : int
        Distinct rows from which on a single fifth is held out.
    """

    learning_rate: float
    own_learning_rate: float
    most_rows: int
    most_rounds: int
    most_rounds_of_many_rows: int
    depths: tuple[int, ...]
    depths_of_many_rows: tuple[int, ...]
    poolings: tuple[float, ...]
    task_splits: tuple[str, ...]
    random_strengths: tuple[float, ...]
    subsamples: tuple[float, ...]
    min_rows_per_leaf: tuple[int, ...]
    repeats: bool
    n_tasks: int
    all_folds: bool
    small_steps: bool
    least_depth: int
    rows_held_out_once: int
    seconds: float = math.inf

    def for_rows(self, n_rows: int, n_tasks: int) -> Effort:
        """The effort for this number of rows to train on: more of them can fill deeper trees."""
        if n_rows <= self.most_rows:
            return self
        deepest = max(self.depths)
        depths = [
            depth
            for depth in self.depths_of_many_rows
            if depth <= deepest or can_fill(depth, n_rows, n_tasks)
        ]
        depths = depths or list(self.depths)
        # The first depth from that of few rows on: more rows can fill deeper trees.
        least = min((depth for depth in depths if depth > self.least_depth), default=depths[-1])
        return replace(
            self,
            depths=tuple(depths),
            least_depth=least,
            min_rows_per_leaf=(),
            most_rounds=self.most_rounds_of_many_rows,
        )

    def n_models(self, are_nested: bool) -> int:
        """Most steps that a search can have: common models, ways to share and the final model."""
        n_depths, n_poolings = len(self.depths), len(self.poolings) * (1 + are_nested)
        n_splits = n_depths * len(self.task_splits) + n_poolings + 1
        n_trees = (n_depths if self.repeats else 1) + len(self.random_strengths)  # and deeper ones
        n_again = n_poolings + n_depths + 2 if self.repeats else 0
        n_linear, n_strata = 2 * (n_depths + 1) + 2, 1
        n_others = n_strata + n_splits + n_trees + n_again + n_linear + len(self.subsamples) - 1
        n_others += len(self.min_rows_per_leaf)
        return n_depths + n_others + _N_OF_TASKS


#: Rows of each task in a leaf, on average, from which on deeper trees are tried.
_ROWS_OF_A_LEAF = 4


def can_fill(depth: int, n_rows: int, n_tasks: int) -> bool:
    """Whether the leaves of trees have rows of each task, whose values are stored one by one."""
    return _ROWS_OF_A_LEAF * n_tasks * (1 << depth) <= n_rows


#: Steps after the common model: specific, independent and final models.
_N_OF_TASKS = 3

_BALANCED = Effort(
    learning_rate=0.2,
    own_learning_rate=0.1,
    most_rows=50_000,
    most_rounds=500,
    most_rounds_of_many_rows=200,
    depths=(2, 4, 6),
    depths_of_many_rows=(4, 6, 8),
    poolings=(2.0, 0.5, 0.1),
    task_splits=("descriptors",),
    random_strengths=(1.0,),
    subsamples=(0.7,),
    min_rows_per_leaf=(5, 20, 1),
    repeats=False,
    n_tasks=25,
    all_folds=False,
    small_steps=False,
    least_depth=4,
    rows_held_out_once=10_000,
)

EFFORTS: dict[EffortName, Effort] = {
    "fast": replace(
        _BALANCED,
        most_rows=30_000,
        depths=(4,),
        depths_of_many_rows=(6,),
        poolings=(0.5,),
        min_rows_per_leaf=(5, 1),
        rows_held_out_once=2000,
    ),
    "balanced": _BALANCED,
    "thorough": replace(
        _BALANCED,
        learning_rate=0.1,
        own_learning_rate=0.05,
        most_rows=100_000,
        most_rounds=1000,
        most_rounds_of_many_rows=400,
        depths_of_many_rows=(2, 4, 6, 8),
        task_splits=("few descriptors", "descriptors", "task splits"),
        random_strengths=(1.0, 0.0, 2.0),
        subsamples=(0.7, 0.5),
        repeats=True,
        n_tasks=100,
        all_folds=True,
        small_steps=True,
    ),
}


def effort_of(option: object) -> Effort:
    """Return the effort with a name, or that of a number of seconds."""
    if isinstance(option, Effort):
        return option
    if is_number(option):
        seconds = check_number("effort", option, above=0.0)
        return replace(EFFORTS["balanced"], seconds=seconds)
    name = check_choice("effort", option, tuple(EFFORTS), besides="a number of seconds")
    return EFFORTS[cast(EffortName, name)]


class TimeLimit:
    """Time that is left, and what is predicted to be needed.

    Parameters
    ----------
    seconds : float
        From now on.
    n_models_after : float
        What follows the search, as a multiple of the time of the slowest common model in it.
    """

    def __init__(self, seconds: float, n_models_after: float = 0.0) -> None:
        self._end = clock() + seconds
        self._n_after = n_models_after
        self._slowest = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the training of a common model."""
        start = clock()
        yield
        self._slowest = max(self._slowest, clock() - start)

    def has_time(self) -> bool:
        """Whether one more common model and all that follows are predicted to be in time."""
        return clock() + (1.0 + self._n_after) * self._slowest <= self._end
