"""Ctrl-C ends training within a round, and the process goes on as if nothing had been trained."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import threadpoolctl
import xgboost
from libraries import LIBRARIES
from model_documents import assert_same_model

import mtboost
from mtboost.metrics import Metric
from mtboost.xgboost import TaskSplit

ENDLESS = 1_000_000
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX defines them")


def press_ctrl_c():
    # To the process, as a terminal does; signal.raise_signal would stay with the calling thread.
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _one_thread_unless_asked():
    # By default XGBoost starts one thread per core even for tiny jobs: ten times slower here
    # wherever the cores are busy. A parameter nthread still counts.
    with threadpoolctl.threadpool_limits(1, "openmp"):
        yield


@pytest.fixture(autouse=True)
def _keyboard_interrupts():
    # Test runners and shells may have replaced the handler or made children ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 5))
Y = X[:, 0] + RNG.normal(size=1200)
TASK = RNG.choice(["a", "b", "c"], 1200)


def matrix():
    return xgboost.QuantileDMatrix(X, Y, nthread=1)


def train(n_rounds, *callbacks, n_threads=1):
    split = TaskSplit(TASK)
    return xgboost.train({"nthread": n_threads}, matrix(), n_rounds, callbacks=[split, *callbacks])


class PressAfter(xgboost.callback.TrainingCallback):
    """Presses Ctrl-C at the end of a round, and counts the rounds."""

    def __init__(self, n_rounds):
        super().__init__()
        self.n_rounds = n_rounds
        self.n_done = 0

    def after_iteration(self, model, epoch, evals_log):
        self.n_done += 1
        if self.n_done == self.n_rounds:
            press_ctrl_c()
        return False


def test_ctrl_c_in_a_callback_ends_training():
    press = PressAfter(3)
    with pytest.raises(KeyboardInterrupt):
        train(ENDLESS, press)
    assert press.n_done == 3


@pytest.mark.parametrize("n_threads", [1, 3])
def test_ctrl_c_at_any_moment_ends_training_within_a_round(n_threads):
    rounds = PressAfter(None)
    pressed_in = []

    def press():
        pressed_in.append(rounds.n_done)
        press_ctrl_c()

    timer = threading.Timer(0.2, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        train(ENDLESS, rounds, n_threads=n_threads)
    timer.join()
    assert rounds.n_done > 0
    assert rounds.n_done <= pressed_in[0] + 1


def test_ctrl_c_in_the_midst_of_a_tree_ends_it():
    # One tree with a leaf per row. The signal comes from a thread, so that only the grower itself
    # can notice it. Processor time of this thread, because other processes may be busy.
    rng = np.random.default_rng(1)
    n = 50_000
    rows = rng.normal(size=(n, 8)).astype(np.float32)
    data = xgboost.QuantileDMatrix(rows, rng.normal(size=n), max_bin=32)
    params = {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": n, "min_child_weight": 0}
    params |= {"max_bin": 32, "nthread": 1}

    class Clock(xgboost.callback.TrainingCallback):
        def __init__(self, then):
            super().__init__()
            self.then = then

        def before_iteration(self, model, epoch, evals_log):
            self.then()
            self.start = time.thread_time()
            return False

        def passed(self):
            return time.thread_time() - self.start

    undisturbed = Clock(lambda: None)
    xgboost.train(params, data, 1, callbacks=[TaskSplit(np.arange(n) % 3), undisturbed])
    whole = undisturbed.passed()
    interrupted = Clock(threading.Timer(0.03, press_ctrl_c).start)
    with pytest.raises(KeyboardInterrupt):
        xgboost.train(params, data, 1, callbacks=[TaskSplit(np.arange(n) % 3), interrupted])
    assert interrupted.passed() < whole / 2


@pytest.mark.parametrize("n_threads", [1, 3])
def test_ctrl_c_in_a_users_score_ends_training(n_threads):
    pressed = []

    def press_once(s, task_gains):
        if not pressed:
            pressed.append(True)
            press_ctrl_c()
        return s

    split = TaskSplit(TASK, score=press_once)
    finished = PressAfter(None)
    with pytest.raises(KeyboardInterrupt):
        xgboost.train({"nthread": n_threads}, matrix(), 2, callbacks=[split, finished])
    assert finished.n_done == 0


class PressingMetric:
    """RMSE that presses Ctrl-C once, from whatever thread it is called, and counts its calls."""

    def __init__(self, at_call):
        self.at_call = at_call
        self.n_calls = 0

    def __call__(self, y, prediction, sample_weight):
        self.n_calls += 1
        if self.n_calls == self.at_call:
            press_ctrl_c()
        return -self.n_calls  # ever better: only the interrupt ends training

    def metric(self):
        return Metric("pressing", self, greater_is_better=False)


def fit(metric, **options):
    options = {"num_boost_round": 2, "specific_rounds": ENDLESS, "n_threads": 1, **options}
    return mtboost.fit(X, Y, task=TASK, eval_metric=metric, **options)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_ctrl_c_ends_the_specific_models_within_a_round(library, n_threads):
    # 3 tasks, 2 common rounds and the start: 9 calls before stage two.
    pressing = PressingMetric(at_call=20)
    with pytest.raises(KeyboardInterrupt):
        fit(pressing.metric(), backend=library.name, n_threads=n_threads)
    # At most the rounds that were running, and those begun before the main thread took over.
    assert pressing.n_calls < 20 + 50 * n_threads


def test_ctrl_c_ends_the_common_model_of_fit(library):
    pressing = PressingMetric(at_call=7)
    with pytest.raises(KeyboardInterrupt):
        fit(pressing.metric(), backend=library.name, num_boost_round=ENDLESS)
    assert pressing.n_calls <= 9, "the metrics of the other tasks in this round"


def test_the_process_is_usable_after_an_interrupt():
    data = matrix()
    split = TaskSplit(TASK)
    with pytest.raises(KeyboardInterrupt):
        xgboost.train({"nthread": 2}, data, ENDLESS, callbacks=[split, PressAfter(2)])
    n_threads = threading.active_count()
    again = xgboost.train({"nthread": 2}, data, 4, callbacks=[split])
    assert threading.active_count() == n_threads
    assert_same_model(again, train(4))
    options = {"num_boost_round": 3, "specific_rounds": 2, "n_threads": 2}
    for backend in LIBRARIES:
        model = mtboost.fit(X, Y, task=TASK, backend=backend, **options)
        assert np.isfinite(model.predict(X, task=TASK)).all()
