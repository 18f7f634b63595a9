# SPDX-License-Identifier: Apache-2.0
"""Quantized gradients: trees of gradients that Python rounds, and leaf values of those given."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from oracle.naive_forest import mix
from oracle.test_grower import Problem, grow, problems

from mtboost import _core

ROUNDING_OF_GRADIENTS = 8  # RandomStream::Purpose
SEED = 0
SCORES = {"plain": None, "entropy": _core.entropy_score(), "deviation": _core.deviation_score()}


def step_of(numbers: list[Fraction]) -> Fraction:
    """The power of two of which the largest number, or a little more, is 2¹⁵ times."""
    largest = max(abs(number) for number in numbers)
    exponent = math.frexp(largest)[1] if largest else 0
    return Fraction(2) ** max(exponent - 15, -126)


def rounded(problem: Problem, tree: int) -> NDArray[np.float32]:
    """Multiples of a step, up or down by a draw for each row in the order of storage."""
    state = 0
    for part in (ROUNDING_OF_GRADIENTS, SEED, tree, 0):
        state = mix(state ^ part)
    gradients, hessians = ([Fraction(float(x)) for x in column] for column in problem.gradients.T)
    steps = step_of(gradients), step_of(hessians)
    result = np.empty_like(problem.gradients)
    for place, row in enumerate(np.argsort(problem.task, kind="stable")):
        bits = mix((state + (place + 1) * 0x9E3779B97F4A7C15) % 2**64)
        draws = Fraction(bits >> 32, 2**32), Fraction(bits % 2**32, 2**32)
        for column, pair in enumerate(zip((gradients[row], hessians[row]), draws, strict=True)):
            number, draw = pair
            result[row, column] = math.floor(number / steps[column] + draw) * steps[column]
    return result


def with_any_gradients(problem: Problem) -> Problem:
    """The gradients times numbers from 0.5 to 1, so that few lie on the grid."""
    factors = np.random.default_rng(0).uniform(0.5, 1.0, problem.gradients.shape)
    return replace(problem, gradients=(problem.gradients * factors).astype(np.float32))


def weight(problem: Problem, gradients: NDArray[np.float32], rounded_hessian: float) -> float:
    """chen2016, eq. 5, with XGBoost's penalties; the rounded hessian decides what is too light."""
    p = problem.params
    gradient, hessian = gradients.astype(float).sum(axis=0)
    if rounded_hessian >= p.min_child_weight:
        hessian = max(hessian, p.min_child_weight)
    is_too_light = p.arithmetic == "xgboost-3.0" and hessian < p.min_child_weight
    if is_too_light or hessian <= 0.0:
        return 0.0
    pulled = math.copysign(max(abs(gradient) - p.reg_alpha, 0.0), gradient)
    found = -pulled / (hessian + p.reg_lambda)
    return max(-p.max_delta_step, min(found, p.max_delta_step)) if p.max_delta_step else found


@pytest.mark.parametrize("score", SCORES)
@given(problem=problems(), tree=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_trees_are_those_of_rounded_gradients(problem: Problem, tree: int, score: str) -> None:
    problem = with_any_gradients(problem)
    quantized = grow(problem, SCORES[score], tree_number=tree, quantized_gradients=True)
    twin = replace(problem, gradients=rounded(problem, tree))
    expected = grow(twin, SCORES[score], tree_number=tree)
    is_leaf = expected["left"] < 0
    for name, numbers in expected.items():
        if name not in ("value", "base_weight"):
            assert_array_equal(quantized[name], numbers, name)
    assert_array_equal(quantized["base_weight"][~is_leaf], expected["base_weight"][~is_leaf])
    for leaf in np.flatnonzero(is_leaf):
        own = problem.gradients[quantized["leaf_of_row"] == leaf]
        value = weight(problem, own, quantized["hessian"][leaf]) * problem.params.learning_rate
        # XGBoost's weights are floats.
        assert quantized["value"][leaf] == pytest.approx(value, rel=1e-6, abs=1e-12)


@given(problem=problems())
@settings(max_examples=200, deadline=None)
def test_gradients_on_the_grid_are_not_changed(problem: Problem) -> None:
    quantized, expected = grow(problem, None, quantized_gradients=True), grow(problem, None)
    assert list(quantized) == list(expected)
    for name, numbers in expected.items():
        assert_array_equal(quantized[name], numbers, name)
