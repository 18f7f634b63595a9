# SPDX-License-Identifier: Apache-2.0
"""Plots of fitted models, for one task or hundreds (docs/plots.md); they need matplotlib."""

from mtboost.model.plots.calibration import plot_calibration
from mtboost.model.plots.dependence import plot_dependence
from mtboost.model.plots.gain import plot_gain
from mtboost.model.plots.history import plot_history, plot_history_grid, plot_search
from mtboost.model.plots.importance import plot_importance
from mtboost.model.plots.intervals import plot_intervals
from mtboost.model.plots.sharing import plot_sharing
from mtboost.model.plots.shrinkage import plot_shrinkage
from mtboost.model.plots.similarity import plot_task_similarity
from mtboost.model.plots.tree import plot_tree

__all__ = [
    "plot_calibration",
    "plot_dependence",
    "plot_gain",
    "plot_history",
    "plot_history_grid",
    "plot_importance",
    "plot_intervals",
    "plot_search",
    "plot_sharing",
    "plot_shrinkage",
    "plot_task_similarity",
    "plot_tree",
]
