# SPDX-License-Identifier: Apache-2.0
"""Symmetric trees: the core grows the twin's, and with one level those of any other growth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from oracle import naive, naive_symmetric
from oracle.naive_task_splits import TaskColumn
from oracle.test_grower import (
    PENALTIES,
    Problem,
    assert_equal_tree,
    grow,
    problems,
    with_task_column,
)
from scipy.stats import norm

from mtboost import _core


def twin(
    problem: Problem,
    task_column: TaskColumn | None = None,
    random_strength: float = 0.0,
    tree: int = 0,
) -> naive.Tree:
    return naive_symmetric.grow_tree(
        problem.bins,
        problem.cuts,
        problem.gradients[:, 0],
        problem.gradients[:, 1],
        problem.params,
        task_column,
        random_strength,
        tree,
    )


@given(problem=problems())
@settings(max_examples=200, deadline=None)
def test_core_grows_the_twins_tree(problem: Problem) -> None:
    kernel, expected = grow(problem, None, symmetric=True), twin(problem)
    assert_equal_tree(kernel, expected)
    assert_array_equal(kernel["score"], expected.score)


@given(problem=with_task_column(), penalty=PENALTIES)
@settings(max_examples=100, deadline=None)
def test_core_grows_the_twins_tree_with_task_splits(
    problem: tuple[Problem, int], penalty: float
) -> None:
    whole, place = problem
    column = TaskColumn(place, penalty)
    assert_equal_tree(grow(whole, None, task_column=column, symmetric=True), twin(whole, column))


@given(problem=problems(), strength=st.sampled_from([0.1, 1.0, 30.0]), tree=st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_core_grows_the_twins_tree_with_noise(problem: Problem, strength: float, tree: int) -> None:
    options = {"random_strength": strength, "tree_number": tree}
    kernel, expected = (
        grow(problem, None, symmetric=True, **options),
        twin(problem, None, strength, tree),
    )
    assert_equal_tree(kernel, expected)
    assert_array_equal(kernel["score"], expected.score)


@pytest.mark.parametrize("strength", [0.5, 1.0, 4.0])
def test_noise_chooses_between_two_cuts_as_normal_numbers_would(strength: float) -> None:
    """Gains of 64 and 36 on 100 rows: chances of cuts are those of a difference of two normals."""
    first, second = np.divmod(np.arange(100) % 4, 2)
    gradient = 0.8 * (2 * first - 1) + 0.6 * (2 * second - 1)
    cuts = [naive.Cuts(np.array([1, 2], np.float32), np.float32(0), is_categorical=False)] * 2
    problem = Problem(
        bins=np.column_stack([first, second]),
        cuts=cuts,
        gradients=np.column_stack([gradient, np.ones(100)]).astype(np.float32),
        task=np.zeros(100, np.int64),
        n_tasks=1,
        params=naive.Params(max_depth=1, reg_lambda=0.0),
        is_sparse=False,
    )
    n_trees = 2000
    trees = [
        grow(problem, None, symmetric=True, random_strength=strength, tree_number=number)
        for number in range(n_trees)
    ]
    share = np.mean([tree["feature"][0] == 0 for tree in trees])
    sigma = math.sqrt(np.mean(gradient**2))
    chance = norm.cdf((8.0 - 6.0) / (strength * sigma * math.sqrt(2)))
    # Four standard errors (1 in 16,000), and what sums of four uniform numbers differ from normal.
    assert abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / n_trees) + 0.01


@given(problem=problems())
@settings(max_examples=100, deadline=None)
def test_one_level_is_that_of_any_tree(problem: Problem) -> None:
    one = replace(problem, params=replace(problem.params, max_depth=1))
    symmetric, other = grow(one, None, symmetric=True), grow(one, None)
    for field in other:
        assert_array_equal(symmetric[field], other[field])


@given(problem=problems(), n_threads=st.sampled_from([2, 7]))
@settings(max_examples=50, deadline=None)
def test_threads_change_nothing(problem: Problem, n_threads: int) -> None:
    for strength in (0.0, 1.0):
        options = {"symmetric": True, "random_strength": strength}
        one, many = (grow(problem, None, n, **options) for n in (1, n_threads))
        for field in one:
            assert_array_equal(one[field], many[field])


def test_a_score_over_tasks_is_refused() -> None:
    with pytest.raises(ValueError, match="symmetric trees need the plain score"):
        _core.TreeGrower(
            _matrix(),
            score=_core.entropy_score(),
            first_rows=np.array([0, 4], np.uint32),
            symmetric=True,
        )


def test_noise_is_for_symmetric_trees() -> None:
    for options, message in (
        ({"random_strength": 1.0}, "random_strength is for symmetric trees"),
        ({"random_strength": -1.0, "symmetric": True}, "must be a finite number >= 0"),
        ({"random_strength": np.inf, "symmetric": True}, "must be a finite number >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            _core.TreeGrower(_matrix(), **options)


def test_levels_need_a_limit() -> None:
    grower = _core.TreeGrower(_matrix(), symmetric=True)
    params = _core.XgboostParams(max_depth=0, max_leaves=4, loss_guided=True)
    with pytest.raises(ValueError, match="symmetric trees need max_depth > 0"):
        grower.grow(params, np.ones((4, 2), np.float32))


def _matrix() -> _core.BinnedMatrix:
    builder = _core.BinnedMatrixBuilder(
        offsets=np.array([0, 2], np.uint32),
        values=np.array([1, 2], np.float32),
        min_values=np.zeros(1, np.float32),
        is_categorical=np.zeros(1, np.uint8),
        n_rows=4,
        may_be_missing=np.zeros(1, np.uint8),
        storage_order=np.empty(0, np.uint32),
        is_sparse=False,
    )
    builder.add(np.array([[0], [1], [0], [1]], np.float32), n_threads=1)
    return builder.build()
