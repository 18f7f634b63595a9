# SPDX-License-Identifier: Apache-2.0
"""Trees that a C++ forest takes as arrays: sound ones predict, damaged ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mtboost import _core

f32 = np.float32
UNKNOWN_TASK = 2**32 - 1
TASKS = 2**31 - 1  # the feature of a node that splits tasks


def sound_tree(is_sparse: bool = False) -> dict[str, np.ndarray]:
    """Node 0 divides feature 1, node 1 tasks (list 0), 2 to 4 are leaves."""
    return {
        "left": np.array([1, 3, -1, -1, -1], np.int32),
        "feature": np.array([1, TASKS, 0, 1, 2], np.uint32),
        "threshold": np.array([0.5, 0, 0, 0, 0], f32),
        "default_left": np.array([0, 1, 0, 0, 0], np.uint8),
        "impurity": np.array([1, 1, 0, 0, 0], float),
        "weight": np.array([6, 4, 2, 2, 2], f32),
        "task_list_starts": np.array([0, 2], np.uint32),
        "listed_tasks": np.array([0, 2], np.uint32),
        "leaf_values": np.array([1.0, 2, 3] if is_sparse else [1.0, 0, 0, 2, 0, 3]),
        "leaf_starts": np.array([0, 1, 2, 3] if is_sparse else [], np.uint64),
        "leaf_outputs": np.array([0, 1, 1] if is_sparse else [], np.uint32),
    }


def damaged(
    name: str, at: int | None, value: object, *, is_sparse: bool = False
) -> dict[str, np.ndarray]:
    """A sound tree with one value replaced, or (at is None) a whole array."""
    tree = sound_tree(is_sparse)
    if at is None:
        tree[name] = np.array(value, tree[name].dtype)
    else:
        tree[name][at] = value
    return tree


ALL_BITS = np.array([2**32 - 1], np.uint32).view(f32)[0]  # as the number of a list: one more is 0

DAMAGE = {
    "a child beyond the last node": damaged("left", 1, 5),
    "a right child beyond the last node": damaged("left", 1, 4),
    "a child far beyond the last node": damaged("left", 1, 2**31 - 1),
    "a node that is its own child": damaged("left", 1, 1),
    "a circle": damaged("left", 1, 0),
    "a node that is its own right child": damaged("left", 2, 1),
    "two parents": damaged("left", 2, 3),
    "children that overlap": damaged("left", 1, 2),
    "a child below -1": damaged("left", 2, -2),
    "the least number as child": damaged("left", 2, -(2**31)),
    "a feature too large": damaged("feature", 0, 3),
    "a feature far too large": damaged("feature", 0, TASKS - 1),
    "a feature of 32 bits": damaged("feature", 0, 2**31),
    "tasks as a feature of 32 bits": damaged("feature", 1, 2**32 - 1),
    "a threshold that is NaN": damaged("threshold", 0, np.nan),
    "a list of tasks that there is none of": damaged("threshold", 1, np.uint32(1).view(f32)),
    "the last possible list of tasks": damaged("threshold", 1, ALL_BITS),
    "a list of tasks that descends": damaged("listed_tasks", None, [2, 0]),
    "an unknown task in a list": damaged("listed_tasks", 1, 3),
    "the code of unknown tasks in a list": damaged("listed_tasks", 1, UNKNOWN_TASK),
    "a list that ends early": damaged("task_list_starts", 1, 1),
    "a list that ends late": damaged("task_list_starts", 1, 3),
    "a list that begins late": damaged("task_list_starts", 0, 1),
    "no lists": damaged("task_list_starts", None, []),
    "lists that end before they begin": damaged("task_list_starts", None, [0, 3, 2]),
    "a leaf beyond the last": damaged("feature", 4, 3),
    "a leaf far beyond the last": damaged("feature", 4, TASKS),
    "a sparse leaf beyond the last": damaged("feature", 4, 3, is_sparse=True),
    "no nodes": {
        name: array[: 0 if len(array) == 5 else None] for name, array in sound_tree().items()
    },
    "outputs missing": damaged("leaf_values", None, [1.0, 2, 3, 4, 5]),
    "no outputs": damaged("leaf_values", None, []),
    "an output that is NaN": damaged("leaf_values", 0, np.nan),
    "an output that is infinite": damaged("leaf_values", 0, np.inf),
    "a sparse output that is NaN": damaged("leaf_values", 0, np.nan, is_sparse=True),
    "an output that there is none of": damaged("leaf_outputs", 0, 2, is_sparse=True),
    "outputs of leaves missing": damaged("leaf_outputs", None, [0, 1], is_sparse=True),
    "starts of leaves missing": damaged("leaf_starts", None, [], is_sparse=True),
    "starts that begin late": damaged("leaf_starts", 0, 1, is_sparse=True),
    "starts that descend": damaged("leaf_starts", None, [0, 2, 1, 3], is_sparse=True),
    "starts that end late": damaged("leaf_starts", 3, 4, is_sparse=True),
    "starts of 64 bits": damaged("leaf_starts", 1, 2**63, is_sparse=True),
    "two dimensions": damaged("left", None, [[1], [3], [-1], [-1], [-1]]),
    "starts of leaves in a tree that has all outputs": damaged("leaf_starts", None, [0, 6]),
}


def add_to_new_forest(tree: dict[str, np.ndarray], n_tasks: int = 3, n_outputs: int = 2):
    forest = _core.Forest(_core.ForestParams(), n_features=3, n_tasks=n_tasks)
    forest.add_tree(tree, n_outputs=n_outputs)
    return forest


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_sound_tree_is_taken_and_predicts(is_sparse: bool) -> None:
    forest = add_to_new_forest(sound_tree(is_sparse))
    X = np.array([[9, 0, 9], [9, 0, 9], [9, 0, 9], [9, 1, 9], [9, np.nan, 9]], f32)
    tasks = np.array([0, 1, UNKNOWN_TASK, 0, 0], np.uint32)
    # Tasks 0 and 2 are listed: they do not go left. Leaves of nodes 2, 3, 4: 1 for the first
    # output, 2 for the second, 3 for the second.
    expected = [[0, 3], [0, 2], [0, 2], [1, 0], [1, 0]]
    assert_array_equal(forest.predict(X, tasks=tasks), expected)


@pytest.mark.parametrize("tree", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_tree_is_refused(tree: dict[str, np.ndarray]) -> None:
    forest = _core.Forest(_core.ForestParams(), n_features=3, n_tasks=3)
    with pytest.raises(ValueError, match="^(a|an|the|left must) "):
        forest.add_tree(tree, n_outputs=2)
    assert forest.n_trees == 0


@pytest.mark.parametrize("name", sound_tree())
def test_a_tree_that_lacks_an_array_is_refused(name: str) -> None:
    tree = sound_tree()
    del tree[name]
    with pytest.raises(ValueError, match=f"^a tree lacks {name}$"):
        add_to_new_forest(tree)


@pytest.mark.parametrize(
    "name", ["left", "feature", "threshold", "default_left", "impurity", "weight"]
)
def test_a_tree_whose_nodes_are_cut_off_is_refused(name: str) -> None:
    tree = sound_tree()
    tree[name] = tree[name][:-1]
    with pytest.raises(ValueError, match="nodes of a tree do not fit together"):
        add_to_new_forest(tree)


def test_a_tree_that_does_not_fit_the_forest_is_refused() -> None:
    with pytest.raises(ValueError, match="without outputs"):
        add_to_new_forest(sound_tree(), n_outputs=0)
    with pytest.raises(ValueError, match="a list has an unknown task"):
        add_to_new_forest(sound_tree(), n_tasks=2)
    empty_list = damaged("listed_tasks", None, []) | {"task_list_starts": np.zeros(2, np.uint32)}
    with pytest.raises(ValueError, match="list of tasks that there is none of"):
        add_to_new_forest(empty_list, n_tasks=0)  # its rows have no tasks to go by
    forest = add_to_new_forest(sound_tree())
    with pytest.raises(ValueError, match="different outputs"):
        forest.add_tree(sound_tree(), n_outputs=1)


@pytest.mark.parametrize(
    ("name", "dtype"), [("left", np.int64), ("feature", np.float64), ("threshold", np.float64)]
)
def test_arrays_of_wider_numbers_are_refused(name: str, dtype: type) -> None:
    tree = sound_tree()
    tree[name] = tree[name].astype(dtype)
    with pytest.raises(TypeError, match="Cannot cast"):
        add_to_new_forest(tree)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_a_tree_with_any_value_changed_predicts_or_is_refused(data: st.DataObject) -> None:
    """No damage crashes: what is taken leads every row to an end."""
    tree = sound_tree(data.draw(st.booleans()))
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from([name for name in tree if tree[name].size]))
        raw = tree[name].view(np.uint8 if name == "default_left" else f"u{tree[name].itemsize}")
        largest = np.iinfo(raw.dtype).max
        raw[data.draw(st.integers(0, raw.size - 1))] = data.draw(
            st.integers(0, 7).map(lambda x, n=largest: min(x, n)) | st.integers(0, largest)
        )
    try:
        forest = add_to_new_forest(tree)
    except ValueError:
        return
    X = np.array([[0, 0, 0], [1, 1, 1], [np.nan] * 3], f32)
    leaves = forest.leaves(X, tasks=np.array([0, 1, UNKNOWN_TASK], np.uint32))
    assert (tree["left"][leaves] == -1).all()
    assert np.isfinite(forest.predict(X, tasks=np.zeros(3, np.uint32))).all()
