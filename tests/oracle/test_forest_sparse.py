# SPDX-License-Identifier: Apache-2.0
"""A sparse table grows the trees of the same table spread out, and predicts the same."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from mtboost import (
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
