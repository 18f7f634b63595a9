# SPDX-License-Identifier: Apache-2.0
"""How many more rounds are worth training on all rows than were found on a part of them?

`mtboost.fit(strategy="auto")` finds rounds on four fifths of the rows and trains on all of them.
Here the final model has 1 to 1.6 times the rounds that were found, on generated families of 20
tasks with 4000 and with 1000 rows. Printed is by how much the error changes: the RMSE against the
true signal, or the log loss of new rows, in percent of that with the rounds that were found, with
its standard error over families and draws, and how often it is lower.

    python benchmarks/final_rounds.py [--first 100] [--draws 1] [--threads 2]
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from task_data import make_family
from task_methods.multi_task import fit_mtboost, predict_mtboost
from task_methods.rows import Budget

from mtboost.model import fitting
from mtboost.model.sharing import plan
from mtboost.model.sharing.plan import SharingPlan

KINDS = ("same", "related", "clustered", "unrelated", "opposite", "columns")
SIZES = ("balanced", "zipf")
LABELS = ("", " binary")
PARTS = (1.0, 0.25)
RATIOS = (1.0, 1.15, 1.25, 1.4, 1.6)


def errors_of(name: str, part: float, seed: int, n_threads: int) -> list[float]:
    """Error of the model with each multiple of the rounds; they are searched once."""
    train, judge = make_family(name, seed, part)
    search, for_rows = fitting.plan_sharing, SharingPlan.for_rows
    known: list[SharingPlan] = []

    def search_once(*arguments: Any) -> SharingPlan:
        if not known:
            known.append(search(*arguments))
        return known[0]

    def error(ratio: float) -> float:
        with (
            mock.patch.object(fitting, "plan_sharing", search_once),
            mock.patch.object(plan, "_MOST_RATIO", ratio),
            mock.patch.object(
                SharingPlan, "for_rows", lambda own, _: for_rows(own, 2 * own.n_rows)
            ),
        ):
            model = fit_mtboost(train, seed, Budget(threads=n_threads), strategy="auto")
        scores = judge(lambda rows: predict_mtboost(model, rows))
        return scores["logloss" if train.is_binary else "rmse"]

    return [error(ratio) for ratio in RATIOS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=100, help="seed of the first draw")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    changes: dict[str, list[list[float]]] = {}
    seeds = range(args.first, args.first + args.draws)
    for seed, part, label, kind, sizes in itertools.product(seeds, PARTS, LABELS, KINDS, SIZES):
        name = f"{kind} {sizes}{label}"
        errors = errors_of(name, part, seed, args.threads)
        change = [100.0 * (error / errors[0] - 1.0) for error in errors]
        print(name, part, seed, np.round(change, 2), flush=True)
        for group in ("log loss" if label else "rmse", f"{4000 * part:.0f} rows", "all"):
            changes.setdefault(group, []).append(change)
    for group, rows in changes.items():
        table = pd.DataFrame(rows, columns=pd.Index(RATIOS, name="ratio"))
        summary = {"mean": table.mean(), "error": table.sem(), "lower": (table < 0.0).sum()}
        print(f"\n{group}: {len(table)}\n{pd.DataFrame(summary).round(2).to_string()}")


if __name__ == "__main__":
    main()
