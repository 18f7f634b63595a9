# SPDX-License-Identifier: Apache-2.0
"""Rounds of the common model and of specific models that each task uses, by task size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mtboost.base.tasks import TaskName
from mtboost.model.parts.task_report import TaskReport
from mtboost.model.plots.drawing import (
    FAINT,
    MOST_NAMES,
    WAY_COLORS,
    chosen_tasks,
    legend_below,
    name_of,
    new_axes,
    note,
    rows_height,
)
from mtboost.model.plots.rows import fitted

if TYPE_CHECKING:
    import matplotlib.axes

#: Colour of a task's own rounds by what they are, from light to dark.
_OWN = {
    "common + specific": (WAY_COLORS[0], "specific rounds, after the common ones"),
    "averaged": (WAY_COLORS[1], "independent rounds, averaged with the common model"),
    "independent": (WAY_COLORS[2], "rounds of the task alone, without the common model"),
}


def way_of(report: TaskReport) -> str:
    """Return what a task uses, by its rounds: a way to share as ``strategy="auto"`` calls it."""
    if not report.specific_rounds:
        return "common"
    if not report.quit_round:
        return "independent"
    return report.sharing if report.sharing in _OWN else "common + specific"


def plot_sharing(
    model: Any,
    *,
    tasks: Iterable[TaskName] | None = None,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """Plot the rounds that each task uses, the largest task first.

    Grey bars are rounds of the common model, coloured ones those of the task's own model: specific
    rounds that continue the common ones, or independent ones, alone or averaged with the common
    model. All tasks are drawn; more than 40 without their names.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model.
    tasks : iterable of task names, optional
        Tasks to draw; by default all.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the bars.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    DataError, TypeError
        A task is unknown, or `model` is not a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> fast = {"strategy": "two-stage", "num_boost_round": 10}
    >>> model = mtboost.fit(X, X[:, 0], task=shop, **fast)
    >>> ax = mtboost.plotting.plot_sharing(model)
    """
    reports = fitted(model).reports
    sizes = {task: report.n_rows for task, report in reports.items()}
    shown = chosen_tasks(tasks, reports, sizes, len(reports))
    shown.sort(key=lambda task: -sizes[task])
    n = len(shown)
    common = np.array([reports[task].quit_round for task in shown])
    own = np.array([reports[task].specific_rounds for task in shown])
    ways = np.array([way_of(reports[task]) for task in shown])
    ax = new_axes(ax, 7.0, rows_height(n) if n <= MOST_NAMES else 5.0)
    draw = _draw_bars if n <= MOST_NAMES else _draw_outline
    if common.any():
        draw(ax, np.zeros(n), common, color=FAINT, label="common rounds")
    for way, (color, text) in _OWN.items():
        is_own = ways == way
        if is_own.any():
            count = f"{text} ({is_own.sum():,} {'task' if is_own.sum() == 1 else 'tasks'})"
            draw(ax, common, np.where(is_own, own, 0), color=color, label=count)
    _label_rows(ax, shown, sizes)
    ax.set_xlabel("rounds")
    ax.set_xlim(0, 1.02 * max(1, (common + own).max()))
    n_common = int((ways == "common").sum())
    note(
        ax,
        f"{n_common:,} of {n:,} tasks use the common model alone"
        + (f"; {len(reports) - n:,} others are not shown" if n < len(reports) else ""),
    )
    if (common + own).any():
        legend_below(ax, 1)
    return ax


def _draw_bars(
    ax: matplotlib.axes.Axes, left: npt.NDArray[Any], widths: npt.NDArray[Any], **look: Any
) -> None:
    y = np.flatnonzero(widths)
    ax.barh(y, widths[y], left=left[y], height=0.72, **look)


def _draw_outline(
    ax: matplotlib.axes.Axes, left: npt.NDArray[Any], widths: npt.NDArray[Any], **look: Any
) -> None:
    """Draw bars thinner than a dot as one shape, without seams."""
    edges = np.arange(len(widths) + 1) - 0.5
    ax.stairs(left + widths, edges, baseline=left, orientation="horizontal", fill=True, **look)


def _label_rows(
    ax: matplotlib.axes.Axes, tasks: list[TaskName], sizes: dict[TaskName, int]
) -> None:
    """List the tasks with their numbers of rows; of many tasks the numbers of some."""
    n = len(tasks)
    if n <= MOST_NAMES:
        ax.set_yticks(range(n), [f"{name_of(task)}  ({sizes[task]:,})" for task in tasks])
        ax.set_ylabel("task (training rows)")
    else:
        places = np.unique(np.linspace(0, n - 1, 7).round().astype(int))
        ax.set_yticks(places, [f"{sizes[tasks[place]]:,}" for place in places])
        ax.set_ylabel("training rows of the task")
    ax.set_ylim(n - 0.5, -0.5)
