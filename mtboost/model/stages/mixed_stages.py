# SPDX-License-Identifier: Apache-2.0
"""Both stages where each task has a loss of its own.

The common model grows on the losses beside each other (mixed_objective.py). To each task it is then
a booster of the task's own objective, with leaves in the task's unit, from which the task goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName
from mtboost.metrics import Metric
from mtboost.model.common_trees import CommonTrees
from mtboost.model.stages.mixed_objective import (
    Gradients,
    gradient_function,
    measure_losses,
    metric_by_task,
    start_margins,
)
from mtboost.model.stages.stages import AddedToCommon, CommonModel, TwoStages
from mtboost.trees.backend import Margins
from mtboost.trees.losses import TaskLoss


@dataclass(frozen=True, slots=True)
class MixedStages(TwoStages):
    """Settings of both stages, the objective and metric of each task among them."""

    objectives: Mapping[TaskName, str] = field(default_factory=dict)
    metrics: Mapping[TaskName, Metric] = field(default_factory=dict)
    losses: Mapping[TaskName, TaskLoss] = field(default_factory=dict)

    @property
    def metric_names(self) -> dict[TaskName, str]:
        return {task: metric.name for task, metric in self.metrics.items()}

    def on_rows(self, data: Dataset) -> MixedStages:
        losses = measure_losses(self.objectives, data, self.backend, self.params)
        metrics = [self.metrics[task] for task in data.tasks]
        return replace(self, losses=losses, metric=metric_by_task([*losses.values()], metrics))

    def of_task(self, task: TaskName) -> TwoStages:
        own = {each.name: getattr(self, each.name) for each in fields(TwoStages)}
        own["params"] = {**self.params, "objective": self.objectives[task]}
        return TwoStages(**own | {"metric": self.metrics[task]})

    def start_of(self, data: Dataset) -> Margins | None:
        return start_margins(self.losses, data, self.backend)

    def objective_for(self, data: Dataset) -> Gradients:
        return gradient_function(self.losses, data, self.backend, self.n_threads)

    def inverse_link(self, margins: Margins) -> npt.NDArray[np.floating]:
        return margins  # which the metric of each task inverts

    def _train_common(
        self,
        data: Dataset,
        matrix: Any,
        added: AddedToCommon | None,
        n_rounds: int,
        callbacks: tuple[Any, ...],
        valid: Any = None,
    ) -> CommonTrees:
        plain = replace(self, params={**self.params, **self.backend.no_start})
        return TwoStages._train_common(plain, data, matrix, added, n_rounds, callbacks, valid)

    def followed_margins(self, common: CommonModel, data: Dataset) -> Margins:
        trees = common.trees
        document = self.backend.document(trees.booster)
        margins = np.empty((data.n_rows, 1), self.backend.margin_type)
        for task in data.tasks:
            rows = data.tasks.rows(task)
            own = self.backend.own_rounds(
                trees.document_of(task, document), common.quit_round[task], self.losses[task]
            )
            start = None if data.base_margin is None else data.base_margin[rows]
            margins[rows, 0] = self.backend.predict_margin(own, data.common.take(rows), start)
        return margins


def mixed_stages(
    stages: TwoStages, objectives: Mapping[TaskName, str], metrics: Mapping[TaskName, Metric]
) -> MixedStages:
    """The same settings, with the objective and the metric of each task."""
    given = {each.name: getattr(stages, each.name) for each in fields(TwoStages)}
    return MixedStages(**given, objectives=objectives, metrics=metrics)
