"""mtboost inside stock XGBoost: callbacks for ``xgboost.train``."""

from mtboost.xgboost.assemble import combine
from mtboost.xgboost.callbacks import TaskSplit

__all__ = ["TaskSplit", "combine"]
