"""The search for a common model: large steps, one choice after the other.

How deep trees are, unless the user says; then leaves, pooled or partially pooled with much or
little shrinkage; then whether nodes may divide tasks, whether trees are symmetric, and how many
rows they see. Less sharing must be better by more than one standard error of the difference, over
all validation rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mtboost.arguments import may_split_tasks
from mtboost.dataset import Dataset
from mtboost.pooled_leaves import Pooling, RelativePooling
from mtboost.sharing_evidence import row_losses, row_weights
from mtboost.stages import TwoStages

_Losses = npt.NDArray[np.float64]

#: Rows to train on, and to validate on, when settings and ways to share are compared.
_MOST_ROWS = 100_000
#: Depths of the common model's trees.
_DEPTHS = (2, 4, 6)
#: κ as multiples of what a task has on average.
_POOLINGS = (2.0, 0.5, 0.1)
#: c of cuts between tasks: as a library's categorical column.
_TASK_PENALTY = 0.0
#: Parts of the rows that each tree sees.
_SUBSAMPLES = (0.7, 0.5)


@dataclass(frozen=True, slots=True)
class Setting:
    """How the common model is trained."""

    size: str
    pooling: float | None = None  # a multiple of what a task has on average
    has_task_splits: bool = False
    subsample: float = _SUBSAMPLES[0]
    is_symmetric: bool = True

    def __str__(self) -> str:
        leaves = "pooled" if self.pooling is None else f"pooling {self.pooling:g}"
        cuts = ["task splits"] * self.has_task_splits
        rows = [f"{self.subsample:g} of the rows"] * (self.subsample != _SUBSAMPLES[0])
        trees = ["symmetric"] * self.is_symmetric
        return ", ".join([self.size, leaves, *cuts, *rows, *trees])

    def sized(self, stages: TwoStages, size: str | None = None) -> TwoStages:
        """Stages with trees of this size, or another one, on this part of the rows."""
        sized = sizes_of(stages)[size or self.size]
        params = stages.backend.with_sampling(sized.params, self.subsample)
        return replace(sized, params=params, symmetric_trees=self.is_symmetric)

    def applied(self, stages: TwoStages, pooling: Pooling) -> TwoStages:
        return replace(
            self.sized(stages),
            pooling=pooling,
            task_penalty=_TASK_PENALTY if self.has_task_splits else None,
        )


class Search:
    """The common model with the least mean loss over all validation rows, so far."""

    def __init__(self, stages: TwoStages, train: Dataset, valid: Dataset) -> None:
        self.stages = stages
        self._train = train
        self.valid = valid
        self.losses: dict[Setting, float] = {}
        self.best: Setting
        self.of_rows: _Losses
        self._pooling: Pooling

    def look_at(self, *settings: Setting, n_errors: float) -> None:
        """Train by each setting that has not been tried.

        A model is kept if it is better than the best so far by more than so many standard errors of
        the difference.
        """
        for setting in settings:
            if setting in self.losses:
                continue
            factor = setting.pooling
            stages = setting.applied(
                self.stages, None if factor is None else RelativePooling(factor)
            )
            common = stages.fit_common(self._train, self.valid)
            margins = stages.followed_margins(common, self.valid)
            of_rows = row_losses(stages, self.valid, margins)
            weights = row_weights(self.valid)
            if not self.losses or is_better(of_rows, self.of_rows, weights, n_errors):
                self.best, self.of_rows = setting, of_rows
                self._pooling = common.trees.pooled.pooling
            self.losses[setting] = float(np.average(of_rows, weights=weights))

    def chosen(self, stages: TwoStages) -> TwoStages:
        """These stages with the best setting; κ as it was found."""
        return self.best.applied(stages, self._pooling)


def is_better(losses: _Losses, others: _Losses, weights: _Losses, n_errors: float = 1.0) -> bool:
    """Whether losses of the same rows are smaller by more than so many standard errors."""
    gains = others - losses
    mean = np.average(gains, weights=weights)
    error = np.sqrt((weights**2 * (gains - mean) ** 2).sum()) / weights.sum()
    return bool(mean > n_errors * error)


def search(stages: TwoStages, train: Dataset, valid: Dataset) -> Search:
    """Search one setting after the other; the size of trees again when the others are found."""
    search = Search(stages, train, valid)
    sizes = sizes_of(stages)
    is_free = len(sizes) > 1
    first = [Setting(size, is_symmetric=is_free or stages.symmetric_trees) for size in sizes]
    search.look_at(*first, n_errors=0.0)
    if train.tasks.n_tasks > 1:
        search.look_at(*(replace(search.best, pooling=each) for each in _POOLINGS), n_errors=1.0)
        pooling = search.best.pooling
        if may_split_tasks(train):
            splits = [replace(each, has_task_splits=True) for each in first]
            search.look_at(*splits, n_errors=1.0)
            both = replace(search.best, pooling=pooling, has_task_splits=True)
            search.look_at(both, n_errors=1.0)
        search.look_at(*(replace(search.best, size=size) for size in sizes), n_errors=0.0)
    if is_free and not stages.symmetric_trees:
        others = (replace(search.best, size=size, is_symmetric=False) for size in sizes)
        search.look_at(*others, n_errors=0.0)
    if stages.backend.with_sampling(stages.params, _SUBSAMPLES[0]) != stages.params:
        parts = (replace(search.best, subsample=part) for part in _SUBSAMPLES)
        search.look_at(*parts, n_errors=0.0)
    return search


def sizes_of(stages: TwoStages) -> dict[str, TwoStages]:
    """Trees of several sizes, or of the size that the user wants."""
    sizes = {depth: stages.backend.with_size(stages.params, depth) for depth in _DEPTHS}
    return {
        f"depth {depth}": replace(stages, params=params)
        for depth, params in sizes.items()
        if params is not None
    } or {"given size": stages}


def part_of(data: Dataset) -> Dataset:
    """Rows enough to compare by, the same part of each task; all if there are no more."""
    if data.n_rows <= _MOST_ROWS:
        return data
    order = np.argsort(data.tasks.codes, kind="stable")
    rank = np.empty(data.n_rows, np.int64)
    rank[order] = np.arange(data.n_rows) - np.repeat(
        np.cumsum(data.tasks.counts) - data.tasks.counts, data.tasks.counts
    )
    every = -(-data.n_rows // _MOST_ROWS)
    return data.take(np.flatnonzero(rank % every == 0))
