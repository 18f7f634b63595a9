# SPDX-License-Identifier: Apache-2.0
"""What workers send to each other for one tree, and what a round costs: docs/several_machines.md.

Processes on this machine, one thread each, train by ``xgboost.train`` with ``TaskSplit``, each on a
part of the rows of every task, or on all rows of some tasks (``--whole``). Printed, and written
to ``--out``, of one tree: our sums and their bytes, by step, and the bytes of the collective's
calls, in which the workers are compared as well; and of
one round: the processor seconds of all workers, also as a multiple of those of stock training on
the same matrices just before. The first round of a training is left out: in it the bins are read
back. Medians over repetitions, each with all methods in turn.

    python benchmarks/several_machines.py [--rows 50000] [--tasks 2 1000] [--whole]
        [--scores plain entropy] [--pooling 1.0] [--workers 2] [--repeat 5] [--out results.jsonl]
"""

import argparse
import json
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import xgboost
from xgboost.tracker import RabitTracker

from mtboost.xgboost import TaskSplit
from mtboost.xgboost.collective import Workers

FIELD, STOCK = "label_lower_bound", "stock"
N_FEATURES, N_ROUNDS, DEPTH = 50, 5, 6


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


class RoundClock(xgboost.callback.TrainingCallback):
    """Processor and wall seconds, and calls and bytes of our sums, at the end of each round."""

    def __init__(self):
        super().__init__()
        self.seconds, self.sums = [], []
        self._calls, self._bytes, self._sent = Counter(), Counter(), Counter()

    def after_iteration(self, model, epoch, evals_log):
        self.seconds.append((time.process_time(), time.perf_counter()))
        self.sums.append((Counter(self._calls), Counter(self._bytes), Counter(self._sent)))
        return False

    def count(self, add):
        def counted(workers, values, step):
            add(workers, values, step)
            self._calls[step] += 1
            self._bytes[step] += values.nbytes

        return counted

    def count_sent(self, add_up):
        def counted(workers, values):
            add_up(workers, values)
            self._sent["bytes"] += values.nbytes
            self._sent["calls"] += 1

        return counted

    def of_a_round(self):
        """Median seconds of a round after the first, and calls and bytes on average."""
        processor, wall = np.median(np.diff(self.seconds, axis=0), axis=0).tolist()
        found = {"processor": processor, "wall": wall}
        names = ("calls", "bytes", "sent")
        for name, first, last in zip(names, self.sums[0], self.sums[-1], strict=True):
            found[name] = {step: (last[step] - first[step]) / N_ROUNDS for step in last}
        return found


def train(arguments, rank, n_tasks, options):
    """What a round costs, for each repetition by method."""
    add, add_up = Workers.sum_in_place, Workers._add_up
    done = []
    with xgboost.collective.CommunicatorContext(**arguments):
        X, y, task = make_rows(options.rows, n_tasks, rank)
        if options.whole:
            task = options.workers * (task // options.workers) + rank
        matrix = xgboost.QuantileDMatrix(X, y, label_lower_bound=task, nthread=1)
        params = {"max_depth": DEPTH, "nthread": 1}
        for _ in range(options.repeat):
            of_method = {}
            for score in (STOCK, *options.scores):
                clock = RoundClock()
                callbacks = [clock]
                if score != STOCK:
                    callbacks.append(TaskSplit(FIELD, split_score=score, pooling=options.pooling))
                Workers.sum_in_place = clock.count(add)
                Workers._add_up = clock.count_sent(add_up)
                try:
                    xgboost.train(params, matrix, 1 + N_ROUNDS, callbacks=callbacks)
                finally:
                    Workers.sum_in_place, Workers._add_up = add, add_up
                of_method[score] = clock.of_a_round()
            done.append(of_method)
    return done


def measure(pool, n_tasks, options):
    tracker = RabitTracker(host_ip="127.0.0.1", n_workers=options.workers)
    tracker.start()
    calls = [
        pool.submit(train, tracker.worker_args(), rank, n_tasks, options)
        for rank in range(options.workers)
    ]
    of_workers = [call.result() for call in calls]
    tracker.free()
    seconds = {
        score: np.array(
            [sum(worker[i][score]["processor"] for worker in of_workers) for i in range(len(done))]
        )
        for done in of_workers[:1]
        for score in done[0]
    }
    for score in options.scores:
        ratio = seconds[score] / seconds[STOCK]
        own = [done[score] for done in of_workers[0]]
        yield {
            "rows": options.rows,
            "tasks": n_tasks,
            "whole": options.whole,
            "workers": options.workers,
            "score": score,
            "pooling": options.pooling,
            "processor seconds": round(float(np.median(seconds[score])), 4),
            "wall seconds": round(float(np.median([each["wall"] for each in own])), 4),
            "of stock": [round(float(value), 2) for value in (np.median(ratio), *_ends(ratio))],
            "sums": own[0]["calls"],
            "megabytes": {step: round(n / 1e6, 4) for step, n in own[0]["bytes"].items()},
            "sent megabytes": round(own[0]["sent"].get("bytes", 0) / 1e6, 4),
            "calls of the collective": round(own[0]["sent"].get("calls", 0), 1),
            "xgboost": xgboost.__version__,
        }


def _ends(values):
    return values.min(), values.max()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000, help="of each worker")
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 1000])
    parser.add_argument("--whole", action="store_true", help="each task on one worker")
    parser.add_argument("--scores", nargs="+", default=["plain", "entropy", "variance"])
    parser.add_argument("--pooling", type=float)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context) as pool:
        for n_tasks in options.tasks:
            for found in measure(pool, n_tasks, options):
                histograms = found["megabytes"]["histograms"]
                megabytes = found["sent megabytes"]
                median, least, most = found["of stock"]
                print(
                    f"{found['tasks']:6d} {'whole ' * found['whole']}tasks, {found['score']:8s}: "
                    f"{megabytes:7.2f} MB, {megabytes / histograms:.3f} x the histograms, in "
                    f"{found['calls of the collective']:.0f} calls; processors "
                    f"{found['processor seconds']:.3f} s, {median} ({least} to {most}) x stock; "
                    f"wall {found['wall seconds']:.3f} s",
                    flush=True,
                )
                if options.out:
                    with open(options.out, "a") as file:
                        file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
