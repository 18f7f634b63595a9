# SPDX-License-Identifier: Apache-2.0
"""The loss and the metrics of survival against sums over pairs of rows in NumPy float64.

Bits of the gradients are compared with XGBoost's in tests/parity/test_xgboost_gradients.py.
"""

import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.stats
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from mtboost import _core
from mtboost.base.tasks import TaskSet
from mtboost.metrics import cox_losses, evaluate_by_task, evaluate_strata, get_metric
from mtboost.trees.losses import row_groups

N_TASKS = 4


def problem(seed=0, n_rows=200, decimals=1):
    """Margins, labels, of which some are equal, weights and tasks; the last task has no rows."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(2.0, n_rows).round(decimals)
    labels = np.where(rng.random(n_rows) < 0.6, times, -times).astype(np.float32)
    margins = rng.normal(size=n_rows).round(1).astype(np.float32)
    weights = rng.integers(0, 4, n_rows).astype(np.float32)
    return margins, labels, weights, rng.integers(0, N_TASKS - 1, n_rows)


# ---- the loss ------------------------------------------------------------------------------------


def gradients(margins, labels, weights, codes, n_threads=1):
    loss = _core.Loss("survival:cox")
    tasks = None if codes is None else TaskSet(("a", "b", "c", "d"), codes.astype(np.int32))
    groups = row_groups(loss, labels[:, None], tasks)
    return loss.gradients(
        margins[:, None],
        labels[:, None],
        weights,
        groups=groups.begins,
        order=groups.order,
        n_threads=n_threads,
    )[:, 0]


def naive_gradients(margins, labels, weights, codes):
    """Each row sees the events of its task up to its place: by time, at one time by row."""
    pairs = np.zeros((len(margins), 2))
    hazards, times = np.exp(margins.astype(float)), np.abs(labels)
    for row in range(len(margins)):
        own = np.flatnonzero(codes == codes[row])
        before = [
            event
            for event in own
            if labels[event] > 0 and (times[event], event) <= (times[row], row)
        ]
        at_risk = [hazards[own][times[own] >= times[event]].sum() for event in before]
        p = np.array([hazards[row] / total for total in at_risk])
        pairs[row] = p.sum() - (labels[row] > 0), (p * (1 - p)).sum()
    return pairs * weights[:, None]


@pytest.mark.parametrize("decimals", [0, 1, 9])
def test_gradients_are_those_of_the_twin(decimals):
    margins, labels, weights, codes = problem(decimals=decimals)
    expected = naive_gradients(margins, labels, weights, codes)
    found = gradients(margins, labels, weights, codes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    threaded = gradients(margins, labels, weights, codes, n_threads=3)
    np.testing.assert_array_equal(found, threaded)


def test_without_ties_gradients_are_derivatives_of_the_partial_likelihood():
    margins, labels, _, codes = problem(decimals=9)
    n_rows = np.bincount(codes, minlength=N_TASKS)
    n_events = np.bincount(codes, labels > 0, N_TASKS)
    events_by_row = (n_events / np.maximum(n_rows, 1))[codes]

    def loss(margins):
        return (cox_losses(labels, np.exp(margins), codes) * events_by_row).sum()

    found = gradients(margins, labels, None, codes)
    for row in range(0, len(margins), 17):
        step = np.eye(len(margins))[row] * 1e-3
        below, at, above = loss(margins - step), loss(margins + 0.0 * step), loss(margins + step)
        slope, bend = (above - below) / 2e-3, (above - 2 * at + below) / 1e-6
        np.testing.assert_allclose(found[row], [slope, bend], atol=1e-4)


def test_each_task_has_risk_sets_of_its_own():
    margins, labels, weights, codes = problem()
    together = gradients(margins, labels, weights, codes)
    for task in range(N_TASKS - 1):
        own = codes == task
        alone = gradients(margins[own], labels[own], weights[own], None)
        np.testing.assert_array_equal(together[own], alone)


def test_one_constant_a_task_changes_nothing():
    margins, labels, weights, codes = problem()
    moved = margins + np.float32([0.5, -2.0, 1.0, 0.0])[codes]
    expected = gradients(margins, labels, weights, codes)
    found = gradients(moved, labels, weights, codes)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": None}, "groups must begin with 0 and end with the number of rows, 3"),
        ({"groups": [0, 2]}, "end with the number of rows, 3"),
        ({"groups": [1, 3]}, "groups must begin with 0"),
        ({"groups": [0, 2, 1, 3]}, "groups must not decrease"),
        ({"order": None}, "order must hold 3 rows"),
        ({"order": [0, 1]}, "order must hold 3 rows"),
        ({"order": [0, 1, 3]}, "order must name each row once"),
        ({"order": [0, 1, 1]}, "order must name each row once"),
        ({"order": [1, 0, 2]}, "order must sort the rows of a group by time"),
    ],
)
def test_risk_sets_that_do_not_fit_are_refused(changes, message):
    arguments = {"groups": [0, 3], "order": [0, 1, 2], **changes}
    arrays = {k: None if v is None else np.array(v, np.uint32) for k, v in arguments.items()}
    labels = np.array([[1.0], [-2.0], [3.0]], np.float32)
    with pytest.raises(ValueError, match=message):
        _core.Loss("survival:cox").gradients(np.zeros((3, 1), np.float32), labels, **arrays)


def naive_log_likelihood(lower, upper, margin, distribution, scale):
    """Of SciPy's distributions, whose logistic has logarithms of odds as XGBoost's."""
    z = [(np.log(each) - margin) / scale for each in (lower, upper)]
    z = [each if np.isfinite(each) else math.copysign(np.inf, each) for each in z]
    if lower == upper:
        return distribution.logpdf(z[0]) - np.log(scale * lower)
    return np.log(distribution.cdf(z[1]) - distribution.cdf(z[0]))


@pytest.mark.parametrize("scale", [0.7, 1.6])
@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("normal", scipy.stats.norm),
        ("logistic", scipy.stats.logistic),
        ("extreme", scipy.stats.gumbel_l),
    ],
)
def test_gradients_of_bounds_are_derivatives_of_the_metric(name, distribution, scale):
    bounds = [(2.0, 2.0), (2.0, np.inf), (0.0, 2.0), (1.5, 2.5)]
    labels = np.array(bounds * 5, np.float32)
    margins = np.repeat(np.linspace(-1.5, 1.5, 5), 4).astype(np.float32)
    options = {"aft_loss_distribution": name, "aft_loss_distribution_scale": scale}
    pairs = _core.Loss("survival:aft", **options).gradients(margins[:, None], labels)[:, 0]

    def losses(margins):
        rows = np.arange(len(margins))
        metric = f"aft-nloglik@{name},{scale}"
        return evaluate_by_task(metric, labels, np.exp(margins), rows, len(rows))

    scale = np.float64(np.float32(scale))
    margins = margins.astype(np.float64)
    with np.errstate(divide="ignore"):
        expected = [
            -naive_log_likelihood(*each, margin, distribution, scale)
            for each, margin in zip(labels.astype(float), margins, strict=True)
        ]
    np.testing.assert_allclose(losses(margins), expected, rtol=1e-6)
    step = 1e-3
    below, at, above = (losses(margins + each) for each in (-step, 0.0, step))
    slope = ((above - below) / (2 * step)).clip(-15.0, 15.0)  # XGBoost's bounds
    np.testing.assert_allclose(pairs[:, 0], slope, atol=1e-4)
    curvature = ((above - 2 * at + below) / step**2).clip(0.0, 15.0)
    np.testing.assert_allclose(pairs[:, 1], curvature, atol=1e-3)


def test_times_must_be_numbers_and_margins_must_stay_finite():
    loss = _core.Loss("survival:cox")
    with pytest.raises(ValueError, match="times of events, or minus the times .*1 label is not"):
        loss.check_labels(np.array([[1.0], [np.nan]], np.float32))
    labels = np.array([1.0, 2.0], np.float32)
    with pytest.raises(RuntimeError, match="gradient of survival:cox is not finite at row 0"):
        gradients(np.array([1e4, 0.0], np.float32), labels, None, None)


# ---- metrics -------------------------------------------------------------------------------------


@st.composite
def judged_rows(draw):
    """Labels, hazards, tasks and weights, with many ties."""
    n_rows = draw(st.integers(1, 25))
    few = st.integers(0, 4)
    codes, times, ranks, weights, is_event = (
        draw(hnp.arrays(np.int64, n_rows, elements=few)) for _ in range(5)
    )
    labels = np.where(is_event > 1, times, -times) * 0.5
    return labels, np.exp(ranks - 2.0), codes % N_TASKS, weights * 1.0


def naive_concordance(y, hazard, weight):
    good = pairs = 0.0
    for i in np.flatnonzero(y > 0):
        for j in range(len(y)):
            if abs(y[j]) > y[i] or (abs(y[j]) == y[i] and y[j] <= 0):
                pairs += weight[i] * weight[j]
                share = (hazard[j] < hazard[i]) + 0.5 * (hazard[j] == hazard[i])
                good += weight[i] * weight[j] * share
    return good / pairs if pairs else math.nan


def naive_concordance_of_bounds(bounds, time, weight):
    good = pairs = 0.0
    for i, (_, end) in enumerate(bounds):
        for j, (begin, last) in enumerate(bounds):
            if end < begin or (end == begin and begin < last):
                pairs += weight[i] * weight[j]
                share = (time[i] < time[j]) + 0.5 * (time[i] == time[j])
                good += weight[i] * weight[j] * share
    return good / pairs if pairs else math.nan


def naive_cox(y, hazard, weight):
    events = np.flatnonzero((y > 0) & (weight > 0))
    at_risk = [(weight * hazard)[np.abs(y) >= y[i]].sum() for i in events]
    losses = np.log(at_risk) - np.log(hazard[events])
    return np.average(losses, weights=weight[events]) if len(events) else math.nan


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(
    ("name", "naive"), [("concordance", naive_concordance), ("cox-nloglik", naive_cox)]
)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(rows=judged_rows())
def test_metrics_are_those_of_all_pairs(name, naive, is_weighted, rows):
    y, hazard, codes, weight = rows
    weight = weight if is_weighted else np.ones(len(y))
    of_tasks = [codes == task for task in range(N_TASKS)]
    expected = [naive(y[own], hazard[own], weight[own]) for own in of_tasks]
    given_weight = weight if is_weighted else None
    found = evaluate_by_task(name, y, hazard, codes, N_TASKS, given_weight)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(rows=judged_rows(), widths=st.lists(st.sampled_from([0.0, 0.5, 1.0, np.inf]), min_size=25))
def test_concordance_of_bounds_is_that_of_all_pairs(rows, widths):
    y, time, codes, weight = rows
    bounds = np.stack([np.abs(y), np.abs(y) + widths[: len(y)]], axis=1)
    of_tasks = [codes == task for task in range(N_TASKS)]
    expected = [naive_concordance_of_bounds(bounds[o], time[o], weight[o]) for o in of_tasks]
    found = evaluate_by_task("concordance", bounds, time, codes, N_TASKS, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["concordance", "cox-nloglik"])
def test_a_weight_counts_as_many_rows(name):
    margins, labels, weights, codes = problem()
    hazards, times = np.exp(margins.astype(float)), weights.astype(int)
    copies = [np.repeat(each, times) for each in (labels, hazards, codes)]
    expected = evaluate_by_task(name, *copies, N_TASKS)
    found = evaluate_by_task(name, labels, hazards, codes, N_TASKS, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(found[-1])


def test_cox_nloglik_is_that_of_xgboost():
    margins, labels, _, codes = problem()
    data = xgboost.DMatrix(np.zeros((len(labels), 1)), labels, base_margin=margins)
    params = {"objective": "survival:cox", "base_score": 1.0}
    booster = xgboost.train(params, data, num_boost_round=0)
    expected = float(booster.eval(data).rpartition(":")[2])
    found = evaluate_by_task("cox-nloglik", labels, np.exp(margins), 0 * codes, 1)
    assert found[0] == pytest.approx(expected, rel=1e-6)


def test_concordance_is_that_of_scikit_survival():
    sksurv = pytest.importorskip("sksurv.metrics")
    margins, labels, _, codes = problem()
    is_event, times = labels > 0, np.abs(labels)
    expected = [
        sksurv.concordance_index_censored(is_event[own], times[own], margins[own])[0]
        for own in (codes == task for task in range(N_TASKS - 1))
    ]
    found = evaluate_by_task("concordance", labels, np.exp(margins), codes, N_TASKS - 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_losses_of_rows_have_the_metric_as_the_mean_of_each_task():
    margins, labels, _, codes = problem()
    losses = cox_losses(labels, np.exp(margins), codes)
    expected = evaluate_by_task("cox-nloglik", labels, np.exp(margins), codes, N_TASKS - 1)
    np.testing.assert_allclose(np.bincount(codes, losses) / np.bincount(codes), expected)


@pytest.mark.parametrize("name", ["concordance", "cox-nloglik"])
def test_tasks_together_are_judged_within_tasks(name):
    margins, labels, weights, codes = problem()
    metric, hazards = get_metric(name), np.exp(margins.astype(float))
    found = evaluate_strata(metric, labels, hazards, codes, weights)
    values = evaluate_by_task(name, labels, hazards, codes, N_TASKS - 1, weights)
    events = np.bincount(codes, weights * (labels > 0))
    assert found == pytest.approx(np.average(values, weights=events))
    moved = hazards * np.array([100.0, 0.01, 1.0])[codes]
    assert found == pytest.approx(evaluate_strata(metric, labels, moved, codes, weights))
    assert math.isnan(evaluate_strata(metric, -np.abs(labels), moved, codes, None))
