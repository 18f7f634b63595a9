# SPDX-License-Identifier: Apache-2.0
"""A warning of rows of several arguments that are not in the same order."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from mtboost.base.checks import shown
from mtboost.base.user_warnings import is_warning_once, warn_user, warning_once

#: What belongs to the rows of X, in the order of the parts of an eval_set.
_COLUMNS = ("y", "task", "weight", "sample_weight", "base_margin", "qid")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def reading_rows(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a call warn of rows of `X` or `eval_set` in another order, and give each warning once.

    Calls inside of it do not check rows again, which may have other names there.
    """
    names = list(inspect.signature(function).parameters)
    columns = [name for name in _COLUMNS if name in names[names.index("X") :]]  # not a task's name
    own_names = [name.removeprefix("sample_") for name in columns]  # in an eval_set

    @warning_once
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
        warn_of_other_order(given.get("X"), **{name: given.get(name) for name in columns})
        parts = given.get("eval_set")
        if isinstance(parts, list | tuple) and parts:
            own = dict(zip(own_names, parts[1:], strict=False))
            warn_of_other_order(parts[0], "eval_set: ", **own)
        return function(*args, **kwargs)

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return (function if is_warning_once() else checked)(*args, **kwargs)

    return call


def warn_of_other_order(X: Any, where: str = "", /, **columns: Any) -> None:
    """Warn of values of rows whose index has the entries of that of X in another order (pandas).

    Parameters
    ----------
    X : table, or mapping of task name to table
    where : str
        Beginning of the message.
    **columns : object
        What belongs to the rows, by the name of the argument; where `X` is a mapping, mappings.
    """
    if isinstance(X, Mapping):
        for name, table in X.items():
            own = {
                f"{argument}[{shown(name)}]": values[name]
                for argument, values in columns.items()
                if isinstance(values, Mapping) and name in values
            }
            warn_of_other_order(table, where, **own)
        return
    if not _is_of_pandas(X):
        return
    for argument, values in columns.items():
        if _is_of_pandas(values) and _is_permuted(X.index, values.index):
            order = ".loc[X.index]" if X.index.is_unique else " in the order of X"
            warn_user(
                f"{where}{argument} has the index of X in another order, and rows are matched by "
                f"position, not by their index: pass {argument}{order}, or "
                f"{argument}.to_numpy() if the positions are right."
            )


def _is_of_pandas(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "index")


def _is_permuted(index: Any, other: Any) -> bool:
    """Whether two indexes have the same entries, each as often, in another order."""
    if len(index) != len(other) or index.equals(other):
        return False
    from pandas.util import hash_pandas_object  # entries of several types have no order

    first, second = (np.sort(hash_pandas_object(own, index=False)) for own in (index, other))
    return np.array_equal(first, second)
