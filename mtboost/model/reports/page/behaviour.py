# SPDX-License-Identifier: Apache-2.0
"""What predictions depend on: plots of the test rows."""

from __future__ import annotations

from typing import Any

from mtboost.base.stacked_tables import concat
from mtboost.base.task_tables import is_mapping
from mtboost.model.plots.dependence import plot_dependence
from mtboost.model.plots.importance import contributions_by_task, draw_contributions
from mtboost.model.plots.shrinkage import plot_shrinkage
from mtboost.model.plots.similarity import plot_task_similarity
from mtboost.model.prediction.contributions import ExplainedTasks
from mtboost.model.prediction.new_rows import tables_by_task
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.reports.page.elements import Child, element, figure
from mtboost.model.reports.page.rows import UnseenRows

_N_FEATURES = 3
#: Tasks and rows whose contributions are computed.
_MOST_TASKS = 25
_ROWS_OF_TASK = 100


def behaviour_section(model: ExplainedTasks, test: UnseenRows | None) -> list[Child]:
    if test is None:
        return [element("p", "This needs rows: pass X and y.", class_="quiet")]
    tables = tables_by_task(model, test.X, test.task)
    largest = sorted(tables, key=lambda task: -tables[task].n_rows)[:_MOST_TASKS]
    found = contributions_by_task(model, tables, largest, _ROWS_OF_TASK, bool(model.losses))
    omitted = f" The {len(largest)} largest of {len(tables):,} tasks." * (
        len(tables) > len(largest)
    )
    X = _one_table(model, test.X)
    n_features = _N_FEATURES if model._stage.n_outputs == 1 else 1  # says why it is not drawn
    pictures = [
        figure(
            "importance",
            "Importance of features, task by task.",
            "Mean absolute contribution (SHAP value) to the margin." + omitted,
            lambda: draw_contributions(found, 15, None),
        ),
        *(
            figure(
                f"dependence{number}",
                f"Dependence on {name}.",
                "Mean prediction with the feature set to each value; one line a task.",
                lambda name=name: plot_dependence(model, X, _feature(model, name)),  # type: ignore[misc]
            )
            for number, name in enumerate(found.features[:n_features])
        ),
    ]
    if len(model.tasks) > 1:
        pictures.append(
            figure(
                "similarity",
                "How alike the tasks are.",
                "Correlation of their predictions for the same rows, in the order of a clustering.",
                lambda: plot_task_similarity(model, X),
            )
        )
        own = {"task": test.task, "weight": test.weight, "base_margin": test.base_margin}
        pictures.append(
            figure(
                "shrinkage",
                "Levels of the tasks.",
                "Differences from the pooled prediction: of the labels, and of the predictions.",
                lambda: plot_shrinkage(model, test.X, test.y, **own),
            )
        )
    return [element("p", "Computed from the test rows."), *pictures]


def _one_table(model: FittedTasks, X: Any) -> Any:
    """Return one table of all rows where tables of the tasks have the same columns."""
    if not is_mapping(X):
        return X
    tables = list(tables_by_task(model, X, None).values())
    same = all(each.feature_names == tables[0].feature_names for each in tables)
    return concat(tables).native if same else X


def _feature(model: FittedTasks, name: str) -> str | int:
    """Return what the plot of dependence calls a feature."""
    columns = model.common_columns
    if columns.names is not None:
        return name
    return model._library.feature_names(columns).index(name)
