# SPDX-License-Identifier: Apache-2.0
"""The search for a common model: large steps, one choice after the other.

How deep trees are, unless the user says; whether hazards of all tasks have one baseline; then
leaves, pooled or partially pooled with much or little shrinkage; then whether nodes may split
tasks, and by what; whether trees are symmetric, and with how much noise; still deeper trees where
the deepest are best; how many rows they see, and their leaves have; whether they follow linear
effects or random intercepts. A model that shares less than the pooled one must be better by more
than one standard error of the difference, over all validation rows; of those that do, the best is
taken. What the user has fixed stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.progress import Progress
from mtboost.base.queries import ascending, begins_of
from mtboost.base.tasks import TaskSet, ranks_in_tasks
from mtboost.base.validation import Folds
from mtboost.model.sharing.common_by_fold import CommonByFold, fit_common_by_fold
from mtboost.model.sharing.effort import Effort, TimeLimit, can_fill
from mtboost.model.stages.common import SharedByModels
from mtboost.model.stages.linear_effects import why_no_linear_effects
from mtboost.model.stages.settings import LinearOption, Settings
from mtboost.trees.losses import has_hazards
from mtboost.trees.pooling import Pooling, PoolingOption, RelativePooling
from mtboost.trees.task_descriptors import MOST_DESCRIPTORS
from mtboost.trees.tree_options import ONE_STRATUM

_Losses = npt.NDArray[np.float64]

#: Depth up to which trees are tried where the deepest of the search are best.
_MOST_DEPTH = 8
#: Tasks with fewer rows on average are taken as a whole.
_SMALL_TASK = 1000
#: Mean hessian of a row below which a library's minimum hessian of 1 per leaf is one of many rows,
#: the more, the rarer a class and the better it is predicted. A minimum of one row is then tried.
_SMALL_HESSIAN = 0.5
#: Ways to split tasks: the number of descriptors of each kind, or at the price c of a category, 0
#: as the library's own.
_TASK_SPLITS: dict[str, dict[str, Any]] = {
    "few descriptors": {"n_descriptors": 0},
    "descriptors": {"n_descriptors": MOST_DESCRIPTORS},
    "task splits": {"task_splits": 0.0},
}
#: What is tried in trees of all depths.
_SPLITS_OF_ALL_DEPTHS = "descriptors"
_GIVEN_SPLITS = "given task splits"
#: Share of groups in the variance of the values of nested tasks.
_GROUP_SHARE = 0.75
_LINEAR_NAMES: dict[LinearOption, str] = {
    "intercepts": "random intercepts",
    True: "linear effects",
}
#: The part of the rows that each tree sees, unless another is searched.
_SUBSAMPLE = 0.7


@dataclass(frozen=True, slots=True)
class MinLeaf:
    """Minimum rows per leaf, and the sum of hessians that as many rows have on average."""

    n_rows: int
    weight: float


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings of a common model."""

    #: Depth of the trees; None as the user has fixed it.
    depth: int | None
    random_strength: float | None  # of symmetric trees; None: ordinary ones
    #: A multiple of what a task has on average, or what the user has fixed.
    pooling: RelativePooling | Literal["given"] | None = None
    task_splits: str | None = None
    subsample: float = _SUBSAMPLE
    #: Whether the trees follow linear effects, or intercepts, that differ between tasks.
    linear: LinearOption = False
    #: Whether risk sets of hazards have rows of all tasks.
    one_stratum: bool = False
    #: None as the user has fixed it, or as the library has it.
    min_leaf: MinLeaf | None = None

    def __str__(self) -> str:
        leaves = "pooled" if self.pooling is None else f"{self.pooling} pooling"
        if isinstance(self.pooling, RelativePooling):
            kind = "nested pooling" if self.pooling.group_share else "pooling"
            leaves = f"{kind} {self.pooling.factor:g}"
        task_splits = [self.task_splits] if self.task_splits else []
        rows = [f"{self.subsample:g} of the rows"] * (self.subsample != _SUBSAMPLE)
        trees = []
        if self.random_strength is not None:
            trees = ["symmetric", f"random strength {self.random_strength:g}"]
        first = [_LINEAR_NAMES[self.linear]] if self.linear else []
        first += [ONE_STRATUM] * self.one_stratum
        size = "given size" if self.depth is None else f"depth {self.depth}"
        least = [f"at least {_rows(self.min_leaf.n_rows)} per leaf"] if self.min_leaf else []
        return ", ".join([*first, size, leaves, *task_splits, *rows, *least, *trees])

    def sized(self, settings: Settings) -> Settings:
        """Stages with trees of this size on this part of the rows."""
        params = settings.params
        if self.depth is not None:
            params = settings.backend.with_size(params, self.depth) or params
        if self.min_leaf is not None:
            least = self.min_leaf
            params = settings.backend.with_min_leaf(params, least.n_rows, least.weight) or params
        options = replace(
            settings.options,
            symmetric_trees=self.random_strength is not None,
            random_strength=self.random_strength or 0.0,
            one_stratum=self.one_stratum,
        )
        params = settings.backend.with_sampling(params, self.subsample)
        return replace(settings, params=params, options=options)

    def applied(self, settings: Settings, pooling: Pooling | PoolingOption) -> Settings:
        splits = {} if self.task_splits is None else _TASK_SPLITS.get(self.task_splits, {})
        sized = self.sized(settings)
        return replace(
            sized,
            options=replace(sized.options, pooling=pooling, **splits),
            linear_effects=self.linear or sized.linear_effects,
        )

    @property
    def is_pooled(self) -> bool:
        """Whether nothing is a single task's."""
        return self.pooling is None and self.task_splits is None and not self.linear


def _rows(n_rows: int) -> str:
    return "1 row" if n_rows == 1 else f"{n_rows} rows"


class Search:
    """The common model with the least mean loss over all validation rows, so far.

    Attributes
    ----------
    settings : Settings
        Where the search begins, in large steps.
    folds : Folds
    losses : dict of Setting to float
        Mean validation loss of each model that was tried, estimated where it was not trained in all
        folds; NaN of what there was no time for.
    best : Setting
    common : CommonByFold
        The models of the best setting.
    of_rows : ndarray of float64
        Their loss of each validation row.
    """

    best: Setting
    common: CommonByFold
    of_rows: _Losses

    def __init__(
        self,
        settings: Settings,
        folds: Folds,
        effort: Effort,
        progress: Progress,
        limit: TimeLimit,
        least: Setting,
    ) -> None:
        self.settings = settings
        self.folds = folds
        self.losses: dict[Setting, float] = {}
        self._limited = replace(settings, rounds=min(settings.rounds, effort.most_rounds))
        self._least_setting = least
        self._are_all_folds_trained = effort.all_folds
        self._limit = limit
        self._weights = folds.valid_weights()
        self._progress = progress
        self._shared = [SharedByModels() for _ in folds.pairs]
        self._has_own = False  # whether `best` was tried here, not before the search began again
        #: Least mean loss of any model, in each fold.
        self._least = [np.inf] * len(folds.pairs)

    def try_settings(self, *settings: Setting) -> None:
        """Train by each setting that has not been tried.

        A model is kept if it is better than the best so far; if it shares less than a pooled one,
        by more than one standard error of the difference. Unless the effort is thorough, one that
        is worse by more than that in the first folds is not trained in the others.
        """
        for setting in settings:
            if setting in self.losses:
                continue
            if setting != self._least_setting and not self._limit.has_time():
                self.losses[setting] = np.nan
                continue
            known = [loss for loss in self.losses.values() if not np.isnan(loss)]
            best = f"least loss {min(known):.5g}" if known else ""
            self._progress.begin(f"common model, {setting}", best)
            relative = setting.pooling if isinstance(setting.pooling, RelativePooling) else None
            own = setting.applied(self._limited, relative or self._limited.options.pooling)
            # The first model of all has none to be behind.
            may_end = not self._are_all_folds_trained and np.isfinite(self._least).any()
            is_beaten = self._is_beaten if may_end else None
            with self._limit.measured():
                common = fit_common_by_fold(own, self.folds, self._least, self._shared, is_beaten)
            of_rows, n_folds = common.losses_of_rows(), len(common.models)
            least = map(min, self._least, common.least_losses())
            self._least = [*least, *self._least[n_folds:]]
            if n_folds < len(self.folds.pairs):
                gain, _ = _gain(of_rows, self.of_rows[: len(of_rows)], common.folds)
                self.losses[setting] = self._mean(self.of_rows) - gain
                continue
            self.losses[setting] = self._mean(of_rows)
            if not self._has_own or is_better(
                of_rows, self.of_rows, self.folds, float(self.best.is_pooled > setting.is_pooled)
            ):
                self.best, self.common, self.of_rows = setting, common, of_rows
                self._has_own = True

    def _is_beaten(self, first: Folds, losses: _Losses) -> bool:
        return is_behind(self.of_rows, first, losses)

    def _mean(self, losses: _Losses) -> float:
        return float(np.average(losses, weights=self._weights))

    def begun_again(self) -> Search:
        """Return a search of other models, which must come near the best so far."""
        other = copy(self)
        other.losses, other._has_own = {}, False
        return other

    @property
    def loss(self) -> float:
        """Mean validation loss of the best model."""
        return self.losses.get(self.best, np.inf)

    def chosen(self, settings: Settings) -> Settings:
        """These settings with the best setting; κ as it was found."""
        return self.best.applied(settings, self.common.models[0].trees.pooled.pooling)

    def fit_chosen(self, settings: Settings, to_beat: _Losses | None = None) -> CommonByFold:
        """Train the best setting with these settings to the end.

        Unless the effort is thorough, a model that is behind the losses `to_beat` of the validation
        rows in the first folds is not trained in the others.
        """
        is_beaten = None
        if to_beat is not None and not self._are_all_folds_trained:
            is_beaten = partial(is_behind, to_beat)
        return fit_common_by_fold(
            self.chosen(settings), self.folds, shared=self._shared, is_beaten=is_beaten
        )

    def vary(self, **values: Sequence[Any]) -> None:
        """Try other values of one field of the best setting."""
        for name, others in values.items():
            self.try_settings(*(replace(self.best, **{name: each}) for each in others))


def is_behind(others: _Losses, first: Folds, losses: _Losses) -> bool:
    """Return whether losses in the first folds are above others by more than one standard error."""
    gain, error = _gain(others[: len(losses)], losses, first)
    return gain > error


def is_better(losses: _Losses, others: _Losses, folds: Folds, n_errors: float = 1.0) -> bool:
    """Return whether losses of all validation rows are lower by more than `n_errors` errors.

    The standard error of a weighted mean; rows of one group count as one observation. Where they
    are of new tasks a lower loss is enough: no known task takes its own values from them.
    """
    gain, error = _gain(losses, others, folds)
    return gain > (0.0 if folds.are_new_tasks else n_errors) * error


def _gain(losses: _Losses, others: _Losses, folds: Folds) -> tuple[float, float]:
    """Return by how much losses are lower than others on average, and its standard error."""
    gains, weights, groups = others - losses, folds.valid_weights(), folds.valid_groups()
    mean = np.average(gains, weights=weights)
    deviations = weights * (gains - mean)
    if groups is not None:
        deviations = np.asarray(np.bincount(groups, deviations), np.float64)
    return float(mean), float(np.sqrt((deviations**2).sum()) / weights.sum())


def search(
    settings: Settings, folds: Folds, effort: Effort, progress: Progress, limit: TimeLimit
) -> Search:
    """Search one setting after the other; the size of trees again when the others are found.

    Where `limit` is short, the only one is that of the first kind with the least depth of `effort`.
    """
    options, depths = settings.options, depths_of(settings, effort)
    strengths = _strengths_of(settings, effort)
    first = [
        Setting(
            depth,
            strengths[0],
            pooling=None if options.pooling is None else "given",
            task_splits=_GIVEN_SPLITS if options.may_split_tasks else None,
        )
        for depth in depths
    ]
    least = next((each for each in first if each.depth == effort.least_depth), first[0])
    search = Search(settings, folds, effort, progress, limit, least)
    search.try_settings(*first)
    if folds.tasks.n_tasks > 1:
        if has_hazards(settings.params.get("objective")):
            search.vary(one_stratum=[True])
        poolings = _poolings(settings, effort, folds.tasks)
        if effort.repeats:
            search.vary(pooling=poolings)
        if _may_split_tasks(settings, folds):
            for splits in _task_splits(settings, effort):
                if splits == _SPLITS_OF_ALL_DEPTHS:
                    search.try_settings(*(replace(each, task_splits=splits) for each in first))
                search.vary(task_splits=[splits])
        search.vary(pooling=[first[0].pooling, *poolings])
        if effort.repeats:
            search.vary(depth=depths)
    search.vary(random_strength=strengths)
    if strengths[0] is not None and "symmetric_trees" not in settings.given:
        ordinary = replace(search.best, random_strength=None)
        others = depths if effort.repeats else [search.best.depth]
        search.try_settings(*(replace(ordinary, depth=depth) for depth in others))
    if search.best.depth == max(effort.depths) > min(effort.depths):
        train, _ = folds.pairs[0]
        deeper = range(search.best.depth + 2, _MOST_DEPTH + 1, 2)
        search.vary(
            depth=[each for each in deeper if can_fill(each, train.n_rows, train.tasks.n_tasks)]
        )
    if settings.backend.with_sampling(settings.params, _SUBSAMPLE) != settings.params:
        search.vary(subsample=effort.subsamples)
    search.vary(min_leaf=_min_leaves(search, effort))
    return search


def with_linear_effects(found: Search, effort: Effort) -> Search | None:
    """Return the best search whose trees follow effects of tasks; None unless it is ahead.

    Large steps learn lines badly: what is not ahead in them is not in small ones either. `found`
    then has its losses, and what there was no time for.
    """
    settings, folds = found.settings, found.folds

    def has_strata(setting: Setting) -> bool:  # in which intercepts of tasks cancel
        return has_hazards(settings.params.get("objective")) and not setting.one_stratum

    kinds: list[LinearOption] = [
        linear
        for linear in _LINEAR_NAMES
        if "linear_effects" not in settings.given
        and not any(why_no_linear_effects(settings, train, linear) for train, _ in folds.pairs)
    ]
    least = found.best.min_leaf
    pooled = (replace(each, min_leaf=least) for each in found.losses if each.is_pooled)
    before = list(dict.fromkeys([found.best, *pooled]))
    rival = found.begun_again()
    rivals = [replace(each, linear=linear) for linear in kinds for each in before]
    rival.try_settings(*(each for each in rivals if each.linear is True or not has_strata(each)))
    if not rival.losses or rival.loss >= found.loss:
        found.losses |= rival.losses
        return None
    rival.vary(pooling=_poolings(settings, effort, folds.tasks)[:1])
    return rival


def _may_split_tasks(settings: Settings, folds: Folds) -> bool:
    """Whether the search may let nodes separate tasks: on which side is a new one?

    A column of tasks cannot stand beside categories.
    """
    return (
        "task_splits" not in settings.given
        and not folds.are_new_tasks
        and settings.options.split_score == "plain"
        and not folds.pairs[0][0].common.categorical_features
    )


def _task_splits(settings: Settings, effort: Effort) -> Sequence[str]:
    """Ways to split tasks; without descriptors where labels of tasks are of different kinds."""
    objectives = settings.objectives
    if objectives.common_name is not None or objectives.function is not None:
        return effort.task_splits
    return [each for each in effort.task_splits if "n_descriptors" not in _TASK_SPLITS[each]]


def _poolings(settings: Settings, effort: Effort, tasks: TaskSet) -> Sequence[RelativePooling]:
    """κ to try, as multiples: none if the user has fixed it.

    Nested tasks are shrunk towards all, and towards their groups.
    """
    if "pooling" in settings.given:
        return ()
    shares = (0.0, _GROUP_SHARE) if tasks.n_levels > 1 else (0.0,)
    return [RelativePooling(factor, share) for share in shares for factor in effort.poolings]


def _strengths_of(settings: Settings, effort: Effort) -> Sequence[float | None]:
    """Noise in the splits of symmetric trees; None for ordinary trees, as a given size may want."""
    options = settings.options
    is_free = depths_of(settings, effort) != [None]
    if not options.symmetric_trees and (
        "symmetric_trees" in settings.given or not is_free or options.split_score != "plain"
    ):
        return (None,)
    if options.symmetric_trees and "random_strength" in settings.given:
        return (options.random_strength,)
    return effort.random_strengths


def _min_leaves(search: Search, effort: Effort) -> Sequence[MinLeaf]:
    """Minimum rows per leaf to try: none where the user or the library has set the same."""
    settings, (train, _) = search.settings, search.folds.pairs[0]
    pooled = search.common.models[0].trees.pooled
    hessian = pooled.mean_hessian * train.tasks.n_tasks / train.n_rows
    counts = [n for n in effort.min_rows_per_leaf if n > 1 or hessian < _SMALL_HESSIAN]
    leaves = [MinLeaf(n_rows, n_rows * hessian) for n_rows in counts]
    return [
        least
        for least in leaves
        if settings.backend.with_min_leaf(settings.params, least.n_rows, least.weight)
    ]


def depths_of(settings: Settings, effort: Effort) -> Sequence[int | None]:
    """Depths of trees to try; None if the user has fixed their size."""
    is_free = settings.backend.with_size(settings.params, effort.depths[0]) is not None
    return effort.depths if is_free else [None]


def part_of(folds: Folds, most_rows: int) -> Folds:
    """Rows enough to train and to validate on, all if there are no more.

    Of small tasks whole ones of all sizes, for how much they should share depends on their sizes;
    of large tasks the same part of each.
    """
    if all(part.n_rows <= most_rows for pair in folds.pairs for part in pair):
        return folds
    may_be_whole = not folds.are_new_tasks  # of which those to judge by are not those to train on
    pairs = [_part_of_pair(*pair, most_rows, may_be_whole) for pair in folds.pairs]
    return replace(folds, pairs=tuple(pairs))


def _part_of_pair(
    train: Dataset, valid: Dataset, most_rows: int, may_be_whole: bool
) -> tuple[Dataset, Dataset]:
    every = -(-train.n_rows // most_rows)
    are_small = may_be_whole and are_small_tasks(train.n_rows, train.tasks.n_tasks)
    if every == 1 or not are_small or 2 * valid.tasks.n_tasks < train.tasks.n_tasks:
        return _every_row(train, every), _every_row(valid, -(-valid.n_rows // most_rows))
    by_size = sorted(valid.tasks, key=lambda task: len(train.tasks.rows(task)))
    kept = by_size[::every]
    return train.of_tasks(kept), valid.of_tasks(kept)


def are_small_tasks(n_rows: int, n_tasks: int) -> bool:
    """Whether tasks have so few rows that a part of the rows should have whole tasks."""
    return n_rows <= _SMALL_TASK * n_tasks


def _every_row(data: Dataset, every: int) -> Dataset:
    """Every second, third, ... row of each task."""
    if every == 1:
        return data
    if data.queries is not None:  # every second, third, ... query of each task
        numbers = ascending(data.queries)
        firsts = begins_of(data.queries)[:-1].astype(np.int64)
        part = ranks_in_tasks(data.tasks.codes[firsts]) % every == 0
        return data.take(np.flatnonzero(part[numbers]))
    return data.take(np.flatnonzero(ranks_in_tasks(data.tasks.codes) % every == 0))
