# SPDX-License-Identifier: Apache-2.0
"""feature_prior: problems of every kind become one share a feature."""

import lightgbm
import numpy as np
import pandas as pd
import polars
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor

import mtboost
from mtboost import feature_prior
from mtboost.datasets import make_shared_linear
from mtboost.errors import DataError, ParameterError, UnsupportedError

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

_rng = np.random.default_rng(0)
X = _rng.normal(size=(120, 4)).astype(np.float32)
Y = X[:, 2] + 2 * X[:, 3]
NAMES = list("abcd")
TABLE = pd.DataFrame(X, columns=NAMES)
STOCK = {"max_depth": 3, "learning_rate": 0.1}


# ---- the mean ----


def test_each_problem_counts_the_same_whatever_its_scale():
    found = feature_prior([[3.0, 1.0], [0.0, 200.0]])
    np.testing.assert_allclose(found, [(3 / 4 + 0) / 2, (1 / 4 + 1) / 2], rtol=1e-15)


def test_names_stand_in_the_order_in_which_they_first_appear():
    found = feature_prior([{"b": 1, "a": 1}, {"c": 3, "a": 1}])
    assert found == {"b": 1 / 4, "a": 1 / 4 + 1 / 8, "c": 3 / 8}
    assert list(found) == ["b", "a", "c"]


def test_a_problem_that_finds_nothing_says_nothing():
    np.testing.assert_array_equal(feature_prior([[1, 3], [0, 0]]), [1 / 4, 3 / 4])
    assert feature_prior([{"a": 0, "b": 0}, {"c": 2}]) == {"a": 0, "b": 0, "c": 1}


def test_one_problem_is_left_out_by_name_or_position():
    by_name = {"x": [1, 0], "y": [0, 1], "z": [1, 1]}
    np.testing.assert_array_equal(feature_prior(by_name, leave_out="x"), [1 / 4, 3 / 4])
    np.testing.assert_array_equal(
        feature_prior(list(by_name.values()), leave_out=0), [1 / 4, 3 / 4]
    )


@pytest.mark.parametrize("leave_out", [3, -1, "y"])
def test_a_problem_to_leave_out_that_is_not_there_is_refused(leave_out):
    with pytest.raises(ParameterError, match=f"leave_out={leave_out!r} is none of the problems"):
        feature_prior([[1, 0], [0, 1], [1, 1]], leave_out=leave_out)


def test_a_series_has_names_if_its_index_has():
    assert feature_prior([pd.Series([1, 3], index=["a", "b"])]) == {"a": 1 / 4, "b": 3 / 4}
    np.testing.assert_array_equal(feature_prior([pd.Series([1, 3])]), [1 / 4, 3 / 4])


# ---- models ----


def stock_gains(X, y, **params):
    booster = xgboost.train({**STOCK, **params}, xgboost.QuantileDMatrix(X, y), 200)
    found = booster.get_score(importance_type="total_gain")
    names = booster.feature_names or [f"f{feature}" for feature in range(X.shape[1])]
    gains = np.array([found.get(name, 0.0) for name in names])
    return gains / gains.sum()


def test_a_pair_is_stock_xgboost_of_200_rounds():
    # XGBoost adds gains of 200 trees in float32.
    np.testing.assert_allclose(feature_prior([(X, Y)]), stock_gains(X, Y), rtol=1e-4)


@pytest.mark.parametrize(
    ("y", "labels", "params"),
    [
        (np.where(Y > 0, "up", "down"), "auto", {"objective": "binary:logistic"}),
        (Y > 0, "auto", {"objective": "binary:logistic"}),
        (
            pd.Series(np.digitize(Y, [-1, 1]), dtype="category"),
            "auto",
            {"objective": "multi:softprob", "num_class": 3},
        ),
        (
            np.digitize(Y, [-1, 1]) * 7 - 2,
            "classes",
            {"objective": "multi:softprob", "num_class": 3},
        ),
        (np.digitize(Y, [-1, 1]), "auto", {}),
        (Y > 0, "numbers", {}),
        (Y.reshape(-1, 1), "auto", {}),
    ],
    ids=["strings", "booleans", "categories", "codes", "integers", "0 and 1", "column"],
)
def test_labels_are_classes_or_numbers(y, labels, params):
    if "objective" in params:
        numbers = np.unique(np.asarray(y), return_inverse=True)[1]
    else:
        numbers = np.asarray(y, float).reshape(-1)
    expected = stock_gains(X, numbers, **params)
    np.testing.assert_allclose(feature_prior([(X, y)], labels=labels), expected, rtol=1e-4)


def test_tables_of_all_libraries_have_names():
    expected = dict(zip(NAMES, feature_prior([(X, Y)]).tolist(), strict=True))
    assert feature_prior([(TABLE, Y)]) == expected
    assert feature_prior([(polars.from_pandas(TABLE), Y)]) == expected


def test_models_of_all_libraries_can_stand_side_by_side():
    forest = RandomForestRegressor(n_estimators=5, random_state=0).fit(TABLE, Y)
    booster = lightgbm.train({"verbosity": -1, "num_threads": 1}, lightgbm.Dataset(TABLE, Y), 5)
    estimator = xgboost.XGBRegressor(n_estimators=5).fit(TABLE, Y)
    found = feature_prior([forest, booster, estimator, (TABLE, Y), {"a": 1.0}])
    gains = booster.feature_importance("gain")
    parts = [
        forest.feature_importances_,
        gains / gains.sum(),
        feature_prior([estimator.get_booster().get_score(importance_type="total_gain")]),
        feature_prior([(X, Y)]),
        [1, 0, 0, 0],
    ]
    parts[2] = [parts[2].get(name, 0.0) for name in NAMES]
    # XGBoost adds total gains in float32.
    np.testing.assert_allclose(list(found.values()), np.mean(parts, axis=0), rtol=1e-5, atol=1e-12)
    assert list(found) == NAMES


def test_a_model_of_mtboost_has_importances_by_name():
    task = np.arange(120) % 2
    model = mtboost.fit(
        TABLE, Y, task=task, num_boost_round=5, specific_rounds=3, strategy="two-stage"
    )
    found = feature_prior([model.importance(name, "total_gain") for name in model.tasks])
    assert set(found) <= set(NAMES)
    assert max(found, key=found.get) == "d"


@pytest.mark.parametrize("own_type", ["gain", "impurity"])
@pytest.mark.parametrize("importance_type", ["gain", "impurity"])
def test_prior_sampling_has_the_importances_of_its_booster(own_type, importance_type):
    model = mtboost.PriorSamplingRegressor(20, importance_type=own_type, random_state=0)
    model.fit(TABLE, Y)
    found = feature_prior([model], importance_type=importance_type)
    of_booster = feature_prior([model.booster()], importance_type=importance_type)
    assert found == pytest.approx(of_booster, rel=1e-4)
    if own_type == importance_type:
        assert list(found.values()) == pytest.approx(model.feature_importances_)


def test_impurity_counts_splits_of_few_rows_as_much_as_others():
    estimator = RandomForestRegressor(n_estimators=5, random_state=0).fit(X, Y)
    gain, impurity = (feature_prior([estimator], importance_type=t) for t in ("gain", "impurity"))
    assert impurity[:2].sum() > 2 * gain[:2].sum()  # noise is cut in small nodes


def test_shared_features_are_found_that_no_single_problem_shows():
    problems = make_shared_linear(10, 60, seed=1).problems
    prior = feature_prior(problems, leave_out=0)
    assert set(np.argsort(prior)[-4:]) == {0, 1, 2, 3}
    assert prior[:4].sum() > 0.8


@pytest.mark.parametrize("n_rows", [100, 2000])  # of which the core trains the larger
def test_the_number_of_threads_changes_nothing(n_rows):
    X = np.random.default_rng(1).normal(size=(n_rows, 60))
    pair = (X, X[:, 0] > X[:, 1])
    one, three = (feature_prior([pair], n_threads=n_threads) for n_threads in (1, 3))
    np.testing.assert_array_equal(one, three)


# ---- series ----


def bumps(n_rows, length, seed):
    """Series of which one point, a third on, decides the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    place = np.exp(-(((np.linspace(0, 1, length) - 1 / 3) / 0.05) ** 2))
    return 0.3 * rng.normal(size=(n_rows, length)) + np.outer(y, place), y


def test_series_are_resampled_linearly_before_a_model_is_fitted():
    short, long = bumps(60, 31, 3), bumps(60, 121, 4)
    prior = feature_prior([short, long], labels="classes", series_length=61)
    # From 31 points to 61: the old ones and the means of neighbours; from 121: every second one.
    between = np.empty((60, 61))
    between[:, ::2], between[:, 1::2] = short[0], (short[0][:, 1:] + short[0][:, :-1]) / 2
    resampled = [(between, short[1]), (long[0][:, ::2], long[1])]
    # The two ways of interpolating round differently.
    np.testing.assert_allclose(prior, feature_prior(resampled, labels="classes"), atol=1e-6)
    assert abs(int(prior.argmax()) - 20) <= 2


def test_importances_of_series_are_resampled():
    found = feature_prior([[0, 2, 0], [1, 1, 1, 1, 1]], series_length=5)
    np.testing.assert_allclose(found, [0.1, 0.225, 0.35, 0.225, 0.1], rtol=1e-15)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("problems", "error", "message"),
    [
        ([], DataError, "no other problem"),
        ([[0, 0]], DataError, "No problem finds any feature important"),
        ([[1, 2], {"a": 1}], DataError, r"problems\[1\] has names.*problems\[0\] has none"),
        ([[1, 2], [1, 2, 3]], DataError, r"problems\[0\] has 2 features, problems\[1\] has 3"),
        ([[1, -2]], DataError, r"problems\[0\]\[1\] is -2"),
        ({"x": {"a": np.nan}}, DataError, r"problems\['x'\]\['a'\] is nan"),
        ([[[1, 2]]], DataError, r"has shape \(1, 2\)"),
        ([["a"]], DataError, "must hold numbers"),
        ([{1: 2.0}], DataError, "must be named by str"),
        ([pd.Series([1, 2], index=["a", "a"])], DataError, "a name twice"),
        ({"a": 1.0}, TypeError, r"problems\['a'\] is a builtins.float"),
        ([(X, Y, Y)], TypeError, r"problems\[0\] is a builtins.tuple: give a pair"),
        ("ab", TypeError, "problems is a str"),
        (X, TypeError, "problems is a ndarray"),
        ([(X, Y[:-1])], DataError, r"y of problems\[0\]"),
        ([(X, np.full(120, np.nan))], DataError, r"y of problems\[0\]"),
        ([(X, ["same"] * 120)], DataError, "one class only"),
        ([(X, [["a", "b"]] * 120)], DataError, "one a row"),
        ([(X[:, 0], Y)], DataError, r"X of problems\[0\] has shape \(120,\)"),
        ([(X, np.array(["a", None] * 60, object))], DataError, "holds no classes"),
    ],
)
def test_problems_that_do_not_fit_are_refused(problems, error, message):
    with pytest.raises(error, match=message):
        feature_prior(problems)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"importance_type": "weight"}, ParameterError, "must be 'gain' or 'impurity'"),
        ({"labels": "auto "}, ParameterError, "must be 'auto', 'classes' or 'numbers'"),
        ({"series_length": 0}, ParameterError, "series_length must be an integer"),
    ],
)
def test_unknown_values_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        feature_prior([(X, Y)], **options)


def test_series_are_arrays_without_names():
    with pytest.raises(DataError, match="comes from pandas: series_length needs series as rows"):
        feature_prior([(TABLE, Y)], series_length=9)
    with pytest.raises(DataError, match="has names, by which"):
        feature_prior([{"a": 1.0}], series_length=9)


def test_a_model_without_importances_is_refused_by_its_place():
    booster = xgboost.train({"booster": "gblinear", "verbosity": 0}, xgboost.DMatrix(X, Y), 2)
    with pytest.raises(UnsupportedError, match=r"problems\['linear'\] is linear"):
        feature_prior({"linear": booster})


@pytest.mark.parametrize("make", [mtboost.MTDecisionTreeClassifier, mtboost.MTAdaBoostClassifier])
def test_trees_of_several_tasks_have_no_impurity(make):
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(UnsupportedError, match=r"problems\[0\] is a .* do not store the impurity"):
        feature_prior([make().fit(X, X[:, 0] > 0)], importance_type="impurity")
