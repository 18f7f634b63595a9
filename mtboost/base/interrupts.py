# SPDX-License-Identifier: Apache-2.0
"""Signals such as Ctrl-C wait while steps are taken that belong together.

Python runs the handlers of signals in the main thread, between any two of its instructions, and
that of Ctrl-C raises KeyboardInterrupt there. Two kinds of code cannot bear it. A function that
XGBoost calls back while it builds a matrix has nobody to raise to: the exception is lost, and
XGBoost goes on with memory that nobody has filled. And what is changed for a moment, such as the
base margins of a user's matrix, must be changed back.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal without its slow enumerations
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

State = TypeVar("State")
# Those that programs handle by an exception, where the system knows them.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_NUMBERS = [int(number) for number in signal.Signals if number.name in _NAMES]


@contextmanager
def uninterrupted() -> Iterator[Signals]:
    """Let signals wait until the block is left; their handlers, which may raise, run then."""
    signals = Signals()
    try:
        signals.intercept()
        yield signals
    finally:
        signals.release()


@contextmanager
def restored(change: Callable[[], State], restore: Callable[[State], object]) -> Iterator[None]:
    """Change something for the length of the block, in which signals are heeded as usual.

    `restore` is called with what `change` has returned. No signal interrupts either of them.
    """
    with uninterrupted() as signals:
        state = change()
        try:
            with signals.heeded():
                yield
        finally:
            restore(state)


class Signals:
    """The handler, for a while, of the signals that have one in Python."""

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._came: list[tuple[int, FrameType | None]] = []
        self._wait = True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._wait:
            self._came.append((number, frame))
        else:
            self._handlers[number](number, frame)

    def intercept(self) -> None:
        """Take the place of the handlers."""
        for number in _NUMBERS:
            handler = _signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                try:
                    _signal.signal(number, self)
                except ValueError:  # not in the main thread: no handler will run here
                    self._handlers.clear()
                    return

    def release(self) -> None:
        """Give the handlers their places back, and let them handle what has come."""
        self._wait = False  # where this object is still a handler, it passes signals on
        try:
            for number, handler in self._handlers.items():
                if _signal.getsignal(number) is self:
                    _signal.signal(number, handler)
        finally:
            self._deliver()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Let handlers run at once in this block."""
        self._wait = False
        try:
            self._deliver()
            yield
        finally:
            self._wait = True

    def _deliver(self) -> None:
        if self._came:
            number, frame = self._came.pop(0)
            try:
                self._handlers[number](number, frame)
            finally:  # a handler that raises does not keep the others from their signals
                self._deliver()
