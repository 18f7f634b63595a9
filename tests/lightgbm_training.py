# SPDX-License-Identifier: Apache-2.0
"""Training with LightGBM, with and without TaskSplit: settings, objectives and metrics."""

import numpy as np
from stock_training import LIGHTGBM, Y

PARAMS, train, datasets, text = LIGHTGBM.params, LIGHTGBM.train, LIGHTGBM.data, LIGHTGBM.text
task_split, assert_same = LIGHTGBM.task_split, LIGHTGBM.assert_same
assert_parity, assert_same_training = LIGHTGBM.assert_parity, LIGHTGBM.assert_same_training
WEIGHT = np.random.default_rng(1).uniform(0.1, 3.0, len(Y))
WEIGHTED = {"weight": WEIGHT}
SCORE = np.random.default_rng(2).normal(size=(len(Y), 3))
OBJECTIVES = {
    "regression": ["l2", "l1", "rmse", "mape"],
    "regression_l1": ["l1"],
    "huber": ["huber"],
    "fair": ["fair"],
    "poisson": ["poisson"],
    "quantile": ["quantile"],
    "mape": ["mape"],
    "gamma": ["gamma", "gamma_deviance"],
    "tweedie": ["tweedie"],
    "binary": ["binary_logloss", "auc", "binary_error", "average_precision"],
    "cross_entropy": ["cross_entropy", "kullback_leibler"],
    "multiclass": ["multi_logloss", "multi_error", "auc_mu"],
    "multiclassova": ["multi_logloss", "multi_error"],
}
RATES = {"bagging_fraction": 0.6, "bagging_freq": 2, "feature_fraction": 0.6}


def trees(booster):
    return [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]


def settings_of(objective, **others):
    n_classes = {"num_class": 3} if objective.startswith("multi") else {}
    return {"objective": objective, "metric": OBJECTIVES[objective], **n_classes, **others}


def logistic(margins, data):
    p = 1 / (1 + np.exp(-margins))
    return p - data.get_label(), p * (1 - p)


def largest(predictions, data):
    return "largest", float(predictions.max()), True
