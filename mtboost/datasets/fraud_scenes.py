# SPDX-License-Identifier: Apache-2.0
"""Fraud scenes: what the caller gets (zhang2019, table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import special

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_choice, check_number, check_seed
from mtboost.datasets.patterns import FraudConcept, draw_patterns, intercept_for
from mtboost.datasets.plans import SCENES, plan_rates, plan_rows
from mtboost.datasets.populations import MAX_MISSING, RowNumbers, Table, draw_populations
from mtboost.errors import MissingDependencyError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

Labels = npt.NDArray[np.int64]

_N_REFERENCE = 10_000  # rows per task that thresholds, means and deviations are taken from


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
    bayes_score: dict[str, Float64Array]
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
        train = check_number("train", train, low=0.0, high=1.0)
        valid = check_number("valid", valid, low=0.0, high=1.0)
        if train + valid > 1.0 + 1e-9:  # shares like 0.9 and 0.1 may add up to a bit more
            raise ParameterError(
                f"train={train} and valid={valid} add up to more than 1: lower one of them; "
                "what they leave of 1 is the test part."
            )
        rng = np.random.default_rng(check_seed(seed))
        parts: list[dict[str, RowNumbers]] = [{}, {}, {}]
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

    def _take(self, rows: Mapping[str, RowNumbers]) -> FraudScenes:
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
        task2 25 000 + 989 rows, the same 81 features and 121 others. "scene2": task1 has
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

    Examples
    --------
    >>> from mtboost.datasets import make_fraud_scenes
    >>> scenes = make_fraud_scenes("scene2", scale=0.001)
    >>> {task: X.shape[1] for task, X in scenes.X.items()}
    {'task1': 44, 'task2': 44}

    References
    ----------
    zhang2019, sec. 4.1 (key in docs/papers.md).
    """
    plan = SCENES[check_choice("scene", scene, SCENES)]
    scale = check_number("scale", scale, low=0.0)
    relatedness = check_number("relatedness", relatedness, low=0.0, high=1.0)
    missing = check_number("missing", missing, low=0.0, high=MAX_MISSING)
    n_rows = plan_rows(plan, scale, imbalance)
    rates = plan_rates(plan, positive_rate)
    for task, rate in rates.items():
        if n_rows[task] * min(rate, 1.0 - rate) < 1.0:
            raise ParameterError(
                f"{task} would have {n_rows[task]} rows and {n_rows[task] * rate:.3g} expected "
                "positives, but each class needs at least 1 expected row: raise scale, lower "
                "imbalance, or move positive_rate away from 0 and 1."
            )

    # One stream for each purpose, so that for example another number of rows leaves concepts alone.
    streams = iter(np.random.SeedSequence(check_seed(seed)).spawn(2 + 3 * len(plan.tasks)))
    populations = draw_populations(plan, missing, np.random.default_rng(next(streams)))
    references = {
        task: population.draw(_N_REFERENCE, np.random.default_rng(next(streams)))
        for task, population in populations.items()
    }
    patterns = draw_patterns(
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
        concept[task] = FraudConcept(intercept_for(signal, rates[task]), patterns[task])
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
