# SPDX-License-Identifier: Apache-2.0
"""Tables of different units, new tasks and nearly certain classes, for published.py."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from markdown_tables import plain, results, seconds, table
from task_comparison import verdict


def different_units() -> str:
    """Percentages by which RMSE of all rows is lower than that of each other method."""
    return _percentages(_units("rmse"), "fit", "RMSE in % below that of")


def different_units_by_task() -> str:
    """Explained variance, mean over tasks, of each method; in how many runs tasks have units."""
    values, found = _units("explained"), results("different_units")
    runs = found[found["method"] == "fit"]
    has_units = runs["chosen"].map(lambda chosen: chosen["own units"]).groupby(runs["data"])

    def rows() -> Iterator[list[str]]:
        for name, own in values.groupby(level="data", sort=False):
            acted = has_units.get_group(name)
            means = [plain(own[method].mean()).replace("-", "−") for method in values]
            yield [str(name), f"{acted.sum()} of {len(acted)}", *means]
        yield ["mean rank", "", *_mean_ranks(-values)]

    text = table(["explained variance", "own units", *values], rows())
    counts = {"better": 0, "tied": 0, "worse": 0}
    for _, own in values.groupby(level="data", sort=False):
        for method in values.columns.drop("fit"):
            gain = own["fit"] - own[method]
            if (gain != 0.0).any():
                counts[verdict(gain.mean(), gain.sem())] += 1
    return text + _sentence("fit", values, counts)


def _units(score: str) -> pd.DataFrame:
    found = results("different_units")
    found["value"] = found["scores"].map(lambda scores: scores[score])
    values = _wide(found, "method")
    same = values["fit, one squared error"].isna()  # it is not run where it is the same model
    return values.assign(
        **{"fit, one squared error": values["fit, one squared error"].mask(same, values["fit"])}
    )


def new_tasks() -> str:
    """Percentages by which the loss of added tasks is lower than that of each other way."""
    found = results("new_tasks").rename(columns={"score": "value"})
    used = found.groupby("way", sort=False)["seconds"].mean()
    last = ["processor seconds", seconds(used["add_task"]), *map(seconds, used.drop("add_task"))]
    return _percentages(_wide(found, "way"), "add_task", "loss in % below that of", last)


def certain_classes() -> str:
    """Log loss of each method, and by how many % that of fit is lower."""
    found = results("certain_classes")
    found["value"] = found["scores"].map(lambda scores: scores["logloss"])
    return _percentages(_wide(found, "method"), "fit", "log loss in % below that of")


def _wide(found: pd.DataFrame, methods: str) -> pd.DataFrame:
    """A row for each data set and seed, a column for each method."""
    names = list(dict.fromkeys(found["data"]))
    wide = found.pivot_table(
        index=["data", "seed"], columns=methods, values="value", sort=False, dropna=False
    )
    return wide.reindex(names, level="data")[list(dict.fromkeys(found[methods]))]


def _percentages(
    values: pd.DataFrame, reference: str, title: str, last: list[str] | None = None
) -> str:
    """Table of paired gains of the reference, in % of each other method, and mean ranks."""
    others = [method for method in values if method != reference]
    counts = {"better": 0, "tied": 0, "worse": 0}
    lines = []
    for name, own in values.groupby(level="data", sort=False):
        cells = []
        for method in others:
            percent = 100.0 * (1.0 - own[reference] / own[method])
            if (percent == 0.0).all():
                cells.append("the same")
                continue
            counts[verdict(percent.mean(), percent.sem())] += 1
            cells.append(f"{percent.mean():+.1f}\u00a0±\u00a0{percent.sem():.1f}")
        level = plain(own[reference].mean())
        lines.append([str(name), level, *(cell.replace("-", "−") for cell in cells)])
    lines.append(["mean rank", *_mean_ranks(values[[reference, *others]])])
    head = [title, f"({reference})", *others]
    text = table(head, [*lines, *([last] if last else [])])
    return text + _sentence(reference, values, counts)


def _sentence(reference: str, values: pd.DataFrame, counts: dict[str, int]) -> str:
    n_seeds = values.index.get_level_values("seed").nunique()
    return (
        f"\nMeans of {n_seeds} seeds. By two standard errors of the paired differences "
        f"`{reference}` is better in {counts['better']} comparisons,\ntied in {counts['tied']} "
        f"and worse in {counts['worse']}.\n"
    )


def _mean_ranks(values: pd.DataFrame) -> list[str]:
    """Mean rank of each method over data sets and seeds; the least value is first."""
    return [f"{rank:.1f}" for rank in values.rank(axis=1).mean()]


TABLES = (different_units, different_units_by_task, new_tasks, certain_classes)
