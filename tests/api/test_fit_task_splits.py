# SPDX-License-Identifier: Apache-2.0
"""fit(task_splits=...): nodes of the common model that split tasks, and boosters without them."""

import numpy as np
import pandas as pd
import pytest

import mtboost
from mtboost.errors import ParameterError

N_TASKS = 6


def rows(n_rows, seed):
    """Half of the tasks have minus the function of the other half."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 4))
    task = rng.integers(0, N_TASKS, n_rows)
    sign = np.where(task < N_TASKS // 2, 1.0, -1.0)
    return X, sign * np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=n_rows), task


X, Y, TASK = rows(1500, 0)
NEW, NEW_Y, NEW_TASK = rows(600, 1)
COLUMNS = list("abcd")


def fitted(library, table=X, y=Y, task=TASK, **options):
    given = {"strategy": "two-stage", "split_score": "plain", "task_splits": True}
    given |= {"num_boost_round": 20, "specific_rounds": 0, "early_stopping_rounds": None}
    given["params"] = {"max_depth": 4, "learning_rate": 0.3}
    return mtboost.fit(table, y, task=task, backend=library.name, **{**given, **options})


by_code_or_descriptors = pytest.mark.parametrize("splits", [True, "descriptors"])


@by_code_or_descriptors
def test_opposite_tasks_are_divided(library, splits):
    found = fitted(library, task_splits=splits).predict(NEW, task=NEW_TASK)
    pooled = fitted(library, task_splits=False).predict(NEW, task=NEW_TASK)
    assert np.mean((found - NEW_Y) ** 2) < 0.3 * np.mean((pooled - NEW_Y) ** 2)


@pytest.mark.parametrize(
    "options", [{}, {"task_splits": "descriptors"}, {"task_splits": False, "symmetric_trees": True}]
)
def test_default_score_is_the_one_that_task_splits_and_symmetric_trees_need(library, options):
    shape = {"params": {"max_depth": 2, "learning_rate": 0.3}}
    shape["params"] |= {"num_leaves": 4} if library.name == "lightgbm" else {}
    found = fitted(library, split_score=None, **options, **shape).predict(NEW, task=NEW_TASK)
    plain = fitted(library, split_score="plain", **options, **shape).predict(NEW, task=NEW_TASK)
    assert np.array_equal(found, plain)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "binary:logistic"},
        {"pooling": 5.0},
        {"specific_rounds": 10, "early_stopping_rounds": 5},
        {"task_splits": 0.5, "refit": True},
        {"task_splits": "descriptors"},
        {"task_splits": "descriptors", "objective": "binary:logistic", "pooling": 5.0},
        {
            "task_splits": "descriptors",
            "specific_rounds": 10,
            "early_stopping_rounds": 5,
            "refit": True,
        },
        {"task_splits": "descriptors", "symmetric_trees": True},
        {"task_splits": "descriptors", "objective": "multi:softprob"},
    ],
    ids=str,
)
@pytest.mark.parametrize("has_names", [True, False])
def test_a_tasks_booster_gives_its_margins(library, options, has_names, tmp_path):
    options = dict(options)
    y = Y
    if objective := options.get("objective"):
        options["objective"], y = library.own(objective), (Y > 0).astype(float)
        if objective == "multi:softprob":
            y = np.digitize(Y, [-0.5, 0.5]).astype(float)
            options["params"] = {"num_class": 3, "max_depth": 4}
    table, new = (
        (pd.DataFrame(X, columns=COLUMNS), pd.DataFrame(NEW, columns=COLUMNS))
        if has_names
        else (X, NEW)
    )
    model = fitted(library, table, y, **options)
    margins = model.predict_margin(new, task=NEW_TASK)
    for task in range(N_TASKS):
        own = task == NEW_TASK
        booster = model.booster(task)
        found = library.margins(booster, new[own])
        np.testing.assert_allclose(found, margins[own], atol=10 * library.atol)
        names = library.feature_names(booster) or ["f0", "f1", "f2", "f3"]
        assert set(model.importance(task)) <= set(names)
        if has_names:
            assert list(library.feature_names(booster)) == COLUMNS
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(again.predict_margin(new, task=NEW_TASK), margins)
    unknown = model.predict_margin(new, task=["new"] * len(new), unknown_task="common")
    np.testing.assert_array_equal(
        again.predict_margin(new, task=["new"] * len(new), unknown_task="common"), unknown
    )


@pytest.mark.parametrize(
    ("splits", "options"),
    [
        (True, {}),
        ("descriptors", {}),
        (True, {"params": {"max_depth": 3}, "symmetric_trees": True}),
    ],
)
def test_with_one_task_there_is_nothing_to_divide(library, splits, options):
    for task, rows in ((np.zeros(len(X), int), {"task": np.zeros(len(NEW), int)}), (None, {})):
        found, plain = (
            fitted(library, task=task, task_splits=each, **options) for each in (splits, False)
        )
        margins = plain.predict_margin(NEW, **rows)
        np.testing.assert_array_equal(found.predict_margin(NEW, **rows), margins)


def test_a_new_task_follows_nodes_as_rows_without_a_task(library):
    model = fitted(library, pooling=5.0)
    before = model.predict_margin(NEW, task=NEW_TASK)
    model.add_task(99, NEW[:200], NEW_Y[:200])
    np.testing.assert_array_equal(model.predict_margin(NEW, task=NEW_TASK), before)
    margins = model.predict_margin({99: NEW})[99]
    np.testing.assert_allclose(
        library.margins(model.booster(99), NEW), margins, atol=10 * library.atol
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split_score": "entropy"}, "split_score='plain'"),
        ({"task_splits": -1}, "task_splits must be"),
        ({"task_splits": "yes"}, "task_splits must be"),
        ({"task_splits": "descriptors", "split_score": "variance"}, "split_score='plain'"),
    ],
)
def test_what_cannot_be_is_an_error(library, options, message):
    with pytest.raises(ParameterError, match=message):
        fitted(library, **options)


def test_columns_of_categories_are_refused(library):
    table = pd.DataFrame(X, columns=COLUMNS).assign(e=pd.Categorical(["u", "v", "w"] * 500))
    for splits in (True, "descriptors"):
        with pytest.raises(ParameterError, match="'e'"):
            fitted(library, table, task_splits=splits)


@pytest.mark.parametrize("pooling", [None, 5.0])
def test_a_new_task_stands_beside_those_that_are_like_it(library, pooling, tmp_path):
    """Its rows are those of task 4, whose nodes it goes through; the library stays as it is."""
    options = {"task_splits": "descriptors", "pooling": pooling, "validation_fraction": 0.0}
    model = fitted(library, **options)
    before = model.predict_margin(NEW, task=NEW_TASK)
    own = TASK == 4
    model.add_task(9, X[own], Y[own], validation_fraction=0.0, specific_rounds=0)
    np.testing.assert_array_equal(model.predict_margin(NEW, task=NEW_TASK), before)
    margins = {task: model.predict_margin({task: NEW})[task] for task in (4, 9)}
    if pooling is None:  # means of the same rows may differ in the last bit, and so may their ranks
        assert np.mean(margins[9] == margins[4]) > 0.9
    np.testing.assert_allclose(margins[9], margins[4], atol=0.3)
    unknown = model.predict_margin({"x": NEW}, unknown_task="common")["x"]
    assert np.abs(unknown - margins[9]).max() > 0.5
    np.testing.assert_allclose(
        library.margins(model.booster(9), NEW), margins[9], atol=10 * library.atol
    )
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(again.predict_margin({9: NEW})[9], margins[9])
    for each in (model, again):
        each.add_task(10, X[own], Y[own], validation_fraction=0.0, specific_rounds=0)
    np.testing.assert_array_equal(*(m.predict_margin({10: NEW})[10] for m in (model, again)))


def test_descriptors_are_of_labels_that_can_be_compared(library):
    objective = {task: library.own("reg:squarederror") for task in range(N_TASKS)}
    with pytest.raises(ParameterError, match="an objective"):
        fitted(library, task_splits="descriptors", objective=objective)


def test_tasks_without_rows_to_validate_on_are_divided(library):
    few = np.flatnonzero((TASK < 5) | (np.arange(len(TASK)) < 30))
    eval_set = (X[TASK == 1], Y[TASK == 1], TASK[TASK == 1])
    model = fitted(library, X[few], Y[few], TASK[few], task_splits="descriptors", eval_set=eval_set)
    assert np.isfinite(model.predict(NEW, task=NEW_TASK)).all()


@by_code_or_descriptors
def test_constraints_by_position_hold_beside_the_columns_of_the_tasks(library, splits):
    params = {"max_depth": 4, "learning_rate": 0.3, "monotone_constraints": (0, 1, 0, 0)}
    model = fitted(library, task_splits=splits, params=params)
    line = np.full((50, 4), 0.5)
    line[:, 1] = np.linspace(0.0, 1.0, 50)
    for task in range(N_TASKS):
        assert (np.diff(model.predict({task: line})[task]) >= 0.0).all()


def test_more_constraints_than_columns_are_an_error():
    with pytest.raises(ParameterError, match="each of 4 columns, found 5"):
        mtboost.fit(
            X,
            Y,
            backend="lightgbm",
            params={"monotone_constraints": [0, 1, 0, 0, 1]},
            strategy="two-stage",
        )
