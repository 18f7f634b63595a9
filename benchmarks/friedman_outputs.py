# SPDX-License-Identifier: Apache-2.0
"""Does boosting on output projections find out how outputs are related? (joly2016, section 23.2)

The friedman1 families with 300 rows to train, 4000 to test and 16 outputs: a chain, a group, and
unrelated ones; also with 16 permuted outputs, which are noise. Four strategies, squared loss, one
component: a single output a round (``subsample``), as in tables 6.1 to 6.4.

Macro-R² of the 16 outputs that are no noise. Leaves of a tree (of three numbers) and rounds are
those of the best macro-R² (of all outputs) on a fourth of the training rows, which then train too;
at most 10,000 trees.

    python benchmarks/friedman_outputs.py --out results.jsonl [--seeds 5]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from peer_runs import append, parser, read
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
        n_jobs=1,
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


def lines_of(family: str, n_noise: int, seed: int) -> Iterator[dict[str, Any]]:
    data = FAMILIES[family](N_TRAIN + N_TEST, n_noise_outputs=n_noise, seed=seed)
    for strategy in STRATEGIES:
        own = {"data": family, "noise": n_noise, "seed": seed, "method": strategy}
        yield own | {"r2": tuned_r2(strategy, data.X, data.y, seed)}


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    args = found.parse_args()
    for seed, n_noise, family in product(
        range(0 if args.table else args.seeds), (0, N_OUTPUTS), args.families
    ):
        append(args.out, lines_of(family, n_noise, seed))
    scores = read(args.out).groupby(["noise", "data", "method"], sort=False)["r2"].mean()
    print(scores.unstack("method").round(4).to_string())


if __name__ == "__main__":
    main()
