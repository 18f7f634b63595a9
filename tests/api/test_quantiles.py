# SPDX-License-Identifier: Apache-2.0
"""Quantile regression through both stages: one level with either library, several with XGBoost."""

import numpy as np
import pytest
import xgboost
from libraries import LIBRARIES
from sklearn.metrics import mean_pinball_loss

import mtboost
from mtboost import MultiTaskRegressor
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.xgboost.library import version

RNG = np.random.default_rng(0)
N, N_TASKS = 600, 4
X = RNG.normal(size=(N, 3)).round(2)
TASK = np.arange(N) % N_TASKS
SPREAD = 0.5 + TASK  # the tasks differ in their quantiles, not in their medians
Y = (X[:, 0] + SPREAD * RNG.normal(size=N)).astype(np.float32)
LEVELS = [0.1, 0.5, 0.9]
KINDS = {
    "one level": {"objective": "reg:quantileerror", "params": {"quantile_alpha": 0.9}},
    "three levels": {"objective": "reg:quantileerror", "params": {"quantile_alpha": LEVELS}},
    "lightgbm": {"objective": "quantile", "params": {"alpha": 0.9}, "backend": "lightgbm"},
}
each_kind = pytest.mark.parametrize("kind", KINDS)
#: XGBoost grows Newton steps of a smoothed loss, and sorts the levels that it predicts.
IS_SMOOTHED = version() >= (3, 4)


def fitted(kind, **options):
    own = KINDS[kind]
    params = {"max_depth": 2, "learning_rate": 0.3, **own["params"], **options.pop("params", {})}
    fixed = {"task": TASK, "num_boost_round": 8, "specific_rounds": 4, "early_stopping_rounds": 2}
    fixed |= {"strategy": "two-stage", "effort": "fast", "n_threads": 1}
    return mtboost.fit(X, Y, **{**fixed, **own, **options, "params": params})


def levels_of(kind):
    return LEVELS if kind == "three levels" else [0.9]


def pinball(kind, prediction, y=Y):
    columns = np.reshape(prediction, (len(y), -1)).T
    levels = levels_of(kind)
    losses = [mean_pinball_loss(y, q, alpha=a) for q, a in zip(columns, levels, strict=True)]
    return np.mean(losses)


@each_kind
@pytest.mark.parametrize("strategy", ["two-stage", "auto"])
def test_a_model_predicts_better_than_the_quantiles_of_all_rows(kind, strategy):
    model = fitted(kind, strategy=strategy, num_boost_round=60, pooling=5.0)
    prediction = model.predict(X, task=TASK)
    assert prediction.shape == ((N, 3) if kind == "three levels" else (N,))
    constant = np.tile(np.quantile(Y, levels_of(kind)), (N, 1))
    assert pinball(kind, prediction) < 0.85 * pinball(kind, constant)
    assert model.metric == "quantile@" + ",".join(map(str, levels_of(kind)))


@each_kind
@pytest.mark.parametrize("split_score", ["plain", "variance", "entropy"])
@pytest.mark.parametrize("pooling", [None, 3.0])
def test_a_tasks_booster_and_a_saved_model_predict_alike(kind, split_score, pooling, tmp_path):
    model = fitted(kind, split_score=split_score, pooling=pooling)
    expected = model.predict(X, task=TASK)
    library = LIBRARIES[model.backend]
    for task in range(N_TASKS):
        own = task == TASK
        found = library.margins(model.booster(task), X[own])
        np.testing.assert_allclose(found, expected[own], atol=library.atol)
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(again.predict(X, task=TASK), expected)


@pytest.mark.parametrize("kind", ["one level", "three levels"])
def test_without_tasks_the_common_model_is_that_of_xgboost(kind):
    model = fitted(kind, split_score="plain", specific_rounds=0, validation_fraction=0)
    params = {**model.params, "nthread": 1}
    stock = xgboost.train(params, xgboost.QuantileDMatrix(X, Y), 8)
    np.testing.assert_array_equal(
        model.predict(X, task=TASK), stock.predict(xgboost.DMatrix(X)).reshape(N, -1).squeeze()
    )


# ---- pooled leaves -------------------------------------------------------------------------------


def twin(levels, kappa, learning_rate, rounds, structure, rule):
    """Margins of each row after rounds of trees whose rows share leaves as in `structure`.

    `structure` has the leaf of each row in each tree; `rule` is NumPy's of percentiles.
    """
    margins = np.quantile(Y.astype(np.float64), levels, method=rule)
    margins = np.tile(np.atleast_1d(margins), (N, 1))
    for number in range(rounds * len(levels)):
        level, output = levels[number % len(levels)], number % len(levels)
        steps = np.empty(N)
        for leaf in np.unique(structure[:, number]):
            rows = np.flatnonzero(structure[:, number] == leaf)
            residuals = Y[rows] - margins[rows, output]
            pooled = np.quantile(residuals, level, method=rule)
            for task in np.unique(TASK[rows]):
                own = residuals[TASK[rows] == task]
                share = len(own) / (len(own) + kappa)
                value = pooled + share * (np.quantile(own, level, method=rule) - pooled)
                steps[rows[TASK[rows] == task]] = learning_rate * value
        margins[:, output] += steps
    return margins


@each_kind
def test_pooled_leaves_are_percentiles_shrunk_by_a_number_of_rows(kind):
    if IS_SMOOTHED and kind != "lightgbm":
        pytest.skip("since XGBoost 3.4 leaves are Newton steps")
    options = {"specific_rounds": 0, "validation_fraction": 0, "split_score": "plain"}
    model = fitted(kind, pooling=7.0, num_boost_round=3, **options)
    if kind == "lightgbm":
        structure, rule = model.common.predict(X, pred_leaf=True), "linear"
    else:
        structure, rule = model.common.predict(xgboost.DMatrix(X), pred_leaf=True), "weibull"
    expected = twin(levels_of(kind), 7.0, 0.3, 3, structure.astype(int), rule)
    # A percentile of float32 residuals; later trees start from these.
    found = model.predict(X, task=TASK).reshape(N, -1)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_the_estimated_pooling_is_about_the_ratio_of_the_variances():
    # Tasks whose labels are shifted by tau: the percentile of n rows has the variance
    # a (1 - a) / (n f²) with f the density at it, so that kappa is a (1 - a) / (f tau)².
    rng = np.random.default_rng(1)
    task = rng.integers(0, 200, 6000)
    y = rng.normal(0.0, 0.5, 200)[task] + rng.normal(size=6000)
    model = mtboost.fit(
        np.zeros((6000, 1)), y, task=task, objective="reg:quantileerror",
        params={"quantile_alpha": 0.9}, strategy="two-stage", split_score="plain",
        pooling="auto", num_boost_round=1, specific_rounds=0, validation_fraction=0,
    )  # fmt: skip
    density = 0.1755  # of the standard normal at its .9 quantile, 1.2816
    expected = 5.0 * 0.9 * 0.1 / (density * 0.5) ** 2  # "auto" takes five times the estimate
    # 200 effects give their variance to about 10 %, and the slope of the distribution function is
    # not constant over 1.1 tau.
    assert model.common_trees.pooled.pooling == pytest.approx(expected, rel=0.5)


# ---- several levels ------------------------------------------------------------------------------


def test_sorted_levels_are_the_same_numbers_in_order_and_not_worse():
    order = [0, 1, 2] if IS_SMOOTHED else [1, 0, 2]  # of the levels, which 3.4 wants ascending
    params = {"quantile_alpha": [0.45, 0.5, 0.55] if IS_SMOOTHED else [0.5, 0.45, 0.55]}
    model = fitted("three levels", params={**params, "max_depth": 4}, num_boost_round=40)
    crossing = model.predict_margin(X, task=TASK)
    as_it_is, found = (model.predict(X, task=TASK, sort_levels=is_on) for is_on in (False, True))
    np.testing.assert_array_equal(as_it_is, found if IS_SMOOTHED else crossing)
    exported = model.booster(0).predict(xgboost.DMatrix(X[TASK == 0]))
    np.testing.assert_array_equal(as_it_is[TASK == 0], exported)
    ascending = found[:, order]
    assert (np.diff(crossing[:, order], axis=1) < 0).any()
    assert (np.diff(ascending, axis=1) >= 0).all()
    np.testing.assert_array_equal(np.sort(crossing, axis=1), ascending)

    def total(prediction):
        levels = params["quantile_alpha"]
        return sum(mean_pinball_loss(Y, prediction[:, i], alpha=a) for i, a in enumerate(levels))

    assert total(found) <= total(crossing)


def test_columns_of_predictions_are_named_by_the_levels():
    levels = [0.1, 0.9] if IS_SMOOTHED else [0.9, 0.1]
    model = fitted("three levels", params={"quantile_alpha": levels})
    expected = model.predict(X, task=TASK)
    found = model.predict(X, task=TASK, output="pandas")
    assert found.columns.tolist() == levels
    np.testing.assert_array_equal(found[0.1], expected[:, levels.index(0.1)])
    assert model.predict(X, task=TASK, output="polars").columns == list(map(str, levels))


@pytest.mark.skipif(not IS_SMOOTHED, reason="before XGBoost 3.4 levels may have any order")
def test_levels_that_do_not_ascend_are_refused():
    with pytest.raises(ParameterError, match="quantile_alpha must be ascending"):
        fitted("three levels", params={"quantile_alpha": [0.9, 0.1]})


def test_levels_of_a_model_without_several_cannot_be_sorted():
    with pytest.raises(ParameterError, match="sort_levels=True needs .* several levels"):
        fitted("one level").predict(X, task=TASK, sort_levels=True)


def test_each_level_is_that_of_a_model_of_its_own():
    # Same trees as alone: levels share nothing but the number of rounds.
    options = {"specific_rounds": 0, "validation_fraction": 0, "pooling": 4.0}
    together = fitted("three levels", **options).predict(X, task=TASK)
    for column, level in enumerate(LEVELS):
        alone = fitted("one level", params={"quantile_alpha": level}, **options)
        np.testing.assert_array_equal(alone.predict(X, task=TASK), together[:, column])


@pytest.mark.parametrize("given", ["[0.1, 0.5, 0.9]", np.array(LEVELS), tuple(LEVELS)])
def test_levels_may_be_a_text_or_an_array(given):
    model = fitted("three levels", params={"quantile_alpha": given})
    assert model.params["quantile_alpha"] == LEVELS


# ---- changes and estimators ----------------------------------------------------------------------


@each_kind
def test_a_model_is_updated_refreshed_averaged_and_extended(kind):
    model = fitted(kind)
    shape = model.predict(X, task=TASK).shape
    assert model.update(X, Y, task=TASK, n_threads=1).predict(X, task=TASK).shape == shape
    refreshed = model.refresh(X, Y, task=TASK, n_threads=1)
    assert pinball(kind, refreshed.predict(X, task=TASK)) < 1.05 * pinball(
        kind, model.predict(X, task=TASK)
    )
    averaged = mtboost.average_models([model, model])
    if kind == "three levels":
        assert (np.diff(averaged.predict(X, task=TASK, sort_levels=True), axis=1) >= 0).all()
    mean = averaged.predict(X, task=TASK)
    np.testing.assert_allclose(mean, model.predict(X, task=TASK), rtol=1e-5, atol=1e-6)
    model.add_task(99, X[:100], Y[:100] + 10, n_threads=1)
    assert model.predict({99: X})[99].shape == shape


@each_kind
def test_the_levels_of_a_model_stay(kind):
    model = fitted(kind)
    name = "alpha" if kind == "lightgbm" else "quantile_alpha"
    for change in (
        lambda: model.update(X, Y, task=TASK, params={name: 0.3}),
        lambda: model.add_task(99, X, Y, params={name: 0.3}),
    ):
        with pytest.raises(ParameterError, match=f"params has {name}=0.3, but the model predicts"):
            change()


@each_kind
def test_an_estimator_predicts_what_fit_does(kind):
    own = dict(KINDS[kind])
    estimator = MultiTaskRegressor(
        n_estimators=8, strategy="two-stage", n_jobs=1, random_state=0, **own
    ).fit(X, Y, task=TASK)
    found = estimator.predict(X, task=TASK)
    np.testing.assert_array_equal(found, estimator.model_.predict(X, task=TASK))
    if kind == "three levels":
        in_order = estimator.predict(X, task=TASK, sort_levels=True)
        np.testing.assert_array_equal(in_order, np.sort(found, axis=1))
        with pytest.raises(UnsupportedError, match="several levels"):
            estimator.score(X, Y, task=TASK)
    else:
        assert np.isfinite(estimator.score(X, Y, task=TASK))


@each_kind
def test_a_model_is_evaluated_by_pinball_loss(kind):
    model = fitted(kind)
    table = model.evaluate(X, Y, task=TASK)
    prediction = model.predict(X, task=TASK)
    for task in range(N_TASKS):
        own = task == TASK
        expected = pinball(kind, prediction[own], Y[own])
        assert table.loc[task, model.metric] == pytest.approx(expected, rel=1e-6)
    assert "rmse" not in table
    assert list(model.report().index) == list(range(N_TASKS))


# ---- what is refused -----------------------------------------------------------------------------

REFUSED = {
    "no level": ({"params": {}}, ParameterError, "params lacks 'quantile_alpha'"),
    "level 1": ({"params": {"quantile_alpha": [0.5, 1]}}, ParameterError, "between 0 and 1"),
    "a word": ({"params": {"quantile_alpha": "high"}}, ParameterError, "between 0 and 1"),
    "a metric of one number": ({"eval_metric": "mae"}, ParameterError, "3 quantiles per row"),
    "another number of levels": (
        {"eval_metric": "quantile@0.1,0.9"}, ParameterError, "choose 'quantile@0.1,0.5,0.9'",
    ),
    "levels of specific models": (
        {"specific_params": {"quantile_alpha": 0.5}}, ParameterError, "leave it out",
    ),
    "intervals": ({"intervals": True}, UnsupportedError, "around one prediction a row"),
    "linear effects": ({"linear_effects": True}, ParameterError, "objective must be one of"),
    "each task": (
        {"objective": dict.fromkeys(range(N_TASKS), "reg:quantileerror")},
        ParameterError, "cannot be mixed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_quantiles_cannot_have_is_refused(options, error, message):
    given = {"task": TASK, "strategy": "two-stage", **KINDS["three levels"], **options}
    with pytest.raises(error, match=message):
        mtboost.fit(X, Y, **given)


def test_models_of_different_levels_have_no_mean():
    models = [fitted("one level"), fitted("one level", params={"quantile_alpha": 0.5})]
    with pytest.raises(DataError, match=r"levels \[0.5\], and models\[0\] \[0.9\]"):
        mtboost.average_models(models)


def test_a_booster_of_all_tasks_has_one_level():
    with pytest.raises(UnsupportedError, match="several levels"):
        fitted("three levels").booster()


@pytest.mark.skipif(not IS_SMOOTHED, reason="before XGBoost 3.4 leaves are percentiles")
def test_an_objective_for_xgboost_trains_what_xgboost_does():
    matrix = xgboost.QuantileDMatrix(X, Y, nthread=1)
    params = {"objective": "reg:quantileerror", "quantile_alpha": 0.9, "base_score": 0.5}
    params |= {"max_depth": 2, "nthread": 1}
    objective = mtboost.xgboost.TaskObjective("reg:quantileerror", TASK, quantile_alpha=[0.9])
    found, expected = (xgboost.train(params, matrix, 5, obj=obj) for obj in (objective, None))
    np.testing.assert_array_equal(found.predict(matrix), expected.predict(matrix))


@pytest.mark.skipif(IS_SMOOTHED, reason="since XGBoost 3.4 leaves are Newton steps")
def test_an_objective_for_xgboost_is_refused():
    with pytest.raises(UnsupportedError, match="another rule than the gradients"):
        mtboost.xgboost.TaskObjective("reg:quantileerror", TASK, quantile_alpha=[0.5])
