# SPDX-License-Identifier: Apache-2.0
"""Fraud scenes over several seeds: what does mtboost gain for the small task?

The models are those of examples/plot_fraud_scenes.py, on new data for every seed. Differences are
paired over seeds: mean, standard error, Wilcoxon signed-rank p.

    python benchmarks/scenes.py [--seeds 10] [--scene scene2] [--scale 0.15] [--train 0.15]
        [--out scenes.jsonl]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from mtboost.datasets import make_fraud_scenes

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from plot_fraud_scenes import Rows, auc_by_task, fit_two_stages, stock_margins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--scene", choices=("scene2",), default="scene2")
    parser.add_argument("--scale", type=float, default=0.15)
    parser.add_argument("--train", type=float, default=0.15)
    parser.add_argument("--relatedness", type=float, default=0.7)
    parser.add_argument("--out", type=Path, help="file of results, which is appended to")
    args = parser.parse_args()
    results = []
    for seed in range(args.seeds):
        scenes = make_fraud_scenes(
            args.scene, scale=args.scale, relatedness=args.relatedness, seed=seed
        )
        parts = scenes.split(train=args.train, valid=args.train / 2, seed=seed)
        train, valid, test = (Rows.of(part) for part in parts)
        tasks = sorted(scenes.y)
        margins = {
            "pooled": stock_margins(train, valid, test),
            "independent": np.empty(len(test.y), np.float32),
            "pooled + task id": stock_margins(
                *(rows.with_task_column() for rows in (train, valid, test))
            ),
            "Bayes": np.concatenate(list(parts[2].bayes_score.values())),
        }
        for task in tasks:
            own = (rows.of_task(task) for rows in (train, valid, test))
            margins["independent"][test.task == task] = stock_margins(*own)
        for score in ("plain", "entropy", "variance"):
            model = fit_two_stages(train, valid, score)
            margins[f"mtboost {score}"] = model.predict_margin(test.X, task=test.task)
        for method, margin in margins.items():
            results.append({"seed": seed, "method": method, **auc_by_task(test, margin)})
            if args.out:
                with args.out.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
        print(pd.DataFrame(results[-len(margins) :]).round(4).to_string(index=False), flush=True)
    table = pd.DataFrame(results)
    print(table.groupby("method", sort=False)[tasks].agg(["mean", "sem"]).round(4))
    for task in tasks:
        wide = table.pivot(index="seed", columns="method", values=task)
        for base in ("pooled", "independent", "pooled + task id"):
            for score in ("plain", "entropy", "variance"):
                gain = wide[f"mtboost {score}"] - wide[base]
                p = wilcoxon(gain).pvalue if len(gain) > 5 else np.nan
                print(
                    f"{task}: mtboost {score} - {base}: {gain.mean():+.4f} "
                    f"+- {gain.sem():.4f} (p {p:.3g})"
                )


if __name__ == "__main__":
    main()
