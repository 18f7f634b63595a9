# SPDX-License-Identifier: Apache-2.0
"""mtboost leaves LightGBM's messages as they were: what is printed, how much, and where to."""

import threading

import lightgbm
import numpy as np
import pytest
from lightgbm import basic

import mtboost
from mtboost.lightgbm import ProjectedObjective, TaskObjective, TaskQuitting, TaskSplit
from mtboost.lightgbm.library import quiet, quiet_unless_asked

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = X[:, 0] + RNG.normal(size=300)
TASK = RNG.choice(["a", "b"], 300)


class Recorder:
    """A logger that keeps LightGBM's messages."""

    def __init__(self):
        self.messages = []

    def info(self, message):
        self.messages.append(message.strip())

    warning = info


@pytest.fixture
def recorder():
    before = basic._LOGGER
    recorder = Recorder()
    lightgbm.register_logger(recorder)
    yield recorder
    stock_messages(recorder, verbosity=1)  # that of a new thread
    lightgbm.register_logger(before)


def stock_messages(recorder, **params):
    """What a stock training prints, of all levels that are on; it says no verbosity by default."""
    recorder.messages.clear()
    params = {"no_such_parameter": 1, "num_threads": 1, "force_col_wise": True, **params}
    lightgbm.train(params, lightgbm.Dataset(X, Y), 1)
    return recorder.messages.copy()


def train(*callbacks, **params):
    data = lightgbm.Dataset(X, Y)
    valid = lightgbm.Dataset(X, Y, reference=data)
    params = {"num_threads": 1, "num_leaves": 4, **params}
    return lightgbm.train(params, data, 3, valid_sets=[valid], callbacks=list(callbacks))


def fit(y=Y, **options):
    options = {"num_boost_round": 3, "specific_rounds": 3, "n_threads": 2, **options}
    return mtboost.fit(X, y, task=TASK, backend="lightgbm", **{"strategy": "two-stage", **options})


WORK = {
    "TaskSplit": lambda: train(TaskSplit(TASK)),
    "TaskSplit, absolute error": lambda: train(TaskSplit(TASK), objective="l1"),
    "TaskObjective": lambda: train(objective=TaskObjective("regression", TASK)),
    "TaskQuitting": lambda: train(TaskQuitting("valid_0")),
    "ProjectedObjective": lambda: train(ProjectedObjective(np.column_stack([Y, X[:, 1]]))),
    "fit": fit,
    "fit, auto": lambda: fit(strategy="auto", effort="fast", validation_fraction=0.25),
    "fit, mixed": lambda: fit(Y > 0, objective={"a": "regression", "b": "binary"}),
    "predict": lambda: fit().predict(X, task=TASK),
    "add_task": lambda: fit().add_task("c", X, Y, specific_rounds=3),
}


@pytest.mark.parametrize("verbosity", [-1, 1])
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_a_stock_training_prints_what_it_did_before(work, verbosity, recorder):
    stock_messages(recorder, verbosity=verbosity)  # the verbosity of this thread from now on
    expected = stock_messages(recorder)
    has_warned = any("Unknown parameter: no_such_parameter" in line for line in expected)
    assert has_warned == (verbosity >= 0)
    work()
    assert stock_messages(recorder) == expected


@pytest.mark.parametrize("work", ["fit", "fit, auto", "fit, mixed", "predict", "add_task"])
def test_what_mtboost_trains_itself_prints_nothing(work, recorder):
    stock_messages(recorder, verbosity=2)
    recorder.messages.clear()
    WORK[work]()
    assert recorder.messages == []


def test_task_split_adds_no_line_to_those_of_stock_training(recorder):
    stock_messages(recorder, verbosity=1)

    def printed(*callbacks):
        recorder.messages.clear()
        train(*callbacks, lightgbm.log_evaluation(), force_col_wise=True)
        return [line.partition(":")[0] for line in recorder.messages]

    # LightGBM estimates a start score in training, which is not its own then.
    expected = [line for line in printed() if "Start training from score" not in line]
    assert printed(TaskSplit(TASK)) == expected


def test_a_verbosity_among_the_parameters_of_fit_is_kept_as_in_stock_training(recorder):
    stock_messages(recorder, verbosity=-1)
    recorder.messages.clear()
    fit(params={"verbosity": 1})
    assert any("[Info]" in line for line in recorder.messages)
    assert any("[Warning]" in line for line in stock_messages(recorder))


def test_a_model_does_not_depend_on_what_lightgbm_printed(recorder):
    stock_messages(recorder, verbosity=-1)
    muted = fit().common.model_to_string()
    stock_messages(recorder, verbosity=2)
    assert fit().common.model_to_string() == muted


def test_quiet_blocks_may_be_nested_and_end_with_an_exception(recorder):
    expected = stock_messages(recorder, verbosity=1)
    assert expected

    def blocks():
        with quiet():
            with quiet(), quiet_unless_asked({}):
                assert stock_messages(recorder) == []
            assert stock_messages(recorder) == []
            raise RuntimeError

    with pytest.raises(RuntimeError):
        blocks()
    with quiet_unless_asked({"verbosity": 1}):
        assert stock_messages(recorder) == expected
    assert stock_messages(recorder) == expected


def test_other_threads_are_not_quiet(recorder):
    expected = stock_messages(recorder, verbosity=1)
    begun, printed = threading.Event(), threading.Event()

    def be_quiet():
        with quiet():
            begun.set()
            printed.wait(60)

    thread = threading.Thread(target=be_quiet)
    thread.start()
    begun.wait(60)
    try:
        assert stock_messages(recorder) == expected
    finally:
        printed.set()
        thread.join()
