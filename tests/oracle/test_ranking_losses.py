# SPDX-License-Identifier: Apache-2.0
"""Lambda gradients of both libraries against a loop over the pairs of each query in NumPy float64.

Bits are compared with the libraries' in tests/parity/test_ranking.py.
"""

import itertools

import numpy as np
import pytest

from mtboost import _core
from mtboost.base.queries import begins_of

SIZES = (1, 7, 40, 2, 13)
QUERIES = np.repeat(np.arange(len(SIZES)), SIZES)
N_ROWS = len(QUERIES)


def rows(seed=0):
    """Margins, of which some are equal, labels and one weight a query."""
    rng = np.random.default_rng(seed)
    margins = np.round(rng.normal(size=N_ROWS), 1)
    labels = rng.integers(0, 5, N_ROWS).astype(np.float32)
    labels[QUERIES == 3] = 2.0  # no pair
    weights = rng.uniform(0.5, 2.0, len(SIZES))[QUERIES].astype(np.float32)
    return margins, labels, weights


def naive(margins, labels, weights, *, n_ranked, norm, by_distance, is_ndcg, hessian_factor, gain):
    """Gradient and hessian of each row: pairs, one after the other."""
    pairs = np.zeros((N_ROWS, 2))
    for query in np.unique(QUERIES):
        own = np.flatnonzero(query == QUERIES)
        order = own[np.argsort(-margins[own], kind="stable")]
        discounts = 1.0 / np.log2(np.arange(len(own)) + 2.0)
        n_top = min(n_ranked, len(own))
        ideal = (np.sort(gain(labels[own]))[::-1] * discounts)[:n_top].sum()
        spread = np.ptp(margins[own])
        found = dict.fromkeys(own.tolist(), np.zeros(2))
        total = 0.0
        for i, j in itertools.combinations(range(len(own)), 2):
            if i >= n_top or labels[order[i]] == labels[order[j]]:
                continue
            high, low = (i, j) if labels[order[i]] > labels[order[j]] else (j, i)
            distance = margins[order[high]] - margins[order[low]]
            change = 1.0
            if is_ndcg:
                gap = gain(labels[order[high]]) - gain(labels[order[low]])
                change = gap * abs(discounts[high] - discounts[low]) / ideal
            if by_distance and spread:
                change /= 0.01 + abs(distance)
            p = 1.0 / (1.0 + np.exp(-distance))
            gradient = np.array([(p - 1.0) * change, hessian_factor * p * (1.0 - p) * change])
            found[order[high]] = found[order[high]] + gradient
            found[order[low]] = found[order[low]] + gradient * (-1.0, 1.0)
            total += 2.0 * (1.0 - p) * change
        factor = np.log2(1.0 + total) / total if norm and total else 1.0
        for row, pair in found.items():
            pairs[row] = factor * weights[row] * pair
    return pairs


def exp_gain(labels):
    return np.exp2(np.asarray(labels, np.float64)) - 1.0


@pytest.mark.parametrize("name", ["rank:ndcg", "rank:pairwise"])
@pytest.mark.parametrize("n_pairs", [1, 5, 32])
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("by_distance", [True, False])
def test_gradients_of_xgboost_are_sums_over_pairs(name, n_pairs, norm, by_distance):
    margins, labels, weights = rows()
    loss = _core.Loss(
        name,
        lambdarank_num_pair_per_sample=n_pairs,
        lambdarank_normalization=norm,
        lambdarank_score_normalization=by_distance,
    )
    found = loss.gradients(
        margins.astype(np.float32)[:, None],
        labels[:, None],
        weights,
        groups=begins_of(QUERIES),
    )[:, 0]
    mean = weights[begins_of(QUERIES)[:-1]].mean()  # XGBoost divides weights by it
    expected = naive(
        margins.astype(np.float32),
        labels,
        weights / mean,
        n_ranked=n_pairs,
        norm=norm,
        by_distance=by_distance,
        is_ndcg=name == "rank:ndcg",
        hessian_factor=2.0,
        gain=exp_gain,
    )
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)  # sums of floats


def test_the_gain_of_xgboost_may_be_the_label():
    margins, labels, _ = rows(1)
    labels += 0.5
    loss = _core.Loss("rank:ndcg", ndcg_exp_gain=False)
    groups = begins_of(QUERIES)
    margins = margins.astype(np.float32)
    found = loss.gradients(margins[:, None], labels[:, None], groups=groups)[:, 0]
    options = {"n_ranked": 32, "norm": True, "by_distance": True, "is_ndcg": True}
    ones = np.ones(N_ROWS)
    expected = naive(margins, labels, ones, **options, hessian_factor=2.0, gain=np.float64)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("level", [1, 5, 30])
@pytest.mark.parametrize("norm", [True, False])
def test_gradients_of_lightgbm_are_sums_over_pairs(level, norm):
    margins, labels, weights = rows(2)
    loss = _core.LightgbmLoss("lambdarank", lambdarank_norm=norm, lambdarank_truncation_level=level)
    groups = begins_of(QUERIES)
    found = loss.gradients(margins[:, None], labels[:, None], weights, groups=groups)[:, 0]
    expected = naive(
        margins,
        labels,
        weights,
        n_ranked=level,
        norm=norm,
        by_distance=norm,
        is_ndcg=True,
        hessian_factor=1.0,
        gain=exp_gain,
    )
    # LightGBM reads probabilities from a table with steps of 5e-5 in the margin.
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["rank:ndcg", "rank:pairwise"])
def test_gradients_of_a_query_add_up_to_zero(name):
    margins, labels, _ = rows(3)
    groups = begins_of(QUERIES)
    loss = _core.Loss(name)
    found = loss.gradients(margins.astype(np.float32)[:, None], labels[:, None], groups=groups)
    sums = np.add.reduceat(found[:, 0, 0].astype(np.float64), groups[:-1].astype(np.int64))
    np.testing.assert_allclose(sums, 0.0, atol=1e-5)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_the_number_of_threads_changes_no_bit(n_threads):
    rng = np.random.default_rng(4)
    queries = np.sort(rng.integers(0, 300, 6000))
    margins = rng.normal(size=(6000, 1)).astype(np.float32)
    labels = rng.integers(0, 4, (6000, 1)).astype(np.float32)
    loss = _core.Loss("rank:ndcg")
    one, several = (
        loss.gradients(margins, labels, groups=begins_of(queries), n_threads=n)
        for n in (1, n_threads)
    )
    assert np.array_equal(one, several)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (None, "needs groups"),
        ([0, 3], "must begin with 0 and end with the number of rows, 5"),
        ([1, 5], "must begin with 0"),
        ([0, 4, 2, 5], "must not decrease"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups, message):
    loss = _core.Loss("rank:ndcg")
    zeros = np.zeros((5, 1), np.float32)
    groups = None if groups is None else np.array(groups, np.uint32)
    with pytest.raises(ValueError, match=message):
        loss.gradients(zeros, zeros, groups=groups)


def test_a_margin_that_is_not_finite_is_named():
    margins = np.zeros((5, 1), np.float32)
    margins[3] = np.nan
    groups = np.array([0, 5], np.uint32)
    with pytest.raises(RuntimeError, match="not finite at row 3"):
        _core.Loss("rank:ndcg").gradients(margins, margins * 0, groups=groups)


@pytest.mark.parametrize("label", [-1.0, 0.5, 32.0])
def test_labels_that_are_no_degrees_of_relevance_are_refused(label):
    labels = np.array([[0.0], [label]], np.float32)
    with pytest.raises(ValueError, match="whole numbers from 0 to 31"):
        _core.Loss("rank:ndcg").check_labels(labels)
    with pytest.raises(ValueError, match="whole numbers from 0 to 30"):
        _core.LightgbmLoss("lambdarank").check_labels(labels)
