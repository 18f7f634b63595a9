# SPDX-License-Identifier: Apache-2.0
"""
How many trees sixteen related outputs take
===========================================

Figure 6.1 of joly2016. Sixteen outputs are one function with independent noise (a group), each is
the one before it and more noise (a chain), or each is another function of other columns. Compared
are one model for each output, and boosting of all of them with trees that see one output a round:
it either copies what the tree found to all outputs (with a weight, or leaf values, for each), or
the output is all there is to see. The figure shows the test score against the number of trees:
related outputs need a small part of the trees, unrelated ones are best left alone.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from mtboost import ProjectedBoostingRegressor
from mtboost.datasets import make_friedman1_chain, make_friedman1_group, make_friedman1_ind

N_TRAIN, N_TEST, N_OUTPUTS, N_TREES = 300, 1000, 16, 640
FAMILIES = {"chain": make_friedman1_chain, "group": make_friedman1_group, "ind": make_friedman1_ind}
STRATEGIES: dict[str, dict[str, Any]] = {
    "one model each": {"strategy": "single-target"},
    "trees of all outputs": {"strategy": "gbmort"},
    "a random output, relabelled": {"strategy": "gbrt-relabel-rpo"},
    "a random output, weights": {"strategy": "gbrt-rpo"},
}


def main() -> None:
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained", sharey=True)
    print(f"mean R² of {N_OUTPUTS} outputs after {N_OUTPUTS * 10} trees, and the best on the way\n")
    for ax, (family, make) in zip(axes, FAMILIES.items(), strict=True):
        data = make(N_TRAIN + N_TEST, seed=0)
        train, test = slice(N_TRAIN), slice(N_TRAIN, None)
        for line, (name, options) in zip(("-", "--", ":", "-."), STRATEGIES.items(), strict=True):
            trees_a_round = N_OUTPUTS if options["strategy"] == "single-target" else 1
            model = ProjectedBoostingRegressor(
                N_TREES // trees_a_round,
                projection="subsample",
                n_components=1,
                max_leaf_nodes=4,
                max_bin=64,
                random_state=0,
                **options,
            ).fit(data.X[train], data.y[train])
            scores = [mean_r2(data.y[test], y) for y in model.staged_predict(data.X[test])]
            trees = trees_a_round * np.arange(1, len(scores) + 1)
            early = scores[160 // trees_a_round - 1]
            print(f"{family:7}{name:30}{early:7.3f}{max(scores):7.3f}")
            ax.plot(trees, scores, line, label=name)
        ax.set(title=family, xscale="log", xlabel="trees", ylim=(0, 1))
    axes[0].set_ylabel("mean R² on test rows")
    axes[0].legend(fontsize="small")
    figure.savefig("multi_output_friedman.png", dpi=120)


def mean_r2(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(1 - np.mean((y - predicted) ** 2, axis=0) / y.var(axis=0)))


if __name__ == "__main__":
    main()
