# SPDX-License-Identifier: Apache-2.0
"""Tables and labels as scikit-learn checks and scores them, with errors that are meant for users.

scikit-learn's checks assume numbers that NumPy can read, and frames that are sound: others end in
an OverflowError, a warning of NumPy, or the error of a library below.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.metrics import accuracy_score, r2_score
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from mtboost.base.arrays import Float64Array
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import listed, shown
from mtboost.base.sparse_tables import checked_sparse
from mtboost.base.tables import TaskColumn, has_names
from mtboost.base.task_tables import is_mapping
from mtboost.base.times import without_column
from mtboost.errors import DataError


def checked_table(
    estimator: Any,
    X: Any,
    *,
    task_column: TaskColumn | list[str] | None,
    reset: bool,
    time_column: str | None = None,
    has_time: bool = False,
) -> Any:
    """Check X by scikit-learn's rules; a data frame stays as it is.

    Parameters
    ----------
    estimator : BaseEstimator
        Remembers the columns if `reset`, and compares them otherwise.
    X : table
    task_column : str, int or sequence of str, optional
        A column that may hold anything, or several.
    time_column : str, optional
        Another one, of a data frame.
    has_time : bool
        As for :func:`as_table`.
    """
    check_not_mapping("X", X)
    X = checked_sparse(X, "X")
    is_frame = has_names(X)
    # Of a frame scikit-learn checks the names only, and a mask it passes over.
    if is_frame or isinstance(X, np.ma.MaskedArray):
        table = X if time_column is None else without_column(X, time_column)
        as_table(table, task_column=task_column, has_time=has_time)
    with reading_numbers("X"):
        return validate_data(
            estimator,
            X,
            reset=reset,
            skip_check_array=is_frame,
            accept_sparse=("csr", "csc"),
            # One column of an array of objects may hold the names of the tasks.
            dtype="numeric" if task_column is None else None,
            ensure_all_finite="allow-nan",
        )


def checked_labels(estimator: Any, y: Any, **options: Any) -> Any:
    """Check labels by scikit-learn's rules; `options` are those of its ``check_X_y``."""
    check_not_masked(y)
    check_not_mapping("y", y)
    try:
        with reading_numbers("y"), _keeping_names(estimator):
            return without_objects(validate_data(estimator, y=y, **options))
    except TypeError:  # pandas' NA is not true or false
        if not issparse(y):
            check_classes(y)
        raise


def check_not_mapping(argument: str, values: Any) -> None:
    """Raise TypeError for a mapping of tasks where there is one table."""
    if is_mapping(values):
        raise TypeError(
            f"{argument} is a {type(values).__name__}: pass one table X and the labels of its "
            "rows. A table for each task, X={task: table} and y={task: labels}, is for "
            "mtboost.fit and the MultiTask estimators."
        )


def without_objects(y: Any) -> Any:
    """Return an array of objects of one type as one of bool, int or float, if they are that."""
    dtype = getattr(y, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind != "O":
        return y
    objects = np.asarray(y)
    is_of_one_type = len(set(map(type, objects.flat))) == 1
    plain = np.array(objects.tolist()) if is_of_one_type else objects
    return plain if plain.dtype.kind in "bif" and plain.shape == objects.shape else y


def mixed_as_objects(y: Any) -> Any:
    """Return a list of text beside other labels as an array; NumPy would make text of them all."""
    if isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) == 2:
        return np.array(y, dtype=object)
    return y


def check_not_masked(y: Any) -> None:
    """Raise DataError for a masked array, whose mask scikit-learn passes over."""
    if isinstance(y, np.ma.MaskedArray):
        raise DataError(
            "y is a masked array: leave out the rows without a label, or where unknown labels are "
            "allowed mark them by NaN, y.filled(np.nan)."
        )


def check_are_numbers(y: Any) -> None:
    """Raise DataError for dates and durations, which NumPy reads as counts of a unit."""
    with reading_numbers("y"):
        dtypes = [getattr(y, "dtype", None), None if issparse(y) else np.asarray(y).dtype]
    for dtype in dtypes:
        if getattr(dtype, "kind", "") in ("m", "M"):
            raise DataError(
                f"y has dtype {dtype}: a regressor needs numbers, such as days since an event."
            )


@contextmanager
def _keeping_names(estimator: Any) -> Iterator[None]:
    """Keep the names of columns, which scikit-learn removes where it gets no X."""
    names = getattr(estimator, "feature_names_in_", None)
    try:
        yield
    finally:
        if names is not None:
            estimator.feature_names_in_ = names


def check_classes(y: Any) -> None:
    """Raise unless labels are classes by scikit-learn's rules."""
    try:
        with reading_numbers("y"):
            check_classification_targets(y)
    except (TypeError, DataError):  # one is not greater or less than another, or of no type known
        labels = [] if issparse(y) else np.ravel(y).tolist()
        kinds = sorted({type(label).__name__ for label in labels})
        if len(kinds) < 2 or not {"NoneType", "str"} & set(kinds):
            raise
        raise DataError(
            f"y holds labels of {listed(kinds, 'type')}: classes must be all strings or all "
            f"numbers. Convert them, and leave out rows without a label."
        ) from None


def check_indicators(y: Any) -> None:
    """Raise DataError unless a matrix of labels, dense or sparse, holds 0 and 1 alone.

    scikit-learn calls any two values indicators, such as -1 and 1.
    """
    values = y.data if issparse(y) else np.asarray(y)
    is_indicator = (values == 0) | (values == 1)
    if not is_indicator.all():
        raise DataError(
            f"y holds {shown(values[~is_indicator].flat[0])}: labels in several columns must be 0 "
            f"or 1. Classes go in one column."
        )


def encode_classes(y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Sorted classes, and the number of each label; DataError where labels are no classes."""
    check_classes(y)
    encoder = LabelEncoder().fit(y)
    return encoder.classes_, encoder.transform(y)


def as_numbers(
    y: npt.NDArray[Any],
    remedy: str = "a regressor needs numbers. For classes use a classifier.",
) -> Float64Array:
    """Return labels as float64; text counts where it is a number.

    Raises
    ------
    DataError
        A label cannot be read as a number. The message names the first one and adds the `remedy`.
    """
    check_are_numbers(y)
    try:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        for (row, *_), label in np.ndenumerate(y):
            try:
                float(label)
            except (TypeError, ValueError, OverflowError):
                raise DataError(f"y is {shown(label)} at row {row}: {remedy}") from None
        raise


def class_codes(y: Any, classes: npt.NDArray[Any], argument: str = "y") -> npt.NDArray[np.int64]:
    """Return the places of labels among sorted classes.

    Raises
    ------
    DataError
        A label is none of the classes.
    """
    encoder = LabelEncoder()
    encoder.classes_ = classes
    try:
        codes: npt.NDArray[np.int64] = encoder.transform(y)
    except (TypeError, ValueError):  # a class is new, or cannot be compared with the others
        known = set(classes.tolist())
        unknown = [label for label in np.ravel(y).tolist() if label not in known]
        if not unknown:
            raise
        raise DataError(
            f"{argument} contains {unknown[0]!r}, which is not a class of the training rows. "
            f"Known: {listed(classes.tolist(), 'class')}."
        ) from None
    return codes


def label_array(y: Any) -> npt.NDArray[Any]:
    """Return dense labels as an array; a frame of pandas' own types would become one of objects."""
    with reading_numbers("y"):
        labels: npt.NDArray[Any] = check_array(
            y, dtype=None, ensure_2d=False, ensure_all_finite=False, input_name="y"
        )
    plain: npt.NDArray[Any] = without_objects(labels)
    return plain


def accuracy(y: Any, predicted: Any, sample_weight: Any) -> float:
    """Part of the rows that are predicted right."""
    check_not_mapping("y", y)
    y = label_array(y) if has_names(y) else without_objects(y)
    try:
        with reading_numbers("y or sample_weight"):
            y = checked_sparse(y, "y")
            if issparse(y) and y.shape[1] == 1:  # scikit-learn takes no single label
                y, predicted = (own.toarray() if issparse(own) else own for own in (y, predicted))
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
    except TypeError:  # labels that cannot be compared
        check_classes(y)
        raise


def r2(y: Any, predicted: Any, sample_weight: Any) -> float:
    """Coefficient of determination, averaged over outputs."""
    check_not_mapping("y", y)
    with reading_numbers("y or sample_weight"):
        y = checked_sparse(y, "y").toarray(order="C") if issparse(y) else y
        return float(r2_score(y, predicted, sample_weight=sample_weight))


@contextmanager
def reading_numbers(argument: str) -> Iterator[None]:
    """Name what holds values that are no numbers, or too large for a type; without NumPy's warning.

    What is too large becomes infinite, which scikit-learn refuses.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (ArithmeticError, UnboundLocalError, ValueError) as error:  # type_of_target has a fault
        raise DataError(f"{argument}: {error}") from None
