# SPDX-License-Identifier: Apache-2.0
"""Properties of boosting many outputs (joly2016, section 22)."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracle import naive_projected_boosting as naive
from scipy import optimize

from mtboost import _core

f32 = np.float32
NAMES = ("squared", "absolute", "huber", "logistic", "softmax")
KINDS = ("subsample", "gaussian", "variance", "singular")
DELTA = 0.7

each_loss = pytest.mark.parametrize("name", NAMES)
each_strategy = pytest.mark.parametrize("relabels", [True, False])


def bin_table(X):
    """Of eight bins a feature."""
    cuts = []
    for column in X.T:
        values = column[np.isfinite(column)]
        edges = []  # of a column that is missing in all rows
        if len(values):
            edges = np.unique(np.quantile(values, np.arange(1, 8) / 8, method="inverted_cdf"))
        cuts.append(np.append(edges, 1e5).astype(f32))
    builder = _core.BinnedMatrixBuilder(
        offsets=np.cumsum([0, *map(len, cuts)]).astype(np.uint32),
        values=np.concatenate(cuts),
        min_values=np.zeros(len(cuts), f32),
        is_categorical=np.zeros(len(cuts), np.uint8),
        n_rows=len(X),
        may_be_missing=np.isnan(X).any(axis=0).astype(np.uint8),
        storage_order=np.zeros(0, np.uint32),
    )
    builder.add(X, n_threads=1)
    return builder.build()


def make_table(seed, n_rows=200, n_features=5, missing=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(f32)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def make_labels(seed, name, X, n_outputs=6, unknown=0.0):
    """Labels that depend on the table."""
    rng = np.random.default_rng([seed, 1])
    hidden = np.sin(2 * np.nan_to_num(X) @ rng.normal(size=(X.shape[1], 2)))
    noisy = 3 * hidden @ rng.normal(size=(2, n_outputs)) + rng.normal(size=(len(X), n_outputs))
    if name == "softmax":
        labels = noisy.argmax(axis=1).astype(f32)
    elif name == "logistic":
        labels = (noisy > 1).astype(f32)
    else:
        labels = noisy.astype(f32)
    labels[rng.random(labels.shape) < unknown] = np.nan
    return labels


def make_projection(kind, n_components):
    if kind is None:
        return None
    if kind in ("variance", "singular"):
        return _core.ResidualProjection(kind, n_components=n_components)
    return _core.ForestProjection(kind, n_components=n_components)


def start(
    X,
    labels,
    name="squared",
    weights=None,
    *,
    n_outputs=6,
    kind="gaussian",
    n_components=2,
    relabels=True,
    learning_rate=0.5,
    n_threads=1,
    model=None,
    margins=None,
    **tree,
):
    return _core.ProjectedBoosting(
        bin_table(X),
        _core.OutputLoss(name, n_outputs, huber_delta=DELTA),
        labels,
        weights,
        relabels=relabels,
        learning_rate=learning_rate,
        tree=_core.ComponentTreeParams(**{"max_depth": 3} | tree),
        projection=make_projection(kind, n_components if relabels else 1),
        model=model,
        margins=margins,
        n_threads=n_threads,
    )


def run(boosting, n_rounds, n_threads=1):
    for _ in range(n_rounds):
        boosting.update(n_threads=n_threads)
    return boosting


def same_trees(one, other):
    assert one.n_trees == other.n_trees
    for name, array in one.arrays().items():
        assert_array_equal(array, other.arrays()[name], err_msg=name)
    assert_array_equal(one.output_weights, other.output_weights)
    assert_array_equal(one.initial, other.initial)


# The loss never rises -----------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(NAMES),
    relabels=st.booleans(),
    kind=st.sampled_from(KINDS),
    learning_rate=st.sampled_from([0.01, 0.3, 1.0]),
    unknown=st.sampled_from([0, 0.5]),
    is_weighted=st.booleans(),
    max_depth=st.integers(1, 6),
)
def test_the_training_loss_never_rises(
    seed, name, relabels, kind, learning_rate, unknown, is_weighted, max_depth
):
    X = make_table(seed, n_rows=seed % 80 + 2)
    labels = make_labels(seed, name, X, unknown=unknown)
    weights = None
    if is_weighted:
        weights = np.random.default_rng(seed).exponential(size=labels.shape).astype(f32)
    boosting = start(
        X,
        labels,
        name,
        weights,
        kind=kind,
        relabels=relabels,
        learning_rate=learning_rate,
        max_depth=max_depth,
        seed=seed,
    )
    losses = [boosting.mean_loss()]
    for _ in range(12):
        boosting.update()
        losses.append(boosting.mean_loss())
    # What float32 margins of size 10 round to at each step.
    assert (np.diff(losses) <= 1e-6 * (1 + losses[0])).all()


@each_loss
@each_strategy
def test_what_the_table_tells_is_learned(name, relabels):
    X = make_table(1, n_rows=500, missing=0)
    labels = make_labels(1, name, X)
    boosting = start(X, labels, name, relabels=relabels, max_depth=4)
    first = boosting.mean_loss()
    assert run(boosting, 60).mean_loss() < 0.75 * first


@pytest.mark.parametrize("labels", [[0, 1], [0, 0]])
def test_separated_rows_get_large_but_finite_log_odds(labels):
    X = np.array([[0], [0], [1], [1]], f32)
    labels = np.repeat(np.array(labels, f32), 2)[:, None]
    boosting = start(
        X, labels, "logistic", n_outputs=1, kind="rademacher", relabels=False, learning_rate=1
    )
    boosting.update()
    assert_allclose(
        boosting.margins[:, 0] - boosting.model.initial[0],
        10 * np.sign(labels[:, 0] - labels.mean()),
        rtol=1e-5,
    )


def test_a_tree_that_is_not_divided_changes_nothing():
    X = np.ones((20, 2), f32)
    for name in NAMES:
        labels = make_labels(2, name, make_table(2, n_rows=20))
        for relabels in (True, False):
            boosting = start(X, labels, name, relabels=relabels)
            before = boosting.margins.copy()
            run(boosting, 2)
            assert_array_equal(boosting.margins, before)
            assert boosting.model.n_trees == 2


# Line search --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["squared", "absolute", "huber", "logistic"])
def test_weights_of_outputs_make_the_loss_smallest(name):
    X = make_table(3, n_rows=300)
    labels = make_labels(3, name, X, unknown=0.2)
    boosting = start(X, labels, name, relabels=False, learning_rate=1)
    before = boosting.margins.astype(float)
    boosting.update()
    model = boosting.model
    arrays = model.tree_arrays(0)
    g = (
        model.predict(X, first=0, margins=np.zeros_like(boosting.margins))
        / np.where(model.output_weights[0] == 0, 1, model.output_weights[0])
    )[:, 0].astype(float)
    assert len(np.unique(np.round(g, 5))) == (arrays["left"] < 0).sum()
    loss = naive.Loss(name=name, delta=float(f32(DELTA)))
    for output in range(6):
        known = ~np.isnan(labels[:, output])
        Y, F = labels[known][:, [output]].astype(float), before[known][:, [output]]

        def along(t, Y=Y, F=F, g=g[known][:, None]):
            return loss.values(Y, F + t * g).mean()

        found = optimize.minimize_scalar(along)
        # 1e-6 of the loss: what the last bits of g and of the weight in float32 cost.
        assert along(float(model.output_weights[0, output])) <= found.fun * (1 + 1e-6)


def test_the_weight_of_an_output_is_its_covariance_with_the_tree():
    X = make_table(4)
    labels = make_labels(4, "squared", X)
    boosting = start(X, labels, relabels=False, learning_rate=1)
    R = labels - boosting.margins
    boosting.update()
    model = boosting.model
    arrays = model.tree_arrays(0)
    weight = model.output_weights[0]
    g = model.predict(X, margins=np.zeros_like(R))[:, 0].astype(float) / weight[0]
    assert_allclose(weight, R.T.astype(float) @ g / (g @ g), rtol=1e-5, atol=1e-6)
    assert_allclose(np.unique(g.astype(f32)), np.unique(arrays["leaf_values"]), rtol=1e-6)


def test_stumps_and_squared_error_are_the_same_model_relabelled_or_not():
    X = make_table(5)
    labels = make_labels(5, "squared", X)
    models = [
        run(start(X, labels, relabels=relabels, max_depth=1, n_components=1), 20)
        for relabels in (True, False)
    ]
    # Both add up to 20 steps in float32.
    assert_allclose(models[0].margins, models[1].margins, atol=2e-5)
    assert np.ptp(models[0].margins, axis=0).min() > 1


# Unknown labels -----------------------------------------------------------------------------------


@each_strategy
@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_known_labels_is_not_there(name, relabels):
    X = make_table(6)
    labels = make_labels(6, name, X, n_outputs=3)
    gone = np.arange(len(X)) % 4 == 1
    unknown = labels.copy()
    unknown[gone] = np.nan
    arguments = {"n_outputs": 3, "relabels": relabels, "learning_rate": 0.3}
    # The cuts are those of all rows in both: the bins are of quarters without any.
    X[gone] = X[~gone][: gone.sum()]
    with_unknown = run(start(X, unknown, name, **arguments), 5).model
    weights = (~gone).astype(f32)
    weightless = run(start(X, labels, name, weights, **arguments), 5).model
    same_trees(with_unknown, weightless)


@pytest.mark.parametrize("name", NAMES[:-1])
@each_strategy
def test_of_one_output_unknown_labels_are_rows_left_out(name, relabels):
    rng = np.random.default_rng(7)
    X = rng.integers(0, 6, (120, 3)).astype(f32)  # the same cuts with and without some rows
    labels = make_labels(7, name, X, n_outputs=1)
    labels[60:] = np.nan
    X[60:] = X[:60]
    arguments = {"n_outputs": 1, "relabels": relabels, "kind": "rademacher", "n_components": 1}
    all_rows = run(start(X, labels, name, **arguments), 6)
    few_rows = run(start(X[:60], labels[:60].copy(), name, **arguments), 6)
    same_trees(all_rows.model, few_rows.model)
    assert_array_equal(all_rows.margins[:60], few_rows.margins)
    assert_array_equal(all_rows.margins[60:], few_rows.margins)


@each_loss
def test_outputs_without_a_known_label_stay_where_they_start(name):
    if name == "softmax":
        pytest.skip("a row has one label")
    X = make_table(8)
    labels = make_labels(8, name, X)
    labels[:, 2] = np.nan
    for relabels in (True, False):
        margins = run(start(X, labels, name, relabels=relabels), 4).margins
        assert_array_equal(margins[:, 2], np.zeros(len(X)))
        assert np.ptp(margins[:, 1]) > 0


def test_a_leaf_says_nothing_about_outputs_it_knows_nothing_of():
    X = np.array([[0], [0], [1], [1]], f32)
    labels = np.array([[1, np.nan], [2, np.nan], [5, 3], [6, 7]], f32)
    boosting = start(X, labels, n_outputs=2, kind=None, learning_rate=1, max_depth=1)
    boosting.update()
    assert_array_equal(boosting.margins, [[1.5, 5], [1.5, 5], [5.5, 5], [5.5, 5]])


# Reproducible, and all of it kept -----------------------------------------------------------------


@each_loss
@each_strategy
@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_nothing(name, relabels, kind):
    X = make_table(9, n_rows=3000)
    labels = make_labels(9, name, X, unknown=0.1)
    one, other = (
        run(
            start(
                X,
                labels,
                name,
                relabels=relabels,
                kind=kind,
                n_threads=n,
                subsample=0.7,
                max_features=3,
            ),
            3,
            n,
        )
        for n in (1, 3)
    )
    same_trees(one.model, other.model)
    assert_array_equal(one.margins, other.margins)
    assert one.mean_loss() == other.mean_loss()


@each_strategy
def test_predictions_are_the_margins_that_were_grown(relabels):
    X = make_table(10, n_rows=700)
    labels = make_labels(10, "squared", X, unknown=0.3)
    boosting = run(start(X, labels, relabels=relabels, subsample=0.5), 8)
    model = boosting.model
    assert_array_equal(model.predict(X), boosting.margins)
    assert_array_equal(model.predict(X, n_threads=3), boosting.margins)
    in_parts = model.predict(X, last=3)
    for first in range(3, 8):
        in_parts = model.predict(X, first=first, last=first + 1, margins=in_parts)
    assert_array_equal(in_parts, boosting.margins)
    assert_array_equal(model.first_trees(3).predict(X), model.predict(X, last=3))


@each_strategy
def test_models_pickle_and_go_on_to_the_same_trees(relabels):
    X = make_table(11)
    labels = make_labels(11, "logistic", X)
    arguments = {"relabels": relabels, "subsample": 0.8}
    whole = run(start(X, labels, "logistic", **arguments), 6)
    part = run(start(X, labels, "logistic", **arguments), 2).model
    kept = pickle.loads(pickle.dumps(part))
    same_trees(kept, part)
    rest = start(X, labels, "logistic", model=kept, margins=kept.predict(X), **arguments)
    same_trees(run(rest, 4).model, whole.model)


@each_strategy
def test_the_size_of_a_model_is_one_number_a_leaf_or_all_outputs(relabels):
    X = make_table(12)
    model = run(start(X, make_labels(12, "squared", X), relabels=relabels), 3).model
    arrays = model.arrays()
    n_leaves = (arrays["left"] < 0).sum()
    assert len(arrays["leaf_values"]) == (6 * n_leaves if relabels else n_leaves)
    assert model.output_weights.shape == (0 if relabels else 3, 6)


# Projections of residuals -------------------------------------------------------------------------


def residuals_of_rank_two(seed, n_rows=300, n_outputs=20):
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n_rows, 2)) * [5, 3]
    noise = rng.normal(0, 0.05, (n_rows, n_outputs))
    return (hidden @ rng.normal(size=(2, n_outputs)) + noise).astype(f32)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_singular_projections_span_the_singular_vectors(n_threads):
    residuals = residuals_of_rank_two(1)
    projection = _core.ResidualProjection("singular", n_components=2)
    found = projection.matrix(residuals, seed=3, tree=4, n_threads=n_threads)
    assert_allclose(found @ found.T, np.eye(2), atol=1e-6)
    expected = np.linalg.svd(residuals)[2][:2]
    # Both project onto one plane; what is left of the others falls as (0.05 / 3)^6.
    assert_allclose(found.T @ found, expected.T @ expected, atol=1e-5)
    assert_array_equal(found, projection.matrix(residuals, seed=3, tree=4))


def test_singular_directions_that_there_are_none_of_are_0():
    residuals = np.outer(np.arange(10), [1, 2, 3]).astype(f32)
    found = _core.ResidualProjection("singular", n_components=3).matrix(residuals, seed=0, tree=0)
    assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 0], atol=1e-6)


def test_outputs_are_drawn_in_proportion_to_their_squares():
    residuals = np.array([[3, 0, 1], [-4, 0, 2]], f32)  # sums of squares 25, 0, 5
    n = 3000
    projection = _core.ResidualProjection("variance", n_components=n)
    found = projection.matrix(residuals, seed=1, tree=2)
    counts = (found != 0).sum(axis=0)
    assert ((found != 0).sum(axis=1) == 1).all()
    assert counts[1] == 0
    # Five standard deviations of a count of n draws.
    assert abs(counts[0] - n * 25 / 30) < 5 * np.sqrt(n * 25 / 30 * 5 / 30)
    # Each draw stands for an equal share of all squares.
    assert_allclose(((residuals @ found.T) ** 2).sum(axis=0), 30 / n, rtol=1e-5)


def test_without_residuals_there_is_nothing_to_draw():
    for kind in ("variance", "singular"):
        projection = _core.ResidualProjection(kind, n_components=2)
        assert_array_equal(projection.matrix(np.zeros((4, 3), f32), seed=0, tree=0), 0)


def test_one_cause_of_all_outputs_needs_one_tree_along_the_singular_vector():
    cause = np.where(make_table(13, n_rows=400, missing=0)[:, 0] > 0, 1, -1)
    X = np.column_stack([cause, make_table(14, n_rows=400, missing=0)]).astype(f32)
    noise = np.random.default_rng(13).normal(0, 0.1, (400, 6))
    labels = (cause[:, None] * [3, -1, 0.5, 2, 0, 1] + noise).astype(f32)
    boosting = start(X, labels, kind="singular", relabels=False, learning_rate=1, max_depth=1)
    boosting.update()
    # What is left is the noise.
    assert boosting.mean_loss() == pytest.approx(0.1**2 / 2, rel=0.1)
