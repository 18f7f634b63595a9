# SPDX-License-Identifier: Apache-2.0
"""Our trees as a genuine ``lightgbm.Booster``.

LightGBM's model file is text, and a model is assembled around a *frame*: the document of a booster
that LightGBM itself made (objective, names, ranges, parameters of that very version), whose trees
are replaced. A model has no separate start score; LightGBM adds it to the leaves of the first
tree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightgbm
import numpy as np

from mtboost.base.checks import check_count, check_type
from mtboost.errors import DataError, ModelFormatError, UnsupportedError
from mtboost.lightgbm.tree import (
    Array,
    Tree,
    constant_tree,
    move_features,
    read_tree,
    step_tree,
    tree_text,
    with_gains,
    with_values,
)
from mtboost.trees.losses import TaskLoss, check_same_link
from mtboost.trees.steps import StepTree


@dataclass(frozen=True, slots=True)
class Document:
    """A model as LightGBM writes it, but for the importances, which it computes anew.

    Attributes
    ----------
    header : mapping of str to str or None
        Lines before the trees, in their order; None is a line without "=".
    trees : sequence of str
        Text of each tree (:func:`tree_text`), tree i of a round belongs to output i.
    tail : str
        Parameters of the training.
    pandas_categorical : list of lists, or None
        Category labels of each category column of the training frame; None if it was none.
    """

    header: Mapping[str, str | None]
    trees: Sequence[str]
    tail: str
    pandas_categorical: list[list[Any]] | None


# ---- documents -------------------------------------------------------------------------------


def read_document(booster: lightgbm.Booster) -> Document:
    """Model document of a booster, with all its rounds; linear trees and forests raise."""
    text = booster.model_to_string(num_iteration=-1)
    head, _, rest = text.partition("\n\n")
    header: dict[str, str | None] = {}
    for line in head.split("\n"):
        name, mark, value = line.partition("=")
        header[name] = value if mark else None
    if "average_output" in header:
        raise UnsupportedError(
            "A booster of boosting='rf' is the mean of its trees, and mtboost adds trees up: use "
            "boosting='gbdt'."
        )
    trees, place = [], 0
    for size in map(int, (header["tree_sizes"] or "").split()):
        trees.append(rest[rest.index("\n", place) + 1 : place + size])
        place += size
    if any("\nis_linear=1\n" in tree for tree in trees):
        raise UnsupportedError(
            "linear_tree=True puts linear models in the leaves, which mtboost cannot read: train "
            "without it."
        )
    labels = rest.rindex("\npandas_categorical:")
    parameters = rest.find("\nparameters:\n", place, labels)
    return Document(
        header,
        trees,
        rest[parameters:labels] if parameters >= 0 else "",
        json.loads(rest[labels:].partition(":")[2]),
    )


def load_document(document: Document) -> lightgbm.Booster:
    """Let LightGBM load an assembled document."""
    return lightgbm.Booster(model_str=encode(document))


def encode(document: Document) -> str:
    """The text of a model file."""
    trees = [f"Tree={number}\n{tree}" for number, tree in enumerate(document.trees)]
    header = {**document.header, "tree_sizes": " ".join(str(len(tree)) for tree in trees)}
    lines = [name if value is None else f"{name}={value}" for name, value in header.items()]
    return (
        "\n".join(lines)
        + "\n\n"
        + "".join(trees)
        + "end of trees\n"
        + document.tail
        + f"\npandas_categorical:{json.dumps(document.pandas_categorical)}\n"
    )


def outputs_of(document: Document) -> int:
    """Trees of one boosting round: one per output."""
    return int(document.header["num_tree_per_iteration"] or 1)


def with_trees(frame: Document, trees: Sequence[str]) -> Document:
    """Document like `frame` with these trees; tree i of a round belongs to output i."""
    n_outputs = outputs_of(frame)
    if len(trees) % n_outputs:
        raise ModelFormatError(f"{len(trees)} trees do not make whole rounds of {n_outputs} trees.")
    return replace(frame, trees=trees)


def first_rounds(document: Document, n_rounds: int) -> lightgbm.Booster:
    """Booster of the first rounds; see :func:`rounds`."""
    return load_document(rounds(document, 0, n_rounds))


def rounds(document: Document, begin: int, end: int) -> Document:
    """Document of the rounds `begin` to `end` - 1.

    None at all is allowed: it then has one round of trees that are 0. Without a tree LightGBM
    reads parameters and category labels as if they were the header.
    """
    n_outputs = outputs_of(document)
    trees = document.trees[begin * n_outputs : end * n_outputs]
    if not trees:
        trees = [tree_text(constant_tree(0.0))] * n_outputs
    return with_trees(document, trees)


def with_first_trees(document: Document, steps: Sequence[StepTree]) -> Document:
    """The trees of a document of one output after others of one column each."""
    first = [tree_text(step_tree(own)) for own in steps]
    return with_trees(document, [*first, *document.trees])


# ---- a booster in another unit ---------------------------------------------------------------


def as_own(
    document: Document, n_rounds: int, objective: str, parameters: Mapping[str, str], loss: TaskLoss
) -> Document:
    """The first rounds of a document with a task's own objective, and its margins in that unit.

    `objective` is what the header says of it, `parameters` those that differ. The start, a margin,
    is in the leaves of the first tree; no rounds at all are a tree of one leaf.
    """
    before = map(read_tree, document.trees[:n_rounds])
    trees = [_in_unit(tree, loss.unit, loss.dispersion) for tree in before]
    trees = trees or [constant_tree(0.0)]
    trees[0] = replace(trees[0], leaf_value=trees[0].leaf_value + loss.start_margin)
    tail = document.tail
    for name, value in parameters.items():
        tail = re.sub(rf"(?m)^\[{name}: .*\]$", f"[{name}: {value}]", tail)
    header = {**document.header, "objective": objective}
    return replace(document, header=header, trees=[*map(tree_text, trees)], tail=tail)


def _in_unit(tree: Tree, unit: float, dispersion: float) -> Tree:
    hessian = dispersion / unit**2
    return replace(
        tree,
        leaf_value=tree.leaf_value * unit,
        leaf_weight=tree.leaf_weight * hessian,
        split_gain=tree.split_gain * dispersion,
        internal_value=tree.internal_value * unit,
        internal_weight=tree.internal_weight * hessian,
    )


# ---- two boosters as one ---------------------------------------------------------------------


def combine(
    common: lightgbm.Booster,
    specific: lightgbm.Booster | None,
    n_common_rounds: int,
    *,
    categories: Mapping[str, list[Any]] | None = None,
) -> lightgbm.Booster:
    """Combine the first rounds of a common model and a model continued from them in one booster.

    `specific` must have been trained with the margins of those rounds as ``init_score``
    (:func:`residual_margin`); the sum (zhang2019, eq. 7) then is bitwise identical to the margins
    of that training, because trees are added in the same order in double precision.

    Parameters
    ----------
    common : lightgbm.Booster
        The common model. Its objective sets the link function of the predictions or, if it was a
        function, that of `specific`.
    specific : lightgbm.Booster or None
        The model that continues it for a task, up to its ``best_iteration``, as in its own
        ``predict``; None for none. Features are matched by name: those of `specific` come first, in
        its order, then common features that it lacks.
    n_common_rounds : int
        Number of rounds of `common` that the task uses.
    categories : mapping of column name to list, optional
        Labels of each category column. Without it they are read from the boosters, which store them
        in the order of the columns only and do not distinguish a constant category from a constant
        number.

    Returns
    -------
    lightgbm.Booster
        An ordinary booster, whose predictions need neither of the two.

    Raises
    ------
    ParameterError
        The common model has fewer rounds.
    DataError
        The two boosters have objectives with different links, or different numbers of outputs; only
        one of them has names; or the categories of a feature differ.
    UnsupportedError
        A booster has linear trees or is a random forest.

    Examples
    --------
    >>> import numpy as np
    >>> import lightgbm
    >>> from mtboost.lightgbm import combine, residual_margin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> params = {"num_leaves": 7, "verbosity": -1}
    >>> common = lightgbm.train(params, lightgbm.Dataset(X, y), 10)
    >>> start = residual_margin(common, X[:100], 5)  # rows of task a
    >>> rows = lightgbm.Dataset(X[:100], y[:100], init_score=start)
    >>> specific = lightgbm.train(params, rows, 20)
    >>> booster = combine(common, specific, 5)
    >>> booster.num_trees()
    25

    References
    ----------
    zhang2019, section 3.4, eq. 7 (key in docs/papers.md).
    """
    check_type("common", common, lightgbm.Booster, "a lightgbm.Booster")
    if specific is not None:
        check_type("specific", specific, lightgbm.Booster, "None or a lightgbm.Booster")
    n_rounds = check_count("n_common_rounds", n_common_rounds, high=common.current_iteration())
    first = read_document(common)
    both = combined(first, specific, n_rounds, categories=categories)
    if specific is not None:
        boosters = (first, read_document(specific))
        names = [(own.header.get("objective") or "").split()[:1] for own in boosters]
        if all(names):  # that of a function is not written
            check_same_link(*(name for (name,) in names))
    return load_document(both)


def combined(
    first: Document,
    specific: lightgbm.Booster | None,
    n_common_rounds: int,
    *,
    categories: Mapping[str, list[Any]] | None = None,
) -> Document:
    """Document of :func:`combine`, from that of the common model."""
    if specific is None:
        return rounds(first, 0, n_common_rounds)
    second = read_document(specific)
    if specific.best_iteration > 0:
        n_trees = specific.best_iteration * outputs_of(second)
        second = with_trees(second, second.trees[:n_trees])
    return joined(first, second, n_common_rounds, categories)


def joined(
    first: Document,
    second: Document,
    n_common_rounds: int,
    categories: Mapping[str, list[Any]] | None,
) -> Document:
    """Return the first rounds of one and all of the other."""
    per_round = outputs_of(first)
    if outputs_of(second) != per_round:
        raise DataError(
            f"The common model has {per_round} trees a round, the specific one "
            f"{outputs_of(second)}: they must have the same outputs."
        )
    frame, places = _union_of_features(first, second, categories)
    moved = [move_features(tree, places) for tree in first.trees[: n_common_rounds * per_round]]
    return with_trees(frame, [*moved, *second.trees])


def followed_by_rounds(document: Document, n_rounds: int, other: Document) -> Document:
    """The first rounds, then all of a document whose features are the first of this one."""
    first = document.trees[: n_rounds * outputs_of(document)]
    return with_trees(document, [*first, *other.trees])


def in_order(
    document: Document, names: Sequence[str], categories: Mapping[str, list[Any]] | None
) -> Document:
    """Document with its features in the order of `names`, which may be more."""
    own = feature_names(document)
    known = set(own)
    order = [name for name in names if name in known]
    if not _are_given(own) or order == own:
        return document
    frame, places = _union_of_features(document, document, categories, order)
    return with_trees(frame, [move_features(tree, places) for tree in document.trees])


def _union_of_features(
    first: Document,
    second: Document,
    categories: Mapping[str, list[Any]] | None,
    order: Sequence[str] = (),
) -> tuple[Document, Array]:
    """Frame over both feature sets, those of `order` first, and the place of each of `first`."""
    names, own_names = feature_names(first), feature_names(second)
    if _are_given(names) != _are_given(own_names):
        raise DataError(
            "One booster has feature names and the other has none: name both or neither."
        )
    if not _are_given(names) and len(names) != len(own_names):
        raise DataError(
            f"The boosters have {len(names)} and {len(own_names)} features and no names to match "
            "them by: train with feature names."
        )
    union = list(dict.fromkeys([*order, *own_names, *names]))
    # The common model has seen the rows of all tasks; "none" is a feature that was constant.
    infos = _by_feature(second, "feature_infos")
    infos |= {n: i for n, i in _by_feature(first, "feature_infos").items() if i != "none"}
    header = {
        **first.header,
        "max_feature_idx": str(len(union) - 1),
        "feature_names": " ".join(union),
        "feature_infos": " ".join(infos.get(name, "none") for name in union),
    }
    signs = _by_feature(first, "monotone_constraints") | _by_feature(second, "monotone_constraints")
    if "objective" in second.header:  # that of a function is not written
        header.setdefault("objective", second.header["objective"])
    if signs:
        header["monotone_constraints"] = " ".join(signs.get(name, "0") for name in union)
    if categories:
        labels: list[list[Any]] | None = [categories[n] for n in union if n in categories]
    else:
        labels = _union_of_categories(first, second, union)
    frame = replace(first, header=header, pandas_categorical=labels)
    position = {name: place for place, name in enumerate(union)}
    return frame, np.array([position[name] for name in names])


def _union_of_categories(
    first: Document, second: Document, union: list[str]
) -> list[list[Any]] | None:
    """Category labels of the union's columns.

    A frame's category columns are known to LightGBM by their order alone.
    """
    if not first.pandas_categorical:
        return second.pandas_categorical or first.pandas_categorical
    labels, own_labels = first.pandas_categorical, second.pandas_categorical
    if labels == own_labels and feature_names(first) == feature_names(second):
        return labels
    by_name: dict[str, list[Any]] = {}
    for document in (first, second):
        for name, categories in _category_labels(document).items():
            if by_name.setdefault(name, categories) != categories:
                raise DataError(
                    f"Feature {name!r} has other categories in the common model than in the "
                    "specific one: give both the same category dtype."
                )
    return [by_name[name] for name in union if name in by_name]


def _category_labels(document: Document) -> dict[str, list[Any]]:
    """Category labels by feature name."""
    labels = document.pandas_categorical or []
    # Of a number the range is known, "[0:1]", of a category the codes, "2:0:1".
    codes = {
        name: info
        for name, info in _by_feature(document, "feature_infos").items()
        if info[0] not in "[n"
    }
    pairs = list(zip(codes, labels, strict=False))
    if len(codes) != len(labels) or any(
        max(map(int, codes[name].split(":"))) >= len(categories) for name, categories in pairs
    ):
        raise DataError(
            f"The {len(labels)} category columns of a training frame cannot be distinguished from "
            f"its other columns (categorical in the model: {', '.join(codes) or 'none'}): train "
            "both boosters on the same columns in the same order, or with categories that are "
            "neither ordered nor constant."
        )
    return dict(pairs)


def with_leaf_values(document: Document, values: Sequence[Array]) -> Document:
    """Document with other leaf values, and with the gains of its splits by these.

    `values` has an array of shape (n_leaves,) for each tree.
    """
    trees = [with_values(tree, own) for tree, own in zip(document.trees, values, strict=True)]
    return with_trees(document, with_gains(trees, document.trees))


def feature_names(document: Document) -> list[str]:
    return (document.header["feature_names"] or "").split(" ")


def _are_given(names: list[str]) -> bool:
    """Whether features have names of the user's."""
    return names != [f"Column_{number}" for number in range(len(names))]


def _by_feature(document: Document, entry: str) -> dict[str, str]:
    """An entry of the header that has one word per feature; empty if there is none."""
    words = (document.header.get(entry) or "").split(" ")
    return dict(zip(feature_names(document), words, strict=True)) if words != [""] else {}
