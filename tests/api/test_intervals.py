# SPDX-License-Identifier: Apache-2.0
"""Prediction intervals of models and estimators, and what they go by."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from model_archives import forged, in_old_layout, metadata_of

import mtboost
from mtboost.errors import DataError, ModelFormatError, ParameterError

FAST = {"strategy": "two-stage", "num_boost_round": 30, "specific_rounds": 10, "n_threads": 1}
TASKS = np.array(["a", "b", "c"])
NOISE = {"a": 0.3, "b": 1.0, "c": 3.0}


def table(n_rows=600, seed=0, n_tasks=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    task = TASKS[np.arange(n_rows) % n_tasks]
    noise = np.array([NOISE[name] for name in task]) * rng.normal(size=n_rows)
    return X, X[:, 0] + (task == "b") * X[:, 1] + noise, task


def fitted(library, seed=0, **options):
    X, y, task = table(seed=seed)
    return mtboost.fit(X, y, task=task, backend=library.name, **{**FAST, **options})


@pytest.fixture(scope="module")
def model():
    X, y, task = table()
    return mtboost.fit(X, y, task=task, intervals=True, **FAST)


def covered(model, alpha=0.1):
    """Part of new rows of each task that is inside."""
    X, y, task = table(6000, seed=1)
    low, high = model.predict_interval(X, task=task, alpha=alpha).T
    return {name: np.mean(((low <= y) & (y <= high))[task == name]) for name in TASKS}


# ---- where scores come from -----------------------------------------------------------------


SEARCHED = {"strategy": "auto", "effort": "fast", "linear_effects": False}


@pytest.mark.parametrize("options", [{}, {"refit": False}, SEARCHED])
def test_fit_covers_each_task_as_often_as_asked(library, options):
    model = fitted(library, intervals=True, **options)
    found = covered(model)
    # 40 or 200 scores of each task and 2000 new rows: four standard errors of the coverage of one
    # model, which rows of training would miss. Three tasks fail by chance with probability 2e-4.
    n_scores = min(map(len, model.conformity_scores.values()))
    error = np.sqrt(0.9 * 0.1 * (1 / n_scores + 1 / 2000))
    assert all(abs(own - 0.9) < 4.0 * error for own in found.values()), found


def test_scores_of_rows_that_trees_know_by_heart_are_those_of_other_rows(library):
    X, y, task = table(300)
    size = {"max_depth": 12, "min_child_weight": 0} if library.name == "xgboost" else {}
    size |= {"num_leaves": 200, "min_data_in_leaf": 1} if library.name == "lightgbm" else {}
    options = FAST | {"params": {"learning_rate": 0.5, **size}, "validation_fraction": 0}
    model = mtboost.fit(X, y, task=task, backend=library.name, intervals=True, **options)
    new, labels, own = table(3000, seed=1)
    for name in TASKS:
        errors = np.abs(labels - model.predict(new, task=own))[own == name].mean()
        known = np.abs(y - model.predict(X, task=task))[task == name].mean()
        assert known < 0.6 * errors
        assert 0.8 * errors < model.conformity_scores[name].mean() < 1.4 * errors


def test_intervals_change_no_prediction(library):
    X, _, task = table(seed=1)
    searched = {"strategy": "auto", "effort": "fast", "num_boost_round": 5, "linear_effects": False}
    for options in ({}, searched):
        plain = fitted(library, **options)
        found = fitted(library, intervals=True, **options)
        np.testing.assert_array_equal(found.predict(X, task=task), plain.predict(X, task=task))
        assert found.report().equals(plain.report())
        assert not plain.conformity_scores


def test_each_row_has_a_score_where_the_model_is_trained_on_all():
    X, y, task = table()
    weight = np.where(np.arange(600) < 60, 0.0, 2.0)
    model = mtboost.fit(X, y, task=task, weight=weight, intervals=True, **FAST)
    assert {name: len(own) for name, own in model.conformity_scores.items()} == dict.fromkeys(
        TASKS, 180
    )


@pytest.mark.parametrize("refit", [False, True])
def test_the_users_validation_rows_are_those_that_are_scored(refit):
    X, y, task = table()
    rest, valid = slice(0, 480), slice(480, 600)
    model = mtboost.fit(
        X[rest],
        y[rest],
        task=task[rest],
        eval_set=(X[valid], y[valid], task[valid]),
        intervals=True,
        refit=refit,
        **FAST,
    )
    assert sum(map(len, model.conformity_scores.values())) == 120
    if not refit:
        expected = model.conformalize(X[valid], y[valid], task=task[valid])
        for name in TASKS:
            np.testing.assert_allclose(
                model.conformity_scores[name], expected.conformity_scores[name]
            )


def test_later_rows_are_scored_by_models_of_earlier_ones():
    X, y, task = table()
    model = mtboost.fit(
        X, y, task=task, time=np.arange(600), validation="last", intervals=True, **FAST
    )
    assert {len(own) for own in model.conformity_scores.values()} == {40}


def test_conformalize_goes_by_the_errors_of_its_rows(model):
    X, y, task = table(300, seed=2)
    weight = (np.arange(300) % 5 > 0).astype(float)
    found = model.conformalize(X, y, task=task, weight=weight)
    errors = np.abs(y - model.predict(X, task=task))
    for name in TASKS:
        own = errors[(task == name) & (weight > 0)]
        np.testing.assert_allclose(found.conformity_scores[name], own, rtol=1e-12)
    assert len(model.conformity_scores["a"]) == 200  # this one stays as it is
    only_a = model.conformalize({"a": X[task == "a"]}, {"a": y[task == "a"]})
    assert [len(only_a.conformity_scores[name]) for name in TASKS] == [100, 200, 200]


# ---- intervals ------------------------------------------------------------------------------


def test_intervals_are_about_the_prediction_and_wider_for_noisier_tasks(model):
    X, _, task = table(seed=1)
    bounds = model.predict_interval(X, task=task)
    assert bounds.shape == (600, 2)
    np.testing.assert_allclose(bounds.mean(axis=1), model.predict(X, task=task), atol=1e-6)
    widths = {name: np.unique(np.diff(bounds[task == name]).round(9)) for name in TASKS}
    assert [len(own) for own in widths.values()] == [1, 1, 1]
    assert widths["a"] < widths["b"] < widths["c"]
    wider = model.predict_interval(X, task=task, alpha=0.02)
    assert (wider[:, 0] < bounds[:, 0]).all()


def test_a_mapping_has_the_intervals_of_one_table(model):
    X, _, task = table(seed=1)
    bounds = model.predict_interval(X, task=task)
    found = model.predict_interval({name: X[task == name] for name in TASKS[::-1]})
    assert list(found) == list(TASKS[::-1])
    for name in TASKS:
        np.testing.assert_allclose(found[name], bounds[task == name], rtol=1e-6)


def test_a_single_task_has_split_conformal_intervals():
    X, y, _ = table(200)
    new, labels, _ = table(59, seed=1)
    model = mtboost.fit(X, y, **FAST).conformalize(new, labels)
    errors = np.sort(np.abs(labels - model.predict(new)))
    low, high = model.predict_interval(X, alpha=0.1).T
    np.testing.assert_allclose((high - low) / 2, errors[54 - 1], rtol=1e-6)  # .9 * 60


def test_intervals_survive_files_pickles_and_copies(library, tmp_path):
    model = fitted(library, intervals=True)
    X, _, task = table(seed=1)
    expected = model.predict_interval(X, task=task)
    model.save(tmp_path / "model.mtb")
    for other in (
        mtboost.load_model(tmp_path / "model.mtb"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ):
        np.testing.assert_array_equal(other.predict_interval(X, task=task), expected)


def test_files_without_scores_are_read(library, tmp_path):
    path = tmp_path / "model.mtb"
    fitted(library).save(path)
    raw = path.read_bytes()
    assert not any("conformity" in name for name in metadata_of(raw)["members"])
    path.write_bytes(in_old_layout(raw))
    assert mtboost.load_model(path).conformity_scores == {}


@pytest.mark.parametrize("forgery", ["negative", "infinite", "of other tasks"])
def test_scores_that_are_no_errors_are_refused(model, tmp_path, forgery):
    path = tmp_path / "model.mtb"
    model.save(path)

    def change(members):
        name = "conformity_scores_starts.npy" if "other" in forgery else "conformity_scores.npy"
        value = {"negative": np.float64(-1.0), "infinite": np.inf, "of other tasks": np.int64(9)}
        content = bytearray(members[name])
        content[-8:] = np.asarray(value[forgery]).tobytes()
        members[name] = bytes(content)

    path.write_bytes(forged(path.read_bytes(), change))
    with pytest.raises(ModelFormatError, match="conformity_scores"):
        mtboost.load_model(path)


def test_tasks_without_scores_have_the_intervals_of_an_unknown_task(library):
    model = fitted(library, intervals=True)
    X, y, _ = table(120, seed=3)
    unknown = model.predict_interval(X, task=["z"] * 120, unknown_task="common")
    model.add_task("d", X, y, specific_rounds=5, n_threads=1)
    found = model.predict_interval(X, task=["d"] * 120)
    np.testing.assert_allclose(np.diff(found), np.diff(unknown)[0, 0], rtol=1e-6)
    own = model.conformalize({"d": X}, {"d": 1e-3 * y + model.predict({"d": X})["d"]})
    width = np.diff(own.predict_interval({"d": X})["d"])
    assert width.max() < 0.5 * np.diff(found).max()


def test_the_mean_of_models_has_intervals_by_other_rows():
    X, y, task = table()
    mean = mtboost.fit(X, y, task=task, n_ensemble=2, **FAST)
    new, labels, own = table(seed=2)
    low, high = mean.conformalize(new, labels, task=own).predict_interval(X, task=task).T
    assert (low < high).all()


def test_nested_tasks_have_intervals_and_unknown_ones_of_a_group_those_of_unknown_tasks():
    X, y, _ = table(800)
    names = [("north", "a"), ("north", "b"), ("south", "c"), ("south", "d")]
    task = [names[row % 4] for row in range(800)]
    options = FAST | {"split_score": "plain", "pooling": (5.0, 5.0)}
    model = mtboost.fit(X, y, task=task, intervals=True, **options)
    known = np.diff(model.predict_interval(X, task=task))
    assert len(np.unique(known.round(6))) <= 4
    bounds = model.predict_interval(X[:2], task=[("north", "z"), ("x", "y")], unknown_task="common")
    assert np.ptp(np.diff(bounds)) < 1e-6


def test_unknown_tasks_go_by_the_errors_of_unknown_tasks(model, tmp_path):
    X, y, _ = table(300, seed=5)
    own = np.array([f"z{row % 30}" for row in range(300)])
    far = y + 10.0 * np.random.default_rng(0).normal(size=30)[np.arange(300) % 30]
    found = model.conformalize(X, far, task=own)
    bounds = found.predict_interval(X, task=own, unknown_task="common")
    inside = (bounds[:, 0] <= far) & (far <= bounds[:, 1])
    assert inside.mean() > 0.8
    before = model.predict_interval(X, task=own, unknown_task="common")
    assert ((before[:, 0] <= far) & (far <= before[:, 1])).mean() < inside.mean() - 0.15
    known, task = table(seed=1)[::2]
    expected = model.predict_interval(known, task=task)
    np.testing.assert_array_equal(found.predict_interval(known, task=task), expected)
    found.save(tmp_path / "model.mtb")
    loaded = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(
        loaded.predict_interval(X, task=own, unknown_task="common"), bounds
    )
    found.add_task("z3", X, y, n_threads=1)
    assert "z3" not in found.conformity_scores


def test_a_task_that_leaves_takes_its_scores_along(model):
    assert set(model.remove_task("b").conformity_scores) == {"a", "c"}
    X, y, _ = table(120, seed=3)
    assert set(model.replace_task("b", X, y).conformity_scores) == {"a", "c"}


def test_other_predictions_have_no_scores(model):
    X, y, task = table(seed=4)
    for other in (
        model.update(X, y, task=task, rounds=2, validation_fraction=0, n_threads=1),
        model.refresh(X, y, task=task, n_threads=1),
    ):
        with pytest.raises(DataError, match=r"no conformity scores.*conformalize"):
            other.predict_interval(X, task=task)


# ---- objectives -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "power"),
    [("count:poisson", 1.0), ("reg:gamma", 2.0), ("reg:tweedie", 1.5)],
)
def test_widths_go_with_the_deviation_of_the_objective(library, objective, power):
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(600, 2)), np.arange(600) % 2
    y = rng.poisson(np.exp(1 + X[:, 0])) + 0.5
    objective = library.own(objective)
    model = mtboost.fit(
        X, y, task=task, objective=objective, backend=library.name, intervals=True, **FAST
    )
    means = model.predict(X, task=task).astype(float)
    low, high = model.predict_interval(X, task=task).T
    for code in (0, 1):
        own = task == code
        half = (high - means)[own] / means[own] ** (power / 2)
        np.testing.assert_allclose(half, half[0], rtol=1e-4)
    np.testing.assert_allclose(low, np.maximum(2 * means - high, 0.0), atol=1e-4)


def test_fractions_stay_between_0_and_1():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(400, 2)), np.arange(400) % 2
    y = rng.random(400)
    model = mtboost.fit(X, y, task=task, objective="reg:logistic", intervals=True, **FAST)
    bounds = model.predict_interval(X, task=task, alpha=0.02)
    assert bounds.min() == 0.0
    assert bounds.max() == 1.0


def test_tasks_of_different_objectives_have_intervals_where_labels_are_numbers(library):
    X, y, task = table(900)
    y = np.where(task == "c", y > 0, np.where(task == "b", np.round(np.exp(y / 2)), 1000 * y))
    names = {"a": "reg:squarederror", "b": "count:poisson", "c": "binary:logistic"}
    objective = {name: library.own(own) for name, own in names.items()}
    options = FAST | {"objective": objective, "backend": library.name}
    model = mtboost.fit(X, y, task=task, intervals=True, **options)
    assert set(model.conformity_scores) == {"a", "b"}
    own = np.isin(task, ["a", "b"])
    low, high = model.predict_interval(X[own], task=task[own]).T
    inside = (low <= y[own]) & (y[own] <= high)
    assert all(inside[task[own] == name].mean() > 0.8 for name in ("a", "b"))
    found = model.predict_interval({name: X[task == name] for name in ("a", "b")})
    np.testing.assert_allclose(found["a"][:, 1], high[task[own] == "a"], rtol=1e-5)
    for rows in ({"c": X[task == "c"]}, X):
        with pytest.raises(DataError, match=r"task 'c' are classes.*predict_proba"):
            model.predict_interval(rows, task=None if isinstance(rows, dict) else task)


# ---- evaluate, estimators -------------------------------------------------------------------


def test_evaluate_shows_coverage_and_width(model):
    X, y, task = table(900, seed=1)
    found = model.evaluate(X, y, task=task, metrics="mae", alpha=0.2)
    low, high = model.predict_interval(X, task=task, alpha=0.2).T
    inside = (low <= y) & (y <= high)
    columns = ["rows", "mae", "mae se", "coverage", "coverage se", "width", "width se"]
    assert list(found.columns) == columns
    for name in [*TASKS, "all tasks"]:
        own = np.full(900, True) if name == "all tasks" else task == name
        mean = inside[own].mean()
        assert found.loc[name, "coverage"] == pytest.approx(mean)
        error = np.sqrt(mean * (1 - mean) / (own.sum() - 1))
        assert found.loc[name, "coverage se"] == pytest.approx(error, rel=1e-9)
        assert found.loc[name, "width"] == pytest.approx((high - low)[own].mean())
    weight = (np.arange(900) % 2).astype(float)
    half = model.evaluate(X, y, task=task, weight=weight, alpha=0.2)
    own = (task == "a") & (weight > 0)
    assert half.loc["a", "coverage"] == pytest.approx(inside[own].mean())


@pytest.mark.parametrize("as_frame", [True, False])
def test_the_regressor_has_the_intervals_of_its_model(library, as_frame, tmp_path):
    X, y, task = table()
    codes = np.searchsorted(TASKS, task)
    rows = np.column_stack([X, codes])
    rows = pd.DataFrame(rows, columns=["p", "q", "r", "shop"]) if as_frame else rows
    options = {"task": "shop" if as_frame else 3, "strategy": "two-stage", "n_jobs": 1}
    options |= {"n_estimators": 20, "random_state": 0, "backend": library.name}
    estimator = mtboost.MultiTaskRegressor(intervals=True, **options).fit(rows, y)
    bounds = estimator.predict_interval(rows, alpha=0.3)
    np.testing.assert_array_equal(bounds, estimator.model_.predict_interval(rows, alpha=0.3))
    estimator.save(tmp_path / "model.mtb")
    loaded = mtboost.load_model(tmp_path / "model.mtb")
    np.testing.assert_array_equal(loaded.predict_interval(rows, alpha=0.3), bounds)
    plain = mtboost.MultiTaskRegressor(**options).fit(rows, y)
    with pytest.raises(DataError, match="no conformity scores"):
        plain.predict_interval(rows)
    assert plain.conformalize(rows, y) is plain
    assert np.isfinite(plain.predict_interval(rows)).all()
    assert "intervals" not in mtboost.MultiTaskClassifier().get_params()


# ---- what is refused ------------------------------------------------------------------------


def test_classes_have_no_intervals():
    X, y, task = table()
    y = (y > 0).astype(int)
    with pytest.raises(ParameterError, match=r"intervals=True is for labels that are numbers"):
        mtboost.fit(X, y, task=task, intervals=True, **FAST)
    model = mtboost.fit(X, y, task=task, **FAST)
    for call in (
        lambda: model.predict_interval(X, task=task),
        lambda: model.conformalize(X, y, task=task),
        lambda: model.evaluate(X, y, task=task, alpha=0.1),
    ):
        with pytest.raises(DataError, match=r"are classes: use predict_proba"):
            call()


def test_what_is_wrong_is_named(model):
    X, y, task = table()
    for alpha in (0.0, 1.0, -0.1):
        with pytest.raises(ParameterError, match="alpha must be"):
            model.predict_interval(X, task=task, alpha=alpha)
    with pytest.raises(TypeError, match="alpha must be"):
        model.predict_interval(X, task=task, alpha="0.1")
    with pytest.raises(DataError, match=r"task is the int 3.*use one type"):
        model.conformalize({3: X}, {3: y})
    with pytest.raises(ParameterError, match=r"intervals=True is for one model.*conformalize"):
        mtboost.fit(X, y, task=task, intervals=True, n_ensemble=2, **FAST)
    with pytest.raises(TypeError, match="intervals must be"):
        mtboost.fit(X, y, task=task, intervals=0.1, **FAST)
    with pytest.raises(DataError, match="needs rows to hold out"):
        mtboost.fit(X[:3], y[:3], task=task[:3], intervals=True, **FAST)


def test_too_few_scores_bound_nothing_and_say_so(model):
    X, y, task = table(3, seed=2)
    few = model.remove_task("c").remove_task("b")
    few = few.conformalize(X[:1], y[:1], task=task[:1])
    with pytest.warns(UserWarning, match=r"infinite: alpha=0.1 needs more than 1 conformity"):
        bounds = few.predict_interval(X[:1], task=task[:1])
    np.testing.assert_array_equal(bounds, [[-np.inf, np.inf]])


def test_a_task_whose_rows_have_no_weight_has_no_scores():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(106, 3))
    task = np.where(np.arange(106) < 100, "big", "small")
    y, weight = X[:, 0] + rng.normal(size=106), np.ones(106)
    weight[100:] = 0.0
    options = {"task": task, "strategy": "two-stage", "num_boost_round": 5, "weight": weight}
    model = mtboost.fit(X, y, intervals=True, **options)
    assert set(model.conformity_scores) == {"big"}
    again = model.conformalize(X, y, task=task, weight=weight)
    assert set(again.conformity_scores) == {"big"}
    held_out = (X, y, task, weight)
    assert set(mtboost.fit(X, y, eval_set=held_out, intervals=True, **options).conformity_scores)
    for change in (model.refresh, model.update):
        changed = change(X, y, task=task, weight=weight)
        assert np.isfinite(changed.predict(X, task=task)).all()
        with pytest.raises(DataError, match="weight is zero in every row"):
            change(X, y, task=task, weight=np.zeros(106))


def test_bounds_of_squared_log_errors_are_amounts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = 3.0 * np.abs(X[:, 0] + 0.5 * rng.normal(size=400)) + 0.1
    task = np.arange(400) % 3
    model = mtboost.fit(
        X,
        y,
        task=task,
        objective="reg:squaredlogerror",
        intervals=True,
        strategy="two-stage",
        num_boost_round=10,
    )
    assert model.predict_interval(X, task=task, alpha=0.2).min() >= -1.0
