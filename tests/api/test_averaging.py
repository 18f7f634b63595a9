# SPDX-License-Identifier: Apache-2.0
"""The mean of several models as one model."""

import numpy as np
import pytest

import mtboost
from mtboost.errors import DataError, ParameterError, UnsupportedError

FEW = {"strategy": "two-stage", "num_boost_round": 6, "specific_rounds": 4}


def rows(n_rows=240):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    task = np.array(["a", "b", "c"])[np.arange(n_rows) % 3]
    y = X[:, 0] + (task == "b") * X[:, 1] + 0.3 * rng.normal(size=n_rows)
    return X, y, task


VARIANTS = {
    "numbers": {},
    "pooled leaves": {"split_score": "plain", "pooling": 5.0},
    "task splits": {"split_score": "plain", "task_splits": True, "pooling": 3.0},
    "linear effects": {"split_score": "plain", "linear_effects": True},
    "classes": {"y_of": lambda y: (y > 0).astype(int)},
    "several classes": {"y_of": lambda y: np.digitize(y, [-0.5, 0.5]), "objective": "multiclass"},
    "nobody follows": {"y_of": lambda y: y, "num_boost_round": 1, "min_delta": 1e9},
    "auto": {
        "strategy": "auto",
        "effort": "fast",
        "validation_fraction": 0.25,
        "num_boost_round": 20,
        "params": {"learning_rate": 0.2},
    },
}


def fails_if_called(environment):
    raise AssertionError("training has begun")


def models_of(library, variant, n_models=3):
    X, y, task = rows()
    options = {**FEW, "backend": library.name, **VARIANTS[variant]}
    y_of = options.pop("y_of", lambda y: y)
    if "objective" in options:
        options["objective"] = library.multiclass
    return [
        mtboost.fit(X, y_of(y), task=task, seed=seed, refit=False, **options)
        for seed in range(n_models)
    ]


@pytest.mark.parametrize("variant", VARIANTS)
def test_margins_are_the_means_of_the_models(library, variant):
    models = models_of(library, variant)  # without refit their starts differ
    found = mtboost.average_models(models)
    X, _, task = rows()
    others = np.where(task == "c", "unknown", task)
    for labels in (task, others):
        asked = {"task": labels, "unknown_task": "common"}
        expected = np.mean([model.predict_margin(X, **asked) for model in models], axis=0)
        np.testing.assert_allclose(found.predict_margin(X, **asked), expected, atol=2e-6)
    own = task == "b"
    np.testing.assert_array_equal(
        library.margins(found.booster("b"), X[own]), found.predict_margin(X[own], task=task[own])
    )


def test_one_model_is_its_own_mean(library):
    (model,) = models_of(library, "pooled leaves", n_models=1)
    X, _, task = rows()
    found = mtboost.average_models([model])
    expected = model.predict(X, task=task)
    np.testing.assert_allclose(found.predict(X, task=task), expected, atol=library.atol)


def test_a_mean_changes_and_is_saved_as_any_model(library, tmp_path):
    found = mtboost.average_models(models_of(library, "pooled leaves", n_models=2))
    X, y, task = rows()
    found.save(tmp_path / "mean.mtboost")
    loaded = mtboost.load_model(tmp_path / "mean.mtboost")
    before = found.predict(X, task=task)
    np.testing.assert_array_equal(loaded.predict(X, task=task), before)
    contributions = found.contributions(X, task=task)
    np.testing.assert_allclose(contributions.sum(axis=1), before, atol=1e-5)
    updated = found.update(X, y + X[:, 2], task=task, rounds=5, validation_fraction=0.0)
    np.testing.assert_array_equal(found.predict(X, task=task), before)
    gained = updated.predict(X, task=task) - before
    assert np.corrcoef(gained, X[:, 2])[0, 1] > 0.5
    new = np.full(len(X), "new")
    of_unknown = [own.predict(X, task=new, unknown_task="common") for own in (found, updated)]
    assert np.corrcoef(of_unknown[1] - of_unknown[0], X[:, 2])[0, 1] > 0.5
    loaded.add_task("d", X[:60], y[:60])
    assert loaded.remove_task("a").tasks == ("b", "c", "d")


def test_an_ensemble_is_the_mean_of_fits_with_the_seeds_that_follow(library):
    X, y, task = rows()
    options = {"task": task, "backend": library.name, **FEW}
    found = mtboost.fit(X, y, seed=5, n_ensemble=2, **options)
    models = [mtboost.fit(X, y, seed=seed, **options) for seed in (5, 6)]
    expected = mtboost.average_models(models)
    np.testing.assert_array_equal(found.predict(X, task=task), expected.predict(X, task=task))
    scores = [model.report().loc["a"].filter(regex=" final$").item() for model in models]
    assert found.report().loc["a"].filter(regex=" final$").item() == np.mean(scores)
    single = mtboost.fit(X, y, seed=5, n_ensemble=1, **options)
    np.testing.assert_array_equal(single.predict(X, task=task), models[0].predict(X, task=task))


def test_the_mean_of_noisy_models_has_less_error_than_they_have(library):
    """By Jensen's inequality not more than their mean error, on any rows."""
    X, y, task = rows()
    models = models_of(library, "numbers")
    errors = [np.mean((model.predict(X, task=task) - y) ** 2) for model in models]
    mean = mtboost.average_models(models).predict(X, task=task)
    assert np.mean((mean - y) ** 2) < np.mean(errors)


def test_models_may_be_made_one_by_one(library):
    X, _, task = rows()
    models = models_of(library, "numbers", n_models=2)
    found = mtboost.average_models(model for model in models)
    expected = mtboost.average_models(models)
    np.testing.assert_array_equal(found.predict(X, task=task), expected.predict(X, task=task))


def test_models_that_have_no_mean_are_refused(library):
    X, y, task = rows()
    (model,) = models_of(library, "numbers", n_models=1)
    with pytest.raises(DataError, match="models is empty"):
        mtboost.average_models([])
    with pytest.raises(TypeError, match=r"models\[1\]"):
        mtboost.average_models([model, model.booster("a")])
    with pytest.raises(TypeError, match="models must be several models"):
        mtboost.average_models(model)
    (other,) = models_of(library, "classes", n_models=1)
    with pytest.raises(DataError, match=r"models\[1\] has other objective than models\[0\]"):
        mtboost.average_models([model, other])
    with pytest.raises(DataError, match=r"models\[1\] has other tasks"):
        mtboost.average_models([model, model.remove_task("a")])
    objective = dict.fromkeys("abc", model.objective)
    mixed = mtboost.fit(X, y, task=task, objective=objective, backend=library.name, **FEW)
    with pytest.raises((DataError, UnsupportedError), match="objective"):
        mtboost.average_models([mixed, mixed])
    nested = np.stack([np.where(task == "a", "x", "y"), task], axis=1)
    grouped = mtboost.fit(
        X,
        y,
        task=list(map(tuple, nested)),
        backend=library.name,
        split_score="plain",
        pooling=[5.0, 2.0],
        **FEW,
    )
    with pytest.raises(UnsupportedError, match="groups of nested tasks"):
        mtboost.average_models([grouped, grouped])
    for refused in ({"objective": objective}, {"task": list(map(tuple, nested))}):
        with pytest.raises(UnsupportedError, match="n_ensemble averages"):  # before any training
            mtboost.fit(
                X,
                y,
                **{"task": task, "callbacks": [fails_if_called], **refused},
                n_ensemble=2,
                backend=library.name,
                **FEW,
            )
    for name in ("effort", "seed"):
        with pytest.raises((ParameterError, TypeError), match=name):
            mtboost.fit(X, y, task=task, n_ensemble=2, **{name: "no such"}, **FEW)
    for number in (0, 1.5):
        with pytest.raises((ParameterError, TypeError), match="n_ensemble"):
            mtboost.fit(X, y, task=task, n_ensemble=number, **FEW)
