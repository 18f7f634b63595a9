# SPDX-License-Identifier: Apache-2.0
"""Trees of a document as arrays of nodes."""

from __future__ import annotations

import numpy as np

from mtboost.trees.nodes import Nodes, divide
from mtboost.xgboost.assemble import Document, outputs_of, trees_of


def nodes_of(document: Document, n_added: int) -> Nodes | None:
    """Nodes of all trees; None if some of them are not as :class:`Nodes` has them.

    `n_added` is the number of columns after those of the tables.
    """
    trees, n_outputs, learner = trees_of(document), outputs_of(document), document["learner"]
    n_features = int(learner["learner_model_param"]["num_feature"])
    numbers = np.arange(len(trees)) % n_outputs
    if not np.array_equal(learner["gradient_booster"]["model"]["tree_info"], numbers) or any(
        tree["tree_param"]["size_leaf_vector"] not in ("0", "1") for tree in trees
    ):
        return None

    def joined(name: str, dtype: type) -> np.ndarray:
        return np.concatenate([np.empty(0, dtype), *(tree[name] for tree in trees)]).astype(dtype)

    lengths = [len(tree["left_children"]) for tree in trees]
    first_nodes = np.cumsum([0, *lengths])[:-1]
    shift = np.repeat(first_nodes, lengths).astype(np.int32)
    left, right = joined("left_children", np.int32), joined("right_children", np.int32)
    is_leaf = left < 0
    conditions = joined("split_conditions", np.float32)
    default_left = joined("default_left", np.uint8)
    sizes = joined("categories_sizes", np.int64)
    n_lists = [len(tree["categories_nodes"]) for tree in trees]
    listing = joined("categories_nodes", np.int64) + np.repeat(first_nodes, n_lists)
    feature = joined("split_indices", np.uint32)
    task_nodes, category_nodes = divide(
        listing,
        np.repeat(np.arange(len(listing)), sizes),
        joined("categories", np.int32),
        feature[listing] >= n_features - n_added,
        listed_go_left=False,
        unknown_go_left=default_left[listing] == 1,
    )
    return Nodes(
        roots=first_nodes.astype(np.int32),
        first_leaves=first_nodes,
        left=np.where(is_leaf, np.int32(-1), left + shift),
        right=np.where(is_leaf, np.int32(-1), right + shift),
        feature=feature,
        threshold=conditions,
        value=conditions,
        default_left=default_left,
        task_nodes=task_nodes,
        category_nodes=category_nodes,
        n_features=n_features,
        n_outputs=n_outputs,
    )
