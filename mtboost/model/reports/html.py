# SPDX-License-Identifier: Apache-2.0
"""A model as notebooks show it: a table of its tasks, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from mtboost.base.tasks import TaskName
from mtboost.model.parts.task_report import TaskReport

#: Tasks in the table; the largest are shown.
_N_SHOWN = 20
_CELL = "padding: 0.2em 0.8em; text-align: right"


def model_html(
    title: str, reports: Mapping[TaskName, TaskReport], metric: str | Mapping[TaskName, str]
) -> str:
    """Return a heading and a row for each task: its rows, what it uses, and its validation score.

    Parameters
    ----------
    title : str
    reports : mapping of task name to TaskReport
    metric : str, or mapping of task name to str
    """
    by_size = sorted(reports, key=lambda task: -reports[task].n_rows)[:_N_SHOWN]
    shown = [task for task in reports if task in set(by_size)]
    has_sharing = any(report.sharing for report in reports.values())
    head = ["task", "rows", *(["sharing"] if has_sharing else [])]
    head += ["common rounds", "specific rounds", "validation"]
    rows = []
    for task in shown:
        report = reports[task]
        own = metric if isinstance(metric, str) else metric[task]
        score = report.scores.get("final", math.nan)
        rows.append(
            [
                task,
                report.n_rows,
                *([report.sharing] if has_sharing else []),
                report.quit_round,
                report.specific_rounds,
                "" if math.isnan(score) else f"{own} {score:.4g}",
            ]
        )
    n_more = len(reports) - len(shown)
    more = f"<p>{n_more} smaller tasks are not shown: <code>report()</code> has all.</p>"
    return (
        f"<div><p>{escape(title)}</p>"
        f'<table style="border-collapse: collapse"><thead>{_row("th", head)}</thead>'
        f"<tbody>{''.join(_row('td', row) for row in rows)}</tbody></table>"
        f"{more if n_more else ''}</div>"
    )


def _row(cell: str, values: list[Any]) -> str:
    cells = (f'<{cell} style="{_CELL}">{escape(str(value))}</{cell}>' for value in values)
    return f"<tr>{''.join(cells)}</tr>"
