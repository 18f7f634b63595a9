# SPDX-License-Identifier: Apache-2.0
"""How predictions depend on one feature, task by task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count, did_you_mean, listed
from mtboost.base.row_order import reading_rows
from mtboost.base.tables import Table
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError, UnsupportedError
from mtboost.model.plots.drawing import (
    FAINT,
    MUTED,
    chosen_tasks,
    ink,
    legend_beside,
    name_of,
    new_axes,
    note,
    omission,
    style_of,
)
from mtboost.model.plots.rows import check_one_output, fitted, one_table, predictions, some_rows
from mtboost.model.prediction.predictions import FittedTasks

if TYPE_CHECKING:
    import matplotlib.axes

#: Tasks up to which each line has its colour; of more, those that differ most.
_MOST_COLORS = 10
_N_NAMED = 5


@reading_rows
def plot_dependence(
    model: Any,
    X: Any,
    feature: str | int,
    *,
    tasks: Iterable[TaskName] | None = None,
    max_tasks: int = 500,
    max_rows: int = 100,
    n_points: int = 25,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """Plot the partial dependence on a feature: one line a task, the pooled one in bold.

    The mean prediction for the same rows, whose value of the feature is replaced by each point of
    the axis in turn. The pooled line is that of a task which the model does not know. Of more than
    ten tasks the five whose lines differ most from it have names.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model with one prediction a row.
    X : NumPy array, or pandas or polars DataFrame, of shape (n_rows, n_features)
        Rows of any tasks, with the columns of all. A task column may be among them.
    feature : str or int
        Name of a column, or its position where columns have no names.
    tasks : iterable of task names, optional
        Tasks to draw; by default the largest.
    max_tasks : int, default=500
        Maximum number of tasks if they are not named.
    max_rows : int, default=100
        Maximum number of rows to predict, at equal distances in `X`.
    n_points : int, default=25
        Maximum number of points of the axis: quantiles of the feature from 1 to 99 %, or its
        values or categories if there are no more.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the lines.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    UnsupportedError
        The model has several classes, or `X` is a table whose values cannot be replaced.
    DataError, TypeError
        `feature` is not a column of `X`, or is missing in all rows; `X` does not fit the model; a
        task is unknown; or `model` is not a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] * (shop == "c")
    >>> fast = {"strategy": "two-stage", "num_boost_round": 10}
    >>> model = mtboost.fit(X, y, task=shop, **fast)
    >>> ax = mtboost.plotting.plot_dependence(model, X, 0)
    """
    for name, count in (("max_tasks", max_tasks), ("max_rows", max_rows)):
        check_count(name, count, low=1)
    check_count("n_points", n_points, low=2)
    own = fitted(model)
    check_one_output(own, "plot_dependence()")
    table = one_table(own, X)
    position = _position(table, feature)
    grid = _grid(table, position, n_points)
    sizes = {task: report.n_rows for task, report in own.reports.items()}
    shown = chosen_tasks(tasks, own.tasks, sizes, max_tasks)
    part = some_rows(table, max_rows)
    changed = _replaced(part, position, grid)
    lines = {task: _means(own, task, changed, len(grid)) for task in shown}
    pooled = None if own.losses else _means(own, None, changed, len(grid))
    is_numeric = grid.dtype.kind == "f"
    x = grid if is_numeric else np.arange(len(grid))
    ax = new_axes(ax, 7.0, 4.5)
    named = _draw(ax, x, lines, pooled)
    if not is_numeric:
        ax.set_xticks(x, [name_of(value) for value in grid.tolist()])
    else:  # deciles, as the libraries of the field mark them
        deciles = np.nanquantile(_numbers(table, position), np.arange(1, 10) / 10)
        ax.plot(
            deciles, np.zeros(9), "|", color=MUTED, transform=ax.get_xaxis_transform(), markersize=8
        )
    ax.set_xlabel(name_of(feature if isinstance(feature, str) else f"feature {feature}", 60))
    ax.set_ylabel("mean prediction")
    note(
        ax,
        f"mean over the same {part.n_rows:,} rows; ticks: deciles of the feature"
        if is_numeric
        else f"mean over the same {part.n_rows:,} rows",
        omission(len(shown), len(own.tasks), tasks is not None),
        f"{len(shown):,} tasks, named are the {named} that differ most from the pooled line"
        if 0 < named < len(shown)
        else "",
    )
    return ax


def _position(table: Table, feature: str | int) -> int:
    names = table.feature_names
    if names is None and isinstance(feature, int) and 0 <= feature < table.n_features:
        return feature
    if names is not None and feature in names:
        return names.index(str(feature))
    known = list(names) if names is not None else list(range(table.n_features))
    raise DataError(
        f"feature {feature!r} is not a column of X. Known: {listed(known, 'column')}."
        f"{did_you_mean(feature, known)}"
    )


def _is_categorical(table: Table, position: int) -> bool:
    names = table.feature_names
    return names is not None and names[position] in table.categorical_features


def _numbers(table: Table, position: int) -> Float64Array:
    return table.number_column(position if table.feature_names is None else _name(table, position))


def _name(table: Table, position: int) -> str:
    assert table.feature_names is not None
    return table.feature_names[position]


def _grid(table: Table, position: int, n_points: int) -> npt.NDArray[Any]:
    """Return the values of the feature to predict at."""
    if _is_categorical(table, position):
        return np.array(table.categories(_name(table, position))[:n_points], object)
    values = _numbers(table, position)
    values = values[np.isfinite(values)]
    if not len(values):
        raise DataError("The feature is missing in every row of X.")
    distinct = np.unique(values)
    if len(distinct) <= n_points:
        return distinct
    return np.unique(np.quantile(values, np.linspace(0.01, 0.99, n_points)))


def _replaced(table: Table, position: int, grid: npt.NDArray[Any]) -> Table:
    """Return the rows once for each value of the feature, one value after the other."""
    stacked = table.take(np.tile(np.arange(table.n_rows), len(grid)))
    values = np.repeat(grid, table.n_rows)
    native = stacked.native
    match table.library:
        case "numpy":
            native = native.astype(np.result_type(native.dtype, np.float32))
            native[:, position] = values
        case "pandas":
            import pandas

            native = native.copy(deep=False)
            own: Any = values
            if grid.dtype.kind != "f":
                own = pandas.Categorical(values, dtype=native.dtypes.iloc[position])
            native.isetitem(position, own)
        case "polars":
            import polars

            name = native.columns[position]
            dtype = None if grid.dtype.kind == "f" else native.schema[name]
            native = native.with_columns(polars.Series(name, values.tolist(), dtype=dtype))
        case _:
            raise UnsupportedError(
                f"X is a table of {table.library}: pass a NumPy array, or a DataFrame of pandas or "
                "polars, whose values can be replaced."
            )
    return replace(stacked, native=native)


def _means(
    model: FittedTasks, task: TaskName | None, changed: Table, n_points: int
) -> Float64Array:
    """Return the mean prediction at each point."""
    found = predictions(model, task, changed)
    return np.asarray(found.reshape(n_points, -1).mean(axis=1))


def _draw(
    ax: matplotlib.axes.Axes,
    x: npt.NDArray[Any],
    lines: dict[TaskName, Float64Array],
    pooled: Float64Array | None,
) -> int:
    """Draw the lines; return how many tasks have names."""
    center = pooled if pooled is not None else np.mean(list(lines.values()), axis=0)
    named = list(lines)
    if len(lines) > _MOST_COLORS:
        # By their shapes: levels are the business of other plots.
        distance = {task: np.ptp(line - center) for task, line in lines.items()}
        named = sorted(lines, key=lambda task: -distance[task])[:_N_NAMED]
        faint = max(0.15, min(0.7, 20 / len(lines)))
        for task in lines.keys() - set(named):
            ax.plot(x, lines[task], color=FAINT, alpha=faint, linewidth=0.8, zorder=1)
    handles, labels = [], []
    for number, task in enumerate(named):
        handles += ax.plot(x, lines[task], linewidth=1.4, zorder=2, **style_of(number))
        labels.append(name_of(task))
    if pooled is not None:
        handles += ax.plot(x, pooled, color=ink(), linewidth=3.0, zorder=3)
        labels.append("pooled")
    legend_beside(ax, handles, labels)
    return len(named)
