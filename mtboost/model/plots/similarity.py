# SPDX-License-Identifier: Apache-2.0
"""How alike the models of tasks are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count
from mtboost.base.row_order import reading_rows
from mtboost.base.tables import Table
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError
from mtboost.model.plots.drawing import (
    COLOR_MAP,
    MOST_NAMES,
    MUTED,
    chosen_tasks,
    name_of,
    new_axes,
    note,
    omission,
    pyplot,
)
from mtboost.model.plots.rows import fitted, one_table, some_rows
from mtboost.model.prediction.predictions import FittedTasks

if TYPE_CHECKING:
    import matplotlib.axes

#: Distances of tasks that are the same.
_ROUNDING = 1e-9
#: Tasks up to which the leaves of the dendrogram are put into the best order, which takes long.
_MOST_ORDERED = 200


@reading_rows
def plot_task_similarity(
    model: Any,
    X: Any,
    *,
    tasks: Iterable[TaskName] | None = None,
    max_tasks: int = 1000,
    max_rows: int = 500,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """Plot how alike the tasks are: the correlation of their predictions for the same rows.

    Each row of `X` is predicted as if it were of each task. Tasks whose margins for these rows
    correlate learned the same effects; differences of their levels and scales do not count. Tasks
    are in the order of a hierarchical clustering (average linkage of one minus the correlation),
    whose dendrogram is beside the heat map.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model of two tasks or more.
    X : table of shape (n_rows, n_features)
        Rows of any tasks, with the columns of all. A task column may be among them.
    tasks : iterable of task names, optional
        Tasks to compare; by default the largest.
    max_tasks : int, default=1000
        Maximum number of tasks if they are not named.
    max_rows : int, default=500
        Maximum number of rows to predict, at equal distances in `X`.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the heat map; those of the dendrogram and of the colours are parts of it.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    DataError, TypeError
        A task is unknown, there are fewer than two, `X` does not fit the model, or `model` is not a
        fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] * (shop != "c") + X[:, 1] * (shop == "c")
    >>> fast = {"strategy": "two-stage", "num_boost_round": 10}
    >>> model = mtboost.fit(X, y, task=shop, **fast)
    >>> ax = mtboost.plotting.plot_task_similarity(model, X)
    """
    check_count("max_tasks", max_tasks, low=2)
    check_count("max_rows", max_rows, low=2)
    own = fitted(model)
    sizes = {task: report.n_rows for task, report in own.reports.items()}
    shown = chosen_tasks(tasks, own.tasks, sizes, max_tasks)
    if len(shown) < 2:
        raise DataError("There is one task only, and nothing to compare it with.")
    table = some_rows(one_table(own, X), max_rows)
    found = task_correlations(own, table, shown)
    tree = _cluster(found)
    ax = new_axes(ax, 7.0, 5.2)
    order = _draw_dendrogram(ax, tree)
    ordered = found[np.ix_(order, order)]
    image = ax.imshow(
        ordered,
        cmap=COLOR_MAP,
        vmin=min(0.0, float(ordered.min())),
        vmax=1.0,
        interpolation="nearest",
        aspect="auto",
    )
    colors = ax.inset_axes((1.22, 0.0, 0.03, 1.0))
    ax.figure.colorbar(image, cax=colors)
    _label(ax, [shown[place] for place in order])
    note(
        ax,
        f"correlation of the predictions of the same {table.n_rows:,} rows as each task",
        omission(len(shown), len(own.tasks), tasks is not None),
    )
    return ax


def task_correlations(model: FittedTasks, table: Table, tasks: list[TaskName]) -> Float64Array:
    """Return the correlations of the tasks' margins for the same rows.

    That of margins that are the same for all rows is 0.
    """
    margins = np.array(
        [np.ravel(model._task_margins(table, task, None)) for task in tasks], np.float64
    )
    margins -= margins.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(margins, axis=1, keepdims=True)
    units = np.divide(margins, lengths, out=np.zeros_like(margins), where=lengths > 0)
    found = np.clip(units @ units.T, -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _draw_dendrogram(ax: matplotlib.axes.Axes, tree: Any) -> list[int]:
    """Draw the tree on the right of the heat map; return the tasks in its order."""
    from scipy.cluster import hierarchy

    order: list[int] = hierarchy.leaves_list(tree).tolist()
    if not tree[:, 2].any():  # all tasks are the same, and the tree has no height
        return order
    inset = ax.inset_axes((1.01, 0.0, 0.18, 1.0))
    with pyplot().rc_context({"lines.linewidth": 0.8 if len(order) <= MOST_NAMES else 0.5}):
        hierarchy.dendrogram(
            tree,
            orientation="right",
            ax=inset,
            no_labels=True,
            color_threshold=0.0,
            above_threshold_color=MUTED,
        )
    inset.invert_yaxis()
    inset.set_axis_off()
    return order


def _cluster(correlations: Float64Array) -> Any:
    from scipy.cluster import hierarchy
    from scipy.spatial import distance

    distances = distance.squareform(1.0 - correlations, checks=False)
    distances[distances < _ROUNDING] = 0.0
    is_ordered = len(correlations) <= _MOST_ORDERED
    return hierarchy.linkage(distances, "average", optimal_ordering=is_ordered)


def _label(ax: matplotlib.axes.Axes, tasks: list[TaskName]) -> None:
    if len(tasks) > MOST_NAMES:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel(f"{len(tasks):,} tasks, in the order of the dendrogram")
        return
    names = [name_of(task) for task in tasks]
    size = 10.0 if len(tasks) <= 15 else 7.0
    ax.set_yticks(range(len(tasks)), names, fontsize=size)
    ax.set_xticks(range(len(tasks)), names, rotation=90, fontsize=size)
