# SPDX-License-Identifier: Apache-2.0
"""Linear effects before the trees: what does fit gain, and what does the search choose?

Two panels of 190 tasks with 15 rows each and 13 columns, of two values or of numbers: a task's
slopes are the shared ones, N(0, .5²), plus its own, N(0, .5²), and the noise has the variance 1.
And two families of make_task_family, which are not linear, with a third of their rows. Scores are
the part of the variance of the signal in new rows that is explained.

    python benchmarks/linear_effects.py --out benchmarks/results/linear_effects.jsonl
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import r2_score
from task_data import make_family

import mtboost

N_TASKS, N_ROWS, N_TEST, N_COLUMNS = 190, 15, 100, 13
FAMILIES = {"related tasks": "related zipf", "unrelated tasks": "unrelated zipf"}
CHOICES = {"without": False, "searched": None}


def panel(kind: str, seed: int) -> tuple[np.ndarray, ...]:
    """Return X, y, task of training rows, and X, signal, task of new ones."""
    rng = np.random.default_rng(seed)
    slopes = 0.5 * rng.normal(size=N_COLUMNS) + 0.5 * rng.normal(size=(N_TASKS, N_COLUMNS))

    def draw(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        task = np.repeat(np.arange(N_TASKS), n_rows)
        X = rng.normal(size=(len(task), N_COLUMNS))
        if kind == "two values":
            X = np.sign(X)
        return X, (X * slopes[task]).sum(axis=1), task

    X, signal, task = draw(N_ROWS)
    return X, signal + rng.normal(size=len(task)), task, *draw(N_TEST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=60, help="first seed")
    parser.add_argument("--out", type=Path, required=True, help="file of results, written anew")
    args = parser.parse_args()
    with args.out.open("w", encoding="utf-8") as file:
        for seed in range(args.first, args.first + args.seeds):
            for data in ("panel, two values", "panel, numbers", *FAMILIES):
                for method, choice in CHOICES.items():
                    start = time.process_time()
                    options = {"linear_effects": choice, "n_threads": 1, "seed": seed}
                    if data in FAMILIES:
                        train, judge = make_family(FAMILIES[data], seed, 1 / 3)
                        model = mtboost.fit(train.X, train.y, task=train.task, **options)
                        scores = judge(lambda rows, m=model: m.predict(rows.X, task=rows.task))
                        explained = float(np.mean(scores["explained"]))
                    else:
                        X, y, task, X_new, signal, new = panel(data.split(", ")[1], seed)
                        model = mtboost.fit(X, y, task=task, **options)
                        explained = r2_score(signal, model.predict(X_new, task=new))
                    entry = {"data": data, "seed": seed, "method": method}
                    entry["explained"] = round(float(explained), 4)
                    entry["seconds"] = round(time.process_time() - start, 1)
                    file.write(json.dumps(entry) + "\n")
                    file.flush()
                    print(entry, flush=True)


if __name__ == "__main__":
    main()
