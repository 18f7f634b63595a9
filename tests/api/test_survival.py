# SPDX-License-Identifier: Apache-2.0
"""Proportional hazards with a separate baseline for each task: ``fit``, ``TaskSplit``, changes."""

import json

import numpy as np
import pytest
import xgboost

import mtboost
from mtboost.dask import fitting
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.metrics import evaluate_by_task, evaluate_strata, get_metric
from mtboost.xgboost import TaskObjective, TaskSplit

RNG = np.random.default_rng(0)
N_ROWS = 1200
TASK = RNG.choice(["a", "b", "c"], N_ROWS, p=[0.6, 0.3, 0.1])
CODES = np.unique(TASK, return_inverse=True)[1]
X = RNG.normal(size=(N_ROWS, 4)) + 0.5 * CODES[:, None]
SCALE = np.array([1.0, 100.0, 10.0])[CODES]  # the baseline hazards differ a hundredfold
RISK = X[:, 0] + np.where(TASK == "b", 1.0, -0.5) * X[:, 1]
EVENT = SCALE * np.exp(-RISK) * RNG.weibull(1.5, N_ROWS)
CENSORED = SCALE * RNG.exponential(3.0, N_ROWS)
Y = np.where(EVENT <= CENSORED, EVENT, -CENSORED)
TRAIN, TEST = np.arange(N_ROWS) < 900, np.arange(N_ROWS) >= 900
PARAMS = {"objective": "survival:cox", "max_depth": 3, "eta": 0.3, "nthread": 1}
QUICK = {"strategy": "two-stage", "num_boost_round": 20, "specific_rounds": 10, "n_threads": 1}


def fit(rows=TRAIN, **options):
    options = {"objective": "survival:cox", **QUICK, **options}
    return mtboost.fit(X[rows], Y[rows], task=TASK[rows], **options)


def concordance(model, rows=TEST):
    hazards = model.predict(X[rows], task=TASK[rows])
    return evaluate_by_task("concordance", Y[rows], hazards, CODES[rows], 3)


def trees_of(booster):
    document = json.loads(booster.save_raw("json"))
    return document["learner"]["gradient_booster"]["model"]["trees"]


# ---- trees ----------------------------------------------------------------------------------


@pytest.mark.parametrize("base_score", [{}, {"base_score": 0.3}])
@pytest.mark.parametrize("weight", [None, RNG.random(N_ROWS)])
def test_trees_of_one_task_are_those_of_xgboost(weight, base_score):
    data = xgboost.DMatrix(X, Y, weight=weight)
    params = {**PARAMS, **base_score}
    ours = xgboost.train(
        params, data, 5, callbacks=[TaskSplit(np.zeros(N_ROWS), split_score="plain")]
    )
    stock = xgboost.train(params, data, 5)
    assert trees_of(ours) == trees_of(stock)


def test_trees_of_several_tasks_are_those_of_the_objective_by_task():
    start = {"base_score": 1.0}
    data = xgboost.DMatrix(X, Y)
    split = xgboost.train(
        {**PARAMS, **start}, data, 5, callbacks=[TaskSplit(TASK, split_score="plain")]
    )
    objective = TaskObjective("survival:cox", TASK)
    params = {**PARAMS, **start, "objective": "reg:squarederror", "base_score": 0.0}
    by_objective = xgboost.train(params, data, 5, obj=objective)
    assert trees_of(split) == trees_of(by_objective)
    assert trees_of(split) != trees_of(xgboost.train({**PARAMS, **start}, data, 5))


def test_a_task_that_quits_leaves_the_others_as_they_are():
    rows = TASK != "c"
    params = {**PARAMS, "objective": "reg:squarederror", "base_score": 0.0}
    objective = TaskObjective("survival:cox", TASK)
    objective.quit("c")
    all_rows = xgboost.train(params, xgboost.DMatrix(X, Y), 1, obj=objective)
    others = TaskObjective("survival:cox", TASK[rows])
    alone = xgboost.train(params, xgboost.DMatrix(X[rows], Y[rows]), 1, obj=others)
    margins = [each.predict(xgboost.DMatrix(X[rows])) for each in (all_rows, alone)]
    assert np.corrcoef(*margins)[0, 1] > 0.9  # bins are those of all rows


# ---- fit ------------------------------------------------------------------------------------


def test_strata_help_where_baselines_differ():
    model = fit()
    stock = xgboost.train(PARAMS, xgboost.DMatrix(X[TRAIN], Y[TRAIN]), 20)
    hazards = stock.predict(xgboost.DMatrix(X[TEST]))
    pooled = evaluate_by_task("concordance", Y[TEST], hazards, CODES[TEST], 3)
    assert (concordance(model)[:2] > pooled[:2] + 0.02).all()


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "auto", "effort": "fast"},
        {"pooling": 5.0, "split_score": "plain"},
        {"eval_metric": "concordance"},
        {"validation_fraction": 0, "split_score": "plain", "specific_rounds": 0},
    ],
)
def test_each_way_ranks_the_rows_of_a_task(options):
    model = fit(**options)
    assert (concordance(model) > 0.65).all()
    hazards, margins = (
        each(X[TEST], task=TASK[TEST]) for each in (model.predict, model.predict_margin)
    )
    np.testing.assert_allclose(hazards, np.exp(margins), rtol=1e-5)


def test_evaluate_judges_all_tasks_within_tasks():
    model = fit()
    table = model.evaluate(X[TEST], Y[TEST], task=TASK[TEST])
    hazards = model.predict(X[TEST], task=TASK[TEST])
    for name in ("cox-nloglik", "concordance"):
        found = evaluate_by_task(name, Y[TEST], hazards, CODES[TEST], 3)
        np.testing.assert_allclose(table[name].iloc[:3], found, rtol=1e-6)
        together = evaluate_strata(get_metric(name), Y[TEST], hazards, CODES[TEST], None)
        assert table[name].iloc[3] == pytest.approx(together, rel=1e-6)
        assert (table[f"{name} se"] > 0).all()


def test_a_file_keeps_the_model(tmp_path):
    model = fit(pooling=5.0)
    model.save(tmp_path / "model.mtb")
    loaded = mtboost.load_model(tmp_path / "model.mtb")
    expected = model.predict(X[TEST], task=TASK[TEST])
    np.testing.assert_array_equal(loaded.predict(X[TEST], task=TASK[TEST]), expected)


# ---- changes of a model ---------------------------------------------------------------------


def test_update_goes_on_with_new_rows():
    rows = np.arange(N_ROWS) < 600
    model = fit(rows, pooling=5.0, split_score="plain")
    model.update(X[TRAIN], Y[TRAIN], task=TASK[TRAIN])
    assert (concordance(model) > 0.65).all()


def test_refresh_gives_the_leaves_the_values_of_new_rows():
    model = fit(pooling=5.0, split_score="plain", validation_fraction=0, specific_rounds=0)
    before = model.predict(X[TEST], task=TASK[TEST])
    model.refresh(X[TRAIN], Y[TRAIN], task=TASK[TRAIN], shrink=0.0)
    np.testing.assert_allclose(model.predict(X[TEST], task=TASK[TEST]), before, rtol=1e-3)


def test_a_task_is_added():
    known = TRAIN & (TASK != "b")
    model = fit(known, pooling=5.0, split_score="plain")
    new = TRAIN & (TASK == "b")
    model.add_task("b", X[new], Y[new])
    rows = TEST & (TASK == "b")
    (found,) = evaluate_by_task(
        "concordance", Y[rows], model.predict(X[rows], task=TASK[rows]), 0 * CODES[rows], 1
    )
    assert found > 0.65


# ---- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eval_metric": "rmse"}, "'rmse' does not fit .*choose 'cox-nloglik', 'concordance'"),
        (
            {"objective": "reg:squarederror", "eval_metric": "concordance"},
            "choose a metric of rows",
        ),
        ({"intervals": True}, "intervals=True is not possible .* not on the scale of the labels"),
        ({"linear_effects": True}, "linear_effects=True is"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        fit(**options)


def test_times_that_are_missing_are_refused():
    labels = np.where(np.arange(N_ROWS) == 7, np.nan, Y)
    with pytest.raises(DataError):
        mtboost.fit(X, labels, task=TASK, objective="survival:cox")


def test_intervals_of_hazards_are_refused():
    with pytest.raises(DataError, match="on the scale of the labels"):
        fit().conformalize(X[TEST], Y[TEST], task=TASK[TEST])


def test_a_regressor_sends_to_fit():
    model = mtboost.MultiTaskRegressor(objective="survival:cox")
    with pytest.raises(ParameterError, match="predicts hazards.*mtboost.fit"):
        model.fit(X, Y, task=TASK)


def test_several_machines_are_refused():
    with pytest.raises(UnsupportedError, match="objective"):
        fitting._checked_arguments({"objective": "survival:cox"}, has_eval_set=False)
