# SPDX-License-Identifier: Apache-2.0
"""Training with stock XGBoost and LightGBM, with and without TaskSplit, on rows in common."""

import lightgbm as lgb
import numpy as np
import xgboost
from libraries import LIBRARIES
from model_documents import assert_same_model

_OF_XGBOOST = {
    "nthread": 1, "max_depth": 3, "objective": "binary:logistic", "eval_metric": "logloss",
}  # fmt: skip
_OF_LIGHTGBM = {
    "objective": "regression", "num_leaves": 7, "learning_rate": 0.3, "num_threads": 1,
    "verbosity": -1,
}  # fmt: skip
N_TRAIN = 400
PARTS = slice(0, N_TRAIN), slice(N_TRAIN, None)


def make_rows(n_rows=600, seed=0):
    """X with missing values, noisy labels (so that early stopping stops), tasks."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, 5)) < 0.1, np.nan, rng.normal(size=(n_rows, 5)))
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1] * X[:, 2]) + rng.normal(size=n_rows)
    task = rng.choice(["a", "b", "c"], n_rows, p=[0.6, 0.3, 0.1])
    return X, y, task


X, Y, TASK = make_rows()


def make_labels(objective):
    """Labels in the domain of an objective of either library."""
    if objective.startswith("binary"):
        return Y > 0
    if objective == "cross_entropy":
        return 1 / (1 + np.exp(-Y))
    if objective in ("count:poisson", "poisson", "tweedie"):
        return np.round(np.abs(Y))
    if objective == "gamma":
        return np.abs(Y) + 0.1
    return np.digitize(Y, [-1, 1]) if objective.startswith("multi") else Y


class Training:
    """Trainings with one library; ``data`` are matrices of training and validation rows."""

    def task_split(self, score="plain", task=TASK):
        return self.library.plugin.TaskSplit(task[:N_TRAIN], split_score=score)

    def assert_parity(self, make_callbacks=list, *, places=("first", "last"), **options):
        """TaskSplit before and after the other callbacks: both must equal stock training."""
        expected = self.train(make_callbacks(), **options)
        for place in places:
            split, others = [self.task_split()], make_callbacks()
            callbacks = split + others if place == "first" else others + split
            self.assert_same_training(self.train(callbacks, **options), expected)
        return expected[0]

    def assert_same_training(self, found, expected):
        """Pairs of a booster and its history of metrics."""
        self.assert_same(found[0], expected[0])
        assert found[1] == expected[1]


class XGBoostTraining(Training):
    library = LIBRARIES["xgboost"]
    params = _OF_XGBOOST
    first_model = "xgb_model"
    start = "base_margin"

    def data(self, objective="binary:logistic", **fields):
        labels = make_labels(objective)
        rows, valid = (
            {name: values[part] for name, values in fields.items()} | {"nthread": 1}
            for part in PARTS
        )
        matrix = xgboost.QuantileDMatrix(X[PARTS[0]], labels[PARTS[0]], **rows)
        return matrix, xgboost.DMatrix(X[PARTS[1]], labels[PARTS[1]], **valid)

    def train(self, callbacks=(), params=None, n_rounds=12, *, data=None, **options):
        """Booster and evaluation results, validation rows last in ``evals``."""
        params = {**self.params, **(params or {})}
        matrix, valid = data or self.data(params["objective"])
        results = {}
        booster = xgboost.train(
            params,
            matrix,
            n_rounds,
            evals=[(matrix, "train"), (valid, "valid")],
            evals_result=results,
            callbacks=list(callbacks),
            **{"verbose_eval": False, **options},
        )
        return booster, results

    def by(self, objective):
        """Options of a training by a user's function."""
        return {"obj": objective}

    def assert_same(self, found, expected):
        assert type(found) is xgboost.Booster
        assert_same_model(found, expected)
        assert found.save_config() == expected.save_config()
        assert found.attributes() == expected.attributes()


class LightGBMTraining(Training):
    library = LIBRARIES["lightgbm"]
    params = _OF_LIGHTGBM
    first_model = "init_model"
    start = "init_score"

    def data(self, objective="regression", labels=None, *, table=X, **fields):
        """Training and validation data; ``fields`` are those of all rows, such as weights."""
        labels = make_labels(objective) if labels is None else labels
        own = [{name: np.array(values[part]) for name, values in fields.items()} for part in PARTS]
        train_set = lgb.Dataset(table[PARTS[0]], labels[PARTS[0]], **own[0])
        valid = lgb.Dataset(table[PARTS[1]], labels[PARTS[1]], reference=train_set, **own[1])
        return train_set, valid

    def train(self, callbacks=(), params=None, n_rounds=8, *, data=None, fields=None, **options):
        """Booster and its history of metrics, on the training rows and on others.

        ``data`` may be a function that makes them; ``fields`` are arguments of :meth:`data`.
        """
        params = {**self.params, **(params or {})}
        objective = params["objective"]
        name = objective if isinstance(objective, str) else "regression"
        data = data() if callable(data) else data
        train_set, valid = data or self.data(**{"objective": name, **(fields or {})})
        history = {}
        booster = lgb.train(
            params,
            train_set,
            n_rounds,
            callbacks=[*callbacks, lgb.record_evaluation(history)],
            **{"valid_sets": [train_set, valid], "valid_names": ["train", "valid"], **options},
        )
        return booster, history

    def by(self, objective):
        return {"params": {"objective": objective}}

    def text(self, booster):
        """Text of a model, but for the number of threads."""
        return booster.model_to_string().replace("[num_threads: 2]", "[num_threads: 1]")

    def assert_same(self, found, expected):
        """The same model, by its text, and the same notes of the training loop."""
        assert type(found) is lgb.Booster
        assert self.text(found) == self.text(expected)
        assert found.best_iteration == expected.best_iteration
        assert found.best_score == expected.best_score
        assert found.params == expected.params


XGBOOST, LIGHTGBM = XGBoostTraining(), LightGBMTraining()
