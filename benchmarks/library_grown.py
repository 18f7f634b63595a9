# SPDX-License-Identifier: Apache-2.0
"""What do leaf values per task cost a round where XGBoost grows the trees itself?

Three trainings take turns in one process: stock XGBoost, its own trees with partially pooled leaves
(docs/library_grown.md), and mtboost's trees with these leaves, which grow on the CPU only. On the
CPU ``hist`` would be mtboost's, so XGBoost is made to grow it. On a GPU the third training is that
of XGBoost's trees where the table is not given to ``TaskSplit``. Times are per round, without the
first; the median and the range of the turns are printed, and how far the margins of the last two
ways differ.

    python benchmarks/library_grown.py [--device cuda] [--tree-method hist] [--tasks 20 1000]
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import xgboost

import mtboost.xgboost.growth
from mtboost.xgboost import TaskSplit

KAPPA = 20.0
# The processor time of this process, for a busy machine; of a GPU it says nothing.
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


class Clock(xgboost.callback.TrainingCallback):
    """Notes the time after each round."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.times: list[float] = []
        self._read = read

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.times.append(self._read())
        return False

    def per_round(self) -> float:
        return statistics.median(np.diff(self.times).tolist())


def make_rows(n_rows: int, n_features: int, n_tasks: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    task = rng.integers(0, n_tasks, n_rows)
    slope = rng.normal(1.0, 0.7, n_tasks)[task]
    y = X[:, 0] * slope + np.sin(2.0 * X[:, 1]) + rng.normal(size=n_rows)
    return X, y.astype(np.float32), task


def measure(n_tasks: int, options: argparse.Namespace) -> None:
    X, y, task = make_rows(options.rows, options.features, n_tasks)
    params = {
        "max_depth": 6,
        "learning_rate": 0.1,
        "nthread": options.threads,
        "tree_method": options.tree_method,
        "device": options.device,
    }
    make = xgboost.QuantileDMatrix if options.tree_method == "hist" else xgboost.DMatrix
    data = make(X, y, nthread=options.threads)
    in_memory = data
    if options.tree_method != "hist":
        in_memory = xgboost.QuantileDMatrix(X, y, nthread=options.threads)

    def train(way: str) -> tuple[float, np.ndarray | None]:
        clock = Clock(CLOCKS[options.clock])
        if way == "stock":
            xgboost.train(params, data, options.rounds, callbacks=[clock])
            return clock.per_round(), None
        table = None if way == "without table" else X
        split = TaskSplit(task, split_score="plain", pooling=KAPPA, table=table)
        if way == "native":
            own = {**params, "tree_method": "hist", "device": "cpu"}
            booster = xgboost.train(own, in_memory, options.rounds, callbacks=[split, clock])
        else:
            route = mock.patch.object(
                mtboost.xgboost.growth, "why_library_grows", return_value="a benchmark"
            )
            with route:
                booster = xgboost.train(params, data, options.rounds, callbacks=[split, clock])
        rows = np.flatnonzero(task == 0)
        margins = split.booster(booster, 0).predict(xgboost.DMatrix(X[rows]), output_margin=True)
        return clock.per_round(), margins

    other = "native" if options.device == "cpu" else "without table"
    ways = ("stock", "library-grown", other)
    times: dict[str, list[float]] = {way: [] for way in ways}
    margins: dict[str, np.ndarray | None] = {}
    for _ in range(options.turns):
        for way in ways:
            seconds, margins[way] = train(way)
            times[way].append(1e3 * seconds)
    print(f"{n_tasks} tasks, milliseconds per round", flush=True)
    for way in ways:
        found = times[way]
        print(f"  {way:14s}{statistics.median(found):8.1f}  ({min(found):.1f} to {max(found):.1f})")
    grown, others = margins["library-grown"], margins[other]
    assert grown is not None
    assert others is not None
    print(f"  largest difference of margins of task 0: {np.abs(grown - others).max():.1e}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tree-method", default="hist", choices=["hist", "approx", "exact"])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=40)
    parser.add_argument("--tasks", type=int, nargs="+", default=[20, 1000])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clock", default="wall", choices=[*CLOCKS])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    versions = f"XGBoost {xgboost.__version__}, NumPy {np.__version__}, {platform.machine()}"
    print(
        f"{versions}, {options.threads} threads, {options.rows} x {options.features}, "
        f"{options.clock} time"
    )
    for n_tasks in options.tasks:
        measure(n_tasks, options)


if __name__ == "__main__":
    main()
