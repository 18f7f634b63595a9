# SPDX-License-Identifier: Apache-2.0
"""Number of threads, limits for the libraries below, and calls in threads of Python."""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import joblib
import threadpoolctl

from mtboost.base.checks import check_count, refuse
from mtboost.base.interrupts import restored

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Waiting threads wake this often: Python overlooks a signal that comes just before a wait begins.
_SECONDS_OF_A_WAIT = 0.1
# After this many waits in which no call was under way the threads are taken to be dead.
_WAITS_TO_BEGIN = 20
# On fewer cells (rows times features) a second thread saves less than its start may cost.
_SERIAL_CELLS = 20_000
# XGBoost reads fewer cells in a few hundredths of a second. Its threads wait for each other by
# spinning, many times a round: ten times as long where other programs need the cores, too.
_CELLS_OF_ONE_THREAD = 500_000
# No machine gains by more; the libraries end the process where the system refuses to start one.
_MOST = 1024


def default_n_threads(n_threads: int | None, n_cells: int = _SERIAL_CELLS) -> int:
    """Threads to use: as asked, else the cores this process may use, or one for a small table.

    Affinity, container quota, ``OMP_NUM_THREADS`` and limits set by threadpoolctl are heeded.

    Raises
    ------
    ParameterError
        `n_threads` is not an integer, or so large that the system may not start as many.
    """
    if n_threads is not None:
        n_threads = check_count("n_threads", n_threads, low=-1, high=_MOST, besides="None")
        if n_threads > 0:
            return n_threads
    if n_cells < _SERIAL_CELLS:
        return 1
    return _at_most(int(joblib.effective_n_jobs(-1)))


def threads_of_jobs(n_jobs: int | None) -> int | None:
    """Number of threads that scikit-learn's `n_jobs` means: -1 is all cores, -2 all but one."""
    if n_jobs is None:
        return None
    n_jobs = check_count("n_jobs", n_jobs, low=-_MOST, high=_MOST, besides="None")
    if n_jobs == 0:
        refuse("n_jobs", n_jobs, "an integer other than 0", "None")
    return int(joblib.effective_n_jobs(n_jobs))


def map_in_threads(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    n_threads: int,
    stop: Callable[[], None],
) -> list[_Result]:
    """Call a function with each item in threads, and return the results in the order of the items.

    The calling thread only waits, so that Ctrl-C reaches it at once, unless no other thread works:
    where the system refuses to start one, those that were started do all of the work; if there are
    none, the calling thread does it.

    At the first error, or Ctrl-C, no further item is begun, `stop` is called so that calls under
    way may end, and the error is raised once they have.

    (An executor of ``concurrent.futures`` raises RuntimeError where a thread cannot be started.
    Where memory is short it waits for ever, as ``threading.Thread.start`` does, for a thread that
    died before its first line. Here nothing waits for a thread unless it has begun with an item.)
    """
    results: list[Any] = [None] * len(items)
    errors: list[BaseException | None] = [None] * len(items)
    claims = [Lock() for _ in items]  # held once a thread has begun with the item
    ends = [Lock() for _ in items]  # released when it has ended
    for end in ends:
        end.acquire()
    # No matter of the lock: the calling thread may be interrupted once it has acquired it.
    has_ended = [False] * len(items)
    is_over = Lock()  # held once no further item may be begun

    def work() -> None:
        for place, item in enumerate(items):
            if is_over.locked():
                return
            if not claims[place].acquire(blocking=False):
                continue
            try:
                results[place] = function(item)
            except BaseException as error:
                errors[place] = error
                is_over.acquire(blocking=False)
            has_ended[place] = True
            ends[place].release()

    def is_under_way(place: int) -> bool:
        return claims[place].locked() and not has_ended[place]

    try:
        n_started = 0
        with suppress(RuntimeError):  # can't start new thread
            while n_started < min(n_threads, len(items)):
                start_new_thread(work, ())
                n_started += 1
        if n_started == 0:
            work()
        # Items are begun in order: none before an error is left out.
        for place, end in enumerate(ends):
            n_idle = 0
            while not has_ended[place] and not end.acquire(timeout=_SECONDS_OF_A_WAIT):
                n_idle = 0 if any(map(is_under_way, range(len(items)))) else n_idle + 1
                if n_idle == _WAITS_TO_BEGIN:
                    work()
            error = errors[place]
            if error is not None:
                raise error
        return results
    except BaseException:
        is_over.acquire(blocking=False)
        stop()
        raise
    finally:
        for place, end in enumerate(ends):
            while is_under_way(place):
                end.acquire(timeout=_SECONDS_OF_A_WAIT)


@contextmanager
def openmp_threads(n_threads: int | None) -> Iterator[None]:
    """Limit the threads XGBoost uses, also where no parameter of it does; None is no limit.

    Without it XGBoost reads labels, loads models and predicts on all cores. Its threads wait for
    each other by spinning: while another program has one of the cores, a prediction of a hundred
    rows that takes a millisecond may take a hundred. The limit holds for the calling thread only.
    It is never above the one in force, such as ``OMP_NUM_THREADS=1`` of workers that are forked.
    """
    if n_threads is None:
        yield
        return
    limit = _at_most(n_threads)
    with restored(
        lambda: _openmp().limit(limits=limit), lambda limiter: limiter.restore_original_limits()
    ):
        yield


def threads_of_library(n_threads: int, n_cells: int) -> int:
    """Threads that XGBoost should use beside the core: one for a table of few cells."""
    return 1 if n_cells < _CELLS_OF_ONE_THREAD else n_threads


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep NumPy's and SciPy's linear algebra to one thread, where matrices are small.

    OpenBLAS shares matrices of a hundred rows among all cores, and its threads wait for each other
    by spinning: on a busy machine two of them invert such a matrix ten times as slowly as one.
    The limit holds for the whole process; of several blocks at a time the last lifts it.
    """
    with restored(_ONE_BLAS_THREAD.begin, lambda _: _ONE_BLAS_THREAD.end()):
        yield


class _OneBlasThread:
    """The limit, and the number of blocks that need it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_blocks = 0
        self._limiter: Any = None

    def begin(self) -> None:
        with self._lock:
            if self._n_blocks == 0:
                self._limiter = _pools().select(user_api="blas").limit(limits=1)
            self._n_blocks += 1

    def end(self) -> None:
        with self._lock:
            self._n_blocks -= 1
            if self._n_blocks == 0:
                self._limiter.restore_original_limits()


_ONE_BLAS_THREAD = _OneBlasThread()


def _at_most(n_threads: int) -> int:
    return min([n_threads, *(int(library["num_threads"]) for library in _openmp().info())])


@cache
def _openmp() -> Any:
    return _pools().select(user_api="openmp")


@cache
def _pools() -> Any:
    return threadpoolctl.ThreadpoolController()


def _limit_openmp_to_one_thread() -> None:
    """Limit OpenMP in a forked process, unless this one has not used mtboost.

    The threads of the parent do not exist there. GNU's OpenMP does not know, and XGBoost would wait
    for them forever, even where it reads a model or labels.
    """
    if _openmp.cache_info().currsize:
        _openmp().limit(limits=1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit_openmp_to_one_thread)
