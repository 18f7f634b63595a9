"""A booster with task splits, as the booster of one task; see mtboost/xgboost/resolve.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mtboost.errors import ModelFormatError
from mtboost.lightgbm.assemble import (
    Array,
    Document,
    Tree,
    constant_tree,
    read_tree,
    tree_text,
)

# Lines of the header with one word a feature.
_OF_FEATURES = ("feature_names", "feature_infos", "monotone_constraints")


def resolve_task(document: Document, code: int | None) -> Document:
    """Document of one task, without the last column.

    Parameters
    ----------
    document : Document
        The last column is a category; of a data frame, one whose dtype is ``category``.
    code : int or None
        The task's category; None is a task that is not known, which goes where missing values go:
        right, as LightGBM sends tasks too rare for a bin of their own.

    Returns
    -------
    Document
        Margins of the task's rows keep their bits. Gains and values of nodes stay those of
        training; weight and count of a node above a replaced one are those of the leaves that are
        left below it.

    Raises
    ------
    ModelFormatError
        The last column has numbers.
    """
    infos = (document.header["feature_infos"] or "").split(" ")
    if infos[-1].startswith("["):  # a constant column is "none", whatever it holds
        raise ModelFormatError("The last column of the booster is no category: it has no tasks.")
    column = len(infos) - 1
    header = {**document.header, "max_feature_idx": str(column - 1)}
    for name in _OF_FEATURES:
        words = header.get(name)
        if words:
            header[name] = " ".join(words.split(" ")[:-1])
    return replace(
        document,
        header=header,
        trees=[_resolve(text, column, code) for text in document.trees],
        pandas_categorical=document.pandas_categorical and document.pandas_categorical[:-1],
    )


def _resolve(text: str, column: int, code: int | None) -> str:
    """Tree whose nodes that divide tasks are replaced by the child to which the task goes."""
    tree = read_tree(text)
    if column not in tree.split_feature:
        return text
    listed = _listed_categories(tree)

    def follow(child: int) -> int:
        """The child itself, or where the task goes below it."""
        while child >= 0 and tree.split_feature[child] == column:
            children = tree.left_child if code in listed[child] else tree.right_child
            child = int(children[child])
        return child

    root = follow(0)
    if root < 0:
        leaf = -1 - root
        constant = constant_tree(float(tree.leaf_value[leaf]), int(tree.leaf_count[leaf]))
        return tree_text(constant)
    inner, pending = [], [root]
    children: dict[int, tuple[int, int]] = {}
    while pending:
        node = pending.pop()
        inner.append(node)
        children[node] = follow(int(tree.left_child[node])), follow(int(tree.right_child[node]))
        pending += [child for child in children[node] if child >= 0]
    return tree_text(_renumbered(tree, sorted(inner), children, listed))


def _renumbered(
    tree: Tree,
    inner: list[int],
    children: dict[int, tuple[int, int]],
    listed: dict[int, Array],
) -> Tree:
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
    of_leaves = {"leaf_weight": tree.leaf_weight, "leaf_count": tree.leaf_count}
    own = {name: values[-1 - leaves] for name, values in of_leaves.items()}
    categories = [listed[node] for node in inner if node in listed]
    resolved = {
        name: getattr(tree, name)[inner]
        for name in (
            "split_feature",
            "threshold",
            "is_categorical",
            "default_left",
            "missing_type",
            "split_gain",
            "internal_value",
        )
    }
    return Tree(
        **resolved,
        left_child=left_child,
        right_child=right_child,
        internal_weight=_added_up(own["leaf_weight"], left_child, right_child),
        internal_count=_added_up(own["leaf_count"], left_child, right_child),
        leaf_value=tree.leaf_value[-1 - leaves],
        **own,
        category_starts=np.cumsum([0, *map(len, categories)]),
        categories=np.concatenate([np.empty(0, np.int64), *categories]),
        shrinkage=tree.shrinkage,
    )


def _added_up(of_leaves: Array, left_child: Array, right_child: Array) -> Array:
    """What the leaves below each node have, added up."""
    sums = np.zeros(len(left_child), of_leaves.dtype)
    for node in range(len(sums) - 1, -1, -1):  # children come after their parents
        for child in (left_child[node], right_child[node]):
            sums[node] += sums[child] if child >= 0 else of_leaves[-1 - child]
    return sums


def _listed_categories(tree: Tree) -> dict[int, Array]:
    """Categories that go left, by node."""
    sets = np.split(tree.categories, tree.category_starts[1:-1])
    return dict(zip(np.flatnonzero(tree.is_categorical).tolist(), sets, strict=False))
