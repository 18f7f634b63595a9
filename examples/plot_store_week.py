# SPDX-License-Identifier: Apache-2.0
"""
Demand of 500 stores
====================

Weekly units sold of 500 generated stores, which differ in size and in what promotions do. A
forecaster trains on twelve weeks, evaluates on the next four, and brings the model up to date.
"""

import tempfile
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xgboost

import mtboost
from mtboost import plotting

N_STORES = 500
COLUMNS = ["price", "promotion", "last_week", "last_month"]


def weeks(first: int, last: int, n_stores: int = N_STORES, drift: float = 0.0) -> pd.DataFrame:
    """Generated units sold; with `drift` promotions do less than before."""
    rng = np.random.default_rng(0)
    size = rng.lognormal(3.0, 0.6, N_STORES + 1)
    effect = rng.choice([0.1, 0.5, 0.9], N_STORES + 1)
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


past, test = weeks(8, 20), weeks(20, 24)

# %%
# Train and evaluate
# ------------------
# The last weeks decide how much the stores share. The weighted absolute percentage error (wape) is
# compared with one XGBoost model of all stores, in which sales of the past describe the store.
X, y, params = past.drop(columns="units"), past["units"], {"learning_rate": 0.3, "max_depth": 4}
fit = partial(mtboost.fit, task="store", effort="fast", params=params, num_boost_round=25)
model = fit(X, y, validation="last", time="week")
pooled = xgboost.train(params, xgboost.DMatrix(X[COLUMNS], y), 25)
found = model.evaluate(test, test["units"], metrics="wape", against={"pooled": pooled})
print(f"Four weeks, all stores:\n{found.tail(1).round(4).to_string()}")
print(model.report()["sharing"].value_counts().to_string())
gain = model.importance(0, output="pandas")[0]
print(f"Gain of the splits, store 0:\n{gain.round(1).to_string()}")

# %%
# A table of 500 stores is long. The plot has the largest stores, and counts the others.
plotting.plot_gain(found)
plt.savefig("store_week_gain.png", dpi=120)

# %%
# What promotions do in each store; the bold line is a store that the model does not know.
plotting.plot_dependence(model, X.drop(columns="week"), "promotion")
plt.savefig("store_week_promotion.png", dpi=120)

# %%
# Serve
# -----
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "stores.mtboost")
    served = mtboost.load_model(Path(folder) / "stores.mtboost")
print(f"One store, one week: {served.predict(test.head(1))[0]:.1f} units")

# %%
# The next month
# --------------
# Promotions do less than before, and a store opens.
month, later = weeks(24, 28, N_STORES + 1, drift=0.3), weeks(28, 32, drift=0.3)
updated = served.update(month, month["units"], rounds=10)  # with the new store
found = updated.evaluate(later, later["units"], metrics="wape", against={"kept": served})
print(f"Next month, updated:\n{found.tail(1).round(4).to_string()}")

# %%
plotting.plot_gain(found)
plt.savefig("store_week_later.png", dpi=120)
