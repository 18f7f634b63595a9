# SPDX-License-Identifier: Apache-2.0
"""Trees of a document as arrays of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mtboost.lightgbm.assemble import Document, outputs_of
from mtboost.lightgbm.tree import Array, read_categories
from mtboost.trees.nodes import MOST_CODES, CategoryNodes, Nodes, TaskNodes

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

    n_leaves = np.array([int(entry["num_leaves"]) for entry in entries], np.int64)
    n_inner = n_leaves - 1
    first_nodes = np.cumsum(np.concatenate([[0], n_inner + n_leaves]))[:-1]
    first_leaves = first_nodes + n_inner
    n_nodes = int((n_inner + n_leaves).sum())
    inner = np.arange(n_inner.sum()) + np.repeat(np.cumsum(n_leaves) - n_leaves, n_inner)
    leaves = np.arange(n_leaves.sum()) + np.repeat(np.cumsum(n_inner), n_leaves)

    def children(name: str) -> Array:
        own = joined(name, np.int64)
        found = np.full(n_nodes, -1, np.int32)
        # Below 0 it is the complement of a leaf's number.
        found[inner] = np.where(
            own < 0,
            np.repeat(first_leaves, n_inner) + ~own,
            np.repeat(first_nodes, n_inner) + own,
        )
        return found

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
    listing, are_tasks = inner[is_categorical], ~is_ours[is_categorical]
    lists_tasks = are_tasks[places]
    number = np.where(are_tasks, np.cumsum(are_tasks), np.cumsum(~are_tasks)) - 1

    def spread(values: Array, at: Array, dtype: type) -> Array:
        found: Array = np.zeros(n_nodes, dtype)
        found[at] = values
        return found

    return Nodes(
        roots=first_nodes.astype(np.int32),
        first_leaves=first_leaves,
        left=children("left_child"),
        right=children("right_child"),
        feature=spread(feature, inner, np.uint32),
        threshold=spread(threshold, inner, np.float64),
        value=spread(joined("leaf_value", np.float64), leaves, np.float64),
        default_left=spread(default_left, inner, np.uint8),
        task_nodes=TaskNodes(
            listing[are_tasks],
            number[places[lists_tasks]],
            codes[lists_tasks],
            listed_go_left=True,
            unknown_go_left=np.zeros(are_tasks.sum(), bool),
        ),
        category_nodes=CategoryNodes.of(
            listing[~are_tasks], number[places[~lists_tasks]], codes[~lists_tasks]
        ),
        n_features=n_features,
        n_outputs=outputs_of(document),
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
