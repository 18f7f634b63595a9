# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at random moments: does the process survive, and does it train the same model afterwards?

:func:`send_signals` runs an entry in a child process again and again and sends SIGINT to it at a
random moment of each run: at a point in time, or before a line of Python of mtboost, XGBoost or
LightGBM. After each signal the child runs the entry once more, undisturbed and on the same
matrices, and compares the result with that of its first run.

From the command line, for the entries whose names are given or for all of mtboost::

    python tests/fuzz/signals.py --number 200 --seed 0 --moments times fit-xgboost train
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Run = Callable[[], bytes]
Moments = Literal["times", "lines"]

#: Seconds after which a run that says nothing is taken for one that hangs.
EARLY_STOPPING_ROUNDS = 120.0


@dataclass
class Counts:
    """What followed the signals that an entry was sent."""

    interrupted: int = 0  # KeyboardInterrupt
    finished: int = 0  # the run was over before the signal came
    swallowed: int = 0  # the signal came, and the run returned as if it had not
    failed: int = 0  # an exception other than KeyboardInterrupt
    died: int = 0  # the process ended
    hung: int = 0  # no answer within EARLY_STOPPING_ROUNDS
    unusable: int = 0  # afterwards the same run failed or gave another result

    @property
    def n_defects(self) -> int:
        """Signals that were not answered as they must be."""
        return self.failed + self.died + self.hung + self.unusable

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in asdict(self).items() if count)


# ---- entries -----------------------------------------------------------------------------------
#
# An entry makes its matrices and returns what is run on them, whose result is compared. Imports
# stand inside, so that the parent needs none of the libraries.

ENTRIES: dict[str, Callable[[], Run]] = {}
#: Libraries alone: what dies there is not mtboost's to repair.
CONTROLS: dict[str, Callable[[], Run]] = {}


def entry(name: str, among: dict[str, Callable[[], Run]] = ENTRIES) -> Any:
    def register(make: Callable[[], Run]) -> Callable[[], Run]:
        among[name] = make
        return make

    return register


@cache
def table() -> tuple[Any, Any, Any, Any]:
    """X, a number and a class for each row, and its task."""
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 6))
    task = rng.integers(0, 3, 800)
    y = X[:, 0] * (1 + task) + rng.normal(size=800)
    return X, y, (y > 0).astype(float), task


def raw(booster: Any) -> bytes:
    """All bytes of a booster of either library."""
    if hasattr(booster, "save_raw"):
        return bytes(booster.save_raw("ubj"))
    text: str = booster.model_to_string(num_iteration=-1)
    return text.encode()


def raw_of_model(model: Any) -> bytes:
    """All bytes of the boosters of a model."""
    return b"".join(raw(model.booster(task)) for task in model.tasks)


def entry_of_fit(backend: str, **options: Any) -> Callable[[], Run]:
    def make() -> Run:
        import mtboost

        X, y, _, task = table()
        given = {"num_boost_round": 10, "specific_rounds": 5, "n_threads": 2, "seed": 1}
        given |= {"early_stopping_rounds": 3, **options}
        return lambda: raw_of_model(
            mtboost.fit(X, y, task=task, backend=backend, **{"strategy": "two-stage", **given})
        )

    return make


for _library in ("xgboost", "lightgbm"):
    ENTRIES[f"fit-{_library}"] = entry_of_fit(_library)
    ENTRIES[f"fit-auto-{_library}"] = entry_of_fit(
        _library, strategy="auto", num_boost_round=3, specific_rounds=2, n_threads=1
    )
ENTRIES["fit-splits-pooling"] = entry_of_fit(
    "xgboost", split_score="plain", task_splits=True, pooling="auto"
)


@entry("train")
def _train() -> Run:
    import mtboost

    X, y, _, task = table()
    data = mtboost.Dataset(X, y, task=task)
    params = {"nthread": 1, "seed": 1}
    return lambda: raw(mtboost.train(params, data, 20, evals=[(data, "train")], verbose_eval=False))


def xgboost_matrix(label: Any, **options: Any) -> Any:
    import xgboost

    return xgboost.QuantileDMatrix(table()[0], label, nthread=1, **options)


def dataset(label: Any) -> Any:
    import lightgbm

    data = lightgbm.Dataset(table()[0], label, params={"num_threads": 1}, free_raw_data=False)
    return data.construct()


@entry("TaskSplit-xgboost")
def _task_split_xgboost() -> Run:
    import xgboost

    from mtboost.xgboost import TaskQuitting, TaskSplit

    X, y, _, task = table()
    matrix = xgboost_matrix(y, base_margin=0.1 * X[:, 1])
    valid = xgboost_matrix(y, base_margin=0.1 * X[:, 1], ref=matrix)

    def run() -> bytes:
        callbacks = [TaskSplit(task), TaskQuitting(valid, task, early_stopping_rounds=3)]
        evals = [(matrix, "train"), (valid, "valid")]
        params = {"nthread": 1, "subsample": 0.8}
        return raw(
            xgboost.train(params, matrix, 20, evals=evals, callbacks=callbacks, verbose_eval=False)
        )

    return run


@entry("TaskSplit-lightgbm")
def _task_split_lightgbm() -> Run:
    import lightgbm

    from mtboost.lightgbm import TaskQuitting, TaskSplit

    X, y, _, task = table()
    data, valid = dataset(y), dataset(y)
    for rows in (data, valid):
        rows.set_init_score(0.1 * X[:, 1])
    params = {"num_threads": 1, "verbosity": -1}

    def run() -> bytes:
        callbacks = [TaskSplit(task), TaskQuitting(valid, task, early_stopping_rounds=3)]
        return raw(lightgbm.train(params, data, 20, valid_sets=[valid], callbacks=callbacks))

    return run


@entry("TaskObjective-xgboost")
def _task_objective_xgboost() -> Run:
    import xgboost

    from mtboost.xgboost import TaskObjective, TaskQuitting, task_metric

    _, y, _, task = table()
    matrix = xgboost_matrix(y)
    by_task = task_metric("rmse", [(matrix, task)])

    def run() -> bytes:
        objective = TaskObjective("reg:squarederror", task, task_weight="balanced", n_threads=1)
        quitting = TaskQuitting(matrix, task, early_stopping_rounds=3, objective=objective)
        return raw(
            xgboost.train(
                {"nthread": 1},
                matrix,
                30,
                obj=objective,
                evals=[(matrix, "train")],
                custom_metric=by_task,
                callbacks=[quitting],
                verbose_eval=False,
            )
        )

    return run


@entry("TaskObjective-lightgbm")
def _task_objective_lightgbm() -> Run:
    import lightgbm

    from mtboost.lightgbm import TaskObjective, TaskQuitting, task_metric

    _, y, _, task = table()
    data = dataset(y)
    by_task = task_metric("rmse", [(data, task)])

    def run() -> bytes:
        objective = TaskObjective("regression", task, task_weight="balanced", n_threads=1)
        params = {"num_threads": 1, "verbosity": -1, "objective": objective}
        quitting = TaskQuitting(
            data, task, metric="rmse", early_stopping_rounds=3, objective=objective
        )
        return raw(
            lightgbm.train(params, data, 30, valid_sets=[data], feval=by_task, callbacks=[quitting])
        )

    return run


def outputs() -> Any:
    """Three outputs."""
    import numpy as np

    X, y, *_ = table()
    return np.column_stack([y, X[:, 1], X[:, 2] - y])


@entry("ProjectedObjective-xgboost")
def _projected_objective_xgboost() -> Run:
    import xgboost

    from mtboost.xgboost import ProjectedObjective

    matrix = xgboost_matrix(outputs())
    params = {"nthread": 1, "multi_strategy": "multi_output_tree", "min_child_weight": 0}

    def run() -> bytes:
        projected = ProjectedObjective(n_components=2, n_threads=1)
        return raw(xgboost.train(params, matrix, 15, callbacks=[projected]))

    return run


@entry("ProjectedObjective-lightgbm")
def _projected_objective_lightgbm() -> Run:
    import lightgbm

    from mtboost.lightgbm import ProjectedObjective

    Y = outputs()
    data = dataset(Y[:, 0])
    params = {"num_threads": 1, "verbosity": -1}

    def run() -> bytes:
        projected = ProjectedObjective(Y, n_threads=1)
        booster = lightgbm.train(params, data, 20, callbacks=[projected])
        return raw(projected.model(booster).booster(1))

    return run


@entry("PriorFeatureSampling")
def _prior_feature_sampling() -> Run:
    import xgboost

    from mtboost.xgboost import PriorFeatureSampling

    matrix = xgboost_matrix(table()[1])
    params = {"nthread": 1, "colsample_bynode": 0.5, "seed": 1}

    def run() -> bytes:
        sampling = PriorFeatureSampling([5, 1, 1, 1, 1, 1])
        trained = raw(xgboost.train(params, matrix, 20, callbacks=[sampling]))
        # What training leaves in the user's matrix shows in a stock training.
        return trained + raw(xgboost.train(params, matrix, 2))

    return run


def entry_of_estimator(name: str, label: str, **options: Any) -> Callable[[], Run]:
    def make() -> Run:
        import pickle

        import mtboost

        X, y, classes, task = table()
        labels = {"y": y, "classes": classes, "outputs": outputs()}[label]
        given = {"task": task} if "MT" in name else {}

        def run() -> bytes:
            model = getattr(mtboost, name)(random_state=1, n_jobs=2, **options)
            return pickle.dumps(model.fit(X, labels, **given).predict(X, **given))

        return run

    return make


for _name, _label, _options in (
    ("ProjectedBoostingRegressor", "outputs", {"n_estimators": 20}),
    ("ProjectedBoostingClassifier", "classes", {"n_estimators": 20}),
    ("PriorSamplingRegressor", "y", {"n_estimators": 20}),
    ("PriorSamplingClassifier", "classes", {"n_estimators": 20}),
    ("MTExtraTreesRegressor", "y", {"n_estimators": 200}),
    ("MTExtraTreesClassifier", "classes", {"n_estimators": 200}),
    ("ProjectedForestRegressor", "outputs", {"n_estimators": 50}),
    ("MTAdaBoostClassifier", "classes", {"n_estimators": 10}),
):
    ENTRIES[_name] = entry_of_estimator(_name, _label, **_options)


@entry("MultiTaskRegressor")
def _multi_task_regressor() -> Run:
    import mtboost

    X, y, _, task = table()

    def run() -> bytes:
        model = mtboost.MultiTaskRegressor(
            n_estimators=15, n_jobs=1, random_state=1, strategy="two-stage"
        )
        found: bytes = model.fit(X, y, task=task).predict(X, task=task).tobytes()
        return found

    return run


@entry("compress")
def _compress() -> Run:
    import mtboost

    X, *_ = table()
    forest = mtboost.ProjectedForestRegressor(n_estimators=5, max_depth=4, random_state=1)
    forest.fit(X, outputs())

    def run() -> bytes:
        small = mtboost.compress(forest, X, outputs(), n_steps=2000, cv=3)
        found: bytes = small.predict(X).tobytes()
        return found

    return run


@entry("tune")
def _tune() -> Run:
    import mtboost

    X, y, _, task = table()

    def run() -> bytes:
        with warnings.catch_warnings():  # that the best trial so far is taken
            warnings.simplefilter("ignore")
            found = mtboost.tune(
                X,
                y,
                task=task,
                n_trials=2,
                seed=1,
                num_boost_round=4,
                n_threads=1,
                strategy="two-stage",
            )
        return raw_of_model(found.model)

    return run


def fitted(backend: str = "xgboost") -> Any:
    import mtboost

    X, y, _, task = table()
    return mtboost.fit(
        X,
        y,
        task=task,
        backend=backend,
        num_boost_round=10,
        specific_rounds=5,
        n_threads=1,
        strategy="two-stage",
    )


@entry("save")
def _save() -> Run:
    import mtboost

    models = [fitted(), fitted("lightgbm")]
    folder = tempfile.mkdtemp()
    paths = [Path(folder) / f"{number}.mtboost" for number in range(len(models))]

    def run() -> bytes:
        for path, model in zip(paths, models, strict=True):
            model.save(path)
        loaded = [mtboost.load_model(path) for path in paths]
        left = sorted(file.name for file in Path(folder).iterdir())
        return b"".join(map(raw_of_model, loaded)) + repr(left).encode()

    return run


@entry("predict")
def _predict() -> Run:
    X, _, _, task = table()
    models = [fitted(), fitted("lightgbm")]

    def run() -> bytes:
        return b"".join(
            model.predict(X, task=task).tobytes()
            + model.contributions(X[:50], task=task[:50]).tobytes()
            + raw_of_model(model)
            for model in models
        )

    return run


@entry("add_task")
def _add_task() -> Run:
    import mtboost

    X, y, *_ = table()
    path = Path(tempfile.mkdtemp()) / "model"
    fitted().save(path)

    def run() -> bytes:
        model = mtboost.load_model(path)
        model.add_task(3, X[:300], y[:300], specific_rounds=10, n_threads=1)
        return raw_of_model(model)

    return run


@entry("stock-QuantileDMatrix", CONTROLS)
def _stock_quantile_matrix() -> Run:
    import xgboost

    def run() -> bytes:
        matrix = xgboost_matrix(table()[1])
        return raw(xgboost.train({"nthread": 1}, matrix, 1))

    return run


@entry("stock-DMatrix", CONTROLS)
def _stock_matrix() -> Run:
    import xgboost

    def run() -> bytes:
        matrix = xgboost.DMatrix(table()[0], table()[1], nthread=1)
        return raw(xgboost.train({"nthread": 1}, matrix, 1))

    return run


@entry("stock-lightgbm", CONTROLS)
def _stock_lightgbm() -> Run:
    import lightgbm

    return lambda: raw(lightgbm.train({"num_threads": 1, "verbosity": -1}, dataset(table()[1]), 5))


# ---- the child ---------------------------------------------------------------------------------
#
# What the parent says, and what the child answers:
#   entry NAME   the seconds that an undisturbed run takes
#   count        the lines of Python that it takes
#   line NUMBER  OUTCOME USABLE, after a signal that the child has sent before that line
#   time         begin, and over; the parent sends a signal at some time after "begin"
#   sent         OUTCOME USABLE

_FOLLOWED = ("mtboost", "xgboost", "lightgbm")


class _Lines:
    """Counts lines of Python of the libraries that the main thread runs, and stops at one."""

    def __init__(self, last: int, reached: Callable[[], None]) -> None:
        self.n_done = 0
        self._last = last
        self._reached = reached
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


class _Handler:
    """Raises KeyboardInterrupt, as Python's own handler does, while a run is under way."""

    def __init__(self) -> None:
        self.is_armed = False
        self.has_come = False

    def __call__(self, *_: object) -> None:
        self.has_come = True
        if self.is_armed:
            self.is_armed = False
            raise KeyboardInterrupt


def _child() -> None:
    faulthandler.enable()
    handler = _Handler()
    signal.signal(signal.SIGINT, handler)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    run: Run = lambda: b""  # noqa: E731  # until the first entry
    expected = b""
    for line in sys.stdin:
        words = line.split()
        if words[0] == "entry":
            run = {**ENTRIES, **CONTROLS}[words[1]]()
            expected = run()
            begin = time.perf_counter()
            assert run() == expected, "two undisturbed runs differ"
            print(time.perf_counter() - begin, file=answers)
        elif words[0] == "count":
            with _Lines(0, lambda: None) as lines:
                run()
            print(lines.n_done, file=answers)
        elif words[0] in ("time", "line"):
            outcome = _interrupted(run, handler, words, answers)
            usable = _gives(run, expected)
            print(f"{outcome} {usable}", file=answers)


def _interrupted(run: Run, handler: _Handler, words: list[str], answers: Any) -> str:
    handler.has_come = False
    is_sent_here = words[0] == "line"
    try:
        handler.is_armed = True
        if is_sent_here:
            with _Lines(int(words[1]), lambda: os.kill(os.getpid(), signal.SIGINT)):
                run()
        else:
            print("begin", file=answers)
            run()
        outcome = "returned"
    except KeyboardInterrupt:
        outcome = "interrupted"
    except Exception:
        traceback.print_exc()
        outcome = "failed"
    handler.is_armed = False
    sys.settrace(None)
    if outcome == "returned":
        outcome = "swallowed" if handler.has_come else "finished"
    if not is_sent_here:
        print("over", file=answers)
        assert sys.stdin.readline() == "sent\n"
    return outcome


def _gives(run: Run, expected: bytes) -> bool:
    try:
        found = run()
    except BaseException:
        traceback.print_exc()
        return False
    if found != expected:
        print("another result after a signal", file=sys.stderr)
    return found == expected


# ---- the parent --------------------------------------------------------------------------------


class Child:
    """A process that runs entries, and a new one where it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._entry = ""
        #: Duration and lines of Python of an undisturbed run of the entry (0: unknown).
        self.seconds, self.n_lines = 0.0, 0
        #: What children that died or hung, and exceptions, have left on the standard error.
        self.complaints: list[str] = []

    def start(self, name: str) -> None:
        """Make the entry the one that runs."""
        if self._process is None:
            self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the process
            self._folder = tempfile.TemporaryDirectory(prefix="mtboost-signals-")
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                bufsize=1,
                # Threads that wait for work would keep the cores from those that have some.
                env={**os.environ, "OMP_WAIT_POLICY": "passive", "TMPDIR": self._folder.name},
            )
            self._answers = queue.Queue()
            reader = (self._process.stdout, self._answers)
            threading.Thread(target=_read, args=reader, daemon=True).start()
        if self._entry != name:
            answer = self._ask(f"entry {name}")
            if answer is None:
                raise RuntimeError(f"{name} fails without any signal:\n{self._complaint()}")
            self._entry = name
            self.seconds, self.n_lines = float(answer[0]), 0

    def signal_at(self, moment: float, moments: Moments) -> tuple[str, bool]:
        """Send a signal after a fraction of a run: what followed, and whether the child is usable.

        Raises
        ------
        ChildProcessError
            The process has died.
        TimeoutError
            It answers no more.
        """
        if moments == "lines":
            if self.n_lines == 0:
                self.n_lines = int((self._ask("count") or ["0"])[0])
            answer = self._ask(f"line {1 + int(moment * self.n_lines)}")
        else:
            answer = self._ask("time")
            if answer is not None:
                time.sleep(moment * self.seconds)
                self._signal()
                # Whatever it is still doing, it reads this when it is over.
                answer = self._next() and self._ask("sent")
        if answer is None:
            raise ChildProcessError
        if answer[0] in ("failed", "swallowed") or answer[1] != "True":
            self.complaints.append(self._complaint())
        return answer[0], answer[1] == "True"

    def close(self) -> None:
        """End the process, however it is."""
        process, self._process, self._entry = self._process, None, ""
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, self._log):
                assert pipe is not None
                pipe.close()
            self._folder.cleanup()

    def give_up(self) -> None:
        """Keep what the process has left on its standard error, and end it."""
        self.complaints.append(self._complaint())
        self.close()

    def _signal(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def _ask(self, line: str) -> list[str] | None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        return self._next()

    def _next(self) -> list[str] | None:
        """Words of the next answer; None if the process has ended."""
        try:
            answer = self._answers.get(timeout=EARLY_STOPPING_ROUNDS)
        except queue.Empty:
            raise TimeoutError from None
        return answer.split() or None

    def _complaint(self) -> str:
        process = self._process
        assert process is not None
        code = process.poll()
        self._log.seek(0)
        return f"exit status {code}\n" + "".join(self._log.readlines()[-40:])


def _read(pipe: Any, answers: queue.Queue[str]) -> None:
    for line in pipe:
        answers.put(line)
    answers.put("")


def send_signals(
    name: str, number: int, seed: int, *, moments: Moments = "times", child: Child | None = None
) -> Counts:
    """Send signals to runs of an entry, each at a random moment.

    Parameters
    ----------
    name : str
        One of ENTRIES or CONTROLS.
    number : int
        Signals.
    seed : int
        Of the moments.
    moments : {"times", "lines"}, default="times"
        Points in time, or lines of Python of mtboost, XGBoost or LightGBM: these do not depend on
        the speed of the machine, but no signal then comes while a library computes.
    child : Child, optional
        A process to go on with, which may serve several entries.
    """
    import random

    if child is None:
        with closing(Child()) as own:
            return send_signals(name, number, seed, moments=moments, child=own)
    counts = Counts()
    rng = random.Random(f"{name} {seed}")
    for _ in range(number):
        child.start(name)
        try:
            outcome, is_usable = child.signal_at(rng.random(), moments)
        except ChildProcessError:
            counts.died += 1
            child.give_up()
        except TimeoutError:
            counts.hung += 1
            child.give_up()
        else:
            setattr(counts, outcome, getattr(counts, outcome) + 1)
            counts.unusable += not is_usable
    return counts


def main(arguments: Sequence[str] | None = None) -> Iterator[str]:
    parser = argparse.ArgumentParser(description="Send SIGINT to runs of entries.")
    parser.add_argument("names", nargs="*", help="entries; by default all of mtboost")
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--moments", choices=["times", "lines"], default="times")
    parser.add_argument("--controls", action="store_true", help="the libraries alone")
    given = parser.parse_args(arguments)
    for name in given.names or (CONTROLS if given.controls else ENTRIES):
        with closing(Child()) as child:
            counts = send_signals(
                name, given.number, given.seed, moments=given.moments, child=child
            )
            yield f"{name}: {counts} (a run: {child.seconds:.3f} s)"
            yield from child.complaints


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        _child()
    else:
        for text in main():
            print(text, flush=True)
