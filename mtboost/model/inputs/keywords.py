# SPDX-License-Identifier: Apache-2.0
"""What is said of keywords that :func:`mtboost.fit` and the estimators do not have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mtboost.base.checks import did_you_mean, shown
from mtboost.errors import DataError, ParameterError, ParameterTypeError
from mtboost.model.inputs.libraries import get_backend

#: Names of functions, and those of estimators for the same.
_SAME = {
    "num_boost_round": "n_estimators",
    "n_threads": "n_jobs",
    "seed": "random_state",
    "weight": "sample_weight",
    "init_model": "xgb_model",
}
_OTHER_NAME = {**_SAME, **{other: name for name, other in _SAME.items()}}
#: Names of the libraries for the same parameter of an estimator (docs/usage.md).
_OF_LIBRARIES = {
    "learning_rate": ("eta", "shrinkage_rate"),
    "max_depth": ("depth",),
    "max_leaves": ("num_leaves", "num_leaf", "max_leaf_nodes", "max_leaf"),
    "min_child_weight": ("min_sum_hessian_in_leaf", "min_sum_hessian", "min_hessian"),
    "gamma": ("min_gain_to_split", "min_split_gain", "min_split_loss"),
    "reg_lambda": ("lambda", "lambda_l2", "l2_leaf_reg", "l2_regularization"),
    "reg_alpha": ("lambda_l1",),
    "subsample": ("bagging_fraction", "sub_row", "bagging"),
    "colsample_bytree": ("feature_fraction", "sub_feature", "rsm"),
    "colsample_bynode": ("feature_fraction_bynode", "sub_feature_bynode"),
    "max_bin": ("border_count", "max_bins"),
    "monotone_constraints": ("monotone_constraint", "monotonic_cst"),
    "interaction_constraints": ("interaction_cst",),
    "num_boost_round": ("iterations", "num_iterations", "num_trees", "num_rounds", "max_iter"),
    "n_threads": ("thread_count", "num_threads", "nthread"),
    "seed": ("random_seed",),
    "verbose": ("verbose_eval",),
    "base_margin": ("init_score",),
    "early_stopping_rounds": ("od_wait", "early_stopping_round", "n_iter_no_change"),
}
_NAME_OF = {theirs: own for own, names in _OF_LIBRARIES.items() for theirs in names}
#: Errors that are made of a text alone.
_OF_ONE_TEXT = (DataError, ParameterError, ParameterTypeError)
_CATEGORIES = " Make them columns of categories in X."
_QUERIES = " Pass qid=, the query of each row, not their sizes."
_RANKER = " MultiTaskRanker ranks the rows of each query: pass qid= to its fit."
#: Keywords of predictions in the libraries and elsewhere, and what a model has in their place.
_OF_PREDICTIONS = {
    **dict.fromkeys(
        ("output_margin", "raw_score"),
        " Call model.predict_margin(); the model of an estimator is model_.",
    ),
    **dict.fromkeys(
        ("pred_contribs", "pred_contrib"),
        " Call model.contributions(); the model of an estimator is model_.",
    ),
    **dict.fromkeys(
        ("iteration_range", "num_iteration", "start_iteration", "ntree_limit", "pred_leaf"),
        " The boosters of the library have it: booster(task) returns one.",
    ),
}
_OF_INTERVALS = ("coverage", "confidence", "confidence_level", "level")
_OF_CATEGORIES = ("cat_features", "cat_feature", "categorical_features", "categorical_feature")
#: Numbers of rows in a leaf, by the names of LightGBM and scikit-learn.
_ROWS_OF_A_LEAF = ("min_data_in_leaf", "min_data", "min_child_samples", "min_samples_leaf")


def where_it_belongs(name: str, given: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the end of a message: another name of the keyword, ``params``, or the nearest name.

    Parameters
    ----------
    name : str
        The keyword that is refused.
    given : mapping
        All keywords of the call; ``backend`` says which library's parameters are meant.
    known : collection of str
        The keywords that there are.
    """
    for own in _own_names(name):
        if own in known:
            return f" Pass {own}=."
    if name in _OF_CATEGORIES:
        return _CATEGORIES
    if name == "group" and "qid" in known:
        return _QUERIES
    library = get_backend(given.get("backend", "xgboost"))
    names, main_names = library.names_of_parameters()
    main = main_names.get(name, name)
    if main not in names:
        if name in _ROWS_OF_A_LEAF:
            return _of_a_leaf(given[name], known)
        theirs = _NAME_OF.get(name)
        if theirs in names or theirs in main_names:
            return f" Pass params={{{theirs!r}: {shown(given[name])}}}."
        near = did_you_mean(name, [*known, *names, *main_names])
        return near if near == did_you_mean(name, known) else f"{near[:-1]} in params?"
    argument = library.arguments.get(main, "")
    if argument == "X":
        return _CATEGORIES
    for own in (argument, _OTHER_NAME.get(argument)):
        if own in known:
            return f" Pass {own}=."
    return f" It is a parameter of the library: pass params={{{name!r}: {shown(given[name])}}}."


def _own_names(name: str) -> tuple[str | None, ...]:
    """Return names of functions and of estimators that a keyword may stand for."""
    own = _NAME_OF.get(name)
    return _OTHER_NAME.get(name), own, _OTHER_NAME.get(own or "")


def _of_a_leaf(value: Any, known: Collection[str]) -> str:
    """Return what XGBoost has in place of a minimum number of rows in a leaf."""
    name = "min_child_weight"
    remedy = f"{name}=" if name in known else f"params={{{name!r}: {shown(value)}}}"
    return (
        " XGBoost limits the sum of hessians in a leaf, for squared error the number of its rows: "
        f"pass {remedy}."
    )


def where_in_an_estimator(
    name: str, known: Collection[str], of_constructor: Collection[str]
) -> str:
    """Return the same for a keyword of an estimator's ``fit``; its parameters are given."""
    for own in (name, *_own_names(name)):
        if own in known:
            return f" Pass {own}=."
        if own in of_constructor:
            return f" Pass {own}= to the constructor, or to set_params."
    if name in ("group", "qid"):
        return _QUERIES if "qid" in known else _RANKER
    return _CATEGORIES if name in _OF_CATEGORIES else did_you_mean(name, known)


def where_in_a_method(name: str, given: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the same for a keyword of a method, or of a constructor, that has no ``params``."""
    for own in _own_names(name):
        if own in known:
            return f" Pass {own}=."
    if name in _OF_INTERVALS and "alpha" in known:
        return " Pass alpha=, 1 minus the probability that a label is inside."
    if name in _OF_PREDICTIONS and "unknown_task" in known:
        return _OF_PREDICTIONS[name]
    return did_you_mean(name, known)


def where_in_a_change(name: str, given: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the same for a keyword of ``update`` and ``add_task`` of a model."""
    if "num_boost_round" in (name, *_own_names(name)):
        return f" Pass {'rounds' if 'rounds' in known else 'specific_rounds'}=."
    hint = where_in_a_method(name, given, known)
    is_of_library = name in _OF_LIBRARIES or name in _NAME_OF or name in _ROWS_OF_A_LEAF
    return hint or (" It is a parameter of the library: pass it in params." * is_of_library)


@contextmanager
def names_of_estimators() -> Iterator[None]:
    """Let errors of :func:`mtboost.fit` have the names that an estimator has for its arguments."""
    try:
        yield
    except (DataError, ParameterError) as error:
        text = str(error).removeprefix("params: ")  # of the constructor, too
        for name, own in _SAME.items():
            text = re.sub(rf"^{name}\b(?=\[| is | has | must )", own, text)
            text = re.sub(rf"\b{name}=", f"{own}=", text)
        text = re.sub(r"\bnum_boost_round\b", "n_estimators", text)
        text = re.sub(r"(Pass (?!X=)\w+=) to fit\(\)", r"\1 to the constructor", text)
        if text == str(error) or type(error) not in _OF_ONE_TEXT:
            raise
        raise type(error)(text) from None
