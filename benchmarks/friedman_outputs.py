# SPDX-License-Identifier: Apache-2.0
"""Does boosting on output projections find out how outputs are related? (joly2016, section 23.2)

The friedman1 families with 300 rows to train, 4000 to test and 16 outputs: a chain, a group, and
unrelated ones; also with 16 permuted outputs, which are noise. Four strategies, squared loss, one
component: a single output a round (``subsample``), as in tables 6.1 to 6.4.

1. Convergence, as in figure 6.1 (stumps, learning rate 0.1): trees until the best macro-R² of
   single targets is reached, and macro-R² after 160 trees.
2. Accuracy: macro-R² of the 16 outputs that are no noise. Leaves of a tree (of three numbers) and
   rounds are those of the best macro-R² (of all outputs) on a fourth of the training rows, which
   then train too; at most 10,000 trees. Differences are paired over seeds, with the p-value of
   Student's test.

    python benchmarks/friedman_outputs.py [--seeds 10] [--families chain group ind]
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.metrics import r2_score

from mtboost import ProjectedBoostingRegressor
from mtboost.datasets import make_friedman1_chain, make_friedman1_group, make_friedman1_ind

FAMILIES = {"chain": make_friedman1_chain, "group": make_friedman1_group, "ind": make_friedman1_ind}
STRATEGIES = ("single-target", "gbmort", "gbrt-relabel-rpo", "gbrt-rpo")
N_TRAIN, N_INNER, N_TEST, N_OUTPUTS = 300, 225, 4000, 16
MOST_TREES = 10_000
LEAVES = (2, 4, 8)


def make(strategy: str, n_outputs: int, **options: Any) -> ProjectedBoostingRegressor:
    trees_a_round = n_outputs if strategy == "single-target" else 1
    return ProjectedBoostingRegressor(
        strategy=strategy,
        projection="subsample",
        n_components=1,
        max_depth=None,
        min_samples_leaf=1,  # as in the source, which bounds the number of leaves alone
        max_bin=64,
        **{"n_estimators": MOST_TREES // trees_a_round, **options},
    )


def tuned_r2(strategy: str, X: np.ndarray, y: np.ndarray, seed: int) -> float:
    n_outputs = y.shape[1]
    inner, held_out, test = slice(N_INNER), slice(N_INNER, N_TRAIN), slice(N_TRAIN, None)
    early_stopping_rounds = 30 if strategy == "single-target" else 150
    found = {}
    for n_leaves in LEAVES:
        model = make(
            strategy,
            n_outputs,
            max_leaf_nodes=n_leaves,
            early_stopping_rounds=early_stopping_rounds,
            scoring="r2",
            random_state=seed,
        ).fit(X[inner], y[inner], eval_set=(X[held_out], y[held_out]))
        found[n_leaves, model.n_estimators_] = model.validation_scores_.max()
    n_leaves, n_trees = max(found, key=lambda settings: found[settings])
    model = make(
        strategy, n_outputs, max_leaf_nodes=n_leaves, n_estimators=n_trees, random_state=seed
    )
    predicted = model.fit(X[:N_TRAIN], y[:N_TRAIN]).predict(X[test])
    return float(r2_score(y[test, :N_OUTPUTS], predicted[:, :N_OUTPUTS]))


def compare(family: str, n_noise: int, n_seeds: int) -> None:
    found = pd.DataFrame(index=range(n_seeds), columns=list(STRATEGIES), dtype=float)
    for seed in range(n_seeds):
        data = FAMILIES[family](N_TRAIN + N_TEST, n_noise_outputs=n_noise, seed=seed)
        for strategy in STRATEGIES:
            found.loc[seed, strategy] = tuned_r2(strategy, data.X, data.y, seed)
    print(f"\n{family}, {n_noise} noise outputs: macro-R2, and of each pair row - column (p)")
    print(f"{'':18}{'R2':>7}" + "".join(f"{name:>20}" for name in STRATEGIES[:-1]))
    for name in STRATEGIES:
        line = f"{name:18}{found[name].mean():7.3f}"
        for other in STRATEGIES[: STRATEGIES.index(name)]:
            difference = (found[name] - found[other]).mean()
            p = stats.ttest_rel(found[name], found[other]).pvalue
            line += f"{f'{difference:+.3f} ({p:.1g})':>20}"
        print(line, flush=True)


def converge(family: str, n_seeds: int) -> None:
    """Trees until single targets' best, and macro-R² after 160 trees; medians, and means."""
    needed: dict[str, list[float]] = {name: [] for name in STRATEGIES}
    early: dict[str, list[float]] = {name: [] for name in STRATEGIES}
    for seed in range(n_seeds):
        data = FAMILIES[family](N_TRAIN + N_TEST, seed=seed)
        target = None
        for name in STRATEGIES:
            per_round = N_OUTPUTS if name == "single-target" else 1
            model = make(name, N_OUTPUTS, max_leaf_nodes=2, random_state=seed)
            model.fit(data.X[:N_TRAIN], data.y[:N_TRAIN])
            X, y = data.X[N_TRAIN:], data.y[N_TRAIN:]
            variances = y.var(axis=0)
            errors = [np.mean((y - own) ** 2, axis=0) for own in model.staged_predict(X)]
            scores = np.mean(1 - np.array(errors) / variances, axis=1)
            target = scores.max() if target is None else target
            reached = np.flatnonzero(scores >= target)
            needed[name].append(per_round * (reached[0] + 1) if reached.size else np.inf)
            early[name].append(scores[160 // per_round - 1])
    print(f"\n{family}: stumps{'':10}{'trees':>8}{'fewer':>8}{'R2 after 160':>15}")
    for name in STRATEGIES:
        fewer = np.median(np.divide(needed["single-target"], needed[name]))
        trees = np.median(needed[name])
        print(f"{name:24}{trees:8.0f}{fewer:8.1f}{np.mean(early[name]):15.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    args = parser.parse_args()
    for family in args.families:
        converge(family, args.seeds)
    for n_noise, family in itertools.product((0, N_OUTPUTS), args.families):
        compare(family, n_noise, args.seeds)


if __name__ == "__main__":
    main()
