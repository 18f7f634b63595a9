# SPDX-License-Identifier: Apache-2.0
"""Rows are matched by position; a warning where an index of pandas says otherwise."""

import re
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

import mtboost
from mtboost.base.row_order import warn_of_other_order

TWO_STAGE = {"strategy": "two-stage", "num_boost_round": 3}
ESTIMATORS = [
    mtboost.MultiTaskRegressor(strategy="two-stage", n_estimators=2),
    mtboost.MTExtraTreesRegressor(n_estimators=2),
    mtboost.ProjectedForestRegressor(n_estimators=2),
    mtboost.ProjectedBoostingRegressor(n_estimators=2),
    mtboost.MTDecisionTreeClassifier(),
]


def rows(n_rows=60):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=n_rows)}, index=[f"r{i}" for i in range(n_rows)])
    y = (X["x"] > 0.0).astype(int)
    return X, y, pd.Series(np.resize(["a", "b"], n_rows), X.index)


def warning_of(argument):
    message = f"{argument} has the index of X in another order"
    return pytest.warns(UserWarning, match=re.escape(message))


@pytest.mark.parametrize("argument", ["y", "task", "weight", "base_margin"])
def test_fit_and_evaluate_warn_of_an_index_in_another_order(argument):
    X, y, task = rows()
    given = {"y": y, "task": task, "weight": y + 1.0, "base_margin": y * 0.0}
    model = mtboost.fit(X, **given, **TWO_STAGE)
    given[argument] = given[argument][::-1]
    with warning_of(argument):
        mtboost.fit(X, **given, **TWO_STAGE)
    with warning_of(argument):
        model.evaluate(X, **given)
    with warning_of(argument):
        model.update(X, **given, rounds=1)


@pytest.mark.parametrize("argument", ["y", "weight", "base_margin"])
def test_add_task_warns_of_an_index_in_another_order(argument):
    X, y, task = rows()
    given = {"y": y, "weight": y + 1.0, "base_margin": y * 0.0}
    model = mtboost.fit(X, task=task, **given, **TWO_STAGE)
    eval_set = (X, *given.values())
    model.add_task("c", X, **given, eval_set=eval_set)
    other = given | {argument: given[argument][::-1]}
    with warning_of(argument):
        model.add_task("d", X, **other)
    with warning_of(f"eval_set: {argument}"):
        model.add_task("e", X, **given, eval_set=(X, *other.values()))
    with warning_of(argument):
        model.replace_task("c", X, **other)


@pytest.mark.parametrize("argument", ["task", "base_margin"])
def test_predict_warns_of_an_index_in_another_order(argument):
    X, y, task = rows()
    given = {"task": task, "base_margin": y * 0.0}
    model = mtboost.fit(X, y, **given, **TWO_STAGE)
    model.predict(X, **given)
    given[argument] = given[argument][::-1]
    with warning_of(argument):
        model.predict(X, **given)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda own: type(own).__name__)
@pytest.mark.parametrize("argument", ["y", "sample_weight"])
def test_estimators_warn_of_an_index_in_another_order(estimator, argument):
    X, y, _ = rows()
    given = {"y": y, "sample_weight": y + 1.0}
    estimator.fit(X, **given)
    given[argument] = given[argument][::-1]
    with warning_of(argument):
        estimator.fit(X, **given)


def test_estimators_warn_of_tasks_in_another_order():
    X, y, task = rows()
    estimator = mtboost.MTExtraTreesRegressor(n_estimators=2).fit(X, y, task=task)
    with warning_of("task"):
        estimator.fit(X, y, task=task[::-1])
    with warning_of("task"):
        estimator.predict(X, task=task[::-1])


@pytest.mark.parametrize("fit", [mtboost.fit, mtboost.MultiTaskRegressor().fit])
def test_rows_of_eval_set_and_of_mappings_are_named(fit):
    X, y, task = rows()
    options = {} if fit is not mtboost.fit else {"params": {"max_depth": 2}}
    with warning_of("eval_set: y"):
        fit(X, y, task=task, eval_set=(X, y[::-1], task), **options)
    is_a = (task == "a").to_numpy()
    labels = {"a": y[is_a], "b": y[~is_a][::-1]}
    with warning_of("y['b']"):
        fit({"a": X[is_a], "b": X[~is_a]}, labels, **options)


@pytest.mark.parametrize(
    ("index", "other", "advice"),
    [
        ([3, 1, 0, 2], [0, 1, 2, 3], "y.loc[X.index]"),
        ([0, "a", None], ["a", None, 0], "y.loc[X.index]"),
        ([("b", 1), ("a", 2)], [("a", 2), ("b", 1)], "y.loc[X.index]"),
        ([0, 0, 1], [0, 1, 0], "y in the order of X"),
        ([0, 0, 1], [0, 1, 1], None),
        ([7, 6, 5], [0, 1, 2], None),
        ([0, 1, 2], [0, 1, 2], None),
    ],
)
def test_only_the_same_entries_in_another_order_are_warned_of(index, other, advice):
    X, y = (pd.DataFrame({"x": 0.0}, pd.Index(own)) for own in (index, other))
    with nullcontext() if advice is None else pytest.warns(UserWarning, match=re.escape(advice)):
        warn_of_other_order(X, y=y["x"])
    warn_of_other_order(X, y=y["x"].to_numpy(), task="x", weight=None)
