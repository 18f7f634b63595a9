# SPDX-License-Identifier: Apache-2.0
"""Keywords that fit, tune and the estimators do not have: where they belong."""

import inspect
from functools import partial

import numpy as np
import pytest

import mtboost
from mtboost.model.inputs.arguments import Arguments

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
    assert_refused(fit, "Pass params={'max_leaves': 8}.", num_leaves=8)
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


@pytest.mark.parametrize(
    ("name", "own", "in_params"),
    [
        ("lambda_l2", "reg_lambda", True),
        ("l2_leaf_reg", "reg_lambda", True),
        ("feature_fraction", "colsample_bytree", True),
        ("num_leaves", "max_leaves", True),
        ("depth", "max_depth", True),
        ("iterations", "n_estimators", False),
        ("random_seed", "random_state", False),
    ],
)
def test_names_of_other_libraries_have_the_own_name_as_remedy(name, own, in_params):
    for backend in ("xgboost", "lightgbm"):
        make = partial(mtboost.MultiTaskRegressor, backend=backend)
        assert_refused(make, f"{name!r}. Pass {own}=.", **{name: 3})
    train = partial(mtboost.MultiTaskRegressor().fit, *ROWS)
    assert_refused(train, f"Pass {own}= to the constructor, or to set_params.", **{name: 3})
    if in_params:
        assert_refused(fit, f"{name!r}. Pass params={{{own!r}: 3}}.", **{name: 3})


def test_other_things_of_other_libraries_have_a_remedy():
    regressor, ranker = mtboost.MultiTaskRegressor, mtboost.MultiTaskRanker
    for name in ("cat_features", "categorical_feature"):
        for call in (fit, regressor, partial(regressor().fit, *ROWS)):
            assert_refused(call, "Make them columns of categories in X.", **{name: [0]})
    for call in (fit, partial(ranker().fit, *ROWS)):
        assert_refused(call, "Pass qid=, the query of each row, not their sizes.", group=[4])
    for name in ("group", "qid"):
        ranks = "MultiTaskRanker ranks the rows of each query: pass qid= to its fit."
        assert_refused(partial(regressor().fit, *ROWS), ranks, **{name: [4]})
    assert_refused(fit, "Pass base_margin=.", init_score=[0])
    assert_refused(fit, "Pass verbose=.", verbose_eval=False)
    sums = "XGBoost limits the sum of hessians in a leaf, for squared error the number of its rows:"
    assert_refused(regressor, f"{sums} pass min_child_weight=.", min_data_in_leaf=5)
    assert_refused(fit, f"{sums} pass params={{'min_child_weight': 5}}.", min_child_samples=5)
    own = "pass params={'min_data_in_leaf': 5}."
    assert_refused(partial(regressor, backend="lightgbm"), own, min_data_in_leaf=5)
    assert_refused(partial(mtboost.tune, *ROWS), "Did you mean 'n_trials'?", n_trial=5)


def test_methods_name_themselves_and_the_nearest_keyword():
    X, task = np.random.default_rng(0).normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    rows = X, X[:, 0]
    model = mtboost.fit(*rows, task=task, strategy="two-stage", num_boost_round=2, n_threads=1)
    estimator = mtboost.MultiTaskClassifier(strategy="two-stage", n_estimators=2, n_jobs=1)
    estimator.fit(X, X[:, 0] > 0, task=task)
    forest = mtboost.MTExtraTreesRegressor(n_estimators=2, n_jobs=1).fit(X, X[:, 0])
    assert_refused(forest.predict, "'output_margin'", X=X, output_margin=True)
    for call in (model.predict, model.contributions, estimator.predict, estimator.predict_proba):
        lacks = (
            f"{call.__name__}() got an unexpected keyword argument 'tasks'. Did you mean 'task'?"
        )
        with pytest.raises(TypeError) as refused:
            call(X, tasks=task)
        assert str(refused.value) == lacks
        for name, remedy in (
            ("output_margin", "Call model.predict_margin(); the model of an estimator is model_."),
            ("pred_contribs", "Call model.contributions(); the model of an estimator is model_."),
            ("iteration_range", "of the library have it: booster(task) returns one."),
        ):
            assert_refused(partial(call, X), remedy, **{name: True})
        assert_refused(partial(call, X), "'coverage'", coverage=0.9)
    for name in ("coverage", "confidence", "level"):
        inside = "Pass alpha=, 1 minus the probability that a label is inside."
        assert_refused(partial(model.predict_interval, X), inside, **{name: 0.9})
    assert_refused(model.evaluate, "Pass weight=.", X=X, y=X[:, 0], sample_weight=1)
    assert_refused(estimator.score, "Pass sample_weight=.", X=X, y=X[:, 0], weight=1)
    new = partial(model.add_task, "c", *rows)
    assert_refused(new, "Pass specific_rounds=.", num_boost_round=1)
    assert_refused(new, "It is a parameter of the library: pass it in params.", max_depth=1)


@pytest.mark.parametrize(
    "estimator",
    [
        mtboost.MTExtraTreesRegressor,
        mtboost.MTExtraTreesClassifier,
        mtboost.MTAdaBoostClassifier,
        mtboost.ProjectedForestRegressor,
        mtboost.ProjectedForestClassifier,
        mtboost.ProjectedBoostingRegressor,
        mtboost.PriorSamplingClassifier,
    ],
)
def test_forests_name_the_nearest_keyword(estimator):
    lacks = f"{estimator.__name__}() got an unexpected keyword argument 'n_estimator'. Did you mean"
    with pytest.raises(TypeError) as refused:
        estimator(n_estimator=3)
    assert str(refused.value) == f"{lacks} 'n_estimators'?"
    assert_refused(partial(estimator().fit, *ROWS), "Pass sample_weight=.", weight=1)
    assert inspect.signature(estimator).parameters.keys() == estimator().get_params().keys()


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"n_estimators": 0}, {}, "n_estimators must be an integer >= 1, found 0."),
        ({"max_depth": -3}, {}, "XGBoost refuses a value: value -3 for Parameter max_depth"),
        ({"colsample_bytree": 0}, {}, "colsample_bytree must be a finite number in"),
        ({}, {"sample_weight": -np.ones(40)}, "sample_weight is -1 at row 0: weights must"),
        ({"params": {"seed": 1}}, {}, "Pass random_state= to the constructor, not 'seed'"),
        ({"params": {"objective": "x"}}, {}, "Pass objective= to the constructor, not"),
    ],
)
def test_errors_of_an_estimator_have_its_names(options, rows, message):
    X = np.random.default_rng(0).normal(size=(40, 2))
    estimator = mtboost.MultiTaskRegressor(**options)
    with pytest.raises(ValueError, match=f"^{message}"):
        estimator.fit(X, X[:, 0], task=np.repeat(["a", "b"], 20), **rows)


def test_too_many_positional_arguments_are_named():
    X, task = np.random.default_rng(0).normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    model = mtboost.fit(X, X[:, 0], task=task, strategy="two-stage", num_boost_round=2, n_threads=1)
    for call, message in (
        (
            partial(model.predict, X, task),
            "predict() takes 1 positional argument, but 2 ",
        ),
        (partial(mtboost.fit, X, X[:, 0], task), "fit() takes 2 positional arguments, but 3 were"),
        (partial(mtboost.MultiTaskRegressor, 3), "MultiTaskRegressor() takes 0 positional argum"),
    ):
        with pytest.raises(TypeError) as refused:
            call()
        assert str(refused.value).startswith(message)
        assert ": pass the others by name, such as " in str(refused.value)
