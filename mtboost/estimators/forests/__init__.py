# SPDX-License-Identifier: Apache-2.0
"""Forests: trees on the user's own values, without a boosting library."""

from mtboost.estimators.forests.compressed_forests import (
    CompressedForestClassifier,
    CompressedForestRegressor,
)
from mtboost.estimators.forests.compression import compress
from mtboost.estimators.forests.mt_adaboost import MTAdaBoostClassifier
from mtboost.estimators.forests.mt_decision_tree import MTDecisionTreeClassifier
from mtboost.estimators.forests.mt_extra_trees import MTExtraTreesClassifier, MTExtraTreesRegressor
from mtboost.estimators.forests.projected import ProjectedForestClassifier, ProjectedForestRegressor

__all__ = [
    "CompressedForestClassifier",
    "CompressedForestRegressor",
    "MTAdaBoostClassifier",
    "MTDecisionTreeClassifier",
    "MTExtraTreesClassifier",
    "MTExtraTreesRegressor",
    "ProjectedForestClassifier",
    "ProjectedForestRegressor",
    "compress",
]
