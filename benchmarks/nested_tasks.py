# SPDX-License-Identifier: Apache-2.0
"""Do leaf values of nested tasks, shrunk towards those of their region, improve on flat ones?

Each method finds its settings on held-out training rows. The test rows are a quarter of each
task's rows, or those of stores that have no training rows ("new stores"). Generated sets have 144
stores in 12 regions with 5 to about 150 rows, and 3600 rows to train on:

- ``effects``: regions and stores differ in the effects of two columns,
- ``intercepts``: they differ in constants, which is GPBoost's model,
- ``no regions``: stores differ, and their regions mean nothing,
- ``new stores``: as ``effects``, and a quarter of the stores are new.

Real sets, of the folder that fetch_tables.py writes: School, whose 139 schools have pupils of three
years (a school and year is a task), Landmine, whose 29 fields have one of two kinds of ground, and
six sets with a natural hierarchy, which were chosen before any of their results was known, the last
two later than the others:

- ``gapminder``: 142 countries of five continents, twelve years each,
- ``firms``: 140 firms of nine sectors, seven to nine years each,
- ``crime``: 90 counties of three regions, seven years each,
- ``lecturers``: 73,421 ratings of 1128 lecturers of fourteen departments,
- ``chemistry``: 31,022 students of 2410 schools of 131 local education authorities,
- ``children``: 1721 children of 60 schools, two to six years each.

With ", new tasks" after the name of a real set a quarter of its tasks, drawn by the seed, has no
training rows. Methods "by tasks" find their settings on whole tasks that are held out.

    python benchmarks/nested_tasks.py --out results.jsonl [--data FOLDER] [--seeds 10]
    python benchmarks/nested_tasks.py --out results.jsonl --table

results/nested_tasks.jsonl contains the results so far.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import task_comparison
from task_data import task_set
from task_data.scores import scores
from task_data.task_set import TaskSet
from task_methods.mixed import gpboost
from task_methods.rows import Budget, Fitted, Floats, Method, Rows, SkippedError

import mtboost

N_REGIONS, N_STORES, N_ROWS = 12, 12, 4800
# Standard deviations of the effects of regions and of stores; the noise has 1.
REGION_EFFECT, STORE_EFFECT = 0.8, 0.4
# The first 15 minefields have foliage, the others are bare (Xue et al., 2007).
N_FOLIATED = 15
LEVELS = ("gapminder", "firms", "crime", "lecturers", "chemistry", "children")


# ---- data ----------------------------------------------------------------------------------------


def generated(kind: str, seed: int, part: float = 1.0) -> TaskSet:
    rng = np.random.default_rng(seed)
    n_tasks = N_REGIONS * N_STORES
    region = np.repeat(np.arange(N_REGIONS), N_STORES)
    size = rng.permutation(1.0 / np.arange(2, n_tasks + 2) ** 0.7)
    task = np.sort(np.append(np.repeat(np.arange(n_tasks), 7), _draw(rng, size, 7 * n_tasks)))
    X = rng.random((len(task), 8)).astype(np.float32)
    common = 2.0 * np.sin(6.0 * X[:, 0]) + 2.0 * X[:, 1] * X[:, 2]
    shapes = [np.ones(len(task))]
    if kind != "intercepts":
        shapes = [np.sign(X[:, 3] - 0.5), np.cos(6.0 * X[:, 4])]
    of_region = 0.0 if kind == "no regions" else REGION_EFFECT
    of_store = 1.5 * STORE_EFFECT if kind == "no regions" else STORE_EFFECT
    signal = common
    for shape in shapes:
        effect = of_region * rng.normal(size=N_REGIONS)[region]
        effect = effect + of_store * rng.normal(size=n_tasks)
        signal = signal + effect[task] * shape
    y = signal + rng.normal(size=len(task))
    rows = Rows(X, y, task, n_tasks, False, parents=region)
    if kind != "new stores":
        return task_set(rows, seed, part)
    return with_new_tasks(rows, np.arange(n_tasks) % N_STORES < N_STORES // 4)


def with_new_tasks(rows: Rows, is_new: npt.NDArray[np.bool_]) -> TaskSet:
    """Hold out all rows of some tasks, which are new to the model."""
    is_test = is_new[rows.task]
    test = rows.take(is_test)
    return TaskSet(rows.take(~is_test), lambda predict: scores(test, predict(test)))


def _draw(rng: np.random.Generator, size: Floats, n_rows: int) -> Any:
    return rng.choice(len(size), N_ROWS - n_rows, p=size / size.sum())


def school(folder: Path) -> Rows:
    with np.load(_found(folder / "school.npz")) as file:
        X, y, code = file["X"], file["y"].astype(np.float64), file["task"]
        names = file["feature_names"].tolist()
    is_year = np.array([name.startswith("year_") for name in names])
    pairs = np.stack([code, X[:, is_year].argmax(axis=1)], axis=1)
    tasks, task = np.unique(pairs, axis=0, return_inverse=True)
    return Rows(X, y, task.ravel(), len(tasks), False, parents=tasks[:, 0].astype(np.int64))


def landmine(folder: Path) -> Rows:
    with np.load(_found(folder / "landmine.npz")) as file:
        X, y, code = file["X"], file["y"].astype(np.float64), file["task"]
    tasks, task = np.unique(code, return_inverse=True)
    is_bare = (np.arange(len(tasks)) >= N_FOLIATED).astype(np.int64)
    return Rows(X.astype(np.float32), y, task, len(tasks), True, parents=is_bare)


def levels(name: str, folder: Path) -> Rows:
    """A table whose tasks belong to regions."""
    with np.load(_found(folder / f"{name}.npz")) as file:
        X, y, code, of_rows = (file[key] for key in ("X", "y", "task", "region"))
    tasks, first, task = np.unique(code, return_index=True, return_inverse=True)
    return Rows(X, y, task, len(tasks), False, parents=of_rows[first])


def known_tasks(read: Callable[[], Rows], seed: int, part: float = 1.0) -> TaskSet:
    return task_set(read(), seed, part)


def unknown_tasks(read: Callable[[], Rows], seed: int, part: float = 1.0) -> TaskSet:
    """A quarter of the tasks is new."""
    rows = read()
    order = np.random.default_rng(seed).permutation(rows.n_tasks)
    return with_new_tasks(rows, order < rows.n_tasks // 4)


def _found(path: Path) -> Path:
    if not path.exists():
        raise SkippedError(
            f"there is no {path}: python benchmarks/fetch_tables.py {path.parent} {path.stem}"
        )
    return path


# ---- methods -------------------------------------------------------------------------------------


def with_mtboost(is_nested: bool, **options: Any) -> Method:
    """``fit`` as it is, but for some options; tasks are nested, or the stores alone."""

    def labels(rows: Rows) -> list[Any]:
        if not is_nested:
            return rows.task.tolist()
        assert rows.parents is not None
        return list(zip(rows.parents[rows.task].tolist(), rows.task.tolist(), strict=True))

    def method(train: Rows, seed: int, budget: Budget) -> Fitted:
        model = mtboost.fit(
            train.X,
            train.y,
            task=labels(train),
            objective="binary:logistic" if train.is_binary else "reg:squarederror",
            seed=seed,
            n_threads=budget.threads,
            **options,
        )

        def predict(rows: Rows) -> Floats:
            found = model.predict(rows.X, task=labels(rows), unknown_task="common")
            return np.asarray(found, np.float64)

        pooling = str(model.common_trees.pooled.pooling)
        return Fitted(predict, {"common": model.common_choice, "pooling": pooling})

    return method


# Leaf values are then all that tasks do not share.
LEAVES = {"task_splits": False, "linear_effects": False}
METHODS: dict[str, Method] = {
    "nested leaves": with_mtboost(True, **LEAVES),
    "flat leaves": with_mtboost(False, **LEAVES),
    "nested, estimated": with_mtboost(True, pooling="auto", **LEAVES),
    "flat, estimated": with_mtboost(False, pooling="auto", **LEAVES),
    "fit nested": with_mtboost(True),
    "fit flat": with_mtboost(False),
    "fit nested, by tasks": with_mtboost(True, validation="tasks"),
    "fit flat, by tasks": with_mtboost(False, validation="tasks"),
    "GPBoost nested": gpboost(is_nested=True),
    "GPBoost flat": gpboost(),
    "GPBoost nested, by tasks": gpboost(is_nested=True, is_by_tasks=True),
    "GPBoost flat, by tasks": gpboost(is_by_tasks=True),
}


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    folder = Path(os.environ.get("MTBOOST_DATA", "."))
    if "--data" in words:  # the tables of the folder are read here, not as task_data reads them
        place = words.index("--data")
        folder = Path(words[place + 1])
        del words[place : place + 2]
    kinds = ("effects", "intercepts", "no regions", "new stores")
    real = {"school": partial(school, folder), "landmine": partial(landmine, folder)}
    real |= {name: partial(levels, name, folder) for name in LEVELS}
    task_comparison.main(
        words,
        __doc__,
        {kind: partial(generated, kind) for kind in kinds}
        | {name: partial(known_tasks, read) for name, read in real.items()}
        | {f"{name}, new tasks": partial(unknown_tasks, read) for name, read in real.items()},
        METHODS,
        references=["nested leaves", "fit nested"],
        peers=["flat leaves", "fit flat", "GPBoost nested", "GPBoost flat"],
    )


if __name__ == "__main__":
    main()
