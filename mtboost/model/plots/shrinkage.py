# SPDX-License-Identifier: Apache-2.0
"""Effects of tasks: what their rows alone say, and what the model makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.row_order import reading_rows
from mtboost.base.tasks import TaskName
from mtboost.errors import UnsupportedError
from mtboost.model.estimates import weighted_mean
from mtboost.model.plots.drawing import (
    COLORS,
    FAINT,
    MOST_NAMES,
    chosen_tasks,
    ink,
    legend_below,
    name_of,
    new_axes,
    note,
    omission,
    paper,
    rows_height,
)
from mtboost.model.plots.rows import (
    LabelledRows,
    check_scale_of_labels,
    fitted,
    labelled_rows,
    predictions,
)
from mtboost.model.prediction.predictions import FittedTasks

if TYPE_CHECKING:
    import matplotlib.axes


@reading_rows
def plot_shrinkage(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    weight: Any = None,
    base_margin: Any = None,
    tasks: Iterable[TaskName] | None = None,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """Plot how far each task is from the pooled model: by its rows alone, and by the model.

    Zero is the pooled prediction, that for a task which the model does not know. A hollow mark is
    the mean difference of the task's labels from it, with its standard error; a dot is that of the
    task's predictions, which partial pooling shrinks towards zero. Tasks are sorted by it (a
    caterpillar plot). Few rows are shrunk much; a dot far from its mark by more than the bar is a
    task that the model does not follow.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model with one objective for all tasks, and one prediction a row.
    X : table of shape (n_rows, n_features), or mapping of task name to table
        Rows of training, or others.
    y : array-like of shape (n_rows,), or mapping of task name to array-like
        Labels as in training.
    task : array-like of shape (n_rows,), or str or int, optional
        Task of each row, or the column of `X` that holds it; by default as in training.
    weight : like `y`, optional
        Row weights >= 0.
    base_margin : like `y`, optional
        Margin that each row starts from.
    tasks : iterable of task names, optional
        Tasks to draw; by default all, and more than 40 without their names.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the effects.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    UnsupportedError
        The model ranks, or has several classes, or an objective for each task.
    DataError, TypeError
        Rows do not fit the model, a task is unknown, or `model` is not a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] + (shop == "b") + rng.normal(size=300)
    >>> fast = {"strategy": "two-stage", "pooling": 10.0, "num_boost_round": 20}
    >>> model = mtboost.fit(X, y, task=shop, **fast)
    >>> ax = mtboost.plotting.plot_shrinkage(model, X, y, task=shop)
    """
    own = fitted(model)
    check_scale_of_labels(own, "plot_shrinkage()")
    if own.losses:
        raise UnsupportedError(
            "plot_shrinkage() compares tasks with a pooled prediction, which a model with an "
            "objective for each task does not have."
        )
    rows = labelled_rows(model, X, y, task, weight, base_margin)
    sizes = {name: part.table.n_rows for name, part in rows.items()}
    shown = chosen_tasks(tasks, rows, sizes, len(rows))
    effects = np.array([task_effects(own, name, rows[name]) for name in shown])
    order = np.argsort(effects[:, 1], kind="stable")
    (label, shrunk, error), n = effects[order].T, len(shown)
    has_names = n <= MOST_NAMES
    y_places = np.arange(n)
    ax = new_axes(ax, 7.0, rows_height(n) + 0.4 if has_names else 6.0)
    ax.axvline(0.0, color=ink(), linewidth=1.0, label="pooled prediction")
    size = float(np.clip(240 / n, 2.5, 6.0))
    ax.hlines(y_places, label - error, label + error, color=FAINT, linewidth=max(0.5, size / 4))
    ax.plot(
        label,
        y_places,
        "D",
        color=COLORS[1],
        markerfacecolor=paper(),
        markersize=0.8 * size,
        markeredgewidth=size / 5,
        label="mean label ± standard error",
    )
    ax.plot(
        shrunk,
        y_places,
        "o",
        color=COLORS[0],
        markersize=size,
        label="mean prediction",
    )
    if has_names:
        names = [f"{name_of(shown[place])}  ({sizes[shown[place]]:,})" for place in order]
        ax.set_yticks(y_places, names)
        ax.set_ylabel("task (rows)")
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{n:,} tasks, in the order of their predictions")
    ax.set_ylim(-0.5 - 0.01 * n, n - 0.5 + 0.01 * n)
    ax.set_xlabel("difference from the pooled prediction")
    ax.grid(axis="x", color=FAINT, alpha=0.4, linewidth=0.6)
    ax.set_axisbelow(True)
    note(ax, _summary(label, shrunk), omission(n, len(rows), tasks is not None))
    legend_below(ax, 1 if has_names else 3)
    return ax


def task_effects(
    model: FittedTasks, task: TaskName, rows: LabelledRows
) -> tuple[float, float, float]:
    """Return mean differences of labels and of predictions from the pooled prediction.

    The third number is the standard error of the first; NaN of a single row.
    """
    pooled = predictions(model, None, rows.table, rows.base_margin)
    own = predictions(model, task, rows.table, rows.base_margin)
    label = weighted_mean(rows.y - pooled, rows.weight)
    return label.value, float(np.average(own - pooled, weights=rows.weight)), label.error


def _summary(label: Float64Array, shrunk: Float64Array) -> str:
    """Return a sentence on the spread of the effects."""
    return (
        f"standard deviation over tasks: labels {np.std(label):.3g}, predictions "
        f"{np.std(shrunk):.3g}"
    )
