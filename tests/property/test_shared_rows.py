# SPDX-License-Identifier: Apache-2.0
"""Rows that several tasks have are held out in all of them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from mtboost import Dataset
from mtboost.base.shared_rows import shared_rows
from mtboost.base.validation import cross_validation, hold_out

N_ROWS, N_TASKS = 60, 3

MAKE_TABLE = {
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "csr": scipy.sparse.csr_matrix,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": lambda X: pa.table({f"x{i}": column for i, column in enumerate(X.T)}),
    "pandas with a category": lambda X: pd.DataFrame(X, columns=list("abde")).assign(
        c=pd.Categorical((X[:, 0] > 0).astype(str))
    ),
}


def outputs_as_tasks(make: Any = MAKE_TABLE["array"]) -> tuple[Dataset, npt.NDArray[np.int64]]:
    """The same rows for each task, in another order for each; and which row each is."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4))
    X[X < -1.0] = 0.0
    X[:5, 1] = np.nan
    rows = np.concatenate([rng.permutation(N_ROWS) for _ in range(N_TASKS)])
    task = np.repeat(np.arange(N_TASKS), N_ROWS)
    return Dataset(make(X[rows]), rng.normal(size=len(rows)), task=task), rows


@pytest.mark.parametrize("table", MAKE_TABLE)
def test_shared_rows_are_found_in_tables_of_any_library(table: str) -> None:
    data, rows = outputs_as_tasks(MAKE_TABLE[table])
    found = shared_rows(data)
    assert found is not None
    pairs = set(zip(found.tolist(), rows.tolist(), strict=True))
    assert len(pairs) == len(set(found.tolist())) == N_ROWS


def test_shared_rows_are_found_in_a_table_for_each_task() -> None:
    data, _ = outputs_as_tasks()
    X = np.asarray(data.tables[0].native)
    parts = {str(task): X[task * N_ROWS : (task + 1) * N_ROWS] for task in range(N_TASKS)}
    labels = dict.fromkeys(parts, np.arange(N_ROWS, dtype=np.float64))
    found = shared_rows(Dataset(parts, labels))
    np.testing.assert_array_equal(found, shared_rows(data))


def test_minus_zero_is_zero() -> None:
    X = np.c_[np.arange(20.0), np.zeros(20)]
    task = np.repeat([0, 1], 20)
    data = Dataset(np.concatenate([X, X * [1.0, -1.0]]), np.zeros(40), task=task)
    found = shared_rows(data)
    assert found is not None
    np.testing.assert_array_equal(found[:20], found[20:])


def test_rows_that_a_task_repeats_itself_are_no_measurements_of_one_thing() -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (200, 3)).astype(np.float64)
    data = Dataset(X, rng.normal(size=200), task=rng.integers(0, 4, 200))
    assert shared_rows(data) is None


def test_rows_of_one_task_and_distinct_rows_are_not_shared() -> None:
    X = np.random.default_rng(2).normal(size=(100, 3))
    assert shared_rows(Dataset(X, X[:, 0])) is None
    assert shared_rows(Dataset(X, X[:, 0], task=np.arange(100) % 5)) is None


def test_cross_validation_holds_a_shared_row_out_in_all_tasks() -> None:
    data, rows = outputs_as_tasks()
    cells = np.nan_to_num(_cells(data), nan=9.0)
    position = {tuple(row): number for number, row in zip(rows, cells, strict=True)}
    folds = cross_validation(data, 5, False, 0, shared_rows(data))
    assert folds is not None
    seen: list[int] = []
    for train, valid in folds.pairs:
        trained, held_out = (
            [position[tuple(np.nan_to_num(row, nan=9.0))] for row in _cells(part)]
            for part in (train, valid)
        )
        assert not set(trained) & set(held_out)
        assert len(held_out) == N_TASKS * N_ROWS // 5
        seen += held_out
    assert sorted(seen) == sorted(rows.tolist())


def test_hold_out_of_shared_rows_takes_the_part_asked_for() -> None:
    data, _ = outputs_as_tasks()
    train, valid = hold_out(data, 0.25, False, 0, shared_rows(data))
    assert valid is not None
    assert (train.n_rows, valid.n_rows) == (N_TASKS * 45, N_TASKS * 15)
    assert not {tuple(row) for row in np.nan_to_num(_cells(train))} & {
        tuple(row) for row in np.nan_to_num(_cells(valid))
    }


def _cells(data: Dataset) -> npt.NDArray[np.float64]:
    return np.asarray(data.tables[0].native)
