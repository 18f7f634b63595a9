# SPDX-License-Identifier: Apache-2.0
"""Tasks leave the common model when it stops helping them (zhang2019, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import lightgbm
import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import did_you_mean, listed
from mtboost.base.docstrings import shares_docstring_of
from mtboost.errors import DataError, TrainingError, UnsupportedError
from mtboost.lightgbm.library import (
    Callback,
    check_one_machine,
    labels_and_weights,
    queries_of,
    read_parameters,
    scores_in_training,
)
from mtboost.lightgbm.objective import TaskObjective
from mtboost.metrics.built_in import default_metric
from mtboost.trees.growth import growth_of
from mtboost.trees.losses import inverse_link, main_name
from mtboost.trees.task_quitting import BaseQuitAt, TaskWatch

_ORDER = 25
#: Order of callbacks that ask what TaskQuitting has seen.
AFTER_QUITTING = _ORDER + 1


# Those that a TaskObjective need not be given: it does not see LightGBM's parameters.
_OPTIONS = {"reg_sqrt": "0", "sigmoid": 1.0, "tweedie_variance_power": 1.5}


@shares_docstring_of(TaskWatch, sections=["References"])
class TaskQuitting(TaskWatch, Callback):
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

    Attributes
    ----------
    history : dict of task name to ndarray of float64, shape (n_rounds + 1,)
        The metric before the first round, where margins are 0 or the ``init_score``, and after
        each.

    Raises
    ------
    DataError
        During training: `valid` is not among its data sets, or `task` has another length.
    ParameterError
        During training: it has another objective than `objective`.
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
    """

    _library = "LightGBM"
    _objective_type = TaskObjective
    _order = _ORDER
    before_iteration = False

    def _check_valid(self) -> None:
        if not isinstance(self._valid, lightgbm.Dataset | str):
            raise DataError(
                f"valid is a {type(self._valid).__name__}: give a lightgbm.Dataset of valid_sets, "
                "or the name that valid_names gives it."
            )

    def _print(self, line: str) -> None:
        print(line)

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
        is_over = self._end_round(growth_of(model), env.iteration + 1)
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
        growth = growth_of(model)
        valid_tasks = self._tasks_of_valid(growth, self._data.num_data())
        if growth is not None:
            growth.know_tasks(self._data, valid_tasks)
        own = self._trained_with(growth)
        if own is not None:
            parameters |= {**_OPTIONS, **own.options}
        objective = self._begin(growth, valid_tasks, parameters["objective"])
        self._link = partial(_response, objective, parameters)
        if self.metric is None:
            self.metric = default_metric(
                str(main_name(objective)),
                tweedie_variance_power=float(parameters["tweedie_variance_power"]),
                huber_slope=float(parameters["alpha"]),
                fair_c=float(parameters["fair_c"]),
                quantile_alpha=[float(parameters["alpha"])],
            )
        self._evaluate(n_rounds, self._link(_start_margins(model, self._data)))

    def _predictions_of(self, model: lightgbm.Booster) -> Float64Array:
        """Predictions for the validation rows, on the scale of their labels."""
        growth = growth_of(model)
        if growth is not None:
            return self._link(growth.margins(self._data))
        scores = scores_in_training(model, self._data)
        return scores if self._task_objective is None else self._link(scores)

    def _evaluate(self, n_rounds: int, predictions: Float64Array) -> None:
        labels, weights = labels_and_weights(self._data)
        self._queries = queries_of(self._data)
        self._record(n_rounds, labels, predictions, weights)


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


class QuitAt(BaseQuitAt, Callback):
    _order = _ORDER
    before_iteration = False

    def __call__(self, env: lightgbm.callback.CallbackEnv) -> None:
        assert isinstance(env.model, lightgbm.Booster)
        self._end_round(env.model, env.model.current_iteration())
