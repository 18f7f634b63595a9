# SPDX-License-Identifier: Apache-2.0
"""mtboost.fit with an objective for each task."""

import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
import xgboost
from libraries import LIBRARIES

import mtboost
from mtboost.errors import DataError, ParameterError, TrainingError, UnsupportedError

RNG = np.random.default_rng(0)
N = {"churn": 500, "spend": 600, "visits": 300}
SIGNAL = {name: RNG.normal(size=(n, 4)) for name, n in N.items()}
FACTOR = {name: np.sin(2 * x[:, 0]) + x[:, 1] for name, x in SIGNAL.items()}
Y = {
    "churn": (RNG.random(500) < 1 / (1 + np.exp(1 - FACTOR["churn"]))).astype(float),
    "spend": 3000 + 800 * (FACTOR["spend"] + RNG.normal(size=600)),
    "visits": RNG.poisson(np.exp(0.4 * FACTOR["visits"] + 1)).astype(float),
}
X = np.concatenate([SIGNAL[name] for name in N])
LABELS = np.concatenate([Y[name] for name in N])
TASK = np.repeat(list(N), list(N.values()))
OBJECTIVE = {"spend": "reg:squarederror", "churn": "binary:logistic", "visits": "count:poisson"}
FAST = {
    "strategy": "two-stage",
    "num_boost_round": 25,
    "specific_rounds": 10,
    "early_stopping_rounds": 5,
    "n_threads": 1,
}
NEW = RNG.normal(size=(90, 4))


def own_names(library, objective=OBJECTIVE):
    return {n: library.own(own) if isinstance(own, str) else own for n, own in objective.items()}


def fit(library, X=X, y=LABELS, task=TASK, objective=OBJECTIVE, **options):
    options = {"params": {"learning_rate": 0.2, "max_depth": 3}, **FAST, **options}
    if not isinstance(objective, str):
        objective = own_names(library, objective)
    return mtboost.fit(X, y, task=task, objective=objective, backend=library.name, **options)


def response(booster, table):
    if isinstance(booster, xgboost.Booster):
        return booster.predict(xgboost.DMatrix(table, nthread=1))
    return booster.predict(table, num_threads=1)


def objective_of(booster):
    if isinstance(booster, xgboost.Booster):
        return json.loads(booster.save_config())["learner"]["objective"]["name"]
    header = booster.model_to_string().split("\nobjective=")[1]
    return header.split("\n")[0].split(" ")[0]


def assert_boosters_predict_as_the_model(library, model, table=NEW):
    margins = model.predict_margin(dict.fromkeys(model.tasks, table))
    predicted = model.predict(dict.fromkeys(model.tasks, table))
    for name in model.tasks:
        booster = model.booster(name)
        assert type(booster) is library.booster
        # LightGBM adds the same doubles in another order.
        rtol = 0 if library.name == "xgboost" else 1e-12
        own = library.margins(booster, table)
        np.testing.assert_allclose(own, margins[name], rtol=rtol, atol=library.atol)
        np.testing.assert_allclose(
            response(booster, table), predicted[name], rtol=rtol, atol=library.atol
        )


# ---- the boosters of the tasks --------------------------------------------------------------

OPTIONS = {
    "both stages": {},
    "leaf values of single tasks": {"pooling": 5.0, "split_score": "plain"},
    "cuts between tasks": {"task_splits": True, "pooling": 5.0, "split_score": "plain"},
    "no specific models": {"specific_rounds": 0},
    "all rounds": {"early_stopping_rounds": None, "num_boost_round": 6, "specific_rounds": 4},
    "plain score": {"split_score": "plain"},
    "refit": {"refit": True},
    "weights": {"weight": RNG.integers(0, 3, len(LABELS)), "task_weight": "balanced"},
    "options of losses": {"params": {"max_delta_step": 0.4}},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_booster_has_its_tasks_objective_and_the_models_predictions(library, options):
    model = fit(library, **options)
    assert model.objective == own_names(library)
    for name in model.tasks:
        assert objective_of(model.booster(name)) == own_names(library)[name]
    assert_boosters_predict_as_the_model(library, model)


def test_each_task_is_predicted_on_the_scale_of_its_labels(library):
    model = fit(library)
    predicted = model.predict(dict.fromkeys(N, NEW))
    assert 0 < predicted["churn"].min() < predicted["churn"].max() < 1
    assert predicted["visits"].min() > 0
    truth = np.sin(2 * NEW[:, 0]) + NEW[:, 1]
    assert np.corrcoef(predicted["spend"], truth)[0, 1] > 0.9
    assert abs(predicted["spend"].mean() - 3000) < 400


def test_with_no_round_at_all_a_task_is_predicted_by_its_mean(library):
    # What helps nobody: validation labels are those of other rows.
    shuffled = np.concatenate([RNG.permutation(Y[name]) for name in N])
    valid = (RNG.normal(size=X.shape), shuffled, TASK)
    model = fit(library, eval_set=valid, early_stopping_rounds=2, specific_rounds=0)
    model.quit_round.update(dict.fromkeys(N, 0))
    for name, predicted in model.predict(dict.fromkeys(N, NEW)).items():
        np.testing.assert_allclose(predicted, Y[name].mean(), rtol=1e-5)
    assert_boosters_predict_as_the_model(library, model)


def test_parameters_of_one_loss_do_not_make_the_library_warn_of_the_others(library, capfd):
    loss = {"tweedie_variance_power": 1.3, "scale_pos_weight": 2.0}
    objective = OBJECTIVE | {"visits": "reg:tweedie"}
    fit(library, objective=objective, params={"learning_rate": 0.2, **loss})
    assert capfd.readouterr() == ("", "")


def test_tasks_may_have_columns_of_their_own(library):
    tables = {n: pd.DataFrame(SIGNAL[n], columns=list("pqrs")) for n in N}
    tables["visits"] = tables["visits"].assign(
        shop=pd.Categorical(RNG.choice(["a", "b"], N["visits"]))
    )
    model = fit(library, tables, Y, None)
    for name, table in tables.items():
        booster = model.booster(name)
        own = library.margins(booster, table[library.feature_names(booster)])
        rtol = 0 if library.name == "xgboost" else 1e-12
        found = model.predict_margin({name: table})[name]
        np.testing.assert_allclose(own, found, rtol=rtol, atol=library.atol)


def test_rows_from_base_margins_add_to_them(library):
    start = np.where(TASK == "spend", 2500.0, 0.5)
    model = fit(library, base_margin=start)
    margins = model.predict_margin(X, task=TASK, base_margin=start)
    spend = TASK == "spend"
    assert np.corrcoef(margins[spend], LABELS[spend])[0, 1] > 0.6
    for name in N:
        rows = name == TASK
        own = library.margins(model.booster(name), X[rows], start[rows].astype(np.float32))
        np.testing.assert_allclose(own, margins[rows], rtol=1e-6)


def test_importances_and_contributions_are_in_the_tasks_unit(library):
    model = fit(library)
    for name in N:
        booster = model.booster(name)
        for kind in library.importances:
            found, expected = model.importance(name, kind), library.importance(booster, kind)
            assert found == pytest.approx(expected, rel=1e-5)
        parts = model.contributions({name: NEW})[name]
        margins = model.predict_margin({name: NEW})[name]
        np.testing.assert_allclose(parts.sum(axis=1), margins, rtol=1e-4, atol=1e-4)
    of_churn, of_spend, _ = (sum(model.importance(n, "total_gain").values()) for n in N)
    assert of_spend > 1e4 * of_churn  # squared units of money against log-likelihood


# ---- what is equal --------------------------------------------------------------------------

CLASSES = np.concatenate([FACTOR[name] + RNG.normal(size=N[name]) > 0.7 for name in N]) * 1.0
LOGISTIC = dict.fromkeys(N, "binary:logistic")


@pytest.mark.parametrize("score", ["entropy", "plain"])
def test_with_one_loss_and_one_start_it_is_the_fit_with_one_objective(library, score):
    start = np.linspace(-1, 1, len(X)).astype(np.float32)
    options = {"y": CLASSES, "base_margin": start, "split_score": score}
    mixed = fit(library, objective=LOGISTIC, **options)
    single = fit(library, objective=library.own("binary:logistic"), **options)
    assert library.trees(mixed.common) == library.trees(single.common)
    assert mixed.quit_round == single.quit_round
    found, expected = (m.predict(X, task=TASK, base_margin=start) for m in (mixed, single))
    np.testing.assert_array_equal(found, expected)
    for name in N:
        assert mixed.reports[name].scores == pytest.approx(single.reports[name].scores, rel=1e-6)


def test_with_equal_means_it_is_the_fit_with_one_objective(library):
    # Half of the labels of each task are 1, also of those that are held out.
    y = np.concatenate([FACTOR[name] > np.median(FACTOR[name]) for name in N]) * 1.0
    assert all(y[name == TASK].mean() == 0.5 for name in N)
    flipped = np.where(RNG.random(len(X)) < 0.2, 1 - y, y)
    for name in N:  # noise that keeps the balance
        rows = np.flatnonzero(name == TASK)
        extra = int(flipped[rows].sum() - len(rows) / 2)
        surplus = rows[flipped[rows] == (extra > 0)]
        flipped[surplus[: abs(extra)]] = float(extra < 0)
    options = {"y": flipped, "params": {"learning_rate": 0.2}}
    single = fit(library, objective=library.own("binary:logistic"), **options)
    mixed = fit(library, objective=LOGISTIC, **options)
    assert library.trees(mixed.common) == library.trees(single.common)
    np.testing.assert_array_equal(mixed.predict(X, task=TASK), single.predict(X, task=TASK))


def test_squared_errors_of_one_variance_are_the_fit_with_one_objective(library):
    # Mean 0 and variance 4 in every task: a unit of 2, by which floats are scaled exactly.
    y = np.concatenate([np.sign(FACTOR[n] - np.median(FACTOR[n])) for n in N]) * 2.0
    valid = (NEW, 2.0 * np.sign(np.sin(2 * NEW[:, 0]) + NEW[:, 1]), np.resize(list(N), 90))
    options = {"y": y, "eval_set": valid, "params": None}
    single = fit(library, objective=library.squared_error, **options)
    mixed = fit(library, objective=dict.fromkeys(N, "reg:squarederror"), **options)
    assert {loss.unit for loss in mixed.losses.values()} == {2.0}
    assert mixed.quit_round == single.quit_round
    found, expected = (m.predict_margin(X, task=TASK) for m in (mixed, single))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_the_unit_of_a_label_is_of_no_account(library):
    # A power of two, so that all roundings are the same.
    spend = TASK == "spend"
    dear = np.where(spend, 1024.0 * LABELS, LABELS)
    model, other = fit(library), fit(library, y=dear)
    assert library.raw(other.common) == library.raw(model.common)
    assert other.quit_round == model.quit_round
    found, expected = (m.predict(X, task=TASK) for m in (other, model))
    np.testing.assert_allclose(found, np.where(spend, 1024, 1) * expected, rtol=1e-6)


def test_the_number_of_threads_changes_nothing(library):
    one, three = (fit(library, n_threads=n) for n in (1, 3))
    assert library.raw(one.common) == library.raw(three.common)
    for name in N:
        assert library.raw(one.booster(name)) == library.raw(three.booster(name))


def test_no_loss_drowns_another(library):
    # With gradients as they are, those of spend (about 1000) are all that a common tree sees.
    model = fit(library, specific_rounds=0, early_stopping_rounds=None)
    scores = {name: report.common_history for name, report in model.reports.items()}
    for name in ("churn", "visits"):
        alone = fit(
            library,
            SIGNAL[name],
            Y[name],
            np.full(N[name], name),
            {name: OBJECTIVE[name]},
            specific_rounds=0,
            early_stopping_rounds=None,
            validation_fraction=0.2,
        )
        history = alone.reports[name].common_history
        assert scores[name][0] - scores[name].min() > 0.5 * (history[0] - history.min())


# ---- metrics and the report -----------------------------------------------------------------


def test_each_task_quits_by_its_own_metric(library):
    model = fit(library, eval_metric={"churn": "auc"})
    assert model.metric == {"churn": "auc", "spend": "rmse", "visits": "poisson-nloglik"}
    for name in N:
        history = model.history[name]["common"] * (-1 if name == "churn" else 1)
        best = 0
        for n_rounds, value in enumerate(history):
            if n_rounds - best == FAST["early_stopping_rounds"] and value >= history[best]:
                break
            best = n_rounds if value < history[best] else best
        assert model.quit_round[name] == best > 0


def test_histories_are_metrics_of_the_models_predictions(library):
    valid = (NEW, RNG.integers(0, 2, 90).astype(float), np.resize(list(N), 90))
    model = fit(library, eval_set=valid)
    predicted = model.predict(NEW, task=valid[2])
    for name in N:
        rows = valid[2] == name
        value = mtboost.metrics.evaluate_by_task(
            model.metric[name], valid[1][rows], predicted[rows], np.zeros(rows.sum(), int), 1
        )
        assert model.reports[name].scores["final"] == pytest.approx(value[0], rel=1e-5)


def test_one_metric_may_be_that_of_all_tasks(library):
    model = fit(library, eval_metric="mae")
    assert set(model.metric.values()) == {"mae"}


def test_the_report_names_objective_and_metric_of_each_task(library):
    model = fit(library, baselines=True)
    report = model.report()
    assert report["objective"].to_dict() == own_names(library)
    assert report["metric"].to_dict() == model.metric
    assert report.loc["churn", "positives"] > 0
    assert np.isnan(report.loc["spend", "positives"])
    assert report[["common", "final", "independent"]].notna().all().all()
    assert "pooled" not in report
    alone = report.loc["spend", "independent"]
    assert 0.5 < report.loc["spend", "final"] / alone < 1.5
    assert own_names(library)["visits"] in repr(model)


def test_progress_names_the_metric_of_each_task(library, capsys):
    fit(library, verbose=5, specific_rounds=0)
    out = capsys.readouterr().out
    assert "churn-logloss:" in out
    assert "spend-rmse:" in out


def test_the_history_of_all_tasks_is_drawn_on_one_scale(library):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = fit(library).plot_history()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sorted(labels) == ["churn: logloss", "spend: rmse", "visits: poisson-nloglik"]
    common = [line.get_ydata() for line in axes.lines if line.get_linestyle() == "-"]
    assert [values[0] for values in common] == [1, 1, 1]
    pyplot.close("all")


# ---- predictions ----------------------------------------------------------------------------


def test_rows_of_one_table_are_predicted_as_tables_of_tasks(library):
    model = fit(library)
    tables = model.predict({name: SIGNAL[name] for name in N})
    np.testing.assert_array_equal(
        model.predict(X, task=TASK), np.concatenate([tables[name] for name in N])
    )


@pytest.mark.parametrize("known", [["spend"], ["visits", "churn"]])
def test_rows_of_some_tasks_only_are_predicted(library, known):
    model = fit(library)
    rows = np.isin(TASK, known)
    found = model.predict(X[rows], task=TASK[rows])
    np.testing.assert_array_equal(found, model.predict(X, task=TASK)[rows])


def test_probabilities_are_those_of_the_tasks_of_classes(library):
    model = fit(library)
    churn = TASK == "churn"
    found = model.predict_proba(X[churn], task=TASK[churn])
    np.testing.assert_array_equal(found[:, 1], model.predict(X[churn], task=TASK[churn]))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(model.predict_proba({"churn": X[churn]})["churn"], found)


@pytest.mark.parametrize("rows", [(X, TASK), ({"spend": NEW, "churn": NEW}, None)])
def test_probabilities_of_other_tasks_are_refused(library, rows):
    message = "X has rows of task.* 'spend'.*pass those of task 'churn' alone"
    with pytest.raises(DataError, match=message):
        fit(library).predict_proba(rows[0], task=rows[1])


def test_rows_of_an_unknown_task_are_refused(library):
    model = fit(library)
    with pytest.raises(DataError, match="row 0 is unknown.*add_task"):
        model.predict(NEW, task=np.full(90, "returns"))
    with pytest.raises(DataError, match="unknown task 'returns'"):
        model.predict({"returns": NEW})
    with pytest.raises(ParameterError, match="unknown_task='common' needs one objective"):
        model.predict(NEW, task=np.full(90, "returns"), unknown_task="common")


# ---- files and new tasks --------------------------------------------------------------------


def test_a_file_has_the_losses_of_the_tasks(library, tmp_path):
    by_number = {number: OBJECTIVE[name] for number, name in enumerate(N)}
    model = fit(library, task=pd.factorize(TASK)[0], objective=by_number)
    copies = [pickle.loads(pickle.dumps(model))]
    model.save(tmp_path / "model.mtb")
    copies.append(mtboost.load_model(tmp_path / "model.mtb"))
    for again in copies:
        assert again.losses == model.losses
        assert again.objective == model.objective
        assert again.metric == model.metric
        pd.testing.assert_frame_equal(again.report(), model.report())
        rows = dict.fromkeys(range(3), NEW)
        for name, part in model.predict(rows).items():
            np.testing.assert_array_equal(again.predict(rows)[name], part)
    with zipfile.ZipFile(tmp_path / "model.mtb") as archive:
        meta = json.loads(archive.read("mtboost.json"))
    assert meta["format"] == 7
    assert meta["objective"] is meta["metric"] is None
    assert meta["tasks"][2]["loss"]["objective"] == model.objective[2]


def test_a_new_task_joins_with_an_objective_of_its_own(library, tmp_path):
    model = fit(library)
    before = model.predict(X, task=TASK)
    labels = np.exp(NEW[:, 1] + 0.1 * RNG.normal(size=90)) * 40
    model.add_task("cost", NEW, labels, objective=library.own("reg:gamma"), n_threads=1)
    np.testing.assert_array_equal(model.predict(X, task=TASK), before)
    assert model.report().loc["cost", "metric"] == "gamma-deviance"
    assert 10 < model.losses["cost"].start < 200
    assert model.reports["cost"].common_history[0] > model.reports["cost"].scores["final"]
    assert_boosters_predict_as_the_model(library, model)
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(
        again.predict({"cost": NEW})["cost"], model.predict({"cost": NEW})["cost"]
    )


@pytest.mark.parametrize("objective", [None, lambda margins, data: (margins, margins)])
def test_a_new_task_needs_the_name_of_an_objective(library, objective):
    model = fit(library)
    with pytest.raises(ParameterError, match="each task of this model has its own"):
        model.add_task("new", NEW, NEW[:, 0], objective=objective)
    with pytest.raises(ParameterError, match="cannot be mixed"):
        model.add_task("new", NEW, NEW[:, 0], objective="huber")
    assert "new" not in model.tasks


def test_a_replaced_task_keeps_its_objective(library):
    model = fit(library)
    replaced = model.replace_task("visits", SIGNAL["visits"], Y["visits"])
    assert replaced.losses["visits"].objective == model.losses["visits"].objective
    other = {"objective": library.own("reg:squarederror")}
    replaced = model.replace_task("visits", SIGNAL["visits"], Y["visits"], **other)
    assert replaced.losses["visits"].objective == other["objective"]


@pytest.mark.filterwarnings("ignore:The labels of some tasks vary much less")  # test_own_units.py
def test_a_new_task_of_one_objective_cannot_have_another(library):
    model = mtboost.fit(X, LABELS, task=TASK, backend=library.name, **FAST)
    with pytest.raises(ParameterError, match="leave it out"):
        model.add_task("new", NEW, NEW[:, 0], objective=library.own("count:poisson"))


# ---- what is refused ------------------------------------------------------------------------

REFUSED = {
    "a task is missing": ({"objective": {"spend": "reg:squarederror"}}, "lacks tasks 'churn', 'v"),
    "a task is unknown": (
        {"objective": {**OBJECTIVE, "visit": "count:poisson"}},
        "objective has unknown task 'visit'.*Did you mean 'visits'",
    ),
    "no objective": (
        {"objective": {**OBJECTIVE, "churn": "binary:logistics"}},
        "objective of task 'churn' is 'binary:logistics'.*Tasks can be mixed of",
    ),
    "a margin per class": (
        {"objective": {**OBJECTIVE, "churn": "multi:softprob"}},
        "task 'churn' is 'multi:softprob', which has a margin for each class",
    ),
    "leaves of another rule": (
        {"objective": {**OBJECTIVE, "spend": "reg:absoluteerror"}},
        "task 'spend' is 'reg:absoluteerror'.*cannot be mixed",
    ),
    "a function": (
        {"objective": {**OBJECTIVE, "spend": len}},
        "task 'spend' is <built-in function len>: give the library's name",
    ),
    "a metric of an unknown task": (
        {"eval_metric": {"chorn": "auc"}},
        "eval_metric has unknown task 'chorn'.*Did you mean 'churn'",
    ),
    "labels of another kind": (
        {"y": np.where(TASK == "churn", 2.0, LABELS)},
        "task 'churn', rows of it counted: binary:logistic needs labels",
    ),
    "negative counts": (
        {"y": np.where(TASK == "visits", -1.0, LABELS)},
        "task 'visits', rows of it counted: count:poisson needs labels.*row 0",
    ),
    "validation labels of another kind": (
        {"eval_set": (NEW, np.full(90, -1.0), np.full(90, "visits"))},
        "eval_set: task 'visits', rows of it counted: count:poisson needs",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_before_the_first_tree(library, changes, message):
    rounds = []
    with pytest.raises((ParameterError, DataError), match=library.own(message)):
        fit(library, callbacks=[library.callback(rounds.append)], **changes)
    assert rounds == []


def test_a_metric_by_task_needs_an_objective_by_task(library):
    with pytest.raises(ParameterError, match="eval_metric is a mapping, but objective is one"):
        fit(library, objective=library.squared_error, eval_metric={"churn": "auc"})


def test_a_start_of_all_tasks_is_refused():
    with pytest.raises(ParameterError, match="params has 'base_score'.*each starts from"):
        fit(LIBRARIES["xgboost"], params={"base_score": 0.5})


def test_square_roots_of_labels_are_refused_by_lightgbm():
    with pytest.raises(UnsupportedError, match="reg_sqrt"):
        fit(LIBRARIES["lightgbm"], params={"reg_sqrt": True})


def test_gradients_that_overflow_end_the_training(library):
    start = np.where(TASK == "visits", 1e5, 0.0)
    with pytest.raises(TrainingError, match=library.own("count:poisson")):
        fit(library, base_margin=start)


@pytest.mark.parametrize("kind", [mtboost.MultiTaskClassifier, mtboost.MultiTaskRegressor])
def test_estimators_are_of_one_kind(kind):
    with pytest.raises(ParameterError, match="use mtboost.fit"):
        kind(objective=OBJECTIVE).fit(X, TASK == "churn", task=TASK)


def test_a_label_of_0_and_1_beside_numbers_is_named_in_a_warning(library):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = {"amount": X[:, 0], "bought": X[:, 1] > 0}
    quick = {"strategy": "two-stage", "num_boost_round": 2, "backend": library.name}
    kinds = (library.own("binary:logistic"), library.squared_error)
    message = (
        "All labels of {} 'bought' are 0 or 1, .* objective={{'bought': '{}', 'amount': '{}'}}"
    )
    tables = dict.fromkeys(y, X)
    for rows, what in (((tables, y), "task"), ((X, pd.DataFrame(y)), "label")):
        with pytest.warns(UserWarning, match=message.format(what, *kinds)) as found:
            model = mtboost.fit(*rows, **quick)
        assert (model.objective, len(found)) == (library.squared_error, 1)
        mtboost.fit(*rows, objective=library.squared_error, **quick)
        mtboost.fit(*rows, objective=dict(zip(["bought", "amount"], kinds, strict=True)), **quick)
    in_one_table = np.repeat(list(y), 60)
    mtboost.fit(np.vstack([X, X]), np.concatenate([*y.values()]), task=in_one_table, **quick)
    few = {"amount": X[:, 0], "bought": y["bought"][:10]}
    mtboost.fit({"amount": X, "bought": X[:10]}, few, **quick)
