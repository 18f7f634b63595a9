# SPDX-License-Identifier: Apache-2.0
"""Prior feature sampling as scikit-learn's estimators: priors, labels, files, errors."""

import pickle

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone

import mtboost
from mtboost import PriorSamplingClassifier, PriorSamplingRegressor
from mtboost.errors import DataError, ModelFormatError

RNG = np.random.default_rng(0)
NAMES = [f"x{place}" for place in range(9)]
X = RNG.normal(size=(300, 9))
NUMBERS = 2 * X[:, 3] + np.sin(2 * X[:, 5]) + 0.2 * RNG.normal(size=300)
CLASSES = np.array(["a", "b", "c"])[np.digitize(NUMBERS, [-1, 1])]
LABELS = (X[:, [3, 5, 7]] > 0.2).astype(int)
PRIOR = np.array([0, 0, 0, 5, 0, 2, 0, 1, 0.0])
BY_NAME = {"x3": 5, "x5": 2.0, "x7": 1, "unheard": 100}
ALL_BY_NAME = dict(zip(NAMES, PRIOR.tolist(), strict=True))
TRAIN, TEST = slice(0, 200), slice(200, None)
FAST = {"n_estimators": 30, "random_state": 0}


# Priors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [pandas.DataFrame, polars.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize(
    "prior",
    [
        ALL_BY_NAME,
        pandas.Series(ALL_BY_NAME),
        PRIOR,
        pandas.Series(PRIOR),
        PRIOR.tolist(),
        1e308 * (PRIOR / 5),
        dict(reversed(ALL_BY_NAME.items())) | {"unheard": 9.0},
    ],
    ids=["mapping", "series", "array", "series by position", "list", "huge", "another order"],
)
def test_a_prior_is_the_same_in_whatever_form(prior, convert):
    table = convert(dict(zip(NAMES, X.T, strict=True)))
    found = PriorSamplingRegressor(prior=prior, **FAST).fit(table, NUMBERS)
    expected = PriorSamplingRegressor(prior=PRIOR, **FAST).fit(X, NUMBERS)
    np.testing.assert_allclose(found.prior_, PRIOR / 8, rtol=1e-15)
    np.testing.assert_array_equal(found.predict(table), expected.predict(X))


def test_a_column_without_a_name_in_the_prior_has_the_share_of_no_prior():
    table = pandas.DataFrame(X, columns=NAMES)
    found = PriorSamplingRegressor(prior=BY_NAME, **FAST).fit(table, NUMBERS).prior_
    named = np.isin(NAMES, list(BY_NAME))
    np.testing.assert_allclose(found[~named], 1 / 9, rtol=1e-15)
    np.testing.assert_allclose(found[named], PRIOR[named] / 8 * named.mean(), rtol=1e-15)


def test_without_a_prior_all_features_are_alike():
    model = PriorSamplingRegressor(**FAST).fit(X, NUMBERS)
    np.testing.assert_allclose(model.prior_, 1 / 9)
    alike = clone(model).set_params(prior=np.full(9, 7.0)).fit(X, NUMBERS)
    np.testing.assert_array_equal(model.predict(X), alike.predict(X))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (np.ones(8), "prior has 8 values, but there are 9 features"),
        (np.ones((9, 1)), r"prior has shape \(9, 1\)"),
        (np.zeros(9), "prior is 0 for every column"),
        ({"x3": 0, "unheard": 1}, "prior is 0 for every column"),
        (-PRIOR, r"prior\[3\] is -5: importances must be finite and not negative"),
        ({"x1": np.nan}, r"prior\['x1'\] is nan"),
        ({"unheard": 1.0}, "prior names feature 'unheard', none of which is a column"),
        ({}, "must hold one number a feature"),
        ({3: 1.0}, "must be named by str"),
        (pandas.Series([1, 2.0], ["x1", "x1"]), "has a name twice"),
        ([*"abcdefghi"], "prior must hold numbers"),
    ],
)
def test_a_prior_that_does_not_fit_is_refused(prior, message):
    table = pandas.DataFrame(X, columns=NAMES)
    with pytest.raises(DataError, match=message):
        PriorSamplingRegressor(prior=prior, **FAST).fit(table, NUMBERS)


def test_names_need_columns_with_names():
    with pytest.raises(DataError, match="the columns have none"):
        PriorSamplingRegressor(prior=BY_NAME).fit(X, NUMBERS)


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber"])
def test_numbers_are_learned(loss, dynamic):
    model = PriorSamplingRegressor(prior=PRIOR, loss=loss, dynamic=dynamic, random_state=0)
    assert model.fit(X[TRAIN], NUMBERS[TRAIN]).score(X[TEST], NUMBERS[TEST]) > 0.85
    several = model.fit(X[TRAIN], np.column_stack([NUMBERS, -NUMBERS])[TRAIN]).predict(X[TEST])
    assert several.shape == (100, 2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_classes_and_labels_are_learned(dynamic):
    model = PriorSamplingClassifier(prior=PRIOR, dynamic=dynamic, random_state=0)
    for y in (CLASSES, CLASSES == "a", LABELS):
        assert model.fit(X[TRAIN], y[TRAIN]).score(X[TEST], y[TEST]) > 0.75
        assert model.predict_proba(X).shape == (300, 2 if y.dtype == bool else 3)
    unknown = LABELS.astype(float)
    unknown[::3, 1] = np.nan
    model.fit(X[TRAIN], unknown[TRAIN])
    assert (model.predict(X[TEST])[:, 1] == LABELS[TEST, 1]).mean() > 0.9


# Rounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
def test_more_rounds_are_those_of_one_go_and_threads_do_not_matter(dynamic):
    model = PriorSamplingRegressor(prior=PRIOR, dynamic=dynamic, subsample=0.7, **FAST)
    whole = clone(model).set_params(n_jobs=1).fit(X, NUMBERS)
    parts = clone(model).set_params(n_estimators=11, warm_start=True, n_jobs=3).fit(X, NUMBERS)
    parts.set_params(n_estimators=30).fit(X, NUMBERS)
    for name, array in whole.models_[0].arrays().items():
        np.testing.assert_array_equal(array, parts.models_[0].arrays()[name], err_msg=name)


def test_training_ends_early():
    model = PriorSamplingClassifier(prior=PRIOR, early_stopping_rounds=5, learning_rate=0.5)
    model.set_params(n_estimators=500, random_state=0).fit(X, CLASSES)
    assert model.n_estimators_ < 400
    assert len(model.validation_scores_) == model.n_estimators_ + 5


# Importances --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["impurity", "gain"])
def test_columns_that_count_are_important(kind):
    model = PriorSamplingRegressor(importance_type=kind, random_state=0).fit(X, NUMBERS)
    assert model.feature_importances_.argsort()[-2:].tolist() == [5, 3]
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_a_model_without_a_cut_finds_nothing_important():
    model = PriorSamplingRegressor(dynamic=True, **FAST).fit(X, np.ones(300))
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(9))


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, PRIOR, BY_NAME, pandas.Series(BY_NAME)], ids=type)
@pytest.mark.parametrize("dynamic", [False, True])
def test_models_are_kept_and_go_on(prior, dynamic, tmp_path):
    table = pandas.DataFrame(X, columns=NAMES)
    model = PriorSamplingRegressor(prior=prior, dynamic=dynamic, warm_start=True, **FAST)
    model.fit(table, NUMBERS).save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    copied = pickle.loads(pickle.dumps(model))
    for _ in range(2):
        for other in (loaded, copied):
            np.testing.assert_array_equal(other.predict(table), model.predict(table))
            np.testing.assert_array_equal(other.feature_importances_, model.feature_importances_)
            np.testing.assert_array_equal(other.prior_, model.prior_)
        for each in (model, loaded, copied):
            each.set_params(n_estimators=40).fit(table, NUMBERS)


def test_classifiers_are_kept(tmp_path):
    for y in (CLASSES, CLASSES == "a", LABELS):
        model = PriorSamplingClassifier(prior=PRIOR, **FAST).fit(X, y)
        model.save(tmp_path / "model")
        loaded = mtboost.load_model(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_file_whose_prior_is_of_other_columns_is_refused(tmp_path):
    model = PriorSamplingRegressor(prior=PRIOR, **FAST).fit(X, NUMBERS)
    model.prior_ = model.prior_[:-1]
    model.save(tmp_path / "model")
    with pytest.raises(ModelFormatError, match="the prior is of other columns"):
        mtboost.load_model(tmp_path / "model")
