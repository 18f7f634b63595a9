# SPDX-License-Identifier: Apache-2.0
"""From a file to the estimator that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtboost.boosting import (
    PriorSamplingClassifier,
    PriorSamplingRegressor,
    ProjectedBoostingClassifier,
    ProjectedBoostingRegressor,
)
from mtboost.estimator_file import SavedEstimator, unpack
from mtboost.forests.compression import CompressedForestClassifier, CompressedForestRegressor
from mtboost.forests.mt_adaboost import MTAdaBoostClassifier
from mtboost.forests.mt_decision_tree import MTDecisionTreeClassifier
from mtboost.forests.mt_extra_trees import MTExtraTreesClassifier, MTExtraTreesRegressor
from mtboost.forests.projected import ProjectedForestClassifier, ProjectedForestRegressor

_KINDS: dict[str, type[SavedEstimator]] = {
    kind.__name__: kind
    for kind in (
        CompressedForestClassifier,
        CompressedForestRegressor,
        MTAdaBoostClassifier,
        MTDecisionTreeClassifier,
        MTExtraTreesClassifier,
        MTExtraTreesRegressor,
        PriorSamplingClassifier,
        PriorSamplingRegressor,
        ProjectedBoostingClassifier,
        ProjectedBoostingRegressor,
        ProjectedForestClassifier,
        ProjectedForestRegressor,
    )
}


def estimator_from_parts(metadata: dict[str, Any], members: Mapping[str, bytes]) -> Any:
    """The estimator of a file, for :func:`mtboost.load_model`; raises if anything does not fit."""
    content = unpack(metadata, members)
    estimator = _KINDS[content["estimator"]](**content["parameters"])
    estimator._set_from_file(content)
    return estimator
