# SPDX-License-Identifier: Apache-2.0
"""The C++ grower grows the naive twin's trees on LightGBM's bins.

With any score, ties, bins of missing values, absent tasks. Gradients are multiples of 1/8 and
small, so that sums over rows are exact in whatever order; the roundings that remain are those of
LightGBM's ε, which are the same on both sides, and of S, which the kernel sums up over tasks in
another way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from oracle import naive_lightgbm, test_grower
from oracle.naive_task_splits import TaskColumn
from oracle.test_grower import PENALTIES, SCORE_ERROR, SCORE_ULPS, SMALL_ERROR, tasks_and_gradients

from mtboost import _core
from mtboost.lightgbm import bins as own_bins

MISSING = ("None", "Zero", "NaN")


@dataclass(frozen=True)
class Problem:
    data: naive_lightgbm.Data
    gradients: np.ndarray
    task: np.ndarray
    n_tasks: int
    params: naive_lightgbm.Params
    is_sparse: bool
    # What the tree may see; empty: all.
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    active: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    features: np.ndarray = field(default_factory=lambda: np.empty(0, int))


@st.composite
def features(draw: st.DrawFn, column: int, largest: int) -> naive_lightgbm.Feature:
    """Bins of any kind that LightGBM makes, and of one it leaves out: with a single bin."""
    n_bins = draw(st.integers(1, largest))
    is_categorical = n_bins > 1 and draw(st.booleans())
    if is_categorical:
        missing = draw(st.sampled_from(["None", "NaN"]))
    else:  # LightGBM needs two bins for one of NaN, and three for one of 0
        missing = draw(st.sampled_from(MISSING[:1] if n_bins == 1 else MISSING))
        missing = "None" if missing == "Zero" and n_bins == 2 else missing
    upper = np.arange(n_bins) + 0.5
    upper[-1] = np.nan if missing == "NaN" else np.inf
    return naive_lightgbm.Feature(
        column=column,
        upper=np.empty(0) if is_categorical else upper,
        categories=np.arange(n_bins) if is_categorical else np.empty(0, int),
        missing=missing,
        zero=draw(st.integers(0, n_bins - 1)),
        frequent=draw(st.sampled_from([0, draw(st.integers(0, n_bins - 1))])),
        frequent_share=0.0,  # plays no part with one thread
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    has_large_tasks = draw(st.booleans())  # so many rows a bin that their histograms are kept
    fewest = draw(st.sampled_from([1, 40, 40]))
    n_rows = draw(st.integers(300, 900) if has_large_tasks else st.integers(fewest, 150))
    n_tasks = draw(st.one_of(st.integers(1, 6), st.integers(16, 40)))  # many are taken in stages
    n_features = draw(st.integers(1, 5))
    largest = 4 if has_large_tasks else 14
    kinds = [draw(features(column, largest)) for column in range(n_features)]
    crowded = draw(st.sampled_from([0.0, 0.0, 0.95]))  # share of the rows in the frequent bin
    columns = []
    for kind in kinds:
        bins = np.minimum(*rng.integers(0, kind.n_bins, (2, n_rows)))
        columns.append(np.where(rng.random(n_rows) < crowded, kind.frequent, bins))
    if draw(st.booleans()):  # a copy: every cut has an equal
        kinds[-1], columns[-1] = replace(kinds[0], column=n_features - 1), columns[0]
    bins = np.column_stack(columns)
    task, gradients = tasks_and_gradients(draw, rng, bins, n_tasks)
    directions = tuple(rng.integers(-1, 2, n_features).tolist())
    groups = tuple(
        tuple(rng.choice(n_features, rng.integers(1, n_features + 1), replace=False).tolist())
        for _ in range(2)
    )
    factors = tuple(rng.choice([1.0, 0.5, 0.9], n_features).tolist())
    params = naive_lightgbm.Params(
        learning_rate=0.5,
        num_leaves=draw(st.sampled_from([9, 9, 3])),
        max_depth=draw(st.sampled_from([0, 0, 2])),
        min_data_in_leaf=draw(st.sampled_from([1, 3])),
        min_sum_hessian_in_leaf=draw(st.sampled_from([1e-3, 1.0])),
        min_gain_to_split=draw(st.sampled_from([0.0, 0.0, 1.0])),
        lambda_l1=draw(st.sampled_from([0.0, 0.0, 0.5])),
        lambda_l2=draw(st.sampled_from([0.0, 1.0])),
        max_delta_step=draw(st.sampled_from([0.0, 0.0, 0.5])),
        path_smooth=draw(st.sampled_from([0.0, 0.0, 2.0])),
        max_cat_to_onehot=draw(st.sampled_from([1, 4, 100])),
        max_cat_threshold=draw(st.sampled_from([3, 32])),
        cat_smooth=draw(st.sampled_from([0.5, 2.0])),
        cat_l2=draw(st.sampled_from([0.0, 1.0])),
        min_data_per_group=draw(st.sampled_from([1, 1, 10])),
        monotone_constraints=draw(st.sampled_from([(), (), directions])),
        monotone_penalty=draw(st.sampled_from([0.0, 0.5])),
        interaction_constraints=draw(st.sampled_from([(), (), groups])),
        feature_contri=draw(st.sampled_from([(), (), factors])),
    )
    each_alone = [naive_lightgbm.Group([column], is_multi=False) for column in range(n_features)]
    return Problem(
        naive_lightgbm.Data(kinds, each_alone, bins),
        gradients,
        task,
        n_tasks,
        params,
        is_sparse=draw(st.booleans()),
    )


@st.composite
def parts(draw: st.DrawFn) -> Problem:
    """Problems of which a tree sees some rows, tasks and features only."""
    whole = draw(problems())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.random(whole.data.n_rows) < draw(st.sampled_from([0.3, 0.8]))
    active = rng.random(whole.n_tasks) < 0.7
    rows[0], active[whole.task[0]] = True, True  # one row at least
    n_features = len(whole.data.features)
    chosen = rng.choice(n_features, rng.integers(1, n_features + 1), replace=False)
    return replace(whole, rows=rows, active=active, features=np.sort(chosen))


@st.composite
def with_task_column(draw: st.DrawFn) -> tuple[Problem, int]:
    """A problem whose last column is the task of its rows, and the place of that column.

    LightGBM puts rare tasks into bin 0.
    """
    problem = draw(st.one_of(problems(), parts()))
    data, place = problem.data, len(problem.data.features)
    n_rare = draw(st.sampled_from([0, 1, problem.n_tasks // 2]))
    n_bins = problem.n_tasks - n_rare + 1
    feature = naive_lightgbm.Feature(
        column=place,
        upper=np.empty(0),
        categories=np.arange(n_bins),
        missing="None",
        zero=0,
        frequent=draw(st.integers(0, n_bins - 1)),
        frequent_share=0.0,
    )
    bins = np.where(problem.task < n_rare, 0, problem.task - n_rare + 1)
    params = problem.params
    if params.monotone_constraints:
        params = replace(params, monotone_constraints=(*params.monotone_constraints, 0))
    if params.feature_contri:
        params = replace(params, feature_contri=(*params.feature_contri, 0.9))
    chosen = [problem.features, [place]] if len(problem.features) else [problem.features]
    alone = naive_lightgbm.Group([place], is_multi=False)
    whole = naive_lightgbm.Data(
        [*data.features, feature], [*data.groups, alone], np.column_stack([data.bins, bins])
    )
    features = np.concatenate(chosen).astype(int)
    return replace(problem, data=whole, params=params, features=features), place


def matrix_of(problem: Problem) -> _core.BinnedMatrix:
    """Each feature in a separate column."""
    features = own_features(problem)
    columns = []
    for i, feature in enumerate(features):
        bins = problem.data.bins[:, i]
        entries = np.where(bins == feature.frequent_bin, 0, bins + (feature.frequent_bin > 0))
        columns.append(own_bins._Column(entries.astype("<u2").view(np.uint8), 16, None))
    places = list(range(len(features)))
    order = np.argsort(problem.task, kind="stable").astype(np.uint32)
    stored = own_bins.Bins(problem.data.n_rows, features, columns, places, [1] * len(features))
    bytes_per_value = 0 if problem.is_sparse else math.inf
    with patch.object(own_bins, "_SPARSE_BYTES", bytes_per_value):
        matrix = stored.matrix(order, n_threads=1)
    assert matrix.is_sparse == problem.is_sparse
    return matrix


def own_features(problem: Problem) -> list[own_bins.Feature]:
    return [
        own_bins.Feature(
            upper_bounds=feature.upper,
            categories=feature.categories,
            missing_type=MISSING.index(feature.missing),
            zero_bin=feature.zero,
            frequent_bin=feature.frequent,
            frequent_share=feature.frequent_share,
        )
        for feature in problem.data.features
    ]


@dataclass(frozen=True)
class Grown:
    arrays: dict[str, np.ndarray]
    leaves: np.ndarray  # of the rows that took part in growing
    found: np.ndarray  # of all rows, by the finished tree


def grow(
    problem: Problem,
    score: _core.SplitScore | None,
    n_threads: int = 1,
    task_column: TaskColumn | None = None,
) -> Grown:
    """The kernel's tree."""
    matrix = matrix_of(problem)
    counts = np.bincount(problem.task, minlength=problem.n_tasks)
    grower = _core.TreeGrower(
        matrix,
        score=score,
        first_rows=np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32),
        task_column=task_column and task_column.column,
        task_penalty=task_column.penalty if task_column else 1.0,
    )
    of_twin_alone = {"extra_trees", "extra_seed", "feature_fraction_seed"}
    of_twin_alone |= {"num_threads", "force_row_wise", "deterministic"}
    params = {
        name: value for name, value in asdict(problem.params).items() if name not in of_twin_alone
    }
    sample = {
        name: part.astype(kind)
        for name, part, kind in (
            ("rows", problem.rows, np.uint8),
            ("tasks", problem.active, np.uint8),
            ("features", problem.features, np.uint32),
        )
        if len(part)
    }
    grown, leaves = grower.grow(
        _core.LightgbmParams(**params), problem.gradients, **sample, n_threads=n_threads
    )
    return Grown(grown.arrays(), leaves, grown.leaves(matrix, n_threads=n_threads))


class Chosen(naive_lightgbm.Draws):
    """A tree that sees only some features."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.data, problem.params)
        self._chosen = set(problem.features.tolist())

    def features_of_tree(self) -> set[int]:
        return super().features_of_tree() & self._chosen


def twin(
    problem: Problem,
    score: naive_lightgbm.Score | None,
    min_tasks: int,
    task_column: TaskColumn | None = None,
) -> naive_lightgbm.Tree:
    rows = np.ones(problem.data.n_rows, bool)
    if len(problem.rows):
        rows = problem.rows & problem.active[problem.task]
    return naive_lightgbm.grow_tree(
        problem.data,
        problem.gradients[:, 0],
        problem.gradients[:, 1],
        problem.params,
        rows=np.flatnonzero(rows),
        draws=Chosen(problem) if len(problem.features) else None,
        task=problem.task,
        score=score,
        min_tasks=min_tasks,
        task_column=task_column,
    )


def inner_nodes(arrays: dict[str, np.ndarray]) -> Iterator[tuple[int, int]]:
    """The kernel's inner nodes in the order in which they were cut, each with its leaf number."""
    inner = np.flatnonzero(arrays["left"] >= 0)
    number = {0: 0}
    for i, node in enumerate(inner[np.argsort(arrays["left"][inner])].tolist()):
        yield node, number[node]
        number[int(arrays["left"][node])] = number[node]
        number[int(arrays["right"][node])] = i + 1


def assert_same_tree(
    name: str, problem: Problem, grown: Grown, expected: naive_lightgbm.Tree
) -> None:
    """Equal, or they part at a cut for which both claim the same S but for its last places.

    They may not where S is the gain s, or 0 and s decides: these are the same on both sides.
    """
    arrays = grown.arrays
    error = SCORE_ERROR.get(name, SMALL_ERROR) * arrays["gain"].max()
    cuts = list(inner_nodes(arrays))
    expected_cuts = [expected_cut(expected, i) for i in range(len(expected.left))]
    for i, (node, number) in enumerate(cuts):
        a, b = arrays["score"][node], expected.score[i]
        ulps = SCORE_ULPS * np.spacing(np.float32(max(abs(a), abs(b))))
        assert a == b or (name != "plain" and abs(a - b) <= ulps + error)
        if kernel_cut(problem, arrays, node, number) != expected_cuts[i]:
            assert name != "plain"
            assert a != 0
            return
        assert np.float32(arrays["gain"][node]) == expected.gain[i]
    assert len(cuts) == len(expected_cuts)
    node_of_leaf = {0: 0}
    for i, (node, number) in enumerate(cuts):
        node_of_leaf |= {number: arrays["left"][node], i + 1: arrays["right"][node]}
    leaves = [node_of_leaf[number] for number in range(len(node_of_leaf))]
    inner = [node for node, _ in cuts]
    # LightGBM before 4.6 has nothing of the root, and no LightGBM anything of a single leaf.
    assert_array_equal(
        arrays["base_weight"][inner[1:]] * problem.params.learning_rate, expected.value[1:]
    )
    assert_array_equal(arrays["n_rows"][inner], expected.count)
    if inner:
        assert_array_equal(arrays["value"][leaves], expected.leaf_value)
        assert_array_equal(arrays["hessian"][leaves], expected.leaf_hessian)
    assert_array_equal(arrays["n_rows"][leaves], expected.leaf_count)
    takes_part = expected.leaf_of_row >= 0
    assert_array_equal(grown.leaves[takes_part], np.array(leaves)[expected.leaf_of_row[takes_part]])
    assert_array_equal(np.where(takes_part, grown.leaves, ~grown.leaves), grown.found)


def kernel_cut(
    problem: Problem, arrays: dict[str, np.ndarray], node: int, number: int
) -> tuple[Any, ...]:
    """Leaf that is cut, feature, default direction, threshold or categories on the left."""
    feature, default_left = int(arrays["feature"][node]), bool(arrays["default_left"][node])
    if problem.data.features[feature].is_categorical:
        place = np.flatnonzero(arrays["categorical_nodes"] == node)[0]
        begin, end = arrays["category_starts"][place : place + 2]
        return number, feature, default_left, arrays["categories"][begin:end].tolist()
    threshold = own_bins.threshold_of(
        own_features(problem), feature, int(arrays["position"][node]), default_left
    )
    return number, feature, default_left, threshold


def expected_cut(tree: naive_lightgbm.Tree, i: int) -> tuple[Any, ...]:
    leftmost = i
    while leftmost >= 0:  # a left child keeps its parent's number
        leftmost = int(tree.left[leftmost])
    what = tree.categories.get(i, tree.threshold[i])
    return -1 - leftmost, tree.column[i], tree.default_left[i], what


def naive_callable(s: float, gains: np.ndarray) -> float:
    """The kernel hands floats to a callable."""
    return float(np.float32(s)) - np.abs(gains).max() / 2


#: How to make a score, its twin, and the fewest tasks of a node that it is asked for.
SCORES = {
    **{name: (make, score, 2) for name, (make, score) in test_grower.SCORES.items()},
    "plain": (lambda: None, None, 2),
    "callable": (test_grower.SCORES["callable"][0], naive_callable, 1),
}


@pytest.mark.parametrize("name", SCORES)
@given(problem=problems())
@settings(max_examples=100, deadline=None)
def test_kernel_grows_the_twins_tree(name: str, problem: Problem) -> None:
    make, score, min_tasks = SCORES[name]
    assert_same_tree(name, problem, grow(problem, make()), twin(problem, score, min_tasks))


@pytest.mark.parametrize("name", ["plain", "deviation"])
@given(problem=parts())
@settings(max_examples=100, deadline=None)
def test_kernel_grows_the_twins_tree_on_part_of_the_data(name: str, problem: Problem) -> None:
    make, score, min_tasks = SCORES[name]
    assert_same_tree(name, problem, grow(problem, make()), twin(problem, score, min_tasks))


@pytest.mark.parametrize("name", ["entropy", "variance", "deviation"])
@given(problem=problems())
@settings(max_examples=30, deadline=None)
def test_one_task_grows_the_plain_tree(name: str, problem: Problem) -> None:
    single = replace(problem, task=np.zeros_like(problem.task), n_tasks=1)
    kernel, plain = grow(single, SCORES[name][0]()), grow(single, None)
    for name in set(plain.arrays) - {"score"}:
        assert_array_equal(kernel.arrays[name], plain.arrays[name])


@given(problem=problems(), n_threads=st.sampled_from([2, 7]))
@settings(max_examples=30, deadline=None)
def test_threads_change_nothing(problem: Problem, n_threads: int) -> None:
    one, many = (grow(problem, _core.entropy_score(), n) for n in (1, n_threads))
    for name in one.arrays:
        assert_array_equal(one.arrays[name], many.arrays[name])
    assert_array_equal(one.leaves, many.leaves)


@given(problem=with_task_column(), penalty=PENALTIES)
@settings(max_examples=200, deadline=None)
def test_kernel_grows_the_twins_tree_with_task_splits(
    problem: tuple[Problem, int], penalty: float
) -> None:
    whole, place = problem
    column = TaskColumn(place, penalty)
    grown, expected = grow(whole, None, task_column=column), twin(whole, None, 2, column)
    assert_same_tree("plain", whole, grown, expected)


@given(problem=with_task_column())
@settings(max_examples=50, deadline=None)
def test_a_task_column_without_a_penalty_is_a_category(problem: tuple[Problem, int]) -> None:
    whole, place = problem
    free, category = grow(whole, None, task_column=TaskColumn(place, 0.0)), grow(whole, None)
    for name, array in category.arrays.items():
        assert_array_equal(free.arrays[name], array)
