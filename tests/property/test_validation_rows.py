# SPDX-License-Identifier: Apache-2.0
"""What validation rows decide and the report says is what predict() says of the same rows."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost

import mtboost
from mtboost.metrics import evaluate_by_task

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

N, N_VALID = 300, 120
LEVELS = ["a", "b", "c", "d", "e"]


def numbers(rng, n, is_valid):
    """Values of few and of many distinct numbers; those to validate on lie far outside, too."""
    table = np.column_stack(
        [
            rng.integers(0, 4, n).astype(float),
            rng.normal(size=n),
            np.round(rng.normal(size=n), 1) + 5.0,
            rng.choice([0.0, 1e-3, 2.0], n),
        ]
    )
    table[rng.random(n) < 0.3, 0] = np.nan
    if is_valid:
        table[rng.random(table.shape) < 0.2] = np.nan  # also where training rows have no missing
        is_far = rng.random(table.shape) < 0.4
        table[is_far] *= rng.choice([-1e3, 0.3, 1.0001, 1.2, 1e3], is_far.sum())
        table[rng.random(table.shape) < 0.1] = -7.0
    return table


def frame(rng, n, is_valid):
    """The same beside categories, some of which no training row has."""
    present = LEVELS if is_valid else ["b", "d"]
    labels = pd.Categorical(rng.choice(present, n), categories=LEVELS)
    return pd.DataFrame(numbers(rng, n, is_valid), columns=list("wxyz")).assign(level=labels)


def csr(rng, n, is_valid):
    table = np.nan_to_num(numbers(rng, n, is_valid)) * (rng.random((n, 4)) < 0.5)
    return scipy.sparse.csr_array(table)


def labels_of(rng, table, task):
    """What the first two columns tell, the second of which matters to one task only."""
    if scipy.sparse.issparse(table):
        columns = table.toarray()
    else:
        columns = table if isinstance(table, np.ndarray) else table[["w", "x"]].to_numpy()
    signal = np.where(np.isnan(columns[:, 0]), 2.0, 0.0)
    signal += 2.0 * task * np.sign(np.nan_to_num(columns[:, 1]))
    if isinstance(table, pd.DataFrame):
        signal += np.asarray(table["level"] == "d")
    return signal + 0.3 * rng.normal(size=len(signal))


def metrics_by_round(library, model, name, table, y, task, metric):
    """Metric of one task after each round of its booster, from predictions of its rows."""
    rows = np.flatnonzero(task == name)
    own = table[rows] if not isinstance(table, pd.DataFrame) else table.iloc[rows]
    booster = model.booster(name)
    found = []
    for n_rounds in range(1, library.n_rounds(booster) + 1):
        margins = library.margins(library.first_rounds(booster, n_rounds), own)
        prediction = 1 / (1 + np.exp(-margins)) if metric == "logloss" else margins
        zeros = np.zeros(len(rows), int)
        found.append(evaluate_by_task(metric, y[rows], prediction, zeros, 1)[0])
    return found


SETTINGS = {
    "entropy": {},
    "pooled leaves": {"pooling": 3.0},
    "symmetric": {"split_score": "plain", "symmetric_trees": True},
    "task splits": {"split_score": "plain", "task_splits": 0.0},
    "descriptors": {"split_score": "plain", "task_splits": "descriptors"},
    "classes": {"objective": "binary:logistic"},
}


NEEDS_NUMBERS = ("task splits", "descriptors")


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (make, setting)
        for make in (numbers, frame, csr)
        for setting in SETTINGS
        if make is not frame or setting not in NEEDS_NUMBERS
    ],
)
def test_curves_of_validation_rows_are_those_of_the_tasks_boosters(library, setting, make):
    options = dict(SETTINGS[setting])
    rng = np.random.default_rng(0)
    X, V = make(rng, N, False), make(rng, N_VALID, True)
    task, own = rng.integers(0, 2, N), rng.integers(0, 2, N_VALID)
    y, v = labels_of(rng, X, task), labels_of(rng, V, own)
    metric = "rmse"
    if "objective" in options:
        options["objective"] = library.own(options["objective"])
        y, v, metric = (y > 0).astype(float), (v > 0).astype(float), "logloss"
    rounds = ("num_boost_round", "specific_rounds", "early_stopping_rounds")
    given = {"strategy": "two-stage", "backend": library.name, **dict.fromkeys(rounds, 12)}
    given["params"] = {"max_depth": 3, "learning_rate": 0.3}
    model = mtboost.fit(X, y, task=task, eval_set=(V, v, own), **{**given, **options})
    assert setting != "entropy" or any(model.specific.values())
    for name, report in model.reports.items():
        n_rounds = report.quit_round
        expected = metrics_by_round(library, model, name, V, v, own, metric)
        told = [
            *report.common_history[1 : n_rounds + 1],
            *report.specific_history[1 : report.specific_rounds + 1],
        ]
        # XGBoost's margins are sums of float32.
        np.testing.assert_allclose(told, expected, rtol=1e-6)
        assert report.scores["final"] == pytest.approx(expected[-1], rel=1e-6)


def test_a_value_above_all_training_values_is_judged_as_it_is_predicted(library):
    rng = np.random.default_rng(0)
    x = rng.choice([0.0, 1.0, 2.0, 3.0, np.nan], 400)
    y = np.where(np.isnan(x), 0.0, 1.0)
    V = np.full((50, 1), 9.0)
    options = {"backend": library.name, "num_boost_round": 10, "specific_rounds": 10}
    options |= {"strategy": "two-stage", "objective": library.own("reg:squarederror")}
    model = mtboost.fit(x[:, None], y, eval_set=(V, np.ones(50)), **options)
    (told,) = (report.scores for report in model.reports.values())
    expected = np.sqrt(np.mean((model.predict(V) - 1.0) ** 2))
    assert told["final"] == pytest.approx(expected, rel=1e-6)


def test_evals_of_train_are_judged_as_they_are_predicted():
    rng = np.random.default_rng(0)
    X, V = numbers(rng, N, False), numbers(rng, N_VALID, True)
    task, own = rng.integers(0, 2, N), rng.integers(0, 2, N_VALID)
    data = mtboost.Dataset(X, labels_of(rng, X, task), task=task)
    valid = mtboost.Dataset(V, labels_of(rng, V, own), task=own)
    told = {}
    booster = mtboost.train(
        {"max_depth": 3}, data, 8, evals=[(valid, "v")], evals_result=told, verbose_eval=False
    )
    found = [
        booster.predict(xgboost.DMatrix(V), iteration_range=(0, n_rounds))
        for n_rounds in range(1, 9)
    ]
    expected = np.sqrt(np.mean((np.array(found) - valid.labels()) ** 2, axis=1))
    np.testing.assert_allclose(told["v"]["rmse"], expected, rtol=1e-6)
