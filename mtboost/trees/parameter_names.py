# SPDX-License-Identifier: Apache-2.0
"""Names that other libraries have for a parameter or argument, for the ends of messages."""

from __future__ import annotations

from collections.abc import Collection

#: Names of functions, and those of estimators for the same.
SAME_IN_ESTIMATORS = {
    "num_boost_round": "n_estimators",
    "n_threads": "n_jobs",
    "seed": "random_state",
    "weight": "sample_weight",
    "init_model": "xgb_model",
}
#: Parameters of an estimator, and names of the libraries for the same (docs/usage.md).
OF_PARAMETERS = {
    "learning_rate": ("eta", "shrinkage_rate"),
    "max_depth": ("depth",),
    "max_leaves": ("num_leaves", "num_leaf", "max_leaf_nodes", "max_leaf"),
    "min_child_weight": ("min_sum_hessian_in_leaf", "min_sum_hessian", "min_hessian"),
    "gamma": ("min_gain_to_split", "min_split_gain", "min_split_loss"),
    "reg_lambda": ("lambda", "lambda_l2", "l2_leaf_reg", "l2_regularization"),
    "reg_alpha": ("lambda_l1",),
    "subsample": ("bagging_fraction", "sub_row", "bagging"),
    "colsample_bytree": ("feature_fraction", "sub_feature", "rsm"),
    "colsample_bynode": ("feature_fraction_bynode", "sub_feature_bynode"),
    "max_bin": ("border_count", "max_bins"),
    "monotone_constraints": ("monotone_constraint", "monotonic_cst"),
    "interaction_constraints": ("interaction_cst",),
}
#: Arguments of fit(), and names of the libraries for the same.
OF_ARGUMENTS = {
    "num_boost_round": (
        "iterations",
        "num_iterations",
        "num_trees",
        "num_rounds",
        "num_round",
        "max_iter",
    ),
    "eval_metric": ("metric",),
    "n_threads": ("thread_count", "num_threads", "nthread"),
    "seed": ("random_seed",),
    "verbose": ("verbose_eval",),
    "base_margin": ("init_score",),
    "early_stopping_rounds": ("od_wait", "early_stopping_round", "n_iter_no_change"),
}
#: Numbers of rows in a leaf, by the names of LightGBM and scikit-learn.
ROWS_OF_A_LEAF = ("min_data_in_leaf", "min_data", "min_child_samples", "min_samples_leaf")
OF_CATEGORIES = ("cat_features", "cat_feature", "categorical_features", "categorical_feature")
#: How columns of categories are given.
AS_CATEGORIES = " Make them columns of categories in X."


def of_a_leaf(remedy: str) -> str:
    """Return what XGBoost has in place of a minimum number of rows in a leaf."""
    return (
        " XGBoost limits the sum of hessians in a leaf, for squared error the number of its rows: "
        f"pass {remedy}."
    )


def argument_of(name: str) -> str | None:
    """Return the argument of fit() that a name of the libraries or estimators stands for."""
    for argument, names in OF_ARGUMENTS.items():
        if name in (argument, SAME_IN_ESTIMATORS.get(argument), *names):
            return argument
    return None


def same_parameter(name: str, known: Collection[str]) -> str | None:
    """Return the known name of the same parameter, of a library that calls it otherwise."""
    for own, others in OF_PARAMETERS.items():
        names = (own, *others)
        if name in names:
            return next((other for other in names if other in known), None)
    return None
