"""mtboost inside stock XGBoost: callbacks and objectives for ``xgboost.train``."""

from mtboost.xgboost.assemble import combine
from mtboost.xgboost.callbacks import TaskSplit
from mtboost.xgboost.objective import TaskObjective
from mtboost.xgboost.quitting import TaskQuitting

__all__ = ["TaskObjective", "TaskQuitting", "TaskSplit", "combine"]
