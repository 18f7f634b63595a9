# SPDX-License-Identifier: Apache-2.0
"""Where relabelling changes nothing, XGBoost's and LightGBM's trees make the same model.

With stumps and squared loss the residuals of each output add up to 0, so that the means of its two
leaves are a multiple of the tree's: gbrt-rpo is gbrt-relabel-rpo (joly2016, section 22.3). Columns
have fewer values than bins, so that both libraries know the same cuts, and no value is rare, since
LightGBM estimates numbers of rows from their weights and may take one row for none.
"""

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.testing import assert_allclose

import mtboost.lightgbm
import mtboost.xgboost
from mtboost.xgboost.library import version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

N, D, ROUNDS = 500, 7, 25


@pytest.mark.skipif(version() < (3, 2), reason="XGBoost has a split gradient from 3.2 on")
@pytest.mark.parametrize("is_weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("kind", ["gaussian", "rademacher", "sparse", "subsample"])
def test_stumps_of_both_libraries_are_the_same_model(kind, is_weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)).round(1).clip(-1.5, 1.5)
    y = X @ rng.normal(size=(4, D)) + rng.normal(size=(N, D)) + 2
    weight = rng.integers(1, 4, N) if is_weighted else None
    options = {"projection": kind, "seed": 3, "weight": weight}

    booster = xgboost.train(
        {
            "multi_strategy": "multi_output_tree",
            "max_depth": 1,
            "eta": 0.3,
            "lambda": 0,
            "min_child_weight": 0,
            "nthread": 1,
        },
        xgboost.QuantileDMatrix(X, y),
        ROUNDS,
        callbacks=[mtboost.xgboost.ProjectedObjective(n_components=1, **options)],
    )
    of_xgboost = booster.predict(xgboost.DMatrix(X))

    projected = mtboost.lightgbm.ProjectedObjective(y, **options)
    trees = lightgbm.train(
        {
            "num_leaves": 2,
            "learning_rate": 0.3,
            "min_data_in_leaf": 1,
            "min_data_in_bin": 1,
            "min_sum_hessian_in_leaf": 0,
            "num_threads": 1,
            "verbosity": -1,
        },
        lightgbm.Dataset(X, np.zeros(N)),
        ROUNDS,
        callbacks=[projected],
    )
    of_lightgbm = projected.model(trees).predict(X)
    # 25 rounds of margins in float32
    assert_allclose(of_lightgbm, of_xgboost, rtol=1e-4, atol=1e-4)
    assert np.mean((of_xgboost - y) ** 2) < 0.6 * y.var(axis=0).mean()
