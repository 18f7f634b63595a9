# SPDX-License-Identifier: Apache-2.0
"""scikit-learn estimators for related tasks, by :func:`mtboost.fit`."""

from mtboost.estimators.multi_task.classifier import MultiTaskClassifier
from mtboost.estimators.multi_task.ranker import MultiTaskRanker
from mtboost.estimators.multi_task.regressor import MultiTaskRegressor

__all__ = ["MultiTaskClassifier", "MultiTaskRanker", "MultiTaskRegressor"]
