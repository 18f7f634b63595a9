# SPDX-License-Identifier: Apache-2.0
"""Shrunk Platt scaling beside SciPy's minimum of the same penalised losses."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mtboost.model.parts.calibration import POOLED_DEVIATIONS, fit_calibration, shrunk_deviations


def rows(seed, n_tasks=12, slopes=1.0, intercepts=0.0):
    """Margins and labels of tasks of 3 to 400 rows, with these true slopes and intercepts."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_tasks), np.geomspace(3, 400, n_tasks).astype(int))
    margins = rng.normal(0.5, 1.5, len(codes))
    z = np.broadcast_to(slopes, n_tasks)[codes] * margins
    z = z + np.broadcast_to(intercepts, n_tasks)[codes]
    labels = (rng.random(len(codes)) < 1 / (1 + np.exp(-z))).astype(float)
    return margins, labels, rng.uniform(0.5, 1.5, len(codes)), codes


def naive(base, own, labels, weights, precisions, least):
    """The minimum for one task."""

    def loss(deviation):
        z = base + deviation[0] * own + deviation[1]
        loss = weights @ (np.logaddexp(0, z) - labels * z)
        return loss + 0.5 * (precisions * deviation**2).sum()

    found = minimize(loss, [0.0, 0.0], method="L-BFGS-B", bounds=[(least, None), (None, None)])
    return found.x, loss(found.x)


@pytest.mark.parametrize("slopes", [1.0, -1.0, np.linspace(-2, 3, 12)])
@pytest.mark.parametrize("precisions", [[1.0, 0.04], [25.0, 3.0]])
def test_deviations_minimise_the_penalised_loss_of_each_task(slopes, precisions):
    margins, labels, weights, codes = rows(0, slopes=slopes, intercepts=0.5)
    precisions, base = np.array(precisions), 1.1 * margins - 0.2
    found = shrunk_deviations(base, margins, labels, weights, codes, 12, precisions, -1.1)
    for task in range(12):
        own = codes == task
        parts = base[own], margins[own], labels[own], weights[own]
        expected, least_loss = naive(*parts, precisions, -1.1)
        np.testing.assert_allclose(found[task], expected, atol=2e-3)
        z = base[own] + found[task, 0] * margins[own] + found[task, 1]
        loss = weights[own] @ (np.logaddexp(0, z) - labels[own] * z)
        assert loss + 0.5 * precisions @ found[task] ** 2 <= least_loss + 1e-9


def test_the_pooled_map_is_that_of_one_task():
    margins, labels, weights, codes = rows(1, slopes=0.5, intercepts=-1.0)
    pooled, by_task = fit_calibration(margins, labels, weights, np.zeros_like(codes), 1)
    prior = 1 / np.square(POOLED_DEVIATIONS)
    expected, _ = naive(margins, margins, labels, weights, prior, -1.0)
    np.testing.assert_allclose(pooled, [1 + expected[0], expected[1]], atol=1e-3)
    np.testing.assert_array_equal(by_task, [pooled])  # the tasks do not differ


def test_tasks_that_differ_have_their_own_maps_and_equal_ones_are_shrunk_together():
    """Planted maps of large tasks come back; the spread of equal ones is estimated small."""
    slopes, intercepts = np.resize([0.4, 1.6], 30), np.resize([1.0, 0.0, -1.0], 30)
    rng = np.random.default_rng(2)
    codes = np.repeat(np.arange(30), 2000)
    margins = rng.normal(size=len(codes))

    def maps(a, b):
        p = 1 / (1 + np.exp(-(a * margins + b)))
        labels = (rng.random(len(codes)) < p).astype(float)
        return fit_calibration(margins, labels, np.ones(len(codes)), codes, 30)[1]

    # Standard errors of slope and intercept are below .07: five of them.
    own = maps(slopes[codes], intercepts[codes])
    assert np.abs(own - np.column_stack([slopes, intercepts])).max() < 0.35
    assert maps(0.7, -0.3).std(axis=0).max() < 0.04


def test_separated_and_constant_rows_have_finite_maps_that_do_not_reverse_margins():
    margins = np.array([-2.0, -1.0, 1.0, 2.0, 3.0, 3.0, 0.0, 0.0])
    codes = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    for labels in (margins > 0, margins < 0, np.ones(8), np.zeros(8)):
        pooled, by_task = fit_calibration(margins, labels.astype(float), np.ones(8), codes, 3)
        assert np.isfinite(pooled).all()
        assert np.isfinite(by_task).all()
        assert (np.append(by_task[:, 0], pooled[0]) >= 0).all()
