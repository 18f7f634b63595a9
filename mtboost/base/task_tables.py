# SPDX-License-Identifier: Apache-2.0
"""Mappings {task: table}, and what belongs to the rows of each table."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import scipy.sparse

from mtboost.base.arrays import FloatArray
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import did_you_mean, listed, refuse
from mtboost.base.labels import as_base_margin, as_labels, as_nonnegative, not_all_zero
from mtboost.base.missing_columns import stack_union
from mtboost.base.stacked_tables import concat, unify_categories
from mtboost.base.tables import Table
from mtboost.base.tasks import TaskName, check_digits
from mtboost.errors import DataError, ParameterTypeError

#: Columns of the common model: those of every task, or some of them, or those of any task.
CommonFeatures: TypeAlias = Sequence[str] | Literal["all"] | None


@dataclass(frozen=True, eq=False)
class TaskTables:
    """One table a task, and what belongs to their rows, task after task.

    Made by :func:`from_mapping`.

    Attributes
    ----------
    tables : dict of task name to Table
        In the order of the user's mapping. Each has all columns of its task. A common category
        column has the same categories in all that have it.
    common_features : tuple of str or None
        Columns that every task has, in the order of the first table, or those of any task, in the
        order in which they appear; None for arrays without names, whose columns are all common.
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
        """The common columns of all tasks in one table: a copy, rows as in ``task_labels``.

        What a task lacks is missing in its rows.
        """
        tables = list(self.tables.values())
        common = self.common_features
        if common is None:
            return concat(tables)
        if all(set(common) <= set(table.feature_names or ()) for table in tables):
            return concat([table.select(common) for table in tables])
        return stack_union(tables, common)


def is_mapping(X: Any) -> TypeGuard[Mapping[TaskName, Any]]:
    """Whether X holds one table a task. A DOK matrix of SciPy is one table, though a dict too."""
    return isinstance(X, Mapping) and not scipy.sparse.issparse(X)


def hint_of_one_row(X: Mapping[Any, Any]) -> str:
    """Return how to pass a row that is a mapping of column to value; empty for other mappings."""
    if not any(value is None or np.isscalar(value) for value in X.values()):
        return ""
    return " A mapping is read as {task: table}: to predict one row, pass pd.DataFrame([row])."


def are_all(common_features: object) -> bool:
    """Whether the common model has the columns of any task; DataError for another word."""
    if isinstance(common_features, str) and common_features != "all":
        raise DataError(
            f"common_features must be 'all' or a list of columns, found {common_features!r}."
        )
    if isinstance(common_features, Mapping | set) or not isinstance(
        common_features, Iterable | None
    ):
        allowed = "'all' or a list of columns"
        refuse("common_features", common_features, allowed, "None", kind=ParameterTypeError)
    return isinstance(common_features, str)


def chosen_columns(common_features: Iterable[str]) -> tuple[str, ...]:
    """Columns that the user has chosen; DataError if there are none, or one is there twice."""
    names = tuple(common_features)
    if not names or len(set(names)) < len(names):
        raise DataError("common_features must name at least one column, each once.")
    return names


def check_task_keys(
    argument: str, values: Mapping[TaskName, Any], tasks: Collection[TaskName]
) -> None:
    """Demand that a mapping has the tasks as its keys."""
    if not isinstance(values, Mapping):
        raise DataError(
            f"{argument} is a {type(values).__name__}; it must be a mapping {{task: ...}} as X is."
        )
    missing = [task for task in tasks if task not in values]
    unknown = [task for task in values if task not in tasks]
    faults = [f"lacks {listed(missing, 'task')}"] if missing else []
    if unknown:
        faults.append(f"has unknown {listed(unknown, 'task')}")
    if faults:
        hint = did_you_mean(unknown[0], tasks) if unknown else ""
        raise DataError(f"{argument} {' and '.join(faults)}: its keys must be the tasks.{hint}")


def from_mapping(
    X: Mapping[TaskName, Any],
    y: Mapping[TaskName, Any] | None = None,
    *,
    weight: Mapping[TaskName, Any] | None = None,
    base_margin: Mapping[TaskName, Any] | None = None,
    feature_names: Mapping[TaskName, Sequence[str]] | None = None,
    common_features: CommonFeatures = None,
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
    common_features : sequence of str or "all", optional
        Columns of the common model instead of all that every task has; ``"all"`` are those of any
        task.
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
    check_digits(X)
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
    tables = dict(zip(tables, unify_categories(list(tables.values()), common or ()), strict=True))

    def stack(
        argument: str, values: Mapping[TaskName, Any] | None, read: Callable[..., FloatArray]
    ) -> FloatArray | None:
        if values is None:
            return None
        found = {
            task: read(values[task], table.n_rows, argument=f"{argument}[{task!r}]")
            for task, table in tables.items()
        }
        for task, each in found.items():
            if each.ndim != found[first_task].ndim:
                raise DataError(
                    f"{argument}[{first_task!r}] has {found[first_task].ndim} axes, "
                    f"{argument}[{task!r}] has {each.ndim}: give all tasks the same number."
                )
        return np.concatenate([*found.values()])

    task_names = np.fromiter(tables, dtype=object, count=len(tables))  # names may be tuples
    weights = stack("weight", weight, as_nonnegative)
    return TaskTables(
        tables=tables,
        common_features=common,
        task_labels=np.repeat(task_names, [table.n_rows for table in tables.values()]),
        y=stack("y", y, partial(as_labels, may_be_bounds=True)),
        weight=weights if weights is None else not_all_zero(weights, "weight"),
        base_margin=stack("base_margin", base_margin, partial(as_base_margin, n_outputs=n_outputs)),
    )


def _common_features(
    tables: Mapping[TaskName, Table], chosen: CommonFeatures
) -> tuple[str, ...] | None:
    is_union = are_all(chosen)
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
                    f"{table.n_features}, and without names the common ones are unknown: give "
                    f"DataFrames or feature_names={{task: [...]}}."
                )
        return None
    if is_union:
        every = chain.from_iterable(table.feature_names or () for table in tables.values())
        return tuple(dict.fromkeys(every))
    if chosen is None:
        common = set(first.feature_names).intersection(
            *(table.feature_names or () for table in tables.values())
        )
        if not common:
            raise DataError(
                "The tasks have no column in common: the common model needs at least one."
            )
        return tuple(name for name in first.feature_names if name in common)
    names = chosen_columns(chosen)
    for task, table in tables.items():
        lacking = set(names).difference(table.feature_names or ())
        if lacking:
            name = next(name for name in names if name in lacking)
            hint = did_you_mean(name, table.feature_names or ())
            raise DataError(f"common_features has {name!r}, which X[{task!r}] lacks.{hint}")
    return names
