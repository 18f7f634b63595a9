# SPDX-License-Identifier: Apache-2.0
"""Gradient boosting with trees of the core's own (joly2016, chapter 6; eruhimov2007)."""

from mtboost.estimators.boosting.prior_sampling import (
    PriorSamplingClassifier,
    PriorSamplingRegressor,
)
from mtboost.estimators.boosting.projected_boosting import (
    ProjectedBoostingClassifier,
    ProjectedBoostingRegressor,
)

__all__ = [
    "PriorSamplingClassifier",
    "PriorSamplingRegressor",
    "ProjectedBoostingClassifier",
    "ProjectedBoostingRegressor",
]
