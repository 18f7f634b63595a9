# SPDX-License-Identifier: Apache-2.0
"""Calls of every public function with one or two malformed arguments.

A call is a legal one of which one or two arguments are replaced: by a value of a wrong type, shape,
length or range, a table or labels of an odd kind, a mapping with wrong keys (``odd_values.py``). It
must return, or raise an error that is meant for the user; no other error, no warning of NumPy, no
crash, no hang.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import io
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import optuna
import scipy.sparse as sp
import xgboost
from fuzz import odd_values as odd
from fuzz.odd_values import FRAME, TASK, Draw, X, Y, anything, array, each, one_of, table, value
from fuzz.protocol import Case
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError

import mtboost
import mtboost.lightgbm
import mtboost.xgboost
from mtboost.errors import MtboostError

TIME_LIMIT = 60.0
TEST_CALLS = 30
SMALL = {"strategy": "two-stage", "num_boost_round": 2, "specific_rounds": 2, "n_threads": 1}
PLUG_INS = {"xgboost": mtboost.xgboost, "lightgbm": mtboost.lightgbm}
QUIET = {"xgboost": {"nthread": 1, "verbosity": 0}, "lightgbm": {"num_threads": 1, "verbosity": -1}}


# ---- entries -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """A public function, a legal call of it, and how its arguments are drawn.

    ``draws`` has what is odd for an argument; others, and each now and then, are any value.
    """

    name: str
    call: Callable[..., Any]
    legal: Mapping[str, Any]
    draws: Mapping[str, Draw]


def _some(of: Mapping[str, Any], names: str) -> dict[str, Any]:
    return {name: of[name] for name in names.split()}


def _keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """All arguments of a function that have defaults."""
    found = inspect.signature(function).parameters.values()
    return {
        p.name: p.default for p in found if p.default is not p.empty and p.kind != p.VAR_KEYWORD
    }


def _fit(**arguments: Any) -> object:
    model = mtboost.fit(**{"strategy": "two-stage", **arguments})
    if arguments.get("X") is X and arguments.get("task") is TASK:  # legal rows
        margin = None if arguments.get("base_margin") is None else np.zeros(len(X))
        with contextlib.suppress(mtboost.errors.DataError):  # margins of classes
            assert np.isfinite(model.predict(X, task=TASK, base_margin=margin)).all(), "not finite"
    return model


def _fits() -> Iterator[Entry]:
    rest = {name: value for name in _keywords(mtboost.fit) if name != "verbose"}
    for backend, objective in (("xgboost", "binary:logistic"), ("lightgbm", "binary")):
        own = each(odd.PARAMETERS[backend], "params specific_params")
        draws = {**odd.ROWS, **odd.OTHERS}
        draws |= {name: draw for name, draw in rest.items() if name not in draws} | own
        legal = {"X": X, "y": Y, "task": TASK, "backend": backend, **SMALL}
        classes = {"y": odd.CLASSES, "objective": objective}
        for name, more in {
            "fit": {},
            "fit of classes": classes,
            "fit of a frame": {"X": FRAME},
        }.items():
            yield Entry(f"{backend} {name}", _fit, {**legal, **more}, draws)
        parts = {"X": {0: FRAME[:20], 1: FRAME[20:]}, "y": {0: Y[:20], 1: Y[20:]}}
        legal_parts = {**parts, "backend": backend, **SMALL}
        yield Entry(f"{backend} fit of a mapping", mtboost.fit, legal_parts, draws)
        more = {**each(value, "n_trials timeout refit study"), "space": odd.SPACES}
        legal = {"X": X, "y": Y, "task": TASK, "backend": backend, "n_trials": 1, **SMALL}
        yield Entry(f"{backend} tune", mtboost.tune, legal, {**draws, **more})
    data = _dataset()
    yield Entry(
        "train",
        partial(mtboost.train, verbose_eval=False),
        {"params": {"nthread": 1}, "data": data, "num_boost_round": 2},
        {
            "params": odd.PARAMETERS_OF_TRAIN,
            "num_boost_round": odd.number,
            "data": anything,
            "evals": one_of([(data, "v")], [data], 3, [("x", data)], [(X, "v")], [(data, 3)], None),
            "early_stopping_rounds": value,
            **each(anything, "obj custom_metric xgb_model"),
            "callbacks": odd.OTHERS["callbacks"],
        },
    )
    rows = "X y task weight base_margin feature_names common_features"
    legal = {"X": X, "y": Y, "task": TASK}
    yield Entry("Dataset", mtboost.Dataset, legal, _some(odd.ROWS, rows))


@functools.cache
def _dataset() -> Any:
    return mtboost.Dataset(X, Y, task=TASK)


def _table(kind: str) -> Any:
    return {"array": X, "frame": FRAME, "column": FRAME.assign(task=TASK)}[kind.partition(" ")[2]]


@functools.cache
def _model(kind: str) -> Any:
    task = "task" if "column" in kind else TASK
    return mtboost.fit(_table(kind), Y, task=task, backend=kind.partition(" ")[0], **SMALL)


def _of_model(kind: str, method: str, **arguments: Any) -> Any:
    return getattr(_model(kind), method)(**arguments)


def _add_task(kind: str, **arguments: Any) -> Any:
    return copy.deepcopy(_model(kind)).add_task(**arguments)


def _models() -> Iterator[Entry]:
    rows = {**_some(odd.ROWS, "X task base_margin"), "unknown_task": one_of("common", "x", None, 3)}
    names = one_of(0, 1, 7, "0", None, 0.5, np.int64(1), [0], True, "x", 10**400)
    for kind in ("xgboost array", "lightgbm array", "xgboost frame", "lightgbm column"):
        legal = {"X": _table(kind)} if "column" in kind else {"X": _table(kind), "task": TASK}
        importance_type = one_of("gain", "cover", "x", None, 3)
        for method, given, draws in (
            *((method, legal, rows) for method in ("predict", "predict_margin", "predict_proba")),
            ("contributions", legal, _some(rows, "X task")),
            ("booster", {"task": 0}, {"task": names}),
            ("importance", {"task": 0}, {"task": names, "importance_type": importance_type}),
        ):
            yield Entry(f"{kind} {method}", partial(_of_model, kind, method), given, draws)
        yield Entry(
            f"{kind} add_task",
            partial(_add_task, kind),
            {"task": 7, "X": _table(kind), "y": Y, "n_threads": 1, "specific_rounds": 2},
            {
                **_some(odd.ROWS, "X y weight base_margin feature_names"),
                "task": names,
                "eval_set": odd.EVAL_SETS,
                "validation_fraction": value,
                "params": odd.PARAMETERS[kind.partition(" ")[0]],
                **each(value, "specific_rounds early_stopping_rounds min_delta n_threads seed"),
                **_some(odd.OTHERS, "feature_prior objective"),
            },
        )
    none = Path(tempfile.gettempdir()) / "mtboost-fuzz-none"
    for name, call, path in (
        ("save", partial(_of_model, "xgboost array", "save"), none / "m.zip"),
        ("load_model", mtboost.load_model, none / "none.zip"),
    ):
        yield Entry(name, call, {"path": path}, {"path": _paths})


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="mtboost-fuzz-"))


def _paths(rng: np.random.Generator, name: str) -> Any:
    path = _folder() / "odd.zip"
    contents = one_of(b"", b"PK", b"PK\x03\x04" + bytes(50), b"{}", bytes(100))
    path.write_bytes(contents(rng, name))
    return one_of(path, str(path), _folder(), "", b"x", None, -1, [], {})(rng, name)


_FEW = {"n_estimators": 2, "n_jobs": 1}
_TWO_STAGES = {**_FEW, "specific_rounds": 2}
#: Parameters, labels, and whether rows have tasks.
_ESTIMATORS: dict[Any, tuple[dict[str, Any], Any, bool]] = {
    mtboost.MultiTaskRegressor: (_TWO_STAGES, Y, True),
    mtboost.MultiTaskClassifier: (_TWO_STAGES, odd.CLASSES, True),
    mtboost.MTExtraTreesRegressor: (_FEW, Y, True),
    mtboost.MTExtraTreesClassifier: (_FEW, odd.CLASSES, True),
    mtboost.ProjectedForestRegressor: (_FEW, odd.OUTPUTS, False),
    mtboost.ProjectedForestClassifier: (_FEW, odd.INDICATORS, False),
    mtboost.MTDecisionTreeClassifier: ({"n_jobs": 1}, odd.CLASSES, True),
    mtboost.MTAdaBoostClassifier: (_FEW, odd.CLASSES, True),
    mtboost.ProjectedBoostingRegressor: (_FEW, odd.OUTPUTS, False),
    mtboost.ProjectedBoostingClassifier: (_FEW, odd.INDICATORS, False),
    mtboost.PriorSamplingRegressor: (_FEW, Y, False),
    mtboost.PriorSamplingClassifier: (_FEW, odd.CLASSES, False),
}


@functools.cache
def _fitted(make: Any) -> Any:
    options, y, has_tasks = _ESTIMATORS[make]
    return make(**options).fit(X, y, **({"task": TASK} if has_tasks else {}))


def _of_fitted(make: Any, method: str, **arguments: Any) -> Any:
    return getattr(_fitted(make), method)(**arguments)


def _booster_of(make: Any, output: Any) -> Any:
    return _fitted(make).booster(output)


def _fit_estimator(make: Any, **arguments: Any) -> object:
    settings = _keywords(make.__init__)
    own = {n: arguments.pop(n) for n in list(arguments) if n in settings and n != "task"}
    fitted = make(**own).fit(**arguments)
    if arguments["X"] is X:
        found = fitted.predict(X, **{n: v for n, v in arguments.items() if n == "task"})
        found = found.toarray() if sp.issparse(found) else np.asarray(found)
        assert found.dtype.kind != "f" or np.isfinite(found).all(), "not finite"
    return fitted


def _setting(default: Any) -> Draw:
    """Odd values of a parameter of an estimator."""
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    return odd.number if is_number else value


def _estimators() -> Iterator[Entry]:
    for make, (legal, y, has_tasks) in _ESTIMATORS.items():
        name = make.__name__
        defaults = _keywords(make.__init__)
        settings = {n: odd.OTHERS.get(n, _setting(default)) for n, default in defaults.items()}
        settings["task"] = one_of("p", 0, "x", None)
        if "params" in settings:
            settings |= each(odd.PARAMETERS["xgboost"], "params specific_params")
        rows = _some(odd.ROWS, "X y sample_weight task" if has_tasks else "X y sample_weight")
        rows["y"] = array(y)
        draws = {**settings, **rows}
        if "Boosting" in name or "PriorSampling" in name:
            draws["eval_set"] = one_of((X, y), (X,), X, 3, (X, y[:3]), (None, None), (X, -y))
            draws["callbacks"] = one_of([len], 3, [3], None, [lambda r: True])
        predict = {"X": X, **({"task": TASK} if has_tasks else {})}
        of_rows = _some(odd.ROWS, " ".join(predict))
        fit, given = partial(_fit_estimator, make), {**legal, **predict, "y": y}
        yield Entry(f"{name}.fit", fit, given, draws)
        yield Entry(f"{name}.fit, rows", fit, given, rows)
        for method in ("predict", "predict_proba", "decision_function", "apply"):
            if hasattr(make, method):
                yield Entry(f"{name}.{method}", partial(_of_fitted, make, method), predict, of_rows)
        scored = {**of_rows, "y": array(y), "sample_weight": array(odd.WEIGHT)}
        yield Entry(
            f"{name}.score", partial(_of_fitted, make, "score"), {**predict, "y": y}, scored
        )
        unfitted = partial(make.predict, make())
        yield Entry(f"{name}, not fitted", unfitted, {"X": X}, {"X": table})
        if hasattr(make, "booster"):
            yield Entry(
                f"{name}.booster", partial(_booster_of, make), {"output": 0}, {"output": value}
            )
    to_text = partial(_of_fitted, mtboost.MTAdaBoostClassifier, "to_text")
    yield Entry("MTAdaBoostClassifier.to_text", to_text, {"tree": 0}, {"tree": value})
    forest = RandomForestRegressor(2, random_state=0, n_jobs=1).fit(X, Y)
    yield Entry(
        "compress",
        mtboost.compress,
        {"forest": forest, "X": X, "y": Y, "n_steps": 3},
        {
            "forest": anything,
            "X": table,
            "y": array(Y),
            "task": array(TASK),
            "n_steps": lambda rng, name: "cv" if rng.random() < 0.3 else odd.number(rng, name),
            **each(value, "epsilon cv max_steps random_state n_jobs"),
        },
    )


def _plug_ins() -> Iterator[Entry]:
    for name, module in PLUG_INS.items():
        yield from _callbacks(name, module)
        yield from _models_of_stages(name)
    yield from _projections()
    yield Entry(
        "xgboost.PriorFeatureSampling",
        _train_prior,
        {"prior": [1, 2, 3]},
        {
            "prior": odd.OTHERS["prior"],
            **each(value, "dynamic prior_rounds floor"),
            "params": odd.PARAMETERS["xgboost"],
        },
    )


def _callbacks(name: str, module: Any) -> Iterator[Entry]:
    """What stock training is given: a callback, an objective or a metric."""
    tasks, legal = {"task": array(TASK)}, {"task": TASK}
    split = dict.fromkeys(_keywords(module.TaskSplit.__init__), value) | tasks
    split |= _some(odd.OTHERS, "split_score pooling")
    split |= {"symmetric_trees": value, "task_column": one_of(0, -1, "p", 9, 1.5, True, None)}
    split |= {"params": odd.PARAMETERS[name]}
    split.pop("table", None)
    yield Entry(f"{name}.TaskSplit", partial(_train_split, name), legal, split)
    own = "reg:squarederror" if name == "xgboost" else "regression"
    yield Entry(
        f"{name}.TaskObjective",
        partial(_train_objective, name),
        {"objective": own, "task": TASK, "n_threads": 1},
        {
            "objective": odd.OBJECTIVES,
            **tasks,
            "task_weight": odd.OTHERS["task_weight"],
            "n_threads": value,
        },
    )
    yield Entry(
        f"{name}.TaskQuitting",
        partial(_train_quitting, name),
        legal,
        {
            **tasks,
            "metric": odd.METRICS,
            **each(value, "early_stopping_rounds min_delta verbose"),
            **each(anything, "objective valid"),
        },
    )
    several = one_of(3, [3], [(3, TASK)], None, [(X, TASK, 1)], {})
    yield Entry(
        f"{name}.task_metric",
        partial(_task_metric, name),
        {"metric": "rmse"},
        {"metric": odd.METRICS, **tasks, "tasks": several},
    )


def _models_of_stages(name: str) -> Iterator[Entry]:
    """What continues a common booster, and joins it with a specific one."""
    by_task = one_of({0: 1, 1: 2}, {0: 9}, {}, {0: "x"}, {0: 1.5}, {0: None})

    def quit_round(rng: Any, name: str) -> Any:
        return (by_task if rng.random() < 0.3 else value)(rng, name)

    yield Entry(
        f"{name}.residual_margin",
        partial(_residual_margin, name),
        {"quit_round": 1},
        {"quit_round": quit_round, "task": array(TASK)},
    )
    yield Entry(
        f"{name}.combine",
        partial(_combine, name),
        {"n_common_rounds": 1},
        {"n_common_rounds": value, **each(anything, "common specific")},
    )


def _projections() -> Iterator[Entry]:
    projected = {
        **each(value, "n_components shared seed n_threads"),
        "labels": array(odd.OUTPUTS),
        "weight": array(odd.WEIGHT),
        "projection": odd.PROJECTIONS,
    }
    yield Entry("xgboost.ProjectedObjective", _project_xgboost, {}, projected)
    yield Entry(
        "lightgbm.ProjectedObjective",
        _project_lightgbm,
        {"labels": odd.OUTPUTS},
        {**projected, "valid_labels": value},
    )


def _matrix(name: str) -> Any:
    if name == "xgboost":
        return xgboost.DMatrix(X, Y, nthread=1)
    return lightgbm.Dataset(X, Y, free_raw_data=False)


@functools.cache
def _booster(name: str) -> Any:
    return {"xgboost": xgboost, "lightgbm": lightgbm}[name].train(QUIET[name], _matrix(name), 2)


def _train(name: str, params: Any, callbacks: list[Any], objective: Any = None) -> object:
    """Stock training. What the library itself refuses in its own parameters is its own affair."""
    stock: tuple[type[Exception], ...] = (lightgbm.basic.LightGBMError, xgboost.core.XGBoostError)
    params = dict(params) if isinstance(params, dict) else {}  # others are not ours to refuse
    own = {**QUIET[name], **params}
    try:
        if name == "xgboost":
            return xgboost.train(own, _matrix(name), 2, callbacks=callbacks, obj=objective)
        own |= {} if objective is None else {"objective": objective}
        return lightgbm.train(own, _matrix(name), 2, callbacks=callbacks)
    except stock as error:
        raise _OfStockError(str(error)) from None
    except (AttributeError, ValueError, TypeError) as error:
        if _is_from(error, "mtboost") or not params:
            raise
        raise _OfStockError(str(error)) from None


class _OfStockError(Exception):
    """A library refused its own parameters, before we saw them."""


def _train_split(name: str, params: Any = None, **arguments: Any) -> object:
    return _train(name, params, [PLUG_INS[name].TaskSplit(**arguments)])


def _train_objective(name: str, **arguments: Any) -> object:
    return _train(name, {}, [], PLUG_INS[name].TaskObjective(**arguments))


def _train_prior(params: Any = None, **arguments: Any) -> object:
    params = {"colsample_bynode": 0.5, **(params if isinstance(params, dict) else {})}
    return _train("xgboost", params, [mtboost.xgboost.PriorFeatureSampling(**arguments)])


def _train_quitting(name: str, **arguments: Any) -> object:
    matrix, module = _matrix(name), PLUG_INS[name]
    valid = matrix if name == "xgboost" else lightgbm.Dataset(X, Y, reference=matrix)
    quitting = module.TaskQuitting(**{"valid": valid, **arguments})
    callbacks = [module.TaskSplit(TASK), quitting]
    if name == "xgboost":
        return xgboost.train(QUIET[name], matrix, 2, callbacks=callbacks)
    return lightgbm.train(QUIET[name], matrix, 2, valid_sets=[valid], callbacks=callbacks)


def _task_metric(name: str, **arguments: Any) -> object:
    tasks = [(_matrix(name), arguments.pop("task", TASK))]
    return PLUG_INS[name].task_metric(**{"tasks": tasks, **arguments})


def _residual_margin(name: str, **arguments: Any) -> object:
    rows = _matrix(name) if name == "xgboost" else X
    return PLUG_INS[name].residual_margin(_booster(name), rows, **arguments)


def _combine(name: str, **arguments: Any) -> object:
    boosters = {"common": _booster(name), "specific": _booster(name)}
    return PLUG_INS[name].combine(**{**boosters, **arguments})


def _project_xgboost(**arguments: Any) -> object:
    params = {"multi_strategy": "multi_output_tree", "min_child_weight": 0, "nthread": 1}
    matrix = xgboost.DMatrix(X, odd.OUTPUTS, nthread=1)
    projected = mtboost.xgboost.ProjectedObjective(**arguments)
    return xgboost.train(params, matrix, 2, callbacks=[projected])


def _project_lightgbm(**arguments: Any) -> object:
    data = lightgbm.Dataset(X, odd.OUTPUTS[:, 0])
    projected = mtboost.lightgbm.ProjectedObjective(**arguments)
    return lightgbm.train(QUIET["lightgbm"], data, 2, callbacks=[projected])


def _problems(rng: np.random.Generator, name: str) -> Any:
    if rng.random() < 0.7:
        return [(table(rng, name), array(Y)(rng, name))]
    return one_of(*odd.PROBLEMS, [_booster("xgboost")])(rng, name)


def _functions() -> Iterator[Entry]:
    yield Entry(
        "make_split_score",
        mtboost.make_split_score,
        {"score": "variance", "beta": 1.0},
        {"score": odd.OTHERS["split_score"], "beta": value},
    )
    yield Entry(
        "feature_prior",
        mtboost.feature_prior,
        {"problems": [(X, Y)], "n_threads": 1},
        {
            "problems": _problems,
            "leave_out": value,
            "labels": one_of("auto", "classes", "numbers", "x", None, 3),
            "importance_type": one_of("impurity", "gain", "x", None, 3, ["gain"]),
            "series_length": odd.number,
            "n_threads": value,
        },
    )
    metric = {"metric": odd.METRICS}
    yield Entry("get_metric", mtboost.metrics.get_metric, {"metric": "rmse"}, metric)
    yield Entry(
        "default_metric",
        mtboost.metrics.default_metric,
        {"objective": "reg:squarederror"},
        {"objective": odd.OBJECTIVES, **each(value, "tweedie_variance_power huber_slope")},
    )
    for name in mtboost.datasets.__all__:
        make = getattr(mtboost.datasets, name)
        if not name.startswith("make_"):
            continue
        defaults = _keywords(make)
        legal = {"n_samples": 20, "n_rows": 40, **({"scale": 0.01} if "scene" in defaults else {})}
        legal = {name: given for name, given in legal.items() if name in defaults}
        yield Entry(name, make, legal, dict.fromkeys(defaults, value))


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every public function."""
    return tuple(
        entry for part in (_fits, _models, _estimators, _plug_ins, _functions) for entry in part()
    )


# ---- one call ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a seed describes."""

    entry: Entry
    changed: Mapping[str, Any]

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self.changed.items())
        return f"{self.entry.name}({shown})"

    def run(self) -> object:
        """Do it, silently."""
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            return self.entry.call(**{**self.entry.legal, **self.changed})


def draw_call(seed: int) -> Call:
    """The call of a seed."""
    rng = np.random.default_rng(seed)
    entry = entries()[rng.integers(len(entries()))]
    names = rng.permutation(list(entry.draws))[: 1 + int(rng.random() < 0.3)]
    changed = {}
    for name in names.tolist():
        draw = anything if rng.random() < 0.1 else entry.draws[name]
        changed[name] = draw(rng, name)
    return Call(entry, changed)


def _shown(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # 10**5000, or a table that does not print
        return f"<{type(value).__name__}>"
    return text if len(text) < 120 else f"{text[:120]}... <{type(value).__name__}>"


def _is_from(error: BaseException, package: str) -> bool:
    """Whether the innermost frame of Python is one of a package."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{os.sep}{package}{os.sep}" in last.filename


def is_refusal(error: BaseException) -> bool:
    """Whether an exception is meant for the user."""
    if isinstance(error, MtboostError | NotFittedError | _OfStockError):
        return True
    if isinstance(error, TypeError):  # but not the core's list of signatures
        return "incompatible" not in str(error)
    if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
        return True
    if isinstance(error, ValueError) and "split score" in str(error):  # what the function returned
        return True
    return isinstance(error, ValueError) and _is_from(error, "sklearn")


def case(seed: int) -> Case:
    call = draw_call(seed)

    def run() -> None:
        try:
            call.run()
        except Exception as error:
            if is_refusal(error):
                raise _Refused(f"{type(error).__name__}: {error}") from error
            raise

    return Case(run, text=str(call), kind=call.entry.name, refusals=(_Refused,))


class _Refused(Exception):  # noqa: N818 -- an answer, not an error
    """The call was refused in a way that is meant for the user."""
