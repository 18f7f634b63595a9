# SPDX-License-Identifier: Apache-2.0
"""Do calibrated probabilities pay: `fit(calibrate=True)` beside the same model without?

Data sets: generated families of 20 tasks with two classes and a part of 4000 rows (1000 new rows of
each task), and landmine.npz of a folder (three quarters of each task and class to train on). Two
strategies, and for "boosted long" rounds without early stopping, which are overconfident.

Scores are means over tasks: log loss, Brier score, and calibration error, the mean difference
between predicted and observed frequency in ten bins of equal numbers of test rows. Printed are the
means of the model without, and the mean of the differences (with - without; less is better) with
its standard error between seeds. Results are appended to a file, one line for each data set,
strategy and seed; those that are in it are not computed again. results/calibration.jsonl contains
the results so far.

    python benchmarks/calibration.py --out results.jsonl [--data FOLDER] [--seeds 3]
    python benchmarks/calibration.py --out results.jsonl --table
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mtboost
from mtboost.datasets import make_task_family

FAMILIES = ("related balanced", "related zipf", "unrelated zipf")
LANDMINE = "landmine"
STRATEGIES: dict[str, dict[str, Any]] = {
    "auto": {"effort": "fast"},
    "two-stage": {"strategy": "two-stage"},
    "boosted long": {
        "strategy": "two-stage",
        "early_stopping_rounds": None,
        "num_boost_round": 300,
        "specific_rounds": 0,
    },
}
SCORES = ("log loss", "brier", "calibration error")


def family(name: str, seed: int) -> tuple[Any, ...]:
    """Training and test rows: X, y and task of each."""
    kind, sizes = name.split()
    found = make_task_family(kind, sizes=sizes, classification=True, seed=seed)
    return (*found.in_one_table(), *found.draw(1000, seed=seed).in_one_table())


def landmine(folder: Path, seed: int) -> tuple[Any, ...]:
    """Three quarters of each task and class, and the others."""
    with np.load(folder / f"{LANDMINE}.npz", allow_pickle=False) as file:
        X, y, task = file["X"], file["y"].astype(float), file["task"]
    rng, is_train = np.random.default_rng(seed), np.zeros(len(y), bool)
    for stratum in np.unique(2 * task + y):
        rows = rng.permutation(np.flatnonzero(2 * task + y == stratum))
        is_train[rows[: round(0.75 * len(rows))]] = True
    return X[is_train], y[is_train], task[is_train], X[~is_train], y[~is_train], task[~is_train]


def scores_of(y: Any, task: Any, prediction: Any) -> list[float]:
    """Log loss, Brier score and calibration error, means over tasks."""
    found = []
    p = np.clip(prediction.astype(np.float64), 1e-7, 1 - 1e-7)
    for name in np.unique(task):
        own, labels = p[task == name], y[task == name]
        loss = -np.mean(labels * np.log(own) + (1 - labels) * np.log1p(-own))
        bins = np.array_split(np.argsort(own, kind="stable"), 10)
        errors = [abs(own[rows].mean() - labels[rows].mean()) for rows in bins]
        sizes = [len(rows) for rows in bins]
        found.append((loss, np.mean((own - labels) ** 2), np.average(errors, weights=sizes)))
    return np.mean(found, axis=0).tolist()


def run(rows: tuple[Any, ...], options: dict[str, Any]) -> dict[str, list[float]]:
    """Scores without and with calibration of one fit."""
    X, y, task, X_test, y_test, task_test = rows
    model = mtboost.fit(X, y, task=task, calibrate=True, n_threads=1, **options)
    plain = copy.copy(model)
    plain.calibration = None
    both = {"without": plain, "with": model}
    return {
        name: scores_of(y_test, task_test, own.predict(X_test, task=task_test))
        for name, own in both.items()
    }


def print_table(path: Path) -> None:
    """Print means and paired differences."""
    lines = list(map(json.loads, path.read_text().splitlines()))
    print("| data, strategy | seeds | " + " | ".join(f"{s}: without, gain" for s in SCORES) + " |")
    print("|---|---|" + "---|" * len(SCORES))
    for key in dict.fromkeys((own["data"], own["strategy"]) for own in lines):
        own = [each for each in lines if (each["data"], each["strategy"]) == key]
        plain = np.array([each["without"] for each in own])
        gains = plain - np.array([each["with"] for each in own])
        errors = gains.std(axis=0, ddof=1) / np.sqrt(len(own)) if len(own) > 1 else 0 * gains[0]
        cells = [
            f"{mean:.4f}, {gain:+.4f} ± {error:.4f}"
            for mean, gain, error in zip(plain.mean(0), gains.mean(0), errors, strict=True)
        ]
        print(f"| {', '.join(key)} | {len(own)} | " + " | ".join(cells) + " |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute what the file lacks, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args(arguments)
    text = asked.out.read_text() if asked.out.exists() else ""
    done = {
        (own["data"], own["strategy"], own["seed"]) for own in map(json.loads, text.splitlines())
    }
    names = [*FAMILIES, *([LANDMINE] if asked.data else [])]
    for seed in range(0 if asked.table else asked.seeds):
        for name in names:
            rows = None
            for strategy, options in STRATEGIES.items():
                if (name, strategy, seed) in done:
                    continue
                if rows is None:
                    rows = landmine(asked.data, seed) if name == LANDMINE else family(name, seed)
                own = {"data": name, "strategy": strategy, "seed": seed}
                own |= run(rows, {**options, "seed": seed})
                with asked.out.open("a") as file:
                    file.write(json.dumps(own) + "\n")
    print_table(asked.out)


if __name__ == "__main__":
    main()
