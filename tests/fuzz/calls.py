# SPDX-License-Identifier: Apache-2.0
"""Calls of every public function with one or two malformed arguments.

A call is a legal one of which one or two arguments are replaced: by a value of a wrong type, shape,
length or range, a table or labels of an odd kind, a mapping with wrong keys. It must return, or
raise an error that is meant for the user; no other error, no warning of NumPy, no crash, no hang.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import fractions
import functools
import inspect
import io
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import optuna
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
import xgboost
from fuzz.protocol import Case
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError

import mtboost
import mtboost.lightgbm
import mtboost.xgboost
from mtboost.errors import MtboostError

TIME_LIMIT = 60.0
TEST_CALLS = 60
N_ROWS, N_COLUMNS = 40, 3
_GIB = 1 << 30
_N_CHARACTERS = 300


# ---- legal data ----------------------------------------------------------------------------------

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N_ROWS, N_COLUMNS))
Y = X @ [1.0, -1.0, 0.5] + 0.1 * _RNG.normal(size=N_ROWS)
CLASSES = (Y > 0).astype(int)
OUTPUTS = np.column_stack([Y, -Y, X[:, 0]])
INDICATORS = (OUTPUTS > 0).astype(int)
TASK = np.arange(N_ROWS) % 2
FRAME = pd.DataFrame(X, columns=list("pqr"))
SMALL = {"num_boost_round": 2, "specific_rounds": 2, "n_threads": 1}


# ---- odd values ----------------------------------------------------------------------------------

#: Values of any type, for any argument.
ANYTHING: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        np.True_,
        "",
        "x",
        "auto",
        b"x",
        object(),
        object,
        len,
        ...,
        NotImplemented,
    ),
    *(
        [],
        [1],
        [[1, 2], [3]],
        ["a", 1],
        (),
        (1, 2),
        {},
        {"a": 1},
        {1: 2},
        {1, 2},
        range(3),
        iter(()),
    ),
    *(np.array(2), np.array([2]), np.array([]), np.zeros((2, 2)), np.array(["a"]), np.array(None)),
    *(pd.Series([1.0]), pd.NA, pd.NaT, np.datetime64("2020-01-01"), datetime.date(2020, 1, 1)),
    *(Path("x"), ValueError("x"), slice(1), 1 + 2j, lambda *_: None),
)
#: Values that are numbers, or nearly.
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.0, 1e-320, 1e-50, 1e20, 1e38, 1e39, 1e308),
    *(2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**400, -(10**400), -(2**31)),
    *(float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.float16("inf")),
    *(
        np.int8(-1),
        np.uint8(1),
        np.int64(2),
        np.uint64(2**64 - 1),
        np.float32(0.5),
        np.longdouble(1),
    ),
    *(fractions.Fraction(1, 2), decimal.Decimal("0.5"), decimal.Decimal("NaN"), "1", "0.5", "nan"),
)
#: Arguments of which large legal values take long, or much memory.
LONG = {
    *(
        "num_boost_round",
        "specific_rounds",
        "n_estimators",
        "early_stopping_rounds",
        "n_trials",
        "max_steps",
    ),
    *("n_steps", "early_stopping_rounds", "n_samples", "n_rows", "n_outputs", "n_noise_outputs"),
    *("n_groups", "group_size", "n_problems", "n_informative", "n_noise", "n_tasks", "n_regions"),
    *("n_labels", "length", "series_length", "scale", "timeout", "n_components", "imbalance"),
}


def number(rng: np.random.Generator, name: str) -> Any:
    drawn = NUMBERS[rng.integers(len(NUMBERS))]
    if name in LONG and isinstance(drawn, int | float | np.number) and 20 < drawn < 2**31:
        return -drawn
    return drawn


def anything(rng: np.random.Generator, name: str) -> Any:
    return ANYTHING[rng.integers(len(ANYTHING))]


def _masked(values: Any) -> Any:
    return np.ma.masked_array(
        values, mask=np.arange(np.size(values)).reshape(np.shape(values)) % 5 == 0
    )


def _planted(values: Any, *planted: Any) -> Any:
    values = np.array(values, dtype=object)
    values.flat[1 : 1 + len(planted)] = planted
    return values


def _floats(values: Any, planted: float) -> Any:
    values = np.array(values, dtype=float)
    values.flat[1] = planted
    return values


def _frozen(values: Any) -> Any:
    values = np.repeat(np.asarray(values), 2, axis=0)
    values.setflags(write=False)
    return values[::2]


def _record(values: Any) -> Any:
    return np.array([(1.0, 2)] * len(values), dtype=[("a", float), ("b", int)])


#: Makes of an array (a table, or one value a row) something odd; it may be legal.
ODD_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "as it is": np.asarray,
    "list": lambda a: np.asarray(a).tolist(),
    "tuple": lambda a: tuple(np.asarray(a).tolist()),
    "generator": lambda a: (row for row in np.asarray(a).tolist()),
    "set": lambda a: set(np.asarray(a).ravel().tolist()),
    "text": lambda a: str(a),
    "fewer rows": lambda a: np.asarray(a)[:-3],
    "more rows": lambda a: np.concatenate([a, a[:3]]),
    "no rows": lambda a: np.asarray(a)[:0],
    "one row": lambda a: np.asarray(a)[:1],
    "0-d": lambda a: np.array(1.0),
    "column": lambda a: np.asarray(a).reshape(len(a), -1)[:, :1],
    "columns": lambda a: np.column_stack([a, a]),
    "3-d": lambda a: np.asarray(a).reshape(len(a), -1, 1),
    "4-d": lambda a: np.asarray(a).reshape(1, len(a), -1, 1),
    "transposed": lambda a: np.asarray(a).T,
    "ragged": lambda a: [[1.0, 2.0], [3.0], *[[4.0, 5.0]] * (len(a) - 2)],
    "objects": lambda a: np.array(a, dtype=object),
    "None": lambda a: _planted(a, None),
    "all None": lambda a: np.full(np.shape(a), None),
    "text inside": lambda a: _planted(a, "x"),
    "mixed": lambda a: _planted(a, "x", 1, None, 2.5, b"y"),
    "unhashable": lambda a: _planted(a, [1], {2: 3}),
    "huge integers": lambda a: _planted(a, 10**400, -(10**400)),
    "decimals": lambda a: _planted(a, decimal.Decimal("1.5"), decimal.Decimal("sNaN")),
    "fractions": lambda a: _planted(a, fractions.Fraction(1, 3)),
    "pandas.NA": lambda a: _planted(a, pd.NA, pd.NaT),
    "strings": lambda a: np.asarray(a).astype(str),
    "bytes": lambda a: np.asarray(a).astype("S4"),
    "new strings": lambda a: np.asarray(a).astype(str).astype(np.dtypes.StringDType()),
    "complex": lambda a: np.asarray(a).astype(complex),
    "dates": lambda a: np.zeros(np.shape(a), "datetime64[D]"),
    "durations": lambda a: np.zeros(np.shape(a), "timedelta64[s]"),
    "records": _record,
    "booleans": lambda a: np.asarray(a) > 0,
    "int8": lambda a: np.asarray(a).astype(np.int8),
    "uint64": lambda a: np.full(np.shape(a), 2**64 - 1, np.uint64),
    "int64": lambda a: np.full(np.shape(a), -(2**63), np.int64),
    "float16": lambda a: np.asarray(a).astype(np.float16),
    "longdouble": lambda a: np.asarray(a).astype(np.longdouble) * np.longdouble("1e4000"),
    "big-endian": lambda a: np.asarray(a).astype(">f8"),
    "big-endian integers": lambda a: np.asarray(a).astype(">i4"),
    "read-only": _frozen,
    "Fortran order": np.asfortranarray,
    "backwards": lambda a: np.asarray(a)[::-1],
    "masked": _masked,
    "NaN": lambda a: _floats(a, np.nan),
    "all NaN": lambda a: np.full(np.shape(a), np.nan),
    "inf": lambda a: _floats(a, np.inf),
    "-inf": lambda a: _floats(a, -np.inf),
    "1e300": lambda a: _floats(a, 1e300),
    "1e38": lambda a: np.asarray(a, float) * 1e38,
    "1e-300": lambda a: np.asarray(a, float) * 1e-300,
    "negative": lambda a: -1.0 - np.abs(np.asarray(a, float)),
    "zeros": lambda a: np.zeros(np.shape(a)),
    "ones": lambda a: np.ones(np.shape(a)),
    "matrix": lambda a: np.asmatrix(a),
    "memoryview": lambda a: memoryview(np.ascontiguousarray(a)),
    "Series": lambda a: pd.Series(list(np.asarray(a).reshape(len(a), -1)[:, 0])),
    "Series, other index": lambda a: pd.Series(
        np.asarray(a).reshape(len(a), -1)[:, 0], index=[7] * len(a)
    ),
    "nullable": lambda a: pd.Series(np.asarray(a).reshape(len(a), -1)[:, 0]).astype("Float64"),
    "category": lambda a: pd.Categorical(np.asarray(a).reshape(len(a), -1)[:, 0].astype(int)),
    "categories with None": lambda a: pd.Categorical([None, *["a", "b"] * len(a)][: len(a)]),
    "index": lambda a: pd.Index(np.asarray(a).reshape(len(a), -1)[:, 0]),
    "DataFrame": lambda a: pd.DataFrame(np.asarray(a).reshape(len(a), -1)),
    "polars.Series": lambda a: pl.Series(np.asarray(a).reshape(len(a), -1)[:, 0].tolist()),
    "polars.DataFrame": lambda a: pl.DataFrame(np.asarray(a, float).reshape(len(a), -1)),
    "LazyFrame": lambda a: pl.DataFrame(np.asarray(a, float).reshape(len(a), -1)).lazy(),
    "pyarrow.Array": lambda a: pa.array(np.asarray(a).reshape(len(a), -1)[:, 0].tolist()),
    "pyarrow nulls": lambda a: pa.nulls(len(a)),
    "chunked": lambda a: pa.chunked_array([np.asarray(a, float).reshape(len(a), -1)[:, 0]] * 1),
    "CSR": lambda a: sp.csr_array(np.asarray(a, float).reshape(len(a), -1)),
    "CSC": lambda a: sp.csc_matrix(np.asarray(a, float).reshape(len(a), -1)),
    "COO": lambda a: sp.coo_array(np.asarray(a, float)),
    "DOK": lambda a: sp.dok_array(np.asarray(a, float).reshape(len(a), -1)),
    "CSR of complex": lambda a: sp.csr_array(np.asarray(a).reshape(len(a), -1).astype(complex)),
    "CSR of longdouble": lambda a: sp.csr_array(
        np.asarray(a).reshape(len(a), -1).astype(np.longdouble)
    ),
    "CSR of integers": lambda a: sp.csr_array(np.asarray(a).reshape(len(a), -1).astype(np.int64)),
    "CSR of booleans": lambda a: sp.csr_array(np.asarray(a).reshape(len(a), -1) > 0),
    "CSR with NaN": lambda a: sp.csr_array(
        _floats(np.asarray(a, float).reshape(len(a), -1), np.nan)
    ),
    "CSR with inf": lambda a: sp.csr_array(
        _floats(np.asarray(a, float).reshape(len(a), -1), np.inf)
    ),
    "empty CSR": lambda a: sp.csr_array((len(a), np.asarray(a).reshape(len(a), -1).shape[1])),
    "DMatrix": lambda a: xgboost.DMatrix(np.asarray(a, float).reshape(len(a), -1)),
    "mapping": lambda a: {0: a[:20], 1: a[20:]},
    "mapping with None": lambda a: {0: a[:20], None: a[20:]},
    "mapping of one": lambda a: {0: a},
    "mapping of others": lambda a: {"x": a[:20], "y": a[20:]},
    "mapping of mixed keys": lambda a: {0: a[:20], "y": a[20:]},
    "mapping of tuples": lambda a: {(0,): a[:20], (1,): a[20:]},
    "empty mapping": lambda a: {},
    "mapping of nothing": lambda a: {0: None, 1: None},
    "mapping of scalars": lambda a: {0: 1.0, 1: 2.0},
}


def _frame(**columns: Any) -> pd.DataFrame:
    return FRAME.assign(**columns)


#: Tables as they are, for any X.
ODD_TABLES: dict[str, Callable[[], Any]] = {
    "objects": lambda: _frame(p="a"),
    "dates": lambda: _frame(p=pd.Timestamp("2020-01-01")),
    "periods": lambda: _frame(p=pd.Period("2020-01")),
    "intervals": lambda: _frame(p=pd.cut(X[:, 0], 3)),
    "categories": lambda: _frame(p=pd.Categorical(["a", "b"] * 20)),
    "categories of floats": lambda: _frame(p=pd.Categorical([1.5, 2.5] * 20)),
    "categories missing": lambda: _frame(p=pd.Categorical([None] * 40)),
    "names twice": lambda: FRAME.set_axis(["p", "p", "r"], axis=1),
    "names that are numbers": lambda: FRAME.set_axis([0, 1.5, None], axis=1),
    "names of tuples": lambda: FRAME.set_axis(
        pd.MultiIndex.from_product([["a"], [1, 2, 3]]), axis=1
    ),
    "bad names": lambda: FRAME.set_axis(["[", "<", ""], axis=1),
    "names of other columns": lambda: FRAME.set_axis(["x", "y", "z"], axis=1),
    "columns backwards": lambda: FRAME[["r", "q", "p"]],
    "a column less": lambda: FRAME[["p", "q"]],
    "a column more": lambda: _frame(s=1.0),
    "no columns": lambda: FRAME[[]],
    "sparse columns": lambda: FRAME.astype(pd.SparseDtype(float, np.nan)),
    "nullable": lambda: FRAME.round().astype("Int64").mask(FRAME > 1),
    "arrow columns": lambda: FRAME.astype("double[pyarrow]"),
    "arrow strings": lambda: _frame(p=pd.array(["a", "b"] * 20, "string[pyarrow]")),
    "complex": lambda: _frame(p=X[:, 0] + 1j),
    "index twice": lambda: FRAME.set_axis([0] * N_ROWS),
    "infinite": lambda: _frame(p=np.inf),
    "polars strings": lambda: pl.DataFrame({"p": ["a", "b"] * 20, "q": X[:, 1]}),
    "polars lists": lambda: pl.DataFrame({"p": [[1.0]] * N_ROWS, "q": X[:, 1]}),
    "polars nulls": lambda: pl.DataFrame({"p": [None] * N_ROWS, "q": X[:, 1]}),
    "polars categories": lambda: pl.DataFrame(
        {"p": pl.Series(["a", "b"] * 20, dtype=pl.Categorical)}
    ),
    "polars dates": lambda: pl.DataFrame({"p": [datetime.date(2020, 1, 1)] * N_ROWS}),
    "pyarrow strings": lambda: pa.table({"p": ["a", "b"] * 20, "q": X[:, 1]}),
    "pyarrow nulls": lambda: pa.table({"p": pa.nulls(N_ROWS), "q": X[:, 1]}),
    "pyarrow lists": lambda: pa.table({"p": [[1.0]] * N_ROWS}),
    "pyarrow dictionary": lambda: pa.table({"p": pa.array(["a", None] * 20).dictionary_encode()}),
    "pyarrow decimals": lambda: pa.table({"p": pa.array([decimal.Decimal("1.5")] * N_ROWS)}),
    "pyarrow names twice": lambda: pa.table([X[:, 0], X[:, 1]], names=["p", "p"]),
    "one column": lambda: X[:, :1],
    "very wide": lambda: sp.csr_array((N_ROWS, 2**31)),
    "constant": lambda: np.ones((N_ROWS, N_COLUMNS)),
    "task column": lambda: _frame(task=TASK),
}


def array(values: Any) -> Draw:
    """Odd forms of what is given one value a row."""

    def draw(rng: np.random.Generator, name: str) -> Any:
        forms = list(ODD_ARRAYS)
        return ODD_ARRAYS[forms[rng.integers(len(forms))]](values)

    return draw


def table(rng: np.random.Generator, name: str) -> Any:
    if rng.random() < 0.5:
        return array(X)(rng, name)
    forms = list(ODD_TABLES)
    return ODD_TABLES[forms[rng.integers(len(forms))]]()


def one_of(*choices: Any) -> Draw:
    return lambda rng, name: choices[rng.integers(len(choices))]


def parameters(of: Mapping[str, Any]) -> Draw:
    """A mapping of the library's parameters, one of them odd."""
    names = (*of, "max_dept", "seed", "nthread", "objective", "metric", "", 3)

    def draw(rng: np.random.Generator, name: str) -> Any:
        chosen = names[rng.integers(len(names))]
        return {chosen: value(rng, str(chosen)) if rng.random() < 0.9 else of.get(chosen, 1)}

    return draw


def value(rng: np.random.Generator, name: str) -> Any:
    return (number if rng.random() < 0.7 else anything)(rng, name)


Draw = Callable[[np.random.Generator, str], Any]

_XGBOOST = {
    **{"max_depth": 2, "learning_rate": 0.3, "min_child_weight": 1, "gamma": 0, "reg_lambda": 1},
    **{
        "reg_alpha": 0,
        "subsample": 1,
        "colsample_bytree": 1,
        "colsample_bylevel": 1,
        "max_bin": 16,
    },
    **{"colsample_bynode": 1, "max_leaves": 4, "grow_policy": "lossguide", "max_delta_step": 1},
    **{"monotone_constraints": (1, 0, 0), "interaction_constraints": "[[0, 1]]", "base_score": 0.5},
    **{"scale_pos_weight": 1, "tree_method": "hist", "booster": "gbtree", "num_parallel_tree": 1},
    **{"num_class": 2, "multi_strategy": "one_output_per_tree", "tweedie_variance_power": 1.5},
    **{
        "max_cat_to_onehot": 4,
        "max_cat_threshold": 64,
        "sampling_method": "uniform",
        "device": "cpu",
    },
    **{"huber_slope": 1.0, "process_type": "default", "updater": "grow_quantile_histmaker"},
}
_LIGHTGBM = {
    **{
        "max_depth": 2,
        "learning_rate": 0.3,
        "num_leaves": 4,
        "min_data_in_leaf": 2,
        "lambda_l1": 0,
    },
    **{
        "lambda_l2": 1,
        "min_gain_to_split": 0,
        "bagging_fraction": 1,
        "bagging_freq": 1,
        "max_bin": 16,
    },
    **{"feature_fraction": 1, "feature_fraction_bynode": 1, "max_delta_step": 1, "path_smooth": 1},
    **{"monotone_constraints": [1, 0, 0], "interaction_constraints": [[0, 1]], "extra_trees": True},
    **{
        "min_sum_hessian_in_leaf": 1,
        "feature_contri": [1, 1, 1],
        "boosting": "dart",
        "sigmoid": 1.0,
    },
    **{
        "num_class": 2,
        "is_unbalance": True,
        "scale_pos_weight": 1,
        "alpha": 0.9,
        "linear_tree": True,
    },
    **{"min_data_in_bin": 1, "bin_construct_sample_cnt": 100, "cat_smooth": 1, "cat_l2": 1},
    **{
        "max_cat_threshold": 4,
        "min_data_per_group": 1,
        "max_cat_to_onehot": 2,
        "zero_as_missing": True,
    },
    **{
        "use_missing": False,
        "boost_from_average": False,
        "reg_sqrt": True,
        "max_bin_by_feature": [4, 4, 4],
    },
    **{
        "data_sample_strategy": "goss",
        "tweedie_variance_power": 1.5,
        "fair_c": 1,
        "bagging_seed": 3,
    },
}
_OBJECTIVES = one_of(
    *(
        "reg:squarederror",
        "binary:logistic",
        "multi:softprob",
        "count:poisson",
        "reg:tweedie",
        "l2",
    ),
    *("reg:gamma", "rank:ndcg", "regression", "binary", "poisson", "multiclass", "reg:squareerror"),
    *("", 3, None, len, {0: "binary"}, {0: "reg:squarederror", 1: "count:poisson"}, {}, {0: None}),
    *(
        "reg:absoluteerror",
        "quantile",
        "huber",
        "lambdarank",
        "cross_entropy",
        "reg:pseudohubererror",
    ),
)
_METRICS = one_of(
    *(
        "rmse",
        "auc",
        "error@x",
        "error@nan",
        "error@1e400",
        "tweedie-nloglik@1",
        "mlogloss",
        "x",
        3,
    ),
    *(None, len, mtboost.metrics.Metric("m", lambda y, p: 0.0, False), {0: "rmse"}, {}, {2: "mae"}),
    *(mtboost.metrics.Metric("m", lambda y, p: float("nan"), True), {0: 3}, ["rmse"]),
)
_EVAL_SETS = one_of(
    *((X, Y, TASK), (X, Y), (X,), [], [X, Y, TASK], ((X, Y, TASK),), (X, Y[:3], TASK), 3, "ab", X),
    *((FRAME, Y, TASK), (X, Y, TASK + 1), (X, Y, TASK, -Y), (X, None, TASK), (None, Y, TASK), {}),
    *((X, Y, TASK, None, Y), (X, Y, TASK, Y * Y, None, 3), (X[:0], Y[:0], TASK[:0])),
)
_NAMES = one_of(
    *(list("pqr"), ["p"], ["p", "p", "r"], [1, 2, 3], "pqr", 3, {0: ["p"]}, ["[", "<", ","], []),
    *([None] * 3, np.array(list("pqr")), ("p", "q", "r"), {"p", "q", "r"}, [["p"]], iter("pqr")),
)


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


_ROWS: dict[str, Draw] = {
    "X": table,
    "y": array(Y),
    "task": lambda rng, name: (
        one_of("p", "x", 0, 9, -1, None)(rng, name)
        if rng.random() < 0.3
        else array(TASK)(rng, name)
    ),
    "weight": array(np.abs(Y)),
    "sample_weight": array(np.abs(Y)),
    "base_margin": array(Y),
    "feature_names": _NAMES,
    "common_features": _NAMES,
    "eval_set": _EVAL_SETS,
}
_OTHERS: dict[str, Draw] = {
    "objective": _OBJECTIVES,
    "eval_metric": _METRICS,
    "metric": _METRICS,
    "backend": one_of("xgboost", "lightgbm", "catboost", "", None, 3),
    "split_score": one_of(
        "plain", "variance", "x", None, lambda s, t: s, lambda: 0, lambda s, t: "x"
    ),
    "task_weight": one_of(
        *("balanced", "x", {0: 1, 1: 2}, {0: 1}, {0: -1, 1: 1}, {0: "x", 1: 1}, {0: None, 1: 1}),
        *(
            {0: 10**400, 1: 1},
            {0: 0, 1: 0},
            {0: np.nan, 1: 1},
            {0: 1e-300, 1: 1e-300},
            {0: 1e300, 1: 1},
        ),
    ),
    "callbacks": one_of([3], 3, [len], None, "x", [None]),
    "on_round": one_of(3, "x", len, lambda: 0),
    "feature_prior": one_of(
        "auto", "x", [1, 2, 3], [1], {"p": 1.0}, {3: 1.0}, [-1, 0, 1], [np.nan] * 3, X
    ),
    "prior": one_of(
        [1, 2, 3], [1], {"p": 1.0}, {3: 1.0}, [-1, 0, 1], [10**400, 1, 1], X, "x", {}, [0, 0, 0]
    ),
    "strategy": one_of("auto", "two-stage", "gbmort", "x", None, 3),
    "pooling": one_of("auto", "x", 1.0, 0),
    "task_splits": one_of(True, "descriptors", "x", 1.0),
}


def _entry(name: str, call: Callable[..., Any], legal: Mapping[str, Any], **draws: Draw) -> Entry:
    return Entry(name, call, legal, draws)


def _fit(**arguments: Any) -> object:
    model = mtboost.fit(**arguments)
    _predict(model, arguments)
    return model


def _predict(model: Any, arguments: Mapping[str, Any]) -> None:
    """A model that was fitted on legal rows predicts numbers."""
    if arguments.get("X") is X and arguments.get("task") is TASK:
        given = arguments.get("base_margin")
        margin = None if given is None else np.zeros(N_ROWS)
        with contextlib.suppress(mtboost.errors.DataError):  # margins of classes
            assert np.isfinite(model.predict(X, task=TASK, base_margin=margin)).all(), "not finite"


def _keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """All arguments of a function that have defaults."""
    found = inspect.signature(function).parameters.values()
    return {
        p.name: p.default for p in found if p.default is not p.empty and p.kind != p.VAR_KEYWORD
    }


def _fits() -> Iterator[Entry]:
    rest = [n for n in _keywords(mtboost.fit) if n not in ("verbose",)]
    for backend, own in (("xgboost", _XGBOOST), ("lightgbm", _LIGHTGBM)):
        draws = {**_ROWS, **_OTHERS, **{n: value for n in rest if n not in {**_ROWS, **_OTHERS}}}
        draws |= {"params": parameters(own), "specific_params": parameters(own)}
        legal = {"X": X, "y": Y, "task": TASK, "backend": backend, **SMALL}
        for name, more in {
            "fit": {},
            "fit of classes": {
                "y": CLASSES,
                "objective": "binary:logistic" if backend == "xgboost" else "binary",
            },
            "fit of a frame": {"X": FRAME},
        }.items():
            yield Entry(f"{backend} {name}", _fit, {**legal, **more}, draws)
        yield Entry(
            f"{backend} fit of a mapping",
            mtboost.fit,
            {
                "X": {0: FRAME[:20], 1: FRAME[20:]},
                "y": {0: Y[:20], 1: Y[20:]},
                "backend": backend,
                **SMALL,
            },
            draws,
        )
        yield Entry(
            f"{backend} tune",
            mtboost.tune,
            {"X": X, "y": Y, "task": TASK, "backend": backend, "n_trials": 1, **SMALL},
            {
                **draws,
                **dict.fromkeys(("n_trials", "timeout", "refit", "study"), value),
                "space": one_of(
                    *(
                        {"max_depth": (1, 2)},
                        {"max_depth": (2, 1)},
                        {"x": [1]},
                        3,
                        {},
                        {"eta": (0, 1, "log")},
                    ),
                    *(
                        lambda trial: 3,
                        {"max_depth": (np.nan, 1)},
                        {"max_depth": [object()]},
                        {3: [1]},
                    ),
                    *(
                        {"max_depth": (1, 10**400)},
                        {"max_depth": [10**400]},
                        {"eta": (0.1, float("inf"))},
                    ),
                ),
            },
        )
    yield _entry(
        "train",
        lambda **a: mtboost.train(verbose_eval=False, **a),
        {"params": {"nthread": 1}, "data": _dataset(), "num_boost_round": 2},
        params=parameters({**_XGBOOST, "split_score": "entropy", "beta": 1.0}),
        num_boost_round=number,
        data=anything,
        evals=one_of(
            [(_dataset(), "v")],
            [_dataset()],
            3,
            [("x", _dataset())],
            [(X, "v")],
            [(_dataset(), 3)],
            None,
        ),
        early_stopping_rounds=value,
        obj=anything,
        custom_metric=anything,
        xgb_model=anything,
        callbacks=_OTHERS["callbacks"],
    )
    yield _entry(
        "Dataset",
        mtboost.Dataset,
        {"X": X, "y": Y, "task": TASK},
        **{n: _ROWS[n] for n in _ROWS if n not in ("eval_set", "sample_weight")},
    )


@functools.cache
def _dataset() -> Any:
    return mtboost.Dataset(X, Y, task=TASK)


@functools.cache
def _model(kind: str) -> Any:
    backend, _, rows = kind.partition(" ")
    table = {"array": X, "frame": FRAME, "column": FRAME.assign(task=TASK)}[rows]
    task = "task" if rows == "column" else TASK
    return mtboost.fit(table, Y, task=task, backend=backend, **SMALL)


def _models() -> Iterator[Entry]:
    rows = {
        "X": table,
        "task": _ROWS["task"],
        "base_margin": array(Y),
        "unknown_task": one_of("common", "x", None, 3),
    }
    names = one_of(0, 1, 7, "0", None, 0.5, np.int64(1), [0], True, "x", 10**400)
    for kind in ("xgboost array", "lightgbm array", "xgboost frame", "lightgbm column"):
        legal = (
            {"X": _kind_table(kind)} if "column" in kind else {"X": _kind_table(kind), "task": TASK}
        )
        for method in ("predict", "predict_margin", "predict_proba"):
            yield Entry(
                f"{kind} {method}",
                lambda k=kind, m=method, **a: getattr(_model(k), m)(**a),
                legal,
                rows,
            )
        yield Entry(
            f"{kind} contributions",
            lambda k=kind, **a: _model(k).contributions(**a),
            legal,
            {n: rows[n] for n in ("X", "task")},
        )
        yield _entry(
            f"{kind} booster", lambda k=kind, **a: _model(k).booster(**a), {"task": 0}, task=names
        )
        yield _entry(
            f"{kind} importance",
            lambda k=kind, **a: _model(k).importance(**a),
            {"task": 0},
            task=names,
            importance_type=one_of("gain", "cover", "x", None, 3),
        )
        yield Entry(
            f"{kind} add_task",
            lambda k=kind, **a: _copy(_model(k)).add_task(**a),
            {"task": 7, "X": _kind_table(kind), "y": Y, "n_threads": 1, "specific_rounds": 2},
            {
                **{n: _ROWS[n] for n in ("X", "y", "weight", "base_margin", "feature_names")},
                "task": names,
                "eval_set": _EVAL_SETS,
                "validation_fraction": value,
                "params": parameters(_XGBOOST if kind.startswith("x") else _LIGHTGBM),
                **dict.fromkeys(
                    ("specific_rounds", "early_stopping_rounds", "min_delta", "n_threads", "seed"),
                    value,
                ),
                "feature_prior": _OTHERS["feature_prior"],
                "objective": _OBJECTIVES,
            },
        )
    yield _entry(
        "save",
        lambda path: _model("xgboost array").save(path),
        {"path": _path("m.zip")},
        path=_paths,
    )
    yield _entry("load_model", mtboost.load_model, {"path": _path("none.zip")}, path=_paths)


def _kind_table(kind: str) -> Any:
    return {"array": X, "frame": FRAME, "column": FRAME.assign(task=TASK)}[kind.partition(" ")[2]]


def _copy(model: Any) -> Any:
    import copy

    return copy.deepcopy(model)


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="mtboost-fuzz-"))


def _path(name: str) -> Path:
    return Path(tempfile.gettempdir()) / "mtboost-fuzz-none" / name


def _paths(rng: np.random.Generator, name: str) -> Any:
    kinds = (b"", b"PK", b"PK\x03\x04" + bytes(50), b"{}", bytes(100))
    content = kinds[rng.integers(len(kinds))]
    path = _folder() / "odd.zip"
    path.write_bytes(content)
    return one_of(path, str(path), _folder(), "", b"x", None, -1, [], {})(rng, name)


def _estimators() -> Iterator[Entry]:
    rows = {n: _ROWS[n] for n in ("X", "y", "sample_weight")}
    with_task = {**rows, "task": _ROWS["task"]}
    few = {"n_estimators": 2, "n_jobs": 1}
    kinds: list[tuple[Any, dict[str, Any], Any, bool]] = [
        (mtboost.MultiTaskRegressor, {**few, "specific_rounds": 2}, Y, True),
        (mtboost.MultiTaskClassifier, {**few, "specific_rounds": 2}, CLASSES, True),
        (mtboost.MTExtraTreesRegressor, few, Y, True),
        (mtboost.MTExtraTreesClassifier, few, CLASSES, True),
        (mtboost.ProjectedForestRegressor, few, OUTPUTS, False),
        (mtboost.ProjectedForestClassifier, few, INDICATORS, False),
        (mtboost.MTDecisionTreeClassifier, {"n_jobs": 1}, CLASSES, True),
        (mtboost.MTAdaBoostClassifier, few, CLASSES, True),
        (mtboost.ProjectedBoostingRegressor, few, OUTPUTS, False),
        (mtboost.ProjectedBoostingClassifier, few, INDICATORS, False),
        (mtboost.PriorSamplingRegressor, few, Y, False),
        (mtboost.PriorSamplingClassifier, few, CLASSES, False),
    ]
    for make, legal, y, knows_tasks in kinds:
        name = make.__name__
        defaults = _keywords(make.__init__)
        settings = {n: _OTHERS.get(n, _setting(default)) for n, default in defaults.items()}
        settings["task"] = one_of("p", 0, "x", None)
        if "params" in settings:
            settings["params"] = settings["specific_params"] = parameters(_XGBOOST)

        def fit(make: Any = make, settings: Any = tuple(defaults), **arguments: Any) -> object:
            own = {n: arguments.pop(n) for n in list(arguments) if n in settings and n != "task"}
            fitted = make(**own).fit(**arguments)
            if arguments["X"] is X:
                found = fitted.predict(X, **{n: v for n, v in arguments.items() if n == "task"})
                found = found.toarray() if sp.issparse(found) else np.asarray(found)
                assert found.dtype.kind != "f" or np.isfinite(found).all(), "not finite"
            return fitted

        data = {"X": X, "y": y, **({"task": TASK} if knows_tasks else {})}
        draws = {**settings, **(with_task if knows_tasks else rows), "y": array(y)}
        if "Boosting" in name or "PriorSampling" in name:
            draws["eval_set"] = one_of((X, y), (X,), X, 3, (X, y[:3]), (None, None), (X, -y))
            draws["callbacks"] = one_of([len], 3, [3], None, [lambda r: True])
        yield Entry(f"{name}.fit", fit, {**legal, **data}, draws)
        yield Entry(
            f"{name}.fit, rows",
            fit,
            {**legal, **data},
            with_task | {"y": array(y)} if knows_tasks else rows | {"y": array(y)},
        )
        predict = {"X": X, **({"task": TASK} if knows_tasks else {})}
        odd = {"X": table, **({"task": _ROWS["task"]} if knows_tasks else {})}
        own = tuple(legal.items())
        for method in ("predict", "predict_proba", "decision_function", "apply"):
            if hasattr(make, method):
                yield Entry(
                    f"{name}.{method}",
                    lambda m=make, o=own, p=method, t=knows_tasks, **a: getattr(
                        _fitted(m, o, t), p
                    )(**a),
                    predict,
                    odd,
                )
        yield Entry(
            f"{name}.score",
            lambda m=make, o=own, t=knows_tasks, **a: _fitted(m, o, t).score(**a),
            {**predict, "y": y},
            {**odd, "y": array(y), "sample_weight": array(np.abs(Y))},
        )
        yield _entry(f"{name}, not fitted", lambda X, m=make: m().predict(X), {"X": X}, X=table)
        if hasattr(make, "booster"):
            yield _entry(
                f"{name}.booster",
                lambda output, m=make, o=own, t=knows_tasks: _fitted(m, o, t).booster(output),
                {"output": 0},
                output=value,
            )
    yield _entry(
        "MTAdaBoostClassifier.to_text",
        lambda tree: _fitted(mtboost.MTAdaBoostClassifier, tuple(few.items()), True).to_text(tree),
        {"tree": 0},
        tree=value,
    )
    yield _entry(
        "compress",
        lambda **a: mtboost.compress(**a),
        {
            "forest": RandomForestRegressor(2, random_state=0, n_jobs=1).fit(X, Y),
            "X": X,
            "y": Y,
            "n_steps": 3,
        },
        forest=anything,
        X=table,
        y=array(Y),
        task=array(TASK),
        n_steps=lambda rng, name: "cv" if rng.random() < 0.3 else number(rng, name),
        **dict.fromkeys(("epsilon", "cv", "max_steps", "random_state", "n_jobs"), value),
    )


def _setting(default: Any) -> Draw:
    """Odd values of a parameter of an estimator."""
    return number if isinstance(default, int | float) and not isinstance(default, bool) else value


@functools.cache
def _fitted(make: Any, options: tuple[Any, ...], knows_tasks: bool) -> Any:
    name = make.__name__
    y: Any = CLASSES if "Classifier" in name else Y
    if "Projected" in name:
        y = INDICATORS if "Classifier" in name else OUTPUTS
    estimator = make(**dict(options))
    return estimator.fit(X, y, task=TASK) if knows_tasks else estimator.fit(X, y)


def _plug_ins() -> Iterator[Entry]:
    for name, module in (("xgboost", mtboost.xgboost), ("lightgbm", mtboost.lightgbm)):
        own = parameters(_XGBOOST if name == "xgboost" else _LIGHTGBM)
        split = dict.fromkeys(_keywords(module.TaskSplit.__init__), value)
        split |= {
            "task": array(TASK),
            "split_score": _OTHERS["split_score"],
            "pooling": _OTHERS["pooling"],
        }
        split |= {"symmetric_trees": value, "task_column": one_of(0, -1, "p", 9, 1.5, True, None)}
        split.pop("table", None)
        yield Entry(
            f"{name}.TaskSplit",
            lambda n=name, m=module, params=None, **a: _train(
                n, _mapping(params), [m.TaskSplit(**a)]
            ),
            {"task": TASK},
            {**split, "params": own},
        )
        objective = {
            "objective": _OBJECTIVES,
            "task": array(TASK),
            "task_weight": _OTHERS["task_weight"],
            "n_threads": value,
        }
        legal = {
            "objective": "reg:squarederror" if name == "xgboost" else "regression",
            "task": TASK,
            "n_threads": 1,
        }
        yield Entry(
            f"{name}.TaskObjective",
            lambda n=name, m=module, **a: _train(n, {}, [], m.TaskObjective(**a)),
            legal,
            objective,
        )
        yield Entry(
            f"{name}.TaskQuitting",
            lambda n=name, m=module, **a: _train_quitting(n, m, **a),
            {"task": TASK},
            {
                "task": array(TASK),
                "metric": _METRICS,
                **dict.fromkeys(("early_stopping_rounds", "min_delta", "verbose"), value),
                "objective": anything,
                "valid": anything,
            },
        )
        yield Entry(
            f"{name}.task_metric",
            lambda m=module, n=name, **a: m.task_metric(
                **{"tasks": [(_matrix(n), a.pop("task", TASK))], **a}
            ),
            {"metric": "rmse"},
            {
                "metric": _METRICS,
                "task": array(TASK),
                "tasks": one_of(3, [3], [(3, TASK)], None, [(X, TASK, 1)], {}),
            },
        )
        yield Entry(
            f"{name}.residual_margin",
            lambda m=module, n=name, **a: m.residual_margin(
                _booster(n), _matrix(n) if n == "xgboost" else X, **a
            ),
            {"quit_round": 1},
            {
                "quit_round": lambda rng, name: (
                    one_of({0: 1, 1: 2}, {0: 9}, {}, {0: "x"}, {0: 1.5}, {0: None})(rng, name)
                    if rng.random() < 0.3
                    else value(rng, name)
                ),
                "task": array(TASK),
            },
        )
        yield Entry(
            f"{name}.combine",
            lambda m=module, n=name, **a: m.combine(
                **{"common": _booster(n), "specific": _booster(n), **a}
            ),
            {"n_common_rounds": 1},
            {"n_common_rounds": value, "common": anything, "specific": anything},
        )
    projected = dict.fromkeys(("n_components", "shared", "seed", "n_threads"), value)
    yield Entry(
        "xgboost.ProjectedObjective",
        lambda **a: xgboost.train(
            {"multi_strategy": "multi_output_tree", "min_child_weight": 0, "nthread": 1},
            xgboost.DMatrix(X, OUTPUTS, nthread=1),
            2,
            callbacks=[mtboost.xgboost.ProjectedObjective(**a)],
        ),
        {},
        {
            **projected,
            "labels": array(OUTPUTS),
            "weight": array(np.abs(Y)),
            "projection": _projections,
        },
    )
    yield Entry(
        "lightgbm.ProjectedObjective",
        lambda **a: lightgbm.train(
            {"verbosity": -1, "num_threads": 1},
            lightgbm.Dataset(X, OUTPUTS[:, 0]),
            2,
            callbacks=[mtboost.lightgbm.ProjectedObjective(**a)],
        ),
        {"labels": OUTPUTS},
        {
            **projected,
            "labels": array(OUTPUTS),
            "weight": array(np.abs(Y)),
            "projection": _projections,
            "valid_labels": value,
        },
    )
    yield _entry(
        "xgboost.PriorFeatureSampling",
        lambda params=None, **a: _train(
            "xgboost",
            {"colsample_bynode": 0.5, **_mapping(params)},
            [mtboost.xgboost.PriorFeatureSampling(**a)],
        ),
        {"prior": [1, 2, 3]},
        prior=_OTHERS["prior"],
        dynamic=value,
        prior_rounds=value,
        floor=value,
        params=parameters(_XGBOOST),
    )


def _projections(rng: np.random.Generator, name: str) -> Any:
    return one_of(
        "pca",
        "hadamard",
        "x",
        None,
        np.eye(3),
        np.eye(2),
        [[np.nan] * 3],
        np.zeros((2, 3)),
        [[1]],
        np.ones(3),
        3,
        [["a"] * 3],
    )(rng, name)


def _matrix(name: str) -> Any:
    return (
        xgboost.DMatrix(X, Y, nthread=1)
        if name == "xgboost"
        else lightgbm.Dataset(X, Y, free_raw_data=False)
    )


@functools.cache
def _booster(name: str) -> Any:
    if name == "xgboost":
        return xgboost.train({"nthread": 1}, _matrix(name), 2)
    return lightgbm.train({"verbosity": -1, "num_threads": 1}, _matrix(name), 2)


def _train(
    name: str, params: dict[str, Any], callbacks: list[Any], objective: Any = None
) -> object:
    """Stock training. What the library itself refuses in its own parameters is its own affair."""
    stock: tuple[type[Exception], ...] = (lightgbm.basic.LightGBMError, xgboost.core.XGBoostError)
    try:
        if name == "xgboost":
            own = {"nthread": 1, "verbosity": 0, **params}
            return xgboost.train(own, _matrix(name), 2, callbacks=callbacks, obj=objective)
        own = {"num_threads": 1, "verbosity": -1, **params}
        own |= {} if objective is None else {"objective": objective}
        return lightgbm.train(own, _matrix(name), 2, callbacks=callbacks)
    except stock as error:
        raise _OfStockError(str(error)) from None
    except (AttributeError, ValueError, TypeError) as error:
        if _is_from(error, "mtboost") or not params:
            raise
        raise _OfStockError(str(error)) from None


def _mapping(params: Any) -> dict[str, Any]:
    """Parameters of the library, if they are any: others are not ours to refuse."""
    return dict(params) if isinstance(params, dict) else {}


class _OfStockError(Exception):
    """A library refused its own parameters, before we saw them."""


def _train_quitting(name: str, module: Any, **arguments: Any) -> object:
    matrix = _matrix(name)
    quitting = module.TaskQuitting(**{"valid": matrix, **arguments})
    callbacks = [module.TaskSplit(TASK), quitting]
    if name == "xgboost":
        return xgboost.train({"nthread": 1}, matrix, 2, callbacks=callbacks)
    valid = lightgbm.Dataset(X, Y, reference=matrix)
    own = arguments.get("valid", valid)
    quitting = module.TaskQuitting(**{**arguments, "valid": valid if own is matrix else own})
    params = {"verbosity": -1, "num_threads": 1}
    return lightgbm.train(params, matrix, 2, valid_sets=[valid], callbacks=[callbacks[0], quitting])


def _functions() -> Iterator[Entry]:
    yield _entry(
        "make_split_score",
        mtboost.make_split_score,
        {"score": "variance", "beta": 1.0},
        score=_OTHERS["split_score"],
        beta=value,
    )
    yield _entry(
        "feature_prior",
        mtboost.feature_prior,
        {"problems": [(X, Y)], "n_threads": 1},
        problems=lambda rng, name: (
            [(table(rng, name), array(Y)(rng, name))]
            if rng.random() < 0.7
            else one_of(
                [X],
                [(X,)],
                3,
                [],
                {},
                [{"a": 1}, [1]],
                [[1, 2], [1]],
                [[10**400]],
                [{}],
                "x",
                [None],
                [_booster("xgboost")],
            )(rng, name)
        ),
        leave_out=value,
        labels=one_of("auto", "classes", "numbers", "x", None, 3),
        importance_type=one_of("impurity", "gain", "x", None, 3, ["gain"]),
        series_length=number,
        n_threads=value,
    )
    yield _entry("get_metric", mtboost.metrics.get_metric, {"metric": "rmse"}, metric=_METRICS)
    yield _entry(
        "default_metric",
        mtboost.metrics.default_metric,
        {"objective": "reg:squarederror"},
        objective=_OBJECTIVES,
        tweedie_variance_power=value,
        huber_slope=value,
    )
    for name in mtboost.datasets.__all__:
        make = getattr(mtboost.datasets, name)
        if not name.startswith("make_"):
            continue
        defaults = _keywords(make)
        legal = {
            n: v for n, v in {"n_samples": 20, "n_rows": 40, "scale": 0.01}.items() if n in defaults
        }
        if "scale" in legal and "scene" not in defaults:
            del legal["scale"]
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
