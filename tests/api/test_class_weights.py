# SPDX-License-Identifier: Apache-2.0
"""Weights of classes: class_weight and scale_pos_weight of the estimators and of fit."""

import inspect
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import mtboost
from mtboost import MultiTaskClassifier, MultiTaskRegressor
from mtboost.errors import DataError, ParameterError

N_ROWS = 240
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N_ROWS, 3))
SHOP = np.array(["x", "y", "z"])[np.arange(N_ROWS) % 3]
SCORE = X[:, 0] + (SHOP == "x") * X[:, 1] + _rng.normal(size=N_ROWS)
FRAUD = np.where(SCORE > 1.2, "fraud", "ok")
LEVEL = np.digitize(SCORE, [-0.5, 1.2])
FAST = {"strategy": "two-stage", "n_estimators": 10, "specific_rounds": 5, "random_state": 0}


def predictions(estimator, X=X, **rows):
    return estimator.predict_proba(X, **rows)


@pytest.mark.parametrize(
    ("y", "class_weight", "factors"),
    [
        (FRAUD, {"fraud": 4.0}, {"fraud": 4.0, "ok": 1.0}),
        (LEVEL, {0: 2, 2: 0.5}, {0: 2.0, 1: 1.0, 2: 0.5}),
        (
            FRAUD,
            "balanced",
            {name: N_ROWS / (2 * np.sum(name == FRAUD)) for name in ("fraud", "ok")},
        ),
    ],
    ids=["two classes", "three classes", "balanced"],
)
def test_a_class_weight_is_a_sample_weight(library, y, class_weight, factors):
    make = partial(MultiTaskClassifier, backend=library.name, **FAST)
    weight = np.array([factors[label] for label in y.tolist()])
    given = np.linspace(0.5, 2.0, N_ROWS)
    for rows, expected in (({}, weight), ({"sample_weight": given}, given * weight)):
        found = make(class_weight=class_weight).fit(X, y, task=SHOP, **rows)
        other = make().fit(X, y, task=SHOP, sample_weight=expected)
        np.testing.assert_array_equal(predictions(found, task=SHOP), predictions(other, task=SHOP))


def test_balanced_counts_the_rows_of_all_tasks_also_of_a_mapping():
    rows = {task: np.flatnonzero(task == SHOP) for task in ("x", "y", "z")}
    tables, labels = ({task: part[own] for task, own in rows.items()} for part in (X, FRAUD))
    of_class = {name: N_ROWS / (2 * np.sum(name == FRAUD)) for name in ("fraud", "ok")}
    weight = {task: [of_class[name] for name in own.tolist()] for task, own in labels.items()}
    found = MultiTaskClassifier(class_weight="balanced", **FAST).fit(tables, labels)
    other = MultiTaskClassifier(**FAST).fit(tables, labels, sample_weight=weight)
    for task, part in predictions(other, tables).items():
        np.testing.assert_array_equal(predictions(found, tables)[task], part)
    with pytest.raises(DataError, match="sample_weight lacks tasks 'y', 'z'"):
        MultiTaskClassifier(class_weight="balanced", **FAST).fit(
            tables, labels, sample_weight={"x": weight["x"]}
        )


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 80)], ids=["none", "weights"])
def test_validation_rows_have_the_weights_of_the_training_classes(weight):
    train, valid = np.arange(160), np.arange(160, N_ROWS)
    own = np.ones(80) if weight is None else weight
    eval_set = (X[valid], FRAUD[valid], SHOP[valid])
    found = MultiTaskClassifier(class_weight={"fraud": 5.0}, **FAST).fit(
        X[train],
        FRAUD[train],
        task=SHOP[train],
        eval_set=eval_set if weight is None else (*eval_set, weight),
    )
    other = MultiTaskClassifier(**FAST).fit(
        X[train],
        FRAUD[train],
        task=SHOP[train],
        sample_weight=np.where(FRAUD[train] == "fraud", 5.0, 1.0),
        eval_set=(*eval_set, own * np.where(FRAUD[valid] == "fraud", 5.0, 1.0)),
    )
    for task, history in other.model_.history.items():
        np.testing.assert_array_equal(found.model_.history[task]["common"], history["common"])


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"frau": 2.0}, "unknown class 'frau'. y has the classes 'fraud', 'ok'. Did you mean"),
        ({"fraud": -1.0}, r"class_weight\['fraud'\] must be"),
        ("even", "class_weight must be None, 'balanced' or a mapping"),
    ],
)
def test_a_class_weight_that_does_not_fit_the_labels_is_refused(class_weight, message):
    with pytest.raises(ParameterError, match=message):
        MultiTaskClassifier(class_weight=class_weight, **FAST).fit(X, FRAUD, task=SHOP)


def test_only_the_classifier_weights_classes_and_calibrates():
    of_regressor = inspect.signature(MultiTaskRegressor).parameters
    of_classifier = inspect.signature(MultiTaskClassifier).parameters
    assert of_classifier.keys() - of_regressor.keys() == {
        "calibrate",
        "class_weight",
        "scale_pos_weight",
    }
    assert set(MultiTaskRegressor().get_params()) == of_regressor.keys()
    with pytest.raises(TypeError, match=r"^MultiTaskRegressor\(\) got an unexpected"):
        MultiTaskRegressor(class_weight="balanced")


def test_a_file_holds_the_class_weight(tmp_path):
    estimator = MultiTaskClassifier(class_weight={0: 1.0, 2: 3}, **FAST).fit(X, LEVEL, task=SHOP)
    estimator.save(tmp_path / "model")
    found = mtboost.load_model(tmp_path / "model")
    assert found.get_params() == estimator.get_params()
    assert clone(found).class_weight == {0: 1.0, 2: 3}


# scale_pos_weight


def test_scale_pos_weight_weights_the_second_class_in_both_stages(library):
    # Without a start score, which the libraries take from labels without this weight.
    start = {"base_score": 0.5} if library.name == "xgboost" else {"boost_from_average": False}
    fixed = {**FAST, "early_stopping_rounds": None, "backend": library.name}
    make = partial(MultiTaskClassifier, **fixed)
    found, in_params, weighted = (
        estimator.fit(X, FRAUD, task=SHOP)
        for estimator in (
            make(params=start, scale_pos_weight=4.0),
            make(params={**start, "scale_pos_weight": 4.0}),
            make(params=start, class_weight={"ok": 4.0}),
        )
    )
    expected = predictions(weighted, task=SHOP)
    np.testing.assert_array_equal(predictions(found, task=SHOP), expected)
    np.testing.assert_array_equal(predictions(in_params, task=SHOP), expected)
    assert all(own is not None for own in found.model_.specific.values())


def test_scale_pos_weight_is_refused_for_several_classes_and_twice():
    with pytest.raises(ParameterError, match="for two classes, but y has 3: pass class_weight="):
        MultiTaskClassifier(scale_pos_weight=2.0, **FAST).fit(X, LEVEL, task=SHOP)
    twice = MultiTaskClassifier(scale_pos_weight=2.0, params={"scale_pos_weight": 2.0}, **FAST)
    with pytest.raises(ParameterError, match="scale_pos_weight"):
        twice.fit(X, FRAUD, task=SHOP)


@pytest.mark.parametrize(
    ("backend", "option", "n_tasks", "n_each"),
    [
        ("xgboost", "scale_pos_weight", 40, 30),
        ("lightgbm", "scale_pos_weight", 3, 400),
        ("lightgbm", "is_unbalance", 40, 30),
    ],
)
def test_auto_chooses_by_the_loss_that_weights_define(backend, option, n_tasks, n_each):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(n_tasks * n_each, 3))
    task = np.repeat(np.arange(n_tasks), n_each)
    margin = rows[:, 0] + rng.normal(size=n_tasks)[task] * rows[:, 1] - 2.5
    y = (rng.random(len(rows)) < 1.0 / (1.0 + np.exp(-margin))).astype(int)
    ratio = np.sum(y == 0) / np.sum(y)
    options = {"task": task, "effort": "fast", "validation_fraction": 0.25, "backend": backend}
    fit = partial(mtboost.fit, rows, y, **options)
    value = ratio if option == "scale_pos_weight" else True
    size = {"max_depth": 3, "learning_rate": 0.1}  # the search is then shorter
    scaled = fit(params={option: value, **size}).predict(rows, task=task)
    weighted = fit(params=size, weight=np.where(y == 1, ratio, 1.0)).predict(rows, task=task)
    # Half of the total weight is positive; the plain log loss would stop much nearer to y.mean().
    assert scaled.mean() == pytest.approx(weighted.mean(), abs=0.08)
    assert weighted.mean() > y.mean() + 0.2
