# SPDX-License-Identifier: Apache-2.0
"""Faults of the system while mtboost works: no memory, no threads, a full disk, signals.

A call under a fault either gives the result that it gives without, or raises an error, after which
the same call gives that result. A file is as it was, or what was to be written.
"""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import faults as system
import lightgbm
import numpy as np
import scipy.sparse as sp
from fuzz.protocol import Case, SkipCase
from numpy.testing import assert_array_equal

import mtboost

TEST_CALLS = 0
MEMORY = 1 << 42  # each case sets its limit
TIME_LIMIT = 30.0

N_ROWS, N_THREADS = 3000, 3
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N_ROWS, 8))
SPARSE = sp.random_array((N_ROWS, 40), density=0.2, rng=_RNG, format="csr")
TASK = np.arange(N_ROWS) % 3
VALUES = np.round(4 * X[:, 0] + TASK * X[:, 1])
CLASSES = np.digitize(VALUES, [-2, 2])
OUTPUTS = np.column_stack([VALUES, X[:, 2], X[:, 3] * X[:, 4]])
LABELS = (OUTPUTS > 0).astype(int)


def _estimator(make: Any, *data: Any, **options: Any) -> Callable[[int], Any]:
    def fitted(n_threads: int) -> Any:
        rows = {"task": TASK} if make.__name__.startswith("MT") else {}
        model = make(random_state=0, n_jobs=n_threads, **options).fit(*data, **rows)
        return model.predict(data[0], **rows)

    return fitted


def _fit(backend: str) -> Callable[[int], Any]:
    def fitted(n_threads: int) -> Any:
        options = {"num_boost_round": 2, "specific_rounds": 1, "backend": backend}
        model = mtboost.fit(
            X, VALUES, task=TASK, n_threads=n_threads, **{"strategy": "two-stage", **options}
        )
        return model.predict(X, task=TASK)

    return fitted


@functools.cache
def model(kind: str) -> Any:
    if kind == "forest":
        return mtboost.MTExtraTreesRegressor(10, random_state=0, n_jobs=1).fit(X, VALUES, task=TASK)
    options = {"num_boost_round": 3, "specific_rounds": 3, "backend": kind}
    return mtboost.fit(X, VALUES, task=TASK, n_threads=1, **{"strategy": "two-stage", **options})


#: Functions of the core, which must survive anything; of the number of threads.
CORE = {
    "MTExtraTreesRegressor": _estimator(mtboost.MTExtraTreesRegressor, X, VALUES, n_estimators=3),
    "MTExtraTreesClassifier, sparse": _estimator(
        mtboost.MTExtraTreesClassifier, SPARSE, CLASSES, n_estimators=3, splitter="best"
    ),
    "MTDecisionTreeClassifier": _estimator(
        mtboost.MTDecisionTreeClassifier, X, CLASSES, max_depth=4
    ),
    "MTAdaBoostClassifier": _estimator(
        mtboost.MTAdaBoostClassifier, X, CLASSES, n_estimators=2, max_depth=3
    ),
    "ProjectedForestClassifier": _estimator(
        mtboost.ProjectedForestClassifier, X, LABELS, n_estimators=3
    ),
    "prediction of a forest": lambda n_threads: model("forest").predict(X, task=TASK),
}
#: Functions that XGBoost or LightGBM has a part in, which end the process if they get no memory or
#: thread. Ctrl-C in them is tried by ctrl_c.py.
STOCK = {
    "fit, xgboost": _fit("xgboost"),
    "fit, lightgbm": _fit("lightgbm"),
    "ProjectedBoostingRegressor": _estimator(
        mtboost.ProjectedBoostingRegressor, X, OUTPUTS, n_estimators=2
    ),
    "PriorSamplingRegressor": _estimator(mtboost.PriorSamplingRegressor, X, VALUES, n_estimators=2),
}
MODELS = ("forest", "xgboost", "lightgbm")
ERRORS = (MemoryError, RuntimeError, OSError, ValueError, lightgbm.basic.LightGBMError)


@functools.cache
def _expected(name: str) -> Any:
    """What a function gives without a fault."""
    return {**CORE, **STOCK}[name](1)


def case(seed: int) -> Case:
    if not system.IS_SUPPORTED:
        return Case(_skip, "faults are made on Linux only")
    rng = np.random.default_rng(seed)
    if rng.random() < 0.3:
        return _save_case(rng)
    fault, text, refusals = _fault(rng)
    names = [*CORE, *STOCK] if text == "signals" else [*CORE]
    name = str(rng.choice(names))
    # A new thread that cannot get its thread-local memory ends the process, by the C library.
    n_threads = 1 if text.startswith("memory") or name in STOCK else N_THREADS

    def call() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {**CORE, **STOCK}[name](n_threads)

    def run() -> None:
        expected = _expected(name)
        try:
            with fault:
                found = call()
        except refusals:
            assert_array_equal(call(), expected, err_msg="after the fault")
            raise
        assert_array_equal(found, expected, err_msg="under the fault")

    return Case(run, f"{name}, {text}", refusals=refusals)


def _fault(rng: np.random.Generator) -> tuple[AbstractContextManager[None], str, tuple[Any, ...]]:
    match rng.choice(["memory", "threads", "signals", "interrupt"], p=[0.5, 0.2, 0.1, 0.2]):
        case "memory":
            n_bytes = int(2 ** rng.uniform(14, 24))
            return system.limited_memory(n_bytes), f"memory of {n_bytes} bytes", ERRORS
        case "threads":
            n = int(rng.integers(0, N_THREADS + 1))
            return system.failing_threads(n), f"threads: {n} more", ERRORS
        case "signals":
            return system.many_signals(10 ** rng.uniform(-4, -2)), "signals", ()
        case _:
            seconds = 10 ** rng.uniform(-4, -1)
            return (
                system.interrupted(seconds),
                f"Ctrl-C after {seconds:.4f} s",
                (KeyboardInterrupt,),
            )


def _save_case(rng: np.random.Generator) -> Case:
    kind, other = rng.choice(MODELS, 2)
    fault, text, refusals = _fault(rng)
    if text.startswith("threads"):
        share = rng.random() * 1.1
        fault, text, refusals = nullcontext(), f"a disk of {share:.0%} of the file", (OSError,)
    if text.startswith("memory") and kind != "forest":
        return Case(_skip, "boosters are written by their libraries")

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path, new = Path(folder) / "model.mtb", Path(folder) / "new.mtb"
            model(str(other)).save(path)
            model(str(kind)).save(new)
            before, after = path.read_bytes(), new.read_bytes()
            new.unlink()
            own = fault
            if isinstance(fault, nullcontext):
                own = system.limited_files(int(share * len(after)))
            try:
                with own:
                    model(str(kind)).save(path)
            except refusals as error:
                is_interrupt = isinstance(error, KeyboardInterrupt)
                assert path.read_bytes() in ((before, after) if is_interrupt else (before,))
                if is_interrupt:  # perhaps just as the file was created: the next save removes it
                    model(str(kind)).save(path)
                assert os.listdir(folder) == ["model.mtb"], "a temporary file was left"
                raise
            assert path.read_bytes() == after

    return Case(run, f"save of {kind} over {other}, {text}", refusals=refusals)


def _skip() -> None:
    raise SkipCase
