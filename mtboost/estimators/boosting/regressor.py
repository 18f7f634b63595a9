# SPDX-License-Identifier: Apache-2.0
"""Boosting of numbers."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length

from mtboost import _core
from mtboost.base.arrays import FloatArray
from mtboost.base.checks import check_choice, check_number
from mtboost.base.labels import as_float64_weights, check_magnitude
from mtboost.base.renamed import renamed
from mtboost.base.sklearn_input import check_are_numbers, r2
from mtboost.errors import DataError
from mtboost.estimators.boosting.base import BaseBoosting
from mtboost.estimators.boosting.rounds import Margins
from mtboost.estimators.boosting.scoring import mean_r2
from mtboost.model.inputs.keywords import where_in_a_method

# Differences of two labels fit in float32.
_MOST = 1.7e38
# More than 0 in float32.
_LEAST = 1e-37
_LOSSES = {"squared_error": "squared", "absolute_error": "absolute", "huber": "huber"}


class BoostingRegressor(RegressorMixin, BaseBoosting):  # type: ignore[misc]  # untyped
    """Labels are numbers, and margins predict them."""

    loss: Literal["squared_error", "absolute_error", "huber"]
    huber_delta: float
    _n_outputs: int
    _is_vector: bool

    _saved: ClassVar = BaseBoosting._saved | {"_n_outputs": int, "_is_vector": bool}

    @renamed(where_in_a_method)
    def predict(self, X: Any) -> FloatArray:
        """Predict on the scale of the labels: the start plus the sum of the leaf values.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_outputs), as `y` in ``fit``
            In the units of the labels.

        Raises
        ------
        ValueError
            Columns are not those of ``fit``.
        """
        return self._predict_margins(self._margins(X))

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the coefficient of determination of :meth:`predict`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like or SciPy sparse matrix of shape (n_rows,) or (n_rows, n_outputs)
            True numbers; unknown ones are left out, as in ``fit``.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0.

        Returns
        -------
        float
            R², averaged over outputs: 1 for perfect predictions, 0 for those of the mean.
        """
        predicted = self.predict(X)
        labels = self._read_labels(y, reset=False)
        if not np.isnan(labels).any():
            return r2(y, predicted, sample_weight)
        check_consistent_length(predicted, labels, sample_weight)
        if sample_weight is not None:
            sample_weight = as_float64_weights(sample_weight, len(labels), argument="sample_weight")
        return mean_r2(labels, predicted.reshape(labels.shape), sample_weight)

    def _predict_margins(self, margins: Margins) -> FloatArray:
        outputs = margins.astype(np.float64)
        return outputs[:, 0] if self._is_vector else outputs

    def _read_labels(self, y: Any, *, reset: bool) -> Margins:
        check_are_numbers(y)
        y = self._checked(y, np.float32)
        labels: Margins = y.reshape(len(y), -1)
        check_magnitude(labels, _MOST, may_be_missing=True)
        if reset:
            self._is_vector = y.ndim == 1
            self._n_outputs = labels.shape[1]
        elif labels.shape[1] != self._n_outputs:
            raise DataError(f"y has {labels.shape[1]} outputs instead of {self._n_outputs}.")
        return labels

    def _decode(self, labels: Margins) -> Any:
        return self._predict_margins(labels)

    def _loss(self, n_outputs: int | None = None) -> _core.OutputLoss:
        loss = _LOSSES[check_choice("loss", self.loss, _LOSSES)]
        huber_delta = check_number("huber_delta", self.huber_delta, low=_LEAST, high=_MOST)
        return _core.OutputLoss(loss, n_outputs or self._n_outputs, huber_delta=huber_delta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
