# SPDX-License-Identifier: Apache-2.0
"""Linear effects of a common model estimated again from new rows, shrunk towards the old ones.

A mixed model of the new rows, which starts from the old effects, estimates by how much the effects
have changed: Δ for all tasks, and Δ + Δ_t for task t (stages/linear_effects.py). With the sums of
hessians H of the training rows and H' of the new ones the effects move by

    H'/(c H + H') Δ + H'_t/(c H_t + H'_t) Δ_t,

as the values of leaves do (trees/refreshed_leaves.py): a training row counts c times as much as a
new one. Nested tasks move from their groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, Int32Array
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.model.stages.working_model import WorkingModel
from mtboost.trees.nesting import Nesting
from mtboost.trees.task_values import TaskValues


@dataclass(frozen=True, slots=True, eq=False)
class RefreshedEffects:
    """New values of the trees of one column each.

    Attributes
    ----------
    values : list of ndarray of float64
        Of all tasks, by number of the leaf.
    by_task : list of TaskValues
    margins : ndarray of float64, shape (n_rows,)
        What they add to the margins of the new rows.
    """

    values: list[Float64Array]
    by_task: list[TaskValues]
    margins: Float64Array


def refreshed_effects(
    trees: CommonTrees,
    values: Sequence[Float64Array],
    hessians: Sequence[Float64Array],
    leaves_of: Callable[[int], Int32Array],
    model: WorkingModel,
    codes: Int32Array,
    counts: Float64Array,
    shrink: float,
    factor: float,
) -> RefreshedEffects:
    """Estimate the effects again.

    Parameters
    ----------
    trees : CommonTrees
    values, hessians : sequence of ndarray
        Of each tree, by number of the leaf.
    leaves_of : callable
        Leaf of each row in the tree of a number.
    model : WorkingModel
        The new rows that use the effects, which start from their margins without `factor`.
    codes : ndarray of int32, shape (n_rows,)
        Task of each row.
    counts : ndarray of float64, shape (n_tasks,)
        Training rows of each task.
    shrink : float
        c.
    factor : float
        What the effects of the mixed model are multiplied by in the trees.
    """
    numbers = range(trees.n_linear)
    own = trees.pooled.values
    scores = [scores_of_leaves(values[number], hessians[number], own[number]) for number in numbers]
    leaves = [leaves_of(number) for number in numbers]
    z = np.column_stack([score[at] for score, at in zip(scores, leaves, strict=True)])
    nesting = Nesting.of(trees.tasks)
    found = model.effects(z[:, 1:], codes, nesting)
    shared, by_name, hessian = factor * found.shared, factor * found.by_name, found.hessian
    new, old = np.zeros(nesting.n_names), counts.copy()
    lineage = nesting.lineage(codes)
    for level in lineage:
        new += np.bincount(level, hessian, nesting.n_names)
    for path in map(nesting.path, np.flatnonzero(counts).tolist()):
        old[path[:-1]] += counts[path[-1]]
    # LightGBM keeps no hessian of the constant; each tree of effects has all rows in its leaves.
    total = max(float(hessians[number][np.unique(own[number].leaf)].sum()) for number in numbers)
    total = total or max(float(of_tree.sum()) for of_tree in hessians)
    share = _share(new, shrink * total * old / max(counts.sum(), 1.0))
    of_all = float(_share(hessian.sum(), np.array(shrink * total)))
    moved = np.zeros_like(by_name)
    has_own = np.zeros(nesting.n_names, bool)
    for number in numbers:
        has_own[own[number].task] = True
    for code in np.argsort(nesting.depths(), kind="stable").tolist():
        group = int(nesting.parents[code])
        change, towards = (shared, of_all * shared) if group < 0 else (by_name[group], moved[group])
        # A task that joined later has no separate effects.
        has_moved = has_own[code] and new[code] > 0.0
        moved[code] = towards + share[code] * (by_name[code] - change if has_moved else 0.0)
    return RefreshedEffects(
        [values[number] + scores[number] * of_all * shared[number] for number in numbers],
        [
            replace(
                own[number],
                value=own[number].value
                + scores[number][own[number].leaf] * moved[own[number].task, number],
            )
            for number in numbers
        ],
        (z * moved[codes]).sum(axis=1),
    )


def scores_of_leaves(pooled: Float64Array, hessian: Float64Array, own: TaskValues) -> Float64Array:
    """Return the number that stands for each leaf: its values are this number times an effect.

    It is recovered from the values of all tasks, a matrix of rank one, with a mean square of 1.
    """
    if len(pooled) == 1:
        return np.ones(1)
    leaves, place = np.unique(own.leaf, return_inverse=True)
    tasks, column = np.unique(own.task, return_inverse=True)
    table = np.zeros((len(leaves), len(tasks) + 1))
    table[place, column] = own.value
    table[:, -1] = pooled[leaves]
    found = np.zeros(len(pooled))
    left, sizes, _ = np.linalg.svd(table, full_matrices=False)
    if sizes[0] > 0.0:
        mean_square = np.average(left[:, 0] ** 2, weights=np.maximum(hessian[leaves], 1e-12))
        found[leaves] = left[:, 0] / np.sqrt(mean_square)
    return found


def _share(new: npt.NDArray[np.float64], old: npt.NDArray[np.float64]) -> Float64Array:
    """Return new / (new + old), 0 without either."""
    total = np.asarray(new + old)
    return np.divide(new, total, out=np.zeros(total.shape), where=total > 0.0)
