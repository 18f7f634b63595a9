# SPDX-License-Identifier: Apache-2.0
"""
What a model of sixty tasks has learned
=======================================

Sixty generated shops of very different size, in two regions in which the price acts in opposite
directions; every sixth shop depends on age alone, in its own way. The functions of
``mtboost.plotting`` show what the shops gain, what they share and what differs between them.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mtboost
from mtboost import plotting

N_SHOPS = 60
rng = np.random.default_rng(0)
size = np.rint(200 / np.arange(1, N_SHOPS + 1) ** 0.6).astype(int) + 30
shop = np.repeat(np.arange(N_SHOPS), 2 * size)
rows = pd.DataFrame(rng.normal(size=(len(shop), 4)), columns=["price", "rain", "age", "noise"])
rows["shop"] = np.char.add("shop ", np.char.zfill(shop.astype(str), 2))
level, slope = rng.normal(size=N_SHOPS), np.where(np.arange(N_SHOPS) % 2, 1.0, -0.6)
usual = slope[shop] * rows["price"] + np.sin(2 * rows["rain"])
own = 2 * np.sin(3 * rows["age"] + shop)
y = level[shop] + np.where(shop % 6 == 0, own, usual) + rng.normal(size=len(shop))

train = np.arange(len(shop)) % 2 == 0
X, new = rows[train], rows[~train]
fit = partial(mtboost.fit, params={"max_depth": 3, "learning_rate": 0.2}, num_boost_round=60)
model = fit(X, y[train], task="shop", effort="fast", intervals=True)
pooled = fit(X.drop(columns="shop"), y[train], strategy="two-stage")

# %%
# Does it pay?
# ------------
# Against one model of all rows: filled dots are the shops' errors, hollow ones those of the other
# model, with the standard errors of the differences.
others = {"pooled": pooled.predict(new.drop(columns="shop"))}
found = model.evaluate(new, y[~train], metrics="rmse", against=others)
plotting.plot_gain(found)
plt.savefig("what_was_learned_gain.png", dpi=120)

# %%
# What was tried, and what do the shops share?
# --------------------------------------------
plotting.plot_search(model)
plt.savefig("what_was_learned_search.png", dpi=120)

# %%
plotting.plot_sharing(model)
plt.savefig("what_was_learned_sharing.png", dpi=120)

# %%
# Errors of the largest shops, round by round.
plotting.plot_history(model)
plt.savefig("what_was_learned_history.png", dpi=120)

# %%
# The same with a panel for each, relative to the first round.
plotting.plot_history_grid(model)
plt.savefig("what_was_learned_history_grid.png", dpi=120)

# %%
# Which shops are alike?
# ----------------------
plotting.plot_task_similarity(model, X)
plt.savefig("what_was_learned_similarity.png", dpi=120)

# %%
# What does each feature do?
# --------------------------
plotting.plot_importance(model, X)
plt.savefig("what_was_learned_importance.png", dpi=120)

# %%
plotting.plot_dependence(model, X, "price")
plt.savefig("what_was_learned_dependence.png", dpi=120)

# %%
# How far is a shop from the others?
# ----------------------------------
# By its rows, and by the model, which shrinks small shops more.
plotting.plot_shrinkage(model, X, y[train])
plt.savefig("what_was_learned_shrinkage.png", dpi=120)

# %%
# Can the predictions be trusted?
# -------------------------------
# Their means beside those of the labels, and how many new labels the intervals contain.
plotting.plot_calibration(model, new, y[~train])
plt.savefig("what_was_learned_calibration.png", dpi=120)

# %%
plotting.plot_intervals(model, new, y[~train])
plt.savefig("what_was_learned_intervals.png", dpi=120)

# %%
# The first tree of one shop
# --------------------------
plotting.plot_tree(model, "shop 00", 0)
plt.savefig("what_was_learned_tree.png", dpi=120)
