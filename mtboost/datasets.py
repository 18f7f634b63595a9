"""Generated data whose truth is known: the best possible score of every row comes with the rows."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from mtboost.errors import DataError, MissingDependencyError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FraudConcept", "FraudPattern", "FraudScenes", "make_fraud_scenes"]

FloatArray = npt.NDArray[np.float64]
Table = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_BLOCK = 1 << 14  # rows made or scored at a time: the work arrays stay small whatever the scene


# ---------------------------------------------------------------------------------------------
# Fraud scenes (zhang2019, table 2): what the caller gets
# ---------------------------------------------------------------------------------------------


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

    formula: Callable[[FloatArray, FloatArray], FloatArray]
    columns: tuple[int, ...]
    parameters: FloatArray
    mean: float = 0.0
    sd: float = 1.0
    weight: float = 1.0

    def log_odds(self, X: Table) -> FloatArray:
        """Effect on the log-odds of each row of X, shape (n_rows,)."""
        effect = self.formula(X[:, self.columns].T.astype(np.float64), self.parameters)
        return self.weight * np.nan_to_num((effect - self.mean) / self.sd, nan=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class FraudConcept:
    """How the log-odds of fraud follow from the observed columns of one task.

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

    def log_odds(self, X: npt.ArrayLike) -> FloatArray:
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
        for start in range(0, len(table), _BLOCK):
            rows = slice(start, start + _BLOCK)
            for pattern in self.patterns:
                log_odds[rows] += pattern.log_odds(table[rows])
        return log_odds + self.intercept


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FraudScenes:
    """Rows of every task of a scene, with the score no model can beat.

    Every mapping has the names of the tasks as keys, in the same order.

    Attributes
    ----------
    X : dict of ndarray of float32, shape (n_rows, n_features)
        C-contiguous; NaN is missing, categories are whole codes from 0.
    y : dict of ndarray of int64, shape (n_rows,)
        1 is fraud.
    bayes_score : dict of ndarray of float64, shape (n_rows,)
        Log-odds of P(y = 1 | X), exactly: the labels were drawn from them.
    feature_names : dict of tuple of str
        Columns of each task. The common ones come first, in the same order in every task.
    categorical : dict of int
        Name of each category column, with its number of codes.
    concept : dict of FraudConcept
        The function behind ``bayes_score``, for rows of your own.
    """

    X: dict[str, Table]
    y: dict[str, Labels]
    bayes_score: dict[str, FloatArray]
    feature_names: dict[str, tuple[str, ...]]
    categorical: dict[str, int]
    concept: dict[str, FraudConcept]

    def __repr__(self) -> str:
        tasks = ", ".join(
            f"{task}: {len(X)} rows x {X.shape[1]} features, {self.y[task].sum()} positive"
            for task, X in self.X.items()
        )
        return f"{type(self).__name__}({tasks})"

    @property
    def common_features(self) -> tuple[str, ...]:
        """Names of the columns that every task has, in the order of the tables."""
        first, *others = self.feature_names.values()
        return tuple(name for name in first if all(name in names for names in others))

    @property
    def feature_types(self) -> dict[str, list[str]]:
        """xgboost's types for the NumPy tables of each task: "c" for a category, "q" for a number.

        For ``DMatrix(X[task], feature_types=feature_types[task], enable_categorical=True)``.
        """
        return {
            task: ["c" if name in self.categorical else "q" for name in names]
            for task, names in self.feature_names.items()
        }

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """Tables as DataFrames, the form that ``mtboost.fit(X, y)`` can use as it is.

        Returns
        -------
        dict of DataFrame
            float32 columns, and category columns whose categories are all the codes, so that a
            code means the same in every task and in every part of a split.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingDependencyError(
                "to_pandas() needs pandas: pip install 'mtboost[report]'. "
                "X holds the same tables as NumPy arrays."
            ) from error
        frames = {}
        for task, names in self.feature_names.items():
            X = self.X[task]
            categories = {
                name: pd.Categorical.from_codes(
                    np.nan_to_num(X[:, column], nan=-1.0).astype(np.int64),
                    categories=range(self.categorical[name]),
                )
                for column, name in enumerate(names)
                if name in self.categorical
            }
            frames[task] = pd.DataFrame(X, columns=list(names), copy=True).assign(**categories)
        return frames

    def split(
        self, *, train: float = 0.6, valid: float = 0.2, seed: int = 0
    ) -> tuple[FraudScenes, FraudScenes, FraudScenes]:
        """Cut the rows at random into three parts with the same share of each task and class.

        Because the share of rows taken is the same in both classes, ``bayes_score`` stays the
        log-odds of each part's labels.

        Parameters
        ----------
        train, valid : float
            Shares of the rows, between 0 and 1; what they leave is the test part.
        seed : int
            Same seed, same parts.

        Returns
        -------
        tuple of FraudScenes
            Training, validation and test part; rows keep their order.

        Raises
        ------
        ParameterError
            A share is negative, or the two add up to more than 1.
        """
        _check_number("train", train, low=0.0, high=1.0)
        _check_number("valid", valid, low=0.0, high=1.0)
        if train + valid > 1.0 + 1e-9:  # shares like 0.9 and 0.1 may add up to a bit more
            raise ParameterError(
                f"train={train} and valid={valid} add up to more than 1: lower one of them; "
                "what they leave of 1 is the test part."
            )
        rng = np.random.default_rng(_check_seed(seed))
        parts: list[dict[str, Rows]] = [{}, {}, {}]
        for task, y in self.y.items():
            part_of_row = np.empty(len(y), dtype=np.int8)
            for label in (0, 1):
                rows = rng.permutation(np.flatnonzero(y == label))
                cuts = np.rint(len(rows) * np.array([train, train + valid])).astype(np.intp)
                for part, members in enumerate(np.split(rows, cuts)):
                    part_of_row[members] = part
            for part, rows_of_task in enumerate(parts):
                rows_of_task[task] = np.flatnonzero(part_of_row == part)
        train_part, valid_part, test_part = (self._take(rows) for rows in parts)
        return train_part, valid_part, test_part

    def _take(self, rows: Mapping[str, Rows]) -> FraudScenes:
        """Copy of the given rows of each task."""
        return replace(
            self,
            X={task: X[rows[task]] for task, X in self.X.items()},
            y={task: y[rows[task]] for task, y in self.y.items()},
            bayes_score={task: score[rows[task]] for task, score in self.bayes_score.items()},
        )


def make_fraud_scenes(
    scene: str = "scene1",
    *,
    scale: float = 1.0,
    relatedness: float = 0.7,
    imbalance: float | None = None,
    positive_rate: float | Mapping[str, float] | None = None,
    missing: float = 1.0,
    seed: int = 0,
) -> FraudScenes:
    """Payment-fraud data with two tasks, shaped like table 2 of zhang2019, and the Bayes score.

    Columns are correlated, heavy-tailed, partly missing and partly categories; tasks differ in
    the distribution of the columns, in the base rate and, as far as ``relatedness`` says, in what
    fraud looks like. How the rows and the scores are made: docs/fraud_scenes.md.

    Parameters
    ----------
    scene : {"scene1", "scene2"}
        "scene1": task1 has 77 000 + 2 296 rows (negative + expected positive) and 81 features,
        task2 25 000 + 989 rows, the same 81 features and 121 of its own. "scene2": task1 has
        187 000 + 4 709 rows, task2 968 000 + 11 850, both with the same 44 features.
    scale : float
        Multiplies the numbers of rows, > 0.
    relatedness : float
        Share of the common patterns in each task's log-odds, in [0, 1]. 1: the log-odds of the
        tasks differ in the intercept only. 0: the patterns of each task are drawn for it alone.
        The rows of X do not depend on it, and the spread of the log-odds hardly does.
    imbalance : float, optional
        Rows of the larger task for each row of the smaller, >= 1. The larger task keeps its rows,
        the smaller gets more or fewer. Default: as in table 2 (3.05 and 5.11).
    positive_rate : float or dict of float, optional
        Expected share of positives, in (0, 1), for all tasks or for the tasks named. Default: as
        in table 2 (2.9 % and 3.8 %; 2.5 % and 1.2 %).
    missing : float
        Multiplies the rates of missing values, in [0, 1.5]; 0 gives complete tables.
    seed : int
        Decides everything drawn: columns, concepts, rows and labels. Same seed, same
        bytes (with the same NumPy on the same kind of machine).

    Returns
    -------
    FraudScenes
        Tables, labels and Bayes scores of "task1" and "task2". To train on them:
        ``mtboost.fit(scenes.to_pandas(), scenes.y)``. DataFrames carry the column names, by which
        common columns are found, and mark the categories; ``scenes.X`` are the same as arrays.

    Raises
    ------
    ParameterError
        A value is out of range, or so few rows remain that a task expects less than one positive.
    TypeError
        A value has the wrong type.

    References
    ----------
    zhang2019, sec. 4.1 (key in docs/papers.md).
    """
    if scene not in _SCENES:
        raise ParameterError(f"scene={scene!r} is unknown: use one of {', '.join(_SCENES)}.")
    plan = _SCENES[scene]
    _check_number("scale", scale, low=0.0)
    _check_number("relatedness", relatedness, low=0.0, high=1.0)
    _check_number("missing", missing, low=0.0, high=_MAX_MISSING)
    n_rows = _plan_rows(plan, scale, imbalance)
    rates = _plan_rates(plan, positive_rate)
    for task, rate in rates.items():
        if n_rows[task] * min(rate, 1.0 - rate) < 1.0:
            raise ParameterError(
                f"{task} would have {n_rows[task]} rows and {n_rows[task] * rate:.3g} expected "
                "positives, but each class needs at least 1 expected row: raise scale, lower "
                "imbalance, or move positive_rate away from 0 and 1."
            )

    # One stream for each purpose, so that for example another number of rows leaves concepts alone.
    streams = iter(np.random.SeedSequence(_check_seed(seed)).spawn(2 + 3 * len(plan.tasks)))
    populations = _draw_populations(plan, missing, np.random.default_rng(next(streams)))
    references = {
        task: population.draw(_N_REFERENCE, np.random.default_rng(next(streams)))
        for task, population in populations.items()
    }
    patterns = _draw_patterns(
        populations,
        references,
        relatedness,
        plan.log_odds_sd,
        np.random.default_rng(next(streams)),
    )

    X, y, bayes_score, concept = {}, {}, {}, {}
    for task, population in populations.items():
        X[task] = population.draw(n_rows[task], np.random.default_rng(next(streams)))
        signal = FraudConcept(0.0, patterns[task]).log_odds(X[task])
        concept[task] = FraudConcept(_intercept_for(signal, rates[task]), patterns[task])
        bayes_score[task] = signal + concept[task].intercept
        chance = np.random.default_rng(next(streams)).random(n_rows[task])
        y[task] = (chance < special.expit(bayes_score[task])).astype(np.int64)
    names = [column.name for column in plan.columns]
    return FraudScenes(
        X=X,
        y=y,
        bayes_score=bayes_score,
        feature_names={task: tuple(names[: table.shape[1]]) for task, table in X.items()},
        categorical={c.name: c.n_categories for c in plan.columns if c.n_categories},
        concept=concept,
    )


# ---------------------------------------------------------------------------------------------
# Fraud scenes: sizes and columns
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: str
    n_categories: int = 0


def _columns(
    prefix: str, n_of_kind: Mapping[str, int], n_codes: Mapping[str, int]
) -> list[_Column]:
    """Columns kind by kind, numbered if there are several, then the categories."""
    numeric = [
        _Column(f"{prefix}{kind}_{number}" if n_columns > 1 else f"{prefix}{kind}", kind)
        for kind, n_columns in n_of_kind.items()
        for number in range(n_columns)
    ]
    return numeric + [_Column(f"{prefix}{name}", "category", n) for name, n in n_codes.items()]


@dataclass(frozen=True, slots=True)
class _TaskPlan:
    """Table 2's row of one task, and how its customers differ.

    ``spread`` scales all latent values: in a task of more uniform customers fewer rows reach the
    tails in which fraud can be told. ``missing`` is the range of the columns' missing rates.
    """

    n_negative: int
    n_positive: int
    n_columns: int
    spread: float
    missing: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _ScenePlan:
    """Tasks of a scene over one list of columns; each task has the first ``n_columns`` of them.

    ``log_odds_sd`` is the standard deviation of the shared concept over rows of all tasks in equal
    parts. It and the tasks' spreads set the difficulty: the Bayes AUC in docs/fraud_scenes.md.
    """

    columns: list[_Column]
    tasks: dict[str, _TaskPlan]
    log_odds_sd: float


_SCENES = {
    "scene1": _ScenePlan(
        columns=_columns(
            "",
            {"amount": 8, "usual_amount": 8, "count": 22, "days": 11, "share": 11}
            | {"behaviour": 14, "hour": 1},
            {"merchant_category": 40, "country": 30, "currency": 12, "device_type": 6}
            | {"channel": 5, "card_brand": 4},
        )
        + _columns(
            "payee_",
            {"amount": 12, "usual_amount": 12, "count": 34, "days": 15, "share": 20}
            | {"behaviour": 24},
            {"country": 30, "industry": 25, "region": 20, "size": 4},
        ),
        tasks={
            "task1": _TaskPlan(77_000, 2_296, 81, spread=1.0, missing=(0.02, 0.25)),
            "task2": _TaskPlan(25_000, 989, 202, spread=1.1, missing=(0.05, 0.35)),
        },
        log_odds_sd=4.1,
    ),
    "scene2": _ScenePlan(
        columns=_columns(
            "",
            {"amount": 5, "usual_amount": 5, "count": 11, "days": 6, "share": 5}
            | {"behaviour": 7, "hour": 1},
            {"merchant_category": 40, "country": 30, "device_type": 6, "channel": 5},
        ),
        tasks={
            "task1": _TaskPlan(187_000, 4_709, 44, spread=1.0, missing=(0.02, 0.2)),
            "task2": _TaskPlan(968_000, 11_850, 44, spread=0.5, missing=(0.15, 0.45)),
        },
        log_odds_sd=1.85,
    ),
}


def _plan_rows(plan: _ScenePlan, scale: float, imbalance: float | None) -> dict[str, int]:
    """Rows of each task; ``imbalance`` resizes all but the largest."""
    n_rows = {name: float(task.n_negative + task.n_positive) for name, task in plan.tasks.items()}
    if imbalance is not None:
        _check_number("imbalance", imbalance, low=1.0)
        largest = max(n_rows, key=n_rows.__getitem__)
        n_rows = {
            name: n if name == largest else n_rows[largest] / imbalance
            for name, n in n_rows.items()
        }
    return {name: round(scale * n) for name, n in n_rows.items()}


def _plan_rates(
    plan: _ScenePlan, positive_rate: float | Mapping[str, float] | None
) -> dict[str, float]:
    """Expected share of positives of each task."""
    rates = {
        name: task.n_positive / (task.n_negative + task.n_positive)
        for name, task in plan.tasks.items()
    }
    if positive_rate is None:
        return rates
    wanted = (
        dict(positive_rate)
        if isinstance(positive_rate, Mapping)
        else dict.fromkeys(rates, positive_rate)
    )
    for name, rate in wanted.items():
        if name not in rates:
            raise ParameterError(
                f"positive_rate names {name!r}, but the tasks are {', '.join(rates)}."
            )
        _check_number(f"positive_rate of {name}", rate, low=0.0, high=1.0)
    return rates | wanted


def _check_number(name: str, value: object, *, low: float, high: float = math.inf) -> None:
    """Refuse what is not a finite number between the bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r} of type {type(value).__name__}.")
    if not (math.isfinite(value) and low <= float(value) <= high):
        bounds = f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise ParameterError(f"{name}={value} is out of range: pass a finite number {bounds}.")


def _check_seed(seed: object) -> int:
    """Refuse what is not a whole number >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
        raise TypeError(f"seed must be an int, not {seed!r} of type {type(seed).__name__}.")
    if seed < 0:
        raise ParameterError(f"seed={seed} is negative: pass a whole number >= 0.")
    return int(seed)


# ---------------------------------------------------------------------------------------------
# Fraud scenes: the rows
# ---------------------------------------------------------------------------------------------

_N_REFERENCE = 10_000  # rows per task that thresholds, means and deviations are taken from
_N_FACTORS = 6
_MAX_MISSING = 1.5  # beyond, reference rows that have all the columns of a pattern run out
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
    """How a kind of column looks; ``location`` and ``tail`` are drawn from their ranges."""

    curve: Callable[[Table, Table, Table], Table]
    location: tuple[float, float]
    tail: tuple[float, float]
    can_miss: bool = True


_KINDS = {
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
class _Population:
    """The law of the rows of one task.

    Each column is a curve, set by its kind, of a latent normal value. Latent values follow from a
    general factor, the factor of a block of columns, and noise. A value is hidden where a second
    normal value falls below ``hidden_below``; in columns whose ``tie`` is not 0 this second value
    follows the factor of the block too, so that absence tells something.

    Arrays have one entry per column; ``loadings`` has three rows: general, block, noise.
    """

    kinds: npt.NDArray[np.str_]
    block: Rows
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
        for start in range(0, n_rows, _BLOCK):
            rows = X[start : start + _BLOCK]
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

        for name, kind in _KINDS.items():
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


def _draw_populations(
    plan: _ScenePlan, missing: float, rng: np.random.Generator
) -> dict[str, _Population]:
    """What the columns are like in all tasks, and what is different in each."""
    kinds = np.array([column.kind for column in plan.columns])
    n_columns = len(kinds)

    on_general = rng.uniform(-0.5, 0.5, n_columns)
    on_block = rng.choice([-1.0, 1.0], n_columns) * rng.uniform(0.4, 0.8, n_columns)
    on_noise = np.sqrt(1.0 - on_general**2 - on_block**2)
    block = rng.integers(_N_FACTORS, size=n_columns)
    location = np.array([rng.uniform(*_KINDS[kind].location) for kind in kinds])
    tail = np.array([rng.uniform(*_KINDS[kind].tail) for kind in kinds])
    for parameter in (location, tail):
        parameter[kinds == "usual_amount"] = parameter[kinds == "amount"]
    codes = {}
    for index, column in enumerate(plan.columns):
        if column.n_categories:
            shares = 1.0 / np.arange(1, column.n_categories + 1) ** 1.1  # Zipf
            cuts = special.ndtri(np.cumsum(shares)[:-1] / shares.sum())
            codes[index] = (_single(cuts), _single(rng.permutation(column.n_categories)))
    can_miss = np.array([_KINDS[kind].can_miss for kind in kinds]) & (rng.random(n_columns) < 0.7)
    tells = rng.random(n_columns) < 0.5
    tie = np.where(tells, rng.uniform(0.6, 0.9, n_columns), 0.0)

    populations = {}
    for name, task in plan.tasks.items():
        rates = np.where(can_miss, missing * rng.uniform(*task.missing, n_columns), 0.0)
        shift = rng.normal(0.0, _SHIFT_SD, n_columns)
        n = task.n_columns
        populations[name] = _Population(
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


# ---------------------------------------------------------------------------------------------
# Fraud scenes: the concepts
# ---------------------------------------------------------------------------------------------
# A formula takes the columns it reads and its parameters to one value a row, NaN where a column
# is missing (heaviside, unlike a comparison, hands NaN on).


def _burst_on_new_device(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """Many transactions (a threshold) while the device is new (a smooth decay)."""
    count, days = columns
    many, half_life = parameters
    risk: FloatArray = np.heaviside(count - many, 1.0) * np.exp2(-days / half_life)
    return risk


def _far_above_usual(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """The ratio of an amount to the usual one: flat up to a point, then growing."""
    amount, usual_amount = columns
    (start,) = parameters
    risk: FloatArray = -special.log_expit(-3.0 * (np.log(amount / usual_amount) - start))
    return risk


def _place_at_late_hour(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """An effect of each code that fades in and out around a late hour."""
    code, hour = columns
    peak, effects = parameters[0], parameters[1:]
    late: FloatArray = np.cos((hour - peak) * (np.pi / 24.0)) ** 6  # period 24, 0 half a day off
    return _look_up(effects, code) * late


def _place_above_share(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """An effect of each code that counts from a threshold of a share on."""
    code, share = columns
    threshold, effects = parameters[0], parameters[1:]
    above: FloatArray = np.heaviside(share - threshold, 1.0)
    return _look_up(effects, code) * above


def _look_up(effects: FloatArray, code: FloatArray) -> FloatArray:
    """The effect of each code; NaN stays NaN."""
    return np.where(np.isnan(code), np.nan, effects[np.nan_to_num(code).astype(np.intp)])


def _ratio_of_counts(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """A smooth step in the ratio of two counts."""
    count, other_count = columns
    (middle,) = parameters
    step: FloatArray = special.expit(3.0 * (np.log1p(count) - np.log1p(other_count) - middle))
    return step


def _bump(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """A bump: the same value further up or down has no effect."""
    (behaviour,) = columns
    center, width = parameters
    bump: FloatArray = np.exp(-0.5 * ((behaviour - center) / width) ** 2)
    return bump


def _both_or_neither(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """The product of two smooth steps: neither column has much of an effect alone."""
    first, second = np.tanh(1.5 * (columns - parameters[:, np.newaxis]))
    product: FloatArray = first * second
    return product


def _direction(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """A weighted sum of several columns, levelling off: steep across the axes, not along them."""
    level: FloatArray = np.tanh((parameters[:, np.newaxis] * columns).sum(axis=0))
    return level


def _left_blank(columns: FloatArray, parameters: FloatArray) -> FloatArray:
    """The absence of a value."""
    blank: FloatArray = np.isnan(columns[0]).astype(np.float64)
    return blank


@dataclass(frozen=True, slots=True)
class _Recipe:
    """A formula, the kinds of columns it reads, and how its parameters are drawn.

    ``parameters`` takes the columns of the reference rows and the generator.
    """

    formula: Callable[[FloatArray, FloatArray], FloatArray]
    kinds: tuple[str, ...]
    parameters: Callable[[FloatArray, np.random.Generator], list[float]]
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


def _draw_patterns(
    populations: dict[str, _Population],
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
    population: _Population,
    rows: Table,
    sd: float,
    earlier: Sequence[FraudPattern],
    rng: np.random.Generator,
) -> tuple[FraudPattern, ...]:
    """One pattern of each recipe; their sum has standard deviation ``sd`` over the rows.

    A recipe's first column differs from that of earlier concepts, so that no pattern is shared by
    chance.
    """
    pools = {kind: np.flatnonzero(population.kinds == kind) for kind in _KINDS}
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
    pools: Mapping[str, Rows],
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


def _sum(patterns: Sequence[FraudPattern], rows: Table) -> FloatArray:
    return FraudConcept(0.0, tuple(patterns)).log_odds(rows)


def _weighted(patterns: Sequence[FraudPattern], factor: float) -> tuple[FraudPattern, ...]:
    """The patterns with their weights multiplied; none if nothing would remain of them."""
    if factor == 0.0:
        return ()
    return tuple(replace(pattern, weight=factor * pattern.weight) for pattern in patterns)


def _intercept_for(signal: FloatArray, rate: float) -> float:
    """The intercept with which the rows expect the given share of positives."""
    intercept: float = optimize.brentq(
        lambda intercept: float(special.expit(signal + intercept).mean()) - rate,
        special.logit(rate) - signal.max() - 1.0,  # 1 more than needed, for rounding
        special.logit(rate) - signal.min() + 1.0,
    )
    return intercept
