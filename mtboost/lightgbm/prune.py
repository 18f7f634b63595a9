# SPDX-License-Identifier: Apache-2.0
"""A booster without some of its columns, for rows in which they are missing.

See mtboost/xgboost/prune.py. Where a missing value goes is LightGBM's own rule: in a node whose
column had no missing values in training NaN counts as 0, in a node of categories it goes right, and
in all others as ``default_left`` says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mtboost.lightgbm.assemble import Document, feature_names
from mtboost.lightgbm.tree import Array, Tree, constant_tree, read_tree, tree_text

# Lines of the header with one word a feature.
OF_FEATURES = ("feature_names", "feature_infos", "monotone_constraints")
# Of nodes, and of no other nodes.
_OF_NODES = (
    "split_feature",
    "threshold",
    "is_categorical",
    "default_left",
    "missing_type",
    "split_gain",
    "internal_value",
)
_NOTHING_IS_MISSING = 0


def without_columns(
    document: Document, names: Collection[str], categorical: Collection[str]
) -> Document:
    """Document without columns that are missing in all rows it will see; at least one is left.

    Margins keep their bits. Gains and values of nodes stay those of training; weight and count of a
    node above a replaced one are those of the leaves that are left below it. `categorical` are all
    columns that were categories of the training frame: a booster has their labels by the order of
    its columns alone.
    """
    all_names = feature_names(document)
    is_dropped = np.array([name in names for name in all_names])
    header = {**document.header, "max_feature_idx": str(np.count_nonzero(~is_dropped) - 1)}
    for line in OF_FEATURES:
        words = header.get(line)
        if words:
            pairs = zip(words.split(" "), is_dropped, strict=True)
            header[line] = " ".join(word for word, dropped in pairs if not dropped)
    labels = document.pandas_categorical
    if labels:
        of_frame = [name for name in all_names if name in categorical]
        pairs_of_labels = zip(of_frame, labels, strict=True)
        labels = [each for name, each in pairs_of_labels if name not in names]
    return replace(
        document,
        header=header,
        trees=[_without(text, is_dropped) for text in document.trees],
        pandas_categorical=labels,
    )


def _without(text: str, is_dropped: npt.NDArray[np.bool_]) -> str:
    tree = read_tree(text)
    nan_is_zero = ~tree.is_categorical & (tree.missing_type == _NOTHING_IS_MISSING)
    goes_left = np.where(nan_is_zero, tree.threshold >= 0, tree.default_left & ~tree.is_categorical)
    goes_to = np.where(goes_left, tree.left_child, tree.right_child)
    short = spliced(tree, is_dropped[tree.split_feature], goes_to)
    places = np.cumsum(~is_dropped) - 1
    return tree_text(replace(short, split_feature=places[short.split_feature]))


def spliced(tree: Tree, is_replaced: npt.NDArray[np.bool_], goes_to: Array) -> Tree:
    """Tree in which replaced nodes give way to the child that `goes_to` has for them."""
    if not is_replaced.any():
        return tree

    def follow(child: int) -> int:
        """The child itself, or what it is replaced by."""
        while child >= 0 and is_replaced[child]:
            child = int(goes_to[child])
        return child

    root = follow(0)
    if root < 0:
        leaf = -1 - root
        constant = constant_tree(float(tree.leaf_value[leaf]), int(tree.leaf_count[leaf]))
        return replace(constant, shrinkage=tree.shrinkage)
    inner, pending = [], [root]
    children: dict[int, tuple[int, int]] = {}
    while pending:
        node = pending.pop()
        inner.append(node)
        children[node] = follow(int(tree.left_child[node])), follow(int(tree.right_child[node]))
        pending += [child for child in children[node] if child >= 0]
    return _renumbered(tree, sorted(inner), children)


def _renumbered(tree: Tree, inner: list[int], children: dict[int, tuple[int, int]]) -> Tree:
    """Nodes in their old order; a left child keeps the leaf's number, a right one gets the next."""
    number = {inner[0]: 0}  # of the leaf that a node or leaf was, or is
    for place, node in enumerate(inner):
        left, right = children[node]
        number[left], number[right] = number[node], place + 1
    leaves = np.array(sorted((child for child in number if child < 0), key=number.__getitem__))
    place_of = {node: place for place, node in enumerate(inner)}
    pairs = [
        [place_of[child] if child >= 0 else -1 - number[child] for child in children[node]]
        for node in inner
    ]
    left_child, right_child = np.array(pairs).T
    leaf_weight, leaf_count = tree.leaf_weight[-1 - leaves], tree.leaf_count[-1 - leaves]
    sets = np.split(tree.categories, tree.category_starts[1:-1])
    set_of = dict(zip(np.flatnonzero(tree.is_categorical).tolist(), sets, strict=False))
    categories = [set_of[node] for node in inner if node in set_of]
    return Tree(
        **{name: getattr(tree, name)[inner] for name in _OF_NODES},
        left_child=left_child,
        right_child=right_child,
        internal_weight=_added_up(leaf_weight, left_child, right_child),
        internal_count=_added_up(leaf_count, left_child, right_child),
        leaf_value=tree.leaf_value[-1 - leaves],
        leaf_weight=leaf_weight,
        leaf_count=leaf_count,
        category_starts=np.cumsum([0, *map(len, categories)]),
        categories=np.concatenate([np.empty(0, np.int64), *categories]),
        shrinkage=tree.shrinkage,
    )


def _added_up(of_leaves: Array, left_child: Array, right_child: Array) -> Array:
    """Return the sums over the leaves below each node."""
    sums = np.zeros(len(left_child), of_leaves.dtype)
    for node in range(len(sums) - 1, -1, -1):  # children come after their parents
        for child in (left_child[node], right_child[node]):
            sums[node] += sums[child] if child >= 0 else of_leaves[-1 - child]
    return sums
