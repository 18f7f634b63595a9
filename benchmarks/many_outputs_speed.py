# SPDX-License-Identifier: Apache-2.0
"""What does a round of boosting cost with 100 and 300 outputs? (figure 6.6 of joly2016)

    python benchmarks/many_outputs_speed.py --out results.jsonl [--outputs 100 300] [--rounds 10]
        [--turns 2] [--methods relabel ...]

50,000 rows to train, 50 features, outputs of rank 10 and noise, depth 6, squared error: processor
seconds of a round on one thread, mean squared error of test rows after each round (CatBoost,
XGBoost: after the last; 1 is that of no model), and memory beyond the data, each in a separate
process. mtboost with five components against all outputs (gbmort), stock XGBoost's vector trees
without and with mtboost's split gradient of five components, and CatBoost. Slow ones get fewer
rounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from peer_runs import append, parser, read

N_TRAIN, N_TEST, N_FEATURES, RANK = 50_000, 5_000, 50, 10
TRAIN, TEST = slice(N_TRAIN), slice(N_TRAIN, None)
METHODS = ("relabel", "gbmort", "split_gradient", "xgboost", "catboost")
SECONDS = 40  # a method ends after the round that exceeds it


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
        self.start = time.process_time()
        self.ends: list[float] = []

    def is_enough(self) -> bool:
        self.ends.append(time.process_time() - self.start)
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


def lines_of(args: argparse.Namespace, n_outputs: int, turn: int) -> Iterator[dict[str, Any]]:
    for method in args.methods:
        command = [sys.executable, __file__, "child", method, str(n_outputs)]
        command += [str(args.rounds), str(args.threads)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        own = {"outputs": n_outputs, "turn": turn, "threads": args.threads, "method": method}
        yield own | json.loads(output.splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        method, *numbers = sys.argv[2:]
        print(json.dumps(run_method(method, *map(int, numbers))))
        return
    found = parser(__doc__)
    found.add_argument("--outputs", type=int, nargs="+", default=[100, 300])
    found.add_argument("--rounds", type=int, default=10)
    found.add_argument("--turns", type=int, default=2)
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    args = found.parse_args()
    for n_outputs, turn in product(args.outputs, range(0 if args.table else args.turns)):
        append(args.out, lines_of(args, n_outputs, turn))
    medians = read(args.out).groupby(["outputs", "method"], sort=False)[["round", "memory"]]
    print(medians.median().unstack("outputs").round(3).to_string())


if __name__ == "__main__":
    main()
