# SPDX-License-Identifier: Apache-2.0
"""Rows of tasks in batches, for the mixed model of random_slopes.py, which has the formulas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from mtboost.base.arrays import Float64Array, Int32Array, Int64Array

#: Numbers of a batch of tasks: matrices of them that exist only within a step of EM stay small.
_MOST_NUMBERS = 1 << 18
#: Rows of matrices from which on Cholesky factors are faster than NumPy's inverses of a batch.
_LARGE = 48


@dataclass(frozen=True, slots=True)
class Prior:
    """Variances of the effects of tasks, and of the noise of their rows.

    Attributes
    ----------
    of_effects : ndarray of float64, shape (n_effects,)
        The diagonal of D.
    of_noise : float
        σ².
    """

    of_effects: Float64Array
    of_noise: float


@dataclass(frozen=True, slots=True, eq=False)
class Information:
    """What the tasks of each group say about its effects, or all tasks about the shared ones.

    Attributes
    ----------
    squares : ndarray of float64, shape (n_groups, n_effects, n_effects)
        Σ A.
    products : ndarray of float64, shape (n_groups, n_effects)
        Σ g.
    """

    squares: Float64Array
    products: Float64Array

    @classmethod
    def zeros(cls, n_groups: int, n_effects: int) -> Information:
        """Return that of no tasks."""
        return cls(np.zeros((n_groups, n_effects, n_effects)), np.zeros((n_groups, n_effects)))


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Sums over tasks.

    Attributes
    ----------
    of_effects : ndarray of float64, shape (n_effects,)
        Posterior variances of their effects.
    of_errors : float
        What those of all effects of a row add to the squared errors.
    """

    of_effects: Float64Array
    of_errors: float


@dataclass(frozen=True, slots=True, eq=False)
class FewRows:
    """Tasks with equally many rows, fewer than effects.

    Attributes
    ----------
    tasks : ndarray of int64, shape (n_own,)
        Their codes.
    groups : ndarray of int64, shape (n_own,)
        Codes of their groups, ascending.
    rows : ndarray of float64, shape (n_own, n_rows, n_effects)
        U of each task.
    responses : ndarray of float64, shape (n_own, n_rows)
        u.
    """

    tasks: Int64Array
    groups: Int64Array
    rows: Float64Array
    responses: Float64Array

    def inverses(self, prior: Prior) -> Float64Array:
        """Return V⁻¹ of each task."""
        covariances = (self.rows * prior.of_effects) @ self.rows.transpose(0, 2, 1)
        covariances += prior.of_noise * np.eye(self.rows.shape[1])
        return inverses_of(covariances)

    def inform(self, inverses: Float64Array, prior: Prior, groups: Information) -> None:
        """Add what the tasks say about the effects of their groups."""
        del prior
        n_effects = self.rows.shape[2]
        weighted = inverses @ self.rows
        for group, own in _ranges(self.groups):
            of_group = weighted[own].reshape(-1, n_effects)
            groups.squares[group] += self.rows[own].reshape(-1, n_effects).T @ of_group
            groups.products[group] += self.responses[own].reshape(-1) @ of_group

    def effects(self, inverses: Float64Array, around: Float64Array, prior: Prior) -> Float64Array:
        """Return what tasks add to the effects around them, both of shape (n_own, n_effects)."""
        fitted = (self.rows @ around[:, :, None])[:, :, 0]
        left = inverses @ (self.responses - fitted)[:, :, None]
        found: Float64Array = prior.of_effects * (left.transpose(0, 2, 1) @ self.rows)[:, 0]
        return found

    def spread(
        self, inverses: Float64Array, prior: Prior, of_groups: Float64Array | None
    ) -> Spread:
        """Return the posterior variances, given P of each group; None for groups that are known."""
        n_own, n_rows, _ = self.rows.shape
        variances, noise = prior.of_effects, prior.of_noise
        weighted = inverses @ self.rows
        explained = np.einsum("tri,tri->i", self.rows, weighted)
        effects = n_own * variances - variances**2 * explained
        errors = noise * (n_own * n_rows - noise * float(np.einsum("tii->", inverses)))
        if of_groups is None:
            return Spread(effects, errors)
        for group, own in _ranges(self.groups):
            moved = weighted[own] @ of_groups[group] @ weighted[own].transpose(0, 2, 1)
            of_rows = np.einsum("tri,tri->i", self.rows[own], moved @ self.rows[own])
            effects += variances**2 * of_rows
            errors += noise**2 * float(np.einsum("tii->", moved))
        return Spread(effects, errors)

    def moments(self) -> tuple[Float64Array, Float64Array, float]:
        """Return the sums of U'U, U'u and u'u over tasks."""
        rows = self.rows.reshape(-1, self.rows.shape[2])
        responses = self.responses.ravel()
        return rows.T @ rows, responses @ rows, float(responses @ responses)

    def squared_errors(self, total: Float64Array) -> float:
        """Return Σ |u - U e|² for effects e of each task, those around it included."""
        fitted = (self.rows @ total[:, :, None])[:, :, 0]
        return float(((self.responses - fitted) ** 2).sum())


@dataclass(frozen=True, slots=True, eq=False)
class ManyRows:
    """Tasks with at least as many rows as effects; the methods are those of `FewRows`.

    Groups of tasks are the same with Σ A for U'U, Σ g for U'u and noise of variance 1.

    Attributes
    ----------
    tasks : ndarray of int64, shape (n_own,)
        Their codes.
    groups : ndarray of int64, shape (n_own,)
        Codes of their groups, ascending.
    squares : ndarray of float64, shape (n_own, n_effects, n_effects)
        U'U of each task.
    products : ndarray of float64, shape (n_own, n_effects)
        U'u.
    response_squares : float
        Σ u'u.
    """

    tasks: Int64Array
    groups: Int64Array
    squares: Float64Array
    products: Float64Array
    response_squares: float

    @classmethod
    def of_rows(
        cls,
        tasks: Int64Array,
        groups: Int64Array,
        rows: Iterable[Float64Array],
        responses: Sequence[Float64Array],
    ) -> ManyRows:
        """Return what is kept of the rows, U and u of each task."""
        moments = [
            (own.T @ own, response @ own) for own, response in zip(rows, responses, strict=True)
        ]
        squares, products = map(np.stack, zip(*moments, strict=True))
        return cls(tasks, groups, squares, products, float(sum(own @ own for own in responses)))

    @classmethod
    def of_groups(cls, told: Information, groups: Int64Array) -> ManyRows:
        """Return groups, each in one of `groups`, of which their own tasks say so much."""
        order = np.argsort(groups, kind="stable")
        return cls(order, groups[order], told.squares[order], told.products[order], 0.0)

    def inverses(self, prior: Prior) -> Float64Array:
        """Return C of each task."""
        return inverses_of(self.squares / prior.of_noise + np.diag(1.0 / prior.of_effects))

    def inform(self, inverses: Float64Array, prior: Prior, groups: Information) -> None:
        """Add what the tasks say about the effects of their groups."""
        precisions = 1.0 / prior.of_effects
        solved = np.einsum("tij,tj->ti", inverses, self.products)
        for group, own in _ranges(self.groups):
            total = inverses[own].sum(axis=0)
            all_known = np.diag((own.stop - own.start) * precisions)
            groups.squares[group] += all_known - precisions[:, None] * total * precisions
            groups.products[group] += precisions * solved[own].sum(axis=0) / prior.of_noise

    def effects(self, inverses: Float64Array, around: Float64Array, prior: Prior) -> Float64Array:
        """Return what tasks add to the effects around them, both of shape (n_own, n_effects)."""
        left = (self.products - np.einsum("tij,tj->ti", self.squares, around)) / prior.of_noise
        found: Float64Array = np.einsum("tij,tj->ti", inverses, left)
        return found

    def spread(
        self, inverses: Float64Array, prior: Prior, of_groups: Float64Array | None
    ) -> Spread:
        """Return the posterior variances, given P of each group; None for groups that are known."""
        precisions, noise = 1.0 / prior.of_effects, prior.of_noise
        effects = np.einsum("tii->i", inverses)
        errors = noise * (inverses.shape[0] * inverses.shape[1] - float(precisions @ effects))
        if of_groups is not None:
            kept, moved = self._moved(inverses, prior, of_groups)
            effects = effects + np.einsum("tii->i", moved)
            errors += float(np.einsum("tij,tij->", self.squares, kept))
        return Spread(effects, errors)

    def covariances(
        self, inverses: Float64Array, prior: Prior, of_groups: Float64Array | None
    ) -> Float64Array:
        """Return those of the effects around and of each task together, given P of its group."""
        if of_groups is None:
            return inverses
        return inverses + self._moved(inverses, prior, of_groups)[0]

    def _moved(
        self, inverses: Float64Array, prior: Prior, of_groups: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return (I - K) P (I - K)' and K P K' of each task."""
        kept = inverses / prior.of_effects
        lost = np.eye(kept.shape[1]) - kept
        of_groups = of_groups[self.groups]
        return (
            kept @ of_groups @ kept.transpose(0, 2, 1),
            lost @ of_groups @ lost.transpose(0, 2, 1),
        )

    def moments(self) -> tuple[Float64Array, Float64Array, float]:
        """Return the sums of U'U, U'u and u'u over tasks."""
        return self.squares.sum(axis=0), self.products.sum(axis=0), self.response_squares

    def squared_errors(self, total: Float64Array) -> float:
        """Return Σ |u - U e|² for effects e of each task, those around it included."""
        fitted = np.einsum("tij,tj->ti", self.squares, total)
        return self.response_squares + float((total * (fitted - 2.0 * self.products)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class RowsByTask:
    """Rows, in batches of tasks.

    Attributes
    ----------
    batches : list of FewRows or ManyRows
    parents : list of ndarray of int64, shape (n_names,)
        Group of each group of nested tasks, outermost first, then of each task; those of the
        outermost ones are all 0.
    n_effects : int
    n_rows : int
        Rows with weight: others are left out.
    """

    batches: Sequence[FewRows | ManyRows]
    parents: list[Int64Array]
    n_effects: int
    n_rows: int

    @classmethod
    def of_rows(
        cls,
        z: Float64Array,
        response: Float64Array,
        hessian: Float64Array,
        codes: Int32Array | Int64Array,
        parents: list[Int64Array],
    ) -> RowsByTask:
        """Return the batches of rows; `z` of shape (n_rows, n_columns) without the ones."""
        groups = parents[-1]
        used = np.flatnonzero(hessian)
        order = used[np.argsort(codes[used], kind="stable")]
        ends = np.cumsum(np.bincount(codes[used], minlength=len(groups)))
        counts = np.diff(ends, prepend=0)
        n_effects = z.shape[1] + 1
        roots = np.sqrt(hessian)

        def scaled(rows: Int64Array) -> Float64Array:
            root = roots[rows, None]
            own: Float64Array = np.concatenate([root, z[rows] * root], axis=-1)
            return own

        batches: list[FewRows | ManyRows] = []
        sizes = np.minimum(counts, n_effects)
        for size in np.unique(sizes):
            tasks = np.flatnonzero(sizes == size)
            tasks = tasks[np.argsort(groups[tasks], kind="stable")]
            at_once = max(1, _MOST_NUMBERS // (n_effects * max(1, int(size))))
            for own in np.split(tasks, range(at_once, len(tasks), at_once)):
                if size < n_effects:
                    rows = order[(ends[own] - size)[:, None] + np.arange(size)]
                    of_rows = roots[rows] * response[rows]
                    batches.append(FewRows(own, groups[own], scaled(rows), of_rows))
                else:
                    parts = [order[ends[task] - counts[task] : ends[task]] for task in own]
                    responses = [roots[rows] * response[rows] for rows in parts]
                    moments = ManyRows.of_rows(own, groups[own], map(scaled, parts), responses)
                    batches.append(moments)
        return cls(batches, parents, n_effects, len(used))


def inverses_of(matrices: Float64Array) -> Float64Array:
    """Return the inverses of positive definite matrices: shape (n_matrices, n, n)."""
    if matrices.shape[-1] < _LARGE:
        return np.linalg.inv(matrices).astype(np.float64, copy=False)
    found = np.empty_like(matrices)
    for own, inverse in zip(matrices, found, strict=True):
        factor, failed = lapack.dpotrf(own, lower=True, clean=True)
        if failed:  # by rounding
            inverse[:] = np.linalg.inv(own)
            continue
        lower, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
        inverse[:] = lower + np.tril(lower, -1).T
    return found


def _ranges(groups: Int64Array) -> Iterator[tuple[int, slice]]:
    """Yield each group and where its tasks are."""
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(groups)], strict=True):
        yield int(groups[begin]), slice(int(begin), int(end))
