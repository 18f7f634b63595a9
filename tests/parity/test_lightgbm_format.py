# SPDX-License-Identifier: Apache-2.0
"""LightGBM's model text: read, written again, assembled by hand."""

import dataclasses

import lightgbm
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from mtboost.errors import ModelFormatError, UnsupportedError
from mtboost.lightgbm.assemble import (
    first_rounds,
    load_document,
    outputs_of,
    read_document,
    rounds,
    with_trees,
)
from mtboost.lightgbm.tree import Tree, read_tree, tree_text

N = 600
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 4))
X[:, 3] = RNG.integers(0, 90, N)
EFFECT = RNG.normal(size=90)
Y = X[:, 0] + X[:, 1] * X[:, 2] + EFFECT[X[:, 3].astype(int)] + 0.3 * RNG.normal(size=N)
WITH_GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
WITH_ZEROS = np.where(RNG.random(X.shape) < 0.3, 0, WITH_GAPS)
CLASSES = np.digitize(Y, [-1, 1])
QUIET = {"verbosity": -1, "num_threads": 1}


def train(params, table=X, y=Y, n_rounds=8, **options):
    dataset = {key: options.pop(key) for key in ("feature_name", "init_score") if key in options}
    data = lightgbm.Dataset(
        table, y, categorical_feature=options.pop("categorical", "auto"), **dataset
    )
    return lightgbm.train({**QUIET, **params}, data, n_rounds, **options)


def softmax_of_hand(score, data):
    probability = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    truth = data.get_label()[:, None] == np.arange(3)
    return probability - truth, probability * (1 - probability)


MODELS = {
    "numbers": lambda: train({}),
    "learning rate": lambda: train({"learning_rate": 1 / 3, "num_leaves": 127}),
    "tiny values": lambda: train({"learning_rate": 1e-7}, y=1e-12 * Y),
    "huge values": lambda: train({"learning_rate": 1.0}, y=1e30 * Y),
    "missing": lambda: train({}, WITH_GAPS),
    "zero as missing": lambda: train({"zero_as_missing": True}, WITH_ZEROS),
    "no missing": lambda: train({"use_missing": False}, WITH_GAPS),
    "categories": lambda: train({"min_data_per_group": 5, "cat_smooth": 1}, categorical=[3]),
    "one-hot categories": lambda: train({"max_cat_to_onehot": 99}, WITH_GAPS, categorical=[3]),
    "binary": lambda: train({"objective": "binary", "sigmoid": 0.7}, y=Y > 0),
    "multi-class": lambda: train({"objective": "multiclass", "num_class": 3}, y=CLASSES),
    "own objective": lambda: train({"objective": softmax_of_hand, "num_class": 3}, y=CLASSES),
    "a class without rows": lambda: train({"objective": "multiclass", "num_class": 4}, y=CLASSES),
    "constant": lambda: train({}, y=np.full(N, 0.1)),
    "constant, as it was trained": lambda: train({}, y=np.full(N, 0.1), keep_training_booster=True),
    "as it was trained": lambda: train({}, keep_training_booster=True),
    "continued": lambda: train({}, n_rounds=3, init_model=train({}, n_rounds=2)),
    "constraints": lambda: train({"monotone_constraints": [1, 0, -1, 0]}),
    "names": lambda: train({}, feature_name=["a=b", "é", "c d", "\u2028"]),
    "dart": lambda: train({"boosting": "dart", "drop_rate": 0.5}),
    "no rounds": lambda: lightgbm.Booster(QUIET, lightgbm.Dataset(X, Y)),
}


# ---- reading and writing ---------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_lightgbms_own_trees_are_written_as_it_writes_them(name):
    booster = MODELS[name]()
    document = read_document(booster)
    for text in document.trees:
        assert tree_text(read_tree(text)) == text
    assert len(document.trees) == booster.num_trees()
    assert outputs_of(document) == booster.num_model_per_iteration()
    # LightGBM itself forgets a little of a booster in training: weights of trees of one leaf.
    loaded = lightgbm.Booster(model_str=booster.model_to_string(num_iteration=-1))
    assert load_document(document).model_to_string() == loaded.model_to_string()


def test_trees_and_categories_of_a_frame_survive():
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    frame["d"] = pd.Categorical(np.array(["ü", "b", None], object)[RNG.integers(0, 3, N)])
    booster = train({}, frame)
    found = load_document(read_document(booster))
    assert found.model_to_string() == booster.model_to_string()
    assert found.pandas_categorical == [["b", "ü"]]
    assert_array_equal(found.predict(frame), booster.predict(frame))


def test_best_iteration_does_not_cut_a_document():
    booster = train({}, n_rounds=5, keep_training_booster=True)
    booster.best_iteration = 2
    assert len(read_document(booster).trees) == 5


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"linear_tree": True}, "linear_tree"),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, "rf"),
    ],
)
def test_models_that_are_no_sum_of_constants_are_refused(params, word):
    with pytest.raises(UnsupportedError, match=word):
        read_document(train(params))


# ---- trees of our own ------------------------------------------------------------------------


def planted_tree():
    """Every kind of node once; rules in the words of :func:`walk`."""
    return Tree(
        split_feature=np.array([0, 3, 1, 2]),
        threshold=np.array([0.1 + 0.2, np.nan, 0.5, np.inf]),
        is_categorical=np.array([False, True, False, False]),
        default_left=np.array([True, False, False, True]),
        missing_type=np.array([2, 2, 1, 0]),
        left_child=np.array([1, -1, -2, -4]),
        right_child=np.array([2, -3, 3, -5]),
        split_gain=np.array([4.0, 3.0, 2.0, 1.0]),
        internal_value=np.zeros(4),
        internal_weight=np.array([600.0, 300, 300, 100]),
        internal_count=np.array([600, 300, 300, 100]),
        leaf_value=np.array([1 / 3, -1e-17, 5e300, -0.1, 7.0]),
        leaf_weight=np.full(5, 120.0),
        leaf_count=np.full(5, 120),
        category_starts=np.array([0, 4]),
        categories=np.array([0, 31, 32, 89]),
        shrinkage=0.1,
    )


def walk(row):
    a, b, _, d = row
    if np.isnan(a) or a <= 0.1 + 0.2:
        return 0 if d in (0, 31, 32, 89) else 2
    if not (np.isnan(b) or b == 0) and b <= 0.5:
        return 1
    return 3  # the third is at most infinite, NaN being 0


@pytest.fixture
def frame():
    return read_document(train({}, n_rounds=1))


def test_a_tree_by_hand_predicts_what_its_rules_say(frame):
    rows = np.array([walk(row) for row in WITH_ZEROS])
    assert set(rows) == {0, 1, 2, 3}
    tree = planted_tree()
    booster = load_document(with_trees(frame, [tree_text(tree)]))
    assert type(booster) is lightgbm.Booster
    assert_array_equal(booster.predict(WITH_ZEROS, pred_leaf=True).ravel(), rows)
    assert_array_equal(booster.predict(WITH_ZEROS), tree.leaf_value[rows])


def test_a_tree_by_hand_keeps_its_arrays(frame):
    tree = planted_tree()
    document = read_document(load_document(with_trees(frame, [tree_text(tree)])))
    found = read_tree(document.trees[0])
    for entry in dataclasses.fields(Tree):
        expected = np.array(getattr(tree, entry.name))
        if entry.name == "threshold":
            expected[1] = 0  # the first set of categories
        assert_array_equal(getattr(found, entry.name), expected, err_msg=entry.name)


def test_a_tree_of_one_leaf_is_a_constant(frame):
    none = np.zeros(0)
    nodes = {
        entry.name: none
        for entry in dataclasses.fields(Tree)
        if not entry.name.startswith(("leaf", "categor", "shrinkage"))
    }
    tree = Tree(
        **nodes,
        leaf_value=np.array([0.3]),
        leaf_weight=np.array([5.0]),
        leaf_count=np.array([5]),
        category_starts=np.zeros(1),
        categories=none,
    )
    booster = load_document(with_trees(frame, [tree_text(tree)] * 2))
    assert_array_equal(booster.predict(X), np.full(N, 0.3 + 0.3))


@pytest.mark.parametrize(
    ("name", "length", "found"),
    [("leaf_count", 5, 4), ("left_child", 4, 3), ("category_starts", 2, 1)],
)
def test_arrays_of_another_length_are_refused(name, length, found):
    tree = planted_tree()
    short = dataclasses.replace(tree, **{name: getattr(tree, name)[:found]})
    with pytest.raises(ModelFormatError, match=f"{name}, found {found}"):
        tree_text(short)


# ---- rounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["numbers", "multi-class"])
def test_rounds_are_those_that_lightgbm_predicts_with(name):
    booster = MODELS[name]()
    document = read_document(booster)
    for begin, end in ((0, 8), (0, 3), (2, 7)):
        assert_array_equal(
            load_document(rounds(document, begin, end)).predict(X, raw_score=True),
            booster.predict(X, raw_score=True, start_iteration=begin, num_iteration=end - begin),
        )


@pytest.mark.parametrize("name", ["numbers", "multi-class"])
def test_no_round_is_0(name):
    none = first_rounds(read_document(MODELS[name]()), 0)
    assert_array_equal(
        none.predict(X, raw_score=True), np.zeros((N, 3) if name == "multi-class" else N)
    )


def test_no_round_keeps_category_labels_that_look_like_a_header():
    labels = ["a=1=num_class", "b=2"]
    frame = pd.DataFrame({"d": pd.Categorical(np.array(labels)[RNG.integers(0, 2, N)])})
    none = first_rounds(read_document(train({}, frame)), 0)
    assert none.pandas_categorical == [labels]


def test_trees_that_make_no_whole_round_are_refused():
    document = read_document(MODELS["multi-class"]())
    with pytest.raises(ModelFormatError, match="whole rounds of 3"):
        with_trees(document, document.trees[:4])
