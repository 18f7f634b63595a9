# SPDX-License-Identifier: Apache-2.0
"""mtboost: extra trees with task splits, and what `mtboost.fit` can do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import mtboost
from task_methods.rows import (
    Budget,
    Fitted,
    Floats,
    Method,
    Rows,
    Setting,
    losses,
    no_task,
    one_hot,
)
from task_methods.stock import xgboost_params

FOREST_LEAVES = (2, 5, 10, 20)
TASK_SPLIT_PROBS = (0.0, 0.25, 0.5, 1.0)
# Of a few dozen rows stumps are little more than a shrunken offset at first.
SPECIFIC_PARAMS = {
    "same": {"learning_rate": 0.05},
    "stumps": {"max_depth": 1, "reg_lambda": 50, "min_child_weight": 1, "learning_rate": 0.15},
}
SPECIFIC_ROUNDS = 200


# ---- forests -------------------------------------------------------------------------------------


def extra_trees(has_task_columns: bool = False) -> Method:
    """Extra trees with task splits, or with a column for each task."""
    probabilities = (0.0,) if has_task_columns else TASK_SPLIT_PROBS

    def method(train: Rows, seed: int, budget: Budget) -> Fitted:
        make = mtboost.MTExtraTreesClassifier if train.is_binary else mtboost.MTExtraTreesRegressor
        encode = one_hot if has_task_columns else no_task

        def fit(
            rows: Rows, probability: float, leaf: int, n_trees: int
        ) -> Callable[[Rows], Floats]:
            model = make(
                n_trees,
                task_split_prob=probability,
                min_samples_leaf=leaf,
                n_jobs=budget.threads,
                random_state=seed,
            )
            model.fit(encode(rows)[0], rows.y, task=rows.task)

            def predict(new: Rows) -> Floats:
                if isinstance(model, mtboost.MTExtraTreesClassifier):
                    return model.predict_proba(encode(new)[0], task=new.task)[:, 1]
                return model.predict(encode(new)[0], task=new.task)

            return predict

        inner, valid = train.inner(seed)
        found = [
            (
                losses(valid, fit(inner, probability, leaf, budget.trees // 2)(valid)).mean(),
                probability,
                leaf,
            )
            for probability, leaf in itertools.product(probabilities, FOREST_LEAVES)
        ]
        _, probability, leaf = min(found)
        final = fit(train, probability, leaf, budget.trees)
        return Fitted(final, {"task_split_prob": probability, "leaf": leaf})

    return method


# ---- mtboost.fit ---------------------------------------------------------------------------------


def in_tables(rows: Rows) -> tuple[Any, Any, Any]:
    """X, y and task as mtboost takes them: a table per task where their columns differ."""
    if rows.columns is None:
        return rows.X, rows.y, rows.task
    tables = {task: rows.of_task(task).X[:, columns] for task, columns in enumerate(rows.columns)}
    return tables, {task: rows.of_task(task).y for task in tables}, None


def names_of(rows: Rows) -> dict[int, list[str]] | None:
    """Names of the columns of each task, where they differ."""
    if rows.columns is None:
        return None
    return {task: [f"x{column}" for column in own] for task, own in enumerate(rows.columns)}


def as_dataset(rows: Rows) -> mtboost.Dataset:
    X, y, task = in_tables(rows)
    return mtboost.Dataset(X, y, task=task, feature_names=names_of(rows))


def fit_mtboost(rows: Rows, seed: int, budget: Budget, **options: Any) -> mtboost.MultiTaskModel:
    X, y, task = in_tables(rows)
    return mtboost.fit(
        X,
        y,
        task=task,
        feature_names=names_of(rows),
        objective="binary:logistic" if rows.is_binary else "reg:squarederror",
        n_threads=budget.threads,
        seed=seed,
        **{"strategy": "two-stage", **options},
    )


def predict_mtboost(model: mtboost.MultiTaskModel, rows: Rows) -> Floats:
    X, _, task = in_tables(rows)
    found = model.predict(X, task=task)
    if rows.columns is None:
        return np.asarray(found, np.float64)
    prediction = np.empty(len(rows.y))
    for name, own in found.items():
        prediction[rows.task == name] = own
    return prediction


def best_common(train: Rows, seed: int, budget: Budget) -> tuple[dict[str, Any], int]:
    """Parameters and rounds of the common model alone: splits as well, plain or by entropy."""
    inner, valid = map(as_dataset, train.inner(seed))

    def stop_early(setting: Setting, score: str, budget: Budget) -> tuple[float, int]:
        common = mtboost.train(
            {**xgboost_params(train, setting, seed, budget), "split_score": score},
            inner,
            budget.rounds,
            evals=[(valid, "valid")],
            early_stopping_rounds=budget.early_stopping_rounds,
            verbose_eval=False,
        )
        return common.best_score, common.best_iteration + 1

    settings = itertools.product(budget.settings(), ("plain", "entropy"))
    setting, score = min(settings, key=lambda each: stop_early(*each, budget))
    finer = budget.finer()
    _, rounds = stop_early(setting, score, finer)
    return {
        "params": {
            "learning_rate": finer.learning_rate,
            "max_depth": setting.depth,
            "subsample": setting.subsample,
        },
        "split_score": score,
    }, rounds


def two_stages_quitting(train: Rows, seed: int, budget: Budget) -> Fitted:
    """`mtboost.fit` by default: each task quits, and ends, by its rows held out by fit()."""
    options, _ = best_common(train, seed, budget)
    finer = budget.finer()
    model = fit_mtboost(
        train,
        seed,
        budget,
        num_boost_round=finer.rounds,
        specific_rounds=finer.rounds,
        refit=True,
        **options,
    )
    return Fitted(lambda rows: predict_mtboost(model, rows), options)


def two_stages_rounds(train: Rows, seed: int, budget: Budget) -> Fitted:
    """`early_stopping_rounds=None`: numbers of rounds for all tasks, by the loss of all rows.

    The common model first, then the specific ones: with the same trees, or stumps, or none.
    """
    inner, valid = train.inner(seed)
    X, y, task = in_tables(valid)
    eval_set = (X, y) if task is None else (X, y, task)
    n_rows = np.bincount(valid.task, minlength=train.n_tasks)
    options, rounds = best_common(train, seed, budget)
    options |= {"num_boost_round": rounds, "early_stopping_rounds": None}
    found = []
    for name, specific_params in SPECIFIC_PARAMS.items():
        model = fit_mtboost(
            inner,
            seed,
            budget,
            specific_params=specific_params,
            specific_rounds=SPECIFIC_ROUNDS,
            eval_set=eval_set,
            **options,
        )
        power = 1 if train.is_binary else 2  # the history of squared error is its root
        of_rounds = sum(
            n_rows[name] * history["specific"] ** power
            for name, history in model.history.items()
            if n_rows[name]
        )
        found.append((of_rounds.min(), int(of_rounds.argmin()), name))
    _, specific_rounds, name = min(found)
    final = fit_mtboost(
        train,
        seed,
        budget,
        specific_params=SPECIFIC_PARAMS[name],
        specific_rounds=specific_rounds,
        validation_fraction=0.0,
        **options,
    )
    chosen = {**options, "specific": name, "own": specific_rounds}
    return Fitted(lambda rows: predict_mtboost(final, rows), chosen)


def auto(**options: Any) -> Method:
    """`mtboost.fit(strategy="auto")`, which chooses for itself."""
    return partial(_auto, **options)


def auto_eval_set(train: Rows, seed: int, budget: Budget) -> Fitted:
    """The same with the held-out rows that all methods choose by; it is not trained on them."""
    inner, valid = train.inner(seed)
    X, y, task = in_tables(valid)
    return _auto(inner, seed, budget, eval_set=(X, y) if task is None else (X, y, task))


def _auto(train: Rows, seed: int, budget: Budget, **options: Any) -> Fitted:
    finer = budget.finer()
    model = fit_mtboost(
        train,
        seed,
        budget,
        strategy="auto",
        **options,
        num_boost_round=finer.rounds,
        specific_rounds=SPECIFIC_ROUNDS,
        early_stopping_rounds=budget.early_stopping_rounds,
    )
    ways = [report.sharing for report in model.reports.values()]
    chosen = {way: ways.count(way) for way in sorted(set(ways))}
    return Fitted(lambda rows: predict_mtboost(model, rows), chosen)
