# SPDX-License-Identifier: Apache-2.0
"""What sections of the report share: rows to judge by, and the tasks that tables list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mtboost.base.tasks import TaskName
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.reports.page.elements import Child, element

#: Rows of a table; the largest tasks are shown.
MOST_ROWS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class UnseenRows:
    """Rows that the model was not trained on, as the user gave them, and their evaluation.

    Attributes
    ----------
    X, y, task, weight, base_margin : object
    table : pandas.DataFrame
        Result of ``evaluate``.
    """

    X: Any
    y: Any
    task: Any
    weight: Any
    base_margin: Any
    table: Any


def largest_tasks(model: FittedTasks) -> tuple[list[TaskName], Child]:
    """Return the tasks that tables list, and a note on the others."""
    by_size = sorted(model.tasks, key=lambda task: -model.reports[task].n_rows)
    return by_size[:MOST_ROWS], note_on_others(len(by_size))


def note_on_others(n_tasks: int) -> Child:
    """Return a note on the tasks that a table leaves out, if any."""
    n_more = n_tasks - MOST_ROWS
    text = f"The {MOST_ROWS:,} largest tasks; {n_more:,} more are not listed."
    return element("p", text, class_="quiet") if n_more > 0 else None
