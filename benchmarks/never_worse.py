# SPDX-License-Identifier: Apache-2.0
"""Is `mtboost.fit(strategy="auto")` ever worse than what one would do without it?

School, Landmine, and generated families of tasks that are related in seven ways (balanced sizes and
Zipf's; two of them also with classes). Every method has the same held-out rows to choose by and the
same budget, then trains on all training rows and is judged once on test rows:

- school: 75 % of each task to train; explained variance of all test rows, and RMSE, mean over tasks
- landmine: 75 % of each task and class; area under the ROC curve, mean over tasks
- families: rows as generated, 1000 new rows of each task to test; part of the variance of the true
  signal that is explained, or the area under the ROC curve, mean over tasks

Differences are paired over seeds: mean and standard error. Results are appended to a file, one line
for each data set, seed and method, and those that stand there are not computed again.
results/never_worse.jsonl has what was found so far; remove the lines of a method that has changed.
Seconds are of processor time, with all that a method tries; they were not always taken down.

    python benchmarks/never_worse.py --out results.jsonl [--data FOLDER] [--seeds 10]
    python benchmarks/never_worse.py --out results.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score, roc_auc_score
from task_methods import METHODS, Budget, Rows, SkippedError

from mtboost.datasets import TaskFamily, make_task_family

KINDS = ("same", "related", "clustered", "unrelated", "opposite", "outlier", "columns")
FAMILIES = [f"{kind} {sizes}" for sizes in ("balanced", "zipf") for kind in KINDS]
BINARY = ["related zipf binary", "unrelated zipf binary"]
DATA = ["school", "landmine", *FAMILIES, *BINARY]
SEVERAL_ERRORS = 2  # standard errors that a difference must exceed to count

Scores = dict[str, float]  # the first is the one by which methods are ranked
Judge = Callable[[Callable[[Rows], Any]], Scores]


# ---- data ----------------------------------------------------------------------------------------


def load(name: str, seed: int, folder: Path | None) -> tuple[Rows, Judge]:
    """Training rows, and what scores a model on test rows."""
    if name not in ("school", "landmine"):
        return load_family(name, seed)
    if folder is None:
        raise SystemExit(f"{name} is read from a folder: give --data, or leave {name} out.")
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        X, y, task = file["X"], file["y"].astype(np.float64), file["task"].astype(np.int64)
    rows = Rows(X, y, task, int(task.max()) + 1, is_binary=name == "landmine")
    train, test = rows.split(0.25, seed)

    def judge(predict: Callable[[Rows], Any]) -> Scores:
        prediction = predict(test)
        if rows.is_binary:
            return {"auc": by_task(test, test.y, prediction, roc_auc_score)}
        return {
            "explained": float(r2_score(test.y, prediction)),
            "rmse": by_task(test, test.y, prediction, lambda y, p: np.mean((y - p) ** 2) ** 0.5),
        }

    return train, judge


def load_family(name: str, seed: int) -> tuple[Rows, Judge]:
    """A family of 20 tasks and 4000 rows, and 1000 new rows of each task."""
    kind, sizes, *binary = name.split()
    family = make_task_family(kind, sizes=sizes, classification=bool(binary), seed=seed)
    fresh = family.draw(1000, seed=seed)
    test, truth = rows_of(fresh), np.concatenate(list(fresh.expected_y.values()))

    def judge(predict: Callable[[Rows], Any]) -> Scores:
        prediction = predict(test)
        if test.is_binary:
            return {"auc": by_task(test, test.y, prediction, roc_auc_score)}
        return {"explained": by_task(test, truth, prediction, r2_score)}

    return rows_of(family), judge


def rows_of(family: TaskFamily) -> Rows:
    X, y, task = family.in_one_table()
    codes = {name: code for code, name in enumerate(family.X)}
    rows = Rows(
        X,
        y.astype(np.float64),
        np.array([codes[name] for name in task]),
        len(codes),
        family.is_classification,
    )
    names = list(dict.fromkeys(name for own in family.feature_names.values() for name in own))
    columns = tuple(
        tuple(names.index(name) for name in own) for own in family.feature_names.values()
    )
    return rows if len(set(columns)) == 1 else replace(rows, columns=columns)


def by_task(rows: Rows, y: Any, prediction: Any, score: Callable[[Any, Any], float]) -> float:
    """Mean over tasks of the score of their rows."""
    parts = [rows.task == task for task in np.unique(rows.task)]
    return float(np.mean([score(y[part], prediction[part]) for part in parts]))


# ---- tables --------------------------------------------------------------------------------------


def print_tables(path: Path, reference: str) -> None:
    """For each data set the scores and the differences to the reference; then ranks over all."""
    found = pd.read_json(path, lines=True)
    ranks, verdicts = {}, {}
    for name in (name for name in DATA if name in set(found["data"])):
        of_data = found[found["data"] == name]
        scores = pd.DataFrame(of_data["scores"].tolist(), index=of_data.index)
        metric, *others = scores.columns
        wide = scores[metric].groupby([of_data["seed"], of_data["method"]]).first().unstack()
        wide = wide[[method for method in METHODS if method in wide]]
        table = pd.DataFrame({metric: wide.mean(), "seeds": wide.count()})
        for other in others:
            table[other] = scores[other].groupby(of_data["method"]).mean()
        # Ranks of seeds that every method has seen: 1 is best.
        table["rank"] = wide.dropna().rank(axis=1, ascending=False).mean()
        table["seconds"] = of_data.groupby("method")["seconds"].mean()
        ranks[name] = table["rank"]
        if reference in wide:
            difference = wide.sub(wide[reference], axis=0)
            mean, error = difference.mean(), difference.sem()
            table.insert(1, f"- {reference}", mean)
            table.insert(2, "error", error)
            verdicts[name] = (mean / error).drop(reference)
        print(f"\n{name}\n{table.round(4).to_string()}")
    print(f"\nRanks\n{pd.DataFrame(ranks).T.round(1).to_string()}")
    print(f"\nMean rank\n{pd.DataFrame(ranks).mean(axis=1).round(2).to_string()}")
    if verdicts:
        ratio = pd.DataFrame(verdicts).T
        counts = pd.DataFrame(
            {
                f"{reference} better": (ratio < -SEVERAL_ERRORS).sum(),
                "no difference": (ratio.abs() <= SEVERAL_ERRORS).sum(),
                f"{reference} worse": (ratio > SEVERAL_ERRORS).sum(),
            }
        )
        print(f"\nData sets, by {SEVERAL_ERRORS} standard errors\n{counts.to_string()}")


# ---- runs ----------------------------------------------------------------------------------------


def run(
    names: list[str],
    methods: list[str],
    seeds: range,
    budget: Budget,
    folder: Path | None,
    path: Path,
) -> None:
    """Append what is missing; all data sets and methods of a seed before the next seed."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    done = {(entry["data"], entry["seed"], entry["method"]) for entry in map(json.loads, lines)}
    for seed in seeds:
        for name in names:
            missing = [method for method in methods if (name, seed, method) not in done]
            if not missing:
                continue
            train, judge = load(name, seed, folder)
            for method in missing:
                start = time.process_time()
                try:
                    fitted = METHODS[method](train, seed, budget)
                except SkippedError as reason:
                    print(f"left out: {reason}")
                    continue
                seconds = time.process_time() - start
                entry = {
                    "data": name,
                    "seed": seed,
                    "method": method,
                    "scores": judge(fitted.predict),
                    "seconds": round(seconds, 2),
                    "chosen": fitted.chosen,
                }
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
                print(entry, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="data", help=f"of: {', '.join(DATA)}")
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    parser.add_argument("--table", action="store_true", help="only print what the file contains")
    parser.add_argument("--reference", choices=METHODS, default="auto", help="compare with it")
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if unknown := set(args.names) - set(DATA):
        parser.error(f"unknown data: {', '.join(sorted(unknown))}")
    if not args.table:
        seeds = range(args.first, args.first + args.seeds)
        budget = Budget(threads=args.threads)
        folder = None if args.data is None else Path(args.data)
        run(args.names or DATA, args.method, seeds, budget, folder, args.out)
    print_tables(args.out, args.reference)


if __name__ == "__main__":
    main()
