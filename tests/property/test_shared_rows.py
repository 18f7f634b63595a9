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
from sklearn.model_selection import KFold, RepeatedKFold

import mtboost
from mtboost import Dataset
from mtboost.base.shared_rows import may_be_panel, shared_rows
from mtboost.base.validation import Folds, cross_validation, hold_out
from mtboost.model.sharing.evidence import _variance_of_means
from mtboost.model.sharing.search import is_better

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


@pytest.mark.parametrize("table", ["array", "pandas", "polars", "pyarrow"])
def test_combinations_of_values_that_some_tasks_lack_are_no_objects(table: str) -> None:
    rng = np.random.default_rng(3)
    cells = np.stack(np.meshgrid([0.0, 1.0, np.nan], [2.0, 3.0], [5.0], range(4)), -1)
    cells = cells.reshape(-1, 4)
    rows, task = (axis.ravel() for axis in np.meshgrid(range(len(cells)), range(30)))
    kept = rng.random(len(rows)) < 0.6

    def shared(cells: npt.NDArray[np.float64], kept: npt.NDArray[np.bool_]) -> Any:
        X = MAKE_TABLE[table](cells[rows[kept]])
        return shared_rows(Dataset(X, np.zeros(len(X)), task=task[kept]))

    assert shared(cells, kept) is None
    for found in (
        shared(cells, np.ones(len(rows), bool)),  # the outputs of a designed experiment
        shared(rng.normal(size=cells.shape), kept),  # objects, some not measured in some tasks
        shared(np.pad(np.arange(float(len(cells)))[:, None], ((0, 0), (0, 3))), kept),
    ):
        assert len(np.unique(found)) == len(cells)


def test_objects_with_equal_features_are_shared_where_each_task_has_them() -> None:
    rng = np.random.default_rng(4)
    objects = np.repeat(rng.normal(size=(30, 3)), rng.integers(1, 3, 30), axis=0)
    X, task = np.tile(objects, (4, 1)), np.repeat(np.arange(4), len(objects))
    found = shared_rows(Dataset(X, np.zeros(len(X)), task=task))
    assert found is not None
    assert len(np.unique(found)) == 30
    kept = rng.random(len(X)) < 0.7
    assert shared_rows(Dataset(X[kept], np.zeros(kept.sum()), task=task[kept])) is None
    # Few values, all of which occur in each task by chance.
    X = rng.integers(0, 2, (400, 3)).astype(np.float64)
    assert shared_rows(Dataset(X, np.zeros(400), task=np.arange(400) % 4)) is None


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


# Standard errors of rows that are not independent -------------------------------------------------


def measured(n_objects: int, n_times: int, n_tasks: int) -> Folds:
    """Validation rows of objects that all tasks have, each held out several times."""
    data = Dataset(
        np.zeros((n_objects * n_tasks, 1)),
        np.zeros(n_objects * n_tasks),
        task=np.repeat(np.arange(n_tasks), n_objects),
    )
    data.groups = np.tile(np.arange(n_objects), n_tasks)
    return Folds(((data, data),) * n_times)


@pytest.mark.parametrize(("n_times", "n_tasks"), [(1, 5), (3, 1), (3, 5)])
def test_objects_count_once_however_often_they_are_measured(n_times: int, n_tasks: int) -> None:
    # Gains of mean 0 that only depend on the object: one standard error is exceeded with the
    # probability .159. 1000 draws, four standard errors of .0116. If all 5 to 15 rows of an object
    # counted, it would be above .3.
    folds = measured(50, n_times, n_tasks)
    rng = np.random.default_rng(0)
    zeros = np.zeros(folds.n_valid_rows)
    gains = [np.tile(rng.normal(size=50), n_times * n_tasks) for _ in range(1000)]
    assert abs(np.mean([is_better(-each, zeros, folds) for each in gains]) - 0.159) < 0.047


def test_rows_held_out_several_times_have_the_variance_of_one() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=4 * 30)
    found = []
    for n_times in (1, 3):
        folds = measured(30, n_times, 4)
        codes, weights = folds.valid_codes(folds.tasks), folds.valid_weights()
        n_rows = np.bincount(codes, weights)
        np.testing.assert_allclose(n_rows, 30.0)
        of_rows = np.tile(values, n_times)
        found.append(_variance_of_means(of_rows, weights, codes, n_rows, folds.valid_groups()))
    np.testing.assert_allclose(found[0], found[1])


def test_variances_of_tasks_add_up_to_that_of_their_sum() -> None:
    rng = np.random.default_rng(0)
    n_objects, n_tasks = 40, 3
    folds = measured(n_objects, 1, n_tasks)
    codes, n_rows = folds.valid_codes(folds.tasks), np.full(n_tasks, float(n_objects))
    values = rng.normal(size=n_objects) + 0.3 * rng.normal(size=(n_tasks, n_objects))
    variances = _variance_of_means(
        values.ravel(), np.ones(values.size), codes, n_rows, folds.valid_groups()
    )
    sums = (values - values.mean(axis=1, keepdims=True)).sum(axis=0)
    expected = (sums**2).sum() * n_objects / (n_objects - 1)
    assert (n_rows**2 * variances).sum() == pytest.approx(expected)


@pytest.mark.parametrize("n_repeats", [None, 2])
def test_a_fit_knows_which_rows_are_not_independent(
    n_repeats: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def recorded(folds: Folds) -> Any:
        groups = valid_groups(folds)
        seen.append(None if groups is None else np.bincount(groups).tolist())
        return groups

    valid_groups = Folds.valid_groups
    monkeypatch.setattr(Folds, "valid_groups", recorded)
    data, _ = outputs_as_tasks()
    if n_repeats is None:  # the same objects in all tasks
        X, task, validation = np.asarray(data.tables[0].native), data.tasks.codes, "random"
    else:
        X, task = np.random.default_rng(1).normal(size=(N_TASKS * N_ROWS, 4)), data.tasks.codes
        validation = RepeatedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)
    options = {"effort": "fast", "num_boost_round": 5, "n_threads": 1}
    mtboost.fit(X, data.labels(), task=task, validation=validation, **options)
    n_each, n_groups = (N_TASKS, N_ROWS) if n_repeats is None else (n_repeats, N_TASKS * N_ROWS)
    assert [n_each] * n_groups in seen
    assert None not in seen


def cells_of(part: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Subjects and tasks of a part of all pairs of 24 subjects and 4 tasks."""
    rng = np.random.default_rng(0)
    subject, task = (own.ravel() for own in np.meshgrid(np.arange(24), np.arange(4)))
    kept = np.flatnonzero(rng.random(len(task)) < part)
    return subject[kept], task[kept]


@pytest.mark.parametrize(("part", "expected"), [(1.0, False), (0.95, False), (0.7, True)])
def test_a_panel_has_most_rows_in_several_tasks_but_not_in_all(part: float, expected: bool) -> None:
    subject, _ = cells_of(part)
    assert may_be_panel(subject, 4) == expected
    others = 100 + np.arange(2 * len(subject))  # rows of no other task, and some equal by chance
    assert not may_be_panel(np.append(subject, others), 4)


def test_panels_are_warned_of_and_can_be_held_out_by_row() -> None:
    rng = np.random.default_rng(0)
    subject, task = cells_of(0.7)
    X = subject[:, None].astype(float)
    y = rng.normal(size=24)[subject] + 0.3 * task + 0.1 * rng.normal(size=len(task))
    params = {"max_depth": 4, "learning_rate": 0.2}
    options: dict[str, Any] = {"effort": "fast", "params": params, "linear_effects": False}
    with pytest.warns(UserWarning, match="not in all. Each is held out in all its tasks"):
        by_subject = mtboost.fit(X, y, task=task, **options)
    folds = KFold(5, shuffle=True, random_state=0)
    by_row = mtboost.fit(X, y, task=task, validation=folds, **options)
    errors = [np.mean((model.predict(X, task=task) - y) ** 2) for model in (by_row, by_subject)]
    assert errors[0] < 0.5 * errors[1]
