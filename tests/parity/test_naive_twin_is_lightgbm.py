# SPDX-License-Identifier: Apache-2.0
"""The naive twin grows the trees of stock LightGBM (CPU, serial), bit for bit.

Both sides get the same float32 gradients: LightGBM through a custom objective, the twin the very
arrays that objective returned; further below the objectives are LightGBM's own. Compared exactly:
structure, default directions, missing types, thresholds, categories, gains, and of nodes and leaves
values, hessians and counts, and the leaf of every training row.

Not compared, because LightGBM differs from itself: three threads or more (without `deterministic`),
and runs that leave the choice between column-wise and row-wise sums to LightGBM, which times them.
Not compared, because it is not in the twin: a limited `histogram_pool_size`, categories of which a
node has no row with ``cat_smooth=0`` (a sort by 0 / 0), monotone methods other than "basic",
quantised gradients, linear trees, forced splits, cost-effective boosting, dart, rf, goss, and the
objectives that renew leaf values (l1, quantile, mape).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracle.naive_lightgbm import (
    IS_BEFORE_4_6,
    Bagging,
    Data,
    Draws,
    Feature,
    Floats,
    Ints,
    Params,
    Tree,
    add_bias,
    grow_tree,
    read_data,
)
from twin_tables import (
    CATEGORICAL,
    EVERY_DATA_SET_UNDER_EVERY_SETTING,
    NUMERICAL,
    Gradients,
    Loss,
    Table,
    f32,
    load,
    logistic,
    random_gradients,
    random_params,
    random_table,
    set_up,
    squared_error,
    stock_parameters,
    with_losses,
)

# Both sides -----------------------------------------------------------------------------------


@dataclass
class Stock:
    """What LightGBM made: trees in the order of rounds, with the gradients each saw."""

    data: Data
    gradients: list[tuple[Floats, Floats]]
    trees: list[dict[str, Any]]
    leaves: Ints  # (n_rows, n_trees)


def train_stock(
    table: Table, loss: Loss | str, params: Params, *, n_rounds: int = 3, **more: Any
) -> Stock:
    settings = stock_parameters(params, table) | more
    data = lgb.Dataset(
        table.X, table.y, params=settings, categorical_feature=list(table.categorical)
    )
    gradients: list[tuple[Floats, Floats]] = []

    def objective(margin: np.ndarray, data: lgb.Dataset) -> Gradients:
        assert callable(loss)
        gradient, hessian = loss(margin, table.y)
        gradients.append((gradient.astype(f32), hessian.astype(f32)))
        return gradients[-1]

    settings["objective"] = loss if isinstance(loss, str) else objective
    booster = lgb.train(settings, data, n_rounds, keep_training_booster=True)
    trees = booster.dump_model()["tree_info"]
    leaves = booster.predict(table.X, pred_leaf=True).reshape(len(table.X), len(trees))
    return Stock(read_data(data), gradients, trees, leaves.astype(int))


def nodes_and_leaves(tree: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Nodes and leaves of a dumped tree by number."""
    nodes, leaves = {}, {}
    waiting = [tree["tree_structure"]]
    while waiting:
        node = waiting.pop()
        if "split_index" in node:
            nodes[node["split_index"]] = node
            waiting += [node["left_child"], node["right_child"]]
        else:
            leaves[node.get("leaf_index", 0)] = node
    return [nodes[i] for i in range(len(nodes))], [leaves[i] for i in range(len(leaves))]


def number(node: dict[str, Any]) -> int:
    return int(node["split_index"]) if "split_index" in node else -1 - int(node["leaf_index"])


def assert_same_tree(ours: Tree, stock: dict[str, Any], leaf_of_row: Ints | None) -> None:
    nodes, leaves = nodes_and_leaves(stock)
    assert len(ours.left) == len(nodes)
    if not nodes:
        return  # LightGBM makes a constant of it
    assert_array_equal(ours.left, [number(node["left_child"]) for node in nodes])
    assert_array_equal(ours.right, [number(node["right_child"]) for node in nodes])
    assert_array_equal(ours.column, [node["split_feature"] for node in nodes])
    assert_array_equal(ours.default_left, [node["default_left"] for node in nodes])
    assert ours.missing == [node["missing_type"] for node in nodes]
    for i, node in enumerate(nodes):
        if node["decision_type"] == "==":
            assert ours.categories[i] == [int(c) for c in node["threshold"].split("||")]
        else:  # the dump has 1e300 for infinity
            assert min(ours.threshold[i], 1e300) == node["threshold"]
    # The dump has 17 digits, which is all a float64 has.
    assert_array_equal(ours.gain, np.array([node["split_gain"] for node in nodes], dtype=f32))
    assert_array_equal(ours.value, [node["internal_value"] for node in nodes])
    assert_array_equal(ours.hessian, [node["internal_weight"] for node in nodes])
    assert_array_equal(ours.count, [node["internal_count"] for node in nodes])
    assert_array_equal(ours.leaf_value, [leaf["leaf_value"] for leaf in leaves])
    assert_array_equal(ours.leaf_hessian, [leaf["leaf_weight"] for leaf in leaves])
    assert_array_equal(ours.leaf_count, [leaf["leaf_count"] for leaf in leaves])
    if leaf_of_row is not None:
        assert_array_equal(ours.leaf_of_row, leaf_of_row)


def grow_again(
    stock: Stock, params: Params, bagging: Bagging | None = None
) -> Iterator[tuple[Tree, dict[str, Any], Ints]]:
    """The twin's tree beside LightGBM's, which drops all but the first that have no split."""
    draws = Draws(stock.data, params)
    draws.reset()  # a custom objective resets parameters before the first tree
    n_kept = n_split = 0
    for pair in stock.gradients:
        rows = None if bagging is None else bagging.rows(n_split)
        tree = grow_tree(stock.data, *pair, params, rows=rows, draws=draws)
        n_split += len(tree.left) > 0
        if len(tree.left) or n_kept == 0:
            yield tree, stock.trees[n_kept], stock.leaves[:, n_kept]
            n_kept += 1
    assert n_kept == len(stock.trees)


def compare(table: Table, loss: Loss, params: Params, **more: Any) -> list[Tree]:
    """Grow the same trees on both sides, demand equality, return them."""
    trees = []
    for tree, stock, leaf_of_row in grow_again(train_stock(table, loss, params, **more), params):
        assert_same_tree(tree, stock, leaf_of_row)
        trees.append(tree)
    return trees


# The data set itself --------------------------------------------------------------------------


def bins_of(x: np.ndarray, feature: Feature) -> Ints:
    """Bins of raw values, found by the bounds."""
    if feature.is_categorical:
        bin_of_category = {category: b for b, category in enumerate(feature.categories)}
        return np.array([bin_of_category.get(int(c), 0) for c in np.nan_to_num(x, nan=-1)])
    has_nan_bin = feature.missing == "NaN"
    bounds = feature.upper[: len(feature.upper) - has_nan_bin]
    bins = np.searchsorted(bounds[:-1], np.nan_to_num(x))
    return np.where(np.isnan(x), len(bounds), bins) if has_nan_bin else bins


@pytest.mark.parametrize("name", [*NUMERICAL, *CATEGORICAL])
def test_saved_bins_are_where_the_bounds_put_the_values(name: str) -> None:
    table = load(name)
    settings = stock_parameters(Params(), table)
    made = lgb.Dataset(
        table.X, params=settings, categorical_feature=list(table.categorical), free_raw_data=True
    )
    data = read_data(made)
    assert made.data is None
    assert len(data.features) > 1
    for number, feature in enumerate(data.features):
        assert_array_equal(data.bins[:, number], bins_of(table.X[:, feature.column], feature))


def test_tables_have_bundles_and_features_stored_side_by_side() -> None:
    def shapes(name: str) -> list[tuple[int, bool]]:
        table = load(name)
        data = read_data(lgb.Dataset(table.X, params=stock_parameters(Params(), table)))
        return sorted((len(group.features), group.is_multi) for group in data.groups)

    assert shapes("bundle") == [(1, False), (1, False), (20, False)]
    assert shapes("several") == [(1, False), (1, False), (30, True)]


def test_in_a_bundle_the_last_of_two_values_of_a_row_remains() -> None:
    # LightGBM bundles columns that share at most one row in 10000.
    X = np.zeros((20000, 3))
    X[:5000, 0] = np.arange(5000) % 7 + 1
    X[4999:9000, 1] = np.arange(4001) % 5 + 1
    X[:, 2] = np.sin(np.arange(20000))
    data = read_data(lgb.Dataset(X, params={"verbosity": -1}))
    first, second = ([f.column for f in data.features].index(column) for column in (0, 1))
    assert [len(group.features) for group in data.groups if first in group.features] == [2]
    assert data.bins[4998, first] > 0
    assert data.bins[4999, first] == 0
    assert data.bins[4999, second] > 0


# Settings one at a time -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "setting", "loss"),
    with_losses(EVERY_DATA_SET_UNDER_EVERY_SETTING, [squared_error, logistic]),
)
def test_trees_equal_lightgbms(name: str, setting: str, loss: Loss) -> None:
    table = load(name)
    trees = compare(table, loss, set_up(setting, table.X.shape[1]), n_rounds=2)
    assert sum(len(tree.left) for tree in trees) > 0  # some node was split


# Objectives of LightGBM's own -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["diabetes", "missing", "categories"])
@pytest.mark.parametrize("boost_from_average", [True, False])
@pytest.mark.parametrize(("objective", "loss"), [("l2", squared_error), ("binary", logistic)])
def test_own_objectives_see_the_gradients_of_the_sums_of_leaf_values(
    objective: str, loss: Loss, boost_from_average: bool, name: str
) -> None:
    table, params = load(name), Params(num_leaves=12)
    y = (table.y > 0).astype(f32) if objective == "binary" else table.y
    table = replace(table, y=y)
    more = {"boost_from_average": boost_from_average}
    stock = train_stock(table, objective, params, n_rounds=4, **more)
    mean = np.cumsum(y, dtype=np.float64)[-1] / len(y)
    start = mean if objective == "l2" else math.log(mean / (1.0 - mean))
    start = start if boost_from_average else 0.0
    draws = Draws(stock.data, params)
    margin = np.full(len(y), start)
    for i, tree in enumerate(stock.trees):
        gradient, hessian = loss(margin, y)
        ours = grow_tree(stock.data, gradient.astype(f32), hessian.astype(f32), params, draws=draws)
        margin += ours.leaf_value[ours.leaf_of_row]
        assert_same_tree(ours if i else add_bias(ours, start), tree, stock.leaves[:, i])


# Random numbers -------------------------------------------------------------------------------

DRAWS: dict[str, dict[str, Any]] = {
    "bytree": {"feature_fraction": 0.6},
    "bytree_few": {"feature_fraction": 0.2},
    "bynode": {"feature_fraction_bynode": 0.5},
    "both": {"feature_fraction": 0.8, "feature_fraction_bynode": 0.7},
    "bynode_interaction": {
        "feature_fraction_bynode": 0.7,
        "interaction_constraints": ((0, 1, 2), (1, 2, 3, 4)),
    },
    "extra_trees": {"extra_trees": True},
    "all": {"feature_fraction": 0.8, "feature_fraction_bynode": 0.7, "extra_trees": True},
}


@pytest.mark.parametrize("name", ["diabetes", "missing", "categories_missing"])
@pytest.mark.parametrize("setting", DRAWS)
def test_streams_of_features_and_cuts_are_lightgbms(setting: str, name: str) -> None:
    compare(load(name), squared_error, Params(num_leaves=12, **DRAWS[setting]), n_rounds=4)


# Up to one half LightGBM copies the rows of a bag, which changes nothing.
@pytest.mark.parametrize("fraction", [0.8, 0.3])
@pytest.mark.parametrize("freq", [1, 2])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_bags_are_lightgbms(fraction: float, freq: int, n_threads: int) -> None:
    rng = np.random.default_rng(7)
    table = Table(rng.normal(size=(2500, 3)), rng.normal(size=2500))
    params = Params(num_leaves=8, num_threads=n_threads)
    more = {"bagging_fraction": fraction, "bagging_freq": freq, "bagging_seed": 5}
    stock = train_stock(table, squared_error, params, n_rounds=4, **more)
    bagging = Bagging(len(table.X), fraction, freq, seed=5)
    for tree, other, _ in grow_again(stock, params, bagging):
        assert_same_tree(tree, other, None)
        assert tree.leaf_count.sum() < len(table.X)


# Threads --------------------------------------------------------------------------------------


def wide(n_rows: int, seed: int) -> tuple[Table, Loss]:
    """Gradients over 14 decades: what is lost in a sum depends on who was added to whom."""
    rng = np.random.default_rng(seed)
    gradient = rng.normal(size=n_rows) * 10 ** rng.uniform(-10, 4, n_rows)
    hessian = 10 ** rng.uniform(-6, 2, n_rows)
    X = rng.normal(size=(n_rows, 3))
    return Table(X, np.zeros(n_rows)), lambda margin, y: (gradient, hessian)


@pytest.mark.parametrize("force_row_wise", [False, True])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_sums_of_two_threads_are_added_in_lightgbms_order(
    seed: int, deterministic: bool, force_row_wise: bool
) -> None:
    table, loss = wide(5000, seed)
    params = Params(num_threads=2, deterministic=deterministic, force_row_wise=force_row_wise)
    two = compare(table, loss, params, n_rounds=1)[0]
    one = compare(table, loss, replace(params, num_threads=1), n_rounds=1)[0]
    # Columns are summed by one thread each; only the root's sums depend on the threads.
    depends_on_threads = force_row_wise or not deterministic
    assert (one.leaf_value.tolist() != two.leaf_value.tolist()) == depends_on_threads


@pytest.mark.parametrize("n_threads", [3, 5])
def test_columns_summed_deterministically_do_not_depend_on_threads(n_threads: int) -> None:
    table, loss = wide(5000, 0)
    compare(table, loss, Params(num_threads=n_threads, deterministic=True), n_rounds=1)


@pytest.mark.parametrize("kind", ["dense", "several", "bundle"])
@pytest.mark.parametrize("force_row_wise", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_block_depend_on_bins_and_entries_a_row(
    seed: int, force_row_wise: bool, kind: str
) -> None:
    # There are more threads than blocks, so that the number of blocks follows from their size. The
    # tree may use only columns with two bins, whose sums of many rows depend on the blocks.
    n_rows = 1000
    table, loss = wide(n_rows, seed)
    rng = np.random.default_rng(seed)
    rest = rng.normal(size=(n_rows, 20))
    if kind == "several":
        rest = np.where(rng.random(rest.shape) < 0.1, rest, 0)
    elif kind == "bundle":
        rest = np.where(np.arange(20) == rng.integers(0, 20, n_rows)[:, np.newaxis], rest, 0)
    binary = rng.integers(0, 2, size=(n_rows, 3)) + 0.5
    params = Params(
        num_leaves=4,
        interaction_constraints=((0, 1, 2),),
        min_data_in_leaf=1,
        num_threads=16,
        deterministic=True,
        force_row_wise=force_row_wise,
    )
    table = replace(table, X=np.column_stack([binary, rest]))
    (tree,) = compare(table, loss, params, n_rounds=1, max_bin=255, min_data_in_bin=1)
    assert len(tree.left) == 3


# Corners --------------------------------------------------------------------------------------


def given(gradient: Any, hessian: Any) -> Loss:
    """The same gradients whatever the margin."""
    gradient, hessian = np.asarray(gradient, dtype=float), np.asarray(hessian, dtype=float)
    return lambda margin, y: (gradient, hessian)


def test_rows_of_a_bin_are_estimated_from_its_hessian() -> None:
    # Left of 0.5 are 30 rows of 100, yet only 3 / 73 of the hessian: 4 rows in the estimate.
    X = np.repeat([[0.0], [1.0]], [30, 70], axis=0)
    loss = given(np.where(X[:, 0] > 0, 1, -1), np.where(X[:, 0] > 0, 1.0, 0.1))
    params = Params(min_data_in_leaf=5)
    (tree,) = compare(Table(X, np.zeros(100)), loss, params, n_rounds=1)
    assert len(tree.left) == 0
    (tree,) = compare(
        Table(X, np.zeros(100)), loss, replace(params, min_data_in_leaf=4), n_rounds=1
    )
    assert tree.leaf_count.tolist() == [30, 70]


def test_root_has_its_own_value_and_hessian_since_4_6() -> None:
    (tree,) = compare(load("diabetes"), squared_error, Params(), n_rounds=1)
    assert (tree.hessian[0] == 0) == IS_BEFORE_4_6


def test_equal_cuts_are_taken_from_the_right_and_in_the_lower_column() -> None:
    # Bins 1 and 2 have no gradient, so the three cuts between bin 0 and bin 3 gain the same.
    x = np.repeat([0.0, 1.0, 2.0, 3.0], 50)
    X = np.column_stack([np.zeros(200), x, x])
    loss = given(np.repeat([1.0, 0.0, 0.0, -1.0], 50), np.repeat([1.0, 1e-9, 1e-9, 1.0], 50))
    params = Params(num_leaves=2, min_data_in_leaf=0, min_sum_hessian_in_leaf=0.5)
    (tree,) = compare(Table(X, np.zeros(200)), loss, params, n_rounds=1)
    assert tree.column.tolist() == [1]
    assert tree.threshold[0] > 0


def test_missing_goes_left_where_both_directions_gain_the_same() -> None:
    # Rows without a value have neither gradient nor hessian.
    x = np.repeat([0.0, 1.0, np.nan], 50)
    loss = given(np.repeat([1.0, -1.0, 0.0], 50), np.repeat([1.0, 1.0, 0.0], 50))
    (tree,) = compare(Table(x[:, np.newaxis], np.zeros(150)), loss, Params(), n_rounds=1)
    assert tree.default_left.tolist() == [True]


def test_column_with_a_monotone_constraint_that_holds_beats_its_equal() -> None:
    # Its gain is multiplied by 1 + 1e-15, so that the lower column does not win.
    x = np.arange(200.0)
    X = np.column_stack([x, x])
    params = Params(num_leaves=2, monotone_constraints=(0, 1))
    (tree,) = compare(Table(X, np.zeros(200)), given(-x, np.ones(200)), params, n_rounds=1)
    assert tree.column.tolist() == [1]
    free = replace(params, monotone_constraints=(0, 0))
    (tree,) = compare(Table(X, np.zeros(200)), given(-x, np.ones(200)), free, n_rounds=1)
    assert tree.column.tolist() == [0]


def test_scan_from_the_left_forgets_the_lowest_bin_where_most_rows_are_in_it() -> None:
    # With zeros missing and the lowest bin the frequent one, LightGBM's scan from the left starts
    # behind that bin, yet its rows do go left.
    table = load("frequent_zeros_missing")
    data = read_data(lgb.Dataset(table.X, params=stock_parameters(Params(), table)))
    assert any(
        feature.frequent == 0 and feature.zero > 0 and feature.missing == "Zero"
        for feature in data.features
    )
    compare(table, squared_error, Params(num_leaves=20), n_rounds=3)


def test_tree_without_a_split_is_a_constant() -> None:
    table = load("diabetes")
    (tree,) = compare(table, squared_error, Params(min_gain_to_split=1e9), n_rounds=1)
    assert tree.leaf_value.tolist() == [0.0]


def test_rows_without_gradient_and_hessian_count_where_rows_are_counted() -> None:
    table, rng = load("missing"), np.random.default_rng(5)
    active = rng.random(len(table.y)) < 0.7

    def masked(margin: np.ndarray, y: np.ndarray) -> Gradients:
        gradient, hessian = squared_error(margin, y)
        return gradient * active, hessian * active

    (tree, *_) = compare(table, masked, Params())
    assert tree.leaf_count.sum() == len(table.y)


# Everything at once ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(80))
def test_trees_equal_lightgbms_whatever_the_table_and_the_settings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    gradient, hessian = random_gradients(len(table.X), rng)
    params = random_params(table, rng)

    def loss(margin: np.ndarray, y: np.ndarray) -> Gradients:
        return gradient + hessian * margin, hessian

    compare(table, loss, params, n_rounds=2)
