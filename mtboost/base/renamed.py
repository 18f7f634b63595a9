# SPDX-License-Identifier: Apache-2.0
"""Old names of parameters, which work for one more release."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def renamed(
    **new_names: str,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Let a function accept keywords by their old names, ``@renamed(old="new")``, with a warning.

    Examples
    --------
    >>> @renamed(patience="early_stopping_rounds")
    ... def fit(*, early_stopping_rounds=20):
    ...     return early_stopping_rounds
    >>> fit(patience=5)  # doctest: +SKIP
    FutureWarning: patience is now called early_stopping_rounds; the old name ends with mtboost 0.3.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            for old, new in new_names.items():
                if old not in kwargs:
                    continue
                if new in kwargs:
                    raise TypeError(f"{new} is given twice, once by its old name {old}.")
                warnings.warn(
                    f"{old} is now called {new}; the old name ends with mtboost 0.3.",
                    FutureWarning,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
