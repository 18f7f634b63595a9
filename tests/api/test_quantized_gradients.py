# SPDX-License-Identifier: Apache-2.0
"""quantized_gradients=True: XGBoost's rounds with splits by rounded gradients."""

import numpy as np
import pytest
import xgboost

from mtboost.errors import UnsupportedError
from mtboost.trees.tree_options import TreeOptions
from mtboost.xgboost import TaskSplit

N_ROWS, N_TASKS = 6000, 5
PARAMS = {"objective": "binary:logistic", "max_depth": 4, "seed": 3}


def rows(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 6)).astype(np.float32)
    task = rng.integers(0, N_TASKS, N_ROWS)
    margin = X[:, 0] - np.sin(2 * X[:, 1]) + (task % 2) * X[:, 2]
    y = (rng.random(N_ROWS) < 1 / (1 + np.exp(-margin))).astype(np.float32)
    return X, y, task


X, Y, TASK = rows(0)
NEW, NEW_Y, _ = rows(1)


def trained(split_score="entropy", *, params=PARAMS, y=Y, rounds=20, n_threads=1, **options):
    split = TaskSplit(TASK, split_score=split_score, **options)
    params = {**params, "nthread": n_threads}
    return xgboost.train(params, xgboost.DMatrix(X, y), rounds, callbacks=[split])


def is_quantized(booster, **options):
    """Whether a booster differs from the one of all bits."""
    return booster.save_raw() != trained(quantized_gradients=False, **options).save_raw()


def test_without_the_option_trees_are_the_librarys_own():
    stock = xgboost.train({**PARAMS, "nthread": 1}, xgboost.DMatrix(X, Y), 20)
    for options in ({}, {"quantized_gradients": False}):
        assert trained("plain", **options).save_raw() == stock.save_raw()


@pytest.mark.parametrize("split_score", ["plain", "entropy", "variance"])
@pytest.mark.parametrize("options", [{}, {"pooling": 1.0}])
def test_boosters_do_not_depend_on_the_number_of_threads(split_score, options):
    one, two, again = (
        trained(split_score, quantized_gradients=True, n_threads=n_threads, **options)
        for n_threads in (1, 2, 2)
    )
    assert one.save_raw() == two.save_raw() == again.save_raw()
    assert is_quantized(one, split_score=split_score, **options)


def test_the_seed_decides_how_gradients_are_rounded():
    first, second = (
        trained("plain", params={**PARAMS, "seed": seed}, quantized_gradients=True).save_raw()
        for seed in (3, 4)
    )
    assert first != second


def test_gradients_of_few_bits_grow_the_librarys_own_trees():
    # Of a squared error, the first gradients are the labels, and hessians are 1.
    params = {"objective": "reg:squarederror", "max_depth": 4, "base_score": 0.0}
    y = np.round(64 * NEW[:, 0]) / 64
    plain = trained("plain", params=params, y=y, rounds=1)
    quantized = trained("plain", params=params, y=y, rounds=1, quantized_gradients=True)
    assert quantized.save_raw() == plain.save_raw()


def test_leaf_values_are_those_of_the_given_gradients():
    params = {**PARAMS, "objective": "reg:squarederror", "base_score": 0.0, "reg_lambda": 0.0}
    params |= {"learning_rate": 1.0}
    y = np.random.default_rng(2).normal(size=N_ROWS).astype(np.float32)
    y[0] = 1e6  # makes steps of 32, so that other labels are rounded to 0 or 32
    booster = trained("plain", params=params, y=y, rounds=1, quantized_gradients=True)
    leaves = booster.predict(xgboost.DMatrix(X), pred_leaf=True).astype(int)
    means = np.bincount(leaves, y.astype(float)) / np.bincount(leaves).clip(1)
    # XGBoost's leaf values are floats.
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(X)), means[leaves], rtol=1e-6)
    assert len(np.unique(leaves)) > 4


@pytest.mark.parametrize("split_score", ["plain", "entropy"])
def test_new_rows_are_predicted_as_well(split_score):
    def losses(**options):
        p = trained(split_score, **options).predict(xgboost.DMatrix(NEW)).astype(float)
        return -np.log(np.where(NEW_Y == 1, p, 1 - p))

    quantized, plain = losses(quantized_gradients=True), losses()
    difference = quantized - plain
    error = difference.std() / np.sqrt(N_ROWS)
    assert abs(difference.mean()) < 4 * error + 1e-12  # trees may all be the same
    assert difference.mean() < 0.002 * plain.mean() < 0.002 * np.log(2)


def test_a_tree_of_the_librarys_own_growth_is_refused():
    with pytest.raises(UnsupportedError, match="quantized_gradients=True needs trees that mtboost"):
        trained("plain", params={**PARAMS, "tree_method": "exact"}, quantized_gradients=True)


def test_trees_of_lightgbm_are_refused():
    lightgbm = pytest.importorskip("mtboost.lightgbm")
    with pytest.raises(UnsupportedError, match="quantized_gradients=True is for trees of XGBoost"):
        lightgbm.TaskSplit(TASK, quantized_gradients=True)


def test_only_true_and_false_are_taken():
    with pytest.raises(TypeError, match="quantized_gradients must be True or False, found 16"):
        TreeOptions(quantized_gradients=16)
