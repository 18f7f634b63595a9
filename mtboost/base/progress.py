# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: a bar of tqdm, or lines of the log where tqdm is not installed.

Both show which step is going on, of at most how many, what is best so far and the time left.
"""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import Any, Self

_LOG = logging.getLogger("mtboost")


class Progress:
    """Steps of long work, shown one after the other.

    The log is ``logging.getLogger("mtboost")``. Where nobody handles it, lines go to stderr.

    Parameters
    ----------
    n_steps : int
        Most steps that there can be.
    is_shown : bool
        Without it nothing is shown.
    unit : str
        What the bar calls a step.
    every : int
        Lines of :meth:`report` are those of every such number of steps, and the last one.
    """

    def __init__(
        self, n_steps: int, *, is_shown: bool, unit: str = "model", every: int = 1
    ) -> None:
        self._n_steps = n_steps
        self._unit, self._every = unit, every
        self._n_begun = 0
        self._start = time.monotonic()
        self._is_shown = is_shown
        self._bar: Any = None
        self._handler: logging.Handler | None = None
        self._level = _LOG.level

    def __enter__(self) -> Self:
        if not self._is_shown:
            return self
        try:
            from tqdm.auto import tqdm
        except ImportError:
            if not _LOG.hasHandlers():
                self._handler = logging.StreamHandler()
                _LOG.addHandler(self._handler)
            if not _LOG.isEnabledFor(logging.INFO):
                _LOG.setLevel(logging.INFO)
        else:
            self._bar = tqdm(total=self._n_steps, unit=self._unit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            if error is None:
                self._bar.total = self._n_begun
                self._bar.update(self._n_begun - self._bar.n)
            self._bar.close()
        if self._handler is not None:
            _LOG.removeHandler(self._handler)
        _LOG.setLevel(self._level)

    def begin(self, step: str, best: str = "") -> None:
        """Say which step begins, and what is best so far; the step before it has ended."""
        if self._bar is not None:
            self._bar.update(self._n_begun - self._bar.n)
            self._bar.set_description(step)
            self._bar.set_postfix_str(best)
        elif self._is_shown:
            self._log(self._n_begun + 1, self._n_begun, step, best)
        self._n_begun += 1

    def report(self, n_done: int, reached: str = "") -> None:
        """Say how many steps have ended, and what they have reached."""
        self._n_begun = n_done
        if self._bar is not None:
            self._bar.set_postfix_str(reached, refresh=False)
            self._bar.update(n_done - self._bar.n)
        elif self._is_shown and (n_done % self._every == 0 or n_done == self._n_steps):
            self._log(n_done, n_done, reached)

    def _log(self, number: int, n_done: int, *said: str) -> None:
        """Write a line about a step; those to come are taken to be as long as the others."""
        left = ""
        if 0 < n_done < self._n_steps:
            mean = (time.monotonic() - self._start) / n_done
            left = f"about {mean * (self._n_steps - n_done):.0f} s left"
        parts = "; ".join(part for part in (*said, left) if part)
        _LOG.info("%d of at most %d%s", number, self._n_steps, parts and f": {parts}")
