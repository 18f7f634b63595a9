# SPDX-License-Identifier: Apache-2.0
"""Linear effects of a task that joins a model, against the equations of the mixed model."""

from dataclasses import replace

import numpy as np
import pytest
from linear_tasks import N_COLUMNS, N_TASKS, linear_rows
from numpy.testing import assert_allclose, assert_array_equal

import mtboost
from mtboost.model.stages import common
from mtboost.trees.steps import steps_of

BACKENDS = ["xgboost", "lightgbm"]
LINEAR = [True, "intercepts"]
ALL_ROWS = {"validation_fraction": 0, "specific_rounds": 0}


def fit(X, y, task, **options):
    given = {"strategy": "two-stage", "validation_fraction": 0, "num_boost_round": 3}
    own = {"split_score": "plain", "linear_effects": True, "params": {"learning_rate": 0.1}}
    return mtboost.fit(X, y, task=task, **(given | own | options))


def design(X, of_model, linear_effects):
    """Columns of the mixed model: ones, and the standardised steps of the model's rows."""
    columns = [np.ones(len(X))]
    for place in range(N_COLUMNS if linear_effects is True else 0):
        own = of_model[:, place].astype(np.float32)
        points = steps_of(own, place, 128).points
        near = [
            points[np.abs(each[:, None] - points).argmin(axis=1)] for each in (X[:, place], own)
        ]
        columns.append((near[0] - near[1].mean()) / near[1].std())
    return np.column_stack(columns)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("linear_effects", LINEAR)
@pytest.mark.parametrize("pooling", [None, 1e9])
def test_effects_of_a_new_task_are_posterior_means(backend, linear_effects, pooling, monkeypatch):
    monkeypatch.setattr(common, "_learned_after", lambda *_: None)
    X, y, task, _ = linear_rows(1)
    options = {"backend": backend, "linear_effects": linear_effects, "pooling": pooling}
    model = fit(X, y, task, params={"learning_rate": 1e-9}, **options)
    rng = np.random.default_rng(1)
    new_X, new_y, weight = rng.normal(size=(8, N_COLUMNS)), rng.normal(size=8), rng.random(8)
    unknown = model.predict(new_X, task=np.full(8, 99), unknown_task="common")
    model.add_task(99, new_X, new_y, weight=weight, **ALL_ROWS)
    z = design(new_X, X, linear_effects)
    (kappas,) = model.common_trees.linear_kappas
    effects = np.linalg.solve(
        (z.T * weight) @ z + np.diag(kappas), (z.T * weight) @ (new_y - unknown)
    )
    found = model.predict(new_X, task=np.full(8, 99))
    assert np.abs(found - unknown).max() > 0.1
    assert_allclose(found, unknown + z @ effects, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("objective", ["squared error", "classes"])
def test_a_task_that_is_replaced_is_predicted_about_as_before(backend, objective):
    X, y, task, signal = linear_rows(2, n_tasks=30, n_rows=60)
    is_class = objective == "classes"
    if is_class:
        y = (np.random.default_rng(2).random(len(y)) < 1.0 / (1.0 + np.exp(-2.0 * signal))) * 1
    names = {"xgboost": "binary:logistic", "lightgbm": "binary"}
    options = {"objective": names[backend]} if is_class else {}
    model = fit(X, y, task, backend=backend, **options)
    rows = np.isin(task, [0, 1, 2])
    found = model
    for each in range(3):
        own = task == each
        found = found.replace_task(each, X[own], y[own], **ALL_ROWS)

    def margins(model):
        return model.predict_margin(X[rows], task=task[rows], unknown_task="common")

    removed = model.remove_task(0).remove_task(1).remove_task(2)
    before, after, without = (margins(each) for each in (model, found, removed))
    assert np.mean((after - before) ** 2) < 0.05 * np.mean((without - before) ** 2)


@pytest.mark.parametrize("suffix", ["", "other"])
def test_a_new_region_has_a_part_of_the_effects_of_its_first_store(suffix):
    """As large as the variance between regions is in that of stores."""
    X, y, task, _ = linear_rows(3, n_tasks=24)
    tasks = [(f"r{each // 4}", each) for each in task.tolist()]
    model = fit(X, y, tasks, pooling=1e9, num_boost_round=1, params={"learning_rate": 1e-9})
    region = f"r0{suffix}"
    new, again = [(region, 98)] * len(X), [(region, 99)] * len(X)
    options = {"unknown_task": "common"}
    around = model.predict(X, task=new, **options)
    model.add_task((region, 98), X[:12], y[:12] + 5.0, **ALL_ROWS)
    of_store = model.predict(X, task=new) - around
    of_region = model.predict(X, task=again, **options) - around
    assert np.abs(of_store).max() > 1.0
    if not suffix:  # a region that is known stays as it is
        assert_array_equal(of_region, 0.0)
        return
    kappas = model.common_trees.linear_kappas
    part = kappas[1, 0] / kappas.sum(axis=0)[0]
    assert_allclose(np.mean(of_region) / np.mean(of_store), part, atol=0.2)
    assert np.abs(of_region).max() > 0.0


def test_files_keep_how_much_effects_differ(tmp_path):
    X, y, task, _ = linear_rows(4, n_tasks=N_TASKS)
    model = fit(X, y, task)
    model.save(tmp_path / "model")
    loaded = mtboost.load_model(tmp_path / "model")
    for each in (model, loaded):
        each.add_task(99, X[:20], y[:20] + 2.0, **ALL_ROWS)
    assert_array_equal(loaded.predict({99: X})[99], model.predict({99: X})[99])


def shrunk(model, factor):
    """A model all of whose values are multiplied, as strategy="auto" does it."""
    trees = model.common_trees
    booster = trees.backend.document(trees.booster).scaled(factor).load()
    own = replace(trees, booster=booster, pooled=trees.pooled.scaled(factor))
    return model._copy(common_trees=own, shrinkage_factor=factor)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("linear_effects", LINEAR)
def test_effects_of_a_shrunk_model_stay_shrunk(backend, linear_effects):
    X, y, task, _ = linear_rows(5)
    params = {"learning_rate": 1e-9}
    model = fit(X, y, task, backend=backend, linear_effects=linear_effects, params=params)
    half = shrunk(model, 0.5)
    start = np.mean(2.0 * half.predict(X, task=task) - model.predict(X, task=task))
    for change in ("refresh", "add_task"):
        full, own = (each.refresh(X, y + 1.0, task=task) for each in (model, half))
        rows = task
        if change == "add_task":
            rows, full, own = np.full(len(X), 99), model._copy(), half._copy()
            for each in (full, own):
                each.add_task(99, X[:20], y[:20] + 1.0, **ALL_ROWS)
        expected = start + 0.5 * (full.predict(X, task=rows) - start)
        assert_allclose(own.predict(X, task=rows), expected, rtol=1e-4, atol=1e-4)
