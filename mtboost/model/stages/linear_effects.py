# SPDX-License-Identifier: Apache-2.0
"""The first trees of a common model: linear effects of the columns, which differ between tasks.

Each column is turned into at most 128 steps, and a mixed model of the steps (working_model.py)
gives their values, for all tasks and for each. The boosted trees follow.

Random intercepts are the same without columns. What trees will learn is noise to the mixed model,
and tasks are then shrunk too much: common.py therefore estimates the effects twice, the second time
of what a few pooled trees leave. Of few rows per column these would learn the labels themselves,
and leave nothing: the first estimate is then the only one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.base.dataset import Dataset
from mtboost.base.labels import weights_or_ones
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.threads import one_blas_thread
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.model.stages.settings import LinearOption, Settings
from mtboost.model.stages.wide_slopes import are_wide
from mtboost.model.stages.working_model import FoundEffects, WorkingModel
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.document import Document
from mtboost.trees.losses import (
    has_bounds,
    has_hazards,
    is_survival,
    label_columns,
    link,
    main_name,
    row_groups,
    start_scores,
)
from mtboost.trees.nesting import Nesting, with_groups
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.steps import StepTree, steps_of
from mtboost.trees.task_values import TaskValues

#: Steps of a column: the most, and the fewest where tasks and columns are many.
_MOST_STEPS, _LEAST_STEPS = 128, 32
#: Numbers that the rows or moments of all tasks, or the values of all leaves, may have.
_MOST_NUMBERS = 5_000_000
#: Cells of the columns of all rows, which are copied as numbers.
_MOST_CELLS = 20_000_000
#: Columns from which on more than one thread helps to invert their matrices.
_MANY_COLUMNS = 500


def why_no_linear_effects(settings: Settings, data: Dataset, linear: LinearOption) -> str:
    """Return why a common model of these rows cannot begin with such effects; empty if it can."""
    objectives, backend = settings.objectives, settings.backend
    name = objectives.common_name
    if name is None or not (main_name(name) in backend.mixable or is_survival(name)):
        known = ", ".join(backend.mixable)
        return f"objective must be one of {known}, or of survival, for all tasks"
    if data.tasks.n_tasks < 2:
        return "there is one task only"
    if data.common.library == "scipy":
        return "X is sparse"
    return "" if linear == "intercepts" else _why_no_slopes(settings, data)


def _why_no_slopes(settings: Settings, data: Dataset) -> str:
    if settings.backend.monotone_signs(settings.params, Columns.of(data.common)):
        return "monotone_constraints may be violated"
    n_columns = len(_numeric_columns(data.common))
    if n_columns == 0:
        return "X has no column of numbers"
    n_effects = n_columns + 1
    n_groups = len(_names(data.tasks)) - data.tasks.n_tasks
    n_rows = int(np.minimum(data.tasks.counts, n_effects).sum()) + n_effects * n_groups
    n_moments = n_effects * n_rows
    if n_moments > _MOST_NUMBERS or _most_steps(data.tasks.n_tasks, n_columns) < _LEAST_STEPS:
        return f"{data.tasks.n_tasks} tasks of {n_columns} columns are too many"
    if data.n_rows * n_columns > _MOST_CELLS:
        return f"{data.n_rows} rows of {n_columns} columns are too many"
    return ""


def _most_steps(n_tasks: int, n_columns: int) -> int:
    """Return the most steps of a column whose values for all tasks are not too many."""
    return min(_MOST_STEPS, _MOST_NUMBERS // (n_tasks * n_columns))


@dataclass(frozen=True, slots=True, eq=False)
class LinearEffects:
    """Trees of one column each, after one without splits.

    Attributes
    ----------
    backend : Backend
    booster : xgboost.Booster or lightgbm.Booster
        Of the steps without values.
    steps : list of StepTree
        With the values of an unknown task.
    by_task : list of ndarray of float64, shape (n_leaves, n_names)
        Values of each task, and of groups of nested tasks.
    tasks : tuple of task names
        The tasks, then their groups.
    has_start : bool
        Whether rows have a base margin, from which the effects start.
    kappas : ndarray of float64, shape (n_levels, n_steps)
        By which the effects of groups and tasks are shrunk.
    """

    backend: Backend
    booster: object
    steps: list[StepTree]
    by_task: list[Float64Array]
    tasks: tuple[TaskName, ...]
    has_start: bool
    kappas: Float64Array

    def margins(self, data: Dataset) -> Margins:
        """Return the effects of rows, and the base margins they start from: shape (n_rows,)."""
        leaves = _leaves(self.backend, self.booster, self.steps, data.common)
        return self.margins_in(leaves, data)

    def margins_in(self, leaves: Int32Array, data: Dataset) -> Margins:
        """Return the same of rows whose leaves are known."""
        places = {name: code for code, name in enumerate(self.tasks)}
        codes = np.array([places[name] for name in data.tasks])[data.tasks.codes]
        margins = np.zeros(data.n_rows)
        for own, reached in zip(self.by_task, leaves.T, strict=True):
            margins += own[reached, codes]
        if data.base_margin is not None:
            margins += data.base_margin.reshape(-1)
        return margins.astype(self.backend.margin_type)

    def before(self, trees: CommonTrees) -> CommonTrees:
        """Return the trees of a common model that were trained from these effects, after them."""
        document = self.backend.document(trees.booster)
        start = 0.0 if self.has_start else float(document.start_margins()[0])
        codes = trees.codes_of(self.tasks)
        constant = self.steps[0]
        first = replace(constant, values=constant.values - start)
        numbers = list(map(document.numbers_of_leaves, self.steps))
        values = [
            _task_values(own - start * (place == 0), leaves, codes)
            for place, (own, leaves) in enumerate(zip(self.by_task, numbers, strict=True))
        ]
        pooled = trees.pooled
        boosted = list(pooled.values) or [TaskValues.none()] * len(document.leaf_values())
        return replace(
            trees,
            booster=document.with_first_trees([first, *self.steps[1:]]).load(),
            pooled=PooledTrees(pooled.pooling, [*values, *boosted], pooled.mean_hessian),
            n_linear=len(values),
            linear_kappas=self.kappas,
        )


@dataclass(frozen=True, slots=True, eq=False)
class LinearDesign:
    """The steps of training rows: what linear effects are estimated of.

    Attributes
    ----------
    backend : Backend
    booster : xgboost.Booster or lightgbm.Booster
        Of the steps without values.
    steps : list of StepTree
        The intercept's single leaf, then those of the columns.
    leaves : ndarray of int32, shape (n_rows, n_steps)
        Of the training rows.
    scores : list of ndarray of float64, shape (n_leaves,)
        The number that stands for each leaf.
    """

    backend: Backend
    booster: object
    steps: list[StepTree]
    leaves: Int32Array
    scores: list[Float64Array]

    @classmethod
    def of(cls, settings: Settings, data: Dataset) -> LinearDesign:
        """Return that of training rows."""
        backend, table = settings.backend, data.common
        document = backend.document(backend.empty_booster(table, settings.params))
        counted = slice(None) if data.weight is None else np.flatnonzero(data.weight > 0)
        has_slopes = settings.linear_effects != "intercepts"
        columns = _steps(backend, table, counted, data.tasks.n_tasks) if has_slopes else []
        steps = [StepTree.empty(0, np.zeros(1)), *columns]
        booster = document.with_first_trees(steps).load()
        leaves = _leaves(backend, booster, steps, table)
        scores = [
            _scores(own, reached) for own, reached in zip(steps, leaves[counted].T, strict=True)
        ]
        return cls(backend, booster, steps, leaves, scores)

    @property
    def is_wide(self) -> bool:
        """Whether there are few rows per column."""
        return are_wide(len(self.leaves), len(self.steps) - 1)

    def effects(
        self, settings: Settings, data: Dataset, others: Float64Array | None = None
    ) -> LinearEffects:
        """Estimate the linear effects of the training rows.

        Parameters
        ----------
        settings : Settings
        data : Dataset
            The training rows, in one unit.
        others : ndarray of float64, shape (n_rows,), optional
            What other terms of the model add to the margins of rows.
        """
        z = np.empty((data.n_rows, len(self.steps) - 1), order="F")
        for column, score, reached in zip(z.T, self.scores[1:], self.leaves.T[1:], strict=True):
            np.take(score, reached, out=column, mode="clip")  # "raise" would make a copy
        names = _names(data.tasks)
        with one_blas_thread() if z.shape[1] < _MANY_COLUMNS else nullcontext():
            found = _effects(settings, data, z, Nesting.of(names), others)
        filled, by_task = [], []
        for place, (own, score) in enumerate(zip(self.steps, self.scores, strict=True)):
            reached = self.leaves[:, place]
            hessians = np.bincount(reached, found.hessian, own.n_leaves).astype(np.float64)
            counts = np.bincount(reached, minlength=own.n_leaves).astype(np.int64)
            filled.append(own.filled(score * found.shared[place], hessians, counts))
            by_task.append(score[:, None] * found.by_name[:, place])
        has_start = data.base_margin is not None
        return LinearEffects(
            self.backend, self.booster, filled, by_task, names, has_start, found.kappas
        )


def _names(tasks: TaskSet) -> tuple[TaskName, ...]:
    """Return the tasks, and after them their groups."""
    return with_groups(tasks) if tasks.n_levels > 1 else tasks.names


def _numeric_columns(table: Table) -> list[int]:
    """Return the positions of columns of numbers."""
    categories = set(table.categorical_features)
    names = table.feature_names
    places = range(table.n_features)
    return [place for place in places if names is None or names[place] not in categories]


def _steps(
    backend: Backend, table: Table, rows: slice | npt.NDArray[np.int64], n_tasks: int
) -> list[StepTree]:
    """Return the steps of the columns of numbers, by their values in some rows."""
    names, places = table.feature_names, _numeric_columns(table)
    found = []
    for place in places:
        column = table.number_column(place if names is None else names[place])[rows]
        with np.errstate(over="ignore"):  # infinite, as to the library
            column = column.astype(backend.value_type)
        column[np.abs(column) <= backend.zero_threshold] = 0.0
        found.append(steps_of(column, place, _most_steps(n_tasks, len(places))))
    return [own for own in found if own is not None]


def _leaves(
    backend: Backend, booster: object, steps: Sequence[StepTree], table: Table
) -> Int32Array:
    """Return the leaf of each row in each tree, in the order of the thresholds."""
    found = backend.leaves(booster, table)[:, : len(steps)]
    document: type[Document] = type(backend.document(booster))
    places = np.empty_like(found, order="F")
    for place, own in enumerate(steps):
        numbers = document.numbers_of_leaves(own)
        of_number = np.zeros(numbers.max() + 1, np.int32)
        of_number[numbers] = np.arange(own.n_leaves)
        places[:, place] = of_number[found[:, place]]
    return places


def _scores(steps: StepTree, leaves: Int32Array) -> Float64Array:
    """Return the number that stands for each leaf: standardised, 1 for the intercept."""
    if steps.n_leaves == 1:
        return np.ones(1)
    # In a unit, a power of 2, in which the squares of large numbers are finite.
    points = np.ldexp(steps.points, -np.frexp(np.abs(steps.points).max())[1])
    of_rows = points[leaves]
    scores: Float64Array = (points - of_rows.mean()) / of_rows.std()
    return scores


def _effects(
    settings: Settings,
    data: Dataset,
    z: Float64Array,
    nesting: Nesting,
    others: Float64Array | None,
) -> FoundEffects:
    """Return effects of training rows."""
    options = settings.backend.loss_options(settings.params)
    objective = main_name(settings.objectives.common_name)
    labels = label_columns(data.labels())
    weight = None if data.weight is None else np.ascontiguousarray(data.weight, np.float32)
    if data.base_margin is None:
        start = np.zeros(data.n_rows)
        first = start + _constant(objective, options, labels, weight)
    else:
        first = start = data.base_margin.reshape(-1).astype(np.float64)
    if others is not None:
        first, start = first + others, start + others
    loss = settings.backend.loss(objective, options)
    strata = None if settings.options.one_stratum else data.tasks
    groups = row_groups(loss, labels, strata)
    margin_type = settings.backend.margin_type
    rows = WorkingModel(loss, margin_type, labels, weight, groups, start, first)
    return rows.effects(z, data.tasks.codes, nesting)


def _constant(
    objective: str,
    options: Mapping[str, Any],
    labels: npt.NDArray[np.float32],
    weight: npt.NDArray[np.float32] | None,
) -> float:
    """Return a margin from which the approximations of the loss may begin."""
    if has_hazards(objective):
        return 0.0
    of_rows = weights_or_ones(weight, len(labels))
    if has_bounds(objective):
        times = np.where(labels > 0.0, labels, np.inf).min(axis=1)
        known = np.isfinite(times)
        return (
            float(np.average(np.log(times[known]), weights=of_rows[known])) if known.any() else 0.0
        )
    mean = start_scores(objective, labels, of_rows[:, None])
    return float(link(objective, mean, sigmoid=float(options.get("sigmoid", 1.0)))[0])


def _task_values(values: Float64Array, numbers: Int32Array, codes: Int32Array) -> TaskValues:
    """Return values of shape (n_leaves, n_tasks) by the numbers of leaves and codes of tasks."""
    by_leaf, by_task = np.argsort(numbers), np.argsort(codes)
    return TaskValues(
        leaf=np.repeat(numbers[by_leaf], len(codes)).astype(np.int32),
        task=np.tile(codes[by_task], len(numbers)).astype(np.int32),
        value=values[np.ix_(by_leaf, by_task)].ravel(),
        learning_rate=0.0,
    )
