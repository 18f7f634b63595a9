# SPDX-License-Identifier: Apache-2.0
"""Projected forests as scikit-learn's estimators: kinds of labels, projections, errors."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import label_ranking_average_precision_score

from mtboost import (
    ProjectedBoostingClassifier,
    ProjectedForestClassifier,
    ProjectedForestRegressor,
    compress,
)
from mtboost.errors import DataError
from mtboost.estimators.forests.projected import _principal_components

X, LABELS = make_multilabel_classification(
    400, 12, n_classes=20, n_labels=4, allow_unlabeled=True, random_state=0
)
TRAIN, TEST = slice(0, 300), slice(300, None)
RNG = np.random.default_rng(0)
OUTPUTS = np.column_stack([np.sin(X[:, k] / 3 + k) + X[:, k + 1] for k in range(8)])
CLASSES = np.array(["a", "b", "c", "d"])[np.digitize(OUTPUTS[:, 0], [3, 5, 7])]
FAST = {"n_estimators": 30, "random_state": 0}
PROJECTIONS = [None, "gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "subsample"]
PROJECTIONS += ["pca"]


def test_inspection_finds_the_column_that_counts():
    """The first of the outputs is a sine of one column, plus the next one."""
    model = ProjectedForestRegressor(**FAST).fit(X, OUTPUTS[:, 0])
    lost = permutation_importance(model, X, OUTPUTS[:, 0], n_repeats=2, random_state=0)
    assert lost["importances_mean"].argmax() == 1
    curve = partial_dependence(model, X, [1])
    at = dict(zip(curve["grid_values"][0], curve["average"][0], strict=True))
    assert at[5] - at[2] > 0.5 * (5 - 2)


# Labels


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_sparse_labels_give_the_forest_of_dense_ones(projection):
    model = ProjectedForestClassifier(projection=projection, n_components=3, **FAST)
    dense = clone(model).fit(X[TRAIN], LABELS[TRAIN])
    sparse = clone(model).fit(X[TRAIN], scipy.sparse.csc_matrix(LABELS[TRAIN]))
    np.testing.assert_array_equal(dense.predict_proba(X), sparse.predict_proba(X))
    predicted = sparse.predict(X[TEST])
    assert scipy.sparse.issparse(predicted)
    assert predicted.shape == (100, 20)
    assert not scipy.sparse.issparse(dense.predict(X[TEST]))
    found = label_ranking_average_precision_score(LABELS[TEST], sparse.predict_proba(X[TEST]))
    chance = label_ranking_average_precision_score(
        LABELS[TEST], np.tile(LABELS[TRAIN].mean(axis=0), (100, 1))
    )
    assert found > chance + 0.05


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_matrix])
@pytest.mark.parametrize("shape", [(300, 20), (10, 20), (40, 1200)], ids=["few", "wide", "many"])
def test_principal_components_are_those_of_centred_outputs(convert, shape):
    """Also where the mean is the direction in which outputs are largest."""
    rng = np.random.default_rng(0)
    y = (rng.random(shape) < 0.1 + 0.8 * rng.random(shape[1])).astype(int)
    found = _principal_components(convert(y), 4)
    expected = PCA(4, svd_solver="full").fit(y).components_
    assert found.shape == (4, shape[1])
    # Unit vectors of float32, up to their signs.
    np.testing.assert_allclose(np.abs(found @ expected.T), np.eye(4), atol=1e-5)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_matrix])
@pytest.mark.parametrize("shape", [(60, 20), (40, 1200)], ids=["few", "many"])
def test_principal_components_of_whole_weights_are_those_of_repeated_rows(convert, shape):
    rng = np.random.default_rng(0)
    y = rng.random(shape) * (rng.random(shape) < 0.3 + 0.5 * rng.random(shape[1]))
    weights = rng.integers(0, 4, len(y))
    expected = _principal_components(convert(np.repeat(y, weights, axis=0)), 4)
    for scale in (1.0, 1e-300, 1e300):
        found = _principal_components(convert(y), 4, scale * weights)
        # Unit vectors of float32; the gap between two of them is a few hundredths of the variance.
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - _principal_components(convert(y), 4)).max() > 0.01


@pytest.mark.parametrize("make", [ProjectedForestRegressor, ProjectedForestClassifier])
def test_a_row_of_weight_0_has_no_part_in_principal_components(make):
    y = LABELS if make is ProjectedForestClassifier else OUTPUTS
    counts = np.arange(400) % 3 > 0
    wild = y if make is ProjectedForestClassifier else np.where(counts[:, None], y, 100 * y[::-1])
    model = make(projection="pca", n_components=2, bootstrap=False, **FAST)
    found = clone(model).fit(X, wild, sample_weight=counts)
    expected = clone(model).fit(X[counts], y[counts])
    np.testing.assert_allclose(
        found.predict(X) * 1.0, expected.predict(X) * 1.0, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("n_outputs", [5, 1200])
def test_outputs_that_do_not_vary_have_principal_components_too(n_outputs):
    for y in (np.full((9, n_outputs), 0.1), np.zeros((9, n_outputs)), np.ones((1, n_outputs))):
        for given in (y, scipy.sparse.csr_array(y)):
            found = _principal_components(given, 2)
            assert found.shape == (min(2, max(len(y) - 1, 1)), n_outputs)
            assert np.isfinite(found).all()


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_matrix])
@pytest.mark.parametrize(("values", "found"), [(LABELS * 2 - 1, -1), (LABELS * 2, 2)])
def test_labels_are_0_or_1(convert, values, found):
    message = f"^y (holds {found}: labels in several columns must be 0|has several columns of cl)"
    with pytest.raises(DataError, match=message):
        ProjectedForestClassifier(2).fit(X, convert(values))


def test_a_forest_is_compressed_for_labels_of_0_or_1():
    forest = ProjectedForestClassifier(2, random_state=0).fit(X, LABELS)
    with pytest.raises(DataError, match="^y holds -1: labels in several columns must be 0 or 1"):
        compress(forest, X, LABELS * 2 - 1, n_steps=2)


@pytest.mark.parametrize("make", [ProjectedForestClassifier, ProjectedBoostingClassifier])
def test_a_sparse_column_is_one_label(make):
    column = scipy.sparse.csr_array(LABELS[:, :1])
    model = make(5, random_state=0).fit(X, column)
    assert model.predict_proba(X).shape == (400, 1)
    assert scipy.sparse.issparse(model.predict(X))
    right = model.predict(X).toarray() == LABELS[:, :1]
    assert model.score(X, column) == right.mean() > 0.8


def test_a_sparse_column_has_an_out_of_bag_score():
    column = scipy.sparse.csr_array(LABELS[:, :1])
    model = ProjectedForestClassifier(oob_score=True, **FAST).fit(X, column)
    vector = ProjectedForestClassifier(oob_score=True, **FAST).fit(X, LABELS[:, 0])
    assert model.oob_score_ == pytest.approx(vector.oob_score_, abs=0.05)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_outputs_of_any_projection_are_learned(projection):
    model = ProjectedForestRegressor(
        projection=projection, n_components=3, max_features=1.0, **FAST
    )
    assert model.fit(X[TRAIN], OUTPUTS[TRAIN]).score(X[TEST], OUTPUTS[TEST]) > 0.35
    assert model.predict(X[TEST]).shape == (100, 8)


def test_sparse_numbers_give_the_forest_of_dense_ones():
    # Whole numbers of mean 0: nothing is rounded, and equal gains stay equal.
    half = np.where(RNG.random((200, 8)) < 0.3, np.round(OUTPUTS[:200]), 0.0)
    y = RNG.permuted(np.vstack([half, -half]), axis=0)
    dense = ProjectedForestRegressor(projection=None, **FAST).fit(X, y)
    sparse = ProjectedForestRegressor(projection=None, **FAST).fit(X, scipy.sparse.csr_array(y))
    np.testing.assert_allclose(dense.predict(X), sparse.predict(X), rtol=1e-10, atol=1e-12)
    assert sparse.forest_.n_nodes == dense.forest_.n_nodes


def test_classes_are_found_on_projected_indicators():
    model = ProjectedForestClassifier(n_components=2, **FAST).fit(X[TRAIN], CLASSES[TRAIN])
    assert list(model.classes_) == ["a", "b", "c", "d"]
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
    assert model.score(X[TRAIN], CLASSES[TRAIN]) > 0.95


def test_one_output_is_a_plain_random_forest():
    y = OUTPUTS[:, 0]
    ours = ProjectedForestRegressor(200, max_features=1.0, random_state=0).fit(X[TRAIN], y[TRAIN])
    theirs = RandomForestRegressor(200, random_state=0).fit(X[TRAIN], y[TRAIN])
    assert ours.predict(X[TEST]).shape == (100,)
    # Two forests of 200 trees of the same law; their predictions differ by their own noise.
    difference = ours.predict(X[TEST]) - theirs.predict(X[TEST])
    assert np.abs(difference).mean() < 0.1 * y.std()


# Projections


def test_the_identity_as_a_projection_is_none():
    given = ProjectedForestRegressor(projection=np.eye(8), **FAST).fit(X, OUTPUTS)
    without = ProjectedForestRegressor(projection=None, **FAST).fit(X, OUTPUTS)
    np.testing.assert_array_equal(given.predict(X), without.predict(X))


def test_a_shared_projection_is_one_for_all_trees():
    shared = ProjectedForestRegressor(n_components=1, shared=True, bootstrap=False, **FAST)
    own = clone(shared).set_params(shared=False)
    # Without a bootstrap and with all features trees differ only by the projection.
    everything = {"max_features": 1.0, "n_estimators": 5}
    shared, own = (model.set_params(**everything).fit(X, OUTPUTS) for model in (shared, own))
    assert np.ptp([shared.forest_.tree_arrays(k)["feature"][0] for k in range(5)]) == 0
    assert np.ptp([own.forest_.tree_arrays(k)["feature"][0] for k in range(5)]) > 0


def test_leaves_keep_only_the_labels_their_rows_have():
    many = scipy.sparse.random_array((400, 5000), density=0.001, rng=0, format="csr")
    many.data[:] = 1
    model = ProjectedForestClassifier(n_estimators=3, random_state=0).fit(X, many)
    for tree in range(3):
        arrays = model.forest_.tree_arrays(tree)
        assert 0 < len(arrays["leaf_values"]) <= many.nnz  # 5000 for each leaf if they were whole


def test_out_of_bag_scores_are_honest():
    options = {"oob_score": True, "n_estimators": 60, "random_state": 0}
    model = ProjectedForestRegressor(**options).fit(X, RNG.normal(size=(400, 6)))
    assert model.oob_prediction_.shape == (400, 6)
    assert model.oob_score_ < 0.1
    classifier = ProjectedForestClassifier(**options).fit(X, CLASSES)
    assert 0.5 < classifier.oob_score_ < 1.0 == classifier.score(X, CLASSES)


def test_scores_read_frames_of_types_of_pandas():
    frame = pd.DataFrame(LABELS).convert_dtypes()
    model = ProjectedForestClassifier(oob_score=True, **FAST)
    of_frame, of_array = clone(model).fit(X, frame), clone(model).fit(X, LABELS)
    assert of_frame.oob_score_ == of_array.oob_score_
    assert of_frame.score(X, frame) == of_array.score(X, LABELS)


# Errors


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_outputs_whose_squares_overflow_are_refused(make):
    with pytest.raises(DataError, match=r"y is -1e\+200 at row .*: labels beyond 1e\+140 overflow"):
        ProjectedForestRegressor().fit(X, make(np.where(OUTPUTS > 0, 1.0, -1e200)))


def test_several_columns_of_classes_are_refused():
    with pytest.raises(DataError, match="several columns of classes"):
        ProjectedForestClassifier().fit(X, np.column_stack([CLASSES, CLASSES]))


@pytest.mark.parametrize("make", [ProjectedForestClassifier, ProjectedForestRegressor])
def test_unknown_labels_are_refused_with_what_accepts_them(make):
    unknown = np.where(np.arange(LABELS.size).reshape(LABELS.shape) == 3, np.nan, LABELS)
    with pytest.raises(DataError, match="y contains NaN.*use ProjectedBoosting"):
        make(n_estimators=2).fit(X, unknown)
