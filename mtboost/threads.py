"""How many threads to use, and how many a library below may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import joblib
import threadpoolctl

from mtboost.checks import check_count, refuse

# On fewer cells (rows times features) a second thread saves less than its start may cost.
_SERIAL_CELLS = 20_000
# No machine gains by more; the libraries end the process where the system refuses to start one.
_MOST = 1024


def default_n_threads(n_threads: int | None, n_cells: int = _SERIAL_CELLS) -> int:
    """Threads to use: as asked, else the cores this process may use, or one for a small table.

    Affinity, container quota, ``OMP_NUM_THREADS`` and limits set by threadpoolctl are heeded.

    Raises
    ------
    ParameterError
        `n_threads` is no integer, or so large that the system may not start as many.
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
    with _openmp().limit(limits=_at_most(n_threads)):
        yield


def _at_most(n_threads: int) -> int:
    return min([n_threads, *(int(library["num_threads"]) for library in _openmp().info())])


@cache
def _openmp() -> Any:
    return threadpoolctl.ThreadpoolController().select(user_api="openmp")
