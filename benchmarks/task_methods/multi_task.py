"""mtboost: extra trees with task splits, and what `mtboost.fit` can do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import mtboost
from task_methods.rows import Budget, Fitted, Floats, Method, Rows, losses, no_task, one_hot
from task_methods.stock import xgboost_params

FOREST_LEAVES = (2, 5, 10, 20)
TASK_SPLIT_PROBS = (0.0, 0.25, 0.5, 1.0)
# Specific models of tasks with a few dozen rows: little more than a shrunken offset at first. Large
# steps, for SPECIFIC_ROUNDS of 0.05 are too few where tasks do differ.
STUMPS = {"max_depth": 1, "reg_lambda": 50, "min_child_weight": 1, "learning_rate": 0.15}
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
        **options,
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


def two_stages_quitting(train: Rows, seed: int, budget: Budget) -> Fitted:
    """`mtboost.fit` by default: each task quits, and ends, by rows of its own held out by fit()."""

    def fit(rows: Rows, depth: int) -> mtboost.MultiTaskModel:
        params = {"learning_rate": budget.learning_rate, "max_depth": depth}
        rounds = {"num_boost_round": budget.rounds, "specific_rounds": budget.rounds}
        return fit_mtboost(rows, seed, budget, params=params, **rounds, refit=True)

    inner, valid = train.inner(seed)
    found = [
        (losses(valid, predict_mtboost(fit(inner, depth), valid)).mean(), depth)
        for depth in budget.depths
    ]
    _, depth = min(found)
    model = fit(train, depth)
    return Fitted(lambda rows: predict_mtboost(model, rows), {"depth": depth})


def two_stages_rounds(score: str) -> Method:
    """`mtboost.fit(patience=None)`: numbers of rounds for all tasks, by the loss of all rows.

    Depth and rounds of the common model first, then the specific models: with the same parameters,
    or stumps, or none.
    """

    def method(train: Rows, seed: int, budget: Budget) -> Fitted:
        inner, valid = train.inner(seed)
        X, y, task = in_tables(valid)
        eval_set = (X, y) if task is None else (X, y, task)
        n_rows = np.bincount(valid.task, minlength=train.n_tasks)

        def fit(rows: Rows, depth: int, **options: Any) -> mtboost.MultiTaskModel:
            params = {"learning_rate": budget.learning_rate, "max_depth": depth}
            options = {"params": params, "patience": None, "split_score": score, **options}
            return fit_mtboost(rows, seed, budget, **options)

        found = []
        for depth in budget.depths:
            common = mtboost.train(
                {**xgboost_params(train, depth, seed, budget), "split_score": score},
                as_dataset(inner),
                budget.rounds,
                evals=[(as_dataset(valid), "valid")],
                early_stopping_rounds=budget.patience,
                verbose_eval=False,
            )
            found.append((common.best_score, depth, common.best_iteration + 1))
        _, depth, rounds = min(found)
        candidates = []
        for name, specific_params in (("same", {}), ("stumps", STUMPS)):
            model = fit(
                inner,
                depth,
                num_boost_round=rounds,
                specific_params=specific_params,
                specific_rounds=SPECIFIC_ROUNDS,
                eval_set=eval_set,
            )
            power = 1 if train.is_binary else 2  # the history of squared error is its root
            of_rounds = sum(
                n_rows[name] * history["specific"] ** power
                for name, history in model.history.items()
                if n_rows[name]
            )
            candidates.append((of_rounds.min(), name, int(of_rounds.argmin()), specific_params))
        _, name, specific_rounds, specific_params = min(candidates, key=lambda entry: entry[0])
        final = fit(
            train,
            depth,
            num_boost_round=rounds,
            specific_params=specific_params,
            specific_rounds=specific_rounds,
            validation_fraction=0.0,
        )
        chosen = {"depth": depth, "rounds": rounds, "specific": name, "own": specific_rounds}
        return Fitted(lambda rows: predict_mtboost(final, rows), chosen)

    return method


def auto(train: Rows, seed: int, budget: Budget) -> Fitted:
    """`mtboost.fit(strategy="auto")`, which chooses for itself."""
    model = fit_mtboost(
        train,
        seed,
        budget,
        strategy="auto",
        params={"learning_rate": budget.learning_rate},
        num_boost_round=budget.rounds,
        specific_rounds=SPECIFIC_ROUNDS,
        patience=budget.patience,
    )
    ways = [report.sharing for report in model.reports.values()]
    chosen = {way: ways.count(way) for way in sorted(set(ways))}
    return Fitted(lambda rows: predict_mtboost(model, rows), chosen)
