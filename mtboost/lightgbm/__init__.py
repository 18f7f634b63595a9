"""mtboost inside stock LightGBM: callbacks and objectives for ``lightgbm.train``."""

from mtboost.lightgbm.assemble import combine
from mtboost.lightgbm.callbacks import TaskSplit

__all__ = ["TaskSplit", "combine"]
