# SPDX-License-Identifier: Apache-2.0
"""
A hundred tags, most of them unknown
====================================

A hundred tags describe support tickets. A ticket's tags follow from a few hidden topics. Each team
checks only its own tags, so that four fifths of the labels are unknown: not 0, but NaN. Compared
are boosting on projections of the tags that leaves unknown labels out, the same model if they are
taken for 0, as is often done, and one XGBoost model for each tag on the tickets that were checked
for it.
"""

from __future__ import annotations

import itertools
import time

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import xgboost
from sklearn.metrics import label_ranking_average_precision_score

from mtboost import ProjectedBoostingClassifier

FloatArray = npt.NDArray[np.float64]

N_TICKETS, N_WORDS, N_TOPICS, N_TAGS, N_TEAMS = 3000, 20, 5, 100, 10
EVERY = 5  # trees between two points of the curves
TRAIN, TEST = slice(0, 2000), slice(2000, None)


def main() -> None:
    X, tags, known = make_tickets(np.random.default_rng(0))
    share = known[TRAIN].mean()
    print(
        f"{N_TICKETS} tickets, {N_TAGS} tags, {tags.mean():.0%} set; {share:.0%} of labels known\n"
    )
    unknown_is_nan = np.where(known, tags, np.nan)[TRAIN]
    unknown_is_0 = np.where(known, tags, 0)[TRAIN]

    def score(probabilities: npt.NDArray[np.floating]) -> float:
        return float(label_ranking_average_precision_score(tags[TEST], probabilities))

    curves = {}
    for name, labels in {
        "unknown is unknown": unknown_is_nan,
        "unknown is 0": unknown_is_0,
    }.items():
        start = time.perf_counter()
        model = ProjectedBoostingClassifier(
            200,
            n_components=10,
            max_depth=4,
            early_stopping_rounds=20,
            scoring="label_ranking_average_precision",
            random_state=0,
        ).fit(X[TRAIN], labels)
        seconds = time.perf_counter() - start
        stages = itertools.islice(model.staged_predict_proba(X[TEST]), 0, None, EVERY)
        curves[name] = [score(probabilities) for probabilities in stages]
        found = score(model.predict_proba(X[TEST]))
        print(f"{name:26}{seconds:6.1f} s   ranking precision {found:.3f}")

    start = time.perf_counter()
    alone = np.empty_like(tags[TEST], dtype=float)
    for tag in range(N_TAGS):
        rows = known[TRAIN, tag]
        booster = xgboost.train(
            {"objective": "binary:logistic", "max_depth": 4, "learning_rate": 0.1, "nthread": 1},
            xgboost.DMatrix(X[TRAIN][rows], tags[TRAIN][rows, tag]),
            num_boost_round=30,
        )
        alone[:, tag] = booster.predict(xgboost.DMatrix(X[TEST]))
    seconds = time.perf_counter() - start
    print(f"{'one XGBoost model a tag':26}{seconds:6.1f} s   ranking precision {score(alone):.3f}")
    draw(curves, score(alone))


def make_tickets(
    rng: np.random.Generator,
) -> tuple[FloatArray, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Features, tags, and which tags somebody has checked."""
    X = rng.normal(size=(N_TICKETS, N_WORDS))
    topics = np.sin(X[:, :N_TOPICS]) + X[:, N_TOPICS : 2 * N_TOPICS] * (X[:, :N_TOPICS] > 0)
    log_odds = 1.5 * topics @ rng.normal(size=(N_TOPICS, N_TAGS)) - 3
    tags = (rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))).astype(int)
    teams = rng.integers(N_TEAMS, size=(N_TICKETS, 2))
    known = (np.arange(N_TAGS) % N_TEAMS == teams[:, :, np.newaxis]).any(axis=1)
    return X, tags, known


def draw(curves: dict[str, list[float]], alone: float) -> None:
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for line, (name, scores) in zip(("-", "-."), curves.items(), strict=True):
        ax.plot(1 + EVERY * np.arange(len(scores)), scores, line, label=name)
    ax.axhline(alone, linestyle="--", color="gray", label="one XGBoost model a tag")
    ax.set_xlabel("trees")
    ax.set_ylabel("label ranking average precision, test tickets")
    ax.legend()
    figure.savefig("multi_label.png", dpi=120)


if __name__ == "__main__":
    main()
