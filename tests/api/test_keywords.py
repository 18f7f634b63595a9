# SPDX-License-Identifier: Apache-2.0
"""Keywords that fit, tune and the estimators do not have: where they belong."""

import inspect
from functools import partial

import numpy as np
import pytest

import mtboost
from mtboost.model.arguments import Arguments

ROWS = np.zeros((4, 1)), np.zeros(4)


def assert_refused(call, message, **keywords):
    with pytest.raises(TypeError) as refused:
        call(**keywords)
    assert str(refused.value).endswith(message), str(refused.value)


def fit(**keywords):
    return mtboost.fit(*ROWS, **keywords)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("num_boost_rounds", "'num_boost_rounds'. Did you mean 'num_boost_round'?"),
        ("learning_rat", "'learning_rat'. Did you mean 'learning_rate' in params?"),
        ("learning_rate", "of the library: pass params={'learning_rate': 3}."),
        ("n_estimators", "'n_estimators'. Pass num_boost_round=."),
        ("sample_weight", "'sample_weight'. Pass weight=."),
        ("random_state", "'random_state'. Pass seed=."),
        ("qwertyuiop", "unexpected keyword argument 'qwertyuiop'"),
    ],
)
def test_fit_names_the_place_of_a_keyword_it_lacks(library, name, remedy):
    assert_refused(fit, remedy, backend=library.name, **{name: 3})


def test_a_parameter_of_one_library_belongs_in_params_of_that_one():
    remedy = "pass params={'num_leaves': 8}."
    assert_refused(fit, remedy, backend="lightgbm", num_leaves=8)
    assert_refused(fit, "Did you mean 'max_leaves' in params?", num_leaves=8)
    assert_refused(fit, "Pass num_boost_round=.", backend="lightgbm", num_iterations=8)
    assert_refused(fit, "columns of categories in X.", backend="lightgbm", cat_feature=[0])


@pytest.mark.parametrize(
    "estimator", [mtboost.MultiTaskClassifier, mtboost.MultiTaskRegressor, mtboost.MultiTaskRanker]
)
def test_estimators_name_the_place_of_a_keyword_they_lack(estimator):
    name = estimator.__name__
    lacks = f"{name}() got an unexpected keyword argument"
    assert_refused(
        estimator, f"{lacks} 'learning_rat'. Did you mean 'learning_rate'?", learning_rat=0.1
    )
    assert_refused(estimator, f"{lacks} 'n_threads'. Pass n_jobs=.", n_threads=1)
    assert_refused(
        estimator,
        f"{lacks} 'tree_method'. It is a parameter of the library: pass "
        "params={'tree_method': 'hist'}.",
        tree_method="hist",
    )


@pytest.mark.parametrize(
    "estimator", [mtboost.MultiTaskClassifier, mtboost.MultiTaskRegressor, mtboost.MultiTaskRanker]
)
def test_fit_of_an_estimator_names_the_place_of_a_keyword_it_lacks(estimator):
    train = partial(estimator().fit, np.zeros((4, 1)), np.zeros(4))
    assert_refused(train, "Pass sample_weight=.", weight=np.ones(4))
    assert_refused(train, "Pass verbose= to the constructor, or to set_params.", verbose=False)
    assert_refused(
        train, "Pass n_estimators= to the constructor, or to set_params.", num_boost_round=10
    )
    assert_refused(train, "Did you mean 'eval_set'?", eval_sets=[])
    assert "task" in inspect.signature(estimator.fit).parameters


def test_a_class_is_not_told_of_parameters_that_only_another_has():
    assert_refused(
        mtboost.MultiTaskClassifier, "Did you mean 'class_weight'?", class_weigth="balanced"
    )
    with pytest.raises(TypeError) as refused:
        mtboost.MultiTaskRegressor(class_weigth="balanced")
    assert "class_weight" not in str(refused.value)


def test_tune_names_the_place_of_a_keyword_it_lacks():
    def tune(**keywords):
        return mtboost.tune(*ROWS, **keywords)

    assert_refused(tune, "'n_estimators'. Pass num_boost_round=.", n_estimators=5)
    assert_refused(tune, "pass params={'max_bin': 5}.", max_bin=5)


def test_add_task_names_the_nearest_keyword():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = mtboost.fit(X, X[:, 0], strategy="two-stage", num_boost_round=2, n_threads=1)
    assert_refused(
        model.add_task, "Did you mean 'specific_rounds'?", task=1, X=X, y=X[:, 0], specific_round=1
    )


def test_the_signature_of_fit_is_typed_and_has_no_further_keywords():
    parameters = inspect.signature(mtboost.fit).parameters
    assert list(parameters) == list(Arguments.__dataclass_fields__)
    assert {own.kind for own in parameters.values()} <= {
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }


def test_update_names_its_number_of_rounds():
    model = mtboost.fit(
        np.eye(40)[:, :2], np.eye(40)[0], strategy="two-stage", num_boost_round=2, n_threads=1
    )
    update = partial(model.update, np.eye(40)[:, :2], np.eye(40)[0])
    for name in ("num_boost_round", "n_estimators"):
        assert_refused(
            update,
            f"update() got an unexpected keyword argument {name!r}. Pass rounds=.",
            **{name: 5},
        )
    assert_refused(update, "'sample_weight'. Pass weight=.", sample_weight=np.ones(40))
    assert_refused(update, "'round'. Did you mean 'rounds'?", round=5)
