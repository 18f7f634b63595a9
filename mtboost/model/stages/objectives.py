# SPDX-License-Identifier: Apache-2.0
"""Objectives of the tasks: one of all, or one of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName
from mtboost.metrics.metric import Metric
from mtboost.model.stages.mixed_objective import (
    gradient_function,
    measure_losses,
    metric_by_task,
    start_margins,
)
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.losses import TaskLoss

Params = Mapping[str, Any]


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
    def metric_names(self) -> str | dict[TaskName, str]:
        """Name of the metric, or of each task's."""

    @property
    def function(self) -> Callable[..., Any] | None:
        """The user's function of gradients, if there is one."""

    def with_metric(self, metric: Metric) -> Objectives:
        """Return the same with one metric for all tasks."""

    def on_rows(self, data: Dataset, params: Params) -> Objectives:
        """Return the objectives for these training rows."""

    def of_task(self, task: TaskName, params: Params) -> tuple[Objectives, Params]:
        """Return the objective of a single task, and the library's parameters with it."""

    def of_common_model(self, params: Params) -> Params:
        """Return the parameters of the common model, from those of all models."""

    def start_margins(self, data: Dataset) -> Margins | None:
        """Return the common margins that rows start from; None leaves them to the library."""

    def gradients(self, data: Dataset, n_threads: int) -> Callable[..., Any] | None:
        """Return the function of the common model's gradients, if the library has none."""

    def inverse_link(self, margins: Margins, params: Params) -> npt.NDArray[np.floating]:
        """Return common margins on the scale that the metric expects."""


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
    def metric_names(self) -> str:
        return self.metric.name

    def with_metric(self, metric: Metric) -> OneObjective:
        return replace(self, metric=metric)

    def on_rows(self, data: Dataset, params: Params) -> OneObjective:
        return self

    def of_task(self, task: TaskName, params: Params) -> tuple[OneObjective, Params]:
        return self, params

    def of_common_model(self, params: Params) -> Params:
        return params

    def start_margins(self, data: Dataset) -> Margins | None:
        return data.base_margin

    def gradients(self, data: Dataset, n_threads: int) -> Callable[..., Any] | None:
        return self.function

    def inverse_link(self, margins: Margins, params: Params) -> npt.NDArray[np.floating]:
        return margins if self.function else self.backend.inverse_link(params, margins)


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

    @property
    def metric(self) -> Metric:
        metrics = [self.metrics[task] for task in self.losses]
        return metric_by_task([*self.losses.values()], metrics)

    @property
    def names(self) -> dict[TaskName, str]:
        return dict(self.by_task)

    @property
    def metric_names(self) -> dict[TaskName, str]:
        return {task: metric.name for task, metric in self.metrics.items()}

    @property
    def function(self) -> None:
        return None

    def with_metric(self, metric: Metric) -> ObjectiveByTask:
        return replace(self, metrics=dict.fromkeys(self.metrics, metric))

    def on_rows(self, data: Dataset, params: Params) -> ObjectiveByTask:
        return replace(self, losses=measure_losses(self.by_task, data, self.backend, params))

    def of_task(self, task: TaskName, params: Params) -> tuple[OneObjective, Params]:
        name = self.by_task[task]
        own = OneObjective(self.backend, self.metrics[task], name)
        return own, {**params, "objective": name}

    def of_common_model(self, params: Params) -> Params:
        return {**params, **self.backend.no_start}

    def start_margins(self, data: Dataset) -> Margins | None:
        return start_margins(self.losses, data, self.backend)

    def gradients(self, data: Dataset, n_threads: int) -> Callable[..., Any]:
        return gradient_function(self.losses, data, self.backend, n_threads)

    def inverse_link(self, margins: Margins, params: Params) -> npt.NDArray[np.floating]:
        return margins  # which the metric of each task inverts
