# SPDX-License-Identifier: Apache-2.0
"""A booster with task splits, as the booster of one task.

Nodes that split tasks send all rows of a task the same way. For one task each of them is replaced
by the child it leads to, and the last columns, which hold the code of the task or its descriptors,
are dropped: what is left gives the task's rows the same leaves in the same order, and so the same
bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mtboost.errors import ModelFormatError
from mtboost.xgboost.assemble import Document, outputs_of, trees_of, with_gains, with_trees
from mtboost.xgboost.prune import listed_categories, spliced, with_features

Nodes = npt.NDArray[np.int64]


def resolve_task(document: Document, code: int | None) -> Document:
    """Document of one task, without the last column, which is a category.

    Margins of the task's rows keep their bits. Gains and hessians are those of the leaves that are
    left. The code None goes where missing values go.
    """
    learner = document["learner"]
    if not learner["feature_types"] or learner["feature_types"][-1] != "c":
        raise ModelFormatError("The last column of the booster is not a category: it has no tasks.")

    def goes_left(tree: Document, nodes: Nodes) -> npt.NDArray[np.bool_]:
        if code is None:
            return np.asarray(tree["default_left"][nodes] == 1)
        listed = listed_categories(tree)
        return np.array([code not in listed[node] for node in nodes.tolist()], bool)

    return _resolve(document, 1, goes_left)


def resolve_descriptors(document: Document, values: npt.NDArray[np.float32]) -> Document:
    """Document of the task that has these values in the last columns, without them."""

    def goes_left(tree: Document, nodes: Nodes) -> npt.NDArray[np.bool_]:
        first = int(tree["tree_param"]["num_feature"]) - len(values)
        own = values[tree["split_indices"][nodes] - first]
        return np.asarray(own < tree["split_conditions"][nodes])

    return _resolve(document, len(values), goes_left)


def _resolve(
    document: Document,
    n_columns: int,
    goes_left: Callable[[Document, Nodes], npt.NDArray[np.bool_]],
) -> Document:
    """Without the last columns: nodes that test them are replaced by the child the task goes to."""
    kept = int(document["learner"]["learner_model_param"]["num_feature"]) - n_columns

    def resolved(tree: Document) -> Document:
        left, right = tree["left_children"], tree["right_children"]
        nodes = np.flatnonzero((left >= 0) & (tree["split_indices"] >= kept))
        goes_to = np.full(len(left), -1)
        goes_to[nodes] = np.where(goes_left(tree, nodes), left[nodes], right[nodes])
        short = spliced(tree, goes_to)
        return {**short, "tree_param": {**short["tree_param"], "num_feature": str(kept)}}

    before = trees_of(document)
    trees = with_gains([resolved(tree) for tree in before], before)
    frame = with_features(document, np.arange(kept))
    return with_trees(frame, trees, n_outputs=outputs_of(document))
