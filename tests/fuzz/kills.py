# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed while they save a model: the file is the old one or the new one."""

from __future__ import annotations

import functools
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from fuzz.faults import MODELS, model
from fuzz.protocol import Case

import mtboost

TEST_CALLS = 10 if sys.platform == "linux" else 0


@functools.cache
def _seconds() -> float:
    """Seconds that the longest save takes."""
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for kind in MODELS:
            start = time.perf_counter()
            model(kind).save(Path(folder) / "model.mtb")
            longest = max(longest, time.perf_counter() - start)
    return longest


def case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    old, new = (str(kind) for kind in rng.choice(MODELS, 2))
    part = rng.random()

    def run() -> None:
        _seconds()
        with tempfile.TemporaryDirectory() as folder:
            path, other = Path(folder) / "model.mtb", Path(folder) / "new.mtb"
            model(old).save(path)
            model(new).save(other)
            contents = (path.read_bytes(), other.read_bytes())
            child = os.fork()  # there are no threads: all models were made with one
            if child == 0:
                try:
                    model(new).save(path)
                finally:
                    os._exit(0)
            time.sleep(part * _seconds())
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            assert path.read_bytes() in contents, "the file is neither the old nor the new one"
            mtboost.load_model(path)
            model(old).save(path)
            assert path.read_bytes() == contents[0], "the next save does not replace it"
            assert sorted(os.listdir(folder)) == ["model.mtb", "new.mtb"], "something is left over"

    return Case(run, f"save of {new} over {old}, killed after {part:.0%} of its time")
