# SPDX-License-Identifier: Apache-2.0
"""How fast does the common model grow, against XGBoost and LightGBM on the same rows pooled?

Four shapes: few large tasks (1.17 M rows x 44 columns, 2 tasks), many tasks (1 M x 50, 1000 tasks,
Zipf sizes), a wide table (100,000 x 2,000, 20 tasks) and a tall, narrow one (5 M x 12, 50 tasks).
Every library trains in a separate process, so that its peak memory is its own; the processes take
turns, and ratios are of runs of the same turn. Where others use the processors as well, ratios of
processor time vary less than those of elapsed time. --rows-fraction 0.2 takes a fifth of the rows.

    python benchmarks/common_stage.py [--rounds 100] [--turns 5] [--threads 2]
        [--shape few many wide tall] [--rows-fraction 1] [--out common_stage.jsonl]

TaskSplit inside lightgbm.train, against LightGBM:

    python benchmarks/common_stage.py --base lightgbm \
        --method lightgbm lightgbm_plain lightgbm_entropy lightgbm_variance

Methods "..._quantized" have quantized_gradients=True.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.special

SHAPES = {  # rows, features, tasks
    "few": (1_173_000, 44, 2),
    "many": (1_000_000, 50, 1000),
    "wide": (100_000, 2000, 20),
    "tall": (5_000_000, 12, 50),
}
# Library, and the score of TaskSplit inside it; "": as it comes.
METHODS = {
    "xgboost": ("xgboost", ""),
    "lightgbm": ("lightgbm", ""),
    "plain": ("xgboost", "plain"),
    "entropy": ("xgboost", "entropy"),
    "variance": ("xgboost", "variance"),
    "variance_1e-3": ("xgboost", "variance_1e-3"),
    "lightgbm_plain": ("lightgbm", "plain"),
    "lightgbm_entropy": ("lightgbm", "entropy"),
    "lightgbm_variance": ("lightgbm", "variance"),
    "plain_quantized": ("xgboost", "plain"),
    "entropy_quantized": ("xgboost", "entropy"),
    "variance_quantized": ("xgboost", "variance"),
}
MAX_DEPTH, LEARNING_RATE = 6, 0.1


def size(shape: str, rows_fraction: float) -> tuple[int, int, int]:
    n_rows, n_features, n_tasks = SHAPES[shape]
    return round(n_rows * rows_fraction), n_features, n_tasks


def make_data(n_rows: int, n_features: int, n_tasks: int, folder: Path) -> None:
    """A logistic problem whose tasks share some effects and differ in others."""
    rng = np.random.default_rng(0)
    sizes = 1 / np.arange(1, n_tasks + 1) if n_tasks > 2 else np.array([0.836, 0.164])
    task = rng.choice(n_tasks, n_rows, p=sizes / sizes.sum()).astype(np.int32)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    for column in range(0, n_features, 4):  # counts: few distinct values, heavy tail
        X[:, column] = np.round(np.exp(X[:, column]) * 3)
    own = rng.standard_normal((n_tasks, 4)).astype(np.float32)[task]
    margin = X[:, 1] - 0.7 * X[:, 2] + np.sin(2 * X[:, 9]) + (X[:, 10] > 0) * (X[:, 11] > 1) - 2
    margin += 0.5 * (own * X[:, -5:-1]).sum(axis=1)
    y = rng.random(n_rows) < scipy.special.expit(margin)
    for name, array in (("X", X), ("y", y.astype(np.float32)), ("task", task)):
        np.save(folder / f"{name}.npy", array)


def run_method(method: str, folder: Path, rounds: int, n_threads: int) -> dict[str, float]:
    X, y, task = (np.load(folder / f"{name}.npy") for name in ("X", "y", "task"))
    library, (score, _, beta) = METHODS[method][0], METHODS[method][1].partition("_")
    options = {"split_score": score, "beta": float(beta) if beta else "auto"}
    callbacks = []
    start = time.perf_counter()
    if library == "lightgbm":
        import lightgbm

        if score:
            from mtboost.lightgbm import TaskSplit as LightgbmTaskSplit
        params = {
            "objective": "binary",
            "num_leaves": 2**MAX_DEPTH - 1,
            "max_depth": MAX_DEPTH,
            "learning_rate": LEARNING_RATE,
            "num_threads": n_threads,
            "verbose": -1,
        }
        data = lightgbm.Dataset(X, y, params=params)
        data.construct()
        ready, processor_start = time.perf_counter(), time.process_time()
        if score:
            callbacks = [LightgbmTaskSplit(task, **options)]
        lightgbm.train(params, data, rounds, callbacks=callbacks)
    else:
        import xgboost

        if score:
            from mtboost.xgboost import TaskSplit
        params = {
            "objective": "binary:logistic",
            "max_depth": MAX_DEPTH,
            "learning_rate": LEARNING_RATE,
            "nthread": n_threads,
        }
        matrix = xgboost.QuantileDMatrix(X, y, nthread=n_threads)
        ready, processor_start = time.perf_counter(), time.process_time()
        if score:
            is_quantized = method.endswith("_quantized")
            split = TaskSplit(task, table=X, quantized_gradients=is_quantized, **options)
            callbacks = [split]
        xgboost.train(params, matrix, rounds, callbacks=callbacks)
    end, processor_end = time.perf_counter(), time.process_time()
    return {
        "prepare": ready - start,
        "train": end - ready,
        "processor": processor_end - processor_start,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rows-fraction", type=float, default=1.0, help="part of the rows")
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS)[:6])
    parser.add_argument("--base", choices=METHODS, default="xgboost", help="what ratios are to")
    parser.add_argument("--out", type=Path, help="file of results, a line per run; appended to")
    parser.add_argument("--child", nargs=2, metavar=("METHOD", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        method, folder = args.child
        print(json.dumps(run_method(method, Path(folder), args.rounds, args.threads)))
        return
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {args.threads} threads, {args.rounds} rounds")
    for shape in args.shape:
        n_rows, n_features, n_tasks = size(shape, args.rows_fraction)
        with tempfile.TemporaryDirectory() as folder:
            make_data(n_rows, n_features, n_tasks, Path(folder))
            results: dict[str, list[dict[str, float]]] = {method: [] for method in args.method}
            for turn in range(args.turns):
                for method in args.method:
                    command = [sys.executable, __file__, "--child", method, folder]
                    command += ["--rounds", str(args.rounds), "--threads", str(args.threads)]
                    output = subprocess.run(command, check=True, capture_output=True, text=True)
                    results[method].append(json.loads(output.stdout.splitlines()[-1]))
                    if args.out:
                        line = {"shape": shape, "rows": n_rows, "threads": args.threads}
                        line |= {"rounds": args.rounds, "turn": turn, "base": args.base}
                        line |= {"method": method, **results[method][-1]}
                        with args.out.open("a") as file:
                            file.write(json.dumps(line) + "\n")
        print(
            f"\n{n_rows} rows, {n_features} features, {n_tasks} tasks; {args.turns} turns; "
            f"ratios to {args.base}"
        )
        columns = ("train s", "ratio", "min", "max", "cpu s", "ratio", "MB", "ratio")
        print(f"{'medians':18}" + "".join(map("{:>10}".format, columns)))
        for method, runs in results.items():
            base = results.get(args.base, runs)
            pairs = list(zip(runs, base, strict=True))
            ratio = [a["train"] / b["train"] for a, b in pairs]
            cpu_ratio = [a["processor"] / b["processor"] for a, b in pairs]
            memory = statistics.median(run["memory"] for run in runs)
            base_memory = statistics.median(run["memory"] for run in base)
            print(
                f"{method:18}{statistics.median(run['train'] for run in runs):10.2f}"
                f"{statistics.median(ratio):10.2f}{min(ratio):10.2f}{max(ratio):10.2f}"
                f"{statistics.median(run['processor'] for run in runs):10.2f}"
                f"{statistics.median(cpu_ratio):10.2f}"
                f"{memory:10.0f}{memory / base_memory:10.2f}"
            )


if __name__ == "__main__":
    main()
