# SPDX-License-Identifier: Apache-2.0
"""School and Landmine: how do mtboost and the usual alternatives do, with equal care for each?

Every method is tuned by inner validation on the training rows alone (grid of depths and child
weights, number of rounds by early stopping), then refitted on all training rows and judged once on
the test rows.

    python benchmarks/real_data.py school landmine --out results.jsonl --data FOLDER [--seeds 10]
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from peer_runs import append, parser, read
from sklearn.metrics import roc_auc_score

import mtboost
from mtboost import MultiTaskModel

GRID = [
    {"max_depth": depth, "min_child_weight": weight}
    for depth, weight in itertools.product((2, 4, 6), (5, 30))
]
ETA, ROUNDS, EARLY_STOPPING_ROUNDS, THREADS = 0.1, 600, 30, 1
INDEPENDENT_ROUNDS = 100
# Specific models of tasks with a few dozen rows: little more than a shrunken offset.
STUMPS = {"max_depth": 1, "reg_lambda": 50, "min_child_weight": 1}


class Task:
    """One data set: loading, splitting and judging."""

    def __init__(self, name: str, folder: Path) -> None:
        with np.load(folder / f"{name}.npz") as file:
            self.X, self.y, self.task = file["X"], file["y"].astype(float), file["task"]
        self.name, self.is_school = name, name == "school"
        self.objective = "reg:squarederror" if self.is_school else "binary:logistic"
        self.test_part = 0.2 if self.is_school else 0.25
        # mean over tasks of the task's own score: what is reported, so what is tuned for
        self.metric = "rmse" if self.is_school else "auc"

    def split(self, rows: np.ndarray, part: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Hold out `part` of each task's rows (of each class, for Landmine)."""
        rng = np.random.default_rng(seed)
        groups = self.task[rows] * 2 + (0 if self.is_school else self.y[rows].astype(int))
        held_out = np.zeros(len(rows), bool)
        for group in np.unique(groups):
            own = rng.permutation(np.flatnonzero(groups == group))
            held_out[own[: round(part * len(own))]] = True
        return rows[~held_out], rows[held_out]

    def score(self, rows: np.ndarray, prediction: np.ndarray) -> float:
        """Mean over tasks of RMSE or AUC."""
        values = []
        for task in np.unique(self.task[rows]):
            own = self.task[rows] == task
            y, p = self.y[rows][own], prediction[own]
            if self.is_school:
                values.append(np.sqrt(np.mean((y - p) ** 2)))
            elif 0 < y.sum() < len(y):
                values.append(roc_auc_score(y, p))
        return float(np.mean(values))

    def explained(self, rows: np.ndarray, prediction: np.ndarray) -> float:
        """Pooled explained variance, in per cent."""
        return float(100 * (1 - np.var(self.y[rows] - prediction) / np.var(self.y[rows])))


def params_of(data: Task, point: dict[str, float]) -> dict[str, object]:
    return {"objective": data.objective, "eta": ETA, "nthread": THREADS, **point}


def fit_xgboost(
    data: Task, table: np.ndarray, types: list[str], train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Plain XGBoost on one table; rounds and grid point by inner validation."""
    fit, valid = data.split(train, 0.2, seed=1)

    def matrix(rows: np.ndarray) -> xgboost.DMatrix:
        return xgboost.DMatrix(
            table[rows], data.y[rows], feature_types=types, enable_categorical=True
        )

    best = (np.inf, {}, 0)
    for point in GRID:
        stopping = mtboost.xgboost.TaskQuitting(
            matrix(valid), None, early_stopping_rounds=EARLY_STOPPING_ROUNDS
        )
        booster = xgboost.train(params_of(data, point), matrix(fit), ROUNDS, callbacks=[stopping])
        rounds = max(1, *stopping.quit_round.values())
        prediction = booster.predict(matrix(valid), iteration_range=(0, rounds))
        score = data.score(valid, prediction) * (1 if data.is_school else -1)
        best = min(best, (score, point, rounds), key=lambda entry: entry[0])
    booster = xgboost.train(params_of(data, best[1]), matrix(train), best[2])
    return np.asarray(booster.predict(matrix(test)))


def pooled(data: Task, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return fit_xgboost(data, data.X, ["float"] * data.X.shape[1], train, test)


def categorical(data: Task, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    table = np.column_stack([data.X, data.task])
    return fit_xgboost(data, table, ["float"] * data.X.shape[1] + ["c"], train, test)


def one_hot(data: Task, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    table = np.column_stack([data.X, np.eye(data.task.max() + 1, dtype=np.float32)[data.task]])
    return fit_xgboost(data, table, ["float"] * table.shape[1], train, test)


def independent(data: Task, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """One model per task; grid point and rounds, the same for all, on the mean over tasks."""
    fit, valid = data.split(train, 0.2, seed=1)
    tasks = np.unique(data.task)

    def matrix(task: int, rows: np.ndarray) -> xgboost.DMatrix:
        own = rows[data.task[rows] == task]
        return xgboost.DMatrix(data.X[own], data.y[own])

    def history(task: int, point: dict[str, float]) -> np.ndarray:
        watched: dict[str, dict[str, list[float]]] = {}
        xgboost.train(
            {**params_of(data, point), "eval_metric": data.metric},
            matrix(task, fit),
            INDEPENDENT_ROUNDS,
            evals=[(matrix(task, valid), "valid")],
            evals_result=watched,
            verbose_eval=False,
        )
        return np.array(watched["valid"][data.metric])

    # The AUC of rows of one class is undefined.
    judged = [t for t in tasks if len(np.unique(data.y[valid[data.task[valid] == t]])) > 1]
    sign = 1 if data.is_school else -1
    means = [sign * np.mean([history(task, point) for task in judged], axis=0) for point in GRID]
    best = int(np.argmin([mean.min() for mean in means]))
    prediction = np.empty(len(test))
    for task in tasks:
        booster = xgboost.train(
            params_of(data, GRID[best]), matrix(task, train), int(means[best].argmin()) + 1
        )
        prediction[data.task[test] == task] = booster.predict(matrix(task, test))
    return prediction


def two_stages(score: str) -> Callable[[Task, np.ndarray, np.ndarray], np.ndarray]:
    """mtboost with six candidates: two depths, times tasks that quit by their own validation rows,
    or (``early_stopping_rounds=None``) numbers of rounds for all tasks, found on the mean over
    tasks, with specific models that have the parameters of the common one or are stumps.

    What a task decides on its own validation rows cannot be judged on these: fit() holds out rows
    for that.
    """

    def run(data: Task, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        def fit(rows: np.ndarray, **options: object) -> MultiTaskModel:
            return mtboost.fit(
                data.X[rows],
                data.y[rows],
                task=data.task[rows],
                objective=data.objective,
                split_score=score,
                eval_metric=data.metric,
                n_threads=THREADS,
                **options,
                strategy="two-stage",
            )

        inner, valid = data.split(train, 0.2, seed=1)
        eval_set = (data.X[valid], data.y[valid], data.task[valid])
        sign = 1 if data.is_school else -1

        def best_rounds(model: MultiTaskModel, stage: str) -> int:
            by_task = [history[stage] for history in model.history.values()]
            return int(np.argmin(sign * np.nanmean(by_task, axis=0)))

        candidates = []
        for depth in (2, 4):
            params = {
                "eta": ETA,
                "max_depth": depth,
                "min_child_weight": 30 if data.is_school else 5,
            }
            quitting = {
                "params": params,
                "num_boost_round": ROUNDS,
                "early_stopping_rounds": EARLY_STOPPING_ROUNDS,
                "refit": True,
            }
            candidates.append((fit(inner, **quitting), quitting))
            fixed = {"params": params, "early_stopping_rounds": None}
            model = fit(inner, **fixed, num_boost_round=400, specific_rounds=0, eval_set=eval_set)
            fixed["num_boost_round"] = max(1, best_rounds(model, "common"))
            for specific_params in ({}, STUMPS):
                fixed["specific_params"] = specific_params
                model = fit(inner, **fixed, specific_rounds=100, eval_set=eval_set)
                rounds = best_rounds(model, "specific")
                model = fit(inner, **fixed, specific_rounds=rounds, eval_set=eval_set)
                final = {**fixed, "specific_rounds": rounds, "validation_fraction": 0.0}
                candidates.append((model, final))
        scores = [
            sign * data.score(valid, model.predict(data.X[valid], task=data.task[valid]))
            for model, _ in candidates
        ]
        model = fit(train, **candidates[int(np.argmin(scores))][1])
        return np.asarray(model.predict(data.X[test], task=data.task[test]))

    return run


METHODS: dict[str, Callable[[Task, np.ndarray, np.ndarray], np.ndarray]] = {
    "pooled": pooled,
    "independent": independent,
    "pooled + one-hot": one_hot,
    "pooled + categorical": categorical,
    "mtboost plain": two_stages("plain"),
    "mtboost entropy": two_stages("entropy"),
    "mtboost variance": two_stages("variance"),
}


def lines_of(data: Task, methods: Sequence[str], seed: int) -> Iterator[dict[str, Any]]:
    train, test = data.split(np.arange(len(data.y)), data.test_part, seed=100 + seed)
    for method in methods:
        start = time.process_time()
        prediction = METHODS[method](data, train, test)
        seconds = round(time.process_time() - start, 2)
        own = {"data": data.name, "seed": seed, "method": method, "seconds": seconds}
        own[data.metric] = data.score(test, prediction)
        if data.is_school:
            own["explained"] = data.explained(test, prediction)
        yield own


def main() -> None:
    found = parser(__doc__)
    found.add_argument("names", nargs="+", choices=("school", "landmine"))
    found.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    found.add_argument("--first", type=int, default=0, help="number of the first split")
    found.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    args = found.parse_args()
    for seed in range(args.first, args.first + (0 if args.table else args.seeds)):
        for name in args.names:
            append(args.out, lines_of(Task(name, Path(args.data)), args.method, seed))
    means = read(args.out).groupby(["data", "method"], sort=False).mean(numeric_only=True)
    print(means.drop(columns="seed").round(4).to_string())


if __name__ == "__main__":
    main()
