# SPDX-License-Identifier: Apache-2.0
"""A booster without some of its columns, for rows in which they are missing.

A node that tests such a column sends every row the same way, where missing values go. It is
replaced by the child that it leads to: the rows reach the same leaves, and their margins are sums
of the same numbers in the same order.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from mtboost.xgboost.assemble import Document, outputs_of, trees_of, with_trees

Ints = npt.NDArray[np.integer]

# Arrays of a tree with one entry a node that say nothing of other nodes.
_OF_NODES = (
    "base_weights",
    "default_left",
    "loss_changes",
    "split_conditions",
    "split_indices",
    "split_type",
    "sum_hessian",
)


def without_columns(document: Document, names: Collection[str]) -> Document:
    """Document without columns that are missing in all rows it will see; at least one is left.

    Margins keep their bits. Gains stay those of training; the hessian of a node above a replaced
    one is that of the leaves that are left below it.
    """
    is_dropped = np.array([name in names for name in document["learner"]["feature_names"]])
    trees = [_without(tree, is_dropped) for tree in trees_of(document)]
    frame = with_features(document, np.flatnonzero(~is_dropped))
    return with_trees(frame, trees, n_outputs=outputs_of(document))


def _without(tree: Document, is_dropped: npt.NDArray[np.bool_]) -> Document:
    left, right = tree["left_children"], tree["right_children"]
    goes_to = np.where(tree["default_left"] == 1, left, right)
    tests_dropped = (left >= 0) & is_dropped[tree["split_indices"]]
    short = spliced(tree, np.where(tests_dropped, goes_to, -1))
    places = np.where(is_dropped, 0, np.cumsum(~is_dropped) - 1).astype(np.int32)
    n_features = np.count_nonzero(~is_dropped)
    return {
        **short,
        "split_indices": places[short["split_indices"]],
        "tree_param": {**short["tree_param"], "num_feature": str(n_features)},
    }


def spliced(tree: Document, goes_to: Ints) -> Document:
    """Tree in which each node gives way to the child that `goes_to` has for it; -1: it stays."""
    left, right = tree["left_children"], tree["right_children"]
    if (goes_to < 0).all():
        return tree
    stands_for = np.arange(len(left))
    for node in np.flatnonzero(goes_to >= 0)[::-1]:
        stands_for[node] = stands_for[goes_to[node]]

    inner, kept = _numbered(left, right, stands_for)
    n_nodes = len(kept)
    place = np.zeros(len(left), np.int64)
    place[kept] = np.arange(n_nodes)
    first_child = np.arange(1, n_nodes, 2)
    found = {**tree, **{name: tree[name][kept] for name in _OF_NODES}}
    for name, children in (("left_children", first_child), ("right_children", first_child + 1)):
        found[name] = np.full(n_nodes, -1, np.int32)
        found[name][place[inner]] = children
    found["parents"] = np.full(n_nodes, tree["parents"][0])
    found["parents"][1:] = np.repeat(place[inner], 2)
    hessian = found["sum_hessian"]
    for node, child in zip(place[inner][::-1], first_child[::-1], strict=True):
        hessian[node] = hessian[child] + hessian[child + 1]
    found |= _categories_of(tree, kept)
    found["tree_param"] = {**tree["tree_param"], "num_nodes": str(n_nodes)}
    return found


def _numbered(left: Ints, right: Ints, stands_for: Ints) -> tuple[Ints, Ints]:
    """Return the inner nodes, in their old order, and all nodes in their new order.

    Siblings stay neighbours: the root, then the two children of each inner node.
    """
    inner, pending = [], [stands_for[0]]
    while pending:
        node = pending.pop()
        if left[node] >= 0:
            inner.append(node)
            pending += [stands_for[left[node]], stands_for[right[node]]]
    split = np.array(sorted(inner, key=left.__getitem__), np.int64)
    children = np.column_stack([stands_for[left[split]], stands_for[right[split]]]).ravel()
    return split, np.concatenate([stands_for[:1], children])


def _categories_of(tree: Document, kept: Ints) -> Document:
    """The sets of categories of the nodes that are kept, in their new order."""
    categories_of = listed_categories(tree)
    listed = {new: categories_of[old] for new, old in enumerate(kept) if old in categories_of}
    sizes = np.array([len(categories) for categories in listed.values()], np.int64)
    return {
        "categories": np.concatenate([np.empty(0, np.int32), *listed.values()]),
        "categories_nodes": np.array(list(listed), np.int32),
        "categories_segments": np.cumsum(sizes) - sizes,
        "categories_sizes": sizes,
    }


def listed_categories(tree: Document) -> dict[int, npt.NDArray[np.int32]]:
    """Categories that go right, by node."""
    starts = tree["categories_segments"]
    ends = starts + tree["categories_sizes"]
    return {
        int(node): tree["categories"][start:end]
        for node, start, end in zip(tree["categories_nodes"], starts, ends, strict=True)
    }


def with_features(document: Document, kept: Ints) -> Document:
    """Frame with some of the features, by position."""
    learner = {**document["learner"]}
    parameters = learner["learner_model_param"]
    learner["learner_model_param"] = {**parameters, "num_feature": str(len(kept))}
    for name in ("feature_names", "feature_types"):
        if learner[name]:
            learner[name] = [learner[name][feature] for feature in kept]
    booster = learner["gradient_booster"]
    model = {**booster["model"]}
    if model.get("cats", {}).get("enc"):  # XGBoost 3.1+, if the table had names of categories
        model["cats"] = _names_of_categories(model["cats"], kept)
    learner["gradient_booster"] = {**booster, "model": model}
    return {**document, "learner": learner}


def _names_of_categories(cats: Document, kept: Ints) -> Document:
    """Those of some features; assemble.py says what is in them."""
    starts = cats["feature_segments"]
    orders = [cats["sorted_idx"][starts[feature] : starts[feature + 1]] for feature in kept]
    return {
        "enc": [cats["enc"][feature] for feature in kept],
        "feature_segments": np.cumsum([0, *map(len, orders)]).tolist(),
        "sorted_idx": [place for order in orders for place in order],
    }
