# SPDX-License-Identifier: Apache-2.0
"""SciPy matrices whose arrays do not fit together, and every entry that takes such a matrix.

In a separate process main() hands each matrix to the entries of one group, and prints how each
call ends. A
crash ends the program, and the last line names the call.
"""

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestRegressor

import mtboost
from mtboost.errors import DataError

N_ROWS, N_COLUMNS = 60, 5
RNG = np.random.default_rng(0)
CELLS = np.where(RNG.random((N_ROWS, N_COLUMNS)) < 0.6, RNG.normal(size=(N_ROWS, N_COLUMNS)), 0)
LABELS = CELLS[:, 0] + CELLS[:, 1]
INDICATORS = (CELLS[:, :3] > 0).astype(float)
TASKS = np.arange(N_ROWS) % 2


def with_arrays(matrix: Any, **arrays: Any) -> Any:
    """The matrix with other arrays, which SciPy does not check."""
    matrix = matrix.copy()
    for name, array in arrays.items():
        setattr(matrix, name, array)
    return matrix


def planted(array: Any, place: int, value: int) -> Any:
    array = array.copy()
    array[place] = value
    return array


def compressed(cells: Any, make: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """Damaged CSR or CSC matrices."""
    good = make(cells)
    starts, indices, data = good.indptr, good.indices, good.data
    inner = good.shape[1] if good.format == "csr" else good.shape[0]
    far = np.iinfo(indices.dtype).max
    yield "index of the length", with_arrays(good, indices=planted(indices, 7, inner))
    yield "index far out", with_arrays(good, indices=planted(indices, 7, far))
    yield "negative index", with_arrays(good, indices=planted(indices, 7, -1))
    yield "very negative index", with_arrays(good, indices=planted(indices, 7, -far))
    yield "index of 64 bits", with_arrays(good, indices=planted(indices.astype(np.int64), 7, 2**40))
    yield "indices are floats", with_arrays(good, indices=indices.astype(float))
    yield "indices are big-endian", with_arrays(good, indices=indices.astype(">i4"))
    yield "fewer indices", with_arrays(good, indices=indices[:-3])
    yield "fewer values", with_arrays(good, data=data[:-3])
    yield "no values", with_arrays(good, data=data[:0])
    yield "values in two dimensions", with_arrays(good, data=data[:, np.newaxis])
    yield "indptr descends", with_arrays(good, indptr=planted(starts, 1, starts[-1]))
    yield "indptr far out", with_arrays(good, indptr=planted(starts, 2, far))
    yield "indptr negative", with_arrays(good, indptr=planted(starts, 2, -5))
    yield "indptr ends late", with_arrays(good, indptr=planted(starts, -1, starts[-1] + 9))
    yield "indptr ends at 0", with_arrays(good, indptr=planted(starts, -1, 0))
    yield "indptr begins late", with_arrays(good, indptr=planted(starts, 0, 1))
    yield "indptr too short", with_arrays(good, indptr=starts[:-1])
    yield "indptr too long", with_arrays(good, indptr=np.append(starts, starts[-1]))
    no_cells = {"data": data[:0], "indices": indices[:0]}
    yield "cells of nothing", with_arrays(good, indptr=planted(0 * starts, 1, 5), **no_cells)


def damaged(cells: Any) -> Iterator[tuple[str, Any]]:
    """Matrices of all formats that must be refused."""
    for make in (sp.csr_array, sp.csc_matrix):
        for what, matrix in compressed(cells, make):
            yield f"{matrix.format}: {what}", matrix
    coo = sp.coo_array(cells)
    for axis, what in enumerate(("row", "column")):
        for value in (coo.shape[axis], -1, 2**31 - 1):
            coords = list(coo.coords)
            coords[axis] = planted(coords[axis], 3, value)
            yield f"coo: {what} {value}", with_arrays(coo, coords=tuple(coords))
    yield "coo: fewer values", with_arrays(coo, data=coo.data[:-3])
    bsr = sp.bsr_array(cells, blocksize=(2, 1))
    yield "bsr: index", with_arrays(bsr, indices=planted(bsr.indices, 3, 2**30))
    yield "bsr: indptr", with_arrays(bsr, indptr=planted(bsr.indptr, 2, 2**30))
    yield "bsr: fewer blocks", with_arrays(bsr, data=bsr.data[:2])
    lil = sp.lil_array(cells)
    lil.rows[3] = [2**30]
    lil.data[3] = [1.0]
    yield "lil: column", lil
    lil = sp.lil_array(cells)
    lil.data[3] = [1.0] * 1000
    yield "lil: more values", lil


def fitted(estimator: Any, labels: Any = LABELS) -> Any:
    return estimator.fit(sp.csr_array(CELLS), labels)


def multi_task() -> Iterator[tuple[str, Callable[[Any], object]]]:
    rounds = {"num_boost_round": 2, "specific_rounds": 2, "n_threads": 1}
    good = sp.csr_array(CELLS)
    for backend in ("xgboost", "lightgbm"):
        own = {"strategy": "two-stage", "backend": backend}
        fit = functools.partial(mtboost.fit, **rounds, **own)
        two = {0: LABELS, 1: LABELS}
        model = fit(good, LABELS, task=TASKS)
        yield f"{backend} fit", lambda X, fit=fit: fit(X, LABELS, task=TASKS)
        yield f"{backend} fit, a mapping", lambda X, fit=fit, y=two: fit({0: good, 1: X}, y)
        yield (
            f"{backend} fit, eval_set",
            lambda X, fit=fit: fit(good, LABELS, task=TASKS, eval_set=(X, LABELS, TASKS)),
        )
        for method in ("predict", "predict_margin", "contributions"):
            call = getattr(model, method)
            yield f"{backend} {method}", lambda X, call=call: call(X, task=TASKS)
            yield f"{backend} {method}, a mapping", lambda X, call=call: call({1: X})
        yield f"{backend} add_task", lambda X, model=model: model.add_task(7, X, LABELS)
        estimator = mtboost.MultiTaskRegressor(n_estimators=2, n_jobs=1, **own)
        yield f"{backend} estimator", lambda X, e=estimator: e.fit(X, LABELS, task=TASKS)
        known = mtboost.MultiTaskRegressor(n_estimators=2, n_jobs=1, **own)
        known.fit(good, LABELS, task=TASKS)
        yield f"{backend} estimator's predict", lambda X, e=known: e.predict(X, task=TASKS)
    yield "Dataset", lambda X: mtboost.Dataset(X, LABELS)
    yield "feature_prior", lambda X: mtboost.feature_prior([(X, LABELS)])


def forests() -> Iterator[tuple[str, Callable[[Any], object]]]:
    few = {"n_estimators": 2, "n_jobs": 1}
    for estimator in (
        mtboost.MTExtraTreesRegressor(**few),
        mtboost.MTExtraTreesClassifier(**few),
        mtboost.ProjectedForestRegressor(**few),
        mtboost.ProjectedForestClassifier(**few),
        mtboost.MTDecisionTreeClassifier(n_jobs=1),
        mtboost.MTAdaBoostClassifier(**few),
    ):
        name = type(estimator).__name__
        labels = LABELS if "Regressor" in name else (LABELS > 0).astype(int)
        yield f"{name} fit", lambda X, e=estimator, y=labels: e.fit(X, y)
        known = fitted(type(estimator)(**estimator.get_params()), labels)
        yield f"{name} predict", lambda X, e=known: e.predict(X)
    forest = fitted(mtboost.MTExtraTreesRegressor(**few))
    small = mtboost.compress(forest, sp.csr_array(CELLS), LABELS, n_steps=5)
    yield "compress", lambda X: mtboost.compress(forest, X, LABELS, n_steps=5)
    others = RandomForestRegressor(2, random_state=0).fit(CELLS, LABELS)
    yield "compress, scikit-learn", lambda X: mtboost.compress(others, X, LABELS, n_steps=5)
    yield "compressed predict", lambda X: small.predict(X)


def boosting() -> Iterator[tuple[str, Callable[[Any], object]]]:
    few = {"n_estimators": 2, "n_jobs": 1}
    for estimator in (
        mtboost.ProjectedBoostingRegressor(**few),
        mtboost.ProjectedBoostingClassifier(**few),
        mtboost.PriorSamplingRegressor(**few),
        mtboost.PriorSamplingClassifier(**few),
    ):
        name = type(estimator).__name__
        labels = LABELS if "Regressor" in name else (LABELS > 0).astype(int)
        yield f"{name} fit", lambda X, e=estimator, y=labels: e.fit(X, y)
        good = sp.csr_array(CELLS)
        yield (
            f"{name} eval_set",
            lambda X, e=estimator, y=labels, good=good: e.fit(good, y, eval_set=(X, y)),
        )
        known = fitted(type(estimator)(**estimator.get_params()), labels)
        yield f"{name} predict", lambda X, e=known: e.predict(X)


def labels() -> Iterator[tuple[str, Callable[[Any], object]]]:
    few = {"n_estimators": 2, "n_jobs": 1}
    for estimator in (
        mtboost.ProjectedForestRegressor(**few),
        mtboost.ProjectedForestClassifier(**few),
        mtboost.ProjectedBoostingRegressor(**few),
        mtboost.ProjectedBoostingClassifier(**few),
    ):
        name = type(estimator).__name__
        yield f"{name} fit", lambda Y, e=estimator: e.fit(CELLS, Y)
        if "Classifier" in name:
            known = type(estimator)(**few).fit(CELLS, sp.csr_array(INDICATORS))
            yield f"{name} score", lambda Y, e=known: e.score(CELLS, Y)


GROUPS = {"multi-task": multi_task, "forests": forests, "boosting": boosting, "labels": labels}


def main(group: str) -> None:
    warnings.simplefilter("error")
    cells = INDICATORS if group == "labels" else CELLS
    for entry, call in GROUPS[group]():
        for what, matrix in damaged(cells):
            print(f"{entry}, {what}: ", end="", flush=True)
            try:
                call(matrix)
            except DataError:
                print("refused", flush=True)
            except Exception as error:
                print(f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)
            else:
                print("accepted", flush=True)
