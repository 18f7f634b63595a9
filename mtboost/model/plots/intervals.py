# SPDX-License-Identifier: Apache-2.0
"""Prediction intervals beside the labels, task by task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count
from mtboost.base.row_order import reading_rows
from mtboost.base.tasks import TaskName
from mtboost.model.plots.drawing import (
    COLORS,
    FAINT,
    Z_95,
    chosen_tasks,
    ink,
    name_of,
    new_panels,
    omission,
    paper,
)
from mtboost.model.plots.rows import (
    LabelledRows,
    check_scale_of_labels,
    fitted,
    labelled_rows,
    predictions,
)
from mtboost.model.prediction.intervals import TasksWithIntervals

if TYPE_CHECKING:
    import matplotlib.figure

#: Ratio of the largest to the least number of rows from which on the axis is logarithmic.
_WIDE = 10


@dataclass(frozen=True, slots=True, eq=False)
class _Intervals:
    """Rows of a task in the order of their predictions."""

    predicted: Float64Array
    low: Float64Array
    high: Float64Array
    y: Float64Array

    @property
    def is_covered(self) -> npt.NDArray[np.bool_]:
        return (self.low <= self.y) & (self.y <= self.high)

    @property
    def coverage(self) -> float:
        return float(self.is_covered.mean())

    def some(self, most: int) -> _Intervals:
        """Return `most` of the rows, at equal distances."""
        n_rows = len(self.y)
        rows = np.linspace(0, n_rows - 1, min(most, n_rows)).round().astype(int)
        parts = (part[rows] for part in (self.predicted, self.low, self.high, self.y))
        return _Intervals(*parts)


@reading_rows
def plot_intervals(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    alpha: float = 0.1,
    base_margin: Any = None,
    tasks: Iterable[TaskName] | None = None,
    max_tasks: int = 11,
    max_rows: int = 200,
    figure: matplotlib.figure.Figure | None = None,
) -> npt.NDArray[np.object_]:
    """Plot prediction intervals and labels, a panel for each task, and the coverage of all tasks.

    The first panel has a dot for every task of `X`: the fraction of its labels that are inside,
    over its number of rows. Between the dashed lines 95 % of the tasks are expected if the coverage
    is right. In the other panels the band is the interval, over the prediction; crosses are labels
    outside.

    Parameters
    ----------
    model : MultiTaskModel or MultiTaskRegressor
        A fitted model with conformity scores: ``fit(intervals=True)``.
    X : table of shape (n_rows, n_features), or mapping of task name to table
        Rows that the model was not trained on.
    y : array-like of shape (n_rows,), or mapping of task name to array-like
        Labels.
    task : array-like of shape (n_rows,), or str or int, optional
        Task of each row, or the column of `X` that holds it; by default as in training.
    alpha : float in (0, 1), default=0.1
        Probability that a label is outside.
    base_margin : like `y`, optional
        Margin that each row starts from.
    tasks : iterable of task names, optional
        Tasks to draw; by default those with the most rows in `X`.
    max_tasks : int, default=11
        Maximum number of panels of tasks if they are not named.
    max_rows : int, default=200
        Maximum number of labels in a panel; coverages are those of all rows.
    figure : matplotlib.figure.Figure, optional
        Figure, or part of one, to draw on; by default a new one.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        The axes of all panels.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    UnsupportedError
        The model has several classes, ranks rows or predicts times.
    DataError, ParameterError, TypeError
        The model has no conformity scores, rows do not fit it, a task is unknown, or `model` is not
        a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> shop = np.repeat(["a", "b"], 300)
    >>> y = X[:, 0] + rng.normal(size=600)
    >>> even = np.arange(600) % 2 == 0
    >>> fast = {"strategy": "two-stage", "num_boost_round": 10, "intervals": True}
    >>> model = mtboost.fit(X[even], y[even], task=shop[even], **fast)
    >>> panels = mtboost.plotting.plot_intervals(model, X[~even], y[~even], task=shop[~even])
    >>> len(panels)
    3
    """
    check_count("max_tasks", max_tasks, low=1)
    check_count("max_rows", max_rows, low=1)
    own = fitted(model)
    check_scale_of_labels(own, "plot_intervals()")
    rows = labelled_rows(model, X, y, task, None, base_margin)
    sizes = {name: len(part.y) for name, part in rows.items()}
    shown = chosen_tasks(tasks, rows, sizes, max_tasks)
    found = _intervals(own, rows, alpha, base_margin is not None)
    axes = new_panels(figure, 1 + len(shown))
    _draw_coverage(axes[0], [found[name] for name in rows], alpha)
    for panel, name in zip(axes[1:], shown, strict=True):
        _draw(panel, found[name].some(max_rows))
        panel.set_title(f"{name_of(name)}\n{found[name].coverage:.0%} inside", fontsize="medium")
    for panel in axes:
        panel.tick_params(labelbottom=True, labelsize="small")
    parent = axes[0].figure
    parent.supxlabel("prediction", fontsize="medium")
    parent.supylabel(f"label, with {1 - alpha:.3g} intervals", fontsize="medium")
    text = omission(len(shown), len(rows), tasks is not None)
    if text:
        parent.suptitle(f"panels: {text}; dots: all of them", fontsize="small", color=ink())
    return axes


def _intervals(
    model: TasksWithIntervals, rows: dict[TaskName, LabelledRows], alpha: float, has_margins: bool
) -> dict[TaskName, _Intervals]:
    bounds = model.predict_interval(
        {name: part.table.native for name, part in rows.items()},
        alpha=alpha,
        base_margin={name: part.base_margin for name, part in rows.items()}
        if has_margins
        else None,
    )
    found = {}
    for name, part in rows.items():
        predicted = predictions(model, name, part.table, part.base_margin)
        order = np.argsort(predicted, kind="stable")
        low, high = bounds[name][order].T
        found[name] = _Intervals(predicted[order], low, high, part.y[order])
    return found


def _draw_coverage(ax: Any, found: list[_Intervals], alpha: float) -> None:
    n_rows = np.array([len(own.y) for own in found])
    ax.plot(
        n_rows,
        [own.coverage for own in found],
        "o",
        color=COLORS[0],
        markersize=4 if len(found) <= 60 else 2.5,
        alpha=0.8 if len(found) <= 60 else 0.5,
    )
    n = np.geomspace(max(1, n_rows.min()), max(2, n_rows.max()), 50)
    half = Z_95 * np.sqrt(alpha * (1 - alpha) / n)
    ax.axhline(1 - alpha, color=ink(), linewidth=1.0)
    for bound in (1 - alpha - half, np.minimum(1.0, 1 - alpha + half)):
        ax.plot(n, bound, "--", color=ink(), linewidth=0.8)
    if n_rows.max() > _WIDE * n_rows.min():
        ax.set_xscale("log", subs=())
        ax.xaxis.get_major_locator().set_params(subs=(1.0, 2.0, 5.0))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("")
    ax.set_title("coverage of all tasks,\nby their rows", fontsize="medium")
    ax.set_ylim(max(-0.02, min(own.coverage for own in found) - 0.1), 1.02)


def _draw(ax: Any, rows: _Intervals) -> None:
    low, high = (np.where(np.isfinite(own), own, np.nan) for own in (rows.low, rows.high))
    is_in = rows.is_covered
    ax.fill_between(rows.predicted, low, high, color=FAINT, alpha=0.5, linewidth=0)
    ax.plot(rows.predicted, rows.predicted, color=ink(), linewidth=0.8)
    look: dict[str, Any] = {"color": COLORS[0], "markerfacecolor": paper(), "markersize": 3}
    ax.plot(rows.predicted[is_in], rows.y[is_in], "o", markeredgewidth=0.7, **look)
    ax.plot(rows.predicted[~is_in], rows.y[~is_in], "x", color=COLORS[1], markersize=5)
    ax.locator_params(nbins=4)
