# SPDX-License-Identifier: Apache-2.0
"""How fast do the forests grow and predict, and what do they hold, against scikit-learn's?

Same numbers of trees, features per node and threads, fully grown; without task splits MT-ExtraTrees
has the distribution of scikit-learn's extra trees. Every forest grows in a separate process, so
that its peak memory is its own; the processes take turns, and ratios are of runs of the same turn.

    python benchmarks/forest_speed.py --out results.jsonl [--trees 20] [--turns 5]
        [--shape regression ...]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse
from peer_runs import append, parser, read

# Rows, features; a node considers all columns for numbers, their square root for classes.
SHAPES = {
    "regression": (100_000, 50),
    "two": (100_000, 50),
    "three": (100_000, 50),
    "images": (30_000, 784),
    "sparse": (20_000, 100_000),
}
FORESTS = ("mtboost", "sklearn")
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


def lines_of(
    shape: str, turn: int, n_trees: int, n_threads: int
) -> Iterator[dict[str, str | float]]:
    for forest in FORESTS:
        command = [sys.executable, __file__, "--child", forest, shape]
        command += ["--trees", str(n_trees), "--threads", str(n_threads), "--out", os.devnull]
        output = subprocess.run(command, check=True, capture_output=True, text=True)
        own = {"shape": shape, "turn": turn, "trees": n_trees, "threads": n_threads}
        yield own | {"method": forest} | json.loads(output.stdout.splitlines()[-1])


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--trees", type=int, default=20)
    found.add_argument("--turns", type=int, default=5)
    found.add_argument("--threads", type=int, default=2)
    found.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    found.add_argument("--child", nargs=2, metavar=("FOREST", "SHAPE"), help=argparse.SUPPRESS)
    args = found.parse_args()
    if args.child:
        print(json.dumps(run_forest(*args.child, args.trees, args.threads)))
        return
    for shape, turn in product(args.shape, range(0 if args.table else args.turns)):
        append(args.out, lines_of(shape, turn, args.trees, args.threads))
    medians = read(args.out).groupby(["shape", "method"], sort=False)[list(FIGURES)].median()
    print(medians.unstack("method").round(2).to_string())


if __name__ == "__main__":
    main()
