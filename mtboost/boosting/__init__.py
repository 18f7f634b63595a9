"""Gradient boosting of many outputs (joly2016, chapter 6)."""

from mtboost.boosting.projected_boosting import (
    ProjectedBoostingClassifier,
    ProjectedBoostingRegressor,
)

__all__ = ["ProjectedBoostingClassifier", "ProjectedBoostingRegressor"]
