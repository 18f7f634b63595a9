"""A model as the members of a file (docs/model_file.md), and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mtboost.backends import get_backend
from mtboost.common_trees import CommonTrees
from mtboost.losses import TaskLoss
from mtboost.pooled_leaves import (
    PooledTrees,
    from_bytes,
    read_task_values,
    to_bytes,
    write_task_values,
)
from mtboost.reports import TaskReport
from mtboost.shrinkage import Population
from mtboost.tables import Columns
from mtboost.task_descriptors import Column, Descriptor, TaskDescriptors
from mtboost.tasks import TaskName

_DESCRIPTORS = "task_descriptors.npy"


def to_parts(model: Mapping[str, Any]) -> tuple[int, dict[str, Any], dict[str, bytes]]:
    """Number of the format, metadata, and members by name, of the fields of a model by name."""
    trees: CommonTrees = model["common_trees"]
    library = trees.backend
    boosters = {"common": trees.booster} | {
        f"specific/{number}": booster
        for number, booster in enumerate(model["specific"].values())
        if booster is not None
    }
    parts = {f"{name}.{library.suffix}": library.dump(each) for name, each in boosters.items()}
    form = 4 if model["losses"] else 1 if library.name == "xgboost" else 2
    if not trees.are_same_for_all:
        parts |= write_task_values(trees.pooled.values)
        if trees.descriptors is not None:
            parts[_DESCRIPTORS] = to_bytes(trees.descriptors.values)
        form = 4
    return form, _metadata(model, trees), parts


def _metadata(model: Mapping[str, Any], trees: CommonTrees) -> dict[str, Any]:
    losses: Mapping[TaskName, TaskLoss] = model["losses"]
    common_losses = model["common_losses"]
    reports: Mapping[TaskName, TaskReport] = model["reports"]
    return {
        "backend": trees.backend.name,
        # Keys of JSON are texts: what a task has of its own stands in its entry.
        "objective": None if losses else model["objective"],
        "metric": None if losses else model["metric"],
        "task_column": model["task_column"],
        "common_columns": _columns_to_json(model["common_columns"]),
        **({"common_losses": common_losses} if common_losses else {}),
        **_tasks_of_trees(trees),
        "tasks": [
            {
                "name": task,
                "quit_round": model["quit_round"][task],
                "columns": _columns_to_json(model["task_columns"][task]),
                **(
                    {"loss": asdict(losses[task]) | {"metric": model["metric"][task]}}
                    if losses
                    else {}
                ),
                "report": _report_to_json(report),
            }
            for task, report in reports.items()
        ],
    }


def _tasks_of_trees(trees: CommonTrees) -> dict[str, Any]:
    """Whose the codes of the task values are; nothing where all tasks have the same trees."""
    if trees.are_same_for_all:
        return {}
    return {
        "pooling": trees.pooled.pooling,
        "pooled_tasks": trees.tasks,
        "has_task_column": trees.has_task_column,
        "shares": [[task, share] for task, share in trees.shares.items()],
        **_descriptors_to_json(trees.descriptors),
    }


def _descriptors_to_json(descriptors: TaskDescriptors | None) -> dict[str, Any]:
    if descriptors is None:
        return {}
    return {
        "descriptors": [asdict(each) for each in descriptors.descriptors],
        "n_described": descriptors.n_trained,
    }


def _read_descriptors(
    metadata: Mapping[str, Any], parts: Mapping[str, bytes]
) -> TaskDescriptors | None:
    if "descriptors" not in metadata:
        return None
    found = []
    for entry in metadata["descriptors"]:
        column, population = entry["column"], entry["population"]
        own = {
            "column": column and Column(**column),
            "population": population and Population(**population),
        }
        found.append(Descriptor(**{**entry, **own}))
    return TaskDescriptors(tuple(found), from_bytes(parts[_DESCRIPTORS]), metadata["n_described"])


def from_parts(metadata: Mapping[str, Any], parts: Mapping[str, bytes]) -> dict[str, Any]:
    """The fields of the model by name."""
    entries = metadata["tasks"]
    library = get_backend(metadata.get("backend", "xgboost"))  # files of format 1 may lack it
    boosters = {
        name.removesuffix(f".{library.suffix}"): library.load(raw)
        for name, raw in parts.items()
        if name.endswith(f".{library.suffix}")
    }
    names = tuple(entry["name"] for entry in entries)
    objective, metric, losses = metadata["objective"], metadata["metric"], {}
    if objective is None:
        given = {entry["name"]: dict(entry["loss"]) for entry in entries}
        metric = {name: loss.pop("metric") for name, loss in given.items()}
        losses = {name: TaskLoss(**loss) for name, loss in given.items()}
        objective = {name: loss.objective for name, loss in losses.items()}
    return {
        "common_trees": CommonTrees(
            library,
            boosters["common"],
            tuple(metadata.get("pooled_tasks", names)),
            PooledTrees(metadata.get("pooling"), read_task_values(parts)),
            metadata.get("has_task_column", False),
            dict(metadata.get("shares", [])),
            _read_descriptors(metadata, parts),
        ),
        "specific": {
            entry["name"]: boosters.get(f"specific/{number}")
            for number, entry in enumerate(entries)
        },
        "quit_round": {entry["name"]: entry["quit_round"] for entry in entries},
        "common_columns": _columns_from_json(metadata["common_columns"]),
        "task_columns": {e["name"]: _columns_from_json(e["columns"]) for e in entries},
        "objective": objective,
        "metric": metric,
        "task_column": metadata["task_column"],
        "reports": {entry["name"]: _report_from_json(entry) for entry in entries},
        "losses": losses,
        "common_losses": metadata.get("common_losses", {}),
    }


def _report_to_json(report: TaskReport) -> dict[str, Any]:
    return {
        "n_rows": report.n_rows,
        "n_valid_rows": report.n_valid_rows,
        "n_positives": report.n_positives,
        "specific_rounds": report.specific_rounds,
        "why_no_specific": report.why_no_specific,
        "sharing": report.sharing,
        "scores": {k: _without_nan(v) for k, v in report.scores.items()},
        "common_history": list(map(_without_nan, report.common_history.tolist())),
        "specific_history": list(map(_without_nan, report.specific_history.tolist())),
    }


def _report_from_json(entry: dict[str, Any]) -> TaskReport:
    report = entry["report"]
    return TaskReport(
        **{
            **report,
            "quit_round": entry["quit_round"],
            "scores": {k: np.nan if v is None else v for k, v in report["scores"].items()},
            "common_history": np.array(report["common_history"], float),
            "specific_history": np.array(report["specific_history"], float),
        }
    )


def _without_nan(value: float) -> float | None:
    """JSON has no NaN; null stands for a metric that is undefined."""
    return value if np.isfinite(value) else None


def _columns_to_json(columns: Columns) -> dict[str, Any]:
    return {"names": columns.names, "n": columns.n, "categories": columns.categories}


def _columns_from_json(columns: dict[str, Any]) -> Columns:
    names = columns["names"]
    return Columns(None if names is None else tuple(names), columns["n"], columns["categories"])
