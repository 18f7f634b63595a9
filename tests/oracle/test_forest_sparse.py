# SPDX-License-Identifier: Apache-2.0
"""A sparse table grows the trees of the same table spread out, and predicts the same."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from mtboost import (
    MTAdaBoostClassifier,
    MTDecisionTreeClassifier,
    MTExtraTreesClassifier,
    MTExtraTreesRegressor,
    ProjectedForestClassifier,
    ProjectedForestRegressor,
    _core,
)

FORESTS = [
    (MTExtraTreesRegressor, "number"),
    (MTExtraTreesClassifier, "two"),
    (MTExtraTreesClassifier, "four"),
    (ProjectedForestRegressor, "numbers"),
    (ProjectedForestClassifier, "labels"),
]


def make_table(seed: int, n_rows: int, n_features: int, density: float) -> scipy.sparse.csr_array:
    rng = np.random.default_rng(seed)
    table = scipy.sparse.random_array((n_rows, n_features), density=density, rng=rng, format="csr")
    decimals, scale = rng.integers(0, 3), rng.choice([1.0, 3.0])
    table.data[:] = np.round(scale * rng.normal(size=table.nnz), decimals)  # ties, and zeros stored
    if seed % 3 == 0 and table.nnz:
        table.data[rng.integers(table.nnz)] = np.nan
    return table


def make_labels(kind: str, seed: int, n_rows: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    number = rng.integers(-20, 20, n_rows) / 8  # sums of these are exact
    match kind:
        case "two":
            return number > 0
        case "four":
            return np.digitize(number, [-1, 0, 1])
        case "numbers":
            return rng.integers(-20, 20, (n_rows, 3)) / 8
        case "labels":
            return (rng.random((n_rows, 5)) < 0.4).astype(int)
    return number


@pytest.mark.parametrize(("forest", "kind"), FORESTS, ids=[kind for _, kind in FORESTS])
@pytest.mark.parametrize("splitter", ["random", "best"])
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(2, 120),
    n_features=st.integers(1, 300),
    density=st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
    max_features=st.sampled_from([None, "sqrt"]),
    min_samples_leaf=st.integers(1, 3),
    bootstrap=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_trees_of_a_sparse_table_are_those_of_the_dense_one(
    forest, kind, splitter, seed, n_rows, n_features, density, **options
):
    X, y = make_table(seed, n_rows, n_features, density), make_labels(kind, seed, n_rows)
    model = forest(n_estimators=2, splitter=splitter, random_state=seed, **options)
    sparse = model.fit(X, y)
    trees = [sparse.forest_.tree_arrays(tree) for tree in range(2)]
    predicted = sparse.apply(X)
    np.testing.assert_array_equal(sparse.apply(X.toarray()), predicted)
    dense = model.fit(X.toarray(), y)
    for tree in range(2):
        for name, expected in dense.forest_.tree_arrays(tree).items():
            np.testing.assert_array_equal(trees[tree][name], expected, err_msg=name)


def test_tasks_and_weights_of_a_sparse_table_count_as_those_of_the_dense_one():
    X, y = make_table(7, 400, 50, 0.1), make_labels("number", 7, 400)
    task, weight = np.arange(400) % 5, np.arange(400) % 3
    model = MTExtraTreesRegressor(20, task_split_prob=0.7, random_state=0, min_samples_leaf=2)
    options = {"task": task, "sample_weight": weight}
    expected = model.fit(X.toarray(), y, **options).predict(X.toarray(), task=task)
    found = model.fit(X.tocsc(), y, **options)
    np.testing.assert_array_equal(found.predict(X.tocoo().tocsr(), task=task), expected)


def test_where_nearly_all_features_are_constant_the_others_are_all_found():
    # 4000 features, of which a row has four: most draws in small nodes are in vain.
    X = make_table(1, 300, 4000, 0.001)
    y = np.arange(300) % 7
    model = MTExtraTreesClassifier(
        5, max_features=10, min_samples_leaf=1, bootstrap=False, random_state=0
    )
    sparse = model.fit(X, y)
    trees = [sparse.forest_.tree_arrays(tree) for tree in range(5)]
    dense = model.fit(X.toarray(), y)
    for tree in range(5):
        for name, expected in dense.forest_.tree_arrays(tree).items():
            np.testing.assert_array_equal(trees[tree][name], expected, err_msg=name)
    # A leaf that is not pure has rows that are alike in everything.
    leaves = dense.apply(X.toarray())[:, 0]
    rows = X.toarray()
    for leaf in np.unique(leaves):
        own = leaves == leaf
        assert len(np.unique(y[own])) == 1 or len(np.unique(rows[own], axis=0)) == 1


# Predictions where most nodes are passed over: rows of few values, trees hundreds of levels deep


@pytest.fixture(scope="module", params=[0.0, 0.3], ids=["values", "tasks too"])
def deep_forest(request):
    X, task = make_table(3, 1500, 800, 0.004), np.arange(1500) % 5
    model = MTExtraTreesClassifier(
        20, task_split_prob=request.param, min_samples_leaf=1, random_state=0
    )
    model.fit(X, np.arange(1500) % 3, task=task)
    for tree in range(20):
        arrays = model.forest_.tree_arrays(tree)
        parents = arrays["left"] >= 0
        assert arrays["weight"][parents].sum() > 100 * arrays["weight"][0]  # steps of a row
        assert 0.4 < np.mean(arrays["threshold"][parents] < 0) < 0.6
    return model


@given(
    seed=st.integers(0, 10_000),
    n_rows=st.sampled_from([1, 9, 150, 400]),
    density=st.sampled_from([0.0, 0.001, 0.01, 0.3]),
    n_jobs=st.integers(1, 2),
)
@settings(max_examples=40, deadline=None)
def test_sparse_rows_end_in_the_leaves_of_the_dense_ones(
    deep_forest, seed, n_rows, density, n_jobs
):
    X = make_table(3 * seed, n_rows, 800, density)  # with a missing value, zeros stored
    task = np.arange(n_rows) % 7  # two of them unknown
    deep_forest.set_params(n_jobs=n_jobs)
    for outputs in (deep_forest.apply, deep_forest.predict_proba):
        np.testing.assert_array_equal(outputs(X, task=task), outputs(X.toarray(), task=task))


def test_out_of_bag_outputs_of_sparse_rows_are_those_of_the_dense_ones():
    X, y = make_table(3, 1500, 80, 0.04), make_labels("number", 3, 1500)
    model = MTExtraTreesRegressor(
        10, bootstrap=True, oob_score=True, min_samples_leaf=1, random_state=0
    )
    found = model.fit(X, y).oob_prediction_
    np.testing.assert_array_equal(model.fit(X.toarray(), y).oob_prediction_, found)


# Multi-task trees: any weights, for nothing but the columns depends on the kind of the table


def assert_equal_trees(found, expected):
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        for name, values in other.arrays().items():
            np.testing.assert_array_equal(own.arrays()[name], values, err_msg=name)


@pytest.mark.parametrize("criterion", ["joint", "sum", "max", "concat"])
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(2, 120),
    n_features=st.integers(1, 300),
    density=st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
    max_features=st.sampled_from([None, "sqrt"]),
    max_depth=st.sampled_from([None, 3]),
    min_samples_leaf=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_multi_task_trees_of_a_sparse_table_are_those_of_the_dense_one(
    criterion, seed, n_rows, n_features, density, **options
):
    X, y = make_table(seed, n_rows, n_features, density), make_labels("four", seed, n_rows)
    rng = np.random.default_rng([seed, 2])
    rows = {"task": rng.integers(0, 3, n_rows), "sample_weight": rng.random(n_rows)}
    model = MTDecisionTreeClassifier(criterion=criterion, random_state=seed, **options)
    sparse = model.fit(X, y, **rows).tree_
    predicted = model.predict_proba(X, task=rows["task"])
    visited = model.apply(X.tocsc(), task=rows["task"])
    dense = model.fit(X.toarray(), y, **rows).tree_
    assert_equal_trees([sparse], [dense])
    np.testing.assert_array_equal(model.predict_proba(X.toarray(), task=rows["task"]), predicted)
    np.testing.assert_array_equal(model.apply(X.toarray(), task=rows["task"]), visited)


@pytest.mark.parametrize("criterion", ["joint", "max"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_boosted_trees_of_a_sparse_table_are_those_of_the_dense_one(criterion, n_jobs):
    # Enough values for several threads; seed 3 has a missing one.
    X, task = make_table(3, 3000, 400, 0.05), np.arange(3000) % 3
    assert X.count_nonzero() > 1 << 15
    y = np.digitize(np.nan_to_num(X.toarray())[:, :40].sum(axis=1), [-1, 1]) + task
    model = MTAdaBoostClassifier(6, criterion=criterion, max_depth=15, n_jobs=n_jobs)
    sparse = model.fit(X, y, task=task)
    trees, errors, found = sparse.trees_, sparse.estimator_errors_, sparse.predict(X, task=task)
    dense = model.set_params(n_jobs=1).fit(X.toarray(), y, task=task)
    assert len(trees) == 6
    assert_equal_trees(trees, dense.trees_)
    np.testing.assert_array_equal(errors, dense.estimator_errors_)
    np.testing.assert_array_equal(dense.predict(X.toarray(), task=task), found)


def test_however_a_value_is_stored_the_columns_are_the_same():
    # Twice in a cell, out of order, as 0, as -0, and as both 1 and -1.
    row, column = [0, 0, 1, 1, 2, 3, 3, 4], [2, 2, 1, 0, 0, 1, 1, 2]
    value = [1.0, 0.5, 2.0, -1.0, 0.0, 1.0, -1.0, -0.0]
    X = scipy.sparse.csr_array((5, 3))
    X.indptr = np.searchsorted(row, np.arange(6)).astype(np.int32)
    X.indices, X.data = np.array(column, np.int32), np.array(value)
    dense = np.array([[0, 0, 1.5], [-1, 2, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    y = [0, 1, 2, 2, 2]
    model = MTDecisionTreeClassifier()
    sparse = model.fit(X, y).tree_
    assert_equal_trees([sparse], [model.fit(dense, y).tree_])
    assert model.predict(X).tolist() == y


def test_a_node_of_a_multi_task_tree_finds_the_one_feature_that_varies_there():
    # 40 000 features, of which each row has a different one, and the first contains the signal.
    n_rows = 40
    own = scipy.sparse.csr_array(
        (np.ones(n_rows), (np.arange(n_rows), 1000 * np.arange(n_rows) + 7)), shape=(n_rows, 40_000)
    )
    first = scipy.sparse.csr_array(-(np.arange(n_rows)[:, np.newaxis] % 3 - 1.0))
    X = scipy.sparse.hstack([first, own], format="csr")
    model = MTDecisionTreeClassifier().fit(X, np.arange(n_rows) % 3)
    arrays = model.tree_.arrays()
    is_cut = arrays["left"] >= 0
    assert arrays["feature"][is_cut].tolist() == [0, 0]
    assert sorted(arrays["threshold"][is_cut]) == [-0.5, 0.5]


# Damage


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": np.array([0, 2], np.int64)}, "number of values"),
        ({"indptr": np.array([0, 3, 2, 3], np.int64)}, "indptr must ascend"),
        ({"indices": np.array([2, 1, 0], np.uint32)}, "indices must ascend"),
        ({"indices": np.array([1, 1, 0], np.uint32)}, "indices must ascend"),
        ({"indices": np.array([0, 9, 0], np.uint32)}, "not below n_features"),
        ({"values": np.ones(2, np.float32)}, "number of values"),
    ],
)
def test_a_damaged_table_is_refused(changes, message):
    table = {
        "indptr": np.array([0, 2, 3], np.int64),
        "indices": np.array([0, 2, 0], np.uint32),
        "values": np.ones(3, np.float32),
        "n_features": 3,
    }
    _core.SparseRows(**table)
    with pytest.raises(ValueError, match=message):
        _core.SparseRows(**{**table, **changes})
