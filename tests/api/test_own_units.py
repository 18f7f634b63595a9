# SPDX-License-Identifier: Apache-2.0
"""Labels of tasks in different units: each task is learned in its own."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold

import mtboost
from mtboost.base.dataset import Dataset
from mtboost.errors import ParameterError
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.inputs.own_units import OWN_SPREAD, ModelOfHalves, spread_of_units, units_differ
from mtboost.model.stages import specific

TASKS = ("cents", "euros", "thousands")
UNITS = {"cents": 100.0, "euros": 1.0, "thousands": 1e-3}
STARTS = {"cents": 700.0, "euros": -2.0, "thousands": 0.05}
BACKENDS = {"xgboost": "reg:squarederror", "lightgbm": "regression"}
N_ROWS = 900
FAST = {"effort": "fast", "validation_fraction": 0.25}


def standard_rows(seed=0, n_rows=N_ROWS, tasks=TASKS):
    """Columns, labels with mean 0 and variance 1 in each task, and tasks."""
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(n_rows, 4)), np.resize(tasks, n_rows)
    slope = np.array([tasks.index(name) for name in task])
    y = np.tanh(2.0 * X[:, 0]) + (0.5 + 0.4 * slope) * X[:, 1] + 0.5 * rng.normal(size=n_rows)
    for name in tasks:
        own = task == name
        y[own] = (y[own] - y[own].mean()) / y[own].std()
    return X, y, task


def in_units(y, task):
    """The same labels in the unit of each row's task."""
    unit, start = (np.array([of[name] for name in task]) for of in (UNITS, STARTS))
    return start + unit * y


def standardised(predictions, task):
    unit, start = (np.array([of[name] for name in task]) for of in (UNITS, STARTS))
    return (predictions - start) / unit


def of_each_task(objective):
    return dict.fromkeys(TASKS, objective)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_task_is_learned_in_its_own_unit(backend):
    X, y, task = standard_rows()
    new_X, new_y, new_task = standard_rows(seed=1)
    options = {"task": task, "backend": backend, **FAST, "num_boost_round": 100}
    model = mtboost.fit(X, in_units(y, task), **options)
    assert model.objective == of_each_task(BACKENDS[backend])
    errors = standardised(model.predict(new_X, task=new_task), new_task) - new_y
    assert all(np.mean(errors[new_task == name] ** 2) < 0.5 for name in TASKS)
    with pytest.warns(UserWarning, match="Divide the labels of each by .*objective={task: "):
        one = mtboost.fit(X, in_units(y, task), objective=BACKENDS[backend], **options)
    assert one.objective == BACKENDS[backend]
    errors = standardised(one.predict(new_X, task=new_task), new_task) - new_y
    assert np.mean(errors[new_task == "thousands"] ** 2) > 1.0  # a constant has 1


@pytest.mark.filterwarnings("ignore:The labels of some tasks vary much less")
def test_regressors_learn_units_unless_unknown_tasks_are_to_come():
    X, y, task = standard_rows()
    labels, options = in_units(y, task), {"n_estimators": 5, "random_state": 0, **FAST}
    regressor = mtboost.MultiTaskRegressor(**options).fit(X, labels, task=task)
    model = mtboost.fit(X, labels, task=task, num_boost_round=5, seed=0, **FAST)
    assert regressor.model_.objective == of_each_task("reg:squarederror")
    found = regressor.predict(X, task=task)
    np.testing.assert_array_equal(found, model.predict(X, task=task))
    tables = {name: X[task == name] for name in TASKS}
    by_task = {name: labels[task == name] for name in TASKS}
    regressor.fit(tables, by_task)
    assert regressor.model_.objective == of_each_task("reg:squarederror")
    one = mtboost.MultiTaskRegressor(unknown_task="common", **options).fit(X, labels, task=task)
    assert one.model_.objective == "reg:squarederror"
    assert np.isfinite(one.predict(X[:2], task=["dollars", "dollars"])).all()
    classes = (y > 0.0) * np.array([UNITS[name] for name in task])
    few = mtboost.MultiTaskRegressor(**options).fit(X, classes, task=task)
    assert few.model_.objective == "reg:squarederror"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("options", "seed", "most"),
    [
        ({"linear_effects": True, "strategy": "two-stage"}, 0, 1e-3),
        ({"linear_effects": "intercepts", "pooling": 20.0, "strategy": "two-stage"}, 0, 1e-3),
        # With these rows both models estimate the levels of the tasks again.
        ({"pooling": 20.0, "strategy": "auto", "effort": "fast"}, 4, 0.1),
    ],
)
def test_units_are_those_of_standardised_labels(backend, options, seed, most):
    """And the model changes as that of standardised labels does.

    Two stages differ by the rounding of float32 margins alone, 1e-6 of 7 in each of 20 rounds.
    What "auto" chooses by the rows of folds, whose labels have not quite a variance of 1, may
    differ a little.
    """
    X, y, task = standard_rows(seed)
    options = {**options, "backend": backend, "num_boost_round": 20, "task": task}
    options["specific_rounds"] = 0
    if options["strategy"] == "two-stage":
        options |= {"split_score": "plain", "validation_fraction": 0}
    own = mtboost.fit(X, in_units(y, task), objective=of_each_task(BACKENDS[backend]), **options)
    one = mtboost.fit(X, y, objective=BACKENDS[backend], **options)
    assert own.common_trees.n_linear == one.common_trees.n_linear
    levels = True if options["strategy"] == "auto" else None
    assert own.has_task_levels is one.has_task_levels is levels

    def assert_same(own, one, X, task):
        found = standardised(own.predict(X, task=task), task)
        assert np.abs(found - one.predict(X, task=task)).max() < most

    assert_same(own, one, X, task)
    new_X, new_y, new_task = standard_rows(seed=1)
    assert_same(
        own.refresh(new_X, in_units(new_y, new_task), task=new_task),
        one.refresh(new_X, new_y, task=new_task),
        new_X,
        new_task,
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_new_task_has_effects_in_its_own_unit(backend):
    X, y, task = standard_rows()
    options = {"linear_effects": True, "pooling": 20.0, "strategy": "two-stage", "task": task}
    options |= {"backend": backend, "num_boost_round": 20, "split_score": "plain"}
    options |= {"specific_rounds": 0, "validation_fraction": 0}
    own = mtboost.fit(X, in_units(y, task), objective=of_each_task(BACKENDS[backend]), **options)
    one = mtboost.fit(X, y, objective=BACKENDS[backend], **options)
    new_X, new_y, _ = standard_rows(seed=2, n_rows=120, tasks=("pounds",))
    added = {"validation_fraction": 0, "specific_rounds": 0}
    own.add_task("pounds", new_X, 50.0 + 7.0 * new_y, objective=BACKENDS[backend], **added)
    one.add_task("pounds", new_X, new_y, **added)
    assert own.losses["pounds"].unit == pytest.approx(7.0)
    found = (own.predict({"pounds": new_X})["pounds"] - 50.0) / 7.0
    np.testing.assert_allclose(found, one.predict({"pounds": new_X})["pounds"], atol=1e-3)
    assert np.mean((found - new_y) ** 2) < 0.5


@pytest.mark.parametrize("strategy", ["two-stage", "auto"])
def test_small_models_are_those_of_the_library(monkeypatch, strategy):
    X, y, task = standard_rows()
    y = y + (task == "cents") * np.sign(X[:, 2])
    options = {"task": task, "strategy": strategy, "num_boost_round": 20}
    options |= FAST if strategy == "auto" else {}
    options |= {"objective": of_each_task("reg:squarederror")}
    model = mtboost.fit(X, in_units(y, task), **options)
    monkeypatch.setattr(specific, "fit_small_models", lambda *_, **__: {})
    other = mtboost.fit(X, in_units(y, task), **options)
    assert any(trees is not None for trees in model.specific.values())
    assert model.quit_round == other.quit_round
    np.testing.assert_array_equal(model.predict(X, task=task), other.predict(X, task=task))


def test_updates_train_new_tasks_with_the_objective_of_the_others():
    X, y, task = standard_rows()
    options = {"task": task, **FAST, "num_boost_round": 50}
    model = mtboost.fit(X, in_units(y, task), **options)
    new_X, new_y, _ = standard_rows(seed=2, n_rows=300, tasks=("pounds",))
    rows = {"cents": X[task == "cents"], "pounds": new_X}
    labels = {"cents": in_units(y, task)[task == "cents"], "pounds": 50.0 + 7.0 * new_y}
    updated = model.update(rows, labels)
    assert updated.objective["pounds"] == "reg:squarederror"
    assert updated.losses["pounds"].unit == pytest.approx(7.0, rel=0.01)
    errors = (updated.predict({"pounds": new_X})["pounds"] - 50.0) / 7.0 - new_y
    assert np.mean(errors**2) < 0.5  # a constant has 1


def test_linear_effects_of_different_kinds_stay_in_refresh():
    X, y, task = standard_rows()
    options = {"linear_effects": True, "strategy": "two-stage", "num_boost_round": 5}
    labels = in_units(y, task)
    model = mtboost.fit(X, labels, task=task, objective=of_each_task("reg:squarederror"), **options)
    model.add_task("paid", X[:200], y[:200] > 0.0, objective="binary:logistic")
    rows = {"cents": X[task == "cents"], "paid": X[:200]}
    refreshed = model.refresh(rows, {"cents": labels[task == "cents"], "paid": y[:200] > 0.0})
    n_linear = model.common_trees.n_linear
    for before, after in zip(
        model.common_trees.pooled.values[:n_linear],
        refreshed.common_trees.pooled.values[:n_linear],
        strict=True,
    ):
        np.testing.assert_array_equal(before.value, after.value)
    assert np.isfinite(refreshed.predict(rows)["paid"]).all()


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "two-stage"},
        {"n_ensemble": 2},
        {"base_margin": np.zeros(N_ROWS)},
        {"validation": "tasks"},
        {"validation": GroupKFold(3), "validation_fraction": "auto"},
        {"task_splits": "descriptors"},
    ],
)
@pytest.mark.filterwarnings("ignore:The labels of some tasks vary much less")
def test_what_compares_tasks_keeps_one_objective(options):
    X, y, task = standard_rows()
    options = {"num_boost_round": 5, **FAST, **options}
    model = mtboost.fit(X, in_units(y, task), task=task, **options)
    assert model.objective == "reg:squarederror"


@pytest.mark.parametrize(
    "options",
    [
        {"baselines": True},
        {"eval_metric": ["mae", "rmse"]},
        {"validation": KFold(2, shuffle=True, random_state=0), "validation_fraction": "auto"},
    ],
)
def test_what_is_only_reported_or_held_out_changes_no_objective(options):
    X, y, task = standard_rows()
    options = {"num_boost_round": 5, **FAST, **options}
    model = mtboost.fit(X, in_units(y, task), task=task, **options)
    assert model.objective == of_each_task("reg:squarederror")
    report = model.report()
    assert report["final"].notna().all()
    assert ("mae final" in report) == ("eval_metric" in options)


def test_several_metrics_need_one_objective():
    X, y, task = standard_rows()
    objective = dict.fromkeys(TASKS, "reg:squarederror") | {TASKS[0]: "reg:gamma"}
    with pytest.raises(ParameterError, match="the tasks have different objectives"):
        mtboost.fit(X, np.exp(y), task=task, objective=objective, eval_metric=["mae", "rmse"])


def test_tasks_of_one_unit_and_classes_keep_one_objective():
    X, y, task = standard_rows()
    options = {"task": task, "num_boost_round": 5, **FAST}
    assert mtboost.fit(X, y, **options).objective == "reg:squarederror"
    assert mtboost.fit(X, y > 0.0, **options).objective == "binary:logistic"


def spread(y, task, **options):
    return spread_of_units(Dataset(np.zeros((len(y), 1)), y, task=task, **options))


def test_labels_whose_squares_are_zero_have_no_spread():
    _, y, task = standard_rows()
    assert spread(1e-301 * y, task) == 0.0


def test_spread_is_that_of_the_units_without_what_chance_adds():
    rng = np.random.default_rng(0)
    units = np.exp(rng.normal(size=200))
    task = np.repeat(np.arange(200), 10)
    noise = rng.normal(size=2000)
    assert spread(noise, task) < 0.15  # the logarithms of the estimates differ by .24
    # 200 logarithms of variance 1: their standard deviation has one of .05.
    assert spread(units[task] * noise, task) == pytest.approx(1.0, abs=0.2)
    exact = np.tile([-1.0, 1.0], 1000)
    assert spread(units[task] * exact, task) == pytest.approx(np.log(units).std(ddof=1))


# ---- why labels of tasks vary more ---------------------------------------------------------------


def rows_of_tasks(n_tasks=12, n_rows=100):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), n_rows)
    X, noise = rng.normal(size=(len(task), 3)), rng.normal(size=len(task))
    return X, task, np.tanh(2.0 * X[:, 0]) + X[:, 1], noise, np.exp(rng.normal(size=n_tasks))


@pytest.mark.parametrize("backend", BACKENDS)
def test_slopes_differ_with_units_but_not_with_noise(backend):
    X, task, signal, noise, factor = rows_of_tasks()

    def slopes(X, y):
        return ModelOfHalves(Dataset(X, y, task=task), get_backend(backend)).spread_of_slopes()

    def spread(y):
        return spread_of_units(Dataset(X, y, task=task))

    in_units = factor[task] * (3.0 + signal + 0.5 * noise)
    assert slopes(X, in_units) == pytest.approx(np.log(factor).std(ddof=1), abs=0.2)
    assert slopes(X, 2.0**-60 * in_units) == pytest.approx(slopes(X, in_units), rel=1e-3)
    noisy = signal + factor[task] * 1.5 * noise
    assert spread(noisy) > OWN_SPREAD
    assert slopes(X, noisy) < OWN_SPREAD
    # The tasks' columns vary as their labels do: one function predicts both.
    wide = X * factor[task][:, None]
    assert spread(wide[:, 0] + 0.1 * noise) > OWN_SPREAD
    assert slopes(wide, wide[:, 0] + 0.1 * noise) < 0.2


def test_slopes_of_what_no_column_predicts_are_unknown():
    X, task, _, noise, factor = rows_of_tasks()
    data = Dataset(X, factor[task] * noise, task=task)
    assert spread_of_units(data) > OWN_SPREAD
    assert ModelOfHalves(data, get_backend("xgboost")).spread_of_slopes() == 0.0


def test_tasks_that_differ_in_noise_have_one_squared_error():
    X, task, signal, noise, factor = rows_of_tasks()
    y = signal + factor[task] * 1.5 * noise
    model = mtboost.fit(X, y, task=task, num_boost_round=20, **FAST)
    assert model.objective == "reg:squarederror"


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_function_of_columns_that_tell_sizes_has_one_squared_error(backend, monkeypatch):
    """Whatever the slopes are: those of tables with columns of sizes were found to differ."""
    monkeypatch.setattr(ModelOfHalves, "spread_of_slopes", lambda _: 1.0)
    X, task, _, noise, factor = rows_of_tasks()
    size = factor[task] * np.exp(0.5 * X[:, 0])
    y = size * (np.where(X[:, 1] > 0.0, 1.0, 2.0) + 0.1 * noise)

    def differ(X):
        return units_differ(Dataset(X, y, task=task), get_backend(backend))

    assert differ(X)
    assert not differ(np.column_stack([size, X[:, 1:]]))


def test_spread_is_not_that_of_few_rows():
    rng = np.random.default_rng(0)
    task, y = np.repeat([0, 1, 2], [400, 400, 9]), rng.normal(size=809)
    assert spread(np.where(task == 2, 100.0, 1.0) * y, task) < 0.1  # fewer than ten rows
    assert spread(np.where(task == 2, 1.0, 100.0) * y, task) < 0.1
    assert spread(np.where(task == 1, 100.0, 1.0) * y, task) > 3.0
    weight = np.where((task == 1) & (np.arange(809) > 405), 0.0, 1.0)
    assert spread(np.where(task == 1, 100.0, 1.0) * y, task, weight=weight) == 0.0
    assert spread(np.where(task == 1, 0.0, y), task) == 0.0  # one task with different labels
    assert spread(np.where(task == 1, 100.0, 1.0) * np.exp(2.0 * y), task) == 0.0  # heavy tails
