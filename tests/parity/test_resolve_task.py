# SPDX-License-Identifier: Apache-2.0
"""A booster with task splits, made the booster of one task, gives that task the same margins.

Bit for bit, in both libraries; of tables with names of categories and of codes alone.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from task_splits import LIBRARIES, make_rows, with_tasks

from mtboost.errors import ModelFormatError

N_TASKS = 8
NAMES = list("ijklmnop")
X, Y, CODES = make_rows(n_tasks=N_TASKS)
ARRAY = X.assign(c=X["c"].cat.codes.astype(float)).to_numpy(float)
TABLES = {"frame": X, "array": ARRAY}

both_tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES)
def library(request):
    return request.param


def labels_for(objective):
    if objective.startswith("binary"):
        return (Y > 0).astype(float)
    return np.digitize(Y, [-1, 1]).astype(float) if objective.startswith("multi") else Y


def train(library, table, *, codes=CODES, y=Y, **params):
    split = {"task": codes, "split_score": "plain", "task_column": -1, "task_splits": 0.5}
    return library.train(with_tasks(table, codes, NAMES), y, params, split=split)


def n_task_splits(library, booster):
    return [int((features == 3).sum()) for features in library.features_of_trees(booster)]


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob"])
@both_tables
def test_margins_of_each_task_keep_their_bits(library, table, objective):
    params = {"num_class": 3} if objective == "multi:softprob" else {}
    objective = library.own(objective)
    booster = train(library, table, y=labels_for(objective), objective=objective, **params)
    assert sum(n_task_splits(library, booster)) > 10
    expected = library.margins(booster, with_tasks(table, CODES, NAMES))
    for code in range(N_TASKS):
        resolved = library.resolve(booster, code)
        assert all((features < 3).all() for features in library.features_of_trees(resolved))
        own = code == CODES
        assert_array_equal(library.margins(resolved, table[own]), expected[own])


@both_tables
def test_an_unknown_task_goes_where_missing_values_go(library, table):
    booster = train(library, table)
    resolved = library.resolve(booster, None)
    expected = library.margins(booster, with_tasks(table, None, NAMES))
    assert_array_equal(library.margins(resolved, table), expected)


def test_trees_that_grow_by_their_best_leaf():
    library = LIBRARIES["xgboost"]  # the nodes of these are not numbered level by level
    growth = {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 20}
    booster = train(library, X, **growth)
    expected = library.margins(booster, with_tasks(X, CODES, NAMES))
    for code in range(N_TASKS):
        own = code == CODES
        margins = library.margins(library.resolve(booster, code), X[own])
        assert_array_equal(margins, expected[own])


def test_a_tree_that_only_divides_tasks_becomes_a_leaf(library):
    constant = np.zeros((len(Y), 3))
    booster = train(library, constant, y=CODES % 2 + np.arange(len(Y)) % 2 / 9)
    for features in library.features_of_trees(booster):
        assert_array_equal(np.unique(features), [3])
    resolved = library.resolve(booster, 5)
    assert not any(map(len, library.features_of_trees(resolved)))
    expected = library.margins(booster, with_tasks(constant, np.full(len(Y), 5)))
    assert_array_equal(library.margins(resolved, constant), expected)
    # The start score is in the first tree of LightGBM and beside the trees of XGBoost.
    assert_allclose(library.contributions(resolved, constant).sum(axis=1), expected, rtol=1e-6)


def test_a_booster_without_task_splits_only_loses_its_column(library):
    split = {"task": CODES, "split_score": "plain", "task_column": -1, "task_splits": 1e9}
    without = library.train(X, Y, {})
    with_column = library.train(with_tasks(X, CODES, NAMES), Y, {}, split=split)
    resolved = library.resolve(with_column, 0)
    assert_array_equal(library.margins(resolved, X), library.margins(without, X))
    if library.name == "xgboost":
        assert library.raw(resolved) == library.raw(without)
    else:  # whose parameters are in the text, and which category columns there were
        trees = [text[: text.index("feature_importances")] for text in texts(resolved, without)]
        assert trees[0] == trees[1]


def texts(*boosters):
    return [booster.model_to_string() for booster in boosters]


@both_tables
def test_a_resolved_booster_is_an_ordinary_one(library, table, tmp_path):
    booster = library.resolve(train(library, table), 2)
    own = table[CODES == 2]
    margins = library.margins(booster, own)
    reloaded = library.reloaded(booster, tmp_path)
    assert_array_equal(library.margins(reloaded, own), margins)
    assert library.raw(library.resolve(train(library, table), 2)) == library.raw(booster)
    contributions = library.contributions(booster, own)
    assert contributions.shape == (len(own), 4)
    # XGBoost adds float32 numbers of order 1, and so do the margins.
    assert_allclose(contributions.sum(axis=1), margins, atol=1e-5)
    if library.name == "xgboost":
        assert booster.num_features() == 3
        assert booster.feature_names == (["a", "b", "c"] if table is X else None)
    else:
        assert booster.num_feature() == 3
        assert booster.feature_name() == (
            ["a", "b", "c"] if table is X else ["Column_0", "Column_1", "Column_2"]
        )


@both_tables
def test_a_node_is_as_heavy_as_the_leaves_below_it(library, table):
    """What SHAP values ask of a tree: the shares of two siblings add up to 1."""
    resolved = library.resolve(train(library, table), 1)
    if library.name == "xgboost":
        nodes = resolved.trees_to_dataframe()
        cover = dict(zip(nodes["ID"], nodes["Cover"], strict=True))
        inner = nodes[nodes["Feature"] != "Leaf"]
        total = [cover[yes] + cover[no] for yes, no in zip(inner["Yes"], inner["No"], strict=True)]
        assert_allclose(inner["Cover"], total, rtol=1e-6)  # XGBoost prints this many digits
    else:
        nodes = resolved.trees_to_dataframe()
        count = dict(zip(nodes["node_index"], nodes["count"], strict=True))
        inner = nodes[nodes["left_child"].notna()]
        total = [
            count[left] + count[right]
            for left, right in zip(inner["left_child"], inner["right_child"], strict=True)
        ]
        assert_array_equal(inner["count"], total)
    assert len(inner) > 10


def test_a_booster_whose_last_column_is_a_number_has_no_tasks(library):
    booster = library.train(ARRAY[:, :2], Y, {}, categories=())
    with pytest.raises(ModelFormatError, match="is not a category"):
        library.resolve(booster, 0)
