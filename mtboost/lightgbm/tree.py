# SPDX-License-Identifier: Apache-2.0
"""One tree of LightGBM's model file: its arrays, and its text.

Rules that LightGBM does not check but relies on: node i is the i-th split, its left child keeps the
leaf's number, its right child gets the next one, and child -1 - i is leaf i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Int32Array
from mtboost.errors import ModelFormatError
from mtboost.trees.leaf_gains import Splits, gains_of_values
from mtboost.trees.steps import StepNodes, StepTree

Array = npt.NDArray[Any]
_NAN_IS_MISSING = 2  # value of Tree.missing_type
# Arrays of a tree's text in their order, and how their numbers are written.
_FORMATS = {
    "split_feature": "%d",
    "split_gain": "%g",
    "threshold": "%.17g",
    "decision_type": "%d",
    "left_child": "%d",
    "right_child": "%d",
    "leaf_value": "%.17g",
    "leaf_weight": "%.17g",
    "leaf_count": "%d",
    "internal_value": "%g",
    "internal_weight": "%g",
    "internal_count": "%d",
}


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree as arrays, in LightGBM's numbering: n_leaves - 1 nodes, root first, and the leaves.

    A tree of one leaf has no nodes, and may have no `leaf_weight` and `leaf_count`.

    Attributes
    ----------
    split_feature, left_child, right_child, internal_count : ndarray of int, shape (n_nodes,)
        A child below 0 is leaf -1 - child.
    threshold : ndarray of float64, shape (n_nodes,)
        Values up to it go left. Of a categorical node it means nothing.
    is_categorical, default_left : ndarray of bool, shape (n_nodes,)
        Missing values of a categorical node go right whatever `default_left` says.
    missing_type : ndarray of int, shape (n_nodes,)
        What is missing: 0 nothing (NaN counts as 0), 1 NaN and zero, 2 NaN.
    split_gain, internal_value, internal_weight : ndarray of float, shape (n_nodes,)
        Written with six digits, as LightGBM does.
    leaf_value, leaf_weight : ndarray of float64, shape (n_leaves,)
    leaf_count : ndarray of int, shape (n_leaves,)
    category_starts : ndarray of int, shape (n_categorical_nodes + 1,)
        Where the categories of each categorical node begin in `categories`.
    categories : ndarray of int
        Codes that go left, all others go right.
    shrinkage : float
        Learning rate, for the record: values have been multiplied by it.
    """

    split_feature: Array
    threshold: Array
    is_categorical: Array
    default_left: Array
    missing_type: Array
    left_child: Array
    right_child: Array
    split_gain: Array
    internal_value: Array
    internal_weight: Array
    internal_count: Array
    leaf_value: Array
    leaf_weight: Array
    leaf_count: Array
    category_starts: Array
    categories: Array
    shrinkage: float = 1.0


def tree_text(tree: Tree) -> str:
    """One tree as LightGBM writes it, without its number."""
    _check_lengths(tree)
    threshold = np.array(tree.threshold, np.float64)
    nodes = np.flatnonzero(tree.is_categorical)
    threshold[nodes] = np.arange(len(nodes))
    decision_type = (
        tree.is_categorical.astype(np.int8)
        + 2 * tree.default_left.astype(np.int8)
        + 4 * tree.missing_type.astype(np.int8)
    )
    written = {"threshold": threshold, "decision_type": decision_type}
    entries = {"num_leaves": str(len(tree.leaf_value)), "num_cat": str(len(nodes))}
    for name, digits in _FORMATS.items():
        array = written[name] if name in written else getattr(tree, name)
        entries[name] = _numbers(array, digits)
    if len(nodes):
        starts, words = _bitsets(tree.category_starts, tree.categories)
        entries["cat_boundaries"] = _numbers(starts, "%d")
        entries["cat_threshold"] = _numbers(words, "%d")
    entries["is_linear"] = "0"
    entries["shrinkage"] = f"{tree.shrinkage:g}"
    return "".join(f"{name}={value}\n" for name, value in entries.items()) + "\n\n"


def read_tree(text: str) -> Tree:
    """The arrays of a tree that :func:`tree_text` or LightGBM wrote; those it lacks are empty."""
    entries = dict(line.split("=") for line in text.split("\n") if line)

    def numbers(name: str, digits: str = "%d") -> Array:
        return np.array(entries.get(name, "").split(), np.int64 if digits == "%d" else np.float64)

    arrays = {name: numbers(name, digits) for name, digits in _FORMATS.items()}
    decision_type = arrays.pop("decision_type")
    category_starts, categories = read_categories(entries)
    return Tree(
        **arrays,
        is_categorical=decision_type & 1 != 0,
        default_left=decision_type & 2 != 0,
        missing_type=decision_type >> 2 & 3,
        category_starts=category_starts,
        categories=categories,
        shrinkage=float(entries["shrinkage"]),
    )


def read_categories(entries: Mapping[str, str]) -> tuple[Array, Array]:
    """Return `category_starts` and `categories` of a tree from its lines by name."""
    words = _read_integers(entries, "cat_threshold")
    return _categories(_read_integers(entries, "cat_boundaries"), words)


def _read_integers(entries: Mapping[str, str], name: str) -> Array:
    return np.array(entries.get(name, "").split(), np.int64)


def constant_tree(value: float, n_rows: int | None = None) -> Tree:
    """A tree of one leaf, with the number of its rows or without."""
    count = np.array([] if n_rows is None else [n_rows], np.int64)
    return replace(read_tree("shrinkage=1"), leaf_value=np.array([value]), leaf_count=count)


def numbers_of_nodes(nodes: StepNodes) -> Int32Array:
    """Number of each node among those that are split, or among the leaves."""
    is_split = nodes.left >= 0
    numbers = np.zeros(len(is_split), np.int32)
    for number, node in enumerate(np.flatnonzero(is_split).tolist()):
        numbers[nodes.left[node]] = numbers[node]  # a leaf's number, which its left child keeps
        numbers[nodes.right[node]] = number + 1
        numbers[node] = number
    return numbers


def step_tree(steps: StepTree) -> Tree:
    nodes = steps.nodes
    if steps.n_leaves == 1:
        return constant_tree(float(steps.values[0]), int(steps.counts[0]))
    numbers, is_split = numbers_of_nodes(nodes), nodes.left >= 0
    leaves = nodes.leaf_nodes()[np.argsort(numbers[nodes.leaf_nodes()])]
    children = np.where(is_split, numbers, -1 - numbers)
    n_nodes = np.count_nonzero(is_split)
    return Tree(
        split_feature=np.full(n_nodes, steps.feature),
        threshold=nodes.threshold[is_split],
        is_categorical=np.zeros(n_nodes, bool),
        default_left=nodes.default_left[is_split],
        missing_type=np.full(n_nodes, _NAN_IS_MISSING),
        left_child=children[nodes.left[is_split]],
        right_child=children[nodes.right[is_split]],
        split_gain=nodes.gain[is_split],
        internal_value=np.zeros(n_nodes),
        internal_weight=nodes.hessian[is_split],
        internal_count=nodes.count[is_split],
        leaf_value=nodes.value[leaves],
        leaf_weight=nodes.hessian[leaves],
        leaf_count=nodes.count[leaves],
        category_starts=np.zeros(1, np.int64),
        categories=np.empty(0, np.int64),
    )


def _check_lengths(tree: Tree) -> None:
    """LightGBM reads beyond the end of an array that is too short."""
    n_leaves = len(tree.leaf_value)
    names = [each.name for each in fields(Tree)]
    of_nodes = names[: names.index("leaf_value")]
    lengths = {
        **dict.fromkeys(of_nodes, n_leaves - 1),
        "leaf_weight": n_leaves,
        "leaf_count": n_leaves,
    }
    for name, length in lengths.items():
        n_found = len(getattr(tree, name))
        is_left_out = n_leaves == 1 and n_found == 0  # weight and count of a constant
        if n_found != length and not is_left_out:
            raise ModelFormatError(
                f"A tree of {n_leaves} leaves needs {length} of {name}, found {n_found}."
            )
    if len(tree.category_starts) - 1 != np.count_nonzero(tree.is_categorical):
        raise ModelFormatError(
            f"A tree with {np.count_nonzero(tree.is_categorical)} categorical nodes needs one "
            f"more of category_starts, found {len(tree.category_starts)}."
        )


def _numbers(values: Array, digits: str) -> str:
    # One format for all numbers is twice as fast as one a number.
    return " ".join([digits] * len(values)) % tuple(values.tolist())


def _bitsets(starts: Array, categories: Array) -> tuple[Array, Array]:
    """Return the starts of the nodes' sets, and all: bit c % 32 of word c // 32 is category c."""
    n_words = np.maximum.reduceat(categories, starts[:-1]) // 32 + 1
    first_words = np.concatenate([[0], np.cumsum(n_words)])
    words = np.zeros(first_words[-1], np.uint32)
    places = np.repeat(first_words[:-1], np.diff(starts)) + categories // 32
    np.bitwise_or.at(words, places, np.uint32(1) << (categories % 32).astype(np.uint32))
    return first_words, words


def _categories(first_words: Array, words: Array) -> tuple[Array, Array]:
    """Inverse of :func:`_bitsets`; no sets at all give none."""
    if len(words) == 0:
        return np.zeros(1, np.int64), np.zeros(0, np.int64)
    is_member = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    places = np.flatnonzero(is_member)
    starts = np.searchsorted(places, 32 * first_words)
    return starts, places - np.repeat(32 * first_words[:-1], np.diff(starts))


def leaf_values(tree: str) -> Array:
    """Values of a tree's leaves, shape (n_leaves,)."""
    return read_tree(tree).leaf_value


def leaf_hessians(tree: str) -> Array:
    """Sums of hessians in a tree's leaves, shape (n_leaves,); 0 in a tree without nodes."""
    found = read_tree(tree)
    is_known = len(found.leaf_weight) == len(found.leaf_value)
    return found.leaf_weight if is_known else np.zeros(len(found.leaf_value))


def with_values(tree: str, values: Array) -> str:
    """Tree with other leaf values."""
    return _with_entry(tree, "leaf_value", lambda _: _numbers(values, "%.17g"))


def with_gains(trees: Sequence[str], before: Sequence[str]) -> list[str]:
    """Changed trees with the gains of their splits by the leaf values (leaf_gains.py)."""
    gains = gains_of_values([*map(_splits, before)], [*map(_splits, trees)])

    def with_gain(tree: str, own: Array) -> str:
        of_nodes = own[: len(own) // 2]
        return _with_entry(tree, "split_gain", lambda _: _numbers(of_nodes, "%g"))

    return [with_gain(tree, own) for tree, own in zip(trees, gains, strict=True)]


def _splits(tree: str) -> Splits:
    """Nodes, then leaves; read without the other entries, which takes a third of the time."""

    def numbers(name: str, dtype: type) -> Array:
        begin, end = _place_of(tree, name)
        return np.array(tree[begin:end].split(), dtype)

    gain, value = numbers("split_gain", np.float64), numbers("leaf_value", np.float64)
    n_nodes, n_leaves = len(gain), len(value)
    left, right = (
        np.append(np.where(children >= 0, children, n_nodes - 1 - children), [-1] * n_leaves)
        for children in (numbers(name, np.int64) for name in ("left_child", "right_child"))
    )
    none = np.zeros(n_nodes)
    return Splits(
        left=left,
        right=right,
        cover=np.append(none, numbers("leaf_weight", np.float64) if n_nodes else 0.0),
        value=np.append(none, value),
        gain=np.append(gain, np.zeros(n_leaves)),
    )


def move_features(tree: str, places: Array) -> str:
    """Tree whose features are counted anew."""
    return _with_entry(
        tree,
        "split_feature",
        lambda features: _numbers(places[np.array(features.split(), np.int64)], "%d"),
    )


def _with_entry(tree: str, name: str, change: Callable[[str], str]) -> str:
    """Tree with one entry changed; the numbers of all else stay as they are written."""
    begin, end = _place_of(tree, name)
    return tree[:begin] + change(tree[begin:end]) + tree[end:]


def _place_of(tree: str, name: str) -> tuple[int, int]:
    """Return the start and end of an entry in a tree's text, without its name."""
    begin = tree.index(f"{name}=") + len(f"{name}=")
    return begin, tree.index("\n", begin)
