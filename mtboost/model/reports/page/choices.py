# SPDX-License-Identifier: Apache-2.0
"""The data that a model learned from, and what was compared and chosen."""

from __future__ import annotations

from collections import Counter

from mtboost.model.plots.drawing import full_name
from mtboost.model.plots.history import plot_search
from mtboost.model.plots.sharing import plot_sharing, way_of
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.reports.page.elements import Child, element, figure, table
from mtboost.model.reports.page.rows import largest_tasks

_WAYS = {
    "common": "the common model alone",
    "common + specific": "the common model, continued by a specific model",
    "averaged": "the average of the common model and an independent model",
    "independent": "trees of the task alone, without the common model",
}


def data_section(model: FittedTasks) -> list[Child]:
    reports = model.reports
    has_positives = any(report.n_positives is not None for report in reports.values())
    head = ["task", "rows", *["positive"] * has_positives, "validation rows"]
    head += [*["positive among them"] * has_positives, "features"]
    shown, note = largest_tasks(model)
    rows = []
    for task in shown:
        report = reports[task]
        positives = [_share(report.n_positives, report.n_rows)] * has_positives
        valid = [_share(report.n_valid_positives, report.n_valid_rows)] * has_positives
        cells = [f"{report.n_rows:,}", *positives, f"{report.n_valid_rows:,}", *valid]
        rows.append([full_name(task), *cells, f"{model.task_columns[task].n:,}"])
    return [
        element(
            "p",
            "Rows of each task that the model learned from, and those that were held out to choose "
            "rounds and settings. Where each row was held out once, both are all rows.",
        ),
        note,
        table(head, rows),
        element("h3", "Features"),
        element("p", _features(model)),
    ]


def _share(count: int | None, n: int) -> str:
    if count is None:
        return ""
    return f"{count:,} ({count / n:.1%})" if n else f"{count:,}"


def _features(model: FittedTasks) -> str:
    common = model.common_columns
    if common.names is None:
        return f"{common.n:,} columns without names."
    own: set[str] = set().union(*(columns.names or () for columns in model.task_columns.values()))
    further = sorted(own - set(common.names))
    text = f"{common.n:,} in the common model: {', '.join(common.names)}."
    return text + (f" Of single tasks: {', '.join(further)}." if further else "")


def choices_section(model: FittedTasks) -> list[Child]:
    found: list[Child] = []
    if model.common_losses:
        text = "The search compared common models by their mean loss over all validation rows."
        if model.common_choice:
            text += f" It chose: {model.common_choice}."
        if model.has_task_levels:
            text += " After the trees of this model the levels of the tasks were estimated again."
        found.append(element("p", text))
        found.append(
            figure(
                "search",
                "Common models that were compared.",
                "The filled dot was chosen. A model that shares less must be better by more than "
                "one standard error.",
                lambda: plot_search(model),
            )
        )
    else:
        found.append(element("p", "There was no search: the settings were given."))
    if model.shrinkage_factor is not None:
        found.append(element("p", _shrinkage(model.shrinkage_factor)))
    ways = Counter(way_of(report) for report in model.reports.values())
    rows = [[text, f"{ways[way]:,}"] for way, text in _WAYS.items() if ways[way]]
    found += [element("h3", "What the tasks use"), table(["a task uses", "tasks"], rows)]
    used = {(own.quit_round, own.specific_rounds) for own in model.reports.values()}
    if len(used) == 1 and not any(ways[way] for way in _WAYS if way != "common"):
        n_rounds = model.quit_round[next(iter(model.tasks))]
        found.append(element("p", f"All of them use the same {n_rounds:,} common rounds."))
        return found
    found.append(
        figure(
            "sharing",
            "Rounds that each task uses.",
            "Grey: the common model. Coloured: trees of the task alone. The largest task is first.",
            lambda: plot_sharing(model),
        )
    )
    return found


def _shrinkage(factor: float) -> str:
    """Return a sentence on how far predictions are shrunk towards a constant."""
    if factor == 1.0:
        return "Predictions are not shrunk towards a constant."
    if factor == 0.0:
        return (
            "All predictions are a constant: on the validation rows the model was worse, by more "
            "than chance."
        )
    return (
        f"All margins are shrunk towards a constant, to {factor:.0%} of their distance from it: "
        "the validation rows do not support more."
    )
