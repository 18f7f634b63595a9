# SPDX-License-Identifier: Apache-2.0
"""fit(strategy="auto"): what it chooses, and that it trains what it has chosen."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import mean_squared_error

import mtboost
from mtboost.base.dataset import Dataset
from mtboost.base.validation import hold_out
from mtboost.errors import DataError, ParameterError
from mtboost.metrics import Metric, get_metric
from mtboost.model import fitting
from mtboost.model.sharing import common_by_fold, plan
from mtboost.model.sharing import effort as effort_module
from mtboost.model.sharing import search as search_module
from mtboost.model.sharing.curves import extended_curves, mean_curves, mean_histories
from mtboost.model.sharing.effort import EFFORTS
from mtboost.model.sharing.evidence import _shared_rounds, pays_for_all
from mtboost.model.sharing.search import search
from mtboost.model.stages.common import followed_margins
from mtboost.model.stages.mean_watch import MeanWatch
from mtboost.model.stages.task_losses import TaskLosses, from_loss
from mtboost.trees.shrinkage import shrunk_means

N_TASKS, N_EACH = 6, 150
# One size of trees, and one part of the rows held out: the search is then much shorter.
OPTIONS = {
    "validation_fraction": 0.2,
    "num_boost_round": 60,
    "specific_rounds": 40,
    "early_stopping_rounds": 10,
    "params": {"max_depth": 3, "learning_rate": 0.2},
}


def tasks_of(functions, seed=0, n_each=N_EACH, noise=0.2):
    """Rows of one task after the other; each function takes the columns."""
    rng = np.random.default_rng(seed)
    X = rng.random((len(functions) * n_each, 3))
    task = np.repeat(np.arange(len(functions)), n_each)
    clean = np.concatenate([f(*X[task == code].T) for code, f in enumerate(functions)])
    return X, clean + noise * rng.normal(size=len(X)), task


def wave(a, b, c):
    return np.sin(6 * a) + b


def other(a, b, c):
    return 3 * np.cos(7 * c) - 2 * b


def limit(monkeypatch, **limits):
    """Let a search of either effort cost less."""
    for name in ("balanced", "thorough"):
        monkeypatch.setitem(EFFORTS, name, replace(EFFORTS[name], **limits))


SAMPLING = {
    "xgboost": {"subsample": 1.0},
    "lightgbm": {"bagging_fraction": 1.0, "bagging_freq": 1},
}
SAME = [wave] * N_TASKS
OUTLIER = [wave] * (N_TASKS - 1) + [other]
UNRELATED = [
    lambda a, b, c, s=s, k=k: s * np.sin((3 + k) * (a, b, c)[k % 3])
    for k, s in enumerate([2, -3, 4, -2, 3, -4])
]


def fitted(library, data, **options):
    X, y, task = data
    options = {"strategy": "auto", **OPTIONS, **options}
    return mtboost.fit(X, y, task=task, backend=library.name, **options)


def rmse(model, functions):
    X, y, task = tasks_of(functions, seed=9, n_each=400, noise=0.0)
    found = model.predict(X, task=task)
    return np.array([np.sqrt(np.mean((found - y)[task == t] ** 2)) for t in np.unique(task)])


# What is chosen -----------------------------------------------------------------------------------


def test_tasks_that_are_one_share_everything(library):
    model = fitted(library, tasks_of(SAME))
    # One standard error is exceeded by chance now and then.
    assert (model.report()["sharing"] == "common").sum() >= N_TASKS - 2
    X, y, _ = tasks_of(SAME)
    pooled = fitted(library, (X, y, np.zeros(len(X), int)))
    assert rmse(model, SAME).mean() == pytest.approx(rmse(pooled, [wave])[0], rel=0.2)


@pytest.mark.parametrize("way", ["averaged", "independent"])
def test_a_task_of_one_class_is_not_left_to_a_model_of_its_own(library, monkeypatch, way):
    X, y, task = tasks_of(UNRELATED, noise=0.5)
    labels = (y > 0).astype(float)
    labels[task == 0] = 0.0
    monkeypatch.setattr(plan.Evidence, "ways", lambda self: dict.fromkeys(range(N_TASKS), way))
    model = fitted(library, (X, labels, task))
    sharing = model.report()["sharing"].tolist()
    assert sharing[0] == "common"
    assert set(sharing[1:]) <= {way, "independent"}  # where some leave the pool
    predicted = model.predict(X[:100], task=np.zeros(100, int))
    assert predicted.mean() > 0.001  # by itself 0 or a millionth


def test_many_small_tasks_are_all_compared(library):
    functions = [wave] * 40
    report = fitted(library, tasks_of(functions, n_each=20)).report()
    assert report["rmse independent"].notna().all()


def test_an_outlier_leaves_and_does_not_harm_the_others(library):
    model = fitted(library, tasks_of(OUTLIER))
    sharing = model.report()["sharing"]
    best = min(model.common_losses, key=model.common_losses.__getitem__)
    # Or the common model itself divides it from the others.
    is_divided = "descriptors" in best or "task splits" in best
    assert sharing[N_TASKS - 1] != "common" or is_divided
    assert rmse(model, OUTLIER)[-1] < 0.7  # .30 and .51; of pooled models 1.9 and 1.5
    assert (sharing[: N_TASKS - 1] != "independent").all()
    without = fitted(library, tasks_of(SAME[1:]))
    # .11 and .17 against .09 and .08 without the outlier.
    assert rmse(model, OUTLIER)[:-1].mean() < 2.5 * rmse(without, SAME[1:]).mean()
    pooled = mtboost.fit(
        *tasks_of(OUTLIER)[:2],
        task=tasks_of(OUTLIER)[2],
        backend=library.name,
        split_score="plain",
        specific_rounds=0,
        num_boost_round=60,
    )
    assert rmse(model, OUTLIER)[-1] < rmse(pooled, OUTLIER)[-1]
    assert rmse(model, OUTLIER)[:-1].mean() < rmse(pooled, OUTLIER)[:-1].mean()


def test_unrelated_tasks_go_their_own_ways(library):
    model = fitted(library, tasks_of(UNRELATED, n_each=250))
    assert (model.report()["sharing"] != "common").sum() >= N_TASKS - 1


@pytest.mark.parametrize("functions", [SAME, OUTLIER, UNRELATED])
def test_the_chosen_common_model_is_named(library, functions, tmp_path):
    model = fitted(library, tasks_of(functions, n_each=250))
    choice, trees = model.common_choice, model.common_trees
    assert not np.isnan(model.common_losses[choice])
    has_effects = choice.startswith(("linear effects", "random intercepts"))
    assert has_effects == (trees.n_linear > 0)
    assert ("descriptors" in choice) == (trees.descriptors is not None)
    assert ("task splits" in choice) == trees.has_task_column
    assert "pooling" in choice or trees.pooled.pooling is None
    model.save(tmp_path / "model.mtb")
    assert mtboost.load_model(tmp_path / "model.mtb").common_choice == choice


def test_a_model_that_was_not_searched_has_no_choice():
    X, y, task = tasks_of(SAME)
    assert mtboost.fit(X, y, task=task, strategy="two-stage").common_choice is None


# What is trained ----------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob"])
def test_a_tasks_booster_gives_its_margins(library, objective, tmp_path):
    X, y, task = tasks_of(OUTLIER)
    if objective == "binary:logistic":
        y = (y > 0.5).astype(float)
    if objective == "multi:softprob":
        y = np.digitize(y, [0.0, 1.0]).astype(float)
    model = fitted(library, (X, y, task), objective=library.own(objective))
    margins = model.predict_margin(X, task=task)
    for name in range(N_TASKS):
        own = task == name
        np.testing.assert_allclose(
            library.margins(model.booster(name), X[own]), margins[own], atol=100 * library.atol
        )
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(again.predict_margin(X, task=task), margins)
    assert again.report().equals(model.report())
    assert again.common_losses == model.common_losses


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_an_average_is_one_of_margins(library, objective, monkeypatch, tmp_path):
    X, y, task = tasks_of(OUTLIER)
    if objective == "multi:softprob":
        y = np.digitize(y, [0.0, 1.0]).astype(float)
    models = {}
    monkeypatch.setattr("mtboost.model.sharing.evidence._SHARES", (0.75,))
    # Models that are uncertain are shrunk, each by another factor.
    monkeypatch.setattr("mtboost.model.sharing.evidence.Evidence.shrink", lambda self, ways: 1.0)
    monkeypatch.setattr("mtboost.model.sharing.evidence.Evidence.better_alone", lambda self: [])
    for way in ("common", "averaged", "independent"):
        monkeypatch.setattr(
            "mtboost.model.sharing.evidence.Evidence.ways",
            lambda self, way=way: dict.fromkeys(range(N_TASKS), way),
        )
        models[way] = fitted(library, (X, y, task), objective=library.own(objective))
        assert set(models[way].report()["sharing"]) == {way}
    common, average, alone = (model.predict_margin(X, task=task) for model in models.values())
    # XGBoost adds up to a hundred float32 numbers of order 1.
    np.testing.assert_allclose(average, 0.75 * common + 0.25 * alone, atol=1e-5)
    model = models["averaged"]
    for name in range(N_TASKS):
        own = task == name
        np.testing.assert_allclose(
            library.margins(model.booster(name), X[own]), average[own], atol=100 * library.atol
        )
    model.save(tmp_path / "model.mtb")
    again = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(again.predict_margin(X, task=task), average)
    rows = task == 0
    model.add_task(99, X[rows][:30], y[rows][:30])
    np.testing.assert_array_equal(model.predict_margin(X, task=task), average)


def test_a_task_without_weight_has_nothing_to_be_averaged_with(library, monkeypatch):
    X, y, task = tasks_of(SAME)
    monkeypatch.setattr(
        "mtboost.model.sharing.evidence.Evidence.ways",
        lambda self: dict.fromkeys(range(N_TASKS), "averaged"),
    )
    model = fitted(library, (X, y, task), weight=(task > 0).astype(float))
    assert rmse(model, SAME).max() < 0.5


def test_an_independent_task_begins_at_its_own_start(library):
    X, y, task = tasks_of(OUTLIER)
    y = np.where(task == N_TASKS - 1, y + 1000.0, y)
    model = fitted(library, (X, y, task))
    found = model.predict({N_TASKS - 1: X[task == N_TASKS - 1]})[N_TASKS - 1]
    assert np.abs(found - 1000.0).max() < 10.0


def test_validation_rows_of_the_user_are_only_recorded(library):
    X, y, task = tasks_of(SAME)
    rng = np.random.default_rng(1)
    valid = rng.random(len(X)) < 0.25
    eval_set = (X[valid], y[valid], task[valid])
    model = fitted(library, (X[~valid], y[~valid], task[~valid]), eval_set=eval_set)
    report = model.report()
    assert report["rows"].sum() == (~valid).sum()
    assert report["valid_rows"].sum() == valid.sum()


def test_the_report_tells_what_every_way_would_lose(library):
    report = fitted(library, tasks_of(OUTLIER)).report()
    names = ("common", "common + specific", "averaged", "independent")
    ways = [f"rmse {way}" for way in names]
    assert report[ways].notna().all(axis=None)
    # An outlier goes the way that is best by its validation rows, or as good but for chance.
    of_outlier = report.loc[N_TASKS - 1]
    assert of_outlier[f"rmse {of_outlier['sharing']}"] < 1.1 * of_outlier[ways].min()
    assert of_outlier[ways].max() > 1.2 * of_outlier[ways].min()


def test_the_common_models_that_were_tried_are_told(library):
    losses = fitted(library, tasks_of(OUTLIER), effort="thorough").common_losses
    assert next(iter(losses)) == "given size, pooled"
    assert losses["given size, pooling 0.1"] < losses["given size, pooled"]


def test_groups_of_tasks_are_divided_by_what_describes_them(library):
    functions = [wave, lambda a, b, c: -wave(a, b, c)] * (N_TASKS // 2)
    losses = fitted(library, tasks_of(functions, noise=1.0)).common_losses
    assert losses["given size, pooled, descriptors"] < losses["given size, pooled"]
    best = min(losses, key=losses.__getitem__)
    assert "descriptors" in best or "task splits" in best


def test_independent_models_that_are_far_off_are_of_one_size(library, monkeypatch):
    sizes = []

    def counted(stages, *arguments, alone=(), **options):
        if alone:
            sizes.append(stages.params)
        return fit_specific(stages, *arguments, alone=alone, **options)

    fit_specific = common_by_fold.fit_specific
    monkeypatch.setattr(common_by_fold, "fit_specific", counted)
    options = {"params": {}, "num_boost_round": 80, "early_stopping_rounds": 5}
    options |= {"effort": "thorough"}
    fitted(library, tasks_of(SAME, n_each=40), **options)
    assert len(sizes) == 1
    monkeypatch.setattr(plan, "_MUCH_WORSE", 1e9)  # however far, they are near
    fitted(library, tasks_of(SAME, n_each=40), **options)
    assert len(sizes) == 1 + 3  # two sizes, and the better one in small steps


def test_settings_are_compared_in_large_steps_and_the_best_is_trained_in_small_ones(library):
    small = {**OPTIONS["params"], "learning_rate": 0.02}
    model = fitted(
        library, tasks_of(SAME), params=small, num_boost_round=200, early_stopping_rounds=5
    )
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
    params = {"params": {"learning_rate": 0.3}, "num_boost_round": 15}
    names = fitted(library, data, **params).common_losses
    depths = {part for name in names for part in name.split(", ") if part.startswith("depth ")}
    assert depths == {"depth 1", "depth 2", "depth 4", "depth 6", "depth 8"}


@pytest.mark.parametrize(("effort", "most"), [("fast", 8), ("balanced", 20), ("thorough", 50)])
def test_more_effort_compares_more_settings(library, effort, most):
    options = {"params": {}, "num_boost_round": 40, "early_stopping_rounds": 3, "effort": effort}
    losses = fitted(library, tasks_of(OUTLIER, n_each=60), **options).common_losses
    assert most / 3 < len(losses) <= most


def test_rounds_found_in_large_steps_are_multiplied(library):
    small = {**OPTIONS["params"], "learning_rate": 0.05}  # a fourth of the search's
    options = {"params": small, "num_boost_round": 400, "linear_effects": False}
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
    model = fitted(library, tasks_of(SAME), params=small, num_boost_round=400)
    curve = model.history[0]["common"]
    common = model.report()["rmse common"][0]
    assert curve[model.quit_round[0]] == pytest.approx(common, rel=1e-5)


def test_an_unknown_effort_is_an_error(library):
    with pytest.raises(ParameterError, match="effort"):
        fitted(library, tasks_of(SAME), effort="huge")


SHORT = {"params": {}, "num_boost_round": 40, "early_stopping_rounds": 3}


def test_a_limit_that_leaves_nothing_out_is_the_balanced_search(library):
    data = tasks_of(OUTLIER, n_each=60)
    limited = fitted(library, data, **SHORT, effort=1e9)
    balanced = fitted(library, data, **SHORT, effort="balanced")
    assert limited.common_losses == balanced.common_losses
    assert limited.report().equals(balanced.report())
    assert limited.report().attrs == {"left_out": []}
    X, _, task = data
    assert np.array_equal(limited.predict(X, task=task), balanced.predict(X, task=task))


def test_a_limit_that_is_over_leaves_one_common_model_and_says_so(library, tmp_path):
    model = fitted(library, tasks_of(OUTLIER, n_each=60), **SHORT, effort=1e-9)
    tried = [name for name, loss in model.common_losses.items() if not np.isnan(loss)]
    assert tried == ["depth 4, pooled, symmetric, random strength 1"]
    left_out = model.report().attrs["left_out"]
    assert {*tried, *left_out} == {*model.common_losses}
    assert any("pooling" in name for name in left_out)
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
    options = {"effort": "thorough"}
    losses = fitted(library, tasks_of(SAME), **options).common_losses
    assert "given size, pooled, 0.5 of the rows" in losses
    all_rows = {**OPTIONS["params"], **SAMPLING[library.name]}
    losses = fitted(library, tasks_of(SAME), params=all_rows, **options).common_losses
    assert not any("rows" in setting for setting in losses)


def test_without_rounds_of_their_own_all_tasks_follow_the_common_model(library):
    model = fitted(library, tasks_of(OUTLIER), specific_rounds=0)
    assert set(model.report()["sharing"]) == {"common"}


def test_of_many_rows_a_part_is_compared(library, monkeypatch):
    data = tasks_of(OUTLIER)
    limit(monkeypatch, most_rows=300)
    monkeypatch.setattr("mtboost.model.sharing.search._SMALL_TASK", 100)
    model = fitted(library, data)
    assert model.report()["rows"].sum() == 720  # four fifths of 900
    pooled = fitted(library, data, strategy="two-stage", split_score="plain", specific_rounds=0)
    assert rmse(model, OUTLIER).mean() < rmse(pooled, OUTLIER).mean()


def test_of_many_rows_those_held_out_are_trained_on_by_request(library, monkeypatch):
    X, _, task = data = tasks_of(SAME)
    limit(monkeypatch, most_rows=300)
    as_it_comes, without, again = (
        fitted(library, data, refit=refit).predict(X, task=task) for refit in (None, False, True)
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

    monkeypatch.setattr("mtboost.model.sharing.plan.search", watched)
    limit(monkeypatch, most_rows=300)
    model = fitted(library, tasks_of(UNRELATED))
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
        model = fitted(library, (X, y, task), eval_set=(X[own], y[own], task[own]))
        assert np.isfinite(model.predict(X, task=task)).all()


def test_of_many_tasks_some_decide_for_all(library, monkeypatch):
    limit(monkeypatch, n_tasks=4)
    monkeypatch.setattr(plan, "_ROWS_OF_WAYS", 1)
    report = fitted(library, tasks_of(UNRELATED, n_each=250)).report()
    # Two tasks are not evaluated separately and follow the others.
    assert report["rmse common"].notna().all()
    assert report["rmse independent"].notna().sum() == 4
    assert (report["sharing"] != "common").all()
    assert (report["specific_rounds"] > 0).all()


def test_rows_without_weight_decide_nothing(library):
    X, y, task = tasks_of(OUTLIER)
    weight = (task < N_TASKS - 1).astype(float)
    losses = fitted(library, (X, y, task), weight=weight).common_losses
    other = np.where(weight == 0, 100.0 - y, y)
    again = fitted(library, (X, other, task), weight=weight).common_losses
    assert losses == pytest.approx(again)


def test_the_same_bytes_for_any_number_of_threads(library, tmp_path):
    files = []
    for n_threads in (1, 2):
        fitted(library, tasks_of(OUTLIER), n_threads=n_threads).save(tmp_path / str(n_threads))
        files.append((tmp_path / str(n_threads)).read_bytes())
    assert files[0] == files[1]


def test_one_task_is_one_model(library):
    X, y, _ = tasks_of([wave], n_each=300)
    model = mtboost.fit(X, y, backend=library.name, strategy="auto", **OPTIONS)
    assert model.report()["valid_rows"].sum() == 60
    assert rmse_of(model.predict(X), y) < 0.3


def rmse_of(prediction, y):
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


# What the user fixes ------------------------------------------------------------------------------

# One size and one part of the rows, few rounds: what is tested is which settings are tried.
QUICK = {"num_boost_round": 8, "specific_rounds": 4, "early_stopping_rounds": 4}


def tried(library, data=None, **options):
    """Names of the common models that were tried."""
    params = {**OPTIONS["params"], **SAMPLING[library.name]}
    model = fitted(library, data or tasks_of(SAME), **{"params": params, **QUICK, **options})
    return model, [*model.common_losses]


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


def test_a_noise_that_is_fixed_is_tried_beside_ordinary_trees(library):
    _, names = tried(library, random_strength=0.5)
    symmetric = [name for name in names if "symmetric" in name]
    assert symmetric
    assert all("random strength 0.5" in name for name in symmetric)
    assert len(symmetric) < len(names)


def test_a_split_score_that_is_fixed_is_used(library):
    plain, expected = tried(library, tasks_of(UNRELATED), task_splits=False)
    model, names = tried(library, tasks_of(UNRELATED), split_score="entropy")
    assert names == expected
    assert model.common_losses[names[0]] != plain.common_losses[names[0]]


def test_a_metric_that_is_fixed_decides(library):
    data = tasks_of(OUTLIER)
    model, names = tried(library, data, eval_metric="mae")
    by_default, _ = tried(library, data)
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
    options = {"effort": effort, "eval_set": (X[::3], data[1][::3], task[::3])}
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
    report = fitted(library, (X, y, task), eval_metric=metric).report()
    np.testing.assert_allclose(
        report["own common"], fitted(library, (X, y, task)).report()["rmse common"] ** 2, rtol=1e-4
    )
    weighted = Metric("own", mean_squared_error, greater_is_better=False)
    weight = np.ones(len(y))
    again = fitted(library, (X, y, task), eval_metric=weighted, weight=weight).report()
    np.testing.assert_allclose(again["own common"], report["own common"])


def test_gradients_of_the_users_own_are_searched_with(library):
    def squared(margins, data):
        return margins - data.get_label(), np.ones_like(margins)

    model = fitted(library, tasks_of(OUTLIER), objective=squared)
    assert len(model.common_losses) > 3
    named = fitted(library, tasks_of(OUTLIER), linear_effects=False)  # functions have none
    assert rmse(model, OUTLIER).mean() < 1.3 * rmse(named, OUTLIER).mean()


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
    fitted(library, tasks_of(UNRELATED), **{**QUICK, "params": params})
    assert {(own["learning_rate"], own[penalty]) for own in seen} == {(0.3, 2.0)}
    assert (1 in {own["max_depth"] for own in seen}) == (not size)  # stumps


def test_without_refit_the_final_model_is_one_of_the_training_rows(library):
    X, y, task = tasks_of(OUTLIER)
    data = Dataset(X, y, task=task)
    train, valid = hold_out(data, 0.2, False, 0)
    of_rows = [(part.common.native, part.labels(), task_of_rows(part)) for part in (train, valid)]
    one, _ = tried(library, (X, y, task), refit=False)
    same, _ = tried(library, of_rows[0], eval_set=of_rows[1])
    assert library.raw(one.booster(0)) == library.raw(same.booster(0))
    other, _ = tried(library, (X, y, task), refit=True)
    default, _ = tried(library, (X, y, task))
    assert library.raw(other.booster(0)) == library.raw(default.booster(0))
    assert library.raw(other.booster(0)) != library.raw(one.booster(0))


def task_of_rows(data):
    return np.array(data.tasks.names)[data.tasks.codes]


def test_monotone_constraints_hold_for_what_the_search_finds(library):
    params = {**OPTIONS["params"], "monotone_constraints": (0, 1, 0)}
    model, names = tried(library, params=params)
    assert any("pooling" in name for name in names)
    X = np.full((50, 3), 0.5)
    X[:, 1] = np.linspace(0, 1, 50)
    assert (np.diff(model.predict({0: X})[0]) >= -1e-6).all()


# Reports ------------------------------------------------------------------------------------------


def test_histories_are_those_that_the_scores_are_read_from(library, monkeypatch):
    monkeypatch.setattr("mtboost.model.sharing.evidence.Evidence.better_alone", lambda self: [])
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
    params = {**OPTIONS["params"], "learning_rate": 0.02}
    model = fitted(library, data, params=params, num_boost_round=200, early_stopping_rounds=3)
    assert all(report.specific_rounds for report in model.reports.values())
    curves = [report.specific_history for report in model.reports.values()]
    assert not any(curve.size for curve in curves)
    model = fitted(library, data)
    assert all(report.specific_history.size for report in model.reports.values())


@pytest.mark.parametrize("way", ["common", "common + specific", "averaged", "independent"])
def test_histories_are_drawn(library, way, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setattr(
        "mtboost.model.sharing.evidence.Evidence.ways",
        lambda self: dict.fromkeys(range(N_TASKS), way),
    )
    monkeypatch.setattr("mtboost.model.sharing.evidence.Evidence.better_alone", lambda self: [])
    model, _ = tried(library)
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
    model, _ = tried(library, data, on_round=lambda *of_round: told.append(of_round))
    assert [n_rounds for n_rounds, _ in told] == list(range(1, len(told) + 1))
    _, scores = told[max(model.quit_round.values()) - model.common_trees.n_linear - 1]
    assert scores[0] == pytest.approx(model.reports[0].scores["common"])


# Weights and few rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1e-45, 1e-38, 1e-30, 1e30])
def test_any_weights_are_no_error(library, weight):
    X, y, task = tasks_of(SAME)
    model, _ = tried(library, (X, y, task), weight=np.full(len(y), weight), params={})
    assert np.isfinite(model.predict(X, task=task)).all()


def test_validation_rows_without_weight_are_an_error(library):
    X, y, task = tasks_of(SAME)
    weight = np.zeros(len(y))
    weight[-1] = 1.0  # which training rows cannot do without
    with pytest.raises(DataError, match="validation rows, and the weight of each is zero"):
        fitted(library, (X, y, task), weight=weight)


def test_a_task_whose_validation_rows_have_no_weight_follows_the_others(library):
    X, y, task = tasks_of(SAME)
    valid = tasks_of(SAME, seed=1, n_each=30)
    model, _ = tried(library, (X, y, task), eval_set=(*valid, (valid[2] > 0).astype(float)))
    report = model.report()
    assert np.isnan(report.loc[0, "rmse common"])
    assert report.loc[1:, "rmse common"].notna().all()
    assert np.isfinite(model.predict(X, task=task)).all()


@pytest.mark.parametrize("validation_fraction", ["auto", 0.2])
def test_tasks_of_one_row_are_an_error_that_says_why(library, validation_fraction):
    X, y, _ = tasks_of([wave], n_each=12)
    options = {"validation_fraction": validation_fraction}
    with pytest.raises(ParameterError, match="one row of each task .* no row is left to hold out"):
        fitted(library, (X, y, np.arange(12)), **options)
    X, y, _ = tasks_of([wave], n_each=3)
    model = fitted(library, (X, y, np.zeros(3)), **options)
    assert np.isfinite(model.predict(X, task=np.zeros(3))).all()


# Each row held out in turn ------------------------------------------------------------------------


def test_each_of_few_rows_is_judged_once(library):
    data = tasks_of(OUTLIER, n_each=60)
    report = fitted(library, data, validation_fraction="auto", baselines=True).report()
    assert report["rows"].tolist() == report["valid_rows"].tolist() == [60] * N_TASKS
    assert report.filter(like="rmse").notna().all(axis=None)
    by_part = fitted(library, data, validation_fraction="auto", refit=False).report()
    assert (by_part["rows"] + by_part["valid_rows"]).tolist() == [60] * N_TASKS


def test_one_fold_is_the_held_out_part(library):
    X, y, task = tasks_of(UNRELATED)
    data = Dataset(X, y, task=task)
    train, valid = hold_out(data, 0.2, False, 0)
    settings = {"objective": library.own("reg:squarederror"), **OPTIONS}
    one = fitted(library, (X, y, task), **settings)
    own = [(part.common.native, part.labels(), task_of_rows(part)) for part in (train, valid)]
    same = fitted(library, own[0], eval_set=own[1])
    assert one.common_losses == same.common_losses
    for name in one.tasks:
        np.testing.assert_array_equal(one.history[name]["common"], same.history[name]["common"])


def test_a_mean_of_curves_counts_the_rows_of_each_fold():
    mae = TaskLosses.of_one_metric(get_metric("mae"), 2)
    folds = [[np.array([4.0, 2.0]), np.empty(0)], [np.array([1.0, 1.0]), np.array([3.0, 2.0, 2.5])]]
    n_rows = np.array([[30.0, 0.0], [10.0, 5.0]])
    curves = mean_curves(mae, folds, n_rows)
    np.testing.assert_allclose(curves, [[3.25, 1.75, 1.75], [3.0, 2.0, 2.5]])
    named = [dict(zip("ab", own, strict=True)) for own in folds]
    means = mean_histories(mae, named, "ab", n_rows)
    np.testing.assert_allclose(means["a"], [3.25, 1.75])
    np.testing.assert_allclose(means["b"], [3.0, 2.0, 2.5])
    # Squares are averaged, not roots.
    squares = TaskLosses.of_one_metric(get_metric("rmse"), 1)
    rmse = mean_curves(squares, [[np.array([3.0])], [np.array([1.0])]], np.ones((2, 1)))
    np.testing.assert_allclose(rmse, [[5.0]])


def test_tiny_tasks_are_not_worse_than_a_constant(library):
    """40 tasks of 2 to 5 rows whose labels hardly depend on the columns: what auto must not do is
    to learn tasks by heart. With one held-out row of each class in a task it lost .3 here."""
    losses = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(40), rng.integers(2, 6, 40))
        X = rng.normal(size=(len(task), 5))
        y = rng.random(len(task)) < 1.0 / (1.0 + np.exp(-0.3 * X[:, 0]))
        model = mtboost.fit(
            X,
            y.astype(float),
            task=task,
            objective=library.own("binary:logistic"),
            strategy="auto",
            backend=library.name,
            params={"max_depth": 2},
            n_threads=1,
            seed=seed,
        )
        X = rng.normal(size=(4000, 5))
        found = model.predict(X, task=rng.integers(0, 40, 4000))
        truth = 1.0 / (1.0 + np.exp(-0.3 * X[:, 0]))
        log_loss = -(truth * np.log(found) + (1 - truth) * np.log(1 - found)).mean()
        constant = -(truth * np.log(y.mean()) + (1 - truth) * np.log(1 - y.mean())).mean()
        losses.append(log_loss - constant)
    assert np.mean(losses) < 0.1


# Defaults -----------------------------------------------------------------------------------------


def test_it_is_the_default(library):
    X, y, task = tasks_of(OUTLIER)
    by_name = fitted(library, (X, y, task))
    options = {"backend": library.name, **OPTIONS}
    model = mtboost.fit(X, y, task=task, **options)
    assert model.common_losses == by_name.common_losses
    assert np.array_equal(model.predict(X, task=task), by_name.predict(X, task=task))


@pytest.mark.parametrize(
    "options",
    [
        {"early_stopping_rounds": None},
        {"min_delta": 0.1},
        {"validation_fraction": 0},
    ],
    ids=lambda options: next(iter(options)),
)
def test_two_stages_are_the_default_where_it_cannot_choose(library, options):
    X, y, task = tasks_of(SAME, n_each=30)
    options = {"backend": library.name, "num_boost_round": 5, **options}
    model, by_name = (
        mtboost.fit(X, y, task=task, **options, **more) for more in ({}, {"strategy": "two-stage"})
    )
    assert "sharing" not in model.report()
    assert np.array_equal(model.predict(X, task=task), by_name.predict(X, task=task))


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (lambda y: y > 1.0, "binary:logistic"),
        (lambda y: np.int64(y > 1.0), "binary:logistic"),
        (lambda y: np.float32(y > 1.0), "binary:logistic"),
        (lambda y: y, "reg:squarederror"),
        (lambda y: np.floor(y), "reg:squarederror"),
        (lambda y: 2.0 * (y > 1.0), "reg:squarederror"),
        (lambda y: np.zeros(len(y)), "reg:squarederror"),
    ],
    ids=["bool", "int", "float", "numbers", "whole numbers", "0 and 2", "constant"],
)
def test_labels_decide_the_objective_unless_it_is_given(library, labels, name):
    X, y, task = tasks_of(SAME, n_each=30)
    options = {"strategy": "two-stage", "num_boost_round": 2, "specific_rounds": 0}
    model = mtboost.fit(X, labels(y), task=task, backend=library.name, **options)
    assert model.objective == library.own(name)
    assert set(model.report()["objective"]) == {library.own(name)}
    given = library.own("count:poisson")
    if labels(y).min() >= 0 and labels(y).max() > 0:
        options["objective"] = given
        model = mtboost.fit(X, labels(y) + 0.0, task=task, backend=library.name, **options)
        assert model.objective == given


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_fraction": 0}, "chooses on validation rows"),
        ({"early_stopping_rounds": None}, "early_stopping_rounds=None fixes them"),
        ({"min_delta": 0.1}, "min_delta is 0.1"),
        ({"strategy": "best"}, "strategy must be"),
    ],
)
def test_what_it_cannot_choose_by_is_an_error(library, options, message, monkeypatch):
    for module in (fitting, plan, common_by_fold):
        monkeypatch.setattr(module, "fit_common", partial(pytest.fail, "training"))
    with pytest.raises(ParameterError, match=message):
        fitted(library, tasks_of(SAME), **options)


# The evidence -------------------------------------------------------------------------------------


def test_what_all_tasks_gain_pays_for_all():
    known, n_rows = np.ones(6, bool), np.full(6, 40.0)
    variances = np.full(6, 0.01)
    # The mean of five has the standard error √(.01 / 5) = .045.
    assert pays_for_all(np.full(6, 0.05), variances, known, n_rows)
    assert not pays_for_all(np.full(6, 0.04), variances, known, n_rows)


def test_one_task_that_gains_much_does_not_decide_for_all():
    gains = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.0])
    assert not pays_for_all(gains, np.full(6, 0.01), np.ones(6, bool), np.full(6, 40.0))
    assert not pays_for_all(gains[-1:], np.full(1, 0.01), np.ones(1, bool), np.full(1, 40.0))


def test_unknown_gains_do_not_count():
    gains = np.array([0.1, 0.1, 0.1, np.nan])
    known, n_rows = np.isfinite(gains), np.array([40.0, 40.0, 40.0, 0.0])
    assert pays_for_all(gains, np.array([0.001, 0.001, 0.001, np.inf]), known, n_rows)
    assert not pays_for_all(gains, np.full(4, 0.001), np.zeros(4, bool), n_rows)


def test_nothing_gained_rarely_pays():
    # Normal gains of mean 0: one standard error is exceeded with probability .159, and less if it
    # must be whichever task is left out. 4000 draws: .159 + 4 standard errors of .0058.
    rng = np.random.default_rng(0)
    known, n_rows = np.ones(20, bool), np.full(20, 40.0)
    found = [
        pays_for_all(rng.normal(0, 0.1, 20), np.full(20, 0.01), known, n_rows) for _ in range(4000)
    ]
    assert 0.05 < np.mean(found) < 0.182


def test_values_that_vary_by_chance_are_their_mean():
    values, variances = np.array([1.0, 1.2, 0.8, 5.0]), np.array([1.0, 1.0, 1.0, 4.0])
    known = np.array([True, True, True, False])
    found, error = shrunk_means(values, variances, known)
    np.testing.assert_allclose(found, 1.0)
    np.testing.assert_allclose(error, 1 / np.sqrt(3))


def test_values_that_vary_by_more_are_shrunk_by_the_formula():
    values, variances = np.array([0.0, 10.0, 2.0]), np.array([1.0, 2.0, 0.5])
    w = 1 / variances
    mean = (w * values).sum() / w.sum()
    tau2 = ((w * (values - mean) ** 2).sum() - 2) / (w.sum() - (w**2).sum() / w.sum())
    mean = (values / (variances + tau2)).sum() / (1 / (variances + tau2)).sum()
    expected = [
        (v / s + mean / tau2) / (1 / s + 1 / tau2) for v, s in zip(values, variances, strict=True)
    ]
    found, error = shrunk_means(values, variances, np.ones(3, bool))
    np.testing.assert_allclose(found, expected)
    # By sampling alone: own * value + (1 - own) * mean, the mean as if it were of other values.
    u = 1 / (variances + tau2)
    own = tau2 * u
    of_mean = (u**2 * variances).sum() / u.sum() ** 2
    np.testing.assert_allclose(error**2, own**2 * variances + (1 - own) ** 2 * of_mean)


def test_shrunk_values_are_nearer_to_the_truth():
    # 200 draws of 30 values with τ = σ = 1: shrinking halves the mean squared error, whose standard
    # deviation over the draws is below 2%.
    rng = np.random.default_rng(0)
    raw, shrunk = [], []
    for _ in range(200):
        truth = rng.normal(size=30)
        values = truth + rng.normal(size=30)
        found, _ = shrunk_means(values, np.ones(30), np.ones(30, bool))
        raw.append(((values - truth) ** 2).mean())
        shrunk.append(((found - truth) ** 2).mean())
    assert np.mean(shrunk) < 0.6 * np.mean(raw)


def test_nothing_known_is_no_gain():
    found, error = shrunk_means(np.ones(2), np.ones(2), np.zeros(2, bool))
    assert (found == 0).all()
    assert (error == np.inf).all()


def test_rounds_come_from_the_others_where_a_task_has_few_rows():
    own = np.array([5.0, 1.0, 3.0, 4.0])
    others = np.array([5.0, 4.0, 3.0, 1.0])
    curves = np.array([own, others, others])
    many = np.full(3, True)
    assert _shared_rounds(curves, np.array([5.0, 100.0, 100.0]), many).tolist() == [3, 3, 3]
    assert _shared_rounds(curves, np.array([1e5, 100.0, 100.0]), many)[0] == 1
    unknown = np.array([False, True, True])
    assert _shared_rounds(curves, np.array([1e5, 100.0, 100.0]), unknown)[0] == 3


def test_a_curve_that_ended_early_rises_on():
    histories = [np.array([5.0, 1.0, 2.0, 3.0, 4.0]), np.full(7, 2.0), np.empty(0)]
    curves = extended_curves(histories, 7)
    # Since the best round it has risen by one a round: from 1.5 to 3.5 between two halves.
    np.testing.assert_array_equal(curves[0], [5, 1, 2, 3, 4, 5, 6])
    assert np.isnan(curves[2]).all()
    falls = [np.array([5.0, 4.0, 3.0]), np.full(5, 2.0)]
    np.testing.assert_array_equal(extended_curves(falls, 5)[0], [5, 4, 3, 3, 3])


def test_models_that_gain_nothing_are_not_flattered_by_when_they_ended():
    """Curves are random walks that end 20 rounds after their best one: no rounds gain anything.

    What the shared rounds of 100 tasks seem to gain has the deviation .0186 and, over 60
    simulations, the mean .0013; with curves that stay level where they ended it was .026.
    """
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(40):
        curves = 10.0 + np.cumsum(rng.normal(0.0, 0.03, (100, 150)), axis=1)
        curves[:, 0] = 10.0
        histories = []
        for curve in curves:
            since_best = np.arange(150) - [curve[: end + 1].argmin() for end in range(150)]
            is_over = since_best >= 20
            histories.append(curve[: 1 + is_over.argmax()] if is_over.any() else curve)
        found = extended_curves(histories, 150)
        rounds = _shared_rounds(found, np.full(100, 17.0), np.full(100, True))
        gains.append(10.0 - found[np.arange(100), rounds].mean())
    assert np.mean(gains) < 4 * 0.0186 / np.sqrt(40)  # four standard errors: 1 in 30,000


def test_an_estimated_loss_below_zero_is_no_error():
    assert from_loss(get_metric("rmse"), 4.0) == 2.0
    assert from_loss(get_metric("rmse"), -1e-3) == 0.0
    assert np.isnan(from_loss(get_metric("rmse"), np.nan))
    assert from_loss(get_metric("mae"), -1e-3) == -1e-3


def test_settings_are_compared_by_the_predictions_of_their_best_round(library, monkeypatch):
    seen = []

    def recorded(settings, data, valid, *args, **options):
        common = fit_common(settings, data, valid, *args, **options)
        if common.together is not None:
            margins = followed_margins(settings, common, valid)[:, 0]
            predictions = settings.inverse_link(margins)
            # Linear effects were a base margin, to which the library adds the sum of the trees.
            atol = 1e-5 if settings.linear_effects else library.atol
            assert_allclose(common.together.best_predictions, predictions, rtol=atol, atol=atol)
            seen.append(settings.options.pooling is not None)
        return common

    fit_common = common_by_fold.fit_common
    monkeypatch.setattr(common_by_fold, "fit_common", recorded)
    X, y, task = tasks_of(UNRELATED)
    fitted(library, (X, y > 0, task), objective=library.own("binary:logistic"))
    assert {True, False} <= set(seen)


class Quitting:
    """A library's TaskQuitting that has seen one task's mean squared error."""

    def __init__(self):
        self.last_predictions = np.zeros(2)

    def see(self, loss):
        self.last_values = np.sqrt([loss])
        self.last_predictions[:] = loss


def rounds_until_over(losses, to_beat, early_stopping_rounds=10):
    X, y, task = tasks_of([wave], n_each=2)
    data = mtboost.Dataset(X, y, task=task)
    quitting = Quitting()
    squares = TaskLosses.of_one_metric(get_metric("rmse"), 1)
    watch = MeanWatch(quitting, data, data, squares, early_stopping_rounds, to_beat)
    for n_rounds, loss in enumerate(losses, 1):
        quitting.see(loss)
        if watch.is_over():
            return n_rounds, watch
    return len(losses), watch


def test_a_model_that_cannot_come_near_the_best_is_stopped():
    slow = 2.0 + 1.0 / np.arange(1, 501)
    assert rounds_until_over(slow, to_beat=np.inf)[0] == 500
    assert rounds_until_over(slow, to_beat=1.0)[0] == 20  # twice the early_stopping_rounds
    # After r rounds it has 1/r to go, which is what it came in the second half of them.
    assert rounds_until_over(slow, to_beat=2.0)[0] == 500
    assert rounds_until_over(slow, to_beat=1.9)[0] in range(20, 30)


def test_the_best_round_is_remembered():
    losses = np.array([3.0, 2.0, 1.0, 1.5, *np.full(20, 1.2)])
    n_rounds, watch = rounds_until_over(losses, to_beat=np.inf)
    assert (n_rounds, watch.best_round, watch.best) == (13, 3, pytest.approx(1.0))
    assert watch.best_predictions.tolist() == [1.0, 1.0]


def test_leaves_of_nested_tasks_are_also_shrunk_towards_their_groups(library):
    rng = np.random.default_rng(0)
    region, store = rng.integers(0, 12, 1500), rng.integers(0, 8, 1500)
    X = rng.random((1500, 2))
    effect = rng.normal(size=(12, 1)) + 0.2 * rng.normal(size=(12, 8))
    y = effect[region, store] * np.sign(X[:, 0] - 0.5) + rng.normal(size=1500)
    task = list(zip(region.tolist(), store.tolist(), strict=True))
    model = mtboost.fit(X, y, task=task, backend=library.name, task_splits=False, effort="fast")
    assert "nested pooling" in min(model.common_losses, key=model.common_losses.__getitem__)
    assert isinstance(model.common_trees.pooled.pooling, tuple)
