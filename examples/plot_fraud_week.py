# SPDX-License-Identifier: Apache-2.0
"""
Fraud in six channels, month after month
========================================

Five months of generated orders in six channels: the largest has 60 % of the rows, the smallest 2 %.
A fraud analyst trains a model, evaluates it on June, serves it, and brings it up to date when fraud
changes in July.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xgboost

import mtboost
from mtboost import plotting

CHANNELS = {"shop": 0.6, "app": 0.2, "phone": 0.1, "mail": 0.05, "kiosk": 0.03, "partner": 0.02}
COLUMNS = ["amount", "age", "n_orders", "distance", "night"]


def month(number: int, channels: dict[str, float], drift: float = 0.0) -> pd.DataFrame:
    """Generated orders of a month; with `drift` fraud has moved from long distances to nights."""
    rng = np.random.default_rng(number)
    rows = pd.DataFrame(rng.normal(size=(2500, len(COLUMNS))), columns=COLUMNS)
    shares = np.array(list(channels.values())) / sum(channels.values())
    rows["channel"] = rng.choice(list(channels), 2500, p=shares)
    rows["date"] = pd.Timestamp(2024, number, 1) + pd.to_timedelta(rng.integers(0, 28, 2500), "D")
    effects = {name: 0.4 * place for place, name in enumerate(CHANNELS)}
    own = rows["channel"].map(effects).fillna(1.5)
    score = 1.2 * rows.amount + own * rows.age + (1 - drift) * rows.distance + drift * rows.night
    rows["fraud"] = (rng.random(2500) < 1 / (1 + np.exp(3 - score))).astype(int)
    return rows


past = pd.concat(month(number, CHANNELS) for number in range(1, 6))

# %%
# Train
# -----
# The last fifth of each channel's rows decides how much the channels share. The report shows where
# these rows say little.
X = past.drop(columns="fraud")
model = mtboost.fit(X, past.fraud, task="channel", validation="last", time="date", effort="fast")
print(model.report()[["rows", "valid_positives", "validation_note", "sharing"]].to_string())

# %%
# Evaluate
# --------
# Against one XGBoost model of all channels, on the orders of June. A gain of more than two standard
# errors is hardly chance.
june, params = month(6, CHANNELS), {"objective": "binary:logistic", "eta": 0.1}
pooled = xgboost.train(params, xgboost.DMatrix(past[COLUMNS], past.fraud), 60)
found = model.evaluate(june, june.fraud, metrics=["logloss", "auc"], against={"pooled": pooled})
print(found.round(4).to_string())

# %%
plotting.plot_gain(found)
plt.savefig("fraud_week_june.png", dpi=120)

# %%
# Serve
# -----
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "fraud.mtboost")
    served = mtboost.load_model(Path(folder) / "fraud.mtboost")
print(f"One order: {served.predict(june.head(1))[0]:.3f}")

# %%
# The next month
# --------------
# In July fraud changes, and a channel opens. ``refresh`` estimates the leaf values again,
# ``update`` trains further rounds, also for the new channel.
july, august = (month(number, CHANNELS | {"chat": 0.1}, drift=0.8) for number in (7, 8))
known = july[july.channel != "chat"]
refreshed = served.refresh(known, known.fraud, shrink=0.3)
updated = served.update(july, july.fraud)
others = {"kept": served, "refreshed": refreshed}
found = updated.evaluate(august, august.fraud, metrics="logloss", against=others)
print(found.round(4).to_string())

# %%
plotting.plot_gain(found)
plt.savefig("fraud_week_august.png", dpi=120)
