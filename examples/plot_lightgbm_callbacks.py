# SPDX-License-Identifier: Apache-2.0
"""
From lightgbm.train to multi-task in two lines
==============================================

The script on top is ordinary: data sets, parameters, early stopping. Below it the same call is made
again with a line for the split score and a line for tasks that quit; then with LightGBM's own trees
and weights for the tasks. What comes back is an ordinary Booster each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from mtboost.datasets import FraudScenes, make_fraud_scenes
from mtboost.lightgbm import TaskObjective, TaskQuitting, TaskSplit, residual_margin

PARAMS = {"objective": "binary", "num_leaves": 15, "learning_rate": 0.1, "metric": "auc"}


def main() -> None:
    scenes = make_fraud_scenes("scene2", scale=0.15, seed=0)
    parts = scenes.split(train=0.15, valid=0.1)
    (X, y, task), (valid_X, valid_y, valid_task), (test_X, test_y, test_task) = map(rows_of, parts)
    quiet = {"verbosity": -1}
    train_set = lightgbm.Dataset(X, y, params=quiet)
    valid_set = lightgbm.Dataset(valid_X, valid_y, reference=train_set, params=quiet)

    def train(*callbacks: Callable[[Any], None], **params: Any) -> lightgbm.Booster:
        booster = lightgbm.train(
            {**PARAMS, **quiet, **params},
            train_set,
            num_boost_round=200,
            valid_sets=[valid_set],
            callbacks=[*callbacks, lightgbm.early_stopping(20, verbose=False)],
        )
        assert type(booster) is lightgbm.Booster
        return booster

    margins = {"plain script": train().predict(test_X, raw_score=True)}

    split = TaskSplit(task, split_score="entropy")
    margins["+ TaskSplit"] = train(split).predict(test_X, raw_score=True)

    quitting = TaskQuitting(valid_set, valid_task, metric="auc")
    booster = train(split, quitting)
    rounds = {
        name: min(n_rounds, booster.current_iteration())
        for name, n_rounds in quitting.quit_round.items()
    }
    margins["+ TaskSplit, TaskQuitting"] = residual_margin(booster, test_X, rounds, test_task)

    objective = TaskObjective("binary", task, task_weight="balanced")
    booster = train(objective=objective)
    margins["+ TaskObjective"] = booster.predict(test_X)  # of a function these are margins

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
    figure.savefig("lightgbm_callbacks.png", dpi=120)


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
