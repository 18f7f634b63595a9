# SPDX-License-Identifier: Apache-2.0
"""Weights of whole classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, FloatArray
from mtboost.base.checks import check_number, did_you_mean, listed, refuse
from mtboost.base.labels import as_float64_weights
from mtboost.base.task_tables import check_task_keys
from mtboost.errors import ParameterError

ClassWeight = Mapping[Any, float] | Literal["balanced"] | None


def weights_of_classes(
    class_weight: ClassWeight, classes: npt.NDArray[Any], y: Any
) -> Float64Array:
    """Weight of each class, shape (n_classes,).

    Parameters
    ----------
    class_weight : mapping of class to float, or "balanced"
        As in scikit-learn: classes that a mapping lacks have 1, and ``"balanced"`` is n_rows /
        (n_classes * rows of the class).
    classes : ndarray of shape (n_classes,)
    y : ndarray of int, shape (n_rows,), or mapping of task name to ndarray
        Codes of the classes of all rows.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        codes = np.concatenate([*y.values()]) if isinstance(y, Mapping) else y
        balanced: Float64Array = len(codes) / (len(classes) * np.bincount(codes))
        return balanced
    if not isinstance(class_weight, Mapping):
        refuse("class_weight", class_weight, "None, 'balanced' or a mapping {class: weight}")
    known = classes.tolist()
    unknown = [name for name in class_weight if name not in known]
    if unknown:
        raise ParameterError(
            f"class_weight has the unknown {listed(unknown, 'class')}. y has the "
            f"{listed(known, 'class')}.{did_you_mean(unknown[0], known)}"
        )
    return np.array(
        [
            check_number(f"class_weight[{name!r}]", class_weight.get(name, 1.0), low=0.0)
            for name in known
        ]
    )


def weights_with_classes(argument: str, weight: Any, y: Any, factors: Float64Array) -> Any:
    """Row weights, like `y` an array or a mapping of arrays, times the weight of the row's class.

    Parameters
    ----------
    argument : str
        What messages call the weights.
    weight : like `y`, optional
    y : ndarray of int, shape (n_rows,), or mapping of task name to ndarray
    factors : ndarray of float64, shape (n_classes,)
    """
    if isinstance(y, Mapping):
        if weight is not None:
            check_task_keys(argument, weight, y)
        return {
            task: _product(f"{argument}[{task!r}]", weight and weight[task], own, factors)
            for task, own in y.items()
        }
    return _product(argument, weight, y, factors)


def _product(argument: str, weight: Any, y: Any, factors: Float64Array) -> FloatArray:
    own: FloatArray = factors[y]
    return own if weight is None else own * as_float64_weights(weight, len(y), argument=argument)
