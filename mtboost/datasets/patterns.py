# SPDX-License-Identifier: Apache-2.0
"""Fraud scenes: what fraud looks like.

A formula takes the columns it reads and its parameters to one value a row, NaN where a column is
missing (heaviside, unlike a comparison, hands NaN on).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from mtboost.base.arrays import Float64Array
from mtboost.datasets.populations import BLOCK, KINDS, Population, RowNumbers, Table
from mtboost.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class FraudPattern:
    """One nonlinear effect on the log-odds: ``weight * (formula(columns) - mean) / sd``.

    A row that lacks one of the columns gets 0, the pattern's mean, unless the pattern is about
    the missing value itself.

    Attributes
    ----------
    formula : callable
        Takes the columns, shape (n_columns, n_rows), and ``parameters``; NaN in, NaN out.
    columns : tuple of int
        Columns of the task's table that the pattern reads.
    parameters : ndarray of float64
        Thresholds, scales or effects per code that the formula uses.
    mean, sd : float
        Mean and standard deviation of the formula among rows that have all the columns.
    weight : float
        Log-odds per standard deviation.
    """

    formula: Callable[[Float64Array, Float64Array], Float64Array]
    columns: tuple[int, ...]
    parameters: Float64Array
    mean: float = 0.0
    sd: float = 1.0
    weight: float = 1.0

    def log_odds(self, X: Table) -> Float64Array:
        """Compute the effect on the log-odds of each row.

        Parameters
        ----------
        X : ndarray of float32, shape (n_rows, n_features)
            Rows of the task; NaN is missing.

        Returns
        -------
        ndarray of float64, shape (n_rows,)
            0 where a column is missing.
        """
        effect = self.formula(X[:, self.columns].T.astype(np.float64), self.parameters)
        with np.errstate(invalid="ignore"):  # an effect that all rows have has no deviation
            return self.weight * np.nan_to_num((effect - self.mean) / self.sd, nan=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class FraudConcept:
    """Log-odds of fraud as a function of the observed columns of one task.

    Attributes
    ----------
    intercept : float
        Sets the base rate of the task.
    patterns : tuple of FraudPattern
        Effects that are added; patterns that tasks share have the same formula, columns and
        parameters in each of them.
    """

    intercept: float
    patterns: tuple[FraudPattern, ...]

    def log_odds(self, X: npt.ArrayLike) -> Float64Array:
        """Log-odds of P(y = 1 | row) for any rows, also those of another task.

        Parameters
        ----------
        X : array-like of float32, shape (n_rows, n_features)
            Columns in the order of the task's ``feature_names``; NaN is missing. Only the columns
            that the patterns read need be there: the common ones if ``relatedness`` was 1.

        Returns
        -------
        ndarray of float64, shape (n_rows,)
            Log-odds.

        Raises
        ------
        DataError
            X is not a table, or has too few columns for the patterns.
        """
        table = np.asarray(X, dtype=np.float32)
        n_needed = 1 + max((max(pattern.columns) for pattern in self.patterns), default=-1)
        if table.ndim != 2 or table.shape[1] < n_needed:
            raise DataError(
                f"X has shape {table.shape}, but the patterns of this concept read a table with at "
                f"least {n_needed} columns: pass rows in the order of feature_names."
            )
        log_odds = np.zeros(len(table))
        for start in range(0, len(table), BLOCK):
            rows = slice(start, start + BLOCK)
            for pattern in self.patterns:
                log_odds[rows] += pattern.log_odds(table[rows])
        return log_odds + self.intercept


def _burst_on_new_device(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """Many transactions (a threshold) while the device is new (a smooth decay)."""
    count, days = columns
    many, half_life = parameters
    risk: Float64Array = np.heaviside(count - many, 1.0) * np.exp2(-days / half_life)
    return risk


def _far_above_usual(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """The ratio of an amount to the usual one: flat up to a point, then growing."""
    amount, usual_amount = columns
    (start,) = parameters
    risk: Float64Array = -special.log_expit(-3.0 * (np.log(amount / usual_amount) - start))
    return risk


def _place_at_late_hour(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """An effect of each code that fades in and out around a late hour."""
    code, hour = columns
    peak, effects = parameters[0], parameters[1:]
    late: Float64Array = np.cos((hour - peak) * (np.pi / 24.0)) ** 6  # period 24, 0 half a day off
    return _look_up(effects, code) * late


def _place_above_share(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """An effect of each code that counts from a threshold of a share on."""
    code, share = columns
    threshold, effects = parameters[0], parameters[1:]
    above: Float64Array = np.heaviside(share - threshold, 1.0)
    return _look_up(effects, code) * above


def _look_up(effects: Float64Array, code: Float64Array) -> Float64Array:
    """The effect of each code; NaN stays NaN."""
    return np.where(np.isnan(code), np.nan, effects[np.nan_to_num(code).astype(np.intp)])


def _ratio_of_counts(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """A smooth step in the ratio of two counts."""
    count, other_count = columns
    (middle,) = parameters
    step: Float64Array = special.expit(3.0 * (np.log1p(count) - np.log1p(other_count) - middle))
    return step


def _bump(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """A bump: the same value further up or down has no effect."""
    (behaviour,) = columns
    center, width = parameters
    bump: Float64Array = np.exp(-0.5 * ((behaviour - center) / width) ** 2)
    return bump


def _both_or_neither(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """The product of two smooth steps: neither column has much of an effect alone."""
    first, second = np.tanh(1.5 * (columns - parameters[:, np.newaxis]))
    product: Float64Array = first * second
    return product


def _direction(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """A weighted sum of several columns, levelling off: steep across the axes, not along them."""
    level: Float64Array = np.tanh((parameters[:, np.newaxis] * columns).sum(axis=0))
    return level


def _left_blank(columns: Float64Array, parameters: Float64Array) -> Float64Array:
    """The absence of a value."""
    blank: Float64Array = np.isnan(columns[0]).astype(np.float64)
    return blank


@dataclass(frozen=True, slots=True)
class _Recipe:
    """A formula, the kinds of columns it reads, and how its parameters are drawn.

    ``parameters`` takes the columns of the reference rows and the generator.
    """

    formula: Callable[[Float64Array, Float64Array], Float64Array]
    kinds: tuple[str, ...]
    parameters: Callable[[Float64Array, np.random.Generator], list[float]]
    always_raises: bool = False


_N_CODES = 40  # effects drawn for a category column; columns with fewer codes use the first ones
_RECIPES = (
    _Recipe(
        _burst_on_new_device,
        ("count", "days"),
        lambda columns, rng: [
            np.nanquantile(columns[0], rng.uniform(0.8, 0.95)),
            np.nanquantile(columns[1], rng.uniform(0.2, 0.4)),
        ],
        always_raises=True,
    ),
    _Recipe(
        _far_above_usual,
        ("amount", "usual_amount"),
        lambda columns, rng: [
            np.nanquantile(np.log(columns[0] / columns[1]), rng.uniform(0.6, 0.9))
        ],
        always_raises=True,
    ),
    _Recipe(
        _place_at_late_hour,
        ("category", "hour"),
        lambda columns, rng: [
            np.nanquantile(columns[1], rng.uniform(0.9, 0.99)),
            *rng.normal(size=_N_CODES),
        ],
    ),
    _Recipe(
        _place_above_share,
        ("category", "share"),
        lambda columns, rng: [
            np.nanquantile(columns[1], rng.uniform(0.4, 0.8)),
            *rng.normal(size=_N_CODES),
        ],
    ),
    _Recipe(
        _ratio_of_counts,
        ("count", "count"),
        lambda columns, rng: [
            np.nanquantile(np.log1p(columns[0]) - np.log1p(columns[1]), rng.uniform(0.3, 0.8))
        ],
    ),
    _Recipe(
        _bump,
        ("behaviour",),
        lambda columns, rng: [
            np.nanquantile(columns[0], rng.uniform(0.1, 0.9)),
            rng.uniform(0.4, 0.9),
        ],
    ),
    _Recipe(
        _both_or_neither,
        ("behaviour", "behaviour"),
        lambda columns, rng: list(np.nanquantile(columns, rng.uniform(0.3, 0.7), axis=1)),
    ),
    _Recipe(
        _direction,
        ("behaviour",) * 4,
        lambda columns, rng: list(rng.normal(scale=0.5, size=len(columns))),
    ),
    _Recipe(_left_blank, ("telling",), lambda columns, rng: []),
)


def draw_patterns(
    populations: dict[str, Population],
    references: dict[str, Table],
    relatedness: float,
    log_odds_sd: float,
    rng: np.random.Generator,
) -> dict[str, tuple[FraudPattern, ...]]:
    """Patterns of each task: shared and own ones, mixed so that their sum always varies as much.

    With S the shared and O the task's own sum of patterns, both of the same standard deviation
    over the task's reference rows, a task has c (relatedness S + (1 - relatedness) O). The factor
    c gives the mix the standard deviation of S; it is 1 for relatedness 1.
    """
    common = min(populations.values(), key=lambda population: len(population.kinds))
    n_common = len(common.kinds)
    rows_of_all = np.concatenate([rows[:, :n_common] for rows in references.values()])
    shared = _draw_concept(common, rows_of_all, log_odds_sd, (), rng)

    drawn = list(shared)
    mixed = {}
    for task, population in populations.items():
        rows = references[task]
        shared_sum = _sum(shared, rows)
        own = _draw_concept(population, rows, float(np.std(shared_sum)), drawn, rng)
        drawn += own
        mix = relatedness * shared_sum + (1.0 - relatedness) * _sum(own, rows)
        factor = float(np.std(shared_sum) / np.std(mix))
        mixed[task] = (
            *_weighted(shared, factor * relatedness),
            *_weighted(own, factor * (1.0 - relatedness)),
        )
    return mixed


def _draw_concept(
    population: Population,
    rows: Table,
    sd: float,
    earlier: Sequence[FraudPattern],
    rng: np.random.Generator,
) -> tuple[FraudPattern, ...]:
    """One pattern of each recipe; their sum has standard deviation ``sd`` over the rows.

    A recipe's first column differs from that of earlier concepts, so that no pattern is shared by
    chance.
    """
    pools = {kind: np.flatnonzero(population.kinds == kind) for kind in KINDS}
    pools["telling"] = np.flatnonzero((population.tie > 0.0) & (population.hidden_below > -np.inf))
    patterns = []
    for recipe in _RECIPES:
        taken = [pattern.columns[0] for pattern in earlier if pattern.formula is recipe.formula]
        columns = _draw_columns(recipe.kinds, pools, taken, rng)
        weight = rng.uniform(0.5, 1.5)
        if not recipe.always_raises:
            weight *= rng.choice([-1.0, 1.0])
        if len(columns) < len(recipe.kinds):  # complete tables have no telling column
            continue
        read = rows[:, columns].T.astype(np.float64)
        parameters = np.array(recipe.parameters(read, rng))
        effect = recipe.formula(read, parameters)
        patterns.append(
            FraudPattern(
                recipe.formula,
                tuple(columns),
                parameters,
                mean=float(np.nanmean(effect)),
                sd=float(np.nanstd(effect)),
                weight=float(weight),
            )
        )
    return _weighted(patterns, sd / float(np.std(_sum(patterns, rows))))


def _draw_columns(
    kinds: Sequence[str],
    pools: Mapping[str, RowNumbers],
    taken: Sequence[int],
    rng: np.random.Generator,
) -> list[int]:
    """Different columns of the wanted kinds; fewer where a pool is too small.

    Columns of the first kind are not among ``taken``. A usual amount is that of its amount.
    """
    shuffled = {kind: list(rng.permutation(pools[kind])) for kind in dict.fromkeys(kinds)}
    shuffled[kinds[0]] = [column for column in shuffled[kinds[0]] if column not in taken]
    if "usual_amount" in kinds:
        usual_of = dict(zip(pools["amount"], pools["usual_amount"], strict=True))
        shuffled["usual_amount"] = [usual_of[amount] for amount in shuffled["amount"]]
    return [int(shuffled[kind].pop()) for kind in kinds if shuffled[kind]]


def _sum(patterns: Sequence[FraudPattern], rows: Table) -> Float64Array:
    return FraudConcept(0.0, tuple(patterns)).log_odds(rows)


def _weighted(patterns: Sequence[FraudPattern], factor: float) -> tuple[FraudPattern, ...]:
    """The patterns with their weights multiplied; none if nothing would remain of them."""
    if factor == 0.0:
        return ()
    return tuple(replace(pattern, weight=factor * pattern.weight) for pattern in patterns)


def intercept_for(signal: Float64Array, rate: float) -> float:
    """The intercept with which the rows expect the given share of positives."""
    intercept: float = optimize.brentq(
        lambda intercept: float(special.expit(signal + intercept).mean()) - rate,
        special.logit(rate) - signal.max() - 1.0,  # 1 more than needed, for rounding
        special.logit(rate) - signal.min() + 1.0,
    )
    return intercept
