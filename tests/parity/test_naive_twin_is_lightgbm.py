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

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
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
from sklearn import datasets

Gradients = tuple[np.ndarray, np.ndarray]
Loss = Callable[[np.ndarray, np.ndarray], Gradients]
f32 = np.float32


# Data and losses ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    X: np.ndarray
    y: np.ndarray
    categorical: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # of the data set


def with_missing(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(X.shape) < share, np.nan, X)


def generated(name: str) -> Table:
    rng = np.random.default_rng(list(name.encode()))
    n_rows = 600
    X = rng.normal(size=(n_rows, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    match name:
        case "missing":
            return Table(with_missing(X, 0.2, rng), y)
        case "ties":
            X = np.column_stack([np.round(X), np.round(X[:, 0]), X > 0])
            return Table(with_missing(X, 0.1, rng), np.round(y))
        case "zeros_missing":
            X = np.where(rng.random(X.shape) < 0.3, 0, X)
            return Table(X, y, options={"zero_as_missing": True})
        case "frequent":  # the value that most rows have is the lowest, one in the middle, NaN
            X[:, 0] = np.where(rng.random(n_rows) < 0.8, -9, X[:, 0])
            X[:, 1] = np.where(rng.random(n_rows) < 0.8, 0.5, X[:, 1])
            X[:, 2:4] = with_missing(X[:, 2:4], 0.8, rng)
            return Table(X, y + (X[:, 0] == -9))
        case "frequent_zeros_missing":
            X[:, 0] = np.where(rng.random(n_rows) < 0.8, -9, X[:, 0])
            X[:, 1] = np.where(rng.random(n_rows) < 0.8, 0.5, X[:, 1])
            X[:, 2] = -np.abs(X[:, 2])
            X = np.where(rng.random(X.shape) < 0.1, 0, X)
            return Table(X, y + (X[:, 0] == -9), options={"zero_as_missing": True})
        case "bundle":  # of twenty columns each row has one
            own = rng.integers(0, 20, n_rows)
            sparse = np.zeros((n_rows, 20))
            sparse[np.arange(n_rows), own] = rng.integers(1, 4, n_rows)
            return Table(np.column_stack([X[:, :2], sparse]), y + rng.normal(size=20)[own])
        case "several":  # thirty sparse columns that cannot share one
            sparse = np.where(rng.random((n_rows, 30)) < 0.1, rng.normal(size=(n_rows, 30)), 0)
            return Table(np.column_stack([X[:, :2], sparse]), y + sparse[:, 0])
        case "categories" | "categories_missing":
            few, many = rng.integers(0, 3, n_rows), rng.integers(0, 15, n_rows)
            rare = np.minimum(rng.geometric(0.05, n_rows), 60)
            X = np.column_stack([X[:, :2], few, many, rare])
            effect = rng.normal(size=(2, 61))
            y = y + np.array([0, 2, -1])[few] + effect[0][many] + effect[1][rare]
            if name == "categories_missing":
                X = with_missing(X, 0.15, rng)
            return Table(X, y, categorical=(2, 3, 4))
    raise ValueError(name)


@functools.cache
def load(name: str) -> Table:
    """Table of that name, its label with mean 0 and variance 1."""
    if name in ("diabetes", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        # A part of the columns will do; pixels of digits bring ties and bundles.
        table = Table(X[:400, ::4], y[:400]) if X.shape[1] > 10 else Table(X, y)
    else:
        table = generated(name)
    return replace(table, y=((table.y - table.y.mean()) / table.y.std()).astype(f32))


def squared_error(margin: np.ndarray, y: np.ndarray) -> Gradients:
    return margin - y, np.ones_like(margin)


def logistic(margin: np.ndarray, y: np.ndarray) -> Gradients:
    """In the order of LightGBM's operations."""
    label = np.where(y > 0, 1, -1)
    e = np.array([math.exp(x) for x in label * margin])
    response = -label / (1.0 + e)
    size = np.abs(response)
    return response, size * (1.0 - size)


# Both sides -----------------------------------------------------------------------------------


def stock_parameters(params: Params, table: Table) -> dict[str, Any]:
    """The same settings in the notation of ``lightgbm.train``."""
    stock = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(params).items()
        if value != ()
    }
    if "interaction_constraints" in stock:
        stock["interaction_constraints"] = [list(g) for g in stock["interaction_constraints"]]
    stock["force_col_wise"] = not params.force_row_wise
    return stock | table.options | {"max_bin": 32, "verbosity": -1}


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

NUMERICAL = [
    "diabetes",
    "breast_cancer",
    "digits",
    "missing",
    "ties",
    "zeros_missing",
    "frequent",
    "frequent_zeros_missing",
    "bundle",
    "several",
]
CATEGORICAL = ["categories", "categories_missing"]


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

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "fewest_rows": {"min_data_in_leaf": 1, "lambda_l2": 1.0},
    "fewest_hessian": {"min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 9.0},
    "l1": {"lambda_l1": 0.7},
    "min_gain": {"min_gain_to_split": 1.5},
    "max_depth": {"max_depth": 3},
    "max_delta_step": {"max_delta_step": 0.1},
    "max_delta_step_l1": {"max_delta_step": 0.3, "lambda_l1": 0.5},
    "path_smooth": {"path_smooth": 5.0},
    "monotone": {"monotone_constraints": (1, -1, 0, 0)},
    "monotone_penalty": {"monotone_constraints": (-1, 1, 0, 0), "monotone_penalty": 1.5},
    "monotone_smooth_l1": {
        "monotone_constraints": (-1, 1, 0, 0),
        "path_smooth": 2.0,
        "lambda_l1": 0.3,
    },
    "interaction": {"interaction_constraints": ((0, 1), (1, 2, 3))},
    "contribution": {"feature_contri": (0.5, 1.0, 0.9)},
    "row_wise": {"force_row_wise": True},
    "two_threads": {"num_threads": 2},
    "two_threads_row_wise": {"num_threads": 2, "force_row_wise": True},
    "deterministic": {"num_threads": 2, "deterministic": True},
}
CATEGORICAL_SETTINGS: dict[str, dict[str, Any]] = SETTINGS | {
    "one_hot": {"max_cat_to_onehot": 100},
    "partition": {"max_cat_to_onehot": 1, "min_data_per_group": 10},
    "short_partition": {"max_cat_to_onehot": 1, "max_cat_threshold": 2, "min_data_per_group": 1},
    "plain_partition": {"cat_l2": 0.0, "cat_smooth": 1.0, "min_data_per_group": 1},
}
EVERY_DATA_SET_UNDER_EVERY_SETTING = [
    *((name, setting) for name in NUMERICAL for setting in SETTINGS),
    *((name, setting) for name in CATEGORICAL for setting in CATEGORICAL_SETTINGS),
]


def set_up(setting: str, n_columns: int) -> Params:
    settings = {"num_leaves": 12} | CATEGORICAL_SETTINGS[setting]
    for name, rest in (("monotone_constraints", 0), ("feature_contri", 1.0)):
        if name in settings:  # one a column
            settings[name] = settings[name] + (rest,) * (n_columns - len(settings[name]))
    return Params(**settings)


@pytest.mark.parametrize("loss", [squared_error, logistic])
@pytest.mark.parametrize(("name", "setting"), EVERY_DATA_SET_UNDER_EVERY_SETTING)
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


def random_table(rng: np.random.Generator) -> Table:
    """Numbers, ties, categories, copies and frequent values side by side."""
    n_rows, n_columns = int(rng.integers(60, 800)), int(rng.integers(2, 7))
    X = rng.normal(size=(n_rows, n_columns))
    categorical = []
    kinds = ["number", "ties", "category", "copy", "sparse", "negative", "frequent"]
    for column in range(n_columns):
        x = X[:, column]
        match rng.choice(kinds):
            case "ties":
                x = np.round(2 * x)
            case "category":
                x = np.minimum(rng.geometric(rng.choice([0.5, 0.1, 0.03]), n_rows), 50)
                categorical.append(column)
            case "copy" if 0 not in categorical:
                x = X[:, 0]
            case "sparse":
                x = np.where(rng.random(n_rows) < 0.9, 0, x)
            case "negative":
                x = np.where(rng.random(n_rows) < rng.choice([0.1, 0.8]), 0, -np.abs(x))
            case "frequent":
                x = np.where(rng.random(n_rows) < rng.choice([0.3, 0.8]), rng.choice([-9, 9]), x)
        X[:, column] = x
    X = with_missing(X, rng.choice([0.0, 0.0, 0.05, 0.3, 0.8]), rng)
    options = {
        "max_bin": int(rng.choice([4, 16, 255])),
        "min_data_in_bin": int(rng.choice([1, 3])),
        "zero_as_missing": bool(rng.random() < 0.3),
        "use_missing": bool(rng.random() < 0.9),
        "enable_bundle": bool(rng.random() < 0.7),
        "feature_pre_filter": False,
    }
    return Table(X, np.zeros(n_rows), tuple(categorical), options)


def random_gradients(n_rows: int, rng: np.random.Generator) -> Gradients:
    """Hessians that are 1, any, often 0, or spread over many decades."""
    hessian = [
        np.ones(n_rows),
        rng.random(n_rows),
        rng.integers(0, 2, n_rows).astype(float),
        10 ** rng.uniform(-8, 3, n_rows),
    ][rng.integers(4)]
    spread = n_rows if rng.random() < 0.3 else 1
    gradient = rng.normal(size=n_rows) * 10 ** rng.uniform(-4, 2, spread)
    return gradient, hessian


def random_params(table: Table, rng: np.random.Generator) -> Params:
    """Any settings together."""
    settings: dict[str, list[Any]] = {
        "learning_rate": [0.1, 1.0, 0.07],
        "num_leaves": [2, 7, 31],
        "max_depth": [-1, -1, 2, 4],
        "min_data_in_leaf": [20, 5, 3],
        "min_sum_hessian_in_leaf": [1e-3, 1.0, 5.0],
        "min_gain_to_split": [0.0, 0.0, 0.5],
        "lambda_l1": [0.0, 0.0, 0.3, 2.0],
        "lambda_l2": [0.0, 0.0, 0.1, 5.0],
        "max_delta_step": [0.0, 0.0, 0.1, 0.7],
        "path_smooth": [0.0, 0.0, 0.0, 2.0],
        "max_cat_to_onehot": [1, 4, 4, 50],
        "max_cat_threshold": [32, 2, 5],
        "cat_smooth": [10.0, 0.4, 3.0],
        "cat_l2": [10.0, 0.0],
        "min_data_per_group": [100, 1, 20],
        "num_threads": [1, 1, 2],
        "force_row_wise": [False, True],
        "deterministic": [False, True],
        "extra_trees": [False, False, True],
        "feature_fraction": [1.0, 1.0, 0.6],
        "feature_fraction_bynode": [1.0, 1.0, 0.6],
    }
    drawn: dict[str, Any] = {
        name: values[rng.integers(len(values))] for name, values in settings.items()
    }
    n_columns = table.X.shape[1]
    if rng.random() < 0.3:
        direction = rng.integers(-1, 2, n_columns)
        direction[list(table.categorical)] = 0
        drawn["monotone_constraints"] = tuple(direction.tolist())
        drawn["monotone_penalty"] = float(rng.choice([0.0, 0.0, 0.5, 2.0]))
    if rng.random() < 0.3:
        groups = (np.flatnonzero(rng.random(n_columns) < 0.6).tolist() for _ in range(2))
        drawn["interaction_constraints"] = tuple(tuple(group) for group in groups if group)
    if rng.random() < 0.2:
        drawn["feature_contri"] = tuple(rng.choice([1.0, 0.5, 0.9], n_columns).tolist())
    return Params(**drawn)


@pytest.mark.parametrize("seed", range(80))
def test_trees_equal_lightgbms_whatever_the_table_and_the_settings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    gradient, hessian = random_gradients(len(table.X), rng)
    params = random_params(table, rng)

    def loss(margin: np.ndarray, y: np.ndarray) -> Gradients:
        return gradient + hessian * margin, hessian

    compare(table, loss, params, n_rounds=2)
