# SPDX-License-Identifier: Apache-2.0
"""XGBoost, LightGBM and CatBoost on one table of all tasks, and XGBoost task by task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import xgboost

from task_methods.rows import (
    Budget,
    Fitted,
    Floats,
    Method,
    Rows,
    Setting,
    SkippedError,
    Table,
    category,
)

# ---- XGBoost -------------------------------------------------------------------------------------


def xgboost_params(rows: Rows, setting: Setting, seed: int, budget: Budget) -> dict[str, Any]:
    return {
        "objective": "binary:logistic" if rows.is_binary else "reg:squarederror",
        "eval_metric": "logloss" if rows.is_binary else "rmse",
        "learning_rate": budget.learning_rate,
        "max_depth": setting.depth,
        "subsample": setting.subsample,
        "nthread": budget.threads,
        "seed": seed,
    }


def pooled_xgboost(encode: Callable[[Rows], tuple[Table, list[str]]]) -> Method:
    """One XGBoost model of all tasks on the table that `encode` makes."""

    def matrix(rows: Rows, budget: Budget) -> xgboost.DMatrix:
        table, types = encode(rows)
        return xgboost.DMatrix(
            table, rows.y, feature_types=types, enable_categorical=True, nthread=budget.threads
        )

    def method(train: Rows, seed: int, budget: Budget) -> Fitted:
        inner, valid = (matrix(rows, budget) for rows in train.inner(seed))

        def stop_early(setting: Setting, budget: Budget) -> tuple[float, int]:
            booster = xgboost.train(
                xgboost_params(train, setting, seed, budget),
                inner,
                budget.rounds,
                evals=[(valid, "valid")],
                early_stopping_rounds=budget.early_stopping_rounds,
                verbose_eval=False,
            )
            return booster.best_score, booster.best_iteration + 1

        setting = min(budget.settings(), key=lambda setting: stop_early(setting, budget))
        finer = budget.finer()
        _, rounds = stop_early(setting, finer)
        params = xgboost_params(train, setting, seed, finer)
        final = xgboost.train(params, matrix(train, budget), rounds)
        return Fitted(
            lambda rows: np.asarray(final.predict(matrix(rows, budget)), np.float64),
            {**setting._asdict(), "rounds": rounds},
        )

    return method


def independent(train: Rows, seed: int, budget: Budget) -> Fitted:
    """A model for each task; settings and rounds, the same for all, by the loss of all their rows.

    A task's own few held-out rows would choose by chance. The models grow side by side,
    `early_stopping_rounds` rounds at a time, until a whole step of all of them brought nothing.
    """
    budget = replace(budget, threads=1)  # a second thread has nothing to do on so few rows
    inner, valid = train.inner(seed)
    tasks = range(train.n_tasks)

    def matrix(rows: Rows, task: int) -> xgboost.DMatrix:
        own = rows.of_task(task)
        return xgboost.DMatrix(own.X, own.y, nthread=1)

    pairs = [(matrix(inner, task), matrix(valid, task)) for task in tasks]

    def stop_early(setting: Setting, budget: Budget) -> tuple[float, int]:
        params = xgboost_params(train, setting, seed, budget)
        boosters: list[xgboost.Booster | None] = [None] * train.n_tasks
        curve = np.empty(0)
        while len(curve) < budget.rounds and len(curve) - budget.early_stopping_rounds <= _best(
            curve
        ):
            step = np.zeros(budget.early_stopping_rounds)
            for task, (fit, held_out) in enumerate(pairs):
                watched: dict[str, dict[str, list[float]]] = {}
                boosters[task] = xgboost.train(
                    params,
                    fit,
                    budget.early_stopping_rounds,
                    evals=[(held_out, "valid")] if held_out.num_row() else (),
                    evals_result=watched,
                    xgb_model=boosters[task],
                    verbose_eval=False,
                )
                if held_out.num_row():
                    values = np.array(watched["valid"][params["eval_metric"]])
                    step += held_out.num_row() * (values if train.is_binary else values**2)
            curve = np.append(curve, step)
        return curve.min(), _best(curve) + 1

    setting = min(budget.settings(), key=lambda setting: stop_early(setting, budget))
    finer = budget.finer()
    _, rounds = stop_early(setting, finer)
    params = xgboost_params(train, setting, seed, finer)
    final = [xgboost.train(params, matrix(train, task), rounds) for task in tasks]

    def predict(rows: Rows) -> Floats:
        prediction = np.empty(len(rows.y))
        for task, model in enumerate(final):
            own = rows.of_task(task)
            prediction[rows.task == task] = model.predict(xgboost.DMatrix(own.X, nthread=1))
        return prediction

    return Fitted(predict, {**setting._asdict(), "rounds": rounds})


def _best(curve: Floats) -> int:
    """Position of the least value; 0 of an empty curve."""
    return int(np.argmin(curve)) if len(curve) else 0


# ---- LightGBM and CatBoost -----------------------------------------------------------------------


def lightgbm_category(train: Rows, seed: int, budget: Budget) -> Fitted:
    """One LightGBM model of all tasks with the task as a categorical column."""

    def params(setting: Setting, budget: Budget) -> dict[str, Any]:
        return {
            "objective": "binary" if train.is_binary else "regression",
            "learning_rate": budget.learning_rate,
            "max_depth": setting.depth,
            "num_leaves": 2**setting.depth,
            "bagging_fraction": setting.subsample,
            "bagging_freq": 1,
            "num_threads": budget.threads,
            "seed": seed,
            "verbosity": -1,
        }

    def dataset(rows: Rows) -> lightgbm.Dataset:
        return lightgbm.Dataset(
            category(rows)[0],
            rows.y,
            categorical_feature=[rows.X.shape[1]],
            params={"verbosity": -1},
            free_raw_data=False,
        )

    inner, valid = train.inner(seed)

    def stop_early(setting: Setting, budget: Budget) -> tuple[float, int]:
        fit = dataset(inner)  # its bins keep some parameters: a new one each time
        booster = lightgbm.train(
            params(setting, budget),
            fit,
            budget.rounds,
            valid_sets=[fit.create_valid(category(valid)[0], valid.y)],
            callbacks=[lightgbm.early_stopping(budget.early_stopping_rounds, verbose=False)],
        )
        (score,) = booster.best_score["valid_0"].values()
        return score, booster.best_iteration

    setting = min(budget.settings(), key=lambda setting: stop_early(setting, budget))
    finer = budget.finer()
    _, rounds = stop_early(setting, finer)
    final = lightgbm.train(params(setting, finer), dataset(train), rounds)
    return Fitted(
        lambda rows: np.asarray(final.predict(category(rows)[0])),
        {**setting._asdict(), "rounds": rounds},
    )


def catboost_category(train: Rows, seed: int, budget: Budget) -> Fitted:
    """One CatBoost model of all tasks with the task as a categorical column.

    It weighs rows at random by itself: only the depth is chosen.
    """
    try:
        import catboost
        import pandas as pd
    except ImportError as error:
        raise SkippedError(f"CatBoost: {error}") from None

    def pool(rows: Rows) -> catboost.Pool:
        table = pd.DataFrame(rows.X).assign(task=rows.task)
        return catboost.Pool(table, rows.y, cat_features=["task"], thread_count=budget.threads)

    def model(depth: int, budget: Budget, rounds: int) -> Any:
        make = catboost.CatBoostClassifier if train.is_binary else catboost.CatBoostRegressor
        return make(
            depth=depth,
            iterations=rounds,
            learning_rate=budget.learning_rate,
            thread_count=budget.threads,
            random_seed=seed,
            verbose=False,
            allow_writing_files=False,
        )

    inner, valid = map(pool, train.inner(seed))

    def stop_early(depth: int, budget: Budget) -> tuple[float, int]:
        fitted = model(depth, budget, budget.rounds)
        fitted.fit(inner, eval_set=valid, early_stopping_rounds=budget.early_stopping_rounds)
        score = min(next(iter(fitted.get_evals_result()["validation"].values())))
        return score, fitted.tree_count_

    depth = min(budget.depths, key=lambda depth: stop_early(depth, budget))
    finer = budget.finer()
    _, rounds = stop_early(depth, finer)
    final = model(depth, finer, max(1, rounds))
    final.fit(pool(train))

    def predict(rows: Rows) -> Floats:
        if train.is_binary:
            return np.asarray(final.predict_proba(pool(rows))[:, 1])
        return np.asarray(final.predict(pool(rows)))

    return Fitted(predict, {"depth": depth, "rounds": rounds})
