# SPDX-License-Identifier: Apache-2.0
"""Levels of tasks, estimated again after the trees of a common model.

The level of a task is the mean of what its own leaf values, descriptors and effects add to the
margins of its rows. Round after round trees shrink what is left of it, so that all of it has been
learned in the end, and of a task with few rows the level is mostly noise. Here it is taken off, and
a random intercept takes its place, given everything else in the trees: an effect with a variance
between tasks that is estimated by EM (linear_effects.py). Trees and random effects take turns like
this in mixed-effects forests (hajjem2014), here once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array, FloatArray, Int32Array
from mtboost.base.dataset import Dataset
from mtboost.base.labels import weights_or_ones
from mtboost.model.stages.common import CommonModel
from mtboost.model.stages.common_trees import CommonTrees
from mtboost.model.stages.linear_effects import LinearDesign, LinearEffects, why_no_linear_effects
from mtboost.model.stages.settings import Settings
from mtboost.trees.losses import has_hazards


def may_have_levels(settings: Settings, data: Dataset) -> bool:
    """Return whether the levels of the tasks of these rows can be estimated.

    Not where intercepts of tasks cancel, as in strata of hazards, where all labels are the same,
    nor where the user wants no effects before the trees.
    """
    if "linear_effects" in settings.given and not settings.linear_effects:
        return False
    if has_hazards(settings.params.get("objective")) and not settings.options.one_stratum:
        return False
    labels = data.labels() if data.weight is None else data.labels()[data.weight > 0]
    if not len(labels) or (labels == labels[0]).all():
        return False
    return not why_no_linear_effects(settings, data, "intercepts")


def with_levels(settings: Settings, data: Dataset, common: CommonModel) -> CommonModel:
    """Return a common model with random intercepts in place of the levels of its tasks.

    They are its first round, or part of it, if that has linear effects already.

    Parameters
    ----------
    settings : Settings
    data : Dataset
        The training rows.
    common : CommonModel
    """
    data = settings.objectives.in_one_unit(data)
    trees, codes = common.trees, data.tasks.codes
    own = trees.codes_of(data.tasks.names)[codes]
    rounds = np.array([common.quit_round[name] for name in data.tasks])[codes]
    unknown = _margins(trees, data, np.full_like(own, -1), rounds)
    levels = np.zeros(len(trees.tasks))
    margins = unknown
    for group in [own] if trees.nesting is None else trees.nesting.lineage(own):
        margins = _margins(trees, data, group, rounds)
        levels += _means(margins - unknown, data.weight, group, len(levels))
    settings = replace(settings, linear_effects="intercepts")
    left = data.with_base_margin((margins - levels[own]).astype(settings.backend.margin_type))
    intercepts = LinearDesign.of(settings, left).effects(settings, left)
    found = trees.codes_of(intercepts.tasks)
    changes = intercepts.by_task[0] - levels[found]
    n_added = int(trees.n_linear == 0)
    trees = (
        replace(intercepts, by_task=[changes]).before(trees)
        if n_added
        else _added_to_first(trees, intercepts, changes[0][np.argsort(found)])
    )
    quit_round = {task: n + n_added for task, n in common.quit_round.items()}
    return replace(common, trees=trees, quit_round=quit_round)


def _margins(
    trees: CommonTrees, data: Dataset, codes: Int32Array, rounds: npt.NDArray[np.int64]
) -> Float64Array:
    """Return the margins of rows as those of these tasks or groups, shape (n_rows,)."""
    found = trees.margins(data.common, codes, rounds, data.base_margin)
    return found[:, 0].astype(np.float64)


def _means(
    values: Float64Array, weight: FloatArray | None, codes: Int32Array, n: int
) -> Float64Array:
    """Return the mean of each code's rows; 0 without weight."""
    of_rows = weights_or_ones(weight, len(values))
    known = codes >= 0
    totals = np.bincount(codes[known], of_rows[known], n)
    sums = np.bincount(codes[known], (of_rows * values)[known], n)
    return np.divide(sums, totals, out=np.zeros(n), where=totals > 0.0)


def _added_to_first(
    trees: CommonTrees, intercepts: LinearEffects, changes: Float64Array
) -> CommonTrees:
    """Return trees whose first, a constant, has more for unknown tasks and for each name."""
    document = trees.backend.document(trees.booster)
    values = document.leaf_values()
    values[0] = values[0] + intercepts.steps[0].values
    first, *others = trees.pooled.values
    first = replace(first, value=first.value + changes[first.task])
    return replace(
        trees,
        booster=document.with_leaf_values(values).load(),
        pooled=replace(trees.pooled, values=[first, *others]),
        linear_kappas=np.column_stack([intercepts.kappas, trees.linear_kappas[:, 1:]]),
    )
