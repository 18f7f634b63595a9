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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from fuzz.protocol import Case
from numpy.testing import assert_array_equal

import mtboost

TEST_CALLS = 0

N_ROWS, N_FEATURES, N_TASKS = 24, 5, 3
TASK = np.arange(N_ROWS) % N_TASKS
NUMBERS = np.random.default_rng(0).integers(-20, 21, N_ROWS) / 8
CLASSES = np.digitize(NUMBERS, [-1.0, 1.0])
LABELS = (np.random.default_rng(1).random((N_ROWS, 4)) < 0.4).astype(int)
OUTPUTS = np.random.default_rng(2).integers(-20, 21, (N_ROWS, 3)) / 8
SHALLOW = {"max_depth": 2, "min_child_weight": 0}

FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
DTYPES = ("f8", "f4", "i8", "i4", "i1", "u1", "?", "g", "c16")
REFUSALS = (ValueError, TypeError)  # DataError and XGBoost's errors are ValueErrors


# Functions that take a matrix --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """A way in: a model is fitted to a matrix, and gives arrays for another one."""

    fit: Callable[[Any], Any]
    outputs: Callable[[Any, Any], Any]
    is_missing: bool = False  # what is not stored
    predicts: bool = True  # another table; else the outputs are those of the training


def _fit(library: str, **options: Any) -> Entry:
    size = {"xgboost": SHALLOW, "lightgbm": {"min_data_in_leaf": 1, "num_leaves": 4}}[library]
    own = {"num_boost_round": 2, "specific_rounds": 2, "n_threads": 1, "backend": library}

    def fit(X: Any) -> Any:
        return mtboost.fit(
            X, NUMBERS, task=TASK, params=size, **own, **options, strategy="two-stage"
        )

    return Entry(fit, _by_task("predict"), library == "xgboost")


def _fit_by_task() -> Entry:
    y = {0: NUMBERS, 1: NUMBERS[::-1]}
    options = {"num_boost_round": 2, "specific_rounds": 1, "n_threads": 1, "params": SHALLOW}

    def fit(X: Any) -> Any:
        return mtboost.fit(
            {0: X, 1: X}, y, common_features="all", **{"strategy": "two-stage", **options}
        )

    return Entry(fit, lambda model, X: [*model.predict({0: X, 1: X}).values()], True)


def _train() -> Entry:
    def fit(X: Any) -> Any:
        data = mtboost.Dataset(X, NUMBERS, task=TASK)
        return mtboost.train({**SHALLOW, "nthread": 1}, data, 2, verbose_eval=False)

    def outputs(booster: Any, X: Any) -> Any:
        return bytes(booster.save_raw("json"))

    return Entry(fit, outputs, True, predicts=False)


def _prior() -> Entry:
    def fit(X: Any) -> Any:
        return mtboost.feature_prior([(X, NUMBERS)], n_threads=1)

    return Entry(fit, lambda prior, X: prior, True, predicts=False)


def _by_task(*methods: str) -> Callable[[Any, Any], Any]:
    def outputs(model: Any, X: Any) -> Any:
        task = np.arange(X.shape[0]) % N_TASKS
        return [getattr(model, method)(X, task=task) for method in methods]

    return outputs


def _without_task(*methods: str) -> Callable[[Any, Any], Any]:
    return lambda model, X: [getattr(model, method)(X) for method in methods]


def _forest(make: Any, y: Any, *methods: str, **options: Any) -> Entry:
    def fit(X: Any) -> Any:
        return make(random_state=0, **options).fit(X, y, task=TASK)

    return Entry(fit, _by_task(*methods))


def _outputs(make: Any, y: Any, *methods: str, is_missing: bool = False, **options: Any) -> Entry:
    def fit(X: Any) -> Any:
        return make(random_state=0, **options).fit(X, y)

    return Entry(fit, _without_task(*methods), is_missing)


def _estimator(make: Any, y: Any, *methods: str) -> Entry:
    own = {"n_estimators": 2, "max_depth": 2, "specific_rounds": 1, "n_jobs": 1}

    def fit(X: Any) -> Any:
        return make(random_state=0, min_child_weight=0, **own).fit(X, y, task=TASK)

    return Entry(fit, _by_task(*methods), True)


def _compress() -> Entry:
    def fit(X: Any) -> Any:
        return mtboost.compress(_forest_of_values(), X, NUMBERS, n_steps=20)

    return Entry(fit, _without_task("predict"))


@functools.cache
def _forest_of_values() -> Any:
    rows = np.random.default_rng(3).normal(size=(N_ROWS, N_FEATURES))
    return mtboost.MTExtraTreesRegressor(2, random_state=0, n_jobs=1).fit(rows, NUMBERS)


_TWO = {"n_estimators": 2, "n_jobs": 1}
_BOOSTING = {"n_estimators": 2, "n_jobs": 1, "min_samples_leaf": 1, "max_depth": 2}
ENTRIES = {
    "fit": _fit("xgboost"),
    "fit, lightgbm": _fit("lightgbm"),
    "fit, pooling": _fit("xgboost", pooling=1.0),
    "fit, task splits": _fit("xgboost", split_score="plain", task_splits=True),
    "fit by task": _fit_by_task(),
    "train": _train(),
    "feature_prior": _prior(),
    "compress": _compress(),
    "MultiTaskRegressor": _estimator(mtboost.MultiTaskRegressor, NUMBERS, "predict"),
    "MultiTaskClassifier": _estimator(mtboost.MultiTaskClassifier, CLASSES, "predict_proba"),
    "MTExtraTreesRegressor": _forest(
        mtboost.MTExtraTreesRegressor, NUMBERS, "predict", "apply", **_TWO
    ),
    "MTExtraTreesClassifier": _forest(
        mtboost.MTExtraTreesClassifier, CLASSES, "predict_proba", splitter="best", **_TWO
    ),
    "MTDecisionTreeClassifier": _forest(
        mtboost.MTDecisionTreeClassifier, CLASSES, "predict", "apply"
    ),
    "MTAdaBoostClassifier": _forest(
        mtboost.MTAdaBoostClassifier, CLASSES, "predict_proba", n_estimators=2, n_jobs=1
    ),
    "ProjectedForestRegressor": _outputs(
        mtboost.ProjectedForestRegressor, OUTPUTS, "predict", "apply", **_TWO
    ),
    "ProjectedForestClassifier": _outputs(
        mtboost.ProjectedForestClassifier, LABELS, "predict_proba", **_TWO
    ),
    "ProjectedBoostingRegressor": _outputs(
        mtboost.ProjectedBoostingRegressor, OUTPUTS, "predict", is_missing=True, **_BOOSTING
    ),
    "ProjectedBoostingClassifier": _outputs(
        mtboost.ProjectedBoostingClassifier, LABELS, "predict_proba", is_missing=True, **_BOOSTING
    ),
    "PriorSamplingRegressor": _outputs(
        mtboost.PriorSamplingRegressor, NUMBERS, "predict", is_missing=True, **_BOOSTING
    ),
}


@functools.cache
def _fitted(name: str) -> Any:
    """A model of dense rows with a third of the values missing, or 0."""
    rng = np.random.default_rng(4)
    X = rng.integers(-2, 4, (N_ROWS, N_FEATURES)).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan if ENTRIES[name].is_missing else 0
    return ENTRIES[name].fit(X)


def _of_labels(make: Any, **options: Any) -> Callable[[Any], Any]:
    rows = np.random.default_rng(5).normal(size=(N_ROWS, N_FEATURES))
    return lambda y: make(random_state=0, **options).fit(rows, y).predict_proba(rows)


#: Functions of a matrix of labels, 0 and 1.
OF_LABELS = {
    "ProjectedForestClassifier": _of_labels(
        mtboost.ProjectedForestClassifier, n_components=2, **_TWO
    ),
    "ProjectedBoostingClassifier": _of_labels(
        mtboost.ProjectedBoostingClassifier, n_components=2, **_BOOSTING
    ),
}


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


def _set(name: str, change: Callable[[Any, np.random.Generator], Any]) -> Any:
    return lambda X, rng: setattr(X, name, change(X, rng))


def _with(array: np.ndarray, place: int, value: int) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


def _inner(X: Any, rng: np.random.Generator) -> int:
    return int(rng.integers(1, len(X.indptr) - 1))


#: What makes a CSR or CSC matrix with entries contradict itself.
DAMAGES: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "indptr ends beyond the data": _set(
        "indptr", lambda X, rng: _with(X.indptr, -1, X.indptr[-1] + rng.choice([1, 1000, 10**6]))
    ),
    "indptr goes down": _set(
        "indptr", lambda X, rng: _with(X.indptr, _inner(X, rng), X.indptr[-1] + 1)
    ),
    "indptr is negative": _set("indptr", lambda X, rng: _with(X.indptr, _inner(X, rng), -1)),
    "indptr begins late": _set("indptr", lambda X, rng: _with(X.indptr, 0, 1)),
    "indptr is too short": _set("indptr", lambda X, rng: X.indptr[:-1]),
    "indptr is too long": _set("indptr", lambda X, rng: np.append(X.indptr, X.indptr[-1])),
    "indptr is huge": _set("indptr", lambda X, rng: _with(X.indptr.astype("i8"), -1, 2**62)),
    "indptr has fractions": _set("indptr", lambda X, rng: X.indptr + 0.5),
    "an index is too large": _set(
        "indices",
        lambda X, rng: _with(
            X.indices, rng.integers(X.indptr[-1]), rng.choice([N_ROWS + 50, 2**20, 2**31 - 1])
        ),
    ),
    "an index is negative": _set(
        "indices",
        lambda X, rng: _with(X.indices, rng.integers(X.indptr[-1]), -1 - rng.integers(1000)),
    ),
    "indices have fractions": _set("indices", lambda X, rng: X.indices + 0.5),
    "fewer indices than values": _set("indices", lambda X, rng: X.indices[: X.indptr[-1] - 1]),
    "fewer values than indices": _set("data", lambda X, rng: X.data[: X.indptr[-1] - 1]),
    "values in two dimensions": _set("data", lambda X, rng: X.data[:, np.newaxis]),
    "values are text": _set("data", lambda X, rng: np.full(X.data.shape, "a", object)),
    "no values": _set("data", lambda X, rng: X.data[:0]),
    "shape of more rows and columns": _set(
        "_shape", lambda X, rng: (X.shape[0] + 7, X.shape[1] + 7)
    ),
}
OF_COO: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "a row is too large": lambda X, rng: X.row.__setitem__(0, rng.choice([X.shape[0], 2**31 - 1])),
    "a row is negative": lambda X, rng: X.row.__setitem__(0, -1),
    "a column is too large": lambda X, rng: X.col.__setitem__(
        -1, rng.choice([X.shape[1], 2**31 - 1])
    ),
    "a column is negative": lambda X, rng: X.col.__setitem__(-1, -5),
    "fewer values than places": _set("data", lambda X, rng: X.data[:-1]),
}


def draw_damaged(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, str]:
    """A matrix that contradicts itself, and how."""
    X = sp.random_array(shape, density=0.7, rng=rng, format=str(rng.choice(["csr", "csc", "coo"])))
    if rng.random() < 0.5:
        X = getattr(sp, f"{X.format}_matrix")(X)
    damages = OF_COO if X.format == "coo" else DAMAGES
    name = str(rng.choice(list(damages)))
    damages[name](X, rng)
    return X, name


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
    if rng.random() < (0.1 if entry.predicts else 1):
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
        f"{text}, {type(X).__name__} of shape {X.shape} where {damage}",
        kind=f"{X.format}: {damage}",
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
