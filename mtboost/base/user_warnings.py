# SPDX-License-Identifier: Apache-2.0
"""Warnings that name the line of the user's code, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings

#: Packages whose frames are passed over: this one, and those that call it on the user's behalf.
_PACKAGES = {"mtboost", "joblib", "optuna", "sklearn"}


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as :func:`warnings.warn` does, at the nearest line that is in none of these packages.

    From Python 3.12 on `warnings.warn` has ``skip_file_prefixes`` for this.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _package(frame.f_globals) in _PACKAGES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__")).partition(".")[0]
