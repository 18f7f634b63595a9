# SPDX-License-Identifier: Apache-2.0
"""Baselines without mtboost: the plain library, pooled or task by task."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns, Table
from mtboost.base.tasks import TaskName
from mtboost.model.stages.settings import Settings
from mtboost.trees.backend import Margins, Rows, UntrainableError


def baseline_scores(
    settings: Settings, data: Dataset, valid: Dataset
) -> dict[str, dict[TaskName, float]]:
    """Validation metric of each task under three models without any sharing rule.

    ``pooled``: one model of all rows on the common columns. ``pooled + task``: the same with the
    task as a categorical column. ``independent``: one model per task on all its columns. Each stops
    early by the same metric and early_stopping_rounds as mtboost, the pooled ones on all validation
    rows. Tasks with different losses have the last one only.

    Returns
    -------
    dict of baseline name to dict of task name to float
        NaN where the metric is undefined, or there is no such model.
    """
    scores = {}
    if not settings.objectives.losses:
        codes = data.tasks.codes_of_rows(valid.tasks)
        for name, margins in (
            ("pooled", _margins(settings, data, valid)),
            ("pooled + task", _margins(settings, data, valid, (data.tasks.codes, codes))),
        ):
            if margins is not None:
                values = settings.evaluate(valid, margins).tolist()
                scores[name] = dict(zip(valid.tasks.names, values, strict=True))
    alone = scores["independent"] = {}
    for task in valid.tasks:
        own, own_valid = (part.take(part.tasks.rows(task)) for part in (data, valid))
        if own.weight is None or own.weight.any():
            of_task = settings.of_task(task)
            with suppress(UntrainableError):
                margins = _margins(of_task, own, own_valid, task=task)
                (alone[task],) = of_task.evaluate(own_valid, margins).tolist()
    return {
        name: {task: values.get(task, np.nan) for task in data.tasks}
        for name, values in scores.items()
    }


def _margins(
    settings: Settings,
    data: Dataset,
    valid: Dataset,
    codes: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None,
    task: TaskName | None = None,
) -> Margins:
    """Margins of the validation rows."""
    table = data.common if task is None else data.task_table(task)
    other = valid.common if task is None else valid.task_table(task)
    backend = settings.backend
    params = dict(settings.params)
    if task is not None:
        params = backend.own_parameters(params, data.common, table)
    matrix = _matrix(table, data, codes and codes[0], None, settings)
    aligned = Columns.of(table).align(other)
    valid_matrix = _matrix(aligned, valid, codes and codes[1], matrix, settings)
    stopping = backend.quitting(
        valid_matrix,
        None,
        metric=settings.metric,
        early_stopping_rounds=settings.early_stopping_rounds,
        min_delta=settings.min_delta,
    )
    booster = backend.train_plain(
        params,
        matrix,
        settings.rounds,
        objective=settings.objectives.function,
        valid=valid_matrix,
        callbacks=[stopping],
    )
    # Without a usable metric there is no best round: all rounds then.
    best = max(1, next(iter(stopping.quit_round.values()), settings.rounds))
    first = backend.document(booster).first_rounds(min(best, backend.n_rounds(booster)))
    margins = backend.predict_margin(first, aligned, valid.base_margin, added=codes and codes[1])
    return margins.reshape(aligned.n_rows, -1)


def _matrix(
    table: Table,
    data: Dataset,
    codes: npt.NDArray[Any] | None,
    ref: Any,
    settings: Settings,
) -> Any:
    rows = Rows(table, data.labels(), data.weight, data.base_margin, codes, queries=data.queries)
    return settings.backend.matrix(rows, settings.params, settings.n_threads, ref)
