# SPDX-License-Identifier: Apache-2.0
"""Random projections have the distribution that joly2016 requires.

Seeds are fixed, so that a test passes or fails for ever; had they been drawn, each would fail with
probability 1e-6 at most, which is what five standard errors of a mean mean.
"""

import numpy as np
import pytest

from mtboost._core import ForestProjection

KINDS = ["subsample", "gaussian", "rademacher", "achlioptas", "sparse", "hadamard"]
D, Q = 37, 5


def matrices(kind, n=3000, d=D, q=Q, **options):
    projection = ForestProjection(kind, n_components=q, **options)
    return [projection.matrix(n_outputs=d, seed=7, tree=tree) for tree in range(n)]


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_kept_in_the_mean(kind):
    y = np.random.default_rng(0).normal(size=D)
    lengths = np.array([np.sum((matrix @ y) ** 2) for matrix in matrices(kind)]) / np.sum(y**2)
    standard_error = lengths.std() / len(lengths) ** 0.5
    assert abs(lengths.mean() - 1.0) < 5 * standard_error
    assert standard_error < 0.05


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_kept_in_the_mean_of_few_outputs_too(kind, d):
    """Sparse rows that are drawn again would be too long: by 10 % of two outputs for "sparse"."""
    n = 20_000
    y = np.random.default_rng(d).normal(size=d)
    drawn = matrices(kind, n, d=d, q=1)
    lengths = np.square(np.concatenate(drawn) @ y) / np.sum(y**2)
    # Where all lengths are the same, the error of float32 remains.
    assert abs(lengths.mean() - 1.0) < 5 * lengths.std() / n**0.5 + 1e-6


@pytest.mark.parametrize("d", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_no_component_is_empty(kind, d):
    assert all((matrix != 0).any(axis=1).all() for matrix in matrices(kind, 2000, d=d, q=1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_projection_needs_an_output(kind):
    with pytest.raises(ValueError, match="output|more components"):
        ForestProjection(kind, n_components=1).matrix(n_outputs=0, seed=0, tree=0)


@pytest.mark.parametrize("kind", KINDS)
def test_each_tree_has_its_own_unless_it_is_shared(kind):
    first, second = matrices(kind, 2)
    assert not np.array_equal(first, second)
    first, second = matrices(kind, 2, is_shared=True)
    np.testing.assert_array_equal(first, second)


def test_a_subsample_holds_each_output_once_at_most():
    for matrix in matrices("subsample", 50):
        assert ((matrix != 0).sum(axis=1) == 1).all()
        assert ((matrix != 0).sum(axis=0) <= 1).all()
        np.testing.assert_allclose(matrix[matrix != 0], np.sqrt(D / Q), rtol=1e-6)


def test_every_output_is_as_likely_as_the_others_in_a_subsample():
    counts = sum((matrix != 0).any(axis=0) for matrix in matrices("subsample"))
    expected = 3000 * Q / D
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_normal_entries_have_the_moments_of_a_normal_law():
    entries = np.sqrt(Q) * np.stack(matrices("gaussian")).ravel().astype(float)
    n = len(entries)
    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(entries**power) - moment) < 5 * np.sqrt(variance / n)


@pytest.mark.parametrize("d", [2, D])
@pytest.mark.parametrize(
    ("kind", "s"),
    [("rademacher", lambda d: 1.0), ("achlioptas", lambda d: 3.0), ("sparse", np.sqrt)],
)
def test_signs_and_zeros_have_their_frequencies(kind, s, d):
    """Given that a row is not all zeros: with probability 1 - (1 - 1/s)^d."""
    share = 1 - (1 - 1 / s(d)) ** d
    entries = np.stack(matrices(kind, d=d, q=1 if d == 2 else Q)).ravel()
    size = np.sqrt(s(d) * share / (1 if d == 2 else Q))
    np.testing.assert_allclose(np.abs(entries[entries != 0]), size, rtol=1e-6)
    expected = 1 / (2 * s(d) * share)
    for sign in (-1, 1):
        found = np.mean(np.sign(entries) == sign)
        # Entries of a row are independent, or correlated negatively: they cannot all be zero.
        assert abs(found - expected) < 5 * np.sqrt(expected / len(entries))


def test_rows_of_a_hadamard_matrix_are_orthogonal():
    for matrix in matrices("hadamard", 20, d=64, q=9):
        np.testing.assert_allclose(matrix @ matrix.T, 64 / 9 * np.eye(9), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_that_move_alike_do_not_cancel(kind):
    """Without its random signs, seven of eight rows of a Hadamard matrix would take them to 0."""
    seen = [abs(matrix.sum()) > 1e-5 for matrix in matrices(kind, 1000, d=8, q=1)]
    # The sum of eight signs is 0 with probability 70 / 256, the most of all kinds.
    assert np.mean(seen) > 1 - 70 / 256 - 5 * 0.5 / np.sqrt(1000)


@pytest.mark.parametrize(("kind", "most"), [("subsample", 5), ("hadamard", 8)])
def test_what_is_drawn_without_replacement_ends(kind, most):
    ForestProjection(kind, n_components=most).matrix(n_outputs=5, seed=0, tree=0)
    with pytest.raises(ValueError, match="more components"):
        ForestProjection(kind, n_components=most + 1).matrix(n_outputs=5, seed=0, tree=0)


# ---- gradients of rows ----


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_multiplied_with_the_matrix_of_their_tree(kind):
    rng = np.random.default_rng(1)
    pairs = rng.normal(size=(2500, D, 2)).astype(np.float32)  # several blocks of rows
    projection = ForestProjection(kind, n_components=Q)
    matrix = projection.matrix(n_outputs=D, seed=7, tree=4).astype(float)
    found = projection.project(pairs, seed=7, tree=4)
    # 37 float32 products of order 1
    np.testing.assert_allclose(found[..., 0], pairs[..., 0] @ matrix.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[..., 1], 1)
    weights = rng.random(2500, dtype=np.float32)
    again = projection.project(pairs, weights, seed=7, tree=4, n_threads=3)
    np.testing.assert_array_equal(again[..., 0], found[..., 0])
    np.testing.assert_array_equal(again[..., 1], np.tile(weights[:, np.newaxis], Q))


def test_components_count_the_labels_that_are_known_by_their_squared_entries():
    matrix = np.array([[1, 2, 0], [0, 0, 3], [0, 0, 0]], np.float32)
    weights = np.array([[1, 0, 2], [0, 0, 0], [4, 4, 4], [0, 0, 5]], np.float32)
    found = ForestProjection(matrix).project(
        np.ones((4, 3, 2), np.float32), weights, seed=0, tree=0
    )
    # The last component has no entries, so that all labels of a row are as good.
    expected = [[1 / 5, 2, 2], [0, 0, 0], [4, 4, 4], [0, 5, 5]]
    np.testing.assert_allclose(found[..., 1], expected, rtol=1e-6, atol=1e-6)
    assert (found[[0, 2, 3], :, 1] > 0).all()  # of a row that counts at all
    np.testing.assert_array_equal(found[1:3, :, 1], [[0, 0, 0], [4, 4, 4]])


@pytest.mark.parametrize(
    ("pairs", "weights", "message"),
    [
        ((4, 3), None, r"gradients must have shape \(n_rows, n_outputs, 2\)"),
        ((4, 2, 2), None, "another number of outputs"),
        ((4, 3, 2), 5, "weights must have shape"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(pairs, weights, message):
    weights = None if weights is None else np.ones(weights, np.float32)
    with pytest.raises(ValueError, match=message):
        ForestProjection(np.eye(3, dtype=np.float32)).project(
            np.ones(pairs, np.float32), weights, seed=0, tree=0
        )
