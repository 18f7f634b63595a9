# SPDX-License-Identifier: Apache-2.0
"""Multi-task decision trees equal their slow twin, and have the properties of the method."""

import numpy as np
import pytest
import scipy.sparse
from oracle import naive_mt_decision_tree as naive
from sklearn.tree import DecisionTreeClassifier

from mtboost.estimators.forests import MTAdaBoostClassifier, MTDecisionTreeClassifier

CRITERIA = ["joint", "sum", "max", "concat"]
every_criterion = pytest.mark.parametrize("criterion", CRITERIA)


def items(seed, n_rows=90, n_tasks=3, n_features=4, n_values=None, missing=0.0):
    """Tasks with 2, 3, ... labels that follow two features, with noise; whole numbers as labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    if n_values is not None:
        X = np.floor(X * n_values / 2)
    task = rng.integers(0, n_tasks, n_rows)
    signal = X[:, 0] + np.where(task == 0, X[:, 1], -X[:, 1]) + 0.5 * rng.normal(size=n_rows)
    y = np.clip(np.floor(signal + 1), 0, task + 1).astype(int)
    X[rng.random(X.shape) < missing] = np.nan
    return X.astype(np.float32), y, task


def sparse_items(seed, n_rows=90, missing=0.0):
    """The same with values of both signs of which two thirds are 0, some of these stored."""
    X, y, task = items(seed, n_rows, n_features=8, n_values=4, missing=missing)
    rng = np.random.default_rng([seed, 1])
    X[rng.random(X.shape) < 0.6] = 0.0
    stored = (X != 0) | (rng.random(X.shape) < 0.1)
    rows, columns = stored.nonzero()
    sparse = scipy.sparse.csr_array((X[stored], (rows, columns)), shape=X.shape)
    assert sparse.nnz > (X != 0).sum()
    return sparse, y, task


def dyadic_weights(n_rows, seed=0):
    """Sums of these are exact, in whatever order."""
    return np.random.default_rng(seed).choice([0.25, 0.5, 1.0, 3.0], n_rows)


def as_nodes(model, at=0):
    """The tree of an estimator as the twin's nodes."""
    arrays = model.tree_.arrays()
    node = naive.NaiveNode()
    labels = model.classes_[model._task_classes.columns]
    for number in range(*arrays["decision_starts"][at : at + 2]):
        part = slice(*arrays["leaf_starts"][number : number + 2].astype(int))
        shares = dict(
            zip(
                labels[arrays["leaf_outputs"][part]].tolist(),
                arrays["leaf_values"][part].tolist(),
                strict=True,
            )
        )
        name = model.tasks_[arrays["decided_tasks"][number]]
        node.decisions[name] = (labels[arrays["decided_classes"][number]], shares)
    left = arrays["left"][at]
    if left >= 0:
        missing_left = bool(arrays["default_left"][at])
        node.cut = (int(arrays["feature"][at]), arrays["threshold"][at], missing_left)
        node.left, node.right = as_nodes(model, left), as_nodes(model, left + 1)
    return node


def n_cuts(node):
    return 0 if node.cut is None else 1 + n_cuts(node.left) + n_cuts(node.right)


def assert_is_the_twins(X, y, task, weights=None, **parameters):
    model = MTDecisionTreeClassifier(**parameters).fit(X, y, task=task, sample_weight=weights)
    weights = np.ones(len(y)) if weights is None else weights
    X = X.toarray() if scipy.sparse.issparse(X) else X
    rows = weights > 0
    expected = naive.grow(X[rows], y[rows], task[rows], weights[rows], **parameters)
    found = as_nodes(model)
    assert n_cuts(expected) > 2
    assert found == expected  # cuts, thresholds, decisions and shares, all of them exactly
    return model, expected


# The twin


@every_criterion
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_is_the_twins(criterion, seed):
    assert_is_the_twins(*items(seed), criterion=criterion)


@every_criterion
@pytest.mark.parametrize("n_values", [1, 3])
def test_many_equal_values_give_the_twins_tree(criterion, n_values):
    assert_is_the_twins(*items(3, n_values=n_values), criterion=criterion)


@every_criterion
@pytest.mark.parametrize("missing", [0.1, 0.7])
def test_missing_values_are_tried_on_both_sides(criterion, missing):
    X, y, task = items(4, missing=missing)
    model, expected = assert_is_the_twins(X, y, task, criterion=criterion)
    new, _, new_task = items(5, missing=0.5)
    found = model.predict(new, task=new_task)
    assert found.tolist() == [expected.decide(*row)[0] for row in zip(new, new_task, strict=True)]


@every_criterion
def test_weights_are_the_twins(criterion):
    X, y, task = items(6)
    assert_is_the_twins(X, y, task, dyadic_weights(len(y)), criterion=criterion)


@every_criterion
def test_rows_of_weight_zero_are_left_out(criterion):
    X, y, task = items(7)
    weights = dyadic_weights(len(y)) * (np.arange(len(y)) % 3 > 0)
    assert_is_the_twins(X, y, task, weights, criterion=criterion)


@every_criterion
@pytest.mark.parametrize(
    "limits",
    [
        {"purity": 0.75},
        {"max_depth": 2},
        {"min_samples_split": 20},
        {"min_samples_leaf": 8},
        {"purity": 0.9, "max_depth": 4, "min_samples_leaf": 3},
    ],
    ids=str,
)
def test_limits_are_the_twins(criterion, limits):
    X, y, task = items(8, missing=0.05)
    assert_is_the_twins(X, y, task, dyadic_weights(len(y)), criterion=criterion, **limits)


@every_criterion
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_of_a_sparse_table_is_the_twins(criterion, missing, seed):
    assert_is_the_twins(*sparse_items(seed, missing=missing), criterion=criterion)


@every_criterion
@pytest.mark.parametrize("limits", [{"purity": 0.75}, {"min_samples_leaf": 5}], ids=str)
def test_weights_and_limits_of_a_sparse_table_are_the_twins(criterion, limits):
    X, y, task = sparse_items(19, missing=0.05)
    weights = dyadic_weights(len(y)) * (np.arange(len(y)) % 7 > 0)
    assert_is_the_twins(X.tocsc(), y, task, weights, criterion=criterion, **limits)


def test_many_tasks_of_few_rows_give_the_twins_tree():
    for criterion in CRITERIA:
        assert_is_the_twins(*items(9, n_rows=100, n_tasks=40), criterion=criterion)


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_the_tree_does_not_depend_on_the_threads(n_jobs):
    X, y, task = items(10, n_rows=20_000, n_features=6, missing=0.02)  # enough for several threads
    weights = np.random.default_rng(0).random(len(y))
    one = MTDecisionTreeClassifier(n_jobs=1, max_depth=8).fit(
        X, y, task=task, sample_weight=weights
    )
    some = MTDecisionTreeClassifier(n_jobs=n_jobs, max_depth=8)
    some.fit(X, y, task=task, sample_weight=weights)
    expected, found = one.tree_.arrays(), some.tree_.arrays()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


# Laws


@pytest.mark.parametrize("parameters", [{"max_depth": 4}, {"min_samples_leaf": 40}], ids=str)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_one_task_is_scikit_learns_entropy_tree(n_classes, parameters):
    # Not further down, where many cuts gain the same and scikit-learn takes one by chance.
    X, *_ = items(11, n_rows=600)
    noise = np.random.default_rng(1).normal(size=600)
    y = np.clip(np.floor(X[:, 0] * X[:, 1] + X[:, 2] + noise), 0, n_classes - 1)
    ours = MTDecisionTreeClassifier(**parameters).fit(X, y)
    theirs = DecisionTreeClassifier(criterion="entropy", random_state=0, **parameters).fit(X, y)
    found, expected = (np.unique(tree.apply(X), return_inverse=True)[1] for tree in (ours, theirs))
    n_parts = len(set(zip(found.tolist(), expected.tolist(), strict=True)))
    assert n_parts == found.max() + 1 == expected.max() + 1 > 5
    # Shares are quotients of whole numbers; scikit-learn's are sums of rounded ones.
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose(
        ours.feature_importances_,
        theirs.feature_importances_,
        rtol=1e-5,  # ours from float32
    )


def root_gain(X, y, task, weights, criterion):
    """Bits a unit of weight that the cut of the root tells."""
    model = MTDecisionTreeClassifier(criterion=criterion, max_depth=1)
    arrays = model.fit(X, y, task=task, sample_weight=weights).tree_.arrays()
    return arrays["gains"][0] / arrays["weight"][0]


def test_concat_is_joint_and_the_mutual_information_of_task_and_branch():
    # One feature of two values: the same cut for both.
    rng = np.random.default_rng(12)
    side, task = rng.integers(0, 2, 500), rng.integers(0, 4, 500)
    side = np.where(rng.random(500) < 0.1 * task, 1, side)
    y = np.where(rng.random(500) < 0.3, side, rng.integers(0, 3, 500))
    weights = dyadic_weights(500)
    X = side[:, np.newaxis].astype(np.float32)
    concat, joint = (root_gain(X, y, task, weights, name) for name in ("concat", "joint"))
    mutual = naive.information_gain(task, weights, side == 0)
    assert mutual > 1e-3
    # Both are stored as float32.
    np.testing.assert_allclose(concat, joint + mutual, rtol=1e-6)


@every_criterion
def test_a_task_that_is_decided_early_does_not_change_the_other(criterion):
    # One class from the first: decided in the root, and nobody else notices.
    X, y, task = items(13)
    rng = np.random.default_rng(14)
    more = rng.normal(size=(60, X.shape[1])).astype(np.float32)
    alone = MTDecisionTreeClassifier(criterion=criterion).fit(X, y, task=task)
    joined = MTDecisionTreeClassifier(criterion=criterion).fit(
        np.concatenate([X, more]),
        np.concatenate([y, np.full(60, 7)]),
        task=np.concatenate([task, np.full(60, 9)]),
    )
    expected, found = as_nodes(alone), as_nodes(joined)
    assert found.decisions.pop(9) == (7, {7: 1.0})
    assert found == expected


def test_a_task_without_rows_on_a_side_keeps_its_majority_there():
    # Task "b" lies on the left only, so that nothing is known of it on the right.
    X = np.array([[0], [1], [2], [3], [0], [0], [0], [1]], dtype=np.float32)
    y = np.array(["n", "n", "p", "p", "u", "u", "v", "v"])
    task = np.array(["a"] * 4 + ["b"] * 4)
    model = MTDecisionTreeClassifier(criterion="joint", max_depth=1).fit(X, y, task=task)
    assert model.predict([[9.0], [0.0]], task=["b", "b"]).tolist() == ["u", "u"]
    np.testing.assert_array_equal(model.predict_proba([[9.0]], task=["b"]), [[0, 0, 1 / 2, 1 / 2]])


def test_relabelling_a_task_changes_nothing_but_names():
    X, y, task = items(15)
    names = np.array(["zero", "one", "two", "three"])
    renamed = np.where(task == 1, names[y], y.astype(str))
    before = MTDecisionTreeClassifier().fit(X, y, task=task)
    after = MTDecisionTreeClassifier().fit(X, renamed, task=task)
    found = before.predict(X, task=task)
    expected = np.where(task == 1, names[found], found.astype(str))
    np.testing.assert_array_equal(after.predict(X, task=task), expected)


def test_of_cuts_with_equal_max_the_one_that_serves_the_other_tasks_wins():
    # Task 0 is cut perfectly anywhere in (1, 4); task 1 only between 2 and 3.
    X = np.array([[0], [1], [4], [5], [2], [3]], dtype=np.float32)
    y = np.array([0, 0, 1, 1, 0, 1])
    model = MTDecisionTreeClassifier(criterion="max").fit(X, y, task=[0, 0, 0, 0, 1, 1])
    assert model.tree_.arrays()["threshold"][0] == 2.5


# Boosting


@every_criterion
def test_boosted_trees_are_the_twins(criterion):
    X, y, task = items(16, n_rows=60)
    limits = {"criterion": criterion, "max_depth": 3, "purity": 0.9}
    model = MTAdaBoostClassifier(6, **limits).fit(X, y, task=task)
    trees, votes = naive.boost(X, y, task, np.ones(len(y)), 6, **limits)
    assert len(trees) == 6
    # Weights of rows are rounded products; the twin rounds in the same order, sums in another.
    np.testing.assert_allclose(model.estimator_weights_, votes, rtol=1e-9)
    new, _, new_task = items(17)
    assert model.predict(new, task=new_task).tolist() == [
        naive.vote(trees, votes, *row) for row in zip(new, new_task, strict=True)
    ]


def test_a_tree_without_error_ends_the_training():
    X, y, task = items(18)
    model = MTAdaBoostClassifier(10, purity=1.0).fit(X, y, task=task)
    assert model.estimator_errors_.tolist() == [0.0]
    assert model.estimator_weights_.tolist() == [-np.log(1e-10 / (1 - 1e-10))]
    assert model.score(X, y, task=task) == 1.0


def test_a_first_tree_that_errs_on_half_of_the_weight_is_kept_alone():
    # Three equal classes, and features that tell nothing.
    X, y = np.zeros((9, 1)), np.arange(9) % 3
    with pytest.warns(UserWarning, match="first tree errs on 0.667.*raise max_depth"):
        model = MTAdaBoostClassifier(10).fit(X, y)
    assert model.estimator_errors_ == pytest.approx([2 / 3])
    assert model.estimator_weights_.tolist() == [1.0]
    assert set(model.predict(X)) == {0}


def test_a_later_tree_that_errs_on_half_of_the_weight_is_left_out():
    # Two equal rows of other labels than a third: one round makes all errors weigh a half.
    X, y = np.zeros((3, 1)), np.array([0, 0, 1])
    model = MTAdaBoostClassifier(10).fit(X, y)
    assert model.estimator_errors_ == pytest.approx([1 / 3])
    assert len(model.trees_) == 1


@pytest.mark.parametrize("n_right", range(2, 12))
def test_a_tree_that_is_grown_again_ends_the_training(n_right):
    """Its error on the new weights is 1/2, and a sum of them may be less by rounding."""
    for n_wrong in range(1, n_right):
        y = np.repeat([0, 1], [n_right, n_wrong])
        model = MTAdaBoostClassifier(10).fit(np.zeros((len(y), 1)), y)
        assert len(model.trees_) == 1
        expected = np.log(n_right / n_wrong)  # (1 - ε) / ε
        np.testing.assert_allclose(model.estimator_weights_, [expected], rtol=1e-12)


def test_a_first_tree_that_errs_on_half_of_the_weight_but_for_rounding_is_kept_alone():
    y = np.repeat([0, 1], 20)
    weights = np.tile(np.random.default_rng(0).random(20), 2)
    for order in (slice(None), slice(None, None, -1)):  # sums are rounded otherwise
        with pytest.warns(UserWarning, match="first tree errs on 0.500"):
            model = MTAdaBoostClassifier(10).fit(
                np.zeros((40, 1)), y[order], sample_weight=weights[order]
            )
        assert model.estimator_weights_.tolist() == [1.0]
