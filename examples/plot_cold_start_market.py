# SPDX-License-Identifier: Apache-2.0
"""
A new market with few rows
==========================

What can be learnt of a new market from those that are there already?

Eight markets sell the same goods. In all of them the same eight of 80 columns drive demand, each
market in its own way: some effects are alike, some opposite. A ninth market opens, with ten rows at
first. Compared are stock XGBoost on its rows alone, the same with features drawn by their
importance in the old markets (a prior, and one that gives way to what the rows say), and the
common model of the old markets continued on the new one's rows, also with drawn features. Four
such markets are opened, to see more than the luck of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import xgboost

import mtboost
from mtboost.xgboost import PriorFeatureSampling

FloatArray = npt.NDArray[np.float64]
Model = Callable[[FloatArray], FloatArray]  # predicts the rows of X

N_MARKETS, N_ROWS, N_TEST_ROWS = 8, 250, 1000
N_FEATURES, N_INFORMATIVE = 80, 8
SIZES = [10, 20, 40, 80, 160, 320]
N_NEW = 4  # markets that open
N_ROUNDS = 60
PARAMS: dict[str, Any] = {"max_depth": 3, "eta": 0.15, "nthread": 1}
DRAWN = {"colsample_bynode": (math.isqrt(N_FEATURES) + 0.5) / N_FEATURES}  # XGBoost rounds down


def main() -> None:
    rng = np.random.default_rng(0)
    typical = rng.normal(size=N_INFORMATIVE)
    markets = {
        f"market {number}": make_rows(N_ROWS, market_effects(typical, rng), rng)
        for number in range(1, N_MARKETS + 1)
    }

    prior = mtboost.feature_prior(markets)
    assert isinstance(prior, np.ndarray)
    part = prior[:N_INFORMATIVE].sum()
    print(f"the {N_INFORMATIVE} columns that matter have {part:.0%} of the old markets' importance")
    common = fit_common(markets)
    methods: dict[str, Callable[[FloatArray, FloatArray], Model]] = {
        "alone": own_model,
        "alone + prior": lambda X, y: own_model(X, y, PriorFeatureSampling(prior)),
        "alone + dynamic prior": lambda X, y: own_model(
            X, y, PriorFeatureSampling(prior, dynamic=True)
        ),
        "common + residual": lambda X, y: continued(common, X, y),
        "common + residual + prior": lambda X, y: continued(common, X, y, prior),
    }
    errors = {name: np.zeros(len(SIZES)) for name in methods}
    for _ in range(N_NEW):
        effects = market_effects(typical, rng)
        X, y = make_rows(max(SIZES), effects, rng)
        X_test, y_test = make_rows(N_TEST_ROWS, effects, rng)
        for name, train in methods.items():
            for position, n_rows in enumerate(SIZES):
                predicted = train(X[:n_rows], y[:n_rows])(X_test)
                unexplained = np.mean((y_test - predicted) ** 2) / y_test.var()
                errors[name][position] += unexplained / N_NEW

    print(f"\nunexplained variance of test rows, mean of {N_NEW} new markets")
    print(f"{'rows of the new market':26}" + "".join(f"{n_rows:7}" for n_rows in SIZES))
    for name, by_size in errors.items():
        print(f"{name:26}" + "".join(f"{error:7.3f}" for error in by_size))
    draw(errors)


def own_model(X: FloatArray, y: FloatArray, *callbacks: PriorFeatureSampling) -> Model:
    """Stock XGBoost on the rows of the new market."""
    booster = xgboost.train(
        {**PARAMS, **(DRAWN if callbacks else {})},
        xgboost.DMatrix(X, y, nthread=1),
        N_ROUNDS,
        callbacks=callbacks,
    )
    return lambda X: np.asarray(booster.predict(xgboost.DMatrix(X, nthread=1)))


def fit_common(markets: dict[str, tuple[FloatArray, FloatArray]]) -> mtboost.MultiTaskModel:
    """The common model of the old markets."""
    return mtboost.fit(
        np.concatenate([X for X, _ in markets.values()]),
        np.concatenate([y for _, y in markets.values()]),
        task=np.repeat(list(markets), N_ROWS),
        params={"max_depth": 3, "eta": 0.15},
        num_boost_round=N_ROUNDS,
        specific_rounds=0,
        strategy="two-stage",
    )


def continued(
    model: mtboost.MultiTaskModel, X: FloatArray, y: FloatArray, feature_prior: Any = None
) -> Model:
    """The common model, continued on the rows of the new market."""
    name = f"new market {len(model.tasks)}"
    model.add_task(
        name,
        X,
        y,
        params={"max_depth": 3, "eta": 0.15},
        early_stopping_rounds=None,  # too few rows to hold some out
        validation_fraction=0,
        specific_rounds=N_ROUNDS,
        feature_prior=feature_prior,
        n_threads=1,
    )
    return lambda X: np.asarray(model.predict(X, task=np.full(len(X), name)))


def market_effects(typical: FloatArray, rng: np.random.Generator) -> FloatArray:
    """What each informative column does in one market: half of it as elsewhere, half its own."""
    return np.asarray(np.sqrt(0.5) * (typical + rng.normal(size=N_INFORMATIVE)))


def make_rows(
    n_rows: int, effects: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    X = rng.normal(size=(n_rows, N_FEATURES))
    signal = np.tanh(X[:, :N_INFORMATIVE]) @ effects
    return X, signal + 0.3 * rng.normal(size=n_rows)


def draw(errors: dict[str, FloatArray]) -> None:
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for marker, (name, by_size) in zip("os^os", errors.items(), strict=True):
        line = "--" if name.startswith("common") else "-"
        ax.plot(SIZES, by_size, marker + line, label=name)
    ax.set_xscale("log")
    ax.set_xticks(SIZES, list(map(str, SIZES)))
    ax.set_xlabel("rows of the new market")
    ax.set_ylabel("unexplained variance of test rows")
    ax.legend()
    figure.savefig("cold_start_market.png", dpi=120)


if __name__ == "__main__":
    main()
