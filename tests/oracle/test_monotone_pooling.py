# SPDX-License-Identifier: Apache-2.0
"""Monotone and interaction constraints with partially pooled leaves, by brute force on grids."""

import numpy as np
import pytest

import mtboost
from mtboost.trees.monotone import leaf_bounds
from mtboost.trees.pooled_leaves import pool_leaves

N_TASKS, SIGNS = 6, (1, -1, 0)
FAST = {"strategy": "two-stage", "num_boost_round": 25, "specific_rounds": 5, "n_threads": 1}


def rows(n_rows=900, seed=0):
    """Tasks whose slopes have the sign of the constraint in half of the cases."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 3))
    X[rng.random(X.shape) < 0.05] = np.nan
    task = np.arange(n_rows) % N_TASKS
    slope = np.array([1.0, -1.0, 2.0, -2.0, 0.5, 1.5])[task]
    filled = np.nan_to_num(X, nan=0.5)
    y = slope * filled[:, 0] - slope[::-1] * filled[:, 1] + np.sin(9 * filled[:, 2])
    return X, y + 0.2 * rng.normal(size=n_rows), task


def fitted(library, seed=0, **options):
    X, y, task = rows(seed=seed)
    params = options.pop("params", {"monotone_constraints": SIGNS})
    options = {**FAST, "split_score": "plain", "pooling": 3.0, **options}
    return mtboost.fit(X, y, task=task, backend=library.name, params=params, **options)


def largest_fall(model, names, signs=SIGNS, **options):
    """The most that a prediction changes against its constraint, along lines through rows."""
    X, _, _ = rows(25, seed=9)
    grid = np.linspace(-0.1, 1.1, 60)
    worst = 0.0
    for column, sign in enumerate(signs):
        lines = np.repeat(X, len(grid), axis=0)
        lines[:, column] = np.tile(grid, len(X))
        for name in names if sign else ():
            labels = np.empty(len(lines), object)
            labels[:] = [name] * len(lines)
            found = model.predict_margin(lines, task=labels.tolist(), **options)
            steps = sign * np.diff(found.astype(float).reshape(len(X), len(grid)))
            worst = max(worst, -steps.min())
    return worst


@pytest.mark.parametrize("pooling", [0.0, 3.0, "auto"])
def test_predictions_of_each_task_keep_monotone_constraints(library, pooling):
    model = fitted(library, pooling=pooling)
    assert model.common_trees.pooled.has_values
    values = [own for own in model.common_trees.pooled.values if len(own.leaf)]
    assert values
    # Margins are sums of rounded values: each tree may lose one float32 of 1.
    assert largest_fall(model, range(N_TASKS)) < 30 * 1e-7
    assert largest_fall(model, [99], unknown_task="common") < 30 * 1e-7
    free = fitted(library, pooling=pooling, params={})
    assert largest_fall(free, range(N_TASKS)) > 0.05


@pytest.mark.parametrize(
    ("backend", "objective"),
    [
        ("xgboost", "count:poisson"),
        ("lightgbm", "poisson"),
        ("xgboost", "reg:absoluteerror"),  # LightGBM itself refuses constraints with its l1
    ],
)
def test_other_losses_keep_monotone_constraints(backend, objective):
    X, y, task = rows()
    model = mtboost.fit(
        X,
        np.round(np.exp(y / 2)),
        task=task,
        objective=objective,
        backend=backend,
        split_score="plain",
        pooling=1.0,
        params={"monotone_constraints": SIGNS},
        **{**FAST, "specific_rounds": 0},  # trees of XGBoost's own break them for medians
    )
    assert largest_fall(model, range(N_TASKS)) < 30 * 1e-6


def test_nested_tasks_and_their_groups_keep_monotone_constraints(library):
    X, y, task = rows()
    names = [("north" if code < 3 else "south", f"t{code}") for code in range(N_TASKS)]
    model = mtboost.fit(
        X,
        y,
        task=[names[code] for code in task],
        backend=library.name,
        split_score="plain",
        pooling=(2.0, 2.0),
        params={"monotone_constraints": SIGNS},
        **FAST,
    )
    unknown = [("north", "z"), ("west", "z")]
    assert largest_fall(model, [*names, *unknown], unknown_task="common") < 30 * 1e-7


@pytest.mark.parametrize("signs", [SIGNS, "(1,-1,0)"])
def test_a_task_that_joins_keeps_monotone_constraints(library, signs):
    if library.name == "lightgbm" and isinstance(signs, str):
        signs = signs.strip("()")
    model = fitted(library, params={"monotone_constraints": signs})
    rng = np.random.default_rng(1)
    X = rng.random((300, 3))
    y = 3 * (X[:, 1] - X[:, 0])  # against both
    without = {"specific_rounds": 0, "n_threads": 1}
    model.add_task(77, X, y, **without)
    assert any((own.task == N_TASKS).any() for own in model.common_trees.pooled.values)
    assert largest_fall(model, [77]) < 30 * 1e-7
    free = fitted(library, params={})
    free.add_task(77, X, y, **without)
    assert largest_fall(free, [77]) > 0.05


def test_more_rounds_and_the_search_pool_leaves_with_monotone_constraints(library):
    X, y, task = rows(seed=2)
    model = fitted(library, pooling=None).update(
        X, y, task=task, rounds=10, pooling=2.0, validation_fraction=0.0, n_threads=1
    )
    assert any(len(own.leaf) for own in model.common_trees.pooled.values)
    assert largest_fall(model, range(N_TASKS)) < 30 * 1e-6
    small = {"monotone_constraints": SIGNS, "learning_rate": 0.2}
    searched = mtboost.fit(
        *rows()[:2],
        task=task,
        backend=library.name,
        effort="fast",
        params=small,
        num_boost_round=15,
        validation_fraction=0.25,
        n_threads=1,
    )
    assert any("pooling" in name for name in searched.common_losses)
    assert largest_fall(searched, range(N_TASKS)) < 30 * 1e-6


def test_paths_of_each_task_keep_interaction_constraints(library):
    params = {"interaction_constraints": "[[0, 1], [2]]", "max_depth": 4}
    model = fitted(library, params=params)
    free = fitted(library, params={"max_depth": 4})
    X, _, _ = rows(40, seed=3)
    high, low = X.copy(), X.copy()
    high[:, 2], low[:, 2] = 0.9, 0.1  # its effect does not depend on the other two columns
    for code in range(N_TASKS):
        effects = [
            np.ptp(each.predict_margin({code: high})[code] - each.predict_margin({code: low})[code])
            for each in (model, free)
        ]
        assert effects[0] < 1e-5 < effects[1]


# ---- bounds -------------------------------------------------------------------------------------


def drawn_tree(rng):
    """Children, features and values of a random tree, whose leaves keep the constraints or not."""
    left, right, feature = [-1], [-1], [0]
    for _ in range(rng.integers(0, 12)):
        leaves = [node for node, child in enumerate(left) if child < 0]
        node = int(rng.choice(leaves))
        left[node], right[node] = len(left), len(left) + 1
        feature[node] = int(rng.integers(4))
        left += [-1, -1]
        right += [-1, -1]
        feature += [0, 0]
    return np.array(left), np.array(right), np.array(feature), rng.normal(size=len(left))


def leaves_below(left, right, node):
    if left[node] < 0:
        return [node]
    return leaves_below(left, right, left[node]) + leaves_below(left, right, right[node])


def test_any_values_within_the_bounds_keep_the_constraints():
    rng = np.random.default_rng(0)
    signs, n_constrained = (1, -1, 0), 0
    for _ in range(200):
        left, right, feature, value = drawn_tree(rng)
        low, high = leaf_bounds(left, right, feature, value, signs)
        is_leaf = left < 0
        own = np.clip(value + 3 * rng.normal(size=len(value)), low, high)
        for node in np.flatnonzero(~is_leaf):
            sign = signs[feature[node]] if feature[node] < 3 else 0
            if sign:
                sides = [leaves_below(left, right, child[node]) for child in (left, right)]
                lower, upper = sides[::sign]
                n_constrained += 1
                assert own[lower].max() <= own[upper].min()
    assert n_constrained > 200


def test_values_that_keep_the_constraints_are_within_the_bounds():
    # Of one column: leaves from left to right have thresholds in this order.
    left, right = np.array([1, -1, 3, -1, -1]), np.array([2, -1, 4, -1, -1])
    feature, value = np.array([0, 0, 0, 0, 0]), np.array([0.0, 1.0, 0.0, 2.0, 6.0])
    low, high = leaf_bounds(left, right, feature, value, (1,))
    np.testing.assert_array_equal(low[[1, 3, 4]], [-np.inf, (1 + 2) / 2, (2 + 6) / 2])
    np.testing.assert_array_equal(high[[1, 3, 4]], [(1 + 2) / 2, (2 + 6) / 2, np.inf])
    falling = leaf_bounds(left, right, feature, -value, (-1,))
    np.testing.assert_array_equal(falling[0][[1, 3, 4]], -high[[1, 3, 4]])
    for signs in ((0,), ()):
        low, high = leaf_bounds(left, right, feature, value, signs)
        assert np.isinf([*low, *high]).all()


def test_values_are_those_of_the_formula_as_far_as_the_bounds_go():
    rng = np.random.default_rng(1)
    leaves = rng.integers(0, 4, 200).astype(np.int32)
    codes = rng.integers(0, 3, 200).astype(np.int32)
    pairs = np.stack([rng.normal(size=200), np.ones(200)], 1).astype(np.float32)
    options = {"n_tasks": 3, "pooling": 1.0, "learning_rate": 1.0}
    pooled = np.zeros(4)
    free = pool_leaves(pooled, leaves, codes, pairs, **options)
    low, high = np.array([-np.inf, -0.05, 0.0, -0.1]), np.array([0.02, np.inf, 0.0, 0.1])
    found = pool_leaves(pooled, leaves, codes, pairs, **options, bounds=(low, high))
    expected = [
        min(max(value, low[leaf]), high[leaf])
        for leaf, value in zip(free.leaf, free.value, strict=True)
    ]
    np.testing.assert_array_equal(found.value, expected)
    assert (found.value != free.value).any()
