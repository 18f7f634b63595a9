"""A booster with task splits, as the booster of one task; see mtboost/xgboost/resolve.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mtboost.errors import ModelFormatError
from mtboost.lightgbm.assemble import Document, read_tree, tree_text
from mtboost.lightgbm.prune import OF_FEATURES, spliced


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
    for name in OF_FEATURES:
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
    divides_tasks = tree.split_feature == column
    if not divides_tasks.any():
        return text
    sets = np.split(tree.categories, tree.category_starts[1:-1])
    goes_left = np.zeros(len(divides_tasks), bool)
    goes_left[tree.is_categorical] = [code in categories for categories in sets]
    goes_to = np.where(goes_left, tree.left_child, tree.right_child)
    return tree_text(spliced(tree, divides_tasks, goes_to))
