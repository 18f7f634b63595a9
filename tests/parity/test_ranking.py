# SPDX-License-Identifier: Apache-2.0
"""With the plain score, trees of ranking objectives are the libraries' own, bit for bit."""

import lightgbm
import numpy as np
import pytest
import xgboost
from model_documents import trees

import mtboost.lightgbm
import mtboost.xgboost
from mtboost.errors import DataError, UnsupportedError

RNG = np.random.default_rng(0)
SIZES = RNG.integers(1, 60, 40)
N_ROWS = int(SIZES.sum())
QUERIES = np.repeat(np.arange(len(SIZES)), SIZES)
TASK = np.array(["a", "b", "c"])[QUERIES % 3]
X = RNG.normal(size=(N_ROWS, 5))
SCORE = X[:, 0] + (TASK == "b") * X[:, 1] + 0.5 * RNG.normal(size=N_ROWS)
Y = np.digitize(SCORE, [-0.5, 0.5, 1.0, 2.0])
WEIGHTS = RNG.uniform(0.5, 2.0, len(SIZES))


def xgboost_matrix(weight=None):
    return xgboost.QuantileDMatrix(X, Y, group=SIZES, weight=weight)


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:pairwise"])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"lambdarank_num_pair_per_sample": 4},
        {"lambdarank_normalization": False},
        {"lambdarank_score_normalization": False},
        {"ndcg_exp_gain": False},
    ],
    ids=repr,
)
def test_plain_trees_are_those_of_xgboost(objective, weight, params):
    params = {"objective": objective, "max_depth": 4, "nthread": 1, **params}
    stock, own = (
        xgboost.train(params, xgboost_matrix(weight), 8, callbacks=callbacks)
        for callbacks in ([], [mtboost.xgboost.TaskSplit(TASK, split_score="plain")])
    )
    assert trees(own) == trees(stock)


@pytest.mark.parametrize("weight", [None, WEIGHTS[QUERIES]], ids=["", "weights"])
@pytest.mark.parametrize(
    "params",
    [{}, {"lambdarank_norm": False}, {"lambdarank_truncation_level": 5}, {"sigmoid": 2.0}],
    ids=repr,
)
def test_plain_trees_are_those_of_lightgbm(weight, params):
    params = {
        "objective": "lambdarank",
        "num_leaves": 12,
        "num_threads": 1,
        "verbosity": -1,
        "deterministic": True,
        "force_col_wise": True,
        **params,
    }

    def train(callbacks):
        data = lightgbm.Dataset(X, Y, group=SIZES, weight=weight)
        booster = lightgbm.train(params, data, 8, callbacks=callbacks)
        return booster.model_to_string().partition("\nparameters:")[0]

    assert train([mtboost.lightgbm.TaskSplit(TASK, split_score="plain")]) == train([])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lambdarank_pair_method": "mean"}, "lambdarank_pair_method='mean' draws pairs"),
        ({"lambdarank_unbiased": True}, "lambdarank_unbiased=True is not supported"),
    ],
)
def test_what_draws_pairs_or_estimates_biases_is_refused(params, message):
    split = mtboost.xgboost.TaskSplit(TASK, split_score="plain")
    with pytest.raises(UnsupportedError, match=message):
        xgboost.train({"objective": "rank:ndcg", **params}, xgboost_matrix(), 1, callbacks=[split])


def test_other_gains_of_labels_are_refused():
    params = {"objective": "lambdarank", "label_gain": [0, 1, 2, 3, 4], "verbosity": -1}
    data = lightgbm.Dataset(X, Y, group=SIZES)
    with pytest.raises(UnsupportedError, match="label_gain is not supported"):
        lightgbm.train(params, data, 1, callbacks=[mtboost.lightgbm.TaskSplit(TASK)])


def test_a_query_of_two_tasks_is_refused():
    split = mtboost.xgboost.TaskSplit(np.arange(N_ROWS) % 2)
    with pytest.raises(DataError, match="belong to one query, but have different tasks"):
        xgboost.train({"objective": "rank:ndcg"}, xgboost_matrix(), 1, callbacks=[split])


def test_rows_without_queries_are_refused():
    split = mtboost.xgboost.TaskSplit(TASK)
    matrix = xgboost.QuantileDMatrix(X, Y)
    with pytest.raises(DataError, match="the training data has no queries: give it group="):
        xgboost.train({"objective": "rank:ndcg"}, matrix, 1, callbacks=[split])


@pytest.mark.parametrize("score", ["entropy", "variance"])
@pytest.mark.parametrize("pooling", [None, 5.0])
def test_tasks_quit_by_their_ndcg(score, pooling):
    valid = xgboost.DMatrix(X, Y, group=SIZES)
    quitting = mtboost.xgboost.TaskQuitting(valid, TASK, metric="ndcg@5", early_stopping_rounds=2)
    split = mtboost.xgboost.TaskSplit(TASK, split_score=score, pooling=pooling)
    params = {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1}
    xgboost.train(params, xgboost_matrix(), 20, callbacks=[split, quitting])
    assert set(quitting.quit_round) == {"a", "b", "c"}
    for history in quitting.history.values():
        assert history[-1] > history[0]


@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["", "weights"])
def test_a_task_objective_has_the_gradients_of_xgboost(weight):
    params = {"max_depth": 4, "nthread": 1, "base_score": 0.5, "disable_default_eval_metric": 1}
    matrix = xgboost_matrix(weight)
    stock = xgboost.train({**params, "objective": "rank:ndcg"}, matrix, 5)
    objective = mtboost.xgboost.TaskObjective("rank:ndcg", TASK)
    own = xgboost.train(params, matrix, 5, obj=objective)
    assert trees(own) == trees(stock)


def test_a_task_objective_has_the_gradients_of_lightgbm():
    params = {"num_leaves": 8, "num_threads": 1, "verbosity": -1, "deterministic": True}

    def train(objective):
        data = lightgbm.Dataset(X, Y, group=SIZES)
        return lightgbm.train({**params, "objective": objective}, data, 5).predict(X)

    own = train(mtboost.lightgbm.TaskObjective("lambdarank", TASK))
    np.testing.assert_array_equal(own, train("lambdarank"))


def test_a_task_objective_without_queries_is_refused():
    objective = mtboost.xgboost.TaskObjective("rank:ndcg", TASK)
    with pytest.raises(DataError, match="the training data has no queries"):
        xgboost.train({}, xgboost.QuantileDMatrix(X, Y), 1, obj=objective)


def test_positions_of_lightgbm_are_refused():
    params = {"objective": "lambdarank", "verbosity": -1}
    data = lightgbm.Dataset(X, Y, group=SIZES, position=np.concatenate([*map(np.arange, SIZES)]))
    split = mtboost.lightgbm.TaskSplit(TASK)
    with pytest.raises(UnsupportedError, match="position biases"):
        lightgbm.train(params, data, 1, callbacks=[split])
