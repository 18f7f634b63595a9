# SPDX-License-Identifier: Apache-2.0
"""What is said of keywords that :func:`mtboost.fit` and the estimators do not have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mtboost.base.checks import did_you_mean, shown
from mtboost.model.libraries import get_backend

#: Names of functions, and those of estimators for the same.
_SAME = {
    "num_boost_round": "n_estimators",
    "n_threads": "n_jobs",
    "seed": "random_state",
    "weight": "sample_weight",
    "init_model": "xgb_model",
}
_OTHER_NAME = {**_SAME, **{other: name for name, other in _SAME.items()}}


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
    other = _OTHER_NAME.get(name)
    if other in known:
        return f" Pass {other}=."
    library = get_backend(given.get("backend", "xgboost"))
    names, main_names = library.names_of_parameters()
    main = main_names.get(name, name)
    if main not in names:
        near = did_you_mean(name, [*known, *names, *main_names])
        return near if near == did_you_mean(name, known) else f"{near[:-1]} in params?"
    argument = library.arguments.get(main, "")
    if argument == "X":
        return " Make them columns of categories in X."
    for own in (argument, _OTHER_NAME.get(argument)):
        if own in known:
            return f" Pass {own}=."
    return f" It is a parameter of the library: pass params={{{name!r}: {shown(given[name])}}}."


def where_in_an_estimator(
    name: str, known: Collection[str], of_constructor: Collection[str]
) -> str:
    """Return the same for a keyword of an estimator's ``fit``; its parameters are given."""
    for own in (name, _OTHER_NAME.get(name)):
        if own in known:
            return f" Pass {own}=."
        if own in of_constructor:
            return f" Pass {own}= to the constructor, or to set_params."
    return did_you_mean(name, known)


def where_in_an_update(name: str, given: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the same for a keyword of :meth:`mtboost.MultiTaskModel.update`."""
    is_number_of_rounds = name in ("num_boost_round", "n_estimators")
    own = "rounds" if is_number_of_rounds else _OTHER_NAME.get(name)
    return f" Pass {own}=." if own in known else did_you_mean(name, known)
