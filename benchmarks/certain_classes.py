# SPDX-License-Identifier: Apache-2.0
"""How good are probabilities of classes that are nearly certain?

Generated tasks with two classes, and 1000 new rows of each task, in two kinds:

- ``rule``: a class is decided without noise, by a sum of steps of four columns of which one has
  another threshold in each task,
- ``steep``: its log-odds are eight times a smooth function of three columns and of the task.

There are 6 tasks of 200 rows. `fit` is compared without shrinkage of its predictions
towards a constant ("fit, not shrunk"), and with the defaults of other libraries, with the task as a
category and for each task. Scores: area under the ROC curve, log loss and calibration error, means
over tasks.

    python benchmarks/certain_classes.py --out results.jsonl [--seeds 5]
    python benchmarks/certain_classes.py --out results.jsonl --table

results/certain_classes.jsonl contains the results so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import task_comparison
from scipy.special import expit
from task_data.scores import scores
from task_data.task_set import TaskSet
from task_methods import DEFAULTS, Budget, Fitted, Method, Rows

import mtboost

KINDS = ("rule", "steep")
N_TASKS, N_ROWS, N_TEST, STEEPNESS = 6, 200, 1000, 8.0


def generated(kind: str, seed: int, part: float = 1.0) -> TaskSet:
    rng = np.random.default_rng(seed)
    threshold, slope = 0.5 * rng.normal(size=N_TASKS), 1.0 + 0.3 * rng.normal(size=N_TASKS)

    def draw(n_rows: int) -> Rows:
        task = np.repeat(np.arange(N_TASKS), n_rows)
        X = rng.normal(size=(len(task), 6)).astype(np.float32)
        if kind == "rule":
            steps = (X[:, :3] > 0).sum(axis=1) + (X[:, 3] > threshold[task])
            y = steps >= 2
        else:
            signal = np.tanh(X[:, 0]) + slope[task] * X[:, 1] + 0.5 * X[:, 0] * X[:, 2]
            y = rng.random(len(task)) < expit(STEEPNESS * (signal - threshold[task]))
        return Rows(X, y.astype(np.float64), task, N_TASKS, is_binary=True)

    train, test = draw(N_ROWS), draw(N_TEST)
    return TaskSet(train.sample(part, seed), lambda predict: scores(test, predict(test)))


def with_fit(**options: Any) -> Method:
    def method(train: Rows, seed: int, budget: Budget) -> Fitted:
        fixed = {"seed": seed, "n_threads": budget.threads, **options}
        model = mtboost.fit(train.X, train.y, task=train.task, **fixed)
        return Fitted(lambda rows: np.asarray(model.predict(rows.X, task=rows.task)), {})

    return method


METHODS: dict[str, Method] = {
    "fit": with_fit(),
    "fit, not shrunk": with_fit(shrink_to_constant=False),
    **{name: DEFAULTS[name] for name in ("LightGBM, one each", "LightGBM", "XGBoost", "CatBoost")},
}


def main(arguments: Sequence[str] | None = None) -> None:
    task_comparison.main(
        arguments,
        __doc__,
        {name: partial(generated, name) for name in KINDS},
        METHODS,
        references=["fit"],
        peers=list(METHODS)[2:],
        seeds=5,
    )


if __name__ == "__main__":
    main()
