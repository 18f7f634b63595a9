# SPDX-License-Identifier: Apache-2.0
"""Finished boosters for other libraries to load, and what the library that made them predicts.

A backend is a library whose boosters mtboost makes. What the tests here need to know of it is in
its class; other libraries name functions after it, such as ``convert_xgboost``.
"""

import json
from dataclasses import dataclass
from typing import ClassVar

import lightgbm
import numpy as np
import pandas as pd
import xgboost

import mtboost
import mtboost.lightgbm
from mtboost import MultiTaskClassifier, ProjectedBoostingClassifier
from mtboost.base.checked_tables import as_table
from mtboost.xgboost import TaskQuitting, TaskSplit
from mtboost.xgboost.library import check_readable

N_ROWS = 600
N_TRAIN = 400
N_COLORS = 8  # more than max_cat_to_onehot: cuts send several categories to one side
_rng = np.random.default_rng(0)
# Values that float32 holds: most other libraries predict from float32, as XGBoost does.
_numbers = _rng.normal(size=(N_ROWS, 4)).astype(np.float32).astype(float)
_color = _rng.integers(0, N_COLORS, N_ROWS)
TASK = np.array(["x", "y", "z"])[np.arange(N_ROWS) % 3]
_values = (
    _numbers[:, 0]
    + (TASK == "x") * _numbers[:, 1]
    + np.array([1, 0, 2, 0, 1, 0, -1, 2])[_color]
    + 0.3 * _rng.normal(size=N_ROWS)
)
LABELS = {
    "number": _values,
    "yes or no": (_values > 0.5).astype(float),
    "class": np.digitize(_values, [0.0, 1.0]).astype(float),
}
NUMBERS = pd.DataFrame(_numbers, columns=["a", "b", "c", "d"]).mask(_rng.random((N_ROWS, 4)) < 0.1)
SHOPS = NUMBERS.assign(shop=TASK)
# In another order than that of the alphabet, and with missing ones.
CATEGORIES = NUMBERS.assign(
    color=pd.Categorical.from_codes(
        np.where(_rng.random(N_ROWS) < 0.1, -1, _color), list("hgfedcba")
    )
)


class Backend:
    """What the libraries have in common."""

    name: str

    def fit_model(self, table, label, **options):
        params = self.params(label)
        given = {"backend": self.name, "objective": params.pop("objective"), "params": params}
        given |= {"num_boost_round": 12, "specific_rounds": 8, "n_threads": 1, "task": TASK}
        return mtboost.fit(table, LABELS[label], **{"strategy": "two-stage", **given, **options})

    def fit(self, table, label):
        """Booster of one task, with trees of both stages."""
        model = self.fit_model(table, label)
        assert model.quit_round["x"] > 0
        assert model.reports["x"].specific_rounds > 0
        return model.booster("x")

    def estimator(self):
        options = {"n_estimators": 6, "specific_rounds": 4, "strategy": "two-stage"}
        return MultiTaskClassifier(
            task="shop", backend=self.name, n_jobs=1, random_state=0, **options
        )


class XGBoost(Backend):
    """How XGBoost is trained with tasks, and what it says of a booster."""

    name = "xgboost"
    watched_metric = "valid-logloss"
    onnx_options: ClassVar = {}

    def params(self, label):
        objective = {
            "number": {"objective": "reg:squarederror"},
            "yes or no": {"objective": "binary:logistic"},
            "class": {"objective": "multi:softprob", "num_class": 3},
        }
        return {**objective[label], "max_depth": 3}

    def train(self, table, label):
        """Booster of the library's own training function."""
        params = {**self.params(label), "nthread": 1}
        matrix = self.matrix(table, LABELS[label])
        return xgboost.train(params, matrix, 12, callbacks=[TaskSplit(TASK)])

    def train_watched(self, learning_rate, callbacks=()):
        """Booster for yes or no, and its validation loss after each round."""
        y = LABELS["yes or no"]
        train = self.matrix(NUMBERS[:N_TRAIN], y[:N_TRAIN])
        valid = self.matrix(NUMBERS[N_TRAIN:], y[N_TRAIN:])
        history = {}
        booster = xgboost.train(
            {**self.params("yes or no"), "nthread": 1, "learning_rate": learning_rate},
            train,
            8,
            evals=[(valid, "valid")],
            evals_result=history,
            verbose_eval=False,
            callbacks=[TaskSplit(TASK[:N_TRAIN]), TaskQuitting(valid, TASK[N_TRAIN:]), *callbacks],
        )
        return booster, history["valid"]["logloss"]

    def pruning_callback(self, optuna_integration, trial):
        return optuna_integration.XGBoostPruningCallback(trial, self.watched_metric)

    def matrix(self, table, y=None):
        check_readable(as_table(table))
        return xgboost.DMatrix(table, y, enable_categorical=True, nthread=1)

    def predictions(self, booster, table):
        return booster.predict(self.matrix(table))

    def predict_array(self, booster):
        """Method of the booster that predicts from an array."""
        return booster.inplace_predict

    def margins(self, booster, table):
        return booster.predict(self.matrix(table), output_margin=True)

    def leaves(self, booster, table):
        """Number of the leaf in each tree, (n_rows, n_trees)."""
        return booster.predict(self.matrix(table), pred_leaf=True).reshape(len(table), -1)

    def contributions(self, booster, table):
        """SHAP values, then the bias: (n_rows, n_features + 1), or with a last axis of classes."""
        found = booster.predict(self.matrix(table), pred_contribs=True)
        return found if found.ndim == 2 else np.swapaxes(found, 1, 2)

    def without_feature_names(self, booster):
        booster = booster.copy()
        booster.feature_names = None
        return booster

    def without_category_names(self, booster):
        """The same trees; what predicts with them must be given codes."""
        document = json.loads(booster.save_raw("json"))
        document["learner"]["gradient_booster"]["model"].pop("cats", None)  # since XGBoost 3.1
        return xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))


class LightGBM(Backend):
    """The same of LightGBM."""

    name = "lightgbm"
    watched_metric = "valid-binary_logloss"
    onnx_options: ClassVar = {"zipmap": False}  # probabilities as an array

    def params(self, label):
        objective = {
            "number": {"objective": "regression"},
            "yes or no": {"objective": "binary"},
            "class": {"objective": "multiclass", "num_class": 3},
        }
        return {**objective[label], "max_depth": 3, "min_data_in_leaf": 5}

    def train(self, table, label):
        params = {**self.params(label), "num_threads": 1, "verbosity": -1}
        split = mtboost.lightgbm.TaskSplit(TASK)
        return lightgbm.train(params, lightgbm.Dataset(table, LABELS[label]), 12, callbacks=[split])

    def train_watched(self, learning_rate, callbacks=()):
        y = LABELS["yes or no"]
        train = lightgbm.Dataset(NUMBERS[:N_TRAIN], y[:N_TRAIN])
        valid = lightgbm.Dataset(NUMBERS[N_TRAIN:], y[N_TRAIN:], reference=train)
        history = {}
        params = {"num_threads": 1, "verbosity": -1, "learning_rate": learning_rate}
        booster = lightgbm.train(
            {**self.params("yes or no"), **params},
            train,
            8,
            valid_sets=[valid],
            valid_names=["valid"],
            callbacks=[
                mtboost.lightgbm.TaskSplit(TASK[:N_TRAIN]),
                mtboost.lightgbm.TaskQuitting(valid, TASK[N_TRAIN:]),
                lightgbm.record_evaluation(history),
                *callbacks,
            ],
        )
        return booster, history["valid"]["binary_logloss"]

    def pruning_callback(self, optuna_integration, trial):
        return optuna_integration.LightGBMPruningCallback(trial, "binary_logloss", "valid")

    def matrix(self, table):
        return table

    def predictions(self, booster, table):
        return booster.predict(table)

    def predict_array(self, booster):
        return booster.predict

    def margins(self, booster, table):
        return booster.predict(table, raw_score=True)

    def leaves(self, booster, table):
        return booster.predict(table, pred_leaf=True)

    def contributions(self, booster, table):
        found = booster.predict(table, pred_contrib=True)
        n_outputs = booster.num_model_per_iteration()
        if n_outputs == 1:
            return found
        return np.swapaxes(found.reshape(len(table), n_outputs, -1), 1, 2)

    def without_feature_names(self, booster):
        return booster

    def without_category_names(self, booster):
        return booster


@dataclass(frozen=True)
class Example:
    """A booster, a table to predict from, and the same as an array with codes for categories."""

    booster: object
    label: str
    table: pd.DataFrame

    @property
    def values(self):
        codes = {
            name: column.cat.codes.where(column.notna())
            for name, column in self.table.items()
            if column.dtype == "category"
        }
        return self.table.assign(**codes).to_numpy(np.float32)


BACKENDS = {backend.name: backend for backend in [XGBoost(), LightGBM()]}


def projected_boosting():
    """A classifier of four labels, whose trees are the core's, and the array it was fitted on."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    labels = X @ rng.normal(size=(5, 4)) + rng.normal(size=(400, 4)) > 0
    X[rng.random(X.shape) < 0.1] = np.nan
    model = ProjectedBoostingClassifier(12, strategy="gbrt-rpo", n_jobs=1, random_state=0)
    return model.fit(X, labels), X
