# SPDX-License-Identifier: Apache-2.0
"""Which model of many outputs is best on real data? (joly2016, tables 6.5 to 6.8, in kind)

emotions and yeast (labels; label ranking average precision), atp1d and wq (numbers, standardised by
the training rows; macro-R²). All boosting is tuned alike: depth (2, 4, 6) and rounds, at most 500
with learning rate 0.1, by a fifth of the training rows that is held out. Splits are random, of the
sizes that the source publishes, or three quarters to train.

    python benchmarks/many_outputs_accuracy.py --out results.jsonl --data FOLDER [--seeds 5]
        [--names emotions ...] [--methods gbmort ...]
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from catboost import CatBoost, Pool
from peer_runs import append, parser, read
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import label_ranking_average_precision_score, r2_score
from sklearn.model_selection import train_test_split

from mtboost import (
    ProjectedBoostingClassifier,
    ProjectedBoostingRegressor,
    ProjectedForestRegressor,
)

N_TRAIN = {"emotions": 391, "yeast": 1500}
DEPTHS, ROUNDS, EARLY_STOPPING_ROUNDS, THREADS = (2, 4, 6), 500, 30, 1

# X, Y to train, X, Y to validate -> (score of validation, prediction of X)
Fit = Callable[..., tuple[float, Callable[[np.ndarray], np.ndarray]]]


def score(Y: np.ndarray, predicted: np.ndarray, are_labels: bool) -> float:
    if are_labels:
        return float(label_ranking_average_precision_score(Y, predicted))
    return float(r2_score(Y, predicted))


def of_mtboost(strategy: str, **options: Any) -> Fit:
    def fit(
        X: Any, Y: Any, X_valid: Any, Y_valid: Any, depth: int, are_labels: bool, seed: int
    ) -> Any:
        make = ProjectedBoostingClassifier if are_labels else ProjectedBoostingRegressor
        model = make(
            ROUNDS,
            strategy=strategy,
            max_depth=depth,
            early_stopping_rounds=EARLY_STOPPING_ROUNDS,
            n_jobs=THREADS,
            random_state=seed,
            **options,
        ).fit(X, Y, eval_set=(X_valid, Y_valid))
        return model.decision_function if are_labels else model.predict

    return fit


def of_xgboost(multi_strategy: str) -> Fit:
    def fit(
        X: Any, Y: Any, X_valid: Any, Y_valid: Any, depth: int, are_labels: bool, seed: int
    ) -> Any:
        model = (xgboost.XGBClassifier if are_labels else xgboost.XGBRegressor)(
            n_estimators=ROUNDS,
            learning_rate=0.1,
            max_depth=depth,
            multi_strategy=multi_strategy,
            early_stopping_rounds=EARLY_STOPPING_ROUNDS,
            n_jobs=THREADS,
            random_state=seed,
        ).fit(X, Y, eval_set=[(X_valid, Y_valid)], verbose=False)
        if not are_labels:
            return model.predict
        return lambda X: model.predict_proba(X)

    return fit


def one_each(
    X: Any, Y: Any, X_valid: Any, Y_valid: Any, depth: int, are_labels: bool, seed: int
) -> Any:
    """XGBoost, whose rounds are each output's own."""
    objective = "binary:logistic" if are_labels else "reg:squarederror"
    params = {"objective": objective, "max_depth": depth, "eta": 0.1, "nthread": THREADS}
    boosters = []
    for own, own_valid in zip(Y.T, Y_valid.T, strict=True):
        valid = xgboost.DMatrix(X_valid, own_valid)
        booster = xgboost.train(
            {**params, "seed": seed},
            xgboost.DMatrix(X, own),
            ROUNDS,
            evals=[(valid, "valid")],
            early_stopping_rounds=EARLY_STOPPING_ROUNDS,
            verbose_eval=False,
        )
        boosters.append(booster[: booster.best_iteration + 1])
    return lambda X: np.column_stack([booster.predict(xgboost.DMatrix(X)) for booster in boosters])


def catboost(
    X: Any, Y: Any, X_valid: Any, Y_valid: Any, depth: int, are_labels: bool, seed: int
) -> Any:
    model = CatBoost(
        {
            "loss_function": "MultiLogloss" if are_labels else "MultiRMSE",
            "iterations": ROUNDS,
            "learning_rate": 0.1,
            "depth": depth,
            "od_type": "Iter",
            "od_wait": EARLY_STOPPING_ROUNDS,
            "thread_count": THREADS,
            "random_seed": seed,
            "verbose": False,
            "allow_writing_files": False,
        }
    ).fit(Pool(X, Y), eval_set=Pool(X_valid, Y_valid))
    return lambda X: model.predict(X, prediction_type="RawFormulaVal")


def of_forest(make: Callable[..., Any]) -> Fit:
    def fit(
        X: Any, Y: Any, X_valid: Any, Y_valid: Any, depth: int, are_labels: bool, seed: int
    ) -> Any:
        """On all rows; the leaf in place of the depth."""
        rows, labels = np.vstack([X, X_valid]), np.vstack([Y, Y_valid]).astype(float)
        columns = "sqrt" if are_labels else 1 / 3
        model = make(300, max_features=columns, n_jobs=THREADS, random_state=seed)
        return model.fit(rows, labels).predict

    return fit


METHODS: dict[str, tuple[Fit, tuple[int, ...]]] = {
    "random forest of all outputs": (of_forest(RandomForestRegressor), (0,)),
    "projected forest": (of_forest(ProjectedForestRegressor), (0,)),
    "XGBoost, one model each": (one_each, DEPTHS),
    "XGBoost, vector leaf": (of_xgboost("multi_output_tree"), DEPTHS),
    "CatBoost": (catboost, DEPTHS),
    "single-target": (of_mtboost("single-target"), DEPTHS),
    "gbmort": (of_mtboost("gbmort"), DEPTHS),
    "gbrt-relabel-rpo": (of_mtboost("gbrt-relabel-rpo"), DEPTHS),
    "gbrt-rpo": (of_mtboost("gbrt-rpo"), DEPTHS),
    "relabel, variance": (of_mtboost("gbrt-relabel-rpo", projection="variance"), DEPTHS),
    "relabel, pca": (of_mtboost("gbrt-relabel-rpo", projection="pca"), DEPTHS),
}


def run(
    fit: Fit, depths: tuple[int, ...], X: Any, Y: Any, rows: Any, are_labels: bool, seed: int
) -> Any:
    train, test = rows
    inner, held_out = train_test_split(train, test_size=0.2, random_state=seed)
    found = []
    for depth in depths:
        predict = fit(X[inner], Y[inner], X[held_out], Y[held_out], depth, are_labels, seed)
        found.append((score(Y[held_out], predict(X[held_out]), are_labels), predict))
    _, predict = max(found, key=lambda pair: pair[0])
    return score(Y[test], predict(X[test]), are_labels)


def lines_of(
    name: str, folder: Path, methods: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as data:
        X, Y = data["X"].astype(np.float32), data["Y"]
    are_labels = set(np.unique(Y)) <= {0, 1}
    n_train = N_TRAIN.get(name, round(0.75 * len(X)))
    order = np.random.default_rng(seed).permutation(len(X))
    rows = order[:n_train], order[n_train:]
    if not are_labels:
        Y = (Y - Y[rows[0]].mean(axis=0)) / Y[rows[0]].std(axis=0)
    for method in methods:
        start = time.process_time()
        own = {"data": name, "seed": seed, "method": method}
        own["score"] = run(*METHODS[method], X, Y, rows, are_labels, seed)
        yield own | {"seconds": round(time.process_time() - start, 2)}


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    found.add_argument("--names", nargs="+", default=["emotions", "yeast", "atp1d", "wq"])
    found.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    args = found.parse_args()
    warnings.simplefilter("ignore")
    for seed, name in product(range(0 if args.table else args.seeds), args.names):
        append(args.out, lines_of(name, Path(args.data), args.methods, seed))
    means = read(args.out).groupby(["method", "data"], sort=False)[["score", "seconds"]].mean()
    print(means.unstack("data").round(4).to_string())


if __name__ == "__main__":
    main()
