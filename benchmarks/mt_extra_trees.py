# SPDX-License-Identifier: Apache-2.0
"""What do task splits give on Landmine and School? (figures 1b and 1c of simm2014)

Landmine: area under the ROC curve, averaged over 29 fields, 75 % of each field and class to train.
School: explained variance of all test pupils, 75 % of each school. MT-ExtraTrees with its defaults
for growing probabilities of task splits (0 is pooled), and the same trees with a column per task.

    python benchmarks/mt_extra_trees.py --out results.jsonl --data FOLDER [--seeds 10] [--trees 500]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from peer_runs import N_THREADS, append, parser, read
from sklearn.metrics import r2_score, roc_auc_score

from mtboost import MTExtraTreesClassifier, MTExtraTreesRegressor

PROBABILITIES = (0.0, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0)
Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]


def split_rows(task: npt.NDArray[Any], y: npt.NDArray[Any], seed: int) -> tuple[Rows, Rows]:
    """75 % of the rows of each task, of Landmine also of each class."""
    rng = np.random.default_rng(seed)
    group = task if len(np.unique(y)) > 2 else 2 * task + y.astype(int)
    is_train = np.zeros(len(task), bool)
    for code in np.unique(group):
        own = rng.permutation(np.flatnonzero(group == code))
        is_train[own[: round(0.75 * len(own))]] = True
    return np.flatnonzero(is_train), np.flatnonzero(~is_train)


def score(name: str, y: Numbers, task: Numbers, predicted: Numbers) -> float:
    if name == "school":
        return float(r2_score(y, predicted))
    own = [task == code for code in np.unique(task)]
    return float(np.mean([roc_auc_score(y[part], predicted[part]) for part in own]))


def lines_of(name: str, folder: Path, seed: int, n_trees: int) -> Iterator[dict[str, Any]]:
    """Score of each probability of task splits, and of pooled trees with a column per task."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as data:
        X, y, task = data["X"], data["y"], data["task"]
    train, test = split_rows(task, y, seed)
    with_columns = np.column_stack([X, task[:, np.newaxis] == np.unique(task)])
    make = MTExtraTreesClassifier if name == "landmine" else MTExtraTreesRegressor
    ways = {f"{p:g}": (X, p) for p in PROBABILITIES} | {"a column per task": (with_columns, 0.0)}
    for way, (columns, probability) in ways.items():
        model = make(n_trees, task_split_prob=probability, random_state=seed, n_jobs=N_THREADS)
        model.fit(columns[train], y[train], task=task[train])
        is_classifier = isinstance(model, MTExtraTreesClassifier)
        predict = model.predict_proba if is_classifier else model.predict
        predicted = predict(columns[test], task=task[test])
        own = score(name, y[test], task[test], predicted[:, 1] if is_classifier else predicted)
        yield {"data": name, "seed": seed, "trees": n_trees, "method": way, "score": own}


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    found.add_argument("--trees", type=int, default=500)
    args = found.parse_args()
    for seed in range(0 if args.table else args.seeds):
        for name in ("landmine", "school"):
            append(args.out, lines_of(name, Path(args.data), seed, args.trees))
    scores = read(args.out).pivot(index=["data", "seed"], columns="method", values="score")
    print(scores.groupby("data").agg(["mean", "sem"]).stack().round(4).T.to_string())


if __name__ == "__main__":
    main()
