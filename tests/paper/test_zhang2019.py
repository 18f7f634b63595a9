# SPDX-License-Identifier: Apache-2.0
"""The procedure of zhang2019: quitting (3.3), specific models (3.4), their sum (eq. 7).

The split scores of section 3.2 have their own slow twin in tests/oracle.
"""

import gc
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xgboost
from libraries import LIBRARIES
from model_documents import trees

import mtboost
from mtboost.errors import DataError, UnsupportedError
from mtboost.metrics import Metric
from mtboost.model import fitted
from mtboost.model.stages.specific import SpecificModel
from mtboost.xgboost import TaskSplit
from mtboost.xgboost.library import version
from mtboost.xgboost.quitting import TaskQuitting

PARAMS = {"max_depth": 3, "eta": 0.3}
XGBOOST = LIBRARIES["xgboost"]


pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


def make_rows(n=600, seed=0):
    """Tasks 'a', 'b', 'c' share the first column and differ in the second."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, 4)) < 0.1, np.nan, rng.normal(size=(n, 4)))
    task = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    sign = np.select([task == "a", task == "b"], [1.0, -1.0], 0.0)
    y = np.nan_to_num(X[:, 0]) + sign * np.nan_to_num(X[:, 1]) + 0.5 * rng.normal(size=n)
    return X, y, task


X, Y, TASK = make_rows()
X_VALID, Y_VALID, TASK_VALID = make_rows(300, seed=1)


def fit(X=X, y=Y, *, task=TASK, library=XGBOOST, eval_set=None, **options):
    """fit() on small data; ``eval_set=None`` is (X_VALID, Y_VALID, TASK_VALID)."""
    given = {"num_boost_round": 15, "specific_rounds": 10, "early_stopping_rounds": 4}
    given |= {"strategy": "two-stage", "backend": library.name, "params": PARAMS, "n_threads": 1}
    if eval_set is None and "validation_fraction" not in options:
        eval_set = (X_VALID, Y_VALID, TASK_VALID)
    return mtboost.fit(X, y, task=task, eval_set=eval_set, **{**given, **options})


# ---- section 3.3: quitting ------------------------------------------------------------------


def planted_metric(values, *, greater_is_better=False):
    """A metric with given values round after round; the rows identify the task."""
    left = {n_rows: iter(of_task) for n_rows, of_task in values.items()}
    return Metric(
        "planted", lambda y, prediction, sample_weight: next(left[len(y)]), greater_is_better
    )


def quit_by_rule(values, early_stopping_rounds, min_delta=0.0, greater_is_better=False):
    """(quit round, round after which the task took no part or None), read off section 3.3."""
    sign = -1 if greater_is_better else 1
    best, best_round, n_stale = np.nan, 0, 0
    for n_rounds, value in enumerate(values):
        if np.isnan(best) or sign * (best - value) > min_delta:
            best, best_round, n_stale = value, n_rounds, 0
        else:
            n_stale += 1
        if n_stale >= early_stopping_rounds:
            return best_round, n_rounds
    return best_round, None


N_VALID = {"a": 20, "b": 30, "c": 40}


def watch(values, n_rounds, *, score="entropy", **options):
    """Train with planted metrics: (rounds trained, the callback that watched)."""
    task = np.repeat(list(values), [N_VALID[name] for name in values])
    valid = xgboost.DMatrix(X_VALID[: len(task)], Y_VALID[: len(task)])
    metric = planted_metric(
        {N_VALID[name]: of_task for name, of_task in values.items()},
        greater_is_better=options.pop("greater_is_better", False),
    )
    quitting = TaskQuitting(valid, task, metric=metric, **options)
    booster = xgboost.train(
        {**PARAMS, "nthread": 1},
        xgboost.QuantileDMatrix(X, Y),
        n_rounds,
        callbacks=[TaskSplit(TASK, split_score=score), quitting],
    )
    return booster.num_boosted_rounds(), quitting


# values after 0, 1, ... rounds; early_stopping_rounds; expected quit round; rounds it took part in
PLANTED = {
    "best after two rounds": ([5, 4, 3, 3, 3, 1, 0], 2, 2, 4),
    "never better than before the first tree": ([1, 2, 3, 2, 1, 0, 0], 4, 0, 4),
    "impatient": ([5, 4, 4, 3, 2, 1, 0], 1, 1, 2),
    "an equal value is no improvement": ([5, 5, 5, 5, 1, 1, 1], 3, 0, 3),
    "better just in time": ([5, 6, 6, 4, 6, 6, 3], 3, 6, None),
    "early_stopping_rounds not reached at the end": ([5, 4, 3, 2, 3, 3, 3], 4, 3, None),
    "undefined in between": ([5, 4, np.nan, np.nan, np.nan, 1, 1], 3, 1, 4),
    "undefined at first": ([np.nan, np.nan, np.nan, 4, 5, 5, 5], 2, 3, 5),
}


@pytest.mark.parametrize(
    ("values", "early_stopping_rounds", "quit_round", "left_after"), PLANTED.values(), ids=PLANTED
)
def test_a_task_quits_after_early_stopping_rounds_rounds_without_improvement(
    values, early_stopping_rounds, quit_round, left_after
):
    improving = [10, 9, 8, 7, 6, 5, 4]
    n_rounds, quitting = watch(
        {"a": values, "b": improving}, 6, early_stopping_rounds=early_stopping_rounds
    )
    assert n_rounds == 6
    assert quitting.quit_round == {"a": quit_round, "b": 6}
    assert quitting.left_after == ({} if left_after is None else {"a": left_after})
    np.testing.assert_array_equal(quitting.history["a"], values)
    np.testing.assert_array_equal(quitting.history["b"], improving)
    np.testing.assert_array_equal(quitting.history["c"], [np.nan] * 7, "it has no validation rows")


@pytest.mark.parametrize("greater_is_better", [False, True])
@pytest.mark.parametrize("min_delta", [0.0, 1.5])
@pytest.mark.parametrize("early_stopping_rounds", [1, 2, 5])
def test_planted_histories_give_the_rounds_of_the_rule(
    early_stopping_rounds, min_delta, greater_is_better
):
    rng = np.random.default_rng(early_stopping_rounds)
    rule = (early_stopping_rounds, min_delta, greater_is_better)
    for _ in range(4):
        values = {name: rng.integers(0, 9, 13).astype(float) for name in N_VALID}
        expected = {name: quit_by_rule(of_task, *rule) for name, of_task in values.items()}
        left_after = {name: left for name, (_, left) in expected.items() if left is not None}
        last = max(left_after.values()) if len(left_after) == len(values) else 12
        n_rounds, quitting = watch(
            values,
            12,
            early_stopping_rounds=early_stopping_rounds,
            min_delta=min_delta,
            greater_is_better=greater_is_better,
        )
        assert n_rounds == last, "training ends when all have quit"
        assert quitting.left_after == left_after
        assert quitting.quit_round == {name: best for name, (best, _) in expected.items()}


def test_a_task_whose_metric_is_never_defined_never_quits():
    worse = [1.0, 2, 3, 4, 5, 6, 7]
    n_rounds, quitting = watch(
        {"a": worse, "b": [np.nan] * 7, "c": worse}, 6, early_stopping_rounds=2
    )
    assert n_rounds == 6, "task 'b' goes on to the last round"
    assert quitting.left_after == {"a": 2, "c": 2}
    assert quitting.quit_round == {"a": 0, "c": 0}


def test_one_task_with_one_class_never_quits_by_auc():
    rows = TASK_VALID != "c"
    is_positive = np.where(TASK_VALID == "b", True, Y_VALID > 0)
    model = fit(
        y=Y > 0,
        objective="binary:logistic",
        eval_metric="auc",
        early_stopping_rounds=1,
        num_boost_round=8,
        eval_set=(X_VALID[rows], is_positive[rows], TASK_VALID[rows]),
    )
    assert model.common.num_boosted_rounds() == 8
    assert model.quit_round["a"] < 8
    assert model.quit_round["b"] == model.quit_round["c"] == 8
    assert model.reports["b"].why_no_specific == "auc is undefined on its validation rows"
    assert model.reports["c"].why_no_specific == "no validation rows"
    assert [model.specific[name] for name in "bc"] == [None, None]


def test_quitting_needs_task_split_to_know_the_rows_of_several_tasks():
    valid = xgboost.DMatrix(X_VALID, Y_VALID)
    with pytest.raises(UnsupportedError, match="several tasks needs TaskSplit"):
        xgboost.train(
            {}, xgboost.QuantileDMatrix(X, Y), 2, callbacks=[TaskQuitting(valid, TASK_VALID)]
        )


@pytest.mark.parametrize("score", ["plain", "entropy", "variance"])
@pytest.mark.parametrize(
    "params",
    [{}, {"grow_policy": "lossguide", "max_leaves": 9}, {"objective": "reg:absoluteerror"}],
    ids=["depthwise", "lossguide", "absolute error"],
)
def test_rows_of_a_task_that_has_quit_take_no_part(score, params):
    # The metric makes 'b' quit after 3 rounds. From there on the trees must be those of a training
    # that never had its rows, but the same cuts and the margins reached.
    params = {**PARAMS, **params, "nthread": 1}
    weight = np.random.default_rng(2).random(len(Y))
    weight[TASK == "b"] *= 100
    whole = xgboost.QuantileDMatrix(X, Y, weight=weight)
    rows = TASK == "b"
    valid = xgboost.DMatrix(X_VALID[:1], Y_VALID[:1])
    quitting = TaskQuitting(
        valid, ["b"], metric=planted_metric({1: range(9)}), early_stopping_rounds=3
    )
    booster = xgboost.train(
        params, whole, 6, callbacks=[TaskSplit(TASK, split_score=score), quitting]
    )
    assert quitting.left_after == {"b": 3}

    others = xgboost.QuantileDMatrix(
        X[~rows],
        Y[~rows],
        weight=weight[~rows],
        base_margin=booster[:3].predict(xgboost.DMatrix(X[~rows]), output_margin=True),
        ref=whole,
    )
    split = TaskSplit(TASK[~rows], split_score=score)
    alone = xgboost.train(params, others, 3, callbacks=[split])
    for number, (found, expected) in enumerate(zip(trees(booster)[3:], trees(alone), strict=True)):
        assert {**found, "id": number} == expected


# ---- section 3.4: specific models -----------------------------------------------------------


def test_a_specific_model_starts_at_the_margins_of_the_common_rounds(library):
    model = fit(library=library)
    assert model.quit_round["b"] < library.n_rounds(model.common)
    for name in model.tasks:
        rows = name == TASK
        margins = library.margins(
            library.first_rounds(model.common, model.quit_round[name]), X[rows]
        )
        n_rounds = library.n_rounds(model.specific[name])
        assert n_rounds == model.reports[name].specific_rounds > 0
        stock = library.train(PARAMS, X[rows], Y[rows], n_rounds, margins)
        assert library.trees(model.specific[name]) == library.trees(stock)


def test_a_specific_model_has_parameters_of_its_own():
    model = fit(specific_params={"max_depth": 1, "eta": 0.05})
    depths = {len(tree["left_children"]) for tree in trees(model.specific["b"])}
    assert depths == {3}, "a stump has three nodes"
    assert max(len(tree["left_children"]) for tree in trees(model.common)) > 3


def test_bins_of_a_specific_model_are_its_own():
    model = fit(specific_params={"max_bin": 8})
    cuts = {
        cut
        for booster in filter(None, model.specific.values())
        for tree in trees(booster)
        for cut, left, feature in zip(
            tree["split_conditions"], tree["left_children"], tree["split_indices"], strict=True
        )
        if left >= 0 and feature == 0
    }
    assert 0 < len(cuts) <= 3 * 8


CONSTRAINTS = {
    "monotone by place": ({"monotone_constraints": (0, -1)}, {"monotone_constraints": {"q": -1}}),
    "monotone by name": ({"monotone_constraints": {"q": -1}}, {"monotone_constraints": {"q": -1}}),
    "interactions by place": (
        {"interaction_constraints": "[[0], [1]]"},
        {"interaction_constraints": [["p"], ["q"]]},
    ),
    "interactions by name": (
        {"interaction_constraints": [["p"], ["q"]]},
        {"interaction_constraints": [["p"], ["q"]]},
    ),
}


@pytest.mark.parametrize(("given", "by_name"), CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_constraints_hold_for_the_same_columns_in_a_table_of_other_columns(given, by_name):
    # Common columns are p, q; task 'b' has shop, q, p.
    model = fit_mapping(params={**PARAMS, **given})
    assert model.specific["b"].feature_names == ["shop", "q", "p"]
    frame = FRAME.loc[TASK == "b"]
    margins = model.common.predict(
        dmatrix(frame[["p", "q"]]), output_margin=True, iteration_range=(0, model.quit_round["b"])
    )
    matrix = xgboost.QuantileDMatrix(
        frame[OWN_COLUMNS["b"]], Y[TASK == "b"], base_margin=margins, enable_categorical=True
    )
    n_rounds = model.reports["b"].specific_rounds
    stock = xgboost.train({**PARAMS, **by_name, "nthread": 1}, matrix, n_rounds)
    assert trees(model.specific["b"]) == trees(stock)
    assert trees(stock) != trees(xgboost.train({**PARAMS, "nthread": 1}, matrix, n_rounds))


def test_specific_rounds_stop_where_the_validation_metric_is_best(library):
    model = fit(library=library, specific_rounds=40, early_stopping_rounds=3)
    for name in model.tasks:
        history = model.history[name]["specific"]
        best, left_after = quit_by_rule(history, early_stopping_rounds=3)
        booster = model.specific[name]
        assert (library.n_rounds(booster) if booster else 0) == best
        assert len(history) - 1 == (40 if left_after is None else left_after)
        table = model.report()
        assert table.loc[name, "rmse common"] == history[0]
        assert table.loc[name, "rmse final"] == history[best] == np.nanmin(history)


def no_better(n_rows_of_task):
    """Metric by which the specific model of one task never improves; rmse for the others."""

    def function(y, prediction, sample_weight):
        error = float(np.sqrt(np.mean((y - prediction) ** 2)))
        return -error if len(y) == n_rows_of_task else error

    return Metric("rmse or not", function, greater_is_better=False)


def test_without_early_stopping_rounds_all_tasks_have_all_rounds_of_both_stages(library):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.normal(size=300)
    task = np.repeat(["a", "b", "c"], 100)
    options = {"num_boost_round": 30, "specific_rounds": 12, "early_stopping_rounds": None}
    options |= {"backend": library.name, "strategy": "two-stage", "task": task}
    model = mtboost.fit(X, y, **options)
    assert set(model.quit_round.values()) == {30}
    assert list(map(library.n_rounds, model.specific.values())) == [12] * 3
    for history in model.history.values():
        assert (len(history["common"]), len(history["specific"])) == (31, 13)
    # Nothing is decided on validation rows, so that there need not be any.
    alone = mtboost.fit(X, y, validation_fraction=0, **options)
    assert list(map(library.n_rounds, alone.specific.values())) == [12] * 3


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:gamma"])
def test_a_booster_knows_the_columns_of_its_task_even_if_they_bring_nothing(library, objective):
    rng = np.random.default_rng(4)
    tables, labels = {}, {}
    for name, extra in (("a", "only_a"), ("b", "only_b")):
        X = rng.normal(size=(200, 2))
        tables[name] = pd.DataFrame({"x": X[:, 0], extra: X[:, 1]})
        labels[name] = np.exp(X[:, 0] + 0.1 * rng.normal(size=200))
    options = {"num_boost_round": 20, "specific_rounds": 0, "strategy": "two-stage"}
    options |= {"backend": library.name, "objective": library.own(objective)}
    model = mtboost.fit(tables, labels, **options)
    for name, table in tables.items():
        booster = model.booster(name)
        assert library.feature_names(booster) == list(table.columns)
        np.testing.assert_array_equal(
            library.margins(booster, table), model.predict_margin({name: table})[name]
        )
        assert model.reports[name].specific_rounds == 0


def test_zero_specific_rounds_have_a_reason(library):
    n_valid_b = int((TASK_VALID == "b").sum())
    reasons = {
        "no improvement on its validation rows": fit(
            library=library,
            eval_metric=no_better(n_valid_b),
            num_boost_round=1,
            early_stopping_rounds=1,
        ),
        "specific_rounds is 0": fit(library=library, specific_rounds=0),
        "no validation rows": fit(library=library, validation_fraction=0),
    }
    for reason, model in reasons.items():
        assert model.specific["b"] is None
        assert model.reports["b"].specific_rounds == 0
        assert model.reports["b"].why_no_specific == reason
        assert model.report().loc["b", "why_no_specific"] == reason
        margins = model.predict_margin(X[TASK == "b"], task=TASK[TASK == "b"])
        np.testing.assert_array_equal(margins, library.margins(model.booster("b"), X[TASK == "b"]))


def test_a_tiny_task_of_one_class_is_no_obstacle(library):
    task = np.where(np.arange(len(Y)) < 2, "tiny", TASK)
    is_positive = np.where(task == "tiny", True, Y > 0)
    model = mtboost.fit(
        X,
        is_positive,
        task=task,
        backend=library.name,
        objective=library.own("binary:logistic"),
        eval_metric="auc",
        params=PARAMS,
        num_boost_round=5,
        n_threads=1,
        strategy="two-stage",
    )
    assert model.specific["tiny"] is None
    reasons = {"no validation rows", "auc is undefined on its validation rows"}
    assert model.report().loc["tiny", "why_no_specific"] in reasons
    assert model.quit_round["tiny"] == library.n_rounds(model.common)


# ---- eq. 7: prediction ----------------------------------------------------------------------


def leaf_values(booster, table):
    """What each tree adds to each row, shape (n_trees, n_rows), float32."""
    leaves = booster.predict(xgboost.DMatrix(table), pred_leaf=True)
    leaves = leaves.astype(int).reshape(len(table), -1).T
    values = [np.array(tree["split_conditions"], np.float32) for tree in trees(booster)]
    return [of_tree[row_leaves] for of_tree, row_leaves in zip(values, leaves, strict=True)]


def test_the_margin_is_the_sum_of_the_trees_of_both_stages():
    model = fit()
    start = np.float32(mean_of_labels(model.common))
    for name in model.tasks:
        table = X_VALID[name == TASK_VALID]
        margins = np.full(len(table), start)
        for values in leaf_values(model.common, table)[: model.quit_round[name]]:
            margins += values
        for values in leaf_values(model.specific[name], table):
            margins += values
        task = TASK_VALID[name == TASK_VALID]
        np.testing.assert_array_equal(model.predict_margin(table, task=task), margins)


def mean_of_labels(booster):
    """XGBoost's estimate of the start score for squared error."""
    assert booster.num_features() == X.shape[1]
    return float(np.mean(Y.astype(np.float32), dtype=np.float64))


def test_a_task_that_quits_at_once_keeps_the_start_score_and_its_specific_model():
    n_valid_b = int((TASK_VALID == "b").sum())
    # Worse after each common round, then better after each specific one.
    values = iter([0.0, 1, 2, 0, -1, -2, -3, -4])
    rmse = mtboost.metrics.get_metric("rmse")

    def function(y, prediction, sample_weight):
        if len(y) == n_valid_b:
            return next(values)
        return float(np.sqrt(np.mean((y - prediction) ** 2)))

    metric = Metric("planted for b", function, rmse.greater_is_better)
    model = fit(eval_metric=metric, num_boost_round=2, specific_rounds=4)
    assert model.quit_round["b"] == 0
    assert model.reports["b"].specific_rounds == 4
    rows = TASK == "b"
    margins = np.full(rows.sum(), np.float32(mean_of_labels(model.common)))
    matrix = xgboost.QuantileDMatrix(X[rows], Y[rows], base_margin=margins)
    stock = xgboost.train({**PARAMS, "nthread": 1}, matrix, 4)
    assert trees(model.specific["b"]) == trees(stock)
    np.testing.assert_array_equal(
        model.predict_margin(X[rows], task=TASK[rows]),
        stock.predict(xgboost.DMatrix(X[rows], base_margin=margins), output_margin=True),
    )


# ---- one ordinary booster per task ----------------------------------------------------------


def category_frame(X, seed):
    rng = np.random.default_rng(seed)
    shop = rng.choice([f"shop {k}" for k in range(12)], len(X))
    return pd.DataFrame(X, columns=["p", "q", "r", "s"]).assign(
        color=pd.Categorical(np.where(X[:, 2] > 0, "red", "blue"), ["blue", "red", "unused"]),
        shop=pd.Categorical(np.where(np.isnan(X[:, 3]), None, shop)),
    )


FRAME, FRAME_VALID = category_frame(X, 1), category_frame(X_VALID, 2)
OWN_COLUMNS = {
    "a": ["p", "q", "r", "color"],
    "b": ["shop", "q", "p"],
    "c": ["p", "s", "q", "color"],
}


def by_task(frame, task):
    return {name: frame.loc[task == name, columns] for name, columns in OWN_COLUMNS.items()}


def labels_by_task(y, task):
    return {name: y[task == name] for name in OWN_COLUMNS}


def as_classes(y):
    return np.digitize(y, [-0.7, 0.7])


def fit_mapping(params=PARAMS, library=XGBOOST):
    """Tables with different columns in different orders; p and q are common."""
    tables, valid = by_task(FRAME, TASK), by_task(FRAME_VALID, TASK_VALID)
    y, y_valid = labels_by_task(Y, TASK), labels_by_task(Y_VALID, TASK_VALID)
    return fit(tables, y, task=None, library=library, eval_set=(valid, y_valid), params=params)


def fit_table(convert, y=Y, y_valid=Y_VALID, objective="reg:squarederror", **options):
    """Function of a library: a model, and a function that gives a task's validation rows."""

    def fitted(library):
        own = library.own(objective) if isinstance(objective, str) else objective
        valid = (convert(X_VALID), y_valid, TASK_VALID)
        model = fit(convert(X), y, library=library, eval_set=valid, objective=own, **options)
        return model, lambda name: convert(X_VALID[name == TASK_VALID])

    return fitted


def fit_frame(library, convert):
    frame, valid = convert(FRAME), convert(FRAME_VALID)
    model = fit(frame, library=library, eval_set=(valid, Y_VALID, TASK_VALID))
    return model, lambda name: convert(FRAME_VALID[name == TASK_VALID])


def polars_frame(frame):
    categorical = frame.select_dtypes("category")
    enums = {name: pl.Enum(categorical[name].cat.categories.tolist()) for name in categorical}
    return pl.from_pandas(frame).cast(enums)


def arrow_table(frame):
    return pa.table(
        {
            name: pa.array(column.astype(object), pa.string(), from_pandas=True).dictionary_encode()
            if column.dtype == "category"
            else pa.array(column, from_pandas=True)
            for name, column in frame.items()
        }
    )


CASES = {
    "numpy": fit_table(np.asarray),
    "CSR": fit_table(lambda X: scipy.sparse.csr_array(np.nan_to_num(X))),
    "plain score": fit_table(np.asarray, split_score="plain"),
    "absolute error": fit_table(np.asarray, objective="reg:absoluteerror"),
    "logistic": fit_table(np.asarray, Y > 0, Y_VALID > 0, objective="binary:logistic"),
    "classes": fit_table(
        np.asarray, as_classes(Y), as_classes(Y_VALID), objective="multi:softprob"
    ),
    "own objective": fit_table(
        np.asarray, objective=lambda p, d: (p - d.get_label(), np.ones_like(p)), eval_metric="mae"
    ),
    "pandas": lambda library: fit_frame(library, lambda frame: frame),
    "polars": lambda library: fit_frame(library, polars_frame),
    "pyarrow": lambda library: fit_frame(library, arrow_table),
    "mapping": lambda library: (
        fit_mapping(library=library),
        lambda name: FRAME_VALID.loc[name == TASK_VALID, OWN_COLUMNS[name]],
    ),
}


def dmatrix(table, **options):
    return xgboost.DMatrix(table, enable_categorical=True, **options)


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_the_booster_of_a_task_gives_the_margins_of_the_model(library, make):
    model, table_of = make(library)
    n_specific = 0
    for name in model.tasks:
        table, booster = table_of(name), model.booster(name)
        assert type(booster) is library.booster
        n_rounds = model.quit_round[name] + model.reports[name].specific_rounds
        assert library.n_rounds(booster) == n_rounds
        n_specific += model.reports[name].specific_rounds
        expected = model.predict_margin({name: table})[name]
        found = library.margins(booster, table)
        np.testing.assert_allclose(found, expected, rtol=0, atol=library.atol)
    assert n_specific > 0


def test_rows_of_all_tasks_together_or_task_by_task_have_the_same_margins(library):
    for case in ("numpy", "classes"):
        model, _ = CASES[case](library)
        together = model.predict_margin(X_VALID, task=TASK_VALID)
        for name in model.tasks:
            alone = model.predict_margin({name: X_VALID[name == TASK_VALID]})[name]
            np.testing.assert_array_equal(together[name == TASK_VALID], alone)


def test_boosters_give_the_margins_in_a_process_that_has_only_their_library(library, tmp_path):
    names = []
    for case in ("numpy", "classes", "pandas", "mapping"):
        model, table_of = CASES[case](library)
        for task in model.tasks:
            table, path = table_of(task), tmp_path / f"{case} {task}"
            model.booster(task).save_model(f"{path}.ubj")  # of LightGBM text, whatever its name
            np.save(f"{path}.npy", model.predict_margin({task: table})[task])
            path.write_bytes(pickle.dumps(table))
            names.append(str(path))
    assert len(names) == 4 * 3
    predict = {
        "xgboost": "predict(xgboost.DMatrix(table, enable_categorical=True), output_margin=True)",
        "lightgbm": "predict(table, raw_score=True)",
    }
    script = (
        f"import pickle, sys, numpy, {library.name}\n"
        "for path in sys.argv[1:]:\n"
        "    table = pickle.loads(open(path, 'rb').read())\n"
        f"    booster = {library.name}.Booster(model_file=path + '.ubj')\n"
        f"    found, expected = booster.{predict[library.name]}, numpy.load(path + '.npy')\n"
        f"    numpy.testing.assert_allclose(found, expected, rtol=0, atol={library.atol})\n"
        "assert 'mtboost' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-P", "-c", script, *names], check=True)


def recoded(frame):
    """The same values; categories in another order and number, as a scoring service reads them."""
    return frame.assign(
        **{
            name: frame[name].cat.set_categories(frame[name].dropna().unique().tolist()[::-1])
            for name in ("color", "shop")
            if name in frame
        }
    )


def test_a_category_is_known_by_its_name_not_by_its_code(library):
    model, _ = CASES["pandas"](library)
    for name in model.tasks:
        frame = FRAME_VALID[name == TASK_VALID]
        expected = model.predict_margin({name: frame})[name]
        np.testing.assert_array_equal(model.predict_margin({name: recoded(frame)})[name], expected)
        if library is not XGBOOST or version() >= (3, 1):  # names lie in the model
            found = library.margins(model.booster(name), recoded(frame))
            np.testing.assert_allclose(found, expected, rtol=0, atol=library.atol)


def test_validation_rows_may_code_their_categories_otherwise(library):
    options = {"library": library, "baselines": True}
    expected = fit(FRAME, eval_set=(FRAME_VALID, Y_VALID, TASK_VALID), **options)
    found = fit(FRAME, eval_set=(recoded(FRAME_VALID), Y_VALID, TASK_VALID), **options)
    assert_same_models(found, expected)
    pd.testing.assert_frame_equal(found.report(), expected.report())
    for name in expected.tasks:
        for stage in ("common", "specific"):
            np.testing.assert_array_equal(found.history[name][stage], expected.history[name][stage])


def test_columns_are_known_by_their_names_not_by_their_order(library):
    model = fit_mapping(library=library)
    for name, columns in OWN_COLUMNS.items():
        frame = FRAME_VALID.loc[name == TASK_VALID]
        expected = model.predict_margin({name: frame[columns]})[name]
        for other in (frame, frame[columns[::-1]]):
            np.testing.assert_array_equal(model.predict_margin({name: other})[name], expected)


def test_shap_values_of_a_task_add_up_to_its_margins(library):
    model = fit(library=library)
    contributions = model.contributions(X_VALID, task=TASK_VALID)
    assert contributions.shape == (len(X_VALID), X.shape[1] + 1)
    margins = model.predict_margin(X_VALID, task=TASK_VALID)
    # sums over the paths of 25 trees, in float32 and in double
    atol = 1e-5 if library is XGBOOST else 1e-14
    np.testing.assert_allclose(contributions.sum(axis=1), margins, rtol=0, atol=atol)


# ---- what belongs to rows and tasks ---------------------------------------------------------


def assert_same_models(found, expected):
    raw = LIBRARIES[expected.backend].raw
    assert found.quit_round == expected.quit_round
    assert raw(found.common) == raw(expected.common)
    for name in expected.tasks:
        assert raw(found.booster(name)) == raw(expected.booster(name))


def test_a_task_weight_multiplies_the_weights_of_its_rows(library):
    weight = np.random.default_rng(3).random(len(Y))
    factor = {"a": 0.5, "b": 2.0, "c": 1.0}
    by_row = weight * np.array([factor[name] for name in TASK])
    found = fit(library=library, weight=weight, task_weight=factor)
    assert_same_models(found, fit(library=library, weight=by_row))
    other = fit(library=library, weight=weight)
    assert library.trees(found.common) != library.trees(other.common)


def test_balanced_tasks_weigh_the_same_in_total(library):
    share = {name: 1 / (3 * np.mean(name == TASK)) for name in "abc"}
    by_row = np.array([share[name] for name in TASK])
    assert [by_row[name == TASK].sum() for name in "abc"] == pytest.approx([len(Y) / 3] * 3)
    found = fit(library=library, task_weight="balanced")
    assert_same_models(found, fit(library=library, weight=by_row))


def test_weights_of_validation_rows_count_in_the_metric(library):
    weight = np.random.default_rng(4).random(len(Y_VALID))
    model = fit(library=library, eval_set=(X_VALID, Y_VALID, TASK_VALID, weight))
    prediction = model.predict(X_VALID, task=TASK_VALID)
    for name in model.tasks:
        rows = name == TASK_VALID
        error = np.average((prediction[rows] - Y_VALID[rows]) ** 2, weights=weight[rows]) ** 0.5
        # float32 predictions, float64 mean
        assert model.reports[name].scores["final"] == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("has_classes", [False, True])
def test_a_base_margin_is_where_both_stages_start(library, has_classes):
    if has_classes:
        start, start_valid = (
            np.random.default_rng(seed).normal(size=(len(rows), 3))
            for seed, rows in ((5, X), (6, X_VALID))
        )
        y, y_valid, options = as_classes(Y), as_classes(Y_VALID), {"objective": library.multiclass}
    else:
        start, start_valid = (2 * np.nan_to_num(rows[:, 2]) for rows in (X, X_VALID))
        y, y_valid, options = Y + start, Y_VALID + start_valid, {}
    valid = (X_VALID, y_valid, TASK_VALID, None, start_valid)
    model = fit(y=y, library=library, base_margin=start, eval_set=valid, **options)
    margins = model.predict_margin(X_VALID, task=TASK_VALID, base_margin=start_valid)
    for name in model.tasks:
        rows = name == TASK_VALID
        found = library.margins(model.booster(name), X_VALID[rows], start_valid[rows])
        np.testing.assert_allclose(found, margins[rows], rtol=0, atol=library.atol)
        if not has_classes:
            error = np.sqrt(np.mean((margins[rows] - y_valid[rows]) ** 2))
            # float32 predictions, float64 mean
            assert model.reports[name].scores["final"] == pytest.approx(error, rel=1e-6)


def test_a_task_in_place_of_its_column_is_explained():
    with pytest.raises(DataError, match=r"task names a column.*pass X=\{'a': table\}"):
        fit().predict(X, task="a")


def test_a_model_shows_itself_in_a_line(library):
    model = fit(library=library, specific_rounds=0)
    rounds = f"{library.n_rounds(model.common)} common rounds, 0 specific models"
    assert repr(model) == f"<MultiTaskModel {library.squared_error}: 3 tasks, {rounds}>"


def test_unknown_tasks_are_refused_or_follow_the_common_model(library):
    model = fit(library=library)
    task = np.where(TASK_VALID == "c", "new", TASK_VALID)
    with pytest.raises(DataError, match="'new' at row .* is unknown. Known: tasks 'a', 'b', 'c'"):
        model.predict_margin(X_VALID, task=task)
    margins = model.predict_margin(X_VALID, task=task, unknown_task="common")
    is_new = task == "new"
    longest = max(model.quit_round.values())
    expected = library.margins(library.first_rounds(model.common, longest), X_VALID[is_new])
    np.testing.assert_array_equal(margins[is_new], expected)
    known = model.predict_margin(X_VALID, task=TASK_VALID)
    np.testing.assert_array_equal(margins[~is_new], known[~is_new])
    for method in (model.booster, model.importance):
        with pytest.raises(DataError, match="task 'new' is unknown. Known: tasks 'a', 'b', 'c'"):
            method("new")


# ---- refitting ------------------------------------------------------------------------------


def test_refitting_trains_the_rounds_found_on_all_rows(library):
    # With the plain score and no task that quits the common model is the library's own.
    options = {"validation_fraction": 0.3, "early_stopping_rounds": 30, "split_score": "plain"}
    options["library"] = library
    found, refitted = fit(refit=False, **options), fit(refit=True, **options)
    assert refitted.quit_round == found.quit_round
    common = library.train(PARAMS, X, Y, library.n_rounds(found.common))
    assert library.trees(refitted.common) == library.trees(common)
    for name in found.tasks:
        rows = name == TASK
        n_rounds = found.reports[name].specific_rounds
        assert refitted.reports[name].specific_rounds == n_rounds
        if n_rounds == 0:
            assert refitted.specific[name] is None
            continue
        margins = library.margins(library.first_rounds(common, found.quit_round[name]), X[rows])
        stock = library.train(PARAMS, X[rows], Y[rows], n_rounds, margins)
        assert library.trees(refitted.specific[name]) == library.trees(stock)
    assert any(refitted.specific.values())


def test_refitting_lets_a_task_leave_after_the_round_found(library):
    options = {"validation_fraction": 0.3, "early_stopping_rounds": 2, "split_score": "plain"}
    options |= {"library": library, "seed": 3}
    found, refitted = fit(**options), fit(refit=True, **options)
    left = {name: rule[1] for name, rule in rules_of(found, early_stopping_rounds=2).items()}
    assert left["b"] is not None
    n_rounds = library.n_rounds(found.common)
    assert left["b"] < n_rounds
    # All rows up to there, as in stock training; then those of 'b' no more.
    trees, stock = map(library.trees, (refitted.common, library.train(PARAMS, X, Y, n_rounds)))
    first = min(n_rounds for n_rounds in left.values() if n_rounds is not None)
    assert trees[:first] == stock[:first]
    assert trees[first] != stock[first]


def test_refitting_keeps_no_model_that_only_validation_needs(library, monkeypatch):
    n_with_trees = []

    def spy(*arguments):
        kept = [each for each in gc.get_objects() if isinstance(each, SpecificModel)]
        n_with_trees.append(sum(each.trees is not None for each in kept))
        return refit_common(*arguments)

    refit_common = fitted.refit_common
    gc.collect()  # cycles of other tests
    monkeypatch.setattr(fitted, "refit_common", spy)
    refitted = fit(validation_fraction=0.3, refit=True, library=library)
    assert n_with_trees == [0]
    assert any(refitted.specific.values())


def rules_of(model, early_stopping_rounds):
    return {
        name: quit_by_rule(model.history[name]["common"], early_stopping_rounds)
        for name in model.tasks
    }
