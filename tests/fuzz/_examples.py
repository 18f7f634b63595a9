# SPDX-License-Identifier: Apache-2.0
"""A subject whose cases end in every outcome, for the tests of the runner."""

from __future__ import annotations

import os
import threading

from fuzz.protocol import OUTCOMES, Case, SkipCase

TIME_LIMIT = 1.0


def case(seed: int) -> Case:
    outcome = OUTCOMES[seed % len(OUTCOMES)]

    def run() -> None:
        match outcome:
            case "refused":
                raise ValueError
            case "skipped":
                raise SkipCase
            case "wrong":
                raise AssertionError("not what was expected")
            case "crashed":
                print("last words", flush=True)
                os._exit(3)
            case "hung":
                threading.Event().wait()

    return Case(
        run,
        f"example {outcome}",
        kind="example",
        refusals=(ValueError,),
        must_refuse=outcome == "accepted",
    )
