# SPDX-License-Identifier: Apache-2.0
"""Gradients of XGBoost's objectives in arrays of CuPy, or of NumPy for tests.

The formulas are those of the core (cpp/core/loss), of the losses that need one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeAlias

Formula: TypeAlias = Callable[[ModuleType, Any, Any, Mapping[str, Any]], tuple[Any, Any]]

_MOST_EXPONENT = 88.7  # exp(88.73) overflows in float32
_LEAST_HESSIAN = 1e-16


def has_formula(objective: str) -> bool:
    """Whether the gradients of an objective are known here."""
    return objective in _FORMULAS


def gradient_and_hessian(
    xp: ModuleType,
    objective: str,
    options: Mapping[str, Any],
    margins: Any,
    labels: Any,
    weights: Any,
) -> tuple[Any, Any]:
    """First and second derivative of the loss of each row and output, times the row's weight.

    Parameters
    ----------
    xp : module
        CuPy or NumPy.
    options : mapping
        Parameters of the objective.
    margins : array of float32, shape (n_rows, n_outputs)
    labels : array of float32, shape (n_rows, n_outputs); of classes (n_rows, 1)
    weights : array of float32, shape (n_rows,), or None

    Returns
    -------
    tuple of array of float32, shape (n_rows, n_outputs)
    """
    gradient, hessian = _FORMULAS[objective](xp, margins, labels, options)
    factor = None if weights is None else weights[:, None]
    positive = xp.float32(options.get("scale_pos_weight", 1.0))
    if objective in _WEIGHS_POSITIVES and positive != 1.0:
        of_positives = xp.where(labels == 1.0, positive, xp.float32(1.0))
        factor = of_positives if factor is None else factor * of_positives
    return (gradient, hessian) if factor is None else (gradient * factor, hessian * factor)


def _squared_error(xp: ModuleType, m: Any, y: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    return m - y, xp.ones_like(m)


def _logistic(xp: ModuleType, m: Any, y: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    p = 1.0 / (xp.exp(xp.minimum(-m, xp.float32(_MOST_EXPONENT))) + xp.float32(1.0))
    return p - y, xp.maximum(p * (1.0 - p), xp.float32(_LEAST_HESSIAN))


def _poisson(xp: ModuleType, m: Any, y: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    mean = xp.exp(m)
    return mean - y, xp.exp(m + xp.float32(options["max_delta_step"]))


def _gamma(xp: ModuleType, m: Any, y: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    ratio = y / xp.exp(m)
    return 1.0 - ratio, ratio


def _tweedie(xp: ModuleType, m: Any, y: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    power = options["tweedie_variance_power"]
    a, b = xp.float32(1.0 - power), xp.float32(2.0 - power)
    exp_a, exp_b = xp.exp(a * m), xp.exp(b * m)
    return exp_b - y * exp_a, b * exp_b - y * a * exp_a


def _pseudo_huber(xp: ModuleType, m: Any, y: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    z = m - y
    squared_slope = xp.float32(options["huber_slope"]) ** 2
    root = xp.sqrt(1.0 + z * z / squared_slope)
    return z / root, squared_slope / ((squared_slope + z * z) * root)


def _softmax(xp: ModuleType, m: Any, y: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    p = xp.exp(m - m.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    is_label = xp.arange(m.shape[1]) == y
    hessian = xp.maximum(2.0 * p * (1.0 - p), xp.float32(_LEAST_HESSIAN))
    return xp.where(is_label, p - xp.float32(1.0), p), hessian


_FORMULAS: dict[str, Formula] = {
    "reg:squarederror": _squared_error,
    "binary:logistic": _logistic,
    "reg:logistic": _logistic,
    "binary:logitraw": _logistic,
    "count:poisson": _poisson,
    "reg:gamma": _gamma,
    "reg:tweedie": _tweedie,
    "reg:pseudohubererror": _pseudo_huber,
    "multi:softprob": _softmax,
    "multi:softmax": _softmax,
}
_WEIGHS_POSITIVES = (
    "reg:squarederror",
    "binary:logistic",
    "reg:logistic",
    "binary:logitraw",
    "reg:gamma",
)
