# SPDX-License-Identifier: Apache-2.0
"""
Seven ways to train on two fraud scenes
=======================================

A small and a large fraud scene: which way of training serves each of them best?

Known frauds are few, so little is trained on and much is tested on. All models stop early on the
same validation rows. They have the same tree parameters, but for the last, whose parameters
mtboost.fit chooses as it does by default. The data is generated: the log-odds that the
labels were drawn from are known, and nothing can rank the rows better (line "Bayes").

One draw of the data proves little; the tables in docs/results.md are means over several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import xgboost
from sklearn.metrics import roc_auc_score

import mtboost
from mtboost.datasets import FraudScenes, make_fraud_scenes

OBJECTIVE = "binary:logistic"
PARAMS = {"max_depth": 4, "eta": 0.2, "min_child_weight": 5.0}
ROUNDS, EARLY_STOPPING_ROUNDS = 200, 20
PLOT_FILE = "fraud_scenes.png"

Margins = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Rows:
    """The rows of all tasks in one table: what fit(X, y, task=task) takes."""

    X: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]
    task: npt.NDArray[np.str_]

    @classmethod
    def of(cls, scenes: FraudScenes) -> Rows:
        names, sizes = list(scenes.y), [len(y) for y in scenes.y.values()]
        return cls(
            np.concatenate(list(scenes.X.values())),
            np.concatenate(list(scenes.y.values())),
            np.repeat(names, sizes),
        )

    def with_task_column(self) -> Rows:
        """The table with the number of the task as one more feature."""
        number = np.unique(self.task, return_inverse=True)[1]
        return Rows(np.column_stack([self.X, number]).astype(np.float32), self.y, self.task)

    def of_task(self, task: str) -> Rows:
        chosen = self.task == task
        return Rows(self.X[chosen], self.y[chosen], self.task[chosen])


def main() -> None:
    scenes = make_fraud_scenes("scene2", scale=0.06, seed=0)
    parts = scenes.split(train=0.15, valid=0.1)
    train, valid, test = (Rows.of(part) for part in parts)
    bayes = np.concatenate(list(parts[2].bayes_score.values()))
    tasks = sorted(scenes.y)
    for task in tasks:
        known, unseen = train.of_task(task).y, test.of_task(task).y
        print(
            f"{task}: trained on {len(known)} rows ({known.sum()} frauds), "
            f"tested on {len(unseen)} ({unseen.sum()} frauds)"
        )

    alone = np.empty(len(test.y), np.float32)
    for task in tasks:
        own = (rows.of_task(task) for rows in (train, valid, test))
        alone[test.task == task] = stock_margins(*own)
    searched = mtboost.fit(
        train.X, train.y, task=train.task, eval_set=(valid.X, valid.y, valid.task)
    )
    entropy = fit_two_stages(train, valid, "entropy")
    variance = fit_two_stages(train, valid, "variance")
    margins: dict[str, Margins] = {
        "pooled": stock_margins(train, valid, test),
        "independent": alone,
        "pooled + task id": stock_margins(*(r.with_task_column() for r in (train, valid, test))),
        "entropy score": entropy.predict_margin(test.X, task=test.task),
        "variance score": variance.predict_margin(test.X, task=test.task),
        "mtboost.fit": searched.predict_margin(test.X, task=test.task),
        "Bayes": bayes,
    }
    scores = {name: auc_by_task(test, margin) for name, margin in margins.items()}
    print(f"\n{'AUC of test rows':18}" + "".join(f"{task:>9}" for task in tasks))
    for name, of_task in scores.items():
        print(f"{name:18}" + "".join(f"{of_task[task]:9.4f}" for task in tasks))
    save_plot(scores, searched)


def fit_two_stages(
    train: Rows, valid: Rows, split_score: Literal["entropy", "variance"]
) -> mtboost.MultiTaskModel:
    """A common model of all tasks, and a specific one that continues it for each task."""
    return mtboost.fit(
        train.X,
        train.y,
        task=train.task,
        eval_set=(valid.X, valid.y, valid.task),
        objective=OBJECTIVE,
        split_score=split_score,
        params=PARAMS,
        num_boost_round=ROUNDS,
        early_stopping_rounds=EARLY_STOPPING_ROUNDS,
        strategy="two-stage",
    )


def stock_margins(train: Rows, valid: Rows, test: Rows) -> Margins:
    """Margins of the test rows from one plain XGBoost model of all training rows."""
    booster = xgboost.train(
        {"objective": OBJECTIVE, **PARAMS},
        xgboost.DMatrix(train.X, train.y),
        ROUNDS,
        evals=[(xgboost.DMatrix(valid.X, valid.y), "valid")],
        early_stopping_rounds=EARLY_STOPPING_ROUNDS,
        verbose_eval=False,
    )
    best_rounds = (0, booster.best_iteration + 1)
    margins: Margins = booster.predict(
        xgboost.DMatrix(test.X), output_margin=True, iteration_range=best_rounds
    )
    return margins


def auc_by_task(rows: Rows, margins: Margins) -> dict[str, float]:
    return {
        str(task): float(roc_auc_score(rows.y[rows.task == task], margins[rows.task == task]))
        for task in np.unique(rows.task)
    }


def save_plot(scores: dict[str, dict[str, float]], model: mtboost.MultiTaskModel) -> None:
    """AUC of every model, and how the validation loss of each task fell."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("\nNo plot: it needs matplotlib (pip install matplotlib).")
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    names = list(scores)[::-1]
    for task in sorted(model.reports, key=lambda task: -model.reports[task].n_rows):
        left.plot([scores[name][str(task)] for name in names], names, "o", label=task)
    left.set_xlabel("AUC of test rows")
    left.grid(axis="y", alpha=0.3)
    left.legend()
    model.plot_history(ax=right)
    right.set_xlabel("round (dot: last common round used, dashed: specific model)")
    right.set_title("mtboost.fit")
    figure.savefig(PLOT_FILE, dpi=120)
    print(f"\nPlot: {PLOT_FILE}")


if __name__ == "__main__":
    main()
