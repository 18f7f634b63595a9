# SPDX-License-Identifier: Apache-2.0
"""Losses of many outputs against their definitions in float64, some of the labels unknown.

The core computes residuals and hessians in float32: 1e-6 is ten times its rounding at their size.
Sums over rows are made in float64.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracle import naive_projected_boosting as naive
from scipy import optimize

from mtboost import _core

NAMES = ("squared", "absolute", "huber", "logistic", "softmax")
WEIGHTS = ("none", "rows", "labels")
DELTA = 0.7
f32 = np.float32

each_loss = pytest.mark.parametrize("name", NAMES)
each_weighting = pytest.mark.parametrize("weighting", WEIGHTS)


class Rows:
    """Labels of one loss, in the core's form and as one column per output, and their weights."""

    def __init__(self, name, seed, *, weighting="none", n_rows=60, n_outputs=4, n_unknown=0.3):
        rng = np.random.default_rng(seed)
        self.core = _core.OutputLoss(name, n_outputs, huber_delta=DELTA)
        self.naive = naive.Loss(name=name, delta=float(f32(DELTA)))
        self.margins = rng.normal(0, 2, (n_rows, n_outputs)).astype(f32)
        self.is_softmax = name == "softmax"
        if self.is_softmax:
            labels = rng.integers(0, n_outputs, n_rows).astype(f32)
            self.Y = (labels[:, None] == np.arange(n_outputs)).astype(float)
        elif name == "logistic":
            labels = rng.choice([0, 0.25, 1], (n_rows, n_outputs)).astype(f32)
        else:
            labels = rng.normal(0, 2, (n_rows, n_outputs)).astype(f32)
        labels[rng.random(labels.shape) < n_unknown] = np.nan
        self.labels = labels
        if self.is_softmax:
            self.Y[np.isnan(labels)] = np.nan
        else:
            self.Y = labels.astype(float)
        shape = {"none": None, "rows": n_rows, "labels": labels.shape}[weighting]
        self.weights = None if shape is None else rng.choice([0, 0.5, 1, 3], shape).astype(f32)
        W = np.ones(n_rows) if self.weights is None else self.weights.astype(float)
        self.W = np.broadcast_to(W[:, None] if W.ndim == 1 else W, self.Y.shape)
        self.arrays = (self.labels, self.weights)


@each_loss
@each_weighting
def test_residuals_and_hessians_are_derivatives_times_weights(name, weighting):
    rows = Rows(name, 1, weighting=weighting)
    F = rows.margins.astype(float)
    for of_core, of_twin in (
        (rows.core.residuals(rows.margins, *rows.arrays), rows.naive.residuals(rows.Y, F)),
        (rows.core.hessians(rows.margins, *rows.arrays), rows.naive.hessians(rows.Y, F)),
    ):
        assert of_core.dtype == f32
        assert_allclose(of_core, rows.W * of_twin, rtol=1e-5, atol=1e-6)


@each_loss
def test_residuals_of_the_twin_are_derivatives_of_its_loss(name):
    rows = Rows(name, 2, n_unknown=0)
    F, step = rows.margins.astype(float), 1e-6
    for output in range(F.shape[1]):
        direction = step * (np.arange(F.shape[1]) == output)
        change = rows.naive.values(rows.Y, F + direction) - rows.naive.values(rows.Y, F - direction)
        slope = change.sum(axis=1) if rows.is_softmax else change[:, output]
        assert_allclose(rows.naive.residuals(rows.Y, F)[:, output], -slope / (2 * step), atol=1e-6)


@each_loss
@each_weighting
@pytest.mark.parametrize("n_threads", [1, 3])
def test_mean_loss_is_that_of_the_known_labels(name, weighting, n_threads):
    rows = Rows(name, 3, weighting=weighting, n_rows=3000)
    found = rows.core.mean_loss(rows.margins, *rows.arrays, n_threads=n_threads)
    expected = rows.naive.mean(rows.Y, rows.margins.astype(float), rows.W)
    assert found == pytest.approx(expected, rel=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(NAMES), st.sampled_from(WEIGHTS), st.integers(0, 10**6))
def test_initial_constants_are_the_twin_s(name, weighting, seed):
    n_rows = seed % 12 + 1
    rows = Rows(name, seed, weighting=weighting, n_rows=n_rows)
    assert_allclose(
        rows.core.initial(*rows.arrays), rows.naive.initial(rows.Y, rows.W), rtol=1e-6, atol=1e-6
    )


@each_loss
@each_weighting
def test_no_other_constant_has_a_smaller_loss(name, weighting):
    rows = Rows(name, 5, weighting=weighting, n_rows=200)
    start = rows.core.initial(*rows.arrays).astype(float)

    def loss(constants):
        return rows.naive.mean(rows.Y, np.tile(constants, (len(rows.Y), 1)), rows.W)

    found = optimize.minimize(loss, start, method="Nelder-Mead", options={"maxiter": 400})
    assert found.fun >= loss(start) - 1e-6


def test_what_no_label_tells_is_0_and_log_odds_are_finite():
    labels = np.array([[np.nan, 1, 0], [np.nan, 1, np.nan], [np.nan, np.nan, 0]], f32)
    # Two known labels: probabilities are kept 1 / 4 from 0 and 1.
    expected = [0, np.log(3), -np.log(3)]
    found = _core.OutputLoss("logistic", 3).initial(labels)
    assert_allclose(found, expected, rtol=1e-6)
    for name in ("squared", "absolute", "huber"):
        assert _core.OutputLoss(name, 3).initial(labels)[0] == 0
    classes = np.array([2, 2, np.nan], f32)
    assert_allclose(
        _core.OutputLoss("softmax", 3).initial(classes), np.log([0.25, 0.25, 0.75]), rtol=1e-6
    )
    assert_array_equal(_core.OutputLoss("softmax", 3).initial(classes[2:]), np.zeros(3))


def test_far_margins_give_finite_numbers():
    margins = np.array([[-1e4, 1e4, 0]], f32)
    for name, labels in (("logistic", [[0, 0, 1]]), ("softmax", [0])):
        loss = _core.OutputLoss(name, 3)
        labels = np.array(labels, f32)
        assert np.isfinite(loss.residuals(margins, labels)).all()
        assert np.isfinite(loss.hessians(margins, labels)).all()
        assert np.isfinite(loss.mean_loss(margins, labels))


@each_loss
def test_results_go_where_they_are_asked_for_whatever_the_threads(name):
    rows = Rows(name, 6, weighting="rows", n_rows=2000)
    for method in (rows.core.residuals, rows.core.hessians):
        out = np.full_like(rows.margins, 7)
        method(rows.margins, *rows.arrays, out=out, n_threads=3)
        assert_array_equal(out, method(rows.margins, *rows.arrays))
    assert_array_equal(
        rows.core.initial(*rows.arrays, n_threads=3), rows.core.initial(*rows.arrays)
    )


@pytest.mark.parametrize(
    ("name", "labels", "weights", "message"),
    [
        ("squared", [[1, np.inf]], None, "finite, or NaN where they are unknown; row 0, label 1"),
        ("logistic", [[1, 0], [2, 0]], None, "from 0 to 1.* row 1, label 0 is 2"),
        ("softmax", [0, 2], None, "classes, 0 to n_outputs - 1.* row 1"),
        ("softmax", [0, 0.5], None, "classes"),
        ("squared", [[1, 2]], [-1], "finite and not negative"),
        ("squared", [[1, 2]], [np.nan], "finite and not negative"),
        ("squared", [[1, 2]], [1, 1], r"weights must have shape \(n_rows,\)"),
        ("squared", [[1, 2]], [[1, 1, 1]], r"weights must have shape \(n_rows,\)"),
        ("squared", [1, 2], None, r"labels must have shape \(n_rows, 2\)"),
        ("softmax", [[1, 2]], None, r"labels must have shape \(n_rows,\)"),
    ],
)
def test_what_a_loss_refuses(name, labels, weights, message):
    loss = _core.OutputLoss(name, 2)
    weights = None if weights is None else np.array(weights, f32)
    with pytest.raises(ValueError, match=message):
        loss.check(np.array(labels, f32), weights)
    with pytest.raises(ValueError, match=message):
        loss.initial(np.array(labels, f32), weights)


def test_unknown_losses_and_numbers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="no loss of many outputs named 'l2'"):
        _core.OutputLoss("l2", 2)
    with pytest.raises(ValueError, match="two classes"):
        _core.OutputLoss("softmax", 1)
    with pytest.raises(ValueError, match="needs an output"):
        _core.OutputLoss("squared", 0)
    with pytest.raises(ValueError, match="huber_delta"):
        _core.OutputLoss("huber", 2, huber_delta=0)
    loss = _core.OutputLoss("squared", 2)
    with pytest.raises(ValueError, match=r"margins must have shape \(n_rows, 2\)"):
        loss.residuals(np.zeros((3, 1), f32), np.zeros((3, 2), f32))
    with pytest.raises(ValueError, match="out must have the shape"):
        loss.residuals(np.zeros((3, 2), f32), np.zeros((3, 2), f32), out=np.zeros((2, 2), f32))
