# SPDX-License-Identifier: Apache-2.0
"""Generated rows: families of tasks whose relation is known, and weeks of fraud and of retail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import expit
from sklearn.metrics import r2_score
from task_methods.rows import Floats, Rows

from mtboost.datasets import TaskFamily, make_fraud_scenes, make_task_family
from task_data.scores import Scores, binary_scores, by_task, rmse
from task_data.task_set import TaskSet, subsample

KINDS = ("same", "related", "clustered", "unrelated", "opposite", "outlier", "columns")
FAMILIES = [f"{kind} {sizes}" for sizes in ("balanced", "zipf") for kind in KINDS]
FAMILIES += ["related zipf binary", "unrelated zipf binary"]


# ---- families ------------------------------------------------------------------------------------


def make_family(name: str, seed: int, part: float = 1.0) -> TaskSet:
    """A family of 20 tasks and a part of 4000 rows, and 1000 new rows of each task.

    Numeric predictions are compared with the true signal.
    """
    kind, sizes, *binary = name.split()
    family = make_task_family(kind, sizes=sizes, classification=bool(binary), seed=seed)
    fresh = family.draw(1000, seed=seed)
    test, truth = _rows_of(fresh), np.concatenate(list(fresh.expected_y.values()))

    def judge(predict: Callable[[Rows], Floats]) -> Scores:
        prediction = predict(test)
        if test.is_binary:
            return binary_scores(test, prediction)
        return {
            "explained": by_task(test, truth, prediction, r2_score),
            "rmse": by_task(test, truth, prediction, rmse),
        }

    return TaskSet(subsample(_rows_of(family), part, seed), judge)


def _rows_of(family: TaskFamily) -> Rows:
    X, y, task = family.in_one_table()
    codes = {name: code for code, name in enumerate(family.X)}
    rows = Rows(
        X,
        y.astype(np.float64),
        np.array([codes[name] for name in task]),
        len(codes),
        family.is_classification,
    )
    names = list(dict.fromkeys(name for own in family.feature_names.values() for name in own))
    columns = tuple(
        tuple(names.index(name) for name in own) for own in family.feature_names.values()
    )
    return rows if len(set(columns)) == 1 else replace(rows, columns=columns)


# ---- fraud scenes --------------------------------------------------------------------------------


def make_fraud_scene(seed: int) -> Rows:
    """The second fraud scene with 11,700 rows: two tasks with 1.2 % and 2.5 % of fraud."""
    scenes = make_fraud_scenes("scene2", scale=0.01, seed=seed)
    counts = [len(y) for y in scenes.y.values()]
    return Rows(
        np.concatenate(list(scenes.X.values())),
        np.concatenate(list(scenes.y.values())).astype(np.float64),
        np.repeat(np.arange(len(counts)), counts),
        len(counts),
        is_binary=True,
    )


# ---- weeks ---------------------------------------------------------------------------------------


def make_fraud_weeks(seed: int) -> Rows:
    """Payments of 40 weeks in six channels of unequal size; 1 is fraud, some 5 % of the rows.

    Log-odds are a pattern of all channels, and one for each channel with half of its deviation.
    Another pattern of all channels fades in over the weeks: old rows do not show all of it.
    """
    rng = np.random.default_rng([seed, 1])
    rows_per_week = np.array([120, 60, 40, 30, 25, 20])
    n_weeks, n_columns, n_channels = 40, 15, len(rows_per_week)
    week, task = np.divmod(np.arange(n_weeks * n_channels), n_channels)
    week, task = (np.repeat(values, np.tile(rows_per_week, n_weeks)) for values in (week, task))
    location = 0.4 * rng.normal(size=(n_channels, n_columns))
    latent = rng.normal(size=(len(task), n_columns)) + location[task]
    shared, new = (_pattern(latent, rng) for _ in range(2))
    own = np.array([_pattern(latent, rng) for _ in range(n_channels)])[task, np.arange(len(task))]
    rate = rng.uniform(0.03, 0.08, n_channels)
    signal = 1.5 * shared + 0.75 * own + week / n_weeks * new
    log_odds = signal - 1.5 + np.log(rate / (1 - rate))[task]  # -1.5: the signal is convex in odds
    y = (rng.random(len(task)) < expit(log_odds)).astype(np.float64)
    X = latent.copy()
    X[:, :5] = np.exp(X[:, :5])  # amounts
    X[rng.random(X.shape) < 0.05] = np.nan
    return Rows(X.astype(np.float32), y, task, n_channels, is_binary=True, time=week.astype(float))


def make_retail_weeks(seed: int) -> Rows:
    """Log sales of three departments in 60 stores over 60 weeks.

    Stores have one of four formats, which decides how prices, promotions and holidays work, and
    effects that vary around those of their format. Stores open in different weeks.
    """
    rng = np.random.default_rng([seed, 2])
    n_stores, n_weeks, n_departments, n_formats = 60, 60, 3, 4
    axes = np.meshgrid(
        np.arange(n_weeks), np.arange(n_stores), np.arange(n_departments), indexing="ij"
    )
    week, store, department = (axis.ravel() for axis in axes)
    opening = np.where(rng.random(n_stores) < 0.7, 0, rng.integers(0, 40, n_stores))
    is_open = week >= opening[store]
    week, store, department = week[is_open], store[is_open], department[is_open]
    format_ = rng.integers(0, n_formats, n_stores)

    price = rng.normal(0, 0.15, len(store))
    promotion = np.where(rng.random(len(store)) < 0.25, rng.uniform(0.1, 0.5, len(store)), 0)
    is_holiday = np.isin(week % 52, (6, 15, 21, 35, 47, 51)).astype(float)
    angle = 2 * np.pi * week / 52
    temperature = 12 - 9 * np.cos(angle) + rng.normal(0, 3, len(store))
    competition = rng.normal(0, 1, n_stores)[store] + rng.normal(0, 0.5, len(store))

    terms = np.column_stack(
        [
            -price,
            promotion,
            is_holiday,
            np.maximum(temperature - 15, 0) / 5,
            np.tanh(competition) * (department == 1),
            np.sqrt(promotion) * is_holiday,
        ]
    )
    of_format = np.array([2.0, 1.2, 0.4, 0.15, -0.3, 0.4]) * rng.normal(
        1, 0.6, (n_formats, terms.shape[1])
    )
    effects = of_format[format_] + 0.3 * np.abs(of_format).mean(axis=0) * rng.normal(
        size=(n_stores, terms.shape[1])
    )
    base = (
        rng.normal(5, 0.5, n_stores)[store]
        + rng.normal(0, 0.5, (n_stores, n_departments))[store, department]
    )
    trend = rng.normal(0.002, 0.003, n_stores)[store] * week
    shock = rng.normal(0, 0.05, n_weeks)[week]  # of all stores
    y = base + trend + shock + (terms * effects[store]).sum(axis=1) + rng.normal(0, 0.2, len(store))
    X = np.column_stack(
        [
            *(price, promotion, is_holiday, np.sin(angle), np.cos(angle)),
            *(temperature, competition, department, week - opening[store]),
        ]
    )
    return Rows(
        X.astype(np.float32), y, store, n_stores, is_binary=False, time=week.astype(np.float64)
    )


def _pattern(latent: Floats, rng: np.random.Generator) -> Floats:
    """A drawn function of a few columns: steps and products, with deviation 1."""
    n_columns = latent.shape[1]
    total = np.zeros(len(latent))
    for _ in range(4):
        first, second = rng.choice(n_columns, 2, replace=False)
        step = (latent[:, first] > rng.normal(0, 0.7)).astype(float)
        total += rng.choice([-1, 1]) * step * (1 + latent[:, second])
    return (total - total.mean()) / total.std()
