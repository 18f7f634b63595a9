# SPDX-License-Identifier: Apache-2.0
"""Does sharing between tasks improve hazards?

Concordance (Harrell's) of test rows within each task, mean of the tasks, for all tasks and for the
small ones (the third with the fewest training events). Sets:

- ``clinics``: 12 generated clinics of 60 to 1500 patients, half of them for training; baselines and
  the effects of two of eight columns differ between clinics.
- ``alike``: the same without differences between clinics.
- ``flchain``: deaths of 7,874 people of Olmsted County (scikit-survival has them), tasks are sex
  and decade of age.

Peers: XGBoost's ``survival:cox`` with all rows (``pooled``), with the task as a category, and one
for each task, and ``survival:aft`` with the task as a category, with depth 4, a learning rate of
.1, at most 500 rounds and 20 rounds of patience on a fifth of the training rows of each task;
gradient boosting of scikit-survival and its Cox model (with a ridge of 1), with the tasks as
indicators, else with their defaults. mtboost has its defaults, too. Times of AFT models are in
units of the mean training time, whichever library fits them.

    python benchmarks/survival.py --out results.jsonl [--seeds 3]
    python benchmarks/survival.py --out results.jsonl --table

results/survival.jsonl contains the results so far.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xgboost
from peer_runs import N_THREADS, PATIENCE, Array, append, as_frame, parser, read

import mtboost
from mtboost.metrics import evaluate_by_task

N_CLINICS = 12


@dataclass(frozen=True)
class Rows:
    X: Array
    y: Array  # times of events, minus those of censoring
    task: Array

    def take(self, rows: Array) -> Rows:
        return Rows(self.X[rows], self.y[rows], self.task[rows])


# ---- data ----------------------------------------------------------------------------------------


def clinics(seed: int, differ: bool) -> Rows:
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(N_CLINICS), np.geomspace(60, 1500, N_CLINICS).astype(int))
    n_rows = len(task)
    X = rng.normal(size=(n_rows, 8)).astype(np.float32)
    own = (1.0 if differ else 0.0) * rng.normal(size=(3, N_CLINICS))
    risk = 0.8 * np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3])
    risk += 0.6 * own[0, task] * X[:, 4] + 0.6 * own[1, task] * np.sign(X[:, 5])
    scale = np.exp(2.0 * own[2])[task]
    event = scale * np.exp(-risk / 1.3) * rng.weibull(1.3, n_rows)
    censoring = scale * rng.exponential(2.0, n_rows)
    return Rows(X, np.where(event <= censoring, event, -censoring), task)


def flchain() -> Rows:
    from sksurv.datasets import load_flchain

    table, outcome = load_flchain()
    died, days = (outcome[name] for name in outcome.dtype.names)
    decade = np.minimum(table["age"].astype(float) // 10, 9).astype(int)
    task = decade * 2 + (table["sex"] == "M").to_numpy()
    columns = table.drop(columns=["chapter", "flc.grp"])  # causes of deaths are known afterwards
    X = columns.apply(lambda column: pd.to_numeric(column, errors="coerce"))
    X = X.assign(sex=columns["sex"] == "M", mgus=columns["mgus"] == "yes").to_numpy(np.float32)
    return Rows(X, np.where(died, days, -days).astype(float), np.asarray(task))


def split(rows: Rows, seed: int, fraction: float) -> tuple[Rows, Rows]:
    """Other rows, and a fraction of those of each task."""
    rng = np.random.default_rng(seed)
    is_held_out = np.zeros(len(rows.y), bool)
    for task in np.unique(rows.task):
        own = rng.permutation(np.flatnonzero(rows.task == task))
        is_held_out[own[: max(1, round(fraction * len(own)))]] = True
    return rows.take(np.flatnonzero(~is_held_out)), rows.take(np.flatnonzero(is_held_out))


# ---- methods -------------------------------------------------------------------------------------

Predict = Callable[[Rows], Array]


def table(rows: Rows, has_task: bool, tasks: Array) -> pd.DataFrame:
    return as_frame(rows.X, rows.task, tasks if has_task else None)


def bounds(rows: Rows, unit: float) -> Array:
    """Lower and upper bounds of times."""
    times = np.abs(rows.y) / unit
    return np.stack([times, np.where(rows.y > 0, times, np.inf)], axis=1)


def labels(rows: Rows, unit: float | None) -> dict[str, Array]:
    if unit is None:
        return {"label": rows.y}
    lower, upper = bounds(rows, unit).T
    return {"label_lower_bound": lower, "label_upper_bound": upper}


def xgb(train: Rows, seed: int, has_task: bool = False, objective: str = "survival:cox") -> Predict:
    tasks, is_aft = np.unique(train.task), objective == "survival:aft"
    unit = np.abs(train.y).mean() if is_aft else None
    fit, valid = (
        xgboost.DMatrix(table(part, has_task, tasks), **labels(part, unit), enable_categorical=True)
        for part in split(train, seed, 0.2)
    )
    params = {"objective": objective, "eta": 0.1, "max_depth": 4, "nthread": N_THREADS}
    model = xgboost.train(
        params,
        fit,
        500,
        evals=[(valid, "valid")],
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )
    rounds = (0, model.best_iteration + 1)

    def predict(rows: Rows) -> Array:
        matrix = xgboost.DMatrix(table(rows, has_task, tasks), enable_categorical=True)
        found = np.asarray(model.predict(matrix, iteration_range=rounds))
        return 1.0 / found if is_aft else found

    return predict


def with_column(train: Rows, seed: int) -> Predict:
    return xgb(train, seed, has_task=True)


def aft_with_column(train: Rows, seed: int) -> Predict:
    return xgb(train, seed, has_task=True, objective="survival:aft")


def alone(train: Rows, seed: int) -> Predict:
    models = {
        task: xgb(train.take(np.flatnonzero(train.task == task)), seed)
        for task in np.unique(train.task)
    }

    def predict(rows: Rows) -> Array:
        found = np.zeros(len(rows.y))
        for task, model in models.items():
            own = np.flatnonzero(rows.task == task)
            found[own] = model(rows.take(own))
        return found

    return predict


def scikit_survival(train: Rows, seed: int, is_linear: bool = False) -> Predict:
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.util import Surv

    tasks = np.unique(train.task)
    means, scales = np.nanmean(train.X, axis=0), np.nanstd(train.X, axis=0) + 1e-9

    def inputs(rows: Rows) -> Array:
        known = np.where(np.isnan(rows.X), means, rows.X)
        return np.hstack([(known - means) / scales, rows.task[:, None] == tasks])

    model = (
        CoxPHSurvivalAnalysis(alpha=1.0)
        if is_linear
        else GradientBoostingSurvivalAnalysis(random_state=seed)
    )
    model.fit(inputs(train), Surv.from_arrays(train.y > 0, np.abs(train.y)))
    return lambda rows: np.exp(model.predict(inputs(rows)))


def cox_model(train: Rows, seed: int) -> Predict:
    return scikit_survival(train, seed, is_linear=True)


def ours(objective: str = "survival:cox", **options: Any) -> Callable[[Rows, int], Predict]:
    def method(train: Rows, seed: int) -> Predict:
        is_aft = objective == "survival:aft"
        model = mtboost.fit(
            train.X,
            bounds(train, np.abs(train.y).mean()) if is_aft else train.y,
            task=train.task,
            objective=objective,
            seed=seed,
            n_threads=N_THREADS,
            **options,
        )

        def predict(rows: Rows) -> Array:
            found = np.asarray(model.predict(rows.X, task=rows.task))
            return 1.0 / found if is_aft else found

        return predict

    return method


METHODS: dict[str, Callable[[Rows, int], Predict]] = {
    "mtboost": ours(),
    "mtboost two-stage": ours(strategy="two-stage"),
    "mtboost AFT": ours("survival:aft"),
    "XGBoost pooled": xgb,
    "XGBoost task column": with_column,
    "XGBoost one each": alone,
    "XGBoost AFT, task column": aft_with_column,
    "scikit-survival": scikit_survival,
    "scikit-survival Cox": cox_model,
}


# ---- runs ----------------------------------------------------------------------------------------


def rows_of(name: str, seed: int) -> tuple[Rows, Rows]:
    rows = flchain() if name == "flchain" else clinics(seed, name == "clinics")
    return split(rows, 1000 + seed, 0.5)


def run(name: str, seed: int, skip: Sequence[str]) -> Iterator[dict[str, Any]]:
    train, test = rows_of(name, seed)
    tasks = np.unique(train.task)
    events = np.array([(train.y[train.task == task] > 0).sum() for task in tasks])
    is_small = events <= np.sort(events)[(len(tasks) - 1) // 3]
    for method, fit in METHODS.items():
        if method in skip:
            continue
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hazards = fit(train, seed)(test)
        seconds = time.process_time() - start
        codes = np.searchsorted(tasks, test.task)
        values = evaluate_by_task("concordance", test.y, hazards, codes, len(tasks))
        found = {
            "set": name,
            "seed": seed,
            "method": method,
            "all": float(np.nanmean(values)),
            "small": float(np.nanmean(values[is_small])),
            "seconds": round(seconds, 2),
        }
        print(found, flush=True)
        yield found


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--first-seed", type=int, default=0)
    arguments.add_argument("--skip", nargs="*", default=[], choices=METHODS)
    options = arguments.parse_args()
    if not options.table:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for name in ("clinics", "alike", "flchain"):
                append(options.out, run(name, seed, options.skip))
        return
    results = read(options.out).drop_duplicates(["set", "seed", "method"], keep="last")
    columns = ["all", "small", "seconds"]
    print(results.groupby(["set", "method"], sort=False)[columns].agg(["mean", "std"]).round(3))


if __name__ == "__main__":
    main()
