# SPDX-License-Identifier: Apache-2.0
"""A model as the members of a file (docs/model_file.md), and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from mtboost.base.archive import array_from_bytes, array_to_bytes, read_vector, require
from mtboost.base.arrays import Float64Array
from mtboost.base.tables import Columns
from mtboost.base.tasks import TaskName
from mtboost.model.inputs.libraries import get_backend
from mtboost.model.parts.boosters import Boosters
from mtboost.model.parts.calibration import Calibration
from mtboost.model.parts.json_shape import check_shape
from mtboost.model.parts.task_report import TaskReport
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.trees.backend import Backend
from mtboost.trees.losses import TaskLoss
from mtboost.trees.pooled_leaves import PooledTrees
from mtboost.trees.pooling import Kappa
from mtboost.trees.shrinkage import Population
from mtboost.trees.task_descriptors import Column, Descriptor, TaskDescriptors
from mtboost.trees.task_values import read_task_values, write_task_values

_DESCRIPTORS = "task_descriptors.npy"
_SCORES = "conformity_scores"
#: Tasks from which on their histories and models are stored as arrays of all of them.
MANY_TASKS = 1000
_HISTORIES = ("common_history", "specific_history")


def to_parts(model: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Metadata, and members by name, of the fields of a model by name."""
    trees: CommonTrees = model["common_trees"]
    library, specific = trees.backend, model["specific"]
    are_many = len(specific) >= MANY_TASKS
    packed = library.pack(specific.unloaded()) if are_many else {}
    parts = {_member(library, "common"): library.dump(trees.booster)} | {
        _member(library, f"specific/{number}"): raw
        for number, task in enumerate(specific)
        if not (packed and specific.is_unloaded(task))
        and (raw := specific.dump(task, library)) is not None
    }
    parts |= packed
    if are_many:
        parts |= _histories_to_members(model["reports"])
    if model["conformity_scores"]:
        parts |= _by_task_to_members(_SCORES, list(model["conformity_scores"].values()))
    if not trees.are_same_for_all:
        parts |= write_task_values(trees.pooled.values)
        if trees.descriptors is not None:
            parts[_DESCRIPTORS] = array_to_bytes(trees.descriptors.values)
    return _metadata(model, trees), parts


def _member(library: Backend, name: str) -> str:
    """Name of the member that holds a booster."""
    return f"{name}.{library.suffix}"


def _metadata(model: Mapping[str, Any], trees: CommonTrees) -> dict[str, Any]:
    losses: Mapping[TaskName, TaskLoss] = model["losses"]
    common_losses = model["common_losses"]
    reports: Mapping[TaskName, TaskReport] = model["reports"]
    factor, has_levels = model["shrinkage_factor"], model["has_task_levels"]
    return {
        "backend": trees.backend.name,
        # Keys of JSON are texts: the values of a task are in its entry.
        "objective": None if losses else model["objective"],
        "metric": None if losses else model["metric"],
        "task_column": model["task_column"],
        "task_position": model["task_position"],
        "common_columns": _columns_to_json(model["common_columns"]),
        **({"common_losses": _scores_to_json(common_losses)} if common_losses else {}),
        **({"common_choice": model["common_choice"]} if model["common_choice"] else {}),
        **({} if factor is None else {"shrinkage_factor": factor}),
        **({} if has_levels is None else {"has_task_levels": has_levels}),
        **{name: True for name in ("unseen_at_random", "has_base_margin") if model[name]},
        **({_SCORES: list(model[_SCORES])} if model[_SCORES] else {}),
        **({"classes": list(model["classes"])} if model["classes"] else {}),
        **_calibration_to_json(model["calibration"]),
        **({"label_names": list(model["label_names"])} if model["label_names"] else {}),
        **({"params": _params_to_json(model["params"])} if model["params"] else {}),
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
                **(
                    {"params": _params_to_json(model["specific_params"][task])}
                    if task in model["specific_params"]
                    else {}
                ),
                "report": _report_to_json(report, with_histories=len(reports) < MANY_TASKS),
            }
            for task, report in reports.items()
        ],
    }


def _tasks_of_trees(trees: CommonTrees) -> dict[str, Any]:
    """Whose the codes of the task values are; nothing where all tasks have the same trees."""
    if trees.are_same_for_all:
        return {}
    return {
        "pooling": _pooling_to_json(trees.pooled.pooling),
        "pooled_tasks": trees.tasks,
        "has_task_column": trees.has_task_column,
        **({"n_linear": trees.n_linear} if trees.n_linear else {}),
        **_kappas_to_json(trees.linear_kappas),
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
    metadata: Mapping[str, Any], members: Mapping[str, bytes]
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
    values = array_from_bytes(members[_DESCRIPTORS])
    return TaskDescriptors(tuple(found), values, metadata["n_described"])


def from_parts(metadata: Mapping[str, Any], members: Mapping[str, bytes]) -> dict[str, Any]:
    """The fields of the model by name; raises unless each has its type."""
    _check(metadata)
    entries = metadata["tasks"]
    _add_histories(entries, members)
    library = get_backend(metadata.get("backend", "xgboost"))  # files of format 1 may lack it
    entries = [{**entry, "name": _as_name(entry["name"])} for entry in entries]
    names = tuple(entry["name"] for entry in entries)
    objective, metric, losses = metadata["objective"], metadata["metric"], {}
    if objective is None:
        given = {entry["name"]: dict(entry["loss"]) for entry in entries}
        metric = {name: loss.pop("metric") for name, loss in given.items()}
        losses = {name: TaskLoss(**loss) for name, loss in given.items()}
        objective = {name: loss.objective for name, loss in losses.items()}
    packed = library.unpack(members, len(entries))
    return {
        "common_trees": CommonTrees(
            library,
            library.load(members[_member(library, "common")]),
            tuple(map(_as_name, metadata.get("pooled_tasks", names))),
            PooledTrees(_read_pooling(metadata.get("pooling")), read_task_values(members)),
            metadata.get("has_task_column", False),
            {_as_name(name): share for name, share in metadata.get("shares", [])},
            _read_descriptors(metadata, members),
            metadata.get("n_linear", 0),
            _read_kappas(metadata.get("linear_kappas")),
        ),
        "specific": Boosters(
            {
                entry["name"]: packed.get(number)
                or _read_specific(entry, _member(library, f"specific/{number}"), members, library)
                for number, entry in enumerate(entries)
            }
        ),
        "quit_round": {entry["name"]: entry["quit_round"] for entry in entries},
        "common_columns": _columns_from_json(metadata["common_columns"]),
        "task_columns": {e["name"]: _columns_from_json(e["columns"]) for e in entries},
        "objective": objective,
        "metric": metric,
        "task_column": _of_levels(metadata["task_column"]),
        "task_position": _of_levels(metadata.get("task_position")),
        "reports": {entry["name"]: _report_from_json(entry) for entry in entries},
        "losses": losses,
        "common_losses": _scores_from_json(metadata.get("common_losses", {})),
        "common_choice": metadata.get("common_choice"),
        "shrinkage_factor": metadata.get("shrinkage_factor"),
        "has_task_levels": metadata.get("has_task_levels"),
        "unseen_at_random": metadata.get("unseen_at_random", False),
        "has_base_margin": metadata.get("has_base_margin", False),
        "params": _params_from_json(metadata.get("params", "{}")),
        "specific_params": {
            entry["name"]: _params_from_json(entry["params"])
            for entry in entries
            if "params" in entry
        },
        "classes": _of_levels(metadata.get("classes")),
        "conformity_scores": _read_scores(metadata.get(_SCORES, []), members),
        "calibration": _read_calibration(metadata.get("calibration")),
        "label_names": tuple(metadata["label_names"]) if "label_names" in metadata else None,
    }


def _of_levels(found: Any) -> Any:
    """A column or position, or those of nested tasks or names of classes, lists in JSON."""
    return tuple(found) if isinstance(found, list) else found


def _as_name(found: Any) -> TaskName:
    """Name of a task; that of a nested one, a tuple, is a list in JSON."""
    name: TaskName = tuple(found) if isinstance(found, list) else found
    return name


def _calibration_to_json(calibration: Calibration | None) -> dict[str, Any]:
    if calibration is None:
        return {}
    slopes, intercepts = np.array([*calibration.by_task.values()]).reshape(-1, 2).T.tolist()
    own = {"tasks": list(calibration.by_task), "slopes": slopes, "intercepts": intercepts}
    return {"calibration": {"pooled": list(calibration.pooled), **own}}


def _read_calibration(found: Mapping[str, Any] | None) -> Calibration | None:
    if found is None:
        return None
    slopes, intercepts = found["slopes"], found["intercepts"]
    names = list(map(_as_name, found["tasks"]))
    are_alike = len(names) == len(slopes) == len(intercepts) == len(set(names))
    are_finite = bool(np.isfinite([*found["pooled"], *slopes, *intercepts]).all())
    are_usable = are_alike and are_finite and len(found["pooled"]) == 2
    require(are_usable, "calibration has no finite slope and intercept for each task")
    own = zip(names, zip(slopes, intercepts, strict=True), strict=True)
    return Calibration((found["pooled"][0], found["pooled"][1]), dict(own))


def _pooling_to_json(pooling: Any) -> Any:
    """κ of a level, or a list of those of all; null for infinity, which JSON lacks."""
    return list(map(_without_nan, pooling)) if isinstance(pooling, tuple) else pooling


def _read_pooling(found: Any) -> Kappa | None:
    if isinstance(found, list):
        return tuple(np.inf if kappa is None else float(kappa) for kappa in found)
    return None if found is None else float(found)


def _kappas_to_json(kappas: Float64Array) -> dict[str, Any]:
    """κ of linear effects, a list for each level; null for infinity."""
    found = [list(map(_without_nan, level)) for level in kappas.tolist()]
    return {"linear_kappas": found} if found else {}


def _read_kappas(found: Sequence[Sequence[float | None]] | None) -> Float64Array:
    if not found:
        return np.empty((0, 0))
    require(len(set(map(len, found))) == 1, "linear_kappas have levels of different lengths")
    return np.array([[np.inf if kappa is None else kappa for kappa in level] for level in found])


def _params_to_json(params: Mapping[str, Any]) -> str:
    """Parameters of a library as a text; those that JSON cannot hold are left out."""
    return json.dumps(
        {name: value for name, value in params.items() if _is_json(value)}, default=_as_json
    )


def _is_json(value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, str)):  # most are, and there may be thousands
        return True
    try:
        json.dumps(value, allow_nan=False, default=_as_json)
    except (TypeError, ValueError):
        return False
    return True


def _as_json(value: Any) -> Any:
    """Return what JSON has in place of a set, such as the columns of an interaction."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"JSON cannot hold a {type(value).__name__}")


def _params_from_json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    require(isinstance(found, dict), "params are not an object")
    params: dict[str, Any] = found
    return params


def _read_specific(
    entry: Mapping[str, Any], member: str, members: Mapping[str, bytes], library: Backend
) -> Any:
    """The specific model of a task; None if it has none."""
    if member not in members and entry["report"]["specific_rounds"] == 0:
        return None
    return library.load(members[member])


# ---- checks -------------------------------------------------------------------------------------

_LABEL = (int, str, bool)
_NAME = (*_LABEL, [_LABEL])  # a list for nested tasks
_COLUMNS = {"names": (None, [str]), "n": int, "categories": {str: [(int, str)]}}
_LOSS = {
    "objective": str,
    "metric": str,
    "options": {str: (bool, float)},
    "start": float,
    "unit": float,
    "dispersion": float,
}
_REPORT = {
    "n_rows": int,
    "n_valid_rows": int,
    "n_positives": (None, int),
    "specific_rounds": int,
    "why_no_specific": str,
    "sharing?": str,  # the first files lack it
    "n_valid_positives?": (None, int),
    "scores": {str: (None, float)},
    "common_history?": [(None, float)],  # those of many tasks are members
    "specific_history?": [(None, float)],
}
_DESCRIPTOR = {
    "has_label": bool,
    "label": (None, float),
    "column": (None, {"position": int, "mean": float, "scale": float}),
    "population": (None, {"mean": float, "spread": float, "variance": float}),
    "noise": float,
}
_TASK = {
    "name": _NAME,
    "quit_round": int,
    "columns": _COLUMNS,
    "loss?": _LOSS,
    "params?": str,
    "report": _REPORT,
}
_METADATA = {
    "format": int,
    "backend?": str,
    "objective": (None, str),
    "metric": (None, str),
    "task_column": (None, int, str, [str]),  # a list for nested tasks
    "task_position?": (None, int, [int]),
    "common_columns": _COLUMNS,
    "common_losses?": {str: (None, float)},
    "common_choice?": str,
    "shrinkage_factor?": float,
    "has_task_levels?": bool,
    "unseen_at_random?": bool,
    "has_base_margin?": bool,
    f"{_SCORES}?": [_NAME],
    "classes?": [str],
    "label_names?": [(int, str)],
    "calibration?": {
        "pooled": [float],
        "tasks": [_NAME],
        "slopes": [float],
        "intercepts": [float],
    },
    "params?": str,
    "pooling?": (None, float, [(None, float)]),
    "pooled_tasks?": [_NAME],
    "has_task_column?": bool,
    "n_linear?": int,
    "linear_kappas?": [[(None, float)]],
    "shares?": [list],
    "descriptors?": [_DESCRIPTOR],
    "n_described?": int,
    "tasks": [_TASK],
}


def _check(metadata: Mapping[str, Any]) -> None:
    """Raise ModelFormatError for values of other types, or that contradict each other."""
    check_shape(metadata, _METADATA, "mtboost.json")
    entries = metadata["tasks"]
    names = [_as_name(entry["name"]) for entry in entries]
    pooled = list(map(_as_name, metadata.get("pooled_tasks", names)))
    for found, place in ((names, "tasks"), (pooled, "pooled_tasks")):
        are_names = len(set(found)) == len(found) > 0 and len(set(map(type, [*names, *found]))) == 1
        require(are_names, f"{place} are not different names of one type")
    n_levels = _check_levels(names)
    has_losses = {"loss" in entry for entry in entries}
    are_by_task = metadata["objective"] is None
    require(
        has_losses == {are_by_task} and (metadata["metric"] is None) == are_by_task,
        "objectives are neither of all tasks nor of each",
    )
    pooling = metadata.get("pooling")
    kappas = pooling if isinstance(pooling, list) else [pooling]
    require(all(kappa is None or kappa >= 0.0 for kappa in kappas), "pooling is negative")
    are_of_levels = not isinstance(pooling, list) or len(pooling) == n_levels > 1
    require(are_of_levels, "pooling is of other levels than the tasks")
    for share in metadata.get("shares", []):
        require(len(share) == 2, "shares are not of tasks")
        check_shape(share[0], _NAME, "shares")
        check_shape(share[1], float, "shares")
    common = metadata["common_columns"]
    for columns in (common, *(entry["columns"] for entry in entries)):
        own = columns["names"]
        if own is None:  # columns are then known by their position
            require(columns["n"] == common["n"] > 0, "columns without names differ")
        else:
            are_names = len(set(own)) == len(own) == columns["n"] > 0
            require(are_names, "columns do not have different names")
        require(columns["categories"].keys() <= set(own or ()), "categories are of no column")


def _check_levels(names: list[TaskName]) -> int:
    """Return the number of levels of all tasks."""
    levels = [name if isinstance(name, tuple) else (name,) for name in names]
    require(len(set(map(len, levels))) == 1, "tasks have different numbers of levels")
    n_levels = len(levels[0])
    is_nested = isinstance(names[0], tuple)
    require(not is_nested or n_levels > 1, "a nested task has one level")
    for level in zip(*levels, strict=True):
        require(len(set(map(type, level))) == 1, "labels of a level are not of one type")
    return n_levels


# ---- reports and columns ------------------------------------------------------------------------


def _report_to_json(report: TaskReport, *, with_histories: bool) -> dict[str, Any]:
    histories = {
        name: list(map(_without_nan, getattr(report, name).tolist()))
        for name in _HISTORIES
        if with_histories
    }
    return {
        "n_rows": report.n_rows,
        "n_valid_rows": report.n_valid_rows,
        "n_positives": report.n_positives,
        "specific_rounds": report.specific_rounds,
        "why_no_specific": report.why_no_specific,
        "sharing": report.sharing,
        "n_valid_positives": report.n_valid_positives,
        "scores": _scores_to_json(report.scores),
        **histories,
    }


def _report_from_json(entry: dict[str, Any]) -> TaskReport:
    report = entry["report"]
    histories = {name: np.array(report[name], float) for name in _HISTORIES}
    own = {"quit_round": entry["quit_round"], "scores": _scores_from_json(report["scores"])}
    return TaskReport(**{**report, **own, **histories})


def _histories_to_members(reports: Mapping[TaskName, TaskReport]) -> dict[str, bytes]:
    """Histories of all tasks, one after the other, and where each begins."""
    members: dict[str, bytes] = {}
    for name in _HISTORIES:
        values = [getattr(report, name) for report in reports.values()]
        members |= _by_task_to_members(f"histories/{name}", values)
    return members


def _add_histories(entries: Sequence[dict[str, Any]], members: Mapping[str, bytes]) -> None:
    """Give the reports of the tasks their histories, if these are members."""
    for name in _HISTORIES:
        if f"histories/{name}.npy" not in members:
            has_all = all(name in entry["report"] for entry in entries)
            require(has_all, f"a report lacks {name}")
            continue
        by_task = _by_task_from_members("histories/", name, members, len(entries))
        for entry, own in zip(entries, by_task, strict=True):
            require(name not in entry["report"], f"there are two {name}")
            entry["report"][name] = own


def _read_scores(
    names: Sequence[Any], members: Mapping[str, bytes]
) -> dict[TaskName, Float64Array]:
    """Conformity scores by task; other tasks than those of the model may have some."""
    if not names:
        return {}
    by_task = _by_task_from_members("", _SCORES, members, len(names))
    are_errors = all(bool(len(own) and (np.isfinite(own) & (own >= 0.0)).all()) for own in by_task)
    require(are_errors, f"{_SCORES} are not finite numbers >= 0")
    found = {_as_name(name): own for name, own in zip(names, by_task, strict=True)}
    require(len(found) == len(names), f"{_SCORES} have a task twice")
    return found


# ---- arrays of all tasks ------------------------------------------------------------------------


def _by_task_to_members(name: str, values: Sequence[Float64Array]) -> dict[str, bytes]:
    """One array with the values of all tasks, one after the other, and where each begins."""
    starts = np.cumsum([0, *map(len, values)]).astype(np.int64)
    return {
        f"{name}.npy": array_to_bytes(np.concatenate([np.empty(0), *values])),
        f"{name}_starts.npy": array_to_bytes(starts),
    }


def _by_task_from_members(
    folder: str, name: str, members: Mapping[str, bytes], n_tasks: int
) -> list[Float64Array]:
    """The way back."""
    values = read_vector(members, f"{folder}{name}.npy", np.float64)
    starts = read_vector(members, f"{folder}{name}_starts.npy", np.int64)
    require(
        len(starts) == n_tasks + 1
        and starts[0] == 0
        and starts[-1] == len(values)
        and bool((np.diff(starts) >= 0).all()),
        f"{name} has other {folder.strip('/') or 'parts'} than there are tasks",
    )
    return np.split(values, starts[1:-1])


def _scores_to_json(scores: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _without_nan(value) for name, value in scores.items()}


def _scores_from_json(scores: Mapping[str, float | None]) -> dict[str, float]:
    return {name: np.nan if value is None else value for name, value in scores.items()}


def _without_nan(value: float) -> float | None:
    """JSON has no NaN; null stands for a metric that is undefined."""
    return value if np.isfinite(value) else None


def _columns_to_json(columns: Columns) -> dict[str, Any]:
    return {"names": columns.names, "n": columns.n, "categories": columns.categories}


def _columns_from_json(columns: dict[str, Any]) -> Columns:
    names = columns["names"]
    return Columns(None if names is None else tuple(names), columns["n"], columns["categories"])
