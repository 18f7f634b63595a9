# SPDX-License-Identifier: Apache-2.0
"""Losses of different tasks beside each other, against their definition in NumPy float64."""

import numpy as np
import pytest
import scipy.stats
from oracle.test_losses import (
    POWER,
    naive_gamma,
    naive_logistic,
    naive_poisson,
    naive_squared,
    naive_tweedie,
)

from mtboost.base.dataset import Dataset
from mtboost.errors import TrainingError
from mtboost.metrics import Metric, evaluate_by_task, get_metric
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.stages.mixed_objective import (
    gradient_function,
    measure_losses,
    metric_by_task,
    metrics_by_task,
    start_margins,
)
from mtboost.trees.losses import inverse_link, link

N = 600
MAX_DELTA_STEP = 0.7


# Task: XGBoost's and LightGBM's name, loss of a row in its own margin, variance of a label of this
# mean if the dispersion is 1.
KINDS = {
    "amount": ("reg:squarederror", "regression", naive_squared, lambda mean: 1.0),
    "class": ("binary:logistic", "binary", naive_logistic, lambda mean: mean * (1 - mean)),
    "share": ("reg:logistic", "cross_entropy", naive_logistic, lambda mean: mean * (1 - mean)),
    "count": ("count:poisson", "poisson", naive_poisson, lambda mean: mean),
    "cost": ("reg:gamma", "gamma", naive_gamma, lambda mean: mean**2),
    "claim": ("reg:tweedie", "tweedie", naive_tweedie, lambda mean: mean**POWER),
}
NAMES = sorted(KINDS)


def labels(rng):
    return {
        "amount": 500 + 70 * rng.normal(size=N),
        "class": (rng.random(N) < 0.2).astype(float),
        "share": rng.beta(2, 5, N),
        "count": rng.poisson(rng.gamma(2.0, 10.0, N)).astype(float),
        "cost": rng.gamma(5.0, 3.0, N),
        "claim": rng.gamma(0.7, 40.0, N) * (rng.random(N) < 0.4),
    }


RNG = np.random.default_rng(0)
Y = labels(RNG)
WEIGHT = {name: RNG.integers(0, 4, N).astype(float) for name in NAMES}
PARAMS = {"tweedie_variance_power": POWER}


@pytest.fixture(params=["xgboost", "lightgbm"])
def backend(request):
    return get_backend(request.param)


@pytest.fixture(params=[False, True], ids=["", "weights"])
def rows(request):
    tables = {name: np.zeros((N, 1)) for name in NAMES}
    return Dataset(tables, Y, weight=WEIGHT if request.param else None)


def measured(backend, rows):
    own = {name: KINDS[name][0 if backend.name == "xgboost" else 1] for name in NAMES}
    return measure_losses(own, rows, backend, PARAMS)


def weights_of(rows, name):
    return np.ones(N) if rows.weight is None else rows.weight[rows.tasks.rows(name)]


@pytest.mark.parametrize("name", NAMES)
def test_a_task_starts_from_its_mean_and_is_divided_by_pearsons_dispersion(backend, rows, name):
    loss = measured(backend, rows)[name]
    weights = weights_of(rows, name)
    mean = np.average(Y[name], weights=weights)
    np.testing.assert_allclose(loss.start, mean, rtol=1e-6)  # as float32
    squares = np.average((Y[name] - mean) ** 2, weights=weights)
    dispersion = squares / KINDS[name][3](mean)
    if name == "count":  # both libraries enlarge the hessian of counts
        dispersion /= np.exp(MAX_DELTA_STEP)
    np.testing.assert_allclose(loss.dispersion, dispersion, rtol=1e-4)  # gradients are float32
    unit = {"amount": np.sqrt(dispersion), "class": scipy.stats.logistic.std()}.get(name, 1.0)
    np.testing.assert_allclose(loss.unit, unit, rtol=1e-4)


def test_two_classes_have_the_unit_of_logistic_errors_and_no_dispersion(backend, rows):
    loss = measured(backend, rows)["class"]
    assert (loss.unit, loss.dispersion) == (pytest.approx(scipy.stats.logistic.std()), 1.0)


def test_nothing_but_classes_has_a_unit_of_one(backend):
    names = ["class", "other"]
    rows = Dataset({n: np.zeros((N, 1)) for n in names}, dict.fromkeys(names, Y["class"]))
    losses = measure_losses(dict.fromkeys(names, backend.binary), rows, backend, {})
    assert {loss.unit for loss in losses.values()} == {1.0}


def test_a_slope_of_log_odds_is_in_the_unit_of_classes(backend):
    if backend.name == "xgboost":
        pytest.skip("its log-odds are margins")
    own = {"class": "binary", "amount": "regression"}
    rows = Dataset({n: np.zeros((N, 1)) for n in own}, {n: Y[n] for n in own})
    loss = measure_losses(own, rows, backend, {"sigmoid": 2.0})["class"]
    assert loss.unit == pytest.approx(scipy.stats.logistic.std() / 2.0)


def test_gradients_are_those_of_the_divided_loss_in_the_common_margin(backend, rows):
    losses = measured(backend, rows)
    margins = start_margins(losses, rows, backend)
    margins += np.random.default_rng(1).uniform(-0.5, 0.5, len(margins)).astype(margins.dtype)
    gradient, hessian = gradient_function(losses, rows, backend, n_threads=2)(margins, None)
    step = 1e-4
    for name in NAMES:
        own, loss = rows.tasks.rows(name), losses[name]

        def divided(margin, loss=loss, name=name):
            return KINDS[name][2](loss.unit * margin, Y[name]) / loss.dispersion

        at = margins[own].astype(np.float64)
        low, middle, high = (divided(at + k * step) for k in (-1, 0, 1))
        weights = weights_of(rows, name)
        size = np.abs(gradient[own]).max()
        np.testing.assert_allclose(
            gradient[own], weights * (high - low) / (2 * step), rtol=1e-3, atol=1e-3 * size
        )
        if name == "cost":  # XGBoost's and LightGBM's hessian of gamma is exact as well
            np.testing.assert_allclose(
                hessian[own], weights * (high - 2 * middle + low) / step**2, rtol=1e-3, atol=1e-3
            )


def test_at_the_start_squared_gradients_are_as_large_as_hessians_in_every_task(backend, rows):
    # Then a cut that tells nothing gains on average, on each side, G² / H = 1 in every task.
    losses = measured(backend, rows)
    margins = start_margins(losses, rows, backend)
    gradient, hessian = gradient_function(losses, rows, backend, n_threads=1)(margins, None)
    for name in NAMES:
        own, weights = rows.tasks.rows(name), weights_of(rows, name)
        counted = weights > 0
        squares = gradient[own][counted].astype(np.float64) ** 2 / weights[counted]
        np.testing.assert_allclose(squares.sum(), hessian[own].sum(dtype=np.float64), rtol=1e-4)


def test_base_margins_take_the_place_of_the_start(backend):
    names = ["amount", "count"]
    given = {"amount": Y["amount"] - 3.0, "count": np.full(N, 1.5)}
    rows = Dataset(
        {n: np.zeros((N, 1)) for n in names}, {n: Y[n] for n in names}, base_margin=given
    )
    own = {n: KINDS[n][0 if backend.name == "xgboost" else 1] for n in names}
    losses = measure_losses(own, rows, backend, {})
    assert losses["amount"].start_margin == losses["count"].start_margin == 0.0
    np.testing.assert_allclose(losses["amount"].unit, 3.0, rtol=1e-4)
    start = start_margins(losses, rows, backend)
    for name in names:
        common = start[rows.tasks.rows(name)]
        np.testing.assert_allclose(common * losses[name].unit, given[name], rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_labels_that_are_all_alike_have_a_unit_all_the_same(backend, value):
    names = ["amount", "count"]
    rows = Dataset({n: np.zeros((9, 1)) for n in names}, {n: np.full(9, value) for n in names})
    own = {n: KINDS[n][0 if backend.name == "xgboost" else 1] for n in names}
    for loss in measure_losses(own, rows, backend, {}).values():
        assert np.isfinite([loss.start_margin, loss.unit, loss.dispersion]).all()
        assert min(loss.unit, loss.dispersion) > 0


def test_a_task_without_weight_is_measured_by_its_rows(backend):
    names = ["amount", "cost"]
    own = {n: KINDS[n][0 if backend.name == "xgboost" else 1] for n in names}
    tables = {n: np.zeros((N, 1)) for n in names}
    labels = {n: Y[n] for n in names}
    weight = {"amount": np.ones(N), "cost": np.zeros(N)}
    with_weight, without = (
        measure_losses(own, Dataset(tables, labels, weight=w), backend, {}) for w in (weight, None)
    )
    assert with_weight == without


@pytest.mark.parametrize("name", NAMES)
def test_a_link_is_undone_by_its_inverse(backend, name):
    objective = KINDS[name][0 if backend.name == "xgboost" else 1]
    means = np.linspace(0.1, 0.9, 5)
    np.testing.assert_allclose(inverse_link(objective, link(objective, means)), means, rtol=1e-12)
    again = inverse_link(objective, link(objective, means, sigmoid=2.0), sigmoid=2.0)
    np.testing.assert_allclose(again, means, rtol=1e-12)


def test_each_task_has_its_own_metric_of_its_own_predictions(backend, rows):
    losses = measured(backend, rows)
    own = {name: loss.objective for name, loss in losses.items()}
    late = Metric("late", lambda y, p, sample_weight: float(np.mean(p - y)), True)
    given = {"class": "auc", "cost": late}
    metrics = metrics_by_task(given, own, rows.tasks, backend, PARAMS)
    metric = metric_by_task([*losses.values()], [metrics[name] for name in NAMES])
    margins = np.random.default_rng(2).normal(size=rows.n_rows)
    codes = rows.tasks.codes
    found = evaluate_by_task(metric, rows.labels(), margins, codes, len(NAMES), rows.weight)
    for code, name in enumerate(NAMES):
        part = rows.tasks.rows(name)
        expected = evaluate_by_task(
            metrics[name],
            Y[name],
            losses[name].inverse_link(losses[name].unit * margins[part]),
            np.zeros(N, np.int32),
            1,
            None if rows.weight is None else rows.weight[part],
        )
        np.testing.assert_allclose(found[code], expected[0], rtol=1e-12)
        better = metric.gains(found, found - 1.0)[code]
        assert better == pytest.approx(1.0 if metrics[name].greater_is_better else -1.0)
        assert metric.name_of(code) == metrics[name].name
    assert metrics["class"] is get_metric("auc")
    assert metrics["claim"].name == f"tweedie-nloglik@{POWER:g}"


def test_rows_of_some_tasks_have_a_metric_and_the_others_have_none(backend, rows):
    losses = measured(backend, rows)
    own = {name: loss.objective for name, loss in losses.items()}
    metrics = metrics_by_task(None, own, rows.tasks, backend, PARAMS)
    metric = metric_by_task([*losses.values()], [metrics[name] for name in NAMES])
    codes = np.full(N, NAMES.index("cost"), np.int32)
    found = evaluate_by_task(metric, Y["cost"], np.zeros(N), codes, len(NAMES))
    assert (~np.isnan(found)).nonzero()[0].tolist() == [NAMES.index("cost")]


def test_gradients_that_are_not_finite_name_the_objective(backend, rows):
    losses = measured(backend, rows)
    margins = start_margins(losses, rows, backend)
    margins[rows.tasks.rows("count")[3]] = 1e4
    with pytest.raises(TrainingError, match=losses["count"].objective):
        gradient_function(losses, rows, backend, n_threads=1)(margins, None)
