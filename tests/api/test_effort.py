# SPDX-License-Identifier: Apache-2.0
"""fit(strategy="auto"): which settings and rows an effort compares, and for how long."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from shared_tasks import (
    N_TASKS,
    OPTIONS,
    OUTLIER,
    QUICK,
    SAME,
    SAMPLING,
    UNRELATED,
    fitted,
    limit,
    rmse,
    rmse_of,
    tasks_of,
    wave,
)

import mtboost
from mtboost.errors import ParameterError
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.sharing import effort as effort_module
from mtboost.model.sharing import planning
from mtboost.model.sharing import search as search_module
from mtboost.model.sharing.effort import EFFORTS
from mtboost.model.sharing.plan import SharingPlan
from mtboost.model.sharing.search import search


def test_settings_are_compared_in_large_steps_and_the_best_is_trained_in_small_ones(library):
    small = {**OPTIONS["params"], "learning_rate": 0.02}
    options = {"num_boost_round": 200, "early_stopping_rounds": 5, "linear_effects": False}
    model = fitted(library, tasks_of(SAME), params=small, **options)
    # 40 rounds in large steps; the losses of those are not told again.
    assert model.report()["quit_round"].max() > 40
    assert len(model.common_losses) <= 12


def test_more_rows_have_deeper_trees_unless_there_are_many_tasks():
    effort = EFFORTS["balanced"]
    assert effort.for_rows(effort.most_rows, 2) is effort
    depths = [effort.for_rows(1_000_000, n_tasks).depths for n_tasks in (2, 900, 1000)]
    assert depths == [(4, 6, 8), (4, 6, 8), (4, 6)]
    assert EFFORTS["fast"].for_rows(1_000_000, 100_000).depths == (4,)


def test_deeper_trees_are_tried_where_the_deepest_are_best(library, monkeypatch):
    limit(monkeypatch, depths=(1, 2), n_tasks=2)
    data = tasks_of([wave, wave], n_each=1300)
    options = {"params": {"learning_rate": 0.3}, "num_boost_round": 15, "linear_effects": False}
    names = fitted(library, data, **options).common_losses
    depths = {part for name in names for part in name.split(", ") if part.startswith("depth ")}
    assert depths == {"depth 1", "depth 2", "depth 4", "depth 6", "depth 8"}


@pytest.mark.parametrize(("effort", "most"), [("fast", 10), ("balanced", 22), ("thorough", 50)])
def test_more_effort_compares_more_settings(library, effort, most):
    options = {"params": {}, "num_boost_round": 40, "early_stopping_rounds": 3, "effort": effort}
    losses = fitted(library, tasks_of(OUTLIER, n_each=60), **options).common_losses
    assert most / 3 < len(losses) <= most


def test_rounds_found_in_large_steps_are_multiplied(library):
    small = {**OPTIONS["params"], "learning_rate": 0.05}  # a fourth of the search's
    options = {"params": small, "num_boost_round": 400, "linear_effects": False, "refit": False}
    model = fitted(library, tasks_of(SAME), **options)
    report, curve = model.report(), model.history[0]["common"]
    n_rounds = report["quit_round"][0]
    assert n_rounds % 4 == 0
    assert library.n_rounds(model.common) == n_rounds
    assert curve[n_rounds] == pytest.approx(report["rmse common"][0], rel=1e-5)
    assert np.array_equal(curve[1:].reshape(-1, 4), np.repeat(curve[4::4], 4).reshape(-1, 4))


@pytest.mark.parametrize("learning_rate", [0.03, 0.07])
def test_large_steps_need_not_be_multiples_of_small_ones(library, learning_rate):
    small = {**OPTIONS["params"], "learning_rate": learning_rate}
    options = {"num_boost_round": 400, "linear_effects": False, "refit": False}
    model = fitted(library, tasks_of(SAME), params=small, **options)
    curve = model.history[0]["common"]
    common = model.report()["rmse common"][0]
    assert curve[model.quit_round[0]] == pytest.approx(common, rel=1e-5)


def test_rows_that_were_held_out_give_more_rounds_in_proportion(library):
    options = {"linear_effects": False, "num_boost_round": 1000, "specific_rounds": 1000}
    parts, whole = (
        fitted(library, tasks_of(UNRELATED), refit=refit, **options).report()
        for refit in (False, True)
    )
    for name in ("quit_round", "specific_rounds"):
        expected = np.ceil(1.25 * parts[name]).astype(int)  # one fifth was held out
        assert whole[name].tolist() == expected.tolist()
    assert parts["quit_round"].max() > 0
    assert parts["specific_rounds"].max() > 0


def test_rounds_do_not_exceed_what_the_user_allows(library):
    options = {"linear_effects": False, "num_boost_round": 5, "specific_rounds": 4}
    report = fitted(library, tasks_of(UNRELATED), refit=True, **options).report()
    assert report["quit_round"].max() <= 5
    most = np.where(report["sharing"] == "common + specific", 4, 5)  # independent: as common ones
    assert (report["specific_rounds"] <= most).all()
    rounds = report[["quit_round", "specific_rounds"]].to_numpy()
    assert rounds.max() in (4, 5)  # which is reached


def test_a_plan_for_fewer_or_far_more_rows_is_not_extrapolated():
    most = SimpleNamespace(rounds=1000, specific_rounds=1000)
    plan = SharingPlan(
        settings=most,
        specific_params={},
        independent=most,
        common_share=1.0,
        pool=["a"],
        common_rounds=100,
        sharing={"a": "common + specific"},
        own_rounds={"a": 40},
        n_rows=800.0,
        scores={},
        common_history={},
        own_history={},
        common_losses={},
        common_choice="",
    )
    assert plan.for_rows(10) is plan.for_rows(800) is plan
    more, all_rows, other_rows = (plan.for_rows(n) for n in (810, 1000, 100_000))
    assert (more.common_rounds, more.own_rounds) == (102, {"a": 41})  # 101.25 and 40.5
    assert (all_rows.common_rounds, all_rows.own_rounds) == (125, {"a": 50})
    assert (other_rows.common_rounds, other_rows.own_rounds) == (125, {"a": 50})
    assert all_rows.for_rows(1000) is all_rows  # not twice


def test_an_unknown_effort_is_an_error(library):
    with pytest.raises(ParameterError, match="effort"):
        fitted(library, tasks_of(SAME), effort="huge")


SHORT = {"params": {}, "num_boost_round": 10, "early_stopping_rounds": 3}
EFFECTS = ["random intercepts", "linear effects"]


def test_a_limit_that_leaves_nothing_out_is_the_balanced_search(library):
    data = tasks_of(OUTLIER, n_each=60)
    limited = fitted(library, data, **SHORT, effort=1e9)
    balanced = fitted(library, data, **SHORT, effort="balanced")
    assert limited.common_losses == balanced.common_losses
    assert limited.report().equals(balanced.report())
    assert limited.report().attrs == balanced.report().attrs
    assert limited.report().attrs["left_out"] == []
    for kind in EFFECTS:
        own = [loss for name, loss in limited.common_losses.items() if name.startswith(kind)]
        assert own
        assert not np.isnan(own).any()
    X, _, task = data
    assert np.array_equal(limited.predict(X, task=task), balanced.predict(X, task=task))


def test_a_limit_that_is_over_leaves_one_common_model_and_says_so(library, tmp_path):
    model = fitted(library, tasks_of(OUTLIER, n_each=60), **SHORT, effort=1e-9)
    tried = [name for name, loss in model.common_losses.items() if not np.isnan(loss)]
    assert tried == ["depth 4, pooled, symmetric, random strength 1"]
    left_out = model.report().attrs["left_out"]
    assert {*tried, *left_out} == {*model.common_losses}
    for kind in ("pooling", *EFFECTS):
        assert any(kind in name for name in left_out)
    assert set(model.report()["sharing"]) <= {
        "common",
        "common + specific",
        "averaged",
        "independent",
    }
    model.save(tmp_path / "model")
    assert mtboost.load_model(tmp_path / "model").report().attrs["left_out"] == left_out


def test_a_limit_leaves_out_the_last_settings_by_the_time_of_the_first(library, monkeypatch):
    now = [0.0]
    own = search_module.fit_common_by_fold

    def slow(*args, **options):
        now[0] += 1.0
        return own(*args, **options)

    monkeypatch.setattr(effort_module, "clock", lambda: now[0])
    monkeypatch.setattr(search_module, "fit_common_by_fold", slow)
    data = tasks_of(OUTLIER, n_each=60)
    n_tried = []
    for seconds in (1, 40, 1000):
        now[0] = 0.0
        losses = fitted(library, data, **SHORT, effort=seconds).common_losses
        is_tried = [not np.isnan(loss) for loss in losses.values()]
        n_tried.append(sum(is_tried))
    assert n_tried[0] == 2  # that of unknown time, and the least of all
    assert n_tried == sorted(n_tried)
    assert all(is_tried)


def test_what_follows_counts_towards_the_limit(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(effort_module, "clock", lambda: now[0])
    limit = effort_module.TimeLimit(10.0, n_models_after=2.5)
    assert limit.has_time()
    with limit.measured():
        now[0] += 2.0
    assert limit.has_time()  # 2 + (1 + 2.5) * 2 <= 10
    with limit.measured():
        now[0] += 1.5
    assert not limit.has_time()  # the slowest counts: 3.5 + 7 > 10


@pytest.mark.parametrize("effort", [0, -1.0, np.nan, np.inf, True, None])
def test_an_effort_that_is_no_time_is_an_error(library, effort):
    with pytest.raises((ParameterError, TypeError), match="effort"):
        fitted(library, tasks_of(SAME), effort=effort)


def test_few_rounds_compare_settings_and_do_not_limit_the_best(library, monkeypatch):
    limit(monkeypatch, most_rounds=6)
    params = {**OPTIONS["params"], "learning_rate": 0.1}
    model = fitted(library, tasks_of(SAME), params=params, linear_effects=False)
    # Six rounds at a rate of .1 leave half of the labels' deviations, a fourth of the loss.
    variance = np.var(tasks_of(SAME)[1])
    assert min(model.common_losses.values()) > 0.15 * variance
    assert model.report()["quit_round"].max() > 6


def test_trees_see_a_part_of_the_rows_unless_the_user_says_how_many(library):
    options = {**QUICK, "effort": "thorough", "linear_effects": False}
    losses = fitted(library, tasks_of(SAME), **options).common_losses
    assert "given size, pooled, 0.5 of the rows" in losses
    all_rows = {**OPTIONS["params"], **SAMPLING[library.name]}
    losses = fitted(library, tasks_of(SAME), params=all_rows, **options).common_losses
    assert not any("of the rows" in setting for setting in losses)


FEWEST = {
    "xgboost": [{"min_child_weight": 2}],
    "lightgbm": [{"min_data_in_leaf": 10}, {"min_sum_hessian_in_leaf": 2.0}],
}


@pytest.mark.parametrize(("effort", "found"), [("fast", {5}), ("balanced", {5, 20})])
def test_leaves_of_more_rows_are_tried_unless_the_user_says_how_many(
    library, effort, found, monkeypatch
):
    def of_leaves(**options):
        options = {"effort": effort, "linear_effects": False, "params": {}, **QUICK, **options}
        losses = fitted(library, tasks_of(SAME, n_each=60), **options).common_losses
        parts = {part for name in losses for part in name.split(", ")}
        return {part for part in parts if part.endswith(" rows per leaf")}

    default = {20} if library.name == "lightgbm" else set()
    assert of_leaves() == {f"at least {n_rows} rows per leaf" for n_rows in found - default}
    for given in FEWEST[library.name]:
        assert not of_leaves(params=given)
    monkeypatch.setitem(EFFORTS, effort, replace(EFFORTS[effort], most_rows=100))
    assert not of_leaves()


def test_leaves_of_one_row_are_tried_where_hessians_are_small(library):
    """By default XGBoost's leaves have a hessian of 1, at least four rows of two classes."""
    X, y, task = tasks_of(SAME, n_each=60)
    options = {**QUICK, "effort": "fast", "linear_effects": False, "params": {}}
    losses = fitted(library, (X, y > np.median(y), task), **options).common_losses
    is_tried = any("at least 1 row per leaf" in name for name in losses)
    assert is_tried == (library.name == "xgboost")


@pytest.mark.parametrize("weight", [1.0, 300.0])
def test_leaves_of_a_chosen_size_have_the_rows(library, weight):
    """With XGBoost the hessians of as many rows, of which a tree sees .7, whatever they weigh."""
    n_rows = {"xgboost": 600, "lightgbm": 150}[library.name]
    rng = np.random.default_rng(0)
    names = pd.Categorical(rng.permutation(n_rows).astype(str))  # each row is a category
    X = pd.DataFrame({"a": rng.random(n_rows), "name": names})
    noise = {"xgboost": 1.0, "lightgbm": 0.1}[library.name]
    y, task = np.sin(9.0 * X["a"]) + noise * rng.normal(size=n_rows), np.arange(n_rows) % 2
    options = {"effort": "fast", "linear_effects": False, "task_splits": False, "params": {}}
    options |= {"symmetric_trees": False, "weight": np.full(n_rows, weight)}
    model = fitted(library, (X, y, task), num_boost_round=300, **options)
    assert "5 rows per leaf" in model.common_choice
    nodes = get_backend(library.name).document(model.common).leaf_hessians()
    sizes = np.concatenate(nodes) / weight
    least = {"xgboost": 0.7 * 5, "lightgbm": 5.0}[library.name]
    # The sums are rounded. XGBoost's default has leaves of one row, LightGBM's of twenty.
    assert 0.999 * least < sizes[sizes > 0.0].min() < 2.0 * least


def test_without_rounds_of_their_own_all_tasks_follow_the_common_model(library):
    model = fitted(library, tasks_of(OUTLIER), specific_rounds=0, linear_effects=False)
    assert set(model.report()["sharing"]) == {"common"}


def test_of_many_rows_a_part_is_compared(library, monkeypatch):
    data = tasks_of(OUTLIER)
    limit(monkeypatch, most_rows=300)
    monkeypatch.setattr("mtboost.model.sharing.search._SMALL_TASK", 100)
    model = fitted(library, data, linear_effects=False)
    assert model.report()["rows"].sum() == 720  # four fifths of 900
    pooled = fitted(library, data, strategy="two-stage", split_score="plain", specific_rounds=0)
    assert rmse(model, OUTLIER).mean() < rmse(pooled, OUTLIER).mean()


def test_of_many_rows_those_held_out_are_trained_on_by_request(library, monkeypatch):
    X, _, task = data = tasks_of(SAME)
    limit(monkeypatch, most_rows=300)
    as_it_comes, without, again = (
        fitted(library, data, refit=refit, **QUICK).predict(X, task=task)
        for refit in (None, False, True)
    )
    assert np.array_equal(as_it_comes, without)
    assert not np.array_equal(as_it_comes, again)
    assert_allclose(as_it_comes, again, atol=0.5)


def test_of_many_small_tasks_whole_ones_are_compared(library, monkeypatch):
    seen = []

    def watched(stages, folds, *options):
        ((train, valid),) = folds.pairs
        seen.append((train.tasks.counts.tolist(), valid.tasks.names))
        return search(stages, folds, *options)

    monkeypatch.setattr("mtboost.model.sharing.planning.search", watched)
    limit(monkeypatch, most_rows=300)
    options = {"linear_effects": False, "objective": library.own("reg:squarederror")}
    model = fitted(library, tasks_of(UNRELATED), **options)
    assert seen == [([120, 120], (0, 3))]
    assert model.report()["rmse common"].notna().sum() == 2
    # What two of the six tasks say holds for all.
    pooled = fitted(library, tasks_of(UNRELATED), strategy="two-stage", specific_rounds=0)
    assert rmse(model, UNRELATED).mean() < 0.8 * rmse(pooled, UNRELATED).mean()


def test_tasks_that_validation_rows_lack_are_trained_on(library, monkeypatch):
    limit(monkeypatch, most_rows=300)
    X, y, task = tasks_of(OUTLIER)
    for kept in ([4], [1, 2, 3, 5]):
        own = np.isin(task, kept)
        model = fitted(library, (X, y, task), eval_set=(X[own], y[own], task[own]), **QUICK)
        assert np.isfinite(model.predict(X, task=task)).all()


def test_of_many_tasks_some_decide_for_all(library, monkeypatch):
    limit(monkeypatch, n_tasks=4)
    monkeypatch.setattr(planning, "_ROWS_OF_WAYS", 1)
    options = {"linear_effects": False, "objective": library.own("reg:squarederror")}
    report = fitted(library, tasks_of(UNRELATED, n_each=250), **options).report()
    # Two tasks are not evaluated separately and follow the others.
    assert report["rmse common"].notna().all()
    assert report["rmse independent"].notna().sum() == 4
    assert (report["sharing"] != "common").all()
    assert (report["specific_rounds"] > 0).all()


def test_rows_without_weight_decide_nothing(library):
    X, y, task = tasks_of(OUTLIER)
    weight = (task < N_TASKS - 1).astype(float)
    losses = fitted(library, (X, y, task), weight=weight, **QUICK).common_losses
    other = np.where(weight == 0, 100.0 - y, y)
    again = fitted(library, (X, other, task), weight=weight, **QUICK).common_losses
    assert losses == pytest.approx(again)


def test_the_same_bytes_for_any_number_of_threads(library, tmp_path):
    files = []
    for n_threads in (1, 2):
        model = fitted(library, tasks_of(OUTLIER), n_threads=n_threads, **QUICK)
        model.save(tmp_path / str(n_threads))
        files.append((tmp_path / str(n_threads)).read_bytes())
    assert files[0] == files[1]


def test_one_task_is_one_model(library):
    X, y, _ = tasks_of([wave], n_each=300)
    model = mtboost.fit(X, y, backend=library.name, strategy="auto", **OPTIONS)
    assert model.report()["valid_rows"].sum() == 60
    assert rmse_of(model.predict(X), y) < 0.3
