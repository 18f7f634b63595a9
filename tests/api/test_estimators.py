# SPDX-License-Identifier: Apache-2.0
"""The estimators keep scikit-learn's rules, and are mtboost.fit underneath."""

import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from estimator_rows import (
    CLASSES,
    COLUMN,
    FAST,
    FAST_FIT,
    FRAME,
    N_ROWS,
    NUMBERS,
    SHOP,
    TABLES,
    THREE_CLASSES,
    VALUES,
    boosters,
    every_estimator,
)
from libraries import LIBRARIES
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import mtboost
from mtboost import MultiTaskClassifier, MultiTaskRegressor
from mtboost.errors import DataError, ParameterError

_ROUNDED = (
    "XGBoost's gradients are float32: weight 3 times one of them is rounded, three of them are not"
)
EXPECTED_FAILURES = {
    ("MultiTaskClassifier", "xgboost"): {
        "check_sample_weight_equivalence_on_dense_data": _ROUNDED,
        "check_sample_weight_equivalence_on_sparse_data": _ROUNDED,
    }
}


# scikit-learn's rules


@parametrize_with_checks(
    [
        MultiTaskClassifier(strategy="two-stage"),
        MultiTaskRegressor(strategy="two-stage"),
        MultiTaskClassifier(backend="lightgbm", strategy="two-stage"),
        MultiTaskRegressor(backend="lightgbm", strategy="two-stage"),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(
        (type(estimator).__name__, estimator.backend), {}
    ),
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("y", [CLASSES, THREE_CLASSES], ids=["two", "three"])
def test_rows_weighted_by_powers_of_two_are_rows_repeated_bit_for_bit(y):
    # What scikit-learn demands of all weights (EXPECTED_FAILURES): nothing is rounded here.
    times = np.array([0, 1, 2, 4])[np.arange(N_ROWS) // 3 % 4]
    weighted = MultiTaskClassifier(n_estimators=20, strategy="two-stage").fit(
        NUMBERS, y, sample_weight=times
    )
    repeated = MultiTaskClassifier(n_estimators=20, strategy="two-stage").fit(
        NUMBERS.repeat(times, axis=0), y.repeat(times)
    )
    np.testing.assert_array_equal(
        weighted.decision_function(NUMBERS), repeated.decision_function(NUMBERS)
    )


# mtboost.fit underneath


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ({}, {}),
        ({"n_estimators": 1}, {"num_boost_round": 1}),
        ({"max_depth": 2}, {"params": {"max_depth": 2}}),
        ({"subsample": 0.5}, {"params": {"subsample": 0.5}}),
        ({"colsample_bytree": 0.4}, {"params": {"colsample_bytree": 0.4}}),
        ({"colsample_bylevel": 0.4}, {"params": {"colsample_bylevel": 0.4}}),
        ({"colsample_bynode": 0.4}, {"params": {"colsample_bynode": 0.4}}),
        ({"params": {"base_score": 0.9}}, {"params": {"base_score": 0.9}}),
        ({"objective": "reg:pseudohubererror"}, {"objective": "reg:pseudohubererror"}),
        ({"split_score": "plain"}, {"split_score": "plain"}),
        ({"split_score": "variance", "beta": 0.5}, {"split_score": "variance", "beta": 0.5}),
        ({"pooling": 5.0}, {"pooling": 5.0}),
        ({"strategy": "auto"}, {"strategy": "auto"}),
        (
            {"split_score": "plain", "symmetric_trees": True},
            {"split_score": "plain", "symmetric_trees": True},
        ),
        (  # steps in which tasks quit
            {"early_stopping_rounds": 1, "learning_rate": 1.0},
            {"early_stopping_rounds": 1, "params": {"learning_rate": 1.0}},
        ),
        ({"min_delta": 0.2}, {"min_delta": 0.2}),
        ({"eval_metric": "mae"}, {"eval_metric": "mae"}),
        ({"validation_fraction": 0.4}, {"validation_fraction": 0.4}),
        ({"specific_params": {"eta": 0.02}}, {"specific_params": {"eta": 0.02}}),
        ({"specific_rounds": 0}, {"specific_rounds": 0}),
        ({"feature_prior": "auto"}, {"feature_prior": "auto"}),
        ({"task_weight": {"x": 9, "y": 1, "z": 1}}, {"task_weight": {"x": 9, "y": 1, "z": 1}}),
        ({"refit": True}, {"refit": True}),
        ({"common_features": ["a"]}, {"common_features": ["a"]}),
        ({"random_state": 3}, {"seed": 3}),
        ({"backend": "lightgbm"}, {"backend": "lightgbm"}),
    ],
    ids=lambda names: ",".join(names) or "defaults",
)
def test_each_parameter_reaches_fit(parameters, arguments):
    # Of training rows alone: models of all rows need not depend on which were held out.
    fixed = {"task": "shop", "refit": False}
    model = mtboost.fit(FRAME, VALUES, **{**fixed, **FAST_FIT, **arguments})
    estimator = MultiTaskRegressor().set_params(**{**fixed, **FAST, **parameters})
    estimator.fit(FRAME, VALUES)
    assert boosters(estimator) == boosters(model)
    assert estimator.quit_round_ == model.quit_round
    if parameters:
        default = MultiTaskRegressor(**fixed, **FAST).fit(FRAME, VALUES)
        assert boosters(estimator) != boosters(default)


def test_task_splits_reach_fit():
    options = {"split_score": "plain", "task_splits": 0.5}
    model = mtboost.fit(NUMBERS, VALUES, task=SHOP, **FAST_FIT, **options)
    estimator = MultiTaskRegressor(**FAST, **options).fit(NUMBERS, VALUES, task=SHOP)
    assert boosters(estimator) == boosters(model)


def test_the_number_of_rounds_depends_on_the_strategy(monkeypatch):
    estimator = MultiTaskRegressor(
        max_depth=1, specific_rounds=0, early_stopping_rounds=None, strategy="two-stage"
    )
    estimator.fit(NUMBERS, VALUES, task=SHOP)
    assert set(estimator.quit_round_.values()) == {100}
    monkeypatch.setattr("mtboost.model.inputs.making_settings._AUTO_ROUNDS", 3)
    estimator.set_params(strategy="auto", early_stopping_rounds=5, linear_effects=False)
    estimator.fit(NUMBERS, VALUES, task=SHOP)
    assert set(estimator.quit_round_.values()) <= {0, 1, 2, 3}


def test_data_beside_x_reach_fit():
    margin, weight = VALUES / 2, np.arange(N_ROWS) % 5
    valid = (NUMBERS[::2], VALUES[::2], SHOP[::2], weight[::2] + 1, margin[::2])
    model = mtboost.fit(
        NUMBERS, VALUES, task=SHOP, weight=weight, base_margin=margin, eval_set=valid, **FAST_FIT
    )
    estimator = MultiTaskRegressor(**FAST).fit(
        NUMBERS, VALUES, task=SHOP, sample_weight=weight, base_margin=margin, eval_set=valid
    )
    assert boosters(estimator) == boosters(model)
    np.testing.assert_array_equal(
        estimator.predict(NUMBERS, task=SHOP, base_margin=margin),
        model.predict(NUMBERS, task=SHOP, base_margin=margin),
    )


def test_a_row_may_start_from_a_margin_of_each_class():
    margins = np.random.default_rng(1).normal(size=(N_ROWS, 3))
    estimator = MultiTaskClassifier(**FAST)
    estimator.fit(NUMBERS, THREE_CLASSES, task=SHOP, base_margin=margins)
    model = mtboost.fit(
        NUMBERS,
        THREE_CLASSES,
        task=SHOP,
        objective="multi:softprob",
        base_margin=margins,
        **FAST_FIT,
    )
    np.testing.assert_array_equal(
        estimator.decision_function(NUMBERS, task=SHOP, base_margin=margins),
        model.predict_margin(NUMBERS, task=SHOP, base_margin=margins),
    )


def test_a_classifier_encodes_the_labels_of_validation_rows_as_well():
    valid = (NUMBERS[::2], CLASSES[::2], SHOP[::2])
    estimator = MultiTaskClassifier(**FAST).fit(NUMBERS, CLASSES, task=SHOP, eval_set=valid)
    codes = (CLASSES == "ok").astype(int)
    model = mtboost.fit(
        NUMBERS,
        codes,
        task=SHOP,
        objective="binary:logistic",
        eval_set=(NUMBERS[::2], codes[::2], SHOP[::2]),
        **FAST_FIT,
    )
    assert boosters(estimator) == boosters(model)


def test_threads_do_not_change_the_model():
    models = [MultiTaskRegressor(task="shop", n_jobs=n, **FAST) for n in (1, 2, -1, None)]
    first, *others = [boosters(model.fit(FRAME, VALUES)) for model in models]
    assert all(other == first for other in others)


def test_report_history_and_boosters_are_the_models(library):
    pytest.importorskip("matplotlib").use("agg")
    estimator = MultiTaskClassifier(task="shop", backend=library.name, **FAST).fit(FRAME, CLASSES)
    pd.testing.assert_frame_equal(estimator.report(), estimator.model_.report())
    assert estimator.report()["quit_round"].to_dict() == estimator.quit_round_
    assert estimator.plot_history().lines
    margins = library.margins(estimator.booster("x"), FRAME.drop(columns="shop"))
    np.testing.assert_allclose(
        margins[SHOP == "x"],
        estimator.decision_function(FRAME)[SHOP == "x"],
        rtol=0,
        atol=library.atol,
    )


def test_a_model_without_validation_rows_has_no_history_to_draw(library):
    pytest.importorskip("matplotlib").use("agg")
    options = {"validation_fraction": 0, "backend": library.name}
    estimator = MultiTaskRegressor(task="shop", **options, **FAST).fit(FRAME, VALUES)
    with pytest.raises(DataError, match="no validation curves to draw: fit it with validation"):
        estimator.plot_history()


def test_what_an_estimator_fixes_auto_keeps(library):
    fixed = {"pooling": 2.0, "task_splits": False, "random_strength": 0.5, "max_depth": 2}
    options = {"backend": library.name, **fixed, **FAST, "strategy": "auto"}
    estimator = MultiTaskRegressor(task="shop", **options).fit(FRAME, VALUES)
    tried = [*estimator.model_.common_losses]
    assert all("given size, given pooling" in name for name in tried)
    assert {name.partition("strength ")[2] for name in tried} <= {"", "0.5"}


def test_before_fit_everything_is_refused_as_unfitted():
    for name in ("report", "plot_history"):
        with pytest.raises(NotFittedError):
            getattr(MultiTaskRegressor(strategy="two-stage"), name)()
    with pytest.raises(NotFittedError):
        MultiTaskRegressor(strategy="two-stage").booster("all")
    with pytest.raises(NotFittedError):
        _ = MultiTaskRegressor(strategy="two-stage").feature_importances_
    assert not hasattr(MultiTaskRegressor(strategy="two-stage"), "feature_importances_")


# Copies, repeated fits, and what fit leaves alone


@every_estimator
def test_clone_has_the_parameters_and_nothing_else(estimator, y):
    original = clone(estimator).set_params(specific_params={"eta": 0.1}, task="shop")
    original.fit(FRAME, y)
    copied = clone(original)
    assert copied.get_params() == original.get_params()
    assert not hasattr(copied, "model_")
    assert boosters(copied.fit(FRAME, y)) == boosters(original)


def dumped(estimator):
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return joblib.load(file)


@every_estimator
@pytest.mark.parametrize(
    "copied",
    [lambda e: pickle.loads(pickle.dumps(e)), dumped, copy.deepcopy],
    ids=["pickle", "joblib", "deepcopy"],
)
def test_a_copy_predicts_the_same(estimator, y, copied):
    original = clone(estimator).set_params(task="shop").fit(FRAME, y)
    other = copied(original)
    assert other is not original
    np.testing.assert_array_equal(other.predict(FRAME), original.predict(FRAME))
    assert boosters(other) == boosters(original)
    np.testing.assert_array_equal(other.feature_importances_, original.feature_importances_)
    with pytest.raises(ValueError, match="feature names should match"):
        other.predict(FRAME.rename(columns={"a": "A"}))


class Counter:
    """Ends training after ten rounds in all its life."""

    n_rounds = 0

    def __call__(self, *_):
        self.n_rounds += 1
        return self.n_rounds >= 10


@every_estimator
def test_a_second_fit_equals_a_fresh_one_bit_for_bit(estimator, y):
    library = LIBRARIES[estimator.backend]
    callbacks = [library.callback(Counter())]
    estimator = clone(estimator).set_params(n_estimators=12, callbacks=callbacks, task="shop")
    used = clone(estimator).fit(FRAME, y)
    other = FRAME.iloc[30:].drop(columns="b")
    # Fewer rows, columns and tasks, and other labels.
    other, y_other = other[other["shop"] != "z"], y[30:][SHOP[30:] != "z"]
    y_other = np.char.upper(y_other) if y_other.dtype.kind == "U" else y_other + 1
    used.fit(other, y_other)
    fresh = clone(estimator).fit(other, y_other)
    assert boosters(used) == boosters(fresh)
    assert used.tasks_ == fresh.tasks_ == ("x", "y")
    assert library.n_rounds(used.model_.common) == 10
    assert vars(used).keys() == vars(fresh).keys()
    np.testing.assert_array_equal(used.predict(other), fresh.predict(other))
    np.testing.assert_array_equal(used.feature_importances_, fresh.feature_importances_)
    if hasattr(fresh, "classes_"):
        np.testing.assert_array_equal(used.classes_, fresh.classes_)


def test_column_names_of_an_earlier_fit_are_forgotten():
    estimator = MultiTaskRegressor(**FAST).fit(FRAME[["a", "b"]], VALUES)
    estimator.fit(NUMBERS, VALUES)
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.n_features_in_ == 3


def test_fit_changes_no_parameter():
    parameters = {
        "callbacks": [LIBRARIES["xgboost"].callback(Counter())],
        "params": {"base_score": 0.5},
        "specific_params": {"eta": 0.1},
        "monotone_constraints": {"a": 1},
        "task_weight": {"x": 1.0, "y": 2.0, "z": 3.0},
        "common_features": ["a", "color"],
    }
    given = copy.deepcopy({name: parameters[name] for name in parameters if name != "callbacks"})
    estimator = MultiTaskRegressor(task="shop", **FAST, **parameters).fit(FRAME, VALUES)
    for name, value in parameters.items():
        assert getattr(estimator, name) is value
    assert {name: parameters[name] for name in given} == given
    assert parameters["callbacks"][0].after_round.n_rounds == 0
    assert estimator.callbacks_[0].after_round.n_rounds == 2 * 10  # of the final model, too


def test_nothing_is_printed_unless_asked_for(capfd):
    MultiTaskRegressor(task="shop", **FAST).fit(FRAME, VALUES).predict(FRAME)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    MultiTaskRegressor(task="shop", verbose=True, **FAST).fit(FRAME, VALUES)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "common model" in captured.err
    MultiTaskRegressor(task="shop", verbose=1, **FAST).fit(FRAME, VALUES)
    assert "x-rmse:" in capfd.readouterr().out


def test_random_state_is_an_int_a_generator_or_numpys_own():
    def fitted(random_state):
        estimator = MultiTaskRegressor(task="shop", **FAST | {"random_state": random_state})
        return boosters(estimator.fit(FRAME, VALUES))

    assert fitted(1) == fitted(np.int64(1)) == fitted(1)
    assert fitted(1) != fitted(2)
    generator = np.random.RandomState(5)
    first, second = fitted(generator), fitted(generator)
    assert first != second
    assert fitted(np.random.RandomState(5)) == first
    numpys_own = np.random.mtrand._rand
    state = numpys_own.get_state()
    try:
        numpys_own.seed(5)
        assert fitted(None) == first
        assert fitted(None) == second
    finally:
        numpys_own.set_state(state)


# Importance


def test_importances_are_the_average_over_tasks_and_the_task_column_has_none():
    y = np.where(SHOP == "x", NUMBERS[:, 0], NUMBERS[:, 1])
    estimator = MultiTaskRegressor(
        task="shop", n_estimators=20, random_state=0, strategy="two-stage"
    ).fit(FRAME, y)
    expected = np.zeros(5)
    for task in "xyz":
        gains = estimator.booster(task).get_score(importance_type="gain")
        share = np.array([gains.get(name, 0.0) for name in FRAME.columns])
        expected += share / share.sum() / 3
    # XGBoost adds up gains in float32.
    np.testing.assert_allclose(estimator.feature_importances_, expected, rtol=1e-5)
    assert estimator.feature_importances_[3] == 0


@pytest.mark.parametrize("position", [0, 1, 3])
def test_importances_of_an_array_skip_the_task_column(position):
    X = np.insert(NUMBERS, position, COLUMN, axis=1)
    by_column = MultiTaskRegressor(task=position, **FAST).fit(X, VALUES)
    by_labels = MultiTaskRegressor(**FAST).fit(NUMBERS, VALUES, task=SHOP)
    np.testing.assert_array_equal(
        by_column.feature_importances_, np.insert(by_labels.feature_importances_, position, 0.0)
    )


def test_importances_follow_the_integer_labels_of_pandas_columns():
    labels = [30, 10, 20, 40]
    X = pd.DataFrame(np.insert(NUMBERS, 1, COLUMN, axis=1), columns=labels)
    estimator = MultiTaskRegressor(task=10, **FAST).fit(X, VALUES)
    by_labels = MultiTaskRegressor(**FAST).fit(NUMBERS, VALUES, task=SHOP)
    np.testing.assert_array_equal(
        estimator.feature_importances_, np.insert(by_labels.feature_importances_, 1, 0.0)
    )


def test_importances_are_zero_where_nothing_is_split():
    estimator = MultiTaskRegressor(gamma=1e9, **FAST).fit(NUMBERS, VALUES)
    np.testing.assert_array_equal(estimator.feature_importances_, np.zeros(3))


# Mistakes


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, np.ones(N_ROWS, int), r"y has one class only, 1: a classifier needs two"),
        ({"objective": "reg:squarederror"}, CLASSES, "'reg:squarederror' gives no probabilities"),
        ({"objective": lambda m, d: (m, m)}, CLASSES, "gives no probabilities"),
        ({"objective": "binary:logistic"}, THREE_CLASSES, "is for two classes, but y has 3"),
        ({"params": {"max_depth": 3}}, CLASSES, "which MultiTaskClassifier has itself"),
        (
            {"learning_rate": 0.2, "params": {"eta": 0.1}},
            CLASSES,
            "'learning_rate' under two names",
        ),
        ({"params": {"seed": 1}}, CLASSES, "Pass random_state="),
        ({}, VALUES, "Unknown label type: continuous"),
        ({"task": "shop"}, CLASSES, "no column 'shop', for its columns have no names"),
        ({"task": 3}, CLASSES, "no column 3: it has 3"),
        ({"max_depth": -1}, CLASSES, "max_depth"),
        (
            {"early_stopping_rounds": 0},
            CLASSES,
            "early_stopping_rounds must be None or an integer >= 1",
        ),
        ({"backend": "catboost"}, CLASSES, "backend must be 'xgboost' or 'lightgbm', found 'cat"),
        ({"backend": "lightgbm", "objective": "l2"}, CLASSES, "choose 'binary' or 'multiclass'"),
        ({"backend": "lightgbm", "objective": "binary"}, THREE_CLASSES, "choose 'multiclass'"),
        (
            {"backend": "lightgbm", "gamma": 1, "params": {"min_split_gain": 1}},
            CLASSES,
            "two names",
        ),
    ],
)
def test_what_a_classifier_cannot_be_fitted_with_is_refused(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        MultiTaskClassifier(**{"strategy": "two-stage", **parameters}).fit(NUMBERS, y)


def test_an_unknown_parameter_is_a_type_error():
    with pytest.raises(TypeError, match="n_estimator"):
        MultiTaskClassifier(n_estimator=3, strategy="two-stage")
    with pytest.raises(TypeError, match=r"unknown name 'max_dept'\. Did you mean 'max_depth'"):
        MultiTaskClassifier(params={"max_dept": 3}, strategy="two-stage").fit(NUMBERS, CLASSES)


def test_the_task_is_given_once():
    with pytest.raises(ParameterError, match=r"given twice, .* column 'shop'"):
        MultiTaskRegressor(task="shop", strategy="two-stage").fit(FRAME, VALUES, task=SHOP)


def test_a_model_of_several_tasks_needs_the_task_to_predict():
    estimator = MultiTaskRegressor(**FAST).fit(NUMBERS, VALUES, task=SHOP)
    with pytest.raises(DataError, match=r"task is missing: .* Known: tasks 'x', 'y', 'z'"):
        estimator.predict(NUMBERS)


def test_a_label_that_training_did_not_see_is_refused_in_validation_rows():
    with pytest.raises(DataError, match="eval_set: y contains 1, which is not a class"):
        MultiTaskClassifier(strategy="two-stage").fit(
            NUMBERS, CLASSES, eval_set=(NUMBERS, THREE_CLASSES)
        )


def test_labels_of_a_mapping_are_a_mapping():
    with pytest.raises(DataError, match=r"y is a ndarray; it must be a mapping"):
        MultiTaskRegressor(strategy="two-stage").fit(TABLES, VALUES)
    with pytest.raises(DataError, match="y lacks task 'y'"):
        MultiTaskRegressor(strategy="two-stage").fit(TABLES, {"x": VALUES[:80]})


@pytest.mark.parametrize("was_fitted", [False, True])
def test_a_failed_fit_leaves_nothing_to_predict_from(was_fitted):
    estimator = MultiTaskClassifier(**FAST)
    if was_fitted:  # the old model with the new classes would be a silent wrong answer
        estimator.fit(NUMBERS, THREE_CLASSES > 0)
    with pytest.raises(ValueError, match="max_depth"):
        estimator.set_params(max_depth=-1).fit(NUMBERS, CLASSES)
    with pytest.raises(NotFittedError):
        estimator.predict(NUMBERS)
