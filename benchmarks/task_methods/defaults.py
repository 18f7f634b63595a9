# SPDX-License-Identifier: Apache-2.0
"""What a library does if nobody sets anything: one line each. Only threads and seeds are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import threadpoolctl
import xgboost
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import mtboost
from task_methods.rows import Budget, Fitted, Floats, Method, Rows, SkippedError

MAX_CATEGORIES = 255  # of scikit-learn


def task_frame(rows: Rows) -> pd.DataFrame:
    """A column for each feature, and the task as a category."""
    frame = pd.DataFrame(rows.X, columns=[f"x{column}" for column in range(rows.X.shape[1])])
    return frame.assign(task=pd.Categorical(rows.task, categories=range(rows.n_tasks)))


def predicted(model: Any, rows: Rows, X: Any, **options: Any) -> Floats:
    """The probability of class 1, or the predicted number."""
    if rows.is_binary:
        return np.asarray(model.predict_proba(X, **options)[:, 1], np.float64)
    return np.asarray(model.predict(X, **options), np.float64)


def pooled_default(make: Callable[[Rows, int, Budget], Any]) -> Method:
    """One model of all tasks, with the task as a categorical column."""

    def method(train: Rows, seed: int, budget: Budget) -> Fitted:
        model = make(train, seed, budget)
        with threadpoolctl.threadpool_limits(budget.threads):  # scikit-learn has no parameter
            model.fit(task_frame(train), train.y)
        return Fitted(lambda rows: predicted(model, rows, task_frame(rows)), {})

    return method


def _xgboost(rows: Rows, seed: int, budget: Budget) -> Any:
    make = xgboost.XGBClassifier if rows.is_binary else xgboost.XGBRegressor
    return make(enable_categorical=True, n_jobs=budget.threads, random_state=seed)


def _lightgbm(rows: Rows, seed: int, budget: Budget) -> Any:
    make = lightgbm.LGBMClassifier if rows.is_binary else lightgbm.LGBMRegressor
    return make(n_jobs=budget.threads, random_state=seed, verbosity=-1)


def _catboost(rows: Rows, seed: int, budget: Budget) -> Any:
    try:
        import catboost
    except ImportError as error:
        raise SkippedError(f"CatBoost: {error}") from None
    make = catboost.CatBoostClassifier if rows.is_binary else catboost.CatBoostRegressor
    return make(
        cat_features=["task"],
        thread_count=budget.threads,
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
    )


def _hist_gradient_boosting(rows: Rows, seed: int, budget: Budget) -> Any:
    if rows.n_tasks > MAX_CATEGORIES:
        raise SkippedError(
            f"scikit-learn: {rows.n_tasks} tasks, but at most {MAX_CATEGORIES} categories"
        )
    make = HistGradientBoostingClassifier if rows.is_binary else HistGradientBoostingRegressor
    return make(random_state=seed)


xgboost_default = pooled_default(_xgboost)
lightgbm_default = pooled_default(_lightgbm)
catboost_default = pooled_default(_catboost)
hist_gradient_boosting_default = pooled_default(_hist_gradient_boosting)


def independent_default(train: Rows, seed: int, budget: Budget) -> Fitted:
    """A LightGBM model for each task; the rate of a task with one class only."""
    models: dict[int, Any] = {}
    for task in range(train.n_tasks):
        own = train.of_task(task)
        if train.is_binary and len(np.unique(own.y)) == 1:
            continue
        frame = task_frame(own).drop(columns="task")
        models[task] = _lightgbm(train, seed, budget).fit(frame, own.y)

    def predict(rows: Rows) -> Floats:
        prediction = np.empty(len(rows.y))
        for task in np.unique(rows.task):
            own = rows.of_task(task)
            prediction[rows.task == task] = (
                predicted(models[task], own, task_frame(own).drop(columns="task"))
                if task in models
                else train.y[train.task == task][0]
            )
        return prediction

    return Fitted(predict, {})


def mtboost_default(**options: Any) -> Method:
    """The estimator of mtboost, as it is or with a strategy."""

    def method(train: Rows, seed: int, budget: Budget) -> Fitted:
        make = mtboost.MultiTaskClassifier if train.is_binary else mtboost.MultiTaskRegressor
        model = make(n_jobs=budget.threads, random_state=seed, **options)
        model.fit(train.X, train.y, task=train.task)
        return Fitted(lambda rows: predicted(model, rows, rows.X, task=rows.task), {})

    return method
