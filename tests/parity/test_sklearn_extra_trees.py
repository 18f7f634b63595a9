# SPDX-License-Identifier: Apache-2.0
"""Without task splits the forests equal scikit-learn's, in distribution or exactly.

Random cuts: the trees of ExtraTreesRegressor and ExtraTreesClassifier have the same distribution.
Features and thresholds of roots, numbers of nodes, and what trees say at fixed points are compared
over 1500 trees a side, by two-sample tests. Seeds are fixed, so each test is deterministic: it
passes always or never. Had the seeds been drawn, a test of two equal distributions would have
failed with probability ALPHA, all that are here together with less than 0.2 %. Another test shows
that the samples are large enough: an error by one in a parameter is detected.

Best cuts: trees that consider all features split the training rows exactly as scikit-learn's do.

Known to differ, and not compared:

* scikit-learn counts features that are constant in a node toward max_features, we do not: tables
  here are continuous, nothing is constant in a node of two rows or more;
* it takes values less than 1e-7 apart as equal, and thresholds are float64, compared by <=;
* where all present values are equal and others missing, it may draw a cut that divides nothing:
  laws with missing values are compared at roots, which have many values;
* rounded sums make some of its pure nodes seem impure, and one of two features that divide a node
  alike seem better: labels and weights here are multiples of a power of two, their sums exact.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from mtboost import _core

ALPHA = 1e-4
N_TREES = 1500
N_FEATURES = 4
f32 = np.float32


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A table of continuous features, labels, and how trees grow on them."""

    y: np.ndarray
    n_classes: int = 0  # 0: labels are numbers
    weights: np.ndarray | None = None
    max_features: int = N_FEATURES
    params: dict[str, int] = field(default_factory=dict)  # of the same name on both sides
    missing: float = 0.0

    def make_table(self) -> np.ndarray:
        return make_table(len(self.y), self.missing)


def make_table(n_rows: int, missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[:, 1] = np.exp(X[:, 1])  # a long tail: most of its cuts are far out
    X[rng.random(X.shape) < missing] = np.nan
    return X.astype(f32)


def make_numbers(n_rows: int) -> np.ndarray:
    X = make_table(n_rows)
    noise = np.random.default_rng(2).normal(size=n_rows)
    y = X[:, 0] + 0.5 * X[:, 1] + X[:, 0] * X[:, 2] + 0.5 * noise
    return np.round(1024 * y) / 1024


def make_classes(n_rows: int, n_classes: int) -> np.ndarray:
    ranks = np.argsort(np.argsort(make_numbers(n_rows)))
    return ranks * n_classes // n_rows


def make_weights(n_rows: int, zeros: float = 0.2) -> np.ndarray:
    """A fifth of them 0; no two sums of a few are equal, unless by chance."""
    rng = np.random.default_rng(3)
    weights = np.ceil(1024 * rng.exponential(size=n_rows)) / 1024
    return np.where(rng.random(n_rows) < zeros, 0.0, weights)


SCENES = {
    "numbers": Scene(y=make_numbers(60)),
    "numbers, one feature of four": Scene(y=make_numbers(60), max_features=1),
    "numbers, weights": Scene(y=make_numbers(60), weights=make_weights(60)),
    "numbers, leaves of five rows": Scene(
        y=make_numbers(60), max_features=3, params={"min_samples_leaf": 5}
    ),
    "numbers, nodes of twelve rows": Scene(
        y=make_numbers(60), params={"min_samples_split": 12, "max_depth": 5}
    ),
    "several numbers": Scene(y=np.column_stack([make_numbers(60), make_numbers(60)[::-1]])),
    "two classes": Scene(y=make_classes(60, 2), n_classes=2, max_features=2),
    "three classes": Scene(y=make_classes(60, 3), n_classes=3, max_features=2),
    "three classes, weights": Scene(
        y=make_classes(60, 3), n_classes=3, max_features=2, weights=make_weights(60)
    ),
    "numbers, roots, missing values": Scene(
        y=make_numbers(60), max_features=2, missing=0.3, params={"max_depth": 1}
    ),
    "three classes, roots, missing values": Scene(
        y=make_classes(60, 3), n_classes=3, max_features=2, missing=0.3, params={"max_depth": 1}
    ),
}


# Trees of both sides ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What is compared of many trees."""

    root_feature: np.ndarray  # -1: the root is a leaf
    root_threshold: np.ndarray
    n_nodes: np.ndarray
    outputs: np.ndarray  # (tree, point), of the first output, or of class 1
    missing_left: np.ndarray


POINTS = np.array([[0, 1, 0, 0], [-1, 0.5, 1, 0.5], [1.5, 3, 1, -1]], f32)


def our_forest(scene: Scene, splitter: str, n_trees: int, seed: int = 0) -> _core.Forest:
    params = _core.ForestParams(
        splitter=splitter, max_features=scene.max_features, seed=seed, **scene.params
    )
    forest = _core.Forest(params, n_features=N_FEATURES)
    arrays: dict[str, Any] = {"weights": scene.weights}
    if scene.n_classes:
        arrays |= {"labels": scene.y.astype(np.uint32), "n_labels": scene.n_classes}
    else:
        arrays |= {"y": scene.y.reshape(len(scene.y), -1).astype(float)}
    forest.grow(_core.FeatureColumns(scene.make_table()), n_trees=n_trees, **arrays)
    return forest


def our_sample(scene: Scene, seed: int = 0) -> Sample:
    forest = our_forest(scene, "random", N_TREES, seed)
    trees = [forest.tree_arrays(number) for number in range(N_TREES)]
    n_outputs = scene.n_classes or scene.y.reshape(len(scene.y), -1).shape[1]
    outputs = []
    for tree in trees:
        alone = _core.Forest(_core.ForestParams(), n_features=N_FEATURES)
        alone.add_tree(tree, n_outputs=n_outputs)
        outputs.append(alone.predict(POINTS)[:, 1 if scene.n_classes else 0])
    return Sample(
        root_feature=np.array(
            [int(tree["feature"][0]) if len(tree["left"]) > 1 else -1 for tree in trees]
        ),
        root_threshold=np.array([tree["threshold"][0] for tree in trees]),
        n_nodes=np.array([len(tree["left"]) for tree in trees]),
        outputs=np.array(outputs),
        missing_left=np.array([tree["default_left"][0] for tree in trees]),
    )


@functools.cache
def their_sample(name: str) -> Sample:
    scene = SCENES[name]
    model = ExtraTreesClassifier if scene.n_classes else ExtraTreesRegressor
    forest = model(N_TREES, max_features=scene.max_features, random_state=0, **scene.params)
    forest.fit(scene.make_table(), scene.y, sample_weight=scene.weights)
    trees = [tree.tree_ for tree in forest.estimators_]
    # (point, class) or (point, output); with several outputs (point, output, 1)
    outputs = [tree.predict(POINTS).reshape(len(POINTS), -1) for tree in trees]
    return Sample(
        root_feature=np.array([max(tree.feature[0], -1) for tree in trees]),
        root_threshold=np.array([tree.threshold[0] for tree in trees]),
        n_nodes=np.array([tree.node_count for tree in trees]),
        outputs=np.array(outputs)[:, :, 1 if scene.n_classes else 0],
        missing_left=np.array([tree.missing_go_to_left[0] for tree in trees]),
    )


# Two-sample tests ---------------------------------------------------------------------------------


def counts_agree(first: np.ndarray, second: np.ndarray) -> float:
    """p of the chi-square test; numbers seen less than 20 times are one."""
    values, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    table = np.stack(
        [np.bincount(part, minlength=len(values)) for part in np.split(codes, [len(first)])]
    )
    rare = table.sum(axis=0) < 20
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return 1.0 if table.shape[1] == 1 else float(stats.chi2_contingency(table).pvalue)


def values_agree(first: np.ndarray, second: np.ndarray) -> float:
    """p of the Kolmogorov-Smirnov test, which is below its level more rarely if values tie.

    Rounded: equal means of labels were summed up in another order.
    """
    return float(stats.ks_2samp(np.round(first, 6), np.round(second, 6), method="asymp").pvalue)


def p_values(ours: Sample, theirs: Sample) -> dict[str, float]:
    found = {
        "root feature": counts_agree(ours.root_feature, theirs.root_feature),
        "number of nodes": counts_agree(ours.n_nodes, theirs.n_nodes),
    }
    for feature in range(N_FEATURES):
        own = [s.root_threshold[s.root_feature == feature] for s in (ours, theirs)]
        if min(map(len, own)) >= 50:
            found[f"threshold of feature {feature}"] = values_agree(*own)
    for point in range(len(POINTS)):
        found[f"output at point {point}"] = values_agree(
            ours.outputs[:, point], theirs.outputs[:, point]
        )
    return found


# The tests ----------------------------------------------------------------------------------------


ROOTS = [name for name in SCENES if SCENES[name].missing]


@pytest.mark.parametrize("name", [name for name in SCENES if name not in ROOTS])
def test_random_trees_have_the_distribution_of_extra_trees(name: str) -> None:
    found = p_values(our_sample(SCENES[name]), their_sample(name))
    assert len(found) >= 7
    assert min(found.values()) > ALPHA / len(found), found


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("numbers", {"max_features": 3}),
        ("numbers", {"y": make_numbers(60) ** 3}),
        ("numbers, leaves of five rows", {"params": {"min_samples_leaf": 4}}),
        ("numbers, nodes of twelve rows", {"params": {"min_samples_split": 11, "max_depth": 5}}),
        ("numbers, weights", {"weights": None}),
        ("three classes", {"max_features": 3}),
    ],
)
def test_other_distributions_are_detected(name: str, changes: dict[str, Any]) -> None:
    """An error by one in a parameter changes the distribution enough."""
    other = replace(SCENES[name], **changes)
    found = p_values(our_sample(other), their_sample(name))
    assert min(found.values()) < ALPHA / len(found) / 10, found


@pytest.mark.parametrize("name", ROOTS)
def test_roots_with_missing_values_have_the_distribution_of_extra_trees(name: str) -> None:
    ours, theirs = our_sample(SCENES[name]), their_sample(name)
    found = p_values(ours, theirs)
    for feature in range(N_FEATURES):
        found[f"missing values of feature {feature}"] = counts_agree(
            *(s.missing_left[s.root_feature == feature] for s in (ours, theirs))
        )
    assert min(found.values()) > ALPHA / len(found), found


def divisions(leaves: np.ndarray) -> np.ndarray:
    """Numbers of leaves, by the first row that each has."""
    _, first, codes = np.unique(leaves, return_index=True, return_inverse=True)
    return first[codes]


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("params", [{}, {"max_depth": 4}, {"min_samples_leaf": 7}], ids=str)
@pytest.mark.parametrize("n_classes", [0, 2, 5])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_best_trees_divide_rows_as_decision_trees_do(
    n_classes: int, params: dict[str, int], missing: float, is_weighted: bool
) -> None:
    n_rows = 400
    weights = make_weights(n_rows)
    if not is_weighted:  # classes need some: two different divisions would gain the same
        weights = make_weights(n_rows, zeros=0) if n_classes else None
    scene = Scene(
        y=make_classes(n_rows, n_classes) if n_classes else make_numbers(n_rows),
        n_classes=n_classes,
        weights=weights,
        missing=missing,
        params=params,
    )
    model = DecisionTreeClassifier if n_classes else DecisionTreeRegressor
    theirs = model(random_state=0, **params).fit(scene.make_table(), scene.y, sample_weight=weights)
    ours = our_forest(scene, "best", 1)
    seen = np.ones(n_rows, bool) if weights is None else weights > 0
    assert_array_equal(
        divisions(ours.leaves(scene.make_table())[seen, 0]),
        divisions(theirs.apply(scene.make_table())[seen]),
    )
