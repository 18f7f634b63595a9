# SPDX-License-Identifier: Apache-2.0
"""Axes, names and colours of all plots.

Every series has a marker or a line style besides its colour, and every colour map has a monotone
lightness, so that plots can be read in grey. Text and important marks have matplotlib's text
colour, so that they follow the user's style.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_type, did_you_mean, listed
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError, MissingDependencyError, ParameterTypeError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

#: Colours that people with colour blindness distinguish (Okabe and Ito), and their partners.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#B8860B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
LINE_STYLES = ("-", "--", "-.", ":")
#: Of what stays in the background, on light and on dark paper.
MUTED = "#8a8a8a"
FAINT = "#b9b9b9"
#: From more to less sharing, darker and darker; all are darker than FAINT.
WAY_COLORS = ("#4393c3", "#b2490a", "#1f3a5f")
COLOR_MAP = "cividis"
#: Tasks whose names find room beside their rows.
MOST_NAMES = 40
#: Quantile of the normal distribution for intervals of 95 %.
Z_95 = 1.96
_LONGEST_NAME = 24


def pyplot() -> Any:
    """Import matplotlib.pyplot."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingDependencyError(
            "Plots need matplotlib: pip install 'mtboost[plot]'."
        ) from None
    return plt


# What makes figures: by default pyplot, which shows them in notebooks and windows.
_FIGURE: ContextVar[Callable[..., Any] | None] = ContextVar("figure", default=None)


@contextmanager
def unseen_figures() -> Iterator[None]:
    """Let plots make figures that no notebook or window shows."""
    pyplot()
    from matplotlib.figure import Figure

    token = _FIGURE.set(Figure)
    try:
        yield
    finally:
        _FIGURE.reset(token)


def _new_figure(width: float, height: float) -> matplotlib.figure.Figure:
    make = _FIGURE.get() or pyplot().figure
    figure: matplotlib.figure.Figure = make(figsize=(width, height), layout="constrained")
    return figure


def new_axes(
    ax: matplotlib.axes.Axes | None, width: float = 7.0, height: float = 4.5
) -> matplotlib.axes.Axes:
    """Return the given axes, or those of a new figure of this size in inches."""
    if ax is None:
        return _new_figure(width, height).subplots()
    check_type("ax", ax, pyplot().Axes, "axes of matplotlib, such as plt.gca(), or None")
    return ax


def new_panels(
    figure: matplotlib.figure.Figure | None, n: int, **options: Any
) -> npt.NDArray[np.object_]:
    """Return `n` axes in rows of at most four, in the given figure or a new one."""
    n_columns = min(n, 4 if n == 4 or n > 6 else 3)
    n_rows = math.ceil(n / n_columns)
    if figure is None:
        figure = _new_figure(2.6 * n_columns + 0.6, 2.1 * n_rows + 0.8)
    else:
        from matplotlib.figure import FigureBase

        check_type("figure", figure, FigureBase, "a figure of matplotlib, or None")
    grid = figure.subplots(n_rows, n_columns, squeeze=False, **options)
    panels = grid.ravel()
    for unused in panels[n:]:
        unused.remove()
    for place, panel in enumerate(panels[:n]):
        # Those above a removed one have the tick labels that it would have had.
        panel.tick_params(labelbottom=place + n_columns >= n)
    return np.asarray(panels[:n])


def rows_height(n_rows: int) -> float:
    """Return the height of a figure with labelled rows."""
    return max(2.6, 1.5 + 0.23 * n_rows)


def note(ax: matplotlib.axes.Axes, *sentences: str) -> None:
    """Write above the axes what they show and what they leave out."""
    text = "\n".join(sentence for sentence in sentences if sentence)
    ax.set_title(text, loc="left", fontsize="small", color=ink())


def legend_below(ax: matplotlib.axes.Axes, n_columns: int, **options: Any) -> None:
    """Draw the legend below the tick labels and the label of the x axis."""
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        borderaxespad=4.4,  # in units of the font size
        ncols=n_columns,
        frameon=False,
        fontsize="small",
        alignment="left",
        **options,
    )


def legend_beside(ax: matplotlib.axes.Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw the legend of tasks on the right of the axes."""
    ax.legend(
        handles,
        labels,
        title="task",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize="small",
        alignment="left",
    )


def ink() -> Any:
    """Return the colour of text."""
    pyplot()
    import matplotlib

    return matplotlib.rcParams["text.color"]


def paper() -> Any:
    """Return the colour behind the axes, to fill hollow markers with."""
    pyplot()
    import matplotlib

    return matplotlib.rcParams["axes.facecolor"]


def full_name(task: object) -> str:
    """Return a name as text; the labels of a nested task are those of its levels."""
    return " / ".join(map(str, task)) if isinstance(task, tuple) else str(task)


def name_of(task: object, longest: int = _LONGEST_NAME) -> str:
    """Return a task's or feature's name as matplotlib draws it: short, in one line, no formula.

    What is too long loses its middle: long names often differ at their ends alone.
    """
    text = " ".join(full_name(task).split()) or repr(task)
    if len(text) > longest:
        n_last = (longest - 1) // 2
        text = f"{text[: longest - 1 - n_last]}…{text[len(text) - n_last :]}"
    if text.startswith("_"):  # matplotlib leaves such a name out of legends
        text = f" {text}"
    return text.replace("\\", "\\\\").replace("$", r"\$") if "$" in text else text


def style_of(number: int) -> dict[str, Any]:
    """Return colour and line style of a line, different for the first 24; both change each time."""
    style = LINE_STYLES[(number + number // 12) % len(LINE_STYLES)]
    return {"color": COLORS[number % len(COLORS)], "linestyle": style}


def chosen_tasks(
    tasks: Iterable[TaskName] | None,
    known: Collection[TaskName],
    sizes: Mapping[TaskName, float],
    most: int,
) -> list[TaskName]:
    """Return the tasks to draw: those that the caller names, or else the largest, in given order.

    Raises
    ------
    DataError, ParameterTypeError
        A task is unknown, or `tasks` is a name instead of names.
    """
    if isinstance(tasks, str | int):
        raise ParameterTypeError(f"tasks is {tasks!r}: pass a list of names, [{tasks!r}].")
    if tasks is None:
        largest = sorted(known, key=lambda task: -sizes[task])[:most]
        kept = set(largest)
        return [task for task in known if task in kept]
    chosen = list(dict.fromkeys(tasks))
    for task in chosen:
        if task not in known:
            raise DataError(
                f"tasks has {task!r}, of which there is nothing to draw. Known: "
                f"{listed(list(known), 'task')}.{did_you_mean(task, known)}"
            )
    if not chosen:
        raise DataError("tasks is empty: name at least one, or leave it out.")
    return chosen


def omission(n_shown: int, n_all: int, is_choice: bool = False) -> str:
    """Return a sentence on the tasks that are not drawn; empty if all are."""
    if n_shown == n_all:
        return ""
    kind = "" if is_choice else "largest "
    return f"{n_shown:,} {kind}of {n_all:,} tasks"


def task_rows(ax: matplotlib.axes.Axes, tasks: Sequence[TaskName]) -> None:
    """Let the y axis list tasks from top to bottom; without names where there are too many."""
    n = len(tasks)
    if n <= MOST_NAMES:
        ax.set_yticks(range(n), [name_of(task) for task in tasks])
    else:
        places = np.unique(np.linspace(0, n - 1, 6).round().astype(int))
        ax.set_yticks(places, [f"{place + 1:,}" for place in places])
        ax.set_ylabel("task")
    ax.set_ylim(n - 0.5, -0.5)
