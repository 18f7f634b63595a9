# SPDX-License-Identifier: Apache-2.0
"""Bins of the rows of a matrix, found by prediction.

A ``QuantileDMatrix`` cannot be sliced, and returns its values only all at once, for which XGBoost
needs 16 bytes each. But it predicts in place: a tree with a leaf for each bin of a feature finds
the bin of every row. The bins of several features together make a whole number below 2^24, which
float32 holds exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.arrays import Float32Array
from mtboost.xgboost.assemble import Document, load_document, tree_document, with_trees
from mtboost.xgboost.boosted_models import frame_of_outputs
from mtboost.xgboost.matrices import starting_from

_CODE_BITS = 24
# Numbers predicted at once; XGBoost holds them three times. Each prediction reads all features:
# hence more at once if there were to be more predictions than a few.
_CODES_AT_ONCE, _MOST_PREDICTIONS = 4_000_000, 5


def bin_codes(
    matrix: xgboost.DMatrix,
    edges: list[Float32Array],
    n_bins: npt.NDArray[np.integer[Any]],
    n_threads: int,
) -> Iterator[tuple[Float32Array, npt.NDArray[np.uint32]]]:
    """Yield arguments of ``BinnedMatrixBuilder.add_codes``, until all features are added.

    Parameters
    ----------
    edges : list of ndarray of float32
        For each feature the smallest values of its bins but the first.
    n_bins : ndarray of int
        Bins of each feature, that of missing values included.
    """
    bits = [max(n - 1, 0).bit_length() for n in n_bins.tolist()]
    columns: list[list[int]] = [[]]
    for feature, n_bits in enumerate(bits):
        if sum(bits[other] for other in columns[-1]) + n_bits > _CODE_BITS:
            columns.append([])
        columns[-1].append(feature)
    n_at_once = max(
        _CODES_AT_ONCE // max(matrix.num_row(), 1), math.ceil(len(columns) / _MOST_PREDICTIONS)
    )
    for start in range(0, len(columns), n_at_once):
        chunk = columns[start : start + n_at_once]
        trees = [
            _tree(column[number : number + 1], edges, bits, sum(bits[f] for f in column[:number]))
            for number in range(max(map(len, chunk)))
            for column in chunk
        ]
        yield (
            _predict(trees, len(chunk), matrix, n_threads),
            np.array([len(column) for column in chunk], np.uint32),
        )


def _predict(
    trees: list[Document], n_outputs: int, matrix: xgboost.DMatrix, n_threads: int
) -> Float32Array:
    frame = frame_of_outputs("reg:squarederror", n_outputs, matrix.num_col())
    booster = load_document(with_trees(frame, trees, n_outputs=n_outputs))
    booster.set_param({"nthread": n_threads})
    with starting_from(matrix, np.empty(0, np.float32)):
        codes: Float32Array = booster.predict(matrix, output_margin=True, validate_features=False)
    return codes.reshape(-1, n_outputs)


def _tree(own: list[int], edges: list[Float32Array], bits: list[int], n_below: int) -> Document:
    """Tree of a feature (or none), whose leaves are the bins, shifted by `n_below` bits.

    Nodes are numbered as in a heap. Splits beyond the last edge send values left and missing ones
    right, so that these reach the last leaf.
    """
    feature, depth = (own[0], bits[own[0]]) if own else (0, 0)
    n_inner = 2**depth - 1
    node = np.arange(2 * n_inner + 1)
    level = np.frexp(node + 1)[1] - 1
    first_bin = (node + 1 - (1 << level)) << (depth - level)
    is_leaf = node >= n_inner
    thresholds = np.full(2**depth, np.inf, np.float32)
    if own:
        thresholds[: len(edges[feature])] = edges[feature]
    half = (1 << (depth - level)) >> 1
    return tree_document(
        {
            "left": np.where(is_leaf, -1, 2 * node + 1).astype(np.int32),
            "right": np.where(is_leaf, -1, 2 * node + 2).astype(np.int32),
            "parent": ((node - 1) // 2).astype(np.int32),
            "feature": np.full(len(node), feature, np.uint32),
            "threshold": thresholds[np.where(is_leaf, 0, first_bin + half - 1)],
            "default_left": np.zeros(len(node), np.uint8),
            "gain": np.zeros(len(node)),
            "hessian": np.ones(len(node)),
            "base_weight": np.zeros(len(node)),
            "value": (first_bin << n_below).astype(np.float64),
            "categorical_nodes": np.empty(0, np.int32),
            "category_starts": np.zeros(1, np.int64),
            "categories": np.empty(0, np.int32),
        },
        n_features=len(bits),
    )
