# SPDX-License-Identifier: Apache-2.0
"""Scores of a model beside those of others, task by task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_choice, check_count
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError, ParameterError
from mtboost.model.estimates import make_score
from mtboost.model.plots.drawing import (
    COLORS,
    FAINT,
    MARKERS,
    MOST_NAMES,
    chosen_tasks,
    legend_below,
    name_of,
    new_axes,
    note,
    omission,
    paper,
    rows_height,
    task_rows,
)
from mtboost.model.prediction.evaluation import ALL_TASKS, GAIN_OVER

if TYPE_CHECKING:
    import matplotlib.axes

#: Ratio of the largest to the least score from which on the axis is logarithmic.
_WIDE = 30.0
#: Height of a row's part in which the others are drawn.
_SPREAD = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class _Other:
    """Gains over another model, by task, and their standard errors."""

    name: str
    gain: Float64Array
    error: Float64Array


def plot_gain(
    table: Any,
    metric: str | None = None,
    *,
    tasks: Iterable[TaskName] | None = None,
    max_tasks: int = 30,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """Compare a model with others, task by task: a dumbbell of the scores for each.

    A filled dot is the model's score, hollow marks are those of the others. Their bars are the
    standard errors of the differences from the model, of the same rows: a bar that reaches the dot
    is a difference of one standard error or less. Tasks are sorted by their gain over the first of
    the others; the first row is that of all tasks together.

    Parameters
    ----------
    table : pandas.DataFrame
        Result of ``model.evaluate(X, y, against={"pooled": pooled, ...})``.
    metric : str, optional
        One of its metrics; by default the first.
    tasks : iterable of task names, optional
        Tasks to draw; by default the largest.
    max_tasks : int, default=30
        Maximum number of tasks if they are not named. The text above the axes counts gains and
        losses of all.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the dumbbells.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    DataError, ParameterError
        The table has no gains, a metric or task is unknown, or a metric is undefined for all tasks.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> shop = np.repeat(["a", "b"], 200)
    >>> y = X[:, 0] * np.where(shop == "a", 1.0, -1.0)
    >>> even = np.arange(400) % 2 == 0
    >>> fast = {"strategy": "two-stage", "num_boost_round": 10}
    >>> model = mtboost.fit(X[even], y[even], task=shop[even], **fast)
    >>> pooled = mtboost.fit(X[even], y[even], **fast)
    >>> new = {"pooled": pooled.predict(X[~even])}
    >>> table = model.evaluate(X[~even], y[~even], task=shop[~even], against=new)
    >>> mtboost.plotting.plot_gain(table).get_xlabel()
    'rmse (less is better)'
    """
    check_count("max_tasks", max_tasks, low=1)
    metric = _metric_of(table, metric)
    is_row = np.isfinite(table[metric].to_numpy(np.float64))
    known = [task for task in table.index[is_row].tolist() if task != ALL_TASKS]
    if not known:
        raise DataError(f"{metric} is undefined for every task of the table.")
    sizes = dict(zip(table.index.tolist(), table["rows"].tolist(), strict=True))
    shown = chosen_tasks(tasks, known, sizes, max_tasks)
    first = _others_of(table, metric)[0]
    gains = dict(zip(table.index.tolist(), first.gain.tolist(), strict=True))
    shown.sort(key=lambda task: -np.nan_to_num(gains[task]))
    n_known = len(known)
    places = [table.index.get_loc(task) for task in shown]
    has_all = ALL_TASKS in table.index and n_known > 1
    if has_all:
        places = [table.index.get_loc(ALL_TASKS), *places]
        shown = [ALL_TASKS, *shown]
    sign = 1.0 if _greater_is_better(table, metric) else -1.0
    ax = new_axes(ax, 7.0, rows_height(min(len(shown), MOST_NAMES)))
    _draw(ax, table[metric].to_numpy(np.float64), _others_of(table, metric), sign, places)
    task_rows(ax, shown)
    if has_all:
        ax.axhline(0.5, color=FAINT, linewidth=0.8)
    ax.set_xlabel(f"{metric} ({'greater' if sign > 0 else 'less'} is better)")
    ax.grid(axis="x", color=FAINT, alpha=0.4, linewidth=0.6)
    ax.set_axisbelow(True)
    rows = np.flatnonzero(is_row & (table.index != ALL_TASKS))
    n_undefined = len(table) - len(known) - (ALL_TASKS in table.index)
    note(
        ax,
        _count(first, rows),
        omission(len(shown) - has_all, n_known, tasks is not None),
        f"{metric} is undefined for {n_undefined:,} more" if n_undefined else "",
    )
    return ax


def _draw(
    ax: matplotlib.axes.Axes,
    scores: Float64Array,
    others: list[_Other],
    sign: float,
    places: list[int],
) -> None:
    own = scores[places]
    y = np.arange(len(places))
    found = np.array([own - sign * other.gain[places] for other in others])
    low, high = np.nanmin([*found, own], axis=0), np.nanmax([*found, own], axis=0)
    ax.hlines(y, low, high, color=FAINT, linewidth=2.2, zorder=1)
    shifts = np.linspace(-0.5, 0.5, len(others)) * _SPREAD if len(others) > 1 else [0.0]
    for number, (other, values, shift) in enumerate(zip(others, found, shifts, strict=True)):
        ax.errorbar(
            values,
            y + shift,
            xerr=other.error[places],
            fmt=MARKERS[1 + number % (len(MARKERS) - 1)],
            color=COLORS[(1 + number) % len(COLORS)],
            markerfacecolor=paper(),
            markersize=5,
            elinewidth=1.0,
            label=f"{name_of(other.name)} (bar: standard error of the difference)"
            if len(others) == 1
            else name_of(other.name),
            zorder=2,
        )
    ax.plot(own, y, "o", color=COLORS[0], markersize=6, label="this model", zorder=3)
    values = np.array([low, high])
    if low.min() > 0 and np.nanmax(values) > _WIDE * np.nanmin(values):
        ax.set_xscale("log")
    title = None if len(others) == 1 else "bars: standard errors of differences from this model"
    legend_below(ax, 1 if len(others) == 1 else 3, title=title, title_fontsize="small")


def _count(other: _Other, rows: Any) -> str:
    """Return a sentence on how many tasks gain and lose."""
    gain, error = other.gain[rows], other.error[rows]
    better, worse = gain > 0, gain < 0
    sure = np.abs(gain) > 2.0 * error
    return (
        f"better than {name_of(other.name)} for {better.sum():,} of {len(rows):,} tasks "
        f"({(better & sure).sum():,} by more than 2 standard errors),\nworse for {worse.sum():,} "
        f"({(worse & sure).sum():,})"
    )


def _metric_of(table: Any, metric: str | None) -> str:
    names = [str(name) for name in getattr(table, "columns", ())]
    known = list(dict.fromkeys(name.split(GAIN_OVER)[0] for name in names if GAIN_OVER in name))
    if not known:
        raise DataError(
            "table has no gains over other models: pass the result of model.evaluate(X, y, "
            "against={'pooled': other})."
        )
    if metric is None:
        return known[0]
    return check_choice("metric", metric, known)


def _others_of(table: Any, metric: str) -> list[_Other]:
    start = f"{metric}{GAIN_OVER}"
    names = [name for name in table.columns if name.startswith(start)]
    return [
        _Other(
            name.removeprefix(start),
            table[name].to_numpy(np.float64),
            table[f"{name} se"].to_numpy(np.float64),
        )
        for name in names
        if f"{name} se" in table.columns
    ]


def _greater_is_better(table: Any, metric: str) -> bool:
    known = table.attrs.get("greater_is_better", {})
    if metric in known:
        return bool(known[metric])
    try:
        return make_score(metric, 2, 0).greater_is_better
    except ParameterError:
        raise DataError(
            f"table does not say whether a greater {metric} is better: pass the result of "
            f"evaluate() itself, or set table.attrs['greater_is_better'] = {{{metric!r}: True}}."
        ) from None
