# SPDX-License-Identifier: Apache-2.0
"""Linear effects of a task that comes after training.

They are estimated as those of the others were, given what these share and how much they differ:
the posterior means of a mixed model whose variances are known (stages/linear_effects.py), from the
margins that all trees give to the rows of a task without effects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.dataset import Dataset
from mtboost.base.tasks import TaskName
from mtboost.model.changes.refreshed_effects import scores_of_leaves
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.model.stages.working_model import WorkingModel
from mtboost.trees.losses import Loss, label_columns, row_groups
from mtboost.trees.task_values import TaskValues


def effects_of_new_task(
    trees: CommonTrees, task: TaskName, data: Dataset, loss: Loss, n_rounds: int, factor: float
) -> list[TaskValues]:
    """Return the values of a new task in the trees of linear effects; empty if there are none.

    Parameters
    ----------
    trees : CommonTrees
        Those that do not know the task.
    task : task name
    data : Dataset
        Its rows.
    loss : Loss
    n_rounds : int
        Rounds whose margins the effects are added to.
    factor : float
        What all values have been multiplied by.

    Returns
    -------
    list of TaskValues
        With the codes of :meth:`CommonTrees.new_names`.
    """
    names = trees.new_names(task)
    # Levels of nested tasks that are new: a group that is new has this task alone.
    kappas = trees.linear_kappas[-len(names) :]
    if not len(kappas):
        return []
    backend, n_linear, known = trees.backend, trees.n_linear, trees.code_of(task)
    document = backend.document(trees.booster)
    pooled, hessians = document.leaf_values(), document.leaf_hessians()
    own = trees.pooled.values[:n_linear]
    scores = list(map(scores_of_leaves, pooled, hessians, own))
    described = trees.described(task, data.common, data.labels(), data.weight)
    codes = described.codes_of([task])[np.zeros(data.n_rows, np.int32)]
    rounds = np.full(data.n_rows, n_rounds)
    margins = described.margins(data.common, codes, rounds, data.base_margin)
    first = document.first_rounds(n_linear)
    leaves = backend.leaves(first, data.common, described._added(codes))
    z = np.column_stack([score[at] for score, at in zip(scores, leaves.T, strict=False)])
    start = described._start(document, data.common, codes, data.base_margin)
    before = (start + (margins - start) / factor)[:, 0].astype(np.float64)
    variances = 1.0 / kappas
    found = _model(trees, data, loss, before).effects_given(z, 1.0 / variances.sum(axis=0))
    effects = factor * found
    # What the task, then each new group of it, has beyond what is known: of the whole, a level has
    # the part that its variance has in that of all levels.
    of_groups = np.cumsum(variances / variances.sum(axis=0), axis=0)[:-1]
    by_name = np.vstack([effects, of_groups * effects])
    path = [] if known < 0 else trees._path(known)
    return [
        _task_values(values.of_task(shared, *path), score, added)
        for shared, values, score, added in zip(pooled, own, scores, by_name.T, strict=False)
    ]


def _model(trees: CommonTrees, data: Dataset, loss: Loss, margins: Float64Array) -> WorkingModel:
    labels = label_columns(data.labels())
    weight = None if data.weight is None else np.asarray(data.weight, np.float32)
    groups, margin_type = row_groups(loss, labels, None), trees.backend.margin_type
    return WorkingModel(loss, margin_type, labels, weight, groups, margins, margins)


def _task_values(around: Float64Array, score: Float64Array, effects: Sequence[float]) -> TaskValues:
    """Return the values of new names in one tree, from those of a task without effects."""
    leaves = np.flatnonzero(score)
    n_names = len(effects)
    return TaskValues(
        leaf=np.repeat(leaves, n_names).astype(np.int32),
        task=np.tile(np.arange(n_names, dtype=np.int32), len(leaves)),
        value=(around[leaves, None] + np.outer(score[leaves], effects)).ravel(),
        learning_rate=0.0,
    )
