# SPDX-License-Identifier: Apache-2.0
"""The C++ grower grows the naive twin's trees: any score, ties, missing values, absent tasks.

Gradients are multiples of 1/8 and small, so that every float64 sum is exact whatever its order;
what remains is the rounding of S itself, which the kernel sums up over tasks in another way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from oracle import naive
from oracle.naive_task_splits import TaskColumn

from mtboost import _core

# Entropy is ln R - (Σ r ln r)/R in the kernel, −Σ P ln P in the twin: each side is right to some
# 1e-15 relative to its terms, which float32 S hides but for the last place; two for good measure.
SCORE_ULPS = 2
# S of variance is what a sum leaves of s: errors near 1e-15 of the largest s. Deviation takes a
# root first, of squares that may leave next to nothing: errors near the root of 1e-15.
SCORE_ERROR = {"deviation": 1e-6}
SMALL_ERROR = 1e-12


@dataclass(frozen=True)
class Problem:
    bins: np.ndarray  # -1 is missing
    cuts: list[naive.Cuts]
    gradients: np.ndarray
    task: np.ndarray
    n_tasks: int
    params: naive.Params
    is_sparse: bool


def tasks_and_gradients(
    draw: st.DrawFn, rng: np.random.Generator, bins: np.ndarray, n_tasks: int
) -> tuple[np.ndarray, np.ndarray]:
    """The task of each row, and gradients and hessians that differ by task."""
    n_rows, n_columns = bins.shape
    weights = rng.random(n_tasks) ** 3 + 1e-3  # some tasks are rare, or absent
    task = rng.choice(n_tasks, n_rows, p=weights / weights.sum())
    effect = rng.integers(-3, 4, (n_tasks, n_columns))
    gradient = (effect[task] * (bins > 2)).sum(axis=1) + rng.integers(-4, 5, n_rows) / 8
    hessian = rng.integers(draw(st.integers(0, 1)), 5, n_rows) / 4
    return task, np.column_stack([gradient, hessian]).astype(np.float32)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    has_large_tasks = draw(st.booleans())  # so many rows a bin that their histograms are kept
    n_rows = draw(st.integers(300, 900) if has_large_tasks else st.integers(2, 150))
    n_tasks = draw(st.one_of(st.integers(1, 6), st.integers(16, 40)))  # many are taken in stages
    n_bins = draw(st.lists(st.integers(1, 3 if has_large_tasks else 14), min_size=1, max_size=4))
    missing = draw(st.sampled_from([0.0, 0.0, 0.2, 0.9]))
    crowded = draw(st.sampled_from([0.0, 0.0, 0.95]))  # share of the rows that meet in one bin
    cuts, columns = [], []
    for bins in n_bins:
        is_categorical = draw(st.booleans())
        first = 0 if is_categorical else 1
        edges = np.arange(first, first + bins, dtype=np.float32)
        cuts.append(naive.Cuts(edges, np.float32(-1), is_categorical))
        column = np.minimum(rng.integers(0, bins, n_rows), rng.integers(0, bins, n_rows))
        column = np.where(rng.random(n_rows) < crowded, bins // 2, column)
        columns.append(np.where(rng.random(n_rows) < missing, -1, column))
    task, gradients = tasks_and_gradients(draw, rng, np.column_stack(columns), n_tasks)
    params = naive.Params(
        learning_rate=0.5,
        max_depth=3,
        max_leaves=draw(st.sampled_from([0, 5])),
        grow_policy=draw(st.sampled_from(["depthwise", "lossguide"])),
        reg_lambda=draw(st.sampled_from([0.0, 1.0])),
        reg_alpha=draw(st.sampled_from([0.0, 0.5])),
        gamma=draw(st.sampled_from([0.0, 1.0])),
        min_child_weight=draw(st.sampled_from([0.0, 1.0])),
        max_cat_to_onehot=draw(st.sampled_from([1, 4, 100])),
        max_cat_threshold=draw(st.sampled_from([3, 64])),
        max_delta_step=draw(st.sampled_from([0.0, 0.0, 0.5])),
        arithmetic=draw(st.sampled_from(["xgboost-3.0", "xgboost-3.4"])),
    )
    return Problem(
        np.column_stack(columns),
        cuts,
        gradients,
        task,
        n_tasks,
        params,
        is_sparse=draw(st.booleans()),
    )


@st.composite
def with_task_column(draw: st.DrawFn) -> tuple[Problem, int]:
    """A problem one of whose columns is the task of its rows, and the place of that column."""
    problem = draw(problems())
    codes = np.arange(problem.n_tasks, dtype=np.float32)
    cuts, columns = list(problem.cuts), list(problem.bins.T)
    place = draw(st.integers(0, len(cuts)))
    cuts.insert(place, naive.Cuts(codes, np.float32(0), is_categorical=True))
    columns.insert(place, problem.task)
    return replace(problem, cuts=cuts, bins=np.column_stack(columns)), place


def grow(
    problem: Problem,
    score: _core.SplitScore | None,
    n_threads: int = 1,
    task_column: TaskColumn | None = None,
    symmetric: bool = False,
    random_strength: float = 0.0,
    tree_number: int = 0,
    quantized_gradients: bool = False,
    unseen_at_random: bool = False,
) -> dict:
    """The kernel's tree, with the leaf of every row."""
    X = problem.bins.astype(np.float32)  # value b of a numerical feature lies in bin b
    X[problem.bins < 0] = np.nan
    order = np.argsort(problem.task, kind="stable").astype(np.uint32)
    counts = np.bincount(problem.task, minlength=problem.n_tasks)
    builder = _core.BinnedMatrixBuilder(
        offsets=np.cumsum([0, *(cut.n_bins for cut in problem.cuts)]).astype(np.uint32),
        values=np.concatenate([cut.edges for cut in problem.cuts]),
        min_values=np.array([cut.minimum for cut in problem.cuts], np.float32),
        is_categorical=np.array([cut.is_categorical for cut in problem.cuts], np.uint8),
        n_rows=len(X),
        may_be_missing=np.full(X.shape[1], np.isnan(X).any(), np.uint8),
        storage_order=order,
        is_sparse=problem.is_sparse and bool(np.isnan(X).any()),
    )
    builder.add(X, n_threads=1)
    grower = _core.TreeGrower(
        builder.build(),
        score=score,
        first_rows=np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32),
        task_column=task_column and task_column.column,
        task_penalty=task_column.penalty if task_column else 1.0,
        symmetric=symmetric,
        random_strength=random_strength,
        quantized_gradients=quantized_gradients,
        unseen_at_random=unseen_at_random,
    )
    p = problem.params
    params = _core.XgboostParams(
        learning_rate=p.learning_rate,
        max_depth=p.max_depth,
        max_leaves=p.max_leaves,
        loss_guided=p.grow_policy == "lossguide",
        min_split_loss=p.gamma,
        min_child_weight=p.min_child_weight,
        reg_lambda=p.reg_lambda,
        reg_alpha=p.reg_alpha,
        max_cat_to_onehot=p.max_cat_to_onehot,
        max_cat_threshold=p.max_cat_threshold,
        max_delta_step=p.max_delta_step,
        arithmetic=p.arithmetic,
    )
    grown, leaves = grower.grow(
        params, problem.gradients, tree_number=tree_number, n_threads=n_threads
    )
    tree = grown.arrays()
    numbers = ("gain", "score", "hessian", "base_weight", "value")  # XGBoost keeps floats
    return {
        **tree,
        **{name: tree[name].astype(np.float32) for name in numbers},
        "leaf_of_row": leaves,
    }


def twin(problem: Problem, score: naive.Score, task_column: TaskColumn | None = None) -> naive.Tree:
    return naive.grow_tree(
        problem.bins,
        problem.cuts,
        problem.gradients[:, 0],
        problem.gradients[:, 1],
        problem.params,
        task=problem.task,
        score=score,
        task_column=task_column,
    )


def assert_same_tree(kernel: dict, expected: naive.Tree, error: float) -> None:
    """Equal, or they part at a node where both claim the same S but for its last places.

    Loss-guided growth may also part where two leaves are as urgent as each other but for those.
    """

    def are_alike(a: np.ndarray, b: np.ndarray) -> bool:
        ulps = SCORE_ULPS * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        return bool(np.all(np.abs(a - b) <= ulps + error * kernel["gain"].max()))

    for node in range(min(len(kernel["left"]), len(expected.left))):
        is_inner = expected.left[node] >= 0
        same = (kernel["left"][node] >= 0) == is_inner and (
            not is_inner
            or (
                kernel["feature"][node] == expected.feature[node]
                and kernel["threshold"][node] == expected.threshold[node]
                and kernel["default_left"][node] == expected.default_left[node]
                and kernel["gain"][node] == expected.gain[node]
            )
        )
        a, b = kernel["score"][node], expected.score[node]
        assert are_alike(a, b), (node, a, b)
        if not same:
            return
    parted = np.flatnonzero(kernel["left"] != expected.left)
    if len(parted):
        assert are_alike(np.sort(kernel["score"]), np.sort(expected.score))
        return
    assert_equal_tree(kernel, expected)


def assert_equal_tree(kernel: dict, expected: naive.Tree) -> None:
    """Equal but for the last places of S."""
    is_inner = expected.left >= 0
    for name in ("feature", "threshold", "default_left", "gain"):
        assert_array_equal(kernel[name][is_inner], getattr(expected, name)[is_inner])
    assert_array_equal(kernel["left"], expected.left)
    assert_array_equal(kernel["right"], expected.right)
    assert_array_equal(kernel["value"][expected.left < 0], expected.value[expected.left < 0])
    assert_array_equal(kernel["hessian"], expected.hessian)
    assert_array_equal(kernel["base_weight"], expected.base_weight)
    assert_array_equal(kernel["leaf_of_row"], expected.leaf_of_row)
    starts = kernel["category_starts"]
    for number, node in enumerate(kernel["categorical_nodes"]):
        categories = kernel["categories"][starts[number] : starts[number + 1]]
        assert_array_equal(categories, expected.categories[int(node)])


SCORES = {
    "plain": (lambda: None, naive.plain),
    "entropy": (_core.entropy_score, naive.entropy),
    "variance": (lambda: _core.variance_score(0.01), naive.variance(0.01)),
    "deviation": (
        _core.deviation_score,
        lambda s, gains: s - np.sqrt(len(gains) * np.var(gains, ddof=1)) if len(gains) > 1 else s,
    ),
    "callable": (
        lambda: _core.callable_score(lambda s, gains: s - np.abs(gains).max(axis=1) / 2),
        lambda s, gains: s - np.abs(gains).max() / 2,
    ),
}


@pytest.mark.parametrize("name", SCORES)
@given(problem=problems())
@settings(max_examples=80, deadline=None)
def test_kernel_grows_the_twins_tree(name: str, problem: Problem) -> None:
    make, score = SCORES[name]
    error = SCORE_ERROR.get(name, SMALL_ERROR)
    assert_same_tree(grow(problem, make()), twin(problem, score), error)


@pytest.mark.parametrize("name", ["entropy", "variance", "deviation"])
@given(problem=problems())
@settings(max_examples=50, deadline=None)
def test_one_task_grows_the_plain_tree(name: str, problem: Problem) -> None:
    single = replace(problem, task=np.zeros_like(problem.task), n_tasks=1)
    kernel, plain = grow(single, SCORES[name][0]()), grow(single, None)
    for field in set(plain) - {"score"}:
        assert_array_equal(kernel[field], plain[field])


@given(problem=problems())
@settings(max_examples=50, deadline=None)
def test_variance_without_beta_grows_the_plain_tree(problem: Problem) -> None:
    kernel, plain = grow(problem, _core.variance_score(0.0)), grow(problem, None)
    for field in plain:
        assert_array_equal(kernel[field], plain[field])


@given(problem=problems(), n_threads=st.sampled_from([2, 7]))
@settings(max_examples=50, deadline=None)
def test_threads_change_nothing(problem: Problem, n_threads: int) -> None:
    one, many = (grow(problem, _core.entropy_score(), n) for n in (1, n_threads))
    for field in one:
        assert_array_equal(one[field], many[field])


PENALTIES = st.sampled_from([1e-3, 0.3, 1.0])


@given(problem=with_task_column(), penalty=PENALTIES)
@settings(max_examples=80, deadline=None)
def test_kernel_grows_the_twins_tree_with_task_splits(
    problem: tuple[Problem, int], penalty: float
) -> None:
    whole, place = problem
    column = TaskColumn(place, penalty)
    kernel, expected = grow(whole, None, task_column=column), twin(whole, naive.plain, column)
    assert_equal_tree(kernel, expected)
    assert_array_equal(kernel["score"], expected.score)


@given(problem=with_task_column())
@settings(max_examples=50, deadline=None)
def test_a_task_column_without_a_penalty_is_a_category(problem: tuple[Problem, int]) -> None:
    whole, place = problem
    free, category = grow(whole, None, task_column=TaskColumn(place, 0.0)), grow(whole, None)
    for field in category:
        assert_array_equal(free[field], category[field])


@given(problem=with_task_column(), n_threads=st.sampled_from([2, 7]))
@settings(max_examples=50, deadline=None)
def test_threads_change_no_task_split(problem: tuple[Problem, int], n_threads: int) -> None:
    whole, place = problem
    one, many = (grow(whole, None, n, TaskColumn(place, 0.3)) for n in (1, n_threads))
    for field in one:
        assert_array_equal(one[field], many[field])
