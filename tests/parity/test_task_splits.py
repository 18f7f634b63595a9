# SPDX-License-Identifier: Apache-2.0
"""Task splits inside the libraries' own training loops.

Without a penalty the task column is a category like others and training is stock training, bit for
bit. With one, what is promised is what all categories have: the finished booster sends rows where
the trees were grown to send them.
"""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from numpy.testing import assert_allclose, assert_array_equal
from task_splits import LIBRARIES, make_rows, with_tasks

import mtboost.lightgbm
import mtboost.xgboost
from mtboost.errors import DataError, ParameterError

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES)
def library(request):
    return request.param


def names(n_tasks):
    return [f"task{number}" for number in range(n_tasks)]


def trained(library, n_tasks, *, params=(), table=None, y=None, **split):
    X, labels, codes = make_rows(n_tasks=n_tasks)
    table = with_tasks(X, codes, names(n_tasks)) if table is None else table
    own = {"task": codes, "split_score": "plain", **split} if split else None
    return library.train(table, labels if y is None else y, dict(params), split=own)


# Few tasks are one against the rest in both libraries; of many XGBoost tries 63 on a side.
@pytest.mark.parametrize("n_tasks", [3, 10, 100])
def test_without_a_penalty_training_is_stock_training(library, n_tasks):
    stock = trained(library, n_tasks)
    free = trained(library, n_tasks, task_column="task", task_splits=0.0)
    assert library.raw(free) == library.raw(stock)
    assert any(3 in features for features in library.features_of_trees(stock))


@pytest.mark.parametrize("column", ["task", 3, -1])
def test_a_column_may_be_named_or_counted(library, column):
    by_column, by_name = (
        library.raw(trained(library, 10, task_column=each, task_splits=0.5))
        for each in (column, "task")
    )
    assert by_column == by_name


def test_any_number_of_threads_gives_the_same_booster(library):
    name = "nthread" if library.name == "xgboost" else "num_threads"
    labels = (make_rows(n_tasks=10)[1] > 0).astype(float)

    def raw(n_threads):
        params = {"objective": library.own("binary:logistic"), name: n_threads}
        return library.raw(trained(library, 10, params=params, y=labels, task_column="task"))

    one, two = raw(1), raw(2)
    if library.name == "lightgbm":  # whose text has the parameter
        two = two.replace("[num_threads: 2]", "[num_threads: 1]")
    assert one == two


def test_many_tasks_are_divided_in_the_middle(library):
    """Of 200 tasks half have another mean: of this many both libraries try small sets only."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(200), 20)
    y = codes % 2 + rng.normal(size=len(codes)) / 10
    table = np.column_stack([rng.normal(size=len(codes)), codes])
    params = {"max_depth": 1} if library.name == "xgboost" else {"num_leaves": 2}
    n_values = {}
    for penalty in (0.0, 1.0):
        split = {"task": codes, "split_score": "plain", "task_column": 1, "task_splits": penalty}
        booster = library.train(table, y, params, n_rounds=1, split=split, categories=(1,))
        margins = library.margins(booster, table, categories=(1,))
        n_values[penalty] = [len(np.unique(margins[codes % 2 == half])) for half in (0, 1)]
    assert n_values[1.0] == [1, 1]
    assert n_values[0.0] != [1, 1]


def test_rows_go_where_xgboosts_booster_sends_them():
    """Margins during training, which metrics see, are those of the finished booster."""
    library = LIBRARIES["xgboost"]
    X, y, codes = make_rows(n_tasks=30)
    table = with_tasks(X, codes, names(30))
    matrix = library.matrix(table, y)
    seen = []
    booster = xgboost.train(
        {"max_depth": 5},
        matrix,
        5,
        evals=[(matrix, "train")],
        custom_metric=lambda margins, _: ("seen", float(not seen.append(margins.copy()))),
        verbose_eval=False,
        callbacks=[mtboost.xgboost.TaskSplit(codes, split_score="plain", task_column="task")],
    )
    assert_array_equal(library.margins(booster, table), seen[-1])
    assert any(3 in features for features in library.features_of_trees(booster))


def test_rows_go_where_lightgbms_booster_sends_them():
    library = LIBRARIES["lightgbm"]
    X, y, codes = make_rows(n_tasks=30)
    table = with_tasks(X, codes, names(30))
    data = lightgbm.Dataset(table, y)
    seen = []
    booster = lightgbm.train(
        {"verbosity": -1, "min_data_per_group": 1, "cat_l2": 0.0},
        data,
        5,
        valid_sets=[data],
        feval=lambda margins, _: ("seen", float(not seen.append(margins.copy())), True),
        callbacks=[mtboost.lightgbm.TaskSplit(codes, split_score="plain", task_column="task")],
    )
    # The start score is added first during training, and with the first tree afterwards.
    assert_allclose(library.margins(booster, table), seen[-1], rtol=1e-13)
    assert any(3 in features for features in library.features_of_trees(booster))


def test_an_unknown_task_follows_the_heavier_side():
    library = LIBRARIES["xgboost"]  # a model of LightGBM has no default direction for categories
    booster = trained(library, 12, task_column="task", task_splits=0.5)
    document = mtboost.xgboost.assemble.read_document(booster)
    directions = []
    for tree in mtboost.xgboost.assemble.trees_of(document):
        left, hessian = tree["left_children"], tree["sum_hessian"]
        nodes = np.flatnonzero((left >= 0) & (tree["split_indices"] == 3))
        heavier_left = hessian[left[nodes]] >= hessian[left[nodes] + 1]
        assert_array_equal(tree["default_left"][nodes], heavier_left)
        directions.extend(heavier_left)
    assert {True, False} <= set(directions)


def test_the_unit_of_the_labels_changes_no_tree(library):
    """σ² has the unit of the gains. By powers of two, so that all roundings are the same."""
    X, y, codes = make_rows(n_tasks=12)
    table = with_tasks(X, codes, names(12))
    split = {"task": codes, "split_score": "plain", "task_column": "task"}
    params = {"base_score": 0.0} if library.name == "xgboost" else {"boost_from_average": False}
    boosters = [library.train(table, factor * y, params, split=split) for factor in (1, 8)]
    one, eight = (library.margins(booster, table) for booster in boosters)
    assert_array_equal(8 * one, eight)


# ---- what is refused --------------------------------------------------------------------------


def test_another_score_is_refused(library):
    for score in ("entropy", "variance", lambda s, gains: s):
        with pytest.raises(ParameterError, match="Task splits need split_score='plain'"):
            library.plugin.TaskSplit([0, 1], split_score=score, task_column=0)


@pytest.mark.parametrize("penalty", [-1.0, np.nan, np.inf, "1"])
def test_a_penalty_is_a_number(library, penalty):
    with pytest.raises(ParameterError, match="task_splits must be a finite number >= 0"):
        library.plugin.TaskSplit([0, 1], split_score="plain", task_column=0, task_splits=penalty)


def test_a_penalty_without_a_column_is_refused(library):
    with pytest.raises(ParameterError, match=r"task_splits=2.0 .*: name it, task_column="):
        library.plugin.TaskSplit([0, 1], split_score="plain", task_splits=2.0)


@pytest.mark.parametrize("column", [1.0, True, ("task",)])
def test_a_column_is_a_name_or_a_number(library, column):
    with pytest.raises(TypeError, match="must be the position or name of a column"):
        library.plugin.TaskSplit([0, 1], split_score="plain", task_column=column)


def test_a_column_that_is_not_there_is_refused(library):
    with pytest.raises(DataError, match=r"no column 'tasks'.*Did you mean 'task'"):
        trained(library, 10, task_column="tasks")
    with pytest.raises(DataError, match=r"no column 4, .*has 4 columns"):
        trained(library, 10, task_column=4)


def test_a_column_of_numbers_is_refused(library):
    with pytest.raises(DataError, match="task_column='a' is a column of numbers"):
        trained(library, 10, task_column="a")


def test_rows_without_a_task_are_refused():
    library = LIBRARIES["xgboost"]  # LightGBM keeps them with rare tasks
    X, _, codes = make_rows(n_tasks=10)
    table = with_tasks(X, np.where(codes == 3, -1, codes), names(10))
    with pytest.raises(ValueError, match="missing values: every row needs a task"):
        trained(library, 10, table=table, task_column="task")


def test_a_single_task_is_never_divided(library):
    X, y, _ = make_rows()
    table = X.assign(task=pd.Categorical(["only"] * len(X)))
    split = {"task": np.zeros(len(X), int), "split_score": "plain", "task_column": "task"}
    booster = library.train(table, y, {}, split=split)
    assert_array_equal(library.margins(booster, table), library.margins(library.train(X, y, {}), X))
