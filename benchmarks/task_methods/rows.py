# SPDX-License-Identifier: Apache-2.0
"""What the methods are given and give back: rows of several tasks, a budget, a fitted model."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Table = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Budget:
    """What every method may spend.

    Boosting chooses among its settings at a high learning rate, and is then trained at a low one.
    """

    depths: tuple[int, ...] = (2, 4, 6)
    subsamples: tuple[float, ...] = (1.0, 0.5)  # parts of the rows that a tree sees
    learning_rate: float = 0.1
    rounds: int = 300
    early_stopping_rounds: int = 25
    trees: int = 200  # of a forest
    threads: int = 2

    def finer(self) -> Budget:
        """A fifth of the learning rate, and five times the rounds."""
        return replace(
            self,
            learning_rate=self.learning_rate / 5,
            rounds=self.rounds * 5,
            early_stopping_rounds=self.early_stopping_rounds * 5,
        )

    def settings(self) -> list[Setting]:
        return [Setting(*each) for each in itertools.product(self.depths, self.subsamples)]


class Setting(NamedTuple):
    """What boosting chooses among."""

    depth: int
    subsample: float


@dataclass(frozen=True)
class Rows:
    """Rows of several tasks in one table; NaN where the task of a row lacks a column."""

    X: Table
    y: Floats
    task: Indices
    n_tasks: int
    is_binary: bool
    columns: tuple[tuple[int, ...], ...] | None = None  # of each task; None: all have all
    time: Floats | None = None  # if there is one, later rows are held out
    group: Indices | None = None  # rows of one group are held out together
    parents: Indices | None = None  # of nested tasks: the region that each task belongs to

    def take(self, rows: Indices | npt.NDArray[np.bool_]) -> Rows:
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            task=self.task[rows],
            time=None if self.time is None else self.time[rows],
            group=None if self.group is None else self.group[rows],
        )

    def of_task(self, task: int) -> Rows:
        return self.take(np.flatnonzero(self.task == task))

    def split(self, part: float, seed: int) -> tuple[Rows, Rows]:
        """Hold out a part of the rows: the last in time, whole groups, or some of each task.

        Without times and groups it is a part of each task's rows. Classes are not drawn apart: a
        task's rate among the held-out rows would then repeat that of the others, noise included,
        and reward models that shrink it too little. A task whose rows would all be held out keeps
        them.
        """
        if self.time is not None:
            is_held_out = self.time >= _start_of_last(part, self.time)
        elif self.group is not None:
            is_held_out = _some_of_each(part, np.zeros_like(self.group), self.group, seed)
        else:
            is_held_out = _some_of_each(part, self.task, np.arange(len(self.y)), seed)
        is_held_out &= np.isin(self.task, self.task[~is_held_out])
        return self.take(~is_held_out), self.take(is_held_out)

    def sample(self, part: float, seed: int) -> Rows:
        """A part of the groups, or of each task's rows but at least one row of each."""
        if part >= 1:
            return self
        if self.group is not None:
            return self.take(_some_of_each(part, np.zeros_like(self.group), self.group, seed))
        rows = np.arange(len(self.y))
        return self.take(_some_of_each(part, self.task, rows, seed, at_least=1))

    def inner(self, seed: int) -> tuple[Rows, Rows]:
        """Rows to train on and to choose by, the same for every method."""
        return self.split(0.2, seed + 1000)

    def inner_tasks(self, seed: int) -> tuple[Rows, Rows]:
        """The same, whole tasks: to choose by how well new ones are predicted."""
        is_held_out = _some_of_each(0.2, np.zeros_like(self.task), self.task, seed + 1000)
        return self.take(~is_held_out), self.take(is_held_out)


def _some_of_each(
    part: float, stratum: Indices, group: Indices, seed: int, at_least: int = 0
) -> npt.NDArray[np.bool_]:
    """Mask of the rows of some groups, drawn from each stratum of groups."""
    rng = np.random.default_rng(seed)
    groups, first = np.unique(group, return_index=True)
    is_drawn = np.zeros(len(groups), bool)
    for code in np.unique(stratum):
        members = rng.permutation(np.flatnonzero(stratum[first] == code))
        is_drawn[members[: max(at_least, round(part * len(members)))]] = True
    return is_drawn[np.searchsorted(groups, group)]


def _start_of_last(part: float, time: Floats) -> float:
    """Time from which on about a part of the rows are; later than the first."""
    times, counts = np.unique(time, return_counts=True)
    if len(times) < 2:
        raise SkippedError(f"All {len(time)} rows have the time {times[0]}: leave `time` out.")
    parts = 1 - np.cumsum(counts)[:-1] / len(time)  # of the rows from times[1:] on
    return float(times[1 + np.abs(parts - part).argmin()])


@dataclass(frozen=True)
class Fitted:
    """What a method found on training rows."""

    predict: Callable[[Rows], Floats]  # of a binary label its probability
    chosen: dict[str, Any]


Method = Callable[[Rows, int, Budget], Fitted]


class SkippedError(Exception):
    """The method cannot run here, or the rows are none to learn from; says why."""


def losses(rows: Rows, prediction: Floats) -> Floats:
    """Loss of each row: squared error, or the negative log-likelihood."""
    if not rows.is_binary:
        return (rows.y - prediction) ** 2
    p = np.clip(prediction, 1e-7, 1 - 1e-7)
    return -np.where(rows.y > 0, np.log(p), np.log1p(-p))


def no_task(rows: Rows) -> tuple[Table, list[str]]:
    return rows.X, ["q"] * rows.X.shape[1]


def one_hot(rows: Rows) -> tuple[Table, list[str]]:
    table = np.hstack([rows.X, np.eye(rows.n_tasks, dtype=np.float32)[rows.task]])
    return table, ["q"] * table.shape[1]


def category(rows: Rows) -> tuple[Table, list[str]]:
    table = np.column_stack([rows.X, rows.task.astype(np.float32)])
    return table, ["q"] * rows.X.shape[1] + ["c"]
