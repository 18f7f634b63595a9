# SPDX-License-Identifier: Apache-2.0
"""MAPIE's conformal intervals and sets around our estimators."""

import numpy as np
import pandas as pd
import pytest

import mtboost

regression = pytest.importorskip("mapie.regression", reason="pip install 'mtboost[interop]'")
classification = pytest.importorskip("mapie.classification")

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(600, 2)), columns=["a", "b"]).assign(shop=np.arange(600) % 2)
Y = (FRAME["a"] + FRAME["shop"] * FRAME["b"] + 0.3 * RNG.normal(size=600)).to_numpy()
FAST = {"strategy": "two-stage", "n_estimators": 30, "random_state": 0}
TRAIN, CONFORM, TEST = slice(0, 200), slice(200, 400), slice(400, 600)
# MAPIE tries whether an estimator is fitted on an array of zeros.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")


@pytest.mark.parametrize("prefit", [True, False])
@pytest.mark.parametrize("table", [FRAME, FRAME.to_numpy()], ids=["frame", "array"])
def test_intervals_cover_as_often_as_asked(backend, prefit, table):
    task = "shop" if table is FRAME else 2
    estimator = mtboost.MultiTaskRegressor(task=task, backend=backend.name, **FAST)
    if prefit:
        estimator.fit(table[TRAIN], Y[TRAIN])
    conformal = regression.SplitConformalRegressor(estimator, confidence_level=0.9, prefit=prefit)
    if not prefit:
        conformal.fit(table[TRAIN], Y[TRAIN])
    conformal.conformalize(table[CONFORM], Y[CONFORM])
    low, high = conformal.predict_interval(table[TEST])[1][:, :, 0].T
    # Three standard errors of 200 rows, whose coverage has the spread of 200 others.
    covered = np.mean((low <= Y[TEST]) & (Y[TEST] <= high))
    assert abs(covered - 0.9) < 3.0 * np.sqrt(2.0 * 0.9 * 0.1 / 200)


def test_sets_of_classes_cover_as_often_as_asked(backend):
    y = (Y > 0).astype(int)
    estimator = mtboost.MultiTaskClassifier(task="shop", backend=backend.name, **FAST)
    estimator.fit(FRAME[TRAIN], y[TRAIN])
    conformal = classification.SplitConformalClassifier(
        estimator, confidence_level=0.9, prefit=True
    )
    conformal.conformalize(FRAME[CONFORM], y[CONFORM])
    sets = conformal.predict_set(FRAME[TEST])[1][:, :, 0]
    covered = sets[np.arange(200), y[TEST]].mean()
    assert covered > 0.9 - 3.0 * np.sqrt(2.0 * 0.9 * 0.1 / 200)


def test_tasks_with_names_need_the_common_model_for_the_row_of_zeros(backend):
    named = FRAME.assign(shop=FRAME["shop"].map({0: "x", 1: "y"}))
    estimator = mtboost.MultiTaskRegressor(
        task="shop", unknown_task="common", backend=backend.name, **FAST
    ).fit(named[TRAIN], Y[TRAIN])
    conformal = regression.SplitConformalRegressor(estimator, prefit=True)
    conformal.conformalize(named[CONFORM], Y[CONFORM])
    assert conformal.predict_interval(named[TEST])[1].shape == (200, 2, 1)


def test_a_single_task_has_the_intervals_of_mapie(backend):
    estimator = mtboost.MultiTaskRegressor(backend=backend.name, **FAST)
    table = FRAME[["a", "b"]].to_numpy()
    estimator.fit(table[TRAIN], Y[TRAIN])
    conformal = regression.SplitConformalRegressor(estimator, confidence_level=0.9, prefit=True)
    conformal.conformalize(table[CONFORM], Y[CONFORM])
    expected = conformal.predict_interval(table[TEST])[1][:, :, 0]
    estimator.conformalize(table[CONFORM], Y[CONFORM])
    found = estimator.predict_interval(table[TEST], alpha=0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
