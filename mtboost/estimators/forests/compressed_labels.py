# SPDX-License-Identifier: Apache-2.0
"""Labels of a forest that is compressed: as numbers for the path, and back to classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target

from mtboost.base.arrays import Float64Array
from mtboost.base.labels import check_magnitude
from mtboost.base.sklearn_input import (
    check_classes,
    check_indicators,
    reading_numbers,
    without_objects,
)
from mtboost.estimators.forests.base import LARGEST_LABEL, BaseForest


@dataclass(frozen=True, eq=False, slots=True)
class LabelColumns:
    """The columns of the labels, and what outputs say of them."""

    is_flat: bool  # y has one dimension
    classes: tuple[npt.NDArray[Any], ...] = ()  # of each column; of a regressor none
    is_matrix: bool = False  # one label a column; their probabilities are one matrix

    def fits(self, n_outputs: int, *, is_classifier: bool) -> bool:
        """Whether they may be those of a forest."""
        if not is_classifier:
            return not self.classes and (n_outputs == 1 or not self.is_flat)
        return (
            (len(self.classes) == 1 or not self.is_flat)
            and all(own.ndim == 1 and len(own) > 0 for own in self.classes)
            and n_outputs == sum(map(_n_outputs, self.classes))
            and (not self.is_matrix or all(len(own) == 2 for own in self.classes))
        )

    def shares(self, outputs: Float64Array) -> list[Float64Array]:
        """Probabilities of the classes of each column."""
        found = []
        end = 0
        for classes in self.classes:
            begin, end = end, end + _n_outputs(classes)
            own = np.clip(outputs[:, begin:end], 0.0, 1.0)
            match len(classes):
                case 1:
                    own = np.ones_like(own)
                case 2:
                    own = np.hstack([1.0 - own, own])
                case _:  # the outputs sum to 1, so that some are positive
                    own /= own.sum(axis=1, keepdims=True)
            found.append(own)
        return found


def _n_outputs(classes: npt.NDArray[Any]) -> int:
    """Of two classes the share of the second says that of the first."""
    return len(classes) if len(classes) > 2 else 1


@dataclass(frozen=True, eq=False, slots=True)
class Labels:
    """Labels as numbers with mean 0 and variance 1, as the path sees them, and the way back.

    Classes stay 0 and 1 but for a common factor: sums of them are then exact, and of two nodes
    that are equally correlated the first wins on every machine.
    """

    values: Float64Array  # (n_rows, n_outputs)
    center: Float64Array  # (n_outputs,)
    scale: Float64Array
    columns: LabelColumns

    @classmethod
    def of(cls, y: Any, forest: Any) -> Self:
        if is_classifier(forest):
            return cls._of_classes(y, may_be_matrix=isinstance(forest, BaseForest))
        with reading_numbers("y"):
            numbers = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_magnitude(numbers, LARGEST_LABEL)
        values = numbers.reshape(len(numbers), -1)
        center, scale = values.mean(axis=0), values.std(axis=0)
        scale[scale <= 1e-14 * np.abs(center)] = 1.0  # constant but for the mean's rounding
        return cls((values - center) / scale, center, scale, LabelColumns(numbers.ndim == 1))

    @classmethod
    def _of_classes(cls, y: Any, may_be_matrix: bool) -> Self:
        y = without_objects(y)
        check_classes(y)
        table = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        is_matrix = may_be_matrix and type_of_target(table) == "multilabel-indicator"
        if is_matrix:
            check_indicators(table)
        classes, indicators = [], []
        for column in table.reshape(len(table), -1).T:
            known, codes = np.unique(column, return_inverse=True)
            if is_matrix:  # a label that all rows have, or none, has two classes all the same
                known, codes = np.arange(2), column.astype(np.int64)
            own = codes[:, np.newaxis]
            classes.append(known)
            indicators.append(own if len(known) <= 2 else own == np.arange(len(known)))
        values = np.hstack(indicators).astype(np.float64)
        spread = math.sqrt(values.var(axis=0).mean())
        scale = np.full(values.shape[1], spread if spread > 0.0 else 1.0)
        center = np.zeros(len(scale))
        columns = LabelColumns(table.ndim == 1, tuple(classes), is_matrix)
        return cls(values / scale, center, scale, columns)
