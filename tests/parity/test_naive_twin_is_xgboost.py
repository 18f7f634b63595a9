# SPDX-License-Identifier: Apache-2.0
"""The naive twin grows the trees of stock XGBoost (hist, plain score), bit for bit.

Both sides get the same float32 gradients: XGBoost through a custom objective, the twin the very
arrays that objective returned. Compared exactly: structure, default directions, thresholds and leaf
values, categories, gains, hessians, base weights, and the leaf of every training row.

Not compared: column sampling (XGBoost draws from another generator), and several threads where
float64 must round a sum (each thread adds its own rows, so XGBoost then differs from itself).
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
import pytest
import xgboost as xgb
from numpy.testing import assert_array_equal
from oracle.naive import Cuts, Ints, Params, Tree, bin_matrix, grow_tree, read_cuts
from twin_tables import (
    REAL,
    Gradients,
    Loss,
    Table,
    normalised,
    one_of_each,
    random_gradients,
    random_groups,
    real,
    squared_error,
    with_losses,
    with_missing,
)

from mtboost.xgboost.library import version

f32 = np.float32


# Data and losses ------------------------------------------------------------------------------


def generated(name: str) -> Table:
    rng = np.random.default_rng(list(name.encode()))
    n_rows = 400
    X = rng.normal(size=(n_rows, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    match name:
        case "missing":
            return Table(with_missing(X, 0.2, rng), y)
        case "ties":
            return Table(with_missing(np.round(X), 0.1, rng), np.round(y))
        case "duplicates":
            return Table(np.column_stack([X[:, 1], X[:, :3] > 0, X[:, :3] > 0, X[:, 1]]), y)
        case "categories" | "categories_missing":
            few, many = rng.integers(0, 3, n_rows), rng.integers(0, 40, n_rows)
            many[many == 7] = 8  # a category that no row has
            X = np.column_stack([X[:, :2], few, many])
            y = y + np.array([0, 2, -1])[few] + rng.normal(size=40)[many]
            if name == "categories_missing":
                X = with_missing(X, 0.15, rng)
            return Table(X, y, categorical=(2, 3))
    raise ValueError(name)


@functools.cache
def load(name: str) -> Table:
    return normalised(real(name) if name in REAL else generated(name))


def logistic(margin: np.ndarray, y: np.ndarray) -> Gradients:
    positive = y > 0
    p = f32(1) / (np.exp(np.minimum(-margin, f32(88.7))) + f32(1))
    return p - positive.astype(f32), np.maximum(p * (f32(1) - p), f32(1e-16))


# Both sides -----------------------------------------------------------------------------------


def stock_parameters(params: Params) -> dict[str, Any]:
    """The same settings in the notation of ``xgboost.train``."""
    stock = asdict(params)
    del stock["arithmetic"]
    constraints = stock.pop("monotone_constraints")
    if constraints:
        stock["monotone_constraints"] = "(" + ",".join(map(str, constraints)) + ")"
    groups = stock.pop("interaction_constraints")
    if groups is not None:
        stock["interaction_constraints"] = json.dumps(groups)
    return stock


def train_stock(
    table: Table, loss: Loss, params: Params, *, n_rounds: int, n_threads: int, max_bin: int
) -> Iterator[tuple[list[Cuts], Ints, Gradients, dict[str, Any], Ints]]:
    """Round by round: cuts, bins, gradients, XGBoost's tree, leaf of each row."""
    options: dict[str, Any] = {"nthread": n_threads}
    if table.categorical:
        options |= {"feature_types": table.feature_types, "enable_categorical": True}
    X, y = table.X.astype(f32), table.y.astype(f32)
    data = xgb.QuantileDMatrix(X, label=y, max_bin=max_bin, **options)
    gradients: list[Gradients] = []

    def objective(margin: np.ndarray, data: xgb.DMatrix) -> Gradients:
        gradients.append(loss(margin.astype(f32), y))
        return gradients[-1]

    run = {"tree_method": "hist", "max_bin": max_bin, "nthread": n_threads, "base_score": 0.0}
    booster = xgb.train(stock_parameters(params) | run, data, n_rounds, obj=objective)
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    leaves = booster.predict(xgb.DMatrix(X, **options), pred_leaf=True).reshape(len(y), n_rounds)
    cuts = read_cuts(data)
    bins = bin_matrix(X, cuts)
    for pair, tree, leaf in zip(gradients, model["trees"], leaves.T, strict=True):
        yield cuts, bins, pair, tree, leaf.astype(int)


def assert_same_tree(ours: Tree, stock: dict[str, Any], leaf_of_row: Ints) -> None:
    assert_array_equal(ours.left, stock["left_children"])
    assert_array_equal(ours.right, stock["right_children"])
    assert_array_equal(ours.feature, stock["split_indices"])
    assert_array_equal(ours.default_left, np.array(stock["default_left"], dtype=bool))
    # The file holds the shortest decimals that read back as the same float32.
    assert_array_equal(ours.threshold, np.array(stock["split_conditions"], dtype=f32))
    assert_array_equal(ours.gain, np.array(stock["loss_changes"], dtype=f32))
    assert_array_equal(ours.hessian, np.array(stock["sum_hessian"], dtype=f32))
    assert_array_equal(ours.base_weight, np.array(stock["base_weights"], dtype=f32))
    categories = {
        node: stock["categories"][begin : begin + size]
        for node, begin, size in zip(
            stock["categories_nodes"],
            stock["categories_segments"],
            stock["categories_sizes"],
            strict=True,
        )
    }
    assert ours.categories == categories
    assert_array_equal(ours.leaf_of_row, leaf_of_row)


def compare(
    table: Table,
    loss: Loss,
    params: Params,
    *,
    n_rounds: int = 3,
    n_threads: int = 1,
    max_bin: int = 32,
) -> list[Tree]:
    """Grow the same trees on both sides, demand equality, return them."""
    trees = []
    for cuts, bins, (gradient, hessian), stock, leaf_of_row in train_stock(
        table, loss, params, n_rounds=n_rounds, n_threads=n_threads, max_bin=max_bin
    ):
        trees.append(grow_tree(bins, cuts, gradient, hessian, params))
        assert_same_tree(trees[-1], stock, leaf_of_row)
    return trees


# Settings one at a time -----------------------------------------------------------------------

NUMERICAL = [*REAL, "missing", "ties", "duplicates"]
CATEGORICAL = ["categories", "categories_missing"]

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "no_lambda": {"reg_lambda": 0.0, "min_child_weight": 0.0},
    "alpha": {"reg_alpha": 0.7},
    "gamma": {"gamma": 1.5},
    "min_child_weight": {"min_child_weight": 9.0},
    "max_delta_step": {"max_delta_step": 0.1},
    "max_delta_step_alpha": {"max_delta_step": 0.3, "reg_alpha": 0.5},
    "monotone": {"monotone_constraints": (1, -1, 1, -1)},
    "monotone_delta_alpha": {
        "monotone_constraints": (-1, 0, 1),
        "max_delta_step": 0.4,
        "reg_alpha": 0.3,
    },
    "interaction": {"interaction_constraints": ((0, 1), (1, 2, 3))},
    "depthwise_leaves": {"max_leaves": 6},
    "lossguide": {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 10},
    "lossguide_depth": {"grow_policy": "lossguide", "max_depth": 3, "gamma": 0.5},
}
CATEGORICAL_SETTINGS: dict[str, dict[str, Any]] = SETTINGS | {
    "one_hot": {"max_cat_to_onehot": 100},
    "partition": {"max_cat_to_onehot": 3},
    "short_partition": {"max_cat_to_onehot": 1, "max_cat_threshold": 5},
}
EVERY_DATA_SET_UNDER_EVERY_SETTING = [
    *((name, setting) for name in NUMERICAL for setting in SETTINGS),
    *((name, setting) for name in CATEGORICAL for setting in CATEGORICAL_SETTINGS),
]


@pytest.mark.parametrize(
    ("name", "setting", "loss"),
    with_losses(EVERY_DATA_SET_UNDER_EVERY_SETTING, [squared_error, logistic]),
)
def test_trees_equal_xgboosts(name: str, setting: str, loss: Loss) -> None:
    params = Params(**({"max_depth": 4} | CATEGORICAL_SETTINGS[setting]))
    trees = compare(load(name), loss, params)
    assert sum(len(tree.left) for tree in trees) > len(trees)  # some node was split


@pytest.mark.parametrize("name", ["diabetes", "missing", "categories"])
def test_trees_equal_xgboosts_on_two_threads(name: str) -> None:
    compare(load(name), logistic, Params(max_depth=4), n_threads=2)


# Corners --------------------------------------------------------------------------------------


def given(gradient: Any, hessian: Any) -> Loss:
    """The same gradients whatever the margin."""
    return lambda margin, y: (np.asarray(gradient, dtype=f32), np.asarray(hessian, dtype=f32))


def test_tree_without_a_split_keeps_its_unscaled_base_weight() -> None:
    table = Table(np.arange(4.0)[:, np.newaxis], np.zeros(4))
    (tree,) = compare(table, given([1, 1, 1, 1], [1, 1, 1, 1]), Params(gamma=100.0), n_rounds=1)
    assert tree.base_weight.tolist() == [-f32(4) / f32(4 + 1)]
    assert tree.value.tolist() == [-f32(4) / f32(4 + 1) * f32(0.3)]


def test_before_3_4_monotone_constraints_that_are_all_zero_change_the_arithmetic() -> None:
    table = load("diabetes")
    compare(table, squared_error, Params(max_depth=4, monotone_constraints=(0, 0)))
    (constrained,) = compare(table, squared_error, Params(monotone_constraints=(0,)), n_rounds=1)
    (free,) = compare(table, squared_error, Params(), n_rounds=1)
    assert np.array_equal(constrained.gain, free.gain) == (version() >= (3, 4))


def test_feature_of_no_interaction_group_shares_its_tree_with_no_other() -> None:
    params = Params(interaction_constraints=((0, 1), (1, 2)))
    (tree,) = compare(load("diabetes"), squared_error, params, n_rounds=1)
    assert tree.feature[0] not in (0, 1, 2)
    assert set(tree.feature[tree.left >= 0]) == {tree.feature[0]}


@pytest.mark.parametrize("grow_policy", ["depthwise", "lossguide"])
def test_before_3_4_a_split_with_a_side_without_hessian_is_refused_too_late(
    grow_policy: Literal["depthwise", "lossguide"],
) -> None:
    # The root is cut at feature 0. Its left child has a sound cut with gain 59, its right child
    # one with gain 1429 that would leave a side without hessian. The right child stays a leaf,
    # and loss-guided growth before XGBoost 3.4, which asks it first, ends there.
    X = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 20, axis=0)
    gradient = np.repeat([-12, -8, 10, -5], 20)
    hessian = np.repeat([1, 1, 1, 0], 20)
    params = Params(grow_policy=grow_policy, min_child_weight=0.0)
    table = Table(X.astype(float), np.zeros(len(X)))
    (tree,) = compare(table, given(gradient, hessian), params, n_rounds=1)
    ends_early = grow_policy == "lossguide" and version() < (3, 4)
    assert len(tree.left) == (3 if ends_early else 5)
    assert tree.left[2] == -1


def test_side_without_hessian_has_no_gain_however_large_its_gradient() -> None:
    # The last bin, cut off, would gain 40² / λ; instead the sound cut after bin 0 wins.
    X = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    gradient = np.repeat([-3, 3, -4], 10)
    hessian = np.repeat([1, 1, 0], 10)
    params = Params(max_depth=1, min_child_weight=0.0)
    (tree,) = compare(Table(X, np.zeros(30)), given(gradient, hessian), params, n_rounds=1)
    assert tree.threshold[0] == 1.0
    assert tree.hessian.tolist() == [20, 10, 10]


def test_side_without_hessian_has_no_gain_at_a_bounded_weight_either() -> None:
    # Right of the root weights are at least 0.5. Cutting off the last bin there gains 41 when the
    # side without hessian counts 0, but 31 at weight 0.5: less than the sound cut, which gains 34.
    # So before XGBoost 3.4 it is chosen, and refused; since 3.4 it is no candidate.
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [100, 50, 50, 10], axis=0)
    gradient = np.repeat([1, -131 / 50, -79 / 50, 1], [100, 50, 50, 10])
    hessian = np.repeat([1, 1, 1, 0], [100, 50, 50, 10])
    params = Params(monotone_constraints=(1, 0), min_child_weight=0.0)
    (tree,) = compare(Table(X, np.zeros(210)), given(gradient, hessian), params, n_rounds=1)
    assert tree.left.tolist() == ([1, -1, -1] if version() < (3, 4) else [1, -1, 3, -1, -1])


def test_lambda_is_a_float32() -> None:
    # Beside hessians this small the 2e-9 between 0.1 and its float32 show.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 3))
    loss = given(X[:, 0] * X[:, 1], 1e-4 * rng.random(500))
    params = Params(reg_lambda=0.1, min_child_weight=0.0)
    compare(Table(X, np.zeros(500)), loss, params, n_rounds=1)


def test_gain_beyond_float32_is_passed_over() -> None:
    # (1e20)² overflows, so the cut after bin 0 is out; the one after bin 1 gains 30²/11 - 30²/31.
    X = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    gradient = np.repeat([1e19, -1e19, 3], 10)
    params = Params(max_depth=1)
    (tree,) = compare(Table(X, np.zeros(30)), given(gradient, np.ones(30)), params, n_rounds=1)
    assert tree.threshold[0] == 2.0


def test_equal_leaves_are_split_in_the_order_of_their_numbers() -> None:
    X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 10, axis=0)
    gradient = np.repeat([5, 3, -3, -5], 10)
    params = Params(grow_policy="lossguide", max_leaves=3)
    (tree,) = compare(Table(X, np.zeros(40)), given(gradient, np.ones(40)), params, n_rounds=1)
    assert tree.left.tolist() == [1, 3, -1, -1, -1]


@pytest.mark.parametrize("seed", range(20))
def test_sums_that_float64_must_round_are_added_in_xgboosts_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows = 1000
    X = rng.normal(size=(n_rows, 3))
    table = Table(with_missing(X, 0.2, rng) if seed % 2 else X, np.zeros(n_rows))
    # 18 decades: what is lost in a sum depends on who was added to whom.
    gradient = rng.normal(size=n_rows) * 10 ** rng.uniform(-12, 6, n_rows)
    hessian = 10 ** rng.uniform(-12, 6, n_rows)
    params = Params(max_depth=6, min_child_weight=0.0, reg_lambda=0.0)
    compare(table, given(gradient, hessian), params, n_rounds=1, max_bin=64)


def test_of_children_equally_heavy_the_left_one_is_summed() -> None:
    # What the right child then loses in the difference, float64's last bits of 1e9, shows in it.
    rng = np.random.default_rng(2)
    X = np.column_stack([np.arange(400) >= 200, rng.normal(size=400)]).astype(float)
    gradient = rng.normal(size=400) * np.where(X[:, 0], 0.1, 1e9) + np.where(X[:, 0], 0, 1e9)
    loss = given(gradient, np.ones(400))
    (tree,) = compare(Table(X, np.zeros(400)), loss, Params(), n_rounds=1)
    assert tree.hessian[1] == tree.hessian[2]


def test_base_weight_of_a_split_node_comes_from_both_sides_added_up() -> None:
    # 0.1 less 1e10 plus 1e10 is no longer 0.1.
    X = np.array([[0.0], [1.0], [2.0]])
    params = Params(max_depth=1, reg_lambda=0.0)
    (tree,) = compare(
        Table(X, np.zeros(3)), given([1e10, -1e10, 0.1], [1, 1, 1]), params, n_rounds=1
    )
    assert tree.base_weight[0] != f32(-0.1 / 3)


def test_rows_without_gradient_and_hessian_change_nothing() -> None:
    table, rng = load("missing"), np.random.default_rng(5)
    active = rng.random(len(table.y)) < 0.7

    def masked(margin: np.ndarray, y: np.ndarray) -> Gradients:
        gradient, hessian = squared_error(margin, y)
        return gradient * active, hessian * active

    compare(table, masked, Params(max_depth=4))


# Everything at once ---------------------------------------------------------------------------


def random_table(rng: np.random.Generator) -> Table:
    """Numbers, ties, categories and copies side by side, with or without missing values."""
    n_rows, n_features = int(rng.integers(30, 400)), int(rng.integers(1, 6))
    X = rng.normal(size=(n_rows, n_features))
    categorical = []
    for feature in range(n_features):
        kind = rng.choice(["number", "ties", "category", "copy"])
        if kind == "ties":
            X[:, feature] = np.round(2 * X[:, feature])
        elif kind == "category":
            X[:, feature] = rng.integers(0, rng.integers(2, 40), n_rows)
            categorical.append(feature)
        elif kind == "copy" and 0 not in categorical:
            X[:, feature] = X[:, 0]
    X[1:] = with_missing(X[1:], rng.choice([0.0, 0.02, 0.2, 0.6]), rng)
    return Table(X, np.zeros(n_rows), tuple(categorical))


def random_params(n_features: int, rng: np.random.Generator) -> Params:
    """Any settings together."""
    settings = {
        "learning_rate": [0.3, 1.0, 0.07],
        "max_depth": [1, 2, 3, 6],
        "max_leaves": [0, 0, 5, 20],
        "grow_policy": ["depthwise", "lossguide"],
        "reg_lambda": [1.0, 0.0, 0.1, 5.0],
        "reg_alpha": [0.0, 0.0, 0.3, 2.0],
        "gamma": [0.0, 0.0, 0.5],
        "min_child_weight": [1.0, 0.0, 0.0, 5.0],
        "max_delta_step": [0.0, 0.0, 0.1, 0.7],
        "max_cat_to_onehot": [1, 4, 50],
        "max_cat_threshold": [64, 2, 5],
    }
    drawn = one_of_each(settings, rng)
    if rng.random() < 0.4:
        drawn["monotone_constraints"] = tuple(rng.integers(-1, 2, n_features).tolist())
    if rng.random() < 0.3:
        drawn["interaction_constraints"] = random_groups(n_features, rng)
    return Params(**drawn)


@pytest.mark.parametrize("seed", range(60))
def test_trees_equal_xgboosts_whatever_the_table_and_the_settings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    n_rows, n_features = table.X.shape
    gradient, hessian = (x.astype(f32) for x in random_gradients(n_rows, rng, decades=(-12, 2)))
    params = random_params(n_features, rng)

    def loss(margin: np.ndarray, y: np.ndarray) -> Gradients:
        return gradient + hessian * margin, hessian

    compare(table, loss, params, n_rounds=2, max_bin=int(rng.choice([4, 16, 256])))
