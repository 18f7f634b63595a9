# SPDX-License-Identifier: Apache-2.0
"""Reports of the tasks of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName
from mtboost.base.validation import Folds
from mtboost.model.estimates import OTHER_METRIC
from mtboost.model.stages.common import CommonModel
from mtboost.model.stages.specific import SpecificModel
from mtboost.trees.losses import is_of_two_classes

# With these the rows prefer the worse of two models in .33 and .27 of the cases, by chance in half
# of them (benchmarks/validation_rows.py, 20 draws).
_FEW_ROWS = 20
_FEW_OF_A_CLASS = 10
_NEW_TASKS = "tasks are held out as new ones, which have the common model alone"


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Report of one task."""

    n_rows: int
    n_valid_rows: int
    n_positives: int | None
    quit_round: int
    specific_rounds: int
    why_no_specific: str
    scores: dict[str, float]
    common_history: npt.NDArray[np.float64]
    specific_history: npt.NDArray[np.float64]
    sharing: str = ""
    n_valid_positives: int | None = None

    @property
    def validation_note(self) -> str:
        """Why the validation scores say little, and the remedy; empty where they say something."""
        if not self.n_valid_rows:
            return ""
        remedy = "judge the task by evaluate() on other rows, or by all tasks"
        if self.n_valid_rows < _FEW_ROWS:
            return f"{self.n_valid_rows} validation rows: {remedy}"
        if self.n_valid_positives is not None:
            n_negatives = self.n_valid_rows - self.n_valid_positives
            for n, what in ((self.n_valid_positives, "positive"), (n_negatives, "negative")):
                if n < _FEW_OF_A_CLASS:
                    return f"{n} {what} validation rows: {remedy}"
        return ""


def trained_strategy(reports: Mapping[TaskName, TaskReport]) -> str:
    """Return the strategy by which the model with these reports was trained."""
    return "auto" if any(report.sharing for report in reports.values()) else "two-stage"


def joined_reports(parts: Sequence[TaskReport]) -> TaskReport:
    """Return the report of a task whose rows were divided at random among several machines.

    They all know the scores of all rows, but each the standard error by its part.
    """
    first = parts[0]
    scores = dict(first.scores)
    n_valid = np.array([part.n_valid_rows for part in parts], np.float64)
    errors = np.array([part.scores.get("final se", np.nan) for part in parts])
    if not np.isnan(errors[n_valid > 0]).all():
        shares = n_valid / n_valid.sum()
        scores["final se"] = float(np.sqrt(np.nansum((shares * errors) ** 2)))
    counts = {
        name: sum(getattr(part, name) for part in parts)
        for name in ("n_rows", "n_valid_rows", "n_positives", "n_valid_positives")
        if getattr(first, name) is not None
    }
    return replace(first, **counts, scores=scores)


def validation_scores(
    data: Dataset,
    valid: Dataset | None,
    common: CommonModel,
    specific: Mapping[TaskName, SpecificModel],
) -> dict[TaskName, dict[str, float]]:
    """Validation metric of each task after stage one and after stage two."""
    scores: dict[TaskName, dict[str, float]] = {name: {} for name in data.tasks}
    if valid is None:
        return scores
    for name in data.tasks:
        history = common.history.get(name)
        if history is None or not history.size:
            continue
        scores[name]["common"] = float(history[common.quit_round[name] - common.trees.n_linear])
        model = specific[name]
        scores[name]["final"] = (
            float(model.history[model.n_rounds])
            if model.n_rounds and model.history.size
            else scores[name]["common"]
        )
    return scores


def task_reports(
    data: Dataset,
    folds: Folds | None,
    common: CommonModel,
    specific: Mapping[TaskName, SpecificModel],
    scores: Mapping[TaskName, dict[str, float]],
    objective: str | Mapping[TaskName, str],
    sharing: Mapping[TaskName, str] | None = None,
) -> dict[TaskName, TaskReport]:
    """Return the reports of all tasks (:meth:`mtboost.MultiTaskModel.report`).

    Of held-out rows they count the others as the task's; if each was held out once, all.
    """
    n_valid = n_valid_positives = np.zeros(data.tasks.n_tasks, np.int64)
    are_new = folds is not None and folds.are_new_tasks
    without_rows: set[TaskName] = set()  # to train on
    if folds:
        codes = folds.valid_codes(data.tasks)
        n_valid = np.bincount(codes, minlength=data.tasks.n_tasks)
        positive = np.concatenate([valid.numbers() > 0 for _, valid in folds.pairs])
        n_valid_positives = np.bincount(codes[positive], minlength=data.tasks.n_tasks)
        if len(folds.pairs) == 1:
            data, valid = folds.pairs[0]
            without_rows = set(valid.tasks) if are_new else without_rows
    labels = data.numbers()
    reports = {}
    for code, name in enumerate(data.tasks):
        is_binary = is_of_two_classes(objective if isinstance(objective, str) else objective[name])
        rows = data.tasks.rows(name)[: 0 if name in without_rows else None]
        reports[name] = TaskReport(
            n_rows=len(rows),
            n_valid_rows=int(n_valid[code]),
            n_positives=int((labels[rows] > 0).sum()) if is_binary else None,
            n_valid_positives=int(n_valid_positives[code]) if is_binary else None,
            quit_round=common.quit_round[name],
            specific_rounds=specific[name].n_rounds,
            why_no_specific=_NEW_TASKS if are_new else specific[name].reason,
            scores=scores[name],
            common_history=_by_round(common, name),
            specific_history=specific[name].history,
            sharing=sharing[name] if sharing else "",
        )
    return reports


def _by_round(common: CommonModel, task: TaskName) -> npt.NDArray[np.float64]:
    """Return the validation curve of a task, unknown (NaN) before all linear effects are added."""
    curve = common.history.get(task, np.empty(0))
    if not common.trees.n_linear or not len(curve):
        return curve  # no copy: curves of many tasks take more memory than the rest of a report
    return np.concatenate([np.full(common.trees.n_linear, np.nan), curve])


def report_rows(
    reports: Mapping[TaskName, TaskReport],
    objective: str | Mapping[TaskName, str],
    metric: str | Mapping[TaskName, str],
) -> dict[TaskName, dict[str, Any]]:
    """A row of a table for each task; `objective` and `metric` are mappings where tasks differ."""
    rows = {}
    row: dict[str, Any]
    for task, report in reports.items():
        if isinstance(objective, Mapping) and isinstance(metric, Mapping):
            row = {"objective": objective[task], "metric": metric[task]}
            of_metric = ""
        else:
            row = {"objective": objective}
            of_metric = f"{metric} "
        row |= {"rows": report.n_rows, "valid_rows": report.n_valid_rows}
        counts = {"positives": report.n_positives, "valid_positives": report.n_valid_positives}
        for name, count in counts.items():
            if count is not None:
                row[name] = count
            elif not isinstance(objective, str):  # a column of some tasks
                row[name] = np.nan
        row["validation_note"] = report.validation_note
        if report.sharing:
            row["sharing"] = report.sharing
        row |= {
            "quit_round": report.quit_round,
            "specific_rounds": report.specific_rounds,
            "why_no_specific": report.why_no_specific,
        }
        for name, score in report.scores.items():
            other, of_other, own = name.rpartition(OTHER_METRIC)
            row[f"{other} {own}" if of_other else f"{of_metric}{name}"] = score
        rows[task] = row
    return rows
