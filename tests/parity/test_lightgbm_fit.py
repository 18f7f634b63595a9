# SPDX-License-Identifier: Apache-2.0
"""mtboost.fit(backend="lightgbm"): where it is LightGBM bit for bit, and what is LightGBM's own."""

import re
import sys

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from libraries import LIBRARIES

import mtboost
from mtboost.errors import MissingDependencyError
from mtboost.metrics import Metric

LIGHTGBM = LIBRARIES["lightgbm"]
N = 400
RNG = np.random.default_rng(0)
X = np.where(RNG.random((N, 4)) < 0.1, np.nan, RNG.normal(size=(N, 4)))
TASK = np.array(["a", "b"])[np.arange(N) % 2]
SIGN = np.where(TASK == "a", 1.0, -1.0)
Y = 3 + np.nan_to_num(X[:, 0]) + SIGN * np.nan_to_num(X[:, 1]) + 0.3 * RNG.normal(size=N)
KIND = RNG.choice(["low", "mid", "high"], N)
FRAME = pd.DataFrame(X, columns=list("pqrs")).assign(kind=pd.Categorical(KIND))
SIZE = {"num_leaves": 16, "learning_rate": 0.1}  # of mtboost.fit by default
FAST = {
    "strategy": "two-stage",
    "backend": "lightgbm",
    "num_boost_round": 8,
    "specific_rounds": 5,
    "n_threads": 1,
}


def fit(X=X, y=Y, task=TASK, **options):
    return mtboost.fit(X, y, task=task, **{**FAST, **options})


# ---- one task -------------------------------------------------------------------------------

CLASSES = np.digitize(Y, [2, 4])
SETTINGS = {
    "regression": {},
    "absolute error": {"objective": "l1"},
    "quantile": {"objective": "quantile", "params": {"alpha": 0.3}, "eval_metric": "mae"},
    "binary": {"y": Y > 3, "objective": "binary"},
    "rare class": {"y": Y > 4.5, "objective": "binary", "params": {"scale_pos_weight": 3.0}},
    "classes": {"y": CLASSES, "objective": "multiclass"},
    "one against all": {"y": CLASSES, "objective": "multiclassova"},
    "counts": {"y": np.round(np.exp(Y / 3)), "objective": "poisson"},
    "categories": {"X": FRAME},
    "CSR": {"X": scipy.sparse.csr_matrix(np.nan_to_num(X))},
    "bags": {"params": {"bagging_fraction": 0.6, "bagging_freq": 2, "feature_fraction": 0.6}},
    "balanced bags": {
        "y": Y > 3,
        "objective": "binary",
        "params": {"pos_bagging_fraction": 0.4, "bagging_freq": 1},
    },
    "goss": {
        "params": {"data_sample_strategy": "goss", "top_rate": 0.6, "other_rate": 0.4},
    },
    "limits": {"params": {"num_leaves": 5, "min_data_in_leaf": 3, "lambda_l1": 1.0}},
    "zeros are missing": {"X": np.round(X), "params": {"zero_as_missing": True}},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_with_one_task_the_common_model_is_lightgbms_bit_for_bit(settings):
    table, y = settings.get("X", X), settings.get("y", Y)
    model = fit(**{"task": None, "split_score": "plain", **settings})
    params = {"objective": model.objective, "metric": "None", "num_threads": 1, "verbosity": -1}
    params |= {"seed": 0, **SIZE, **settings.get("params", {})}
    if model.objective.startswith("multiclass"):
        params["num_class"] = 3
    stock = lightgbm.train(params, lightgbm.Dataset(table, y.astype(np.float32)), 8)
    # All of the file, parameters included, but for the number of threads, which ours leaves out.
    expected = stock.model_to_string().replace("[num_threads: 1]", "[num_threads: 0]")
    assert model.common.model_to_string() == expected
    np.testing.assert_array_equal(model.predict_margin(table), stock.predict(table, raw_score=True))
    # expit of SciPy and of LightGBM may differ in the last bits.
    np.testing.assert_allclose(model.predict(table), stock.predict(table), rtol=1e-14)


# ---- where tasks start ----------------------------------------------------------------------


def harmful_for(n_valid):
    """AUC by which the common model only harms one task."""
    auc = mtboost.metrics.get_metric("auc")

    def function(y, prediction, sample_weight):
        value = float((prediction[y > 0][:, None] > prediction[y == 0]).mean())
        ties = float((prediction[y > 0][:, None] == prediction[y == 0]).mean())
        return 0.4 * (1 - ties) + ties / 2 if len(y) == n_valid else value

    return Metric("auc", function, auc.greater_is_better)


def test_a_task_that_the_common_model_harms_keeps_the_start_score_in_its_first_tree():
    # A rare class: with no tree at all its probability would be 1/2.
    y, task = Y > 4.5, np.where(np.arange(N) % 4 == 0, "b", "a")
    valid = (X[:350], y[:350], task[:350])
    metric = harmful_for(int((task[:350] == "b").sum()))
    model = fit(
        y=y,
        task=task,
        objective="binary",
        eval_metric=metric,
        eval_set=valid,
        early_stopping_rounds=2,
    )
    assert model.quit_round["b"] == 1
    assert model.specific["b"] is None
    assert y.mean() < 0.15
    assert model.predict(X[task == "b"], task=task[task == "b"]).max() < 0.3


def test_from_base_margins_a_task_may_use_no_round_at_all():
    start = Y.copy()  # of the validation rows, which nothing learnt from other labels improves
    valid = (X, Y, TASK, None, start)
    model = fit(y=RNG.permutation(Y), base_margin=start, eval_set=valid, early_stopping_rounds=2)
    assert set(model.quit_round.values()) == {0}
    margins = model.predict_margin(X, task=TASK, base_margin=start)
    np.testing.assert_array_equal(margins, start)


def test_a_new_task_uses_at_least_the_first_round_too():
    model = fit()
    # Its labels are all 0, as margins without any tree are.
    model.add_task("c", X[:50], np.zeros(50), eval_set=(X[:50], np.zeros(50)), specific_rounds=0)
    history = model.history["c"]["common"]
    assert history[0] == 0
    assert model.quit_round["c"] == 1 + np.argmin(history[1:])


def test_one_against_all_is_not_stopped_by_margins_before_the_start_score():
    # Its probabilities of margin 0 are 1/2 each, which is better than those of three classes of
    # which nothing is known.
    y = RNG.integers(0, 3, N)
    model = fit(y=y, objective="multiclassova", num_boost_round=60, early_stopping_rounds=40)
    for task in model.tasks:
        history = model.history[task]["common"]
        assert history[0] == pytest.approx(np.log(2))
        assert np.nanmin(history[1:]) > history[0]
        assert model.quit_round[task] == 1 + np.argmin(history[1:])


# ---- callbacks ------------------------------------------------------------------------------


def test_a_callback_of_the_users_that_ends_training_drops_no_round():
    def stop(env):
        if env.iteration == 5:
            raise lightgbm.callback.EarlyStopException(2, [])  # the third round is the best

    model = fit(callbacks=[stop])
    assert model.common.num_trees() == model.common.current_iteration() == 6
    assert max(model.quit_round.values()) > 3
    assert model.booster("a").best_iteration == -1


def test_callbacks_are_called_each_round_in_their_order():
    calls = []

    def first(env):
        calls.append(("first", env.iteration))

    def second(env):
        calls.append(("second", env.iteration))

    fit(num_boost_round=2, callbacks=[first, second])
    # Of the final model, too, which is trained on all rows.
    assert calls == 2 * [(name, n) for n in (0, 1) for name in ("first", "second")]


def test_a_schedule_of_the_learning_rate_is_lightgbms():
    def schedule():
        return lightgbm.reset_parameter(learning_rate=lambda n_rounds: 0.3 * 0.5**n_rounds)

    model = fit(task=None, split_score="plain", callbacks=[schedule()])
    params = {"objective": "regression", "num_threads": 1, "verbosity": -1, **SIZE}
    stock = lightgbm.train(params, lightgbm.Dataset(X, Y), 8, callbacks=[schedule()])
    assert LIGHTGBM.trees(model.common) == LIGHTGBM.trees(stock)


def test_nothing_is_printed_unless_asked_for(capfd):
    fit(baselines=True).predict(X, task=TASK)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    fit(verbose=4)
    assert "[4]\ta-rmse:" in capfd.readouterr().out
    fit(params={"verbosity": 1})
    assert "[LightGBM] [Info]" in capfd.readouterr().out


# ---- categories -----------------------------------------------------------------------------

SHIFT = np.select([KIND == "mid"], [4.0])


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("labels", [("low", "mid", "high"), (10, 30, 20)])
def test_pandas_categories_are_known_by_their_labels(labels, ordered):
    values = np.array(labels)[np.searchsorted(["high", "low", "mid"], KIND)].tolist()

    def table(categories):
        own = pd.Categorical(values, categories=categories, ordered=ordered)
        return FRAME.assign(kind=own)

    # The third label goes alone: a number would need two cuts, and the codes would need two.
    y = Y + SHIFT
    model = fit(table(sorted(labels)), y)
    expected = model.predict(table(sorted(labels)), task=TASK)
    found = model.predict(table([labels[2], type(labels[0])(99), labels[0], labels[1]]), task=TASK)
    np.testing.assert_array_equal(found, expected)
    assert any(
        re.search(r"^num_cat=[1-9]", tree, re.MULTILINE) for tree in LIGHTGBM.trees(model.common)
    )


WITH_SPACES = {
    "pandas": lambda frame: frame.rename(columns={"kind": "kind of home"}),
    "polars": lambda frame: pl.from_pandas(frame).rename({"kind": "kind of home"}),
    "levels": lambda frame: frame.set_axis(pd.MultiIndex.from_product([["x"], frame]), axis=1),
}


@pytest.mark.parametrize("rename", WITH_SPACES.values(), ids=WITH_SPACES)
@pytest.mark.parametrize("strategy", ["two-stage", "auto"])
def test_names_of_categories_may_have_spaces(rename, strategy):
    options = {"strategy": strategy, "effort": "fast"}
    spaced = rename(FRAME)
    found = fit(spaced, **options).predict(spaced, task=TASK)
    np.testing.assert_array_equal(found, fit(FRAME, **options).predict(FRAME, task=TASK))


def test_a_category_that_is_constant_in_a_task_is_no_obstacle_to_its_booster():
    kind = np.where(TASK == "b", "low", KIND)
    tables = {
        "a": FRAME.assign(kind=pd.Categorical(kind))[TASK == "a"].drop(columns="r"),
        "b": FRAME.assign(kind=pd.Categorical(kind))[TASK == "b"].drop(columns="s"),
    }
    y = Y + np.select([kind == "mid"], [4.0])
    model = fit(tables, {task: y[task == TASK] for task in tables}, task=None)
    assert "kind" in model.importance("a")
    for task, table in tables.items():
        found = LIGHTGBM.margins(model.booster(task), table[model.booster(task).feature_name()])
        expected = model.predict_margin({task: table})[task]
        np.testing.assert_allclose(found, expected, rtol=0, atol=LIGHTGBM.atol)


def test_categories_of_other_libraries_need_pandas(monkeypatch):
    table = pl.DataFrame({"p": X[:, 0], "kind": pl.Series(KIND, dtype=pl.Categorical)})
    monkeypatch.setitem(sys.modules, "pandas", None)  # import finds nothing
    with pytest.raises(MissingDependencyError, match="a table of polars. Run: pip install pandas"):
        fit(table)
    fit(table.drop("kind"))


def test_the_task_as_a_category_does_not_collide_with_a_column_of_that_name():
    expected = fit(FRAME, baselines=True)
    found = fit(FRAME.rename(columns={"q": "task"}), baselines=True)
    assert [r.scores for r in found.reports.values()] == [
        r.scores for r in expected.reports.values()
    ]


# ---- constraints of tasks with additional columns ------------------------------------------

OWN_COLUMNS = {"a": ["p", "q", "r"], "b": ["s", "q", "p"]}  # p and q are common


def fit_own_columns(**params):
    tables = {task: FRAME.loc[task == TASK, names] for task, names in OWN_COLUMNS.items()}
    labels = {task: Y[task == TASK] for task in tables}
    # Also of the column that only b has.
    labels["b"] = labels["b"] + np.nan_to_num(tables["b"]["s"])
    model = fit(tables, labels, task=None, eval_set=(tables, labels), params=params)
    return model, tables, labels


CONSTRAINTS = {
    "monotone": ({"monotone_constraints": [-1, 0]}, {"monotone_constraints": [0, 0, -1]}),
    "monotone, text": ({"monotone_constraints": "-1,0"}, {"monotone_constraints": [0, 0, -1]}),
    # The task's additional column s is free, but only by itself.
    "interactions": (
        {"interaction_constraints": [[0], [1]]},
        {"interaction_constraints": [[2], [1], [0]]},
    ),
    "interactions, text": (
        {"interaction_constraints": "[0],[1]"},
        {"interaction_constraints": [[2], [1], [0]]},
    ),
    "weights of columns": ({"feature_contri": [0.1, 1.0]}, {"feature_contri": [1.0, 1.0, 0.1]}),
}


@pytest.mark.parametrize(("given", "own"), CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_constraints_by_position_hold_for_the_same_columns_of_a_task(given, own):
    model, tables, labels = fit_own_columns(**given)
    assert model.specific["b"].feature_name() == ["s", "q", "p"]
    start = LIGHTGBM.margins(
        LIGHTGBM.first_rounds(model.common, model.quit_round["b"]), tables["b"][["p", "q"]]
    )
    arguments = (tables["b"], labels["b"], model.reports["b"].specific_rounds, start)
    stock, free = LIGHTGBM.train(own, *arguments), LIGHTGBM.train({}, *arguments)
    assert LIGHTGBM.trees(model.specific["b"]) == LIGHTGBM.trees(stock)
    assert LIGHTGBM.trees(stock) != LIGHTGBM.trees(free)
    assert "s" in model.importance("b")
