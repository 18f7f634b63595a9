# SPDX-License-Identifier: Apache-2.0
"""Models of thousands of small tasks as members of a model file: arrays of all their trees.

As documents of boosters they would take ten times the space, and minutes to write and to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.archive import array_to_bytes, read_vector, require
from mtboost.trees.document import Unloaded
from mtboost.xgboost import assemble
from mtboost.xgboost.small_models import ModelTrees, SharedTrees
from mtboost.xgboost.ubjson import decode, encode

_Arrays = dict[str, npt.NDArray[Any]]

_OF_NODES = {
    "left": np.int32,
    "parent": np.int32,
    "feature": np.uint32,
    "condition": np.float32,
    "default_left": np.uint8,
    "gain": np.float32,
    "hessian": np.float32,
    "base_weight": np.float32,
}
_NO_CATEGORIES: _Arrays = {
    "categorical_nodes": np.empty(0, np.int64),
    "category_starts": np.zeros(1, np.int64),
    "categories": np.empty(0, np.int32),
}
_MEMBERS = {
    "tasks": np.int64,
    "first_values": np.float64,
    "first_trees": np.int64,
    "first_nodes": np.int64,
    **_OF_NODES,
}


def pack_models(models: Mapping[int, Unloaded]) -> dict[str, bytes]:
    """Members with models, by the number of the task; equal models give equal members."""
    groups: dict[SharedTrees, dict[int, ModelTrees]] = {}
    for number, own in models.items():
        if not isinstance(own, ModelTrees) or len(own.shared.arrays["categories"]):
            return {}
        groups.setdefault(own.shared, {})[number] = own
    members = {}
    for place, (shared, group) in enumerate(groups.items()):
        frame = assemble.with_trees(shared.frame, [], n_outputs=shared.n_outputs)
        members[f"packed/{place}/frame.ubj"] = bytes(encode(frame))
        arrays = _gathered(shared.arrays, [own.model for own in group.values()])
        none = np.full(shared.n_outputs, np.nan)
        first = [none if own.first is None else own.first for own in group.values()]
        arrays |= {"tasks": np.array([*group]), "first_values": np.concatenate(first)}
        for name, dtype in _MEMBERS.items():
            members[f"packed/{place}/{name}.npy"] = array_to_bytes(arrays[name].astype(dtype))
    return members


def _gathered(arrays: _Arrays, models: list[int]) -> _Arrays:
    """Trees of some models."""
    trees = _ranges(arrays["first_trees"], np.array(models, np.int64))
    nodes = _ranges(arrays["first_nodes"], trees)
    n_trees = np.diff(arrays["first_trees"])[models]
    n_nodes = np.diff(arrays["first_nodes"])[trees]
    return {
        "first_trees": np.append(0, np.cumsum(n_trees)),
        "first_nodes": np.append(0, np.cumsum(n_nodes)),
        **{name: arrays[name][nodes] for name in _OF_NODES},
    }


def _ranges(starts: npt.NDArray[np.int64], of: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers from ``starts[i]`` to ``starts[i + 1] - 1``, for each i in turn."""
    lengths = starts[of + 1] - starts[of]
    shift = np.repeat(starts[of] - np.append(0, np.cumsum(lengths))[:-1], lengths)
    return np.asarray(shift + np.arange(lengths.sum()))


def unpack_models(members: Mapping[str, bytes], n_tasks: int) -> dict[int, Unloaded]:
    """Read the members of :func:`pack_models`; empty for files without them."""
    found: dict[int, Unloaded] = {}
    place = 0
    while f"packed/{place}/frame.ubj" in members:
        prefix = f"packed/{place}/"
        frame = decode(members[f"{prefix}frame.ubj"])
        arrays = {
            name: read_vector(members, f"{prefix}{name}.npy", dtype)
            for name, dtype in _MEMBERS.items()
        }
        n_features = int(frame["learner"]["learner_model_param"]["num_feature"])
        n_outputs = assemble.outputs_of(frame)
        _check(arrays, n_features, n_outputs, n_tasks)
        tasks = arrays.pop("tasks").tolist()
        first = arrays.pop("first_values").astype(np.float32).reshape(-1, n_outputs)
        shared = SharedTrees(frame, {**arrays, **_NO_CATEGORIES})
        for model, (task, values) in enumerate(zip(tasks, first, strict=True)):
            require(task not in found, f"task {task} has two packed models")
            found[task] = ModelTrees(shared, model, None if np.isnan(values).any() else values)
        place += 1
    return found


def _check(arrays: _Arrays, n_features: int, n_outputs: int, n_tasks: int) -> None:
    """Raise ModelFormatError unless the arrays are trees of tasks."""
    tasks, left = arrays["tasks"], arrays["left"]
    first_trees, first_nodes = arrays["first_trees"], arrays["first_nodes"]
    n_models = len(tasks)
    fit_together = (
        len(arrays["first_values"]) == n_models * n_outputs
        and _are_starts(first_trees, n_models, len(first_nodes) - 1, least=0)
        and _are_starts(first_nodes, len(first_nodes) - 1, len(left), least=1)
        and not (np.diff(first_trees) % n_outputs).any()
        and all(len(arrays[name]) == len(left) for name in _OF_NODES)
    )
    require(fit_together, "the parts of packed models do not fit together")
    are_known = n_models == 0 or (tasks.min() >= 0 and tasks.max() < n_tasks)
    require(bool(are_known), "packed models are of unknown tasks")
    sizes = np.diff(first_nodes)
    root = np.repeat(first_nodes[:-1], sizes)
    number = np.arange(len(left)) - root
    inner = np.flatnonzero(left != -1)
    children = root[inner] + left[inner]
    are_behind = (left[inner] > number[inner]) & (left[inner] + 1 < np.repeat(sizes, sizes)[inner])
    require(bool(are_behind.all()), "packed trees have a child that does not come after its parent")
    parent = np.full(len(left), -1)
    parent[children] = parent[children + 1] = number[inner]
    have_one = 2 * len(inner) + len(sizes) == len(left)
    require(
        have_one and np.array_equal(parent, arrays["parent"]),
        "packed trees have a node without one parent",
    )
    features = arrays["feature"][inner]
    require(bool((features < n_features).all()), "packed trees compare an unknown feature")


def _are_starts(starts: npt.NDArray[np.int64], n: int, end: int, least: int) -> bool:
    """Whether `n` parts begin at 0, have at least this length each, and reach to the end."""
    is_whole = len(starts) == n + 1 and starts[0] == 0 and starts[-1] == end
    return bool(is_whole and (np.diff(starts) >= least).all())
