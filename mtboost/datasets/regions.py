# SPDX-License-Identifier: Apache-2.0
"""Related tasks: where rows lie in the plane, and which label they have there.

A region is a Bayesian network of two nodes, the columns: the parent has a density, the child is a
curve of the parent plus a deviation that has a density (faddoul2012, section 4.1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from mtboost.base.arrays import Float64Array
from mtboost.errors import DataError

LabelArray = npt.NDArray[np.int64]


def _linear(values: Float64Array) -> Float64Array:
    return values


def _cubic(values: Float64Array) -> Float64Array:
    return values**3


def _exponential(values: Float64Array) -> Float64Array:
    exponential: Float64Array = np.expm1(values)
    return exponential


_CURVES = (_linear, _cubic, _exponential)
_SLOPES = (0.5, 1.5)  # of either sign
_PARENT_SD = (0.4, 0.7)  # along the curve
_CHILD_SD = (0.1, 0.25)  # off the curve
_BETA_SHAPES = (1.5, 5.0)  # above 1: the density is bounded


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Rows along a curve, with a lower and an upper part.

    Attributes
    ----------
    parent : {0, 1}
        Column that the other one, the child, follows.
    center : ndarray of float64, shape (2,)
        Mean of the parent, and the child's value on the curve there, by column.
    curve : callable
        Takes the parent's distance to its mean to the child's, before the slope.
    slope : float
        What the curve is multiplied with.
    parent_law, child_law : frozen distribution of scipy.stats
        Of the parent about its mean and of the child about the curve; both have mean 0.
    """

    parent: int
    center: Float64Array
    curve: Callable[[Float64Array], Float64Array]
    slope: float
    parent_law: Any
    child_law: Any

    def draw(self, n_rows: int, rng: np.random.Generator) -> Float64Array:
        """Draw independent rows.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        rng : numpy.random.Generator
            Source of the randomness.

        Returns
        -------
        ndarray of float64, shape (n_rows, 2)
            Points of the plane.
        """
        along = self.parent_law.rvs(n_rows, random_state=rng)
        off = self.child_law.rvs(n_rows, random_state=rng)
        child = self.slope * self.curve(along) + off
        columns = (along, child) if self.parent == 0 else (child, along)
        return np.column_stack(columns) + self.center

    def log_density(self, X: Float64Array) -> Float64Array:
        """Compute the logarithm of the density of the region's rows at each row.

        Parameters
        ----------
        X : ndarray of float64, shape (n_rows, 2)
            Points of the plane.

        Returns
        -------
        ndarray of float64, shape (n_rows,)
            Natural logarithms.
        """
        along, child = (X - self.center).T[[self.parent, 1 - self.parent]]
        off = child - self.slope * self.curve(along)
        log_density: Float64Array = self.parent_law.logpdf(along) + self.child_law.logpdf(off)
        return log_density

    def is_upper(self, X: Float64Array) -> npt.NDArray[np.bool_]:
        """Return whether the parent is above its median, for each row.

        Parameters
        ----------
        X : ndarray of float64, shape (n_rows, 2)
            Points of the plane.

        Returns
        -------
        ndarray of bool, shape (n_rows,)
            True in the upper part.
        """
        upper: npt.NDArray[np.bool_] = (
            X[:, self.parent] > self.center[self.parent] + self.parent_law.median()
        )
        return upper


def draw_region(center: Float64Array, rng: np.random.Generator) -> Region:
    """A region whose direction, curve, densities and their parameters are random."""
    return Region(
        parent=int(rng.integers(2)),
        center=center,
        curve=_CURVES[rng.integers(len(_CURVES))],
        slope=float(rng.choice([-1.0, 1.0]) * rng.uniform(*_SLOPES)),
        parent_law=_draw_law(rng.uniform(*_PARENT_SD), rng),
        child_law=_draw_law(rng.uniform(*_CHILD_SD), rng),
    )


def _draw_law(sd: float, rng: np.random.Generator) -> Any:
    """A Beta, Gaussian or Laplace distribution with mean 0 and the given standard deviation."""
    kind = rng.integers(3)
    if kind == 0:
        shapes = rng.uniform(*_BETA_SHAPES, 2)
        scale = sd / stats.beta(*shapes).std()
        return stats.beta(*shapes, loc=-scale * stats.beta(*shapes).mean(), scale=scale)
    return stats.norm(scale=sd) if kind == 1 else stats.laplace(scale=sd / np.sqrt(2.0))


@dataclass(frozen=True, slots=True, eq=False)
class RegionalConcept:
    """Labels of one task as a function of the two columns.

    Attributes
    ----------
    regions : tuple of Region
        Each has the same share of the task's rows.
    labels : ndarray of int64, shape (n_regions, 2)
        Label of the lower and the upper part of each region, before noise.
    n_labels : int
        Labels of the task: 0 to ``n_labels - 1``.
    label_noise : float
        Probability of another label; each of them is as likely.
    """

    regions: tuple[Region, ...]
    labels: LabelArray
    n_labels: int
    label_noise: float

    def probability(self, X: npt.ArrayLike) -> Float64Array:
        """P(label | row) of any rows, also those of another task.

        Parameters
        ----------
        X : array-like of float, shape (n_rows, 2)
            Points of the plane.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_labels)
            Noise included; NaN for a row that can come from no region.

        Raises
        ------
        DataError
            X has not two columns.
        """
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise DataError(f"X has shape {rows.shape}, but rows of this concept have 2 columns.")
        log_density = np.array([region.log_density(rows) for region in self.regions])
        with np.errstate(invalid="ignore"):  # -inf in all regions: NaN is the answer
            from_region = special.softmax(log_density, axis=0)
        label = self.label_by_region(rows)
        clean = np.column_stack(
            [(from_region * (label == code)).sum(axis=0) for code in range(self.n_labels)]
        )
        other = self.label_noise / (self.n_labels - 1)
        probability: Float64Array = other + (1.0 - self.label_noise - other) * clean
        return probability

    def label_by_region(self, X: Float64Array) -> LabelArray:
        """Return the label, before noise, that each row would have in each region.

        Parameters
        ----------
        X : ndarray of float64, shape (n_rows, 2)
            Points of the plane.

        Returns
        -------
        ndarray of int64, shape (n_regions, n_rows)
            Labels, 0 to ``n_labels - 1``.
        """
        return np.array(
            [
                of_part[region.is_upper(X).astype(np.intp)]
                for region, of_part in zip(self.regions, self.labels, strict=True)
            ]
        )
