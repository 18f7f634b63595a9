"""Forests: trees on the user's own values, without a boosting library."""

from mtboost.forests.mt_extra_trees import MTExtraTreesClassifier, MTExtraTreesRegressor

__all__ = ["MTExtraTreesClassifier", "MTExtraTreesRegressor"]
