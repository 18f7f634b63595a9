# SPDX-License-Identifier: Apache-2.0
"""Features of a node follow the distribution of weighted draws without replacement.

That of a few draws from few features is enumerated. Each chi-square test would refuse a right
sampler with a probability of 1e-6; seeds are given, so that it does so always or never.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mtboost import _core

ERROR = 1e-6
N_DRAWS = 40_000


def draw(weights, n, seed=0, tree=0, node=1):
    return _core.draw_features(np.asarray(weights, float), n, seed=seed, tree=tree, node=node)


def law(weights, n):
    """Probability of each sequence of n features."""
    weights = np.asarray(weights, float)
    found = {}
    for sequence in itertools.permutations(np.flatnonzero(weights), n):
        rest, probability = list(np.flatnonzero(weights)), 1.0
        for feature in sequence:
            probability *= weights[feature] / weights[rest].sum()
            rest.remove(feature)
        found[tuple(map(int, sequence))] = probability
    assert sum(found.values()) == pytest.approx(1.0)
    return found


def check_law(weights, n, **key):
    expected = law(weights, n)
    counts = dict.fromkeys(expected, 0)
    for number in range(N_DRAWS):
        counts[tuple(map(int, draw(weights, n, tree=number, **key)))] += 1
    observed = np.array(list(counts.values()), float)
    means = N_DRAWS * np.array(list(expected.values()))
    rare = means < 10  # sequences that are seen too seldom for a normal law are counted together
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        means = np.append(means[~rare], means[rare].sum())
    if means[-1] < 10:  # what is as good as impossible
        assert stats.poisson.sf(observed[-1] - 1, means[-1]) > ERROR
        observed, means = observed[:-1], means[:-1]
    if len(means) > 1:
        means *= observed.sum() / means.sum()
        assert stats.chisquare(observed, means).pvalue > ERROR


@pytest.mark.parametrize(
    ("weights", "n"),
    [
        ([1, 2, 3, 4, 5], 2),
        ([1, 2, 3, 4, 5], 3),
        ([1, 1, 1, 1], 3),
        ([4, 1, 1, 1, 1, 1, 1], 1),
        ([0, 3, 0, 1, 2], 2),
        ([10, 1, 1, 1, 0], 3),
        ([1e300, 2e300, 1e300], 2),
        ([1e-300, 2e-300, 1e-300], 2),
        ([7], 1),
    ],
)
def test_sequences_are_those_of_successive_draws(weights, n):
    check_law(weights, n)


@pytest.mark.parametrize("least", [1e-3, 1e-9, 1e-200])
def test_the_race_has_the_same_law(least):
    """One feature has nearly all weight: it is drawn again and again, and the others race."""
    check_law([1.0, least, 2 * least, 3 * least], 3, seed=1)


def test_a_floor_under_a_few_features_keeps_the_law():
    """First come those of the prior, then the race of what the floor gives to each."""
    weights = np.full(6, 0.05 / 6)
    weights[:2] += 0.95 / 2
    check_law(weights, 4)


@pytest.mark.parametrize("n_heavy", [0, 5])
def test_inclusion_of_many_features_follows_their_weights(n_heavy):
    """Features of equal weight are drawn equally often; the heavy ones are always there."""
    n_features, n, n_draws = 300, 20, 4000
    weights = np.ones(n_features)
    weights[:n_heavy] = 1e12
    counts = np.zeros(n_features)
    for number in range(n_draws):
        found = draw(weights, n, seed=2, node=number)
        assert len(np.unique(found)) == n
        counts[found] += 1
    # A heavy feature is missing from a draw with a probability below 300 / 1e12.
    assert (counts[:n_heavy] == n_draws).all()
    light = counts[n_heavy:]
    part = (n - n_heavy) / len(light)
    # Of draws without replacement, whose sum is fixed: (m - 1) / m of the variances of binomials.
    spread = light.var() / (n_draws * part * (1 - part))
    degrees = len(light) - 1
    assert stats.chi2.ppf(ERROR, degrees) < spread * degrees < stats.chi2.isf(ERROR, degrees)


def test_neighbouring_nodes_and_trees_draw_independently():
    counts = {key: np.zeros((5, 5)) for key in ("node", "tree")}
    for number in range(N_DRAWS):
        for key, table in counts.items():
            one, other = (draw([1] * 5, 1, **{key: 2 * number + i})[0] for i in range(2))
            table[one, other] += 1
    for table in counts.values():
        assert stats.chi2_contingency(table).pvalue > ERROR


@given(
    weights=st.lists(st.sampled_from([0.0, 1e-12, 0.5, 3.0]), min_size=1, max_size=40).filter(any),
    n=st.integers(1, 50),
    seed=st.integers(0, 2**40),
)
def test_features_are_there_once_and_never_of_weight_0(weights, n, seed):
    found = draw(weights, n, seed=seed)
    drawable = np.flatnonzero(weights)
    assert len(found) == min(n, len(drawable))
    assert len(np.unique(found)) == len(found)
    assert np.isin(found, drawable).all()


def test_scaled_weights_draw_the_same():
    weights = np.random.default_rng(0).exponential(size=50)
    for seed in range(100):
        np.testing.assert_array_equal(draw(weights, 9, seed), draw(weights * 2.0**70, 9, seed))


@pytest.mark.parametrize("weights", [[1, -1], [1, np.nan], [0, 0], [np.inf, 1], [1e308, 1e308]])
def test_weights_that_no_law_follows_from_are_refused(weights):
    with pytest.raises(ValueError, match="feature_weights"):
        draw(weights, 1)
