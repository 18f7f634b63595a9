# SPDX-License-Identifier: Apache-2.0
"""Task splits on School and Landmine: what is a task column worth, its penalty, and descriptors?

One common model of all tasks, nothing else. Depth (or number of leaves) and rounds are chosen on a
fifth of the training rows, then the model is trained on all of them and judged once on the test
rows: pooled explained variance of School, mean AUC over the tasks of Landmine. "-" has no task
column, 0 is the library's own category, "descriptors" are those of `task_splits="descriptors"` as
columns of the library.

    python benchmarks/task_splits.py --out results.jsonl --data FOLDER [--seeds 5]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost
from peer_runs import append, parser, read
from real_data import Task

import mtboost.lightgbm
import mtboost.xgboost
from mtboost.trees.task_descriptors import describe_tasks

CUTS = (None, 0.0, 0.5, 1.0, 2.0, "descriptors")
SIZES = (2, 4, 6)  # depth; LightGBM has 2 to the power of it leaves
ETA, ROUNDS, EARLY_STOPPING_ROUNDS, THREADS = 0.1, 500, 30, 1

Predict = Callable[[np.ndarray], np.ndarray]
Cuts = float | str | None
Train = Callable[[Task, np.ndarray, np.ndarray, Cuts, int, int], tuple[Predict, int]]


def table(data: Task, fit: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, list[int]]:
    """Columns, and which of them are categories; descriptors by the rows to train on."""
    if cuts is None:
        return data.X, []
    if cuts == "descriptors":
        rows = mtboost.Dataset(data.X[fit], data.y[fit], task=data.task[fit])
        places = {name: code for code, name in enumerate(rows.tasks)}
        codes = np.array([places[task] for task in data.task.tolist()])
        return np.column_stack([data.X, describe_tasks(rows).of_rows(codes)]), []
    return np.column_stack([data.X, data.task]), [data.X.shape[1]]


def train_xgboost(
    data: Task, fit: np.ndarray, valid: np.ndarray, cuts: Cuts, size: int, rounds: int
) -> tuple[Predict, int]:
    X, categories = table(data, fit, cuts)
    types = ["c" if column in categories else "q" for column in range(X.shape[1])]

    def matrix(rows: np.ndarray) -> xgboost.DMatrix:
        return xgboost.DMatrix(
            X[rows], data.y[rows], feature_types=types, enable_categorical=True, nthread=THREADS
        )

    params = {
        "objective": data.objective,
        "eta": ETA,
        "max_depth": size,
        "min_child_weight": 5,
        "nthread": THREADS,
    }
    callbacks: list[xgboost.callback.TrainingCallback] = []
    if isinstance(cuts, float):
        callbacks += [
            mtboost.xgboost.TaskSplit(
                data.task[fit], split_score="plain", task_column=-1, task_splits=cuts
            )
        ]
    if len(valid):
        callbacks += [xgboost.callback.EarlyStopping(rounds=EARLY_STOPPING_ROUNDS, save_best=True)]
    booster = xgboost.train(
        params,
        matrix(fit),
        rounds,
        evals=[(matrix(valid), "valid")] if len(valid) else [],
        callbacks=callbacks,
        verbose_eval=False,
    )
    return lambda rows: booster.predict(matrix(rows)), booster.num_boosted_rounds()


def train_lightgbm(
    data: Task, fit: np.ndarray, valid: np.ndarray, cuts: Cuts, size: int, rounds: int
) -> tuple[Predict, int]:
    X, categories = table(data, fit, cuts)
    params = {
        "objective": {"reg:squarederror": "regression"}.get(data.objective, "binary"),
        "learning_rate": ETA,
        "num_leaves": 2**size,
        "min_data_in_leaf": 5,
        "num_threads": THREADS,
        "verbosity": -1,
    }
    train = lightgbm.Dataset(X[fit], data.y[fit], categorical_feature=categories)
    held_out = lightgbm.Dataset(X[valid], data.y[valid], reference=train)
    callbacks = []
    if isinstance(cuts, float):
        callbacks += [
            mtboost.lightgbm.TaskSplit(
                data.task[fit], split_score="plain", task_column=-1, task_splits=cuts
            )
        ]
    if len(valid):
        callbacks += [lightgbm.early_stopping(EARLY_STOPPING_ROUNDS, verbose=False)]
    booster = lightgbm.train(
        params,
        train,
        rounds,
        valid_sets=[held_out] if len(valid) else None,
        callbacks=callbacks,
    )
    best = booster.best_iteration if len(valid) else rounds
    return lambda rows: booster.predict(X[rows], num_iteration=best), best


def score(data: Task, rows: np.ndarray, prediction: np.ndarray) -> float:
    return (
        data.explained(rows, prediction) / 100 if data.is_school else data.score(rows, prediction)
    )


def judged(data: Task, train: Train, rows: np.ndarray, test: np.ndarray, cuts: Cuts):
    """Score on the test rows; size and rounds are found on the training rows."""
    fit, valid = data.split(rows, 0.2, seed=1)
    found = []
    for size in SIZES:
        predict, best = train(data, fit, valid, cuts, size, ROUNDS)
        found.append((score(data, valid, predict(valid)), size, best))
    _, size, best = max(found)
    predict, _ = train(data, rows, np.empty(0, np.int64), cuts, size, best)
    return score(data, test, predict(test))


def lines_of(data: Task, library: str, seed: int) -> Iterator[dict[str, Any]]:
    train = {"xgboost": train_xgboost, "lightgbm": train_lightgbm}[library]
    rows, test = data.split(np.arange(len(data.y)), data.test_part, seed)
    for cuts in CUTS:
        own = {"data": data.name, "library": library, "seed": seed}
        own |= {"method": "-" if cuts is None else f"{cuts}"}
        yield own | {"score": judged(data, train, rows, test, cuts)}


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    args = found.parse_args()
    for seed, name, library in product(
        range(0 if args.table else args.seeds), ("school", "landmine"), ("xgboost", "lightgbm")
    ):
        append(args.out, lines_of(Task(name, Path(args.data)), library, seed))
    scores = read(args.out).pivot(
        index=["data", "library", "seed"], columns="method", values="score"
    )
    gains = scores.sub(scores["-"], axis=0).groupby(["data", "library"])
    print(scores.groupby(["data", "library"]).mean().round(4).to_string())
    print(gains.agg(["mean", "sem"]).stack().round(4).to_string())


if __name__ == "__main__":
    main()
