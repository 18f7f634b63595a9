# SPDX-License-Identifier: Apache-2.0
"""fit(strategy="auto"): what it chooses, and that it trains what it has chosen."""

from functools import cache, partial

import numpy as np
import pytest
from libraries import LIBRARIES
from shared_tasks import (
    N_TASKS,
    OPTIONS,
    OUTLIER,
    SAME,
    UNRELATED,
    fitted,
    rmse,
    tasks_of,
    tried,
    wave,
)

import mtboost
from mtboost.errors import DataError, ParameterError
from mtboost.model import fitting
from mtboost.model.sharing import common_by_fold, plan, planning


@cache
def searched(backend, kind):
    """What a library finds for tasks of a kind, which tests leave as it is."""
    data = {
        "same": tasks_of(SAME),
        "outlier": tasks_of(OUTLIER),
        "unrelated": tasks_of(UNRELATED, n_each=250),
    }
    return fitted(LIBRARIES[backend], data[kind])


# What is chosen -----------------------------------------------------------------------------------


def test_tasks_that_are_one_share_everything(library):
    model = searched(library.name, "same")
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
    monkeypatch.setattr(planning.Evidence, "ways", lambda self: dict.fromkeys(range(N_TASKS), way))
    model = fitted(library, (X, labels, task), effort="fast")
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
    model = searched(library.name, "outlier")
    sharing = model.report()["sharing"]
    best = min(model.common_losses, key=model.common_losses.__getitem__)
    # Or the common model itself divides it from the others.
    is_divided = "descriptors" in best or "task splits" in best
    assert sharing[N_TASKS - 1] != "common" or is_divided
    *of_others, of_outlier = rmse(model, OUTLIER)
    assert of_outlier < 0.7  # .30 and .51; of pooled models 1.9 and 1.5
    assert (sharing[: N_TASKS - 1] != "independent").all()
    without = fitted(library, tasks_of(SAME[1:]), linear_effects=False)
    # .11 and .17 against .09 and .08 without the outlier.
    assert np.mean(of_others) < 2.5 * rmse(without, SAME[1:]).mean()
    pooled = mtboost.fit(
        *tasks_of(OUTLIER)[:2],
        task=tasks_of(OUTLIER)[2],
        backend=library.name,
        split_score="plain",
        specific_rounds=0,
        num_boost_round=60,
    )
    *others_pooled, outlier_pooled = rmse(pooled, OUTLIER)
    assert of_outlier < outlier_pooled
    assert np.mean(of_others) < np.mean(others_pooled)


def test_unrelated_tasks_go_their_own_ways(library):
    model = searched(library.name, "unrelated")
    assert (model.report()["sharing"] != "common").sum() >= N_TASKS - 1


@pytest.mark.parametrize("kind", ["same", "outlier", "unrelated"])
def test_the_chosen_common_model_is_named(library, kind, tmp_path):
    model = searched(library.name, kind)
    choice, trees = model.common_choice, model.common_trees
    assert not np.isnan(model.common_losses[choice])
    has_effects = choice.startswith(("linear effects", "random intercepts"))
    assert trees.n_linear > 0 if has_effects else trees.n_linear <= 1  # levels of tasks
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
    model = fitted(library, (X, y, task), objective=library.own(objective), effort="fast")
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
    monkeypatch.setattr("mtboost.model.sharing.evidence.Evidence.better_alone", lambda *_: [])
    for way in ("common", "averaged", "independent"):
        monkeypatch.setattr(
            "mtboost.model.sharing.evidence.Evidence.ways",
            lambda self, way=way: dict.fromkeys(range(N_TASKS), way),
        )
        models[way] = fitted(library, (X, y, task), objective=library.own(objective), effort="fast")
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
    weight = (task > 0).astype(float)
    model = fitted(library, (X, y, task), weight=weight, effort="fast")
    assert rmse(model, SAME).max() < 0.5


def test_an_independent_task_begins_at_its_own_start(library):
    X, y, task = tasks_of(OUTLIER)
    y = np.where(task == N_TASKS - 1, y + 1000.0, y)
    model = fitted(library, (X, y, task), effort="fast")
    found = model.predict({N_TASKS - 1: X[task == N_TASKS - 1]})[N_TASKS - 1]
    assert np.abs(found - 1000.0).max() < 10.0


def test_validation_rows_of_the_user_are_only_recorded(library):
    X, y, task = tasks_of(SAME)
    rng = np.random.default_rng(1)
    valid = rng.random(len(X)) < 0.25
    eval_set = (X[valid], y[valid], task[valid])
    train = (X[~valid], y[~valid], task[~valid])
    model = fitted(library, train, eval_set=eval_set, effort="fast")
    report = model.report()
    assert report["rows"].sum() == (~valid).sum()
    assert report["valid_rows"].sum() == valid.sum()


def test_the_report_tells_what_every_way_would_lose(library):
    report = searched(library.name, "outlier").report()
    names = ("common", "common + specific", "averaged", "independent")
    ways = [f"rmse {way}" for way in names]
    assert report[ways].notna().all(axis=None)
    # An outlier goes the way that is best by its validation rows, or as good but for chance; or it
    # leaves the pool for the sake of the others, if it is better off alone than in it.
    of_outlier = report.loc[N_TASKS - 1]
    found = of_outlier[f"rmse {of_outlier['sharing']}"]
    has_left = of_outlier["sharing"] == "independent" and found < of_outlier["rmse common"]
    assert has_left or found < 1.1 * of_outlier[ways].min()
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
    options |= {"effort": "thorough", "linear_effects": False}
    fitted(library, tasks_of(SAME, n_each=40), **options)
    assert len(sizes) == 1
    monkeypatch.setattr(planning, "_MUCH_WORSE", 1e9)  # however far, they are near
    fitted(library, tasks_of(SAME, n_each=40), **options)
    assert len(sizes) == 1 + 3  # two sizes, and the better one in small steps


# Weights and few rows -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:weight adds up")  # tests/api/test_scales.py
@pytest.mark.parametrize("weight", [1e-45, 1e-38, 1e-30, 1e30])
def test_any_weights_are_no_error(library, weight):
    X, y, task = tasks_of(SAME)
    weights = np.full(len(y), weight)
    model, _ = tried(library, (X, y, task), weight=weights, params={}, effort="fast")
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


# Defaults -----------------------------------------------------------------------------------------


def test_it_is_the_default(library):
    X, y, task = tasks_of(OUTLIER)
    by_name = searched(library.name, "outlier")
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
@pytest.mark.filterwarnings("ignore:All labels are 0")
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
