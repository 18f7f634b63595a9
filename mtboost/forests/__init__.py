"""Forests: trees on the user's own values, without a boosting library."""

from mtboost.forests.mt_extra_trees import MTExtraTreesClassifier, MTExtraTreesRegressor
from mtboost.forests.projected import ProjectedForestClassifier, ProjectedForestRegressor

__all__ = [
    "MTExtraTreesClassifier",
    "MTExtraTreesRegressor",
    "ProjectedForestClassifier",
    "ProjectedForestRegressor",
]
