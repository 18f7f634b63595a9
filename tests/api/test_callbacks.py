# SPDX-License-Identifier: Apache-2.0
"""Callbacks of the user in ``fit``."""

import lightgbm
import numpy as np
import pytest
import xgboost

import mtboost
from mtboost.errors import ParameterError, ParameterTypeError

BACKENDS = ["xgboost", "lightgbm"]
TINY_STEPS = {
    "xgboost": lambda: xgboost.callback.LearningRateScheduler(lambda _: 1e-6),
    "lightgbm": lambda: lightgbm.reset_parameter(learning_rate=lambda _: 1e-6),
}


class EndAfter(xgboost.callback.TrainingCallback):
    """End training after a number of rounds, and count the rounds that it sees."""

    def __init__(self, n_rounds):
        self.n_rounds, self.n_seen = n_rounds, 0

    def after_iteration(self, model, epoch, evals_log):
        self.n_seen += 1
        return epoch + 1 >= self.n_rounds


def end_after(backend, n_rounds):
    if backend == "xgboost":
        return EndAfter(n_rounds)

    def end(env):
        if env.iteration + 1 >= n_rounds:
            raise lightgbm.callback.EarlyStopException(env.iteration, [])

    return end


def rows(seed=0, n_rows=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, X[:, 0] + 0.5 * rng.normal(size=n_rows), rng.choice(list("abc"), n_rows)


TWO_STAGE = {"strategy": "two-stage", "num_boost_round": 20, "specific_rounds": 0}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"refit": False}, {"validation_fraction": 0}, {"eval_set": True, "refit": True}],
)
def test_the_model_that_is_kept_is_trained_with_them(backend, options):
    X, y, task = rows()
    if "eval_set" in options:
        options = {**options, "eval_set": (X, y, task)}
    callback = TINY_STEPS[backend]()
    options = {**TWO_STAGE, "early_stopping_rounds": None, "backend": backend, **options}
    model = mtboost.fit(X, y, task=task, callbacks=[callback], **options)
    assert model.predict(X, task=task).std() < 0.2  # with steps of .1 it is .8


@pytest.mark.parametrize("backend", BACKENDS)
def test_models_of_intervals_are_trained_with_them(backend):
    X, y, task = rows()
    model = mtboost.fit(
        X,
        y,
        task=task,
        callbacks=[TINY_STEPS[backend]()],
        intervals=True,
        validation_fraction=0,
        backend=backend,
        **TWO_STAGE,
    )
    X, y, task = rows(1, 2000)
    found = model.evaluate(X, y, task=task, alpha=0.1).loc["all tasks", "coverage"]
    assert found == pytest.approx(0.9, abs=0.05)  # standard error .02


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_rounds", [1, 4])
@pytest.mark.parametrize("options", [{}, {"refit": False}, {"validation_fraction": 0}])
def test_they_may_end_training(backend, n_rounds, options):
    X, y, task = rows()
    options = {**TWO_STAGE, "early_stopping_rounds": None, "backend": backend, **options}
    model = mtboost.fit(X, y, task=task, callbacks=[end_after(backend, n_rounds)], **options)
    # What ends training keeps the last round from callbacks after it: from that which finds rounds.
    assert set(model.quit_round.values()) <= {n_rounds, max(1, n_rounds - 1)}


def test_a_training_whose_rounds_are_known_is_not_ended():
    """As by a limit of time, which the first training has used up."""
    X, y, task = rows()

    class Late(EndAfter):
        def after_iteration(self, model, epoch, evals_log):
            super().after_iteration(model, epoch, evals_log)
            return self.n_seen >= self.n_rounds

    late = Late(6)
    model = mtboost.fit(X, y, task=task, callbacks=[late], early_stopping_rounds=None, **TWO_STAGE)
    assert model.common_trees.n_rounds == 6
    assert late.n_seen == 12


@pytest.mark.parametrize("strategy", ["auto", "two-stage"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_those_that_cannot_be_called_are_refused_before_work(backend, strategy, monkeypatch):
    def train(*args, **options):
        raise AssertionError("trained")

    monkeypatch.setattr({"xgboost": xgboost, "lightgbm": lightgbm}[backend], "train", train)
    X, y, task = rows()
    stops = {
        "xgboost": lambda: xgboost.callback.EarlyStopping(rounds=5),
        "lightgbm": lambda: lightgbm.early_stopping(5),
    }
    options = {"task": task, "backend": backend, "strategy": strategy}
    with pytest.raises(ParameterTypeError, match="callbacks holds 3"):
        mtboost.fit(X, y, callbacks=[end_after(backend, 5), 3], **options)
    with pytest.raises(ParameterError, match="early_stopping_rounds="):
        mtboost.fit(X, y, callbacks=[stops[backend]()], **options)
    with pytest.raises(AssertionError, match="trained"):
        mtboost.fit(X, y, callbacks=[end_after(backend, 5)], **options)


def test_train_names_a_callback_that_is_none():
    X, y, task = rows()
    with pytest.raises(ParameterTypeError, match="callbacks holds 3"):
        mtboost.train({}, mtboost.Dataset(X, y, task=task), 2, callbacks=[3])


def test_they_are_a_list():
    X, y, task = rows()
    with pytest.raises(ParameterTypeError, match="pass a list of callbacks"):
        mtboost.fit(X, y, task=task, callbacks=lightgbm.log_evaluation(1), backend="lightgbm")
