# SPDX-License-Identifier: Apache-2.0
"""
A forest compressed to a few hundred nodes
==========================================

The nodes that are kept predict better than all of them.

Extra trees on 300 rows of Friedman's first problem (five columns matter, five do not). The number
of steps is cross-validated on those rows; the test rows only draw a curve. Larger forests give
better compressed ones, of about the same size: there are more nodes to choose from.
"""

from __future__ import annotations

import pickle

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesRegressor

import mtboost

FloatArray = npt.NDArray[np.float64]

N_TRAIN, N_TEST = 300, 5000
STEPS = np.arange(0, 1601, 200)


def main() -> None:
    X, y = make_friedman1(N_TRAIN + N_TEST, noise=1.0, random_state=0)
    train, test = slice(N_TRAIN), slice(N_TRAIN, None)
    noise = 1.0 / y[test].var()
    print(f"error: mean squared error over the variance of y; the noise alone has {noise:.3f}\n")
    names = ("error", "compressed", "test nodes", "left", "kB", "left")
    print("trees" + "".join(f"{name:>12}" for name in names))
    for n_trees in (10, 100, 300):
        forest = ExtraTreesRegressor(n_trees, random_state=0).fit(X[train], y[train])
        small = mtboost.compress(forest, X[train], y[train], cv=5, random_state=0)
        errors = [1.0 - model.score(X[test], y[test]) for model in (forest, small)]
        n_bytes = [len(pickle.dumps(model)) / 1e3 for model in (forest, small)]
        print(
            f"{n_trees:5}{errors[0]:12.3f}{errors[1]:12.3f}{small.n_test_nodes_before_:12}"
            f"{small.n_test_nodes_:12}{n_bytes[0]:12.0f}{n_bytes[1]:12.0f}"
        )
    save_plot(forest, small, X, y)


def save_plot(
    forest: ExtraTreesRegressor,
    small: mtboost.estimators.forests.CompressedForestRegressor,
    X: FloatArray,
    y: FloatArray,
) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    small.plot_cv_curve(ax=left)
    path = [mtboost.compress(forest, X[:N_TRAIN], y[:N_TRAIN], n_steps=int(n)) for n in STEPS]
    n_nodes = [model.n_test_nodes_ for model in path]
    errors = [1.0 - model.score(X[N_TRAIN:], y[N_TRAIN:]) for model in path]
    whole = 1.0 - forest.score(X[N_TRAIN:], y[N_TRAIN:])
    right.plot(n_nodes, errors, ".-", label="compressed")
    right.axhline(whole, color="black", linestyle=":", label=f"whole: {small.n_test_nodes_before_}")
    right.plot(
        small.n_test_nodes_, 1.0 - small.score(X[N_TRAIN:], y[N_TRAIN:]), "o", label="chosen"
    )
    right.set_xlabel("test nodes left")
    right.set_ylabel("error of the test rows")
    right.set_ylim(0.0, 2.0 * whole)
    right.legend()
    figure.savefig("compress_forest.png", dpi=120)


if __name__ == "__main__":
    main()
