# SPDX-License-Identifier: Apache-2.0
"""Boosting of classes and labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d

from mtboost import _core
from mtboost.base.arrays import FloatArray, as_array
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.labels import as_float64_weights
from mtboost.base.renamed import renamed
from mtboost.base.several_labels import values_and_known
from mtboost.base.sklearn_input import (
    accuracy,
    as_numbers,
    class_codes,
    encode_classes,
    mixed_as_objects,
    reading_numbers,
)
from mtboost.errors import DataError
from mtboost.estimators.boosting.base import BaseBoosting
from mtboost.estimators.boosting.rounds import Margins
from mtboost.model.inputs.keywords import where_in_a_method

_LABELS = "labels in several columns must be 0, 1, or NaN where unknown. Classes go in one column."


class BoostingClassifier(ClassifierMixin, BaseBoosting):  # type: ignore[misc]  # untyped
    """Labels are classes, or indicators of several; margins are their log-odds."""

    classes_: npt.NDArray[Any]
    _has_indicators: bool
    _is_sparse: bool

    _saved: ClassVar = BaseBoosting._saved | {
        "classes_": np.ndarray,
        "_has_indicators": bool,
        "_is_sparse": bool,
    }

    @renamed(where_in_a_method)
    def decision_function(self, X: Any) -> FloatArray:
        """Compute the margins: log-odds of the second class, or a margin for each class or label.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.

        Returns
        -------
        ndarray of float32, shape (n_rows,) or (n_rows, n_classes)
            Those of several classes are defined up to a constant of the row.

        Raises
        ------
        ValueError
            Columns are not those of ``fit``.
        """
        return self._decision_function_margins(self._margins(X))

    @renamed(where_in_a_method)
    @shares_docstring_of(decision_function, sections=["Raises"])
    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """Compute :meth:`decision_function` after each tree.

        Yields
        ------
        ndarray of float32, shape (n_rows,) or (n_rows, n_classes)
            Margins of the first tree, the first two, and so on.
        """
        for margins in self._staged_margins(X):
            yield self._decision_function_margins(margins)

    @renamed(where_in_a_method)
    @shares_docstring_of(decision_function, sections=["Raises"])
    def staged_predict_proba(self, X: Any) -> Iterator[FloatArray]:
        """Compute :meth:`predict_proba` after each tree.

        Yields
        ------
        ndarray of float64, shape (n_rows, n_classes) or (n_rows, n_labels)
            Probabilities of the first tree, the first two, and so on.
        """
        for margins in self._staged_margins(X):
            yield self._predict_proba_margins(margins)

    @renamed(where_in_a_method)
    @shares_docstring_of(decision_function, sections=["Raises"])
    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class or label.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes) or (n_rows, n_labels)
            Of a matrix of labels one column a label: the probability that the row has it.
        """
        return self._predict_proba_margins(self._margins(X))

    @renamed(where_in_a_method)
    @shares_docstring_of(decision_function, sections=["Raises"])
    def predict(self, X: Any) -> Any:
        """Predict the most probable class of each row, or all labels with a probability above 0.5.

        Returns
        -------
        ndarray of shape (n_rows,), or indicator matrix of shape (n_rows, n_labels)
            Sparse if `y` was sparse in ``fit``.
        """
        return self._predict_margins(self._margins(X))

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy of :meth:`predict`; of a matrix of labels, the subset accuracy.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like or sparse matrix of shape (n_rows,) or (n_rows, n_labels)
            True classes, or indicator matrix of labels; unknown ones are left out, as in ``fit``.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.

        Returns
        -------
        float
            Fraction of the weight of the rows all of whose known labels are correct.
        """
        predicted = self.predict(X)
        check_consistent_length(predicted, y, sample_weight)
        if self._has_indicators:
            labels = self._read_labels(y, reset=False)
            predicted = predicted.toarray() if self._is_sparse else predicted
            is_known = np.asarray(~np.isnan(labels).all(axis=1))
            known = np.where(np.isnan(labels), predicted, labels)[is_known]
        else:
            known, is_known = _known_classes(column_or_1d(self._checked(mixed_as_objects(y), None)))
        if sample_weight is not None:
            weights = as_float64_weights(sample_weight, len(is_known), argument="sample_weight")
            sample_weight = weights[is_known]
        return accuracy(known, predicted[is_known], sample_weight)

    def _decision_function_margins(self, margins: Margins) -> FloatArray:
        return margins[:, 0] if self._is_binary() else margins

    def _predict_proba_margins(self, margins: Margins) -> FloatArray:
        log_odds = margins.astype(np.float64)
        if self._has_indicators:
            return np.asarray(expit(log_odds))
        if self._is_binary():
            return np.hstack([expit(-log_odds), expit(log_odds)])
        return np.asarray(softmax(log_odds, axis=1))

    def _predict_margins(self, margins: Margins) -> Any:
        if self._has_indicators:
            indicators = (margins > 0.0).astype(np.int64)
            return scipy.sparse.csr_array(indicators) if self._is_sparse else indicators
        if self._is_binary():
            return self.classes_[(margins[:, 0] > 0.0).astype(np.intp)]
        return self.classes_[margins.argmax(axis=1)]

    def _is_binary(self) -> bool:
        return not self._has_indicators and len(self.classes_) == 2

    def _are_classes(self) -> bool:
        return not self._has_indicators

    def _read_labels(self, y: Any, *, reset: bool) -> Margins:
        is_sparse = scipy.sparse.issparse(y)
        y = self._checked(mixed_as_objects(y), None)
        has_indicators = is_sparse or (y.ndim == 2 and y.shape[1] > 1)
        if not reset and has_indicators != self._has_indicators:
            raise DataError("y must hold classes, or labels, as it did in fit.")
        if reset:
            self._has_indicators, self._is_sparse = has_indicators, is_sparse
        if not has_indicators:
            return self._encode(y, reset)
        try:
            labels: Margins = self._checked(y, np.float32)
        except DataError:
            as_numbers(y, _LABELS)  # names a text
            raise
        is_label = np.isnan(labels) | (labels == 0.0) | (labels == 1.0)
        if not is_label.all():
            row, column = np.unravel_index(int(is_label.argmin()), labels.shape)
            raise DataError(
                f"y is {labels[row, column]:g} at row {row}, column {column}: {_LABELS}"
            )
        if reset:
            self.classes_ = np.arange(labels.shape[1])
        elif labels.shape[1] != len(self.classes_):
            raise DataError(f"y has {labels.shape[1]} labels instead of {len(self.classes_)}.")
        return labels

    def _encode(self, y: Any, reset: bool) -> Margins:
        """Numbers of classes, NaN where unknown, as a column."""
        known, is_known = _known_classes(column_or_1d(y, warn=True))
        codes = np.full(len(is_known), np.nan, np.float32)
        classes, numbers = encode_classes(known) if len(known) else (known, known)
        if reset and len(classes) < 2:
            raise DataError(f"y has {len(classes)} classes: there must be two or more.")
        if reset:
            self.classes_ = classes
        else:
            numbers = class_codes(classes, self.classes_)[numbers] if len(known) else numbers
        codes[is_known] = numbers
        return codes[:, None]

    def _decode(self, labels: Margins) -> Any:
        codes = labels.astype(np.int64)
        return codes if self._has_indicators else self.classes_[codes[:, 0]]

    def _loss(self, n_outputs: int | None = None) -> _core.OutputLoss:
        if self._has_indicators or self._is_binary():
            n_labels = len(self.classes_) if self._has_indicators else 1
            return _core.OutputLoss("logistic", n_outputs or n_labels)
        return _core.OutputLoss("softmax", len(self.classes_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _known_classes(y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the classes of the rows that have one, and which rows these are."""
    with reading_numbers("y"):  # some labels cannot be compared, not even with themselves
        y, is_known = values_and_known(y)
    known = y[is_known]
    if known.dtype == object and not any(isinstance(label, str) for label in known):
        known = as_array(known.tolist())  # numbers that stood beside None
    return known, is_known
