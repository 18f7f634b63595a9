# SPDX-License-Identifier: Apache-2.0
"""Which features matter to which task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count, check_switch
from mtboost.base.row_order import reading_rows
from mtboost.base.tables import Table
from mtboost.base.tasks import TaskName
from mtboost.model.plots.drawing import (
    COLOR_MAP,
    MOST_NAMES,
    chosen_tasks,
    name_of,
    new_axes,
    note,
    omission,
    rows_height,
    task_rows,
)
from mtboost.model.plots.rows import fitted, some_rows
from mtboost.model.prediction.contributions import ExplainedTasks
from mtboost.model.prediction.new_rows import tables_by_task

if TYPE_CHECKING:
    import matplotlib.axes

#: Cells up to which their numbers are written into them.
_MOST_NUMBERS = 150


@reading_rows
def plot_importance(
    model: Any,
    X: Any,
    *,
    task: Any = None,
    tasks: Iterable[TaskName] | None = None,
    max_tasks: int = 25,
    max_features: int = 15,
    max_rows: int = 100,
    normalize: bool | None = None,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """Plot a heat map of tasks and features: the mean absolute contribution (SHAP value).

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model.
    X : table of shape (n_rows, n_features), or mapping of task name to table
        Rows of the tasks, as in :meth:`mtboost.MultiTaskModel.predict`.
    task : array-like of shape (n_rows,), or str or int, optional
        Task of each row, or the column of `X` that holds it; by default as in training.
    tasks : iterable of task names, optional
        Tasks to draw; by default those with the most rows in `X`.
    max_tasks : int, default=25
        Maximum number of tasks if they are not named.
    max_features : int, default=15
        Number of features to draw: those that matter most to the drawn tasks.
    max_rows : int, default=100
        Maximum number of rows of a task to compute contributions of, at equal distances.
    normalize : bool, optional
        Whether the importances of a task are divided by their sum; by default only where each task
        has its objective, and so its unit.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the heat map. Cells of features that a task does not have are empty.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    DataError, TypeError
        Rows do not fit the model, a task is unknown, or `model` is not a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] + X[:, 1] * (shop == "c")
    >>> fast = {"strategy": "two-stage", "num_boost_round": 10}
    >>> model = mtboost.fit(X, y, task=shop, **fast)
    >>> ax = mtboost.plotting.plot_importance(model, X, task=shop)
    """
    check_count("max_tasks", max_tasks, low=1)
    check_count("max_features", max_features, low=1)
    check_count("max_rows", max_rows, low=1)
    own = fitted(model)
    if normalize is None:
        normalize = bool(own.losses)
    check_switch("normalize", normalize)
    tables = tables_by_task(own, X, task)
    sizes = {name: table.n_rows for name, table in tables.items()}
    shown = chosen_tasks(tasks, tables, sizes, max_tasks)
    found = contributions_by_task(own, tables, shown, max_rows, normalize)
    ax = draw_contributions(found, max_features, ax)
    left_title = ax.get_title(loc="left")
    note(ax, omission(len(shown), len(tables), tasks is not None), left_title)
    return ax


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """Mean absolute contributions of features to the predictions of tasks.

    Attributes
    ----------
    tasks : list of task names
    features : list of str
        The most important first.
    values : ndarray of float64, shape (n_tasks, n_features)
        NaN of features that a task does not have.
    are_shares : bool
        Whether those of a task sum to 1.
    """

    tasks: list[TaskName]
    features: list[str]
    values: Float64Array
    are_shares: bool


def contributions_by_task(
    model: ExplainedTasks,
    tables: Mapping[TaskName, Table],
    tasks: list[TaskName],
    max_rows: int,
    normalize: bool,
) -> Contributions:
    """Compute the contributions in at most `max_rows` rows of each task."""
    by_task = {}
    for task in tasks:
        table = model.task_columns[task].align(tables[task])
        by_task[task] = model.importance(task, X=some_rows(table, max_rows).native)
    known = {task: model._names_of_features(task) for task in tasks}
    names = list(dict.fromkeys(chain.from_iterable(known.values())))
    values = np.array(
        [
            [own.get(name, 0.0) if name in known[task] else np.nan for name in names]
            for task, own in by_task.items()
        ],
        np.float64,
    )
    if normalize:
        sums = np.nansum(values, axis=1, keepdims=True)
        values = np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)
    order = np.argsort(-np.nansum(values, axis=0), kind="stable")
    return Contributions(tasks, [names[place] for place in order], values[:, order], normalize)


def draw_contributions(
    found: Contributions, max_features: int, ax: matplotlib.axes.Axes | None
) -> matplotlib.axes.Axes:
    """Draw the heat map."""
    n = min(max_features, len(found.features))
    ax = new_axes(ax, 2.8 + 0.42 * n, rows_height(min(len(found.tasks), MOST_NAMES)) + 0.6)
    unit = "share of contributions" if found.are_shares else "mean |contribution|"
    _draw(ax, found.values[:, :n], found.features[:n], unit)
    task_rows(ax, found.tasks)
    n_left = len(found.features) - n
    if n_left:
        left = np.nansum(found.values[:, n:]) / (np.nansum(found.values) or 1.0)
        features = "feature" if n_left == 1 else "features"
        note(ax, f"{n_left:,} more {features}, {left:.1%} of the sum")
    return ax


def _draw(
    ax: matplotlib.axes.Axes,
    values: Float64Array,
    features: list[str],
    unit: str,
) -> None:
    most = float(np.nanmax(values, initial=0.0)) or 1.0
    image = ax.imshow(
        values, cmap=COLOR_MAP, vmin=0.0, vmax=most, aspect="auto", interpolation="nearest"
    )
    ax.figure.colorbar(image, ax=ax, label=unit, pad=0.02)
    names = [name_of(name) for name in features]
    is_long = max(map(len, names)) > 4
    ax.set_xticks(range(len(names)), names)
    if is_long:
        for text in ax.get_xticklabels():
            text.set(rotation=45, horizontalalignment="right", rotation_mode="anchor")
    if values.size > _MOST_NUMBERS:
        return
    for row, column in np.ndindex(values.shape):
        value = values[row, column]
        if np.isfinite(value):
            color = "black" if value > 0.55 * most else "white"
            ax.text(
                column, row, f"{value:.2g}", ha="center", va="center", fontsize=7.5, color=color
            )
