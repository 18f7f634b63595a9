# SPDX-License-Identifier: Apache-2.0
"""Progress of searches and forests: a bar, or lines of the log."""

import logging
import re
import sys

import numpy as np
import pytest
from sklearn.base import clone

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
    assert all("; about " in line for line in caplog.messages[1:])
    assert ": final model; about " in caplog.messages[-1]


TWO_STAGE = {**OPTIONS, "strategy": "two-stage"}
STEPS = ["common model", "specific models", "final model"]


def test_a_bar_names_the_stages(capfd):
    pytest.importorskip("tqdm")
    mtboost.fit(X, Y, **TWO_STAGE, verbose=True)
    out, shown = capfd.readouterr()
    assert [shown.index(f"{step}:") for step in STEPS] == sorted(map(shown.index, STEPS))
    assert shown.rstrip().splitlines()[-1].count("3/3") == 1
    assert not out


@pytest.mark.parametrize(
    ("options", "steps"),
    [({}, STEPS), ({"refit": False}, STEPS[:2]), ({"validation_fraction": 0}, STEPS[:2])],
)
def test_lines_of_the_log_name_the_stages(options, steps, no_tqdm, caplog, capfd):
    caplog.set_level(logging.INFO, "mtboost")
    silent = mtboost.fit(X, Y, **{**TWO_STAGE, **options})
    assert not caplog.messages
    shown = mtboost.fit(X, Y, **{**TWO_STAGE, **options}, verbose=True)
    np.testing.assert_array_equal(shown.predict(X, task=TASK), silent.predict(X, task=TASK))
    n = len(steps)
    heads = [f"{number} of at most {n}: {step}" for number, step in enumerate(steps, 1)]
    assert [line.partition(";")[0] for line in caplog.messages] == heads
    assert all("; about " in line for line in caplog.messages[1:])
    assert capfd.readouterr().out == ""


def test_a_number_also_prints_metrics_every_so_many_rounds(no_tqdm, caplog, capfd):
    caplog.set_level(logging.INFO, "mtboost")
    mtboost.fit(X, Y, **TWO_STAGE, verbose=2)
    assert len(caplog.messages) == len(STEPS)
    every_second = capfd.readouterr().out.splitlines()
    mtboost.fit(X, Y, **TWO_STAGE, verbose=1)
    assert 0 < len(every_second) < len(capfd.readouterr().out.splitlines())


FORESTS = [
    (mtboost.MTExtraTreesRegressor(12, random_state=0, n_jobs=1), Y),
    (mtboost.ProjectedForestRegressor(12, random_state=0, n_jobs=1), X[:, ::-1]),
]


@pytest.mark.parametrize(("forest", "labels"), FORESTS)
def test_forests_show_their_trees_and_grow_the_same(forest, labels, no_tqdm, caplog, capfd):
    caplog.set_level(logging.INFO, "mtboost")
    silent = clone(forest).fit(X, labels)
    assert not caplog.messages
    shown = clone(forest).set_params(verbose=5).fit(X, labels)
    np.testing.assert_array_equal(shown.predict(X), silent.predict(X))
    *lines, last = caplog.messages
    assert [re.fullmatch(r"(\d+) of at most 12: about \d+ s left", own)[1] for own in lines] == [
        "5",
        "10",
    ]
    assert last == "12 of at most 12"
    assert capfd.readouterr().out == ""


def test_a_bar_shows_the_trees(capfd):
    pytest.importorskip("tqdm")
    clone(FORESTS[0][0]).set_params(verbose=True).fit(X, Y)
    assert "12/12" in capfd.readouterr().err


def test_lines_reach_stderr_where_nobody_handles_the_log(no_tqdm, capfd, monkeypatch):
    log = logging.getLogger("mtboost")
    monkeypatch.setattr(log, "propagate", False)
    before = log.level, [*log.handlers]
    with Progress(2, is_shown=True) as progress:
        progress.begin("first")
    assert "1 of at most 2: first" in capfd.readouterr().err
    assert (log.level, log.handlers) == before
