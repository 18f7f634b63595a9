# SPDX-License-Identifier: Apache-2.0
"""Ways to learn several tasks, each tuned by the same held-out rows: the methods of never_worse.py.

A method is a function ``(train, seed, budget) -> Fitted``. It holds out a fifth of each task's rows
(and classes), the same rows whatever the method, chooses by the loss of all of them, and trains
again on all training rows with what it chose. Boosting chooses among the same depths, with all rows
or a half of them for each tree, at a high learning rate; then it is trained at a low one, its
rounds found by early stopping.
"""

from task_methods.multi_task import auto, extra_trees, two_stages_quitting, two_stages_rounds
from task_methods.rows import Budget, Fitted, Method, Rows, SkippedError, category, no_task, one_hot
from task_methods.stock import catboost_category, independent, lightgbm_category, pooled_xgboost

__all__ = ["METHODS", "Budget", "Fitted", "Method", "Rows", "SkippedError"]

METHODS: dict[str, Method] = {
    "auto": auto,
    "pooled": pooled_xgboost(no_task),
    "one-hot": pooled_xgboost(one_hot),
    "category": pooled_xgboost(category),
    "independent": independent,
    "two-stage quitting": two_stages_quitting,
    "two-stage rounds": two_stages_rounds,
    "MT extra trees": extra_trees(),
    "extra trees one-hot": extra_trees(has_task_columns=True),
    "LightGBM category": lightgbm_category,
    "CatBoost category": catboost_category,
}
