# SPDX-License-Identifier: Apache-2.0
"""Legal data, and odd values of arguments: of a wrong type, shape, length, range or kind.

A draw is a function ``(rng, name)`` that returns an odd value for the argument of that name.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
import xgboost

import mtboost

Draw = Callable[[np.random.Generator, str], Any]

# ---- legal data ----------------------------------------------------------------------------------

N_ROWS, N_COLUMNS = 40, 3
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N_ROWS, N_COLUMNS))
Y = X @ [1.0, -1.0, 0.5] + 0.1 * _RNG.normal(size=N_ROWS)
WEIGHT = np.abs(Y)
CLASSES = (Y > 0).astype(int)
OUTPUTS = np.column_stack([Y, -Y, X[:, 0]])
INDICATORS = (OUTPUTS > 0).astype(int)
TASK = np.arange(N_ROWS) % 2
FRAME = pd.DataFrame(X, columns=list("pqr"))

# ---- scalars and other values --------------------------------------------------------------------

# fmt: off
#: Values of any type, for any argument.
ANYTHING: tuple[Any, ...] = (
    None, True, False, np.True_, "", "x", "auto", b"x", object(), object, len, ..., NotImplemented,
    [], [1], [[1, 2], [3]], ["a", 1], (), (1, 2), {}, {"a": 1}, {1: 2}, {1, 2}, range(3), iter(()),
    np.array(2), np.array([2]), np.array([]), np.zeros((2, 2)), np.array(["a"]), np.array(None),
    pd.Series([1.0]), pd.NA, pd.NaT, np.datetime64("2020-01-01"), datetime.date(2020, 1, 1),
    Path("x"), ValueError("x"), slice(1), 1 + 2j, lambda *_: None,
)
#: Values that are numbers, or nearly.
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.0, 1e-320, 1e-50, 1e20, 1e38, 1e39, 1e308,
    2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**400, -(10**400), -(2**31),
    float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.float16("inf"),
    np.int8(-1), np.uint8(1), np.int64(2), np.uint64(2**64 - 1), np.float32(0.5), np.longdouble(1),
    fractions.Fraction(1, 2), decimal.Decimal("0.5"), decimal.Decimal("NaN"), "1", "0.5", "nan",
)
#: Arguments of which large legal values take long, or much memory.
LONG = {
    "num_boost_round", "specific_rounds", "n_estimators", "early_stopping_rounds", "n_trials",
    "max_steps", "n_steps", "n_samples", "n_rows", "n_outputs", "n_noise_outputs", "n_groups",
    "group_size", "n_problems", "n_informative", "n_noise", "n_tasks", "n_regions", "n_labels",
    "length", "series_length", "scale", "timeout", "n_components", "imbalance",
}
# fmt: on


def number(rng: np.random.Generator, name: str) -> Any:
    drawn = NUMBERS[rng.integers(len(NUMBERS))]
    if name in LONG and isinstance(drawn, int | float | np.number) and 20 < drawn < 2**31:
        return -drawn
    return drawn


def anything(rng: np.random.Generator, name: str) -> Any:
    return ANYTHING[rng.integers(len(ANYTHING))]


def value(rng: np.random.Generator, name: str) -> Any:
    return (number if rng.random() < 0.7 else anything)(rng, name)


def one_of(*choices: Any) -> Draw:
    return lambda rng, name: choices[rng.integers(len(choices))]


def each(draw: Draw, names: str) -> dict[str, Draw]:
    """The same draw for each of some arguments."""
    return dict.fromkeys(names.split(), draw)


# ---- arrays and tables ---------------------------------------------------------------------------


def _flat(a: np.ndarray) -> np.ndarray:
    """An array as a table."""
    return a.reshape(len(a), -1)


def _first(a: np.ndarray) -> np.ndarray:
    return _flat(a)[:, 0]


def _floats(a: np.ndarray) -> np.ndarray:
    return _flat(a).astype(float)


def _masked(a: np.ndarray) -> Any:
    return np.ma.masked_array(a, mask=np.arange(a.size).reshape(a.shape) % 5 == 0)


def _planted(a: np.ndarray, *planted: Any, dtype: Any = object) -> np.ndarray:
    found = np.array(a, dtype=dtype)
    found.flat[1 : 1 + len(planted)] = planted
    return found


def _planted_float(a: np.ndarray, planted: float) -> np.ndarray:
    return _planted(a, planted, dtype=float)


def _frozen(a: np.ndarray) -> np.ndarray:
    values = np.repeat(a, 2, axis=0)
    values.setflags(write=False)
    return values[::2]


#: Makes of an array (a table, or one value a row) something odd; it may be legal.
ODD_ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "as it is": np.asarray,
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(a.tolist()),
    "generator": lambda a: (row for row in a.tolist()),
    "set": lambda a: set(a.ravel().tolist()),
    "text": str,
    "fewer rows": lambda a: a[:-3],
    "more rows": lambda a: np.concatenate([a, a[:3]]),
    "no rows": lambda a: a[:0],
    "one row": lambda a: a[:1],
    "0-d": lambda a: np.array(1.0),
    "column": lambda a: _flat(a)[:, :1],
    "columns": lambda a: np.column_stack([a, a]),
    "3-d": lambda a: a.reshape(len(a), -1, 1),
    "4-d": lambda a: a.reshape(1, len(a), -1, 1),
    "transposed": lambda a: a.T,
    "ragged": lambda a: [[1.0, 2.0], [3.0], *[[4.0, 5.0]] * (len(a) - 2)],
    "objects": lambda a: a.astype(object),
    "None": lambda a: _planted(a, None),
    "all None": lambda a: np.full(a.shape, None),
    "text inside": lambda a: _planted(a, "x"),
    "mixed": lambda a: _planted(a, "x", 1, None, 2.5, b"y"),
    "unhashable": lambda a: _planted(a, [1], {2: 3}),
    "huge integers": lambda a: _planted(a, 10**400, -(10**400)),
    "decimals": lambda a: _planted(a, decimal.Decimal("1.5"), decimal.Decimal("sNaN")),
    "fractions": lambda a: _planted(a, fractions.Fraction(1, 3)),
    "pandas.NA": lambda a: _planted(a, pd.NA, pd.NaT),
    "strings": lambda a: a.astype(str),
    "bytes": lambda a: a.astype("S4"),
    "new strings": lambda a: a.astype(str).astype(np.dtypes.StringDType()),
    "complex": lambda a: a.astype(complex),
    "dates": lambda a: np.zeros(a.shape, "datetime64[D]"),
    "durations": lambda a: np.zeros(a.shape, "timedelta64[s]"),
    "records": lambda a: np.array([(1.0, 2)] * len(a), dtype=[("a", float), ("b", int)]),
    "booleans": lambda a: a > 0,
    "int8": lambda a: a.astype(np.int8),
    "uint64": lambda a: np.full(a.shape, 2**64 - 1, np.uint64),
    "int64": lambda a: np.full(a.shape, -(2**63), np.int64),
    "float16": lambda a: a.astype(np.float16),
    "longdouble": lambda a: a.astype(np.longdouble) * np.longdouble("1e4000"),
    "big-endian": lambda a: a.astype(">f8"),
    "big-endian integers": lambda a: a.astype(">i4"),
    "read-only": _frozen,
    "Fortran order": np.asfortranarray,
    "backwards": lambda a: a[::-1],
    "masked": _masked,
    "NaN": lambda a: _planted_float(a, np.nan),
    "all NaN": lambda a: np.full(a.shape, np.nan),
    "inf": lambda a: _planted_float(a, np.inf),
    "-inf": lambda a: _planted_float(a, -np.inf),
    "1e300": lambda a: _planted_float(a, 1e300),
    "1e38": lambda a: a.astype(float) * 1e38,
    "1e-300": lambda a: a.astype(float) * 1e-300,
    "negative": lambda a: -1.0 - np.abs(a.astype(float)),
    "zeros": lambda a: np.zeros(a.shape),
    "ones": lambda a: np.ones(a.shape),
    "matrix": np.asmatrix,
    "memoryview": lambda a: memoryview(np.ascontiguousarray(a)),
    "Series": lambda a: pd.Series(list(_first(a))),
    "Series, other index": lambda a: pd.Series(_first(a), index=[7] * len(a)),
    "nullable": lambda a: pd.Series(_first(a)).astype("Float64"),
    "category": lambda a: pd.Categorical(_first(a).astype(int)),
    "categories with None": lambda a: pd.Categorical([None, *["a", "b"] * len(a)][: len(a)]),
    "index": lambda a: pd.Index(_first(a)),
    "DataFrame": lambda a: pd.DataFrame(_flat(a)),
    "polars.Series": lambda a: pl.Series(_first(a).tolist()),
    "polars.DataFrame": lambda a: pl.DataFrame(_floats(a)),
    "LazyFrame": lambda a: pl.DataFrame(_floats(a)).lazy(),
    "pyarrow.Array": lambda a: pa.array(_first(a).tolist()),
    "pyarrow nulls": lambda a: pa.nulls(len(a)),
    "chunked": lambda a: pa.chunked_array([_floats(a)[:, 0]]),
    "CSR": lambda a: sp.csr_array(_floats(a)),
    "CSC": lambda a: sp.csc_matrix(_floats(a)),
    "COO": lambda a: sp.coo_array(a.astype(float)),
    "DOK": lambda a: sp.dok_array(_floats(a)),
    "CSR of complex": lambda a: sp.csr_array(_flat(a).astype(complex)),
    "CSR of longdouble": lambda a: sp.csr_array(_flat(a).astype(np.longdouble)),
    "CSR of integers": lambda a: sp.csr_array(_flat(a).astype(np.int64)),
    "CSR of booleans": lambda a: sp.csr_array(_flat(a) > 0),
    "CSR with NaN": lambda a: sp.csr_array(_planted_float(_flat(a), np.nan)),
    "CSR with inf": lambda a: sp.csr_array(_planted_float(_flat(a), np.inf)),
    "empty CSR": lambda a: sp.csr_array(_flat(a).shape),
    "DMatrix": lambda a: xgboost.DMatrix(_floats(a)),
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

_LETTERS = ["a", "b"] * (N_ROWS // 2)
_DATE = datetime.date(2020, 1, 1)
_HALVES = decimal.Decimal("1.5")


def _names(*names: Any) -> pd.DataFrame:
    return FRAME.set_axis(list(names), axis=1)


#: Tables as they are, for any X.
ODD_TABLES: dict[str, Callable[[], Any]] = {
    "objects": lambda: FRAME.assign(p="a"),
    "dates": lambda: FRAME.assign(p=pd.Timestamp("2020-01-01")),
    "periods": lambda: FRAME.assign(p=pd.Period("2020-01")),
    "intervals": lambda: FRAME.assign(p=pd.cut(X[:, 0], 3)),
    "categories": lambda: FRAME.assign(p=pd.Categorical(_LETTERS)),
    "categories of floats": lambda: FRAME.assign(p=pd.Categorical([1.5, 2.5] * 20)),
    "categories missing": lambda: FRAME.assign(p=pd.Categorical([None] * N_ROWS)),
    "names twice": lambda: _names("p", "p", "r"),
    "names that are numbers": lambda: _names(0, 1.5, None),
    "names of tuples": lambda: FRAME.set_axis(
        pd.MultiIndex.from_product([["a"], [1, 2, 3]]), axis=1
    ),
    "bad names": lambda: _names("[", "<", ""),
    "names of other columns": lambda: _names("x", "y", "z"),
    "columns backwards": lambda: FRAME[["r", "q", "p"]],
    "a column less": lambda: FRAME[["p", "q"]],
    "a column more": lambda: FRAME.assign(s=1.0),
    "no columns": lambda: FRAME[[]],
    "sparse columns": lambda: FRAME.astype(pd.SparseDtype(float, np.nan)),
    "nullable": lambda: FRAME.round().astype("Int64").mask(FRAME > 1),
    "arrow columns": lambda: FRAME.astype("double[pyarrow]"),
    "arrow strings": lambda: FRAME.assign(p=pd.array(_LETTERS, "string[pyarrow]")),
    "complex": lambda: FRAME.assign(p=X[:, 0] + 1j),
    "index twice": lambda: FRAME.set_axis([0] * N_ROWS),
    "infinite": lambda: FRAME.assign(p=np.inf),
    "polars strings": lambda: pl.DataFrame({"p": _LETTERS, "q": X[:, 1]}),
    "polars lists": lambda: pl.DataFrame({"p": [[1.0]] * N_ROWS, "q": X[:, 1]}),
    "polars nulls": lambda: pl.DataFrame({"p": [None] * N_ROWS, "q": X[:, 1]}),
    "polars categories": lambda: pl.DataFrame({"p": pl.Series(_LETTERS, dtype=pl.Categorical)}),
    "polars dates": lambda: pl.DataFrame({"p": [_DATE] * N_ROWS}),
    "pyarrow strings": lambda: pa.table({"p": _LETTERS, "q": X[:, 1]}),
    "pyarrow nulls": lambda: pa.table({"p": pa.nulls(N_ROWS), "q": X[:, 1]}),
    "pyarrow lists": lambda: pa.table({"p": [[1.0]] * N_ROWS}),
    "pyarrow dictionary": lambda: pa.table({"p": pa.array(["a", None] * 20).dictionary_encode()}),
    "pyarrow decimals": lambda: pa.table({"p": pa.array([_HALVES] * N_ROWS)}),
    "pyarrow names twice": lambda: pa.table([X[:, 0], X[:, 1]], names=["p", "p"]),
    "one column": lambda: X[:, :1],
    "very wide": lambda: sp.csr_array((N_ROWS, 2**31)),
    "constant": lambda: np.ones((N_ROWS, N_COLUMNS)),
    "task column": lambda: FRAME.assign(task=TASK),
}


def array(values: np.ndarray) -> Draw:
    """Odd forms of what is given one value a row."""
    return lambda rng, name: one_of(*ODD_ARRAYS.values())(rng, name)(values)


def table(rng: np.random.Generator, name: str) -> Any:
    return array(X)(rng, name) if rng.random() < 0.5 else one_of(*ODD_TABLES.values())(rng, name)()


# ---- parameters ----------------------------------------------------------------------------------


def parameters(of: Mapping[str, Any]) -> Draw:
    """A mapping of the library's parameters, one of them odd."""
    names = (*of, "max_dept", "seed", "nthread", "objective", "metric", "", 3)

    def draw(rng: np.random.Generator, name: str) -> Any:
        chosen = names[rng.integers(len(names))]
        return {chosen: value(rng, str(chosen)) if rng.random() < 0.9 else of.get(chosen, 1)}

    return draw


# fmt: off
_XGBOOST = {
    "max_depth": 2, "learning_rate": 0.3, "min_child_weight": 1, "gamma": 0, "reg_lambda": 1,
    "reg_alpha": 0, "subsample": 1, "colsample_bytree": 1, "colsample_bylevel": 1, "max_bin": 16,
    "colsample_bynode": 1, "max_leaves": 4, "grow_policy": "lossguide", "max_delta_step": 1,
    "monotone_constraints": (1, 0, 0), "interaction_constraints": "[[0, 1]]", "base_score": 0.5,
    "scale_pos_weight": 1, "tree_method": "hist", "booster": "gbtree", "num_parallel_tree": 1,
    "num_class": 2, "multi_strategy": "one_output_per_tree", "tweedie_variance_power": 1.5,
    "max_cat_to_onehot": 4, "max_cat_threshold": 64, "sampling_method": "uniform", "device": "cpu",
    "huber_slope": 1.0, "process_type": "default", "updater": "grow_quantile_histmaker",
}
_LIGHTGBM = {
    "max_depth": 2, "learning_rate": 0.3, "num_leaves": 4, "min_data_in_leaf": 2, "lambda_l1": 0,
    "lambda_l2": 1, "min_gain_to_split": 0, "bagging_fraction": 1, "bagging_freq": 1, "max_bin": 16,
    "feature_fraction": 1, "feature_fraction_bynode": 1, "max_delta_step": 1, "path_smooth": 1,
    "monotone_constraints": [1, 0, 0], "interaction_constraints": [[0, 1]], "extra_trees": True,
    "min_sum_hessian_in_leaf": 1, "feature_contri": [1, 1, 1], "boosting": "dart", "sigmoid": 1.0,
    "num_class": 2, "is_unbalance": True, "scale_pos_weight": 1, "alpha": 0.9, "linear_tree": True,
    "min_data_in_bin": 1, "bin_construct_sample_cnt": 100, "cat_smooth": 1, "cat_l2": 1,
    "max_cat_threshold": 4, "min_data_per_group": 1, "max_cat_to_onehot": 2,
    "zero_as_missing": True, "use_missing": False, "boost_from_average": False, "reg_sqrt": True,
    "max_bin_by_feature": [4, 4, 4], "data_sample_strategy": "goss", "tweedie_variance_power": 1.5,
    "fair_c": 1, "bagging_seed": 3,
}
PARAMETERS = {"xgboost": parameters(_XGBOOST), "lightgbm": parameters(_LIGHTGBM)}
PARAMETERS_OF_TRAIN = parameters({**_XGBOOST, "split_score": "entropy", "beta": 1.0})
OBJECTIVES = one_of(
    "reg:squarederror", "binary:logistic", "multi:softprob", "count:poisson", "reg:tweedie", "l2",
    "reg:gamma", "rank:ndcg", "regression", "binary", "poisson", "multiclass", "reg:squareerror",
    "", 3, None, len, {0: "binary"}, {0: "reg:squarederror", 1: "count:poisson"}, {}, {0: None},
    "reg:absoluteerror", "quantile", "huber", "lambdarank", "cross_entropy",
    "reg:pseudohubererror",
)
METRICS = one_of(
    "rmse", "auc", "error@x", "error@nan", "error@1e400", "tweedie-nloglik@1", "mlogloss", "x", 3,
    None, len, mtboost.metrics.Metric("m", lambda y, p: 0.0, False), {0: "rmse"}, {}, {2: "mae"},
    mtboost.metrics.Metric("m", lambda y, p: float("nan"), True), {0: 3}, ["rmse"],
)
EVAL_SETS = one_of(
    (X, Y, TASK), (X, Y), (X,), [], [X, Y, TASK], ((X, Y, TASK),), (X, Y[:3], TASK), 3, "ab", X,
    (FRAME, Y, TASK), (X, Y, TASK + 1), (X, Y, TASK, -Y), (X, None, TASK), (None, Y, TASK), {},
    (X, Y, TASK, None, Y), (X, Y, TASK, Y * Y, None, 3), (X[:0], Y[:0], TASK[:0]),
)
NAMES = one_of(
    list("pqr"), ["p"], ["p", "p", "r"], [1, 2, 3], "pqr", 3, {0: ["p"]}, ["[", "<", ","], [],
    [None] * 3, np.array(list("pqr")), ("p", "q", "r"), {"p", "q", "r"}, [["p"]], iter("pqr"),
)
SPACES = one_of(
    {"max_depth": (1, 2)}, {"max_depth": (2, 1)}, {"x": [1]}, 3, {}, {"eta": (0, 1, "log")},
    lambda trial: 3, {"max_depth": (np.nan, 1)}, {"max_depth": [object()]}, {3: [1]},
    {"max_depth": (1, 10**400)}, {"max_depth": [10**400]}, {"eta": (0.1, float("inf"))},
)
PROJECTIONS = one_of(
    "pca", "hadamard", "x", None, np.eye(3), np.eye(2), [[np.nan] * 3], np.zeros((2, 3)), [[1]],
    np.ones(3), 3, [["a"] * 3],
)
PROBLEMS = (
    [X], [(X,)], 3, [], {}, [{"a": 1}, [1]], [[1, 2], [1]], [[10**400]], [{}], "x", [None],
)
#: Arguments of one value a row.
ROWS: dict[str, Draw] = {
    "X": table,
    "y": array(Y),
    "task": lambda rng, name: (
        one_of("p", "x", 0, 9, -1, None) if rng.random() < 0.3 else array(TASK)
    )(rng, name),
    **each(array(WEIGHT), "weight sample_weight"),
    "base_margin": array(Y),
    **each(NAMES, "feature_names common_features"),
    "eval_set": EVAL_SETS,
}
OTHERS: dict[str, Draw] = {
    "objective": OBJECTIVES,
    **each(METRICS, "eval_metric metric"),
    "backend": one_of("xgboost", "lightgbm", "catboost", "", None, 3),
    "split_score": one_of(
        "plain", "variance", "x", None, lambda s, t: s, lambda: 0, lambda s, t: "x",
    ),
    "task_weight": one_of(
        "balanced", "x", {0: 1, 1: 2}, {0: 1}, {0: -1, 1: 1}, {0: "x", 1: 1}, {0: None, 1: 1},
        {0: 10**400, 1: 1}, {0: 0, 1: 0}, {0: np.nan, 1: 1}, {0: 1e-300, 1: 1e-300},
        {0: 1e300, 1: 1},
    ),
    "callbacks": one_of([3], 3, [len], None, "x", [None]),
    "on_round": one_of(3, "x", len, lambda: 0),
    "feature_prior": one_of(
        "auto", "x", [1, 2, 3], [1], {"p": 1.0}, {3: 1.0}, [-1, 0, 1], [np.nan] * 3, X,
    ),
    "prior": one_of(
        [1, 2, 3], [1], {"p": 1.0}, {3: 1.0}, [-1, 0, 1], [10**400, 1, 1], X, "x", {}, [0, 0, 0],
    ),
    "strategy": one_of("auto", "two-stage", "gbmort", "x", None, 3),
    "pooling": one_of("auto", "x", 1.0, 0),
    "task_splits": one_of(True, "descriptors", "x", 1.0),
}
# fmt: on
