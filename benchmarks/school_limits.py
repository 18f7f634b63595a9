# SPDX-License-Identifier: Apache-2.0
"""What is left to find on School: explained variance by more rows, and by mixtures of methods.

- rows: one good setting of the common model, trained on 45, 60, 75 and 90 % of each school's rows
  and judged on the same tenth
- mixtures: mean predictions of methods of never_worse.py, on its splits (75 % to train)

Differences are paired over draws: mean and standard error.

    python benchmarks/school_limits.py rows|mixtures --data FOLDER [--seeds 5]
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score
from task_data import read_task_set
from task_methods import METHODS, Budget, Rows

import mtboost

SHARES = (0.45, 0.6, 0.75, 0.9)
MIXED = ("auto", "one-hot", "CatBoost category", "LightGBM category", "two-stage rounds")


def by_rows(seed: int, folder: Path) -> Iterator[tuple[str, float]]:
    with np.load(folder / "school.npz") as file:
        X, y, task = file["X"], file["y"].astype(np.float64), file["task"].astype(np.int64)
    rng = np.random.default_rng(seed)
    place = np.empty(len(y))  # of each row among its school's, in random order
    for school in np.unique(task):
        rows = np.flatnonzero(task == school)
        place[rng.permutation(rows)] = np.arange(len(rows)) / len(rows)
    test = place >= max(SHARES)
    for share in SHARES:
        train = place < share
        model = mtboost.fit(
            X[train],
            y[train],
            task=task[train],
            split_score="plain",
            symmetric_trees=True,
            task_splits="descriptors",
            pooling=166.0,  # twice the rows of a school
            params={"max_depth": 4, "learning_rate": 0.03, "subsample": 0.7},
            num_boost_round=1500,
            specific_rounds=0,
            early_stopping_rounds=None,
            refit=True,
            seed=seed,
            strategy="two-stage",
        )
        yield (
            f"{share:.0%} of the rows",
            float(r2_score(y[test], model.predict(X[test], task=task[test]))),
        )


def by_mixture(seed: int, folder: Path) -> Iterator[tuple[str, float]]:
    train, judge = read_task_set(folder / "school.npz", seed)
    fitted = [METHODS[name](train, seed, Budget()).predict for name in MIXED]
    for size in range(1, len(MIXED) + 1):
        for members in itertools.combinations(range(len(MIXED)), size):

            def predict(rows: Rows, members: tuple[int, ...] = members) -> np.ndarray:
                return np.mean([fitted[member](rows) for member in members], axis=0)

            yield " + ".join(MIXED[member] for member in members), judge(predict)["explained"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=("rows", "mixtures"))
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("MTBOOST_DATA"), help="folder of school.npz"
    )
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    if args.data is None:
        raise SystemExit("School is read from a folder: give --data.")
    measure, reference = {"rows": (by_rows, "75% of the rows"), "mixtures": (by_mixture, "auto")}[
        args.question
    ]
    found = pd.DataFrame([dict(measure(seed, args.data)) for seed in range(args.seeds)])
    difference = found.sub(found[reference], axis=0)
    table = pd.DataFrame(
        {"explained": found.mean(), f"- {reference}": difference.mean(), "error": difference.sem()}
    )
    if args.question == "mixtures":
        table = table.sort_values("explained", ascending=False)
    print(table.round(4).to_string())


if __name__ == "__main__":
    main()
