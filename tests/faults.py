# SPDX-License-Identifier: Apache-2.0
"""Faults of the system, for the length of a ``with`` block, in this process.

Whatever a block does to the process ends with it; a library that does not survive a fault takes the
process with it, so that fuzz.faults uses these in worker processes. Linux with the GNU C library.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

IS_SUPPORTED = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "pthread_setattr_default_np")
if IS_SUPPORTED:
    import resource
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt()
_ATTRIBUTES = 64  # bytes, at least sizeof(pthread_attr_t)
#: Stack of a thread, in bytes, where threads are to fail: address space is what runs out.
_STACK = 4 << 30


@contextmanager
def failing_threads(n_allowed: int = 0) -> Iterator[None]:
    """Let `n_allowed` more threads start, beside those that run."""
    libc = ctypes.CDLL(None)
    before = ctypes.create_string_buffer(_ATTRIBUTES)
    large = ctypes.create_string_buffer(_ATTRIBUTES)
    libc.pthread_getattr_default_np(before)
    libc.pthread_getattr_default_np(large)
    libc.pthread_attr_setstacksize(large, ctypes.c_size_t(_STACK))
    libc.pthread_setattr_default_np(large)
    try:
        with limited_memory(n_allowed * _STACK + _STACK // 2):
            yield
    finally:
        libc.pthread_setattr_default_np(before)


@contextmanager
def limited_memory(n_bytes: int) -> Iterator[None]:
    """Let the address space grow by so much, and no more."""
    libc = ctypes.CDLL(None)
    # Else blocks that were freed before the limit would serve what is asked for under it.
    libc.mallopt(_MMAP_THRESHOLD, 1 << 16)
    libc.mallopt(_TRIM_THRESHOLD, 0)
    libc.malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    with _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + n_bytes):
        yield


@contextmanager
def limited_files(n_bytes: int) -> Iterator[None]:
    """Let no file grow beyond this many bytes, as on a full disk."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error instead of a signal
    try:
        with _limit(resource.RLIMIT_FSIZE, n_bytes):
            yield
    finally:
        signal.signal(signal.SIGXFSZ, before)


@contextmanager
def _limit(which: int, value: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(which)
    if soft != resource.RLIM_INFINITY:
        value = min(value, soft)
    resource.setrlimit(which, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


@contextmanager
def many_signals(seconds: float) -> Iterator[None]:
    """Interrupt system calls again and again, with a signal that means nothing."""
    with _alarms(lambda number, frame: None, seconds, seconds):
        yield


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Raise KeyboardInterrupt after this many seconds, unless the block is over by then."""
    is_over = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not is_over:
            raise KeyboardInterrupt

    with _alarms(interrupt, seconds, 0):
        try:
            yield
        finally:
            is_over = True


@contextmanager
def _alarms(handler: object, first: float, interval: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, first, interval)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
