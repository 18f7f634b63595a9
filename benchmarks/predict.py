# SPDX-License-Identifier: Apache-2.0
"""How long does a model of several tasks take to predict, compared with the booster of one task?

Rows of ten tasks are predicted by `model.predict`, and the same rows by `model.booster(task)` of
the task with the most trees: by `inplace_predict` of XGBoost, `predict` of LightGBM. The two take
turns in one process; a ratio is of neighbours. The model's first call, which lays out trees, is
timed by itself. XGBoost and LightGBM take their threads from the environment.

    OMP_NUM_THREADS=2 python benchmarks/predict.py [--turns 5] [--rows 500000] [--categories]

With `--categories` rows are a pandas DataFrame of 75 numbers and 6 columns of categories.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import lightgbm
import numpy as np
import pandas
import xgboost

import mtboost

N_TASKS, N_FEATURES = 10, 20
N_NUMBERS, N_CATEGORICAL, N_CATEGORIES = 75, 6, 8
#: Predictions of one row that are timed together.
REPETITIONS = 200
Predict = Callable[[Any], Any]


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = (N_TASKS, N_FEATURES)
    effects = np.random.default_rng(0).normal(size=N_FEATURES)
    effects = effects + 0.3 * np.random.default_rng(1).normal(size=shape)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    task = rng.integers(N_TASKS, size=n_rows)
    y = (X * effects[task]).sum(axis=1) + np.sin(3 * X[:, 0]) + (X[:, 1] > 0) * task
    return X, task, y + rng.normal(size=n_rows)


def make_frame(n_rows: int, seed: int) -> tuple[pandas.DataFrame, np.ndarray, np.ndarray]:
    """The same rows with more numbers, and with categories."""
    X, task, y = make_rows(n_rows, seed)
    rng = np.random.default_rng([seed, 1])
    more = rng.standard_normal((n_rows, N_NUMBERS - N_FEATURES), dtype=np.float32)
    frame = pandas.DataFrame(np.hstack([X, more])).add_prefix("x")
    for column in range(N_CATEGORICAL):
        codes = rng.integers(N_CATEGORIES, size=n_rows)
        y = y + (codes == column)
        names = list(map("level {}".format, range(N_CATEGORIES)))
        frame[f"c{column}"] = pandas.Categorical.from_codes(codes, names)
    return frame, task, y


def predict_of(booster: xgboost.Booster | lightgbm.Booster) -> Predict:
    """The library's fastest way from an array."""
    if isinstance(booster, xgboost.Booster):
        return booster.inplace_predict
    return booster.predict


def n_trees(booster: xgboost.Booster | lightgbm.Booster) -> int:
    if isinstance(booster, xgboost.Booster):
        return booster.num_boosted_rounds()
    return booster.num_trees()


def seconds(call: Callable[[], Any], repetitions: int = 1) -> float:
    begin = time.perf_counter()
    for _ in range(repetitions):
        call()
    return (time.perf_counter() - begin) / repetitions


def measure(
    model: mtboost.MultiTaskModel, rows: Any, task: np.ndarray, turns: int, repetitions: int
) -> str:
    """Milliseconds of the model and of the largest booster of a task, and their ratio."""
    boosters = [model.booster(name) for name in model.tasks]
    booster = max(boosters, key=n_trees)
    if len(rows) == 1:
        task = np.array([model.tasks[boosters.index(booster)]])
    calls = (partial(model.predict, rows, task=task), partial(predict_of(booster), rows))
    first = 1000 * seconds(calls[0])
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(turns):
        for call, own in zip(calls, times, strict=True):
            own.append(1000 * seconds(call, repetitions))
    ratios = [ours / theirs for ours, theirs in zip(*times, strict=True)]
    return (
        f"{len(rows):8}{n_trees(booster):7}{first:10.1f}{statistics.median(times[0]):10.3f}"
        f"{statistics.median(times[1]):12.3f}{statistics.median(ratios):8.2f}"
        f"{min(ratios):7.2f}{max(ratios):7.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--train-rows", type=int, default=20_000)
    parser.add_argument("--libraries", nargs="+", default=["xgboost", "lightgbm"])
    parser.add_argument("--strategies", nargs="+", default=["two-stage", "auto"])
    parser.add_argument("--categories", action="store_true")
    args = parser.parse_args()
    make = make_frame if args.categories else make_rows
    X, task, y = make(args.train_rows, 2)
    new, task_of_row, _ = make(args.rows, 3)
    n_features = X.shape[1]
    print(
        f"{platform.processor() or platform.machine()}, OMP_NUM_THREADS="
        f"{os.environ.get('OMP_NUM_THREADS', 'not set')}, xgboost {xgboost.__version__}, lightgbm "
        f"{lightgbm.__version__}; {N_TASKS} tasks, {n_features} features; medians of {args.turns} "
        "turns"
    )
    print(
        f"{'':10}{'strategy':11}{'rows':>8}{'trees':>7}{'first ms':>10}{'ours ms':>10}"
        f"{'booster ms':>12}{'ratio':>8}{'min':>7}{'max':>7}"
    )
    for library in args.libraries:
        for strategy in args.strategies:
            model = mtboost.fit(X, y, task=task, backend=library, strategy=strategy)
            for n_rows, repetitions in ((1, REPETITIONS), (args.rows, 1)):
                of_rows = (new[:n_rows], task_of_row[:n_rows], args.turns, repetitions)
                print(f"{library:10}{strategy:11}{measure(model, *of_rows)}", flush=True)


if __name__ == "__main__":
    main()
