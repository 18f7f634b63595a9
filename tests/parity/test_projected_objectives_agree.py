# SPDX-License-Identifier: Apache-2.0
"""The same strategy on three engines: our own trees, XGBoost's and LightGBM's.

Projections depend on seed and round alone, so that with the same cuts and squared sums the trees
are the same. Columns have fewer values than bins, so that all know the same cuts, and no value is
rare, since LightGBM estimates numbers of rows from their weights and may take one row for none.
"""

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.testing import assert_allclose
from scipy.special import expit

import mtboost.lightgbm
import mtboost.xgboost
from mtboost import _core
from mtboost.xgboost.bins import bin_matrix
from mtboost.xgboost.library import version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")
needs_split_gradient = pytest.mark.skipif(
    version() < (3, 2), reason="XGBoost has a split gradient from 3.2 on"
)

N, D = 500, 7
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).round(1).clip(-1.5, 1.5).astype(np.float32)
MISSING = np.where(RNG.random((N, 4)) < 0.1, np.float32(np.nan), X)
SIGNAL = X @ RNG.normal(size=(4, D)) + X[:, :1] * X[:, 1:2] + RNG.normal(size=(N, D))
LABELS = {
    "squared": (SIGNAL + 2).astype(np.float32),
    # Shares, since many cuts tie where there are two labels; none of them certain, since our own
    # steps are limited and XGBoost's are not.
    "logistic": expit(SIGNAL).astype(np.float32),
}
WEIGHT = RNG.integers(1, 4, N).astype(np.float32)
KINDS = ["gaussian", "rademacher", "sparse", "subsample"]
OBJECTIVES = {
    "xgboost": {"squared": "reg:squarederror", "logistic": "binary:logistic"},
    "lightgbm": {"squared": "regression", "logistic": "cross_entropy"},
}
weighted = pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
# Margins are float32 and rounds build on each other.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def margins_of_xgboost(table, loss, kind, rounds, *, n_components=1, weight=None, max_depth=3):
    y = LABELS[loss]
    matrix = xgboost.QuantileDMatrix(table, y)
    projected = mtboost.xgboost.ProjectedObjective(
        projection=kind, n_components=n_components, weight=weight, seed=3
    )
    params = {
        "objective": OBJECTIVES["xgboost"][loss],
        "multi_strategy": "multi_output_tree",
        "max_depth": max_depth,
        "eta": 0.3,
        "lambda": 0,
        "min_child_weight": 0,
        "nthread": 1,
    }
    booster = xgboost.train(params, matrix, rounds, callbacks=[projected])
    return booster.predict(matrix, output_margin=True)


def margins_of_lightgbm(loss, kind, rounds, *, weight=None, num_leaves=7):
    projected = mtboost.lightgbm.ProjectedObjective(
        LABELS[loss], projection=kind, weight=weight, seed=3
    )
    params = {
        "objective": OBJECTIVES["lightgbm"][loss],
        "num_leaves": num_leaves,
        "learning_rate": 0.3,
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "min_sum_hessian_in_leaf": 0,
        "num_threads": 1,
        "verbosity": -1,
    }
    trees = lightgbm.train(params, lightgbm.Dataset(X, np.zeros(N)), rounds, callbacks=[projected])
    return projected.model(trees).predict_margin(X)


def margins_of_core(table, loss, kind, rounds, *, n_components=1, weight=None, **options):
    bins = bin_matrix(
        xgboost.QuantileDMatrix(table, LABELS[loss]),
        storage_order=np.empty(0, np.uint32),
        n_threads=1,
    )
    relabels = options.pop("relabels")
    training = _core.ProjectedBoosting(
        bins,
        _core.OutputLoss(loss, D),
        LABELS[loss],
        weight,
        relabels=relabels,
        learning_rate=0.3,
        tree=_core.ComponentTreeParams(seed=3, **options),
        projection=_core.ForestProjection(kind, n_components=n_components),
    )
    for _ in range(rounds):
        training.update()
    return training.margins


@needs_split_gradient
@weighted
@pytest.mark.parametrize("table", [X, MISSING], ids=["dense", "missing"])
@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("kind", KINDS)
def test_relabelled_trees_of_xgboost_are_our_own(kind, loss, table, weight):
    options = {"n_components": 2, "weight": weight, "max_depth": 2}
    found = margins_of_xgboost(table, loss, kind, 8, **options)
    assert_allclose(found, margins_of_core(table, loss, kind, 8, relabels=True, **options), **CLOSE)


@weighted
@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("kind", KINDS)
def test_multiples_of_lightgbms_trees_are_those_of_our_own(kind, loss, weight):
    found = margins_of_lightgbm(loss, kind, 8, weight=weight)
    options = {"max_depth": 100, "max_leaf_nodes": 7}
    own = margins_of_core(X, loss, kind, 8, relabels=False, weight=weight, **options)
    assert_allclose(found, own, **CLOSE)


@needs_split_gradient
@weighted
@pytest.mark.parametrize("kind", KINDS)
def test_stumps_of_both_libraries_are_the_same_model(kind, weight):
    # With squared loss the residuals of each output add up to 0, so that the means of its two
    # leaves are a multiple of the tree's: relabelling changes nothing (joly2016, section 22.3).
    of_xgboost = margins_of_xgboost(X, "squared", kind, 25, weight=weight, max_depth=1)
    of_lightgbm = margins_of_lightgbm("squared", kind, 25, weight=weight, num_leaves=2)
    assert_allclose(of_lightgbm, of_xgboost, **CLOSE)
    y = LABELS["squared"]
    assert np.mean((of_xgboost - y) ** 2) < 0.7 * y.var(axis=0).mean()
