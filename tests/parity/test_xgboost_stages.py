# SPDX-License-Identifier: Apache-2.0
"""The second stage by hand, with stock XGBoost: residual_margin, combine, task_metric."""

import numpy as np
import pytest
import xgboost
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from mtboost.errors import DataError, ModelFormatError, ParameterError
from mtboost.xgboost import TaskObjective, TaskQuitting, combine, residual_margin, task_metric

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

N = 500
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 4))
Y = (X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N) > 0).astype(float)
CLASSES = np.digitize(X[:, 0] + RNG.normal(size=N), [-1, 1])
TASK = RNG.choice(["new york", "b:1", "c"], N, p=[0.6, 0.3, 0.1])
BINARY = {"objective": "binary:logistic", "nthread": 1, "max_depth": 3}
SOFTPROB = {"objective": "multi:softprob", "num_class": 3, "nthread": 1, "max_depth": 3}
FOREST = {"num_parallel_tree": 3, "subsample": 0.5}  # a round is several trees per output


# ---- residual_margin and combine -------------------------------------------------------------


@pytest.mark.parametrize("start", [None, 0.7], ids=["base_score", "base_margin"])
@pytest.mark.parametrize(
    ("params", "y"),
    [(BINARY, Y), (SOFTPROB, CLASSES), (BINARY | FOREST, Y), (SOFTPROB | FOREST, CLASSES)],
)
def test_each_row_has_the_margin_of_its_tasks_rounds(params, y, start):
    booster = xgboost.train(params, xgboost.QuantileDMatrix(X, y), 9)
    matrix = xgboost.DMatrix(X)
    if start is not None:
        matrix.set_base_margin(np.full((N, params.get("num_class", 1)), start, np.float32))
    quit_round = {"new york": 9, "b:1": 4, "unused": 2}  # c is missing: all rounds
    found = residual_margin(booster, matrix, {**quit_round, "c": 9}, TASK)
    assert_array_equal(residual_margin(booster, matrix, quit_round, TASK), found)
    for rounds, rows in ((9, TASK != "b:1"), (4, TASK == "b:1")):
        expected = booster.predict(matrix, output_margin=True, iteration_range=(0, rounds))
        assert_array_equal(found[rows], expected[rows])
        assert_array_equal(residual_margin(booster, matrix, rounds), expected)


def test_no_round_is_the_start_score():
    booster = xgboost.train({**BINARY, "base_score": 0.25}, xgboost.QuantileDMatrix(X, Y), 3)
    found = residual_margin(booster, xgboost.DMatrix(X), 0)
    # the logit in float32
    np.testing.assert_allclose(found, np.log(0.25 / 0.75), rtol=2**-22)


def test_the_matrix_keeps_its_own_base_margin():
    booster = xgboost.train(BINARY, xgboost.QuantileDMatrix(X, Y), 3)
    matrix = xgboost.DMatrix(X)
    residual_margin(booster, matrix, {"b:1": 1}, TASK)
    assert matrix.get_base_margin().size == 0


@pytest.mark.parametrize("params", [BINARY, BINARY | FOREST], ids=["one tree", "forest"])
def test_a_model_continued_from_the_margins_is_the_combined_booster(params):
    common = xgboost.train(params, xgboost.QuantileDMatrix(X, Y), 9)
    own = TASK == "b:1"
    rows = xgboost.QuantileDMatrix(X[own], Y[own])
    rows.set_base_margin(residual_margin(common, rows, 4))
    specific = xgboost.train(params, rows, 5)
    both = combine(common, specific, 4)
    assert type(both) is xgboost.Booster
    assert_array_equal(both.predict(xgboost.DMatrix(X[own])), specific.predict(rows))


@pytest.mark.parametrize("rounds", [-1, 4, {"b:1": 4}])
def test_rounds_that_are_not_there_are_refused(rounds):
    booster = xgboost.train(BINARY, xgboost.QuantileDMatrix(X, Y), 3)
    with pytest.raises(ParameterError, match="quit_round.* must be an integer from 0 to 3, found"):
        residual_margin(booster, xgboost.DMatrix(X), rounds, TASK)


def test_objectives_with_other_links_are_refused():
    matrix = xgboost.DMatrix(X, Y)
    logistic, raw, squared = (
        xgboost.train({"objective": name, "nthread": 1}, matrix, 3)
        for name in ("binary:logistic", "binary:logitraw", "reg:squarederror")
    )
    with pytest.raises(DataError, match="'binary:logistic', the specific one 'reg:squarederror'"):
        combine(logistic, squared, 1)
    assert combine(logistic, raw, 1).num_boosted_rounds() == 4


def test_what_is_no_booster_or_no_matrix_is_refused():
    matrix = xgboost.DMatrix(X, Y)
    booster = xgboost.train(BINARY, matrix, 3)
    with pytest.raises(TypeError, match="specific must be None or an xgboost.Booster, found 'x'"):
        combine(booster, "x", 1)
    with pytest.raises(TypeError, match="common must be an xgboost.Booster, found None"):
        combine(None, booster, 1)
    for rounds in (4, -1, "all", 10**400):
        with pytest.raises(ParameterError, match="n_common_rounds must be an integer from 0 to 3"):
            combine(booster, booster, rounds)
    with pytest.raises(TypeError, match="matrix must be an xgboost.DMatrix, found array"):
        residual_margin(booster, X, 1)
    with pytest.raises(TypeError, match="objective must be None or a TaskObjective"):
        TaskQuitting(matrix, TASK, objective=1)
    with pytest.raises(TypeError, match="valid must be an xgboost.DMatrix or a name, found array"):
        TaskQuitting(X, TASK)


@pytest.mark.parametrize("kind", ["dart", "gblinear"])
def test_boosters_whose_rounds_cannot_be_taken_apart_are_refused(kind):
    dropout = {"rate_drop": 0.5} if kind == "dart" else {}  # without, dart is gbtree since 3.3
    params = {"objective": "binary:logistic", "nthread": 1, "booster": kind, **dropout}
    matrix = xgboost.DMatrix(X, Y)
    booster = xgboost.train(params, matrix, 3)
    message = f"booster='{kind}', whose rounds cannot be taken apart: use booster='gbtree'"
    with pytest.raises(ModelFormatError, match=message):
        combine(booster, None, 1)
    with pytest.raises(ModelFormatError, match=message):
        residual_margin(booster, matrix, 1)
    with pytest.raises(ModelFormatError, match=message):
        xgboost.train(params, matrix, 3, callbacks=[TaskQuitting(matrix)])


def test_rounds_by_task_need_the_tasks():
    booster = xgboost.train(BINARY, xgboost.QuantileDMatrix(X, Y), 3)
    with pytest.raises(DataError, match="give task="):
        residual_margin(booster, xgboost.DMatrix(X), {"b:1": 1})


@pytest.mark.parametrize("early_stopping_rounds", [1, None])
def test_rounds_of_a_continued_model_count(early_stopping_rounds):
    train, valid = xgboost.QuantileDMatrix(X, Y), xgboost.DMatrix(X, Y)  # learnt by heart
    common = xgboost.train(BINARY, train, 3)
    quitting = TaskQuitting(valid, metric="logloss", early_stopping_rounds=early_stopping_rounds)
    booster = xgboost.train(BINARY, train, 2, xgb_model=common, callbacks=[quitting])
    assert np.diff(quitting.history["all"]).max() < 0  # every round is better than the one before
    assert quitting.quit_round == {"all": booster.num_boosted_rounds()} == {"all": 5}


# ---- task_metric -----------------------------------------------------------------------------


def expected_auc(prediction, rows):
    return {
        f"auc-{name}": roc_auc_score(Y[rows][TASK[rows] == task], prediction[TASK[rows] == task])
        for task, name in (("b:1", "b_1"), ("c", "c"), ("new york", "new_york"))
    }


@pytest.mark.parametrize("kind", ["built-in", "TaskObjective"])
def test_each_task_has_its_metric_in_the_evaluation(kind):
    train = xgboost.QuantileDMatrix(X[:300], Y[:300])
    valid = xgboost.QuantileDMatrix(X[300:], Y[300:], ref=train)
    objective = None if kind == "built-in" else TaskObjective("binary:logistic", TASK[:300])
    results = {}
    booster = xgboost.train(
        {**BINARY, "disable_default_eval_metric": True, "base_score": 0.5},
        train,
        4,
        obj=objective,
        evals=[(train, "train"), (valid, "valid")],
        custom_metric=task_metric("auc", [(valid, TASK[300:])], objective=objective),
        evals_result=results,
        verbose_eval=False,
    )
    assert "train" not in results or not results["train"]
    expected = expected_auc(booster.predict(valid), slice(300, None))
    for name, value in expected.items():
        assert results["valid"][name][-1] == pytest.approx(value, abs=1e-6)  # printed digits
    assert set(results["valid"]) == set(expected)


def test_logloss_of_a_task_is_of_probabilities_whatever_the_library_hands_over():
    matrix = xgboost.DMatrix(X, Y)
    margins = RNG.normal(size=N).astype(np.float32)
    objective = TaskObjective("binary:logistic", TASK)
    from_margins = task_metric("logloss", [(matrix, TASK)], objective=objective)(margins, matrix)
    probability = (1 / (1 + np.exp(-margins.astype(float)))).astype(np.float32)
    given = dict(task_metric("logloss", [(matrix, TASK)])(probability, matrix))
    for name, value in from_margins:
        assert value == pytest.approx(given[name], rel=1e-6)  # probabilities are float32


def test_another_number_of_tasks_is_refused():
    with pytest.raises(DataError):
        task_metric("auc", [(xgboost.DMatrix(X, Y), TASK[:10])])


def test_something_else_than_a_matrix_is_refused():
    with pytest.raises(TypeError, match=r"tasks\[0\] must be a pair \(DMatrix"):
        task_metric("auc", [(X, TASK)])
