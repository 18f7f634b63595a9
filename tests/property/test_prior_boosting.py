# SPDX-License-Identifier: Apache-2.0
"""Properties of boosting with prior feature sampling (eruhimov2007, sections 2 and 3).

Statistical tests would refuse a right implementation with a probability of 1e-6 each; seeds are
given, so that they do so always or never.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mtboost import (
    PriorSamplingClassifier,
    PriorSamplingRegressor,
    ProjectedBoostingRegressor,
    _core,
)
from mtboost.base.checked_tables import as_table
from mtboost.estimators.boosting.dynamic_sampling import PRIOR_TREES, DynamicSampling
from mtboost.estimators.boosting.tree_importances import (
    as_shares,
    model_importances,
    tree_importances,
)
from mtboost.xgboost.bins import bin_matrix
from mtboost.xgboost.matrices import quantile_matrix

ERROR = 1e-6


def make_rows(seed, n_rows=60, n_features=5):
    """Numbers that all columns tell something of, all of them different."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, X.sum(axis=1) + rng.normal(size=n_rows)


def cut_features(model):
    """Of all nodes of all trees."""
    arrays = model.models_[0].arrays()
    return arrays["feature"][arrays["left"] >= 0]


# Special cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber"])
def test_all_features_of_a_flat_prior_are_plain_boosting(n_outputs, loss):
    X, y = make_rows(0, 200)
    Y = y[:, None] * np.arange(1, n_outputs + 1) + X[:, :n_outputs]
    options = {"n_estimators": 20, "max_depth": 3, "loss": loss, "subsample": 0.8}
    options["min_samples_leaf"] = 1
    ours = PriorSamplingRegressor(max_features=None, prior=np.ones(5), random_state=3, **options)
    plain = ProjectedBoostingRegressor(strategy="gbmort", random_state=3, **options)
    assert_array_equal(ours.fit(X, Y).predict(X), plain.fit(X, Y).predict(X))


@pytest.mark.parametrize("estimator", [PriorSamplingRegressor, PriorSamplingClassifier])
def test_a_prior_of_one_feature_without_a_floor_uses_only_that(estimator):
    X, y = make_rows(1)
    prior = np.eye(5)[2]
    for dynamic in (False, True):
        for n_features in (1, "sqrt", None):
            model = estimator(40, prior=prior, floor=0, max_features=n_features, dynamic=dynamic)
            model.fit(X, y if estimator is PriorSamplingRegressor else y > 0)
            assert set(cut_features(model)) == {2}
            assert_array_equal(model.feature_importances_, prior)


# One feature a node: the prior alone decides ------------------------------------------------------


@pytest.mark.parametrize("floor", [0.0, 0.3, 1.0])
def test_a_single_feature_a_node_follows_the_prior_exactly(floor):
    """Whatever the data, as long as every feature can cut; also in nodes below the root."""
    X, y = make_rows(2, 40)
    prior = np.array([8, 1, 4, 2, 1])
    model = PriorSamplingRegressor(3000, prior=prior, floor=floor, max_features=1, random_state=5)
    model.set_params(max_depth=2, learning_rate=1e-3, min_samples_leaf=2).fit(X, y)
    found = [model.models_[0].tree_arrays(tree) for tree in range(3000)]
    expected = (1 - floor) * prior / prior.sum() + floor / 5
    roots = np.bincount([tree["feature"][0] for tree in found], minlength=5)
    assert stats.chisquare(roots, 3000 * expected).pvalue > ERROR
    below = np.zeros(5, int)
    for tree in found:
        inner = np.flatnonzero(tree["left"] >= 0)[1:]
        # Small nodes may have no cut, whose rows are too few: large ones always do.
        large = inner[tree["weight"][inner] >= 4]
        below += np.bincount(tree["feature"][large], minlength=5)
    assert below.sum() > 3000
    assert stats.chisquare(below, below.sum() * expected).pvalue > ERROR


def test_a_floor_reaches_every_feature():
    X, y = make_rows(3, n_features=30)
    model = PriorSamplingRegressor(prior=np.eye(30)[0], max_features=3, random_state=0).fit(X, y)
    # Of 200 roots alone, each of two features beside the first is even: (28 / 29)^400 < 1e-6.
    assert set(cut_features(model)) == set(range(30))


# Importances --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_importances_are_the_falls_of_variance_of_what_was_fitted(weighted):
    X, y = make_rows(4)
    X, y = X.astype(np.float32), y.astype(np.float32)
    w = np.random.default_rng(0).choice([0.5, 1, 3], len(y)) if weighted else np.ones(len(y))
    model = PriorSamplingRegressor(2, max_depth=3, max_features=None, learning_rate=0.5)
    model.fit(X, y, sample_weight=w)
    expected = {"impurity": np.zeros(5), "gain": np.zeros(5)}
    margins = [np.full(len(y), np.average(y, weights=w)), model.models_[0].predict(X, last=1)[:, 0]]

    def variance(rows, u):
        return np.average((u[rows] - np.average(u[rows], weights=w[rows])) ** 2, weights=w[rows])

    for number, F in enumerate(margins):
        tree, u = model.models_[0].tree_arrays(number), y - F
        nodes = [(0, np.arange(len(y)))]
        while nodes:
            at, rows = nodes.pop()
            if (left := tree["left"][at]) < 0:
                continue
            feature = tree["feature"][at]
            is_left = X[rows, feature] < tree["threshold"][at]
            sides = rows[is_left], rows[~is_left]
            fall = variance(rows, u) - sum(
                w[side].sum() / w[rows].sum() * variance(side, u) for side in sides
            )
            expected["impurity"][feature] += fall / 2  # of two trees
            expected["gain"][feature] += fall * w[rows].sum() / 2
            nodes += [(left, sides[0]), (left + 1, sides[1])]
    for kind, own in expected.items():
        # Residuals and weights of nodes are float32.
        found = model_importances(model.models_[0], kind)
        assert_allclose(found, own, rtol=1e-5, atol=1e-6)
        model.set_params(importance_type=kind)
        assert_allclose(model.feature_importances_, own / own.sum(), rtol=1e-5, atol=1e-6)


def test_gains_add_up_to_what_a_tree_explains():
    X, y = make_rows(5)
    model = PriorSamplingRegressor(1, max_depth=4, learning_rate=1.0, importance_type="gain")
    left = ((model.fit(X, y).predict(X) - y) ** 2).sum()
    explained = ((y - y.mean()) ** 2).sum() - left
    found = tree_importances(model.models_[0].tree_arrays(0), 5, "gain").sum()
    assert found == pytest.approx(explained, rel=1e-5)


# Dynamic weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["impurity", "gain"])
def test_weights_follow_prior_and_importances(kind):
    X, y = (array.astype(np.float32) for array in make_rows(6))
    prior = np.array([4, 3, 2, 1, 0]) / 10
    matrix = bin_matrix(
        quantile_matrix(as_table(X), max_bin=16, n_threads=1),
        storage_order=np.empty(0, np.uint32),
        n_threads=1,
        table=X,
    )
    tree = _core.ComponentTreeParams(max_depth=3, max_features=2)
    core = _core.ProjectedBoosting(matrix, _core.OutputLoss("squared", 1), y, tree=tree)
    engine = DynamicSampling(core, prior, 0.1, kind)
    for n_trees in range(6):
        engine.update(n_threads=1)  # by what was there before
        own = as_shares(model_importances(core.model.first_trees(n_trees), kind))
        mixed = (PRIOR_TREES * prior + n_trees * own) / (PRIOR_TREES + n_trees)
        assert_allclose(core.feature_weights, 0.9 * mixed + 0.1 / 5, rtol=1e-12)


def test_dynamic_weights_find_the_feature_that_counts():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(200, 50))
    y = np.sin(3 * X[:, 17]) + 0.5 * rng.normal(size=200)
    parts = []
    for dynamic in (False, True):
        model = PriorSamplingRegressor(dynamic=dynamic, max_depth=1, random_state=0).fit(X, y)
        parts.append((cut_features(model) == 17).mean())
    # A node sees 7 of 50 features: without dynamic weights 17 is among them in 0.14 of 200 stumps,
    # 0.26 with a probability of 1e-5.
    assert parts[0] < 0.26
    assert parts[1] > 2 * parts[0]
