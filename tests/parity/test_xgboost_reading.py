# SPDX-License-Identifier: Apache-2.0
"""Rows read back from XGBoost's matrix grow the trees that the table itself grows."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost

from mtboost.xgboost import TaskSplit, bin_codes, bins

RNG = np.random.default_rng(0)
N_ROWS = 1200
X = np.round(RNG.normal(size=(N_ROWS, 9)), 2).astype(np.float32)
X[:, 3] = 1.0  # one bin
X[:, 4] = RNG.integers(0, 40, N_ROWS)
Y = X[:, 0] + X[:, 4] % 3 + X[:, 8] + RNG.normal(size=N_ROWS)
TASK = RNG.integers(0, 4, N_ROWS)

MISSING = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
MISSING[:, 6] = np.nan
TABLES = {"dense": X, "missing": MISSING}
MATRICES = {"quantile": xgboost.QuantileDMatrix, "plain": xgboost.DMatrix}
CATEGORY = ["q"] * 4 + ["c"] + ["q"] * 4


@pytest.fixture(autouse=True)
def _tables_are_large(monkeypatch):
    monkeypatch.setattr(bins, "_MOST_COPIED", 0)


def trained(matrix_type, values, *, table, max_bin=32, types=None, **of_matrix):
    options = {} if matrix_type is xgboost.DMatrix else {"max_bin": max_bin}
    matrix = matrix_type(
        values, Y, feature_types=types, enable_categorical=types is not None, **options, **of_matrix
    )
    margin = matrix.get_base_margin()
    split = TaskSplit(TASK, table=table)
    params = {"max_depth": 5, "max_bin": max_bin, "nthread": 2, "max_cat_to_onehot": 4}
    booster = xgboost.train(params, matrix, 3, callbacks=[split])
    np.testing.assert_array_equal(matrix.get_base_margin(), margin)
    return booster.save_raw("json")


@pytest.mark.parametrize("matrix_type", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("max_bin", [2, 32, 256, 700])
def test_tables(matrix_type, name, max_bin):
    values = TABLES[name]
    expected = trained(matrix_type, values, table=values, max_bin=max_bin)
    assert trained(matrix_type, values, table=None, max_bin=max_bin) == expected


@pytest.mark.parametrize("matrix_type", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("name", TABLES)
def test_categories_and_base_margins(matrix_type, name):
    values = TABLES[name]
    options = {"types": CATEGORY, "base_margin": RNG.normal(size=N_ROWS)}
    expected = trained(matrix_type, values, table=values, **options)
    assert trained(matrix_type, values, table=None, **options) == expected


@pytest.mark.parametrize("n_predictions", [1, 2, 3])
def test_codes_in_several_predictions(monkeypatch, n_predictions):
    expected = trained(xgboost.QuantileDMatrix, X, table=X)
    monkeypatch.setattr(bin_codes, "_CODES_AT_ONCE", 1)
    monkeypatch.setattr(bin_codes, "_MOST_PREDICTIONS", n_predictions)
    assert trained(xgboost.QuantileDMatrix, X, table=None) == expected


def test_few_values_are_copied(monkeypatch):
    expected = trained(xgboost.QuantileDMatrix, MISSING, table=MISSING)
    monkeypatch.setattr(bins, "_MOST_COPIED", MISSING.size)
    monkeypatch.setattr(bins, "bin_codes", None)
    assert trained(xgboost.QuantileDMatrix, MISSING, table=None) == expected


def test_a_large_quantile_matrix_is_not_copied(monkeypatch):
    """Its values as XGBoost returns them would take 16 bytes each."""
    monkeypatch.setattr(bins, "read_values", None)
    trained(xgboost.QuantileDMatrix, MISSING, table=None)
