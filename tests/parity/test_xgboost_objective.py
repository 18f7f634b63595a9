# SPDX-License-Identifier: Apache-2.0
"""TaskObjective: XGBoost grows its own trees from our gradients.

Without weights of tasks they are the trees of XGBoost's own objective; a task of weight 0, or one
that has quit, is to the trees as if its rows were not there.
"""

import copy
import pickle

import numpy as np
import pytest
import xgboost
from model_documents import assert_same_model, trees
from numpy.testing import assert_array_equal

from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.xgboost import TaskObjective, TaskQuitting, TaskSplit

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5)).astype(np.float32)
Y = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N)
TASK = RNG.choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1])
WEIGHT = RNG.integers(1, 4, N).astype(np.float32)
LABELS = {
    "reg:squarederror": Y,
    "reg:pseudohubererror": Y,
    "binary:logistic": (Y > 0).astype(float),
    "count:poisson": np.round(np.abs(Y)),
    "reg:tweedie": np.abs(Y),
    "multi:softprob": np.digitize(Y, [-1, 1]).astype(float),
}


def params_of(objective):
    base = {"objective": objective, "nthread": 1, "max_depth": 3, "base_score": 0.5}
    return {**base, "num_class": 3} if objective.startswith("multi") else base


def matrix_of(objective, rows=slice(None), weight=None, **options):
    return xgboost.QuantileDMatrix(
        X[rows],
        LABELS[objective][rows],
        weight=None if weight is None else weight[rows],
        nthread=1,
        **options,
    )


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("objective", LABELS)
def test_without_task_weights_the_trees_are_those_of_the_built_in_objective(objective, weight):
    params, matrix = params_of(objective), matrix_of(objective, weight=weight)
    stock = xgboost.train(params, matrix, 5)
    ours = xgboost.train(params, matrix, 5, obj=TaskObjective(objective, TASK))
    assert_same_model(ours, stock)


def test_options_are_those_of_the_loss():
    params, matrix = params_of("binary:logistic"), matrix_of("binary:logistic")
    stock = xgboost.train({**params, "scale_pos_weight": 3.0}, matrix, 5)
    objective = TaskObjective("binary:logistic", TASK, scale_pos_weight=3.0)
    assert trees(xgboost.train(params, matrix, 5, obj=objective)) == trees(stock)


@pytest.mark.parametrize("n_threads", [1, 2, 7])
def test_threads_change_nothing(n_threads):
    matrix = matrix_of("binary:logistic")
    margins = RNG.normal(size=N).astype(np.float32)
    expected = TaskObjective("binary:logistic", TASK, n_threads=1)(margins, matrix)
    assert_array_equal(
        TaskObjective("binary:logistic", TASK, n_threads=n_threads)(margins, matrix), expected
    )


def test_the_weight_of_a_task_multiplies_that_of_its_rows():
    factor = {"a": 1.0, "b": 2.0, "c": 0.5}
    params = params_of("binary:logistic")
    by_row = WEIGHT * np.array([factor[task] for task in TASK], np.float32)
    matrix = matrix_of("binary:logistic", weight=WEIGHT)
    stock = xgboost.train(params, matrix_of("binary:logistic", weight=by_row, ref=matrix), 5)
    objective = TaskObjective("binary:logistic", TASK, task_weight=factor)
    assert_same_model(xgboost.train(params, matrix, 5, obj=objective), stock)


def test_balanced_tasks_have_the_same_total_hessian():
    objective = TaskObjective("reg:squarederror", TASK, task_weight="balanced")
    _, hessian = objective(np.zeros(N, np.float32), matrix_of("reg:squarederror", weight=WEIGHT))
    totals = [hessian[task == TASK].sum(dtype=float) for task in "abc"]
    # each term is rounded to float32 once: 2**-24 of it
    np.testing.assert_allclose(totals, WEIGHT.sum(dtype=float) / 3, rtol=2**-23)


def logistic(margins, matrix):
    probability = 1 / (1 + np.exp(-margins))
    return probability - matrix.get_label(), np.maximum(probability * (1 - probability), 1e-16)


def test_a_users_function_is_weighted_by_task():
    matrix = matrix_of("binary:logistic")
    margins = RNG.normal(size=N).astype(np.float32)
    weights = {"a": 1.0, "b": 0.0, "c": 4.0}
    pair = TaskObjective(logistic, TASK, task_weight=weights)(margins, matrix)
    factor = np.array([weights[task] for task in TASK])
    for ours, own in zip(pair, logistic(margins, matrix), strict=True):
        assert_array_equal(ours, own * factor)  # powers of two: no rounding


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_rows_of_a_task_that_has_quit_are_as_if_they_were_not_there(objective):
    params, matrix = params_of(objective), matrix_of(objective)
    function = TaskObjective(objective, TASK)
    function.quit("a")
    ours = xgboost.train(params, matrix, 5, obj=function)
    stays = np.flatnonzero(TASK != "a")
    rest = matrix_of(objective, stays, ref=matrix)
    assert trees(ours) == trees(xgboost.train(params, rest, 5))


def quitting(objective=None):
    valid = xgboost.QuantileDMatrix(X[400:], LABELS["binary:logistic"][400:], nthread=1)
    return TaskQuitting(valid, TASK[400:], early_stopping_rounds=3, objective=objective)


def test_tasks_quit_as_they_do_with_trees_of_ours():
    params, matrix = params_of("binary:logistic"), matrix_of("binary:logistic", slice(400))
    ours = quitting()
    split = TaskSplit(TASK[:400], split_score="plain")
    expected = xgboost.train(params, matrix, 60, callbacks=[split, ours])
    objective = TaskObjective("binary:logistic", TASK[:400])
    for _ in range(2):  # a second training starts with all tasks again
        stock = quitting(objective)
        booster = xgboost.train(params, matrix, 60, obj=objective, callbacks=[stock])
        assert trees(booster) == trees(expected)
        assert stock.quit_round == ours.quit_round
        assert stock.left_after == ours.left_after
    assert len(set(ours.left_after.values())) > 1  # or nothing was put to the test
    for task in "abc":
        assert_array_equal(stock.history[task], ours.history[task])


def test_several_tasks_cannot_quit_without_an_objective_that_knows_them():
    with pytest.raises(UnsupportedError, match="objective=TaskObjective"):
        xgboost.train(
            params_of("binary:logistic"),
            matrix_of("binary:logistic"),
            3,
            callbacks=[quitting()],
        )


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_the_wrappers_of_scikit_learn_take_it(weight):
    options = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1, "base_score": 0.5}
    own = xgboost.XGBRegressor(objective="reg:squarederror", **options)
    ours = xgboost.XGBRegressor(objective=TaskObjective("reg:squarederror", TASK), **options)
    own.fit(X, Y, sample_weight=weight)
    ours.fit(X, Y, sample_weight=weight)
    assert trees(ours.get_booster()) == trees(own.get_booster())


def test_a_copy_of_the_parameters_keeps_the_same_object():
    objective = TaskObjective("binary:logistic", TASK)
    assert copy.deepcopy({"objective": objective})["objective"] is objective


def test_it_can_be_pickled_with_what_it_knows_of_its_tasks():
    objective, matrix = TaskObjective("binary:logistic", TASK), matrix_of("binary:logistic")
    margins = RNG.normal(size=N).astype(np.float32)
    objective.quit("a")
    expected = objective(margins, matrix)
    assert_array_equal(pickle.loads(pickle.dumps(objective))(margins, matrix), expected)


# ---- weird input ---------------------------------------------------------------------------------


def test_another_number_of_rows_is_refused():
    with pytest.raises(DataError, match=r"600 task labels.*400 training rows"):
        xgboost.train(
            params_of("binary:logistic"),
            matrix_of("binary:logistic", slice(400)),
            1,
            obj=TaskObjective("binary:logistic", TASK),
        )


def test_folds_of_cross_validation_are_refused():
    with pytest.raises(DataError, match="one label per row"):
        xgboost.cv(
            params_of("binary:logistic"),
            xgboost.DMatrix(X, LABELS["binary:logistic"]),
            2,
            obj=TaskObjective("binary:logistic", TASK),
        )


def test_labels_outside_the_domain_are_refused_whenever_a_matrix_is_read():
    objective = TaskObjective("binary:logistic", TASK)
    objective(np.zeros(N, np.float32), matrix_of("binary:logistic"))
    with pytest.raises(DataError, match="label"):
        objective(np.zeros(N, np.float32), xgboost.DMatrix(X, np.full(N, 2.0)))


@pytest.mark.parametrize("objective", ["rank:ndcg", "no:such"])
def test_an_objective_without_gradients_in_the_core_is_refused(objective):
    with pytest.raises(UnsupportedError, match=objective):
        TaskObjective(objective, TASK)


def test_weights_of_tasks_that_are_not_there_are_refused():
    objective = TaskObjective("binary:logistic", TASK, task_weight={"a": 1.0, "z": 2.0})
    with pytest.raises((DataError, ParameterError), match="task_weight"):
        objective(np.zeros(N, np.float32), matrix_of("binary:logistic"))
