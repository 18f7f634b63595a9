# SPDX-License-Identifier: Apache-2.0
"""Trees whose leaves hold a number for each output, from ordinary trees and back.

XGBoost 3.0 and 3.1 read the vectors from ``base_weights``; later versions from ``leaf_weights``,
where a leaf's ``right_children`` is its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.errors import DataError, UnsupportedError
from mtboost.xgboost.assemble import (
    NO_PARENT,
    Document,
    load_document,
    over_same_features,
    with_trees,
)
from mtboost.xgboost.library import version

_MOST_LEAF_VALUES = 2**29  # of all trees: two gigabytes, which later versions store twice

# What trees of the same splits have in common, besides the thresholds of their inner nodes.
_CUTS = (
    "left_children",
    "right_children",
    "split_indices",
    "default_left",
    "categories_nodes",
    "categories_segments",
    "categories",
)


def with_vector_leaves(tree: Document, leaves: npt.NDArray[np.float32]) -> Document:
    """The tree with these leaves, in the order of the nodes, each a number for every output.

    `leaves` are float32 of shape (n_leaves, n_outputs); the tree has a number in each leaf.
    """
    n_outputs = leaves.shape[1]
    is_leaf = tree["left_children"] < 0
    values = np.zeros((len(is_leaf), n_outputs), np.float32)
    values[is_leaf] = leaves
    parents = tree["parents"].copy()
    parents[0] = -1
    vectors = {}
    if version() >= (3, 2):
        places = np.cumsum(is_leaf, dtype=np.int32) - 1
        vectors = {
            "right_children": np.where(is_leaf, places, tree["right_children"]),
            "leaf_weights": leaves.ravel(),
        }
    return {
        **tree,
        **vectors,
        "base_weights": values.ravel(),
        "parents": parents,
        "tree_param": {**tree["tree_param"], "size_leaf_vector": str(n_outputs)},
    }


def scalar_trees(tree: Document) -> list[Document]:
    """One tree for each output of a tree whose leaves may hold vectors: the inverse."""
    n_outputs = int(tree["tree_param"]["size_leaf_vector"])
    if n_outputs <= 1:
        return [tree]
    left = tree["left_children"]
    is_leaf = left < 0
    weights = tree["base_weights"].reshape(len(left), n_outputs)
    values = weights[is_leaf]
    if "leaf_weights" in tree:
        values = tree["leaf_weights"].reshape(-1, n_outputs)[tree["right_children"][is_leaf]]
    parents = tree["parents"].copy()
    parents[0] = NO_PARENT
    own = {name: part for name, part in tree.items() if name != "leaf_weights"} | {
        "parents": parents,
        "right_children": np.where(is_leaf, -1, tree["right_children"]).astype(np.int32),
        "tree_param": {**tree["tree_param"], "size_leaf_vector": "1"},
    }
    trees = []
    for output in range(n_outputs):
        conditions = tree["split_conditions"].copy()
        conditions[is_leaf] = values[:, output]
        trees.append({**own, "base_weights": weights[:, output], "split_conditions": conditions})
    return trees


def stacked(documents: Sequence[Document]) -> xgboost.Booster:
    """One booster with the margins of several, in their order: those of the first are its output 0.

    One alone stays as it is. Trees of a round with the same splits become one, whose leaves hold
    a vector; outputs that have other trees, or none any more, have zeros in it. So each output adds
    up the same numbers in the same order as its own booster, and ``iteration_range`` means the
    rounds of that. All have one objective and start score, and a number in each leaf. Features are
    matched by name; those of the first come first.
    """
    if len(documents) == 1:
        return load_document(documents[0])
    frame, trees_by_output = over_same_features(documents[0], documents)
    if version() < (3, 3) and any(
        len(tree["categories_nodes"]) for trees in trees_by_output for tree in trees
    ):
        raise UnsupportedError(
            f"XGBoost {xgboost.__version__} writes no categories of trees with several "
            "outputs to files: make a booster for each task, booster(task), or run pip install "
            "'xgboost>=3.3'."
        )
    n_outputs = len(documents)
    rounds = [_by_cuts(trees) for trees in zip_longest(*trees_by_output)]
    groups = [group for groups_of_round in rounds for group in groups_of_round]
    n_values = n_outputs * sum(_n_leaves(next(iter(group.values()))) for group in groups)
    if n_values > _MOST_LEAF_VALUES:
        raise DataError(
            f"A booster of {n_outputs} outputs would hold {n_values:.2g} leaf values: make one "
            "for each task."
        )
    trees = [_stacked(group, n_outputs) for group in groups]
    document = with_trees(_with_outputs(frame, n_outputs), trees, n_outputs=1)
    ends = np.cumsum([0] + [len(groups_of_round) for groups_of_round in rounds]).tolist()
    document["learner"]["gradient_booster"]["model"]["iteration_indptr"] = ends
    return load_document(document)


def _by_cuts(trees: Sequence[Document | None]) -> list[dict[int, Document]]:
    """Trees of one round by output, those with the same splits together; None has no more trees."""
    groups: dict[bytes, dict[int, Document]] = {}
    for output, tree in enumerate(trees):
        if tree is not None:
            groups.setdefault(_cuts_of(tree), {})[output] = tree
    return list(groups.values())


def _stacked(trees: dict[int, Document], n_outputs: int) -> Document:
    """One tree of several with the same splits, by output; the other outputs have zeros."""
    first, *_ = trees.values()
    leaves = np.zeros((_n_leaves(first), n_outputs), np.float32)
    for output, tree in trees.items():
        leaves[:, output] = tree["split_conditions"][tree["left_children"] < 0]
    return with_vector_leaves(first, leaves)


def _n_leaves(tree: Document) -> int:
    return int(np.count_nonzero(tree["left_children"] < 0))


def _cuts_of(tree: Document) -> bytes:
    """Equal for trees that divide all rows in the same way, node by node."""
    thresholds = tree["split_conditions"][tree["left_children"] >= 0]
    arrays = [thresholds, *(tree[name] for name in _CUTS)]
    return b"".join(np.int64(len(array)).tobytes() + array.tobytes() for array in arrays)


def _with_outputs(frame: Document, n_outputs: int) -> Document:
    """The document with as many outputs, all of which start where its one does."""
    parameters = frame["learner"]["learner_model_param"]
    # One number for all outputs up to XGBoost 3.0, which reads a list as 0.
    start = parameters["base_score"].strip("[]")
    if version() >= (3, 1):
        start = f"[{','.join([start] * n_outputs)}]"
    own = {**parameters, "base_score": start, "num_target": str(n_outputs)}
    return {**frame, "learner": {**frame["learner"], "learner_model_param": own}}
