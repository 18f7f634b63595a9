# SPDX-License-Identifier: Apache-2.0
"""A few signals for each entry; ``python tests/fuzz/signals.py`` sends as many as one likes."""

import os
from contextlib import closing

import pytest
from fuzz.signals import ENTRIES, Child, send_signals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX defines them")


@pytest.fixture(scope="module")
def child():
    with closing(Child()) as child:
        yield child


@pytest.mark.parametrize("name", ENTRIES)
def test_after_ctrl_c_the_process_lives_on_and_trains_the_same_model(name, child):
    for moments, number in (("lines", 2), ("times", 1)):
        counts = send_signals(name, number, seed=0, moments=moments, child=child)
        assert counts.n_defects == 0, "\n".join([str(counts), *child.complaints])
