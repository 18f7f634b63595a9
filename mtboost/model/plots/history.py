# SPDX-License-Identifier: Apache-2.0
"""Validation curves, and the common models that were compared."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError
from mtboost.model.parts.task_report import TaskReport
from mtboost.model.plots.drawing import (
    COLOR_MAP,
    COLORS,
    FAINT,
    MARKERS,
    chosen_tasks,
    ink,
    legend_below,
    legend_beside,
    name_of,
    new_axes,
    new_panels,
    note,
    omission,
    paper,
    rows_height,
)
from mtboost.model.plots.rows import fitted
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.sharing.evidence import WITH_INDEPENDENT

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

#: Why the chosen model need not have the least loss.
_REASON = (
    "less sharing must be better by more than one standard error;\n"
    "the last comparison is made in smaller steps"
)
#: Characters in a line of a setting's name.
_LINE = 48


def plot_history(
    model: Any,
    *,
    tasks: Iterable[TaskName] | None = None,
    max_tasks: int = 10,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """Plot the validation curves of tasks on one axes, rounds of both stages.

    A solid line is the common model, the mark on it the last round that the task uses, a dashed
    line its specific or independent model. An independent model of ``strategy="auto"``, averaged or
    not, starts at round 0 like the common one. Where metrics have different units, each curve is
    divided by its start.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model.
    tasks : iterable of task names, optional
        Tasks to draw; by default the largest.
    max_tasks : int, default=10
        Maximum number of tasks if they are not named.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the curves.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    DataError, TypeError
        No task has a validation curve, a task is unknown, or `model` is not a fitted model.

    See Also
    --------
    plot_history_grid : A panel for each task.
    plot_search : The common models that ``strategy="auto"`` compared.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> model = mtboost.fit(X, X[:, 0], task=shop, strategy="two-stage", num_boost_round=10)
    >>> mtboost.plotting.plot_history(model).get_ylabel()
    'validation rmse'
    """
    check_count("max_tasks", max_tasks, low=1)
    own = fitted(model)
    known = _with_curves(own)
    shown = _largest_first(own, chosen_tasks(tasks, known, _sizes(own), max_tasks))
    ax = new_axes(ax, 8.0, 4.5)
    metric = own.metric
    is_mixed = not isinstance(metric, str)
    handles, labels = [], []
    from matplotlib import colormaps

    colors: Sequence[Any] = COLORS
    if len(shown) > len(colors):
        colors = [*colormaps[COLOR_MAP](np.linspace(0.0, 0.9, len(shown)))]
    for number, task in enumerate(shown):
        report = own.reports[task]
        start = _start(report) if is_mixed else 1.0
        look = {"color": colors[number], "linewidth": 1.4}
        mark = MARKERS[number % len(MARKERS)]
        common, specific = report.common_history / start, report.specific_history / start
        quit_at = report.quit_round
        # One marker, on the last round that the task uses; the legend has it too. Curves end
        # earlier where the final model has more rounds for more rows.
        last = [quit_at] if quit_at < common.size else []
        rounds = np.arange(common.size)
        handle = ax.plot(rounds, common, marker=mark, markevery=last, **look)[0]
        if specific.size:
            ax.plot(_first(report) + np.arange(specific.size), specific, "--", **look)
        handles.append(handle)
        name = name_of(task)
        labels.append(name if isinstance(metric, str) else f"{name}: {metric[task]}")
    ax.set_xlabel("round (solid: common, mark: last one used, dashed: specific)")
    ax.set_ylabel(
        "validation metric / the same at the start" if is_mixed else f"validation {metric}"
    )
    note(ax, omission(len(shown), len(known), tasks is not None))
    legend_beside(ax, handles, labels)
    return ax


def plot_history_grid(
    model: Any,
    *,
    tasks: Iterable[TaskName] | None = None,
    max_tasks: int = 12,
    figure: matplotlib.figure.Figure | None = None,
) -> npt.NDArray[np.object_]:
    """Plot the validation curves of tasks, a panel for each.

    Curves are divided by their start, so that tasks of all scales are comparable, unless the
    metric may be negative or zero. The vertical line is the last common round that the task uses,
    the dot the final score.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model.
    tasks : iterable of task names, optional
        Tasks to draw; by default the largest.
    max_tasks : int, default=12
        Maximum number of tasks if they are not named.
    figure : matplotlib.figure.Figure, optional
        Figure, or part of one, to draw on; by default a new one.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        The axes of all panels, the largest task first.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    DataError, TypeError
        No task has a validation curve, a task is unknown, or `model` is not a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> model = mtboost.fit(X, X[:, 0], task=shop, strategy="two-stage", num_boost_round=10)
    >>> len(mtboost.plotting.plot_history_grid(model))
    3
    """
    check_count("max_tasks", max_tasks, low=1)
    own = fitted(model)
    known = _with_curves(own)
    shown = _largest_first(own, chosen_tasks(tasks, known, _sizes(own), max_tasks))
    reports = [own.reports[task] for task in shown]
    is_relative = all(_curves(report).min() > 0.0 for report in reports)
    axes = new_panels(figure, len(shown), sharex=True, sharey=is_relative)
    for panel, task, report in zip(axes, shown, reports, strict=True):
        _draw_curves(panel, report, _start(report) if is_relative else 1.0)
        title = name_of(task)
        if not isinstance(own.metric, str):
            title = f"{title}: {own.metric[task]}"
        panel.set_title(title, fontsize="medium")
    axes[0].legend(fontsize="x-small", frameon=False)
    parent = axes[0].figure
    metric = own.metric if isinstance(own.metric, str) else "metric"
    parent.supylabel(
        f"validation {metric}{' / the same at the start' if is_relative else ''}",
        fontsize="medium",
    )
    parent.supxlabel("round", fontsize="medium")
    text = omission(len(shown), len(known), tasks is not None)
    if text:
        parent.suptitle(text, fontsize="small", color=ink())
    return axes


def plot_search(
    model: Any, *, max_models: int = 30, ax: matplotlib.axes.Axes | None = None
) -> matplotlib.axes.Axes:
    """Plot the validation losses of the common models that ``strategy="auto"`` compared.

    The filled dot is the chosen model, `MultiTaskModel.common_choice`. It need not
    have the least loss: a model that shares less must be better by more than one standard error,
    and the best ones are trained once more in smaller steps.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model.
    max_models : int, default=30
        Maximum number of models to draw, those with the least losses.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the losses.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    DataError, TypeError
        The model was not found by a search, or `model` is not a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> shop = np.repeat(["a", "b"], 100)
    >>> model = mtboost.fit(X, X[:, 0], task=shop, effort="fast", num_boost_round=20)
    >>> mtboost.plotting.plot_search(model).get_xlabel()
    'mean validation loss'
    """
    check_count("max_models", max_models, low=1)
    own = fitted(model)
    losses = {name: loss for name, loss in own.common_losses.items() if np.isfinite(loss)}
    if not losses:
        raise DataError(
            "This model has no search to draw: only fit(strategy='auto') compares common models."
        )
    by_loss = sorted(losses, key=losses.__getitem__)
    shown = by_loss[:max_models]
    if own.common_choice in losses and own.common_choice not in shown:
        shown[-1] = own.common_choice
    values = np.array([losses[name] for name in shown])
    places = np.arange(len(shown))
    is_chosen = np.array([name == own.common_choice for name in shown])
    ax = new_axes(ax, 8.0, 1.2 * rows_height(len(shown)))
    ax.hlines(places, values.min(), values, color=FAINT, linewidth=1.0, zorder=1)
    ax.plot(
        values[~is_chosen],
        places[~is_chosen],
        "o",
        color=ink(),
        markerfacecolor=paper(),
        markersize=5,
        label="compared",
    )
    if is_chosen.any():
        look: dict[str, Any] = {"color": COLORS[0], "markersize": 8, "label": "chosen"}
        ax.plot(values[is_chosen], places[is_chosen], "o", **look)
    for value, place in zip(values, places, strict=True):
        ax.annotate(
            f"{value:.4g}",
            (value, place),
            (7, 0),
            textcoords="offset points",
            va="center",
            fontsize="x-small",
        )
    names = ["\n".join(textwrap.wrap(name, _LINE)) for name in shown]
    ax.set_yticks(places, names, fontsize="small")
    ax.margins(x=0.12)
    for text, chosen in zip(ax.get_yticklabels(), is_chosen, strict=True):
        text.set_fontweight("bold" if chosen else "normal")
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlabel("mean validation loss")
    n_left_out = len(own.common_losses) - len(losses)
    note(
        ax,
        f"{len(shown):,} best of {len(losses):,} common models" if len(shown) < len(losses) else "",
        f"{n_left_out:,} more were left out, for lack of time" if n_left_out else "",
        _REASON if shown[0] != own.common_choice and is_chosen.any() else "",
    )
    legend_below(ax, 2)
    return ax


def _with_curves(model: FittedTasks) -> list[TaskName]:
    """Return the tasks that have a validation curve."""
    known = [
        task
        for task, report in model.reports.items()
        if np.isfinite([*report.common_history, *report.specific_history]).any()
    ]
    if not known:
        raise DataError(
            "This model has no validation curves to draw: fit it with validation rows (eval_set, "
            "or validation_fraction above 0). The mean of several models (n_ensemble) has none."
        )
    return known


def _sizes(model: FittedTasks) -> dict[TaskName, int]:
    return {task: report.n_rows for task, report in model.reports.items()}


def _largest_first(model: FittedTasks, tasks: list[TaskName]) -> list[TaskName]:
    return sorted(tasks, key=lambda task: -model.reports[task].n_rows)


def _curves(report: TaskReport) -> Float64Array:
    together = np.concatenate([report.common_history, report.specific_history])
    return np.asarray(together[np.isfinite(together)])


def _start(report: TaskReport) -> float:
    """Return the first known value."""
    return float(_curves(report)[0])


def _first(report: TaskReport) -> int:
    """Return the round at which a task's own curve starts.

    An independent model does not start where the common one ends.
    """
    return 0 if report.sharing in WITH_INDEPENDENT else report.quit_round


def _draw_curves(ax: Any, report: TaskReport, start: float) -> None:
    common, specific = report.common_history / start, report.specific_history / start
    quit_at = report.quit_round
    if common.size:
        ax.plot(np.arange(common.size), common, color=COLORS[0], linewidth=1.4, label="common")
        ax.axvline(quit_at, color=FAINT, linewidth=1.0, label="last used", zorder=0)
        is_last = not specific.size or not report.specific_rounds
        if is_last and quit_at < common.size:
            ax.plot(quit_at, common[quit_at], "o", color=ink(), markersize=4)
    if specific.size:
        rounds = _first(report) + np.arange(specific.size)
        style = {"color": COLORS[1], "linestyle": "--", "linewidth": 1.4}
        ax.plot(rounds, specific, label="its own", **style)
        if report.specific_rounds < specific.size:
            last = report.specific_rounds
            ax.plot(rounds[last], specific[last], "o", color=ink(), markersize=4)
    ax.locator_params(nbins=4)
