# SPDX-License-Identifier: Apache-2.0
"""Leaf values estimated again from new rows."""

import numpy as np
import pandas as pd
import pytest

import mtboost
from mtboost.base.checked_tables import as_table
from mtboost.errors import DataError, ParameterError, UnsupportedError

FIXED = {
    "strategy": "two-stage",
    "validation_fraction": 0,
    "num_boost_round": 8,
    "specific_rounds": 3,
    "early_stopping_rounds": None,
    "split_score": "plain",
}
RATE = 0.1  # of fit's two stages


def rows(seed=0, n_rows=240, effect=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    task = np.array(["a", "b", "c"])[np.arange(n_rows) % 3]
    y = X[:, 0] + effect * (task == "b") * X[:, 1] + 0.3 * rng.normal(size=n_rows)
    return X, y.astype(np.float32), task


def fitted(library, y_of=lambda y: y, **options):
    X, y, task = rows()
    return mtboost.fit(X, y_of(y), task=task, backend=library.name, **{**FIXED, **options})


VARIANTS = {
    "plain": {},
    "pooled leaves": {"pooling": 5.0},
    "task splits": {"task_splits": True, "pooling": 3.0},
    "descriptors": {"task_splits": "descriptors"},
    "classes": {"y_of": lambda y: (y > 0).astype(int)},
    "counts": {"y_of": lambda y: np.round(np.exp(y)), "objective": "count:poisson"},
    "several classes": {
        "y_of": lambda y: np.digitize(y, [-0.5, 0.5]),
        "objective": "multi:softprob",
    },
    "another loss in the tasks' models": {
        "y_of": lambda y: (y > 0).astype(int),
        "specific_params": {"scale_pos_weight": 5.0},
    },
    "penalties": {"params": {"reg_lambda": 3.0, "reg_alpha": 2.0, "max_delta_step": 0.5}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_training_rows_without_shrinkage_give_the_same_model(library, variant):
    options = dict(VARIANTS[variant])
    y_of = options.pop("y_of", lambda y: y)
    if "objective" in options:
        options["objective"] = library.own(options["objective"])
    if "params" in options and library.name == "lightgbm":
        options["params"] = {"lambda_l2": 3.0}  # with another penalty the start is not exact
    X, y, task = rows()
    model = fitted(library, y_of, **options)
    found = model.refresh(X, y_of(y), task=task, shrink=0)
    expected = model.predict_margin(X, task=task)
    # Sums of float32 in another order, over some ten trees.
    np.testing.assert_allclose(found.predict_margin(X, task=task), expected, atol=1e-5)


def test_infinite_shrinkage_gives_the_same_model_and_the_old_one_stays(library):
    X, y, task = rows(1)
    for options in ({}, {"pooling": 5.0}):
        model = fitted(library, **options)
        before = model.predict_margin(X, task=task)
        kept = model.refresh(X, y + 10, task=task, shrink=np.inf)
        np.testing.assert_array_equal(kept.predict_margin(X, task=task), before)
        near = model.refresh(X, y + 10, task=task, shrink=1e9)
        np.testing.assert_allclose(near.predict_margin(X, task=task), before, atol=1e-4)
        moved = model.refresh(X, y + 10, task=task, shrink=0)
        assert np.abs(moved.predict_margin(X, task=task) - before).min() > 1
        np.testing.assert_array_equal(model.predict_margin(X, task=task), before)


def naive(library, model, X, y, task, shrink, penalty):
    """Margins of squared error by the formula, tree after tree, from the library's leaf numbers."""
    backend = model._library
    margins = np.zeros(len(y))
    for name, booster, own in [(None, model.common, np.arange(len(y)))] + [
        (name, model.specific[name], np.flatnonzero(task == name)) for name in model.tasks
    ]:
        document = backend.document(booster)
        leaves = np.asarray(backend.leaves(booster, as_table(np.ascontiguousarray(X[own]))))
        for number, (w, H) in enumerate(
            zip(document.leaf_values(), document.leaf_hessians(), strict=True)
        ):
            first = 0.0
            if name is None and number == 0:
                first = document.start_margins()[0]
                if library.name == "lightgbm":  # the start is in the first tree
                    first = np.average(w, weights=H)
                    w = w - first
                margins += first
            for leaf in np.unique(leaves[:, number]):
                inside = own[leaves[:, number] == leaf]
                alone = RATE * (y[inside] - margins[inside]).sum() / (len(inside) + penalty)
                total = shrink * H[leaf] + len(inside)
                margins[inside] += (shrink * H[leaf] * w[leaf] + len(inside) * alone) / total
    return margins


@pytest.mark.parametrize("shrink", [0.0, 0.5, 2.0])
def test_leaf_values_are_those_of_the_formula(library, shrink):
    model = fitted(library)
    X, y, task = rows(1, 90, effect=3.0)
    penalty = {"xgboost": 1.0, "lightgbm": 0.0}[library.name]
    expected = naive(library, model, X, y, task, shrink, penalty)
    found = model.refresh(X, y, task=task, shrink=shrink)
    np.testing.assert_allclose(found.predict_margin(X, task=task), expected, atol=1e-5)


def test_deviations_of_tasks_are_those_of_the_formula(library):
    """One tree with one split, so that all terms can be written down."""
    kappa, shrink, penalty = 4.0, 0.5, {"xgboost": 1.0, "lightgbm": 0.0}[library.name]
    X = np.repeat([[0.0], [1.0]], 40, axis=0)
    task = np.tile(["a", "b"], 40)
    y = X[:, 0] * np.where(task == "a", 1.0, 3.0)
    options = {**FIXED, "num_boost_round": 1, "specific_rounds": 0, "pooling": kappa}
    model = mtboost.fit(X, y, task=task, backend=library.name, **options)
    new_X, new_task = np.ones((12, 1)), np.array(["a"] * 9 + ["b"] * 3)
    new_y = np.where(new_task == "a", 2.0, 5.0)
    found = model.refresh(new_X, new_y, task=new_task, shrink=shrink)

    start, H = y.mean(), 40
    w = RATE * (y[40:] - start).sum() / (H + penalty)
    v = (shrink * H * w + 12 * (RATE * (new_y - start).sum() / (12 + penalty))) / (shrink * H + 12)
    for name, old, new, n_new in (("a", 1.0, 2.0, 9), ("b", 3.0, 5.0, 3)):
        d = 20 / (20 + kappa) * (RATE * (old - start) - w)
        total = shrink * (20 + kappa) + (1 - shrink) * kappa + n_new
        moved = (shrink * (20 + kappa) * d + n_new * (RATE * (new - start) - v)) / total
        expected = start + v + moved
        np.testing.assert_allclose(
            found.predict({name: np.ones((1, 1))})[name], expected, rtol=1e-5
        )


@pytest.mark.parametrize("variant", ["plain", "pooled leaves", "task splits", "several classes"])
def test_boosters_and_files_are_those_of_the_new_model(library, variant, tmp_path):
    options = dict(VARIANTS[variant])
    y_of = options.pop("y_of", lambda y: y)
    if "objective" in options:
        options["objective"] = library.own(options["objective"])
    X, y, task = rows(1, effect=2.0)
    model = fitted(library, y_of, **options).refresh(X, y_of(y), task=task)
    margins = model.predict_margin(X, task=task)
    for name in model.tasks:
        own = library.margins(model.booster(name), X[task == name])
        np.testing.assert_allclose(own, margins[task == name], rtol=0, atol=library.atol)
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_margin(X, task=task), margins)
    again = [each.refresh(X, y_of(y) + 0, task=task) for each in (model, loaded)]
    np.testing.assert_array_equal(*(each.predict_margin(X, task=task) for each in again))


def test_tasks_that_share_in_any_way_can_be_refreshed(library):
    X, y, task = rows(n_rows=300)
    y = np.where(task == "c", 4 * X[:, 2] * X[:, 0], y)
    options = {"effort": "fast", "num_boost_round": 40, "validation_fraction": 0.25}
    model = mtboost.fit(X, y, task=task, backend=library.name, **options)
    kept = model.refresh(X, y, task=task, shrink=1e9)
    before = model.predict_margin(X, task=task)
    np.testing.assert_allclose(kept.predict_margin(X, task=task), before, atol=1e-3)
    moved = model.refresh(X, y + 1, task=task, shrink=0.1)
    worse, better = (np.mean((y + 1 - each.predict(X, task=task)) ** 2) for each in (model, moved))
    assert better < worse


def test_tasks_with_objectives_are_refreshed_in_their_units(library):
    X, y, task = rows()
    y = np.where(task == "a", 100 * y, np.where(task == "b", y > 0, np.round(np.exp(y))))
    names = {"a": "reg:squarederror", "b": "binary:logistic", "c": "count:poisson"}
    objective = {name: library.own(own) for name, own in names.items()}
    options = {"objective": objective, "backend": library.name}
    model = mtboost.fit(X, y, task=task, **options, **{**FIXED, "split_score": None})
    found = model.refresh(X, y, task=task, shrink=0)
    for name in "abc":
        own = {name: X[task == name]}
        expected = model.predict_margin(own)[name]
        # Within float32 of the largest margin.
        np.testing.assert_allclose(
            found.predict_margin(own)[name], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max()
        )


def test_tasks_with_objectives_may_have_another_loss_in_their_models(library):
    X, y, task = rows()
    squared, two_classes = library.own("reg:squarederror"), library.own("binary:logistic")
    y = np.where(task == "b", y > 0, y)
    model = mtboost.fit(
        X,
        y,
        task=task,
        objective={"a": squared, "b": two_classes, "c": squared},
        backend=library.name,
        specific_params={"scale_pos_weight": 5.0},
        **FIXED,
    )
    found = model.refresh(X, y, task=task, shrink=0)
    expected = model.predict_margin(X, task=task)
    np.testing.assert_allclose(found.predict_margin(X, task=task), expected, atol=1e-5)


def test_a_task_without_new_rows_keeps_its_own_model():
    X, y, task = rows()
    model = mtboost.fit(X, y, task=task, **FIXED)
    own = task != "c"
    found = model.refresh(X[own], y[own] + 1, task=task[own])
    raw = {
        name: (found.specific[name].save_raw(), model.specific[name].save_raw()) for name in "ac"
    }
    assert raw["c"][0] == raw["c"][1]
    assert raw["a"][0] != raw["a"][1]
    by_task = {name: X[task == name] for name in "ab"}
    labels = {name: y[task == name] + 1 for name in "ab"}
    np.testing.assert_allclose(
        model.refresh(by_task, labels).predict(X, task=task), found.predict(X, task=task), atol=1e-5
    )


def test_refresh_follows_labels_that_have_moved(library):
    X, y, task = rows(2)
    model = fitted(library)
    moved = (y + 0.5).astype(np.float32)
    train = np.arange(240) % 4 < 2
    found = model.refresh(X[train], moved[train], task=task[train])
    errors = [np.mean((moved - each.predict(X, task=task))[~train] ** 2) for each in (found, model)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("kind", ["numbers", "classes", "nested"])
def test_linear_effects_follow_slopes_that_have_moved(library, kind, tmp_path):
    """What they add up to is that of a straight line with the new slopes, by weight of the rows."""

    def table(seed, slopes, n_rows):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n_rows, 2)).astype(np.float32)
        task = np.arange(n_rows) % 4
        y = slopes[task] * X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=n_rows)
        names = [(each // 2, each) for each in task.tolist()] if kind == "nested" else task
        return X, (y > 0).astype(int) if kind == "classes" else y, names

    old, new = np.array([1.0, 2.0, 1.0, 0.0]), np.array([3.0, 4.0, 3.0, 0.0])
    X, y, task = table(0, old, 1200)
    options = {**FIXED, "linear_effects": True, "num_boost_round": 1, "specific_rounds": 0}
    model = mtboost.fit(X, y, task=task, backend=library.name, **options)
    new_X, new_y, new_task = table(1, new, 1200)
    before = model.predict_margin(new_X, task=new_task)

    def slope(model, name):
        line = np.array([[-1.0, 0.0], [1.0, 0.0]], np.float32)
        return np.diff(model.predict_margin({name: line})[name]).item() / 2.0

    kept = model.refresh(new_X, new_y, task=new_task, shrink=1e9)
    np.testing.assert_allclose(kept.predict_margin(new_X, task=new_task), before, atol=1e-4)
    found = model.refresh(new_X, new_y, task=new_task)
    np.testing.assert_array_equal(model.predict_margin(new_X, task=new_task), before)
    alone = model.refresh(new_X, new_y, task=new_task, shrink=0)
    for place, name in enumerate(model.tasks):
        if kind == "classes":  # slopes of log-odds: order alone
            assert slope(alone, name) > slope(found, name) > slope(model, name) or place == 3
            continue
        assert slope(alone, name) == pytest.approx(new[place], abs=0.15)
        assert slope(found, name) == pytest.approx((new + old)[place] / 2, abs=0.15)
        own = np.array([each == name for each in new_task]) if kind == "nested" else task == name
        margins = library.margins(found.booster(name), new_X[own])
        expected = found.predict_margin({name: new_X[own]})[name]
        np.testing.assert_allclose(margins, expected, atol=library.atol)
    found.save(tmp_path / "model")
    np.testing.assert_array_equal(
        mtboost.load_model(tmp_path / "model").predict_margin(new_X, task=new_task),
        found.predict_margin(new_X, task=new_task),
    )


def test_what_cannot_be_refreshed_is_refused():
    X, y, task = rows()
    model = mtboost.fit(X, y, task=task, **FIXED)
    with pytest.raises(DataError, match="unknown task 'new'.*update"):
        model.refresh(X, y, task=np.full(240, "new"))
    with pytest.raises(ParameterError, match="shrink must be"):
        model.refresh(X, y, task=task, shrink=-1)
    with pytest.raises(ParameterError, match="shrink must be"):
        model.refresh(X, y, task=task, shrink="auto")
    monotone = mtboost.fit(X, y, task=task, params={"monotone_constraints": (1, 0, 0)}, **FIXED)
    with pytest.raises(UnsupportedError, match="monotone_constraints"):
        monotone.refresh(X, y, task=task)
    own = {"monotone_constraints": (1, 0, 0)}
    monotone = mtboost.fit(X, y, task=task, specific_params=own, **FIXED)
    with pytest.raises(UnsupportedError, match="monotone_constraints"):
        monotone.refresh(X, y, task=task)
    model.params.clear()
    with pytest.raises(UnsupportedError, match="fit it again"):
        model.refresh(X, y, task=task)


def test_monotone_constraints_of_zero_are_none():
    X, y, task = rows()
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    constraints = {"monotone_constraints": {"x1": 0}}
    model = mtboost.fit(table, y, task=task, params=constraints, **FIXED)
    own = mtboost.fit(table, y, task=task, specific_params=constraints, **FIXED)
    plain = mtboost.fit(table, y, task=task, **FIXED).refresh(table, 2 * y, task=task)
    for found in (model, own):
        refreshed = found.refresh(table, 2 * y, task=task)
        np.testing.assert_array_equal(
            refreshed.predict(table, task=task), plain.predict(table, task=task)
        )
