# SPDX-License-Identifier: Apache-2.0
"""Leaf values of finished trees, estimated again from new rows.

A leaf with the value w had the sum of hessians H of its training rows. New rows have the sums G'
and H' in it, of gradients at their margins before the tree, and would alone give it the value w',
as in training: -η G'/(H' + λ), or for some losses the optimum of the loss. With the shrinkage c it
becomes

    (c H w + H' w') / (c H + H'),

as if each training row counted c times as much as a new one. A task with its own value in the leaf
has the deviation d from it, shrunk by κ (pooled_leaves.py). With the sums of its rows, H_t in
training and H'_t now, and w'_t, its value from them alone, the deviation from the new value v
becomes

    (c (H_t + κ) d + H'_t (w'_t - v)) / (c (H_t + κ) + max(0, 1 - c) κ + H'_t):

the posterior mean from both sets of rows for c = 1, that from the new rows alone for c = 0, and d
for c → ∞. Groups of nested tasks move first, and the deviations of their tasks are those from the
value of the group. Trees store no H_t: it is the task's share of H, by its training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array, Float64Array, Int32Array, ratio
from mtboost.trees.losses import LeafRefit
from mtboost.trees.nesting import Nesting
from mtboost.trees.task_values import TaskValues

#: Gradient pairs, shape (n_rows, n_outputs, 2), of margins of shape (n_rows, n_outputs).
Gradients = Callable[[npt.NDArray[Any]], Float32Array]
#: What gives leaves the optimum of the loss, for margins, an output and a learning rate.
MakeRefit = Callable[[npt.NDArray[Any], int, float], LeafRefit | None]


@dataclass(frozen=True, slots=True)
class LeafRule:
    """How a library makes the value of a leaf from sums of gradients and hessians."""

    learning_rate: float
    reg_lambda: float = 0.0
    reg_alpha: float = 0.0
    max_delta_step: float = 0.0

    def values(self, gradient: Float64Array, hessian: Float64Array) -> Float64Array:
        """Newton steps; 0 where there are no rows."""
        step = -np.sign(gradient) * np.maximum(np.abs(gradient) - self.reg_alpha, 0.0)
        step = ratio(step, hessian + self.reg_lambda)
        if self.max_delta_step > 0.0:
            step = step.clip(-self.max_delta_step, self.max_delta_step)
        return self.learning_rate * step


@dataclass(frozen=True, slots=True, eq=False)
class OwnValues:
    """Values of single tasks in the leaves of some trees.

    Attributes
    ----------
    values : sequence of TaskValues
        Of each tree.
    codes : ndarray of int32, shape (n_rows,)
        Task of each new row; -1 for a task without values.
    counts : ndarray of float64, shape (n_names,)
        Training rows of each task; 0 for groups of nested tasks.
    pooling : tuple of float
        κ of each level, outermost first.
    nesting : Nesting
    """

    values: Sequence[TaskValues]
    codes: Int32Array
    counts: Float64Array
    pooling: tuple[float, ...]
    nesting: Nesting

    def training_hessians(self, hessian: Float64Array, known: TaskValues) -> Float64Array:
        """Return the sum of hessians of each task in each leaf, shape (n_leaves, n_names + 1).

        That of a leaf is divided among the tasks that have a value there, by their training rows.
        """
        found = np.zeros((len(hessian), self.nesting.n_names + 1))
        found[known.leaf, known.task] = self.counts[known.task]
        found *= ratio(hessian, found.sum(axis=1))[:, None]
        return found

    def add_groups(self, precision: Float64Array, mean: Float64Array | None = None) -> None:
        """Add the precision and the mean of groups of nested tasks in each leaf, in place.

        Tasks are averaged by their precision about the value of the group, as in training.
        """
        depths = self.nesting.depths()
        for depth in range(len(self.pooling) - 1, 0, -1):
            members, kappa = np.flatnonzero(depths == depth), self.pooling[depth]
            parents = self.nesting.parents[members]
            own = precision[:, members]
            if np.isfinite(kappa):
                own = own * ratio(np.full(own.shape, kappa), own + kappa)
            np.add.at(precision.T, parents, own.T)
            if mean is not None:
                np.add.at(mean.T, parents, (own * mean[:, members]).T)
                groups = np.unique(parents)
                mean[:, groups] = ratio(mean[:, groups], precision[:, groups])


@dataclass(slots=True, eq=False)
class Refresh:
    """New rows on their way through the trees of a model, in the order of training.

    Attributes
    ----------
    margins : ndarray of shape (n_rows, n_outputs)
        Before the next tree; changed in place.
    rounds : ndarray of int, shape (n_rows,)
        Rounds that each row uses.
    gradients, refit : callable
    rule : LeafRule
    shrink : float
        c.
    """

    margins: npt.NDArray[Any]
    rounds: npt.NDArray[np.integer[Any]]
    gradients: Gradients
    refit: MakeRefit
    rule: LeafRule
    shrink: float

    def trees(
        self,
        values: Sequence[Float64Array],
        hessians: Sequence[Float64Array],
        leaves_of: Callable[[int], Int32Array],
        starts: Sequence[float],
        own: OwnValues | None = None,
    ) -> tuple[list[Float64Array], list[TaskValues]]:
        """Return new leaf values of all trees, and those of single tasks.

        Parameters
        ----------
        values, hessians : sequence of ndarray
            Of each tree, by number of the leaf.
        leaves_of : callable
            Leaf of each row in the tree of a number.
        starts : sequence of float
            Part of the values of the first trees, one an output, that is a start score, and stays.
        own : OwnValues, optional
        """
        n_outputs = self.margins.shape[1]
        found = [*values]
        found_own = list(own.values) if own else []
        for number in range(min(len(values), int(self.rounds.max(initial=0)) * n_outputs)):
            output = number % n_outputs
            if output == 0:
                rows = np.flatnonzero(self.rounds > number // n_outputs)
                before = self.margins.copy()
                pairs = self.gradients(before)
            start = starts[number] if number < n_outputs else 0.0
            leaves = leaves_of(number)[rows]
            old = values[number] - start
            one = _Tree(old, hessians[number], leaves, pairs[rows, output])
            known = own.values[number] if own else TaskValues.none()
            rate = known.learning_rate if own else self.rule.learning_rate
            rule = replace(self.rule, learning_rate=rate or self.rule.learning_rate)
            refit = self.refit(before, output, rule.learning_rate)
            # A constant, or a tree without splits, stays.
            new = old if len(old) == 1 else self._pooled(one, rule, refit, rows)
            found[number] = new + start
            by_row = new[leaves]
            if own and known.learning_rate:
                found_own[number] = self._of_tasks(one, new, known, own, start, refit, rows)
                by_row = found_own[number].of_rows(
                    found[number], leaves, own.codes[rows], own.nesting.n_names, own.nesting
                )
                by_row = by_row - start
            self.margins[rows, output] += by_row.astype(self.margins.dtype)
        return found, found_own

    def _pooled(
        self, tree: _Tree, rule: LeafRule, refit: LeafRefit | None, rows: npt.NDArray[np.int64]
    ) -> Float64Array:
        gradient, hessian = tree.sums(tree.leaves, len(tree.old))
        alone = rule.values(gradient, hessian)
        if refit is not None:
            alone = self._optima(refit, tree.leaves, len(tree.old), rows)
        before = self.shrink * tree.hessian
        total = before + hessian
        mixed = ratio(before * tree.old + hessian * alone, total)
        return np.where(total > 0.0, mixed, tree.old)

    def _of_tasks(
        self,
        tree: _Tree,
        new: Float64Array,
        known: TaskValues,
        own: OwnValues,
        start: float,
        refit: LeafRefit | None,
        rows: npt.NDArray[np.int64],
    ) -> TaskValues:
        nesting, n_names = own.nesting, own.nesting.n_names
        table = np.repeat(new[:, None], n_names + 1, axis=1)
        codes = own.codes[rows]
        pairs = tree.leaves.astype(np.int64) * table.shape[1] + np.where(codes < 0, n_names, codes)
        sums = tree.sums(pairs, table.size)
        gradient, hessian = (part.reshape(table.shape) for part in sums)
        if refit is None:
            alone = known.learning_rate * ratio(-gradient, hessian)
        else:
            alone = self._optima(refit, pairs.astype(np.int32), table.size, rows)
            alone = alone.reshape(table.shape)
        old = known.table(tree.old + start, n_names, nesting) - start
        before = own.training_hessians(tree.hessian, known)
        own.add_groups(hessian, alone)
        own.add_groups(before)
        depths = nesting.depths()
        for depth, kappa in enumerate(own.pooling):
            names = np.flatnonzero(depths == depth)
            groups = nesting.parents[names] if depth else np.full(len(names), n_names)
            towards = table[:, groups]
            table[:, names] = towards
            if np.isfinite(kappa):
                prior = self.shrink * (before[:, names] + kappa)
                total = prior + max(0.0, 1.0 - self.shrink) * kappa + hessian[:, names]
                deviation = old[:, names] - old[:, groups]
                found = prior * deviation + hessian[:, names] * (alone[:, names] - towards)
                table[:, names] += np.where(total > 0.0, ratio(found, total), deviation)
        has_value = hessian > 0.0
        has_value[known.leaf, known.task] = True
        leaf, task = np.nonzero(has_value[:, :n_names])
        value = table[leaf, task] + start
        return replace(known, leaf=leaf.astype(np.int32), task=task.astype(np.int32), value=value)

    def _optima(
        self,
        refit: LeafRefit,
        leaves: npt.NDArray[np.integer[Any]],
        n_leaves: int,
        rows: npt.NDArray[np.int64],
    ) -> Float64Array:
        """Optimum of the loss in each leaf; rows that do not take part are in a negative one."""
        places = np.full(len(self.margins), -1, np.int32)
        places[rows] = leaves
        return refit(np.zeros(n_leaves), places)


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """Old values and hessians of the leaves of a tree, and the leaf and gradient of each row."""

    old: Float64Array
    hessian: Float64Array
    leaves: Int32Array
    pairs: Float32Array

    def sums(
        self, places: npt.NDArray[np.integer[Any]], n_places: int
    ) -> tuple[Float64Array, Float64Array]:
        """Sums of gradients and hessians by place."""
        gradient, hessian = self.pairs.astype(np.float64).T
        return (
            np.bincount(places, gradient, n_places).astype(np.float64, copy=False),
            np.bincount(places, hessian, n_places).astype(np.float64, copy=False),
        )


def start_of_first_trees(
    values: Sequence[Float64Array],
    hessians: Sequence[Float64Array],
    n_outputs: int,
    reg_lambda: float,
) -> list[float]:
    """Start scores that LightGBM keeps in the leaves of the first trees.

    Gradients at the start add up to 0 over all rows, and so do Newton steps times H + λ: the mean
    of the leaves with these weights is the start. With an L1 penalty, or for losses whose leaves
    are no Newton steps, it is near it.
    """
    return [
        float(np.average(own, weights=weight + reg_lambda if weight.any() else None))
        for own, weight in zip(values[:n_outputs], hessians[:n_outputs], strict=True)
    ]
