# SPDX-License-Identifier: Apache-2.0
"""mtboost inside stock LightGBM: callbacks and objectives for ``lightgbm.train``."""
# ruff: noqa: E402  # nothing else may be imported before LightGBM is known to be there

from mtboost.lightgbm.library import check_version

check_version()

from mtboost.lightgbm.assemble import combine
from mtboost.lightgbm.callbacks import TaskSplit
from mtboost.lightgbm.objective import TaskObjective
from mtboost.lightgbm.projected_model import ProjectedModel
from mtboost.lightgbm.projected_objective import ProjectedObjective
from mtboost.lightgbm.quitting import TaskQuitting
from mtboost.lightgbm.residual import residual_margin
from mtboost.lightgbm.task_metric import task_metric

__all__ = [
    "ProjectedModel",
    "ProjectedObjective",
    "TaskObjective",
    "TaskQuitting",
    "TaskSplit",
    "combine",
    "residual_margin",
    "task_metric",
]
