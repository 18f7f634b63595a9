# SPDX-License-Identifier: Apache-2.0
"""symmetric_trees=True: all nodes of a level have the same cut."""

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

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
    given = {"strategy": "two-stage", "split_score": "plain", "symmetric_trees": True}
    given |= {"num_boost_round": 8, "specific_rounds": 0, "early_stopping_rounds": None}
    given |= {"params": SAME[library.name], "backend": library.name, **options}
    return mtboost.fit(X, y, task=TASK, **given)


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
        split = package.TaskSplit(TASK, split_score="plain", symmetric_trees=True)
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
        {"specific_rounds": 10, "early_stopping_rounds": 5},
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


def test_noise_in_the_cuts_depends_on_the_seed_alone(library):
    margins = [
        fitted(
            library, random_strength=strength, seed=seed, validation_fraction=0.0
        ).predict_margin(NEW, task=NEW_TASK)
        for strength, seed in ((1.0, 0), (1.0, 0), (1.0, 1), (0.0, 0), (0.0, 1))
    ]
    assert_array_equal(margins[0], margins[1])
    assert_array_equal(margins[3], margins[4])
    assert (margins[0] != margins[2]).any()
    assert (margins[0] != margins[3]).any()


def test_cuts_with_noise_still_find_what_there_is(library):
    """Noise of one σ decides between equals: the fit is about as close, and of 100 σ it is not.

    Mean squared errors for 0, 1 and 100: 1.297, 1.326, 1.445 (XGBoost), 1.297, 1.312, 1.479.
    """
    params = SAME[library.name]

    def error(strength):
        model = fitted(library, random_strength=strength, params=params, num_boost_round=30)
        return np.mean((model.predict(NEW, task=NEW_TASK) - NEW_Y) ** 2)

    assert error(1.0) < 1.05 * error(0.0) < error(100.0)


def test_the_estimators_have_it(library):
    table = np.column_stack([TASK, X])
    options = {"strategy": "two-stage", "split_score": "plain", "symmetric_trees": True}
    options |= {"specific_rounds": 0, "early_stopping_rounds": None, "random_strength": 1.0}
    options |= {"backend": library.name, "task": 0, "n_estimators": 8, "max_depth": 3}
    model = mtboost.MultiTaskRegressor(**options).fit(table, Y)
    other = clone(model).set_params(random_strength=0.0).fit(table, Y)
    assert (numbers_of_cuts(model.model_.common) <= 3).all()
    assert (model.predict(table) != other.predict(table)).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split_score": "entropy"}, "symmetric_trees=True needs split_score='plain'"),
        ({"random_strength": "1"}, "random_strength must be a finite number >= 0, found '1'"),
        ({"random_strength": -1.0}, "random_strength must be a finite number >= 0, found -1.0"),
        ({"random_strength": np.nan}, "random_strength must be a finite number >= 0, found nan"),
        (
            {"random_strength": 1.0, "symmetric_trees": False},
            "random_strength=1.0 is noise in the splits of symmetric trees",
        ),
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
