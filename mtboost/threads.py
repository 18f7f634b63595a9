"""How many threads to use, and how many a library below may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import joblib
import threadpoolctl

# On fewer cells (rows times features) a second thread saves less than its start may cost.
_SERIAL_CELLS = 20_000


def default_n_threads(n_threads: int | None, n_cells: int = _SERIAL_CELLS) -> int:
    """Threads to use: as asked, else the cores this process may use, or one for a small table.

    Affinity, container quota, ``OMP_NUM_THREADS`` and limits set by threadpoolctl are heeded.
    """
    if n_threads is not None and n_threads > 0:
        return n_threads
    if n_cells < _SERIAL_CELLS:
        return 1
    return _at_most(int(joblib.effective_n_jobs(-1)))


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
