# SPDX-License-Identifier: Apache-2.0
"""When tasks leave the common model (zhang2019, section 3.3), whichever library trains it."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_count, check_number, check_type, check_verbose, listed
from mtboost.base.renamed import renamed
from mtboost.base.tasks import TaskName, TaskSet, as_tasks
from mtboost.errors import DataError, UnsupportedError
from mtboost.metrics.built_in import get_metric
from mtboost.metrics.by_task import evaluate_by_task
from mtboost.metrics.metric import Metric, check_classes
from mtboost.trees.best_rounds import BestRounds
from mtboost.trees.growth import TaskGrowth, growth_of
from mtboost.trees.task_objective import BaseTaskObjective

_N_SHOWN = 8

#: Called with the number of rounds so far and each task's metric; what it raises ends the training.
OnRound = Callable[[int, Mapping[TaskName, float]], object]


class TaskWatch(abc.ABC):
    """The metric of every task, round by round, and which tasks have quit.

    Base of each library's ``TaskQuitting``.

    Parameters
    ----------
    task : array-like of shape (n_valid_rows,), optional
        Their tasks; None is a single task.
    metric : str or Metric, optional
        See :func:`mtboost.metrics.get_metric`; by default the objective's.
    early_stopping_rounds : int or None, default=20
        Rounds without improvement after which a task quits. None only watches: no task quits, and
        all rounds are used.
    min_delta : float, default=0.0
        Smaller improvements do not count.
    verbose : bool or int, default=False
        Print the metric of each task, and how many are active, every `verbose`
        rounds; True is every round.
    objective : TaskObjective, optional
        The one that the booster is trained with, if its trees are the library's own or an estimator
        trains it.
    logger : callable, optional
        Function that prints a line of text, by default the library's.

    Attributes
    ----------
    quit_round : dict of task name to int
        Rounds after which the task's metric was best, or all without early_stopping_rounds: rounds
        of the common model it should use. Tasks without usable validation rows are missing.
    history : dict of task name to ndarray of float64, shape (n_rounds + 1,)
        The metric after 0, 1, ... rounds.

    References
    ----------
    zhang2019, section 3.3 (key in docs/papers.md).
    """

    _library: ClassVar[str]
    _objective_type: ClassVar[type[BaseTaskObjective]]

    @renamed(patience="early_stopping_rounds")
    def __init__(
        self,
        valid: Any,
        task: Any = None,
        *,
        metric: str | Metric | None = None,
        early_stopping_rounds: int | None = 20,
        min_delta: float = 0.0,
        verbose: bool | int = False,
        objective: BaseTaskObjective | None = None,
        logger: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self.metric = self._given_metric = None if metric is None else get_metric(metric)
        self._early_stopping_rounds = check_early_stopping_rounds(early_stopping_rounds)
        self._min_delta = check_min_delta(min_delta)
        self._period = check_verbose(verbose)
        self._logger = logger
        if objective is not None:
            check_type("objective", objective, self._objective_type, "None or a TaskObjective")
        self._task_objective = objective
        #: Fewest rounds that quit_round may be.
        self.fewest_rounds = 0
        #: Called after every recorded round.
        self.on_round: OnRound | None = None
        self._tasks: TaskSet | None = None
        #: The metric after the last round, in the order of the training tasks; NaN: undefined.
        self.last_values: npt.NDArray[np.float64] = np.empty(0)
        #: Of the validation rows after the last round; the next one may write over them.
        self.last_predictions: npt.NDArray[np.floating]
        #: Metric of the tasks with validation rows after each round.
        self._values: npt.NDArray[np.float64] = np.empty((0, 0))
        self._n_recorded = 0
        self._queries: npt.NDArray[np.int64] | None = None  # of the validation rows
        self._valid, self._valid_task = valid, task
        self._check_valid()
        self._release()

    @abc.abstractmethod
    def _check_valid(self) -> None:
        """Raise unless the library can evaluate `valid`."""

    @abc.abstractmethod
    def _print(self, line: str) -> None:
        """Print a line of text as the library does."""

    @property
    def quit_round(self) -> dict[TaskName, int]:
        """Rounds of the common model that each task should use."""
        if self._tasks is None:  # another callback has ended training in the first round
            return {}
        rounds = self._best.best_round
        if self._early_stopping_rounds is None:
            rounds = np.full_like(rounds, self._n_rounds)
        return {
            name: int(rounds[code])
            for code, name in enumerate(self._tasks.names)
            if not np.isnan(self._best.best[code])
        }

    @property
    def history(self) -> dict[TaskName, npt.NDArray[np.float64]]:
        """The metric of each task after 0, 1, ... rounds; all NaN without validation rows."""
        if self._tasks is None:
            return {}
        curves = dict.fromkeys(self._tasks.names, np.full(self._n_recorded, np.nan))
        for code, curve in zip(self._watched, self._values[: self._n_recorded].T, strict=True):
            curves[self._tasks.names[code]] = curve
        return curves

    @property
    def left_after(self) -> dict[TaskName, int]:
        """Rounds after which a task took no more part; tasks that stayed to the end are missing."""
        if self._tasks is None:
            return {}
        return {
            name: int(self._left_after[code])
            for code, name in enumerate(self._tasks.names)
            if self._left_after[code] >= 0
        }

    def _release(self) -> None:
        """Let all tasks take part in the next training, of whose start a callback may not learn."""
        if self._task_objective is not None:
            self._task_objective.start()
        self._has_quit = False

    def _tasks_of_valid(self, growth: TaskGrowth | None, n_rows: int) -> TaskSet:
        """Return the tasks of the validation rows, which may be left out for a single task."""
        trained = self._task_objective if growth is None else growth
        tasks = None if trained is None else trained.tasks
        found = as_tasks(self._valid_task, n_rows)
        if self._valid_task is None and tasks is not None and tasks.names != found.names:
            raise DataError(
                "TaskQuitting was given no tasks of its validation rows, but the training rows "
                f"have {listed(tasks.names, 'task')}: give it task=, one label per row."
            )
        return found

    def _trained_with(self, growth: TaskGrowth | None) -> BaseTaskObjective | None:
        """Return the TaskObjective that the booster is trained with, if any."""
        if growth is None:
            return self._task_objective
        if isinstance(growth.objective, BaseTaskObjective):
            return growth.objective
        # Estimators wrap it in a function.
        return self._task_objective if callable(growth.objective) else None

    def _begin(self, growth: TaskGrowth | None, valid_tasks: TaskSet, objective: object) -> object:
        """Begin anew, and return the objective whose margins the model has.

        Parameters
        ----------
        growth : TaskGrowth or None
            Growth of our trees; None if the library grows its own.
        valid_tasks : TaskSet
            Tasks of the validation rows.
        objective : object
            The objective that the library knows of.
        """
        tasks = valid_tasks
        own = self._trained_with(growth)
        if growth is not None:
            tasks, objective = growth.tasks, growth.objective
        elif own is not None:
            tasks = own.tasks
        elif valid_tasks.n_tasks > 1:
            raise UnsupportedError(
                "TaskQuitting with several tasks needs TaskSplit beside it in callbacks, or "
                f"objective=TaskObjective(...): stock {self._library} cannot leave out the rows of "
                "a task."
            )
        if own is not None:
            own.check_trained_with()
            objective = own.objective
        self.metric = self._given_metric
        self._codes = tasks.codes_of_rows(valid_tasks)
        self._tasks = tasks
        self._watched = np.unique(self._codes)
        self._values = np.empty((0, len(self._watched)))
        self._n_recorded = 0
        self._best = BestRounds(tasks.n_tasks, self._early_stopping_rounds, self._min_delta)
        self._left_after = np.full(tasks.n_tasks, -1)
        return objective

    def _end_round(self, growth: TaskGrowth | None, round_label: int) -> bool:
        """Let tasks quit after a round that is recorded; True if no task is left."""
        assert self._tasks is not None
        for task in self._best.end().tolist():
            self._left_after[task] = self._n_rounds
            if growth is not None:
                growth.quit(task)
            elif self._task_objective is not None:
                self._task_objective.quit(self._tasks.names[task])
                self._has_quit = True
        if self._period and round_label % self._period == 0:
            (self._logger or self._print)(self._progress(round_label))
        return not self._best.is_active.any()

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
        if self._n_recorded == 0:
            check_classes(self.metric, label)
        value = self._by_task(label, prediction, weight)
        self._best.record(n_rounds, value, self.metric, self.fewest_rounds)
        if self._n_recorded == len(self._values):  # no second copy in the end, of many tasks
            grown = np.empty((max(16, 2 * self._n_recorded), len(self._watched)))
            grown[: self._n_recorded] = self._values
            self._values = grown
        self._values[self._n_recorded] = value[self._watched]
        self.last_values = value
        self._n_recorded += 1
        self.last_predictions = prediction
        self._n_rounds = n_rounds
        if self.on_round is not None and n_rounds > 0:
            self.on_round(n_rounds, dict(zip(self._tasks.names, value.tolist(), strict=True)))

    def _by_task(
        self,
        label: npt.NDArray[Any],
        prediction: npt.NDArray[np.floating],
        weight: npt.NDArray[Any] | None,
    ) -> npt.NDArray[np.float64]:
        """Return the metric of each task, NaN where it is undefined."""
        assert self.metric is not None
        assert self._tasks is not None
        n_tasks = self._tasks.n_tasks
        rows = label, prediction, self._codes, n_tasks, weight, self._queries
        return evaluate_by_task(self.metric, *rows)

    def _progress(self, round_label: int) -> str:
        """One line: the metric of each task, and who is active."""
        assert self.metric is not None
        assert self._tasks is not None
        value = self.last_values
        if self._tasks.n_tasks <= _N_SHOWN:
            parts = [
                f"\t{name}-{self.metric.name_of(code)}:{value[code]:.5f}"
                for code, name in enumerate(self._tasks.names)
            ]
        else:
            parts = [f"\tmean-{self.metric.name}:{np.nanmean(value):.5f}"]
        active = [str(self._tasks.names[code]) for code in np.flatnonzero(self._best.is_active)]
        shown = ", ".join(active[:_N_SHOWN]) + (", ..." if len(active) > _N_SHOWN else "")
        return (
            f"[{round_label}]{''.join(parts)}\tactive {len(active)}/{self._tasks.n_tasks}: {shown}"
        )


class BaseQuitAt:
    """Let tasks quit after given rounds, as found in an earlier training."""

    def __init__(self, left_after: Mapping[TaskName, int]) -> None:
        super().__init__()
        self._tasks_by_round: dict[int, list[TaskName]] = {}
        for task, last_round in left_after.items():
            self._tasks_by_round.setdefault(last_round, []).append(task)

    def _end_round(self, model: object, n_rounds: int) -> None:
        growth = growth_of(model)
        assert growth is not None
        for task in self._tasks_by_round.get(n_rounds, []):
            growth.quit(growth.tasks.code(task))


def rounds_of_rows(
    quit_round: int | Mapping[TaskName, int], task: Any, n_rows: int, n_rounds: int
) -> npt.NDArray[np.int64]:
    """Rounds of a common model that each row uses.

    Parameters
    ----------
    quit_round : int, or mapping of task name to int
        Rounds that each task uses, such as :attr:`TaskQuitting.quit_round`; all rounds if a task
        is missing.
    task : array-like of shape (n_rows,), optional
        Task of each row; needed for a mapping.

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
        tasks = as_tasks(task, n_rows)
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
