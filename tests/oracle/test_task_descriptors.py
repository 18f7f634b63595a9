# SPDX-License-Identifier: Apache-2.0
"""Numbers that describe tasks equal those of the twin, and find planted differences."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from oracle import naive_task_descriptors

from mtboost.base.dataset import Dataset
from mtboost.trees.task_descriptors import describe_tasks

N_TASKS = 12


def rows(seed, n_rows=900, n_columns=6):
    """Tasks of unequal sizes; some columns differ between them, and so does what they do."""
    rng = np.random.default_rng(seed)
    sizes = rng.random(N_TASKS) + 0.1
    task = np.append(rng.choice(N_TASKS, n_rows, p=sizes / sizes.sum()), np.arange(N_TASKS))
    X = rng.normal(size=(len(task), n_columns)) + rng.normal(size=(N_TASKS, n_columns))[task] / 4
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, -1] = 1.0
    slopes = rng.normal(size=(N_TASKS, n_columns)) / 3
    y = np.nansum(X * slopes[task], axis=1) + rng.normal(size=len(task))
    return X, y, task


def ranks(values):
    return np.unique(values, return_inverse=True)[1] + 1


@pytest.mark.parametrize("most", [0, 1, 3, 8])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("has_classes", [False, True])
def test_descriptors_are_the_twins(most, is_weighted, has_classes):
    X, y, task = rows(most)
    weight = np.random.default_rng(1).integers(1, 4, len(y)) * 1.0
    labels = [y.astype(np.float32).astype(float)]
    if has_classes:
        y = np.digitize(y, [-0.5, 0.5])
        labels = [(y == number).astype(float) for number in range(3)]
    data = Dataset(X, y, task=task, weight=weight if is_weighted else None)
    found = describe_tasks(data, most, has_classes).ranks()
    expected = naive_task_descriptors.describe(
        X, labels, task, weight if is_weighted else np.ones(len(y)), most
    )
    assert found.shape == (N_TASKS + 1, len(expected))
    # The number of rows, the labels, and of each kind as many as are wanted, if there are enough.
    assert 2 * min(most, 3) < len(expected) <= 1 + len(labels) + 2 * most
    for column, values in zip(found.T, expected, strict=True):
        assert_array_equal(column[:-1], ranks(np.round(values, 12)))


def test_any_table_gives_the_same():
    X, y, task = rows(5)
    dense = np.nan_to_num(X)
    names = list("abcdef")
    found = [
        describe_tasks(Dataset(table, y, task=task)).ranks()
        for table in (
            dense,
            pd.DataFrame(dense, columns=names),
            scipy.sparse.csr_array(dense),
            scipy.sparse.csc_array(dense),
        )
    ]
    for other in found[1:]:
        assert_array_equal(other, found[0])


def test_a_column_whose_variance_is_beyond_doubles_is_left_out():
    """Without a warning of NumPy, which the suite turns into an error."""
    X, y, task = rows(4)
    expected = describe_tasks(Dataset(X[:, 1:], y, task=task)).ranks()
    X[:, 0] = np.where(task == 0, 1e300, -1e300)
    assert_array_equal(describe_tasks(Dataset(X, y, task=task)).ranks(), expected)


def test_groups_of_tasks_that_use_a_column_in_opposite_ways_stand_apart():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(10), 100)
    X = rng.normal(size=(1000, 3))
    y = X[:, 1] * np.where(task % 2, 1, -1) + rng.normal(size=1000) / 2
    found = describe_tasks(Dataset(X, y, task=task)).ranks()
    (column,) = [each for each in found.T if {*each[1:-1:2]} == {6, 7, 8, 9, 10}]
    assert column[-1] == 5.5


def test_tasks_that_are_alike_have_few_descriptors():
    """7 statistics of equal tasks: each is taken with .037 by χ², with .042 of 1500 other draws."""
    n_found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(20), 30)
        X, y = rng.normal(size=(600, 3)), rng.normal(size=600)
        n_found += describe_tasks(Dataset(X, y, task=task)).ranks().shape[1] - 1
    assert n_found < 52  # 29.5 with a standard deviation of 5.5: four of them


def test_an_unknown_task_is_like_the_mean():
    task = np.repeat([0, 1, 2], [10, 20, 90])
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(120, 1)), rng.normal(size=120) + 5 * task, task=task)
    found = describe_tasks(data, 0)
    assert_array_equal(found.ranks(), [[1, 1], [2, 2], [3, 3], [2.5, 2.5]])
    assert_array_equal(found.of_rows(np.array([2, -1])), [[3, 3], [2.5, 2.5]])


def test_a_task_without_weight_is_like_the_others():
    task = np.repeat([0, 1, 2], 40)
    rng = np.random.default_rng(0)
    y = rng.normal(size=120) + 5 * task
    weight = np.where(task == 2, 0.0, 1.0)
    found = describe_tasks(
        Dataset(rng.normal(size=(120, 1)), y, task=task, weight=weight), 0
    ).ranks()
    assert_allclose(found[:3, 1], [1, 3, 2])


@pytest.mark.parametrize("has_classes", [False, True])
def test_a_new_task_with_the_rows_of_a_known_one_stands_where_that_does(has_classes):
    X, y, task = rows(7)
    y = np.digitize(y, [-0.5, 0.5]).astype(float) if has_classes else y
    weight = np.random.default_rng(1).integers(1, 4, len(y)) * 1.0
    data = Dataset(X, y, task=task, weight=weight)
    found = describe_tasks(data, 8, has_classes)
    before = found.ranks()
    for name in range(N_TASKS):
        own = data.tasks.rows(name)
        found = found.with_task(data.common.take(own), data.labels()[own], data.weight[own])
    after = found.ranks()
    assert_array_equal(after[:N_TASKS], before[:-1])
    assert_array_equal(after[N_TASKS:-1], before[:-1])
    assert_array_equal(after[-1], before[-1])


def test_a_new_task_stands_between_the_known_ones():
    task = np.repeat([0, 1, 2], 30)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 1)), rng.normal(size=90) + 5 * task
    found = describe_tasks(Dataset(X, y, task=task), 0)
    for level, place in ((7, 2.5), (-9, 0.5), (30, 3.5)):
        new = Dataset(X[:20], y[:20] + level)
        added = found.with_task(new.common, new.labels(), None)
        assert_array_equal(added.ranks()[3], [0.5, place])  # of fewer rows than the others
    # One row says little: it is between the mean and what it says.
    new = Dataset(X[:1], y[:1] + 7)
    assert 5 < found.with_task(new.common, new.labels(), None).values[3, 1] < y[0] + 7
