# SPDX-License-Identifier: Apache-2.0
"""Rows that fit holds out itself: what part of each task and class, drawn how."""

import numpy as np
import pytest

from mtboost.base.dataset import Dataset
from mtboost.base.validation import cross_validation, hold_out

N_DRAWS = 400


def rows_of(counts, share_of_positives=0.5, seed=0):
    """A data set whose only column is the number of the row."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(counts)), counts)
    y = (rng.random(len(task)) < share_of_positives).astype(float)
    return Dataset(np.arange(len(task))[:, None], y, task=task)


def held_out(data, seed, fraction=0.2, classes=True, by_class=True):
    train, valid = hold_out(data, fraction, classes, seed, by_class=by_class)
    rows = valid.common.native[:, 0].astype(int)
    both = np.sort(np.concatenate([rows, train.common.native[:, 0].astype(int)]))
    np.testing.assert_array_equal(both, np.arange(data.n_rows))
    found = np.zeros(data.n_rows, bool)
    found[rows] = True
    return found


@pytest.mark.parametrize("classes", [True, False])
def test_each_row_of_small_tasks_is_held_out_as_often_as_any(classes):
    data = rows_of(np.repeat([4, 5, 7, 30], 10), share_of_positives=0.3)
    counts = sum(held_out(data, seed, classes=classes).astype(int) for seed in range(N_DRAWS))
    # 460 binomial counts, the largest deviation beyond 4.5 deviations: 3 in 1,000.
    deviation = np.sqrt(N_DRAWS * 0.2 * 0.8)
    assert abs(counts - 0.2 * N_DRAWS).max() < 4.5 * deviation


def test_classes_have_their_share_over_all_tasks_though_each_task_has_few_rows():
    data = rows_of([30] * 150, share_of_positives=0.03)  # a positive row or none in most tasks
    for seed in range(20):
        found = held_out(data, seed)
        assert found.sum() == 900
        assert abs(found[data.y > 0].sum() - 0.2 * data.y.sum()) <= 1


def test_each_task_and_class_has_its_part_rounded_up_or_down():
    data = rows_of([13, 50, 108, 7])
    for seed in range(20):
        found = held_out(data, seed)
        for task in range(4):
            for label in (0.0, 1.0):
                group = (data.tasks.codes == task) & (data.y == label)
                part = group.sum() * found.sum() / data.n_rows
                assert np.floor(part) <= found[group].sum() <= np.ceil(part)


@pytest.mark.parametrize("by_class", [True, False])
def test_base_rates_of_held_out_rows_are_as_uncertain_as_those_of_new_rows(by_class):
    data = rows_of([25] * 40)
    codes, differences = data.tasks.codes, []
    for seed in range(30):
        found = held_out(data, seed, by_class=by_class)
        rates = [
            np.bincount(codes, data.y * own) / np.bincount(codes, own) for own in (found, ~found)
        ]
        differences.append(rates[0] - rates[1])
    p = np.bincount(codes, data.y) / 25
    expected = 25 / 24 * p * (1 - p) * (1 / 5 + 1 / 20)  # of rows drawn without replacement
    found = (np.array(differences) ** 2).mean() / expected.mean()
    # 1200 squares, near χ² with one degree of freedom: 5 deviations of 2 / 1200, 1 in a million.
    assert found < 0.5 if by_class else abs(found - 1) < 5 * np.sqrt(2 / 1200)


def test_training_rows_have_every_task_and_class():
    data = rows_of([1, 2, 1, 3, 2, 1])
    data.y[:] = 0.0
    data.y[3] = 1.0
    for seed in range(50):
        for train, _ in [
            hold_out(data, 0.6, True, seed),
            *cross_validation(data, 3, True, seed).pairs,
        ]:
            assert train.tasks.names == data.tasks.names
            assert set(train.y) == {0.0, 1.0}


def test_training_rows_have_weight():
    data = rows_of([5, 5])
    data.weight = np.zeros(10)
    data.weight[[2, 7]] = 1.0
    for seed in range(50):
        assert hold_out(data, 0.4, False, seed)[0].weight.sum() == 2.0


def test_tasks_of_one_row_have_none_to_hold_out():
    data = rows_of([1, 1, 1])
    assert hold_out(data, 0.5, False, 0) == (data, None)
    assert cross_validation(data, 3, False, 0) is None


def test_folds_hold_out_each_row_once():
    data = rows_of([6, 11, 30, 23])
    folds = cross_validation(data, 5, True, 0)
    rows = np.concatenate([valid.common.native[:, 0] for _, valid in folds.pairs])
    np.testing.assert_array_equal(np.sort(rows), np.arange(70))
    assert all(13 <= valid.n_rows <= 15 for _, valid in folds.pairs)
    for train, valid in folds.pairs:
        assert not set(train.common.native[:, 0]) & set(valid.common.native[:, 0])
    np.testing.assert_array_equal(folds.valid_codes(data.tasks), data.tasks.codes[rows.astype(int)])


def test_another_seed_draws_other_rows():
    data = rows_of([100, 100])
    assert (held_out(data, 0) != held_out(data, 1)).any()
    np.testing.assert_array_equal(held_out(data, 0), held_out(data, 0))
