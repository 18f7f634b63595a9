# SPDX-License-Identifier: Apache-2.0
"""Trees of a document as arrays of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mtboost.lightgbm.assemble import Document, outputs_of
from mtboost.lightgbm.tree import Array, read_categories
from mtboost.trees.nodes import MOST_CODES, Nodes, divide

_ZERO_IS_MISSING = 1


def nodes_of(document: Document, n_added: int) -> Nodes | None:
    """Nodes of all trees; None if some of them are not as :class:`Nodes` has them.

    `n_added` is the number of columns after those of the tables.
    """
    entries = [
        dict(line.split("=") for line in text.split("\n") if line) for text in document.trees
    ]

    def joined(name: str, dtype: type) -> Array:
        # All trees at once: a call for each would take longer than the numbers.
        words = " ".join(entry.get(name, "") for entry in entries).split()
        return np.array(words, dtype)

    at = _places([int(entry["num_leaves"]) for entry in entries])
    inner = at.inner
    decision_type = joined("decision_type", np.int64)
    is_categorical, missing_type = decision_type & 1 != 0, decision_type >> 2 & 3
    feature = joined("split_feature", np.int64)
    n_features = len((document.header["feature_infos"] or "").split(" "))
    is_ours = feature < n_features - n_added
    if (missing_type == _ZERO_IS_MISSING).any():
        return None
    places, codes = _lists(entries)
    if codes.max(initial=0) >= MOST_CODES:
        return None
    threshold = joined("threshold", np.float64)
    # NaN counts as 0 where the column had none.
    default_left = np.where(missing_type == 0, threshold >= 0.0, decision_type & 2 != 0)
    default_left &= ~is_categorical
    task_nodes, category_nodes = divide(
        inner[is_categorical],
        places,
        codes,
        ~is_ours[is_categorical],
        listed_go_left=True,
        unknown_go_left=np.zeros(is_categorical.sum(), bool),
    )
    return Nodes(
        roots=at.first_nodes.astype(np.int32),
        first_leaves=at.first_leaves,
        left=at.children(joined("left_child", np.int64)),
        right=at.children(joined("right_child", np.int64)),
        feature=at.spread(feature, inner, np.uint32),
        threshold=at.spread(threshold, inner, np.float64),
        value=at.spread(joined("leaf_value", np.float64), at.leaves, np.float64),
        default_left=at.spread(default_left, inner, np.uint8),
        task_nodes=task_nodes,
        category_nodes=category_nodes,
        n_features=n_features,
        n_outputs=outputs_of(document),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where the nodes of all trees lie: of each tree the inner nodes, then the leaves."""

    n_inner: Array  # of each tree
    first_nodes: Array
    first_leaves: Array
    inner: Array  # of all trees
    leaves: Array

    def spread(self, values: Array, at: Array, dtype: type) -> Array:
        found: Array = np.zeros(len(self.inner) + len(self.leaves), dtype)
        found[at] = values
        return found

    def children(self, own: Array) -> Array:
        """Children by their place; below 0, `own` is the complement of a leaf's number."""
        found = np.full(len(self.inner) + len(self.leaves), -1, np.int32)
        found[self.inner] = np.where(
            own < 0,
            np.repeat(self.first_leaves, self.n_inner) + ~own,
            np.repeat(self.first_nodes, self.n_inner) + own,
        )
        return found


def _places(leaves_of_trees: list[int]) -> _Places:
    n_leaves = np.array(leaves_of_trees, np.int64)
    n_inner = n_leaves - 1
    first_nodes = np.cumsum(np.concatenate([[0], n_inner + n_leaves]))[:-1]
    return _Places(
        n_inner=n_inner,
        first_nodes=first_nodes,
        first_leaves=first_nodes + n_inner,
        inner=np.arange(n_inner.sum()) + np.repeat(np.cumsum(n_leaves) - n_leaves, n_inner),
        leaves=np.arange(n_leaves.sum()) + np.repeat(np.cumsum(n_inner), n_leaves),
    )


def _lists(entries: Sequence[Mapping[str, str]]) -> tuple[Array, Array]:
    """Return which of the nodes with categories lists each code, and the codes."""
    places, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    n_nodes = 0
    for entry in entries:
        if entry["num_cat"] != "0":
            starts, own = read_categories(entry)
            places.append(n_nodes + np.repeat(np.arange(len(starts) - 1), np.diff(starts)))
            codes.append(own)
            n_nodes += len(starts) - 1
    return np.concatenate(places), np.concatenate(codes)
