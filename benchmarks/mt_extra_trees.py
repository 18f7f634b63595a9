# SPDX-License-Identifier: Apache-2.0
"""What do task splits give on Landmine and School? (figures 1b and 1c of simm2014)

Landmine: area under the ROC curve, averaged over 29 fields, 75 % of each field and class to train.
School: explained variance of all test pupils, 75 % of each school. MT-ExtraTrees for growing
probabilities of task splits (0 is pooled), and the same trees with a column per task. With
``--leaf`` and ``--features`` the settings can be compared. The files are read from a folder:

    python benchmarks/mt_extra_trees.py landmine --data FOLDER [--splits 10] [--trees 500]
    python benchmarks/mt_extra_trees.py school --data FOLDER [--leaf 10 20 40]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import r2_score, roc_auc_score

from mtboost import MTExtraTreesClassifier, MTExtraTreesRegressor

PROBABILITIES = (0.0, 0.0625, 0.125, 0.25, 0.375, 0.5, 0.6, 0.8, 1.0)
Rows = npt.NDArray[np.int64]


def split_rows(task: npt.NDArray[Any], y: npt.NDArray[Any], seed: int) -> tuple[Rows, Rows]:
    """75 % of the rows of each task, of Landmine also of each class."""
    rng = np.random.default_rng(seed)
    group = task if len(np.unique(y)) > 2 else 2 * task + y.astype(int)
    is_train = np.zeros(len(task), bool)
    for code in np.unique(group):
        own = rng.permutation(np.flatnonzero(group == code))
        is_train[own[: round(0.75 * len(own))]] = True
    return np.flatnonzero(is_train), np.flatnonzero(~is_train)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=("landmine", "school"))
    parser.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--leaf", type=int, nargs="+", help="default: the estimator's")
    parser.add_argument("--features", type=int, nargs="+", help="default: the estimator's")
    args = parser.parse_args()
    with np.load(Path(args.data, f"{args.name}.npz"), allow_pickle=False) as data:
        X, y, task = data["X"], data["y"], data["task"]
    with_columns = np.column_stack([X, task[:, np.newaxis] == np.unique(task)])
    is_landmine = args.name == "landmine"
    make = MTExtraTreesClassifier if is_landmine else MTExtraTreesRegressor

    def score(rows: Rows, predicted: npt.NDArray[np.float64]) -> float:
        if not is_landmine:
            return float(r2_score(y[rows], predicted))
        own = [task[rows] == code for code in np.unique(task)]
        return float(np.mean([roc_auc_score(y[rows][part], predicted[part]) for part in own]))

    def evaluate(seed: int, X: Any, probability: float, options: dict[str, Any]) -> float:
        train, test = split_rows(task, y, seed)
        model = make(
            args.trees, task_split_prob=probability, random_state=seed, n_jobs=-1, **options
        )
        model.fit(X[train], y[train], task=task[train])
        if isinstance(model, MTExtraTreesClassifier):
            return score(test, model.predict_proba(X[test], task=task[test])[:, 1])
        return score(test, model.predict(X[test], task=task[test]))

    print(
        f"{args.name}: {args.splits} splits, {args.trees} trees; mean (standard error), "
        f"difference to pooled, difference to columns"
    )
    for leaf in args.leaf or [None]:
        for features in args.features or [None]:
            given = {"min_samples_leaf": leaf, "max_features": features}
            options = {name: value for name, value in given.items() if value is not None}
            print(f"\n{options or 'defaults'}")
            found = {
                name: np.array([evaluate(seed, *how, options) for seed in range(args.splits)])
                for name, how in {
                    "a column per task": (with_columns, 0.0),
                    **{f"lambda {p:g}": (X, p) for p in PROBABILITIES},
                }.items()
            }
            for name, own in found.items():
                differences = [own - found[other] for other in ("lambda 0", "a column per task")]
                to_pooled, to_columns = map(with_error, differences)
                print(f"{name:18} {with_error(own)}   {to_pooled}   {to_columns}")


def with_error(values: npt.NDArray[np.float64]) -> str:
    error = np.std(values, ddof=1) / len(values) ** 0.5
    return f"{values.mean():+.4f} ({error:.4f})"


if __name__ == "__main__":
    main()
