# SPDX-License-Identifier: Apache-2.0
"""fit(init_model=...): more rounds from the predictions of a model."""

from functools import partial

import numpy as np
import pytest
import xgboost
from sklearn.linear_model import LinearRegression

import mtboost
from mtboost.errors import DataError, ModelFormatError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3)).astype(np.float32)
TASK = np.array(["a", "b", "c"])[np.arange(240) % 3]
Y = (X[:, 0] + (TASK == "b") * X[:, 1] + 0.3 * RNG.normal(size=240)).astype(np.float32)
NEW = RNG.normal(size=(240, 3)).astype(np.float32)
NEW_Y = NEW[:, 0] + (TASK == "b") * NEW[:, 1] + NEW[:, 2]
EVAL = RNG.normal(size=(90, 3)).astype(np.float32)
EVAL_Y = EVAL[:, 0] + (TASK[:90] == "b") * EVAL[:, 1] + EVAL[:, 2]
FIXED = {"strategy": "two-stage", "num_boost_round": 6, "specific_rounds": 2}
more = partial(mtboost.fit, NEW, NEW_Y, task=TASK)


def first(library, **options):
    return mtboost.fit(X, Y, task=TASK, backend=library.name, **{**FIXED, **options})


def margins(model):
    return model.predict_margin(NEW, task=TASK)


def test_training_goes_on_as_by_update_from_a_model_or_its_file(library, tmp_path):
    model = first(library)
    model.save(tmp_path / "model")
    expected = margins(model.update(NEW, NEW_Y, task=TASK, rounds=7, seed=3))
    assert not np.array_equal(expected, margins(model))
    for start in (model, tmp_path / "model", str(tmp_path / "model")):
        found = more(init_model=start, num_boost_round=7, seed=3, backend=library.name)
        np.testing.assert_array_equal(margins(found), expected)


@pytest.mark.parametrize(
    "fixed", [{"validation_fraction": 0.0}, {"early_stopping_rounds": None}], ids=str
)
def test_without_validation_rows_there_are_all_rounds_as_in_xgboost(fixed):
    params = {"max_depth": 2, "learning_rate": 0.5}
    one_task = partial(mtboost.fit, early_stopping_rounds=None, validation_fraction=0)
    model = one_task(X, Y, params=params, num_boost_round=4, specific_rounds=0)
    found = mtboost.fit(NEW, NEW_Y, init_model=model, num_boost_round=5, **fixed)
    stock = xgboost.train(params, xgboost.DMatrix(X, Y), 4)
    stock = xgboost.train(params, xgboost.DMatrix(NEW, NEW_Y), 5, xgb_model=stock)
    assert found.booster("all").num_boosted_rounds() == 9
    # XGBoost adds its base score last, update starts from margins that have it.
    np.testing.assert_allclose(found.predict(NEW), stock.predict(xgboost.DMatrix(NEW)), rtol=1e-5)


def test_validation_rows_of_the_user_find_the_number_of_rounds(library):
    model = first(library)
    eval_set = (EVAL, EVAL_Y, TASK[:90])
    found = more(init_model=model, eval_set=eval_set, num_boost_round=40, backend=library.name)
    report = found.report()
    assert report["valid_rows"].tolist() == [30, 30, 30]
    assert (report.filter(like="final") < report.filter(like="before").to_numpy()).all().all()
    # Opposite labels: no round helps.
    unlike = (EVAL, EVAL[:, 0] - EVAL[:, 2], TASK[:90])
    kept = more(init_model=model, eval_set=unlike, num_boost_round=40, backend=library.name)
    np.testing.assert_array_equal(margins(kept), margins(model))


def test_validation_rows_must_be_of_tasks_with_new_rows(library):
    model = first(library)
    rest = more(init_model=model, eval_set=(EVAL, EVAL_Y, TASK[:90]), backend=library.name)
    assert rest.tasks == ("a", "b", "c")
    only = partial(mtboost.fit, NEW[TASK == "a"], NEW_Y[TASK == "a"], task=TASK[TASK == "a"])
    of_b = (EVAL[TASK[:90] == "b"], EVAL_Y[TASK[:90] == "b"], ["b"] * 30)
    with pytest.raises(DataError, match="eval_set has no row of the tasks that X has rows of: tas"):
        only(init_model=model, eval_set=of_b, backend=library.name)
    with pytest.raises(DataError, match="eval_set: X has rows of unknown task 'd'"):
        only(init_model=model, eval_set=(EVAL, EVAL_Y, ["d"] * 90), backend=library.name)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"backend": "lightgbm"}, ParameterError, "model of xgboost, but backend is 'lightgbm'"),
        ({"objective": "count:poisson"}, ParameterError, "has objective 'reg:squarederror', but"),
        ({"objective": lambda m, d: (m, m)}, ParameterError, "objective is a function"),
        ({"split_score": "plain"}, ParameterError, "argument 'split_score' cannot be combined"),
        (
            {"strategy": "auto", "early_stopping_rounds": 5},
            ParameterError,
            "arguments 'strategy', 'early_stopping_rounds' cannot be .* leave them out",
        ),
        ({"init_model": LinearRegression()}, TypeError, "init_model is a LinearRegression"),
    ],
    ids=["library", "objective", "function", "argument", "arguments", "another model"],
)
def test_what_cannot_go_on_is_refused(options, error, message):
    model = mtboost.fit(X, Y, task=TASK, **FIXED)
    with pytest.raises(error, match=message):
        more(**{"init_model": model, **options})


def test_other_columns_and_estimators_are_refused(tmp_path):
    model = mtboost.fit(X, Y, task=TASK, **FIXED)
    with pytest.raises(DataError, match="2 columns"):
        mtboost.fit(NEW[:, :2], NEW_Y, task=TASK, init_model=model)
    options = {"n_estimators": 3, "specific_rounds": 0, "strategy": "two-stage"}
    estimator = mtboost.MultiTaskRegressor(**options).fit(X, Y, task=TASK)
    with pytest.raises(TypeError, match="Pass its model_"):
        more(init_model=estimator)
    estimator.save(tmp_path / "file")
    with pytest.raises(ModelFormatError, match=r"MultiTaskRegressor: pass mtboost.load_model\("):
        more(init_model=tmp_path / "file")
