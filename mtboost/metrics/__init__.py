# SPDX-License-Identifier: Apache-2.0
"""Scores per task, evaluated for all tasks in one pass.

A built-in metric has the definition XGBoost 3.2 gives the metric of the same name, computed in
float64.
"""

from mtboost.metrics.built_in import default_metric, get_metric
from mtboost.metrics.by_task import evaluate_by_task as evaluate_by_task
from mtboost.metrics.by_task import evaluate_strata as evaluate_strata
from mtboost.metrics.metric import Metric
from mtboost.metrics.scorers import TaskScorer, task_scorer
from mtboost.metrics.survival import cox_losses as cox_losses

__all__ = ["Metric", "TaskScorer", "default_metric", "get_metric", "task_scorer"]
