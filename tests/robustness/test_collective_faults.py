# SPDX-License-Identifier: Apache-2.0
"""Faults on several machines end in an error on every worker, and none waits for the others."""

from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

import numpy as np
import pytest
import xgboost
from collective_workers import (
    TIMEOUT,
    InRound,
    differing_weights,
    end_process,
    grow_deeper,
    make_rows,
    parts_of,
    raise_error,
    refused_splits,
    run_together,
    sum_at_different_steps,
    sum_from_another_thread,
    sum_of_unequal_lengths,
    train_on_separate_bins,
    train_with_own,
    worker_pool,
)
from xgboost.tracker import RabitTracker

from mtboost.errors import DataError, ParameterError, TrainingError
from mtboost.xgboost import TaskSplit

ROWS = make_rows(400)
PARTS = parts_of(ROWS, 2)
USUAL = {"params": {"max_depth": 3}, "split": {}}


@pytest.fixture(scope="module")
def pool():
    with worker_pool(2) as made:
        yield made


def train_with(pool, *options):
    """What became of each worker, whose options are added to the usual ones."""
    own = [{**USUAL, **of_worker} for of_worker in options]
    return run_together(pool, train_with_own, list(zip(PARTS, own, strict=True)))


def train_where_one_ends(happening):
    """What becomes of a worker to which something happens, and of the other.

    XGBoost may let the other wait for ever: after 2 of 156 such errors on busy cores, the thread
    that receives for it had ended with an operation still queued. Then others train once more.
    """
    for _ in range(3):
        with suppress(TimeoutError), worker_pool(2) as pool:
            return train_with(pool, {"callbacks": [InRound(happening)]}, {})
    return pytest.fail("one worker hangs whenever the other ends")


def assert_all_raise(done, error, *words):
    for each in done:
        assert isinstance(each, error), each
        for word in words:
            assert word in str(each)


def test_workers_with_other_task_weights_are_refused(pool):
    assert_all_raise(run_together(pool, differing_weights, PARTS), TrainingError, "TaskObjective")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"params": {"max_depth": 4}}, "parameters"),
        ({"params": {"max_depth": 3, "seed": 1}}, "parameters"),
        ({"split": {"split_score": "variance"}}, "options of TaskSplit"),
    ],
)
def test_workers_that_would_train_different_models_are_refused(options, said, pool):
    assert_all_raise(train_with(pool, {}, options), TrainingError, said, "same callbacks")


def test_a_parameter_that_one_worker_changes_is_refused(pool):
    callback = {"callbacks": [InRound(grow_deeper)]}
    assert_all_raise(train_with(pool, {}, callback), TrainingError, "parameters")


def test_workers_with_different_bins_are_refused(pool):
    tracker = RabitTracker(host_ip="127.0.0.1", n_workers=2)
    tracker.start()
    calls = [
        worker.submit(train_on_separate_bins, (tracker.worker_args(), make_rows(50, seed)))
        for seed, worker in enumerate(pool)
    ]
    assert_all_raise([call.exception(TIMEOUT) for call in calls], TrainingError, "bins")


def test_an_error_of_one_worker_ends_training_on_all():
    raising, other = train_where_one_ends(raise_error)
    assert isinstance(raising, ValueError)
    assert isinstance(other, TrainingError | xgboost.core.XGBoostError)


def test_a_killed_worker_ends_training_on_all():
    killed, other = train_where_one_ends(end_process)
    assert isinstance(killed, BrokenProcessPool)
    assert isinstance(other, TrainingError | xgboost.core.XGBoostError)


def test_sums_of_workers_that_do_not_agree_are_refused(pool):
    ranks = range(2)
    done = run_together(pool, sum_of_unequal_lengths, ranks)
    assert_all_raise(done, TrainingError, "3 numbers", "4 numbers")
    done = run_together(pool, sum_at_different_steps, ranks)
    assert_all_raise(done, TrainingError, "is at another step")
    done = run_together(pool, sum_from_another_thread, ranks)
    assert_all_raise(done, TrainingError, "thread")


def test_what_does_not_work_on_several_workers_is_refused_before_training(pool):
    for said in run_together(pool, refused_splits, range(2)):
        assert "TaskSplit does not train on several machines" in said["labels of rows"]
        assert "or give it 'label_lower_bound' as task" in said["labels of rows"]
        assert "reg:pseudohubererror" in said["medians"]
        assert "needs the residuals of all rows together" in said["percentiles"]
        assert "quantized_gradients=True is not supported on several" in said["rounded"]


# ---- tasks in the matrix, on one machine ---------------------------------------------------------


def train_alone(task):
    matrix = xgboost.DMatrix(ROWS["X"], ROWS["y"], label_lower_bound=task)
    xgboost.train({"nthread": 1}, matrix, 1, callbacks=[TaskSplit("label_lower_bound")])


def test_a_matrix_without_tasks_is_refused():
    with pytest.raises(DataError, match="field 'label_lower_bound'.* has none"):
        train_alone(None)


@pytest.mark.parametrize("value", [0.5, np.nan, 2.0**25])
def test_tasks_that_are_no_whole_numbers_are_refused(value):
    task = ROWS["task"].copy()
    task[7] = value
    with pytest.raises(DataError, match="in row 7"):
        train_alone(task)


def test_another_field_is_refused():
    with pytest.raises(ParameterError, match="label_lower_bound"):
        TaskSplit("label_upper_bound")


def test_tasks_of_validation_rows_are_not_given_twice():
    matrix = xgboost.DMatrix(ROWS["X"])
    with pytest.raises(ParameterError, match="leave valid_tasks out"):
        TaskSplit("label_lower_bound", valid_tasks=[(matrix, ROWS["task"])])
