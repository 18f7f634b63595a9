# SPDX-License-Identifier: Apache-2.0
"""SHAP explains our boosters."""

import numpy as np
import pytest
import xgboost
from interop.backends import projected_boosting

shap = pytest.importorskip("shap", reason="pip install 'mtboost[interop]'")

# SHAP says so whenever it explains LightGBM's boosters for two classes.
pytestmark = pytest.mark.filterwarnings("ignore:LightGBM binary classifier with TreeExplainer")

# Values are float32 sums over some twenty trees, of order 1.
ATOL = 1e-5


def explained(explainer, rows):
    """SHAP values and margins that they add up to."""
    values = explainer.shap_values(rows)
    return values, values.sum(axis=1) + explainer.expected_value


def test_values_are_those_of_the_library_and_add_up_to_the_margins(example, backend):
    values, margins = explained(shap.TreeExplainer(example.booster), example.table)
    expected = backend.contributions(example.booster, example.table)
    np.testing.assert_array_equal(values, expected[:, :-1])
    np.testing.assert_allclose(
        margins, backend.margins(example.booster, example.table), rtol=0, atol=ATOL
    )


def test_categories_are_explained_from_the_matrix_of_the_library(example_with_categories, backend):
    booster, table = example_with_categories.booster, example_with_categories.table
    values, margins = explained(shap.TreeExplainer(booster), backend.matrix(table))
    expected = backend.contributions(booster, table)
    np.testing.assert_array_equal(values, expected[:, :-1])
    np.testing.assert_allclose(margins, backend.margins(booster, table), rtol=0, atol=ATOL)


def reads_one_class(example, backend):
    """Where SHAP reads trees itself, it adds those of all classes of a LightGBM booster.

    Also of a stock one: it asks an LGBMClassifier for its classes, and a Booster not (SHAP 0.51).
    """
    return backend.name == "lightgbm" and example.label == "class"


def test_values_against_a_background_add_up_to_the_difference_from_its_mean(example, backend):
    # Here SHAP reads the trees itself. Its base values are left out: those of several classes are
    # wrong by XGBoost's start scores, also for a model of XGBoost alone (SHAP 0.51).
    background = slice(0, 50)
    explainer = shap.TreeExplainer(example.booster, example.table[background])
    margins = backend.margins(example.booster, example.table)
    found = explainer(example.table).values.sum(axis=1)
    if reads_one_class(example, backend):
        assert found.ndim == 1
        return
    np.testing.assert_allclose(found, margins - margins[background].mean(axis=0), rtol=0, atol=ATOL)


def test_interactions_add_up_to_the_values(example, backend):
    explainer = shap.TreeExplainer(example.booster)
    interactions = explainer.shap_interaction_values(example.table[:50])
    if reads_one_class(example, backend):
        assert interactions.ndim == 3
        return
    np.testing.assert_allclose(
        interactions.sum(axis=2), explainer.shap_values(example.table[:50]), rtol=0, atol=ATOL
    )


def test_values_of_one_of_many_outputs_add_up_to_its_margins():
    model, X = projected_boosting()
    booster = model.booster(1)
    margins = booster.predict(xgboost.DMatrix(X, nthread=1), output_margin=True)
    found = explained(shap.TreeExplainer(booster), X)[1]
    np.testing.assert_allclose(found, margins, rtol=0, atol=ATOL)
