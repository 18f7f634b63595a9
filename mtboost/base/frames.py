# SPDX-License-Identifier: Apache-2.0
"""Results as tables of pandas or polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from mtboost.errors import MissingDependencyError

#: Libraries of tables with named columns.
FrameLibrary: TypeAlias = Literal["pandas", "polars"]


#: Forms of predictions.
Output: TypeAlias = Literal["numpy", "pandas", "polars"]


def predictions_as(output: Output, values: Any, X: Any, names: Sequence[Any] | None = None) -> Any:
    """Return predictions as arrays, or as columns of a library of tables.

    Parameters
    ----------
    output : {"numpy", "pandas", "polars"}
    values : ndarray of shape (n_rows,) or (n_rows, n_classes), or mapping of task to ndarray
    X : table, or mapping of task to table
        The rows that are predicted; the index of a DataFrame of pandas is kept.
    names : sequence, optional
        Names of the columns: of classes, labels, or levels of quantiles.

    Returns
    -------
    ndarray, Series or DataFrame, or a dict of them
        A Series ``"prediction"``, or a DataFrame with a column for each class: its name, or else
        its number in pandas, ``"class_0"``, ... in polars, whose names are texts.
    """
    if output == "numpy":
        return values
    if isinstance(values, Mapping):
        return {name: predictions_as(output, own, X[name], names) for name, own in values.items()}
    is_of_pandas = type(X).__module__.partition(".")[0] == "pandas"
    index = X.index if output == "pandas" and is_of_pandas else None
    if values.ndim == 1:
        return as_frame({"prediction": values}, output, index=index)["prediction"]
    if names is None:
        numbers = range(values.shape[1])
        names = numbers if output == "pandas" else [f"class_{number}" for number in numbers]
    elif output == "polars":
        names = list(map(str, names))
    return as_frame(dict(zip(names, values.T, strict=True)), output, index=index)


def as_frame(
    columns: Mapping[Any, Any],
    library: FrameLibrary,
    *,
    index: Any = None,
    index_name: str | None = None,
) -> Any:
    """Return a DataFrame.

    Names of nested tasks are tuples, in polars their text.

    Parameters
    ----------
    columns : mapping of name to array-like
    library : {"pandas", "polars"}
    index : array-like, optional
        Labels of the rows.
    index_name : str, optional
        Name of the labels. polars, which has no index, then has them as the first column.
    """
    try:
        if library == "pandas":
            import pandas

            frame = pandas.DataFrame(dict(columns), index=index)
            frame.columns = frame.columns.to_flat_index()
            return frame if index_name is None else frame.rename_axis(index_name)
        import polars
    except ImportError:
        raise MissingDependencyError(
            f"output={library!r} needs {library}: pip install {library}."
        ) from None
    labels = {} if index_name is None else {index_name: index}
    return polars.DataFrame(
        {name: _without_tuples(values) for name, values in (labels | dict(columns)).items()}
    )


def table_of_rows(rows: Mapping[Any, Mapping[str, Any]], index_name: str, method: str) -> Any:
    """Return the DataFrame of pandas that a method gives, from its rows by their labels."""
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError(
            f"{method} gives a pandas DataFrame: pip install 'mtboost[report]'."
        ) from None
    table = pandas.DataFrame.from_dict(rows, orient="index")
    if isinstance(table.index, pandas.MultiIndex):  # of nested tasks, whose names are tuples
        table.index = table.index.to_flat_index()
    return table.rename_axis(index_name)


def _without_tuples(values: Any) -> Any:
    """Return the column with tuples as texts: polars has no column of labels of several types."""
    is_list = isinstance(values, list)
    return [str(own) if isinstance(own, tuple) else own for own in values] if is_list else values


def like(frame: Any, values: npt.NDArray[Any]) -> Any:
    """Return an array, or if the frame has names of columns a DataFrame that has them."""
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None:
        return values
    is_of_polars = type(frame).__module__.startswith("polars")
    columns = dict(zip(names, values.T, strict=True))
    return as_frame(columns, "polars" if is_of_polars else "pandas")


def unlike(name: str, others: Sequence[str]) -> str:
    """Return the name, with underscores if others have it."""
    while name in others:
        name += "_"
    return name
