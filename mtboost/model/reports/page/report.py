# SPDX-License-Identifier: Apache-2.0
"""The report: what an auditor, or a colleague in a year, wants to know of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mtboost.model.inputs.named_objectives import names_of_objectives
from mtboost.model.parts.task_report import trained_strategy
from mtboost.model.plots.history import plot_history_grid
from mtboost.model.prediction.contributions import ExplainedTasks
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.reports.page.behaviour import behaviour_section
from mtboost.model.reports.page.cautions import cautions_section
from mtboost.model.reports.page.choices import choices_section, data_section
from mtboost.model.reports.page.elements import (
    Child,
    Element,
    element,
    figure,
    page_bytes,
    plots_for_pages,
)
from mtboost.model.reports.page.rows import UnseenRows
from mtboost.model.reports.page.scores import scores_section
from mtboost.model.reports.page.settings import settings_section
from mtboost.model.reports.page.style import STYLE


def report_page(
    model: ExplainedTasks, parts: Mapping[str, Any], title: str, test: UnseenRows | None
) -> bytes:
    """Return the page.

    Parameters
    ----------
    model : ExplainedTasks
    parts : mapping
        The fields of the model by name.
    title : str
    test : UnseenRows, optional
    """
    with plots_for_pages():
        sections: list[tuple[str, str, Sequence[Child]]] = [
            ("warnings", "Know before use", cautions_section(model, test)),
            ("data", "Data", data_section(model)),
            ("choices", "What was compared and chosen", choices_section(model)),
            ("scores", "Scores", scores_section(model, test)),
            ("behaviour", "What predictions depend on", behaviour_section(model, test)),
            ("training", "Training", _training(model)),
            ("settings", "Settings and versions", settings_section(model, parts)),
        ]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    header = element(
        "header",
        element("h1", title),
        element("p", f"{_kind(model)}. Written on {now}."),
        element("nav", *(element("a", name, href=f"#{key}") for key, name, _ in sections)),
        _facts(model),
    )
    body = [
        element("section", element("h2", name), *content, id=key) for key, name, content in sections
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content="mtboost"),
        element("title", title),
        element("style", STYLE),
    )
    root = element("html", head, element("body", element("main", header, *body)), lang="en")
    return page_bytes(root)


def _kind(model: FittedTasks) -> str:
    objectives = ", ".join(names_of_objectives(model.objective))
    strategy = trained_strategy(model.reports)
    return f"Multi-task model of {model.backend}, {objectives}, strategy {strategy!r}"


def _facts(model: FittedTasks) -> Element:
    reports = model.reports.values()
    n_features = {columns.n for columns in model.task_columns.values()}
    n_rows, n_valid = (
        sum(getattr(report, name) for report in reports) for name in ("n_rows", "n_valid_rows")
    )
    facts = {
        "tasks": f"{len(model.tasks):,}",
        "training rows": f"{n_rows:,}",
        "validation rows": f"{n_valid:,}",
        "features of a task": _range(n_features),
        "common rounds used": _range(set(model.quit_round.values())),
        "tasks with their own trees": f"{sum(report.specific_rounds > 0 for report in reports):,}",
    }
    pairs = (
        element("div", element("dt", name), element("dd", value)) for name, value in facts.items()
    )
    return element("dl", *pairs, class_="facts")


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} – {high:,}"


def _training(model: FittedTasks) -> list[Child]:
    return [
        figure(
            "history",
            "Validation curves.",
            "The vertical line is the last common round that the task uses; dashed: its own model.",
            lambda: plot_history_grid(model),
        )
    ]
