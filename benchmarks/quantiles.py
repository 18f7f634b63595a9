# SPDX-License-Identifier: Apache-2.0
"""How large is the pinball loss of quantiles, and how many labels are below, by rows of a task?

Quantiles .1, .5 and .9 of `fit` beside those of the libraries, each on the same rows:

- "mtboost auto": `strategy="auto"`, `effort="fast"`, XGBoost, the three levels in one model
- "mtboost two-stage": `pooling="auto"`, `split_score="plain"`, trees of depth 4
- "mtboost auto, LightGBM": a model for each level
- "XGBoost pooled": stock `reg:quantileerror` of the three levels, without the task
- "XGBoost, task column": the same with the task as a category
- "XGBoost one each": a model for each task
- "LightGBM, task column": stock `quantile`, the task as a category, a model for each level
- "sklearn, task column": `HistGradientBoostingRegressor(loss="quantile")`, the same

The stock models have trees of depth 4 (LightGBM: 16 leaves) and a learning rate of .1, find their
rounds, at most 500, by early stopping on a fifth of the rows, and are trained again on all rows; a
task of fewer than 20 rows in "one each" has 20 rounds of stumps.

Data sets: "spread", 20 generated tasks of 10, 40, 160 or 320 rows whose noise depends on task and
features, with 400 test rows each; and school.npz of a folder (task_data/folder.py), of whose 139
schools a quarter of the rows are for testing, and a quarter of the others to train on.

Results are appended to a file, one line for each data set, seed and method, with a number for each
task and level; those that are in it are not computed again. results/quantiles.jsonl contains the
results so far.

    python benchmarks/quantiles.py --out results.jsonl [--data FOLDER] [--seeds 3] [NAME ...]
    python benchmarks/quantiles.py --out results.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor
from task_data.folder import read_rows
from task_methods.rows import Rows

import mtboost

LEVELS = (0.1, 0.5, 0.9)
SIZES = (10, 40, 160, 320)
ROUNDS, PATIENCE, RATE = 500, 20, 0.1
QUANTILE = {"objective": "reg:quantileerror", "quantile_alpha": list(LEVELS)}
XGBOOST = {**QUANTILE, "max_depth": 4, "learning_rate": RATE, "nthread": 1, "seed": 0}


# ---- data ----------------------------------------------------------------------------------------


def spread(seed: int) -> tuple[Rows, Rows]:
    """Tasks with related signals, whose noise depends on the task and grows with a feature."""
    rng = np.random.default_rng(seed)
    n_tasks, n_columns = 20, 6
    slopes = rng.normal(size=n_columns) + 0.4 * rng.normal(size=(n_tasks, n_columns))
    offsets, scales = 0.5 * rng.normal(size=n_tasks), np.exp(0.5 * rng.normal(size=n_tasks))

    def draw(sizes: Any) -> Rows:
        task = np.repeat(np.arange(n_tasks), sizes)
        X = rng.normal(size=(len(task), n_columns)).astype(np.float32)
        signal = (np.tanh(X) * slopes[task]).sum(axis=1) + offsets[task]
        noise = scales[task] * np.exp(0.5 * X[:, 0]) * rng.normal(size=len(task))
        return Rows(X, signal + noise, task, n_tasks, False)

    return draw(np.resize(SIZES, n_tasks)), draw(400)


def school(path: Path, seed: int) -> tuple[Rows, Rows]:
    train, test = read_rows(path, seed).split(0.25, seed)
    return train.sample(0.25, seed), test


# ---- methods -------------------------------------------------------------------------------------


def multi_task(train: Rows, test: Rows, seed: int, **options: Any) -> Any:
    fixed = {"task": train.task, "n_threads": 1, "seed": seed, "effort": "fast"}
    fixed |= {"objective": QUANTILE["objective"]}
    fixed |= {"params": {"quantile_alpha": list(LEVELS)}}
    model = mtboost.fit(train.X, train.y, **{**fixed, **options})
    return model.predict(test.X, task=test.task)


def multi_task_lightgbm(train: Rows, test: Rows, seed: int) -> Any:
    options = {"backend": "lightgbm", "objective": "quantile"}
    return np.column_stack(
        [multi_task(train, test, seed, **options, params={"alpha": level}) for level in LEVELS]
    )


def frame(rows: Rows, has_task: bool) -> Any:
    columns = {f"x{number}": column for number, column in enumerate(rows.X.T)}
    if has_task:
        columns["task"] = pd.Categorical(rows.task, categories=range(rows.n_tasks))
    return pd.DataFrame(columns)


def halves(train: Rows, seed: int) -> tuple[Any, Any]:
    """Rows to train on, and a fifth to find the number of rounds."""
    is_held_out = np.random.default_rng(seed).permutation(len(train.y)) % 5 == 0
    return ~is_held_out, is_held_out


def stock_xgboost(train: Rows, test: Rows, seed: int, has_task: bool = False) -> Any:
    def matrix(rows: Rows) -> xgboost.DMatrix:
        return xgboost.DMatrix(frame(rows, has_task), rows.y, enable_categorical=True, nthread=1)

    fit, stop = halves(train, seed)
    found = xgboost.train(
        XGBOOST, matrix(train.take(fit)), ROUNDS,
        evals=[(matrix(train.take(stop)), "valid")],
        early_stopping_rounds=PATIENCE, verbose_eval=False,
    )  # fmt: skip
    booster = xgboost.train(XGBOOST, matrix(train), found.best_iteration + 1)
    return booster.predict(matrix(test))


def one_each(train: Rows, test: Rows, seed: int) -> Any:
    found = np.empty((len(test.y), len(LEVELS)))
    for task in range(train.n_tasks):
        own, rows = train.take(train.task == task), test.task == task
        if len(own.y) >= 20:
            found[rows] = stock_xgboost(own, test.take(rows), seed)
        elif len(own.y):
            params = {**XGBOOST, "max_depth": 1}
            booster = xgboost.train(params, xgboost.DMatrix(own.X, own.y), 20)
            found[rows] = booster.predict(xgboost.DMatrix(test.X[rows]))
    return found


def stock_lightgbm(train: Rows, test: Rows, seed: int) -> Any:
    fit, stop = halves(train, seed)
    X, columns = frame(train, True), []
    for level in LEVELS:
        params = {"objective": "quantile", "alpha": level, "num_leaves": 16, "verbosity": -1}
        params |= {"learning_rate": RATE, "num_threads": 1, "seed": 0}
        data = lightgbm.Dataset(X[fit], train.y[fit])
        found = lightgbm.train(
            params, data, ROUNDS, valid_sets=[data.create_valid(X[stop], train.y[stop])],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )  # fmt: skip
        booster = lightgbm.train(params, lightgbm.Dataset(X, train.y), found.best_iteration)
        columns.append(booster.predict(frame(test, True)))
    return np.column_stack(columns)


def sklearn_boosting(train: Rows, test: Rows, seed: int) -> Any:
    X, columns = frame(train, True), []
    for level in LEVELS:
        options = {"loss": "quantile", "quantile": level, "max_depth": 4, "learning_rate": RATE}
        options |= {"categorical_features": "from_dtype", "random_state": seed}
        found = HistGradientBoostingRegressor(
            early_stopping=True, validation_fraction=0.2, n_iter_no_change=PATIENCE,
            max_iter=ROUNDS, **options,
        ).fit(X, train.y)  # fmt: skip
        rounds = max(1, found.n_iter_ - PATIENCE)
        model = HistGradientBoostingRegressor(early_stopping=False, max_iter=rounds, **options)
        columns.append(model.fit(X, train.y).predict(frame(test, True)))
    return np.column_stack(columns)


TWO_STAGE = {"strategy": "two-stage", "split_score": "plain", "pooling": "auto"}
METHODS: dict[str, Callable[[Rows, Rows, int], Any]] = {
    "mtboost two-stage": partial(multi_task, **TWO_STAGE),
    "XGBoost pooled": stock_xgboost,
    "XGBoost, task column": partial(stock_xgboost, has_task=True),
    "LightGBM, task column": stock_lightgbm,
    "sklearn, task column": sklearn_boosting,
    "XGBoost one each": one_each,
    "mtboost auto": multi_task,
    "mtboost auto, LightGBM": multi_task_lightgbm,
}


# ---- results -------------------------------------------------------------------------------------


def by_task(train: Rows, test: Rows, prediction: Any) -> dict[str, Any]:
    """Pinball loss, and share of the labels below, of each task and level."""
    above = test.y[:, None] - np.asarray(prediction, np.float64)
    levels = np.array(LEVELS)
    losses = np.maximum(levels * above, (levels - 1) * above)
    tasks = [test.task == task for task in range(test.n_tasks)]
    return {
        "rows": np.bincount(train.task, minlength=train.n_tasks).tolist(),
        "test_rows": [int(own.sum()) for own in tasks],
        "loss": [losses[own].mean(axis=0).round(5).tolist() for own in tasks],
        "below": [(above[own] <= 0).mean(axis=0).round(4).tolist() for own in tasks],
        "crossing": round(float((np.diff(prediction, axis=1) < 0).any(axis=1).mean()), 4),
    }


def run(out: Path, makers: dict[str, Callable[[int], Any]], methods: Any, seeds: int) -> None:
    done = {(line["data"], line["seed"], line["method"]) for line in read(out)}
    for seed in range(seeds):
        for name, make in makers.items():
            train, test = make(seed)
            for method, predict in methods.items():
                if (name, seed, method) in done:
                    continue
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    prediction = predict(train, test, seed)
                seconds = round(time.process_time() - start, 1)
                line = {"data": name, "seed": seed, "method": method, "seconds": seconds}
                with out.open("a") as file:
                    file.write(json.dumps({**line, **by_task(train, test, prediction)}) + "\n")
                print(name, seed, method, seconds, flush=True)


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def print_table(lines: list[dict[str, Any]]) -> None:
    """Means over tasks and seeds by rows of a task; losses relative to "mtboost two-stage"."""
    print("| data | rows of a task | method | loss .1 | .5 | .9 | below .1 | .5 | .9 | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(line["data"] for line in lines):
        own = [line for line in lines if line["data"] == name]
        rows = np.concatenate([line["rows"] for line in own])
        edges = [0, *np.unique(np.quantile(rows, [0.25, 0.75])), np.inf]
        for low, high in pairwise(edges):
            base: Any = None
            for method in dict.fromkeys(line["method"] for line in own):
                parts = [line for line in own if line["method"] == method]
                sizes = np.concatenate([line["rows"] for line in parts])
                chosen = (low < sizes) & (sizes <= high)
                if not chosen.any():
                    continue
                loss = np.concatenate([line["loss"] for line in parts])[chosen].mean(axis=0)
                below = np.concatenate([line["below"] for line in parts])[chosen].mean(axis=0)
                base = loss if base is None else base
                cells = [f"{value:.3f}" for value in [*(loss / base), *below]]
                size = f"{sizes[chosen].min()} to {sizes[chosen].max()}"
                seconds = np.mean([line["seconds"] for line in parts])
                print(f"| {name} | {size} | {method} | {' | '.join(cells)} | {seconds:.0f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these data sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder with school.npz")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--table", action="store_true", help="print the results so far")
    options = parser.parse_args(arguments)
    if options.table:
        print_table(read(options.out))
        return
    makers: dict[str, Any] = {"spread": spread}
    if options.data:
        makers["school"] = partial(school, options.data / "school.npz")
    if options.names:
        makers = {name: makers[name] for name in options.names}
    run(options.out, makers, {name: METHODS[name] for name in options.methods}, options.seeds)


if __name__ == "__main__":
    main()
