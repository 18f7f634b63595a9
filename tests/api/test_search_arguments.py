# SPDX-License-Identifier: Apache-2.0
"""fit(strategy="auto"): arguments are kept, and reports say what was tried."""

import numpy as np
import pytest
from shared_tasks import (
    N_TASKS,
    OPTIONS,
    OUTLIER,
    QUICK,
    SAME,
    SAMPLING,
    UNRELATED,
    fitted,
    rmse,
    task_of_rows,
    tasks_of,
    tried,
)
from sklearn.metrics import mean_squared_error

from mtboost.base.dataset import Dataset
from mtboost.base.validation import hold_out
from mtboost.errors import ParameterError
from mtboost.metrics import Metric
from mtboost.model.sharing import common_by_fold

# What the user fixes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixed", "in_all", "in_none"),
    [
        ({"pooling": 3.0}, "given pooling", "pooled"),
        ({"pooling": "auto"}, "given pooling", "pooled"),
        ({"pooling": np.inf}, "pooled", "pooling"),
        ({"task_splits": True}, "given task splits", "descriptors"),
        ({"task_splits": "descriptors"}, "given task splits", "few"),
        ({"task_splits": False}, "", "task splits"),
        ({"symmetric_trees": True, "random_strength": 0.5}, "random strength 0.5", "strength 1"),
        ({"symmetric_trees": True}, "symmetric", "none"),
        ({"symmetric_trees": False, "params": {}}, "depth", "symmetric"),
        ({"split_score": "entropy", "params": {}}, "depth", "symmetric"),
        ({"split_score": "entropy"}, "given size", "task splits"),
    ],
)
def test_what_is_fixed_is_not_searched(library, fixed, in_all, in_none):
    model, names = tried(library, **fixed)
    assert len(names) > 1 or "pooling" in fixed
    for name in names:
        assert in_all in name
        assert in_none not in name
    if fixed.get("pooling") == 3.0:
        assert model.common_trees.pooled.pooling == 3.0


def test_learning_rates_may_be_tiny_and_texts_but_not_zero(library):
    """Rounds in large steps are many times as many in tiny ones."""
    data = tasks_of(SAME, n_each=40)

    def with_rate(rate):
        params = {**OPTIONS["params"], "learning_rate": rate}
        return fitted(library, data, params=params, num_boost_round=20)

    model = with_rate(1e-12)  # linear effects may come before the rounds
    assert len(model.history[0]["common"]) <= 21 + model.common_trees.n_linear
    text, number = (with_rate(rate).predict(data[0], task=data[2]) for rate in ("0.1", 0.1))
    np.testing.assert_array_equal(text, number)
    with pytest.raises(
        ParameterError, match=r"learning_rate (is 0, but strategy='auto'|must be > 0)"
    ):
        with_rate(0)


def test_a_noise_that_is_fixed_is_tried_beside_ordinary_trees(library):
    _, names = tried(library, random_strength=0.5, linear_effects=False)
    symmetric = [name for name in names if "symmetric" in name]
    assert symmetric
    assert all("random strength 0.5" in name for name in symmetric)
    assert len(symmetric) < len(names)


def test_a_split_score_that_is_fixed_is_used(library):
    few = {"linear_effects": False}
    plain, expected = tried(library, tasks_of(UNRELATED), task_splits=False, **few)
    model, names = tried(library, tasks_of(UNRELATED), split_score="entropy", **few)
    assert names == expected
    assert model.common_losses[names[0]] != plain.common_losses[names[0]]


def test_a_metric_that_is_fixed_decides(library):
    data, few = tasks_of(OUTLIER), {"linear_effects": False}
    model, names = tried(library, data, eval_metric="mae", **few)
    by_default, _ = tried(library, data, **few)
    assert model.metric == "mae"
    assert {"mae common", "mae final"} <= set(model.report().columns)
    same = {"given size, pooled", "given size, pooling 2"} & set(names)
    assert same
    for name in same:  # mean absolute errors and mean squares of the same models
        assert model.common_losses[name] != pytest.approx(by_default.common_losses[name], rel=0.1)


@pytest.mark.parametrize("effort", ["balanced", "thorough"])
def test_a_metric_that_is_no_mean_is_reported_and_does_not_decide(library, effort):
    X, y, task = tasks_of(OUTLIER)
    data = X, (y > np.median(y)).astype(float), task
    told = []
    options = {**QUICK, "effort": effort, "eval_set": (X[::3], data[1][::3], task[::3])}
    if effort == "thorough":  # balanced searches try linear effects, too
        options["linear_effects"] = False
    model = fitted(
        library, data, eval_metric="auc", on_round=lambda *own: told.append(own), **options
    )
    by_loss = fitted(library, data, **options)
    assert model.common_losses == by_loss.common_losses
    assert np.array_equal(model.predict(X, task=task), by_loss.predict(X, task=task))
    report, curves = model.report(), model.history
    assert model.metric == "auc"
    followers = [code for code in range(N_TASKS) if model.quit_round[code]]
    assert len(followers) > 3
    for code in followers:
        common = report["auc common"][code]
        assert common == pytest.approx(curves[code]["common"][model.quit_round[code]], abs=0.02)
        assert 0.5 < common <= 1.0
    assert told[-1][1].keys() == set(range(N_TASKS))
    assert told[-1][1][0] > 0.5


def test_a_metric_of_the_user_is_reported_with_and_without_weights(library):
    X, y, task = tasks_of(SAME)
    metric = Metric("own", lambda y, p: mean_squared_error(y, p), greater_is_better=False)
    options = {**QUICK, "effort": "fast", "linear_effects": False}
    report = fitted(library, (X, y, task), eval_metric=metric, **options).report()
    by_default = fitted(library, (X, y, task), **options).report()
    np.testing.assert_allclose(report["own common"], by_default["rmse common"] ** 2, rtol=1e-4)
    weighted = Metric("own", mean_squared_error, greater_is_better=False)
    options |= {"eval_metric": weighted, "weight": np.ones(len(y))}
    again = fitted(library, (X, y, task), **options).report()
    np.testing.assert_allclose(again["own common"], report["own common"])


def test_gradients_of_the_users_own_are_searched_with(library):
    def squared(margins, data):
        return margins - data.get_label(), np.ones_like(margins)

    model = fitted(library, tasks_of(OUTLIER), objective=squared)
    assert len(model.common_losses) > 3
    # Functions have neither linear effects nor a start score.
    named = fitted(library, tasks_of(OUTLIER), linear_effects=False)
    assert rmse(model, OUTLIER).mean() < 1.5 * rmse(named, OUTLIER).mean()


@pytest.mark.parametrize("size", [{}, {"max_depth": 3}])
def test_parameters_that_are_fixed_are_those_of_a_tasks_own_models_too(library, size, monkeypatch):
    seen = []

    def watched(stages, *args, **options):
        seen.append({**stages.params, **stages.specific_params})
        return fit_specific(stages, *args, **options)

    fit_specific = common_by_fold.fit_specific
    monkeypatch.setattr(common_by_fold, "fit_specific", watched)
    penalty = {"xgboost": "reg_lambda", "lightgbm": "lambda_l2"}[library.name]
    params = {"learning_rate": 0.3, penalty: 2.0, **size, **SAMPLING[library.name]}
    fitted(library, tasks_of(UNRELATED), **{**QUICK, "params": params}, linear_effects=False)
    assert {(own["learning_rate"], own[penalty]) for own in seen} == {(0.3, 2.0)}
    assert (1 in {own["max_depth"] for own in seen}) == (not size)  # stumps


def test_without_refit_the_final_model_is_one_of_the_training_rows(library):
    X, y, task = tasks_of(OUTLIER)
    data = Dataset(X, y, task=task)
    train, valid = hold_out(data, 0.2, False, 0)
    of_rows = [(part.common.native, part.labels(), task_of_rows(part)) for part in (train, valid)]
    fast = {"effort": "fast", "linear_effects": False}
    one, _ = tried(library, (X, y, task), refit=False, **fast)
    same, _ = tried(library, of_rows[0], eval_set=of_rows[1], **fast)
    assert library.raw(one.booster(0)) == library.raw(same.booster(0))
    other, _ = tried(library, (X, y, task), refit=True, **fast)
    default, _ = tried(library, (X, y, task), **fast)
    assert library.raw(other.booster(0)) == library.raw(default.booster(0))
    assert library.raw(other.booster(0)) != library.raw(one.booster(0))


def test_monotone_constraints_hold_for_what_the_search_finds(library):
    params = {**OPTIONS["params"], "monotone_constraints": (0, 1, 0)}
    model, names = tried(library, params=params)
    assert any("pooling" in name for name in names)
    X = np.full((50, 3), 0.5)
    X[:, 1] = np.linspace(0, 1, 50)
    assert (np.diff(model.predict({0: X})[0]) >= -1e-6).all()


# Reports ------------------------------------------------------------------------------------------


def test_histories_are_those_that_the_scores_are_read_from(library, monkeypatch):
    monkeypatch.setattr("mtboost.model.sharing.evidence.Evidence.better_alone", lambda *_: [])
    model = fitted(library, tasks_of(UNRELATED), pooling=np.inf, task_splits=False)
    assert (model.report()["sharing"] != "common").any()
    for name, report in model.reports.items():
        common, specific = model.history[name].values()
        if report.sharing != "independent":  # which uses no common rounds
            assert common[report.quit_round] == pytest.approx(report.scores["common"])
        if report.sharing == "common + specific":
            score = report.scores["common + specific"]
            assert specific[report.specific_rounds] == pytest.approx(score)
        assert report.scores["final"] == report.scores[report.sharing]


def test_histories_of_other_steps_are_not_told(library, monkeypatch):
    monkeypatch.setattr(
        "mtboost.model.sharing.evidence.Evidence.ways",
        lambda self: dict.fromkeys(range(N_TASKS), "independent"),
    )
    data = tasks_of(SAME)  # of which independent models are far from the common one
    few = {"linear_effects": False, "early_stopping_rounds": 3}
    params = {**OPTIONS["params"], "learning_rate": 0.02}
    model = fitted(library, data, params=params, num_boost_round=200, **few)
    assert all(report.specific_rounds for report in model.reports.values())
    curves = [report.specific_history for report in model.reports.values()]
    assert not any(curve.size for curve in curves)
    model = fitted(library, data, **few)
    assert all(report.specific_history.size for report in model.reports.values())


@pytest.mark.parametrize("way", ["common", "common + specific", "averaged", "independent"])
def test_histories_are_drawn(library, way, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setattr(
        "mtboost.model.sharing.evidence.Evidence.ways",
        lambda self: dict.fromkeys(range(N_TASKS), way),
    )
    monkeypatch.setattr("mtboost.model.sharing.evidence.Evidence.better_alone", lambda *_: [])
    model, _ = tried(library, effort="fast")
    axes = model.plot_history()
    assert len(axes.get_legend().get_texts()) == N_TASKS
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert len(dashed) == (0 if way == "common" else N_TASKS)
    if dashed:
        starts_late = way == "common + specific"
        assert (min(line.get_xdata()[0] for line in dashed) > 0) == starts_late


def test_the_rounds_of_the_chosen_common_model_are_told_once(library):
    told = []
    data = tasks_of(OUTLIER)
    model, _ = tried(
        library, data, on_round=lambda *of_round: told.append(of_round), linear_effects=False
    )
    assert [n_rounds for n_rounds, _ in told] == list(range(1, len(told) + 1))
    _, scores = told[max(model.quit_round.values()) - model.common_trees.n_linear - 1]
    assert scores[0] == pytest.approx(model.reports[0].scores["common"])
