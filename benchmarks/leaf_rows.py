# SPDX-License-Identifier: Apache-2.0
"""How many rows should a leaf of projected boosting have at least? (the default min_samples_leaf)

Decided on training rows alone: of those of each split of many_outputs_accuracy.py, a fourth judges,
and a fifth of the rest is validated on. Score of the judging rows (labels: label ranking average
precision; numbers, standardised: macro-R²), means and standard errors over splits: depth (2, 4, 6)
and rounds by validation; depth 6 with rounds by validation; 100 rounds of depth 6, the default, on
all but the judging rows.

    python benchmarks/leaf_rows.py --data FOLDER [--names wq ...] [--seeds 10] [--rows 1 3 5 10 20]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import label_ranking_average_precision_score, r2_score
from sklearn.model_selection import train_test_split

from mtboost import ProjectedBoostingClassifier, ProjectedBoostingRegressor

N_TRAIN = {"emotions": 391, "yeast": 1500}
STRATEGIES = ("gbrt-relabel-rpo", "gbmort", "gbrt-rpo", "single-target")


def scores_of_split(
    X: Any, Y: Any, n_train: int, seed: int, options: dict[str, Any]
) -> list[float]:
    are_labels = set(np.unique(Y)) <= {0, 1}
    train = np.random.default_rng(seed).permutation(len(X))[:n_train]
    X, Y = X[train], Y[train]
    rest, judging = train_test_split(np.arange(n_train), test_size=0.25, random_state=1000 + seed)
    inner, valid = train_test_split(rest, test_size=0.2, random_state=seed)
    if not are_labels:
        Y = (Y - Y[rest].mean(axis=0)) / Y[rest].std(axis=0)
    make = ProjectedBoostingClassifier if are_labels else ProjectedBoostingRegressor
    options = {"n_jobs": 1, "random_state": seed, **options}

    def score(model: Any, rows: Any) -> float:
        if are_labels:
            margins = model.decision_function(X[rows])
            return float(label_ranking_average_precision_score(Y[rows], margins))
        return float(r2_score(Y[rows], model.predict(X[rows])))

    found = []
    for depth in (2, 4, 6):
        model = make(500, max_depth=depth, early_stopping_rounds=30, **options)
        model.fit(X[inner], Y[inner], eval_set=(X[valid], Y[valid]))
        found.append((score(model, valid), score(model, judging)))
    by_default = make(**options).fit(X[rest], Y[rest])
    return [max(found)[1], found[-1][1], score(by_default, judging)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--names", nargs="+", default=["wq", "emotions", "yeast", "atp1d"])
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 3, 5, 10, 20])
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    for name in args.names:
        with np.load(Path(args.data, f"{name}.npz"), allow_pickle=False) as data:
            X, Y = data["X"].astype(np.float32), data["Y"]
        n_train = N_TRAIN.get(name, round(0.75 * len(X)))
        print(f"\n{f'{name}, rows':26}{'tuned':>16}{'depth 6':>16}{'by default':>16}")
        for strategy in args.strategies:
            for n_rows in args.rows:
                options = {"strategy": strategy, "min_samples_leaf": n_rows}
                found = np.array(
                    [scores_of_split(X, Y, n_train, seed, options) for seed in range(args.seeds)]
                )
                errors = found.std(axis=0, ddof=1) / np.sqrt(args.seeds)
                line = f"{strategy:20}{n_rows:6}"
                for mean, error in zip(found.mean(axis=0), errors, strict=True):
                    line += f"{f'{mean:.4f} ± {error:.4f}':>16}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
