# SPDX-License-Identifier: Apache-2.0
"""The mixed model of random_slopes.py where columns are many for the rows: equal variances.

With few rows for each column nothing is known of the variance of a single slope. EM then stays near
its start: the guessed variances of all columns together exceed that of the response many times, and
effects follow the noise. Here all shared slopes have one variance ω², and all slopes of tasks one
τ², for each level of groups another. The covariance of all rows is

    Σ = ω² ZZ' + Σ_l (τ_l0² S_l + τ_l² ZZ'∘S_l) + σ² I,

in units of √H as in random_slopes.py, where S_l is that of rows in the same group or task. It has
as many columns as there are rows, which are few. Its variances are those of the restricted
likelihood, with the intercept that all share left out by P = Σ⁻¹ - Σ⁻¹1(1'Σ⁻¹1)⁻¹1'Σ⁻¹: each
variance v of a matrix K is multiplied by

    u'PKPu / tr(PK)

until it is 1 (schall1991, key in docs/papers.md), which is also the rule of MacKay by which
random_slopes.py finds ω². It takes much fewer steps than EM where most effects are hardly known.
Effects are posterior means, Z' of P u multiplied by their variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtboost.base.arrays import Float64Array, Int64Array
from mtboost.model.stages.random_slopes import ITERATIONS, Effects, Variances
from mtboost.model.stages.slope_rows import inverses_of

#: Rows for each column up to which variances of single columns are too uncertain. In generated
#: tasks with 1 to 4, equal ones changed the RMSE by -32 to -3 % where all columns had slopes, and
#: where one in ten had by -23 to +7 %.
_ROWS_OF_A_COLUMN = 4
#: Rows up to which the matrix of all of them is small, and those by which variances are estimated.
_MOST_ROWS, _ENOUGH_ROWS = 3000, 600
#: Change of the variances, relative to that of the response, below which they have converged.
_TOLERANCE = 1e-3
#: Least variance of the rows by any effect in units of that of the response.
_LEAST = 1e-8


def are_wide(n_rows: int, n_columns: int) -> bool:
    """Whether rows are few for the columns: equal variances then predict better."""
    return n_rows <= min(_MOST_ROWS, _ROWS_OF_A_COLUMN * n_columns)


@dataclass(frozen=True, slots=True, eq=False)
class WideRows:
    """Rows with weight.

    Attributes
    ----------
    columns : ndarray of float64, shape (n_rows, n_columns)
        √H Z without the ones.
    roots : ndarray of float64, shape (n_rows,)
        √H.
    response : ndarray of float64, shape (n_rows,)
        u.
    lineage : list of ndarray of int64, shape (n_rows,)
        Place of each row's group in each level of nested tasks, outermost first, then of its task.
    parents : list of ndarray of int64, shape (n_names,)
        As in RowsByTask.
    """

    columns: Float64Array
    roots: Float64Array
    response: Float64Array
    lineage: Sequence[Int64Array]
    parents: list[Int64Array]

    @classmethod
    def of_rows(
        cls,
        z: Float64Array,
        response: Float64Array,
        hessian: Float64Array,
        codes: Int64Array,
        parents: list[Int64Array],
    ) -> WideRows:
        """Return the rows in the order of their tasks; arguments are those of RowsByTask."""
        used = np.flatnonzero(hessian)
        used = used[np.argsort(codes[used], kind="stable")]
        roots = np.sqrt(hessian[used])
        lineage = [codes[used]]
        for groups in parents[:0:-1]:
            lineage.insert(0, groups[lineage[0]])
        return cls(z[used] * roots[:, None], roots, roots * response[used], lineage, parents)

    def part(self, most_rows: int) -> WideRows:
        """Return every second, third, ... row of each task."""
        own = slice(None, None, -(-len(self.roots) // most_rows))
        lineage = [level[own] for level in self.lineage]
        return WideRows(
            self.columns[own], self.roots[own], self.response[own], lineage, self.parents
        )

    def matrices(self) -> list[Float64Array]:
        """Return K of ω², of τ_l0² and τ_l² of each level, and of σ²."""
        slopes, ones = self.columns @ self.columns.T, np.outer(self.roots, self.roots)
        are_same = [level[:, None] == level for level in self.lineage]
        levels = [each * same for same in are_same for each in (ones, slopes)]
        return [slopes, *levels, np.eye(len(self.roots))]

    def covariance(self, variances: Variances) -> Float64Array:
        """Return Σ without keeping the matrices of all rows."""
        slopes = np.full((len(self.roots), len(self.roots)), variances.of_slopes[0])
        total = np.zeros_like(slopes)
        for level, (of_ones, of_slopes) in zip(
            self.lineage, variances.by_level[:, :2].tolist(), strict=True
        ):
            is_same = level[:, None] == level
            total[is_same] += of_ones
            slopes[is_same] += of_slopes
        total *= np.outer(self.roots, self.roots)
        slopes *= self.columns @ self.columns.T
        total += slopes
        total[np.diag_indices_from(total)] += variances.of_noise
        return total


def fit_wide_effects(
    rows: WideRows,
    variances: Variances,
    *,
    fixed_noise: bool = False,
    most_steps: int = ITERATIONS,
) -> Effects:
    """Return the effects, and the variances; arguments are those of `fit_effects`."""
    part = rows.part(_ENOUGH_ROWS)
    matrices, roots, response = part.matrices(), part.roots, part.response
    traces = np.array([np.trace(own) for own in matrices])
    sizes = np.where(traces > 0.0, traces, 1.0) / len(roots)
    mean = float(roots @ response) / float(roots @ roots)
    spread = max(float(((response - mean * roots) ** 2).mean()), 1e-12)
    found = _numbers_of(variances)
    found[:-1] = np.minimum(found[:-1], spread / sizes[:-1])
    for _ in range(most_steps):
        precision = inverses_of(_sum(found, matrices)[None])[0]
        solved = precision @ roots
        precision -= np.outer(solved, solved) / (roots @ solved)
        left = precision @ response
        explained = found * np.array([left @ own @ left for own in matrices])
        known = found * np.array([np.vdot(precision, own) for own in matrices])
        before = found
        found = np.maximum(before * explained / np.maximum(known, _LEAST), _LEAST * spread / sizes)
        if fixed_noise:
            found[-1] = variances.of_noise
        if (np.abs(found - before) * sizes).max() <= _TOLERANCE * spread:
            break
    return wide_effects_given(rows, _with_numbers(variances, found))


def wide_effects_given(rows: WideRows, variances: Variances) -> Effects:
    """Return posterior means given the variances, equal for all columns."""
    roots, covariance = rows.roots, rows.covariance(variances)
    both = np.column_stack([rows.response, roots])
    solved = np.linalg.solve(covariance, both)
    intercept = float(roots @ solved[:, 0]) / float(roots @ solved[:, 1])
    left = (solved[:, 0] - intercept * solved[:, 1])[:, None] * np.column_stack(
        [roots, rows.columns]
    )
    shared = np.append(intercept, variances.of_slopes * left[:, 1:].sum(axis=0))
    by_level = []
    for level, own, groups in zip(rows.lineage, variances.by_level, rows.parents, strict=True):
        sums = np.zeros((len(groups), len(shared)))
        np.add.at(sums, level, left)
        by_level.append(own * sums)
    return Effects(shared, by_level, variances)


def _sum(numbers: Float64Array, matrices: Sequence[Float64Array]) -> Float64Array:
    """Return Σ of these variances."""
    total: Float64Array = numbers[0] * matrices[0]
    for number, own in zip(numbers[1:], matrices[1:], strict=True):
        total += number * own
    return total


def _numbers_of(variances: Variances) -> Float64Array:
    """Return ω², τ² of the intercepts and slopes of each level, and σ²."""
    levels = variances.by_level[:, :2].ravel()
    return np.array([variances.of_slopes[0], *levels, variances.of_noise])


def _with_numbers(variances: Variances, numbers: Float64Array) -> Variances:
    """Return variances with these numbers, in the order of `_numbers_of`."""
    of_slopes, *levels, of_noise = numbers.tolist()
    by_level = np.empty_like(variances.by_level)
    by_level[:, 0], by_level[:, 1:] = levels[::2], np.array(levels[1::2])[:, None]
    return replace(
        variances,
        by_level=by_level,
        of_slopes=np.full_like(variances.of_slopes, of_slopes),
        of_noise=of_noise,
    )
