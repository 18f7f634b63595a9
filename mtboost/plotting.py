# SPDX-License-Identifier: Apache-2.0
"""Figures; importing this module needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.axes
import matplotlib.pyplot as plt
import numpy as np

from mtboost.errors import DataError

if TYPE_CHECKING:
    from mtboost.forests.compression import CvCurve
    from mtboost.models import MultiTaskModel

_N_DRAWN = 10


def plot_history(
    model: MultiTaskModel, *, ax: matplotlib.axes.Axes | None = None
) -> matplotlib.axes.Axes:
    """See :meth:`mtboost.MultiTaskModel.plot_history`."""
    drawn = [
        task
        for task, report in model.reports.items()
        if np.isfinite([*report.common_history, *report.specific_history]).any()
    ]
    if not drawn:
        raise DataError(
            "This model has no validation curves to draw: fit it with validation rows (eval_set, "
            "or validation_fraction above 0)."
        )
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    is_mixed = not isinstance(model.metric, str)
    for task in sorted(drawn, key=lambda task: -model.reports[task].n_rows)[:_N_DRAWN]:
        report = model.reports[task]
        common, specific = report.common_history, report.specific_history
        label = str(task)
        if not isinstance(model.metric, str):  # metrics of different units
            common, specific = common / common[0], specific / common[0]
            label = f"{task}: {model.metric[task]}"
        line = ax.plot(np.arange(common.size), common, label=label, linewidth=1.4)[0]
        quit_at = report.quit_round
        if common.size:
            ax.plot(quit_at, common[quit_at], "o", color=line.get_color())
        if specific.size:
            # An independent model does not begin where the common one ends.
            first = 0 if report.sharing in ("averaged", "independent") else quit_at
            rounds = first + np.arange(specific.size)
            ax.plot(rounds, specific, "--", color=line.get_color(), linewidth=1.4)
    ax.set_xlabel("round (solid: common, dot: last one used, dashed: specific)")
    ax.set_ylabel(
        "validation metric / the same at the start" if is_mixed else f"validation {model.metric}"
    )
    ax.legend(title="task")
    return ax


def plot_cv_curve(
    curve: CvCurve, *, ax: matplotlib.axes.Axes | None = None
) -> matplotlib.axes.Axes:
    """See :meth:`mtboost.forests.CompressedForestRegressor.plot_cv_curve`."""
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    ax.plot(curve.steps, curve.loss, linewidth=1.4, label="mean of the folds")
    low, high = curve.loss - curve.standard_error, curve.loss + curve.standard_error
    ax.fill_between(curve.steps, low, high, alpha=0.25, linewidth=0, label="± standard error")
    ax.axvline(curve.best, color="black", linestyle="--", linewidth=1, label=f"best: {curve.best}")
    ax.set_xlabel("steps")
    ax.set_ylabel("squared error / variance")
    ax.legend()
    return ax
