# SPDX-License-Identifier: Apache-2.0
"""
From xgboost.train to multi-task in two lines
=============================================

The script on top is ordinary: matrices, parameters, early stopping. Below it the same call is made
again with a line for the split score and a line for tasks that quit; then with XGBoost's own trees
and weights for the tasks. What comes back is an ordinary Booster each time.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import xgboost
from sklearn.metrics import roc_auc_score
from xgboost.callback import EarlyStopping

from mtboost.datasets import FraudScenes, make_fraud_scenes
from mtboost.xgboost import TaskObjective, TaskQuitting, TaskSplit, residual_margin

PARAMS = {"objective": "binary:logistic", "max_depth": 4, "eta": 0.2, "eval_metric": "auc"}


def main() -> None:
    scenes = make_fraud_scenes("scene2", scale=0.15, seed=0)
    parts = scenes.split(train=0.15, valid=0.1)
    (X, y, task), (valid_X, valid_y, valid_task), (test_X, test_y, test_task) = map(rows_of, parts)
    dtrain = xgboost.QuantileDMatrix(X, y)
    dvalid = xgboost.QuantileDMatrix(valid_X, valid_y, ref=dtrain)
    dtest = xgboost.DMatrix(test_X)

    def train(*callbacks: xgboost.callback.TrainingCallback, **options: Any) -> xgboost.Booster:
        booster = xgboost.train(
            {**PARAMS, **options.pop("params", {})},
            dtrain,
            num_boost_round=200,
            evals=[(dvalid, "valid")],
            callbacks=[*callbacks, EarlyStopping(rounds=20, save_best=True)],
            verbose_eval=False,
            **options,
        )
        assert type(booster) is xgboost.Booster
        return booster

    margins = {"plain script": train().predict(dtest, output_margin=True)}

    split = TaskSplit(task, split_score="entropy")
    margins["+ TaskSplit"] = train(split).predict(dtest, output_margin=True)

    quitting = TaskQuitting(dvalid, valid_task, metric="auc")
    booster = train(split, quitting)
    rounds = {
        name: min(n_rounds, booster.num_boosted_rounds())
        for name, n_rounds in quitting.quit_round.items()
    }
    margins["+ TaskSplit, TaskQuitting"] = residual_margin(booster, dtest, rounds, test_task)

    objective = TaskObjective("binary:logistic", task, task_weight="balanced")
    start = {"base_score": float(y.mean())}
    booster = train(obj=objective, params=start)
    margins["+ TaskObjective"] = booster.predict(dtest, output_margin=True)

    print(f"{'AUC of test rows':28}" + "".join(f"{name:>10}" for name in scenes.y))
    found = {}
    for method, margin in margins.items():
        by_task = [roc_auc_score(test_y[own], margin[own]) for own in masks(test_task, scenes)]
        found[method] = by_task
        print(f"{method:28}" + "".join(f"{auc:10.4f}" for auc in by_task))
    print(f"\nrounds of the common model that each task uses: {rounds}")
    draw(found, list(scenes.y))


def draw(found: dict[str, list[float]], tasks: list[str]) -> None:
    """A line per method from the small task to the large one."""
    figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
    for place, (method, aucs) in enumerate(reversed(found.items())):
        ax.plot(aucs, [method] * len(aucs), color="lightgray", zorder=0)
        for form, auc, task in zip(("C0o", "C1s"), aucs, tasks, strict=True):
            ax.plot(auc, method, form, label=None if place else task)
    ax.set_xlabel("AUC of test rows")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig("xgboost_callbacks.png", dpi=120)


def rows_of(
    scenes: FraudScenes,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.str_]]:
    """The rows of all tasks in one table, their labels and tasks."""
    sizes = [len(y) for y in scenes.y.values()]
    return (
        np.concatenate(list(scenes.X.values())),
        np.concatenate(list(scenes.y.values())),
        np.repeat(list(scenes.y), sizes),
    )


def masks(task: npt.NDArray[np.str_], scenes: FraudScenes) -> list[npt.NDArray[np.bool_]]:
    return [task == name for name in scenes.y]


if __name__ == "__main__":
    main()
