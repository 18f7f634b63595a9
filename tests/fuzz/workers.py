# SPDX-License-Identifier: Apache-2.0
"""Runs cases in worker processes, so that a crash or a hang is one finding and not the end.

A worker gets ranges of seeds over a pipe and answers with one message per case. The parent knows
from the number of answers which case a worker died or hung in. Workers are forked where forking is
safe (Linux): a new one then costs some milliseconds, because everything is already imported.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.protocol import FINDINGS, SkipCase, Subject, is_of_mtboost, load_subject

_context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
_CASES_PER_WORKER = 10_000  # then a new one, so that no leak grows without bound
_SECONDS_PER_RANGE = 0.5  # of seeds that a worker is given at a time
_LOG_CHARACTERS = 4000  # of what a dead worker has printed
_READY = "ready"  # first message of a worker
_SECONDS_TO_START = 300.0  # where everything is imported anew


@dataclass(frozen=True, slots=True)
class Result:
    """How one case ended.

    ``signature`` is the same for findings of one cause: exception and the line that raised it, or
    the signal. ``detail`` is the traceback, or what a dead worker has printed.
    """

    seed: int
    outcome: str
    seconds: float
    signature: str = ""
    text: str = ""
    detail: str = ""


# In the worker -----------------------------------------------------------------------------------


def try_case(
    subject: Subject, seed: int, announce: Callable[[str], Any] = lambda text: None
) -> Result:
    """Run one case in this process; ``announce`` gets its text before."""
    start = time.monotonic()

    def result(outcome: str, signature: str = "", text: str = "", detail: str = "") -> Result:
        return Result(seed, outcome, time.monotonic() - start, signature, text, detail)

    text, refusals = "the case cannot be made", ()
    try:
        case = subject.case(seed)
        text, refusals = case.text, case.refusals
        announce(text)
        case.run()
    except SkipCase:
        return result("skipped")
    except BaseException as error:  # also KeyboardInterrupt and SystemExit, which none should leak
        if isinstance(error, refusals):
            return result("refused", type(error).__name__)
        detail = "".join(traceback.format_exception(error))
        return result("wrong", _signature(error), text, detail)
    if case.must_refuse:
        return result("accepted", case.kind or text[:100], text)
    return result("passed")


def _signature(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    of_mtboost = [frame for frame in frames if is_of_mtboost(frame.filename)]
    frame = (of_mtboost or frames)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno} ({frame.name})"


def _limit_memory(memory: int) -> None:
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory,) * 2)


def _work(name: str, connection: multiprocessing.connection.Connection, log: str) -> None:
    """Answer ranges of seeds until the pipe closes."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    # A case may save a model under any name, and leaves its files behind when the worker dies.
    tempfile.tempdir = str(Path(log).parent)
    os.chdir(tempfile.tempdir)
    for stream in (1, 2):  # libraries print below Python too
        os.dup2(output, stream)
    faulthandler.enable(file=output)  # crashes, and the SIGABRT that ends a hang
    signal.signal(signal.SIGINT, signal.default_int_handler)
    subject = load_subject(name)
    assert subject is not None
    _limit_memory(subject.memory)

    def announce(text: str) -> None:
        os.ftruncate(output, 0)
        os.write(output, f"{text}\n".encode())

    connection.send(_READY)
    while True:
        try:
            seeds: range = connection.recv()
        except EOFError:
            return
        for seed in seeds:
            connection.send(try_case(subject, seed, announce))


# In the parent -----------------------------------------------------------------------------------


class _Worker:
    """One process, and the range of seeds it is at."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject = subject
        handle, self.log = tempfile.mkstemp(dir=folder)
        os.close(handle)
        self.connection, child = _context.Pipe()
        # No daemon: joblib would give it one thread.
        self.process = _context.Process(
            target=_run_worker, args=(self.connection, subject.name, child, self.log)
        )
        self.process.start()
        child.close()
        self.seeds = range(0)
        self.n_cases = 0
        self.is_ready = False
        self.last_answer = time.monotonic()

    def give(self, seeds: range) -> None:
        self.seeds, self.last_answer = seeds, time.monotonic()
        self.n_cases += len(seeds)
        self.connection.send(seeds)

    def answers(self) -> Iterator[Result]:
        """Results that have arrived; the last one may be that of a worker that has died."""
        while self.seeds and self.connection.poll():
            try:
                found = self.connection.recv()
            except (EOFError, OSError):
                yield self._death("crashed")
                return
            self.last_answer = time.monotonic()
            if found == _READY:
                self.is_ready = True
                continue
            self.seeds = self.seeds[1:]
            yield found
        limit = self.subject.time_limit if self.is_ready else _SECONDS_TO_START
        if self.seeds and time.monotonic() - self.last_answer > limit:
            yield self._death("hung")

    def _death(self, outcome: str) -> Result:
        seconds = time.monotonic() - self.last_answer
        if outcome == "hung" and hasattr(signal, "SIGABRT"):
            os.kill(self.process.pid or 0, signal.SIGABRT)  # faulthandler prints where it hangs
            self.process.join(5)
        code = self.end()
        what = "hung"
        if outcome == "crashed":
            what = signal.Signals(-code).name if code is not None and code < 0 else f"exit {code}"
        printed = _printed(self.log)
        seed, self.seeds = self.seeds[0], self.seeds[1:]
        return Result(seed, outcome, seconds, f"{what} {_where(printed)}".strip(), "", printed)

    def end(self) -> int | None:
        self.connection.close()
        self.process.join(1)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode

    @property
    def is_dead(self) -> bool:
        return self.connection.closed

    @property
    def is_used_up(self) -> bool:
        return self.n_cases >= (1 if self.subject.is_isolated else _CASES_PER_WORKER)


def _run_worker(
    of_parent: multiprocessing.connection.Connection,
    name: str,
    connection: multiprocessing.connection.Connection,
    log: str,
) -> None:
    of_parent.close()  # else this process would keep its own pipe open after the parent's end
    _work(name, connection, log)


def _printed(log: str) -> str:
    lines = Path(log).read_text(errors="replace").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("Extension modules: "))
    return (
        text
        if len(text) < _LOG_CHARACTERS
        else f"{text[: _LOG_CHARACTERS // 2]}\n[...]\n{text[-_LOG_CHARACTERS // 2 :]}"
    )


def _where(printed: str) -> str:
    """The innermost line that faulthandler has printed of mtboost, or of anything."""
    found = re.findall(r'File "(.*)", line (.*)', printed)
    found = [match for match in found if is_of_mtboost(match[0])] or found
    return f"at {Path(found[0][0]).name}:{found[0][1]}" if found else ""


@dataclass
class Tally:
    """What the cases of a subject have ended in."""

    subject: str
    first_seed: int
    next_seed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[Result]] = field(default_factory=dict)  # by signature
    seconds: float = 0.0
    slowest: float = 0.0

    def add(self, result: Result) -> bool:
        """Count a result; whether it is the first finding of its kind."""
        self.outcomes[result.outcome] += 1
        self.slowest = max(self.slowest, result.seconds)
        if result.outcome == "refused":
            self.refusals[result.signature] += 1
        if result.outcome not in FINDINGS:
            return False
        same = self.findings.setdefault(result.signature, [])
        if len(same) < 20:
            same.append(result)
        return len(same) == 1

    @property
    def n_calls(self) -> int:
        return sum(self.outcomes.values())

    @property
    def n_findings(self) -> int:
        return sum(self.outcomes[name] for name in FINDINGS)


def run_cases(
    subject: Subject,
    first_seed: int,
    *,
    n_calls: int | None = None,
    seconds: float | None = None,
    n_jobs: int = 1,
    on_finding: Callable[[Result], Any] = lambda result: None,
) -> Tally:
    """Run the cases from a seed on, up to a number of cases or for a time.

    All seeds from ``first_seed`` to the ``next_seed`` of the result have been tried.
    """
    tally = Tally(subject.name, first_seed, first_seed)
    start = time.monotonic()

    def next_range() -> range:
        passed = time.monotonic() - start
        if seconds is not None and passed >= seconds:
            return range(0)
        rate = tally.n_calls / passed / n_jobs if tally.n_calls else 10
        length = 1 if subject.is_isolated else max(1, min(200, int(rate * _SECONDS_PER_RANGE)))
        last = tally.next_seed + length
        if n_calls is not None:
            last = min(last, first_seed + n_calls)
        seeds = range(tally.next_seed, last)
        tally.next_seed = last
        return seeds

    # In memory where possible: cases write files of some kilobytes, thousands of times.
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        workers: list[_Worker] = []
        left_over: list[range] = []  # of workers that died
        try:
            workers.extend(_Worker(subject, Path(folder)) for _ in range(n_jobs))
            while True:
                for place, worker in enumerate(workers):
                    for result in worker.answers():
                        if tally.add(result):
                            on_finding(result)
                    if worker.is_dead and worker.seeds:
                        left_over.append(worker.seeds)
                        worker.seeds = range(0)
                    if worker.seeds:
                        continue
                    seeds = left_over.pop() if left_over else next_range()
                    if not seeds:
                        continue
                    if worker.is_used_up or worker.is_dead:
                        worker.end()
                        workers[place] = worker = _Worker(subject, Path(folder))
                    worker.give(seeds)
                busy = [worker.connection for worker in workers if worker.seeds]
                if not busy:
                    break
                multiprocessing.connection.wait(busy, timeout=1)
        finally:
            for worker in workers:
                worker.process.kill()
                worker.end()
    tally.seconds = time.monotonic() - start
    return tally
