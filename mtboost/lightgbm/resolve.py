# SPDX-License-Identifier: Apache-2.0
"""A booster with task splits, as the booster of one task; see mtboost/xgboost/resolve.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mtboost.errors import ModelFormatError
from mtboost.lightgbm.assemble import Document
from mtboost.lightgbm.prune import OF_FEATURES, spliced
from mtboost.lightgbm.tree import Tree, read_tree, tree_text, with_gains


def resolve_task(document: Document, code: int | None) -> Document:
    """Document of one task, without the last column: a category, of a data frame by its dtype.

    Margins of the task's rows keep their bits. Values of nodes stay those of training; gains,
    weights and counts are those of the leaves that are left. The code None goes where missing
    values go: right, as LightGBM sends tasks too rare for a separate bin.
    """
    infos = (document.header["feature_infos"] or "").split(" ")
    if infos[-1].startswith("["):  # a constant column is "none", whatever it holds
        raise ModelFormatError("The last column of the booster is not a category: it has no tasks.")

    def goes_left(tree: Tree) -> npt.NDArray[np.bool_]:
        sets = np.split(tree.categories, tree.category_starts[1:-1])
        left = np.zeros(len(tree.split_feature), bool)
        left[tree.is_categorical] = [code in categories for categories in sets]
        return left

    of_pandas = document.pandas_categorical and document.pandas_categorical[:-1]
    return replace(_resolve(document, 1, goes_left), pandas_categorical=of_pandas)


def resolve_descriptors(document: Document, values: npt.NDArray[np.float32]) -> Document:
    """Document of the task that has these values in the last columns, without them.

    None is 0 or NaN, which may be missing values for LightGBM.
    """
    first = len((document.header["feature_infos"] or "").split(" ")) - len(values)
    of_columns = np.concatenate([np.zeros(first, np.float32), values])

    def goes_left(tree: Tree) -> npt.NDArray[np.bool_]:
        return np.asarray(of_columns[tree.split_feature] <= tree.threshold)

    return _resolve(document, len(values), goes_left)


def _resolve(
    document: Document, n_columns: int, goes_left: Callable[[Tree], npt.NDArray[np.bool_]]
) -> Document:
    """Without the last columns: nodes that test them are replaced by the child the task goes to."""
    kept = len((document.header["feature_infos"] or "").split(" ")) - n_columns
    header = {**document.header, "max_feature_idx": str(kept - 1)}
    for name in OF_FEATURES:
        words = header.get(name)
        if words:
            header[name] = " ".join(words.split(" ")[:kept])

    def resolved(text: str) -> str:
        tree = read_tree(text)
        divides_tasks = tree.split_feature >= kept
        if not divides_tasks.any():
            return text
        goes_to = np.where(goes_left(tree), tree.left_child, tree.right_child)
        return tree_text(spliced(tree, divides_tasks, goes_to))

    trees = with_gains(list(map(resolved, document.trees)), document.trees)
    return replace(document, header=header, trees=trees)
