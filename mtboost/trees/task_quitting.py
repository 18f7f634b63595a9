# SPDX-License-Identifier: Apache-2.0
"""When tasks leave the common model (zhang2019, section 3.3), whichever library trains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_count, check_number, check_verbose
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError
from mtboost.metrics import Metric, evaluate_by_task, get_metric

_N_SHOWN = 8

#: Is told the number of rounds so far and each task's metric; what it raises ends the training.
OnRound = Callable[[int, Mapping[TaskName, float]], object]


class TaskWatch:
    """The metric of every task, round by round, and which tasks have quit.

    Base of each library's ``TaskQuitting``, whose docstring tells the parameters and attributes.
    """

    def __init__(
        self,
        *,
        metric: str | Metric | None,
        early_stopping_rounds: int | None,
        min_delta: float,
        verbose: bool | int,
        logger: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.metric = None if metric is None else get_metric(metric)
        self._early_stopping_rounds = check_early_stopping_rounds(early_stopping_rounds)
        self._min_delta = check_min_delta(min_delta)
        self._period = check_verbose(verbose)
        self._logger = logger
        #: Fewest rounds that quit_round may be.
        self.fewest_rounds = 0
        #: Told of every round that is taken down.
        self.on_round: OnRound | None = None
        self._tasks: TaskSet | None = None
        self._values: list[npt.NDArray[np.float64]] = []

    @property
    def quit_round(self) -> dict[TaskName, int]:
        assert self._tasks is not None
        rounds = self._best_round
        if self._early_stopping_rounds is None:
            rounds = np.full_like(rounds, self._n_rounds)
        return {
            name: int(rounds[code])
            for code, name in enumerate(self._tasks.names)
            if not np.isnan(self._best[code])
        }

    @property
    def history(self) -> dict[TaskName, npt.NDArray[np.float64]]:
        assert self._tasks is not None
        values = np.array(self._values)
        return {name: values[:, code] for code, name in enumerate(self._tasks.names)}

    @property
    def last_values(self) -> npt.NDArray[np.float64]:
        """The metric after the last round, in the order of the training tasks; NaN: undefined."""
        return self._values[-1]

    @property
    def last_predictions(self) -> npt.NDArray[np.floating]:
        """Of the validation rows after the last round; the next one may write over them."""
        return self._predictions

    @property
    def left_after(self) -> dict[TaskName, int]:
        """Rounds after which a task took no more part; tasks that stayed to the end are missing."""
        assert self._tasks is not None
        return {
            name: int(self._left_after[code])
            for code, name in enumerate(self._tasks.names)
            if self._left_after[code] >= 0
        }

    def _watch(self, tasks: TaskSet, valid_tasks: TaskSet) -> None:
        """Begin anew, with the tasks of the training rows and of the validation rows."""
        codes = [tasks.code(name) for name in valid_tasks.names]
        self._tasks = tasks
        self._codes = np.array(codes, np.int32)[valid_tasks.codes]
        self._values = []
        self._is_active = np.ones(tasks.n_tasks, bool)
        self._best = np.full(tasks.n_tasks, np.nan)
        self._best_round = np.zeros(tasks.n_tasks, np.int64)
        self._n_stale = np.zeros(tasks.n_tasks, np.int64)
        self._left_after = np.full(tasks.n_tasks, -1)

    def _record(
        self,
        n_rounds: int,
        label: npt.NDArray[Any],
        prediction: npt.NDArray[np.floating],
        weight: npt.NDArray[Any] | None,
    ) -> None:
        """Record the metric of each task after `n_rounds` rounds of the model."""
        assert self.metric is not None
        assert self._tasks is not None
        value = evaluate_by_task(
            self.metric, label, prediction, self._codes, self._tasks.n_tasks, weight
        )
        gain = self.metric.gains(value, self._best)
        improved = self._is_active & ~np.isnan(value) & (n_rounds >= self.fewest_rounds)
        improved &= np.isnan(self._best) | (gain > self._min_delta)
        self._best[improved] = value[improved]
        self._best_round[improved] = n_rounds
        self._n_stale = np.where(improved | np.isnan(self._best), 0, self._n_stale + 1)
        self._values.append(value)
        self._predictions = prediction
        self._n_rounds = n_rounds
        if self.on_round is not None and n_rounds > 0:
            self.on_round(n_rounds, dict(zip(self._tasks.names, value.tolist(), strict=True)))

    def _leave(self) -> Iterator[int]:
        """Codes of the tasks that quit now."""
        early_stopping_rounds = (
            np.inf if self._early_stopping_rounds is None else self._early_stopping_rounds
        )
        for code in np.flatnonzero(
            self._is_active & (self._n_stale >= early_stopping_rounds)
        ).tolist():
            self._is_active[code] = False
            self._left_after[code] = self._n_rounds
            yield code

    def _progress(self, round_label: int) -> str:
        """One line: the metric of each task, and who is active."""
        assert self.metric is not None
        assert self._tasks is not None
        value = self._values[-1]
        if self._tasks.n_tasks <= _N_SHOWN:
            parts = [
                f"\t{name}-{self.metric.name_of(code)}:{value[code]:.5f}"
                for code, name in enumerate(self._tasks.names)
            ]
        else:
            parts = [f"\tmean-{self.metric.name}:{np.nanmean(value):.5f}"]
        active = [str(self._tasks.names[code]) for code in np.flatnonzero(self._is_active)]
        shown = ", ".join(active[:_N_SHOWN]) + (", ..." if len(active) > _N_SHOWN else "")
        return (
            f"[{round_label}]{''.join(parts)}\tactive {len(active)}/{self._tasks.n_tasks}: {shown}"
        )


def rounds_of_rows(
    quit_round: int | Mapping[TaskName, int], task: Any, n_rows: int, n_rounds: int
) -> npt.NDArray[np.int64]:
    """Rounds of a common model that each row uses; all if its task is not in the mapping.

    Raises
    ------
    ParameterError
        A task uses more rounds than there are.
    DataError
        A mapping comes without `task`.
    """
    if not isinstance(quit_round, Mapping):
        rounds = np.full(n_rows, check_count("quit_round", quit_round, high=n_rounds), np.int64)
    elif task is None:
        raise DataError("quit_round is a mapping: give task=, one label per row.")
    else:
        tasks = task if isinstance(task, TaskSet) else TaskSet.from_labels(task, n_rows)
        of_task = [
            check_count(f"quit_round[{name!r}]", quit_round.get(name, n_rounds), high=n_rounds)
            for name in tasks
        ]
        rounds = np.array(of_task, np.int64)[tasks.codes]
    return rounds


def check_early_stopping_rounds(early_stopping_rounds: object) -> int | None:
    """Return the rounds without improvement after which a task quits; None if it never does."""
    return (
        None
        if early_stopping_rounds is None
        else check_count("early_stopping_rounds", early_stopping_rounds, low=1, besides="None")
    )


def check_min_delta(min_delta: object) -> float:
    """Return the least improvement that counts."""
    return check_number("min_delta", min_delta, low=0.0)
