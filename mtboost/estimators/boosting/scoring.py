# SPDX-License-Identifier: Apache-2.0
"""Scores of margins, by name or by a scorer of scikit-learn; unknown labels are left out.

Weights are those of rows, of shape (n_rows,), or of labels, of the shape of the labels; a label of
weight 0 is left out like an unknown one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer, label_ranking_average_precision_score, r2_score

from mtboost import _core
from mtboost.base.checks import refuse
from mtboost.errors import DataError, ParameterError, ParameterTypeError

Margins = npt.NDArray[np.float32]
Score = Callable[[Margins], float]

#: Scores by name that scikit-learn has no scorer of.
_OWN = ("loss", "label_ranking_average_precision")


def check_scoring(scoring: object) -> None:
    """Raise unless a score is known by its name, or can be called."""
    if callable(scoring) or (isinstance(scoring, str) and scoring in _OWN):
        return
    if not isinstance(scoring, str):
        allowed = "'loss', another name of a score, or a scorer (estimator, X, y) -> float"
        refuse("scoring", scoring, allowed, kind=ParameterTypeError)
    try:
        get_scorer(scoring)
    except ValueError as error:
        raise ParameterError(f"scoring: {error}") from None


def make_score(
    scoring: str | Callable[..., float],
    estimator: Any,
    loss: _core.OutputLoss,
    X: Any,
    labels: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32] | None = None,
    *,
    n_threads: int,
) -> Score:
    """Return the function from margins of rows to a score, of which more is better.

    Parameters
    ----------
    scoring : str or callable
        ``"loss"``, ``"r2"`` or ``"label_ranking_average_precision"``, which leave unknown labels
        out, the name of another scorer of scikit-learn, or a scorer ``(estimator, X, y) -> float``.
        R² of a logistic loss is that of the probabilities.
    estimator : object
        Makes predictions of margins (``_predict_margins``), and `y` of labels (``_decode``).
    loss : _core.OutputLoss
    X : ndarray or csr_array
        The rows.
    labels : ndarray of shape (n_rows, n_labels)
        NaN where unknown.
    weights : ndarray of float32, shape (n_rows,) or (n_rows, n_labels), optional
        A scorer of scikit-learn gets those of rows if it, or its metric, takes ``sample_weight``.

    Raises
    ------
    DataError, ParameterError
        No label is known, or the scorer cannot leave labels out or weigh them. The score itself
        raises ParameterError where a scorer of scikit-learn fits neither estimator nor labels.
    """
    if np.isnan(labels).all():
        raise DataError("The rows to validate on have no known label: at least one must be known.")
    if scoring == "loss":
        return lambda margins: -loss.mean_loss(margins, labels, weights, n_threads=n_threads)
    if scoring == "r2" and loss.n_labels == loss.n_outputs:
        if loss.name == "logistic":
            return lambda margins: mean_r2(labels, expit(margins.astype(np.float64)), weights)
        return lambda margins: mean_r2(labels, margins, weights)
    if scoring == "label_ranking_average_precision":
        if loss.name != "logistic" or loss.n_outputs == 1:
            raise ParameterError(
                f"scoring={scoring!r} ranks labels: it needs y to be a matrix of labels."
            )
        return lambda margins: label_ranking_average_precision(labels, margins, weights)
    scorer = get_scorer(scoring)
    if np.isnan(labels).any():
        raise DataError(
            f"scoring={scoring!r} cannot leave unknown labels out, as 'loss', 'r2' and "
            f"'label_ranking_average_precision' do: hold out rows without NaN in y."
        )
    if weights is not None and weights.ndim == 2:
        raise DataError(
            f"scoring={scoring!r} cannot weigh the labels of a row, as 'loss', 'r2' and "
            f"'label_ranking_average_precision' do: give sample_weight one number a row."
        )
    y = estimator._decode(labels)
    options = {}
    if weights is not None and _takes_weights(scorer):
        options["sample_weight"] = weights
    predicted = _PredictedClasses if hasattr(estimator, "predict_proba") else _Predicted

    def score(margins: Margins) -> float:
        try:
            return float(scorer(predicted(estimator, margins), X, y, **options))
        except (AttributeError, TypeError, ValueError) as error:
            if callable(scoring):
                raise
            raise ParameterError(
                f"scoring={scoring!r} cannot score {type(estimator).__name__} with these labels: "
                f"{str(error).replace(predicted.__name__, 'it')}"
            ) from None

    return score


def _takes_weights(scorer: Any) -> bool:
    """Whether a scorer, or the metric that scikit-learn made it of, has ``sample_weight``."""
    try:
        parameters = inspect.signature(getattr(scorer, "_score_func", scorer)).parameters
    except ValueError:  # of a built-in function
        return False
    return "sample_weight" in parameters


def mean_r2(
    labels: npt.NDArray[np.float32],
    predictions: npt.NDArray[np.floating[Any]],
    weights: npt.NDArray[np.floating[Any]] | None = None,
) -> float:
    """Coefficient of determination of the known labels of each output, averaged over outputs.

    Both of shape (n_rows, n_outputs), labels NaN where unknown. NaN if no output has two known.
    """
    is_known, of_labels = _known(labels, weights)
    if is_known.all() and len(labels) > 1 and (of_labels is None or of_labels.shape[1] == 1):
        # In one call, which takes a part of the time.
        of_rows = None if of_labels is None else of_labels[:, 0]
        return float(r2_score(labels, predictions, sample_weight=of_rows))
    found = [
        r2_score(
            labels[known, output],
            predictions[known, output],
            sample_weight=None
            if of_labels is None
            else of_labels[known, output % of_labels.shape[1]],
        )
        for output, known in enumerate(is_known.T)
        if np.count_nonzero(known) > 1
    ]
    return float(np.mean(found)) if found else np.nan


def label_ranking_average_precision(
    labels: npt.NDArray[np.float32],
    scores: npt.NDArray[np.floating[Any]],
    weights: npt.NDArray[np.float32] | None = None,
) -> float:
    """Scikit-learn's score, of the known labels of each row that has any.

    Both of shape (n_rows, n_labels), labels NaN where unknown. A row has the mean weight of its
    known labels.
    """
    is_known, of_labels = _known(labels, weights)
    has_any = is_known.any(axis=1)
    of_rows = None
    if of_labels is not None:
        table = np.broadcast_to(of_labels, labels.shape)[has_any]
        of_rows = np.average(table.astype(np.float64), axis=1, weights=is_known[has_any])
    # A label that is not there and ranks last changes no rank and adds no precision.
    last = np.nanmin(scores) - 1.0
    return float(
        label_ranking_average_precision_score(
            (labels[has_any] == 1.0) & is_known[has_any],
            np.where(is_known, scores, last)[has_any],
            sample_weight=of_rows,
        )
    )


def _known(
    labels: npt.NDArray[np.float32], weights: npt.NDArray[np.floating[Any]] | None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating[Any]] | None]:
    """Which labels count, and weights of shape (n_rows, 1) or (n_rows, n_labels)."""
    is_known = ~np.isnan(labels)
    if weights is None:
        return is_known, None
    of_labels = weights.reshape(len(labels), -1)
    return is_known & (of_labels > 0.0), of_labels


class _Predicted(BaseEstimator):  # type: ignore[misc]  # untyped
    """A fitted estimator whose predictions are known, for scikit-learn's scorers."""

    def __init__(self, estimator: Any, margins: Margins) -> None:
        self.estimator = estimator
        self.margins = margins

    def predict(self, _: Any) -> Any:
        return self.estimator._predict_margins(self.margins)

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _PredictedClasses(_Predicted):
    """The same of a classifier."""

    def predict_proba(self, _: Any) -> Any:
        return self.estimator._predict_proba_margins(self.margins)

    def decision_function(self, _: Any) -> Any:
        return self.estimator._decision_function_margins(self.margins)

    @property
    def classes_(self) -> Any:
        return self.estimator.classes_
