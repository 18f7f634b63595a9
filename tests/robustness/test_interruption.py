# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends training within a round, and the process goes on as if nothing had been trained."""

import contextlib
import gc
import itertools
import os
import signal
import sys
import threading
import time
import zipfile

import lightgbm
import numpy as np
import pytest
import threadpoolctl
import xgboost
from libraries import LIBRARIES
from model_documents import assert_same_model

import mtboost
import mtboost.lightgbm
from mtboost.base.checked_tables import as_table
from mtboost.base.interrupts import restored, uninterrupted
from mtboost.base.tasks import TaskSet
from mtboost.base.threads import map_in_threads, one_blas_thread, openmp_threads
from mtboost.lightgbm import library as lightgbm_library
from mtboost.lightgbm.booster import release, take_over
from mtboost.metrics import Metric
from mtboost.trees.tree_options import TreeOptions
from mtboost.xgboost import PriorFeatureSampling, TaskSplit
from mtboost.xgboost.library import check_values
from mtboost.xgboost.matrices import quantile_matrix, starting_from

ENDLESS = 1_000_000
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX defines them"),
    pytest.mark.usefixtures("one_thread_unless_asked"),
]


def press_ctrl_c():
    # To the process, as a terminal does; signal.raise_signal would stay with the calling thread.
    os.kill(os.getpid(), signal.SIGINT)


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

    split = TaskSplit(TASK, split_score=press_once)
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
    return mtboost.fit(X, Y, task=TASK, eval_metric=metric, **{"strategy": "two-stage", **options})


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_ctrl_c_ends_the_specific_models_at_once(library, n_threads):
    # 3 tasks, 2 common rounds and the start: 9 calls before stage two.
    pressing = PressingMetric(at_call=20)
    with pytest.raises(KeyboardInterrupt):
        fit(pressing.metric(), backend=library.name, n_threads=n_threads)
    # The main thread may overlook the signal until it next wakes, after a tenth of a second.
    assert pressing.n_calls < 20 + 5000 * n_threads


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
    options = {"num_boost_round": 3, "specific_rounds": 2, "n_threads": 2, "strategy": "two-stage"}
    for backend in LIBRARIES:
        model = mtboost.fit(X, Y, task=TASK, backend=backend, **options)
        assert np.isfinite(model.predict(X, task=TASK)).all()


# ---- while something happens that must be whole -----------------------------------------------


def pressing(function, at_call=1):
    """The function, which presses Ctrl-C when it begins, and again when it ends."""
    calls = []

    def pressed(*arguments, **options):
        calls.append(arguments)
        if len(calls) == at_call:
            press_ctrl_c()
        result = function(*arguments, **options)
        if len(calls) == at_call:
            press_ctrl_c()
        return result

    return pressed


def test_a_signal_waits_until_the_block_is_left():
    before = signal.getsignal(signal.SIGINT)
    done = []

    def block():
        with uninterrupted():
            press_ctrl_c()
            done.append("the rest of the block")
        done.append("what follows it")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["the rest of the block"]
    assert signal.getsignal(signal.SIGINT) is before


def test_signals_with_other_handlers_wait_too_and_all_are_handled():
    came = []

    def terminate(number, frame):
        came.append(number)
        raise SystemExit

    def note(number, frame):
        came.append(number)

    def send_both():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert came == []

    handlers = {signal.SIGTERM: terminate, signal.SIGUSR1: note}
    before = {number: signal.signal(number, handlers[number]) for number in handlers}
    try:
        with pytest.raises(SystemExit):
            send_both()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert sorted(came) == sorted([signal.SIGTERM, signal.SIGUSR1])


def test_an_exception_of_the_block_is_the_context_of_the_interrupt():
    def block():
        with uninterrupted():
            press_ctrl_c()
            raise ValueError

    with pytest.raises(KeyboardInterrupt) as caught:
        block()
    assert isinstance(caught.value.__context__, ValueError)


def test_a_block_in_another_thread_leaves_the_handlers_alone():
    before, inside = signal.getsignal(signal.SIGINT), []

    def block():
        with uninterrupted():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert inside == [before]


def test_a_handler_that_is_set_inside_the_block_stays():
    def own(number, frame):
        pass

    with restored(lambda: None, lambda _: None):
        signal.signal(signal.SIGINT, own)
    assert signal.getsignal(signal.SIGINT) is own


@pytest.mark.parametrize("pressed_in", ["change", "block", "restore"])
def test_what_is_changed_is_restored_whenever_the_signal_comes(pressed_in):
    state = ["own"]

    def step(name, value):
        if name == pressed_in:
            press_ctrl_c()
        state[0] = value

    def change_for_a_moment():
        with restored(lambda: step("change", "other"), lambda _: step("restore", "own")):
            assert state == ["other"]
            assert pressed_in != "change", "the block is not begun"
            step("block", "changed by the block")
            assert pressed_in != "block", "nor gone on with"

    with pytest.raises(KeyboardInterrupt):
        change_for_a_moment()
    assert state == ["own"]


def test_ctrl_c_while_xgboost_asks_for_the_rows_of_a_matrix_is_raised_afterwards(monkeypatch):
    # XGBoost calls set_info back from C++, where an exception is lost, and with it the rows.
    monkeypatch.setattr(xgboost.DMatrix, "set_info", pressing(xgboost.DMatrix.set_info))
    with pytest.raises(KeyboardInterrupt):
        quantile_matrix(as_table(X), label=Y, n_threads=1)
    again = quantile_matrix(as_table(X), label=Y, n_threads=1)
    assert_same_model(xgboost.train({"nthread": 1}, again, 2), xgboost.train({}, matrix(), 2))


@pytest.mark.parametrize("at_call", [1, 2])
def test_ctrl_c_while_parameters_are_checked_is_no_error_of_theirs(at_call, monkeypatch):
    press = pressing(xgboost.DMatrix.set_info, at_call)
    monkeypatch.setattr(xgboost.DMatrix, "set_info", press)
    with pytest.raises(KeyboardInterrupt):
        check_values({}, as_table(X), "params", is_ours=True)


def test_ctrl_c_leaves_the_base_margins_of_a_matrix_as_they_were(monkeypatch):
    own = X[:, 1].astype(np.float32)
    for at_call in (1, 2):
        data = xgboost.DMatrix(X, Y, base_margin=own)
        with monkeypatch.context() as patch:
            set_margin = pressing(xgboost.DMatrix.set_base_margin, at_call)
            patch.setattr(xgboost.DMatrix, "set_base_margin", set_margin)
            with pytest.raises(KeyboardInterrupt), starting_from(data, own + 1):
                pass
        np.testing.assert_array_equal(data.get_base_margin(), own)


def test_ctrl_c_leaves_the_feature_weights_of_a_matrix_as_they_were(monkeypatch):
    for at_call in (1, 2):
        data = matrix()
        with monkeypatch.context() as patch:
            set_info = pressing(xgboost.DMatrix.set_info, at_call)
            patch.setattr(xgboost.DMatrix, "set_info", set_info)
            with pytest.raises(KeyboardInterrupt):
                xgboost.train(
                    {"nthread": 1, "colsample_bynode": 0.5},
                    data,
                    2,
                    callbacks=[PriorFeatureSampling([1, 2, 3, 4, 5])],
                )
        assert data.get_float_info("feature_weights").size == 0


@pytest.mark.parametrize(
    ("name", "at_call"), [("set_init_score", 1), ("set_field", 1), ("set_field", 2)]
)
def test_ctrl_c_leaves_the_init_score_of_a_data_set_as_it_was(name, at_call, monkeypatch):
    own = X[:, 1].copy()
    data = lightgbm.Dataset(X, Y, init_score=own, params={"verbosity": -1}).construct()
    version = data.version
    with monkeypatch.context() as patch:
        function = pressing(getattr(lightgbm.Dataset, name), at_call)
        patch.setattr(lightgbm.Dataset, name, function)
        start = lightgbm_library.starting_from(data, np.ones((len(X), 1)))
        with pytest.raises(KeyboardInterrupt), start:
            pass
    np.testing.assert_array_equal(data.get_field("init_score"), own)
    assert data.version == version


class PressBefore:
    """Presses Ctrl-C before a line of a function: the first one has number 0."""

    def __init__(self, function, number):
        self._code = function.__code__
        self.n_left = number

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _call(self, frame, event, argument):
        return self._line if frame.f_code is self._code else None

    def _line(self, frame, event, argument):
        if event == "line":
            self.n_left -= 1
            if self.n_left == -1:
                press_ctrl_c()
        return self._line


@pytest.mark.parametrize("function", [take_over, release])
def test_whenever_ctrl_c_comes_what_lightgbm_has_made_is_freed_once(function, monkeypatch, request):
    freed = []

    def free(booster):
        if vars(booster).get("_handle") is not None:
            freed.append(vars(booster)["_handle"].value)

    monkeypatch.setattr(lightgbm.Booster, "__del__", free)
    params = {"verbosity": -1, "num_threads": 1}
    tasks = TaskSet.from_labels(None, len(Y))
    gc.collect()
    gc.freeze()  # the collections below go through what is made here
    request.addfinalizer(gc.unfreeze)
    for number in itertools.count():
        booster = lightgbm.Booster(params, lightgbm.Dataset(X, Y, params=params))
        handle = booster._handle.value
        if function is release:
            take_over(booster, tasks=tasks, options=TreeOptions())
        press = PressBefore(function, number)
        with contextlib.suppress(KeyboardInterrupt), press:
            if function is release:
                release(booster)
            else:
                take_over(booster, tasks=tasks, options=TreeOptions())
        del booster
        gc.collect()
        assert freed.count(handle) == 1
        if press.n_left >= 0:
            break
    assert number > 3


def train_lightgbm(callback):
    data = lightgbm.Dataset(X, Y, params={"verbosity": -1})
    lightgbm.train({"verbosity": -1, "num_threads": 1}, data, 2, callbacks=[callback])


TRAININGS = {
    "fit": lambda: fit(None, backend="lightgbm", specific_rounds=2),
    "TaskSplit": lambda: train_lightgbm(mtboost.lightgbm.TaskSplit(TASK)),
    "ProjectedObjective": lambda: train_lightgbm(
        mtboost.lightgbm.ProjectedObjective(np.column_stack([Y, X[:, 1]]))
    ),
}


@pytest.mark.parametrize("train", TRAININGS.values(), ids=TRAININGS)
def test_ctrl_c_while_a_booster_becomes_another_frees_the_old_one_once(train, monkeypatch):
    freed = []

    def free(handle):
        if handle.value is not None:
            freed.append(handle.value)
            if sys._getframe(1).f_code.co_name == "model_from_string":
                press_ctrl_c()
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(lightgbm.basic._LIB, "LGBM_BoosterFree", free)
        with pytest.raises(KeyboardInterrupt):
            train()
        gc.collect()
    assert freed
    assert len(freed) == len(set(freed))


def test_ctrl_c_stops_calls_in_threads():
    n_threads = threading.active_count()
    given_up = threading.Event()

    def work(number):
        if number == 1:
            press_ctrl_c()
        given_up.wait(60)
        return given_up.is_set()

    with pytest.raises(KeyboardInterrupt):
        map_in_threads(work, range(5), 2, given_up.set)
    assert given_up.is_set()
    assert threading.active_count() == n_threads


def lines_of(function):
    return sorted({line for *_, line in function.__code__.co_lines() if line is not None})[1:]


@pytest.mark.parametrize("number", range(len(lines_of(map_in_threads))))
def test_ctrl_c_before_any_line_of_the_thread_that_waits_ends_the_wait(number):
    line, code = lines_of(map_in_threads)[number], map_in_threads.__code__
    ended = []

    def interrupt(frame, event, argument):
        if frame.f_code is not code:
            return None
        if event == "line" and frame.f_lineno == line:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    def call():
        sys.settrace(interrupt)
        try:
            ended.append(map_in_threads(abs, [-1, -2], 1, lambda: None))
        except KeyboardInterrupt:
            ended.append([])
        finally:
            sys.settrace(None)

    # In a separate thread, so that an endless wait fails this test alone.
    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    caller.join(timeout=20)
    assert ended in ([[]], [[1, 2]])


def test_ctrl_c_while_a_file_is_written_is_raised_as_such(tmp_path, monkeypatch):
    # An open member cannot be closed by zipfile, which raises another error.
    open_member = zipfile.ZipFile.open

    def open_and_press(*arguments, **options):
        member = open_member(*arguments, **options)
        press_ctrl_c()
        return member

    model = fit(None, num_boost_round=2, specific_rounds=2)
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "open", open_and_press)
        with pytest.raises(KeyboardInterrupt):
            model.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] in ([], ["model"])


@pytest.mark.parametrize(
    ("pool", "limited"), [("openmp", lambda: openmp_threads(1)), ("blas", one_blas_thread)]
)
def test_ctrl_c_leaves_the_limits_of_threads_as_they_were(pool, limited, monkeypatch):
    def limits():
        found = threadpoolctl.ThreadpoolController().select(user_api=pool).info()
        return [library["num_threads"] for library in found]

    owners = {
        "limit": threadpoolctl.ThreadpoolController,
        "restore_original_limits": threadpoolctl.threadpool_limits.__base__,
    }
    with threadpoolctl.threadpool_limits(2, pool):
        before = limits()
        for name, owner in owners.items():
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, pressing(getattr(owner, name)))
                with pytest.raises(KeyboardInterrupt), limited():
                    pass
            assert limits() == before
