"""A booster with task splits, as the booster of one task.

Nodes that divide tasks send all rows of a task the same way. For one task each of them is replaced
by the child it leads to, and the column of task codes, which is the last one, is dropped: what is
left gives the task's rows the same leaves in the same order, and so the same bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mtboost.errors import ModelFormatError
from mtboost.xgboost.assemble import Document, outputs_of, trees_of, with_trees

Ints = npt.NDArray[np.int64]

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
    return with_trees(_without_last_column(document), trees, n_outputs=outputs_of(document))


def _resolve(tree: Document, column: int, code: int | None) -> Document:
    """Tree whose nodes that divide tasks are replaced by the child to which the task goes."""
    parameters = {**tree["tree_param"], "num_feature": str(column)}
    left, right = tree["left_children"], tree["right_children"]
    divides_tasks = (left >= 0) & (tree["split_indices"] == column)
    if not divides_tasks.any():
        return {**tree, "tree_param": parameters}
    listed = _listed_categories(tree)
    stands_for = np.arange(len(left))
    for node in np.flatnonzero(divides_tasks)[::-1]:  # children come after their parents
        goes_left = tree["default_left"][node] if code is None else code not in listed[node]
        stands_for[node] = stands_for[left[node] if goes_left else right[node]]

    inner, kept = _numbered(left, right, stands_for)
    n_nodes = len(kept)
    place = np.zeros(len(left), np.int64)
    place[kept] = np.arange(n_nodes)
    first_child = np.arange(1, n_nodes, 2)
    resolved = {**tree, **{name: tree[name][kept] for name in _OF_NODES}}
    for name, children in (("left_children", first_child), ("right_children", first_child + 1)):
        resolved[name] = np.full(n_nodes, -1, np.int32)
        resolved[name][place[inner]] = children
    resolved["parents"] = np.full(n_nodes, tree["parents"][0])
    resolved["parents"][1:] = np.repeat(place[inner], 2)
    hessian = resolved["sum_hessian"]
    for node, child in zip(place[inner][::-1], first_child[::-1], strict=True):
        hessian[node] = hessian[child] + hessian[child + 1]

    resolved |= _category_arrays(
        {new: listed[old] for new, old in enumerate(kept) if old in listed}
    )
    resolved["tree_param"] = {**parameters, "num_nodes": str(n_nodes)}
    return resolved


def _numbered(left: Ints, right: Ints, stands_for: Ints) -> tuple[Ints, Ints]:
    """Nodes that are cut, in the order in which they were, and all nodes in their new order.

    Siblings stay neighbours: the root, then the two children of each node that is cut.
    """
    inner, pending = [], [stands_for[0]]
    while pending:
        node = pending.pop()
        if left[node] >= 0:
            inner.append(node)
            pending += [stands_for[left[node]], stands_for[right[node]]]
    cut = np.array(sorted(inner, key=left.__getitem__), np.int64)
    children = np.column_stack([stands_for[left[cut]], stands_for[right[cut]]]).ravel()
    return cut, np.concatenate([stands_for[:1], children])


def _listed_categories(tree: Document) -> dict[int, npt.NDArray[np.int32]]:
    """Categories that go right, by node."""
    starts = tree["categories_segments"]
    ends = starts + tree["categories_sizes"]
    return {
        int(node): tree["categories"][start:end]
        for node, start, end in zip(tree["categories_nodes"], starts, ends, strict=True)
    }


def _category_arrays(listed: dict[int, npt.NDArray[np.int32]]) -> Document:
    """Inverse of :func:`_listed_categories`, for ascending nodes."""
    sizes = np.array([len(categories) for categories in listed.values()], np.int64)
    return {
        "categories": np.concatenate([np.empty(0, np.int32), *listed.values()]),
        "categories_nodes": np.array(list(listed), np.int32),
        "categories_segments": np.cumsum(sizes) - sizes,
        "categories_sizes": sizes,
    }


def _without_last_column(document: Document) -> Document:
    learner = {**document["learner"]}
    parameters = learner["learner_model_param"]
    n_features = int(parameters["num_feature"]) - 1
    learner["learner_model_param"] = {**parameters, "num_feature": str(n_features)}
    for name in ("feature_names", "feature_types"):
        learner[name] = learner[name][:n_features]
    booster = learner["gradient_booster"]
    model = {**booster["model"]}
    if model.get("cats", {}).get("enc"):  # XGBoost 3.1+, if the table had names of categories
        starts = model["cats"]["feature_segments"][:-1]
        model["cats"] = {
            "enc": model["cats"]["enc"][:n_features],
            "feature_segments": starts,
            "sorted_idx": model["cats"]["sorted_idx"][: starts[-1]],
        }
    learner["gradient_booster"] = {**booster, "model": model}
    return {**document, "learner": learner}
