"""mtboost inside stock LightGBM: callbacks and objectives for ``lightgbm.train``."""

from mtboost.lightgbm.library import check_version

check_version()
