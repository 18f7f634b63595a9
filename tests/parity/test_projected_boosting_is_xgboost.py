# SPDX-License-Identifier: Apache-2.0
"""Without a projection, and with XGBoost's bins, trees of squared error are XGBoost's.

Of stock XGBoost: ``multi_output_tree``, or for one output its ordinary trees, without penalties.
Not compared: the order of cuts that gain the same (labels are continuous), and last bits. XGBoost
rounds gains and leaf values to float32; 2e-5 is some hundred roundings of numbers of size 1.
"""

from __future__ import annotations

import numpy as np
import pytest
import xgboost

from mtboost import _core
from mtboost.xgboost.bins import bin_matrix

f32 = np.float32


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("missing", [0, 0.2])
@pytest.mark.parametrize("max_leaf_nodes", [0, 7])
def test_margins_are_those_of_xgboost(n_outputs, missing, max_leaf_nodes):
    rng = np.random.default_rng(n_outputs)
    X = rng.normal(size=(600, 6)).astype(f32)
    labels = np.sin(2 * X @ rng.normal(size=(6, n_outputs))) + X[:, [0]]
    labels = (labels + rng.normal(0, 0.3, (600, n_outputs))).astype(f32)
    X[rng.random(X.shape) < missing] = np.nan
    matrix = xgboost.QuantileDMatrix(X, labels, max_bin=32)
    loss = _core.OutputLoss("squared", n_outputs)
    start = loss.initial(labels)
    matrix.set_base_margin(np.tile(start, (600, 1)))
    params = {
        "objective": "reg:squarederror",
        "multi_strategy": "multi_output_tree",
        "max_depth": 4,
        "max_leaves": max_leaf_nodes,
        "grow_policy": "lossguide" if max_leaf_nodes else "depthwise",
        "learning_rate": 0.5,
        "reg_lambda": 0,
        "min_child_weight": 0,
        "max_bin": 32,
        "base_score": 0,
        "nthread": 1,
    }
    booster = xgboost.train(params, matrix, 8)
    boosting = _core.ProjectedBoosting(
        bin_matrix(matrix, storage_order=np.zeros(0, np.uint32), n_threads=1, table=X),
        loss,
        labels,
        learning_rate=0.5,
        tree=_core.ComponentTreeParams(max_depth=4, max_leaf_nodes=max_leaf_nodes),
    )
    for _ in range(8):
        boosting.update()
    expected = booster.predict(matrix, output_margin=True).reshape(600, n_outputs)
    np.testing.assert_allclose(boosting.margins, expected, atol=2e-5)
    assert len(np.unique(expected[:, 0])) > 60  # the trees say much
