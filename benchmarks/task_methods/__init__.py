# SPDX-License-Identifier: Apache-2.0
"""Ways to learn several tasks, each tuned by the same held-out rows: the methods of never_worse.py.

A method is a function ``(train, seed, budget) -> Fitted``. It holds out a fifth of each task's rows
(and classes), the same rows whatever the method, chooses by the loss of all of them, and trains
again on all training rows with what it chose. Boosting chooses among the same depths, with all rows
or a half of them for each tree, at a high learning rate; then it is trained at a low one, its
rounds found by early stopping. The defaults of libraries choose nothing.
"""

from task_methods.defaults import (
    catboost_default,
    hist_gradient_boosting_default,
    independent_default,
    lightgbm_default,
    mtboost_default,
    xgboost_default,
)
from task_methods.mixed import gpboost, linear
from task_methods.multi_task import (
    auto,
    auto_eval_set,
    extra_trees,
    two_stages_quitting,
    two_stages_rounds,
)
from task_methods.rows import Budget, Fitted, Method, Rows, SkippedError, category, no_task, one_hot
from task_methods.stock import catboost_category, independent, lightgbm_category, pooled_xgboost

__all__ = [
    "DEFAULTS",
    "METHODS",
    "PEERS",
    "PEERS_OF_DEFAULTS",
    "Budget",
    "Fitted",
    "Method",
    "Rows",
    "SkippedError",
]

METHODS: dict[str, Method] = {
    "auto": auto(),
    "auto thorough": auto(effort="thorough"),
    "auto, mean of 3": auto(n_ensemble=3),
    "auto eval_set": auto_eval_set,
    "two-stage quitting": two_stages_quitting,
    "two-stage rounds": two_stages_rounds,
    "MT extra trees": extra_trees(),
    "extra trees one-hot": extra_trees(has_task_columns=True),
    "pooled": pooled_xgboost(no_task),
    "one-hot": pooled_xgboost(one_hot),
    "category": pooled_xgboost(category),
    "independent": independent,
    "LightGBM category": lightgbm_category,
    "CatBoost category": catboost_category,
    "linear": linear,
    "GPBoost": gpboost(),
    "GPBoost slopes": gpboost(has_slopes=True),
    "XGBoost default": xgboost_default,
    "LightGBM default": lightgbm_default,
    "CatBoost default": catboost_default,
}
PEERS = list(METHODS)[list(METHODS).index("pooled") :]  # methods without mtboost

# Nothing is chosen: the methods of out_of_the_box.py.
DEFAULTS: dict[str, Method] = {
    "mtboost": mtboost_default(),
    "mtboost two-stage": mtboost_default(strategy="two-stage"),
    "mtboost fast": mtboost_default(effort="fast"),
    "XGBoost": xgboost_default,
    "LightGBM": lightgbm_default,
    "CatBoost": catboost_default,
    "HistGradientBoosting": hist_gradient_boosting_default,
    "LightGBM, one each": independent_default,
}
PEERS_OF_DEFAULTS = list(DEFAULTS)[list(DEFAULTS).index("XGBoost") :]
