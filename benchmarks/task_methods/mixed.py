# SPDX-License-Identifier: Apache-2.0
"""Models with effects per task that are shrunken towards those of all tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from task_methods.rows import Budget, Fitted, Floats, Method, Rows, SkippedError, losses

PENALTIES = (100.0, 0.1, 1.0, 10.0, 1000.0, 10000.0)  # of the squared coefficients
SHARES = (
    1.0,
    0.0,
    0.03,
    0.1,
    0.3,
    3.0,
    10.0,
)  # variance of a task's deviations; 0: one model for all
SLOPES = 2  # columns with random slopes


class Scaling:
    """Columns with deviation 1; dense ones have mean 0 too, and missing values become the mean."""

    def __init__(self, X: Any) -> None:
        has_value = ~np.isnan(X)
        mean = np.where(has_value, X, 0).sum(axis=0, dtype=np.float64) / np.maximum(
            has_value.sum(axis=0), 1
        )
        is_dense = np.mean(X != 0, axis=0) > 0.5
        self.fill = mean
        self.center = np.where(is_dense, mean, 0.0)
        deviation = np.where(has_value, X, mean).std(axis=0)
        self.scale = np.where(deviation > 0, deviation, 1.0)

    def __call__(self, X: Any) -> Floats:
        return (np.where(np.isnan(X), self.fill, X) - self.center) / self.scale


# ---- linear --------------------------------------------------------------------------------------


def linear(train: Rows, seed: int, budget: Budget) -> Fitted:
    """Ridge or logistic regression: coefficients of all tasks, and penalised deviations of each.

    Coefficients w + v_t of task t have the penalty α (|w|² + Σ |v_t|² / share). α and the share are
    chosen in turn, each with the other fixed.
    """
    inner, valid = train.inner(seed)

    @cache
    def loss(penalty: float, share: float) -> float:
        return float(losses(valid, _fit_linear(inner, penalty, share)(valid)).mean())

    penalty, share = PENALTIES[0], SHARES[0]
    for _ in range(2):
        penalty = min(PENALTIES, key=lambda penalty: loss(penalty, share))
        share = min(SHARES, key=lambda share: loss(penalty, share))
    return Fitted(_fit_linear(train, penalty, share), {"penalty": penalty, "share": share})


def _fit_linear(train: Rows, penalty: float, share: float) -> Callable[[Rows], Floats]:
    scaling = Scaling(train.X)

    def design(rows: Rows) -> Any:
        """The columns, and those of the row's task with an intercept, scaled by the share."""
        columns = scaling(rows.X)
        own = np.column_stack([columns, np.ones(len(columns))]) * share**0.5
        block = sparse.csr_matrix(own)
        width, n_rows = own.shape[1], len(own)
        task = np.repeat(rows.task, np.diff(block.indptr))
        blocks = sparse.csr_matrix(
            (block.data, block.indices + task * width, block.indptr),
            shape=(n_rows, train.n_tasks * width),
        )
        return sparse.hstack([sparse.csr_matrix(columns), blocks], format="csr")

    model: Any = (
        LogisticRegression(C=1 / penalty, max_iter=300, tol=1e-3)
        if train.is_binary
        else Ridge(alpha=penalty, solver="sparse_cg", tol=1e-4)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(design(train), train.y)
    if train.is_binary:
        return lambda rows: np.asarray(model.predict_proba(design(rows))[:, 1])
    return lambda rows: np.asarray(model.predict(design(rows)))


# ---- GPBoost -------------------------------------------------------------------------------------


def gpboost(has_slopes: bool = False, is_nested: bool = False, is_by_tasks: bool = False) -> Method:
    """Boosted trees with a random intercept of each task (Sigrist, 2022), or with random slopes.

    Nested tasks may have a random intercept of their region too. Depth and rounds are chosen by
    rows of known tasks, or `is_by_tasks` by whole tasks.

    Slopes are those of the two columns that correlate most with the label. They take so long that
    they keep the high learning rate, and the depth is that chosen with intercepts alone.
    """

    def method(train: Rows, seed: int, budget: Budget) -> Fitted:
        budget = replace(budget, threads=1)  # a second one took ten times as long on few rows
        inner, valid = train.inner_tasks(seed) if is_by_tasks else train.inner(seed)
        models = _GPBoost.of_rows(inner, seed, is_nested)

        def stop_early(depth: int, with_slopes: bool, budget: Budget) -> tuple[float, int]:
            booster = models.train(inner, depth, with_slopes, budget, budget.rounds, valid)
            (score,) = booster.best_score["valid_0"].values()
            return score, booster.best_iteration

        depth = min(budget.depths, key=lambda depth: stop_early(depth, False, budget))
        finer = budget.finer()
        final = replace(budget, rounds=finer.rounds) if has_slopes else finer
        _, rounds = stop_early(depth, has_slopes, final)
        booster = models.train(train, depth, has_slopes, final, rounds)
        predict = partial(models.predict, booster, with_slopes=has_slopes)
        return Fitted(predict, {"depth": depth, "rounds": rounds})

    return method


@dataclass(frozen=True)
class _GPBoost:
    """GPBoost with the scales and the columns with slopes of some rows."""

    library: Any
    seed: int
    is_nested: bool
    is_binary: bool
    mean: float
    scale: float
    scaling: Scaling
    columns: Any

    @classmethod
    def of_rows(cls, rows: Rows, seed: int, is_nested: bool) -> _GPBoost:
        try:
            import gpboost as library
        except ImportError as error:
            raise SkippedError(f"GPBoost: {error}") from None

        # Its steps shrink with the variance of the noise: they suit labels with deviation 1.
        mean, scale = (0.0, 1.0) if rows.is_binary else (rows.y.mean(), rows.y.std() or 1.0)
        scaling = Scaling(rows.X)
        correlation = np.abs(scaling(rows.X).T @ (rows.y - rows.y.mean()))
        columns = np.argsort(-correlation, kind="stable")[:SLOPES]
        return cls(library, seed, is_nested, rows.is_binary, mean, scale, scaling, columns)

    def train(
        self,
        rows: Rows,
        depth: int,
        with_slopes: bool,
        budget: Budget,
        rounds: int,
        valid: Rows | None = None,
    ) -> Any:
        options = {"ind_effect_group_rand_coef": [1] * len(self.columns)} if with_slopes else {}
        model = self.library.GPModel(
            **self._effects(rows, with_slopes),
            **options,
            likelihood="bernoulli_logit" if self.is_binary else "gaussian",
            num_parallel_threads=budget.threads,
            seed=self.seed,
        )
        data = self.library.Dataset(*self._cells(rows))
        stopping = {}
        if valid is not None:
            model.set_prediction_data(**self._effects(valid, with_slopes, "_pred"))
            stopping = {
                "valid_sets": data.create_valid(*self._cells(valid)),
                "early_stopping_rounds": budget.early_stopping_rounds,
                "use_gp_model_for_validation": True,
            }
        return self.library.train(
            {
                "learning_rate": budget.learning_rate,
                "max_depth": depth,
                "num_leaves": 2**depth,
                "metric": "binary_logloss" if self.is_binary else "mse",
                "num_threads": budget.threads,
                "seed": self.seed,
                "verbose": -1,
            },
            data,
            rounds,
            gp_model=model,
            verbose_eval=False,
            **stopping,
        )

    def predict(self, booster: Any, rows: Rows, *, with_slopes: bool) -> Floats:
        found = booster.predict(
            data=rows.X.astype(np.float64),
            **self._effects(rows, with_slopes, "_pred"),
            predict_var=False,
            pred_latent=False,
        )
        return self.mean + self.scale * np.asarray(found["response_mean"], np.float64)

    def _cells(self, rows: Rows) -> tuple[Floats, Floats]:
        return rows.X.astype(np.float64), (rows.y - self.mean) / self.scale

    def _effects(self, rows: Rows, with_slopes: bool, suffix: str = "") -> dict[str, Any]:
        groups = rows.task
        if self.is_nested and rows.parents is not None:
            groups = np.column_stack([rows.parents[rows.task], rows.task])
        found = {f"group_data{suffix}": groups}
        if with_slopes:
            found[f"group_rand_coef_data{suffix}"] = self.scaling(rows.X)[:, self.columns]
        return found
