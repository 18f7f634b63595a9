# SPDX-License-Identifier: Apache-2.0
"""
What other sensors show about a new one
=======================================

Time series of different lengths: reuse what other sensors show about the points that matter.

Three sensors record the same kind of event, each at its own sampling rate: the size of a bump, a
third of the way through the series, decides the class. A fourth sensor has few labelled series.
The series of the known sensors are resampled to its length, and the importances of their points
become a prior for it (eruhimov2007, section 4.4). Compared are stock XGBoost with all points,
with points drawn with equal probability, and with points drawn by the prior. To transfer
importances instead of rows, call ``mtboost.feature_prior(problems, series_length=...)``, which
resamples in the same way.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import xgboost

import mtboost
from mtboost.xgboost import PriorFeatureSampling

FloatArray = npt.NDArray[np.float64]

LENGTHS = {"sensor a": 61, "sensor b": 121, "sensor c": 201}
N_ROWS, N_TEST_ROWS, N_POINTS = 100, 500, 150  # the new sensor has N_POINTS points per series
SIZES = [20, 40, 80]
N_REPEATS = 5
PARAMS: dict[str, Any] = {
    "objective": "binary:logistic",
    "max_depth": 3,
    "learning_rate": 0.1,
    "nthread": 1,
}
DRAWN = {"colsample_bynode": (math.isqrt(N_POINTS) + 0.5) / N_POINTS}  # XGBoost rounds down


def resample_series(values: npt.ArrayLike, length: int) -> FloatArray:
    """Interpolate series of shape (..., n_points) linearly at `length` points; the ends stay."""
    series = np.asarray(values, np.float64)
    old, new = np.linspace(0, 1, series.shape[-1]), np.linspace(0, 1, length)
    return np.apply_along_axis(lambda points: np.interp(new, old, points), -1, series)


def make_series(
    n_rows: int, length: int, rng: np.random.Generator
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Noisy series with a bump at one third; its size decides the class."""
    y = rng.integers(0, 2, n_rows)
    size = 0.5 * y + rng.normal(scale=0.3, size=n_rows)
    bump = np.exp(-(((np.linspace(0, 1, length) - 1 / 3) / 0.03) ** 2))
    return rng.normal(scale=0.6, size=(n_rows, length)) + np.outer(size, bump), y


def main() -> None:
    rng = np.random.default_rng(0)
    problems = []
    for length in LENGTHS.values():
        X, y = make_series(N_ROWS, length, rng)
        problems.append((resample_series(X, N_POINTS), y))
    prior = mtboost.feature_prior(problems, labels="classes")
    assert isinstance(prior, np.ndarray)
    near = abs(np.linspace(0, 1, N_POINTS) - 1 / 3) < 0.06
    print(f"{near.mean():.0%} of the points hold {prior[near].sum():.0%} of the importance")

    methods: dict[str, tuple[dict[str, Any], list[PriorFeatureSampling]]] = {
        "all points": (PARAMS, []),
        "points drawn": (PARAMS | DRAWN, []),
        "drawn by the prior": (PARAMS | DRAWN, [PriorFeatureSampling(prior)]),
    }
    errors = {name: np.zeros(len(SIZES)) for name in methods}
    for _ in range(N_REPEATS):
        X, y = make_series(max(SIZES), N_POINTS, rng)
        X_test, y_test = make_series(N_TEST_ROWS, N_POINTS, rng)
        for name, (params, callbacks) in methods.items():
            for position, n_rows in enumerate(SIZES):
                dtrain = xgboost.DMatrix(X[:n_rows], y[:n_rows])
                booster = xgboost.train(params, dtrain, 100, callbacks=callbacks)
                predicted = booster.predict(xgboost.DMatrix(X_test)) > 0.5
                errors[name][position] += np.mean(predicted != y_test) / N_REPEATS

    print(f"\nerror rate on test series of the new sensor, mean of {N_REPEATS} draws")
    print(f"{'labelled series':20}" + "".join(f"{n_rows:7}" for n_rows in SIZES))
    for name, by_size in errors.items():
        print(f"{name:20}" + "".join(f"{error:7.3f}" for error in by_size))
    draw(prior, errors)


def draw(prior: FloatArray, errors: dict[str, FloatArray]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
    left.plot(np.linspace(0, 1, N_POINTS), prior)
    left.set(xlabel="time", ylabel="importance of the other sensors")
    for form, (name, by_size) in zip(("o-", "s--", "^:"), errors.items(), strict=True):
        right.plot(SIZES, by_size, form, label=name)
    right.set_xticks(SIZES)
    right.set(xlabel="labelled series of the new sensor", ylabel="error rate on test series")
    right.legend()
    figure.savefig("time_series_prior.png", dpi=120)


if __name__ == "__main__":
    main()
