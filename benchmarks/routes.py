# SPDX-License-Identifier: Apache-2.0
"""Fraud scenes through every way into the stock trainers: which AUC does each task get?

Both stages by hand, as a user with a training script would: a common model through one
of the routes, from which tasks quit, then stock training for each task from the margins it left
with. Differences are paired over seeds: mean and standard error.

    python benchmarks/routes.py [--seeds 8] [--scale 0.15] [--train 0.15] [--out routes.jsonl]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import scipy.special
import xgboost

import mtboost.lightgbm as in_lightgbm
import mtboost.xgboost as in_xgboost
from mtboost.datasets import make_fraud_scenes

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from plot_fraud_scenes import Rows, auc_by_task

ROUNDS, EARLY_STOPPING_ROUNDS = 300, 20
XGBOOST = {"objective": "binary:logistic", "max_depth": 4, "eta": 0.1, "nthread": 1}
LIGHTGBM = {
    "objective": "binary",
    "num_leaves": 15,
    "max_depth": 4,
    "learning_rate": 0.1,
    "num_threads": 1,
    "verbosity": -1,
    "metric": "None",
}
Margins = dict[str, np.ndarray]  # stage → margins of the test rows


# ---- XGBoost -------------------------------------------------------------------------------------


def xgboost_routes(train: Rows, valid: Rows, test: Rows) -> dict[str, Margins]:
    data = xgboost.QuantileDMatrix(train.X, train.y)
    validated = xgboost.DMatrix(valid.X, valid.y)
    plain = in_xgboost.TaskObjective("binary:logistic", train.task)
    start = {**XGBOOST, "base_score": float(train.y.mean())}
    found = {}
    for name, params, matrix, objective, callbacks in (
        ("pooled", XGBOOST, data, None, []),
        ("plain trees + quitting", start, data, plain, []),
        *(
            (
                f"TaskSplit {score}",
                XGBOOST,
                data,
                None,
                [in_xgboost.TaskSplit(train.task, split_score=score)],
            )
            for score in ("entropy", "variance")
        ),
    ):
        is_pooled = name == "pooled"
        quitting = in_xgboost.TaskQuitting(
            validated,
            None if is_pooled else valid.task,
            metric="auc",
            early_stopping_rounds=EARLY_STOPPING_ROUNDS,
            objective=objective,
        )
        booster = xgboost.train(
            params, matrix, ROUNDS, obj=objective, callbacks=[*callbacks, quitting]
        )
        rounds = quitting.quit_round
        if is_pooled:
            rounds = dict.fromkeys(np.unique(train.task), *rounds.values())
        found[f"xgboost: {name}"] = xgboost_stages(booster, rounds, train, valid, test)
    return found


def xgboost_stages(
    common: xgboost.Booster, rounds: Mapping[Any, int], train: Rows, valid: Rows, test: Rows
) -> Margins:
    def margins(rows: Rows) -> np.ndarray:
        return in_xgboost.residual_margin(common, xgboost.DMatrix(rows.X), rounds, rows.task)

    start, valid_start, final = margins(train), margins(valid), margins(test)
    stages = {"common": final.copy()}
    for task in rounds:
        own, own_valid, own_test = (rows.task == task for rows in (train, valid, test))
        data = xgboost.QuantileDMatrix(train.X[own], train.y[own], base_margin=start[own])
        watched = xgboost.DMatrix(
            valid.X[own_valid], valid.y[own_valid], base_margin=valid_start[own_valid]
        )
        quitting = in_xgboost.TaskQuitting(
            watched, metric="auc", early_stopping_rounds=EARLY_STOPPING_ROUNDS
        )
        specific = xgboost.train(XGBOOST, data, ROUNDS, callbacks=[quitting])
        (n_rounds,) = quitting.quit_round.values()
        if n_rounds:
            both = in_xgboost.combine(common, specific[:n_rounds], rounds[task])
            rows = xgboost.DMatrix(test.X[own_test])
            final[own_test] = both.predict(rows, output_margin=True)
    return {**stages, "both stages": final}


# ---- LightGBM ------------------------------------------------------------------------------------


def lightgbm_routes(train: Rows, valid: Rows, test: Rows) -> dict[str, Margins]:
    objective = in_lightgbm.TaskObjective("binary", train.task)
    log_odds = float(scipy.special.logit(train.y.mean()))
    found = {}
    for name, params, own, start, callbacks in (
        ("pooled", LIGHTGBM, None, None, []),
        # LightGBM estimates no start for an objective that it is given.
        ("plain trees + quitting", {**LIGHTGBM, "objective": objective}, objective, log_odds, []),
        *(
            (
                f"TaskSplit {score}",
                LIGHTGBM,
                None,
                None,
                [in_lightgbm.TaskSplit(train.task, split_score=score)],
            )
            for score in ("entropy", "variance")
        ),
    ):
        data = lightgbm_data(train, start)
        validated = lightgbm_data(valid, start, data)
        is_pooled = name == "pooled"
        quitting = in_lightgbm.TaskQuitting(
            validated,
            None if is_pooled else valid.task,
            metric="auc",
            early_stopping_rounds=EARLY_STOPPING_ROUNDS,
            objective=own,
        )
        booster = lightgbm.train(
            params, data, ROUNDS, valid_sets=[validated], callbacks=[*callbacks, quitting]
        )
        rounds = quitting.quit_round
        if is_pooled:
            rounds = dict.fromkeys(np.unique(train.task), *rounds.values())
        found[f"lightgbm: {name}"] = lightgbm_stages(
            booster, rounds, start or 0.0, train, valid, test
        )
    return found


def lightgbm_data(
    rows: Rows, start: Any = None, reference: lightgbm.Dataset | None = None
) -> lightgbm.Dataset:
    """Rows that start from a number, or from one each."""
    init_score = None if start is None else np.broadcast_to(start, len(rows.y)).copy()
    return lightgbm.Dataset(
        rows.X, rows.y, init_score=init_score, reference=reference, params=LIGHTGBM
    )


def lightgbm_stages(
    common: lightgbm.Booster,
    rounds: Mapping[Any, int],
    start: float,
    train: Rows,
    valid: Rows,
    test: Rows,
) -> Margins:
    def margins(rows: Rows) -> np.ndarray:
        return start + in_lightgbm.residual_margin(common, rows.X, rounds, rows.task)

    own_margins, valid_margins, final = margins(train), margins(valid), margins(test)
    stages = {"common": final.copy()}
    for task in rounds:
        data = lightgbm_data(train.of_task(task), own_margins[train.task == task])
        watched = lightgbm_data(valid.of_task(task), valid_margins[valid.task == task], data)
        quitting = in_lightgbm.TaskQuitting(
            watched, metric="auc", early_stopping_rounds=EARLY_STOPPING_ROUNDS
        )
        specific = lightgbm.train(
            LIGHTGBM, data, ROUNDS, valid_sets=[watched], callbacks=[quitting]
        )
        (specific.best_iteration,) = quitting.quit_round.values()
        if specific.best_iteration:
            both = in_lightgbm.combine(common, specific, rounds[task])
            rows = test.task == task
            final[rows] = start + both.predict(test.X[rows], raw_score=True)
    return {**stages, "both stages": final}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--scale", type=float, default=0.15)
    parser.add_argument("--train", type=float, default=0.15)
    parser.add_argument("--relatedness", type=float, default=0.7)
    parser.add_argument("--out", type=Path, help="file of results, which is appended to")
    args = parser.parse_args()
    results = []
    for seed in range(args.seeds):
        scenes = make_fraud_scenes(
            "scene2", scale=args.scale, relatedness=args.relatedness, seed=seed
        )
        parts = scenes.split(train=args.train, valid=args.train / 2, seed=seed)
        train, valid, test = (Rows.of(part) for part in parts)
        for routes in (xgboost_routes, lightgbm_routes):
            for route, stages in routes(train, valid, test).items():
                for stage, margin in stages.items():
                    aucs = auc_by_task(test, margin)
                    results.append({"seed": seed, "route": route, "stage": stage, **aucs})
                    if args.out:
                        with args.out.open("a") as file:
                            file.write(json.dumps(results[-1]) + "\n")
        print(f"seed {seed} done", flush=True)
    tasks = sorted(scenes.y)
    table = pd.DataFrame(results)
    print(table.groupby(["route", "stage"], sort=False)[tasks].mean().round(4).to_string())
    print("\ndifference of both stages to the pooled common model of the same library")
    for route, own in table[table.stage == "both stages"].groupby("route", sort=False):
        library = route.split(":")[0]
        is_base = (table.route == f"{library}: pooled") & (table.stage == "common")
        gain = own.set_index("seed")[tasks] - table[is_base].set_index("seed")[tasks]
        cells = [f"{task} {gain[task].mean():+.4f} +- {gain[task].sem():.4f}" for task in tasks]
        print(f"{route:36}" + "   ".join(cells))


if __name__ == "__main__":
    main()
