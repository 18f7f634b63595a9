# SPDX-License-Identifier: Apache-2.0
"""Validation rows: the user's own, or a part of each task's rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_number
from mtboost.base.dataset import Dataset, is_column
from mtboost.base.task_tables import is_mapping
from mtboost.errors import DataError


def validation_data(
    data: Dataset, eval_set: Sequence[Any], task: Any, feature_names: Any
) -> Dataset:
    """Validation rows as the user gave them, columns as in training."""
    if not 2 <= len(eval_set) <= 5:
        raise DataError(
            f"eval_set has {len(eval_set)} parts: it must be (X, y), optionally followed by task, "
            "weight and base_margin."
        )
    X, y, own_task, weight, base_margin = [*eval_set, None, None, None][:5]
    if own_task is None and is_column(task):
        own_task = task
    if (base_margin is None) != (data.base_margin is None):
        raise DataError(
            "base_margin must be given for training and validation rows, or for neither: "
            "eval_set=(X, y, task, weight, base_margin)."
        )
    if own_task is None and not is_mapping(X) and data.tasks.n_tasks > 1:
        raise DataError("eval_set lacks the tasks of its rows: pass (X, y, task).")
    if is_mapping(X) and feature_names is not None:
        feature_names = {name: names for name, names in feature_names.items() if name in X}
    try:
        valid = Dataset(
            X,
            y,
            task=own_task,
            weight=weight,
            base_margin=base_margin,
            feature_names=feature_names,
            common_features="all" if data.is_union else data.common.feature_names,
        )
        for name in valid.tasks:
            data.tasks.code(name)
        valid.align(data)
    except DataError as error:
        raise DataError(f"eval_set: {error}") from None
    return valid


def hold_out(
    data: Dataset,
    fraction: float | Literal["auto"],
    classes: bool | npt.NDArray[np.bool_],
    seed: int,
) -> tuple[Dataset, Dataset | None]:
    """Hold out the same part of each task, and of each class in it.

    `classes` tells whether the labels are classes, of all rows or of each.
    """
    if isinstance(fraction, str) and fraction == "auto":
        fraction = 0.2 if data.tasks.n_tasks > 1 else 0.0
    fraction = check_number("validation_fraction", fraction, low=0.0, below=1.0, besides="'auto'")
    labels = np.unique(np.where(classes, data.labels(), 0.0), return_inverse=True)[1]
    groups = data.tasks.codes.astype(np.int64) * (int(labels.max()) + 1) + labels
    groups = np.unique(groups, return_inverse=True)[1]
    counts = np.bincount(groups)
    # Rank of each row within its group under a random order.
    order = np.lexsort((np.random.default_rng(seed).random(data.n_rows), groups))
    rank = np.empty(data.n_rows, np.int64)
    rank[order] = np.arange(data.n_rows) - np.repeat(np.cumsum(counts) - counts, counts)
    held_out = rank < np.round(fraction * counts)[groups]
    if not held_out.any():
        return data, None
    return data.take(np.flatnonzero(~held_out)), data.take(np.flatnonzero(held_out))
