# SPDX-License-Identifier: Apache-2.0
"""Linear effects that differ between tasks: their trees, and models that begin with them."""

import itertools

import lightgbm
import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
import xgboost
from linear_tasks import N_COLUMNS, N_TASKS, linear_rows
from numpy.testing import assert_allclose, assert_array_equal

import mtboost
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskSet
from mtboost.errors import DataError, ParameterError
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.stages import common, working_model
from mtboost.model.stages import linear_effects as stage
from mtboost.model.stages.random_slopes import first_variances, fit_effects
from mtboost.model.stages.slope_rows import RowsByTask
from mtboost.trees.losses import label_columns, make_loss, row_groups
from mtboost.trees.nesting import Nesting
from mtboost.trees.steps import StepTree, steps_of

BACKENDS = ["xgboost", "lightgbm"]
LINEAR = [True, "intercepts"]


# ---- columns as steps ----------------------------------------------------------------------------


def nearest_points(column, points, missing_leaf):
    """Place of the point that is nearest to each value."""
    distances = np.abs(column[:, None] - points)
    return np.where(np.isnan(column), missing_leaf, distances.argmin(axis=1))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_values", [2, 3, 7, 32, 500])
def test_rows_reach_the_leaf_of_the_nearest_point(backend, n_values):
    library, rng = get_backend(backend), np.random.default_rng(n_values)
    column = rng.normal(size=n_values).astype(np.float32)[rng.integers(0, n_values, 600)]
    column[::11] = np.nan
    steps = steps_of(column, 1, 32)
    table = Dataset(np.column_stack([column, column, column]), np.zeros(600)).common
    params = library.settings(library.squared_error, 1, 0)
    empty = library.document(library.empty_booster(table, params))
    document = empty.with_first_trees([StepTree.empty(0, np.zeros(1)), steps])
    leaves = library.leaves(document.load(), table)[:, 1]
    numbers = document.numbers_of_leaves(steps)
    assert steps.n_leaves == min(32, len(np.unique(column[~np.isnan(column)])))
    assert_array_equal(leaves, numbers[nearest_points(column, steps.points, steps.missing_leaf)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_of_few_values_are_the_values(dtype):
    rng = np.random.default_rng(0)
    for n_rows, n_values in itertools.product([2, 3, 61, 600], [2, 9, 32]):
        column = rng.exponential(size=n_values).astype(dtype)[rng.integers(0, n_values, n_rows)]
        points = np.unique(column)
        if len(points) < 2:
            continue
        with_missing = np.insert(
            column, rng.integers(0, n_rows, 5), [np.nan, np.inf, -np.inf, np.nan, np.inf]
        )
        steps = steps_of(with_missing, 1, 32)
        assert_array_equal(steps.points, points)
        median = np.median(column.astype(np.float64))
        assert steps.missing_leaf == np.abs(points - median).argmin()


def squared_distances(column, points):
    """To the nearest points, all rows together."""
    return (np.abs(column[:, None] - points).min(axis=1) ** 2).sum()


def least_squared_distances(column, most):
    """The least that any points have: of groups of neighbouring values, by dynamic programming."""
    values = np.sort(column)
    sums = [np.append(0.0, np.cumsum(values**power)) for power in range(3)]
    best = np.append(0.0, np.full(len(values), np.inf))
    for _ in range(most):
        found = np.full_like(best, np.inf)
        for end in range(1, len(best)):
            n, first, second = (part[end] - part[:end] for part in sums)
            found[end] = (best[:end] + second - first**2 / n).min()
        best = np.minimum(found, best)
    return best[-1]


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.random(600),
        lambda rng: rng.normal(size=600),
        lambda rng: rng.exponential(size=600),
        lambda rng: np.exp(rng.normal(size=600)),
        lambda rng: np.where(rng.random(600) < 0.9, rng.normal(size=600), 30.0 * rng.random(600)),
    ],
)
def test_values_are_near_to_the_points(draw):
    """The placement is optimal for many points; 24 have 1.1 to 1.9 times the least distances.

    Quantiles have 3 to 100 times the least, except for the uniform distribution.
    """
    column = draw(np.random.default_rng(0))
    least = least_squared_distances(column, 24)
    assert squared_distances(column, steps_of(column, 0, 24).points) < 2.0 * least
    many = np.tile(column, 200) + np.linspace(0.0, 1e-9, 200 * len(column))
    few = steps_of(many, 0, 24).points
    assert squared_distances(column, few) < 2.0 * least
    assert steps_of(1e300 * column, 0, 24).n_leaves == 24


def test_points_are_not_far_from_almost_all_values():
    column = np.random.default_rng(0).normal(size=600)
    wrong = np.append(column, [1e9, -1e9])
    points = steps_of(wrong, 0, 24).points
    assert 3.0 < np.abs(points).max() <= np.abs(column).max()
    assert len(points) == 24
    rare = np.append(np.zeros(6000), np.arange(1.0, 50.0))  # 99 % of the values are alike
    assert steps_of(rare, 0, 24).points.max() > 40.0


def test_a_column_with_one_value_has_no_steps():
    assert steps_of(np.array([1.0, np.nan, 1.0]), 0, 32) is None
    assert steps_of(np.array([np.nan, np.inf]), 0, 32) is None


# ---- models --------------------------------------------------------------------------------------


def fit(X, y, task, **options):
    """Fit both stages in a few rounds, on all rows."""
    given = {"strategy": "two-stage", "validation_fraction": 0, "num_boost_round": 3}
    own = {"split_score": "plain", "linear_effects": True, "params": {"learning_rate": 0.1}}
    return mtboost.fit(X, y, task=task, **(given | own | options))


def task_booster(model, task, X):
    booster = model.booster(task)
    if isinstance(booster, lightgbm.Booster):
        return booster.predict(X)
    return booster.predict(xgboost.DMatrix(X))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pooling", [None, 5.0])
def test_boosters_predict_as_the_model(backend, pooling, tmp_path):
    X, y, task, _ = linear_rows(3)
    X[::5, 1] = np.nan
    model = fit(X, y, task, backend=backend, pooling=pooling, task_splits="descriptors")
    new = np.random.default_rng(3).normal(0.0, 2.0, (50, N_COLUMNS))
    new[::7, 0] = np.nan
    for name in (0, N_TASKS - 1):
        assert_array_equal(task_booster(model, name, new), model.predict({name: new})[name])
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    assert loaded.common_trees.n_linear == model.common_trees.n_linear == N_COLUMNS + 1
    labels = np.arange(50) % (N_TASKS + 1)  # the last is unknown
    assert_array_equal(
        loaded.predict(new, task=labels, unknown_task="common"),
        model.predict(new, task=labels, unknown_task="common"),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("linear_effects", [True, "intercepts"])
def test_first_trees_are_the_mixed_model_of_what_trees_leave(backend, linear_effects, monkeypatch):
    X, y, task, _ = linear_rows(4)
    others = np.random.default_rng(4).normal(size=len(y))
    monkeypatch.setattr(common, "_learned_after", lambda *_: others)
    options = {"backend": backend, "linear_effects": linear_effects}
    model = fit(X, y, task, params={"learning_rate": 1e-9}, **options)
    z = np.empty((len(y), N_COLUMNS if linear_effects is True else 0))
    for place in range(z.shape[1]):
        steps = steps_of(X[:, place].astype(np.float32), place, 128)
        reached = steps.points[nearest_points(X[:, place], steps.points, 0)]
        z[:, place] = (reached - reached.mean()) / reached.std()
    rows = RowsByTask.of_rows(z, y - others, np.ones(len(y)), task, [np.zeros(N_TASKS, int)])
    effects = fit_effects(rows, first_variances(1, z.shape[1] + 1, (y - others).var()))
    ones = np.column_stack([np.ones(len(y)), z])
    expected = (ones * (effects.shared + effects.by_level[0])[task]).sum(axis=1)
    assert_allclose(model.predict(X, task=task), expected, rtol=1e-4, atol=1e-5)
    unknown = model.predict(X, task=np.full(len(y), 99), unknown_task="common")
    assert_allclose(unknown, ones @ effects.shared, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:weight adds up")  # which trees would heed
@pytest.mark.parametrize("factor", [1e-20, 1e20])
def test_the_unit_of_weights_does_not_matter(factor, monkeypatch):
    monkeypatch.setattr(common, "_learned_after", lambda *_: None)  # XGBoost has absolute limits
    X, y, task, _ = linear_rows(5)
    weight = np.random.default_rng(5).choice([0.0, 1.0, 2.0], len(y))
    params = {"learning_rate": 1e-9, "reg_lambda": 0.0}
    found = [
        fit(X, y, task, weight=own, params=params).predict(X, task=task)
        for own in (weight, factor * weight)
    ]
    assert_allclose(*found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_without_weight_do_not_place_the_steps(backend, monkeypatch):
    # LightGBM bins the rows of trees without regard to their weights.
    monkeypatch.setattr(common, "_learned_after", lambda *_: None)
    X, y, task, _ = linear_rows(3)
    weight = np.random.default_rng(0).choice([0.0, 1.0], len(y), p=[0.3, 0.7])
    kept = weight > 0
    X[~kept] *= 1000.0
    options = {
        "backend": backend,
        "strategy": "two-stage",
        "validation_fraction": 0,
        "num_boost_round": 1,
        "linear_effects": True,
        "params": {"learning_rate": 1e-6},
    }
    weighted = mtboost.fit(X, y, task=task, weight=weight, **options)
    without = mtboost.fit(X[kept], y[kept], task=task[kept], **options)
    new, _, new_task, _ = linear_rows(4)
    expected = without.predict(new, task=new_task)
    assert expected.std() > 0.5
    assert_allclose(weighted.predict(new, task=new_task), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("linear_effects", [True, "intercepts"])
def test_rows_without_weight_change_nothing(linear_effects):
    # LightGBM bins them, and counts them in min_data_in_leaf.
    X, y, task, _ = linear_rows(3)
    others, other_y, other_task, _ = linear_rows(6)
    options = {"linear_effects": linear_effects, "params": {"learning_rate": 1e-6}}
    expected = fit(X, y, task, weight=np.ones(len(y)), **options).predict(X, task=task)
    found = fit(
        np.concatenate([X, others]),
        np.concatenate([y, other_y]),
        np.concatenate([task, other_task]),
        weight=np.repeat([1.0, 0.0], [len(y), len(other_y)]),
        **options,
    )
    assert_array_equal(found.predict(X, task=task), expected)


def test_the_largest_labels_give_no_warnings():
    """Sums of gradients have squares that float32 just holds; twice these labels are refused."""
    X, y, task, _ = linear_rows(5)
    most = float(np.finfo(np.float32).max)
    large = y * np.sqrt(3.0 * most / y.var()) / len(y)
    found = fit(X, large, task).predict(X, task=task).astype(np.float64)
    assert np.corrcoef(found, y)[0, 1] > 0.9
    with pytest.raises(DataError, match="Fit to y in a larger unit"):
        fit(X, 2 * large, task)


def test_constant_columns_leave_the_intercepts():
    _, y, task, _ = linear_rows(5)
    model = fit(np.ones((len(y), 2)), y, task)
    assert model.common_trees.n_linear == 1
    means = np.bincount(task, y) / np.bincount(task)
    found = model.predict(np.ones((N_TASKS, 2)), task=np.arange(N_TASKS))
    assert np.corrcoef(found, means)[0, 1] > 0.99


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_base_margin_is_what_the_effects_start_from(backend):
    X, y, task, _ = linear_rows(5)
    margin = np.random.default_rng(5).normal(size=len(y))
    with_margin = fit(X, y + margin, task, base_margin=margin, backend=backend)
    without = fit(X, y, task, base_margin=np.zeros(len(y)), backend=backend)
    zeros = np.zeros(len(y))
    assert_allclose(
        with_margin.predict(X, task=task, base_margin=zeros),
        without.predict(X, task=task, base_margin=zeros),
        atol=1e-4,
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("objective", ["logistic", "poisson"])
def test_other_losses_have_linear_effects_on_the_margin(backend, objective):
    X, _, task, expected = linear_rows(6, n_tasks=40, n_rows=100, spread=0.3)
    rng = np.random.default_rng(6)
    if objective == "logistic":
        y = rng.random(len(task)) < 1.0 / (1.0 + np.exp(-expected))
        name = {"xgboost": "binary:logistic", "lightgbm": "binary"}[backend]
    else:
        y = rng.poisson(np.exp(0.5 * expected))
        name = {"xgboost": "count:poisson", "lightgbm": "poisson"}[backend]
        expected = 0.5 * expected
    model = fit(X, y, task, objective=name, backend=backend, params={"learning_rate": 1e-9})
    margins = model.predict_margin(X, task=task)
    assert np.corrcoef(margins, expected)[0, 1] > 0.9
    assert margins.std() == pytest.approx(expected.std(), rel=0.25)


def survival_rows(objective, seed):
    """Rows of tasks with different slopes, their labels, and times of events and censoring."""
    X, _, task, risk = linear_rows(seed, n_tasks=8, n_rows=40, spread=0.6)
    rng = np.random.default_rng(seed)
    event, censored = np.exp(-risk) * rng.weibull(1.5, len(X)), rng.exponential(1.0, len(X))
    time, is_event = np.minimum(event, censored), event <= censored
    bounds = np.column_stack([time, np.where(is_event, time, np.inf)])
    labels = bounds if objective == "survival:aft" else np.where(is_event, time, -time)
    return X, labels, task, time, is_event


def negative_log_likelihood(objective, margins, time, is_event, strata):
    """Of hazards with Cox's risk sets, one event after the other; of AFT with normal errors."""
    if objective == "survival:aft":
        z = np.log(time) - margins
        return -np.where(is_event, scipy.stats.norm.logpdf(z), scipy.stats.norm.logsf(z)).sum()
    total = 0.0
    for row in np.flatnonzero(is_event):
        at_risk = (strata == strata[row]) & (time >= time[row])
        total += np.log(np.exp(margins[at_risk]).sum()) - margins[row]
    return total


@pytest.mark.parametrize(
    ("objective", "has_strata"),
    [("survival:cox", True), ("survival:cox", False), ("survival:aft", True)],
)
def test_effects_of_survival_are_the_mode_of_their_posterior(objective, has_strata, monkeypatch):
    X, labels, task, time, is_event = survival_rows(objective, 0)
    found, n_effects = [], N_COLUMNS + 1
    monkeypatch.setattr(
        working_model,
        "fit_effects",
        lambda *own, **noise: found.append(fit_effects(*own, **noise)) or found[-1],
    )
    loss, labels = make_loss(objective), label_columns(labels)
    tasks = TaskSet.from_labels(task, len(task))
    groups, zeros = row_groups(loss, labels, tasks if has_strata else None), np.zeros(len(X))
    model = working_model.WorkingModel(loss, np.float32, labels, None, groups, zeros, zeros)
    estimated = model.effects(X, tasks.codes, Nesting.of(tasks.names))
    shared, by_task = estimated.shared, estimated.by_name
    variances = found[-1].variances
    design = np.column_stack([np.ones(len(X)), X])
    strata = task if has_strata else np.zeros(len(task))

    def posterior(flat):
        own = flat.reshape(-1, n_effects)
        margins = (design * (own[0] + own[1:][task])).sum(axis=1)
        prior = (own[0, 1:] ** 2 / variances.of_slopes).sum() + (
            own[1:] ** 2 / variances.by_level[0]
        ).sum()
        return negative_log_likelihood(objective, margins, time, is_event, strata) + 0.5 * prior

    start = np.vstack([shared, by_task - shared]).ravel()
    mode = scipy.optimize.minimize(posterior, start, method="BFGS")
    # After eight rounds the variances, and with them the mode, still move a little: a tenth of a
    # unit of log-likelihood, where one parameter off by a standard error costs half a unit.
    assert posterior(start) - mode.fun < 0.1
    assert posterior(0.0 * start) - mode.fun > 20.0  # there is something to be found


@pytest.mark.parametrize("objective", ["survival:cox", "survival:aft"])
def test_models_of_survival_begin_with_linear_effects(objective):
    X, labels, task, *_ = survival_rows(objective, 2)
    model = fit(X, labels, task, objective=objective)
    assert model.common_trees.n_linear == 1 + N_COLUMNS
    of_task = np.asarray(task_booster(model, 3, X))
    assert_allclose(of_task, model.predict(X, task=np.full(len(X), 3)), rtol=1e-6)
    refreshed = model.refresh(X, labels, task=task)
    kept = [np.log(each.predict(X, task=task)) for each in (model, refreshed)]
    assert np.corrcoef(*kept)[0, 1] > 0.95


@pytest.mark.parametrize("linear_effects", [True, "intercepts"])
def test_hazards_within_tasks_have_no_levels(linear_effects):
    # Adding to all log hazards of a task does not change the likelihood of its order of events.
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(500, 3)), rng.choice(3, 500, p=[0.6, 0.3, 0.1])
    time = np.round(rng.exponential(1, 500) * np.exp(-0.5 * X[:, 0]), 1) + 0.1
    y = np.where(rng.random(500) < 0.6, time, -time)
    options = {"linear_effects": linear_effects, "objective": "survival:cox"}
    model = fit(X, y, task, params={"learning_rate": 1e-9}, **options)
    hazards = np.log(model.predict(X, task=task))
    levels = [hazards[task == own].mean() for own in range(3)]
    assert np.abs(levels).max() < 0.3


def test_auto_finds_slopes_of_hazards_that_differ():
    X, labels, task, *_ = survival_rows("survival:cox", 3)
    with_slopes = mtboost.fit(X, labels, task=task, objective="survival:cox", **QUICK)
    assert with_slopes.common_trees.n_linear
    without = mtboost.fit(
        X, labels, task=task, objective="survival:cox", linear_effects=False, **QUICK
    )
    assert without.common_trees.n_linear == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_intercepts_are_shrunk_by_the_noise_that_trees_leave(backend):
    """A step of the first column has nine times the variance of the noise."""
    rng = np.random.default_rng(12)
    task = np.repeat(np.arange(200), 5)
    X, intercepts = rng.random((len(task), 2)), rng.normal(size=200)
    signal = 6.0 * (X[:, 0] > 0.5) + intercepts[task]
    y = signal + rng.normal(size=len(task))
    options = {"linear_effects": "intercepts", "backend": backend, "num_boost_round": 80}
    model = fit(X, y, task, **options)
    assert model.common_trees.n_linear == 1
    error = np.mean((model.predict(X, task=task) - signal) ** 2)
    # Posterior variances of intercepts are 1 / (1 + 5) with variance 1 of the noise, and 10 / 15
    # with that of all of y: the error is to be nearer to the former.
    assert error < 0.5 * (1 / 6 + 10 / 15)


def test_a_new_store_has_the_intercept_of_its_region():
    rng = np.random.default_rng(13)
    task = np.repeat(np.arange(80), 12)
    region, X = task // 8, rng.random((len(task), 3))
    signal = 2.0 * np.sin(6.0 * X[:, 0]) + rng.normal(size=10)[region] + rng.normal(size=80)[task]
    y = signal + rng.normal(size=len(task))
    tasks = list(zip(region.tolist(), task.tolist(), strict=True))
    model = fit(X, y, tasks, linear_effects="intercepts", num_boost_round=80)
    new = [(each, 99) for each in region.tolist()]
    found = model.predict(X, task=new, unknown_task="common")
    of_regions = np.bincount(region, signal - found) / np.bincount(region)
    # The mean of eight stores, each with the variance 1, is known but not that of the region.
    assert np.std(of_regions) < 2.0 * np.sqrt(1 / 8)


QUICK = {
    **{"effort": "fast", "n_threads": 1, "num_boost_round": 15, "specific_rounds": 10},
    "validation_fraction": 0.25,
    "params": {"learning_rate": 0.3, "max_depth": 3},
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_auto_finds_slopes_that_differ(backend):
    X, y, task, _ = linear_rows(7, n_tasks=60, n_rows=12)
    new, _, new_task, expected = linear_rows(7, n_tasks=60, n_rows=12, noise=0.0)
    assert_array_equal(new, X)  # the same tasks: their slopes are drawn before the noise
    errors = []
    for linear_effects in (None, False):
        model = mtboost.fit(
            X, y, task=task, backend=backend, linear_effects=linear_effects, **QUICK
        )
        errors.append(np.mean((model.predict(X, task=new_task) - expected) ** 2))
        assert (model.common_trees.n_linear > 0) == (linear_effects is None)
        are_intercepts = [name.startswith("random intercepts") for name in model.common_losses]
        assert any(are_intercepts) == (linear_effects is None)
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_models_of_the_same_rows_share_their_linear_effects(backend, monkeypatch):
    X, y, task, _ = linear_rows(7, n_tasks=30, n_rows=12)
    labels = []

    class WatchedDesign(common.LinearDesign):
        @classmethod
        def of(cls, settings, data):
            labels.append((settings.linear_effects, data.labels().tobytes()))
            return super().of(settings, data)

    monkeypatch.setattr(common, "LinearDesign", WatchedDesign)
    options = {"task": task, "backend": backend, **QUICK, "num_boost_round": 5}
    model = mtboost.fit(X, y, **options)
    assert model.common_trees.n_linear  # several models with them have been trained
    assert len(set(labels)) == len(labels)
    n_shared = len(labels)
    after_effects = common._after_linear_effects
    monkeypatch.setattr(
        common, "_after_linear_effects", lambda *rows: after_effects(*rows[:3], None)
    )
    alone = mtboost.fit(X, y, **options)
    assert len(labels) > 2 * n_shared
    assert alone.common_losses == model.common_losses
    assert_array_equal(alone.predict(X, task=task), model.predict(X, task=task))


@pytest.mark.parametrize("backend", BACKENDS)
def test_trees_after_linear_effects_are_those_on_a_matrix_made_for_them(backend, monkeypatch):
    X, y, task, _ = linear_rows(7, n_tasks=30, n_rows=12)
    y = y + 3.0 * (X[:, 0] > 0.5) * (X[:, 1] > 0.5)  # for the trees
    options = {"task": task, "backend": backend, "linear_effects": True, "num_boost_round": 5}
    options["validation_fraction"] = 0.25
    model = mtboost.fit(X, y, **options)
    assert max(model.quit_round.values()) > model.common_trees.n_linear
    make, matrices = common._common_matrix, []

    def made_anew(*rows, made=None):
        matrices.append(made)
        return make(*rows)

    monkeypatch.setattr(common, "_common_matrix", made_anew)
    anew = mtboost.fit(X, y, **options)
    assert any(made is not None for made in matrices)  # which the few trees before were trained on
    assert_array_equal(anew.predict(X, task=task), model.predict(X, task=task))


def most_leaves(model):
    trees = model.common_trees.booster.trees_to_dataframe()
    return trees[trees["Feature"] == "Leaf"].groupby("Tree").size().max()


def test_columns_have_as_many_steps_as_values_of_all_tasks_may_be(monkeypatch):
    rng = np.random.default_rng(12)
    X, task = rng.normal(size=(400, 2)), np.arange(400) % 4
    # Trees of depth 1 after them have two leaves.
    options = {"num_boost_round": 1, "params": {"max_depth": 1}}
    assert most_leaves(fit(X, X[:, 0], task, **options)) == 128
    monkeypatch.setattr(stage, "_MOST_NUMBERS", 4 * 2 * 50)
    assert most_leaves(fit(X, X[:, 0], task, **options)) == 50


def columns_of_few_numbers():
    """Columns with different values that are one to a library, by name."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=300)
    return {
        "rounding errors about 1.1": 1.1 + 1e-9 * noise,
        "two neighbours in float32": np.where(noise > 0, 1.1, np.nextafter(np.float32(1.1), 2)),
        "nearly 0": 1e-38 * noise,
        "too small for float32": 1e-310 * noise,
        "seconds of an hour": 1.7e9 + rng.integers(0, 3600, 300),
        "large": 1e37 * noise,
    }


@pytest.mark.parametrize("name", columns_of_few_numbers())
@pytest.mark.parametrize("backend", ["xgboost", "lightgbm"])
def test_values_that_a_library_reads_as_one_are_one_step(backend, name):
    rng = np.random.default_rng(0)
    task = rng.integers(0, 4, 300)
    slope = rng.normal(size=300)
    y = slope * np.array([1.0, 2.0, -1.0, 0.0])[task] + 0.3 * rng.normal(size=300)
    column = columns_of_few_numbers()[name]
    X = np.column_stack([slope, column])
    options = {"strategy": "two-stage", "linear_effects": True, "num_boost_round": 3}
    model = mtboost.fit(X, y, task=task, backend=backend, **options)
    new = [column[0], 2.0 * column[0], -column[0], 0.0, np.nan]
    rows = np.column_stack([np.zeros(5), new])
    assert np.abs(model.predict(rows, task=np.zeros(5, int))).max() < 2.0
    parts = model.contributions(X, task=task)
    assert_allclose(parts.sum(axis=1), model.predict(X, task=task), atol=1e-5)


def test_contributions_are_numbers_where_no_row_has_a_hessian():
    rng = np.random.default_rng(0)
    X, task, time = rng.normal(size=(500, 3)), rng.integers(0, 3, 500), rng.exponential(1, 500)
    y = np.where(time > np.quantile(time, 0.7), time, -time)  # the last ones have events
    options = {"strategy": "two-stage", "linear_effects": True, "num_boost_round": 3}
    model = mtboost.fit(X, y, task=task, objective="survival:cox", **options)
    assert np.isfinite(model.contributions(X, task=task)).all()


def test_steps_follow_a_line_closely():
    # The mean variance within 128 steps of equal counts is .0018 of a normal column's; of 32 .0097.
    rng = np.random.default_rng(13)
    X, task = rng.normal(size=(4000, 1)), np.arange(4000) % 4
    options = {"num_boost_round": 1, "params": {"learning_rate": 1e-9}}
    model = fit(X, X[:, 0], task, **options)
    new = rng.normal(size=(4000, 1))
    assert np.mean((model.predict(new, task=task) - new[:, 0]) ** 2) < 0.003


def test_effects_of_few_rows_count_by_their_rows(monkeypatch):
    rng = np.random.default_rng(11)
    X, y, task = rng.normal(size=(60, 50)), rng.normal(size=60), np.arange(60) % 20
    n_values = 20 * 50 * 32  # of the leaves; more than the rows, fewer than 20 times 51 squared
    options = {"num_boost_round": 1, "validation_fraction": 0}
    monkeypatch.setattr(stage, "_MOST_NUMBERS", n_values)
    assert fit(X, y, task, **options).common_trees.n_linear == 51
    monkeypatch.setattr(stage, "_MOST_NUMBERS", n_values - 1)
    with pytest.raises(ParameterError, match="20 tasks of 50 columns are too many"):
        fit(X, y, task, **options)
    nested = [(name, 0) for name in task]
    n_moments = 20 * 51 * 51 + 60 * 51  # of 20 groups and of 60 rows
    monkeypatch.setattr(stage, "_MOST_NUMBERS", n_moments)
    assert fit(X, y, nested, **options).common_trees.n_linear == 51
    monkeypatch.setattr(stage, "_MOST_NUMBERS", n_moments - 1)
    with pytest.raises(ParameterError, match="20 tasks of 50 columns are too many"):
        fit(X, y, nested, **options)


@pytest.mark.parametrize(("linear_effects", "n_linear"), [(True, N_COLUMNS + 1), ("intercepts", 1)])
def test_changed_models_keep_linear_effects(linear_effects, n_linear):
    X, y, task, _ = linear_rows(8, n_rows=40)
    model = fit(X, y, task, pooling=5.0, linear_effects=linear_effects)
    rows = {3: X[:20]}
    refreshed = model.refresh(X, y + 1.0, task=task)
    assert refreshed.common_trees.n_linear == n_linear
    assert np.mean(refreshed.predict(rows)[3]) > np.mean(model.predict(rows)[3])
    updated = model.update(X, y + 1.0, task=task, validation_fraction=0)
    assert updated.common_trees.n_linear == n_linear
    assert np.mean(updated.predict(X, task=task) - y) > 0.5
    model.add_task(99, X[:40], y[:40])
    assert np.isfinite(model.predict({99: X[:5]})[99]).all()
    assert_array_equal(model.remove_task(0).predict(rows)[3], model.predict(rows)[3])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pooling", [None, 1e9])
@pytest.mark.parametrize("linear_effects", LINEAR)
def test_a_task_that_joined_later_is_refreshed_with_the_others(backend, linear_effects, pooling):
    X, y, task, _ = linear_rows(8, n_rows=40)
    params = {"learning_rate": 1.0, "reg_lambda": 0.0}
    options = {"pooling": pooling, "linear_effects": linear_effects, "validation_fraction": 0}
    model = fit(X, y, task, backend=backend, params=params, num_boost_round=1, **options)
    model.add_task(99, X[:40], y[:40] + 3.0, validation_fraction=0, specific_rounds=0)
    rows = np.r_[np.arange(len(X)), np.arange(40)]
    new_y, new_task = np.r_[y + 1.0, y[:40] - 20.0], np.r_[task, np.full(40, 99)]
    found = model.refresh(X[rows], new_y, task=new_task, shrink=0)
    # Leaves with the mean of what the effects leave: nothing is left on average.
    assert_allclose(np.mean(new_y - found.predict(X[rows], task=new_task)), 0.0, atol=1e-4)


def test_contributions_add_up_and_one_booster_holds_all_tasks():
    X, y, task, _ = linear_rows(9)
    model = fit(X, y, task)
    found = model.contributions(X, task=task)
    assert_allclose(found.sum(axis=1), model.predict_margin(X, task=task), atol=1e-4)
    together = model.booster().predict(xgboost.DMatrix(X))
    assert_array_equal(together[np.arange(len(X)), task], model.predict(X, task=task))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"task": None}, "there is one task only"),
        ({"objective": "reg:absoluteerror"}, "objective must be one of reg:squarederror"),
        ({"params": {"monotone_constraints": "(1,0,0)"}}, "monotone_constraints may be violated"),
    ],
)
def test_impossible_linear_effects_are_refused(options, reason):
    X, y, task, _ = linear_rows(10)
    with pytest.raises(ParameterError, match=f"linear_effects=True is not possible: {reason}"):
        fit(X, y, **({"task": task} | options))


@pytest.mark.parametrize("signs", [{"x1": 0}, "()", (0, 0, 0)])
def test_monotone_constraints_of_zero_are_none(signs):
    X, y, task, _ = linear_rows(10)
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    params = {"monotone_constraints": signs, "learning_rate": 0.1}
    model, plain = fit(table, y, task, params=params), fit(table, y, task)
    assert_array_equal(model.predict(table, task=task), plain.predict(table, task=task))


def test_intercepts_go_with_monotone_constraints():
    X, y, task, _ = linear_rows(10)
    params = {"monotone_constraints": "(1,0,0)", "learning_rate": 0.1}
    model = fit(X, y, task, linear_effects="intercepts", params=params)
    rows = np.repeat(X[:1], 20, axis=0)
    rows[:, 0] = np.linspace(-2.0, 2.0, 20)
    assert (np.diff(model.predict({3: rows})[3]) >= 0.0).all()
    with pytest.raises(TypeError, match="True, False or 'intercepts'"):
        fit(X, y, task, linear_effects="slopes")


def test_the_second_training_may_end_sooner(monkeypatch):
    # As LightGBM's does if it finds no split.
    train, n_rounds = common._train_common, iter([5, 2])

    def ends_sooner(settings, data, matrix, added, most, *args):
        return train(settings, data, matrix, added, next(n_rounds), *args)

    monkeypatch.setattr(common, "_train_common", ends_sooner)
    X, y, task, _ = linear_rows(10)
    model = fit(X, y, task, backend="lightgbm", validation_fraction=0.2, refit=True)
    assert np.isfinite(model.predict(X, task=task)).all()
    assert set(model.quit_round.values()) <= {*range(model.common_trees.n_linear + 3)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("labels", "objective"),
    [
        (np.zeros(200), "squared error"),
        (np.full(200, 3.5), "squared error"),
        (np.where(np.arange(200) == 7, 1.5, 0.0), "squared error"),
        (np.ones(200), "poisson"),
        (np.zeros(200), "logistic"),
    ],
)
def test_labels_that_hardly_vary_have_hardly_any_effects(backend, labels, objective):
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(200, 3)), np.arange(200) % 5
    names = {
        "squared error": {"xgboost": "reg:squarederror", "lightgbm": "regression"},
        "poisson": {"xgboost": "count:poisson", "lightgbm": "poisson"},
        "logistic": {"xgboost": "binary:logistic", "lightgbm": "binary"},
    }
    options = {"objective": names[objective][backend]}
    two_stage = {"strategy": "two-stage", "split_score": "plain"}
    searched = {"effort": "fast", "validation_fraction": 0.25}
    for kind in (searched, *({**two_stage, "linear_effects": on} for on in LINEAR)):
        options |= {"task": task, "backend": backend, "num_boost_round": 5}
        model = mtboost.fit(X, labels, **options, **kind)
        found = model.predict(X, task=task)
        assert np.isfinite(found).all()
        assert np.abs(found - labels.mean()).max() < 0.5
