# SPDX-License-Identifier: Apache-2.0
"""Scores of a model on new rows, their standard errors, and gains over other models."""

import numpy as np
import pandas as pd
import pytest
import scipy.special
import sklearn.metrics
from sklearn.linear_model import LogisticRegression

import mtboost
from mtboost.errors import DataError, ParameterError
from mtboost.metrics import Metric
from mtboost.model.estimates import Rows, make_score

OPTIONS = {"strategy": "two-stage", "num_boost_round": 10, "early_stopping_rounds": 5}


def table(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    task = np.array(["a", "b", "c"])[np.arange(n_rows) % 3]
    y = (X[:, 0] + (task == "b") * X[:, 1] + rng.normal(size=n_rows) > 0.5).astype(float)
    return X, y, task


@pytest.fixture(scope="module")
def model():
    X, y, task = table()
    return mtboost.fit(X, y, task=task, **OPTIONS)


@pytest.mark.parametrize(
    ("objective", "label", "message"),
    [
        ("multi:softprob", 3, "classes, 0 to 2, but 1 label is not: row 7 .value 3"),
        ("multi:softprob", -1, "classes, 0 to 2, but"),
        ("multi:softprob", 0.5, "classes, 0 to 2, but"),
        ("count:poisson", -1, "0 or positive"),
        ("by task", -1, "task 'b', rows of it counted: count:poisson"),
    ],
)
def test_labels_outside_the_domain_of_the_objective_are_refused(objective, label, message):
    X, _, task = table()
    y = np.arange(300) % 9 // 3
    by_task = {"a": "reg:squarederror", "b": "count:poisson", "c": "reg:squarederror"}
    objective = by_task if objective == "by task" else objective
    model = mtboost.fit(X, y, task=task, objective=objective, **OPTIONS)
    model.evaluate(X, y, task=task)
    with pytest.raises(DataError, match=message):
        model.evaluate(X, np.where(np.arange(300) == 7, label, y), task=task)


def ranked(seed=0, n_rows=60, weighted=False):
    """Labels, two predictions with ties, and weights."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < 0.4).astype(float)
    first = np.round(np.clip(0.5 * y + rng.random(n_rows) * 0.6, 0.01, 0.99), 1)
    second = np.round(np.clip(0.3 * y + rng.random(n_rows) * 0.6, 0.01, 0.99), 1)
    return y, first, second, rng.integers(1, 4, n_rows).astype(float) if weighted else None


def delong(y, *predictions):
    """AUCs and their covariance, by the placement values of DeLong, DeLong and Clarke-Pearson."""
    wins = [
        (p[y == 1][:, None] > p[y == 0]) + 0.5 * (p[y == 1][:, None] == p[y == 0])
        for p in predictions
    ]
    of_positives, of_negatives = ([w.mean(axis=axis) for w in wins] for axis in (1, 0))
    return [w.mean() for w in wins], np.cov(of_positives) / (y == 1).sum() + np.cov(
        of_negatives
    ) / (y == 0).sum()


def test_the_auc_has_the_covariance_of_delong():
    y, first, second, _ = ranked()
    aucs, covariance = delong(y, first, second)
    score = make_score("auc", 2, 0)
    found = [score.estimate(Rows(y, p, None)) for p in (first, second)]
    np.testing.assert_allclose([each.value for each in found], aucs)
    np.testing.assert_allclose([each.error for each in found], np.sqrt(np.diag(covariance)))
    difference = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    np.testing.assert_allclose(found[0].error_of_gain(found[1]), np.sqrt(difference))


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("average_precision", sklearn.metrics.average_precision_score),
        ("auc", sklearn.metrics.roc_auc_score),
        ("logloss", sklearn.metrics.log_loss),
        ("rmse", sklearn.metrics.root_mean_squared_error),
        ("mae", sklearn.metrics.mean_absolute_error),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_scikit_learn_and_effects_their_derivatives(name, twin, weighted):
    y, prediction, _, weight = ranked(seed=1, n_rows=30, weighted=weighted)
    found = make_score(name, 2, 0).estimate(Rows(y, prediction, weight))
    weights = np.ones(30) if weight is None else weight
    np.testing.assert_allclose(found.value, twin(y, prediction, sample_weight=weights))
    step = 1e-6
    derivatives = [
        (
            twin(y, prediction, sample_weight=weights * (1 + step * np.eye(30)[row]))
            - twin(y, prediction, sample_weight=weights * (1 - step * np.eye(30)[row]))
        )
        / (2 * step)
        for row in range(30)
    ]
    if name == "auc":  # each class has its own degrees of freedom
        factors = np.where(y == 1, *(np.sqrt(n / (n - 1)) for n in (y.sum(), 30 - y.sum())))
    else:
        factors = np.sqrt(30 / 29)
    np.testing.assert_allclose(found.effects, factors * np.array(derivatives), atol=1e-8)


def test_relative_errors_are_sums_of_errors_over_labels():
    y, prediction = np.array([1.0, 2.0, 4.0]), np.array([2.0, 2.0, 3.0])
    wape, mape = (
        make_score(name, 2, 0).estimate(Rows(y, prediction, None)) for name in ("wape", "mape")
    )
    assert wape.value == (1 + 0 + 1) / (1 + 2 + 4)
    assert mape.value == (1 / 1 + 0 / 2 + 1 / 4) / 3
    np.testing.assert_allclose(mape.error, np.std([1, 0, 0.25], ddof=1) / np.sqrt(3))
    assert np.isnan(make_score("mape", 2, 0).estimate(Rows(0 * y, prediction, None)).value)


def test_the_bootstrap_agrees_with_the_formula():
    y, prediction, *_ = ranked(n_rows=400)
    formula = make_score("average_precision", 2, 0).estimate(Rows(y, prediction, None))
    drawn = make_score(sklearn.metrics.average_precision_score, 1000, 0)
    bootstrap = drawn.estimate(Rows(y, prediction, None))
    assert bootstrap.value == pytest.approx(formula.value)
    # 1000 replicates know a standard deviation to 1/sqrt(2000) = 2%, and 400 rows are not infinite.
    assert bootstrap.error == pytest.approx(formula.error, rel=0.15)


def test_a_model_gains_nothing_over_itself_whatever_the_metric(model):
    X, y, task = table(seed=1)
    metrics = ["logloss", "auc", "aucpr", "roc_auc", sklearn.metrics.brier_score_loss]
    found = model.evaluate(X, y, task=task, metrics=metrics, against={"me": model}, n_bootstrap=5)
    gains = found.filter(like="gain")
    assert gains.shape == (4, 10)
    assert (gains == 0).all(axis=None)


def test_there_is_a_row_for_each_task_and_one_for_all(model):
    X, y, task = table(seed=1)
    found = model.evaluate(X, y, task=task)
    assert list(found.index) == ["a", "b", "c", "all tasks"]
    assert found["rows"].tolist() == [100, 100, 100, 300]
    assert found.loc["b", "positives"] == y[task == "b"].sum()
    own = task == "b"
    prediction = model.predict(X, task=task)
    assert found.loc["b", "auc"] == pytest.approx(
        sklearn.metrics.roc_auc_score(y[own], prediction[own])
    )
    assert found.loc["all tasks", "logloss"] == pytest.approx(
        sklearn.metrics.log_loss(y, prediction)
    )


def test_tables_by_task_have_the_same_scores(model):
    X, y, task = table(seed=1)
    order = [np.flatnonzero(task == name) for name in "cab"]
    by_task = [
        dict(zip("cab", (part[rows] for rows in order), strict=True))
        for part in (X, y, 1 + X[:, 0] ** 2)
    ]
    found = model.evaluate(by_task[0], by_task[1], weight=by_task[2])
    together = model.evaluate(X, y, task=task, weight=1 + X[:, 0] ** 2)
    pd.testing.assert_frame_equal(found, together)


def test_tables_by_task_may_have_columns_of_dates_that_the_model_does_not_use():
    X, y, task = table()
    frame = pd.DataFrame(X, columns=[f"x{n}" for n in range(X.shape[1])])
    model = mtboost.fit(frame, y, task=task, **OPTIONS)
    frame["day"] = pd.to_datetime("2024-01-01")
    rows = {name: np.flatnonzero(task == name) for name in "abc"}
    found = model.evaluate(
        {name: frame.iloc[own] for name, own in rows.items()},
        {name: y[own] for name, own in rows.items()},
    )
    np.testing.assert_allclose(found, model.evaluate(frame, y, task=task), rtol=1e-12)


def test_rows_of_weight_zero_are_left_out(model):
    X, y, task = table(seed=1)
    kept = np.arange(300) % 2 == 0
    found = model.evaluate(X, y, task=task, weight=kept.astype(float))
    pd.testing.assert_frame_equal(
        found, model.evaluate(X[kept], y[kept], task=task[kept]), check_dtype=False
    )


def test_other_models_may_be_boosters_estimators_and_predictions(library):
    X, y, task = table()
    model = mtboost.fit(X, y, task=task, backend=library.name, **OPTIONS)
    clf = mtboost.MultiTaskClassifier(backend=library.name, strategy="two-stage", n_estimators=5)
    logistic = LogisticRegression().fit(X, y)
    others = {
        "booster": model.common,
        "estimator": clf.fit(X, y, task=task),
        "logistic": logistic,
        "numbers": logistic.predict_proba(X)[:, 1],
    }
    found = model.evaluate(X, y, task=task, metrics="logloss", against=others)
    assert (found["logloss gain over logistic"] == found["logloss gain over numbers"]).all()
    own = sklearn.metrics.log_loss(y, model.predict(X, task=task))
    pooled = scipy.special.expit(library.margins(model.common, X))
    for name, other in (("logistic", logistic.predict_proba(X)), ("booster", pooled)):
        gain = sklearn.metrics.log_loss(y, other) - own
        assert found.loc["all tasks", f"logloss gain over {name}"] == pytest.approx(gain)


def test_a_scorer_and_its_name_are_the_same(model):
    X, y, task = table(seed=1)
    names = ["accuracy", "neg_brier_score"]
    scorers = [sklearn.metrics.get_scorer(name) for name in names]
    by_name = model.evaluate(X, y, task=task, metrics=names, n_bootstrap=3)
    by_scorer = model.evaluate(X, y, task=task, metrics=scorers, n_bootstrap=3)
    np.testing.assert_array_equal(by_name, by_scorer)
    hits = (model.predict(X, task=task) > 0.5) == y
    assert by_name.loc["all tasks", "accuracy"] == hits.mean()


def test_a_metric_of_the_user_keeps_its_direction(model):
    X, y, task = table(seed=1)
    worse = np.full(300, 0.5)
    for greater in (False, True):
        metric = Metric("own", sklearn.metrics.brier_score_loss, greater)
        found = model.evaluate(
            X, y, task=task, metrics=metric, against={"half": worse}, n_bootstrap=5
        )
        assert (found.loc["all tasks", "own gain over half"] > 0) == (not greater)


def test_scores_that_are_undefined_are_nan(model):
    X, _, task = table(seed=1)
    found = model.evaluate(
        X, np.zeros(300), task=task, metrics=["auc", "aucpr", "average_precision"]
    )
    assert found.drop(columns=["rows", "positives"]).isna().all(axis=None)


def test_tasks_with_objectives_have_their_own_metrics():
    X, y, task = table()
    y = np.where(task == "a", X[:, 0] * 10, y)
    objective = {"a": "reg:squarederror", "b": "binary:logistic", "c": "binary:logistic"}
    model = mtboost.fit(X, y, task=task, objective=objective, num_boost_round=5)
    found = model.evaluate(X, y, task=task)
    assert list(found.index) == ["a", "b", "c"]
    assert found.loc["a", ["rmse", "mae"]].notna().all()
    assert found.loc["b", ["logloss", "auc"]].notna().all()
    assert np.isnan(found.loc["a", "auc"])


def test_classes_are_scored_by_their_probabilities(library):
    X, _, task = table()
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    objective = library.multiclass
    model = mtboost.fit(X, y, task=task, objective=objective, backend=library.name, **OPTIONS)
    found = model.evaluate(
        X, y, task=task, metrics=["mlogloss", "merror", "accuracy"], n_bootstrap=2
    )
    proba = model.predict_proba(X, task=task)
    assert found.loc["all tasks", "mlogloss"] == pytest.approx(sklearn.metrics.log_loss(y, proba))
    np.testing.assert_allclose(found["merror"], 1 - found["accuracy"])


def test_a_scorer_is_undefined_for_a_task_that_lacks_a_class(library):
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(400, 2)), rng.choice(["a", "b"], 400)
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=400), [-0.7, 0.7])
    y[(task == "b") & (y == 2)] = 1
    objective = {"xgboost": "multi:softprob", "lightgbm": "multiclass"}[library.name]
    options = {"strategy": "two-stage", "num_boost_round": 5, "backend": library.name}
    options |= {"eval_metric": ["roc_auc_ovr", "mlogloss"], "params": {"num_class": 3}}
    model = mtboost.fit(X, y, task=task, objective=objective, **options)
    assert np.isnan(model.report()["roc_auc_ovr final"]).tolist() == [False, True]
    y[task == "b"] = 0
    y[np.flatnonzero(task == "b")[0]] = 1
    y[np.flatnonzero(task == "b")[1]] = 2  # which some bootstrap samples lack
    found = model.evaluate(X, y, task=task, metrics="roc_auc_ovr", n_bootstrap=20)
    assert (found[["roc_auc_ovr", "roc_auc_ovr se"]] > 0).all(axis=None)
    expected = sklearn.metrics.roc_auc_score(
        y[task == "b"], model.predict_proba(X, task=task)[task == "b"], multi_class="ovr"
    )
    assert found.loc["b", "roc_auc_ovr"] == pytest.approx(expected)


def test_misspelt_metrics_and_odd_models_are_named(model):
    X, y, task = table()
    with pytest.raises(ParameterError, match="'avergae_precision' is unknown.*average_precision"):
        model.evaluate(X, y, task=task, metrics="avergae_precision")
    with pytest.raises(TypeError, match="metrics has 3"):
        model.evaluate(X, y, task=task, metrics=[3])
    with pytest.raises(DataError, match=r"against\['half'\].*300 rows"):
        model.evaluate(X, y, task=task, against={"half": np.zeros(7)})
    with pytest.raises(TypeError, match=r"against\['old'\] is 'model': .*mtboost.load_model"):
        model.evaluate(X, y, task=task, against={"old": "model"})
    with pytest.raises(ParameterError, match="pass {name: model}"):
        model.evaluate(X, y, task=task, against=model)
    with pytest.raises(DataError, match="task"):
        model.evaluate(X, y)


def test_the_report_says_where_validation_says_little(tmp_path):
    X, y, task = table(n_rows=600)
    y[(task == "b") & (np.cumsum(task == "b") > 20)] = 0.0
    task = np.where(np.arange(600) < 585, task, "d")
    model = mtboost.fit(X, y, task=task, validation_fraction=0.3, **OPTIONS)
    report = model.report()
    assert report.loc["a", "validation_note"] == ""
    assert report.loc["d", "validation_note"].startswith(f"{report.loc['d', 'valid_rows']} valid")
    n_positives = report.loc["b", "valid_positives"]
    assert report.loc["b", "validation_note"].startswith(f"{n_positives} positive validation rows")
    assert (report["positives"] + report["valid_positives"]).sum() == y.sum()
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(mtboost.load_model(tmp_path / "model").report(), report)


def test_labels_must_be_those_of_the_metric():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(90, 2)), np.repeat(["a", "b", "c"], 30)
    options = {"task": task, "strategy": "two-stage", "num_boost_round": 2, "n_threads": 1}
    model = mtboost.fit(X, 3.0 + X[:, 0], **options)
    for name in ("logloss", "error", "auc", "aucpr", "average_precision"):
        with pytest.raises(DataError, match=f"{name} needs labels of two classes, from 0 to 1"):
            model.evaluate(X, 3.0 + X[:, 0], task=task, metrics=name)
    with pytest.raises(DataError, match="error needs labels of two classes"):
        mtboost.fit(X, 3.0 + X[:, 0], eval_metric="error", **options)


def test_no_task_may_have_the_name_of_the_line_of_all_rows():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(60, 2)), np.repeat(["a", "all tasks"], 30)
    options = {"strategy": "two-stage", "num_boost_round": 2, "n_threads": 1}
    model = mtboost.fit(X, X[:, 0], task=task, **options)
    with pytest.raises(DataError, match="A task is named 'all tasks', as is the line of all rows"):
        model.evaluate(X, X[:, 0], task=task)


def test_metrics_of_other_labels_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    times = np.where(rng.random(200) < 0.3, -1.0, 1.0) * np.exp(-X[:, 0])
    fixed = {"strategy": "two-stage", "num_boost_round": 3}
    cox = mtboost.fit(X, times, objective="survival:cox", **fixed)
    with pytest.raises(ParameterError, match="metrics: 'rmse' does not fit .*'cox-nloglik'"):
        cox.evaluate(X, times, metrics="rmse")
    grades, query = np.arange(200) % 3, np.repeat(np.arange(20), 10)
    ranker = mtboost.fit(X, grades, qid=query, objective="rank:ndcg", **fixed)
    with pytest.raises(ParameterError, match="metrics: 'rmse' does not fit .*'ndcg'"):
        ranker.evaluate(X, grades, qid=query, metrics=["rmse", "ndcg"])
    numbers = mtboost.fit(X, X[:, 0], **fixed)
    with pytest.raises(ParameterError, match="metrics: 'ndcg' does not fit"):
        numbers.evaluate(X, X[:, 0], metrics="ndcg")
