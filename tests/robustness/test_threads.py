# SPDX-License-Identifier: Apache-2.0
"""mtboost and the XGBoost below it use the threads they are given, and leave the caller's alone."""

import os
import threading

import numpy as np
import pytest
import scipy.sparse
import threadpoolctl
import xgboost
from processes import run_script

import mtboost
from mtboost.base import threads
from mtboost.base.threads import (
    default_n_threads,
    map_in_threads,
    one_blas_thread,
    openmp_threads,
)
from mtboost.metrics import Metric
from mtboost.model.stages import adding, working_model

_rng = np.random.default_rng(0)
NUMBERS = _rng.normal(size=(300, 4))
TASKS = np.arange(300) % 3
VALUES = NUMBERS[:, 0] + TASKS * NUMBERS[:, 1] + _rng.normal(size=300)
LARGE = 10**9  # cells of a table for which all cores are used


@pytest.fixture
def three_openmp_threads():
    """Whatever the machine and OMP_NUM_THREADS are."""
    with threadpoolctl.threadpool_limits(3, user_api="openmp"):
        yield


def openmp_limit():
    """Threads that an OpenMP loop of the calling thread would get."""
    return max(
        library["num_threads"]
        for library in threadpoolctl.threadpool_info()
        if library["user_api"] == "openmp"
    )


def blas_limits():
    """Threads that NumPy's and SciPy's linear algebra would use."""
    found = threadpoolctl.threadpool_info()
    return {each["num_threads"] for each in found if each["user_api"] == "blas"}


def test_threads_are_as_asked_else_the_cores_or_one_for_a_small_table():
    assert default_n_threads(3, n_cells=10) == default_n_threads(3, LARGE) == 3
    assert default_n_threads(None, n_cells=10) == 1
    assert 1 <= default_n_threads(None, LARGE) <= (os.cpu_count() or 1)


def test_the_default_heeds_the_limits_of_openmp():
    with threadpoolctl.threadpool_limits(1, user_api="openmp"):
        assert default_n_threads(None, LARGE) == 1
    script = "from mtboost.base.threads import default_n_threads; print(default_n_threads(None))"
    done = run_script(script, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.stdout.strip() == "1"


@pytest.mark.usefixtures("three_openmp_threads")
def test_a_limit_ends_with_its_block_and_none_is_no_limit():
    before = openmp_limit()
    with openmp_threads(1):
        assert openmp_limit() == 1
        with openmp_threads(None):
            assert openmp_limit() == 1
        with openmp_threads(3):  # never more than before
            assert openmp_limit() == 1
        assert openmp_limit() == 1
    assert openmp_limit() == before


def test_the_last_of_several_blocks_gives_linear_algebra_its_threads_back():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)  # as a call in another thread that ends earlier
        assert blas_limits() == {1}
        second.__exit__(None, None, None)
        assert blas_limits() == {2}


def test_linear_effects_use_one_thread_of_linear_algebra(monkeypatch):
    limits = []
    estimate = working_model.fit_effects

    def watched(*args, **kwargs):
        limits.append(blas_limits())
        return estimate(*args, **kwargs)

    monkeypatch.setattr(working_model, "fit_effects", watched)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        mtboost.fit(
            NUMBERS,
            VALUES,
            task=TASKS,
            strategy="two-stage",
            linear_effects=True,
            num_boost_round=2,
            specific_rounds=0,
        )
        assert blas_limits() == {2}
    assert set(map(frozenset, limits)) == {frozenset({1})}


@pytest.mark.usefixtures("three_openmp_threads")
@pytest.mark.parametrize(("n_threads", "is_small"), [(1, False), (2, False), (3, False), (3, True)])
def test_both_stages_of_fit_keep_to_their_threads(library, n_threads, is_small, monkeypatch):
    if not is_small:
        monkeypatch.setattr(threads, "_CELLS_OF_ONE_THREAD", 0)
    limits = {"common": set(), "specific": set()}

    def watched(y_true, y_pred, sample_weight=None):
        is_common = threading.current_thread() is threading.main_thread()
        limits["common" if is_common else "specific"].add(openmp_limit())
        return float(np.abs(y_true - y_pred).mean())

    before = openmp_limit()
    metric = Metric("watched", watched, greater_is_better=False)
    options = {"strategy": "two-stage", "num_boost_round": 5, "specific_rounds": 5, "task": TASKS}
    options |= {"backend": library.name, "n_threads": n_threads, "eval_metric": metric}
    # Of tasks with such rows the library trains the models.
    model = mtboost.fit(NUMBERS, VALUES, weight=np.arange(300) % 30 > 2, **options)
    assert any(model.specific.values())
    assert limits["common"] == {1 if is_small else min(n_threads, before)}
    assert limits["specific"] == {1}  # three tasks share the threads
    assert openmp_limit() == before


def test_the_core_predicts_few_rows_by_one_thread_and_many_by_all(monkeypatch):
    asked = []
    monkeypatch.setattr(adding, "default_n_threads", lambda given: asked.append(given) or 3)
    model = mtboost.fit(NUMBERS, VALUES, num_boost_round=10, strategy="two-stage")
    few = model.predict_margin(NUMBERS)
    assert asked == []
    many = model.predict_margin(np.tile(NUMBERS, (100, 1)))
    assert asked == [None]
    np.testing.assert_array_equal(many, np.tile(few, 100))


@pytest.mark.usefixtures("three_openmp_threads")
def test_the_library_predicts_few_rows_by_one_thread_and_many_by_all(monkeypatch):
    limits = []

    class Watched(xgboost.DMatrix):
        def __init__(self, *args, **kwargs):
            limits.append(openmp_limit())
            super().__init__(*args, **kwargs)

    model = mtboost.fit(NUMBERS, VALUES, num_boost_round=10, strategy="two-stage")
    monkeypatch.setattr("mtboost.xgboost.matrices.xgboost.DMatrix", Watched)
    monkeypatch.setattr("mtboost.base.tables._MOST_COPIED", 0)  # not predicted by the core
    few = model.predict_margin(scipy.sparse.csr_array(NUMBERS))
    many = model.predict_margin(scipy.sparse.csr_array(np.tile(NUMBERS, (100, 1))))
    assert limits == [1, openmp_limit()]
    np.testing.assert_array_equal(many, np.tile(few, 100))


@pytest.mark.parametrize("objective", ["squared_error", "multiclass"])
def test_a_model_has_the_same_bytes_for_any_number_of_threads(library, objective, tmp_path):
    rng = np.random.default_rng(1)
    n = 20_000
    X = rng.normal(size=(n, 12))
    task = (rng.random(n) < 0.3).astype(int) + (rng.random(n) < 0.01)  # large and small tasks
    y = X[:, 0] + task * X[:, 1] + rng.normal(size=n)
    labels = y if objective == "squared_error" else np.digitize(y, [-1, 1])
    options = {"strategy": "two-stage", "num_boost_round": 4, "specific_rounds": 3, "task": task}
    options |= {"backend": library.name, "objective": getattr(library, objective)}
    files = []
    for n_threads in (1, 2, 5):
        model = mtboost.fit(X, labels, baselines=True, n_threads=n_threads, **options)
        model.save(tmp_path / str(n_threads))
        files.append((tmp_path / str(n_threads)).read_bytes())
    assert any(model.specific.values())
    assert files[0] == files[1] == files[2]


# Work in threads of Python ------------------------------------------------------------------------


def refuse():
    raise AssertionError("nothing was to be stopped")


def test_results_come_in_the_order_of_the_items():
    seen = set()

    def square(number):
        seen.add(threading.get_ident())
        return number**2

    assert map_in_threads(square, range(50), 3, refuse) == [number**2 for number in range(50)]
    assert threading.get_ident() not in seen
    assert len(seen) <= 3
    assert map_in_threads(square, [], 3, refuse) == []


@pytest.mark.parametrize("n_started", [0, 1, 2])
def test_threads_that_could_be_started_do_all_of_the_work(monkeypatch, n_started):
    start = threads.start_new_thread
    n_left = n_started

    def start_some(*arguments):
        nonlocal n_left
        if n_left == 0:
            raise RuntimeError("can't start new thread")
        n_left -= 1
        return start(*arguments)

    monkeypatch.setattr(threads, "start_new_thread", start_some)
    seen = set()

    def identity(item):
        seen.add(threading.get_ident())
        return item

    assert map_in_threads(identity, range(20), 4, refuse) == list(range(20))
    assert len(seen) <= max(n_started, 1)
    assert (threading.get_ident() in seen) == (n_started == 0)


def test_the_caller_works_where_threads_die_at_once(monkeypatch):
    """Python's own threads and executors would be waited for without end."""
    monkeypatch.setattr(threads, "start_new_thread", lambda *arguments: 1)
    monkeypatch.setattr(threads, "_SECONDS_OF_A_WAIT", 0.01)
    assert map_in_threads(lambda item: item, range(5), 4, refuse) == list(range(5))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_stops_what_is_under_way_and_begins_nothing_more(n_threads):
    is_stopped, begun, ended = threading.Event(), [], []

    def work(item):
        begun.append(item)
        if item == 4:
            raise KeyError(item)
        if item > 4:
            assert is_stopped.wait(timeout=60)
        ended.append(item)

    with pytest.raises(KeyError, match="4"):
        map_in_threads(work, range(100), n_threads, is_stopped.set)
    assert is_stopped.is_set()
    assert sorted([*ended, 4]) == sorted(begun)
    assert len(begun) <= 4 + n_threads
