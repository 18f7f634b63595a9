# SPDX-License-Identifier: Apache-2.0
"""Labels -1 and 1 of LightGBM's objective ``binary`` train the models of 0 and 1."""

import lightgbm
import numpy as np
import pytest
from stock_training import LIGHTGBM, TASK, X, make_labels

import mtboost
from mtboost.errors import DataError
from mtboost.lightgbm import TaskObjective, TaskQuitting, TaskSplit, task_metric
from mtboost.metrics import evaluate_by_task, get_metric

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")
ZERO = make_labels("binary").astype(np.float64)
MINUS = 2.0 * ZERO - 1.0
PARAMS = LIGHTGBM.params | {"objective": "binary", "metric": ["binary_logloss", "auc"]}
FIT = {"backend": "lightgbm", "objective": "binary", "strategy": "two-stage", "num_boost_round": 8}


def trained(y, callbacks=(), **options):
    data, history = lightgbm.Dataset(X, y, params=PARAMS), {}
    rows = lightgbm.Dataset(X, y, reference=data)
    own = {name: value(rows) for name, value in options.items()}
    callbacks = [*(make(rows) for make in callbacks), lightgbm.record_evaluation(history)]
    valid = {"valid_sets": [rows], "valid_names": ["rows"]}
    booster = lightgbm.train(PARAMS, data, 8, callbacks=callbacks, **valid, **own)
    return booster.model_to_string(), history


def split(data):
    return TaskSplit(TASK, split_score="plain")


def test_stock_training_and_that_with_a_callback_are_the_same():
    expected = trained(ZERO)
    assert trained(MINUS) == expected  # LightGBM itself
    assert trained(MINUS, [split]) == expected


def test_metrics_and_quitting_see_two_classes():
    watches = []

    def watch(data):
        watches.append(TaskQuitting("rows", TASK, early_stopping_rounds=3))
        return watches[-1]

    def metric(data):
        return task_metric("error", [(data, TASK)])

    expected = trained(ZERO, [split, watch], feval=metric)
    assert trained(MINUS, [split, watch], feval=metric) == expected
    zero, minus = watches
    for task, curve in zero.history.items():
        np.testing.assert_array_equal(minus.history[task], curve)
    for name in ("logloss", "error", "error@0.3", "auc", "aucpr"):
        prediction, codes = np.linspace(0.0, 1.0, len(ZERO)), np.arange(len(ZERO)) % 3
        by_task = [
            evaluate_by_task(get_metric(name), y, prediction, codes, 3) for y in (ZERO, MINUS)
        ]
        np.testing.assert_array_equal(*by_task)


def test_an_objective_of_tasks_takes_them():
    def train(y):
        params = PARAMS | {"objective": TaskObjective("binary", TASK), "metric": "none"}
        return lightgbm.train(params, lightgbm.Dataset(X, y), 5).predict(X)

    np.testing.assert_array_equal(train(MINUS), train(ZERO))


@pytest.mark.parametrize("strategy", ["two-stage", "auto"])
def test_a_model_of_several_tasks_is_the_same(strategy):
    options = FIT | {"strategy": strategy, "seed": 0, "num_boost_round": 5, "specific_rounds": 5}
    rows = {"task": TASK}
    if strategy == "auto":
        options |= {"effort": "fast"}
    models = {}
    for y in (ZERO, MINUS):
        models[y.min()] = mtboost.fit(X, y, task=TASK, eval_set=(X, y, TASK), **options)
    zero, minus = models[0.0], models[-1.0]
    expected = zero.predict(X, **rows)
    np.testing.assert_array_equal(minus.predict(X, **rows), expected)
    assert minus.evaluate(X, MINUS, **rows).equals(zero.evaluate(X, ZERO, **rows))
    if strategy == "two-stage":
        refreshed = [model.refresh(X, y, **rows) for model, y in ((zero, ZERO), (minus, MINUS))]
        np.testing.assert_array_equal(*[model.predict(X, **rows) for model in refreshed])
        updated = [
            model.update(X, y, rounds=2, **rows) for model, y in ((zero, ZERO), (minus, MINUS))
        ]
        np.testing.assert_array_equal(*[model.predict(X, **rows) for model in updated])
        for model, y in ((zero, ZERO), (minus, MINUS)):
            model.add_task("new", X[:99], y[:99])
        np.testing.assert_array_equal(*[m.predict({"new": X})["new"] for m in (zero, minus)])


def test_other_labels_and_other_libraries_are_refused():
    with pytest.raises(DataError, match=r"the first one at row \d+ \(value 2\)"):
        mtboost.fit(X, ZERO + 1.0, task=TASK, **FIT)
    with pytest.raises(DataError, match=r"\(value -1\)"):
        mtboost.fit(
            X, MINUS, task=TASK, **FIT | {"backend": "xgboost", "objective": "binary:logistic"}
        )
    assert set(np.unique(MINUS)) == {-1.0, 1.0}  # the user's array is as it was
