# SPDX-License-Identifier: Apache-2.0
"""How often do intervals contain the labels of each task, and how wide are they?

`predict_interval` beside MAPIE's `SplitConformalRegressor` around the same estimator, pooled and
one for each task, at alpha = 0.1:

- "mtboost": `fit(intervals=True)` on all training rows
- "mtboost, own rows": a model of four fifths of the rows of each task, and `conformalize` with the
  others
- "MAPIE pooled", "MAPIE per task": the same model and the same others

Data sets: generated tasks of 50, 200 and 1000 rows each ("panel": six tasks of each size, whose
signals and noises differ; "heavy tails": t-distributed noise with three degrees of freedom), all
with 2000 new rows of each task; and tables with tasks of a folder (task_data/folder.py has the
formats), three quarters of each task to train on, of which it keeps at most 50, 200 or 1000, drawn
by chance.

Coverage of a task is the part of its test rows inside. Printed are, by rows of a task in training,
the mean over tasks and draws, its standard error between draws, the deviation of single tasks from
.9 beyond what their number of test rows explains, and the mean width relative to that of "mtboost".
An interval that is infinite (MAPIE refuses, mtboost warns) covers, and has no width.

Results are appended to a file, one line for each data set, strategy, seed and method, with a number
for each task; those that are in it are not computed again. results/intervals.jsonl contains the
results so far.

    python benchmarks/intervals.py --out results.jsonl [--data FOLDER] [--seeds 10] [NAME ...]
    python benchmarks/intervals.py --out results.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from task_data.folder import names_in, read_rows
from task_methods.rows import Rows

import mtboost

ALPHA = 0.1
SIZES = (50, 200, 1000)
STRATEGIES = ("auto", "two-stage")


# ---- data ----------------------------------------------------------------------------------------


def panel(seed: int, noise: Callable[[np.random.Generator, int], Any]) -> tuple[Rows, Rows]:
    """Tasks with related signals, offsets and scales of noise."""
    rng = np.random.default_rng(seed)
    n_tasks, n_columns = 18, 8
    shared = rng.normal(size=n_columns)
    slopes = shared + 0.5 * rng.normal(size=(n_tasks, n_columns))
    offsets, scales = 0.7 * rng.normal(size=n_tasks), np.exp(0.3 * rng.normal(size=n_tasks))

    def draw(sizes: Any) -> Rows:
        task = np.repeat(np.arange(n_tasks), sizes)
        X = rng.normal(size=(len(task), n_columns)).astype(np.float32)
        signal = (np.tanh(X) * slopes[task]).sum(axis=1) + (X[:, 0] * X[:, 1] > 0) + offsets[task]
        return Rows(X, signal + scales[task] * noise(rng, len(task)), task, n_tasks, False)

    return draw(np.resize(SIZES, n_tasks)), draw(2000)


GENERATED = {
    "panel": partial(panel, noise=lambda rng, n: rng.normal(size=n)),
    "heavy tails": partial(panel, noise=lambda rng, n: rng.standard_t(3, size=n) / 3**0.5),
}


def table(path: Path, seed: int) -> tuple[Rows, Rows]:
    """Three quarters of each task, of which some tasks keep a part."""
    train, test = read_rows(path, seed).split(0.25, seed)
    if train.is_binary:
        raise SystemExit(f"{path.name} has classes: name the tables whose labels are numbers.")
    rng = np.random.default_rng(seed)
    kept = [
        rng.permutation(np.flatnonzero(train.task == task))[: rng.choice(SIZES)]
        for task in range(train.n_tasks)
    ]
    return train.take(np.sort(np.concatenate(kept))), test


# ---- methods -------------------------------------------------------------------------------------


def bounds_by_method(train: Rows, test: Rows, strategy: str, seed: int) -> Iterator[Any]:
    """Name, bounds and seconds of each method."""
    rng = np.random.default_rng(seed)
    options = {"strategy": strategy, "effort": "fast", "n_threads": 1, "seed": seed}
    start = time.perf_counter()
    model = mtboost.fit(train.X, train.y, task=train.task, intervals=True, **options)
    yield "mtboost", predict(model, test), time.perf_counter() - start

    order = rng.permutation(len(train.y))
    place = np.empty(len(order), np.int64)
    for task in range(train.n_tasks):
        own = order[train.task[order] == task]
        place[own] = np.arange(len(own))
    rest, held_out = train.take(place % 5 > 0), train.take(place % 5 == 0)
    fitted = mtboost.MultiTaskRegressor(
        task=train.X.shape[1], strategy=strategy, effort="fast", n_jobs=1, random_state=seed
    ).fit(with_task(rest), rest.y)
    model = fitted.model_.conformalize(with_task(held_out), held_out.y)
    yield "mtboost, own rows", predict(model, test), None
    yield "MAPIE pooled", mapie(fitted, held_out, test), None
    bounds = np.empty((len(test.y), 2))
    for task in range(train.n_tasks):
        own = test.task == task
        bounds[own] = mapie(fitted, held_out.of_task(task), test.take(own))
    yield "MAPIE per task", bounds, None


def predict(model: mtboost.MultiTaskModel, test: Rows) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some intervals are infinite", UserWarning)
        if model.task_column is None:
            return model.predict_interval(test.X, task=test.task, alpha=ALPHA)
        return model.predict_interval(with_task(test), alpha=ALPHA)


def with_task(rows: Rows) -> Any:
    return np.column_stack([rows.X, rows.task])


def mapie(fitted: Any, held_out: Rows, test: Rows) -> Any:
    from mapie.regression import SplitConformalRegressor

    if not len(held_out.y):
        return np.tile([-np.inf, np.inf], (len(test.y), 1))
    conformal = SplitConformalRegressor(fitted, confidence_level=1 - ALPHA, prefit=True)
    conformal.conformalize(with_task(held_out), held_out.y)
    try:
        return conformal.predict_interval(with_task(test))[1][:, :, 0]
    except ValueError:  # too few rows
        return np.tile([-np.inf, np.inf], (len(test.y), 1))


# ---- results -------------------------------------------------------------------------------------


def run(out: Path, makers: dict[str, Callable[[int], tuple[Rows, Rows]]], seeds: int) -> None:
    done = {(line["data"], line["strategy"], line["seed"]) for line in read(out)}
    for seed in range(seeds):
        for name, make in makers.items():
            for strategy in STRATEGIES:
                if (name, strategy, seed) in done:
                    continue
                train, test = make(seed)
                n_train = np.bincount(train.task, minlength=train.n_tasks)
                lines = [
                    {
                        **{"data": name, "strategy": strategy, "seed": seed, "method": method},
                        **coverage_by_task(n_train, test, bounds),
                        "seconds": None if seconds is None else round(seconds, 1),
                    }
                    for method, bounds, seconds in bounds_by_method(train, test, strategy, seed)
                ]
                with out.open("a") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines)
                print(name, strategy, seed, flush=True)


def coverage_by_task(n_train: Any, test: Rows, bounds: Any) -> dict[str, list[Any]]:
    """Training rows, test rows, those inside, and mean width of each task."""
    low, high = bounds.T
    inside = (low <= test.y) & (test.y <= high)
    tasks = [test.task == task for task in range(test.n_tasks)]
    return {
        "rows": n_train.tolist(),
        "test_rows": [int(own.sum()) for own in tasks],
        "inside": [int(inside[own].sum()) for own in tasks],
        "width": [json_number((high - low)[own].mean()) for own in tasks],
    }


def json_number(value: float) -> float | None:
    return round(float(value), 5) if np.isfinite(value) else None


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def print_table(lines: list[dict[str, Any]]) -> None:
    print("| data | strategy | rows of a task | method | coverage | ± | single tasks ± | width |")
    print("|---|---|---|---|---|---|---|---|")
    for name, strategy in dict.fromkeys((line["data"], line["strategy"]) for line in lines):
        own = [line for line in lines if (line["data"], line["strategy"]) == (name, strategy)]
        parts = {
            method: np.array(
                [
                    (line["seed"], *numbers)
                    for line in own
                    if line["method"] == method
                    for numbers in zip(
                        *(line[key] for key in ("rows", "test_rows", "inside", "width")),
                        strict=True,
                    )
                ],
                np.float64,
            )
            for method in dict.fromkeys(line["method"] for line in own)
        }
        for low, high in ((0, 50), (50, 200), (200, np.inf)):
            for method, part in parts.items():
                is_of_size = (low < part[:, 1]) & (part[:, 1] <= high) & (part[:, 2] > 0)
                if is_of_size.any():
                    row = row_of(part[is_of_size], parts["mtboost"][is_of_size, 4])
                    print(f"| {name} | {strategy} | {row[0]} | {method} | {' | '.join(row[1:])} |")


def row_of(part: Any, our_widths: Any) -> list[str]:
    """Cells of a line of the table."""
    seeds, rows, n_test, inside, widths = part.T
    coverage = inside / n_test
    means = np.array([coverage[seeds == seed].mean() for seed in np.unique(seeds)])
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    by_chance = np.mean(ALPHA * (1 - ALPHA) / n_test)
    spread = np.sqrt(max(0.0, np.mean((coverage - 1 + ALPHA) ** 2) - by_chance))
    finite = np.isfinite(widths) & np.isfinite(our_widths)
    width = f"{widths[finite].mean() / our_widths[finite].mean():.2f}" if finite.any() else ""
    n_infinite = (~np.isfinite(widths)).mean()
    return [
        f"{rows.min():.0f} to {rows.max():.0f}",
        f"{means.mean():.3f}",
        f"{error:.3f}",
        f"{spread:.3f}",
        width + (f" ({n_infinite:.0%} infinite)" if n_infinite else ""),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these data sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder of tables")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--table", action="store_true", help="print the results so far")
    options = parser.parse_args(arguments)
    if options.table:
        print_table(read(options.out))
        return
    makers: dict[str, Any] = dict(GENERATED)
    if options.data:
        makers |= {name: partial(table, path) for name, path in names_in(options.data).items()}
    if options.names:
        makers = {name: makers[name] for name in options.names}
    run(options.out, makers, options.seeds)


if __name__ == "__main__":
    main()
