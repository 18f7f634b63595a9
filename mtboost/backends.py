"""The libraries by name."""

from __future__ import annotations

from mtboost.backend import Backend
from mtboost.errors import ParameterError
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
    if name == "xgboost":
        return XgboostBackend()
    if name == "lightgbm":
        from mtboost.lightgbm.backend import LightgbmBackend

        return LightgbmBackend()
    raise ParameterError(f"backend must be 'xgboost' or 'lightgbm', found {name!r}.")
