# SPDX-License-Identifier: Apache-2.0
"""Multi-task gradient-boosted trees as ordinary XGBoost or LightGBM boosters."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

if importlib.util.find_spec("mtboost._core") is None:  # before anything that needs it
    raise ImportError(
        f"mtboost._core, the compiled extension, is missing in {Path(__file__).parent}. If this is "
        "the source tree: build it by running 'pip install .' there, and start Python in another "
        "directory, where the installed mtboost is found."
    )

from mtboost import datasets, errors, metrics, plotting
from mtboost import xgboost as xgboost
from mtboost.base.dataset import Dataset
from mtboost.estimators.boosting import (
    PriorSamplingClassifier,
    PriorSamplingRegressor,
    ProjectedBoostingClassifier,
    ProjectedBoostingRegressor,
)
from mtboost.estimators.feature_priors import feature_prior
from mtboost.estimators.forests import (
    MTAdaBoostClassifier,
    MTDecisionTreeClassifier,
    MTExtraTreesClassifier,
    MTExtraTreesRegressor,
    ProjectedForestClassifier,
    ProjectedForestRegressor,
    compress,
)
from mtboost.estimators.load import load_model
from mtboost.estimators.multi_task import MultiTaskClassifier, MultiTaskRanker, MultiTaskRegressor
from mtboost.model.averaging import average_models
from mtboost.model.fitting import fit
from mtboost.model.model import MultiTaskModel
from mtboost.model.tuning import tune
from mtboost.trees.split_scores import make_split_score
from mtboost.xgboost.train import train

__version__ = "0.1.0"
__all__ = [
    "Dataset",
    "MTAdaBoostClassifier",
    "MTDecisionTreeClassifier",
    "MTExtraTreesClassifier",
    "MTExtraTreesRegressor",
    "MultiTaskClassifier",
    "MultiTaskModel",
    "MultiTaskRanker",
    "MultiTaskRegressor",
    "PriorSamplingClassifier",
    "PriorSamplingRegressor",
    "ProjectedBoostingClassifier",
    "ProjectedBoostingRegressor",
    "ProjectedForestClassifier",
    "ProjectedForestRegressor",
    "average_models",
    "compress",
    "datasets",
    "errors",
    "feature_prior",
    "fit",
    "load_model",
    "make_split_score",
    "metrics",
    "plotting",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import modules when they are asked for: LightGBM, Dask and Spark need not be installed."""
    if name in ("dask", "lightgbm", "spark"):
        return importlib.import_module(f"mtboost.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
