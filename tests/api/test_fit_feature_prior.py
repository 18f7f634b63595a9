# SPDX-License-Identifier: Apache-2.0
"""fit(feature_prior=...): specific models draw their features by a prior."""

import numpy as np
import pandas as pd
import pytest
import xgboost
from model_documents import trees

import mtboost
from mtboost.base.checked_tables import as_table
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.xgboost.library import check_readable

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

_rng = np.random.default_rng(0)
N_FEATURES = 16
N_ROWS = 120
X = _rng.normal(size=(2 * N_ROWS, N_FEATURES)).astype(np.float32)
TASK = np.repeat(["a", "b"], N_ROWS)
Y = 2 * X[:, 3] + np.where(TASK == "a", 1, -1) * X[:, 5] + 0.1 * _rng.normal(size=2 * N_ROWS)
NAMES = [f"x{feature}" for feature in range(N_FEATURES)]
OPTIONS = {
    "strategy": "two-stage",
    "num_boost_round": 4,
    "specific_rounds": 12,
    "early_stopping_rounds": None,
    "params": {"max_depth": 6, "learning_rate": 0.3},
    "n_threads": 1,
}


def fitted(X=X, y=Y, **options):
    task = {} if isinstance(X, dict) else {"task": TASK}
    return mtboost.fit(X, y, **task, **{**OPTIONS, **options})


def stock_specific(
    model, weights, fraction=4.5 / N_FEATURES, *, X=X[TASK == "a"], y=Y[TASK == "a"]
):
    """What XGBoost trains from the common model's margins, with weights of features."""
    names = model.common.feature_names
    common = xgboost.DMatrix(X[:, : model.common.num_features()], feature_names=names)
    margins = model.common.predict(common, output_margin=True)
    matrix = xgboost.QuantileDMatrix(X, y, base_margin=margins, feature_weights=weights)
    params = {"colsample_bynode": fraction, "seed": 0, "nthread": 1}
    return xgboost.train(params, matrix, OPTIONS["specific_rounds"])


def scaled(shares):
    weights = 0.95 * np.asarray(shares) + 0.05 / len(shares)
    return (weights / weights.max()).astype(np.float32)


VALID = (X, Y, TASK)  # so that all rows are trained on


@pytest.mark.parametrize("fraction", [None, 0.5])
def test_auto_takes_the_gains_of_the_common_model(fraction):
    own = {} if fraction is None else {"specific_params": {"colsample_bynode": fraction}}
    model = fitted(feature_prior="auto", eval_set=VALID, **own)
    gains = model.common.get_score(importance_type="total_gain")
    values = np.array([gains.get(f"f{feature}", 0.0) for feature in range(N_FEATURES)])
    assert np.count_nonzero(values) >= 2
    expected = stock_specific(model, scaled(values / values.sum()), fraction or 4.5 / N_FEATURES)
    assert trees(model.specific["a"]) == trees(expected)


def test_the_common_model_is_what_it_was():
    plain, steered = (fitted(feature_prior=prior, eval_set=VALID) for prior in (None, "auto"))
    assert plain.common.save_raw() == steered.common.save_raw()
    assert trees(plain.specific["a"]) != trees(steered.specific["a"])
    assert trees(plain.specific["a"]) == trees(stock_specific(plain, None, 1.0))


@pytest.mark.parametrize(
    "prior",
    [
        np.eye(N_FEATURES)[5] + 1,
        pd.Series(np.eye(N_FEATURES)[5] + 1),
        mtboost.feature_prior([np.eye(N_FEATURES)[5] + 1]),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_a_prior_by_position_is_one_number_a_column(prior):
    model = fitted(feature_prior=prior, eval_set=VALID)
    expected = stock_specific(model, scaled((np.eye(N_FEATURES)[5] + 1) / (N_FEATURES + 1)))
    assert trees(model.specific["a"]) == trees(expected)


def test_columns_of_one_task_alone_have_their_share():
    check_readable(as_table(pd.DataFrame(X)))
    common = NAMES[:8]
    tables = {
        "a": pd.DataFrame(X[TASK == "a"], columns=NAMES),
        "b": pd.DataFrame(X[TASK == "b"][:, :8], columns=common),
    }
    y = {"a": Y[TASK == "a"], "b": Y[TASK == "b"]}
    valid = (tables, y)
    by_name = {"x5": 3.0, "x2": 1.0}
    by_position = [by_name.get(name, 0.0) for name in common]
    one = fitted(tables, y, feature_prior=by_position, eval_set=valid)
    all_named = dict.fromkeys(common, 0.0) | by_name
    two = fitted(tables, y, feature_prior=all_named, eval_set=valid)
    for task in ("a", "b"):
        assert trees(one.specific[task]) == trees(two.specific[task])
    shares = [value / 4 * 8 / 16 for value in by_position] + [1 / 16] * 8
    assert one.common.feature_names == common
    assert trees(one.specific["a"]) == trees(stock_specific(one, scaled(shares)))


def test_auto_without_a_split_in_the_common_model_changes_nothing():
    params = {"params": {"min_split_loss": 1e9}, "specific_params": {"min_split_loss": 0}}
    plain, steered = (
        fitted(feature_prior=prior, eval_set=VALID, **params) for prior in (None, "auto")
    )
    assert plain.specific["a"].save_raw() == steered.specific["a"].save_raw()
    assert plain.specific["a"].get_score()


@pytest.mark.parametrize("n_copies", [1, 60])  # of which the core trains the larger
def test_the_number_of_threads_changes_nothing(n_copies):
    rows = np.tile(np.arange(2 * N_ROWS), n_copies)
    options = {**OPTIONS, "task": TASK[rows], "feature_prior": "auto"}
    first, second = (
        mtboost.fit(X[rows], Y[rows], **{**options, "n_threads": n}).specific["a"].save_raw()
        for n in (1, 3)
    )
    assert first == second


def test_training_again_on_all_rows_uses_the_prior_too():
    model = fitted(feature_prior=np.eye(N_FEATURES)[5], refit=True)
    expected = stock_specific(model, scaled(np.eye(N_FEATURES)[5]))
    assert trees(model.specific["a"]) == trees(expected)


def test_a_new_task_draws_its_features_by_the_common_model():
    rng = np.random.default_rng(1)
    new = rng.normal(size=(40, N_FEATURES)).astype(np.float32)
    y = 2 * new[:, 3] + 3 * new[:, 5]
    model = fitted()
    for name, prior in (("plain", None), ("auto", "auto"), ("own", np.eye(N_FEATURES)[0])):
        model.add_task(
            name,
            new,
            y,
            eval_set=(new, y),
            early_stopping_rounds=None,
            specific_rounds=12,
            feature_prior=prior,
            n_threads=1,
        )
    gains = model.common.get_score(importance_type="total_gain")
    values = np.array([gains.get(f"f{feature}", 0.0) for feature in range(N_FEATURES)])
    for name, weights, fraction in (
        ("plain", None, 1.0),
        ("auto", scaled(values / values.sum()), 4.5 / N_FEATURES),
        ("own", scaled(np.eye(N_FEATURES)[0]), 4.5 / N_FEATURES),
    ):
        expected = stock_specific(model, weights, fraction, X=new, y=y)
        assert trees(model.specific[name]) == trees(expected)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("prior", "options", "error", "message"),
    [
        ("gain", {}, ParameterError, "must be None, 'auto' or importances, found 'gain'"),
        (np.ones(3), {}, DataError, "prior has 3 values, but there are 16 features"),
        ({"x1": 1.0}, {}, DataError, "prior has names, but the columns have none"),
        ([-1.0] * 16, {}, DataError, "must be finite and not negative"),
        (
            "auto",
            {"params": {"colsample_bynode": 1}},
            ParameterError,
            "colsample_bynode=1 considers",
        ),
        (
            np.ones(16),
            {"specific_params": {"colsample_bynode": 1.0}},
            ParameterError,
            "colsample_bynode=1 considers",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_training(prior, options, error, message):
    def untouched(*_):
        raise AssertionError

    with pytest.raises(error, match=message):
        fitted(feature_prior=prior, objective=untouched, eval_metric="rmse", **options)
    if not options:
        model = fitted()
        with pytest.raises(error, match=message):
            model.add_task("new", X, Y, feature_prior=prior)
        assert model.tasks == ("a", "b")


@pytest.mark.parametrize("prior", ["auto", np.ones(N_FEATURES)])
def test_lightgbm_draws_no_features_by_weight(prior):
    message = "LightGBM draws all alike: use backend='xgboost'"
    with pytest.raises(UnsupportedError, match=message):
        fitted(feature_prior=prior, backend="lightgbm")
    model = fitted(backend="lightgbm")
    with pytest.raises(UnsupportedError, match=message):
        model.add_task("new", X, Y, feature_prior=prior)
