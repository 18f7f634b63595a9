# SPDX-License-Identifier: Apache-2.0
"""Tables as LightGBM reads them."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
import scipy.sparse

from mtboost.base.queries import begins_of
from mtboost.base.tables import Table
from mtboost.errors import DataError, MissingDependencyError
from mtboost.trees.backend import Rows, is_quick
from mtboost.trees.task_column import AddedColumns, names_of_added

# Characters that LightGBM refuses in names, and two that would end the line they are written in.
_FORBIDDEN = set('[]{}":,\n\r')


def native(table: Table, added: AddedColumns | None = None) -> Any:
    """The table as LightGBM reads it, with more columns."""
    data = _native(table)
    return data if added is None else _with_columns(data, added)


def _native(table: Table) -> Any:
    """A table of numbers as an array or CSR or CSC matrix; one with categories as a DataFrame."""
    match table.library:
        case "scipy":  # LightGBM predicts from SciPy's matrices only, not from its arrays
            with np.errstate(over="ignore"):  # infinite, as other numbers may be
                numbers = table.native.astype(_number(table.native.dtype), copy=False)
            matrix = scipy.sparse.csr_matrix if numbers.format == "csr" else scipy.sparse.csc_matrix
            return matrix(numbers)
        case "numpy":
            with np.errstate(over="ignore"):
                return np.asarray(table.native, _number(table.native.dtype))
        case "pandas":
            types = zip(table.native.columns, table.native.dtypes, strict=True)
            others = {label: _plain(dtype) for label, dtype in types if not _is_plain(dtype)}
            return table.native.astype(others) if others else table.native
    columns = [table.column(name) for name in table.feature_names or ()]
    categorical = set(table.categorical_features)
    if not categorical:
        dtype = np.result_type(*(_number(values.dtype) for values in columns))
        return np.column_stack([values.astype(dtype, copy=False) for values in columns])
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError(
            f"LightGBM reads categories of pandas only, and X is a table of {table.library}. Run: "
            "pip install pandas"
        ) from None
    return pandas.DataFrame(
        {
            name: pandas.Categorical(values, categories=table.categories(name))
            if name in categorical
            else values.astype(_number(values.dtype))
            for name, values in zip(table.feature_names or (), columns, strict=True)
        }
    )


def dataset(
    rows: Rows, params: dict[str, Any], ref: lightgbm.Dataset | None = None
) -> lightgbm.Dataset:
    """Rows to train on, or with the bins of `ref` to validate on."""
    table, added, init_score = rows.table, rows.added, rows.margin
    data, names = native(table, added), table.feature_names
    check_names(table)
    options: dict[str, Any] = {}
    if added is not None:
        names = names and (*names, *names_of_added(names, added))
        if added.ndim == 1 and not table.categorical_features:
            options["categorical_feature"] = [table.n_features]
    own = None if names is None else [own_name(name) for name in names]
    if own is not None and own != list(names or ()) and hasattr(data, "columns"):
        # LightGBM finds categories by name, with underscores in sets that have a reference.
        data = data.set_axis(own, axis="columns")
    if init_score is not None and init_score.ndim == 2 and init_score.shape[1] == 1:
        init_score = init_score[:, 0]
    return lightgbm.Dataset(
        data,
        rows.label,
        weight=rows.weight,
        group=None if rows.queries is None else np.diff(begins_of(rows.queries).astype(np.int32)),
        init_score=init_score,
        reference=ref,
        feature_name="auto" if own is None else own,
        params=params,
        **options,
    )


def check_names(table: Table) -> None:
    """Raise DataError for a name that LightGBM refuses."""
    columns: dict[str, str] = {}
    for name in table.feature_names or ():
        if not name or _FORBIDDEN & set(name):
            raise DataError(
                f"X has a column {name!r}: LightGBM allows no empty name and no comma, colon, "
                "double quote, bracket, brace or line break in it. Rename it."
            )
        other = columns.setdefault(own_name(name), name)
        if other != name:
            raise DataError(
                f"X has columns {other!r} and {name!r}: LightGBM calls both {own_name(name)!r}. "
                "Rename one."
            )


def own_name(name: str) -> str:
    """Return LightGBM's name of a column: its files separate names by spaces."""
    return name.replace(" ", "_")


def predict_margin(
    booster: lightgbm.Booster,
    table: Table,
    *,
    n_rounds: int | None = None,
    added: AddedColumns | None = None,
    **options: Any,
) -> npt.NDArray[np.float64]:
    """Raw scores of the first rounds, by default of all; shape (n_rows,) or (n_rows, n_outputs)."""
    rounds = booster.current_iteration() if n_rounds is None else n_rounds
    if is_quick(table.n_rows, rounds):
        options["num_threads"] = 1
    return np.asarray(
        booster.predict(native(table, added), raw_score=True, num_iteration=rounds, **options)
    )


def _with_columns(data: Any, added: AddedColumns) -> Any:
    """More columns; of an array, categories are numbers, of which a negative one is missing."""
    if scipy.sparse.issparse(data):
        columns = scipy.sparse.csr_matrix(added.reshape(len(added), -1).astype(data.dtype))
        return scipy.sparse.hstack([data, columns], format="csr")
    if isinstance(data, np.ndarray):
        return np.column_stack([data, added.astype(data.dtype)])
    import pandas

    names = list(map(str, data.columns))
    if added.ndim == 1:
        categories = np.arange(added.max(initial=0) + 1)
        values = [pandas.Categorical.from_codes(np.maximum(added, -1), categories)]
    else:
        values = list(added.T)
    new = dict(zip(names_of_added(names, added), values, strict=True))
    return data.set_axis(names, axis=1).assign(**new)


def _number(dtype: Any) -> Any:
    """A type that LightGBM reads and that holds the values."""
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


def _is_plain(dtype: Any) -> bool:
    """A type of pandas that LightGBM reads as it is."""
    if str(dtype) == "category":
        return not dtype.ordered
    return isinstance(dtype, np.dtype) and dtype.kind in "fiub"


def _plain(dtype: Any) -> Any:
    """A plain type for another one; LightGBM takes ordered categories for numbers."""
    if str(dtype) == "category":
        return type(dtype)(dtype.categories, ordered=False)
    return np.float64
