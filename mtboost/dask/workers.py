# SPDX-License-Identifier: Apache-2.0
"""Workers of a Dask cluster that train one model: who they are, how they meet, and that they live.

XGBoost sums over the workers in a collective, for which a tracker introduces them to each other.
Dask starts the calls, one on each worker, and notices when a worker ends.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import distributed
import joblib
import xgboost
from distributed.threadpoolexecutor import ThreadPoolExecutor as DaemonThreads
from xgboost.tracker import RabitTracker

from mtboost.base.arrays import Float64Array
from mtboost.base.tasks import TaskName
from mtboost.base.threads import default_n_threads, openmp_threads
from mtboost.errors import ParameterError, TrainingError, UnsupportedError
from mtboost.xgboost.collective import Workers as CollectiveWorkers
from mtboost.xgboost.collective import with_whole_tasks

# So often it is checked whether all workers are still there.
_SECONDS_OF_A_WAIT = 1.0
# After an error of one worker, the others have so long to report theirs.
_SECONDS_AFTER_AN_ERROR = 5.0

Result = TypeVar("Result")


class Workers:
    """The workers of a training, and calls on them.

    Parameters
    ----------
    client : distributed.Client
    addresses : sequence of str
        The workers, in the order of their ranks.
    """

    def __init__(self, client: distributed.Client, addresses: Sequence[str]) -> None:
        self._client = client
        self.addresses = tuple(addresses)

    def first(self) -> Workers:
        """Return the first of them."""
        return Workers(self._client, self.addresses[:1])

    def call(self, function: Callable[..., Any], *arguments: Sequence[Any], **same: Any) -> Any:
        """Return a future for each worker: of ``function(*arguments[:, worker], **same)``."""
        return [
            self._client.submit(
                function, *own, **same, workers=[address], allow_other_workers=False, pure=False
            )
            for address, *own in zip(self.addresses, *arguments, strict=True)
        ]

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait until all futures are done.

        Raises
        ------
        TrainingError
            A worker has ended.
        Exception
            What a call has raised, rather than what other workers raise because of it.
        """
        pending = set(futures)
        while pending:
            try:
                done, pending = distributed.wait(
                    pending, timeout=_SECONDS_OF_A_WAIT, return_when="FIRST_COMPLETED"
                )
            except TimeoutError:
                done = set()
            except CancelledError:  # so are calls whose worker has ended
                self._raise(futures)
            except KeyboardInterrupt:  # notebooks keep the error, and with it the futures
                self._client.cancel(list(futures))
                raise
            if any(future.status != "finished" for future in done):
                self._raise(futures)
            ended = self._ended()
            if ended:
                self._client.cancel(list(futures))
                raise _has_ended(ended[0])

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Wait for all futures, as :meth:`wait`, and return the results."""
        self.wait(futures)
        found: list[Any] = self._client.gather(list(futures))
        return found

    def _raise(self, futures: Sequence[Any]) -> NoReturn:
        """Raise the error that came first; an error of the collective may only follow from it."""
        with suppress(TimeoutError, CancelledError):
            distributed.wait(list(futures), timeout=_SECONDS_AFTER_AN_ERROR)
        errors = [future.exception() for future in futures if future.status == "error"]
        ended = self._ended()
        self._client.cancel(list(futures))
        if ended and all(map(_may_follow, errors)):
            raise _has_ended(ended[0])
        if not errors:
            raise TrainingError(
                "Dask has cancelled the training: rows that it kept in memory have been cancelled "
                "or lost, or the client has been closed. Make the collections again, and call fit "
                "again."
            )
        raise min(errors, key=_may_follow)

    def _ended(self) -> list[str]:
        """Return the workers that are no longer there."""
        present = self._client.nthreads()
        return [own for own in self.addresses if own not in present]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the workers from another training, which XGBoost's own code locks in this way."""
        if len(self.addresses) == 1:
            yield
            return
        lock = distributed.MultiLock(names=list(self.addresses), client=self._client)
        lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def introduced(self) -> list[dict[str, Any] | None]:
        """Start a tracker, and return the arguments with which each worker joins the others.

        None for one worker, which trains alone.
        """
        n_workers = len(self.addresses)
        if n_workers == 1:
            return [None]
        found = self._client.run_on_scheduler(_start_tracker, n_workers)
        return [{**found, "dmlc_task_id": f"{rank:09d}"} for rank in range(n_workers)]


def _has_ended(worker: str) -> TrainingError:
    return TrainingError(
        f"Worker {worker} has ended while it was needed: its process was killed, perhaps for want "
        "of memory, or cannot be reached; its log may give the reason. Call fit again with the "
        "workers that are left, or with more memory for each."
    )


def _may_follow(error: BaseException) -> bool:
    return isinstance(error, TrainingError | xgboost.core.XGBoostError)


def _start_tracker(n_workers: int, dask_scheduler: Any = None) -> Mapping[str, Any]:
    host = distributed.comm.get_address_host(dask_scheduler.address)
    tracker = RabitTracker(n_workers=n_workers, host_ip=host, sortby="task")
    tracker.start()
    Thread(target=tracker.wait_for, daemon=True).start()  # which keeps it alive
    arguments: Mapping[str, Any] = tracker.worker_args()
    return arguments


def threads_of(n_threads: int | None) -> int:
    """Return the threads to use: as asked, or else those that Dask gives this worker."""
    if n_threads is None:
        return int(distributed.get_worker().state.nthreads)
    return default_n_threads(n_threads)


@contextmanager
def threads_of_worker(n_threads: int) -> Iterator[None]:
    """Let this thread use `n_threads` threads.

    joblib would warn that a worker of Dask is a daemon, and let mtboost use one.
    """
    with joblib.parallel_config(backend="threading"), openmp_threads(n_threads):
        yield


class WorkerTeam:
    """This worker's part in the team that trains models together.

    The collective belongs to a thread, so that XGBoost, called from another, trains alone. Where
    one worker fails, XGBoost may let another wait for ever: the thread that receives for it ends
    at the error while an operation is still queued. Nothing interrupts such a call, so it is left
    behind when Dask has cancelled the training, and the worker is free for the next one. The
    executor is that of Dask, whose threads do not keep the process from ending.

    Parameters
    ----------
    arguments : mapping
        Those of the collective.
    tasks : tuple of task names
        Tasks of the common model, on all workers.
    divided : tuple of task names
        Tasks that have rows on every worker.
    n_threads : int
    """

    def __init__(
        self,
        arguments: Mapping[str, Any],
        tasks: tuple[TaskName, ...],
        divided: tuple[TaskName, ...],
        n_threads: int,
    ) -> None:
        self._arguments, self._n_threads = arguments, n_threads
        self.tasks, self.divided = tasks, divided
        self._worker = distributed.get_worker()
        self._key = self._worker.get_current_task()
        self._executor = DaemonThreads(1)
        self._collective = ExitStack()
        self._is_left = False  # its thread is in a call that does not end

    def __enter__(self) -> Self:
        joining = with_whole_tasks(self._raise_if_cancelled, **self._arguments)
        try:
            self._wait(self._executor.submit(self._collective.enter_context, joining))
        except BaseException:
            self._executor.shutdown(wait=False)  # its thread would wait for further calls
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if not self._is_left:
                self._wait(self._executor.submit(self._collective.close))
        except (xgboost.core.XGBoostError, TrainingError):
            if error is None:
                raise
        finally:
            self._executor.shutdown(wait=not self._is_left)

    def call(self, function: Callable[[], Result]) -> Result:
        def call() -> Result:
            with threads_of_worker(self._n_threads):
                return function()

        started: Future[Result] = self._executor.submit(call)
        return self._wait(started)

    def total(self, values: Float64Array) -> Float64Array:
        return CollectiveWorkers().sum(values, "numbers of rows")

    def _wait(self, call: Future[Result]) -> Result:
        """Return what a call in the thread of the collective returns, while Dask wants it."""
        while not concurrent.futures.wait([call], timeout=_SECONDS_OF_A_WAIT).done:
            try:
                self._raise_if_cancelled()
            except TrainingError:
                done = concurrent.futures.wait([call], timeout=_SECONDS_AFTER_AN_ERROR).done
                self._is_left = not done
                raise
        return call.result()

    def _raise_if_cancelled(self) -> None:
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state == "cancelled":
            raise TrainingError("Dask has cancelled the training of this worker.")


def client_of(client: distributed.Client | None) -> distributed.Client:
    """Return the client, or the one in use.

    Raises
    ------
    ParameterError
        `client` is not a Dask client, no client is active, or it is closed or has no workers.
    UnsupportedError
        It is asynchronous.
    """
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ParameterError(
                "client is None, and no client of Dask is in use: pass distributed.Client(...)."
            ) from None
    if not isinstance(client, distributed.Client):
        raise ParameterError(f"client must be a distributed.Client or None, found {client!r}.")
    if client.status == "closed":
        raise ParameterError("client is closed: pass one that is open, or None for the one in use.")
    if client.asynchronous:
        raise UnsupportedError(
            "mtboost.dask needs a client that waits: make it without asynchronous=True."
        )
    if not client.nthreads():
        raise ParameterError("client has no workers: start some, or wait for them.")
    return client
