# SPDX-License-Identifier: Apache-2.0
"""How do time and memory of `mtboost.fit` grow with the number of tasks?

The rows are the same; only the number of tasks into which they fall grows. Each fit runs in a
separate process, whose peak memory is read at its end. Ratios are to the fit with the fewest
tasks of the same turn; medians. The peer is one pooled model of XGBoost with early stopping, on
four fifths of the rows.

    python benchmarks/many_tasks.py [--rows 200000] [--columns 40] [--tasks 2 200 2000]
        [--turns 5] [--threads 2] [--strategy two-stage] [--backend xgboost]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

import mtboost


def generate(n_rows: int, n_columns: int, n_tasks: int) -> tuple[Any, Any, Any]:
    """Rows, labels and tasks, of nearly the same size each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    task = rng.permutation(n_rows) % n_tasks
    own = 0.5 * rng.normal(size=(n_tasks, 3))
    y = X[:, 0] + np.sin(2.0 * X[:, 1]) + (own[task] * X[:, 2:5]).sum(axis=1)
    return X, y + own[task, 0] + rng.normal(size=n_rows), task


def train_peer(X: Any, y: Any, threads: int) -> None:
    is_valid = np.random.default_rng(0).random(len(y)) < 0.2
    train = xgboost.QuantileDMatrix(X[~is_valid], y[~is_valid])
    valid = xgboost.QuantileDMatrix(X[is_valid], y[is_valid], ref=train)
    params = {"learning_rate": 0.1, "nthread": threads}
    watched = {"evals": [(valid, "valid")], "early_stopping_rounds": 20, "verbose_eval": False}
    xgboost.train(params, train, 500, **watched)


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds of each step, and the peak of memory in MB."""
    (n_tasks,) = arguments.tasks
    X, y, task = generate(arguments.rows, arguments.columns, max(1, n_tasks))
    seconds: dict[str, float] = {}

    def timed(name: str, step: Any) -> Any:
        start = time.perf_counter()
        found = step()
        seconds[name] = time.perf_counter() - start
        return found

    if n_tasks == 0:
        timed("fit", lambda: train_peer(X, y, arguments.threads))
    else:
        options = {"strategy": arguments.strategy, "backend": arguments.backend}
        model = timed(
            "fit", lambda: mtboost.fit(X, y, task=task, n_threads=arguments.threads, **options)
        )
    seconds["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if n_tasks:
        timed("report", model.report)
        timed("predict", lambda: model.predict(X, task=task))
        timed("booster", lambda: model.booster(model.tasks[0]))
        with tempfile.TemporaryDirectory() as folder:
            timed("save", lambda: model.save(Path(folder) / "model"))
    return seconds


def measured(arguments: argparse.Namespace, n_tasks: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", "--tasks", str(n_tasks)]
    for name in ("rows", "columns", "threads", "strategy", "backend"):
        command += [f"--{name}", str(getattr(arguments, name))]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds: dict[str, float] = json.loads(found)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 200, 2000])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--strategy", default="two-stage")
    parser.add_argument("--backend", default="xgboost")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments)))
        return
    turns = [
        {n_tasks: measured(arguments, n_tasks) for n_tasks in (0, *arguments.tasks)}
        for _ in range(arguments.turns)
    ]
    least = min(arguments.tasks)
    steps = ("fit", "report", "predict", "booster", "save")
    print(f"XGBoost, pooled: {np.median([turn[0]['fit'] for turn in turns]):.2f} s")
    print("  tasks" + "".join(f"{step:>10}" for step in steps) + "      time    memory")
    for n_tasks in arguments.tasks:
        values = [np.median([turn[n_tasks][step] for turn in turns]) for step in steps]
        ratios = [
            np.median([turn[n_tasks][name] / turn[least][name] for turn in turns])
            for name in ("fit", "peak")
        ]
        print(
            f"{n_tasks:7}"
            + "".join(f"{value:8.2f} s" for value in values)
            + "".join(f"{ratio:9.2f}x" for ratio in ratios)
        )


if __name__ == "__main__":
    main()
