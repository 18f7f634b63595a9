"""Objectives by XGBoost's names: what their margins mean."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.special

from mtboost import _core
from mtboost.errors import DataError, UnsupportedError

FloatArray = npt.NDArray[np.floating]

_LOGISTIC = ("binary:logistic", "reg:logistic", "binary:logitraw")
_LOG_LINK = ("count:poisson", "reg:tweedie", "reg:gamma")
_SOFTMAX = ("multi:softprob", "multi:softmax")


def is_classification(objective: object) -> bool:
    """Whether labels are classes."""
    return objective in ("binary:logistic", "binary:logitraw", *_SOFTMAX)


def is_multiclass(objective: object) -> bool:
    """Whether there is one margin per class."""
    return objective in _SOFTMAX


def inverse_link(objective: object, margins: FloatArray) -> FloatArray:
    """Margins of shape (n_rows,) or (n_rows, n_outputs) on the scale of the labels.

    Probabilities for a classifier, also where XGBoost's predict gives margins (``logitraw``) or
    classes (``softmax``). An objective of the user's own keeps its margins.
    """
    if objective in _LOGISTIC:
        return np.asarray(scipy.special.expit(margins))
    if objective in _LOG_LINK:
        return np.asarray(np.exp(margins))
    if objective in _SOFTMAX:
        return np.asarray(scipy.special.softmax(margins, axis=1))
    return margins


def make_loss(
    objective: str, n_outputs: int = 1, *, arithmetic: str = "xgboost-3.0", **options: float
) -> _core.Loss:
    """Loss of the core for an objective of XGBoost; UnsupportedError if there is none."""
    try:
        return _core.Loss(objective, n_outputs=n_outputs, arithmetic=arithmetic, **options)
    except ValueError as error:
        raise UnsupportedError(
            f"objective={objective!r} is not supported: {error}. A function of your own is."
        ) from None


def check_labels(loss: _core.Loss, labels: FloatArray) -> None:
    """Raise DataError if a label, shape (n_rows,) or (n_rows, n_outputs), is outside its domain."""
    try:
        loss.check_labels(np.ascontiguousarray(labels, np.float32).reshape(len(labels), -1))
    except ValueError as error:
        raise DataError(str(error)) from None
