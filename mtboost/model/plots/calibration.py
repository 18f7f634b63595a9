# SPDX-License-Identifier: Apache-2.0
"""Labels against predictions, task by task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count
from mtboost.base.row_order import reading_rows
from mtboost.base.tasks import TaskName
from mtboost.model.estimates import weighted_mean
from mtboost.model.plots.drawing import (
    COLORS,
    FAINT,
    Z_95,
    chosen_tasks,
    ink,
    name_of,
    new_panels,
)
from mtboost.model.plots.rows import (
    check_scale_of_labels,
    fitted,
    labelled_rows,
    predictions,
)
from mtboost.model.prediction.evaluation import ALL_TASKS
from mtboost.trees.losses import is_classification

if TYPE_CHECKING:
    import matplotlib.figure

#: Rows of a bin that its mean needs.
_LEAST_ROWS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Rows in bins of equal counts of their predictions.

    Attributes
    ----------
    predicted, observed : ndarray of float64, shape (n_bins,)
        Mean prediction and mean label of each bin.
    low, high : ndarray of float64, shape (n_bins,)
        95 % interval of the mean label.
    """

    predicted: Float64Array
    observed: Float64Array
    low: Float64Array
    high: Float64Array


@reading_rows
def plot_calibration(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    weight: Any = None,
    base_margin: Any = None,
    tasks: Iterable[TaskName] | None = None,
    max_tasks: int = 11,
    n_bins: int = 10,
    figure: matplotlib.figure.Figure | None = None,
) -> Any:
    """Plot mean labels against mean predictions, a panel for each task.

    Rows of a task are put into bins of equal counts by their predictions. On the diagonal a model
    is calibrated. Bars are 95 % intervals of the mean label: Wilson's for classes, else 1.96
    standard errors. The first panel has the rows of all tasks, where they have one objective.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model with one prediction a row.
    X : table of shape (n_rows, n_features), or mapping of task name to table
        Rows that the model was not trained on.
    y : array-like of shape (n_rows,), or mapping of task name to array-like
        Labels as in training.
    task : array-like of shape (n_rows,), or str or int, optional
        Task of each row, or the column of `X` that holds it; by default as in training.
    weight : like `y`, optional
        Row weights >= 0.
    base_margin : like `y`, optional
        Margin that each row starts from.
    tasks : iterable of task names, optional
        Tasks to draw; by default those with the most rows in `X`.
    max_tasks : int, default=11
        Maximum number of tasks if they are not named.
    n_bins : int, default=10
        Maximum number of bins of a task; there are fewer where bins would have less than 20 rows.
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
        The model ranks, or has several classes.
    DataError, TypeError
        Rows do not fit the model, a task is unknown, or `model` is not a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> shop = np.repeat(["a", "b"], 300)
    >>> y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    >>> even = np.arange(600) % 2 == 0
    >>> fast = {"strategy": "two-stage", "num_boost_round": 10}
    >>> model = mtboost.fit(X[even], y[even], task=shop[even], **fast)
    >>> panels = mtboost.plotting.plot_calibration(model, X[~even], y[~even], task=shop[~even])
    >>> [panel.get_title() for panel in panels]
    ['all tasks', 'a', 'b']
    """
    check_count("max_tasks", max_tasks, low=1)
    check_count("n_bins", n_bins, low=1)
    own = fitted(model)
    check_scale_of_labels(own, "plot_calibration()")
    rows = labelled_rows(model, X, y, task, weight, base_margin)
    sizes = {name: part.table.n_rows for name, part in rows.items()}
    shown = chosen_tasks(tasks, rows, sizes, max_tasks)
    has_all = len(rows) > 1 and not own.losses
    found: dict[TaskName, tuple[Float64Array, Float64Array, Float64Array]] = {}
    for name, part in rows.items():
        if name in shown or has_all:
            predicted = predictions(own, name, part.table, part.base_margin)
            found[name] = predicted, part.y, part.weight
    panels: list[tuple[str, Reliability]] = []
    if has_all:
        together = map(np.concatenate, zip(*found.values(), strict=True))
        predicted, labels, weights = together
        curve = reliability(predicted, labels, weights, n_bins, _is_binary(own, shown[0]))
        panels.append((ALL_TASKS, curve))
    for name in shown:
        curve = reliability(*found[name], n_bins, _is_binary(own, name))
        panels.append((name_of(name), curve))
    shares = not own.losses
    axes = new_panels(figure, len(panels), sharex=shares, sharey=shares)
    for panel, (title, curve) in zip(axes, panels, strict=True):
        _draw(panel, curve)
        panel.set_title(title, fontsize="medium")
    parent = axes[0].figure
    parent.supxlabel("mean prediction", fontsize="medium")
    parent.supylabel("mean label, with 95 % intervals", fontsize="medium")
    if len(shown) < len(rows):
        kind = "" if tasks is not None else "largest "
        text = f"{len(shown):,} {kind}of {len(rows):,} tasks"
        parent.suptitle(text, fontsize="small", color=ink())
    return axes


def _is_binary(model: Any, task: TaskName) -> bool:
    return is_classification(model._objective_of(task))


def reliability(
    predicted: Float64Array,
    y: Float64Array,
    weight: Float64Array,
    n_bins: int,
    is_binary: bool,
) -> Reliability:
    """Return the reliability curve of rows; equal predictions are in one bin."""
    n_bins = max(1, min(n_bins, len(y) // _LEAST_ROWS))
    inner = np.quantile(predicted, np.arange(1, n_bins) / n_bins)
    bins = np.searchsorted(np.unique(inner), predicted, side="left")
    found = []
    for number in np.unique(bins):
        own = bins == number
        parts = weight[own] / weight[own].sum()
        mean, n_rows = float(parts @ y[own]), 1.0 / float(parts @ parts)
        low, high = _interval(y[own], parts, mean, n_rows, is_binary)
        found.append((float(parts @ predicted[own]), mean, low, high))
    return Reliability(*np.array(found).T)


def _interval(
    y: Float64Array, parts: Float64Array, mean: float, n_rows: float, is_binary: bool
) -> tuple[float, float]:
    """Return the 95 % interval of a mean label; `n_rows` is the effective number of rows."""
    if is_binary:  # Wilson, 1927
        center = (mean + Z_95**2 / (2 * n_rows)) / (1 + Z_95**2 / n_rows)
        square = mean * (1 - mean) / n_rows + Z_95**2 / (4 * n_rows**2)
        half = Z_95 * np.sqrt(square) / (1 + Z_95**2 / n_rows)
        return center - half, center + half
    error = weighted_mean(y, parts).error
    return mean - Z_95 * error, mean + Z_95 * error


def _draw(ax: Any, curve: Reliability) -> None:
    low = np.nanmin([curve.predicted, curve.observed, curve.low])
    high = np.nanmax([curve.predicted, curve.observed, curve.high])
    ax.axline((low, low), slope=1.0, color=ink(), linewidth=0.8, linestyle="--")
    ax.vlines(curve.predicted, curve.low, curve.high, color=FAINT, linewidth=2.5)
    ax.plot(curve.predicted, curve.observed, "o-", color=COLORS[0], markersize=4, linewidth=1.2)
    ax.update_datalim([(low, low), (high, high)])
    ax.autoscale_view()
    ax.locator_params(nbins=4)
