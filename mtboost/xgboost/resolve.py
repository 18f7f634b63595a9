"""A booster with task splits, as the booster of one task.

Nodes that divide tasks send all rows of a task the same way. For one task each of them is replaced
by the child it leads to, and the column of task codes, which is the last one, is dropped: what is
left gives the task's rows the same leaves in the same order, and so the same bits.
"""

from __future__ import annotations

import numpy as np

from mtboost.errors import ModelFormatError
from mtboost.xgboost.assemble import Document, outputs_of, trees_of, with_trees
from mtboost.xgboost.prune import listed_categories, spliced, with_features


def resolve_task(document: Document, code: int | None) -> Document:
    """Document of one task, without the last column.

    Parameters
    ----------
    document : dict
        As :func:`~mtboost.xgboost.assemble.read_document` gives it. The last column is a category.
    code : int or None
        The task's category; None is a task that is not known, which goes where missing values go.

    Returns
    -------
    dict
        Margins of the task's rows keep their bits. Gains stay those of training; the hessian of a
        node above a replaced one is that of the leaves that are left below it.

    Raises
    ------
    ModelFormatError
        The last column is no category.
    """
    learner = document["learner"]
    if not learner["feature_types"] or learner["feature_types"][-1] != "c":
        raise ModelFormatError("The last column of the booster is no category: it has no tasks.")
    column = int(learner["learner_model_param"]["num_feature"]) - 1
    trees = [_resolve(tree, column, code) for tree in trees_of(document)]
    return with_trees(
        with_features(document, np.arange(column)), trees, n_outputs=outputs_of(document)
    )


def _resolve(tree: Document, column: int, code: int | None) -> Document:
    """Tree whose nodes that divide tasks are replaced by the child to which the task goes."""
    left, right = tree["left_children"], tree["right_children"]
    listed = listed_categories(tree)
    goes_to = np.full(len(left), -1)
    for node in np.flatnonzero((left >= 0) & (tree["split_indices"] == column)).tolist():
        goes_left = tree["default_left"][node] if code is None else code not in listed[node]
        goes_to[node] = left[node] if goes_left else right[node]
    short = spliced(tree, goes_to)
    return {**short, "tree_param": {**short["tree_param"], "num_feature": str(column)}}
