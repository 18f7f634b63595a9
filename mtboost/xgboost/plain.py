# SPDX-License-Identifier: Apache-2.0
"""Stock XGBoost's models, whatever the number of threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xgboost

from mtboost.base.tasks import TaskSet
from mtboost.trees.tree_options import TreeOptions
from mtboost.xgboost.callbacks import InOrder, TaskSplit
from mtboost.xgboost.library import with_start

# Fewer cells (rows times features) are trained faster by one thread of XGBoost than by the core.
_SMALL = 100_000


def train_plain(
    params: Mapping[str, Any],
    matrix: xgboost.DMatrix,
    n_rounds: int,
    *,
    objective: Callable[..., Any] | None = None,
    options: TreeOptions | None = None,
    callbacks: Sequence[xgboost.callback.TrainingCallback] = (),
    table: object = None,
) -> xgboost.Booster:
    """``xgboost.train`` with the result of one thread.

    XGBoost's sums differ by the number of threads in the last bit, and so may its trees. Small
    matrices are therefore trained by one thread, large ones by the core, whose trees are those of
    one thread of XGBoost bit for bit.

    Parameters
    ----------
    params, matrix, n_rounds, objective, callbacks
        As in ``xgboost.train``.
    options : TreeOptions, optional
        Symmetric trees are grown by the core, as XGBoost knows none.
    table : ndarray, optional
        See :class:`~mtboost.xgboost.TaskSplit`.
    """
    is_small = matrix.num_row() * matrix.num_col() < _SMALL
    if is_small:
        params = {**params, "nthread": 1}
    if options is None:
        options = TreeOptions()
    if options.symmetric_trees or not is_small:
        one_task = TaskSet.from_labels(None, matrix.num_row())
        split = TaskSplit(one_task, options=options.of_one_task(), table=table)
        callbacks = [split, *callbacks]
    return xgboost.train(
        with_start(params, matrix),
        matrix,
        n_rounds,
        obj=objective,
        verbose_eval=False,
        callbacks=[InOrder(callbacks)],
    )
