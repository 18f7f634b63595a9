# SPDX-License-Identifier: Apache-2.0
"""What does TaskSplit cost where it must read the training rows back from the library's matrix?

Three rounds of stock training against three with TaskSplit, which is given no table, on rows of
which the user keeps the array. Each training runs in a separate process, in turns; a ratio is of
neighbours. Reading: seconds until the rows are in the bins of mtboost's core, by the clock and on
all processors together. Peak: the most memory that the process has held, from its start on.

    python benchmarks/reading_back.py [--turns 5] [--rows 1170000] [--features 44] [--threads 2]
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

KINDS = ("QuantileDMatrix", "DMatrix", "lightgbm.Dataset")
METHODS = ("stock", "TaskSplit")
N_ROUNDS, N_TASKS = 3, 5


def train(kind: str, method: str, n_rows: int, n_features: int, n_threads: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.float32)
    reading = {"reading": 0.0, "processors": 0.0}
    options: dict[str, Any] = {}
    is_lightgbm = kind == "lightgbm.Dataset"
    if method == "TaskSplit":
        if is_lightgbm:
            import mtboost.lightgbm as plug_in
            import mtboost.lightgbm.growth as module
        else:
            import mtboost.xgboost as plug_in
            import mtboost.xgboost.growth as module
        read = module.bin_matrix

        def timed(*args: Any, **kwargs: Any) -> Any:
            start, start_on_all = time.perf_counter(), time.process_time()
            found = read(*args, **kwargs)
            reading["reading"] += time.perf_counter() - start
            reading["processors"] += time.process_time() - start_on_all
            return found

        module.bin_matrix = timed
        options = {"callbacks": [plug_in.TaskSplit(np.arange(n_rows) % N_TASKS)]}
    if is_lightgbm:
        import lightgbm

        params = {"objective": "binary", "num_threads": n_threads, "verbosity": -1}
        lightgbm.train(params, lightgbm.Dataset(X, y), N_ROUNDS, **options)
    else:
        import xgboost

        params = {"objective": "binary:logistic", "nthread": n_threads}
        matrix = getattr(xgboost, kind)(X, y, nthread=n_threads)
        xgboost.train(params, matrix, N_ROUNDS, **options)
    return {
        **reading,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_170_000)
    parser.add_argument("--features", type=int, default=44)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs=2, metavar=("KIND", "METHOD"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = args.rows, args.features, args.threads
    if args.only:
        print(json.dumps(train(*args.only, *sizes)))
        return
    print(
        f"{platform.processor() or platform.machine()}, {args.threads} threads, {args.rows} rows, "
        f"{args.features} features, {N_ROUNDS} rounds; medians of {args.turns} turns"
    )
    heads = ("reading s", "all CPUs", "stock MB", "ours MB", "ratio", "max")
    print(f"{'':18}" + "".join(f"{head:>10}" for head in heads))
    for kind in KINDS:
        found: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
        for _ in range(args.turns):
            for method in METHODS:
                command = [sys.executable, __file__, *sys.argv[1:], "--only", kind, method]
                text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[method].append(json.loads(text.splitlines()[-1]))
        stock, ours = found["stock"], found["TaskSplit"]
        ratios = [b["peak"] / a["peak"] for a, b in zip(stock, ours, strict=True)]
        print(
            f"{kind:18}{statistics.median(run['reading'] for run in ours):10.2f}"
            f"{statistics.median(run['processors'] for run in ours):10.2f}"
            f"{statistics.median(run['peak'] for run in stock):10.0f}"
            f"{statistics.median(run['peak'] for run in ours):10.0f}"
            f"{statistics.median(ratios):10.2f}{max(ratios):10.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
