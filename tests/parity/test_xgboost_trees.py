# SPDX-License-Identifier: Apache-2.0
"""With the plain score, TaskSplit grows in ``xgboost.train`` the very trees XGBoost grows.

Compared is the whole model document: structures, default directions, thresholds, categories, leaf
values, gains, covers, start score, names and attributes. Not compared are sampled trees: XGBoost's
draws depend on the C++ library it was built with (tests/robustness/test_sampling.py has their law).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn.datasets
import xgboost
from model_documents import assert_same_model, trees
from parity.test_naive_twin_is_xgboost import (
    random_gradients,
    random_params,
    random_table,
    stock_parameters,
)

from mtboost.base.checked_tables import as_table
from mtboost.xgboost import TaskSplit
from mtboost.xgboost.library import check_readable

N_ROUNDS = 3


pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


@dataclass(frozen=True, eq=False)
class Problem:
    X: Any
    y: np.ndarray
    weight: np.ndarray | None = None
    feature_types: list[str] | None = None

    def matrix(self, kind=xgboost.QuantileDMatrix, *, max_bin=None):
        own = {"max_bin": max_bin} if kind is xgboost.QuantileDMatrix else {}
        return kind(
            self.X,
            self.y,
            weight=self.weight,
            feature_types=self.feature_types,
            enable_categorical=True,
            nthread=1,
            **own,
        )


def make_problems():
    rng = np.random.default_rng(0)
    n = 400
    X = rng.normal(size=(n, 6))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=n)
    missing = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    codes = np.column_stack([rng.integers(0, k, n) for k in (3, 30, 150)]).astype(float)
    mixed = np.column_stack([X[:, :2], codes])
    y_mixed = y + 0.5 * (codes[:, 0] == 1) + np.sin(codes[:, 1]) + np.cos(codes[:, 2])
    categories = ["float"] * 2 + ["c"] * 3
    mixed_missing = np.where(rng.random(mixed.shape) < 0.15, np.nan, mixed)
    twice = np.column_stack([X[:, :3], X[:, :3] > 0, X[:, :3] > 0, X[:, 0]])
    no_use = np.column_stack([np.ones(n), X[:, :3], np.full(n, np.nan), np.zeros(n)])
    digits = sklearn.datasets.load_digits()
    # Few values a row: these take the sparse layout.
    words = np.where(rng.random((n, 60)) < 0.09, rng.integers(1, 9, (n, 60)), 0)
    y_words = words[:, :20].sum(axis=1) + rng.normal(size=n)
    rare = np.where(rng.random(mixed.shape) < 0.93, np.nan, mixed)
    return {
        "diabetes": Problem(*sklearn.datasets.load_diabetes(return_X_y=True)),
        "breast cancer": Problem(*sklearn.datasets.load_breast_cancer(return_X_y=True)),
        "wine": Problem(*sklearn.datasets.load_wine(return_X_y=True)),
        "digits": Problem(digits.data[:n], digits.target[:n] == 3),
        "dense": Problem(X, y),
        "20 % missing": Problem(missing, y),
        "ties": Problem(np.round(X), y),
        "duplicate columns": Problem(twice, y),
        "constant and all-missing columns": Problem(no_use, y),
        "weights": Problem(X, y, rng.random(n)),
        "weights, some zero, and missing": Problem(missing, y, rng.integers(0, 3, n)),
        # Sums of doubles then depend on their order, which must be XGBoost's.
        "weights of many sizes": Problem(missing, y, np.exp(9 * rng.normal(size=n))),
        "categories": Problem(mixed, y_mixed, None, categories),
        "categories and missing": Problem(mixed_missing, y_mixed, None, categories),
        "CSR": Problem(scipy.sparse.csr_array(np.where(abs(X) > 1, X, 0)), y),
        "words": Problem(scipy.sparse.csr_array(words), y_words),
        "rare values and categories": Problem(rare, y_mixed, None, categories),
    }


PROBLEMS = make_problems()
SIGNS = (1, 0, -1)
LOSSGUIDE = {"grow_policy": "lossguide"}
PARAMETERS = {
    "depth 4": {"max_depth": 4},
    "depth 8, step 1": {"max_depth": 8, "eta": 1.0},
    "depth 5, 11 leaves": {"max_depth": 5, "max_leaves": 11},
    "31 leaves by loss": {**LOSSGUIDE, "max_depth": 0, "max_leaves": 31},
    "9 leaves and depth 3 by loss": {**LOSSGUIDE, "max_depth": 3, "max_leaves": 9},
    "lambda 0": {"max_depth": 4, "reg_lambda": 0},
    "lambda 0, any child": {"max_depth": 4, "reg_lambda": 0, "min_child_weight": 0},
    "alpha": {"max_depth": 5, "alpha": 3},
    "alpha and lambda by loss": {**LOSSGUIDE, "max_leaves": 9, "alpha": 1, "lambda": 5},
    "gamma": {"max_depth": 5, "gamma": 2},
    "gamma by loss": {**LOSSGUIDE, "max_depth": 5, "gamma": 5},
    "min_child_weight": {"min_child_weight": 20},
    "max_delta_step": {"max_delta_step": 0.3},
    "max_delta_step and alpha": {"max_delta_step": 0.3, "alpha": 2},
    "monotone": {"max_depth": 4, "monotone_constraints": SIGNS},
    "monotone by loss": {**LOSSGUIDE, "max_leaves": 9, "monotone_constraints": SIGNS, "alpha": 1},
    "monotone, max_delta_step": {"monotone_constraints": SIGNS, "max_delta_step": 0.2},
    "interactions": {"max_depth": 4, "interaction_constraints": "[[0, 1], [1, 2], [2]]"},
    "interactions of no features": {"max_depth": 4, "interaction_constraints": "[]"},
    "interactions by loss": {**LOSSGUIDE, "interaction_constraints": "[[0, 1], [1, 2]]"},
    "16 bins": {"max_bin": 16},
    "64 bins": {"max_bin": 64},
    "base_score": {"base_score": 0.25},
    "2 threads": {"nthread": 2},
}
CATEGORY_PARAMETERS = {
    "one-hot": {"max_cat_to_onehot": 200},
    "partition": {"max_cat_to_onehot": 1},
    "small partitions": {"max_cat_to_onehot": 1, "max_cat_threshold": 5},
    "partition, alpha": {"max_cat_to_onehot": 1, "alpha": 2},
    "partition, max_delta_step": {"max_cat_to_onehot": 1, "max_delta_step": 0.3},
    "partition, min_child_weight": {"max_cat_to_onehot": 2, "min_child_weight": 15},
    "partition, lambda 0": {"max_cat_to_onehot": 1, "lambda": 0, "min_child_weight": 0},
    "partition by loss": {**LOSSGUIDE, "max_cat_to_onehot": 1, "max_leaves": 12},
}


def three_tasks(n_rows):
    return np.random.default_rng(1).choice(["a", "b", "c"], n_rows, p=[0.7, 0.2, 0.1])


def train(params, matrix, *, score="plain", task=None, n_rounds=N_ROUNDS, **options):
    task = three_tasks(matrix.num_row()) if task is None else task
    callbacks = [TaskSplit(task, split_score=score)]
    return xgboost.train({"nthread": 1, **params}, matrix, n_rounds, callbacks=callbacks, **options)


def assert_parity(params, make_matrix, **options):
    ours = train(params, make_matrix(), **options)
    stock = xgboost.train({"nthread": 1, **params}, make_matrix(), N_ROUNDS, **options)
    assert any(len(tree["left_children"]) > 1 for tree in trees(stock)), "nothing to compare"
    assert_same_model(ours, stock)


@pytest.mark.parametrize("params", PARAMETERS.values(), ids=PARAMETERS)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_plain_trees_are_those_of_hist(problem, params):
    assert_parity(params, lambda: problem.matrix(max_bin=params.get("max_bin")))


@pytest.mark.parametrize("params", CATEGORY_PARAMETERS.values(), ids=CATEGORY_PARAMETERS)
@pytest.mark.parametrize(
    "name", ["categories", "categories and missing", "rare values and categories"]
)
def test_categories_are_split_as_by_hist(name, params):
    assert_parity(params, PROBLEMS[name].matrix)


@pytest.mark.parametrize("params", [{}, {**LOSSGUIDE, "max_leaves": 20, "max_bin": 16}])
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_dmatrix_gives_the_trees_of_hist(problem, params):
    assert_parity(params, lambda: problem.matrix(xgboost.DMatrix))


@pytest.mark.parametrize("seed", range(30))
def test_trees_are_those_of_hist_whatever_the_table_and_the_settings(seed):
    rng = np.random.default_rng(1000 + seed)
    table = random_table(rng)
    n_rows, n_features = table.X.shape
    gradient, hessian = random_gradients(n_rows, rng)
    params = {**stock_parameters(random_params(n_features, rng)), "base_score": 0.0}
    params |= {"max_bin": int(rng.choice([4, 16, 256])), "nthread": 1}
    kind = xgboost.DMatrix if rng.random() < 0.5 else xgboost.QuantileDMatrix
    problem = Problem(table.X, table.y, None, table.feature_types)

    def objective(margin, data):
        return gradient + hessian * margin, hessian

    def trained(callbacks):
        matrix = problem.matrix(kind, max_bin=params["max_bin"])
        return xgboost.train(params, matrix, N_ROUNDS, obj=objective, callbacks=callbacks)

    ours = trained([TaskSplit(three_tasks(n_rows), split_score="plain")])
    assert_same_model(ours, trained([]))


def as_binary(y):
    return y > np.median(y)


def as_classes(y):
    return np.digitize(y, np.quantile(y, [0.4, 0.7]))


def as_counts(y):
    return np.random.default_rng(2).poisson(np.exp(np.clip(y, -2, 2) / 2))


OBJECTIVES = {
    "reg:squarederror": ({}, lambda y: y),
    "reg:squaredlogerror": ({}, as_counts),
    "reg:absoluteerror": ({}, lambda y: y),
    "reg:quantileerror": ({"quantile_alpha": 0.8}, lambda y: y),
    "reg:quantileerror, three levels": ({"quantile_alpha": [0.1, 0.5, 0.95]}, lambda y: y),
    "reg:pseudohubererror": ({"huber_slope": 0.5}, lambda y: y),
    "reg:logistic": ({}, lambda y: 1 / (1 + np.exp(-y))),
    "reg:gamma": ({}, lambda y: np.exp(y / 3)),
    "reg:tweedie": ({"tweedie_variance_power": 1.3}, as_counts),
    "count:poisson": ({}, as_counts),
    "count:poisson, own max_delta_step": ({"max_delta_step": 0.2}, as_counts),
    "binary:logistic": ({"scale_pos_weight": 2.5}, as_binary),
    "binary:logitraw": ({}, as_binary),
    "binary:hinge": ({}, as_binary),
    "multi:softprob": ({"num_class": 3}, as_classes),
    "multi:softmax": ({"num_class": 3}, as_classes),
    "reg:squarederror, two outputs": ({}, lambda y: np.column_stack([y, y**2])),
    "reg:absoluteerror, two outputs": ({}, lambda y: np.column_stack([y, y**2])),
    "binary:logistic, two outputs": ({}, lambda y: np.column_stack([y > 0, y > 1])),
}


@pytest.mark.parametrize("start", ["estimated", "base_score", "base_margin"])
@pytest.mark.parametrize("kind", [xgboost.QuantileDMatrix, xgboost.DMatrix])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_and_start_score_of_every_objective_are_those_of_xgboost(
    objective, weighted, kind, start
):
    params, make_labels = OBJECTIVES[objective]
    params = {**params, "objective": objective.partition(",")[0], "max_depth": 3}
    if start == "base_score":
        params["base_score"] = 0.3
    rng = np.random.default_rng(3)
    X, labels = PROBLEMS["20 % missing"].X, make_labels(PROBLEMS["20 % missing"].y)
    n_outputs = params.get("num_class", 1 if labels.ndim == 1 else labels.shape[1])
    n_outputs = max(n_outputs, np.size(params.get("quantile_alpha", 0.0)))
    weight = rng.random(len(X)) if weighted else None
    margins = rng.normal(size=(len(X), n_outputs)) if start == "base_margin" else None
    assert_parity(params, lambda: kind(X, labels, weight=weight, base_margin=margins, nthread=1))


def squared_error(margins, matrix):
    labels = matrix.get_label().reshape(margins.shape)
    return margins - labels, np.ones_like(margins)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("kind", [xgboost.QuantileDMatrix, xgboost.DMatrix])
def test_gradients_of_a_users_objective_give_the_trees_of_hist(kind, n_outputs):
    problem = PROBLEMS["20 % missing"]
    labels = problem.y if n_outputs == 1 else np.column_stack([problem.y, problem.y**2])
    assert_parity({}, lambda: kind(problem.X, labels, nthread=1), obj=squared_error)


def category_frame():
    rng = np.random.default_rng(4)
    n = 400
    color = rng.choice(["red", "green", "blue"], n)
    return pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "n_items": rng.integers(0, 5, n),
            "is_new": rng.random(n) < 0.5,
            "color": pd.Categorical(np.where(rng.random(n) < 0.1, None, color)),
            "shop": pd.Categorical(rng.choice([f"shop {k:02}" for k in range(40)], n)),
            "zone": pd.Categorical(rng.choice([10, 20, 30], n)),
        }
    )


def category_labels():
    frame = category_frame()
    shop = frame["shop"].cat.codes.to_numpy() % 7
    return frame["size"].to_numpy() + shop / 3 + (frame["color"] == "red") * frame["n_items"]


def arrow_table():
    frame = category_frame().drop(columns="zone")  # XGBoost reads dictionaries of strings only
    columns = {name: pa.array(frame[name], from_pandas=True) for name in frame}
    for name in ("color", "shop"):
        columns[name] = pa.array(frame[name].astype(object), pa.string(), from_pandas=True)
        columns[name] = columns[name].dictionary_encode()
    return pa.table(columns)


def polars_frame():
    frame = pl.from_pandas(category_frame().drop(columns="zone"))
    enums = {
        name: pl.Enum(frame[name].cast(str).unique().drop_nulls().sort())
        for name in ("color", "shop")
    }
    return frame.cast(enums)


FRAMES = {"pandas": category_frame, "polars": polars_frame, "pyarrow": arrow_table}


@pytest.mark.parametrize("kind", [xgboost.QuantileDMatrix, xgboost.DMatrix])
@pytest.mark.parametrize("make_frame", FRAMES.values(), ids=FRAMES)
def test_a_data_frame_with_categories_gives_the_model_of_hist(make_frame, kind):
    frame, labels = make_frame(), category_labels()
    check_readable(as_table(frame))
    assert_parity({}, lambda: kind(frame, labels, enable_categorical=True, nthread=1))


NAMED_CONSTRAINTS = {
    "monotone": {"monotone_constraints": {"size": -1, "n_items": 1}},
    "interactions": {"interaction_constraints": [["size", "shop"], ["color", "n_items"]]},
}


@pytest.mark.parametrize("params", NAMED_CONSTRAINTS.values(), ids=NAMED_CONSTRAINTS)
def test_constraints_by_name_are_those_of_hist(params):
    frame, labels = category_frame(), category_labels()
    check_readable(as_table(frame))

    def matrix():
        return xgboost.QuantileDMatrix(frame, labels, enable_categorical=True)

    assert_parity(params, matrix)
    assert trees(train(params, matrix())) != trees(train({}, matrix()))


ARRAYS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "int": lambda X: np.nan_to_num(X * 3).astype(int),
    "Fortran order": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "CSC": scipy.sparse.csc_array,
}


@pytest.mark.parametrize("with_table", [False, True])
@pytest.mark.parametrize("convert", ARRAYS.values(), ids=ARRAYS)
def test_values_are_binned_alike_wherever_they_lie(convert, with_table):
    # 1e-9 apart is one value in float32, which XGBoost stores, but two in float64.
    X = PROBLEMS["20 % missing"].X
    X = convert(np.round(X, 1) + 1e-9 * np.random.default_rng(5).integers(0, 2, X.shape))
    labels = PROBLEMS["20 % missing"].y
    split = TaskSplit(
        three_tasks(len(labels)), split_score="plain", table=X if with_table else None
    )
    params = {"nthread": 1}
    ours = xgboost.train(params, xgboost.QuantileDMatrix(X, labels), N_ROUNDS, callbacks=[split])
    assert_same_model(ours, xgboost.train(params, xgboost.QuantileDMatrix(X, labels), N_ROUNDS))


def test_trees_of_many_rows_are_those_of_hist_for_any_number_of_threads():
    rng = np.random.default_rng(6)
    n = 70_000  # more than one block of rows (65 536), and more than XGBoost gives one thread
    X = np.where(rng.random((n, 4)) < 0.1, np.nan, rng.normal(size=(n, 4)))
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + rng.normal(size=n)
    matrix = xgboost.QuantileDMatrix(X, y)
    stock = xgboost.train({"nthread": 1}, matrix, N_ROUNDS)
    for n_threads in (1, 2, 3):
        assert trees(train({"nthread": n_threads}, matrix)) == trees(stock)


def gain_of_the_task(s, task_gains):
    return task_gains[:, 0]


# s of a cut and s^t of its only task are sums in another order, which shows where weights differ
# by many decades: gain_of_the_task is not asked there.
SCORES_OVER_ONE_TASK = [
    (name, score)
    for name in ("dense", "20 % missing", "categories and missing", "words")
    for score in ("entropy", "variance", gain_of_the_task)
] + [("weights of many sizes", "entropy"), ("weights of many sizes", "variance")]


@pytest.mark.parametrize("params", [{}, {**LOSSGUIDE, "max_leaves": 20}, {"alpha": 2, "lambda": 0}])
@pytest.mark.parametrize(("name", "score"), SCORES_OVER_ONE_TASK)
def test_scores_over_one_task_grow_the_plain_tree(name, params, score):
    problem = PROBLEMS[name]
    one_task = np.zeros(len(problem.y), int)
    ours = train(params, problem.matrix(), score=score, task=one_task)
    assert_same_model(ours, xgboost.train({"nthread": 1, **params}, problem.matrix(), N_ROUNDS))


@pytest.mark.parametrize("score", ["plain", "entropy", "variance"])
@pytest.mark.parametrize(
    "name", ["dense", "20 % missing", "categories and missing", "CSR", "words", "classes"]
)
def test_scores_over_several_tasks_do_not_depend_on_the_number_of_threads(name, score):
    params, problem = {}, PROBLEMS.get(name)
    if name == "classes":
        # XGBoost 3.2's own estimate of the start depends on it, in the last digits of the classes.
        params = {"objective": "multi:softprob", "num_class": 3, "base_score": 0.5}
        own = PROBLEMS["20 % missing"]
        problem = Problem(own.X, as_classes(own.y))
    first, *others = (
        train({**params, "nthread": n}, problem.matrix(), score=score) for n in (1, 2, 3, 7)
    )
    for other in others:
        assert_same_model(other, first)


@pytest.mark.parametrize("score", ["entropy", "variance"])
def test_scores_over_several_tasks_grow_other_trees(score):
    problem = PROBLEMS["dense"]
    assert trees(train({}, problem.matrix(), score=score)) != trees(train({}, problem.matrix()))
