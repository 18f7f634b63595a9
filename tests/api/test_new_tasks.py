# SPDX-License-Identifier: Apache-2.0
"""Validation by whole tasks: the model is chosen by how well it predicts tasks never seen."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, ShuffleSplit

import mtboost
from mtboost import Dataset
from mtboost.base.validation import hold_out_tasks, split_by
from mtboost.errors import DataError, ParameterError
from mtboost.model.sharing.search import part_of

QUICK = {"effort": "fast", "num_boost_round": 10, "n_threads": 1, "params": {"learning_rate": 0.3}}
# Linear effects and five splits take most of the time of such short searches.
NO_LINEAR_EFFECTS, ONE_SPLIT = {"linear_effects": False}, {"validation_fraction": 0.25}


def stores(n_stores=12, n_each=30, seed=0):
    """Stores of three regions that differ in a constant, and in a column that means nothing."""
    rng = np.random.default_rng(seed)
    store = np.repeat(np.arange(n_stores), n_each)
    region = store % 3
    X = np.column_stack([rng.normal(size=(len(store), 2)), rng.normal(size=n_stores)[store]])
    own = 2.0 * rng.normal(size=n_stores)
    y = X[:, 0] + region + own[store] + 0.3 * rng.normal(size=len(store))
    return X, y, list(zip(region.tolist(), store.tolist(), strict=True))


@pytest.mark.parametrize("backend", ["xgboost", "lightgbm"])
@pytest.mark.parametrize(
    "options",
    [
        {"pooling": 5.0},
        {"pooling": (10.0, 5.0)},
        {"pooling": 5.0, "symmetric_trees": True},
        {"pooling": 5.0, "linear_effects": True},
        {"pooling": (10.0, 5.0), "linear_effects": "intercepts"},
    ],
)
def test_a_task_without_weight_is_predicted_as_a_new_one(backend, options):
    X, y, task = stores()
    is_new = np.array([store == 4 for _, store in task])
    X = np.round(2.0 * X) / 2.0  # bins are those of all rows, and hold one value each
    X[is_new, 2] = X[0, 2]
    fixed = {
        "strategy": "two-stage",
        "split_score": "plain",
        "num_boost_round": 15,
        "validation_fraction": 0,
        "backend": backend,
        "params": {
            "max_depth": 4,
            **(
                {}
                if backend == "xgboost"
                else {"num_leaves": 16, "min_data_in_leaf": 1, "min_data_in_bin": 1}
            ),
        },
        **options,
    }
    known = [each for each, new in zip(task, is_new, strict=True) if not new]
    without = mtboost.fit(X[~is_new], y[~is_new], task=known, **fixed)
    weighted = mtboost.fit(X, y, task=task, weight=1.0 - is_new, **fixed)
    asked = [each for each, new in zip(task, is_new, strict=True) if new]
    expected = without.predict(X[is_new], task=asked, unknown_task="common")
    found = weighted.predict(X[is_new], task=asked)
    if "linear_effects" in options:
        # EM ends before it has converged, and has one task more: leaves of trees may differ.
        assert np.quantile(np.abs(found - expected), 0.8) < 0.02
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_parts", [2, 5, 40])
def test_each_task_is_held_out_once_and_a_part_of_each_group(n_parts):
    X, y, task = stores(n_stores=15)
    data = Dataset(X, y, task=task)
    folds = hold_out_tasks(data, n_parts, n_parts, None, seed=3)
    assert folds.are_new_tasks
    assert sorted(name for _, valid in folds.pairs for name in valid.tasks) == sorted(data.tasks)
    for train, valid in folds.pairs:
        held_out = np.isin(data.tasks.codes, [data.tasks.code(name) for name in valid.tasks])
        np.testing.assert_array_equal(train.weight, 1.0 - held_out)
        assert valid.n_rows == held_out.sum()
        n_of_region = np.bincount([region for region, _ in valid.tasks], minlength=3)
        assert n_of_region.max() - n_of_region.min() <= 1


def test_splitters_may_hold_out_whole_tasks():
    X, y, task = stores()
    data = Dataset(X, y, task=task)
    folds = split_by(data, GroupKFold(4), classes=False)
    assert folds.are_new_tasks
    assert folds.n_valid_rows == len(y)
    assert not split_by(data, ShuffleSplit(2, random_state=0), classes=False).are_new_tasks
    first, second = (data.tasks.rows(name) for name in data.tasks.names[:2])
    rest = np.setdiff1d(np.arange(len(y)), first)
    folds = split_by(data, [(rest[::2], first[:5])], classes=False)
    assert folds.are_new_tasks
    train, valid = folds.pairs[0]
    np.testing.assert_array_equal(np.flatnonzero(train.weight), rest[::2])
    assert valid.n_rows == 5
    some = second[:3]
    with pytest.raises(DataError, match="without training rows in split 0"):
        split_by(data, [(np.setdiff1d(rest, some), np.append(first, some))], classes=False)


def test_the_report_promises_of_new_tasks_what_they_get():
    """Stores differ by constants of deviation 2, which rows of known stores hide.

    The mean of six draws of 24 stores has a relative standard error of about .1. Of random rows two
    draws suffice: they promise a fifth of the error.
    """
    ratios = {"random": [], "tasks": []}
    for seed in range(6):
        X, y, task = stores(n_stores=24, n_each=15, seed=seed)
        is_new = np.array([store >= 18 for _, store in task])
        store = np.array([store for _, store in task])
        for validation, own in ratios.items():
            if validation == "random" and seed > 1:
                continue
            model = mtboost.fit(
                X[~is_new],
                y[~is_new],
                task=store[~is_new],
                validation=validation,
                linear_effects=False,
                **QUICK,
            )
            promised = np.sqrt(np.mean(model.report()["rmse final"] ** 2))
            found = model.predict(X[is_new], task=store[is_new], unknown_task="common")
            own.append(promised / np.sqrt(np.mean((found - y[is_new]) ** 2)))
    assert 0.7 < np.mean(ratios["tasks"]) < 1.4
    assert np.mean(ratios["random"]) < 0.5


@pytest.mark.parametrize("validation", ["tasks", GroupKFold(3), GroupShuffleSplit(1)])
def test_all_tasks_use_the_common_model(validation):
    X, y, task = stores()
    model = mtboost.fit(X, y, task=task, validation=validation, **QUICK)
    report = model.report()
    assert (report["sharing"] == "common").all()
    assert (report["specific_rounds"] == 0).all()
    assert report["why_no_specific"].str.contains("held out as new").all()
    n_valid = report["valid_rows"].to_numpy()
    assert set(n_valid) <= {0, 30}
    assert report.loc[n_valid > 0, "rmse final"].notna().all()
    if not isinstance(validation, GroupShuffleSplit):
        assert (n_valid == 30).all()
    # As of random rows: where rows are held out once, those of the others are counted.
    n_rows = np.where(n_valid > 0, 0, 30) if isinstance(validation, GroupShuffleSplit) else 30
    np.testing.assert_array_equal(report["rows"], n_rows)


def test_intervals_of_known_tasks_are_those_of_their_rows():
    """Not those of new tasks, which are predicted with errors of deviation 2."""
    X, y, task = stores(n_stores=18, n_each=100)
    half = np.arange(len(y)) % 2 == 0
    labels = np.array([store for _, store in task])
    options = {**QUICK, "task": labels[half], "pooling": 1.0, "intervals": True}
    model = mtboost.fit(X[half], y[half], validation="tasks", **options)
    low, high = model.predict_interval(X[~half], task=labels[~half], alpha=0.1).T
    assert np.mean((low <= y[~half]) & (y[~half] <= high)) == pytest.approx(0.9, abs=0.05)
    low, high = model.predict_interval(
        X[half][:50], task=np.full(50, 99), alpha=0.5, unknown_task="common"
    ).T
    assert (high > low).all()


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "lightgbm"},
        {"objective": "binary:logistic"},
        {"objective": "multi:softprob", "params": {"num_class": 3}, **ONE_SPLIT},
        {"objective": "survival:cox", **ONE_SPLIT},
        {"objective": "reg:quantileerror", "params": {"quantile_alpha": 0.7}, **ONE_SPLIT},
        {"objective": "rank:ndcg", **ONE_SPLIT},
        {"calibrate": True, "objective": "binary:logistic", **NO_LINEAR_EFFECTS},
        {"n_ensemble": 2, "task": np.repeat(np.arange(12), 30), **NO_LINEAR_EFFECTS},
        {"baselines": True, **NO_LINEAR_EFFECTS},
        {"refit": False, **NO_LINEAR_EFFECTS},
        ONE_SPLIT,
        {"weight": np.linspace(0.0, 1.0, 360), **ONE_SPLIT},
        {"task_weight": "balanced", **NO_LINEAR_EFFECTS},
        {"effort": 30.0, **NO_LINEAR_EFFECTS},
    ],
)
def test_other_arguments_of_fit(options):
    X, y, task = stores()
    kind = options.get("objective", "reg:squarederror")
    if kind == "binary:logistic":
        y = (y > 1.0).astype(int)
    elif kind == "multi:softprob":
        y = np.digitize(y, [0.0, 2.0])
    elif kind == "survival:cox":
        y = np.exp(y - y.max())
    elif kind == "rank:ndcg":
        y = np.clip(np.round(y), 0, 4)
        options = {**options, "qid": np.repeat(np.arange(36), 10)}
    task = options.get("task", task)
    model = mtboost.fit(X, y, validation="tasks", **{**QUICK, "task": task, **options})
    new = [98, 99] if "task" in options else [(0, 99), (7, 99)]
    assert np.isfinite(model.predict(X[:2], task=new, unknown_task="common")).all()
    assert np.isfinite(model.predict(X, task=task)).all()


def test_estimators_take_it():
    X, y, task = stores()
    table = np.column_stack([X, [store for _, store in task]])
    model = mtboost.MultiTaskRegressor(
        task=3, validation="tasks", effort="fast", n_estimators=20, unknown_task="common"
    )
    model.fit(table, y)
    table[:, 3] = 99
    assert np.isfinite(model.predict(table)).all()


def test_what_goes_with_new_tasks_only():
    X, y, task = stores()
    for text, options in (
        ("one task only", {"task": None}),
        ("strategy='auto'", {"strategy": "two-stage"}),
        ("strategy='auto'", {"strategy": "two-stage", "validation": GroupKFold(2)}),
        ("task_splits is given", {"task_splits": True}),
        ("specific_params is given", {"specific_params": {"max_depth": 2}}),
        ("feature_prior is given", {"feature_prior": "auto"}),
        ("both given", {"eval_set": (X, y, task)}),
        ("validation_fraction above 0", {"validation_fraction": 0, "strategy": "auto"}),
        ("task_splits is given", {"task_splits": 0.0}),
        ("each task has an objective", {"objective": dict.fromkeys(set(task), "reg:squarederror")}),
    ):
        with pytest.raises(ParameterError, match=text):
            mtboost.fit(X, y, **{"task": task, "validation": "tasks", **QUICK, **options})


@pytest.mark.parametrize("fraction", [0.1, 0.28, 0.5, 0.9])
def test_the_fraction_is_that_of_the_tasks(fraction):
    X, y, task = stores(n_stores=50, n_each=3)
    data = Dataset(X, y, task=task)
    (pair,) = hold_out_tasks(data, 1, 1, fraction, seed=0).pairs
    assert pair[1].tasks.n_tasks == round(50 * fraction)
    n_of_region = np.bincount([region for region, _ in pair[1].tasks], minlength=3)
    assert n_of_region.max() - n_of_region.min() <= 2


def test_tasks_of_rows_are_held_out_with_all_labels():
    X, y, task = stores(n_stores=10)
    labels = np.column_stack([y, -y])
    labels[::7, 1] = np.nan
    data = Dataset(X, labels, task=[store for _, store in task])
    for train, valid in hold_out_tasks(data, 5, 5, None, seed=0).pairs:
        held_out = {name[1] for name in valid.tasks}
        assert len(held_out) == 2
        known = {data.tasks.names[code][1] for code in data.tasks.codes[train.weight > 0]}
        assert not held_out & known
    with pytest.raises(ParameterError, match="one task only"):
        mtboost.fit(X, labels, validation="tasks", **QUICK)


def test_a_part_of_many_rows_has_rows_of_all_tasks():
    """Half of the tasks are held out; more small tasks than the search uses rows."""
    X, y, task = stores(n_stores=40, n_each=10)
    data = Dataset(X, y, task=task)
    folds = part_of(hold_out_tasks(data, 2, 2, None, seed=0), 100)
    for train, valid in folds.pairs:
        assert train.n_rows <= 150
        assert train.weight.sum() > 30
        assert valid.n_rows <= 150


def test_trials_of_tune_may_be_judged_by_new_tasks():
    X, y, task = stores()
    found = mtboost.tune(
        X,
        y,
        task=task,
        n_trials=2,
        validation="tasks",
        effort="fast",
        num_boost_round=10,
        **NO_LINEAR_EFFECTS,
    )
    assert not any("specific_params" in name for name in found.best_params)
    assert np.isfinite(found.best_score)
