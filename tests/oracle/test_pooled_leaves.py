# SPDX-License-Identifier: Apache-2.0
"""Partially pooled leaves against the formula, row by row; and what they must equal at its ends."""

import pickle

import lightgbm
import numpy as np
import pytest
import xgboost

import mtboost
from mtboost import _core
from mtboost.errors import DataError, ParameterError
from mtboost.trees.pooled_leaves import pool_leaves
from mtboost.trees.pooling import between_task_pooling
from mtboost.trees.task_values import TaskValues
from mtboost.xgboost.library import version

_rng = np.random.default_rng(0)
N_TASKS = 5


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 4)).astype(np.float32)
    task = rng.integers(0, N_TASKS, n_rows) * rng.integers(0, 2, n_rows)  # task 0 is large
    y = np.sin(4 * X[:, 0]) + 0.5 * (task - 2) * X[:, 1] + 0.3 * rng.normal(size=n_rows)
    return X, y.astype(np.float32), task


X, Y, TASK = rows(600, 1)
X_NEW, Y_NEW, TASK_NEW = rows(300, 2)


# The kernel against a slow twin -------------------------------------------------------------------


def naive_task_values(pooled, leaves, codes, pairs, pooling, learning_rate):
    """(leaf, task) -> value, by the definition of δ_t."""
    values = {}
    for leaf in range(len(pooled)):
        for task in range(codes.max() + 1):
            own = (leaves == leaf) & (codes == task)
            G, H = pairs[own].astype(float).sum(axis=0)
            if H > 0:
                w = pooled[leaf] / learning_rate
                delta = -(G + H * w) / (H + pooling)
                values[leaf, task] = learning_rate * (w + delta)
    return values


def test_values_of_rows_are_those_of_the_table_of_all_tasks():
    leaf, task = np.array([2, 2, 3, 4], np.int32), np.array([0, 5, 1, 0], np.int32)
    values = TaskValues(leaf, task, np.arange(1.0, 5.0), 0.1)
    pooled = -np.arange(5.0)
    leaves, codes = np.meshgrid([2, 3, 4], [-1, 0, 1, 4, 5])
    few, many = leaves.ravel(), codes.ravel()
    for n_repeats in (1, 1000):  # by search, and in a table
        rows = np.tile(few, n_repeats), np.tile(many, n_repeats)
        found = values.of_rows(pooled, *rows, n_tasks=500)
        np.testing.assert_array_equal(found, values.table(pooled, 500)[rows])


@pytest.mark.parametrize("pooling", [0.0, 1.5, 1e3])
@pytest.mark.parametrize("n_left_out", [0, 40])
def test_values_are_those_of_the_formula(pooling, n_left_out):
    n_rows, n_nodes = 200, 7
    leaves = _rng.integers(3, n_nodes, n_rows).astype(np.int32)
    leaves[:n_left_out] = ~leaves[:n_left_out]  # rows that took no part
    codes = _rng.integers(0, 6, n_rows).astype(np.int32)
    pairs = np.stack([_rng.normal(size=n_rows), _rng.random(n_rows)], 1).astype(np.float32)
    pairs[60:70] = 0.0  # rows without weight
    pooled = _rng.normal(size=n_nodes)
    found = pool_leaves(pooled, leaves, codes, pairs, n_tasks=6, pooling=pooling, learning_rate=0.3)
    expected = naive_task_values(pooled, leaves, codes, pairs, pooling, 0.3)
    assert list(zip(found.leaf.tolist(), found.task.tolist(), strict=True)) == sorted(expected)
    np.testing.assert_allclose(found.value, [expected[key] for key in sorted(expected)], rtol=1e-9)
    table = found.table(pooled, 6)
    np.testing.assert_array_equal(table[:, 6], pooled)  # tasks that are not known
    for code in range(6):
        np.testing.assert_array_equal(found.of_task(pooled, code), table[:, code])


def test_sums_by_leaf_and_task_are_those_of_a_loop_over_the_rows():
    n_rows, n_nodes, n_tasks = 500, 9, 4
    leaves = _rng.integers(-n_nodes, n_nodes, n_rows).astype(np.int32)  # half took no part
    codes = _rng.integers(0, n_tasks - 1, n_rows).astype(np.int32)  # the last task has no rows
    pairs = _rng.random((n_rows, 2)).astype(np.float32)
    pairs[leaves == 5, 1] = 0.0
    sums = {}
    for leaf, task, (g, h) in zip(leaves.tolist(), codes.tolist(), pairs.tolist(), strict=True):
        if leaf >= 0:
            G, H = sums.get((leaf, task), (0.0, 0.0))
            sums[leaf, task] = G + g, H + h
    expected = sorted((*key, *both) for key, both in sums.items() if both[1] > 0.0)
    found = _core.sum_by_leaf_and_task(leaves, codes, pairs, n_nodes=n_nodes, n_tasks=n_tasks)
    assert list(zip(*(part.tolist() for part in found), strict=True)) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_row_gets_the_value_of_its_leaf_for_its_task(dtype):
    n_rows, n_nodes, n_tasks = 300, 6, 3
    leaves = _rng.integers(-n_nodes, n_nodes, n_rows).astype(np.int32)
    codes = _rng.integers(-1, n_tasks, n_rows).astype(np.int32)  # -1: not known
    values = _rng.normal(size=(n_nodes, n_tasks + 1))
    margins = _rng.normal(size=(n_rows, 2)).astype(dtype)
    expected = margins.copy()
    for row, (leaf, code) in enumerate(zip(leaves.tolist(), codes.tolist(), strict=True)):
        node = leaf if leaf >= 0 else -leaf - 1
        expected[row, 1] += dtype(values[node, code if code >= 0 else n_tasks])
    _core.add_leaf_values(values, leaves, margins, codes=codes, output=1, n_threads=1)
    np.testing.assert_array_equal(margins, expected)


def test_estimated_pooling_is_the_ratio_of_the_variances():
    # 40 leaves with 8 tasks each have 280 degrees of freedom between tasks, so that the estimate of
    # τ² has a standard deviation of 10%; the mean of 50 draws has one of 1.5%. 10% is six of them.
    rng = np.random.default_rng(0)
    n_leaves, n_tasks, n_each, tau, sigma = 40, 8, 12, 0.5, 2.0
    leaves = np.repeat(np.arange(n_leaves), n_tasks * n_each).astype(np.int32)
    codes = np.tile(np.repeat(np.arange(n_tasks), n_each), n_leaves).astype(np.int32)
    found = []
    for _ in range(50):
        effect = tau * rng.normal(size=(n_leaves, n_tasks))
        g = effect[leaves, codes] + sigma * rng.normal(size=len(leaves))
        pairs = np.stack([g, np.ones(len(g))], axis=1).astype(np.float32)
        pooled = np.zeros(n_leaves)
        found.append(between_task_pooling(pooled, leaves, codes, pairs, n_tasks=n_tasks))
    assert 1 / np.mean(1 / np.array(found)) == pytest.approx(sigma**2 / tau**2, rel=0.1)


def test_estimated_pooling_is_infinite_where_tasks_are_equal_in_every_leaf():
    leaves = np.repeat([1, 2], 40).astype(np.int32)
    codes = np.tile([0, 1], 40).astype(np.int32)
    g = np.tile([1.0, 1.0, -1.0, -1.0], 20)
    pairs = np.stack([g, np.ones(80)], axis=1).astype(np.float32)
    assert between_task_pooling(np.zeros(3), leaves, codes, pairs, n_tasks=2) == np.inf


# Whole models -------------------------------------------------------------------------------------


def fitted(library, y=Y, weight=None, **options):
    params = {"learning_rate": 0.3, "max_depth": 3, **options.pop("params", {})}
    return mtboost.fit(
        X,
        y,
        task=TASK,
        weight=weight,
        backend=library.name,
        **{
            "params": params,
            "split_score": "plain",
            "num_boost_round": 12,
            "specific_rounds": 0,
            "validation_fraction": 0,
            **options,
        },
        strategy="two-stage",
    )


def test_without_shrinkage_a_leaf_has_the_mean_residual_of_each_task(library):
    penalty = "reg_lambda" if library.name == "xgboost" else "lambda_l2"
    model = fitted(library, pooling=0, num_boost_round=1, params={penalty: 0, "learning_rate": 1.0})
    margins = model.predict_margin(X, task=TASK)
    leaves = leaf_numbers(library, model.common)
    for leaf in np.unique(leaves):
        for task in np.unique(TASK):
            own = (leaves == leaf) & (task == TASK)
            if own.any():
                np.testing.assert_allclose(margins[own], Y[own].mean(), rtol=1e-4, atol=1e-5)


def leaf_numbers(library, booster):
    if library.name == "xgboost":
        return booster.predict(xgboost.DMatrix(X), pred_leaf=True).ravel()
    return booster.predict(X, pred_leaf=True).ravel()


@pytest.mark.parametrize("own", ["reg:squarederror", "binary:logistic", "reg:absoluteerror"])
def test_much_pooling_is_the_pooled_model(library, own):
    y = (Y > 0).astype(np.float32) if own == "binary:logistic" else Y
    options = {"objective": library.own(own), "y": y}
    pooled = fitted(library, **options).predict_margin(X_NEW, task=TASK_NEW)
    almost = fitted(library, pooling=1e12, **options).predict_margin(X_NEW, task=TASK_NEW)
    # Shares of 1e-10 of offsets of order 1 in 12 rounds; float32 for XGBoost.
    np.testing.assert_allclose(almost, pooled, atol=2e-5)
    exactly = fitted(library, pooling=np.inf, **options).predict_margin(X_NEW, task=TASK_NEW)
    np.testing.assert_array_equal(exactly, pooled)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "binary:logistic"},
        {"objective": "multi:softprob"},
        {"objective": "reg:absoluteerror"},
        {"split_score": "entropy"},
        {"params": {"subsample": 0.7, "colsample_bytree": 0.5}},
        {"validation_fraction": 0.3, "specific_rounds": 10, "early_stopping_rounds": 3},
        {
            "validation_fraction": 0.3,
            "specific_rounds": 10,
            "early_stopping_rounds": 3,
            "refit": True,
        },
    ],
    ids=str,
)
def test_a_tasks_booster_gives_its_margins(library, options, tmp_path):
    options = dict(options)
    y = Y
    if objective := options.get("objective"):
        options["objective"] = library.own(objective)
        if objective == "binary:logistic":
            y = (Y > 0).astype(np.float32)
        if objective == "multi:softprob":
            y = np.digitize(Y, [-0.5, 0.5]).astype(np.float32)
    if library.name == "lightgbm" and "params" in options:
        options["params"] = {"bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.5}
    model = fitted(library, y=y, pooling=3.0, **options)
    margins = model.predict_margin(X_NEW, task=TASK_NEW)
    assert not np.array_equal(
        margins, model.predict_margin(X_NEW, task=["new"] * 300, unknown_task="common")
    )
    for task in range(N_TASKS):
        own = task == TASK_NEW
        np.testing.assert_allclose(
            library.margins(model.booster(task), X_NEW[own]), margins[own], atol=library.atol
        )
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(again.predict_margin(X_NEW, task=TASK_NEW), margins)
    np.testing.assert_array_equal(
        again.predict_margin({2: X_NEW})[2][TASK_NEW == 2], margins[TASK_NEW == 2]
    )
    assert again.common_trees.pooled.pooling == 3.0


def test_an_unknown_task_has_the_pooled_values(library):
    model = fitted(library, pooling=1.0)
    found = model.predict_margin(X_NEW, task=["new"] * 300, unknown_task="common")
    np.testing.assert_allclose(library.margins(model.common, X_NEW), found, atol=library.atol)


@pytest.mark.parametrize("own", ["reg:squarederror", "binary:logistic", "reg:absoluteerror"])
def test_a_new_task_with_the_rows_of_another_gets_its_values(library, own):
    if own == "reg:absoluteerror" and library.name == "xgboost" and version() >= (3, 4):
        pytest.skip("gradients have the scale of all residuals, which the new task does not know")
    y = (Y > 0).astype(np.float32) if own == "binary:logistic" else Y
    model = fitted(library, pooling=3.0, objective=library.own(own), y=y)
    model.add_task(99, X[TASK == 2], y[TASK == 2], validation_fraction=0, specific_rounds=0)
    margins = model.predict_margin({2: X_NEW, 99: X_NEW})
    np.testing.assert_allclose(margins[99], margins[2], atol=1e-5)
    np.testing.assert_allclose(
        library.margins(model.booster(99), X_NEW), margins[99], atol=library.atol
    )


def test_a_new_task_with_few_rows_stays_near_the_pool(library):
    model = fitted(library, pooling=10.0)
    far = Y_NEW[:3] + 100.0
    model.add_task(99, X_NEW[:3], far, validation_fraction=0, specific_rounds=0)
    found = model.predict_margin({99: X_NEW[:3]})[99]
    pooled = model.predict_margin(X_NEW[:3], task=["new"] * 3, unknown_task="common")
    # Of a residual of about 100, a round of rate .3 takes at most 3 / (3 + 10) in a leaf.
    n_rounds = 12
    assert (np.abs(found - pooled) < 101.0 * (1 - (1 - 0.3 * 3 / 13) ** n_rounds)).all()
    assert (found > pooled).all()


@pytest.mark.parametrize("pooling", [5.0, "auto"])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_a_common_model_that_no_task_uses_has_a_booster_for_each(
    library, pooling, n_classes, tmp_path
):
    y, start = _rng.normal(size=600), np.zeros((600, n_classes)).squeeze()
    options = {"strategy": "two-stage", "specific_rounds": 0, "num_boost_round": 2}
    if n_classes > 1:
        y, options["objective"] = np.arange(600) % 3, library.multiclass
    options["params"] = {"learning_rate": 9.0}  # no round helps
    model = mtboost.fit(
        X, y, task=TASK, base_margin=start, pooling=pooling, backend=library.name, **options
    )
    assert not any(model.quit_round.values())
    without_start = pytest.warns(UserWarning, match="trained with base_margin")
    with without_start:  # as the boosters are evaluated
        margins = model.predict_margin(X_NEW, task=TASK_NEW)
    assert np.ptp(margins) == 0
    for task in model.tasks:
        found = library.margins(model.booster(task), X_NEW)
        np.testing.assert_array_equal(found.reshape(margins.shape), margins)
    contributions = model.contributions(X_NEW, task=TASK_NEW)
    np.testing.assert_allclose(contributions.sum(-1), margins, atol=1e-6)
    model.save(tmp_path / "model")
    again = mtboost.load_model(tmp_path / "model")
    again.add_task(99, X[:40], y[:40], base_margin=start[:40], specific_rounds=0)
    with without_start:
        np.testing.assert_array_equal(again.predict_margin({99: X_NEW})[99], margins)


def test_a_weight_counts_as_so_many_rows():
    weight = _rng.integers(1, 4, len(X))
    options = {"strategy": "two-stage", "split_score": "plain", "pooling": 5.0}
    options |= {"num_boost_round": 3, "specific_rounds": 0, "validation_fraction": 0}
    # a bin for each value
    options["params"] = {"learning_rate": 0.3, "max_depth": 3, "max_bin": 1024}
    weighted = mtboost.fit(X, Y, task=TASK, weight=weight, **options)
    rows = np.repeat(np.arange(len(X)), weight)
    repeated = mtboost.fit(X[rows], Y[rows], task=TASK[rows], **options)
    np.testing.assert_allclose(
        weighted.predict_margin(X_NEW, task=TASK_NEW),
        repeated.predict_margin(X_NEW, task=TASK_NEW),
        atol=1e-4,
    )


def test_the_same_bytes_for_any_number_of_threads(library, tmp_path):
    files = []
    for n_threads in (1, 2):
        model = fitted(library, pooling="auto", n_threads=n_threads)
        model.save(tmp_path / str(n_threads))
        files.append((tmp_path / str(n_threads)).read_bytes())
    assert files[0] == files[1]


# The plug-ins -------------------------------------------------------------------------------------


def test_training_evaluates_each_task_by_its_own_values(library):
    train, history, callbacks = library.matrix(X, Y), {}, []
    if library.name == "xgboost":
        valid = xgboost.DMatrix(X_NEW, Y_NEW)
        options = {"evals": [(train, "train"), (valid, "valid")], "evals_result": history}
        options |= {"verbose_eval": False}
    else:
        valid = library.matrix(X_NEW, Y_NEW, reference=train)
        options = {"valid_sets": [train, valid], "valid_names": ["train", "valid"]}
        callbacks = [lightgbm.record_evaluation(history)]
    split = library.plugin.TaskSplit(
        TASK, split_score="plain", pooling=2.0, valid_tasks=[(valid, TASK_NEW)]
    )
    options["callbacks"] = [split, *callbacks]
    params = {"max_depth": 3, "eval_metric" if library.name == "xgboost" else "metric": "rmse"}
    booster = library.boost(library.squared_error, params, train, 10, **options)
    for name, X_eval, y, task in [("train", X, Y, TASK), ("valid", X_NEW, Y_NEW, TASK_NEW)]:
        found = np.empty(len(y))
        for number in range(N_TASKS):
            own = task == number
            found[own] = library.margins(split.booster(booster, number), X_eval[own])
        expected = np.sqrt(np.mean((found - y) ** 2))
        rel = 1e-5 if library.name == "xgboost" else 1e-6
        assert history[name]["rmse"][-1] == pytest.approx(expected, rel=rel)


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", [-1.0, "much", True, float("nan"), [1.0]])
def test_pooling_must_be_a_number_from_0(library, pooling):
    with pytest.raises(ParameterError, match="pooling must be"):
        fitted(library, pooling=pooling)


def test_an_unknown_task_has_no_booster():
    split = mtboost.xgboost.TaskSplit(TASK, split_score="plain", pooling=2.0)
    booster = xgboost.train({}, xgboost.DMatrix(X, Y), 2, callbacks=[split])
    with pytest.raises(DataError, match="99"):
        split.booster(booster, 99)


def test_a_booster_of_an_earlier_training_is_refused(library, tmp_path):
    split = library.plugin.TaskSplit(TASK, split_score="plain", pooling=2.0)
    params = {"max_depth": 2, "learning_rate": 0.3}

    def train(**changes):
        train = library.matrix(X, Y)
        options = {"callbacks": [split]}
        return library.boost(library.squared_error, {**params, **changes}, train, 3, **options)

    first, last = train(), train(learning_rate=0.1)
    with pytest.raises(DataError, match="a new TaskSplit for each training"):
        split.booster(first, 1)
    known = library.margins(split.booster(last, 1), X_NEW)
    path = tmp_path / "model.json"
    last.save_model(path)
    kind = {"xgboost": xgboost, "lightgbm": lightgbm}[library.name].Booster
    read = split.booster(kind(model_file=path), 1)
    assert (library.margins(read, X_NEW) == known).all()
    pickled = pickle.loads(pickle.dumps(split)).booster(pickle.loads(pickle.dumps(last)), 1)
    assert (library.margins(pickled, X_NEW) == known).all()
