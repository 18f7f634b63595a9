# SPDX-License-Identifier: Apache-2.0
"""NDCG per task against scikit-learn's, and without ties against XGBoost's."""

import numpy as np
import pytest
import xgboost
from sklearn.metrics import ndcg_score

from mtboost.errors import DataError, ParameterError
from mtboost.metrics import default_metric, evaluate_by_task, get_metric

RNG = np.random.default_rng(0)
SIZES = RNG.integers(2, 30, 25)
QUERIES = np.repeat(np.arange(len(SIZES)), SIZES)
CODES = QUERIES % 3
Y = RNG.integers(0, 4, len(QUERIES)).astype(np.float64)
PREDICTION = Y + 2.0 * RNG.normal(size=len(Y))
WEIGHTS = RNG.uniform(0.5, 2.0, len(SIZES))


def naive(prediction, task, k, weights=None):
    """Mean of scikit-learn's score, whose gain is the label."""
    own = [query for query in np.unique(QUERIES) if query % 3 == task]
    scores = [
        ndcg_score([np.exp2(Y[query == QUERIES]) - 1.0], [prediction[query == QUERIES]], k=k)
        for query in own
    ]
    return np.average(scores, weights=None if weights is None else weights[own])


@pytest.mark.parametrize(("name", "k"), [("ndcg", None), ("ndcg@1", 1), ("ndcg@10", 10)])
@pytest.mark.parametrize("has_ties", [False, True])
def test_ndcg_of_a_task_is_the_mean_of_its_queries(name, k, has_ties):
    prediction = np.round(PREDICTION) if has_ties else PREDICTION
    found = evaluate_by_task(name, Y, prediction, CODES, 3, queries=QUERIES)
    expected = [naive(prediction, task, k) for task in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_queries_count_by_their_weight():
    found = evaluate_by_task("ndcg", Y, PREDICTION, CODES, 3, WEIGHTS[QUERIES], QUERIES)
    expected = [naive(PREDICTION, task, None, WEIGHTS) for task in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["ndcg", "ndcg@5"])
def test_ndcg_without_ties_is_xgboosts(name):
    margins = PREDICTION.astype(np.float32)
    y = np.where(QUERIES == 4, 0.0, Y)  # a query without anything relevant
    matrix = xgboost.DMatrix(np.zeros((len(y), 1)), y, group=SIZES, base_margin=margins)
    params = {"objective": "rank:ndcg", "eval_metric": name}
    booster = xgboost.Booster(params, cache=[matrix])
    expected = float(booster.eval(matrix).rpartition(":")[2])
    codes = np.zeros(len(y), np.int64)
    (found,) = evaluate_by_task(name, y, margins, codes, 1, queries=QUERIES)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_order_of_rows_does_not_matter():
    order = RNG.permutation(len(Y))
    arguments = (Y, PREDICTION, CODES, QUERIES)
    one, other = (
        evaluate_by_task("ndcg@3", y, prediction, codes, 3, queries=queries)
        for y, prediction, codes, queries in (arguments, [each[order] for each in arguments])
    )
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_constant_predictions_do_not_depend_on_the_order_of_the_labels():
    zeros, codes, queries = np.zeros(4), np.zeros(4, np.int64), np.zeros(4, np.int64)
    falling, rising = (
        evaluate_by_task("ndcg", y, zeros, codes, 1, queries=queries)
        for y in (np.array([3.0, 2, 1, 0]), np.array([0.0, 1, 2, 3]))
    )
    assert falling == pytest.approx(rising)


def test_ndcg_without_queries_is_refused():
    with pytest.raises(DataError, match="pass qid"):
        evaluate_by_task("ndcg", Y, PREDICTION, CODES, 3)


@pytest.mark.parametrize("name", ["ndcg@0", "ndcg@x", "ndcg@1.5", "ndcg@3,exp"])
def test_positions_of_ndcg_are_whole_numbers(name):
    with pytest.raises(ParameterError, match="a number of positions of at least 1"):
        get_metric(name)


def test_the_metric_of_ranking_is_xgboosts():
    matrix = xgboost.DMatrix(np.zeros((2, 1)), [0, 1], group=[2])
    booster = xgboost.Booster({"objective": "rank:ndcg"}, cache=[matrix])
    assert f"eval-{default_metric('rank:ndcg').name}:" in booster.eval(matrix)
