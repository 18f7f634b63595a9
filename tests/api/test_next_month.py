# SPDX-License-Identifier: Apache-2.0
"""More rounds on new rows, and tasks that leave a model or are learned anew."""

import pickle

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

import mtboost
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.model.changes import updating

FIXED = {
    "strategy": "two-stage",
    "validation_fraction": 0,
    "num_boost_round": 6,
    "specific_rounds": 3,
    "early_stopping_rounds": None,
    "split_score": "plain",
}


def rows(seed=0, shift=0.0, n_rows=240):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    task = np.array(["a", "b", "c"])[np.arange(n_rows) % 3]
    y = X[:, 0] + (task == "b") * X[:, 1] + shift * (X[:, 2] + (task == "a"))
    return X, (y + 0.3 * rng.normal(size=n_rows)).astype(np.float32), task


X, Y, TASK = rows()
NEW_X, NEW_Y, NEW_TASK = rows(1, shift=1.0)


def fitted(library, y=Y, **options):
    return mtboost.fit(X, y, task=TASK, backend=library.name, **{**FIXED, **options})


def squared_error(model, seed=2):
    other_X, other_y, other_task = rows(seed, shift=1.0)
    return np.mean((other_y - model.predict(other_X, task=other_task)) ** 2)


VARIANTS = {
    "plain": {},
    "tasks that have quit": {"validation_fraction": 0.3, "early_stopping_rounds": 2},
    "pooled leaves": {"pooling": 5.0},
    "task splits": {"task_splits": True, "pooling": 3.0},
    "descriptors": {"task_splits": "descriptors"},
    "shared in some way": {
        "strategy": "auto",
        "effort": "fast",
        "num_boost_round": 30,
        "early_stopping_rounds": 10,
        "validation_fraction": 0.2,
        "split_score": None,
    },
}


def check_boosters_and_files(model, library, path):
    margins = model.predict_margin(NEW_X, task=NEW_TASK)
    for name in model.tasks:
        own = name == NEW_TASK
        if own.any():
            found = library.margins(model.booster(name), NEW_X[own])
            np.testing.assert_allclose(found, margins[own], rtol=library.atol, atol=library.atol)
    model.save(path)
    loaded = mtboost.load_model(path)
    np.testing.assert_array_equal(loaded.predict_margin(NEW_X, task=NEW_TASK), margins)
    pd.testing.assert_frame_equal(loaded.report(), model.report())


# ---- update --------------------------------------------------------------------------------------


def test_new_rounds_are_those_of_the_library_from_the_margins_of_the_model(library):
    model = fitted(library)
    found = model.update(
        NEW_X, NEW_Y, task=NEW_TASK, rounds=5, validation_fraction=0, pooling=np.inf
    )
    before = model.predict_margin(NEW_X, task=NEW_TASK)
    if library.name == "xgboost":
        params = {"learning_rate": 0.1, "max_depth": 4, "nthread": 1}
        matrix = xgboost.DMatrix(NEW_X, NEW_Y, base_margin=before)
        stock = xgboost.train(params, matrix, 5)
        expected = stock.predict(matrix, output_margin=True)
    else:
        params = {"learning_rate": 0.1, "num_leaves": 16, "verbose": -1, "num_threads": 1}
        matrix = lightgbm.Dataset(NEW_X, NEW_Y, init_score=before)
        stock = lightgbm.train({**params, "objective": "regression"}, matrix, 5)
        expected = before + stock.predict(NEW_X, raw_score=True)
    # The same numbers in another order.
    np.testing.assert_allclose(
        found.predict_margin(NEW_X, task=NEW_TASK), expected, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_updated_model_follows_new_rows_in_boosters_and_files_too(library, variant, tmp_path):
    model = fitted(library, **VARIANTS[variant])
    before = model.predict_margin(X, task=TASK)
    found = model.update(NEW_X, NEW_Y, task=NEW_TASK, rounds=25)
    assert squared_error(found) < 0.7 * squared_error(model)
    check_boosters_and_files(found, library, tmp_path / "model")
    np.testing.assert_array_equal(model.predict_margin(X, task=TASK), before)
    report = found.report()
    assert (report["rows"] + report["valid_rows"]).sum() == model.report()["rows"].sum() + 240
    assert not report.loc[report["specific_rounds"] > 0, "why_no_specific"].any()
    again = found.update(NEW_X, NEW_Y, task=NEW_TASK, rounds=3, validation_fraction=0)
    check_boosters_and_files(again, library, tmp_path / "again")
    kept = found.refresh(NEW_X, NEW_Y, task=NEW_TASK, shrink=1e9)
    np.testing.assert_allclose(
        kept.predict(NEW_X, task=NEW_TASK), found.predict(NEW_X, task=NEW_TASK), atol=1e-3
    )


def test_there_are_no_new_rounds_where_they_do_not_help():
    model = fitted_on_noise()
    rng = np.random.default_rng(5)
    noise_X, noise = rng.normal(size=(90, 3)), rng.normal(size=90)
    found = model.update(noise_X, noise, task=TASK[:90], params={"learning_rate": 5.0}, rounds=5)
    np.testing.assert_array_equal(
        found.predict(NEW_X, task=NEW_TASK), model.predict(NEW_X, task=NEW_TASK)
    )
    report = found.report()
    assert (report["rmse before"] == report["rmse final"]).all()


@pytest.mark.parametrize("own_models", [False, True])
def test_without_new_rounds_intervals_and_calibration_are_kept(own_models):
    rng = np.random.default_rng(4)
    options = {**FIXED, "num_boost_round": 1, "specific_rounds": int(own_models)}
    labels = rng.normal(size=240)
    of_numbers = mtboost.fit(X, labels, task=TASK, intervals=True, **options)
    of_classes = mtboost.fit(X, labels > 0, task=TASK, calibrate=True, **options)
    noise, no_gain = rng.normal(size=240), {"params": {"learning_rate": 5.0}, "rounds": 5}
    found = of_numbers.update(NEW_X, noise, task=NEW_TASK, **no_gain)
    for before, after in zip(
        *(own.predict_interval(NEW_X, task=NEW_TASK).T for own in (of_numbers, found)), strict=True
    ):
        np.testing.assert_array_equal(before, after)
    calibrated = of_classes.update(NEW_X, noise > 0, task=NEW_TASK, **no_gain)
    np.testing.assert_array_equal(
        calibrated.predict(NEW_X, task=NEW_TASK), of_classes.predict(NEW_X, task=NEW_TASK)
    )
    assert calibrated.calibration is not None


def test_scores_have_the_name_of_the_metric_that_finds_the_rounds(tmp_path):
    model = mtboost.fit(X, Y, task=TASK, eval_metric="r2", **FIXED)
    found = model.update(NEW_X, NEW_Y, task=NEW_TASK, rounds=5)
    found.save(tmp_path / "model")
    report = mtboost.load_model(tmp_path / "model").report()
    scores = [name for name in report if name.endswith(("before", "final"))]
    assert scores == ["rmse before", "rmse final"]
    same = mtboost.fit(X, Y, task=TASK, **FIXED).update(NEW_X, NEW_Y, task=NEW_TASK, rounds=5)
    pd.testing.assert_frame_equal(report[scores], same.report()[scores])


def fitted_on_noise():
    rng = np.random.default_rng(4)
    y = rng.normal(size=240)
    return mtboost.fit(X, y, task=TASK, **{**FIXED, "num_boost_round": 1, "specific_rounds": 0})


@pytest.mark.parametrize("objective", [None, dict.fromkeys("abc", "reg:squarederror")])
def test_a_task_whose_new_rows_have_no_weight_does_not_decide(objective):
    model = mtboost.fit(X, Y, task=TASK, objective=objective, **FIXED)
    weight = np.where(NEW_TASK == "b", 0.0, 1.0)
    updated = model.update(NEW_X, NEW_Y, task=NEW_TASK, weight=weight, rounds=4)
    assert updated.quit_round["a"] > model.quit_round["a"]
    assert squared_error(updated) < squared_error(model)


@pytest.mark.parametrize("by_task", [False, True])
def test_validation_rows_count_as_the_loss_counts_them(library, by_task):
    """Without, the other rows judged a loss that few positive ones dominate: it seldom gained."""
    objective = "binary:logistic" if library.name == "xgboost" else "binary"
    if by_task:
        objective = dict.fromkeys("abc", objective)
    model = fitted(library, objective=objective, params={"scale_pos_weight": 20.0}, y=Y > 1.5)
    others, labels, tasks = rows(3, shift=1.0)
    labels = labels > 1.5
    updated = model.update(
        NEW_X, NEW_Y > 1.5, task=NEW_TASK, rounds=20, eval_set=(others, labels, tasks)
    )
    for name, found in (("before", model), ("final", updated)):
        chance = found.predict(others, task=tasks).astype(np.float64)
        losses = np.where(labels, -20.0 * np.log(chance), -np.log1p(-chance))
        weights = np.where(labels, 20.0, 1.0)
        for task in "abc":
            own = tasks == task
            expected = losses[own].sum() / weights[own].sum()
            assert updated.reports[task].scores[name] == pytest.approx(expected, rel=1e-4)
    assert updated.quit_round["a"] > model.quit_round["a"]


def test_a_new_task_follows_the_updated_common_model_with_corrections(library, tmp_path):
    model = fitted(library)
    before = set(model.specific)
    named = np.where(NEW_TASK == "c", "d", NEW_TASK)
    found = model.update(NEW_X, NEW_Y, task=named, rounds=30)
    assert found.tasks == ("a", "b", "c", "d")
    assert model.tasks == ("a", "b", "c")
    known = named != "d"
    by_hand = model.update(NEW_X[known], NEW_Y[known], task=named[known], rounds=30)
    by_hand.add_task("d", NEW_X[~known], NEW_Y[~known])
    np.testing.assert_array_equal(
        found.predict(NEW_X, task=named), by_hand.predict(NEW_X, task=named)
    )
    only_new = model.update(NEW_X[~known], NEW_Y[~known], task=named[~known])
    np.testing.assert_array_equal(only_new.predict(X, task=TASK), model.predict(X, task=TASK))
    assert set(model.specific) == before
    check_boosters_and_files(model, library, tmp_path / "as it was")


def test_labels_of_new_tasks_are_checked_before_training(library, monkeypatch):
    objective = {"xgboost": "binary:logistic", "lightgbm": "binary"}[library.name]
    model = fitted(library, y=Y > 0, objective=objective)
    monkeypatch.setattr(updating, "fit_common", lambda *_: pytest.fail("training has begun"))
    task = np.where(NEW_TASK == "c", "new", NEW_TASK)
    y = np.where(task == "new", 7.0, NEW_Y > 0)
    with pytest.raises(DataError, match=r"Rows of the new task 'new': binary.* labels"):
        model.update(NEW_X, y, task=task)


@pytest.mark.parametrize("pooling", [-1, "much", (1.0, 2.0)])
def test_pooling_is_checked_with_new_rows_of_one_task_too(library, pooling):
    own = NEW_TASK == "a"
    with pytest.raises((ParameterError, TypeError), match="pooling"):
        fitted(library).update(NEW_X[own], NEW_Y[own], task=NEW_TASK[own], pooling=pooling)


def test_validation_rows_of_known_tasks_beside_new_ones_alone_are_refused():
    model = mtboost.fit(X, Y, task=TASK, **FIXED)
    eval_set = (NEW_X, NEW_Y, NEW_TASK)
    with pytest.raises(DataError, match="rows of new tasks alone: call add_task"):
        model.update(NEW_X, NEW_Y, task=["d"] * len(NEW_Y), eval_set=eval_set)


def test_tasks_with_objectives_are_updated_in_their_units(library, tmp_path):
    names = {"a": "reg:squarederror", "b": "binary:logistic", "c": "count:poisson"}
    objective = {name: library.own(own) for name, own in names.items()}

    def labels(y, task):
        counts = np.round(np.exp(np.minimum(y, 3)))
        return np.where(task == "a", 100 * y, np.where(task == "b", y > 0, counts))

    options = {**FIXED, "objective": objective, "split_score": None, "backend": library.name}
    model = mtboost.fit(X, labels(Y, TASK), task=TASK, **options)
    found = model.update(NEW_X, labels(NEW_Y, NEW_TASK), task=NEW_TASK, rounds=30)
    report = found.report()
    assert (report["final"] < report["before"]).all()
    check_boosters_and_files(found, library, tmp_path / "model")
    with pytest.raises(DataError, match="new task 'd'.*add_task"):
        model.update(NEW_X, NEW_Y, task=np.full(240, "d"))


def test_tables_with_other_columns_and_classes_can_be_updated(library, tmp_path):
    tables = {"a": pd.DataFrame(X[:120], columns=["u", "v", "w"])}
    tables["b"] = pd.DataFrame(X[120:, :2], columns=["u", "v"])
    labels = {"a": np.digitize(Y[:120], [0, 1]), "b": np.digitize(Y[120:], [0, 1])}
    for common in (None, "all"):
        model = mtboost.fit(
            tables,
            labels,
            objective=library.multiclass,
            common_features=common,
            backend=library.name,
            **FIXED,
        )
        found = model.update(tables, labels, rounds=3, validation_fraction=0)
        refreshed = found.refresh(tables, labels)
        for each in (found, refreshed):
            margins = each.predict_margin(tables)
            for name in "ab":
                own = library.margins(each.booster(name), tables[name])
                np.testing.assert_allclose(own, margins[name], rtol=library.atol, atol=library.atol)


def test_a_model_without_parameters_needs_them():
    model = fitted_on_noise()
    model.params.clear()
    with pytest.raises(UnsupportedError, match="pass them as params"):
        model.update(NEW_X, NEW_Y, task=NEW_TASK)
    assert model.update(NEW_X, NEW_Y, task=NEW_TASK, params={"max_depth": 2}).tasks == model.tasks


# ---- tasks that leave ----------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["plain", "pooled leaves", "task splits", "descriptors"])
def test_the_others_stay_when_a_task_is_removed_or_replaced(library, variant, tmp_path):
    model = fitted(library, **VARIANTS[variant])
    others = TASK != "a"
    expected = model.predict_margin(X[others], task=TASK[others])
    removed = model.remove_task("a")
    replaced = model.replace_task("a", NEW_X[NEW_TASK == "a"], NEW_Y[NEW_TASK == "a"])
    assert (model.tasks, removed.tasks) == (("a", "b", "c"), ("b", "c"))
    assert replaced.tasks == ("b", "c", "a")
    for found in (removed, replaced):
        np.testing.assert_array_equal(found.predict_margin(X[others], task=TASK[others]), expected)
    with pytest.raises(DataError, match="unknown"):
        removed.predict(X, task=TASK)
    check_boosters_and_files(replaced, library, tmp_path / "model")
    removed.save(tmp_path / "removed")
    loaded = mtboost.load_model(tmp_path / "removed")
    np.testing.assert_array_equal(loaded.predict_margin(X[others], task=TASK[others]), expected)
    added = model.remove_task("a")
    added.add_task("a", NEW_X[NEW_TASK == "a"], NEW_Y[NEW_TASK == "a"])
    np.testing.assert_array_equal(
        added.predict(NEW_X, task=NEW_TASK), replaced.predict(NEW_X, task=NEW_TASK)
    )


def test_a_removed_task_leaves_no_values_behind():
    model = fitted_on_noise()
    assert "a" not in model.remove_task("a").common_trees.tasks
    pooled = mtboost.fit(X, Y, task=TASK, pooling=5.0, **FIXED)
    trees = pooled.remove_task("b").common_trees
    for own, before in zip(trees.pooled.values, pooled.common_trees.pooled.values, strict=True):
        assert len(own.task) == np.count_nonzero(before.task != 1)
        assert own.task.max() == 1


def test_the_only_task_and_unknown_ones_cannot_be_removed():
    model = mtboost.fit(X, Y, **FIXED)
    with pytest.raises(DataError, match="only one"):
        model.remove_task("all")
    with pytest.raises(DataError, match="unknown"):
        fitted_on_noise().replace_task("e", X, Y)


@pytest.mark.parametrize("names", [None, ["p", "q", "r"]], ids=["array", "frame"])
@pytest.mark.parametrize("variant", ["plain", "pooled leaves", "task splits", "descriptors"])
def test_unknown_and_new_tasks_have_the_new_rounds(library, variant, names):
    """Also where nodes separate tasks; known tasks have their margins from the same trees."""
    old, later = X, NEW_X
    if names is not None:
        old, later = (pd.DataFrame(own, columns=names) for own in (X, NEW_X))
    options = {**FIXED, **VARIANTS[variant], "backend": library.name}
    model = mtboost.fit(old, Y, task=TASK, **options)
    updated = model.update(later, NEW_Y + 5, task=NEW_TASK, rounds=40)
    new = np.full(len(later), "new")
    before, after = (
        own.predict(later, task=new, unknown_task="common") for own in (model, updated)
    )
    assert 4.0 < np.mean(after - before) < 6.0  # labels have risen by 5
    for task in updated.tasks:
        expected = library.margins(updated.booster(task), later)
        found = updated.predict_margin(later, task=np.full(len(later), task))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    is_new = NEW_TASK == "c"
    known = mtboost.fit(old[TASK != "c"], Y[TASK != "c"], task=TASK[TASK != "c"], **options)
    joined = known.update(later, NEW_Y + 5, task=NEW_TASK, rounds=40)
    found = joined.predict(later, task=NEW_TASK)[is_new]
    assert np.mean((found - NEW_Y[is_new] - 5) ** 2) < 1.5  # 25 with the model of before


def test_a_warning_says_where_unknown_tasks_keep_the_old_model(library, monkeypatch):
    monkeypatch.setattr(
        "mtboost.model.sharing.evidence.Evidence.ways",
        lambda self: dict.fromkeys("abc", "averaged"),
    )
    model = fitted(library, **VARIANTS["shared in some way"])
    with pytest.warns(UserWarning, match="new rounds are in the models of the known tasks alone"):
        updated = model.update(NEW_X, NEW_Y + 5, task=NEW_TASK)
    new = np.full(len(NEW_X), "new")
    before, after = (
        own.predict(NEW_X, task=new, unknown_task="common") for own in (model, updated)
    )
    np.testing.assert_array_equal(before, after)


ORDERS = {
    "own column first": {"x": ["a", "b"], "y": ["k", "c", "a", "b"]},
    "reversed": {"x": ["a", "b", "c"], "y": ["c", "b", "a"]},
}


def tables(orders, seed, shift=0.0):
    """A table of each task, with the columns in different orders."""
    rng = np.random.default_rng(seed)
    X, y = {}, {}
    for number, (task, columns) in enumerate(orders.items()):
        table = pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc"))
        table["k"] = pd.Categorical(rng.choice(["u", "v"], 150), ["u", "v"])
        y[task] = ((3 + shift) * table["a"] + (2 - 4 * number) * table["b"]).to_numpy()
        X[task] = table[columns]
    return X, y


@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("variant", ["plain", "tasks that have quit", "task splits"])
def test_columns_of_a_task_may_have_another_order(library, variant, orders):
    """Models have the columns of a task in its order, so that tables are read as boosters do."""
    options = {**FIXED, "num_boost_round": 20, **VARIANTS[variant]}
    model = mtboost.fit(*tables(orders, 0), backend=library.name, **options)
    new, later = tables(orders, 1, shift=2.0), tables(orders, 2, shift=2.0)
    updated = model.update(*new, rounds=40)
    averaged = mtboost.fit(*tables(orders, 0), backend=library.name, n_ensemble=2, **options)
    refreshed, again = updated.refresh(*new), updated.update(*new, rounds=3, validation_fraction=0)
    for own in (model, updated, refreshed, again, averaged):
        X, _ = later
        margins, contributions = own.predict_margin(X), own.contributions(X)
        for task, columns in orders.items():
            booster = own.booster(task)
            assert library.feature_names(booster) == columns
            expected = library.margins(booster, X[task])
            np.testing.assert_allclose(margins[task], expected, rtol=1e-5, atol=1e-5)
            found = contributions[task].sum(axis=1)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    before, after = (
        np.mean((own.predict(X)["y"] - later[1]["y"]) ** 2) for own in (model, updated)
    )
    assert after < 0.7 * before


def test_groups_are_described_when_new_rounds_are_nested():
    """The first rounds have no leaf values of groups, and their nodes separate described tasks."""
    rng = np.random.default_rng(0)
    store = np.arange(400) % 16
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + rng.normal(size=16)[store] + 0.3 * rng.normal(size=400)
    names = list(zip((store % 4).tolist(), store.tolist(), strict=True))
    model = mtboost.fit(
        X,
        y,
        task=names,
        strategy="two-stage",
        split_score="plain",
        task_splits="descriptors",
        num_boost_round=10,
    ).update(X, y, task=names, rounds=4, validation_fraction=0)
    unknown = [(region, 99) for region, _ in names]
    expected = model.predict(X, task=unknown, unknown_task="common")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X, task=unknown, unknown_task="common"), expected)
    model.add_task((1, 44), X, y)
    assert np.isfinite(model.predict(X, task=[(1, 44)] * 400)).all()


def test_refresh_says_where_unknown_tasks_stay_as_they_are():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(200, 3)), np.arange(200) % 4
    options = {"task": task, "strategy": "two-stage", "num_boost_round": 5}
    mean = mtboost.fit(X, X[:, 0], n_ensemble=2, **options)
    with pytest.warns(UserWarning, match="unknown tasks are predicted as before"):
        mean.refresh(X, X[:, 0] + 5.0, task=task)
