# SPDX-License-Identifier: Apache-2.0
"""A forecaster with 500 stores: weekly demand, split by time, fit, judge, serve, next month."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

import mtboost

N_STORES = 500
COLUMNS = ["price", "promotion", "last_week", "last_month"]


def weeks(first: int, last: int, n_stores: int = N_STORES, drift: float = 0.0) -> pd.DataFrame:
    """Generated units sold; stores differ in size, and in what promotions do."""
    rng = np.random.default_rng(0)
    size, effect = rng.lognormal(3.0, 0.6, n_stores), rng.choice([0.1, 0.5, 0.9], n_stores)
    rng = np.random.default_rng(first)
    week, store = np.arange(first - 5, last), np.arange(n_stores)
    rows = pd.DataFrame({"week": np.repeat(week, n_stores), "store": np.tile(store, len(week))})
    rows["price"] = rng.normal(size=len(rows))
    rows["promotion"] = (rng.random(len(rows)) < 0.2).astype(int)
    gain = (effect[rows["store"]] - drift) * rows["promotion"] - 0.1 * rows["price"]
    rows["units"] = rng.poisson(size[rows["store"]] * np.exp(gain))
    before = rows.groupby("store")["units"]
    rows["last_week"] = before.shift(1)
    rows["last_month"] = before.transform(lambda units: units.shift(1).rolling(4).mean())
    return rows[rows["week"] >= first].reset_index(drop=True)


def main() -> None:
    past, test = weeks(0, 20), weeks(20, 24)
    X, y, params = past.drop(columns="units"), past["units"], {"learning_rate": 0.1, "max_depth": 4}
    fit = partial(mtboost.fit, task="store", effort="fast", params=params, num_boost_round=100)
    model = fit(X, y, validation="last", time="week")
    pooled = xgboost.train(params, xgboost.DMatrix(X[COLUMNS], y), 100)
    found = model.evaluate(test, test["units"], metrics="wape", against={"pooled": pooled})
    print(f"Four weeks, all stores:\n{found.tail(1).round(4).to_string()}")
    print(model.report()["sharing"].value_counts().to_string())
    print(model.importance(0, output="pandas").round(1).to_string())
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "stores.mtboost")
        served = mtboost.load_model(Path(folder) / "stores.mtboost")
    print(f"\nOne store, one week: {served.predict(test.head(1))[0]:.1f} units")
    month, later = (weeks(*span, N_STORES + 1, drift=0.3) for span in ((24, 28), (28, 32)))
    known, later = (rows[rows["store"] < N_STORES] for rows in (month, later))
    refreshed = served.refresh(known, known["units"], shrink=0.3)
    updated = served.update(month, month["units"], rounds=50)  # with the new store
    others = {"kept": served, "refreshed": refreshed}
    found = updated.evaluate(later, later["units"], metrics="wape", against=others)
    print(f"\nNext month, updated:\n{found.tail(1).round(4).to_string()}")


if __name__ == "__main__":
    main()
