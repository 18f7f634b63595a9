# SPDX-License-Identifier: Apache-2.0
"""What the core's boosting of many outputs refuses, and says."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import mtboost
from mtboost import _core
from mtboost.errors import TrainingError

f32 = np.float32
X = np.array([[1, 0], [1, 1], [1, 4], [1, 5], [1, 8], [1, 9]], f32)  # the second column tells
Y = np.arange(18, dtype=f32).reshape(6, 3)


def bin_table(table, *, is_categorical=False):
    builder = _core.BinnedMatrixBuilder(
        offsets=np.array([0, 3, 6], np.uint32),
        values=np.array([2, 6, 99, 3, 7, 99], f32),
        min_values=np.zeros(2, f32),
        is_categorical=np.array([0, is_categorical], np.uint8),
        n_rows=len(table),
        may_be_missing=np.zeros(2, np.uint8),
        storage_order=np.zeros(0, np.uint32),
    )
    builder.add(table, n_threads=1)
    return builder.build()


def start(matrix=None, labels=Y, weights=None, *, name="squared", n_outputs=3, tree=None, **given):
    return _core.ProjectedBoosting(
        bin_table(X) if matrix is None else matrix,
        _core.OutputLoss(name, n_outputs),
        labels,
        weights,
        tree=_core.ComponentTreeParams(**(tree or {})),
        **given,
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": Y[:4].copy()}, "same rows"),
        ({"matrix": bin_table(X[:0]), "labels": Y[:0]}, "at least one"),
        ({"labels": Y[:, :2].copy()}, r"labels must have shape \(n_rows, 3\)"),
        ({"labels": np.full_like(Y, np.inf)}, "labels must be finite"),
        ({"weights": -np.ones(6, f32)}, "not negative"),
        ({"matrix": bin_table(X % 3, is_categorical=True)}, "feature 1 is categorical"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"learning_rate": np.inf}, "learning_rate must be above 0"),
        ({"tree": {"min_samples_leaf": 0}}, "min_samples_leaf must be at least 1, found 0"),
        ({"tree": {"max_features": 0}}, "max_features must be at least 1, found 0"),
        ({"tree": {"feature_weights": np.ones(3)}}, "one number a feature"),
        ({"tree": {"feature_weights": np.array([1, -1.0])}}, "must not be negative"),
        ({"tree": {"subsample": 0.0}}, "subsample must be above 0 and at most 1, found 0"),
        ({"tree": {"colsample": 1.5}}, "colsample must be above 0 and at most 1, found 1.5"),
        ({"relabels": False}, "one component"),
        (
            {"projection": _core.ForestProjection("subsample", n_components=4)},
            "more components than",
        ),
        ({"projection": _core.ForestProjection(np.ones((1, 2), f32))}, "another number of outputs"),
        ({"margins": Y}, "starts from its constants"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(given, message):
    with pytest.raises(ValueError, match=message):
        start(**given)


def test_weights_of_features_change_between_rounds():
    boosting = start(tree={"max_features": 1, "max_depth": 1})
    assert boosting.feature_weights is None
    for refused in (np.zeros(0), np.zeros(2), np.array([1, np.nan]), np.ones(3)):
        with pytest.raises(ValueError, match="feature_weights"):
            boosting.feature_weights = refused
    for feature in (1, 0, 1):  # the first column does not tell anything
        boosting.feature_weights = np.eye(2)[feature]
        np.testing.assert_array_equal(boosting.feature_weights, np.eye(2)[feature])
        boosting.update()
    n_nodes = [len(boosting.model.tree_arrays(tree)["left"]) for tree in range(3)]
    assert n_nodes == [3, 1, 3]
    boosting.feature_weights = None
    assert boosting.feature_weights is None


def test_a_model_that_goes_on_has_to_fit():
    boosting = start()
    boosting.update()
    model = boosting.model
    with pytest.raises(ValueError, match="needs the margins"):
        start(model=model)
    with pytest.raises(ValueError, match="other outputs, features or leaves"):
        start(labels=Y[:, :2].copy(), n_outputs=2, model=model, margins=Y[:, :2].copy())
    projection = _core.ForestProjection("gaussian", n_components=1)
    with pytest.raises(ValueError, match="other outputs, features or leaves"):
        start(relabels=False, projection=projection, model=model, margins=Y)


def test_residuals_out_of_range_stop_training_before_anything_changes():
    boosting = start(labels=np.array([[3e38], [-3e38]] * 3, f32), n_outputs=1)
    start_margins = boosting.margins.copy()
    huge = start(
        labels=np.array([[3e38, 3e38], [-3e38, -3e38]] * 3, f32),
        n_outputs=2,
        projection=_core.ForestProjection(np.ones((1, 2), f32)),
    )
    with pytest.raises(RuntimeError, match="a residual is not finite"):
        huge.update()
    assert huge.model.n_trees == 0
    np.testing.assert_array_equal(huge.margins[:, 0], start_margins[:, 0])


@pytest.mark.parametrize(
    "estimator", [mtboost.ProjectedBoostingRegressor, mtboost.PriorSamplingRegressor]
)
def test_a_round_whose_residuals_leave_the_range_is_named(estimator):
    model = estimator(learning_rate=1e38, n_estimators=9, min_samples_leaf=1, random_state=0)
    with pytest.raises(
        TrainingError, match=r"Round \d: (a residual is not finite|the training loss is inf)"
    ):
        model.fit(X, 10 * Y[:, 0])


def model_parts():
    boosting = start(
        projection=_core.ForestProjection("rademacher", n_components=1), relabels=False
    )
    boosting.update()
    model = boosting.model
    return {
        "n_features": 2,
        "relabels": False,
        "initial": model.initial,
        "arrays": model.arrays(),
        "output_weights": model.output_weights.ravel(),
    }


def test_parts_of_a_model_make_it_again():
    parts = model_parts()
    model = _core.BoostedModel(**parts)
    assert (model.n_trees, model.n_outputs, model.n_features) == (1, 3, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initial": np.zeros(0, f32)}, "without outputs"),
        ({"initial": np.array([0, 1, np.nan], f32)}, "constant is not finite"),
        ({"output_weights": np.zeros(2, f32)}, "do not fit the trees"),
        ({"output_weights": np.full(3, np.inf, f32)}, "weight of an output is not finite"),
        ({"n_features": 1}, "unknown feature"),
        ({"relabels": True, "output_weights": np.zeros(0, f32)}, "outputs"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        _core.BoostedModel(**model_parts() | changes)


def test_predictions_check_the_table_and_the_trees():
    model = _core.BoostedModel(**model_parts())
    with pytest.raises(ValueError, match="other features"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="no such trees"):
        model.predict(X, first=1, last=0)
    with pytest.raises(ValueError, match="no such trees"):
        model.predict(X, last=2)
    with pytest.raises(ValueError, match="margins must have shape"):
        model.predict(X, margins=np.zeros((6, 2), f32))
    assert model.predict(X[:0]).shape == (0, 3)
    with pytest.raises(ValueError, match="fewer trees"):
        model.first_trees(2)


def test_margins_cannot_be_written_and_outlive_what_trains():
    boosting = start()
    margins = boosting.margins
    with pytest.raises(ValueError, match="read-only"):
        margins[0, 0] = 1
    boosting.update()
    expected = boosting.model.predict(X)
    model = boosting.model
    del boosting
    np.testing.assert_array_equal(margins, expected)
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.fixture
def keyboard_interrupts():
    """Shells make children in the background ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("keyboard_interrupts")
def test_an_interrupt_stops_a_round_and_leaves_what_there_was():
    rng = np.random.default_rng(0)
    n_rows, n_outputs = 60_000, 4
    table = rng.normal(5, 3, (n_rows, 2)).astype(f32)
    labels = rng.normal(size=(n_rows, n_outputs)).astype(f32)
    boosting = start(bin_table(table), labels, n_outputs=n_outputs, tree={"max_depth": 4})
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()

    def train():
        while True:
            boosting.update()

    with pytest.raises(KeyboardInterrupt):
        train()
    timer.join()
    np.testing.assert_array_equal(boosting.model.predict(table), boosting.margins)
