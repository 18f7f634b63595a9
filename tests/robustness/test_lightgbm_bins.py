# SPDX-License-Identifier: Apache-2.0
"""A table of LightGBM's bins that does not hold together is refused, whatever reads the file."""

from typing import Any

import numpy as np
import pytest

from mtboost import _core

N_ROWS = 6


def table(**changes: Any) -> _core.BinnedMatrix:
    """Two features in one column: entries 1 and 2 are of the first, 3 of the second."""
    arguments = {
        "n_bins": np.array([3, 2], np.uint32),
        "missing_bins": np.array([2, 2], np.uint32),
        "frequent_bins": np.array([0, 0], np.uint32),
        "missing_types": np.array([2, 0], np.uint8),
        "is_categorical": np.array([0, 0], np.uint8),
        "columns": [np.array([0, 1, 2, 3, 0, 0], np.uint8)],
        "bits": [8],
        "steps": [None],
        "column_of_feature": [0, 0],
        "first_entries": [1, 3],
        "n_rows": N_ROWS,
        "storage_order": np.empty(0, np.uint32),
        "is_sparse": False,
        "n_threads": 1,
    }
    return _core.lightgbm_matrix(**arguments | changes)


def test_a_table_that_holds_together_is_taken() -> None:
    assert table().n_rows == N_ROWS
    assert table(is_sparse=True).n_features == 2
    assert table(steps=[np.ones(5, np.uint8)], columns=[np.ones(5, np.uint8)]).n_rows == N_ROWS


WRONG = {
    "a feature too many": ({"n_bins": np.array([3, 2, 2], np.uint32)}, "one entry per feature"),
    "no missing bin": ({"missing_bins": np.array([2], np.uint32)}, "one entry per feature"),
    "no frequent bin": ({"frequent_bins": np.array([0], np.uint32)}, "one entry per feature"),
    "no missing type": ({"missing_types": np.array([2], np.uint8)}, "one entry per feature"),
    "no kind": ({"is_categorical": np.array([0], np.uint8)}, "one entry per feature"),
    "no place": ({"column_of_feature": [0]}, "one per feature"),
    "no first entry": ({"first_entries": [1]}, "one per feature"),
    "no bits": ({"bits": []}, "one entry per column"),
    "no steps": ({"steps": []}, "one entry per column"),
    "no bins": ({"n_bins": np.array([0, 2], np.uint32)}, "must be bins"),
    "missing beyond": ({"missing_bins": np.array([4, 2], np.uint32)}, "must be bins"),
    "frequent beyond": ({"frequent_bins": np.array([3, 0], np.uint32)}, "must be bins"),
    "unknown type": ({"missing_types": np.array([3, 0], np.uint8)}, "missing type is unknown"),
    "too many bins": ({"n_bins": np.array([65537, 2], np.uint32)}, "at most 65535|two features"),
    "a column that is not there": ({"column_of_feature": [0, 1]}, "is not there"),
    "entry 0": ({"first_entries": [0, 3]}, "is not there"),
    "shared entries": ({"first_entries": [1, 2]}, "two features"),
    "an entry beyond": ({"columns": [np.full(6, 4, np.uint8)]}, "out of range"),
    "bytes missing": ({"columns": [np.zeros(5, np.uint8)]}, "too few bytes"),
    "odd bits": ({"bits": [7]}, "4, 8, 16 or 32 bits"),
    "steps beyond": ({"steps": [np.full(6, 2, np.uint8)]}, "beyond its rows"),
    "bytes of steps": ({"steps": [np.zeros(7, np.uint8)]}, "too few bytes"),
    "order": ({"storage_order": np.zeros(6, np.uint32)}, "permutation"),
    "short order": ({"storage_order": np.arange(5, dtype=np.uint32)}, "one entry per row"),
    "two dimensions": ({"n_bins": np.array([[3, 2]], np.uint32)}, "one dimension"),
}


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_table_that_does_not_is_refused(
    changes: dict[str, Any], message: str, is_sparse: bool
) -> None:
    with pytest.raises(ValueError, match=message):
        table(**changes, is_sparse=is_sparse)


@pytest.mark.parametrize("name", ["n_bins", "missing_types", "storage_order"])
def test_arrays_of_another_type_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        table(**{name: np.zeros(2)})


def test_xgboosts_rules_refuse_lightgbms_table() -> None:
    grower = _core.TreeGrower(table())
    gradients = np.ones((N_ROWS, 2), np.float32)
    grower.grow(_core.LightgbmParams(), gradients)
    with pytest.raises(ValueError, match="XGBoost's trees grow on XGBoost's bins"):
        grower.grow(_core.XgboostParams(), gradients)
