# SPDX-License-Identifier: Apache-2.0
"""Random parameters, legal and not, in every function and estimator that trains.

Whatever the parameters, a call either trains a model whose predictions are finite, or raises an
error that says what is wrong, before the first tree is grown. A trained model does what is promised
of every model: its file, its boosters and any number of threads give the same predictions.
"""

from __future__ import annotations

import decimal
import functools
import inspect
import pickle
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost
from fuzz.protocol import Case, SkipCase, is_of_mtboost
from libraries import LIBRARIES

import mtboost
import mtboost.lightgbm
import mtboost.xgboost
from mtboost.base.checked_tables import as_table
from mtboost.errors import TrainingError, UnsupportedError

TEST_CALLS = 30

#: XGBoost's errors are ValueErrors, as DataError and ParameterError are.
REFUSALS = (TypeError, ValueError, UnsupportedError, TrainingError, lightgbm.basic.LightGBMError)

N_ROWS, N_FEATURES = 48, 3


def _function(*arguments: Any) -> Any:
    return arguments[0]


def _pooled(s: np.ndarray, gains: np.ndarray) -> np.ndarray:
    return s


def _square(margin: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    label = data.get_label()
    return margin.reshape(label.shape) - label, np.ones_like(label)


#: Values of any type, for any parameter.
_ODD = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 2.0, 1.5, 0.5, -0.5, 0.0, 1e-300, 1e300),
    *(float("nan"), float("inf"), -float("inf"), 2**31 - 1, 2**31, 2**32, 2**63, 2**64, -(2**63)),
    *(10**30, "", "a", "auto", "1", "nan", "plain", b"x", [], [1], [1, "a"], (), (1, 0, -1), {}),
    *(
        {"a": 1},
        {0: 1, 1: 1, 2: 1},
        np.float32(0.5),
        np.int64(3),
        np.array(2),
        np.array([]),
        1 + 2j,
    ),
    *(np.array([1.0, 2.0, 3.0]), np.array([[1, 2]]), np.str_("entropy"), np.bool_(True), _function),
    *(decimal.Decimal("0.5"), np.datetime64("2020-01-01"), object, range(3), {1, 2}),
)
#: Numbers of rounds, trees or models: large ones are legal and take long.
_LONG = {
    *("num_boost_round", "specific_rounds", "n_estimators", "num_iterations"),
    *("early_stopping_rounds", "n_ensemble"),
}
_SHORT_ODD = tuple(
    value for value in _ODD if not isinstance(value, int | float) or not 100 < abs(value) < 10**400
)

# What is legal, by name -------------------------------------------------------------------------

_XGBOOST: dict[str, tuple[Any, ...]] = {
    "eta": (0.01, 0.3, 1, 0, 1.0),
    "learning_rate": (0.3, 1),
    "max_depth": (0, 1, 2, 6, 30),
    "max_leaves": (0, 2, 7),
    "grow_policy": ("depthwise", "lossguide"),
    "min_child_weight": (0, 1, 5, 1e9),
    "gamma": (0, 0.1, 1e9),
    "lambda": (0, 1, 1e9),
    "reg_alpha": (0, 0.5, 1e9),
    "max_delta_step": (0, 0.5),
    "subsample": (1, 0.5, 0.01),
    "colsample_bytree": (1, 0.5, 0.01),
    "colsample_bylevel": (1, 0.5),
    "colsample_bynode": (1, 0.5),
    "max_bin": (2, 3, 16, 256, 1000),
    "monotone_constraints": ("(1,0,-1)", (1, 0, -1), (0, 0, 0), "()", (1,)),
    "interaction_constraints": ("[[0, 1]]", "[]", [[0], [1, 2]], [[0, 1, 2]], ""),
    "scale_pos_weight": (1, 0.1, 10),
    "base_score": (0.5, 0.1),
    "max_cat_to_onehot": (1, 4),
    "max_cat_threshold": (1, 64),
    "tree_method": ("hist", "auto", "exact", "approx"),
    "booster": ("gbtree", "dart", "gblinear"),
    "num_parallel_tree": (1, 2),
    "sampling_method": ("uniform", "gradient_based"),
    "multi_strategy": ("one_output_per_tree", "multi_output_tree"),
    "tweedie_variance_power": (1.1, 1.9),
    "huber_slope": (0.1, 10),
    "num_class": (0, 1, 2, 3, 4),
    "verbosity": (0, 1),
    "device": ("cpu", "cuda"),
    "refresh_leaf": (True,),
    "updater": ("grow_quantile_histmaker", "prune", "refresh"),
    "process_type": ("default", "update"),
    "max_cached_hist_node": (1, 1000),
    "validate_parameters": (True, False),
    "disable_default_eval_metric": (True, False),
    "rate_drop": (0.1,),
}
_LIGHTGBM: dict[str, tuple[Any, ...]] = {
    "learning_rate": (0.01, 0.3, 1),
    "num_leaves": (2, 5, 31),
    "max_depth": (-1, 1, 3),
    "min_data_in_leaf": (0, 1, 20),
    "min_sum_hessian_in_leaf": (0, 1e-3, 5),
    "lambda_l1": (0, 0.5, 1e9),
    "reg_lambda": (0, 1, 1e9),
    "min_gain_to_split": (0, 0.1, 1e9),
    "bagging_fraction": (1, 0.5, 0.01),
    "bagging_freq": (0, 1, 2),
    "feature_fraction": (1, 0.5, 0.01),
    "feature_fraction_bynode": (1, 0.5),
    "max_bin": (2, 3, 255, 1000),
    "min_data_in_bin": (1, 3),
    "bin_construct_sample_cnt": (1, 200000),
    "max_delta_step": (0, 0.5),
    "path_smooth": (0, 1.5),
    "extra_trees": (False, True),
    "linear_tree": (False, True),
    "boosting": ("gbdt", "dart", "rf", "goss"),
    "data_sample_strategy": ("bagging", "goss"),
    "is_unbalance": (False, True),
    "scale_pos_weight": (1, 3),
    "monotone_constraints": ([1, 0, -1], [0, 0, 0]),
    "monotone_constraints_method": ("basic", "intermediate"),
    "monotone_penalty": (0, 1.5),
    "interaction_constraints": ("[0,1],[2]", [[0, 1]], []),
    "feature_contri": ([1, 0.5, 1],),
    "num_class": (1, 2, 3, 4),
    "boost_from_average": (True, False),
    "tweedie_variance_power": (1.1, 1.9),
    "alpha": (0.5, 0.9),
    "fair_c": (0.1, 1),
    "poisson_max_delta_step": (0.7,),
    "sigmoid": (1, 2),
    "reg_sqrt": (False, True),
    "use_missing": (True, False),
    "zero_as_missing": (False, True),
    "enable_bundle": (True, False),
    "force_col_wise": (True,),
    "force_row_wise": (True,),
    "deterministic": (True,),
    "histogram_pool_size": (-1, 1),
    "max_cat_threshold": (1, 32),
    "cat_smooth": (0.1, 10),
    "use_quantized_grad": (False, True),
    "device_type": ("cpu", "gpu"),
    "num_iterations": (2,),
}
_FIT: dict[str, tuple[Any, ...]] = {
    "split_score": ("entropy", "variance", "plain", _pooled),
    "beta": ("auto", 0, 1e-3, 1e9),
    "pooling": (None, 0, 1, "auto", 1e12),
    "task_splits": (False, True, 0.5, "descriptors"),
    "symmetric_trees": (False, True),
    "random_strength": (0, 1, 30),
    "num_boost_round": (1, 2, 4),
    "early_stopping_rounds": (1, 5, None),
    "min_delta": (0, 0.1),
    "eval_metric": (None, "rmse", "mae", "logloss", "auc", "aucpr", "error", "mlogloss", "merror"),
    "validation_fraction": ("auto", 0, 0.3),
    "specific_rounds": (0, 1, 3),
    "feature_prior": (None, "auto", [1.0, 2.0, 0.0]),
    "task_weight": (None, "balanced", {0: 1, 1: 2, 2: 0}),
    "refit": (False, True),
    "common_features": (None, "all", [0, 1]),
    "n_threads": (1, 2, None),
    "seed": (0, 1),
    "verbose": (False, True, 2),
    "feature_names": (None, ["a", "b", "c"]),
}
#: Slow: rarely drawn.
_RARE_OF_FIT = {"strategy": ("two-stage", "auto"), "baselines": (False, True)}
_SPLIT: dict[str, tuple[Any, ...]] = {
    "split_score": _FIT["split_score"],
    "task_column": (0, 2, "f0"),
    "task_splits": (0, 1.0),
    **{name: _FIT[name] for name in ("beta", "pooling", "symmetric_trees", "random_strength")},
}
_ESTIMATORS: dict[str, tuple[Any, ...]] = {
    "n_estimators": (1, 2, 4),
    "max_depth": (None, 1, 3),
    "max_features": (None, "sqrt", "log2", 1, 2, 0.5, 1.0),
    "min_samples_split": (2, 5, 0.2),
    "min_samples_leaf": (1, 3, 0.1),
    "max_samples": (None, 1, 0.5, 1.0),
    "bootstrap": (True, False),
    "oob_score": (True, False),
    "splitter": ("best", "random"),
    "task_split_prob": (0, 0.5, 1),
    "alpha": (0, 1.0),
    "criterion": ("joint", "sum", "max", "concat"),
    "purity": (0.8, 1.0),
    "learning_rate": (0.1, 1.0),
    "n_components": (1, 2, "log", "sqrt"),
    "projection": (None, "gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "subsample"),
    "strategy": ("gbmort", "gbrt-rpo", "gbrt-relabel-rpo"),
    "loss": ("squared_error", "absolute_error", "huber"),
    "huber_delta": (0.1, 1.0),
    "subsample": (0.5, 1.0),
    "colsample_bytree": (0.5, 1.0),
    "max_bin": (2, 16, 256),
    "max_leaf_nodes": (None, 2, 5),
    "shared": (False, True),
    "early_stopping_rounds": (None, 1, 2),
    "validation_fraction": (0.1, 0.4),
    "scoring": ("loss", None, "r2"),
    "dynamic": (False, True),
    "floor": (0, 0.05, 1),
    "importance_type": ("impurity", "gain"),
    "prior": (None, [1.0, 0.0, 2.0]),
    "random_state": (0, 1),
    "n_jobs": (1, 2, None),
    "verbose": (False, True),
    "warm_start": (False, True),
    # Of the multi-task estimators, besides those of fit().
    "max_leaves": (0, 5),
    "grow_policy": ("depthwise", "lossguide"),
    "gamma": (0, 0.5),
    "backend": ("xgboost", "lightgbm"),
    "task": (None,),
}


def _drawn(
    rng: np.random.Generator, legal: Mapping[str, tuple[Any, ...]], n: int, odd: float = 0.15
) -> dict[str, Any]:
    """Some parameters, most of them with legal values."""
    names = rng.choice(list(legal), min(n, len(legal)), replace=False)
    given = {}
    for name in map(str, names):
        values = legal[name]
        if rng.random() < odd:
            values = _SHORT_ODD if name in _LONG else _ODD
        given[name] = values[rng.integers(len(values))]
    if rng.random() < 0.02:
        given[str(rng.choice(["max_dept", "", "objectiv"]))] = 1
    return given


# Data -------------------------------------------------------------------------------------------

_OBJECTIVES = {
    "xgboost": {
        "reg:squarederror": "values",
        "reg:squaredlogerror": "counts",
        "reg:absoluteerror": "values",
        "reg:pseudohubererror": "values",
        "binary:logistic": "binary",
        "binary:logitraw": "binary",
        "binary:hinge": "binary",
        "reg:logistic": "shares",
        "count:poisson": "counts",
        "reg:gamma": "amounts",
        "reg:tweedie": "counts",
        "multi:softprob": "classes",
        "multi:softmax": "classes",
        "rank:ndcg": "counts",
        "survival:cox": "amounts",
        "reg:quantileerror": "values",
    },
    "lightgbm": {
        "regression": "values",
        "regression_l1": "values",
        "huber": "values",
        "fair": "values",
        "quantile": "values",
        "mape": "amounts",
        "poisson": "counts",
        "gamma": "amounts",
        "tweedie": "counts",
        "binary": "binary",
        "cross_entropy": "shares",
        "multiclass": "classes",
        "multiclassova": "classes",
        "lambdarank": "counts",
    },
}


@functools.cache
def _rows(seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Table, tasks and labels of every kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    X[:, 2] = rng.integers(0, 3, N_ROWS)
    if seed % 2:
        X[rng.random(X.shape) < 0.2] = np.nan
    task = np.minimum(rng.integers(0, 3, N_ROWS), rng.integers(0, 3, N_ROWS))
    task[:3] = range(3)
    values = np.nan_to_num(X[:, 0]) + task * np.nan_to_num(X[:, 1]) + rng.normal(size=N_ROWS)
    classes = np.digitize(values, [-0.5, 0.5])
    classes[:3] = range(3)
    labels = {
        "values": values,
        "binary": (values > 0).astype(float),
        "shares": 1 / (1 + np.exp(-values)),
        "counts": np.maximum(np.round(values), 0),
        "amounts": np.abs(values) + 0.1,
        "classes": classes.astype(float),
    }
    return X, task, labels


def _objective_and_labels(rng: np.random.Generator, library: str) -> tuple[Any, str]:
    known = _OBJECTIVES[library]
    objective = str(rng.choice(list(known)))
    kind = known[objective]
    if rng.random() < 0.05:
        kind = str(rng.choice(["values", "binary", "counts", "classes"]))
    if rng.random() < 0.05:
        return _square, "values"
    if rng.random() < 0.03:
        return _ODD[rng.integers(len(_ODD))], kind
    return objective, kind


# Functions ----------------------------------------------------------------------------------------


def _fit_case(rng: np.random.Generator) -> tuple[str, Callable[[], None]]:
    name = str(rng.choice(list(LIBRARIES)))
    X, task, labels = _rows(int(rng.integers(4)))
    objective, kind = _objective_and_labels(rng, name)
    options = _options_of_fit(rng, name)
    check = str(rng.choice(["threads", "file", "pickle"]))
    library, n_rounds = LIBRARIES[name], [0]

    def count(n: int) -> None:
        n_rounds[0] = n

    def fit(**changes: Any) -> Any:
        return mtboost.fit(
            X,
            labels[kind],
            task=task,
            objective=objective,
            backend=name,
            callbacks=[library.callback(count)],
            **{**options, **changes},
            strategy="two-stage",
        )

    def run() -> None:
        try:
            model = fit()
        except REFUSALS as error:
            if n_rounds[0] and not isinstance(error, TrainingError):
                raise AssertionError(f"refused after {n_rounds[0]} rounds: {error}") from error
            raise
        expected = _finite(model.predict(X, task=task))
        _check_boosters(model, library, X, task, options.get("feature_names"))
        if check == "threads":
            again = fit(n_threads=2 if options["n_threads"] == 1 else 1)
        else:
            again = _copied(model, check)
        np.testing.assert_array_equal(again.predict(X, task=task), expected)

    return f"fit({_shown({'objective': objective, 'backend': name} | options)}) of {kind}", run


def _options_of_fit(rng: np.random.Generator, name: str) -> dict[str, Any]:
    options = {"num_boost_round": 2, "specific_rounds": 2, "n_threads": 1}
    options |= _drawn(rng, _FIT, int(rng.integers(0, 5)))
    if rng.random() < 0.02:
        options |= _drawn(rng, _RARE_OF_FIT, 1)
    of_library = {"xgboost": _XGBOOST, "lightgbm": _LIGHTGBM}[name]
    for argument, probability in (("params", 0.8), ("specific_params", 0.15)):
        if rng.random() < probability:
            options[argument] = _drawn(rng, of_library, int(rng.integers(0, 5)), odd=0.1)
    if name == "lightgbm" and isinstance(options.setdefault("params", {}), dict):
        options["params"].setdefault("min_data_in_leaf", 2)
    return options


def _check_boosters(model: Any, library: Any, X: Any, task: Any, feature_names: Any) -> None:
    """The booster of each task has the margins of the model."""
    margins = model.predict_margin(X, task=task)
    for each in model.tasks:
        own = task == each
        table = as_table(X[own], feature_names=feature_names)
        found = library.margins(model.booster(each), model.task_columns[each].align(table).native)
        np.testing.assert_allclose(found, margins[own], rtol=library.atol * 100, atol=library.atol)


def _copied(model: Any, how: str) -> Any:
    if how == "pickle":
        return pickle.loads(pickle.dumps(model))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.mtb")
        return mtboost.load_model(Path(folder) / "model.mtb")


def _train_case(rng: np.random.Generator) -> tuple[str, Callable[[], None]]:
    """``mtboost.train``, and the callbacks in the libraries' own ``train``."""
    how = str(rng.choice(["mtboost.train", "xgboost.train", "lightgbm.train"]))
    name = "lightgbm" if how == "lightgbm.train" else "xgboost"
    X, task, labels = _rows(int(rng.integers(4)))
    objective, kind = _objective_and_labels(rng, name)
    params = _drawn(
        rng, {"xgboost": _XGBOOST, "lightgbm": _LIGHTGBM}[name], int(rng.integers(0, 6))
    )
    params = {"nthread" if name == "xgboost" else "num_threads": 1, **params}
    own = {} if callable(objective) else {"objective": objective}
    split = _drawn(rng, _SPLIT, int(rng.integers(0, 4)))
    if how == "mtboost.train":
        split = {
            name: split[old]
            for old, name in (("score", "split_score"), ("beta", "beta"))
            if old in split
        }
    y = labels[kind]

    def run() -> None:
        try:
            booster = train()
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            if any(is_of_mtboost(frame.filename) for frame in frames):
                raise
            raise SkipCase from error  # the library had not come to mtboost yet
        library = LIBRARIES[name]
        assert type(booster) is library.booster
        _finite(library.margins(booster, X))

    def train() -> Any:
        if how == "mtboost.train":
            data = mtboost.Dataset(X, y, task=task)
            obj = objective if callable(objective) else None
            return mtboost.train({**own, **params, **split}, data, 2, obj=obj, verbose_eval=False)
        elif how == "xgboost.train":
            return xgboost.train(
                {**own, **params},
                xgboost.DMatrix(X, y, nthread=1),
                2,
                obj=objective if callable(objective) else None,
                callbacks=[mtboost.xgboost.TaskSplit(task, **split)],
            )
        if callable(objective):
            own["objective"] = objective
        return lightgbm.train(
            {"verbosity": -1, "min_data_in_leaf": 2, **own, **params},
            lightgbm.Dataset(X, y),
            2,
            callbacks=[mtboost.lightgbm.TaskSplit(task, **split)],
        )

    given = _shown({**own, **params, **split})
    return f"{how}({given}) of {kind}", run


_FORESTS_WITH_TASKS = ("MTExtraTrees", "MTDecisionTree", "MTAdaBoost", "MultiTask")
_NAMES = (
    *("MTAdaBoostClassifier", "MTDecisionTreeClassifier", "MTExtraTreesClassifier"),
    *("MTExtraTreesRegressor", "MultiTaskClassifier", "MultiTaskRegressor"),
    *("PriorSamplingClassifier", "PriorSamplingRegressor", "ProjectedBoostingClassifier"),
    *("ProjectedBoostingRegressor", "ProjectedForestClassifier", "ProjectedForestRegressor"),
)


@functools.cache
def _legal_of(name: str) -> dict[str, tuple[Any, ...]]:
    """Legal values of the parameters of an estimator; of those not known here its default."""
    legal: dict[str, tuple[Any, ...]] = {}
    known = {**_XGBOOST, **_FIT, **_ESTIMATORS}
    if name.startswith("MultiTask"):
        known = {**_ESTIMATORS, **_XGBOOST, **_FIT, "strategy": ("two-stage",)}
        known |= {each: _ESTIMATORS[each] for each in ("n_estimators", "learning_rate", "task")}
    for parameter in inspect.signature(getattr(mtboost, name)).parameters.values():
        legal[parameter.name] = known.get(parameter.name, (parameter.default,))
    return legal


def _estimator_case(rng: np.random.Generator) -> tuple[str, Callable[[], None]]:
    name = str(rng.choice(_NAMES))
    make = getattr(mtboost, name)
    X, task, labels = _rows(int(rng.integers(4)))
    options = {"n_estimators": 2, "n_jobs": 1, "random_state": 0, "specific_rounds": 2}
    options["strategy"] = "two-stage"  # a search takes a hundred times as long
    options = {each: value for each, value in options.items() if each in _legal_of(name)}
    options |= _drawn(rng, _legal_of(name), int(rng.integers(0, 6)))
    rows = {"task": task} if name.startswith(_FORESTS_WITH_TASKS) else {}
    y = labels["classes" if name.endswith("Classifier") else "values"]
    if name.startswith("Projected") and rng.random() < 0.7:
        y = np.column_stack([y, labels["binary"], labels["binary"][::-1]])
        y = (y > 0).astype(int) if name.endswith("Classifier") else y
    check = str(rng.choice(["threads", "file", "pickle"]))

    def run() -> None:
        model = make(**options).fit(X, y, **rows)
        expected = _finite(_predicted(model, X, rows))
        if check == "threads" and _is_seeded(options):
            again = make(**{**options, "n_jobs": 2}).fit(X, y, **rows)
        elif check == "file" and hasattr(model, "save"):
            with tempfile.TemporaryDirectory() as folder:
                model.save(Path(folder) / "model.mtb")
                again = mtboost.load_model(Path(folder) / "model.mtb")
        else:
            again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(_predicted(again, X, rows), expected)

    return f"{name}({_shown(options)})", run


def _is_seeded(options: Mapping[str, Any]) -> bool:
    return "random_state" in options and isinstance(options["random_state"], int)


def _predicted(model: Any, X: np.ndarray, rows: dict[str, Any]) -> Any:
    method = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    found = method(X, **rows)
    # Tasks may have different classes, and several outputs a table each.
    parts = found if isinstance(found, list) else [found]
    return np.concatenate([np.asarray(part).ravel() for part in parts])


def _finite(predictions: Any) -> Any:
    assert np.isfinite(predictions).all(), f"predictions are not finite: {predictions}"
    return predictions


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in options.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_value(each)}" for key, each in value.items()) + "}"
    return getattr(value, "__name__", None) or " ".join(repr(value).split())


_CASES = (_fit_case, _fit_case, _train_case, _train_case, _estimator_case, _estimator_case)


def case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    text, run = _CASES[rng.integers(len(_CASES))](rng)

    def quiet() -> None:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            run()

    return Case(quiet, text, refusals=REFUSALS)
