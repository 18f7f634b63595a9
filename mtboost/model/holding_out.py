# SPDX-License-Identifier: Apache-2.0
"""Rows that :func:`mtboost.fit` holds out to validate on."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from mtboost.base.checks import check_choice
from mtboost.base.dataset import Dataset
from mtboost.base.shared_rows import shared_rows
from mtboost.base.task_weights import TaskWeight, weights_with_tasks
from mtboost.base.times import Times
from mtboost.base.validation import Folds, cross_validation, hold_out, hold_out_last, split_by
from mtboost.errors import DataError, ParameterError
from mtboost.model.arguments import check_rows, labels_are_classes, weight_of_positives
from mtboost.model.stages.settings import Settings

# With fewer distinct rows each is held out in turn, unless there are many rows in all.
_FEW_ROWS = 2000
_FEW_SHARED_ROWS = 10_000
N_FOLDS = 5

#: How validation rows are held out: by name, or by a splitter of scikit-learn.
Validation = Literal["random", "stratified", "last"] | Any
#: Rows that are drawn: another draw is as good.
DRAWN = ("random", "stratified")


def split_rows(
    settings: Settings,
    data: Dataset,
    valid: Dataset | None,
    *,
    is_auto: bool,
    validation: Validation,
    times: Times | None,
    validation_fraction: float | Literal["auto"],
    task_weight: TaskWeight,
    refit: bool | None,
    seed: int,
    balanced_totals: tuple[float, float] | None = None,
) -> tuple[Dataset, Folds | None]:
    """Return all rows, and pairs of rows to train on and to validate on, None for no hold-out.

    `valid` are validation rows of the user, which are held out in place of some of `data`. The
    weights of tasks become part of those of the rows. Where there are other tasks elsewhere,
    `balanced_totals` are those of :func:`weights_with_tasks`, of `data` and with `valid`.
    """
    total, total_of_all = (None, None) if balanced_totals is None else balanced_totals
    all_rows = data
    if valid is not None:
        objective = settings.objectives.function or settings.objectives.names
        check_rows(settings.backend, valid, objective, settings.params, "eval_set: ")
        if refit:
            all_rows = data.with_rows(valid)
            all_rows.weight = weights_with_tasks(
                all_rows.tasks, all_rows.weight, task_weight, total_of_all
            )
    data.weight = weights_with_tasks(data.tasks, data.weight, task_weight, total)
    if valid is not None:
        if is_auto and valid.queries is None:
            valid.groups = shared_rows(valid)
        return all_rows, Folds(((data, valid),))
    return data, _hold_out(
        data, validation, times, validation_fraction, settings, is_auto, refit, seed
    )


def _hold_out(
    data: Dataset,
    validation: Validation,
    times: Times | None,
    fraction: float | Literal["auto"],
    settings: Settings,
    is_auto: bool,
    refit: bool | None,
    seed: int,
) -> Folds | None:
    """Return rows to train on and to validate on, in turn where auto has few rows.

    A row that several tasks have is held out in all of them, and counts once.
    """
    classes = labels_are_classes(settings.objectives.names, data.tasks)
    shared = shared_rows(data) if data.queries is None else data.queries
    if data.queries is None and is_auto:
        data.groups = shared
    if not isinstance(validation, str):
        if data.queries is None and shared is None:
            data.groups = np.arange(data.n_rows)  # the splitter may hold out a row several times
        split = split_by(data, validation, classes)
        if len(split.pairs) > 1 and not is_auto:
            raise ParameterError(
                f"validation gives {len(split.pairs)} splits, but strategy='two-stage' holds out "
                "once: pass a splitter with n_splits=1, or strategy='auto'."
            )
        return split
    check_choice("validation", validation, (*DRAWN, "last"), besides="a splitter of scikit-learn")
    if validation == "last":
        assert times is not None
        if is_auto and fraction == "auto":
            fraction = 1.0 / N_FOLDS
        train, valid = hold_out_last(data, fraction, times)
        if valid is None and is_auto:
            raise _no_validation_rows(fraction)
        return None if valid is None else Folds(((train, valid),))
    by_class = validation == "stratified" or not is_auto
    if is_auto and isinstance(fraction, str) and fraction == "auto":
        n_distinct = data.n_rows if shared is None else len(np.unique(shared))
        if n_distinct < _FEW_ROWS and data.n_rows < _FEW_SHARED_ROWS and refit is not False:
            folds = cross_validation(data, N_FOLDS, classes, seed, shared, by_class=by_class)
            if folds is None:
                raise _no_validation_rows(1.0 / N_FOLDS)
            return folds
        fraction = 1.0 / N_FOLDS  # for a single task too
    train, valid = hold_out(data, fraction, classes, seed, shared, by_class=by_class)
    if valid is None and is_auto:
        raise _no_validation_rows(fraction)
    return None if valid is None else Folds(((train, valid),))


def _no_validation_rows(fraction: float | Literal["auto"]) -> ParameterError:
    """Return the error for a hold-out without rows, with its remedy."""
    if not fraction:
        return ParameterError(
            "strategy='auto' chooses on validation rows: give eval_set, or a validation_fraction "
            "above 0."
        )
    return ParameterError(
        "strategy='auto' chooses on validation rows, and one row of each task (for a classifier "
        "also of each class) must stay to train on: no row is left to hold out. Give eval_set, or "
        "more rows."
    )


def with_positives(settings: Settings, folds: Folds, data: Dataset) -> Folds:
    """Return validation rows that count as the loss of `params` counts them."""
    objective = settings.objectives.function or settings.objectives.names
    weight = weight_of_positives(settings.backend, objective, settings.params, data)
    return folds.with_positives(weight)


def check_no_splitter(validation: Validation) -> None:
    """Raise if rows are to be held out although the user gives validation rows."""
    if validation != "random":
        raise ParameterError("validation and eval_set are both given: leave one of them out.")


def check_training_rows(settings: Settings, train: Dataset) -> None:
    """Raise DataError unless some training row counts, and the start score is finite."""
    if train.weight is not None and not train.weight.any():
        raise DataError(
            "weight, times task_weight, is zero in every training row: at least one must count. "
            "Rows held out for validation (validation_fraction) are no training rows."
        )
    objectives = settings.objectives
    if objectives.function is None and isinstance(objectives.names, str):
        settings.backend.check_start(settings.params, train)
