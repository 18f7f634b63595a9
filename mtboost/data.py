"""Tables, labels and weights as the user has them, behind one face.

A table is not converted: XGBoost's own constructors read the user's object, and read it once. What
is needed before that is its names, checks, and subsets of its rows and columns. Only category
columns are touched, so that a category keeps its code in every subset. pandas, polars and pyarrow
are recognised by their classes and imported only for tables that come from them.
"""

import decimal
import numbers
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import scipy.sparse

from mtboost.errors import DataError
from mtboost.tasks import TaskName, as_array, did_you_mean, listed

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
Library: TypeAlias = Literal["numpy", "scipy", "pandas", "polars", "pyarrow"]

_TABLE_CLASSES: dict[tuple[str, str], Library] = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("pyarrow", "Table"): "pyarrow",
}
# Column types XGBoost reads, as pandas (plain, nullable, arrow), polars and pyarrow spell them.
_NUMBER = r"(bool|[Bb]oolean|float|double|float16|[Ff]loat(32|64)|(u?i|U?I)nt(8|16|32|64))"
_NUMERIC = re.compile(rf"{_NUMBER}(\[pyarrow\])?|Sparse\[{_NUMBER}, .*\]")
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

    def drop(self, column: str | int) -> "Table":
        """All columns but one, without a copy where the library allows it."""
        (position,) = self._positions([column])
        return self._select([p for p in range(self.n_features) if p != position])

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
                import pandas

                positions = self._positions(list(categories))
                dtypes = map(pandas.CategoricalDtype, categories.values())
                native = native.astype(dict(zip(native.columns[positions], dtypes, strict=True)))
            case "polars":
                import polars

                native = native.with_columns(
                    polars.col(name).cast(polars.Enum(labels))
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

    def _positions(self, columns: Sequence[str | int]) -> list[int]:
        if self.feature_names is None:
            return [self._checked_position(column) for column in columns]
        position_of = {name: position for position, name in enumerate(self.feature_names)}
        names = list(map(str, columns))  # an integer label of pandas is named by its digits
        for name in names:
            if name not in position_of:
                raise DataError(
                    f"X has no column {name!r}.{did_you_mean(name, position_of)} It has "
                    f"{listed(position_of, 'column')}."
                )
        return [position_of[name] for name in names]

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


def as_table(
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    task_column: str | int | None = None,
    argument: str = "X",
) -> Table:
    """Check a table and wrap it, without copying or converting it.

    Parameters
    ----------
    X : table of shape (n_rows, n_features)
        NumPy array or nested list of numbers; SciPy sparse (CSR or CSC as they are, other formats
        become CSR); pandas or polars DataFrame or pyarrow Table of numbers, booleans and
        categories. NaN and null are missing; XGBoost refuses infinity.
    feature_names : sequence of str, optional
        Names for the columns of an array.
    task_column : str or int, optional
        A column that will be dropped and so may hold anything; an array that holds it may be one of
        objects.
    argument : str
        What messages call the table.

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
        X is no table of a known kind.
    """
    native, library = _recognise(X, argument, may_hold_objects=task_column is not None)
    for length, what in zip(native.shape, ("rows", "columns"), strict=True):
        if length == 0:
            raise DataError(f"{argument} has no {what}: its shape is {tuple(native.shape)}.")
    names = _checked_names(feature_names, _own_names(native, library), native.shape[1], argument)
    table = Table(native, library, names)
    exempt = None if task_column is None else str(task_column)
    for name, dtype in table.column_types.items():
        if name != exempt and not _is_usable(dtype):
            raise DataError(_unusable_column(argument, name, dtype))
    table = _with_fixed_codes(table)
    for name in table.categorical_features:
        if name != exempt and not table.categories(name):
            raise DataError(
                f"{argument} has a column {name!r} without categories, as it is missing in every "
                f"row: drop it."
            )
    return table


def is_mapping(X: Any) -> TypeGuard[Mapping[TaskName, Any]]:
    """Whether X holds one table a task. A DOK matrix of SciPy is one table, though a dict too."""
    return isinstance(X, Mapping) and not scipy.sparse.issparse(X)


def align(table: Table, feature_names: Sequence[str] | None, n_features: int) -> Table:
    """The columns a model was trained on, in its order.

    Parameters
    ----------
    table : Table
        May have more columns than the model, in any order, if both are named.
    feature_names : sequence of str or None
        Names of the model's columns; None if it was trained on an array without names.
    n_features : int
        Number of the model's columns.

    Returns
    -------
    Table
        Named as the model if that has names, even if ``table`` has none.

    Raises
    ------
    DataError
        Named columns are missing (they are listed); or, where either side has no names, the numbers
        of columns differ.
    """
    if feature_names is not None and table.feature_names is not None:
        found = set(table.feature_names)
        missing = [name for name in feature_names if name not in found]
        if missing:
            hint = did_you_mean(missing[0], table.feature_names)
            raise DataError(
                f"X lacks {listed(missing, 'column')} of the model.{hint} Rename or add what is "
                f"missing; NaN is accepted as a value."
            )
        return table.select(feature_names)
    if table.n_features != n_features:
        raise DataError(
            f"X has {table.n_features} columns, but the model was trained on {n_features}. Columns "
            f"can be matched by name only if the table has names and the model was trained with "
            f"names."
        )
    names = table.feature_names if feature_names is None else tuple(feature_names)
    return Table(table.native, table.library, names)


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
    tables = _unify_categories(tables, first.feature_names or ())
    stacked = Table(_stack_natives(tables), first.library, first.feature_names)
    for name, dtype in stacked.column_types.items():
        if not _is_usable(dtype):
            dtypes = dict.fromkeys(str(table.column_types[name]) for table in tables)
            raise DataError(
                f"Column {name!r} is {' and '.join(dtypes)} in tables to be stacked: give it one "
                f"type."
            )
    return stacked


@dataclass(frozen=True, eq=False)
class TaskTables:
    """One table a task, and what belongs to their rows, task after task.

    Made by :func:`from_mapping`.

    Attributes
    ----------
    tables : dict of task name to Table
        In the order of the user's mapping. Each has all columns of its task. A common category
        column has the same categories in all.
    common_features : tuple of str or None
        Columns that every task has, in the order of the first table; None for arrays without names,
        whose columns are all common.
    task_labels : ndarray of object, shape (n_rows,)
        The task of each row.
    y, weight : ndarray of shape (n_rows,), or None
    base_margin : ndarray of shape (n_rows,) or (n_rows, n_outputs), or None
    """

    tables: dict[TaskName, Table]
    common_features: tuple[str, ...] | None
    task_labels: npt.NDArray[np.object_]
    y: FloatArray | None
    weight: FloatArray | None
    base_margin: FloatArray | None

    def common_table(self) -> Table:
        """The common columns of all tasks in one table: a copy, rows as in ``task_labels``."""
        tables = list(self.tables.values())
        if self.common_features is None:
            return concat(tables)
        return concat([table.select(self.common_features) for table in tables])


def from_mapping(
    X: Mapping[TaskName, Any],
    y: Mapping[TaskName, Any] | None = None,
    *,
    weight: Mapping[TaskName, Any] | None = None,
    base_margin: Mapping[TaskName, Any] | None = None,
    feature_names: Mapping[TaskName, Sequence[str]] | None = None,
    common_features: Sequence[str] | None = None,
    n_outputs: int = 1,
) -> TaskTables:
    """Read ``{task: table}`` and the mappings that go with it.

    Parameters
    ----------
    X : mapping of task name to table
        Tables of one library, as :func:`as_table` takes them; their columns may differ if they have
        names.
    y, weight, base_margin : mapping of task name to array-like, optional
        What belongs to the rows of each table. Some tasks may be without weights (1) or base
        margins (0) only if all are.
    feature_names : mapping of task name to sequence of str, optional
        Names for the columns of arrays.
    common_features : sequence of str, optional
        Columns of the common model instead of all that every task has.
    n_outputs : int
        Columns of a base margin.

    Returns
    -------
    TaskTables

    Raises
    ------
    DataError
        The mappings' tasks differ (missing and unknown ones are named), tables of different
        libraries are mixed, no column is common, a common feature is missing somewhere, or arrays
        without names differ in width; or what :func:`as_table`, :func:`as_labels`,
        :func:`as_weights` and :func:`as_base_margin` refuse.
    """
    if not X:
        raise DataError("X is an empty mapping: give a table for each task.")
    for argument, values in (
        ("y", y),
        ("weight", weight),
        ("base_margin", base_margin),
        ("feature_names", feature_names),
    ):
        if values is not None:
            check_task_keys(argument, values, X)

    tables: dict[TaskName, Table] = {}
    for task, table in X.items():
        names = None if feature_names is None else feature_names[task]
        tables[task] = as_table(table, feature_names=names, argument=f"X[{task!r}]")
    first_task, first = next(iter(tables.items()))
    for task, each in tables.items():
        if each.library != first.library:
            raise DataError(
                f"X[{first_task!r}] comes from {first.library}, X[{task!r}] from {each.library}: "
                f"give all tasks tables of one library."
            )

    common = _common_features(tables, common_features)
    tables = dict(zip(tables, _unify_categories(list(tables.values()), common or ()), strict=True))

    def stack(
        argument: str, values: Mapping[TaskName, Any] | None, read: Callable[..., FloatArray]
    ) -> FloatArray | None:
        if values is None:
            return None
        return np.concatenate(
            [
                read(values[task], table.n_rows, argument=f"{argument}[{task!r}]")
                for task, table in tables.items()
            ]
        )

    task_names = np.empty(len(tables), dtype=object)
    task_names[:] = list(tables)
    weights = stack("weight", weight, _as_nonnegative)
    return TaskTables(
        tables=tables,
        common_features=common,
        task_labels=np.repeat(task_names, [table.n_rows for table in tables.values()]),
        y=stack("y", y, as_labels),
        weight=weights if weights is None else _not_all_zero(weights, "weight"),
        base_margin=stack("base_margin", base_margin, partial(as_base_margin, n_outputs=n_outputs)),
    )


def check_task_keys(
    argument: str,
    values: Mapping[TaskName, Any],
    tasks: Collection[TaskName],
    *,
    may_lack: bool = False,
) -> None:
    """Demand that a mapping has the tasks as its keys, or some of them if ``may_lack``."""
    if not isinstance(values, Mapping):
        raise DataError(
            f"{argument} is a {type(values).__name__}; it must be a mapping {{task: ...}} as X is."
        )
    missing = [] if may_lack else [task for task in tasks if task not in values]
    unknown = [task for task in values if task not in tasks]
    faults = [f"lacks {listed(missing, 'task')}"] if missing else []
    if unknown:
        faults.append(f"has unknown {listed(unknown, 'task')}")
    if faults:
        hint = did_you_mean(unknown[0], tasks) if unknown else ""
        raise DataError(f"{argument} {' and '.join(faults)}: its keys must be the tasks.{hint}")


def as_labels(
    y: Any, n_rows: int, *, multi_output: bool = False, argument: str = "y"
) -> FloatArray:
    """Labels as finite numbers.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, 1)
        Numbers or booleans: list, NumPy array, or a column of pandas, polars or pyarrow.
    n_rows : int
        Number of rows of X.
    multi_output : bool
        Allow shape (n_rows, n_outputs) and keep it, also for one output.
    argument : str
        What messages call the labels.

    Returns
    -------
    ndarray of float32 or float64
        C-contiguous, of shape (n_rows,), or as ``multi_output`` says. float32 is kept, anything
        else is float64. XGBoost stores labels as float32: it rounds integers above 2**24.

    Raises
    ------
    DataError
        A label is NaN, infinite, beyond float32 or no number (its row is named), or the shape is
        wrong.
    """
    labels = _as_floats(y, argument)
    if not multi_output:
        return _as_vector(labels, n_rows, argument)
    if labels.ndim == 1:
        labels = labels[:, None]
    if labels.ndim != 2 or len(labels) != n_rows:
        raise _shape_error(labels, f"({n_rows}, n_outputs)", n_rows, argument)
    return labels


def as_weights(weight: Any, n_rows: int, *, argument: str = "weight") -> FloatArray:
    """Row weights of shape (n_rows,), finite, none negative, not all zero; DataError otherwise."""
    return _not_all_zero(_as_nonnegative(weight, n_rows, argument=argument), argument)


def as_base_margin(
    base_margin: Any, n_rows: int, n_outputs: int = 1, *, argument: str = "base_margin"
) -> FloatArray:
    """Finite margins to start from, shape (n_rows,), or (n_rows, n_outputs) if more than one."""
    margins = _as_floats(base_margin, argument)
    if n_outputs == 1:
        return _as_vector(margins, n_rows, argument)
    if margins.shape != (n_rows, n_outputs):
        raise _shape_error(margins, f"({n_rows}, {n_outputs})", n_rows, argument)
    return margins


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
        return _as_compressed(X), "scipy"
    # Data frames of other libraries turn into arrays too, but would lose names and categories.
    if isinstance(X, list | tuple) or (hasattr(X, "__array__") and not hasattr(type(X), "columns")):
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise DataError(f"{argument} is no rectangular table of numbers: {error}") from error
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
    if X.format not in ("csr", "csc"):
        return X.tocsr()
    if X.format == "csc" and X.dtype == bool:
        X = X.astype(np.float32)  # XGBoost reads a boolean CSR matrix, but not CSC
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()  # entries of one cell add up in SciPy; XGBoost takes them for two values
    return X


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
    if given is not None and own is not None and tuple(given) != own:
        raise DataError(
            f"feature_names differ from the column names of {argument}: leave them out, or rename "
            f"the columns."
        )
    names = own if own is not None else tuple(given or ())
    if len(names) != n_features:
        raise DataError(
            f"feature_names has {len(names)} names, {argument} has {n_features} columns."
        )
    for name, n_times in Counter(names).items():
        if n_times > 1:
            raise DataError(f"{argument} has {n_times} columns named {name!r}: names must differ.")
        if not isinstance(name, str) or set("[]<") & set(name):
            raise DataError(
                f"{argument} has a column named {name!r}: XGBoost demands strings without '[', ']' "
                f"and '<'."
            )
    return names


def _is_categorical(dtype: Any) -> bool:
    return str(dtype).startswith(_CATEGORICAL)


def _is_usable(dtype: Any) -> bool:
    """Whether XGBoost reads a column of this type, once its codes are fixed."""
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
    else:
        found = f"dtype {dtype}"
        remedy = (
            f"make it numbers or categories (pandas category, polars Categorical or Enum, arrow "
            f"dictionary of strings), drop it, or pass task={column!r} if it names the task"
        )
    return f"{argument} has a column {column!r} of {found}: {remedy}."


def _with_fixed_codes(table: Table) -> Table:
    """A table whose subsets all give a category the same code, as those of pandas do by themselves.

    polars numbers the categories of each subset anew, except those of an Enum, which is why XGBoost
    3.4 reads no others; arrow may have another dictionary in each chunk. XGBoost 3.2 reads neither
    integer categories of pandas' own types nor a dictionary that could hold nulls, such as those
    pyarrow makes of pandas' categories.
    """
    if table.library == "pandas":
        integers = {
            name: table.categories(name)
            for name in table.categorical_features
            if table.column_types[name].categories.inferred_type == "integer"
            and not _is_numpy_integer(table.column_types[name].categories.dtype)
        }
        return table._with_categories(integers) if integers else table
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


def _is_numpy_integer(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iu"


def _unify_categories(tables: Sequence[Table], columns: Iterable[str]) -> list[Table]:
    """Give the category columns among some columns the categories of all tables together."""
    categorical = [set(table.categorical_features) for table in tables]
    union: dict[str, list[Any]] = {}
    for name in columns:
        n_categorical = sum(name in names for names in categorical)
        if n_categorical == 0:
            continue
        if n_categorical < len(tables):
            raise DataError(
                f"Column {name!r} holds categories in some tables only: convert it in the others."
            )
        labels = dict.fromkeys(chain.from_iterable(table.categories(name) for table in tables))
        if len(set(map(type, labels))) > 1:
            raise DataError(
                f"Column {name!r} has str categories in some tables, int in others: convert them "
                f"to str."
            )
        union[name] = list(labels)
    return [table._with_categories(union) for table in tables] if union else list(tables)


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


def _common_features(
    tables: Mapping[TaskName, Table], chosen: Sequence[str] | None
) -> tuple[str, ...] | None:
    first_task, first = next(iter(tables.items()))
    if first.feature_names is None:
        if chosen is not None:
            raise DataError(
                "common_features needs column names: give DataFrames or "
                "feature_names={task: [...]}."
            )
        for task, table in tables.items():
            if table.n_features != first.n_features:
                raise DataError(
                    f"X[{first_task!r}] has {first.n_features} columns, X[{task!r}] has "
                    f"{table.n_features}, and no names tell which are the same: give DataFrames or "
                    f"feature_names={{task: [...]}}."
                )
        return None
    if chosen is None:
        common = set(first.feature_names).intersection(
            *(table.feature_names or () for table in tables.values())
        )
        if not common:
            raise DataError(
                "The tasks have no column in common: the common model needs at least one."
            )
        return tuple(name for name in first.feature_names if name in common)
    names = tuple(chosen)
    if not names or len(set(names)) < len(names):
        raise DataError("common_features must name at least one column, each once.")
    for task, table in tables.items():
        lacking = set(names).difference(table.feature_names or ())
        if lacking:
            name = next(name for name in names if name in lacking)
            hint = did_you_mean(name, table.feature_names or ())
            raise DataError(f"common_features has {name!r}, which X[{task!r}] lacks.{hint}")
    return names


def _as_floats(values: Any, argument: str) -> FloatArray:
    """Finite C-contiguous numbers of any shape; float32 stays, anything else becomes float64."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = as_array(values)
    except ValueError as error:
        raise DataError(f"{argument} is no rectangular array of numbers: {error}") from error
    if array.ndim == 0:
        raise DataError(f"{argument} is a {type(values).__name__}: it must hold one number a row.")
    if array.dtype.kind == "O":
        for index, value in np.ndenumerate(array):
            if not isinstance(value, numbers.Real | decimal.Decimal):
                raise DataError(f"{argument} is {value!r} at {_place(index)}: it must be a number.")
    elif array.dtype.kind not in "biuf":
        raise DataError(
            f"{argument} has dtype {array.dtype}: it must hold numbers. Encode classes as 0, 1, "
            f"..., or use an estimator, which does."
        )
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    floats: FloatArray = np.ascontiguousarray(array, dtype=dtype)
    # XGBoost stores float32, where more is infinite. NaN fails the comparison too.
    is_good = np.abs(floats) <= np.finfo(np.float32).max
    if not is_good.all():
        index = np.unravel_index(int(is_good.argmin()), floats.shape)
        raise DataError(
            f"{argument} is {floats[index]:g} at {_place(index)}: it must be finite and fit in "
            f"float32. Drop the row, or give it a value."
        )
    return floats


def _as_nonnegative(weight: Any, n_rows: int, *, argument: str) -> FloatArray:
    weights = _as_vector(_as_floats(weight, argument), n_rows, argument)
    if weights.min(initial=0.0) < 0.0:
        row = int(weights.argmin())
        raise DataError(
            f"{argument} is {weights[row]:g} at row {row}: weights must not be negative; 0 leaves "
            f"a row out."
        )
    return weights


def _not_all_zero(weights: FloatArray, argument: str) -> FloatArray:
    if not weights.any():
        raise DataError(f"{argument} is zero in every row: at least one row must count.")
    return weights


def _as_vector(values: FloatArray, n_rows: int, argument: str) -> FloatArray:
    if values.shape not in ((n_rows,), (n_rows, 1)):
        raise _shape_error(values, f"({n_rows},)", n_rows, argument)
    return values.reshape(n_rows)


def _shape_error(values: FloatArray, expected: str, n_rows: int, argument: str) -> DataError:
    return DataError(
        f"{argument} has shape {values.shape}, but must have {expected}, because X has {n_rows} "
        f"rows."
    )


def _place(index: Sequence[Any]) -> str:
    row, *rest = map(int, index)
    return f"row {row}" + "".join(f", column {column}" for column in rest)
