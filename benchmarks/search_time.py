# SPDX-License-Identifier: Apache-2.0
"""How long does the search of `mtboost.fit` take, compared with one XGBoost model?

The peer is one pooled model of XGBoost with the same learning rate, on four fifths of the rows,
which ends when the others have not improved for 20 rounds; nothing else is set. Both run in turns,
so that a ratio is one of neighbours; medians, and the least and the largest.

    python benchmarks/search_time.py [--turns 5] [--threads 2] [SHAPE ...]

A shape is ROWSxCOLUMNSxTASKS of generated numbers, or an .npz file with X, y and task.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

import mtboost
from mtboost.model.sharing.effort import EFFORTS

SHAPES = ("15000x10x100", "400000x40x10")
MANY_ROWS = 100_000  # from here on the learning rate of fit is .1


def load(shape: str) -> tuple[Any, Any, Any]:
    """Rows, labels and tasks."""
    if Path(shape).suffix == ".npz":
        with np.load(shape, allow_pickle=False) as file:
            return file["X"].astype(np.float32), file["y"].astype(np.float64), file["task"]
    n_rows, n_columns, n_tasks = map(int, shape.split("x"))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    task = rng.integers(0, n_tasks, n_rows)
    own = 0.5 * rng.normal(size=(n_tasks, n_columns)) / np.sqrt(n_columns)
    y = 2.0 * np.tanh(X[:, :5].sum(axis=1)) + np.sin(2.0 * X[:, 5]) * X[:, 6]
    return X, y + (X * own[task]).sum(axis=1) + rng.normal(size=n_rows), task


def train_peer(X: Any, y: Any, threads: int) -> None:
    is_valid = np.random.default_rng(0).random(len(y)) < 0.2
    is_binary = set(np.unique(y)) == {0.0, 1.0}
    params = {
        "objective": "binary:logistic" if is_binary else "reg:squarederror",
        "learning_rate": 0.1 if len(y) > MANY_ROWS else 0.02,
        "nthread": threads,
    }
    train = xgboost.QuantileDMatrix(X[~is_valid], y[~is_valid])
    valid = xgboost.QuantileDMatrix(X[is_valid], y[is_valid], ref=train)
    watched = {"evals": [(valid, "valid")], "early_stopping_rounds": 20, "verbose_eval": False}
    xgboost.train(params, train, 2000, **watched)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(arguments.threads))
    for shape in arguments.shapes:
        X, y, task = load(shape)
        seconds: dict[str, list[float]] = {}
        for _ in range(arguments.turns):
            start = time.perf_counter()
            train_peer(X, y, arguments.threads)
            seconds.setdefault("XGBoost", []).append(time.perf_counter() - start)
            for effort in EFFORTS:
                start = time.perf_counter()
                mtboost.fit(X, y, task=task, effort=effort, n_threads=arguments.threads)
                seconds.setdefault(effort, []).append(time.perf_counter() - start)
        print(f"\n{shape}: XGBoost {np.median(seconds['XGBoost']):.2f} s")
        for effort in EFFORTS:
            ratios = np.divide(seconds[effort], seconds["XGBoost"])
            spread = f"({ratios.min():.1f} to {ratios.max():.1f})"
            print(
                f"{effort:10}{np.median(seconds[effort]):9.2f} s{np.median(ratios):8.1f} {spread}"
            )


if __name__ == "__main__":
    main()
