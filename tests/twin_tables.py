# SPDX-License-Identifier: Apache-2.0
"""Tables and settings that bring out the rules of trees: of both libraries, and of LightGBM's."""

import functools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from oracle.naive_lightgbm import Params
from sklearn import datasets

Gradients = tuple[np.ndarray, np.ndarray]
Loss = Callable[[np.ndarray, np.ndarray], Gradients]
f32 = np.float32
REAL = ("diabetes", "breast_cancer", "digits")


@dataclass(frozen=True)
class Table:
    X: np.ndarray
    y: np.ndarray
    categorical: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # of the data set

    @property
    def feature_types(self) -> list[str]:
        """As XGBoost names them."""
        return ["c" if i in self.categorical else "float" for i in range(self.X.shape[1])]


def with_missing(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(X.shape) < share, np.nan, X)


def generated(name: str) -> Table:
    rng = np.random.default_rng(list(name.encode()))
    n_rows = 600
    X = rng.normal(size=(n_rows, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    match name:
        case "missing":
            return Table(with_missing(X, 0.2, rng), y)
        case "ties":
            X = np.column_stack([np.round(X), np.round(X[:, 0]), X > 0])
            return Table(with_missing(X, 0.1, rng), np.round(y))
        case "zeros_missing":
            X = np.where(rng.random(X.shape) < 0.3, 0, X)
            return Table(X, y, options={"zero_as_missing": True})
        case "frequent":  # the value that most rows have is the lowest, one in the middle, NaN
            X[:, 0] = np.where(rng.random(n_rows) < 0.8, -9, X[:, 0])
            X[:, 1] = np.where(rng.random(n_rows) < 0.8, 0.5, X[:, 1])
            X[:, 2:4] = with_missing(X[:, 2:4], 0.8, rng)
            return Table(X, y + (X[:, 0] == -9))
        case "frequent_zeros_missing":
            X[:, 0] = np.where(rng.random(n_rows) < 0.8, -9, X[:, 0])
            X[:, 1] = np.where(rng.random(n_rows) < 0.8, 0.5, X[:, 1])
            X[:, 2] = -np.abs(X[:, 2])
            X = np.where(rng.random(X.shape) < 0.1, 0, X)
            return Table(X, y + (X[:, 0] == -9), options={"zero_as_missing": True})
        case "bundle":  # of twenty columns each row has one
            own = rng.integers(0, 20, n_rows)
            sparse = np.zeros((n_rows, 20))
            sparse[np.arange(n_rows), own] = rng.integers(1, 4, n_rows)
            return Table(np.column_stack([X[:, :2], sparse]), y + rng.normal(size=20)[own])
        case "several":  # thirty sparse columns that cannot share one
            sparse = np.where(rng.random((n_rows, 30)) < 0.1, rng.normal(size=(n_rows, 30)), 0)
            return Table(np.column_stack([X[:, :2], sparse]), y + sparse[:, 0])
        case "categories" | "categories_missing":
            few, many = rng.integers(0, 3, n_rows), rng.integers(0, 15, n_rows)
            rare = np.minimum(rng.geometric(0.05, n_rows), 60)
            X = np.column_stack([X[:, :2], few, many, rare])
            effect = rng.normal(size=(2, 61))
            y = y + np.array([0, 2, -1])[few] + effect[0][many] + effect[1][rare]
            if name == "categories_missing":
                X = with_missing(X, 0.15, rng)
            return Table(X, y, categorical=(2, 3, 4))
    raise ValueError(name)


def normalised(table: Table) -> Table:
    """The table, its label with mean 0 and variance 1."""
    return replace(table, y=((table.y - table.y.mean()) / table.y.std()).astype(f32))


def real(name: str) -> Table:
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    # A part of the columns will do; pixels of digits bring ties, constant columns and bundles.
    return Table(X[:400, ::4], y[:400]) if X.shape[1] > 10 else Table(X, y)


@functools.cache
def load(name: str) -> Table:
    return normalised(real(name) if name in REAL else generated(name))


def squared_error(margin: np.ndarray, y: np.ndarray) -> Gradients:
    return margin - y, np.ones_like(margin)


def logistic(margin: np.ndarray, y: np.ndarray) -> Gradients:
    """In the order of LightGBM's operations."""
    label = np.where(y > 0, 1, -1)
    e = np.array([math.exp(x) for x in label * margin])
    response = -label / (1.0 + e)
    size = np.abs(response)
    return response, size * (1.0 - size)


def stock_parameters(params: Params, table: Table) -> dict[str, Any]:
    """The same settings in the notation of ``lightgbm.train``."""
    stock = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(params).items()
        if value != ()
    }
    if "interaction_constraints" in stock:
        stock["interaction_constraints"] = [list(g) for g in stock["interaction_constraints"]]
    stock["force_col_wise"] = not params.force_row_wise
    return stock | table.options | {"max_bin": 32, "verbosity": -1}


# Settings one at a time -----------------------------------------------------------------------

NUMERICAL = [*REAL, "missing", "ties", "zeros_missing", "frequent", "frequent_zeros_missing"]
NUMERICAL += ["bundle", "several"]
CATEGORICAL = ["categories", "categories_missing"]
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "fewest_rows": {"min_data_in_leaf": 1, "lambda_l2": 1.0},
    "fewest_hessian": {"min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 9.0},
    "l1": {"lambda_l1": 0.7},
    "min_gain": {"min_gain_to_split": 1.5},
    "max_depth": {"max_depth": 3},
    "max_delta_step": {"max_delta_step": 0.1},
    "max_delta_step_l1": {"max_delta_step": 0.3, "lambda_l1": 0.5},
    "path_smooth": {"path_smooth": 5.0},
    "monotone": {"monotone_constraints": (1, -1, 0, 0)},
    "monotone_penalty": {"monotone_constraints": (-1, 1, 0, 0), "monotone_penalty": 1.5},
    "monotone_smooth_l1": {
        "monotone_constraints": (-1, 1, 0, 0),
        "path_smooth": 2.0,
        "lambda_l1": 0.3,
    },
    "interaction": {"interaction_constraints": ((0, 1), (1, 2, 3))},
    "contribution": {"feature_contri": (0.5, 1.0, 0.9)},
    "row_wise": {"force_row_wise": True},
    "two_threads": {"num_threads": 2},
    "two_threads_row_wise": {"num_threads": 2, "force_row_wise": True},
    "deterministic": {"num_threads": 2, "deterministic": True},
}
CATEGORICAL_SETTINGS: dict[str, dict[str, Any]] = SETTINGS | {
    "one_hot": {"max_cat_to_onehot": 100},
    "partition": {"max_cat_to_onehot": 1, "min_data_per_group": 10},
    "short_partition": {"max_cat_to_onehot": 1, "max_cat_threshold": 2, "min_data_per_group": 1},
    "plain_partition": {"cat_l2": 0.0, "cat_smooth": 1.0, "min_data_per_group": 1},
}
EVERY_DATA_SET_UNDER_EVERY_SETTING = [
    *((name, setting) for name in NUMERICAL for setting in SETTINGS),
    *((name, setting) for name in CATEGORICAL for setting in CATEGORICAL_SETTINGS),
]


def with_losses(cases: list[tuple[str, str]], losses: list[Loss]) -> list[tuple[str, str, Loss]]:
    """Each case with one loss; data sets and settings have all losses in turn."""
    names, settings = (list(dict.fromkeys(column)) for column in zip(*cases, strict=True))
    places = (names.index(name) + settings.index(setting) for name, setting in cases)
    return [(*case, losses[n % len(losses)]) for case, n in zip(cases, places, strict=True)]


def set_up(setting: str, n_columns: int) -> Params:
    settings = {"num_leaves": 12} | CATEGORICAL_SETTINGS[setting]
    for name, rest in (("monotone_constraints", 0), ("feature_contri", 1.0)):
        if name in settings:  # one a column
            settings[name] = settings[name] + (rest,) * (n_columns - len(settings[name]))
    return Params(**settings)


# Everything at once ---------------------------------------------------------------------------


def random_table(rng: np.random.Generator) -> Table:
    """Numbers, ties, categories, copies and frequent values side by side."""
    n_rows, n_columns = int(rng.integers(60, 800)), int(rng.integers(2, 7))
    X = rng.normal(size=(n_rows, n_columns))
    categorical = []
    kinds = ["number", "ties", "category", "copy", "sparse", "negative", "frequent"]
    for column in range(n_columns):
        x = X[:, column]
        match rng.choice(kinds):
            case "ties":
                x = np.round(2 * x)
            case "category":
                x = np.minimum(rng.geometric(rng.choice([0.5, 0.1, 0.03]), n_rows), 50)
                categorical.append(column)
            case "copy" if 0 not in categorical:
                x = X[:, 0]
            case "sparse":
                x = np.where(rng.random(n_rows) < 0.9, 0, x)
            case "negative":
                x = np.where(rng.random(n_rows) < rng.choice([0.1, 0.8]), 0, -np.abs(x))
            case "frequent":
                x = np.where(rng.random(n_rows) < rng.choice([0.3, 0.8]), rng.choice([-9, 9]), x)
        X[:, column] = x
    X = with_missing(X, rng.choice([0.0, 0.0, 0.05, 0.3, 0.8]), rng)
    options = {
        "max_bin": int(rng.choice([4, 16, 255])),
        "min_data_in_bin": int(rng.choice([1, 3])),
        "zero_as_missing": bool(rng.random() < 0.3),
        "use_missing": bool(rng.random() < 0.9),
        "enable_bundle": bool(rng.random() < 0.7),
        "feature_pre_filter": False,
    }
    return Table(X, np.zeros(n_rows), tuple(categorical), options)


def random_gradients(
    n_rows: int, rng: np.random.Generator, decades: tuple[int, int] = (-8, 3)
) -> Gradients:
    """Hessians that are 1, any, often 0, or spread over many decades."""
    hessian = [
        np.ones(n_rows),
        rng.random(n_rows),
        rng.integers(0, 2, n_rows).astype(float),
        10 ** rng.uniform(*decades, n_rows),
    ][rng.integers(4)]
    spread = n_rows if rng.random() < 0.3 else 1
    gradient = rng.normal(size=n_rows) * 10 ** rng.uniform(-4, 2, spread)
    return gradient, hessian


def one_of_each(settings: dict[str, list[Any]], rng: np.random.Generator) -> dict[str, Any]:
    return {name: values[rng.integers(len(values))] for name, values in settings.items()}


def random_groups(n_columns: int, rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """Columns that may meet in a tree."""
    groups = (np.flatnonzero(rng.random(n_columns) < 0.6).tolist() for _ in range(2))
    return tuple(tuple(group) for group in groups if group)


def random_params(table: Table, rng: np.random.Generator) -> Params:
    """Any settings together."""
    settings = {
        "learning_rate": [0.1, 1.0, 0.07],
        "num_leaves": [2, 7, 31],
        "max_depth": [-1, -1, 2, 4],
        "min_data_in_leaf": [20, 5, 3],
        "min_sum_hessian_in_leaf": [1e-3, 1.0, 5.0],
        "min_gain_to_split": [0.0, 0.0, 0.5],
        "lambda_l1": [0.0, 0.0, 0.3, 2.0],
        "lambda_l2": [0.0, 0.0, 0.1, 5.0],
        "max_delta_step": [0.0, 0.0, 0.1, 0.7],
        "path_smooth": [0.0, 0.0, 0.0, 2.0],
        "max_cat_to_onehot": [1, 4, 4, 50],
        "max_cat_threshold": [32, 2, 5],
        "cat_smooth": [10.0, 0.4, 3.0],
        "cat_l2": [10.0, 0.0],
        "min_data_per_group": [100, 1, 20],
        "num_threads": [1, 1, 2],
        "force_row_wise": [False, True],
        "deterministic": [False, True],
        "extra_trees": [False, False, True],
        "feature_fraction": [1.0, 1.0, 0.6],
        "feature_fraction_bynode": [1.0, 1.0, 0.6],
    }
    drawn = one_of_each(settings, rng)
    n_columns = table.X.shape[1]
    if rng.random() < 0.3:
        direction = rng.integers(-1, 2, n_columns)
        direction[list(table.categorical)] = 0
        drawn["monotone_constraints"] = tuple(direction.tolist())
        drawn["monotone_penalty"] = float(rng.choice([0.0, 0.0, 0.5, 2.0]))
    if rng.random() < 0.3:
        drawn["interaction_constraints"] = random_groups(n_columns, rng)
    if rng.random() < 0.2:
        drawn["feature_contri"] = tuple(rng.choice([1.0, 0.5, 0.9], n_columns).tolist())
    return Params(**drawn)
