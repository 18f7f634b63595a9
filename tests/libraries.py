"""XGBoost and LightGBM, as tests of what mtboost promises for both need them."""

import re

import lightgbm
import numpy as np
import xgboost
from model_documents import trees


class XGBoost:
    name = "xgboost"
    squared_error = "reg:squarederror"
    absolute_error = "reg:absoluteerror"
    binary = "binary:logistic"
    multiclass = "multi:softprob"
    poisson = "count:poisson"
    gamma = "reg:gamma"
    importances = ("gain", "total_gain", "weight", "cover", "total_cover")
    error = xgboost.core.XGBoostError
    #: booster(task) adds the same numbers in the same order as the model does.
    atol = 0.0

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

    def margins(self, booster, table):
        """Margins of a NumPy array or pandas DataFrame with the booster's columns."""
        matrix = xgboost.DMatrix(table, enable_categorical=True, nthread=1)
        return booster.predict(matrix, output_margin=True)

    def callback(self, after_round):
        """A user's callback: ``after_round(n_rounds)`` ends training by returning True."""
        return _XGBoostCallback(after_round)


class LightGBM:
    name = "lightgbm"
    squared_error = "regression"
    absolute_error = "regression_l1"
    binary = "binary"
    multiclass = "multiclass"
    poisson = "poisson"
    gamma = "gamma"
    importances = ("gain", "total_gain", "weight")
    error = lightgbm.basic.LightGBMError
    #: The model adds the trees of each stage, then both sums; the booster one tree after the other.
    #: Some twenty double additions of numbers of order 1.
    atol = 1e-14

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

    def margins(self, booster, table):
        return booster.predict(table, raw_score=True, num_threads=1)

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
