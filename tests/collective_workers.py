# SPDX-License-Identifier: Apache-2.0
"""Processes as machines: training in a collective of XGBoost, without Dask.

The functions run in other processes, which import this module by its name.
"""

import functools
import multiprocessing
import os
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from unittest import mock

import numpy as np
import xgboost
from xgboost.tracker import RabitTracker

from mtboost.errors import UnsupportedError
from mtboost.xgboost import (
    PriorFeatureSampling,
    TaskObjective,
    TaskQuitting,
    TaskSplit,
    task_metric,
)
from mtboost.xgboost.collective import Workers

TIMEOUT = 60  # seconds; a hang is one of the failures looked for


@contextmanager
def worker_pool(n_workers):
    """Executors of one process each: one that is killed leaves the others as they are."""
    others = set(multiprocessing.active_children())
    with ExitStack() as stack:
        context = multiprocessing.get_context("spawn")
        pool = [
            stack.enter_context(ProcessPoolExecutor(1, mp_context=context))
            for _ in range(n_workers)
        ]
        try:
            yield pool
        except BaseException:  # one may hang, and an executor waits for its process
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            raise


def run_together(pool, job, parts):
    """Run ``job(part)`` in a collective, one worker per part: results, or exceptions."""
    tracker = RabitTracker(host_ip="127.0.0.1", n_workers=len(parts))
    tracker.start()
    calls = [
        worker.submit(_run, tracker.worker_args(), job, part)
        for worker, part in zip(pool, parts, strict=False)
    ]
    done = [call.exception(TIMEOUT) or call.result() for call in calls]
    with suppress(xgboost.core.XGBoostError):  # workers that have ended without a word
        tracker.free()
    return done


def _run(arguments, job, part):
    with xgboost.collective.CommunicatorContext(**arguments):
        return job(part)


def make_rows(n_rows=1500, seed=0, missing=0.1):
    """Rows whose features have few values, so that bins are the same wherever they are made."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 40, (n_rows, 5)).astype(np.float32)
    X[:, 4] = rng.integers(0, 6, n_rows)
    task = rng.choice(5, n_rows, p=[0.4, 0.3, 0.15, 0.1, 0.05]) * 3
    y = np.sin(X[:, 0] / 6) + (task % 2) * X[:, 1] / 40 + (X[:, 4] == task % 4) * 0.5
    y = (y + rng.normal(0, 0.2, n_rows)).astype(np.float32)
    X[:, :4][rng.random((n_rows, 4)) < missing] = np.nan
    weight = rng.uniform(0.5, 2.0, n_rows).astype(np.float32)
    return {"X": X, "y": y, "task": task.astype(np.float32), "weight": weight}


def take(rows, chosen):
    return {name: values[chosen] for name, values in rows.items()}


def parts_of(rows, n_workers, *, empty=False):
    """Rows of each worker: tasks lie on all of them but one; with `empty` the last has no rows."""
    n_rows = len(rows["y"])
    owner = np.arange(n_rows) * 7 // 3 % (n_workers - empty)
    owner[rows["task"] == 12] = 0
    return [take(rows, owner == rank) for rank in range(n_workers)]


def train(rows, *, params, split=None, n_rounds=5, kind="QuantileDMatrix", valid=None, **options):
    """A booster as bytes, and its history; ``valid`` are rows to evaluate, of each worker."""
    matrix = _matrix(rows, kind)
    evals = [(matrix, "train")]
    if valid is not None:
        own = take(valid, np.arange(len(valid["y"])) % _n_workers() == _rank())
        evals.append(
            (_matrix(own, kind, **({"ref": matrix} if "Quantile" in kind else {})), "valid")
        )
    callbacks = options.pop("callbacks", ())
    if split is not None:
        callbacks = [TaskSplit("label_lower_bound", **split), *callbacks]
    history = {}
    booster = xgboost.train(
        {"nthread": 1, **params},
        matrix,
        n_rounds,
        evals=evals,
        evals_result=history,
        verbose_eval=False,
        callbacks=callbacks,
        **options,
    )
    return bytes(booster.save_raw("ubj")), history


def job(**options):
    return functools.partial(train, **options)


def _matrix(rows, kind, **options):
    types = ["q"] * 4 + ["c"] if "category" in kind else None
    return getattr(xgboost, kind.partition(",")[0])(
        rows["X"],
        rows["y"],
        weight=rows.get("weight"),
        base_margin=rows.get("base_margin"),
        label_lower_bound=rows.get("task"),
        feature_types=types,
        enable_categorical=True,
        nthread=1,
        **options,
    )


def train_by_task(part, *, objective, metric, params, task_weight=None, split=None):
    """Train with the callbacks of tasks: the booster, its history, and when each task quits.

    Several workers read the tasks from the matrices, one machine is given them row by row.
    """
    rows, valid = part
    matrix = _matrix(rows, "QuantileDMatrix")
    evals = [(matrix, "train"), (_matrix(valid, "QuantileDMatrix", ref=matrix), "valid")]
    of_train = of_valid = of_evals = "label_lower_bound"
    if _n_workers() == 1:
        of_train, of_valid = rows["task"].astype(int), valid["task"].astype(int)
        of_evals = [(evals[0][0], of_train), (evals[1][0], of_valid)]
    options = {"callbacks": []}
    if split is None:
        options["obj"] = TaskObjective(objective, of_train, task_weight=task_weight)
    else:
        options["callbacks"].append(TaskSplit(of_train, **split))
    own = {"objective": options.get("obj")}
    quitting = TaskQuitting("valid", of_valid, early_stopping_rounds=2, metric=metric, **own)
    options["callbacks"].append(quitting)
    history = {}
    booster = xgboost.train(
        {"nthread": 1, "max_depth": 3, "objective": objective, **params},
        matrix,
        25,
        evals=evals,
        evals_result=history,
        verbose_eval=False,
        custom_metric=task_metric(metric, of_evals, **own),
        **options,
    )
    return bytes(booster.save_raw("ubj")), history, quitting.quit_round


def differing_weights(part):
    """Train with other task weights on each worker."""
    own = {"base_score": 0.5}
    weights = {task: 1.0 + xgboost.collective.get_rank() for task in (0, 3, 6, 9, 12)}
    options = {"objective": "reg:squarederror", "metric": "rmse", "params": own}
    return train_by_task((part, part), task_weight=weights, **options)


def train_with_prior(rows, *, dynamic, split=None):
    """A booster whose features are drawn by a prior."""
    matrix = _matrix(rows, "QuantileDMatrix")
    callbacks = [PriorFeatureSampling([1, 2, 3, 4, 5], dynamic=dynamic)]
    if split is not None:
        callbacks.insert(0, TaskSplit("label_lower_bound", **split))
    params = {"nthread": 1, "max_depth": 3, "colsample_bynode": 0.5, "seed": 1}
    return bytes(xgboost.train(params, matrix, 8, callbacks=callbacks).save_raw("ubj"))


def continuous_errors(seeds):
    """Errors on new rows, by seed, of models of continuous features; workers share the rows."""
    errors = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 5)).astype(np.float32)
        task = rng.integers(0, 4, 3000).astype(np.float32)
        y = np.sin(2 * X[:, 0]) + (task == 1) * X[:, 1] + rng.normal(0, 0.3, 3000)
        rows = {"X": X, "y": y.astype(np.float32), "task": task}
        own = take(rows, (np.arange(3000) < 1500) & (np.arange(3000) % _n_workers() == _rank()))
        raw, _ = train(own, params={"max_depth": 3}, split={}, n_rounds=3)
        new = xgboost.DMatrix(X[1500:], nthread=1)  # on all workers: XGBoost synchronises them
        found = xgboost.Booster(model_file=bytearray(raw)).predict(new)
        errors.append(float(np.sqrt(np.mean((found - y[1500:]) ** 2))))
    return errors


def _rank():
    return xgboost.collective.get_rank()


def _n_workers():
    return xgboost.collective.get_world_size()


def squared_error(margins, matrix):
    return margins - matrix.get_label(), np.ones_like(margins)


def mean_prediction(predictions, matrix):
    """The same on all workers, as Dask needs it: a mean over all of them."""
    sums = np.array([predictions.sum(dtype=np.float64), predictions.shape[0]])
    total = xgboost.collective.allreduce(sums, xgboost.collective.Op.SUM)
    return "mean", float(total[0] / total[1])


def least_gain(_, task_gains):
    return task_gains.min(axis=1)


def count_numbers(part, max_depth=4):
    """How many numbers a worker hands to the collective in a training, by step.

    "sent" are those of the collective's calls, in which the workers are compared as well.
    """
    rows, split = part
    counts = Counter()
    add, add_up = Workers.sum_in_place, Workers._add_up

    def counted(self, values, step):
        counts[step] += values.size
        add(self, values, step)

    def sent(self, values):
        counts["sent"] += values.size
        add_up(self, values)

    with (
        mock.patch.object(Workers, "sum_in_place", counted),
        mock.patch.object(Workers, "_add_up", sent),
    ):
        train(rows, params={"max_depth": max_depth}, split=split, n_rounds=3)
    return counts


# ---- faults --------------------------------------------------------------------------------------


def train_with_own(part):
    """Train with what each worker is given for itself."""
    rows, options = part
    return train(rows, **options)


class InRound(xgboost.callback.TrainingCallback):
    """Do something in a round, on the worker whose callback it is."""

    def __init__(self, happening, number=1):
        super().__init__()
        self.happening = happening
        self.number = number

    def after_iteration(self, model, epoch, evals_log):
        if epoch == self.number:
            self.happening(model)
        return False


def end_process(_):
    os._exit(1)


def raise_error(_):
    raise ValueError("only this worker")


def grow_deeper(model):
    model.set_param({"max_depth": 6})


def train_on_separate_bins(part):
    """The matrix is made before the collective is set up: each worker has its own bins."""
    arguments, rows = part
    matrix = _matrix(rows, "QuantileDMatrix")
    with xgboost.collective.CommunicatorContext(**arguments):
        xgboost.train({"nthread": 1}, matrix, 1, callbacks=[TaskSplit("label_lower_bound")])


def sum_of_unequal_lengths(rank):
    return Workers().sum(np.zeros(3 + _rank()), "test")


def sum_at_different_steps(rank):
    return Workers().sum(np.zeros(3), f"step {_rank()}")


def sum_from_another_thread(rank):
    workers = Workers()
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(workers.sum, np.zeros(3), "test").result()


def refused_splits(rank):
    """What is said of calls that do not work on several workers."""
    rows = make_rows(60, seed=rank)
    said = {}
    cases = {
        "labels of rows": ({}, lambda: [TaskSplit(rows["task"])]),
        "medians": ({"objective": "reg:absoluteerror"}, lambda: [TaskSplit("label_lower_bound")]),
        "percentiles": (
            {"objective": "reg:quantileerror", "quantile_alpha": 0.9},
            lambda: [TaskSplit("label_lower_bound")],
        ),
        "rounded": ({}, lambda: [TaskSplit("label_lower_bound", quantized_gradients=True)]),
    }
    for name, (params, callbacks) in cases.items():
        matrix = _matrix(rows, "QuantileDMatrix")
        try:
            xgboost.train({"nthread": 1, **params}, matrix, 1, callbacks=callbacks())
        except UnsupportedError as error:
            said[name] = str(error)
    return said


def raise_on_one_while_one_waits(model):
    """Raise on one worker; another is in a call that nothing ends, as XGBoost's can be then."""
    raise_on_one(model)
    if xgboost.collective.get_rank() == 0:
        threading.Event().wait()


def raise_on_one(model):
    if xgboost.collective.get_rank() == 1:
        raise ValueError("only this worker")


def signal_from_one(process, number, model):
    if xgboost.collective.get_rank() == 1:
        os.kill(process, number)


def end_one(model):
    if xgboost.collective.get_rank() == 1:
        end_process(model)
