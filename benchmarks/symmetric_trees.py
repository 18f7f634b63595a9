# SPDX-License-Identifier: Apache-2.0
"""What do symmetric trees bring, and noise in the choice of their splits? Held-out scores.

Data and scores are those of never_worse.py. The common model alone (no specific ones) is trained by
XGBoost's loop with half of the rows for each tree; its depth (2, 4 or 6) and rounds are found on a
fifth of the training rows at a learning rate of .1, then it is trained on all at .04. Leaves are
pooled, or partially (κ half of a task's mean hessian), or nodes may split tasks, without a price
or by descriptors.
CatBoost, whose trees are symmetric with such noise, has the task as a category.

    python benchmarks/symmetric_trees.py --out results.jsonl [--data FOLDER] [--seeds 2] [NAME ...]
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import task_comparison
import task_methods
from task_data import FAMILIES, make_family
from task_methods import Budget, Fitted, Method, Rows
from task_methods.multi_task import in_tables, names_of, predict_mtboost

import mtboost

LEAVES: dict[str, dict[str, Any]] = {
    "pooled": {},
    "partially pooled": {"pooling": 0.5},
    "task splits": {"task_splits": 0.0},
    "descriptors": {"task_splits": "descriptors"},
}
TREES: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "symmetric": {"symmetric_trees": True},
    "noise 1": {"symmetric_trees": True, "random_strength": 1.0},
    "noise 2": {"symmetric_trees": True, "random_strength": 2.0},
}


def mean_hessian(rows: Rows) -> float:
    """Of a task: rows, or of classes p (1 - p) for each."""
    per_row = float(rows.y.mean() * (1 - rows.y.mean())) if rows.is_binary else 1.0
    return per_row * len(rows.y) / rows.n_tasks


def best_of_depths(options: dict[str, Any], train: Rows, seed: int, budget: Budget) -> Fitted:
    """The common model of the depth with the best validation loss."""
    inner, valid = train.inner(seed)
    options = {
        "objective": "binary:logistic" if train.is_binary else "reg:squarederror",
        "feature_names": names_of(train),
        "common_features": None if train.columns is None else "all",
        "split_score": "plain",
        "early_stopping_rounds": None,
        "specific_rounds": 0,
        "n_threads": budget.threads,
        "seed": seed,
        **options,
    }
    if "pooling" in options:
        options["pooling"] *= mean_hessian(inner)
    X, y, task = in_tables(valid)
    found = []
    for depth in budget.depths:
        params = {"max_depth": depth, "learning_rate": budget.learning_rate, "subsample": 0.5}
        model = fit(
            inner, budget.rounds, params, eval_set=(X, y, task)[: 3 - (task is None)], **options
        )
        power = 1 if train.is_binary else 2  # the history of squared error is its root
        n_rows = np.bincount(valid.task, minlength=train.n_tasks)
        losses = sum(
            n_rows[name] * history["common"] ** power
            for name, history in model.history.items()
            if n_rows[name]
        )
        found.append((losses.min(), int(losses.argmin()), params))
    _, rounds, params = min(found, key=lambda each: each[0])
    params = {**params, "learning_rate": 0.4 * budget.learning_rate}
    model = fit(train, 1 + int(2.5 * rounds), params, validation_fraction=0.0, **options)
    return Fitted(partial(predict_mtboost, model), params)


def fit(rows: Rows, rounds: int, params: dict[str, Any], **options: Any) -> mtboost.MultiTaskModel:
    X, y, task = in_tables(rows)
    return mtboost.fit(
        X, y, task=task, params=params, num_boost_round=rounds, **options, strategy="two-stage"
    )


METHODS: dict[str, Method] = {
    f"{leaves}, {trees}": partial(best_of_depths, options | own)
    for (leaves, options), (trees, own) in product(LEAVES.items(), TREES.items())
}
METHODS["CatBoost"] = task_methods.METHODS["CatBoost category"]


def main() -> None:
    task_comparison.main(
        None,
        __doc__,
        {name: partial(make_family, name) for name in FAMILIES},
        METHODS,
        references=["pooled, symmetric"],
        peers=["CatBoost"],
        seeds=2,
    )


if __name__ == "__main__":
    main()
