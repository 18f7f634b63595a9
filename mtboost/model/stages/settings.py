# SPDX-License-Identifier: Apache-2.0
"""Settings of both stages: data, without the code that trains."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Total
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import Metric
from mtboost.model.stages.objectives import Objectives
from mtboost.model.stages.team import Team, of_one_machine
from mtboost.trees.backend import Backend, Margins
from mtboost.trees.feature_weights import PriorOption
from mtboost.trees.losses import is_classification
from mtboost.trees.task_quitting import OnRound
from mtboost.trees.tree_options import TreeOptions

#: Linear effects of the columns, of an intercept alone, or none.
LinearOption: TypeAlias = bool | Literal["intercepts"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of both stages; see :func:`mtboost.fit` for their meaning.

    Attributes
    ----------
    backend : Backend
    params : mapping
        The library's parameters of the common model.
    objectives : Objectives
        What the tasks are trained for and validated by.
    options : TreeOptions
        How the common model's trees are grown.
    rounds, specific_rounds : int
        Maximum number of rounds of the common model and of each specific model.
    specific_params : mapping
        Parameters of the specific models that differ.
    common_early_stopping_rounds : int, optional
        In place of `early_stopping_rounds` of each task: rounds after which the common model ends
        if the mean metric over all validation rows has not improved; all tasks then use the best
        round.
    linear_effects : bool or "intercepts"
        Whether the common model begins with linear effects of the columns, or with random
        intercepts (linear_effects.py).
    verbose : bool or int
        Whether progress is shown; a number n also prints metrics of the common model after each
        n rounds.
    team : Team, optional
        The machines that train models together; None is this one.
    other_metrics : tuple of Metric
        Decide nothing, and are in the report.
    given : collection of str
        Arguments of ``fit`` and parameters of the library that the user has fixed:
        ``strategy="auto"`` searches the others.
    """

    backend: Backend
    params: Mapping[str, Any]
    objectives: Objectives
    options: TreeOptions
    rounds: int
    early_stopping_rounds: int | None
    min_delta: float
    specific_params: Mapping[str, Any]
    specific_rounds: int
    n_threads: int
    verbose: bool | int = False
    feature_prior: PriorOption = None
    common_early_stopping_rounds: int | None = None
    on_round: OnRound | None = None
    linear_effects: LinearOption = False
    given: Collection[str] = ()
    team: Team | None = None
    other_metrics: tuple[Metric, ...] = ()

    @property
    def metric(self) -> Metric:
        return self.objectives.metric

    def with_means(self, data: Dataset) -> Settings:
        """Return the settings with metrics whose losses can be added; `data` are training rows."""
        return replace(self, objectives=self.objectives.with_means(data, self.params))

    def on_rows(self, data: Dataset) -> Settings:
        """Return the settings for these training rows."""
        return replace(self, objectives=self.objectives.on_rows(data, self.params))

    def of_task(self, task: TaskName) -> Settings:
        """Return the settings of the models that belong to a single task."""
        objectives, params = self.objectives.of_task(task, self.params)
        if objectives is self.objectives and params is self.params:  # saves thousands of copies
            return self
        return replace(self, objectives=objectives, params=params)

    def tasks_of_one_class(self, data: Dataset, total: Total = of_one_machine) -> set[TaskName]:
        """Return tasks whose rows with weight are all of one class; none if labels are numbers.

        `total` adds up over several machines.
        """
        names = self.objectives.names
        own = names if isinstance(names, dict) else dict.fromkeys(data.tasks, names)
        if not any(map(is_classification, own.values())):
            return set()
        rows = slice(None) if data.weight is None else np.flatnonzero(data.weight)
        codes, labels = data.tasks.codes[rows], data.labels()[rows].astype(np.float64)
        powers = (None, labels, labels**2)
        sums = [np.bincount(codes, power, data.tasks.n_tasks) for power in powers]
        n, first, second = total(np.stack(sums))
        has_one = n * second == first**2  # labels without variance
        return {task for task in compress(data.tasks, has_one) if is_classification(own[task])}

    def inverse_link(self, margins: Margins) -> npt.NDArray[np.floating]:
        """Return margins on the scale of the labels; those of a user's objective as they are.

        One column becomes a vector, as metrics take it.
        """
        own = margins[:, 0] if margins.shape[1:] == (1,) else margins
        return self.objectives.inverse_link(own, self.params)

    def evaluate(self, valid: Dataset, margins: Margins) -> npt.NDArray[np.float64]:
        """Return the metric of each task; margins of shape (n_rows, n_outputs)."""
        return evaluate_by_task(
            self.objectives.metric_of(valid.tasks.names),
            valid.labels(),
            self.inverse_link(margins),
            valid.tasks.codes,
            valid.tasks.n_tasks,
            valid.weight,
            valid.queries,
        )
