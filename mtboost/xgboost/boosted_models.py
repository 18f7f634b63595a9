# SPDX-License-Identifier: Apache-2.0
"""The core's boosting of many outputs as a genuine ``xgboost.Booster``.

Margins keep their bits. The constants F₀ that the core starts from are therefore in the leaves of
the first tree, where 0 + (F₀ + v) is rounded as the core's F₀ + v. In ``base_score`` they would not
survive: of a logistic objective it is a probability, whose log-odds differ in the last bits, and
XGBoost 3.0 has one number for all outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse
import xgboost

from mtboost import _core
from mtboost.base.arrays import Float32Array
from mtboost.xgboost.assemble import (
    Document,
    Tree,
    load_document,
    read_document,
    tree_document,
    with_trees,
)
from mtboost.xgboost.vector_leaves import with_vector_leaves

# By the core's name of the loss. Of Huber's the margins are the predictions, as of squared error.
_OBJECTIVES = {
    "squared": "reg:squarederror",
    "absolute": "reg:absoluteerror",
    "huber": "reg:squarederror",
    "logistic": "binary:logistic",
    "softmax": "multi:softprob",
}


def booster_of(
    models: Sequence[_core.BoostedModel],
    loss: str,
    *,
    output: int | None = None,
    feature_names: Sequence[str] | None = None,
) -> xgboost.Booster:
    """Booster of all outputs, or of one, with ordinary trees.

    A model of several outputs becomes a tree a round, whose leaves hold a number for each of them;
    models of one output become a tree a round and output. `loss` is the core's name of their loss.
    A single output of ``"softmax"`` is the margin of a class.
    """
    objective, n_outputs = _OBJECTIVES[loss], sum(model.n_outputs for model in models)
    parts = [(model, slice(None)) for model in models]
    if output is not None:
        columns = [(model, place) for model in models for place in range(model.n_outputs)]
        model, place = columns[output]
        parts, n_outputs = [(model, slice(place, place + 1))], 1
        objective = _OBJECTIVES["squared"] if loss == "softmax" else objective
    frame = frame_of_outputs(objective, n_outputs, models[0].n_features, feature_names)
    rounds = zip(*[_trees(model, outputs) for model, outputs in parts], strict=True)
    trees = [tree for trees_of_round in rounds for tree in trees_of_round]
    return load_document(with_trees(frame, trees, n_outputs=len(parts)))


def frame_of_outputs(
    objective: str, n_outputs: int, n_features: int, feature_names: Sequence[str] | None = None
) -> Document:
    """Document of a booster without trees, whose margins are 0."""
    has_classes = objective == _OBJECTIVES["softmax"]
    params = {
        "objective": objective,
        "base_score": 0.5 if objective == _OBJECTIVES["logistic"] else 0.0,
        **({"num_class": n_outputs} if has_classes else {}),
    }
    matrix = xgboost.DMatrix(
        scipy.sparse.csr_array((1, n_features), dtype=np.float32),
        label=np.zeros((1, 1 if has_classes else n_outputs)),
        feature_names=feature_names,
        nthread=1,
    )
    return read_document(xgboost.Booster(params, cache=[matrix]))


def _trees(model: _core.BoostedModel, outputs: slice) -> Iterator[Document]:
    """Trees of some outputs: of several, with vectors as leaves."""
    initial = model.initial[outputs]
    weights = model.output_weights[:, outputs]
    for number in range(model.n_trees):
        arrays = model.tree_arrays(number)
        values = arrays["leaf_values"].astype(np.float32)
        if model.relabels:
            values = values.reshape(-1, model.n_outputs)[:, outputs]
        else:
            values = np.outer(values, weights[number])  # in float32, as the core predicts
        if number == 0:
            values = initial + values
        is_leaf = arrays["left"] < 0
        leaves = values[arrays["feature"][is_leaf]]
        first = np.zeros(len(is_leaf), np.float32)
        first[is_leaf] = leaves[:, 0]
        tree = tree_document(_nodes(arrays, first), n_features=model.n_features)
        yield tree if leaves.shape[1] == 1 else with_vector_leaves(tree, leaves)


def _nodes(arrays: Tree, values: Float32Array) -> Tree:
    """A tree as the plug-ins have it, whose leaves have these values; there is one a node."""
    left = arrays["left"]
    is_leaf = left < 0
    inner = np.flatnonzero(~is_leaf)
    parent = np.full(len(left), -1, np.int32)
    parent[left[inner]] = parent[left[inner] + 1] = inner
    weight = arrays["weight"].astype(np.float64)
    unexplained = weight * arrays["impurity"]
    gain = np.zeros(len(left))
    gain[inner] = unexplained[inner] - unexplained[left[inner]] - unexplained[left[inner] + 1]
    return {
        "left": left,
        "right": np.where(is_leaf, -1, left + 1).astype(np.int32),
        "parent": parent,
        "feature": np.where(is_leaf, 0, arrays["feature"]),
        "threshold": arrays["threshold"],
        "default_left": arrays["default_left"],
        "gain": np.maximum(gain, 0.0),
        "hessian": weight,
        "value": values,
        "base_weight": values,
        "categorical_nodes": np.empty(0, np.int32),
        "category_starts": np.zeros(1, np.int64),
        "categories": np.empty(0, np.int32),
    }
