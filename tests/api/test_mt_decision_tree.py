# SPDX-License-Identifier: Apache-2.0
"""Multi-task decision trees and MT-AdaBoost as estimators: labels, tables, drawings, errors."""

import logging
import re
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from mtboost import _core
from mtboost.errors import DataError, ParameterError
from mtboost.estimators.forests import MTAdaBoostClassifier, MTDecisionTreeClassifier

# Inbox "x" sorts mail into three folders, "y" into two; both follow the first two columns.
N_ROWS = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 4))
INBOX = np.array(["x", "y"])[np.arange(N_ROWS) % 2]
FOLDER = np.array(["family", "money", "work"])[
    np.where(X[:, 0] > 0, np.where(X[:, 1] > 0, 2, 1), 0)
]
Y = np.where(INBOX == "x", FOLDER, np.where(X[:, 0] > -0.2, "office", "home"))
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(inbox=INBOX)
TREE = MTDecisionTreeClassifier(max_depth=4)
BOOSTED = MTAdaBoostClassifier(5, max_depth=2)
both = pytest.mark.parametrize("model", [TREE, BOOSTED], ids=["tree", "boosted"])


# scikit-learn's rules


@both
def test_the_task_column_serves_scikit_learns_tools(model):
    model = clone(model).set_params(task="inbox")
    assert cross_val_score(model, FRAME, Y, error_score="raise").mean() > 0.9
    shares = cross_val_predict(model, FRAME, Y, method="predict_proba")
    assert shares.shape == (N_ROWS, 5)
    search = GridSearchCV(model, {"criterion": ["max", "joint"]}, error_score="raise")
    assert set(search.fit(FRAME, Y).cv_results_) >= {"param_criterion"}
    fitted = clone(model).fit(FRAME, Y)
    found = permutation_importance(fitted, FRAME, Y, n_repeats=2, random_state=0)
    assert found["importances_mean"][0] > 0.1


# Labels


@both
def test_classes_are_those_of_all_tasks_and_each_task_has_its_own(model):
    model = clone(model).fit(X, Y, task=INBOX)
    assert model.classes_.tolist() == ["family", "home", "money", "office", "work"]
    assert {name: own.tolist() for name, own in model.task_classes_.items()} == {
        "x": ["family", "money", "work"],
        "y": ["home", "office"],
    }
    shares = model.predict_proba(X, task=INBOX)
    assert shares.shape == (N_ROWS, 5)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)  # rounded quotients
    assert np.all(shares[INBOX == "x"][:, [1, 3]] == 0)
    assert np.all(shares[INBOX == "y"][:, [0, 2, 4]] == 0)
    np.testing.assert_array_equal(
        model.predict(X, task=INBOX), model.classes_[shares.argmax(axis=1)]
    )
    assert model.score(X, Y, task=INBOX) == np.mean(model.predict(X, task=INBOX) == Y) > 0.95


@both
def test_tasks_may_share_labels(model):
    same = np.where(INBOX == "x", X[:, 0] > 0, X[:, 0] < 0).astype(int)
    model = clone(model).fit(X, same, task=INBOX)
    assert model.classes_.tolist() == [0, 1]
    assert model.score(X, same, task=INBOX) == 1.0


@both
def test_labels_of_the_tasks_may_differ_in_type(model):
    mixed = np.where(INBOX == "x", FOLDER.astype(object), (X[:, 0] > -0.2).astype(int))
    model = clone(model).fit(X, mixed, task=INBOX)
    assert model.classes_.tolist() == [0, 1, "family", "money", "work"]
    assert model.task_classes_["y"].tolist() == [0, 1]
    assert model.score(X, mixed, task=INBOX) > 0.95


@both
@pytest.mark.parametrize("one", [1.0, np.uint8(1), np.float32(1)], ids=repr)
def test_numbers_that_are_equal_are_one_class_in_an_array_of_objects(model, one):
    y = np.array([1 if folder == "work" else 0 for folder in FOLDER], dtype=object)
    expected = clone(model).fit(X, y.astype(int), task=INBOX)
    y[::3] = [one if label else 0 for label in y[::3]]
    fitted = clone(model).fit(X, y, task=INBOX)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.predict(X, task=INBOX).tolist() == expected.predict(X, task=INBOX).tolist()


@both
def test_labels_in_a_list_keep_their_types(model):
    y = [folder if inbox == "x" else 7 for folder, inbox in zip(FOLDER, INBOX, strict=True)]
    fitted = clone(model).fit(X, y, task=INBOX)
    assert fitted.classes_.tolist() == [7, "family", "money", "work"]
    assert fitted.score(X, y, task=INBOX) > 0.9


@both
def test_a_task_with_one_class_is_known_from_the_start(model):
    model = clone(model).fit(X, np.where(INBOX == "x", FOLDER, "spam"), task=INBOX)
    assert set(model.predict(X[:9], task=["y"] * 9)) == {"spam"}


@both
def test_a_task_of_no_weight_gets_its_most_frequent_label(model):
    weights = (INBOX == "x").astype(float)
    model = clone(model).fit(X, Y, task=INBOX, sample_weight=weights)
    names, counts = np.unique(Y[INBOX == "y"], return_counts=True)
    assert set(model.predict(X, task=["y"] * N_ROWS)) == {names[counts.argmax()]}
    only = clone(model).fit(X[INBOX == "x"], Y[INBOX == "x"])
    np.testing.assert_array_equal(model.predict(X, task=["x"] * N_ROWS), only.predict(X))


# Tables


@both
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_every_sparse_table_gives_the_model_of_the_array(model, form, kind):
    table = np.where(np.abs(X) < 0.5, 0.0, X)
    expected = clone(model).fit(table, Y, task=INBOX)
    found = clone(model).fit(kind(table).asformat(form), Y, task=INBOX)
    sparse = scipy.sparse.csr_array(table)
    sparse.indices = sparse.indices.astype(np.int64)  # as arithmetic of SciPy may leave them
    np.testing.assert_array_equal(
        found.predict_proba(sparse, task=INBOX), expected.predict_proba(table, task=INBOX)
    )
    np.testing.assert_array_equal(found.feature_importances_, expected.feature_importances_)
    assert drawing(found) == drawing(expected)


@both
def test_the_task_may_stand_in_a_column_of_a_sparse_table(model):
    code = (INBOX == "y").astype(int)
    with_code = scipy.sparse.csr_array(np.column_stack([X[:, :2], code, X[:, 2:]]))
    expected = clone(model).fit(X, Y, task=code)
    found = clone(model).set_params(task=2).fit(with_code, Y)
    np.testing.assert_array_equal(found.predict(with_code), expected.predict(X, task=code))


def drawing(model):
    return model.to_text() if isinstance(model, MTDecisionTreeClassifier) else model.to_text(0)


# Trees


def test_importances_are_bits_of_the_cuts():
    model = clone(TREE).fit(X, Y, task=INBOX)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[:2].sum() > 0.95
    constant = clone(TREE).fit(np.ones_like(X), Y, task=INBOX)
    assert constant.feature_importances_.tolist() == [0.0] * 4


def test_boosted_importances_are_means_weighted_by_votes():
    model = clone(BOOSTED).fit(X, Y, task=INBOX)
    parts = []
    for tree in model.trees_:
        arrays = tree.arrays()
        is_cut = arrays["left"] >= 0
        bits = np.bincount(arrays["feature"][is_cut], arrays["gains"][is_cut], minlength=4)
        parts.append(bits / bits.sum())
    votes = model.estimator_weights_
    expected = votes @ np.array(parts) / votes.sum()
    np.testing.assert_allclose(model.feature_importances_, expected, rtol=1e-12)  # order of sums
    assert len(np.unique(np.array(parts)[:, 0])) > 1


def test_drawn_features_follow_the_random_state():
    models = [
        MTDecisionTreeClassifier(max_features=1, random_state=seed).fit(X, Y, task=INBOX)
        for seed in (0, 0, 1)
    ]
    texts = [model.to_text() for model in models]
    assert texts[0] == texts[1] != texts[2]


def test_text_shows_where_each_task_is_decided():
    # "b" is known as soon as u is; "a" needs v as well.
    table = pd.DataFrame({"u": [0.0, 0, 1, 1, 0, 1], "v": [0.0, 1, 0, 1, 0, 0]})
    task = ["a", "a", "a", "a", "b", "b"]
    y = ["p", "q", "r", "s", "no", "yes"]
    model = MTDecisionTreeClassifier().fit(table, y, task=task)
    assert (
        model.to_text()
        == """\
|--- u < 0.5
|   |--- b: no (100% of 1)
|   |--- v < 0.5
|   |   |--- a: p (100% of 1)
|   |--- v >= 0.5 or missing
|   |   |--- a: q (100% of 1)
|--- u >= 0.5 or missing
|   |--- b: yes (100% of 1)
|   |--- v < 0.5
|   |   |--- a: r (100% of 1)
|   |--- v >= 0.5 or missing
|   |   |--- a: s (100% of 1)
"""
    )


def test_text_tells_a_decision_without_rows():
    model = MTDecisionTreeClassifier(max_depth=1, criterion="joint")
    model.fit([[0], [0], [1], [0], [0]], [0, 0, 1, 2, 3], task=["a"] * 3 + ["b"] * 2)
    assert model.to_text().splitlines()[-1] == "|   |--- b: 2 (no rows: as above)"


def test_graph_has_every_cut_and_every_decision():
    model = MTDecisionTreeClassifier(task="inbox").fit(FRAME.rename(columns={"a": 'a "1"'}), Y)
    graph = model.to_graphviz()
    arrays = model.tree_.arrays()
    n_cuts = int((arrays["left"] >= 0).sum())
    assert len(re.findall(r" < ", graph)) == n_cuts > 3
    assert len(re.findall(r"-> n", graph)) == 2 * n_cuts
    assert len(re.findall(r"\([\d.]+% of", graph)) == len(arrays["decided_tasks"])
    assert r'label="a \"1\" < ' in graph
    assert graph.count("{") == graph.count("}") == 1


@both
def test_trees_of_hostile_pickles_are_refused(model):
    tree = clone(TREE).fit(X, Y, task=INBOX).tree_
    n_features, arrays = tree.__getstate__()
    for name, value in {
        "decided_tasks": arrays["decided_tasks"] + 1,
        "decision_starts": arrays["decision_starts"][::-1].copy(),
        "decided_classes": arrays["decided_classes"][::-1].copy(),
        "left": np.zeros_like(arrays["left"]),
        "feature": arrays["feature"] + 100,
        "gains": arrays["gains"][1:],
        "class_starts": np.array([0, 9], np.uint32),
    }.items():
        other = _core.MTDecisionTree.__new__(_core.MTDecisionTree)
        with pytest.raises(ValueError, match="."):
            other.__setstate__((n_features, {**arrays, name: value}))


# Boosting


def test_stages_end_in_the_predictions():
    model = clone(BOOSTED).fit(X, Y, task=INBOX)
    stages = list(model.staged_predict(X, task=INBOX))
    assert len(stages) == len(model.trees_) == 5
    np.testing.assert_array_equal(stages[-1], model.predict(X, task=INBOX))
    one = clone(BOOSTED).set_params(n_estimators=1).fit(X, Y, task=INBOX)
    np.testing.assert_array_equal(stages[0], one.predict(X, task=INBOX))
    shares = list(model.staged_predict_proba(X, task=INBOX))
    np.testing.assert_array_equal(shares[-1], model.predict_proba(X, task=INBOX))


def test_boosting_brings_the_error_down():
    model = MTAdaBoostClassifier(40, max_depth=2).fit(X, Y, task=INBOX)
    errors = [np.mean(found != Y) for found in model.staged_predict(X, task=INBOX)]
    assert errors[-1] < errors[0] / 2


def test_progress_is_shown_on_request(capsys, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "mtboost")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    model = clone(BOOSTED).fit(X, Y, task=INBOX)
    assert capsys.readouterr() == ("", "")
    assert not caplog.messages
    clone(BOOSTED).set_params(verbose=2).fit(X, Y, task=INBOX)
    errors, n = model.estimator_errors_, model.n_estimators
    numbers = [number for number in range(1, n + 1) if number % 2 == 0 or number == n]
    without_time = [message.split("; about")[0] for message in caplog.messages]
    assert without_time == [
        f"{number} of at most {n}: error {errors[number - 1]:.6g}" for number in numbers
    ]


# Errors


def test_boosting_needs_a_round():
    with pytest.raises(ParameterError, match="n_estimators must be .*found 0"):
        MTAdaBoostClassifier(0).fit(X, Y, task=INBOX)


@both
def test_an_unknown_task_is_named_with_the_known_ones(model):
    model = clone(model).fit(X, Y, task=INBOX)
    with pytest.raises(DataError, match="'z' at row 1 is unknown. Known: tasks 'x', 'y'"):
        model.predict(X[:2], task=["x", "z"])
    with pytest.raises(DataError, match="task is missing"):
        model.predict(X[:2])


@both
def test_bad_rows_are_refused(model):
    with pytest.raises(DataError, match="sample_weight"):
        clone(model).fit(X, Y, task=INBOX, sample_weight=np.zeros(N_ROWS))
    with pytest.raises(DataError, match="sample_weight"):
        clone(model).fit(X, Y, task=INBOX, sample_weight=-np.ones(N_ROWS))
    with pytest.raises(DataError, match="task has 5 labels"):
        clone(model).fit(X, Y, task=INBOX[:5])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(model).fit(X, Y[:5], task=INBOX)
    with pytest.raises(ValueError, match="infinity"):
        clone(model).fit(np.where(X > 2, np.inf, X), Y, task=INBOX)
    with pytest.raises(ValueError, match="NaN"):
        clone(model).fit(X, np.where(X[:, 0] > 2, np.nan, 1.0), task=INBOX)
    with pytest.raises(ValueError, match="continuous"):
        clone(model).fit(X, X[:, 0], task=INBOX)


@both
def test_bad_sparse_tables_are_refused(model):
    table = scipy.sparse.csr_array(X)
    with pytest.raises(ValueError, match="infinity"):
        clone(model).fit(abs(table) * np.inf, Y, task=INBOX)
    with pytest.raises(ValueError, match="Complex data not supported"):
        clone(model).fit(table * 1j, Y, task=INBOX)
    with pytest.raises(DataError, match="X has 4294967296 columns"):
        clone(model).fit(scipy.sparse.csr_array((N_ROWS, 2**32)), Y, task=INBOX)
    with pytest.raises(DataError, match="no column 'inbox'"):
        clone(model).set_params(task="inbox").fit(table, Y)
    with pytest.raises(ValueError, match="expecting 4 features"):
        clone(model).fit(table, Y, task=INBOX).predict(table[:, :3], task=INBOX)


def test_a_tree_that_there_is_none_of_is_refused():
    model = clone(BOOSTED).fit(X, Y, task=INBOX)
    with pytest.raises(ParameterError, match="tree must be an integer from -5 to 4, found 9"):
        model.to_text(9)
    assert "digraph" in model.to_graphviz(-1)


@both
def test_a_failed_fit_leaves_no_model(model):
    model = clone(model).fit(X, Y, task=INBOX)
    with pytest.raises(ParameterError):
        model.set_params(purity=-1.0).fit(X, Y, task=INBOX)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        model.predict(X, task=INBOX)
