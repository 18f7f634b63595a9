# SPDX-License-Identifier: Apache-2.0
"""The time of each row, by which validation rows are chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import as_array
from mtboost.base.checks import shown
from mtboost.base.task_tables import check_task_keys, is_mapping
from mtboost.errors import DataError, ParameterError

Times = npt.NDArray[np.int64]

#: Dates whose year comes last, perhaps with the time of the day.
_DAY_FIRST = re.compile(r"\s*\d{1,2}(?:[/.-]\d{1,2}[/.-]\d{4}|[/.]\d{1,2}[/.]\d\d)(?:[ T,].*)?")


def split_time(X: Any, time: Any) -> tuple[Any, Times]:
    """Take the time of each row out of `X`, whose features it does not belong to.

    Parameters
    ----------
    X : table, or mapping of task name to table
    time : str, array-like of shape (n_rows,), or mapping of task name to array-like
        A column of the data frames, or a time for each row.

    Returns
    -------
    X
        Without the column that `time` names.
    times : ndarray of int64, shape (n_rows,)
        Rank of each row's time; rows of a mapping one table after another.
    """
    if not is_mapping(X):
        X, values = _split(X, time, "X")
        return X, _ranks(values, "time")
    if isinstance(time, str):
        parts = {name: _split(table, time, f"X[{name!r}]") for name, table in X.items()}
        X = {name: table for name, (table, _) in parts.items()}
        by_task: Mapping[Any, Any] = {name: values for name, (_, values) in parts.items()}
    else:
        check_task_keys("time", time, X)
        by_task = {name: _as_times(time[name]) for name in X}
    return X, _ranks(np.concatenate([by_task[name] for name in X]), "time")


def without_column(X: Any, column: str) -> Any:
    """Return a data frame without a column, if it has that."""
    if not hasattr(type(X), "columns") or column not in _names(X):
        return X
    return _drop(X, column)


def _split(X: Any, time: Any, argument: str) -> tuple[Any, npt.NDArray[Any]]:
    if not isinstance(time, str):
        return X, _as_times(time)
    if not hasattr(type(X), "columns"):
        raise DataError(
            f"time is {time!r}, but the columns of {argument} have no names: give a time for each "
            "row, or a data frame."
        )
    if time not in _names(X):
        raise DataError(f"{argument} has no column {time!r}, which time names.")
    column = X.column(time) if hasattr(X, "column_names") else X[time]
    return _drop(X, time), _as_times(column)


def _as_times(values: Any) -> npt.NDArray[Any]:
    """Return an array that sorts as the times do; of ordered categories their codes."""
    dtype = getattr(values, "dtype", None)
    if type(dtype).__module__.startswith("polars") and type(dtype).__name__ == "Enum":
        return as_array(values.to_physical())
    if not getattr(dtype, "ordered", False):
        return as_array(values)
    codes = np.asarray(getattr(values, "cat", values).codes)  # of pandas
    return np.where(codes < 0, np.nan, codes)


def _names(X: Any) -> list[Any]:
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _drop(X: Any, column: str) -> Any:
    if hasattr(X, "column_names"):  # of pyarrow
        return X.drop_columns([column])
    return X.drop(columns=column) if hasattr(X, "iloc") else X.drop(column)


def _ranks(times: npt.NDArray[Any], argument: str) -> Times:
    if times.ndim != 1:
        raise DataError(f"{argument} has shape {times.shape}: give one time for each row.")
    try:
        is_missing = times != times  # NaN and NaT
        found, ranks = np.unique(times, return_inverse=True)
    except TypeError as error:
        raise DataError(
            f"{argument} cannot be sorted ({error}): give numbers, dates or text of one type for "
            "each row."
        ) from None
    _check_sorts(found, argument)
    if is_missing.any():
        raise DataError(
            f"{argument} is missing at row {int(np.argmax(is_missing))}: every row needs a time."
        )
    return ranks.astype(np.int64)


def _check_sorts(texts: npt.NDArray[Any], argument: str) -> None:
    """Raise DataError for different times, in ascending order, if they are texts of other order."""
    if texts.dtype.kind not in "OUT" or not all(isinstance(each, str) for each in texts):
        return
    if all(map(_DAY_FIRST.fullmatch, texts)):
        raise DataError(
            f"{argument} has texts such as {shown(texts[0])}, which sort by their first number, "
            "not by time: convert them by pd.to_datetime(time, format=...)."
        )
    try:
        numbers = texts.astype(np.float64)
    except ValueError:
        return
    if (np.diff(numbers) < 0).any():
        last = int((np.diff(numbers) < 0).argmax())
        raise DataError(
            f"{argument} has numbers as text, which sort as {shown(texts[last])} before "
            f"{shown(texts[last + 1])}: convert them by astype(float), or dates by pd.to_datetime."
        )


def check_times(times: Times | None, validation: object, n_rows: int) -> None:
    """Raise unless there are times where the validation needs them, one for each row."""
    if validation == "last" and times is None:
        raise ParameterError(
            "validation='last' holds out the last rows of each task: pass time=, a column of X or "
            "an array of one time for each row."
        )
    if times is not None and validation != "last":
        raise ParameterError(
            "time is given, but validation is not 'last': pass validation='last', or leave out "
            "time and drop the column."
        )
    if times is not None and len(times) != n_rows:
        raise DataError(f"time has {len(times)} values, but X has {n_rows} rows: pass one a row.")
