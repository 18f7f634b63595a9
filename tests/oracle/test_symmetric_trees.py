# SPDX-License-Identifier: Apache-2.0
"""Symmetric trees: the core grows the twin's, and with one level those of any other growth."""

from __future__ import annotations

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

from mtboost import _core


def twin(problem: Problem, task_column: TaskColumn | None = None) -> naive.Tree:
    return naive_symmetric.grow_tree(
        problem.bins,
        problem.cuts,
        problem.gradients[:, 0],
        problem.gradients[:, 1],
        problem.params,
        task_column,
    )


@given(problem=problems())
@settings(max_examples=400, deadline=None)
def test_core_grows_the_twins_tree(problem: Problem) -> None:
    kernel, expected = grow(problem, None, symmetric=True), twin(problem)
    assert_equal_tree(kernel, expected)
    assert_array_equal(kernel["score"], expected.score)


@given(problem=with_task_column(), penalty=PENALTIES)
@settings(max_examples=200, deadline=None)
def test_core_grows_the_twins_tree_with_task_splits(
    problem: tuple[Problem, int], penalty: float
) -> None:
    whole, place = problem
    column = TaskColumn(place, penalty)
    assert_equal_tree(grow(whole, None, task_column=column, symmetric=True), twin(whole, column))


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
    one, many = (grow(problem, None, n, symmetric=True) for n in (1, n_threads))
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
