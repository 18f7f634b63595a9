# SPDX-License-Identifier: Apache-2.0
"""Bad input gets one clear error before any training; odd but legal input trains.

Reading of tables, labels, weights and task labels has separate tests (test_tables.py,
test_task_labels.py); here everything goes through the functions a user calls.
"""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xgboost
from libraries import LIBRARIES
from model_documents import assert_same_model, trees

import mtboost
from mtboost.errors import DataError, ParameterError, TrainingError, UnsupportedError
from mtboost.metrics import Metric
from mtboost.xgboost import TaskSplit
from mtboost.xgboost.library import version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(size=N)
TASK = RNG.integers(0, 2, N)
FRAME = pd.DataFrame(X, columns=["p", "q", "r"])
SMALL = {"num_boost_round": 4, "specific_rounds": 3, "n_threads": 1}


def fit(library=LIBRARIES["xgboost"], **changes):
    options = {"X": X, "y": Y, "task": TASK, "backend": library.name, **SMALL, **changes}
    if isinstance(options.get("objective"), str):
        options["objective"] = library.own(options["objective"])
    return mtboost.fit(options.pop("X"), options.pop("y"), **{"strategy": "two-stage", **options})


def assert_refused(library, changes, error, message):
    """Refused before the first tree."""
    rounds = []
    with pytest.raises(error, match=library.own(message)):
        fit(library, callbacks=[library.callback(rounds.append)], **changes)
    assert rounds == []


def planted(values, row, value):
    values = np.array(values, dtype=object if isinstance(value, str) else float)
    values[row] = value
    return values


# ---- fit: refused before training -----------------------------------------------------------

CLASSES = np.arange(N) % 3
BAD_DATA = {
    "no rows": ({"X": X[:0], "y": Y[:0], "task": TASK[:0]}, r"X has no rows.*\(0, 3\)"),
    "no columns": ({"X": X[:, :0]}, r"X has no columns.*\(200, 0\)"),
    "one axis": ({"X": X[:, 0]}, r"X has shape \(200,\).*reshape\(-1, 1\)"),
    "text": ({"X": X.astype(str)}, r"X has dtype <U.*numbers"),
    "objects": ({"X": FRAME.assign(q=["a", 1] * 100)}, "column 'q' of dtype .*categor"),
    "names twice": ({"X": FRAME.set_axis(["p", "p", "r"], axis=1)}, "2 columns named 'p'"),
    "no labels": ({"y": None}, "y is missing"),
    "too few labels": ({"y": Y[:5]}, r"y has shape \(5,\).*200 rows"),
    "NaN label": ({"y": planted(Y, 3, np.nan)}, "y is nan at row 3.*finite"),
    "infinite label": ({"y": planted(Y, 4, -np.inf)}, "y is -inf at row 4.*finite"),
    "text label": ({"y": planted(Y, 5, "a")}, "y is 'a' at row 5.*number"),
    "labels 1 and 2": (
        {"y": CLASSES % 2 + 1, "objective": "binary:logistic"},
        "binary:logistic needs labels .*0 to 1, but 67 labels.*row 1 .*value 2",
    ),
    "negative count": ({"y": Y, "objective": "count:poisson"}, "count:poisson needs labels.*0 or"),
    "gap in the classes": (
        {"y": CLASSES * 2, "objective": "multi:softprob"},
        "y must hold the classes 0, 1, .*found labels 0.0, 2.0, 4.0.*num_class",
    ),
    "huge class": (
        {"y": planted(CLASSES, 0, 1e9), "objective": "multi:softprob"},
        "y must hold the classes 0, 1",
    ),
    "no class number": (
        {"y": CLASSES + 0.5, "objective": "multi:softmax"},
        "y must hold the classes 0, 1, .*0.5, 1.5",
    ),
    "class beyond num_class": (
        {"y": CLASSES, "objective": "multi:softprob", "params": {"num_class": 2}},
        "multi:softprob needs labels that are classes, 0 to 1",
    ),
    "label without end": ({"y": [10**400] * N}, "y is inf at row 0.*fit in float32"),
    "weights that are 0 in float32": ({"weight": np.full(N, 1e-50)}, "weight is zero .*float32"),
    "no weight in float32, times that of the task": (
        {"weight": np.full(N, 1e-30), "task_weight": {0: 1e-30, 1: 1e-20}},
        "weight, times task_weight, is zero in every training row",
    ),
    "weights beyond float32": (
        {"weight": np.full(N, 1e30), "task_weight": {0: 1, 1: 1e30}},
        r"weight, times task_weight, is 1e\+60 at row .*float32",
    ),
    "counts of 0": ({"y": np.zeros(N), "objective": "count:poisson"}, "y is 0 in every training"),
    "amounts of 0": ({"y": np.zeros(N), "objective": "reg:tweedie"}, "start of .*infinite"),
    "counts with weight of 0": (
        {"y": TASK, "weight": 1 - TASK, "objective": "count:poisson"},
        "y is 0 in every training row that has weight",
    ),
    "too few tasks": ({"task": TASK[:9]}, "task has 9 labels, but X has 200 rows"),
    "missing task": ({"task": planted(TASK, 6, np.nan)}, "task has no label at row 6"),
    "mixed tasks": ({"task": ["a", 1] * 100}, r"str \(row 0: 'a'\) and int \(row 1: 1\)"),
    "unknown task column": ({"X": FRAME, "task": "shop"}, "X has no column 'shop'"),
    "misspelt task column": (
        {"X": FRAME.assign(channel=TASK.astype(str)), "task": "chanel"},
        "X has no column 'chanel'. Did you mean 'channel'",
    ),
    "task column alone": ({"X": FRAME[["p"]], "task": "p"}, "No column of X is left"),
    "mapping and task": ({"X": {0: X}, "y": {0: Y}}, "mapping whose keys are the tasks.*task"),
    "labels of another task": (
        {"X": {0: X}, "y": {1: Y}, "task": None},
        "y lacks task 0 and has unknown task 1",
    ),
    "negative weight": ({"weight": planted(np.ones(N), 8, -1)}, "weight is -1 at row 8"),
    "NaN weight": ({"weight": planted(np.ones(N), 8, np.nan)}, "weight is nan at row 8"),
    "no weight at all": ({"weight": np.zeros(N)}, "weight is zero in every row"),
    "no weight in training": (
        {"weight": TASK == 0, "task_weight": {0: 0, 1: 1}},
        "weight, times task_weight, is zero in every training row",
    ),
    "too few weights": ({"weight": np.ones(3)}, r"weight has shape \(3,\).*200 rows"),
    "too few margins": ({"base_margin": np.ones(3)}, r"base_margin has shape \(3,\).*200 rows"),
    "two margins a row": ({"base_margin": np.ones((N, 2))}, "base_margin has 2 columns.* 1 margin"),
    "one margin for classes": (
        {"y": CLASSES, "objective": "multi:softprob", "base_margin": np.ones(N)},
        "base_margin has 1 columns, but multi:softprob has 3 margins",
    ),
    "too few names": ({"feature_names": ["p"]}, "feature_names has 1 names, X has 3 columns"),
    "common without names": ({"common_features": ["p"]}, "no column 'p'.*no names"),
    "common by position": ({"common_features": [0, 1]}, "no column 0.*no names"),
    "common unknown": ({"X": FRAME, "common_features": ["P"]}, "no column 'P'"),
    "task weights lack a task": ({"task_weight": {0: 1}}, "task_weight lacks task 1"),
    "validation of other tasks": (
        {"eval_set": (X, Y, TASK + 2)},
        "eval_set: task 2 is unknown. Known: tasks 0, 1",
    ),
    "validation without tasks": ({"eval_set": (X, Y)}, "eval_set lacks the tasks of its rows"),
    "validation of other columns": (
        {"eval_set": (X[:, :2], Y, TASK)},
        "eval_set: X has 2 columns, but the model was trained on 3",
    ),
    "validation renamed": (
        {"X": FRAME, "eval_set": (FRAME.rename(columns={"q": "Q"}), Y, TASK)},
        "eval_set: X has no column 'q'",
    ),
    "validation of other categories": (
        {
            "X": FRAME.assign(shop=pd.Categorical(["x", "y"] * 100)),
            "eval_set": (FRAME.assign(shop=pd.Categorical([1, 2] * 100)), Y, TASK),
        },
        r"eval_set: Categories in column 'shop' of X are of type int, .* of type str",
    ),
    "other categories of one task": (
        {
            "X": {0: FRAME, 1: FRAME.assign(shop=pd.Categorical(["x", "y"] * 100))},
            "y": {0: Y, 1: Y},
            "task": None,
            "eval_set": ({1: FRAME.assign(shop=pd.Categorical([1, 2] * 100))}, {1: Y}),
        },
        r"eval_set: Categories in column 'shop' of X\[1\] are of type int, .* of type str",
    ),
    "a column of one task is missing": (
        {
            "X": {0: FRAME, 1: FRAME.assign(shop=1.0)},
            "y": {0: Y, 1: Y},
            "task": None,
            "eval_set": ({1: FRAME}, {1: Y}),
        },
        r"eval_set: X\[1\] lacks column 'shop'",
    ),
    "validation without rows": ({"eval_set": (X[:0], Y[:0], TASK[:0])}, "eval_set: X has no rows"),
    "validation label": (
        {"y": TASK, "objective": "binary:logistic", "eval_set": (X, planted(TASK, 3, 2), TASK)},
        "eval_set: binary:logistic needs labels .*0 to 1, but 1 label is not: row 3",
    ),
    "validation without labels": ({"eval_set": (X, None, TASK)}, "y is missing"),
    "validation with too many parts": ({"eval_set": (X, Y, TASK) * 3}, "eval_set has 9 parts"),
    "validation without margins": (
        {"base_margin": Y, "eval_set": (X, Y, TASK)},
        "base_margin must be given for training and validation rows",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD_DATA.values(), ids=BAD_DATA)
def test_fit_refuses_bad_data_before_the_first_tree(library, changes, message):
    assert_refused(library, changes, DataError, message)


ONLY_XGBOOST_REFUSES = {
    "zero for gamma": (
        {"y": planted(np.abs(Y) + 1, 9, 0.0), "objective": "reg:gamma"},
        "reg:gamma needs positive labels, but 1 label is not: row 9",
    ),
    "infinite": ({"X": planted(X, (7, 1), np.inf)}, "X is inf in column 1: .*finite"),
    "too large": ({"X": FRAME.assign(r=1e300)}, r"X is 1e\+300 in column 'r': .*float32"),
    "infinite validation": (
        {"eval_set": (planted(X, (1, 2), -np.inf), Y, TASK)},
        "X is -inf in column 2: .*finite",
    ),
}


@pytest.mark.parametrize(
    ("changes", "message"), ONLY_XGBOOST_REFUSES.values(), ids=ONLY_XGBOOST_REFUSES
)
def test_some_values_xgboost_refuses_and_lightgbm_trains_on(changes, message):
    assert_refused(LIBRARIES["xgboost"], changes, DataError, message)
    model = fit(LIBRARIES["lightgbm"], **changes)
    assert np.isfinite(model.predict(changes.get("X", X), task=TASK)).all()


BAD_PARAMETERS = {
    "num_boost_round": ({"num_boost_round": 0}, "num_boost_round must be an integer >= 1, found 0"),
    "num_boost_round, type": ({"num_boost_round": "9"}, "num_boost_round must be .*found '9'"),
    "num_boost_round, part": ({"num_boost_round": 2.5}, "num_boost_round must be .*found 2.5"),
    "early_stopping_rounds": (
        {"early_stopping_rounds": 0},
        "early_stopping_rounds must be None or an integer >= 1, found 0",
    ),
    "min_delta": ({"min_delta": -1}, "min_delta must be a finite number >= 0, found -1"),
    "min_delta, type": ({"min_delta": "a"}, "min_delta must be a finite number >= 0, found 'a'"),
    "specific_rounds": ({"specific_rounds": -1}, "specific_rounds must be .*>= 0, found -1"),
    "validation_fraction": ({"validation_fraction": 1.0}, r"validation_fraction.*\[0, 1\).*1.0"),
    "validation_fraction, type": ({"validation_fraction": "half"}, "validation_fraction.*'half'"),
    "seed": ({"seed": -1}, "seed must be an integer >= 0, found -1"),
    "seed, type": ({"seed": "a"}, "seed must be an integer >= 0, found 'a'"),
    "n_threads, type": ({"n_threads": "all"}, "n_threads must be None or an integer .*found 'all'"),
    "split_score": ({"split_score": "entrop"}, "'plain', 'entropy' or 'variance'.*found 'entrop'"),
    "beta": ({"split_score": "variance", "beta": -1}, "beta must be 'auto' or .*found -1"),
    "beta, type": ({"beta": "big"}, "beta must be 'auto' or .*found 'big'"),
    "eval_metric": ({"eval_metric": "rmsee"}, "metric 'rmsee' is unknown. Did you mean 'rmse'"),
    "eval_metric of classes": (
        {"eval_metric": "mlogloss"},
        "'mlogloss' does not fit the objective, which predicts one number.*rmse, rmsle, mae",
    ),
    "eval_metric of one number": (
        {"eval_metric": "auc", "y": CLASSES, "objective": "multi:softprob"},
        "'auc' does not fit the objective, which predicts a probability.*of merror, mlogloss",
    ),
    "task_weight": ({"task_weight": {0: 1, 1: -1}}, r"task_weight\[1\] must be .*>= 0.*-1"),
    "task_weight, value": ({"task_weight": {0: "a", 1: 1}}, r"task_weight\[0\] must be .*'a'"),
    "task_weight, huge": ({"task_weight": {0: 1, 1: 10**400}}, r"task_weight\[1\] must be .*1000"),
    "task_weight, type": ({"task_weight": "equal"}, "task_weight must be .*'balanced'.*'equal'"),
}


@pytest.mark.parametrize(("changes", "message"), BAD_PARAMETERS.values(), ids=BAD_PARAMETERS)
def test_fit_refuses_bad_parameters_before_the_first_tree(library, changes, message):
    assert_refused(library, changes, ParameterError, message)


WRONG_TYPES = {
    "X is text": ({"X": "table.csv"}, "X is a builtins.str"),
    "unknown argument": ({"max_depth": 3}, "unexpected keyword argument 'max_depth'. It is a"),
    "unknown parameter": (
        {"params": {"max_dept": 3}},
        "params has an unknown name 'max_dept'. Did you mean 'max_depth'",
    ),
    "unknown specific parameter": (
        {"specific_params": {"lamda": 3}},
        "specific_params has an unknown name 'lamda'. Did you mean 'lambda",
    ),
    "parameter of another library": (
        {"params": {"rsm": 0.5}},
        "params has an unknown name 'rsm'. Did you mean '(colsample_bytree|feature_fraction)'",
    ),
    "metric without direction": (
        {"eval_metric": lambda y, p: 0.0},
        "pass the name of a metric, or mtboost.metrics.Metric",
    ),
    "no callback": ({"callbacks": [3]}, "callbacks holds 3: it must be a"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_fit_refuses_wrong_types(library, changes, message):
    with pytest.raises(TypeError, match=message):
        fit(library, **changes)


def test_params_of_xgboost_with_rows_of_a_leaf_say_what_limits_them():
    with pytest.raises(TypeError, match="'min_child_samples'. .*pass min_child_weight"):
        mtboost.fit(X, Y, task=TASK, params={"min_child_samples": 5})


REFUSED_WITH_XGBOOST = {
    "objective in params": ({"objective": "x"}, "Pass objective= to fit"),
    "threads in params": ({"n_jobs": 2}, "Pass n_threads= to fit.*'n_jobs' in params"),
    "threads in params, nthread": ({"nthread": 1}, "Pass n_threads= to fit"),
    "seed in params": ({"random_state": 2}, "Pass seed= .*'random_state' in params"),
    "seed in params, seed": ({"seed": 1}, "Pass seed= to fit"),
    "two names": ({"eta": 0.1, "learning_rate": 0.2}, "'learning_rate' under two names"),
    "metric in params": ({"eval_metric": "mae"}, "Pass eval_metric= to fit"),
    "metric of LightGBM": ({"metric": "mae"}, "Pass eval_metric= to fit.*'metric' in params"),
    "rounds": ({"n_estimators": 9}, "Pass num_boost_round= to fit.*'n_estimators' in params"),
    "early stopping": ({"early_stopping_rounds": 9}, "Pass early_stopping_rounds= to fit"),
    "categories": ({"cat_features": [0]}, "params has .*columns of categories in X"),
    "interactions": ({"interaction_constraints": "[[0,"}, "interaction_constraints"),
}
REFUSED_WITH_LIGHTGBM = {
    "objective": ({"application": "binary"}, "Pass objective= to fit.*'application' in params"),
    "threads": ({"n_jobs": 2}, "Pass n_threads= to fit.*'n_jobs' in params"),
    "seed": ({"random_state": 2}, "Pass seed= to fit.*'random_state' in params"),
    "metric": ({"metric": "auc"}, "Pass eval_metric= to fit"),
    "rounds": ({"n_estimators": 9}, "Pass num_boost_round= to fit.*'n_estimators' in params"),
    "early stopping": ({"early_stopping_rounds": 9}, "Pass early_stopping_rounds= to fit"),
    "categories": ({"categorical_feature": [0]}, "params has .*columns of categories in X"),
    "two names": ({"eta": 0.1, "shrinkage_rate": 0.1}, "'learning_rate' under two names"),
    "monotone by name": ({"monotone_constraints": {"p": 1}}, "by position only"),
    "interactions, text": ({"interaction_constraints": "[[0,"}, "interaction_constraints that are"),
    "interactions by name": ({"interaction_constraints": [["p"]]}, r"give \[\[0, 1\], \[2\]\]"),
    "interactions below 0": ({"interaction_constraints": [[-1, 0]]}, "a number is below 0"),
    "leaves": ({"num_leaves": 1}, "params: .*num_leaves"),
    "rate": ({"learning_rate": 0}, "params: .*learning_rate"),
    "lambda": ({"lambda_l2": -1}, "params: .*lambda_l2"),
    "bag": ({"bagging_fraction": 2}, "params: .*bagging_fraction"),
    "columns": ({"feature_fraction": 2}, "params: .*feature_fraction"),
    "signs": ({"monotone_constraints": [1]}, "params: .*monotone_constraints"),
}
REFUSED_OF_SPECIFIC_MODELS = {
    "objective": ({"objective": "binary:logistic"}, "Pass objective= to fit.*in specific_params"),
    "verbosity": (
        {"verbosity": "much"},
        "specific_params: XGBoost refuses a value: .*verbosity",
    ),
}
# Since XGBoost 3.3 dart without dropout is gbtree.
DROPOUT = {} if version() < (3, 3) else {"rate_drop": 0.1}
UNSUPPORTED = {
    ("xgboost", "params"): [
        {"booster": "dart", "verbosity": 0, **DROPOUT},
        {"multi_strategy": "multi_output_tree"},
        {"process_type": "update"},
        {"num_parallel_tree": 4},
    ],
    ("lightgbm", "params"): [
        {"boosting": "dart"},
        {"extra_trees": True},
        {"linear_tree": True},
        {"use_quantized_grad": True},
    ],
    ("lightgbm", "specific_params"): [{"linear_tree": True}],
}
REFUSED_WITH_ONE_LIBRARY = [
    *(
        pytest.param(name, {argument: params}, ParameterError, message, id=f"{name}-{each}")
        for name, argument, table in (
            ("xgboost", "params", REFUSED_WITH_XGBOOST),
            ("xgboost", "specific_params", REFUSED_OF_SPECIFIC_MODELS),
            ("lightgbm", "params", REFUSED_WITH_LIGHTGBM),
        )
        for each, (params, message) in table.items()
    ),
    *(
        (name, {argument: params}, UnsupportedError, next(iter(params)))
        for (name, argument), table in UNSUPPORTED.items()
        for params in table
    ),
]


@pytest.mark.parametrize(("name", "changes", "error", "message"), REFUSED_WITH_ONE_LIBRARY)
def test_fit_refuses_params_of_a_library_before_the_first_tree(name, changes, error, message):
    assert_refused(LIBRARIES[name], changes, error, message)


NAMES_LIGHTGBM_CANNOT_TELL = {
    "comma": (["p,", "q", "r"], "has a column 'p,': LightGBM allows no empty name and no comma"),
    "quote": (['"p"', "q", "r"], "has a column .*double quote"),
    "two lines": (["p", "q\nr", "r"], r"has a column 'q\\nr'.*line break"),
    "empty": (["p", "", "r"], "has a column ''"),
    "space and underscore": (["a b", "q", "a_b"], "'a b' and 'a_b': LightGBM calls both 'a_b'"),
}


@pytest.mark.parametrize(
    ("names", "message"), NAMES_LIGHTGBM_CANNOT_TELL.values(), ids=NAMES_LIGHTGBM_CANNOT_TELL
)
def test_names_that_lightgbm_cannot_tell_are_refused(names, message):
    for changes in ({"X": FRAME.set_axis(names, axis=1)}, {"feature_names": names}):
        assert_refused(LIBRARIES["lightgbm"], changes, DataError, message)


class Begun(xgboost.callback.TrainingCallback):
    """Fails when XGBoost's training begins."""

    def before_training(self, model):
        pytest.fail("training began")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("max_depth", -3, "max_depth"),
        ("learning_rate", -1, "learning_rate"),
        ("gamma", "x", "min_split_loss"),
        ("reg_lambda", -1, "reg_lambda"),
        ("subsample", 2, "subsample"),
        ("colsample_bytree", 1.5, "colsample_bytree"),
        ("grow_policy", "sideways", "sideways"),
    ],
)
def test_values_that_xgboost_refuses_are_named_before_training(name, value, text):
    with pytest.raises(ParameterError, match=f"params: XGBoost refuses a value: .*{text}"):
        fit(params={name: value}, callbacks=[Begun()])


FRACTIONS = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
NOT_FINITE = {
    "xgboost": [
        *((name, np.nan) for name in FRACTIONS),
        ("learning_rate", np.inf),
        ("reg_lambda", "nan"),
        ("gamma", np.float32("nan")),
        ("min_child_weight", -np.inf),
        ("base_score", np.nan),
        ("scale_pos_weight", np.nan),
    ],
    "lightgbm": [
        ("feature_fraction", np.nan),
        ("feature_fraction_bynode", np.nan),
        ("bagging_fraction", np.nan),
        ("learning_rate", 10**400),
        ("feature_contri", [np.nan, 1, 1]),
        ("lambda_l1", "nan"),
        ("sigmoid", np.nan),
    ],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(library, each, id=f"{library}-{each[0]}")
        for library, values in NOT_FINITE.items()
        for each in values
    ],
)
def test_numbers_that_are_not_finite_are_refused_before_training(name, value):
    # XGBoost trains with them; the core took them for a number of columns, and crashed.
    library, params = LIBRARIES[name], dict([value])
    changes = {"y": TASK, "objective": "binary:logistic"}
    assert_refused(library, {**changes, "params": params}, ParameterError, "^params: .*")
    changes["specific_params"] = params
    assert_refused(library, changes, ParameterError, "^specific_params: .*")


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_fractions_that_are_nan_are_refused_in_train_and_in_stock_training(fraction):
    params = {fraction: np.nan, "nthread": 1}
    with pytest.raises(ParameterError, match=f"{fraction} must be a finite number, found nan"):
        mtboost.train(params, mtboost.Dataset(X, Y, task=TASK), 2)
    with pytest.raises(ParameterError, match=f"{fraction} must be a finite number, found nan"):
        xgboost.train(params, xgboost.DMatrix(X, Y), 2, callbacks=[TaskSplit(TASK)])


@pytest.mark.parametrize("argument", ["params", "specific_params"])
@pytest.mark.parametrize("signs", ["(1, 0, 2)", "(1", "(1,0,0", "[1,0],0", [2, 0, 0], ["up"], 1.5])
def test_other_signs_than_1_and_0_are_refused(library, signs, argument):
    message = f"{argument}: monotone_constraints must have 1 .rises., -1 .falls. or 0 for each "
    changes = {argument: {"monotone_constraints": signs}}
    assert_refused(library, changes, ParameterError, message)


@pytest.mark.parametrize("argument", ["params", "specific_params"])
@pytest.mark.parametrize("signs", [[1], (1, 0), [1, 0, 0, 0], "(1,0)"])
def test_signs_of_other_columns_are_refused(library, signs, argument):
    changes = {argument: {"monotone_constraints": signs}}
    n_signs = 2 if isinstance(signs, str) else len(signs)
    message = f"monotone_constraints must have a value for each of 3 columns, found {n_signs}"
    assert_refused(library, changes, ParameterError, f"{argument}: {message}")


def test_signs_of_names_that_the_common_model_lacks_are_refused():
    tables = {"a": FRAME, "b": FRAME.drop(columns="r")}
    names = "names? column '{}', which the common model .* of columns 'p', 'q'.* alone"
    for name in ("pp", "task", "r"):
        with pytest.raises(ParameterError, match=names.format(name)):
            mtboost.fit(
                tables,
                {"a": Y, "b": Y},
                strategy="two-stage",
                params={"monotone_constraints": {name: 1}},
            )
    with pytest.raises(ParameterError, match="the columns of X have no names: give a list"):
        fit(LIBRARIES["xgboost"], params={"monotone_constraints": {"p": 1}})


@pytest.mark.parametrize("text", ["(1,0,-1)", "1,0,-1", "[1, 0, -1]"])
def test_signs_may_be_a_text(library, text):
    found, expected = (
        fit(library, params={"monotone_constraints": signs}) for signs in (text, [1, 0, -1])
    )
    np.testing.assert_array_equal(*(m.predict(X, task=TASK) for m in (found, expected)))


@pytest.mark.parametrize("column", [3, 10**9, 2**32])
def test_interactions_of_columns_that_do_not_exist_are_refused(library, column):
    groups = f"[[0, {column}]]"
    message = f"interaction_constraints name column {column}, but there are 3"
    for argument in ("params", "specific_params"):
        changes = {argument: {"interaction_constraints": groups}}
        assert_refused(library, changes, ParameterError, f"{argument}: {message}")


@pytest.mark.parametrize(
    ("table", "groups", "message"),
    [
        (FRAME, [["p", "qq"]], "name column 'qq', which the common model .* mean 'q'"),
        (FRAME, [["p"], ["q", 1]], "name column 1, which .* as a text, such as '..0, 1., .2..'"),
        (X, [["p", "q"]], "name columns 'p', 'q', but the columns of X have no names.* as a text"),
        (FRAME, ["p", "q"], "must be a list of lists of columns"),
        (FRAME, [0, 1], "must be a list of lists of columns"),
        (FRAME, 1, "must be a list of lists of columns, found 1"),
    ],
)
def test_interactions_of_names_that_do_not_exist_are_named(table, groups, message):
    for argument in ("params", "specific_params"):
        changes = {"X": table, argument: {"interaction_constraints": groups}}
        expected = f"{argument}: interaction_constraints {message}"
        assert_refused(LIBRARIES["xgboost"], changes, ParameterError, expected)


@pytest.mark.parametrize(
    ("name", "values", "convert"),
    [
        ("lightgbm", [1, 0, -1], lambda values: np.array(values, int)),
        ("lightgbm", [], lambda values: np.array(values, int)),
        ("xgboost", [1, 0, -1], tuple),
    ],
)
def test_values_of_the_columns_may_be_an_array_a_list_or_a_tuple(name, values, convert):
    found, expected = (
        fit(LIBRARIES[name], params={"monotone_constraints": signs}, baselines=True)
        for signs in (convert(values), values)
    )
    np.testing.assert_array_equal(found.predict(X, task=TASK), expected.predict(X, task=TASK))


def test_classes_of_an_objective_without_classes_are_refused(library):
    changes = {"params": {"num_class": 3}}
    assert_refused(library, changes, ParameterError, "'num_class', but objective=.*no classes")


@pytest.mark.parametrize("argument", ["params", "specific_params"])
@pytest.mark.parametrize("value", [3, "max_depth=3", [("max_depth", 3)], 0])
def test_parameters_must_be_a_mapping(library, argument, value):
    message = f"{argument} must be a mapping of names to values, found {re.escape(repr(value))}"
    assert_refused(library, {argument: value}, TypeError, message)


def test_a_misspelt_objective_is_refused_with_the_nearest(library):
    name = library.squared_error
    changes = {"objective": name.replace("ss", "s").replace("ed", "e")}
    assert_refused(library, changes, ParameterError, f"Did you mean '{name}'")


UNSUPPORTED_OBJECTIVES = {
    "xgboost": ("rank:map", "abc"),
    "lightgbm": ("rank_xendcg", "abc"),
}


def test_an_unsupported_objective_is_not_said_to_lack_a_metric(library):
    for objective in UNSUPPORTED_OBJECTIVES[library.name]:
        for eval_metric in (None, "rmse"):
            changes = {"objective": objective, "eval_metric": eval_metric}
            message = f"objective='{objective}' is not supported"
            assert_refused(library, changes, (UnsupportedError, ParameterError), message)


def test_an_objective_that_is_none_is_refused(library):
    assert_refused(library, {"objective": 3}, TypeError, "objective must be None or the name of")


def test_an_objective_of_the_other_library_is_refused(library):
    (other,) = (each for each in LIBRARIES.values() if each is not library)
    with pytest.raises(ParameterError, match=f"Did you mean '{library.squared_error}'"):
        mtboost.fit(X, Y, backend=library.name, objective=other.squared_error, strategy="two-stage")


def test_what_a_users_function_raises_is_handed_on(library):
    def broken(*_, **__):
        raise ZeroDivisionError("in the user's code")

    with pytest.raises(ZeroDivisionError, match="in the user's code"):
        fit(library, objective=broken)
    with pytest.raises(ZeroDivisionError, match="in the user's code"):
        fit(library, split_score=broken)
    with pytest.raises(ZeroDivisionError, match="in the user's code") as caught:
        fit(library, eval_metric=Metric("broken", broken, greater_is_better=True))
    assert any("Metric 'broken' failed on task number 0" in note for note in caught.value.__notes__)


SCORES = {
    "one number": lambda s, task_gains: s[:1],
    "NaN": lambda s, task_gains: s * np.nan,
    "text": lambda s, task_gains: "high",
    "nothing": lambda s, task_gains: None,
}


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_a_users_score_must_be_a_finite_number_per_cut(library, score):
    with pytest.raises(ValueError, match="split score (must return|returned)"):
        fit(library, split_score=score)


def test_gradients_that_are_not_finite_end_training(library):
    with pytest.raises(TrainingError, match="not finite in round 0, first at row 0"):
        fit(library, objective=lambda margins, matrix: (margins * np.nan, np.ones_like(margins)))


# ---- train and Dataset ----------------------------------------------------------------------


def train(params=None, data=None, *, evals=(), **options):
    data = mtboost.Dataset(X, Y, task=TASK) if data is None else data
    params = {"nthread": 1, **(params or {})}
    return mtboost.train(params, data, 3, evals=evals, verbose_eval=False, **options)


BAD_TRAIN = {
    "array": (TypeError, {"data": X}, r"data is a ndarray: make it mtboost\.Dataset"),
    "matrix": (
        TypeError,
        {"evals": [(xgboost.DMatrix(X, Y), "valid")]},
        r"evals\[0\] must be a pair \(mtboost\.Dataset, name\)",
    ),
    "no pair": (
        TypeError,
        {"evals": [mtboost.Dataset(X, Y, task=TASK)]},
        r"evals\[0\] must be a pair",
    ),
    "unknown parameter": (TypeError, {"params": {"split_scor": "entropy"}}, "'split_scor'"),
    "no labels": (DataError, {"data": mtboost.Dataset(X, task=TASK)}, "y is missing"),
    "other columns": (
        DataError,
        {"evals": [(mtboost.Dataset(X[:, :2], Y, task=TASK), "valid")]},
        "X has 2 columns, but the model was trained on 3",
    ),
    "score": (ParameterError, {"params": {"split_score": "gini"}}, "found 'gini'"),
    "beta": (ParameterError, {"params": {"beta": float("nan")}}, "beta must be .*found nan"),
    "two splits": (UnsupportedError, {"callbacks": [TaskSplit(TASK)]}, "one TaskSplit, not two"),
}


@pytest.mark.parametrize(("error", "changes", "message"), BAD_TRAIN.values(), ids=BAD_TRAIN)
def test_train_refuses(error, changes, message):
    with pytest.raises(error, match=message):
        train(**changes)


# ---- TaskSplit ------------------------------------------------------------------------------


def test_task_split_names_the_objectives_it_knows():
    objective = "rank:map"
    matrix = xgboost.DMatrix(X, TASK, qid=np.zeros(N))
    params = {"objective": objective}
    rounds = []
    callbacks = [TaskSplit(TASK), LIBRARIES["xgboost"].callback(rounds.append)]
    with pytest.raises(UnsupportedError, match=f"'{objective}' is not supported.*reg:squarederror"):
        xgboost.train(params, matrix, 2, callbacks=callbacks)
    assert rounds == []


BAD_TASKS = {
    "missing": ([0, None], "task has no label at row 1"),
    "two columns": (np.zeros((3, 2)), r"task must be one label a row.*\(3, 2\)"),
    "mixed": (["a", 1], "str .* and int"),
    "dates": (np.zeros(3, "datetime64[D]"), "dtype datetime64.*int, str or bool"),
}


@pytest.mark.parametrize(("task", "message"), BAD_TASKS.values(), ids=BAD_TASKS)
def test_task_split_refuses_bad_labels_when_it_is_made(task, message):
    with pytest.raises(DataError, match=message):
        TaskSplit(task)


def test_task_split_needs_labels():
    with pytest.raises(DataError, match="no labels"):
        xgboost.train({}, xgboost.DMatrix(X), 2, callbacks=[TaskSplit(TASK)])


def test_a_training_matrix_without_rows_is_refused():
    with pytest.raises(DataError, match="training matrix has no rows"):
        xgboost.train({}, xgboost.DMatrix(X[:0], Y[:0]), 2, callbacks=[TaskSplit(TASK[:0])])
    objective = mtboost.xgboost.TaskObjective("reg:squarederror", TASK[:0])
    with pytest.raises(DataError, match="training matrix has no rows"):
        xgboost.train({}, xgboost.DMatrix(X[:0], Y[:0]), 2, obj=objective)
    with pytest.raises(DataError, match="X has no rows"):
        mtboost.train({}, mtboost.Dataset(X[:0], Y[:0], task=TASK[:0]), 2)


def test_a_table_whose_missing_values_are_not_nan_is_not_used():
    table = np.where(X > 1, -999.0, X)
    matrix = xgboost.QuantileDMatrix(table, Y, missing=-999.0)
    split = TaskSplit(TASK, split_score="plain", table=table)
    assert_same_model(xgboost.train({}, matrix, 3, callbacks=[split]), xgboost.train({}, matrix, 3))


# ---- predict --------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=LIBRARIES.values(), ids=LIBRARIES)
def models(request):
    return {
        "array": fit(request.param),
        "frame": fit(request.param, X=FRAME),
        "classes": fit(request.param, y=CLASSES, objective="multi:softprob"),
    }


BAD_PREDICT = {
    "no task": ("array", {"task": None}, "task is missing.*Known: tasks 0, 1"),
    "too few tasks": ("array", {"task": TASK[:3]}, "task has 3 labels, but X has 200"),
    "unknown task": ("array", {"task": TASK + 1}, "task label 2 at row .* is unknown"),
    "text tasks": ("array", {"task": TASK.astype(str)}, "there is a task [01]: convert"),
    "text tasks, others allowed": (
        "array",
        {"task": TASK.astype(str), "unknown_task": "common"},
        "there is a task [01]: convert the labels, which are of type str, to int",
    ),
    "text in mapping, others allowed": (
        "array",
        {"X": {"1": X}, "unknown_task": "common"},
        "label '1' is unknown, but there is a task 1",
    ),
    "unknown in mapping": ("array", {"X": {7: X}}, "X has unknown task 7. Known: tasks 0, 1"),
    "a row as a mapping": (
        "frame",
        {"X": FRAME.iloc[0].to_dict()},
        r"X has unknown tasks 'p', 'q', 'r'.*to predict one row, pass pd.DataFrame\(\[row\]\)",
    ),
    "fewer columns": ("array", {"X": X[:, :2]}, "X has 2 columns.*trained on 3"),
    "missing column": ("frame", {"X": FRAME[["p", "q"]]}, "X lacks column 'r'"),
    "renamed column": ("frame", {"X": FRAME.rename(columns={"p": "pp"})}, "'p'.*Did you mean 'pp'"),
    "too few margins": ("array", {"base_margin": np.zeros(3)}, r"margin has shape \(3,\)"),
    "too many margins": ("array", {"base_margin": np.zeros(N + 3)}, r"margin has shape \(203,\)"),
    "NaN margin": ("array", {"base_margin": planted(Y, 3, np.nan)}, "base_margin is nan at row 3"),
    "one margin for classes": (
        "classes",
        {"base_margin": Y},
        r"base_margin has shape \(200,\), but must have \(200, 3\)",
    ),
    "margins of another task": (
        "array",
        {"X": {0: X}, "base_margin": {1: Y}},
        "base_margin lacks task 0 and has unknown task 1",
    ),
}


@pytest.mark.parametrize(("name", "changes", "message"), BAD_PREDICT.values(), ids=BAD_PREDICT)
def test_predict_refuses(models, name, changes, message):
    arguments = {"X": X, "task": None if isinstance(changes.get("X"), dict) else TASK, **changes}
    for method in (models[name].predict, models[name].predict_margin):
        with pytest.raises(DataError, match=message):
            method(**arguments)


def test_predict_refuses_more(models):
    with pytest.raises(ParameterError, match="unknown_task must be .*found 'ignore'"):
        models["array"].predict(X, task=TASK, unknown_task="ignore")
    with pytest.raises(DataError, match=r"needs a classifier.*(reg:squarederror|'regression')"):
        models["array"].predict_proba(X, task=TASK)


def test_predict_refuses_infinity_of_xgboost():
    with pytest.raises(DataError, match="X is inf in column 0"):
        fit().predict(planted(X, (2, 0), np.inf), task=TASK)


# ---- odd, but trains ------------------------------------------------------------------------

ODD_TABLES = {
    "read-only": lambda X: (X := X.copy(), X.setflags(write=False))[0],
    "Fortran order": np.asfortranarray,
    "every second row and column": lambda X: np.repeat(np.repeat(X, 2, 0), 2, 1)[::2, ::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "list of lists": lambda X: X.tolist(),
    "pandas": pd.DataFrame,
    "pandas, nullable": lambda X: pd.DataFrame(X).astype("Float64"),
    "pandas, arrow": lambda X: pd.DataFrame(X).astype("double[pyarrow]"),
    "pandas, levels": lambda X: pd.DataFrame(
        X, columns=pd.MultiIndex.from_product([["p"], list("abc")])
    ),
    "polars": pl.DataFrame,
    "pyarrow": lambda X: pa.table(dict(zip("pqr", X.T, strict=True))),
    "CSR": scipy.sparse.csr_array,
    "CSC": scipy.sparse.csc_array,
    "CSR matrix": scipy.sparse.csr_matrix,
    "COO": scipy.sparse.coo_array,
}


@pytest.mark.parametrize("convert", ODD_TABLES.values(), ids=ODD_TABLES)
def test_the_same_numbers_give_the_same_trees_in_any_container(library, convert):
    # No zeros, which XGBoost takes for missing in a sparse matrix.
    expected, found = fit(library, baselines=True), fit(library, X=convert(X), baselines=True)
    assert library.trees(found.common) == library.trees(expected.common)
    for name in expected.tasks:
        assert library.trees(found.booster(name)) == library.trees(expected.booster(name))
        assert found.reports[name].scores == expected.reports[name].scores
    np.testing.assert_array_equal(
        found.predict(convert(X), task=TASK), expected.predict(X, task=TASK)
    )
    np.testing.assert_allclose(
        found.contributions(convert(X), task=TASK).sum(axis=1),
        expected.predict_margin(X, task=TASK),
        atol=1e-5 if library.name == "xgboost" else 1e-14,  # float32 and double sums
    )


MISSING = {
    "numpy": lambda X: X,
    "pandas": pd.DataFrame,
    "nullable numbers": lambda X: pd.DataFrame(X).astype("Float64"),
    "nullable integers": lambda X: pd.DataFrame(X).astype("Int64"),
    "arrow": lambda X: pd.DataFrame(X).astype("int16[pyarrow]"),
    "polars": lambda X: pl.DataFrame(X, nan_to_null=True).cast(pl.Int32),
    "pyarrow": lambda X: pa.table(
        {
            name: pa.array(column, mask=np.isnan(column))
            for name, column in zip("pqr", X.T, strict=True)
        }
    ),
}


def numbers_with_gaps():
    return np.where(RNG.random((N, 3)) < 0.2, np.nan, np.round(X * 4))


NULLABLE_TRUTH = pd.DataFrame(X > 0).astype("boolean").mask(X > 1)


@pytest.mark.parametrize("convert", [*MISSING.values(), None], ids=[*MISSING, "truth values"])
def test_nan_and_null_are_missing_in_any_container(library, convert):
    table = NULLABLE_TRUTH.astype(float).to_numpy() if convert is None else numbers_with_gaps()
    converted = NULLABLE_TRUTH if convert is None else convert(table)
    expected, found = fit(library, X=table), fit(library, X=converted)
    prediction = found.predict(converted, task=TASK)
    np.testing.assert_array_equal(prediction, expected.predict(table, task=TASK))
    assert library.trees(found.common) == library.trees(expected.common)


def test_zeros_of_a_sparse_table_are_values_for_lightgbm_and_missing_for_xgboost():
    dense = np.where(np.abs(X) < 0.5, 0, X)
    for name, meant in (("lightgbm", dense), ("xgboost", np.where(dense == 0, np.nan, dense))):
        library = LIBRARIES[name]
        sparse, expected = fit(library, X=scipy.sparse.csr_array(dense)), fit(library, X=meant)
        np.testing.assert_array_equal(
            sparse.predict(scipy.sparse.csr_array(dense), task=TASK),
            expected.predict(meant, task=TASK),
        )


def test_numbers_of_another_type_are_those_of_float32():
    whole = np.round(X * 4)
    floats, integers = (np.float16, np.float64, np.longdouble), (np.int8, np.int32, np.int64)
    for values, dtypes in ((whole / 2, floats), (whole, integers)):
        expected = trees(fit(X=values.astype(np.float32)).common)
        for dtype in dtypes:
            assert trees(fit(X=values.astype(dtype)).common) == expected


def test_read_only_vectors_and_views_are_left_alone():
    def frozen(values):
        wide = np.repeat(values, 2)
        wide.setflags(write=False)
        return wide[::2]

    weight = RNG.random(N)
    expected = fit(weight=weight, base_margin=Y / 2)
    found = fit(y=frozen(Y), task=frozen(TASK), weight=frozen(weight), base_margin=frozen(Y / 2))
    assert trees(found.common) == trees(expected.common)


HUGE = np.array([2**62, -(2**62), 2**53 + 1])
ODD = {
    "one row": {"X": X[:1], "y": Y[:1], "task": TASK[:1]},
    "one row, no task": {"X": X[:1], "y": Y[:1], "task": None},
    "one row a task": {"X": X[:5], "y": Y[:5], "task": list("abcde")},
    "one task": {"task": None},
    "a task of one row": {"task": np.where(np.arange(N) == 0, 7, TASK)},
    "huge integers": {"X": (X * 2.0**60).astype(np.int64)},
    "largest unsigned": {"X": np.full((N, 2), 2**64 - 1, np.uint64)},
    "huge task names": {"task": HUGE[np.arange(N) % 3]},
    "constant features": {"X": np.ones((N, 2))},
    "all missing": {"X": np.full((N, 2), np.nan)},
    "one column all missing": {"X": np.column_stack([X, np.full(N, np.nan)])},
    "empty CSR": {"X": scipy.sparse.csr_array((N, 3))},
    "constant label": {"y": np.ones(N)},
    "large label": {"y": Y * 1e15},
    "one class": {"y": np.ones(N), "objective": "binary:logistic"},
    "one class of several": {"y": np.zeros(N), "objective": "multi:softprob"},
    "one class in a task": {"y": TASK, "objective": "binary:logistic"},
    "more classes than seen": {
        "y": CLASSES,
        "objective": "multi:softprob",
        "params": {"num_class": 5},
    },
    "a task without weight": {"weight": TASK},
    "weights of many sizes": {"weight": np.exp(8 * RNG.normal(size=N))},
    "nearly no weight": {"weight": np.where(np.arange(N) < 20, 1.0, 0.0)},
    "a task without validation rows": {"eval_set": (X[TASK == 0], Y[TASK == 0], TASK[TASK == 0])},
    "one validation row": {"eval_set": (X[:1], Y[:1], TASK[:1])},
    "no validation rows": {"validation_fraction": 0},
    "metric undefined": {"eval_metric": "auc", "y": np.ones(N), "objective": "binary:logistic"},
    "names for arrays": {"feature_names": list("abc"), "eval_set": (X, Y, TASK)},
    "a mapping with names": {
        "X": {0: X[:90], 1: X[90:, :2]},
        "y": {0: Y[:90], 1: Y[90:]},
        "task": None,
        "feature_names": {0: list("abc"), 1: list("ca")},
        "eval_set": ({1: X[:90, :2]}, {1: Y[:90]}),
    },
    "margins of classes": {
        "y": CLASSES,
        "objective": "multi:softprob",
        "base_margin": RNG.normal(size=(N, 3)),
    },
    "baselines of a task without weight": {"weight": TASK, "baselines": True},
    "specific bins": {"specific_params": {"max_bin": 16}},
}


@pytest.mark.parametrize("as_array", [False, True])
def test_the_table_of_a_mapping_that_lacks_a_column_is_named(as_array):
    tables, y = {"a": FRAME, "b": FRAME}, {"a": Y, "b": Y}
    short = {"a": FRAME, "b": FRAME[["p", "q"]]}
    if as_array:
        tables, short = ({k: t.to_numpy() for k, t in own.items()} for own in (tables, short))
    model = mtboost.fit(tables, y, strategy="two-stage", **SMALL)
    message = "X['b'] has 2 columns" if as_array else "X['b'] lacks column 'r' of the model"
    for call in (
        lambda: model.predict(short),
        lambda: model.evaluate(short, y),
        lambda: model.update(short, y),
        lambda: model.refresh(short, y),
        lambda: model.contributions(short),
        lambda: model.importance(X=short),
    ):
        with pytest.raises(DataError, match=re.escape(message)):
            call()


@pytest.mark.parametrize("changes", ODD.values(), ids=ODD)
def test_odd_input_trains_and_predicts(library, changes):
    model = fit(library, **changes)
    rows = changes.get("X", X)
    task = changes.get("task", TASK)
    options = {} if isinstance(rows, dict) else {"task": task}
    prediction = model.predict(rows, base_margin=changes.get("base_margin"), **options)
    parts = prediction.values() if isinstance(prediction, dict) else [prediction]
    for part in parts:
        assert np.isfinite(part).all()
    assert len(model.report()) == len(model.tasks)


@pytest.mark.parametrize(
    ("mixed", "options"),
    [
        (False, {}),
        (False, {"baselines": True}),
        (False, {"strategy": "auto"}),
        (True, {}),
        (True, {"baselines": True}),
    ],
)
def test_a_task_of_counts_that_are_all_0_does_not_end_the_others(library, mixed, options):
    # LightGBM refuses such labels.
    counts = np.where(TASK == 0, 0, RNG.poisson(np.exp(X[:, 0])))
    names = dict(zip((0, 1), map(library.own, ("count:poisson", "reg:squarederror")), strict=True))
    model = fit(library, y=counts, objective=names if mixed else "count:poisson", **options)
    assert model.predict(X, task=TASK)[TASK == 0].max() < counts[TASK == 1].mean()
    if library.name == "lightgbm" and not options:
        assert model.reports[0].why_no_specific == "all labels are 0"


def test_train_refuses_counts_that_are_all_0():
    data = mtboost.Dataset(X, np.zeros(N), task=TASK)
    params = {"objective": "count:poisson"}
    with pytest.raises(DataError, match="y is 0 in every training row"):
        train(params, data)
    assert np.isfinite(train({**params, "base_score": 1.0}, data).predict(xgboost.DMatrix(X))).all()


def test_bins_beyond_16_bits_are_unsupported(library):
    names = {"xgboost": {"max_bin": 70_000}, "lightgbm": {"max_bin": 70_000, "min_data_in_bin": 1}}
    many = np.arange(70_000.0)
    changes = {"X": many[:, None], "y": many, "task": None, "params": names[library.name]}
    assert_refused(library, changes, UnsupportedError, "has 70000 bins; at most 65535")


def test_a_task_of_fewer_rows_than_a_bag_takes_a_part_of_trains():
    params = {"bagging_fraction": 0.05, "bagging_freq": 1, "min_data_in_leaf": 1}
    changes = {"task": np.where(np.arange(N) < 6, 7, TASK), "params": params}
    model = fit(LIBRARIES["lightgbm"], early_stopping_rounds=None, **changes)
    assert len(model.reports[7].specific_history) == 1 + SMALL["specific_rounds"]


def test_a_task_without_weight_has_no_specific_model(library):
    model = fit(library, weight=TASK, validation_fraction=0.3)
    assert model.specific[0] is None
    assert model.reports[0].why_no_specific == "no row has weight"
    # The common model is that of the rows with weight.
    assert library.n_rounds(model.common) > 0


def squared_error(margins, data):
    return margins - data.get_label(), np.ones_like(margins)


@pytest.mark.parametrize("baselines", [False, True])
def test_a_task_without_a_split_has_no_specific_model_of_a_function(library, baselines):
    # LightGBM needs 2 * 20 rows; XGBoost grows trees without a split.
    task = np.where(np.arange(N) < 9, 2, TASK)
    model = fit(library, task=task, objective=squared_error, baselines=baselines)
    assert np.isfinite(model.predict(X, task=task)).all()
    if library.name == "lightgbm":
        assert model.reports[2].why_no_specific == "no column has a split"


@pytest.mark.parametrize("label", [0, 1])
def test_labels_of_one_class_start_a_millionth_from_certainty(label):
    # Rows without weight are of the other class. The trees move on by a fraction of this millionth.
    y, weight = np.full(N, label), np.ones(N)
    y[:20], weight[:20] = 1 - label, 0
    model = fit(y=y, weight=weight, objective="binary:logistic", validation_fraction=0)
    prediction = model.predict(X, task=TASK)
    np.testing.assert_allclose(prediction, abs(label - 1e-6), rtol=0, atol=5e-7)


def test_a_constant_label_is_predicted_as_it_is(library):
    model = fit(library, y=np.full(N, 3.5))
    np.testing.assert_array_equal(model.predict(X, task=TASK), np.float32(3.5))


@pytest.mark.parametrize("found", ["3.0.5", "3.1.3"])
def test_versions_without_a_split_gradient_are_refused(monkeypatch, found):
    monkeypatch.setattr(xgboost, "__version__", found)
    with pytest.raises(UnsupportedError, match=rf"XGBoost 3.2, found {found}.*pip install"):
        mtboost.xgboost.ProjectedObjective()


def test_values_of_an_objective_are_refused_as_values():
    with pytest.raises(ParameterError, match="huber_slope must be positive"):
        fit(objective="reg:pseudohubererror", params={"huber_slope": 0})


def test_an_objective_of_the_user_returns_a_pair():
    with pytest.raises(TypeError, match="must return gradient, hessian"):
        fit(LIBRARIES["lightgbm"], objective=lambda margins, data: 3)


def test_bounds_of_times_have_two_columns():
    with pytest.raises(DataError, match=r"\(200,\) or \(200, 2\)"):
        fit(y=np.ones((N, 3)), objective="survival:aft")
