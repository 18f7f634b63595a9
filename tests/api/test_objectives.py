# SPDX-License-Identifier: Apache-2.0
"""What docs/objectives.md says of each objective is what the functions do."""

import re
from pathlib import Path

import numpy as np
import pytest

import mtboost
import mtboost.lightgbm
from mtboost.errors import ParameterError, UnsupportedError

PAGE = Path(__file__).parents[2] / "docs/objectives.md"
ROWS = [
    [cell.strip(" `") for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| `\w+[:_]?\w*` \| (XGBoost|LightGBM) ", line)
]

_rng = np.random.default_rng(0)
N_ROWS = 160
X = _rng.normal(size=(N_ROWS, 3))
TASK = np.repeat(["a", "b"], N_ROWS // 2)
QUERY = np.repeat(np.arange(N_ROWS // 8), 8)
SCORE = X[:, 0] + _rng.normal(size=N_ROWS)
LABELS = {
    "numbers": SCORE,
    "amounts": np.exp(SCORE / 3),
    "shares": 1 / (1 + np.exp(-SCORE)),
    "classes 0, 1": (SCORE > 0).astype(int),
    "classes 0, 1, 2, ...": np.digitize(SCORE, [-0.5, 0.5]),
    "grades of rows of a query": np.digitize(SCORE, [-0.5, 0.5]),
    "bounds of times": np.exp(SCORE)[:, None] * [1.0, 1.5],
    "times, censored ones negative": np.exp(-SCORE) * np.where(np.arange(N_ROWS) % 3, 1, -1),
}


def fit(objective, library, labels, **options):
    params = {}
    if objective == "reg:quantileerror":
        params["quantile_alpha"] = 0.7
    if labels == "classes 0, 1, 2, ...":
        params["num_class"] = 3
    if options.get("symmetric_trees") and library == "LightGBM":
        params |= {"max_depth": 2, "num_leaves": 4}
    if labels.startswith("grades"):
        options["qid"] = QUERY
    return mtboost.fit(
        X,
        LABELS[labels],
        task=TASK,
        objective=objective,
        backend=library.lower(),
        params=params,
        num_boost_round=2,
        specific_rounds=2,
        n_threads=1,
        **options,
    )


def test_the_table_is_read():
    assert {row[1] for row in ROWS} == {"XGBoost", "LightGBM"}
    assert len(ROWS) == 32


@pytest.mark.parametrize(
    "options",
    [
        {"split_score": "plain"},
        {"split_score": "entropy"},
        {"split_score": "variance"},
        {"pooling": 2.0},
        {"split_score": "plain", "task_splits": True},
        {"split_score": "plain", "symmetric_trees": True},
        {"strategy": "auto", "effort": "fast", "validation_fraction": 0.25},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_objective_has_the_choices_of_all(row, options):
    model = fit(*row[:3], **{"strategy": "two-stage", **options})
    assert np.isfinite(model.predict_margin(X, task=TASK)).all()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
@pytest.mark.parametrize(("column", "option"), [(3, "linear_effects"), (4, "intervals")])
def test_what_some_objectives_lack_is_refused(row, column, option):
    options = {"strategy": "two-stage", option: True}
    if row[column] == "yes":
        assert np.isfinite(fit(*row[:3], **options).predict_margin(X, task=TASK)).all()
    else:
        with pytest.raises(ParameterError, match=f"{option}=True is"):
            fit(*row[:3], **options)


@pytest.mark.parametrize("metric", [None, "mphe"])
def test_evaluate_has_the_slope_of_the_huber_loss(metric):
    """And the model is validated by it, as in XGBoost, whichever way the metric is named."""
    y, valid = X[:, 0] + (TASK[0] == TASK), np.arange(len(X)) % 3 == 0
    model = mtboost.fit(
        X[~valid],
        y[~valid],
        task=TASK[~valid],
        objective="reg:pseudohubererror",
        params={"huber_slope": 0.2},
        eval_metric=metric,
        strategy="two-stage",
        num_boost_round=5,
        eval_set=(X[valid], y[valid], TASK[valid]),
        refit=False,
    )
    table = model.evaluate(X[valid], y[valid], task=TASK[valid])
    own = valid & (TASK[0] == TASK)
    error = y[own] - model.predict(X[own], task=TASK[own])
    loss = np.mean(0.2**2 * (np.sqrt(1.0 + (error / 0.2) ** 2) - 1.0))
    assert table.loc[TASK[0], "mphe@0.2"] == pytest.approx(loss)
    assert model.report().loc[TASK[0], "mphe@0.2 final"] == pytest.approx(loss)


@pytest.mark.parametrize("seed", range(6))
def test_mape_with_weights_is_trained_whatever_the_rows(seed):
    """LightGBM's own trees are summed by rows: by columns its training fails for some rows."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(900, 4))
    y = rng.gamma(2.0, np.exp(rows[:, 0] / 2.0))
    task, weight = rng.choice(["a", "b", "c"], 900), rng.random(900) + 0.5
    model = mtboost.fit(
        rows,
        y,
        task=task,
        weight=weight,
        objective="mape",
        backend="lightgbm",
        strategy="two-stage",
        num_boost_round=3,
        specific_rounds=60,
        early_stopping_rounds=60,
        params={"bagging_fraction": 0.7, "bagging_freq": 1, "num_leaves": 16},
    )
    assert np.isfinite(model.predict(rows, task=task)).all()


@pytest.mark.parametrize(
    ("given", "in_xgboost", "in_lightgbm"),
    [
        ("poisson", "count:poisson", None),
        ("count:poisson", None, "poisson"),
        ("mse", "reg:squarederror", None),
        ("reg:squarederror", None, "regression"),
        ("squared_error", "reg:squarederror", "regression"),
        ("log_loss", "binary:logistic", "binary"),
        ("multi:softprob", None, "multiclass"),
        ("reg:squareerror", "reg:squarederror", None),
    ],
)
def test_an_objective_of_another_library_has_the_own_name_as_a_hint(given, in_xgboost, in_lightgbm):
    X, task = np.random.default_rng(0).random((40, 2)), np.repeat(["a", "b"], 20)
    for backend, own in (("xgboost", in_xgboost), ("lightgbm", in_lightgbm)):
        if own is None:
            continue
        for objective in (given, {"a": given, "b": own}):
            if isinstance(objective, dict) and own.startswith("multi"):
                continue
            with pytest.raises(ParameterError, match=f"Did you mean '{own}'"):
                mtboost.fit(X, X[:, 0], task=task, objective=objective, backend=backend)
        make = mtboost.xgboost if backend == "xgboost" else mtboost.lightgbm
        with pytest.raises(UnsupportedError, match=f"Did you mean '{own}'"):
            make.TaskObjective(given, task)
