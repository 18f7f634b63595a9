# SPDX-License-Identifier: Apache-2.0
"""What becomes of a training on several machines when something is wrong, and after how long.

``collective``: one of two processes that train with ``TaskSplit`` in a collective of XGBoost is
killed at a random moment. ``dask``: so is a worker of a local Dask cluster in ``mtboost.dask.fit``;
``divided``: where a single task has its rows on both workers. Printed are the seconds from the kill
to the error, and the error. Then rows on Dask that are distributed unevenly: empty partitions, each
task in one place, a task without validation rows.
docs/several_machines.md has the table.

    python benchmarks/machine_faults.py {collective,dask,divided} [kills] [results.jsonl]
"""

import contextlib
import json
import logging
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import xgboost
from distributed import Client, LocalCluster
from xgboost.tracker import RabitTracker

import mtboost.dask
from mtboost.xgboost import TaskSplit

N_WORKERS, N_ROWS, N_TASKS = 2, 6_000, 12


def make_frame(seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(N_ROWS, 8)), columns=list("abcdefgh"))
    frame["shop"] = rng.integers(0, N_TASKS, N_ROWS)
    frame["sold"] = frame["a"] + (frame["shop"] % 3) * frame["b"] + rng.normal(0, 0.3, N_ROWS)
    return frame


def fit(client, frame, parts=6, **options):
    rows = frame
    if not isinstance(frame, dask.dataframe.DataFrame):
        rows = dask.dataframe.from_pandas(frame, npartitions=parts, sort=False)
    options = {"strategy": "two-stage", "num_boost_round": 40, **options}
    return mtboost.dask.fit(client, rows.drop(columns="sold"), rows["sold"], task="shop", **options)


def kill_one(client, frame, seconds_of_fit, draw, **options):
    """Kill a worker at a random moment: seconds before it, seconds after it, and the error."""
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    pids = client.run(os.getpid, workers=addresses)
    victim = draw.choice(addresses)
    moment = draw.uniform(0.0, seconds_of_fit)
    killed = []

    def kill():
        os.kill(pids[victim], signal.SIGKILL)
        killed.append(time.perf_counter())

    timer = threading.Timer(moment, kill)
    timer.start()
    try:
        fit(client, frame, **options)
        said = "finished"
    except Exception as error:
        said = f"{type(error).__name__}: {str(error)[:60]}"
    end = time.perf_counter()
    timer.join()
    return moment, end - killed[0], said


def record(engine, moment, wait, said):
    """Add a kill to the results, if there is a file of them."""
    if len(sys.argv) > 3:
        found = {"engine": engine, "killed at": round(moment, 2), "error after": round(wait, 2)}
        with open(sys.argv[3], "a") as file:
            file.write(json.dumps({**found, "error": said, "xgboost": xgboost.__version__}) + "\n")


# ---- without Dask --------------------------------------------------------------------------------


def train_in_collective(arguments, rank, pipe):
    """Train until killed, or until the other is: report the beginning and the error."""
    with contextlib.suppress(Exception), xgboost.collective.CommunicatorContext(**arguments):
        frame = make_frame(rank)
        matrix = xgboost.QuantileDMatrix(
            frame[list("abcdefgh")], frame["sold"], label_lower_bound=frame["shop"], nthread=1
        )
        pipe.send("begins")
        split = TaskSplit("label_lower_bound")
        try:
            xgboost.train({"nthread": 1}, matrix, 100_000, callbacks=[split])
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {str(error)[:60]}")
            raise


def kill_in_collective(context, moment):
    """Seconds from the kill to the error of the other process, and its text."""
    tracker = RabitTracker(host_ip="127.0.0.1", n_workers=2)
    tracker.start()
    pipes = [context.Pipe() for _ in range(2)]
    processes = [
        context.Process(target=train_in_collective, args=(tracker.worker_args(), rank, pipe[1]))
        for rank, pipe in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    for pipe in pipes:
        pipe[0].recv()
    time.sleep(moment)
    processes[0].kill()
    start = time.perf_counter()
    said = pipes[1][0].recv() if pipes[1][0].poll(60) else "nothing within 60 s"
    wait = time.perf_counter() - start
    processes[1].kill()
    for process in processes:
        process.join()
    return wait, said


def kills_in_collective(n_kills, draw):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["xgboost", "pandas", "mtboost.xgboost"])
    waits = []
    for number in range(n_kills):
        moment = draw.uniform(0.0, 3.0)
        wait, said = kill_in_collective(context, moment)
        waits.append(wait)
        record("collective", moment, wait, said)
        print(f"kill {number} at {moment:.2f} s: after {wait:.2f} s {said}", flush=True)
    print(f"after a kill: median {np.median(waits):.2f} s, at most {max(waits):.2f} s")


# ---- with Dask -----------------------------------------------------------------------------------


@contextlib.contextmanager
def local_cluster():
    options = {"n_workers": N_WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    logs = {"silence_logs": logging.CRITICAL}  # Dask reports each of our kills
    with LocalCluster(processes=True, **options, **logs) as cluster, Client(cluster) as client:
        yield client


def kills_on_dask(n_kills, draw, engine="dask"):
    """Kill a worker of a new cluster, as often."""
    frame, of_fit = make_frame(), {}
    if engine == "divided":
        frame["shop"], of_fit = 0, {"large_task_rows": 1000, "num_boost_round": 200}
    waits = []
    for number in range(n_kills):
        with local_cluster() as client:
            fit(client, frame, **of_fit)  # imports and first calls
            start = time.perf_counter()
            fit(client, frame, **of_fit)
            seconds = time.perf_counter() - start
            moment, wait, said = kill_one(client, frame, seconds, draw, **of_fit)
        record(engine, moment, wait, said)
        if wait > 0.0:
            waits.append(wait)
        print(f"kill {number} at {moment:.1f} of {seconds:.1f} s: after {wait:.1f} s {said}")
    if waits:
        print(f"after a kill: median {np.median(waits):.1f} s, at most {max(waits):.1f} s")


def uneven_rows():
    frame = make_frame()
    one_place = frame.sort_values("shop")  # a task is in one or two neighbouring partitions
    partitions = [frame[:0], frame[: N_ROWS // 2], frame[:0], frame[N_ROWS // 2 :]]
    uneven = dask.dataframe.from_map(lambda part: part, partitions, meta=frame[:0])
    is_valid = np.random.default_rng(1).random(N_ROWS) < 0.2
    seen = frame[is_valid & (frame["shop"] != 5)]
    valid = dask.dataframe.from_pandas(seen, npartitions=2, sort=False)
    train = frame[~is_valid]
    eval_set = (valid.drop(columns="sold"), valid["sold"])
    with local_cluster() as client:
        for name, rows, more in (
            ("empty partitions", uneven, {}),
            ("tasks in one place each", one_place, {}),
            ("a task without validation rows", train, {"eval_set": eval_set}),
        ):
            start = time.perf_counter()
            model = fit(client, rows, **more)
            print(f"{name}: {len(model.tasks)} tasks, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    engine = sys.argv[1]
    n_kills, draw = int(sys.argv[2]) if len(sys.argv) > 2 else 20, random.Random(0)
    if engine == "collective":
        kills_in_collective(n_kills, draw)
    else:
        kills_on_dask(n_kills, draw, engine)
    if engine == "dask":
        uneven_rows()
