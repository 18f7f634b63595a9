# SPDX-License-Identifier: Apache-2.0
"""Scores of margins, by name or by a scorer of scikit-learn; unknown labels are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer, label_ranking_average_precision_score, r2_score

from mtboost import _core
from mtboost.errors import DataError, ParameterError

Margins = npt.NDArray[np.float32]
Score = Callable[[Margins], float]


def make_score(
    scoring: str | Callable[..., float],
    estimator: Any,
    loss: _core.OutputLoss,
    X: Any,
    labels: npt.NDArray[np.float32],
    *,
    n_threads: int,
) -> Score:
    """Return the function from margins of rows to a score, of which more is better.

    Parameters
    ----------
    scoring : str or callable
        ``"loss"``, ``"r2"`` or ``"label_ranking_average_precision"``, which leave unknown labels
        out, the name of another scorer of scikit-learn, or a scorer ``(estimator, X, y) -> float``.
    estimator : object
        Makes predictions of margins (``_predict_margins``), and `y` of labels (``_decode``).
    loss : _core.OutputLoss
    X : ndarray or csr_array
        The rows.
    labels : ndarray of shape (n_rows, n_labels)
        NaN where unknown.
    """
    if np.isnan(labels).all():
        raise DataError("The rows to validate on have no known label: at least one must be known.")
    if scoring == "loss":
        return lambda margins: -loss.mean_loss(margins, labels, n_threads=n_threads)
    if scoring == "r2" and loss.n_labels == loss.n_outputs:
        return lambda margins: mean_r2(labels, margins)
    if scoring == "label_ranking_average_precision":
        if loss.name != "logistic" or loss.n_outputs == 1:
            raise ParameterError(
                f"scoring={scoring!r} ranks labels: it needs y to be a matrix of labels."
            )
        return lambda margins: label_ranking_average_precision(labels, margins)
    try:
        scorer = get_scorer(scoring)
    except ValueError as error:
        raise ParameterError(f"scoring: {error}") from None
    if np.isnan(labels).any():
        raise DataError(
            f"scoring={scoring!r} cannot leave unknown labels out, as 'loss', 'r2' and "
            f"'label_ranking_average_precision' do: hold out rows without NaN in y."
        )
    y = estimator._decode(labels)
    return lambda margins: float(scorer(_Predicted(estimator, margins), X, y))


def mean_r2(labels: npt.NDArray[np.float32], predictions: npt.NDArray[np.floating[Any]]) -> float:
    """Coefficient of determination of the known labels of each output, averaged over outputs.

    Both of shape (n_rows, n_outputs), labels NaN where unknown. NaN if no output has two known.
    """
    is_known = ~np.isnan(labels)
    if is_known.all() and len(labels) > 1:  # in one call, which takes a part of the time
        return float(r2_score(labels, predictions))
    found = [
        r2_score(own[known], predicted[known])
        for own, predicted, known in zip(labels.T, predictions.T, is_known.T, strict=True)
        if np.count_nonzero(known) > 1
    ]
    return float(np.mean(found)) if found else np.nan


def label_ranking_average_precision(
    labels: npt.NDArray[np.float32], scores: npt.NDArray[np.floating[Any]]
) -> float:
    """Scikit-learn's score, of the known labels of each row that has any.

    Both of shape (n_rows, n_labels), labels NaN where unknown.
    """
    is_known = ~np.isnan(labels)
    has_any = is_known.any(axis=1)
    # A label that is not there and ranks last changes no rank and adds no precision.
    last = np.nanmin(scores) - 1.0
    return float(
        label_ranking_average_precision_score(
            (labels[has_any] == 1.0), np.where(is_known, scores, last)[has_any]
        )
    )


class _Predicted(BaseEstimator):  # type: ignore[misc]  # untyped
    """A fitted estimator whose predictions are known, for scikit-learn's scorers."""

    def __init__(self, estimator: Any, margins: Margins) -> None:
        self.estimator = estimator
        self.margins = margins

    def predict(self, _: Any) -> Any:
        return self.estimator._predict_margins(self.margins)

    def predict_proba(self, _: Any) -> Any:
        return self.estimator._predict_proba_margins(self.margins)

    def decision_function(self, _: Any) -> Any:
        return self.estimator._decision_function_margins(self.margins)

    @property
    def classes_(self) -> Any:
        return self.estimator.classes_

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        return True
