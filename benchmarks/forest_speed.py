# SPDX-License-Identifier: Apache-2.0
"""How fast do the forests grow and predict, and what do they hold, against scikit-learn's?

Same numbers of trees, features per node and threads, fully grown; without task splits MT-ExtraTrees
has the distribution of scikit-learn's extra trees. Every forest grows in a separate process, so
that its peak memory is its own; the processes take turns, and ratios are of runs of the same turn.

With ``--dense`` the sparse table is also grown as a dense one by mtboost, in 16 GB.

    python benchmarks/forest_speed.py [--trees 20] [--turns 5] [--shape regression ...] [--dense]
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse

# Rows, features; a node considers all columns for numbers, their square root for classes.
SHAPES = {
    "regression": (100_000, 50),
    "two": (100_000, 50),
    "three": (100_000, 50),
    "images": (30_000, 784),
    "sparse": (20_000, 100_000),
}
FIGURES = ("fit", "predict", "memory")


def make_rows(shape: str) -> tuple[Any, Any]:
    n_rows, n_features = SHAPES[shape]
    rng = np.random.default_rng(0)
    if shape == "sparse":
        X = scipy.sparse.random_array(
            SHAPES[shape], density=0.001, rng=rng, format="csr", dtype=np.float32
        )
        effects = rng.standard_normal(n_features) * (rng.random(n_features) < 0.3)
        return X, X @ effects + 0.3 * rng.standard_normal(n_rows) > 0
    if shape == "images":  # ten prototypes, two thirds of whose pixels are dark
        y = rng.integers(10, size=n_rows)
        prototypes = rng.random((10, n_features)) * (rng.random((10, n_features)) < 0.3)
        pixels = prototypes[y] + 0.3 * rng.standard_normal((n_rows, n_features))
        return np.rint(255 * np.clip(pixels, 0, 1)).astype(np.float32), y
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    number = X[:, 0] + np.sin(3 * X[:, 1]) * X[:, 2] + rng.standard_normal(n_rows)
    if shape == "regression":
        return X, number
    return X, np.digitize(number, np.quantile(number, [0.6, 0.85][: 1 if shape == "two" else 2]))


def run_forest(forest: str, shape: str, n_trees: int, n_threads: int) -> dict[str, float]:
    X, y = make_rows(shape)
    if forest == "dense":
        X = X.toarray()
    options: dict[str, Any] = {"n_estimators": n_trees, "n_jobs": n_threads, "random_state": 0}
    is_regression = shape == "regression"
    if forest == "sklearn":
        from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

        model = (ExtraTreesRegressor if is_regression else ExtraTreesClassifier)(**options)
    else:
        from mtboost import MTExtraTreesClassifier, MTExtraTreesRegressor

        options |= {"task_split_prob": 0.0, "min_samples_leaf": 1}
        model = (MTExtraTreesRegressor if is_regression else MTExtraTreesClassifier)(**options)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    model.fit(X, y)
    ready = time.perf_counter()
    (model.predict if is_regression else model.predict_proba)(X)
    end = time.perf_counter()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"fit": ready - start, "predict": end - ready, "memory": max(memory, 1) / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--dense", action="store_true")
    parser.add_argument("--child", nargs=2, metavar=("FOREST", "SHAPE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(run_forest(*args.child, args.trees, args.threads)))
        return
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {args.threads} threads, {args.trees} trees, {args.turns} turns")
    print("medians of seconds and MB (beyond data and modules), ratios with least and most\n")
    print(f"{'':28}{'other':>10}{'mtboost':>10}{'ratio':>8}{'min':>7}{'max':>7}")
    for shape in args.shape:
        others = ["sklearn", *(["dense"] if args.dense and shape == "sparse" else [])]
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in ("mtboost", *others)}
        for _ in range(args.turns):
            for forest, done in runs.items():
                command = [sys.executable, __file__, "--child", forest, shape]
                command += ["--trees", str(args.trees), "--threads", str(args.threads)]
                output = subprocess.run(command, check=True, capture_output=True, text=True)
                done.append(json.loads(output.stdout.splitlines()[-1]))
        for other in others:
            for figure in FIGURES:
                theirs, ours = ([run[figure] for run in runs[name]] for name in (other, "mtboost"))
                ratios = [own / their for own, their in zip(ours, theirs, strict=True)]
                print(
                    f"{shape:12}{other:8}{figure:8}{statistics.median(theirs):10.2f}"
                    f"{statistics.median(ours):10.2f}{statistics.median(ratios):8.2f}"
                    f"{min(ratios):7.2f}{max(ratios):7.2f}"
                )


if __name__ == "__main__":
    main()
