# SPDX-License-Identifier: Apache-2.0
"""Objectives of the tasks: one of all, or one of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Codes
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName
from mtboost.metrics.metric import Metric, is_mean_of_rows
from mtboost.model.stages.mixed_objective import (
    gradient_function,
    in_common_unit,
    measure_losses,
    metric_by_task,
    start_margins,
    typical_where_unknown,
    units_of_rows,
)
from mtboost.model.stages.task_losses import TaskLosses, scale_of
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.library_parameters import Params
from mtboost.trees.losses import TaskLoss


class Objectives(Protocol):
    """Objectives and metrics of the tasks.

    Attributes
    ----------
    metric : Metric
        Evaluates all tasks.
    losses : mapping of task name to TaskLoss
        Start, unit and dispersion of each task; empty if all tasks have one objective.
    """

    @property
    def metric(self) -> Metric: ...

    @property
    def losses(self) -> Mapping[TaskName, TaskLoss]: ...

    @property
    def names(self) -> str | dict[TaskName, str]:
        """Name of the objective, or of each task's."""

    @property
    def common_name(self) -> str | None:
        """Name of the loss that all rows have in the common margin, if they have one."""

    @property
    def metric_names(self) -> str | dict[TaskName, str]:
        """Name of the metric, or of each task's."""

    @property
    def function(self) -> Callable[..., Any] | None:
        """The user's function of gradients, if there is one."""

    def metric_of(self, tasks: Sequence[TaskName]) -> Metric:
        """Return the metric that evaluates rows of these tasks, in their order."""

    def with_means(self, data: Dataset, params: Params) -> Objectives:
        """Return the same with metrics that are means over rows, where losses are to be compared.

        The default metric of an objective replaces any other. `data` are training rows.
        """

    def losses_of(self, tasks: Sequence[TaskName]) -> TaskLosses:
        """Return the losses of these tasks; comparable after :meth:`with_means`."""

    def on_rows(self, data: Dataset, params: Params) -> Objectives:
        """Return the objectives for these training rows."""

    def of_task(self, task: TaskName, params: Params) -> tuple[Objectives, Params]:
        """Return the objective of a single task, and the library's parameters with it."""

    def of_common_model(self, params: Params) -> Params:
        """Return the parameters of the common model, from those of all models."""

    def start_margins(self, data: Dataset) -> Margins | None:
        """Return the common margins that rows start from; None leaves them to the library."""

    def in_one_unit(self, data: Dataset) -> Dataset:
        """Return rows with labels and base margins in the unit of the common margin.

        Of objectives that :attr:`common_name` has a name of.
        """

    def own_margins(self, margins: Margins, data: Dataset) -> Margins:
        """Return common margins of rows in the unit of each one's task."""

    def gradients(self, data: Dataset, n_threads: int) -> Callable[..., Any] | None:
        """Return the function of the common model's gradients, if the library has none."""

    def inverse_link(self, margins: Margins, params: Params) -> npt.NDArray[np.floating]:
        """Return common margins on the scale that the metric expects."""

    def response(
        self, margins: Margins, tasks: Sequence[TaskName], codes: Codes, params: Params
    ) -> npt.NDArray[np.floating]:
        """Return margins on the scale of the labels; of rows in the unit of each one's task."""

    def followed_response(
        self, predictions: npt.NDArray[np.floating], data: Dataset, params: Params
    ) -> npt.NDArray[np.floating]:
        """Return what :meth:`inverse_link` has given for rows, on the scale of the labels."""


@dataclass(frozen=True, slots=True)
class OneObjective:
    """One objective of all tasks: one of the library, or a user's function of gradients.

    Attributes
    ----------
    names : str
        Name of the objective; with a function that of the library's objective it replaces.
    """

    backend: Backend
    metric: Metric
    names: str
    function: Callable[..., Any] | None = None

    @property
    def losses(self) -> Mapping[TaskName, TaskLoss]:
        return {}

    @property
    def common_name(self) -> str | None:
        return self.names if self.function is None else None

    @property
    def metric_names(self) -> str:
        return self.metric.name

    def metric_of(self, tasks: Sequence[TaskName]) -> Metric:
        return self.metric

    def with_means(self, data: Dataset, params: Params) -> OneObjective:
        if is_mean_of_rows(self.metric):
            return self
        return replace(self, metric=self.backend.default_metric(params))

    def losses_of(self, tasks: Sequence[TaskName]) -> TaskLosses:
        return TaskLosses.of_one_metric(self.metric, len(tasks))

    def on_rows(self, data: Dataset, params: Params) -> OneObjective:
        return self

    def of_task(self, task: TaskName, params: Params) -> tuple[OneObjective, Params]:
        return self, params

    def of_common_model(self, params: Params) -> Params:
        return params

    def start_margins(self, data: Dataset) -> Margins | None:
        return data.base_margin

    def in_one_unit(self, data: Dataset) -> Dataset:
        return data

    def own_margins(self, margins: Margins, data: Dataset) -> Margins:
        return margins

    def gradients(self, data: Dataset, n_threads: int) -> Callable[..., Any] | None:
        return self.function

    def inverse_link(self, margins: Margins, params: Params) -> npt.NDArray[np.floating]:
        return margins if self.function else self.backend.inverse_link(params, margins)

    def response(
        self, margins: Margins, tasks: Sequence[TaskName], codes: Codes, params: Params
    ) -> npt.NDArray[np.floating]:
        return self.inverse_link(margins, params)

    def followed_response(
        self, predictions: npt.NDArray[np.floating], data: Dataset, params: Params
    ) -> npt.NDArray[np.floating]:
        return predictions


@dataclass(frozen=True, slots=True)
class ObjectiveByTask:
    """An objective and a metric of each task (mixed_objective.py).

    The common model grows on the losses beside each other. For each task it is then a booster of
    the task's own objective, with leaves in the task's unit, which its specific model continues.
    """

    backend: Backend
    by_task: Mapping[TaskName, str]
    metrics: Mapping[TaskName, Metric]
    #: Of the training rows: empty before :meth:`on_rows`.
    losses: Mapping[TaskName, TaskLoss] = field(default_factory=dict)
    #: Unit of two classes, by default that of tasks with these objectives.
    class_unit: float | None = None
    #: What losses of each task are divided by: empty before :meth:`with_means`.
    scales: Mapping[TaskName, float] = field(default_factory=dict)

    @property
    def metric(self) -> Metric:
        return self.metric_of([*self.losses])

    def metric_of(self, tasks: Sequence[TaskName]) -> Metric:
        return metric_by_task(
            [self.losses[task] for task in tasks], [self.metrics[task] for task in tasks]
        )

    @property
    def names(self) -> dict[TaskName, str]:
        return dict(self.by_task)

    @property
    def common_name(self) -> str | None:
        names = set(self.by_task.values())
        return self.backend.squared_error if names == {self.backend.squared_error} else None

    @property
    def metric_names(self) -> dict[TaskName, str]:
        return {task: metric.name for task, metric in self.metrics.items()}

    @property
    def function(self) -> None:
        return None

    def with_means(self, data: Dataset, params: Params) -> ObjectiveByTask:
        metrics = {
            task: metric
            if is_mean_of_rows(metric)
            else self.backend.default_metric({**params, "objective": self.by_task[task]})
            for task, metric in self.metrics.items()
        }
        losses, scales = self.on_rows(data, params).losses, {}
        for task in data.tasks:
            rows = data.tasks.rows(task)
            weights = np.ones(len(rows)) if data.weight is None else data.weight[rows]
            weights = weights.astype(np.float64) if weights.any() else np.ones(len(rows))
            labels = data.labels()[rows].astype(np.float64)
            scales[task] = scale_of(losses[task], metrics[task], labels, weights)
        names = {task: metric.name for task, metric in metrics.items()}
        return replace(self, metrics=metrics, scales=typical_where_unknown(scales, names))

    def losses_of(self, tasks: Sequence[TaskName]) -> TaskLosses:
        scales = [self.scales.get(task, 1.0) for task in tasks]
        return TaskLosses.of_metrics([self.metrics[task] for task in tasks], np.array(scales))

    def on_rows(self, data: Dataset, params: Params) -> ObjectiveByTask:
        losses = measure_losses(self.by_task, data, self.backend, params, self.class_unit)
        return replace(self, losses=losses)

    def of_task(self, task: TaskName, params: Params) -> tuple[OneObjective, Params]:
        name = self.by_task[task]
        losses = self.backend.parameters_of_losses
        read = {key: value for key, value in params.items() if name in losses.get(key, (name,))}
        own = OneObjective(self.backend, self.metrics[task], name)
        return own, {**read, "objective": name}

    def of_common_model(self, params: Params) -> Params:
        return {**params, **self.backend.no_start}

    def start_margins(self, data: Dataset) -> Margins | None:
        return start_margins(self.losses, data, self.backend)

    def in_one_unit(self, data: Dataset) -> Dataset:
        return in_common_unit(self.losses, data, self.backend)

    def own_margins(self, margins: Margins, data: Dataset) -> Margins:
        units = units_of_rows(self.losses, data.tasks)
        return np.asarray((margins.T * units).T, margins.dtype)

    def gradients(self, data: Dataset, n_threads: int) -> Callable[..., Any]:
        return gradient_function(self.losses, data, self.backend, n_threads)

    def inverse_link(self, margins: Margins, params: Params) -> npt.NDArray[np.floating]:
        return margins  # which the metric of each task inverts

    def response(
        self, margins: Margins, tasks: Sequence[TaskName], codes: Codes, params: Params
    ) -> npt.NDArray[np.floating]:
        found = np.empty(margins.shape, np.float64)
        for name in dict.fromkeys(self.by_task[task] for task in tasks):
            rows = np.array([self.by_task[task] == name for task in tasks])[codes]
            own = {**params, "objective": name}
            found[rows] = self.backend.inverse_link(own, margins[rows])
        return found

    def followed_response(
        self, predictions: npt.NDArray[np.floating], data: Dataset, params: Params
    ) -> npt.NDArray[np.floating]:
        margins = predictions * units_of_rows(self.losses, data.tasks)
        return self.response(margins, data.tasks.names, data.tasks.codes, params)
