# SPDX-License-Identifier: Apache-2.0
"""TaskSplit on several machines trains the model of one machine."""

import functools
import json

import numpy as np
import pytest
import xgboost
from collective_workers import (
    continuous_errors,
    count_numbers,
    job,
    least_gain,
    make_rows,
    mean_prediction,
    parts_of,
    run_together,
    squared_error,
    take,
    train,
    train_by_task,
    train_with_prior,
    worker_pool,
)
from xgboost.core import XGBoostError

from mtboost.errors import TrainingError
from mtboost.xgboost import TaskQuitting

ROWS = make_rows()
VALID = make_rows(300, seed=1)
PARAMS = {"max_depth": 4, "objective": "reg:squarederror"}


@pytest.fixture(scope="module")
def pool():
    with worker_pool(4) as made:
        yield made


def document_of(raw):
    return json.loads(bytes(xgboost.Booster(model_file=bytearray(raw)).save_raw("json")))["learner"]


def assert_same_model(found, expected):
    """Structures are equal; numbers may differ by the order in which workers add them up."""
    found, expected = document_of(found), document_of(expected)
    assert found["attributes"].keys() == expected["attributes"].keys()
    trees, others = (each["gradient_booster"]["model"]["trees"] for each in (found, expected))
    assert len(trees) == len(others)
    for tree, other in zip(trees, others, strict=True):
        for name in ("split_indices", "left_children", "default_left", "categories"):
            assert tree[name] == other[name]
        for name in ("split_conditions", "sum_hessian"):
            np.testing.assert_allclose(tree[name], other[name], rtol=1e-6, atol=1e-6)


def assert_same_training(pool, rows=ROWS, *, n_workers=2, empty=False, parts=None, **options):
    """Train on all workers, and on one machine; return what the latter found."""
    expected, history = train(rows, **options)
    parts = parts or parts_of(rows, n_workers, empty=empty)
    done = run_together(pool, job(**options), parts)
    errors = [each for each in done if isinstance(each, Exception)]
    if errors:  # the one that has ended first, and the others only because of it
        raise min(errors, key=lambda error: isinstance(error, TrainingError | XGBoostError))
    for each in done:
        assert_same_model(each[0], expected)
        for name, metrics in history.items():
            for metric, values in metrics.items():
                np.testing.assert_allclose(each[1][name][metric], values, rtol=1e-5)
    return expected


SPLITS = {
    "entropy": {},
    "variance": {"split_score": "variance"},
    "variance with beta": {"split_score": "variance", "beta": 0.01},
    "callable": {"split_score": least_gain},
    "plain": {"split_score": "plain"},
    "pooling": {"pooling": 3.0},
    "estimated pooling": {"split_score": "plain", "pooling": "auto"},
    "symmetric": {"split_score": "plain", "symmetric_trees": True, "random_strength": 1.0},
}


@pytest.mark.parametrize("name", SPLITS)
def test_workers_train_the_model_of_one_machine(name, pool):
    assert_same_training(pool, params=PARAMS, split=SPLITS[name], valid=VALID)


@pytest.mark.parametrize("name", ["entropy", "variance", "pooling", "symmetric"])
def test_four_workers_one_without_rows_train_the_model_of_one_machine(name, pool):
    params = PARAMS
    if name == "variance":  # with all that has another path
        params = {**PARAMS, "grow_policy": "lossguide", "max_leaves": 7}
    assert_same_training(
        pool,
        params=params,
        split={**SPLITS[name], **({"pooling": 3.0} if name == "variance" else {})},
        kind="QuantileDMatrix,category",
        n_workers=4,
        empty=True,
        valid=VALID,
    )


def test_models_of_features_with_many_values_are_as_good_as_on_one_machine(pool):
    """Their bins differ. A difference of means beyond 4.3 standard errors (t, 9 degrees of freedom)
    has probability .002 where there is none."""
    seeds = list(range(10))
    alone = continuous_errors(seeds)
    for found in run_together(pool, continuous_errors, [seeds] * 2):
        difference = np.subtract(found, alone)
        assert np.abs(difference).max() > 0.0  # or nothing is compared
        assert abs(difference.mean()) < 4.3 * difference.std(ddof=1) / np.sqrt(len(seeds))
        assert difference.std(ddof=1) < 0.05 * np.mean(alone)


@pytest.mark.parametrize("name", ["entropy", "variance", "callable"])
def test_workers_that_share_no_task_train_the_model_of_one_machine(name, pool):
    options = {"params": PARAMS, "split": SPLITS[name]}
    parts = [take(ROWS, ROWS["task"] % 2 == rank) for rank in range(2)]
    assert_same_training(pool, parts=parts, **options)


@pytest.mark.parametrize("name", ["entropy", "variance"])
def test_workers_that_share_no_task_send_gains_instead_of_sums_of_tasks(name, pool):
    rows = {**make_rows(3000), "task": (np.arange(3000) % 400).astype(np.float32)}
    sent = []
    for owner in (rows["task"] % 2, np.arange(3000) // 1500):
        parts = [take(rows, owner == rank) for rank in range(2)]
        sent.append(run_together(pool, count_numbers, [(p, SPLITS[name]) for p in parts])[0])
    gains, sums = sent[0]["gains of candidate splits"], sent[1]["task sums of candidate splits"]
    assert 0 < 20 * gains < sums


@pytest.mark.parametrize("name", ["entropy", "variance", "plain"])
def test_tasks_on_one_worker_each_cost_a_tenth_of_the_histograms_at_most(name, pool):
    rng = np.random.default_rng(0)
    task = np.arange(12_000) % 20
    X = rng.integers(0, 256, (len(task), 20)).astype(np.float32)
    y = X[:, 0] * (1 + task % 3) / 256 + X[:, 1] * X[:, 2] / 256**2 + rng.normal(0, 0.3, len(task))
    rows = {"X": X, "y": y.astype(np.float32), "task": task.astype(np.float32)}
    parts = [(take(rows, task % 2 == rank), SPLITS[name]) for rank in range(2)]
    sent = run_together(pool, functools.partial(count_numbers, max_depth=6), parts)[0]
    assert 0 < sent["sent"] <= 1.1 * sent["histograms"]


FIRST = bytearray(
    xgboost.train({"max_depth": 2}, xgboost.DMatrix(ROWS["X"], ROWS["y"]), 2).save_raw("ubj")
)
OPTIONS = {
    "loss-guided": {"params": {**PARAMS, "grow_policy": "lossguide", "max_leaves": 7}},
    "logistic": {"params": {"objective": "binary:logistic", "max_depth": 3}},
    "Poisson": {"params": {"objective": "count:poisson", "max_depth": 3}},
    "classes": {"params": {"objective": "multi:softprob", "num_class": 3, "max_depth": 2}},
    "own objective": {"params": {"max_depth": 3, "base_score": 0.1}, "obj": squared_error},
    "own metric": {"params": {**PARAMS, "base_score": 0.5}, "custom_metric": mean_prediction},
    "DMatrix": {"params": PARAMS, "kind": "DMatrix"},
    "categories": {"params": PARAMS, "kind": "QuantileDMatrix,category"},
    "task splits": {
        "params": PARAMS,
        "kind": "QuantileDMatrix,category",
        "split": {"split_score": "plain", "task_column": 4, "task_splits": 0.5},
    },
    "early stopping": {"params": PARAMS, "early_stopping_rounds": 1, "n_rounds": 30},
    "a model to continue": {"params": PARAMS, "xgb_model": FIRST},
    "base margins": {"params": PARAMS},
    "columns drawn": {"params": {**PARAMS, "colsample_bynode": 0.5, "seed": 3}},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_what_xgboost_offers_works_on_several_workers(name, pool):
    rows = dict(ROWS)
    if name == "logistic":
        rows["y"] = (rows["y"] > 0.5).astype(np.float32)
    if name == "Poisson":
        rows["y"] = np.round(np.abs(rows["y"]))
    if name == "base margins":
        rows["base_margin"] = rows["y"] / 2
    if name == "classes":
        rows["y"] = np.digitize(rows["y"], [0.3, 0.8]).astype(np.float32)
    valid = None
    if name in ("early stopping", "DMatrix"):
        valid = VALID
    options = {"split": {}, "valid": valid, **OPTIONS[name]}
    assert_same_training(pool, rows, n_workers=3, empty=True, **options)


def test_pooled_leaves_send_no_numbers_for_inner_nodes(pool):
    parts = [(part, {"split_score": "plain", "pooling": 3.0}) for part in parts_of(ROWS, 2)]
    sent = run_together(pool, count_numbers, parts)[0]["task sums of the leaves"]
    n_tasks, n_nodes, n_leaves, n_rounds = 5, 31, 16, 3
    of_all_rows = 1  # the mean hessian of a task
    assert 0 < sent <= of_all_rows + n_rounds * (n_nodes + 2 * n_tasks * n_leaves)


GROWN_BY_XGBOOST = {
    "approx": {"params": {**PARAMS, "tree_method": "approx"}, "kind": "DMatrix"},
    "approx with categories": {
        "params": {**PARAMS, "tree_method": "approx"},
        "kind": "DMatrix,category",
    },
    "vector leaves": {
        "params": {
            "objective": "multi:softprob",
            "num_class": 3,
            "max_depth": 3,
            "multi_strategy": "multi_output_tree",
        }
    },
}


@pytest.mark.parametrize("name", GROWN_BY_XGBOOST)
def test_pooled_leaves_of_xgboosts_own_trees_are_those_of_one_machine(name, pool):
    rows = dict(ROWS)
    if name == "vector leaves":
        rows["y"] = np.digitize(rows["y"], [0.3, 0.8]).astype(np.float32)
    split = {"split_score": "plain", "pooling": 3.0}
    options = {"split": split, **GROWN_BY_XGBOOST[name]}
    assert_same_training(pool, rows, n_workers=3, empty=True, **options)


BY_TASK = {
    "balanced": {
        "objective": "reg:squarederror",
        "metric": "rmse",
        "task_weight": "balanced",
        "params": {"base_score": 0.3},
    },
    "ranked": {"objective": "binary:logistic", "metric": "auc", "params": {"base_score": 0.3}},
    "classes": {
        "objective": "multi:softprob",
        "metric": "mlogloss",
        "params": {"num_class": 3, "base_score": 0.5},
    },
    "entropy": {"objective": "binary:logistic", "metric": "auc", "params": {}, "split": {}},
    "pooling": {
        "objective": "reg:squarederror",
        "metric": "mae",
        "params": {},
        "split": {"split_score": "plain", "pooling": 3.0},
    },
}


@pytest.mark.parametrize(
    ("name", "spread"),
    [*((name, True) for name in BY_TASK), ("ranked", False)],
    ids=lambda value: {True: "tasks on all", False: "tasks on one each"}.get(value, value),
)
def test_tasks_weigh_and_quit_on_several_workers_as_on_one_machine(name, spread, pool):
    options = BY_TASK[name]
    rows, valid = dict(ROWS), make_rows(600, seed=1)
    for own in (rows, valid):
        if options["objective"] != "reg:squarederror":
            edges = [0.3, 0.8] if name == "classes" else [0.5]
            own["y"] = np.digitize(own["y"], edges).astype(np.float32)
    raw, history, quit_round = train_by_task((rows, valid), **options)
    assert len(set(quit_round.values())) > 1  # or quitting is not tested
    if spread:
        parts = zip(*(parts_of(own, 3, empty=True) for own in (rows, valid)), strict=True)
    else:
        owned = ([take(own, own["task"] % 2 == rank) for rank in range(2)] for own in (rows, valid))
        parts = zip(*owned, strict=True)
    done = run_together(pool, functools.partial(train_by_task, **options), list(parts))
    for each in done:
        if isinstance(each, Exception):
            raise each
        trees = document_of(each[0])["gradient_booster"]["model"]["trees"]
        expected = document_of(raw)["gradient_booster"]["model"]["trees"]
        assert [tree["split_indices"] for tree in trees] == [
            tree["split_indices"] for tree in expected
        ]
        for tree, other in zip(trees, expected, strict=True):
            numbers = tree["split_conditions"], other["split_conditions"]
            np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-6)
        assert each[2] == quit_round
        returned = TaskQuitting.quit_round_of(xgboost.Booster(model_file=bytearray(each[0])))
        assert returned == quit_round
        for of_matrix, metrics in history.items():
            for metric, values in metrics.items():
                np.testing.assert_allclose(each[1][of_matrix][metric], values, rtol=1e-5)


@pytest.mark.parametrize("split", [None, {}], ids=["XGBoost's trees", "entropy"])
def test_features_are_drawn_alike_on_several_workers(split, pool):
    job = functools.partial(train_with_prior, dynamic=split is None, split=split)
    expected = job(ROWS)
    for raw in run_together(pool, job, parts_of(ROWS, 3, empty=True)):
        if isinstance(raw, Exception):
            raise raw
        assert_same_model(raw, expected)
