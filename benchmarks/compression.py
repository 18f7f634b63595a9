# SPDX-License-Identifier: Apache-2.0
"""How much smaller does a forest become, and what does that cost? (joly2016, table 7.1)

Extra trees, grown until their leaves are pure, before and after mtboost.compress(); steps by
ten-fold cross-validation on the training rows only. Error: of regression the mean squared error
over the variance of the test labels (averaged over outputs), of classes the share of wrong ones.
Nodes are test nodes, those that are no leaves. Means and standard errors over seeds.

Table 7.1 has factors of 9 to 34, with errors a little lower than the whole forest's in regression,
and a little higher on two-norm.

    python benchmarks/compression.py [--seeds 5] [--trees 100] [--epsilon 0.01] [--atp1d atp1d.npz]
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

import mtboost

N_TRAIN, N_TEST = 300, 2000
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X, y to train; X, y to test


def friedman1(seed: int) -> Parts:
    X, y = make_friedman1(N_TRAIN + N_TEST, n_features=10, noise=1.0, random_state=seed)
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]


def two_norm(seed: int) -> Parts:
    """Two normal clouds in 20 dimensions, with means of 2 / √20 and -2 / √20 in each."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, N_TRAIN + N_TEST)
    X = rng.standard_normal((len(y), 20)) + (2.0 / np.sqrt(20)) * (2 * y[:, np.newaxis] - 1)
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]


def divided(X: np.ndarray, y: np.ndarray, seed: int) -> Parts:
    rows = np.random.default_rng(seed).permutation(len(X))
    train, test = np.split(rows, [round(0.7 * len(X))])
    return X[train], y[train], X[test], y[test]


def error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return 1.0 - float(model.score(X, y))  # R² and accuracy


def measure(
    parts: Parts, max_features: str | None, n_trees: int, epsilon: float, seed: int
) -> dict[str, float]:
    X, y, X_test, y_test = parts
    kind = ExtraTreesClassifier if y.dtype.kind == "i" else ExtraTreesRegressor
    forest = kind(n_trees, max_features=max_features, random_state=seed).fit(X, y)
    start = time.perf_counter()
    small = mtboost.compress(forest, X, y, epsilon=epsilon, random_state=seed)
    return {
        "error": error(forest, X_test, y_test),
        "compressed": error(small, X_test, y_test),
        "nodes": small.n_test_nodes_before_,
        "left": small.n_test_nodes_,
        "factor": small.n_test_nodes_before_ / max(small.n_test_nodes_, 1),
        "steps": small.n_steps_,
        "kB": len(pickle.dumps(forest)) / 1e3,
        "kB left": len(pickle.dumps(small)) / 1e3,
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=0.01)
    parser.add_argument("--atp1d", help="file with X and Y: six prices of flights")
    args = parser.parse_args()
    diabetes = load_diabetes(return_X_y=True)
    problems: dict[str, tuple[Callable[[int], Parts], str | None]] = {
        "friedman1": (friedman1, None),
        "two-norm": (two_norm, None),
        "two-norm, √20 features a node": (two_norm, "sqrt"),
        "diabetes": (lambda seed: divided(*diabetes, seed), None),
    }
    if args.atp1d:
        with np.load(args.atp1d, allow_pickle=False) as data:
            flights = data["X"], data["Y"]
        problems["atp1d"] = (lambda seed: divided(*flights, seed), None)
    rows = [
        {"data": name, **measure(make(seed), max_features, args.trees, args.epsilon, seed)}
        for name, (make, max_features) in problems.items()
        for seed in range(args.seeds)
    ]
    by_data = pd.DataFrame(rows).groupby("data", sort=False)
    print(f"{args.trees} trees, steps of {args.epsilon}, {args.seeds} seeds: means")
    print(by_data.mean().round(3).to_string())
    print("\nstandard errors")
    print(by_data.sem()[["error", "compressed", "left", "factor"]].round(3).to_string())


if __name__ == "__main__":
    main()
