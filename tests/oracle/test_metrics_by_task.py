# SPDX-License-Identifier: Apache-2.0
"""Metrics of all tasks in one pass equal those of scikit-learn and XGBoost, task by task."""

import math
import re

import lightgbm
import numpy as np
import pytest
import sklearn.metrics
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from mtboost.errors import DataError, ParameterError
from mtboost.metrics import Metric, default_metric, evaluate_by_task, get_metric

N_TASKS = 4  # the last one has no rows

# At most 60 terms, each rounded to 1e-16, added in another order than scikit-learn adds them.
EXACT = {"rtol": 1e-13, "atol": 1e-13}
# XGBoost computes each row in float32 (relative error 6e-8) and the few operations of a formula add
# up.
FLOAT32 = {"rtol": 2e-6, "atol": 2e-6}


@st.composite
def scored_rows(draw):
    """Labels 0/1, predictions with many ties, task codes, and weights or None."""
    n_rows = draw(st.integers(1, 60))
    seed = draw(st.integers(0, 2**32 - 1))
    n_values = draw(st.sampled_from([2, 5, 1000]))
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < draw(st.sampled_from([0.1, 0.5, 0.9]))).astype(float)
    prediction = (rng.integers(0, n_values, n_rows) + 0.5) / n_values
    codes = rng.integers(0, N_TASKS - 1, n_rows).astype(np.int32)
    # Small integers: some are zero, and sums over them are exact.
    weight = rng.integers(0, 4, n_rows).astype(float) if draw(st.booleans()) else None
    return y, prediction, codes, weight


def each_task(function, y, prediction, codes, weight, needs_two_classes=False):
    values = np.full(N_TASKS, np.nan)
    for task in range(N_TASKS):
        counts = codes == task if weight is None else (codes == task) & (weight > 0)
        if counts.any() and not (needs_two_classes and np.ptp(y[counts]) == 0):
            own_weight = None if weight is None else weight[counts]
            values[task] = function(y[counts], prediction[counts], sample_weight=own_weight)
    return values


def log_loss(y_true, y_pred, sample_weight):
    return sklearn.metrics.log_loss(y_true, y_pred, sample_weight=sample_weight, labels=[0, 1])


def zero_one_loss(y_true, y_pred, sample_weight):
    return sklearn.metrics.zero_one_loss(y_true, y_pred > 0.5, sample_weight=sample_weight)


def average_precision(y, prediction, sample_weight):
    """0 by scikit-learn, with a warning, where there are no positives: undefined."""
    if not np.any(y if sample_weight is None else y * sample_weight):
        return np.nan
    return sklearn.metrics.average_precision_score(y, prediction, sample_weight=sample_weight)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("rmse", sklearn.metrics.root_mean_squared_error),
        ("mae", sklearn.metrics.mean_absolute_error),
        ("logloss", log_loss),
        ("error", zero_one_loss),
        ("auc", sklearn.metrics.roc_auc_score),
        ("average_precision", average_precision),
    ],
)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows=scored_rows())
def test_each_task_has_the_value_of_scikit_learn(name, function, rows):
    expected = each_task(function, *rows, needs_two_classes=name == "auc")
    y, prediction, codes, weight = rows
    found = evaluate_by_task(name, y, prediction, codes, N_TASKS, weight)
    np.testing.assert_allclose(found, expected, **EXACT)


@pytest.mark.parametrize(
    ("name", "function"),
    [("merror", sklearn.metrics.zero_one_loss), ("mlogloss", sklearn.metrics.log_loss)],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_each_task_has_the_multiclass_value_of_scikit_learn(name, function, weighted):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    prediction = rng.dirichlet(np.ones(3), 90)
    codes = rng.integers(0, N_TASKS - 1, 90)
    weight = rng.random(90) if weighted else None

    def of_scikit_learn(y_true, y_pred, sample_weight):
        if name == "merror":
            return function(y_true, y_pred.argmax(axis=1), sample_weight=sample_weight)
        return function(y_true, y_pred, sample_weight=sample_weight, labels=[0, 1, 2])

    expected = each_task(of_scikit_learn, y, prediction, codes, weight)
    found = evaluate_by_task(name, y, prediction, codes, N_TASKS, weight)
    np.testing.assert_allclose(found, expected, **EXACT)


def xgboost_value(metric, y, prediction, weight):
    """The value XGBoost prints for given predictions: a model without trees, started from them."""
    params = {"eval_metric": metric, "base_score": 0.0, "nthread": 1}
    margin = prediction
    if prediction.ndim == 2:
        params |= {"objective": "multi:softprob", "num_class": prediction.shape[1]}
        margin = np.log(prediction)
    data = xgboost.DMatrix(np.zeros((len(y), 1)), y, weight=weight, base_margin=margin)
    booster = xgboost.train(params, xgboost.DMatrix(np.zeros((1, 1)), [0]), num_boost_round=0)
    return float(re.fullmatch(r".*:(\S+)", booster.eval(data))[1])


MULTICLASS = ("merror", "mlogloss")
POSITIVE = ("poisson-nloglik", "gamma-deviance", "tweedie-nloglik@1.3", "tweedie-nloglik@1.5")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "rmse",
        "rmsle",
        "mae",
        "mphe",
        "logloss",
        "error",
        "error@0.3",
        "auc",
        "aucpr",
        *POSITIVE,
        *MULTICLASS,
    ],
)
def test_each_task_has_the_value_of_xgboost(name, weighted):
    rng = np.random.default_rng(1)
    n_rows = 200
    codes = rng.integers(0, N_TASKS - 1, n_rows)
    weight = rng.random(n_rows).astype(np.float32) if weighted else None
    if name in POSITIVE:
        y = rng.poisson(2.0, n_rows) + (name == "gamma-deviance")
        prediction = rng.gamma(2.0, size=n_rows).astype(np.float32)
    elif name in MULTICLASS:
        y = rng.integers(0, 3, n_rows)
        prediction = rng.dirichlet(np.ones(3), n_rows).astype(np.float32)
    else:
        y = rng.integers(0, 2, n_rows)
        prediction = (rng.integers(0, 41, n_rows) / 40).astype(np.float32)  # ties, and 0 and 1
    expected = [
        xgboost_value(name, y[own], prediction[own], None if weight is None else weight[own])
        for own in (codes == task for task in range(N_TASKS - 1))
    ]
    found = evaluate_by_task(name, y, prediction, codes, N_TASKS, weight)
    np.testing.assert_allclose(found, [*expected, np.nan], **FLOAT32)


@pytest.mark.parametrize("name", ["rmse", "logloss", "error", "auc"])
def test_labels_between_the_classes_count_as_in_xgboost(name):
    rng = np.random.default_rng(2)
    y, prediction = rng.random((2, 50)).astype(np.float32)
    found = evaluate_by_task(name, y, prediction, np.zeros(50, int), 1)
    np.testing.assert_allclose(found, xgboost_value(name, y, prediction, None), **FLOAT32)


@pytest.mark.parametrize(("y", "prediction"), [(0.0, 1.0), (1.0, 0.0), (1.0, 1e-30)])
def test_logloss_of_a_certain_mistake_is_bounded_as_in_xgboost(y, prediction):
    (found,) = evaluate_by_task("logloss", [y], [prediction], np.zeros(1, int), 1)
    assert found == pytest.approx(-math.log(1e-16), rel=1e-12)
    expected = xgboost_value("logloss", np.array([y]), np.array([prediction]), None)
    assert found == pytest.approx(expected, rel=1e-6)


def test_aucpr_is_the_area_between_interpolated_counts():
    # Predictions fall from a positive through a negative to a positive: recall 1/2 at precision 1,
    # then t positives at precision t / (t + 1) for t from 1 to 2.
    found = evaluate_by_task("aucpr", [1, 0, 1], [0.9, 0.5, 0.1], np.zeros(3, int), 1)
    expected = 1 / 2 + (1 - math.log(3 / 2)) / 2
    np.testing.assert_allclose(found, [expected], rtol=1e-14)


@pytest.mark.parametrize(
    ("prediction", "expected"), [([0.1, 0.2, 0.8, 0.9], 1.0), ([0.5, 0.5, 0.5, 0.5], 0.5)]
)
def test_aucpr_is_the_average_precision_where_there_is_nothing_to_interpolate(prediction, expected):
    y = [0, 0, 1, 1]
    assert sklearn.metrics.average_precision_score(y, prediction) == expected
    found = evaluate_by_task("aucpr", y, prediction, np.zeros(4, int), 1)
    np.testing.assert_allclose(found, [expected], rtol=1e-14)


@pytest.mark.parametrize("name", ["auc", "aucpr"])
def test_ranking_metrics_are_undefined_for_one_class(name):
    codes = np.array([0, 0, 1, 1, 2, 2])
    y = [0, 0, 1, 1, 0, 1]
    found = evaluate_by_task(name, y, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], codes, 3)
    np.testing.assert_array_equal(found, [np.nan, np.nan, 1.0])


@pytest.mark.parametrize("name", ["auc", "aucpr"])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_is_undefined_although_running_sums_are_rounded(name, label):
    rng = np.random.default_rng(5)
    codes = np.repeat(np.arange(50), 20)
    y = np.where(codes % 2 == 0, np.arange(1000) % 2, label)
    found = evaluate_by_task(name, y, rng.random(1000), codes, 50, rng.random(1000))
    np.testing.assert_array_equal(np.isnan(found), np.arange(50) % 2 == 1)


@pytest.mark.parametrize("name", ["auc", "aucpr", "rmse", "logloss"])
def test_a_task_has_the_value_it_would_have_alone_whatever_the_weights(name):
    rng = np.random.default_rng(3)
    y, prediction = rng.integers(0, 2, 1000), rng.random(1000)
    codes = rng.integers(0, 10, 1000)
    weight = 10.0 ** rng.uniform(-9, 9, 1000)
    found = evaluate_by_task(name, y, prediction, codes, 10, weight)
    for task in range(10):
        own = codes == task
        one_task = np.zeros(own.sum(), int)
        alone = evaluate_by_task(name, y[own], prediction[own], one_task, 1, weight[own])
        assert found[task] == alone[0]  # the same operations in the same order


@pytest.mark.parametrize("name", ["rmse", "error", "auc", "aucpr"])
def test_a_nan_prediction_or_no_weight_makes_its_task_alone_undefined(name):
    y = np.tile([0.0, 1.0], 3)
    prediction = np.tile([0.2, 0.8], 3)
    prediction[0] = np.nan
    codes = np.repeat([0, 1, 2], 2)
    weight = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    found = evaluate_by_task(name, y, prediction, codes, 3, weight)
    np.testing.assert_array_equal(np.isnan(found), [True, True, False])


@pytest.mark.parametrize("name", ["rmse", "auc", "aucpr"])
def test_no_rows_at_all_leave_every_task_undefined(name):
    found = evaluate_by_task(name, [], [], np.zeros(0, np.int32), 3)
    np.testing.assert_array_equal(found, np.full(3, np.nan))


def test_a_function_sees_the_rows_and_weights_of_one_task_at_a_time():
    calls = []

    def function(y_true, y_pred, sample_weight):
        calls.append((y_true.tolist(), y_pred.tolist(), sample_weight.tolist()))
        return sum(sample_weight)

    metric = Metric("mine", function, greater_is_better=True)
    codes = np.array([2, 0, 2])
    found = evaluate_by_task(metric, [1, 2, 3], [4, 5, 6], codes, 3, [7, 8, 9])
    assert calls == [([2], [5], [8]), ([1, 3], [4, 6], [7, 9])]
    np.testing.assert_array_equal(found, [8, np.nan, 16])


def test_a_failing_function_is_told_with_its_task():
    def function(y_true, y_pred, sample_weight):
        raise ValueError("one class")

    with pytest.raises(ValueError, match="one class") as caught:
        evaluate_by_task(Metric("mine", function, True), [1], [1], np.array([1]), 2)
    assert "'mine' failed on task number 1, which has 1 rows" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "objective",
    [
        "reg:squarederror",
        "reg:squaredlogerror",
        "reg:absoluteerror",
        "reg:pseudohubererror",
        "reg:logistic",
        "reg:gamma",
        "reg:tweedie",
        "binary:logistic",
        "binary:hinge",
        "count:poisson",
        "multi:softprob",
        "survival:cox",
    ],
)
def test_default_metric_has_the_name_and_value_xgboost_reports(objective):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 2, 60) + (objective == "reg:gamma")
    params = {"objective": objective, "nthread": 1} | {
        "reg:tweedie": {"tweedie_variance_power": 1.7},
        "reg:pseudohubererror": {"huber_slope": 0.3},
        "multi:softprob": {"num_class": 2},
    }.get(objective, {})
    data = xgboost.DMatrix(X, y)
    log = {}
    booster = xgboost.train(
        params, data, 3, evals=[(data, "train")], evals_result=log, verbose_eval=False
    )
    metric = default_metric(objective, tweedie_variance_power=1.7, huber_slope=0.3)
    ((name, values),) = log["train"].items()
    assert metric.name == name + ("@0.3" if name == "mphe" else "")
    (found,) = evaluate_by_task(metric, y, booster.predict(data), np.zeros(60, int), 1)
    assert found == pytest.approx(values[-1], rel=2e-6)  # rows in float32, as above


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"objective": "huber", "alpha": 0.4}, "huber@0.4"),
        ({"objective": "fair", "fair_c": 0.3}, "fair@0.3"),
        ({"objective": "mape"}, "mape@1"),
    ],
)
def test_losses_of_the_error_are_those_of_lightgbm(params, name, is_weighted):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(200, 3))
    y = 3 * X[:, 0] + rng.normal(size=200)
    weight = rng.uniform(size=200) if is_weighted else None
    data = lightgbm.Dataset(X, y.astype(np.float32), weight=weight, free_raw_data=False)
    log = {}
    booster = lightgbm.train(
        {**params, "num_threads": 1, "verbosity": -1},
        data,
        3,
        valid_sets=[data],
        callbacks=[lightgbm.record_evaluation(log)],
    )
    metric = default_metric(
        params["objective"], huber_slope=params.get("alpha", 9.0), fair_c=params.get("fair_c", 9.0)
    )
    assert metric.name == get_metric(name).name == name
    ((values,),) = (values.values() for values in log.values())
    labels = y.astype(np.float32).astype(np.float64)
    weight = None if weight is None else weight.astype(np.float32)
    (found,) = evaluate_by_task(name, labels, booster.predict(X), np.zeros(200, int), 1, weight)
    assert found == pytest.approx(values[-1], rel=1e-6)


@pytest.mark.parametrize("levels", [[0.9], [0.1, 0.5, 0.9]])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_pinball_loss_is_that_of_scikit_learn_and_of_xgboost(levels, is_weighted):
    rng = np.random.default_rng(6)
    X, codes = rng.normal(size=(90, 3)), np.arange(90) % 2
    y = X[:, 0] + rng.normal(size=90)
    weight = rng.uniform(size=90) if is_weighted else None
    data = xgboost.DMatrix(X, y, weight=weight)
    log = {}
    params = {"objective": "reg:quantileerror", "quantile_alpha": levels, "nthread": 1}
    booster = xgboost.train(
        params, data, 3, evals=[(data, "train")], evals_result=log, verbose_eval=False
    )
    prediction = booster.predict(data)
    metric = default_metric("reg:quantileerror", quantile_alpha=levels)
    assert metric.name == "quantile@" + ",".join(map(str, levels))
    found = evaluate_by_task(metric, y, prediction, codes, 2, weight)
    for code in (0, 1):
        own = codes == code
        losses = [
            sklearn.metrics.mean_pinball_loss(
                y[own],
                prediction.reshape(90, -1)[own, column],
                alpha=level,
                sample_weight=None if weight is None else weight[own],
            )
            for column, level in enumerate(levels)
        ]
        assert found[code] == pytest.approx(np.mean(losses), rel=1e-12)
    (of_all,) = evaluate_by_task(metric, y, prediction, np.zeros(90, int), 1, weight)
    assert of_all == pytest.approx(log["train"]["quantile"][-1], rel=2e-6)  # as above


def test_several_levels_need_a_column_for_each():
    with pytest.raises(DataError, match=r"needs predictions of shape \(n_rows, 2\)"):
        evaluate_by_task("quantile@0.1,0.9", [1.0], [[1.0, 2.0, 3.0]], np.array([0]), 1)


@pytest.mark.parametrize("objective", ["binary:logitraw", "multi:softmax"])
def test_default_metric_has_xgboosts_name_where_predictions_are_no_probabilities(objective):
    # Values are not compared: XGBoost takes the margins of logitraw for probabilities, and its
    # softmax predicts classes.
    data = xgboost.DMatrix(np.arange(4.0)[:, None], [0, 1, 0, 1])
    log = {}
    params = {"objective": objective, "nthread": 1}
    if objective == "multi:softmax":
        params["num_class"] = 2
    xgboost.train(params, data, 1, evals=[(data, "train")], evals_result=log, verbose_eval=False)
    assert [default_metric(objective).name] == list(log["train"])


def test_direction_is_known_for_every_name():
    names = ["rmse", "rmsle", "mae", "mphe", "logloss", "error", "error@0.2", "auc", "aucpr"]
    names += [
        "quantile@0.1,0.9",
        "merror",
        "mlogloss",
        "poisson-nloglik",
        "gamma-deviance",
        "tweedie-nloglik@1.5",
        "huber@0.9",
        "fair@1",
        "mape@1",
        "cox-nloglik",
        "aft-nloglik",
        "concordance",
    ]
    greater = {name for name in names if get_metric(name).greater_is_better}
    assert greater == {"auc", "aucpr", "concordance"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rmsee", "metric 'rmsee' is unknown. Did you mean 'rmse'\\?"),
        ("binary_logloss", "It is 'logloss' here"),
        ("MultiClass", "It is 'mlogloss' here"),
        ("l1", "It is 'mae' here"),
        ("AUC", "It is 'auc' here"),
        ("mean_squared_error", "Choose 'rmse', its square root"),
        ("gini", "Choose 'auc': gini is 2 auc - 1"),
        ("error@half", "'error@half' needs a number"),
        ("tweedie-nloglik", "'tweedie-nloglik' needs a number between 1 and 2"),
        ("tweedie-nloglik@2", "found '2'"),
        ("quantile", "'quantile' needs a number between 0 and 1"),
        ("quantile@0.1,1.5", "found '1.5'"),
    ],
)
def test_a_wrong_name_is_refused(name, message):
    with pytest.raises(ParameterError, match=message):
        get_metric(name)


def test_a_bare_function_is_refused_for_it_has_no_direction():
    with pytest.raises(TypeError, match="greater_is_better"):
        get_metric(sklearn.metrics.r2_score)


def test_a_function_of_two_arguments_is_a_metric_of_rows_without_weights():
    metric = Metric("mine", lambda y, prediction: float(np.max(prediction - y)), False)
    found = evaluate_by_task(metric, [1, 2, 3], [1, 3, 7], np.array([0, 0, 1]), 2)
    assert found.tolist() == [1.0, 4.0]
    with pytest.raises(ParameterError, match="'mine' is a function without an argument sample_w"):
        evaluate_by_task(metric, [1], [1], np.array([0]), 1, [2.0])


@pytest.mark.parametrize("weight", [None, [2.0, 1.0]])
def test_any_keywords_are_handed_the_weights(weight):
    seen = []
    metric = Metric("mine", lambda y, prediction, **options: seen.append(options) or 0.0, False)
    evaluate_by_task(metric, [1, 2], [1, 3], np.array([0, 0]), 1, weight)
    ((name, handed),) = seen[0].items()
    assert name == "sample_weight"
    assert (handed is None) == (weight is None)


def test_an_unsupported_objective_has_no_default_metric():
    with pytest.raises(ParameterError, match="Did you mean 'binary:logistic'"):
        default_metric("binary:logistics")


def test_predictions_of_the_wrong_shape_are_refused():
    with pytest.raises(
        DataError, match=r"mlogloss needs predictions of shape \(n_rows, n_classes\)"
    ):
        evaluate_by_task("mlogloss", [0, 1], [0.5, 0.5], np.zeros(2, int), 1)
    with pytest.raises(DataError, match=r"auc needs predictions of shape \(n_rows,\)"):
        evaluate_by_task("auc", [0, 1], [[0.5], [0.5]], np.zeros(2, int), 1)
