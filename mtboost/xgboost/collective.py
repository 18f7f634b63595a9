# SPDX-License-Identifier: Apache-2.0
"""Workers of XGBoost's collective that train one model, each on a part of the rows.

XGBoost sets up the collective, in ``xgboost.dask`` and others; here are sums over its workers. All
workers make the same calls in the same order. XGBoost does not check that, and adds up arrays of
different lengths or steps without an error, so each sum here compares the workers first: in a call
of the collective whose length is always the same, and which has room for a short array beside.
"""

from __future__ import annotations

import ctypes
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost
from xgboost.core import _LIB, _check_call

from mtboost import _core
from mtboost.base.arrays import Float64Array
from mtboost.errors import TrainingError, UnsupportedError
from mtboost.trees.losses import is_ranking, is_survival

# Numbers that are added up in the call that compares the workers.
_ROOM = 256
# float64, in XGCommunicatorAllreduce.
_DOUBLE = 2

_of_thread = threading.local()


@contextmanager
def with_whole_tasks(before_sum: Callable[[], None], **arguments: Any) -> Iterator[None]:
    """Join a collective, in which this thread may train as it would on one machine.

    The rows of each task lie on one worker, and all workers give the names of all tasks. Callbacks
    that the users of XGBoost's own collectives cannot have work with such rows.

    Parameters
    ----------
    before_sum : callable
        Called before each sum; what it raises ends the training of this worker.
    **arguments
        Those of ``xgboost.collective.CommunicatorContext``.
    """
    with xgboost.collective.CommunicatorContext(**arguments):
        _of_thread.before_sum = before_sum
        try:
            yield
        finally:
            del _of_thread.before_sum


def has_whole_tasks() -> bool:
    """Whether this thread is in :func:`with_whole_tasks`."""
    return hasattr(_of_thread, "before_sum")


def check_objective(objective: str) -> None:
    """Raise for an objective that workers cannot train together."""
    if objective in ("reg:absoluteerror", "reg:quantileerror"):
        is_median = objective == "reg:absoluteerror"
        instead = "use 'reg:pseudohubererror', or train" if is_median else "train"
        raise UnsupportedError(
            f"objective={objective!r} needs the residuals of all rows together, which workers do "
            f"not share: {instead} on one machine."
        )
    if is_ranking(objective) or is_survival(objective):
        raise UnsupportedError(
            f"objective={objective!r} is not supported on several machines: train on one machine."
        )


class Workers:
    """The workers of the collective that this thread belongs to.

    Attributes
    ----------
    rank : int
        Number of this worker, from 0.
    n_workers : int
    """

    def __init__(self) -> None:
        self.rank: int = xgboost.collective.get_rank()
        self.n_workers: int = xgboost.collective.get_world_size()

    @classmethod
    def of_this_thread(cls) -> Workers | None:
        """Return the workers; None where this one is alone."""
        return cls() if xgboost.collective.get_world_size() > 1 else None

    @cached_property
    def communicator(self) -> _core.Communicator:
        """These workers for the core."""
        return _core.Communicator(rank=self.rank, sum=self.sum_in_place)

    @cached_property
    def _first_call(self) -> Float64Array:
        """Buffer: step and length of each worker, then the first numbers of the array."""
        return np.empty(2 * self.n_workers + _ROOM)

    def sum(self, values: Float64Array, step: str) -> Float64Array:
        """Return the sums over all workers; `step` names the call in messages."""
        total = np.array(values, np.float64, order="C")
        self.sum_in_place(total, step)
        return total

    def sum_in_place(self, values: Float64Array, step: str) -> None:
        """Replace C-contiguous values by their sums over all workers."""
        flat = values.reshape(-1)
        n_tags, n_first = 2 * self.n_workers, min(flat.size, _ROOM)
        call = self._first_call
        call.fill(0.0)
        call[2 * self.rank : 2 * self.rank + 2] = zlib.crc32(step.encode()), flat.size
        call[n_tags : n_tags + n_first] = flat[:n_first]
        self._add_up(call)
        self._check_tags(call[:n_tags].reshape(-1, 2), step)
        flat[:n_first] = call[n_tags : n_tags + n_first]
        if n_first < flat.size:
            self._add_up(flat[n_first:])

    def gather(self, values: npt.ArrayLike, step: str) -> Float64Array:
        """Return the numbers of each worker, as many on all: shape (n_workers, n_values)."""
        own = np.asarray(values, np.float64).ravel()
        table = np.zeros((self.n_workers, own.size))
        table[self.rank] = own
        return self.sum(table, step)

    def union(self, values: npt.NDArray[np.int64], step: str) -> npt.NDArray[np.int64]:
        """Return the numbers that any worker has, ascending; below 2^53."""
        own = np.unique(values).astype(np.float64)[:, np.newaxis]
        return np.unique(self.rows_of_all(own, step)).astype(np.int64)

    def rows_of_all(self, rows: Float64Array, step: str) -> Float64Array:
        """Return the rows of all workers, shape (n_rows, n_columns), worker after worker."""
        n_rows = self.gather([len(rows)], f"number of {step}")[:, 0].astype(np.int64)
        ends = np.cumsum(n_rows)
        found = np.zeros((int(ends[-1]), rows.shape[1]))
        found[ends[self.rank] - len(rows) : ends[self.rank]] = rows
        self.sum_in_place(found, step)
        return found

    def check_equal(self, parts: Mapping[str, bytes | str]) -> None:
        """Raise TrainingError on all workers unless these are equal on all of them."""
        codes = [
            zlib.crc32(part.encode() if isinstance(part, str) else part) for part in parts.values()
        ]
        table = self.gather(codes, "comparison of the workers")
        different = [
            name for name, column in zip(parts, table.T, strict=True) if np.ptp(column) > 0
        ]
        if different:
            raise TrainingError(
                f"The {self.n_workers} workers of the collective would not train the same model: "
                f"{' and '.join(different)} differ. Give all of them the same callbacks and "
                "parameters, and make their matrices inside of the collective."
            )

    def _check_tags(self, tags: Float64Array, step: str) -> None:
        """Raise on all workers unless they are at the same step, with as many numbers."""
        if (tags == tags[self.rank]).all():
            return
        n_values = int(tags[self.rank, 1])
        others = [
            f"worker {rank} has {n:.0f} numbers"
            if code == tags[self.rank, 0]
            else f"worker {rank} is at another step"
            for rank, (code, n) in enumerate(tags.tolist())
            if (tags[rank] != tags[self.rank]).any()
        ]
        raise TrainingError(
            f"The workers of the collective are not at the same step: worker {self.rank} is at "
            f"{step!r} with {n_values} numbers, but {', '.join(others)}. Give all workers the same "
            "callbacks, parameters and number of evaluation sets."
        )

    def _add_up(self, values: Float64Array) -> None:
        """Add up in place, as ``xgboost.collective.allreduce`` does in a copy."""
        if xgboost.collective.get_world_size() != self.n_workers:
            raise TrainingError(
                f"The collective had {self.n_workers} workers when training began, and this thread "
                "is not one of them: each worker must train in the thread that set up the "
                "collective."
            )
        if has_whole_tasks():
            _of_thread.before_sum()
        try:
            _check_call(
                _LIB.XGCommunicatorAllreduce(
                    ctypes.c_void_p(values.ctypes.data),
                    ctypes.c_size_t(values.size),
                    _DOUBLE,
                    int(xgboost.collective.Op.SUM),
                )
            )
        except xgboost.core.XGBoostError as error:
            raise TrainingError(
                f"Worker {self.rank} of {self.n_workers} lost the others in training: one of them "
                "has ended. If it raised an error, its own message gives the reason."
            ) from error
