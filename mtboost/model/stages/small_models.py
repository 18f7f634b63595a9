# SPDX-License-Identifier: Apache-2.0
"""Specific models of the tasks with few rows, all trained side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float32Array, Float64Array
from mtboost.base.checked_tables import as_table
from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns
from mtboost.base.tasks import TaskName
from mtboost.metrics.scorers import is_known
from mtboost.model.stages.settings import Settings
from mtboost.trees.backend import Backend, Margins, Rows
from mtboost.trees.document import Unloaded
from mtboost.trees.small_models import RowsByModel, SmallTrainer, Stopping

# Cells of the rows of models that are trained side by side: more are slower, and take more memory.
_MOST_CELLS = 400_000
# Rounds of these models, where their number is fixed: trees take more memory while they grow.
_MOST_ROUNDS = 400_000

_Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SmallModel:
    """A trained model.

    Attributes
    ----------
    n_rounds : int
    is_defined : bool
        Whether the metric was, on its validation rows.
    history : ndarray of float64
        The metric after 0, 1, ... rounds; empty for a fixed number of rounds.
    trees : Unloaded
    start : ndarray of float32, shape (n_outputs,)
        Margins that it starts from, if it continues none.
    """

    n_rounds: int
    is_defined: bool
    history: Float64Array
    trees: Unloaded
    start: Float32Array


def fit_small_models(
    settings: Settings,
    data: Dataset,
    margins: Margins,
    tasks: Sequence[TaskName],
    n_rounds: _Codes,
    valid: Dataset | None = None,
    valid_margins: Margins | None = None,
    *,
    are_alone: bool = False,
) -> dict[TaskName, SmallModel]:
    """Train models of those tasks that have few rows; the others are missing.

    Parameters
    ----------
    margins : ndarray of shape (n_rows, n_outputs)
        What the models continue.
    n_rounds : ndarray of int64, shape (n_tasks,)
        Rounds of each model, or with `valid` the most.
    valid : Dataset, optional
        Every task has rows to validate on, which end the training.
    are_alone : bool
        Whether the models continue no margins.
    """
    table, backend = data.only_table, settings.backend
    of_all = _settings_of_all(settings, tasks)
    if table is None or of_all is None:
        return {}
    settings = of_all
    cells = backend.cells(table)
    valid_cells = None
    if valid is not None and valid.only_table is not None:
        valid_cells = backend.cells(Columns.of(table).align(valid.only_table))
    if cells is None or (valid is not None and valid_cells is None):
        return {}
    codes = np.array([data.tasks.code(task) for task in tasks], np.int64)
    is_small = backend.are_small(data.tasks.counts[codes], table.n_features)
    if data.weight is not None:  # XGBoost makes no bins of rows without weight
        n_without = np.bincount(data.tasks.codes[data.weight == 0], minlength=data.tasks.n_tasks)
        is_small &= n_without[codes] == 0
    places = np.flatnonzero(is_small)
    if len(places) < 2:
        return {}
    own = settings.backend.own_parameters(
        {**settings.params, **settings.specific_params}, data.common, table
    )
    first_task = tasks[places[0]]
    first = data.tasks.rows(first_task)
    first_rows = Rows(data.task_table(first_task), data.labels()[first], margin=margins[first])
    trainer = backend.small_trainer(own, first_rows, settings.options, settings.n_threads)
    if trainer is None:
        return {}
    stopping = Stopping(
        settings.metric,
        settings.early_stopping_rounds,
        settings.min_delta,
        settings.inverse_link,
    )
    own_starts = partial(_own_starts, settings, own) if are_alone else None
    found: dict[TaskName, SmallModel] = {}
    sizes = data.tasks.counts[codes[places]] * table.n_features / _MOST_CELLS
    if valid is None:
        sizes = np.maximum(sizes, n_rounds[places] / _MOST_ROUNDS)
    for part in _parts(places, sizes):
        rows = _rows_by_model(data, cells, margins, codes[part])
        if np.isinf(rows.cells).any():
            continue  # the library refuses them
        is_trained = trainer.bin_rows(rows)
        part, rows = part[is_trained], rows.of_models(is_trained)
        valid_rows = None
        if valid is not None and valid_cells is not None and valid_margins is not None:
            valid_codes = np.array([valid.tasks.code(tasks[place]) for place in part], np.int64)
            valid_rows = _rows_by_model(valid, valid_cells, valid_margins, valid_codes)
            if np.isinf(valid_rows.cells).any():
                continue
        models = _train(trainer, rows, valid_rows, n_rounds[part], stopping, own_starts)
        found |= {tasks[place]: model for place, model in zip(part.tolist(), models, strict=False)}
    return found


def _settings_of_all(settings: Settings, tasks: Sequence[TaskName]) -> Settings | None:
    """Return settings that hold for the models of all these tasks, if there are any."""
    if settings.objectives.common_name is None:
        return None
    names = settings.objectives.metric_names
    if isinstance(names, str):
        return settings
    first, *others = {names[task] for task in tasks}
    return settings.of_task(tasks[0]) if not others and is_known(first) else None


def _train(
    trainer: SmallTrainer,
    rows: RowsByModel,
    valid_rows: RowsByModel | None,
    n_rounds: _Codes,
    stopping: Stopping,
    own_starts: Callable[[RowsByModel], Float32Array] | None,
) -> list[SmallModel]:
    """Train one model after the other; none where a gradient is not finite."""
    n_models = len(n_rounds)
    if not n_models:
        return []
    starts = np.zeros((n_models, rows.margins.shape[1]), np.float32)
    if own_starts is not None:
        starts = own_starts(rows)
        rows = replace(rows, margins=np.repeat(starts, rows.n_rows, axis=0))
        if valid_rows is not None:
            valid_rows = replace(valid_rows, margins=np.repeat(starts, valid_rows.n_rows, axis=0))
    try:
        trained = trainer.train(rows, valid_rows, n_rounds, stopping)
    except RuntimeError:  # a gradient is not finite: the library says of which task
        return []
    return [
        SmallModel(*model)
        for model in zip(
            trained.n_rounds.tolist(),
            trained.is_defined.tolist(),
            trained.histories,
            trained.trees,
            starts,
            strict=True,
        )
    ]


def own_start(
    backend: Backend,
    params: Mapping[str, Any],
    labels: Float32Array,
    weights: npt.NDArray[np.float32] | None,
) -> Float32Array:
    """Return the margins that the library starts a model from, shape (n_outputs,)."""
    column = np.zeros((len(labels), 1), np.float32)  # does not matter
    return backend.own_start(params, Rows(as_table(column), labels, weights))


def _own_starts(settings: Settings, params: Mapping[str, Any], rows: RowsByModel) -> Float32Array:
    """Margins that the library starts the models from, shape (n_models, n_outputs)."""
    starts = []
    for begin, end in pairwise(rows.first_rows.tolist()):
        weights = None if rows.weights is None else rows.weights[begin:end]
        starts.append(own_start(settings.backend, params, rows.labels[begin:end], weights))
    return np.stack(starts)


def _parts(places: _Codes, sizes: Float64Array) -> list[_Codes]:
    """Models that are trained at a time; `sizes` are those of each, in the most of a part."""
    numbers = np.cumsum(sizes).astype(np.int64)
    return np.split(places, np.flatnonzero(np.diff(numbers)) + 1)


def _rows_by_model(
    data: Dataset, cells: npt.NDArray[np.floating], margins: Margins, codes: _Codes
) -> RowsByModel:
    rows, first_rows = data.tasks.rows_by_code(codes)
    with np.errstate(over="ignore"):  # infinite, as in the libraries
        own = np.ascontiguousarray(cells[rows], np.float32)
    return RowsByModel(
        cells=own,
        first_rows=first_rows.astype(np.uint32),
        labels=np.asarray(data.labels()[rows], np.float32),
        margins=np.ascontiguousarray(margins[rows], np.float32),
        weights=None if data.weight is None else np.asarray(data.weight[rows], np.float32),
    )
