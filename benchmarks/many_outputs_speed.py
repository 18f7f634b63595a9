# SPDX-License-Identifier: Apache-2.0
"""What does a round of boosting cost with 100 and 1000 outputs? (figure 6.6 of joly2016)

    python benchmarks/many_outputs_speed.py rounds [--outputs 100 1000] [--rounds 10]
    python benchmarks/many_outputs_speed.py delicious --data FOLDER [--rounds 100]

``rounds``: 50,000 rows to train, 50 features, outputs of rank 10 and noise, depth 6, squared error:
seconds a round, mean squared error of test rows after all rounds (of 1: no model), and memory
beyond the data, each in a separate process. mtboost with five components against all outputs
(gbmort), stock XGBoost's vector trees without and with mtboost's split gradient of five components,
and CatBoost. Those that need minutes for a round get fewer (shown), and their error is that of
mtboost after as many rounds in brackets.

``delicious``: 983 labels, logistic loss: seconds and label ranking average precision of gbmort and
of 20 Gaussian components.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

N_TRAIN, N_TEST, N_FEATURES, RANK = 50_000, 5_000, 50, 10
TRAIN, TEST = slice(N_TRAIN), slice(N_TRAIN, None)
METHODS = ("relabel", "gbmort", "xgboost", "split_gradient", "catboost")
SECONDS = 120  # a method ends after the round that exceeds it


def make_rows(n_outputs: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_TRAIN + N_TEST, N_FEATURES)).astype(np.float32)
    hidden = np.sin(2 * X[:, :RANK]) + X[:, RANK : 2 * RANK] * (X[:, :RANK] > 0)
    Y = hidden @ rng.normal(size=(RANK, n_outputs)) / np.sqrt(RANK)
    Y += 0.5 * rng.normal(size=Y.shape)
    return X, (Y / Y.std(axis=0)).astype(np.float32)


class Clock:
    """Times of rounds; says when it is enough."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.ends: list[float] = []

    def is_enough(self) -> bool:
        self.ends.append(time.perf_counter() - self.start)
        return self.ends[-1] > SECONDS

    def seconds_a_round(self) -> float:
        """Without the first, which begins with what is done once, if there are more."""
        return (
            (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1) if self.ends[1:] else self.ends[0]
        )


def run_method(method: str, n_outputs: int, n_rounds: int, n_threads: int) -> dict[str, Any]:
    X, Y = make_rows(n_outputs)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if method in ("relabel", "gbmort"):
        run = run_projected
    else:
        run = run_catboost if method == "catboost" else run_xgboost
    clock, errors = run(method, X, Y, n_rounds, n_threads)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "round": clock.seconds_a_round(),
        "rounds": len(clock.ends),
        "errors": errors,
        "memory": memory / 1024,
    }


def run_projected(
    method: str, X: np.ndarray, Y: np.ndarray, n_rounds: int, n_threads: int
) -> tuple[Clock, list[float]]:
    from mtboost import ProjectedBoostingRegressor

    model = ProjectedBoostingRegressor(
        n_rounds,
        strategy="gbmort" if method == "gbmort" else "gbrt-relabel-rpo",
        n_components=5,
        min_samples_leaf=1,  # as the others
        n_jobs=n_threads,
        random_state=0,
    )
    clock = Clock()
    model.fit(X[TRAIN], Y[TRAIN], callbacks=[lambda _: clock.is_enough()])
    return clock, [error_of(own, Y) for own in model.staged_predict(X[TEST])]


def run_catboost(
    _: str, X: np.ndarray, Y: np.ndarray, n_rounds: int, n_threads: int
) -> tuple[Clock, list[float]]:
    from catboost import CatBoostRegressor

    class End:
        def after_iteration(self, _: Any) -> bool:
            return not clock.is_enough()

    model = CatBoostRegressor(
        iterations=n_rounds,
        loss_function="MultiRMSE",
        depth=6,
        learning_rate=0.1,
        thread_count=n_threads,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    )
    clock = Clock()
    model.fit(X[TRAIN], Y[TRAIN], callbacks=[End()])
    return clock, [error_of(model.predict(X[TEST]), Y)]


def run_xgboost(
    method: str, X: np.ndarray, Y: np.ndarray, n_rounds: int, n_threads: int
) -> tuple[Clock, list[float]]:
    import xgboost

    from mtboost.xgboost import ProjectedObjective

    class Watch(xgboost.callback.TrainingCallback):
        def after_iteration(self, *_: Any) -> bool:
            return clock.is_enough()

    callbacks: list[Any] = [Watch()]
    if method == "split_gradient":
        callbacks.append(ProjectedObjective(n_components=5, n_threads=n_threads))
    clock = Clock()
    booster = xgboost.train(
        {
            "multi_strategy": "multi_output_tree",
            "max_depth": 6,
            "eta": 0.1,
            "lambda": 0,
            "min_child_weight": 0,
            "nthread": n_threads,
        },
        xgboost.QuantileDMatrix(X[TRAIN], Y[TRAIN], nthread=n_threads),
        n_rounds,
        callbacks=callbacks,
    )
    return clock, [error_of(booster.predict(xgboost.DMatrix(X[TEST])), Y)]


def error_of(predicted: np.ndarray, Y: np.ndarray) -> float:
    return float(np.mean((Y[TEST] - predicted) ** 2))


def compare_rounds(args: argparse.Namespace) -> None:
    for n_outputs in args.outputs:
        heads = f"{'s a round':>10}{'ratio':>8}{'rounds':>8}{'error':>16}{'MB':>8}"
        print(f"\n{f'{n_outputs} outputs':22}{heads}")
        own: dict[str, Any] = {}
        for method in args.methods:
            command = [sys.executable, __file__, "child", method, str(n_outputs)]
            command += [str(args.rounds), str(args.threads)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = json.loads(output.splitlines()[-1])
            own = own or found
            error = f"{found['errors'][-1]:.3f} ({own['errors'][found['rounds'] - 1]:.3f})"
            print(
                f"{method:22}{found['round']:10.3f}{found['round'] / own['round']:8.1f}"
                f"{found['rounds']:8}{error:>16}{found['memory']:8.0f}",
                flush=True,
            )


def compare_on_delicious(args: argparse.Namespace) -> None:
    from sklearn.metrics import label_ranking_average_precision_score

    from mtboost import ProjectedBoostingClassifier

    with np.load(Path(args.data, "delicious.npz"), allow_pickle=False) as data:
        parts = data["X_data"], data["X_indices"], data["X_indptr"]
        X = scipy.sparse.csr_array(parts, shape=data["X_shape"]).toarray().astype(np.float32)
        Y, is_test = data["Y"], data["split"] == 1
    print(f"{'':26}{'seconds':>9}{'precision':>11}")
    for name, options in {
        "gbmort": {"strategy": "gbmort"},
        "relabel, 20 components": {"n_components": 20},
        "relabel, 5 components": {"n_components": 5},
    }.items():
        model = ProjectedBoostingClassifier(
            args.rounds,
            max_leaf_nodes=8,
            min_samples_leaf=1,
            n_jobs=args.threads,
            random_state=0,
            **options,
        )
        start = time.perf_counter()
        model.fit(X[~is_test], Y[~is_test])
        seconds = time.perf_counter() - start
        margins = model.decision_function(X[is_test])
        precision = label_ranking_average_precision_score(Y[is_test], margins)
        print(f"{name:26}{seconds:9.1f}{precision:11.4f}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        method, *numbers = sys.argv[2:]
        print(json.dumps(run_method(method, *map(int, numbers))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=["rounds", "delicious"])
    parser.add_argument("--outputs", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    args.rounds = args.rounds or (10 if args.question == "rounds" else 100)
    (compare_rounds if args.question == "rounds" else compare_on_delicious)(args)


if __name__ == "__main__":
    main()
