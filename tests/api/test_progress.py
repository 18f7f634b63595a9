# SPDX-License-Identifier: Apache-2.0
"""Progress of a search: a bar, or lines of the log."""

import logging
import re
import sys

import numpy as np
import pytest

import mtboost
from mtboost.base.progress import Progress

RNG = np.random.default_rng(0)
X, TASK = RNG.normal(size=(240, 3)), np.arange(240) % 4
Y = X[:, 0] * (1 + TASK) + 0.1 * RNG.normal(size=240)
OPTIONS = {"task": TASK, "num_boost_round": 5, "specific_rounds": 3, "validation_fraction": 0.2}


@pytest.fixture
def no_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


def test_without_a_wish_nothing_is_said(capfd, caplog):
    caplog.set_level(logging.DEBUG)
    mtboost.fit(X, Y, **OPTIONS)
    assert capfd.readouterr() == ("", "")
    assert not caplog.messages


def test_a_bar_names_what_is_trained(capfd):
    pytest.importorskip("tqdm")
    mtboost.fit(X, Y, **OPTIONS, verbose=True)
    shown = capfd.readouterr().err
    for step in ("common model, depth 4, pooled", "least loss", "specific models", "final model"):
        assert step in shown
    # The most that there could have been, and in the end as many as there were.
    n_steps = [int(last) for _, last in re.findall(r" (\d+)/(\d+) ", shown)]
    assert n_steps[-1] <= n_steps[0]


@pytest.mark.parametrize("effort", ["fast", "balanced", "thorough"])
def test_lines_of_the_log_count_the_steps(effort, no_tqdm, caplog):
    caplog.set_level(logging.INFO, "mtboost")
    mtboost.fit(X, Y, **OPTIONS, verbose=True, effort=effort)
    counts = [re.match(r"(\d+) of at most (\d+): ", line).groups() for line in caplog.messages]
    assert [int(number) for number, _ in counts] == list(range(1, len(counts) + 1))
    assert len(counts) <= int(counts[0][1])
    assert caplog.messages[-1].endswith("final model")


def test_lines_reach_stderr_where_nobody_handles_the_log(no_tqdm, capfd, monkeypatch):
    log = logging.getLogger("mtboost")
    monkeypatch.setattr(log, "propagate", False)
    before = log.level, [*log.handlers]
    with Progress(2, is_shown=True) as progress:
        progress.begin("first")
    assert "1 of at most 2: first" in capfd.readouterr().err
    assert (log.level, log.handlers) == before
