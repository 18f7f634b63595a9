# SPDX-License-Identifier: Apache-2.0
"""SciPy matrices, legal and hostile, in every function that takes one.

A legal matrix gives the result of the dense table with the same values, whatever its format, types
and order of entries. Where XGBoost reads the table, what is not stored is missing; elsewhere it is
0. A matrix that contradicts itself is refused, and never read beyond its arrays.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from fuzz.protocol import Case
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestRegressor

import mtboost
from mtboost.errors import DataError

TEST_CALLS = 0

N_ROWS, N_FEATURES, N_TASKS = 24, 5, 3
TASK = np.arange(N_ROWS) % N_TASKS
NUMBERS = np.random.default_rng(0).integers(-20, 21, N_ROWS) / 8
CLASSES = np.digitize(NUMBERS, [-1.0, 1.0])
LABELS = (np.random.default_rng(1).random((N_ROWS, 4)) < 0.4).astype(int)
OUTPUTS = np.random.default_rng(2).integers(-20, 21, (N_ROWS, 3)) / 8
ROUNDS = {"num_boost_round": 2, "specific_rounds": 2, "n_threads": 1, "strategy": "two-stage"}
SIZES = {
    "xgboost": {"max_depth": 2, "min_child_weight": 0},
    "lightgbm": {"min_data_in_leaf": 1, "num_leaves": 4},
}

FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
DTYPES = ("f8", "f4", "i8", "i4", "i1", "u1", "?", "g", "c16")
REFUSALS = (ValueError, TypeError)  # DataError and XGBoost's errors are ValueErrors


# Functions that take a matrix --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """A way in: a model is fitted to a matrix, and gives arrays for another one."""

    fit: Callable[[Any], Any]
    methods: tuple[str, ...] = ()  # none: the outputs are what fit returns
    is_missing: bool = False  # what is not stored
    has_tasks: bool = True
    as_table: Callable[[Any], Any] = lambda X: X

    def output(self, model: Any, X: Any, method: str) -> Any:
        rows = {}
        if self.has_tasks and method != "score":
            rows["task"] = np.arange(X.shape[0]) % N_TASKS
        found = getattr(model, method)(self.as_table(X), **rows)
        return [*found.values()] if isinstance(found, dict) else found

    def outputs(self, model: Any, X: Any) -> Any:
        return [self.output(model, X, method) for method in self.methods] if self.methods else model


def _fit(backend: str, X: Any, y: Any = NUMBERS, **options: Any) -> Any:
    given = {"task": TASK, "params": SIZES[backend], "backend": backend, **ROUNDS, **options}
    return mtboost.fit(X, y, **given)


def _twice(X: Any) -> dict[int, Any]:
    return {0: X, 1: X}


def _fit_by_task(backend: str, X: Any) -> Any:
    y = {0: NUMBERS, 1: NUMBERS[::-1]}
    return _fit(backend, _twice(X), y, task=None)


def _train(X: Any) -> bytes:
    data = mtboost.Dataset(X, NUMBERS, task=TASK)
    params = {**SIZES["xgboost"], "nthread": 1}
    return bytes(mtboost.train(params, data, 2, verbose_eval=False).save_raw("json"))


def _estimated(name: str, y: Any, has_tasks: bool, options: Any, X: Any) -> Any:
    estimator = getattr(mtboost, name)(random_state=0, **options)
    return estimator.fit(X, y, **({"task": TASK} if has_tasks else {}))


def _estimators() -> Iterator[tuple[str, Entry]]:
    forest = {"n_estimators": 2, "n_jobs": 1}
    boosting = {**forest, "min_samples_leaf": 1, "max_depth": 2}
    of_fit = {**forest, "max_depth": 2, "specific_rounds": 1, "min_child_weight": 0}
    of_fit |= {"effort": "fast", "validation_fraction": 0.25}
    of_fit |= {"linear_effects": False}  # which sparse tables do not have
    for name, y, methods, options in (
        ("MultiTaskRegressor", NUMBERS, ["predict"], of_fit),
        ("MultiTaskClassifier", CLASSES, ["predict_proba"], of_fit),
        ("MTExtraTreesRegressor", NUMBERS, ["predict", "apply"], forest),
        ("MTExtraTreesClassifier", CLASSES, ["predict_proba"], {**forest, "splitter": "best"}),
        ("MTDecisionTreeClassifier", CLASSES, ["predict", "apply"], {"n_jobs": 1}),
        ("MTAdaBoostClassifier", CLASSES, ["predict_proba"], forest),
        ("ProjectedForestRegressor", OUTPUTS, ["predict", "apply"], forest),
        ("ProjectedForestClassifier", LABELS, ["predict_proba"], forest),
        ("ProjectedBoostingRegressor", OUTPUTS, ["predict"], boosting),
        ("ProjectedBoostingClassifier", LABELS, ["predict_proba"], boosting),
        ("PriorSamplingRegressor", NUMBERS, ["predict"], boosting),
        ("PriorSamplingClassifier", CLASSES, ["predict_proba"], boosting),
    ):
        has_tasks = name.startswith("M")
        fit = functools.partial(_estimated, name, y, has_tasks, options)
        is_missing = name.startswith(("MultiTask", "PriorSampling", "ProjectedBoosting"))
        yield name, Entry(fit, tuple(methods), is_missing, has_tasks)


def _compress(make: Callable[[], Any], X: Any) -> Any:
    return mtboost.compress(make(), X, NUMBERS, n_steps=20)


@functools.cache
def _forest(name: str = "ours") -> Any:
    rows = np.random.default_rng(3).normal(size=(N_ROWS, N_FEATURES))
    if name == "scikit-learn":
        return RandomForestRegressor(2, random_state=0).fit(rows, NUMBERS)
    return mtboost.MTExtraTreesRegressor(2, random_state=0, n_jobs=1).fit(rows, NUMBERS)


OF_MODEL = ("predict", "predict_margin", "contributions")
_SPLITS = {"split_score": "plain", "task_splits": True}
ENTRIES = {
    "fit": Entry(functools.partial(_fit, "xgboost"), OF_MODEL, True),
    "fit, lightgbm": Entry(functools.partial(_fit, "lightgbm"), OF_MODEL),
    "fit, pooling": Entry(functools.partial(_fit, "xgboost", pooling=1.0), ("predict",), True),
    "fit, task splits": Entry(functools.partial(_fit, "xgboost", **_SPLITS), ("predict",), True),
    **{
        f"fit by task, {name}": Entry(
            functools.partial(_fit_by_task, name), OF_MODEL, name == "xgboost", False, _twice
        )
        for name in SIZES
    },
    "train": Entry(_train, is_missing=True),
    "feature_prior": Entry(
        lambda X: mtboost.feature_prior([(X, NUMBERS)], n_threads=1), is_missing=True
    ),
    "compress": Entry(functools.partial(_compress, _forest), ("predict",), has_tasks=False),
    **dict(_estimators()),
}


@functools.cache
def _fitted(name: str) -> Any:
    """A model of dense rows with a third of the values missing, or 0."""
    rng = np.random.default_rng(4)
    X = rng.integers(-2, 4, (N_ROWS, N_FEATURES)).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan if ENTRIES[name].is_missing else 0
    return ENTRIES[name].fit(X)


def _of_labels(name: str, y: Any) -> Any:
    rows = np.random.default_rng(5).normal(size=(N_ROWS, N_FEATURES))
    options = {"n_components": 2, "n_estimators": 2, "n_jobs": 1}
    if "Boosting" in name:
        options |= {"min_samples_leaf": 1, "max_depth": 2}
    return _estimated(name, y, False, options, rows).predict_proba(rows)


#: Functions of a matrix of labels, 0 and 1.
OF_LABELS = {
    name: functools.partial(_of_labels, name)
    for name in ("ProjectedForestClassifier", "ProjectedBoostingClassifier")
}


def all_calls() -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Every way in by itself, as a function of a matrix of features."""
    for name, entry in ENTRIES.items():
        yield f"{name}: fit", entry.fit
        model = _fitted(name)
        for method in entry.methods:
            own = functools.partial(entry.output, model, method=method)
            yield f"{name}: {method}", lambda X, own=own: own(X)
    good = sp.csr_array(CELLS)
    for backend in SIZES:
        fit = functools.partial(_fit, backend, good)
        yield f"{backend} eval_set", lambda X, fit=fit: fit(eval_set=(X, NUMBERS, TASK))
        model = fit()
        yield f"{backend} add_task", lambda X, model=model: model.add_task(7, X, NUMBERS)
        fit = functools.partial(_fit, backend, y=_twice(NUMBERS), task=None)
        yield f"{backend} fit, one table", lambda X, fit=fit: fit({0: good, 1: X})
    for name in ("ProjectedBoosting", "PriorSampling"):
        for kind, y in (("Regressor", NUMBERS), ("Classifier", CLASSES)):
            own = getattr(mtboost, name + kind)(n_estimators=2, n_jobs=1)
            fit = functools.partial(own.fit, good, y)
            yield f"{name + kind} eval_set", lambda X, fit=fit, y=y: fit(eval_set=(X, y))
    options = {"n_estimators": 2, "backend": "lightgbm", "n_jobs": 1}
    own = functools.partial(_estimated, "MultiTaskRegressor", NUMBERS, True, options)
    known = own(good)
    yield "MultiTaskRegressor, lightgbm", own
    yield "MultiTaskRegressor, lightgbm: predict", lambda X: known.predict(X, task=TASK)
    yield "Dataset", lambda X: mtboost.Dataset(X, NUMBERS)
    foreign = functools.partial(_forest, "scikit-learn")
    yield "compress, scikit-learn", functools.partial(_compress, foreign)


def all_calls_of_labels() -> Iterator[tuple[str, Callable[[Any], object]]]:
    for name in ("ProjectedForest", "ProjectedBoosting"):
        for kind in ("Regressor", "Classifier"):
            own = getattr(mtboost, name + kind)(n_estimators=2, n_jobs=1)
            yield f"{name + kind}: fit", functools.partial(own.fit, CELLS)
        known = type(own)(n_estimators=2, n_jobs=1).fit(CELLS, sp.csr_array(LABELS))
        yield f"{name + kind}: score", functools.partial(known.score, CELLS)


# Matrices ----------------------------------------------------------------------------------------


def draw_matrix(
    rng: np.random.Generator, shape: tuple[int, int], values: np.ndarray, dtype: str
) -> Any:
    """A legal matrix in any format, with entries in any order, some cells perhaps in parts."""
    rows, columns = np.nonzero(rng.random(shape) < rng.choice([0.0, 0.1, 0.6, 1.0]))
    order = rng.permutation(len(rows)) if rng.random() < 0.5 else np.arange(len(rows))
    # Sums of parts have the type of the matrix, which must hold them.
    if rng.random() < 0.2 and len(order) and dtype not in ("i1", "u1", "?"):
        order = np.concatenate([order, rng.choice(order, min(len(order), 5))])
    rows, columns = rows[order], columns[order]
    data = rng.choice(values, len(order)).astype(dtype)
    kind = str(rng.choice(["array", "matrix"]))
    form = str(rng.choice(FORMATS))
    X = getattr(sp, f"coo_{kind}")((data, (rows, columns)), shape=shape)
    if form in ("csr", "csc") and rng.random() < 0.5:
        X = _unsorted(X, form, kind)
    else:
        X = X.asformat(form)
    return _in_odd_arrays(rng, X)


def _unsorted(X: Any, form: str, kind: str) -> Any:
    """CSR or CSC with entries in the order of the COO matrix, parts of a cell apart."""
    major, minor = (X.row, X.col) if form == "csr" else (X.col, X.row)
    order = np.argsort(major, kind="stable")
    made = getattr(sp, f"{form}_{kind}")(X.shape, dtype=X.dtype)
    n_major = X.shape[0 if form == "csr" else 1]
    made.indptr = np.searchsorted(major[order], np.arange(n_major + 1)).astype(np.int32)
    made.indices, made.data = minor[order].astype(np.int32), X.data[order]
    return made


def _in_odd_arrays(rng: np.random.Generator, X: Any) -> Any:
    """The same matrix in arrays that one seldom sees."""
    if X.format not in ("csr", "csc"):
        return X
    match rng.integers(5):
        case 0:
            X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
        case 1:  # room for more than is stored
            X.data = np.append(X.data, X.data[:3])
            X.indices = np.append(X.indices, X.indices[:3])
        case 2:
            X.data, X.indices = np.repeat(X.data, 2)[::2], np.repeat(X.indices, 2)[::2]
        case 3:
            for array in (X.data, X.indices, X.indptr):
                array.setflags(write=False)
    return X


def dense(X: Any, absent: float) -> np.ndarray:
    """The values of a legal matrix, by the definition of its format."""
    X = X.tocsr()
    table = np.full(X.shape, absent)
    for row, (first, last) in enumerate(itertools.pairwise(X.indptr)):
        sums: dict[int, Any] = {}
        for column, value in zip(X.indices[first:last], X.data[first:last], strict=True):
            sums[column] = sums[column] + value if column in sums else value
        for column, value in sums.items():
            table[row, column] = value
    return table


CELLS = np.where(
    np.random.default_rng(0).random((N_ROWS, N_FEATURES)) < 0.6,
    np.random.default_rng(1).normal(size=(N_ROWS, N_FEATURES)),
    0,
)


def _with(matrix: Any, **arrays: Any) -> Any:
    """The matrix with other arrays, which SciPy does not check."""
    matrix = matrix.copy()
    for name, array in arrays.items():
        setattr(matrix, name, array)
    return matrix


def _planted(array: Any, place: int, value: int) -> Any:
    array = array.copy()
    array[place] = value
    return array


def _damaged_rows(good: Any) -> Iterator[tuple[str, Any]]:
    """Damaged CSR or CSC matrices."""
    starts, indices, data = good.indptr, good.indices, good.data
    inner = good.shape[1] if good.format == "csr" else good.shape[0]
    far, place = np.iinfo(indices.dtype).max, len(indices) // 2
    yield "index of the length", _with(good, indices=_planted(indices, place, inner))
    yield "index far out", _with(good, indices=_planted(indices, place, far))
    yield "negative index", _with(good, indices=_planted(indices, place, -1))
    yield "very negative index", _with(good, indices=_planted(indices, place, -far))
    yield "index of 64 bits", _with(good, indices=_planted(indices.astype("i8"), place, 2**40))
    yield "indices are floats", _with(good, indices=indices.astype(float))
    yield "indices have fractions", _with(good, indices=indices + 0.5)
    yield "indices are big-endian", _with(good, indices=indices.astype(">i4"))
    yield "fewer indices", _with(good, indices=indices[:-3])
    yield "fewer values", _with(good, data=data[:-3])
    yield "no values", _with(good, data=data[:0])
    yield "values in two dimensions", _with(good, data=data[:, np.newaxis])
    yield "indptr descends", _with(good, indptr=_planted(starts, 1, starts[-1] + 1))
    yield "indptr far out", _with(good, indptr=_planted(starts, 2, far))
    yield "indptr negative", _with(good, indptr=_planted(starts, 2, -5))
    yield "indptr ends late", _with(good, indptr=_planted(starts, -1, starts[-1] + 9))
    yield "indptr ends very late", _with(good, indptr=_planted(starts, -1, starts[-1] + 10**6))
    yield "indptr is huge", _with(good, indptr=_planted(starts.astype("i8"), -1, 2**62))
    yield "indptr has fractions", _with(good, indptr=starts + 0.5)
    yield "indptr ends at 0", _with(good, indptr=_planted(starts, -1, 0))
    yield "indptr begins late", _with(good, indptr=_planted(starts, 0, 1))
    yield "indptr too short", _with(good, indptr=starts[:-1])
    yield "indptr too long", _with(good, indptr=np.append(starts, starts[-1]))
    no_cells = {"data": data[:0], "indices": indices[:0]}
    yield "cells of nothing", _with(good, indptr=_planted(0 * starts, 1, 5), **no_cells)


def damaged(cells: Any) -> Iterator[tuple[str, Any]]:
    """Matrices of all formats that contradict themselves."""
    for make in (sp.csr_array, sp.csc_matrix):
        for what, matrix in _damaged_rows(make(cells)):
            yield f"{matrix.format}: {what}", matrix
    coo = sp.coo_array(cells)
    for axis, what in enumerate(("row", "column")):
        for value in (coo.shape[axis], -1, 2**31 - 1):
            coords = list(coo.coords)
            coords[axis] = _planted(coords[axis], coo.nnz // 2, value)
            yield f"coo: {what} {value}", _with(coo, coords=tuple(coords))
    yield "coo: fewer values", _with(coo, data=coo.data[:-3])
    bsr = sp.bsr_array(cells, blocksize=(2 - len(cells) % 2, 1))
    yield "bsr: index", _with(bsr, indices=_planted(bsr.indices, -1, 2**30))
    yield "bsr: indptr", _with(bsr, indptr=_planted(bsr.indptr, 1, 2**30))
    yield "bsr: fewer blocks", _with(bsr, data=bsr.data[:2])
    for what, row, values in (
        ("column", [2**30], [1.0]),
        ("more values", None, [1.0] * 1000),
    ):
        lil = sp.lil_array(cells)
        lil.rows[1] = lil.rows[1] if row is None else row
        lil.data[1] = values
        yield f"lil: {what}", lil


def draw_damaged(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, str]:
    """A matrix that contradicts itself, and how."""
    cells = np.where(rng.random(shape) < 0.7, rng.random(shape), 0)
    cells[:, 0] = 1  # some cells at least
    choices = [*damaged(cells)]
    what, X = choices[rng.integers(len(choices))]
    return X, what


def refuse_damaged(part: int, n_parts: int) -> None:
    """Print how each call with each damaged matrix ends; the last line names one that crashes."""
    warnings.simplefilter("error")
    of_labels = [(*call, (CELLS[:, :4] > 0).astype(float)) for call in all_calls_of_labels()]
    calls = [*((*call, CELLS) for call in all_calls()), *of_labels]
    for name, call, cells in calls[part::n_parts]:
        for what, matrix in damaged(cells):
            print(f"{name}, {what}: ", end="", flush=True)
            try:
                call(matrix)
            except DataError:
                print("refused", flush=True)
            except Exception as error:
                print(f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)
            else:
                print("accepted", flush=True)


# Cases -------------------------------------------------------------------------------------------


def case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    if rng.random() < 0.1:
        name = str(rng.choice(list(OF_LABELS)))
        if rng.random() < 0.5:
            return _refused(f"labels of {name}", OF_LABELS[name], *draw_damaged(rng, LABELS.shape))
        X = draw_matrix(rng, LABELS.shape, np.array([0, 1]), "?")
        return _equal(f"labels of {name}", OF_LABELS[name], X, 0.0)
    name = str(rng.choice(list(ENTRIES)))
    entry = ENTRIES[name]
    absent = np.nan if entry.is_missing else 0.0
    shape = (N_ROWS, N_FEATURES)
    if rng.random() < (0.1 if entry.methods else 1):
        rows = np.random.default_rng(6).integers(-2, 4, shape).astype(float)
        text, call = f"fit: {name}", lambda X: entry.outputs(entry.fit(X), rows)
    else:
        text, call = f"predict: {name}", lambda X: entry.outputs(_fitted(name), X)
        n_rows = rng.choice([0, 1, 9, 40], p=[0.03, 0.07, 0.6, 0.3])
        shape = (int(n_rows), N_FEATURES + int(rng.choice([0, -1, 1], p=[0.9, 0.05, 0.05])))
    if rng.random() < 0.4:
        return _refused(text, call, *draw_damaged(rng, (max(shape[0], 2), N_FEATURES)))
    dtype = str(rng.choice(DTYPES))
    values = np.array([0, 1, 2, 3, 100] if dtype in ("u1", "?") else [-2, -1, 0, 1, 2, 3, 100])
    if dtype in ("f8", "f4") and rng.random() < 0.3:
        odd = rng.choice([np.nan, np.nan, np.inf, -np.inf, 1e30, 1e38 if dtype == "f4" else 1e300])
        values = np.append(values, [0.5, -0.0, odd])
    return _equal(text, call, draw_matrix(rng, shape, values, dtype), absent)


def _refused(text: str, call: Callable[[Any], Any], X: Any, damage: str) -> Case:
    return Case(
        lambda: _quietly(call, X),
        f"{text}, {type(X).__name__} of shape {X.shape}, {damage}",
        kind=damage,
        refusals=REFUSALS,
        must_refuse=True,
    )


def _equal(text: str, call: Callable[[Any], Any], X: Any, absent: float) -> Case:
    text = f"{text}, {type(X).__name__} of {X.dtype} and shape {X.shape}"
    if X.dtype.kind == "c":
        return Case(lambda: _quietly(call, X), text, "complex", REFUSALS, must_refuse=True)

    def run() -> None:
        expected = _outcome(call, dense(X, absent))
        found = _outcome(call, X)
        is_refused = isinstance(found, Exception)
        if is_refused and (isinstance(expected, Exception) or X.dtype == np.longdouble):
            raise found
        if is_refused or isinstance(expected, Exception):
            raise AssertionError(f"the dense table gives {expected!r}, the matrix {found!r}")
        assert_array_equal(found, expected)

    return Case(run, text, refusals=REFUSALS)


def _outcome(call: Callable[[Any], Any], X: Any) -> Any:
    try:
        return _quietly(call, X)
    except REFUSALS as error:
        return error


def _quietly(call: Callable[[Any], Any], X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(X)
