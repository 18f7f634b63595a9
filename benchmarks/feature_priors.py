# SPDX-License-Identifier: Apache-2.0
"""Stock XGBoost that samples features by a prior: how much lower is the error with few rows?

200 rounds of 0.1, depth 3, ⌊√M⌋ of M features a node; mean squared error on 10,000 new rows as a
part of the variance of y. Priors are those of the other problems (leave-one-out), and for Signum
also the known importances. "uniform" samples without a prior.

    python benchmarks/feature_priors.py --out benchmarks/results/feature_priors.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

import mtboost
from mtboost.datasets import make_shared_linear, make_signum
from mtboost.xgboost import PriorFeatureSampling

N_PROBLEMS, N_DRAWS, N_TEST = 10, 5, 10_000
ROWS = (20, 50, 100, 500)


def problems(data: str, n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield columns, labels and known importances of each problem; the first rows are to train."""
    if data == "linear":
        yield from (
            (X, y, None)
            for X, y in make_shared_linear(N_PROBLEMS, n_rows=n_rows + N_TEST, seed=100).problems
        )
    else:
        for seed in range(100, 100 + N_PROBLEMS):
            own = make_signum(n_rows + N_TEST, seed=seed)
            yield own.X, own.y, own.importance


def train(X: np.ndarray, y: np.ndarray, seed: int = 0, **prior: Any) -> xgboost.Booster:
    """Train with all features, or with ``prior`` for PriorFeatureSampling (None: uniform)."""
    n_features = X.shape[1]
    params: dict[str, Any] = {"max_depth": 3, "eta": 0.1, "nthread": 1, "seed": seed}
    if prior:
        params["colsample_bynode"] = (int(n_features**0.5) + 0.5) / n_features
    is_uniform = not prior or (prior["prior"] is None and not prior.get("dynamic"))
    callbacks = [] if is_uniform else [PriorFeatureSampling(**prior)]
    return xgboost.train(params, xgboost.DMatrix(X, y), 200, callbacks=callbacks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file of results, written anew")
    args = parser.parse_args()
    with args.out.open("w", encoding="utf-8") as file:
        for data in ("signum", "linear"):
            for n_rows in ROWS:
                own = list(problems(data, n_rows))
                pairs = [(X[:n_rows], y[:n_rows]) for X, y, _ in own]
                models = [train(X, y) for X, y in pairs]
                for k, (X, y, known) in enumerate(own):
                    prior = mtboost.feature_prior(
                        [m for other, m in enumerate(models) if other != k]
                    )
                    options: dict[str, dict[str, Any]] = {
                        "uniform": {"prior": None},
                        "prior": {"prior": prior},
                        "dynamic, with prior": {"prior": prior, "dynamic": True},
                        "dynamic, without": {"prior": None, "dynamic": True},
                    }
                    if known is not None:
                        options["known importances"] = {"prior": known}
                    found = {"all features": [models[k]]}
                    for method, option in options.items():
                        found[method] = [
                            train(*pairs[k], seed, **option) for seed in range(N_DRAWS)
                        ]
                    test = xgboost.DMatrix(X[n_rows:])
                    truth = y[n_rows:]
                    for method, boosters in found.items():
                        errors = [np.mean((b.predict(test) - truth) ** 2) for b in boosters]
                        entry = {"data": data, "rows": n_rows, "problem": k, "method": method}
                        entry["error"] = round(float(np.mean(errors) / truth.var()), 5)
                        file.write(json.dumps(entry) + "\n")
                print(data, n_rows, flush=True)


if __name__ == "__main__":
    main()
