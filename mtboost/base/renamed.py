# SPDX-License-Identifier: Apache-2.0
"""Functions with other parameters: old names, which work for one more release, or fewer.

Names that a function does not know are refused with the nearest one that it knows.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeAlias, TypeVar

from mtboost.base.checks import did_you_mean
from mtboost.base.user_warnings import warn_user

#: End of the message that refuses a keyword, of its name, all keywords and the names of parameters.
Remedy: TypeAlias = Callable[[str, Mapping[str, Any], Collection[str]], str]
_BY_PLACE = inspect.Parameter.POSITIONAL_OR_KEYWORD
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def renamed(
    remedy: Remedy | None = None, /, **new_names: str
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Let a function accept keywords by their old names, ``@renamed(old="new")``, with a warning.

    Keywords that it does not have are refused with the nearest one, or with what `remedy` returns.

    Examples
    --------
    >>> @renamed(patience="early_stopping_rounds")
    ... def fit(*, early_stopping_rounds=20):
    ...     return early_stopping_rounds
    >>> fit(patience=5)  # doctest: +SKIP
    FutureWarning: patience is now called early_stopping_rounds; the old name ends with mtboost 0.3.
    >>> fit(early_stopping_round=5)
    Traceback (most recent call last):
    TypeError: fit() got an unexpected keyword argument 'early_stopping_round'. Did you mean \
'early_stopping_rounds'?
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        names = inspect.signature(function).parameters
        kinds = [own.kind for own in names.values()]
        most = kinds.count(_BY_PLACE) if inspect.Parameter.VAR_POSITIONAL not in kinds else math.inf

        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if len(args) > most:
                raise _too_many(function, args)
            for old, new in new_names.items():
                if old not in kwargs:
                    continue
                if new in kwargs:
                    raise TypeError(f"{new} is given twice, once by its old name {old}.")
                warn_user(
                    f"{old} is now called {new}; the old name ends with mtboost 0.3.", FutureWarning
                )
                kwargs[new] = kwargs.pop(old)
            for name in kwargs:
                if name not in names:
                    raise _unexpected(function, args, name, kwargs, remedy)
            return function(*args, **kwargs)

        return call

    return decorate


def _unexpected(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    name: str,
    given: Mapping[str, Any],
    remedy: Remedy | None,
) -> TypeError:
    """Return the error of a keyword that a function, or the class of its constructor, lacks."""
    called = _called(function, args)
    known = inspect.signature(called).parameters
    hint = remedy(name, given, known) if remedy else did_you_mean(name, known)
    dot = hint and "."
    return TypeError(f"{called.__name__}() got an unexpected keyword argument {name!r}{dot}{hint}")


def _too_many(function: Callable[..., Any], args: tuple[Any, ...]) -> TypeError:
    """Return the error of arguments by position that are keywords."""
    parameters = inspect.signature(function).parameters
    by_place = [name for name, own in parameters.items() if own.kind is _BY_PLACE]
    n_hidden = int(by_place[:1] == ["self"])
    keyword = next((n for n, own in parameters.items() if own.kind is own.KEYWORD_ONLY), None)
    n_allowed, n_given = len(by_place) - n_hidden, len(args) - n_hidden
    remedy = f": pass the others by name, such as {keyword}=" if keyword else ""
    return TypeError(
        f"{_called(function, args).__name__}() takes {n_allowed} positional "
        f"argument{'s' * (n_allowed != 1)}, but {n_given} were given{remedy}."
    )


def _called(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return what the user has called: the class, if it is a constructor."""
    return type(args[0]) if function.__name__ == "__init__" else function


def without_parameters(
    *names: str,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Leave optional keywords out of the signature of a function, which has their defaults then.

    Examples
    --------
    >>> @without_parameters("end")
    ... def say(*, what, end="!"):
    ...     return what + end
    >>> say(what="Hello")
    'Hello!'
    >>> inspect.signature(say)
    <Signature (*, what)>
    >>> say(what="Hello", end="?")
    Traceback (most recent call last):
    TypeError: say() got an unexpected keyword argument 'end'
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            for name in names:
                if name in kwargs:
                    called = _called(function, args).__name__
                    raise TypeError(f"{called}() got an unexpected keyword argument {name!r}")
            return function(*args, **kwargs)

        signature = inspect.signature(function)
        others = [own for name, own in signature.parameters.items() if name not in names]
        call.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return call

    return decorate
