"""What mtboost relies on in the installed LightGBM, in one place.

Every use of an undocumented behaviour stands in this file or says here which file holds it:

* A model text may be assembled by hand (assemble.py).
* A model text lists all training parameters after LightGBM has resolved aliases and defaults, also
  during training (:func:`read_parameters`).
* ``Booster.eval`` hands a function of the user's the scores of a data set in training without
  predicting anything (:func:`scores_in_training`).
* ``lightgbm.train`` calls a callback without ``before_iteration`` after each round, in the order of
  ``order``; LightGBM's own have 10 to 30 (quitting.py).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.errors import DataError, MissingDependencyError

try:
    import lightgbm
except ImportError as error:
    raise MissingDependencyError(
        "mtboost.lightgbm needs LightGBM. Run: pip install 'mtboost[lightgbm]'"
    ) from error

_OLDEST = (4, 5)
_NEWEST_MAJOR = 4


def version() -> tuple[int, int]:
    """Major and minor version of the installed LightGBM."""
    major, minor = lightgbm.__version__.split(".")[:2]
    return int(major), int(minor)


def arithmetic() -> str:
    """Name of the rules by which the installed LightGBM computes."""
    return "lightgbm-4.5" if version() < (4, 7) else "lightgbm-4.7"


def check_version() -> None:
    """Raise unless the installed LightGBM is one this module was written for."""
    if version() < _OLDEST or version()[0] > _NEWEST_MAJOR:
        raise MissingDependencyError(
            f"mtboost supports lightgbm >= 4.5, < 5; found {lightgbm.__version__}. "
            "Run: pip install 'lightgbm>=4.5,<5'"
        )


def read_parameters(booster: lightgbm.Booster) -> dict[str, str]:
    """Training parameters of a booster by their main names, as texts; none for a treeless file."""
    text = booster.model_to_string(num_iteration=1)
    return dict(re.findall(r"^\[(\w+): (.*)\]$", text, re.MULTILINE))


def labels_and_weights(
    data: lightgbm.Dataset,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Labels of a data set and weights, if any; DataError if it has no labels."""
    labels, weights = data.get_label(), data.get_weight()
    if labels is None:
        raise DataError("A validation set has no labels: give it label=.")
    return np.asarray(labels), None if weights is None else np.asarray(weights)


def scores_in_training(
    booster: lightgbm.Booster, data: lightgbm.Dataset
) -> npt.NDArray[np.float64]:
    """Current predictions for a data set of the training; margins if the objective is a function.

    Shape (n_rows,) or (n_rows, n_outputs). LightGBM overwrites the array in the next round.
    """
    found: list[npt.NDArray[np.float64]] = []

    def keep(scores: npt.NDArray[np.float64], _: lightgbm.Dataset) -> list[tuple[str, float, bool]]:
        found.append(scores)
        return []

    booster.eval(data, "", feval=keep)
    return found[0]
