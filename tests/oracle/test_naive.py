# SPDX-License-Identifier: Apache-2.0
"""What the naive twin does beyond XGBoost: task scores, and features that a node may not use.

Gradients are small integers wherever a number is worked out, so that every sum is exact.
"""

from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from numpy.testing import assert_array_equal
from oracle.naive import (
    Cuts,
    Ints,
    Params,
    Score,
    Tree,
    bin_matrix,
    entropy,
    grow_tree,
    plain,
    read_cuts,
    variance,
)

f32 = np.float32


def binned(X: Any, feature_types: list[str] | None = None) -> tuple[Ints, list[Cuts]]:
    X = np.asarray(X, dtype=f32)
    data = xgb.QuantileDMatrix(
        X,
        max_bin=32,
        nthread=1,
        feature_types=feature_types,
        enable_categorical=feature_types is not None,
    )
    cuts = read_cuts(data)
    return bin_matrix(X, cuts), cuts


def grow(X: Any, gradient: Any, params: Params, **options: Any) -> Tree:
    bins, cuts = binned(X, options.pop("feature_types", None))
    gradient = np.asarray(gradient, dtype=f32)
    return grow_tree(bins, cuts, gradient, np.ones_like(gradient), params, **options)


def task_gain(gradient: Any, goes_left: Any, reg_lambda: float, reg_alpha: float) -> np.float32:
    """s^t from the rows of one task whose hessians are 1, in float32."""

    def gain(g: np.ndarray) -> np.float32:
        if len(g) == 0:
            return f32(0)
        G = float(g.sum())
        G = np.sign(G) * max(abs(G) - reg_alpha, 0.0)
        return f32(G * G) / f32(len(g) + reg_lambda)

    gradient, goes_left = np.asarray(gradient), np.asarray(goes_left)
    return (gain(gradient[goes_left]) + gain(gradient[~goes_left])) - gain(gradient)


# The scores themselves ------------------------------------------------------------------------


def test_entropy_of_two_equal_gains_is_ln_2() -> None:
    assert entropy(5.0, np.array([3.0, 3.0])) == pytest.approx(5 * np.log(2), rel=1e-15)


def test_entropy_counts_only_positive_gains() -> None:
    expected = 7 * -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    # One rounding for each of the few operations.
    assert entropy(7.0, np.array([3.0, -2.0, 1.0, 0.0])) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("task_gains", [[4.0], [4.0, 0.0], [-1.0, 4.0, -0.0], [-1.0, -2.0], [0.0]])
def test_entropy_is_exactly_0_with_at_most_one_positive_gain(task_gains: list[float]) -> None:
    assert entropy(7.0, np.array(task_gains)) == 0.0


def test_variance_is_that_of_a_sample() -> None:
    assert variance(0.5)(9.0, np.array([1.0, 2.0, 6.0])) == 9 - 0.5 * (4 + 1 + 9) / 2


def test_variance_of_one_task_costs_nothing() -> None:
    assert variance(0.5)(9.0, np.array([6.0])) == 9.0


# Scores in a tree -----------------------------------------------------------------------------

POLICIES: list[dict[str, Any]] = [
    {"max_depth": 5},
    {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0},
]


@pytest.mark.parametrize("settings", POLICIES)
@pytest.mark.parametrize("score", [entropy, variance(2.0)])
def test_every_score_with_one_task_grows_the_plain_tree(
    score: Score, settings: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    gradient = rng.normal(size=300)
    scored = grow(X, gradient, Params(**settings), task=np.zeros(300, dtype=int), score=score)
    pooled = grow(X, gradient, Params(**settings))
    for name in Tree.__slots__:
        if name not in ("score", "categories"):
            assert_array_equal(getattr(scored, name), getattr(pooled, name), err_msg=name)
    assert_array_equal(pooled.score, pooled.gain)


# Feature 0 helps task 0 alone, feature 1 helps both tasks, yet less in sum.
TWO_TASKS_X = np.array([[a, b] for _ in range(2) for a in (0, 1) for b in (0, 1)]).repeat(5, axis=0)
TWO_TASKS = np.repeat([0, 1], 20)
TWO_TASKS_GRADIENT = np.where(
    TWO_TASKS == 0, 9 * (2 * TWO_TASKS_X[:, 0] - 1) + 2 * (2 * TWO_TASKS_X[:, 1] - 1), 0
) + np.where(TWO_TASKS == 1, 2 * (2 * TWO_TASKS_X[:, 1] - 1), 0)


@pytest.mark.parametrize(("score", "feature"), [(plain, 0), (entropy, 1), (variance(0.01), 1)])
def test_cut_that_helps_both_tasks_beats_a_larger_gain(score: Score, feature: int) -> None:
    tree = grow(TWO_TASKS_X, TWO_TASKS_GRADIENT, Params(max_depth=1), task=TWO_TASKS, score=score)
    assert tree.feature[0] == feature


def test_where_no_cut_helps_two_tasks_the_larger_gain_wins() -> None:
    only_first = np.where(TWO_TASKS == 0, TWO_TASKS_GRADIENT, 0)
    options = {"task": TWO_TASKS, "score": entropy}
    tree = grow(TWO_TASKS_X, only_first, Params(max_depth=1), **options)
    assert tree.feature[0] == 0
    assert tree.score[0] == 0.0


TABLES: dict[str, dict[str, Any]] = {
    "numerical": {},
    "missing": {"missing": 0.3},
    "one_hot": {"n_categories": 4, "missing": 0.3, "max_cat_to_onehot": 10},
    "partition": {"n_categories": 8, "missing": 0.3},
    "alpha": {"missing": 0.3, "reg_alpha": 3.0},
    "max_delta_step": {"missing": 0.3, "max_delta_step": 0.05},
    "monotone": {"monotone_constraints": (-1,)},
}


@pytest.mark.parametrize("name", TABLES)
def test_task_gains_are_those_of_the_rows_on_both_sides(name: str) -> None:
    settings = dict(TABLES[name])
    missing, n_categories = settings.pop("missing", 0.0), settings.pop("n_categories", None)
    rng = np.random.default_rng(list(name.encode()))
    x = rng.normal(size=200) if n_categories is None else rng.integers(0, n_categories, 200)
    x = np.where(rng.random(200) < missing, np.nan, x)
    gradient, task = rng.integers(-3, 4, 200) + np.nan_to_num(x).round(), rng.integers(0, 3, 200)
    params = Params(max_depth=1, reg_lambda=0.5, arithmetic="xgboost-3.0", **settings)
    seen = []

    def spy(s: float, task_gains: np.ndarray) -> float:
        seen.append((s, task_gains))
        return s

    types = None if n_categories is None else ["c"]
    tree = grow(x[:, np.newaxis], gradient, params, task=task, score=spy, feature_types=types)
    goes_left = tree.leaf_of_row == tree.left[0]
    expected = [
        task_gain(gradient[task == t], goes_left[task == t], params.reg_lambda, params.reg_alpha)
        for t in range(3)
    ]
    chosen = next(task_gains for s, task_gains in seen if s == tree.gain[0])
    assert_array_equal(chosen, np.array(expected, dtype=float))


def test_task_sums_come_from_rows_where_pooled_sums_are_a_difference() -> None:
    # The right child's pooled sums are what remains of 1e13 and have lost their last bits.
    rng = np.random.default_rng(4)
    X = np.column_stack([np.arange(200) >= 100, rng.normal(size=200)])
    small = rng.integers(-(2**20), 2**20, 200) / 2**20  # sums of these are exact
    gradient = np.where(X[:, 0], small, f32(1e11))
    seen = []

    def spy(s: float, task_gains: np.ndarray) -> float:
        seen.append((s, task_gains))
        return s

    tree = grow(X, gradient, Params(max_depth=2), task=np.zeros(200, dtype=int), score=spy)
    right = X[:, 0] == 1
    goes_left = tree.leaf_of_row[right] == tree.left[2]
    expected = task_gain(gradient[right], goes_left, 1.0, 0.0)
    (chosen,) = (task_gains for s, task_gains in seen if s == tree.gain[2])
    assert chosen.tolist() == [expected]
    assert tree.gain[2] != expected


def test_score_sees_only_the_tasks_with_a_row_in_the_node() -> None:
    n_tasks_seen = []

    def spy(s: float, task_gains: np.ndarray) -> float:
        n_tasks_seen.append(len(task_gains))
        return s

    # The root parts task 0 from tasks 1 and 2; further cuts are possible on both sides.
    X = np.arange(60.0)[:, np.newaxis]
    task = np.repeat([0, 1, 2], 20)
    gradient = np.where(task == 0, -9, 9) + np.arange(60) % 3
    tree = grow(X, gradient, Params(max_depth=2, reg_lambda=0.0), task=task, score=spy)
    assert tree.threshold[0] == 20.0
    assert set(n_tasks_seen) == {1, 2, 3}


@pytest.mark.parametrize(("score", "split"), [(plain, 1), (entropy, 2)])
def test_loss_guided_growth_splits_the_leaf_with_the_best_score(score: Score, split: int) -> None:
    # Left of the root feature 1 helps task 0 much, right of it both tasks a little.
    X = np.array([[a, b] for a in (0, 1) for b in (0, 1) for _ in range(20)])
    task = np.arange(80) % 2
    signs = 2 * X[:, 1] - 1
    gradient = np.where(X[:, 0] == 0, -40, 40) + signs * np.where(X[:, 0] == 0, 9 * (task == 0), 2)
    params = Params(grow_policy="lossguide", max_leaves=3, reg_lambda=0.0)

    def root_by_gain(s: float, task_gains: np.ndarray) -> float:
        # The root's cut gains far more than any other and is taken whatever the score says.
        return 1e6 if s > 1e5 else score(s, task_gains)

    tree = grow(X, gradient, params, task=task, score=root_by_gain)
    assert tree.feature[0] == 0
    assert tree.left[split] != -1


# Allowed features -----------------------------------------------------------------------------


def test_node_uses_only_the_features_it_is_allowed() -> None:
    rng = np.random.default_rng(1)
    X, gradient = rng.normal(size=(300, 4)), rng.normal(size=300)
    tree = grow(X, gradient, Params(), allowed_features=lambda node: [node % 4])
    inner = np.flatnonzero(tree.left >= 0)
    assert len(inner) > 5
    assert_array_equal(tree.feature[inner], inner % 4)


def test_allowed_features_and_interaction_constraints_both_hold() -> None:
    rng = np.random.default_rng(1)
    X, gradient = rng.normal(size=(300, 4)), rng.normal(size=300)
    params = Params(interaction_constraints=((0, 1), (0, 2)))
    tree = grow(X, gradient, params, allowed_features=lambda node: [0, 3] if node == 0 else [2, 3])
    assert set(tree.feature[tree.left >= 0]) in ({0, 2}, {3})
