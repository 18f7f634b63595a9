# SPDX-License-Identifier: Apache-2.0
"""Tables as the user has them, behind one face, and the columns that a model knows.

A table is not converted: XGBoost's own constructors read the user's object, and read it once. What
is needed before that is its names, checks, and subsets of its rows and columns. Only category
columns are touched, so that a category keeps its code in every subset. pandas, polars and pyarrow
are recognised by their classes and imported only for tables that come from them.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import as_array
from mtboost.base.checks import did_you_mean, listed
from mtboost.base.column_types import PLAIN_NUMBER, is_categorical
from mtboost.base.tasks import check_type_of_labels
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError

Library: TypeAlias = Literal["numpy", "scipy", "pandas", "polars", "pyarrow"]
#: The column that holds the tasks, or the columns of nested ones, outermost first.
TaskColumn: TypeAlias = str | int | tuple[str | int, ...]
#: Its position in the table, or those of several.
TaskPosition: TypeAlias = int | tuple[int, ...]
#: Cells of a table that is copied to be predicted by the core.
_MOST_COPIED = 1 << 20


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
    argument : str
        What messages call the table.
    """

    native: Any
    library: Library
    feature_names: tuple[str, ...] | None
    argument: str = "X"

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
        return tuple(name for name, dtype in self.column_types.items() if is_categorical(dtype))

    def categories(self, column: str) -> list[Any]:
        """Labels of the categories of a column; their positions are XGBoost's codes."""
        if self.library == "pyarrow":
            return list(self.native.column(column).chunk(0).dictionary.to_pylist())
        return list(self.column_types[column].categories.to_list())

    def codes(self, column: str) -> npt.NDArray[np.float64]:
        """Codes of a column of categories, NaN where it has a missing value."""
        position = self.position_of(column)
        match self.library:
            case "pandas":
                return _codes_of(self.native.iloc[:, position])
            case "polars":
                codes = self.native.to_series(position).to_physical().to_numpy()
            case _:
                own = self.native.column(position).unify_dictionaries().combine_chunks()
                codes = own.indices.to_numpy(zero_copy_only=False)
        return np.asarray(codes, np.float64)

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> "Table":
        """The rows of an index array, in its order, as a table of the same library."""
        match self.library:
            case "pandas":
                native = self.native.iloc[rows]
            case "pyarrow":
                native = self.native.take(rows)
            case _:
                native = self.native[rows]
        return Table(native, self.library, self.feature_names, self.argument)

    def select(self, columns: Sequence[str | int]) -> "Table":
        """Some columns in the given order; by name, or by position where there are no names."""
        return self._select(self.positions(columns))

    def drop(self, *columns: str | int) -> "Table":
        """All columns but some, without a copy where the library allows it."""
        dropped = self.positions(columns)
        return self._select([p for p in range(self.n_features) if p not in dropped])

    def column(self, column: str | int) -> npt.NDArray[Any]:
        """One column as an array of shape (n_rows,); categories as their labels."""
        (position,) = self.positions([column])
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
            own = self.native.iloc[:, self.positions([column])[0]]
            return np.asarray(own.to_numpy(np.float64, na_value=np.nan))
        return self.column(column).astype(np.float64)

    def task_labels(self, column: "TaskColumn | list[str]") -> Any:
        """Labels in the column of the tasks, a tuple for each row where there are several."""
        levels = [self.column(name) for name in columns_of(column)]
        if len(levels) == 1:
            return levels[0]
        for name, level in zip(columns_of(column), levels, strict=True):
            check_type_of_labels(f"Column {name!r} of the tasks", level)
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
        if not all(map(_is_plain, types)):
            return None
        is_plain = types[0] in (np.float32, np.float64) and all(own == types[0] for own in types)
        if is_plain and self.library == "numpy":
            cells: npt.NDArray[np.floating] = self.native
        else:
            with np.errstate(over="ignore"):  # infinite, as in the libraries
                cells = np.asarray(self.native, None if is_plain else dtype)
        return cells if cells.flags.aligned else cells.copy()

    def coded_numbers(self, dtype: type[np.floating[Any]]) -> npt.NDArray[np.floating] | None:
        """As :meth:`numbers`; a pandas DataFrame may have categories, which are their codes."""
        types = list(self.native.dtypes) if self.library == "pandas" else []
        places = [place for place, own in enumerate(types) if is_categorical(own)]
        if not places:
            return self.numbers(dtype)
        others = [place for place in range(len(types)) if place not in places]
        if not all(_is_plain(types[place]) for place in others):
            return None
        cells = np.empty(self.native.shape, dtype)
        with np.errstate(over="ignore"):  # infinite, as in the libraries
            cells[:, others] = self.native.iloc[:, others].to_numpy(dtype)
        for place in places:
            cells[:, place] = _codes_of(self.native.iloc[:, place])
        return cells

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
            plain = PLAIN_NUMBER.fullmatch(str(own.dtype if is_polars else own.type))
            has_missing = bool(own.null_count() if is_polars else own.null_count)
            if plain is None or (has_missing and not plain["is_float"]):
                return None
            with np.errstate(over="ignore"):  # infinite, as in the libraries
                cells[:, position] = own.to_numpy()
        return cells

    def _select(self, positions: list[int]) -> "Table":
        if not positions:
            raise DataError(
                f"No column of {self.argument} is left: at least one feature is needed."
            )
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
        return Table(native, self.library, names, self.argument)

    def with_categories(self, categories: Mapping[str, list[Any]]) -> "Table":
        """The same values in category columns of exactly these categories."""
        native = self.native
        match self.library:
            case "pandas":
                native = native.copy(deep=False)
                positions = self.positions(list(categories))
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
        return Table(native, self.library, self.feature_names, self.argument)

    def with_column(self, column: str, values: Any) -> "Table":
        """The same with an array in a column of a data frame; in pandas also categories."""
        native, position = self.native, self.position_of(column)
        match self.library:
            case "pandas":
                native = native.copy(deep=False)
                native.isetitem(position, values)
            case "polars":
                import polars

                native = native.with_columns(polars.Series(column, values))
            case "pyarrow":
                import pyarrow

                native = native.set_column(position, column, pyarrow.array(values))
        return Table(native, self.library, self.feature_names, self.argument)

    def with_codes(self) -> "Table":
        """The same with the codes of categories as numbers."""
        table = self
        for name in self.categorical_features:
            table = table.with_column(name, self.codes(name))
        return table

    def with_text(self, labels: Mapping[str, list[str]]) -> "Table":
        """The same with categories in columns of text."""
        if self.library != "pandas":
            return self.with_categories(labels) if labels else self
        import pandas

        native = self.native.copy(deep=False)
        for position, own in zip(self.positions(list(labels)), labels.values(), strict=True):
            dtype = pandas.CategoricalDtype(pandas.Index(own, dtype=object))
            native.isetitem(position, native.iloc[:, position].astype(object).astype(dtype))
        return Table(native, self.library, self.feature_names, self.argument)

    def positions(self, columns: Sequence[str | int]) -> list[int]:
        """Return the positions of columns; raises DataError for one that is not there."""
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
                    f"{self.argument} has no column {name!r}.{did_you_mean(name, position_of)} It "
                    f"has {listed(position_of, 'column')}."
                )
        return positions

    def name_of(self, column: str | int) -> str | int:
        """Return the name of a column; the position where columns have none."""
        (position,) = self.positions([column])
        return position if self.feature_names is None else self.feature_names[position]

    def position_of(self, column: str | int) -> int:
        """Return the position of a column."""
        return self.positions([column])[0]

    def _checked_position(self, column: str | int) -> int:
        if isinstance(column, str):
            raise DataError(
                f"{self.argument} has no column {column!r}, for its columns have no names: "
                f"give feature_names, a DataFrame, or the position of the column. "
                f"Transformers of scikit-learn keep names after .set_output(transform='pandas')."
            )
        position = operator.index(column)
        if not 0 <= position < self.n_features:
            raise DataError(
                f"{self.argument} has no column {position}: it has {self.n_features}, counted "
                "from 0."
            )
        return position


def columns_of(task: TaskColumn | list[str]) -> Sequence[str | int]:
    """The columns of the tasks, one for each level."""
    return task if isinstance(task, tuple | list) else (task,)


def _codes_of(column: Any) -> npt.NDArray[np.float64]:
    """Codes of a pandas column of categories, NaN where a value is missing."""
    codes = column.array.codes
    return np.where(codes < 0, np.nan, codes)


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def column_names(X: Any) -> tuple[str, ...]:
    """Names of the columns of a data frame; none of another table."""
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    return tuple(map(str, names)) if isinstance(names, Iterable) else ()


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
                    f"{table.argument} lacks {listed(missing, 'column')} of the model.{hint} "
                    f"Rename or add what is missing; NaN is accepted as a value."
                )
            return self.recode(table.select(self.names))
        if table.n_features != self.n:
            raise DataError(
                f"{table.argument} has {table.n_features} columns, but the model was trained on "
                f"{self.n}. Columns can be matched by name only if the table has names "
                f"and the model was trained with names."
            )
        names = table.feature_names if self.names is None else self.names
        return self.recode(Table(table.native, table.library, names, table.argument))

    def recode(self, table: Table) -> Table:
        """The same values, the category columns among these with their codes.

        XGBoost knows a category by its label from 3.1 on; before, by its code alone. A column of
        missing values may be of any type.
        """
        types = table.column_types
        for name, labels in self.categories.items():
            if name in types and not is_categorical(types[name]):
                table = _numbers_as_categories(table, name, labels)
        changed = {}
        for name in table.categorical_features:
            known = self.categories.get(name)
            found = table.categories(name)
            if known is None and name in (self.names or ()):
                if not found and table.library == "pandas":
                    table = table.with_column(name, np.full(table.n_rows, np.nan))
                    continue
                raise DataError(
                    f"{table.argument} holds categories in column {name!r}, which held numbers "
                    f"when the model was trained: give numbers there."
                )
            if known is None or found == known:
                continue
            unknown = set(found).difference(known)
            kinds = [{type(label).__name__ for label in labels} for labels in (found, known)]
            if unknown and kinds[0].isdisjoint(kinds[1]):
                raise DataError(
                    f"Categories in column {name!r} of {table.argument} are of type "
                    f"{', '.join(kinds[0])}, but those of training were of type "
                    f"{', '.join(kinds[1])}: convert them."
                )
            if unknown:
                _warn_of_unknown(table, name, unknown)
            changed[name] = known
        return table.with_categories(changed) if changed else table


def _numbers_as_categories(table: Table, column: str, known: list[Any]) -> Table:
    """Return the table with categories in a column of numbers, which are labels of them.

    Raises
    ------
    DataError
        The labels are no numbers, and some number is not missing.
    """
    values = table.number_column(column)
    is_present = ~np.isnan(values)
    if table.library != "pandas" and not is_present.any():
        return table.with_categories({column: known})
    are_numbers = all(isinstance(label, int | float | np.number) for label in known)
    if table.library != "pandas" or (is_present.any() and not are_numbers):
        raise DataError(
            f"{table.argument} holds numbers in column {column!r}, which held categories "
            f"when the model was trained, such as {known[0]!r}: give categories there."
        )
    import pandas

    codes = np.full(len(values), -1)
    if are_numbers:
        codes = pandas.Index(known).get_indexer(values)
    unknown = set(values[is_present & (codes < 0)].tolist())
    if unknown:
        _warn_of_unknown(table, column, unknown)
    return table.with_column(column, pandas.Categorical.from_codes(codes, known))


def _warn_of_unknown(table: Table, column: str, unknown: set[Any]) -> None:
    """Warn of categories that some row has and training did not have.

    Without the row: tables are taken apart by their tasks.
    """
    found = unknown.intersection(table.column(column).tolist())
    if found:
        warn_user(
            f"X has the {listed(sorted(found, key=str), 'category')} in column {column!r}, which "
            "training did not have: such values count as missing.",
        )


def _as_numbers(objects: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
    try:
        return objects.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"X holds objects that are no numbers ({error}): besides the task column an array must "
            f"hold numbers; use a DataFrame with category columns for strings."
        ) from error


def has_names(X: Any) -> bool:
    """Whether the columns of a table have names: those of data frames."""
    return hasattr(type(X), "columns")
