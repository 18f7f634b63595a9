# SPDX-License-Identifier: Apache-2.0
"""Settings of a model, the parameters of its trees, and the versions of packages."""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from mtboost.base.archive import digest_of
from mtboost.errors import ModelFormatError
from mtboost.model.inputs.named_objectives import names_of_objectives
from mtboost.model.parts.model_file import to_parts
from mtboost.model.parts.task_report import trained_strategy
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.reports.page.elements import Child, Element, element, table

_PACKAGES = ("numpy", "scipy", "scikit-learn", "xgboost", "lightgbm", "pandas", "matplotlib")


def settings_section(model: FittedTasks, parts: Mapping[str, Any]) -> list[Child]:
    trees = model.common_trees
    metrics = [model.metric] if isinstance(model.metric, str) else model.metric.values()
    facts = {
        "strategy": trained_strategy(model.reports),
        "objective": ", ".join(names_of_objectives(model.objective)),
        "validation metric": ", ".join(dict.fromkeys(metrics)),
        "task column": "none" if model.task_column is None else str(model.task_column),
        "rounds of the common model": f"{trees.n_rounds:,}",
        "linear effects before them": f"{trees.n_linear:,} rounds" if trees.n_linear else "no",
        "pooling of leaf values (κ)": _pooling(trees.pooled.pooling),
        "nodes that separate tasks": _task_nodes(model),
        "levels of tasks estimated again": _levels(model),
        "SHA-256 of mtboost.json in the model file": _digest(parts),
    }
    own = Counter(
        json.dumps(params, default=str, sort_keys=True)
        for task, params in model.specific_params.items()
        if model.reports[task].specific_rounds
    )
    found: list[Child] = [
        table(["setting", "value"], [[*fact] for fact in facts.items()], class_="words"),
        element("h3", "Parameters of the common model"),
        _parameters(model.params),
    ]
    for text, n_tasks in own.most_common(3):
        different = {
            name: value
            for name, value in json.loads(text).items()
            if model.params.get(name) != value
        }
        if different:
            tasks = "1 task" if n_tasks == 1 else f"{n_tasks:,} tasks"
            found.append(element("h3", f"What differs in the specific trees of {tasks}"))
            found.append(_parameters(different))
    found += [
        element("h3", "Versions"),
        element("p", "Those with which this report was written.", class_="quiet"),
        table(["package", "version"], _versions(), class_="words"),
    ]
    return found


def _pooling(pooling: object) -> str:
    """Return κ, of nested tasks at each level."""
    levels = pooling if isinstance(pooling, tuple) else (pooling,)
    return ", ".join(f"{kappa:.6g}" for kappa in levels if isinstance(kappa, float)) or "none"


def _task_nodes(model: FittedTasks) -> str:
    trees = model.common_trees
    if trees.descriptors is not None:
        return f"by {trees.descriptors.n} descriptors of the tasks"
    return "by the task" if trees.has_task_column else "none"


def _levels(model: FittedTasks) -> str:
    if model.has_task_levels is None and trained_strategy(model.reports) == "auto":
        return "not known"
    return "yes" if model.has_task_levels else "no"


def _digest(parts: Mapping[str, Any]) -> str:
    try:
        return digest_of(*to_parts(parts))
    except ModelFormatError as error:
        return f"none: {error}"


def _parameters(params: Mapping[str, Any]) -> Element:
    if not params:
        return element("p", "Not known: the model comes from an early file.", class_="quiet")
    rows = [[name, _shown(value)] for name, value in sorted(params.items())]
    return table(["parameter", "value"], rows, class_="words")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 500 else f"{text[:500]}…"


def _versions() -> list[list[str]]:
    import mtboost

    rows = [["mtboost", mtboost.__version__], ["Python", platform.python_version()]]
    for name in _PACKAGES:
        try:
            rows.append([name, metadata.version(name)])
        except metadata.PackageNotFoundError:
            continue
    return [*rows, ["system", f"{platform.system()} {platform.machine()}, {sys.byteorder} endian"]]
