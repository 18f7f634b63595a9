# SPDX-License-Identifier: Apache-2.0
"""Run scripts in child processes under limits of the system, and report how they ended.

A limit that a library does not survive shows as an exit, a signal or a hang, none of which a test
can catch in its own process. ``Children`` starts one server, which imports what all scripts need
and forks a child for each of them: a script then takes milliseconds instead of seconds, and what
it does to its limits ends with it.

    with Children() as children:
        outcome = children.run("refuse_threads(1); use_threads()", timeout=10)
    assert outcome.exit_code == 0, outcome

A script has these functions among its globals:

``refuse_threads(n_allowed=0)``
    Let the process start this many more threads. Address space is what runs out:
    the server is started with stacks of `STACK` bytes for threads, so that threads fail while there
    is plenty of memory for all else. It works for any user, root included.
``refuse_processes()``
    The same for all threads and processes, by ``RLIMIT_NPROC``, as the limits of containers and of
    ``ulimit -u`` do it. That limit does not bind root, who becomes another user first.
``limit_memory(n_bytes)``
    Let the address space grow by so much, and no more; None lifts the limit. No thread can be
    started either, whose stack would not fit.

OpenMP and BLAS use one thread in the children, also where a library asks for more: the GNU OpenMP
library ends the process with exit code 1 when it cannot start a thread. Large blocks of memory go
back to the system at once, so that limits on it are felt.

Call what is to be tested once before a limit: modules that are imported late may be out of reach
for another user, or may not fit.
"""

from __future__ import annotations

import faulthandler
import json
import linecache
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

IS_SUPPORTED = sys.platform == "linux"
if IS_SUPPORTED:
    import resource

#: Stack of a thread in the children, bytes of address space. Memory is used as the stack grows.
STACK = 4 << 30
#: Address space that is left for all else than threads.
_ROOM = STACK // 2
_NOBODY = 65534
_TESTS = Path(__file__).parents[1]
_ENVIRONMENT = {
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # of pyarrow
    # Of the GNU C library, which otherwise raises the threshold as blocks are freed.
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "1",
}


@dataclass(frozen=True)
class Outcome:
    """How a script ended: by itself, by a signal, or not before the timeout."""

    exit_code: int | None
    signal: signal.Signals | None
    timed_out: bool
    output: str
    errors: str

    @property
    def crash(self) -> tuple[str, str]:
        """File and text of the innermost Python line when a signal ended it; empty without one."""
        stack = self.errors.partition("most recent call first):")[2]
        innermost = re.search(r'File "(.+?)", line (\d+)', stack)
        if innermost is None:
            return "", ""
        return innermost[1], linecache.getline(innermost[1], int(innermost[2])).strip()

    def __str__(self) -> str:
        end = f"exit code {self.exit_code}"
        if self.signal is not None:
            end = f"signal {self.signal.name}"
        if self.timed_out:
            end = "killed after the timeout"
        return f"{end}\n--- stdout\n{self.output}\n--- stderr\n{self.errors}"


class Children:
    """A server that forks a child for each script; close it, or use it as a context manager.

    `preload` are modules that the server imports. None of them may start a thread: children would
    not have it, but could use its stack for another one. `environment` is added to the server's.
    """

    def __init__(
        self, preload: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        command = f"from robustness.limits import _serve; _serve({preload!r})"
        paths = [str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-c", command],
            env=os.environ
            | _ENVIRONMENT
            | {"PYTHONPATH": os.pathsep.join(paths)}
            | dict(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Read when a program starts: the stack of each of its threads, and of those it forks.
            preexec_fn=_large_stacks,
        )

    def run(self, script: str, *, timeout: float = 60.0) -> Outcome:
        """Run a script in a child, and kill it after this many seconds."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = json.dumps({"script": script, "timeout": timeout})
        self._server.stdin.write(request + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, f"the server ended with exit code {self._server.wait()}"
        found = json.loads(answer)
        number = found.pop("signal")
        return Outcome(signal=None if number is None else signal.Signals(number), **found)

    def close(self) -> None:
        self._server.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _large_stacks() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, most))


# ---- in the children ----------------------------------------------------------------------------


def refuse_threads(n_allowed: int = 0) -> None:
    limit_memory(n_allowed * STACK + _ROOM)


def refuse_processes() -> None:
    if os.getuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


def limit_memory(n_bytes: int | None) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = most
    if n_bytes is not None:
        n_pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = n_pages * resource.getpagesize() + n_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


_GLOBALS = {
    function.__name__: function for function in (refuse_threads, refuse_processes, limit_memory)
}


# ---- the server ---------------------------------------------------------------------------------


def _serve(preload: tuple[str, ...]) -> None:
    for module in preload:
        __import__(module)
    threads = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    assert len(threads) == 1, f"an imported module has started a thread: {threads}"
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            child = os.fork()
            if child == 0:
                _run(request["script"], output.fileno(), errors.fileno())
            end = _wait(child, request["timeout"])
            texts = {"output": _read(output), "errors": _read(errors)}
        print(json.dumps(end | texts), flush=True)


def _run(script: str, output: int, errors: int) -> NoReturn:
    os.setsid()
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    faulthandler.enable(target)  # the stack of a script that a signal ends
    code = 0
    try:
        exec(compile(script, "<script>", "exec"), {"__name__": "__main__", **_GLOBALS})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        code = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait(child: int, timeout: float) -> dict[str, Any]:
    watched = os.pidfd_open(child)
    timed_out = not select.select([watched], [], [], timeout)[0]
    os.close(watched)
    if timed_out:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    has_signal = code < 0 and not timed_out
    return {
        "exit_code": None if timed_out or has_signal else code,
        "signal": -code if has_signal else None,
        "timed_out": timed_out,
    }


def _read(file: Any) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
