# SPDX-License-Identifier: Apache-2.0
"""The libraries by name."""

from __future__ import annotations

from mtboost.base.checks import check_choice
from mtboost.trees.backend import Backend
from mtboost.xgboost.backend import XgboostBackend


def get_backend(name: str) -> Backend:
    """The library whose boosters are made: "xgboost" or "lightgbm".

    Raises
    ------
    ParameterError
        The name is another one.
    MissingDependencyError
        LightGBM is not installed.
    """
    if check_choice("backend", name, ("xgboost", "lightgbm")) == "xgboost":
        return XgboostBackend()
    from mtboost.lightgbm.backend import LightgbmBackend

    return LightgbmBackend()
