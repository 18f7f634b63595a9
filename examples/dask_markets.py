# SPDX-License-Identifier: Apache-2.0
"""
Markets on several machines
===========================

Forty markets whose rows lie on several workers: a leaf value for each market, trained on Dask.

The markets share what drives demand, and each has its own taste in addition. Rows arrive by day, so
that every worker has rows of all markets. Compared are one booster for all of them by stock
``xgboost.dask.train``, and the same training with a callback: partially pooled leaves, in which
each market has its own values, shrunk towards those of all. The result of either is an ordinary
booster, and the loop, the metrics and the matrices are XGBoost's. The third is ``mtboost.dask.fit``
with the same common model, to which each market may add a specific one::

    pip install "mtboost[dask]" && python examples/dask_markets.py
"""

from __future__ import annotations

from typing import Any

import dask.array
import numpy as np
import numpy.typing as npt
import xgboost
from distributed import Client, LocalCluster
from xgboost import dask as xgboost_dask

import mtboost.dask
from mtboost.xgboost import TaskSplit

FloatArray = npt.NDArray[np.float64]

N_MARKETS, N_FEATURES, N_DAYS, N_ROWS_OF_DAY = 40, 8, 8, 2500
N_WORKERS, N_ROUNDS = 2, 60
NOISE = 0.5  # standard deviation
PARAMS: dict[str, Any] = {"max_depth": 4, "eta": 0.1, "objective": "reg:squarederror"}


def main() -> None:
    X, market, y = make_rows(N_DAYS * N_ROWS_OF_DAY, seed=0)
    X_new, market_new, y_new = make_rows(5000, seed=1)
    options = {"n_workers": N_WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        # The market of a row travels with it, in a field that other objectives do not use.
        matrix = xgboost_dask.DaskQuantileDMatrix(
            client, by_day(X), by_day(y), label_lower_bound=by_day(market)
        )
        split = TaskSplit("label_lower_bound", split_score="plain", pooling="auto")
        stock, ours = (
            xgboost_dask.train(client, PARAMS, matrix, N_ROUNDS, callbacks=callbacks)["booster"]
            for callbacks in ([], [split])
        )
        both_stages = mtboost.dask.fit(
            client,
            by_day(X),
            by_day(y),
            task=by_day(market),
            strategy="two-stage",
            split_score="plain",
            pooling="auto",
            params={"max_depth": 4, "learning_rate": 0.1},
            num_boost_round=N_ROUNDS,
        )

    rows = xgboost.DMatrix(X_new)
    one_for_all = stock.predict(rows)
    by_market = np.empty(len(y_new))
    for name in range(N_MARKETS):
        own = market_new == name
        by_market[own] = split.booster(ours, name).predict(xgboost.DMatrix(X_new[own]))
    print(f"root mean squared error on {len(y_new)} new rows, of which {NOISE:.3f} is noise:")
    print(f"  one booster for all markets      {error(one_for_all, y_new):.3f}")
    print(f"  leaf values of each market       {error(by_market, y_new):.3f}")
    in_two_stages = both_stages.predict(X_new, task=market_new)
    print(f"  and a model of each market       {error(in_two_stages, y_new):.3f}")


def make_rows(n_rows: int, seed: int) -> tuple[FloatArray, npt.NDArray[np.int64], FloatArray]:
    taste = np.random.default_rng(9).normal(0.8, 0.8, (N_MARKETS, 3))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    market = rng.integers(0, N_MARKETS, n_rows)
    shared = np.sin(2 * X[:, 0]) + np.maximum(X[:, 1], 0) * X[:, 2]
    y = shared + (taste[market] * X[:, 3:6]).sum(axis=1)
    return X, market, y + rng.normal(0, NOISE, n_rows)


def by_day(values: npt.NDArray[Any]) -> Any:
    """Spread rows over the cluster, one chunk for each day."""
    return dask.array.from_array(values, chunks=(N_ROWS_OF_DAY, *values.shape[1:]))


def error(prediction: npt.NDArray[Any], y: FloatArray) -> float:
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


if __name__ == "__main__":
    main()
