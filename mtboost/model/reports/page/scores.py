# SPDX-License-Identifier: Apache-2.0
"""Scores of validation rows or of test rows, with the plots that belong to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mtboost.model.estimates import OTHER_METRIC
from mtboost.model.plots.calibration import plot_calibration
from mtboost.model.plots.drawing import full_name
from mtboost.model.plots.gain import plot_gain
from mtboost.model.plots.intervals import plot_intervals
from mtboost.model.prediction.evaluation import ALL_TASKS, GAIN_OVER
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.reports.page.elements import Child, element, figure, table
from mtboost.model.reports.page.rows import MOST_ROWS, UnseenRows, largest_tasks, note_on_others


def scores_section(model: FittedTasks, test: UnseenRows | None) -> list[Child]:
    return _validation_scores(model) if test is None else _test_scores(model, test)


def _validation_scores(model: FittedTasks) -> list[Child]:
    shown, note = largest_tasks(model)
    scored = {name: None for task in shown for name in model.reports[task].scores}
    head = ["task", "metric", *(name.replace(OTHER_METRIC, " ") for name in scored)]
    cells = []
    for task in shown:
        own = model.reports[task].scores
        values = [_number(own.get(name, np.nan)) for name in scored]
        cells.append([full_name(task), model._metric_of(task), *values])
    if not scored:
        return [element("p", "There are no scores: no validation rows were held out.")]
    return [
        element(
            "p",
            "Validation scores, by which rounds and settings were chosen: they are too good. "
            "“final” is that of what the task uses, the others are those of what it could use.",
        ),
        note,
        table(head, cells),
    ]


def _test_scores(model: FittedTasks, test: UnseenRows) -> list[Child]:
    scores = test.table
    metrics = [name for name in scores.columns if f"{name} se" in scores.columns]
    has_positives = "positives" in scores.columns
    by_size = scores["rows"].drop(index=ALL_TASKS, errors="ignore")
    order = by_size.sort_values(ascending=False, kind="stable").index.tolist()
    shown = [ALL_TASKS] * (ALL_TASKS in scores.index) + order[:MOST_ROWS]
    rows = []
    for task in shown:
        own = scores.iloc[scores.index.get_loc(task)]  # loc would take a nested task apart
        counts = [f"{int(own['rows']):,}"]
        if has_positives:
            n = own["positives"]
            counts.append("" if np.isnan(n) else f"{int(n):,}")
        rows.append([full_name(task), *counts, *(_score(own, name) for name in metrics)])
    found: list[Child] = [
        element(
            "p",
            "Scores of the test rows, ± one standard error. Errors treat rows as independent "
            "draws. A gain over another model is positive where this model is better, and its "
            "error is that of the difference on the same rows; * marks more than two of them.",
        ),
        note_on_others(len(order)),
    ]
    head = ["task", "test rows", *["positive"] * has_positives, *metrics]
    found.append(table(head, rows))
    if any(GAIN_OVER in name for name in metrics):
        found.append(
            figure(
                "gain",
                "This model beside others.",
                "One row a task: the filled dot is this model. A bar that reaches the dot is a "
                "difference within one standard error.",
                lambda: plot_gain(scores),
            )
        )
    rows_of_test = {"task": test.task, "weight": test.weight, "base_margin": test.base_margin}
    found.append(
        figure(
            "calibration",
            "Calibration.",
            "On the diagonal predictions mean what they say; bars are 95 % intervals.",
            lambda: plot_calibration(model, test.X, test.y, **rows_of_test),
        )
    )
    if model.conformity_scores:
        found.append(
            figure(
                "intervals",
                "Prediction intervals.",
                "First panel: the fraction of labels inside, a dot for each task; 95 % of them "
                "should be between the dashed lines. Others: labels, crosses are outside.",
                lambda: plot_intervals(
                    model, test.X, test.y, task=test.task, base_margin=test.base_margin
                ),
            )
        )
    return found


def _score(row: Any, name: str) -> str:
    """Return a score with its error; a star marks a gain that is more than noise."""
    value, error = row[name], row[f"{name} se"]
    is_sure = GAIN_OVER in name and abs(value) > 2.0 * error
    return f"{_with_error(value, error)} *" if is_sure else _with_error(value, error)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def _with_error(value: float, error: float) -> str:
    """Return a number and its error to two digits of the error."""
    if not np.isfinite(value) or not np.isfinite(error) or error <= 0:
        return _number(value)
    digits = int(np.clip(1 - np.floor(np.log10(error)), 0, 8))
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"
