# SPDX-License-Identifier: Apache-2.0
"""Quantiles of conformity scores for each task, shrunk towards those of all tasks.

Scores are errors of held-out rows, all >= 0. docs/intervals.md has the argument; in short, for a
task with n scores:

0. Where tasks with fewer scores have larger ones, scores are first divided by that trend.
1. Its scale is the mean of its scores, shrunk to that of all tasks (credibility): with sum S it is
   (c m + S)/(c + n), with a smaller c for a task that is far from the others. Each score is divided
   by the scale that the other rows of its task give.
2. The ratios of the other tasks are computed as if these had about n scores too, so that they show
   how uncertain a scale of so few scores is. A task without scores has the scale m.
3. The distribution of the task's ratios is shrunk to that of all tasks: n of these ratios count
   beside κ of the others, whose tasks have weights n_t κ/(n_t + κ).
4. The interval takes the ratio at level 1 - alpha, where the row to predict counts as one that is
   infinite.

tests/oracle/naive_conformal.py does the same in loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.trees.shrinkage import bound_population, estimate_population

#: Numbers of scores for which quantiles are computed; above the last, of all scores of a task.
_COUNTS = np.array([0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256])
_ALL = np.iinfo(np.int64).max
#: Least c and κ: that much the tasks always share.
_LEAST_SHARED = 1e-3
#: Confidence of the upper bound of the variance between tasks. With too small a variance noisy
#: tasks are covered too rarely; with too large a one coverage is less even, but right on average.
_CONFIDENCE = 0.75
#: Standard deviations from the mean of all tasks beyond which a task has a smaller c.
_FARTHEST = 2.0
_N_ESTIMATES = 3  # of a mean or weights, and of the spread that they follow from
#: Tasks that show a trend.
_LEAST_OF_TREND = 4
_ROUNDING = 1e-12  # of a sum of weights


@dataclass(frozen=True, slots=True, eq=False)
class TaskQuantiles:
    """Quantiles of the conformity scores of new rows.

    Attributes
    ----------
    by_task : ndarray of float64, shape (n_tasks,)
        Infinite where there are too few scores.
    unknown : float
        That of a task without scores.
    """

    by_task: Float64Array
    unknown: float


def task_quantiles(scores: Sequence[Float64Array], alpha: float) -> TaskQuantiles:
    """Return bounds that the score of a new row of each task exceeds with probability `alpha`.

    Parameters
    ----------
    scores : sequence of ndarray of float64, shape (n_scores,)
        Those of each task, >= 0, in any order; none for a task without held-out rows.
    alpha : float in (0, 1)
    """
    trend = _size_trend(scores)
    if (trend == 1.0).all():
        return _quantiles(scores, alpha)
    found = _quantiles([own / unit for own, unit in zip(scores, trend, strict=True)], alpha)
    unknown = _quantiles(scores, alpha).unknown
    has_scores = np.array([len(own) > 0 for own in scores])
    return TaskQuantiles(np.where(has_scores, trend * found.by_task, unknown), unknown)


def _size_trend(scores: Sequence[Float64Array]) -> Float64Array:
    """Return the mean score that the number of scores of each task lets expect, in units of all.

    A model of few rows of a task has larger errors there. The logarithm of the mean is a line in
    that of the number, by weighted least squares with a spread of tasks about it. The line is level
    unless it falls by more than one standard error: a smaller slope costs more than it corrects.
    """
    n = np.array([len(own) for own in scores], np.float64)
    means = np.array([own.mean() if len(own) else 0.0 for own in scores])
    has = means > 0.0
    trend = np.ones(len(scores))
    if np.count_nonzero(has) < _LEAST_OF_TREND or len(np.unique(n[has])) < 2:
        return trend
    x, y = np.log(n[has]), np.log(means[has])
    ratios = [own / mean - 1.0 for own, mean in zip(scores, means, strict=True) if mean > 0.0]
    squares = float(sum((own**2).sum() for own in ratios))
    variances = squares / max(1.0, n[has].sum() - len(x)) / n[has]
    spread = 0.0
    for _ in range(_N_ESTIMATES):
        weights = 1.0 / np.maximum(variances + spread, _ROUNDING)
        centre, level = np.average(x, weights=weights), np.average(y, weights=weights)
        squares = float((weights * (x - centre) ** 2).sum())
        slope = float((weights * (x - centre) * (y - level)).sum()) / squares
        spread = estimate_population(y - slope * (x - centre), variances).spread
    if slope >= 0.0 or slope**2 * squares <= 1.0:
        return trend
    trend[has] = np.exp(slope * (x - centre))
    return trend


def _quantiles(scores: Sequence[Float64Array], alpha: float) -> TaskQuantiles:
    """Return the quantiles of tasks whose scores do not depend on their number."""
    n_of_task = np.array([len(own) for own in scores])
    has_scores = n_of_task > 0
    if not has_scores.any():
        return TaskQuantiles(np.full(len(scores), np.inf), np.inf)
    level = 1.0 - alpha
    pool = _Pool.of([own for own in scores if len(own)])
    counts = np.append(_COUNTS, _ALL)
    used = np.searchsorted(_COUNTS, n_of_task, "right") - 1
    used[n_of_task > _COUNTS[-1]] = len(_COUNTS)
    used_by_pool = used[has_scores]
    own = pool.sorted_ratios(_ALL)
    found, unknown = np.empty(len(pool.n_scores)), np.inf
    for number in np.unique(np.append(used, 0)):
        of_all = _Mixture.of(pool.sorted_ratios(counts[number]), pool, level)
        if number == 0:
            unknown = pool.mean * of_all.quantile(level)
        tasks = used_by_pool == number
        found[tasks] = pool.scales[tasks] * of_all.quantiles_with(own, pool, tasks, level)
    by_task = np.full(len(scores), unknown)
    by_task[has_scores] = found
    return TaskQuantiles(by_task, unknown)


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Scores of all tasks, task after task.

    Attributes
    ----------
    scores : ndarray of float64, shape (n_rows,)
        Rows of a task are in random order.
    n_scores, starts : ndarray of int64, shape (n_tasks,)
        Number of scores, and position of the first.
    codes : ndarray of int64, shape (n_rows,)
        Task of each row.
    means : ndarray of float64, shape (n_tasks,)
        Mean scores.
    mean : float
        Mean m of all tasks.
    credibility : float
        Number c of scores that m counts beside those of a task.
    relative : float
        Variance of the scores of a task over their squared mean.
    """

    scores: Float64Array
    n_scores: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    means: Float64Array
    mean: float
    credibility: float
    relative: float

    @classmethod
    def of(cls, scores: Sequence[Float64Array]) -> _Pool:
        """Return the pool of tasks that all have scores."""
        n_scores = np.array([len(own) for own in scores])
        codes = np.repeat(np.arange(len(scores)), n_scores)
        values = np.concatenate(scores)
        # The rows that a scale is computed from must not depend on the order of rows in a table.
        values = values[np.lexsort((np.random.default_rng(0).random(len(values)), codes))]
        means = np.bincount(codes, values) / n_scores
        starts = np.cumsum(n_scores) - n_scores
        estimates = _credibility(values, codes, means, n_scores)
        return cls(values, n_scores, starts, codes, means, *estimates)

    @property
    def scales(self) -> Float64Array:
        """The scale of each task, from all of its scores."""
        return self._shrunk(self.means * self.n_scores, self.n_scores)

    def sorted_ratios(self, n_others: int) -> _Ratios:
        """Divide each score by the scale that up to `n_others` other rows of its task give."""
        n = self.n_scores[self.codes]
        n_used = np.minimum(n_others, n - 1)
        if not n_others or np.isinf(self.credibility):
            scales = np.full(len(n), self.mean)
        else:
            scales = self._shrunk(self._sums_of_others(n, n_used), n_used)
        ratios = np.divide(self.scores, scales, out=np.zeros(len(n)), where=scales > 0.0)
        order = np.argsort(ratios, kind="stable")
        return _Ratios(ratios[order], self.codes[order])

    def _sums_of_others(
        self, n: npt.NDArray[np.int64], n_used: npt.NDArray[np.int64]
    ) -> Float64Array:
        """Sum of the rows after each, and from the first one on after the last."""
        # In units of the task's mean, so that no large task hides the values of a small one.
        unit = self.means[self.codes]
        shares = np.divide(self.scores, unit, out=np.zeros(len(n)), where=unit > 0.0)
        sums = np.append(0.0, np.cumsum(shares))
        first = self.starts[self.codes]
        place = np.arange(len(n))
        end = place + 1 + n_used
        n_over = np.maximum(end - (first + n), 0)
        own = sums[end - n_over] - sums[place + 1] + sums[first + n_over] - sums[first]
        return np.asarray(np.maximum(own, 0.0) * unit)

    def _shrunk(self, sums: Float64Array, n: npt.NDArray[np.int64]) -> Float64Array:
        """Scale of tasks with the given sums of `n` scores.

        If the mean of a task is more than two standard deviations from m, its c follows from the
        variance between tasks with which it would be two. Otherwise a noisy task beside many
        similar ones would be shrunk to them however clear the difference is (efron1972, key in
        docs/papers.md, limits this shift by another rule).
        """
        if np.isinf(self.credibility):
            return np.full(len(sums), self.mean)
        n_or_1 = np.maximum(n, 1)
        squares = (sums / n_or_1 / self.mean - 1.0) ** 2 / max(self.relative, _ROUNDING)
        own = np.where(n > 0, squares / _FARTHEST**2 - 1.0 / n_or_1, 0.0)
        c = np.maximum(1.0 / np.maximum(1.0 / self.credibility, own), _LEAST_SHARED)
        return np.asarray((c * self.mean + sums) / (c + n))


def _credibility(
    scores: Float64Array,
    codes: npt.NDArray[np.int64],
    means: Float64Array,
    n_scores: npt.NDArray[np.int64],
) -> tuple[float, float, float]:
    """Mean m of all tasks, c, and the variance within a task over its squared mean.

    The standard deviation within a task is proportional to its mean. c is the variance within tasks
    over an upper bound of that between their means.
    """
    mean = float(scores.mean())
    if mean == 0.0:
        return 0.0, np.inf, 1.0
    squares = np.bincount(codes, (scores - means[codes]) ** 2)
    has_free = (n_scores > 1) & (means > 0.0)
    n_free = int((n_scores[has_free] - 1).sum())
    relative = float((squares[has_free] / means[has_free] ** 2).sum() / n_free) if n_free else 1.0
    spread = 0.0
    for _ in range(_N_ESTIMATES):
        population = bound_population(means, relative * mean**2 / n_scores, _CONFIDENCE)
        mean, spread = population.mean, population.spread
    if spread == 0.0:
        return mean, np.inf, relative
    return mean, max(relative * mean**2 / spread, _LEAST_SHARED), relative


@dataclass(frozen=True, slots=True, eq=False)
class _Ratios:
    """Scores in units of scales, ascending, and the task of each."""

    values: Float64Array
    codes: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    """Distribution of the ratio of a new row, by those of all tasks.

    Attributes
    ----------
    values : ndarray of float64, shape (n_rows,)
        Ratios, ascending.
    below : ndarray of float64, shape (n_rows,)
        Probability of at most each; the last is less than 1, because the new row counts too.
    kappa : float
        How many ratios of a task say as much about it as those of all tasks. The part of a
        task's ratios below a quantile of all varies between tasks as a beta distribution of κ rows.
        Infinite where it varies no more than by chance.
    """

    values: Float64Array
    below: Float64Array
    kappa: float

    @classmethod
    def of(cls, ratios: _Ratios, pool: _Pool, level: float) -> _Mixture:
        """Estimate κ at the quantile of this level."""
        found, variance = cls._with(ratios, pool, np.inf), level * (1.0 - level)
        for _ in range(_N_ESTIMATES):
            is_below = ratios.values <= found.quantile(level)
            n_below = np.bincount(ratios.codes[is_below], minlength=len(pool.n_scores))
            shares = n_below / pool.n_scores
            spread = estimate_population(shares, variance / pool.n_scores).spread
            kappa = max(variance / spread - 1.0, _LEAST_SHARED) if spread > 0.0 else np.inf
            found = cls._with(ratios, pool, kappa)
        return found

    @classmethod
    def _with(cls, ratios: _Ratios, pool: _Pool, kappa: float) -> _Mixture:
        """A task has the weight n κ/(n + κ); the new row has that of a task with one row."""
        if np.isinf(kappa):
            sums, new = np.arange(1.0, len(ratios.values) + 1.0), 1.0
        else:
            sums = np.cumsum((kappa / (pool.n_scores + kappa))[ratios.codes])
            new = kappa / (1.0 + kappa)
        return cls(ratios.values, sums / (sums[-1] + new), kappa)

    def quantile(self, level: float) -> float:
        """The least value with at least this probability below."""
        return float(self.quantiles(np.array([level]))[0])

    def quantiles(self, levels: Float64Array) -> Float64Array:
        """Quantiles: -inf for a level of 0 or less, infinity above the last ratio."""
        values = np.concatenate([[-np.inf], self.values, [np.inf]])
        places = np.searchsorted(np.append(0.0, self.below), levels - _ROUNDING)
        return values[places]

    def quantiles_with(
        self, own: _Ratios, pool: _Pool, tasks: npt.NDArray[np.bool_], level: float
    ) -> Float64Array:
        """Quantiles for some tasks, whose own ratios count one each beside κ of these.

        If j of a task's n ratios are at most x, then x is high enough where those of all tasks
        reach (level (κ + n) - j)/κ: the least such x for any j is the quantile.
        """
        n = pool.n_scores[tasks]
        if np.isinf(self.kappa) or not len(n):
            return np.full(len(n), self.quantile(level))
        is_own = tasks[own.codes]
        values, codes = own.values[is_own], own.codes[is_own]
        starts = np.cumsum(n + 1) - (n + 1)  # one place more in each task, for j = 0
        reached = np.full(len(values) + len(n), -np.inf)
        is_first = np.zeros(len(reached), bool)
        is_first[starts] = True
        reached[~is_first] = values[np.argsort(codes, kind="stable")]
        n_reached = np.arange(len(reached)) - np.repeat(starts, n + 1)
        needed = (level * (self.kappa + np.repeat(n, n + 1)) - n_reached) / self.kappa
        found = np.maximum(reached, self.quantiles(np.asarray(needed, np.float64)))
        return np.asarray(np.minimum.reduceat(found, starts))
