# SPDX-License-Identifier: Apache-2.0
"""Does sharing between markets improve rankings?

NDCG@10 of test queries, mean of the tasks, for all tasks and for the small ones (the third with
the fewest training queries). Every method is given the same training queries; those that stop early
hold out a fifth of the queries of each task. Sets:

- ``markets``: 12 generated markets with 8 to about 250 queries of 8 to 20 products; the effects of
  two of eight columns differ between markets.
- ``alike``: the same without differences between markets.
- ``school``: pupils of 139 schools, ranked by their exam, in queries of 12 pupils of a school.
- ``landmine``: points of 29 fields, mines first, in queries of 25 points of a field.

Peers: XGBRanker with all rows (``pooled``), with the task as a category, and one for each task;
LGBMRanker with all rows and with the task as a category. All of them with depth 4 or 16 leaves, a
learning rate of .1, at most 500 rounds, and 20 rounds of patience.

    python benchmarks/ranking.py --out results.jsonl [--data FOLDER] [--seeds 3]
    python benchmarks/ranking.py --out results.jsonl --table

results/ranking.jsonl contains the results so far.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from peer_runs import N_THREADS, PATIENCE, Array, append, as_frame, parser, read

import mtboost
from mtboost.metrics import evaluate_by_task

N_MARKETS = 12


@dataclass(frozen=True)
class Rows:
    """Rows of queries, each query after another."""

    X: Array
    y: Array
    task: Array
    query: Array

    def take(self, queries: Array) -> Rows:
        own = np.isin(self.query, queries)
        return Rows(self.X[own], self.y[own], self.task[own], self.query[own])

    @property
    def task_of_query(self) -> Array:
        _, firsts = np.unique(self.query, return_index=True)
        return self.task[firsts]


# ---- data ----------------------------------------------------------------------------------------


def markets(seed: int, differ: bool) -> Rows:
    rng = np.random.default_rng(seed)
    n_queries = np.round(np.geomspace(12, 400, N_MARKETS)).astype(int)
    task = np.repeat(np.arange(N_MARKETS), n_queries)
    sizes = rng.integers(8, 21, len(task))
    query = np.repeat(np.arange(len(task)), sizes)
    task = task[query]
    X = rng.normal(size=(len(task), 8)).astype(np.float32)
    own = (0.8 if differ else 0.0) * rng.normal(size=(2, N_MARKETS))
    score = np.sin(2.0 * X[:, 0]) + 0.7 * X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3])
    score = score + own[0, task] * X[:, 4] + own[1, task] * np.sign(X[:, 5])
    score = score + rng.normal(size=len(score))
    return Rows(X, np.digitize(score, [0.5, 1.2, 2.0, 3.0]), task, query)


def recast(path: Path, seed: int, n_rows: int, n_grades: int) -> Rows:
    """Queries of `n_rows` random rows of one task; the rest of a task is left out."""
    found = np.load(path)
    rng = np.random.default_rng(seed)
    rows, queries = [], []
    for task in np.unique(found["task"]):
        own = rng.permutation(np.flatnonzero(found["task"] == task))
        n_queries = len(own) // n_rows
        if n_queries >= 3:
            rows.append(own[: n_queries * n_rows])
            first = sum(map(len, queries)) // n_rows
            queries.append(first + np.repeat(np.arange(n_queries), n_rows))
    kept = np.concatenate(rows)
    y = found["y"][kept]
    if n_grades > 2:
        y = np.digitize(y, np.quantile(found["y"], [0.4, 0.6, 0.8, 0.9]))
    X = found["X"][kept].astype(np.float32)
    return Rows(X, y.astype(int), found["task"][kept], np.concatenate(queries))


def split(rows: Rows, seed: int, fraction: float) -> tuple[Rows, Rows]:
    """Other queries, and a fraction of those of each task, at least one."""
    rng = np.random.default_rng(seed)
    names, tasks = np.unique(rows.query), rows.task_of_query
    held_out = []
    for task in np.unique(tasks):
        own = rng.permutation(names[tasks == task])
        held_out.append(own[: max(1, round(fraction * len(own)))])
    return rows.take(np.setdiff1d(names, np.concatenate(held_out))), rows.take(
        np.concatenate(held_out)
    )


# ---- methods -------------------------------------------------------------------------------------

Predict = Callable[[Rows], Array]


def table(rows: Rows, has_task: bool, tasks: Array) -> pd.DataFrame:
    return as_frame(rows.X, rows.task, tasks if has_task else None)


def xgb_ranker(train: Rows, seed: int, has_task: bool = False) -> Predict:
    tasks = np.unique(train.task)
    fit, valid = split(train, seed, 0.2)
    model = xgboost.XGBRanker(
        objective="rank:ndcg",
        n_estimators=500,
        learning_rate=0.1,
        max_depth=4,
        early_stopping_rounds=PATIENCE,
        enable_categorical=True,
        n_jobs=N_THREADS,
        random_state=seed,
    )
    model.fit(
        table(fit, has_task, tasks),
        fit.y,
        qid=fit.query,
        eval_set=[(table(valid, has_task, tasks), valid.y)],
        eval_qid=[valid.query],
        verbose=False,
    )
    best = model.best_iteration + 1
    model = model.set_params(n_estimators=best, early_stopping_rounds=None)
    model.fit(table(train, has_task, tasks), train.y, qid=train.query)  # again on all queries
    return lambda rows: np.asarray(model.predict(table(rows, has_task, tasks)))


def lgbm_ranker(train: Rows, seed: int, has_task: bool = False) -> Predict:
    tasks = np.unique(train.task)
    fit, valid = split(train, seed, 0.2)
    options = {
        "learning_rate": 0.1,
        "num_leaves": 16,
        "n_jobs": N_THREADS,
        "random_state": seed,
        "verbosity": -1,
    }

    def sizes(rows: Rows) -> Array:
        return np.unique(rows.query, return_counts=True)[1]

    model = lightgbm.LGBMRanker(n_estimators=500, **options)
    model.fit(
        table(fit, has_task, tasks),
        fit.y,
        group=sizes(fit),
        eval_set=[(table(valid, has_task, tasks), valid.y)],
        eval_group=[sizes(valid)],
        eval_at=[32],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    final = lightgbm.LGBMRanker(n_estimators=max(1, model.best_iteration_), **options)
    final.fit(table(train, has_task, tasks), train.y, group=sizes(train))
    return lambda rows: np.asarray(final.predict(table(rows, has_task, tasks)))


def one_each(train: Rows, seed: int) -> Predict:
    models = {}
    for task in np.unique(train.task):
        own = train.take(train.query[train.task == task])
        models[task] = xgb_ranker(own, seed)

    def predict(rows: Rows) -> Array:
        found = np.empty(len(rows.y))
        for task, model in models.items():
            own = rows.task == task
            if own.any():
                found[own] = model(rows.take(rows.query[own]))
        return found

    return predict


def multi_task(train: Rows, seed: int, **options: Any) -> Predict:
    ranker = mtboost.MultiTaskRanker(n_jobs=N_THREADS, random_state=seed, **options)
    ranker.fit(train.X, train.y, task=train.task, qid=train.query)
    return lambda rows: np.asarray(ranker.predict(rows.X, task=rows.task))


METHODS: dict[str, Callable[[Rows, int], Predict]] = {
    "XGBRanker, pooled": xgb_ranker,
    "XGBRanker, task column": lambda train, seed: xgb_ranker(train, seed, has_task=True),
    "XGBRanker, one each": one_each,
    "LGBMRanker, pooled": lgbm_ranker,
    "LGBMRanker, task column": lambda train, seed: lgbm_ranker(train, seed, has_task=True),
    "mtboost, two stages": lambda train, seed: multi_task(
        train, seed, strategy="two-stage", n_estimators=500
    ),
    "mtboost, auto": lambda train, seed: multi_task(train, seed, effort="fast"),
}


def scores(rows: Rows, prediction: Array, train: Rows) -> dict[str, float]:
    tasks = np.unique(train.task)
    codes = np.searchsorted(tasks, rows.task)
    by_task = evaluate_by_task("ndcg@10", rows.y, prediction, codes, len(tasks), queries=rows.query)
    n_queries = np.bincount(np.searchsorted(tasks, train.task_of_query))
    are_small = n_queries <= np.quantile(n_queries, 1 / 3)
    return {
        "all tasks": float(np.nanmean(by_task)),
        "small tasks": float(np.nanmean(by_task[are_small])),
    }


# ---- the run -------------------------------------------------------------------------------------


def data_sets(folder: Path | None) -> dict[str, Callable[[int], Rows]]:
    found: dict[str, Callable[[int], Rows]] = {
        "markets": lambda seed: markets(seed, differ=True),
        "alike": lambda seed: markets(seed, differ=False),
    }
    if folder is not None:
        found["school"] = lambda seed: recast(folder / "school.npz", seed, 12, 5)
        found["landmine"] = lambda seed: recast(folder / "landmine.npz", seed, 25, 2)
    return found


def run(sets: dict[str, Callable[[int], Rows]], seed: int) -> Iterator[dict[str, Any]]:
    for data, make in sets.items():
        train, test = split(make(seed), 1000 + seed, 0.35)
        for name, method in METHODS.items():
            start = time.perf_counter()
            predict = method(train, seed)
            yield {
                "data": data,
                "seed": seed,
                "method": name,
                **scores(test, predict(test), train),
                "queries": len(np.unique(train.query)),
                "seconds": round(time.perf_counter() - start, 2),
                "versions": [mtboost.__version__, xgboost.__version__, lightgbm.__version__],
            }


def show(path: Path) -> None:
    found = read(path)
    for score in ("all tasks", "small tasks", "seconds"):
        grouped = found.groupby(["method", "data"], sort=False)[score]
        print(score, "(mean over seeds, standard deviation)")
        mean, deviation = grouped.mean().unstack(), grouped.std().unstack()
        print(mean.round(4).astype(str) + " ± " + deviation.round(4).astype(str), end="\n\n")


def main() -> None:
    own = parser(__doc__)
    own.add_argument("--data", type=Path)
    arguments = own.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if arguments.table:
        show(arguments.out)
        return
    for seed in range(arguments.seeds):
        append(arguments.out, run(data_sets(arguments.data), seed))


if __name__ == "__main__":
    main()
