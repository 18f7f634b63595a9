# SPDX-License-Identifier: Apache-2.0
"""The importance of a feature for a task is that of the task's booster, both stages together."""

import numpy as np
import pandas as pd
import pytest
from libraries import LIBRARIES

import mtboost
from mtboost.errors import DataError, ParameterError

_rng = np.random.default_rng(0)
NUMBERS = _rng.normal(size=(300, 4))
TASKS = np.arange(300) % 3
VALUES = NUMBERS[:, 0] + np.where(TASKS == 1, NUMBERS[:, 1], 0) + 0.1 * _rng.normal(size=300)
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b", "c", "d"])


def fit(library, X=NUMBERS, y=VALUES, **options):
    given = {"strategy": "two-stage", "num_boost_round": 15, "backend": library.name, **options}
    return mtboost.fit(X, y, task=TASKS, **given)


@pytest.mark.parametrize("kind", ["gain", "total_gain", "weight", "cover", "total_cover"])
@pytest.mark.parametrize("X", [NUMBERS, FRAME], ids=["numpy", "pandas"])
@pytest.mark.parametrize("objective", ["squared_error", "multiclass"])
def test_importance_is_that_of_the_tasks_booster(library, objective, X, kind):
    y = VALUES if objective == "squared_error" else np.digitize(VALUES, [-0.5, 0.5])
    # Task 2 has labels of no use: it quits early.
    y = np.where(TASKS == 2, np.roll(y, 7), y)
    model = fit(library, X, y, objective=getattr(library, objective), early_stopping_rounds=5)
    assert len(set(model.quit_round.values())) > 1
    assert any(model.specific.values())
    if kind not in library.importances:
        with pytest.raises(ParameterError, match="'gain', 'total_gain' or 'weight'"):
            model.importance(0, kind)
        return
    for task in model.tasks:
        importance = model.importance(task, kind)
        expected = library.importance(model.booster(task), kind)
        assert importance.keys() == expected.keys()
        for name, value in expected.items():
            # XGBoost adds up float32, and LightGBM's text has gains with six digits; the stages are
            # added in float64.
            np.testing.assert_allclose(importance[name], value, rtol=1e-5)


# What matters to a task alone: columns 0 and 2, 1 and 2, or all three.
OWN_COLUMNS = np.array([[2, 0, 1, 0], [0, 2, 1, 0], [1, 1, 1, 0]])
MANY = _rng.normal(size=(1500, 4))
MANY_TASKS = np.arange(1500) % 3
OWN_VALUES = (MANY * OWN_COLUMNS[MANY_TASKS]).sum(axis=1) + 0.3 * _rng.normal(size=1500)
OWN_LEAVES = {
    "pooled leaves": {"pooling": 5.0},
    "task splits": {"split_score": "plain", "task_splits": 0.0},
    "descriptors": {"split_score": "plain", "task_splits": "descriptors"},
}


def of_columns(importance, library):
    """Shares of the four columns."""
    first = {"xgboost": "f", "lightgbm": "Column_"}[library.name]
    values = np.array([importance.get(f"{first}{number}", 0.0) for number in range(4)])
    return values / values.sum()


def contributions(model, task):
    found = np.abs(model.contributions({task: MANY[task == MANY_TASKS]})[task])
    return found[:, :-1].mean(axis=0)


@pytest.mark.parametrize("setting", OWN_LEAVES)
@pytest.mark.parametrize("kind", ["gain", "total_gain"])
def test_gains_are_those_of_a_tasks_own_leaf_values(library, kind, setting, tmp_path):
    model = mtboost.fit(
        MANY,
        OWN_VALUES,
        task=MANY_TASKS,
        backend=library.name,
        params={"max_depth": 4, "learning_rate": 0.2},
        num_boost_round=40,
        specific_rounds=0,
        early_stopping_rounds=None,
        **OWN_LEAVES[setting],
    )
    shares = np.array([of_columns(model.importance(task, kind), library) for task in range(3)])
    # The column that is a task's alone is first, and the other one's is next to nothing.
    assert shares[0].argmax() == 0
    assert shares[1].argmax() == 1
    assert (shares[[0, 1], [1, 0]] < 0.5 * shares[[0, 1], [0, 1]]).all()
    if setting == "pooled leaves":
        of_rows = np.array([contributions(model, task) for task in range(3)])
        of_rows /= of_rows.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, of_rows, atol=0.2)
    model.save(tmp_path / "model.mtb")
    assert mtboost.load_model(tmp_path / "model.mtb").importance(1, kind) == model.importance(
        1, kind
    )


def test_a_task_with_the_values_of_all_has_their_gains(library):
    options = {"num_boost_round": 5, "specific_rounds": 0}
    pooled, plain = fit(library, pooling=1e12, **options), fit(library, **options)
    expected = of_columns(plain.importance(0, "total_gain"), library)
    # Up to the penalty of leaves, which the values contain and the formula lacks.
    np.testing.assert_allclose(
        of_columns(pooled.importance(0, "total_gain"), library), expected, atol=0.02
    )


@pytest.mark.parametrize("X", [NUMBERS, FRAME], ids=["numpy", "pandas"])
@pytest.mark.parametrize("objective", ["squared_error", "multiclass"])
def test_contributions_are_those_of_the_rows_given(library, objective, X):
    y = VALUES if objective == "squared_error" else np.digitize(VALUES, [-0.5, 0.5])
    model = fit(library, X, y, objective=getattr(library, objective))
    for task in model.tasks:
        rows = X[task == TASKS]
        expected = np.abs(model.contributions({task: rows})[task])[..., :-1]
        expected = expected.reshape(-1, 4).mean(axis=0)
        found = model.importance(task, X=rows)
        assert list(found.values()) == pytest.approx(expected[expected > 0].tolist())
        assert model.importance(task, "contribution", X=rows) == found
        if X is FRAME:
            assert list(found) == FRAME.columns[expected > 0].tolist()


@pytest.mark.parametrize("is_array", [False, True])
def test_rows_of_other_tasks_do_not_count(is_array):
    table = FRAME.assign(task=TASKS.astype(float))
    X = table.to_numpy() if is_array else table
    model = mtboost.fit(
        X, VALUES, task=4 if is_array else "task", strategy="two-stage", num_boost_round=15
    )
    own = table[TASKS == 1].drop(columns="task")
    expected = model.importance(1, X=own.to_numpy() if is_array else own)
    assert model.importance(1, X=X) == expected
    assert model.importance(X=X)[1] == expected
    with pytest.raises(DataError, match="X has no row of task 1.* it has tasks 0, 2"):
        model.importance(1, X=X[TASKS != 1])


@pytest.mark.parametrize(("kind", "X"), [("contribution", None), ("gain", NUMBERS)])
def test_rows_go_with_contributions_only(kind, X):
    model = fit(LIBRARIES["xgboost"], num_boost_round=2)
    with pytest.raises(ParameterError, match=f"importance_type is '{kind}' and X is"):
        model.importance(0, kind, X=X)


def test_an_unknown_task_has_no_importance():
    model = fit(LIBRARIES["xgboost"], num_boost_round=2)
    with pytest.raises(DataError, match=r"task \['0', 1\] is unknown"):
        model.booster(["0", 1])
    with pytest.raises(DataError, match="task 7 is unknown"):
        model.importance(7, X=NUMBERS)
    with pytest.raises(DataError, match="7 at row 0 is unknown.* Pass unknown_task='common'"):
        model.contributions(NUMBERS, task=np.full(len(NUMBERS), 7))


@pytest.mark.filterwarnings("ignore:The labels of some tasks vary much less")  # test_own_units.py
def test_a_task_without_any_tree_has_no_importance():
    y = np.where(TASKS == 2, _rng.permutation(VALUES) * 100, VALUES)
    options = {"num_boost_round": 3, "specific_rounds": 0, "early_stopping_rounds": 1}
    model = fit(LIBRARIES["xgboost"], y=y, **options)
    without = [task for task, n_rounds in model.quit_round.items() if n_rounds == 0]
    assert without
    assert model.importance(without[0]) == {}


def test_lightgbms_names_of_columns_are_the_users_again():
    frame = FRAME.rename(columns={"a": "a column", "b": "β"})
    model = fit(LIBRARIES["lightgbm"], frame, num_boost_round=5)
    assert set(model.importance(1)) >= {"a column", "β"}
    assert model.booster(1).feature_name() == ["a_column", "β", "c", "d"]


@pytest.mark.parametrize("options", [{}, *OWN_LEAVES.values()], ids=["common", *OWN_LEAVES])
def test_contributions_of_unknown_tasks_add_up_to_what_is_predicted(library, options):
    model = fit(library, **options)
    task = np.where(TASKS == 1, 7, TASKS)
    found = model.contributions(NUMBERS, task=task, unknown_task="common")
    expected = model.predict_margin(NUMBERS, task=task, unknown_task="common")
    np.testing.assert_allclose(found.sum(axis=1), expected, atol=1e-5)
    np.testing.assert_array_equal(
        found[TASKS == 1],
        model.contributions({7: NUMBERS[TASKS == 1]}, unknown_task="common")[7],
    )
    for X, labels in ((NUMBERS, task), ({7: NUMBERS}, None)):
        with pytest.raises(DataError, match="7 .*is unknown"):
            model.contributions(X, task=labels)


def test_contributions_of_an_unknown_store_are_those_of_its_region(library):
    table = FRAME.assign(region=TASKS, store=np.arange(300) // 3 % 4)
    given = {"strategy": "two-stage", "num_boost_round": 15, "pooling": (2.0, 2.0)}
    model = mtboost.fit(
        table, VALUES, task=["region", "store"], split_score="plain", backend=library.name, **given
    )
    new = table.assign(store=9)
    found = model.contributions(new, unknown_task="common")
    expected = model.predict_margin(new, unknown_task="common")
    np.testing.assert_allclose(found.sum(axis=1), expected, atol=1e-5)
    assert len(np.unique(found[:, -1])) == 3
