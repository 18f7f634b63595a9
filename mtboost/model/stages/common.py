# SPDX-License-Identifier: Apache-2.0
"""Stage one of zhang2019: the common model of all tasks (sections 3.2 and 3.3)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.model.stages.linear_effects import LinearDesign, LinearEffects
from mtboost.model.stages.mean_watch import MeanWatch
from mtboost.model.stages.settings import LinearOption, Settings
from mtboost.trees.backend import Margins, Rows
from mtboost.trees.losses import is_multiclass
from mtboost.trees.nesting import Nesting, with_groups
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.task_column import AddedColumns
from mtboost.trees.task_descriptors import TaskDescriptors, describe_tasks
from mtboost.trees.tree_options import TreeOptions

# Cells of a training matrix that is kept.
_MOST_KEPT = 4_000_000
# Pooled trees whose margins are left out when linear effects are estimated again. Models with
# trees of other kinds share the effects: of the parameters, these trees have only those of the
# model that needed the effects first, such as the part of the rows that a tree sees.
_N_BETWEEN, _DEPTH_BETWEEN, _RATE_BETWEEN = 60, 2, 0.2
#: Linear effects that trees follow, and whether hazards have one stratum.
_LinearKind: TypeAlias = tuple[LinearOption, bool]


@dataclass(slots=True, eq=False)
class SharedByModels:
    """What common models of the same rows share; their settings differ in trees alone.

    Attributes
    ----------
    matrices : dict
        Added columns, the matrix of the training rows and that of others, by how nodes may separate
        tasks, and the kind of linear effects that trees follow.
    after_linear : dict
        Linear effects of a kind, and the training and other rows with them as base margins.
    """

    matrices: dict[tuple[int | None, bool, _LinearKind], tuple[AddedToCommon | None, Any, Any]] = (
        field(default_factory=dict)
    )
    after_linear: dict[_LinearKind, tuple[LinearEffects, Dataset, Dataset | None]] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class CommonModel:
    """Stage one: the trees, and how far each task should follow them.

    Curves and `left_after` begin after the rounds of linear effects, which `quit_round` includes.
    """

    trees: CommonTrees
    quit_round: dict[TaskName, int]
    left_after: dict[TaskName, int]
    history: dict[TaskName, npt.NDArray[np.float64]]
    #: What all validation rows together have said, where they have ended the training.
    together: MeanWatch | None = None


def fit_common(
    settings: Settings,
    data: Dataset,
    valid: Dataset | None,
    callbacks: tuple[Any, ...] = (),
    to_beat: float = np.inf,
    shared: SharedByModels | None = None,
) -> CommonModel:
    """Grow the common model; with validation rows, tasks quit when it stops helping them.

    With ``common_early_stopping_rounds`` training also ends when the mean loss can hardly reach
    `to_beat` any more. `shared` has what other models of the same rows have left.
    """
    if settings.team is not None:
        alone, names = replace(settings, team=None), settings.team.tasks
        data = data.with_task_names(names)
        valid = None if valid is None else valid.with_task_names(names)
        return settings.team.call(partial(fit_common, alone, data, valid, callbacks, to_beat))
    backend, rounds = settings.backend, settings.common_early_stopping_rounds
    described = data
    linear, data, valid, matrix = _after_linear_effects(settings, data, valid, shared)
    added, matrix, valid_matrix = _common_matrices(settings, data, valid, described, shared, matrix)
    if valid is None:
        trees = _train_common(settings, data, matrix, added, settings.rounds, callbacks, linear)
        return CommonModel(trees, dict.fromkeys(data.tasks, trees.n_rounds), {}, {})
    quitting = backend.quitting(
        valid_matrix,
        valid.tasks,
        metric=settings.metric,
        early_stopping_rounds=settings.early_stopping_rounds if rounds is None else None,
        min_delta=settings.min_delta,
        verbose=0 if settings.verbose is True else settings.verbose,
    )
    quitting.on_round = settings.on_round
    callbacks = (*callbacks, quitting)
    together = None
    if rounds is not None:
        losses = settings.objectives.losses_of(data.tasks.names)
        together = MeanWatch(quitting, data, valid, losses, rounds, to_beat)
        if linear is not None:
            margins = settings.objectives.start_margins(valid)
            assert margins is not None
            together.begin(
                settings.evaluate(valid, margins[:, None]), settings.inverse_link(margins)
            )
        callbacks = (*callbacks, backend.stop_if(together.is_over))
    trees = _train_common(
        settings, data, matrix, added, settings.rounds, callbacks, linear, valid_matrix
    )
    n_rounds = trees.n_rounds - trees.n_linear
    if together is not None:
        n_rounds = max(together.first_round, together.best_round)
    found = {} if together else quitting.quit_round
    return CommonModel(
        trees,
        {task: trees.n_linear + found.get(task, n_rounds) for task in data.tasks},
        quitting.left_after,
        quitting.history,
        together,
    )


def refit_common(
    settings: Settings, data: Dataset, common: CommonModel, callbacks: tuple[Any, ...] = ()
) -> CommonModel:
    """Grow it again on more rows, each task leaving after the round found before."""
    if settings.team is not None:
        alone = replace(settings, team=None)
        data = data.with_task_names(settings.team.tasks)
        return settings.team.call(partial(refit_common, alone, data, common, callbacks))
    callbacks = (*callbacks, settings.backend.quit_at(common.left_after))
    added = _added_columns(settings, data)
    linear, data, _, matrix = _after_linear_effects(settings, data, None, None)
    matrix = _common_matrix(settings, data, added, made=matrix)
    n_rounds = common.trees.n_rounds - common.trees.n_linear
    trees = _train_common(settings, data, matrix, added, n_rounds, callbacks, linear)
    # LightGBM ends training when it finds no split, here perhaps earlier than before.
    quit_round = {task: min(own, trees.n_rounds) for task, own in common.quit_round.items()}
    return CommonModel(trees, quit_round, common.left_after, common.history)


def follow_common(
    settings: Settings, trees: CommonTrees, data: Dataset, valid: Dataset | None, n_rounds: int
) -> CommonModel:
    """Find how many rounds of a finished common model each of some new tasks should use.

    Up to the round with the best metric on its validation rows; without any, or without
    ``early_stopping_rounds``, `n_rounds`.
    """
    backend = settings.backend
    history: dict[TaskName, npt.NDArray[np.float64]] = {}
    quit_round = dict.fromkeys(data.tasks, n_rounds)
    if valid is not None:
        start = settings.objectives.start_margins(valid)
        by_round = (
            backend.margins_by_round(trees.booster, valid.common, start)
            if trees.are_same_for_all
            else trees.margins_by_round(valid.common, _row_codes(trees, valid), start)
        )
        after_linear = itertools.islice(by_round, trees.n_linear, None)
        values = np.array([settings.evaluate(valid, margins) for margins in after_linear])
        history = dict(zip(valid.tasks.names, values.T, strict=True))
        gains = settings.objectives.metric_of(valid.tasks.names).gains(values, 0.0).T
        fewest = backend.fewest_rounds if start is None and not trees.n_linear else 0
        for task, gain in zip(valid.tasks, gains, strict=True):
            if settings.early_stopping_rounds is not None and not np.isnan(gain[fewest:]).all():
                quit_round[task] = trees.n_linear + fewest + int(np.nanargmax(gain[fewest:]))
    return CommonModel(trees, quit_round, {}, history)


def followed_margins(settings: Settings, common: CommonModel, data: Dataset) -> Margins:
    """Return the margins of rows, each task following the common model up to its own round.

    In the unit of each row's task, up to rounding those of the task's booster.
    """
    trees, objectives = common.trees, settings.objectives
    start = objectives.start_margins(data)
    if trees.are_same_for_all:
        margins = settings.backend.followed_margins(
            trees.booster, data.common, start, common.quit_round, data.tasks
        )
    else:
        rounds = np.array([common.quit_round[name] for name in data.tasks])[data.tasks.codes]
        margins = trees.margins(data.common, _row_codes(trees, data), rounds, start)
    return objectives.own_margins(margins, data)


def _train_common(
    settings: Settings,
    data: Dataset,
    matrix: Any,
    added: AddedToCommon | None,
    n_rounds: int,
    callbacks: tuple[Any, ...],
    linear: LinearEffects | None = None,
    valid: Any = None,
) -> CommonTrees:
    booster, pooled = settings.backend.train_common(
        settings.objectives.of_common_model(settings.params),
        matrix,
        n_rounds,
        tasks=data.tasks,
        options=settings.options,
        table=None if added else data.common,
        objective=settings.objectives.gradients(data, settings.n_threads),
        valid=valid,
        callbacks=callbacks,
    )
    if pooled.pooling is None:  # all tasks have the pooled values
        pooled = PooledTrees(mean_hessian=pooled.mean_hessian)
    if linear is not None and data.tasks.n_levels > 1:  # groups have linear effects
        pooled = pooled.of_levels(data.tasks.n_levels)
    names = with_groups(data.tasks) if pooled.are_nested else data.tasks.names
    descriptors = added.descriptors if added else None
    if descriptors is not None and pooled.are_nested:
        descriptors = descriptors.with_groups(Nesting.of(names), data.tasks.counts)
    trees = CommonTrees(
        settings.backend,
        booster,
        names,
        pooled,
        has_task_column=settings.options.task_splits is not None,
        descriptors=descriptors,
    )
    return trees if linear is None else linear.before(trees)


def _after_linear_effects(
    settings: Settings, data: Dataset, valid: Dataset | None, shared: SharedByModels | None
) -> tuple[LinearEffects | None, Dataset, Dataset | None, Any]:
    """Return linear effects of the training rows, if any, and the rows with them as margins.

    The last is the matrix of the training rows without added columns, if one was made.
    """
    if not settings.linear_effects:
        return None, data, valid, None
    kind = _linear_kind(settings)
    if shared is not None and kind in shared.after_linear:
        return *shared.after_linear[kind], None
    objectives, own = settings.objectives, settings.objectives.in_one_unit(data)
    design = LinearDesign.of(settings, own)
    linear, matrix = design.effects(settings, own), None
    margins = linear.margins_in(design.leaves, own)
    if not design.is_wide:  # with few rows per column trees would learn the noise of the first
        before = data.with_base_margin(objectives.own_margins(margins, data))
        before.y = own.labels()
        matrix = _common_matrix(settings, before, None)
        learned = _learned_after(settings, own.with_base_margin(margins), matrix)
        linear = design.effects(settings, own, learned)
        margins = linear.margins_in(design.leaves, own)
    data = data.with_base_margin(objectives.own_margins(margins, data))
    if matrix is not None:
        settings.backend.set_margin(matrix, objectives.start_margins(data))
    if valid is not None:
        margins = linear.margins(objectives.in_one_unit(valid))
        valid = valid.with_base_margin(objectives.own_margins(margins, valid))
    if shared is not None:
        shared.after_linear[kind] = (linear, data, valid)
    return linear, data, valid, matrix


def _linear_kind(settings: Settings) -> _LinearKind:
    linear = settings.linear_effects
    return linear, bool(linear) and settings.options.one_stratum


def _learned_after(settings: Settings, data: Dataset, matrix: Any) -> Float64Array:
    """Return what a few pooled trees add to the base margins of training rows."""
    backend = settings.backend
    assert data.base_margin is not None
    params = backend.with_size(settings.params, _DEPTH_BETWEEN) or settings.params
    params = {**params, "learning_rate": _RATE_BETWEEN}
    booster, _ = backend.train_common(
        settings.objectives.of_common_model(params),
        matrix,
        _N_BETWEEN,
        tasks=data.tasks,
        options=TreeOptions(one_stratum=settings.options.one_stratum),
        table=data.common,
        objective=None,
    )
    after = backend.predict_margin(booster, data.common, data.base_margin)
    return after.reshape(-1).astype(np.float64) - data.base_margin.reshape(-1)


def _common_matrices(
    settings: Settings,
    data: Dataset,
    valid: Dataset | None,
    described: Dataset,
    shared: SharedByModels | None,
    made: Any,
) -> tuple[AddedToCommon | None, Any, Any]:
    """Return the added columns, the matrix of the training rows and that of others, if any.

    Tasks are described by the rows of `described`: those of `data` before linear effects. `made` is
    the matrix of the training rows without added columns, if there is one.
    """
    options = settings.options
    key = (options.n_descriptors, options.task_splits is not None, _linear_kind(settings))
    if shared is not None and key in shared.matrices:
        return shared.matrices[key]
    added = _added_columns(settings, described)
    matrix = _common_matrix(settings, data, added, made=made)
    valid_matrix = None if valid is None else _common_matrix(settings, valid, added, matrix)
    if shared is not None and data.n_rows * data.common.n_features <= _MOST_KEPT:
        shared.matrices[key] = (added, matrix, valid_matrix)
    return added, matrix, valid_matrix


def _common_matrix(
    settings: Settings,
    data: Dataset,
    added: AddedToCommon | None,
    ref: Any = None,
    made: Any = None,
) -> Any:
    """Return the matrix of rows; without added columns that which is made already, if any."""
    if made is not None and added is None:
        return made
    rows = Rows(
        data.common,
        data.labels(),
        data.weight,
        settings.objectives.start_margins(data),
        added.of(data.tasks) if added else None,
        queries=data.queries,
    )
    return settings.backend.matrix(rows, settings.params, settings.n_threads, ref)


# ---- columns by which nodes separate tasks ------------------------------------------------------


def _added_columns(settings: Settings, data: Dataset) -> AddedToCommon | None:
    """Return the columns that identify the tasks of training rows, if nodes may split them."""
    n_descriptors = settings.options.n_descriptors
    if n_descriptors is not None:
        has_classes = is_multiclass(settings.params.get("objective"))
        described = settings.objectives.in_one_unit(data)
        return AddedToCommon(data.tasks, describe_tasks(described, n_descriptors, has_classes))
    return None if settings.options.task_splits is None else AddedToCommon(data.tasks, None)


@dataclass(frozen=True, slots=True)
class AddedToCommon:
    """Columns of the common matrix that hold the tasks, or what describes them."""

    tasks: TaskSet
    descriptors: TaskDescriptors | None

    def of(self, tasks: TaskSet) -> AddedColumns:
        """Columns for rows of some of the tasks."""
        codes = self.tasks.codes_of_rows(tasks)
        return codes if self.descriptors is None else self.descriptors.of_rows(codes)


def _row_codes(trees: CommonTrees, data: Dataset) -> npt.NDArray[np.int32]:
    return trees.codes_of(data.tasks.names)[data.tasks.codes]
