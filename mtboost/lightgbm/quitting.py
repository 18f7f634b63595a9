# SPDX-License-Identifier: Apache-2.0
"""Tasks leave the common model when it stops helping them (zhang2019, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import lightgbm
import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_type, did_you_mean, listed
from mtboost.base.renamed import renamed
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError, TrainingError, UnsupportedError
from mtboost.lightgbm.library import (
    check_one_machine,
    labels_and_weights,
    read_parameters,
    scores_in_training,
)
from mtboost.lightgbm.objective import TaskObjective
from mtboost.metrics import Metric, default_metric
from mtboost.trees.losses import inverse_link, main_name
from mtboost.trees.task_quitting import TaskWatch

# After LightGBM's log_evaluation and record_evaluation. Before its early_stopping, at 30, which
# ends the round for all callbacks after it, the last round always.
_ORDER = 25
#: Order of callbacks that ask what TaskQuitting has seen.
AFTER_QUITTING = _ORDER + 1


# Those that a TaskObjective need not be given: it does not see LightGBM's parameters.
_OPTIONS = {"reg_sqrt": "0", "sigmoid": 1.0, "tweedie_variance_power": 1.5}


class GrowsTrees(Protocol):
    """Attribute ``growth`` of a booster that grows our trees."""

    @property
    def tasks(self) -> TaskSet | None: ...
    @property
    def objective(self) -> object: ...
    def know_tasks(self, data: lightgbm.Dataset, tasks: TaskSet) -> None: ...
    def quit(self, task: int) -> None: ...
    def margins(self, data: lightgbm.Dataset) -> Float64Array: ...


class TaskQuitting(TaskWatch):
    """Watch every task's own validation metric and let tasks quit.

    A callback for ``lightgbm.train`` and the ``fit`` of LightGBM's estimators. After each round the
    metric is evaluated on each task's validation rows. A task without improvement by more than
    `min_delta` for `early_stopping_rounds` rounds in a row quits: its training rows take no part in
    later trees. Training ends when every task has quit. A task without validation rows on which the
    metric is defined never quits.

    Several tasks need :class:`TaskSplit` beside it, or a :class:`TaskObjective`, which know the
    tasks of the training rows and leave out those that have quit; a single task may be trained by
    stock LightGBM alone.

    Parameters
    ----------
    valid : lightgbm.Dataset or str
        Validation rows with labels, and weights if any: a data set of ``valid_sets``, or its name
        there. LightGBM's estimators call theirs "valid_0", "valid_1", ...
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
        The one that LightGBM trains with, if its trees are LightGBM's own.
    logger : callable, optional
        Function that prints a line of text, by default ``print``.

    Attributes
    ----------
    quit_round : dict of task name to int
        Rounds after which the task's metric was best, or all without early_stopping_rounds: rounds
        of the common model it should use. Tasks without usable validation rows are missing.
    history : dict of task name to ndarray of float64, shape (n_rounds + 1,)
        The metric before the first round, where margins are 0 or the ``init_score``, and after
        each.

    Raises
    ------
    DataError
        During training: `valid` is not among its data sets, has no labels, or `task` has another
        length.
    UnsupportedError
        During training: it is ``lightgbm.cv``, several tasks are watched that nobody can leave out,
        or later rounds change the trees of earlier ones (``boosting="dart"`` and ``"rf"``).

    Notes
    -----
    ``lightgbm.early_stopping`` beside it drops the rounds after its own best one, so that tasks may
    want more rounds than are left. Train with ``keep_training_booster=True`` to keep them.

    Examples
    --------
    >>> import numpy as np
    >>> import lightgbm
    >>> from mtboost.lightgbm import TaskQuitting, TaskSplit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> train, valid = np.arange(200) % 4 > 0, np.arange(200) % 4 == 0
    >>> data = lightgbm.Dataset(X[train], y[train])
    >>> valid_data = lightgbm.Dataset(X[valid], y[valid], reference=data)
    >>> quitting = TaskQuitting(valid_data, task[valid], early_stopping_rounds=5)
    >>> booster = lightgbm.train(
    ...     {"num_leaves": 7, "verbosity": -1},
    ...     data,
    ...     30,
    ...     valid_sets=[valid_data],
    ...     callbacks=[TaskSplit(task[train]), quitting],
    ... )
    >>> sorted(quitting.quit_round)
    ['a', 'b']

    References
    ----------
    zhang2019, section 3.3 (key in docs/papers.md).
    """

    @renamed(patience="early_stopping_rounds")
    def __init__(
        self,
        valid: lightgbm.Dataset | str,
        task: Any = None,
        *,
        metric: str | Metric | None = None,
        early_stopping_rounds: int | None = 20,
        min_delta: float = 0.0,
        verbose: bool | int = False,
        objective: TaskObjective | None = None,
        logger: Callable[[str], None] = print,
    ) -> None:
        super().__init__(
            metric=metric,
            early_stopping_rounds=early_stopping_rounds,
            min_delta=min_delta,
            verbose=verbose,
            logger=logger,
        )
        if not isinstance(valid, lightgbm.Dataset | str):
            raise DataError(
                f"valid is a {type(valid).__name__}: give a lightgbm.Dataset of valid_sets, or the "
                "name that valid_names gives it."
            )
        if objective is not None:
            check_type("objective", objective, TaskObjective, "None or a TaskObjective")
        self._valid = valid
        self._valid_task = task
        self._task_objective = objective
        # lightgbm.train looks for these in the instance, and sets what it does not find.
        self.order = _ORDER
        self.before_iteration = False
        self._release()

    def __call__(self, env: lightgbm.callback.CallbackEnv) -> None:
        model = env.model
        if not isinstance(model, lightgbm.Booster):
            raise UnsupportedError(
                "TaskQuitting cannot be used in lightgbm.cv, where a task would quit each fold in "
                "another round: train each fold with lightgbm.train."
            )
        if env.iteration == env.begin_iteration:
            self._start(model, env.begin_iteration)
        assert self._tasks is not None
        self._evaluate(model.current_iteration(), self._predictions_of(model))
        growth = _growth(model)
        for task in self._leave():
            if growth is not None:
                growth.quit(task)
            elif self._task_objective is not None:
                self._task_objective.quit(self._tasks.names[task])
                self._has_quit = True
        if self._period and (env.iteration + 1) % self._period == 0:
            self._logger(self._progress(env.iteration + 1))
        is_over = not self._is_active.any()
        if is_over or env.iteration == env.end_iteration - 1:
            self._release()
        if is_over:
            # As best iteration, so that no round is dropped.
            raise lightgbm.callback.EarlyStopException(
                env.iteration, env.evaluation_result_list or []
            )

    def _start(self, model: lightgbm.Booster, n_rounds: int) -> None:
        if self._has_quit:
            raise TrainingError(
                "The training before this one was ended while tasks had quit, by another callback "
                "or an exception, and they took no part in the first round of this one: make a "
                "new TaskQuitting for each training."
            )
        check_one_machine("TaskQuitting", model.params)
        parameters: dict[str, Any] = {**read_parameters(model)}
        if parameters["boosting"] in ("dart", "rf"):
            raise UnsupportedError(
                f"boosting={parameters['boosting']!r} cannot be used with TaskQuitting: later "
                "rounds change what the trees of earlier rounds add. Use boosting='gbdt'."
            )
        self._data = _data_of(model, self._valid)
        own = self._valid_task
        valid_tasks = (
            own if isinstance(own, TaskSet) else TaskSet.from_labels(own, self._data.num_data())
        )
        tasks = valid_tasks
        objective: object = parameters["objective"]
        growth = _growth(model)
        if growth is not None:
            growth.know_tasks(self._data, valid_tasks)
            tasks, objective = growth.tasks or valid_tasks, growth.objective
        elif self._task_objective is not None:
            tasks, objective = self._task_objective.tasks, self._task_objective.objective
            parameters = {**_OPTIONS, **self._task_objective.options}
        elif valid_tasks.n_tasks > 1:
            raise UnsupportedError(
                "TaskQuitting with several tasks needs TaskSplit beside it in callbacks, or "
                "objective=TaskObjective(...): stock LightGBM cannot leave out the rows of a task."
            )
        self._link = partial(_response, objective, parameters)
        if self.metric is None:
            self.metric = default_metric(
                str(main_name(objective)),
                tweedie_variance_power=float(parameters["tweedie_variance_power"]),
            )
        self._watch(tasks, valid_tasks)
        self._evaluate(n_rounds, self._link(_start_margins(model, self._data)))

    def _predictions_of(self, model: lightgbm.Booster) -> Float64Array:
        """Predictions for the validation rows, on the scale of their labels."""
        growth = _growth(model)
        if growth is not None:
            return self._link(growth.margins(self._data))
        scores = scores_in_training(model, self._data)
        return scores if self._task_objective is None else self._link(scores)

    def _evaluate(self, n_rounds: int, predictions: Float64Array) -> None:
        labels, weights = labels_and_weights(self._data)
        self._record(n_rounds, labels, predictions, weights)

    def _release(self) -> None:
        """Let all tasks take part in the next training: a callback learns too late of its start."""
        if self._task_objective is not None:
            self._task_objective.start()
        self._has_quit = False


def _growth(model: lightgbm.Booster) -> GrowsTrees | None:
    """Return what grows our trees inside the booster; None if LightGBM grows its own."""
    growth: GrowsTrees | None = getattr(model, "growth", None)
    return growth


def _data_of(model: lightgbm.Booster, valid: lightgbm.Dataset | str) -> lightgbm.Dataset:
    """Data set of the training that `valid` is, or names."""
    names, sets = model.name_valid_sets, model.valid_sets
    if isinstance(valid, str):
        if valid in names:
            return sets[names.index(valid)]
        known = listed(names, "name") if names else "none"
        raise DataError(
            f"valid={valid!r} names none of the validation sets. Known: {known}."
            f"{did_you_mean(valid, names)}"
        )
    if not any(valid is each for each in (model.train_set, *sets)):
        raise DataError(
            "The data set that TaskQuitting was given is not one of the training: give it to "
            "lightgbm.train in valid_sets."
        )
    return valid


def _start_margins(model: lightgbm.Booster, data: lightgbm.Dataset) -> Float64Array:
    """Margins before the first round; those of a model that is continued are its ``init_score``."""
    start = data.get_init_score()
    shape = (data.num_data(), model.num_model_per_iteration())
    return np.zeros(shape) if start is None else np.asarray(start).reshape(shape)


def _response(
    objective: object, parameters: Mapping[str, Any], margins: Float64Array
) -> Float64Array:
    """Margins on the scale of the labels, as LightGBM would predict."""
    if margins.ndim == 2 and margins.shape[1] == 1:
        margins = margins[:, 0]
    if objective == "regression" and parameters["reg_sqrt"] == "1":
        return np.sign(margins) * np.square(margins)
    if objective == "cross_entropy_lambda":
        return np.logaddexp(0.0, margins)
    return np.asarray(inverse_link(objective, margins, sigmoid=float(parameters["sigmoid"])))


class QuitAt:
    """Let tasks quit after given rounds, as found in an earlier training."""

    def __init__(self, left_after: Mapping[TaskName, int]) -> None:
        self._left_after = left_after
        self.order = _ORDER
        self.before_iteration = False

    def __call__(self, env: lightgbm.callback.CallbackEnv) -> None:
        assert isinstance(env.model, lightgbm.Booster)
        growth = _growth(env.model)
        assert growth is not None
        assert growth.tasks is not None
        for task, n_rounds in self._left_after.items():
            if n_rounds == env.model.current_iteration():
                growth.quit(growth.tasks.code(task))
