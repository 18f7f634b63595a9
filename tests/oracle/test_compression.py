# SPDX-License-Identifier: Apache-2.0
"""Compressed forests against a dense twin, step for step, and against what must hold of them."""

import os
import pickle
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from oracle import naive_compression
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold

import mtboost
from mtboost import _core
from mtboost.errors import ParameterError, UnsupportedError
from mtboost.estimators.forests.sklearn_forests import as_core_forest

# Sums of at most a hundred numbers near 1, and a few hundred steps: rounding stays below 1e-13
# times a hundred.
CLOSE = 1e-11


def make_table(seed, n_rows=90, n_features=4, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def make_labels(X, seed, n_outputs=1):
    rng = np.random.default_rng(seed + 100)
    known = np.nan_to_num(X).astype(np.float64)
    signals = [np.sin(6 * known[:, 0]), known[:, 1] * known[:, 2], known[:, 3]]
    y = np.column_stack([signals[output % 3] for output in range(n_outputs)])
    y += 0.2 * rng.standard_normal(y.shape)
    return (y - y.mean(axis=0)) / y.std(axis=0)


def grow(X, y, n_trees=5, **params):
    forest = _core.Forest(_core.ForestParams(seed=3, **params), n_features=X.shape[1])
    forest.grow(_core.FeatureColumns(X), n_trees=n_trees, y=np.ascontiguousarray(y))
    return forest


def trees_of(forest):
    return [forest.tree_arrays(tree) for tree in range(forest.n_trees)]


def walk(forest, X, y, X_valid=None, y_valid=None, epsilon=0.05, max_steps=1000):
    given = _core.StagewiseInput(forest, X, y, X_valid=X_valid, y_valid=y_valid)
    return _core.stagewise_paths([given], epsilon=epsilon, max_steps=max_steps)[0]


def coefficients_of(path, n_nodes, n_outputs):
    found = np.zeros((n_nodes, n_outputs))
    np.add.at(found, path["nodes"], path["changes"].reshape(-1, n_outputs))
    return found


def cut_off(forest, coefficients, intercept):
    nodes = np.flatnonzero(coefficients.any(axis=1)).astype(np.uint32)
    own = np.ascontiguousarray(coefficients[nodes])
    return _core.pruned_forest(forest, nodes, coefficients=own, intercept=intercept)


# ---- the path -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("n_outputs", "missing", "params"),
    [
        (1, 0.0, {}),
        (1, 0.2, {"min_samples_leaf": 4}),
        (1, 0.0, {"n_bootstrap": 90, "splitter": "best"}),
        (3, 0.0, {"min_samples_leaf": 2}),
    ],
)
def test_path_is_that_of_the_dense_twin(seed, n_outputs, missing, params):
    X, X_valid = (make_table(10 * seed + part, missing=missing) for part in (0, 1))
    y, y_valid = (make_labels(table, seed, n_outputs) for table in (X, X_valid))
    forest = grow(X, y, **params)
    path = walk(forest, X, y, X_valid, y_valid)

    indicators = naive_compression.visits(trees_of(forest), X)
    valid = naive_compression.visits(trees_of(forest), X_valid)
    twin = naive_compression.walk(indicators, y, valid, y_valid, epsilon=0.05, max_steps=1000)

    assert len(twin.nodes) > 50
    assert path["nodes"].tolist() == twin.nodes
    found = coefficients_of(path, forest.n_nodes, n_outputs)
    np.testing.assert_allclose(found, twin.coefficients[-1], atol=CLOSE)
    intercepts = path["intercepts"].reshape(-1, n_outputs)
    np.testing.assert_allclose(intercepts, twin.intercepts, atol=CLOSE)
    np.testing.assert_allclose(path["losses"], twin.losses, atol=CLOSE)
    np.testing.assert_allclose(path["valid_losses"], twin.valid_losses, atol=CLOSE)


def test_path_of_classes_takes_the_first_of_equally_correlated_nodes():
    X = make_table(0)
    y = (make_labels(X, 0) > 0.0).astype(np.float64)
    forest = grow(X, y, n_trees=8, min_samples_leaf=3)
    indicators = naive_compression.visits(trees_of(forest), X)
    twin = naive_compression.walk(indicators, y, indicators, y, epsilon=0.01, max_steps=300)
    assert walk(forest, X, y, epsilon=0.01, max_steps=300)["nodes"].tolist() == twin.nodes


def test_every_step_lowers_the_training_loss():
    X = make_table(0)
    y = make_labels(X, 0)
    path = walk(grow(X, y), X, y)
    assert len(path["nodes"]) < 1000
    assert np.all(np.diff(path["losses"]) < 0.0)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_path_ends_where_no_step_lowers_the_training_loss(n_outputs):
    """A step that is too long for the most correlated node may not be for one of fewer rows."""
    X = make_table(0)
    y = make_labels(X, 0, n_outputs)
    forest = grow(X, y)
    path = walk(forest, X, y, epsilon=0.1)
    assert len(path["nodes"]) < 1000

    indicators = naive_compression.visits(trees_of(forest), X)
    predicted = indicators @ coefficients_of(path, forest.n_nodes, n_outputs)
    residual = y - path["intercepts"][-n_outputs:] - predicted
    centred = indicators - indicators.mean(axis=0)
    correlations = np.linalg.norm(centred.T @ residual, axis=1)
    # |r - s x|² - |r|² = -2 s |c| + s² |x|² with a step of s = 0.1, the intercept following.
    changes = -2 * 0.1 * correlations + 0.1**2 * np.square(centred).sum(axis=0)
    assert changes.min() > -1e-9


def test_a_longer_path_begins_with_the_shorter_one():
    X = make_table(0)
    y = make_labels(X, 0)
    forest = grow(X, y)
    short, long = (walk(forest, X, y, max_steps=n)["nodes"] for n in (40, 80))
    assert len(short) == 40
    assert long[:40].tolist() == short.tolist()


def test_a_planted_node_is_found():
    X = make_table(0)
    forest = grow(X, make_labels(X, 0), n_trees=4, min_samples_leaf=5)
    indicators = naive_compression.visits(trees_of(forest), X)
    node = trees_of(forest)[0]["left"][0] + 1
    first_like_it = trees_of(forest)[0]["left"][0]  # its sibling has all other rows
    path = walk(forest, X, 3.0 * indicators[:, [node]], epsilon=0.01)
    assert set(path["nodes"].tolist()) == {first_like_it}
    # The last step ends within half a step of the truth.
    found = coefficients_of(path, forest.n_nodes, 1)[first_like_it]
    np.testing.assert_allclose(found, -3.0, atol=0.005 + CLOSE)


def test_paths_do_not_depend_on_threads():
    X = make_table(0)
    y = make_labels(X, 0)
    inputs = [_core.StagewiseInput(grow(X, y, n_trees=n), X, y) for n in (2, 3, 4)]
    one, many = (
        _core.stagewise_paths(inputs, epsilon=0.02, max_steps=200, n_threads=n) for n in (1, 4)
    )
    for own, other in zip(one, many, strict=True):
        assert own["nodes"].tobytes() == other["nodes"].tobytes()
        assert own["losses"].tobytes() == other["losses"].tobytes()


# ---- cutting off --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_pruned_forest_predicts_what_the_coefficients_say(n_outputs):
    X = make_table(0, missing=0.1)
    y = make_labels(X, 0, n_outputs)
    forest = grow(X, y, n_trees=6)
    rng = np.random.default_rng(0)
    coefficients = rng.standard_normal((forest.n_nodes, n_outputs))
    coefficients[rng.random(forest.n_nodes) < 0.9] = 0.0
    intercept = rng.standard_normal(n_outputs)
    small = cut_off(forest, coefficients, intercept)

    other = make_table(1, missing=0.1)
    expected = intercept + naive_compression.visits(trees_of(forest), other) @ coefficients
    np.testing.assert_allclose(small.predict(other), expected, rtol=0, atol=1e-13)
    assert small.n_nodes == naive_compression.n_kept_nodes(trees_of(forest), coefficients)
    assert small.n_nodes < forest.n_nodes


def test_without_coefficients_one_leaf_is_left():
    X = make_table(0)
    forest = grow(X, make_labels(X, 0))
    small = cut_off(forest, np.zeros((forest.n_nodes, 1)), np.array([0.75]))
    assert (small.n_trees, small.n_nodes) == (1, 1)
    assert small.predict(X).tolist() == [[0.75]] * len(X)


def test_divisions_of_tasks_stay_where_they_are_needed():
    X = make_table(0, n_rows=200)
    tasks = np.arange(200) % 4
    y = 3.0 * (tasks == 2) + X[:, 0]
    forest = mtboost.MTExtraTreesRegressor(10, task_split_prob=1.0, random_state=0)
    forest.fit(X, y, task=tasks)
    small = mtboost.compress(forest, X, y, task=tasks, n_steps=400)
    assert small.n_nodes_ < small.n_nodes_before_
    assert small.score(X, y, task=tasks) > 0.99
    unseen = small.predict(X, task=np.full(200, 9))  # goes its way, as in the forest
    assert np.isfinite(unseen).all()


# ---- scikit-learn's forests ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_converted_regressor_predicts_as_before(kind, n_outputs):
    X = make_table(0, missing=0.1)
    y = make_labels(X, 0, n_outputs)
    forest = kind(10, random_state=0).fit(X, y if n_outputs > 1 else y[:, 0])
    other = make_table(1, missing=0.1)
    found = as_core_forest(forest).predict(other)
    expected = forest.predict(other).reshape(len(other), -1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_converted_classifier_predicts_as_before(kind, n_classes):
    X = make_table(0)
    y = np.digitize(X[:, 0], np.arange(1, n_classes) / n_classes)
    forest = kind(10, random_state=0).fit(X, y)
    other = make_table(1)
    expected = forest.predict_proba(other)
    found = as_core_forest(forest).predict(other)
    wanted = expected[:, 1:] if n_classes == 2 else expected
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_converted_thresholds_are_exact():
    """Rows at, just below and just above each threshold go where scikit-learn sends them."""
    X = make_table(0, n_features=1).round(1)  # values that are no exact float64 either
    forest = ExtraTreesRegressor(20, random_state=0).fit(X, np.arange(len(X)))
    edges = np.concatenate([tree.tree_.threshold for tree in forest.estimators_])
    near = edges.astype(np.float32)
    near = np.concatenate([near, np.nextafter(near, np.float32(2)), np.nextafter(near, -9)])
    rows = np.float32(np.concatenate([near, X[:, 0]]))[:, np.newaxis]
    found = as_core_forest(forest).predict(rows)[:, 0]
    np.testing.assert_allclose(found, forest.predict(rows), rtol=1e-14)


# ---- compress() ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    X = make_table(0, n_rows=150)
    return X, 100.0 + 7.0 * make_labels(X, 0)[:, 0]


@pytest.fixture(scope="module")
def forest(table):
    return ExtraTreesRegressor(20, random_state=0).fit(*table)


def test_without_steps_the_mean_is_left(forest, table):
    X, y = table
    small = mtboost.compress(forest, X, y, n_steps=0)
    assert (small.n_steps_, small.n_trees_, small.n_nodes_, small.n_test_nodes_) == (0, 1, 1, 0)
    np.testing.assert_allclose(small.predict(X), y.mean(), rtol=1e-14)


def test_compressed_forest_is_smaller_and_predicts_on_its_own(forest, table):
    X, y = table
    whole = clone(forest).fit(X, y)
    small = mtboost.compress(whole, X, y, cv=3, random_state=0)
    predicted = small.predict(X)
    assert small.n_test_nodes_before_ == sum(
        int((tree.tree_.children_left >= 0).sum()) for tree in whole.estimators_
    )
    assert small.n_test_nodes_ < small.n_test_nodes_before_ / 5
    assert small.score(X, y) > 0.8
    del whole
    again = pickle.loads(pickle.dumps(small))
    assert again.predict(X).tobytes() == predicted.tobytes()
    assert again.n_steps_ == small.n_steps_


def test_pickle_is_small(forest, table):
    X, y = table
    small = mtboost.compress(forest, X, y, n_steps=50)
    assert len(pickle.dumps(small)) < len(pickle.dumps(forest)) / 10


def test_steps_are_those_of_the_least_mean_loss_of_the_folds(forest, table):
    X, y = table
    folds = list(KFold(4).split(X))
    few = clone(forest).set_params(n_estimators=5)
    small = mtboost.compress(few, X, y, cv=folds, epsilon=0.1, n_jobs=2)

    scaled = ((y - y.mean()) / y.std())[:, np.newaxis]
    losses = []
    for train, valid in folds:
        trees = trees_of(as_core_forest(clone(few).fit(X[train], y[train])))
        rows, valid_rows = (naive_compression.visits(trees, X[part]) for part in (train, valid))
        twin = naive_compression.walk(
            rows, scaled[train], valid_rows, scaled[valid], epsilon=0.1, max_steps=10_000
        )
        losses.append(twin.valid_losses)
    length = max(map(len, losses))
    padded = np.array([own + [own[-1]] * (length - len(own)) for own in losses])
    curve = small.cv_curve_
    np.testing.assert_allclose(curve.loss, padded.mean(axis=0), atol=CLOSE)
    deviations = padded.std(axis=0, ddof=1) / 2.0  # √4 folds
    np.testing.assert_allclose(curve.standard_error, deviations, atol=CLOSE)
    assert curve.steps.tolist() == list(range(length))
    assert small.n_steps_ == padded.mean(axis=0).argmin() == curve.best


def test_random_state_makes_it_repeatable(table):
    X, y = table
    forest = ExtraTreesRegressor(5)
    forest.fit(X, y)
    one, two = (mtboost.compress(forest, X, y, cv=3, random_state=7) for _ in range(2))
    assert one.cv_curve_.loss.tobytes() == two.cv_curve_.loss.tobytes()


def test_scale_of_labels_does_not_matter(forest, table):
    X, y = table
    one = mtboost.compress(forest, X, y, n_steps=100).predict(X)
    other = mtboost.compress(forest, X, 1e6 * y - 3e8, n_steps=100).predict(X)
    np.testing.assert_allclose(other, 1e6 * one - 3e8, rtol=1e-9)


def test_a_forest_that_is_not_fitted_is_fitted_as_a_clone(forest, table):
    X, y = table
    fresh = clone(forest)
    small = mtboost.compress(fresh, X, y, n_steps=60)
    assert not hasattr(fresh, "estimators_")
    expected = mtboost.compress(forest, X, y, n_steps=60)
    assert small.predict(X).tobytes() == expected.predict(X).tobytes()


@pytest.mark.parametrize("labels", [np.zeros(150), np.full(150, 0.1)])
def test_constant_labels_leave_one_leaf(forest, table, labels):
    small = mtboost.compress(forest, table[0], labels, cv=3)
    assert (small.n_steps_, small.n_nodes_) == (0, 1)
    np.testing.assert_allclose(small.predict(table[0]), labels, rtol=1e-15)


def test_one_tree_of_one_node_stays_one(table):
    X, y = table
    leaf = ExtraTreesRegressor(1, min_samples_split=1000).fit(X, y)
    small = mtboost.compress(leaf, X, y, n_steps=10)
    assert (small.n_nodes_before_, small.n_nodes_, small.n_steps_) == (1, 1, 0)
    np.testing.assert_allclose(small.predict(X), y.mean(), rtol=1e-14)


def test_many_steps_on_one_tree_give_back_its_leaves(table):
    """Without a bound on the coefficients the leaves' means are the best."""
    X, y = table
    tree = ExtraTreesRegressor(1, max_leaf_nodes=8, random_state=0).fit(X, y)
    small = mtboost.compress(tree, X, y, n_steps=100_000, epsilon=1e-4)
    # Steps end where none helps: |Σ residuals| of any node ≤ half a step times the Σ of squares of
    # the centred node, at most 150 / 4; a leaf of one row is off by that at most.
    np.testing.assert_allclose(small.predict(X), tree.predict(X), atol=y.std() * 1e-4 * 150 / 8)


def test_two_classes_of_any_name(table):
    X, y = table
    classes = np.where(y > 100.0, "high", "low")
    forest = RandomForestClassifier(20, random_state=0).fit(X, classes)
    small = mtboost.compress(forest, X, classes, cv=3, random_state=0)
    assert is_classifier(small)
    assert small.classes_.tolist() == ["high", "low"]
    probabilities = small.predict_proba(X)
    assert probabilities.shape == (150, 2)
    assert probabilities.min() >= 0.0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-15)
    assert small.predict(X).tolist() == small.classes_[probabilities.argmax(axis=1)].tolist()
    assert small.score(X, classes) > 0.9


def test_three_classes_and_several_columns(table):
    X, y = table
    three = np.digitize(y, [97.0, 103.0])
    columns = np.column_stack([three, y > 100.0])
    forest = ExtraTreesClassifier(20, random_state=0).fit(X, columns)
    small = mtboost.compress(forest, X, columns, cv=3, random_state=0)
    of_three, of_two = small.predict_proba(X)
    assert (of_three.shape, of_two.shape) == ((150, 3), (150, 2))
    np.testing.assert_allclose(of_three.sum(axis=1), 1.0, rtol=1e-14)
    assert small.predict(X).shape == columns.shape
    assert (small.predict(X) == columns).mean() > 0.85


def test_indicators_have_a_matrix_of_probabilities_as_in_the_forest(table):
    X, _ = table
    labels = np.column_stack([make_labels(X, 0, n_outputs=3) > 0.0, np.zeros(150)]).astype(int)
    forest = mtboost.ProjectedForestClassifier(20, random_state=0).fit(X, labels)
    small = mtboost.compress(forest, X, labels, cv=3, random_state=0)
    assert small.classes_.tolist() == forest.classes_.tolist() == [0, 1, 2, 3]
    assert small.predict_proba(X).shape == forest.predict_proba(X).shape
    np.testing.assert_allclose(small.predict_proba(X)[:, 3], 0.0, atol=1e-15)
    assert small.predict(X)[:, 3].tolist() == [0] * 150
    assert (small.predict(X) == labels).mean() > 0.85


def test_several_outputs_share_their_nodes(table):
    X, _ = table
    Y = make_labels(X, 0, n_outputs=3) * [1.0, 10.0, 100.0]
    forest = ExtraTreesRegressor(20, random_state=0).fit(X, Y)
    small = mtboost.compress(forest, X, Y, n_steps=1000)
    assert is_regressor(small)
    assert small.predict(X).shape == Y.shape
    assert small.score(X, Y) > 0.6
    # A copy of an output changes nothing but the length that a step has in each.
    one = mtboost.compress(forest, X, Y[:, 0], n_steps=100)
    two = mtboost.compress(forest, X, Y[:, [0, 0]], n_steps=100, epsilon=0.01 * np.sqrt(2.0))
    np.testing.assert_allclose(two.predict(X), one.predict(X)[:, np.newaxis] * [1, 1], atol=1e-9)


@pytest.mark.parametrize(
    "forest",
    [
        mtboost.MTExtraTreesRegressor(10, min_samples_leaf=2, random_state=0),
        RandomForestRegressor(10, random_state=0),
    ],
    ids=["ours", "theirs"],
)
def test_a_sparse_table_gives_what_the_dense_one_does(forest):
    dense = np.where(make_table(5) < 0.5, 0.0, make_table(5))
    y = make_labels(dense, 5)[:, 0]
    forest = clone(forest).fit(dense, y)
    expected = mtboost.compress(forest, dense, y, n_steps=40).predict(dense)
    table = scipy.sparse.csr_array(dense)
    found = mtboost.compress(forest, table, y, n_steps=40).predict(table)
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)


def test_names_of_columns_are_checked(table):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcd"))
    small = mtboost.compress(ExtraTreesRegressor(5), frame, y, cv=3, random_state=0)
    assert small.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        small.predict(frame[list("dcba")])


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX defines them")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_ends_the_paths(forest, table, n_jobs):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    start = time.monotonic()
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):  # these paths would take minutes
            mtboost.compress(
                forest, *table, cv=3, epsilon=1e-9, max_steps=10_000_000, n_jobs=n_jobs
            )
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 20.0


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be a finite number > 0, found 0.0"),
        ({"epsilon": np.nan}, "epsilon must be a finite number > 0, found nan"),
        ({"n_steps": -1}, "n_steps must be 'cv' or an integer >= 0, found -1"),
        ({"n_steps": "best"}, "n_steps must be 'cv' or an integer >= 0, found 'best'"),
        ({"max_steps": 0}, "max_steps must be an integer >= 1, found 0"),
        ({"task": np.zeros(150)}, "know no tasks"),
    ],
)
def test_bad_arguments_are_named(forest, table, arguments, message):
    with pytest.raises(ParameterError, match=message):
        mtboost.compress(forest, *table, **arguments)


def test_other_estimators_are_refused(table):
    with pytest.raises(UnsupportedError, match="GradientBoostingRegressor"):
        mtboost.compress(GradientBoostingRegressor(), *table)


def test_rows_and_labels_must_fit_together(forest, table):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        mtboost.compress(forest, table[0], table[1][:-1])


def test_the_last_step_tried_should_not_be_the_best(forest, table):
    with pytest.warns(ConvergenceWarning, match="raise max_steps"):
        mtboost.compress(forest, *table, cv=3, max_steps=5)


def test_an_empty_compressed_forest_says_so(table):
    with pytest.raises(NotFittedError, match="compress"):
        clone(mtboost.compress(ExtraTreesRegressor(2), *table, n_steps=3)).predict(table[0])


def test_there_is_a_curve_only_after_cross_validation(forest, table):
    with pytest.raises(ParameterError, match="n_steps was given"):
        mtboost.compress(forest, *table, n_steps=3).plot_cv_curve()


def test_the_curve_is_drawn_with_its_best_step(forest, table):
    plt = pytest.importorskip("matplotlib.pyplot")
    small = mtboost.compress(forest, *table, cv=3, random_state=0)
    _, ax = plt.subplots()
    assert small.plot_cv_curve(ax=ax) is ax
    assert ax.lines[1].get_xdata()[0] == small.n_steps_
    plt.close(ax.figure)


def test_values_that_a_sparse_table_stores_twice_are_added():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((200, 20), density=0.3, rng=rng, format="csr", dtype=np.float32)
    y = X.sum(axis=1)
    twice = scipy.sparse.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape
    )
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    small, other = (mtboost.compress(forest, table, y, random_state=0) for table in (X, twice))
    np.testing.assert_array_equal(small.predict(X), other.predict(twice))
