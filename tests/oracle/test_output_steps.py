# SPDX-License-Identifier: Apache-2.0
"""How far each output goes along a tree: the minimum that SciPy finds in double precision."""

import numpy as np
import pytest
from scipy import optimize

from mtboost._core import OutputLoss

N, D = 400, 20  # more outputs than are worked on at a time
DELTA = 0.7
LOSSES = ["squared", "absolute", "huber", "logistic"]


def value(name, margin, label):
    u = label - margin
    match name:
        case "squared":
            return u**2 / 2
        case "absolute":
            return np.abs(u)
        case "huber":
            return np.where(np.abs(u) <= DELTA, u**2 / 2, DELTA * (np.abs(u) - DELTA / 2))
        case _:
            return np.logaddexp(0, margin) - label * margin


def problem(name, seed=0):
    rng = np.random.default_rng(seed)
    margins = rng.normal(size=(N, D)).astype(np.float32)
    direction = rng.normal(size=N).round(1).astype(np.float32)  # some are 0
    labels = margins + np.multiply.outer(direction, rng.normal(size=D)) + rng.normal(size=(N, D))
    labels = labels > 0 if name == "logistic" else labels
    labels = np.where(rng.random((N, D)) < 0.2, np.nan, labels).astype(np.float32)
    return OutputLoss(name, D, huber_delta=DELTA), margins, labels, direction


@pytest.mark.parametrize("weight", [None, "rows", "labels"])
@pytest.mark.parametrize("name", LOSSES)
def test_steps_are_the_minima_along_the_line(name, weight):
    loss, margins, labels, direction = problem(name)
    rng = np.random.default_rng(1)
    shape = {"rows": N, "labels": (N, D)}
    weights = None if weight is None else rng.integers(0, 4, shape[weight]).astype(np.float32)
    steps = loss.steps(margins, labels, direction, weights, n_threads=2)
    limit = 10 / np.abs(direction).max() if name == "logistic" else 100
    w = np.ones((N, D)) if weights is None else np.broadcast_to(weights.reshape(N, -1), (N, D))
    for output in range(D):
        known = ~np.isnan(labels[:, output])
        own = [a[known].astype(float) for a in (margins[:, output], labels[:, output], direction)]

        def total(t, own=own, w=w[known, output]):
            return np.sum(w * value(name, own[0] + t * own[2], own[1]))

        bounds = {"bounds": (-limit, limit), "options": {"xatol": 1e-9}}
        best = optimize.minimize_scalar(total, **bounds).fun
        # float32 margins, and a minimum is flat: a step that is 1e-5 off costs 1e-10 of the loss.
        assert total(steps[output]) <= best * (1 + 1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_threads_do_not_change_a_bit(name):
    loss, *arrays = problem(name)
    np.testing.assert_array_equal(
        loss.steps(*arrays, n_threads=1), loss.steps(*arrays, n_threads=7)
    )


@pytest.mark.parametrize("name", LOSSES)
def test_an_output_that_knows_nothing_stays(name):
    loss, margins, labels, direction = problem(name)
    labels[:, 3] = np.nan
    labels[direction != 0, 4] = np.nan
    steps = loss.steps(margins, labels, direction)
    assert steps[3] == steps[4] == 0
    assert np.count_nonzero(steps) == D - 2
    assert not loss.steps(margins, labels, np.zeros_like(direction)).any()


def test_a_logistic_step_along_a_line_that_separates_labels_is_limited():
    direction = np.array([-0.5, -0.1, 0.2, 0.4], np.float32)
    labels = (direction > 0).astype(np.float32).reshape(4, 1)
    (step,) = OutputLoss("logistic", 1).steps(np.zeros((4, 1), np.float32), labels, direction)
    assert step == pytest.approx(10 / 0.5)


def test_what_has_no_steps_or_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="softmax"):
        OutputLoss("softmax", 2).steps(
            np.zeros((3, 2), np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)
        )
    with pytest.raises(ValueError, match="direction must fit"):
        OutputLoss("squared", 2).steps(*np.zeros((2, 3, 2), np.float32), np.zeros(4, np.float32))
