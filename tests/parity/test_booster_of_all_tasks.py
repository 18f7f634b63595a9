# SPDX-License-Identifier: Apache-2.0
"""`booster()` without a task has an output for each, whose margins are those of the task's booster,
and one for unknown tasks.

Bit for bit, whatever sets the tasks apart: own leaf values, rounds, specific models, nodes that
split tasks, columns, no trees at all.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import xgboost
from numpy.testing import assert_array_equal

import mtboost
from mtboost.errors import DataError, UnsupportedError
from mtboost.lightgbm.document import LightgbmDocument
from mtboost.xgboost import TaskSplit, vector_leaves
from mtboost.xgboost.assemble import read_document, trees_of
from mtboost.xgboost.library import version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

N_TASKS = 5
RNG = np.random.default_rng(3)
X = RNG.normal(size=(600, 4)).astype(np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
TASK = RNG.integers(0, N_TASKS, len(X))
SLOPE = RNG.normal(size=N_TASKS)
Y = np.nan_to_num(np.sin(2 * X[:, 0]) + SLOPE[TASK] * X[:, 1]) + RNG.normal(0, 0.3, len(X))
PARAMS = {"max_depth": 3, "learning_rate": 0.2}
SHARED = {"specific_rounds": 0, "split_score": "plain"}


def fit(x=X, y=Y, *, task=TASK, **options):
    fixed = {"strategy": "two-stage", "params": PARAMS, "n_threads": 1, "num_boost_round": 15}
    return mtboost.fit(x, y, task=task, **fixed | options)


def margins_of(booster, table, **options):
    matrix = xgboost.DMatrix(table, enable_categorical=True)
    return booster.predict(matrix, output_margin=True, **options)


def assert_outputs_are_those_of_the_tasks(model, table=X):
    booster = model.booster()
    found = margins_of(booster, table)
    assert found.shape == (len(table), len(model.tasks) + 1)
    for output, task in enumerate(model.tasks):
        assert_array_equal(found[:, output], margins_of(model.booster(task), table))
    unknown = model.predict_margin(table, task=np.full(len(table), -7), unknown_task="common")
    assert_array_equal(found[:, -1], unknown)
    return booster


def n_trees(booster):
    return len(trees_of(read_document(booster)))


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "count:poisson"])
def test_pooled_leaves_are_one_tree_a_round(objective):
    y = {"reg:squarederror": Y, "binary:logistic": Y > 0, "count:poisson": np.floor(np.exp(Y))}
    params = {**PARAMS, "learning_rate": 0.4}
    model = fit(y=y[objective], objective=objective, pooling=5.0, params=params, **SHARED)
    assert len(set(model.quit_round.values())) > 1  # tasks without more trees have zeros
    booster = assert_outputs_are_those_of_the_tasks(model)
    assert n_trees(booster) == max(model.quit_round.values())
    assert booster.num_boosted_rounds() == n_trees(booster)


def test_predictions_have_passed_the_link():
    model = fit(y=(Y > 0).astype(float), objective="binary:logistic")
    found = model.booster().predict(xgboost.DMatrix(X))
    for output, task in enumerate(model.tasks):
        expected = model.booster(task).predict(xgboost.DMatrix(X))
        assert_array_equal(found[:, output], expected)


def test_specific_models():
    model = fit(split_score="entropy", early_stopping_rounds=2)
    assert any(report.specific_rounds > 0 for report in model.reports.values())
    assert_outputs_are_those_of_the_tasks(model)


@pytest.mark.parametrize("pooling", [None, 5.0])
@pytest.mark.parametrize("task_splits", [0.5, "descriptors"])
def test_nodes_that_divide_tasks(task_splits, pooling):
    y = Y + np.nan_to_num(3.0 * SLOPE[TASK] * X[:, 2])
    model = fit(y=y, task_splits=task_splits, pooling=pooling, early_stopping_rounds=None, **SHARED)
    booster = assert_outputs_are_those_of_the_tasks(model)
    assert booster.num_boosted_rounds() < n_trees(booster) < N_TASKS * booster.num_boosted_rounds()
    assert booster.num_features() == X.shape[1]


def test_rounds_are_those_of_the_tasks():
    model = fit(task_splits=0.5, early_stopping_rounds=None, **SHARED)
    found = margins_of(model.booster(), X, iteration_range=(0, 4))
    for output, task in enumerate(model.tasks):
        expected = margins_of(model.booster(task), X, iteration_range=(0, 4))
        assert_array_equal(found[:, output], expected)


def test_independent_models_and_what_auto_finds():
    model = fit(strategy="auto", num_boost_round=60)
    assert_outputs_are_those_of_the_tasks(model)


def test_tasks_with_columns_of_their_own_have_their_union():
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["k"] = pd.Categorical(np.array(["x", "y", "z"])[RNG.integers(0, 3, len(X))])
    own = {0: list("abck"), 1: list("abdk"), 2: list("kabc")}
    y = {task: Y[task == TASK] + 2 * (frame["k"][task == TASK] == "y") for task in own}
    if version() < (3, 3):  # categories are refused
        frame["k"] = frame["k"].cat.codes
    tables = {task: frame.loc[task == TASK, columns] for task, columns in own.items()}
    model = mtboost.fit(
        tables, y, params=PARAMS, num_boost_round=10, n_threads=1, strategy="two-stage"
    )
    assert any(report.specific_rounds > 0 for report in model.reports.values())
    booster = model.booster()
    assert sorted(booster.feature_names) == sorted(frame.columns)
    found = margins_of(booster, frame[booster.feature_names])
    for output, task in enumerate(model.tasks):
        alone = model.booster(task)
        expected = margins_of(alone, frame[alone.feature_names])
        assert_array_equal(found[:, output], expected)


def test_a_model_without_trees_and_a_model_of_one_task():
    constant = fit(y=np.ones(len(X)), specific_rounds=0)
    assert set(constant.quit_round.values()) == {0}
    assert_outputs_are_those_of_the_tasks(constant)
    alone = fit(task=np.zeros(len(X), int), pooling=1.0, **SHARED)
    assert alone.booster().save_raw() == alone.booster(0).save_raw()


def test_it_is_a_booster_like_those_that_xgboost_makes(tmp_path):
    booster = fit(pooling=5.0, **SHARED).booster()
    labels = np.repeat(Y[:, None], N_TASKS + 1, axis=1)
    stock = xgboost.train(
        {"multi_strategy": "multi_output_tree", "max_depth": 2}, xgboost.DMatrix(X, labels), 3
    )
    ours, theirs = read_document(booster), read_document(stock)
    starts = []
    for part in ours, theirs:
        del part["learner"]["gradient_booster"]["model"]
        starts.append(part["learner"]["learner_model_param"].pop("base_score").split(","))
    assert ours["learner"] == theirs["learner"]
    assert len(starts[0]) == len(starts[1])
    for suffix in ("ubj", "json"):
        booster.save_model(tmp_path / f"all.{suffix}")
        loaded = xgboost.Booster(model_file=tmp_path / f"all.{suffix}")
        assert_array_equal(margins_of(loaded, X), margins_of(booster, X))


def test_of_the_plugin():
    split = TaskSplit(TASK, split_score="plain", pooling=5.0)
    matrix = xgboost.QuantileDMatrix(X, Y)
    trained = xgboost.train(PARAMS, matrix, 12, callbacks=[split])
    found = margins_of(split.booster(trained), X)
    for output, task in enumerate(split.tasks.names):
        assert_array_equal(found[:, output], margins_of(split.booster(trained, task), X))


def test_of_the_estimator():
    model = mtboost.MultiTaskRegressor(n_estimators=5, task=0, strategy="two-stage")
    table = np.column_stack([TASK, X])
    model.fit(table, Y)
    assert_array_equal(margins_of(model.booster(), X), margins_of(model.model_.booster(), X))


# ---- what there is not ---------------------------------------------------------------------------


def test_lightgbm_has_no_such_trees(monkeypatch):
    model = fit(backend="lightgbm", params={"num_leaves": 7})
    monkeypatch.setattr(LightgbmDocument, "combined", partial(pytest.fail, "work"))
    with pytest.raises(UnsupportedError, match="LightGBM has no trees whose leaves hold a number"):
        model.booster()


def test_several_classes_and_several_objectives_are_refused():
    classes = np.digitize(Y, [-0.5, 0.5])
    model = fit(y=classes, objective="multi:softprob")
    with pytest.raises(UnsupportedError, match=r"several classes\. .* such as booster\(0\)"):
        model.booster()
    objectives = dict.fromkeys(range(N_TASKS), "reg:squarederror") | {1: "binary:logistic"}
    mixed = fit(y=np.where(TASK == 1, Y > 0, Y), objective=objectives)
    with pytest.raises(UnsupportedError, match="all tasks of a model with different objectives"):
        mixed.booster()
    split = TaskSplit(TASK, split_score="plain", pooling=5.0)
    params = PARAMS | {"objective": "multi:softprob", "num_class": 3}
    trained = xgboost.train(params, xgboost.QuantileDMatrix(X, classes), 2, callbacks=[split])
    with pytest.raises(UnsupportedError, match="several classes"):
        split.booster(trained)


def test_too_many_values_are_refused(monkeypatch):
    model = fit(pooling=5.0, **SHARED)
    monkeypatch.setattr(vector_leaves, "_MOST_LEAF_VALUES", 100)
    with pytest.raises(DataError, match="A booster of 6 outputs would hold"):
        model.booster()


def test_a_booster_of_another_training_is_refused():
    split = TaskSplit(TASK, split_score="plain", pooling=5.0)
    own = xgboost.train({}, xgboost.QuantileDMatrix(X, Y), 3, callbacks=[split])
    split.booster(own[:2], 0)
    for params, n_rounds in (({}, 4), ({"max_depth": 1}, 3)):
        other = xgboost.train(params, xgboost.QuantileDMatrix(X, Y), n_rounds)
        with pytest.raises(DataError, match="not that of the last training"):
            split.booster(other, 0)
    with pytest.raises(DataError, match="not that of the last training"):
        TaskSplit(TASK, pooling=5.0).booster(own, 0)


def test_categories_are_written_or_refused(tmp_path):
    letters = np.random.default_rng(0).choice(list("abcdef"), len(X))
    table = pd.DataFrame({"x": X[:, 1], "letter": pd.Categorical(letters)})
    y = Y + pd.Categorical(letters).codes % 3
    model = fit(table, y, early_stopping_rounds=None)
    if version() < (3, 3):
        with pytest.raises(UnsupportedError, match=r"booster\(task\).*xgboost>=3.3"):
            model.booster()
        return
    booster = model.booster()
    booster.save_model(tmp_path / "all.ubj")
    loaded = xgboost.Booster(model_file=tmp_path / "all.ubj")
    assert_array_equal(margins_of(loaded, table), margins_of(booster, table))
