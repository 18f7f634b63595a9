"""mtboost inside stock XGBoost: callbacks for ``xgboost.train``."""

from mtboost.xgboost.assemble import combine
from mtboost.xgboost.callbacks import TaskSplit
from mtboost.xgboost.quitting import TaskQuitting

__all__ = ["TaskQuitting", "TaskSplit", "combine"]
