# SPDX-License-Identifier: Apache-2.0
"""The search for a common model: large steps, one choice after the other.

How deep trees are, unless the user says; then leaves, pooled or partially pooled with much or
little shrinkage; then whether nodes may divide tasks, and by what; whether trees are symmetric, and
with how much noise; how many rows they see. A model that shares less than the pooled one must be
better by more than one standard error of the difference, over all validation rows; of those that
do, the best is taken. What the user has fixed stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.validation import Folds
from mtboost.model.arguments import may_split_tasks
from mtboost.model.sharing.common_by_fold import fit_common_by_fold
from mtboost.model.stages.settings import Settings
from mtboost.trees.pooled_leaves import Pooling, PoolingOption, RelativePooling
from mtboost.trees.task_descriptors import MOST_DESCRIPTORS

_Losses = npt.NDArray[np.float64]

#: Rows to train on, and to validate on, when settings and ways to share are compared.
_MOST_ROWS = 100_000
#: Most rounds in large steps that settings are compared by.
_MOST_ROUNDS = 400
#: Tasks with fewer rows on average are taken as a whole.
_SMALL_TASK = 1000
#: Depths of the common model's trees.
_DEPTHS = (2, 4, 6)
#: κ as multiples of what a task has on average.
_POOLINGS = (2.0, 0.5, 0.1)
#: Ways to divide tasks: the number of descriptors of each kind, or at the price c of a category, 0
#: as the library's own.
_TASK_SPLITS: dict[str, dict[str, Any]] = {
    "few descriptors": {"n_descriptors": 0},
    "descriptors": {"n_descriptors": MOST_DESCRIPTORS},
    "task splits": {"task_splits": 0.0},
}
_GIVEN_SPLITS = "given task splits"
#: Noise in the choice of the cuts of symmetric trees.
_RANDOM_STRENGTHS = (1.0, 0.0, 2.0)
#: Parts of the rows that each tree sees.
_SUBSAMPLES = (0.7, 0.5)


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings of a common model."""

    size: str
    #: A multiple of what a task has on average, or what the user has fixed.
    pooling: float | Literal["given"] | None = None
    task_splits: str | None = None
    subsample: float = _SUBSAMPLES[0]
    random_strength: float | None = _RANDOM_STRENGTHS[0]  # of symmetric trees; None: ordinary ones

    def __str__(self) -> str:
        leaves = "pooled" if self.pooling is None else f"{self.pooling} pooling"
        if isinstance(self.pooling, float):
            leaves = f"pooling {self.pooling:g}"
        cuts = [self.task_splits] if self.task_splits else []
        rows = [f"{self.subsample:g} of the rows"] * (self.subsample != _SUBSAMPLES[0])
        trees = []
        if self.random_strength is not None:
            trees = ["symmetric", f"random strength {self.random_strength:g}"]
        return ", ".join([self.size, leaves, *cuts, *rows, *trees])

    def sized(self, settings: Settings, size: str | None = None) -> Settings:
        """Stages with trees of this size, or another one, on this part of the rows."""
        sized = sizes_of(settings)[size or self.size]
        params = settings.backend.with_sampling(sized.params, self.subsample)
        options = replace(
            settings.options,
            symmetric_trees=self.random_strength is not None,
            random_strength=self.random_strength or 0.0,
        )
        return replace(sized, params=params, options=options)

    def applied(self, settings: Settings, pooling: Pooling | PoolingOption) -> Settings:
        splits = {} if self.task_splits is None else _TASK_SPLITS.get(self.task_splits, {})
        sized = self.sized(settings)
        return replace(sized, options=replace(sized.options, pooling=pooling, **splits))

    @property
    def is_pooled(self) -> bool:
        """Whether nothing is a single task's."""
        return self.pooling is None and self.task_splits is None


class Search:
    """The common model with the least mean loss over all validation rows, so far."""

    def __init__(self, settings: Settings, folds: Folds) -> None:
        self.settings = settings
        self._limited = replace(settings, rounds=min(settings.rounds, _MOST_ROUNDS))
        self.folds = folds
        self._weights = folds.valid_weights()
        self.losses: dict[Setting, float] = {}
        self.best: Setting
        self.of_rows: _Losses
        self._pooling: Pooling
        #: Least mean loss of any model, in each fold.
        self._least = [np.inf] * len(folds.pairs)

    def try_settings(self, *settings: Setting) -> None:
        """Train by each setting that has not been tried.

        A model is kept if it is better than the best so far; if it shares less than a pooled one,
        by more than one standard error of the difference.
        """
        for setting in settings:
            if setting in self.losses:
                continue
            factor = setting.pooling
            relative = RelativePooling(factor) if isinstance(factor, float) else None
            own = setting.applied(self._limited, relative or self._limited.options.pooling)
            common = fit_common_by_fold(own, self.folds, to_beat=self._least)
            of_rows = common.losses_of_rows()
            self._least = list(map(min, self._least, common.least_losses()))
            if not self.losses or is_better(
                of_rows, self.of_rows, self._weights, float(self.best.is_pooled > setting.is_pooled)
            ):
                self.best, self.of_rows = setting, of_rows
                self._pooling = common.models[0].trees.pooled.pooling
            self.losses[setting] = float(np.average(of_rows, weights=self._weights))

    def chosen(self, settings: Settings) -> Settings:
        """These settings with the best setting; κ as it was found."""
        return self.best.applied(settings, self._pooling)


def is_better(losses: _Losses, others: _Losses, weights: _Losses, n_errors: float = 1.0) -> bool:
    """Return whether losses of the same rows are lower by more than `n_errors` standard errors."""
    gains = others - losses
    mean = np.average(gains, weights=weights)
    error = np.sqrt((weights**2 * (gains - mean) ** 2).sum()) / weights.sum()
    return bool(mean > n_errors * error)


def search(settings: Settings, folds: Folds) -> Search:
    """Search one setting after the other; the size of trees again when the others are found."""
    search = Search(settings, folds)
    train = folds.pairs[0][0]
    sizes, options = sizes_of(settings), settings.options
    strengths = _strengths_of(settings, len(sizes) > 1)
    first = [
        Setting(
            size,
            pooling=None if options.pooling is None else "given",
            task_splits=_GIVEN_SPLITS if options.may_split_tasks else None,
            random_strength=strengths[0],
        )
        for size in sizes
    ]
    search.try_settings(*first)
    if train.tasks.n_tasks > 1:
        poolings = _poolings(settings)
        search.try_settings(*(replace(search.best, pooling=each) for each in poolings))
        if (
            "task_splits" not in settings.given
            and options.split_score == "plain"
            and may_split_tasks(train)
        ):
            few, *many = _TASK_SPLITS
            search.try_settings(replace(search.best, task_splits=few))
            search.try_settings(*(replace(each, task_splits=many[0]) for each in first))
            search.try_settings(*(replace(search.best, task_splits=each) for each in many))
            search.try_settings(
                *(replace(search.best, pooling=each) for each in (first[0].pooling, *poolings))
            )
        search.try_settings(*(replace(search.best, size=size) for size in sizes))
    search.try_settings(*(replace(search.best, random_strength=each) for each in strengths))
    if strengths[0] is not None and "symmetric_trees" not in settings.given:
        search.try_settings(
            *(replace(search.best, size=size, random_strength=None) for size in sizes)
        )
    if settings.backend.with_sampling(settings.params, _SUBSAMPLES[0]) != settings.params:
        search.try_settings(*(replace(search.best, subsample=part) for part in _SUBSAMPLES))
    return search


def _poolings(settings: Settings) -> tuple[float, ...]:
    """κ to try, as multiples: none if the user has fixed it, or what does not go with it."""
    is_fixed = "pooling" in settings.given or settings.params.get("monotone_constraints")
    return () if is_fixed else _POOLINGS


def _strengths_of(settings: Settings, is_free: bool) -> tuple[float | None, ...]:
    """Noise in the cuts of symmetric trees; None for ordinary trees, as a given size may want."""
    options = settings.options
    if not options.symmetric_trees and (
        "symmetric_trees" in settings.given or not is_free or options.split_score != "plain"
    ):
        return (None,)
    if options.symmetric_trees and "random_strength" in settings.given:
        return (options.random_strength,)
    return _RANDOM_STRENGTHS


def sizes_of(settings: Settings) -> dict[str, Settings]:
    """Trees of several sizes, or of the size that the user wants."""
    sizes = {depth: settings.backend.with_size(settings.params, depth) for depth in _DEPTHS}
    return {
        f"depth {depth}": replace(settings, params=params)
        for depth, params in sizes.items()
        if params is not None
    } or {"given size": settings}


def part_of(folds: Folds) -> Folds:
    """Rows enough to train and to validate on, all if there are no more.

    Of small tasks whole ones of all sizes, for how much they should share depends on their sizes;
    of large tasks the same part of each.
    """
    if all(part.n_rows <= _MOST_ROWS for pair in folds.pairs for part in pair):
        return folds
    return Folds(tuple(_part_of_pair(*pair) for pair in folds.pairs))


def _part_of_pair(train: Dataset, valid: Dataset) -> tuple[Dataset, Dataset]:
    every = -(-train.n_rows // _MOST_ROWS)
    are_small = train.n_rows <= _SMALL_TASK * train.tasks.n_tasks
    if every == 1 or not are_small or 2 * valid.tasks.n_tasks < train.tasks.n_tasks:
        return _every_row(train, every), _every_row(valid, -(-valid.n_rows // _MOST_ROWS))
    by_size = sorted(valid.tasks, key=lambda task: len(train.tasks.rows(task)))
    kept = by_size[::every]
    return train.of_tasks(kept), valid.of_tasks(kept)


def _every_row(data: Dataset, every: int) -> Dataset:
    """Every second, third, ... row of each task."""
    if every == 1:
        return data
    order = np.argsort(data.tasks.codes, kind="stable")
    rank = np.empty(data.n_rows, np.int64)
    rank[order] = np.arange(data.n_rows) - np.repeat(
        np.cumsum(data.tasks.counts) - data.tasks.counts, data.tasks.counts
    )
    return data.take(np.flatnonzero(rank % every == 0))
