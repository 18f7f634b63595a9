# SPDX-License-Identifier: Apache-2.0
"""Tasks with different losses in one common model: what makes them comparable.

A leaf of a common tree is one number for all tasks, the Newton step on their gradients. Two numbers
of each task let it mean something for every loss (docs/mixed_tasks.md):

* its *dispersion*, by which its loss is divided: gradients of different losses can then be added;
* its *unit*, its own margin per unit of the common margin: one leaf value then fits all.

The task's own margin is unit · common margin, and starts at the task's best constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import did_you_mean, listed
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import ParameterError, TrainingError
from mtboost.metrics.built_in import check_outputs
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import Metric
from mtboost.metrics.scorers import metric_or_scorer
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.library_parameters import Params
from mtboost.trees.losses import (
    Loss,
    TaskLoss,
    has_identity_link,
    is_classification,
    is_multiclass,
    main_name,
    similar_objective,
    start_scores,
)

#: Standard deviation of the logistic distribution.
_LOGISTIC_DEVIATION = math.pi / math.sqrt(3.0)
Gradients = Callable[[Margins, Any], tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]


# ---- what the user asks for --------------------------------------------------------------------


def objectives_by_task(
    objective: Mapping[TaskName, Any], tasks: TaskSet, backend: Backend
) -> dict[TaskName, str]:
    """The objective of each task, in the order of the tasks, by the library's main name.

    Raises
    ------
    ParameterError
        A task is missing or unknown, or an objective cannot be mixed with others.
    """
    _check_names("objective", objective, tasks)
    missing = [task for task in tasks if task not in objective]
    if missing:
        raise ParameterError(f"objective lacks {listed(missing, 'task')}: name one for every task.")
    found = {task: main_name(objective[task]) for task in tasks}
    for task, name in found.items():
        what = f"objective of task {task!r} is {objective[task]!r}"
        can = f"Tasks can be mixed of {', '.join(backend.mixable)}."
        if not isinstance(name, str):
            raise ParameterError(f"{what}: give the library's name of one. {can}")
        if is_multiclass(name):
            raise ParameterError(
                f"{what}, which has a margin for each class, while a leaf of the common model is "
                f"one number: make each class a task of {backend.binary!r}, or fit it alone. {can}"
            )
        if name not in backend.mixable:
            hint = similar_objective(objective[task], backend.mixable)
            raise ParameterError(
                f"{what}, which {backend.name} does not know or which cannot be mixed with "
                f"others.{hint} {can}"
            )
    return found


def metrics_by_task(
    eval_metric: Any,
    objectives: Mapping[TaskName, str],
    tasks: TaskSet,
    backend: Backend,
    params: Params,
) -> dict[TaskName, Metric]:
    """The validation metric of each task: its own, that of all, or its objective's."""
    given: Mapping[TaskName, Any] = {}
    if isinstance(eval_metric, Mapping):
        _check_names("eval_metric", eval_metric, tasks)
        given = eval_metric
    elif eval_metric is not None:
        given = dict.fromkeys(tasks, eval_metric)
    return {
        task: check_outputs(
            metric_or_scorer(given[task], are_classes=is_classification(objectives[task])),
            has_classes=False,
        )
        if task in given
        else backend.default_metric({**params, "objective": objectives[task]})
        for task in tasks
    }


def _check_names(argument: str, mapping: Mapping[TaskName, Any], tasks: TaskSet) -> None:
    unknown = [name for name in mapping if name not in tasks]
    if unknown:
        raise ParameterError(
            f"{argument} has unknown {listed(unknown, 'task')}. Known: "
            f"{listed(tasks.names, 'task')}.{did_you_mean(unknown[0], tasks.names)}"
        )


# ---- losses beside each other ------------------------------------------------------------------


def unit_of_classes(
    objectives: Mapping[TaskName, str], losses: Mapping[TaskName, TaskLoss]
) -> float:
    """Return the unit of log-odds, that of known `losses` if there are any.

    Labels are thought of as the signs of amounts with logistic errors, whose standard deviation is
    the unit, as it is of other amounts. With nothing but classes it is 1.
    """
    known = (
        loss.unit * loss.sigmoid for loss in losses.values() if is_classification(loss.objective)
    )
    are_classes = all(map(is_classification, objectives.values()))
    return next(known, 1.0 if are_classes else _LOGISTIC_DEVIATION)


def measure_losses(
    objectives: Mapping[TaskName, str],
    data: Dataset,
    backend: Backend,
    params: Params,
    class_unit: float | None = None,
) -> dict[TaskName, TaskLoss]:
    """Start, unit and dispersion of each task, from its training rows.

    `class_unit` is the unit of two classes, by default :func:`unit_of_classes`.
    """
    options = backend.loss_options(params)
    unit = unit_of_classes(objectives, {}) if class_unit is None else class_unit
    losses = {
        task: _measure(objectives[task], options, unit, data, data.tasks.rows(task), backend)
        for task in data.tasks
    }
    dispersions = typical_where_unknown(
        {task: loss.dispersion for task, loss in losses.items()}, objectives
    )
    return {
        task: loss if loss.dispersion else _with_dispersion(loss, dispersions[task])
        for task, loss in losses.items()
    }


def typical_where_unknown(
    scales: Mapping[TaskName, float], kinds: Mapping[TaskName, str]
) -> dict[TaskName, float]:
    """Return scales with the geometric mean of those of the same kind in place of 0; else with 1.

    The scale of a task whose labels are all alike is unknown, and is 0 here.
    """
    known: dict[str, list[float]] = {}
    for task, scale in scales.items():
        if scale > 0.0:
            known.setdefault(kinds[task], []).append(scale)
    typical = {kind: math.exp(np.log(own).mean()) for kind, own in known.items()}
    return {task: scale or typical.get(kinds[task], 1.0) for task, scale in scales.items()}


def _with_dispersion(loss: TaskLoss, dispersion: float) -> TaskLoss:
    unit = math.sqrt(dispersion) if has_identity_link(loss.objective) else 1.0
    return replace(loss, unit=unit, dispersion=dispersion)


def _measure(
    objective: str,
    options: dict[str, Any],
    class_unit: float,
    data: Dataset,
    rows: npt.NDArray[np.int64],
    backend: Backend,
) -> TaskLoss:
    """Start, unit and dispersion of the task that has these rows; 0 where labels are all alike."""
    labels = data.labels()[rows].astype(np.float32)
    weights = np.ones(len(rows)) if data.weight is None else data.weight[rows].astype(np.float64)
    if not weights.any():
        weights = np.ones(len(rows))
    found = TaskLoss(objective, options, 0.0, unit=1.0, dispersion=1.0)
    if data.base_margin is None:
        positives = is_classification(objective) & (labels > 0)
        counts = weights * np.where(positives, options.get("scale_pos_weight", 1.0), 1.0)
        start = start_scores(objective, labels[:, None], counts[:, None])
        start = start.astype(np.float32)  # as XGBoost keeps it
        found = replace(found, start=float(start[0]))
        margins = np.full(len(rows), found.start_margin)
    else:  # other rows, without a base margin, start from 0
        found = replace(found, start=float(found.inverse_link(np.zeros(1))[0]))
        margins = data.base_margin[rows]
    if is_classification(objective):
        return replace(found, unit=class_unit / found.sigmoid)
    loss = backend.loss(objective, options)
    pairs = _gradients(loss, margins.astype(backend.margin_type)[:, None], labels[:, None])
    return _with_dispersion(found, _dispersion(pairs.astype(np.float64), weights, margins))


def _dispersion(pairs: Float64Array, weights: Float64Array, margins: Any) -> float:
    """Σ g² / Σ h of rows at the start.

    With gradients and hessians divided by it, an uninformative split gains 1 on each side on
    average, whatever the loss. It is the variance of the labels for squared error, and Pearson's
    dispersion for counts and amounts. Of two classes it would be 1.
    """
    gradient, hessian = np.moveaxis(pairs, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = float((weights * gradient**2).sum() / (weights * hessian).sum())
    rounding = 4.0 * np.finfo(np.float32).eps * float(np.abs(margins).max(initial=0.0))
    if not found > rounding**2:
        return 0.0  # labels that are all alike have no unit
    return found if found < math.inf else 1.0


def start_margins(losses: Mapping[TaskName, TaskLoss], data: Dataset, backend: Backend) -> Margins:
    """Common margins that rows start from, shape (n_rows,)."""
    units = units_of_rows(losses, data.tasks)
    if data.base_margin is not None:
        return np.asarray(data.base_margin / units, backend.margin_type)
    starts = _of_rows([losses[task].start_margin for task in data.tasks], data.tasks)
    return np.asarray(starts / units, backend.margin_type)


def in_common_unit(losses: Mapping[TaskName, TaskLoss], data: Dataset, backend: Backend) -> Dataset:
    """Rows with labels and base margins in the unit of the common margin.

    Losses that are squared errors then are so in this margin, with a dispersion of 1.
    """
    other = data.with_base_margin(start_margins(losses, data, backend))
    other.y = data.labels() / units_of_rows(losses, data.tasks)
    return other


def gradient_function(
    losses: Mapping[TaskName, TaskLoss], data: Dataset, backend: Backend, n_threads: int
) -> Gradients:
    """Gradients and hessians of training rows in the common margin, as an objective of the user's.

    A function, because LightGBM would copy an object together with its arrays.
    """
    own = [losses[task] for task in data.tasks]
    labels = np.ascontiguousarray(data.labels(), np.float32)[:, None]
    weights = None if data.weight is None else data.weight.astype(np.float32)
    units = _of_rows([loss.unit for loss in own], data.tasks).astype(backend.margin_type)
    # By the chain rule; exactly 1 where a loss is neither scaled nor divided.
    factors = _of_rows(
        [(loss.unit / loss.dispersion, loss.unit**2 / loss.dispersion) for loss in own], data.tasks
    ).astype(np.float32)
    groups: list[tuple[npt.NDArray[np.int64] | slice, Loss]] = []
    for name, loss in {loss.objective: loss for loss in own}.items():
        members = np.array([each.objective == name for each in own])
        # Of one objective a slice, which copies nothing.
        rows = slice(None) if members.all() else np.flatnonzero(members[data.tasks.codes])
        groups.append((rows, backend.loss(name, loss.options)))

    def gradients(
        margins: Margins, _: Any
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        margins = margins * units
        pairs = np.empty_like(factors)
        for rows, loss in groups:
            own_weights = None if weights is None else weights[rows]
            pairs[rows] = _gradients(
                loss, margins[rows, None], labels[rows], own_weights, n_threads
            )
        pairs *= factors
        return pairs[:, 0], pairs[:, 1]

    return gradients


def _gradients(
    loss: Loss,
    margins: Margins,
    labels: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32] | None = None,
    n_threads: int = 1,
) -> npt.NDArray[np.float32]:
    """Gradient pairs of shape (n_rows, 2)."""
    try:
        # The stub has a class for each library, whose margins differ.
        found = cast(Any, loss).gradients(margins, labels, weights, n_threads=n_threads)
    except RuntimeError as error:
        raise TrainingError(f"{error} (Rows of {loss.name} are counted alone.)") from None
    return np.asarray(found)[:, 0]


def metric_by_task(losses: list[TaskLoss], metrics: list[Metric]) -> MetricByTask:
    """Each task's own metric of common margins; losses and metrics in the order of the tasks."""
    return MetricByTask("metric", partial(_evaluate, losses, metrics), False, tuple(metrics))


@dataclass(frozen=True)
class MetricByTask(Metric):
    """A metric for each task, whose function takes the rows of all tasks at once."""

    metrics: tuple[Metric, ...]

    def gains(self, value: Float64Array, than: Float64Array | float) -> Float64Array:
        greater = np.array([metric.greater_is_better for metric in self.metrics])
        return np.where(greater, value - than, than - value)

    def name_of(self, task: int) -> str:
        return self.metrics[task].name

    def _by_task(self, y: Float64Array, prediction: Float64Array, rows: Any) -> Float64Array:
        values: Float64Array = self.function(y, prediction, rows.codes, rows.weight)
        return values


def _evaluate(
    losses: list[TaskLoss],
    metrics: list[Metric],
    y: Float64Array,
    margins: Float64Array,
    codes: npt.NDArray[np.integer[Any]],
    weight: Float64Array | None,
) -> Float64Array:
    values = np.full(len(losses), np.nan)
    units = np.array([loss.unit for loss in losses])
    # Tasks of one objective and metric at once.
    kinds = [(loss.objective, id(metric)) for loss, metric in zip(losses, metrics, strict=True)]
    for kind in dict.fromkeys(kinds):
        members = np.array([each == kind for each in kinds])
        first = kinds.index(kind)
        rows = np.flatnonzero(members[codes])
        found = evaluate_by_task(
            metrics[first],
            y[rows],
            losses[first].inverse_link(margins[rows] * units[codes[rows]]),
            codes[rows],
            len(losses),
            None if weight is None else weight[rows],
        )
        values[members] = found[members]
    return values


def units_of_rows(losses: Mapping[TaskName, TaskLoss], tasks: TaskSet) -> Float64Array:
    """Unit of the task of each row."""
    return _of_rows([losses[task].unit for task in tasks], tasks)


def _of_rows(of_task: Any, tasks: TaskSet) -> Float64Array:
    """Values of tasks, in their order, for each row."""
    values: Float64Array = np.array(of_task, np.float64)[tasks.codes]
    return values
