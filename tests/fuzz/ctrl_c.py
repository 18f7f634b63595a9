# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at random moments: does the process survive, and does it train the same model afterwards?

A case runs an entry again and again and sends SIGINT to the process at a random moment of each run:
at a point in time, or before a line of Python of mtboost, XGBoost or LightGBM. After each signal it
runs the entry once more, undisturbed and on the same matrices, and compares the result with that of
the first run. A worker that dies or hangs is a finding like any other.
"""

from __future__ import annotations

import functools
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost
from fuzz.protocol import Case

import mtboost
import mtboost.lightgbm
import mtboost.xgboost

Run = Callable[[], bytes]

TIME_LIMIT = 300.0
MOMENTS = ("lines", "times")
_FOLLOWED = ("mtboost", "xgboost", "lightgbm")

# Entries ------------------------------------------------------------------------------------------
#
# An entry makes its matrices and returns what is run on them, whose result is compared.

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(800, 6))
TASK = _RNG.integers(0, 3, 800)
Y = X[:, 0] * (1 + TASK) + _RNG.normal(size=800)
CLASSES = (Y > 0).astype(float)
OUTPUTS = np.column_stack([Y, X[:, 1], X[:, 2] - Y])
XGBOOST = {"nthread": 1}
LIGHTGBM = {"num_threads": 1, "verbosity": -1}


def raw(booster: Any) -> bytes:
    """All bytes of a booster of either library."""
    if hasattr(booster, "save_raw"):
        return bytes(booster.save_raw("ubj"))
    text: str = booster.model_to_string(num_iteration=-1)
    return text.encode()


def raw_of_model(model: Any) -> bytes:
    """All bytes of the boosters of a model."""
    return b"".join(raw(model.booster(task)) for task in model.tasks)


def _fitted(backend: str = "xgboost", **options: Any) -> Any:
    given = {"num_boost_round": 10, "specific_rounds": 5, "n_threads": 1, "strategy": "two-stage"}
    return mtboost.fit(X, Y, task=TASK, backend=backend, **{**given, **options})


def _fit(backend: str, **options: Any) -> Run:
    given = {"n_threads": 2, "seed": 1, "early_stopping_rounds": 3, **options}
    return lambda: raw_of_model(_fitted(backend, **given))


def _train() -> Run:
    data = mtboost.Dataset(X, Y, task=TASK)
    options = {"evals": [(data, "train")], "verbose_eval": False}
    return lambda: raw(mtboost.train({"seed": 1, **XGBOOST}, data, 20, **options))


def _matrix(label: Any = Y, **options: Any) -> Any:
    return xgboost.QuantileDMatrix(X, label, nthread=1, **options)


def _dataset(label: Any = Y, **options: Any) -> Any:
    data = lightgbm.Dataset(X, label, params={"num_threads": 1}, free_raw_data=False, **options)
    return data.construct()


def _split_xgboost() -> Run:
    matrix = _matrix(base_margin=0.1 * X[:, 1])
    valid = _matrix(base_margin=0.1 * X[:, 1], ref=matrix)
    options = {"evals": [(matrix, "train"), (valid, "valid")], "verbose_eval": False}
    ours = mtboost.xgboost

    def run() -> bytes:
        quitting = ours.TaskQuitting(valid, TASK, early_stopping_rounds=3)
        callbacks = [ours.TaskSplit(TASK), quitting]
        params = {"subsample": 0.8, **XGBOOST}
        return raw(xgboost.train(params, matrix, 20, callbacks=callbacks, **options))

    return run


def _split_lightgbm() -> Run:
    data, valid = (_dataset(init_score=0.1 * X[:, 1]) for _ in range(2))
    ours = mtboost.lightgbm

    def run() -> bytes:
        quitting = ours.TaskQuitting(valid, TASK, early_stopping_rounds=3)
        callbacks = [ours.TaskSplit(TASK), quitting]
        return raw(lightgbm.train(LIGHTGBM, data, 20, valid_sets=[valid], callbacks=callbacks))

    return run


def _objective_xgboost() -> Run:
    matrix, ours = _matrix(), mtboost.xgboost
    metric = ours.task_metric("rmse", [(matrix, TASK)])
    options = {"evals": [(matrix, "train")], "custom_metric": metric, "verbose_eval": False}

    def run() -> bytes:
        own = ours.TaskObjective("reg:squarederror", TASK, task_weight="balanced", n_threads=1)
        quitting = ours.TaskQuitting(matrix, TASK, early_stopping_rounds=3, objective=own)
        return raw(xgboost.train(XGBOOST, matrix, 30, obj=own, callbacks=[quitting], **options))

    return run


def _objective_lightgbm() -> Run:
    data, ours = _dataset(), mtboost.lightgbm
    options = {"valid_sets": [data], "feval": ours.task_metric("rmse", [(data, TASK)])}

    def run() -> bytes:
        own = ours.TaskObjective("regression", TASK, task_weight="balanced", n_threads=1)
        quitting = ours.TaskQuitting(
            data, TASK, metric="rmse", early_stopping_rounds=3, objective=own
        )
        params = {"objective": own, **LIGHTGBM}
        return raw(lightgbm.train(params, data, 30, callbacks=[quitting], **options))

    return run


def _projected_xgboost() -> Run:
    matrix = _matrix(OUTPUTS)
    params = {"multi_strategy": "multi_output_tree", "min_child_weight": 0, **XGBOOST}

    def run() -> bytes:
        projected = mtboost.xgboost.ProjectedObjective(n_components=2, n_threads=1)
        return raw(xgboost.train(params, matrix, 15, callbacks=[projected]))

    return run


def _projected_lightgbm() -> Run:
    data = _dataset()

    def run() -> bytes:
        projected = mtboost.lightgbm.ProjectedObjective(OUTPUTS, n_threads=1)
        booster = lightgbm.train(LIGHTGBM, data, 20, callbacks=[projected])
        return raw(projected.model(booster).booster(1))

    return run


def _prior_sampling() -> Run:
    matrix, params = _matrix(), {"colsample_bynode": 0.5, "seed": 1, **XGBOOST}

    def run() -> bytes:
        sampling = mtboost.xgboost.PriorFeatureSampling([5, 1, 1, 1, 1, 1])
        trained = raw(xgboost.train(params, matrix, 20, callbacks=[sampling]))
        # What training leaves in the user's matrix shows in a stock training.
        return trained + raw(xgboost.train(params, matrix, 2))

    return run


def _estimator(name: str, labels: Any, **options: Any) -> Run:
    given = {"task": TASK} if name.startswith(("MT", "MultiTask")) else {}

    def run() -> bytes:
        model = getattr(mtboost, name)(**{"random_state": 1, "n_jobs": 2, **options})
        return pickle.dumps(model.fit(X, labels, **given).predict(X, **given))

    return run


def _compress() -> Run:
    forest = mtboost.ProjectedForestRegressor(n_estimators=5, max_depth=4, random_state=1)
    forest.fit(X, OUTPUTS)
    options = {"n_steps": 2000, "cv": 3}
    return lambda: mtboost.compress(forest, X, OUTPUTS, **options).predict(X).tobytes()


def _tune() -> Run:
    options = {"n_trials": 2, "seed": 1, "num_boost_round": 4, "n_threads": 1}

    def run() -> bytes:
        with warnings.catch_warnings():  # that the best trial so far is taken
            warnings.simplefilter("ignore")
            found = mtboost.tune(X, Y, task=TASK, strategy="two-stage", **options)
        return raw_of_model(found.model)

    return run


def _save() -> Run:
    folder = Path(tempfile.mkdtemp())
    models = {folder / f"{name}.mtboost": _fitted(name) for name in ("xgboost", "lightgbm")}

    def run() -> bytes:
        for path, model in models.items():
            model.save(path)
        left = sorted(file.name for file in folder.iterdir())
        return (
            b"".join(raw_of_model(mtboost.load_model(path)) for path in models) + str(left).encode()
        )

    return run


def _predict() -> Run:
    models = [_fitted(), _fitted("lightgbm")]

    def run() -> bytes:
        return b"".join(
            model.predict(X, task=TASK).tobytes()
            + model.contributions(X[:50], task=TASK[:50]).tobytes()
            + raw_of_model(model)
            for model in models
        )

    return run


def _add_task() -> Run:
    path = Path(tempfile.mkdtemp()) / "model"
    _fitted().save(path)

    def run() -> bytes:
        model = mtboost.load_model(path)
        model.add_task(3, X[:300], Y[:300], specific_rounds=10, n_threads=1)
        return raw_of_model(model)

    return run


_SEARCH = {"strategy": "auto", "effort": "fast", "num_boost_round": 2, "specific_rounds": 2}
_SEARCH |= {"n_threads": 1, "validation_fraction": 0.2}
_SPLITS = {"split_score": "plain", "task_splits": True, "pooling": "auto"}
ENTRIES: dict[str, Callable[[], Run]] = {
    "fit-xgboost": lambda: _fit("xgboost"),
    "fit-auto-xgboost": lambda: _fit("xgboost", **_SEARCH),
    "fit-lightgbm": lambda: _fit("lightgbm"),
    "fit-auto-lightgbm": lambda: _fit("lightgbm", linear_effects=False, **_SEARCH),
    "fit-splits-pooling": lambda: _fit("xgboost", **_SPLITS),
    "train": _train,
    "TaskSplit-xgboost": _split_xgboost,
    "TaskSplit-lightgbm": _split_lightgbm,
    "TaskObjective-xgboost": _objective_xgboost,
    "TaskObjective-lightgbm": _objective_lightgbm,
    "ProjectedObjective-xgboost": _projected_xgboost,
    "ProjectedObjective-lightgbm": _projected_lightgbm,
    "PriorFeatureSampling": _prior_sampling,
    **{
        name: functools.partial(_estimator, name, labels, **options)
        for name, labels, options in (
            ("ProjectedBoostingRegressor", OUTPUTS, {"n_estimators": 20}),
            ("ProjectedBoostingClassifier", CLASSES, {"n_estimators": 20}),
            ("PriorSamplingRegressor", Y, {"n_estimators": 20}),
            ("PriorSamplingClassifier", CLASSES, {"n_estimators": 20}),
            ("MTExtraTreesRegressor", Y, {"n_estimators": 200}),
            ("MTExtraTreesClassifier", CLASSES, {"n_estimators": 200}),
            ("ProjectedForestRegressor", OUTPUTS, {"n_estimators": 50}),
            ("MTAdaBoostClassifier", CLASSES, {"n_estimators": 10}),
            (
                "MultiTaskRegressor",
                Y,
                {"n_estimators": 15, "n_jobs": 1, "strategy": "two-stage"},
            ),
        )
    },
    "compress": _compress,
    "tune": _tune,
    "save": _save,
    "predict": _predict,
    "add_task": _add_task,
}
TEST_CALLS = len(ENTRIES) if os.name == "posix" else 0


# Signals ------------------------------------------------------------------------------------------


class _Lines:
    """Counts lines of Python of the libraries that the main thread runs, and stops at one."""

    def __init__(self, last: int = 0, reached: Callable[[], None] = lambda: None) -> None:
        self.n_done = 0
        self._last, self._reached = last, reached
        self._files: dict[str, bool] = {}

    def __enter__(self) -> _Lines:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in self._files:
            parts = Path(name).parts
            self._files[name] = any(library in parts for library in _FOLLOWED)
        return self._line if self._files[name] else None

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.n_done += 1
            if self.n_done == self._last:
                self._reached()
        return self._line


@functools.cache
def _undisturbed(name: str) -> tuple[Run, bytes, float, int]:
    """An entry: what is run, its result, and the seconds and the lines of Python that it takes."""
    run = ENTRIES[name]()
    expected = run()
    begin = time.perf_counter()
    assert run() == expected, "two undisturbed runs differ"
    seconds = time.perf_counter() - begin
    with _Lines() as lines:
        run()
    return run, expected, seconds, lines.n_done


def _press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def _pressed_after(seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, _press_ctrl_c)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _keyboard_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt once, as Python's own handler does, while the block is under way."""
    is_armed = True

    def interrupt(*_: object) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    with suppress(KeyboardInterrupt):
        try:
            yield
        finally:
            is_armed = False


def case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    name = list(ENTRIES)[seed % len(ENTRIES)]

    def check() -> None:
        run, expected, seconds, n_lines = _undisturbed(name)
        for moments in MOMENTS:
            part = rng.random()
            pressed = _pressed_after(part * seconds)
            if moments == "lines":
                pressed = _Lines(1 + int(part * n_lines), _press_ctrl_c)
            with _keyboard_interrupts(), pressed:
                run()
            assert run() == expected, f"another result after a signal at {part:.0%} of {moments}"

    return Case(check, f"{len(MOMENTS)} signals at random moments of {name}")
