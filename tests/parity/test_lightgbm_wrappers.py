# SPDX-License-Identifier: Apache-2.0
"""LightGBM's estimators take the callback, which is copied and pickled."""

import copy
import pickle

import lightgbm as lgb
import numpy as np
import pytest
import sklearn.base
from lightgbm_training import WEIGHT, assert_same, task_split, train
from stock_training import N_TRAIN, X, Y

from mtboost.lightgbm.library import version

# LightGBM sums metrics with the threads of the newest data set or booster that it has made.
pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


WRAPPERS = {
    "regressor": (lgb.LGBMRegressor, Y),
    "two classes": (lgb.LGBMClassifier, np.where(Y > 0, "yes", "no")),
    "three classes": (lgb.LGBMClassifier, np.digitize(Y, [-1, 1])),
}


def fits_a_wrapper(test):
    """Mark a test of LightGBM's estimators, whose older versions do not suit any scikit-learn."""
    if version() < (4, 6):
        return pytest.mark.skip("LightGBM 4.5 does not work with scikit-learn 1.8 and later")(test)
    for message in (
        "The argument 'eval_set' is deprecated",  # the only name that LightGBM 4.6 knows
        "X does not have valid feature names",  # LightGBM 4.6 gives columns of arrays names
    ):
        test = pytest.mark.filterwarnings(f"ignore:{message}")(test)
    return test


@fits_a_wrapper
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(("wrapper", "labels"), WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers_take_the_callback(wrapper, labels, stops):
    def fit(callbacks):
        estimator = wrapper(
            n_estimators=12, num_leaves=7, learning_rate=0.8, n_jobs=1, verbosity=-1
        )
        if stops:
            callbacks = [*callbacks, lgb.early_stopping(2, verbose=False)]
        return estimator.fit(
            X[:N_TRAIN],
            labels[:N_TRAIN],
            sample_weight=WEIGHT[:N_TRAIN],
            eval_set=[(X[:N_TRAIN], labels[:N_TRAIN]), (X[N_TRAIN:], labels[N_TRAIN:])],
            eval_sample_weight=[WEIGHT[:N_TRAIN], WEIGHT[N_TRAIN:]],
            callbacks=callbacks,
        )

    ours, stock = fit([task_split()]), fit([])
    assert_same(ours.booster_, stock.booster_)
    assert ours.evals_result_ == stock.evals_result_
    assert ours.best_iteration_ == stock.best_iteration_
    np.testing.assert_array_equal(ours.predict(X), stock.predict(X))
    np.testing.assert_array_equal(ours.feature_importances_, stock.feature_importances_)
    if wrapper is lgb.LGBMClassifier:
        np.testing.assert_array_equal(ours.predict_proba(X), stock.predict_proba(X))


@fits_a_wrapper
def test_wrappers_take_a_users_objective_and_metric():
    def squared(y, margins):
        return margins - y, np.ones_like(y)

    def bias(y, predictions):
        return "bias", float(np.mean(predictions - y)), False

    def fit(callbacks):
        estimator = lgb.LGBMRegressor(objective=squared, n_estimators=5, n_jobs=1, verbosity=-1)
        eval_set = [(X[N_TRAIN:], Y[N_TRAIN:])]
        return estimator.fit(
            X[:N_TRAIN], Y[:N_TRAIN], eval_set=eval_set, eval_metric=bias, callbacks=callbacks
        )

    ours, stock = fit([task_split()]), fit(None)
    assert ours.booster_.model_to_string() == stock.booster_.model_to_string()
    assert ours.evals_result_ == stock.evals_result_


def cloned(thing):
    return sklearn.base.clone(thing, safe=False)


def unpickled(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("make_copy", [cloned, copy.copy, copy.deepcopy, unpickled])
@pytest.mark.parametrize("score", ["plain", "entropy", "variance"])
def test_task_split_is_copied_and_pickled(make_copy, score):
    split = task_split(score)
    expected, _ = train([split], n_rounds=3)
    assert_same(train([make_copy(split)], n_rounds=3)[0], expected)
