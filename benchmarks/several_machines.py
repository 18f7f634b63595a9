# SPDX-License-Identifier: Apache-2.0
"""What workers send to each other for one tree, and how long that takes: docs/several_machines.md.

Two processes on this machine train by ``xgboost.train`` with ``TaskSplit``, each on half of the
rows of every task, or on all rows of half of the tasks ("whole"). Counted are the bytes that a
worker hands to the collective for its sums, on average over the trees, by step, the seconds it
spends there, waiting for the other included, and the processor seconds of both workers for a round,
also as a multiple of those of stock training on the same rows just before.

    python benchmarks/several_machines.py [rows] [tasks ...]
"""

import itertools
import multiprocessing
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import xgboost
from xgboost.tracker import RabitTracker

from mtboost.xgboost import TaskSplit
from mtboost.xgboost.collective import Workers

FIELD, STOCK = "label_lower_bound", "stock"
SCORES = (STOCK, "plain", "entropy", "variance")
N_FEATURES, N_WORKERS, N_ROUNDS, DEPTH = 50, 2, 5, 6


def make_rows(n_rows, n_tasks, rank):
    rng = np.random.default_rng(rank)
    X = rng.integers(0, 256, (n_rows, N_FEATURES)).astype(np.float32)
    share = 1.0 / np.arange(1, n_tasks + 1) ** 0.5
    task = rng.choice(n_tasks, n_rows, p=share / share.sum())
    own = np.random.default_rng(9).normal(size=(n_tasks, 4))
    x = X / 255
    y = np.sin(6 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * (x[:, 3] > 0.6)
    y = y + (own[task] * (x[:, 4:8] - 0.5)).sum(1) + rng.normal(0, 0.5, n_rows)
    return X, y, task.astype(np.float32)


def train(arguments, rank, n_rows, n_tasks, score, whole):
    """Bytes by step, seconds in sums, seconds and processor seconds of the training."""
    sent, seconds = Counter(), [0.0]
    add = Workers.sum

    def counted(self, values, step):
        start = time.perf_counter()
        total = add(self, values, step)
        seconds[0] += time.perf_counter() - start
        sent[step] += values.nbytes
        return total

    Workers.sum = counted
    try:
        with xgboost.collective.CommunicatorContext(**arguments):
            X, y, task = make_rows(n_rows, n_tasks, rank)
            if whole:
                task = 2 * (task // 2) + rank
            matrix = xgboost.QuantileDMatrix(X, y, label_lower_bound=task, nthread=1)
            callbacks = [] if score == STOCK else [TaskSplit(FIELD, split_score=score)]
            params = {"max_depth": DEPTH, "nthread": 1}
            xgboost.train(params, matrix, 1, callbacks=callbacks)  # what is done once
            sent.clear()
            seconds[0] = 0.0
            start, start_of_process = time.perf_counter(), time.process_time()
            xgboost.train(params, matrix, N_ROUNDS, callbacks=callbacks)
            of_process = time.process_time() - start_of_process
            return sent, seconds[0], time.perf_counter() - start, of_process
    finally:
        Workers.sum = add


def main(n_rows=100_000, *task_numbers):
    print(f"{n_rows} rows of each worker, {N_FEATURES} features, depth {DEPTH}: MB of a tree")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(N_WORKERS, context) as pool:
        for n_tasks in task_numbers or (2, 20, 200, 1000):
            of_stock = 1.0
            for whole, score in itertools.product((False, True), SCORES):
                tracker = RabitTracker(host_ip="127.0.0.1", n_workers=N_WORKERS)
                tracker.start()
                calls = [
                    pool.submit(train, tracker.worker_args(), rank, n_rows, n_tasks, score, whole)
                    for rank in range(N_WORKERS)
                ]
                done = [call.result() for call in calls]
                sent, in_sums, of_training, _ = done[0]
                of_processes = sum(own[-1] for own in done) / N_ROUNDS
                if score == STOCK:
                    of_stock = of_processes
                per_tree = {
                    step: f"{n_bytes / N_ROUNDS / 1e6:.2f}"
                    for step, n_bytes in sent.items()
                    if n_bytes > 0.01e6 * N_ROUNDS
                }
                megabytes = sum(sent.values()) / N_ROUNDS / 1e6
                print(
                    f"{n_tasks:5d} {'whole ' * whole}tasks, {score:8s}: {megabytes:7.2f}, "
                    f"{in_sums / N_ROUNDS:.2f} of {of_training / N_ROUNDS:.2f} s, processors "
                    f"{of_processes:.2f} s, {of_processes / of_stock:.2f} x stock; {per_tree}",
                    flush=True,
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
