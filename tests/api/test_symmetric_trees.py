# SPDX-License-Identifier: Apache-2.0
"""symmetric_trees=True: all nodes of a level have the same cut."""

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.testing import assert_allclose

import mtboost
import mtboost.lightgbm
import mtboost.xgboost
from mtboost.errors import ParameterError

N_TASKS = 5


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, (n_rows, 4)).astype(np.float32)
    task = rng.integers(0, N_TASKS, n_rows)
    y = np.sin(X[:, 0]) + (X[:, 1] > 3) * X[:, 2] / 4 + task % 2 + rng.normal(size=n_rows)
    return X, y, task


X, Y, TASK = rows(900, 0)
NEW, NEW_Y, NEW_TASK = rows(300, 1)
SAME = {  # of both libraries: the same bins, penalties and limits
    "xgboost": {"max_depth": 3, "reg_lambda": 1.0, "learning_rate": 0.3},
    "lightgbm": {
        "max_depth": 3,
        "num_leaves": 8,
        "lambda_l2": 1.0,
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "min_sum_hessian_in_leaf": 1.0,
        "learning_rate": 0.3,
        "verbosity": -1,
    },
}


def fitted(library, y=Y, **options):
    options = {
        "split_score": "plain",
        "symmetric_trees": True,
        "params": SAME[library.name],
        "num_boost_round": 8,
        "specific_rounds": 0,
        "patience": None,
        **options,
    }
    return mtboost.fit(X, y, task=TASK, backend=library.name, **options)


def numbers_of_cuts(booster):
    """For each tree how many different cuts (feature, threshold) its nodes have."""
    table = booster.trees_to_dataframe()
    if isinstance(booster, xgboost.Booster):
        tree, feature, threshold = table["Tree"], table["Feature"], table["Split"]
        is_inner = feature != "Leaf"
    else:
        tree, feature, threshold = table["tree_index"], table["split_feature"], table["threshold"]
        is_inner = feature.notna()
    cuts = feature.astype(str) + "<" + threshold.astype(str)
    return cuts[is_inner].groupby(tree[is_inner]).nunique()


def test_a_tree_has_a_cut_for_each_level(library):
    assert (numbers_of_cuts(fitted(library).common) == 3).all()
    assert numbers_of_cuts(fitted(library, symmetric_trees=False).common).max() > 3


def test_both_libraries_grow_the_same_trees():
    boosters = []
    for module, package in ((xgboost, mtboost.xgboost), (lightgbm, mtboost.lightgbm)):
        split = package.TaskSplit(TASK, score="plain", symmetric_trees=True)
        params = SAME[module.__name__]
        if module is xgboost:
            data = xgboost.DMatrix(X, Y - Y.mean())
            params = {**params, "base_score": 0.0}
        else:
            data = lightgbm.Dataset(X, Y - Y.mean())
            params = {**params, "boost_from_average": False}
        boosters.append(module.train(params, data, 8, callbacks=[split]))
    ours = boosters[0].predict(xgboost.DMatrix(NEW))
    # XGBoost adds float32 numbers of order 1: eight trees, gradients of some 100 rows in a leaf.
    assert_allclose(ours, boosters[1].predict(NEW), atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "binary:logistic"},
        {"pooling": 5.0},
        {"task_splits": 0.0, "pooling": 5.0},
        {"specific_rounds": 10, "patience": 5},
    ],
    ids=str,
)
def test_a_tasks_booster_gives_its_margins(library, options):
    options, y = dict(options), Y
    if objective := options.get("objective"):
        options["objective"], y = library.own(objective), (Y > 1).astype(float)
    model = fitted(library, y, **options)
    margins = model.predict_margin(NEW, task=NEW_TASK)
    for task in range(N_TASKS):
        own = task == NEW_TASK
        found = library.margins(model.booster(task), NEW[own])
        assert_allclose(found, margins[own], atol=10 * library.atol)


def test_specific_models_are_symmetric_too(library):
    for is_symmetric in (True, False):
        model = fitted(
            library, symmetric_trees=is_symmetric, specific_rounds=5, validation_fraction=0.0
        )
        numbers = [numbers_of_cuts(model.booster(task)).to_numpy()[8:] for task in range(N_TASKS)]
        assert (np.concatenate(numbers) <= 3).all() == is_symmetric


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split_score": "entropy"}, "symmetric_trees=True needs split_score='plain'"),
        ({"symmetric_trees": "yes"}, "symmetric_trees must be True or False, found 'yes'"),
    ],
)
def test_what_cannot_be_is_an_error(library, options, message):
    with pytest.raises((ParameterError, TypeError), match=message):
        fitted(library, **options)


def test_a_number_of_levels_is_needed(library):
    params = {"max_depth": 0} if library.name == "xgboost" else {"verbosity": -1}
    if library.name == "xgboost":
        params |= {"max_leaves": 8, "grow_policy": "lossguide"}
    with pytest.raises(ParameterError, match="needs a number of levels: set max_depth"):
        fitted(library, params=params)
