# SPDX-License-Identifier: Apache-2.0
"""What do TaskObjective and TaskQuitting cost a round of stock training?

Each library trains on one million rows with its own trees: with its own objective and metric, and
with TaskObjective and TaskQuitting, which computes the same metric for each task. The two take
turns in one process; a ratio is of neighbours. Time is per round, without what is done but once.

    python benchmarks/plugin_overhead.py [--turns 5] [--tasks 2 100] [--threads 2]
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import scipy.special
import xgboost

import mtboost.lightgbm
import mtboost.xgboost

N_ROWS, N_VALID, N_FEATURES = 1_000_000, 200_000, 50
Train = Callable[[int], Any]


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    margin = X[:, 1] - 0.7 * X[:, 2] + np.sin(2 * X[:, 9]) + (X[:, 10] > 0) * (X[:, 11] > 1) - 2
    return X, (rng.random(n_rows) < scipy.special.expit(margin)).astype(np.float32)


def xgboost_trainings(n_tasks: int, n_threads: int) -> dict[str, Train]:
    X, y = make_rows(N_ROWS, 0)
    valid_X, valid_y = make_rows(N_VALID, 1)
    task, valid_task = (np.arange(n) % n_tasks for n in (N_ROWS, N_VALID))
    data = xgboost.QuantileDMatrix(X, y, nthread=n_threads)
    valid = xgboost.QuantileDMatrix(valid_X, valid_y, ref=data, nthread=n_threads)
    params = {
        "objective": "binary:logistic",
        "base_score": float(y.mean()),
        "max_depth": 6,
        "eta": 0.1,
        "nthread": n_threads,
        "eval_metric": "logloss",
    }
    objective = mtboost.xgboost.TaskObjective("binary:logistic", task, n_threads=n_threads)

    def stock(rounds: int) -> None:
        xgboost.train(params, data, rounds, evals=[(valid, "valid")], verbose_eval=False)

    def with_tasks(rounds: int) -> None:
        quitting = mtboost.xgboost.TaskQuitting(
            valid, valid_task, metric="logloss", objective=objective
        )
        xgboost.train(params, data, rounds, obj=objective, callbacks=[quitting])

    return {"stock": stock, "tasks": with_tasks}


def lightgbm_trainings(n_tasks: int, n_threads: int) -> dict[str, Train]:
    X, y = make_rows(N_ROWS, 0)
    valid_X, valid_y = make_rows(N_VALID, 1)
    task, valid_task = (np.arange(n) % n_tasks for n in (N_ROWS, N_VALID))
    params = {
        "objective": "binary",
        "boost_from_average": False,
        "num_leaves": 63,
        "learning_rate": 0.1,
        "num_threads": n_threads,
        "force_row_wise": True,  # not timed anew in each training
        "metric": "binary_logloss",
        "verbosity": -1,
    }
    data = lightgbm.Dataset(X, y, params=params).construct()
    valid = lightgbm.Dataset(valid_X, valid_y, reference=data, params=params).construct()
    objective = mtboost.lightgbm.TaskObjective("binary", task, n_threads=n_threads)

    def stock(rounds: int) -> None:
        lightgbm.train(params, data, rounds, valid_sets=[valid])

    def with_tasks(rounds: int) -> None:
        quitting = mtboost.lightgbm.TaskQuitting(
            valid, valid_task, metric="logloss", objective=objective
        )
        own = {**params, "objective": objective, "metric": "None"}
        lightgbm.train(own, data, rounds, valid_sets=[valid], callbacks=[quitting])

    return {"stock": stock, "tasks": with_tasks}


def time_of_round(train: Train) -> float:
    """Seconds a round takes."""
    ends = [time.perf_counter()]
    for rounds in (2, 22):
        train(rounds)
        ends.append(time.perf_counter())
    short, long = np.diff(ends)
    return float(long - short) / 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 100])
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    print(
        f"{platform.processor() or platform.machine()}, {args.threads} threads, {N_ROWS} rows, "
        f"{N_FEATURES} features, {N_VALID} validation rows; medians of {args.turns} turns"
    )
    print(f"{'':10}{'tasks':>6}{'stock ms':>10}{'ours ms':>10}{'ratio':>8}{'min':>8}{'max':>8}")
    for name, make in (("xgboost", xgboost_trainings), ("lightgbm", lightgbm_trainings)):
        for n_tasks in args.tasks:
            trainings = make(n_tasks, args.threads)
            times: dict[str, list[float]] = {method: [] for method in trainings}
            for _ in range(args.turns):
                for method, train in trainings.items():
                    times[method].append(1000 * time_of_round(train))
            ratios = [b / a for a, b in zip(times["stock"], times["tasks"], strict=True)]
            print(
                f"{name:10}{n_tasks:6}{statistics.median(times['stock']):10.1f}"
                f"{statistics.median(times['tasks']):10.1f}{statistics.median(ratios):8.2f}"
                f"{min(ratios):8.2f}{max(ratios):8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
