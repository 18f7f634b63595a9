# SPDX-License-Identifier: Apache-2.0
"""What to know before use: warnings of the training rows, and of the test rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtboost.base.tasks import TaskName
from mtboost.model.plots.drawing import full_name
from mtboost.model.prediction.evaluation import ALL_TASKS, GAIN_OVER
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.reports.page.elements import Element, element
from mtboost.model.reports.page.rows import UnseenRows

_N_NAMED = 10
#: Probability of a normal deviate beyond two standard errors, on one side.
_TAIL = 0.023


def cautions_section(model: FittedTasks, test: UnseenRows | None) -> list[Element]:
    found = [*_warnings_of_training(model), *_warnings_of_test(model, test)]
    if not found:
        return [element("p", "There are no warnings.")]
    return [element("ul", *(element("li", text) for text in found), class_="warnings")]


def _warnings_of_training(model: FittedTasks) -> list[str]:
    reports = model.reports
    few = [task for task, report in reports.items() if report.validation_note]
    none = [task for task, report in reports.items() if not report.n_valid_rows]
    one_class = [
        task
        for task, report in reports.items()
        if report.n_positives is not None and report.n_positives in (0, report.n_rows)
    ]
    left_out = [name for name, loss in model.common_losses.items() if np.isnan(loss)]
    found = []
    if one_class:
        found.append(f"The training rows of {_some(one_class)} are all of one class.")
    if few:
        found.append(
            "Few validation rows, or few of a class, so that their validation scores are within "
            f"noise: {_some(few)}."
        )
    if none:
        found.append(f"No validation rows: {_some(none)}.")
    if left_out:
        found.append(
            f"For lack of time the search left out {len(left_out)} of {len(model.common_losses)} "
            "common models."
        )
    return found


def _warnings_of_test(model: FittedTasks, test: UnseenRows | None) -> list[str]:
    if test is None:
        return [
            "No test rows were given. Validation rows, by which rounds and settings were chosen, "
            "make scores too good: pass X and y that the model was not trained on."
        ]
    scores = test.table
    found = []
    missing = [task for task in model.tasks if task not in scores.index]
    if missing:
        found.append(f"No test rows: {_some(missing)}.")
    rows = scores.drop(index=ALL_TASKS, errors="ignore")
    for name in rows.columns:
        if GAIN_OVER not in name or name.endswith(" se"):
            continue
        gain, error = (rows[own].to_numpy(np.float64) for own in (name, f"{name} se"))
        worse = rows.index[gain < -2.0 * error].tolist()
        if worse:
            metric, other = name.split(GAIN_OVER)
            n = int(np.isfinite(gain).sum())
            found.append(
                f"By more than two standard errors worse than {other} in {metric}: {_some(worse)}. "
                f"Were the two equally good for all {n:,} tasks, about {_TAIL * n:.2g} would be so "
                "by chance."
            )
    return found


def _some(tasks: Sequence[TaskName]) -> str:
    """Return the number of tasks and the names of the first."""
    names = ", ".join(full_name(task) for task in tasks[:_N_NAMED])
    more = f", and {len(tasks) - _N_NAMED:,} more" if len(tasks) > _N_NAMED else ""
    count = "task" if len(tasks) == 1 else f"{len(tasks):,} tasks"
    return f"{count} {names}{more}" if len(tasks) == 1 else f"{count} ({names}{more})"
