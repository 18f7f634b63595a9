# SPDX-License-Identifier: Apache-2.0
"""What does a balanced structure give the small task, and what does it cost?

Common models only, of the same fraud scenes for every method: XGBoost on all rows (pooled), the
same with tasks of equal total weight, BalancedSplit (splits by the weighted rows, leaves of the
rows as they are), and trees grown by the entropy and variance scores. Each task uses the rounds
that are best on its validation rows. Time is that of one thread, without validation.

    python benchmarks/balanced_split.py [--seeds 8] [--scale 0.15] [--train 0.15]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost

from mtboost.datasets import make_fraud_scenes
from mtboost.xgboost import (
    BalancedSplit,
    TaskObjective,
    TaskQuitting,
    TaskSplit,
    residual_margin,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from fraud_scenes import OBJECTIVE, Rows, auc_by_task

ROUNDS, EARLY_STOPPING_ROUNDS = 200, 20
Train = Callable[..., xgboost.Booster]


def methods(
    train: Rows, params: dict[str, Any]
) -> dict[str, tuple[Train, TaskObjective | BalancedSplit | None]]:
    """How each method trains, and the objective through which its tasks quit."""
    once = xgboost.QuantileDMatrix(train.X, train.y, nthread=1)
    twice = xgboost.QuantileDMatrix(train.X, np.column_stack([train.y, train.y]), nthread=1)
    pooled = TaskObjective(OBJECTIVE, train.task, n_threads=1)
    weighted = TaskObjective(OBJECTIVE, train.task, task_weight="balanced", n_threads=1)
    balanced = BalancedSplit(OBJECTIVE, train.task, n_threads=1)
    vectors = {**params, "multi_strategy": "multi_output_tree"}

    def stock(objective: TaskObjective) -> Train:
        return lambda rounds, callbacks: xgboost.train(
            params, once, rounds, obj=objective, callbacks=callbacks
        )

    def grown(score: Any) -> Train:
        return lambda rounds, callbacks: xgboost.train(
            params, once, rounds, callbacks=[TaskSplit(train.task, split_score=score), *callbacks]
        )

    return {
        "pooled": (stock(pooled), pooled),
        "balanced weights": (stock(weighted), weighted),
        "BalancedSplit": (
            lambda rounds, callbacks: xgboost.train(
                vectors, twice, rounds, obj=balanced, callbacks=[balanced, *callbacks]
            ),
            balanced,
        ),
        "TaskSplit entropy": (grown("entropy"), None),
        "TaskSplit variance": (grown("variance"), None),
    }


def time_of_round(fit: Train) -> float:
    """Milliseconds of processor time; what a training does but once is left out."""
    ends = [time.process_time()]
    for rounds in (10, 50):
        fit(rounds, [])
        ends.append(time.process_time())
    short, long = np.diff(ends)
    return float(long - short) / 40 * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--scale", type=float, default=0.15)
    parser.add_argument("--train", type=float, default=0.15)
    parser.add_argument("--relatedness", type=float, default=0.7)
    parser.add_argument(
        "--min-child-weight", type=float, default=0.0, help="above 0 needs XGBoost 3.4"
    )
    args = parser.parse_args()
    results = []
    for seed in range(args.seeds):
        scenes = make_fraud_scenes(
            "scene2", scale=args.scale, relatedness=args.relatedness, seed=seed
        )
        parts = scenes.split(train=args.train, valid=args.train / 2, seed=seed)
        train, valid, test = (Rows.of(part) for part in parts)
        params = {
            "objective": OBJECTIVE,
            "base_score": float(train.y.mean()),
            "max_depth": 4,
            "eta": 0.1,
            "min_child_weight": args.min_child_weight,
            "nthread": 1,
        }
        tested = xgboost.DMatrix(test.X, nthread=1)
        validated = xgboost.DMatrix(valid.X, valid.y, nthread=1)
        for method, (fit, objective) in methods(train, params).items():
            quitting = TaskQuitting(
                validated,
                valid.task,
                early_stopping_rounds=EARLY_STOPPING_ROUNDS,
                objective=objective,
            )
            booster = fit(ROUNDS, [quitting])
            margin = residual_margin(booster, tested, quitting.quit_round, test.task)
            aucs = auc_by_task(test, margin)
            results.append(
                {"method": method, "seed": seed, **aucs, "ms a round": time_of_round(fit)}
            )
    table = pd.DataFrame(results)
    tasks = sorted(scenes.y)
    groups = table.groupby("method", sort=False)
    summary = groups[tasks].mean()
    pooled = table[table.method == "pooled"].set_index("seed")[tasks]
    for task in tasks:
        gain = table.pivot(index="seed", columns="method", values=task).sub(pooled[task], axis=0)
        summary[f"{task} - pooled"] = gain.mean()
        summary[f"sem {task}"] = gain.sem()
    summary["ms a round"] = groups["ms a round"].median()
    sizes = ", ".join(f"{task}: {(train.task == task).sum()} rows" for task in tasks)
    print(
        f"XGBoost {xgboost.__version__}, {args.seeds} seeds, trained on {sizes}; AUC of test rows"
    )
    print(summary.round(4).to_string())


if __name__ == "__main__":
    main()
