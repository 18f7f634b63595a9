# SPDX-License-Identifier: Apache-2.0
"""What a round does with each row, where the rows lie on a GPU.

Functions have the names and arguments of the core's, and arrays of CuPy. With arrays of NumPy they
compute the same, which is how tests compare them with the core on a machine without a GPU.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from mtboost.base.arrays import Float64Array, Int32Array, on_host

# Sums are of whole numbers, up to 2^62: they are the same in any order of the rows.
_SUM_BITS = 62
# Rows add to this number of cells at least: threads that meet in a cell wait for each other.
_LEAST_CELLS = 1 << 16


def namespace(values: Any) -> ModuleType:
    """The library of an array: NumPy or CuPy."""
    if isinstance(values, np.ndarray):
        return np
    import cupy

    found: ModuleType = cupy
    return found


def sum_by_leaf_and_task(
    leaves: Any, codes: Any, pairs: Any, *, n_nodes: int, n_tasks: int
) -> tuple[Int32Array, Int32Array, Float64Array, Float64Array]:
    """Leaf, task, gradient and hessian of each leaf and task that have rows, on the host.

    Parameters
    ----------
    leaves, codes : array of int32, shape (n_rows,)
        Rows with a negative leaf take no part.
    pairs : array of float32, shape (n_rows, 2)
    """
    xp = namespace(leaves)
    n_cells = n_nodes * n_tasks
    n_copies = max(1, _LEAST_CELLS // n_cells)
    number = xp.int32 if n_copies * n_cells < 2**31 else xp.int64
    parts = pairs[:, 0], pairs[:, 1]
    takes_part = leaves >= 0
    if not takes_part.all():
        leaves = xp.where(takes_part, leaves, 0)
        parts = tuple(xp.where(takes_part, part, xp.float32(0.0)) for part in parts)
    cells = leaves * number(n_tasks) + codes
    if n_copies > 1:
        cells += xp.arange(len(leaves), dtype=number) % n_copies * n_cells
    gradient, hessian = (_sums(xp, cells, part, n_copies, n_cells) for part in parts)
    found = xp.flatnonzero(hessian > 0.0)
    place, gradient, hessian = (on_host(part) for part in (found, gradient[found], hessian[found]))
    leaf, task = np.divmod(place, n_tasks)
    return leaf.astype(np.int32), task.astype(np.int32), gradient, hessian


def _sums(xp: ModuleType, cells: Any, values: Any, n_copies: int, n_cells: int) -> Any:
    """Sums of values by cell, shape (n_cells,): each to 2^-62 of the sum of all magnitudes."""
    magnitude = float(xp.abs(values).sum(dtype=xp.float64))
    scale = 2.0 ** (_SUM_BITS - np.frexp(magnitude)[1])
    parts = xp.rint(values * xp.float64(scale)).astype(xp.int64)
    sums = xp.zeros(n_copies * n_cells, xp.uint64)  # CuPy adds no signed ones
    xp.add.at(sums, cells, parts.view(xp.uint64))
    of_cells = sums.view(xp.int64).reshape(n_copies, n_cells).sum(axis=0)
    return of_cells / scale


def add_leaf_values(
    values: Float64Array,
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
    values : ndarray of float64, shape (n_nodes,) or (n_nodes, n_columns)
    leaves : array of int32, shape (n_rows,)
        Complements of leaves are their leaves.
    margins : array of float32, shape (n_rows, n_outputs)
    codes : array of int32, shape (n_rows,), optional
        Columns of rows; -1 is the last one.
    """
    del n_threads
    xp = namespace(margins)
    table = xp.asarray(values.astype(margins.dtype))
    leaves = xp.maximum(leaves, ~leaves)
    margins[:, output] += table[leaves] if codes is None else table[leaves, codes]
