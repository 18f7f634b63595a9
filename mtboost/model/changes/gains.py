# SPDX-License-Identifier: Apache-2.0
"""By how much some margins of validation rows are better than others, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName
from mtboost.model.estimates import Rows, make_score
from mtboost.model.stages.settings import Settings
from mtboost.trees.backend import Margins

#: Of a bootstrap, for metrics whose error has no formula.
_N_REPLICATES = 50


def gains_by_task(
    settings: Settings, valid: Dataset, before: Margins, after: Margins
) -> Iterator[tuple[TaskName, float, float]]:
    """Yield each task with the gain of its metric and the standard error of that.

    Of a single row, which has no standard error, it is the size of the gain.

    Parameters
    ----------
    settings : Settings
    valid : Dataset
        Tasks whose metric is undefined are left out: their rows have no weight or, with
        ``survival:cox``, no event.
    before, after : ndarray of shape (n_rows, n_outputs)
        Margins in the unit of each task's objective.
    """
    for task in valid.tasks:
        own, rows = settings.of_task(task), valid.tasks.rows(task)
        weight = None if valid.weight is None else valid.weight[rows].astype(np.float64)
        if weight is not None and not weight.any():
            continue
        score = make_score(own.metric, _N_REPLICATES, 0)
        labels = valid.labels()[rows].astype(np.float64)
        predicted = [np.asarray(own.inverse_link(margins[rows])) for margins in (before, after)]
        first, last = (
            score.estimate(Rows(labels, values.astype(np.float64), weight)) for values in predicted
        )
        gain, error = score.gain(last.value, first.value), last.error_of_gain(first)
        if not np.isnan(gain):
            yield task, gain, abs(gain) if np.isnan(error) else error
