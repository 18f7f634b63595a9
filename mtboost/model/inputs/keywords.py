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
from mtboost.trees.parameter_names import (
    AS_CATEGORIES,
    OF_ARGUMENTS,
    OF_CATEGORIES,
    OF_PARAMETERS,
    ROWS_OF_A_LEAF,
    SAME_IN_ESTIMATORS,
    of_a_leaf,
)

_OTHER_NAME = {
    **SAME_IN_ESTIMATORS,
    **{other: name for name, other in SAME_IN_ESTIMATORS.items()},
}
_OF_LIBRARIES = {**OF_PARAMETERS, **OF_ARGUMENTS}
_NAME_OF = {theirs: own for own, names in _OF_LIBRARIES.items() for theirs in names}
#: Errors that are made of a text alone.
_OF_ONE_TEXT = (DataError, ParameterError, ParameterTypeError)
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
    if name in OF_CATEGORIES:
        return AS_CATEGORIES
    if name == "group" and "qid" in known:
        return _QUERIES
    library = get_backend(given.get("backend", "xgboost"))
    names, main_names = library.names_of_parameters()
    main = main_names.get(name, name)
    if main not in names:
        if name in ROWS_OF_A_LEAF:
            return _of_a_leaf(given[name], known)
        theirs = _NAME_OF.get(name)
        if theirs in names or theirs in main_names:
            return f" Pass params={{{theirs!r}: {shown(given[name])}}}."
        near = did_you_mean(name, [*known, *names, *main_names])
        return near if near == did_you_mean(name, known) else f"{near[:-1]} in params?"
    argument = library.arguments.get(main, "")
    if argument == "X":
        return AS_CATEGORIES
    for own in (argument, _OTHER_NAME.get(argument)):
        if own in known:
            return f" Pass {own}=."
    return f" It is a parameter of the library: pass params={{{name!r}: {shown(given[name])}}}."


def _own_names(name: str) -> tuple[str | None, ...]:
    """Return names of functions and of estimators that a keyword may stand for."""
    own = _NAME_OF.get(name)
    return _OTHER_NAME.get(name), own, _OTHER_NAME.get(own or "")


def _of_a_leaf(value: Any, known: Collection[str]) -> str:
    """Return :func:`of_a_leaf` for a keyword."""
    name = "min_child_weight"
    remedy = f"{name}=" if name in known else f"params={{{name!r}: {shown(value)}}}"
    return of_a_leaf(remedy)


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
    return AS_CATEGORIES if name in OF_CATEGORIES else did_you_mean(name, known)


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
    is_of_library = name in _OF_LIBRARIES or name in _NAME_OF or name in ROWS_OF_A_LEAF
    return hint or (" It is a parameter of the library: pass it in params." * is_of_library)


@contextmanager
def names_of_estimators() -> Iterator[None]:
    """Let errors of :func:`mtboost.fit` have the names that an estimator has for its arguments."""
    try:
        yield
    except (DataError, ParameterError) as error:
        text = str(error).removeprefix("params: ")  # of the constructor, too
        for name, own in SAME_IN_ESTIMATORS.items():
            text = re.sub(rf"^{name}\b(?=\[| is | has | must )", own, text)
            text = re.sub(rf"\b{name}=", f"{own}=", text)
        text = re.sub(r"\bnum_boost_round\b", "n_estimators", text)
        text = re.sub(r"(Pass (?!X=)\w+=) to fit\(\)", r"\1 to the constructor", text)
        if text == str(error) or type(error) not in _OF_ONE_TEXT:
            raise
        raise type(error)(text) from None
