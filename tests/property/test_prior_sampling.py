# SPDX-License-Identifier: Apache-2.0
"""Features that XGBoost draws under PriorFeatureSampling follow the prior.

Expected frequencies are exact, by listing all draws. Seeds are fixed; a test fails if the
chi-square statistic would be exceeded with a probability below 1e-7 if it holds.
"""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
import scipy.stats
import xgboost
from model_documents import trees

from mtboost.xgboost import PriorFeatureSampling, TaskSplit
from mtboost.xgboost.callbacks import InOrder

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

FALSE_ALARM = 1e-7
N_TREES = 750
N_FEATURES = 5
# All combinations of binary columns, the label a sum in which a column weighs the more the lower
# its number: of the columns drawn, the first is cut.
X = np.array(list(product([0.0, 1.0], repeat=N_FEATURES)))
Y = X @ [16.0, 8.0, 4.0, 2.0, 1.0]
Y -= Y.mean()
PRIOR = np.array([1.0, 2.0, 3.0, 5.0, 9.0])


def columns_cut(sampling, n_drawn, *, before=(), n_trees=N_TREES, X=X, **params):
    """Column of each of many stumps, all grown on the same gradients."""
    booster = xgboost.train(
        {
            "max_depth": 1,
            "lambda": 0,
            "base_score": 0,
            "colsample_bynode": (n_drawn + 0.5) / N_FEATURES,
            **params,
        },
        xgboost.DMatrix(X, Y),
        n_trees,
        obj=lambda margins, matrix: (-Y, np.ones_like(Y)),
        callbacks=[InOrder([*before, sampling])],
    )
    return [int(tree["split_indices"][0]) for tree in trees(booster)]


def law_of_cuts(shares, n_drawn):
    """Probability that each column is the first of those drawn, one after another."""
    law = np.zeros(N_FEATURES)
    for order in permutations(range(N_FEATURES), n_drawn):
        left, p = 1.0, 1.0
        for column in order:
            p *= shares[column] / left
            left -= shares[column]
        law[min(order)] += p
    return law


def assert_follows(columns, law):
    """Pearson's chi-square of the counts; columns of probability 0 must not occur."""
    counts = np.bincount(columns, minlength=len(law))
    expected = len(columns) * law
    assert expected.sum() == pytest.approx(len(columns))
    possible = law > 0
    assert (counts[~possible] == 0).all()
    assert (expected[possible] > 5).all()
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert statistic < scipy.stats.chi2.isf(FALSE_ALARM, possible.sum() - 1)


@pytest.mark.parametrize("n_drawn", [1, 2, 3])
@pytest.mark.parametrize("floor", [0.0, 0.05, 0.5, 1.0])
def test_features_are_drawn_one_after_another_by_prior_and_floor(n_drawn, floor):
    found = columns_cut(PriorFeatureSampling(PRIOR, floor=floor), n_drawn)
    shares = (1 - floor) * PRIOR / 20 + floor / 5
    assert_follows(found, law_of_cuts(shares, n_drawn))


@pytest.mark.parametrize(
    "params", [{"tree_method": "approx"}, {"grow_policy": "lossguide", "max_leaves": 2}]
)
def test_the_law_is_the_same_however_trees_grow(params):
    found = columns_cut(PriorFeatureSampling(PRIOR, floor=0), 2, **params)
    assert_follows(found, law_of_cuts(PRIOR / 20, 2))


def test_the_law_holds_in_the_trees_of_task_split():
    split = TaskSplit(np.arange(len(Y)) % 2, split_score="plain")
    found = columns_cut(PriorFeatureSampling(PRIOR, floor=0), 2, before=[split])
    assert_follows(found, law_of_cuts(PRIOR / 20, 2))


def test_a_tiny_prior_is_as_good_as_a_large_one():
    # XGBoost lifts weights to 1e-6, below which it would draw evenly.
    found = columns_cut(PriorFeatureSampling(PRIOR * 1e-12, floor=0), 1)
    assert_follows(found, PRIOR / 20)


def test_without_a_floor_useless_features_are_left_to_the_last():
    prior = np.array([0.0, 0.0, 1.0, 3.0, 0.0])
    assert_follows(columns_cut(PriorFeatureSampling(prior, floor=0), 1), prior / 4)
    found = columns_cut(PriorFeatureSampling(prior, floor=0), 3)
    # Columns 2 and 3 are always drawn, and one of the three others, each equally often.
    assert_follows(found, np.array([1 / 3, 1 / 3, 1 / 3, 0, 0]))


def test_columns_that_a_prior_does_not_name_have_their_share():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=list("abcde"))
    found = columns_cut(PriorFeatureSampling({"b": 1, "d": 3}, floor=0), 1, X=table)
    assert_follows(found, np.array([1 / 5, 1 / 4 * 2 / 5, 1 / 5, 3 / 4 * 2 / 5, 1 / 5]))


def test_dynamic_weights_follow_the_gains_so_far():
    """Given the rounds before, counts minus expectations are a martingale."""
    n_trees, prior_rounds = 1500, 400.0
    found = columns_cut(
        PriorFeatureSampling(PRIOR, dynamic=True, prior_rounds=prior_rounds, floor=0.1),
        1,
        n_trees=n_trees,
    )
    gain = np.array([16.0, 8.0, 4.0, 2.0, 1.0]) ** 2  # of a cut, up to a factor
    gains = np.zeros(N_FEATURES)
    surplus, variance = np.zeros(N_FEATURES), np.zeros(N_FEATURES)
    for n_rounds, column in enumerate(found):
        parts = gains / gains.sum() if n_rounds else PRIOR / 20
        shares = (prior_rounds * PRIOR / 20 + n_rounds * parts) / (prior_rounds + n_rounds)
        p = 0.9 * shares + 0.1 / 5
        surplus += (np.arange(N_FEATURES) == column) - p
        variance += p * (1 - p)
        gains[column] += gain[column]
    # Normal approximation: 5.6 standard errors have probability 2e-8, times five columns.
    assert (np.abs(surplus) < 5.6 * np.sqrt(variance)).all()
    # Without the gains the surplus of the column that gains most would be far from 0.
    constant = n_trees * (0.9 * PRIOR / 20 + 0.1 / 5)
    counts = np.bincount(found, minlength=N_FEATURES)
    assert counts[0] - constant[0] > 10 * np.sqrt(constant[0])


def test_each_node_draws_anew():
    """The children of a root cut independent draws, by the same weights."""
    prior = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    booster = xgboost.train(
        {
            "max_depth": 2,
            "lambda": 0,
            "base_score": 0,
            "colsample_bynode": 1.5 / N_FEATURES,
            "min_child_weight": 0,
        },
        xgboost.DMatrix(X, Y),
        N_TREES,
        obj=lambda margins, matrix: (-Y, np.ones_like(Y)),
        callbacks=[PriorFeatureSampling(prior, floor=0)],
    )
    pairs = Counter()
    for tree in trees(booster):
        left, right = tree["left_children"][0], tree["right_children"][0]
        if tree["left_children"][left] > 0 and tree["left_children"][right] > 0:
            columns = [tree["split_indices"][node] for node in (left, right)]
            assert 4 not in columns
            pairs[columns[0] == columns[1]] += 1
    # Each child draws one of the three columns that the root leaves; a draw of the root's own
    # column is a leaf, and its tree is not counted.
    n = pairs.total()
    assert n > N_TREES / 4
    assert abs(pairs[True] - n / 3) < 5.4 * np.sqrt(n * 2 / 9)  # probability 7e-8
