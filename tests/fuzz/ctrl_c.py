# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at random moments of training: signals.py, which has its own command, as a subject."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import numpy as np
from fuzz.protocol import Case

TIME_LIMIT = 600.0  # signals.py has other limits
TEST_CALLS = 0  # test_signals.py tries some
_SIGNALS = 10

if importlib.util.find_spec("fuzz.signals") is not None:

    def case(seed: int) -> Case:
        from fuzz.signals import ENTRIES

        rng = np.random.default_rng(seed)
        name = list(ENTRIES)[seed % len(ENTRIES)]
        moments = str(rng.choice(["times", "lines"]))

        def run() -> None:
            from fuzz.signals import send_signals

            counts = send_signals(name, _SIGNALS, seed, moments=moments, child=_child())
            assert counts.n_defects == 0, "\n".join([str(counts), *_child().complaints])

        return Case(run, f"{_SIGNALS} signals at random {moments} of {name}")


@functools.cache
def _child() -> Any:
    """The process that trains and is sent signals, one for each worker."""
    from fuzz.signals import Child

    return Child()
