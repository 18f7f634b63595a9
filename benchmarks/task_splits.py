# SPDX-License-Identifier: Apache-2.0
"""Task splits on School and Landmine: what is a task column worth, its penalty, and descriptors?

One common model of all tasks, nothing else. Depth (or number of leaves) and rounds are chosen on a
fifth of the training rows, then the model is trained on all of them and judged once on the test
rows: pooled explained variance of School, mean AUC over the tasks of Landmine. "-" has no task
column, 0 is the library's own category, "descriptors" are those of `task_splits="descriptors"` as
columns of the library. Figures are means over random splits, with the standard
error of the paired difference to "-".

    python benchmarks/task_splits.py [--splits 5] [--data ../shared/data]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import xgboost
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    names = ["-" if cuts is None else str(cuts) for cuts in CUTS]
    lines = {}
    for name in ("school", "landmine"):
        data = Task(name, options.data)
        for library, train in (("xgboost", train_xgboost), ("lightgbm", train_lightgbm)):
            scores = []
            for seed in range(options.splits):
                rows, test = data.split(np.arange(len(data.y)), data.test_part, seed)
                scores.append([judged(data, train, rows, test, cuts) for cuts in CUTS])
            found = np.array(scores)
            error = (found - found[:, :1]).std(axis=0, ddof=1) / np.sqrt(options.splits)
            lines[name, library] = [
                f"{mean:.3f} ({se:.3f})" for mean, se in zip(found.mean(axis=0), error, strict=True)
            ]
    print(pd.DataFrame.from_dict(lines, orient="index", columns=names).to_string())


if __name__ == "__main__":
    main()
