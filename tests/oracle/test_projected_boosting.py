# SPDX-License-Identifier: Apache-2.0
"""The core's boosting of many outputs grows the naive twin's trees, and adds what they say.

Features, cuts and default directions are compared exactly; where they differ, the twin has to know
of two cuts that gain almost the same. Numbers of leaves, weights of outputs and margins are float32
sums of a few rounds: 2e-5 of their size of about 1 is some hundred roundings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracle import naive_projected_boosting as naive

from mtboost import _core

f32 = np.float32
NAMES = ("squared", "absolute", "huber", "logistic", "softmax")
KINDS = ("subsample", "gaussian", "rademacher", "achlioptas", "sparse", "hadamard")
CLOSE = {"rtol": 2e-5, "atol": 2e-5}
DELTA = 0.7

each_loss = pytest.mark.parametrize("name", NAMES)
each_strategy = pytest.mark.parametrize("relabels", [True, False])


@dataclass(frozen=True, kw_only=True)
class Problem:
    X: np.ndarray
    cuts: list[np.ndarray]
    name: str
    labels: np.ndarray  # of softmax: classes
    n_outputs: int
    params: naive.Params
    weights: np.ndarray | None = None
    kind: str | None = "gaussian"  # of the projection; None: the outputs
    n_components: int = 2
    is_sparse: bool = False  # the layout of the bins

    @property
    def loss(self) -> _core.OutputLoss:
        return _core.OutputLoss(self.name, self.n_outputs, huber_delta=DELTA)

    @property
    def dense_labels(self) -> np.ndarray:
        if self.name != "softmax":
            return self.labels.astype(float)
        dense = (self.labels[:, None] == np.arange(self.n_outputs)).astype(float)
        dense[np.isnan(self.labels)] = np.nan
        return dense

    @property
    def dense_weights(self) -> np.ndarray:
        dense = np.ones(len(self.X)) if self.weights is None else self.weights.astype(float)
        dense = dense[:, None] if dense.ndim == 1 else dense
        return np.broadcast_to(dense, (len(self.X), self.n_outputs))

    @property
    def matrix(self) -> _core.BinnedMatrix:
        n_features = self.X.shape[1]
        builder = _core.BinnedMatrixBuilder(
            offsets=np.cumsum([0, *map(len, self.cuts)]).astype(np.uint32),
            values=np.concatenate(self.cuts),
            min_values=np.zeros(n_features, f32),
            is_categorical=np.zeros(n_features, np.uint8),
            n_rows=len(self.X),
            may_be_missing=np.isnan(self.X).any(axis=0).astype(np.uint8),
            storage_order=np.zeros(0, np.uint32),
            is_sparse=self.is_sparse,
        )
        builder.add(self.X, n_threads=1)
        return builder.build()

    @property
    def projection(self) -> _core.ForestProjection | None:
        if self.kind is None:
            return None
        n = self.n_components if self.params.relabels else 1
        return _core.ForestProjection(self.kind, n_components=n)

    def start(self, n_threads: int = 1, **changes) -> _core.ProjectedBoosting:
        p = self.params
        tree = _core.ComponentTreeParams(
            max_depth=p.max_depth,
            max_leaf_nodes=p.max_leaf_nodes,
            min_samples_leaf=p.min_samples_leaf,
            max_features=p.max_features,
            feature_weights=None if p.feature_weights is None else np.array(p.feature_weights),
            subsample=p.subsample,
            colsample=p.colsample,
            seed=p.seed,
        )
        arguments = {
            "relabels": p.relabels,
            "learning_rate": p.learning_rate,
            "tree": tree,
            "projection": self.projection,
            "n_threads": n_threads,
        }
        return _core.ProjectedBoosting(
            self.matrix, self.loss, self.labels, self.weights, **arguments | changes
        )

    def start_twin(self) -> naive.Boosting:
        loss = naive.Loss(name=self.name, delta=float(f32(DELTA)))
        constants = self.loss.initial(self.labels, self.weights)

        def matrix(tree):
            if self.projection is None:
                return None
            return self.projection.matrix(
                n_outputs=self.n_outputs, seed=self.params.seed, tree=tree
            )

        return naive.Boosting(
            self.X,
            self.cuts,
            loss,
            self.dense_labels,
            self.dense_weights,
            self.params,
            matrix,
            constants,
        )

    def run(self, n_rounds: int, n_threads: int = 1, **changes) -> _core.ProjectedBoosting:
        boosting = self.start(n_threads, **changes)
        for _ in range(n_rounds):
            boosting.update(n_threads=n_threads)
        return boosting


def make_labels(rng, name, effect, n_outputs):
    noisy = effect[:, None] * rng.normal(size=n_outputs) + rng.normal(size=(len(effect), n_outputs))
    if name == "softmax":
        return noisy.argmax(axis=1).astype(f32)
    if name == "logistic":
        return (noisy > 0).astype(f32)
    return (2 * noisy).astype(f32)


def make_problem(
    seed: int,
    name: str,
    *,
    n_rows: int = 60,
    n_features: int = 4,
    n_outputs: int = 5,
    missing: float = 0.0,
    unknown: float = 0.0,
    weighting: str = "none",
    params: naive.Params | None = None,
    n_bins: int = 8,
    **changes,
) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(f32)
    X[:, 0] = rng.integers(0, 3, n_rows)
    effect = np.sin(3 * X[:, 1]) + X[:, 0]
    X[rng.random(X.shape) < missing] = np.nan
    cuts = []
    for column in X.T:
        values = column[np.isfinite(column)]
        edges = np.unique(np.quantile(values, np.arange(1, n_bins) / n_bins)) if len(values) else []
        cuts.append(np.append(edges, f32(1e5)).astype(f32))
    labels = make_labels(rng, name, effect, n_outputs)
    labels[rng.random(labels.shape) < unknown] = np.nan
    shape = {"none": None, "rows": n_rows, "labels": labels.shape}[weighting]
    weights = None if shape is None else rng.choice([0, 0.5, 1, 3], shape).astype(f32)
    return Problem(
        X=X,
        cuts=cuts,
        name=name,
        labels=labels,
        n_outputs=n_outputs,
        weights=weights,
        params=params or naive.Params(max_depth=3),
        **changes,
    )


# Trees and margins are the twin's -----------------------------------------------------------------


def differs(arrays, at: int, node: naive.Node, cuts: list[np.ndarray]) -> bool:
    """Whether the structure below a node is another."""
    left = arrays["left"][at]
    if left < 0 or not node.children:
        return left >= 0 or bool(node.children)
    if (
        arrays["feature"][at] != node.feature
        or arrays["threshold"][at] != cuts[node.feature][node.bin]
        or arrays["default_left"][at] != node.missing_left
    ):
        return True
    return any(differs(arrays, left + i, node.children[i], cuts) for i in range(2))


def compare_leaves(arrays, at: int, node: naive.Node, n_outputs: int) -> None:
    assert arrays["weight"][at] == pytest.approx(node.weight, rel=1e-5)
    if not node.children:
        number = arrays["feature"][at]
        found = arrays["leaf_values"][number * n_outputs : (number + 1) * n_outputs]
        assert_allclose(found, node.values, **CLOSE)
    for i, child in enumerate(node.children):
        compare_leaves(arrays, arrays["left"][at] + i, child, n_outputs)


def compare_line_searches(problem: Problem, before, root: naive.Node, weights) -> None:
    """Weights may differ where the loss is flat between them.

    Of the absolute and the Huber loss because rows pull both ways alike; of the logistic one, whose
    terms are floats, by what these are rounded by where margins are far from 0 and curvature is
    small.
    """
    assert problem.name in ("absolute", "huber", "logistic")
    if problem.name == "logistic":
        assert_allclose(*weights, rtol=2e-5, atol=2e-4)
    losses = []
    for own in weights:
        margins = before.copy()
        for leaf in root.leaves():
            margins[leaf.rows] += leaf.values * own.astype(float) / problem.params.learning_rate
        values = naive.Loss(name=problem.name, delta=float(f32(DELTA))).values(
            problem.dense_labels, margins
        )
        losses.append(np.nansum((problem.dense_weights * values)[root.rows]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def compare(problem: Problem, n_rounds: int = 3, n_threads: int = 1) -> None:
    boosting, twin = problem.start(n_threads), problem.start_twin()
    for tree in range(n_rounds):
        before = twin.F.astype(float)
        boosting.update(n_threads=n_threads)
        root, weights = twin.update()
        if twin.is_rounding:
            return
        arrays = boosting.model.tree_arrays(tree)
        if differs(arrays, 0, root, problem.cuts):
            assert twin.is_doubtful
            return
        compare_leaves(arrays, 0, root, problem.n_outputs if problem.params.relabels else 1)
        if weights is not None:
            found = boosting.model.output_weights[tree]
            if not np.allclose(found, weights, **CLOSE):
                compare_line_searches(problem, before, root, [found, weights])
                return
        assert_allclose(boosting.margins, twin.F, **CLOSE)
    assert boosting.mean_loss() == pytest.approx(twin.mean_loss(), rel=1e-4, abs=1e-6)


@each_loss
@each_strategy
@pytest.mark.parametrize("kind", [None, *KINDS])
def test_trees_are_the_twin_s_with_every_projection(name, relabels, kind):
    if not relabels and kind is None:
        pytest.skip("a tree of numbers has one component")
    compare(make_problem(1, name, kind=kind, params=naive.Params(relabels=relabels, max_depth=3)))


def test_a_weight_near_zero_is_known_as_far_as_floats_tell():
    params = naive.Params(learning_rate=1.0, max_depth=1, max_features=1, seed=1, relabels=False)
    options = {"n_rows": 15, "n_outputs": 2, "weighting": "labels", "unknown": 0.4}
    compare(make_problem(2, "logistic", kind="hadamard", n_components=1, params=params, **options))


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(NAMES),
    relabels=st.booleans(),
    kind=st.sampled_from([None, *KINDS]),
    weighting=st.sampled_from(["none", "rows", "labels"]),
    n_rows=st.integers(1, 50),
    n_features=st.sampled_from([4, 9]),
    n_outputs=st.integers(1, 9),
    is_weighted_draw=st.booleans(),
    is_sparse=st.booleans(),
    missing=st.sampled_from([0, 0.3]),
    unknown=st.sampled_from([0, 0.4]),
    params=st.builds(
        naive.Params,
        learning_rate=st.sampled_from([0.1, 1.0]),
        max_depth=st.integers(1, 4),
        max_leaf_nodes=st.sampled_from([0, 2, 5]),
        min_samples_leaf=st.sampled_from([1, 4]),
        max_features=st.sampled_from([1, 2, 3, 100]),
        subsample=st.sampled_from([1.0, 0.6]),
        colsample=st.sampled_from([1.0, 0.6]),
        seed=st.integers(0, 2**40),
    ),
    data=st.data(),
)
def test_trees_are_the_twin_s_whatever_the_problem(
    seed, name, relabels, kind, n_features, n_outputs, is_weighted_draw, params, data, **changes
):
    n_outputs = max(n_outputs, 2) if name == "softmax" else n_outputs
    kind = "gaussian" if not relabels and kind is None else kind
    if is_weighted_draw:
        weight = st.sampled_from([0.0, 1e-9, 0.1, 1.0])
        others = data.draw(st.lists(weight, min_size=n_features - 1, max_size=n_features - 1))
        params = replace(params, feature_weights=(1.0, *others))
    n_components = data.draw(st.integers(1, n_outputs if kind in ("subsample", "hadamard") else 9))
    compare(
        make_problem(
            seed,
            name,
            n_features=n_features,
            n_outputs=n_outputs,
            kind=kind,
            n_components=n_components,
            params=replace(params, relabels=relabels),
            **changes,
        )
    )


@pytest.mark.parametrize("n_outputs", [1, 2, 3, 6, 7, 13, 14, 15, 16, 21])
@pytest.mark.parametrize("weighting", ["none", "rows"])
def test_without_projection_trees_are_the_twin_s_for_any_number_of_outputs(n_outputs, weighting):
    """Numbers of a row are added in loops of several widths."""
    compare(make_problem(2, "squared", n_outputs=n_outputs, kind=None, weighting=weighting))


@pytest.mark.parametrize("missing", [0, 0.2])
def test_more_than_256_bins_take_two_bytes(missing):
    compare(make_problem(3, "squared", n_rows=600, missing=missing, n_bins=400), n_rounds=2)


@each_strategy
@pytest.mark.parametrize("colsample", [1.0, 0.5])
def test_values_that_are_mostly_missing_give_the_same_trees_in_either_layout(relabels, colsample):
    params = naive.Params(relabels=relabels, max_depth=4, colsample=colsample, learning_rate=0.5)
    problem = make_problem(4, "squared", n_rows=300, n_features=9, missing=0.8, params=params)
    dense, sparse = problem.run(5), replace(problem, is_sparse=True).run(5)
    for name, array in dense.model.arrays().items():
        assert_array_equal(array, sparse.model.arrays()[name], err_msg=name)
    assert_array_equal(dense.margins, sparse.margins)
    compare(replace(problem, is_sparse=True), n_rounds=2)


@each_strategy
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("weights", [None, (1e3,) * 2 + (1.0,) * 18 + (1e-6,) * 10])
def test_nodes_that_look_at_few_of_many_features_are_the_twin_s(relabels, is_sparse, weights):
    """Their sums are made of those features alone."""
    params = naive.Params(
        relabels=relabels, max_depth=4, max_features=5, feature_weights=weights, learning_rate=0.5
    )
    problem = make_problem(
        6, "squared", n_rows=150, n_features=30, missing=0.8 if is_sparse else 0.1, params=params
    )
    compare(replace(problem, is_sparse=is_sparse))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_few_features_of_two_bytes_are_the_twin_s(is_sparse):
    params = naive.Params(max_depth=3, max_features=1)
    problem = make_problem(
        7, "squared", n_rows=600, missing=0.2, n_bins=400, n_features=4, params=params
    )
    compare(replace(problem, is_sparse=is_sparse), n_rounds=2)


@pytest.mark.parametrize("kind", [None, "gaussian"])
def test_impurities_are_the_mean_squared_distances_of_components(kind):
    problem = make_problem(5, "squared", weighting="rows", kind=kind)
    boosting, twin = problem.start(), problem.start_twin()
    boosting.update()
    residuals = (problem.labels - boosting.model.initial).astype(float)
    components = residuals
    if kind is not None:
        matrix = problem.projection.matrix(n_outputs=problem.n_outputs, seed=0, tree=0)
        components = residuals @ matrix.T
    root, _ = twin.update()
    arrays = boosting.model.tree_arrays(0)
    pairs = [(0, root)]
    while pairs:
        at, node = pairs.pop()
        own, weights = components[node.rows], problem.weights[node.rows].astype(float)
        mean = weights @ own / weights.sum()
        expected = weights @ ((own - mean) ** 2).sum(axis=1) / weights.sum()
        assert arrays["impurity"][at] == pytest.approx(expected, rel=1e-5, abs=1e-6)
        pairs += [(arrays["left"][at] + i, child) for i, child in enumerate(node.children)]
