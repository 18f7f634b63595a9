# SPDX-License-Identifier: Apache-2.0
"""
Tasks with different columns
============================

Three payment products with different columns: train together, score each with plain XGBoost.

Every product is a task with a separate table. The common model uses the columns that all tables
have; the specific model of a product uses all columns of its table. What is deployed is one
ordinary booster per product: a second Python process scores with it and never imports mtboost.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pandas as pd

import mtboost

N_ROWS = {"card": 12_000, "transfer": 4_000, "voucher": 1_000}

# What runs in production: XGBoost and pandas, nothing else.
SCORE = """
import sys
import numpy, pandas, xgboost

folder, task = sys.argv[1:]
booster = xgboost.Booster(model_file=f"{folder}/{task}.ubj")
table = pandas.read_pickle(f"{folder}/{task}.pkl")[booster.feature_names]
rows = xgboost.DMatrix(table, enable_categorical=True)
numpy.save(f"{folder}/{task}.npy", booster.predict(rows, output_margin=True))
assert "mtboost" not in sys.modules
print(f"{task:10}{booster.num_boosted_rounds():>6} rounds,  {', '.join(booster.feature_names)}")
"""


def main() -> None:
    rng = np.random.default_rng(0)
    tables, labels = {}, {}
    for product, n_rows in N_ROWS.items():
        tables[product], labels[product] = make_payments(product, 2 * n_rows, rng)
    train = {product: tables[product][: N_ROWS[product]] for product in tables}
    new = {product: tables[product][N_ROWS[product] :] for product in tables}

    model = mtboost.fit(
        train,
        {product: labels[product][: N_ROWS[product]] for product in labels},
        objective="binary:logistic",
        params={"max_depth": 3, "eta": 0.1},
        num_boost_round=200,
    )
    print(f"common columns: {', '.join(model.common_columns.names or ())}\n")
    print(model.report().drop(columns="why_no_specific").to_string(float_format="%.4f"))

    margins = model.predict_margin(new)
    print("\nscored by plain XGBoost in another process:")
    with tempfile.TemporaryDirectory() as folder:
        for product, table in new.items():
            model.booster(product).save_model(Path(folder, f"{product}.ubj"))
            table.to_pickle(Path(folder, f"{product}.pkl"))
            subprocess.run([sys.executable, "-c", SCORE, folder, product], check=True)
            assert np.array_equal(np.load(Path(folder, f"{product}.npy")), margins[product])
    print("all margins equal the model's, bit for bit")
    draw(model)


def draw(model: mtboost.MultiTaskModel) -> None:
    """What each product's booster uses; columns that a product lacks stay empty."""
    table = model.importance(output="pandas")
    figure, axes = plt.subplots(
        1, len(table.columns), figsize=(10, 3), layout="constrained", sharey=True
    )
    for ax, product in zip(axes, table, strict=True):
        part = table[product] / table[product].sum()
        ax.barh(list(map(str, table.index)), part.fillna(0))
        ax.set(title=product, xlabel="part of the gain")
    axes[0].invert_yaxis()
    figure.savefig("heterogeneous_features.png", dpi=120)


def make_payments(
    product: str, n_rows: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, npt.NDArray[np.int64]]:
    """Payments of one product and whether each was a fraud: a shared pattern and a specific one."""
    countries = pd.CategoricalDtype(["DE", "FR", "IT", "PL", "SE"])
    table = pd.DataFrame(
        {
            "amount": rng.lognormal(4.0, 1.0, n_rows).astype(np.float32),
            "hour": rng.integers(0, 24, n_rows),
            "country": pd.Series(rng.choice(countries.categories, n_rows), dtype=countries),
        }
    )
    is_night = table["hour"] < 6
    log_odds = -3.5 + 1.5 * is_night + 0.8 * np.log(table["amount"] / 55) * (1 + is_night)
    if product == "card":
        goods = pd.CategoricalDtype(["food", "fuel", "games", "gold", "travel"])
        table["goods"] = pd.Series(rng.choice(goods.categories, n_rows), dtype=goods)
        table["km_from_home"] = rng.exponential(50.0, n_rows)
        table.loc[rng.random(n_rows) < 0.2, "km_from_home"] = np.nan
        log_odds += 1.5 * table["goods"].isin(["games", "gold"])
        log_odds += 1.5 * (table["km_from_home"] > 100)
    elif product == "transfer":
        table["days_payee_known"] = rng.exponential(200.0, n_rows)
        log_odds += 2.0 * (table["days_payee_known"] < 3) + 1.0 * (table["country"] == "IT")
    else:
        table["n_redeemed"] = rng.poisson(2.0, n_rows)
        log_odds += 0.7 * (table["n_redeemed"] - 2)
    chance = 1 / (1 + np.exp(-log_odds))
    return table, (rng.random(n_rows) < chance).to_numpy().astype(np.int64)


if __name__ == "__main__":
    main()
