# SPDX-License-Identifier: Apache-2.0
"""XGBoost and LightGBM, as tests of what mtboost promises for both need them."""

import re

import lightgbm
import numpy as np
import scipy.sparse
import xgboost
from model_documents import trees

import mtboost.lightgbm
import mtboost.xgboost

_OBJECTIVES = {
    "reg:squarederror": "regression",
    "reg:absoluteerror": "regression_l1",
    "binary:logistic": "binary",
    "multi:softprob": "multiclass",
    "multi:softmax": "multiclass",
    "count:poisson": "poisson",
    "reg:gamma": "gamma",
    "reg:tweedie": "tweedie",
}


class XGBoost:
    name = "xgboost"
    plugin = mtboost.xgboost
    booster = xgboost.Booster
    squared_error = "reg:squarederror"
    multiclass = "multi:softprob"
    importances = ("gain", "total_gain", "weight", "cover", "total_cover")
    #: booster(task) adds the same numbers in the same order as the model does.
    atol = 0.0

    def own(self, text):
        """A text, with the library's names for XGBoost's objectives."""
        return text

    def raw(self, booster):
        return bytes(booster.save_raw())

    def trees(self, booster):
        return trees(booster)

    def n_rounds(self, booster):
        return booster.num_boosted_rounds()

    def first_rounds(self, booster, n_rounds):
        return booster[:n_rounds]

    def feature_names(self, booster):
        return booster.feature_names

    def importance(self, booster, kind):
        return booster.get_score(importance_type=kind)

    def margins(self, booster, table, start=None):
        """Margins of a table with the booster's columns, and from these margins on."""
        matrix = xgboost.DMatrix(table, base_margin=start, enable_categorical=True, nthread=1)
        return booster.predict(matrix, output_margin=True)

    def train(self, params, table, y, n_rounds, start=None):
        """Booster of the library's own, for squared error."""
        matrix = xgboost.QuantileDMatrix(table, y, base_margin=start, enable_categorical=True)
        return xgboost.train({**params, "nthread": 1}, matrix, n_rounds)

    def matrix(self, table, y=None, **fields):
        """Rows that several trainings may use, with their weights and other fields."""
        return xgboost.QuantileDMatrix(table, y, nthread=1, **fields)

    def boost(self, objective, params, matrix, n_rounds, **options):
        """Train on rows of ``matrix``; ``objective`` is a name or a TaskObjective."""
        own = objective if callable(objective) else None
        params = {"nthread": 1, **params, "objective": getattr(objective, "objective", objective)}
        return xgboost.train(params, matrix, n_rounds, obj=own, **options)

    def callback(self, after_round):
        """A user's callback: ``after_round(n_rounds)`` ends training by returning True."""
        return _XGBoostCallback(after_round)


class LightGBM:
    name = "lightgbm"
    plugin = mtboost.lightgbm
    booster = lightgbm.Booster
    squared_error = "regression"
    multiclass = "multiclass"
    importances = ("gain", "total_gain", "weight")
    #: The model adds the trees of each stage, then both sums; the booster one tree after the other.
    #: Some twenty double additions of numbers of order 1.
    atol = 1e-14

    def own(self, text):
        for name, own in _OBJECTIVES.items():
            text = text.replace(name, own)
        return text

    def raw(self, booster):
        return booster.model_to_string()

    def trees(self, booster):
        return re.findall(r"^Tree=.*?\n\n", booster.model_to_string(), re.DOTALL | re.MULTILINE)

    def n_rounds(self, booster):
        return booster.current_iteration()

    def first_rounds(self, booster, n_rounds):
        return lightgbm.Booster(model_str=booster.model_to_string(num_iteration=n_rounds))

    def feature_names(self, booster):
        return booster.feature_name()

    def importance(self, booster, kind):
        splits = booster.feature_importance("split").astype(float)
        gains = booster.feature_importance("gain")
        values = {"weight": splits, "total_gain": gains, "gain": gains / np.maximum(splits, 1)}
        found = zip(booster.feature_name(), values[kind].tolist(), splits, strict=True)
        return {name: value for name, value, n_splits in found if n_splits}

    def margins(self, booster, table, start=None):
        if scipy.sparse.issparse(table):
            table = scipy.sparse.csr_matrix(table)
        elif hasattr(table, "to_pandas"):  # LightGBM reads categories of pandas only
            table = table.to_pandas()
        found = booster.predict(table, raw_score=True, num_threads=1)
        return found if start is None else start + found

    def train(self, params, table, y, n_rounds, start=None):
        params = {"objective": "regression", "num_threads": 1, "verbosity": -1, **params}
        return lightgbm.train(params, lightgbm.Dataset(table, y, init_score=start), n_rounds)

    def matrix(self, table, y=None, **fields):
        quiet = {"verbosity": -1}
        return lightgbm.Dataset(table, y, free_raw_data=False, params=quiet, **fields).construct()

    def boost(self, objective, params, matrix, n_rounds, **options):
        params = {"num_threads": 1, "verbosity": -1, **params, "objective": objective}
        return lightgbm.train(params, matrix, n_rounds, **options)

    def callback(self, after_round):
        return _LightGBMCallback(after_round)


class _XGBoostCallback(xgboost.callback.TrainingCallback):
    def __init__(self, after_round):
        super().__init__()
        self.after_round = after_round

    def after_iteration(self, model, epoch, evals_log):
        return bool(self.after_round(epoch + 1))


class _LightGBMCallback:
    def __init__(self, after_round):
        self.after_round = after_round

    def __call__(self, env):
        if self.after_round(env.iteration + 1):
            raise lightgbm.callback.EarlyStopException(env.iteration, [])


LIBRARIES = {library.name: library for library in (XGBoost(), LightGBM())}
