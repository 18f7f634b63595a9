# SPDX-License-Identifier: Apache-2.0
"""How often do a few validation rows of a task prefer the worse of two models?

Generated tasks, two models of each: XGBoost on the rows of all tasks, and on those of the task
alone. The better one is that of 5000 further rows; then a few of these rows choose. By chance half
the choices are wrong. With two classes, of which one has 10 % of the rows, numbers of rows are
those of the rare class. The standard error is that of the draws of tasks.

    python benchmarks/validation_rows.py [--first 0] [--draws 30]
"""

from __future__ import annotations

import argparse

import numpy as np
import xgboost

N_TASKS, N_FEATURES, N_TRAIN, N_KNOWN = 8, 10, 300, 5000
N_ROUNDS, N_CHOICES = 50, 400
COUNTS = (5, 10, 20, 40, 80, 160)
POSITIVE = 0.1


def losses_of_rows(seed: int, *, are_classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Losses of the pooled and the independent models, and the labels, by task and row."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.1, 1.0)
    effects = rng.normal(size=N_FEATURES) + spread * rng.normal(size=(N_TASKS, N_FEATURES))
    X = rng.normal(size=(N_TASKS, N_TRAIN + N_KNOWN, N_FEATURES))
    y = np.einsum("trf,tf->tr", X, effects) + 2.0 * np.sin(2.0 * X[..., 0])
    y += 3.0 * rng.normal(size=y.shape)
    params = {"max_depth": 3, "eta": 0.1, "nthread": 1, "seed": seed}
    if are_classes:
        y = (y > np.quantile(y, 1.0 - POSITIVE)).astype(float)
        params["objective"] = "binary:logistic"
    task = np.broadcast_to(np.arange(N_TASKS)[:, None, None], (*y.shape, 1))
    X = np.concatenate([X, task], axis=2)
    train, known = X[:, :N_TRAIN], X[:, N_TRAIN:]

    def predicted(rows: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
        matrix = xgboost.DMatrix(rows.reshape(-1, rows.shape[-1]), labels.ravel())
        booster = xgboost.train(params, matrix, N_ROUNDS)
        return booster.predict(xgboost.DMatrix(new.reshape(-1, new.shape[-1])))

    of_train, of_known = y[:, :N_TRAIN], y[:, N_TRAIN:]
    pooled = predicted(train, of_train, known).reshape(of_known.shape)
    own = [predicted(*rows) for rows in zip(train, of_train, known, strict=True)]
    found = np.stack([pooled, own]).astype(float)
    if are_classes:
        losses = -np.log(np.where(of_known == 1.0, found, 1.0 - found))
    else:
        losses = (found - of_known) ** 2
    return losses, of_known


def wrong_choices(seed: int, *, are_classes: bool) -> list[float]:
    """Fraction of wrong choices for each number of rows, over the tasks of a draw."""
    losses, labels = losses_of_rows(seed, are_classes=are_classes)
    rng = np.random.default_rng([seed, 1])
    gains = losses[0] - losses[1]
    fractions = []
    for count in COUNTS:
        wrong = []
        for gain, own in zip(gains, labels, strict=True):
            sample = rng.choice(gain, (N_CHOICES, count)).mean(axis=1)
            if are_classes:  # the rare rows, and as many others as come with them
                share = own.mean()
                others = round(count * (1.0 - share) / share)
                rare = rng.choice(gain[own == 1.0], (N_CHOICES, count)).sum(axis=1)
                sample = rare + rng.choice(gain[own == 0.0], (N_CHOICES, others)).sum(axis=1)
            wrong.append(np.mean((sample > 0) != (gain.mean() > 0)))
        fractions.append(float(np.mean(wrong)))
    return fractions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--draws", type=int, default=30)
    args = parser.parse_args()
    print(f"{'rows':>24}" + "".join(f"{count:14}" for count in COUNTS))
    for are_classes, name in ((False, "of a task"), (True, "of the rare class")):
        draws = range(args.first, args.first + args.draws)
        found = np.array([wrong_choices(seed, are_classes=are_classes) for seed in draws])
        errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        cells = zip(found.mean(axis=0), errors, strict=True)
        print(f"{name:>24}" + "".join(f"{mean:7.3f} ±{error:5.3f}" for mean, error in cells))


if __name__ == "__main__":
    main()
