# SPDX-License-Identifier: Apache-2.0
"""Fraud scenes: the distribution that the rows of each task are drawn from."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from mtboost.datasets.plans import ScenePlan

Table = npt.NDArray[np.float32]
RowNumbers = npt.NDArray[np.intp]

BLOCK = 1 << 14  # rows made or scored at a time: the work arrays stay small whatever the scene
MAX_MISSING = 1.5  # beyond, reference rows that have all the columns of a pattern run out
_N_FACTORS = 6
_SHIFT_SD = 0.2  # of a column's latent mean between tasks
_PAIR_CORRELATION = 0.8  # of an amount and the usual amount, on the log scale
_MAX_COUNT = 999_999.0  # counters stop here; float32 holds every count below exactly


def _log_normal(latent: Table, location: Table, tail: Table) -> Table:
    amount: Table = np.exp(location + tail * latent)
    return amount


def _whole_pareto(latent: Table, location: Table, tail: Table) -> Table:
    """Shifted Pareto values with tail index ``tail``, rounded down."""
    count: Table = np.floor(location * np.expm1(_exponential(latent) / tail))
    return np.minimum(count, _MAX_COUNT)


def _stretched_exponential(latent: Table, location: Table, tail: Table) -> Table:
    return location * _exponential(latent) ** tail


def _normal_share(latent: Table, location: Table, tail: Table) -> Table:
    share: Table = special.ndtr(location + tail * latent)
    return share


def _whole_hour(latent: Table, location: Table, tail: Table) -> Table:
    return np.mod(np.floor(location + tail * latent), np.float32(24))


def _linear(latent: Table, location: Table, tail: Table) -> Table:
    return location + tail * latent


def _exponential(latent: Table) -> Table:
    """Standard exponential values of standard normal ones, exact in both tails."""
    exponential: Table = -special.log_ndtr(-latent)
    return exponential


@dataclass(frozen=True, slots=True)
class _Kind:
    """Distribution of a kind of column; ``location`` and ``tail`` are drawn from their ranges."""

    curve: Callable[[Table, Table, Table], Table]
    location: tuple[float, float]
    tail: tuple[float, float]
    can_miss: bool = True


KINDS = {
    "amount": _Kind(_log_normal, (2.0, 5.0), (0.6, 1.4), can_miss=False),
    "usual_amount": _Kind(_log_normal, (2.0, 5.0), (0.6, 1.4)),
    "count": _Kind(_whole_pareto, (0.7, 4.0), (1.3, 3.0)),
    "days": _Kind(_stretched_exponential, (20.0, 400.0), (1.5, 1.5)),
    "share": _Kind(_normal_share, (-1.0, 0.5), (1.0, 1.0)),
    "behaviour": _Kind(_linear, (0.0, 0.0), (1.0, 1.0)),
    "hour": _Kind(_whole_hour, (14.0, 14.0), (7.0, 7.0), can_miss=False),
    "category": _Kind(_linear, (0.0, 0.0), (1.0, 1.0)),  # the latent value; codes are cut from it
}


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Distribution of the rows of one task.

    Each column is a curve, set by its kind, of a latent normal value. Latent values follow from a
    general factor, the factor of a block of columns, and noise. A value is hidden where a second
    normal value falls below ``hidden_below``; in columns whose ``tie`` is not 0 this second value
    follows the factor of the block too, so that absence is informative.

    Arrays have one entry per column; ``loadings`` has three rows: general, block, noise.
    """

    kinds: npt.NDArray[np.str_]
    block: RowNumbers
    loadings: Table
    location: Table
    tail: Table
    codes: dict[int, tuple[Table, Table]]  # category column -> cuts of the latent value, codes
    shift: Table
    spread: float
    tie: Table
    hidden_below: Table

    def draw(self, n_rows: int, rng: np.random.Generator) -> Table:
        """Independent rows, shape (n_rows, n_columns)."""
        X = np.empty((n_rows, len(self.kinds)), dtype=np.float32)
        for start in range(0, n_rows, BLOCK):
            rows = X[start : start + BLOCK]
            rows[:] = self._draw_block(len(rows), rng).T
        return X

    def _draw_block(self, n_rows: int, rng: np.random.Generator) -> Table:
        """Some rows, transposed: curves run along whole columns."""
        factors = rng.standard_normal((1 + _N_FACTORS, n_rows), dtype=np.float32)
        noise = rng.standard_normal((len(self.kinds), n_rows), dtype=np.float32)
        on_general, on_block, on_noise = self.loadings[:, :, np.newaxis]
        latent = on_general * factors[0] + on_block * factors[1 + self.block] + on_noise * noise
        usual = self.kinds == "usual_amount"
        latent[usual] *= math.sqrt(1.0 - _PAIR_CORRELATION**2)
        latent[usual] += _PAIR_CORRELATION * latent[self.kinds == "amount"]
        values: Table = self.shift[:, np.newaxis] + self.spread * latent

        for name, kind in KINDS.items():
            of_kind = self.kinds == name
            location, tail = self.location[of_kind], self.tail[of_kind]
            values[of_kind] = kind.curve(
                values[of_kind], location[:, np.newaxis], tail[:, np.newaxis]
            )
        for column, (cuts, codes) in self.codes.items():
            values[column] = codes[np.searchsorted(cuts, values[column])]

        can_miss = np.flatnonzero(self.hidden_below > -np.inf)
        tie = self.tie[can_miss, np.newaxis]
        hiding = rng.standard_normal((len(can_miss), n_rows), dtype=np.float32)
        hiding = tie * factors[1 + self.block[can_miss]] + np.sqrt(1.0 - tie**2) * hiding
        hidden = hiding < self.hidden_below[can_miss, np.newaxis]
        values[can_miss] = np.where(hidden, np.float32(np.nan), values[can_miss])
        return values


def draw_populations(
    plan: ScenePlan, missing: float, rng: np.random.Generator
) -> dict[str, Population]:
    """Distributions of the columns: common to all tasks, and different in each."""
    kinds = np.array([column.kind for column in plan.columns])
    n_columns = len(kinds)

    on_general = rng.uniform(-0.5, 0.5, n_columns)
    on_block = rng.choice([-1.0, 1.0], n_columns) * rng.uniform(0.4, 0.8, n_columns)
    on_noise = np.sqrt(1.0 - on_general**2 - on_block**2)
    block = rng.integers(_N_FACTORS, size=n_columns)
    location = np.array([rng.uniform(*KINDS[kind].location) for kind in kinds])
    tail = np.array([rng.uniform(*KINDS[kind].tail) for kind in kinds])
    for parameter in (location, tail):
        parameter[kinds == "usual_amount"] = parameter[kinds == "amount"]
    codes = {}
    for index, column in enumerate(plan.columns):
        if column.n_categories:
            shares = 1.0 / np.arange(1, column.n_categories + 1) ** 1.1  # Zipf
            cuts = special.ndtri(np.cumsum(shares)[:-1] / shares.sum())
            codes[index] = (_single(cuts), _single(rng.permutation(column.n_categories)))
    can_miss = np.array([KINDS[kind].can_miss for kind in kinds]) & (rng.random(n_columns) < 0.7)
    is_informative = rng.random(n_columns) < 0.5
    tie = np.where(is_informative, rng.uniform(0.6, 0.9, n_columns), 0.0)

    populations = {}
    for name, task in plan.tasks.items():
        rates = np.where(can_miss, missing * rng.uniform(*task.missing, n_columns), 0.0)
        shift = rng.normal(0.0, _SHIFT_SD, n_columns)
        n = task.n_columns
        populations[name] = Population(
            kinds=kinds[:n],
            block=block[:n],
            loadings=_single([on_general[:n], on_block[:n], on_noise[:n]]),
            location=_single(location[:n]),
            tail=_single(tail[:n]),
            codes={column: of_column for column, of_column in codes.items() if column < n},
            shift=_single(shift[:n]),
            spread=task.spread,
            tie=_single(tie[:n]),
            hidden_below=_single(special.ndtri(rates[:n])),
        )
    return populations


def _single(values: npt.ArrayLike) -> Table:
    """The same numbers as float32, which the tables are made in."""
    return np.asarray(values, dtype=np.float32)
