# SPDX-License-Identifier: Apache-2.0
"""Rows of several tasks, divided into training and test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from task_methods.rows import Floats, Rows, SkippedError

from task_data.scores import Judge, scores

TEST_PART = 0.25
MIN_ROWS = 5  # of a task on average; a smaller subsample is skipped

MakeRows = Callable[[int], Rows]  # all rows of a data set, by seed


class TaskSet(NamedTuple):
    """Rows to train on, and what scores a model on test rows."""

    train: Rows
    judge: Judge


def task_set(rows: Rows, seed: int, part: float = 1.0) -> TaskSet:
    """Hold out test rows, and keep a part of the others to train on."""
    train, test = rows.split(TEST_PART, seed)
    if not (len(train.y) and len(test.y)):
        raise SkippedError(
            f"{len(rows.y)} rows of {rows.n_tasks} tasks are too few to test on some"
        )
    if rows.time is not None:  # a task that starts in the test period has nothing to train on
        train, test = _renumber(train.take(train.time < test.time.min()), test)
    if rows.group is not None and not rows.is_binary:
        train, test = _standardise(train, test)
    return TaskSet(subsample(train, part, seed), lambda predict: scores(test, predict(test)))


def units_of(rows: Rows) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the labels of each task; of a constant label 1."""
    parts = [rows.y[rows.task == task] for task in range(rows.n_tasks)]
    return np.array([part.mean() for part in parts]), np.array([part.std() or 1 for part in parts])


def subsample(train: Rows, part: float, seed: int) -> Rows:
    """A part of the training rows; skipped if it is too small to learn anything from."""
    if part * len(train.y) < MIN_ROWS * train.n_tasks and part < 1:
        raise SkippedError(
            f"{part:.0%} of {len(train.y)} training rows are fewer than {MIN_ROWS} rows for each "
            f"of {train.n_tasks} tasks"
        )
    return train.sample(part, seed + 2000)


def _renumber(train: Rows, test: Rows) -> tuple[Rows, Rows]:
    """Number the tasks that have training rows; leave the others out."""
    tasks = np.unique(train.task)

    def renumber(rows: Rows) -> Rows:
        rows = rows.take(np.isin(rows.task, tasks))
        return replace(rows, task=np.searchsorted(tasks, rows.task), n_tasks=len(tasks))

    return renumber(train), renumber(test)


def _standardise(train: Rows, test: Rows) -> tuple[Rows, Rows]:
    """Give every output mean 0 and deviation 1 on training rows: their units differ."""
    mean, deviation = units_of(train)

    def standardise(rows: Rows) -> Rows:
        return replace(rows, y=(rows.y - mean[rows.task]) / deviation[rows.task])

    return standardise(train), standardise(test)
