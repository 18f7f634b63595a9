# SPDX-License-Identifier: Apache-2.0
"""
Exam scores in 139 schools
==========================

Exam scores of pupils in 139 London schools: one task per school, 22 to 251 pupils each.

The data (Inner London Education Authority; 15 362 pupils, 27 columns) are not part of this project:
``fetch_school`` downloads them. Without a network the script says where to save the file::

    python examples/school.py [folder]

One random split of the pupils; docs/results.md compares ten.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
import xgboost

import mtboost

PARAMS = {"max_depth": 4, "eta": 0.1, "min_child_weight": 20.0, "subsample": 0.7}
ROUNDS, EARLY_STOPPING_ROUNDS = 200, 10

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.integer]


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    try:
        X, y, school = mtboost.datasets.fetch_school(data_home=folder, return_X_y_task=True)
    except OSError as missing:
        print(f"Nothing to do. {missing}")
        return
    part = split_each_school(school, shares=[0.64, 0.16, 0.20])
    train, valid, test = (np.flatnonzero(part == number) for number in range(3))
    print(f"{len(np.unique(school))} schools: {len(train)} pupils to train on, {len(test)} to test")

    rows = {"task": school[train], "eval_set": (X[valid], y[valid], school[valid])}
    searched = mtboost.fit(X[train], y[train], **rows)
    model = mtboost.fit(
        X[train],
        y[train],
        **rows,
        params=PARAMS,
        num_boost_round=ROUNDS,
        early_stopping_rounds=EARLY_STOPPING_ROUNDS,
        strategy="two-stage",
    )
    with_school = np.column_stack([X, school])
    types = ["q"] * X.shape[1] + ["c"]
    predictions = {
        "pooled": stock_predictions(X, y, train, valid, test),
        "pooled + school": stock_predictions(with_school, y, train, valid, test, types),
        "entropy score": model.predict(X[test], task=school[test]),
        "mtboost.fit": searched.predict(X[test], task=school[test]),
    }
    print(f"\n{'RMSE of test pupils':20}{'all':>8}{'mean of schools':>18}")
    for name, predicted in predictions.items():
        error = (predicted - y[test]) ** 2
        by_school = np.sqrt(np.bincount(school[test], error) / np.bincount(school[test]))
        print(f"{name:20}{np.sqrt(error.mean()):8.3f}{by_school.mean():18.3f}")

    rounds = np.array(list(model.quit_round.values()))
    n_specific = sum(booster is not None for booster in model.specific.values())
    print(f"\nRounds of the model with the entropy score: {model.common.num_boosted_rounds()}")
    print(f"used by a school: {rounds.min()} to {rounds.max()}, median {np.median(rounds):.0f}")
    print(f"schools with a specific model: {n_specific}")


def split_each_school(school: IntArray, shares: list[float]) -> IntArray:
    """Number of the part that each pupil falls into; every school is divided by the shares."""
    rng = np.random.default_rng(0)
    part = np.empty(len(school), np.int64)
    for number in np.unique(school):
        pupils = rng.permutation(np.flatnonzero(school == number))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(pupils)).astype(int)
        for part_number, members in enumerate(np.split(pupils, cuts)):
            part[members] = part_number
    return part


def stock_predictions(
    X: FloatArray,
    y: FloatArray,
    train: IntArray,
    valid: IntArray,
    test: IntArray,
    feature_types: list[str] | None = None,
) -> FloatArray:
    """Predictions for the test rows by one plain XGBoost model of all training rows."""

    def matrix(rows: IntArray) -> xgboost.DMatrix:
        return xgboost.DMatrix(
            X[rows], y[rows], feature_types=feature_types, enable_categorical=True
        )

    booster = xgboost.train(
        PARAMS,
        matrix(train),
        ROUNDS,
        evals=[(matrix(valid), "valid")],
        early_stopping_rounds=EARLY_STOPPING_ROUNDS,
        verbose_eval=False,
    )
    predictions: FloatArray = booster.predict(
        matrix(test), iteration_range=(0, booster.best_iteration + 1)
    )
    return predictions


if __name__ == "__main__":
    main()
