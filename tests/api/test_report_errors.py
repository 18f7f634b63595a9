# SPDX-License-Identifier: Apache-2.0
"""Standard errors of the validation scores in ``report()``."""

import numpy as np
import pytest

import mtboost
from mtboost.metrics import Metric

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 4))
SHOP = RNG.choice(["a", "b", "c"], 900, p=[0.6, 0.3, 0.1])
Y = X[:, 0] + (SHOP == "b") * X[:, 1] + RNG.normal(size=900)
WEIGHT = RNG.integers(0, 3, 900).astype(np.float64)
IS_TRAIN = np.arange(900) < 600
TRAIN, VALID = ((X[own], Y[own], SHOP[own], WEIGHT[own]) for own in (IS_TRAIN, ~IS_TRAIN))
TWO_STAGE = {"strategy": "two-stage", "num_boost_round": 10, "specific_rounds": 5, "refit": False}


def fitted(y_of=lambda y: y, weighted=False, **options):
    (X, y, shop, weight), (*valid, valid_weight) = TRAIN, VALID
    rows = {"weight": weight} if weighted else {}
    valid[1] = y_of(valid[1])
    eval_set = (*valid, valid_weight) if weighted else tuple(valid)
    return mtboost.fit(X, y_of(y), task=shop, eval_set=eval_set, **rows, **options)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("metric", "y_of"), [("rmse", lambda y: y), ("mae", lambda y: y), ("auc", lambda y: y > 0.5)]
)
def test_the_error_of_two_stages_is_that_of_evaluate(library, metric, y_of, weighted):
    if metric == "auc":
        name = {"xgboost": "binary:logistic", "lightgbm": "binary"}[library.name]
        objective = {"objective": name}
    else:
        objective = {}
    options = TWO_STAGE | {"backend": library.name, "eval_metric": metric} | objective
    model = fitted(y_of, weighted, **options)
    X, y, shop, weight = VALID
    rows = {"weight": weight} if weighted else {}
    expected = model.evaluate(X, y_of(y), task=shop, metrics=metric, **rows)
    found = model.report()
    for task in model.tasks:
        assert found.loc[task, f"{metric} final"] == pytest.approx(expected.loc[task, metric])
        error = expected.loc[task, f"{metric} se"]
        assert error > 0
        assert found.loc[task, f"{metric} final se"] == pytest.approx(error, rel=1e-4)


def test_the_error_of_a_searched_model_is_about_that_of_evaluate():
    model = fitted(strategy="auto", effort="fast", refit=False)
    X, y, shop, _ = VALID
    expected = model.evaluate(X, y, task=shop, metrics="rmse")["rmse se"]
    found = model.report()["rmse final se"]
    for task in model.tasks:
        assert found[task] == pytest.approx(expected[task], rel=0.2)


def test_the_error_of_a_searched_ranking_is_that_of_its_queries():
    (X, y, shop, _), (X_valid, y_valid, shop_valid, _) = TRAIN, VALID
    grades, queries = np.clip(np.round(y) + 1, 0, 3), np.unique(shop, return_inverse=True)[1] * 100
    queries += np.arange(len(y)) // 6 % 60
    valid_queries = np.unique(shop_valid, return_inverse=True)[1] * 100 + np.arange(300) // 6
    valid = X_valid, np.clip(np.round(y_valid) + 1, 0, 3), shop_valid
    model = mtboost.fit(
        *(X, grades),
        task=shop,
        qid=queries,
        eval_set=(*valid, None, None, valid_queries),
        objective="rank:ndcg",
        eval_metric=["ndcg@3", "ndcg"],
        effort="fast",
        refit=False,
    )
    expected = model.evaluate(
        *valid[:2], task=valid[2], qid=valid_queries, metrics=["ndcg@3", "ndcg"]
    )
    found = model.report()
    for task in model.tasks:
        for metric in ("ndcg@3", "ndcg"):
            error = expected.loc[task, f"{metric} se"]
            assert error > 0
            assert found.loc[task, f"{metric} final se"] == pytest.approx(error, rel=0.2)


@pytest.mark.parametrize("options", [TWO_STAGE, {"strategy": "auto", "effort": "fast"}], ids=str)
def test_other_metrics_are_reported_and_change_nothing(options, tmp_path):
    def y_of(y):
        return (y > 0.5).astype(int)

    metrics = ["auc", "average_precision", "neg_brier_score", "logloss"]
    model = fitted(y_of, eval_metric=metrics, **options)
    X, y, shop, _ = VALID
    margins = model.predict_margin(X, task=shop)
    alone = fitted(y_of, eval_metric="logloss", **options)
    np.testing.assert_array_equal(alone.predict_margin(X, task=shop), margins)
    if options is TWO_STAGE:  # the model was judged as it is
        expected = model.evaluate(X, y_of(y), task=shop, metrics=metrics[:3], n_bootstrap=2)
        for metric in metrics[:3]:
            found = model.report()[f"{metric} final"]
            np.testing.assert_allclose(found, expected.loc[list(model.tasks), metric], rtol=1e-5)
    assert (model.report()["auc final se"] > 0).all()
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model").report()
    assert list(loaded.columns) == list(model.report().columns)
    np.testing.assert_array_equal(loaded["auc final"], model.report()["auc final"])


@pytest.mark.parametrize("metric", ["wape", "mape", "r2"])
def test_training_ends_by_a_relative_error_or_a_scorer(library, metric):
    options = TWO_STAGE | {"backend": library.name, "eval_metric": metric}
    model = fitted(lambda y: y + 9.0, **options)
    assert model.metric == metric
    X, y, shop, _ = VALID
    found = model.report()[f"{metric} final"]
    expected = model.evaluate(X, y + 9.0, task=shop, metrics=metric, n_bootstrap=2)[metric]
    np.testing.assert_allclose(found, expected[list(model.tasks)], rtol=1e-5)


def test_errors_are_left_out_without_validation_rows_or_a_formula(tmp_path):
    (X, y, shop, _), none = TRAIN, {"validation_fraction": 0, "early_stopping_rounds": None}
    options = {"strategy": "two-stage", "num_boost_round": 5}
    model = mtboost.fit(X, y, task=shop, **options, **none)
    assert not [name for name in model.report() if name.endswith(" se")]
    largest = Metric("largest", lambda y, p: float(np.abs(y - p).max()), greater_is_better=False)
    model = fitted(**options, eval_metric=largest)
    assert "largest final" in model.report()
    assert not [name for name in model.report() if name.endswith(" se")]


def test_errors_are_in_the_file_and_not_in_a_mean_of_models(tmp_path):
    model = fitted(**TWO_STAGE)
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    assert loaded.report().equals(model.report())
    assert "rmse final se" in loaded.report()
    mean = mtboost.average_models([model, fitted(**TWO_STAGE, seed=1)])
    assert "rmse final" in mean.report()
    assert "rmse final se" not in mean.report()
