# SPDX-License-Identifier: Apache-2.0
"""Predictions of ``strategy="auto"`` are shrunk towards a constant as far as they are uncertain."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import mtboost
from mtboost.datasets import make_task_family
from mtboost.model.sharing import evidence
from mtboost.model.sharing.towards_constant import garrote_factor

FAST = {"effort": "fast", "n_threads": 1}


def losses_of(y, margins, constant):
    """Squared errors at a multiple."""
    return lambda multiple: (y - constant - multiple * (margins - constant)) ** 2


def test_factor_is_the_regression_coefficient_shrunk_by_its_standard_error():
    rng = np.random.default_rng(0)
    margins, weights = rng.normal(size=300), rng.uniform(0.5, 2.0, 300)
    y = 2.0 + 0.6 * margins + rng.normal(size=300)
    b = (weights * margins * (y - 2.0)).sum() / (weights * margins**2).sum()
    residuals = y - 2.0 - b * margins
    s = np.sqrt(((weights * margins * residuals) ** 2).sum()) / (weights * margins**2).sum()
    found = garrote_factor(losses_of(y, 2.0 + margins, 2.0), weights)
    assert found == pytest.approx(b * (1.0 - (3.0 * s / b) ** 4), rel=1e-9)


def log_losses_of(y, margins, constant):
    """Negative log-likelihoods of two classes at a multiple."""

    def losses_at(multiple):
        own = constant + multiple * (margins - constant)
        return np.logaddexp(0.0, own) - y * own

    return losses_at


def test_true_probabilities_of_nearly_certain_classes_are_not_shrunk():
    """The parabola through the losses of nothing, half and all of such margins has its least early.

    The true probabilities have the least log loss of all multiples.
    """
    rng = np.random.default_rng(0)
    margins = 8.0 * rng.normal(size=2000)
    y = rng.random(2000) < 1.0 / (1.0 + np.exp(-margins))
    losses = log_losses_of(y, margins, 0.0)
    constant, half, model = (losses(each).sum() for each in (0.0, 0.5, 1.0))
    least = (3.0 * constant - 4.0 * half + model) / (4.0 * (constant - 2.0 * half + model))
    assert least < 0.9
    assert garrote_factor(losses, np.ones(2000), None, True) == 1.0
    groups = np.arange(2000) // 2
    assert garrote_factor(losses, np.ones(2000), groups, True) == 1.0


def test_overconfident_probabilities_of_nearly_certain_classes_are_shrunk():
    rng = np.random.default_rng(1)
    margins = 8.0 * rng.normal(size=2000)
    y = rng.random(2000) < 1.0 / (1.0 + np.exp(-margins))
    found = garrote_factor(log_losses_of(y, 2.0 * margins, 0.0), np.ones(2000), None, True)
    assert found == pytest.approx(0.5, abs=0.05)


def test_the_error_of_a_likelihood_is_at_most_that_of_its_curvature():
    rng = np.random.default_rng(7)
    margins, weights = -4.0 + rng.normal(size=1500), rng.uniform(0.5, 2.0, 1500)
    y = rng.random(1500) < 1.0 / (1.0 + np.exp(-margins))
    losses = log_losses_of(y, margins, -4.0)
    b = scipy.optimize.minimize_scalar(lambda multiple: weights @ losses(multiple)).x
    p = 1.0 / (1.0 + np.exp(4.0 - b * (margins + 4.0)))
    curvature = p * (1.0 - p) * (margins + 4.0) ** 2
    s = np.sqrt(weights**2 @ curvature) / (weights @ curvature)
    by_rows = garrote_factor(losses, weights, np.arange(1500), True)
    found = garrote_factor(losses, weights, None, True)
    assert 0.1 < by_rows < found < 1.0
    assert found == pytest.approx(b * (1.0 - (3.0 * s / b) ** 4), rel=0.01)


def test_true_models_of_a_rare_class_are_hardly_shrunk():
    """Of 300 draws, with some 27 positives each, at most half as many models lose nine tenths.

    By the slopes of the rows alone a tenth of them do: ten or fewer have a probability below 1e-4.
    """
    shrunk = {False: 0, True: 0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        margins = -4.6 + rng.normal(size=1700)
        losses = log_losses_of(rng.random(1700) < 1.0 / (1.0 + np.exp(-margins)), margins, -4.6)
        for known in shrunk:
            shrunk[known] += garrote_factor(losses, np.ones(1700), None, known) <= 0.1
    assert shrunk[False] > 10
    assert shrunk[True] <= shrunk[False] / 2


def test_rows_that_are_held_out_twice_count_once():
    rng = np.random.default_rng(1)
    margins = rng.normal(size=200)
    losses = losses_of(0.5 * margins + rng.normal(size=200), margins, 0.0)
    once = garrote_factor(losses, np.ones(200))
    twice = garrote_factor(
        lambda multiple: np.tile(losses(multiple), 2), np.full(400, 0.5), np.tile(np.arange(200), 2)
    )
    assert 0.0 < once < 1.0
    assert twice == pytest.approx(once, rel=1e-9)


def test_certain_gains_are_kept_whole_and_losses_not_at_all():
    rng = np.random.default_rng(2)
    signal = rng.normal(size=2000)
    y = signal + 0.1 * rng.normal(size=2000)
    assert garrote_factor(losses_of(y, signal, 0.0), np.ones(2000)) == 1.0
    assert garrote_factor(losses_of(y, -signal, 0.0), np.ones(2000)) == 0.0
    assert garrote_factor(losses_of(y, 11.0 * signal, 0.0), np.ones(2000)) == 0.1
    assert garrote_factor(lambda _: np.ones(5), np.ones(5)) == 1.0  # the multiple does not matter


def test_a_tenth_of_models_without_signal_is_kept():
    """Of 1000 margins without signal 2.7 / 2 in 1000 exceed three errors: above 8 with p < 1e-4."""
    rng = np.random.default_rng(3)
    y, margins = rng.normal(size=(1000, 200)), rng.normal(size=(1000, 200))
    factors = np.array(
        [
            garrote_factor(losses_of(own, other, 0.0), np.ones(200))
            for own, other in zip(y, margins, strict=True)
        ]
    )
    assert (factors > 0.1).sum() <= 8
    assert (factors < 0.1).sum() <= 8


@pytest.mark.parametrize(("kind", "classification"), [("related", False), ("unrelated", True)])
def test_shrunk_margins_are_between_the_constant_and_the_model(monkeypatch, kind, classification):
    family = make_task_family(kind, n_tasks=4, n_rows=240, classification=classification, seed=4)
    X, y, task = family.in_one_table()
    margins = {}
    for factor in (0.0, 0.5, 1.0):
        monkeypatch.setattr(evidence, "garrote_factor", lambda *_, own=factor: own)
        model = mtboost.fit(X, y, task=task, validation_fraction=0.3, **FAST)
        margins[factor] = model.predict_margin(X, task=task)
        assert set(model.report()["shrinkage_factor"]) == {factor}
    assert np.ptp(margins[0.0]) < 1e-6
    assert np.ptp(margins[1.0]) > 0.1
    middle = (margins[0.0] + margins[1.0]) / 2
    np.testing.assert_allclose(margins[0.5], middle, atol=1e-5)  # sums of float32


def test_the_report_of_tasks_that_all_joined_later_has_the_factor():
    family = make_task_family("related", n_tasks=4, n_rows=120, seed=8)
    X, y, task = family.in_one_table()
    model = mtboost.fit(X, y, task=task, validation_fraction=0.3, **FAST)
    first, *others = model.tasks
    replaced = model.replace_task(first, X[task == first], y[task == first])
    for other in others:
        replaced = replaced.remove_task(other)
    assert list(replaced.report()["shrinkage_factor"]) == [model.shrinkage_factor]


@pytest.mark.parametrize(
    ("factor", "short", "sentence"),
    [
        (0.0, "shrunk to a constant", "All predictions are a constant"),
        (0.25, "shrunk by the factor 0.25 towards a constant", "to 25% of their distance from it"),
        (1.0, None, "Predictions are not shrunk towards a constant."),
    ],
)
def test_models_say_that_they_are_shrunk(monkeypatch, tmp_path, factor, short, sentence):
    family = make_task_family("related", n_tasks=4, n_rows=120, seed=8)
    X, y, task = family.in_one_table()
    monkeypatch.setattr(evidence, "garrote_factor", lambda *_: factor)
    mtboost.fit(X, y, task=task, validation_fraction=0.3, **FAST).save(tmp_path / "model")
    model = mtboost.load_model(tmp_path / "model")
    assert model.shrinkage_factor == factor
    for text in (repr(model), model._repr_html_()):
        assert short in text if short else "shrunk" not in text
    model.report_html(tmp_path / "report.html")
    assert sentence in (tmp_path / "report.html").read_text("utf-8")


def test_without_shrinkage_predictions_are_those_of_a_factor_of_one(monkeypatch):
    family = make_task_family("related", n_tasks=4, n_rows=240, seed=6)
    X, y, task = family.in_one_table()
    options = {"task": task, "linear_effects": False, "validation_fraction": 0.3, **FAST}
    monkeypatch.setattr(evidence, "garrote_factor", lambda *_: 1.0)
    expected = mtboost.fit(X, y, **options).predict(X, task=task)
    monkeypatch.setattr(evidence, "garrote_factor", lambda *_: 0.5)
    found = mtboost.fit(X, y, shrink_to_constant=False, **options).predict(X, task=task)
    np.testing.assert_array_equal(found, expected)
    assert np.ptp(mtboost.fit(X, y, **options).predict(X, task=task)) < 0.9 * np.ptp(expected)


def test_refreshed_leaves_are_shrunk_as_those_before(monkeypatch):
    """Refreshed on the rows it was trained on, with as much weight on them, a model stays near."""
    family = make_task_family("related", n_tasks=4, n_rows=240, seed=7)
    X, y, task = family.in_one_table()
    spread = {}
    for factor in (0.5, 1.0):
        monkeypatch.setattr(evidence, "garrote_factor", lambda *_, own=factor: own)
        options = {"pooling": None, "linear_effects": False, "validation_fraction": 0.3, **FAST}
        model = mtboost.fit(X, y, task=task, **options)
        margins = (m.predict_margin(X, task=task) for m in (model, model.refresh(X, y, task=task)))
        before, after = map(np.ptp, margins)
        spread[factor] = after / before
    assert spread[0.5] < 1.3 * spread[1.0]


def test_final_score_is_that_of_the_shrunk_predictions(monkeypatch):
    family = make_task_family("related", n_tasks=4, n_rows=240, seed=5)
    X, y, task = family.in_one_table()
    monkeypatch.setattr(evidence, "garrote_factor", lambda *_: 0.0)
    X, y, task = np.asarray(X), np.asarray(y), np.asarray(task)
    is_valid = np.arange(len(y)) % 3 == 0
    model = mtboost.fit(
        X[~is_valid],
        y[~is_valid],
        task=task[~is_valid],
        eval_set=(X[is_valid], y[is_valid], task[is_valid]),
        **FAST,
    )
    report = model.report()
    for name in family.X:
        own = y[is_valid & (task == name)]
        expected = np.sqrt(((own - y[~is_valid].mean()) ** 2).mean())
        assert report.loc[name, "rmse final"] == pytest.approx(expected, rel=1e-5)


def test_final_score_of_hazards_is_that_of_risk_sets_of_each_fold(monkeypatch):
    """As the scores of all ways; risk sets of all folds together would be larger."""
    rng = np.random.default_rng(9)
    X, task = rng.normal(size=(300, 2)), np.tile(["a", "b"], 150)
    times = rng.exponential(np.exp(-X[:, 0]))
    monkeypatch.setattr(evidence, "garrote_factor", lambda *_: 0.999)
    options = {"num_boost_round": 10, **FAST}
    model = mtboost.fit(X, times, task=task, objective="survival:cox", **options)
    for _, row in model.report().iterrows():
        way = row["sharing"]
        # The loss of margins that are .999 of the others differs by about a thousandth of the gain.
        assert row["cox-nloglik final"] == pytest.approx(row[f"cox-nloglik {way}"], rel=1e-3)
