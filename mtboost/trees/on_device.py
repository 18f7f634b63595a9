# SPDX-License-Identifier: Apache-2.0
"""What a round does with each row, where the rows lie on a GPU.

Functions have the names and arguments of the core's, and arrays of CuPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.trees.task_values import TaskValues

# Sums are of whole numbers, up to 2^62: they are the same in any order of the rows.
_SUM_BITS = 62
# Rows add to this number of cells at least: threads that meet in a cell wait for each other.
_LEAST_CELLS = 1 << 16
# What one thread does for row i, in CUDA C++: inputs, output and text by name.
_KERNELS = {
    "find_leaf": (
        "raw float32 values, raw int32 nodes, int64 n_features",
        "int32 leaf",
        """
        leaf = 0;
        // A node has its left child, or -1, the right one, column, threshold, default_left.
        for (const int* node = &nodes[0]; node[0] >= 0; node = &nodes[5 * leaf]) {
          const float value = values[i * n_features + node[2]];
          const bool goes_left = isnan(value) ? node[4] != 0 : value < __int_as_float(node[3]);
          leaf = goes_left ? node[0] : node[1];
        }
        """,
    ),
    "add_to_cell": (
        "int32 leaf, int32 code, float32 gradient, float32 hessian, int64 n_tasks, int64 n_cells, "
        "int64 n_copies, float64 gradient_scale, float64 hessian_scale",
        "raw uint64 sums",  # CUDA adds no signed ones
        """
        if (leaf >= 0) {
          const long long cell = i % n_copies * n_cells + leaf * n_tasks + code;
          const long long parts[] = {__double2ll_rn(gradient * gradient_scale),
                                     __double2ll_rn(hessian * hessian_scale)};
          atomicAdd(&sums[2 * cell], static_cast<unsigned long long>(parts[0]));
          atomicAdd(&sums[2 * cell + 1], static_cast<unsigned long long>(parts[1]));
        }
        """,
    ),
    "add_value": (
        "int32 leaf, int32 code, raw float32 values, int64 n_columns",
        "float32 margin",
        """
        const long long node = leaf < 0 ? ~leaf : leaf;
        margin += values[node * n_columns + (code < 0 ? n_columns - 1 : code)];
        """,
    ),
}


def namespace(values: Any) -> ModuleType:
    """The library of an array: NumPy or CuPy."""
    if isinstance(values, np.ndarray):
        return np
    import cupy

    found: ModuleType = cupy
    return found


@cache
def _kernel(name: str) -> Any:
    import cupy

    inputs, output, text = _KERNELS[name]
    return cupy.ElementwiseKernel(inputs, output, text, name)


def find_leaves(values: Any, tree: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Leaf of each row in a tree, int32 of shape (n_rows,).

    Parameters
    ----------
    values : array of float32, shape (n_rows, n_features)
        NaN is missing.
    tree : mapping
        Arrays of XGBoost's model documents, without splits by categories.
    """
    nodes = np.stack(
        [
            tree["left_children"],
            tree["right_children"],
            tree["split_indices"],
            tree["split_conditions"].view(np.int32),
            tree["default_left"].astype(np.int32),
        ],
        axis=1,
    )
    n_rows, n_features = values.shape
    nodes = namespace(values).asarray(nodes)
    return _kernel("find_leaf")(values, nodes, n_features, size=n_rows)


def sum_by_leaf_and_task(
    leaves: Any, codes: Any, pairs: Any, *, n_nodes: int, n_tasks: int
) -> tuple[Any, Any, Any, Any]:
    """Leaf, task, gradient and hessian of each leaf and task that have rows.

    Each row's part is rounded to 2^-62 of the sum of all magnitudes.

    Parameters
    ----------
    leaves, codes : array of int32, shape (n_rows,)
        Rows with a negative leaf take no part.
    pairs : array of float32, shape (n_rows, 2)
    """
    xp = namespace(leaves)
    n_cells = n_nodes * n_tasks
    n_copies = max(1, _LEAST_CELLS // n_cells)
    parts = pairs[:, 0], pairs[:, 1]
    magnitudes = [float(xp.abs(part).sum(dtype=np.float64)) for part in parts]
    scales = [2.0 ** (_SUM_BITS - int(np.frexp(magnitude)[1])) for magnitude in magnitudes]
    sums = xp.zeros((n_copies, n_cells, 2), np.uint64)
    _kernel("add_to_cell")(leaves, codes, *parts, n_tasks, n_cells, n_copies, *scales, sums)
    gradient, hessian = sums.view(np.int64).sum(axis=0).T
    cells = xp.flatnonzero(hessian > 0)
    leaf, task = (part.astype(np.int32) for part in (cells // n_tasks, cells % n_tasks))
    return leaf, task, gradient[cells] / scales[0], hessian[cells] / scales[1]


def table_of_values(pooled: Float64Array, values: TaskValues, n_tasks: int, rows: Any) -> Any:
    """Value of each leaf for each task, as :meth:`TaskValues.table`, where `rows` lie."""
    xp = namespace(rows)
    table = xp.empty((len(pooled), n_tasks + 1), np.float32)
    table[:] = xp.asarray(pooled)[:, None]
    table[xp.asarray(values.leaf), xp.asarray(values.task)] = xp.asarray(values.value)
    return table


def add_leaf_values(
    values: Any,
    leaves: Any,
    margins: Any,
    *,
    codes: Any = None,
    output: int,
    n_threads: int = 1,
) -> None:
    """Add to each row's margin the value of its leaf, or of its leaf and task.

    Parameters
    ----------
    values : array, shape (n_nodes,) or (n_nodes, n_columns)
    leaves : array of int32, shape (n_rows,)
        Complements of leaves are their leaves.
    margins : array of float32, shape (n_rows, n_outputs)
    codes : array of int32, shape (n_rows,), optional
        Columns of rows; -1 is the last one.
    """
    del n_threads
    table = namespace(margins).asarray(values, np.float32).reshape(len(values), -1)
    codes = np.int32(-1) if codes is None else codes
    _kernel("add_value")(leaves, codes, table, table.shape[1], margins[:, output])
