# SPDX-License-Identifier: Apache-2.0
"""PriorFeatureSampling in XGBoost's own loops: what it leaves behind, and what it refuses.

The distribution of the draws is the subject of tests/property/test_prior_sampling.py.
"""

import copy
import pickle

import numpy as np
import pytest
import xgboost
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import mtboost
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.trees.feature_weights import n_sampled, sampled_fraction
from mtboost.xgboost import PriorFeatureSampling, ProjectedObjective, TaskSplit
from mtboost.xgboost.callbacks import InOrder
from mtboost.xgboost.library import version

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

_rng = np.random.default_rng(0)
N_FEATURES = 9
X = _rng.normal(size=(200, N_FEATURES)).astype(np.float32)
Y = X[:, 0] + X[:, 1]
NAMES = [f"column {feature}" for feature in range(N_FEATURES)]
ONE = np.eye(N_FEATURES)[1]  # all importance in column 1
PARAMS = {"colsample_bynode": 1.5 / N_FEATURES, "max_depth": 2}


def train(sampling, matrix=None, *, params=PARAMS, n_rounds=5, callbacks=(), **options):
    matrix = xgboost.DMatrix(X, Y) if matrix is None else matrix
    return xgboost.train(params, matrix, n_rounds, callbacks=[*callbacks, sampling], **options)


class Watch(xgboost.callback.TrainingCallback):
    """What a callback sees after each round."""

    def __init__(self, look):
        super().__init__()
        self.look = look

    def after_iteration(self, model, epoch, evals_log):
        return bool(self.look(model))


# ---- the booster and the matrix afterwards ----


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("matrix_class", [xgboost.DMatrix, xgboost.QuantileDMatrix])
@pytest.mark.parametrize("own", [None, np.arange(N_FEATURES) + 0.5])
def test_the_matrix_keeps_its_own_weights(matrix_class, own, dynamic):
    matrix = matrix_class(X, Y, feature_weights=own)
    booster = train(PriorFeatureSampling(ONE, dynamic=dynamic), matrix)
    expected = np.empty(0) if own is None else own
    np.testing.assert_array_equal(matrix.get_float_info("feature_weights"), expected)
    assert type(booster) is xgboost.Booster
    assert set(vars(booster)) == set(vars(train(Watch(bool), params={})))


def test_the_matrix_keeps_its_own_weights_when_training_fails():
    matrix = xgboost.DMatrix(X, Y, feature_weights=np.ones(N_FEATURES))

    def objective(margins, dtrain):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(PriorFeatureSampling(ONE), matrix, obj=objective)
    np.testing.assert_array_equal(matrix.get_float_info("feature_weights"), np.ones(N_FEATURES))


def test_copies_of_the_booster_in_training_are_genuine():
    def look(model):
        copies = [copy.copy(model), copy.deepcopy(model), model.copy(), model[:1]]
        for found in [*copies, pickle.loads(pickle.dumps(model))]:
            assert type(found) is xgboost.Booster
            assert not hasattr(found, "sampling")
            found.predict(xgboost.DMatrix(X))

    split = TaskSplit(np.arange(200) % 2)
    for before in ([], [split]):
        train(InOrder([*before, PriorFeatureSampling(ONE), Watch(look)]))


def test_early_stopping_and_metrics_are_as_ever():
    matrix = xgboost.DMatrix(X, Y)
    history = {}
    booster = train(
        PriorFeatureSampling(ONE),
        matrix,
        n_rounds=200,
        evals=[(matrix, "train"), (xgboost.DMatrix(X, _rng.permutation(Y)), "noise")],
        early_stopping_rounds=3,
        evals_result=history,
        verbose_eval=False,
    )
    n_rounds = len(history["noise"]["rmse"])
    assert booster.best_iteration == n_rounds - 4 < 100
    assert booster.num_boosted_rounds() == n_rounds


def test_one_callback_serves_several_trainings():
    sampling = PriorFeatureSampling(np.arange(N_FEATURES), dynamic=True)
    first, second = (bytes(train(sampling).save_raw()) for _ in range(2))
    assert first == second


def test_a_prior_is_as_good_as_weights_of_the_matrix():
    sampling = PriorFeatureSampling(np.arange(N_FEATURES), floor=0.2)
    weights = sampling.weights(xgboost.DMatrix(X))
    expected = (0.8 * np.arange(9) / 36 + 0.2 / 9) / (0.8 * 8 / 36 + 0.2 / 9)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)  # float32
    stock = xgboost.train(PARAMS, xgboost.DMatrix(X, Y, feature_weights=weights), 5)
    assert train(sampling).save_raw() == stock.save_raw()


def test_trees_of_dart_are_sampled_too():
    sampling = PriorFeatureSampling(np.arange(N_FEATURES))
    params = {**PARAMS, "booster": "dart", "rate_drop": 0.5}
    matrix = xgboost.DMatrix(X, Y)
    weighted = xgboost.DMatrix(X, Y, feature_weights=sampling.weights(matrix))
    found = train(sampling, matrix, params=params)
    assert found.save_raw() == xgboost.train(params, weighted, 5).save_raw()
    dynamic = PriorFeatureSampling(ONE, dynamic=True, floor=0)
    used = train(dynamic, matrix, params=params).get_score()
    assert set(used) == {"f1"}


def test_a_continued_training_goes_on_with_the_gains_so_far():
    sampling = PriorFeatureSampling(dynamic=True, prior_rounds=1)
    first = train(PriorFeatureSampling(ONE, floor=0), n_rounds=4)
    matrix = xgboost.DMatrix(X, Y)
    weights = sampling.weights(matrix, first)
    share = (1 / 9 + 4 * ONE) / 5
    expected = 0.95 * share + 0.05 / 9
    np.testing.assert_allclose(weights, expected / expected.max(), rtol=1e-6)  # float32
    seen = []
    go_on = Watch(lambda model: seen.append(model.num_boosted_rounds()))
    train(sampling, matrix, xgb_model=first, callbacks=[go_on])
    assert seen == [5, 6, 7, 8, 9]


# ---- the prior ----


def test_a_prior_by_name_is_matched_whatever_its_order():
    matrix = xgboost.DMatrix(X, Y, feature_names=NAMES)
    by_name = {NAMES[1]: 5.0, NAMES[0]: 0.0, "elsewhere": 3.0}
    sampling = PriorFeatureSampling(by_name, floor=0)
    # The columns it names have two ninths of the draws together, all of them for column 1.
    np.testing.assert_allclose(sampling.weights(matrix), [0, 1, *[0.5] * 7], rtol=1e-6)
    train(sampling, matrix)


def test_dynamic_weights_know_gains_by_name():
    matrix = xgboost.DMatrix(X, Y, feature_names=NAMES)
    booster = train(PriorFeatureSampling(ONE, floor=0), matrix)
    weights = PriorFeatureSampling(dynamic=True, prior_rounds=1e-9, floor=0).weights(
        matrix, booster
    )
    np.testing.assert_allclose(weights, ONE, atol=1e-8)


def test_without_a_gain_dynamic_weights_are_the_prior():
    booster = train(PriorFeatureSampling(ONE), params={**PARAMS, "gamma": 1e9})
    sampling = PriorFeatureSampling(np.arange(N_FEATURES), dynamic=True, floor=0)
    weights = sampling.weights(xgboost.DMatrix(X), booster)
    np.testing.assert_allclose(weights, np.arange(9) / 8, rtol=1e-6)


def test_a_prior_of_other_problems_goes_in_as_it_is():
    prior = mtboost.feature_prior([(X, Y), (X, Y - X[:, 0])])
    booster = train(PriorFeatureSampling(prior), n_rounds=30)
    found = booster.get_score(importance_type="weight")
    assert found["f1"] > 0.6 * sum(found.values())


@pytest.mark.parametrize(
    ("prior", "names", "message"),
    [
        (np.ones(8), None, "prior has 8 values, but there are 9 features"),
        ({"column 1": 1.0}, None, "prior has names, but the columns have none"),
        ({"colunm 1": 1.0}, NAMES, "none of which is a column. Did you mean 'column 1'"),
        ({"column 1": 0.0}, NAMES, "prior is 0 for every column"),
    ],
)
def test_a_prior_that_does_not_fit_the_matrix_is_refused(prior, names, message):
    with pytest.raises(DataError, match=message):
        train(PriorFeatureSampling(prior), xgboost.DMatrix(X, Y, feature_names=names))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"prior": [1.0, -1.0]}, DataError, r"prior\[1\] is -1"),
        ({"prior": [1.0, np.inf]}, DataError, r"prior\[1\] is inf"),
        ({"prior": [[1.0]]}, DataError, r"shape \(1, 1\)"),
        ({"prior": []}, DataError, r"shape \(0,\)"),
        ({}, ParameterError, "give a prior, or dynamic=True"),
        ({"dynamic": True, "floor": -0.1}, ParameterError, "floor must be .*found -0.1"),
        ({"dynamic": True, "floor": 1.1}, ParameterError, "floor must be .*found 1.1"),
        ({"dynamic": True, "floor": "low"}, ParameterError, "floor must be .*found 'low'"),
        ({"dynamic": True, "prior_rounds": 0}, ParameterError, "prior_rounds must be .* > 0"),
        ({"dynamic": True, "prior_rounds": np.nan}, ParameterError, "prior_rounds must be .* > 0"),
        ({"dynamic": True, "prior_rounds": "many"}, ParameterError, "prior_rounds must be .* > 0"),
    ],
)
def test_values_that_make_no_sense_are_refused_at_once(options, error, message):
    with pytest.raises(error, match=message):
        PriorFeatureSampling(**options)


# ---- beside XGBoost's own ----


def test_it_works_in_estimators_and_their_clones():
    model = xgboost.XGBRegressor(
        n_estimators=10, callbacks=[PriorFeatureSampling(ONE, floor=0)], **PARAMS
    )
    fitted = clone(model).fit(X, Y)
    np.testing.assert_array_equal(fitted.feature_importances_, ONE)
    assert cross_val_score(model, X, Y, cv=2).min() > 0.2


def test_it_works_in_the_folds_of_cv():
    def rmse(callbacks):
        return xgboost.cv(PARAMS, xgboost.DMatrix(X, Y), 40, nfold=3, seed=0, callbacks=callbacks)[
            "test-rmse-mean"
        ].iloc[-1]

    other = np.eye(N_FEATURES)[5]
    useful, useless = (rmse([PriorFeatureSampling(prior, floor=0)]) for prior in (ONE, other))
    # Column 1 explains half of the variance of Y, which is 2, column 5 nothing.
    assert useful < 1.2 < useless


def test_it_goes_with_task_split_after_it_only():
    split = TaskSplit(np.arange(200) % 2)
    booster = train(InOrder([split, PriorFeatureSampling(ONE, floor=0)]))
    assert type(booster) is xgboost.Booster
    assert set(booster.get_score()) == {"f1"}
    with pytest.raises(UnsupportedError, match="let it stand before PriorFeatureSampling"):
        train(InOrder([PriorFeatureSampling(ONE), split]))
    with pytest.raises(UnsupportedError, match="TaskSplit reads the weights of features once"):
        train(InOrder([split, PriorFeatureSampling(ONE, dynamic=True)]))


@pytest.mark.skipif(version() < (3, 2), reason="ProjectedObjective needs XGBoost 3.2")
def test_other_boosters_in_training_are_refused():
    with pytest.raises(UnsupportedError, match="another callback has put its booster"):
        train(InOrder([PriorFeatureSampling(ONE), PriorFeatureSampling(ONE)]))
    params = {**PARAMS, "multi_strategy": "multi_output_tree", "min_child_weight": 0}
    matrix = xgboost.DMatrix(X, np.column_stack([Y, -Y]))
    with pytest.raises(UnsupportedError, match="another callback has put its booster"):
        train(InOrder([ProjectedObjective(), PriorFeatureSampling(ONE)]), matrix, params=params)


@pytest.mark.parametrize("dynamic", [False, True])
def test_vector_trees_are_sampled_too(dynamic):
    params = {**PARAMS, "multi_strategy": "multi_output_tree"}
    matrix = xgboost.DMatrix(X, np.column_stack([Y, -Y]))
    sampling = PriorFeatureSampling(ONE, dynamic=dynamic, floor=0)
    if dynamic and version() < (3, 2):
        with pytest.raises(UnsupportedError, match="no gains of vector trees"):
            train(sampling, matrix, params=params)
    else:
        assert set(train(sampling, matrix, params=params).get_score()) == {"f1"}


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({}, ParameterError, r"\['colsample_bynode'\] = 0.3889 for 3 of 9 features"),
        ({"colsample_bynode": 1}, ParameterError, "colsample_bynode is 1"),
        ({"colsample_bytree": 0.5}, ParameterError, "colsample_bynode is 1"),
        ({**PARAMS, "tree_method": "exact"}, UnsupportedError, "use tree_method='hist'"),
        ({"booster": "dart"}, ParameterError, "colsample_bynode is 1"),
        ({"booster": "gblinear", "verbosity": 0}, UnsupportedError, "use booster='gbtree'"),
    ],
)
def test_parameters_by_which_no_feature_is_drawn_are_refused(params, error, message):
    matrix = xgboost.DMatrix(X, Y)
    with pytest.raises(error, match=message):
        train(PriorFeatureSampling(ONE), matrix, params=params)
    assert matrix.get_float_info("feature_weights").size == 0


def test_the_suggested_fraction_draws_the_root_of_the_number_of_features():
    for n_features in range(2, 3000):
        fraction = np.float32(sampled_fraction(n_features))
        assert int(fraction * np.float32(n_features)) == int(np.sqrt(n_features))
        assert n_sampled(n_features) == int(np.sqrt(n_features))
