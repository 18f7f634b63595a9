"""mtboost inside stock LightGBM: callbacks and objectives for ``lightgbm.train``."""
# ruff: noqa: E402  # nothing else may be imported before LightGBM is known to be there

from mtboost.lightgbm.library import check_version

check_version()

from mtboost.lightgbm.objective import TaskObjective

__all__ = ["TaskObjective"]
