# SPDX-License-Identifier: Apache-2.0
"""
An amount, a class and a count
==============================

Spend, loyalty and visits of a shop's customers: one model of three kinds of label.

What a customer spends is an amount, whether one stays a class, how often one comes a count. Spend
is known of most customers, visits only of the few who carry the shop's card. All three follow from
how attached a customer is, and from a task-specific effect. Compared on customers that no model was
trained on: mtboost, and one XGBoost model for each label.

Labels rise together: "stays" rather than "leaves". A leaf of the common model adds one number to
the margins of all tasks.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import xgboost

import mtboost

FloatArray = npt.NDArray[np.float64]
Rows = tuple[dict[str, FloatArray], dict[str, FloatArray]]  # columns and labels of each task

OBJECTIVE = {
    "spend": "reg:squarederror",
    "stays": "binary:logistic",
    "visits": "count:poisson",
}
METRIC = {"spend": "rmse", "stays": "logloss", "visits": "poisson-nloglik"}
N_TRAIN = {"spend": 3000, "stays": 1500, "visits": 250}
N_VALID = {"spend": 1000, "stays": 500, "visits": 100}
N_TEST, N_COLUMNS, N_DRAWS = 4000, 12, 10
PARAMS = {"max_depth": 3, "learning_rate": 0.1}
ROUNDS, EARLY_STOPPING_ROUNDS = 300, 20


def main() -> None:
    found: dict[str, list[list[float]]] = {task: [] for task in OBJECTIVE}
    for seed in range(N_DRAWS):
        train, valid, test = (customers(seed, part) for part in range(3))
        model = mtboost.fit(
            *train,
            objective=OBJECTIVE,
            eval_set=valid,
            params=PARAMS,
            num_boost_round=ROUNDS,
            early_stopping_rounds=EARLY_STOPPING_ROUNDS,
            n_threads=1,
        )
        shared = model.predict(test[0])
        for task in OBJECTIVE:
            alone = predictions_alone(task, train, valid, test)
            mean = np.full(N_TEST, train[1][task].mean())
            scores = [score(task, test[1][task], each) for each in (mean, alone, shared[task])]
            found[task].append(scores)
    print(model.report().to_string(), "\n")
    print(f"Held-out customers, means of {N_DRAWS} draws; gain: one model each minus mtboost\n")
    print(f"{'':8}{'rows':>6}  {'metric':16}{'mean':>9}{'one each':>10}{'mtboost':>9}{'gain':>16}")
    for task, draws in found.items():
        table = np.array(draws)
        gain = table[:, 1] - table[:, 2]
        error = gain.std(ddof=1) / np.sqrt(N_DRAWS)
        figures = "".join(f"{value:9.3f} " for value in table.mean(axis=0))
        print(
            f"{task:8}{N_TRAIN[task]:6}  {METRIC[task]:15}{figures}{gain.mean():8.3f} ± {error:.3f}"
        )
    draw({task: np.array(draws) for task, draws in found.items()})


def draw(found: dict[str, FloatArray]) -> None:
    """What part of the loss of one model each is saved, with standard errors over draws."""
    figure, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
    for task, scores in found.items():
        saved = 100 * (1 - scores[:, 2] / scores[:, 1])
        name = f"{task}: {N_TRAIN[task]} rows"
        ax.errorbar(saved.mean(), name, xerr=saved.std(ddof=1) / np.sqrt(N_DRAWS), fmt="o")
    ax.axvline(0, color="gray", linewidth=1)
    ax.margins(y=0.3)
    ax.set_xlabel("loss saved by mtboost against one model each, %")
    figure.savefig("mixed_tasks.png", dpi=120)


def customers(seed: int, part: int) -> Rows:
    """Training, validation or test customers, other ones for each task."""
    rng = np.random.default_rng([seed, part])
    X, y = {}, {}
    for task in OBJECTIVE:
        n_rows = (N_TRAIN[task], N_VALID[task], N_TEST)[part]
        x = rng.normal(size=(n_rows, N_COLUMNS))
        attached = np.tanh(2 * x[:, 0]) + np.where(x[:, 1] > 0, x[:, 2], -0.5 * x[:, 2])
        X[task] = x
        if task == "spend":
            y[task] = 2400 + 600 * (attached + 0.5 * x[:, 3] + rng.normal(size=n_rows))
        elif task == "stays":
            log_odds = 1 + attached + 0.5 * (x[:, 4] > 0)
            y[task] = (rng.random(n_rows) < 1 / (1 + np.exp(-log_odds))).astype(float)
        else:
            y[task] = rng.poisson(np.exp(1 + 0.4 * attached + 0.2 * x[:, 5])).astype(float)
    return X, y


def predictions_alone(task: str, train: Rows, valid: Rows, test: Rows) -> FloatArray:
    """Predictions for test rows by stock XGBoost, trained on the task's rows alone."""
    matrix, stopping = (xgboost.DMatrix(X[task], y[task]) for X, y in (train, valid))
    booster = xgboost.train(
        {**PARAMS, "objective": OBJECTIVE[task], "nthread": 1},
        matrix,
        ROUNDS,
        evals=[(stopping, "valid")],
        early_stopping_rounds=EARLY_STOPPING_ROUNDS,
        verbose_eval=False,
    )
    best = (0, booster.best_iteration + 1)
    found: FloatArray = booster.predict(xgboost.DMatrix(test[0][task]), iteration_range=best)
    return found


def score(task: str, y: FloatArray, prediction: FloatArray) -> float:
    codes = np.zeros(len(y), np.int32)
    values = mtboost.metrics.evaluate_by_task(METRIC[task], y, prediction, codes, 1)
    return float(values[0])


if __name__ == "__main__":
    main()
