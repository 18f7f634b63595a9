# SPDX-License-Identifier: Apache-2.0
"""Sampled rows and columns follow XGBoost's distribution, not its actual draws.

Expected frequencies are exact, by listing all draws. A test fails if the chi-square statistic of
the seeds used here would be exceeded with a probability below 1e-7 if it holds.
"""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
import scipy.stats
import xgboost
from model_documents import trees

from mtboost.xgboost import TaskSplit

FALSE_ALARM = 1e-7
N_TREES = 1500
N_FEATURES = 4
# All combinations of four binary columns, the label a sum in which column 0 weighs most: in every
# node the gain of a column that is still free is the larger the lower its number.
X = np.array(list(product([0.0, 1.0], repeat=N_FEATURES)))
Y = X @ [8.0, 4.0, 2.0, 1.0]
Y -= Y.mean()


def grow(params, *, stock=False, score="plain", X=X, y=Y, n_trees=N_TREES, **matrix_options):
    """Trees that all answer the same gradients, so that only the draws differ."""
    matrix = xgboost.DMatrix(X, y, nthread=1, **matrix_options)
    split = [] if stock else [TaskSplit(np.arange(len(y)) % 2, split_score=score)]
    params = {"nthread": 1, "max_depth": 2, "lambda": 0, "base_score": 0, **params}
    booster = xgboost.train(
        params, matrix, n_trees, obj=lambda p, d: (-y, np.ones_like(y)), callbacks=split
    )
    return trees(booster)


def assert_follows(found, law):
    """Pearson's chi-square of the counts of outcomes against their exact probabilities."""
    n = sum(found.values())
    assert sum(law.values()) == pytest.approx(1)
    impossible = set(found) - {outcome for outcome, p in law.items() if p > 0}
    assert not impossible
    # Outcomes expected less than five times are counted together.
    rare = {outcome for outcome, p in law.items() if n * p < 5}
    cells = [(found[outcome], n * p) for outcome, p in law.items() if outcome not in rare]
    if rare:
        cells.append(
            (sum(found[outcome] for outcome in rare), n * sum(law[outcome] for outcome in rare))
        )
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells if expected)
    assert statistic < scipy.stats.chi2.isf(FALSE_ALARM, len(cells) - 1)


# ---- columns --------------------------------------------------------------------------------


def draws(columns, fraction, weights):
    """Every set of max(1, floor(fraction n)) columns drawn one after another, with its probability.

    Without replacement, each time in proportion to the weights of those left; columns of weight
    zero come last, in any order.
    """
    n = len(columns) if fraction >= 1 else max(1, int(fraction * len(columns)))
    law = Counter()
    for order in permutations(columns, n):
        p = 1.0
        for n_drawn, column in enumerate(order):
            left = set(columns) - set(order[:n_drawn])
            total = sum(weights[other] for other in left)
            p *= weights[column] / total if total > 0 else 1 / len(left)
        law[frozenset(order)] += p
    return {drawn: p for drawn, p in law.items() if p > 0}


def split_law(bytree=1.0, bylevel=1.0, bynode=1.0, weights=(1.0,) * N_FEATURES):
    """Law of (column of the root, of its left child, of its right child); None is a leaf."""
    law = Counter()
    for of_tree, p_tree in draws(range(N_FEATURES), bytree, weights).items():
        for first, second in product(draws(sorted(of_tree), bylevel, weights).items(), repeat=2):
            nodes = (
                draws(sorted(first[0]), bynode, weights).items(),
                draws(sorted(second[0]), bynode, weights).items(),
                draws(sorted(second[0]), bynode, weights).items(),
            )
            for (root, p_root), (left, p_left), (right, p_right) in product(*nodes):
                used = min(root)
                below = [min(drawn - {used}, default=None) for drawn in (left, right)]
                p = p_tree * first[1] * second[1] * p_root * p_left * p_right
                law[(used, *below)] += p
    return law


def columns_of_splits(tree):
    feature, left, right = (tree["split_indices"], tree["left_children"], tree["right_children"])
    return tuple(feature[node] if left[node] >= 0 else None for node in (0, left[0], right[0]))


COLUMNS = {
    "bytree": {"bytree": 0.5},
    "bytree, rounded down": {"bytree": 0.74},
    "bytree, at least one": {"bytree": 0.1},
    "bylevel": {"bylevel": 0.5},
    "bynode": {"bynode": 0.5},
    "bynode, at least one": {"bynode": 0.2},
    "all three": {"bytree": 0.75, "bylevel": 0.7, "bynode": 0.5},
    "weighted bytree": {"bytree": 0.5, "weights": (1.0, 2.0, 4.0, 1.0)},
    "weighted bynode": {"bynode": 0.5, "weights": (0.1, 0.2, 0.3, 0.4)},
    "weight zero": {"bynode": 0.3, "weights": (0.0, 1.0, 0.0, 3.0)},
}


@pytest.mark.parametrize("stock", [False, True], ids=["mtboost", "xgboost"])
@pytest.mark.parametrize("options", COLUMNS.values(), ids=COLUMNS)
def test_columns_are_drawn_without_replacement(options, stock):
    params = {f"colsample_{how}": options.get(how, 1.0) for how in ("bytree", "bylevel", "bynode")}
    weights = options.get("weights")
    matrix_options = {} if weights is None else {"feature_weights": weights}
    found = Counter(columns_of_splits(tree) for tree in grow(params, stock=stock, **matrix_options))
    assert_follows(found, split_law(**options))


def test_the_distribution_distinguishes_the_kinds_of_draws():
    one, other = (split_law(**{how: 0.5}) for how in ("bylevel", "bynode"))
    found = Counter(
        columns_of_splits(tree) for tree in grow({"colsample_bynode": 0.5}, n_trees=N_TREES)
    )
    assert_follows(found, other)
    with pytest.raises(AssertionError):
        assert_follows(found, one)


def test_a_tree_of_another_seed_or_round_draws_anew_and_of_the_same_draws_the_same():
    params = {"colsample_bytree": 0.5, "colsample_bynode": 0.5, "subsample": 0.7}
    first = grow({**params, "seed": 1}, n_trees=30)
    assert grow({**params, "seed": 1}, n_trees=30) == first
    assert grow({**params, "seed": 1, "nthread": 3}, n_trees=30) == first
    other = grow({**params, "seed": 2}, n_trees=30)
    assert [tree["split_indices"] for tree in other] != [tree["split_indices"] for tree in first]
    assert len({tuple(tree["split_indices"]) for tree in first}) > 1


# ---- rows -----------------------------------------------------------------------------------

N_ROWS = 32


@pytest.mark.parametrize("score", ["plain", "entropy"])
@pytest.mark.parametrize("p", [0.3, 0.8])
def test_the_number_of_rows_of_a_tree_is_binomial(p, score):
    # Not so in XGBoost 3.2, whose first rows of a tree are kept too often: of 32 rows it keeps
    # 34 % at subsample=0.3, of 1000 rows 30.2 %.
    rows = np.zeros((N_ROWS, 1))
    grown = grow({"subsample": p}, X=rows, y=np.zeros(N_ROWS), score=score)
    found = Counter(round(tree["sum_hessian"][0]) for tree in grown)
    law = scipy.stats.binom(N_ROWS, p)
    assert_follows(found, {n: law.pmf(n) for n in range(N_ROWS + 1)})


@pytest.mark.parametrize("score", ["plain", "entropy"])
def test_each_row_is_kept_with_the_same_probability_whatever_the_others(score):
    # The gradient of row k has bit k, so that the sum over a tree's rows tells which they were.
    n_rows = 10
    bits = 2.0 ** np.arange(n_rows)
    grown = grow({"subsample": 0.4}, X=np.zeros((n_rows, 1)), y=bits, score=score)
    kept = []
    for tree in grown:
        weight, n_kept = tree["base_weights"][0], tree["sum_hessian"][0]
        kept.append(round(weight * n_kept) if n_kept else 0)
    masks = (np.array(kept)[:, None] >> np.arange(n_rows)) & 1
    law = {0: 0.6, 1: 0.4}
    for row in range(n_rows):
        assert_follows(Counter(masks[:, row].tolist()), law)
        other = (row + 1) % n_rows
        pairs = Counter(zip(masks[:, row].tolist(), masks[:, other].tolist(), strict=True))
        assert_follows(pairs, {(a, b): law[a] * law[b] for a, b in product(law, repeat=2)})
    following = Counter(zip(masks[:-1, 0].tolist(), masks[1:, 0].tolist(), strict=True))
    assert_follows(following, {(a, b): law[a] * law[b] for a, b in product(law, repeat=2)})
