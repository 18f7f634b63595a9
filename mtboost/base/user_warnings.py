# SPDX-License-Identifier: Apache-2.0
"""Warnings that name the line of the user's code, however deep in the package they arise."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

#: Packages whose frames are passed over: this one, and those that call it on the user's behalf.
_PACKAGES = {"mtboost", "joblib", "optuna", "sklearn"}
#: Texts of the warnings of a call so far; None outside of those that warn once.
_GIVEN: ContextVar[set[str] | None] = ContextVar("_GIVEN", default=None)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def warning_once(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a call give each warning once, though it reads the same rows several times."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if is_warning_once():
            return function(*args, **kwargs)
        token = _GIVEN.set(set())
        try:
            return function(*args, **kwargs)
        finally:
            _GIVEN.reset(token)

    return call


def is_warning_once() -> bool:
    """Whether a call that gives each warning once is running."""
    return _GIVEN.get() is not None


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as :func:`warnings.warn` does, at the nearest line that is in none of these packages.

    From Python 3.12 on `warnings.warn` has ``skip_file_prefixes`` for this.
    """
    given = _GIVEN.get()
    if given is not None:
        if message in given:
            return
        given.add(message)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _package(frame.f_globals) in _PACKAGES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__")).partition(".")[0]
