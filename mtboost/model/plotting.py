# SPDX-License-Identifier: Apache-2.0
"""Figures; importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.axes
import matplotlib.pyplot as plt
import numpy as np

from mtboost.base.tasks import TaskName
from mtboost.errors import DataError
from mtboost.model.reports import TaskReport

_N_DRAWN = 10


def plot_history(
    reports: Mapping[TaskName, TaskReport],
    metric: str | Mapping[TaskName, str],
    *,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """See :meth:`mtboost.MultiTaskModel.plot_history`."""
    drawn = [
        task
        for task, report in reports.items()
        if np.isfinite([*report.common_history, *report.specific_history]).any()
    ]
    if not drawn:
        raise DataError(
            "This model has no validation curves to draw: fit it with validation rows (eval_set, "
            "or validation_fraction above 0)."
        )
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    is_mixed = not isinstance(metric, str)
    for task in sorted(drawn, key=lambda task: -reports[task].n_rows)[:_N_DRAWN]:
        report = reports[task]
        common, specific = report.common_history, report.specific_history
        label = str(task)
        if not isinstance(metric, str):  # metrics of different units
            common, specific = common / common[0], specific / common[0]
            label = f"{task}: {metric[task]}"
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
        "validation metric / the same at the start" if is_mixed else f"validation {metric}"
    )
    ax.legend(title="task")
    return ax
