# SPDX-License-Identifier: Apache-2.0
"""Fraud scenes: rows and columns of each task, and the AUC that no model exceeds (Bayes).

Each seed draws another world, of which ``SCALES`` says how much: the AUC needs no model, only rows.

    python benchmarks/fraud_scene_shapes.py --out benchmarks/results/fraud_scene_shapes.jsonl
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sklearn.metrics import roc_auc_score

from mtboost.datasets import make_fraud_scenes
from mtboost.datasets.plans import SCENES

SCALES = {"scene1": 0.2, "scene2": 0.04}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--out", type=Path, required=True, help="file of results, written anew")
    args = parser.parse_args()
    with args.out.open("w", encoding="utf-8") as file:
        for scene, scale in SCALES.items():
            for seed in range(args.seeds):
                scenes = make_fraud_scenes(scene, scale=scale, seed=seed)
                for task, y in scenes.y.items():
                    plan = SCENES[scene].tasks[task]
                    entry = {
                        "scene": scene,
                        "scale": scale,
                        "seed": seed,
                        "task": task,
                        "negative": plan.n_negative,
                        "positive": plan.n_positive,
                        "features": scenes.X[task].shape[1],
                        "common": len(scenes.common_features),
                        "auc": round(float(roc_auc_score(y, scenes.bayes_score[task])), 5),
                    }
                    file.write(json.dumps(entry) + "\n")
                    print(entry, flush=True)


if __name__ == "__main__":
    main()
