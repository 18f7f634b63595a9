# SPDX-License-Identifier: Apache-2.0
"""Assumptions about the installed XGBoost, in one place.

Every use of an undocumented behaviour (the JSON of a configuration or model, the order of calls in
``xgboost.train``) is in this file or listed here with its file:

* ``save_config()`` holds all training parameters after XGBoost has resolved aliases and defaults
  (:func:`read_settings`).
* ``xgboost.train`` calls ``before_training``, then ``update`` and ``eval_set`` each round, then
  ``after_training`` (booster.py); XGBoost 3.0 keeps its callbacks in no order (callbacks.py).
* A user's objective is called with margins and matrix; an object of one of the classes of XGBoost
  3.2 with the round before them (:func:`call_objective`).
* A ``TreeObjective``, marked experimental in XGBoost 3.2 to 3.4, sets the structure of vector trees
  by its ``split_grad`` and the leaves by its gradient (:func:`check_split_gradient`).
* ``feature_weights`` of a matrix are read anew for every tree of ``hist`` and ``approx``, lifted to
  1e-6, and not checked for their length; ``colsample_bynode`` times the number of features is
  rounded down (:func:`check_samples_features`, feature_weights.py). In ``xgboost.cv`` a callback
  finds the booster of each fold in ``model.cvfolds`` (prior_sampling.py).
* Its C functions are called by ``xgboost.core._LIB`` (matrix_fields.py, collective.py).
* A model document may be assembled by hand (assemble.py).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import xgboost

from mtboost import _core
from mtboost.base.checks import check_number, check_type, listed, refuse
from mtboost.base.interrupts import uninterrupted
from mtboost.base.tables import Library, Table
from mtboost.base.threads import default_n_threads
from mtboost.errors import (
    MissingDependencyError,
    ModelFormatError,
    ParameterError,
    UnsupportedError,
)
from mtboost.trees.feature_weights import n_sampled, sampled_fraction
from mtboost.trees.growth import check_groups
from mtboost.trees.losses import as_pair
from mtboost.xgboost.collective import Workers, has_whole_tasks
from mtboost.xgboost.matrix_fields import labels_and_weights
from mtboost.xgboost.objective_settings import OF_TIMES, RANKING_SWITCHES, objective_of

_OBJECTIVE_PARAMETERS = (
    "scale_pos_weight",
    "huber_slope",
    "tweedie_variance_power",
    "quantile_alpha",
    *OF_TIMES,
    "num_parallel_tree",
)
#: Those on which the start score depends.
OF_OBJECTIVES = ("objective", "base_score", *_OBJECTIVE_PARAMETERS[:-1])
#: Parameters of ranking; the last three are supported at their defaults only.
_RANKING_PARAMETERS = (
    "lambdarank_num_pair_per_sample",
    *RANKING_SWITCHES,
    "lambdarank_pair_method",
    "lambdarank_unbiased",
    "lambdarank_bias_norm",
)
#: Other names of parameters. Where both are set XGBoost silently takes the second, in any order.
ALIASES = {
    "eta": "learning_rate",
    "gamma": "min_split_loss",
    "lambda": "reg_lambda",
    "alpha": "reg_alpha",
    "n_jobs": "nthread",
    "random_state": "seed",
}
_COLUMN_SHARES = ("colsample_bytree", "colsample_bylevel", "colsample_bynode")
# XGBoost also allows 0: no rows, or one feature.
_FRACTIONS = ("subsample", *_COLUMN_SHARES)
_GENERAL_PARAMETERS = ("verbosity", "device", "validate_parameters")
_OLDEST = (3, 0)
_NEWEST_MAJOR = 3


def version() -> tuple[int, int]:
    """Major and minor version of the installed XGBoost."""
    major, minor = xgboost.__version__.split(".")[:2]
    return int(major), int(minor)


def arithmetic() -> str:
    """Name of the roundings by which the installed XGBoost computes gains and weights."""
    return "xgboost-3.0" if version() < (3, 4) else "xgboost-3.4"


def check_version() -> None:
    """Raise unless the installed XGBoost is one this module was written for."""
    if version() < _OLDEST or version()[0] > _NEWEST_MAJOR:
        raise MissingDependencyError(
            f"mtboost supports xgboost >= 3.0, < 4; found {xgboost.__version__}. "
            "Run: pip install 'xgboost>=3.0,<4'"
        )


def check_one_machine(user: str, instead: str = "") -> None:
    """Raise in a training on several machines: XGBoost would mix what they know of their rows.

    Not where mtboost has distributed the rows by task.
    """
    n_workers = xgboost.collective.get_world_size()
    if n_workers > 1 and not has_whole_tasks():
        raise UnsupportedError(
            f"{user} does not train on several machines, and this thread is one of the "
            f"{n_workers} workers of a collective: train on one machine, outside of "
            f"xgboost.collective.CommunicatorContext, xgboost.dask and xgboost.spark{instead}."
        )


def check_readable(table: Table) -> None:
    """Raise unless the installed XGBoost reads tables of this library, and the categories in it.

    XGBoost 3.0 reads categories of pandas only, 3.1 does not recognise DataFrames of pandas 3.
    """
    if table.library == "pandas" and not reads_categories("pandas"):
        import pandas

        raise UnsupportedError(
            f"XGBoost {xgboost.__version__} does not recognise DataFrames of pandas "
            f"{pandas.__version__}: run pip install 'xgboost>=3.2', or 'pandas<3'."
        )
    categorical = table.categorical_features
    if categorical and not reads_categories(table.library):
        raise UnsupportedError(
            f"X has categories in {listed(categorical, 'column')}, which XGBoost "
            f"{xgboost.__version__} does not read from {table.library}: give a pandas DataFrame "
            "(X.to_pandas()), or run pip install 'xgboost>=3.1'."
        )


@cache
def reads_categories(library: Library) -> bool:
    """Whether the installed XGBoost reads a category column of a library, tried on one row."""
    table: Any
    match library:
        case "pandas":
            import pandas

            table = pandas.DataFrame({"x": pandas.Categorical(["a"])})
        case "polars":
            import polars

            table = polars.DataFrame({"x": ["a"]}, schema={"x": polars.Enum(["a"])})
        case "pyarrow":
            import pyarrow

            table = pyarrow.table({"x": pyarrow.array(["a"]).dictionary_encode()})
        case _:
            return False
    try:
        matrix = xgboost.DMatrix(table, enable_categorical=True, nthread=1)
    except (NotImplementedError, ValueError):
        return False
    return bool(matrix.feature_types == ["c"])


@dataclass(frozen=True, slots=True)
class GrowthSettings:
    """Training parameters of a booster, as the grower and the losses need them."""

    grow: _core.XgboostParams
    n_threads: int
    max_bin: int
    objective: str
    objective_options: dict[str, Any]
    n_classes: int
    device: str = "cpu"
    #: The parameter that only trees of XGBoost's own growth follow (library_grown.py), if any.
    library_only: str | None = None
    has_vector_leaves: bool = False
    #: Whether a GPU draws rows by the size of their gradients.
    samples_by_gradient: bool = False
    samples_columns: bool = False


def read_settings(booster: xgboost.Booster) -> GrowthSettings:
    """Read the parameters that XGBoost itself would train with.

    Parameters whose trees cannot have leaf values per task raise UnsupportedError.
    """
    learner = json.loads(booster.save_config())["learner"]
    _refuse_unsupported(learner)
    _check_finite(learner)
    tree = learner["gradient_booster"]["tree_train_param"]
    generic = learner["generic_param"]
    groups = _parse_interactions(tree["interaction_constraints"])
    check_groups(groups, booster.num_features())
    name, options = objective_of(learner)
    shares = {key: check_number(key, float(tree[key]), above=0.0, high=1.0) for key in _FRACTIONS}
    return GrowthSettings(
        grow=_core.XgboostParams(
            learning_rate=float(tree["learning_rate"]),
            max_depth=int(tree["max_depth"]),
            max_leaves=int(tree["max_leaves"]),
            loss_guided=tree["grow_policy"] == "lossguide",
            min_split_loss=float(tree["min_split_loss"]),
            min_child_weight=float(tree["min_child_weight"]),
            reg_lambda=float(tree["reg_lambda"]),
            reg_alpha=float(tree["reg_alpha"]),
            max_delta_step=float(tree["max_delta_step"]),
            max_cat_to_onehot=int(tree["max_cat_to_onehot"]),
            max_cat_threshold=int(tree["max_cat_threshold"]),
            **shares,
            monotone_constraints=_parse_monotone(tree["monotone_constraints"]),
            interaction_constraints=groups,
            seed=int(generic["seed"]) % 2**64,
            arithmetic=arithmetic(),
        ),
        n_threads=default_n_threads(int(generic["nthread"])),
        max_bin=int(tree["max_bin"]),
        objective=name,
        objective_options=options,
        n_classes=int(learner["learner_model_param"]["num_class"]),
        device=generic["device"],
        library_only=_library_only(learner),
        has_vector_leaves=learner["learner_train_param"]["multi_strategy"] == "multi_output_tree",
        samples_by_gradient=tree["sampling_method"] != "uniform",
        samples_columns=any(shares[key] < 1.0 for key in _COLUMN_SHARES),
    )


def check_values(params: Mapping[str, Any], table: Table, argument: str, *, is_ours: bool) -> None:
    """Raise for values of parameters that XGBoost refuses, or that are not finite.

    Read from a booster without data: XGBoost checks most of them when it is configured, and what it
    cannot grow trees by when it grows one of a single row. If our trees are to be grown
    (`is_ours`), parameters that ask for XGBoost's own trees raise too.
    """
    categorical = set(table.categorical_features)
    types = ["c" if name in categorical else "q" for name in table.feature_names or ()]
    row = scipy.sparse.csr_array((1, table.n_features), dtype=np.float32)
    columns = {
        "feature_names": table.feature_names and list(table.feature_names),
        "feature_types": types or None,
        "enable_categorical": True,
        "nthread": 1,
        "label": [0.0],  # objectives that fit leaf values to labels read it unchecked
    }
    # Unused parameters are ignored here, as in training, which warns of them.
    own = {"verbosity": 0, **params, "validate_parameters": False}
    with _naming_the_argument(argument):
        matrix = xgboost.DMatrix(row, **columns)
        booster = xgboost.Booster(own, cache=[matrix])
        learner = json.loads(booster.save_config())["learner"]
        _check_finite(learner)
        tree = learner["gradient_booster"].get("tree_train_param", {})
        groups = _parse_interactions(tree.get("interaction_constraints", ""))
        check_groups(groups, table.n_features)
        kind = learner["learner_train_param"]["booster"]
        if is_ours:
            read_settings(booster)
        elif kind != "gbtree":
            raise UnsupportedError(
                f"{argument}: booster={kind!r} trains models whose rounds cannot be taken apart: "
                "use booster='gbtree'."
            )
        if not trains_on_values(params):
            with uninterrupted():  # XGBoost would take Ctrl-C for a matrix without rows
                matrix = xgboost.QuantileDMatrix(row, max_bin=params.get("max_bin"), **columns)
        xgboost.Booster(own, cache=[matrix]).update(matrix, 0, fobj=_no_gradient)


def trains_on_values(params: Mapping[str, Any]) -> bool:
    """Whether XGBoost trains with these parameters on a ``DMatrix`` only."""
    return params.get("tree_method") in ("approx", "exact") or "updater" in params


@contextmanager
def _naming_the_argument(argument: str) -> Iterator[None]:
    """Turn what XGBoost says of parameters into a ParameterError that names the argument."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(f"{argument}: {error}") from None
    except (xgboost.core.XGBoostError, AttributeError, TypeError, ValueError) as error:
        reason = re.sub(r"^\[[\d:]+\] \S+: ", "", str(error).partition("Stack trace")[0].strip())
        raise ParameterError(f"{argument}: XGBoost refuses a value: {reason}") from None


def _no_gradient(
    margins: npt.NDArray[np.float32], _: xgboost.DMatrix
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    return np.zeros_like(margins), np.ones_like(margins)


def _check_finite(learner: dict[str, Any]) -> None:
    """Raise if a parameter of trees or of the objective is NaN or infinite: XGBoost does not."""
    booster = learner["gradient_booster"]
    groups = [booster.get("tree_train_param", {}), booster.get("dart_train_param", {})]
    groups += [group for group in learner["objective"].values() if isinstance(group, dict)]
    for group in groups:
        for name, text in group.items():
            if str(text).strip("+-").lower() in ("nan", "inf", "infinity"):
                refuse(name, float(text), "a finite number")


@cache
def known_parameters() -> frozenset[str]:
    """Names that XGBoost accepts in ``params`` for gbtree on the CPU, aliases included."""
    matrix = xgboost.DMatrix(np.zeros((1, 1)), label=[0])
    booster = xgboost.Booster(cache=[matrix])
    config = json.loads(booster.save_config())
    names = {"num_class", "eval_metric", "base_score", *_OBJECTIVE_PARAMETERS, *_GENERAL_PARAMETERS}
    names |= {*ALIASES, *ALIASES.values(), *_RANKING_PARAMETERS}
    pending: list[object] = [config["learner"]]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            names |= {name for name, value in part.items() if isinstance(value, (str, int))}
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return frozenset(names - {"name"})


def with_start(params: Mapping[str, Any], matrix: xgboost.DMatrix) -> dict[str, Any]:
    """The parameters, and a start score where XGBoost before 3.2 refuses its own: for one class.

    If all labels are 0, or all 1, a logistic objective starts from a probability of 0 or 1; as
    XGBoost 3.2 does, it is kept 1e-6 away from them.
    """
    params = dict(params)
    is_logistic = params.get("objective") in ("binary:logistic", "reg:logistic")
    if is_logistic and "base_score" not in params and version() < (3, 2):
        labels, weights = labels_and_weights(matrix)
        labels = np.unique(labels if weights is None else labels[weights > 0]).astype(np.float64)
        workers = Workers.of_this_thread()
        if workers is not None:
            own = [labels.min(initial=np.inf), -labels.max(initial=-np.inf)]
            least, most = workers.gather(own, "labels").min(axis=0) * (1, -1)
            labels = np.unique([least, most])
        if len(labels) == 1 and labels[0] in (0, 1):
            params["base_score"] = min(max(float(labels[0]), 1e-6), 1 - 1e-6)
    return params


def read_model(model: Any) -> xgboost.Booster:
    """A booster, or the one in a file or in bytes that ``save_raw`` has made."""
    if isinstance(model, xgboost.Booster):
        return model
    kinds = (str, os.PathLike, bytearray)
    check_type("xgb_model", model, kinds, "None, a Booster, a path or a bytearray")
    if not isinstance(model, bytearray):
        Path(model).open("rb").close()
    try:
        return xgboost.Booster(model_file=model)
    except (xgboost.core.XGBoostError, ValueError) as error:
        reason = str(error).partition("Stack trace")[0].strip()
        raise ModelFormatError(f"xgb_model holds no model of XGBoost: {reason}") from None


def call_objective(
    objective: Callable[..., tuple[npt.ArrayLike, npt.ArrayLike]],
    iteration: int,
    margins: npt.NDArray[np.float32],
    matrix: xgboost.DMatrix,
) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    """Gradient and hessian of a user's objective; those for splits alone are refused."""
    classes = getattr(xgboost, "objective", None)  # from XGBoost 3.2 on
    if classes is None or not isinstance(objective, classes.Objective):
        return as_pair(objective(margins, matrix))
    gradient, hessian = as_pair(objective(iteration, margins, matrix))
    if isinstance(objective, classes.TreeObjective):
        split_gradient = objective.split_grad(iteration, gradient, hessian)
        if split_gradient is not None:
            raise UnsupportedError(
                f"split_grad of {type(objective).__name__} returned gradients, which TaskSplit "
                "cannot use: let it return None, or train without TaskSplit."
            )
    return gradient, hessian


def check_has_split_gradient() -> None:
    """Raise unless the installed XGBoost has a split gradient."""
    check_version()
    if version() < (3, 2):
        raise UnsupportedError(
            f"ProjectedObjective needs the split gradient of XGBoost 3.2, found "
            f"{xgboost.__version__}: run pip install 'xgboost>=3.2', or use "
            "mtboost.ProjectedBoostingRegressor."
        )


def check_split_gradient(booster: xgboost.Booster) -> None:
    """Raise unless a booster's parameters go with a split gradient.

    XGBoost refuses most of these itself, in the first round. Until 3.3 it is silent about two:
    trees of one output are grown from gradients of the wrong shape, and ``min_child_weight`` does
    not prevent light leaves but sets them to 0.
    """
    learner = json.loads(booster.save_config())["learner"]
    _check_finite(learner)
    train, gbm = learner["learner_train_param"], learner["gradient_booster"]
    if train["multi_strategy"] != "multi_output_tree":
        raise ParameterError(
            f"multi_strategy is {train['multi_strategy']!r}, but XGBoost has a separate gradient "
            "for splits in vector trees only: set params['multi_strategy'] = 'multi_output_tree'."
        )
    dropped = gbm.get("dart_train_param", {})
    tree, growth = gbm.get("tree_train_param", {}), gbm.get("gbtree_train_param", {})
    is_old = version() < (3, 4)
    refused = {
        "booster": train["booster"] != "gbtree",
        "rate_drop": any(float(dropped.get(name, 0)) > 0 for name in ("rate_drop", "one_drop")),
        "tree_method": growth.get("updater") != "grow_quantile_histmaker",
        "process_type": growth.get("process_type") != "default",
        "device": learner["generic_param"]["device"] != "cpu",
        "num_parallel_tree": gbm.get("gbtree_model_param", {}).get("num_parallel_tree") != "1",
        "monotone_constraints": any(_parse_monotone(tree.get("monotone_constraints", ""))),
        "interaction_constraints": is_old
        and bool(_parse_interactions(tree.get("interaction_constraints", ""))),
    }
    for name, is_refused in refused.items():
        if is_refused:
            raise UnsupportedError(
                f"{name} cannot be combined with a gradient for splits in XGBoost "
                f"{xgboost.__version__}: leave it at its default, or use "
                "mtboost.ProjectedBoostingRegressor."
            )
    if is_old and float(tree["min_child_weight"]) > 0:
        raise UnsupportedError(
            f"min_child_weight is {float(tree['min_child_weight']):g}, but in vector trees XGBoost "
            f"{xgboost.__version__} makes lighter leaves all the same and sets them to 0: set "
            "params['min_child_weight'] = 0 and limit trees by max_depth, gamma or reg_lambda, or "
            "run pip install 'xgboost>=3.4'."
        )
    check_one_machine("ProjectedObjective")


def check_samples_features(
    booster: xgboost.Booster, n_features: int, *, needs_gains: bool = False
) -> None:
    """Raise unless XGBoost draws features for each node, and keeps gains if needed."""
    learner = json.loads(booster.save_config())["learner"]
    _check_finite(learner)
    train, gbm = learner["learner_train_param"], learner["gradient_booster"]
    if train["booster"] == "gblinear":
        raise UnsupportedError("booster='gblinear' draws no features: use booster='gbtree'.")
    gbm = gbm.get("gbtree", gbm)  # dart has the parameters of its trees there
    tree_method = gbm["gbtree_train_param"]["tree_method"]
    if tree_method == "exact":
        raise UnsupportedError(
            "tree_method='exact' draws no features for a node: use tree_method='hist'."
        )
    fraction = float(gbm["tree_train_param"]["colsample_bynode"])
    if fraction == 1:
        raise ParameterError(
            "colsample_bynode is 1: XGBoost then considers all features in every node, and draws "
            f"none. Set params['colsample_bynode'] = {sampled_fraction(n_features):.4g} for "
            f"{n_sampled(n_features)} of {n_features} features a node."
        )
    if needs_gains and train["multi_strategy"] == "multi_output_tree" and version() < (3, 2):
        raise UnsupportedError(
            f"XGBoost {xgboost.__version__} keeps no gains of vector trees: run pip install "
            "'xgboost>=3.2', or use dynamic=False."
        )


def check_vector_categories(matrix: xgboost.DMatrix) -> None:
    """Raise if a matrix has categories and the installed XGBoost has none in vector trees."""
    if version() < (3, 3) and "c" in (matrix.feature_types or []):
        raise UnsupportedError(
            f"The matrix has category columns, on which XGBoost {xgboost.__version__} grows no "
            f"vector trees: run pip install 'xgboost>=3.3', or use "
            "mtboost.lightgbm.ProjectedObjective."
        )


def _refuse_unsupported(learner: dict[str, Any]) -> None:
    ranking = learner["objective"].get("lambdarank_param", {})
    if ranking.get("lambdarank_pair_method", "topk") != "topk":
        raise UnsupportedError(
            f"lambdarank_pair_method={ranking['lambdarank_pair_method']!r} draws pairs at random, "
            "which mtboost does not: use 'topk'."
        )
    if ranking.get("lambdarank_unbiased", "0") != "0":
        raise UnsupportedError(
            "lambdarank_unbiased=True is not supported: mtboost does not estimate position biases. "
            "Leave it out."
        )
    train = learner["learner_train_param"]
    booster = learner["gradient_booster"]
    if train["booster"] != "gbtree":
        raise UnsupportedError(
            f"booster={train['booster']!r} cannot grow mtboost's trees: use booster='gbtree'."
        )
    dropped = booster.get("dart_train_param", {})  # since XGBoost 3.3 beside those of gbtree
    if any(float(dropped.get(name, 0)) > 0 for name in ("rate_drop", "one_drop")):
        raise UnsupportedError(
            "booster='dart' with rate_drop or one_drop cannot grow mtboost's trees: use "
            "booster='gbtree'."
        )
    gbtree = booster["gbtree_train_param"]
    if gbtree["process_type"] != "default" or not gbtree["updater"].startswith("grow_"):
        raise UnsupportedError(
            f"mtboost computes leaf values of trees that are grown, but the parameters ask for "
            f"updater={gbtree['updater']!r}, process_type={gbtree['process_type']!r}: leave these "
            "at their defaults."
        )
    if int(booster["gbtree_model_param"]["num_parallel_tree"]) != 1:
        raise UnsupportedError("num_parallel_tree > 1 is not supported with TaskSplit: use 1.")
    tree = booster["tree_train_param"]
    if int(tree["max_depth"]) == 0 and int(tree["max_leaves"]) == 0:
        raise UnsupportedError(
            "max_depth=0 and max_leaves=0 leave the size of a tree without limit: set one of them."
        )
    if tree["sampling_method"] != "uniform" and learner["generic_param"]["device"] == "cpu":
        raise UnsupportedError("sampling_method must be 'uniform' on the CPU.")


def _library_only(learner: dict[str, Any]) -> str | None:
    """Return the parameter by which XGBoost must grow the trees itself, with its value."""
    gbtree = learner["gradient_booster"]["gbtree_train_param"]
    device = learner["generic_param"]["device"]
    strategy = learner["learner_train_param"]["multi_strategy"]
    if device != "cpu":
        return f"device={device!r}"
    if strategy != "one_output_per_tree":
        return f"multi_strategy={strategy!r}"
    if gbtree["updater"] == "grow_quantile_histmaker":
        return None
    if gbtree["tree_method"] in ("approx", "exact"):
        return f"tree_method={gbtree['tree_method']!r}"
    return f"updater={gbtree['updater']!r}"


def _parse_monotone(text: str) -> list[int]:
    """Parse XGBoost's ``"(1,0,-1)"``; since 3.4 zeros alone are no constraints."""
    signs = [int(part) for part in text.strip("()").split(",") if part.strip()]
    return signs if any(signs) or version() < (3, 4) else []


def _parse_interactions(text: str) -> list[list[int]]:
    """Parse XGBoost's ``"[[0,1],[2]]"``; in ``"[]"`` no two features may meet, as in ``"[[]]"``."""
    if not text:
        return []
    try:
        return [[int(feature) for feature in group] for group in json.loads(text)] or [[]]
    except (TypeError, ValueError):
        raise ParameterError(
            f"interaction_constraints must be a list of lists of features, found {text!r}."
        ) from None
