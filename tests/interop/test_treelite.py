# SPDX-License-Identifier: Apache-2.0
"""Treelite reads our boosters, and tl2cgen compiles what it has read."""

import numpy as np
import pytest
import xgboost
from interop.backends import projected_boosting

treelite = pytest.importorskip("treelite", reason="pip install 'mtboost[interop]'")
tl2cgen = pytest.importorskip("tl2cgen", reason="pip install 'mtboost[interop]'")

# Treelite adds float32 leaf values in another order; predictions are of order 1.
ATOL = 1e-5


def load(booster, backend):
    return getattr(treelite.frontend, f"from_{backend.name}")(booster)


def assert_predicts(found, example, backend):
    expected = backend.predictions(example.booster, example.table)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=ATOL)


def assert_model(model, example, backend):
    leaves = treelite.gtil.predict_leaf(model, example.values).astype(int)
    expected = backend.leaves(example.booster, example.table)
    for tree, tree_expected in zip(leaves.T, expected.T, strict=True):
        # The same leaf, whatever its number: Treelite counts LightGBM's anew.
        pairs = set(zip(tree.tolist(), tree_expected.tolist(), strict=True))
        assert len(pairs) == len(np.unique(tree)) == len(np.unique(tree_expected))
    assert_predicts(treelite.gtil.predict(model, example.values), example, backend)


def assert_compiled_model(model, path, example, backend):
    library = path / "model.so"
    tl2cgen.export_lib(model, toolchain="gcc", libpath=library)
    predictor = tl2cgen.Predictor(library, nthread=1)
    assert_predicts(predictor.predict(tl2cgen.DMatrix(example.values)), example, backend)


def test_rows_reach_the_same_leaves_and_predictions(example, backend):
    assert_model(load(example.booster, backend), example, backend)


def test_compiled_models_predict_the_same(example, backend, tmp_path):
    assert_compiled_model(load(example.booster, backend), tmp_path, example, backend)


def test_codes_of_categories_reach_the_same_leaves(example_with_categories, backend, tmp_path):
    # Treelite 4.8 refuses names of categories.
    booster = backend.without_category_names(example_with_categories.booster)
    model = load(booster, backend)
    assert_model(model, example_with_categories, backend)
    assert_compiled_model(model, tmp_path, example_with_categories, backend)


@pytest.mark.parametrize("output", [None, 1])
def test_boosters_of_many_outputs_predict_the_same(output):
    model, X = projected_boosting()
    booster = model.booster(output)
    expected = booster.predict(xgboost.DMatrix(X, nthread=1))
    found = treelite.gtil.predict(treelite.frontend.from_xgboost(booster), X)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=ATOL)
