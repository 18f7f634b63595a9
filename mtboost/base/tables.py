# SPDX-License-Identifier: Apache-2.0
"""Tables as the user has them, behind one face.

A table is not converted: XGBoost's own constructors read the user's object, and read it once. What
is needed before that is its names, checks, and subsets of its rows and columns. Only category
columns are touched, so that a category keeps its code in every subset. pandas, polars and pyarrow
are recognised by their classes and imported only for tables that come from them.
"""

import operator
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from mtboost.base.arrays import as_array
from mtboost.base.checks import did_you_mean, listed, refuse
from mtboost.base.sparse_tables import checked_sparse
from mtboost.errors import DataError, ParameterTypeError

Library: TypeAlias = Literal["numpy", "scipy", "pandas", "polars", "pyarrow"]
#: The column that holds the tasks, or the columns of nested ones, outermost first.
TaskColumn: TypeAlias = str | int | tuple[str | int, ...]
#: Its position in the table, or those of several.
TaskPosition: TypeAlias = int | tuple[int, ...]

_TABLE_CLASSES: dict[tuple[str, str], Library] = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("pyarrow", "Table"): "pyarrow",
}
# Column types XGBoost reads, as pandas (plain, nullable, arrow), polars and pyarrow spell them.
_NUMBER = r"(bool|[Bb]oolean|float|double|float16|[Ff]loat(32|64)|(u?i|U?I)nt(8|16|32|64))"
_NUMERIC = re.compile(rf"{_NUMBER}(\[pyarrow\])?|Sparse\[{_NUMBER}, .*\]")
#: Types of polars and pyarrow that NumPy has, too.
_PLAIN_NUMBER = re.compile(
    r"(?P<is_float>float|double|Float(32|64))|bool|Boolean|(u?i|U?I)nt(8|16|32|64)"
)
#: Cells of a table that is copied to be predicted by the core.
_MOST_COPIED = 1 << 20
#: Texts in a column that may be categories.
_MOST_LABELS = 1000
_CATEGORICAL = (
    "category",
    "Categorical",
    "Enum",
    "dictionary<values=string",
    "dictionary<values=large_string",
)


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """A checked table. Made by :func:`as_table`.

    Attributes
    ----------
    native : object
        The user's object, for XGBoost to read: NumPy array, CSR or CSC matrix, pandas or polars
        DataFrame or pyarrow Table.
    library : str
        Where ``native`` comes from.
    feature_names : tuple of str or None
        Names of the columns, as XGBoost would call them; None for arrays without names.
    """

    native: Any
    library: Library
    feature_names: tuple[str, ...] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.native.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.native.shape[1])

    @property
    def column_types(self) -> dict[str, Any]:
        """The library's type of each named column; empty for an array, which has one type."""
        match self.library:
            case "numpy" | "scipy":
                return {}
            case "pyarrow":
                types = self.native.schema.types
            case _:
                types = self.native.dtypes
        return dict(zip(self.feature_names or (), types, strict=True))

    @property
    def categorical_features(self) -> tuple[str, ...]:
        """Names of the columns that hold categories."""
        return tuple(name for name, dtype in self.column_types.items() if _is_categorical(dtype))

    def categories(self, column: str) -> list[Any]:
        """Labels of the categories of a column; their positions are XGBoost's codes."""
        if self.library == "pyarrow":
            return list(self.native.column(column).chunk(0).dictionary.to_pylist())
        return list(self.column_types[column].categories.to_list())

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> "Table":
        """The rows of an index array, in its order, as a table of the same library."""
        match self.library:
            case "pandas":
                native = self.native.iloc[rows]
            case "pyarrow":
                native = self.native.take(rows)
            case _:
                native = self.native[rows]
        return Table(native, self.library, self.feature_names)

    def select(self, columns: Sequence[str | int]) -> "Table":
        """Some columns in the given order; by name, or by position where there are no names."""
        return self._select(self._positions(columns))

    def drop(self, *columns: str | int) -> "Table":
        """All columns but some, without a copy where the library allows it."""
        dropped = self._positions(columns)
        return self._select([p for p in range(self.n_features) if p not in dropped])

    def column(self, column: str | int) -> npt.NDArray[Any]:
        """One column as an array of shape (n_rows,); categories as their labels."""
        (position,) = self._positions([column])
        match self.library:
            case "pandas":
                return as_array(self.native.iloc[:, position])
            case "polars":
                return as_array(self.native.to_series(position))
            case "pyarrow":
                return as_array(self.native.column(position))
            case "scipy":
                return as_array(self.native[:, [position]].toarray()[:, 0])
            case "numpy":
                return as_array(self.native[:, position])

    def number_column(self, column: str | int) -> npt.NDArray[np.float64]:
        """Return a column of numbers, NaN where it has a missing value of any kind."""
        if self.library == "pandas":  # the cells of nullable types may be pandas.NA
            own = self.native.iloc[:, self._positions([column])[0]]
            return np.asarray(own.to_numpy(np.float64, na_value=np.nan))
        return self.column(column).astype(np.float64)

    def task_labels(self, column: "TaskColumn | list[str]") -> Any:
        """Labels in the column of the tasks, a tuple for each row where there are several."""
        levels = [self.column(name) for name in columns_of(column)]
        if len(levels) == 1:
            return levels[0]
        return list(zip(*(level.tolist() for level in levels), strict=True))

    def numbers(self, dtype: type[np.floating[Any]]) -> npt.NDArray[np.floating] | None:
        """Cells of an array or of a pandas DataFrame of plain numbers, shape (n_rows, n_features).

        They are float32 or float64 as they are, or else `dtype`. None for another table.
        """
        if self.library == "numpy":
            types = [self.native.dtype]
        elif self.library == "pandas":
            types = list(self.native.dtypes)
        else:
            return None
        if not all(isinstance(own, np.dtype) and own.kind in "biuf" for own in types):
            return None
        is_plain = types[0] in (np.float32, np.float64) and all(own == types[0] for own in types)
        if is_plain and self.library == "numpy":
            cells: npt.NDArray[np.floating] = self.native
        else:
            with np.errstate(over="ignore"):  # infinite, as in the libraries
                cells = np.asarray(self.native, None if is_plain else dtype)
        return cells if cells.flags.aligned else cells.copy()

    def copied_numbers(
        self, dtype: type[np.floating[Any]], unstored: float
    ) -> npt.NDArray[np.floating] | None:
        """Return the cells of a small sparse, polars or pyarrow table of plain numbers, copied.

        `unstored` is the value of the cells that a sparse table does not store. None for another
        table, and where a conversion would round twice: integers with missing values.
        """
        shape = self.native.shape
        if shape[0] * shape[1] > _MOST_COPIED:
            return None
        if self.library == "scipy":
            if not self.native.has_canonical_format:
                return None
            entries, cells = self.native.tocoo(), np.full(shape, unstored, dtype)
            with np.errstate(over="ignore"):
                cells[entries.row, entries.col] = entries.data
            return cells
        if self.library not in ("polars", "pyarrow"):
            return None
        is_polars = self.library == "polars"
        cells = np.empty(shape, dtype)
        for position, own in enumerate(
            self.native.get_columns() if is_polars else self.native.columns
        ):
            plain = _PLAIN_NUMBER.fullmatch(str(own.dtype if is_polars else own.type))
            has_missing = bool(own.null_count() if is_polars else own.null_count)
            if plain is None or (has_missing and not plain["is_float"]):
                return None
            with np.errstate(over="ignore"):  # infinite, as in the libraries
                cells[:, position] = own.to_numpy()
        return cells

    def _select(self, positions: list[int]) -> "Table":
        if not positions:
            raise DataError("No column of X is left: at least one feature is needed.")
        if positions == list(range(self.n_features)):
            return self
        names = self.feature_names and tuple(self.feature_names[p] for p in positions)
        match self.library:
            case "pandas" if positions == sorted(positions):
                others = sorted(set(range(self.n_features)) - set(positions))
                native = self.native.drop(columns=self.native.columns[others])  # iloc would copy
            case "pandas":
                native = self.native.iloc[:, positions]
            case "pyarrow":
                native = self.native.select(positions)
            case "numpy" if self.native.dtype.kind == "O":
                native = _as_numbers(self.native[:, positions])
            case "numpy" if positions == list(range(positions[0], positions[-1] + 1)):
                native = self.native[:, positions[0] : positions[-1] + 1]  # neighbours: a view
            case _:
                native = self.native[:, positions]
        return Table(native, self.library, names)

    def _with_categories(self, categories: Mapping[str, list[Any]]) -> "Table":
        """The same values in category columns of exactly these categories."""
        native = self.native
        match self.library:
            case "pandas":
                native = native.copy(deep=False)
                positions = self._positions(list(categories))
                for position, labels in zip(positions, categories.values(), strict=True):
                    column = native.iloc[:, position].cat
                    # astype would leave the same labels in another order as they are.
                    native.isetitem(position, column.set_categories(labels, ordered=False))
            case "polars":
                import polars

                native = native.with_columns(
                    polars.col(name).cast(polars.String).cast(polars.Enum(labels), strict=False)
                    for name, labels in categories.items()
                )
            case "pyarrow":
                import pyarrow
                import pyarrow.compute

                for name, labels in categories.items():
                    dictionary = pyarrow.array(labels, pyarrow.string())
                    values = native.column(name).cast(pyarrow.string()).combine_chunks()
                    codes = pyarrow.compute.index_in(values, value_set=dictionary)
                    column = pyarrow.DictionaryArray.from_arrays(codes, dictionary)
                    native = native.set_column(native.column_names.index(name), name, column)
        return Table(native, self.library, self.feature_names)

    def _with_text(self, labels: Mapping[str, list[str]]) -> "Table":
        """The same with categories in columns of text."""
        if self.library != "pandas":
            return self._with_categories(labels) if labels else self
        import pandas

        native = self.native.copy(deep=False)
        for position, own in zip(self._positions(list(labels)), labels.values(), strict=True):
            dtype = pandas.CategoricalDtype(pandas.Index(own, dtype=object))
            native.isetitem(position, native.iloc[:, position].astype(object).astype(dtype))
        return Table(native, self.library, self.feature_names)

    def _positions(self, columns: Sequence[str | int]) -> list[int]:
        if self.feature_names is None:
            return [self._checked_position(column) for column in columns]
        position_of = {name: position for position, name in enumerate(self.feature_names)}
        positions = []
        for column in columns:
            name = str(column)  # an integer label of pandas is named by its digits
            if name in position_of:
                positions.append(position_of[name])
            elif not isinstance(column, str) and 0 <= column < self.n_features:
                positions.append(operator.index(column))
            else:
                raise DataError(
                    f"X has no column {name!r}.{did_you_mean(name, position_of)} It has "
                    f"{listed(position_of, 'column')}."
                )
        return positions

    def name_of(self, column: str | int) -> str | int:
        """Return the name of a column; the position where columns have none."""
        (position,) = self._positions([column])
        return position if self.feature_names is None else self.feature_names[position]

    def position_of(self, column: str | int) -> int:
        """Return the position of a column."""
        return self._positions([column])[0]

    def _checked_position(self, column: str | int) -> int:
        if isinstance(column, str):
            raise DataError(
                f"X has no column {column!r}, for its columns have no names: give feature_names, a "
                f"DataFrame, or the position of the column."
            )
        position = operator.index(column)
        if not 0 <= position < self.n_features:
            raise DataError(
                f"X has no column {position}: it has {self.n_features}, counted from 0."
            )
        return position


def columns_of(task: TaskColumn | list[str]) -> Sequence[str | int]:
    """The columns of the tasks, one for each level."""
    return task if isinstance(task, tuple | list) else (task,)


def column_names(X: Any) -> tuple[str, ...]:
    """Names of the columns of a data frame; none of another table."""
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    return tuple(map(str, names)) if isinstance(names, Iterable) else ()


def as_table(
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    task_column: TaskColumn | list[str] | None = None,
    argument: str = "X",
    used: Collection[str] | None = None,
) -> Table:
    """Check a table and wrap it, without copying or converting it.

    Parameters
    ----------
    X : table of shape (n_rows, n_features)
        NumPy array or nested list of numbers; SciPy sparse (CSR or CSC as they are, other formats
        become CSR); pandas or polars DataFrame or pyarrow Table of numbers, booleans,
        categories and text, which becomes categories in sorted order. NaN and null are missing;
        XGBoost refuses infinity.
    feature_names : sequence of str, optional
        Names for the columns of an array.
    task_column : str, int or sequence of str, optional
        Columns that will be dropped and so may hold anything; an array that holds one may be one of
        objects.
    argument : str
        What messages call the table.
    used : collection of str, optional
        Names of the columns that will be selected: others may hold anything. By default all.

    Returns
    -------
    Table
        Columns of polars type Categorical have become Enum, whose codes do not depend on the rows.

    Raises
    ------
    DataError
        The table is empty or not two-dimensional, a column holds what trees cannot split (it is
        named), or column names are repeated or not allowed by XGBoost.
    TypeError
        X is not a table of a known kind.
    """
    native, library = _recognise(X, argument, may_hold_objects=task_column is not None)
    for length, what in zip(native.shape, ("rows", "columns"), strict=True):
        if length == 0:
            raise DataError(f"{argument} has no {what}: its shape is {tuple(native.shape)}.")
    names = _checked_names(feature_names, _own_names(native, library), native.shape[1], argument)
    table = Table(native, library, names)
    columns = () if task_column is None else columns_of(task_column)
    # Misspelt, one would stand among the columns of features.
    exempt = {str(table.name_of(column)) for column in columns}
    if used is not None:
        exempt |= {name for name in names or () if name not in used}
    # A row to predict may lack all text: the categories are those of the model.
    may_be_empty = used is not None
    table = _with_text_as_categories(table, exempt, argument, may_be_empty)
    for name, dtype in table.column_types.items():
        if name not in exempt and not _is_usable(dtype):
            raise DataError(_unusable_column(argument, name, dtype))
    table = _with_fixed_codes(table)
    for name in table.categorical_features:
        if name not in exempt and not may_be_empty and not table.categories(name):
            raise DataError(
                f"{argument} has a column {name!r} without categories, as it is missing in every "
                f"row: drop it."
            )
    return table


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns a booster was trained on. They are the same columns whatever their categories.

    Attributes
    ----------
    names : tuple of str or None
        None if it was trained on an array without names.
    n : int
        Number of columns.
    categories : dict of str to list
        Labels of each category column; their positions are its codes.
    """

    names: tuple[str, ...] | None
    n: int
    categories: Mapping[str, list[Any]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, table: Table) -> "Columns":
        """Those of a table."""
        categories = {name: table.categories(name) for name in table.categorical_features}
        return cls(table.feature_names, table.n_features, categories)

    def align(self, table: Table) -> Table:
        """These columns of a table, in their order and with their codes.

        Parameters
        ----------
        table : Table
            May have more columns, in any order, if both sides have names.

        Returns
        -------
        Table
            Named as these columns if they have names, even if ``table`` has none.

        Raises
        ------
        DataError
            Named columns are missing (they are listed), or categories have another type; or, where
            either side has no names, the numbers of columns differ.
        """
        if self.names is not None and table.feature_names is not None:
            found = set(table.feature_names)
            missing = [name for name in self.names if name not in found]
            if missing:
                hint = did_you_mean(missing[0], table.feature_names)
                raise DataError(
                    f"X lacks {listed(missing, 'column')} of the model.{hint} Rename or add what "
                    f"is missing; NaN is accepted as a value."
                )
            return self.recode(table.select(self.names))
        if table.n_features != self.n:
            raise DataError(
                f"X has {table.n_features} columns, but the model was trained on {self.n}. Columns "
                f"can be matched by name only if the table has names and the model was trained "
                f"with names."
            )
        names = table.feature_names if self.names is None else self.names
        return self.recode(Table(table.native, table.library, names))

    def recode(self, table: Table) -> Table:
        """The same values, the category columns among these with their codes.

        XGBoost knows a category by its label from 3.1 on; before, by its code alone.
        """
        changed = {}
        for name in table.categorical_features:
            known = self.categories.get(name)
            found = table.categories(name)
            if known is None and name in (self.names or ()):
                raise DataError(
                    f"X holds categories in column {name!r}, which held numbers when the model was "
                    f"trained: give numbers there."
                )
            if known is None or found == known:
                continue
            unknown = set(found).difference(known)
            kinds = [{type(label).__name__ for label in labels} for labels in (found, known)]
            if unknown and kinds[0].isdisjoint(kinds[1]):
                raise DataError(
                    f"Categories in column {name!r} of X are of type {', '.join(kinds[0])}, but "
                    f"those of training were of type {', '.join(kinds[1])}: convert them."
                )
            if unknown:
                _warn_of_unknown(table, name, unknown)
            changed[name] = known
        return table._with_categories(changed) if changed else table


def _warn_of_unknown(table: Table, column: str, unknown: set[Any]) -> None:
    """Warn of categories that some row has and training did not have."""
    for row, label in enumerate(table.column(column)):
        if label in unknown:
            warnings.warn(
                f"X has {label!r} in the category column {column!r}, first at row {row}, which "
                "training did not have: it counts as missing.",
                UserWarning,
                stacklevel=2,
            )
            return


def concat(tables: Sequence[Table]) -> Table:
    """Stack the rows of tables of one library with the same columns in the same order.

    Parameters
    ----------
    tables : sequence of Table
        At least one. Number types may differ; the result has a type that holds them.

    Returns
    -------
    Table
        Categories of a column are the union over the tables.

    Raises
    ------
    DataError
        Libraries, columns or types do not agree.
    """
    first = tables[0]
    for number, table in enumerate(tables):
        if table.library != first.library:
            raise DataError(
                f"Tables of {first.library} and {table.library} cannot be stacked: convert one of "
                f"them."
            )
        if (table.feature_names, table.n_features) != (first.feature_names, first.n_features):
            raise DataError(
                f"Tables 0 and {number} have different columns: select the same ones in the same "
                f"order."
            )
    if len(tables) == 1:
        return first
    tables = unify_categories(tables, first.feature_names or ())
    stacked = Table(_stack_natives(tables), first.library, first.feature_names)
    for name, dtype in stacked.column_types.items():
        if not _is_usable(dtype):
            dtypes = dict.fromkeys(str(table.column_types[name]) for table in tables)
            raise DataError(
                f"Column {name!r} is {' and '.join(dtypes)} in tables to be stacked: give it one "
                f"type."
            )
    return stacked


def unify_categories(tables: Sequence[Table], columns: Iterable[str]) -> list[Table]:
    """Give the category columns among some columns the categories of all tables together.

    A table may lack columns.
    """
    categorical = [set(table.categorical_features) for table in tables]
    having = Counter(chain.from_iterable(table.feature_names or () for table in tables))
    union: dict[str, list[Any]] = {}
    for name in columns:
        n_categorical = sum(name in names for names in categorical)
        if n_categorical == 0:
            continue
        if n_categorical < having[name]:
            raise DataError(
                f"Column {name!r} holds categories in some tables only: convert it in the others."
            )
        labels = dict.fromkeys(
            chain.from_iterable(
                table.categories(name)
                for table, names in zip(tables, categorical, strict=True)
                if name in names
            )
        )
        if len(set(map(type, labels))) > 1:
            raise DataError(
                f"Column {name!r} has str categories in some tables, int in others: convert them "
                f"to str."
            )
        union[name] = list(labels)
    if not union:
        return list(tables)
    return [
        table._with_categories({name: union[name] for name in union if name in names})
        for table, names in zip(tables, categorical, strict=True)
    ]


def _recognise(X: Any, argument: str, *, may_hold_objects: bool = False) -> tuple[Any, Library]:
    """The table as XGBoost can read it, and where it comes from."""
    for cls in type(X).__mro__:
        library = _TABLE_CLASSES.get((cls.__module__.partition(".")[0], cls.__name__))
        if library is not None:
            return X, library
    if isinstance(X, np.ma.MaskedArray):
        raise DataError(
            f"{argument} is a masked array: mark missing values by NaN, X.filled(np.nan)."
        )
    if scipy.sparse.issparse(X):
        _check_array(X, argument)
        return _as_compressed(checked_sparse(X, argument)), "scipy"
    # Data frames of other libraries turn into arrays too, but would lose names and categories.
    if isinstance(X, list | tuple) or (hasattr(X, "__array__") and not hasattr(type(X), "columns")):
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise DataError(f"{argument} is not a rectangular table of numbers: {error}") from error
        _check_array(array, argument, may_hold_objects)
        return array, "numpy"
    raise TypeError(
        f"{argument} is a {type(X).__module__}.{type(X).__name__}; give a NumPy array, a SciPy "
        f"sparse matrix, a pandas or polars DataFrame (collect a LazyFrame) or a pyarrow Table."
    )


def _check_array(array: Any, argument: str, may_hold_objects: bool = False) -> None:
    if array.ndim != 2:
        raise DataError(
            f"{argument} has shape {array.shape}, but a table has rows and columns. Reshape one "
            f"column by reshape(-1, 1), one row by reshape(1, -1)."
        )
    if array.dtype.kind not in ("biufO" if may_hold_objects else "biuf"):
        raise DataError(
            f"{argument} has dtype {array.dtype}: an array must hold numbers. Convert it by "
            f"X.astype(float), or use a DataFrame with category columns for strings."
        )
    if not array.dtype.isnative:  # XGBoost reads the bytes in the wrong order without a word
        raise DataError(
            f"{argument} has foreign byte order ({array.dtype.str}): convert it by "
            f"X.astype(X.dtype.newbyteorder('='))."
        )


def _as_numbers(objects: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
    try:
        return objects.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"X holds objects that are no numbers ({error}): besides the task column an array must "
            f"hold numbers; use a DataFrame with category columns for strings."
        ) from error


def _as_compressed(X: Any) -> Any:
    """A CSR or CSC matrix that XGBoost reads as SciPy means it."""
    if X.format == "csc" and X.dtype == bool:
        X = X.astype(np.float32)  # XGBoost reads a boolean CSR matrix, but not CSC
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()  # entries of one cell add up in SciPy; XGBoost takes them for two values
    return X


def has_names(X: Any) -> bool:
    """Whether the columns of a table have names: those of data frames."""
    return hasattr(type(X), "columns")


def _own_names(X: Any, library: Library) -> tuple[str, ...] | None:
    if library in ("numpy", "scipy"):
        return None
    if library == "pyarrow":
        return tuple(X.column_names)
    if library == "pandas" and X.columns.nlevels > 1:
        return tuple(" ".join(map(str, levels)) for levels in X.columns)  # as XGBoost joins them
    return tuple(map(str, X.columns))


def _checked_names(
    given: Sequence[str] | None, own: tuple[str, ...] | None, n_features: int, argument: str
) -> tuple[str, ...] | None:
    if given is None and own is None:
        return None
    if isinstance(given, str | set | frozenset) or not isinstance(given, Iterable | None):
        refuse("feature_names", given, "None or a sequence of str", kind=ParameterTypeError)
    given = None if given is None else tuple(given)
    if given is not None and own is not None and tuple(given) != own:
        raise DataError(
            f"feature_names differ from the column names of {argument}: leave them out, or rename "
            f"the columns."
        )
    names = own if own is not None else tuple(given if given is not None else ())
    if len(names) != n_features:
        raise DataError(
            f"feature_names has {len(names)} names, {argument} has {n_features} columns."
        )
    for name, n_times in Counter(names).items():
        if n_times > 1:
            raise DataError(f"{argument} has {n_times} columns named {name!r}: names must differ.")
        if not isinstance(name, str) or set("[]<\0") & set(name):
            raise DataError(
                f"{argument} has a column named {name!r}: XGBoost demands strings without '[', ']' "
                f"and '<', and cuts them off at a NUL."
            )
    return names


def _is_categorical(dtype: Any) -> bool:
    return not isinstance(dtype, np.dtype) and str(dtype).startswith(_CATEGORICAL)


@lru_cache(maxsize=64)
def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether XGBoost reads arrays of this type; kept, as names of types take long to make."""
    return _NUMERIC.fullmatch(str(dtype)) is not None


def _is_usable(dtype: Any) -> bool:
    """Whether XGBoost reads a column of this type, once its codes are fixed."""
    if isinstance(dtype, np.dtype):
        return _is_number(dtype)
    name = str(dtype)
    if name == "category":  # pandas alone lets anything be a category
        return len(dtype.categories) == 0 or dtype.categories.inferred_type in ("integer", "string")
    if _is_categorical(dtype):
        return not name.endswith("[pyarrow]")  # read in an arrow table, not in pandas
    return _NUMERIC.fullmatch(name) is not None


def _unusable_column(argument: str, column: str, dtype: Any) -> str:
    if str(dtype) == "category":
        found = f"{dtype.categories.inferred_type} categories"
        remedy = "XGBoost knows categories of str and of int; convert them to str"
    elif str(dtype).startswith(("datetime", "Datetime", "Date", "timestamp", "date", "period")):
        found = f"dates (dtype {dtype})"
        remedy = (
            f"make numbers of them that mean something, such as the day of the week or the days "
            f"since an event, drop it, or pass time={column!r} to hold out the last rows"
        )
    else:
        found = f"dtype {dtype}"
        remedy = (
            f"make it numbers or categories (pandas category, polars Categorical or Enum, arrow "
            f"dictionary of strings), drop it, or pass task={column!r} if it names the task"
        )
    return f"{argument} has a column {column!r} of {found}: {remedy}."


def _with_text_as_categories(
    table: Table, exempt: Collection[str], argument: str, may_be_empty: bool
) -> Table:
    """The table with sorted categories in the columns of text, but for the exempt ones."""
    chosen = [
        name
        for name, dtype in table.column_types.items()
        if name not in exempt and _may_be_text(dtype) and _is_text(table, name, may_be_empty)
    ]
    if not chosen:
        return table
    found = {}
    for name in chosen:
        labels = _labels_of_text(table, name)
        if len(labels) > _MOST_LABELS:
            raise DataError(
                f"{argument} has {len(labels)} different texts in column {name!r}, too many for "
                "categories: drop it, or make it a category column if they are meant to be some."
            )
        if labels or may_be_empty:
            found[name] = labels
    return table._with_text(found)


def _may_be_text(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype) and _is_number(dtype):
        return False
    return str(dtype).startswith(("object", "str", "String", "large_string", "Utf8"))


def _is_text(table: Table, column: str, may_be_empty: bool) -> bool:
    if table.library != "pandas":
        return True
    import pandas

    (position,) = table._positions([column])
    kind = pandas.api.types.infer_dtype(table.native.iloc[:, position])
    return kind == "string" or (kind == "empty" and may_be_empty)


def _labels_of_text(table: Table, column: str) -> list[str]:
    (position,) = table._positions([column])
    match table.library:
        case "pandas":
            values = table.native.iloc[:, position].dropna().unique().tolist()
        case "polars":
            values = table.native.to_series(position).drop_nulls().unique().to_list()
        case _:
            values = table.native.column(position).unique().drop_null().to_pylist()
    return sorted(map(str, values))


def _with_fixed_codes(table: Table) -> Table:
    """A table whose subsets all give a category the same code, as those of pandas do by themselves.

    polars numbers the categories of each subset anew, except those of an Enum, which is why XGBoost
    3.4 reads no others; arrow may have another dictionary in each chunk. XGBoost 3.2 reads neither
    integer categories of pandas' own types nor a dictionary that could hold nulls, such as those
    pyarrow makes of pandas' categories; 3.1 no categories of pandas' own type of strings.
    """
    if table.library == "pandas":
        own = {
            name: table.categories(name)
            for name in table.categorical_features
            if _is_own_type_of_pandas(table.column_types[name].categories)
        }
        return table._with_categories(own) if own else table
    if table.library == "polars":
        found = {
            name: table.native[name].unique().drop_nulls().cast(str).sort().to_list()
            for name, dtype in table.column_types.items()
            if str(dtype).startswith("Categorical")
        }
        return table._with_categories(found) if found else table
    if table.library == "pyarrow":
        table = Table(table.native.unify_dictionaries(), "pyarrow", table.feature_names)
        nullable = {
            name: [label for label in table.categories(name) if label is not None]
            for name in table.categorical_features
            if table.native.column(name).chunk(0).dictionary.buffers()[0] is not None
        }
        return table._with_categories(nullable) if nullable else table
    return table


def _is_own_type_of_pandas(categories: Any) -> bool:
    if categories.inferred_type == "integer":
        return not (isinstance(categories.dtype, np.dtype) and categories.dtype.kind in "iu")
    return str(categories.dtype).startswith("string")  # str is the usual one of pandas 3


def _stack_natives(tables: Sequence[Table]) -> Any:
    natives = [table.native for table in tables]
    match tables[0].library:
        case "numpy":
            return np.concatenate(natives)
        case "scipy":
            return scipy.sparse.vstack(natives, format=natives[0].format)
        case "pandas":
            import pandas

            return pandas.concat(natives, ignore_index=True)
        case "polars":
            import polars

            try:
                return polars.concat(natives, how="vertical_relaxed")
            except polars.exceptions.PolarsError as error:
                raise DataError(f"polars cannot stack the tables: {error}") from error
        case "pyarrow":
            import pyarrow

            try:
                return pyarrow.concat_tables(natives, promote_options="permissive")
            except pyarrow.ArrowException as error:
                raise DataError(f"pyarrow cannot stack the tables: {error}") from error
