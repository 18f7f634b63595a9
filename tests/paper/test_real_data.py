# SPDX-License-Identifier: Apache-2.0
"""School and Landmine from end to end; benchmarks/real_data.py has the figures."""

from pathlib import Path

import numpy as np
import pytest
import xgboost
from sklearn.metrics import roc_auc_score

import mtboost

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the data sets are not beside the repository"
)


def load(name):
    """Training and test rows (X, y, task); a fifth of each task is test."""
    with np.load(DATA / f"{name}.npz") as file:
        X, y, task = file["X"], file["y"].astype(float), file["task"]
    is_test = np.zeros(len(y), bool)
    rng = np.random.default_rng(0)
    for code in np.unique(task):
        own = rng.permutation(np.flatnonzero(task == code))
        is_test[own[: len(own) // 5]] = True
    return (X[~is_test], y[~is_test], task[~is_test]), (X[is_test], y[is_test], task[is_test])


def independent(train, test, params, n_rounds):
    (X, y, task), (X_test, _, task_test) = train, test
    prediction = np.empty(len(task_test))
    for code in np.unique(task):
        own = xgboost.DMatrix(X[task == code], y[task == code])
        booster = xgboost.train({**params, "nthread": 1}, own, n_rounds)
        rows = task_test == code
        prediction[rows] = booster.predict(xgboost.DMatrix(X_test[rows]))
    return prediction


@pytest.mark.parametrize("score", ["entropy", "variance"])
def test_139_schools_learn_from_each_other(score):
    train, test = load("school")
    X, y, task = train
    model = mtboost.fit(
        X,
        y,
        task=task,
        split_score=score,
        params={"max_depth": 2, "eta": 0.1},
        num_boost_round=150,
        early_stopping_rounds=None,
        specific_params={"max_depth": 1, "reg_lambda": 50},
        specific_rounds=25,
        validation_fraction=0,
        strategy="two-stage",
    )

    def rmse(prediction):
        return float(np.sqrt(np.mean((test[1] - prediction) ** 2)))

    alone = independent(train, test, {"max_depth": 2, "eta": 0.1}, 25)
    mean_of_school = np.array([y[task == code].mean() for code in test[2]])
    found = rmse(model.predict(test[0], task=test[2]))
    assert found < rmse(alone)
    assert found < rmse(mean_of_school)


def test_29_mine_fields_are_told_from_clutter_by_boosters_of_their_own():
    (X, y, task), (X_test, y_test, task_test) = load("landmine")
    model = mtboost.fit(
        X,
        y,
        task=task,
        objective="binary:logistic",
        params={"max_depth": 3},
        refit=True,
        strategy="two-stage",
    )
    margins = model.predict_margin(X_test, task=task_test)
    scores = []
    for name in model.tasks:
        rows = task_test == name
        own = model.booster(name).predict(xgboost.DMatrix(X_test[rows]), output_margin=True)
        np.testing.assert_array_equal(own, margins[rows])
        if 0 < y_test[rows].sum() < rows.sum():
            scores.append(roc_auc_score(y_test[rows], own))
    assert np.mean(scores) > 0.7  # .75 pooled, .5 by chance
