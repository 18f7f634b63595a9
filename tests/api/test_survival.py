# SPDX-License-Identifier: Apache-2.0
"""Hazards with a baseline per task, and times with bounds: ``fit``, ``TaskSplit``, changes."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.model_selection import KFold, cross_val_score

import mtboost
from mtboost.base.tasks import TaskSet
from mtboost.base.validation import cross_validation
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.metrics import evaluate_by_task, evaluate_strata, get_metric
from mtboost.metrics.survival import n_comparable_events
from mtboost.metrics.task_rows import TaskRows
from mtboost.model.changes import updating
from mtboost.model.changes.gains import gains_by_task
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.stages.mean_watch import MeanWatch
from mtboost.trees.tree_options import TreeOptions
from mtboost.xgboost import TaskObjective, TaskQuitting, TaskSplit, task_metric

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
BOUNDS = np.stack([np.abs(Y), np.where(Y > 0, Y, np.inf)], axis=1)
TRAIN, TEST = np.arange(N_ROWS) < 900, np.arange(N_ROWS) >= 900
PARAMS = {"objective": "survival:cox", "max_depth": 3, "eta": 0.3, "nthread": 1}
AFT = {**PARAMS, "objective": "survival:aft", "aft_loss_distribution": "logistic"}
QUICK = {"strategy": "two-stage", "num_boost_round": 20, "specific_rounds": 10, "n_threads": 1}
BOTH = pytest.mark.parametrize("objective", ["survival:cox", "survival:aft"])


def labels_of(objective):
    return BOUNDS if objective == "survival:aft" else Y


def fit(rows=TRAIN, objective="survival:cox", **options):
    y = labels_of(objective)[rows]
    return mtboost.fit(X[rows], y, task=TASK[rows], objective=objective, **{**QUICK, **options})


def matrix(rows=slice(None), **options):
    lower, upper = BOUNDS[rows].T
    return xgboost.DMatrix(X[rows], label_lower_bound=lower, label_upper_bound=upper, **options)


def concordance(model, rows=TEST):
    y = labels_of(model.objective)[rows]
    predictions = model.predict(X[rows], task=TASK[rows])
    return evaluate_by_task("concordance", y, predictions, CODES[rows], 3)


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


@pytest.mark.parametrize("weight", [None, RNG.random(N_ROWS)])
@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_trees_of_bounds_are_those_of_xgboost(distribution, weight):
    params = {**AFT, "aft_loss_distribution": distribution, "aft_loss_distribution_scale": 1.5}
    data = matrix(weight=weight)
    ours = xgboost.train(params, data, 5, callbacks=[TaskSplit(TASK, split_score="plain")])
    stock = xgboost.train(params, data, 5)
    assert trees_of(ours) == trees_of(stock)
    options = {name: value for name, value in params.items() if name.startswith("aft")}
    objective = TaskObjective("survival:aft", TASK, **options)
    start = {**PARAMS, "objective": "reg:squarederror", "base_score": np.log(0.5)}
    by_objective = xgboost.train(start, data, 5, obj=objective)
    margins = [each.predict(data, output_margin=True) for each in (stock, by_objective)]
    np.testing.assert_allclose(*margins, atol=1e-5)


def test_tasks_of_bounds_quit_by_the_likelihood_of_times():
    valid = matrix(TEST)
    quitting = TaskQuitting(valid, TASK[TEST], early_stopping_rounds=3)
    params = {**AFT, "aft_loss_distribution_scale": 0.8}
    found = {}
    xgboost.train(
        params,
        matrix(TRAIN),
        60,
        evals=[(valid, "valid")],
        evals_result=found,
        verbose_eval=False,
        custom_metric=task_metric("aft-nloglik@logistic,0.8", [(valid, TASK[TEST])]),
        callbacks=[TaskSplit(TASK[TRAIN]), quitting],
    )
    assert quitting.metric.name == "aft-nloglik@logistic,0.8"
    assert sorted(quitting.quit_round) == ["a", "b", "c"]
    history = np.array(found["valid"]["aft-nloglik@logistic,0.8-a"])
    assert history.argmin() == quitting.quit_round["a"] - 1


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


def test_trees_of_one_stratum_are_those_of_xgboost():
    backend, tasks = get_backend("xgboost"), TaskSet.from_labels(TASK, N_ROWS)
    data = xgboost.DMatrix(X, Y)
    options = TreeOptions(one_stratum=True)
    ours, _ = backend.train_common(
        PARAMS, data, 5, tasks=tasks, options=options, table=None, objective=None
    )
    assert trees_of(ours) == trees_of(xgboost.train(PARAMS, data, 5))


def ages(seed, age=None):
    """Rows whose tasks are decades of age, all of one stratum, and options of a search."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(0.0, 6.0, 500) if age is None else age
    n = len(age)
    event, censored = np.exp(-1.5 * age) * [rng.weibull(1.5, n), rng.exponential(2.0, n)]
    return age[:, None], np.where(event <= censored, event, -censored), age.astype(int)


# Without linear effects, which have baselines of tasks.
SEARCH = {"strategy": "auto", "effort": "fast", "num_boost_round": 100, "linear_effects": False}


@pytest.fixture(scope="module")
def of_one_stratum():
    table, y, task = ages(0)
    options = {**SEARCH, "objective": "survival:cox", "n_threads": 1}
    return mtboost.fit(table, y, task=task, **options)


def test_tasks_are_one_stratum_where_that_ranks_better(of_one_stratum):
    """Of ages within a decade there is little to learn that ages of others do not show; but where
    baselines differ a hundredfold, and no column says how, others show little."""
    assert "one stratum" in of_one_stratum.common_choice
    different = fit(**SEARCH)
    assert any("one stratum" in choice for choice in different.common_losses)
    assert "one stratum" not in different.common_choice


@pytest.mark.parametrize("change", ["refresh", "update"])
def test_changes_of_a_model_keep_its_stratum(of_one_stratum, change, tmp_path):
    """Rows of a task all have one age: within tasks there is nothing to learn of it."""
    options = {
        "refresh": {"shrink": 0.0},
        "update": {"rounds": 30, "validation_fraction": 0.0, "params": {"learning_rate": 0.3}},
    }
    of_one_stratum.save(tmp_path / "model.mtb")
    model = mtboost.load_model(tmp_path / "model.mtb")
    table, y, task = ages(1, np.repeat(np.arange(6) + 0.5, 100))
    if change == "update":  # the risk of the old has fallen to that of the young
        y = y * np.exp(1.5 * table[:, 0])
    changed = getattr(model, change)(table, y, task=task, **options[change], n_threads=1)
    means = [
        np.bincount(task, each.predict_margin(table, task=task)) / 100 for each in (model, changed)
    ]
    slopes = [np.polyfit(range(6), each, 1)[0] for each in means]
    assert slopes[0] > 0.7
    assert slopes[1] > 0.7 if change == "refresh" else slopes[1] < 0.35


def test_random_intercepts_which_strata_cancel_are_tried_in_one_stratum_only():
    options = {"strategy": "auto", "effort": "fast", "validation_fraction": 0.25}
    model = fit(objective="survival:cox", num_boost_round=20, **options)
    tried = [choice for choice in model.common_losses if choice.startswith("random intercepts")]
    assert all("one stratum" in choice for choice in tried)
    assert tried  # the one with one stratum is a pooled one, which is always tried


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
        {"strategy": "auto", "effort": "fast", "validation_fraction": 0.25},
        {"pooling": 5.0, "split_score": "plain"},
        {"eval_metric": "concordance"},
        {"validation_fraction": 0, "split_score": "plain", "specific_rounds": 0},
    ],
)
@BOTH
def test_each_way_ranks_the_rows_of_a_task(objective, options):
    model = fit(objective=objective, **options)
    start_matters = objective == "survival:aft" and options.get("specific_rounds") == 0
    assert (concordance(model) > (0.5 if start_matters else 0.65)).all()
    hazards, margins = (
        each(X[TEST], task=TASK[TEST]) for each in (model.predict, model.predict_margin)
    )
    np.testing.assert_allclose(hazards, np.exp(margins), rtol=1e-5)


def test_times_of_tasks_are_judged_together():
    model = fit(objective="survival:aft", params={"aft_loss_distribution_scale": 0.7})
    assert model.metric == "aft-nloglik@normal,0.7"
    table = model.evaluate(X[TEST], BOUNDS[TEST], task=TASK[TEST])
    times = model.predict(X[TEST], task=TASK[TEST])
    for name in (model.metric, "concordance"):
        found = evaluate_by_task(name, BOUNDS[TEST], times, CODES[TEST], 3)
        (together,) = evaluate_by_task(name, BOUNDS[TEST], times, 0 * CODES[TEST], 1)
        np.testing.assert_allclose(table[name], [*found, together], rtol=1e-6)
        assert (table[f"{name} se"] > 0).all()


def rows_with_few_events(n_events, tasks="ab", seed=0):
    rng = np.random.default_rng(seed)
    X, task, time = rng.normal(size=(200, 2)), rng.choice(list(tasks), 200), rng.exponential(1, 200)
    is_event = np.zeros(200, bool)
    is_event[rng.choice(200, n_events, replace=False)] = True
    return X, np.where(is_event, time, -time), task


FEW = {"objective": "survival:cox", "effort": "fast", "num_boost_round": 3, "n_threads": 1}
FEW |= {"specific_rounds": 3}


@pytest.mark.parametrize(("n_events", "tasks"), [(2, "a"), (4, "a"), (10, "a"), (4, "ab")])
def test_the_search_needs_few_events(n_events, tasks):
    X, y, task = rows_with_few_events(n_events, tasks)
    model = mtboost.fit(X, y, task=task, **FEW)
    assert np.isfinite(model.predict(X, task=task)).all()
    assert model.report()["cox-nloglik common"].notna().any()


def test_few_events_are_spread_over_the_folds():
    X, y, task = rows_with_few_events(10)
    events = (y > 0).astype(np.int64)
    for train, valid in cross_validation(mtboost.Dataset(X, y, task=task), 5, events, 0).pairs:
        assert (np.sum(train.y > 0), np.sum(valid.y > 0)) == (8, 2)


def test_hazards_need_events_to_be_judged_by():
    X, y, task = rows_with_few_events(60)
    none, one = -np.abs(y), -np.abs(y)
    first = np.argmin(np.abs(y))
    one[first] = np.abs(y)[first]
    last = -np.abs(y)
    last[np.argmax(np.abs(y))] *= -1.0
    message = "no event that can be compared.*more rows with events.*two-stage"
    for labels, options in (
        (none, {}),
        (one, {}),
        (y, {"eval_set": (X, none, task)}),
        (y, {"eval_set": (X, last, task)}),
        (y, {"validation": [(np.flatnonzero(y > 0), np.flatnonzero(y < 0))]}),
        (y, {"weight": (y < 0).astype(float)}),
    ):
        with pytest.raises(DataError, match=message):
            mtboost.fit(X, labels, task=task, **FEW, **options)
    for labels, options in ((none, {}), (y, {"eval_set": (X, none, task)})):
        mtboost.fit(X, labels, task=task, **{**FEW, **QUICK}, **options)


def test_folds_without_events_are_left_out():
    X, y, task = rows_with_few_events(60)
    rows = np.arange(200)
    censored = np.flatnonzero(y < 0)[:50]
    parts = [censored, np.setdiff1d(rows, censored)[:50]]
    splits = [(np.setdiff1d(rows, part), part) for part in parts]
    found, expected = (
        mtboost.fit(X, y, task=task, validation=own, **FEW) for own in (splits, splits[1:])
    )
    np.testing.assert_array_equal(found.predict(X, task=task), expected.predict(X, task=task))


def test_reports_leave_out_folds_in_which_a_task_has_no_event():
    few, no = (name == TASK for name in np.unique(TASK)[:2])
    labels = np.where(few | no, -np.abs(Y), Y)
    earliest = np.flatnonzero(few)[np.argsort(np.abs(Y[few]))[:2]]
    labels[earliest] *= -1.0
    splitter = KFold(5, shuffle=True, random_state=0)
    constant = np.zeros((N_ROWS, 1))  # no split, and equal hazards
    options = {**FEW, "linear_effects": False, "validation": splitter}
    model = mtboost.fit(constant, labels, task=TASK, **options)
    found = model.report()["cox-nloglik common"]
    assert np.isnan(found.iloc[1])
    sizes, values = [], []  # of equal hazards: the logarithm of the rows at risk
    for _, valid in splitter.split(X):
        own = valid[few[valid]]
        events = own[labels[own] > 0.0]
        if len(events):
            at_risk = [np.sum(np.abs(labels[own]) >= labels[event]) for event in events]
            sizes.append(len(own))
            values.append(np.mean(np.log(at_risk)))
    assert len(sizes) < 5
    assert found.iloc[0] == pytest.approx(np.average(values, weights=sizes))


def test_an_event_is_comparable_where_another_row_of_its_task_is_at_risk():
    for y, weight, n_comparable in (
        ([1.0, -2.0, 3.0], None, 1),
        ([1.0, -2.0, 2.0], None, 2),
        ([-1.0, 2.0], None, 0),
        ([1.0, -2.0], [1.0, 0.0], 0),
        ([1.0, -2.0], [0.0, 1.0], 0),
    ):
        own = None if weight is None else np.array(weight)
        rows = TaskRows(np.zeros(len(y), np.int64), 1, own)
        assert n_comparable_events(np.array(y), rows) == n_comparable
    apart = TaskRows(np.array([0, 1]), 2, None)
    assert n_comparable_events(np.array([1.0, -2.0]), apart) == 0


def test_rounds_without_a_known_loss_are_as_good_as_others():
    data = mtboost.Dataset(X[:4], Y[:4], task=TASK[:4])
    values = np.full(data.tasks.n_tasks, np.nan)
    quitting = SimpleNamespace(last_values=values, last_predictions=np.ones(4))
    losses = SimpleNamespace(of_tasks=lambda values: values)
    watch = MeanWatch(quitting, data, data, losses, early_stopping_rounds=2)
    assert [watch.is_over() for _ in range(3)] == [False, False, True]
    assert (watch.best_round, watch.curve, len(watch.best_predictions)) == (1, [0.0] * 3, 4)


def test_intervals_of_times_are_used():
    """Rounded times as intervals predict nearly what exact ones do."""
    floor = np.floor(np.log2(EVENT) * 4) / 4
    y = 2.0 ** np.stack([floor, floor + 0.25], axis=1)
    y[::5, 0] = 0.0  # left-censored
    data = mtboost.Dataset({"all": X[TRAIN]}, {"all": y[TRAIN]})
    assert data.y.shape == (TRAIN.sum(), 2)
    options = {"objective": "survival:aft", **QUICK}
    model = mtboost.fit(X[TRAIN], y[TRAIN], task=TASK[TRAIN], **options)
    exact = np.stack([EVENT, EVENT], axis=1)
    times = model.predict(X[TEST], task=TASK[TEST])
    found = evaluate_by_task("concordance", exact[TEST], times, CODES[TEST], 3)
    assert (found[:2] > 0.7).all()


@BOTH
def test_a_regressor_is_scored_by_concordance(objective):
    y = labels_of(objective)
    model = mtboost.MultiTaskRegressor(objective=objective, n_estimators=10, n_jobs=1)
    model.set_params(strategy="two-stage").fit(X[TRAIN], y[TRAIN], task=TASK[TRAIN])
    table = model.model_.evaluate(X[TEST], y[TEST], task=TASK[TEST], metrics="concordance")
    found = model.score(X[TEST], y[TEST], task=TASK[TEST])
    assert found == pytest.approx(table["concordance"].loc["all tasks"])


def test_a_regressor_of_bounds_is_cross_validated():
    table = pd.DataFrame(X).add_prefix("x").assign(clinic=TASK)
    model = mtboost.MultiTaskRegressor(objective="survival:aft", n_estimators=5, n_jobs=1)
    model.set_params(strategy="two-stage", task="clinic")
    assert (cross_val_score(model, table, BOUNDS, cv=3) > 0.5).all()


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


@BOTH
def test_a_file_keeps_the_model(tmp_path, objective):
    model = fit(objective=objective, pooling=5.0)
    model.save(tmp_path / "model.mtb")
    loaded = mtboost.load_model(tmp_path / "model.mtb")
    expected = model.predict(X[TEST], task=TASK[TEST])
    np.testing.assert_array_equal(loaded.predict(X[TEST], task=TASK[TEST]), expected)


# ---- changes of a model ---------------------------------------------------------------------


@BOTH
def test_update_goes_on_with_new_rows(objective):
    rows = np.arange(N_ROWS) < 600
    model = fit(rows, objective, pooling=5.0, split_score="plain")
    model = model.update(X[TRAIN], labels_of(objective)[TRAIN], task=TASK[TRAIN])
    assert (concordance(model) > 0.65).all()


@BOTH
def test_refresh_gives_the_leaves_the_values_of_new_rows(objective):
    model = fit(
        objective=objective,
        pooling=5.0,
        split_score="plain",
        validation_fraction=0,
        specific_rounds=0,
    )
    before = model.predict(X[TEST], task=TASK[TEST])
    model.refresh(X[TRAIN], labels_of(objective)[TRAIN], task=TASK[TRAIN], shrink=0.0)
    np.testing.assert_allclose(model.predict(X[TEST], task=TASK[TEST]), before, rtol=1e-3)


@BOTH
def test_a_task_is_added(objective):
    known = TRAIN & (TASK != "b")
    model = fit(known, objective, pooling=5.0, split_score="plain")
    new = TRAIN & (TASK == "b")
    model.add_task("b", X[new], labels_of(objective)[new])
    rows = TEST & (TASK == "b")
    assert concordance(model, rows)[1] > 0.65


# ---- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eval_metric": "rmse"}, "'rmse' does not fit .*choose 'cox-nloglik', 'concordance'"),
        (
            {"objective": "reg:squarederror", "eval_metric": "concordance"},
            "choose a metric of rows",
        ),
        ({"intervals": True}, "intervals=True is not possible .* not on the scale of labels"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        fit(**options)


def test_times_that_are_missing_are_refused():
    labels = np.where(np.arange(N_ROWS) == 7, np.nan, Y)
    with pytest.raises(DataError):
        mtboost.fit(X, labels, task=TASK, objective="survival:cox")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y > 0, r"y is 0 or 1 in every row.* np.where\(event, time, -time\)"),
        (pd.DataFrame({"died": (Y > 0) * 1, "days": np.abs(Y)}), r"y\['died'\] is 0 or 1"),
        (
            np.rec.fromarrays([Y > 0, np.abs(Y)], names=["event", "time"]),
            r"it must hold numbers. Of survival it is np.where\(event, time, -time\)",
        ),
    ],
    ids=["events", "columns", "structured"],
)
def test_events_beside_times_are_no_labels(y, message):
    with pytest.raises(DataError, match=message):
        mtboost.fit(X, y, task=TASK, objective="survival:cox")


def test_intervals_of_hazards_are_refused():
    with pytest.raises(DataError, match="on the scale of labels"):
        fit().conformalize(X[TEST], Y[TEST], task=TASK[TEST])


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (Y, {}, r"needs y of shape \(1200, 2\)"),
        (
            BOUNDS,
            {"objective": "reg:squarederror"},
            "y is inf at row 1, column 1: it must be finite",
        ),
        (BOUNDS[:, ::-1].copy(), {}, "needs two bounds of the time of each row"),
        (-BOUNDS, {}, "survival:aft needs two bounds"),
        (BOUNDS, {"eval_metric": "cox-nloglik"}, "choose 'aft-nloglik', 'concordance'"),
        (BOUNDS, {"eval_metric": "rmse"}, "choose 'aft-nloglik', 'concordance'"),
        (BOUNDS, {"params": {"aft_loss_distribution_scale": -1.0}}, "a positive scale"),
        (BOUNDS, {"params": {"aft_loss_distribution": "weibull"}}, "'weibull', valid values"),
    ],
)
def test_bounds_that_do_not_fit_are_refused(y, options, message):
    options = {"objective": "survival:aft", **options}
    with pytest.raises((DataError, ParameterError), match=message):
        mtboost.fit(X, y, task=TASK, **options)


def test_tasks_and_bounds_in_one_field_are_refused_before_training():
    with pytest.raises(UnsupportedError, match="give TaskObjective the task of each row"):
        TaskObjective("survival:aft", "label_lower_bound")
    TaskObjective("survival:cox", "label_lower_bound")  # has times in the labels
    quitting = TaskQuitting(matrix(), "label_lower_bound")
    seen = []

    class Seen(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            seen.append(epoch)
            return False

    with pytest.raises(UnsupportedError, match="give TaskQuitting the task of each row"):
        xgboost.train(AFT, matrix(), 1, callbacks=[Seen(), quitting])
    assert not seen


@pytest.mark.parametrize("metric", ["aft-nloglik", "aft-nloglik@logistic,0.5"])
def test_a_metric_of_bounds_takes_no_tasks_from_their_field(metric):
    with pytest.raises(UnsupportedError, match="give task_metric the task of each row"):
        task_metric(metric, "label_lower_bound")


def test_a_metric_takes_no_tasks_from_a_matrix_with_bounds():
    own = task_metric("concordance", "label_lower_bound")  # that of hazards as well
    with pytest.raises(UnsupportedError, match="give task_metric the task of each row"):
        own(np.zeros(len(X), np.float32), matrix())


def test_a_matrix_needs_bounds_which_are_no_tasks():
    with pytest.raises(DataError, match="give it label_lower_bound= and label_upper_bound="):
        xgboost.train(AFT, xgboost.DMatrix(X, Y), 1, callbacks=[TaskSplit(TASK)])
    with pytest.raises(UnsupportedError, match="give TaskSplit the task of each row"):
        xgboost.train(AFT, matrix(), 1, callbacks=[TaskSplit("label_lower_bound")])


@BOTH
def test_censored_labels_are_not_drawn_beside_predictions(objective):
    pytest.importorskip("matplotlib")
    model = fit(objective=objective)
    y = labels_of(objective)
    for plot in (mtboost.plotting.plot_calibration, mtboost.plotting.plot_shrinkage):
        with pytest.raises(UnsupportedError, match="censored times"):
            plot(model, X, y, task=TASK)


@pytest.mark.parametrize("n_censored", [0, 5])
def test_new_rounds_are_judged_by_the_tasks_with_events(monkeypatch, n_censored):
    found = []

    def recorded(*arguments):
        found.extend(gains_by_task(*arguments))
        return found

    monkeypatch.setattr(updating, "gains_by_task", recorded)
    model = mtboost.fit(X, Y, task=TASK, objective="survival:cox", **QUICK)
    changed = np.where(CODES == 0, -1.0, 1.0) * Y[::-1]
    valid = X[TEST], np.r_[-np.abs(changed[TEST][:n_censored]), changed[TEST][n_censored:]]
    task = np.r_[np.repeat("c", n_censored), np.where(TASK[TEST][n_censored:] == "a", "a", "b")]
    updated = model.update(X[TRAIN], changed[TRAIN], task=TASK[TRAIN], eval_set=(*valid, task))
    assert updated.quit_round["a"] > model.quit_round["a"]
    assert [name for name, _, _ in found] == ["a", "b"]
    table = updated.evaluate(*valid, task=task, metrics="cox-nloglik", against={"old": model})
    expected = table["cox-nloglik gain over old se"]
    for name, _, error in found:  # both of a bootstrap, of 50 and of 200 draws
        assert error == pytest.approx(expected[name], rel=0.4)


def test_a_time_of_zero_is_censored_with_a_warning():
    """It changes nothing, as a row that was censored before all events."""
    at_zero = np.append(Y, [0.0, -0.0])
    table, task = np.vstack([X, X[:2]]), np.append(TASK, TASK[:2])
    options = {"objective": "survival:cox", **QUICK}
    with pytest.warns(UserWarning, match="y is 0 in 1 rows, which count as censored at time 0"):
        model = mtboost.fit(table, at_zero, task=task, **options)
    censored = np.append(Y, [-0.0, -0.0])
    expected = mtboost.fit(table, censored, task=task, **options)
    np.testing.assert_array_equal(model.predict(X, task=TASK), expected.predict(X, task=TASK))
