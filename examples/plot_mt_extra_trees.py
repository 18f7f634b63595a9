# SPDX-License-Identifier: Apache-2.0
"""
Trees that split the tasks where they differ
============================================

Thirty tasks of very different size come from three groups: in one the first column drives the
label, in another the second, in the third both, the other way round. The model is not given this.
Compared are extra trees on all rows (pooled), with one more column for each task, one forest per
task, and MT-ExtraTrees with a growing probability of task splits.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.metrics import r2_score

import mtboost

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

N_TASKS, N_FEATURES = 30, 8
PROBABILITIES = [0.0, 0.125, 0.25, 0.5, 1.0]
SETTINGS: dict[str, Any] = {"n_estimators": 200, "min_samples_leaf": 5, "random_state": 0}


def main() -> None:
    rng = np.random.default_rng(0)
    sizes = np.rint(600 / np.arange(1, N_TASKS + 1) ** 0.8).astype(int)
    X, y, task = make_rows(np.repeat(np.arange(N_TASKS), sizes), rng)
    X_test, y_test, task_test = make_rows(np.repeat(np.arange(N_TASKS), 200), rng)
    print(f"{N_TASKS} tasks with {sizes.max()} to {sizes.min()} rows, 200 test rows each\n")

    def mean_r2(predicted: FloatArray) -> float:
        rows = [task_test == number for number in range(N_TASKS)]
        return float(np.mean([r2_score(y_test[own], predicted[own]) for own in rows]))

    def with_columns(X: FloatArray, task: IntArray) -> FloatArray:
        return np.column_stack([X, task[:, np.newaxis] == np.arange(N_TASKS)])

    columns = ExtraTreesRegressor(**SETTINGS, n_jobs=-1).fit(with_columns(X, task), y)
    independent = np.empty(len(y_test))
    for number in range(N_TASKS):
        own = ExtraTreesRegressor(**SETTINGS).fit(X[task == number], y[task == number])
        independent[task_test == number] = own.predict(X_test[task_test == number])
    others = {
        "a column per task": mean_r2(columns.predict(with_columns(X_test, task_test))),
        "a forest per task": mean_r2(independent),
    }

    scores = []
    for probability in PROBABILITIES:
        model = mtboost.MTExtraTreesRegressor(task_split_prob=probability, **SETTINGS)
        model.fit(X, y, task=task)
        scores.append(mean_r2(model.predict(X_test, task=task_test)))
        name = "pooled" if probability == 0 else f"task_split_prob={probability}"
        print(f"{name:24} mean R² {scores[-1]:.3f}   task splits {model.task_importance_:.0%}")
    for name, score in others.items():
        print(f"{name:24} mean R² {score:.3f}")
    draw(scores, others)


def make_rows(task: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
    X = rng.normal(size=(len(task), N_FEATURES))
    first, second = np.sin(2 * X[:, 0]), np.abs(X[:, 1])
    group = task % 3
    signal = np.select([group == 0, group == 1], [first, second], -first - second)
    return X, X[:, 2] + 2 * signal + 0.5 * rng.normal(size=len(task)), task


def draw(scores: list[float], others: dict[str, float]) -> None:
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    ax.plot(PROBABILITIES, scores, "o-", label="MT-ExtraTrees")
    for (name, score), style in zip(others.items(), ["--", ":"], strict=True):
        ax.axhline(score, linestyle=style, color="gray", label=name)
    ax.set_xlabel("task_split_prob (0: all tasks pooled)")
    ax.set_ylabel("mean R² of the tasks")
    ax.legend()
    figure.savefig("mt_extra_trees.png", dpi=120)


if __name__ == "__main__":
    main()
