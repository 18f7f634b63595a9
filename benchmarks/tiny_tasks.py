# SPDX-License-Identifier: Apache-2.0
"""Is `mtboost.fit` ever worse than a constant or one pooled model, where tasks have few rows?

Binary labels of generated tasks: 40 tasks of 2 to 5 rows, and 150 tasks of 30 rows with 2 to 5 % of
positives, whose logit is linear in ten columns with an offset for each task; and 3 tasks of 3000
rows, the last with 9 to 98 positives on average, with one function of the columns that is not
linear, and the offsets. The constant is the mean label; the pooled model is XGBoost, its rounds by
early stopping on a random fifth and trained again on all rows. Log loss of new rows, and for the
last shape the area under the ROC curve, both of its rare task: mean over draws, with the paired
difference to the peer in standard errors.

    python benchmarks/tiny_tasks.py [--draws 50] [--first 0] [--effort balanced] ["3 tasks"]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import xgboost
from sklearn.metrics import log_loss, roc_auc_score

import mtboost

N_COLUMNS = 10
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def few_rows(rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Rows and base rates of 40 tasks."""
    return rng.integers(2, 6, 40), np.full(40, 0.5)


def few_positives(
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Rows and base rates of 150 tasks."""
    return np.full(150, 30), rng.uniform(0.02, 0.05, 150)


def rare_positives(
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Rows and base rates of 3 tasks."""
    rates = [*rng.uniform(0.1, 0.4, 2), np.exp(rng.uniform(np.log(9 / 3000), np.log(98 / 3000)))]
    return np.full(3, 3000), np.array(rates)


SHAPES: dict[
    str, Callable[[np.random.Generator], tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]
]
SHAPES = {
    "40 tasks, 2 to 5 rows": few_rows,
    "150 tasks, 30 rows": few_positives,
    "3 tasks, 3000 rows": rare_positives,
}
RARE = "3 tasks, 3000 rows"
N_NEW_ROWS = {RARE: 10_000}  # of each task


def draw(shape: str, seed: int) -> tuple[Rows, Rows]:
    """Rows to train on, and to test on."""
    rng = np.random.default_rng(seed)
    n_rows, rates = SHAPES[shape](rng)
    coefficients = rng.normal(size=N_COLUMNS) / np.sqrt(N_COLUMNS)
    offsets = np.log(rates / (1.0 - rates)) + 0.3 * rng.normal(size=len(rates))

    def rows(task: npt.NDArray[np.int64]) -> Rows:
        X = rng.normal(size=(len(task), N_COLUMNS))
        logits = X @ coefficients + offsets[task]
        if shape == RARE:
            bent = np.where(np.abs(X) > 1.0, np.sign(X), X)
            logits = 2.0 * bent @ coefficients + X[:, 0] * X[:, 1] + offsets[task]
        return X, (rng.random(len(task)) < 1.0 / (1.0 + np.exp(-logits))).astype(np.int64), task

    tasks = np.arange(len(rates))
    return rows(np.repeat(tasks, n_rows)), rows(np.repeat(tasks, N_NEW_ROWS.get(shape, 100)))


def constant(train: Rows, test: Rows, seed: int) -> npt.NDArray[np.floating]:
    return np.full(len(test[1]), train[1].mean())


def pooled(train: Rows, test: Rows, seed: int) -> npt.NDArray[np.floating]:
    X, y, _ = train
    is_valid = np.random.default_rng(seed).permutation(len(y)) < len(y) // 5
    params = {"objective": "binary:logistic", "learning_rate": 0.05, "max_depth": 4, "nthread": 1}
    fit, valid = (
        xgboost.DMatrix(X[~is_valid], y[~is_valid]),
        xgboost.DMatrix(X[is_valid], y[is_valid]),
    )
    watched = {"evals": [(valid, "valid")], "early_stopping_rounds": 20, "verbose_eval": False}
    n_rounds = xgboost.train(params, fit, 500, **watched).best_iteration + 1
    return xgboost.train(params, xgboost.DMatrix(X, y), n_rounds).inplace_predict(test[0])


def compare(name: str, scores: dict[str, list[float]], sign: int) -> None:
    """Print the mean of a score over draws, and the gain over each peer; `sign` -1 for losses."""
    own = np.array(scores["mtboost"])
    print(f"  {name}: mtboost {own.mean():.4f}")
    for peer in ("constant", "pooled"):
        gains = sign * (own - np.array(scores[peer]))
        errors = gains.mean() / (gains.std(ddof=1) / np.sqrt(len(gains)))
        print(
            f"    {peer:9}{np.mean(scores[peer]):8.4f}, mtboost better by {gains.mean():.4f} "
            f"({errors:+.1f} standard errors), in {(gains > 0).sum()} of {len(gains)} draws",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", help="beginnings of the shapes; by default all")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--effort", default="balanced")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    for shape in SHAPES:
        if not shape.startswith(tuple(arguments.shapes) or ""):
            continue
        losses: dict[str, list[float]] = {"constant": [], "pooled": [], "mtboost": []}
        areas: dict[str, list[float]] = {"constant": [], "pooled": [], "mtboost": []}
        for seed in range(arguments.first, arguments.first + arguments.draws):
            train, test = draw(shape, seed)
            if len(set(train[1])) < 2:
                continue
            model = mtboost.fit(
                *train[:2],
                task=train[2],
                effort=arguments.effort,
                n_threads=arguments.threads,
                seed=seed,
            )
            found = {
                "constant": constant(train, test, seed),
                "pooled": pooled(train, test, seed),
                "mtboost": model.predict(test[0], task=test[2]),
            }
            is_judged = test[2] == test[2].max() if shape == RARE else np.ones(len(test[1]), bool)
            for name, predictions in found.items():
                losses[name].append(float(log_loss(test[1][is_judged], predictions[is_judged])))
                areas[name].append(roc_auc_score(test[1][is_judged], predictions[is_judged]))
        print(f"{shape}, {len(losses['mtboost'])} draws")
        compare("log loss", losses, -1)
        if shape == RARE:
            compare("area under the ROC curve", areas, 1)


if __name__ == "__main__":
    main()
