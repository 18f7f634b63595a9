# SPDX-License-Identifier: Apache-2.0
"""mtboost inside stock XGBoost: callbacks and objectives for ``xgboost.train``."""

from mtboost.xgboost.assemble import combine
from mtboost.xgboost.callbacks import TaskSplit
from mtboost.xgboost.objective import TaskObjective
from mtboost.xgboost.prior_sampling import PriorFeatureSampling
from mtboost.xgboost.projected_objective import ProjectedObjective
from mtboost.xgboost.quitting import TaskQuitting
from mtboost.xgboost.residual import residual_margin
from mtboost.xgboost.task_metric import task_metric

__all__ = [
    "PriorFeatureSampling",
    "ProjectedObjective",
    "TaskObjective",
    "TaskQuitting",
    "TaskSplit",
    "combine",
    "residual_margin",
    "task_metric",
]
